"""What a command is as a process: streams that break or are closed, words that are no text, signals, few files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from shellingham import ShellDetectionFailure  # type: ignore[import-untyped]

from tests.fakes.every_verb import QUICK, command, environment, fill
from trtprof.cli import main
from trtprof.cli.output import StageLines

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("work")
    fill(made)
    return made


def shell(folder: Path, words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A command as a shell starts it: ``trtprof gpus >&-``."""
    line = words.replace("trtprof", " ".join(command()))
    return subprocess.run(["sh", "-c", line], cwd=folder, env=environment(folder, folder, **more), check=False,
                          capture_output=True, timeout=60)  # fmt: skip


# --- streams --------------------------------------------------------------------------------------------

LOST = (
    "trtprof --help > /dev/full",
    "trtprof run --help > /dev/full",
    "trtprof --version > /dev/full",
    "trtprof --version >&-",
    "trtprof gpus l4 >&-",
    "trtprof gpus l4 --format json > /dev/full",
    "trtprof gpus l4 --format parquet > /dev/full",
    "trtprof report run --format html <&- >&-",
)


@pytest.mark.parametrize("words", LOST)
def test_a_result_that_cannot_be_written_is_one_error(words: str, folder: Path) -> None:
    done = shell(folder, words)
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: stdout cannot be written\n  why: ")
    assert done.stderr.count(b"error") == 1
    assert b"Traceback" not in done.stderr


def test_a_finished_run_is_named_though_its_summary_cannot_be_written(folder: Path) -> None:
    done = shell(folder, f"trtprof run resnet_tiny.onnx -o whole {' '.join(QUICK)} > /dev/full")
    assert done.returncode == 3
    assert b"error: stdout cannot be written\n" in done.stderr
    assert b"\n  wrote whole, with the whole run: trtprof report whole\n" in done.stderr


def test_an_engine_larger_than_files_may_be_is_no_fault_of_the_model(folder: Path) -> None:
    done = shell(folder, f"ulimit -f 400; trtprof run resnet_tiny.onnx -o large {' '.join(QUICK)}")
    assert done.returncode == 3
    assert b"error: a file cannot be written\n" in done.stderr
    assert b"ulimit -f unlimited" in done.stderr


@pytest.mark.parametrize("to", ["2>&-", "2>/dev/full", "<&- 2>&-"])
@pytest.mark.parametrize(("words", "code"), [("gpus l4 -o l4.json --force", 0), ("nope", 2), ("gpus nope", 2)])
def test_talk_that_nobody_hears_is_no_failure(words: str, code: int, to: str, folder: Path) -> None:
    done = shell(folder, f"trtprof {words} {to}")
    assert (done.returncode, done.stderr) == (code, b"")
    assert code or b"l4" in done.stdout
    assert code or (folder / "l4.json").read_bytes().startswith(b"{")


def test_a_file_never_takes_the_number_of_a_stream_that_is_closed(folder: Path) -> None:
    done = shell(folder, "trtprof inspect gemv.onnx -o gemv.json <&- >&- 2>&-")
    assert done.returncode == 3
    assert not (folder / "gemv.json").exists() or (folder / "gemv.json").read_bytes().startswith(b"{")


def test_a_stream_without_an_end_is_not_read_for_ever(folder: Path) -> None:
    done = shell(folder, "trtprof kernel - < /dev/zero")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: stdin holds too much")


@pytest.mark.parametrize("word", ["--show-completion", "--install-completion"])
@pytest.mark.parametrize("found", [ShellDetectionFailure(), ("dash", "/bin/dash")], ids=["none", "dash"])
def test_what_cannot_be_completed_in_is_an_error(
    word: str, found: Exception | tuple[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["trtprof", word])
    monkeypatch.setattr("shellingham.detect_shell", Mock(side_effect=[found] * 2))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capfd.readouterr().err.startswith("error: ")


def test_a_shell_that_is_named_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr("sys.argv", ["trtprof", "--show-completion", "bash"])
    monkeypatch.setattr("shellingham.detect_shell", Mock(side_effect=ShellDetectionFailure()))
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, capfd.readouterr().err) == (0, "")


# --- text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["kernel", b"sgemm_\xff"], ["gpus", "-o", b"\xff.json"], [b"\xff"]])
def test_words_that_are_no_utf_8_are_refused(words: list[str | bytes], folder: Path) -> None:
    line = [*command(), *words]
    done = subprocess.run(line, cwd=folder, env=environment(folder, folder), capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"is no UTF-8\n  why: " in done.stderr


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_a_locale_of_ascii_has_utf_8_all_the_same(locale: str, folder: Path) -> None:
    shutil.copy(folder / "gemv.onnx", folder / "naïve名.onnx")
    told = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(folder, "trtprof inspect naïve名.onnx -o naïve名.json --force --format json", **told)
    assert done.returncode == 0
    assert "naïve名".encode() in done.stdout
    assert (folder / "naïve名.json").is_file()


def test_texts_are_there_though_python_is_to_leave_docstrings_out(folder: Path) -> None:
    words = "trtprof rules RL101 && trtprof run --help"
    assert shell(folder, words, PYTHONOPTIMIZE="2").stdout == shell(folder, words).stdout
    line = command("rules")
    done = subprocess.run([line[0], "-OO", *line[1:]], cwd=folder, env=environment(folder, folder, PYTHONOPTIMIZE="2"),
                          check=False, capture_output=True, timeout=60)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: Python was started without docstrings (-OO)\n  why: ")


def test_what_stages_tell_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with StageLines(verbose=True) as progress:
        progress.stage("engine")
        progress.detail("layer \x1b]0;owned\x07 \udcff of 3")
        progress.note("a note\x1b[2J")
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\x07" not in said
    assert said.count("layer \\x1b]0;owned\\x07 \\udcff of 3") == 2


def test_a_name_that_no_file_can_have_is_an_error_with_what_to_do(folder: Path) -> None:
    done = shell(folder, f"trtprof report run -o {'é' * 200}")
    assert done.returncode == 3
    assert done.stderr.endswith(b"  why: File name too long\n  fix: choose a shorter name\n")


@pytest.mark.parametrize(
    ("name", "after", "code", "said"),
    [
        ("gone", "rmdir ../gone", 3, b"error: the working folder is gone"),
        ("$(printf 'x\\377')", "true", 2, b"error: a name is no UTF-8"),
    ],
)
def test_a_working_folder_that_is_gone_or_no_text_is_an_error(
    name: str, after: str, code: int, said: bytes, folder: Path
) -> None:
    words = f"run {folder}/gemv.onnx --duration 0 --iterations 1"
    done = shell(folder, f'mkdir "{name}"; cd "{name}"; {after}; trtprof {words}')
    assert done.returncode == code
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


# --- limits ---------------------------------------------------------------------------------------------


def test_with_few_files_a_command_works_or_says_so(folder: Path) -> None:
    done = shell(folder, "ulimit -n 16; trtprof inspect gemv.onnx")
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: too few files may be open at once: 16")
    assert shell(folder, "ulimit -n 32; trtprof inspect gemv.onnx").returncode == 0
    assert shell(folder, "ulimit -S -n 16; trtprof inspect gemv.onnx").returncode == 0, "it may allow itself more"


def test_with_a_small_stack_a_command_says_so_before_threads_crash(folder: Path) -> None:
    done = shell(folder, "ulimit -S -s 192; trtprof --version")
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: the stack may be too small: 192 kB")
    assert shell(folder, "ulimit -S -s 256; trtprof --version").returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else tells what a process has taken")
@pytest.mark.parametrize(("words", "code"), [("run resnet_tiny.onnx -o made", 3), ("kernel sgemm", 0)])
def test_with_little_memory_a_command_says_so_before_libraries_hang(words: str, code: int, folder: Path) -> None:
    done = shell(folder, f"ulimit -v {300 << 10}; trtprof {words}")
    assert done.returncode == code
    if code:
        said = done.stderr.decode()
        assert said.count("error: not enough memory\n  why: ") == 1
        assert "Traceback" not in said
        assert "OpenBLAS" not in said


# --- signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP"),
                                              (signal.SIGINT, "Ctrl-C")], ids=str)  # fmt: skip
def test_a_command_that_is_ended_ends_its_children_and_says_what_is_kept(
    number: signal.Signals, name: str, folder: Path, tmp_path: Path
) -> None:
    words = command("run", "resnet_tiny.onnx", "-o", str(tmp_path / "made"), "--duration", "60")
    # Tests may be run where it is ignored: in the background, under nohup.
    process = subprocess.Popen(words, cwd=folder, env=environment(folder, tmp_path), start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # noqa: PLW1509  # fmt: skip
    until = time.monotonic() + 60
    while "trtprof.capture" not in " ".join(_commands(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    lines = said.splitlines()
    assert f"stopped by {name}" in lines
    assert lines[-2].startswith("  kept: ")
    assert lines[-1].startswith("  go on: ")
    until = time.monotonic() + 10
    while _commands(process.pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert _commands(process.pid) == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "made"] == []


def _commands(session: int) -> list[str]:
    """The command lines of the processes of a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, each = (place / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(each) == session and state != "Z":
                found.append((place / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has just ended
            continue
    return found


DROPPING = """
import signal, time, weakref
from trtprof import cli
from trtprof.cli import process

class Writer:
    def __del__(self):
        signal.raise_signal({number})

def in_del():
    Writer()

def in_a_callback():
    writer = type("Writer", (), dict())()
    watched = weakref.ref(writer, lambda _: signal.raise_signal({number}))
    del writer

def command():
    {where}()
    time.sleep(30)

cli.load_commands = lambda _: None
cli.app = command
from trtprof.__main__ import main
main()
"""


@pytest.mark.parametrize("where", ["in_del", "in_a_callback"])
@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")], ids=str)
def test_a_signal_that_comes_where_python_drops_what_is_raised_ends_the_command_too(
    number: signal.Signals, name: str, where: str, folder: Path
) -> None:
    program = DROPPING.format(number=int(number), where=where)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(folder, folder), capture_output=True, text=True, timeout=40,
        check=False, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (128 + number, f"stopped by {name}\n")


INSIDE_EXEC = """
import signal
from trtprof import cli

def command():
    exec("signal.raise_signal({number})")

cli.load_commands = lambda _: None
cli.app = command
from trtprof.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_signal_inside_of_a_text_that_is_executed_has_its_exit_code(number: signal.Signals, folder: Path) -> None:
    """``python -m`` looks whether one was interrupted, though that was caught long since."""
    (folder / "stopped.py").write_text(INSIDE_EXEC.format(number=int(number)))
    found = environment(folder, folder)
    found["PYTHONPATH"] = os.pathsep.join((str(folder), found.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "stopped"], env=found, capture_output=True, text=True, timeout=40, check=False,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    assert done.returncode == 128 + number, done.stderr


def _catches(pid: int, number: signal.Signals) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else tells what signals a process listens to")
def test_what_is_ignored_stays_so(folder: Path) -> None:
    """As under nohup: the terminal is closed, and the command goes on."""
    code = "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({0!r}, {1!r})"
    watched = command("kernel", "-")
    process = subprocess.Popen(
        [sys.executable, "-c", code.format(watched[0], watched)], cwd=folder, env=environment(folder, folder),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    while not _catches(process.pid, signal.SIGTERM) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(b"ampere_sgemm_128x64_tn\n", timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"ampere_sgemm_128x64_tn" in out
