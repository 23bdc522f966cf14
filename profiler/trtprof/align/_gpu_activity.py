"""How busy the GPU was in each iteration: what its time from the first to the last work is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trtprof.align._gpu_columns import Bools, Codes, Ints, Work, cut, grouped, pieces, ranked, runs
from trtprof.align._gpu_ranges import NO_LAYER
from trtprof.base.nested_ranges import running_maximum

if TYPE_CHECKING:
    import pandas as pd

ACTIVITY_COLUMNS = (
    "start_ns", "end_ns", "kernels", "kernel_ns", "overlap_ns", "copy_ns", "gap_inside_ns", "gap_between_ns",
    "gap_host_ns",
)  # fmt: skip


def activity(
    work: Work, iteration: Codes, count: int, layer: Codes, counted: Bools, launch: Codes, returned: Ints
) -> pd.DataFrame:
    """What the GPU did in each iteration: `gpu_kernels.ITERATION_COLUMNS`; several devices are added up.

    ``iteration``, ``layer`` and ``launch`` are int32 ``[work]``, below 0 for none; ``returned`` is int64 ``[calls]``.
    """
    import pandas as pd

    order = rows_by(iteration)
    # Iterations one after the other, as many at a time as make a piece.
    parts = [
        _activity(work, order[part], iteration, layer, counted, launch, returned)
        for part in cut(runs(iteration[order]), len(order))
    ]
    table = pd.DataFrame(0, index=range(count), columns=list(ACTIVITY_COLUMNS), dtype=np.int64)
    for numbers, columns in parts:
        table.iloc[numbers] = columns
    return table


def _activity(
    work: Work,
    rows: npt.NDArray[np.intp],
    iteration: Codes,
    layer: Codes,
    counted: Bools,
    launch: Codes,
    returned: Ints,
) -> tuple[Codes, Ints]:
    """The numbers of some iterations, and the columns of the table for them."""
    group = ranked(iteration[rows], work.device[rows])
    order = np.lexsort((work.start[rows], group))
    rows, group = rows[order], group[order]
    start, end, number = work.start[rows], work.start[rows] + work.duration[rows], iteration[rows]
    mine = counted[rows]
    begins = runs(number)

    def total(values: Ints) -> Ints:
        sums: Ints = np.add.reduceat(values, begins)
        return sums

    held = _until(group, end)
    head = np.zeros(len(rows), dtype=np.bool_)
    head[runs(group)] = True
    previous = np.where(head, start, held)
    gap = np.maximum(start - previous, 0)
    before = _last_of(group, end, held)
    own = layer[rows]
    inside = (own != NO_LAYER) & (own[before] == own) & mine & mine[before]
    call = launch[rows]
    known = call >= 0
    back = np.where(known, returned[np.maximum(call, 0)], previous) if len(returned) else previous
    waited = np.minimum(np.maximum(back - previous, 0), gap)
    busy_all = total(np.maximum(end - np.maximum(start, previous), 0))
    busy = np.zeros(len(rows), dtype=np.int64)
    busy[mine] = _union(group[mine], start[mine], end[mine])
    kernel_ns = np.where(mine, end - start, 0)
    columns = (
        np.minimum.reduceat(start, begins), np.maximum.reduceat(end, begins), total(mine.astype(np.int64)),
        total(kernel_ns), total(kernel_ns - busy), busy_all - total(busy),
        total(np.where(inside, gap - waited, 0)), total(np.where(inside, 0, gap - waited)), total(waited),
    )  # fmt: skip
    return number[begins], np.stack(columns, axis=1)


def rows_by(iteration: Codes) -> npt.NDArray[np.intp]:
    """The rows that are in an iteration, in the order of the iterations."""
    if (iteration[1:] >= iteration[:-1]).all():
        return np.arange(np.searchsorted(iteration, 0), len(iteration))
    order = np.argsort(iteration, kind="stable")
    return order[np.searchsorted(iteration[order], 0) :]


def busy_ns(work: Work, chosen: Bools) -> int:
    """Time in which at least one of the rows chosen ran, devices added up."""
    total = 0
    for _, rows in grouped(work.device):
        reach = np.iinfo(np.int64).min
        for piece in pieces(len(rows)):
            mine = rows[piece][chosen[rows[piece]]]
            if len(mine):
                start = work.start[mine]
                end = np.maximum.accumulate(np.append(reach, start + work.duration[mine]))
                total += int(np.maximum(end[1:] - np.maximum(start, end[:-1]), 0).sum())
                reach = int(end[-1])
    return total


def _until(group: Codes, end: Ints) -> Ints:
    """For each row the end of all that started before it in its group; of the first of a group, any number."""
    reached = running_maximum(end, runs(group)) if len(end) else end
    return np.concatenate((reached[:1], reached[:-1]))


def _last_of(group: Codes, end: Ints, held: Ints) -> Codes:
    """For each row the one before it in its group that ended last; itself where it is the first."""
    first = runs(group)
    later = end > held
    later[first] = True
    place = np.maximum.accumulate(np.where(later, np.arange(len(end), dtype=np.int32), 0))
    before = np.concatenate((place[:1], place[:-1])).astype(np.int32)
    before[first] = first
    return before


def _union(group: Codes, start: Ints, end: Ints) -> Ints:
    """What each row adds to the time in which its group is busy."""
    held = _until(group, end)
    held[runs(group)] = np.iinfo(np.int64).min
    return np.maximum(end - np.maximum(start, held), 0)
