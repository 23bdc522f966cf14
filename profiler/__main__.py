"""The command: ``trtprof``, or ``python -m profiler``."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # what `signal` wraps: that takes a while to import itself
import os
import sys


def _stopped(number: int, frame: object) -> None:  # noqa: ARG001 - it has the signature of all handlers
    """Ctrl-C while modules are imported: nothing is begun that would have to be ended."""
    os.write(2, b"stopped by Ctrl-C\n")
    os._exit(130)


def main() -> None:
    """Entry point: Ctrl-C is one line from the first import on."""
    heard = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler  # a job in the background ignores it
    if heard:
        _signal.signal(_signal.SIGINT, _stopped)
    from profiler import cli

    if heard:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        cli.main()
    except KeyboardInterrupt:
        # Inside a command `errors_shown` says what was kept; this is Ctrl-C before there was one.
        sys.stderr.write("stopped by Ctrl-C\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
