"""Kernels that were timed on a GPU: which of them correct what is expected there, and how they are timed and kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.progress import Progress, unheard
from trtprof.base.records import Corrected, GpuSpec, LiveGpu, Work
from trtprof.expected import NONE, Measured, TimedWork, measured_text, read_measured, works_to_time
from trtprof.hardware import gpus, nvml, store

if TYPE_CHECKING:
    from trtprof.hardware.cuda._exchange import KernelShape
    from trtprof.hardware.cuda.kernel_times import KernelTimes

    TimeKernels = Callable[..., KernelTimes]


def timed_on(
    asked: str | None, specs: Sequence[GpuSpec], *, live: LiveGpu | None = None, say: Progress = unheard
) -> dict[str, Measured]:
    """By slug, the rows of GPUs: those that are asked for, else those that `trtprof calibrate` timed.

    `asked`: as ``--measured`` says: a file, or `NONE`; None where nobody said. `live`: the GPU of ``specs`` that is
    here, whose own rows alone count; None takes the newest of any GPU of a datasheet.
    """
    if asked == NONE:
        return {}
    if asked is None:
        return _kept(specs, live, say)
    if len(specs) != 1:
        raise UsageError(
            f"--measured {asked} is of which GPU?",
            why=f"{len(specs)} are asked for, and what was timed on one says nothing of another",
            fix="ask for the one that it was timed on: --gpu NAME",
        )
    return {specs[0].slug: read_measured(Path(asked))}


def _kept(specs: Sequence[GpuSpec], live: LiveGpu | None, say: Progress) -> dict[str, Measured]:
    wanted = {spec.slug for spec in specs}
    found: dict[str, Measured] = {}
    files = store.kept_kernels() if live is None else [store.kernels_of_gpu(live)]
    for path in files:
        measured = _readable(path, say)
        if measured is None or measured.slug not in wanted:
            continue
        other = found.get(measured.slug)
        if other is None or measured.timed_at > other.timed_at:
            found[measured.slug] = measured
    return found


def _readable(path: Path, say: Progress) -> Measured | None:
    """The table, None where there is none; that there is one which cannot be used is said."""
    if not path.is_file():
        return None
    try:
        found = read_measured(path)
    except TrtprofError as error:
        say(f"kernels that were timed are not used: {error.what} ({error.why})")
        return None
    return found if found.timed_at else None


# --- timing them ----------------------------------------------------------------------------


class Kept(NamedTuple):
    """What became of the kernels of a GPU."""

    corrected: Corrected | None = None  # What they say of it; None where they say nothing
    path: Path | None = None  # The file that keeps them; None where there is none
    notes: tuple[str, ...] = ()  # What is to be said of them, in sentences


def time_kernels(
    gpu: LiveGpu, *, progress: Progress = unheard, seconds: float, measure: TimeKernels | None = None
) -> Kept:
    """Time kernels on a GPU and keep them beside its ceilings, for the runs and predictions to come.

    `seconds`: for all of them.
    """
    from trtprof.hardware.cuda._kernels import ROW_LENGTHS

    spec, reason = _datasheet(gpu)
    if spec is None:
        return Kept(notes=(f"no kernels were timed: no datasheet is of {gpu.name} ({reason})",))
    works = works_to_time(spec, gpus.ceilings(spec, tf32=False), ROW_LENGTHS)
    if not works:
        return Kept(
            notes=(f"no kernels were timed: nothing is expected on {spec.architecture} that they could correct",)
        )
    if measure is None:
        from trtprof.hardware.cuda import kernel_times

        measure = kernel_times.time_kernels
    found = measure(gpu, [shape_of(work) for work in works], progress=progress, seconds=seconds)
    rows = [TimedWork(works[place], ns) for place, ns in sorted(found.times_ns.items())]
    kept = _keep(gpu, spec, rows, found, progress)
    if isinstance(found.stopped, KeyboardInterrupt):
        raise found.stopped
    return kept


def _datasheet(gpu: LiveGpu) -> tuple[GpuSpec | None, str]:
    """That of the GPU, None where there is none, and why."""
    try:
        spec, reason = nvml.spec_of(gpu)
    except TrtprofError as error:
        return None, f"{error.what}: {error.why}"
    return (None if spec.origin == "derived" else spec), reason


def shape_of(work: Work) -> KernelShape:
    """The dimensions of a work as the process that times it is told them."""
    from trtprof.hardware.cuda._exchange import KernelShape

    core = work.core
    assert core is not None  # noqa: S101 - works to time have one
    assert core.kind in ("product", "softmax", "normalisation", "pointwise")  # noqa: S101 - and of these kinds
    return KernelShape(kind=core.kind, dtype=work.dtype, batch=core.batch, m=core.m, n=core.n, k=core.k)


def _keep(gpu: LiveGpu, spec: GpuSpec, rows: Sequence[TimedWork], found: KernelTimes, say: Progress) -> Kept:
    notes = [] if found.measured is None else list(found.measured.notes)
    if found.stopped is not None:
        why = getattr(found.stopped, "why", "") or "it was interrupted"
        notes.insert(0, f"kernels were timed in part, {len(rows)} of them: {why}")
    if not rows:
        return Kept(notes=tuple(notes))
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    text = measured_text(rows, gpu.name, spec.slug, now, _how(gpu, found))
    path = store.kernels_of_gpu(gpu)
    before = _readable(path, say)
    if found.stopped is not None and before is not None and len(before.rows()) > len(rows):
        notes.append(f"the {len(before.rows())} that are kept from {before.timed_at[:10]} stay")
        return Kept(notes=tuple(notes))
    written = store.keep(path, text.encode(), say, "timed kernels")
    measured = Measured(text=text, source=path.name, gpu=gpu.name, slug=spec.slug, timed_at=now)
    _, corrected = measured.learn(spec, gpus.ceilings(spec, tf32=False), tf32=False)
    silent = len(rows) if corrected is None else corrected.left_out
    if silent:
        notes.append(f"{silent} rows say nothing: faster than the datasheet of {spec.name} allows, so timed wrongly")
    return Kept(corrected, path if written else None, tuple(notes))


def _how(gpu: LiveGpu, found: KernelTimes) -> list[str]:
    """How they were timed, a remark each."""
    told = found.measured
    remarks = [f"driver: {gpu.driver or 'unknown'}"]
    if told is not None:
        remarks += [f"library: {f'cuBLASLt {told.cublas}' if told.cublas else 'no matrix products'}"]
        remarks += [f"clock {when}: {mhz:.0f} MHz" for when, mhz in told.clocks_mhz.items()]
        remarks += [f"held down by {why}: {share:.0%} of the time" for why, share in told.held_down.items()]
    return remarks


def kept_of(gpu: LiveGpu, *, say: Progress = unheard) -> Kept:
    """The kernels that are kept of a GPU, and what they say of it."""
    path = store.kernels_of_gpu(gpu)
    measured = _readable(path, say)
    spec, _ = _datasheet(gpu)
    if measured is None or spec is None:
        return Kept()
    _, corrected = measured.learn(spec, gpus.ceilings(spec, tf32=False), tf32=False)
    return Kept(corrected, path)
