"""Plugins put into models: what ONNX Runtime makes of them, and what of the file stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.checker
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.plugin_models import same, takes, written
from tests.fakes.random_graphs import drawn
from tests.fakes.support import SAMPLES, refused
from trtprof.base.errors import UsageError
from trtprof.base.records import Inserted
from trtprof.plugin.insert import insert
from trtprof.plugin.model import Model, opened
from trtprof.plugin.select import alike, choices, chosen


def put(model: Model, nodes: Sequence[str], path: Path, **how: Any) -> tuple[Inserted, onnx.ModelProto]:
    """A plugin for these nodes wherever they are, and the new model."""
    task = chosen(model, nodes).task
    record = insert(model, task, alike(model, task).places, path, **how)
    return record, onnx.load(path, load_external_data=False)


def custom(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [node for node in graph.node if node.domain == "trtprof"]


def names(graph: onnx.GraphProto) -> list[str]:
    return [node.name for node in graph.node]


# --- what it computes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "node", "places"),
    [
        ("transformer_block", "/layer0/mlp/fc1/MatMul", 2),
        ("transformer_block", "/layer0/attention/Softmax", 2),
        ("qdq_cnn", "/stage1/conv1/Conv", 1),
        ("lstm", "/lstm/LSTM", 1),
    ],
)
def test_samples_make_the_same(tmp_path: Path, model: str, node: str, places: int) -> None:
    path, made = SAMPLES / f"{model}.onnx", tmp_path / "with.onnx"
    original = opened(path)
    task = choices(original, node)[0].task
    record = insert(original, task, alike(original, task).places, made)
    assert (len(record.places), record.function, record.model) == (places, True, "with.onnx")
    graph = onnx.load(made).graph
    assert [(one.op_type, one.name) for one in custom(graph)] == [(task.name, place[0]) for place in record.places] or (
        {one.op_type for one in custom(graph)} == {task.name}
    )
    rng = np.random.default_rng(0)
    feeds = {}
    for info in graph.input:
        shape = [dim.dim_value or 3 for dim in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        whole = dtype.kind in "iub"
        feeds[info.name] = (rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)).astype(dtype)
    assert same(path, made, feeds)


@pytest.mark.parametrize("seed", range(40))
def test_random_models_make_the_same(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    one = drawn(random)
    path, made = tmp_path / "model.onnx", tmp_path / "with.onnx"
    onnx.save(one.model, path)
    others = [feeds for feeds in one.others if takes(path, feeds)]
    model, tried = opened(path), 0
    for name in random.sample(list(model.nodes), len(model.nodes)):
        try:
            task = random.choice(choices(model, name)).task
        except UsageError:
            continue
        insert(model, task, alike(model, task).places, made, force=True)
        assert all(same(path, made, feeds) for feeds in (*one.feeds[:1], *others)), name
        tried += 1
        if tried == 2:
            break


def test_opsets_and_ir_versions(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for opset, ir_version in ((7, 3), (11, 6), (18, 8), (23, 11)):
        with subtests.test(f"{opset} {ir_version}"):
            folder = tmp_path / str(opset)
            folder.mkdir()
            listed = ", float[3] w, float k" if ir_version < 4 else ""
            path = written(
                folder / "model.onnx",
                f"""g (float[N,3] a{listed}) => (float[N,3] y) <float[3] w = {{1,2,3}}, float k = {{2}}>
        {{ [m] m = Mul(a, k) [s] s = Add(m, w) [y] y = Relu(s) }}""",
                opset=opset,
                ir_version=ir_version,
            )
            _, proto = put(opened(path), ("m", "s"), folder / "with.onnx")
            assert proto.ir_version == max(ir_version, 8)
            assert [info.name for info in proto.graph.input] == ["a"]
            assert [(one.domain, one.version) for one in proto.functions[0].opset_import] == [("", opset)]
            onnx.checker.check_model(proto, full_check=True)
            assert same(path, folder / "with.onnx", {"a": np.asarray([[1, -9, 2]], np.float32)})


def test_bodies_of_control_flow(tmp_path: Path) -> None:
    path = written(
        tmp_path / "model.onnx",
        """g (float[4] a, bool c) => (float[4] y) <float[4] w = {1,2,3,4}>
        { [s] s = Exp(a)
          [if] y = If (c) <then_branch = t () => (float[4] r) { [n] n = Neg(s) [r] r = Add(n, w) },
                           else_branch = e () => (float[4] q) { [o] o = Neg(s) [q] q = Add(o, w) }> }""",
    )
    record, proto = put(opened(path), ("n", "r"), tmp_path / "with.onnx")
    assert record.places == (("n", "r"), ("o", "q"))
    bodies = [attribute.g for attribute in proto.graph.node[1].attribute]
    assert [[(node.domain, list(node.input)) for node in body.node] for body in bodies] == [
        [("trtprof", ["s", "w"])]
    ] * 2
    for taken in (True, False):
        feeds = {"a": np.arange(4, dtype=np.float32), "c": np.asarray(taken)}
        assert same(path, tmp_path / "with.onnx", feeds)


# --- the node and its function -------------------------------------------------------------------

TWO = """g (float[N,4] a, float[M,4] b) => (float[N,2] y, float[M,2] z)
    <float[4,2] k = {1,2,3,4,5,6,7,8}, float[4,2] l = {8,7,6,5,4,3,2,1}, float half = {0.5}, float[2] bias = {1,2}>
    { [p] p = MatMul(a, k) [u] u = Mul(p, half) [y] y = Add(u, bias)
      [q] q = MatMul(b, l) [v] v = Mul(q, half) [z] z = Add(v, bias) }"""


def test_the_custom_node_says_which_plugin_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "model.onnx", TWO)
    model = opened(path)
    record, proto = put(model, ("p", "u"), tmp_path / "with.onnx")
    assert record.places == (("p", "u"), ("q", "v"))
    first, _, second, _ = proto.graph.node
    for node, inputs in ((first, ["a", "k"]), (second, ["b", "l"])):
        assert list(node.input) == inputs
        assert {one.name: helper.get_attribute_value(one) for one in node.attribute} == {
            "plugin_namespace": b"trtprof",
            "plugin_version": b"1",
        }
    assert names(proto.graph) == ["p", "y", "q", "z"]  # named like the node with most arithmetic
    assert [node.op_type for node in proto.functions[0].node] == ["Constant", "MatMul", "Mul"]
    assert proto.functions[0].name == first.op_type == second.op_type
    assert sorted(proto.functions[0].attribute) == ["plugin_namespace", "plugin_version"]
    assert {(one.domain, one.version) for one in proto.opset_import} == {("", 17), ("trtprof", 1)}
    assert [tensor.name for tensor in proto.graph.initializer] == ["k", "l", "bias"]  # half is in the function
    assert "half" in {tensor.name for tensor in model.proto.graph.initializer}  # the model itself is as it was


def test_another_plugin_of_the_name_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "model.onnx", TWO)
    model = opened(path)
    task = chosen(model, ("p", "u")).task
    insert(model, task, alike(model, task, ("p",)).places, tmp_path / "one.onnx")
    proto = onnx.load(tmp_path / "one.onnx")
    proto.functions[0].node[2].op_type = "Add"
    onnx.save(proto, tmp_path / "one.onnx")
    with pytest.raises(UsageError, match="another plugin that is called") as error:
        put(opened(tmp_path / "one.onnx"), ("q", "v"), tmp_path / "two.onnx")
    assert "computes something else" in refused(error.value)


# --- what stays ----------------------------------------------------------------------------------


def test_all_else_stays(tmp_path: Path) -> None:
    proto = onnx.load(written(tmp_path / "model.onnx", TWO, ir_version=10, more=', "own" : 1'))
    own = helper.make_function("own", "Keep", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])],
                               [helper.make_opsetid("", 17)])  # fmt: skip
    proto.functions.append(own)
    proto.graph.node.append(helper.make_node("Keep", ["y"], ["kept"], name="own", domain="own"))
    proto.graph.output.append(helper.make_tensor_value_info("kept", TensorProto.FLOAT, ["N", 2]))
    named: dict[str, list[str | int | None]] = {"p": ["N", 2], "u": ["N", 2], "kept_too": ["N"]}
    for name, dims in named.items():
        proto.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
    proto.graph.quantization_annotation.add(tensor_name="p")
    proto.graph.quantization_annotation.add(tensor_name="y")
    proto.metadata_props.add(key="who", value="me")
    proto.graph.node[0].metadata_props.add(key="where", value="layer 0")
    proto.graph.node[0].doc_string = "a product"
    proto.producer_name, proto.doc_string = "someone", "what it is"
    onnx.save(proto, tmp_path / "model.onnx")
    _, made = put(opened(tmp_path / "model.onnx"), ("p", "u"), tmp_path / "with.onnx")
    assert made.functions[0] == own
    assert (made.producer_name, made.doc_string, made.metadata_props[0].value) == ("someone", "what it is", "me")
    assert [info.name for info in made.graph.value_info] == ["u", "kept_too", "v"]
    assert [note.tensor_name for note in made.graph.quantization_annotation] == ["y"]
    assert (made.graph.node[0].metadata_props[0].value, made.graph.node[0].doc_string) == ("layer 0", "a product")
    assert list(made.graph.input) == list(proto.graph.input)
    assert list(made.graph.output) == list(proto.graph.output)
    feeds = {"a": np.ones((2, 4), np.float32), "b": np.ones((3, 4), np.float32)}
    assert same(tmp_path / "model.onnx", tmp_path / "with.onnx", feeds)


def test_nodes_stay_in_an_order_in_which_they_can_run(tmp_path: Path) -> None:
    path = written(
        tmp_path / "model.onnx",
        """g (float[4] a, float[4] b) => (float[4] y, float[4] z)
        { [s] s = Exp(a) [r] r = Softmax(s) [m] m = Softmax(r) [z] z = Neg(b) [y] y = Mul(s, b)
          [f] f = Identity(m) }""",
    )
    proto = onnx.load(path)
    proto.graph.output[1].name = "f"
    onnx.save(proto, path)
    _, made = put(opened(path), ("s", "y"), tmp_path / "with.onnx")
    assert names(made.graph) == ["z", "y", "r", "m", "f"]
    feeds = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32)}
    assert same(path, tmp_path / "with.onnx", feeds)


def test_weights_beside_the_file_are_copied_and_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "model.onnx", TWO)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, here / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=16)
    model = opened(here / "model.onnx")
    _, made = put(model, ("p", "u"), there / "with.onnx")
    assert (there / "weights.bin").read_bytes() == (here / "weights.bin").read_bytes()
    tensors = {tensor.name: tensor for tensor in made.graph.initializer}
    assert tensors["k"].data_location == TensorProto.EXTERNAL
    assert not tensors["k"].raw_data
    feeds = {"a": np.ones((2, 4), np.float32), "b": np.ones((3, 4), np.float32)}
    assert same(path, there / "with.onnx", feeds)
    put(model, ("p", "u"), there / "bare.onnx", function=False)  # the same weights once more
    put(model, ("p", "u"), here / "with.onnx")  # and without a copy
    (there / "weights.bin").write_bytes(b"another")
    with pytest.raises(UsageError, match=r"weights\.bin exists"):
        put(model, ("p", "u"), there / "third.onnx")
    put(model, ("p", "u"), there / "third.onnx", force=True)
    assert (there / "weights.bin").read_bytes() == (here / "weights.bin").read_bytes()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = written(tmp_path / "model.onnx", TWO)
    before = path.read_bytes()
    for force in (False, True):
        with pytest.raises(UsageError, match="is the model itself"):
            put(opened(path), ("p", "u"), path, force=force)
    put(opened(path), ("p", "u"), tmp_path / "with.onnx")
    with pytest.raises(UsageError, match="exists") as error:
        put(opened(path), ("q", "v"), tmp_path / "with.onnx")
    assert "--force" in refused(error.value)
    put(opened(path), ("q", "v"), tmp_path / "with.onnx", force=True)
    assert path.read_bytes() == before
