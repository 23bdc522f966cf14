"""Which call launched a piece of GPU work, and which ranges of its thread that call lies in, by the million.

Ranges are closed: they hold their first and their last nanosecond. All is done on columns: the ranges are sorted by
thread and start once, each then knows its parent, and a look-up is a binary search followed by a walk over parents,
one step for all look-ups together, so the work grows with the depth of the nesting and not with the ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.integer[Any]]
_Nanoseconds = npt.NDArray[np.int64]


class NestedRanges:
    """Ranges, ready to be looked up.

    A range is named by its row in the columns given here; -1 stands for none. Ranges of one thread normally nest.
    Where they cross (two NVTX domains each have their own stack, start and end ranges have none), `innermost` and
    `enclosing` still find every range that holds the moment; `parents` then has only those that hold the whole range.

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
        code = np.searchsorted(self._threads, thread).astype(np.int32)
        # The outer range comes first: the longer of two that start together.
        self._order = np.lexsort((-np.asarray(end, dtype=np.int64), start, code)).astype(np.int32)
        self._start: _Nanoseconds = np.asarray(start, dtype=np.int64)[self._order]
        self._end: _Nanoseconds = np.asarray(end, dtype=np.int64)[self._order]
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

    def enclosing(
        self, thread: _Ints, start: _Ints, end: _Ints | None = None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """All ranges around each moment, as pairs.

        Args:
            thread: As for `innermost`.
            start: As for `innermost`.
            end: As for `innermost`.

        Returns:
            The rows of the moments and of the ranges, int32 ``[pairs]`` each: innermost pairs of all moments first,
            then those of the next range outwards, and so on, each in the order of the moments.
        """
        until = start if end is None else end
        at = self._climb(self._last_started(thread, start), until)
        moment = np.arange(len(at), dtype=np.int32)
        moments: list[npt.NDArray[np.int32]] = []
        ranges: list[npt.NDArray[np.int32]] = []
        first = np.concatenate(([0], np.repeat(self._first[:-1], np.diff(self._first)) + 1)).astype(np.int32)
        while True:
            held = at > 0
            moment, at = moment[held], at[held]
            if not len(at):
                break
            moments.append(moment)
            ranges.append(self._rows(at))
            # One further left, not the parent: a range that crosses this one may hold the moment too.
            at = self._climb(np.where(at > first[at], at - 1, 0).astype(np.int32), until[moment])
        none = np.empty(0, dtype=np.int32)
        return np.concatenate([none, *moments]), np.concatenate([none, *ranges])

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
        """From each place to the next further left that ends no earlier than ``until``.

        What a step to the parent leaves out ends before the range stepped from, which itself ends too early.
        """
        climbing = np.flatnonzero(at > 0)
        while len(climbing):
            climbing = climbing[self._end[at[climbing] - 1] < until[climbing]]
            at[climbing] = self._parent[at[climbing] - 1]
            climbing = climbing[at[climbing] > 0]
        return at


def _previous_not_smaller(values: _Nanoseconds, firsts: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """For each value the place, counted from 1, of the last one before it in its group that is not smaller; else 0.

    Pointers that jump: each value points to its neighbour, and while that is smaller takes over where it points. All
    that lies between a value and where it points is smaller, so nothing is missed; runs of n siblings take log n steps.

    Args:
        values: ``[n]``, group after group.
        firsts: Where each group begins.
    """
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
    order = np.argsort(keys, kind="stable").astype(np.int32)
    keys = keys[order]
    wanted = _key(work_pid, work_correlation)
    at = np.searchsorted(keys, wanted)
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int32)
    at = np.minimum(at, len(keys) - 1)
    found = (keys[at] == wanted) & (np.asarray(work_correlation) != 0)
    return np.where(found, order[at], -1).astype(np.int32)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct values, ascending: by sorting, where ``np.unique`` hashes since numpy 2.3.

    For a million ascending integers, three of each, that took 0.29 s (numpy 2.4) and this 0.01 s.
    """
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _key(pid: _Ints, correlation: _Ints) -> _Nanoseconds:
    return np.asarray(pid).astype(np.int64) << 32 ^ np.asarray(correlation).astype(np.int64)
