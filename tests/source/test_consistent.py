"""Guesses that the graph contradicts, and what is assumed in their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from trtprof.base.records import Source
from trtprof.capture.workers.inference import make_inputs
from trtprof.capture.workers.ort_cpu import bind
from trtprof.flows.run import session_of
from trtprof.runtime.ort_session import make_session
from trtprof.source.load import load_model, source_of

FLOAT = TensorProto.FLOAT


def floats(name: str, *shape: int | str | None) -> ValueInfoProto:
    return make_tensor_value_info(name, FLOAT, shape)


def model_of(
    nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto], **weights: object
) -> ModelProto:
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = make_graph(nodes, "g", inputs, outputs, stored)
    return make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)


def run(model: ModelProto, folder: Path) -> Source:
    """What a run binds, after it ran twice as the worker does."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    loaded = load_model(path)
    source = source_of(loaded)
    again = bind(make_session(session_of(loaded, folder, 1)), make_inputs(source.model.inputs, 0))
    again()
    return source


def refused(source: Source) -> str:
    (said,) = (text for text in source.model.assumptions if "cannot be" in text)
    return said


def text_line(height: int | None = None) -> ModelProto:
    """A recogniser of text: maps of height 48 become one line, which is joined with one made by a pooling."""
    nodes = [
        make_node("Conv", ["x", "w"], ["maps"], "conv", strides=[16, 16], kernel_shape=[16, 16]),
        make_node("AveragePool", ["maps"], ["pooled"], "pool", kernel_shape=[3, 1], strides=[3, 1]),
        make_node("ReduceMean", ["maps"], ["mean"], "mean", axes=[2], keepdims=1),
        make_node("Concat", ["pooled", "mean"], ["y"], "join", axis=1),
    ]
    inputs, outputs = [floats("x", "n", 3, height, "width")], [floats("y", "n", 8, None, None)]
    return model_of(nodes, inputs, outputs, w=np.zeros((4, 3, 16, 16), np.float32))


def test_a_height_that_the_graph_contradicts_is_not_assumed(tmp_path: Path) -> None:
    source = run(text_line(), tmp_path)
    assert source.model.inputs[0].shape == (1, 3, 48, 224)
    said = refused(source)
    assert said.endswith("was not given, and 224 cannot be ('join' then joins 4 and 1 at axis 2): 48 assumed")


def test_beside_a_number_that_was_given_the_height_still_fits_the_graph(tmp_path: Path) -> None:
    onnx.save(text_line(), tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    assert source_of(loaded, symbols={"width": 64}).model.inputs[0].shape == (1, 3, 48, 64)
    assert source_of(loaded, symbols={"width": 64}, instead={}).model.inputs[0].shape == (1, 3, 224, 64)


@pytest.mark.parametrize("fixed", [1, 6])
def test_the_state_of_an_lstm_fixes_the_batch(fixed: int, tmp_path: Path) -> None:
    weights = {"w": np.zeros((1, 32, 4), np.float32), "r": np.zeros((1, 32, 8), np.float32)}
    nodes = [make_node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], "lstm", hidden_size=8)]
    inputs = [floats("x", 5, None, 4), floats("h", 1, fixed, 8), floats("c", 1, fixed, 8)]
    source = run(model_of(nodes, inputs, [floats("y", 5, 1, None, 8)], **weights), tmp_path)
    assert source.model.inputs[0].shape == (5, fixed, 4)
    assert "'lstm' then starts" in refused(source)


def test_sides_that_must_change_together_do(tmp_path: Path) -> None:
    nodes = [
        make_node("Conv", ["x", "w"], ["maps"], "conv", strides=[32, 32], kernel_shape=[32, 32]),
        make_node("Add", ["maps", "grid"], ["y"], "grid"),
    ]
    model = model_of(
        nodes, [floats("x", "batch", 3, "h", "w_")], [floats("y", None, 2, None, None)],
        w=np.zeros((2, 3, 32, 32), np.float32), grid=np.zeros((1, 2, 20, 20), np.float32),
    )  # fmt: skip
    assert run(model, tmp_path).model.inputs[0].shape == (1, 3, 640, 640)


def test_what_cannot_fit_is_said_and_the_guess_is_kept(tmp_path: Path) -> None:
    nodes = [make_node("Add", ["x", "a"], ["m"], "first"), make_node("Add", ["m", "b"], ["y"], "second")]
    model = model_of(
        nodes, [floats("x", "seq", 4)], [floats("y", None, 4)],
        a=np.zeros((5, 4), np.float32), b=np.zeros((7, 4), np.float32),
    )  # fmt: skip
    onnx.save(model, tmp_path / "m.onnx")
    source = source_of(load_model(tmp_path / "m.onnx"))
    said = [text for text in source.model.assumptions if "no numbers were found for seq" in text]
    assert len(said) == 1
    assert "'second' combines 5 with 7 elements" in said[0] or "'first' combines" in said[0]


@pytest.mark.parametrize("declared", [("n", "seq"), (9, 4, 3), (2, 3, 4, 5)])
def test_an_output_that_is_declared_wrongly_is_written_more_than_once(
    declared: tuple[int | str, ...], tmp_path: Path
) -> None:
    nodes = [make_node("Relu", ["x"], ["y"], "relu")]
    model = model_of(nodes, [floats("x", "n", 4, 3)], [floats("y", *declared)])
    source = run(model, tmp_path)
    assert source.model.outputs[0].shape == (1, 4, 3)
    assert any(
        "the file declares output 'y' as" in text and "1x4x3: mended" in text for text in source.model.assumptions
    )


def test_lengths_are_those_of_what_they_count(tmp_path: Path) -> None:
    nodes = [
        make_node("Cast", ["waveforms_lens"], ["f"], "cast", to=FLOAT),
        make_node("Unsqueeze", ["f", "axis"], ["column"], "column"),
        make_node("Mul", ["waveforms", "column"], ["y"], "mul"),
    ]
    lengths = make_tensor_value_info("waveforms_lens", TensorProto.INT64, ["batch_size"])
    model = model_of(
        nodes, [floats("waveforms", "batch_size", "N"), lengths], [floats("y", None, None)], axis=np.array([1])
    )
    waves, lens = run(model, tmp_path).model.inputs
    assert waves.shape == (1, 16_000)
    assert (lens.low, lens.high, lens.values) == (16_000, 16_000, "16000 (the length of waveforms)")
