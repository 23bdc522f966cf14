"""Whether code made elsewhere may run, of an engine or of a plugin: who asks for it says so, or a terminal's yes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from trtprof.base.errors import UsageError
from trtprof.cli.declared import opt
from trtprof.cli.output import say

_TRUST = (
    "Load an engine, or run the code of a plugin's folder, without a question, though it was not made here: "
    "either holds code, so know who made it."
)
TrustOption = Annotated[bool, opt("--trust", _TRUST, "Engine of TensorRT")]
PluginTrustOption = Annotated[bool, opt("--trust", _TRUST)]


def allow_engine(path: str, *, trust: bool) -> None:
    """Tell what is known of an engine, and go on where that is allowed; one that trtprof built here needs no leave."""
    from trtprof.engine.trust import engine_file
    from trtprof.hardware.store import default_cache_dir

    found = engine_file(Path(path), default_cache_dir())
    if found.own:
        return
    refusal = UsageError(
        f"{path} is not loaded",
        why="it was made elsewhere, an engine holds code, and nobody said that it is trusted",
        fix="say --trust if you know who made it, or build it here: leave --loadEngine away",
    )
    _ask(found.warning, "load it?", refusal, trust=trust)


def allow_plugin(folder: Path, *, trust: bool) -> None:
    """Tell what is known of the code in a folder of a plugin, and go on where that is allowed."""
    from trtprof.hardware.store import default_cache_dir
    from trtprof.plugin.folder import FILE
    from trtprof.plugin.trust import other_code

    if not (folder / FILE).is_file():
        return
    found = other_code(folder, default_cache_dir())
    if found is None:
        return
    refusal = UsageError(
        f"the code in {folder} is not run",
        why="it was not written here, or changed since, and nobody said that it is trusted",
        fix="read it, and say --trust if you know who made it",
    )
    _ask(found.warning, "run it?", refusal, trust=trust)


def _ask(warning: str, question: str, refusal: UsageError, *, trust: bool) -> None:
    """Tell what is known of code, and refuse it where nobody trusts it."""
    say(f"warning: {warning}")
    if not trust and not _agreed(question):
        raise refusal


def _agreed(question: str) -> bool:
    """The answer of whoever sits at a terminal; no where nobody does."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
