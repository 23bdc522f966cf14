"""Rules on the command line: listed, explained, silent for a reason, and a reason to fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.stats_factory import write_stats
from tests.fakes.support import ROOT, SAMPLES, captured
from tests.fakes.trace_factory import Layer, Process, Work, write_trace
from trtprof.base.run_folder import RunFolder
from trtprof.capture.nsys.trace import read_trace
from trtprof.diagnose import RULES, THRESHOLDS
from trtprof.engine.inspector import read_layer_info

QUICK = ["--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3"]
EXAMPLE = str(ROOT / "reports" / "example")
LOG = str(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log")
RESNET = str(SAMPLES / "resnet_tiny.onnx")


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


def test_the_list_is_json_too() -> None:
    found = json.loads(trtprof("rules", "--format", "json").stdout)["rules"]
    assert [(row["code"], row["title"], row["order"]) for row in found] == [
        (rule.code, rule.title, rule.order) for rule in RULES.values()
    ]
    assert all(row["summary"] for row in found)


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


def test_a_rule_of_plans_is_listed_and_explained_but_is_no_finding_that_fails_a_command() -> None:
    assert "TC2    tactics that leave the tensor cores idle" in trtprof("rules").stdout
    text = trtprof("rules", "tc2").stdout
    assert "KN702" in text
    assert "Thresholds of every finding" not in text
    refused = trtprof("report", EXAMPLE, "--fail-on", "TC2")
    assert refused.exit_code == 2
    assert "names no finding" in refused.stderr


def test_a_rule_without_thresholds_says_so() -> None:
    assert "Thresholds:\n  none of its own\n" in trtprof("rules", "LY201").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rules", "RL1"], "trtprof rules RL101"),
        (["rules", "--format", "xml"], "rules has no format 'xml'"),
        (["rules", "RL101", "--format", "svg"], "known: csv, html, json, markdown, parquet, text"),
    ],
)
def test_what_there_is_not_is_refused(arguments: list[str], said: str) -> None:
    done = trtprof(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_settings_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\nefficency = 0.4\n")
    for arguments in (["rules", "RL101"], ["run", RESNET], ["analyze", LOG, "--gpu", "rtx-4090"]):
        done = trtprof(*arguments)
        assert done.exit_code == 2, arguments
        assert "no threshold 'efficency'" in done.stderr
        assert "nearest is efficiency" in done.stderr
    assert not (tmp_path / "reports").exists()


# --- --fail-on ---------------------------------------------------------------------------------
# The example has RL102 (13.3 us, warning; of one layer 10.3 us, info), RL101 (4.62 us, info), TR903, TR904 and TR908,
# which doubt the numbers.
WORST = "RL102 (compute-bound op far under peak) at /stage3/block0/relu1/Relu and 2 more Conv, 13.3 us"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["RL101"], "RL101 (memory-bound op far under bandwidth) at /stem/MaxPool, 4.62 us, info"),
        (["rl101", "critical"], "--fail-on rl101: RL101"),
        (["warning"], f"warning: {WORST}"),
        (["info"], f"{WORST}, warning, and 2"),
        (["lost-ms=0.012"], "--fail-on lost-ms=0.012: RL102"),
        (["lost-ms=0"], "and 2 more findings"),
        (["TR903"], "TR903 (noisy measurement) at the whole run, warning"),
    ],
)  # fmt: skip
def test_a_finding_that_was_asked_for_fails_the_command(asked: list[str], said: str) -> None:
    options = [text for value in asked for text in ("--fail-on", value)]
    done = trtprof("report", EXAMPLE, *options)
    assert done.exit_code == 1
    assert done.stdout == trtprof("report", EXAMPLE).stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed by --fail-on ")
    assert said in line


@pytest.mark.parametrize("asked", ["critical", "LY201", "lost-ms=0.1", "lost-ms=1e3"])
def test_no_such_finding_is_no_failure(asked: str) -> None:
    done = trtprof("report", EXAMPLE, "--fail-on", asked)
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("RL999", "--fail-on RL10"),
        ("warnings", "--fail-on warning"),
        ("lost-ms=much", "no time in milliseconds"),
        ("lost-ms=-1", "no time in milliseconds"),
        ("lost-ms=nan", "no time in milliseconds"),
        ("lost=1", "only lost-ms takes a number"),
        ("", "names no finding"),
    ],
)
@pytest.mark.parametrize("command", [["run", "no-such.onnx"], ["analyze", "no-such.json"], ["report", "no-such"]])
def test_what_names_no_finding_is_refused_before_anything_is_read(command: list[str], asked: str, said: str) -> None:
    done = trtprof(*command, "--fail-on", asked)
    assert done.exit_code == 2
    assert said in done.stderr


def test_everything_is_written_all_the_same(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    done = trtprof("report", EXAMPLE, "-o", str(out), "--fail-on", "warning")
    assert done.exit_code == 1
    assert json.loads(out.read_text())["findings"]
    assert f"wrote {out}" in done.stderr


@pytest.mark.usefixtures("quick_runs")
def test_a_run_keeps_its_thresholds_and_fails_when_all_is_written(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\nmin-share = 0.0\nefficiency = 1.0\n")
    folder = tmp_path / "run"
    done = trtprof("run", RESNET, "-o", str(folder), *QUICK, "--quiet", "--fail-on", "lost-ms=0")
    assert done.exit_code == 1, done.output
    assert done.stdout == f"{folder}\n"
    assert "failed by --fail-on lost-ms=0: " in done.stderr
    assert (folder / "report.html").is_file()
    run = RunFolder(folder).report()
    assert "the threshold min-share is 0, by default 0.01" in run.assumptions
    kept = json.loads((folder / "request.json").read_text())["options"]["thresholds"]
    assert json.loads(kept) == {"efficiency": 1.0, "min-share": 0.0}


def test_an_analysis_of_files_fails_too(profile: str, tmp_path: Path) -> None:
    files = ["analyze", LOG, profile, "--gpu", "rtx-4090"]
    out = tmp_path / "report.html"
    done = trtprof(*files, "-o", str(out), "--fail-on", "info")
    assert done.exit_code == 1, done.output
    assert out.is_file()
    assert done.stderr.splitlines()[-1].startswith("failed by --fail-on info: ")
    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\nmin-share = 1.0\n")
    done = trtprof(*files, "--fail-on", "info", "--format", "json")
    assert done.exit_code == 0, done.output
    assert "the threshold min-share is 1, by default 0.01" in json.loads(done.stdout)["assumptions"]


@pytest.mark.parametrize("name", ["torch_rtx3080_2026.1.sqlite", "torch_h100_2gpu_2026.2__cuda_gpu_kern_sum.csv"])
@pytest.mark.parametrize("own", [True, False], ids=["written", "captured"])
def test_a_capture_is_judged_by_the_thresholds_of_the_project(name: str, own: bool, tmp_path: Path) -> None:
    if own:
        path = tmp_path / "run.sqlite"
        write_trace(
            path, [Process(111, (Layer("conv", (Work("kernel", 10_000),)), Layer("relu", (Work("k", 5_000),))))]
        )
        if name.endswith("csv"):
            path = write_stats(read_trace(path), "cuda_gpu_kern_sum", tmp_path / "run_cuda_gpu_kern_sum.csv")
    else:
        path = captured("nsys", name)
    (tmp_path / "pyproject.toml").write_text("[tool.trtprof]\ncoverage = 0.0\n")
    files = ["analyze", str(path), "--gpu", "rtx-3080" if "3080" in name else "h100-sxm"]
    done = trtprof(*files, "--format", "json")
    assert done.exit_code == 0, done.output
    run = json.loads(done.stdout)
    assert "the threshold coverage is 0, by default 0.95" in run["assumptions"]
    done = trtprof(*files, "--explain", "TR902", run["layers"][0]["name"])
    assert "0.0 % are needed" in words(done.stdout)


@pytest.mark.parametrize("option", [["--fail-on", "info"], ["--explain", "RL101", "conv"]])
def test_findings_need_times(option: list[str]) -> None:
    done = trtprof("analyze", LOG, "--gpu", "rtx-4090", *option)
    assert done.exit_code == 2
    assert f"{option[0]} is of no use without times of layers" in done.stderr


# --- --explain ---------------------------------------------------------------------------------


def test_a_rule_says_why_it_was_silent_on_a_layer() -> None:
    done = trtprof("report", EXAMPLE, "--explain", "RL102", "MaxPool")
    assert done.exit_code == 0, done.output
    shown = words(done.stdout)
    assert shown.startswith("RL102 compute-bound op far under peak /stem/MaxPool_output_0_nchwc (MaxPool)")
    assert "silent: the layer is bound by the last-level cache, not by multiply-accumulates" in shown
    assert "other findings that name the layer: RL101 memory-bound op far under bandwidth, 4.62 us, info" in shown
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_an_explanation_is_json_too(tmp_path: Path) -> None:
    done = trtprof("report", EXAMPLE, "--explain", "rl101", "/stem/MaxPool", "--format", "json")
    found = json.loads(done.stdout)
    assert (found["code"], found["outcome"], found["nodes"]) == ("RL101", "claims", ["/stem/MaxPool"])
    assert [finding["code"] for finding in found["findings"]] == ["RL101"]
    out = tmp_path / "why.json"
    assert trtprof("report", EXAMPLE, "--explain", "rl101", "/stem/MaxPool", "-o", str(out)).exit_code == 0
    assert out.read_text() == done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["RL999", "MaxPool"], "there is no rule 'RL999'"),
        (["RL101", "conv2"], "6 layers are called 'conv2'"),
        (["RL101", "/stem/MaxPol"], "the nearest: /stem/MaxPool"),
        (["RL101", "MaxPool", "--format", "svg"], "svg is not for this report"),
        (["RL101", "MaxPool", "-o", "why.svg"], "why.svg says no format"),
    ],
)
def test_an_explanation_of_what_there_is_not_is_refused(options: list[str], said: str) -> None:
    done = trtprof("report", EXAMPLE, "--explain", *options)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_did_not_finish_cannot_be_explained(tmp_path: Path) -> None:
    done = trtprof("report", str(tmp_path), "--explain", "RL101", "conv")
    assert done.exit_code == 3
    assert "request.json" in done.stderr


def test_an_analysis_of_files_explains_too(profile: str, tmp_path: Path) -> None:
    layer = read_layer_info(Path(LOG)).layers[0].name
    out = tmp_path / "why.json"
    done = trtprof(
        "analyze", LOG, profile, "--gpu", "rtx-4090", "--explain", "HO502", layer, "--format", "json", "-o", str(out)
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["layer"], found["outcome"]) == (layer, "silent")
    assert "copies of inputs and outputs: 0 ns" in found["why"]
    assert json.loads(out.read_text()) == found


# --- in the help -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "analyze", "report"])
def test_the_help_spells_it_out(command: str) -> None:
    shown = words(trtprof(command, "--help").stdout)
    assert "--fail-on WHAT Leave with exit code 1" in shown
    for word in ("RL101", "info, warning, critical", "lost-ms=0.5", "count by code alone"):
        assert word in shown
    assert ("--explain CODE LAYER" in shown) == (command != "run")
