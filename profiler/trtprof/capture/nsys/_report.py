"""A report of nsys made into SQLite, and one made of what nsys left where it did not make it itself."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.progress import Progress, unheard
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_bytes
from trtprof.capture.nsys._find import NSYS_VARIABLE, Nsys, choice, parse_version
from trtprof.capture.nsys._process import NO_SPACE, Ended, ended_words, run
from trtprof.runtime.installed_tool import Version, dotted

TIMEOUT_S = 1800.0
"""How long a profile or an export may take unless it is said."""
_IMPORT_TRIES = 3
"""That of 2023.4.4 failed in 2 of 90 runs (AnalysisStatus::SetNextState), and took the same files in 20 of 20."""
STREAM_SUFFIX = ".qdstrm"
"""What is recorded while the program runs, of which the importer makes the report."""


def repair(
    stream: Path, nsys: Nsys, *, report: Path | None = None, log: Path | None = None, timeout_s: float = TIMEOUT_S
) -> Path:
    """Make the report of a ``.qdstrm`` file, which nsys leaves behind where it does not find its importer.

    Args:
        report: The ``.nsys-rep`` file to make; by default beside the stream.
    """
    made_by = _recorder(stream)
    if made_by and made_by != nsys.version:
        raise MissingError(
            f"{stream} was recorded by nsys {dotted(made_by)}",
            why=f"the importer of each version takes its own recordings alone, and {nsys.path} is {nsys.version_text}",
            fix=f"name that version by {NSYS_VARIABLE}{choice(nsys)}",
        )
    by_hand = (
        f"{stream} is kept; Nsight Systems makes a report of it where it is whole: QdstrmImporter -i {stream.name}"
    )
    importer = _importer(nsys.path)
    if importer is None:
        raise MissingError(
            f"{stream.name} is no report yet",
            why=f"the importer that makes one (QdstrmImporter) is not installed near {nsys.path}",
            fix=f"install all of Nsight Systems, not only its target part; {by_hand}",
        )
    report = report or stream.with_suffix(".nsys-rep")
    libraries = os.pathsep.join(part for part in (str(importer.parent), os.environ.get("LD_LIBRARY_PATH", "")) if part)
    with scratch_folder(report.parent) as scratch:
        copied, made = scratch / stream.name, scratch / report.name
        command = [str(importer), "-i", str(copied), "-o", str(made)]
        for _ in range(_IMPORT_TRIES):
            shutil.copy(stream, copied)  # the importer writes into the file that it reads
            ended = run_tool(
                nsys, command, log=log or beside(report.with_suffix(""), ".log"), timeout_s=timeout_s, on_line=unheard,
                environment={**os.environ, "LD_LIBRARY_PATH": libraries, "TMPDIR": str(scratch)},
            )  # fmt: skip
            if ended.code == 0 and made.is_file() and made.stat().st_size:
                made.replace(report)
                return report
            if ended.timed_out or ended.free_bytes is not None:
                break
    library = re.search(r"error while loading shared libraries: (\S+):", "\n".join(ended.said))
    if library:
        package = " (Debian and Ubuntu: apt install libssh-4)" if library[1].startswith("libssh.") else ""
        raise MissingError(
            f"{stream.name} is no report yet, and the importer that makes one does not start",
            why=f"{importer} needs {library[1]}", fix=f"install the package of that library{package}; {by_hand}",
        )  # fmt: skip
    what, why, fix = ended_words(f"the importer of nsys makes no report of {stream.name}", ended, timeout_s)
    raise CaptureError(what, why=why, fix=f"{fix}; {by_hand}" if fix else by_hand)


def _recorder(stream: Path) -> Version:
    """The version that recorded a stream, as it begins with in 2022.4 and 2023.4; empty where it does not tell."""
    try:
        with stream.open("rb") as file:
            head = file.read(128).decode("latin-1")
    except OSError as error:
        raise MissingError(
            f"{stream} cannot be read", why=error.strerror or str(error), fix="check the path of the recording"
        ) from None
    return parse_version(head) if "Nsight Systems Stream" in head else ()


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
    lazy: bool = True,
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> Path:
    """Export a report to SQLite; the file appears whole or not at all.

    Args:
        report: A ``.nsys-rep``, ``.qdrep`` or ``.qdstrm`` file.
    """
    say = progress or unheard
    if not report.is_file():
        raise MissingError(f"{report} is not there", why="there is no such file", fix="check the path of the report")
    output = (output or report.with_suffix(".sqlite")).absolute()
    with scratch_folder(output.parent) as scratch:
        if report.suffix == STREAM_SUFFIX:
            say(f"making a report of {report.name}")
            report = repair(
                report,
                nsys,
                report=scratch / f"{report.stem}.nsys-rep",
                log=scratch / "import.log",
                timeout_s=timeout_s,
            )
        made = scratch / output.name
        say(f"exporting {report.name} ({format_bytes(report.stat().st_size)}) to SQLite")
        command = [
            str(nsys.path), "export", "-t", "sqlite", "--force-overwrite=true", f"--lazy={str(lazy).lower()}",
            "-o", str(made), str(report.absolute()),
        ]  # fmt: skip
        ended = run_tool(
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


def run_tool(
    nsys: Nsys,
    command: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    on_line: Progress,
    environment: Mapping[str, str],
) -> Ended:
    """`_nsys_process.run`, with a program that cannot be started said in words."""
    try:
        return run(command, log=log, environment=environment, timeout_s=timeout_s, on_line=on_line)
    except OSError as error:
        raise MissingError(
            f"{command[0]} cannot be run", why=f"{error.strerror or error}",
            fix=f"install Nsight Systems again, or name another one by {NSYS_VARIABLE}{choice(nsys)}",
        ) from None  # fmt: skip


def beside(output: Path, suffix: str) -> Path:
    """Not Path.with_suffix: the name may have a dot of its own."""
    return output.with_name(output.name + suffix)
