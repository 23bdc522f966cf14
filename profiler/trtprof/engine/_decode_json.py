"""JSON in files that people send: where it ends, where it is broken, and what in it no program can have meant."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NoReturn

from trtprof.base.errors import UsageError

# NaN and Infinity stay text, which no reader takes for a number.
_DECODER = JSONDecoder(strict=False, parse_constant=str)
_SPACE = re.compile(r"\s*")
_LONG_NUMBER = re.compile(r"\d{4301}")  # More digits than Python reads as a number (``sys.set_int_max_str_digits``)
_DEEPEST = 64  # Brackets within brackets; TensorRT and trtexec write six at most
_INTEGERS = -(1 << 63), (1 << 64) - 1
_NOT_A_NUMBER = re.compile(r"-?(?:nan|inf)(?:inity)?(?:\([^)]*\))?", re.IGNORECASE)


def decode_json(path: Path, text: str, at: int) -> tuple[Any, int]:
    """The JSON document that begins at ``at``, and where it ends."""
    try:
        found, end = _DECODER.raw_decode(text, _SPACE.match(text, at).end())  # type: ignore[union-attr]
    except JSONDecodeError as error:
        _broken(path, text, error)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError:
        number = _LONG_NUMBER.search(text, at)
        line = text.count("\n", 0, number.start() if number else at) + 1
        raise UsageError(
            f"{path} has a number of thousands of digits",
            why=f"in line {line}",
            fix="measure and export the file again",
        ) from None
    _check(path, found)
    return found, end


def decode_value(text: str) -> Any:
    """A value in a line of text as JSON has it; the text itself where it is none, or none that can be meant."""
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return text
    return text if _impossible(found) else found


def _check(path: Path, document: Any) -> None:
    found = _impossible(document)
    if found is None:
        return
    place, value = found
    if value is None:
        raise _too_deep(path)
    raise UsageError(
        f"{path} has {value:.3g} for a number" if isinstance(value, float) else f"{path} has a number beyond 64 bits",
        why=f"at {place}",
        fix="measure and export the file again",
    )


def _impossible(document: Any) -> tuple[str, int | float | None] | None:
    """The place and the value of a number that 64 bits do not hold; no value where the brackets nest too deep."""
    least, most = _INTEGERS
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for one in level:
            for value in one.values() if type(one) is dict else one if type(one) is list else (one,):
                kind = type(value)
                if kind is dict or kind is list:
                    inner.append(value)
                elif (kind is int and not least <= value <= most) or (kind is float and not math.isfinite(value)):
                    return _place(document, value), value
        if not inner:
            return None
        level = inner
    return "", None


def _place(document: Any, value: float, at: str = "") -> str:
    """Where in a document a value stands: ``Layers[3].Kernel[0]``."""
    if document is value:
        return at or "its beginning"
    if isinstance(document, dict):
        parts: Iterable[tuple[str, Any]] = ((f"{at}.{key}".lstrip("."), one) for key, one in document.items())
    elif isinstance(document, list):
        parts = ((f"{at}[{index}]", one) for index, one in enumerate(document))
    else:
        return ""
    return next((found for name, one in parts if (found := _place(one, value, name[:200]))), "")


def _too_deep(path: Path) -> UsageError:
    return UsageError(
        f"{path} is broken JSON", why=f"its brackets nest too deep: {_DEEPEST} are enough", fix="export the file again"
    )


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
