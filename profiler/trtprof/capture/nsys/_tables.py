"""Tables on their way from the file to a frame: columns of integers, and categories where names are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trtprof.base.nested_ranges import distinct, places_in

if TYPE_CHECKING:
    import pandas as pd

Columns = dict[str, Any]
"""Columns of one table by name, ``[rows]`` each."""
Ints = npt.NDArray[np.int64]

PID_SHIFT, PID_MASK = 24, 0xFFFFFF
"""Where a globalTid or globalPid of nsys has the process."""

_LONGEST_NS = 24 * 3600 * 10**9
"""Nothing in a capture lasts longer; sums of what a damaged file says would."""


def process_of(serial: Ints) -> npt.NDArray[np.int32]:
    """The process id within globalPids or globalTids; -1 where there is none."""
    return np.where(serial < 0, -1, serial >> PID_SHIFT & PID_MASK).astype(np.int32)


def forwards(columns: Columns, what: str, notes: list[str]) -> Columns:
    """Rows that end after they start, within `_LONGEST_NS`: some have no end, where the capture stopped."""
    lasts = columns["end_ns"] - columns["start_ns"]  # of two that are too far apart it is negative
    wrong = columns["end_ns"] < columns["start_ns"]
    endless = ~wrong & ((lasts < 0) | (lasts > _LONGEST_NS))
    for rows, words in ((wrong, "end before they start"), (endless, "last longer than a day")):
        if rows.any():
            notes.append(f"{int(rows.sum())} rows of {what} {words} and were left out")
    return rows_of(columns, ~(wrong | endless))


def rows_of(columns: Columns, chosen: npt.NDArray[Any]) -> Columns:
    if chosen.dtype == np.bool_ and chosen.all():
        return columns
    return {name: columns.pop(name)[chosen] for name in list(columns)}


def ordered(columns: Columns) -> Columns:
    """By start, and where that is the same in the order of the file."""
    start = columns["start_ns"]
    if len(start) < 2 or bool((start[1:] >= start[:-1]).all()):
        return columns
    return rows_of(columns, np.argsort(start, kind="stable").astype(np.int32))


def compact(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Values as ``dtype`` where all fit, else as they are."""
    if values.dtype == dtype:
        return values
    limits = np.iinfo(dtype)
    fits = not len(values) or (int(values.min()) >= limits.min and int(values.max()) <= limits.max)
    return values.astype(dtype) if fits else values


def categories(keys: npt.NDArray[Any], known: Mapping[int, str], *, every: bool = False) -> pd.Categorical:
    """Keys as a category of their names, sorted, so that it does not tell in which order the rows were.

    Args:
        keys: ``[rows]``.
        known: The name of each key; one that is not there is called ``""``.
        every: Whether all names become categories, in the order of ``known``, not only those that occur.
    """
    import pandas as pd

    found = distinct(keys)
    codes = places_in(found, keys)
    names = [known.get(int(key), "") for key in found]
    labels: Iterable[str] = known.values() if every else sorted(set(names))
    index = {name: at for at, name in enumerate(labels)}
    # By way of a table from key to code, as two keys may have the same name.
    table = np.asarray([index[name] for name in names], dtype=np.int32)
    narrow = compact(table[codes] if len(table) else codes, "int16")
    return pd.Categorical.from_codes(narrow, categories=pd.Index(list(index), dtype=object))


def frame_of(columns: Columns, names: Sequence[str]) -> pd.DataFrame:
    """A frame that takes the columns over: they are not copied into one block."""
    import pandas as pd

    return pd.DataFrame({name: columns.pop(name) for name in names}, columns=list(names), copy=False)
