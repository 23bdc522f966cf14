"""The child process that only warms up, times and runs: ``python -m trtprof.capture.workers.ort_cpu REQUEST``.

It reads a `WorkerRequest`, measures latency in one session **without** the profiler, then runs the
same inputs in a second session with it, and leaves the raw samples of both and the profile for its parent, which puts
several such processes together (`flows.run_cpu`). What takes long to import is left to the parent, too.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.progress import Count
from trtprof.base.records import InputTensor
from trtprof.base.undisturbed import Timings, find_undisturbed
from trtprof.capture.workers.cpu_meter import Budget, CpuSeconds, Meter
from trtprof.capture.workers.inference import EVENT_LIMIT, Runnable, first_run, make_input_sets, say, warm_up
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionFacts, SessionRequest, make_session, timed_session
from trtprof.runtime.priority import ahead_of_others, list_threads
from trtprof.runtime.speed_probe import probe_ns, together_ns

Feeds = dict[str, npt.NDArray[Any]]
GRAPH_FILE = "profiled.onnx"
"""The optimized graph of the profiled session, in the scratch folder."""
_PROFILE_WARM_MS = 20.0
_USUAL_EVENTS = 30_000  # More only where so many inferences are asked for: reading them takes 10 us each
_CLEAN_FILE, _AHEAD_FILE, _PROFILED_FILE = "clean.npz", "ahead.npz", "profiled.npz"
_UNDISTURBED = 0.5  # Share of the inferences; where fewer are, they are measured again ahead of other processes


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker is asked to do. ``warmup_ms`` has trtexec's unit."""

    session: SessionRequest
    folder: str
    scratch: str
    inputs: tuple[InputTensor, ...]
    layers: int  # number of layers, to keep the profile at a size that can be read
    seed: int
    warmup_ms: float
    clean: Budget
    profiled: Budget


class CpuRound(msgspec.Struct, frozen=True, kw_only=True):
    """What a process measured; its samples lie beside the request, see `load_timings`."""

    facts: SessionFacts  # Of the session without the profiler
    warmups: int
    profile: str  # ONNX Runtime's file
    use: tuple[CpuSeconds, CpuSeconds]  # While it ran without and with the profiler
    ahead: bool  # Whether the profiler ran at a priority above others
    # Of `trtprof.runtime.speed_probe`, before, between and after
    probe_ns: tuple[float, float, float]
    together_ns: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, WorkerRequest, capture)


def capture(request: WorkerRequest) -> CpuRound:
    """Time inferences without and with the profiler."""
    scratch = Path(request.scratch)
    sets = make_input_sets(request.inputs, request.seed)
    probes = [_probe(request.session.threads)]
    threads = list_threads()
    with ahead_of_others() as allowed:  # A session that others slow down would be taken for one that is slow to make
        session, facts = timed_session(request.session)
    meter = Meter(threads)
    began = time.perf_counter()
    run = bind(session, *sets)
    # The first inference warms up, too: of a slow model it is enough.
    warmups = 1 + warm_up(run, request.warmup_ms - 1e3 * (time.perf_counter() - began))
    budget = msgspec.structs.replace(request.clean, most_s=0.0) if allowed else request.clean
    clean, clean_use = meter.time(run, budget, _count("inferences without a profiler"))
    _save(scratch / _CLEAN_FILE, clean)
    (scratch / _AHEAD_FILE).unlink(missing_ok=True)
    ahead = allowed and bool(find_undisturbed(clean).mean() < _UNDISTURBED)
    if ahead:
        with ahead_of_others(meter.threads):
            timings, _ = meter.time(run, request.clean, _count("inferences ahead of other processes"))
            _save(scratch / _AHEAD_FILE, timings)
    meter.close()
    del session, run

    probes.append(_probe(request.session.threads))
    profile, profiled_use = _profile(request, sets, ahead=ahead)
    probes.append(_probe(request.session.threads))
    cores, together = zip(*probes, strict=True)
    return CpuRound(
        facts=facts,
        warmups=warmups,
        profile=profile,
        use=(clean_use, profiled_use),
        ahead=ahead,
        probe_ns=cores,
        together_ns=together,
    )


def _probe(threads: int) -> tuple[float, tuple[float, float]]:
    with ahead_of_others():
        return probe_ns(), together_ns(threads)


def _profile(request: WorkerRequest, sets: list[Feeds], *, ahead: bool) -> tuple[str, CpuSeconds]:
    scratch = Path(request.scratch)
    threads = list_threads()
    prefix = str(scratch / "profile")
    session = make_session(request.session, profile_prefix=prefix, save_to=str(scratch / GRAPH_FILE))
    meter = Meter(threads)
    nodes = max(request.layers, 1)
    began = time.perf_counter()
    run = bind(session, *sets)
    # Not for long: every event of it is kept in memory.
    warm_ms = min(request.warmup_ms, _PROFILE_WARM_MS) - 1e3 * (time.perf_counter() - began)
    warm_up(run, warm_ms, at_most=min(EVENT_LIMIT // nodes // 4, 10))
    least = min(request.profiled.least, max(EVENT_LIMIT // nodes, 3))
    budget = msgspec.structs.replace(
        request.profiled, least=least, most=max(_USUAL_EVENTS // nodes, least), blocks=False
    )
    with ahead_of_others(meter.threads) if ahead else nullcontext():
        profiled, profiled_use = meter.time(run, budget, _count("inferences under the profiler"))
    meter.close()
    _save(scratch / _PROFILED_FILE, profiled)
    return session.end_profiling(), profiled_use


def _count(what: str) -> Count:
    return Count(say, what, lambda: time.perf_counter_ns() / 1e9)


def _save(path: Path, timings: Timings) -> None:
    np.savez(path, **timings._asdict())


def load_timings(scratch: Path) -> tuple[Timings, Timings, Timings | None]:
    """The samples without and with the profiler, and those ahead of others, that a worker left behind."""
    found = [_load(scratch / name) for name in (_CLEAN_FILE, _PROFILED_FILE)]
    return found[0], found[1], _load(scratch / _AHEAD_FILE) if (scratch / _AHEAD_FILE).exists() else None


def _load(path: Path) -> Timings:
    with np.load(path) as arrays:
        return Timings(**arrays)


def bind(session: Any, *sets: Feeds) -> Runnable:
    """One inference with inputs and outputs bound, as a deployed loop would: nothing is copied; the sets alternate."""
    import onnxruntime

    taken = {value.name for value in session.get_inputs()}  # A rewritten model may lack one that nothing reads
    bindings = []
    for feeds in sets:
        binding = session.io_binding()
        for name in filter(taken.__contains__, feeds):
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(feeds[name]))
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")
        bindings.append(binding)
    call, following = session.run_with_iobinding, itertools.cycle(bindings).__next__

    def run() -> None:
        nonlocal following
        binding = following()
        try:
            call(binding)
        except Exception:
            if binding is bindings[0]:
                raise
            following = itertools.repeat(bindings[0]).__next__  # The other values decide shapes that do not fit
            run()

    first_run(run)
    return run


if __name__ == "__main__":
    with suppress(AttributeError, OSError):
        os.setsid()  # See `trtprof.runtime.priority`
    with suppress(ImportError):  # Told as an error later
        import onnxruntime  # noqa: F401 - before it is asked, when nothing is measured yet
    # What it leaves needs no end: to take down the sessions and the interpreter takes 0.05 s.
    os._exit(main(child.await_request()))
