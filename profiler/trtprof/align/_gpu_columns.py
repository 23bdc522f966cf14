"""The columns of a capture as plain arrays, in an order that does not depend on that of the rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.nested_ranges import distinct, places_in

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger[Any]]
Small = npt.NDArray[np.signedinteger[Any]]
Bools = npt.NDArray[np.bool_]

PIECE = 1 << 17

KERNEL, MEMCPY, MEMSET = 0, 1, 2
_SIZES = ("bytes", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_smem",
          "dynamic_smem")  # fmt: skip
_KINDS = {"kernel": KERNEL, "memcpy": MEMCPY, "memset": MEMSET}


class Work(NamedTuple):
    """Rows of `GpuTrace.work`, sorted by start and, where rows start together, by all else that tells them apart."""

    row: Codes  # int32; the place of each in `GpuTrace.work`
    start: Ints  # int64, ns
    duration: Ints  # int64, ns; 0 where the capture has an end before the start
    kind: Small  # int8; `KERNEL`, `MEMCPY` or `MEMSET`
    name: Codes  # Places in ``names``, which are sorted
    names: Sequence[str]
    short: Sequence[str]  # For each of ``names`` the shortest of its short names
    queue: Codes  # int32; a stream of a context of a device of a process, numbered in the order of these ids
    device: Codes  # Its id


def integers(column: pd.Series[Any]) -> Ints:
    """A column as int64, without a copy where it is that already; ids above 2**63 keep their bits."""
    values = column.to_numpy()
    return values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)


def coded(column: pd.Series[Any]) -> tuple[npt.NDArray[np.signedinteger[Any]], list[str]]:
    """A column of words as places in the sorted list of those words that it holds, in as few bytes as will do."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy()
        words = [str(word) for word in column.cat.categories]
    else:
        found, kept = pd.factorize(column)
        codes, words = found, [str(word) for word in kept]
    words.append("")  # where -1 leads to: a word that is missing
    used = np.zeros(len(words), dtype=np.bool_)
    used[codes] = True
    held = {word: place for place, word in enumerate(sorted({words[at] for at in np.flatnonzero(used).tolist()}))}
    place = np.array([held.get(word, 0) for word in words], dtype=np.min_scalar_type(-max(len(held), 2)))
    if used[:-1].all() and (place[:-1] == np.arange(len(words) - 1)).all() and not used[-1]:
        return codes.astype(place.dtype, copy=False), list(held)
    return place[codes], list(held)


def ranked(*columns: npt.NDArray[Any]) -> Codes:
    """A number for each combination of ids, in the order of the ids: int32, from 0."""
    ranks = np.zeros(len(columns[0]), dtype=np.int32)
    for column in columns:
        if not len(column) or (column == column[0]).all():
            continue
        among = distinct(column)
        both = ranks * np.int64(len(among)) + places_in(among, column)
        ranks = places_in(distinct(both), both)
    return ranks


def read_work(frame: pd.DataFrame, device: int | None) -> Work:
    """The rows of `GpuTrace.work` that ran on a device, on any where that is None."""
    rows = np.arange(len(frame), dtype=np.int32)
    if device is not None:
        rows = rows[frame["device"].to_numpy() == device]
        frame = frame.iloc[rows]
    start, end = integers(frame["start_ns"]), integers(frame["end_ns"])
    name, names = coded(frame["name"])
    short_code, shorts = coded(frame["short_name"])
    kinds, kind_words = coded(frame["kind"])
    kind = np.array([_KINDS.get(word, KERNEL) for word in kind_words] or [KERNEL], dtype=np.int8)[kinds]
    queue = ranked(*(frame[column].to_numpy() for column in ("pid", "device", "context", "stream")))
    duration = end - start
    np.maximum(duration, 0, out=duration)
    # For each name the first of its short names.
    found = [""] * len(names)
    for pair in distinct(name * np.int64(max(len(shorts), 1)) + short_code)[::-1].tolist():
        at, which = divmod(pair, max(len(shorts), 1))
        found[at] = shorts[which]
    short = found
    columns = (rows, start, duration, kind, name, queue, frame["device"].to_numpy())
    if not (start[1:] > start[:-1]).all():
        ids = (integers(frame["graph_node"]), integers(frame["correlation"]))
        keys = (*ids, kind, short_code, name, queue, end, start)
        order = np.lexsort(keys)
        same = np.logical_and.reduce([key[order[1:]] == key[order[:-1]] for key in keys])
        if same.any():
            order = np.lexsort((*(frame[column].to_numpy() for column in _SIZES), *keys))
        columns = tuple(column[order] for column in columns)  # type: ignore[assignment]
    rows, start, duration, kind, name, queue, devices = columns
    return Work(rows, start, duration, kind, name, names, short, queue, devices)


def pieces(length: int) -> Iterator[slice]:
    """Slices of rows that temporary columns are made for at a time."""
    return (slice(begin, begin + PIECE) for begin in range(0, length, PIECE))


def cut(firsts: npt.NDArray[np.intp], length: int) -> Iterator[slice]:
    """The same, cut only where a run begins."""
    at = np.searchsorted(firsts, np.arange(0, length, PIECE))
    bounds = np.unique(np.append(firsts[at[at < len(firsts)]], length)).tolist()
    return (slice(low, high) for low, high in itertools.pairwise(bounds))


def grouped(codes: Codes) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each code of a column, from the lowest, with its rows in their order."""
    if not len(codes):
        return
    # Two bytes are sorted by counting, which is several times as fast.
    small = codes.astype(np.int16) if codes.max() < 1 << 15 and codes.min() >= -(1 << 15) else codes
    order = np.argsort(small, kind="stable")
    bounds = np.append(runs(codes[order]), len(order))
    for low, high in itertools.pairwise(bounds.tolist()):
        yield int(codes[order[low]]), order[low:high]


def runs(keys: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Where each run of equal keys begins."""
    if not len(keys):
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))


def mixed(values: npt.NDArray[Any], salt: int) -> npt.NDArray[np.uint64]:
    """Numbers spread over 64 bits, so that sums of them differ where what is summed differs (splitmix64)."""
    spread = values.astype(np.int64).view(np.uint64).copy()
    spread += np.uint64((0x9E3779B97F4A7C15 * (salt + 1)) % 2**64)
    spread ^= spread >> np.uint64(30)
    spread *= np.uint64(0xBF58476D1CE4E5B9)
    spread ^= spread >> np.uint64(27)
    spread *= np.uint64(0x94D049BB133111EB)
    spread ^= spread >> np.uint64(31)
    return spread
