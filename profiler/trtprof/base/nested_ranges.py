"""Which call launched a piece of GPU work, and which ranges of its thread that call lies in, by the million.

Ranges are closed: they hold their first and their last nanosecond. All is done on columns: the ranges are sorted by
thread and start once, each then knows its parent, and a look-up is a binary search followed by a walk over parents,
one step for all look-ups together, so the work grows with the depth of the nesting and not with the ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.integer[Any]]
_Nanoseconds = npt.NDArray[np.int64]

_CLOSE = 2
"""Up to so many times as many numbers as there are values between the lowest and the highest, a table is made."""
_MOST_LEVELS = 8
"""Levels of nesting that are looked at one by one."""


class NestedRanges:
    """Ranges, ready to be looked up.

    A range is named by its row in the columns given here; -1 stands for none. Ranges of one thread normally nest.
    Where they cross (two NVTX domains each have their own stack, start and end ranges have none), `innermost` still
    finds a range that holds the moment; `parents` then has only those that hold the whole range.

    Attributes:
        parents: int32 ``[ranges]``: the innermost other range of the same thread that holds all of this one. Of
            ranges with the same start and end, the one of the lower row is the outer.
    """

    def __init__(self, thread: _Ints, start: _Ints, end: _Ints) -> None:
        """Sort the ranges and find their parents.

        Args:
            thread: ``[ranges]``; any integers, such as the globalTid of nsys. Each range belongs to one thread.
            start: ``[ranges]``, in any unit.
            end: ``[ranges]``, of the same unit and not before ``start``.
        """
        self._threads = distinct(thread)
        self._start: _Nanoseconds = np.asarray(start, dtype=np.int64)
        self._end: _Nanoseconds = np.asarray(end, dtype=np.int64)
        self._first = np.array([0, len(start)][1 - len(self._threads) :], dtype=np.intp)
        self._order = np.arange(len(start), dtype=np.int32)
        if len(self._threads) > 1 or not (self._start[1:] > self._start[:-1]).all():
            code = places_in(self._threads, thread)
            # The outer range comes first: the longer of two that start together.
            self._order = np.lexsort((-self._end, self._start, code)).astype(np.int32)
            self._start, self._end = self._start[self._order], self._end[self._order]
            self._first = np.searchsorted(code[self._order], np.arange(len(self._threads) + 1))
        self._parent = _previous_not_smaller(self._end, self._first[:-1])
        self.parents = np.full(len(start), -1, dtype=np.int32)
        self.parents[self._order] = self._rows(self._parent)

    def innermost(self, thread: _Ints, start: _Ints, end: _Ints | None = None) -> npt.NDArray[np.int32]:
        """The innermost range around each moment: of those that hold it, the one that started last.

        Args:
            thread: ``[moments]``.
            start: ``[moments]``, when the moment begins.
            end: ``[moments]``, when it ends; the range must hold all of it. Without it a moment is a point.

        Returns:
            int32 ``[moments]``: rows of ranges, -1 where no range of the thread holds it.
        """
        until = start if end is None else end
        return self._rows(self._climb(self._last_started(thread, start), until))

    def nearest(self, ranges: _Ints, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """The first of a range, its parent, its parent's parent and so on that is wanted.

        Args:
            ranges: ``[n]`` rows of ranges, -1 where there is none.
            wanted: ``[ranges]``, by row.

        Returns:
            int32 ``[n]``: rows of ranges, -1 where neither the range nor one above it is wanted.
        """
        found = np.asarray(ranges).astype(np.int32)
        climbing = np.flatnonzero(found >= 0)
        while len(climbing):
            climbing = climbing[~wanted[found[climbing]]]
            found[climbing] = self.parents[found[climbing]]
            climbing = climbing[found[climbing] >= 0]
        return found

    def depths(self) -> npt.NDArray[np.int32]:
        """How many ranges hold each range: int32 ``[ranges]``, 0 for an outermost one."""
        depth = np.zeros(len(self.parents), dtype=np.int32)
        above = self.parents.copy()
        climbing = np.flatnonzero(above >= 0)
        while len(climbing):
            depth[climbing] += 1
            above[climbing] = self.parents[above[climbing]]
            climbing = climbing[above[climbing] >= 0]
        return depth

    # Places in sorted order are counted from 1 below, so that 0 can stand for "none".

    def _rows(self, places: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return np.where(places > 0, self._order[places - 1], -1).astype(np.int32) if len(self._order) else places - 1

    def _last_started(self, thread: _Ints, start: _Ints) -> npt.NDArray[np.int32]:
        """The place of the last range of each thread that started by then; 0 where none had."""
        at = np.zeros(len(start), dtype=np.int32)
        if not len(self._threads) or not len(start):
            return at
        if len(self._threads) == 1 and (thread == self._threads[0]).all():
            return np.searchsorted(self._start, start, "right").astype(np.int32)
        order = np.argsort(thread, kind="stable")
        bounds = np.searchsorted(thread[order], self._threads), np.searchsorted(thread[order], self._threads, "right")
        for index, (low, high) in enumerate(zip(*bounds, strict=True)):
            if low < high:
                first, last = self._first[index], self._first[index + 1]
                chosen = order[low:high]
                found = np.searchsorted(self._start[first:last], start[chosen], "right")
                at[chosen] = np.where(found > 0, first + found, 0)
        return at

    def _climb(self, at: npt.NDArray[np.int32], until: _Ints) -> npt.NDArray[np.int32]:
        """From each place to the next further left that ends no earlier than ``until``."""
        climbing = np.flatnonzero(at > 0)
        while len(climbing):
            climbing = climbing[self._end[at[climbing] - 1] < until[climbing]]
            at[climbing] = self._parent[at[climbing] - 1]
            climbing = climbing[at[climbing] > 0]
        return at


def _previous_not_smaller(values: _Nanoseconds, firsts: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """For each value the place, counted from 1, of the last one before it in its group that is not smaller; else 0.

    Args:
        values: ``[n]``, group after group.
        firsts: Where each group begins; none is empty.
    """
    found = np.zeros(len(values), dtype=np.int32)
    left = np.arange(1, len(values) + 1, dtype=np.int32)
    around = np.zeros(len(values), dtype=np.int32)
    for _ in range(_MOST_LEVELS):
        rising = _apart(values, firsts) if len(values) else None
        if rising is None:
            break
        outer = np.concatenate(([True], rising[1:] > np.maximum.accumulate(rising)[:-1]))
        tops = np.flatnonzero(outer)
        found[left[tops] - 1] = around[tops]
        within = np.diff(tops, append=len(values)) - 1
        around = np.repeat(left[tops], within)
        firsts = (np.cumsum(within) - within)[within > 0]
        inner = ~outer
        left, values = left[inner], values[inner]
    places = _jumped(values, firsts)
    found[left - 1] = np.where(places > 0, left[places - 1], around) if len(left) else around
    return found


def running_maximum(values: _Nanoseconds, firsts: npt.NDArray[np.intp]) -> _Nanoseconds:
    """For each value the largest of its group up to it.

    Args:
        values: ``[n]``, group after group; at least one.
        firsts: Where each group begins; none is empty.
    """
    rising = _apart(values, firsts)
    if rising is None:
        return np.concatenate([np.maximum.accumulate(group) for group in np.split(values, firsts[1:])])
    highest: _Nanoseconds = np.maximum.accumulate(rising)
    return highest if rising is values else highest - (rising - values)


def _apart(values: _Nanoseconds, firsts: npt.NDArray[np.intp]) -> _Nanoseconds | None:
    """Values with something added to each group, so that all of it is larger than the group before; None beyond 2**62.

    Args:
        values: ``[n]``, group after group.
    """
    lows, highs = np.minimum.reduceat(values, firsts), np.maximum.reduceat(values, firsts)
    lacks = highs[:-1].astype(np.float64) - lows[1:]
    lacking = lacks >= 0
    if lacks[lacking].sum() + len(lacks) + max(abs(float(lows.min())), abs(float(highs.max()))) >= 2.0**62:
        return None
    if not lacking.any():
        return values
    steps = np.zeros(len(firsts), dtype=np.int64)
    steps[1:][lacking] = (highs[:-1] - lows[1:])[lacking] + 1
    return values + np.repeat(np.cumsum(steps), np.diff(firsts, append=len(values)))


def _jumped(values: _Nanoseconds, firsts: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """The same, for any depth: pointers that jump."""
    pointer = np.arange(len(values), dtype=np.int32)
    pointer[firsts] = 0
    jumping = np.flatnonzero(pointer > 0).astype(np.int32)
    while len(jumping):
        jumping = jumping[values[pointer[jumping] - 1] < values[jumping]]
        pointer[jumping] = pointer[pointer[jumping] - 1]
        jumping = jumping[pointer[jumping] > 0]
    return pointer


def calls_of(
    work_pid: _Ints, work_correlation: _Ints, call_pid: _Ints, call_correlation: _Ints
) -> npt.NDArray[np.int32]:
    """The API call that launched each piece of GPU work: that with its correlation id in its process.

    Args:
        work_pid: ``[work]``.
        work_correlation: ``[work]``; 0 where none is known. CUPTI counts correlation ids in 32 bits.
        call_pid: ``[calls]``.
        call_correlation: ``[calls]``.

    Returns:
        int32 ``[work]``: rows of calls, the first where several have the id; -1 where none has.
    """
    keys = _key(call_pid, call_correlation)
    wanted = _key(work_pid, work_correlation)
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int32)
    order: npt.NDArray[np.intp] | None = None
    if not (keys[1:] >= keys[:-1]).all():
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    at = np.minimum(places_in(keys, wanted), np.int32(len(keys) - 1))
    found = (keys[at] == wanted) & (np.asarray(work_correlation) != 0)
    return np.where(found, at if order is None else order[at], -1).astype(np.int32)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct values, ascending: by a table or by sorting, where ``np.unique`` hashes since numpy 2.3.

    For a million ascending integers, three of each, that took 0.29 s (numpy 2.4) and sorting 0.01 s.
    """
    if not len(values) or (low := values.min()) == (high := values.max()):
        return values[:1]
    if values.dtype.kind == "i" and int(high) - int(low) < _CLOSE * len(values):
        seen = np.zeros(int(high) - int(low) + 1, dtype=np.bool_)
        seen[np.subtract(values, low, dtype=np.int64)] = True
        found: npt.NDArray[Any] = (np.flatnonzero(seen) + low).astype(values.dtype)
    else:
        ordered = np.sort(values)
        found = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return found


def places_in(ordered: _Ints, values: _Ints) -> npt.NDArray[np.int32]:
    """``np.searchsorted(ordered, values)``: how many of the ascending ``ordered`` are smaller than each value."""
    return finder(ordered, len(values))(values)


def finder(ordered: _Ints, lookups: int) -> Callable[[_Ints], npt.NDArray[np.int32]]:
    """`places_in` for many columns: by a table where the numbers lie close together.

    Args:
        ordered: ``[n]``, ascending.
    """
    low, high = (int(ordered[0]), int(ordered[-1])) if len(ordered) else (0, 0)
    if not len(ordered) or high - low > _CLOSE * (len(ordered) + lookups) or high == np.iinfo(np.int64).max:
        return lambda values: np.searchsorted(ordered, values).astype(np.int32)
    below = np.zeros(high - low + 2, dtype=np.int32)
    np.cumsum(np.bincount(np.subtract(ordered, low, dtype=np.int64)), out=below[1:])
    return lambda values: below[np.clip(values.astype(np.int64, copy=False), low, high + 1) - low]


def _key(pid: _Ints, correlation: _Ints) -> _Nanoseconds:
    return np.asarray(pid).astype(np.int64) << 32 ^ np.asarray(correlation).astype(np.int64)
