"""Kernels led back to engine layers, and the proof that no nanosecond was lost on the way."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trtprof.base.errors import CaptureError
from trtprof.base.records import Coverage, Layer, LayersBasis, Match
from trtprof.base.undisturbed import ENOUGH, FAST_KNOWN, fast_mode, known_share

if TYPE_CHECKING:
    import pandas as pd


class Alignment(NamedTuple):
    """Kernels by layer."""

    matches: dict[str, tuple[Match, ...]]  # Kernels of each layer
    unattributed: tuple[Match, ...]  # Kernels of no layer
    per_iteration_ns: dict[str, int]  # For each layer the median over iterations, see ``basis``, of its own time
    captured_ns: int  # Time of all kernels in all iterations
    coverage: Coverage  # Shares of that by how surely it was led to nodes
    # The median over iterations of the time of all kernels in one, which is not the sum of ``per_iteration_ns``:
    # medians do not add up.
    inference_ns: int = 0
    gap_ns: int = 0  # The median over iterations of the time between the first kernel and the last in which none ran
    gaps: int = 0  # How many places there are for it in one: between two kernels that lie in no other
    basis: LayersBasis = ""  # What ``per_iteration_ns`` is of, see `CpuUse.layers_basis`


def align_kernels(
    kernels: pd.DataFrame, layers: Sequence[Layer], resolution_ns: int, undisturbed: Sequence[int] | None = None
) -> Alignment:
    """Attribute each row (`records.KERNEL_COLUMNS`) to the layer that it names; all matches sum to captured_ns.

    Medians are of the ``undisturbed`` iterations where there are enough; else of layers by `fast_mode`. Without that
    of all.
    """
    if kernels.empty:
        raise CaptureError(
            "the profile holds no kernels", why="no node ran between start and end of the profile",
            fix="check that the model has at least one node that is not folded away: `trtprof inspect`",
        )  # fmt: skip
    by_name = {layer.name: layer for layer in layers}
    captured = int(kernels["self_ns"].sum())
    matches: dict[str, list[Match]] = {}
    unattributed: list[Match] = []
    for (layer_name, kernel), rows in kernels.groupby(["layer", "name"], sort=True):
        layer = by_name.get(str(layer_name))
        self_ns = [int(value) for value in rows["self_ns"]]
        match = Match(
            layer=None if layer is None else layer.name,
            kernel=str(kernel),
            count=len(self_ns),
            median_ns=interpolated_median(self_ns, resolution_ns),
            total_ns=sum(self_ns),
            confidence="none" if layer is None else "exact",
            reason=f"the profile calls it {layer_name!r}, which is no layer of the engine"
            if layer is None
            else "the profile names the layer",
        )
        if layer is None:
            unattributed.append(match)
        else:
            matches.setdefault(layer.name, []).append(match)
    total = sum(match.total_ns for found in matches.values() for match in found)
    total += sum(match.total_ns for match in unattributed)
    if total != captured:
        raise CaptureError(
            "kernel time was not conserved", why=f"{captured} ns captured, {total} ns attributed", fix="report this bug"
        )
    iterations = int(kernels["iteration"].nunique())
    basis: LayersBasis = ""
    timed, fast = kernels, False
    if undisturbed is not None:
        basis = "inferences"
        if len(undisturbed) >= ENOUGH or len(undisturbed) == iterations:
            timed = kernels[kernels["iteration"].isin(undisturbed)]
        else:
            fast = True
            enough = iterations >= ENOUGH and known_share(kernels, resolution_ns) >= FAST_KNOWN
            basis = "layers" if enough else "shared"
    inference_ns, gap_ns = _of_inferences(timed, resolution_ns)
    inner = kernels["layer"].isin([layer.name for layer in layers if layer.graph])
    outer = kernels[~inner].groupby("iteration").size()
    return Alignment(
        matches={name: tuple(found) for name, found in matches.items()},
        unattributed=tuple(unattributed),
        per_iteration_ns=_per_iteration(timed, resolution_ns, fast=fast),
        captured_ns=captured,
        coverage=_coverage(matches, by_name, captured),
        inference_ns=inference_ns,
        gap_ns=gap_ns,
        gaps=max(round(float(outer.median())) - 1, 0) if len(outer) else 0,
        basis=basis,
    )


def _of_inferences(kernels: pd.DataFrame, resolution_ns: int) -> tuple[int, int]:
    """Median over iterations of the time of all kernels in one (half a step added to each), and of the gaps."""
    ran = kernels.groupby("layer")["self_ns"].transform("max") > 0
    cut_off = resolution_ns / 2 if resolution_ns > 1 else 0.0
    rows = kernels.assign(own=kernels["self_ns"] + ran * cut_off, end=kernels["start_ns"] + kernels["dur_ns"])
    inferences = rows.groupby("iteration").agg(own=("own", "sum"), first=("start_ns", "min"), last=("end", "max"))
    gaps = inferences["last"] - inferences["first"] - inferences["own"]
    return round(float(inferences["own"].median())), max(round(float(gaps.median())), 0)


def _per_iteration(kernels: pd.DataFrame, resolution_ns: int, *, fast: bool) -> dict[str, int]:
    """Median over iterations, or the fast mode of each layer, of the time that it took in one, launches added up."""
    iterations = int(kernels["iteration"].nunique())
    grouped = kernels.groupby(["layer", "iteration"], sort=True)["self_ns"].agg(["sum", "count"])
    medians: dict[str, int] = {}
    for layer, rows in grouped.groupby(level="layer", sort=True):
        sums = [int(value) for value in rows["sum"]]
        launches = round(statistics.median(int(value) for value in rows["count"]))
        # An iteration in which a branch did not run counts as zero.
        sums += [0] * (iterations - len(sums))
        if fast:
            times = np.asarray(sums)
            sums = times[fast_mode(times, resolution_ns)].tolist()
        step = resolution_ns * max(launches, 1) if resolution_ns > 1 else resolution_ns
        medians[str(layer)] = interpolated_median(sums, step)
    return medians


def interpolated_median(values_ns: Sequence[int], resolution_ns: int) -> int:
    """Median of durations that a clock of coarse step cut off, in ns; 0 when all are 0.

    A reported ``d`` stands for ``[d, d + resolution)``: the median interpolates within the step
    (`statistics.median_grouped`).
    """
    if resolution_ns <= 1 or not any(values_ns):
        return round(statistics.median(values_ns))
    low, high = statistics.median_low(values_ns), statistics.median_high(values_ns)
    if low != high:
        return round((low + resolution_ns + high) / 2)
    middles = [value + resolution_ns / 2 for value in values_ns]
    return round(statistics.median_grouped(middles, interval=resolution_ns))


def _coverage(matches: Mapping[str, Sequence[Match]], layers: Mapping[str, Layer], captured: int) -> Coverage:
    time = {"exact": 0, "inferred": 0, "none": 0}
    for name, found in matches.items():
        time[layers[name].match] += sum(match.total_ns for match in found)
    if captured == 0:
        return Coverage(exact=1.0, inferred=0.0, unattributed=0.0)
    rest = captured - time["exact"] - time["inferred"]
    return Coverage(exact=time["exact"] / captured, inferred=time["inferred"] / captured, unattributed=rest / captured)
