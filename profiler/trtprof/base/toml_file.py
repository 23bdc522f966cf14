"""TOML files that people write: of any content, read in a bounded time."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from trtprof.base.input_file import read_file

MOST_BYTES = 4 << 20
"""No person wrote a larger one."""

_DEEP = re.compile(r"""(?<![\w-])(?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:[ \t]*\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')){100}""")
"""A key of so many parts; the time that `tomllib` takes grows with their square."""


def read_toml(path: Path, what: str, *, fix: str = "") -> dict[str, Any]:
    """The document in a TOML file of ``what``, for errors, as is how to mend them."""
    return parse_toml(read_file(path, most=MOST_BYTES, what=what, fix=fix).decode("utf-8-sig"))


def parse_toml(text: str) -> dict[str, Any]:
    """The document that a text of at most `MOST_BYTES` is."""
    if _DEEP.search(text) is None:
        try:
            return tomllib.loads(text)
        except RecursionError:
            pass
    raise ValueError("it is nested too deep")
