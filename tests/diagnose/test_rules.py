"""Every rule has a case that fires and a near miss that does not, and says where, how much and what to try."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import kernel_rule_cases, plan_rule_cases
from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, found, gemv, layer, make_case, only, relu, tensor
from tests.fakes.rule_cases import (
    BIG,
    NEGATIVE,
    POSITIVE,
    alike,
    chain,
    clocks,
    conv,
    faster,
    held,
    latencies,
    launch_case,
    reorder,
    reorder_case,
    scalars,
)
from trtprof.base.records import ClockSummary, Layer, PlanEdge, Spread
from trtprof.base.trace import Transfer
from trtprof.base.units import format_ns, format_percent
from trtprof.cost._core import matrices
from trtprof.diagnose import RULES, THRESHOLDS, Case, rules
from trtprof.diagnose.ledger import Overheads, build_ledger
from trtprof.diagnose.rank import diagnose, verdict
from trtprof.diagnose.rules import tr906_clock_held_down
from trtprof.runtime.nvml_session import CLOCK_EVENTS

CODES = [rule.code for rule in RULES.values() if rule.plan is None]
"""Of the rules of runs; those of plans are in `test_lints`."""
FIRES = {**POSITIVE, **kernel_rule_cases.POSITIVE, **plan_rule_cases.POSITIVE}
SILENT = {**NEGATIVE, **kernel_rule_cases.NEGATIVE, **plan_rule_cases.NEGATIVE}
"""A case for every rule there is, one that it finds and one that it must not."""


# --- every rule --------------------------------------------------------------------------------


def test_every_rule_has_a_positive_and_a_negative_case_and_no_case_lacks_a_rule() -> None:
    assert set(CODES) == set(FIRES) == set(SILENT)


@pytest.mark.parametrize("code", CODES)
def test_a_rule_fires_on_its_positive_case(code: str) -> None:
    findings = found(FIRES[code], code)
    assert findings
    for finding in findings:
        assert finding.title == RULES.get(code).title  # type: ignore[union-attr]
        assert finding.where
        assert finding.evidence
        assert finding.try_
        assert 0 < finding.confidence <= 1
        if finding.kind == "hypothesis":
            assert finding.lost_ns > 0
            assert finding.lost_ns >= THRESHOLDS.min_share * FIRES[code].latency.median_ns


@pytest.mark.parametrize("code", CODES)
def test_a_rule_is_silent_on_its_near_miss(code: str) -> None:
    assert found(SILENT[code], code) == []


@pytest.mark.parametrize("code", CODES)
def test_a_rule_leaves_alone_what_a_more_specific_one_has_claimed(code: str) -> None:
    rule, case = RULES.get(code), FIRES[code]
    assert rule is not None
    # A doubt claims no time, and stays.
    for name in {name for claim in rule.check(case) if claim.kind != "trust" for name in claim.layers}:
        left = rule.check(case._replace(claimed=frozenset({name})))
        assert all(name not in (*claim.layers, claim.where) for claim in left)


@pytest.mark.parametrize("code", RULES.keys())
def test_a_rule_says_what_why_and_try(code: str) -> None:
    rule = RULES.get(code)
    assert rule is not None
    assert rule.doc == importlib.import_module((rule.plan or rule.check).__module__).__doc__
    sections = [rule.section(name) for name in ("What", "Why", "Try")]
    assert all(len(section) > 20 for section in sections), sections
    assert len(set(sections)) == 3
    assert rule.section("Nothing") == ""


def test_each_file_holds_one_rule_and_is_named_after_its_code() -> None:
    files = {module.name for module in pkgutil.iter_modules(rules.__path__)}
    homes = [(rule.plan or rule.check).__module__.rpartition(".")[2] for rule in RULES.values()]
    assert sorted(homes) == sorted(files)
    for rule, home in zip(RULES.values(), homes, strict=True):
        assert home.startswith(rule.code.lower() + "_")


def test_codes_are_unique() -> None:
    assert [rule.code for rule in RULES.values()] == RULES.keys()
    taken = next(RULES.values())
    with pytest.raises(ValueError, match=f"{taken.code}.*twice"):
        RULES.register(taken.code)(taken)


def test_rules_keep_no_thresholds_of_their_own() -> None:
    """A module constant that is a number would be a threshold outside `Thresholds`."""
    for rule in RULES.values():
        module = inspect.getmodule(rule.plan or rule.check)
        assert module is not None
        numbers = [name for name, value in vars(module).items() if isinstance(value, int | float)]
        assert numbers == [], f"{Path(str(module.__file__)).name}: {numbers}"


# --- what each one says ------------------------------------------------------------------------


def test_the_gemv_of_the_story_is_called_a_batched_gemv_with_its_numbers() -> None:
    finding = only(POSITIVE["RL101"], "RL101")
    # 250,828,800 bytes at 0.92 TB/s are 0.273 ms; ten times that is 2.73 ms, or 92.0 GB/s.
    assert "251 MB in 2.73 ms is 92.0 GB/s" in finding.evidence
    assert "10.0 % of what DRAM allows (273 us)" in finding.evidence
    assert "batched gemv" in finding.try_
    assert "Mul + ReduceSum" in finding.try_
    assert (finding.where, finding.layers, finding.severity) == ("gemv", ("gemv",), "critical")
    assert finding.lost_ns == POSITIVE["RL101"].layers[0].lost_ns


@pytest.mark.parametrize(
    ("left", "right", "attributes", "batched"),
    [
        ((600, 200, 8, 1, 64), (600, 1, 8, 64, 1), {}, True),
        ((64, 1, 256), (64, 256, 256), {}, True),
        ((256, 256), (64, 256, 1), {}, True),
        ((64, 256, 1), (64, 256, 256), {"transA": 1}, True),
        ((64, 256, 256), (64, 1, 256), {"transB": 1}, True),
        ((64, 2, 256), (64, 256, 256), {}, False),
        ((1, 1, 4096), (4096, 4096), {}, False),
        ((1, 4096), (4096, 4096), {}, False),
        ((4096, 4096), (4096,), {}, False),
        ((64, 1, 256), (64, 256, 256), {"transA": 1}, False),
    ],
)
def test_a_batched_gemv_has_one_row_or_column_and_many_batches(
    left: tuple[int, ...], right: tuple[int, ...], attributes: dict[str, int], batched: bool
) -> None:
    case = POSITIVE["RL101"]
    across = bool(attributes.get("transA")), bool(attributes.get("transB"))
    own = case.layers[0]
    assert own.work is not None
    work = msgspec.structs.replace(own.work, core=matrices(left, right, *across))
    results = (msgspec.structs.replace(own, op_type="FusedMatMul", work=work),)
    finding = only(case._replace(layers=results), "RL101")
    assert ("batched gemv" in finding.try_) == batched


@pytest.mark.parametrize(("efficiency", "fires"), [(0.49, True), (0.51, False), (0.9, False)])
def test_half_of_the_bandwidth_is_the_border(efficiency: float, fires: bool) -> None:
    case = make_case(Timed(gemv(), 1 / efficiency), ceilings=RTX_4090)
    assert bool(found(case, "RL101")) == fires


def test_a_memory_bound_layer_in_the_cache_is_measured_against_the_cache() -> None:
    small = relu("small", "x", "y", 100_000)  # two tensors of 400 kB stay in 1 MB: 20 us at 40 GB/s
    finding = only(make_case(Timed(small, 4.0)), "RL101")
    assert "25.0 % of what the last-level cache allows (20.0 us)" in finding.evidence


def test_layers_of_one_kind_and_remedy_are_one_finding_and_others_are_another() -> None:
    moves = [
        Timed(
            layer(
                f"move{i}", "Transpose", (tensor(f"m{i}", 1000, 1000),), (tensor(f"n{i}", 1000, 1000),),
                attributes={"perm": (1, 0)},
            ),
            3.0 + i,
        )
        for i in range(3)
    ]  # fmt: skip
    lone = Timed(relu("lone", "u", "v"), 4.0)
    findings = found(make_case(*moves, lone), "RL101")
    assert [finding.where for finding in findings] == ["move2 and 2 more Transpose", "lone"]
    assert findings[0].layers == ("move2", "move1", "move0")
    assert "only moves data" in findings[0].try_
    assert "fuse it with its neighbours" in findings[1].try_


def test_loss_within_a_step_of_the_clock_is_not_a_finding() -> None:
    small = Timed(relu("small", "x", "y", 100_000), 4.0)  # 60 us lost
    assert found(make_case(small, clock_resolution_ns=59_999), "RL101")
    assert not found(make_case(small, clock_resolution_ns=60_000), "RL101")


def test_a_compute_bound_layer_is_measured_against_the_peak_of_its_dtype() -> None:
    case = POSITIVE["RL102"]
    finding = only(case, "RL102")
    # 64 * 56 * 56 outputs of 64 * 9 MACs are 231 MFLOP: 2.31 ms at 100 GFLOP/s.
    assert "231 MFLOP in 5.14 ms is 45.0 GFLOP/s, 45.0 % of the fp32 peak measured here" in finding.evidence
    assert finding.try_ == "raise the batch, or use more threads", "64 channels fill whole vectors"
    odd = only(make_case(Timed(conv(channels=60), 1 / 0.45)), "RL102")
    assert odd.try_.startswith("pad input channels and output channels to a multiple of 16 for whole vectors")
    assert finding.lost_ns == case.layers[0].lost_ns


def test_the_remedy_of_a_compute_bound_layer_fits_its_kind() -> None:
    def remedy(one: Layer) -> str:
        return only(make_case(Timed(one, 5.0)), "RL102").try_

    grouped = conv(group=2)
    assert "grouped or depthwise" in remedy(grouped)

    x, w, r, y = (
        tensor("x", 50, 1, 256),
        tensor("w", 1, 1024, 256, constant=True),
        tensor("r", 1, 1024, 256, constant=True),
        tensor("y", 50, 1, 1, 256),
    )
    lstm = layer("lstm", "LSTM", (x, w, r), (y,), attributes={"hidden_size": 256})
    assert "one thin product" in remedy(msgspec.structs.replace(lstm))

    product = layer(
        "mm", "MatMul", (tensor("a", 512, 512), tensor("b", 512, 512, constant=True)), (tensor("c", 512, 512),)
    )
    assert "merge products" in remedy(product)

    slow_functions = msgspec.structs.replace(
        CEILINGS, attainable=msgspec.structs.replace(CEILINGS.attainable, special_per_s={"exp": 1e9})
    )
    exp = Timed(layer("exp", "Exp", (tensor("x", 1_000_000),), (tensor("y", 1_000_000),)), 5.0)
    assert "special functions" in only(make_case(exp, ceilings=slow_functions), "RL102").try_


def test_the_launch_bound_layers_are_one_finding_that_claims_all_but_their_work() -> None:
    case = POSITIVE["LA401"]
    finding = only(case, "LA401")
    assert finding.where == "3 layers: Add"
    assert finding.layers == ("tiny0", "tiny1", "tiny2")
    assert "4.50 us a run, 11.0 % of latency; an empty kernel takes 500 ns here" in finding.evidence
    assert "fold shape arithmetic" in finding.try_
    # 12 bytes of scalars: 1 ns for the cache's part, 1 ns for the FLOP, which overlap.
    assert finding.lost_ns == 3 * (1500 - 1)


def test_one_launch_bound_layer_is_not_many() -> None:
    assert not found(make_case(*scalars(1)), "LA401")
    assert found(make_case(*scalars(2)), "LA401")


def test_the_work_of_a_launch_bound_layer_is_its_longest_term() -> None:
    """A cache of 400 bytes keeps nothing: 1200 bytes cross to DRAM in 120 ns, and pass the cache in 30."""
    tight = msgspec.structs.replace(CEILINGS, cache_bytes=400)
    add = [
        layer(f"add{i}", "Add", (tensor(f"p{i}", 100), tensor(f"q{i}", 100)), (tensor(f"r{i}", 100),)) for i in range(2)
    ]
    finding = only(make_case(*(Timed(one, ns=1000) for one in add), ceilings=tight), "LA401")
    assert finding.lost_ns == 2 * (1000 - 120)


def test_a_chain_is_named_in_order_with_the_traffic_between_its_layers() -> None:
    case = POSITIVE["FU301"]
    finding = only(case, "FU301")
    assert finding.where == "exp -> square"
    assert "2 elementwise layers take" in finding.evidence
    assert "8.00 MB between them are written and read back" in finding.evidence
    assert "one kernel" in finding.try_
    assert finding.lost_ns == sum(one.lost_ns or 0 for one in case.layers)


def test_a_chain_at_its_roof_is_left_alone() -> None:
    assert not found(chain(slow=1.0), "FU301")


def test_a_tensor_that_a_body_of_control_flow_reads_too_is_not_private_to_the_chain() -> None:
    first, second = relu("first", "x", "m"), relu("second", "m", "y")
    inside = relu("inside", "m", "z", graph="If_1/then_branch")
    assert found(make_case(Timed(first, 3.0), Timed(second, 3.0)), "FU301")
    assert not found(make_case(Timed(first, 3.0), Timed(second, 3.0), Timed(inside)), "FU301")


def test_an_op_of_a_foreign_domain_is_not_taken_for_a_pointwise_one() -> None:
    first = relu("first", "x", "m", domain="acme")
    second = relu("second", "m", "y")
    assert not found(make_case(Timed(first, ns=3_000_000), Timed(second, 3.0)), "FU301")
    gelu = layer("gelu", "QuickGelu", (tensor("x", 1_000_000),), (tensor("m", 1_000_000),), domain="com.microsoft")
    assert found(make_case(Timed(gelu, 3.0), Timed(second, 3.0)), "FU301")


def test_two_chains_that_meet_share_no_layer() -> None:
    wide = {name: tensor(name, 1_000_000) for name in "abcdsy"}
    timed = [
        Timed(layer("left", "Relu", (wide["a"],), (wide["b"],)), 3.0),
        Timed(layer("right", "Relu", (wide["c"],), (wide["d"],)), 3.0),
        Timed(layer("sum", "Add", (wide["b"], wide["d"]), (wide["s"],)), 3.0),
        Timed(layer("last", "Tanh", (wide["s"],), (wide["y"],)), 3.0),
    ]
    case = make_case(*timed)
    assert only(case, "FU301").layers == ("left", "sum", "last")
    assert only(case, "RL101").layers == ("right",)


def test_the_host_is_blamed_for_the_call_and_the_gaps_that_the_profile_shows() -> None:
    finding = only(POSITIVE["HO501"], "HO501")
    assert finding.lost_ns == 1_000_000 + 1000
    assert finding.layers == ()
    assert finding.where == "between and around the kernels"
    assert "kernels take 8.00 ms of 9.00 ms" in finding.evidence
    assert "11.1 % of latency lies outside them (1.00 us of it is the call)" in finding.evidence
    assert "bind inputs and outputs once" in finding.try_


def test_gaps_count_up_to_what_the_profile_shows() -> None:
    finding = only(make_case(BIG, gap_ns=3_000_000, profiled_gap_ns=2_000_000), "HO501")
    assert finding.lost_ns == 2_000_000 + 1000


def test_a_negative_remainder_is_no_gap_but_the_call_still_counts() -> None:
    dear = msgspec.structs.replace(CEILINGS, call_ns=4_000_000.0)
    case = make_case(BIG, ceilings=dear, gap_ns=-2_000_000)
    finding = only(case, "HO501")
    assert finding.lost_ns == 4_000_000
    assert "kernels take 6.00 ms of 10.0 ms" in finding.evidence


def test_layout_layers_are_claimed_whole() -> None:
    finding = only(POSITIVE["LY201"], "LY201")
    assert finding.where == "1 reorder, largest reorder"
    assert finding.lost_ns == POSITIVE["LY201"].layers[1].measured_ns
    assert "2.0 % of latency, does none of the model's work" in finding.evidence
    assert "chains unbroken" in finding.try_
    assert not found(make_case(BIG, reorder(1_000_000, role="compute")), "LY201")


def test_a_recomputed_constant_is_claimed_whole() -> None:
    case = POSITIVE["CN601"]
    finding = only(case, "CN601")
    assert finding.where == "1 layer, largest quantise"
    assert finding.lost_ns == case.layers[1].measured_ns
    assert f"{format_ns(finding.lost_ns)} a run" in finding.evidence
    assert "initializer" in finding.try_


def test_a_constant_loop_is_not_folded_away() -> None:
    control = layer("loop", "Loop", (tensor("n", 1, dtype="int64", constant=True),), (), role="control", constant=True)
    assert not found(make_case(BIG, Timed(control, ns=1_000_000)), "CN601")


def test_a_layer_above_the_roof_is_doubted_unless_the_clock_explains_it() -> None:
    case = POSITIVE["TR901"]
    finding = only(case, "TR901")
    assert (finding.where, finding.kind, finding.lost_ns) == ("big", "trust", 0)
    measured, ideal = case.layers[0].measured_ns, case.layers[0].ideal_ns
    assert ideal is not None
    assert f"measured {format_ns(measured)}, ideal {format_ns(ideal)}" in finding.evidence
    assert "--recalibrate" in finding.try_
    assert not found(case._replace(clock_resolution_ns=ideal - measured), "TR901")
    assert found(case._replace(clock_resolution_ns=ideal - measured - 1), "TR901")


def test_memory_bound_special_functions_are_named_as_the_other_suspect() -> None:
    """A Pow of a million elements: bytes bound it on the roof, cycles of pow may in truth."""
    shape = 1_000_000
    power = layer("pow", "Pow", (tensor("x", shape), tensor("e", 1)), (tensor("y", shape),))
    finding = only(make_case(Timed(power, 5.0)), "RL101")
    assert "special functions" in finding.try_
    assert "special functions" not in only(make_case(Timed(relu("relu", "x", "y"), 5.0)), "RL101").try_

    def with_rate(rate: float) -> str:
        roof = msgspec.structs.replace(CEILINGS.attainable, special_per_s={"pow": rate})
        limits = msgspec.structs.replace(CEILINGS, best=roof, attainable=roof)
        return only(make_case(Timed(power, 5.0), ceilings=limits), "RL101").try_

    # 800 us for the bytes: 500 us of pow are a suspect, 100 us are not.
    assert "special functions" in with_rate(2e9)
    assert "special functions" not in with_rate(1e10)


def test_another_speed_and_a_drift_of_speed_are_doubts() -> None:
    slower = only(POSITIVE["TR904"], "TR904")
    assert slower.kind == "trust"
    assert "585 us, 590 us" in slower.evidence
    assert "85.0 % of the speed" in slower.evidence
    drifted = make_case(BIG, speed=1.0, probes_ns=(500_000.0, 580_000.0))
    assert "500 us, 580 us" in only(drifted, "TR904").evidence
    assert not found(make_case(BIG, speed=1.0, probes_ns=(500_000.0, 570_000.0)), "TR904")
    assert not found(make_case(BIG), "TR904"), "a run without a probe says nothing about speed"


def test_clocks_that_moved_are_told_with_their_range() -> None:
    finding = only(POSITIVE["TR905"], "TR905")
    assert "SM clock from 1,330 to 1,410 MHz" in finding.evidence
    assert "5.7 % of its median 1,410 MHz" in finding.evidence
    assert finding.evidence.endswith("samples: 50")
    assert "--lock-gpu-clocks=1410" in finding.try_
    assert finding.lost_ns == 0


def test_a_profiled_window_at_another_clock_is_told_in_both_directions() -> None:
    for profiled, percent in ((1500, "106.4 %"), (1320, "93.6 %")):
        case = make_case(BIG, clocks=clocks(1410, 1410, 1410), clocks_profiled=clocks(profiled, profiled, profiled))
        finding = only(case, "TR905")
        assert f"{profiled:,} MHz while the kernels were timed, {percent} of the 1,410 MHz" in finding.evidence
        assert "samples: 50 and 50" in finding.evidence
        assert f"--lock-gpu-clocks={min(profiled, 1410)}" in finding.try_, "a clock that the board held"


def test_the_clock_of_the_memory_counts_too() -> None:
    memory = Spread(min=405, median=10251, max=10251)
    finding = only(make_case(BIG, clocks=clocks(1410, 1410, 1410, memory_clock_mhz=memory)), "TR905")
    assert "memory clock from 405 to 10,251 MHz" in finding.evidence
    assert "SM clock" not in finding.evidence
    assert "--lock-memory-clocks=10251" in finding.try_


def test_a_clock_that_is_held_down_is_told_with_the_reason_and_its_share() -> None:
    finding = only(held(0.93), "TR906")
    assert finding.evidence == (
        "SMs at 1,410 MHz, 81.0 % of 1,740 MHz, 300 W, 71 C, samples: 50, while the latency was measured; "
        "held down by power cap (93.0 % of the time)"
    )
    assert "--power-limit" in finding.try_
    assert "cool down" in only(held(0.5, reason="temperature, slowed by hardware"), "TR906").try_
    assert "reset" in only(held(0.5, reason="application clocks are set"), "TR906").try_
    assert "PERFORMANCE" in only(held(0.5, reason="reason 0x400"), "TR906").try_


def test_a_limit_that_leaves_the_clock_near_its_rating_holds_nothing_down() -> None:
    assert not found(held(0.93, mid=1700), "TR906")
    assert found(held(0.93, mid=1700)._replace(rated_mhz=None), "TR906"), "where no rating is known, the driver's word"


def test_the_longest_reason_decides_what_to_try_and_the_profiled_window_stands_in() -> None:
    reasons = {"power cap": 0.3, "temperature, slowed by software": 0.6, "power brake": 0.01}
    case = make_case(BIG, clocks_profiled=clocks(900, 900, 900, reasons=reasons), rated_mhz=1740.0)
    finding = only(case, "TR906")
    assert "while profiled" in finding.evidence
    assert "power cap (30.0 % of the time), temperature, slowed by software (60.0 % of the time)" in finding.evidence
    assert "power brake" not in finding.evidence
    assert "cool down" in finding.try_


@pytest.mark.parametrize("code", ["TR905", "TR906"])
@pytest.mark.parametrize(
    "summary",
    [
        None,
        ClockSummary(samples=0, duration_ns=0),
        clocks(1410, 1410, 1410),
        clocks(900, 900, 900, reasons={"idle": 1.0}),
    ],
)
def test_rules_of_clocks_are_silent_without_samples_and_about_an_idle_gpu(
    code: str, summary: ClockSummary | None
) -> None:
    assert not found(make_case(BIG, clocks=summary, clocks_profiled=summary, rated_mhz=1740.0), code)


def test_every_reason_of_the_driver_but_idleness_has_a_remedy() -> None:
    assert set(tr906_clock_held_down.REMEDIES) == set(CLOCK_EVENTS.values()) - {"idle"}


def test_low_coverage_and_noise_speak_of_the_whole_run() -> None:
    low, noisy = only(POSITIVE["TR902"], "TR902"), only(POSITIVE["TR903"], "TR903")
    assert low.where == noisy.where == "the whole run"
    assert "94.0 % of kernel time is attributed, 95.0 % are needed" in low.evidence
    assert "varies by 11.0 %" in noisy.evidence
    assert "of 100)" in noisy.evidence
    assert "--duration" in noisy.try_
    assert low.confidence == noisy.confidence == 1.0


# --- of a TensorRT engine ----------------------------------------------------------------------


def edge(kind: str = "epilogue", *, expected: bool = True, saved_ns: int = 400_000) -> PlanEdge:
    return PlanEdge(
        tensor="m", maker="conv", readers=("relu",), kind=kind, expected=expected, bytes=8_000_000, saved_ns=saved_ns,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_fusion_that_did_not_happen_claims_the_layer_that_would_be_absorbed() -> None:
    timed = [Timed(conv(), 1.2), Timed(relu("relu", "y", "z"), 2.0)]
    finding = only(engine_case(*timed, edges=(edge(),)), "FU301")
    # 0.8 ms at its roof and 0.8 ms lost; fused, 0.4 ms of its roof go too.
    assert finding.lost_ns == 800_000 + 400_000
    assert finding.layers == ("relu",)
    assert finding.where == "conv -> relu"
    assert "8.00 MB between layers are written and read back" in finding.evidence
    prologue = edge("prologue")
    assert only(engine_case(*timed, edges=(prologue,)), "FU301").layers == ("conv",)


@pytest.mark.parametrize("one", [edge(expected=False), edge("products"), edge("layout"), edge(saved_ns=0)])
def test_a_fusion_that_no_engine_does_is_no_finding(one: PlanEdge) -> None:
    assert not found(engine_case(Timed(conv(), 1.2), Timed(relu("relu", "y", "z"), 2.0), edges=(one,)), "FU301")


def test_chains_of_an_engine_are_its_edges() -> None:
    """Its layers are many nodes each: that two of them begin with a pointwise op does not make them a chain."""
    assert not found(chain()._replace(tensorrt=True, gpu=True), "FU301")


def test_what_a_layer_takes_beyond_the_known_part_of_its_work_is_not_lost() -> None:
    slow = Timed(gemv(), 10.0)
    assert found(engine_case(slow, ceilings=RTX_4090), "RL101")
    assert not found(engine_case(slow, ceilings=RTX_4090, partial=frozenset({"gemv"})), "RL101")


@pytest.mark.parametrize(("efficiency", "fires"), [(0.34, True), (0.36, False)])
def test_a_datasheet_is_not_reached_by_healthy_kernels(efficiency: float, fires: bool) -> None:
    sheet = msgspec.structs.replace(RTX_4090, origin="datasheet")
    case = make_case(Timed(gemv(), 1 / efficiency), ceilings=sheet)
    assert bool(found(case, "RL101")) == fires


def test_remedies_of_an_engine_are_those_of_tensorrt() -> None:
    sheet = msgspec.structs.replace(CEILINGS, origin="datasheet")
    few = make_case(Timed(conv(), 5.0), ceilings=sheet)._replace(
        tensorrt=True, gpu=True, tactics={"conv": "sm50_xmma_conv"}
    )
    peak = only(few, "RL102")
    assert "peak of the datasheet; its tactic is sm50_xmma_conv" in peak.evidence
    assert "--builderOptimizationLevel" in peak.try_
    small = relu("small", "x", "y", 100_000)
    assert (
        "of what the L2 allows"
        in only(make_case(Timed(small, 4.0))._replace(tensorrt=True, gpu=True), "RL101").evidence
    )
    assert "--useCudaGraph" in only(launch_case(0.11)._replace(tensorrt=True, gpu=True), "LA401").try_
    assert "--inputIOFormats" in only(reorder_case(0.02)._replace(tensorrt=True, gpu=True), "LY201").try_
    assert "1 reformat," in only(reorder_case(0.02)._replace(tensorrt=True, gpu=True), "LY201").where
    assert "--gpu" in only(faster(0.94)._replace(tensorrt=True, gpu=True), "TR901").try_
    assert "--onnx" in only(make_case(BIG, coverage=(0.9, 0.0), tensorrt=True, gpu=True), "TR902").try_
    assert "layer time" in only(make_case(BIG, coverage=(0.9, 0.0), tensorrt=True, gpu=True), "TR902").evidence
    assert "clocks locked" in only(make_case(BIG, cv=0.2, tensorrt=True, gpu=True), "TR903").try_


def test_gaps_of_an_engine_are_surer_where_the_host_is_slower_than_the_layers() -> None:
    idle = engine_case(BIG, gap_ns=2_000_000, profiled_gap_ns=2_000_000)
    assert only(idle, "HO501").confidence == 0.5
    slow = only(idle._replace(enqueue_ns=9_000_000), "HO501")
    assert slow.confidence == 0.8
    assert "the host takes 9.00 ms to enqueue an inference" in slow.evidence
    assert slow.lost_ns == 2_000_000


def test_gaps_in_which_the_gpu_waits_for_the_host_are_told_from_those_of_launches() -> None:
    launches = engine_case(BIG, overheads=Overheads(gaps_between_ns=2_000_000, captured=True))
    waits = engine_case(BIG, overheads=Overheads(gaps_between_ns=500_000, waiting_ns=1_500_000, captured=True))
    assert only(launches, "HO501").confidence == 0.5
    found = only(waits._replace(enqueue_ns=3_000_000, graph_ns=8_100_000), "HO501")
    assert found.confidence == 0.8
    assert found.lost_ns == 2_000_000
    assert "and the GPU waits 1.50 ms for it" in found.evidence
    assert "as a CUDA graph it takes 8.10 ms" in found.evidence


def test_a_gpu_without_tensorrt_gets_no_options_of_trtexec() -> None:
    waits = engine_case(BIG, overheads=Overheads(waiting_ns=2_000_000, captured=True))._replace(tensorrt=False)
    assert "CUDA graph" in only(waits, "HO501").try_
    assert "--useCudaGraph" not in only(waits, "HO501").try_


# --- copies that a capture shows -----------------------------------------------------------------


def captured_copies(*transfers: Transfer, copies_ns: int = 9_000_000) -> Case:
    overheads = Overheads(copies_ns=copies_ns, captured=True)
    return engine_case(BIG, overheads=overheads, transfers=transfers)


WEIGHTS = Transfer("memcpy HtoD", number=10, total_ns=90_000_000, bytes=2_500_000_000, per_iteration_ns=9_000_000)
MOVES = Transfer("memcpy DtoD", number=10, total_ns=90_000_000, bytes=2_500_000_000, per_iteration_ns=9_000_000)


def test_copies_over_the_bus_are_found_in_a_capture_with_their_bytes_and_their_speed() -> None:
    case = captured_copies(WEIGHTS)
    finding = only(case, "HO502")
    assert finding.lost_ns == 9_000_000
    assert "memcpy HtoD: 10 of no layer, 2.50 GB in all at 27.8 GB/s" in finding.evidence
    assert format_percent(9_000_000 / case.latency.median_ns) in finding.evidence
    assert "weights too" in finding.try_


def test_copies_on_the_gpu_are_none_over_the_bus() -> None:
    assert found(captured_copies(MOVES), "HO502") == []
    # What may have been copies on the GPU is not claimed: at least 4 of 9 ms went over the bus.
    both = captured_copies(WEIGHTS, MOVES._replace(per_iteration_ns=5_000_000))
    assert only(both, "HO502").lost_ns == 4_000_000


def test_copies_beside_kernels_cost_nothing() -> None:
    assert found(captured_copies(WEIGHTS, copies_ns=0), "HO502") == []


# --- all layers slow alike -----------------------------------------------------------------------


def silent(case: Case) -> str:
    rule = RULES.get("TR907")
    assert rule is not None
    assert rule.reason is not None
    assert not found(case, "TR907")
    return rule.reason(case, case.layers[0])


def test_what_slows_memory_and_arithmetic_alike_is_doubted() -> None:
    case = alike(4.0)
    finding = only(case, "TR907")
    # The best are the first of each: 1 / (4 * 1.4) and 1 / (4 * 1.2).
    assert "the best bound by memory 17.9 % (relu0), by arithmetic 20.8 % (conv0)" in finding.evidence
    sampled = case._replace(clocks=clocks(700, 705, 710), rated_mhz=1410.0)
    assert "the SMs ran at 705 of 1,410 MHz" in only(sampled, "TR907").evidence
    assert "--gpu" not in only(sampled, "TR907").try_


def test_one_side_that_is_slow_by_itself_has_a_cause_of_its_own() -> None:
    assert "not one cause" in silent(alike(4.0, memory=3.0))
    assert "under 50.0 % is far" in silent(alike(1.6))


def test_layers_that_are_too_small_or_of_one_kind_do_not_tell() -> None:
    case = alike(4.0)
    launch = msgspec.structs.replace(case.ceilings, launch_ns=1e6)
    assert "fewer than two are bound by memory and by arithmetic" in silent(case._replace(ceilings=launch))
    assert "fewer than two are bound by memory" in silent(case._replace(layers=case.layers[:3]))
    assert "fewer than two are bound by arithmetic" in silent(case._replace(partial=frozenset({"conv1"})))
    assert "on no GPU" in silent(case._replace(gpu=False))


# --- doubts and their limits ---------------------------------------------------------------------


def slow_run(**medians: float) -> Case:
    """A kernel at a tenth of its roof, which RL101 suspects; see `latencies`."""
    return latencies(make_case(Timed(gemv(), 10.0), ceilings=RTX_4090), **medians)


def lost_to_nobody(share: float) -> Case:
    """The same kernel in a latency of which its layers exceed, or leave, a share."""
    case = make_case(Timed(gemv(), 10.0), ceilings=RTX_4090)
    kernels_ns = case.layers[0].measured_ns
    return make_case(Timed(gemv(), 10.0), ceilings=RTX_4090, gap_ns=round(kernels_ns / (1 - share)) - kernels_ns)


@pytest.mark.parametrize(
    ("case", "code", "brief", "how"),
    [
        # The runs that ended with a confident verdict: p99 16.6 ms on 130 us, +823 %, and -74 % unexplained.
        (slow_run(p99=127.7), "TR903", "p99 is 128 x the median", "measure longer (--duration) on a quiet machine"),
        (slow_run(profiled=9.23), "TR908", "the profiler cost +823 %", "on a quiet machine"),
        (lost_to_nobody(-0.74), "TR909", "unexplained -74 %", "on a quiet machine"),
        (
            make_case(Timed(gemv(), 10.0), ceilings=RTX_4090, speed=0.07, probes_ns=(8.4e6, 8.5e6)),
            "TR904",
            "machine at 7 % of its speed",
            "on a quiet machine",
        ),
        (faster(0.5), "TR901", "1 layer faster than the floor", "measure the ceilings again with --recalibrate"),
    ],
)
def test_beyond_its_limit_a_doubt_leaves_no_verdict_but_how_to_measure_again(
    case: Case, code: str, brief: str, how: str
) -> None:
    findings = diagnose(case)
    first = findings[0]
    assert (first.code, first.kind, first.severity, first.brief) == (code, "trust", "critical", brief)
    assert "there is no verdict" in first.evidence
    said = verdict(case, findings, 1_000_000)
    assert said.startswith(f"no verdict: {brief}")
    assert f"; measure again: {how}" in said
    assert "suspect" not in said


@pytest.mark.parametrize(
    ("case", "code", "brief"),
    [
        (
            make_case(Timed(gemv(), 10.0), ceilings=RTX_4090, speed=0.6, probes_ns=(9.8e5, 9.9e5)),
            "TR904",
            "machine at 60 % of its speed",
        ),
        (slow_run(p99=2.5), "TR903", "p99 is 2.5 x the median"),
        (slow_run(profiled=2.05), "TR908", "the profiler cost +105 %"),
        (lost_to_nobody(-0.2), "TR909", "unexplained -20 %"),
    ],
)
def test_under_its_limit_a_doubt_is_told_and_the_verdict_stands(case: Case, code: str, brief: str) -> None:
    findings = diagnose(case)
    assert [(one.code, one.severity, one.brief) for one in findings if one.kind == "trust"] == [
        (code, "warning", brief)
    ]
    assert "likely cause RL101" in verdict(case, findings, 1_000_000)


def test_a_latency_under_its_roofs_has_no_verdict() -> None:
    """A foreign detector ended with 119.3 % of what this device attains, and a likely cause."""
    case = POSITIVE["TR910"]
    (told,) = found(case, "TR910")
    assert (told.severity, told.brief) == ("critical", "latency below its floor, 94.0 % of it")
    said = verdict(case, diagnose(case), case.attainable_ns)
    assert said.startswith("no verdict: ")
    assert "measure again: " in said
    assert "--recalibrate" in told.try_
    assert "latency below its floor, 94.0 % of it" in said
    # On a GPU layers may overlap.
    assert not found(case._replace(gpu=True), "TR910")


def test_ceilings_measured_beside_others_are_doubted_and_beside_half_of_the_cpus_give_no_verdict() -> None:
    case = POSITIVE["TR911"]
    (told,) = found(case, "TR911")
    assert (told.severity, told.brief) == ("warning", "ceilings measured with 0.1 of 2 CPUs busy")
    half = case._replace(ceilings=msgspec.structs.replace(case.ceilings, others_cpus=1.0))
    (told,) = found(half, "TR911")
    assert told.severity == "critical"
    assert verdict(half, diagnose(half), half.attainable_ns).startswith("no verdict: ceilings measured with 1.0 of 2")
    silent = case._replace(ceilings=msgspec.structs.replace(case.ceilings, others_cpus=None))
    assert not found(silent, "TR911")


@pytest.mark.parametrize("changes", [{"extent": "quick", "band": 15}, {"cpus": 2, "others_cpus": 0.5}])
def test_a_cause_under_quick_or_disturbed_ceilings_is_less_sure(changes: dict[str, Any]) -> None:
    case = slow_run()
    doubtful = case._replace(ceilings=msgspec.structs.replace(case.ceilings, **changes))
    sure, unsure = (next(one.confidence for one in diagnose(each) if one.kind != "trust") for each in (case, doubtful))
    assert unsure == pytest.approx(sure * THRESHOLDS.doubt, abs=0.01)


def test_where_all_is_well_nothing_is_doubted() -> None:
    assert [one for one in diagnose(slow_run(p99=1.9, profiled=1.4)) if one.kind == "trust"] == []


def test_every_doubt_says_what_it_is_in_a_few_words() -> None:
    doubts = [one for case in FIRES.values() for one in diagnose(case) if one.kind == "trust"]
    assert {one.code for one in doubts} >= {f"TR9{number:02}" for number in range(1, 13)}
    for one in doubts:
        assert 0 < len(one.brief) <= 50, one
        beyond = "no verdict" in one.evidence or one.code in ("TR902", "TR907")
        assert one.severity == ("critical" if beyond else "warning")


def test_medians_that_do_not_add_up_are_doubted_and_no_gap() -> None:
    """Layers of a fifth of the latency, kernels of all of it: what six of sixteen runs called host gaps."""
    case = make_case(BIG)
    ns = case.layers[0].measured_ns
    latency = msgspec.structs.replace(case.latency, median_ns=5 * ns, p99_ns=5 * ns)
    rows = build_ledger(case.layers, {}, latency, msgspec.structs.replace(CEILINGS, call_ns=0.0), adding_ns=4 * ns)
    spread = case._replace(latency=latency, profiled=latency, ledger=rows, profiled_gap_ns=0)
    assert not found(spread, "HO501")
    (told,) = found(spread, "TR909")
    assert (told.severity, told.brief) == ("critical", "medians of layers miss +80 %")
