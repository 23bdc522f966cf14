"""Nothing is sent to anybody: ONNX Runtime's telemetry is off in every process before its library is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.support import SAMPLES
from trtprof.base.errors import CaptureError
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.hardware._exchange import MeasureRequest
from trtprof.hardware.calibrate import measure_in_child
from trtprof.source.request import ModelRequest

RECORDER = """
import os, sys
with open(os.path.join(os.environ["RECORD_TO"], str(os.getpid())), "w") as file:
    file.write(" ".join(sys.orig_argv[1:]) + "\\n" + os.environ.get("ORT_DISABLE_TELEMETRY", "unset"))
"""


@pytest.mark.parametrize("before", [None, "", "0"])
def test_our_package_turns_it_off_whatever_the_user_has_set(before: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    if before is not None:
        environment["ORT_DISABLE_TELEMETRY"] = before
    code = "import os, sys, trtprof; print(os.environ['ORT_DISABLE_TELEMETRY'], 'onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_ray_is_told_not_to_report_what_it_is_used_for() -> None:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "1"}
    code = "import os, sys, trtprof; print(os.environ['RAY_USAGE_STATS_ENABLED'], 'ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]


@pytest.mark.usefixtures("no_calibration")
def test_every_child_begins_with_it_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs ``sitecustomize`` before anything else, so that each child notes the environment it was given."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "sitecustomize.py").write_text(RECORDER)
    monkeypatch.setenv("RECORD_TO", str(notes))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    options = RunOptions(
        model=ModelRequest.of(SAMPLES / "resnet_tiny.onnx"),
        backend="ort-cpu",
        duration_s=0.1,
        iterations=2,
        profile_iterations=2,
    )
    execute(options, reports=tmp_path / "reports")
    monkeypatch.setattr("trtprof.hardware.calibrate.TIMEOUT_SECONDS", 3)
    with pytest.raises(CaptureError, match="no result"):
        measure_in_child(MeasureRequest(threads=1, seconds=60.0, cache_bytes=0, memory_bytes=0))
    children = dict(path.read_text().splitlines() for path in notes.iterdir())
    assert any("trtprof.capture.workers.ort_cpu" in command for command in children)
    assert any("trtprof.hardware._measure" in command for command in children)
    assert set(children.values()) == {"1"}
