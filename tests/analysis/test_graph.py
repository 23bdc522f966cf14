from __future__ import annotations

from collections.abc import Sequence

from trtprof.analysis.graph import graph_of_plan
from trtprof.analysis.run import _attributes
from trtprof.base.records import Attribute, Node, Op, PlanLayer, PlanTensor, RunGraph, Tensor


def tensors(names: Sequence[str]) -> tuple[Tensor, ...]:
    """Of 16 floats each; a name in capitals is a constant."""
    return tuple(Tensor(name=name, dtype="fp32", shape=(16,), constant=name.isupper()) for name in names)


def node(name: str, reads: str, writes: str, graph: str = "") -> Node:
    op = Op(op_type="Add", inputs=tensors(reads.split()), outputs=tensors(writes.split()))
    return Node(name=name, original_name=name, graph=graph, op=op)


def layer(name: str, reads: str, writes: str) -> PlanLayer:
    def given(names: str) -> list[PlanTensor]:
        return [PlanTensor(name=tensor, dims=(16,), dtype="fp16") for tensor in names.split()]

    return PlanLayer(
        name=name,
        kind="kgen",
        inputs=tuple(tensor for tensor in given(reads) if not tensor.name.isupper()),
        constants=tuple(tensor for tensor in given(reads) if tensor.name.isupper()),
        outputs=tuple(given(writes)),
    )


def graph(*layers: PlanLayer) -> RunGraph:
    return graph_of_plan(layers, [layer.name for layer in layers], [])


def layer_edges(graph: RunGraph) -> list[tuple[str, str, str, int]]:
    columns = zip(graph.layer_from, graph.layer_to, graph.tensor, graph.nbytes, strict=True)
    return [(graph.layers[maker], graph.layers[reader], tensor, size) for maker, reader, tensor, size in columns]


def test_an_edge_is_a_tensor_that_one_layer_writes_and_another_reads() -> None:
    found = graph(layer("a", "x W", "t"), layer("b", "t", "u"), layer("c", "t u", "y"))
    assert layer_edges(found) == [("a", "b", "t", 32), ("a", "c", "t", 32), ("b", "c", "u", 32)]


def test_an_edge_has_the_type_that_the_tensor_has_in_the_engine() -> None:
    assert graph(layer("a", "x W", "t"), layer("b", "t", "u")).dtype == ("fp16",)


def test_of_a_name_written_twice_the_last_writer_before_the_reader_counts() -> None:
    found = graph(layer("a", "x", "t"), layer("b", "t", "t"), layer("c", "t", "y"), layer("d", "y", "t"))
    assert layer_edges(found) == [("a", "b", "t", 32), ("b", "c", "t", 32), ("c", "d", "y", 32)]


def test_what_a_loop_hands_to_its_next_round_is_no_edge() -> None:
    assert layer_edges(graph(layer("a", "state", "t"), layer("b", "t", "state"))) == [("a", "b", "t", 32)]


def test_unknown_bytes_are_not_zero() -> None:
    unknown = PlanTensor(name="t", dims=(-1,), dtype="fp16")
    made = PlanLayer(name="a", kind="k", outputs=(unknown,))
    assert graph(made, PlanLayer(name="b", kind="k", inputs=(unknown,))).nbytes == (-1,)


def test_nodes_of_a_subgraph_read_from_the_graphs_around_it() -> None:
    nodes = [
        node("first", "x", "t"),
        node("/block/If", "c", "y"),
        node("inner", "t", "u", "/block/If/then_branch"),
        node("deep", "t u", "v", "/block/If/then_branch/Loop_1/body"),
        node("outside", "u y", "z"),
    ]
    found = graph_of_plan([], [], nodes)
    pairs = [
        (nodes[maker].name, nodes[reader].name) for maker, reader in zip(found.node_from, found.node_to, strict=True)
    ]
    assert pairs == [("first", "inner"), ("first", "deep"), ("inner", "deep"), ("/block/If", "outside")]


def test_attributes_are_told_in_words_but_no_text_of_an_op_of_somebody() -> None:
    given: dict[str, Attribute] = {"strides": (2, 2), "alpha": 0.25, "mode": "linear", "values": tuple(range(40))}
    told = _attributes(Op(op_type="Resize", attributes=given))
    assert told == {
        "alpha": "0.25",
        "mode": "linear",
        "strides": "2, 2",
        "values": ", ".join(map(str, range(16))) + ", ... (40 values)",
    }
    assert set(_attributes(Op(op_type="Mine", domain="acme", attributes=given))) == {"alpha", "strides", "values"}
