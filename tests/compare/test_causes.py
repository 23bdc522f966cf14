"""What a difference is made of: a case for every cause, and the laws of the ledger."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.compare_factory import L, chain, make_run, save
from tests.fakes.support import fixed_ceilings
from trtprof.base.records import ClockSummary, Comparison, LayerResult, LedgerRow, Run, Spread
from trtprof.compare import compare

NODES = chain("Conv", "Relu", "Conv", "Relu", "MatMul")
LAYERS = (L("a", ("n0", "n1"), 40_000), L("b", ("n2", "n3"), 30_000), L("c", ("n4",), 10_000, "gemm", op_type="MatMul"))


def compared(tmp_path: Path, before: Run, after: Run) -> Comparison:
    one = compare([[save(tmp_path / "before", before)], [save(tmp_path / "after", after)]]).comparisons[0]
    check_sums(one)
    return one


def check_sums(one: Comparison) -> None:
    assert sum(row.ns for row in one.ledger) == one.latency.difference_ns.value
    assert one.after.latency.median_ns - one.before.latency.median_ns == one.latency.difference_ns.value
    for region in one.regions:
        assert sum(region.parts.values()) == region.difference_ns == region.after_ns - region.before_ns


def causes(one: Comparison) -> dict[str, int]:
    return {row.cause: row.ns for row in one.ledger if row.ns}


def with_layers(*changes: L) -> tuple[L, ...]:
    by_name = {layer.name: layer for layer in changes}
    return tuple(by_name.get(layer.name, layer) for layer in LAYERS)


def test_a_run_with_itself_is_all_zero(tmp_path: Path) -> None:
    folder = save(tmp_path / "run", make_run(NODES, LAYERS, host_ns=500))
    one = compare([[folder], [folder]]).comparisons[0]
    assert not causes(one)
    assert one.latency.answer == "not significant"
    assert one.latency.difference_ns.low == one.latency.difference_ns.high == 0
    assert {region.difference_ns for region in one.regions} == {0}
    assert {region.answer for region in one.regions} == {"not significant"}
    assert not one.facts
    assert one.verdict.startswith("no significant change")


def test_another_kernel(tmp_path: Path) -> None:
    slow = make_run(NODES, with_layers(L("b", ("n2", "n3"), 60_000, "sm50_conv")))
    one = compared(tmp_path, make_run(NODES, LAYERS), slow)
    assert causes(one) == {"kernel changed": 30_000}
    assert one.latency.answer == "slower"
    region = one.regions[0]
    assert region.nodes_before == ("n2", "n3")
    assert region.answer == "slower"
    assert "conv became sm50_conv" in region.reason
    assert "kernel changed" in one.verdict
    assert "n2 +1" in one.verdict
    assert one.ledger[0].kind == "fact"


def test_other_fusion(tmp_path: Path) -> None:
    apart = (L("a", ("n0",), 40_000), L("a2", ("n1",), 9_000, op_type="Relu"), *LAYERS[1:])
    one = compared(tmp_path, make_run(NODES, LAYERS), make_run(NODES, apart))
    assert causes(one) == {"fusion changed": 9_000}
    assert one.regions[0].layers_after == ("a", "a2")
    assert "1 layer became 2 layers" in one.regions[0].reason


def test_another_precision_with_nodes_that_quantise(tmp_path: Path) -> None:
    nodes = [NODES[0], NODES[1], ("q", "QuantizeLinear"), ("d", "DequantizeLinear"), *NODES[2:]]
    layers = (
        L("A", ("n0",), 11_000, "qconv", "int8"), L("A2", ("n1",), 1_000, "qrelu", "int8"),
        L("Q", ("q",), 500, "quantise"),
        L("B", ("d", "n2", "n3"), 8_000, "qconv", "int8"), L("C", ("n4",), 4_000, "qgemm", "int8", op_type="MatMul"),
    )  # fmt: skip
    one = compared(tmp_path, make_run(NODES, LAYERS), make_run(nodes, layers))
    assert causes(one) == {"precision changed": 24_500 - 80_000}
    assert {region.match for region in one.regions} == {"same names", "only after"}
    assert "fp32 became int8" in one.regions[0].reason


def test_an_op_that_does_the_same_in_integers_is_the_same_work(tmp_path: Path) -> None:
    """Slower in int8 is more time, and of the precision: the model asks for the same."""
    nodes = [("q", "DynamicQuantizeLinear"), ("n0 int8", "ConvInteger"), ("scale", "Mul"), *NODES[1:]]
    layers = (
        L("Q", ("q",), 500, "quantise"), L("A", ("n0 int8",), 90_000, "conv_integer", "int8"),
        L("S", ("scale",), 700, "mul"), L("A2", ("n1",), 1_000, "relu"), *LAYERS[1:],
    )  # fmt: skip
    found = causes(compared(tmp_path, make_run(NODES, LAYERS), make_run(nodes, layers)))
    assert "work changed" not in found
    assert found["precision changed"] > 0


def eight(layer: L, ns: int) -> L:
    return layer._replace(ns=ns, flops=8 * layer.flops, bytes=8 * layer.bytes, shapes="8x8 -> 8x8")


def batched(ns: tuple[int, int, int]) -> Run:
    layers = [eight(layer, time) for layer, time in zip(LAYERS, ns, strict=True)]
    return make_run(NODES, layers, node_flops=dict.fromkeys((name for name, _ in NODES), 8000))


def test_a_larger_batch_is_other_work(tmp_path: Path) -> None:
    one = compared(tmp_path, make_run(NODES, LAYERS), batched((320_000, 200_000, 60_000)))
    assert causes(one) == {"work changed": 500_000}
    assert one.ledger[0].kind == "estimate"


def test_other_threads_are_another_roof(tmp_path: Path) -> None:
    half = tuple(layer._replace(ns=layer.ns * 11 // 20) for layer in LAYERS)
    one_thread = msgspec.structs.replace(fixed_ceilings(), threads=1)
    two = msgspec.structs.replace(fixed_ceilings(2.0), threads=2)
    one = compared(
        tmp_path, make_run(NODES, LAYERS, ceilings=one_thread), make_run(NODES, half, ceilings=two),
    )  # fmt: skip
    assert causes(one) == {"roof changed": -36_000}
    assert any(fact.what == "threads" for fact in one.facts)


def clocks(mhz: float) -> ClockSummary:
    return ClockSummary(samples=9, duration_ns=1, sm_clock_mhz=Spread(min=mhz, median=mhz, max=mhz))


def test_a_slower_clock(tmp_path: Path) -> None:
    slow = tuple(layer._replace(ns=layer.ns * 5 // 4) for layer in LAYERS)
    runs = [make_run(NODES, LAYERS, clocks=clocks(1500.0)), make_run(NODES, slow, clocks=clocks(1200.0))]
    one = compared(tmp_path, *runs)
    found = causes(one)
    assert found["clock changed"] == pytest.approx(20_000, abs=20)
    # The interval holds both what was measured and what is left at the same speed.
    assert one.latency.answer == "not significant"
    assert "0.8 times the speed" in one.latency.reason


def test_a_clock_that_was_slower_without_the_profiler_alone(tmp_path: Path) -> None:
    before = make_run(NODES, LAYERS, latency_ns=80_000, clocks=clocks(1500.0), clocks_profiled=clocks(1500.0))
    after = make_run(NODES, LAYERS, latency_ns=100_000, clocks=clocks(1200.0), clocks_profiled=clocks(1500.0))
    one = compared(tmp_path, before, after)
    assert causes(one)["clock changed"] == pytest.approx(20_000, abs=20)
    assert {row.cause: row.kind for row in one.ledger}["clock changed"] == "estimate"


def test_host_copies_and_what_the_profiler_did_not_see(tmp_path: Path) -> None:
    before = make_run(NODES, LAYERS, host_ns=2_000)
    after = make_run(NODES, LAYERS, host_ns=3_000, latency_ns=100_000)
    rows = (*after.ledger[:2], LedgerRow(cause="gaps between layers", ns=4_000, kind="fact"))
    rest = LedgerRow(cause="unexplained", ns=100_000 - sum(row.ns for row in rows), kind="remainder")
    one = compared(tmp_path, before, msgspec.structs.replace(after, ledger=(*rows, rest)))
    assert causes(one) == {"host": 1_000, "copies and gaps": 4_000, "unexplained": 13_000}
    assert {row.cause: row.kind for row in one.ledger}["copies and gaps"] == "fact"


def test_a_reformat_belongs_to_the_layer_that_it_serves(tmp_path: Path) -> None:
    reorder = L("re", (), 3_000, "reorder", "", "ReorderInput", "layout", 0)
    after = make_run(NODES, (LAYERS[0], reorder, *LAYERS[1:]), layer_edges=[("a", "re"), ("re", "b")])
    one = compared(tmp_path, make_run(NODES, LAYERS), after)
    assert one.regions[0].layers_after in (("re", "b"), ("b", "re"))
    assert causes(one) == {"kernel changed": 3_000}
    alone = make_run(NODES, (LAYERS[0], reorder, *LAYERS[1:]))
    apart = compared(tmp_path / "alone", make_run(NODES, LAYERS), alone)
    assert apart.regions[0].name == "ReorderInput of no node"
    assert causes(apart) == {"only after": 3_000}


def renamed_layers(run: Run) -> Run:
    def layer(one: LayerResult) -> LayerResult:
        kernels = tuple(msgspec.structs.replace(kernel, layer=f"engine/{one.name}") for kernel in one.kernels)
        return msgspec.structs.replace(one, name=f"engine/{one.name}", kernels=kernels)

    graph = run.graph
    assert graph is not None
    return msgspec.structs.replace(
        run,
        layers=tuple(map(layer, run.layers)),
        graph=msgspec.structs.replace(graph, layers=tuple(f"engine/{name}" for name in graph.layers)),
    )


def renamed_nodes(run: Run) -> Run:
    return msgspec.structs.replace(
        run,
        nodes=tuple(msgspec.structs.replace(node, name=f"export/{node.name}") for node in run.nodes),
        layers=tuple(
            msgspec.structs.replace(layer, nodes=tuple(f"export/{name}" for name in layer.nodes))
            for layer in run.layers
        ),
    )


@st.composite
def engines(draw: st.DrawFn) -> Run:
    """An engine of the chain that fuses neighbours as it likes."""
    layers, at = [], 0
    while at < len(NODES):
        count = draw(st.integers(1, len(NODES) - at))
        names = tuple(name for name, _ in NODES[at : at + count])
        ns, kernel = draw(st.integers(100, 50_000)), draw(st.sampled_from(["conv", "gemm"]))
        layers.append(L(f"l{at}", names, ns, kernel, draw(st.sampled_from(["fp32", "fp16"]))))
        at += count
    return make_run(NODES, layers, host_ns=draw(st.integers(0, 500)))


LAW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(engines(), engines())
@LAW
def test_rows_sum_and_swapped_sides_negate(tmp_path: Path, first: Run, second: Run) -> None:
    there, back = compared(tmp_path, first, second), compared(tmp_path, second, first)
    assert there.latency.difference_ns.value == -back.latency.difference_ns.value
    swapped = {"only before": "only after", "only after": "only before"}
    assert causes(there) == {swapped.get(cause, cause): -ns for cause, ns in causes(back).items()}
    opposite = {"slower": "faster", "faster": "slower", "not significant": "not significant"}
    assert sorted((r.difference_ns, str(r.answer)) for r in there.regions) == sorted(
        (-r.difference_ns, opposite[str(r.answer)]) for r in back.regions
    )


@given(engines(), engines())
@LAW
def test_names_of_engine_layers_mean_nothing(tmp_path: Path, first: Run, second: Run) -> None:
    as_is, renamed = compared(tmp_path, first, second), compared(tmp_path, first, renamed_layers(second))
    assert as_is.ledger == renamed.ledger
    assert as_is.latency == renamed.latency
    without = [msgspec.structs.replace(region, layers_after=()) for region in as_is.regions]
    assert without == [msgspec.structs.replace(region, layers_after=()) for region in renamed.regions]


@given(engines(), engines())
@LAW
def test_names_of_nodes_only_change_how_they_were_matched(tmp_path: Path, first: Run, second: Run) -> None:
    as_is, renamed = compared(tmp_path, first, second), compared(tmp_path, first, renamed_nodes(second))
    assert as_is.ledger == renamed.ledger
    assert {region.match for region in renamed.regions} == {"same place"}
    plain = [msgspec.structs.replace(region, nodes_after=(), match="same names") for region in as_is.regions]
    assert plain == [msgspec.structs.replace(region, nodes_after=(), match="same names") for region in renamed.regions]
