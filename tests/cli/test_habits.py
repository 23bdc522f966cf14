"""Narrow terminals, completion, and the names of the package."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import ROOT, SAMPLES
from trtprof.cli import app, completion, load_commands, output
from trtprof.cli.output import StageLines, fitted
from trtprof.hardware import gpus

GEMV, RESNET = str(SAMPLES / "gemv.onnx"), str(SAMPLES / "resnet_tiny.onnx")


# --- narrow terminals ---------------------------------------------------------------------------------


class Terminal:
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 60 columns."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    return Terminal()


def test_messages_break_between_words_at_60_columns_and_lose_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/somewhere/" + "deep/" * 14 + "model.onnx"
    said = (
        "error: --optShapes is of no use with the backend ort-cpu, which runs on the CPU alone\n"
        "  why: ort-cpu takes shapes as they are and builds no engine for a range of them\n"
        f"  fix: trtprof run {path} --backend tensorrt-rtx --optShapes=image:1x3x224x224"
    )
    monkeypatch.setattr(sys, "stderr", terminal)
    output.say(said)
    lines = terminal.written.splitlines()
    assert terminal.written.split() == said.split()
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 60] == ["    " + path]
    starts = [line[:6] for line in lines if line[:6].strip() in ("error:", "why:", "fix:")]
    assert starts == ["error:", "  why:", "  fix:"]
    assert all(line.startswith("  ") for line in lines[1:])


def test_the_line_of_a_stage_is_whole_on_a_narrow_terminal(terminal: Terminal) -> None:
    stages = StageLines(stream=terminal)  # type: ignore[arg-type]
    stages._live = False
    detail = "assumed: image batch=1, height=48, width=320, because the model leaves them open and LSTM needs them so"
    stages.stage("source")
    stages.detail(detail)
    stages.stage("engine")
    assert terminal.written.split()[-len(detail.split()) :] == detail.split()
    assert all(len(line) <= 60 for line in terminal.written.splitlines())
    assert all(line.startswith(" " * 20) for line in terminal.written.splitlines()[1:])


def test_a_log_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    line = "word " * 40
    assert fitted(line, sys.stderr) == line


def test_numbers_are_whole_on_60_columns() -> None:
    """Columns without room go below or are named; only names and prose lose characters."""
    for command in (("inspect", RESNET), ("predict", RESNET, "--gpu", "l4,rtx-4090")):
        shown = trtprof(*command, COLUMNS="60").stdout.splitlines()
        assert all(len(line) <= 60 for line in shown)
        starts = ("GPU ", "l4 ", "rtx-4090 ", "op ", "Conv ", "work ")
        assert sum(line.startswith(starts) for line in shown) >= 3
        assert not [line for line in shown if line.startswith(starts) and "…" in line]


# --- without the right command ------------------------------------------------------------------------


MEANT = (
    (("--onnx=m.onnx", "--fp16"), "trtprof run --onnx=m.onnx --fp16"),
    (("--loadEngine=a b.plan",), "trtprof run '--loadEngine=a b.plan'"),
    (("m.onnx", "--fp16"), "trtprof run m.onnx --fp16"),
    (("m.plan",), "trtprof run MODEL --loadEngine=m.plan"),
    (("profile", "m.onnx"), "trtprof run m.onnx"),
    (("diff", "a", "b"), "trtprof compare a b"),
    (("run", "--loadEngine=m.plan"), "trtprof run model.onnx --loadEngine=m.plan"),
    (("predict", "m.onnx", "--best"), "these take it: run, build fix: leave it away"),
    (("inspect", "m.onnx", "--useDLACore=0"), "profiles GPUs, and knows no DLA fix: leave it away"),
)


def test_what_was_meant_is_said(subtests: pytest.Subtests) -> None:
    for words, fix in MEANT:
        with subtests.test(" ".join(words)):
            assert fix in refused(trtprof(*words))


def test_raw_inputs_of_trtexec_are_answered_with_what_makes_arrays_of_them(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"abcd")
    said = refused(trtprof("run", RESNET, f"--loadInputs=image:{tmp_path / 'x.bin'}"))
    assert f"numpy.fromfile('{tmp_path / 'x.bin'}', 'float32').reshape(-1, 3, 64, 64)" in said


# --- completion ---------------------------------------------------------------------------------------


def offered(*words: str, cwd: Path = ROOT) -> list[str]:
    """What bash is told to offer behind the words."""
    found = {
        "_TRTPROF_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["trtprof", *words]),
        "COMP_CWORD": str(len(words)),
    }
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, [], prog_name="trtprof", env=found)
    return done.stdout.split()


OFFERED = (
    (("predict", "m.onnx", "--gpu", "rtx-40"), {"rtx-4090", "rtx-4060"}),
    (("predict", "m.onnx", "--gpu", "l4,rtx-409"), {"l4,rtx-4090"}),
    (("gpus", "a100"), {"a100-pcie-80gb"}),
    (("run", "m.onnx", "--backend", "ort"), {"ort-cpu", "ort-cuda"}),
    (("build", "m.onnx", "--backend", "te"), {"tensorrt", "tensorrt-rtx"}),
    (("run", "m.onnx", "--dtype", "fp"), {"fp32", "fp16", "fp8"}),
    (("rules", "KN7"), {"KN701"}),
    (("run", "m.onnx", "--fail-on", "c"), {"critical"}),
    (("run", "m.onnx", "--collector", "n"), {"nsys"}),
    (("inspect", "m.onnx", "--dtype", "b"), {"bf16"}),
    (("report", "r", "--explain", "RL"), {"RL101"}),
    (("report", "r", "--by", "m"), {"module"}),
    (("report", "r", "--table", "k"), {"kernels"}),
    (("report", "r", "--figure", "l"), {"ledger"}),
    (("rules", "--format", "m"), {"markdown"}),
    (("predict", "m.onnx", "--level", "g"), {"groups"}),
    (("predict", "m.onnx", "--accumulate", "f"), {"fp16", "fp32"}),
    (("gpus", "--class", "g"), {"geforce"}),
    (("sweep", "ge"), {"gemm", "gemv"}),
    (("help", "tr"), {"trust"}),
)


def test_the_shell_offers_values(subtests: pytest.Subtests) -> None:
    load_commands()
    for words, some in OFFERED:
        with subtests.test(" ".join(words)):
            found = offered(*words)
            assert some <= set(found)
            assert all(each.startswith(words[-1]) for each in found)


def test_the_shell_offers_run_folders_newest_first(tmp_path: Path) -> None:
    for age, name in enumerate(("b", "a", "unfinished")):
        folder = tmp_path / "reports" / name
        folder.mkdir(parents=True)
        if name != "unfinished":
            (folder / "report.json").touch()
        os.utime(folder, (1000 - age, 1000 - age))
    assert offered("report", "''", cwd=tmp_path)[:2] in ([], ["reports/b", "reports/a"])
    assert offered("report", "rep", cwd=tmp_path) == ["reports/b", "reports/a"]
    assert offered("compare", "reports/b", "reports/b,reports/a", cwd=tmp_path) == ["reports/b,reports/a"]


def test_what_is_offered_is_what_there_is() -> None:
    from trtprof.engine.backends import backends

    assert set(completion.BACKENDS) == {"auto", *(status.name for status in backends())}
    assert set(completion.gpus("")) == set(gpus.specs())


# --- help ---------------------------------------------------------------------------------------------


# --- the package ----------------------------------------------------------------------------------------


def test_the_wheel_installs_one_package_and_leaves_the_name_profiler_to_its_user(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed").WheelBuilder
    (made,) = builder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(made) as wheel:
        top = {name.partition("/")[0] for name in wheel.namelist()}
    assert "trtprof" in top
    assert {name for name in top if not name.startswith("trtprof")} == set()
