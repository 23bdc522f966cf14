"""ONNX files read without their weights.

An ONNX file is one protobuf message. Its wire format (https://protobuf.dev/programming-guides/encoding)
says of every field where it ends, so that the elements of large tensors can be passed over unread.
All else is handed to protobuf as it stands. A tensor that lost its elements says in its metadata how
many bytes they took; see `left_out`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from onnx import ModelProto, StringStringEntryProto, TensorProto

SMALL_BYTES = 1024
"""Tensors whose elements take at most this many bytes are kept whole, whatever their type."""
_LONG_STRING = 1 << 15
"""A longer string attribute is a blob, such as the compiled engine in an EPContext node."""
_MAX_DEPTH = 100
"""Messages in messages: where protobuf itself stops."""
_LEAST, _MOST = 1 << 9, 1 << 20
"""Bytes read at once: first after a jump, and at most while nothing is passed over."""
_HEADER = 20
"""Bytes of the longest header: two numbers of ten bytes."""

_TENSOR, _BLOB = "TensorProto", "blob"
_HOLDERS: dict[str, dict[int, str]] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "GraphProto": {1: "NodeProto", 5: _TENSOR, 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        4: _BLOB, 5: _TENSOR, 6: "GraphProto", 10: _TENSOR, 11: "GraphProto", 22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: _TENSOR, 2: _TENSOR},
}  # fmt: skip
"""Fields of each message that hold tensors, at any depth, by number (onnx.proto)."""
_DATA_TYPE, _RAW_DATA, _STRING_DATA = 2, 9, 6
_ELEMENTS: dict[int, str] = {
    4: "float_data", 5: "int32_data", _STRING_DATA: "string_data", 7: "int64_data", _RAW_DATA: "raw_data",
    10: "double_data", 11: "uint64_data",
}  # fmt: skip
"""Fields of a TensorProto that hold elements."""
_MARK = "trtprof.left_out."

# Wire types.
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)


class WireError(Exception):
    """The bytes are no protobuf message."""


def read_model(path: Path, integers: int) -> ModelProto:
    """Read a model without the elements of its large tensors.

    Args:
        integers: int32 and int64 tensors of at most this many elements keep them, for they may decide shapes; other
            tensors only within `SMALL_BYTES`.
    """
    with path.open("rb", buffering=0) as file:
        scanner = _Scanner(file, 8 * integers)
        end = scanner.size
        data = scanner.message("ModelProto", 0, end, 0)
        if data is None:
            data = scanner.bytes_of(0, end)
    return ModelProto.FromString(data)


def left_out(tensor: TensorProto) -> dict[str, int]:
    """What `read_model` left out of a tensor, by field: bytes, or strings of ``string_data``.

    A message may be written in parts: of ``raw_data`` the last one counts, of the others all of them.
    """
    found: dict[str, int] = {}
    for entry in tensor.metadata_props:
        if entry.key.startswith(_MARK) and entry.value.isdecimal():
            field = entry.key.removeprefix(_MARK)
            found[field] = int(entry.value) + (found.get(field, 0) if field != "raw_data" else 0)
    if tensor.raw_data:  # a later part, which was small enough to stay
        found.pop("raw_data", None)
    return found


class _Scanner:
    """Walks the fields of messages in a file, reading little more than their headers."""

    def __init__(self, file: BinaryIO, integer_bytes: int) -> None:
        self._file = file
        self._integer_bytes = integer_bytes
        self.size = os.fstat(file.fileno()).st_size
        self._buffer = b""
        self._start = 0
        self._ahead = _LEAST
        if hasattr(os, "posix_fadvise"):  # else the system reads ahead, into weights
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def message(self, kind: str, start: int, end: int, depth: int) -> bytes | None:
        """A message without the elements of large tensors, or None where there is nothing to leave out."""
        if depth > _MAX_DEPTH:
            raise WireError("its messages are nested too deep")
        holders = _HOLDERS[kind]
        parts: list[bytes] = []
        kept = start
        for number, wire, header, value, stop in self._fields(start, end):
            inner_kind = holders.get(number)
            if inner_kind is None or wire != _LENGTH or stop - value <= SMALL_BYTES:
                continue
            if inner_kind == _TENSOR:
                inner = self._tensor(value, stop)
            elif inner_kind == _BLOB:
                inner = b"" if stop - value > _LONG_STRING else None
            else:
                inner = self.message(inner_kind, value, stop, depth + 1)
            if inner is not None:
                parts += (self.bytes_of(kept, header), _varint(number << 3 | _LENGTH), _varint(len(inner)), inner)
                kept = stop
        if not parts:
            return None
        parts.append(self.bytes_of(kept, end))
        return b"".join(parts)

    def _tensor(self, start: int, end: int) -> bytes | None:
        sizes: dict[int, int] = {}
        data_type = 0
        for number, wire, _, value, stop in self._fields(start, end):
            if number in _ELEMENTS:
                sizes[number] = sizes.get(number, 0) + stop - value
            elif number == _DATA_TYPE and wire == _VARINT:
                data_type = self._read_varint(value, stop)[0]
        limit = self._integer_bytes if data_type in (TensorProto.INT32, TensorProto.INT64) else SMALL_BYTES
        if sum(sizes.values()) <= limit:
            return None
        parts: list[bytes] = []
        counts: dict[int, int] = {}
        kept = start
        for number, wire, header, value, stop in self._fields(start, end):
            if number not in _ELEMENTS:
                continue
            if kept < header:
                parts.append(self.bytes_of(kept, header))
            kept = stop
            if number == _RAW_DATA:
                if wire == _LENGTH:
                    parts.append(_varint(_RAW_DATA << 3 | _LENGTH) + b"\0")
                    counts[number] = stop - value
            else:
                counts[number] = counts.get(number, 0) + (1 if number == _STRING_DATA else stop - value)
        parts.append(self.bytes_of(kept, end))
        marks = [
            StringStringEntryProto(key=_MARK + _ELEMENTS[number], value=str(count)) for number, count in counts.items()
        ]
        parts.append(TensorProto(metadata_props=marks).SerializeToString())
        return b"".join(parts)

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Fields of a message: number, wire type, and where its header and its value start and it ends."""
        position = start
        while position < end:
            at = position - self._start
            if not 0 <= at <= len(self._buffer) - _HEADER:
                at = self._load(position)
            tag = self._buffer[at]
            length = self._buffer[at + 1]
            wire = tag & 7
            if tag < 0x80 and length < 0x80 and wire == _LENGTH:  # the most frequent header, without a call
                value = position + 2
                stop = value + length
            else:
                tag, value = self._read_varint(position, end)
                wire = tag & 7
                stop = self._skip(tag, value, end, 0)
                if wire == _LENGTH:
                    value = self._read_varint(value, end)[1]
            if stop > end:
                raise WireError(f"a field of {stop - value} bytes at byte {position} goes beyond its end")
            if tag < 8:
                raise WireError(f"the field at byte {position} has the number 0")
            yield tag >> 3, wire, position, value, stop
            position = stop

    def _skip(self, tag: int, value: int, end: int, depth: int) -> int:
        """Where a field ends whose value starts at ``value``."""
        match tag & 7:
            case 0:
                return self._read_varint(value, end)[1]
            case 1:
                return value + 8
            case 2:
                length, value = self._read_varint(value, end)
                return value + length
            case 3 if depth < _MAX_DEPTH:
                position = value
                while position < end:
                    inner, position = self._read_varint(position, end)
                    if inner & 7 == _END_GROUP:
                        if inner >> 3 != tag >> 3:
                            break
                        return position
                    position = self._skip(inner, position, end, depth + 1)
            case 5:
                return value + 4
        raise WireError(f"there is no field of wire type {tag & 7} before byte {value}")

    def _read_varint(self, position: int, end: int) -> tuple[int, int]:
        """A number of 7 bits a byte, least first, and where it ends."""
        at = position - self._start
        if not 0 <= at <= len(self._buffer) - 10:
            at = self._load(position)
        buffer = self._buffer
        byte = buffer[at]
        if byte < 0x80:  # most are that short
            if position >= end:
                raise WireError(f"it ends within a number at byte {position}")
            return byte, position + 1
        result = byte & 0x7F
        for index in range(1, 10):
            byte = buffer[at + index]
            result |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if position + index >= end:
                    break
                return result, position + index + 1
        raise WireError(f"there is no number at byte {position}")

    def _load(self, position: int) -> int:
        """Have a header at a position in the buffer (zeros behind the end of the file)."""
        behind = self._start + len(self._buffer)
        follows = self._buffer and behind - _HEADER <= position <= behind
        self._ahead = min(2 * self._ahead, _MOST) if follows else _LEAST
        self._file.seek(position)
        self._buffer = self._file.read(self._ahead)
        self._start = position
        if len(self._buffer) < _HEADER:
            self._buffer += bytes(_HEADER)
        return 0

    def bytes_of(self, start: int, end: int) -> bytes:
        """The bytes of the file from ``start`` to ``end``."""
        at = start - self._start
        if at >= 0 and end <= self._start + len(self._buffer) and end <= self.size:
            return self._buffer[at : at + end - start]
        self._file.seek(start)
        parts: list[bytes] = []
        missing = end - start
        while missing > 0:
            part = self._file.read(missing)
            if not part:
                raise WireError("it became shorter while it was read")
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
