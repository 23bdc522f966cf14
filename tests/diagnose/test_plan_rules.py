"""Rules that look at the plan of an engine and at how its kernels were launched: what fires, what does not, and why."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, found, layer, only, relu, tensor
from tests.fakes.plan_rule_cases import (
    BIG,
    NEGATIVE,
    POSITIVE,
    SPEC,
    convolution,
    float_output,
    launched,
    plan_tensor,
    planned,
    quantised,
    streamed,
    thrash,
    with_kernels,
)
from trtprof.base.records import (
    MatchedLayer,
    PlanBinding,
    PlanEdge,
    Work,
)
from trtprof.diagnose import RULES, THRESHOLDS, Case


def silence(case: Case, code: str, name: str) -> str:
    """Why the rule passes a layer by, which it does."""
    rule = RULES.get(code)
    assert rule is not None
    assert rule.reason is not None
    assert not any(name in claim.layers for claim in rule.check(case))
    (result,) = (one for one in case.layers if one.name == name)
    return rule.reason(case, result)


@pytest.mark.parametrize("code", POSITIVE)
def test_a_rule_fires_on_its_case_with_numbers_and_a_remedy(code: str) -> None:
    finding = only(POSITIVE[code], code)
    assert any(letter.isdigit() for letter in finding.evidence)
    assert finding.try_
    assert 0 < finding.confidence <= 1
    assert finding.lost_ns >= THRESHOLDS.min_share * POSITIVE[code].latency.median_ns


@pytest.mark.parametrize("code", POSITIVE)
def test_a_rule_is_silent_on_its_near_miss_and_says_why(code: str) -> None:
    case = NEGATIVE[code]
    assert found(case, code) == []
    for result in case.layers:
        assert silence(case, code, result.name)


# --- WV706 ---------------------------------------------------------------------------------------


def test_the_tail_is_priced_by_the_rounds_of_the_busiest_sm() -> None:
    case = POSITIVE["WV706"]
    finding = only(case, "WV706")
    # 129 blocks in two rounds of 128 SMs: 127 of 256 places are empty.
    measured = case.layers[0].measured_ns
    assert finding.lost_ns == measured * 127 // 256
    assert "129 blocks of 256 threads on 128 SMs, 2 at once on each" in finding.evidence
    assert "1 SM has a block in the last of 2 rounds, 49.6 % of the SMs' time is idle" in finding.evidence
    assert finding.confidence == 0.7


@pytest.mark.parametrize(
    ("slow", "launch", "fires"),
    [
        (2.1, {"blocks": 129, "threads": 256}, True),
        # At the roof nothing is lost, whatever the launch.
        (1.05, {"blocks": 129, "threads": 256}, False),
        # It lost less than such a tail costs.
        (1.9, {"blocks": 129, "threads": 256}, False),
        # It lost so much more that the tail is not its cause.
        (10.0, {"blocks": 257, "threads": 256}, False),
        # 10 rounds: a tail of less than a tenth.
        (2.1, {"blocks": 1153, "threads": 256}, False),
        # Less than one round is no tail but few blocks.
        (2.1, {"blocks": 65, "threads": 256}, False),
        # A launch that the capture does not tell, or that cannot be.
        (2.1, {}, False),
        (2.1, {"blocks": 129, "threads": 2048}, False),
        (2.1, {"blocks": 129, "threads": 256, "registers": 300}, False),
    ],
)
def test_a_tail_is_named_where_it_explains_the_loss(slow: float, launch: dict[str, int], fires: bool) -> None:
    case = launched(convolution(), slow, kernel="a_kernel", **launch)
    assert bool(found(case, "WV706")) == fires
    if not fires:
        assert silence(case, "WV706", "conv")


def test_blocks_of_unequal_work_have_no_tail() -> None:
    attention = launched(convolution(), 2.1, kernel="fmha_v2_flash_attention_fp16_64_64_S_40_sm89_kernel", blocks=129,
                         threads=128)  # fmt: skip
    assert not found(attention, "WV706")


def test_a_tail_of_a_memory_bound_layer_is_less_sure() -> None:
    case = launched(streamed(), 2.1, blocks=129, threads=1024, registers=32)
    assert only(case, "WV706").confidence == 0.5


def test_a_gpu_whose_limits_are_not_known_is_not_judged() -> None:
    unknown = msgspec.structs.replace(SPEC, compute_capability="99.0")
    for code in ("WV706", "OC707"):
        for spec in (unknown, None):
            case = POSITIVE[code]._replace(spec=spec)
            assert not found(case, code)
            assert "not known" in silence(case, code, case.layers[0].name)


def test_the_tail_of_each_kernel_counts_by_its_part_of_the_time() -> None:
    case = engine_case(Timed(convolution(), 2.1), ceilings=RTX_4090, spec=SPEC)
    full, tail = {"blocks": 256, "threads": 256}, {"blocks": 129, "threads": 256}
    mostly = with_kernels(case, "conv", ("a", 3, tail), ("b", 1, full))
    measured = case.layers[0].measured_ns
    assert only(mostly, "WV706").lost_ns == measured * 3 // 4 * 127 // 256
    assert not found(with_kernels(case, "conv", ("a", 1, tail), ("b", 3, full)), "WV706")


# --- OC707 ---------------------------------------------------------------------------------------


def test_fewer_blocks_than_sms_are_told_with_the_share_of_warps() -> None:
    case = POSITIVE["OC707"]
    finding = only(case, "OC707")
    # 16 blocks of 8 warps are 128 of 128 * 48 warps, of half of which more would hardly help.
    assert "16 blocks of 256 threads on 128 SMs are 2.1 % of the warps that they can hold" in finding.evidence
    assert "limited by the number of blocks" in finding.evidence
    assert finding.try_ == "give it more blocks: a larger batch", "nothing is summed that could be split"
    reached = 16 * 8 / (128 * 48)
    result = case.layers[0]
    assert result.lost_ns is not None
    assert finding.lost_ns == min(int(result.measured_ns * (1 - reached / 0.5)), result.lost_ns)


@pytest.mark.parametrize(
    ("launch", "words", "remedy"),
    [
        # 8 warps of 255 registers: one block, 8 of 48 warps.
        ({"blocks": 10_000, "threads": 256, "registers": 255}, "255 registers a thread", "fewer registers"),
        # 96 KiB each: one block, 4 of 48 warps.
        ({"blocks": 10_000, "threads": 128, "shared_bytes": 96 * 1024}, "98.3 kB of shared memory", "less shared"),
        # 24 blocks of one warp.
        ({"blocks": 10_000, "threads": 10, "registers": 16}, "the 24 blocks that an SM holds", "more threads a block"),
    ],
)
def test_what_limits_the_warps_is_named(launch: dict[str, int], words: str, remedy: str) -> None:
    case = launched(streamed(), 3.0, kernel="a_kernel", **launch)
    if launch["threads"] == 10:
        # Half of the warps is enough.
        assert not found(case, "OC707")
        return
    finding = only(case, "OC707")
    assert words in finding.evidence
    assert remedy in finding.try_


@pytest.mark.parametrize(
    "kernel", ["sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel"]
)
def test_a_pipeline_on_tensor_cores_needs_few_warps_but_all_sms(kernel: str) -> None:
    registers = {"threads": 128, "registers": 255, "shared_bytes": 96 * 1024}
    assert not found(launched(streamed(), 3.0, kernel=kernel, blocks=10_000, **registers), "OC707")
    assert found(launched(streamed(), 3.0, kernel=kernel, blocks=16, **registers), "OC707")


@pytest.mark.parametrize(
    ("slow", "blocks", "fires"),
    [
        (5.0, 16, True),
        # Close to its roof.
        (1.5, 16, False),
        # 100 of 128 SMs are at work: that is not why it takes five times as long.
        (5.0, 100, False),
    ],
)
def test_missing_sms_of_a_layer_that_computes(slow: float, blocks: int, fires: bool) -> None:
    case = launched(convolution(), slow, blocks=blocks, threads=256)
    assert bool(found(case, "OC707")) == fires
    if not fires:
        assert silence(case, "OC707", "conv")
    else:
        finding = only(case, "OC707")
        assert finding.lost_ns <= case.layers[0].measured_ns * (128 - blocks) // 128


def test_a_kernel_beside_others_that_take_most_of_the_layer_is_not_its_cause() -> None:
    case = engine_case(Timed(streamed(), 5.0), ceilings=RTX_4090, spec=SPEC)
    few, many = {"blocks": 1, "threads": 32}, {"blocks": 100_000, "threads": 1024}
    assert not found(with_kernels(case, "relu", ("a", 2, few), ("b", 3, many)), "OC707")
    assert not found(with_kernels(case, "relu", ("a", 1, few), ("b", 1, few), ("c", 1, few)), "OC707")


# --- QD803 ---------------------------------------------------------------------------------------


def test_a_quantisation_of_its_own_is_claimed_whole_before_it_counts_as_a_reformat() -> None:
    finding = only(POSITIVE["QD803"], "QD803")
    assert finding.lost_ns == 400_000
    assert finding.where == "1 Q/DQ layer, largest quantise"
    assert "400 us a run" in finding.evidence
    assert "(fp16 Linear -> int8 Linear)" in finding.evidence
    assert not found(POSITIVE["QD803"], "LY201")
    assert found(NEGATIVE["QD803"], "LY201")


@pytest.mark.parametrize(
    ("case", "remedy"),
    [
        (quantised(), "next to the product"),
        (quantised(second_reader=True), "what else reads the tensor"),
        (quantised(at_input=True, second_reader=True), "give the engine the quantised input"),
    ],
)
def test_the_remedy_of_a_quantisation_fits_its_place(case: Case, remedy: str) -> None:
    assert remedy in only(case, "QD803").try_


def test_a_quantisation_without_a_plan_is_known_by_its_op() -> None:
    one = layer("dq", "DequantizeLinear", (tensor("x", 10, dtype="int8"), tensor("s", 1)), (tensor("y", 10),))
    case = engine_case(BIG, Timed(one, ns=400_000))
    assert only(case, "QD803").lost_ns == 400_000
    fused = msgspec.structs.replace(one, nodes=("dq", "conv"))
    assert not found(engine_case(BIG, Timed(fused, ns=400_000)), "QD803")


# --- QD804 ---------------------------------------------------------------------------------------


def test_float_that_only_quantising_layers_read_is_priced_by_its_bytes() -> None:
    finding = only(POSITIVE["QD804"], "QD804")
    count = 8 * 64 * 128 * 128
    assert "16.8 MB of fp16 are written" in finding.evidence
    assert "readers that could take int8: each touch moves 8.39 MB too many" in finding.evidence
    # Of 2 * 33.6 MB at 10 GB/s in each of two layers.
    assert finding.lost_ns == pytest.approx(2 * count / 10e9 * 1e9, rel=1e-4)
    assert set(finding.layers) == {"conv", "next"}


@pytest.mark.parametrize(
    "case",
    [
        float_output(reader="fp16"),
        float_output(given_out=True),
        float_output(second="fp32"),
    ],
)
def test_float_that_somebody_needs_is_left_alone(case: Case) -> None:
    assert not found(case, "QD804")
    assert "output" in silence(case, "QD804", "conv")


def test_two_readers_that_quantise_and_a_residual_are_seen() -> None:
    assert set(only(float_output(second="int8"), "QD804").layers) == {"conv", "next", "third"}
    for reader in ("int8", "fp16"):
        assert set(only(float_output(reader=reader, products=True), "QD804").layers) == {"conv", "next"}


def test_bytes_that_do_not_bound_a_layer_cost_nothing() -> None:
    case = POSITIVE["QD804"]
    layers = tuple(msgspec.structs.replace(one, bound="tensor") for one in case.layers)
    assert not found(case._replace(layers=layers), "QD804")


def test_layers_far_from_their_roof_are_claimed_for_that() -> None:
    case = float_output(slow=10.0)
    assert found(case, "RL101")
    assert not found(case, "QD804")


# --- CA806 ---------------------------------------------------------------------------------------


def test_a_tensor_a_little_larger_than_the_cache_is_priced_by_its_reader() -> None:
    finding = only(POSITIVE["CA806"], "CA806")
    # 1.2 MB at 10 GB/s of DRAM or 40 GB/s of the cache: 120 us or 30 us, less a launch of 0.5 us.
    assert finding.lost_ns == pytest.approx(90_000 - 500, abs=10)
    assert finding.layers == ("reader0",)
    assert "1.20 MB between them do not stay in the 1.00 MB of the L2, 600 kB would" in finding.evidence
    assert "two runs of batch 2 with one of 4" in finding.try_


@pytest.mark.parametrize(
    "case",
    [
        thrash(0.9),
        thrash(1.6),
        thrash(batch=1),
        thrash(batch=3),
        thrash(readers=2),
        thrash(given_out=True),
        thrash(apart=True),
    ],
)
def test_a_tensor_that_half_a_batch_would_not_keep_for_sure_is_no_finding(case: Case) -> None:
    assert not found(case, "CA806")


def test_weights_that_two_runs_read_twice_may_cost_more_than_is_saved() -> None:
    case = POSITIVE["CA806"]
    layers = tuple(
        msgspec.structs.replace(one, work=msgspec.structs.replace(one.work or Work(), bytes_parameters=5_000_000))
        for one in case.layers
    )
    assert not found(case._replace(layers=layers), "CA806")


def test_a_cache_of_unknown_size_is_not_judged() -> None:
    unknown = msgspec.structs.replace(CEILINGS, cache_bytes=0)
    case = POSITIVE["CA806"]._replace(ceilings=unknown)
    assert not found(case, "CA806")
    assert "not known" in silence(case, "CA806", "reader0")


# --- LY201, FU301: what their evidence tells of a plan --------------------------------------------


def test_reformats_are_told_by_origin_with_their_largest_conversion() -> None:
    def reformat(name: str, source: str, target: str, dtype: str, origin: str = "REFORMAT") -> MatchedLayer:
        return planned(name, (plan_tensor(source, 1, 8, dtype="fp32"),), (plan_tensor(target, 1, 8, dtype=dtype),),
                       kind="Reformat", role="layout", origin=origin)  # fmt: skip

    plan = {
        "a": reformat("a", "image", "image_h", "fp16"),
        "b": reformat("b", "m", "n", "fp16"),
        "c": reformat("c", "n", "o", "bf16", origin=""),
        "d": reformat("d", "p", "logits", "fp32"),
        "e": reformat("e", "q", "r", "fp32", origin="COPY"),
    }
    ns = {"a": 500_000, "b": 100_000, "c": 300_000, "d": 200_000, "e": 50_000}
    timed = [
        Timed(layer(name, "Reformat", (tensor(f"{name}1", 8),), (tensor(f"{name}2", 8),), role="layout"), ns=ns[name])
        for name in plan
    ]
    bindings = PlanBinding(name="image", mode="input"), PlanBinding(name="logits", mode="output")
    finding = only(engine_case(BIG, *timed, plan=plan, bindings=bindings), "LY201")
    assert finding.evidence.endswith(
        "another dtype, order or place: 1 at an input 500 us (fp32 Linear -> fp16 Linear), "
        "2 between layers 400 us (fp32 Linear -> bf16 Linear), 1 at an output 200 us (fp32 Linear -> fp32 Linear), "
        "1 for COPY 50.0 us (fp32 Linear -> fp32 Linear)"
    )
    assert finding.lost_ns == 1_150_000


def test_what_an_unfused_layer_takes_and_lost_is_told_beside_what_its_tensor_costs() -> None:
    edge = PlanEdge(
        tensor="m", maker="big", readers=("relu",), kind="epilogue", expected=True, bytes=8_000_000, saved_ns=400_000
    )
    case = engine_case(BIG, Timed(relu("relu", "y", "z"), 2.0), edges=(edge,))
    finding = only(case, "FU301")
    assert "they would take 400 us less by the roofline" in finding.evidence
    assert "what would be absorbed takes 1.60 ms, of which 800 us could be won as it is" in finding.evidence
    assert finding.lost_ns == 1_200_000
