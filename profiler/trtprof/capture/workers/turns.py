"""The child process that holds a variant ready, and runs it when told: ``-m trtprof.capture.workers.turns``.

It reads a `TurnsRequest`, answers with a `Ready`, and then each line on its stdin, a number of milliseconds, with a
`Turn`. In between it is quiet: the threads of ONNX Runtime wait awake for a while after an inference, as they do where
it is deployed, and a turn is answered only when they sleep. (``session.force_spinning_stop`` would make them sleep at
once, after every inference: another thing would be measured.)
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trtprof.base.progress import Count, unheard
from trtprof.base.undisturbed import find_undisturbed, share_all_ran
from trtprof.capture.turns import Ready, Turn, TurnsRequest
from trtprof.capture.workers.cpu_meter import Budget, Meter
from trtprof.capture.workers.inference import make_input_sets
from trtprof.capture.workers.runnable import Timed, runnable_of
from trtprof.runtime import child
from trtprof.runtime.priority import list_threads

_LOOK_S = 0.005
_ASLEEP = 0.05
"""Share of the time between two looks that the whole process may be busy for, and count as asleep."""
_PATIENCE_S = 2.0
_AGAIN = 0.2
"""Share of a turn that goes before it, untimed: caches and clocks are the other side's."""


def take_turns(lines: Iterator[bytes]) -> Iterator[Ready | Turn]:
    """Make the variant of the request that is the first line ready, then run for as many ms as each line says."""
    request = msgspec.json.decode(next(lines), type=TurnsRequest)
    sets = make_input_sets(request.variant.inputs, request.variant.seed)
    threads, began = list_threads(), time.perf_counter_ns()
    on_cpu = request.variant.session is not None and request.variant.session.provider == "cpu"
    with runnable_of(request.variant, *sets) as timed:
        meter = Meter(threads)
        made_ns = time.perf_counter_ns() - began
        usual_ns = statistics.median(run_for(timed, request.warmup_ms))
        asleep()
        yield Ready(made_ns=made_ns, run_ns=round(usual_ns))
        for ms in map(float, lines):
            if usual_ns < _AGAIN * ms * 1e6:
                run_for(timed, _AGAIN * ms)
            turn = metered(meter, timed, ms) if on_cpu else Turn(samples=tuple(run_for(timed, ms)), quiet=True)
            usual_ns = statistics.median(turn.samples)
            yield msgspec.structs.replace(turn, quiet=asleep())


def metered(meter: Meter, timed: Timed, ms: float) -> Turn:
    """Run for so many milliseconds, and at least once, with what other processes took away meanwhile."""
    budget = Budget(least=1, seconds=ms / 1e3, slow_s=0.0)
    timings, _ = meter.time(timed, budget, Count(unheard, ""))
    samples = tuple(timings.latency_ns.tolist())
    if not timings.waits_known:
        return Turn(samples=samples, quiet=True)
    undisturbed = tuple(find_undisturbed(timings).tolist())
    return Turn(samples=samples, quiet=True, undisturbed=undisturbed, all_ran=max(share_all_ran([timings]), 0.0))


def run_for(timed: Timed, ms: float) -> list[int]:
    """Run for so many milliseconds, and at least once; returns the latencies in ns."""
    samples: list[int] = []
    end = time.perf_counter_ns() + int(ms * 1e6)
    while not samples or time.perf_counter_ns() < end:
        samples.append(timed())
    return samples


def asleep(patience_s: float = _PATIENCE_S) -> bool:
    """Wait until no other thread of this process is busy or waits for a core; returns whether it is so."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        busy = time.process_time()
        time.sleep(_LOOK_S)
        if time.process_time() - busy < _ASLEEP * _LOOK_S and not _runnable():
            return True
    return False


def _runnable() -> bool:
    """Whether the kernel has another thread of this process running, or waiting for a core (proc(5), ``stat``)."""
    own = threading.get_native_id()
    for task in Path("/proc/self/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            if task.parent.name != str(own) and task.read_text().rpartition(")")[2].split()[0] == "R":
                return True
    return False


if __name__ == "__main__":
    sys.exit(child.converse(take_turns))
