"""The worker: inputs, timing loops, and whole captures of real models, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.support import SAMPLES
from trtprof.base.errors import CaptureError
from trtprof.base.records import KERNEL_COLUMNS, InputTensor
from trtprof.base.undisturbed import Timings
from trtprof.capture import ort_profile
from trtprof.capture.workers.cpu_meter import Budget
from trtprof.capture.workers.inference import make_input_sets, make_inputs
from trtprof.capture.workers.ort_cpu import GRAPH_FILE, WorkerRequest, capture, load_timings
from trtprof.engine.onnxruntime import layers_from_file
from trtprof.runtime.ort_session import SessionRequest, name_layers
from trtprof.source.load import load_model, source_of
from trtprof.source.shapes import parse_shapes

FLOATS = InputTensor(name="x", dtype="fp32", shape=(4, 5), low=-2.0, high=3.0)


def request_for(path: Path, folder: Path, shapes: tuple[str, ...] = (), **changes: Any) -> WorkerRequest:
    """A short capture of a model as the pipeline asks for it."""
    results, scratch = folder / "run", folder / "scratch"
    results.mkdir()
    scratch.mkdir()
    inputs = source_of(load_model(path), parse_shapes(shapes)).model.inputs
    request = WorkerRequest(
        session=SessionRequest(model=str(path), threads=1),
        folder=str(results),
        scratch=str(scratch),
        inputs=inputs,
        layers=10,
        seed=0,
        warmup_ms=1.0,
        clean=Budget(least=5, seconds=0, slow_s=60),
        profiled=Budget(least=4, seconds=0, slow_s=60),
    )
    return msgspec.structs.replace(request, **changes)


# --- inputs ---------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others() -> None:
    first, again, other = (make_inputs((FLOATS,), seed)["x"] for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_inputs_are_the_same_on_every_machine() -> None:
    """PCG64's stream and its doubles are fixed; a change here changes everybody's runs."""
    drawn = make_inputs((InputTensor(name="x", dtype="fp64", shape=(2,), low=0.0, high=1.0),), 0)["x"]
    assert drawn.tolist() == pytest.approx([0.6369616873214543, 0.2697867137638703], abs=0)


@given(
    dtype=st.sampled_from(["fp16", "fp32", "fp64"]),
    low=st.integers(-8, 8),
    width=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_floats_are_drawn_from_low_to_below_high(dtype: str, low: int, width: int, seed: int) -> None:
    plan = InputTensor(name="x", dtype=dtype, shape=(500,), low=low, high=low + width)
    drawn = make_inputs((plan,), seed)["x"]
    assert drawn.dtype == {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[dtype]
    assert drawn.shape == (500,)
    assert low <= drawn.min()
    assert drawn.max() < low + width, "a narrow type rounds up to the end that is left out"


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_take_both_ends(dtype: str) -> None:
    plan = InputTensor(name="x", dtype=dtype, shape=(200,), kind="integers", low=0, high=1)
    drawn = make_inputs((plan,), 0)["x"]
    assert drawn.dtype == np.dtype(dtype)
    assert set(drawn.tolist()) == {0, 1}


def test_scalars_and_empty_inputs_keep_their_shape() -> None:
    plans = (
        InputTensor(name="s", dtype="fp32", shape=()),
        InputTensor(name="e", dtype="int64", shape=(0, 3), kind="integers", low=0, high=9),
    )
    feeds = make_inputs(plans, 0)
    assert feeds["s"].shape == ()
    assert feeds["s"].dtype == np.float32
    assert feeds["e"].shape == (0, 3)


def test_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.save(tmp_path / "x.npy", values)
    plan = InputTensor(name="x", dtype="fp32", shape=(3, 2), kind="file", file=str(tmp_path / "x.npy"))
    found = make_inputs((plan,), 0)["x"]
    assert np.array_equal(found, values)
    assert found.flags.c_contiguous, "a runtime reads it as it lies"


def test_an_input_does_not_change_when_one_from_a_file_stands_before_it(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros(3, np.float32))
    file = InputTensor(name="f", dtype="fp32", shape=(3,), kind="file", file=str(tmp_path / "f.npy"))
    assert np.array_equal(make_inputs((FLOATS,), 1)["x"], make_inputs((file, FLOATS), 1)["x"])


def test_other_values_are_drawn_for_large_random_floats_and_not_for_what_may_be_a_setting() -> None:
    plans = (
        InputTensor(name="image", dtype="fp32", shape=(32, 32)),
        InputTensor(name="speed", dtype="fp32", shape=(1,)),
        InputTensor(name="ids", dtype="int64", shape=(2000,), kind="integers", low=0, high=9),
    )
    feeds, other = make_input_sets(plans, 0)
    assert np.array_equal(feeds["image"], make_inputs(plans, 0)["image"])
    same = {name: bool((other[name] == feeds[name]).all()) for name in feeds}
    assert same == {"image": False, "speed": True, "ids": True}
    assert len(make_input_sets(plans[1:], 0)) == 1


# --- whole captures -------------------------------------------------------------------------


class Captured(NamedTuple):
    """What a capture left."""

    clean: Timings
    profiled: Timings
    profile: ort_profile.Profile
    graph: Path


def captured(request: WorkerRequest) -> Captured:
    """Capture a model, and read what was left."""
    answer = capture(request)
    scratch = Path(request.scratch)
    clean, profiled, _ = load_timings(scratch)
    graph = scratch / GRAPH_FILE
    scheduled = name_layers(onnx.load(str(graph), load_external_data=False))
    profile = ort_profile.read_profile(Path(answer.profile), len(profiled.latency_ns), scheduled)
    return Captured(clean, profiled, profile, graph)


CASES = [
    ("lstm", ("features:6x2x64",)),
    ("transformer_block", ("input_ids:2x8", "attention_mask:2x8")),
    ("qdq_cnn", ()),
]


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=[name for name, _ in CASES])
def test_a_capture_leaves_all_files_and_they_agree(name: str, shapes: tuple[str, ...], tmp_path: Path) -> None:
    found = captured(request_for(SAMPLES / f"{name}.onnx", tmp_path, shapes))
    kernels = found.profile.kernels
    assert len(found.clean.latency_ns) >= 5
    for timings, each in ((found.clean, False), (found.profiled, True)):
        counts = np.bincount(timings.block)
        assert len(counts) == len(timings.start_ns) == len(timings.waits_ns) - 1
        assert (counts == 1).all() == (each or len(counts) == len(timings.latency_ns))
        sums = np.bincount(timings.block, timings.latency_ns)
        assert (sums <= timings.end_ns - timings.start_ns).all()
    assert tuple(kernels.columns) == KERNEL_COLUMNS
    assert sorted(kernels["iteration"].unique()) == list(range(len(found.profiled.latency_ns)))
    assert len(found.profiled.latency_ns) >= 4
    assert kernels.groupby("iteration").size().nunique() == 1, "each run launches the same nodes"
    assert (kernels["self_ns"] >= 0).all()
    layers = layers_from_file(found.graph)
    assert set(kernels["layer"]) == {layer.name for layer in layers} == set(found.profile.shapes)


def test_shapes_seen_at_run_time_are_recorded(tmp_path: Path) -> None:
    found = captured(request_for(SAMPLES / "lstm.onnx", tmp_path, ("features:6x2x64",)))
    graph = onnx.load(str(found.graph), load_external_data=False).graph
    lstm = next(node.name for node in graph.node if node.op_type == "LSTM")
    inputs, outputs = found.profile.shapes[lstm]
    assert inputs[0].shape == (6, 2, 64)
    assert outputs[0].shape == (6, 2, 2, 128)
    assert {tensor.dtype for tensor in (inputs[0], outputs[0])} == {"fp32"}


def model_of(nodes: list[onnx.NodeProto], rows: int | str, constants: list[onnx.TensorProto]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_inputs_alternate_as_long_as_the_model_takes_both(tmp_path: Path) -> None:
    """The first value of seed 0 is 0.27, that of seed 1 is 0.02."""
    ways = [
        helper.make_graph([helper.make_node(op, ["h"], ["o"], op)], op, [], [
            helper.make_tensor_value_info("o", TensorProto.FLOAT, [2000])
        ])
        for op in ("Neg", "Abs")
    ]  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["x", "zero"], ["first"], "first"),
        helper.make_node("Less", ["first", "bar"], ["less"], "less"),
        helper.make_node("Cast", ["less"], ["index"], "index", to=TensorProto.INT64),
        helper.make_node("Gather", ["rows", "index"], ["row"], "row"),
        helper.make_node("Add", ["x", "row"], ["h"], "sum"),
        helper.make_node("If", ["less"], ["y"], "if", then_branch=ways[0], else_branch=ways[1]),
    ]
    constants = {"zero": np.asarray(0), "bar": np.asarray(0.1, np.float32)}
    for rows, ran in ((2, {"Neg", "Abs"}), (1, {"Abs"})):
        folder = tmp_path / str(rows)
        folder.mkdir()
        constants["rows"] = np.zeros(rows, np.float32)
        graph = helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2000])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2000])],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )  # fmt: skip
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
        )
        found = captured(request_for(folder / "model.onnx", folder))
        assert {name for name in found.profile.kernels["layer"] if name in ("Neg", "Abs")} == ran
        assert set(found.profile.kernels["layer"]) == set(found.profile.shapes)


def test_layers_that_onnxruntime_leaves_without_a_unique_name_are_captured_apart(tmp_path: Path) -> None:
    """HardSwish has no CPU kernel and runs as two nodes without names, here twice, once in a branch."""
    then = helper.make_graph(
        [helper.make_node("HardSwish", ["h"], ["o"], "inner")], "t", [],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, [3, 4])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Neg", ["h"], ["o"], "neg")], "e", [],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, [3, 4])],
    )  # fmt: skip
    nodes = [
        helper.make_node("HardSwish", ["x"], ["h"], "outer"),
        helper.make_node("ReduceSum", ["h"], ["s"], "sum", keepdims=0),
        helper.make_node("Less", ["s", "bar"], ["c"], "less"),
        helper.make_node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other),
    ]
    path = tmp_path / "swish.onnx"
    bar = numpy_helper.from_array(np.asarray(1e9, dtype=np.float32), "bar")
    model = model_of(nodes, 3, [bar])
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 4
    onnx.save(model, str(path))
    found = captured(request_for(path, tmp_path))
    kernels = found.profile.kernels
    layers = {layer.name: layer for layer in layers_from_file(found.graph)}
    assert set(kernels["layer"]) <= set(layers)
    ran = {name for name in set(kernels["layer"]) if layers[name].graph == "if/then_branch"}
    assert ran == {name for name, layer in layers.items() if layer.graph == "if/then_branch"}
    assert "neg" not in set(kernels["layer"])
    top = kernels[[not layers[name].graph for name in kernels["layer"]]]
    for iteration, rows in kernels.groupby("iteration"):
        assert rows["self_ns"].sum() == top[top["iteration"] == iteration]["dur_ns"].sum()


def test_a_profile_of_many_layers_is_kept_short(tmp_path: Path) -> None:
    """ONNX Runtime drops all events after one million."""
    path = tmp_path / "small.onnx"
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    onnx.save(model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "m")], 3, [weights]), str(path))
    many = Budget(least=50, seconds=0, slow_s=60)
    assert len(captured(request_for(path, tmp_path, profiled=many, layers=10**7)).profiled.latency_ns) == 3


def test_inputs_that_do_not_run_are_an_error_with_the_cause_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "reshape.onnx"
    shape = numpy_helper.from_array(np.asarray([5, 5]), "shape")
    onnx.save(model_of([helper.make_node("Reshape", ["x", "shape"], ["y"], "squeeze_it")], "rows", [shape]), str(path))
    request = request_for(path, tmp_path, ("x:3x4",))
    with pytest.raises(CaptureError, match="does not run with these inputs") as error:
        capture(request)
    assert error.value.why.startswith("Reshape 'squeeze_it': ")
    assert "onnxruntime" not in error.value.why, "no path of its build machine, no C++ signature"
    assert "--shapes" in error.value.fix
