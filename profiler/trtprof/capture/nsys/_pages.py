"""Columns of a table straight from the pages of an SQLite file.

SQLite hands out a value at a time: some 50 ns for each of millions of values where a program in C takes them, more
where they become objects of Python. Its file format is simple and does not change
(https://sqlite.org/fileformat2.html): a table is a tree of pages, whose leaves hold the rows in the order of their
ids; a row is a header, with a number for the type of each column, and the values behind it. The rows of a table have
few different headers. So each header is parsed once, and numpy fetches a column of many rows at a time.

What the exports of nsys are made of is read here, and nothing else: all that is unusual, or does not fit together,
raises `UnusualError`, upon which SQLite itself reads the table (`_trace_file`).
"""

from __future__ import annotations

import io
import itertools
import os
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

CHUNK_BYTES = 1 << 21
"""Pages that are in memory at a time: few enough that the columns of a chunk fit in the cache of a CPU."""

_INTERIOR, _LEAF = 5, 13
_DEEPEST = 20
_WIDEST = 256
"""Bytes of a row that are copied at once."""
_SLACK = 2 * _WIDEST
"""Zeros behind the last page, so that this many bytes can be read wherever a row begins."""
_MANY = 500
_SHORT = 64
"""Bytes of a text that are looked at in all rows, whether their text is as long or not."""

# By serial type: NULL, integers of 1, 2, 3, 4, 6 and 8 bytes, a float, the numbers 0 and 1, two that are reserved and
# get a size that fits no row; above, even ones are blobs and odd ones texts.
_NULL, _FLOAT, _ONE, _FIRST_BLOB = 0, 7, 9, 12
_SIZE_OF = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 1 << 40, 1 << 40)
_SIZES = np.array(_SIZE_OF)
_SHIFTS = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0])
_LONG_VARINT = 9
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIRST_BYTES: Words = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
"""Masks for the first bytes of a word, by how many: words are little-endian where they are only compared."""


class UnusualError(Exception):
    """The pages are not as expected: SQLite is to read them."""


class OddValueError(Exception):
    """A value is neither NULL nor of the kind that was asked for."""


class _Headers(dict[bytes, int]):
    """Numbers the headers of a table, and has them parsed.

    Attributes:
        types: int64 ``[columns, headers]``: serial types; NULL for columns that were added to the table after the row.
        offsets: int64 ``[columns, headers]``: where the value begins, from the begin of the header.
        sizes: int64 ``[headers]``: bytes of header and values.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.types, self.offsets = (np.zeros((columns, 64), dtype=np.int64) for _ in range(2))
        self.sizes = np.zeros(64, dtype=np.int64)

    def __missing__(self, raw: bytes) -> int:
        number = len(self)
        if number == len(self.sizes):
            self.types, self.offsets = (np.tile(table, 2) for table in (self.types, self.offsets))
            self.sizes = np.tile(self.sizes, 2)
        types = list(raw[1:]) if raw.isascii() else _serial_types(raw[1:])
        if len(types) > len(self.types):
            raise UnusualError
        sizes = [_SIZE_OF[kind] if kind < _FIRST_BLOB else (kind - _FIRST_BLOB) // 2 for kind in types]
        *offsets, self.sizes[number] = itertools.accumulate(sizes, initial=len(raw))
        missing = [_NULL] * (len(self.types) - len(types))
        self.types[:, number], self.offsets[:, number] = types + missing, offsets + missing
        self[raw] = number
        return number


class _Records:
    """Records where they lie in their pages.

    Attributes:
        starts: ``[records]``: where each begins.
        lengths: ``[records]``, in bytes.
    """

    def __init__(self, data: Bytes, starts: Places, lengths: Ints) -> None:
        """Copy the begin of each record.

        Args:
            starts: ``[records]``; at least one.
            lengths: ``[records]``.
        """
        self.starts, self.lengths = starts, lengths
        self._data = data
        # One copy of this many bytes takes as long as one of 8.
        self._width = min(_WIDEST, -(-int(lengths.max()) // 8) * 8 + 8)
        self._begins = _taken(data, starts, self._width)

    def words(self, offset: int | Ints, rows: Places | None = None) -> Words:
        """8 bytes of records; any bytes where these lie beyond the end of one.

        Args:
            rows: Which records; None for all.
        """
        if isinstance(offset, int) and rows is None and offset + 8 <= self._width:
            return np.ndarray(len(self.starts), "<u8", self._begins, offset, (self._width,))
        at = (self.starts if rows is None else self.starts[rows]) + offset
        return _taken(self._data, np.minimum(at, len(self._data) - 8), 8).view("<u8")

    def parts(self, rows: Places, offset: int | Ints, lengths: Ints) -> list[bytes]:
        """A part of each of some records."""
        starts = self.starts[rows] + offset
        # Of many, slices of bytes are made sooner than those of an array.
        source = self._data.tobytes() if len(rows) > _MANY else self._data.data
        return [bytes(source[low:high]) for low, high in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)]


class PageRows:
    """Some rows of a table, of which columns are taken one by one.

    Attributes:
        count: How many rows.
        share: How much of the table has been read with them.
    """

    def __init__(
        self, share: float, records: _Records, header: Places, types: Ints, offsets: Ints, names: Sequence[str]
    ) -> None:
        """Take rows over.

        Args:
            header: ``[rows]``: numbers of headers.
            types: ``[columns, headers]``: see `_Headers`.
            offsets: ``[columns, headers]``: see `_Headers`.
        """
        self.count, self.share = len(header), share
        self._records, self._header, self._types, self._offsets = records, header, types, offsets
        self._names = {name: at for at, name in enumerate(names)}

    def integers(self, name: str) -> tuple[Ints, Bools | None]:
        """The integers of a column, and where it is NULL; None where it never is. Reals lose their fraction."""
        types = self._types[self._names[name]]
        if (types >= _FIRST_BLOB).any():
            raise OddValueError
        stored, values = _SIZES[types] > 0, np.where(types == _ONE, 1, 0)
        if stored.any():
            words = self._records.words(self._alike(self._offsets[self._names[name]], stored))
            found = words.view(">i8").astype(np.int64)
            found >>= self._alike(_SHIFTS[types], stored)
            if not stored.all():
                found = np.where(stored[self._header], found, values[self._header])
            if (types == _FLOAT).any():
                reals = np.flatnonzero((types == _FLOAT)[self._header])
                found[reals] = whole(words[reals].view(">f8").astype(np.float64))
        else:
            found = values[self._header]
        null = types == _NULL
        return found, null[self._header] if null.any() else None

    def texts(self, name: str) -> tuple[Places, list[bytes]]:
        """A number for the text of each row, -1 for NULL, and the text of each number."""
        types = self._types[self._names[name]]
        filled = types >= _FIRST_BLOB
        if not (filled | (types == _NULL)).all():
            raise OddValueError
        if not filled.any():
            return np.full(self.count, -1, dtype=np.intp), []
        offsets = self._offsets[self._names[name]]
        lengths = np.where(filled, (types - _FIRST_BLOB) // 2, 0)[self._header]
        numbers, firsts = _numbered(self._records, self._alike(offsets, filled), lengths)
        found = self._records.parts(firsts, offsets[self._header[firsts]], lengths[firsts])
        if not filled.all():
            numbers = np.where(filled[self._header], numbers, -1)
        return numbers, found

    def _alike(self, of_header: Ints, wanted: Bools) -> int | Ints:
        """What belongs to the header of each row: one number where it is the same for all headers that are wanted."""
        first = int(of_header[wanted][0])
        return first if (of_header[wanted] == first).all() else of_header[self._header]


class PageFile:
    """A file of SQLite that does not change while it is read."""

    def __init__(self, file: io.FileIO) -> None:
        """Read the header of the file (https://sqlite.org/fileformat2.html#the_database_header)."""
        file.seek(0)
        head = file.read(100)
        if len(head) < 100:
            raise UnusualError
        size, encoding = struct.unpack(">H", head[16:18])[0], struct.unpack(">I", head[56:60])[0]
        self._file = file
        self._page = 1 << 16 if size == 1 else size
        self._usable = self._page - head[20]
        self._pages = os.fstat(file.fileno()).st_size // self._page if self._page else 0
        if encoding != 1 or self._page.bit_count() != 1 or self._page < 512 or self._usable < 480:
            raise UnusualError

    def rows(self, root: int, names: Sequence[str]) -> Iterator[PageRows]:
        """The rows of a table in the order of their ids, some at a time.

        Args:
            names: Of its columns, in their order.
        """
        headers = _Headers(len(names))
        leaves = self._leaves(root)
        step = max(1, CHUNK_BYTES // self._page)
        for at in range(0, len(leaves), step):
            records = self._records(leaves[at : at + step])
            if records is None:
                continue
            sizes = (records.words(0) & _FIRST_BYTES[1]).astype(np.int64)
            # A header of more than 127 bytes is that of a table with more columns than nsys has.
            if sizes.max() > 127 or sizes.min() < 1 or (sizes > records.lengths).any():
                raise UnusualError
            header, firsts = _numbered(records, 0, sizes)
            numbers = list(map(headers.__getitem__, records.parts(firsts, 0, sizes[firsts])))
            if (headers.sizes[numbers][header] != records.lengths).any():
                raise UnusualError
            share = min(1.0, (at + step) / len(leaves))
            yield PageRows(share, records, header, headers.types[:, numbers], headers.offsets[:, numbers], names)

    def _leaves(self, root: int) -> Places:
        """The leaves of a tree from left to right: all are as deep."""
        level = np.array([root], dtype=np.intp)
        for _ in range(_DEEPEST):
            if self._read(level[:1])[0] == _LEAF:
                return level
            level = self._children(level)
            if len(level) > self._pages:
                break
        raise UnusualError

    def _children(self, level: Places) -> Places:
        data = self._read(level)
        counts, pointers, pages = self._pointers(data, _INTERIOR, 12)
        children = np.empty(len(pointers) + len(level), dtype=np.intp)
        ends = np.cumsum(counts + 1) - 1
        inner = np.ones(len(children), dtype=np.bool_)
        inner[ends] = False
        children[inner] = _taken(data, pages + pointers, 4).view(">u4")
        children[ends] = _taken(data, np.arange(len(level)) * self._page + 8, 4).view(">u4")
        return children

    def _records(self, leaves: Places) -> _Records | None:
        """The rows of some leaves; None where they have none."""
        data = self._read(leaves)
        counts, pointers, pages = self._pointers(data, _LEAF, 8)
        if not len(pointers):
            return None
        lengths, at = _varints(data, pages + pointers, 4)
        starts = at + self._id_lengths(data, at, counts)
        spilt = lengths > self._usable - 35
        if (np.where(spilt, starts, starts + lengths) > pages + self._usable).any():
            raise UnusualError
        if int(lengths[spilt].sum()) > self._pages * self._page:
            raise UnusualError
        if spilt.any():
            # Rows that go on in other pages are put together behind the pages: those with texts of thousands of bytes.
            parts, end = [data], len(data)
            for row in np.flatnonzero(spilt).tolist():
                parts.append(self._gathered(data, int(starts[row]), int(lengths[row]), int(pages[row]) + self._usable))
                starts[row] = end
                end += len(parts[-1])
            data = np.concatenate([*parts, np.zeros(_SLACK, dtype=np.uint8)])
        return _Records(data, starts, lengths)

    def _id_lengths(self, data: Bytes, at: Places, counts: Places) -> Places:
        """How many bytes the id of each row takes: ids rise, so the first and the last of a page tell of all.

        Not so where there may be negative ids, which take as many bytes as the largest.
        """
        counts = counts[counts > 0]
        last = np.cumsum(counts) - 1
        low, high = (_varint_lengths(data, at[ends]) for ends in (last - counts + 1, last))
        alike = (low == high) & (low < _LONG_VARINT)
        return np.repeat(low, counts) if alike.all() else _varint_lengths(data, at)

    def _gathered(self, data: Bytes, start: int, length: int, end: int) -> Bytes:
        """A record that goes on in overflow pages, each of which begins with the number of the next."""
        usable = self._usable
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        if here > usable - 35:
            here = least
        left = length - here
        if start + here + 4 > end:
            raise UnusualError
        parts = [data[start : start + here]]
        number = int.from_bytes(data[start + here : start + here + 4].tobytes(), "big")
        while left > 0:
            page = self._read(np.array([number], dtype=np.intp))
            number = int.from_bytes(page[:4].tobytes(), "big")
            parts.append(page[4 : min(4 + left, usable)])
            left -= len(parts[-1])
        return np.concatenate(parts)

    def _pointers(self, data: Bytes, kind: int, behind: int) -> tuple[Places, Places, Places]:
        """Of pages of one kind: how many cells each has; where in its page each cell begins, and where the page."""
        pages = data[:-_SLACK].reshape(-1, self._page)
        counts = pages[:, 3].astype(np.intp) << 8 | pages[:, 4]
        most = int(counts.max())
        if (pages[:, 0] != kind).any() or behind + 2 * most > self._usable:
            raise UnusualError
        pointers = pages[:, behind : behind + 2 * most].view(">u2")[np.arange(most) < counts[:, None]].astype(np.intp)
        if len(pointers) and (pointers.min() < behind or pointers.max() > self._usable - 4):
            raise UnusualError
        return counts, pointers, np.repeat(np.arange(len(pages)) * self._page, counts)

    def _read(self, numbers: Places) -> Bytes:
        """Pages one after the other, and `_SLACK`."""
        if numbers.min() < 2 or numbers.max() > self._pages:
            raise UnusualError
        data = np.empty(len(numbers) * self._page + _SLACK, dtype=np.uint8)
        data[-_SLACK:] = 0
        view = data.data
        edges = np.flatnonzero(np.diff(numbers) != 1) + 1
        for low, high in itertools.pairwise([0, *edges.tolist(), len(numbers)]):
            part = view[low * self._page : high * self._page]
            try:
                self._file.seek((int(numbers[low]) - 1) * self._page)
                complete = self._file.readinto(part) == len(part)
            except OSError:
                complete = False
            if not complete:
                raise UnusualError
        return data


def whole(reals: npt.NDArray[np.float64]) -> Ints:
    """Reals as SQLite casts them to integers: without their fraction, at most the largest there is."""
    limits = np.iinfo(np.int64)
    inside = (reals > limits.min) & (reals < limits.max)
    return np.where(inside, np.where(inside, reals, 0).astype(np.int64), np.where(reals > 0, limits.max, limits.min))


def _serial_types(raw: bytes) -> list[int]:
    """The numbers of a header: variable-length integers, of which some take several bytes."""
    found: list[int] = []
    value = 0
    for byte in raw:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            found.append(value)
            value = 0
    # No text is longer than 2**31 bytes.
    if raw[-1] >= 0x80 or max(found) >= 1 << 33:
        raise UnusualError
    return found


def _taken(data: Bytes, at: Places, width: int) -> npt.NDArray[np.void]:
    """Some bytes from each place on."""
    anywhere: npt.NDArray[np.void] = np.ndarray(len(data) - width + 1, f"V{width}", data, strides=(1,))
    return anywhere[at]


def _varints(data: Bytes, at: Places, longest: int) -> tuple[Ints, Places]:
    """The variable-length integers that begin at places, and the places behind them: 7 bits a byte, high bits first."""
    byte = data[at]
    values = (byte & 0x7F).astype(np.int64)
    more = byte >= 0x80
    for _ in range(longest - 1):
        if not more.any():
            break
        at = at + more
        byte = data[at]
        values = np.where(more, values << 7 | byte & 0x7F, values)
        more &= byte >= 0x80
    if more.any():
        raise UnusualError
    return values, at + 1


def _varint_lengths(data: Bytes, at: Places) -> Places:
    lengths = np.ones(len(at), dtype=np.intp)
    more = data[at] >= 0x80
    for offset in range(1, _LONG_VARINT):
        if not more.any():
            break
        lengths += more
        more &= data[at + offset] >= 0x80
    return lengths


def _numbered(records: _Records, offset: int | Ints, lengths: Ints) -> tuple[Places, Places]:
    """Number a part of each record, the same number for the same bytes.

    Args:
        lengths: ``[records]``: how many bytes it has.
    """
    import pandas as pd

    shortest, longest = int(lengths.min()), int(lengths.max())
    marks = None if shortest == longest else lengths.astype(np.uint64)
    words: list[tuple[Places | None, Words]] = []
    for behind in range(0, longest, 8):
        # Where a few are long, only these are looked at.
        rows = None if behind < max(shortest, _SHORT) else np.flatnonzero(lengths > behind)
        at = offset + behind if rows is None or isinstance(offset, int) else offset[rows] + behind
        word = records.words(at, rows)
        if behind + 8 > shortest:
            word = word & _FIRST_BYTES[np.clip((lengths if rows is None else lengths[rows]) - behind, 0, 8)]
        if rows is None and (word == word[0]).all():
            continue
        words.append((rows, word))
        if marks is None:
            marks = np.zeros(len(lengths), dtype=np.uint64)
        mixed = word + np.uint64(behind + 1)
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIX
        if rows is None:
            marks ^= mixed
            marks *= _MIX
        else:
            marks[rows] = (marks[rows] ^ mixed) * _MIX
    if marks is None:
        return np.zeros(len(lengths), dtype=np.intp), np.zeros(1, dtype=np.intp)
    numbers, found = pd.factorize(marks)
    firsts = np.empty(len(found), dtype=np.intp)
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    if (lengths != lengths[firsts][numbers]).any():
        raise UnusualError
    place = np.zeros(len(lengths), dtype=np.intp)
    for rows, word in words:
        if rows is None:
            same = word == word[firsts][numbers]
        else:
            place[rows] = np.arange(len(rows))
            same = word == word[place[firsts[numbers[rows]]]]
        if not same.all():
            raise UnusualError
    return numbers, firsts
