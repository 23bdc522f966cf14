"""The command line as a person uses it: what is printed where, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.in_process import quick
from tests.fakes.schemas import schema
from tests.fakes.support import ROOT, SAMPLES
from trtprof.base import run_folder
from trtprof.base.progress import Line
from trtprof.cli import output
from trtprof.cli.output import StageLines, left_words

pytestmark = pytest.mark.usefixtures("quick_runs")
QUICK = ["--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3"]
RESNET = str(SAMPLES / "resnet_tiny.onnx")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that tests may read."""
    out = tmp_path_factory.mktemp("runs") / "resnet"
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        done = trtprof("run", RESNET, "-o", str(out), *QUICK)
    assert done.exit_code == 0, done.output
    return out


def test_help_is_light() -> None:
    """It must answer in 0.3 s, which rules out pandas, onnx, numpy, rich and msgspec at import."""
    code = (
        "import sys\nfrom trtprof.cli import load_commands\nload_commands()\n"
        "print(*sorted({'pandas', 'onnx', 'numpy', 'rich', 'pyarrow', 'onnxruntime', 'jinja2'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""


def test_a_command_loads_no_file_of_another_one() -> None:
    code = (
        "import sys\nfrom trtprof.cli import _ORDER, main\nsys.argv = ['trtprof', 'rules', 'LA401']\n"
        "try:\n    main()\nfinally:\n"
        "    print(*(name for name in _ORDER if f'trtprof.cli.{name}' in sys.modules), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "LA401" in found.stdout
    assert found.stderr.split() == ["rules"]


def test_help_lists_commands_and_exit_codes() -> None:
    shown = trtprof("--help")
    assert shown.exit_code == 0
    for word in ("run", "inspect", "report", "rules", "doctor", "130 stopped by Ctrl-C"):
        assert word in shown.stdout


def test_run_prints_the_report_on_stdout_and_talks_on_stderr(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = trtprof("run", RESNET, "-o", str(out), *QUICK)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    # A path is not cut, nor is a command.
    assert max(len(line) for line in lines[:-1] if not line.lstrip().startswith("trtprof try ")) <= 80
    assert lines[0].startswith("resnet_tiny   image 1x3x64x64 fp32")
    assert {line[:10].strip() for line in lines} >= {"ASSUMED", "TRUST", "MEASURED", "ESTIMATE", "KERNEL?", "IGNORED"}
    assert lines[-1] == f"page      {out}/report.html", "a path is not cut"
    # What is assumed of the model comes first, in whole sentences.
    talk = [line for line in done.stderr.splitlines() if not line.startswith(("assumed: ", "  "))]
    assert done.stderr.startswith("assumed: ")
    assert [line.split()[0] for line in talk[:4]] == ["source", "capture", "ceilings", "analysis"]
    assert talk[-2].startswith(f"wrote {out}")
    assert talk[-1].startswith(("next: trtprof try ", "next: trtprof report "))


def test_json_is_one_valid_document_and_nothing_else(tmp_path: Path) -> None:
    done = trtprof("run", "--onnx", RESNET, "-o", str(tmp_path / "run"), "--format", "json", "--batch", "2", *QUICK)
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert document["model"]["inputs"][0]["shape"] == [2, 3, 64, 64]
    assert "NaN" not in done.stdout
    keys = {"schema_version", "model", "backend", "device", "versions", "latency", "coverage", "ledger", "layers",
            "findings", "unsupported"}  # fmt: skip
    assert keys <= set(document)
    assert {"median_ns", "p99_ns", "cv", "n"} <= set(document["latency"])
    row = {"name", "nodes", "kernels", "measured_ns", "ideal_ns", "attainable_ns", "lost_ns", "bound", "flops", "bytes"}
    assert row <= set(document["layers"][0])
    for finding in document["findings"]:
        assert {"code", "severity", "where", "evidence", "lost_ns", "confidence", "try"} <= set(finding)


def test_quiet_prints_the_folder_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = trtprof("run", RESNET, "-q", "-o", str(out), *QUICK)
    assert (done.stdout, done.stderr) == (f"{out}\n", "")


def test_trtexec_spellings_are_accepted(tmp_path: Path) -> None:
    arguments = ["--shapes=image:3x3x64x64", "--iterations=4", "--warmUp=1", "--duration=0", "--threads=1"]
    done = trtprof("run", f"--onnx={RESNET}", *arguments, "-o", str(tmp_path / "run"), "--profile-iterations=3")
    assert done.exit_code == 0
    run = run_folder.RunFolder(tmp_path / "run").report()
    assert run.model.inputs[0].shape == (3, 3, 64, 64)
    assert run.latency.n >= 4


def test_report_renders_each_format_from_the_folder(finished: Path, tmp_path: Path) -> None:
    assert trtprof("report", str(finished)).stdout.startswith("resnet_tiny")
    document = json.loads(trtprof("report", str(finished), "--format", "json").stdout)
    assert (finished / "report.json").read_text() == trtprof("report", str(finished), "--format", "json").stdout
    rows = list(csv.DictReader(io.StringIO(trtprof("report", str(finished), "--format", "csv").stdout)))
    assert [row["name"] for row in rows] == [layer["name"] for layer in document["layers"]]
    page = tmp_path / "page.html"
    assert trtprof("report", str(finished), "-o", str(page)).exit_code == 0
    assert page.read_bytes() == (finished / "report.html").read_bytes()


def test_report_does_not_overwrite_without_force(finished: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.csv"
    target.write_text("precious")
    refused = trtprof("report", str(finished), "-o", str(target))
    assert refused.exit_code == 2
    assert "will not be overwritten" in refused.stderr
    assert target.read_text() == "precious"
    assert trtprof("report", str(finished), "-o", str(target), "--force").exit_code == 0
    assert target.read_text() != "precious"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["report", "nowhere"], 3, "has no report.json"),
        (["report", "{run}", "--format", "pdf"], 2, "no report format"),
        (["report", "{run}", "-o", "x.docx"], 2, "says no format"),
        (["run"], 2, "no model is named"),
        (["run", "a.onnx", "--onnx", "b.onnx"], 2, "named twice"),
        (["run", RESNET, "--format", "pdf"], 2, "no report format"),
        (["run", RESNET, "--backend", "tensorrt"], 3, "cannot run here"),
        (["run", RESNET, "--backend", "cuda"], 2, "no backend"),
        (["run", RESNET, "--resume"], 2, "needs the folder"),
        (["inspect", RESNET, "--format", "junit"], 2, "has no format"),
        (["rules", "XX999"], 2, "no rule"),
    ],
)
def test_usage_errors_are_one_message_without_traceback(
    finished: Path, arguments: list[str], code: int, words: str
) -> None:
    done = trtprof(*(argument.replace("{run}", str(finished)) for argument in arguments))
    assert done.exit_code == code
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_inspect_says_the_work_without_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtprof.runtime.ort_session.make_session", None)  # nothing may be built
    document = json.loads(trtprof("inspect", str(SAMPLES / "gemv.onnx"), "--format", "json").stdout)
    total = document["total"]
    assert total["tensor_flops"] + total["vector_flops"] == 122_880_000
    assert total["special"] == {}
    assert total["bytes_read"] + total["bytes_written"] == 250_828_800
    assert document["unsupported"] == []
    shown = trtprof("inspect", RESNET, "--batch", "4").stdout
    assert "image: fp32 batchx3x64x64 (batch=4)" in shown
    assert "unsupported ops: none" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_rules_are_listed_and_explained() -> None:
    listed = trtprof("rules").stdout
    assert "RL101  memory-bound op far under bandwidth" in listed
    explained = trtprof("rules", "rl101").stdout
    for section in ("What:", "Why:", "Try:"):
        assert section in explained


def test_doctor_says_what_runs_here_and_why_not_the_rest() -> None:
    done = trtprof("doctor", COLUMNS="120")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert any(line.split()[:2] == ["ok", "ort-cpu"] for line in lines)
    for name in ("tensorrt", "tensorrt-rtx", "ort-cuda"):
        index = next(i for i, line in enumerate(lines) if line.split()[:2] == ["--", name])
        assert any("fix:" in line for line in lines[index + 1 : index + 3])


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("trtprof.flows.run.execute", broken)
    with pytest.raises(ZeroDivisionError):
        trtprof("run", RESNET, "-o", tmp_path / "run")


def test_ctrl_c_exits_130_and_says_what_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trtprof.capture.launch.run_worker", interrupted)
    out = tmp_path / "run"
    done = trtprof("run", RESNET, "-o", str(out), *QUICK)
    assert done.exit_code == 130
    assert "stopped by Ctrl-C" in done.stderr
    assert f"kept: source in {out}" in done.stderr
    assert "--resume" in done.stderr
    monkeypatch.undo()
    quick(monkeypatch)
    assert trtprof("run", RESNET, "-o", str(out), "--resume", *QUICK).exit_code == 0


def test_stage_lines_are_live_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain, live = io.StringIO(), Terminal()
    for stream in (plain, live):
        with StageLines(stream=stream) as lines:
            lines.stage("engine")
            lines.detail("21 layers")
    assert plain.getvalue().split() == ["engine", "0.0", "s", "21", "layers"]
    assert "\x1b[" not in plain.getvalue()
    assert "\x1b[" in live.getvalue()
    assert "engine" in live.getvalue()


def test_what_is_left_goes_down_and_what_takes_longer_says_so() -> None:
    line = Line("3 of 10 inferences", 7.0)
    assert left_words(line, 2.0) == ", about 5 s left"
    assert left_words(line, 78.0) == ", 71 s longer than expected"
    assert left_words("no work that is counted", 2.0) == ""


def test_a_live_line_has_a_clock_that_goes_on_where_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = StageLines(stream=io.StringIO(), quiet=True)
    lines.stage("capture")
    lines.detail(Line("3 of 10 inferences", 7.0))
    now = 104.0
    assert str(lines.__rich__()) == "capture      4.0 s  3 of 10 inferences, about 3 s left"
    now = 110.0
    assert str(lines.__rich__()) == "capture     10.0 s  3 of 10 inferences, 3 s longer than expected"
    # What is left is not cut.
    monkeypatch.setenv("COLUMNS", "60")
    assert str(lines.__rich__()) == "capture     10.0 s  3 of 10 i..., 3 s longer than expected"


def test_a_long_stage_has_plain_lines_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "(up to 26 s)" stood still for 78 s."""
    monkeypatch.setattr(output, "_EVERY", 0.01)
    stream = io.StringIO()
    with StageLines(stream=stream) as lines:
        lines.stage("ceilings")
        lines.detail(Line("40 of 112 workloads", 1000.0))
        for _ in range(500):
            if stream.getvalue().count("\n") > 1:
                break
            time.sleep(0.01)
    first, *_, last = stream.getvalue().splitlines()
    assert re.fullmatch(r"ceilings +[0-9.]+ s  40 of 112 workloads, about [0-9]+ s left \.\.\.", first)
    assert re.fullmatch(r"ceilings +[0-9.]+ s  40 of 112 workloads", last)


def test_the_readme_names_two_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "./scripts/test" in readme
    named = next(line for line in readme.splitlines() if line.startswith("./scripts/trtprof run "))
    assert (ROOT / named.split()[2]).is_file()


def test_a_sweep_is_printed_as_text_json_and_csv() -> None:
    arguments = ("inspect", RESNET, "--shapes", "image:1x3x64x64", "--sweep", "batch=1..4:x2")
    shown = trtprof(*arguments)
    assert shown.exit_code == 0, shown.output
    assert "all                  MAC       27,984,512*batch" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    document = json.loads(trtprof(*arguments, "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(trtprof(*arguments, "--format", "csv").stdout)))
    assert [point["at"] for point in document["points"]] == [{"batch": int(row["batch"])} for row in rows]
    assert [point["total"]["bytes_read"] for point in document["points"]] == [int(row["bytes_read"]) for row in rows]
    alone = json.loads(trtprof("inspect", RESNET, "--batch", "4", "--format", "json").stdout)
    assert (document["points"][2]["total"], document["points"][2]["ops"]) == (alone["total"], alone["ops"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sweep", "batch"], "it needs a dimension"),
        (["--sweep", "width=1..4"], "its inputs are image:batchx3x64x64"),
        (["--sweep", "image[2]=1..4"], "the model fixes that dimension at 64"),
        (["--sweep", "batch=1..100000"], "too many points"),
        (["--sweep", "batch=1,2", "--batch", "3"], "--batch both decide dimension 'batch'"),
        (["--sweep", "batch=1,2", "--format", "junit"], "known: csv, html, json"),
    ],
)
def test_a_sweep_that_is_none_is_refused(options: list[str], words: str) -> None:
    done = trtprof("inspect", RESNET, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "fix: " in done.stderr
    assert done.stdout == ""
