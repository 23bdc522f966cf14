"""Nodes of two models, matched by name and by place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.compare_factory import chain, make_run
from trtprof.base.records import Node, NodeResult, Op, Source, Tensor
from trtprof.compare.nodes import NodeGraph, NodeMatch, match_nodes, node_graph

Edges = list[tuple[int, int]]


def graph(nodes: list[tuple[str, str]], edges: Edges | None = None) -> NodeGraph:
    return node_graph(make_run(nodes, (), latency_ns=1, edges=edges))


def named(match: NodeMatch, before: NodeGraph, after: NodeGraph) -> dict[str, str]:
    return {before.names[one]: after.names[other] for one, other in match.pairs.items()}


def test_same_names_are_the_same_nodes() -> None:
    one = graph(chain("Conv", "Relu", "Conv"))
    match = match_nodes(one, one)
    assert match.pairs == {0: 0, 1: 1, 2: 2}
    assert not match.placed
    assert not match.replaced


def test_renamed_nodes_are_found_by_their_place() -> None:
    one, other = graph(chain("Conv", "Relu", "Conv", "Relu", stem="a")), graph(chain("Conv", "Relu", "Conv", "Relu"))
    match = match_nodes(one, other)
    assert named(match, one, other) == {f"a{at}": f"n{at}" for at in range(4)}
    assert match.placed == frozenset(range(4))


def test_numbers_that_shifted_count_for_nothing() -> None:
    """A node more at the front, and every exporter's number is that of another node."""
    ops = ["Relu", "Conv", "Conv", "Relu", "Add", "Conv"]
    before = graph([(f"{op}_{at}", op) for at, op in enumerate(ops)])
    after = graph([(f"{op}_{at}", op) for at, op in enumerate(["Pad", *ops])])
    assert "Conv_2" in before.names
    assert "Conv_2" in after.names
    found = named(match_nodes(before, after), before, after)
    assert found == {f"{op}_{at}": f"{op}_{at + 1}" for at, op in enumerate(ops)}


def test_format_changes_are_looked_through() -> None:
    before = graph([("c0", "Conv"), ("r", "Relu"), ("c1", "Conv")])
    quantised = graph(
        [("q0", "QuantizeLinear"), ("d0", "DequantizeLinear"), ("x", "Conv"), ("q1", "QuantizeLinear"),
         ("d1", "DequantizeLinear"), ("y", "Relu"), ("q2", "QuantizeLinear"), ("d2", "DequantizeLinear"),
         ("z", "Conv")],
    )  # fmt: skip
    found = named(match_nodes(before, quantised), before, quantised)
    assert found == {"c0": "x", "r": "y", "c1": "z"}


def test_a_node_in_the_place_of_another_replaced_it() -> None:
    before = graph([("a", "Conv"), ("b", "Relu"), ("c", "Conv")])
    after = graph([("a", "Conv"), ("b", "Sigmoid"), ("c", "Conv")])
    match = match_nodes(before, after)
    assert match.replaced == (((1,), (1,)),)
    assert 1 not in match.pairs


def test_edges_come_from_the_source_where_the_run_has_none() -> None:
    def tensor(name: str) -> Tensor:
        return Tensor(name=name, dtype="fp32", shape=(1,))

    def node(name: str, op: str, reads: str, writes: str) -> Node:
        return Node(
            name=name, original_name=name, graph="",
            op=Op(op_type=op, inputs=(tensor(reads),), outputs=(tensor(writes),)),
        )  # fmt: skip

    run = make_run([("b", "Relu"), ("a", "Conv")], (), latency_ns=1, graph=None)
    source = Source(model=run.model, nodes=(node("b", "Relu", "y", "z"), node("a", "Conv", "x", "y")))
    assert node_graph(run, source).after == ((), (0,))
    assert node_graph(run).after == ((1,), ())


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[tuple[str, str]], Edges]:
    count = draw(st.integers(1, 14))
    nodes = [(f"n{at}", draw(st.sampled_from(["Conv", "Relu", "Add", "MatMul"]))) for at in range(count)]
    edges: Edges = []
    for reader in range(1, count):
        makers = draw(st.lists(st.integers(0, reader - 1), min_size=1, max_size=2, unique=True))
        edges += [(maker, reader) for maker in makers]
    return nodes, edges


@given(networks())
def test_a_network_whose_nodes_are_all_renamed_is_the_same_network(found: tuple[list[tuple[str, str]], Edges]) -> None:
    nodes, edges = found
    one, other = graph(nodes, edges), graph([(f"x{name}", op) for name, op in nodes], edges)
    match = match_nodes(one, other)
    assert match.pairs == {at: at for at in range(len(nodes))}
    assert not match.replaced


@given(networks(), networks())
def test_a_match_is_one_to_one_and_of_equal_ops(
    first: tuple[list[tuple[str, str]], Edges], second: tuple[list[tuple[str, str]], Edges]
) -> None:
    one, other = graph(*first), graph([(f"x{name}", op) for name, op in second[0]], second[1])
    match = match_nodes(one, other)
    assert len(set(match.pairs.values())) == len(match.pairs)
    assert all(one.op_types[left] == other.op_types[right] for left, right in match.pairs.items())
    gone = [at for group, _ in match.replaced for at in group]
    new = [at for _, group in match.replaced for at in group]
    assert len(set(gone)) == len(gone)
    assert len(set(new)) == len(new)
    assert not set(gone) & match.pairs.keys()


def test_bodies_of_loops_match_their_own() -> None:
    def run(stem: str) -> NodeGraph:
        base = make_run([("a", "Relu"), (f"{stem}b", "Relu")], (), latency_ns=1, edges=[])
        nodes = (
            NodeResult(
                name=f"{stem}a", op_type="Relu", graph="", fate="layer", layers=(), flops=1, bytes=1),
            NodeResult(
                name=f"{stem}b", op_type="Relu", graph=f"{stem}If/then_branch", fate="layer", layers=(), flops=1,
                bytes=1,
            ),
        )  # fmt: skip
        from trtprof.compare.nodes import graph_of

        assert base.nodes
        return graph_of(nodes, [])

    assert match_nodes(run("x"), run("y")).pairs == {0: 0, 1: 1}
