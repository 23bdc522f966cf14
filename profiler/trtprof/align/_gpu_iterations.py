"""Where one inference ends and the next begins: ranges, launches of CUDA graphs, or kernels that come again."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from trtprof.align._gpu_columns import KERNEL, Bools, Codes, Ints, Work, grouped, pieces, ranked
from trtprof.align._gpu_names import OTHER
from trtprof.align._gpu_ranges import Ranges, outermost
from trtprof.base.nested_ranges import NestedRanges, distinct

NONE, UNKNOWN = -1, -2
_NUMBER = re.compile(r"[\s#:=_.,/\-\[(]*\d+[\s\])]*$")
_MOST_DEPTHS = 8
_RARE_NAMES = 64
"""Names that are tried for a period, the rarest first: a kernel that runs once in each repeat tells it at once."""
_FEW, _MOST_TIMES = 4, 64  # Of so few names it is tried whether they come so many times in each repeat


class Iterations(NamedTuple):
    """Inferences, in the order in which they began."""

    of_work: Codes  # int32 ``[work]``: the iteration that a row of work belongs to; -1 for none
    host_start: Ints  # int64 ``[iterations]``: when the host began to enqueue it; -1 where that is not known
    host_end: Ints  # int64 ``[iterations]``: when the host was done
    source: str  # In words, what tells them apart; empty where nothing does
    sure: bool  # Whether it is certain that nothing of an iteration lies outside of it
    marks: frozenset[str] = frozenset()  # Distinct names of the NVTX ranges that mark them, where these are the user's


class Host(NamedTuple):
    """How each row of work was launched."""

    row: Codes  # int32 ``[work]``; row of the launch, below 0 where it is not known
    pid: Codes  # ``[work]``; the process
    graph: Bools  # bool ``[work]``; as a node of a CUDA graph
    starts: Ints  # int64 ``[launches]``; begin of each call
    ends: Ints  # int64 ``[launches]``; end of each call
    tids: Ints  # ``[launches]``; thread of each call

    def places(self, nested: NestedRanges) -> Codes:
        """The innermost of some ranges, told by thread, around the launch of each row of work; -1 for none."""
        found = np.full(len(self.row), NONE, dtype=np.int32)
        for piece in pieces(len(self.row)):
            known = piece.start + np.flatnonzero(self.row[piece] >= 0)
            row = self.row[known]
            found[known] = nested.innermost(self.tids[row], self.starts[row])
        return found

    def places_by_process(self, nested: NestedRanges) -> Codes:
        """The same, of ranges told by process."""
        found = np.full(len(self.row), NONE, dtype=np.int32)
        known = np.flatnonzero(self.row >= 0)
        found[known] = nested.innermost(self.pid[known], self.starts[self.row[known]])
        return found


def base_name(name: str) -> str:
    """The name of a range without the number that it ends with: ``iteration 12`` -> ``iteration``."""
    return _NUMBER.sub("", name)


def find_iterations(
    work: Work, host: Host, ranges: Ranges, inferences: tuple[NestedRanges, Codes], marks: str | None
) -> Iterations:
    """Divide the work into inferences.

    ``marks`` names the NVTX ranges that hold one each, with or without a number at the end; None takes those of
    TensorRT and launches of CUDA graphs, else ranges that come again, else the sequence of the kernels.
    """
    kernels = work.kind == KERNEL
    if marks is not None:
        found = _by_name(work, host, ranges, marks)
        if found is not None:
            return found
    found = _by_inference(work, host, ranges, inferences)
    if found is not None and (found.of_work[kernels] >= 0).any():
        return found
    found = _by_repeated_ranges(work, host, ranges)
    return found if found is not None else _by_period(work, host)


def _by_name(work: Work, host: Host, ranges: Ranges, marks: str) -> Iterations | None:
    names = np.array([marks in (name, base_name(name)) for name in ranges.names] or [False], dtype=np.bool_)
    chosen = np.flatnonzero(names[ranges.name]).astype(np.int32)
    return _by_ranges(work, host, ranges, chosen, f"NVTX ranges {marks!r}") if len(chosen) else None


def _by_ranges(work: Work, host: Host, ranges: Ranges, chosen: Codes, source: str) -> Iterations:
    """Iterations by ranges, of which the outermost count; a start_end range holds what any thread launches."""
    unit = np.where(host.row >= 0, NONE, UNKNOWN).astype(np.int32)
    for nests in (False, True):
        mine = chosen[ranges.nests[chosen] == nests]
        if not len(mine):
            continue
        nested = NestedRanges((ranges.tid if nests else ranges.pid)[mine], ranges.start[mine], ranges.end[mine])
        place = outermost(nested, host.places(nested) if nests else host.places_by_process(nested))
        unit[place >= 0] = mine[place[place >= 0]]
    marks = frozenset(ranges.names[code] for code in distinct(ranges.name[chosen]).tolist())
    return _numbered(work, unit, ranges.start, ranges.end, source, sure=True)._replace(marks=marks)


def _by_inference(work: Work, host: Host, ranges: Ranges, inferences: tuple[NestedRanges, Codes]) -> Iterations | None:
    nested, rows = inferences
    unit = outermost(nested, host.places(nested))
    ranges_held = bool((unit >= 0).any())
    graph = np.flatnonzero((unit < 0) & host.graph & (host.row >= 0))
    if not ranges_held and not len(graph):
        return None
    unit[host.row < 0] = UNKNOWN
    launch, number = np.unique(host.row[graph], return_inverse=True)
    unit[graph] = len(rows) + number
    words = ["TensorRT's ranges ExecutionContext::*"] * ranges_held + ["launches of CUDA graphs"] * bool(len(graph))
    starts = np.concatenate((ranges.start[rows], host.starts[launch]))
    ends = np.concatenate((ranges.end[rows], host.ends[launch]))
    return _numbered(work, unit, starts, ends, " and ".join(words), sure=True)


def _numbered(work: Work, unit: Codes, starts: Ints, ends: Ints, source: str, *, sure: bool) -> Iterations:
    """Number the units that ran something by their begin, once work of unknown launch has found its place."""
    _adopt(work, unit)
    first = np.full(len(starts) + 1, -1, dtype=np.int32)
    # Of several values for one place the last one stays: that of the first row.
    first[unit[::-1]] = np.arange(len(unit) - 1, -1, -1, dtype=np.int32)
    used = np.flatnonzero(first[:-1] >= 0)
    used = used[np.lexsort((first[used], starts[used]))]
    number = np.full(len(starts) + 1, NONE, dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return Iterations(number[unit], starts[used], ends[used], source, sure)


def _adopt(work: Work, unit: Codes) -> None:
    """Give work whose launch is not known to the unit of its nearer neighbour on the same stream."""
    if not (unit == UNKNOWN).any():
        return
    order = np.argsort(work.queue, kind="stable")
    known = unit[order] != UNKNOWN
    queue, start = work.queue[order], work.start[order]
    end = start + work.duration[order]
    places = np.arange(len(order))
    before = np.maximum.accumulate(np.where(known, places, -1))
    after = np.minimum.accumulate(np.where(known, places, len(order))[::-1])[::-1]
    lost = np.flatnonzero(~known)
    before, after = before[lost], after[lost]
    has_before = (before >= 0) & (queue[before] == queue[lost])
    inside = np.minimum(after, len(order) - 1)
    has_after = (after < len(order)) & (queue[inside] == queue[lost])
    nearer_after = has_after & (~has_before | (start[inside] - end[lost] < start[lost] - end[before]))
    chosen = np.where(nearer_after, inside, before)
    unit[order[lost]] = np.where(has_before | has_after, unit[order[chosen]], NONE)


def _by_repeated_ranges(work: Work, host: Host, ranges: Ranges) -> Iterations | None:
    """Ranges of one name, but for a number, of which each holds as many kernels: the outermost such."""
    known = np.flatnonzero((host.row >= 0) & (work.kind == KERNEL))
    if not len(known) or not len(ranges.name):
        return None
    bases: dict[str, int] = {}
    base = np.array([bases.setdefault(base_name(name), len(bases)) for name in ranges.names], dtype=np.int64)
    group = ranges.domain * np.int64(len(bases)) + base[ranges.name]
    for nests in (False, True):
        mine = np.flatnonzero((ranges.nests == nests) & (ranges.kind == OTHER)).astype(np.int32)
        if not len(mine):
            continue
        nested = NestedRanges((ranges.tid if nests else ranges.pid)[mine], ranges.start[mine], ranges.end[mine])
        depth = nested.depths()
        inner = (host.places(nested) if nests else host.places_by_process(nested))[known]
        for level in range(min(int(depth.max()) + 1, _MOST_DEPTHS)):
            at_level = nested.nearest(inner, depth == level)
            held = at_level[at_level >= 0]
            if 2 * len(held) < len(known):
                continue
            groups = group[mine[held]]
            names, counts = np.unique(groups, return_counts=True)
            best = names[np.argmax(counts)]
            if 2 * counts.max() < len(known):
                continue
            kernels = np.unique(held[groups == best], return_counts=True)[1]
            usual = np.bincount(kernels).argmax()
            # A range around one kernel is an operator's rather than an iteration's.
            if len(kernels) >= 2 and 2 * (kernels == usual).sum() > len(kernels) and usual > 1:
                chosen = mine[(group[mine] == best) & (depth == level)]
                name = base_name(ranges.names[int(ranges.name[chosen[0]])])
                return _by_ranges(work, host, ranges, chosen, f"NVTX ranges {name!r}, which come again")
    return None


def _by_period(work: Work, host: Host) -> Iterations:
    """The shortest sequence of kernel names that comes again and again, for each device of each process."""
    unit = np.full(len(work.row), NONE, dtype=np.int32)
    begins: list[int] = []
    repeats = False
    for _, rows in grouped(ranked(host.pid, work.device)):
        kernels = rows[work.kind[rows] == KERNEL]
        if not len(kernels):
            continue
        if (host.row[kernels] >= 0).all() and not host.graph[kernels].any():
            kernels = kernels[np.lexsort((work.start[kernels], host.starts[host.row[kernels]]))]
        start = work.start[kernels]
        first = period_starts(work.name[kernels], start, start + work.duration[kernels])
        repeats |= len(first) > 1
        unit[kernels] = len(begins) + run_numbers(first, len(kernels))
        others = rows[work.kind[rows] != KERNEL]
        own = np.minimum.accumulate(start[first][::-1])[::-1]
        unit[others] = len(begins) + np.maximum(np.searchsorted(own, work.start[others], "right") - 1, 0)
        begins += own.tolist()
    starts = np.array(begins, dtype=np.int64)
    source = "the sequence of kernel names, which comes again" if repeats else ""
    found = _numbered(work, unit, starts, starts, source, sure=False)
    unknown = np.full(len(found.host_start), -1, dtype=np.int64)
    return found._replace(host_start=unknown, host_end=unknown)


def run_numbers(first: Ints, length: int) -> Codes:
    """The number of the run that each place lies in, where runs begin at ``first``, the first of them at 0."""
    marks = np.zeros(length, dtype=np.int32)
    marks[first[first > 0]] = 1
    return np.cumsum(marks, dtype=np.int32)


def period_starts(names: Codes, start: Ints, end: Ints) -> Ints:
    """Where the repeats of a sequence of kernels (names, ns) begin; the first is always at 0.

    What lies between two repeats is a part of its own. A sequence that may be cut anywhere is cut at the longest idle
    time.
    """
    length = len(names)
    period = _period(names)
    whole = np.zeros(1, dtype=np.int64)
    if period is None:
        return whole
    steady = names[period:] == names[:-period]
    broken = np.flatnonzero(~steady)
    edges = np.concatenate(([-1], broken, [len(steady)]))
    longest = int(np.argmax(np.diff(edges)))
    low, high = int(edges[longest]) + 1, int(edges[longest + 1])
    repeats = (high - low) // period + 1
    if repeats < 2:
        return whole
    before = np.maximum.accumulate(end)
    idle = np.concatenate(([0], np.maximum(start[1:] - before[:-1], 0)))
    block = idle[low : low + (repeats - 1) * period + period][: repeats * period]
    gaps = np.median(block.reshape(-1, period)[1:], axis=0)
    turn = int(np.argmax(gaps))
    if low == 0 and 2 * gaps[0] >= gaps[turn]:
        turn = 0
    pattern = names[low + turn : low + turn + period]
    counts = np.bincount(names, minlength=int(names.max()) + 1)[pattern]
    rarest = int(np.argmin(counts))
    found = np.flatnonzero(names == pattern[rarest]) - rarest
    found = found[(found >= 0) & (found + period <= length)]
    for offset, name in enumerate(pattern.tolist()):
        found = found[names[found + offset] == name]
    kept = []
    behind = 0
    for at in found.tolist():
        if at >= behind:
            kept.append(at)
            behind = at + period
    starts = np.array(kept, dtype=np.int64)
    return np.unique(np.concatenate((whole, starts, (starts + period)[starts + period < length])))


def _period(names: Codes) -> int | None:
    """The shortest distance at which names come again nearly as well as at the best one."""
    length = len(names)
    if length < 2:
        return None
    counts = np.bincount(names)
    rare = sorted(np.flatnonzero(counts >= 2).tolist(), key=lambda name: (counts[name], name))[:_RARE_NAMES]
    candidates: set[int] = set()
    for order, name in enumerate(rare):
        at = np.flatnonzero(names == name)
        # A kernel that runs n times in each repeat comes again at the same place n positions on.
        for times in range(1, min(_MOST_TIMES if order < _FEW else 1, len(at) - 1) + 1):
            gaps, counted = np.unique(at[times:] - at[:-times], return_counts=True)
            candidates.update(gaps[np.argsort(-counted, kind="stable")[:2]].tolist())
    candidates = {gap for gap in candidates if 2 * gap <= length}
    if not candidates:
        return None
    score = {gap: float((names[gap:] == names[:-gap]).mean()) for gap in candidates}
    best = max(score.values())
    return min(gap for gap in candidates if score[gap] >= 0.99 * best) if best >= 0.5 else None
