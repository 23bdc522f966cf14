"""Random inputs that decide shapes are named, and others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtprof.analysis.random_shapes import describe_random_shapes
from trtprof.base.records import Layer, Op, Tensor
from trtprof.source.load import load_model, source_of
from trtprof.source.shapes import parse_shapes


def test_random_values_that_decide_a_shape_are_named_with_what_was_seen(tmp_path: Path) -> None:
    zeros = numpy_helper.from_array(np.asarray([0], np.int64), "start")
    nodes = [
        helper.make_node("Mul", ["x", "speed"], ["scaled"], "scale"),
        helper.make_node("ReduceSum", ["scaled"], ["sum"], "sum", keepdims=1),
        helper.make_node("Abs", ["sum"], ["size"], "abs"),
        helper.make_node("Cast", ["size"], ["end"], "cast", to=TensorProto.INT64),
        helper.make_node("Slice", ["other", "start", "end"], ["y"], "slice"),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
        for name, size in (("x", 4), ("speed", 1), ("other", 6))
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph(nodes, "g", inputs, [output], [zeros])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    source = source_of(load_model(path), parse_shapes(()))
    seen = Layer(name="slice", op=Op(op_type="Slice", outputs=(Tensor(name="y", dtype="fp32", shape=(2,)),)))
    told = describe_random_shapes(source, [seen], 0)
    assert "values of x, speed = 0.627 decide shapes, such as y 2: give" in told
    assert "other" not in told, "its values decide none"

    # The shape of a tensor decides, whatever its values are; which one it has, nobody knows before the run.
    graph.node[0].CopyFrom(helper.make_node("Unheard", ["x"], ["scaled"], "unheard", domain="my.own"))
    graph.node[3].CopyFrom(helper.make_node("Shape", ["scaled"], ["end"], "shape"))
    del graph.node[1:3]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    source = source_of(load_model(path), parse_shapes(()))
    assert any(tensor.shape == ("?",) for tensor in source.nodes[-1].op.outputs if tensor is not None)
    assert describe_random_shapes(source, [], 0) == ""
