from __future__ import annotations

from collections.abc import Sequence

from profiler.analysis.graph import graph_of_layers, graph_of_plan
from profiler.base.records import Layer, Node, Op, PlanLayer, PlanTensor, RunGraph, Tensor


def tensors(names: Sequence[str]) -> tuple[Tensor, ...]:
    """Of 16 floats each; a name in capitals is a constant."""
    return tuple(Tensor(name=name, dtype="fp32", shape=(16,), constant=name.isupper()) for name in names)


def layer(name: str, reads: str, writes: str) -> Layer:
    return Layer(name=name, op=Op(op_type="Add", inputs=tensors(reads.split()), outputs=tensors(writes.split())))


def node(name: str, reads: str, writes: str, graph: str = "") -> Node:
    op = Op(op_type="Add", inputs=tensors(reads.split()), outputs=tensors(writes.split()))
    return Node(name=name, original_name=name, graph=graph, op=op)


def plan_layer(name: str, reads: str, writes: str) -> PlanLayer:
    def given(names: str) -> tuple[PlanTensor, ...]:
        return tuple(PlanTensor(name=one, dims=(16,), dtype="fp16") for one in names.split())

    return PlanLayer(name=name, kind="kgen", inputs=given(reads), outputs=given(writes))


def layer_edges(graph: RunGraph) -> list[tuple[str, str, str, int]]:
    columns = zip(graph.layer_from, graph.layer_to, graph.tensor, graph.nbytes, strict=True)
    return [(graph.layers[maker], graph.layers[reader], tensor, size) for maker, reader, tensor, size in columns]


def test_an_edge_is_a_tensor_that_one_layer_writes_and_another_reads() -> None:
    found = graph_of_layers([layer("a", "x W", "t"), layer("b", "t", "u"), layer("c", "t u", "y")], [])
    assert layer_edges(found) == [("a", "b", "t", 64), ("a", "c", "t", 64), ("b", "c", "u", 64)]


def test_of_a_name_written_twice_the_last_writer_before_the_reader_counts() -> None:
    plan = [plan_layer("a", "x", "t"), plan_layer("b", "t", "t"), plan_layer("c", "t", "y"), plan_layer("d", "y", "t")]
    found = graph_of_plan(plan, ["a", "b", "c", "d"], [])
    assert layer_edges(found) == [("a", "b", "t", 32), ("b", "c", "t", 32), ("c", "d", "y", 32)]


def test_what_a_loop_hands_to_its_next_round_is_no_edge() -> None:
    assert layer_edges(graph_of_layers([layer("a", "state", "t"), layer("b", "t", "state")], [])) == [
        ("a", "b", "t", 64)
    ]


def test_unknown_bytes_are_not_zero() -> None:
    unknown = PlanTensor(name="t", dims=(-1,), dtype="fp16")
    plan = [PlanLayer(name="a", kind="k", outputs=(unknown,)), PlanLayer(name="b", kind="k", inputs=(unknown,))]
    assert graph_of_plan(plan, ["a", "b"], []).nbytes == (-1,)


def test_nodes_of_a_subgraph_read_from_the_graphs_around_it() -> None:
    nodes = [
        node("first", "x", "t"),
        node("/block/If", "c", "y"),
        node("inner", "t", "u", "/block/If/then_branch"),
        node("deep", "t u", "v", "/block/If/then_branch/Loop_1/body"),
        node("outside", "u y", "z"),
    ]
    found = graph_of_layers([], nodes)
    pairs = [
        (nodes[maker].name, nodes[reader].name) for maker, reader in zip(found.node_from, found.node_to, strict=True)
    ]
    assert pairs == [("first", "inner"), ("first", "deep"), ("inner", "deep"), ("/block/If", "outside")]


def test_a_constant_that_a_layer_computes_is_read_from_it() -> None:
    assert layer_edges(graph_of_layers([layer("a", "W", "T"), layer("b", "T", "y")], [])) == [("a", "b", "T", 64)]
