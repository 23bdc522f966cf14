"""The parent side of a capture on a GPU: which collector, one child for each phase, and what they found as one record.

The phase ``clean`` runs in a child that no tool is loaded into, the phase ``profiled`` in another one, under nsys or
with CUPTI in itself. This process waits for them and samples the clocks of the GPU.

What a phase finds is kept as soon as it is there: `gpu_record.CLEAN_FILE` in the run folder holds the clean latency
until the whole capture does, so that a capture that failed later need not measure it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.progress import Progress
from trtprof.base.records import ClockSummary
from trtprof.base.run_folder import RunFolder
from trtprof.base.trace import GpuTrace
from trtprof.base.trace_file import FACTS_FILE, load_trace, save_trace
from trtprof.base.units import format_bytes, format_ns
from trtprof.capture.clocks import STEP_S, Sampling, sampling
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.gpu_record import (
    CLEAN_FILE,
    ITERATION_RANGE,
    CleanTimes,
    CollectorName,
    GpuCapture,
    OrtCudaRequest,
    ProfiledTimes,
    TensorrtRequest,
)
from trtprof.capture.launch import run_worker
from trtprof.capture.nsys import record as nsys
from trtprof.capture.nsys._find import NSYS_VARIABLE
from trtprof.capture.nsys.trace import read_trace
from trtprof.capture.workers.inference import CAPTURE_FILE, LATENCY_FILE
from trtprof.runtime import child
from trtprof.runtime.nvml_session import ask, opened

AskedCollector = Literal["auto", "nsys", "cupti", "none"]
Request = OrtCudaRequest | TensorrtRequest

CLEAN_CLOCKS_FILE = "clean_clocks.json"  # `records.ClockSummary` of the phase ``clean``, beside `CLEAN_FILE`
NSYS_NAME = "nsys"  # Of the report and the log of nsys in the run folder, without their suffixes

_INJECTED = (nsys.INJECTION_VARIABLE, cupti.INJECTION_VARIABLE)
"""Variables that load a tool into a program: CUDA's, and NVTX'."""
_ONLY_TIMES = "--collector none measures times of inferences alone"

_START_S = 900.0
"""What nsys may take for all that does not grow with the inferences: loading libraries and the model, its report."""
_SLOWER = 50.0  # How many times slower than without nsys the inferences may be before it counts as hung


# --- which collector ------------------------------------------------------------------------


class Choice(NamedTuple):
    """A collector, why it is taken, and the nsys that it is, if it is that."""

    name: CollectorName
    reason: str
    nsys: nsys.Nsys | None = None


def choose_collector(asked: AskedCollector) -> Choice:
    """Which collector watches the GPU, and why, in words.

    ``auto`` takes nsys where there is one that can, else CUPTI in the worker.
    """
    # Not under nsys even with no collector of our own: the clean latency would be that under a profiler.
    nsys.refuse_second_profiler()
    if asked == "none":
        return Choice("none", "asked for: only times of inferences, no kernels")
    no_nsys = None
    if asked in ("auto", "nsys"):
        try:
            found = _usable_nsys()
        except MissingError as error:
            no_nsys = error
        else:
            why = found.why if asked == "auto" else f"asked for; {found.why}"
            return Choice("nsys", f"nsys {found.version_text} ({found.path}): {why}", found)
    if asked == "nsys":
        assert no_nsys is not None  # noqa: S101 - it was looked for
        raise MissingError(
            no_nsys.what, why=no_nsys.why, fix=f"{no_nsys.fix}; --collector cupti needs none; {_ONLY_TIMES}"
        )
    try:
        cupti.require()
    except (MissingError, CaptureError) as error:
        if no_nsys is None:
            raise MissingError(
                error.what, why=error.why, fix=f"{error.fix}; --collector nsys records from outside; {_ONLY_TIMES}"
            ) from None
        raise MissingError(
            "nothing here can record what the GPU does",
            why=f"nsys: {no_nsys.what} ({no_nsys.why}); CUPTI: {error.why}",
            fix=f"for nsys: {no_nsys.fix}; for CUPTI: {error.fix}; {_ONLY_TIMES}",
        ) from None
    if no_nsys is None:
        return Choice("cupti", "asked for")
    return Choice("cupti", f"CUPTI in the process of the model, since nsys cannot be used: {no_nsys.what}")


def _usable_nsys() -> nsys.Nsys:
    """An nsys that has the options which a capture needs."""
    found = nsys.find()
    nsys.profile_command(found, [], Path(NSYS_NAME))
    return found


# --- the capture ----------------------------------------------------------------------------


class _Profiled(NamedTuple):
    """What the second phase found."""

    times: ProfiledTimes  # The worker's own record
    clocks: ClockSummary  # During its inferences
    trace: GpuTrace | None = None  # What the collector saw; None where there is none
    command: tuple[str, ...] = ()  # Of nsys
    notes: tuple[str, ...] = ()  # Of nsys


def capture_gpu(
    request: Request, module: str, asked: AskedCollector, progress: Progress, *, gpu: int | str
) -> GpuCapture:
    """Measure a model on a GPU without a profiler, then record what the GPU does under one.

    Leaves in the run folder the raw samples (`inference.LATENCY_FILE`), the trace (`gpu_trace_file`), what the worker
    itself leaves there, under nsys its report and log (``nsys.nsys-rep``, ``nsys.log``), and last of all the record
    (`inference.CAPTURE_FILE`). Under ``auto`` a capture that nsys does not manage is made again with CUPTI where that
    can be used; this is said, with the reason, to ``progress`` and in `GpuCapture.collector_reason`.

    Args:
        request: What to measure; its ``phase`` and ``collector`` are set here.
    """
    choice = choose_collector(asked)
    folder = RunFolder(Path(request.folder))
    clean, clocks_clean = _clean(request, module, folder, progress, gpu)
    progress(f"collector {choice.name}: {choice.reason}")
    notes: tuple[str, ...] = ()
    try:
        found = _profiled(choice, request, module, progress, gpu, clean)
    except TrtprofError as error:
        second = _second_choice(asked, choice, error, request)
        if second is None:
            raise
        progress(f"collector {second.name}: {second.reason}")
        choice, notes = second, (second.reason,)
        try:
            found = _profiled(choice, request, module, progress, gpu, clean)
        except TrtprofError as again:
            again.why = "; ".join(filter(None, (again.why, f"before that, nsys failed: {error.what} ({error.why})")))
            raise
    record = _joined(request, choice, clean, clocks_clean, found, notes)
    folder.write(CAPTURE_FILE, record)
    for name in (CLEAN_FILE, CLEAN_CLOCKS_FILE):  # the record holds both
        folder.file(name).unlink(missing_ok=True)
    return record


def _joined(
    request: Request,
    choice: Choice,
    clean: CleanTimes,
    clocks_clean: ClockSummary,
    found: _Profiled,
    notes: tuple[str, ...],
) -> GpuCapture:
    trace = found.trace
    return GpuCapture(
        collector=choice.name,
        latency=clean.modes[0].latency,
        profiled=found.times.latency,
        warmup_iterations=clean.warmup_iterations,
        # An engine of TensorRT is enqueued by one thread.
        threads=request.session.threads if isinstance(request, OrtCudaRequest) else 1,
        inputs=request.inputs,
        clock_resolution_ns=_clock_step_ns(trace) if trace is not None else 1,
        runtime_shapes=found.times.runtime_shapes,
        clean=clean,
        under=found.times,
        iteration_range=_iteration_range(trace) if trace is not None else None,
        collector_reason=choice.reason,
        command=found.command,
        clocks_clean=clocks_clean,
        clocks_profiled=found.clocks,
        versions={trace.collector: trace.version} if trace is not None and trace.version else {},
        notes=(*notes, *found.notes),
    )


def _iteration_range(trace: GpuTrace) -> str | None:
    """The range that a worker puts around each inference, if the collector saw any."""
    names = [str(name) for name in trace.ranges["name"].cat.categories]
    return ITERATION_RANGE if any(name.startswith(ITERATION_RANGE) for name in names) else None


_TIMER_STEPS = (1024, 512, 256, 128, 64, 32, 16)
_OFF_NS = 2
_ON_STEP = 0.9
"""Of durations that have nothing to do with a step of 16 ns, a third lie so close to it; of a larger one, fewer."""
_FEWEST_DURATIONS = 8


def _clock_step_ns(trace: GpuTrace) -> int:
    """The step of the GPU's timer, told by the durations of the kernels; 1 where they do not show one.

    In a capture of an H100 (nsys 2026.2) 95 % of 3,442 durations are multiples of 32 ns, the others 1 or 2 ns more, as
    when one clock is converted to another.
    """
    work = trace.work[trace.work["kind"] == "kernel"]
    durations = np.unique((work["end_ns"] - work["start_ns"]).to_numpy())
    if len(durations) < _FEWEST_DURATIONS:
        return 1
    for step in _TIMER_STEPS:
        rest = durations % step
        if np.mean((rest <= _OFF_NS) | (rest >= step - _OFF_NS)) >= _ON_STEP:
            return step
    return 1


# --- phase one ------------------------------------------------------------------------------


def _clean(
    request: Request, module: str, folder: RunFolder, progress: Progress, gpu: int | str
) -> tuple[CleanTimes, ClockSummary]:
    """Latency without a profiler: as an earlier capture into this folder left it, else measured."""
    kept = _kept_clean(folder)
    if kept is not None:
        progress("clean latency kept from before")
        return kept
    asked = msgspec.structs.replace(request, phase="clean", collector="none")
    with _environment({}), sampling(gpu) as sampled:
        clean = run_worker(asked, module, CleanTimes, progress)
    clocks = _clocks(sampled, clean.begin_ns, clean.end_ns)
    folder.write(CLEAN_CLOCKS_FILE, clocks)
    folder.write(CLEAN_FILE, clean)  # last: its presence says that the phase is whole
    return clean, clocks


def _kept_clean(folder: RunFolder) -> tuple[CleanTimes, ClockSummary] | None:
    if not all(folder.has(name) for name in (CLEAN_FILE, CLEAN_CLOCKS_FILE, LATENCY_FILE)):
        return None
    try:
        return folder.read(CLEAN_FILE, CleanTimes), folder.read(CLEAN_CLOCKS_FILE, ClockSummary)
    except (MissingError, UsageError):
        return None  # damaged, or of another version: it is measured again


# --- phase two ------------------------------------------------------------------------------


def _profiled(
    choice: Choice, request: Request, module: str, progress: Progress, gpu: int | str, clean: CleanTimes
) -> _Profiled:
    asked = msgspec.structs.replace(request, phase="profiled", collector=choice.name)
    # A trace of a capture that failed must not be taken for this one's.
    (Path(request.folder) / FACTS_FILE).unlink(missing_ok=True)
    if choice.nsys is not None:
        return _under_nsys(choice.nsys, asked, module, progress, gpu, clean)
    with _environment(_injection(asked)), sampling(gpu) as sampled:
        times = run_worker(asked, module, ProfiledTimes, progress)
    clocks = _clocks(sampled, times.begin_ns, times.end_ns)
    if choice.name == "none":
        return _Profiled(times, clocks)
    trace = load_trace(Path(request.folder))
    if not _kernels(trace):
        raise _no_kernels("CUPTI", trace, times, "update cupti-python, or --collector nsys", "")
    return _Profiled(times, clocks, trace)


def _injection(asked: Request) -> dict[str, str]:
    """The variables that make CUPTI see NVTX ranges in the worker; ONNX Runtime's nodes come from its profile."""
    if asked.collector != "cupti" or not isinstance(asked, TensorrtRequest):
        return {}
    before = os.environ.get(cupti.INJECTION_VARIABLE)
    return {cupti.INJECTION_VARIABLE: before} if before else cupti.injection_environment()


def _under_nsys(
    tool: nsys.Nsys, asked: Request, module: str, progress: Progress, gpu: int | str, clean: CleanTimes
) -> _Profiled:
    folder, scratch = Path(asked.folder), Path(asked.scratch)
    with _environment({}), sampling(gpu) as sampled:
        profile = nsys.run_profile(
            tool,
            child.prepare(module, asked, scratch),
            folder / NSYS_NAME,
            progress=progress,
            timeout_s=_timeout_s(asked, clean),
            worker_error=lambda: child.failure_in(scratch),
        )
    times = child.answer_in(scratch, ProfiledTimes)
    kept = f"the report is kept: {profile.report}"
    sqlite = folder / f"{NSYS_NAME}.sqlite"
    try:
        nsys.export_sqlite(profile.report, tool, output=sqlite, progress=progress)
        progress("reading the capture")
        # nsys recorded between cudaProfilerStart and cudaProfilerStop alone: all of the file is the window.
        trace = read_trace(sqlite)
    except UsageError as error:
        raise CaptureError(
            "the report of nsys cannot be read", why=f"{error.what}: {error.why}", fix=f"run it again; {kept}"
        ) from None
    finally:
        sqlite.unlink(missing_ok=True)
    if not _kernels(trace):
        newer = f"use a newer nsys (name it by {NSYS_VARIABLE}), or --collector cupti"
        raise _no_kernels(f"nsys {tool.version_text}", trace, times, newer, kept)
    save_trace(trace, folder)
    progress(f"{profile.report.name} ({format_bytes(profile.report.stat().st_size)}) is kept, its SQLite export is not")
    clocks = _clocks(sampled, times.begin_ns, times.end_ns)
    return _Profiled(times, clocks, trace, profile.command, profile.notes)


def _second_choice(asked: AskedCollector, choice: Choice, error: TrtprofError, request: Request) -> Choice | None:
    """CUPTI, where nsys was not asked for by name and did not manage; not where the worker itself has failed."""
    if (
        asked != "auto"
        or choice.name != "nsys"
        or child.failure_in(Path(request.scratch)) is not None
        or cupti.unavailable()
    ):
        return None
    return Choice(
        "cupti", f"CUPTI in the process of the model, since the capture with nsys failed: {error.what} ({error.why})"
    )


def _timeout_s(asked: Request, clean: CleanTimes) -> float:
    """Seconds after which nsys counts as hung: far more than the inferences took without it."""
    inferences_ns = clean.modes[0].latency.max_ns * (asked.profile_iterations + clean.warmup_iterations)
    return _START_S + _SLOWER * (inferences_ns / 1e9 + asked.warmup_ms / 1e3 + asked.duration_s)


def _kernels(trace: GpuTrace) -> int:
    return int((trace.work["kind"] == "kernel").sum())


def _no_kernels(tool: str, trace: GpuTrace, times: ProfiledTimes, newer: str, kept: str) -> CaptureError:
    """Why there is nothing to attribute, as far as the rest of the capture tells."""
    calls_of = trace.launches["name"].value_counts()
    launches = sum(int(count) for name, count in calls_of.items() if "Launch" in str(name))
    on_gpu = "check that the model runs on the GPU: trtprof doctor"
    if launches:
        why = f"it saw {launches} launches but no kernel, as a tool does that is too old for the driver{_driver()}"
        fix = newer
    elif len(trace.launches) or len(trace.work):
        calls, copies = len(trace.launches), len(trace.work)
        why, fix = f"it saw {calls} calls of CUDA and {copies} copies and memsets, but no launch of a kernel", on_gpu
    else:
        why, fix = "it saw no call of CUDA in the profiled inferences", f"{on_gpu}; if it does, {newer}"
    if times.cpu_layers:
        why += f"; {len(times.cpu_layers)} layers ran on the CPU provider of ONNX Runtime"
    return CaptureError(f"{tool} recorded no kernels", why=why, fix="; ".join(filter(None, (fix, kept))))


def _driver() -> str:
    with opened() as (nvml, _):
        version = None if nvml is None else ask(nvml, "nvmlSystemGetDriverVersion")
    return f" {version}" if version else ""


# --- what both share ------------------------------------------------------------------------


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """While children are started: no variable that loads a tool into them but these."""
    before = {name: os.environ.pop(name) for name in _INJECTED if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def _clocks(sampled: Sampling, begin_ns: int, end_ns: int) -> ClockSummary:
    """The clocks in the window that the worker told; one shorter than the steps between samples is widened by one."""
    if not end_ns:
        return sampled.summary()
    inside = sampled.summary(begin_ns, end_ns)
    if inside.samples:
        return inside
    step_ns = round(STEP_S * 1e9)
    beside = sampled.summary(begin_ns - step_ns, end_ns + step_ns)
    if not beside.samples:
        return inside
    took, around = format_ns(end_ns - begin_ns), format_ns(step_ns)
    note = f"the inferences took {took}: the readings are of up to {around} before and after them"
    return msgspec.structs.replace(beside, notes=(*beside.notes, note))
