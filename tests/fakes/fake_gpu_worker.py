"""A worker without a GPU: ``python -m tests.fakes.fake_gpu_worker REQUEST``.

It plays both phases and leaves what the real ones leave. It takes its behaviour from the file ``behaviour.json`` in
the scratch folder of its request, by phase, and notes in ``<phase>_run.json`` there what it was asked and in what
environment.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.errors import MissingError
from trtprof.base.records import Latency, ModeTimes
from trtprof.capture.gpu_record import CleanTimes, GpuWorkerRequest, ProfiledTimes
from trtprof.capture.workers.inference import LATENCY_FILE, say
from trtprof.runtime import child

CLEAN = Latency(median_ns=1_000_000, p99_ns=1_200_000, cv=0.01, n=10, mean_ns=1_000_000, min_ns=1, max_ns=2_000_000)
UNDER = Latency(median_ns=1_100_000, p99_ns=1_300_000, cv=0.02, n=3, mean_ns=1_100_000, min_ns=1, max_ns=2_000_000)


def main(argv: list[str]) -> int:
    return child.answer(argv, GpuWorkerRequest, play)


def play(request: GpuWorkerRequest) -> CleanTimes | ProfiledTimes | None:
    scratch = Path(request.scratch)
    file = scratch / "behaviour.json"
    told: dict[str, Any] = json.loads(file.read_text()).get(request.phase, {}) if file.exists() else {}
    seen = {"request": msgspec.to_builtins(request), "environment": dict(os.environ)}
    (scratch / f"{request.phase}_run.json").write_text(json.dumps(seen))
    say(f"{request.phase} begins")
    begin = time.monotonic_ns()
    if "wait" in told:
        (scratch / "worker.pid").write_text(str(os.getpid()))
        say("waiting")
        time.sleep(600)
    if "error" in told:
        raise MissingError(told["error"], why="the worker says so", fix="mend it")
    if "signal" in told:
        os.kill(os.getpid(), getattr(signal, told["signal"]))
    if "script" in told:
        runpy.run_path(told["script"])
    time.sleep(told.get("seconds", 0.0))
    end = time.monotonic_ns()
    if request.phase == "clean":
        (Path(request.folder) / LATENCY_FILE).write_bytes(b"samples")
        mode = ModeTimes(mode="stream", latency=CLEAN, h2d_ns=1, compute_ns=2, d2h_ns=3, enqueue_ns=4)
        return CleanTimes(
            warmup_iterations=5, modes=(mode,), timed_by="host clock", copies=1, copy_bytes=16, begin_ns=begin,
            end_ns=end,
        )  # fmt: skip
    if request.collector == "cupti":
        from trtprof.base.trace_file import save_trace
        from trtprof.capture.nsys.trace import read_trace

        save_trace(read_trace(Path(told["trace"]))._replace(collector="cupti"), Path(request.folder))
    if told.get("silent"):
        return None
    return ProfiledTimes(latency=UNDER, cpu_layers=tuple(told.get("cpu_layers", ())), begin_ns=begin, end_ns=end)


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
