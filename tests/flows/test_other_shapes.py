"""A run that refuses its shapes ends with a line that works, or says what was tried."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.support import QUICK
from trtprof.base.errors import CaptureError
from trtprof.capture import launch
from trtprof.capture.workers import ort_trial
from trtprof.capture.workers.ort_trial import TrialRequest
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import source_of
from trtprof.source.request import ModelRequest

pytestmark = pytest.mark.usefixtures("quick_runs")


def reflected(path: Path, pads: int) -> Path:
    """A reflecting Pad, which takes an input that is longer than the pad; shape inference does not mind."""
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["y"], "mirror", mode="reflect")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "out"])],
        [numpy_helper.from_array(np.array([0, pads, 0, pads]), "pads")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def refused(model: Path, folder: Path, *shapes: str) -> CaptureError:
    error = refused_at_once(model, folder, *shapes)
    assert not error.resumable
    return error


def refused_at_once(model: Path, folder: Path, *shapes: str) -> CaptureError:
    options = RunOptions(model=ModelRequest.of(model, shapes), output=str(folder / "run"), **QUICK)  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="does not run with these inputs") as caught:
        execute(options)
    return caught.value


def test_the_message_ends_with_a_line_that_runs(tmp_path: Path) -> None:
    model = reflected(tmp_path / "m.onnx", 600)
    error = refused(model, tmp_path)
    words = shlex.split(error.fix[error.fix.index("trtprof run") :])
    assert words == ["trtprof", "run", str(model), "--shapes", "x:1x640"]
    execute(RunOptions(model=ModelRequest.of(model, [words[-1]]), output=str(tmp_path / "ok"), **QUICK))  # type: ignore[arg-type]


def test_shapes_that_were_asked_for_give_way_to_those_assumed(tmp_path: Path) -> None:
    model = reflected(tmp_path / "m.onnx", 100)
    assert refused(model, tmp_path, "x:2x30").fix.endswith("--shapes x:1x512")


def test_where_nothing_runs_the_dimensions_that_were_varied_are_named(tmp_path: Path) -> None:
    error = refused(reflected(tmp_path / "m.onnx", 200_000), tmp_path)
    assert "other sizes of batch, length: none runs" in error.why
    assert "trtprof run" not in error.fix


def test_what_was_not_tried_is_not_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that died has tried nothing that anybody knows of."""
    really = launch.run_worker

    def run_worker(request: Any, *args: Any, **named: Any) -> Any:
        if isinstance(request, TrialRequest):
            raise CaptureError("the child died", why="signal 11", fix="none")
        return really(request, *args, **named)

    monkeypatch.setattr(launch, "run_worker", run_worker)
    assert "tried" not in refused_at_once(reflected(tmp_path / "m.onnx", 200_000), tmp_path).why


def test_trials_end_in_time_and_tell_how_many_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_trial, "_SECONDS", 0.0)
    model = reflected(tmp_path / "m.onnx", 200_000)
    with ModelRequest.of(model).opened() as loaded:
        inputs = tuple(source_of(loaded, {}, batch).model.inputs for batch in (1, 2, 3))
    session = SessionRequest(model=str(model), threads=1)
    request = TrialRequest(session=session, folder=str(tmp_path), scratch=str(tmp_path), candidates=inputs, seed=0)
    assert ort_trial.try_all(request) == ort_trial.Trial(found=None, tried=1)
