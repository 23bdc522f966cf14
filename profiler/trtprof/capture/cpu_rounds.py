"""Rounds of a CPU capture, each a process of its own: how long the next one is, and what all of them come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trtprof.base.records import Capture, CpuUse, InputTensor, Latency
from trtprof.base.records.capture import CORES
from trtprof.base.undisturbed import (
    ALL_RAN_LAYERS,
    ENOUGH,
    FAST_KNOWN,
    QUIET,
    Speed,
    Timings,
    choose_undisturbed,
    find_undisturbed,
    known_share,
    share_all_ran,
    summarize,
)
from trtprof.capture import ort_profile
from trtprof.capture.workers.cpu_meter import Budget
from trtprof.capture.workers.ort_cpu import CpuRound

if TYPE_CHECKING:
    import pandas as pd

PROCESSES = 3
"""A process can be 1.4 times as slow as the next one for all of its life; more seconds in one do not show that."""
SHORTEST_S = 0.6  # Shorter runs take one process
SLOW_BUILD_S = 1.5  # Sessions that take longer to make are made once
ORDINARY_S, MORE_S = 6.0, 10.0  # Without a duration: for all rounds, and for more beside other processes
CLEAN_S, CLEAN_MOST_S, PROFILE_MOST_S, PROFILE_SLOW_S = 0.4, 1.2, 0.3, 0.5
MORE_CLEAN_S, MORE_PROFILE_S, MORE_PROFILED = 0.4, 2.0, 100
WAIT_FOR_ITERATIONS_S = 30.0  # An inference that takes long comes less often than asked for
_BUSY_SHARE = 0.05  # Of a CPU; a process that takes less is not counted

Best = tuple[float, float, float]
"""The fastest times of `speed_probe.probe_ns` and of both of `together_ns` known of this machine; 0 for none."""


class Asked(NamedTuple):
    """What a run is asked to measure; None is what we choose."""

    duration_s: float | None
    iterations: int | None
    profile_iterations: int | None
    warmup_ms: float

    @property
    def processes(self) -> int:
        return 1 if self.duration_s is not None and self.duration_s < SHORTEST_S else PROCESSES


class Round(NamedTuple):
    """What one process measured."""

    answer: CpuRound
    clean: Timings
    profiled: Timings
    profile: ort_profile.Profile
    wall_s: float  # From its start to its end
    ahead: Timings | None = None  # At a priority above others, where others disturbed

    @property
    def least_disturbed(self) -> Timings:
        """What tells the undisturbed latency."""
        return self.ahead or self.clean

    @property
    def clean_s(self) -> float:
        return float(self.clean.end_ns[-1] - self.clean.start_ns[0]) / 1e9


def plan_round(asked: Asked, done: Sequence[Round], best: Best = (0.0, 0.0, 0.0)) -> tuple[Budget, Budget] | None:
    """How long the next process times inferences without and with the profiler; None where all is done."""
    processes = asked.processes
    iterations, profiled = asked.iterations or ENOUGH, asked.profile_iterations or 3 * ENOUGH
    clean_wait_s = WAIT_FOR_ITERATIONS_S / processes if asked.iterations else 0.0
    profile_wait_s = WAIT_FOR_ITERATIONS_S / processes if asked.profile_iterations else 0.0
    least_profiled = math.ceil(profiled / processes)
    slow_build = bool(done) and done[0].answer.facts.build_ns > SLOW_BUILD_S * 1e9
    if asked.duration_s is not None:
        left_s = asked.duration_s - sum(each.clean_s for each in done)
        left = 1 if slow_build else processes - len(done)
        if done and (left < 1 or left_s < 0.05 or (slow_build and len(done) > 1)):
            return None
        seconds, share_s = max(left_s, 0.0) / left, asked.duration_s / processes
        least, slow_s = math.ceil(iterations / processes), max(share_s, PROFILE_SLOW_S, profile_wait_s)
        return (
            Budget(least=least, seconds=seconds, slow_s=max(seconds, CLEAN_MOST_S, clean_wait_s)),
            Budget(least=least_profiled, seconds=0, most_s=share_s, slow_s=slow_s),
        )
    next_s = sum(each.wall_s for each in done) + (done[-1].wall_s if done else 0)
    if not done or (len(done) < processes and not slow_build and next_s <= ORDINARY_S):
        least = max(ENOUGH, math.ceil(iterations / processes))
        return (
            Budget(least=least, seconds=CLEAN_S, most_s=CLEAN_MOST_S, slow_s=clean_wait_s or CLEAN_MOST_S),
            Budget(least=least_profiled, seconds=0, most_s=PROFILE_MOST_S, slow_s=profile_wait_s or PROFILE_SLOW_S),
        )
    if next_s > ORDINARY_S + MORE_S or _is_settled(done, best):
        return None
    return (
        Budget(least=ENOUGH, seconds=MORE_CLEAN_S, slow_s=MORE_CLEAN_S),
        Budget(least=MORE_PROFILED, seconds=0, most_s=MORE_PROFILE_S, slow_s=MORE_PROFILE_S),
    )


def _is_settled(done: Sequence[Round], best: Best) -> bool:
    """Whether more inferences would tell no more: enough were undisturbed, or it is not others that disturb them."""
    use = use_of(done, 0)
    latency = _summarize(done, use, _speeds(done, best)[0])
    told = latency.undisturbed_basis == "inferences"
    if not use.waits or (latency.undisturbed_n >= max(ENOUGH, 0.5 * latency.n) and not told):
        return True
    if latency.undisturbed_reason.startswith(CORES):
        return False
    masks = [find_undisturbed(each.profiled) for each in done]
    if told and all(mask.mean() > 0.5 for mask in masks):
        return True
    layers = sum(int(mask.sum()) for mask in masks) >= ENOUGH or known_share(_kernels(done)) >= FAST_KNOWN
    return layers and (told or (use.all_ran or 0.0) >= ALL_RAN_LAYERS)


def _summarize(rounds: Sequence[Round], use: CpuUse, speeds: Sequence[Speed]) -> Latency:
    ahead = [each.least_disturbed for each in rounds] if use.ahead else []
    return summarize([each.clean for each in rounds], use, speeds, ahead)


def _speeds(rounds: Sequence[Round], best: Best) -> tuple[list[Speed], list[Speed]]:
    """What the slower of the speed probes around the clean and the profiled loop of each round tell."""
    probes = np.array([[each.answer.probe_ns, *zip(*each.answer.together_ns, strict=True)] for each in rounds])
    # Zeros are unknown.
    known = np.where(probes > 0, probes, np.inf).min((0, 2))
    fastest = np.minimum(known, [one or np.inf for one in best])
    found: tuple[list[Speed], list[Speed]] = [], []
    for times in probes:
        for at, speeds in enumerate(found):
            core, together, handover = times[:, at : at + 2].max(1) / fastest
            speeds.append(Speed(float(max(core, together)), float(handover)))
    return found


def use_of(rounds: Sequence[Round], others: int | None) -> CpuUse:
    """Who used the CPUs while inferences were timed."""
    clean, profiled = [each.clean for each in rounds], [each.profiled for each in rounds]
    ahead = any(each.answer.ahead for each in rounds)
    loops = [clean] if ahead else [clean, profiled]
    spent = [use for each in rounds for use in each.answer.use[: len(loops)]]
    wall, own = max(sum(use.wall for use in spent), 1e-9), sum(use.own for use in spent)
    busy = [use.busy for use in spent if use.busy is not None]
    steal = [use.steal for use in spent if use.steal is not None]
    waits = all(timings.waits_known for loop in loops for timings in loop)
    waited = sum(int(timings.waits_ns.sum()) for loop in loops for timings in loop) / 1e9
    return CpuUse(
        cpus=spent[0].cpus,
        seconds=round(wall, 3),
        own_cpus=own / wall,
        others_cpus=max(sum(busy) - own, 0.0) / wall if len(busy) == len(spent) else None,
        steal_cpus=sum(steal) / wall if len(steal) == len(spent) else None,
        others=others,
        waits=waits,
        waited=waited / max(waited + own, 1e-9) if waits else None,
        all_ran=min(share_all_ran([each.least_disturbed for each in rounds]), share_all_ran(profiled))
        if waits
        else None,
        ahead=ahead,
    )


def _kernels(rounds: Sequence[Round]) -> pd.DataFrame:
    """The kernel tables of all rounds, their inferences numbered on."""
    import pandas as pd

    counts = np.cumsum([0, *(len(each.profiled.latency_ns) for each in rounds)])
    tables = [each.profile.kernels for each in rounds]
    moved = [table.assign(iteration=table["iteration"] + at) for table, at in zip(tables, counts, strict=False)]
    return pd.concat(moved, ignore_index=True)


class Merged(NamedTuple):
    """All rounds as the artifacts of a capture."""

    capture: Capture
    kernels: pd.DataFrame
    samples: pd.DataFrame  # As shared
    ahead: pd.DataFrame | None  # Of inferences ahead of other processes, where there are any


def merge_rounds(
    rounds: Sequence[Round], inputs: tuple[InputTensor, ...], others: int | None, best: Best = (0.0, 0.0, 0.0)
) -> Merged:
    """What all rounds come to; ``others`` is how many other processes were busy."""
    import pandas as pd

    use = use_of(rounds, others)
    profiled = [each.profiled for each in rounds]
    speeds = _speeds(rounds, best)
    latency = _summarize(rounds, use, speeds[0])
    trusted = use.waits or (use.others_cpus is not None and use.others_cpus <= QUIET * use.cpus)
    undisturbed = np.flatnonzero(np.concatenate(choose_undisturbed(profiled, speeds[1]).masks))
    masks = choose_undisturbed([each.least_disturbed for each in rounds], speeds[0]).masks
    samples, ahead = list[pd.DataFrame](), list[pd.DataFrame]()
    for at, (each, mask) in enumerate(zip(rounds, masks, strict=True)):
        for timings, tables in ((each.clean, samples), (each.ahead, ahead)):
            if timings is not None:
                told = mask & trusted if timings is each.least_disturbed else False
                tables.append(pd.DataFrame({"latency_ns": timings.latency_ns, "undisturbed": told, "process": at}))
    capture = Capture(
        collector="ort-profile",
        latency=latency,
        profiled=summarize(profiled, use, speeds[1]),
        warmup_iterations=rounds[0].answer.warmups,
        threads=rounds[0].answer.facts.threads,
        inputs=inputs,
        clock_resolution_ns=ort_profile.CLOCK_RESOLUTION_NS,
        probe_ns=tuple(probe for one in rounds for probe in one.answer.probe_ns),
        cpu_use=use,
        undisturbed_iterations=tuple(undisturbed.tolist()) if trusted else None,
        runtime_shapes=rounds[-1].profile.shapes,
    )
    both = pd.concat(samples, ignore_index=True), pd.concat(ahead, ignore_index=True) if ahead else None
    return Merged(capture, _kernels(rounds), *both)


def list_cpu_seconds() -> Mapping[tuple[int, float], float]:
    """CPU seconds of each other process, by its number and when it began; neither ours nor our children's."""
    import psutil

    found = {}
    own = psutil.Process()
    mine = {own.pid, *(child.pid for child in own.children(recursive=True))}
    for process in psutil.process_iter(["pid", "create_time", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.pid not in mine:
            found[process.pid, process.info["create_time"]] = float(times.user + times.system)
    return found


def count_busy(
    before: Mapping[tuple[int, float], float], after: Mapping[tuple[int, float], float], seconds: float
) -> int:
    """How many processes used a CPU noticeably between two readings; those that began since are counted whole."""
    used = [total - before.get(process, 0.0) for process, total in after.items()]
    return sum(each > _BUSY_SHARE * seconds for each in used)
