"""The contract with nsys: against a fake that fails as real ones do, and against the real one where there is one."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fake_nsys import HELP, NVTX_WORKER, FakeNsys, play
from tests.fakes.support import one_at_a_time, refused
from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.capture.nsys import _find as _nsys_find
from trtprof.capture.nsys import _process as _nsys_process
from trtprof.capture.nsys import record as nsys
from trtprof.runtime import child

REAL = os.environ.get("TRTPROF_NSYS") or shutil.which("nsys")
"""As the tests found it: a fixture hides it from all but those of the real one."""

RECORDED = b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54-234433681190v0!recorded"
"""A .qdstrm file: it begins as those of 2022.4 and 2023.4 do."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No nsys of this machine, no profiler around the tests, and fakes that answer without being started."""
    for variable in ("TRTPROF_NSYS", "NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(_nsys_find, "_USUAL_PLACES", (str(tmp_path / "usual" / "*" / "target-linux-*" / "nsys"),))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    which = shutil.which

    def here(name: str) -> str | None:
        found = which(name)
        return found if found and tmp_path in Path(found).parents else None

    monkeypatch.setattr(shutil, "which", here)
    play(monkeypatch)
    monkeypatch.setattr(nsys, "run", _nsys_process.run)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNsys:
    """A fake nsys, first on the PATH."""
    made = FakeNsys(tmp_path / "nsight")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    return made


Ends = Callable[..., list[list[str]]]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """How a run of nsys ends, without one; what it makes lies behind ``-o``. The list gets the commands."""

    def set_up(
        *errors: str, code: int = 0, timed_out: bool = False, free: int | None = None, made: bytes | None = None,
        suffix: str = "",
    ) -> list[list[str]]:  # fmt: skip
        commands: list[list[str]] = []

        def run(command: list[str], *, log: Path, **_: object) -> _nsys_process.Ended:
            commands.append(command)
            log.write_text("\n".join(errors))
            if made is not None:
                Path(command[command.index("-o") + 1].replace("%%", "%") + suffix).write_bytes(made)
            return _nsys_process.Ended(code, timed_out, free, errors, errors)

        monkeypatch.setattr(nsys, "run", run)
        return commands

    return set_up


def python(code: str) -> list[str]:
    return [sys.executable, "-IS", "-c", code]


def gone(pid: int) -> bool:
    """Whether a process ends; one that ended but that nobody waited for has."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


# --- which nsys -----------------------------------------------------------------------------

VERSIONS = {
    "NVIDIA Nsight Systems version 2022.4.2.1-df9881f\n": (2022, 4, 2, 1),  # Debian 12
    "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0": (2023, 4, 4, 54),  # Debian 13
    "NVIDIA Nsight Systems 2022.4.2.1-df9881f": (2022, 4, 2, 1),  # QdstrmImporter --version of Debian 12
    "NVIDIA Nsight Systems version 2025.2": (2025, 2),
    "Exportation error: Version number is invalid: 2023@4@4@54-234433681190v0": (2023, 4, 4, 54),
    "bash: nsys: command not found": (),
    "": (),
}


def test_every_spelling_of_a_version() -> None:
    assert {text: nsys.parse_version(text) for text in VERSIONS} == VERSIONS


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=4), st.sampled_from(["", "-df9881f", "-234433681190v0"]))
def test_versions_are_ordered_as_numbers(parts: list[int], build: str) -> None:
    text = ".".join(map(str, [2024, *parts]))
    assert nsys.parse_version(f"NVIDIA Nsight Systems version {text}{build}") == (2024, *parts)


def test_the_one_of_the_path_is_taken_and_newer_ones_are_named(fake: FakeNsys, tmp_path: Path) -> None:
    newer = FakeNsys(tmp_path / "usual" / "2026.1.1", "NVIDIA Nsight Systems version 2026.1.1.204-261137012345v0")
    found = nsys.find()
    assert found.path == fake.path
    assert (found.version, found.version_text) == ((2023, 4, 4, 54), "2023.4.4.54")
    assert found.why == "it is the first on the PATH"
    assert found.others == (f"{newer.path} (2026.1.1.204)",)


def test_of_the_usual_folders_the_newest_is_taken(tmp_path: Path) -> None:
    FakeNsys(tmp_path / "usual" / "2024.10.1", "NVIDIA Nsight Systems version 2024.10.1.1-1v0")
    FakeNsys(tmp_path / "usual" / "2024.9.1", "NVIDIA Nsight Systems version 2024.9.1.1-1v0")
    broken = FakeNsys(tmp_path / "usual" / "2025.1.1", "Segmentation fault")
    found = nsys.find()
    assert found.version == (2024, 10, 1, 1)
    assert "the newest in the usual folders" in found.why
    assert f"{broken.path}: it answers --version with 'Segmentation fault'" in found.why


def test_the_one_that_is_asked_for_is_taken_or_refused(
    fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FakeNsys(tmp_path / "other", "NVIDIA Nsight Systems version 2022.4.2.1-df9881f")
    monkeypatch.setenv("TRTPROF_NSYS", str(other.path))
    assert (nsys.find().path, nsys.find().why) == (other.path, "TRTPROF_NSYS names it")
    other.behave(version="error while loading shared libraries: libfoo.so.1", version_code=127)
    with pytest.raises(MissingError) as error:
        nsys.find()
    assert "libfoo.so.1" in refused(error.value)
    monkeypatch.setenv("TRTPROF_NSYS", str(tmp_path / "nowhere" / "nsys"))
    with pytest.raises(MissingError, match="nowhere") as error:
        nsys.find()
    assert "not there" in refused(error.value)


def test_without_nsys_it_is_said_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="not installed") as error:
        nsys.find()
    assert error.value.exit_code == 3
    assert str(tmp_path / "usual") in error.value.why
    assert "TRTPROF_NSYS" in refused(error.value)


# --- options by version ---------------------------------------------------------------------


def options(found: nsys.Nsys, **named: bool) -> list[str]:
    command = nsys.profile_command(found, ["worker", "-t", "x"], Path("/runs/100% fp16/nsys"), **named)  # type: ignore[arg-type]
    assert command[-3:] == ["worker", "-t", "x"]
    assert command[:4] == [str(found.path), "profile", "-o", "/runs/100%% fp16/nsys"], "% is nsys' own"
    return command[4:-3]


def known(version: tuple[int, ...], told: str = "") -> nsys.Nsys:
    return nsys.Nsys(path=Path("/nsys"), version=version, version_text="x", why="", help=told)


BASE = ["-f", "true", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-c", "cudaProfilerApi",
        "--capture-range-end=stop", "--cuda-graph-trace=node"]  # fmt: skip


def test_options_follow_the_version_where_the_help_is_silent() -> None:
    assert options(known((2022, 4, 2, 1))) == BASE
    assert options(known((2023, 4, 4, 54))) == [*BASE, "--flush-on-cudaprofilerstop=true"]
    assert options(known((2026, 1, 1, 204))) == [
        *[part if part != "cuda,nvtx" else "cuda-sw,nvtx" for part in BASE],
        "--flush-on-cudaprofilerstop=true", "--cuda-event-trace=false",
    ]  # fmt: skip


def test_what_the_help_says_wins_over_the_version() -> None:
    assert options(known((2026, 1), HELP)) == BASE
    told = HELP.replace("'cuda', ", "'cuda', 'cuda-hw', 'cuda-sw', ") + "\t--cuda-event-trace=\n"
    assert "--cuda-event-trace=false" in options(known((2022, 4), told))
    assert "cuda-sw,nvtx" in options(known((2022, 4), told))


def test_a_version_without_a_needed_option_is_refused() -> None:
    with pytest.raises(MissingError, match="too old") as error:
        options(known((2021, 3)))
    assert "--capture-range-end=stop" in refused(error.value)


def test_a_whole_run_and_one_without_cuda_need_no_options_of_either() -> None:
    command = nsys.profile_command(known((2023, 4)), ["worker"], Path("/r"), trace=("nvtx",), whole_run=True)
    assert command[4:] == ["-f", "true", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "worker"]


# --- a profile ------------------------------------------------------------------------------


def test_a_second_profiler_is_refused(
    fake: FakeNsys, ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ends()
    for variable in ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "4711")
            with pytest.raises(CaptureError) as error:
                nsys.run_profile(nsys.find(), python("print(1)"), tmp_path / "run" / "nsys")
        assert variable in refused(error.value)
        assert "one subscriber" in error.value.why
    assert not commands, "nsys was not started"


@pytest.mark.process
def test_a_profile_gives_the_report_its_command_and_a_log(
    fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "openai_api_key", "DB_PASSWORD")
    for name in (*secrets, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, f"value of {name}")
    lines: list[str] = []
    code = (
        "import os, sys; print('warm', flush=True); print(os.environ['TMPDIR'], dict(os.environ), file=sys.stderr)\n"
        "for i in range(20000): print(i); print('e', i, file=sys.stderr)"
    )
    profile = nsys.run_profile(nsys.find(), python(code), tmp_path / "run" / "a.b", progress=lines.append)
    assert profile.report == tmp_path / "run" / "a.b.nsys-rep"
    assert profile.report.read_text() == "report"
    assert list(profile.command[1:]) == fake.calls()[-1]
    assert lines == ["warm", *map(str, range(20000)), "nsys writes its report"]
    log = profile.log.read_text()
    assert log.startswith(f"$ {shlex.quote(str(fake.path))} profile -o ")
    assert "warm\n" in log
    assert log.count("\n") > 40000
    assert [name for name in secrets if name in log] == [], "nsys writes the environment into its report"
    assert "value of CUDA_VISIBLE_DEVICES" in log
    scratch = Path(next(line for line in log.splitlines() if line.startswith(str(tmp_path))).split()[0])
    assert scratch.parent == tmp_path / "run", "what is under way lies on the disk of the result"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["a.b.log", "a.b.nsys-rep"]


def test_what_nsys_warns_of_is_a_note(fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    ends("WARNING: CPU context switches trace requires administrative privileges, disabling.",
         "WARNING: Device-side CUDA Event completion trace is currently enabled.",
         "         This may increase runtime overhead.", "Collecting data...",
         made=b"x", suffix=".nsys-rep")  # fmt: skip
    assert nsys.run_profile(nsys.find(), ["worker"], tmp_path / "nsys").notes == (
        "nsys: CPU context switches trace requires administrative privileges, disabling.",
        "nsys: Device-side CUDA Event completion trace is currently enabled. This may increase runtime overhead.",
    )


def test_an_older_report_is_not_taken_for_a_new_one(fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    for suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        (tmp_path / f"nsys{suffix}").write_text("old")
    ends()
    with pytest.raises(CaptureError, match="nsys recorded nothing") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert "cudaProfilerStart" in refused(error.value)
    assert str(tmp_path / "nsys.log") in error.value.fix


@pytest.mark.nightly
def test_a_lone_stream_is_repaired(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="qdstrm")
    fake.importer()
    profile = nsys.run_profile(nsys.find(), python(""), tmp_path / "run" / "v1.2")
    assert profile.report == tmp_path / "run" / "v1.2.nsys-rep"
    assert profile.report.read_text() == "imported"
    assert "QdstrmImporter" in profile.notes[-1]
    assert re.search(r"QdstrmImporter'? -i ", profile.log.read_text())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["v1.2.log", "v1.2.nsys-rep"]


def test_the_importer_is_found_where_debian_puts_it(tmp_path: Path, ends: Ends) -> None:
    fake = FakeNsys(tmp_path / "lib" / "x86_64-linux-gnu" / "nsight-systems")
    importer = fake.importer(tmp_path / "lib" / "nsight-systems" / "host-linux-x64")
    link = tmp_path / "bin" / "nsys"
    link.parent.mkdir()
    link.symlink_to(fake.path)
    stream = tmp_path / "a.qdstrm"
    stream.write_bytes(RECORDED)
    commands = ends(made=b"imported")
    assert nsys.repair(stream, msgspec.structs.replace(known((2023, 4)), path=link)).read_bytes() == b"imported"
    assert commands[0][0] == str(importer)
    assert stream.read_bytes() == RECORDED


def test_a_stream_that_cannot_be_repaired_is_kept(fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    ends(made=RECORDED, suffix=".qdstrm")
    with pytest.raises(MissingError, match="no report yet") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert "QdstrmImporter" in refused(error.value)
    stream = tmp_path / "nsys.qdstrm"
    fake.importer()
    for message, words in (
        ("error while loading shared libraries: libssh.so: cannot open", "libssh.so"),
        ("terminate called: No space left on device", "the disk is full"),
    ):
        ends(message, code=1)
        with pytest.raises(CaptureError) as failed:
            nsys.repair(stream, nsys.find())
        assert words in refused(failed.value)
        assert str(stream) in failed.value.fix
    assert stream.read_bytes() == RECORDED
    assert not (tmp_path / "nsys.nsys-rep").exists()


# --- a profile that fails -------------------------------------------------------------------

FAILURES: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "ZeroDivisionError: a bug of ours (exit code 1)": (("ZeroDivisionError: a bug of ours",), {"code": 1}),
    "it said nothing (exit code 77)": ((), {"code": 77}),
    "it was killed (SIGKILL): out of memory, or by hand": ((), {"code": 137}),
    "nsys died": ((), {"code": -9}),
    "one subscriber": (("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",), {"code": 1}),
    "refuses an option": (("unrecognised option '--cuda-event-trace=false'", "", "usage: nsys"), {"code": 1}),
    "'cuda-sw'": (("Illegal --trace argument 'cuda-sw'", "Possible --trace values are"), {"code": 1}),
    "waits for another nsys of this machine": (("Agent launcher failed.",), {"code": 1}),
    "does not find the program": (("Executable not found in current directory",), {"code": 1}),
    # From NVIDIA's page on the error, and from the library of 2022.4 that samples the CPU.
    "leave out --gpu-metrics-devices": (("ERR_NVGPUCTRPERM: Permission issue with Performance Counters",), {"code": 1}),
    "leave out --sample": (("Unable to collect CPU samples. perf_event_paranoid level is 2",), {"code": 1}),
    # On a full disk 2022.4.2 dies of a segmentation fault, 2023.4.4 hangs, or a run ends well.
    "No space left on device": (("Failed to create 'a.qdstrm': No space left on device.",), {}),
    "are free on it": (("FATAL ERROR: Throw in function FileStream::truncate",), {"timed_out": True, "free": 1}),
    "did not end within 1800 s": (("the last word", "Generating 'a'"), {"timed_out": True}),
}


def test_a_profile_that_fails_is_explained(fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    found = nsys.find()
    wrong = []
    for words, (lines, how) in FAILURES.items():
        ends(*lines, **how)
        with pytest.raises(CaptureError) as error:
            nsys.run_profile(found, python(""), tmp_path / "nsys", worker_error=lambda: None)
        message = refused(error.value)
        if words not in message or str(tmp_path / "nsys.log") not in message:
            wrong.append((words, message))
    assert wrong == []


def test_the_worker_s_own_error_comes_first(fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    own = MissingError("no GPU is here", why="cudaErrorNoDevice", fix="use one")
    ends(code=3)
    with pytest.raises(MissingError) as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys", worker_error=lambda: own)
    assert error.value is own


def test_what_was_recorded_is_kept_and_named(fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    ends(code=1, made=b"part", suffix=".nsys-rep")
    with pytest.raises(CaptureError) as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert str(tmp_path / "nsys.nsys-rep") in error.value.fix


@pytest.mark.process
def test_an_nsys_or_a_folder_that_is_not_there_is_refused(fake: FakeNsys, tmp_path: Path) -> None:
    found = nsys.find()
    fake.path.unlink()
    with pytest.raises(MissingError, match="cannot be run") as error:
        nsys.run_profile(found, python(""), tmp_path / "nsys")
    assert refused(error.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match="no temporary folder can be made in") as error:
        nsys.run_profile(found, python(""), tmp_path / "file" / "run" / "nsys")
    assert refused(error.value)


# --- nothing outlives the call --------------------------------------------------------------

WAIT = """import os, sys, time
open(sys.argv[1], 'w').write(str(os.getpid()))
print('ready', flush=True)
time.sleep(600)"""


def worker_pid(folder: Path) -> int:
    return int((folder / "worker.pid").read_text())


@pytest.mark.nightly
@pytest.mark.parametrize("behaviour", ["hang", "deaf", "agent"])
def test_an_nsys_that_hangs_is_ended_with_all_that_it_started(
    behaviour: str, fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_nsys_process, "_GRACE_S", 1.0)
    fake.behave(fails=behaviour)
    with pytest.raises(CaptureError, match="did not end within 2 s") as error:
        nsys.run_profile(nsys.find(), python("print('the last word')"), tmp_path / "nsys", timeout_s=2.0)
    assert "the last word" in refused(error.value)
    if behaviour == "agent":
        assert gone(fake.agent())
    if behaviour == "deaf":
        assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED, "what was recorded is kept"
    else:
        assert str(tmp_path / "nsys.nsys-rep") in error.value.fix, "it was asked to end, and left a report"
    assert not list(tmp_path.glob("trtprof-scratch-*"))


@pytest.mark.process
def test_ctrl_c_ends_nsys_and_the_worker(fake: FakeNsys, tmp_path: Path) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nsys.run_profile(
            nsys.find(), [*python(WAIT), str(tmp_path / "worker.pid")], tmp_path / "nsys", progress=interrupt
        )
    assert gone(worker_pid(tmp_path))
    assert not list(tmp_path.glob("trtprof-scratch-*"))


@pytest.mark.nightly
@pytest.mark.parametrize("killed", ["parent", "nsys"])
def test_the_worker_ends_with_a_parent_or_an_nsys_that_is_killed(killed: str, fake: FakeNsys, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(f"from trtprof.runtime import child\nchild.end_with_parent()\n{WAIT}\n")
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys\nfrom pathlib import Path\nfrom trtprof.capture.nsys import record as nsys\n"
        "nsys.run_profile(nsys.find(), [sys.executable, *sys.argv[1:3]], Path(sys.argv[3]), progress=print)\n"
    )
    if killed == "nsys":
        fake.behave(fails="killed", after=str(tmp_path / "worker.pid"))
    environment = {**child.environment(), "TRTPROF_NSYS": str(fake.path)}
    command = [sys.executable, str(parent), str(worker), str(tmp_path / "worker.pid"), str(tmp_path / "nsys")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if killed == "parent":
            process.kill()
        _, errors = process.communicate()
    assert gone(worker_pid(tmp_path))
    if killed == "nsys":
        assert "nsys died" in errors
        assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED, "what was recorded is kept"


# --- export ---------------------------------------------------------------------------------


@pytest.fixture
def report(tmp_path: Path, fake: FakeNsys) -> Path:
    fake.exports("StringIds", "META_DATA_EXPORT")
    path = tmp_path / "captures" / "a.b.nsys-rep"
    path.parent.mkdir()
    path.write_text("report")
    return path


def left(report: Path) -> list[str]:
    return sorted(path.name for path in report.parent.iterdir())


@pytest.mark.process
def test_an_export_lies_beside_its_report(report: Path, fake: FakeNsys) -> None:
    lines: list[str] = []
    made = nsys.export_sqlite(report, nsys.find(), progress=lines.append)
    assert made == report.parent / "a.b.sqlite"
    with contextlib.closing(sqlite3.connect(made)) as database:
        assert database.execute("SELECT count(*) FROM META_DATA_EXPORT").fetchone() == (0,)
    call = fake.calls()[-1]
    assert call[:5] == ["export", "-t", "sqlite", "--force-overwrite=true", "--lazy=true"]
    assert call[-1] == str(report)
    assert lines == ["exporting a.b.nsys-rep (6.00 B) to SQLite"]
    assert left(report) == ["a.b.nsys-rep", "a.b.sqlite"]


def sqlite_file(*tables: str) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        for table in tables:
            database.execute(f"CREATE TABLE {table} (name TEXT, value TEXT)")
        return database.serialize()


def test_an_export_to_another_place_replaces_what_is_there(
    report: Path, fake: FakeNsys, ends: Ends, tmp_path: Path
) -> None:
    output = tmp_path / "elsewhere" / "x.db"
    output.parent.mkdir()
    output.write_text("old")
    ends(made=sqlite_file("EXPORT_META_DATA"))
    assert nsys.export_sqlite(report, nsys.find(), output=output) == output
    assert output.read_bytes().startswith(b"SQLite format 3")
    assert left(report) == ["a.b.nsys-rep"]


def test_a_lone_stream_is_exported_through_its_report(report: Path, fake: FakeNsys, ends: Ends) -> None:
    stream = report.with_suffix(".qdstrm")
    stream.write_bytes(RECORDED)
    report.unlink()
    fake.importer()
    commands = ends(made=sqlite_file("META_DATA_EXPORT"))
    assert nsys.export_sqlite(stream, nsys.find()).name == "a.b.sqlite"
    assert [Path(command[0]).name for command in commands] == ["QdstrmImporter", "nsys"]
    assert left(report) == ["a.b.qdstrm", "a.b.sqlite"]
    assert stream.read_bytes() == RECORDED


def test_a_dump_of_an_exception_is_read_for_its_cause(report: Path, fake: FakeNsys, ends: Ends) -> None:
    # The importer of 2023.4.4 on a stream of 2022.4.2, and the export of 2022.4.2 on a full disk, shortened.
    dump = """Import Failed with unexpected exception: main.cpp(34): Throw in function Importer::Importer
Dynamic exception type: boost::wrapexcept<QuadDCommon::RuntimeException>
std::exception::what: RuntimeException
[QuadDCommon::tag_message*] = Status: AnalysisFailed
Error {
      Items {
        Type: ErrorText
        Value: "Supplied input buffer of size 178 is too small."
      }
}
"""
    causes = {
        "Supplied input buffer of size 178 is too small.": dump.splitlines(),
        "a told cause": ["std::exception::what: RuntimeException", "[QuadDCommon::tag_message*] = a told cause", "}"],
    }
    for cause, lines in causes.items():
        ends(*lines, code=1)
        with pytest.raises(CaptureError) as error:
            nsys.export_sqlite(report, nsys.find())
        assert error.value.why == cause


REFUSALS: dict[str, tuple[type[TrtprofError], list[str]]] = {
    # 2022.4.2 of a report of 2023.4.4
    "Exportation error: Version number is invalid: 2026@1@4@54-234433681190v0": (
        MissingError, ["made by a newer nsys (2026.1.4.54)", "is 2023.4.4.54", "install 2026.1 or newer",
                       "where it was made", "(2026.2.1.210)"],
    ),
    # the library of 2023.4.4, with the numbers of a report that somebody had
    "Report was created in Nsight Systems version (2026.3.1), newer than your current version (2026.2.1).": (
        MissingError, ["made by a newer nsys (2026.3.1)"],
    ),
    "Exportation error: Cannot read from stream.": (UsageError, ["no report of Nsight Systems", "Cannot read"]),
    "Exportation error: Section Table Reference magic number mismatch.": (UsageError, ["cut off"]),
    "Exportation error: Version number is invalid: 2018@1@1@36-1v0": (UsageError, ["2018@1@1@36"]),
    "Exportation error: database or disk is full": (CaptureError, ["the disk is full"]),
    "Exportation error: something else": (CaptureError, ["something else", "try it by hand"]),
}  # fmt: skip


def test_an_export_that_is_refused_is_explained(report: Path, fake: FakeNsys, ends: Ends, tmp_path: Path) -> None:
    FakeNsys(tmp_path / "usual" / "2026", "NVIDIA Nsight Systems version 2026.2.1.210-1v0")
    report.with_suffix(".sqlite").write_text("the one before")
    wrong = []
    for message, (kind, words) in REFUSALS.items():
        ends(message, code=1, made=b"half")
        with pytest.raises(TrtprofError) as error:
            nsys.export_sqlite(report, nsys.find())
        told = refused(error.value)
        wrong += [(message, word) for word in words if word not in told]
        wrong += [(message, type(error.value).__name__)] if type(error.value) is not kind else []
    assert wrong == []
    assert left(report) == ["a.b.nsys-rep", "a.b.sqlite"]
    assert report.with_suffix(".sqlite").read_text() == "the one before"


def test_an_export_that_is_not_whole_is_a_full_disk(report: Path, fake: FakeNsys, ends: Ends) -> None:
    whole = sqlite_file("META_DATA_EXPORT", "StringIds")
    for made in (None, b"", whole[:50], whole[:4096], sqlite_file("StringIds")):
        ends(made=made)
        with pytest.raises(CaptureError, match="not whole") as error:
            nsys.export_sqlite(report, nsys.find())
        assert "as on a full disk" in refused(error.value)
    assert left(report) == ["a.b.nsys-rep"]


def test_an_export_that_hangs_or_is_killed_or_has_no_report(report: Path, fake: FakeNsys, ends: Ends) -> None:
    for how, words in (({"code": -9}, "SIGKILL"), ({"timed_out": True, "code": 143}, "did not end within 1800 s")):
        ends(**how)
        with pytest.raises(CaptureError) as error:
            nsys.export_sqlite(report, nsys.find())
        assert words in refused(error.value)
    assert left(report) == ["a.b.nsys-rep"]
    with pytest.raises(MissingError, match="not there") as missing:
        nsys.export_sqlite(report.with_name("x.nsys-rep"), nsys.find())
    assert refused(missing.value)


# --- the real one ---------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[nsys.Nsys]:
    """The real nsys: agents of two that start at once get stuck on a lock in the memory that they share."""
    if REAL is None:
        pytest.skip("no real nsys: neither on the PATH nor by TRTPROF_NSYS")
    monkeypatch.setenv("TRTPROF_NSYS", REAL)
    monkeypatch.setattr(shutil, "which", lambda _name: REAL)
    with one_at_a_time("nsys"):
        yield nsys.find()


@pytest.fixture
def recorded(real: nsys.Nsys, tmp_path: Path) -> nsys.Profile:
    """The capture of a process on the CPU that pushes NVTX ranges."""
    worker = tmp_path / "worker.py"
    worker.write_text(NVTX_WORKER)
    lines: list[str] = []
    profile = nsys.run_profile(
        real, [sys.executable, str(worker)], tmp_path / "run" / "a 100%.b", trace=("nvtx",), whole_run=True,
        progress=lines.append, timeout_s=120.0,
    )  # fmt: skip
    assert lines[0] == "ready"
    return profile


@pytest.mark.nightly
def test_a_real_nsys_records_the_ranges_of_a_cpu_process(real: nsys.Nsys, recorded: nsys.Profile) -> None:
    assert recorded.report.name == "a 100%.b.nsys-rep"
    assert sorted(path.name for path in recorded.report.parent.iterdir()) == ["a 100%.b.log", "a 100%.b.nsys-rep"]
    made = nsys.export_sqlite(recorded.report, real, timeout_s=120.0)
    with contextlib.closing(sqlite3.connect(made)) as database:
        rows = database.execute(
            "SELECT COALESCE(n.text, s.value), n.start, n.end FROM NVTX_EVENTS n LEFT JOIN StringIds s "
            "ON s.id = n.textId WHERE n.eventType = 59 ORDER BY n.start, n.end DESC"
        ).fetchall()
    assert [name for name, _, _ in rows] == [name for i in range(5) for name in ("iteration", f"layer {i}")]
    assert all(end - start >= 2_000_000 for _, start, end in rows)
    outer, inner = rows[::2], rows[1::2]
    assert all(o[1] <= i[1] <= i[2] <= o[2] for o, i in zip(outer, inner, strict=True))


@pytest.mark.nightly
def test_a_real_nsys_knows_the_options_of_its_version(real: nsys.Nsys) -> None:
    for option in (*_nsys_find.OPTIONS, _nsys_find.SOFTWARE_TRACE):
        by_version = real.version >= option.since
        assert real.knows(option) == by_version, f"{option.text} in {real.version_text}"


@pytest.mark.nightly
def test_a_real_nsys_without_a_capture_range_records_nothing(real: nsys.Nsys, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="nsys recorded nothing"):
        nsys.run_profile(real, python(""), tmp_path / "nsys", trace=("nvtx",), timeout_s=120.0)


@pytest.mark.nightly
def test_a_real_nsys_passes_on_how_the_worker_ended(real: nsys.Nsys, tmp_path: Path) -> None:
    for code, words in (("raise SystemExit('own words')", "own words (exit code 1)"),
                        ("import os; os.kill(os.getpid(), 9)", "SIGKILL")):  # fmt: skip
        with pytest.raises(CaptureError, match="under nsys failed") as error:
            nsys.run_profile(real, python(code), tmp_path / "nsys", trace=("nvtx",), whole_run=True, timeout_s=120.0)
        assert words in error.value.why


@pytest.mark.nightly
def test_a_real_nsys_that_is_interrupted_leaves_nothing(
    real: nsys.Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("TRTPROF_TEST_OF", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        nsys.run_profile(
            real, [*python(WAIT), str(tmp_path / "worker.pid")], tmp_path / "nsys", trace=("nvtx",), whole_run=True,
            progress=interrupt,
        )  # fmt: skip
    assert gone(worker_pid(tmp_path))
    assert [pid for pid in started_here(tmp_path) if not gone(pid)] == []


def started_here(folder: Path) -> Iterator[int]:
    """Processes that a test started after it had put the variable there, but for that of the tests."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"TRTPROF_TEST_OF={folder}".encode() in environ.read_bytes().split(b"\0"):
                yield int(environ.parent.name)


@pytest.mark.nightly
@pytest.mark.parametrize("content", ["hello\n", "cut"])
def test_a_real_nsys_says_what_is_no_report(
    content: str, real: nsys.Nsys, recorded: nsys.Profile, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.nsys-rep"
    whole = recorded.report.read_bytes()
    wrong.write_bytes(whole[: len(whole) // 2] if content == "cut" else content.encode())
    with pytest.raises(UsageError, match="no report of Nsight Systems, or is cut off") as error:
        nsys.export_sqlite(wrong, real)
    assert refused(error.value)
    assert re.search(r"stream|magic", error.value.why)
    assert not wrong.with_suffix(".sqlite").exists()
