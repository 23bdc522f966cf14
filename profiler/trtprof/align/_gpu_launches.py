"""From what ran on the GPU back to the host: the call that launched it, and the making of a CUDA graph node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.align._gpu_columns import Bools, Codes, Ints, Small, integers, pieces, runs
from trtprof.base.nested_ranges import finder

if TYPE_CHECKING:
    import pandas as pd

MISSING, AMBIGUOUS = -1, -2  # In place of a row: there is none, or there are several that cannot be told apart

_CORRELATION_BITS = 40


class Launches(NamedTuple):
    """How each row of work was launched."""

    row: Codes  # int32 ``[work]``: row of `GpuTrace.launches`, or `MISSING`, or `AMBIGUOUS`
    early: Bools  # bool ``[work]``: the work starts before the call does


def find_launches(work: pd.DataFrame, launches: pd.DataFrame) -> Launches:
    """Join work to API calls by process and correlation id; the id 0 stands for none.

    A call that another call with the same id holds, on the same thread, is part of it; others that share an id are
    `AMBIGUOUS`.
    """
    sought, offered = _keys(work, launches)
    starts = integers(launches["start_ns"])
    order: npt.NDArray[np.intp] | None = None
    unsure: Bools | None = None
    if not (offered[1:] > offered[:-1]).all():
        order = np.argsort(offered, kind="stable")
        offered = offered[order]
        if (offered[1:] == offered[:-1]).any():
            order, offered, unsure = _told_apart(launches, order, offered)
    row = np.full(len(sought), MISSING, dtype=np.int32)
    places = finder(offered, len(sought))
    for piece in pieces(len(sought) if len(offered) else 0):
        wanted = sought[piece]
        at = np.minimum(places(wanted), np.int32(len(offered) - 1))
        found = np.flatnonzero(offered[at] == wanted)
        at = at[found]
        hit = at if order is None else order[at]
        row[piece.start + found] = hit if unsure is None else np.where(unsure[at], AMBIGUOUS, hit)
    row[work["correlation"].to_numpy() == 0] = MISSING
    early = np.zeros(len(row), dtype=np.bool_)
    begins = integers(work["start_ns"])
    for piece in pieces(len(row) if len(offered) else 0):
        mine = row[piece]
        early[piece] = (mine >= 0) & (begins[piece] < starts[np.maximum(mine, 0)])
    return Launches(row=row, early=early)


def _told_apart(
    launches: pd.DataFrame, order: npt.NDArray[np.intp], keys: Ints
) -> tuple[npt.NDArray[np.intp], Ints, Bools]:
    """Of calls with one key the one that holds the others first, and where there is none."""
    starts, ends, tids = (integers(launches[column])[order] for column in ("start_ns", "end_ns", "tid"))
    again = np.lexsort((tids, -ends, starts, keys))
    starts, ends, tids, keys, order = starts[again], ends[again], tids[again], keys[again], order[again]
    first = runs(keys)
    lengths = np.diff(np.append(first, len(keys)))
    head = np.repeat(first, lengths)
    held = (tids == tids[head]) & (starts >= starts[head]) & (ends <= ends[head])
    return order, keys, np.repeat(~np.logical_and.reduceat(held, first), lengths)


def _keys(work: pd.DataFrame, launches: pd.DataFrame) -> tuple[Ints, Ints]:
    """One number for each process and correlation id."""
    ids = [integers(work["correlation"]), integers(launches["correlation"])]
    pids = [work["pid"].to_numpy(), launches["pid"].to_numpy()]
    if len(launches) and all((column == pids[1][0]).all() for column in pids):
        return ids[0], ids[1]
    _, process = _factorize(*pids)
    if any(len(column) and (column.min() < 0 or column.max() >= 1 << _CORRELATION_BITS) for column in ids):
        ids = _factorize(*ids)[1]
    keys = [(code << _CORRELATION_BITS) | correlation for code, correlation in zip(process, ids, strict=True)]
    return keys[0], keys[1]


def _factorize(*columns: npt.NDArray[Any]) -> tuple[int, list[Ints]]:
    distinct = np.unique(np.concatenate([np.unique(column) for column in columns]))
    return len(distinct), [np.searchsorted(distinct, column).astype(np.int64) for column in columns]


class Origins(NamedTuple):
    """Where the CUDA graph nodes of the work were captured."""

    node: Codes  # int32 ``[work]``: a place in the columns below; -1 where there is no graph node
    state: Small  # int8 ``[nodes]``: 0 where it was found, else `MISSING` or `AMBIGUOUS`
    tid: Ints  # int64 ``[nodes]``: the thread
    start: Ints  # int64 ``[nodes]``: the time


def find_origins(work: pd.DataFrame, graph_nodes: pd.DataFrame) -> Origins:
    """Follow each graph node to the node that it was cloned from, and on to the one that was captured."""
    import pandas as pd

    ids = integers(work["graph_node"])
    node = np.full(len(ids), -1, dtype=np.int32)
    mine = np.flatnonzero(ids)
    if not len(mine):
        nothing = np.empty(0, dtype=np.int64)
        return Origins(node, nothing, nothing, nothing)
    code, pairs = pd.factorize(pd.MultiIndex.from_arrays([integers(work["pid"])[mine], ids[mine]]))
    node[mine] = code
    pid, wanted = (np.asarray(pairs.get_level_values(level), dtype=np.int64) for level in (0, 1))
    state = np.full(len(wanted), MISSING, dtype=np.int8)
    tid, start = np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.int64)
    if not len(graph_nodes):
        return Origins(node, state, tid, start)
    made, original = integers(graph_nodes["graph_node"]), integers(graph_nodes["original_node"])
    count, (sought, offered, source) = _factorize(wanted, made, original)
    _, (worker, maker) = _factorize(pid, integers(graph_nodes["pid"]))
    starts, tids = integers(graph_nodes["start_ns"]), integers(graph_nodes["tid"])
    keys = maker * count + offered
    order = np.lexsort((tids, starts, source, keys))
    first = runs(keys[order])
    head = np.repeat(order[first], np.diff(np.append(first, len(order))))
    alike = (source[order] == source[head]) & (tids[order] == tids[head]) & (starts[order] == starts[head])
    unsure = np.append(~np.logical_and.reduceat(alike, first), False)
    row, keys = order[first], keys[order][first]
    root = (original[row] == 0) | (original[row] == made[row])
    above = _places(keys, maker[row] * count + source[row])
    above[root] = np.flatnonzero(root)
    # Pointers that jump: chains of n take log n rounds; one that runs in a circle never gets to a root.
    above = np.append(above, -1)
    for _ in range(max(len(row), 2).bit_length() + 1):
        unsure |= unsure[above]
        above = above[above]
    at = _places(keys, worker * count + sought)
    end = above[at]
    reached = (end >= 0) & np.append(root, False)[end]
    state[:] = np.where(reached, np.where(unsure[at], AMBIGUOUS, 0), MISSING)
    tid[reached], start[reached] = tids[row[end[reached]]], starts[row[end[reached]]]
    return Origins(node, state, tid, start)


def _places(keys: Ints, sought: Ints) -> Ints:
    """Where in the sorted keys each one sought is; -1 where it is not."""
    at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    return np.where(keys[at] == sought, at, -1).astype(np.int64)
