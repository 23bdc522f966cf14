"""The words that TensorRT has for the dtype and the memory format of a tensor.

The spellings of TensorRT 8 and 10 are those of real layer information; those of TensorRT 11 and
TensorRT-RTX are the strings in the library of TensorRT-RTX 1.7.1. What a format means is TensorRT's
documentation of `nvinfer1::TensorFormat`: a format that is vectorised by channels exists from three
dimensions on, and pads the channels, which are the third dimension from the end, or the fourth where there
are three spatial ones.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

_DTYPES: dict[str, str] = {
    "float": "fp32", "fp32": "fp32", "float32": "fp32", "double": "fp64", "fp64": "fp64",
    "half": "fp16", "fp16": "fp16", "float16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "bfloat": "bf16",
    "fp8": "fp8e4m3fn", "float8": "fp8e4m3fn", "fp8e4m3": "fp8e4m3fn", "fp8e5m2": "fp8e5m2", "e8m0": "fp8e8m0",
    "fp4": "fp4e2m1", "float4": "fp4e2m1", "fp4e2m1": "fp4e2m1",
    "int64": "int64", "int32": "int32", "int8": "int8", "int4": "int4",
    "uint8": "uint8", "uint4": "uint4", "bool": "bool",
}  # fmt: skip
"""TensorRT's words, without a leading ``k`` and in lower case, to those of `units.DTYPE_BITS`."""

_WORD = re.compile(r"[A-Za-z]+\d*(?:[A-Za-z]\d+)*")
_NUMBERS = {"one": 1, "two": 2, "four": 4, "eight": 8, "sixteen": 16, "thirty-two": 32}
_WIDE = re.compile(r"(?i)\b(one|two|four|eight|sixteen|thirty-two|\d{1,4}) (?:wide )?channel\b")
_MULTIPLE = re.compile(r"(?i)\b(?:channel|c) *(?:%|==) *(\d{1,4})(?: *== *0)?")
_ENUM = re.compile(r"\bk?(?:C?D?HW|D?HWC)(\d{1,4})\b|\bk?CD?HW(\d{1,4})\b")
_PADDED_ROWS = re.compile(r"(?i)(?:column|line|h) stride *% *\d+")


class Format(NamedTuple):
    """What a format text says."""

    dtype: str  # Key of `units.DTYPE_BITS`, or ``""``
    vector: int = 1  # The channels are padded to a multiple of this; 1 where they are not
    spatial: int = 2  # Number of dimensions behind the channels
    padded_rows: bool = False  # Rows are padded too, to a length that depends on the device

    def axis(self, rank: int) -> int | None:
        """The dimension of the channels in a tensor of ``rank`` dimensions, None where none is padded."""
        axis = rank - self.spatial - 1
        return axis if self.vector > 1 and axis >= 0 else None


@functools.cache
def parse_dtype(text: str) -> str:
    """The dtype that a text names, the first one of it: ``""`` where there is none."""
    for word in _WORD.findall(text.replace("_", "")):
        key = word.lower()
        dtype = _DTYPES.get(key) or _DTYPES.get(key.removeprefix("k"))
        if dtype:
            return dtype
    return ""


@functools.cache
def parse_format(text: str) -> Format:
    """What a ``Format/Datatype`` or a ``Format`` says, in any of TensorRT's spellings."""
    vector = 1
    if wide := _WIDE.search(text):
        vector = _NUMBERS.get(wide[1].lower()) or int(wide[1])
    elif multiple := _MULTIPLE.search(text):
        vector = int(multiple[1])
    elif enum := _ENUM.search(text):
        vector = int(enum[1] or enum[2])
    spatial = 3 if "3 spatial dimensions" in text or "DHW" in text else 2
    return Format(parse_dtype(text), max(vector, 1), spatial, _PADDED_ROWS.search(text) is not None)
