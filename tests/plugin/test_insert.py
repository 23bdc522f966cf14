"""Plugins put into models: what ONNX Runtime makes of them, and what of the file stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.fakes.plugin_models import same, written
from tests.fakes.support import SAMPLES
from trtprof.base.errors import ModelError, UsageError
from trtprof.plugin.insert import insert
from trtprof.plugin.model import opened
from trtprof.plugin.select import alike, choices, chosen

TWO = """g (float[N,4] a, float[M,4] b) => (float[N,2] y, float[M,2] z) <float[4,2] k = {1,2,3,4,5,6,7,8},
    float[4,2] l = {8,7,6,5,4,3,2,1}, float half = {0.5}, float[2] bias = {1,2}>
    { [p] p = MatMul(a, k) [u] u = Mul(p, half) [y] y = Add(u, bias)
      [q] q = MatMul(b, l) [v] v = Mul(q, half) [z] z = Add(v, bias) }"""
FEEDS = {"a": np.ones((2, 4), np.float32), "b": np.ones((3, 4), np.float32)}


def put(path: Path, nodes: Sequence[str], made: Path, **how: Any) -> onnx.ModelProto:
    """The new model with a plugin for these nodes wherever they are."""
    model = opened(path)
    task = chosen(model, nodes).task
    insert(model, task, alike(model, task).places, made, **how)
    return onnx.load(made, load_external_data=False)


@pytest.mark.parametrize(
    ("model", "node", "places"),
    [("transformer_block", "/layer0/mlp/fc1/MatMul", 2), ("transformer_block", "/layer0/attention/Softmax", 2),
     ("qdq_cnn", "/stage1/conv1/Conv", 1), ("lstm", "/lstm/LSTM", 1)],
)  # fmt: skip
def test_samples_make_the_same(tmp_path: Path, model: str, node: str, places: int) -> None:
    path, made = SAMPLES / f"{model}.onnx", tmp_path / "with.onnx"
    original = opened(path)
    task = choices(original, node)[0].task
    record = insert(original, task, alike(original, task).places, made)
    graph = onnx.load(made).graph
    assert [one.op_type for one in graph.node if one.domain == "trtprof"] == [task.name] * places
    assert (len(record.places), record.function, record.model) == (places, True, "with.onnx")
    rng, feeds = np.random.default_rng(0), {}
    for info in graph.input:
        shape = [dim.dim_value or 3 for dim in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        feeds[info.name] = rng.integers(0, 2, shape).astype(dtype)
    assert same(path, made, feeds)


@pytest.mark.parametrize(("opset", "ir_version"), [(7, 3), (11, 6), (18, 8), (23, 11)])
def test_the_custom_node_names_its_plugin_and_all_else_stays(tmp_path: Path, opset: int, ir_version: int) -> None:
    listed = ", float[4,2] k, float[4,2] l, float half, float[2] bias" if ir_version < 4 else ""
    path = written(tmp_path / "model.onnx", TWO.replace("b)", f"b{listed})", 1), opset=opset, ir_version=ir_version)
    proto = onnx.load(path)
    proto.graph.value_info.extend(helper.make_tensor_value_info(name, 1, ["N", 2]) for name in ("p", "u", "kept"))
    proto.graph.node[0].metadata_props.add(key="where", value="layer 0")
    proto.producer_name, proto.graph.node[0].doc_string = "someone", "a product"
    onnx.save(proto, path)
    made = put(path, ("p", "u"), tmp_path / "with.onnx")
    first, _, second, _ = made.graph.node
    assert [(node.name, list(node.input)) for node in (first, second)] == [("p", ["a", "k"]), ("q", ["b", "l"])]
    assert {one.name: one.s for one in first.attribute} == {"plugin_namespace": b"trtprof", "plugin_version": b"1"}
    assert [node.op_type for node in made.functions[0].node] == ["Constant", "MatMul", "Mul"]
    assert made.functions[0].name == first.op_type == second.op_type
    assert {(one.domain, one.version) for one in made.opset_import} == {("", opset), ("trtprof", 1)}
    assert [tensor.name for tensor in made.graph.initializer] == ["k", "l", "bias"]  # half is in the function
    assert (made.ir_version, [info.name for info in made.graph.input]) == (max(ir_version, 8), ["a", "b"])
    assert [info.name for info in made.graph.value_info] == ["u", "kept"]
    assert (first.metadata_props[0].value, first.doc_string, made.producer_name) == ("layer 0", "a product", "someone")
    assert same(path, tmp_path / "with.onnx", FEEDS)


def test_a_model_that_is_written_can_run(tmp_path: Path) -> None:
    graph = """g (float[2,4] a, float[3,4] b) => (float[2,4] y, float[3,4] z, float[2,4] f)
        { [s] s = Exp(a) [r] r = Softmax(s) [f] f = Softmax(r) [z] z = Neg(b) [y] y = Mul(s, s) }"""
    path = written(tmp_path / "model.onnx", graph)
    made = put(path, ("s", "y"), tmp_path / "with.onnx")
    assert [node.name for node in made.graph.node] == ["z", "y", "r", "f"]
    assert same(path, tmp_path / "with.onnx", FEEDS)
    proto = onnx.load(path)
    proto.functions.append(helper.make_function("trtprof", made.functions[0].name, [], [], [], []))
    proto.opset_import.append(helper.make_opsetid("trtprof", 1))
    onnx.save(proto, path)
    with pytest.raises(ModelError, match="is no valid model"):
        put(path, ("s", "y"), tmp_path / "other.onnx")
    graph = """g (float[2,4] a, float[2,4] b) => (float[2,4] y, float[2,4] z)
        { [s] s = Exp(a) [t] t = Exp(b) [y] y = Mul(s, t) [z] z = Mul(t, s) }"""
    with pytest.raises(UsageError, match="one node each"):
        put(written(path, graph), ("s", "z"), tmp_path / "other.onnx")


def test_weights_beside_the_file_are_copied_and_nothing_is_written_over(tmp_path: Path) -> None:
    bare = written(tmp_path / "model.onnx", TWO)
    here, there = tmp_path / "here" / "model.onnx", tmp_path / "there" / "with.onnx"
    here.parent.mkdir()
    there.parent.mkdir()
    proto = onnx.load(bare)
    for one in proto.graph.initializer:
        one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one), one.name))
    onnx.save(proto, here, save_as_external_data=True, location="weights.bin", size_threshold=16)
    put(here, ("p", "u"), there)
    assert (there.parent / "weights.bin").read_bytes() == (here.parent / "weights.bin").read_bytes()
    assert same(bare, there, FEEDS)
    assert not put(here, ("p", "u"), here.parent / "bare.onnx", function=False).functions
    for place, why in ((here, "is the model itself"), (there, r"with\.onnx exists")):
        with pytest.raises(UsageError, match=why):
            put(here, ("p", "u"), place)
    (there.parent / "weights.bin").write_bytes(b"another")
    with pytest.raises(UsageError, match=r"weights\.bin exists"):
        put(here, ("p", "u"), there.with_name("third.onnx"))
    outside = onnx.load(here, load_external_data=False)
    outside.graph.initializer[0].external_data[0].value = "../weights.bin"
    onnx.save(outside, here)
    with pytest.raises(ModelError, match="where none may"):
        put(here, ("p", "u"), there, force=True)
