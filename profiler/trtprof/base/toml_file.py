"""TOML files that people write: of any content, read in a bounded time."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from trtprof.base.input_file import read_file

MOST_BYTES = 4 << 20
"""No person wrote a larger one."""


def read_toml(path: Path, what: str, *, fix: str = "") -> dict[str, Any]:
    """The document in a TOML file of ``what``, for errors, as is how to mend them."""
    return parse_toml(read_file(path, most=MOST_BYTES, what=what, fix=fix).decode("utf-8-sig"))


def parse_toml(text: str) -> dict[str, Any]:
    """The document that a text of at most `MOST_BYTES` is."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
