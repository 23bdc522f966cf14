"""How long every format of a comparison takes to render, and how large it is.

    python scripts/bench/comparison_formats.py [--parts 10000] [--repeats 3]

The comparison is made up, the one of the tests of its reporters: ``--parts`` parts that all changed. Exit code 1 where
the best of ``--repeats`` is over 3 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from trtprof.report import render

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.fakes.comparison_factory import document, many  # noqa: E402

TARGET_SECONDS = 3.0
FORMATS = ("text", "json", "markdown", "html")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found = document(many(options.parts))
    slow = False
    print(f"{options.parts:,} parts\n{'format':<10} {'best':>8} {'bytes':>12}")
    for name in FORMATS:
        times = []
        for _ in range(options.repeats):
            began = time.perf_counter()
            text = render(found, name)
            times.append(time.perf_counter() - began)
        slow = slow or min(times) > TARGET_SECONDS
        print(f"{name:<10} {min(times):>6.2f} s {len(text.encode()):>12,}")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
