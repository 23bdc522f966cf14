"""The stages of a run with ONNX Runtime on the CPU up to the capture."""

from __future__ import annotations

import msgspec

from trtprof.base import run_folder
from trtprof.base.records import Device
from trtprof.base.units import format_ns
from trtprof.capture import launch
from trtprof.capture.workers.ort_cpu import WorkerRequest
from trtprof.engine.onnxruntime import ENGINE_GRAPH, session_engine
from trtprof.flows.job import Job
from trtprof.hardware import store
from trtprof.hardware.calibrate import resolve_threads
from trtprof.hardware.device import host_cpu
from trtprof.runtime.ort_session import SessionFacts, SessionRequest


def run_on_cpu(job: Job) -> None:
    """Do the stages up to the capture."""
    device = host_cpu()
    threads = resolve_threads(job.options.threads, device)
    job.folder.write(run_folder.DEVICE, device)
    _capture(job, msgspec.structs.replace(job.session, threads=threads))
    _ceilings(job, device, threads)


def _capture(job: Job, session: SessionRequest) -> None:
    """Time the model, and keep the session that was profiled as the engine: its layers' names are the profile's."""
    folder, options, progress = job.folder, job.options, job.progress
    progress.stage("capture")
    if folder.has(run_folder.CAPTURE) and folder.has(run_folder.ENGINE):
        progress.detail("kept from before")
        return
    request = WorkerRequest(
        session=session,
        folder=str(folder.path.resolve()),
        scratch=str(job.scratch),
        inputs=job.source.model.inputs,
        graph_file=ENGINE_GRAPH,
        layers=len(job.source.nodes),
        seed=options.seed,
        iterations=options.iterations,
        warmup_ms=options.warmup_ms,
        duration_s=options.duration_s,
        profile_iterations=options.profile_iterations,
    )
    facts = launch.run_worker(request, "trtprof.capture.workers.ort_cpu", SessionFacts, progress.detail)
    engine = session_engine(job.backend, session, facts, folder.file(ENGINE_GRAPH))
    folder.write(run_folder.ENGINE, engine)
    progress.detail(f"{engine.backend.name}: {len(engine.layers)} layers in {format_ns(engine.build_ns)}")


def _ceilings(job: Job, device: Device, threads: int) -> None:
    again, progress = job.options.recalibrate, job.progress
    progress.stage("ceilings")
    if job.folder.has(run_folder.CEILINGS) and not again:
        progress.detail("kept from before")
        return
    ceilings = store.load_or_calibrate(threads, recalibrate=again, progress=progress.detail, device=device)
    job.folder.write(run_folder.CEILINGS, ceilings)
