"""On which line of a TOML file everything in it stands, which `tomllib` does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

Path = tuple[str | int, ...]  # Keys, and numbers of what stands in a list, from 0: ``("models", 2, "batches")``

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^\s,\]}#]+(?: [0-9:.+-]+Z?)?")


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1 on, of every key and of everything in a list."""
    return _Scanner(text).found


class _Scanner:
    """Reads what is known to be TOML; of no use for anything else."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self._seen = 0
        self._line = 1
        self._tables: dict[Path, int] = {}
        """How many there are so far of each ``[[list of tables]]``."""
        table: Path = ()
        while self._next():
            if self.text[self.at] == "[":
                table = self._head()
            else:
                self._pair(table)

    def _next(self) -> bool:
        """Go to what is neither blank nor comment; whether there is something."""
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at < len(self.text)

    def _mark(self, path: Path) -> None:
        """What a path means begins here; the first place counts."""
        self._line += self.text.count("\n", self._seen, self.at)
        self._seen = self.at
        self.found.setdefault(path, self._line)

    def _keys(self) -> Iterator[str]:
        """The parts of ``a."b".c``."""
        while match := _KEY.match(self.text, self.at):
            self.at = match.end()
            part = match[1]
            yield part if part[0] not in "\"'" else str(tomllib.loads(f"x={part}")["x"])
            if self.text[self.at : self.at + 1] != ".":
                return
            self.at += 1

    def _head(self) -> Path:
        """``[a.b]`` or ``[[a.b]]``; the path of the table that begins."""
        begin = self.at
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        *before, last = self._keys()
        end = self.at + (2 if many else 1)
        table: Path = ()
        for part in before:
            table = (*table, part)
            if table in self._tables:
                table = (*table, self._tables[table] - 1)
        table = (*table, last)
        self.at = begin
        if many:
            self._mark(table)
            self._tables[table] = self._tables.get(table, 0) + 1
            table = (*table, self._tables[table] - 1)
        self._mark(table)
        self.at = end
        return table

    def _pair(self, table: Path) -> None:
        begin = self.at
        path = table
        for part in self._keys():
            path, end, self.at = (*path, part), self.at, begin
            self._mark(path)
            self.at = end
        self.at += 1
        self._value(path)

    def _value(self, path: Path) -> None:
        self._next()
        first = self.text[self.at]
        if first == "[":
            self._many(path)
        elif first == "{":
            self._inline(path)
        else:
            match = _STRING.match(self.text, self.at) or _PLAIN.match(self.text, self.at)
            self.at = match.end() if match else len(self.text)

    def _many(self, path: Path) -> None:
        self.at += 1
        number = 0
        while self._next() and self.text[self.at] != "]":
            self._mark((*path, number))
            self._value((*path, number))
            number += 1
            if self._next() and self.text[self.at] == ",":
                self.at += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        while self._next() and self.text[self.at] != "}":
            self._pair(path)
            if self._next() and self.text[self.at] == ",":
                self.at += 1
        self.at += 1
