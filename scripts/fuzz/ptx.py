"""Hold compiled kernels, executed in numpy, against what C says of random expressions.

    python scripts/fuzz/ptx.py --seconds 120 --seed 0

Exit code 1 if one differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.c_expressions import differences
from trtprof.plugin import ptx
from trtprof.runtime import nvrtc

ARCHITECTURES = ("sm_75", "sm_89", "sm_90", "sm_120")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = Random(options.seed)  # noqa: S311
    end = time.monotonic() + options.seconds
    kernels = wrong = 0
    while time.monotonic() < end:
        seed, architecture = random.getrandbits(32), random.choice(ARCHITECTURES)

        def compiled(source: str, architecture: str = architecture) -> ptx.Program:
            return ptx.Program.parse(nvrtc.compile_source(source.encode(), architecture, fast_math=False).ptx)

        kind = random.choice(("unsigned", "float"))
        for one in differences(seed, kind, compiled):
            print(f"{architecture}, seed {seed}: {one}")
            wrong += 1
        kernels += 1
    print(f"{kernels} kernels of 12 expressions, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
