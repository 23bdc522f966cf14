"""Which inferences ran while no thread waited for a CPU, and the latency of the undisturbed machine that follows.

The thresholds were tried on 190 phases of nine models beside spinning neighbors, on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.latency import latency_of
from trtprof.base.records import CpuUse, Latency
from trtprof.base.records.capture import CORES
from trtprof.base.units import format_ns

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

WAITED_SHARE, WAITED_NS, WAITED_LONG, SLICE_NS = 0.01, 2000, 0.03, 4_000_000
"""A block is undisturbed when no thread waited longer than this share of it, or this long; where it takes longer than
the slice of time that a system gives to one thread, than the third."""
ENOUGH, ENOUGH_LAYERS = 10, 20
"""Undisturbed blocks that a median is taken of; profiled inferences that the fast mode of layers is."""
FEW, LONG_NS = 3, 20_000_000
"""The same for inferences of this length, several times what a CPU is given at once, and where none was disturbed."""
SPREAD = 0.08
"""Half width of the 95 % interval, as a share of the median, from which on the median cannot be told."""
ALL_RAN_INFERENCES, ALL_RAN_LAYERS = 0.1, 0.4
"""Least share of the time in which every thread has a CPU: below, the fast samples may be those of fewer threads."""
STEAL = 0.02
QUIET = 0.05
"""Shares of the CPUs that the hypervisor takes, and that other processes use where nothing tells waits, at most."""
DISAGREE = 1.10
"""Ratio of the medians of two processes from which on they are two speeds."""
SLOW = 1.15
"""Ratio of a speed probe to the fastest known from which on the cores themselves are slow: nobody waits for that."""
SLOW_CORE = 1.3
"""The same for the loop between two blocks: a core that another guest of the host shares reads 1.7."""
APART = 1.3
"""Ratio of the times to hand work over from which on cores are far apart: models took 1.2 to 1.7 times as long."""
FAST, FAST_LEAST, FAST_SHARE, FAST_KNOWN = 1.2, 5, 0.2, 0.9
"""The fast mode reaches to this multiple of its anchor, and is known by so many samples and so large a share of them;
layers that hold this share of the time must have a known one."""
REGIME, MINOR, VALLEY, MOVED = 1.05, 0.10, 0.05, 0.5


class Timings(NamedTuple):
    """Inferences of one process, timed in blocks; waits for a CPU are read behind each block, and once at the end."""

    latency_ns: Integers  # [inferences]
    block: Integers  # [inferences], to which block each belongs
    start_ns: Integers  # [blocks]
    end_ns: Integers  # [blocks]
    # [blocks + 1, threads], since the reading before; own thread first; no threads where the system does not tell
    waits_ns: Integers
    core_ns: Integers = np.empty(0, np.int64)  # [blocks], a loop of always the same steps behind each; empty for none

    @property
    def waits_known(self) -> bool:
        return bool(self.waits_ns.shape[1])


def find_undisturbed_blocks(timings: Timings) -> Mask:
    """The blocks in which no thread waited for a CPU.

    A wait is booked when it ends, so it is dated back over what it spans; the thread that reads ran at both readings.
    """
    start, end = timings.start_ns, timings.end_ns
    walls = end - start
    shares = np.where(walls >= SLICE_NS, WAITED_LONG, WAITED_SHARE) * walls
    limits = np.maximum(np.append(shares, shares[-1:]), WAITED_NS)
    undisturbed = np.ones(len(end), bool)
    for thread in range(timings.waits_ns.shape[1]):
        waits = timings.waits_ns[:, thread]
        for at in np.nonzero(waits > limits)[0]:
            first = int(at)
            if thread and at:
                first = int(np.searchsorted(end, end[at - 1] - waits[at], side="right"))
            undisturbed[first : at + 1] = False
    return undisturbed


def find_undisturbed(timings: Timings) -> Mask:
    """The inferences in which no thread waited for a CPU: those of undisturbed blocks."""
    return find_undisturbed_blocks(timings)[timings.block]


def on_fast_core(timings: Timings, best_ns: float) -> Mask:
    """The inferences in blocks between two loops that took no longer than on a core of its own."""
    if not len(timings.core_ns):
        return np.ones(len(timings.block), bool)
    slow = timings.core_ns > SLOW_CORE * best_ns
    slow[1:] |= slow[:-1].copy()
    fast: Mask = ~slow[timings.block]
    return fast


def share_all_ran(processes: Sequence[Timings]) -> float:
    """At least this share of the time every thread had a CPU, the waits of all threads taken to be apart."""
    waited = sum(int(one.waits_ns.sum()) for one in processes)
    return 1 - waited / max(sum(int(one.end_ns[-1] - one.start_ns[0]) for one in processes), 1)


def median_interval(values: Floats | Integers, independent: int) -> tuple[float, float]:
    """The 95 % interval of the median by order statistics, of so many independent samples.

    Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems, 2015, rule 5.
    """
    ordered, half = np.sort(values), 0.98 / max(independent, 1) ** 0.5
    last = len(ordered) - 1
    low, high = int(np.floor((0.5 - half) * len(ordered))), int(np.ceil((0.5 + half) * len(ordered)))
    return float(ordered[max(low, 0)]), float(ordered[min(high, last)])


def fast_mode(values: Floats | Integers, resolution: float = 0.0) -> Mask:
    """Which samples are in the fast mode; its anchor is the 5th percentile, and at least the third smallest."""
    ordered = np.sort(values)
    anchor = float(ordered[min(max(int(0.05 * len(ordered)), 2), len(ordered) - 1)])
    mask: Mask = values <= max(FAST * anchor, anchor + resolution)
    return mask


def mode_known(mode: Mask) -> bool:
    """Whether a fast mode holds enough samples to be one."""
    return int(mode.sum()) >= FAST_LEAST and float(mode.mean()) >= FAST_SHARE


def known_share(kernels: pd.DataFrame, resolution: float = 1000.0) -> float:
    """Share of the time of a kernel table (`records.KERNEL_COLUMNS`) in layers whose fast mode is known."""
    times = kernels.groupby(["iteration", "layer"])["self_ns"].sum().unstack(fill_value=0).to_numpy(np.float64)
    modes = [fast_mode(column, resolution) for column in times.T]
    fast = np.array([np.median(column[mode]) for column, mode in zip(times.T, modes, strict=True)])
    known = np.array([mode_known(mode) for mode in modes])
    return float(fast[known].sum() / max(fast.sum(), 1.0))


class Regimes(NamedTuple):
    """Two speeds or a drift in samples."""

    words: str  # Empty for none
    fast: Mask  # The samples of the faster one; all where there is none


def find_regimes(values: Floats | Integers, blocks: int = 20) -> Regimes:
    """Find two speeds or a drift in samples, which are in the order of time.

    Two speeds: an empty valley between two modes (Otsu's cut of the logarithms). Drift: a change point of medians of
    successive blocks that takes away half of their spread.
    """
    count, all_of_them = len(values), np.ones(len(values), bool)
    if count < 2 * blocks:
        return Regimes("", all_of_them)
    logs = np.sort(np.log(np.maximum(values, 1)))[: int(0.98 * count)]
    sums, below = np.cumsum(logs), np.arange(1, len(logs))
    above = len(logs) - below
    between = (sums[:-1] / below - (sums[-1] - sums[:-1]) / above) ** 2 * below * above
    cut = int(np.argmax(between)) + 1
    fast, slow = float(np.median(logs[:cut])), float(np.median(logs[cut:]))
    third = (slow - fast) / 3
    valley = float(((logs > fast + third) & (logs < slow - third)).mean())
    minor = min(cut, len(logs) - cut) / len(logs)
    if slow - fast >= np.log(REGIME) and minor >= MINOR and valley <= VALLEY:
        words = (
            f"two speeds: {format_ns(np.exp(fast))} in {_percent(cut / len(logs))} of the inferences, "
            f"{format_ns(np.exp(slow))} in the rest"
        )
        return Regimes(words, values <= np.exp((fast + slow) / 2))
    parts = min(blocks, count // 5)
    medians = np.log([np.median(part) for part in np.array_split(np.maximum(values, 1), parts)])

    def spread(part: Floats) -> float:
        return float(np.abs(part - np.median(part)).sum())

    costs = [spread(medians[:at]) + spread(medians[at:]) for at in range(2, len(medians) - 1)]
    at = int(np.argmin(costs)) + 2
    drift = float(np.exp(np.median(medians[at:]) - np.median(medians[:at])))
    if max(drift, 1 / drift) >= REGIME and 1 - min(costs) / max(spread(medians), 1e-12) >= MOVED:
        change = f"{_percent(abs(drift - 1))} {'slower' if drift > 1 else 'faster'}"
        words = f"the inferences became {change} after {_percent(at / len(medians))} of the time"
        late = np.arange(count) >= sum(len(part) for part in np.array_split(values, parts)[:at])
        return Regimes(words, late if drift < 1 else ~late)
    return Regimes("", all_of_them)


class Speed(NamedTuple):
    """How much slower the cores were around a process than at best."""

    slowness: float = 1.0  # The speed probe of one core, or of all together, over the fastest known
    apart: float = 1.0  # Likewise, of the time to hand work over between the cores


class Chosen(NamedTuple):
    """The inferences of each process that count as those of the undisturbed machine."""

    masks: Sequence[Mask]
    medians: Sequence[float]  # Of the processes that have such
    regimes: str  # Two speeds or a drift, in words; the slower one is left out


def choose_undisturbed(processes: Sequence[Timings], speeds: Sequence[Speed] = ()) -> Chosen:
    """Choose inferences that waited for no CPU, while no core was slow; of two speeds those of the faster one."""
    masks = [find_undisturbed(one) for one in processes]
    least = FEW if all(mask.all() for mask in masks) else ENOUGH
    regimes, medians, apart = "", dict[int, float](), list[float]()
    loop_ns = min((float(np.percentile(one.core_ns, 2)) for one in processes if len(one.core_ns)), default=0.0)
    for at, (one, mask) in enumerate(zip(processes, masks, strict=True)):
        fast = mask & on_fast_core(one, loop_ns)
        if len(np.unique(one.block[fast])) >= ENOUGH:
            mask[:] = fast
        samples = one.latency_ns[mask]
        speed = speeds[at] if at < len(speeds) else Speed()
        if len(samples) and speed.slowness < SLOW and speed.apart >= APART:
            apart.append(float(np.median(samples)))
        if speed.slowness >= SLOW or speed.apart >= APART:
            mask[:] = False
            samples = samples[:0]
        if not len(samples):
            continue
        words, fast = find_regimes(samples)
        regimes = regimes or words
        mask[mask] = fast
        median = float(np.median(samples[fast]))
        if len(np.unique(one.block[mask])) >= least or median >= LONG_NS:
            medians[at] = median
    if medians and max(medians.values()) > DISAGREE * min(medians.values()):
        fastest = min(medians.values())
        regimes = f"{format_ns(fastest)} in one process, {format_ns(max(medians.values()))} in another"
        for at, median in medians.items():
            if median > DISAGREE * fastest:
                masks[at][:] = False
        medians = {at: median for at, median in medians.items() if median <= DISAGREE * fastest}
    if medians and apart and max(apart) > DISAGREE * min(medians.values()):
        regimes = f"{format_ns(max(apart))} while the host had moved the CPUs apart"
    return Chosen(masks, list(medians.values()), regimes)


def summarize(
    shared: Sequence[Timings], use: CpuUse, speeds: Sequence[Speed] = (), ahead: Sequence[Timings] = ()
) -> Latency:
    """The latency as shared, and the undisturbed one where the inferences tell it; see `choose_undisturbed`.

    ``ahead`` are those of the same processes at a priority above others, from which it is told where there are any.
    """
    latency, processes = latency_of(np.concatenate([one.latency_ns for one in shared])), ahead or shared
    of_all = np.concatenate([one.latency_ns for one in processes])
    whole = all(find_undisturbed(one).all() for one in processes)
    masks, medians, regimes = choose_undisturbed(processes, speeds)
    count = sum(int(mask.sum()) for mask in masks)
    blocks = sum(len(np.unique(one.block[mask])) for one, mask in zip(processes, masks, strict=True))
    reason, low, high, median = "", 0.0, 0.0, 0.0
    if blocks:
        pooled = np.concatenate([one.latency_ns[mask] for one, mask in zip(processes, masks, strict=True)])
        median = float(np.median(pooled))
        low, high = median_interval(pooled, blocks)
        low, high = min([low, *medians]), max([high, *medians])
    all_ran = share_all_ran(processes)
    unknown = not all(one.waits_known for one in processes)
    if unknown and (use.others_cpus is None or use.others_cpus > QUIET * use.cpus):
        count, regimes = 0, next((t.words for t in (find_regimes(p.latency_ns) for p in processes) if t.words), "")
        used = "" if use.others_cpus is None else f", and other processes kept {use.others_cpus:.1f} CPUs busy"
        reason = f"this system does not tell how long threads wait for a CPU{used}"
    elif (use.steal_cpus or 0.0) > STEAL * use.cpus:
        reason = f"the hypervisor gave {use.steal_cpus:.2f} of the {use.cpus} CPUs to other guests"
    elif speeds and min(speed.slowness for speed in speeds) >= SLOW:
        slowest = min(speed.slowness for speed in speeds)
        reason = f"{CORES} ran at {_percent(1 / slowest)} of the speed that they had before"
    elif not blocks and any(speed.apart >= APART for speed in speeds):
        ratio = max(speed.apart for speed in speeds)
        reason = f"{CORES} were far apart: they took {ratio:.1f} times as long to hand work over as at best"
    elif blocks < (FEW if whole or median >= LONG_NS else ENOUGH):
        reason = f"{count:,} of {len(of_all):,} inferences ran without waiting for a CPU, too few for a median"
    elif all_ran < ALL_RAN_INFERENCES:
        reason = f"all threads had a CPU in as little as {_percent(max(all_ran, 0.0))} of the time"
    elif count < 0.5 * len(of_all) and median > DISAGREE * np.percentile(of_all, 10):
        reason = f"inferences that waited for no CPU took {format_ns(median)}, the fastest tenth of all less"
    elif high - low > 2 * SPREAD * median:
        reason = f"the median of the undisturbed inferences lies anywhere from {format_ns(low)} to {format_ns(high)}"
    return msgspec.structs.replace(
        latency,
        undisturbed_ns=None if reason else round(median),
        undisturbed_low_ns=None if reason else round(low),
        undisturbed_high_ns=None if reason else round(high),
        undisturbed_basis="" if reason else "inferences",
        undisturbed_n=count,
        undisturbed_reason=reason,
        regimes=regimes,
    )


class LayerTimes(NamedTuple):
    """Times of the layers of one inference on the undisturbed machine, less what the profiler adds."""

    ns: int
    low_ns: int
    high_ns: int
    known: float  # Share of the time in layers whose fast mode is known
    inferences: int  # Profiled ones


def estimate_from_layers(latency: Latency, layers: LayerTimes, use: CpuUse | None) -> Latency:
    """The latency with an estimate from the fast mode of each layer, where inferences do not tell it."""
    too_few = use is not None and use.waits and latency.undisturbed_n < ENOUGH
    if latency.undisturbed_basis or not too_few or use is None or (use.steal_cpus or 0.0) > STEAL * use.cpus:
        return latency
    reason = ""
    if latency.undisturbed_reason.startswith(CORES):
        return latency
    if layers.inferences < ENOUGH_LAYERS:
        reason = f"only {layers.inferences} were profiled"
    elif layers.known < FAST_KNOWN:
        reason = f"layers with {_percent(1 - layers.known)} of the time never ran undisturbed {FAST_LEAST} times"
    elif layers.high_ns - layers.low_ns > 2 * SPREAD * layers.ns:
        reason = f"its layers add up to anything from {format_ns(layers.low_ns)} to {format_ns(layers.high_ns)}"
    elif layers.ns > latency.p10_ns:
        reason = f"its layers add up to {format_ns(layers.ns)}, more than the fastest tenth of the inferences took"
    elif (use.all_ran or 0.0) < ALL_RAN_LAYERS:
        reason = f"all threads had a CPU in as little as {_percent(max(use.all_ran or 0.0, 0.0))} of the time"
    if reason:
        return msgspec.structs.replace(latency, undisturbed_reason=f"{latency.undisturbed_reason}; {reason}")
    return msgspec.structs.replace(
        latency,
        undisturbed_ns=layers.ns,
        undisturbed_low_ns=min(layers.low_ns, layers.ns),
        undisturbed_high_ns=max(layers.high_ns, layers.ns),
        undisturbed_basis="layers",
        undisturbed_reason="",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
