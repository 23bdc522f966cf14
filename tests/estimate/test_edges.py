"""Edges between the layers of a plan: each kind on a plan made for it, prices by hand, and what holds for all plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import ROOT, SAMPLES, one_unit
from trtprof.analysis.plan import price_plan
from trtprof.base.plan_words import LAUNCHING
from trtprof.base.records import Ceilings, Estimate, MatchedLayer, Node, Op, PlanLayer, PlanTensor, Tensor, Work
from trtprof.engine.inspector import read_layer_info
from trtprof.estimate.cache import Access, never_read, traffic_of_accesses
from trtprof.estimate.edges import Edge, plan_edges, priced_edges
from trtprof.estimate.roofline import estimate
from trtprof.source.load import load_model, source_of

MB = 1_000_000

CEILINGS = Ceilings(
    device="an invented device",
    source="a test",
    measured_at="2026-01-01T00:00:00+00:00",
    best=one_unit({"fp32": 1e12}, dram=1e11, cache=1e12),
    attainable=one_unit({"fp32": 1e12}, dram=1e11, cache=1e12),
    cache_bytes=0,
    threads=1,
    launch_ns=1000.0,
    call_ns=0.0,
)
"""1 MB takes 10 us of DRAM and 1 us of L2."""


class Plan:
    """A plan written down layer by layer; a tensor has 250,000 elements of fp32, which are 1 MB."""

    def __init__(self) -> None:
        self.layers: list[MatchedLayer] = []
        self.accesses: list[Access] = []
        self.works: list[Work | None] = []
        self.nodes: list[Node] = []

    def layer(
        self,
        name: str,
        reads: str = "",
        writes: str = "",
        *,
        kind: str = "kgen",
        nodes: str = "",
        role: str = "compute",
        weights: str = "",
        flops: int = 0,
        **fields: Any,
    ) -> str:
        """Add a layer; names in ``reads``, ``writes`` and ``nodes`` are separated by blanks."""
        read, written, held = (
            tuple(PlanTensor(name=each, dims=(250_000,), dtype="fp32") for each in names.split())
            for names in (reads, writes, weights)
        )
        plan_layer = PlanLayer(name=name, kind=kind, inputs=read, outputs=written, constants=held, **fields)
        self.layers.append(MatchedLayer(layer=plan_layer, role=role, nodes=tuple(nodes.split()), match="exact"))  # type: ignore[arg-type]
        access = Access(name, {t.name: MB for t in (*read, *held)}, {t.name: MB for t in written})
        self.accesses.append(access)
        moved = Work(bytes_read=sum(access.reads.values()), bytes_written=sum(access.writes.values()))
        self.works.append(Work(**{**_fields(moved), "vector_flops": flops, "dtype": "fp32"}))
        return name

    def node(self, name: str, op_type: str, reads: str, writes: str, weights: str = "") -> None:
        tensors = [Tensor(name=each, dtype="fp32", shape=(4, 8, 8, 8)) for each in reads.split()]
        held = [Tensor(name=each, dtype="fp32", shape=(8, 8, 1, 1), constant=True) for each in weights.split()]
        made = [Tensor(name=each, dtype="fp32", shape=(4, 8, 8, 8)) for each in writes.split()]
        op = Op(op_type=op_type, opset=17, inputs=(*tensors, *held), outputs=tuple(made))
        self.nodes.append(Node(name=name, original_name=name, graph="", op=op))

    def edges(self, outputs: Sequence[str] = ()) -> list[Edge]:
        given_out = {*outputs, *never_read(self.accesses)}
        return list(plan_edges(self.layers, self.accesses, self.nodes, sorted(given_out)))

    def estimates(self, ceilings: Ceilings = CEILINGS) -> list[Estimate | None]:
        traffic = traffic_of_accesses(self.accesses, ceilings.cache_bytes)
        return [
            None if work is None else estimate(work, moved, ceilings)
            for work, moved in zip(self.works, traffic, strict=True)
        ]


def _fields(work: Work) -> dict[str, Any]:
    return {name: getattr(work, name) for name in work.__struct_fields__}


# --- what is an edge, and of which kind ---------------------------------------------------------


@pytest.mark.parametrize(
    ("maker", "reader", "kind"),
    [
        ("correlation", "kgen", "epilogue"),
        ("CaskConvolution", "PointWiseV2", "epilogue"),
        ("kgen", "gemm", "prologue"),
        ("kgen", "kgen", "pointwise"),
        ("maxpool", "kgen", "pointwise"),
        ("CaskPooling", "CaskConvolution", "prologue"),
        ("gemm", "CaskDeconvolution", "products"),
        ("Reformat", "CaskConvolution", "layout"),
        ("gemm", "Reformat", "layout"),
    ],
)
def test_the_kind_tells_what_would_have_to_fuse(maker: str, reader: str, kind: str) -> None:
    plan = Plan()
    plan.layer("a", "x", "t", kind=maker, parameter_type="Pooling" if maker == "CaskPooling" else "")
    plan.layer("b", "t", "y", kind=reader, weights="w")
    (edge,) = plan.edges()
    assert (edge.edge.kind, edge.edge.tensor, edge.edge.maker, edge.edge.readers) == (kind, "t", "a", ("b",))
    assert edge.edge.bytes == 2 * MB


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("__myl_FcAddRelu_myl0_1", "epilogue"),
        ("__myl_CorrMulAddRelu_myl0_1", "epilogue"),
        ("_gemm_mha_v2_myl0_1", "epilogue"),
        ("__myl_ConcMulAdd_myl0_1", "pointwise"),
    ],
)
def test_the_name_of_a_fusion_at_run_time_tells_whether_it_multiplies(name: str, kind: str) -> None:
    plan = Plan()
    plan.layer(name, "x", "t", kind="runtime_fusion")
    plan.layer("b", "t", "y")
    assert [edge.edge.kind for edge in plan.edges()] == [kind]


def test_weights_inputs_and_layers_that_launch_nothing_make_no_edges() -> None:
    plan = Plan()
    plan.layer("constant", "", "w", kind="Constant", role="idle")
    plan.layer("shape", "x", "s", kind="shape_call", role="shape")
    plan.layer("a", "x w s", "t", weights="v")
    assert plan.edges() == []


def test_a_tensor_that_is_written_again_is_another_value() -> None:
    plan = Plan()
    plan.layer("first", "x", "t")
    plan.layer("step", "t", "t")
    plan.layer("last", "t", "y")
    assert [(edge.edge.maker, edge.edge.readers) for edge in plan.edges()] == [
        ("first", ("step",)),
        ("step", ("last",)),
    ]


def test_a_reader_joins_only_where_no_third_layer_runs_in_between() -> None:
    plan = Plan()
    plan.layer("before", "x", "t", kind="correlation")
    plan.layer("conv1", "t", "u", kind="correlation")
    plan.layer("conv2", "u t", "y", kind="correlation")
    residual, _ = plan.edges()
    assert residual.readers == (1, 2)
    assert residual.joined == (1,)
    # It is still written for the addition, and conv1 alone saves its read.
    assert (residual.written, residual.read) == (0, (MB,))
    assert "other layers have to run before 1 of them" in residual.edge.reason
    assert residual.edge.bytes == 3 * MB


def test_a_reader_that_is_reached_by_another_tensor_of_the_maker_does_not_join() -> None:
    plan = Plan()
    plan.layer("split", "x", "t u")
    plan.layer("third", "u", "v")
    plan.layer("last", "t v", "y")
    by_tensor = {edge.edge.tensor: edge for edge in plan.edges()}
    assert by_tensor["t"].joined == ()
    assert by_tensor["t"].edge.reason == "other layers have to run in between"
    assert by_tensor["u"].joined == (1,)


# --- whether engines fuse it as a rule ------------------------------------------------------------


def conv_and_relu(second: str = "Relu", **fields: Any) -> Plan:
    plan = Plan()
    plan.node("conv", "Conv", "x", "t", "w")
    plan.node("next", second, "t", "y", "v" if second == "Conv" else "")
    plan.layer("a", "x", "t", kind="correlation", nodes="conv", weights="w")
    plan.layer("b", "t", "y", kind="correlation" if second == "Conv" else "kgen", nodes="next", **fields)
    return plan


def test_what_the_rules_make_one_layer_is_expected_and_the_rule_is_named() -> None:
    (edge,) = conv_and_relu().edges()
    assert edge.edge.expected
    assert edge.edge.reason == "the rule 'product' makes one layer of conv (Conv) and next (Relu)"


def test_what_no_rule_covers_is_said_with_the_nodes() -> None:
    (edge,) = conv_and_relu("Concat").edges()
    assert (edge.edge.expected, edge.edge.reason) == (False, "no rule makes one layer of conv (Conv) and next (Concat)")


def test_the_steps_of_one_node_are_no_fusion_that_was_missed() -> None:
    plan = Plan()
    plan.node("norm", "LRN", "x", "y")
    plan.layer("square", "x", "t", nodes="norm")
    plan.layer("divide", "t", "y", nodes="norm")
    (edge,) = plan.edges()
    assert (edge.edge.expected, edge.edge.reason) == (False, "both are steps of norm (LRN), one node of the model")


def test_the_bias_of_a_product_belongs_to_the_product() -> None:
    plan = Plan()
    plan.node("fc", "Gemm", "x", "y", "w b")
    plan.layer("multiply", "x", "t", kind="gemm", nodes="fc", weights="w")
    plan.layer("add", "t", "y", nodes="fc", weights="b")
    (edge,) = plan.edges()
    assert (edge.edge.expected, edge.edge.reason) == (True, "the rule 'product' makes one layer of fc (Gemm)")


def test_a_layer_that_goes_on_with_work_of_its_own_stays() -> None:
    """The bias would go into the product, and what the softmax reads would still be written."""
    plan = Plan()
    plan.node("fc", "Gemm", "x", "s", "w b")
    plan.node("softmax", "Softmax", "s", "y")
    plan.layer("multiply", "x", "t", kind="gemm", nodes="fc", weights="w")
    plan.layer("add_and_softmax", "t", "y", nodes="fc softmax", weights="b")
    (edge,) = plan.edges()
    assert not edge.edge.expected


def test_a_layer_whose_other_nodes_go_into_further_layers_dissolves() -> None:
    plan = Plan()
    plan.node("project", "MatMul", "x", "a", "w")
    plan.node("bias", "Add", "a", "c", "b")
    plan.node("heads", "Transpose", "c", "q")
    plan.node("scores", "MatMul", "q k", "s")
    plan.node("softmax", "Softmax", "s", "p")
    plan.node("context", "MatMul", "p v", "y")
    plan.layer("gemm0", "x", "a", kind="gemm", nodes="project", weights="w")
    plan.layer("kgen0", "a", "q", nodes="bias heads", weights="b")
    plan.layer("gemm1", "q k", "s", kind="gemm", nodes="scores")
    plan.layer("kgen1", "s", "p", nodes="softmax")
    plan.layer("gemm2", "p v", "y", kind="gemm", nodes="context")
    rules = {(edge.edge.maker, edge.edge.readers[0]): edge.edge.reason for edge in plan.edges() if edge.edge.expected}
    # The bias goes into the product, the transpose into the attention: nothing is left between them.
    assert list(rules) == [("gemm0", "kgen0"), ("kgen0", "gemm1"), ("gemm1", "kgen1"), ("kgen1", "gemm2")]
    assert rules["gemm0", "kgen0"].startswith("the rule 'product'")
    assert rules["gemm1", "kgen1"].startswith("the rule 'attention'")


# --- what it would save ---------------------------------------------------------------------------


def test_a_tensor_that_goes_through_dram_costs_its_write_its_read_and_a_launch() -> None:
    plan = Plan()
    plan.layer("a", "x", "t")
    plan.layer("b", "t", "y")
    (edge,) = priced_edges(plan.edges(), plan.works, plan.estimates())
    # Apart 2 MB each at 100 GB/s; as one layer x is read and y is written.
    assert edge.saved_ns == 20_000 + 20_000 - 20_000


def test_an_output_of_the_engine_is_written_all_the_same() -> None:
    plan = Plan()
    plan.layer("a", "x", "t")
    plan.layer("b", "t", "y")
    (edge,) = priced_edges(plan.edges(["t"]), plan.works, plan.estimates())
    assert edge.saved_ns == 10_000


def test_an_edge_that_stays_in_the_cache_costs_its_bandwidth_alone() -> None:
    plan = Plan()
    plan.layer("a", "x", "t")
    plan.layer("b", "t", "y")
    roomy = Ceilings(**{**{f: getattr(CEILINGS, f) for f in CEILINGS.__struct_fields__}, "cache_bytes": 10 * MB})
    (edge,) = priced_edges(plan.edges(), plan.works, plan.estimates(roomy))
    # 2 MB each at 1 TB/s.
    assert edge.saved_ns == 2_000 + 2_000 - 2_000


def test_only_readers_that_can_join_are_counted() -> None:
    plan = Plan()
    plan.layer("before", "x", "t")
    plan.layer("conv1", "t", "u")
    plan.layer("conv2", "u t", "y")
    priced = {edge.tensor: edge.saved_ns for edge in priced_edges(plan.edges(), plan.works, plan.estimates())}
    # With conv1: x, and t and u written. With conv2: t read twice, as it is apart, and y.
    assert priced == {"t": 20_000 + 20_000 - 30_000, "u": 20_000 + 30_000 - 30_000}


def test_most_first_then_in_the_order_of_the_plan_then_without_a_price() -> None:
    plan = Plan()
    for at in range(4):
        plan.layer(f"l{at}", f"t{at}", f"t{at + 1}")
    plan.layer("opaque", "t4", "t5")
    plan.works[4] = None
    plan.accesses[2].writes["t3"] = 1000  # type: ignore[index]
    plan.accesses[3].reads["t3"] = 1000  # type: ignore[index]
    for at in (2, 3):
        access = plan.accesses[at]
        plan.works[at] = Work(bytes_read=sum(access.reads.values()), bytes_written=sum(access.writes.values()))
    priced = priced_edges(plan.edges(), plan.works, plan.estimates())
    assert [edge.tensor for edge in priced] == ["t1", "t2", "t3", "t4"]
    assert priced[-1].saved_ns is None
    assert priced[2].saved_ns == 20  # 1 kB written and read at 100 GB/s; 1 MB at both ends


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    plan = Plan()
    names = ["x"]
    for at in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        plan.layer(f"l{at}", " ".join(reads), f"t{at}", flops=draw(st.sampled_from([0, 1000, 10**8])))
        size = draw(st.sampled_from([0, 4, 5000, MB, 3 * MB]))
        plan.accesses[at].writes[f"t{at}"] = size  # type: ignore[index]
        names.append(f"t{at}")
    sizes = {name: size for access in plan.accesses for name, size in access.writes.items()} | {"x": MB}
    for at, access in enumerate(plan.accesses):
        plan.accesses[at] = Access(access.layer, {name: sizes[name] for name in access.reads}, access.writes)
        moved = (sum(plan.accesses[at].reads.values()), sum(access.writes.values()))
        work = plan.works[at]
        assert work is not None
        plan.works[at] = Work(bytes_read=moved[0], bytes_written=moved[1], vector_flops=work.vector_flops, dtype="fp32")
    return plan


@given(plans(), st.sampled_from([0, MB, 100 * MB]))
def test_a_fusion_never_costs_and_never_saves_more_than_all_layers_but_the_longest(plan: Plan, cache: int) -> None:
    ceilings = Ceilings(**{**{f: getattr(CEILINGS, f) for f in CEILINGS.__struct_fields__}, "cache_bytes": cache})
    estimates = plan.estimates(ceilings)
    edges = plan.edges()
    found = {(edge.tensor, edge.maker): edge.saved_ns for edge in priced_edges(edges, plan.works, estimates)}
    for edge in edges:
        saved = found[edge.edge.tensor, edge.edge.maker]
        alone = [estimates[at].attainable_ns for at in (edge.maker, *edge.joined)]  # type: ignore[union-attr]
        assert saved is not None
        assert 0 <= saved <= sum(alone) - math.ceil(ceilings.launch_ns)
        if not edge.joined:
            assert saved == 0


@given(plans())
def test_a_kernel_of_layers_that_join_waits_for_no_layer_that_waits_for_it(plan: Plan) -> None:
    """Joined layers contracted to one, the graph of layers has no cycle."""
    writer = {name: at for at, access in enumerate(plan.accesses) for name in access.writes}
    arrows = {(writer[name], at) for at, access in enumerate(plan.accesses) for name in access.reads if name in writer}
    for edge in plan.edges():
        for reader in edge.readers:
            paths = _reached(arrows - {(edge.maker, reader)}, edge.maker)
            assert (reader in edge.joined) == (reader not in paths)


def _reached(arrows: set[tuple[int, int]], start: int) -> set[int]:
    found: set[int] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        for source, target in arrows:
            if source == at and target not in found:
                found.add(target)
                todo.append(target)
    return found


# --- real plans -----------------------------------------------------------------------------------


def test_a_real_plan_has_an_edge_for_every_tensor_between_its_layers() -> None:
    plan = read_layer_info(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log")
    source = source_of(load_model(SAMPLES / "resnet_tiny.onnx"), {}, None, feed=False)
    priced = price_plan(plan, source)
    launching = [matched.layer for matched in priced.document.layers if matched.role in LAUNCHING]
    written = {tensor.name for layer in launching for tensor in layer.outputs}
    between = {tensor.name for layer in launching for tensor in layer.inputs} & written
    assert {edge.edge.tensor for edge in priced.edges} == between
    assert len(between) == len(priced.edges) > 10
    # TensorRT-RTX fuses activations and residuals of this model all by itself.
    assert not [edge for edge in priced.edges if edge.edge.expected and edge.edge.kind == "pointwise"]
