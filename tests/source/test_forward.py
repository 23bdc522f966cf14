"""Shapes worked out node by node, held against those that ONNX Runtime sees when it runs the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from trtprof.base.records import Source, Tensor
from trtprof.source.load import load_model, source_of
from trtprof.source.shapes import parse_shapes


def info(name: str, *dims: int | str, dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def scalar(name: str, value: int) -> TensorProto:
    return numpy_helper.from_array(np.array(value, dtype=np.int64), name)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """Names are parted by spaces; ``-`` is an omitted input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), name=outputs.split(maxsplit=1)[0], **attributes)


def model(
    nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: str, constants: list[TensorProto] | None = None
) -> ModelProto:
    """The outputs declare no shape, which the checker does not take: their Shape is what is given out."""
    nodes = [*nodes, *(node("Shape", name, f"{name}_dims") for name in outputs.split())]
    made = [info(f"{name}_dims", "rank", dtype=TensorProto.INT64) for name in outputs.split()]
    graph = helper.make_graph(nodes, "g", inputs, made, constants or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def source(path: Path, proto: ModelProto, *shapes: str) -> Source:
    onnx.save(proto, path / "m.onnx")
    return source_of(load_model(path / "m.onnx"), parse_shapes(shapes), feed=False)


def tensors(found: Source, graph: str = "") -> dict[str, Tensor]:
    return {t.name: t for one in found.nodes if one.graph == graph for t in one.op.outputs if t is not None}


def shape(found: Source, name: str, graph: str = "") -> object:
    return tensors(found, graph)[name].shape


ROTARY = [
    node("Shape", "x", "dims"), node("Gather", "dims last", "width"), node("Div", "width two", "half"),
    node("Unsqueeze", "half zero", "end"), node("Slice", "x begin end axis", "left"),
    node("Slice", "x end far axis", "right"), node("Neg", "right", "negated"),
    node("Concat", "negated left", "turned", axis=-1), node("Add", "x turned", "y"),
]  # fmt: skip
ROTARY_CONSTANTS = [
    scalar("last", 2),
    scalar("two", 2),
    ints("zero", 0),
    ints("begin", 0),
    ints("axis", 2),
    ints("far", 2**62),
]


def test_a_shape_that_is_divided_is_followed(tmp_path: Path) -> None:
    found = source(tmp_path, model(ROTARY, [info("x", "n", 7, 12)], "y", ROTARY_CONSTANTS), "x:3x7x12")
    assert shape(found, "left") == shape(found, "right") == (3, 7, 6)
    assert shape(found, "turned") == (3, 7, 12)
    assert tensors(found)["half"].value == (6,)
    assert not tensors(found)["half"].constant
    assert found.model.shape_coverage == 1


@pytest.mark.parametrize(
    ("ends", "sizes"),
    [
        ({"start": 1}, (6, 8)),
        ({"start": 1, "end": 2}, (6,)),
        ({"end": -1}, (4, 6)),
        ({"start": -1}, (8,)),
        ({}, (4, 6, 8)),
    ],
)
def test_a_part_of_a_shape_is_that_part(tmp_path: Path, ends: dict[str, int], sizes: tuple[int, ...]) -> None:
    """Halved, so that onnx's own propagation of values does not follow it."""
    nodes = [
        node("Shape", "x", "dims", **ends),
        node("Div", "dims two", "halves"),
        node("ConstantOfShape", "halves", "y"),
    ]
    found = source(tmp_path, model(nodes, [info("x", 4, 6, 8)], "y", [ints("two", 2)]))
    assert shape(found, "y") == tuple(size // 2 for size in sizes)


def branch(name: str, nodes: list[NodeProto], output: str) -> GraphProto:
    return helper.make_graph(nodes, name, [], [helper.make_value_info(output, helper.make_tensor_type_proto(1, None))])


@pytest.mark.parametrize(("length", "taken"), [(5, (1, 5)), (8, (8,))])
def test_of_an_if_that_shapes_decide_the_taken_branch_counts(
    tmp_path: Path, length: int, taken: tuple[int, ...]
) -> None:
    choice = node(
        "If", "short", "z",
        then_branch=branch("t", [node("Unsqueeze", "x zero", "wide")], "wide"),
        else_branch=branch("e", [node("Identity", "x", "same")], "same"),
    )  # fmt: skip
    nodes = [node("Size", "x", "count"), node("Less", "count limit", "short"), choice, node("Relu", "z", "y")]
    found = source(tmp_path, model(nodes, [info("x", "n")], "y", [scalar("limit", 6), ints("zero", 0)]), f"x:{length}")
    assert shape(found, "y") == shape(found, "z") == taken
    assert shape(found, "wide", "z/then_branch") == (1, length)


def loop(body: list[NodeProto], state: str, scanned: str, condition: str) -> NodeProto:
    """``- `` as condition leaves the trip count alone to decide."""
    made = [info("keep", dtype=TensorProto.BOOL)]
    made += [helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in (state, scanned)]
    given = [info("i", dtype=TensorProto.INT64), info("go", dtype=TensorProto.BOOL)]
    given.append(helper.make_value_info("state", helper.make_tensor_type_proto(1, None)))
    graph = helper.make_graph([node("Identity", "go", "keep"), *body], "body", given, made)
    return node("Loop", f"trips {condition} x", "last all", body=graph)


def test_a_state_that_keeps_its_shape_is_known_in_and_behind_a_loop(tmp_path: Path) -> None:
    body = [
        node("MatMul", "state w", "product"),
        node("Relu", "product", "next"),
        node("ReduceSum", "next ax", "row", keepdims=0),
    ]
    constants = [scalar("trips", 6), ints("ax", 1), numpy_helper.from_array(np.zeros((4, 4), np.float32), "w")]
    proto = model([loop(body, "next", "row", "-"), node("Relu", "last", "y")], [info("x", 3, 4)], "y all", constants)
    found = source(tmp_path, proto)
    assert shape(found, "product", "last/body") == shape(found, "y") == (3, 4)
    assert shape(found, "all") == (6, 3)
    with_condition = model(
        [loop(body, "next", "row", "go0"), node("Relu", "last", "y")],
        [info("x", 3, 4), info("go0", dtype=TensorProto.BOOL)], "y all", constants,
    )  # fmt: skip
    assert shape(source(tmp_path, with_condition), "all") == ("?", 3)


def runtime_shapes(proto: ModelProto, feeds: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of the main graph as ONNX Runtime makes it, unoptimised."""
    proto = ModelProto.FromString(proto.SerializeToString())
    names = [name for one in proto.graph.node for name in one.output if name]
    del proto.graph.output[:]
    proto.graph.output.extend(helper.make_value_info(name, onnx.TypeProto()) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {name: np.shape(value) for name, value in zip(names, session.run(names, feeds), strict=True)}


@pytest.mark.parametrize("dims", [(3, 7, 12), (1, 1, 2)])
def test_values_and_shapes_are_those_of_the_runtime(tmp_path: Path, dims: tuple[int, int, int]) -> None:
    proto = model(ROTARY, [info("x", "a", "b", "c")], "y", ROTARY_CONSTANTS)
    found = source(tmp_path, proto, "x:" + "x".join(map(str, dims)))
    assert {name: t.shape for name, t in tensors(found).items()} == runtime_shapes(
        proto, {"x": np.zeros(dims, np.float32)}
    )
