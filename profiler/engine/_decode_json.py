"""JSON in files that people send: where it ends, and where it is broken."""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NoReturn

from profiler.base.errors import UsageError

# NaN and Infinity stay text, which no reader takes for a number.
_DECODER = JSONDecoder(strict=False, parse_constant=str)
_SPACE = re.compile(r"\s*")
_NOT_A_NUMBER = re.compile(r"-?(?:nan|inf)(?:inity)?(?:\([^)]*\))?", re.IGNORECASE)


def decode_json(path: Path, text: str, at: int) -> tuple[Any, int]:
    """The JSON document that begins at ``at``, and where it ends.

    Control characters within strings are let through: TensorRT separates items with them.

    Raises:
        UsageError: The document is cut short or broken; the line is named.
    """
    try:
        return _DECODER.raw_decode(text, _SPACE.match(text, at).end())  # type: ignore[union-attr]
    except JSONDecodeError as error:
        _broken(path, text, error)
    except RecursionError:
        raise UsageError(
            f"{path} is broken JSON", why="its brackets nest too deep", fix="export the file again"
        ) from None


def _broken(path: Path, text: str, error: JSONDecodeError) -> NoReturn:
    where = f"line {error.lineno}, column {error.colno}"
    rest = text[error.pos :].strip()
    # An unterminated string is reported where it begins.
    if not rest or error.msg.startswith("Unterminated string"):
        raise UsageError(
            f"{path} is cut short",
            why=f"its JSON ends inside {'a string' if rest else 'a list or an object'} ({where})",
            fix="export or copy the file again",
        ) from None
    if number := _NOT_A_NUMBER.match(rest):
        raise UsageError(
            f"{path} has {number[0]} for a number", why=f"at {where}", fix="measure and export the file again"
        ) from None
    raise UsageError(
        f"{path} is broken JSON", why=f"{error.msg.lower()} at {where}", fix="export the file again"
    ) from None
