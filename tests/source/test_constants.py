"""Small constant graphs that decide shapes are evaluated, and nothing else is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from trtprof.base import onnx_graph
from trtprof.base.op_kinds import SHAPE_INPUTS
from trtprof.source.constants import Values, of_integers
from trtprof.source.load import load_model, source_of


def model(nodes: list[onnx.NodeProto], initializers: dict[str, np.ndarray], out: int = 1) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * out)],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def computed(found: ModelProto) -> dict[str, dict[str, np.ndarray]]:
    """What shapes ask for, by graph and name, computed from constants alone."""
    graphs = dict(onnx_graph.all_graphs(found.graph))
    values = Values(found.graph, 17, {path: {} for path in graphs})
    for path, graph in graphs.items():
        for node in graph.node:
            for index in SHAPE_INPUTS.get(node.op_type, ()):
                values.of(path, node.input[index]) if index < len(node.input) else None
    made: dict[str, dict[str, np.ndarray]] = {path: {} for path in graphs}
    for path, name, value in values.computed():
        made[path][name] = value
    return made


def torch_style_pad() -> ModelProto:
    """Pads as a TorchScript exporter writes them: reversed, transposed, reshaped and cast constants."""
    nodes = [
        helper.make_node("Concat", ["pads", "zeros"], ["all"], name="concat", axis=0),
        helper.make_node("Reshape", ["all", "two_columns"], ["pairs"], name="pairs"),
        helper.make_node("Slice", ["pairs", "minus_one", "least", "zero", "minus_one"], ["turned"], name="reverse"),
        helper.make_node("Transpose", ["turned"], ["columns"], name="transpose", perm=[1, 0]),
        helper.make_node("Reshape", ["columns", "flat"], ["onnx_pads"], name="flatten"),
        helper.make_node("Pad", ["x", "onnx_pads"], ["y"], name="pad", mode="reflect"),
    ]
    constants = {
        "pads": [2, 3], "zeros": [0, 0, 0, 0], "two_columns": [-1, 2], "minus_one": [-1], "least": [-(2**62)],
        "zero": [0], "flat": [-1],
    }  # fmt: skip
    return model(nodes, {name: np.array(value, np.int64) for name, value in constants.items()}, out=3)


def test_pads_computed_from_constants_give_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "pad.onnx"
    onnx.save(torch_style_pad(), path)
    bare = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    own = bare.graph.output[0].type.tensor_type.shape.dim
    assert not any(dim.HasField("dim_value") for dim in own), "onnx follows this by now: the folding can go"
    source = source_of(load_model(path))
    pad = next(node for node in source.nodes if node.name == "pad")
    assert [tensor.shape for tensor in pad.op.outputs if tensor] == [(1, 3, 8 + 2 + 3)]
    assert pad.op.inputs[1] is not None
    assert pad.op.inputs[1].value == (0, 0, 2, 0, 0, 3)
    assert source.model.shape_coverage == 1.0
    # The nodes stay what they are; only their values are known.
    assert [node.op.op_type for node in source.nodes] == ["Concat", "Reshape", "Slice", "Transpose", "Reshape", "Pad"]
    assert [node.constant for node in source.nodes] == [True] * 5 + [False]


def test_bodies_see_constants_of_the_graphs_around_them() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Neg", ["negative"], ["target"], name="inner_neg"),
            helper.make_node("Reshape", ["x", "target"], ["inner"], name="inner_reshape"),
        ],
        "body",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [None])],
    )
    found = model(
        [
            helper.make_node("Neg", ["w"], ["negative"], name="outer_neg"),
            helper.make_node("Reshape", ["x", "negative"], ["unused"], name="outer_reshape"),
            helper.make_node("If", ["cond"], ["y"], name="if", then_branch=body, else_branch=body),
        ],
        {"w": np.array([24], np.int64), "cond": np.array(True)},
    )
    values = computed(found)
    assert values[""]["negative"].tolist() == [-24]
    assert values["if/then_branch"]["target"].tolist() == [24]
    assert values["if/else_branch"]["target"].tolist() == [24]


def test_the_same_op_on_the_same_constants_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporters repeat the same little graph in every layer."""
    runs: list[str] = []

    class Counted(ReferenceEvaluator):
        def __init__(self, proto: FunctionProto) -> None:
            runs.append(proto.node[0].op_type)
            super().__init__(proto)

    monkeypatch.setattr("onnx.reference.ReferenceEvaluator", Counted)
    nodes = []
    for index in range(50):
        value = numpy_helper.from_array(np.array([index % 2], np.int64))
        nodes += [
            helper.make_node("Constant", [], [f"c{index}"], name=f"c{index}", value=value),
            helper.make_node("Max", [f"c{index}", "w"], [f"t{index}"], name=f"max{index}"),
            helper.make_node("Reshape", ["x", f"t{index}"], [f"y{index}"], name=f"reshape{index}"),
        ]
    values = computed(model(nodes, {"w": np.array([-1], np.int64)}))[""]
    assert runs == ["Max", "Max"]
    assert [values[f"t{index}"].tolist() for index in range(4)] == [[0], [1], [0], [1]]


@pytest.mark.parametrize(
    ("op_type", "count", "axes"),
    [
        ("Add", 2, (None,)), ("Mul", 2, (None,)), ("Div", 2, (None,)), ("Gather", 2, (None, 0, 1, -1)),
        ("Unsqueeze", 2, (None,)), ("Concat", 2, (0, 1)), ("Range", 3, (None,)),
    ],
)  # fmt: skip
def test_integers_are_computed_as_the_reference_computes_them(
    op_type: str, count: int, axes: tuple[int | None, ...]
) -> None:
    """On every mix of small operands that is not left to onnx's own implementation."""
    numbers = [np.array(value, np.int64) for value in (0, 2, 1, -1, [1], [1, 2], [-2, 7], [[1, 2], [3, 4]])]
    told = 0
    for axis, given in itertools.product(axes, itertools.product(numbers, repeat=count)):
        names = list("abc")[:count]
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        node = helper.make_node(op_type, names, ["y"], **attributes)
        plain = of_integers(node, list(given))
        if plain is None:
            continue
        told += 1
        graph = helper.make_graph(
            [node], "g", [helper.make_value_info(name, onnx_graph.ANY_TYPE) for name in names],
            [helper.make_value_info("y", onnx_graph.ANY_TYPE)],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        (expected,) = ReferenceEvaluator(model).run(None, dict(zip(names, given, strict=True)))
        expected = np.asarray(expected)
        assert (plain.dtype, plain.shape, plain.tolist()) == (expected.dtype, expected.shape, expected.tolist())
    assert told >= 4
