"""The stages of a run with ONNX Runtime on the CPU up to the capture."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import onnx

from trtprof.base import run_folder
from trtprof.base.output_file import copy_file, replaced
from trtprof.base.progress import Line, Progress
from trtprof.base.records import Ceilings
from trtprof.base.units import format_ns
from trtprof.capture import launch
from trtprof.capture import ort_profile as profiles
from trtprof.capture.cpu_rounds import Asked, Best, Round, count_busy, list_cpu_seconds, merge_rounds, plan_round
from trtprof.capture.workers.cpu_meter import Budget
from trtprof.capture.workers.ort_cpu import GRAPH_FILE, CpuRound, WorkerRequest, load_timings
from trtprof.engine.onnxruntime import ENGINE_GRAPH, session_engine
from trtprof.flows.job import Job
from trtprof.flows.options import RunOptions
from trtprof.hardware.calibrate import Calibration, best_of, needed_ceilings
from trtprof.hardware.device import host_cpu, resolve_threads
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, name_layers

_WORKER = "trtprof.capture.workers.ort_cpu"
_LATE = ("pandas", "pyarrow.parquet", "trtprof.analysis.cpu", "jinja2")  # What the stages behind the capture import


def run_on_cpu(job: Job) -> None:
    """Do the stages up to the capture."""
    device = host_cpu()
    threads = resolve_threads(job.options.threads, device)
    job.folder.write(run_folder.DEVICE, device)
    calibration = Calibration(
        threads,
        needed_ceilings(node.work for node in job.source.nodes),
        recalibrate=job.options.recalibrate,
        progress=job.progress.detail,
        device=device,
    )
    asked = _asked(job.options)
    captured = job.folder.has(run_folder.CAPTURE) and job.folder.has(run_folder.ENGINE)
    job.progress.stage("ceilings")
    with calibration, child.started_ahead(_WORKER, 0 if captured else asked.processes, _LATE):
        kept = job.folder.has(run_folder.CEILINGS) and not job.options.recalibrate
        if kept:
            job.progress.detail("kept from before")
        else:
            calibration.round()
        job.progress.stage("capture")
        if captured:
            job.progress.detail("kept from before")
        else:
            _capture(job, asked, msgspec.structs.replace(job.session, threads=threads), None if kept else calibration)
        if not kept:
            job.folder.write(run_folder.CEILINGS, calibration.finish())


def _capture(job: Job, asked: Asked, session: SessionRequest, calibration: Calibration | None) -> None:
    """Time the model between rounds of calibration, and keep the session that was profiled as the engine."""
    folder, progress = job.folder, job.progress
    rounds: list[Round] = []
    began, before = time.monotonic(), list_cpu_seconds()
    while budgets := plan_round(asked, rounds, _best(job, calibration)):
        if rounds and calibration is not None:
            calibration.round()
        started = time.monotonic()
        answer = _run_round(job, session, asked, budgets, rounds)
        scheduled = name_layers(onnx.load(str(job.scratch / GRAPH_FILE), load_external_data=False))
        if not rounds:
            copy_file(job.scratch / GRAPH_FILE, folder.file(ENGINE_GRAPH))
        clean, profiled, ahead = load_timings(job.scratch)
        profile = profiles.read_profile(Path(answer.profile), len(profiled.latency_ns), scheduled)
        Path(answer.profile).unlink()
        rounds.append(Round(answer, clean, profiled, profile, time.monotonic() - started, ahead))
        if len(rounds) == 1:
            median, count = format_ns(float(np.median(clean.latency_ns))), len(clean.latency_ns)
            progress.note(f"first estimate: {median} (p50 of {count:,} inference{'s' * (count > 1)})")
    others = count_busy(before, list_cpu_seconds(), time.monotonic() - began)
    merged = merge_rounds(rounds, job.source.model.inputs, others, _best(job, calibration))
    if merged.capture.latency.n < job.options.iterations:
        progress.note(
            f"{merged.capture.latency.n} of the {job.options.iterations} inferences asked for: "
            f"one takes {format_ns(merged.capture.latency.median_ns)}"
        )
    folder.file(run_folder.AHEAD).unlink(missing_ok=True)
    tables = {run_folder.LATENCY: merged.samples, run_folder.KERNELS: merged.kernels, run_folder.AHEAD: merged.ahead}
    for name, table in ((name, table) for name, table in tables.items() if table is not None):
        with replaced(folder.file(name)) as beside:
            table.to_parquet(beside, index=False, compression="zstd")
    # Written last: its presence says that the capture is whole.
    folder.write(run_folder.CAPTURE, merged.capture)
    engine = session_engine(job.backend, session, rounds[0].answer.facts, folder.file(ENGINE_GRAPH))
    folder.write(run_folder.ENGINE, engine)
    progress.detail(f"{engine.backend.name}: {len(engine.layers)} layers in {format_ns(engine.build_ns)}")


def _best(job: Job, calibration: Calibration | None) -> Best:
    return calibration.best if calibration else best_of(job.folder.read(run_folder.CEILINGS, Ceilings).measurements)


def _asked(options: RunOptions) -> Asked:
    usual, profiled = RunOptions(model=options.model), options.profile_iterations
    return Asked(
        duration_s=options.duration_s,
        iterations=options.iterations if options.iterations != usual.iterations else None,
        profile_iterations=profiled if profiled != usual.profile_iterations else None,
        warmup_ms=options.warmup_ms,
    )


def _run_round(
    job: Job, session: SessionRequest, asked: Asked, budgets: tuple[Budget, Budget], done: list[Round]
) -> CpuRound:
    request = WorkerRequest(
        session=session,
        folder=str(job.folder.path.resolve()),
        scratch=str(job.scratch),
        inputs=job.source.model.inputs,
        layers=len(job.source.nodes),
        seed=job.options.seed,
        warmup_ms=asked.warmup_ms / asked.processes,
        clean=budgets[0],
        profiled=budgets[1],
    )
    later_s = max(asked.processes - len(done) - 1, 0) * (done[-1].wall_s if done else 1.0)
    told = _with_time_left(job.progress.detail, later_s)
    return launch.run_worker(request, _WORKER, CpuRound, told)


def _with_time_left(say: Progress, later_s: float) -> Progress:
    """What a process says, with the time that those behind it will take."""
    return lambda text: say(Line(text, text.left_s + later_s) if isinstance(text, Line) else text)
