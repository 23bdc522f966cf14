"""Commands in processes that are forked from this one, which has imported what they import: most of their time.

It reads a JSON object a line: ``words`` of the command, ``env`` to add, ``cwd``, ``err`` (the file that takes what it
says) and ``seconds``; it answers with the exit code, -99 where that was not enough time.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from trtprof import cli  # noqa: F401 - it says what is set before libraries are imported


def _command(asked: dict[str, Any], modules: int) -> None:
    """What the forked process does; it never returns."""
    code: Any = 70
    try:
        os.setsid()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for number, place in ((0, os.devnull), (1, os.devnull), (2, asked["err"])):
            os.dup2(os.open(place, flags if number else os.O_RDONLY, 0o666), number)
        os.chdir(asked["cwd"])
        os.environ |= asked["env"]
        tempfile.tempdir = None
        sys.argv = ["trtprof", *asked["words"]]
        from trtprof.__main__ import main

        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        if modules >= 0:
            os.write(modules, json.dumps(sorted(sys.modules)).encode())
        os._exit(code)


def _ended(pid: int, seconds: float) -> int:
    until, wait = time.monotonic() + seconds, 0.002
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > until:
            code = -99
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(wait)
        wait = min(wait * 1.5, 0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # children that it left
    return code


def main() -> None:
    warm: set[str] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        first = asked["words"][0] not in warm
        told, tell = os.pipe() if first else (-1, -1)
        pid = os.fork()
        if pid == 0:
            _command(asked, tell)
        if first:
            warm.add(asked["words"][0])
            os.close(tell)
            with os.fdopen(told, "rb") as stream:
                names = stream.read()
            for name in json.loads(names or b"[]"):
                if Path(name.replace(".", "/")).name != "__main__":
                    with contextlib.suppress(Exception):
                        importlib.import_module(name)
            gc.collect()
            gc.freeze()  # forks need not copy the pages of what stays
        print(_ended(pid, asked["seconds"]), flush=True)


if __name__ == "__main__":
    main()
