"""What the caller and the measuring child process say to each other, without heavy imports."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from profiler.base.errors import CaptureError, MissingError
from profiler.hardware._fit import Reading

T = TypeVar("T")


class MeasureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure.

    Attributes:
        threads: Threads inside an op.
        seconds: Time for the ceilings; the floors come on top.
        cache_bytes: Last-level cache that these threads reach together, 0 when unknown.
        memory_bytes: Memory that the process may use, 0 when unknown.
        with_profiler: Measure also what the runtime's profiler adds.
    """

    threads: int
    seconds: float
    cache_bytes: int
    memory_bytes: int
    with_profiler: bool = True


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The readings of one thread count, keyed as `Ceilings.measurements` is."""

    threads: int
    runtime: str
    readings: dict[str, Reading]
    working_set: int
    """Largest working set tried, in bytes."""
    seconds: float
    others_cpus: float | None = None
    """CPUs that other processes, or other guests of the host, kept busy meanwhile."""
    clocks_mhz: dict[str, float] = {}
    """Clock ``before``, ``during`` and ``after``, where the system tells it."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error on its way to the parent."""

    what: str
    why: str
    fix: str


def result_of(code: int, stdout: str, stderr: str, kind: type[T], *, what: str, fix: str, install: str) -> T:
    """The result of a measuring process from its output, or the error that its output tells.

    Args:
        code: Its exit code.
        stdout: The last line is its result, or a `Failure`.
        stderr: The last line says why, where it ended in another way.
        kind: Of the result.
        what: What was to be measured, for the error.
        fix: What to do where the process does not say it.
        install: What to do where it lacks a package.

    Raises:
        MissingError: The process says that something is missing, or could not import a package.
        CaptureError: It failed in another way.
    """
    lines = stdout.strip().splitlines()
    result = lines[-1] if lines else ""
    why = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code == 0:
        try:
            return msgspec.json.decode(result, type=kind)
        except msgspec.DecodeError as error:
            raise CaptureError(what, why=f"unreadable result: {error}", fix=fix) from None
    try:
        failure = msgspec.json.decode(result, type=Failure)
    except msgspec.DecodeError:
        if why.startswith(("ModuleNotFoundError", "ImportError")):
            raise MissingError(what, why=why, fix=install) from None
        ended = f"the process was ended by signal {-code}" if code < 0 else f"exit code {code}"
        raise CaptureError(what, why=why or ended, fix=fix) from None
    error_type = MissingError if code == MissingError.exit_code else CaptureError
    reason = f"{failure.what}: {failure.why}" if failure.why else failure.what
    raise error_type(what, why=reason, fix=failure.fix or fix)
