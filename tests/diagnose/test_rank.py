"""Ranking: no nanosecond twice, largest first, confidence and severity, and the verdict above it all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, gemv, layer, make_case, relu, tensor, with_match
from trtprof.base.records import Coverage, Estimate, Finding, Latency, Layer, LayerResult, Work
from trtprof.diagnose import RULES, THRESHOLDS, Case, Claim, Rule
from trtprof.diagnose.ledger import HOST, IDEAL, INEFFICIENCY, UNEXPLAINED, Overheads, build_ledger
from trtprof.diagnose.rank import diagnose, verdict
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate


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


# --- who may claim what ------------------------------------------------------------------------


def test_the_more_specific_rule_takes_a_layer_from_the_other() -> None:
    late = claims("AA1", claim({"a": 3000000, "b": 2_000_000}), order=60)
    early = claims("ZZ1", claim({"a": 1_000_000}), order=10)
    assert [(f.code, f.lost_ns, f.layers) for f in diagnose(two_layers(), [late, early])] == [
        ("AA1", 2_000_000, ("b",)),
        ("ZZ1", 1_000_000, ("a",)),
    ]


def test_two_claims_of_one_rule_share_no_layer_and_the_larger_goes_first() -> None:
    rule = claims("AA1", claim({"a": 1_000_000}, where="small"), claim({"a": 2_000_000}, where="large"))
    (finding,) = diagnose(two_layers(), [rule])
    assert (finding.where, finding.lost_ns) == ("large", 2_000_000)


def test_a_layer_is_claimed_for_no_more_than_it_took() -> None:
    (finding,) = diagnose(two_layers(), [claims("AA1", claim({"a": 10**12, "b": -(10**12)}))])
    assert finding.lost_ns == 4_000_000


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


def test_a_finding_does_not_speak_of_a_layer_that_another_one_claimed() -> None:
    """The worst two of three slow Relus are a chain; the roofline rule is left with the third."""
    case = make_case(
        Timed(relu("first", "x", "m"), 9.0), Timed(relu("second", "m", "y"), 9.0), Timed(relu("lone", "u", "v"), 4.0)
    )
    found = {finding.code: finding for finding in diagnose(case)}
    assert found["FU301"].layers == ("first", "second")
    assert (found["RL101"].where, found["RL101"].layers) == ("lone", ("lone",))
    assert found["RL101"].lost_ns == case.layers[2].lost_ns


def test_a_recomputed_constant_is_not_also_a_slow_layer() -> None:
    one = relu("folds", "w", "y", constant=True)
    findings = hypotheses(diagnose(make_case(Timed(one, 9.0))))
    assert [finding.code for finding in findings] == ["CN601"]


# --- negative rows -----------------------------------------------------------------------------


def test_claims_shrink_where_profiled_kernels_outlast_the_latency() -> None:
    """8 ms of kernels in a latency with room for 5 ms beside the call: each claim is worth 5/8."""
    case = two_layers(gap_ns=-3_000_000)
    assert case.row(UNEXPLAINED) == -3_000_000
    assert case.latency.median_ns - case.row(HOST) == 5_000_000
    whole = [claims("AA1", claim({"a": 4_000_000})), claims("BB1", claim({"b": 2_000_000}))]
    findings = diagnose(case, whole)
    assert [finding.lost_ns for finding in findings] == [2_500_000, 1_250_000]
    assert sum(finding.lost_ns for finding in findings) <= case.latency.median_ns


def test_claims_are_as_profiled_where_the_latency_has_room() -> None:
    case = two_layers(gap_ns=0)
    assert case.in_latency(4_000_000) == 4_000_000


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


# --- the invariants, for random runs -----------------------------------------------------------

OP_TYPES = ("Relu", "Add", "MatMul", "Conv", "Transpose")


@st.composite
def cases(draw: st.DrawFn, *, plain: bool = False) -> Case:
    """Layers one after the other with random work and times.

    ``plain`` runs only have layers that the model needs, that are not above their roof and that
    fit into the latency.
    """
    results: list[LayerResult] = []
    engine: dict[str, Layer] = {}
    estimates: dict[str, Estimate | None] = {}
    for i in range(draw(st.integers(0, 8))):
        name = f"layer{i}"
        role = "compute" if plain else draw(st.sampled_from(["compute", "compute", "layout", "control"]))
        reads = f"t{i}" if draw(st.booleans()) else f"u{i}"
        constant = not plain and draw(st.integers(0, 4)) == 0
        elements = draw(st.integers(1, 10**6))
        engine[name] = layer(
            name,
            draw(st.sampled_from(OP_TYPES)),
            (tensor(reads, elements), tensor(f"w{i}", 4)),
            (tensor(f"t{i + 1}", elements),),
            role=role,
            constant=constant,
            match=draw(st.sampled_from(["exact", "inferred"])),
        )
        work = Work(
            vector_flops=draw(st.integers(0, 10**9)),
            bytes_read=draw(st.integers(0, 10**7)),
            bytes_written=draw(st.integers(0, 10**6)),
        )
        traffic = Traffic(draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6)))
        found = None if not plain and draw(st.integers(0, 4)) == 0 else estimate(work, traffic, CEILINGS)
        estimates[name] = found
        measured = draw(st.integers(0, 10**8))
        if plain and found is not None:
            measured = max(measured, found.ideal_ns)
        lost = None if found is None else measured - found.attainable_ns
        results.append(
            LayerResult(
                name=name,
                op_type=engine[name].op.op_type,
                role=role,
                nodes=(),
                kernels=(),
                measured_ns=measured,
                ideal_ns=None if found is None else found.ideal_ns,
                attainable_ns=None if found is None else found.attainable_ns,
                lost_ns=measured if role == "layout" else lost,
                bound="unknown" if found is None else found.bound,
                flops=work.flops,
                bytes=work.bytes,
                match=engine[name].match,
                terms={} if found is None else found.terms,
                work=work,
                constant=constant,
            )
        )
    ceilings = msgspec.structs.replace(CEILINGS, call_ns=draw(st.floats(0, 1e8)))
    unattributed = 0 if plain else draw(st.integers(0, 10**7))
    kernels = sum(one.measured_ns for one in results) + unattributed
    gap = draw(st.integers(0 if plain else -(10**8), 10**8))
    median = max(kernels + round(ceilings.call_ns) + gap, 0)
    latency = Latency(median_ns=median, p99_ns=median, cv=draw(st.sampled_from([0.0, 0.2])), n=10)
    exact = draw(st.sampled_from([1.0, 0.5]))
    return Case(
        layers=tuple(results),
        engine=engine,
        latency=latency,
        profiled=latency,
        coverage=Coverage(exact=exact, inferred=0.0, unattributed=1 - exact),
        ceilings=ceilings,
        ledger=build_ledger(results, estimates, latency, ceilings, unattributed),
        clock_resolution_ns=draw(st.sampled_from([1, 1000])),
        profiled_gap_ns=draw(st.integers(0, 10**8)),
    )


def greedy(case: Case) -> Iterator[Claim]:
    """A rule by an outsider that ignores all manners: it claims every layer and all else, twice."""
    everything = {one.name: 2 * one.measured_ns + 1 for one in case.layers}
    for where in ("once", "twice"):
        yield claim(everything, where=where, other_ns=10**12)
        yield claim(everything, where=where, other_ns=10**12)._replace(kind="trust")


@given(cases(), st.none() | st.integers(0, 100))
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
    outside = case.row(HOST) + max(case.row(UNEXPLAINED), 0)
    inside = [sum(measured[name] for name in finding.layers) for finding in found]
    assert sum(max(finding.lost_ns - most, 0) for finding, most in zip(found, inside, strict=True)) <= outside
    assert all(finding.lost_ns >= THRESHOLDS.min_share * case.latency.median_ns for finding in found)
    assert all(finding.lost_ns == 0 for finding in findings if finding.kind == "trust")

    # Trust first, then the largest loss first, and the same again for the same case.
    assert [f.kind for f in findings] == ["trust"] * (len(findings) - len(found)) + ["hypothesis"] * len(found)
    assert [f.lost_ns for f in found] == sorted((f.lost_ns for f in found), reverse=True)
    assert diagnose(case, reversed(rules)) == findings


@given(cases(plain=True))
def test_claims_are_at_most_latency_less_ideal_where_nothing_beats_its_roof(case: Case) -> None:
    found = hypotheses(diagnose(case))
    assert case.row(UNEXPLAINED) >= 0
    assert sum(finding.lost_ns for finding in found) <= case.latency.median_ns - case.row(IDEAL)


# --- severity and confidence -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "severity"), [(0.011, "info"), (0.049, "info"), (0.05, "warning"), (0.249, "warning"), (0.25, "critical")]
)
def test_severity_follows_the_share_of_latency(share: float, severity: str) -> None:
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


def test_an_inferred_match_elsewhere_does_not_count() -> None:
    case = make_case(
        Timed(gemv(), 10.0), Timed(with_match(relu("other", "x", "y"), "inferred")), ceilings=RTX_4090
    )  # fmt: skip
    alone = make_case(Timed(gemv(), 10.0), ceilings=RTX_4090)
    assert hypotheses(diagnose(case))[0].confidence == hypotheses(diagnose(alone))[0].confidence


# --- the verdict -------------------------------------------------------------------------------


def test_the_verdict_names_the_distance_and_the_first_suspect() -> None:
    case = make_case(Timed(gemv(), 10.0), ceilings=RTX_4090)
    attainable = case.layers[0].attainable_ns
    assert attainable is not None
    text = verdict(case, diagnose(case), attainable)
    assert text == (
        "10.0 % of what this device attains; "
        "likely cause RL101 (memory-bound op far under bandwidth), 2.45 ms"
    )  # fmt: skip


def test_the_first_suspect_is_not_a_trust_finding() -> None:
    case = make_case(Timed(gemv(), 10.0), ceilings=RTX_4090, cv=0.5)
    findings = diagnose(case)
    assert findings[0].code == "TR903"
    assert "likely cause RL101" in verdict(case, findings, 1)


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
