"""The child process that tells with which inputs a model runs: ``-m trtprof.capture.workers.ort_trial REQUEST``.

It runs the model once with each set of inputs on the CPU until one works. It is a process of its own: a runtime may
crash on inputs that do not fit.
"""

from __future__ import annotations

import sys
import time

import msgspec

from trtprof.base.errors import CaptureError
from trtprof.base.records import InputTensor
from trtprof.capture.workers.inference import make_inputs
from trtprof.capture.workers.ort_cpu import bind
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, make_session

_SECONDS = 30.0
"""No further inputs are tried after so long."""


class TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to try, in this order."""

    session: SessionRequest
    folder: str
    scratch: str
    candidates: tuple[tuple[InputTensor, ...], ...]
    seed: int


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the number of the first inputs that the model runs with, and how many were tried."""

    found: int | None
    tried: int


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, TrialRequest, try_all)


def try_all(request: TrialRequest) -> Trial:
    """Return what came of it."""
    session = make_session(request.session)
    end = time.monotonic() + _SECONDS
    found, tried = None, 0
    for number, inputs in enumerate(request.candidates):
        tried += 1
        try:
            bind(session, make_inputs(inputs, request.seed))
        except CaptureError:
            if time.monotonic() > end:
                break
        else:
            found = number
            break
    return Trial(found=found, tried=tried)


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
