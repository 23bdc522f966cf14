"""The command line as a person uses it: what is printed where, and with which exit code."""

from __future__ import annotations

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
from tests.fakes.support import SAMPLES
from trtprof.base.progress import Line
from trtprof.cli import output
from trtprof.cli.output import StageLines

pytestmark = pytest.mark.usefixtures("quick_runs")
QUICK = ["--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3"]
RESNET = str(SAMPLES / "resnet_tiny.onnx")


@pytest.mark.process
def test_help_is_light() -> None:
    """It must answer in 0.3 s, which rules out pandas, onnx, numpy, rich and msgspec at import."""
    code = (
        "import sys\nfrom trtprof.cli import load_commands\nload_commands()\n"
        "print(*sorted({'pandas', 'onnx', 'numpy', 'rich', 'pyarrow', 'onnxruntime', 'jinja2'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""


@pytest.mark.process
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
    assert {line[:10].strip() for line in lines} >= {"ASSUMED", "LATENCY", "BOUND", "TRUST", "CAUSES"}
    assert lines[-1] == f"page      {out}/report.html", "a path is not cut"
    # What is assumed of the model comes first, in whole sentences.
    talk = [line for line in done.stderr.splitlines() if not line.startswith(("assumed: ", "  "))]
    assert done.stderr.startswith("assumed: ")
    assert [line.split()[0] for line in talk[:5]] == ["source", "ceilings", "first", "capture", "analysis"]
    assert talk[-1].startswith(("next: trtprof try ", f"wrote {out}"))
    # What stderr names last is what the screen names first.
    assert not talk[-1].startswith("next: ") or talk[-1].removeprefix("next: ") in map(str.strip, lines)


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
