"""Nsight Systems: find it, run a worker under it, and export what it recorded to SQLite."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.progress import Progress, unheard
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_bytes
from trtprof.capture.nsys._find import NSYS_VARIABLE, OPTIONS, SOFTWARE_TRACE, Nsys, choice, find, parse_version
from trtprof.capture.nsys._process import NO_SPACE, Ended, ended_words, explanation, run
from trtprof.runtime import child
from trtprof.runtime.installed_tool import dotted

__all__ = [
    "Nsys",
    "Profile",
    "export_sqlite",
    "find",
    "parse_version",
    "profile_command",
    "refuse_second_profiler",
    "repair",
    "run_profile",
]

SESSION_VARIABLE = "NSYS_PROFILING_SESSION_ID"
"""What nsys sets in the program that it runs."""
INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"
"""A library that CUDA loads into a program: how a tool becomes its CUPTI client."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(API|ACCESS|PRIVATE)_?KEY", re.IGNORECASE)
"""Names of variables that a report must not hold: nsys writes the whole environment into it."""
_ONE_SUBSCRIBER = "only one tool at a time can trace a program (CUPTI has one subscriber)"
TIMEOUT_S = 1800.0
"""How long a profile or an export may take unless it is said."""
_STREAM_SUFFIX = ".qdstrm"
"""What is recorded while the program runs, of which the importer makes the report."""
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
    """A capture that nsys made."""

    report: Path  # The ``.nsys-rep`` file
    command: tuple[str, ...]  # The exact command line
    log: Path  # What nsys and the worker said
    notes: tuple[str, ...]  # What nsys warned of, and what was done to get the report


def profile_command(
    nsys: Nsys,
    worker_command: Sequence[str],
    output: Path,
    *,
    trace: Sequence[Literal["cuda", "nvtx"]] = ("cuda", "nvtx"),
    whole_run: bool = False,
) -> list[str]:
    """The command line that profiles a worker between its cudaProfilerStart and cudaProfilerStop."""
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
    return [*command, *worker_command]


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
) -> Profile:
    """Run a worker under nsys; what they say is kept in a file with the suffix ``.log`` beside the report."""
    refuse_second_profiler()
    output = output.absolute()
    command = profile_command(nsys, worker_command, output, trace=trace, whole_run=whole_run)
    log = _beside(output, ".log")
    with scratch_folder(output.parent) as scratch:
        for suffix in (*_REPORT_SUFFIXES, _STREAM_SUFFIX, ".log"):
            _beside(output, suffix).unlink(missing_ok=True)
        # nsys records into TMPDIR, which may be small or in memory, and leaves files there when it is killed.
        variables = {name: value for name, value in child.environment().items() if not _SECRET.search(name)}
        variables["TMPDIR"] = str(scratch)
        relay = _worker_lines(progress or unheard)
        ended = _run_tool(nsys, command, log=log, timeout_s=timeout_s, on_line=relay, environment=variables)
        report = next((path for path in _made(output) if path.stat().st_size), None)
        failure = _profile_failure(ended, report, log, timeout_s, worker_error)
        if failure is not None:
            if report is None:
                _keep_stream(scratch, output)
            raise failure
    assert report is not None  # noqa: S101 - a run without a report is a failure
    notes = _warnings(ended.said)
    if report.suffix == _STREAM_SUFFIX:
        stream, report = report, repair(report, nsys, log=log)
        stream.unlink()  # as nsys does itself, whose importer makes a tenth of it
        notes = (*notes, "nsys left no report but a .qdstrm file, which QdstrmImporter made into one")
    return Profile(report, tuple(command), log, notes)


def _made(output: Path) -> list[Path]:
    found = [_beside(output, suffix) for suffix in (*_REPORT_SUFFIXES, _STREAM_SUFFIX)]
    return [path for path in found if path.is_file()]


def _keep_stream(scratch: Path, output: Path) -> None:
    """Keep what was recorded so far by a run that failed."""
    for path in sorted(scratch.glob(f"*{_STREAM_SUFFIX}")):
        if path.stat().st_size:
            shutil.move(path, _beside(output, _STREAM_SUFFIX))


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


# --- export ---------------------------------------------------------------------------------


def repair(
    stream: Path, nsys: Nsys, *, report: Path | None = None, log: Path | None = None, timeout_s: float = TIMEOUT_S
) -> Path:
    """Make the report of a ``.qdstrm`` file, by default beside it: nsys leaves one where it finds no importer."""
    keep = f"{stream} is kept; Nsight Systems of its version makes a report of it: QdstrmImporter -i {stream.name}"
    importer = _importer(nsys.path)
    if importer is None:
        raise MissingError(
            f"{stream.name} is no report yet",
            why=f"the importer that makes one (QdstrmImporter) is not installed near {nsys.path}",
            fix=f"install all of Nsight Systems, not only its target part; {keep}",
        )
    report = report or stream.with_suffix(".nsys-rep")
    libraries = os.pathsep.join(part for part in (str(importer.parent), os.environ.get("LD_LIBRARY_PATH", "")) if part)
    with scratch_folder(report.parent) as scratch:
        copied, made = scratch / stream.name, scratch / report.name
        shutil.copy(stream, copied)  # the importer writes into the file that it reads
        ended = _run_tool(
            nsys, [str(importer), "-i", str(copied), "-o", str(made)], timeout_s=timeout_s, on_line=unheard,
            log=log or _beside(report.with_suffix(""), ".log"),
            environment={**os.environ, "LD_LIBRARY_PATH": libraries, "TMPDIR": str(scratch)},
        )  # fmt: skip
        if ended.code or not made.is_file() or not made.stat().st_size:
            what, why, fix = ended_words(f"the importer of nsys makes no report of {stream.name}", ended, timeout_s)
            raise CaptureError(what, why=why, fix="; ".join(filter(None, (fix, keep))))
        made.replace(report)
    return report


def _importer(nsys: Path) -> Path | None:
    """QdstrmImporter of an nsys: in host-linux-* beside its own folder or, as Debian has it, further up."""
    for folder in list(nsys.resolve().parents)[:5]:
        for pattern in ("host-linux-*/QdstrmImporter", "nsight-systems/host-linux-*/QdstrmImporter"):
            found = sorted(folder.glob(pattern))
            if found:
                return found[0]
    return None


def export_sqlite(
    report: Path,
    nsys: Nsys,
    *,
    output: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> Path:
    """Export a ``.nsys-rep``, ``.qdrep`` or ``.qdstrm`` file to SQLite; the file appears whole or not at all."""
    say = progress or unheard
    if not report.is_file():
        raise MissingError(f"{report} is not there", why="there is no such file", fix="check the path of the report")
    output = (output or report.with_suffix(".sqlite")).absolute()
    with scratch_folder(output.parent) as scratch:
        if report.suffix == _STREAM_SUFFIX:
            say(f"making a report of {report.name}")
            whole, log = scratch / f"{report.stem}.nsys-rep", scratch / "import.log"
            report = repair(report, nsys, report=whole, log=log, timeout_s=timeout_s)
        made = scratch / output.name
        say(f"exporting {report.name} ({format_bytes(report.stat().st_size)}) to SQLite")
        command = [
            str(nsys.path), "export", "-t", "sqlite", "--force-overwrite=true", "--lazy=true",
            "-o", str(made), str(report.absolute()),
        ]  # fmt: skip
        ended = _run_tool(
            nsys, command, log=scratch / "export.log", timeout_s=timeout_s, on_line=unheard,
            environment={**os.environ, "TMPDIR": str(scratch)},
        )  # fmt: skip
        broken = _broken_sqlite(made)
        if ended.code or ended.timed_out or broken:
            raise _export_failure(report, nsys, ended, timeout_s, broken, output.parent)
        made.replace(output)
    return output


def _export_failure(
    report: Path, nsys: Nsys, ended: Ended, timeout_s: float, broken: str, folder: Path
) -> TrtprofError:
    said = "\n".join(ended.said)
    newer = re.search(r"[Rr]eport was created in .*?version \(([^)]*)\)|Version number is invalid: (\S+)", said)
    made_by = parse_version(newer[1] or newer[2]) if newer else ()
    if made_by > nsys.version:
        return MissingError(
            f"{report} was made by a newer nsys ({dotted(made_by)})",
            why=f"the nsys here ({nsys.path}) is {nsys.version_text} and reads no newer reports",
            fix=f"install {dotted(made_by[:2])} or newer, or name it by {NSYS_VARIABLE}{choice(nsys)}; "
            f"or export it where it was made: nsys export -t sqlite {report.name}",
        )
    if re.search(
        r"Cannot read from stream|magic number mismatch|Invalid version prefix|Version number is invalid", said
    ):
        return UsageError(
            f"{report} is no report of Nsight Systems, or is cut off", why=ended.last(),
            fix="give the .nsys-rep file as nsys wrote it, or copy it again",
        )  # fmt: skip
    if ended.code == 0 and not ended.timed_out and not re.search(NO_SPACE, said):
        # Seen with 2022.4 and 2023.4: on a full disk the export ends with code 0 and leaves an empty file.
        return CaptureError(
            f"the export of {report.name} is not whole",
            why=f"nsys reported no error, but {broken}, as on a full disk: "
            f"{format_bytes(shutil.disk_usage(folder).free)} are free in {folder}",
            fix="free space there; an export takes several times the room of its report",
        )
    what, why, fix = ended_words(f"{report.name} cannot be exported to SQLite", ended, timeout_s)
    return CaptureError(what, why=why, fix=fix or f"try it by hand: nsys export -t sqlite {report}")


def _broken_sqlite(path: Path) -> str:
    """Why a file is no whole export, if it is none. SQLite refuses one with fewer pages than its header says."""
    if not path.is_file():
        return "it left no file"
    if not path.stat().st_size:
        return "its file is empty"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        return f"SQLite says of it: {error}"
    # The first is of 2023.4 and later, the second of versions before.
    return "" if names & {"META_DATA_EXPORT", "EXPORT_META_DATA"} else "the table that an export ends with is missing"


def _run_tool(
    nsys: Nsys,
    command: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    on_line: Progress,
    environment: Mapping[str, str],
) -> Ended:
    """`run`, with a program that cannot be started said in words."""
    try:
        return run(command, log=log, environment=environment, timeout_s=timeout_s, on_line=on_line)
    except OSError as error:
        raise MissingError(
            f"{command[0]} cannot be run", why=f"{error.strerror or error}",
            fix=f"install Nsight Systems again, or name another one by {NSYS_VARIABLE}{choice(nsys)}",
        ) from None  # fmt: skip


def _beside(output: Path, suffix: str) -> Path:
    """Not Path.with_suffix: the name may have a dot of its own."""
    return output.with_name(output.name + suffix)
