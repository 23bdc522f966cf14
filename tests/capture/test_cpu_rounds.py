"""How a CPU capture is divided into processes, and what they come to."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from trtprof.base.records import KERNEL_COLUMNS
from trtprof.base.undisturbed import Timings
from trtprof.capture.cpu_rounds import Asked, Round, count_busy, merge_rounds, plan_round
from trtprof.capture.ort_profile import Profile
from trtprof.capture.workers.cpu_meter import Budget, CpuSeconds
from trtprof.capture.workers.ort_cpu import CpuRound
from trtprof.runtime.ort_session import SessionFacts

ASKED = Asked(duration_s=None, iterations=None, profile_iterations=None, warmup_ms=200.0)


def timings(count: int, ns: float, waited: float = 0.0) -> Timings:
    """Inferences of one speed, in each of which the second thread waits for a share of the time."""
    ends = np.round(ns * np.arange(1, count + 1)).astype(np.int64)
    waits = np.zeros((count + 1, 2), np.int64)
    waits[:count, 1] = round(waited * ns)
    return Timings(np.full(count, round(ns), np.int64), np.arange(count), np.concatenate([[0], ends[:-1]]), ends, waits)


def measured(ns: float, clean: int, profiled: int, waited: float = 0.0, build_s: float = 0.1) -> Round:
    """A round of a model with one layer."""
    spent = CpuSeconds(cpus=2, wall=1.0, own=1.0, busy=1.5, steal=0.0)
    rows = [(at, 0, "CPU:Conv", "conv", 0, round(ns), round(ns)) for at in range(profiled)]
    profile = Profile(pd.DataFrame(rows, columns=list(KERNEL_COLUMNS)), np.full(profiled, round(ns)), {})
    facts = SessionFacts(build_ns=round(build_s * 1e9), threads=2)
    probes: dict[str, Any] = {"probe_ns": (1e6,) * 3, "together_ns": ((2e5, 5e3),) * 3}
    answer = CpuRound(facts=facts, warmups=1, profile="", use=(spent, spent), ahead=False, **probes)
    both = timings(clean, ns, waited), timings(profiled, ns, waited)
    wall = 0.4 + 2 * build_s + (clean + profiled + 2) * ns / 1e9
    return Round(answer, *both, profile, wall)


def simulated(asked: Asked, ns: float, waited: float = 0.0, build_s: float = 0.1) -> list[Round]:
    """All rounds of a model, each inference as long as the next."""
    done: list[Round] = []

    def count(budget: Budget) -> int:
        enough = max(budget.least, round(max(budget.seconds, budget.most_s if waited else 0.0) * 1e9 / ns))
        slow = max(-(-round(max(budget.slow_s, budget.seconds) * 1e9) // round(ns)), 1)
        return min(enough, max(slow, min(3, -(-round(2.5e9 * budget.slow_s) // round(ns)))))

    while budgets := plan_round(asked, done):
        done.append(measured(ns, count(budgets[0]), count(budgets[1]), waited, build_s))
        assert len(done) < 20, "it ends"
    return done


def test_the_time_of_a_run_is_bounded_and_divided_over_processes() -> None:
    def given(**changes: Any) -> Asked:
        return ASKED._replace(**changes)

    cases: list[tuple[str, Asked, dict[str, float], int, float, float]] = [
        # what, asked, model; processes, clean seconds, seconds in all at most
        ("a short model", ASKED, {"ns": 2e5}, 3, 1.2, 3.1),
        ("a model of 100 ms", ASKED, {"ns": 1e8}, 2, 2.0, 7.0),
        ("a model of 15 s", ASKED, {"ns": 15e9}, 1, 15.0, 61.0),
        ("beside neighbors", ASKED, {"ns": 5e6, "waited": 0.5}, 2, 2.4, 7.0),
        ("beside more of them", ASKED, {"ns": 5e6, "waited": 0.9}, 5, 3.6, 17.0),
        ("sessions that take long", ASKED, {"ns": 1e6, "build_s": 3.0}, 1, 0.4, 8.0),
        ("a duration", given(duration_s=9.0), {"ns": 2e5}, 3, 9.0, 11.0),
        ("a duration beside neighbors", given(duration_s=9.0), {"ns": 2e5, "waited": 0.5}, 3, 9.0, 20.0),
        ("a duration and long sessions", given(duration_s=9.0), {"ns": 2e5, "build_s": 3.0}, 2, 9.0, 23.0),
        ("3 s for a model of 15 s", given(duration_s=3.0), {"ns": 15e9}, 1, 15.0, 61.0),
        ("no duration to speak of", given(duration_s=0.0, iterations=3), {"ns": 1e6}, 1, 0.003, 1.0),
        ("iterations", given(iterations=300), {"ns": 1e7}, 3, 3.0, 6.0),
        ("iterations of a slow model", given(iterations=300), {"ns": 1e9}, 1, 10.0, 16.0),
    ]
    for what, asked, model, processes, clean_s, most_s in cases:
        done = simulated(asked, **model)
        assert len(done) == processes, what
        assert sum(each.clean_s for each in done) == pytest.approx(clean_s, rel=0.02), what
        assert sum(each.wall_s for each in done) < most_s, what
    assert len(simulated(ASKED, 2e5)[0].profiled.latency_ns) == 10, "30 inferences under the profiler in all"


def test_rounds_are_put_together_and_say_who_used_the_cpus() -> None:
    rounds = [measured(1e6, 20, 4), measured(1.01e6, 30, 5)]
    waits = np.zeros((6, 2), np.int64)
    waits[2, 0] = 300_000
    rounds[1] = rounds[1]._replace(profiled=rounds[1].profiled._replace(waits_ns=waits))
    merged = merge_rounds(rounds, (), others=3)
    capture, use = merged.capture, merged.capture.cpu_use
    assert merged.kernels["iteration"].tolist() == list(range(9))
    assert capture.undisturbed_iterations == (0, 1, 2, 3, 4, 5, 7, 8), "the third of the second process waited"
    assert merged.samples["process"].tolist() == [0] * 20 + [1] * 30
    assert merged.samples["undisturbed"].all()
    assert (capture.latency.n, capture.latency.undisturbed_n, capture.profiled.n) == (50, 50, 9)
    assert use is not None
    assert (use.cpus, use.own_cpus, use.others_cpus, use.steal_cpus, use.others) == (2, 1.0, 0.5, 0.0, 3)
    assert use.waits
    assert use.waited == pytest.approx(0.3e-3 / (4 + 0.3e-3))
    assert use.all_ran == pytest.approx(1 - 0.3e6 / 9.05e6)

    # Where nothing tells waits and others are busy, nobody knows which inferences they disturbed.
    blind = [
        each._replace(
            clean=each.clean._replace(waits_ns=each.clean.waits_ns[:, :0]),
            profiled=each.profiled._replace(waits_ns=each.profiled.waits_ns[:, :0]),
        )
        for each in rounds
    ]
    merged = merge_rounds(blind, (), others=None)
    assert merged.capture.undisturbed_iterations is None
    assert not merged.samples["undisturbed"].any()
    assert merged.capture.cpu_use is not None
    assert not merged.capture.cpu_use.waits
    assert merged.capture.cpu_use.waited is None
    assert msgspec.json.decode(msgspec.json.encode(merged.capture), type=type(merged.capture)) == merged.capture


def test_inferences_ahead_of_others_are_kept_apart_and_tell_the_latency() -> None:
    ahead = [measured(2e6, 20, 3, waited=1.0)._replace(ahead=timings(30, 1e6)) for _ in range(2)]
    ahead = [each._replace(answer=msgspec.structs.replace(each.answer, ahead=True)) for each in ahead]
    merged = merge_rounds(ahead, (), others=1)
    latency, use = merged.capture.latency, merged.capture.cpu_use
    assert (latency.median_ns, latency.n, latency.undisturbed_ns, latency.undisturbed_n) == (
        2_000_000,
        40,
        1_000_000,
        60,
    )
    assert merged.ahead is not None
    assert merged.ahead["undisturbed"].tolist() == [True] * 60
    assert not merged.samples["undisturbed"].any()
    assert use is not None
    assert use.ahead
    assert use.waited == pytest.approx(40 * 2e-3 / (40 * 2e-3 + 2)), "of the inferences as shared alone"


def test_rounds_beside_slow_or_far_cores_are_left_out_and_measured_again() -> None:
    def probed(ns: float, together_ns: float, handover_ns: float) -> Round:
        one = measured(ns, 20, 12)
        probes = ((together_ns, handover_ns),) * 3
        return one._replace(answer=msgspec.structs.replace(one.answer, together_ns=probes))

    near, far, on_one_core = probed(1e6, 2e5, 5e3), probed(1.3e6, 2e5, 8e3), probed(1.4e6, 3e5, 5e3)
    latency = merge_rounds([far, near, on_one_core], (), others=0).capture.latency
    assert (latency.undisturbed_ns, latency.undisturbed_n) == (1_000_000, 20)
    best = (1e6, 2e5, 5e3)
    assert plan_round(ASKED, [near] * 3, best) is None
    for slow in (far, on_one_core):
        assert plan_round(ASKED, [slow] * 3, best) is not None
        assert merge_rounds([slow] * 3, (), 0, best).capture.latency.undisturbed_reason.startswith("the cores")
    unknown = probed(1e6, 0.0, 0.0)
    assert merge_rounds([unknown], (), 0).capture.latency.undisturbed_ns == 1_000_000, "one thread"


def test_processes_that_used_a_cpu_meanwhile_are_counted() -> None:
    before = {(1, 0.0): 100.0, (2, 0.0): 5.0, (3, 0.0): 1.0}
    after = {(1, 0.0): 100.4, (2, 0.0): 5.01, (4, 9.0): 0.7, (3, 8.0): 0.02}
    assert count_busy(before, after, 2.0) == 2, "one that was there, and one that began; a number may be taken again"
