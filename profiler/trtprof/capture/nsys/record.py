"""Nsight Systems: find it, run a worker under it, and export what it recorded to SQLite."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.progress import Progress, unheard
from trtprof.base.scratch import scratch_folder
from trtprof.capture.nsys._find import (
    NSYS_VARIABLE,
    OPTIONS,
    SOFTWARE_TRACE,
    Nsys,
    choice,
    find,
    parse_version,
    report_name,
)
from trtprof.capture.nsys._process import Ended, ended_words, explanation
from trtprof.capture.nsys._report import (
    STREAM_SUFFIX,
    TIMEOUT_S,
    beside,
    export_sqlite,
    repair,
    run_tool,
)
from trtprof.runtime import child

__all__ = [
    "Nsys",
    "Profile",
    "export_sqlite",
    "find",
    "parse_version",
    "profile_command",
    "refuse_second_profiler",
    "repair",
    "report_name",
    "run_profile",
]

SESSION_VARIABLE = "NSYS_PROFILING_SESSION_ID"
"""What nsys sets in the program that it runs."""
INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"
"""A library that CUDA loads into a program: how a tool becomes its CUPTI client."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(API|ACCESS|PRIVATE)_?KEY", re.IGNORECASE)
"""Names of variables that a report must not hold: nsys writes the whole environment into it."""
_ONE_SUBSCRIBER = "only one tool at a time can trace a program (CUPTI has one subscriber)"
_REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""Of 2021.4 and later, and of versions before."""


def refuse_second_profiler() -> None:
    """Refuse to trace CUDA where another tool does already."""
    if os.environ.get(SESSION_VARIABLE):
        raise CaptureError(
            "trtprof itself runs under nsys",
            why=f"{SESSION_VARIABLE} is set; {_ONE_SUBSCRIBER}",
            fix="run trtprof by itself: it starts nsys; a report that nsys made is read by trtprof analyze --nsys FILE",
        )
    library = os.environ.get(INJECTION_VARIABLE)
    if library:
        raise CaptureError(
            "another tool would trace the run, too",
            why=f"{INJECTION_VARIABLE}={library}; {_ONE_SUBSCRIBER}",
            fix=f"unset {INJECTION_VARIABLE}",
        )


# --- profile --------------------------------------------------------------------------------


class Profile(NamedTuple):
    """A capture that nsys made.

    Attributes:
        report: The ``.nsys-rep`` file.
        command: The exact command line.
        log: What nsys and the worker said.
        notes: What nsys warned of, and what was done to get the report.
    """

    report: Path
    command: tuple[str, ...]
    log: Path
    notes: tuple[str, ...]


def profile_command(
    nsys: Nsys,
    worker_command: Sequence[str],
    output: Path,
    *,
    trace: Sequence[Literal["cuda", "nvtx"]] = ("cuda", "nvtx"),
    whole_run: bool = False,
    extra: Sequence[str] = (),
) -> list[str]:
    """The command line that profiles a worker between its cudaProfilerStart and cudaProfilerStop.

    Args:
        extra: Further options of ``nsys profile``.
    """
    traced = ["cuda-sw" if what == "cuda" and nsys.knows(SOFTWARE_TRACE) else what for what in trace]
    command = [
        str(nsys.path), "profile", "-o", str(output).replace("%", "%%"), "-f", "true", "-t", ",".join(traced),
        "-s", "none", "--cpuctxsw=none",
    ]  # fmt: skip
    if not whole_run:
        command += ["-c", "cudaProfilerApi"]
    for option in OPTIONS:
        of_range = option.text.startswith("--capture-range")
        if whole_run if of_range else "cuda" not in trace:
            continue
        if nsys.knows(option):
            command.append(option.text)
        elif option.required:
            raise MissingError(
                f"nsys {nsys.version_text} ({nsys.path}) is too old", why=f"it does not know {option.text}",
                fix=f"install a newer one, or name one that is here by {NSYS_VARIABLE}{choice(nsys)}",
            )  # fmt: skip
    return [*command, *extra, *worker_command]


def run_profile(
    nsys: Nsys,
    worker_command: Sequence[str],
    output: Path,
    *,
    progress: Progress | None = None,
    timeout_s: float = TIMEOUT_S,
    worker_error: Callable[[], TrtprofError | None] | None = None,
    trace: Sequence[Literal["cuda", "nvtx"]] = ("cuda", "nvtx"),
    whole_run: bool = False,
    extra: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Profile:
    """Run a worker under nsys.

    What they say is kept in a file with the suffix ``.log`` beside the report.
    """
    refuse_second_profiler()
    output = output.absolute()
    command = profile_command(nsys, worker_command, output, trace=trace, whole_run=whole_run, extra=extra)
    log = beside(output, ".log")
    with scratch_folder(output.parent) as scratch:
        for suffix in (*_REPORT_SUFFIXES, STREAM_SUFFIX, ".log"):
            beside(output, suffix).unlink(missing_ok=True)
        # nsys records into TMPDIR, which may be small or in memory, and leaves files there when it is killed.
        given = environment if environment is not None else child.environment()
        variables = {name: value for name, value in given.items() if not _SECRET.search(name)}
        variables["TMPDIR"] = str(scratch)
        ended = run_tool(
            nsys,
            command,
            log=log,
            timeout_s=timeout_s,
            on_line=_worker_lines(progress or unheard),
            environment=variables,
        )
        report = next((path for path in _made(output) if path.stat().st_size), None)
        failure = _profile_failure(ended, report, log, timeout_s, worker_error)
        if failure is not None:
            if report is None:
                _keep_stream(scratch, output)
            raise failure
    assert report is not None  # noqa: S101 - a run without a report is a failure
    notes = _warnings(ended.said)
    if report.suffix == STREAM_SUFFIX:
        stream, report = report, repair(report, nsys, log=log)
        stream.unlink()  # as nsys does itself, whose importer makes a tenth of it
        notes = (*notes, "nsys left no report but a .qdstrm file, which QdstrmImporter made into one")
    return Profile(report, tuple(command), log, notes)


def _made(output: Path) -> list[Path]:
    found = [beside(output, suffix) for suffix in (*_REPORT_SUFFIXES, STREAM_SUFFIX)]
    return [path for path in found if path.is_file()]


def _keep_stream(scratch: Path, output: Path) -> None:
    """Keep what was recorded so far by a run that failed."""
    for path in sorted(scratch.glob(f"*{STREAM_SUFFIX}")):
        if path.stat().st_size:
            shutil.move(path, beside(output, STREAM_SUFFIX))


def _worker_lines(progress: Progress) -> Progress:
    """Hand on what the worker prints, and of nsys' own lines only that it writes its report."""
    listing = False

    def relay(line: str) -> None:
        nonlocal listing
        if line.startswith("Generating '"):
            progress("nsys writes its report")
        elif line.startswith("Generated:"):
            listing = True
        elif line != "Collecting data..." and not (listing and line.startswith(" ")):
            progress(line)

    return relay


def _profile_failure(
    ended: Ended,
    report: Path | None,
    log: Path,
    timeout_s: float,
    worker_error: Callable[[], TrtprofError | None] | None,
) -> TrtprofError | None:
    """What went wrong in a profile, most telling cause first; None where nothing did."""
    own = worker_error() if worker_error is not None else None
    if own is not None:
        return own
    if ended.code == 0 and not ended.timed_out and report is not None:
        return None
    see = f"see {log}" + (f"; what was recorded is in {report}" if report is not None else "")
    if ended.free_bytes is not None:
        what, why, fix = ended_words("nsys was stopped", ended, timeout_s)
        return CaptureError(what, why=why, fix=f"{fix}; {see}")
    if ended.timed_out:
        return CaptureError(
            f"nsys did not end within {timeout_s:g} s", why=f"the last it said: {ended.last() or 'nothing'}",
            fix=f"{see}; run it again, give it more time, or record fewer iterations",
        )  # fmt: skip
    if ended.code < 0:
        return CaptureError("nsys died", why=child.exit_words(ended.code), fix=see)
    explained = explanation(ended.said)
    if explained is not None:
        what, why, fix = explained
        return CaptureError(what, why=why, fix=f"{fix}; {see}")
    if ended.code:
        return CaptureError(
            "the run of the model under nsys failed", why=f"{ended.last() or 'it said nothing'} "
            f"({child.exit_words(ended.code)})", fix=see,
        )  # fmt: skip
    return CaptureError(
        "nsys recorded nothing",
        why="the run ended well, but nsys saw no cudaProfilerStart in it: what it follows may not have loaded CUDA",
        fix=f"check that a driver and a GPU are here (trtprof doctor); {see}",
    )


def _warnings(said: Sequence[str]) -> tuple[str, ...]:
    """What nsys warned of, a warning of several lines in one."""
    notes: list[str] = []
    open_note = False
    for line in said:
        if line.startswith("WARNING:"):
            notes.append(line.removeprefix("WARNING:").strip())
            open_note = True
        elif open_note and line.startswith("  "):
            notes[-1] += f" {line.strip()}"
        else:
            open_note = False
    return tuple(f"nsys: {note}" for note in dict.fromkeys(notes))
