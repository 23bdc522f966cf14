"""A process that goes ahead of others for a moment, so that they do not show in what it measures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

MOST = -20
"""The nice value of a process that has a CPU whenever it wants one, beside any that has none (sched(7))."""


def list_threads() -> set[int]:
    """The threads of this process by the number that the system has for them; none where it does not tell."""
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}
    except OSError:
        return set()


@contextmanager
def ahead_of_others(spread: Sequence[int] = ()) -> Iterator[bool]:
    """Run all threads of this process at the highest ordinary priority; yields whether the system allows that.

    The threads in ``spread`` keep to a CPU each meanwhile: the system was seen to leave two of them on one for long.
    Root may, as a rule, others may not (setrlimit(2), RLIMIT_NICE). A process that was made polite (``nice trtprof``)
    stays so. New threads have the priority of the one that makes them.
    """
    try:
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        allowed = usual <= 0 and _set_all(MOST)
    except (AttributeError, OSError):
        allowed = False
    if not allowed:
        yield False
        return
    cpus = os.sched_getaffinity(0)
    try:
        if len(spread) <= len(cpus):
            for thread, cpu in zip(spread, sorted(cpus), strict=False):
                os.sched_setaffinity(thread, {cpu})
        yield True
    finally:
        for thread in spread:
            os.sched_setaffinity(thread, cpus)
        _set_all(usual)


def _set_all(nice: int) -> bool:
    """Give all threads a nice value; False where the system does not tell which there are."""
    threads = list_threads()
    for thread in threads:
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, nice)
    # Where sessions share the CPUs as groups, a nice value counts inside the group; a child has a session of its own.
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(nice))
    return bool(threads)
