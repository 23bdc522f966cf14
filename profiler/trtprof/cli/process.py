"""What a command sees to as a process: its streams, the signals that end it, and what it may take of the machine.

Only the process of a command does so. Who imports the package, and workers of ours and of Ray, keep what they have.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # what `signal` wraps: that takes a while to import itself
import _thread
import functools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.machine_errors import no_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ended: list[int] = []
"""The signals that came to end this command, in their order."""

_NAMES = {_signal.SIGINT: "Ctrl-C", _signal.SIGTERM: "SIGTERM"}
if sys.platform != "win32":
    _NAMES[_signal.SIGHUP] = "SIGHUP"

_LEAST_BYTES = {"numpy": 200 << 20, "pyarrow": 500 << 20, "onnxruntime": 500 << 20}
"""Of a limit on addresses, what must be left where a library is loaded: with less some crash, others wait for ever."""
_FEWEST_FILES = 32
"""Files that may be open at once: with fewer, Python takes packages that it cannot look for to be absent."""
_LEAST_STACK = 256 << 10
"""Bytes of a thread's stack, which is as large as the limit on the first one's: with less Arrow's threads crash."""


def ended_by() -> str:
    """What ended this command, in words."""
    return _NAMES.get(ended[0], "a signal") if ended else "Ctrl-C"


def ended_code() -> int:
    """The exit code of a command that was ended, as shells have it."""
    return 128 + (ended[0] if ended else int(_signal.SIGINT))


@contextmanager
def of_a_command() -> Iterator[None]:
    """Streams that can be written to or say that they cannot, and signals that end a command in order."""
    ended.clear()
    before = sys.stdin, sys.stdout, sys.stderr
    others = sys.unraisablehook
    sys.unraisablehook = functools.partial(_dropped, others)
    heard = _heard()
    _open_streams()
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        sys.unraisablehook = others
        for number, handler in heard.items():
            _signal.signal(number, handler)


@contextmanager
def all_written() -> Iterator[None]:
    """What was written to stdout has got there in the end."""
    try:
        yield
    finally:
        sys.stdout.flush()


def utf8_again() -> None:
    """Start over in UTF-8 where the locale has no characters but ASCII, and Python was told to take its word."""
    if sys.getfilesystemencoding() == "ascii" and "utf8" not in sys._xoptions and os.name == "posix":
        os.environ["PYTHONUTF8"] = "1"  # for children
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - no shell is wanted


def texts_again() -> None:
    """Start over with docstrings where ``PYTHONOPTIMIZE`` takes them away: what rules and options mean is in them."""
    if sys.flags.optimize > 1 and os.environ.get("PYTHONOPTIMIZE", "") not in ("", "0", "1") and os.name == "posix":
        os.environ["PYTHONOPTIMIZE"] = "1"  # for children, too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell is wanted


def check_texts() -> None:
    """See to it that there are docstrings."""
    if sys.flags.optimize > 1:
        raise UsageError(
            "Python was started without docstrings (-OO)",
            why="what rules, thresholds and commands mean is told from them",
            fix="leave -OO out, or say -O",
        )


def check_words(words: list[str]) -> None:
    """Refuse words that are no text."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{word!a} is no UTF-8",
                why="names go into reports, which are; its bytes are of another encoding",
                fix="rename the file, or name a link to it",
            ) from None


def check_files() -> None:
    """See to it that files enough can be opened."""
    if sys.platform == "win32":
        return
    import resource

    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < 1024 and (most == resource.RLIM_INFINITY or most > allowed):
        more = 1024 if most == resource.RLIM_INFINITY else min(most, 1024)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, most))
        allowed = more
    if allowed != resource.RLIM_INFINITY and allowed < _FEWEST_FILES:
        raise MissingError(
            f"too few files may be open at once: {allowed}", why=f"it takes {_FEWEST_FILES}", fix="ulimit -n 1024"
        )


def check_stack() -> None:
    """See to it that threads have a stack that libraries can work in; its size was settled when the process began."""
    if sys.platform == "win32":
        return
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if allowed != resource.RLIM_INFINITY and allowed < _LEAST_STACK:
        raise MissingError(
            f"the stack may be too small: {allowed >> 10} kB",
            why=f"libraries crash in threads with less than {_LEAST_STACK >> 10}",
            fix="ulimit -s 8192",
        )


def check_memory() -> None:
    """Where addresses are limited (``ulimit -v``), see to it that libraries find enough before they are loaded."""
    if sys.platform != "linux":
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each takes its own
        sys.meta_path.insert(0, _Enough(limit))


class _Enough:
    """Finds no module: it stands where Python looks for them, and refuses those for which there is no memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - so it is asked
        """Nothing, or an error."""
        if name not in _LEAST_BYTES:
            return
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        if self._limit - taken < _LEAST_BYTES[name]:
            left = (self._limit - taken) >> 20
            raise no_memory(
                f"{left} MiB are left of the limit on addresses, and {name} takes {_LEAST_BYTES[name] >> 20}"
            )


# --- signals ----------------------------------------------------------------------------------


_SOON_S = 0.01


def _end(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code is _dropped.__code__:  # what is raised there is dropped, too
            _raise_soon(number)
            return
        frame = frame.f_back
    ended.append(number)
    # Both come where a session is ended: the first is obeyed in peace. A person may say it again.
    if len(ended) == 1 or number == _signal.SIGINT:
        raise KeyboardInterrupt(number)


def _dropped(others: Callable[[sys.UnraisableHookArgs], object], error: sys.UnraisableHookArgs) -> None:
    """What is raised in a ``__del__`` or a callback, Python drops; the signal that ends a command comes once more then.

    A fleet, for one, writes a file with a writer that has a ``__del__`` for every row.
    """
    if not issubclass(error.exc_type, KeyboardInterrupt):
        others(error)
        return
    number = ended[0] if ended else int(_signal.SIGINT)
    ended.clear()
    _raise_soon(number)


def _raise_soon(number: int) -> None:
    here = _thread.get_ident()

    def wait() -> None:
        time.sleep(_SOON_S)
        if sys.platform == "win32":
            _signal.raise_signal(number)
        else:  # what the main thread waits in is interrupted, too
            _signal.pthread_kill(here, number)

    _thread.start_new_thread(wait, ())


def _heard() -> dict[int, Any]:
    """Listen to what ends a command; what is ignored stays so, as in the background and under nohup."""
    usual = (_signal.SIG_DFL, _signal.default_int_handler)
    found = {number: handler for number in _NAMES if (handler := _signal.getsignal(number)) in usual}
    try:
        for number in found:
            _signal.signal(number, _end)
    except ValueError:  # not the main thread
        return {}
    return found


# --- streams ----------------------------------------------------------------------------------


class _Told:
    """A stream that may break: its reader goes away, its disk is full, it is closed.

    Attributes:
        matters: Whether what it takes is the result; talk that nobody hears is no failure.
    """

    def __init__(self, stream: Any, *, matters: bool) -> None:
        self._stream = stream
        self.matters = matters

    @property
    def buffer(self) -> _Told:
        """The stream of its bytes."""
        return _Told(self._stream.buffer, matters=self.matters)

    def write(self, content: Any) -> int:
        """Write all of it."""
        try:
            if content != "":  # to write nothing is a question of libraries, whose answer they do not heed
                self._stream.write(content)
        except OSError as error:
            self._broken(error)
        return len(content)

    def flush(self) -> None:
        """Bring to the other side what was written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._broken(error)

    def _broken(self, error: OSError) -> None:
        with suppress(OSError):  # Python would complain again when it flushes at exit
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if self.matters and not isinstance(error, BrokenPipeError):
            raise MissingError(
                "stdout cannot be written", why=error.strerror or str(error), fix="-o FILE writes the result to a file"
            ) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _open_streams() -> None:
    """Streams in the place of those that are closed, so that no file of ours takes their number, and `_Told`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # What is written to a result that nobody takes fails; the number is the lowest that is free.
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process lives
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name) or open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        with suppress(AttributeError):  # a stand-in
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, cast("TextIO", _Told(stream, matters=number == 1)))
