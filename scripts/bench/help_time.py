"""How long `trtprof --help` takes, whole process, and what it imports.

python scripts/bench/help_time.py [--runs 10]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    beside = Path(sys.executable).with_name("trtprof")
    command = [str(beside) if beside.exists() else shutil.which("trtprof") or "trtprof", "--help"]
    times = []
    for _ in range(options.runs + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    counted = times[1:]  # the first one warms the file cache
    print(f"trtprof --help: median {statistics.median(counted):.3f} s, min {min(counted):.3f}, max {max(counted):.3f}")
    probe = (
        "import sys; from trtprof.cli import load_commands; load_commands(); "
        "print(*(m for m in ('pandas', 'onnx') if m in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout.split()
    print("imports of pandas, onnx:", ", ".join(found) or "neither")


if __name__ == "__main__":
    main()
