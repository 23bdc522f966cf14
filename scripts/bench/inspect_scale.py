"""How `trtprof inspect` scales with the size of the graph, beside onnx alone.

    python scripts/bench/inspect_scale.py [--repeats 5] [--keep FOLDER]

Generates stacks of decoder layers (`decoder_stack`; weights embedded) of 1,120, 28,000 and 112,000 nodes, the second
with 200 MB of weights, and runs `trtprof inspect`, each time as a whole process, interleaved at 28,000 nodes with
``onnx.load`` and ``onnx.shape_inference.infer_shapes`` of the same file. Per node is the wall time less that of the
stack of no layers, which is starting Python and importing. MACs are compared with the closed form.

Exit code 1 where at 28,000 nodes more CPU time than onnx alone is taken or more than 400 MB, where 112,000 take more
than 4.2 times the CPU time of that, or 1.3 times the time a node, or where MACs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SHAPES = "--shapes=input_ids:1x128,attention_mask:1x128"
START_UP, SMALL, MIDDLE, LARGE = 40, 1_120, 28_000, 112_000
MOST_GROWTH, MOST_A_NODE, MOST_BYTES = 4.2, 1.3, 400_000_000
ONNX_ALONE = "import onnx, sys; onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1]))"
TRTPROF = "import sys; from trtprof.cli import main; sys.exit(main())"
STACK = """
import sys, decoder_stack as d
layers = d.layers_of(int(sys.argv[2]))
open(sys.argv[1], "wb").write(d.decoder_stack(layers).SerializeToString())
print(d.matmul_macs(layers, 1, 128))
"""
"""In a process of its own: the peak memory of a child starts at that of its parent."""


class Row(NamedTuple):
    """Runs of one tool on one size: seconds of wall and CPU time, and peak bytes, of each."""

    wall: Sequence[float]
    cpu: Sequence[float]
    peak: Sequence[int]

    @property
    def wall_s(self) -> float:
        return statistics.median(self.wall)

    @property
    def cpu_s(self) -> float:
        """Other work on the machine changes it little, and the least of all the less."""
        return min(self.cpu)


def run(*words: object, out: Path) -> tuple[float, float, int]:
    """Wall and CPU seconds and peak bytes of a child; what it prints goes to a file."""
    with out.open("wb") as printed:
        began = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-c", *map(str, words)], stdout=printed, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{words[1:]} exited with {child.returncode}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs at each size; their median counts")
    parser.add_argument("--keep", type=Path, help="folder for the models; a temporary one by default")
    options = parser.parse_args()
    rows: dict[tuple[str, int], Row] = {}
    checks: list[tuple[str, str, bool]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for nodes in (START_UP, SMALL, MIDDLE, LARGE):
            file, out = folder / f"decoder_{nodes}.onnx", Path(scratch) / "printed"
            made = [sys.executable, "-c", STACK, str(file), str(nodes)]
            macs = int(subprocess.run(made, check=True, capture_output=True, text=True, cwd=HERE).stdout)
            asked = (TRTPROF, "inspect", file, "--no-engine", SHAPES)
            tools: dict[str, tuple[object, ...]] = {"trtprof": asked}
            if nodes == MIDDLE:
                tools["onnx alone"] = (ONNX_ALONE, file)
            for words in tools.values():
                run(*words, out=out)  # the first one fills the file cache
            turns = [[run(*words, out=out) for words in tools.values()] for _ in range(options.repeats)]
            for tool, runs in zip(tools, zip(*turns, strict=True), strict=True):
                rows[tool, nodes] = row = Row(*zip(*runs, strict=True))
                fixed = rows["trtprof", START_UP].wall_s if tool == "trtprof" else 0.0
                print(
                    f"{tool:<11}{nodes:>8,} nodes{row.wall_s:>9.3f} s{row.cpu_s:>9.2f} s of CPU"
                    f"{max(row.peak) / 1e6:>7.0f} MB{(row.wall_s - fixed) / nodes * 1e6:>8.1f} us a node"
                )
            run(*asked, "--format", "json", out=out)
            ops = json.loads(out.read_bytes())["ops"]
            found = sum(op["work"]["tensor_flops"] // 2 for op in ops if op["op_type"] == "MatMul")
            checks.append((f"MACs at {nodes:,} nodes", f"{found:,} of {macs:,}", found == macs))
    start, middle, large = (rows["trtprof", nodes] for nodes in (START_UP, MIDDLE, LARGE))
    alone, growth = rows["onnx alone", MIDDLE].cpu_s, large.cpu_s / middle.cpu_s
    linear = (large.wall_s - start.wall_s) / LARGE / ((middle.wall_s - start.wall_s) / MIDDLE)
    peak = max(middle.peak)
    checks += [
        ("CPU time beside onnx alone", f"{middle.cpu_s:.2f} s of {alone:.2f} s", middle.cpu_s <= alone),
        ("peak memory", f"{peak / 1e6:.0f} MB", peak <= MOST_BYTES),
        ("CPU time of four times the nodes", f"{growth:.2f}x", growth <= MOST_GROWTH),
        ("time a node of four times the nodes", f"{linear:.2f}x", linear <= MOST_A_NODE),
    ]
    for what, said, passed in checks:
        print(f"{'PASS' if passed else 'FAIL'}  {what}: {said}")
    return int(not all(passed for *_, passed in checks))


if __name__ == "__main__":
    sys.exit(main())
