"""Names in sentences: where one of many names stands in a text, found in one pass over it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

_PIECE = re.compile(r"[^\W\d_]+|\d+|[\s\S]")
_END = ""
"""Where a name ends in the tree of names; no piece is empty."""


class Span(NamedTuple):
    """Where a name stands in a text, and the word that it was planted with."""

    start: int
    end: int
    word: str


class NameTree:
    """Names, each with a word, by the pieces that they are made of: words, numbers and single other characters."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def plant(self, name: str, word: str) -> None:
        """Add a name, also as Python quotes it, which escapes what cannot be printed; the first word stays."""
        for form in {name, repr(name)[1:-1]}:
            at = self._root
            for piece in _PIECE.findall(form):
                at = at.setdefault(piece, {})
            if form.strip():
                at.setdefault(_END, word)

    def spans(self, text: str, accepts: Callable[[str, int, int], bool]) -> list[Span]:
        """Where names stand in a text, the longest first, from left to right; ``accepts`` (text, start, end) them."""
        pieces = _PIECE.findall(text)
        found: list[Span] = []
        at = start = 0
        while at < len(pieces):
            branch = self._root.get(pieces[at])
            ends: list[tuple[int, int, str]] = []
            place, end = at, start
            while branch is not None:
                end += len(pieces[place])
                place += 1
                if _END in branch:
                    ends.append((place, end, branch[_END]))
                branch = branch.get(pieces[place]) if place < len(pieces) else None
            for next_at, stop, word in reversed(ends):
                if accepts(text, start, stop):
                    found.append(Span(start, stop, word))
                    at, start = next_at, stop
                    break
            else:
                start += len(pieces[at])
                at += 1
        return found
