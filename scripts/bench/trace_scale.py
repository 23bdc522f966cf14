"""How fast a large capture is read and every kernel of it led back to its layer, and in how much memory.

    python scripts/bench/trace_scale.py [--iterations 20000] [--nsys nsys] [--folder FOLDER]

A capture is generated (`trace_files`): 20,000 runs of an engine of 58 layers are 720,000 kernels, 80,000 copies and
1,180,000 NVTX ranges. A child process reads it (``capture.trace.read_trace``) and aligns it
(``align.gpu_kernels.align_trace``), with the layers as a plan names them and without; its peak memory is its own
ru_maxrss, imports and Python included. All layers are compared with the truth. The same is done with a tenth of the
iterations, which says how time grows. `trtprof analyze --nsys` of the same file is timed as a whole process, with its
imports, the analysis and what it prints. Where nsys is found, ``nsys stats --report nvtx_kern_sum`` (nvtxkernsum before
2023.2) of the same file is timed beside it.

Times are compared by CPU time, which other work on the machine changes little, and each is the least of some runs;
nsys starts a Python of its own, whose start is in its time, while the imports of the child are not in ours but in
that of the whole process.

Exit code 1 where a kernel has a wrong layer, peak memory is above 400 MB, 10 times the rows take more than 11 times
as long, the whole process takes more than 4 s, or nsys is less than 8 times slower than either.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

MEGABYTE = 1_000_000
MOST_BYTES = 400 * MEGABYTE
MOST_GROWTH = 11.0
LEAST_SPEEDUP = 8.0
MOST_WHOLE_S = 4.0
_REPORTS = ("nvtx_kern_sum", "nvtxkernsum")


def measure(path: Path, names: list[str] | None) -> dict[str, Any]:
    """Read and align a file in this process; ``names`` are the layers of the plan, None to take them from NVTX."""
    import pandas  # noqa: F401, ICN001  the import is not what is timed

    from trtprof.align.gpu_kernels import align_trace
    from trtprof.base.records import MatchedLayer, PlanLayer
    from trtprof.capture.nsys.trace import read_trace

    layers = None if names is None else [MatchedLayer(layer=PlanLayer(name=name, kind="")) for name in names]
    gc.disable()
    began, began_cpu = time.perf_counter(), time.process_time()
    trace = read_trace(path)
    read = time.perf_counter()
    read_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    aligned = align_trace(trace, layers)
    done, done_cpu = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # What is written of kernel_7... is launched in layer_7: ...
    wrong = 0
    for layer, found in zip(aligned.layers, aligned.matches, strict=True):
        number = layer.layer.name.removeprefix("layer_").partition(":")[0]
        for match in found:
            if match.kernel.startswith("kernel_") and not match.kernel.startswith(f"kernel_{number}_"):
                wrong += match.count
    return {
        "read_s": read - began,
        "align_s": done - read,
        "total_s": done - began,
        "cpu_s": done_cpu - began_cpu,
        "read_bytes": read_bytes,
        "peak_bytes": peak,
        "kernels": int((trace.work["kind"] == "kernel").sum()),
        "ranges": len(trace.ranges),
        "wrong": wrong + sum(match.count for match in aligned.unattributed),
        "layers": len(aligned.layers),
        "iterations": len(aligned.iterations),
        "captured_ns": aligned.captured_ns,
        "exact": aligned.coverage.exact,
    }


def in_child(path: Path, names: list[str] | None, repeats: int) -> dict[str, Any]:
    """The fastest of some child processes, with the most memory that one took."""
    found = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--child", str(path), json.dumps(names)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout))
    best: dict[str, Any] = min(found, key=lambda each: float(each["cpu_s"]))
    return best | {"peak_bytes": max(each["peak_bytes"] for each in found)}


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def whole_seconds(path: Path, repeats: int) -> tuple[float, float]:
    """Time of `trtprof analyze` as a process: on the clock, and of the CPU; the fastest of some runs."""
    code = "import sys; from trtprof.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "analyze", "--nsys", str(path), "--gpu", "rtx-4090"]
    found = []
    for _ in range(repeats):
        began, began_cpu = time.perf_counter(), children_cpu()
        subprocess.run(command, check=True, capture_output=True)
        found.append((time.perf_counter() - began, children_cpu() - began_cpu))
    return min(found, key=lambda seconds: seconds[1])


def nsys_seconds(nsys: str, path: Path, repeats: int) -> tuple[float, float] | None:
    """Time of NVIDIA's own report of kernels by range: on the clock, and of the CPU; the fastest of some runs."""
    found = []
    for report in _REPORTS:
        for _ in range(repeats):
            began, began_cpu = time.perf_counter(), children_cpu()
            words = [nsys, "stats", "--report", report, "--format", "csv", "--output", "-", str(path)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode or "NVTX Range" not in done.stdout:
                print(f"nsys stats --report {report}: {(done.stderr or done.stdout).strip()[-200:]}", file=sys.stderr)
                break
            found.append((time.perf_counter() - began, children_cpu() - began_cpu))
    return min(found, key=lambda seconds: seconds[1], default=None)


def show(what: str, found: dict[str, Any]) -> None:
    print(
        f"{what}: {found['kernels']} kernels, {found['ranges']} ranges: read {found['read_s']:.2f} s, "
        f"align {found['align_s']:.2f} s, together {found['total_s']:.2f} s ({found['cpu_s']:.2f} of CPU); "
        f"peak {found['peak_bytes'] / MEGABYTE:.0f} MB ({found['read_bytes'] / MEGABYTE:.0f} after reading); "
        f"{found['layers']} layers, {found['iterations']} iterations, exact {found['exact']:.2%}, "
        f"{found['wrong']} wrong"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--era", default="2023.4", help="of the schema: nsys stats refuses files of older ones")
    parser.add_argument("--nsys", default=shutil.which("nsys"))
    parser.add_argument("--folder", type=Path, help="where to write the files, of up to 300 MB")
    parser.add_argument("--child", nargs=2, metavar=("FILE", "LAYERS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(Path(options.child[0]), json.loads(options.child[1]))))
        return 0

    from trace_files import write_large

    ok = True
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        sizes = {"tenth": options.iterations // 10, "whole": options.iterations}
        results = {}
        for what, iterations in sizes.items():
            path = Path(folder) / f"{what}.sqlite"
            written = write_large(path, iterations, era=options.era)
            names = [f"layer_{at}: /blocks.{at // 6}/op_{at % 6}/Conv + relu" for at in range(58)]
            results[what] = in_child(path, names, options.repeats)
            show(f"{iterations} iterations, {path.stat().st_size / MEGABYTE:.0f} MB, with a plan", results[what])
            from_ranges = in_child(path, None, options.repeats)
            show(f"{iterations} iterations, without a plan", from_ranges)
            for found in (results[what], from_ranges):
                ok &= not found["wrong"] and found["kernels"] == written.kernels
                ok &= found["peak_bytes"] <= MOST_BYTES
        growth = results["whole"]["cpu_s"] / results["tenth"]["cpu_s"]
        print(f"10 times the rows take {growth:.1f} times as long")
        ok &= growth <= MOST_GROWTH
        whole = whole_seconds(Path(folder) / "whole.sqlite", options.repeats)
        print(f"trtprof analyze --nsys, the same file, a whole process: {whole[0]:.2f} s ({whole[1]:.2f} of CPU)")
        ok &= whole[1] <= MOST_WHOLE_S
        if options.nsys:
            seconds = nsys_seconds(options.nsys, Path(folder) / "whole.sqlite", options.repeats)
            if seconds is not None:
                speedups = [seconds[1] / ours for ours in (results["whole"]["cpu_s"], whole[1])]
                print(
                    f"{options.nsys} stats, the same file: {seconds[0]:.1f} s ({seconds[1]:.1f} of CPU), "
                    f"{speedups[0]:.1f} times as long as reading and aligning, {speedups[1]:.1f} as the whole process"
                )
                ok &= min(speedups) >= LEAST_SPEEDUP
        else:
            print("nsys is not installed: its time is not shown")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
