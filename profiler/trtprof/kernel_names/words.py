"""Names made of words with ``_`` between them, and what several families write in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trtprof.kernel_names.record import DTYPES, MMA_SHAPES, sm_version

_SHAPE = re.compile(r"\d{1,4}(?:x\d{1,4}){1,2}", re.ASCII)
_NUMBER = re.compile(r"\d{1,6}", re.ASCII)
_ALIGNMENTS = ("1", "2", "4", "8", "16", "32", "64", "128")
LAYOUTS = frozenset(("nn", "nt", "tn", "tt"))


class Words:
    """The words of a name; ``closed`` says whether something follows the last one, so that it is not cut."""

    def __init__(self, name: str, *, closed: bool) -> None:
        """Split ``name`` at underscores; ``closed`` where a bracket follows it."""
        self.all = name.split("_")
        self.closed = closed

    def __len__(self) -> int:
        return len(self.all)

    def whole(self, index: int) -> bool:
        """Whether the word at ``index`` is there and complete."""
        return 0 <= index < len(self.all) - 1 or (self.closed and index == len(self.all) - 1)

    def get(self, index: int) -> str:
        """The word at ``index`` if it is there and complete, else empty."""
        return self.all[index] if self.whole(index) else ""

    def at(self, index: int) -> str:
        """The word at ``index``, cut or not; empty behind the end."""
        return self.all[index] if 0 <= index < len(self.all) else ""

    def shape(self, index: int, prefix: str = "", dims: int | None = None) -> str | None:
        """``128x64`` or ``128x64x32`` behind ``prefix``, if the word is that and nothing else."""
        word = self.get(index)
        if not word.startswith(prefix):
            return None
        text = word[len(prefix) :]
        return text if _SHAPE.fullmatch(text) and dims in (None, text.count("x") + 1) else None

    def number(self, index: int, prefix: str = "") -> int | None:
        """The number behind ``prefix``, if the word is that and nothing else."""
        word = self.get(index)
        text = word[len(prefix) :] if word.startswith(prefix) else ""
        return int(text) if _NUMBER.fullmatch(text) else None

    def alignment(self, index: int, prefix: str) -> int | None:
        """The alignment behind ``prefix``; at the end of a name only one that no longer one begins with."""
        word = self.at(index)
        text = word[len(prefix) :] if word.startswith(prefix) else ""
        if text not in _ALIGNMENTS:
            return None
        if not self.whole(index) and any(longer != text and longer.startswith(text) for longer in _ALIGNMENTS):
            return None
        return int(text)

    def mma(self, index: int, prefix: str) -> str | None:
        """The instruction's shape behind ``prefix``; no shape begins with another, so that a cut shows."""
        word = self.at(index)
        text = word[len(prefix) :] if word.startswith(prefix) else ""
        return text if text in MMA_SHAPES else None

    def sm(self, index: int) -> int | None:
        """The SM version of a word ``sm80`` or ``sm90a``: of a whole word only, never from inside one."""
        word = self.at(index)
        return sm_version(word[2:]) if word.startswith("sm") else None

    def dtype(self, index: int) -> str | None:
        """The dtype of a complete word."""
        return DTYPES.get(self.get(index))

    def only(self, index: int, known: Iterable[str]) -> str:
        """The word at ``index``, even at the end of a name, if it is known and no longer known word begins with it."""
        word = self.at(index)
        longer = [each for each in known if each.startswith(word)]
        return word if longer == [word] else ""

    def first(self, *sought: str, start: int = 0) -> int:
        """Where the first of these words stands complete, or -1."""
        for index in range(start, len(self.all)):
            if self.all[index] in sought and self.whole(index):
                return index
        return -1


def split_types(word: str) -> tuple[str, ...]:
    """``f16f32`` as its dtypes, in order; empty where the word is anything else."""
    found: list[str] = []
    rest = word
    while rest:
        for length in (5, 4, 3, 2):
            if rest[:length] in DTYPES and length <= len(rest):
                found.append(DTYPES[rest[:length]])
                rest = rest[length:]
                break
        else:
            return ()
    return tuple(found)
