"""What tells a change of the latency, what leaves it undecided, and what gates make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from tests.fakes.compare_factory import L, chain, make_run, save
from tests.fakes.tried_factory import typical
from trtprof.base import run_folder
from trtprof.base.records import Comparison, CpuUse, Interval, Latency, Run
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


def shared(path: Path, own_ns: float, undisturbed: int, seed: int) -> RunFolder:
    """A run beside other processes, which doubled its latency but for some inferences."""
    samples, alone = 2 * quiet(own_ns, seed), np.arange(COUNT) < undisturbed
    samples[alone] = quiet(own_ns, seed + 100)[alone]
    made = folder(path, samples)
    run, latency = made.report(), made.report().latency
    if undisturbed >= 10:
        latency = msgspec.structs.replace(
            latency, undisturbed_ns=round(own_ns), undisturbed_basis="inferences", undisturbed_n=undisturbed
        )
    use = CpuUse(cpus=2, seconds=1.0, own_cpus=1.0, waits=True, waited=0.5)
    made.write(run_folder.REPORT, msgspec.structs.replace(run, latency=latency, cpu_use=use))
    pd.DataFrame({"latency_ns": samples.astype(np.int64), "undisturbed": alone, "process": 0}).to_parquet(
        made.file(run_folder.LATENCY)
    )
    return made


def tried(base: RunFolder, best: RunFolder, gain: float) -> None:
    """`trtprof try` measured both interleaved."""
    of = typical()
    assert of.best is not None
    ends = Interval(value=gain, low=0.95 * gain, high=1.05 * gain)
    best_of = msgspec.structs.replace(of.best, folder=str(best.path), gain=ends)
    base.write(run_folder.TRIED, msgspec.structs.replace(of, best=best_of))


def test_undisturbed_inferences_tell_what_other_processes_hide(tmp_path: Path) -> None:
    """As shared the later run is 1.9 times as slow, since fewer of its inferences were undisturbed."""
    one = compare([[shared(tmp_path / "a", NS, 1200, 1)], [shared(tmp_path / "b", 0.9 * NS, 300, 2)]]).comparisons[0]
    assert (one.latency.answer, one.latency.samples_before, one.latency.samples_after) == ("faster", 1200, 300)
    assert one.latency.ratio.value == pytest.approx(0.9, abs=0.01)
    assert one.verdict.startswith("faster: 100 us to 90.0 us")


def test_inferences_ahead_of_other_processes_count_as_undisturbed(tmp_path: Path) -> None:
    before, after = shared(tmp_path / "a", NS, 1200, 1), shared(tmp_path / "b", 0.9 * NS, 400, 2)
    after.table(run_folder.LATENCY).assign(undisturbed=False).to_parquet(after.file(run_folder.LATENCY))
    ahead = (0.9 * quiet(NS, 3)[:400]).astype(np.int64)
    table = pd.DataFrame({"latency_ns": np.append(ahead, 9 * ahead[:40]), "undisturbed": np.arange(440) < 400})
    table.to_parquet(after.file(run_folder.AHEAD))
    one = compare([[before], [after]]).comparisons[0]
    assert (one.latency.answer, one.latency.samples_after) == ("faster", 400)
    assert one.latency.ratio.value == pytest.approx(0.9, abs=0.01)


def test_runs_that_others_disturbed_decide_nothing(tmp_path: Path, subtests: pytest.Subtests) -> None:
    base, best = shared(tmp_path / "base", NS, 1200, 1), shared(tmp_path / "best", 0.5 * NS, 4, 2)
    one = compare([[base], [best]]).comparisons[0]
    assert one.latency.answer == "not significant"
    assert one.verdict.startswith("undecided: ")
    assert "left best too few undisturbed inferences; `trtprof try`" in one.latency.reason
    tried(base, best, 2.0)
    for sides, gain in (([[base], [best]], "2x as fast (1.90 to 2.10)"), ([[best], [base]], "0.5x as fast (0.48 to")):
        with subtests.test(gain=gain):
            assert gain in compare(sides).comparisons[0].verdict


def test_what_was_measured_interleaved_is_not_contradicted(tmp_path: Path) -> None:
    base, best = shared(tmp_path / "base", NS, 1200, 1), shared(tmp_path / "best", 1.3 * NS, 1200, 2)
    assert compare([[base], [best]]).comparisons[0].latency.answer == "slower"
    tried(base, best, 1.5)
    change = compare([[base], [best]]).comparisons[0].latency
    assert change.answer == "not significant"
    assert "these runs say: slower; interleaved by `trtprof try` it was 1.5x as fast" in change.reason


def between(tmp_path: Path, before: Samples, after: Samples) -> Comparison:
    return compare([[folder(tmp_path / "a", before)], [folder(tmp_path / "b", after)]]).comparisons[0]


def test_phases_of_one_run_do_not_make_it_slower(tmp_path: Path) -> None:
    change = between(tmp_path, quiet(seed=1), disturbed(quiet(seed=2))).latency
    assert change.ratio.value > 1.1
    assert change.answer == "not significant"
    assert "phases as long as a run" in change.method


def test_a_run_that_drifts_by_more_than_the_change_decides_nothing(tmp_path: Path) -> None:
    later = quiet(seed=2) * np.linspace(1.0, 1.1, COUNT)
    assert between(tmp_path / "drifts", quiet(seed=1), later).latency.answer == "not significant"
    shuffled = np.random.default_rng(3).permutation(later)
    assert between(tmp_path / "steady", quiet(seed=1), shuffled).latency.answer == "slower"


def test_gates_go_by_the_interval_of_the_median(tmp_path: Path) -> None:
    phases = between(tmp_path / "phases", quiet(seed=1), disturbed(quiet(seed=2)))
    (gate,) = parse(["latency>5%"])
    assert judge(gate, phases).answer == "inconclusive"
    slower = between(tmp_path / "slower", quiet(seed=1), 1.12 * quiet(seed=2))
    assert judge(gate, slower).answer == "failed"
    for text in ("lost>1%", "gap-to-roof>1%", "lost>1us", "latency>1us"):
        (gate,) = parse([text])
        value = judge(gate, slower).value
        assert value is not None
        assert value.low < value.value < value.high
        # What the roofline allows is next to nothing here, so that the gap to it can hardly grow.
        assert value.low > (0 if gate.what == "gap-to-roof" else gate.threshold)
