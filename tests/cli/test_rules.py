"""Rules on the command line: listed, explained, silent for a reason, and a reason to fail."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.support import ROOT, SAMPLES
from trtprof.base.records import Finding
from trtprof.base.run_folder import REPORT, RunFolder
from trtprof.diagnose import RULES, THRESHOLDS
from trtprof.engine.inspector import read_layer_info

QUICK = ["--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3"]
EXAMPLE = ROOT / "reports" / "example"
LOG = str(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log")
RESNET = str(SAMPLES / "resnet_tiny.onnx")
LSTM = str(SAMPLES / "lstm.onnx")  # Whatever the machine does, it has a cause, ST804


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thresholds of a project are those of the working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """20 us for every layer of the plan in the log."""
    path = tmp_path / "profile.json"
    rows = [{"name": layer.name, "averageMs": 0.02, "medianMs": 0.02} for layer in read_layer_info(Path(LOG)).layers]
    path.write_text(json.dumps([{"count": 100}, *rows]))
    return str(path)


# --- rules -------------------------------------------------------------------------------------


def test_rules_are_listed_with_title_order_and_their_first_words() -> None:
    head, *lines, hidden = trtprof("rules").stdout.splitlines()
    assert head.split() == ["code", "title", "what", "it", "finds"]
    assert hidden == "not shown: order"
    assert len(lines) == len(RULES.keys())
    for line, rule in zip(lines, RULES.values(), strict=True):
        assert len(line) <= 80
        assert line.startswith(f"{rule.code:<5}  {rule.title[:40]}")
        assert rule.doc.startswith(line[head.index("what") :].rstrip("…"))
    wide = trtprof("rules", COLUMNS="120").stdout.splitlines()
    assert [
        int(line.split()[len(f"{rule.code} {rule.title}".split())])
        for line, rule in zip(wide[1:], RULES.values(), strict=True)
        if rule.title in line
    ]


def test_a_rule_says_its_thresholds_and_where_they_come_from(tmp_path: Path) -> None:
    plain = words(trtprof("rules", "rl101").stdout)
    assert "efficiency = 0.5 (the default) Attainable / measured under which" in plain
    assert "NeuSight, ASPLOS 2025" in plain
    assert "Thresholds of every finding: min-share = 0.01 (the default)" in plain
    assert "coverage = " not in plain

    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\nefficiency = 0.4\n")
    own = trtprof("rules", "RL101").stdout
    assert f"efficiency = 0.4  (by default 0.5; from {tmp_path / 'pyproject.toml'})" in own
    assert all(len(line) <= 80 for line in own.splitlines() if str(tmp_path) not in line)

    (found,) = json.loads(trtprof("rules", "RL101", "--format", "json").stdout)["rules"]
    efficiency, of_datasheet = found["thresholds"]
    assert efficiency["value"] == 0.4
    assert efficiency["default"] == THRESHOLDS.efficiency
    assert efficiency["from"] == str(tmp_path / "pyproject.toml")
    assert (of_datasheet["name"], of_datasheet["from"]) == ("of-datasheet", "default")
    assert set(found) >= {"code", "title", "order", "what", "why", "try", "thresholds_of_every_finding"}


def test_bad_settings_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\nefficency = 0.4\n")
    for arguments in (["rules", "RL101"], ["run", RESNET], ["analyze", LOG, "--gpu", "rtx-4090"]):
        done = trtprof(*arguments)
        assert done.exit_code == 2, arguments
        assert "no threshold 'efficency'" in done.stderr
        assert "nearest is efficiency" in done.stderr
    assert not (tmp_path / "reports").exists()


# --- --fail-on ---------------------------------------------------------------------------------
PLACE = "/stem/Relu"
WORST = f"RL102 (compute-bound op far under peak) at {PLACE}, 4.19 us"


@pytest.fixture
def found(tmp_path: Path) -> str:
    """The example, with one finding."""
    folder = RunFolder(Path(shutil.copytree(EXAMPLE, tmp_path / "run")))
    run = folder.report()
    one = Finding(
        code="RL102", title="compute-bound op far under peak", severity="info", where=PLACE, evidence="", try_="",
        lost_ns=4_190, confidence=0.7, layers=(run.layers[0].name,),
    )  # fmt: skip
    folder.write(REPORT, msgspec.structs.replace(run, findings=(one,)))
    return str(folder.path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["RL102"], f"{WORST}, info"),
        (["rl102", "critical"], "--fail-on rl102: RL102"),
        (["info"], f"info: {WORST}"),
        (["lost-ms=0.004"], "--fail-on lost-ms=0.004: RL102"),
        (["lost-ms=0"], f"--fail-on lost-ms=0: {WORST}"),
    ],
)  # fmt: skip
def test_a_finding_that_was_asked_for_fails_the_command(asked: list[str], said: str, found: str) -> None:
    options = [text for value in asked for text in ("--fail-on", value)]
    done = trtprof("report", found, *options)
    assert done.exit_code == 1
    assert done.stdout == trtprof("report", found).stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed by --fail-on ")
    assert said in line


@pytest.mark.usefixtures("quick_runs")
def test_a_run_keeps_its_thresholds_and_fails_when_all_is_written(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\nmin-share = 0.0\nefficiency = 1.0\n")
    folder = tmp_path / "run"
    done = trtprof("run", LSTM, "-o", str(folder), *QUICK, "--quiet", "--fail-on", "lost-ms=0")
    assert done.exit_code == 1, done.output
    assert done.stdout == f"{folder}\n"
    assert "failed by --fail-on lost-ms=0: " in done.stderr
    assert (folder / "report.html").is_file()
    run = RunFolder(folder).report()
    assert "the threshold min-share is 0, by default 0.01" in run.assumptions
    kept = json.loads((folder / "request.json").read_text())["options"]["thresholds"]
    assert json.loads(kept) == {"efficiency": 1.0, "min-share": 0.0}


# --- --explain ---------------------------------------------------------------------------------


# --- in the help -------------------------------------------------------------------------------
