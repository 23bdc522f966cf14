"""Predictions and causes held against counters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fakes.cases import RTX_4090, Timed, gemv, layer, make_case, relu, tensor
from trtprof.base.kernel_counters import LayerCounters
from trtprof.base.records import (
    SCHEMA_VERSION,
    Backend,
    Device,
    Finding,
    LayerResult,
    Match,
    ModelInfo,
    Run,
    Work,
)
from trtprof.diagnose import THRESHOLDS, Case
from trtprof.diagnose.confirm import PROVEN, confirm

GEMV_BYTES = 250_828_800
GEMV_FLOPS = 2 * 600 * 200 * 8 * 64
KERNEL = "sm50_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma"
TENSOR = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16"


def run_of(case: Case, *findings: Finding, kernels: dict[str, tuple[str, int]] | None = None, cores: int = 128) -> Run:
    """A run of the layers of a case; ``kernels`` are their names and blocks by layer."""

    def with_kernel(one: LayerResult) -> LayerResult:
        name, blocks = (kernels or {}).get(one.name, (KERNEL, 1024))
        match = Match(layer=one.name, kernel=name, count=1, median_ns=one.measured_ns, total_ns=one.measured_ns,
                      confidence="exact", reason="", blocks=blocks, threads=128)  # fmt: skip
        return msgspec.structs.replace(one, kernels=(match,))

    return Run(
        schema_version=SCHEMA_VERSION, model=ModelInfo(name="m", path="m", sha256="", ir_version=8, opsets={}),
        backend=Backend(name="tensorrt", reason="a test"), device=Device(name="d", kind="gpu", cores=cores),
        versions={}, ceilings=case.ceilings, latency=case.latency, profiled=case.profiled, coverage=case.coverage,
        verdict="", ledger=case.ledger, layers=tuple(map(with_kernel, case.layers)), nodes=(), findings=findings,
        unsupported=(), captured_ns=0,
    )  # fmt: skip


def finding(code: str, *layers: str, confidence: float = 0.8) -> Finding:
    return Finding(code=code, title="t", severity="info", where="w", evidence="evidence", lost_ns=1,
                   confidence=confidence, try_="", layers=layers)  # fmt: skip


def counters(name: str = "gemv", **fields: Any) -> LayerCounters:
    return LayerCounters(layer=name, **{"launches": 1, "launched": 1, "kernels": (KERNEL,), **fields})


def story(slow: float = 10.0) -> Case:
    """The batched gemv of the design, ``slow`` times slower than its roof."""
    return make_case(Timed(gemv(), slow=slow), ceilings=RTX_4090)


def checks(run: Run) -> dict[str, str]:
    (one,) = run.confirmations
    return {check.what: check.verdict for check in one.checks}


def test_the_story_is_proven_by_its_counters() -> None:
    told = finding("RL101", "gemv")
    seen = counters(dram_bytes=GEMV_BYTES, dram_read=246_000_000, flops_low=GEMV_FLOPS, flops_high=GEMV_FLOPS,
                    tensor_cores=False, duration_ns=2.7e6, occupancy=0.4)  # fmt: skip
    run = confirm(run_of(story(), told), [seen])
    assert checks(run) == {"DRAM bytes": "confirmed", "FLOP": "confirmed", "math unit": "confirmed"}
    (one,) = run.confirmations
    assert (one.verdict, one.counted_ns, one.occupancy, one.launches) == ("confirmed", 2_700_000, 0.4, 1)
    (judged,) = run.findings
    assert judged.confidence == PROVEN
    assert judged.evidence == "evidence; a counter proves it: DRAM gave 92.0 GB/s, 10.0 % of what it can"


def test_a_kernel_that_moves_far_more_than_it_needs_refutes_bytes_and_cause() -> None:
    run = confirm(run_of(story(), finding("RL101", "gemv")), [counters(dram_bytes=8 * GEMV_BYTES)])
    assert checks(run)["DRAM bytes"] == "refuted"
    (judged,) = run.findings
    assert judged.confidence == pytest.approx(0.16)
    assert "a counter speaks against it: DRAM gave" in judged.evidence
    assert "8.0 times the bytes that it needs" in judged.evidence


def test_bytes_are_confirmed_within_the_tolerance(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, str]] = [
        # All is read; what is written (3.84 MB) may stay in the L2 of 4 MB.
        (GEMV_BYTES - 3_840_000, "confirmed"),
        (0.91 * (GEMV_BYTES - 3_840_000), "confirmed"),
        (0.89 * (GEMV_BYTES - 3_840_000), "refuted"),
        (1.09 * GEMV_BYTES, "confirmed"),
        (1.11 * GEMV_BYTES, "refuted"),
    ]
    for counted, verdict in rows:
        with subtests.test(counted=counted, verdict=verdict):
            ceilings = msgspec.structs.replace(RTX_4090, cache_bytes=4_000_000)
            case = make_case(Timed(gemv(), slow=10), ceilings=ceilings)
            run = confirm(run_of(case), [counters(dram_bytes=counted)])
            assert checks(run)["DRAM bytes"] == verdict
            (one,) = run.confirmations
            assert one.checks[0].counted_low == one.checks[0].counted_high == counted
            assert (one.checks[0].predicted_low, one.checks[0].predicted_high) == (GEMV_BYTES - 3_840_000, GEMV_BYTES)


@pytest.mark.parametrize(("extra", "verdict"), [(0, "confirmed"), (32_000, "confirmed"), (60_000, "refuted")])
def test_a_kernel_moves_its_code_too(extra: int, verdict: str) -> None:
    case = make_case(Timed(relu("r", "a", "b", elements=25_000)))  # 200 kB, of which a tenth are 20 kB
    run = confirm(run_of(case), [counters("r", dram_bytes=200_000.0 + extra)])
    assert checks(run)["DRAM bytes"] == verdict


def test_a_few_bytes_are_not_told_from_the_code() -> None:
    case = make_case(Timed(relu("r", "a", "b", elements=1_000)))
    for counted in (0.0, 8_000.0, 40_000.0):
        check = confirm(run_of(case), [counters("r", dram_bytes=counted)]).confirmations[0].checks[0]
        assert check.verdict == "not told"
        assert "too few to tell" in check.reason
    run = confirm(run_of(case), [counters("r", dram_bytes=50_000.0)])
    assert checks(run)["DRAM bytes"] == "refuted"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"uncounted": ("other",)}, "1 of its kernels was not counted"),
        ({"uncounted": ("other", "third")}, "2 of its kernels were not counted"),
        ({"dram_bytes": None}, "no counter of DRAM bytes"),
        ({"dram_bytes": 3.0 * GEMV_BYTES, "launched": 3}, "empties the caches before each"),
    ],
)
def test_what_counters_cannot_tell_is_said(fields: dict[str, Any], words: str) -> None:
    run = confirm(run_of(story()), [counters(**{"dram_bytes": float(GEMV_BYTES), **fields})])
    check = run.confirmations[0].checks[0]
    assert check.verdict == "not told"
    assert words in check.reason


def test_a_bound_is_held_from_its_own_side(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, float, str]] = [
        ("upper", 0.5, "confirmed"), ("upper", 1.5, "refuted"), ("lower", 0.5, "refuted"), ("lower", 1.5, "confirmed"),
        ("mixed", 1.5, "not told"), ("mixed", 0.5, "not told"),
    ]  # fmt: skip
    for bound, counted, verdict in rows:
        with subtests.test(bound=bound, counted=counted, verdict=verdict):
            run = run_of(story())
            work = msgspec.structs.replace(run.layers[0].work or Work(), bound=bound)
            run = msgspec.structs.replace(run, layers=(msgspec.structs.replace(run.layers[0], work=work),))
            seen = counters(
                dram_bytes=counted * GEMV_BYTES, flops_low=counted * GEMV_FLOPS, flops_high=counted * GEMV_FLOPS
            )
            found = confirm(run, [seen])
            assert checks(found) == {"DRAM bytes": verdict, "FLOP": verdict, "math unit": "not told"}
            msgspec.json.encode(found)  # no infinity in it


@pytest.mark.parametrize(
    ("low", "high", "verdict", "words"),
    [
        (1.0, 1.0, "confirmed", ""),
        (0.6, 1.2, "confirmed", ""),
        (1.2, 1.2, "refuted", "beyond the tensor"),
        (0.4, 0.4, "refuted", "Winograd"),
    ],
)
def test_flop_are_compared_as_ranges(low: float, high: float, verdict: str, words: str) -> None:
    run = confirm(run_of(story()), [counters(flops_low=low * GEMV_FLOPS, flops_high=high * GEMV_FLOPS)])
    check = run.confirmations[0].checks[1]
    assert check.verdict == verdict
    assert words in check.reason


def test_flop_that_the_counters_do_not_see_are_not_told() -> None:
    case = make_case(Timed(relu("r", "a", "b")))
    seen = counters("r", flops_low=1.0, flops_high=1.0)
    assert "most of its arithmetic is no products" in confirm(run_of(case), [seen]).confirmations[0].checks[1].reason
    int8 = layer("q", "MatMulInteger", (tensor("a", 8, 8, dtype="int8"), tensor("b", 8, 8, dtype="int8")),
                 (tensor("y", 8, 8, dtype="int32"),))  # fmt: skip
    seen = counters("q", flops_low=1.0, flops_high=1.0)
    run = confirm(run_of(make_case(Timed(int8))), [seen])
    assert "do not see products of int8" in run.confirmations[0].checks[1].reason


def test_the_unit_of_the_name_is_held_against_the_pipe(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, bool | None, str]] = [
        (KERNEL, False, "confirmed"),
        (KERNEL, True, "refuted"),
        (TENSOR, True, "confirmed"),
        (TENSOR, False, "refuted"),
        ("a_kernel_of_nobody", True, "not told"),
        ("__myl_Move_0x4240e7147747250a7cec085e6b912db5", False, "confirmed"),
        (KERNEL, None, "not told"),
    ]  # fmt: skip
    for kernel, worked, verdict in rows:
        with subtests.test(kernel=kernel, worked=worked, verdict=verdict):
            run = confirm(run_of(story()), [counters(tensor_cores=worked, kernels=(kernel,))])
            assert checks(run)["math unit"] == verdict


@pytest.mark.parametrize("code", ["KN701", "KN702"])
def test_idle_tensor_cores_prove_and_busy_ones_refute(code: str) -> None:
    (idle,) = confirm(run_of(story(), finding(code, "gemv")), [counters(tensor_cores=False)]).findings
    assert idle.confidence == PROVEN
    assert "a counter proves it: tensor cores did nothing" in idle.evidence
    (busy,) = confirm(run_of(story(), finding(code, "gemv")), [counters(tensor_cores=True)]).findings
    assert busy.confidence < 0.2
    (part,) = confirm(run_of(story(), finding(code, "gemv")), [counters(tensor_cores=False, uncounted=("x",))]).findings
    assert part == finding(code, "gemv")


@pytest.mark.parametrize(("blocks", "confidence"), [(1024, 0.16), (16, 0.8)])
def test_full_sms_refute_low_occupancy_only_where_each_has_a_block(blocks: int, confidence: float) -> None:
    kernels = {"gemv": (KERNEL, blocks)}
    (low,) = confirm(run_of(story(), finding("OC707", "gemv"), kernels=kernels), [counters(occupancy=0.3)]).findings
    assert low.confidence == PROVEN
    (full,) = confirm(run_of(story(), finding("OC707", "gemv"), kernels=kernels), [counters(occupancy=0.9)]).findings
    assert full.confidence == pytest.approx(confidence)


def test_arithmetic_that_is_done_twice_is_no_idle_unit() -> None:
    product = layer("gemm", "MatMul", (tensor("a", 4096, 4096), tensor("b", 4096, 4096)), (tensor("y", 4096, 4096),))
    case = make_case(Timed(product, slow=4), ceilings=RTX_4090)
    flops = 2 * 4096**3
    told = finding("RL102", "gemm")
    (proven,) = confirm(run_of(case, told), [counters("gemm", flops_low=flops, flops_high=flops)]).findings
    assert proven.confidence == PROVEN
    assert "25.0 % of what the unit can" in proven.evidence
    (refuted,) = confirm(run_of(case, told), [counters("gemm", flops_low=3 * flops, flops_high=3 * flops)]).findings
    assert refuted.confidence < told.confidence


def test_confidence_moves_by_the_share_of_the_layers_that_were_counted() -> None:
    case = make_case(Timed(relu("one", "a", "b"), slow=10), Timed(relu("two", "c", "d"), slow=10))
    told = finding("RL101", "one", "two")
    run = confirm(run_of(case, told), [counters("one", dram_bytes=8e6)])
    (judged,) = run.findings
    assert judged.confidence == pytest.approx(0.8 + (PROVEN - 0.8) / 2, abs=0.01)
    assert "proves it of 1 of 2 layers" in judged.evidence
    both = [counters("one", dram_bytes=8e6), counters("two", dram_bytes=8e8)]
    (mixed,) = confirm(run_of(case, told), both).findings
    assert mixed.confidence < judged.confidence
    assert "proves it of 1 of 2 layers" in mixed.evidence
    assert "speaks against it of 1 of 2 layers" in mixed.evidence


def test_launches_that_are_less_surely_the_layers_prove_less() -> None:
    seen = counters(tensor_cores=False, confidence="inferred")
    told = finding("KN702", "gemv", confidence=0.5)
    (judged,) = confirm(run_of(story(), told), [seen]).findings
    assert judged.confidence == pytest.approx(PROVEN * THRESHOLDS.doubt)


def test_a_cause_that_no_counter_tells_of_stays_as_it_is() -> None:
    told = (finding("LA401", "gemv"), msgspec.structs.replace(finding("RL101", "gemv"), kind="trust"))
    run = confirm(run_of(story(), *told), [counters(dram_bytes=GEMV_BYTES)])
    assert run.findings == told
