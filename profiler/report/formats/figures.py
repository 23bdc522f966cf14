"""Pictures for a paper or a README: the roofline, and the ledger as a waterfall, as PNG or SVG.

`ReportOptions.figure` says which of the two. A picture is 7 x 4.5 inches, of 200 dots an inch as PNG, and says below
itself what it is of: device, clocks, coverage, and what it leaves out. The same run gives the same bytes with one
version of matplotlib, whatever the settings of the user, and nothing in matplotlib stays changed. Text in an SVG is
drawn as outlines, so that it needs no font. Of many layers the dots in an SVG are one image, which the picture says.
"""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from profiler.base import units
from profiler.base.errors import UsageError
from profiler.base.records import LayerResult, LedgerRow, OpSweep, Prediction, Run, bound_name
from profiler.report import ReportOptions, _roofline, binary_reporter, reporter
from profiler.report._cells import elide
from profiler.report._format import KIND_WORDS, clock_text, count, ledger_gap_ns, tensor_text, time_of, visible
from profiler.report.content._ledger import largest
from profiler.report.formats import _op_pictures
from profiler.report.formats import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (7.0, 4.5)
DPI = 200

LABELLED = 5
"""Layers that are named in a roofline: those that lose most time."""

RASTER_FROM = 1000
"""From so many layers on, dots in an SVG are drawn as an image: as shapes they would make it slow to show."""

LEDGER_ROWS = 14
"""Most rows of a waterfall; the smallest become one."""

_LARGEST_DOT = 300.0
_LEAST_DOT = 5.0
"""Areas of dots in square points."""
_DECADES = 7
"""Powers of ten of the rates that a roofline shows below its highest roof; slower layers lie on its border."""
_NAME = 38
"""Characters of a name."""
_BELOW = 1.06
"""Height in inches of what stands below the axes."""

_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
"""Behind words that stand over lines and dots."""

_REACH = 160.0
"""Points from a dot to its name at most."""
_MOST_COVERED = 10
"""Squares with dots that a name may cover."""
_CELL = 4.0
"""Points of the squares by which it is known where dots are."""

_SETTINGS_HELD = threading.Lock()
"""matplotlib has one set of settings for all threads."""

Format = Literal["png", "svg"]


@binary_reporter("png", suffix=".png", of=(Run, Prediction, OpSweep))
def encode_png(found: Run | Prediction | OpSweep, options: ReportOptions) -> bytes:
    """The picture as PNG, 1400 x 900."""
    return _picture(found, options, "png")


@reporter("svg", suffix=".svg", of=(Run, Prediction, OpSweep))
def render_svg(found: Run | Prediction | OpSweep, options: ReportOptions) -> str:
    """The picture as SVG."""
    return _picture(found, options, "svg").decode()


def _picture(found: Run | Prediction | OpSweep, options: ReportOptions, kind: Format) -> bytes:
    if isinstance(found, OpSweep):
        return _op_pictures.render_image(found, f".{kind}")
    if isinstance(found, Prediction):
        return _of_prediction(found, kind)
    return _of_run(found, options, kind)


def _of_prediction(found: Prediction, kind: Format) -> bytes:
    """The roofline of each GPU, a panel each."""
    plots = [plot for gpu in found.gpus if (plot := _roofline.plot_of(gpu)) is not None]
    if not plots:
        raise UsageError(
            f"there is no roofline to draw of {found.model.name}",
            why="none of its layers both computes and moves anything",
            fix="--format text",
        )
    return _roofline.as_image(plots, f".{kind}")


def _of_run(run: Run, options: ReportOptions, kind: Format) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    out = io.BytesIO()
    with _SETTINGS_HELD, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(style.SETTINGS)
        figure = Figure(figsize=SIZE_INCHES, dpi=DPI, facecolor="white")
        page = _Page(run, figure, kind)
        if options.figure == "ledger":
            page.ledger()
        else:
            page.roofline()
        figure.savefig(out, format=kind, dpi=DPI, metadata=style.METADATA[kind], transparent=False)
    return out.getvalue()


class _Box(NamedTuple):
    """A rectangle in points from the lower left corner of the picture."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top
        )

    def within(self, other: _Box) -> bool:
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )


class _Page:
    """A picture in the making."""

    def __init__(self, run: Run, figure: Figure, kind: Format) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.font_manager import FontProperties, findfont, get_font

        self.run = run
        self.figure = figure
        self.kind = kind
        # Text is measured once for all formats: by the renderer of PNG.
        self._renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
        self._font = FontProperties(family="DejaVu Sans")
        self._unlabelled: list[str] = []
        """Ceilings that there was no room to label."""
        self._glyphs = frozenset(get_font(findfont(self._font)).get_charmap())

    # --- text -------------------------------------------------------------------------------

    def safe(self, text: str, width: int | None = None) -> str:
        """``text`` without a character that steers or that the font lacks, its middle cut out beyond ``width``."""
        # The head and the tail are all that can be seen of a name of 10,000 characters.
        if width is not None and len(text) > 4 * width:
            text = text[: 2 * width] + "…" + text[-2 * width :]
        text = "".join(c if ord(c) in self._glyphs else f"\\u{ord(c):04x}" for c in visible(text))
        return text if width is None else elide(text, width, "…")

    def width_of(self, text: str, size: float, *, bold: bool = False) -> float:
        """Width of a line in points."""
        font = self._font.copy()
        font.set_size(size)
        font.set_weight("bold" if bold else "normal")
        width, _, _ = self._renderer.get_text_width_height_descent(text, font, ismath=False)
        return float(width) * 72 / DPI

    def lines_of(self, text: str, size: float, width: float) -> list[str]:
        """``text`` broken at spaces into lines of at most ``width`` points."""
        lines: list[str] = []
        for word in text.split():
            if lines and self.width_of(f"{lines[-1]} {word}", size) <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return lines

    def fitted(self, text: str, size: float, width: float) -> str:
        """``text`` with as much of its middle cut out as makes it ``width`` points wide."""
        if self.width_of(text, size) <= width:
            return text
        low, high = 1, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.width_of(elide(text, middle, "…"), size) <= width else (low, middle - 1)
        return elide(text, low, "…")

    def write(self, x: float, y: float, text: str, size: float = 7.0, *, color: str = style.INK, bold: bool = False,
              align: Literal["left", "right", "center"] = "left") -> None:  # fmt: skip
        """A line of text at a place in points."""
        self.figure.text(
            x / 72 / SIZE_INCHES[0], y / 72 / SIZE_INCHES[1], text, fontsize=size, color=color, ha=align,
            va="baseline", fontweight="bold" if bold else "normal",
        )  # fmt: skip

    # --- what both have ---------------------------------------------------------------------

    def axes(self, left: float, right: float) -> Axes:
        """Axes with so many inches beside them, their frame on the left and below."""
        width, height = SIZE_INCHES
        top = 0.42
        axes = self.figure.add_axes(
            (left / width, _BELOW / height, (width - left - right) / width, (height - _BELOW - top) / height)
        )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(style.FAINT)
        axes.tick_params(colors=style.FAINT, labelcolor=style.INK, labelsize=7, length=3)
        axes.tick_params(which="minor", length=0)
        axes.set_axisbelow(True)
        return axes

    def area(self, axes: Axes) -> _Box:
        """Where axes lie."""
        place = axes.get_position()
        width, height = SIZE_INCHES[0] * 72, SIZE_INCHES[1] * 72
        return _Box(place.x0 * width, place.y0 * height, place.x1 * width, place.y1 * height)

    def title(self, what: str) -> None:
        run = self.run
        inputs = ", ".join(tensor_text(tensor) for tensor in run.model.inputs[:8])
        name = self.safe(run.model.name, 40)
        self.write(12, SIZE_INCHES[1] * 72 - 18, name, 9.5, bold=True)
        left = 12 + self.width_of(name, 9.5, bold=True) + 8
        right = SIZE_INCHES[0] * 72 - 12 - self.width_of(what, 8) - 12
        shown = self.fitted(self.safe(inputs, 120), 7, max(right - left, 0)) if inputs and right - left > 40 else ""
        self.write(left, SIZE_INCHES[1] * 72 - 18, shown, 7, color=style.FAINT)
        self.write(SIZE_INCHES[0] * 72 - 12, SIZE_INCHES[1] * 72 - 18, what, 8, align="right", color=style.INK)

    def caption(self, *more: str) -> None:
        """Below the picture: what it is of, in at most four lines."""
        run = self.run
        device = f"{run.backend.name} on {run.device.name}"
        if run.device.kind == "cpu":
            device += f", {count(run.ceilings.threads, 'thread')}"
        share = run.coverage
        coverage = (
            f"{time_of(run)} time led to nodes: {units.format_percent(share.exact)} exactly, "
            f"~{units.format_percent(share.inferred)} by inference, "
            f"{units.format_percent(share.unattributed)} not"
        )
        latency = run.latency
        if latency.n:
            measured = f"{units.format_ns(latency.median_ns)} median of {latency.n:,}, cv {100 * latency.cv:.1f} %"
        else:
            measured = "no sample of the latency"
        parts = [self.safe(device, 90), self.safe(_clocks(run), 120), measured, coverage, *more]
        size = 6.5
        lines = self.lines_of("; ".join(part for part in parts if part) + ".", size, SIZE_INCHES[0] * 72 - 24)
        for at, line in enumerate(lines[:4]):
            # A word that nothing breaks may be wider than the picture.
            self.write(
                12, 8 + (min(len(lines), 4) - 1 - at) * 9.2, self.fitted(line, size, 480), size, color=style.FAINT
            )

    def nothing(self, what: str, why: str) -> None:
        """In place of a picture that there is nothing for."""
        self.title(what)
        self.write(SIZE_INCHES[0] * 36, SIZE_INCHES[1] * 36 + 8, why, 9, align="center", color=style.FAINT)
        self.caption()

    # --- the roofline -----------------------------------------------------------------------

    def roofline(self) -> None:
        plot = _roofline.plot_of_run(self.run)
        if plot is None:
            why = "no layer" if not self.run.layers else "no layer with arithmetic, known work and a time"
            self.nothing("roofline", f"nothing to draw: {why}")
            return
        self.title("roofline")
        axes = self.axes(0.92, 1.62)
        low, high = _logs(
            [point.intensity for point in plot.points] + [roof.ridge for roof in plot.roofs], below=0.3, above=0.45
        )
        peaks = [max(roof.flops_per_s, roof.best or 0) for roof in plot.roofs]
        rates = [point.flops_per_s for point in plot.points]
        # Names of layers that have no room below the roofs go above them.
        floor, roof = _logs([*rates, *peaks], below=0.3, above=0.5)
        floor = max(floor, math.log10(max(peaks)) - _DECADES)
        axes.set_xlim(low, high)
        axes.set_ylim(floor, roof)
        _power_ticks(axes, low, high, floor, roof)
        axes.grid(visible=True, color=style.GRID, linewidth=0.5)
        axes.set_xlabel("arithmetic intensity, FLOP per byte", fontsize=7.5, color=style.INK, labelpad=3)
        axes.set_ylabel("FLOP/s: work as counted, time as measured", fontsize=7.5, color=style.INK, labelpad=3)
        frame = _Frame(self.area(axes), low, high, floor, roof)
        dots = self._dots(axes, plot, frame)
        self._slopes(axes, plot, frame, dots)
        self._peaks(axes, plot, frame)
        self._key(plot, frame)
        named = self._names(axes, frame, dots)
        self.caption(*self._left_out(plot, frame, named))

    def _dots(self, axes: Axes, plot: _roofline.Plot, frame: _Frame) -> list[_Dot]:
        """Draw a dot a layer, those of long layers first, and say where they are."""
        longest = max(point.ns for point in plot.points)
        largest_area = _LARGEST_DOT * min(1.0, (60 / len(plot.points)) ** 0.5)
        dots = []
        for point in sorted(plot.points, key=lambda point: (-point.ns, point.layer)):
            x, y = math.log10(point.intensity), max(math.log10(point.flops_per_s), frame.floor)
            area = max(largest_area * point.ns / longest, _LEAST_DOT)
            dots.append(_Dot(x, y, frame.x(x), frame.y(y), math.sqrt(area / math.pi), point))
        axes.scatter(
            [dot.x for dot in dots],
            [dot.y for dot in dots],
            s=[dot.radius**2 * math.pi for dot in dots],
            c=[style.BOUND_COLORS.get(dot.point.bound, style.OTHER_COLOR) for dot in dots],
            alpha=0.8, linewidths=0.4 if len(dots) < 300 else 0.1, edgecolors="white", zorder=3, clip_on=False,
            rasterized=self.kind == "svg" and len(dots) > RASTER_FROM,
        )  # fmt: skip
        return dots

    def _ceiling(self, axes: Axes, ends: tuple[float, float], level: tuple[float, float], frame: _Frame, *,
                 sheet: bool) -> None:  # fmt: skip
        """Draw a ceiling between logarithms, and keep names of layers off it."""
        axes.plot(ends, level, **self._line_style(sheet=sheet))
        (left, right), (bottom, top) = map(frame.x, ends), map(frame.y, level)
        steps = max(2, math.ceil(math.hypot(right - left, top - bottom) / 5))
        for step in range(steps + 1):
            x, y = left + (right - left) * step / steps, bottom + (top - bottom) * step / steps
            frame.taken.append(_Box(x - 2.5, y - 2, x + 2.5, y + 2))

    @staticmethod
    def _line_style(*, sheet: bool) -> dict[str, Any]:
        """How ceilings look: what was measured is a line, what a datasheet says is broken."""
        return {
            "color": style.INK,
            "linewidth": 0.8 if sheet else 1.3,
            "linestyle": (0, (4, 2)) if sheet else "-",
            "zorder": 2,
        }

    @property
    def _from_sheet(self) -> bool:
        return self.run.ceilings.origin == "datasheet"

    def _slopes(self, axes: Axes, plot: _roofline.Plot, frame: _Frame, dots: Sequence[_Dot]) -> None:
        """The bandwidths, each with a label along it: that of DRAM below it, that of the cache above it."""
        highest = plot.roofs[0].flops_per_s
        cache = bound_name("l2", plot.device)
        levels = [("DRAM", plot.dram, plot.best_dram, False)]
        if plot.cache > plot.dram:
            levels.append((cache.upper(), plot.cache, plot.best_cache, True))
        best_peak = max(roof.best or roof.flops_per_s for roof in plot.roofs)
        for name, now, best, above in levels:
            for bandwidth, peak, sheet in ((best, best_peak, True), (now, highest, self._from_sheet)):
                if bandwidth is not None:
                    start = max(frame.low, frame.floor - math.log10(bandwidth))
                    end = min(math.log10(peak / bandwidth), frame.high)
                    if end > start:
                        ends = (start, end)
                        level = math.log10(bandwidth)
                        self._ceiling(axes, ends, (start + level, end + level), frame, sheet=sheet)
            label = f"{name} {units.format_rate(now, 'B/s')}" + self._or_best(best, "B/s")
            over, under = math.log10(max(now, best or 0)), math.log10(min(now, best or now))
            reach = {over: math.log10(highest if best is None or best < now else best_peak), under: math.log10(highest)}
            sides = [(over, 4.0)] if above else [(under, -8.0)]
            # Between DRAM and the cache, where there is room for words.
            if not above and len(levels) > 1:
                gap = frame.y(math.log10(min(plot.cache, plot.best_cache or plot.cache))) - frame.y(over)
                if gap * math.cos(frame.angle) > 14:
                    sides.append((over, 4.0))
            if not self._label_slope(axes, label, [(*side, reach[side[0]]) for side in sides], frame, dots):
                self._unlabelled.append(label)

    def _or_best(self, best: float | None, unit: str) -> str:
        if best is None:
            return ""
        return f" ({self._best_word} {units.format_rate(best, unit)})"

    @property
    def _best_word(self) -> str:
        return "best" if self.run.device.kind == "cpu" else "datasheet"

    def _label_slope(self, axes: Axes, label: str, sides: Sequence[tuple[float, float, float]], frame: _Frame,
                     dots: Sequence[_Dot]) -> bool:  # fmt: skip
        """A label along a slope, where it covers fewest dots; whether there was room for it.

        Args:
            axes: Where it is drawn.
            label: The words.
            sides: Bandwidths to write along, each with the points from the line to the words and the rate where the
                line ends; bandwidth and rate are logarithms.
            frame: Places on the picture.
            dots: What is drawn already.
        """
        size, angle = 6.5, frame.angle
        length = self.width_of(label, size)
        best: tuple[int, float, float] | None = None
        for level, side, highest in sides:
            start = max(frame.low, frame.floor - level) + 0.02
            end = min(highest - level, frame.high)
            # Above a line the label leans out of the axes to the left.
            first = 4 + max(side, 0) * math.tan(angle)
            room = (frame.x(end) - frame.x(start)) / math.cos(angle) - length - 3 - first
            for step in range(13 if room >= 0 else 0):
                along = first + room * step / 12
                x = frame.x(start) + along * math.cos(angle) - side * math.sin(angle)
                y = frame.y(start + level) + along * math.sin(angle) + side * math.cos(angle)
                covered = 0
                for dot in dots[:400]:
                    ahead = (dot.left - x) * math.cos(angle) + (dot.bottom - y) * math.sin(angle)
                    beside = (dot.bottom - y) * math.cos(angle) - (dot.left - x) * math.sin(angle)
                    near = -dot.radius <= ahead <= length + dot.radius and -2 - dot.radius <= beside <= 6 + dot.radius
                    covered += near
                if best is None or covered < best[0]:
                    best = covered, x, y
        if best is None:
            return False
        _, x, y = best
        axes.text(
            frame.to_x(x), frame.to_y(y), label, fontsize=size, color=style.INK, rotation=math.degrees(angle),
            rotation_mode="anchor", ha="left", va="baseline", zorder=4, bbox=_PAPER,
        )  # fmt: skip
        # Names of layers keep off it.
        for part in range(9):
            along = length * part / 8
            at_x, at_y = x + along * math.cos(angle), y + along * math.sin(angle)
            frame.taken.append(_Box(at_x - 7, at_y - 4, at_x + 7, at_y + 8))
        return True

    def _peaks(self, axes: Axes, plot: _roofline.Plot, frame: _Frame) -> None:
        """The flat roofs, with labels beside the axes that keep off each other and lead to their lines."""
        best_cache = plot.best_cache or plot.cache
        places = []
        for roof in plot.roofs:
            for peak, cache, sheet in ((roof.best, best_cache, True), (roof.flops_per_s, plot.cache, self._from_sheet)):
                if peak is not None:
                    start = max(math.log10(peak / cache), frame.low)
                    level = math.log10(peak)
                    self._ceiling(axes, (start, frame.high), (level, level), frame, sheet=sheet)
            places.append(frame.y(math.log10(roof.flops_per_s)))
        # From above: each label as near its line as the one above lets it.
        ceiling = frame.box.top + 4
        for roof, at in zip(plot.roofs, places, strict=True):
            y = min(at, ceiling)
            lines = [self.safe(roof.name, 26), units.format_rate(roof.flops_per_s, "FLOP/s")]
            if roof.best is not None:
                lines.append(f"({self._best_word} {units.format_rate(roof.best, 'FLOP/s')})")
            if y - 8 * len(lines) < frame.box.bottom + 100:
                # The key stands there.
                self._unlabelled.append(" ".join(lines))
                continue
            left = frame.box.right + 10
            axes.plot(
                [frame.high, frame.to_x(left - 2)], [math.log10(roof.flops_per_s), frame.to_y(y + 2)],
                color=style.FAINT, linewidth=0.5, clip_on=False, zorder=1,
            )  # fmt: skip
            for row, line in enumerate(lines):
                self.write(left, y - 8 * row, self.fitted(line, 6.5, 106), 6.5, bold=not row)
            ceiling = y - 8 * len(lines) - 4

    def _key(self, plot: _roofline.Plot, frame: _Frame) -> None:
        """What colours, areas and lines mean, beside the axes at their foot."""
        from matplotlib.lines import Line2D

        counts: dict[str, int] = {}
        for point in plot.points:
            bound = point.bound if point.bound in style.BOUND_COLORS else "unknown"
            counts[bound] = counts.get(bound, 0) + 1
        left, y = frame.box.right + 10, frame.box.bottom + 2
        longest = max(point.ns for point in plot.points)
        width, height = SIZE_INCHES[0] * 72, SIZE_INCHES[1] * 72

        def stroke(at: float, *, sheet: bool) -> None:
            self.figure.add_artist(
                Line2D(
                    [left / width, (left + 18) / width], [(at + 2.2) / height] * 2, transform=self.figure.transFigure,
                    **self._line_style(sheet=sheet),
                )
            )  # fmt: skip

        rows: list[Callable[[float], None]] = []

        def row(text: str, draw: Callable[[float], None] | None, indent: float = 0, *, bold: bool = False) -> None:
            def put(at: float) -> None:
                if draw is not None:
                    draw(at)
                self.write(left + indent, at, self.fitted(text, 6.5, 104 - indent), 6.5, bold=bold)

            rows.append(put)

        row("bound by", None, bold=True)
        order = [bound for bound in (*style.BOUND_COLORS, "unknown") if bound in counts]
        for bound in order:
            color = style.BOUND_COLORS.get(bound, style.OTHER_COLOR)

            def dot(at: float, color: str = color) -> None:
                self.figure.add_artist(
                    Line2D(
                        [(left + 4) / width], [(at + 2.2) / height], marker="o", markersize=5, color=color,
                        markeredgewidth=0, transform=self.figure.transFigure,
                    )
                )  # fmt: skip

            row(f"{bound_name(bound, plot.device)}: {count(counts[bound], 'layer')}", dot, 12)
        row(f"area: time, largest {units.format_ns(longest)}", None)
        if self._from_sheet:
            row("datasheet", lambda at: stroke(at, sheet=True), 24)
        else:
            cpu = self.run.device.kind == "cpu"
            row("measured, this run" if cpu else "measured", lambda at: stroke(at, sheet=False), 24)
            if any(roof.best for roof in plot.roofs) or plot.best_dram or plot.best_cache:
                row("best measured here" if cpu else "datasheet", lambda at: stroke(at, sheet=True), 24)
        for at, put in enumerate(reversed(rows)):
            put(y + at * 9.6)

    def _names(self, axes: Axes, frame: _Frame, dots: Sequence[_Dot]) -> int:
        """Name the layers that lose most time where there is room beside their dots; how many were named.

        Layers whose dots lie on each other share a label.
        """
        wanted = [dot for dot in sorted(dots, key=lambda dot: dot.point.layer) if self._loses(dot.point.layer)]
        size = 6.5
        named = 0
        frame.cover(dots)
        groups: list[list[_Dot]] = []
        for dot in wanted[:LABELLED]:
            near = (group for group in groups if math.hypot(group[0].left - dot.left, group[0].bottom - dot.bottom) < 8)
            group = next(near, None)
            if group is None:
                groups.append([dot])
            else:
                group.append(dot)
        for group in groups:
            dot = group[0]
            place = None
            # Where a whole name has no room, a shorter one may.
            for longest in (_NAME, _NAME // 2):
                lines = []
                for each in group:
                    layer = self.run.layers[each.point.layer]
                    lines += [self._layer_name(layer, longest), f"~{units.format_ns(layer.lost_ns or 0)} lost"]
                place = frame.place(dot, max(self.width_of(line, size) for line in lines), (size + 1) * len(lines) + 1)
                if place is not None:
                    break
            if place is None:
                continue
            named += len(group)
            box = place.box
            # Words of two labels side by side do not read as one.
            frame.taken.append(_Box(box.left - 6, box.bottom - 1, box.right + 6, box.top + 1))
            frame.named.append(box)
            for each in group:
                axes.scatter(
                    [each.x], [each.y], s=each.radius**2 * math.pi, facecolors="none", edgecolors=style.INK,
                    linewidths=0.8, zorder=4, clip_on=False,
                )  # fmt: skip
            end = dot.left
            if place.line is not None:
                (x, y), (end, to_y) = place.line
                axes.plot(
                    [frame.to_x(x), frame.to_x(end)], [frame.to_y(y), frame.to_y(to_y)], color=style.INK,
                    linewidth=0.5, zorder=4, solid_capstyle="round",
                )  # fmt: skip
                steps = [_Box(at_x - 2, at_y - 2, at_x + 2, at_y + 2) for at_x, at_y in _along(place.line)]
                frame.taken += steps
                # Lines to dots that lie on each other come together at their ends.
                frame.named += steps[len(steps) // 3 :]
            # The words end at the dot that they are about.
            right = end > (box.left + 3 * box.right) / 4
            for at, line in enumerate(lines):
                axes.text(
                    frame.to_x(box.right if right else box.left), frame.to_y(box.top - (at + 1) * (size + 1)), line,
                    fontsize=size, zorder=5, color=style.FAINT if at % 2 else style.INK,
                    ha="right" if right else "left", va="baseline", bbox=_PAPER,
                )  # fmt: skip
        return named

    def _loses(self, layer: int) -> bool:
        return (self.run.layers[layer].lost_ns or 0) > 0

    def _layer_name(self, layer: LayerResult, width: int) -> str:
        """Op type and last node, as in the terminal report."""
        own = layer.nodes and layer.role in ("compute", "control")
        name = layer.nodes[-1] if own else layer.name
        more = f" +{len(layer.nodes) - 1}" if own and len(layer.nodes) > 1 else ""
        op = self.safe(layer.op_type, width // 3)
        return f"{op} {self.safe(name, width - len(op) - len(more) - 1)}{more}"

    def _left_out(self, plot: _roofline.Plot, frame: _Frame, named: int) -> list[str]:
        """What a reader would miss, in words."""
        run = self.run
        words = []
        drawn = {point.layer for point in plot.points}
        absent = [layer for place, layer in enumerate(run.layers) if place not in drawn]
        if absent:
            total = sum(layer.measured_ns for layer in run.layers)
            share = sum(layer.measured_ns for layer in absent) / total if total else 0.0
            words.append(
                f"not drawn: {count(len(absent), 'layer')} without arithmetic, known work or a time, "
                f"{units.format_percent(share)} of the time"
            )
        if self._unlabelled:
            words.append(f"without a label: {', '.join(self._unlabelled)}")
        low = sum(math.log10(point.flops_per_s) < frame.floor for point in plot.points)
        if low:
            words.append(f"{count(low, 'layer')} slower than the picture shows, on its lower border")
        wanted = min(sum(self._loses(point.layer) for point in plot.points), LABELLED)
        if wanted:
            words.append(
                f"named: {'the' if named == wanted else f'{named} of the'} {count(wanted, 'layer')} with most time lost"
                + (", as there was room" if named < wanted else "")
            )
        if self.kind == "svg" and len(plot.points) > RASTER_FROM:
            words.append(f"{len(plot.points):,} dots drawn as one image")
        return words

    # --- the ledger -------------------------------------------------------------------------

    def ledger(self) -> None:
        run = self.run
        rows = largest([row for row in run.ledger if row.ns], LEDGER_ROWS)
        layers_only = bool(not run.latency.n and run.latency.median_ns)
        whole = "sum of the layers" if layers_only else "end to end, measured"
        if not rows:
            self.nothing("ledger", "nothing to draw: no ledger")
            return
        self.title(f"ledger: from ideal to {'the sum of the layers' if layers_only else 'end to end'}")
        names = [self.fitted(self.safe(row.cause, 40), 7.5, 132) for row in rows]
        left = max(self.width_of(name, 7.5) for name in [*names, whole]) + 24
        axes = self.axes(left / 72, 0.25)
        sums = [0]
        for row in rows:
            sums.append(sums[-1] + row.ns)
        median = run.latency.median_ns
        low, high = min(*sums, 0), max(*sums, median)
        span = high - low or 1
        values = [self._value(row) for row in rows] + [units.format_ns(median)]
        # Room for the widest value behind the longest bar.
        room = (max(self.width_of(value, 7) for value in values) + 8) / (self.area(axes).right - self.area(axes).left)
        axes.set_xlim(low - span * (0.02 + (room if low < 0 else 0)), low + span * (1.01 + room / (1 - room)))
        axes.set_ylim(len(rows) + 0.6, -0.6)
        self._bars(axes, rows, sums, values)
        axes.barh(len(rows), median, height=0.62, color=style.TOTAL_COLOR, zorder=2)
        axes.text(
            median + span * 0.012, len(rows), values[-1], fontsize=7, va="center", ha="left", color=style.INK,
            fontweight="bold",
        )  # fmt: skip
        axes.spines["left"].set_visible(False)
        axes.axvline(0, color=style.FAINT, linewidth=0.8, zorder=1)
        axes.set_yticks(range(len(rows) + 1), [*names, whole], fontsize=7.5)
        axes.tick_params(axis="y", length=0)
        self._time_ticks(axes)
        axes.grid(visible=True, axis="x", color=style.GRID, linewidth=0.5)
        self._kinds({row.kind for row in rows}, whole)
        words = []
        if gap := ledger_gap_ns(run):
            words.append(
                f"the rows miss {'the sum of the layers' if layers_only else 'the median'} by {units.format_ns(gap)}"
            )
        else:
            words.append(f"the rows add up to {'the sum of the layers' if layers_only else 'the median'}")
        self.caption(*words)

    def _value(self, row: LedgerRow) -> str:
        median = self.run.latency.median_ns
        mark = {"fact": "", "estimate": "~", "remainder": "="}[row.kind]
        share = f"  {100 * row.ns / median:.0f} %" if median else ""
        return f"{mark}{units.format_ns(row.ns)}{share}"

    def _bars(self, axes: Axes, rows: Sequence[LedgerRow], sums: Sequence[int], values: Sequence[str]) -> None:
        low, high = axes.get_xlim()
        gap = (high - low) * 0.008
        for at, (row, start, value) in enumerate(zip(rows, sums, values, strict=False)):
            axes.barh(
                at, row.ns, left=start, height=0.62, facecolor=style.KIND_COLORS[row.kind],
                hatch=style.KIND_HATCHES[row.kind], edgecolor=style.KIND_COLORS["fact"], linewidth=0.8, zorder=2,
            )  # fmt: skip
            axes.plot([sums[at + 1]] * 2, [at + 0.31, at + 0.69], color=style.FAINT, linewidth=0.6, zorder=1)
            axes.text(
                max(start, start + row.ns) + gap, at, value, fontsize=7, va="center", ha="left", color=style.INK,
                bbox=_PAPER,
            )  # fmt: skip

    @staticmethod
    def _time_ticks(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ns, _: "0" if not ns else _short(units.format_ns(ns))))

    def _kinds(self, kinds: Iterable[str], whole: str) -> None:
        """What the fills mean, below the axes."""
        from matplotlib.patches import Rectangle

        width, height = SIZE_INCHES[0] * 72, SIZE_INCHES[1] * 72
        x, y = 12.0, 48.0
        shown = [(kind, KIND_WORDS[kind]) for kind in ("fact", "estimate", "remainder") if kind in kinds]
        words = {"fact": "measured", "estimate": "~ estimate, computed", "remainder": "= remainder, without a name"}
        for kind, _ in shown:
            self.figure.add_artist(
                Rectangle(
                    (x / width, (y - 1) / height), 16 / width, 7 / height, transform=self.figure.transFigure,
                    facecolor=style.KIND_COLORS[kind], hatch=style.KIND_HATCHES[kind],
                    edgecolor=style.KIND_COLORS["fact"], linewidth=0.8,
                )
            )  # fmt: skip
            self.write(x + 20, y, words[kind], 7)
            x += 20 + self.width_of(words[kind], 7) + 16
        self.figure.add_artist(
            Rectangle((x / width, (y - 1) / height), 16 / width, 7 / height, transform=self.figure.transFigure,
                      facecolor=style.TOTAL_COLOR, edgecolor="none")
        )  # fmt: skip
        self.write(x + 20, y, whole, 7)


class _Dot(NamedTuple):
    """A drawn layer: its logarithms, and its place and radius in points."""

    x: float
    y: float
    left: float
    bottom: float
    radius: float
    point: _roofline.Point


class _Frame:
    """From logarithms to points on the picture and back, and what is taken of it."""

    def __init__(self, box: _Box, low: float, high: float, floor: float, roof: float) -> None:
        self.box, self.low, self.high, self.floor, self.roof = box, low, high, floor, roof
        self.taken: list[_Box] = []
        """By lines and words: no name of a layer goes there."""
        self.named: list[_Box] = []
        """By names of layers and the lines to their dots: no other such line goes there."""
        self._covered: set[tuple[int, int]] = set()
        """By dots, in squares of `_CELL`."""

    @property
    def angle(self) -> float:
        """Of a bandwidth: a rate that grows as the intensity does."""
        return math.atan2(self.y(1) - self.y(0), self.x(1) - self.x(0))

    def x(self, log: float) -> float:
        return self.box.left + (log - self.low) / (self.high - self.low) * (self.box.right - self.box.left)

    def y(self, log: float) -> float:
        return self.box.bottom + (log - self.floor) / (self.roof - self.floor) * (self.box.top - self.box.bottom)

    def to_x(self, points: float) -> float:
        return self.low + (points - self.box.left) / (self.box.right - self.box.left) * (self.high - self.low)

    def to_y(self, points: float) -> float:
        return self.floor + (points - self.box.bottom) / (self.box.top - self.box.bottom) * (self.roof - self.floor)

    def cover(self, dots: Iterable[_Dot]) -> None:
        """Remember where dots are."""
        for dot in dots:
            across = range(int((dot.left - dot.radius) / _CELL), int((dot.left + dot.radius) / _CELL) + 1)
            up = range(int((dot.bottom - dot.radius) / _CELL), int((dot.bottom + dot.radius) / _CELL) + 1)
            self._covered.update((x, y) for x in across for y in up)

    def place(self, dot: _Dot, width: float, height: float) -> _Place | None:
        """Where a label of this size goes: over nothing that is taken, off dots, near its own; None where nowhere."""
        boxes = []
        for column in range(int((self.box.right - self.box.left - width) / 8) + 1):
            for row in range(int((self.box.top - self.box.bottom - height) / 5) + 1):
                left, bottom = self.box.left + 2 + column * 8, self.box.top - height - row * 5
                box = _Box(left, bottom, left + width, bottom + height)
                boxes.append((max(_distance(dot, box) - dot.radius, 0.0), box))
        # Beside the dot itself is better than on the grid.
        for left in (dot.left + dot.radius + 3, dot.left - dot.radius - 3 - width):
            bottom = dot.bottom - height / 2
            boxes.append((0.0, _Box(left, bottom, left + width, bottom + height)))
        best: tuple[float, _Place] | None = None
        for distance, box in sorted(boxes):
            if distance > _REACH or (best is not None and distance >= best[0]):
                break
            if not box.within(self.box) or any(box.overlaps(other) for other in self.taken):
                continue
            across = range(int(box.left / _CELL), int(box.right / _CELL) + 1)
            up = range(int(box.bottom / _CELL), int(box.top / _CELL) + 1)
            covered = sum((x, y) in self._covered for x in across for y in up)
            if covered > _MOST_COVERED or (best is not None and distance + 8.0 * covered >= best[0]):
                continue
            found = self._leader(dot, box)
            if found is not None and (best is None or found[0] + 8.0 * covered < best[0]):
                best = found[0] + 8.0 * covered, _Place(box, found[1])
        return None if best is None else best[1]

    def _leader(self, dot: _Dot, box: _Box) -> tuple[float, _Segment | None] | None:
        """The shortest line from the border of a dot to a label that crosses no other name, and its length.

        The line is None where the label is beside the dot; all of it is None where every line crosses something.
        """
        nearest = _nearest(dot, box)
        if _distance(dot, box) <= dot.radius + 4:
            return 0.0, None
        middle_x, middle_y = (box.left + box.right) / 2, (box.bottom + box.top) / 2
        ends = [
            nearest, (box.left, middle_y), (box.right, middle_y), (middle_x, box.top), (middle_x, box.bottom),
            (box.left, box.top), (box.right, box.top), (box.left, box.bottom), (box.right, box.bottom),
        ]  # fmt: skip
        for length, (x, y) in sorted((math.hypot(x - dot.left, y - dot.bottom), (x, y)) for x, y in ends):
            part = dot.radius / length if length else 0.0
            line = (dot.left + (x - dot.left) * part, dot.bottom + (y - dot.bottom) * part), (x, y)
            if not any(
                other.left < at_x < other.right and other.bottom < at_y < other.top
                for at_x, at_y in _along(line)
                for other in (*self.named, box)
            ):
                return length - dot.radius, line
        return None


class _Place(NamedTuple):
    """Where the name of a layer goes, and the line from its dot; None where it needs none."""

    box: _Box
    line: _Segment | None


def _nearest(dot: _Dot, box: _Box) -> tuple[float, float]:
    return min(max(dot.left, box.left), box.right), min(max(dot.bottom, box.bottom), box.top)


def _distance(dot: _Dot, box: _Box) -> float:
    """From the middle of a dot to the nearest place of a box."""
    x, y = _nearest(dot, box)
    return math.hypot(x - dot.left, y - dot.bottom)


_Segment = tuple[tuple[float, float], tuple[float, float]]


def _along(segment: _Segment) -> list[tuple[float, float]]:
    """Places on a line, some points apart, without its ends."""
    (x, y), (to_x, to_y) = segment
    steps = max(2, math.ceil(math.hypot(to_x - x, to_y - y) / 4))
    return [(x + (to_x - x) * step / steps, y + (to_y - y) * step / steps) for step in range(1, steps)]


def _logs(values: Iterable[float], *, below: float, above: float) -> tuple[float, float]:
    """Logarithms to base 10 of the least and the largest value, with room; at least two powers of ten."""
    logs = [math.log10(value) for value in values]
    low, high = min(logs) - below, max(logs) + above
    missing = max(2 - (high - low), 0) / 2
    return low - missing, high + missing


def _power_ticks(axes: Axes, low: float, high: float, floor: float, roof: float) -> None:
    """Ticks at powers of ten, as many as can be read."""
    step = max(1, math.ceil((high - low) / 7))
    powers = range(math.ceil(low), math.floor(high) + 1, step)
    axes.set_xticks(list(powers), [f"{10.0**power:g}" for power in powers])
    step = max(1, math.ceil((roof - floor) / 8))
    powers = range(math.ceil(floor), math.floor(roof) + 1, step)
    axes.set_yticks(list(powers), [_short(units.format_rate(10.0**power, "FLOP/s")) for power in powers])


def _short(text: str) -> str:
    """A round number without its zeros behind the point: ``10.0 us`` is ``10 us``."""
    number, _, unit = text.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def _clocks(run: Run) -> str:
    """The clocks that were there, in words."""
    for clocks in (run.clocks, run.clocks_profiled):
        if clocks is not None and clocks.samples and (text := clock_text(clocks)):
            return f"clocks: {text}"
    if run.device.clock_mhz is not None:
        return f"clock {run.device.clock_mhz:,.0f} MHz as the system states it"
    return "clocks unknown"
