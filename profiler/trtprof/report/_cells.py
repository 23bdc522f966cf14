"""Text that fits a number of columns of a terminal, where some characters take two and some none."""

from __future__ import annotations

import re
import unicodedata


def _cell(char: str) -> int:
    """Columns of a terminal that a printable character takes."""
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cells(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_cell, text))


def pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def head(text: str, width: int) -> str:
    """The longest start of ``text`` that fits."""
    if text.isascii():
        return text[: max(width, 0)]
    used = 0
    for index, char in enumerate(text):
        used += _cell(char)
        if used > width:
            return text[:index]
    return text


def elide(text: str, width: int, dots: str) -> str:
    """``text`` in at most ``width`` columns, its middle replaced by dots."""
    if cells(text) <= width:
        return text
    keep = width - len(dots)
    if keep < 2:
        return head(text, width)
    tail = head(text[::-1], keep - keep // 2)[::-1]
    return head(text, keep // 2) + dots + tail


def wrapped(text: str, width: int, dots: str, first: int | None = None, *, spaced: bool = False) -> list[str]:
    """``text`` in lines of at most ``width`` columns, broken at spaces; the first line has ``first``."""
    lines: list[str] = []
    for spaces, long_word in re.findall(r"(\s*)(\S+(?: %\S*)?)", text):
        room = width if lines[1:] or first is None else first
        word = elide(long_word, width, dots)
        gap = spaces if spaced else " "
        if lines and cells(lines[-1]) + len(gap) + cells(word) <= room:
            lines[-1] += gap + word
        else:
            lines.append(word)
    return lines
