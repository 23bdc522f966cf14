"""Gates: what is asked for, and the three answers."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import refused
from trtprof.base.errors import UsageError
from trtprof.base.records import (
    ChangeRow,
    Comparison,
    GateResult,
    Interval,
    Latency,
    LatencyChange,
    Side,
    Significance,
)
from trtprof.compare.gates import Gate, judge, parse

MS = 1_000_000


def side(label: str, median_ns: int, attainable_ns: int | None, runs: int = 3) -> Side:
    return Side(
        label=label, paths=(label,), model="m", backend="ort-cpu", device="d", created="",
        latency=Latency(median_ns=median_ns, p99_ns=median_ns, cv=0.0, n=100 * runs if median_ns else 0),
        medians_ns=(median_ns,) * runs, attainable_ns=attainable_ns,
    )  # fmt: skip


def comparison(
    before_ns: int,
    after_ns: int,
    half_ns: float,
    *,
    allowed: tuple[int | None, int | None] = (600_000, 600_000),
    runs: int = 3,
    answer: Significance | None = None,
) -> Comparison:
    """Both sides, and an interval of ``half_ns`` to each hand of their difference."""
    before, after = side("a", before_ns, allowed[0], runs), side("b", after_ns, allowed[1], runs)
    gap = after_ns - before_ns
    scale = before_ns or 1
    found: Significance = "slower" if gap > half_ns else "faster" if gap < -half_ns else "not significant"
    return Comparison(
        before=before,
        after=after,
        verdict="",
        latency=LatencyChange(
            difference_ns=Interval(value=gap, low=gap - half_ns, high=gap + half_ns),
            ratio=Interval(value=after_ns / scale, low=(after_ns - half_ns) / scale, high=(after_ns + half_ns) / scale),
            answer=answer or found, samples_before=before.latency.n, samples_after=after.latency.n, method="",
        ),
        ledger=(),
        regions=(),
    )  # fmt: skip


def answer(text: str, one: Comparison) -> GateResult:
    (gate,) = parse([text])
    return judge(gate, one)


# --- what is asked for ----------------------------------------------------------------------


def test_what_is_asked_for(subtests: pytest.Subtests) -> None:
    for text, what, threshold, unit in [
        ("latency>3%", "latency", 3.0, "%"),
        (" latency > 3 % ", "latency", 3.0, "%"),
        ("LOST>.5%", "lost", 0.5, "%"),
        ("gap-to-roof>2%", "gap-to-roof", 2.0, "%"),
        ("latency>0.1ms", "latency", 100_000.0, "ns"),
        ("lost>50us", "lost", 50_000.0, "ns"),
        ("lost>50 µs", "lost", 50_000.0, "ns"),
        ("latency>1e3ns", "latency", 1000.0, "ns"),
        ("latency>+2s", "latency", 2e9, "ns"),
        ("latency>-5%", "latency", -5.0, "%"),
    ]:
        with subtests.test(text=text, what=what, threshold=threshold, unit=unit):
            assert parse([text]) == (Gate(text.strip(), what, threshold, unit),)  # type: ignore[arg-type]


def test_what_is_no_gate_is_explained(subtests: pytest.Subtests) -> None:
    for text, said in [
        ("latency", "the shell takes > for itself"),
        ("latency>", "put quotes around it: --gate 'latency>3%'"),
        ("lost", "put quotes around it: --gate 'lost>3%'"),
        ("latency<3%", "it has a > in it"),
        ("latency>=3%", "one sign"),
        ("latency>3", "3 of what? It has no unit"),
        ("latency>3 min", "'min' is no unit"),
        ("latency>x%", "is no number"),
        ("latency>nan%", "is no number"),
        ("latency>-100%", "more than all of it"),
        ("latency>1e999%", "more than all of it"),
        ("latency>1e999ms", "is no time"),
        ("gap-to-roof>1ms", "percentage points"),
        ("latncy>3%", "--gate 'latency>3%'"),
        ("gap_to_roof>3%", "--gate 'gap-to-roof>3%'"),
        ("", "--gate says nothing"),
        (">3%", "known quantities"),
    ]:
        with subtests.test(text=text, said=said):
            with pytest.raises(UsageError) as caught:
                parse([text])
            assert said in refused(caught.value)


# --- the answer -----------------------------------------------------------------------------


def test_three_answers(subtests: pytest.Subtests) -> None:
    for text, after, half, expected in [
        ("latency>3%", 1_050_000, 10_000, "failed"),
        ("latency>3%", 1_050_000, 30_000, "inconclusive"),
        ("latency>3%", 1_010_000, 15_000, "passed"),
        ("latency>10us", 1_005_000, 5_000, "passed"),  # its end is the threshold, which is not above it
        ("latency>3%", 1_010_000, 20_001, "inconclusive"),
        ("latency>3%", 900_000, 10_000, "passed"),
        ("latency>-5%", 970_000, 10_000, "failed"),
        ("latency>0.03ms", 1_050_000, 10_000, "failed"),
        ("latency>30us", 1_020_000, 10_001, "inconclusive"),
        ("lost>10%", 1_050_000, 5_000, "failed"),  # of 400 us lost before
        ("lost>15%", 1_050_000, 5_000, "passed"),
        ("lost>40us", 1_050_000, 5_000, "failed"),
        ("lost>50us", 1_050_000, 5_000, "inconclusive"),
        ("gap-to-roof>2%", 1_050_000, 5_000, "failed"),  # from 40.00 to 42.86 points
        ("gap-to-roof>3%", 1_050_000, 1_000, "passed"),
        ("gap-to-roof>2.8%", 1_050_000, 5_000, "inconclusive"),
    ]:
        with subtests.test(text=text, after=after, half=half, expected=expected):
            found = answer(text, comparison(MS, after, half))
            assert found.answer == expected
            assert found.gate == text
            assert found.value is not None
            assert found.value.low <= found.value.value <= found.value.high


def test_the_values_are_those_of_the_definitions() -> None:
    one = comparison(MS, 1_050_000, 5_000, allowed=(600_000, 500_000))
    latency, lost, share, gap = (
        answer(text, one).value for text in ("latency>1%", "lost>1us", "lost>1%", "gap-to-roof>1%")
    )
    assert latency is not None
    assert latency.value == pytest.approx(5.0)
    assert latency.low == pytest.approx(4.5)
    assert latency.high == pytest.approx(5.5)
    assert lost is not None
    assert (lost.low, lost.value, lost.high) == (145_000, 150_000, 155_000)
    assert share is not None
    assert share.value == pytest.approx(100 * 150 / 400)
    assert gap is not None
    assert gap.value == pytest.approx(100 * (600 / 1000 - 500 / 1050))
    assert gap.low == pytest.approx(100 * (600 / 1000 - 500 / 1045))


def test_without_a_roof_it_cannot_be_told(subtests: pytest.Subtests) -> None:
    for text in ["lost>5%", "gap-to-roof>2%", "lost>5us"]:
        for allowed in [(None, 1), (1, None), (None, None)]:
            with subtests.test(text=text, allowed=allowed):
                found = answer(text, comparison(MS, 2 * MS, 1_000, allowed=allowed))
                assert (found.answer, found.value) == ("inconclusive", None)
                assert "what the roofline allows is unknown of " in found.reason
                assert answer("latency>5%", comparison(MS, 2 * MS, 1_000, allowed=allowed)).answer == "failed"


def test_without_a_latency_it_cannot_be_told(subtests: pytest.Subtests) -> None:
    for text in ["latency>3%", "latency>1ms", "lost>5%", "gap-to-roof>2%"]:
        with subtests.test(text=text):
            found = answer(text, comparison(0, 0, 0))
            assert (found.answer, found.value) == ("inconclusive", None)
            assert "not measured" in found.reason


@pytest.mark.parametrize("text", ["lost>5%", "lost>20us", "gap-to-roof>2%"])
def test_no_gate_fails_by_a_moved_roof_alone(text: str) -> None:
    one = comparison(MS, MS, 1_000, allowed=(600_000, 500_000))
    found = answer(text, one)
    assert found.answer == "inconclusive"
    assert found.value is not None
    assert found.value.low > found.threshold
    assert "only by what the roofline allows, which went from ~600 us to ~500 us" in found.reason
    # Of other work, or of another device, the roof is another one with good reason.
    worked = ChangeRow(cause="work changed", ns=5, kind="estimate")
    assert answer(text, msgspec.structs.replace(one, ledger=(worked,))).answer == "failed"
    idle = ChangeRow(cause="work changed", ns=0, kind="estimate")
    assert answer(text, msgspec.structs.replace(one, ledger=(idle,))).answer == "inconclusive"
    moved = msgspec.structs.replace(one, after=msgspec.structs.replace(one.after, device="another"))
    assert answer(text, moved).answer == "failed"
    # Where it fails with either roof, it fails.
    assert answer(text, comparison(MS, 1_200_000, 1_000, allowed=(600_000, 590_000))).answer == "failed"


def test_inconclusive_says_how_many_runs_would_settle_it() -> None:
    # 2 % off the threshold with an error of 4 %: twice as narrow is four times as many.
    reason = answer("latency>3%", comparison(MS, 1_050_000, 40_000, runs=3)).reason
    assert "+5 % (+1 % to +9 %) lies on both sides of 3%" in reason
    assert "about 12 runs a side in place of 3, of as many samples each (100)" in reason
    reason = answer("latency>3%", comparison(MS, 1_010_000, 40_000, runs=1)).reason
    assert "about 4 runs a side in place of 1" in reason
    assert "choose another one" in answer("latency>3%", comparison(MS, 1_030_010, 40_000)).reason
    assert "choose another one" in answer("latency>3%", comparison(MS, 1_030_000, 40_000)).reason


TIMES = st.integers(0, 10**12)


@given(
    before=TIMES,
    after=TIMES,
    half=st.floats(0, 1e12),
    allowed=st.tuples(*[st.none() | TIMES] * 2),
    threshold=st.floats(-90, 1000),
    what=st.sampled_from(["latency", "lost", "gap-to-roof"]),
    unit=st.sampled_from(["%", "us"]),
)
def test_the_answer_is_that_of_the_interval(
    before: int, after: int, half: float, allowed: tuple[int | None, int | None], threshold: float, what: str, unit: str
) -> None:
    unit = "%" if what == "gap-to-roof" else unit
    found = answer(f"{what}>{threshold!r}{unit}", comparison(before, after, half, allowed=allowed))
    assert found.reason
    if found.value is None:
        assert found.answer == "inconclusive"
        return
    assert all(map(math.isfinite, (found.value.low, found.value.value, found.value.high)))
    assert found.value.low <= found.value.value <= found.value.high
    if found.answer == "failed":
        assert found.value.low > found.threshold
    elif found.answer == "passed":
        assert found.value.high <= found.threshold
    else:
        assert found.value.high > found.threshold
        assert found.value.low <= found.threshold or "but" in found.reason
    assert not re.search(r"\b(nan|inf)\b", found.reason)
