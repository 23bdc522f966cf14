"""The command: ``trtprof``, or ``python -m trtprof``."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # what `signal` wraps: that takes a while to import itself
import os
import sys


def _stopped(number: int, frame: object) -> None:  # noqa: ARG001 - it has the signature of all handlers
    """Ctrl-C while modules are imported, or the process leaves: there is nothing that would have to be ended."""
    os.write(2, b"stopped by Ctrl-C\n")
    os._exit(130)


def main() -> None:
    """Entry point: Ctrl-C is one line from the first import on."""
    # A job in the background ignores it.
    heard = _signal.getsignal(_signal.SIGINT) in (_signal.default_int_handler, _stopped)
    if heard:
        _signal.signal(_signal.SIGINT, _stopped)
    from trtprof import cli
    from trtprof.cli import process

    process.utf8_again()
    process.texts_again()
    if heard:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        cli.main()
    except KeyboardInterrupt:
        # Inside a command `errors_shown` says what was kept; this is a signal before there was one.
        sys.stderr.write(f"stopped by {process.ended_by()}\n")
        sys.exit(process.ended_code())
    finally:
        if heard:  # all is done: what is left is to leave
            _signal.signal(_signal.SIGINT, _stopped)
        # A KeyboardInterrupt inside of `exec` of a text, as libraries make their classes, leaves a mark even where it
        # is caught: `python -m` would end by SIGINT, whatever the exit code. The next text takes it away.
        exec("")  # noqa: S102


if __name__ == "__main__":
    main()
