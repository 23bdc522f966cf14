"""Asks a command something in a forked process with limits, and says what is wrong with how it ended."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from trtprof.base.scratch import PART, PREFIX

ALLOWED = frozenset({0, 2, 3, 4, 5})
"""Exit codes of an answer or a clear error; 1 is for findings that were asked for."""

CPU_S = 60.0
"""A command that computes longer hangs, and one that lasts `WALL_S`."""
WALL_S = 240.0
ADDRESSES = 4 << 30
"""Bytes of addresses that a command may have beyond those of the process it is forked from."""
RESIDENT = 2 << 30
"""Bytes of memory above which a command is wrong, whatever it answered."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: Its exit code; negative the signal it died by.
        out: What it wrote to stdout.
        err: What it wrote to stderr.
        folder: Its working directory, as it left it.
        cpu_s: Seconds of CPU of it and its children.
        peak: Bytes of memory at its most, of it or of a child.
        hung: Whether it was ended by us.
    """

    code: int
    out: bytes
    err: bytes
    folder: Path
    cpu_s: float
    peak: int
    hung: bool = False

    @property
    def said(self) -> str:
        """What it wrote to stderr, as text."""
        return self.err.decode("utf-8", "replace")


@dataclass(frozen=True)
class Case:
    """One input and what is asked of it.

    Attributes:
        label: What was done to the input.
        words: The command line behind ``trtprof``.
        check: What is wrong with an outcome that ended well in form, as sentences.
        codes: Exit codes that it may have.
        env: Variables of its environment besides.
        exact: Whether its output is data that repeats names to the byte (CSV), which no terminal is shown.
    """

    label: str
    words: Sequence[str | Path]
    check: Callable[[Outcome], Iterable[str]] | None = None
    codes: frozenset[int] = ALLOWED
    env: dict[str, str] = field(default_factory=dict)
    exact: bool = False


def wrong_with(outcome: Outcome, case: Case) -> list[str]:
    """What is wrong with how a command ended: a kind, a colon, and where; empty where nothing is."""
    said = outcome.said
    if outcome.hung:
        return [f"hang: {_frame(said)}"]
    found = []
    if "Traceback (most recent call last)" in said:
        found.append(f"traceback: {_frame(said)}")
    elif outcome.code < 0:
        found.append(f"signal: {-outcome.code} {_frame(said)}")
    elif outcome.code not in case.codes:
        found.append(f"exit code: {outcome.code}")
    elif outcome.code > 1 and "error:" not in said.lower():
        found.append(f"silent: exit code {outcome.code} without an error")
    if outcome.peak > RESIDENT:
        found.append(f"memory: {outcome.peak >> 20} MiB")
    if b"\x1b" in outcome.err + (b"" if case.exact else outcome.out):
        found.append("escape: a control sequence in what is printed")
    if warning := _WARNING.search(said):
        found.append(f"warning: {warning.group()[:200]}")
    out = _NAME.sub(b"", outcome.out)
    if outcome.code == 0 and (odd := _ODD.search(out)) and odd.group().decode() not in case.words:
        line = out[: odd.start()].rpartition(b"\n")[2] + out[odd.start() :].partition(b"\n")[0]
        found.append("number: " + line[:200].decode("utf-8", "replace"))
    found += [f"left: {path.name[:100]}" for path in _parts(outcome.folder)]
    if not found and case.check is not None:
        found += [f"accepted: {each}" for each in case.check(outcome)]
    return found


_WARNING = re.compile(r"^.*(?:RuntimeWarning|UserWarning|DeprecationWarning|FutureWarning|ResourceWarning|"
                      r"Exception ignored|MemoryError).*$", re.MULTILINE)  # fmt: skip
_ODD = re.compile(rb"(?<![\w/.\-'\"<])(?:nan|inf|-?Infinity|None|NaN)(?![\w/.\-'\"(])(?! of|, warps)")
_NAME = re.compile(rb'<bdi class="name">[^<]*</bdi>')
"""A name on a page, which may hold any word: none of it is a number."""
_FRAME = re.compile(r'File "([^"]*)", line (\d+)(?:, in| in) (\S+)')


def _frame(said: str) -> str:
    """The exception that was last, and the innermost of our own functions in it."""
    block = said.rpartition("Traceback (most recent call last)")[2]
    frames = _FRAME.findall(block)
    if "most recent call first" in said:  # faulthandler, of a command that hung
        frames = frames[::-1]
    own = [each for each in frames if "/trtprof/" in each[0] and "site-packages" not in each[0]]
    path, line, name = (own or frames or [("", "", "")])[-1]
    last = [line for line in block.splitlines() if line and not line[0].isspace()]
    error = re.sub(r"0x[0-9a-f]+|\d{3,}", "N", last[-1][:160]) if last else ""
    return f"{error} @ {path.rpartition('/trtprof/')[2]}:{line} {name}"


def _parts(folder: Path) -> list[Path]:
    return [Path(root, name) for root, folders, names in os.walk(folder) for name in [*names, *folders]
            if name.startswith((".trtprof-", PREFIX))]  # fmt: skip


class Runner:
    """Asks the cases of one campaign, one after the other, and keeps the inputs that went wrong.

    Args:
        campaign: The module.
        out: Where failures are kept.
        data: Real files by others, or None.
    """

    def __init__(self, campaign: ModuleType, out: Path, data: Path | None) -> None:
        self.name = campaign.__name__.rpartition(".")[2]
        self._case = campaign.case
        self._out, self._data = out.resolve(), data and data.resolve()
        self.inputs = 0
        self.codes: Counter[int] = Counter()
        self.found: dict[str, list[int]] = {}
        self.slowest = (0.0, -1)
        self.peak = 0
        _warm(campaign.WARM, self._place("home"))

    def _place(self, name: str) -> Path:
        path = self._out / f"{self.name}-{os.getpid()}" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def ask(self, seed: int, number: int, *, keep: bool = False) -> list[str]:
        """Ask the case of a seed and a number.

        Args:
            seed: Of the campaign.
            number: Of the case.
            keep: Whether its folder stays where nothing is wrong, too.

        Returns:
            What is wrong, as `wrong_with` says it.
        """
        folder = self._place("case")
        case: Case = self._case(Random(seed * 1_000_003 + number), folder, self._data)
        kept = self._out / "failures" / f"{self.name}-{seed}-{number}"
        before = self._place("before")
        shutil.rmtree(before)
        shutil.copytree(folder, before, symlinks=True, ignore=_special)
        outcome = self._run(case, folder)
        wrong = wrong_with(outcome, case)
        self.inputs += 1
        self.codes[outcome.code] += 1
        self.slowest = max(self.slowest, (outcome.cpu_s, number))
        self.peak = max(self.peak, outcome.peak)
        for each in wrong:
            self.found.setdefault(each, []).append(number)
        if keep or any(len(self.found[each]) == 1 for each in wrong):  # the first of each kind and place
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            before.rename(kept)
            told = {
                "label": case.label[:2000],
                "words": [str(each)[:2000] for each in case.words],
                "code": outcome.code,
                "wrong": wrong,
            }
            (kept / "case.json").write_text(json.dumps(told, indent=1))
            (kept / "stdout").write_bytes(outcome.out[-100_000:])
            (kept / "stderr").write_bytes(outcome.err[-100_000:])
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
        return wrong

    def _run(self, case: Case, folder: Path) -> Outcome:
        streams = self._place("streams")
        home = self._place("home")
        temporary = self._place("temporary")
        began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _child(case, folder, streams, home, temporary)
        hung, wait = False, 0.002
        while True:
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() - began > WALL_S or _cpu_s(pid) > CPU_S:
                hung = True
                os.kill(pid, signal.SIGUSR1)  # it says where it is
                time.sleep(0.5)
                os.killpg(pid, signal.SIGKILL)
                _, status, usage = os.wait4(pid, 0)
                break
            time.sleep(wait)
            wait = min(wait * 1.5, 0.05)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # children that it left
        for each in temporary.iterdir():  # what is left there is as good as in its folder
            each.rename(folder / f"{PART}temporary-{each.name}"[:255])
        return Outcome(
            os.waitstatus_to_exitcode(status),
            (streams / "out").read_bytes(),
            (streams / "err").read_bytes(),
            folder,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss << 10,
            hung,
        )


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes and sockets, which no copy reads."""
    return [name for name in names if not Path(folder, name).is_symlink() and not Path(folder, name).is_file()
            and not Path(folder, name).is_dir()]  # fmt: skip


def _cpu_s(pid: int) -> float:
    try:
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")


def _child(case: Case, folder: Path, streams: Path, home: Path, temporary: Path) -> None:
    """What the forked process does; it never returns."""
    code = 70
    try:
        os.setsid()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for number, place in ((0, os.devnull), (1, streams / "out"), (2, streams / "err")):
            os.dup2(os.open(place, flags if number else os.O_RDONLY, 0o666), number)
        faulthandler.register(signal.SIGUSR1, file=2)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESSES, mapped + ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
        os.environ |= {
            "HOME": str(home),
            "TRTPROF_CACHE_DIR": str(home / "cache"),
            "TMPDIR": str(temporary),
            **case.env,
        }
        code = _main([str(each) for each in case.words])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _main(words: list[str]) -> int:
    """The command as its process would do it, up to what is done at exit."""
    from trtprof.__main__ import main

    sys.argv = ["trtprof", *words]
    code: Any = 0
    try:
        main()
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
        code = 70
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def _warm(lines: Iterable[Sequence[str | Path]], home: Path) -> None:
    """Import what commands import, by running them once, quietly, in this process."""
    import typer.main

    from trtprof import cli

    os.environ |= {"HOME": str(home), "TRTPROF_CACHE_DIR": str(home / "cache")}
    cli.load_commands()
    made = typer.main.get_command(cli.app)
    typer.main.get_command = lambda typer_instance: made  # noqa: ARG005 - it takes longer than most cases
    keep = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        for words in lines:
            _main([str(each) for each in words])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(keep[0], 1)
        os.dup2(keep[1], 2)
    gc.collect()
    gc.freeze()  # forks need not copy the pages of what stays
