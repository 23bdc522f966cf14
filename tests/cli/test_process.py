"""What a command is as a process: pipes, full disks, limits, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.fakes.every_verb import command, environment, fill
from tests.fakes.support import fixed_ceilings
from trtprof.base.records import Measurement
from trtprof.base.run_folder import RunFolder
from trtprof.cli.output import StageLines
from trtprof.hardware.calibrate import needed_ceilings
from trtprof.hardware.store import of_host

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

LINES = (
    ("trtprof rules | true", 0, ""),
    ("trtprof inspect gemv.onnx 2>&1 | true", 0, ""),
    ("trtprof gpus l4 > /dev/full", 3, "error: stdout cannot be written\n  why: No space left on device"),
    ("trtprof --version > /dev/full", 3, "error: stdout cannot be written"),
    ("trtprof gpus l4 -o l4.json 2>&- >&-", 0, ""),
    ("trtprof gpus nope 2> /dev/full", 2, ""),
    ("ulimit -f 0; trtprof inspect gemv.onnx -o gemv.json", 3, "error: gemv.json cannot be written\n  why: File too"),
    ("trtprof gpus -o $(printf '%0300d' 7).json", 3, "File name too long"),
    ("trtprof kernel - < /dev/zero", 2, "error: stdin holds too much"),
    ("mkdir gone; cd gone; rmdir ../gone; trtprof run ../gemv.onnx", 3, "error: the working folder is gone"),
    ("PYTHONOPTIMIZE=2 trtprof rules", 2, "error: Python was started without docstrings (-OO)"),
)


@pytest.mark.process
def test_whatever_becomes_of_the_streams_it_is_no_traceback(tmp_path: Path, subtests: pytest.Subtests) -> None:
    fill(tmp_path)
    for line, code, said in LINES:
        with subtests.test(line):
            words = f'set -o pipefail; trtprof() {{ {" ".join(command())} "$@"; }}; {line}'
            done = subprocess.run(["bash", "-c", words], cwd=tmp_path, env=environment(tmp_path, tmp_path), check=False,
                                  capture_output=True, text=True, timeout=60)  # fmt: skip
            assert done.returncode == code, done.stderr
            assert said in done.stderr
            assert said or not done.stderr
            assert "Traceback" not in done.stderr
    assert not (tmp_path / "gemv.json").exists()
    assert (tmp_path / "l4.json").read_bytes().startswith(b"{")


@pytest.mark.process
def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "onnx.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    found = environment(tmp_path, tmp_path)
    found["PYTHONPATH"] = os.pathsep.join((str(tmp_path), found["PYTHONPATH"]))
    done = subprocess.run(command("inspect", "a.onnx"), env=found, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped by Ctrl-C\n")


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    """A run in a session of its own, once its worker measures."""
    found = environment(folder, folder, TRTPROF_CACHE_DIR=str(folder / "cache"))
    shelf = of_host(0, cache_dir=folder / "cache")
    needed = dict.fromkeys(needed_ceilings([]), Measurement(value=1.0, unit="ns", what="a test", repeats=1))
    shelf.write(
        msgspec.structs.replace(fixed_ceilings(), measurements=needed, fp32_flops_by_threads={"2": 5e11}), print
    )
    words = command("run", "resnet_tiny.onnx", "-o", "made", "--duration", "2", "--profile-iterations", "3", *more)
    process = subprocess.Popen(words, cwd=folder, env=found, start_new_session=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    until = time.monotonic() + 60
    while not any("trtprof.capture" in line for line in session(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    return process


def session(number: int) -> list[str]:
    """The command lines of the processes of a session."""
    done = subprocess.run(["ps", "-o", "stat=,args=", "-s", str(number)], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if not line.startswith("Z")]


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_is_ended_leaves_whole_files_and_is_resumed(number: signal.Signals, tmp_path: Path) -> None:
    fill(tmp_path)
    folder = RunFolder(tmp_path / "made")
    with started(tmp_path) as process:
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert said.splitlines()[-3:] == [
            f"stopped by {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}",
            "  kept: source in made",
            "  go on: the same command with -o made --resume",
        ]
        assert not list(tmp_path.glob("trtprof-*"))
    for name in ("request.json", "source.json", "device.json"):
        assert folder.read(name, dict)
    assert not {"capture.json", "latency.parquet", "report.json"} & {path.name for path in folder.path.iterdir()}
    until = time.monotonic() + 10
    while session(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert session(process.pid) == []
    if number == signal.SIGKILL:
        with started(tmp_path, "--resume") as again:
            assert again.wait(timeout=60) == 0
        assert folder.report().verdict


def test_what_stages_tell_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with StageLines(verbose=True) as progress:
        progress.stage("engine")
        progress.detail("layer \x1b]0;owned\x07 \udcff of 3")
        progress.note("a note\x1b[2J")
    said = capsys.readouterr().err
    assert not {"\x1b", "\x07"} & set(said)
    assert said.count("layer \\x1b]0;owned\\x07 \\udcff of 3") == 2
