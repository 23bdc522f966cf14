"""Reading files that people send: what they are in truth, and where they are broken."""

from __future__ import annotations

import codecs
import re
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NoReturn

from profiler.base.errors import MissingError, UsageError

MAX_BYTES = 1 << 30
"""Larger files are refused: no plan or profile comes near it, and the text is held in memory."""

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HEAD = 1 << 16
# NaN and Infinity stay text, which no reader takes for a number.
_DECODER = JSONDecoder(strict=False, parse_constant=str)
_SPACE = re.compile(r"\s*")
_NOT_A_NUMBER = re.compile(r"-?(?:nan|inf)(?:inity)?(?:\([^)]*\))?", re.IGNORECASE)


def read_file(path: Path, *, what: str, fix: str) -> str:
    """The text of a file of ``what``.

    Bytes that are no UTF-8 become U+FFFD; text that a Windows shell wrote as UTF-16 is read too.

    Raises:
        MissingError: The file does not exist or cannot be read.
        UsageError: It is binary (an engine, an ONNX model), empty, or larger than `MAX_BYTES`.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UsageError(f"{path} is too large for {what}", why=f"{size} bytes; the limit is {MAX_BYTES}", fix=fix)
        data = path.read_bytes()
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}", fix=fix) from None
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix=fix) from None
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "")
    if not encoding and b"\0" in data[:_HEAD]:
        raise UsageError(
            f"{path} is a binary file, not {what}",
            why="it may be an engine itself, whose content only TensorRT can read"
            if path.suffix != ".onnx"
            else "it is an ONNX model",
            fix=fix,
        )
    text = data.decode(encoding or "utf-8", errors="replace")
    if not text.strip():
        raise UsageError(f"{path} is empty", why=f"{what} was expected", fix=fix)
    return text


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
