"""How `trtprof inspect` scales with the size of the graph, side by side with onnx-tool.

    python scripts/bench/inspect_scale.py [--python VENV/bin/python] [--repeats 5] [--timeout 900] [--keep FOLDER]

Generates stacks of decoder layers (`decoder_stack.py`; weights embedded, batch and sequence dynamic) of
1,120, 28,000 and 112,000 nodes (13, 205 and 803 MB; the second holds 200 MB of weights) and runs, each as a
whole process of its own and one after the other,

* `trtprof inspect FILE --no-engine --shapes=input_ids:1x128,attention_mask:1x128`, the median of ``--repeats`` runs;
* ``onnx.load`` and ``onnx.shape_inference.infer_shapes`` of the same file, in turns with it at 28,000 nodes:
  the work that is done at least by a tool that has no reader and no inference of its own;
* onnx-tool doing the same job (`onnx_tool_profile.py`: load, infer shapes, profile) at the sizes of
  ``--peer-nodes``, by default the two smaller: the median of ``--repeats`` at the smallest, once at larger
  ones, each stopped after ``--timeout`` seconds.

``--python`` names the interpreter that has onnx-tool (`python -m venv V && V/bin/pip install onnx-tool`); by
default the one that runs this script. Where it is missing, its rows are left out.

Wall time is from before the start of the child to its end; CPU is its user and system time; peak is the
largest resident set of the child as the kernel accounts it (``ru_maxrss`` of wait4). That figure starts at
the peak of the process that started the child, so models are generated in children too, and this process
stays small (its own peak is printed).

Time per node separates the fixed cost: t0 is the median wall time of the same command on the stack of no
layers at all, 40 nodes, which is starting Python and importing; per node is (t - t0) / nodes. Only the
112,000 / 28,000 ratio of these is a target. The file holds 7 kB of weights a node at every size; inspect
passes them over.

MACs of MatMul nodes are compared with the sum in closed form (`decoder_stack.matmul_macs`), which either
tool must give: speed is not bought by leaving nodes out. Those of trtprof come from one more run with
``--format json``, which lists every node and is shown as a row of its own.

Exit code 1 if a target is missed: at 28,000 nodes 100 times as fast as onnx-tool, no more CPU time than onnx
alone and at most 400 MB; at 112,000 at most 4.2 times the CPU time of that, and per node at most 1.3 times; MACs
as in closed form. A target that was not
measured is said to be so and fails nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BATCH, SEQUENCE = 1, 128
SHAPES = tuple(f"{name}:{BATCH}x{SEQUENCE}" for name in ("input_ids", "attention_mask"))
START_UP, SMALL, MIDDLE, LARGE = 40, 1_120, 28_000, 112_000
MAX_RSS_UNIT = 1 if sys.platform == "darwin" else 1024

TARGET_RATIO = 100.0
TARGET_LINEARITY = 1.3
TARGET_GROWTH = 4.2
TARGET_BYTES = 400_000_000

READ_MACS = """
import json, sys
found = json.load(open(sys.argv[1]))
print(sum(op["work"]["tensor_flops"] // 2 for op in found["ops"] if op["op_type"] == "MatMul"))
"""
ONNX_ALONE = "import onnx, sys; onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1]))"
CLOSED_FORM = "import decoder_stack as d; print(d.matmul_macs(d.layers_of({nodes}), {batch}, {sequence}))"
WRITE_STACK = """
import sys, decoder_stack as d
open(sys.argv[1], "wb").write(d.decoder_stack(d.layers_of({nodes})).SerializeToString())
"""


@dataclass(frozen=True)
class Process:
    """One finished child: seconds of wall and CPU time, peak bytes; ``timed_out`` if it was stopped."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    timed_out: bool = False


@dataclass(frozen=True)
class Row:
    """Runs of one tool on one size."""

    tool: str
    nodes: int
    runs: tuple[Process, ...]
    macs: int | None = None

    @property
    def wall_s(self) -> float:
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        """Other work on the machine changes it little, and the least of all the less."""
        return min(run.cpu_s for run in self.runs)

    @property
    def peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.runs)

    @property
    def timed_out(self) -> bool:
        return any(run.timed_out for run in self.runs)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(command: Sequence[str], output: Path, timeout_s: float | None = None) -> Process:
    """Run a child to its end and account for it; what it prints goes to a file.

    Raises:
        RuntimeError: It failed of itself.
    """
    with output.open("wb") as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=err)
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            child.kill()

        timer = threading.Timer(timeout_s, stop) if timeout_s else None
        if timer:
            timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - began
        if timer:
            timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode and not stopped.is_set():
            err.seek(0)
            said = err.read().decode(errors="replace").strip()
            raise RuntimeError(f"{' '.join(command)} exited with {child.returncode}:\n{said[-2000:]}")
        return Process(
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * MAX_RSS_UNIT,
            timed_out=stopped.is_set(),
        )


def python(code: str, *arguments: str) -> str:
    """What Python code prints that may import the modules beside this script."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def has_onnx_tool(interpreter: str) -> str:
    """Version of the onnx-tool that an interpreter has, or ``""``."""
    code = "import importlib.metadata as m; print(m.version('onnx-tool'))"
    try:
        return subprocess.run([interpreter, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def inspected(trtprof: str, file: Path, nodes: int, repeats: int) -> list[Row]:
    say(f"trtprof, {nodes:,} nodes, {repeats} times")
    commands = {"trtprof": [trtprof, "inspect", str(file), "--no-engine", "--shapes=" + ",".join(SHAPES)]}
    if nodes == MIDDLE:
        commands["onnx alone"] = [sys.executable, "-c", ONNX_ALONE, str(file)]
    output = file.with_suffix(".txt")
    for command in commands.values():
        run(command, output)  # the first one fills the file cache
    turns = [[run(command, output) for command in commands.values()] for _ in range(repeats)]
    return [Row(tool, nodes, runs) for tool, runs in zip(commands, zip(*turns, strict=True), strict=True)]


def inspected_as_json(trtprof: str, file: Path, nodes: int) -> Row:
    say(f"trtprof --format json, {nodes:,} nodes")
    printed = file.with_suffix(".json")
    done = run(
        [trtprof, "inspect", str(file), "--no-engine", "--shapes=" + ",".join(SHAPES), "--format", "json"], printed
    )
    return Row("trtprof json", nodes, (done,), int(python(READ_MACS, str(printed))))


def profiled(interpreter: str, file: Path, nodes: int, repeats: int, timeout_s: float) -> Row:
    say(f"onnx-tool, {nodes:,} nodes, {repeats} times, each at most {timeout_s:.0f} s")
    command = [interpreter, str(HERE / "onnx_tool_profile.py"), str(file), *SHAPES]
    printed = file.with_suffix(".onnx_tool.json")
    runs = tuple(run(command, printed, timeout_s) for _ in range(repeats))
    macs = None if runs[-1].timed_out else json.loads(printed.read_text())["matmul_macs"]
    return Row("onnx-tool", nodes, runs, macs)


def print_table(rows: Sequence[Row], start_up_s: float) -> None:
    print(f"{'tool':<14}{'nodes':>9}{'wall s':>10}{'min..max':>18}{'CPU s':>9}{'peak MB':>9}{'us/node':>9}"
          f"{'MatMul MAC':>17}{'runs':>6}")  # fmt: skip
    for row in rows:
        walls = [done.wall_s for done in row.runs]
        mark = ">" if row.timed_out else ""
        # t0 is that of trtprof: of onnx-tool the time per node includes its start.
        fixed = start_up_s if row.tool.startswith("trtprof") else 0.0
        each = f"{mark}{(row.wall_s - fixed) / row.nodes * 1e6:.1f}" if row.nodes != START_UP else "-"
        macs = f"{row.macs:,}" if row.macs is not None else "-"
        print(
            f"{row.tool:<14}{row.nodes:>9,}{mark + format(row.wall_s, '.3f'):>10}"
            f"{f'{min(walls):.3f}..{max(walls):.3f}':>18}"
            f"{statistics.median(done.cpu_s for done in row.runs):>9.2f}{row.peak_bytes / 1e6:>9.0f}{each:>9}"
            f"{macs:>17}{len(walls):>6}"
        )


def judge(rows: Sequence[Row], start_up_s: float, closed_form: dict[int, int]) -> int:
    """Print each target with its figure; the number of those missed."""
    by_key = {(row.tool, row.nodes): row for row in rows}
    middle, large = by_key["trtprof", MIDDLE], by_key["trtprof", LARGE]
    checks: list[tuple[str, str, bool | None]] = []
    peer = by_key.get(("onnx-tool", MIDDLE))
    speed = f"at least {TARGET_RATIO:.0f} times as fast as onnx-tool at {MIDDLE:,} nodes"
    if peer is None:
        checks.append((speed, "not measured", None))
    else:
        ratio = peer.wall_s / middle.wall_s
        enough = ratio >= TARGET_RATIO
        # A run that was stopped proves a ratio reached, not one missed.
        checks.append(
            (speed, f"{'> ' if peer.timed_out else ''}{ratio:.1f}x", enough or (None if peer.timed_out else False))
        )
    alone, growth = by_key["onnx alone", MIDDLE].cpu_s, large.cpu_s / middle.cpu_s
    linear = ((large.wall_s - start_up_s) / LARGE) / ((middle.wall_s - start_up_s) / MIDDLE)
    checks += [
        (
            f"time per node at {LARGE:,} at most {TARGET_LINEARITY} times that at {MIDDLE:,}",
            f"{linear:.2f}x",
            linear <= TARGET_LINEARITY,
        ),
        (
            f"whole process at {MIDDLE:,} nodes at most the CPU time of onnx.load and infer_shapes",
            f"{middle.cpu_s:.2f} s of {alone:.2f} s",
            middle.cpu_s <= alone,
        ),
        (
            f"whole process at {LARGE:,} nodes at most {TARGET_GROWTH} times the CPU time of that at {MIDDLE:,}",
            f"{growth:.2f}x",
            growth <= TARGET_GROWTH,
        ),
        (
            f"peak memory at {MIDDLE:,} nodes at most {TARGET_BYTES / 1e6:.0f} MB",
            f"{middle.peak_bytes / 1e6:.0f} MB",
            middle.peak_bytes <= TARGET_BYTES,
        ),
    ]
    for row in rows:
        if row.macs is not None:
            right = closed_form[row.nodes]
            checks.append((f"MatMul MACs of {row.tool} at {row.nodes:,} nodes as in closed form",
                           f"{row.macs:,} of {right:,}",
                           row.macs == right or (None if row.tool == "onnx-tool" else False)))  # fmt: skip
    for what, found, passed in checks:
        print(f"{'PASS' if passed else 'not judged' if passed is None else 'FAIL':<11}{what}: {found}")
    return sum(passed is False for _, _, passed in checks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter that has onnx-tool")
    parser.add_argument("--repeats", type=int, default=5, help="runs of trtprof at each size; their median counts")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which onnx-tool is stopped")
    parser.add_argument("--peer-nodes", type=int, nargs="+", choices=(SMALL, MIDDLE, LARGE), default=(SMALL, MIDDLE))
    parser.add_argument("--keep", type=Path, help="folder for the models; a temporary one by default")
    options = parser.parse_args()
    beside = Path(sys.executable).with_name("trtprof")
    trtprof = str(beside) if beside.exists() else shutil.which("trtprof") or "trtprof"
    version = has_onnx_tool(options.python)
    if not version:
        say(f"{options.python} has no onnx-tool, its rows are left out. To have them:\n"
            f"  python -m venv /some/folder && /some/folder/bin/pip install onnx-tool\n"
            f"  {' '.join(sys.argv)} --python /some/folder/bin/python")  # fmt: skip
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        files = {nodes: folder / f"decoder_{nodes}.onnx" for nodes in (START_UP, SMALL, MIDDLE, LARGE)}
        for nodes, file in files.items():
            python(WRITE_STACK.format(nodes=nodes), str(file))
            say(f"wrote {nodes:,} nodes, {file.stat().st_size / 1e6:.0f} MB")
        for nodes, file in files.items():
            rows += inspected(trtprof, file, nodes, options.repeats)
        rows += [inspected_as_json(trtprof, files[nodes], nodes) for nodes in (SMALL, MIDDLE, LARGE)]
        if version:
            for nodes in options.peer_nodes:
                repeats = options.repeats if nodes == SMALL else 1
                rows.append(profiled(options.python, files[nodes], nodes, repeats, options.timeout))
    closed_form = {
        nodes: int(python(CLOSED_FORM.format(nodes=nodes, batch=BATCH, sequence=SEQUENCE)))
        for nodes in (SMALL, MIDDLE, LARGE)
    }
    start_up_s = rows[0].wall_s
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAX_RSS_UNIT
    print(f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}, onnx-tool {version or 'not at hand'}; "
          f"t0 {start_up_s:.3f} s; this process peaked at {own / 1e6:.0f} MB")  # fmt: skip
    print_table(rows, start_up_s)
    missed = judge(rows, start_up_s, closed_form)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
