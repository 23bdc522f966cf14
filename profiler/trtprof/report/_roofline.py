"""The roofline: every layer a point under the roofs of a device, and of a prediction their image.

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
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from trtprof.base.records import GpuPrediction, PredictedLayer, Run, bound_name
from trtprof.base.records import Roof as Ceiling
from trtprof.base.units import format_rate
from trtprof.report.formats._style import BOUND_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """Peaks of what a model multiplies, and of the other arithmetic of layers that multiply nothing."""
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


# --- as a file ------------------------------------------------------------------------------


def as_image(plots: Sequence[Plot], suffix: str) -> bytes:
    """One panel a GPU, as SVG or PNG. The same plots give the same bytes with one version of matplotlib."""
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
    for bound in BOUND_COLORS:
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
