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
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fake_nsys import HELP, NVTX_WORKER, FakeNsys
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
    """No nsys of this machine, and no profiler around the tests."""
    for variable in ("TRTPROF_NSYS", "NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(_nsys_find, "_USUAL_PLACES", (str(tmp_path / "usual" / "*" / "target-linux-*" / "nsys"),))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", _which_of(tmp_path))


def _which_of(folder: Path) -> object:
    real = shutil.which

    def which(name: str) -> str | None:
        found = real(name)
        return found if found and folder in Path(found).parents else None

    return which


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNsys:
    """A fake nsys, first on the PATH."""
    made = FakeNsys(tmp_path / "nsight")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    return made


def python(code: str) -> list[str]:
    return [sys.executable, "-IS", "-c", code]


def alive(pid: int) -> bool:
    """Whether a process runs: one that ended but that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


# --- which nsys -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Nsight Systems version 2022.4.2.1-df9881f\n", (2022, 4, 2, 1)),  # Debian 12
        ("NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0", (2023, 4, 4, 54)),  # Debian 13
        ("NVIDIA Nsight Systems 2022.4.2.1-df9881f", (2022, 4, 2, 1)),  # QdstrmImporter --version of Debian 12
        ("NVIDIA Nsight Systems version 2023.3.3.42", (2023, 3, 3, 42)),
        ("NVIDIA Nsight Systems version 2025.2", (2025, 2)),
        ("Exportation error: Version number is invalid: 2023@4@4@54-234433681190v0", (2023, 4, 4, 54)),
        ("bash: nsys: command not found", ()),
        ("", ()),
    ],
)
def test_every_spelling_of_a_version(text: str, version: tuple[int, ...]) -> None:
    assert nsys.parse_version(text) == version


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


def test_reports_go_by_their_name_of_the_time() -> None:
    assert nsys.report_name((2022, 4, 2, 1), "nvtx_kern_sum") == "nvtxkernsum"
    assert nsys.report_name((2023, 4, 4, 54), "nvtx_kern_sum") == "nvtx_kern_sum"
    assert nsys.report_name((2022, 4, 2, 1), "syscall") == "syscall"


# --- one profiler at a time -----------------------------------------------------------------


@pytest.mark.parametrize("variable", ["NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"])
def test_a_second_profiler_is_refused(
    variable: str, fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "4711")
    with pytest.raises(CaptureError) as error:
        nsys.run_profile(nsys.find(), python("print(1)"), tmp_path / "run" / "nsys")
    message = refused(error.value)
    assert variable in message
    assert "one subscriber" in message
    assert not [call for call in fake.calls() if "-o" in call], "nsys was not started"


# --- a profile ------------------------------------------------------------------------------


def test_a_profile_gives_the_report_its_command_and_a_log(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(first=["WARNING: CPU context switches trace requires administrative privileges, disabling.",
                       "WARNING: Device-side CUDA Event completion trace is currently enabled.",
                       "         This may increase runtime overhead.", "Collecting data..."])  # fmt: skip
    lines: list[str] = []
    code = "import os, sys; print('warm', flush=True); print(os.environ['TMPDIR'], file=sys.stderr); print('done')"
    profile = nsys.run_profile(nsys.find(), python(code), tmp_path / "run" / "a.b", progress=lines.append)
    assert profile.report == tmp_path / "run" / "a.b.nsys-rep"
    assert profile.report.read_text() == "report"
    assert list(profile.command[1:]) == fake.calls()[-1]
    assert lines == ["warm", "done", "nsys writes its report"]
    log = profile.log.read_text()
    assert log.startswith(f"$ {shlex.quote(str(fake.path))} profile -o ")
    assert "warm\n" in log
    assert profile.notes == (
        "nsys: CPU context switches trace requires administrative privileges, disabling.",
        "nsys: Device-side CUDA Event completion trace is currently enabled. This may increase runtime overhead.",
    )
    # The child's errors and nsys's own lines reach the log by two pipes, in either order.
    scratch = Path(next(line for line in log.splitlines() if line.startswith(str(tmp_path))))
    assert scratch.parent == tmp_path / "run", "what is under way lies on the disk of the result"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["a.b.log", "a.b.nsys-rep"]


def test_secrets_are_kept_from_what_nsys_writes_into_its_report(
    fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "openai_api_key", "DB_PASSWORD")
    for name in (*secrets, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, f"value of {name}")
    profile = nsys.run_profile(nsys.find(), python("import os; print(dict(os.environ))"), tmp_path / "nsys")
    log = profile.log.read_text()
    assert [name for name in secrets if name in log] == []
    assert "value of CUDA_VISIBLE_DEVICES" in log


def test_an_older_report_is_not_taken_for_a_new_one(fake: FakeNsys, tmp_path: Path) -> None:
    for suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        (tmp_path / f"nsys{suffix}").write_text("old")
    fake.behave(fails="nothing")
    with pytest.raises(CaptureError, match="nsys recorded nothing") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert "cudaProfilerStart" in refused(error.value)
    assert str(tmp_path / "nsys.log") in error.value.fix


def test_a_lone_stream_is_repaired(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="qdstrm")
    fake.importer()
    profile = nsys.run_profile(nsys.find(), python(""), tmp_path / "run" / "v1.2")
    assert profile.report == tmp_path / "run" / "v1.2.nsys-rep"
    assert profile.report.read_text() == "imported"
    assert "QdstrmImporter" in profile.notes[-1]
    assert re.search(r"QdstrmImporter'? -i ", profile.log.read_text())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["v1.2.log", "v1.2.nsys-rep"]


def test_an_importer_that_fails_now_and_then_is_asked_again(fake: FakeNsys, tmp_path: Path) -> None:
    # Of 2023.4.4, whose threads race.
    fake.behave(fails="qdstrm")
    fake.importer(message=["[QuadDCommon::tag_message*] = Status: AnalysisFailed", "Error {", "}"], code=2, failures=2)
    assert nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys").report.read_text() == "imported"


def test_the_importer_is_found_where_debian_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNsys(tmp_path / "lib" / "x86_64-linux-gnu" / "nsight-systems")
    fake.importer(tmp_path / "lib" / "nsight-systems" / "host-linux-x64")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nsys").symlink_to(fake.path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    fake.behave(fails="qdstrm")
    assert nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys").report.read_text() == "imported"


def test_without_the_importer_the_stream_is_kept(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="qdstrm")
    with pytest.raises(MissingError, match="no report yet") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert "QdstrmImporter" in refused(error.value)
    assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED


@pytest.mark.parametrize(
    ("message", "code", "kind", "words"),
    [
        ("error while loading shared libraries: libssh.so: cannot open", 127, MissingError, "apt install libssh-4"),
        ("error while loading shared libraries: libQt5Core.so.5: no", 127, MissingError, "needs libQt5Core.so.5"),
        ("terminate called: No space left on device", 1, CaptureError, "the disk is full"),
        ("Import failed: the stream is damaged", 1, CaptureError, "the stream is damaged"),
    ],
)  # fmt: skip
def test_an_importer_that_fails_keeps_the_stream(
    message: str, code: int, kind: type[TrtprofError], words: str, fake: FakeNsys, tmp_path: Path
) -> None:
    fake.behave(fails="qdstrm")
    fake.importer(message=[message], code=code)
    with pytest.raises(kind) as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert words in refused(error.value)
    assert str(tmp_path / "nsys.qdstrm") in error.value.fix
    assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED
    assert not (tmp_path / "nsys.nsys-rep").exists()


# --- a profile that fails -------------------------------------------------------------------


def test_the_worker_s_own_error_comes_first(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="nothing")
    own = MissingError("no GPU is here", why="cudaErrorNoDevice", fix="use one")
    with pytest.raises(MissingError) as error:
        nsys.run_profile(nsys.find(), python("import sys; sys.exit(3)"), tmp_path / "nsys", worker_error=lambda: own)
    assert error.value is own


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ZeroDivisionError('a bug of ours')", "ZeroDivisionError: a bug of ours (exit code 1)"),
        ("import sys; sys.exit(77)", "it said nothing (exit code 77)"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "it was killed (SIGKILL): out of memory, or by hand",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by SIGSEGV"),
        ("import sys; sys.exit('CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED')", "one subscriber"),
    ],
)
@pytest.mark.parametrize("behaviour", ["", "nothing"])
def test_a_worker_that_died_is_quoted(code: str, words: str, behaviour: str, fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails=behaviour)
    with pytest.raises(CaptureError) as error:
        nsys.run_profile(nsys.find(), python(code), tmp_path / "nsys", worker_error=lambda: None)
    message = refused(error.value)
    assert words in message
    assert str(tmp_path / "nsys.log") in message
    assert (str(tmp_path / "nsys.nsys-rep") in message) == (behaviour == ""), "what was recorded is kept and named"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            ["unrecognised option '--cuda-event-trace=false'", "", "usage: nsys profile [<args>]"],
            "refuses an option",
        ),
        (["Agent launcher failed."], "waits for another nsys of this machine"),
        (["Illegal --trace argument 'cuda-sw'", "Possible --trace values are one or more of 'cuda'"], "'cuda-sw'"),
        (["Program not found: worker"], "does not find the program"),
        (["Executable not found in current directory or standard search paths"], "does not find the program"),
        # From NVIDIA's page on the error, and from the library of 2022.4 that samples the CPU.
        (["ERR_NVGPUCTRPERM: Permission issue with Performance Counters"], "leave out --gpu-metrics-devices"),
        (["Unable to collect CPU kernel IP/backtrace samples. perf_event_paranoid level is 2"], "leave out --sample"),
    ],
)
def test_what_nsys_refuses_is_explained(message: list[str], words: str, fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="refuse", message=message)
    with pytest.raises(CaptureError) as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert words in refused(error.value)
    assert error.value.exit_code == 5


def test_a_full_disk_is_said_although_nsys_ends_well(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="nospace")
    with pytest.raises(CaptureError, match="the disk is full") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert "No space left on device" in refused(error.value)
    assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED, "what was recorded is kept"


@pytest.mark.parametrize("behaviour", ["hang", "refuse"])
def test_a_disk_that_fills_up_ends_the_run(
    behaviour: str, fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Seen on a full disk: 2022.4.2 dies of a segmentation fault, 2023.4.4 hangs.
    monkeypatch.setattr(_nsys_process, "_LEAST_FREE_BYTES", 1 << 62)
    monkeypatch.setattr(_nsys_process, "_GRACE_S", 0.3)
    fake.behave(fails=behaviour, message=["FATAL ERROR: Throw in function FileStream::truncate"])
    with pytest.raises(CaptureError, match="the disk is full") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "nsys")
    assert "are free on it" in refused(error.value)


def test_a_folder_that_cannot_be_made_is_refused(fake: FakeNsys, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match="no temporary folder can be made in") as error:
        nsys.run_profile(nsys.find(), python(""), tmp_path / "file" / "run" / "nsys")
    assert refused(error.value)


def test_an_nsys_that_is_gone_is_refused(fake: FakeNsys, tmp_path: Path) -> None:
    found = nsys.find()
    fake.path.unlink()
    with pytest.raises(MissingError, match="cannot be run") as error:
        nsys.run_profile(found, python(""), tmp_path / "nsys")
    assert refused(error.value)


# --- nothing outlives the call --------------------------------------------------------------

WAIT = """import os, sys, time
open(sys.argv[1], 'w').write(str(os.getpid()))
print('ready', flush=True)
time.sleep(600)"""


def worker_pid(folder: Path) -> int:
    return int((folder / "worker.pid").read_text())


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found again through /proc")
@pytest.mark.parametrize("behaviour", ["hang", "deaf", "agent"])
def test_an_nsys_that_hangs_is_ended_with_all_that_it_started(
    behaviour: str, fake: FakeNsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0], sleep=time.sleep)
    monkeypatch.setattr(_nsys_process, "time", clock)
    monkeypatch.setattr(_nsys_process, "_GRACE_S", 1.0)

    def skip_the_wait(line: str) -> None:
        ahead[0] = 600.0 if line == "nsys writes its report" else 0.0

    fake.behave(fails=behaviour)
    with pytest.raises(CaptureError, match="did not end within 500 s") as error:
        nsys.run_profile(
            nsys.find(), python("print('the last word')"), tmp_path / "nsys", timeout_s=500.0, progress=skip_the_wait
        )
    assert "the last word" in refused(error.value)
    if behaviour == "agent":
        assert gone(fake.agent())
    if behaviour == "deaf":
        assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED, "what was recorded is kept"
    else:
        assert str(tmp_path / "nsys.nsys-rep") in error.value.fix, "it was asked to end, and left a report"
    assert not list(tmp_path.glob("trtprof-scratch-*"))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found again through /proc")
def test_an_nsys_that_is_killed_takes_the_worker_along(fake: FakeNsys, tmp_path: Path) -> None:
    fake.behave(fails="killed", after=str(tmp_path / "worker.pid"))
    with pytest.raises(CaptureError, match="nsys died") as error:
        nsys.run_profile(nsys.find(), [*python(WAIT), str(tmp_path / "worker.pid")], tmp_path / "nsys")
    assert "SIGKILL" in refused(error.value)
    assert gone(worker_pid(tmp_path))
    assert (tmp_path / "nsys.qdstrm").read_bytes() == RECORDED, "what was recorded is kept"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ZeroDivisionError])
def test_ctrl_c_ends_nsys_and_the_worker(interruption: type[BaseException], fake: FakeNsys, tmp_path: Path) -> None:
    def interrupt(_line: str) -> None:
        raise interruption

    with pytest.raises(interruption):
        nsys.run_profile(
            nsys.find(), [*python(WAIT), str(tmp_path / "worker.pid")], tmp_path / "nsys", progress=interrupt
        )
    assert gone(worker_pid(tmp_path))
    assert not list(tmp_path.glob("trtprof-scratch-*"))


@pytest.mark.parametrize(
    ("daemon", "grace_s"), [("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo left >", 60.0),
                            ("trap '' TERM; echo left >", 0.2)]
)  # fmt: skip
def test_a_daemon_of_nsys_is_let_to_leave_and_killed_if_it_stays(
    daemon: str, grace_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_nsys_process, "_GRACE_S", grace_s)
    shell, pid, left = tmp_path / "nsys-agent", tmp_path / "pid", tmp_path / "left"
    shutil.copy(Path("/bin/sh").resolve(), shell)
    stays = "; while :; do :; done" if grace_s < 1 else ""
    script = f"echo $$ > '{pid}'; {daemon} '{left}'{stays}"
    command = ["/bin/sh", "-c", f'"{shell}" -c "$1" </dev/null >/dev/null 2>&1 & until [ -s "{pid}" ]; do :; done']
    ended = _nsys_process.run(
        [*command, "sh", script], log=tmp_path / "log", environment=os.environ, timeout_s=60.0, on_line=print
    )
    assert ended.code == 0
    assert gone(int(pid.read_text()))
    assert left.exists()


def test_the_worker_ends_with_a_parent_that_is_killed(fake: FakeNsys, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(f"from trtprof.runtime import child\nchild.end_with_parent()\n{WAIT}\n")
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys\nfrom pathlib import Path\nfrom trtprof.capture.nsys import record as nsys\n"
        "nsys.run_profile(nsys.find(), [sys.executable, *sys.argv[1:3]], Path(sys.argv[3]), progress=print)\n"
    )
    environment = {**child.environment(), "TRTPROF_NSYS": str(fake.path)}
    command = [sys.executable, str(parent), str(worker), str(tmp_path / "worker.pid"), str(tmp_path / "nsys")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
    assert gone(worker_pid(tmp_path))


def test_a_worker_that_talks_a_lot_is_relayed_whole(fake: FakeNsys, tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import sys\nfor i in range(20000): print(i); print('e', i, file=sys.stderr)"
    profile = nsys.run_profile(nsys.find(), python(code), tmp_path / "nsys", progress=lines.append)
    assert lines == [*map(str, range(20000)), "nsys writes its report"]
    assert profile.log.read_text().count("\n") > 40000


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


def test_an_export_of_all_tables_to_another_place_replaces_what_is_there(
    report: Path, fake: FakeNsys, tmp_path: Path
) -> None:
    fake.exports("EXPORT_META_DATA")
    output = tmp_path / "elsewhere" / "x.db"
    output.parent.mkdir()
    output.write_text("old")
    assert nsys.export_sqlite(report, nsys.find(), output=output, lazy=False) == output
    assert output.read_bytes().startswith(b"SQLite format 3")
    assert "--lazy=false" in fake.calls()[-1]
    assert left(report) == ["a.b.nsys-rep"]


def test_a_lone_stream_is_exported_through_its_report(report: Path, fake: FakeNsys) -> None:
    stream = report.with_suffix(".qdstrm")
    stream.write_bytes(RECORDED)
    report.unlink()
    fake.importer()
    assert nsys.export_sqlite(stream, nsys.find()).name == "a.b.sqlite"
    assert left(report) == ["a.b.qdstrm", "a.b.sqlite"]
    assert stream.read_bytes() == RECORDED


def test_a_stream_of_another_version_is_refused(report: Path, fake: FakeNsys, tmp_path: Path) -> None:
    stream = report.with_suffix(".qdstrm")
    stream.write_bytes(RECORDED.replace(b"2023.4.4.54", b"2022.4.2.1"))
    FakeNsys(tmp_path / "usual" / "2022", "NVIDIA Nsight Systems version 2022.4.2.1-df9881f")
    fake.importer()
    with pytest.raises(MissingError, match=r"recorded by nsys 2022\.4\.2\.1") as error:
        nsys.export_sqlite(stream, nsys.find())
    assert "usual/2022" in refused(error.value)


def test_a_dump_of_an_exception_is_read_for_its_cause(report: Path, fake: FakeNsys) -> None:
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
    fake.behave(fails="refuse", message=dump.splitlines())
    with pytest.raises(CaptureError) as error:
        nsys.export_sqlite(report, nsys.find())
    assert error.value.why == "Supplied input buffer of size 178 is too small."
    fake.behave(message=["std::exception::what: RuntimeException", "[QuadDCommon::tag_message*] = a told cause", "}"])
    with pytest.raises(CaptureError) as error:
        nsys.export_sqlite(report, nsys.find())
    assert error.value.why == "a told cause"


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        # 2022.4.2 of a report of 2023.4.4
        ("Exportation error: Version number is invalid: 2026@1@4@54-234433681190v0", MissingError,
         ["made by a newer nsys (2026.1.4.54)", "is 2023.4.4.54", "install 2026.1 or newer", "where it was made"]),
        # the library of 2023.4.4, with the numbers of a report that somebody had
        ("Report was created in Nsight Systems version (2026.3.1), newer than your current version (2026.2.1).",
         MissingError, ["made by a newer nsys (2026.3.1)"]),
        ("Exportation error: Cannot read from stream.", UsageError, ["no report of Nsight Systems", "Cannot read"]),
        ("Exportation error: Section Table Reference magic number mismatch.", UsageError, ["cut off"]),
        ("Exportation error: Version number is invalid: hello", UsageError, ["no report of Nsight Systems"]),
        ("Exportation error: Version number is invalid: 2018@1@1@36-1v0", UsageError, ["2018@1@1@36"]),
        ("Exportation error: No space left on device", CaptureError, ["the disk is full"]),
        ("Exportation error: database or disk is full", CaptureError, ["the disk is full"]),
        ("Exportation error: something else", CaptureError, ["something else", "try it by hand"]),
    ],
)  # fmt: skip
def test_an_export_that_is_refused_is_explained(
    message: str, kind: type[TrtprofError], words: list[str], report: Path, fake: FakeNsys
) -> None:
    fake.behave(fails="refuse", message=["Processing 3 events: [==50%   ]", message])
    report.with_suffix(".sqlite").write_text("the one before")
    with pytest.raises(kind) as error:
        nsys.export_sqlite(report, nsys.find())
    told = refused(error.value)
    assert [word for word in words if word not in told] == []
    assert left(report) == ["a.b.nsys-rep", "a.b.sqlite"]
    assert report.with_suffix(".sqlite").read_text() == "the one before"


def test_a_newer_report_names_the_nsys_that_could_read_it(report: Path, fake: FakeNsys, tmp_path: Path) -> None:
    newer = FakeNsys(tmp_path / "usual" / "2026", "NVIDIA Nsight Systems version 2026.2.1.210-1v0")
    fake.behave(fails="refuse", message=["Exportation error: Version number is invalid: 2026@1@4@54-234433681190v0"])
    with pytest.raises(MissingError) as error:
        nsys.export_sqlite(report, nsys.find())
    assert f"{newer.path} (2026.2.1.210)" in error.value.fix


@pytest.mark.parametrize("cut", [0, 50, 4096])
def test_an_export_that_is_not_whole_is_a_full_disk(cut: int, report: Path, fake: FakeNsys) -> None:
    fake.behave(cut=cut)
    with pytest.raises(CaptureError, match="not whole") as error:
        nsys.export_sqlite(report, nsys.find())
    assert "as on a full disk" in refused(error.value)
    assert left(report) == ["a.b.nsys-rep"]


def test_an_export_without_its_last_table_is_not_whole(report: Path, fake: FakeNsys) -> None:
    (fake.folder / "export.sqlite").unlink()
    fake.exports("StringIds")
    with pytest.raises(CaptureError, match="not whole"):
        nsys.export_sqlite(report, nsys.find())
    assert left(report) == ["a.b.nsys-rep"]


def test_an_export_that_hangs_or_is_killed(report: Path, fake: FakeNsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nsys_process, "_GRACE_S", 0.3)
    fake.behave(fails="killed")
    with pytest.raises(CaptureError) as error:
        nsys.export_sqlite(report, nsys.find())
    assert "SIGKILL" in refused(error.value)
    fake.behave(fails="hang")
    with pytest.raises(CaptureError) as error:
        nsys.export_sqlite(report, nsys.find(), timeout_s=0.5)
    assert "did not end within 0.5 s" in refused(error.value)
    assert left(report) == ["a.b.nsys-rep"]


def test_a_report_that_is_not_there(fake: FakeNsys, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="not there") as error:
        nsys.export_sqlite(tmp_path / "x.nsys-rep", nsys.find())
    assert refused(error.value)


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


def test_a_real_nsys_records_the_ranges_of_a_cpu_process(real: nsys.Nsys, recorded: nsys.Profile) -> None:
    assert recorded.report.name == "a 100%.b.nsys-rep"
    assert sorted(path.name for path in recorded.report.parent.iterdir()) == ["a 100%.b.log", "a 100%.b.nsys-rep"]
    counts = {}
    for lazy in (True, False):
        made = nsys.export_sqlite(recorded.report, real, lazy=lazy, timeout_s=120.0)
        with contextlib.closing(sqlite3.connect(made)) as database:
            rows = database.execute(
                "SELECT COALESCE(n.text, s.value), n.start, n.end FROM NVTX_EVENTS n LEFT JOIN StringIds s "
                "ON s.id = n.textId WHERE n.eventType = 59 ORDER BY n.start, n.end DESC"
            ).fetchall()
            (counts[lazy],) = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
        assert [name for name, _, _ in rows] == [name for i in range(5) for name in ("iteration", f"layer {i}")]
        assert all(end - start >= 2_000_000 for _, start, end in rows)
        outer, inner = rows[::2], rows[1::2]
        assert all(o[1] <= i[1] <= i[2] <= o[2] for o, i in zip(outer, inner, strict=True))
    assert counts[False] > counts[True], "tables without rows are left out of a lazy export"


def test_a_real_nsys_knows_the_options_of_its_version(real: nsys.Nsys) -> None:
    for option in (*_nsys_find.OPTIONS, _nsys_find.SOFTWARE_TRACE):
        by_version = real.version >= option.since
        assert real.knows(option) == by_version, f"{option.text} in {real.version_text}"


def test_a_real_nsys_without_a_capture_range_records_nothing(real: nsys.Nsys, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="nsys recorded nothing"):
        nsys.run_profile(real, python(""), tmp_path / "nsys", trace=("nvtx",), timeout_s=120.0)


def test_a_real_nsys_passes_on_how_the_worker_ended(real: nsys.Nsys, tmp_path: Path) -> None:
    for code, words in (("raise SystemExit('own words')", "own words (exit code 1)"),
                        ("import os; os.kill(os.getpid(), 9)", "SIGKILL")):  # fmt: skip
        with pytest.raises(CaptureError, match="under nsys failed") as error:
            nsys.run_profile(real, python(code), tmp_path / "nsys", trace=("nvtx",), whole_run=True, timeout_s=120.0)
        assert words in error.value.why


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
