"""Turns repeated timings into ceilings and floors. Pure arithmetic, no clock and no runtime."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

AGREEMENT = 0.03  # Two repeats agree when they differ by no more than this fraction of the larger

CONTENDER = 0.8  # Workloads below this fraction of the best are not measured again

LONGEST_NS = 50e6  # Workloads that should take longer than this for one run are left out

MIN_REPEATS = 3
MAX_CONTENDERS = 4


class Reading(NamedTuple):
    """A ceiling or floor, where it comes from and how far its repeats lie apart."""

    value: float
    spread: float
    repeats: int
    what: str


class Task(NamedTuple):
    """One way to reach a ceiling: its name, the ceiling, and FLOP, bytes or evaluations a run.

    ``part`` names what else the task tells beside the ceiling (``dram read``, ``gemm fp32 512``).
    """

    ceiling: str
    name: str
    amount: int
    part: str = ""


def slope(short: int, short_ns: float, long: int, long_ns: float) -> float:
    """Cost in ns of one more node, from the times of a short and a long chain."""
    if long <= short:
        raise ValueError(f"the long chain ({long}) must be longer than the short one ({short})")
    return (long_ns - short_ns) / (long - short)


def grouped_median_ns(durations_us: Sequence[int]) -> float:
    """Median in ns of durations that a profiler truncated to whole microseconds.

    A reading ``d`` stands for the interval [d, d + 1) us; the median is interpolated within the
    interval that holds it (`statistics.median_grouped`).
    """
    return 1000 * statistics.median_grouped([d + 0.5 for d in durations_us], 1)


def resolve_floor(samples: Sequence[tuple[float, Sequence[int]]]) -> float:
    """Reading in ns of an empty node, were it not truncated, from truncated readings of nodes with a known extra cost.

    Each sample is (extra ns over the empty node, measured without a profiler; readings in whole us), the first with
    extra 0. Where half of the readings reach k us, the median is k us exactly, so the empty node's is k us less the
    extra at that point.
    """
    empty = list(samples[0][1])
    k = int(statistics.median(empty)) + 1
    points = sorted((extra, sum(d >= k for d in readings) / len(readings)) for extra, readings in samples)
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if y0 < 0.5 <= y1:
            crossing = x0 + (0.5 - y0) / (y1 - y0) * (x1 - x0)
            # The floor lies within the interval that the empty node's own readings name.
            return min(max(1000 * k - crossing, 1000 * (k - 1)), 1000 * k)
    return grouped_median_ns(empty)


def cost_per_tensor(points: Sequence[tuple[int, float]]) -> float:
    """What a profiler adds for one more tensor: least-squares slope of (tensors, ns), never below 0."""
    tensors, times = zip(*points, strict=True)
    return max(statistics.linear_regression(tensors, times).slope, 0.0)


def profiler_base(event_ns: float, launch_ns: float, tensors: int, tensor_ns: float) -> float:
    """What a profiler adds to every event: the rest of an empty node's reading, never below 0.

    An empty node is charged its launch and the profiler's cost of its tensors; what is left does
    not depend on the node.
    """
    return max(event_ns - launch_ns - tensors * tensor_ns, 0.0)


def event_step_ns(starts_us: Sequence[int]) -> float:
    """Time in ns from the start of one event to that of the next, over a run of equal events.

    Starts that are cut off to whole us cost at most 1 us over the whole run.
    """
    return 1000 * (starts_us[-1] - starts_us[0]) / (len(starts_us) - 1)


def relative_spread(values: Sequence[float]) -> float:
    """(max - min) / median of the repeats, 0 for a single one."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def agree(values: Sequence[float]) -> bool:
    """Whether the two highest repeats differ by no more than `AGREEMENT`."""
    if len(values) < 2:
        return False
    second, first = sorted(values)[-2:]
    return first - second <= AGREEMENT * first


def floor_reading(values: Sequence[float], what: str) -> Reading:
    """A floor is the median of its repeats: the luckiest one is not what a run pays."""
    return Reading(statistics.median(values), relative_spread(values), len(values), what)


class Race:
    """Which task is the best way to each ceiling, and to every part of one."""

    def __init__(
        self,
        tasks: Sequence[Task],
        measure: Callable[[Task], float | None],
        longest_ns: float = LONGEST_NS,
        contenders: int = MAX_CONTENDERS,
    ) -> None:
        """See `race`; so many of each ceiling are timed again."""
        self._tasks, self._measure, self._longest_ns, self._most = tasks, measure, longest_ns, contenders
        self._rates: dict[Task, list[float]] = {}
        self._groups: dict[str, list[Task]] = {}
        for task in tasks:
            for key in dict.fromkeys((task.ceiling, task.part or task.ceiling)):
                self._groups.setdefault(key, []).append(task)

    def first(self) -> None:
        """Time every task once."""
        for task in self._tasks:
            best = max((rate for repeats in self._resolved(task.ceiling).values() for rate in repeats), default=0.0)
            if not best or task.amount / best * 1e9 <= self._longest_ns:
                self._run(task)

    def again(self, seconds_left: Callable[[], float] = lambda: 1.0) -> bool:
        """Time those that may still win once more, as far as there is time; whether there are any."""
        chosen = {task for key in self._groups for task in _contenders(self._resolved(key), self._most)}
        for task in (task for task in self._tasks if task in chosen):
            if seconds_left() <= 0:
                break
            self._run(task)
        return bool(chosen)

    def settle(self) -> None:
        """A single repeat says nothing about its spread: every winner gets a second."""
        for key in self._groups:
            while found := self._resolved(key):
                winner = _winner(found)
                if len(found[winner]) > 1:
                    break
                self._run(winner)
                if len(self._rates[winner]) < 2:
                    break

    def readings(self) -> dict[str, Reading]:
        """The best rate of every ceiling and of every part of one, as far as they could be resolved."""
        return {key: _reading(found) for key in self._groups if (found := self._resolved(key))}

    def _run(self, task: Task) -> None:
        net = self._measure(task)
        if net is not None and net > 0:
            self._rates.setdefault(task, []).append(task.amount / net * 1e9)

    def _resolved(self, key: str) -> dict[Task, list[float]]:
        return {task: self._rates[task] for task in self._groups[key] if task in self._rates}


def race(
    tasks: Sequence[Task],
    measure: Callable[[Task], float | None],
    seconds_left: Callable[[], float],
    *,
    longest_ns: float = LONGEST_NS,
) -> dict[str, Reading]:
    """Find the best rate of every ceiling and of every part of one.

    Args:
        measure: Net time in ns of one run, or None when it is too short to be resolved.
        longest_ns: A task that should take longer than this at the best rate so far is left out, unless its ceiling has
            no reading yet.
    """
    found = Race(tasks, measure, longest_ns)
    found.first()
    while seconds_left() > 0 and found.again(seconds_left):
        pass
    found.settle()
    return found.readings()


def _contenders(found: dict[Task, list[float]], most: int) -> list[Task]:
    if not found:
        return []
    ranked = sorted(found, key=lambda task: max(found[task]), reverse=True)
    top = found[ranked[0]]
    if len(top) >= MIN_REPEATS and agree(top):
        return []
    limit = CONTENDER * max(top)
    return [task for task in ranked[:most] if max(found[task]) >= limit]


def _winner(found: dict[Task, list[float]]) -> Task:
    return max(found, key=lambda task: max(found[task]))


def _reading(found: dict[Task, list[float]]) -> Reading:
    winner = _winner(found)
    repeats = found[winner]
    return Reading(max(repeats), relative_spread(repeats), len(repeats), winner.name)
