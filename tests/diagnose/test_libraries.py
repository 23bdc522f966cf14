"""A layer beside what good library kernels take: it is not slow within their band, and may win down to their p10."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.cases import RTX_4090, Timed, engine_case, expecting, gemv
from tests.fakes.kernel_rule_cases import POSITIVE as OF_KERNELS
from tests.fakes.plan_rule_cases import POSITIVE as OF_LAUNCHES
from tests.fakes.rule_cases import POSITIVE as OF_TIMES
from trtprof.base.units import format_ns
from trtprof.diagnose import RULES, Case, Claim, Rule
from trtprof.diagnose.libraries import as_fast, down_to, winnable_ns
from trtprof.diagnose.plugin import candidates
from trtprof.expected import expect
from trtprof.hardware import gpus

FOUND = {
    code: {**OF_TIMES, **OF_KERNELS, **OF_LAUNCHES}[code]
    for code in ("RL101", "RL102", "KN701", "KN702", "KN703", "KN704", "KN705", "WV706", "OC707", "DW805", "AL802")
}  # fmt: skip
"""A case of each rule that it finds."""


def story(ns: int) -> Case:
    """The batched gemv of the story as a layer of one node that takes ``ns``."""
    return engine_case(Timed(gemv(), ns=ns), ceilings=RTX_4090)


def rule(code: str) -> Rule:
    found = RULES.get(code)
    assert found is not None
    return found


def claims(code: str, case: Case) -> list[Claim]:
    return list(rule(code).check(case))


def claimed(code: str, case: Case) -> str:
    """The one layer that a rule claims."""
    (claim,) = claims(code, case)
    (name,) = claim.layers
    return name


def test_no_rule_calls_a_layer_slow_that_is_within_the_band_or_under_it(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, float, float]] = [(0.5, 0.8, 1.0), (0.9, 1.1, 1.3), (1.1, 1.2, 1.3)]
    for band in rows:
        for code, case in FOUND.items():
            with subtests.test(band=band, code=code):
                name = claimed(code, case)
                assert claims(code, expecting(case, **{name: band})) == []
                reason = rule(code).reason
                assert reason is not None
                inside = expecting(case, **{name: band})
                (layer,) = [one for one in inside.layers if one.name == name]
                praised = "faster than nine of ten library kernels" in reason(inside, layer)
                assert praised is (band[0] > 1)
                assert praised or "as fast as good library kernels" in reason(inside, layer)


def test_what_a_rule_claims_ends_at_the_fastest_tenth_of_library_kernels(subtests: pytest.Subtests) -> None:
    for code, case in FOUND.items():
        with subtests.test(code=code):
            name = claimed(code, case)
            (alone,) = claims(code, case)
            found = expecting(case, **{name: (0.97, 0.98, 0.99)})
            (layer,) = [one for one in found.layers if one.name == name]
            (claim,) = claims(code, found)
            assert layer.expected_p10_ns is not None
            left = layer.measured_ns - layer.expected_p10_ns
            assert claim.layers[name] == left < alone.layers[name]
            assert f"claimed is what lies above {format_ns(layer.expected_p10_ns)}, which one in ten" in claim.evidence
            assert ", 80 %)" in claim.evidence


def test_a_rule_claims_as_much_as_ever_where_nothing_like_the_layer_was_measured(subtests: pytest.Subtests) -> None:
    for code, case in FOUND.items():
        with subtests.test(code=code):
            (before,), (after,) = claims(code, case), claims(code, expecting(case))
            assert before == after


def test_without_an_expectation_all_that_is_lost_counts_and_nothing_is_said() -> None:
    (layer,) = story(1_900_000).layers
    assert winnable_ns(layer) == layer.lost_ns
    assert (as_fast(layer), down_to(layer)) == ("", "")
    assert winnable_ns(msgspec.structs.replace(layer, lost_ns=None)) == 0
    assert winnable_ns(msgspec.structs.replace(layer, lost_ns=-5)) == 0


def test_a_chain_that_could_be_one_kernel_is_claimed_down_to_what_libraries_take_for_its_parts() -> None:
    case = OF_TIMES["FU301"]
    (before,) = claims("FU301", case)
    (after,) = claims("FU301", expecting(case, **dict.fromkeys(before.layers, (0.9, 1.1, 1.2))))
    took = {layer.name: layer.measured_ns for layer in case.layers}
    assert after.layers == {name: pytest.approx(0.1 * took[name], abs=1) for name in before.layers}
    assert all(after.layers[name] < ns for name, ns in before.layers.items())


def test_a_gpu_is_not_called_slow_where_good_kernels_of_the_same_shapes_reach_no_more() -> None:
    case = OF_TIMES["TR907"]
    assert claims("TR907", case)
    name = case.layers[0].name
    assert claims("TR907", expecting(case, **{name: (0.6, 0.9, 1.1)})) == []
    (layer,) = [one for one in expecting(case, **{name: (0.6, 0.9, 1.1)}).layers if one.name == name]
    reason = rule("TR907").reason
    assert reason is not None
    assert "not all are slow, for the layer is as fast as good library kernels" in reason(
        expecting(case, **{name: (0.6, 0.9, 1.1)}), layer
    )
    # Slower than nine of ten, and near to what the fastest tenth take: the roofline is far, not the GPU slow.
    assert claims("TR907", expecting(case, **{one.name: (0.9, 0.95, 0.99) for one in case.layers})) == []
    assert claims("TR907", expecting(case, **{one.name: (0.3, 0.4, 0.5) for one in case.layers}))
    assert claims("TR907", extrapolated(expecting(case, **{name: (0.6, 0.9, 1.1)})))


def test_a_kernel_by_hand_may_hope_for_the_fastest_tenth_and_at_worst_for_the_slowest() -> None:
    case = story(1_900_000)
    case = expecting(case, gemv=(0.2, 0.3, 0.5))
    (found,) = candidates(case._replace(ops={"gemv": case.engine["gemv"].op}))
    assert found.reachable_ns == 380_000
    assert found.recoverable_ns == 1_520_000
    assert found.net_ns == 1_520_000 - 2000
    assert found.net_low_ns == pytest.approx(1_900_000 - 19_000 - 950_000 - 2000, abs=1)
    assert found.net_high_ns == pytest.approx(1_900_000 + 19_000 - 380_000 - 2000, abs=1)
    assert found.verdict == "write it"
    assert "could be won back, down to the fastest tenth of library kernels" in found.why
    assert "~570 us (380 .. 950, 80 %)" in found.basis


def extrapolated(case: Case) -> Case:
    """The case with its expectations as those of shapes that nobody measured."""
    known = [one.expected_ns is not None for one in case.layers]
    return case._replace(
        layers=tuple(
            msgspec.structs.replace(one, expected_basis="extrapolated") if there else one
            for one, there in zip(case.layers, known, strict=True)
        )
    )


def test_no_verdict_rests_on_an_extrapolation(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, float, float]] = [(1.1, 4.0, 7.5), (0.9, 0.95, 0.99)]
    for band in rows:
        for code, case in FOUND.items():
            with subtests.test(band=band, code=code):
                (before,) = claims(code, case)
                (after,) = claims(code, extrapolated(expecting(case, **{claimed(code, case): band})))
                assert before == after


def test_the_story_is_worth_a_kernel_though_trees_that_know_no_gemv_call_it_fast() -> None:
    """960,000 products of a vector by a vector: the ensemble, asked in fp32, says 7.6 ms where memory needs 0.27."""
    case = story(1_900_000)
    (work,) = [layer.work for layer in case.layers]
    spec = gpus.find("rtx-4090")
    (found,) = expect([work], spec, gpus.ceilings(spec, tf32=False), tf32=False)
    assert not found.firm
    told = tuple(msgspec.structs.replace(one, **msgspec.structs.asdict(found)) for one in case.layers)
    (candidate,) = candidates(case._replace(layers=told, ops={"gemv": case.engine["gemv"].op}))
    assert candidate.verdict == "write it"
    assert as_fast(told[0]) == ""
