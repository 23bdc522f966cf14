"""Which nodes are taken to be one kernel: each rule on a graph made for it, and what holds for all graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import SAMPLES, real_models
from trtprof.base.records import Attribute, Call, Node, Op, Tensor
from trtprof.estimate import fusion
from trtprof.estimate.fusion import RULES, Edges, Group, fuse
from trtprof.source.load import load_model, source_of

FULL, ROW = (4, 6, 8), (4, 6, 1)


class Graph:
    """A graph written down node by node; every tensor is ``FULL`` unless told otherwise."""

    def __init__(self, graph: str = "") -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}

    def tensor(self, name: str, *shape: int, dtype: str = "fp32", constant: bool = False) -> str:
        self.tensors[name] = Tensor(name=name, dtype=dtype, shape=shape or FULL, constant=constant)
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.tensor(name, *(shape or (1,)), constant=True)

    def op(
        self, op_type: str, *inputs: str, shape: tuple[int, ...] = FULL, dtype: str = "fp32", **attributes: Attribute
    ) -> str:
        name = f"{op_type.lower()}{len(self.nodes)}"
        known = [self.tensors.get(each) or Tensor(name=each, dtype="fp32", shape=FULL) for each in inputs]
        made = Tensor(name=name, dtype=dtype, shape=shape)
        self.tensors[name] = made
        op = Op(op_type=op_type, opset=17, attributes=attributes, inputs=tuple(known), outputs=(made,))
        self.nodes.append(Node(name=f"n_{name}", original_name="", graph=self.graph, op=op))
        return name


def kinds(groups: Sequence[Group]) -> list[list[str]]:
    """Op types of each group that launches something, without the views."""
    return [[n.op.op_type for n in group.nodes if n.name not in group.views] for group in groups if not group.free]


# --- rule by rule -----------------------------------------------------------------------------


def test_bias_norm_residual_and_activation_follow_a_convolution() -> None:
    g = Graph()
    y = g.op("Conv", "x", g.weight("w", 6, 6, 3, 3))
    y = g.op("BatchNormalization", y, *(g.weight(name, 6) for name in "sbmv"))
    y = g.op("Relu", g.op("Add", y, "x"))
    (group,) = fuse(g.nodes, [y])
    assert kinds([group]) == [["Conv", "BatchNormalization", "Add", "Relu"]]
    assert (group.rule, group.outputs) == ("product", (y,))


def test_branches_that_meet_again_are_an_activation() -> None:
    g = Graph()
    y = g.op("MatMul", "x", g.weight("w", 8, 8))
    y = g.op("Mul", y, g.op("Sigmoid", y))
    z = g.op("MatMul", y, g.weight("w2", 8, 8))
    erf = g.op("Add", g.op("Erf", g.op("Div", z, g.weight("root"))), g.weight("one"))
    gelu = g.op("Mul", g.op("Mul", z, erf), g.weight("half"))
    assert kinds(fuse(g.nodes, [gelu])) == [["MatMul", "Sigmoid", "Mul"], ["MatMul", "Div", "Erf", "Add", "Mul", "Mul"]]


def test_what_others_read_too_ends_the_epilogue() -> None:
    g = Graph()
    y = g.op("Conv", "x", g.weight("w", 6, 6, 3, 3))
    g.op("MaxPool", y)
    relu = g.op("Relu", y)
    found = kinds(fuse(g.nodes, [relu, "maxpool1"]))
    assert found == [["Conv"], ["MaxPool"], ["Relu"]]


def attention(g: Graph) -> str:
    q, k, v = (g.op("Transpose", name, perm=(0, 1, 2)) for name in "qkv")
    scores = g.op("Add", g.op("Mul", g.op("MatMul", q, k, shape=(4, 6, 6)), g.weight("scale"), shape=(4, 6, 6)), "mask",
                  shape=(4, 6, 6))  # fmt: skip
    mixed = g.op("MatMul", g.op("Softmax", scores, shape=(4, 6, 6)), v)
    return g.op("Transpose", mixed, perm=(0, 2, 1))


def test_attention_is_one_kernel_with_its_scale_mask_and_transposes() -> None:
    g = Graph()
    y = attention(g)
    (group,) = fuse(g.nodes, [y])
    assert group.rule == "attention"
    assert len(group.nodes) == 9


@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_an_rms_norm_written_out_is_one_kernel(square: str) -> None:
    g = Graph()
    squares = g.op("Pow", "x", g.weight("two")) if square == "Pow" else g.op("Mul", "x", "x")
    mean = g.op("ReduceMean", squares, shape=ROW, axes=(-1,))
    root = g.op("Sqrt", g.op("Add", mean, g.weight("eps"), shape=ROW), shape=ROW)
    y = g.op("Mul", g.op("Div", "x", root), g.weight("gain", 8))
    (group,) = fuse(g.nodes, [y])
    assert group.rule == "normalisation"


def layer_norm(g: Graph, x: str, axes: tuple[int, int] = (-1, -1)) -> str:
    centred = g.op("Sub", x, g.op("ReduceMean", x, shape=ROW, axes=axes[:1]))
    variance = g.op("ReduceMean", g.op("Pow", centred, g.weight("two")), shape=ROW, axes=axes[1:])
    deviation = g.op("Sqrt", g.op("Add", variance, g.weight("eps"), shape=ROW), shape=ROW)
    return g.op("Add", g.op("Mul", g.op("Div", centred, deviation), g.weight("gain", 8)), g.weight("shift", 8))


def test_a_layer_norm_written_out_is_one_kernel() -> None:
    g = Graph()
    y = layer_norm(g, "x")
    (group,) = fuse(g.nodes, [y])
    assert (group.rule, len(group.nodes)) == ("normalisation", 9)


def test_a_softmax_written_out_is_one_kernel_with_its_scale() -> None:
    g = Graph()
    x = g.op("Mul", "x", g.weight("scale"))
    shifted = g.op("Exp", g.op("Sub", x, g.op("ReduceMax", x, shape=ROW, axes=(-1,))))
    y = g.op("Div", shifted, g.op("ReduceSum", shifted, shape=ROW, axes=(-1,)))
    (group,) = fuse(g.nodes, [y])
    assert (group.rule, len(group.nodes)) == ("normalisation", 6)


def test_quantised_values_are_read_where_a_dequantize_stands() -> None:
    g = Graph()
    q = g.op("QuantizeLinear", "x", g.weight("s"), dtype="int8")
    y = g.op("Conv", g.op("DequantizeLinear", q, g.weight("s")), g.weight("w", 6, 6, 3, 3))
    y = g.op("QuantizeLinear", g.op("Relu", y), g.weight("s"), dtype="int8")
    y = g.op("Add", g.op("DequantizeLinear", y, g.weight("s")), "z")
    found = fuse(g.nodes, [y])
    assert kinds(found) == [["QuantizeLinear"], ["Conv", "Relu", "QuantizeLinear"], ["Add"]]
    assert sum(len(group.views) for group in found) == 2


def test_views_and_what_shapes_decide_launch_nothing() -> None:
    g = Graph()
    y = g.op("Relu", g.op("MaxPool", "x"))
    size = g.op("Gather", g.op("Shape", y, shape=(3,), dtype="int64"), g.weight("index"), shape=(1,), dtype="int64")
    target = g.op("Concat", size, g.weight("rest", 1), shape=(2,), dtype="int64", axis=0)
    z = g.op("Reshape", y, target, shape=(4, 48))
    found = fuse(g.nodes, [g.op("TopK", z, shape=(4, 3))])
    assert kinds(found) == [["MaxPool"], ["Relu"], ["TopK"]]
    assert [node.op.op_type for group in found if group.rule == "shape" for node in group.nodes] == [
        "Shape", "Gather", "Concat",
    ]  # fmt: skip


def test_a_transpose_that_leaves_rows_whole_is_read_by_strides() -> None:
    for perm, fused in (((0, 2, 1), True), ((2, 0, 1), False)):
        g = Graph()
        y = g.op("MatMul", "a", g.op("Transpose", "b", perm=perm))
        assert len(kinds(fuse(g.nodes, [y]))) == (1 if fused else 2)


def test_a_body_finds_in_memory_what_it_reads_from_around_it() -> None:
    outer, inner = Graph(), Graph("n_loop2/body")
    y = outer.op("Conv", "x", outer.weight("w", 6, 6, 3, 3))
    relu = outer.op("Relu", y)
    done = outer.op("Loop", relu)
    inner.op("Mul", y, y)
    found = fuse([*outer.nodes, *inner.nodes], [done])
    assert kinds(found) == [["Conv"], ["Relu"], ["Mul"]]
    edges = edges_of([*outer.nodes, *inner.nodes], [done])[""]
    assert edges.reads[2] == {0, 1}


# --- what always holds ------------------------------------------------------------------------

OPS = ["Conv", "MatMul", "Add", "Mul", "Relu", "Sigmoid", "Exp", "Div", "Reshape", "Transpose", "Softmax",
       "ReduceMean", "MaxPool", "QuantizeLinear", "DequantizeLinear", "Shape", "Cast", "Concat"]  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Node], list[str]]:
    """Any directed graph without cycles, of ops that the rules look for."""
    g = Graph()
    made = ["x", "z"]
    for _ in range(draw(st.integers(1, 24))):
        op_type = draw(st.sampled_from(OPS))
        count = 2 if op_type in ("Conv", "MatMul", "Add", "Mul", "Div", "Reshape", "Concat") else 1
        # Recent tensors more often, so that there are chains.
        recent = st.sampled_from(made[-3:])
        inputs = [draw(recent | st.sampled_from(made)) for _ in range(count)]
        if draw(st.booleans()) and count == 2:
            inputs[1] = g.weight(f"w{len(g.nodes)}")
        shape = ROW if op_type == "ReduceMean" else draw(st.sampled_from([FULL, FULL, FULL, ROW]))
        attributes: dict[str, Attribute] = {"axes": (-1,)} if op_type == "ReduceMean" else {}
        made.append(g.op(op_type, *inputs, shape=shape, dtype="fp32", **attributes))
    return g.nodes, draw(st.lists(st.sampled_from(made[2:]), min_size=1, unique=True))


def edges_of(nodes: Sequence[Node], outputs: Sequence[str]) -> dict[str, Edges]:
    return fusion._edges_of(fusion._graphs(nodes), nodes, outputs)


def check(nodes: Sequence[Node], outputs: Sequence[str], groups: Sequence[Group]) -> None:
    """Groups part the nodes, stand in an order that they can run in, and give out what others read."""
    names = [node.name for group in groups for node in group.nodes]
    assert sorted(names) == sorted(node.name for node in nodes if not node.constant)
    place = {node.name: at for at, group in enumerate(groups) for node in group.nodes}
    for graph, edges in edges_of(nodes, outputs).items():
        own = [node for node in nodes if node.graph == graph and not node.constant]
        maker = {t.name: node.name for node in own for t in node.op.outputs if t is not None}
        for at, node in enumerate(own):
            # All edges lead forward: so no path that leaves a group comes back to it.
            assert all(place[own[source].name] <= place[node.name] for source in edges.reads[at])
            for tensor in node.op.inputs:
                if tensor is not None and tensor.name in maker and place[maker[tensor.name]] != place[node.name]:
                    assert tensor.name in groups[place[maker[tensor.name]]].outputs
    assert {rule for group in groups for rule in [group.rule] if rule} <= RULES.keys()


@given(graphs())
def test_groups_part_the_nodes_and_can_run_in_their_order(made: tuple[list[Node], list[str]]) -> None:
    nodes, outputs = made
    found = fuse(nodes, outputs)
    check(nodes, outputs, found)
    assert {name for group in found for name in group.outputs} >= set(outputs)
    check(nodes, outputs, fuse(nodes, outputs, groups=False))


@given(graphs())
def test_groups_are_convex(made: tuple[list[Node], list[str]]) -> None:
    """By brute force: no node outside a group is both behind and before nodes of it."""
    nodes, outputs = made
    edges = edges_of(nodes, outputs)[""]
    behind: list[set[int]] = []
    for reads in edges.reads:
        behind.append(set(reads).union(*(behind[source] for source in reads)))
    at = {node.name: place for place, node in enumerate(nodes)}
    for group in fuse(nodes, outputs):
        own = {at[node.name] for node in group.nodes}
        above = set().union(*(behind[place] for place in own)) - own
        assert not any(behind[place] & own for place in above)


@pytest.mark.parametrize("path", real_models(), ids=lambda path: path.stem)
def test_groups_of_real_models(path: Path) -> None:
    source = source_of(load_model(path), feed=False)
    outputs = [tensor.name for tensor in source.model.outputs]
    check(source.nodes, outputs, fuse(source.nodes, outputs))


def test_a_residual_network_becomes_what_tensorrt_made_of_one() -> None:
    """Stem, pool, two kernels a block and one a projection, pool, Gemm, Softmax: as in its plan of a ResNet."""
    source = source_of(load_model(SAMPLES / "resnet_tiny.onnx"), feed=False)
    found = kinds(fuse(source.nodes, ["probabilities"]))
    assert len(found) == 2 + 6 * 2 + 2 + 3
    assert found.count(["Conv", "BatchNormalization", "Add", "Relu"]) == 6


def test_a_transformer_layer_is_nine_kernels() -> None:
    """Norm, query, key, value, attention, its projection with the residual, norm, and the two of the MLP: nine."""
    source = source_of(load_model(SAMPLES / "transformer_block.onnx"), feed=False)
    found = [group for group in fuse(source.nodes, ["hidden_states"]) if not group.free]
    # The mask, the embedding and the last norm are around the two layers.
    assert len(found) == 2 * 9 + 3
    assert sum(group.rule == "attention" for group in found) == 2


def test_a_custom_node_is_one_kernel_and_takes_nothing_in() -> None:
    g = Graph()
    x = g.op("Relu", "x")
    inner = len(g.nodes)
    y = g.op(
        "Reshape", g.op("Add", g.op("MatMul", x, g.weight("w", 8, 8)), g.weight("b")), g.weight("s", 2), shape=(24, 8)
    )
    call = Call(name="gemv", domain="trtprof", op_type="Gemv", outputs=(y,))
    g.nodes[inner:] = [msgspec.structs.replace(node, call=call) for node in g.nodes[inner:]]
    g.op("Relu", y)
    for groups in (True, False):
        found = fuse(g.nodes, groups=groups)
        assert [[node.op.op_type for node in group.nodes] for group in found] == [
            ["Relu"], ["MatMul", "Add", "Reshape"], ["Relu"],
        ]  # fmt: skip
        plugin = found[1]
        assert (plugin.rule, plugin.outputs, plugin.free) == ("plugin", (y,), False)
        assert plugin.views == {g.nodes[inner + 2].name}
