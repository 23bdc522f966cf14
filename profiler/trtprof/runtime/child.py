"""Child processes of our own: this interpreter, this package, no working folder.

`ask` gets one answer to one request. Request, answer and failure are files in one folder, so that a tool such as nsys
may stand between parent and child: it runs the command of `prepare`. A `Dialogue` gets an answer to each line.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec

from trtprof.base.errors import BuildError, CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.machine_errors import as_error
from trtprof.base.output_file import replace_file
from trtprof.base.progress import Progress, heard, unheard
from trtprof.base.scratch import scratch_folder

T = TypeVar("T")
R = TypeVar("R")

ASLEEP_S = 300.0  # A process that takes no time of a CPU for so long, and has no deadline, hangs
_LOOK_S = 5.0
_ENDS_S = 30.0
"""What a process takes at most to end once it has closed its output, or was killed. In a driver it may never."""
UNTOLD = 74  # The exit code of a child that could not even write why it failed
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Variables of children that need no linear algebra of NumPy, whose threads are the half of its import."""
_REQUEST, _ANSWER, _FAILURE = "request.json", "answer.json", "failure.json"
_ERRORS = {kind.exit_code: kind for kind in (UsageError, MissingError, BuildError, CaptureError)}


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An error on its way from a child to its parent."""

    exit_code: int = CaptureError.exit_code
    what: str
    why: str
    fix: str

    @classmethod
    def of(cls, error: TrtprofError) -> Failure:
        return cls(exit_code=error.exit_code, what=error.what, why=error.why, fix=error.fix)

    def error(self) -> TrtprofError:
        return _ERRORS.get(self.exit_code, CaptureError)(self.what, why=self.why, fix=self.fix)


class DiedError(CaptureError):
    """A child ended, or was ended, without an answer; ``code`` is its exit code, None where it hung."""

    code: int | None = None


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package.

    ``-P`` keeps the working folder out of the import path: a user's ``onnx.py`` must not shadow ours.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return the environment in which `command` finds this very package, and whose output is not held back."""
    home = str(Path(__file__).resolve().parent.parent.parent)
    path = os.pathsep.join(part for part in (home, os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


# --- one request, one answer ------------------------------------------------------------------


def ask(
    module: str,
    request: msgspec.Struct,
    kind: type[T],
    *,
    what: str,
    fix: str = "",
    folder: Path | None = None,
    log: Path | None = None,
    say: Progress = unheard,
    within_s: float | None = None,
    variables: Mapping[str, str] | None = None,
) -> T:
    """Return the answer of a module in a fresh process; raise the error that it tells, or that ``what`` died.

    None for ``folder`` is one that is gone afterwards, for ``within_s`` until it sleeps for `ASLEEP_S`; ``log`` is kept
    where it dies.
    """
    with ExitStack() as stack:
        folder = folder or stack.enter_context(scratch_folder())
        errors = log or folder / "log.txt"
        started = prepare(module, request, folder)
        # The folder is the parent's, so that it goes away even when the child is killed.
        changed = {"TMPDIR": str(folder), "TEMP": str(folder), **(variables or {})}
        fix = fix or f"see {errors}"
        try:
            code = run_telling(started, errors, say, {**environment(), **changed}, within_s)
        except TimeoutError:
            why = f"it took more than {within_s:.3g} s" if within_s else f"it did nothing for {ASLEEP_S:.0f} s"
            raise DiedError(f"{what} hangs", why=why, fix=fix) from None
        failure = failure_in(folder)
        if failure is None and code == 0 and (folder / _ANSWER).is_file():
            errors.unlink()
            return answer_in(folder, kind)
        if failure is not None:
            errors.unlink()
            failure.fix = failure.fix or fix
            raise failure
        if code == UNTOLD:
            places = dict.fromkeys(map(str, (errors.parent, folder)))
            raise MissingError(
                f"{what} could not write its results",
                why=last_words(errors) or f"the disk of {' or of '.join(places)} is full",
                fix="make room on that disk, or name another place (-o, TMPDIR)",
            )
        died = DiedError(f"{what} died", why=death(code, errors), fix=fix)
        died.code = code
        raise died


def prepare(module: str, request: msgspec.Struct, folder: Path) -> list[str]:
    """Write a request; returns the command of the child that answers it in the same folder."""
    for name in (_ANSWER, _FAILURE):  # of an earlier child
        (folder / name).unlink(missing_ok=True)
    (folder / _REQUEST).write_bytes(msgspec.json.encode(request))
    return command(module, str(folder / _REQUEST))


def failure_in(folder: Path) -> TrtprofError | None:
    """Return the error that a child left in the folder of its request; None where it left none."""
    file = folder / _FAILURE
    return msgspec.json.decode(file.read_bytes(), type=Failure).error() if file.is_file() else None


def answer_in(folder: Path, kind: type[T]) -> T:
    """Return what a child left in the folder of its request; raise CaptureError where that is no answer."""
    try:
        return msgspec.json.decode((folder / _ANSWER).read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CaptureError("the child left no answer", why=why, fix=f"run it again; its log is in {folder}") from None


def answer(argv: Sequence[str], kind: type[R], work: Callable[[R], object]) -> int:
    """Do what a request asks for and leave the answer, or the error: the child's side of `ask`.

    Returns the exit code of the child.
    """
    file = Path(argv[1])
    try:
        replace_file(
            file.with_name(_ANSWER), msgspec.json.encode(work(msgspec.json.decode(file.read_bytes(), type=kind)))
        )
        return 0
    except Exception as raised:
        error = as_error(raised)
        if error is None:
            raise
    try:
        replace_file(file.with_name(_FAILURE), msgspec.json.encode(Failure.of(error)))
    except OSError:
        with suppress(OSError):  # the log may lie on the disk that is full; nothing may be left to flush at the end
            os.write(2, f"{error.what}: {error.why}\n".encode(errors="backslashreplace"))
        return UNTOLD
    return error.exit_code


def run_telling(
    command: Sequence[str], log: Path, say: Progress, environment: Mapping[str, str], within_s: float | None = None
) -> int:
    """Run a command that calls `end_with_parent` to its end; kill it when it is late or this process is interrupted.

    Returns its exit code; raises TimeoutError where it was late, see `ask`.
    """
    with log.open("wb") as errors:
        process = _take_ahead(command, log, environment) or _start(command, errors, environment)
    stdin, stdout = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # A thread of its own reads: a child that hangs in a driver may keep its pipe open even when it is killed.
    threading.Thread(target=_read, args=(stdout, lines), name="child-output", daemon=True).start()
    end = None if within_s is None else time.monotonic() + within_s
    awake, ticks = time.monotonic(), -1.0
    try:
        while True:
            now = time.monotonic()
            with suppress(queue.Empty):
                line = lines.get(timeout=_LOOK_S if end is None else max(end - now, 0.0))
                if line is None:
                    # Its stdin, whose end would end it, is open until it is over.
                    return ended(process, ASLEEP_S if end is None else max(end - now, 0.0))
                say(heard(line.rstrip()))
                continue
            if end is None and (taken := _cpu_s(process.pid)) != ticks:
                # Work on a GPU wakes it, too.
                awake, ticks = now, taken
            elif end is not None or now - awake >= ASLEEP_S:
                raise TimeoutError
    finally:
        if process.poll() is None:
            process.kill()
            ended(process)
        with suppress(OSError):
            stdin.close()


def _start(command: Sequence[str], errors: IO[bytes] | int, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
        env=environment,
    )  # fmt: skip


_ahead: dict[str, list[subprocess.Popen[str]]] = {}


@contextmanager
def started_ahead(module: str, count: int, late: Iterable[str] = ()) -> Iterator[None]:
    """Start children that call `await_request` before there is a request: `run_telling` takes them in this block.

    Their imports, and those of ``late`` modules here, are over when the block begins: it may measure.
    """
    waiting = _ahead.setdefault(module, [])
    try:
        waiting += [_start(command(module), subprocess.DEVNULL, {**environment(), **ONE_THREAD}) for _ in range(count)]
        for name in late:
            importlib.import_module(name)
        for process in waiting:
            cast("IO[str]", process.stdout).readline()
        yield
    finally:
        for process in _ahead.pop(module):
            process.kill()
            process.communicate()


def _take_ahead(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[str] | None:
    """Tell a child that was started ahead what to do; None where there is none, or it has ended."""
    while waiting := _ahead.get("".join(command[3:4])):
        process = waiting.pop(0)
        changed = {name: text for name, text in environment.items() if os.environ.get(name) != text}
        stdin = cast("IO[str]", process.stdin)
        with suppress(OSError):
            stdin.write(f"{json.dumps((command[4:], str(log), changed))}\n")
            stdin.flush()
            return process
    return None


def await_request() -> list[str]:
    """The arguments of this process, told later where it was started ahead; it ends when its parent is gone."""
    lines = _lines_of_parent()
    if len(sys.argv) > 1:
        return sys.argv
    sys.stdout.write("ready\n")
    arguments, log, changed = json.loads(lines.get())
    os.environ.update(changed)
    os.dup2(os.open(log, os.O_WRONLY), 2)
    return [*sys.argv, *arguments]


def _read(pipe: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    with pipe, suppress(OSError, ValueError):
        for line in pipe:
            lines.put(line)
    lines.put(None)


def _cpu_s(pid: int) -> float:
    """What a process, and children that it waited for, took of CPUs; another number each time where nothing tells."""
    import psutil

    try:
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    except psutil.Error:
        return time.monotonic()


def ended(process: subprocess.Popen[Any], within_s: float = _ENDS_S) -> int:
    """The exit code of a process that is about to end; one that does not is killed, or left to the system."""
    for _ in range(2):
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return -signal.SIGKILL


def exit_words(code: int) -> str:
    """An exit code in words; shells and nsys pass on a death by signal as 128 and its number."""
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        name = signal.Signals(number).name
        return f"it was killed ({name}): out of memory, or by hand" if name == "SIGKILL" else f"it was ended by {name}"
    return f"exit code {code}"


def death(code: int, log: Path) -> str:
    """Why a child died, in words, from its exit code and its log."""
    return exit_words(code) if code < 0 else last_words(log) or f"exit code {code} without a word"


def last_words(log: Path) -> str:
    """The last line of a log that says something; empty where none does."""
    with suppress(OSError):
        return next(
            (line.strip() for line in reversed(log.read_text("utf-8", "replace").splitlines()) if line.strip()), ""
        )
    return ""


@contextmanager
def lifeline() -> Iterator[int]:
    """A pipe for the stdin of a child that calls `end_with_parent`: it closes when the block ends, however it does."""
    reader, writer = os.pipe()
    try:
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


def end_with_parent(told: Callable[[bytes], None] | None = None) -> None:
    """End this process when its parent is gone, however that died: the pipe on stdin closes then.

    The parent must hold the other end of stdin open until it no longer needs the child.
    """

    def watch() -> None:
        # The descriptor itself: a lock held on sys.stdin would abort the interpreter when it ends.
        while said := os.read(0, 1 << 16):
            if told is not None:
                told(said)
        os._exit(130)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _lines_of_parent() -> queue.SimpleQueue[bytes]:
    """What the parent sends, line by line; this process ends when it is gone."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    partial = b""

    def told(more: bytes) -> None:
        nonlocal partial
        *whole, partial = (partial + more).split(b"\n")
        for line in whole:
            lines.put(line)

    end_with_parent(told)
    return lines


# --- many requests ----------------------------------------------------------------------------


class Dialogue:
    """A child that answers each line that it is sent by a line; `converse` is its side."""

    def __init__(self, module: str, log: Path, variables: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as errors:
            # In a session of its own it gets no Ctrl-C: its parent does, and ends it with all that it began.
            self._process = subprocess.Popen(
                command(module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**environment(), **(variables or {})},
                start_new_session=True,
                bufsize=0,
            )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018
        self._in, self._out = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self.fileno = self._out.fileno()  # readable when there is an answer, or when the child has ended
        os.set_blocking(self.fileno, False)
        self._partial = b""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, line: bytes) -> None:
        """Send a request; one that has ended by now is found out by `heard`."""
        with suppress(OSError):
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[self._in.write(rest) or 0 :]

    def heard(self) -> list[bytes]:
        """The answers that have come meanwhile; raises EOFError, which tells why, where the child has ended."""
        with suppress(BlockingIOError):
            while more := os.read(self.fileno, 1 << 16):
                self._partial += more
            if b"\n" not in self._partial:
                raise EOFError(self._why())
        *lines, self._partial = self._partial.split(b"\n")
        return lines

    def receive(self, within_s: float) -> bytes:
        """The next answer; raises TimeoutError, and EOFError as `heard` does."""
        end = time.monotonic() + within_s
        while not (lines := self.heard()):
            if not wait_for([self], max(end - time.monotonic(), 0.0)):
                raise TimeoutError
        return lines[0]

    def resident_bytes(self) -> int:
        """What it holds of memory; 0 where the system does not tell."""
        import psutil

        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def end(self) -> None:
        """End it at once, and what it began: nothing of it is left running."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_S)
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()

    def _why(self) -> str:
        try:
            return death(self._process.wait(_ENDS_S), self._log)
        except subprocess.TimeoutExpired:
            return "it closed its output"


def wait_for(children: Sequence[Dialogue], seconds: float) -> list[Dialogue]:
    """Those that have answered or ended; waits for the first one for at most so long."""
    if not children:
        time.sleep(seconds)
        return []
    with selectors.DefaultSelector() as selector:
        for each in children:
            selector.register(each.fileno, selectors.EVENT_READ, each)
        return [key.data for key, _ in selector.select(seconds)]


def converse(answers: Callable[[Iterator[bytes]], Iterable[object]]) -> int:
    """The child's side of a `Dialogue`: say what is made of its lines; an error is a `Failure`, and the last word.

    Returns the exit code. What libraries print, native ones too, goes to the log.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    lines = _lines_of_parent()

    def say(said: object) -> None:
        out.write(msgspec.json.encode(said) + b"\n")
        out.flush()

    try:
        for said in answers(iter(lines.get, None)):
            say(said)
    except Exception as raised:
        error = as_error(raised)
        if error is None:
            raise
        say(Failure.of(error))
        return error.exit_code
    return 0
