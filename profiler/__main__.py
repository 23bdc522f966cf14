"""The command: ``trtprof``, or ``python -m profiler``."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def _stopped(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - it has the signature of all handlers
    """Ctrl-C while modules are imported: nothing is begun that would have to be ended."""
    os.write(2, b"stopped by Ctrl-C\n")
    os._exit(130)


def main() -> None:
    """Entry point: Ctrl-C is one line from the first import on."""
    before = signal.signal(signal.SIGINT, _stopped)
    from profiler import cli

    signal.signal(signal.SIGINT, before)
    try:
        cli.main()
    except KeyboardInterrupt:
        # Inside a command `errors_shown` says what was kept; this is Ctrl-C before there was one.
        sys.stderr.write("stopped by Ctrl-C\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
