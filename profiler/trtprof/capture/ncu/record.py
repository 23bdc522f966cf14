"""Nsight Compute (ncu) from outside: which one there is, what it is asked, and why it failed.

It runs a program and measures single launches of its kernels with hardware counters; each is replayed as often as it
takes to read all of them. Names of options are those of ``ncu --help`` of 2022.3, which was run, and of a later one
as users published it (2025); ``--kernel-name`` takes ``regex:`` since 2021.1 (its release notes).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.kernel_counters import GEOMETRY, METRICS, KernelCounters
from trtprof.capture.ncu._words import NCU_VARIABLE, explained, no_kernels
from trtprof.capture.ncu.csv import FIX, parse_counters
from trtprof.capture.nsys._process import ended_words
from trtprof.capture.nsys._process import run as run_process
from trtprof.runtime import child, installed_tool
from trtprof.runtime.installed_tool import Found as Ncu
from trtprof.runtime.installed_tool import Version, answer

__all__ = ["NCU_VARIABLE", "Ncu", "find", "known_metrics", "profile", "profile_command", "read_report", "require"]

_SINCE = (2021, 1)
"""The first version whose ``--kernel-name`` takes a regular expression."""
_QUERY_S = 120.0
_INSTALL = (
    "install Nsight Compute (developer.nvidia.com/nsight-compute; it is part of the CUDA toolkit), or give its path by "
    f"{NCU_VARIABLE}"
)
_USUAL_PLACES = (
    "/opt/nvidia/nsight-compute/*/ncu",
    "/opt/nvidia/nsight-compute/*/target/linux-desktop-*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/cuda*/nsight-compute-*/ncu",
    "/usr/lib/nsight-compute/ncu",
    "/usr/lib/*/nsight-compute/target/linux-desktop-*/ncu",
)
"""Where NVIDIA's packages, the CUDA toolkit and Debian's put it."""

_PARAMETERS = Path("/proc/driver/nvidia/params")
_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 21
"""Its number in linux/capability.h."""
_INJECTED = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
"""Variables that load another tool into the program."""
_METRIC = re.compile(r"^([a-z]\w*__\w+)\s", re.MULTILINE)
_FIX = "run the same without --confirm: all but the counters needs no ncu"


def find() -> Ncu:
    """The ncu to use: that of ``TRTPROF_NCU``, else the one on the PATH, else the newest in the usual folders."""
    tool = installed_tool.Tool("ncu", "Nsight Compute", NCU_VARIABLE, _USUAL_PLACES, _INSTALL, _own_version)
    found = installed_tool.find(tool)
    if found.version < _SINCE:
        raise MissingError(
            f"ncu {found.version_text} ({found.path}) is too old",
            why="its --kernel-name takes no regular expression: that came with 2021.1",
            fix=_INSTALL,
        )
    return found


def _own_version(told: str) -> Version:
    found = re.search(r"\bVersion (\d{4}(?:\.\d+)+)", told) if "Nsight Compute" in told else None
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def require() -> Ncu:
    """The ncu to use, where this user may read the counters."""
    found = find()
    if _kept_to_administrators(_PARAMETERS) and not _administrator(_STATUS):
        error = explained("ERR_NVGPUCTRPERM", "--confirm needs hardware counters")
        assert error is not None  # noqa: S101 - it is one of the known ones
        error.why = f"{_PARAMETERS} has RmProfilingAdminOnly: 1, and this process is without CAP_SYS_ADMIN"
        raise error
    return found


def _kept_to_administrators(parameters: Path) -> bool:
    try:
        return re.search(r"^RmProfilingAdminOnly: 1$", parameters.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except OSError:
        return False


def _administrator(status: Path) -> bool:
    """Whether this process has CAP_SYS_ADMIN, by what Linux says of it; not known elsewhere, so not denied."""
    try:
        found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return True
    return found is None or bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


# --- reports --------------------------------------------------------------------------------


def read_report(report: Path) -> tuple[KernelCounters, ...]:
    """The launches of a report that ncu wrote, by the ncu that is here; no GPU is needed."""
    if not report.is_file():
        raise MissingError(f"there is no file {report}", fix="name a report that ncu wrote, or its CSV")
    try:
        found = find()
    except MissingError as error:
        error.fix = f"print it where there is one: {FIX}; or {error.fix}"
        raise
    told, why = answer(
        [str(found.path), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"], _QUERY_S
    )
    if why:
        raise UsageError(
            f"ncu {found.version_text} cannot read {report}",
            why=why,
            fix=f"use the ncu that wrote it, or a newer one ({NCU_VARIABLE} names it)",
        )
    return parse_counters(told, str(report))


# --- what it is asked -----------------------------------------------------------------------


def known_metrics(ncu: Ncu) -> tuple[str, ...]:
    """Those of `METRICS` that this ncu has for the GPUs here; all of them where it does not tell."""
    told, why = answer([str(ncu.path), "--query-metrics"], _QUERY_S)
    names = set(_METRIC.findall(told))
    known = tuple(metric for metric in METRICS if metric.partition(".")[0] in names)
    return METRICS if why or not known else known


def profile_command(
    ncu: Ncu, command: Sequence[str], log: Path, kernels: Iterable[str], metrics: Iterable[str], launches: int
) -> list[str]:
    """The command that counts so many launches of some kernels between the program's cudaProfilerStart and Stop."""
    # The names stand in a regular expression; those of functions have nothing in them that has a meaning there.
    names = "|".join(sorted({re.escape(name) for name in kernels}))
    return [
        str(ncu.path),
        "--csv", "--page", "raw", "--print-units", "base",
        "--log-file", str(log),
        "--metrics", ",".join((*metrics, *GEOMETRY)),
        "--kernel-name-base", "function",
        "--kernel-name", f"regex:^({names})$",
        "--launch-count", str(launches),
        "--profile-from-start", "off",
        "--target-processes", "all",
        "--cache-control", "all",
        "--clock-control", "none",
        "--replay-mode", "kernel",
        *command,
    ]  # fmt: skip


# --- the run --------------------------------------------------------------------------------


class Counted(NamedTuple):
    """What a run under ncu gave."""

    launches: tuple[KernelCounters, ...]  # In the order in which they were made
    command: tuple[str, ...]  # The exact command line


def profile(
    ncu: Ncu,
    command: Sequence[str],
    folder: Path,
    kernels: Iterable[str],
    *,
    launches: int,
    timeout_s: float,
    progress: Callable[[str], None],
    worker_error: Callable[[], TrtprofError | None] = lambda: None,
) -> Counted:
    """Run a program under ncu to its end, and read what it counted.

    Leaves in the folder what ncu printed (``ncu.csv``) and the log of both (``ncu.log``).

    Args:
        launches: How many of their launches at most.
    """
    table, log = folder / "ncu.csv", folder / "ncu.log"
    table.unlink(missing_ok=True)
    full = profile_command(ncu, command, table, kernels, known_metrics(ncu), launches)
    what = f"ncu {ncu.version_text} could not count"
    try:
        # In the locale C numbers have no marks but a point.
        inherited = {name: value for name, value in child.environment().items() if name not in _INJECTED}
        environment = {**inherited, "LC_ALL": "C.UTF-8"}
        ended = run_process(full, log=log, environment=environment, timeout_s=timeout_s, on_line=progress)
    except OSError as error:
        raise CaptureError(what, why=error.strerror or str(error), fix=_FIX) from None
    printed = table.read_text(errors="replace") if table.is_file() else ""
    said = "\n".join((printed, *ended.said))
    if ended.code != 0 or ended.timed_out:
        own = worker_error()
        if own is not None:
            raise own
        known = explained(said, what)
        if known is not None:
            raise known
        if ended.timed_out or ended.code < 0 or "==ERROR==" not in said:
            _, why, fix = ended_words(what, ended, timeout_s)
            if ended.code > 0 and not ended.timed_out:
                why = "; ".join(dict.fromkeys((f"exit code {ended.code}", why)))
            raise CaptureError(what, why=f"{why} ({shlex.quote(str(log))} has the rest)", fix=fix or _FIX)
        raise no_kernels(said, what, _FIX)
    try:
        found = parse_counters(printed, str(table))
    except TrtprofError:
        raise no_kernels(said, what, _FIX) from None
    return Counted(found, tuple(full))
