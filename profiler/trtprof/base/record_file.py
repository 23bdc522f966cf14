"""Records read from JSON files, whoever wrote them: of a size and a depth that can be read, with sane numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.input_file import read_file

MAX_BYTES = 1 << 28
"""Larger files are no records: 40,000 layers take a tenth of it."""
MAX_INT = (1 << 63) - 1
MAX_FLOAT = 1e30
"""No count, time or rate of anything is larger, and products of two such are numbers still."""
_OF_MODELS = "attributes"
_MOST_OF_MODELS = 3.5e38
"""What is under that name is what a model says: bounds of a Clip, say, which are those of fp32."""

# May be a number that is too large, or text that reads like one.
_LARGE = re.compile(rb"[:,\[\s]-?(?:\d{19}|\d[\d.]*[eE]\+?\d\d)")

T = TypeVar("T")


def decoded(data: bytes, kind: type[T]) -> T:
    """A record from JSON."""
    try:
        if _LARGE.search(data):
            _check_numbers(msgspec.json.decode(data))
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8: {error.reason} at byte {error.start} of a text") from None
    except RecursionError:
        raise ValueError("lists or objects in it are too many levels deep") from None


def read_record(path: Path, kind: type[T], *, what: str, fix: str) -> T:
    """The record in a file."""
    try:
        return decoded(read_file(path, most=MAX_BYTES, what=what, fix=fix), kind)
    except ValueError as error:
        raise UsageError(f"{path} cannot be read", why=str(error), fix=fix) from None


def _check_numbers(document: Any) -> None:
    """Refuse numbers that no result is made of."""
    left = [(document, MAX_FLOAT)]
    while left:
        each, most = left.pop()
        if isinstance(each, dict):
            left += [(value, _MOST_OF_MODELS if name == _OF_MODELS else most) for name, value in each.items()]
        elif isinstance(each, list):
            left += [(value, most) for value in each]
        # The least int64 is what "from the beginning" is called in models.
        elif (isinstance(each, int) and not -MAX_INT - 1 <= each <= MAX_INT) or (
            isinstance(each, float) and abs(each) > most
        ):
            raise ValueError(f"{str(each)[:40]} is larger than any count, time or rate")
