"""Engine layers to ONNX nodes, with real ONNX Runtime and with models whose truth is known.

Which fusions ONNX Runtime makes depends on its release and on the CPU (blocked layouts). Where it
may differ, the expectation follows from the saved optimised graph.
"""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.support import SAMPLES, ort_engine, real_models
from trtprof.align import _graph
from trtprof.align.nodes import match_layers
from trtprof.base.records import Layer, Node, NodeFate, Op, Tensor
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import load_model, source_of

HEAVY = {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "ConvInteger", "MatMulInteger"}
"""Ops that no backend computes twice or drops."""
NCHWC = "com.microsoft.nchwc"
RNG = np.random.default_rng(0)
n = helper.make_node


class Matched(NamedTuple):
    """A model matched, with the owners of each node."""

    nodes: dict[str, Node]
    layers: tuple[Layer, ...]
    fates: dict[str, NodeFate]
    owners: dict[str, list[Layer]]

    def layer_of(self, node: str) -> Layer:
        """The one layer that computes a node."""
        (owner,) = self.owners[node]
        return owner


def match(model: onnx.ModelProto | Path) -> Matched:
    """Build with ONNX Runtime as a run does, and match; the invariants of every match are checked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "asked.onnx"
        if isinstance(model, Path):
            path = model
        else:
            onnx.save(model, str(path))
        loaded = load_model(path)
        source = source_of(loaded)
        named = folder / "named.onnx"
        named.write_bytes(loaded.full().SerializeToString())
        engine = ort_engine(SessionRequest(model=str(named), threads=1), folder)
    return matched(source.nodes, engine.layers)


def matched(nodes: Sequence[Node], layers: Sequence[Layer]) -> Matched:
    found, fates = match_layers(nodes, layers)
    owners: dict[str, list[Layer]] = defaultdict(list)
    for layer in found:
        for name in layer.nodes:
            owners[name].append(layer)
    result = Matched({node.name: node for node in nodes}, found, {fate.node: fate for fate in fates}, owners)
    assert [fate.node for fate in fates] == [node.name for node in nodes], "not one fate a node, in order"
    assert [layer.name for layer in found] == [layer.name for layer in layers]
    for fate in fates:
        assert fate.fate != "lost", fate
        assert (fate.fate == "layer") == bool(fate.layers), fate
        assert sorted(fate.layers) == sorted(layer.name for layer in owners[fate.node]), fate
        assert fate.fate == "layer" or fate.reason, f"{fate.node} is gone without a reason"
    for layer in found:
        assert len(layer.nodes) == len(set(layer.nodes)), layer
        assert layer.match == "none" or layer.reason
    return result


def check_heavy_nodes(found: Matched) -> None:
    """Every node that does real work runs in exactly one layer, and no layer takes another's."""
    for name, node in found.nodes.items():
        if node.op.op_type in HEAVY and found.fates[name].fate == "layer":
            assert len(found.owners[name]) == 1, f"{name} is in {[layer.name for layer in found.owners[name]]}"
        if node.op.op_type in HEAVY and not node.constant:
            assert found.fates[name].fate in ("layer", "eliminated"), found.fates[name]
    makers = {
        (layer.graph, tensor.name): layer
        for layer in found.layers
        if layer.role != "layout"
        for tensor in layer.op.outputs
        if tensor is not None
    }
    for layer in found.layers:
        for name in layer.nodes:
            for tensor in found.nodes[name].op.outputs:
                maker = makers.get((layer.graph, tensor.name)) if tensor is not None else None
                # What another layer makes under its own name cannot be inside of this one.
                same_node = maker is not None and name in maker.nodes
                assert maker is None or maker is layer or same_node, f"{layer.name} takes {name} from {maker.name}"


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array((RNG.standard_normal(shape) * 0.1).astype(np.float32), name)


def scalar(name: str, value: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)


def ints(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype=np.int64), name)


def batchnorm(prefix: str, channels: int) -> list[onnx.TensorProto]:
    values = np.abs(RNG.standard_normal((4, channels))).astype(np.float32) + 0.5
    return [numpy_helper.from_array(row, prefix + part) for part, row in zip("sbmv", values, strict=True)]


def bn(node_input: str, output: str, name: str, prefix: str) -> onnx.NodeProto:
    return n("BatchNormalization", [node_input, *(prefix + part for part in "sbmv")], [output], name)


def value(name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(nodes: Iterable[onnx.NodeProto], outputs: Iterable[onnx.ValueInfoProto], *inputs: Any) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs))


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto],
    outputs: Iterable[onnx.ValueInfoProto],
    constants: Iterable[onnx.TensorProto] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    body = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants))
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


IMAGE = [value("x", 1, 16, 8, 8)]
IMAGE_OUT = [value("y", 1, 16, 8, 8)]
MATRIX = [value("x", 4, 16)]
MATRIX_OUT = [value("y", 4, 16)]


@pytest.mark.nightly
def test_every_node_of_a_real_model_has_a_fate_and_heavy_nodes_have_one_layer(subtests: pytest.Subtests) -> None:
    for path in real_models():
        with subtests.test(path=path):
            found = match(path)
            check_heavy_nodes(found)
            for layer in found.layers:
                assert layer.match != "none", layer
                assert layer.nodes or layer.role == "layout", f"{layer.name} computes no node"


def test_quantised_convolutions_run_from_dequantize_to_quantize() -> None:
    found = match(SAMPLES / "qdq_cnn.onnx")
    convs = [layer for layer in found.layers if layer.op.op_type == "QLinearConv"]
    assert convs, "ONNX Runtime's CPU provider makes QLinearConv of this model"
    for layer in convs:
        ops = [found.nodes[name].op.op_type for name in layer.nodes]
        assert ops[0] == "DequantizeLinear"
        assert ops[-1] == "QuantizeLinear"
        assert ops.count("Conv") == 1
    pool = found.layer_of("/pool/GlobalAveragePool")
    assert "/pool/GlobalAveragePool_output_0_QuantizeLinear" in pool.nodes, "it belongs to the op, not to a Transpose"
    for layer in found.layers:
        if layer.op.op_type == "Transpose":
            assert (layer.role, layer.nodes) == ("layout", ())
            assert "inserted by the backend to move tensor" in layer.reason


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh"])
def test_conv_batchnorm_activation_is_one_layer(activation: str) -> None:
    nodes = [n("Conv", ["x", "w"], ["a"], "conv"), bn("a", "b", "norm", "p"), n(activation, ["b"], ["y"], "act")]
    found = match(model(nodes, IMAGE, IMAGE_OUT, [weight("w", 16, 16, 1, 1), *batchnorm("p", 16)]))
    owner = found.layer_of("conv")
    assert owner.nodes == ("conv", "norm", "act")
    assert owner.match == "exact"
    assert owner.role == "compute"


@pytest.mark.parametrize("shortcut", ["x", "c0"])
def test_the_residual_add_goes_with_the_convolution_that_sums(shortcut: str) -> None:
    """Two convolutions could take the Add; the one that the engine gave a summand did."""
    nodes = [
        n("Conv", ["x", "w0"], ["c0"], "conv0"),
        n("Conv", ["c0", "w1"], ["c1"], "conv1"),
        bn("c1", "b1", "norm", "p"),
        n("Add", ["b1", shortcut], ["s"], "add"),
        n("Relu", ["s"], ["y"], "relu"),
    ]
    constants = [weight("w0", 16, 16, 1, 1), weight("w1", 16, 16, 3, 3), *batchnorm("p", 16)]
    nodes[1].attribute.append(helper.make_attribute("pads", [1, 1, 1, 1]))
    found = match(model(nodes, IMAGE, IMAGE_OUT, constants))
    check_heavy_nodes(found)
    assert found.layer_of("conv0").nodes == ("conv0",)
    owner = found.layer_of("conv1")
    if any(layer.op.op_type == "Add" for layer in found.layers):
        assert owner.nodes == ("conv1", "norm")
    else:
        assert len(owner.op.inputs) > 3
        assert owner.nodes == ("conv1", "norm", "add", "relu")


def test_batchnorm_and_mul_that_became_convolutions_of_their_own() -> None:
    """`x_bn_nchwc` and `x_mul_nchwc` are 1x1 convolutions; neither takes what stands before it."""
    nodes = [
        n("Conv", ["x", "w"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        n("Relu", ["a"], ["r"], "relu"),
        bn("r", "b", "norm", "p"),
        n("Mul", ["b", "k"], ["m"], "mul"),
        n("Conv", ["m", "w2"], ["y"], "conv2"),
    ]
    constants = [weight("w", 16, 16, 3, 3), weight("w2", 16, 16, 1, 1), weight("k", 16, 1, 1), *batchnorm("p", 16)]
    found = match(model(nodes, IMAGE, IMAGE_OUT, constants))
    check_heavy_nodes(found)
    assert found.layer_of("conv1").nodes == ("conv1", "relu")
    assert found.layer_of("norm").nodes == ("norm",)
    assert found.layer_of("mul").nodes == ("mul",)
    assert found.layer_of("conv2").nodes == ("conv2",)
    if found.layer_of("conv1").op.domain == NCHWC:
        assert found.layer_of("norm").op.op_type == "Conv", "else this test shows nothing: rename it"
        assert found.layer_of("mul").name.endswith("_mul_nchwc")


def test_a_tensor_that_is_really_called_bn_is_not_mistaken_for_a_batchnorm() -> None:
    """Caffe2 calls tensors `conv1_bn`; the convolution that makes one is no batch normalisation."""
    nodes = [
        n("Conv", ["x", "w"], ["conv1"], "first"),
        n("Sigmoid", ["conv1"], ["s"], "sigmoid"),
        n("MaxPool", ["conv1"], ["q"], "pool", kernel_shape=[1, 1]),
        n("Conv", ["q", "w2"], ["conv1_bn"], "second"),
        n("Add", ["conv1_bn", "s"], ["y"], "add"),
    ]
    found = match(model(nodes, IMAGE, IMAGE_OUT, [weight("w", 16, 16, 1, 1), weight("w2", 16, 16, 1, 1)]))
    check_heavy_nodes(found)
    assert "second" in found.layer_of("second").nodes
    assert "first" not in found.layer_of("second").nodes


def test_reorders_are_layout_layers_and_compute_no_node() -> None:
    nodes = [n("Conv", ["x", "w"], ["a"], "conv"), n("Softmax", ["a"], ["y"], "softmax")]
    found = match(model(nodes, IMAGE, IMAGE_OUT, [weight("w", 16, 16, 1, 1)]))
    reorders = [layer for layer in found.layers if layer.op.op_type.startswith("Reorder")]
    assert bool(reorders) == (found.layer_of("conv").op.domain == NCHWC)
    for layer in reorders:
        assert (layer.role, layer.nodes, layer.match) == ("layout", (), "exact")
    assert [layer.op.op_type for layer in found.layers if layer.role == "layout"] == [
        layer.op.op_type for layer in reorders
    ]


def test_transpose_matmul_add_relu_becomes_one_gemm() -> None:
    nodes = [
        n("Transpose", ["x"], ["t"], "transpose", perm=[1, 0]),
        n("MatMul", ["t", "w"], ["m"], "matmul"),
        n("Add", ["m", "b"], ["a"], "add"),
        n("Relu", ["a"], ["y"], "relu"),
    ]
    found = match(model(nodes, [value("x", 8, 4)], [value("y", 4, 16)], [weight("w", 8, 16), weight("b", 16)]))
    owner = found.layer_of("matmul")
    assert owner.op.op_type in ("Gemm", "FusedGemm")
    assert owner.nodes == ("transpose", "matmul", "add", "relu")
    assert owner.match == "exact"


@pytest.mark.parametrize("bias", [False, True])
def test_gelu_written_out_with_erf_is_one_layer(bias: bool) -> None:
    before = [n("Add", ["m", "b"], ["g"], "bias")] if bias else []
    g = "g" if bias else "m"
    nodes = [
        n("MatMul", ["x", "w"], ["m"], "matmul"),
        *before,
        n("Div", [g, "root"], ["d"], "div"),
        n("Erf", ["d"], ["e"], "erf"),
        n("Add", ["e", "one"], ["o"], "one_more"),
        n("Mul", [g, "o"], ["p"], "mul"),
        n("Mul", ["p", "half"], ["y"], "halve"),
    ]
    inputs, outputs = [value("x", 1, 4, 16)], [value("y", 1, 4, 16)]
    constants = [weight("w", 16, 16), weight("b", 16), scalar("root", 2**0.5), scalar("one", 1), scalar("half", 0.5)]
    found = match(model(nodes, inputs, outputs, constants))
    owner = found.layer_of("erf")
    assert owner.op.op_type in ("Gelu", "BiasGelu")
    takes_bias = {"bias"} if owner.op.op_type == "BiasGelu" else set()
    assert set(owner.nodes) == takes_bias | {"div", "erf", "one_more", "mul", "halve"}
    assert owner.match == "exact"
    rest = {"bias"} - takes_bias if bias else set()
    if len(found.layers) == 2:  # the bias is in one of the two
        assert set(found.layer_of("matmul").nodes) == {"matmul"} | rest


def test_layer_norm_written_out_is_one_layer() -> None:
    nodes = [
        n("ReduceMean", ["x"], ["mu"], "mean", axes=[-1]),
        n("Sub", ["x", "mu"], ["d"], "sub"),
        n("Pow", ["d", "two"], ["p"], "pow"),
        n("ReduceMean", ["p"], ["var"], "variance", axes=[-1]),
        n("Add", ["var", "eps"], ["ve"], "epsilon"),
        n("Sqrt", ["ve"], ["sd"], "sqrt"),
        n("Div", ["d", "sd"], ["nn"], "div"),
        n("Mul", ["nn", "g"], ["ng"], "scale"),
        n("Add", ["ng", "b"], ["l"], "shift"),
        n("MatMul", ["l", "w"], ["y"], "matmul"),
    ]
    constants = [scalar("two", 2), scalar("eps", 1e-5), weight("g", 16), weight("b", 16), weight("w", 16, 16)]
    found = match(model(nodes, [value("x", 1, 4, 16)], [value("y", 1, 4, 16)], constants))
    owner = found.layer_of("sqrt")
    assert owner.op.op_type == "LayerNormalization"
    assert set(owner.nodes) == {node.name for node in nodes} - {"matmul"}
    assert found.layer_of("matmul").nodes == ("matmul",)


def test_a_chain_of_constants_is_folded() -> None:
    nodes = [
        n("Add", ["k", "k"], ["k2"], "double"),
        n("Mul", ["k2", "k"], ["k3"], "square"),
        n("Add", ["x", "k3"], ["y"], "add"),
    ]
    found = match(model(nodes, MATRIX, MATRIX_OUT, [weight("k", 16)]))
    for name in ("double", "square"):
        assert found.fates[name].fate == "folded"
        assert "constant" in found.fates[name].reason
    assert found.layer_of("add").nodes == ("add",)


@pytest.mark.parametrize("rows", [2, "rows"])
def test_shape_arithmetic_is_folded_and_not_part_of_the_reshape(rows: int | str) -> None:
    nodes = [
        n("Shape", ["x"], ["s"], "shape"),
        n("Gather", ["s", "first"], ["d"], "gather"),
        n("Unsqueeze", ["d", "axis"], ["u"], "unsqueeze"),
        n("Concat", ["u", "rest"], ["c"], "concat", axis=0),
        n("Relu", ["x"], ["r"], "relu"),
        n("Reshape", ["r", "c"], ["y"], "reshape"),
    ]
    first = numpy_helper.from_array(np.asarray(0, dtype=np.int64), "first")
    found = match(
        model(nodes, [value("x", rows, 3, 4)], [value("y", rows, 12)], [first, ints("axis", 0), ints("rest", -1)])
    )
    ran = {layer.op.op_type for layer in found.layers}
    for name in ("shape", "gather", "unsqueeze", "concat"):
        if found.nodes[name].op.op_type not in ran:
            assert found.fates[name].fate == "folded"
    assert ran >= {"Reshape", "Relu"}
    assert found.layer_of("reshape").nodes == ("reshape",)


def test_a_node_whose_result_is_never_read_runs_or_is_eliminated_and_says_so() -> None:
    nodes = [
        n("MatMul", ["x", "w"], ["dead"], "dead"),
        n("Identity", ["x"], ["also_dead"], "dead_identity"),
        n("Relu", ["x"], ["y"], "relu"),
    ]
    found = match(model(nodes, MATRIX, MATRIX_OUT, [weight("w", 16, 16)]))
    ran = {layer.op.op_type for layer in found.layers}
    if "MatMul" in ran:
        assert found.layer_of("dead").nodes == ("dead",)
    else:
        assert found.fates["dead"].reason == "its result is never read"
    if "Identity" not in ran:
        assert found.fates["dead_identity"] == NodeFate(
            node="dead_identity", fate="eliminated", reason="its result is never read"
        )


def test_common_subexpressions_are_computed_once_and_both_nodes_stand_there() -> None:
    nodes = [
        n("MatMul", ["x", "w"], ["a"], "m1"),
        n("Relu", ["a"], ["ra"], "r1"),
        n("MatMul", ["x", "w"], ["b"], "m2"),
        n("Relu", ["b"], ["rb"], "r2"),
        n("Tanh", ["ra"], ["ta"], "tanh"),
        n("Sigmoid", ["rb"], ["sb"], "sigmoid"),
        n("Add", ["ta", "sb"], ["y"], "add"),
    ]
    found = match(model(nodes, MATRIX, MATRIX_OUT, [weight("w", 16, 16)]))
    assert sum(layer.op.op_type == "MatMul" for layer in found.layers) == 1, "ONNX Runtime merges them"
    assert found.layer_of("m1") == found.layer_of("m2")
    assert found.layer_of("r1") == found.layer_of("r2")
    assert found.layer_of("tanh").nodes == ("tanh",)
    assert any("computed once, together with" in found.fates[name].reason for name in ("m1", "m2"))


def branch(prefix: str, activation: str, weights: str, output: str = "o") -> onnx.GraphProto:
    """Both branches use the same tensor names."""
    nodes = [n("Conv", ["x", weights], ["t"], prefix + "conv"), n(activation, ["t"], [output], prefix + "act")]
    return graph(nodes, [value(output, 1, 16, 8, 8)])


def if_model(condition: Iterable[onnx.NodeProto], constants: Iterable[onnx.TensorProto] = ()) -> onnx.ModelProto:
    nodes = [
        *condition,
        n("If", ["c"], ["y"], "if", then_branch=branch("t_", "Relu", "w"), else_branch=branch("e_", "Tanh", "v")),
    ]
    weights = [weight("w", 16, 16, 1, 1), weight("v", 16, 16, 1, 1)]
    return model(nodes, IMAGE, IMAGE_OUT, [*weights, *constants])


def test_branches_of_an_if_with_the_same_tensor_names_are_kept_apart() -> None:
    condition = [n("ReduceSum", ["x"], ["s"], "sum", keepdims=0), n("Greater", ["s", "zero"], ["c"], "greater")]
    found = match(if_model(condition, [scalar("zero", 0)]))
    check_heavy_nodes(found)
    assert found.layer_of("if").role == "control"
    assert found.layer_of("if").nodes == ("if",)
    assert found.layer_of("t_conv").nodes == ("t_conv", "t_act")
    assert found.layer_of("e_conv").nodes == ("e_conv", "e_act")
    assert found.layer_of("t_conv").graph == "if/then_branch"
    assert found.layer_of("e_conv").graph == "if/else_branch"


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_that_is_decided_before_the_run_leaves_the_branch_that_was_taken(taken: bool) -> None:
    constant = n("Constant", [], ["c"], "c", value=numpy_helper.from_array(np.array(taken)))
    found = match(if_model([constant]))
    assert not any(layer.op.op_type == "If" for layer in found.layers), "ONNX Runtime inlines it"
    runs, dropped, act = ("t_", "e_", "t_act") if taken else ("e_", "t_", "e_act")
    assert found.layer_of(runs + "conv").nodes == (runs + "conv", act)
    assert found.fates["if"].fate == "folded"
    for name in (dropped + "conv", dropped + "act"):
        assert found.fates[name] == NodeFate(node=name, fate="eliminated", reason="its branch is never taken")


def test_inner_tensors_of_a_branch_that_was_inlined_are_found_under_their_new_names() -> None:
    inner = [
        n("MatMul", ["h", "w"], ["t"], "matmul"),
        n("Sigmoid", ["t"], ["u"], "sigmoid"),
        n("Sin", ["t"], ["v"], "sin"),
        n("Sub", ["u", "v"], ["o"], "sub"),
    ]
    other = graph([n("Neg", ["h"], ["o"], "neg")], [value("o", 4, 16)])
    nodes = [
        n("Tanh", ["x"], ["h"], "tanh"),
        n("Constant", [], ["c"], "c", value=numpy_helper.from_array(np.array(True))),
        n("If", ["c"], ["i"], "if", then_branch=graph(inner, [value("o", 4, 16)]), else_branch=other),
        n("Relu", ["i"], ["y"], "relu"),
    ]
    found = match(model(nodes, MATRIX, MATRIX_OUT, [weight("w", 16, 16)]))
    for name in ("tanh", "matmul", "sigmoid", "sin", "sub", "relu"):
        assert found.layer_of(name).nodes == (name,)
        assert found.layer_of(name).match == "exact"


def test_the_body_of_a_loop_is_matched_in_its_own_graph() -> None:
    body = graph(
        [
            n("MatMul", ["state", "w"], ["m"], "matmul"),
            n("Relu", ["m"], ["next"], "relu"),
            n("Identity", ["go"], ["still"], "identity"),
        ],
        [value("still", dtype=TensorProto.BOOL), value("next", 4, 4)],
        value("i", dtype=TensorProto.INT64),
        value("go", dtype=TensorProto.BOOL),
        value("state", 4, 4),
    )
    nodes = [n("Loop", ["times", "", "x"], ["y"], "loop", body=body)]
    inputs = [value("x", 4, 4), value("times", dtype=TensorProto.INT64)]
    found = match(model(nodes, inputs, [value("y", 4, 4)], [weight("w", 4, 4)]))
    check_heavy_nodes(found)
    assert found.layer_of("loop").role == "control"
    assert found.layer_of("matmul").graph == "loop/body"
    assert found.layer_of("relu").nodes[-1] == "relu"


def test_a_tensor_read_by_a_branch_alone_is_read() -> None:
    """Its maker must not be called dead, wherever it went."""
    condition = [n("ReduceSum", ["x"], ["s"], "sum", keepdims=0), n("Greater", ["s", "zero"], ["c"], "greater")]
    inner = graph([n("Exp", ["i"], ["o"], "exp")], [value("o", 4, 16)])
    other = graph([n("Neg", ["x"], ["o"], "neg")], [value("o", 4, 16)])
    nodes = [
        *condition,
        n("Relu", ["x"], ["r"], "relu"),
        n("Identity", ["r"], ["i"], "identity"),
        n("If", ["c"], ["y"], "if", then_branch=inner, else_branch=other),
    ]
    found = match(model(nodes, MATRIX, MATRIX_OUT, [scalar("zero", 0)]))
    assert found.layer_of("relu").nodes == ("relu",)
    assert "never read" not in found.fates["identity"].reason


def test_a_function_that_runs_in_several_layers_is_in_all_of_them() -> None:
    nodes = [
        n("Relu", ["x"], ["r"], "relu"),
        n("GroupNormalization", ["r", "s", "b"], ["g"], "groupnorm", num_groups=2),
        n("Sigmoid", ["g"], ["y"], "sigmoid"),
    ]
    found = match(model(nodes, IMAGE, IMAGE_OUT, [weight("s", 16), weight("b", 16)], opset=21))
    assert found.layer_of("relu").nodes == ("relu",)
    assert found.layer_of("sigmoid").nodes == ("sigmoid",)
    steps = found.owners["groupnorm"]
    assert len(found.layers) == len(steps) + 2
    assert all(layer.nodes == ("groupnorm",) for layer in steps)
    if len(steps) > 1:
        assert sum("a step of 'groupnorm'" in layer.reason for layer in steps) == len(steps) - 1
        assert all(layer.role == "compute" for layer in steps), "a Cast in it does the model's work"


def random_model(seed: int) -> onnx.ModelProto:
    """A graph of ops that ONNX Runtime likes to fuse; every convolution and matrix has its own weights."""
    draw = random.Random(seed)
    image = draw.random() < 0.6
    shape = [1, 16, 8, 8] if image else [4, 16]
    constants = [scalar("lo", 0), scalar("hi", 6), scalar("one", 1), scalar("root", 2**0.5), scalar("half", 0.5)]
    constants += [*batchnorm("p", 16), weight("k", 16, 1, 1) if image else weight("k", 16), weight("g", 16)]
    nodes: list[onnx.NodeProto] = []
    tensors, read = ["x"], set[str]()

    def add(op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type.lower()}_{len(nodes)}"
        nodes.append(n(op_type, list(inputs), [f"t{len(nodes)}"], name, **attributes))
        read.update(inputs)
        return f"t{len(nodes) - 1}"

    def fresh_weight(*dims: int) -> str:
        constants.append(weight(f"w{len(constants)}", *dims))
        return constants[-1].name

    def gelu(x: str) -> str:
        return add("Mul", add("Mul", x, add("Add", add("Erf", add("Div", x, "root")), "one")), "half")

    shared = [
        lambda x: add("Add", x, draw.choice(tensors)),
        lambda x: add("Relu", x),
        lambda x: add("Identity", x),
        lambda x: add("HardSwish", x),
        lambda x: add("Mul", x, "k"),
        lambda x: add("Mul", x, add("Sigmoid", x)),
    ]
    images = [
        lambda x: add("Conv", x, fresh_weight(16, 16, 1, 1)),
        lambda x: add("Conv", x, fresh_weight(16, 16, 1, 1)),
        lambda x: add("BatchNormalization", x, "ps", "pb", "pm", "pv"),
        lambda x: add("Clip", x, "lo", "hi"),
        lambda x: add("MaxPool", x, kernel_shape=[1, 1]),
    ]
    matrices = [
        lambda x: add("MatMul", x, fresh_weight(16, 16)),
        lambda x: add("Add", add("MatMul", x, fresh_weight(16, 16)), "k"),
        lambda x: add("LayerNormalization", x, "g", "k"),
        lambda x: add("MatMul", add("Softmax", add("MatMul", x, add("Transpose", x, perm=[1, 0]))), x),
        lambda x: add("Dropout", x),
        gelu,
    ]
    for _ in range(draw.randint(4, 20)):
        x = tensors[-1] if draw.random() < 0.65 else draw.choice(tensors[-5:])
        tensors.append(draw.choice(shared + (images if image else matrices))(x))
    outputs = [value(name, *shape) for name in tensors[1:] if name not in read]
    return model(nodes, [value("x", *shape)], outputs, constants, opset=20)


def test_a_random_model_is_matched_without_loss_or_greed(subtests: pytest.Subtests) -> None:
    for seed in range(12):
        with subtests.test(seed=seed):
            found = match(random_model(seed))
            check_heavy_nodes(found)
            family = {
                "Conv": "Conv",
                "FusedConv": "Conv",
                "MatMul": "MatMul",
                "FusedMatMul": "MatMul",
                "Gemm": "MatMul",
            }
            for layer in found.layers:
                assert layer.match != "none", layer
                assert layer.nodes or layer.role == "layout", layer
                own = [name for name in layer.nodes if "computed once" not in found.fates[name].reason]
                ops = [found.nodes[name].op.op_type for name in own]
                heavy = ops.count("Conv") + ops.count("MatMul")
                if layer.op.op_type in family and layer.op.domain != NCHWC:
                    assert heavy == ops.count(family[layer.op.op_type]) == 1, (layer.name, ops)
                elif layer.op.op_type == "Conv":  # a blocked one may also be a BatchNormalization or a Mul
                    assert heavy <= 1, (layer.name, ops)
                else:
                    assert heavy == 0, (layer.name, layer.op.op_type, ops)
            assert not [fate for fate in found.fates.values() if fate.reason.startswith("inferred: merged")]


def tensor(name: str, constant: bool = False) -> Tensor:
    return Tensor(name=name, dtype="fp32", shape=(4,), constant=constant)


def node(name: str, op_type: str, inputs: str, output: str) -> Node:
    ins = tuple(tensor(word, word.startswith("w")) for word in inputs.split())
    return Node(name=name, original_name=name, graph="", op=Op(op_type=op_type, inputs=ins, outputs=(tensor(output),)))


def layer(name: str, op_type: str, inputs: str, output: str, **fields: Any) -> Layer:
    ins = tuple(tensor(word, word.startswith("w")) for word in inputs.split())
    op = Op(op_type=op_type, inputs=ins, outputs=(tensor(output),), attributes=fields.pop("attributes", {}))
    return Layer(name=name, op=op, hints=fields.pop("hints", (name,)), **fields)


def test_a_layer_without_any_trace_is_unmatched_and_takes_nothing() -> None:
    nodes = [node("n", "Relu", "x", "y")]
    found = matched(nodes, [layer("n", "Relu", "x", "y"), layer("ghost", "Foo", "mystery", "unheard")])
    assert found.layers[1].match == "none"
    assert found.layers[1].nodes == ()
    assert found.layer_of("n").name == "n"


def test_a_region_never_grows_over_a_tensor_that_another_layer_makes() -> None:
    nodes = [node("a", "Exp", "x", "t"), node("b", "Neg", "t", "u"), node("c", "Sin", "u", "y")]
    # The second layer claims to read something unknown: what it reads can still not be before `t`.
    found = matched(nodes, [layer("L1", "Exp", "x", "t"), layer("L2", "Fused", "unknown", "y")])
    assert found.layers[0].nodes == ("a",)
    assert found.layers[1].nodes == ("b", "c")
    assert found.layers[1].match == "inferred", "its input is not known"


def test_what_runs_later_is_no_border() -> None:
    """`t` is also delivered in another layout behind the layer that computes it on its way to `y`."""
    nodes = [node("a", "Conv", "x w", "t"), node("b", "Relu", "t", "y")]
    layers = [
        layer("y_nchwc", "Conv", "x w", "blocked", output_hints=("y",)),
        layer("r", "ReorderOutput", "blocked", "y", role="layout"),
        layer("late", "ReorderOutput", "other", "t", role="layout", attributes={"channels_last": 1}),
    ]
    found = matched(nodes, layers)
    assert found.layers[0].nodes == ("a", "b")


def test_an_activation_is_swallowed_only_where_the_layer_declares_it() -> None:
    nodes = [node("c", "Conv", "x w", "t"), node("r", "Relu", "t", "u"), node("s", "Neg", "u", "y")]
    for attributes, expected in (({"activation": "Relu"}, ("c", "r")), ({"activation": "Tanh"}, ("c",)), ({}, ("c",))):
        conv = layer("t_nchwc", "Conv", "x w", "blocked", output_hints=("t",), attributes=attributes)
        found = matched(nodes, [conv, layer("s", "Neg", "blocked", "y")])
        assert found.layers[0].nodes == expected


@pytest.mark.parametrize(("hint", "output"), [("q", "nameless"), ("nameless", "y")])
def test_what_another_layer_is_called_after_or_makes_is_not_swallowed(hint: str, output: str) -> None:
    nodes = [node("c", "Conv", "x w", "t"), node("q", "QuantizeLinear", "t ws", "y")]
    conv = layer("c", "QLinearConv", "x w", "moved")
    found = matched(nodes, [conv, layer("L", "QuantizeLinear", "moved ws", output, hints=(hint,))])
    assert [layer.nodes for layer in found.layers] == [("c",), ("q",)]
    alone = matched(nodes, [conv])
    assert alone.layers[0].nodes == ("c", "q"), "where nobody else does it"


def test_scales_are_folded_before_a_blocked_layer_gets_its_name() -> None:
    nodes = [node("c", "Conv", "x w", "t"), node("m", "Mul", "t wk", "u"), node("s", "Neg", "u", "y")]
    end = layer("s", "Neg", "scaled", "y")
    blocked = layer("t_nchwc", "Conv", "x w", "blocked", output_hints=("t",))
    assert matched(nodes, [blocked, layer("L", "Mul", "blocked wk", "scaled"), end]).layers[0].nodes == ("c",)
    plain = layer("c", "Conv", "x w", "scaled")
    assert matched(nodes, [plain, end]).layers[0].nodes == ("c", "m")


def test_a_node_that_nothing_leads_to_goes_to_its_neighbour_and_a_lone_one_is_lost() -> None:
    nodes = [node("a", "Exp", "x", "t"), node("b", "Foo", "t", "u"), node("c", "Sin", "u", "y")]
    _, fates = match_layers(nodes, [layer("c", "Sin", "u", "y")])
    assert [fate.fate for fate in fates] == ["layer", "layer", "layer"]
    assert "merged into" in fates[0].reason
    _, fates = match_layers(nodes, [])
    assert {fate.fate for fate in fates if fate.node != "c"} == {"lost"}


def decoder(blocks: int) -> tuple[list[Node], list[Layer]]:
    """A decoder-like model, 12 nodes a block, matched by tensors alone."""
    nodes, layers, x = [], [], "x"
    for index in range(blocks):
        p = f"b{index}."
        whole = [
            ("norm", "LayerNormalization", f"{x} w{p}g", "ln"),
            *((part, "MatMul", f"{p}ln w{p}{part}", part + "m") for part in "qkv"),
            ("context", "MatMul", f"{p}scores {p}vm", "cm"),
            ("add", "Add", f"{p}cm {x}", "sum"),
        ]
        steps = [
            ("dot", "MatMul", f"{p}qm {p}km", "dots"),
            ("scale", "Div", f"{p}dots wc", "scores"),
            ("div", "Mul", f"{p}sum wk", "d"),
            ("erf", "Erf", f"{p}d", "e"),
            ("one", "Add", f"{p}e wo", "o"),
            ("gelu", "Mul", f"{p}sum {p}o", "out"),
        ]
        order = [*whole[:4], *steps[:2], *whole[4:], *steps[2:]]
        nodes += [node(p + name, op_type, inputs, p + output) for name, op_type, inputs, output in order]
        made = [layer(p + name, op_type, inputs, p + output) for name, op_type, inputs, output in whole]
        made.insert(4, layer(p + "fused", "FusedMatMul", f"{p}qm {p}km", p + "scores"))
        layers += [*made, layer(p + "fused_gelu", "Gelu", p + "sum", p + "out")]
        x = p + "out"
    return nodes, layers


def test_matching_is_linear_in_the_nodes_and_takes_28000_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in look-ups, not in seconds."""
    calls = 0
    real = _graph.SourceGraph.key

    def counted(self: _graph.SourceGraph, graph: str, name: str) -> _graph.Key:
        nonlocal calls
        calls += 1
        return real(self, graph, name)

    monkeypatch.setattr(_graph.SourceGraph, "key", counted)
    counts = []
    for blocks in (200, 2334):
        calls = 0
        nodes, layers = decoder(blocks)
        found = matched(nodes, layers)
        counts.append(calls / len(nodes))
        assert {layer.match for layer in found.layers} == {"exact"}
        assert [len(found.owners[node.name]) for node in nodes] == [1] * len(nodes)
        assert found.layer_of("b7.erf").nodes == ("b7.div", "b7.erf", "b7.one", "b7.gelu")
    assert counts[1] == pytest.approx(counts[0], rel=0.01)


def test_an_fp16_convolution_that_runs_in_fp32_is_led_to_its_node_and_not_to_the_squeeze_behind_it() -> None:
    half = numpy_helper.from_array((RNG.standard_normal((32, 32, 1, 3)) * 0.1).astype(np.float16), "w")
    nodes = [
        n("Relu", ["x"], ["r:0"], "relu"), n("Unsqueeze", ["r:0", "a"], ["u:0"], "unsqueeze"),
        n("Conv", ["u:0", "w"], ["c:0"], "conv", pads=[0, 1, 0, 1]), n("Squeeze", ["c:0", "a"], ["s:0"], "squeeze"),
        n("Add", ["s:0", "b"], ["y"], "add"),
    ]  # fmt: skip
    bias = numpy_helper.from_array(np.ones((32, 1), np.float16), "b")
    ends = (value("x", 1, 32, 128, dtype=TensorProto.FLOAT16), value("y", 1, 32, 128, dtype=TensorProto.FLOAT16))
    found = match(model(nodes, ends[:1], ends[1:], [half, bias, ints("a", 2)]))
    check_heavy_nodes(found)
    (conv,) = (layer for layer in found.layers if layer.op.op_type in ("Conv", "FusedConv"))
    assert (conv.nodes, conv.match) == (("conv",), "exact")
    assert found.layer_of("squeeze") is not conv
    casts = [layer for layer in found.layers if layer.op.op_type == "Cast"]
    assert casts or conv.op.inputs[1].dtype == "fp16"  # type: ignore[union-attr]
    assert {layer.role for layer in casts} <= {"layout"}
