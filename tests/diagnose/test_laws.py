"""What holds of all rules together, whatever the case: no time is claimed twice, none that was not lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.fakes.cases import Timed, engine_case, relu
from tests.fakes.generated_cases import GPU, HELPERS, MEASURED, NAMES, OTHER_WORK, cases, gaps
from trtprof.base.records import Finding, Match
from trtprof.diagnose import RULES, THRESHOLDS, Case, Claim
from trtprof.diagnose.ledger import OUTSIDE
from trtprof.diagnose.plugin import candidates
from trtprof.diagnose.rank import diagnose

any_case = cases(st.floats(0.3, 30.0), st.sampled_from(NAMES), overheads=gaps)


Claims = Sequence[tuple[str, Claim]]
Findings = Sequence[Finding]


def claims(case: Case) -> list[tuple[str, Claim]]:
    """What each rule would claim if it came first, trust aside."""
    return [(rule.code, claim) for rule in RULES.values() for claim in rule.check(case) if claim.kind != "trust"]


def told(findings: Iterable[Finding]) -> list[str]:
    return [f"{one.code} {one.where}: {one.lost_ns} ns: {one.evidence}" for one in findings]


def no_rule_claims_more_of_a_layer_than_it_lost(case: Case, claimed: Claims, _: Findings) -> None:
    results = {result.name: result for result in case.layers}
    for code, claim in claimed:
        for name, ns in claim.layers.items():
            result = results[name]
            if code in OTHER_WORK:
                # The rest is left to `diagnose`, which lets no layer be claimed for more than it took.
                assert ns >= 0
            else:
                assert 0 <= ns <= max(result.lost_ns or 0, 0), f"{code} claims {ns} of {name}"
            assert result.measured_ns


def a_layer_without_a_price_is_not_said_to_take_too_long(case: Case, claimed: Claims, _: Findings) -> None:
    """Most rules set a time beside what is attainable; the others tell what no layer needs, or moves needlessly."""
    free = {"CN601", "LY201", "QD803", "FU301", "QD804", "CA806", "PR801", "KN704"}
    for code, claim in claimed:
        assert code in free or case.partial.isdisjoint(claim.layers), f"{code} claims {claim.layers}"


def no_nanosecond_is_claimed_twice_and_none_that_was_not_lost(case: Case, _: Claims, findings: Findings) -> None:
    findings = [finding for finding in findings if finding.kind != "trust"]
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


def no_finding_is_under_its_floor(case: Case, _: Claims, findings: Findings) -> None:
    for finding in findings:
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


BESIDE_LIBRARIES = set(RULES.keys()) - (OTHER_WORK.keys() - {"AL802", "KN704"})
"""Rules that call a layer slow as it is, and not for work that need not be done.

What libraries measured at dimensions that fill no piece, or in parts of one sum, is what they do with them.
"""


def nothing_is_claimed_of_what_libraries_do_no_better(case: Case, claimed: Claims, _: Findings) -> None:
    """Neither of a layer within their band, nor beyond what the fastest tenth of them leave."""
    results = {result.name: result for result in case.layers}
    for code, claim in claimed:
        for name, ns in claim.layers.items() if code in BESIDE_LIBRARIES else ():
            result = results[name]
            if not result.firm or result.expected_p10_ns is None or result.expected_p90_ns is None:
                continue
            assert result.measured_ns > result.expected_p90_ns, f"{code} claims {name}"
            assert ns <= result.measured_ns - result.expected_p10_ns, f"{code} claims {ns} of {name}"


def a_kernel_by_hand_is_promised_no_more_than_the_fastest_tenth_of_libraries(
    case: Case, _: Claims, _findings: Findings
) -> None:
    results = {result.name: result for result in case.layers}
    for one in candidates(case):
        result = results[one.layer]
        if not result.firm or result.expected_p10_ns is None or result.expected_p90_ns is None:
            continue
        assert result.measured_ns > result.expected_p90_ns
        assert one.recoverable_ns <= result.measured_ns - result.expected_p10_ns
        assert one.reachable_ns >= result.expected_p10_ns
        assert "library kernels" in one.basis


LAWS = (
    no_rule_claims_more_of_a_layer_than_it_lost,
    a_layer_without_a_price_is_not_said_to_take_too_long,
    no_nanosecond_is_claimed_twice_and_none_that_was_not_lost,
    no_finding_is_under_its_floor,
    nothing_is_claimed_of_what_libraries_do_no_better,
    a_kernel_by_hand_is_promised_no_more_than_the_fastest_tenth_of_libraries,
)


@given(any_case)
def test_what_is_claimed_and_found_of_any_case_keeps_the_laws(case: Case) -> None:
    claimed, findings = claims(case), diagnose(case)
    for law in LAWS:
        law(case, claimed, findings)


@given(
    cases(
        st.floats(1.0, 0.99 / THRESHOLDS.healthy),
        st.sampled_from([name for name in NAMES if not any(helper in name for helper in HELPERS)]),
        dtypes=st.just("fp16"),
        healthy=True,
    )
)
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
    @settings(database=None)
    def collect(case: Case) -> None:
        spoken.update(code for code, _ in claims(case))

    # A rule may happen to stay silent over 50 cases; over 3,000 only one that never speaks does.
    for number in range(60):
        seed(number)(collect)()
        if spoken >= wanted:
            return
    assert spoken >= wanted
