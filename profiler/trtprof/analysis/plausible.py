"""Whether what files say can be so: each with itself, with the others, with the GPU that is named, and with physics.

Each limit is one that no measurement of the engine and the GPU can pass: beyond it there is no verdict (TR900).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from trtprof.analysis.evidence import Evidence, Lack
from trtprof.base.latency import median_ns
from trtprof.base.records import GpuSpec, InferenceTimes, LayerResult, LayerTime, LayerTimes
from trtprof.base.units import format_ns, format_percent

if TYPE_CHECKING:
    import pandas as pd

ALIKE = 0.05  # Share by which two numbers differ that are one number written twice: both have four digits and more
PRINTED_NS = 5_000  # The same of a table that is printed with two decimals of a ms, as the oldest are
FASTER = 0.05
"""Share of the time of layers that they save beyond what the GPU can do from which it is not that GPU, or not those
units: work that is counted too high, or stays in a cache, is that of single layers."""
LAUNCHED = 2.0
"""Allowed over measured time of all layers: the floor of a launch, which is in both, is known better than that."""
SLOWER = 300.0
"""Measured over allowed time of the layer that is nearest to its roof: the worst kernels of real captures are 40 times
slower, clocks that are held down 12 times."""
UNCLAIMED = 0.5
"""Share of an inference in which neither a layer ran nor the host enqueued, from which the times are not those of the
layers: a GPU that has work waiting goes on to it."""
LAUNCH_NS = 10_000
"""That the host needs beside the kernel of a layer at the most, where a GPU waits for it launch by launch."""
GAP_NS = 3_000  # That a GPU needs between two kernels at the most, where the host enqueued them in a time that is known
LONGEST_LAUNCH_NS = 500_000  # Between two layers, on average, whatever the host does


def of_profile(profile: LayerTimes) -> Iterator[Lack]:
    """Numbers of a profile that are one number written twice, and are not: totals, averages, shares, medians."""
    total = sum(layer.total_ns for layer in profile.layers)
    shares = sum(layer.fraction for layer in profile.layers)
    slack = 1 if profile.complete else PRINTED_NS
    for layer in profile.layers:
        if said := _at_odds(layer, profile.iterations, slack):
            yield "a profile that contradicts itself", f"of the layer {layer.name}, {said}"
            return
        if total and shares and abs(layer.fraction / shares - layer.total_ns / total) > ALIKE:
            yield (
                "a profile that contradicts itself",
                (
                    f"the layer {layer.name} has {format_percent(layer.fraction)} of the time by its percentage and "
                    f"{format_percent(layer.total_ns / total)} by its total"
                ),
            )
            return
    if shares > 1 + ALIKE:
        yield "a profile that contradicts itself", f"the shares of its layers add up to {format_percent(shares)}"


def _at_odds(layer: LayerTime, iterations: int, slack: int) -> str:
    if iterations and not _same(layer.total_ns, iterations * layer.average_ns, slack * iterations):
        return (
            f"the total of {iterations} inferences is {format_ns(layer.total_ns)}, and the average "
            f"{format_ns(layer.average_ns)}"
        )
    # Half of all samples are no shorter than the median.
    if layer.median_ns is not None and layer.average_ns < (0.5 - ALIKE) * layer.median_ns - slack:
        return (
            f"the average is {format_ns(layer.average_ns)}, less than half of the median {format_ns(layer.median_ns)}"
        )
    return ""


def _same(one: float, other: float, slack: float) -> bool:
    return abs(one - other) <= ALIKE * max(one, other) + slack


def of_times(times: InferenceTimes | None, evidence: Evidence) -> Iterator[Lack]:
    """Times of inferences that contradict themselves, hold the profiler's own, or are not those of the layers."""
    if times is None or not times.latency_ns:
        return
    if times.profiled:
        yield (
            "a latency with the profiler attached",
            (
                "the summary says that profiling was not separate: its latency is that of an engine whose layers were "
                "timed one after the other"
            ),
        )
    latency, compute = median_ns(times.latency_ns), median_ns(times.compute_ns)
    parts = compute + median_ns(times.h2d_ns) + median_ns(times.d2h_ns)
    if compute and not _same(latency, parts, LAUNCH_NS) and not _same(latency, parts, 0.25 * latency):
        yield (
            "times that contradict themselves",
            f"an inference takes {format_ns(latency)}, its copies and its work on the GPU {format_ns(parts)}",
        )
    if (one := times.summary) is not None and not (
        _rising(one.min_ns, one.median_ns, one.p99_ns, one.max_ns) and _rising(one.min_ns, one.mean_ns, one.max_ns)
    ):
        yield (
            "times that contradict themselves",
            (
                "the shortest, median, mean, 99th percentile and longest latency of the summary do not rise: "
                + ", ".join(format_ns(ns) for ns in (one.min_ns, one.median_ns, one.mean_ns, one.p99_ns, one.max_ns))
            ),
        )
    layers_ns = sum(ns or 0 for ns in evidence.layers_ns) + evidence.unattributed_ns
    number = sum(bool(ns) for ns in evidence.layers_ns)
    took = compute or latency
    gap = took - layers_ns
    enqueued = median_ns(times.enqueue_ns)
    unclaimed = gap - enqueued - (GAP_NS if enqueued else LAUNCH_NS) * number
    if unclaimed > UNCLAIMED * took or (gap > UNCLAIMED * took and gap > LONGEST_LAUNCH_NS * max(number, 1)):
        yield (
            "times of inferences that are not those of the layers",
            (
                f"an inference is on the GPU for {format_ns(took)}, its {number} layers take "
                f"{format_ns(layers_ns)}, and the host enqueues it in {format_ns(enqueued)}: "
                "nothing tells of the rest; another engine, another GPU or other units"
            ),
        )


def _rising(*values: int) -> bool:
    known = [value for value in values if value]
    return all(one <= other * 1.001 + 1 for one, other in pairwise(known))


def of_sums(sums: pd.DataFrame) -> Iterator[Lack]:
    """Sums of nsys stats that are not the number of kernels times their average, or averages beyond all of them."""
    wrong = {
        "the total is not the number of kernels times their average": (
            (sums["total_ns"] - sums["count"] * sums["avg_ns"]).abs()
            > ALIKE * sums["total_ns"] + sums["count"] + PRINTED_NS
        ),
        "the average is not between the shortest and the longest": _outside(sums, "avg_ns"),
        "the median is not between the shortest and the longest": _outside(sums, "median_ns"),
    }
    for words, rows in wrong.items():
        if rows.any():
            row = sums[rows.to_numpy()].iloc[0]
            yield (
                "sums that contradict themselves",
                (
                    f"of {row['name']!s:.200}, {words}: {int(row['count'])} kernels, "
                    f"{format_ns(row['total_ns'])} in all, {format_ns(row['avg_ns'])} on average"
                ),
            )
            return


def _outside(sums: pd.DataFrame, column: str) -> pd.Series[bool]:
    """Rows whose value is under the least or above the most; none where a column is not printed."""
    slack = ALIKE * sums["max_ns"] + PRINTED_NS
    return (sums[column] < sums["min_ns"] - slack) | (sums[column] > sums["max_ns"] + slack)


def of_device(told: GpuSpec, where: str, spec: GpuSpec) -> Iterator[Lack]:
    """The GPU that a file names, where it is another one than was named."""
    figures = ((told.sms.value, spec.sms.value), (told.dram_bytes_per_s.value, spec.dram_bytes_per_s.value))
    if told.compute_capability != spec.compute_capability or any(not _same(*pair, 0) for pair in figures):
        yield (
            "times of another GPU",
            f"the {where} says that they were measured on {told.name}, and they are held against {spec.name}",
        )


def of_roofs(layers: Sequence[LayerResult], resolution_ns: int) -> Iterator[Lack]:
    """Layers that are, all together, faster than the GPU can be, or farther from what it can than any kernel is."""
    priced = [
        layer
        for layer in layers
        if layer.ideal_ns is not None and layer.attainable_ns and layer.measured_ns and layer.role == "compute"
    ]
    measured = sum(layer.measured_ns for layer in priced)
    saved = sum(max((layer.ideal_ns or 0) - layer.measured_ns - resolution_ns, 0) for layer in priced)
    allowed = sum(layer.attainable_ns or 0 for layer in priced)
    if saved > FASTER * measured or allowed > LAUNCHED * measured:
        worst = max(priced, key=lambda layer: (layer.attainable_ns or 0) - layer.measured_ns)
        yield (
            "faster than the GPU can be",
            (
                f"{len(priced)} layers take {format_ns(measured)} where the GPU needs {format_ns(allowed)}; "
                f"{worst.name} takes {format_ns(worst.measured_ns)} and needs {format_ns(worst.attainable_ns or 0)}: "
                "another GPU, clock or batch, or other units"
            ),
        )
    nearest = min((layer.measured_ns / (layer.attainable_ns or 1) for layer in priced), default=0.0)
    if nearest > SLOWER:
        yield (
            "slower than any kernel is",
            (
                f"the layer that is nearest to what the GPU can takes {nearest:.0f} times as long: another GPU, or "
                "other units (times are in ms)"
            ),
        )
