"""Inferences timed in blocks, with how long the threads of this process waited for a CPU and who used the CPUs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec
import numpy as np

from trtprof.base.progress import Count
from trtprof.base.undisturbed import FEW, WAITED_NS, WAITED_SHARE, Timings
from trtprof.capture.workers.inference import Runnable
from trtprof.runtime.priority import list_threads

BLOCK_NS, BLOCK_NS_A_THREAD = 1_000_000, 160_000
"""Shortest block, and for each thread: reading the waits of one takes 0.8 us, which is then below 1 %."""
_VERY_SLOW = 2.5  # Times `Budget.slow_s`, from which on one or two inferences are enough
_CORE_STEPS = 500  # About 15 us
_SETTLE_S = 0.01  # A wait that goes on when the last inference is over is booked by then, as a rule


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How long to time: the seconds and the inferences asked for, on to as many undisturbed ones; a slow model less."""

    least: int  # Inferences
    seconds: float
    most_s: float = 0.0  # Beside other processes, until as many inferences were undisturbed
    slow_s: float  # After this the inferences asked for are no longer waited for
    most: int = 0  # Inferences at most; 0 for no limit
    blocks: bool = True  # Whether short inferences are metered in blocks, not each


class CpuSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time on the usable CPUs while inferences were timed; None where the system does not tell."""

    cpus: int
    wall: float
    own: float
    busy: float | None = None
    steal: float | None = None


class _Reading(NamedTuple):
    wall: float
    own: float
    busy: float | None
    steal: float | None


def usable_cpus() -> list[int]:
    """The CPUs that this process may run on."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))


def _read_cpus(cpus: Iterable[int]) -> _Reading:
    import psutil

    wanted = set(cpus)
    times = [each for cpu, each in enumerate(psutil.cpu_times(percpu=True)) if cpu in wanted]
    kinds = ("user", "nice", "system", "irq", "softirq", "interrupt", "dpc")
    busy = sum(getattr(each, kind, 0.0) for each in times for kind in kinds) if times else None
    steal = sum(each.steal for each in times) if times and hasattr(times[0], "steal") else None
    return _Reading(time.perf_counter(), time.process_time(), busy, steal)


class Meter:
    """Reads how long threads waited for a CPU: this one, and those that are not in ``before``.

    Make it as soon as the session is there, whose threads are to be seen, and no other new ones. Descriptors stay open:
    to open one takes 20 us.
    """

    def __init__(self, before: set[int]) -> None:
        own = threading.get_native_id()
        self.threads = [own, *sorted(list_threads() - before - {own})]
        self._files: list[int] = []
        self._waits: dict[int, int] = {}  # As last read, by file
        with suppress(OSError):
            for thread in self.threads:
                self._files.append(os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY))
        # A system that does not keep these numbers has zeros for them.
        if not self._files or int(os.pread(self._files[0], 64, 0).split()[0]) == 0:
            self.close()

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files:
            os.close(file)
        self._files, self._waits = [], {}

    def read(self) -> list[int]:
        """For each thread the ns for which it was ready to run and had no CPU, since it began."""
        for file in self._files:
            try:
                self._waits[file] = int(os.pread(file, 64, 0).split()[1])
            except ProcessLookupError:  # The thread has ended, and waits no more
                self._waits.setdefault(file, 0)
        return list(self._waits.values())

    def time(self, run: Runnable, budget: Budget, count: Count) -> tuple[Timings, CpuSeconds]:
        """Time inferences."""
        clock, read = time.perf_counter_ns, self.read
        block_ns = max(BLOCK_NS, BLOCK_NS_A_THREAD * len(self._files)) if budget.blocks else 0
        latencies: list[int] = []
        blocks: list[tuple[int, int, int]] = []  # Inferences, start and end
        waits, cores = [], []
        undisturbed = 0
        cpus = usable_cpus()
        began, before = _read_cpus(cpus), read()
        loop_ns = clock()
        while True:
            done, start = len(latencies), clock()
            while True:
                started = clock()
                run()
                end = clock()
                latencies.append(end - started)
                if end - start >= block_ns or len(latencies) in (budget.least, budget.most):
                    break
            now = read()
            waited = [after - earlier for earlier, after in zip(before, now, strict=True)]
            before = now
            waits.append(waited)
            cores.append(_core_ns())
            blocks.append((len(latencies) - done, start, end))
            if max(waited, default=0) <= max(WAITED_SHARE * (end - start), WAITED_NS):
                undisturbed += len(latencies) - done
            seconds = (end - loop_ns) / 1e9
            if budget.most and len(latencies) >= budget.most:
                break
            if len(latencies) >= budget.least and seconds >= budget.seconds:
                if undisturbed >= budget.least or seconds >= budget.most_s:
                    break
            elif seconds >= max(budget.slow_s, budget.seconds) and (
                len(latencies) >= FEW or seconds >= _VERY_SLOW * budget.slow_s
            ):
                break
            count.tell(len(latencies), budget.least, end=loop_ns / 1e9 + budget.seconds)
        ended = _read_cpus(cpus)
        if self._files:
            time.sleep(_SETTLE_S)
        waits.append([after - earlier for earlier, after in zip(before, read(), strict=True)])
        sizes, starts, ends = np.asarray(blocks, dtype=np.int64).T
        timings = Timings(
            latency_ns=np.asarray(latencies, dtype=np.int64),
            block=np.repeat(np.arange(len(sizes)), sizes),
            start_ns=starts,
            end_ns=ends,
            waits_ns=np.asarray(waits, dtype=np.int64).reshape(len(waits), len(self._files)),
            core_ns=np.asarray(cores, dtype=np.int64),
        )
        spent = CpuSeconds(
            cpus=len(cpus),
            wall=ended.wall - began.wall,
            own=ended.own - began.own,
            busy=None if ended.busy is None or began.busy is None else ended.busy - began.busy,
            steal=None if ended.steal is None or began.steal is None else ended.steal - began.steal,
        )
        return timings, spent


def _core_ns() -> int:
    """Time of a short loop of the interpreter: a core that another guest of the host shares takes 1.7 times as long."""
    total, began = 0, time.perf_counter_ns()
    for number in range(_CORE_STEPS):
        total += number & 3
    return time.perf_counter_ns() - began
