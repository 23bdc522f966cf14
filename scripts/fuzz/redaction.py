"""Plant secret names in models and engines, and look for them in every document of a run without names.

    python scripts/fuzz/redaction.py --seed 1 --models 6 --engines 12

Every part of a model that a person gives a name to gets one: graphs, nodes, tensors, dimensions, functions, domains,
attributes, descriptions, metadata, files and their folders, tags, the user and the host. Exit code 1 if one is found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.planted_names import search


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", type=int, default=6, help="models that are run")
    parser.add_argument("--engines", type=int, default=12, help="engines whose files are analysed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = search(Path(folder), options.seed, options.models, options.engines)
    for where, name in found.leaks:
        print(f"{name} in {where}")
    print(f"{found.planted} names planted, {found.documents} documents, {len(found.leaks)} found")
    return 1 if found.leaks else 0


if __name__ == "__main__":
    sys.exit(main())
