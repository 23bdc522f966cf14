"""The command: ``trtprof``, or ``python -m trtprof``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; Ctrl-C is one line from the first import on."""
    try:
        from trtprof import cli

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
