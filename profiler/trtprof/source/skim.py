"""ONNX files read without their weights.

The wire format of protobuf (https://protobuf.dev/programming-guides/encoding) says of every field where it ends, so
that the elements of large tensors can be passed over unread; all else is handed to protobuf as it stands.
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
_SCALARS = (7, 8, 9)
"""Fields of an AttributeProto with many numbers or strings."""
_DATA_TYPE = 2
_ELEMENTS: dict[int, str] = {
    4: "float_data",
    5: "int32_data",
    6: "string_data",
    7: "int64_data",
    9: "raw_data",
    10: "double_data",
    11: "uint64_data",
}
"""Fields of a TensorProto that hold elements."""
_MARK = "trtprof.left_out"
_VARINT, _LENGTH = 0, 2
_WIDTHS = {1: 8, 5: 4}
"""Bytes of a value by its wire type, where these are always as many."""


class SkimError(Exception):
    """The bytes are no protobuf message."""


def read_model(path: Path, integers: int) -> ModelProto:
    """A model without the elements of its large tensors.

    int32 and int64 tensors of at most ``integers`` elements keep them, for they may decide shapes.
    """
    with path.open("rb", buffering=0) as file:
        skimmer = _Skimmer(file, 8 * integers)
        data = skimmer.message("ModelProto", 0, skimmer.size)
        return ModelProto.FromString(skimmer.bytes_of(0, skimmer.size) if data is None else data)


def left_out(tensor: TensorProto) -> list[str]:
    """The fields whose elements `read_model` left out of a tensor."""
    return [entry.value for entry in tensor.metadata_props if entry.key == _MARK]


class _Skimmer:
    def __init__(self, file: BinaryIO, integer_bytes: int) -> None:
        self._file = file
        self._integer_bytes = integer_bytes
        self.size = os.fstat(file.fileno()).st_size
        self._buffer = b""
        self._start = 0
        self._ahead = _LEAST
        if hasattr(os, "posix_fadvise"):  # else the system reads ahead, into weights
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def message(self, kind: str, start: int, end: int) -> bytes | None:
        holders = _HOLDERS[kind]
        parts: list[bytes] = []
        kept = start
        for number, wire, header, value, stop in self._fields(start, end):
            if kind == "AttributeProto" and number in _SCALARS:
                break  # an attribute holds values of one kind: millions in a tree ensemble, and no tensor behind them
            inner_kind = holders.get(number)
            if inner_kind is None or wire != _LENGTH or stop - value <= SMALL_BYTES:
                continue
            if inner_kind == _TENSOR:
                inner = self._tensor(value, stop)
            elif inner_kind == _BLOB:
                inner = b"" if stop - value > _LONG_STRING else None
            else:
                inner = self.message(inner_kind, value, stop)
            if inner is not None:
                parts += (self.bytes_of(kept, header), _varint(number << 3 | _LENGTH), _varint(len(inner)), inner)
                kept = stop
        return b"".join((*parts, self.bytes_of(kept, end))) if parts else None

    def _tensor(self, start: int, end: int) -> bytes | None:
        cuts: list[list[int]] = []
        fields: set[int] = set()
        size = data_type = 0
        for number, wire, header, value, stop in self._fields(start, end):
            if number in _ELEMENTS:
                fields.add(number)
                size += stop - value
                if cuts and cuts[-1][1] == header:
                    cuts[-1][1] = stop
                else:
                    cuts.append([header, stop])
            elif number == _DATA_TYPE and wire == _VARINT:
                data_type = self._read_varint(value, stop)[0]
        if size <= (self._integer_bytes if data_type in (TensorProto.INT32, TensorProto.INT64) else SMALL_BYTES):
            return None
        parts: list[bytes] = []
        for cut, stop in cuts:
            parts.append(self.bytes_of(start, cut))
            start = stop
        marks = [StringStringEntryProto(key=_MARK, value=_ELEMENTS[number]) for number in sorted(fields)]
        parts += (self.bytes_of(start, end), TensorProto(metadata_props=marks).SerializeToString())
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
                if not tag >> 3:  # as in a file of zeros, which would be gone through byte by byte
                    raise SkimError(f"there is no field of number 0 at byte {position}")
                if wire == _LENGTH:
                    length, value = self._read_varint(value, end)
                    stop = value + length
                elif wire == _VARINT:
                    stop = self._read_varint(value, end)[1]
                elif wire in _WIDTHS:
                    stop = value + _WIDTHS[wire]
                else:
                    raise SkimError(f"there is no field of wire type {wire} before byte {value}")
            if stop > end:
                raise SkimError(f"a field of {stop - value} bytes at byte {position} goes beyond its end")
            yield tag >> 3, wire, position, value, stop
            position = stop

    def _read_varint(self, position: int, end: int) -> tuple[int, int]:
        """A number of 7 bits a byte, least first, and where it ends."""
        at = position - self._start
        if not 0 <= at <= len(self._buffer) - 10:
            at = self._load(position)
        result = 0
        for index, byte in enumerate(self._buffer[at : at + 10]):
            result |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if position + index >= end:
                    break
                return result, position + index + 1
        raise SkimError(f"it ends within a number at byte {position}")

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
        at = start - self._start
        if at >= 0 and end <= self._start + len(self._buffer) and end <= self.size:
            return self._buffer[at : at + end - start]
        self._file.seek(start)
        parts: list[bytes] = []
        while (missing := end - start) > 0:
            part = self._file.read(missing)
            if not part:
                raise SkimError("it became shorter while it was read")
            parts.append(part)
            start += len(part)
        return b"".join(parts)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
