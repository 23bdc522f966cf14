"""Ranking: no nanosecond twice, largest first, confidence and severity, and the verdict above it all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, gemv, layer, make_case, relu, tensor, with_match
from tests.fakes.generated_cases import NAMES, OTHER_WORK, cases, gaps
from trtprof.base.records import Finding, Latency
from trtprof.diagnose import RULES, THRESHOLDS, Case, Claim, Rule
from trtprof.diagnose.ledger import HOST, IDEAL, INEFFICIENCY, OUTSIDE, UNEXPLAINED, Overheads
from trtprof.diagnose.rank import diagnose, verdict


def a_rule(code: str, check: Callable[[Case], Iterable[Claim]], order: int = 50) -> Rule:
    return Rule(code, f"title of {code}", check, order, "")


def claims(code: str, *found: Claim, order: int = 50) -> Rule:
    return a_rule(code, lambda _case: found, order)


def claim(layers: dict[str, int] | None = None, *, where: str = "here", other_ns: int = 0) -> Claim:
    return Claim(where=where, evidence="evidence", remedy="remedy", layers=layers or {}, other_ns=other_ns)


def hypotheses(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.kind == "hypothesis"]


def two_layers(gap_ns: int = 0) -> Case:
    """Layers ``a`` and ``b`` of 4 ms, which could take 0.8 ms each."""
    return make_case(
        Timed(relu("a", "x", "m"), ns=4_000_000), Timed(relu("b", "y", "z"), ns=4_000_000), gap_ns=gap_ns
    )  # fmt: skip


def test_the_more_specific_rule_takes_a_layer_from_the_other() -> None:
    late = claims("AA1", claim({"a": 3000000, "b": 2_000_000}), order=60)
    early = claims("ZZ1", claim({"a": 1_000_000}), order=10)
    assert [(f.code, f.lost_ns, f.layers) for f in diagnose(two_layers(), [late, early])] == [
        ("AA1", 2_000_000, ("b",)),
        ("ZZ1", 1_000_000, ("a",)),
    ]


def test_time_outside_layers_is_claimed_once_and_never_from_a_negative_remainder() -> None:
    greedy = [claims("AA1", claim(other_ns=10**12)), claims("BB1", claim(other_ns=10**12))]
    assert [f.lost_ns for f in diagnose(two_layers(gap_ns=5_000_000), greedy)] == [5_001_000]
    assert [f.lost_ns for f in diagnose(two_layers(gap_ns=-500), greedy)] == []


def test_a_claim_under_the_least_share_takes_nothing_from_a_later_rule() -> None:
    small = claims("AA1", claim({"a": 79_000}), order=10)
    later = claims("BB1", claim({"a": 4_000_000}), order=20)
    assert [f.code for f in diagnose(two_layers(), [small, later])] == ["BB1"]
    enough = claims("AA1", claim({"a": 81_000}), order=10)
    assert [f.code for f in diagnose(two_layers(), [enough, later])] == ["AA1"]


def test_a_trust_finding_claims_nothing_and_stands_first() -> None:
    doubt = claim({"a": 4_000_000})._replace(kind="trust")
    findings = diagnose(two_layers(), [claims("TR1", doubt, order=0), claims("AA1", claim({"a": 3_000_000}))])
    assert [(f.code, f.lost_ns, f.layers, f.severity) for f in findings] == [
        ("TR1", 0, ("a",), "warning"),
        ("AA1", 3_000_000, ("a",), "critical"),
    ]


def test_rules_see_what_others_have_claimed() -> None:
    seen: list[tuple[str, ...]] = []

    def look(case: Case) -> Iterator[Claim]:
        seen.append(tuple(one.name for one in case.unclaimed))
        assert len(case.layers) == 2
        yield from ()

    diagnose(two_layers(), [a_rule("BB1", look, 60), claims("AA1", claim({"a": 1_000_000}), order=10)])
    assert seen == [("b",)]


def test_claims_shrink_where_profiled_kernels_outlast_the_latency() -> None:
    """8 ms of kernels in a latency with room for 5 ms beside the call: each claim is worth 5/8."""
    case = two_layers(gap_ns=-3_000_000)
    assert case.row(UNEXPLAINED) == -3_000_000
    assert case.latency.median_ns - case.row(HOST) == 5_000_000
    whole = [claims("AA1", claim({"a": 4_000_000})), claims("BB1", claim({"b": 2_000_000}))]
    findings = diagnose(case, whole)
    assert [finding.lost_ns for finding in findings] == [2_500_000, 1_250_000]
    assert sum(finding.lost_ns for finding in findings) <= case.latency.median_ns


def test_kernels_without_a_layer_shrink_the_claims_of_the_others_too() -> None:
    case = make_case(Timed(relu("a", "x", "m"), ns=4_000_000), unattributed_ns=4_000_000, gap_ns=-4_000_000)
    assert case.in_latency(4_000_000) == 2_000_000


def test_a_layer_faster_than_attainable_pays_for_nobody() -> None:
    """The net row of the ledger is 0, yet what the slow layer lost is there to be won."""
    fast, slow = relu("fast", "x", "y", 4_000_000), relu("slow", "u", "v")
    attainable = make_case(Timed(fast), Timed(slow)).layers
    assert attainable[0].attainable_ns is not None
    assert attainable[1].attainable_ns is not None
    case = make_case(
        Timed(fast, ns=attainable[0].attainable_ns - 1_000_000), Timed(slow, ns=attainable[1].attainable_ns + 1_000_000)
    )
    assert case.row(INEFFICIENCY) == 0
    (finding,) = hypotheses(diagnose(case))
    assert (finding.layers, finding.lost_ns) == (("slow",), 1_000_000)


any_case = cases(st.floats(0.3, 30.0), st.sampled_from(NAMES), overheads=gaps)


def greedy(case: Case) -> Iterator[Claim]:
    """A rule by an outsider that ignores all manners: it claims every layer and all else, twice."""
    everything = {one.name: 2 * one.measured_ns + 1 for one in case.layers}
    for where in ("once", "twice"):
        yield claim(everything, where=where, other_ns=10**12)
        yield claim(everything, where=where, other_ns=10**12)._replace(kind="trust")


@given(any_case, st.none() | st.integers(0, 100))
@example(two_layers(gap_ns=-3_000_000), 5)
@example(two_layers(gap_ns=-8_000_000), 100)
def test_no_nanosecond_is_claimed_twice(case: Case, greedy_order: int | None) -> None:
    """All hypotheses together claim no more than the latency, whatever the rules ask for."""
    rules = list(RULES.values())
    if greedy_order is not None:
        rules.append(a_rule("XX1", greedy, greedy_order))
    findings = diagnose(case, rules)
    found = hypotheses(findings)

    assert sum(finding.lost_ns for finding in found) <= case.latency.median_ns
    names = [name for finding in found for name in finding.layers]
    assert len(names) == len(set(names))
    measured = {one.name: one.measured_ns for one in case.layers}
    outside = sum(max(case.row(cause), 0) for cause in OUTSIDE)
    inside = [sum(measured[name] for name in finding.layers) for finding in found]
    assert sum(max(finding.lost_ns - most, 0) for finding, most in zip(found, inside, strict=True)) <= outside
    assert all(finding.lost_ns >= THRESHOLDS.min_share * case.latency.median_ns for finding in found)
    assert all(finding.lost_ns == 0 for finding in findings if finding.kind == "trust")

    # Trust first, then the largest loss first, and the same again for the same case.
    assert [f.kind for f in findings] == ["trust"] * (len(findings) - len(found)) + ["hypothesis"] * len(found)
    assert [f.lost_ns for f in found] == sorted((f.lost_ns for f in found), reverse=True)
    assert diagnose(case, reversed(rules)) == findings


@given(any_case)
def test_claims_are_at_most_latency_less_ideal_where_nothing_beats_its_roof(case: Case) -> None:
    plain = all(one.role == "compute" and one.measured_ns >= (one.ideal_ns or 0) for one in case.layers)
    assume(plain and case.row(UNEXPLAINED) >= 0)
    found = [one for one in hypotheses(diagnose(case)) if one.code not in OTHER_WORK]
    assert sum(finding.lost_ns for finding in found) <= case.latency.median_ns - case.row(IDEAL)


def test_severity_follows_the_share_of_latency(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, str]] = [
        (0.011, "info"),
        (0.049, "info"),
        (0.05, "warning"),
        (0.249, "warning"),
        (0.25, "critical"),
    ]
    for share, severity in rows:
        with subtests.test(share=share, severity=severity):
            case = make_case(Timed(relu("a", "x", "y"), ns=999_000))  # with the call, a latency of 1 ms
            assert case.latency.median_ns == 1_000_000
            (finding,) = diagnose(case, [claims("AA1", claim({"a": round(share * 1e6)}))])
            assert finding.severity == severity


def test_confidence_is_lower_for_an_inferred_match_and_for_noise() -> None:
    def confidence(match: str, cv: float) -> float:
        one = with_match(gemv(), match)  # type: ignore[arg-type]
        case = make_case(Timed(one, 10.0), ceilings=RTX_4090, cv=cv)
        (finding,) = hypotheses(diagnose(case))
        return finding.confidence

    sure = confidence("exact", 0.01)
    assert sure == confidence("exact", THRESHOLDS.noise_cv)
    assert confidence("inferred", 0.01) == confidence("none", 0.01) == round(sure * THRESHOLDS.doubt, 2)
    assert confidence("exact", 0.2) == round(sure * THRESHOLDS.doubt, 2)
    assert confidence("inferred", 0.2) == round(sure * THRESHOLDS.doubt**2, 2)


def test_the_verdict_names_the_distance_and_the_first_suspect() -> None:
    case = make_case(Timed(gemv(), 10.0), ceilings=RTX_4090)
    attainable = case.layers[0].attainable_ns
    assert attainable is not None
    text = verdict(case, diagnose(case), attainable)
    assert text == (
        "10.0 % of what this device attains; "
        "likely cause RL101 (memory-bound op far under bandwidth), 2.45 ms"
    )  # fmt: skip


def test_the_verdict_says_so_when_no_cause_stands_out() -> None:
    case = make_case(Timed(relu("a", "x", "y")))
    assert verdict(case, diagnose(case), 800_000) == "99.9 % of what this device attains: no single cause stands out"


@pytest.mark.parametrize(("exact", "inferred", "given_"), [(0.9, 0.06, True), (0.9, 0.04, False), (0.0, 1.0, True)])
def test_no_verdict_under_the_coverage_threshold(exact: float, inferred: float, given_: bool) -> None:
    case = make_case(Timed(gemv(), 10.0), ceilings=RTX_4090, coverage=(exact, inferred))
    text = verdict(case, diagnose(case), 1)
    assert text.startswith("no verdict") != given_
    if not given_:
        assert text == "no verdict: only 94.0 % of kernel time is attributed, 95.0 % are needed"


def test_no_verdict_without_a_latency() -> None:
    case = make_case(Timed(gemv()), ceilings=RTX_4090)
    nothing = case._replace(latency=Latency(median_ns=0, p99_ns=0, cv=0.0, n=0))
    assert verdict(nothing, (), 1) == "no verdict: no latency was measured"
    assert nothing.share(5) == 0.0


def test_time_without_a_price_is_not_counted_as_lost_by_the_verdict() -> None:
    """An op without a cost attains who knows what: the verdict is a lower bound and says why."""
    unknown = layer("custom", "Custom", (tensor("p", 10),), (tensor("q", 10),), domain="acme")
    case = make_case(Timed(relu("a", "x", "y"), ns=800_000), Timed(unknown, ns=199_000))
    text = verdict(case, (), 800_000)
    assert text.startswith("at least 80.0 % of what this device attains (19.9 % of latency has no price)")
    small = make_case(Timed(relu("a", "x", "y"), ns=800_000), Timed(unknown, ns=5_000))
    assert verdict(small, (), 800_000).startswith("99.3 % of what")


def test_the_verdict_on_an_engine_says_what_it_stands_on() -> None:
    sheet = msgspec.structs.replace(CEILINGS, origin="datasheet")
    case = engine_case(Timed(relu("a", "x", "y"), 2.0), ceilings=sheet, lacking=("no ONNX model", "datasheet ceilings"))
    attainable = sum(one.attainable_ns or 0 for one in case.layers)
    said = verdict(case, (), attainable)
    assert said == (
        "50.0 % of what the datasheet of an invented device allows: no single cause stands out; "
        "less sure for: no ONNX model, datasheet ceilings"
    )
    captured = case._replace(end_to_end=False)
    assert verdict(captured, (), attainable).startswith("as captured, with the profiler attached: 50.0 % of")
    summed = captured._replace(latency=msgspec.structs.replace(case.latency, n=0))
    assert verdict(summed, (), attainable).startswith("of the layers alone, not end to end: 50.0 % of")
    assert verdict(case, (), 0).startswith("no verdict: nothing is priced, the work of no layer is known; less sure")


def test_confidence_is_lower_for_a_datasheet_and_for_a_profile_of_one_inference() -> None:
    def confidence(case: Case) -> float:
        (one,) = hypotheses(diagnose(case, [claims("XX1", claim({"a": 1_000_000}))]))
        return one.confidence

    timed = Timed(relu("a", "x", "y"), 2.0)
    sheet = msgspec.structs.replace(CEILINGS, origin="datasheet")
    once = msgspec.structs.replace(make_case(timed).profiled, n=1)
    assert confidence(engine_case(timed)) == 0.8
    assert confidence(engine_case(timed, ceilings=sheet)) == 0.64
    assert confidence(engine_case(timed, profiled=once)) == 0.64
    assert confidence(make_case(timed, profiled=once)) == 0.8


def test_copies_are_time_that_one_finding_may_claim() -> None:
    case = engine_case(Timed(relu("a", "x", "y")), overheads=Overheads(300_000, 200_000))
    rules = [claims("XX1", claim(other_ns=400_000), claim(where="there", other_ns=400_000))]
    assert sum(one.lost_ns for one in diagnose(case, rules)) == 500_000
    # The layers have the room that the copies leave.
    assert case.in_latency(case.layers[0].measured_ns) == case.layers[0].measured_ns
