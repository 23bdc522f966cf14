"""Programs of others that are installed here: which one is used, and what it answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import MissingError
from trtprof.runtime.child import exit_words

Version = tuple[int, ...]

_ANSWER_S = 60.0  # How long a program may take to tell its version or help, on a slow network disk too


class Tool(NamedTuple):
    """A program that may be installed."""

    name: str  # Of the command
    title: str  # Of the product
    variable: str  # Of the environment: names the one to use
    places: Sequence[str]  # Where it usually is, as patterns
    install: str  # What to do where it is not
    # The version in what it answers to ``--version``; empty where that is not this program.
    version: Callable[[str], Version]


class Found(NamedTuple):
    """The one to use."""

    path: Path  # The program
    version: Version  # For example ``(2023, 4, 4, 54)``
    why: str  # Why this one, in words
    others: tuple[str, ...] = ()  # Further ones on this machine, with their versions

    @property
    def version_text(self) -> str:
        """As it is written: ``2023.4.4.54``."""
        return dotted(self.version)


def find(tool: Tool) -> Found:
    """The one that the variable names, else the first on the PATH, else the newest in the usual folders."""
    asked = os.environ.get(tool.variable)
    if asked:
        path = shutil.which(asked)
        version, silent = _version(tool, path) if path else ((), "it is not there, or not executable")
        if path is None or not version:
            raise MissingError(f"{tool.variable}={asked} is no {tool.name} that runs", why=silent, fix=tool.install)
        return Found(Path(path), version, f"{tool.variable} names it")
    on_path = shutil.which(tool.name)
    usual = [path for pattern in tool.places for path in sorted(glob(pattern)) if os.access(path, os.X_OK)]
    found: list[tuple[Version, str]] = []
    silent_ones: list[str] = []
    seen: set[str] = set()
    for place in [*([on_path] if on_path else []), *usual]:
        if os.path.realpath(place) in seen:
            continue
        seen.add(os.path.realpath(place))
        version, silent = _version(tool, place)
        if version:
            found.append((version, place))
        else:
            silent_ones.append(f"{place}: {silent}")
    if not found:
        why = "; ".join(silent_ones) or f"there is none on the PATH, nor in {', '.join(tool.places)}"
        raise MissingError(f"{tool.title} ({tool.name}) is not installed here", why=why, fix=tool.install)
    if found[0][1] == on_path:
        chosen, why = found[0], "it is the first on the PATH"
    else:
        chosen = max(found, key=lambda entry: entry[0])
        why = "it is the only one in the usual folders" if len(found) == 1 else "it is the newest in the usual folders"
        if silent_ones:
            why += f" ({'; '.join(silent_ones)})"
    others = tuple(f"{path} ({dotted(version)})" for version, path in found if path != chosen[1])
    return Found(Path(chosen[1]), chosen[0], why, others)


def _version(tool: Tool, path: str) -> tuple[Version, str]:
    """The version of a program that should be the tool, or why it has none."""
    told, why = answer([path, "--version"])
    return tool.version(told), why or f"it answers --version with {' '.join(told.split())[:120]!r}"


def answer(command: Sequence[str], within_s: float = _ANSWER_S) -> tuple[str, str]:
    """What a command prints, or why it does not."""
    try:
        asked = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=within_s,
            check=False,
        )  # fmt: skip
    except OSError as error:
        return "", error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return "", f"it does not answer within {within_s:g} s"
    told = asked.stdout + asked.stderr
    return told, "" if asked.returncode == 0 else " ".join(told.split())[:200] or exit_words(asked.returncode)


def dotted(version: Version) -> str:
    """As it is written: ``2023.4.4.54``."""
    return ".".join(map(str, version))
