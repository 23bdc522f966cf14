"""What holds of all rules together, whatever the case: no time is claimed twice, none that was not lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from profiler.base.records import (
    Attribute,
    Ceilings,
    Finding,
    Layer,
    LayerResult,
    Match,
    MatchedLayer,
    PlanBinding,
    PlanEdge,
    PlanLayer,
    PlanTensor,
)
from profiler.diagnose import RULES, THRESHOLDS, Case, Claim
from profiler.diagnose.ledger import OUTSIDE, Overheads
from profiler.diagnose.rank import diagnose
from profiler.hardware.gpus import ceilings, find
from tests.fakes.cases import CEILINGS, Timed, engine_case, layer, relu, tensor
from tests.fakes.support import one_unit

OTHER_WORK = {
    "CN601": "what is computed once is not computed in a run",
    "LY201": "a reformat does none of the model's work",
    "QD803": "a conversion that a layer beside it does costs nothing of its own",
    "LA401": "a layer without a launch of its own costs its work alone",
    "FU301": "a tensor that stays inside a layer is not moved",
    "QD804": "fewer bytes are moved",
    "CA806": "bytes come from the cache",
    "PR801": "narrower operands are multiplied faster and are fewer bytes",
    "AL802": "with padded dimensions other kernels run",
    "KN704": "parts of one sum need not be added up",
}
"""Rules whose remedy changes what is to be done, so that a layer may take less than what was attainable of it."""

NAMES = (
    "a_kernel",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel",
    "sm50_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel",
    "ampere_h16816gemm_128x128_ldg8_stages_64x3_nn",
    "void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024, cublasGemvParams>(cublasGemvParams)",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(float*)",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_64x64_32x10_nhwc_align8>(Params)",
    "__myl_AddMulRelu_0x6e4f",
    "fmha_v2_flash_attention_fp16_64_64_S_40_sm89_kernel",
    "genericReformat::copyPackedKernel",
)
"""Kernels of all kinds: on tensor cores and not, old and new, helpers, and one that says nothing."""
HELPERS = ("splitKreduce", "copyPackedKernel")
"""What is in the names of kernels that do none of the layer's own work: no healthy layer is made of them."""

GPU = find("rtx-4090")
MEASURED = msgspec.structs.replace(
    CEILINGS,
    best=one_unit({"fp32": 83e12, "fp16": 330e12, "int8": 660e12}, dram=1.01e12, cache=5e12),
    attainable=one_unit({"fp32": 78e12, "fp16": 310e12, "int8": 600e12}, dram=0.92e12, cache=4.5e12),
    cache_bytes=72_000_000,
    launch_ns=2000.0,
)
DATASHEET = ceilings(GPU)
FLOATS = {"fp32": "fp32", "fp16": "fp16", "bf16": "fp16"}


# --- generated cases -----------------------------------------------------------------------------

sizes = st.sampled_from([1, 7, 8, 64, 256, 1000, 2048, 4096])
dtypes = st.sampled_from(["fp32", "fp16"])


@st.composite
def engine_layers(draw: st.DrawFn, name: str, dtype: str) -> Layer:
    """A layer of some kind with tensors of its own."""
    kind = draw(st.sampled_from(["MatMul", "Conv", "MatMul", "Relu", "Add", "Softmax", "Transpose", "Cast"]))

    def one(suffix: str, *dims: int, constant: bool = False) -> Any:
        return tensor(f"{name}.{suffix}", *dims, dtype=dtype, constant=constant)

    if kind == "MatMul":
        b, m, n, k = (draw(sizes) for _ in range(4))
        return layer(name, kind, (one("a", b, m, k), one("b", b, k, n)), (one("y", b, m, n),))
    if kind == "Conv":
        batch, channels, made, side = draw(sizes), draw(sizes), draw(sizes), draw(st.sampled_from([7, 14, 56]))
        group = channels if draw(st.booleans()) else 1
        made = channels if group > 1 else made
        attributes: dict[str, Attribute] = {"group": group, "pads": (1, 1, 1, 1)}
        weights = one("w", made, channels // group, 3, 3, constant=True)
        image = one("x", min(batch, 16), channels, side, side)
        out = one("y", min(batch, 16), made, side, side)
        return layer(name, kind, (image, weights), (out,), attributes=attributes)
    shape = draw(sizes), draw(sizes), draw(sizes)
    if kind == "Add":
        return layer(name, kind, (one("a", *shape), one("b", *shape)), (one("y", *shape),))
    role = "layout" if kind == "Cast" and draw(st.booleans()) else "compute"
    return layer(name, kind, (one("a", *shape),), (one("y", *shape),), role=role)


launch = st.fixed_dictionaries(
    {
        "blocks": st.sampled_from([0, 1, 16, 100, 128, 129, 256, 257, 300, 1000, 100_000]),
        "threads": st.sampled_from([0, 32, 96, 128, 256, 1024, 5000]),
        "registers": st.sampled_from([0, 32, 100, 255, 300]),
        "shared_bytes": st.sampled_from([0, 1024, 48 * 1024, 99 * 1024, 1_000_000]),
    }
)


@st.composite
def kernels(draw: st.DrawFn, result: LayerResult, names: st.SearchStrategy[str]) -> tuple[Match, ...]:
    parts = draw(st.lists(st.integers(0, 10), min_size=1, max_size=2))
    return tuple(
        Match(
            layer=result.name, kernel=draw(names), count=10, median_ns=result.measured_ns * part // (sum(parts) or 1),
            total_ns=result.measured_ns * part * 10 // (sum(parts) or 1), confidence="exact", reason="", **draw(launch),
        )
        for part in parts
    )  # fmt: skip


def plan_of(one: Layer, dtypes: tuple[str, str], reads: str, **fields: Any) -> MatchedLayer:
    """The layer as a plan has it: it reads ``reads``, and what it reads and writes has dtypes of its own."""

    def side(tensors: tuple[Any, ...], dtype: str) -> tuple[PlanTensor, ...]:
        return tuple(PlanTensor(name=each.name, dims=each.shape, dtype=dtype) for each in tensors)

    kind = {"Conv": "CaskConvolution", "MatMul": "gemm", "Cast": "Reformat"}.get(one.op.op_type, "kgen")
    given = PlanLayer(
        name=one.name, kind=kind, inputs=side(one.op.inputs[:1], dtypes[0]), outputs=side(one.op.outputs, dtypes[1]),
        **fields,
    )  # fmt: skip
    given = msgspec.structs.replace(
        given, inputs=tuple(msgspec.structs.replace(each, name=reads) for each in given.inputs)
    )
    return MatchedLayer(layer=given, role="layout" if one.role == "layout" else "compute", match="exact")


@st.composite
def cases(
    draw: st.DrawFn,
    slow: st.SearchStrategy[float],
    names: st.SearchStrategy[str],
    *,
    dtypes: st.SearchStrategy[str] = dtypes,
    overheads: st.SearchStrategy[Overheads] | None = None,
    healthy: bool = False,
) -> Case:
    """An engine of some layers, each with kernels; where it is not healthy, reformats and unfused edges too."""
    layers = [draw(engine_layers(f"layer{at}", draw(dtypes))) for at in range(draw(st.integers(1, 6)))]
    if healthy:
        layers = [msgspec.structs.replace(one, role="compute") for one in layers]
    limits: Ceilings = draw(st.sampled_from([MEASURED, DATASHEET]))
    timed = []
    for one in layers:
        reached = draw(slow) / (0.7 if healthy and limits is DATASHEET else 1.0)
        timed.append(Timed(one, reached))
    # A tensor between two layers may be one that a cache does not keep, which is no matter of a kernel's health.
    sources = [f"{one.name}.{'q' if healthy else 'y'}" for one in layers]
    narrow = ["fp32", "fp16"] if healthy else ["int8", "fp16", "fp32"]
    plan = {
        one.name: plan_of(
            one, (draw(st.sampled_from(narrow)), draw(st.sampled_from(narrow))), reads,
            origin="" if healthy else draw(st.sampled_from(["", "QDQ", "REFORMAT"])),
        )
        for one, reads in zip(layers, ["layer0.a", *sources], strict=False)
    }  # fmt: skip
    edges = []
    for one, other in itertools.pairwise(layers):
        if not healthy and draw(st.booleans()):
            edges.append(
                PlanEdge(
                    tensor=f"{one.name}.y", maker=one.name, readers=(other.name,),
                    kind=draw(st.sampled_from(["epilogue", "prologue", "pointwise", "products", "layout"])),
                    expected=draw(st.booleans()), bytes=1_000_000, saved_ns=draw(st.integers(0, 1_000_000)),
                )
            )  # fmt: skip
    case = engine_case(
        *timed,
        ceilings=limits,
        overheads=draw(overheads) if overheads is not None else Overheads(),
        spec=GPU,
        plan=plan,
        edges=tuple(edges),
        bindings=(PlanBinding(name="layer0.a", mode="input"),),
        cv=draw(st.sampled_from([0.01, 0.5])),
        partial=frozenset() if healthy else frozenset(draw(st.sets(st.sampled_from([one.name for one in layers])))),
    )
    return case._replace(
        layers=tuple(msgspec.structs.replace(result, kernels=draw(kernels(result, names))) for result in case.layers)
    )


some_ns = st.integers(0, 1_000_000)
gaps = st.builds(Overheads, some_ns, some_ns, some_ns, st.just(0), some_ns, some_ns, some_ns, st.just(False))
any_case = cases(st.floats(0.3, 30.0), st.sampled_from(NAMES), overheads=gaps)


def claims(case: Case) -> list[tuple[str, Claim]]:
    """What each rule would claim if it came first, trust aside."""
    return [(rule.code, claim) for rule in RULES.values() for claim in rule.check(case) if claim.kind != "trust"]


def told(findings: Iterable[Finding]) -> list[str]:
    return [f"{one.code} {one.where}: {one.lost_ns} ns: {one.evidence}" for one in findings]


# --- the laws ------------------------------------------------------------------------------------


@given(any_case)
@settings(max_examples=300, deadline=None)
def test_no_rule_claims_more_of_a_layer_than_it_lost(case: Case) -> None:
    results = {result.name: result for result in case.layers}
    for code, claim in claims(case):
        for name, ns in claim.layers.items():
            result = results[name]
            if code in OTHER_WORK:
                # The rest is left to `diagnose`, which lets no layer be claimed for more than it took.
                assert ns >= 0
            else:
                assert 0 <= ns <= max(result.lost_ns or 0, 0), f"{code} claims {ns} of {name}"
            assert result.measured_ns


@given(any_case)
@settings(max_examples=300, deadline=None)
def test_a_layer_without_a_price_is_not_said_to_take_too_long(case: Case) -> None:
    """Most rules set a time beside what is attainable; the others tell what no layer needs, or moves needlessly."""
    free = {"CN601", "LY201", "QD803", "FU301", "QD804", "CA806", "PR801", "KN704"}
    for code, claim in claims(case):
        assert code in free or case.partial.isdisjoint(claim.layers), f"{code} claims {claim.layers}"


@given(any_case)
@settings(max_examples=300, deadline=None)
def test_no_nanosecond_is_claimed_twice_and_none_that_was_not_lost(case: Case) -> None:
    findings = [finding for finding in diagnose(case) if finding.kind != "trust"]
    named = [name for finding in findings for name in finding.layers]
    assert len(named) == len(set(named)), "a layer is claimed by one finding"

    results = {result.name: result for result in case.layers}
    outside = sum(max(case.row(cause), 0) for cause in OUTSIDE)
    for finding in findings:
        whole = finding.code in OTHER_WORK
        owned = sum(
            results[name].measured_ns if whole else max(results[name].lost_ns or 0, 0) for name in finding.layers
        )
        assert finding.lost_ns <= owned + (0 if finding.layers else outside)
    claimed = sum(finding.lost_ns for finding in findings)
    assert claimed <= case.latency.median_ns, told(findings)


@given(any_case)
@settings(max_examples=200, deadline=None)
def test_no_finding_is_under_its_floor(case: Case) -> None:
    for finding in diagnose(case):
        if finding.kind != "trust":
            assert case.share(finding.lost_ns) >= case.thresholds.min_share
            if finding.layers:
                results = [result for result in case.layers if result.name in finding.layers]
                lost = sum(
                    result.measured_ns if finding.code in OTHER_WORK else max(result.lost_ns or 0, 0)
                    for result in results
                )
                assert lost > case.clock_resolution_ns, f"{finding.code} is within a step of the clock"
        assert any(letter.isdigit() for letter in finding.evidence), finding.evidence
        assert 0 < finding.confidence <= 1
        assert finding.try_


@given(
    cases(
        st.floats(1.0, 0.99 / THRESHOLDS.healthy),
        st.sampled_from([name for name in NAMES if not any(helper in name for helper in HELPERS)]),
        dtypes=st.just("fp16"),
        healthy=True,
    )
)
@settings(max_examples=300, deadline=None)
def test_healthy_layers_are_left_alone_whatever_their_kernels_are_called(case: Case) -> None:
    """Hot is not slow, and a kernel that reaches what its class reaches is not the wrong one."""
    findings = [finding for finding in diagnose(case) if finding.kind != "trust"]
    # Work too small for its launch is healthy each by itself: that there is much of it is what LA401 is about.
    assert told(finding for finding in findings if finding.code != "LA401") == []


@given(st.integers(1, 400), st.floats(1.0, 1.25))
def test_a_healthy_launch_of_any_size_has_neither_tail_nor_too_few_warps(blocks: int, slow: float) -> None:
    case = engine_case(Timed(relu("one", "x", "y", 100_000_000), slow), ceilings=MEASURED, spec=GPU)
    match = Match(
        layer="one", kernel="a_kernel", count=1, median_ns=1, total_ns=1, confidence="exact", reason="", blocks=blocks,
        threads=256,
    )  # fmt: skip
    case = case._replace(layers=(msgspec.structs.replace(case.layers[0], kernels=(match,)),))
    assert not [finding for finding in diagnose(case) if finding.code in ("WV706", "OC707")]


def test_the_generated_cases_make_most_rules_speak() -> None:
    """A law over cases that no rule has anything to say of would hold for nothing."""
    wanted = {"WV706", "OC707", "QD803", "QD804", "LY201", "FU301", "RL101", "RL102", "HO501", "HO502"}
    spoken: set[str] = set()

    @given(any_case)
    @settings(max_examples=300, deadline=None, database=None)
    def collect(case: Case) -> None:
        spoken.update(code for code, _ in claims(case))

    # A rule may happen to stay silent over 300 cases; over 3,000 only one that never speaks does.
    for number in range(10):
        seed(number)(collect)()
        if spoken >= wanted:
            return
    assert spoken >= wanted


@pytest.mark.parametrize("code", OTHER_WORK)
def test_exceptions_are_rules_that_there_are(code: str) -> None:
    assert RULES.get(code) is not None
