"""Settings of a project: the thresholds of the rules, from ``[tool.trtprof]`` of its ``pyproject.toml``.

Keys are the fields of `diagnose.Thresholds`, with hyphens: ``min-share = 0.02``. The nearest such table upwards from
the working folder counts, and no other. ``TRTPROF_CONFIG`` names another file; one that is no ``pyproject.toml`` may
have the keys at its top. A run keeps what it was judged by (`kept`), and is judged by that ever after (`judge_of`).
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.run_folder import Request
from trtprof.base.toml_file import read_toml
from trtprof.diagnose import THRESHOLDS, Case, Judge, Thresholds

VARIABLE = "TRTPROF_CONFIG"  # Environment variable that names the file
PYPROJECT = "pyproject.toml"
TABLE = "[tool.trtprof]"
KEPT = "thresholds"  # Under which name a run keeps, among its options, the thresholds that are not the defaults


@functools.cache
def meanings() -> dict[str, str]:
    """What each threshold means and where its value is from, by name: the docstring of `Thresholds`."""
    section = inspect.cleandoc(Thresholds.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.split(r"(?m)^ {4}(?=\S)", section)
    pairs = (entry.partition(":")[::2] for entry in entries if entry.strip())
    return {name: " ".join(text.split()) for name, text in pairs}


class Config(NamedTuple):
    """What a project has set, and in which file; None where none sets anything."""

    thresholds: Thresholds = THRESHOLDS
    file: Path | None = None

    def source(self, name: str) -> str:
        """Where the value of a threshold comes from, in words."""
        changed = getattr(self.thresholds, name) != getattr(THRESHOLDS, name)
        return str(self.file) if changed else "default"


def load(folder: Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The settings that count in a folder."""
    named = (os.environ if environment is None else environment).get(VARIABLE, "")
    if named:
        path = Path(named)
        return Config(thresholds_of(_table(path) or {}, f"{path} ({VARIABLE})"), path)
    start = (folder or Path.cwd()).resolve()
    for parent in (start, *start.parents):
        path = parent / PYPROJECT
        if path.is_file() and (table := _table(path)) is not None:
            return Config(thresholds_of(table, f"{path}, {TABLE}"), path)
    return Config()


def _table(path: Path) -> Mapping[str, Any] | None:
    """What a file sets; None where it has no table for trtprof."""
    try:
        document = read_toml(path, "thresholds", fix=f"{VARIABLE} names another file")
    except FileNotFoundError:
        raise MissingError(
            f"there is no file {path}", why=f"{VARIABLE} names it", fix=f"name another, or unset {VARIABLE}"
        ) from None
    except OSError as error:
        raise MissingError(
            f"{path} cannot be read", why=error.strerror or str(error), fix=f"{VARIABLE} names another file"
        ) from None
    except ValueError as error:
        # Both of what is no TOML and of what is no UTF-8.
        raise UsageError(
            f"{path} is no TOML", why=str(error), fix=f"mend it, or name another file with {VARIABLE}"
        ) from None
    if path.name != PYPROJECT and "tool" not in document:
        return document
    tools = document.get("tool")
    table = tools.get("trtprof") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: trtprof is no table", why=f"it is {table!r}", fix=f"{TABLE}, and the keys below it")
    return table


def thresholds_of(table: Mapping[str, Any], where: str) -> Thresholds:
    """The defaults, with what a table sets."""
    kinds = get_type_hints(Thresholds, include_extras=True)
    known = {name.replace("_", "-"): name for name in Thresholds._fields}
    changed: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key.lower().replace("_", "-"), known, n=1, cutoff=0)
            raise UsageError(
                f"there is no threshold {key!r}",
                why=f"{where} sets it; the nearest is {near[0]}",
                fix=f"{near[0]} = ..., or leave it away; `trtprof rules CODE` tells those of a rule",
            )
        name = known[key]
        try:
            found = msgspec.convert(value, kinds[name])
        except msgspec.ValidationError as error:
            raise _impossible(key, value, name, where, str(error)) from None
        if not math.isfinite(found) or found < 0:
            raise _impossible(key, value, name, where, "it must be a finite number, not below 0")
        changed[name] = found
    return THRESHOLDS._replace(**changed)


def _impossible(key: str, value: object, name: str, where: str, why: str) -> UsageError:
    return UsageError(
        f"{key} = {value!r} is not possible", why=f"{why}; {where}", fix=f"the default is {getattr(THRESHOLDS, name):g}"
    )


def kept(thresholds: Thresholds) -> str:
    """The thresholds that are not the defaults, as a run keeps them among its options; empty where all are."""
    pairs = zip(Thresholds._fields, thresholds, THRESHOLDS, strict=True)
    changed = {name.replace("_", "-"): value for name, value, default in pairs if value != default}
    return msgspec.json.encode(changed, order="sorted").decode() if changed else ""


def judge_of(request: Request, seen: Callable[[Case], None] | None = None) -> Judge:
    """By what a saved run is judged: what it kept, not what is set where it is looked at."""
    text = request.options.get(KEPT, "")
    try:
        table = msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except msgspec.DecodeError as error:
        raise UsageError(
            "the thresholds of this run cannot be read", why=f"request.json: {error}", fix="run the model again"
        ) from None
    return Judge(thresholds_of(table, "request.json of this run"), seen)
