"""The roofline: every layer a point under the roofs of a device, in characters and, of a prediction, as an image.

Across is arithmetic intensity, FLOP per byte that a layer moves; up is FLOP per second. The FLOP of a
prediction are those of the unit that the layer is for: multiply-accumulates where it has any, else other
arithmetic, else special functions; of a run they are all of them, as in its tables. Sloped roofs are the
bandwidths of DRAM and of the last-level cache, flat ones the peaks of the dtypes that the model computes
with. A layer whose bytes come from DRAM lies under the roof of DRAM; one that finds them in the cache may
lie above it; one that takes no longer than its launch lies far below.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from trtprof.base.records import GpuPrediction, PredictedLayer, Run, bound_name
from trtprof.base.records import Roof as Ceiling
from trtprof.base.units import format_rate
from trtprof.report.formats._style import BOUND_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = {"dram": "m", "l2": "l", "tensor": "c", "vector": "v", "sfu": "s", "launch": "x"}
"""How a layer is drawn in characters, by its bound."""
_ROWS = 16
_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the dots of a braille pattern, by column from the left, from above: Unicode, block U+2800."""
_MARGIN = 11  # Columns of the scale on the left


class Point(NamedTuple):
    """A layer: FLOP per byte, FLOP per second, what bounds it, and its time in an inference."""

    intensity: float
    flops_per_s: float
    bound: str
    ns: int
    layer: int = -1  # Place in `Run.layers`


class Roof(NamedTuple):
    """A peak with its name; where it meets the slope of DRAM is its ridge."""

    name: str
    flops_per_s: float
    ridge: float
    best: float | None = None
    """The same by the datasheet (of a CPU the best that was ever measured on it), where that is another number."""


class Plot(NamedTuple):
    """What is drawn of a device."""

    title: str
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]
    dram: float
    cache: float
    best_dram: float | None = None
    best_cache: float | None = None
    device: Literal["cpu", "gpu"] = "gpu"

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
        """Largest rate of the picture, above every roof and every layer that was measured."""
        roofs = [max(roof.flops_per_s, roof.best or 0) for roof in self.roofs]
        return max(roofs + [point.flops_per_s for point in self.points]) * 2

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
    works = [layer.work for layer in gpu.layers if layer.work is not None and layer.work.flops]
    peaks: dict[float, list[str]] = {}
    for name, peak in _peaks(((work.dtype, work.tensor_flops > 0) for work in works), attainable).items():
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
    flops = work.fewest_tensor_flops or work.vector_flops or work.special_flops
    if flops <= 0:  # all of it is what a fast algorithm does without
        return None
    rate = flops * 1e9 / estimate.attainable_ns
    return Point(flops / work.bytes, rate, estimate.bound, estimate.attainable_ns * layer.repeats)


def _peaks(arithmetic: Iterable[tuple[str, bool]], roof: Ceiling) -> dict[str, float]:
    """Peaks of what a model multiplies, and of the other arithmetic of layers that multiply nothing.

    Args:
        arithmetic: Of each layer its dtype, and whether it multiplies and accumulates.
    """
    kinds = set(arithmetic)
    peaks = {}
    for dtype in sorted({dtype for dtype, products in kinds if products} & roof.tensor_flops_per_s.keys()):
        peak = roof.tensor_flops_per_s[dtype]
        by_tf32 = dtype == "fp32" and peak > roof.vector_flops_per_s.get("fp32", math.inf)
        peaks["tf32" if by_tf32 else dtype] = peak
    # What has no peak of its own is computed as something wider, in the end as fp32.
    others = {dtype for dtype, products in kinds if not products} | {"fp32"}
    for dtype in sorted(others & roof.vector_flops_per_s.keys()):
        peaks[f"{dtype} vector"] = roof.vector_flops_per_s[dtype]
    return peaks


def plot_of_run(run: Run) -> Plot | None:
    """What is to be drawn of a run: layers as measured, under the ceilings of the run and those of the datasheet.

    None where no layer both computes and moves anything, or where the ceilings are not known.
    """
    points = []
    for place, layer in enumerate(run.layers):
        if layer.flops and layer.bytes and layer.measured_ns:
            rate = layer.flops * 1e9 / layer.measured_ns
            points.append(Point(layer.flops / layer.bytes, rate, layer.bound, layer.measured_ns, place))
    now, best = run.ceilings.attainable, run.ceilings.best
    kinds = {
        (layer.dtype or layer.work.dtype, layer.work.tensor_flops > 0)
        if layer.work is not None
        else (layer.dtype, True)
        for layer in (run.layers[point.layer] for point in points)
    }
    # The same names in both: what is TF32 by the one is not fp32 by the other.
    known = {name: peak for name, peak in _peaks(kinds, now).items() if _usable(peak)}
    sheet = _peaks(kinds, best)
    merged: dict[float, list[str]] = {}
    for name, peak in known.items():
        # A CPU has one unit for both.
        if known.get(name.removesuffix(" vector")) != peak or not name.endswith(" vector"):
            merged.setdefault(peak, []).append(name)
    if not points or not merged or not _usable(now.dram_bytes_per_s):
        return None
    roofs = []
    for peak, names in sorted(merged.items(), reverse=True):
        top = max((sheet[name] for name in names if _usable(sheet.get(name, 0))), default=None)
        roofs.append(Roof(", ".join(names), peak, peak / now.dram_bytes_per_s, _other(peak, top)))
    cache = max(now.cache_bytes_per_s, now.dram_bytes_per_s)
    return Plot(
        title=run.device.name,
        points=tuple(points),
        roofs=tuple(roofs),
        dram=now.dram_bytes_per_s,
        cache=cache,
        best_dram=_other(now.dram_bytes_per_s, best.dram_bytes_per_s),
        best_cache=_other(cache, max(best.cache_bytes_per_s, best.dram_bytes_per_s)),
        device=run.device.kind,
    )


def _usable(ceiling: float) -> bool:
    return math.isfinite(ceiling) and ceiling > 0


def _other(now: float, best: float | None) -> float | None:
    """``best`` where it is known and would not print as the same number."""
    if best is None or not _usable(best) or format_rate(best, "") == format_rate(now, ""):
        return None
    return best


# --- in characters --------------------------------------------------------------------------


class _Scale(NamedTuple):
    """Where intensities and rates lie in a grid of characters; both ends are logarithms to base 10."""

    low: float
    high: float
    floor: float
    roof: float
    columns: int
    rows: int

    def column(self, intensity: float, fine: int = 1) -> int:
        """From the left, in parts of a column of which one has ``fine``."""
        at = (math.log10(intensity) - self.low) / (self.high - self.low)
        return min(max(int(at * self.columns * fine), 0), self.columns * fine - 1)

    def row(self, rate: float, fine: int = 1) -> int:
        """From above, likewise."""
        at = (self.roof - math.log10(rate)) / (self.roof - self.floor)
        return min(max(int(at * self.rows * fine), 0), self.rows * fine - 1)


def in_characters(plot: Plot, width: int, *, ascii_only: bool = False, rows: int = _ROWS) -> list[str]:
    """The picture as lines of at most ``width`` columns (or 33), ``rows`` of them with points."""
    columns = max(width - _MARGIN - 2, 20)
    scale = _Scale(
        math.log10(plot.left), math.log10(plot.right), math.log10(plot.bottom), math.log10(plot.top), columns, rows
    )
    grid = _roofs_drawn(plot, scale, ascii_only=ascii_only)
    marks = {(scale.row(point.flops_per_s), scale.column(point.intensity)) for point in plot.points}
    taken: set[int] = set()
    for each in plot.roofs:
        label = f" {each.name} {format_rate(each.flops_per_s, 'FLOP/s')} "
        start = columns - len(label)
        here = scale.row(each.flops_per_s)
        # On the roof or above it, where no layer is; every roof has a line below the picture too.
        for place in (here, here - 1):
            free = place >= 0 and place not in taken and not any((place, at) in marks for at in range(start, columns))
            if free and start > scale.column(each.ridge):
                grid[place][start:] = label
                taken.add(place)
                break
        taken.add(here)
    for point in sorted(plot.points, key=lambda point: point.ns):
        grid[scale.row(point.flops_per_s)][scale.column(point.intensity)] = _letter(point.bound)
    powers = {scale.row(10.0**power): power for power in range(math.ceil(scale.floor), math.floor(scale.roof) + 1)}
    lines = []
    for at, line in enumerate(grid):
        rate = re.sub(r"\.0+ ", " ", format_rate(10.0 ** powers[at], "FLOP/s")) if at in powers else ""
        lines.append(f"{rate:>{_MARGIN}} {'|' if ascii_only else '│'}{''.join(line)}".rstrip())
    axis = [" "] * (columns + 8)
    for power in range(round(scale.low), round(scale.high) + 1):
        text = f"{10.0**power:g}"
        at = min(scale.column(10.0**power), columns - len(text))
        axis[at : at + len(text)] = text
    unit = "FLOP/byte"
    lines.append(f"{unit:>{_MARGIN}}  {''.join(axis).rstrip()}")
    for each in plot.roofs:
        peak = format_rate(each.flops_per_s, "FLOP/s")
        lines.append(f"{'peak':>{_MARGIN}}  {each.name} {peak}, ridge at {each.ridge:.3g} FLOP/byte")
    return lines + _legend(plot, columns, ascii_only=ascii_only)


def _roofs_drawn(plot: Plot, scale: _Scale, *, ascii_only: bool) -> list[list[str]]:
    """A grid of characters with the slopes and the peaks, and nothing else yet."""
    grid = [[" "] * scale.columns for _ in range(scale.rows)]
    highest = plot.roofs[0].flops_per_s
    dots: dict[tuple[int, int], int] = {}
    for at in range(scale.columns * 2):
        intensity = 10 ** (scale.low + (scale.high - scale.low) * (at + 0.5) / (scale.columns * 2))
        strokes = [(intensity * plot.cache, ":"), (intensity * plot.dram, "/")]
        strokes = [(rate, mark) for rate, mark in strokes if plot.bottom <= rate <= highest]
        peaks = [each.flops_per_s for each in plot.roofs if intensity * plot.cache >= each.flops_per_s]
        for rate, mark in strokes + [(peak, "-") for peak in peaks]:
            if ascii_only:
                grid[scale.row(rate)][at // 2] = mark
            elif mark != ":" or at % 3 == 0:
                fine = scale.row(rate, 4)
                cell = fine // 4, at // 2
                dots[cell] = dots.get(cell, 0) | _BRAILLE[at % 2][fine % 4]
    for (down, across), pattern in dots.items():
        grid[down][across] = chr(0x2800 + pattern)
    return grid


def _legend(plot: Plot, columns: int, *, ascii_only: bool) -> list[str]:
    """What letters and lines stand for, in one line or two."""
    seen = {point.bound for point in plot.points}
    order = [bound for bound in LETTERS if bound in seen] + (["unknown"] if seen - LETTERS.keys() else [])
    names = ", ".join(f"{_letter(bound)} {bound_name(bound, plot.device)}" for bound in order)
    solid, dotted = ("/", ":") if ascii_only else ("solid", "dotted")
    cache = bound_name("l2", plot.device)
    memory = bound_name("dram", plot.device)
    slopes = f"{solid} {memory} {format_rate(plot.dram, 'B/s')}, {dotted} {cache} {format_rate(plot.cache, 'B/s')}"
    # As many lines in ASCII as else.
    if len(names) + 3 + len(slopes) + len("soliddotted") - len(solid + dotted) <= columns:
        return [f"{'bound by':>{_MARGIN}}  {names};  {slopes}"]
    return [f"{'bound by':>{_MARGIN}}  {names}", f"{'slopes':>{_MARGIN}}  {slopes}"]


def _letter(bound: str) -> str:
    return LETTERS.get(bound, "?")


# --- as a file ------------------------------------------------------------------------------


def as_image(plots: Sequence[Plot], suffix: str) -> bytes:
    """One panel a GPU, as SVG or PNG. The same plots give the same bytes with one version of matplotlib.

    Args:
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
                c=BOUND_COLORS[bound], alpha=0.75, linewidths=0.4, edgecolors="white", zorder=3,
                label=bound_name(bound, plot.device),
            )  # fmt: skip
    ax.set_title(plot.title)
    ax.set_xlabel("FLOP per byte moved (area: time)")
    ax.set_ylabel("FLOP/s")
    ax.grid(visible=True, which="major", alpha=0.25)
    ax.legend(loc="lower right", fontsize=8)
