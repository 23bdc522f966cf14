"""Work that is not known before the model runs: nothing is concluded from the rest, and a run tells the shapes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.rendering import render_text
from tests.fakes.support import QUICK, SAMPLES, refused
from trtprof.base.errors import UsageError
from trtprof.base.records import Prediction
from trtprof.flows.inspect import inspect
from trtprof.flows.options import RunOptions
from trtprof.flows.predict import predict
from trtprof.flows.predict.on_gpus import Settings
from trtprof.flows.run import execute
from trtprof.hardware import gpus
from trtprof.source.request import ModelRequest

ELEMENTS, CHANNELS, WINDOW = 16, 4, 3


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Conv over the elements of an input that are not zero, and a Relu that a runtime fuses with it."""
    weight = numpy_helper.from_array(np.ones((CHANNELS, 1, WINDOW), np.float32), "w")
    axes = numpy_helper.from_array(np.array([0], np.int64), "axes")
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["row"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["row", "axes"], ["signal"]),
        helper.make_node("Conv", ["signal", "w"], ["c"], pads=[1, 1], name="conv"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [ELEMENTS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CHANNELS, 1])
    graph = helper.make_graph(nodes, "g", [x], [y], [weight, axes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def predicted(model: str | Path, *names: str) -> Prediction:
    return predict(ModelRequest.of(model), [gpus.find(name) for name in names], Settings())


def test_a_total_without_a_convolution_is_a_lower_bound(model: Path) -> None:
    found = inspect(ModelRequest.of(model))
    assert found.total.bound == "lower"
    assert found.uncounted.startswith("1 of 1 Conv not counted (unknown shape); ")
    assert "trtprof run" in found.uncounted
    text = " ".join(render_text(found).split())
    assert "work at least 0 FLOP" in text
    assert "about" not in text
    assert text.count("not counted: ") == 2, "a line for all ops, and the note of the total"
    whole = inspect(ModelRequest.of(SAMPLES / "resnet_tiny.onnx"))
    assert (whole.total.bound, whole.uncounted) == ("exact", "")
    assert "without a cost model: none" in render_text(whole)


def test_nothing_is_forecast_without_a_convolution(model: Path) -> None:
    found = predicted(model, "t4", "l4")
    assert "trtprof run" in found.unpriced
    assert (found.fastest, found.fastest_by, found.most_efficient) == ("", "", "")
    for gpu in found.gpus:
        assert (gpu.expected_ns, gpu.forecast_ns, gpu.expected_joules) == (None, None, None)
        assert gpu.expected_reason == "1 of 1 Conv not counted (unknown shape)"
    assert "no verdict: 1 of 1 Conv" in " ".join(render_text(found).split())
    assert predicted(SAMPLES / "resnet_tiny.onnx", "t4").unpriced == ""


def test_one_trip_of_a_loop_of_unknown_length_is_no_forecast(tmp_path: Path) -> None:
    x, y, state, after = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [512, 512]) for name in "xysa")
    trips, at = (helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("trips", "at"))
    go, on = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go", "on"))
    nodes = [helper.make_node("MatMul", ["s", "s"], ["a"]), helper.make_node("Identity", ["go"], ["on"])]
    body = helper.make_graph(nodes, "body", [at, go, state], [on, after])
    graph = helper.make_graph([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], "g", [trips, x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    (gpu,) = predicted(tmp_path / "m.onnx", "t4").gpus
    assert gpu.time_ns
    assert (gpu.expected_ns, gpu.expected_reason) == (None, "1 of 1 MatMul not counted (in a loop of unknown length)")


@pytest.mark.usefixtures("quick_runs")
def test_a_run_tells_the_shapes_that_the_model_leaves_open(model: Path, tmp_path: Path) -> None:
    run = execute(RunOptions(model=ModelRequest.of(model), output=str(tmp_path / "run"), **QUICK)).path  # type: ignore[arg-type]
    found = inspect(ModelRequest.of(run))
    assert (found.uncounted, found.total.macs) == ("", ELEMENTS * CHANNELS * WINDOW)
    assert any(str(run) in note for note in found.model.assumptions)
    assert any("inputs are random" in note for note in found.model.assumptions)
    on_t4 = predicted(run, "t4")
    assert (on_t4.unpriced, on_t4.fastest) == ("", "t4")
    assert all(layer.estimate is not None for layer in on_t4.gpus[0].layers)

    with pytest.raises(UsageError) as beside:
        inspect(ModelRequest.of(run, shapes=("x:8",)))
    assert f"{run} is a run folder" in refused(beside.value)
    model.write_bytes(model.read_bytes() + b" ")
    with pytest.raises(UsageError) as changed:
        predicted(run, "t4")
    assert "is not the model that ran" in refused(changed.value)


def test_steps_of_a_recurrence_are_launched_one_after_another() -> None:
    found = predict(ModelRequest.of(SAMPLES / "lstm.onnx", shapes=("features:64x1x64",)), [gpus.find("t4")], Settings())
    (gpu,) = found.gpus
    (lstm,) = (layer for layer in gpu.layers if "LSTM" in layer.op_type)
    assert lstm.steps == 64
    assert lstm.estimate is not None
    assert gpu.time_ns is not None
    assert gpu.refused_ns >= 64 * gpu.ceilings.launch_ns > gpu.time_ns, "the bound stays a bound"


def test_a_tie_is_called_a_tie() -> None:
    found = predicted(SAMPLES / "gemv.onnx", "rtx-4090", "l4")
    assert f"fastest by the bound: {found.gpus[0].name}, " in render_text(found)
    first, second = found.gpus
    tied = msgspec.structs.replace(found, gpus=(first, msgspec.structs.replace(second, time_ns=first.time_ns)))
    assert f"fastest by the bound: a tie of {first.name}, {second.name}, " in render_text(tied)
