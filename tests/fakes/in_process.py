"""Workers that are called in this process, for tests of what a run makes and not of how its children are started."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

import pytest

from tests.fakes.support import fixed_ceilings
from trtprof.base.records import Ceilings
from trtprof.capture.workers import ort_cpu
from trtprof.hardware.calibrate import Calibration
from trtprof.runtime import child


def fixed_calibration(patch: pytest.MonkeyPatch, ceilings: Ceilings | None = None) -> None:
    """Runs in this process take `fixed_ceilings`, or those given, instead of measuring for seconds."""
    patch.setattr(Calibration, "__init__", lambda *_args, **_named: None)
    patch.setattr(Calibration, "__enter__", lambda self: self)
    patch.setattr(Calibration, "__exit__", lambda *_args: None)
    patch.setattr(Calibration, "round", lambda _: None)
    patch.setattr(Calibration, "best", (0.0, 0.0, 0.0))
    patch.setattr(Calibration, "finish", lambda _: ceilings or fixed_ceilings())


def quick(patch: pytest.MonkeyPatch) -> None:
    """Runs also call their worker instead of starting it, and the machine is said to have one speed."""
    fixed_calibration(patch)
    # By probes of a moment another clock would be told from run to run.
    patch.setattr(ort_cpu, "probe_ns", lambda: 1e6)
    patch.setattr(ort_cpu, "ahead_of_others", lambda *_: contextlib.nullcontext(False))
    patch.setattr(ort_cpu, "together_ns", lambda _: (2e5, 5e3))
    patch.setattr(child, "run_telling", call_telling)
    patch.setattr(child, "started_ahead", lambda *_: contextlib.nullcontext())


class _Lines(io.StringIO):
    """Tells each line that is written, to somebody who may print."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        self._stdout = sys.stdout

    def write(self, text: str) -> int:
        *whole, rest = (self.getvalue() + text).split("\n")
        self.seek(0)
        self.truncate()
        with contextlib.redirect_stdout(self._stdout):
            for line in whole:
                self._say(line)
        return super().write(rest)


def call_telling(
    command: Sequence[str],
    log: Path,
    say: Callable[[str], None],
    environment: Mapping[str, str],
    deadline_s: float | None = None,
) -> int:
    """What `child.run_telling` does, by calling the module that the command names; nobody ends it at a deadline."""
    _, _, _, module, *arguments = command
    with (
        log.open("w", encoding="utf-8") as errors,
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(child, "end_with_parent"),  # this process has no such parent
        contextlib.redirect_stdout(_Lines(say)),
        contextlib.redirect_stderr(errors),
    ):
        try:
            return int(importlib.import_module(module).main([module, *arguments]))
        except Exception:
            traceback.print_exc()
            return 1
