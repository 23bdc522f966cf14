"""The roofline picture of a prediction: every layer a point under the roofs of a GPU.

Across is arithmetic intensity, FLOP per byte that a layer moves; up is FLOP per second. The FLOP are
those of the unit that the layer is for: multiply-accumulates where it has any, else other arithmetic,
else special functions. Sloped roofs are the bandwidths of DRAM and of the last-level cache, flat ones
the peaks of the dtypes that the model computes with. A layer whose bytes come from DRAM lies under
the roof of DRAM; one that finds them in the cache may lie above it; one that takes no longer than its
launch lies far below.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from profiler.records import GpuPrediction, PredictedLayer
from profiler.units import format_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = {"dram": "d", "l2": "2", "tensor": "t", "vector": "v", "sfu": "s", "launch": "x"}
"""How a layer is drawn in characters, by its bound."""
_COLORS = {
    "dram": "#0072b2", "l2": "#56b4e9", "tensor": "#d55e00", "vector": "#e69f00", "sfu": "#cc79a7",
    "launch": "#7f7f7f",
}  # fmt: skip
"""Told apart by colour-blind readers too: the palette of M. Okabe and K. Ito, Color Universal Design (2002)."""

_ROWS = 16
_MARGIN = 11
"""Columns of the scale on the left."""


class Point(NamedTuple):
    """A layer: FLOP per byte, FLOP per second, what bounds it, and its time in an inference."""

    intensity: float
    flops_per_s: float
    bound: str
    ns: int


class Roof(NamedTuple):
    """A peak with its name; where it meets the slope of DRAM is its ridge."""

    name: str
    flops_per_s: float
    ridge: float


class Plot(NamedTuple):
    """What is drawn of a GPU."""

    title: str
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]
    dram: float
    cache: float

    @property
    def left(self) -> float:
        """Least intensity of the picture, a power of ten."""
        return 10.0 ** math.floor(math.log10(min([point.intensity for point in self.points], default=0.1)))

    @property
    def right(self) -> float:
        """Largest intensity of the picture, a power of ten right of every ridge."""
        far = max([roof.ridge for roof in self.roofs] + [point.intensity for point in self.points])
        return 10.0 ** math.ceil(math.log10(far) + 0.3)

    @property
    def top(self) -> float:
        """Largest rate of the picture, above every roof."""
        return max(roof.flops_per_s for roof in self.roofs) * 2

    @property
    def bottom(self) -> float:
        """Least rate of the picture; what is slower by more than six powers of ten lies on the border."""
        rates = [point.flops_per_s for point in self.points] + [self.left * self.dram]
        return max(min(rates) / 2, self.top / 1e7)


def plot_of(gpu: GpuPrediction) -> Plot | None:
    """What is to be drawn; None where no layer both computes and moves anything."""
    points = tuple(point for layer in gpu.layers if (point := _point(layer)) is not None)
    if not points:
        return None
    attainable = gpu.ceilings.attainable
    peaks: dict[float, list[str]] = {}
    for name, peak in _peaks(gpu).items():
        peaks.setdefault(peak, []).append(name)
    return Plot(
        title=gpu.name,
        points=points,
        roofs=tuple(
            Roof(", ".join(names), peak, peak / attainable.dram_bytes_per_s)
            for peak, names in sorted(peaks.items(), reverse=True)
        ),
        dram=attainable.dram_bytes_per_s,
        cache=max(attainable.cache_bytes_per_s, attainable.dram_bytes_per_s),
    )


def _point(layer: PredictedLayer) -> Point | None:
    work, estimate = layer.work, layer.estimate
    if work is None or estimate is None or not work.flops or not work.bytes or not estimate.attainable_ns:
        return None
    flops = work.tensor_flops or work.vector_flops or work.special_flops
    rate = flops * 1e9 / estimate.attainable_ns
    return Point(flops / work.bytes, rate, estimate.bound, estimate.attainable_ns * layer.repeats)


def _peaks(gpu: GpuPrediction) -> dict[str, float]:
    """Peaks of what the model multiplies, and of the other arithmetic of layers that multiply nothing."""
    roof = gpu.ceilings.attainable
    works = [layer.work for layer in gpu.layers if layer.work is not None and layer.work.flops]
    peaks = {}
    for dtype in sorted({work.dtype for work in works if work.tensor_flops} & roof.tensor_flops_per_s.keys()):
        peak = roof.tensor_flops_per_s[dtype]
        by_tf32 = dtype == "fp32" and peak > roof.vector_flops_per_s["fp32"]
        peaks["tf32" if by_tf32 else dtype] = peak
    # What has no peak of its own is computed as something wider, in the end as fp32.
    others = {work.dtype for work in works if not work.tensor_flops} & roof.vector_flops_per_s.keys()
    for dtype in sorted(others | {"fp32"}):
        peaks[f"{dtype} vector"] = roof.vector_flops_per_s[dtype]
    return peaks


# --- in characters --------------------------------------------------------------------------


def in_characters(plot: Plot, width: int, *, ascii_only: bool = False) -> list[str]:
    """The picture as lines of at most ``width`` columns.

    Points are drawn over roofs, those that take longest over the others.
    """
    dram, cache, flat, frame = ("/", ":", "-", "|") if ascii_only else ("/", "·", "─", "│")
    columns = max(width - _MARGIN - 2, 20)
    grid = [[" "] * columns for _ in range(_ROWS)]
    low, high = math.log10(plot.left), math.log10(plot.right)
    floor, roof = math.log10(plot.bottom), math.log10(plot.top)

    def column(intensity: float) -> int:
        at = (math.log10(intensity) - low) / (high - low)
        return min(max(round(at * (columns - 1)), 0), columns - 1)

    def row(rate: float) -> int:
        at = (roof - math.log10(rate)) / (roof - floor)
        return min(max(round(at * (_ROWS - 1)), 0), _ROWS - 1)

    highest = plot.roofs[0].flops_per_s
    for at in range(columns):
        intensity = 10 ** (low + (high - low) * at / (columns - 1))
        for slope, mark in ((plot.cache, cache), (plot.dram, dram)):
            if plot.bottom <= intensity * slope <= highest:
                grid[row(intensity * slope)][at] = mark
        for each in plot.roofs:
            if intensity >= each.flops_per_s / plot.cache:
                grid[row(each.flops_per_s)][at] = flat
    taken: set[int] = set()
    for each in plot.roofs:
        label = f" {each.name} {format_rate(each.flops_per_s, 'FLOP/s')} "
        place = row(each.flops_per_s)
        # Roofs that share a row share a label: the higher one's.
        if place not in taken and len(label) < columns - column(each.ridge):
            grid[place][columns - len(label) :] = label
        taken.add(place)
    for point in sorted(plot.points, key=lambda point: point.ns):
        grid[row(point.flops_per_s)][column(point.intensity)] = LETTERS.get(point.bound, "?")
    rows = {row(10.0**power): power for power in range(math.ceil(floor), math.floor(roof) + 1)}
    lines = []
    for at, cells in enumerate(grid):
        scale = format_rate(10.0 ** rows[at], "FLOP/s").replace(".00", "") if at in rows else ""
        lines.append(f"{scale:>{_MARGIN}} {frame}{''.join(cells)}".rstrip())
    axis = [" "] * (columns + 8)
    for power in range(round(low), round(high) + 1):
        text = f"{10.0**power:g}"
        at = min(column(10.0**power), columns - len(text))
        axis[at : at + len(text)] = text
    unit = "FLOP/byte"
    lines.append(f"{unit:>{_MARGIN}}  {''.join(axis).rstrip()}")
    for each in plot.roofs:
        peak = format_rate(each.flops_per_s, "FLOP/s")
        lines.append(f"{'roof':>{_MARGIN}}  {each.name} {peak}, ridge at {each.ridge:.3g} FLOP/byte")
    seen = {point.bound for point in plot.points}
    names = ", ".join(f"{letter} {bound}" for bound, letter in LETTERS.items() if bound in seen)
    slopes = f"{dram} dram {format_rate(plot.dram, 'B/s')}, {cache} l2 {format_rate(plot.cache, 'B/s')}"
    lines.append(f"{'bound by':>{_MARGIN}}  {names};  {slopes}")
    return lines


# --- as a file ------------------------------------------------------------------------------


def as_image(plots: Sequence[Plot], suffix: str) -> bytes:
    """One panel a GPU, as SVG or PNG. The same plots give the same bytes with one version of matplotlib.

    Args:
        plots: At least one.
        suffix: ``.svg`` or ``.png``.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(len(plots), 3)
    down = -(-len(plots) // across)
    # Ids are hashed with a salt that is random by default.
    with mpl.rc_context({"svg.hashsalt": "trtprof", "svg.fonttype": "none", "font.size": 9.0}):
        figure = Figure(figsize=(6.4 * across, 4.4 * down), layout="constrained")
        panels = list(figure.subplots(down, across, squeeze=False).flat)
        for plot, ax in zip(plots, panels, strict=False):
            _draw(ax, plot)
        for ax in panels[len(plots) :]:
            ax.set_axis_off()
        out = io.BytesIO()
        kind = suffix.removeprefix(".")
        # SVG holds the date, PNG the version of the software, unless told otherwise.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, dpi=150, metadata=metadata)
    return out.getvalue()


def _draw(ax: Axes, plot: Plot) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(plot.left, plot.right)
    ax.set_ylim(plot.bottom, plot.top)
    highest = plot.roofs[0].flops_per_s
    for slope, name, style in ((plot.dram, "DRAM", "-"), (plot.cache, "L2", ":")):
        ends = plot.left, highest / slope
        label = f"{name} {format_rate(slope, 'B/s')}"
        ax.plot(ends, [end * slope for end in ends], color="#444444", linewidth=1.2, linestyle=style, label=label)
    for roof in plot.roofs:
        ax.plot([roof.flops_per_s / plot.cache, plot.right], [roof.flops_per_s] * 2, color="#444444", linewidth=1.2)
        ax.annotate(
            f"{roof.name} {format_rate(roof.flops_per_s, 'FLOP/s')}, ridge {roof.ridge:.3g}",
            (plot.right, roof.flops_per_s), textcoords="offset points", xytext=(-4, 7), ha="right", fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}, zorder=2,
        )  # fmt: skip
        ax.plot([roof.ridge], [roof.flops_per_s], marker="|", color="#444444", markersize=8)
    longest = max(point.ns for point in plot.points)
    for bound in LETTERS:
        found = [point for point in plot.points if point.bound == bound]
        if found:
            ax.scatter(
                [point.intensity for point in found],
                [max(point.flops_per_s, plot.bottom) for point in found],
                s=[12 + 120 * point.ns / longest for point in found],
                c=_COLORS[bound], alpha=0.75, linewidths=0.4, edgecolors="white", label=bound, zorder=3,
            )  # fmt: skip
    ax.set_title(plot.title)
    ax.set_xlabel("FLOP per byte moved (area: time)")
    ax.set_ylabel("FLOP/s")
    ax.grid(visible=True, which="major", alpha=0.25)
    ax.legend(loc="lower right", fontsize=8)
