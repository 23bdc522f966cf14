"""Layers of TensorRT plans to ONNX nodes: real TensorRT-RTX plans, and plans made by hand for every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.engine_factory import ENGINES, layers_of
from tests.fakes.support import SAMPLES, captured
from trtprof.align.plan import match_plan
from trtprof.base.records import (
    Attribute,
    Call,
    MatchedLayer,
    Node,
    NodeFate,
    Op,
    Plan,
    PlanBinding,
    PlanLayer,
    PlanTensor,
    Tensor,
)
from trtprof.engine.inspector import read_layer_info
from trtprof.source.load import load_model, source_of

LOGS = Path(__file__).parents[1] / "engine" / "data"
PLANS = Path(__file__).parents[1] / "cost" / "data"
DIMS = (1, 8, 4, 4)


class Matched(NamedTuple):
    """What was made of a plan, by name."""

    layers: dict[str, MatchedLayer]
    fates: dict[str, NodeFate]


def check(nodes: Sequence[Node], layers: Sequence[MatchedLayer], fates: Sequence[NodeFate]) -> None:
    """The laws that hold for every plan and every model."""
    assert [fate.node for fate in fates] == [node.name for node in nodes]
    place = {node.name: index for index, node in enumerate(nodes)}
    owners: dict[str, list[MatchedLayer]] = {}
    for layer in layers:
        assert layer.reason
        assert [place[name] for name in layer.nodes] == sorted({place[name] for name in layer.nodes})
        for name in layer.nodes:
            owners.setdefault(name, []).append(layer)
    for fate in fates:
        assert (fate.fate == "layer") == (fate.node in owners)
        assert list(fate.layers) == [layer.layer.name for layer in owners.get(fate.node, [])]
        assert fate.fate == "layer" or fate.reason
    for layer in layers:
        for name in layer.nodes:
            beside = [other for other in owners[name] if other.layer.profile == layer.layer.profile]
            assert (name in layer.shared) == (len(beside) > 1)
        assert set(layer.shared) <= set(layer.nodes)


def match(
    nodes: Sequence[Node],
    layers: Sequence[PlanLayer],
    *,
    outputs: Collection[str] = (),
    added: Collection[str] = (),
    bindings: tuple[PlanBinding, ...] = (),
) -> Matched:
    plan = Plan(era="a test", layers=tuple(layers), bindings=bindings)
    matched, fates = match_plan(nodes, plan, outputs=outputs, added=added)
    assert [one.layer for one in matched] == list(layers)
    if nodes:
        check(nodes, matched, fates)
    return Matched({one.layer.name: one for one in matched}, {fate.node: fate for fate in fates})


def node(
    name: str,
    op_type: str,
    reads: str,
    makes: str,
    *,
    weights: str = "",
    original: str | None = None,
    graph: str = "",
    shape: tuple[int, ...] = DIMS,
    **attributes: Attribute,
) -> Node:
    """A node; the names of its tensors are given as words of a text."""
    inputs = [Tensor(name=one, dtype="fp32", shape=DIMS) for one in reads.split()]
    inputs += [Tensor(name=one, dtype="fp32", shape=(8, 8, 3, 3), constant=True) for one in weights.split()]
    outputs = tuple(Tensor(name=one, dtype="fp32", shape=shape) for one in makes.split())
    op = Op(op_type=op_type, attributes=attributes, inputs=tuple(inputs), outputs=outputs)
    return Node(name=name, original_name=name if original is None else original, graph=graph, op=op, constant=not reads)


def tensor(name: str, dims: tuple[int, ...] = DIMS, **more: Any) -> PlanTensor:
    return PlanTensor(name=name, dims=dims, **{"dtype": "fp32", "format": "(Linear) Row major linear format", **more})


def layer(
    name: str, reads: str, makes: str, *names: str, source: str = "metadata", kind: str = "kgen", **more: Any
) -> PlanLayer:
    """A layer; ``names`` are the ONNX nodes that it names."""
    return PlanLayer(
        name=name,
        kind=kind,
        inputs=tuple(tensor(one) for one in reads.split()),
        outputs=tuple(tensor(one) for one in makes.split()),
        onnx_nodes=names,
        nodes_from=source if names else "none",  # type: ignore[arg-type]
        **more,
    )


CHAIN = [
    node("conv", "Conv", "x", "c", weights="w"),
    node("relu", "Relu", "c", "r"),
    node("conv2", "Conv", "r", "d", weights="v"),
    node("relu2", "Relu", "d", "y"),
]


def real(plan_file: Path, model: str, added: Collection[str] = ()) -> Matched:
    source = source_of(load_model(SAMPLES / f"{model}.onnx"), {}, None, feed=False)
    plan = read_layer_info(plan_file)
    matched, fates = match_plan(
        source.nodes, plan, outputs=[output.name for output in source.model.outputs], added=added
    )
    check(source.nodes, matched, fates)
    assert not [fate for fate in fates if fate.fate == "lost"]
    return Matched({one.layer.name: one for one in matched}, {fate.node: fate for fate in fates})


def test_resnet() -> None:
    found = real(LOGS / "rtx_resnet_tiny.log", "resnet_tiny")
    shapes, move, stem = list(found.layers.values())[:3]  # the batch is not fixed, so that it computes shapes
    assert (shapes.role, shapes.nodes) == ("shape", ())
    assert (move.role, move.nodes, move.match) == ("layout", (), "exact")
    assert move.reason == "brings 'image': fp32 Linear -> fp32 NHWC, for /stem/conv/Conv"
    assert stem.nodes == ("/stem/conv/Conv", "/stem/bn/BatchNormalization", "/stem/Relu")
    assert {one.match for one in found.layers.values()} == {"exact"}
    assert Counter(fate.fate for fate in found.fates.values()) == {"layer": 53, "eliminated": 1}
    (view,) = (fate for fate in found.fates.values() if fate.fate == "eliminated")
    assert (view.node, "a view" in view.reason) == ("/pool/Flatten", True)


def test_attention_in_half_precision() -> None:
    found = real(PLANS / "rtx_transformer_block_fp16.txt", "transformer_block", added=["graph_output_cast0"])
    mha = found.layers["_gemm_mha_v2_myl0_6"]
    assert mha.nodes[-1] == "/layer0/attention/context/Transpose"
    assert mha.match == "exact"
    assert "it writes" in found.fates[mha.nodes[-1]].reason  # its strides are transposed: [16,64,1] for [4,128,16]
    assert [fate.node for fate in found.fates.values() if fate.fate == "eliminated"] == [
        "/layer0/attention/Reshape",
        "/layer1/attention/Reshape",
    ]
    assert [one.added for one in found.layers.values() if one.added] == [("graph_output_cast0",)]
    assert {one.match for one in found.layers.values()} == {"exact"}


def test_loop_of_an_lstm() -> None:
    """Myelin unrolls the loop, names most of its layers after nothing, and lists its counters among them."""
    found = real(PLANS / "rtx_lstm.txt", "lstm")
    roles = Counter(one.role for one in found.layers.values())
    assert roles == {"compute": 27, "shape": 56, "layout": 10}
    gemms = [one for one in found.layers.values() if one.layer.kind == "gemm"]
    assert len(gemms) == 16
    assert {(one.nodes, one.shared, one.match) for one in gemms} == {(("/lstm/LSTM",), ("/lstm/LSTM",), "inferred")}
    last = found.layers["__myl_ReshMoveMulSum_myl0_91"]
    assert last.nodes == ("/head/Transpose", "/head/Reshape", "/head/Gemm")  # the Reshape stands in no metadata
    assert found.fates["/head/Reshape"].reason == "it lies between nodes of the layer"
    assert found.fates["/head/Gemm"].layers == (last.layer.name, "__myl_Add_myl0_92")


CAPTURED = [
    "layer_info/trex__examples__pytorch__resnet__A100__fp16__resnet.onnx.engine.graph.json",
    "layer_info/trex__examples__pytorch__resnet__A100__qat__resnet-qat.onnx.engine.graph.json",
    "layer_info/trex__tests__inputs__mobilenet.qat.onnx.engine.graph.json",
    "layer_info/trt10.16.0_ada__mnist.layers.json",
    "logs/trt10.16.0_ada__EngineInspector.log",
]


@pytest.mark.parametrize("name", [*ENGINES, *CAPTURED])
def test_plans_without_their_model(name: str, tmp_path: Path) -> None:
    plan = read_layer_info(layers_of(name, tmp_path) if name in ENGINES else captured(name))
    matched, fates = match_plan((), plan)
    assert fates == ()
    assert len(matched) == len(plan.layers)
    for one in matched:
        assert one.nodes == one.layer.onnx_nodes
        assert one.reason
        if one.nodes:
            assert (one.match, "no model was given" in one.reason) == ("inferred", True)
        expected = {"Reformat": "layout", "NoOp": "idle", "shape_call": "shape"}.get(one.layer.kind)
        if expected:
            assert one.role == expected
        elif one.layer.kind.startswith(("Cask", "Cuda", "Tiled", "Fused", "gemm")):
            assert one.role == "compute"
    # The cast behind the last layer of the MNIST models has no metadata.
    casts = [one for one in matched if "CastReshCast" in one.layer.name]
    assert all((one.role, one.match) == ("layout", "inferred") for one in casts)


def test_a_capture_with_the_model_it_is_of() -> None:
    """The layers of a real plan of TensorRT 8, and a model that has the nodes that their names spell out."""
    plan = read_layer_info(captured(CAPTURED[1]))
    conv = next(one for one in plan.layers if one.name.startswith("conv1.weight + QuantizeLinear_7 + Conv_9"))
    nodes = [
        node("QuantizeLinear_2", "QuantizeLinear", "input.1", "onnx::DequantizeLinear_125", weights="s"),
        node("DequantizeLinear_5", "DequantizeLinear", "onnx::DequantizeLinear_125", "dq", weights="s"),
        node("QuantizeLinear_7", "QuantizeLinear", "", "qw", weights="conv1.weight"),
        node("DequantizeLinear_8", "DequantizeLinear", "", "dqw", weights="qw"),
        node("Conv_9", "Conv", "dq", "c", weights="dqw"),
        node("Relu_10", "Relu", "c", "onnx::MaxPool_136"),
    ]
    found = match(nodes, [plan.layers[0], conv], outputs=["onnx::MaxPool_136"])
    first, second = found.layers.values()
    assert (first.role, first.nodes, first.match) == ("layout", ("QuantizeLinear_2",), "exact")
    assert {"QuantizeLinear_7", "Conv_9", "Relu_10"} <= set(second.nodes)
    assert "DequantizeLinear_5" in second.nodes  # done while the tensor is read
    assert "conv1.weight" not in second.reason  # a weight, not a node that is missing
    assert found.fates["DequantizeLinear_8"].fate == "folded"


def test_a_plugin_names_its_custom_node_and_layers_name_parts_of_it() -> None:
    call = Call(name="gemv", domain="trtprof", op_type="Gemv", outputs=("d",))
    nodes = [CHAIN[0], *(msgspec.structs.replace(each, name=f"gemv/{each.name}", call=call) for each in CHAIN[1:3])]
    nodes.append(CHAIN[3])
    plugin = layer("gemv", "one", "two", "gemv", kind="PluginV3")
    found = match(nodes, [layer("a", "x", "one", "conv"), plugin, layer("b", "two", "y", "relu2")], outputs=["y"])
    assert found.layers["gemv"].nodes == ("gemv/relu", "gemv/conv2")
    assert found.layers["gemv"].match == "exact"
    assert {fate.fate for fate in found.fates.values()} == {"layer"}
    parts = [layer("a", "x", "r", "conv", "gemv/relu"), layer("b", "r", "y", "gemv/conv2", "relu2")]
    assert [one.nodes for one in match(nodes, parts, outputs=["y"]).layers.values()] == [
        ("conv", "gemv/relu"),
        ("gemv/conv2", "relu2"),
    ]


def test_one_node_in_several_layers() -> None:
    nodes = [node("gemm", "Gemm", "x", "g", weights="w b"), node("relu", "Relu", "g", "y")]
    found = match(nodes, [layer("A", "x", "t", "gemm", kind="gemm"), layer("B", "t", "y", "gemm", "relu")])
    assert found.layers["A"].shared == found.layers["B"].shared == ("gemm",)
    assert found.fates["gemm"].layers == ("A", "B")


def test_names_that_the_model_does_not_have() -> None:
    layers = [layer("A", "x", "t", "cast0"), layer("B", "t", "y", "conv", "strange"), layer("C", "", "", "foreign")]
    found = match(CHAIN[:1], layers, added=["cast0"])
    cast, conv, foreign = found.layers.values()
    assert (cast.role, cast.added, cast.match) == ("layout", ("cast0",), "exact")
    assert conv.nodes == ("conv",)
    assert "the model has no 'strange'" in conv.reason
    assert (foreign.nodes, foreign.match) == ((), "none")
    assert "the model has no 'foreign'" in foreign.reason


def test_unnamed_nodes() -> None:
    nodes = [
        node("Conv_0", "Conv", "x", "c", weights="w", original=""),
        node("Relu_1", "Relu", "c", "r", original=""),
        node("Relu_2", "Relu", "r", "y", original=""),
    ]
    found = match(nodes, [layer("A", "x", "c", "node_of_c"), layer("B", "c", "r", "Relu_1", "Relu_0")])
    assert (found.layers["A"].nodes, found.layers["A"].match) == (("Conv_0",), "exact")
    assert found.layers["B"].nodes == ("Relu_1", "Relu_2")
    assert "the model has no 'Relu_0'" in found.layers["B"].reason  # at that place is no Relu
    assert found.fates["Relu_2"].reason.startswith("inferred")


def test_nodes_of_one_name_in_the_file() -> None:
    nodes = [
        node("same", "Relu", "x", "a"),
        node("same_1", "Relu", "a", "b", original="same"),
        node("end", "Relu", "b", "y"),
    ]
    one_each = match(nodes, [layer("A", "x", "t", "same"), layer("B", "t", "y", "same", "end")])
    assert [one.nodes for one in one_each.layers.values()] == [("same",), ("same_1", "end")]
    assert {one.match for one in one_each.layers.values()} == {"inferred"}
    both = match(nodes, [layer("A", "x", "y", "same", "end")])
    assert both.layers["A"].nodes == ("same", "same_1", "end")
    # Built from the model as trtprof renames it, the names are the nodes' own.
    ours = match(nodes, [layer("A", "x", "t", "same"), layer("B", "t", "y", "same_1", "end")])
    assert [(one.nodes, one.match) for one in ours.layers.values()] == [
        (("same",), "exact"),
        (("same_1", "end"), "exact"),
    ]


def test_names_spelled_out_in_the_name_of_a_layer() -> None:
    nodes = [node("a + b", "Conv", "x", "c", weights="w"), node("relu", "Relu", "c", "y")]
    found = match(nodes, [layer("a + b + w + relu", "x", "y", "a", "b", "w", "relu", source="name", kind="CaskConv")])
    (only,) = found.layers.values()
    assert (only.nodes, only.match) == (("a + b", "relu"), "exact")
    assert "the model has no" not in only.reason  # w is a weight
    (guess,) = match(nodes[1:], [layer("relu", "x", "y", "relu", source="name", kind="gemm")]).layers.values()
    assert guess.match == "inferred"


def test_a_range_is_what_lies_between_its_tensors() -> None:
    nodes = [
        node("pre", "Relu", "x", "p"),
        node("left", "Relu", "p", "l"),
        node("right", "Sigmoid", "p", "r"),
        node("join", "Add", "l r", "j"),
        node("post", "Relu", "j", "y"),
    ]
    layers = [
        layer("pre", "x", "p", "pre"),
        layer("{ForeignNode[left...join]}", "p", "j", "left", "join", source="name", kind="Myelin", onnx_range=True),
        layer("post", "j", "y", "post"),
    ]
    found = match(nodes, layers)
    between = found.layers["{ForeignNode[left...join]}"]
    assert (between.nodes, between.match) == (("left", "right", "join"), "exact")
    # Its ends may be helpers of the parser: then the tensors alone must do.
    helper = layer("{ForeignNode[h...i]}", "p", "j", "h", "i", source="name", kind="Myelin", onnx_range=True)
    found = match(nodes, [layers[0], helper, layers[2]])
    assert found.layers["{ForeignNode[h...i]}"].nodes == ("left", "right", "join")
    # Or its tensors are not known, and only its ends.
    hidden = layer(
        "{ForeignNode[left...join]}", "t", "u", "left", "join", source="name", kind="Myelin", onnx_range=True
    )
    found = match(nodes, [hidden])
    assert found.layers["{ForeignNode[left...join]}"].match == "inferred"
    assert {"left", "join"} <= set(found.layers["{ForeignNode[left...join]}"].nodes)
    assert found.fates["pre"].layers == ("{ForeignNode[left...join]}",)  # it has no other place


def test_tensors_are_the_borders_of_a_layer_without_names() -> None:
    found = match(CHAIN, [layer("A", "x", "r"), layer("B", "r", "y")], outputs=["y"])
    assert [(one.nodes, one.match) for one in found.layers.values()] == [
        (("conv", "relu"), "exact"),
        (("conv2", "relu2"), "exact"),
    ]


def test_borders_hold_across_copies() -> None:
    first = layer("A", "x", "Reformatted Output Tensor 0 to A")
    layers = [
        first,
        layer("copy", "Reformatted Output Tensor 0 to A", "r", kind="Reformat", serves="A"),
        layer("B", "r", "y", "conv2", "relu2"),
    ]
    # Names of tensors hold blanks in real plans; here each is a word.
    renamed = [
        PlanLayer(name=one.name, kind=one.kind, inputs=(tensor(read),), outputs=(tensor(made),), serves=one.serves)
        for one, (read, made) in zip(layers[:2], [("x", "r in blocks"), ("r in blocks", "r")], strict=True)
    ]
    found = match(CHAIN, [*renamed, layers[2]], outputs=["y"])
    assert (found.layers["A"].nodes, found.layers["A"].match) == (("conv", "relu"), "exact")
    assert found.layers["copy"].reason == "brings 'r in blocks': fp32 Linear -> fp32 Linear, for A"


def test_renamed_tensors_are_no_borders() -> None:
    """``y.1_15_myl0`` is what the node that makes y reads."""
    layers = [layer("A", "x", "d.1_2_myl0", "conv", "relu"), layer("B", "d.1_2_myl0", "y", "conv2", "relu2")]
    found = match(CHAIN, layers)
    assert found.layers["A"].nodes == ("conv", "relu")


def test_roles_by_kind(subtests: pytest.Subtests) -> None:
    rows: list[bool] = [True, False]
    more = {"signal": "sync", "wait": "sync", "shape_call": "shape", "NoOp": "idle", "Constant": "idle",
            "reshape": "idle", "PluginV2": "compute", "kgen": "compute"}  # fmt: skip
    for model in rows:
        for kind, role in more.items():
            with subtests.test(model=model, kind=kind, role=role):
                (only,) = match(CHAIN if model else [], [layer("A", "", "", kind=kind)]).layers.values()
                assert only.role == role
                assert only.match == ("none" if role == "compute" else "exact")


def test_moves_and_casts_are_layout() -> None:
    channel_major = tensor("t", format="(NHWC) Channel major format", strides=(128, 1, 32, 8))
    move = PlanLayer(name="copies", kind="kgen", inputs=(tensor("x"),), outputs=(channel_major,))
    conv = layer("B", "t", "u", "conv", "relu")
    cast = PlanLayer(
        name="__myl_Cast_myl0_2", kind="kgen", inputs=(tensor("u"),), outputs=(tensor("out", dtype="fp16"),)
    )
    bindings = (PlanBinding(name="out", mode="output"),)
    found = match(CHAIN[:2], [move, conv, cast], bindings=bindings, outputs=["r"])
    assert [one.role for one in found.layers.values()] == ["layout", "compute", "layout"]
    assert found.layers["copies"].reason == "brings 'x': fp32 Linear -> fp32 NHWC, for conv"
    assert "for the output 'out'" in found.layers["__myl_Cast_myl0_2"].reason
    assert found.layers["__myl_Cast_myl0_2"].match == "exact"


def test_a_layer_that_pads_for_a_product_is_layout() -> None:
    layers = [layer("__myl_CastConc_myl0_0", "x", "t", "cast0", "conv"), layer("B", "t", "r", "conv", "relu")]
    found = match(CHAIN[:2], layers, added=["cast0"])
    brings, conv = found.layers.values()
    assert (brings.role, brings.nodes, brings.added) == ("layout", ("conv",), ("cast0",))
    assert conv.role == "compute"
    # A Transpose of the model is its work, though it only moves something.
    nodes = [node("t", "Transpose", "x", "y", perm=(0, 2, 1, 3))]
    (only,) = match(nodes, [layer("__myl_Tran_myl0_0", "x", "y", "t")]).layers.values()
    assert only.role == "compute"


def test_a_move_between_may_be_a_node_of_the_model() -> None:
    nodes = [CHAIN[0], node("turn", "Transpose", "c", "r", perm=(0, 2, 3, 1)), CHAIN[2]]
    layers = [layer("A", "x", "t", "conv"), layer("__myl_Tran_myl0_1", "t", "u"), layer("B", "u", "d", "conv2")]
    found = match(nodes, layers)
    assert found.layers["__myl_Tran_myl0_1"].nodes == ("turn",)
    assert found.layers["__myl_Tran_myl0_1"].role == "compute"
    # It cannot be one that computes: that is done by the layer before.
    nodes[1] = node("turn", "Sigmoid", "c", "r")
    found = match(nodes, layers)
    assert found.layers["__myl_Tran_myl0_1"].role == "layout"
    assert found.fates["turn"].layers == ("A",)


def test_weights_that_are_filled_in_every_run() -> None:
    nodes = [
        node("fill", "ConstantOfShape", "", "w", shape=(8, 8, 3, 3)),
        node("other", "ConstantOfShape", "", "b", shape=(8,)),
        node("conv", "Conv", "x", "y", weights="w b"),
    ]
    fill = PlanLayer(name="__myl_Repl_myl0_0", kind="kgen", outputs=(tensor("t", (8, 8, 3, 3)),))
    found = match(nodes, [fill, layer("B", "x t", "y", "conv")])
    assert found.layers["__myl_Repl_myl0_0"].nodes == ("fill",)
    assert found.layers["__myl_Repl_myl0_0"].role == "compute"
    assert found.fates["other"].fate == "folded"


def fate_between(*between: Node, reads: str = "c", last: str = "r") -> Matched:
    """Nodes that no layer names, between a Conv and a Softmax in layers of their own."""
    nodes = [node("conv", "Conv", "x", "c", weights="w"), *between, node("end", "Softmax", last, "y")]
    return match(nodes, [layer("A", "x", "t", "conv"), layer("B", "t", "y", "end")], outputs=["y"])


def test_a_node_between_two_layers(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, dict[str, Attribute], str, tuple[str, ...], str]] = [
        ("Identity", {}, "eliminated", (), "changes nothing"),
        ("Dropout", {}, "eliminated", (), "changes nothing"),
        ("Reshape", {}, "eliminated", (), "a view"),
        ("Cast", {}, "eliminated", (), "casts fp32 to fp32"),
        ("Relu", {}, "layer", ("A",), "inferred: "),
        ("DequantizeLinear", {}, "layer", ("B",), "inferred: a layer can do it while it reads"),
        ("BatchNormalization", {}, "layer", ("A",), "inferred: it folds into the weights"),
        ("Transpose", {"perm": (0, 2, 1, 3)}, "layer", ("A",), "inferred: "),
    ]
    for op_type, attributes, fate, layers, reason in rows:
        with subtests.test(op_type=op_type, fate=fate, layers=layers, reason=reason):
            found = fate_between(node("n", op_type, "c", "r", **attributes)).fates["n"]  # type: ignore[arg-type]
            assert (found.fate, found.layers) == (fate, layers)
            assert reason in found.reason


def test_strides_tell_who_transposes() -> None:
    nodes = [CHAIN[0], node("turn", "Transpose", "c", "r", perm=(0, 2, 1, 3)), CHAIN[2]]

    def found(written: tuple[int, ...], read: tuple[int, ...]) -> NodeFate:
        first = PlanLayer(
            name="A", kind="kgen", inputs=(tensor("x"),), outputs=(tensor("t", strides=written),),
            onnx_nodes=("conv",), nodes_from="metadata",
        )  # fmt: skip
        second = PlanLayer(
            name="B", kind="kgen", inputs=(tensor("t", strides=read),), outputs=(tensor("d"),),
            onnx_nodes=("conv2",), nodes_from="metadata",
        )  # fmt: skip
        return match(nodes, [first, second]).fates["turn"]

    rows, turned = (128, 16, 4, 1), (128, 4, 32, 1)
    assert (found(turned, rows).layers, found(turned, rows).reason[:11]) == (("A",), "the strides")
    assert found(rows, turned).layers == ("B",)
    assert found(rows, rows).reason.startswith("inferred")


def test_constants_shapes_and_dead_ends() -> None:
    nodes = [
        node("w", "Reshape", "", "v", weights="raw"),
        node("shape", "Shape", "x", "s"),
        node("pick", "Gather", "s", "g", weights="i"),
        node("conv", "Conv", "x", "y", weights="v"),
        node("dead", "Relu", "x", "a"),
        node("dead2", "Relu", "a", "b"),
        node("size", "Reshape", "y g", "z"),
    ]
    found = match(nodes, [layer("A", "x", "y", "conv")], outputs=["z"])
    fates = {name: fate.fate for name, fate in found.fates.items()}
    assert fates == {
        "w": "folded", "shape": "folded", "pick": "folded", "conv": "layer", "dead": "eliminated",
        "dead2": "eliminated", "size": "eliminated",
    }  # fmt: skip
    assert found.fates["dead"].reason == "its result is never read"
    assert "shape arithmetic" in found.fates["pick"].reason


def test_a_node_computed_once_with_its_double() -> None:
    nodes = [
        node("one", "Softmax", "x", "a", axis=1),
        node("two", "Softmax", "x", "b", axis=1),
        node("other", "Softmax", "x", "c", axis=2),
        node("sum", "Sum", "a b c", "y"),
    ]
    found = match(nodes, [layer("A", "x", "t", "one"), layer("B", "t", "y", "sum")])
    assert (found.fates["two"].fate, found.fates["two"].reason) == ("eliminated", "computed once, together with 'one'")
    assert found.fates["other"].fate == "layer"


def test_a_node_beside_its_like() -> None:
    """Two products of one tensor with weights of one shape: as much is written as both make, or as one makes."""
    nodes = [
        node("one", "MatMul", "x", "a", weights="v"),
        node("two", "MatMul", "x", "b", weights="w"),
        node("sum", "Softmax", "a b", "y"),
    ]
    one = layer("A", "x", "t", "one", kind="gemm")
    two = layer("A", "x", "t u", "one", kind="gemm")
    last = layer("B", "t u", "y", "sum")
    merged = match(nodes, [two, last]).fates["two"]
    assert (merged.fate, merged.layers) == ("layer", ("A",))
    # Its weights are others, so that it cannot be left out.
    assert match(nodes, [one, last]).fates["two"].fate == "layer"
    filled = [
        node("fill", "ConstantOfShape", "", "v", shape=(8, 8, 3, 3)),
        node("fill2", "ConstantOfShape", "", "w", shape=(8, 8, 3, 3)),
        *nodes,
    ]
    same = match(filled, [one, last]).fates["two"]
    assert (same.fate, same.reason[:27]) == ("eliminated", "taken for the same as 'one'")


@pytest.mark.parametrize(
    ("file", "model", "found_again"),
    [
        (LOGS / "rtx_resnet_tiny.log", "resnet_tiny", 0.95),
        (PLANS / "rtx_transformer_block.txt", "transformer_block", 0.95),
        (PLANS / "rtx_transformer_block_fp16.txt", "transformer_block", 0.95),
    ],
)
def test_a_name_left_out_of_a_real_plan_is_found_again(file: Path, model: str, found_again: float) -> None:
    """Nodes that one layer of several nodes names, each in turn struck from its metadata."""
    source = source_of(load_model(SAMPLES / f"{model}.onnx"), {}, None, feed=False)
    plan = read_layer_info(file)
    owners: dict[str, list[int]] = {}
    for index, one in enumerate(plan.layers):
        for name in one.onnx_nodes:
            owners.setdefault(name, []).append(index)
    known = {node.name for node in source.nodes if not node.constant}
    tried = [name for name, own in owners.items() if name in known and len(own) == 1]
    tried = [name for name in tried if len(plan.layers[owners[name][0]].onnx_nodes) > 1]
    again = 0
    for name in tried:
        at = owners[name][0]
        short = msgspec.structs.replace(
            plan.layers[at], onnx_nodes=tuple(one for one in plan.layers[at].onnx_nodes if one != name)
        )
        layers = [*plan.layers[:at], short, *plan.layers[at + 1 :]]
        matched, _ = match_plan(
            source.nodes,
            msgspec.structs.replace(plan, layers=tuple(layers)),
            outputs=[output.name for output in source.model.outputs],
        )
        again += [index for index, one in enumerate(matched) if name in one.nodes] == [at]
    assert len(tried) > 20
    assert again / len(tried) >= found_again


def test_a_concat_in_place() -> None:
    nodes = [
        node("left", "Relu", "x", "l"),
        node("right", "Sigmoid", "x", "r"),
        node("both", "Concat", "l r", "c"),
        node("end", "Softmax", "c", "y"),
    ]
    last = layer("C", "whole", "y", "end")
    found = match(nodes, [layer("A", "x", "whole", "left"), layer("B", "x", "whole", "right"), last])
    assert found.fates["both"].fate == "eliminated"
    assert found.fates["both"].reason == "nothing is copied: its inputs are written side by side into 'whole'"
    # One part is copied by a layer of its own.
    copied = [
        layer("A", "x", "whole", "left"),
        layer("B", "x", "part", "right"),
        layer("__myl_Move_myl0_2", "part", "whole"),
        last,
    ]
    found = match(nodes, copied)
    assert found.fates["both"].layers == ("__myl_Move_myl0_2",)


def test_branches_and_loops() -> None:
    nodes = [
        node("loop", "Loop", "x", "y"),
        node("loop/a", "Relu", "v", "w", graph="loop/body"),
        node("loop/b", "Sigmoid", "w", "u", graph="loop/body"),
    ]
    whole = match(nodes, [layer("A", "x", "y", "loop")])
    assert {fate.layers for fate in whole.fates.values()} == {("A",)}
    opened = match(nodes, [layer("A", "v", "w", "loop/a"), layer("B", "w", "u", "loop/b")])
    assert (opened.fates["loop"].fate, "control flow" in opened.fates["loop"].reason) == ("eliminated", True)
    branches = [
        node("if", "If", "c", "y"),
        node("if/a", "Relu", "x", "t", graph="if/then_branch"),
        node("if/b", "Sigmoid", "x", "t", graph="if/else_branch"),
    ]
    found = match(branches, [layer("A", "x", "t", "if/a")])
    assert found.fates["if"].fate == "folded"
    assert found.fates["if/b"].reason == "its branch is never taken"


def test_odd_plans() -> None:
    match([], [])
    match(CHAIN, [])
    match(CHAIN, [layer("A", "a", "a"), layer("A", "b", "a"), layer("A", "a", "b")])  # circles, names twice
    match(CHAIN, [layer("", "x", "x"), layer("copy", "y", "y", kind="Reformat", serves="copy")])
    match(CHAIN, [layer("A", "x", "y", "conv", "conv"), layer("B", "y", "x", "relu2")])
    tensorless = PlanLayer(name="{ForeignNode[...]}", kind="Myelin", onnx_nodes=("conv",), nodes_from="name")
    match(CHAIN, [tensorless])
    match(CHAIN, [PlanLayer(name="t", kind="", inputs=(PlanTensor(name="", dims=None, dtype=""),))])


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Node], list[list[int]]]:
    """A graph with branches, and a partition of its nodes into layers of neighbours in its order."""
    count = draw(st.integers(2, 14))
    ops = ["Conv", "Relu", "Add", "Reshape", "Transpose", "Concat", "Identity", "Softmax", "Cast"]
    nodes = []
    for index in range(count):
        op_type = draw(st.sampled_from(ops))
        before = draw(st.lists(st.integers(-1, index - 1), min_size=1, max_size=2, unique=True))
        reads = " ".join("x" if one < 0 else f"t{one}" for one in before)
        nodes.append(node(f"n{index}", op_type, reads, f"t{index}", weights=draw(st.sampled_from(["", f"w{index}"]))))
    size = draw(st.integers(1, 4))
    return nodes, [list(range(at, min(at + size, count))) for at in range(0, count, size)]


def cut_plan(
    nodes: Sequence[Node], groups: Sequence[Sequence[int]], named: Collection[int], plain: bool
) -> list[PlanLayer]:
    """The layers that compute groups of nodes; their tensors have the names of the ONNX tensors, or others."""
    layers = []
    for index, group in enumerate(groups):
        own = [nodes[one] for one in group]
        made = {out.name for one in own for out in one.op.outputs if out}
        read = {one.name for each in own for one in each.op.inputs if one and not one.constant} - made
        mark = "" if plain else "_myl0"
        names = [nodes[one].name for one in group if one in named]
        layers.append(
            layer(
                f"L{index}",
                " ".join(sorted(one + mark for one in read)),
                " ".join(sorted(one + mark for one in made)),
                *names,
            )
        )
    return layers


@given(cuts(), st.sets(st.integers(0, 13)), st.booleans(), st.booleans())
def test_every_node_has_one_fate(
    cut: tuple[list[Node], list[list[int]]], named: set[int], plain: bool, asked: bool
) -> None:
    nodes, groups = cut
    match(nodes, cut_plan(nodes, groups, named, plain), outputs=[f"t{len(nodes) - 1}"] if asked else [])


@given(cuts(), st.booleans())
def test_what_metadata_says_is_what_is_found(cut: tuple[list[Node], list[list[int]]], plain: bool) -> None:
    nodes, groups = cut
    found = match(nodes, cut_plan(nodes, groups, range(len(nodes)), plain))
    for index, group in enumerate(groups):
        one = found.layers[f"L{index}"]
        assert (one.nodes, one.shared, one.match) == (tuple(nodes[at].name for at in group), (), "exact")


@given(cuts())
def test_plain_tensors_say_as_much_as_metadata(cut: tuple[list[Node], list[list[int]]]) -> None:
    """All results of a layer's nodes are tensors of the plan here, so that every border is known."""
    nodes, groups = cut
    found = match(nodes, cut_plan(nodes, groups, (), plain=True))
    for index, group in enumerate(groups):
        one = found.layers[f"L{index}"]
        assert (one.nodes, one.match) == (tuple(nodes[at].name for at in group), "exact")


@pytest.mark.parametrize("named", ["all", "some", "none"])
def test_large_plans(named: str) -> None:
    """As right as small ones: 12,000 nodes in 4,000 layers, of which all, a half or none are named."""
    count = 4000
    nodes = []
    layers = []
    for index in range(count):
        before = f"r{index - 1}" if index else "x"
        nodes += [
            node(f"mm{index}", "MatMul", before, f"m{index}", weights=f"w{index}"),
            node(f"add{index}", "Add", f"m{index}", f"a{index}", weights=f"b{index}"),
            node(f"relu{index}", "Relu", f"a{index}", f"r{index}"),
        ]
        names = {"all": nodes[-3:], "some": nodes[-3:-2] if index % 2 else [], "none": []}[named]
        last = f"r{index}" if index == count - 1 else f"_t{index}"
        layers.append(
            layer(f"L{index}", f"_t{index - 1}" if index else "x", last, *(one.name for one in names), kind="gemm")
        )
    matched, fates = match_plan(nodes, Plan(era="a test", layers=tuple(layers)), outputs=[f"r{count - 1}"])
    assert len(matched) == count
    fate = {one.fate for one in fates}
    assert fate == {"layer"}
    owned = [name for one in matched for name in one.nodes]
    assert sorted(owned) == sorted(one.name for one in nodes)


def test_layers_that_cannot_be_told_apart() -> None:
    """Products go to the layers that multiply, with what follows them; other layers of a group share the rest."""
    products = [layer("A", "x", "_t", kind="gemm"), layer("B", "_t", "y", kind="gemm")]
    found = match(CHAIN, products, outputs=["y"])
    assert [one.nodes for one in found.layers.values()] == [("conv", "relu"), ("conv2", "relu2")]
    assert {one.match for one in found.layers.values()} == {"inferred"}
    pointwise = [node("a", "Exp", "x", "b"), node("c", "Log", "b", "y")]
    found = match(pointwise, [layer("A", "x", "_t"), layer("B", "_t", "y")], outputs=["y"])
    assert [one.shared for one in found.layers.values()] == [("a", "c"), ("a", "c")]
    assert "one of 2 layers that compute them" in found.layers["A"].reason
    count = 600
    many = [node(f"n{at}", "Exp", f"t{at - 1}" if at else "x", f"t{at}") for at in range(count)]
    layers = [
        layer(f"L{at}", f"_{at - 1}" if at else "x", f"_{at}" if at < count - 1 else f"t{at}") for at in range(count)
    ]
    found = match(many, layers, outputs=[f"t{count - 1}"])
    assert {one.reason for one in found.layers.values()} == {"one of 600 layers that compute 600 nodes together"}
    assert {(fate.fate, fate.reason) for fate in found.fates.values()} == {
        ("lost", "one of 600 nodes that 600 layers compute, too many to tell apart")
    }
