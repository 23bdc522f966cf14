"""By which part of the samples a change of the latency is told, and what gates make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from tests.fakes.compare_factory import L, chain, make_run, save
from trtprof.base.records import Comparison, Latency, Run
from trtprof.base.run_folder import RunFolder
from trtprof.compare import compare
from trtprof.compare.gates import judge, parse

Samples = npt.NDArray[np.float64]
NS = 100_000
COUNT = 2_000


def quiet(level: float = NS, seed: int = 0) -> Samples:
    """Samples of an undisturbed machine: 1 % of noise, whole ns."""
    return np.round(level * (1 + 0.01 * np.random.default_rng(seed).standard_normal(COUNT)))


def disturbed(samples: Samples, share: float = 0.6, by: float = 1.15) -> Samples:
    """The same where a neighbour was there in phases: the second and the fourth fifth of a run, say."""
    phase = np.arange(len(samples)) * 10 // len(samples)
    return np.where(np.isin(phase, (1, 2, 5, 6, 7, 8)[: round(10 * share)]), samples * by, samples)


def folder(path: Path, samples: Samples, **named: Any) -> RunFolder:
    median = round(float(np.median(samples)))
    run: Run = make_run(chain("Conv", "Relu"), (L("a", ("n0", "n1"), 90_000),), latency_ns=median)
    latency = Latency(median_ns=median, p99_ns=median, cv=0.01, n=len(samples))
    return save(path, msgspec.structs.replace(run, latency=latency), samples=samples, **named)


def between(tmp_path: Path, before: Samples, after: Samples, **later: Any) -> Comparison:
    sides = [[folder(tmp_path / "a", before)], [folder(tmp_path / "b", after, **later)]]
    return compare(sides).comparisons[0]


def test_phases_of_one_run_do_not_make_it_slower(tmp_path: Path) -> None:
    found = between(tmp_path, quiet(seed=1), disturbed(quiet(seed=2)))
    change = found.latency
    assert change.ratio.value > 1.1
    assert change.told_by == "lower decile"
    assert change.lower_ratio is not None
    assert change.lower_ratio.value == pytest.approx(1, abs=0.01)
    assert change.answer == "not significant"
    assert "lower decile" in change.method
    assert "by the lower decile" in found.verdict


def test_a_slowdown_is_seen_through_phases(tmp_path: Path) -> None:
    found = between(tmp_path, disturbed(quiet(seed=1)), 1.05 * disturbed(quiet(seed=2)))
    change = found.latency
    assert change.told_by == "lower decile"
    assert change.answer == "slower"
    assert not change.ratio.low > 1
    assert change.telling_ratio == change.lower_ratio
    assert change.telling_difference_ns == change.lower_difference_ns


def test_a_gate_goes_by_what_tells_the_answer(tmp_path: Path) -> None:
    phases = between(tmp_path / "phases", quiet(seed=1), disturbed(quiet(seed=2)))
    (gate,) = parse(["latency>5%"])
    passed = judge(gate, phases)
    assert passed.answer == "passed"
    assert "by the lower decile" in passed.reason
    slower = between(tmp_path / "slower", disturbed(quiet(seed=1)), 1.12 * disturbed(quiet(seed=2)))
    assert judge(gate, slower).answer == "failed"
    for text in ("lost>1%", "gap-to-roof>1%", "lost>1us", "latency>1us"):
        (gate,) = parse([text])
        value = judge(gate, slower).value
        assert value is not None
        assert value.low < value.value < value.high
        # What the roofline allows is next to nothing here, so that the gap to it can hardly grow.
        assert value.low > (0 if gate.what == "gap-to-roof" else gate.threshold)


def test_another_speed_of_the_machine_may_be_all_of_it(tmp_path: Path) -> None:
    """Every probe beside the later run was a third slower: the machine was."""
    before, after = quiet(seed=1), 1.3 * quiet(seed=2)
    sides = [
        [folder(tmp_path / "a", before, probe_ns=(1e6, 1e6, 1e6))],
        [folder(tmp_path / "b", after, probe_ns=(1.3e6, 1.3e6, 1.3e6))],
    ]
    change = compare(sides).comparisons[0].latency
    assert change.answer == "not significant"
    assert "the speed" in change.reason
    restless = [
        [folder(tmp_path / "c", before, probe_ns=(1e6, 1.05e6, 1e6))],
        [folder(tmp_path / "d", after, probe_ns=(1.05e6, 1e6, 1.1e6))],
    ]
    assert compare(restless).comparisons[0].latency.answer == "slower"
