"""Pictures for a paper or a README: the roofline, the ledger as a waterfall, one inference in time, as PNG or SVG.

`ReportOptions.figure` says which of them. A picture is 7 x 4.5 inches, of 200 dots an inch as PNG, and says below
itself what it is of: device, clocks, coverage, and what it leaves out. The same run gives the same bytes with one
version of matplotlib, whatever the settings of the user, and nothing in matplotlib stays changed. Text in an SVG is
drawn as outlines, so that it needs no font. Of many layers the dots in an SVG are one image, which the picture says.
The layers that lose most have numbers at their dots, and their names below.
"""

from __future__ import annotations

import importlib.util
import io
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trtprof.base import units
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import LayerResult, LedgerRow, OpSweep, Prediction, Run, bound_name
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, _roofline, reporter
from trtprof.report._cells import elide
from trtprof.report._format import (
    KIND_WORDS,
    clock_text,
    count,
    largest,
    ledger_gap_ns,
    spread_text,
    tensor_text,
    time_of,
)
from trtprof.report.formats import _op_pictures
from trtprof.report.formats import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (7.0, 4.5)
DPI = 200

LABELLED = 5  # Layers that are named in a roofline: those that lose most time

RASTER_FROM = 1000
"""From so many layers on, dots in an SVG are drawn as an image: as shapes they would make it slow to show."""

LEDGER_ROWS = 14  # Most rows of a waterfall; the smallest become one

_LARGEST_DOT = 300.0
_LEAST_DOT = 5.0  # Areas of dots in square points
_DECADES = 7  # Powers of ten of the rates that a roofline shows below its highest roof; slower layers lie on its border
_NAME = 44  # Characters of a name
_DIGIT = 4.0  # Points of the radius of a dot that has room for a digit
_ROWS = 3  # Names of layers in a column below the axes
_BELOW = 1.62  # Height in inches of what stands below the axes of a roofline
_BELOW_LEDGER = 1.06  # The same of a ledger

_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
"""Behind words that stand over lines and dots."""

_SETTINGS_HELD = threading.Lock()  # matplotlib has one set of settings for all threads

_FEW_EVENTS = 300  # Events of a lane that have edges

Format = Literal["png", "svg"]


@reporter("png", suffix=".png", binary=True, of=(Run, Prediction, OpSweep))
def encode_png(found: Run | Prediction | OpSweep, options: ReportOptions) -> bytes:
    """The picture as PNG, 1400 x 900."""
    return _picture(found, options, "png")


@reporter("svg", suffix=".svg", of=(Run, Prediction, OpSweep))
def render_svg(found: Run | Prediction | OpSweep, options: ReportOptions) -> str:
    """The picture as SVG."""
    return _picture(found, options, "svg").decode()


def _picture(found: Run | Prediction | OpSweep, options: ReportOptions, kind: Format) -> bytes:
    """The picture of a record."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingError(
            f"{kind} pictures need matplotlib",
            why="it is not installed here; all other formats, the HTML page with its drawings included, need none",
            fix="python -m pip install 'trtprof[figures]'",
        )
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
        elif options.figure == "timeline":
            page.timeline()
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
        widths = {word: self.width_of(f"{word} ", size) for word in set(text.split())}
        room = 0.0
        for word in text.split():
            room -= widths[word]
            # Only near the end of a line does it matter that letters are set closer than one by one.
            near = abs(room) < 0.1 * width
            if lines and (self.width_of(f"{lines[-1]} {word}", size) <= width if near else room > 0):
                lines[-1] += f" {word}"
            else:
                lines.append(word)
                room = width - widths[word]
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

    def axes(self, left: float, right: float, below: float = _BELOW) -> Axes:
        """Axes with so many inches beside them, their frame on the left and below."""
        width, height = SIZE_INCHES
        top = 0.42
        axes = self.figure.add_axes(
            (left / width, below / height, (width - left - right) / width, (height - below - top) / height)
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
            f"{time_of(run)} time attributed to nodes: {units.format_percent(share.exact)} exactly, "
            f"~{units.format_percent(share.inferred)} by inference, "
            f"{units.format_percent(share.unattributed)} not"
        )
        latency = run.latency
        if latency.n:
            measured = f"{units.format_ns(latency.headline_ns)} ({spread_text(latency)})"
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
        self._slopes(axes, plot, frame)
        self._peaks(axes, plot, frame)
        self._key(plot, frame)
        self._names(axes, frame, dots)
        self.caption(*self._left_out(plot, frame))

    def _dots(self, axes: Axes, plot: _roofline.Plot, frame: _Frame) -> list[_Dot]:
        """Draw a dot a layer, those of long layers first, and say where they are."""
        longest = max(point.ns for point in plot.points)
        largest_area = _LARGEST_DOT * min(1.0, (60 / len(plot.points)) ** 0.5)
        dots = []
        for point in sorted(plot.points, key=lambda point: (-point.ns, point.layer)):
            x, y = math.log10(point.intensity), max(math.log10(point.flops_per_s), frame.floor)
            area = max(largest_area * point.ns / longest, _LEAST_DOT)
            dots.append(_Dot(x, y, math.sqrt(area / math.pi), point))
        axes.scatter(
            [dot.x for dot in dots],
            [dot.y for dot in dots],
            s=[dot.radius**2 * math.pi for dot in dots],
            c=[style.BOUND_COLORS.get(dot.point.bound, style.OTHER_COLOR) for dot in dots],
            alpha=0.8, linewidths=0.4 if len(dots) < 300 else 0.1, edgecolors="white", zorder=3, clip_on=False,
            rasterized=self.kind == "svg" and len(dots) > RASTER_FROM,
        )  # fmt: skip
        return dots

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

    def _slopes(self, axes: Axes, plot: _roofline.Plot, frame: _Frame) -> None:
        """The bandwidths, each with a label along it: that of DRAM below it, that of the cache above it."""
        highest = plot.roofs[0].flops_per_s
        levels = [("DRAM", plot.dram, plot.best_dram, -8.0)]
        if plot.cache > plot.dram:
            levels.append((bound_name("l2", plot.device), plot.cache, plot.best_cache, 4.0))
        best_peak = max(roof.best or roof.flops_per_s for roof in plot.roofs)
        for name, now, best, side in levels:
            for bandwidth, peak, sheet in ((best, best_peak, True), (now, highest, self._from_sheet)):
                if bandwidth is not None:
                    start = max(frame.low, frame.floor - math.log10(bandwidth))
                    end = min(math.log10(peak / bandwidth), frame.high)
                    level = math.log10(bandwidth)
                    axes.plot((start, end), (start + level, end + level), **self._line_style(sheet=sheet))
            # Over the outer of both lines, or under it.
            level = math.log10((max if side > 0 else min)(now, best or now))
            start = max(frame.low, frame.floor - level)
            label = f"{name} {units.format_rate(now, 'B/s')}" + self._or_best(best, "B/s")
            axes.annotate(
                label, (start, start + level), (6 - side * math.sin(frame.angle), side * math.cos(frame.angle)),
                textcoords="offset points", fontsize=6.5, color=style.INK, rotation=math.degrees(frame.angle),
                rotation_mode="anchor", ha="left", va="baseline", zorder=2.5, annotation_clip=False,
            )  # fmt: skip

    def _or_best(self, best: float | None, unit: str) -> str:
        if best is None:
            return ""
        return f" ({self._best_word} {units.format_rate(best, unit)})"

    @property
    def _best_word(self) -> str:
        return "best" if self.run.device.kind == "cpu" else "datasheet"

    def _peaks(self, axes: Axes, plot: _roofline.Plot, frame: _Frame) -> None:
        """The flat roofs, with labels beside the axes that keep off each other and lead to their lines."""
        best_cache = plot.best_cache or plot.cache
        places = []
        for roof in plot.roofs:
            for peak, cache, sheet in ((roof.best, best_cache, True), (roof.flops_per_s, plot.cache, self._from_sheet)):
                if peak is not None:
                    start = max(math.log10(peak / cache), frame.low)
                    level = math.log10(peak)
                    axes.plot((start, frame.high), (level, level), **self._line_style(sheet=sheet))
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
                [frame.high, frame.high + (frame.high - frame.low) * 8 / (frame.box.right - frame.box.left)],
                [math.log10(roof.flops_per_s), frame.floor + (y + 2 - frame.box.bottom) / (frame.y(1) - frame.y(0))],
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

    def _names(self, axes: Axes, frame: _Frame, dots: Sequence[_Dot]) -> None:
        """Number the layers that lose most time, and name them below the axes."""
        wanted = [dot for dot in sorted(dots, key=lambda dot: dot.point.layer) if self._loses(dot.point.layer)]
        groups: list[tuple[_Dot, list[str]]] = []
        for at, dot in enumerate(wanted[:LABELLED], 1):
            near = (numbers for other, numbers in groups if frame.apart(dot, other) < 2 * _DIGIT)
            numbers = next(near, None)
            if numbers is None:
                groups.append((dot, [str(at)]))
            else:
                numbers.append(str(at))
            axes.scatter(
                [dot.x], [dot.y], s=dot.radius**2 * math.pi, facecolors="none", edgecolors=style.INK, linewidths=0.8,
                zorder=4, clip_on=False,
            )  # fmt: skip
            layer = self.run.layers[dot.point.layer]
            column, row = divmod(at - 1, _ROWS)
            left, bottom = 12 + column * SIZE_INCHES[0] * 36, 74 - row * 9.6
            self.write(left, bottom, str(at), 6.5, bold=True)
            lost = f"~{units.format_ns(layer.lost_ns or 0)} lost"
            self.write(left + 10, bottom, lost, 6.5, color=style.FAINT)
            self.write(left + 62, bottom, self.fitted(self._layer_name(layer, _NAME), 6.5, 176), 6.5)
        for dot, numbers in groups:
            # Inside a dot that has room for it, else above it.
            inside = dot.radius > _DIGIT * len(numbers)
            axes.annotate(
                ", ".join(numbers), (dot.x, dot.y), (0, 0 if inside else dot.radius + 5), textcoords="offset points",
                fontsize=6.5, fontweight="bold", color="white" if inside else style.INK, ha="center", va="center",
                zorder=5, annotation_clip=False,
            )  # fmt: skip

    def _loses(self, layer: int) -> bool:
        return (self.run.layers[layer].lost_ns or 0) > 0

    def _layer_name(self, layer: LayerResult, width: int) -> str:
        """Op type and last node, as in the terminal report."""
        own = layer.nodes and layer.role in ("compute", "control")
        name = layer.nodes[-1] if own else layer.name
        more = f" +{len(layer.nodes) - 1}" if own and len(layer.nodes) > 1 else ""
        op = self.safe(layer.op_type, width // 3)
        return f"{op} {self.safe(name, width - len(op) - len(more) - 1)}{more}"

    def _left_out(self, plot: _roofline.Plot, frame: _Frame) -> list[str]:
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
            words.append(f"numbered: the {count(wanted, 'layer')} with most time lost")
        if self.kind == "svg" and len(plot.points) > RASTER_FROM:
            words.append(f"{len(plot.points):,} dots drawn as one image")
        return words

    # --- the timeline -----------------------------------------------------------------------

    def timeline(self) -> None:
        found = self.run.timeline
        if found is None or not found.start_ns:
            self.nothing("timeline", "nothing to draw: nobody saw when kernels ran")
            return
        self.title("timeline: one inference as captured")
        names = [self.fitted(self.safe(lane.name, 40), 7.5, 120) for lane in found.lanes]
        axes = self.axes((max(self.width_of(name, 7.5) for name in names) + 24) / 72, 0.25, _BELOW_LEDGER)
        bounds = {layer.name: layer.bound for layer in self.run.layers}
        of_layer = [bounds.get(name, "") for name in found.layers]
        for at in range(len(found.lanes)):
            events = [number for number, lane in enumerate(found.lane) if lane == at]
            axes.broken_barh(
                [(found.start_ns[number], max(found.dur_ns[number], 1)) for number in events],
                (at - 0.3, 0.6),
                facecolors=[
                    style.BOUND_COLORS.get(of_layer[place] if (place := found.layer[number]) >= 0 else "", style.FAINT)
                    for number in events
                ],
                edgecolors="white", linewidth=0.3 if len(events) < _FEW_EVENTS else 0, zorder=2,
                rasterized=self.kind == "svg" and len(events) > RASTER_FROM,
            )  # fmt: skip
        axes.set_xlim(0, max(start + took for start, took in zip(found.start_ns, found.dur_ns, strict=True)))
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_yticks(range(len(names)), names, fontsize=7.5)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        self._time_ticks(axes)
        axes.grid(visible=True, axis="x", color=style.GRID, linewidth=0.5)
        self._bounds(set(of_layer))
        self.caption(f"{count(len(found.start_ns), 'event')}", self.safe(found.note, 200))

    def _bounds(self, bounds: set[str]) -> None:
        """What the colours of layers mean, below the axes."""
        left, size = 12.0, 7.0
        for bound, color in style.BOUND_COLORS.items():
            if bound in bounds:
                word = bound_name(bound, self.run.device.kind)
                self.write(left, 52, "\u25a0", size, color=color)
                self.write(left + 9, 52, word, size)
                left += 9 + self.width_of(word, size) + 10

    # --- the ledger -------------------------------------------------------------------------

    def ledger(self) -> None:
        run = self.run
        rows = largest([row for row in run.ledger if row.ns], LEDGER_ROWS)
        layers_only = bool(not run.latency.n and run.latency.headline_ns)
        whole = "sum of the layers" if layers_only else "end to end, measured"
        if not rows:
            self.nothing("ledger", "nothing to draw: no ledger")
            return
        self.title(f"ledger: from ideal to {'the sum of the layers' if layers_only else 'end to end'}")
        names = [self.fitted(self.safe(row.cause, 40), 7.5, 132) for row in rows]
        left = max(self.width_of(name, 7.5) for name in [*names, whole]) + 24
        axes = self.axes(left / 72, 0.25, _BELOW_LEDGER)
        sums = [0]
        for row in rows:
            sums.append(sums[-1] + row.ns)
        median = run.latency.headline_ns
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
        total = "the sum of the layers" if layers_only else "the median"
        gap = ledger_gap_ns(run)
        self.caption(f"the rows miss {total} by {units.format_ns(gap)}" if gap else f"the rows add up to {total}")

    def _value(self, row: LedgerRow) -> str:
        median = self.run.latency.headline_ns
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
    """A drawn layer: its logarithms, and its radius in points."""

    x: float
    y: float
    radius: float
    point: _roofline.Point


class _Frame(NamedTuple):
    """The axes: where they lie in points, and the logarithms at their ends."""

    box: _Box
    low: float
    high: float
    floor: float
    roof: float

    @property
    def angle(self) -> float:
        """Of a bandwidth: a rate that grows as the intensity does."""
        return math.atan2(self.y(1) - self.y(0), self.x(1) - self.x(0))

    def x(self, log: float) -> float:
        """From a logarithm to points."""
        return self.box.left + (log - self.low) / (self.high - self.low) * (self.box.right - self.box.left)

    def y(self, log: float) -> float:
        """Likewise."""
        return self.box.bottom + (log - self.floor) / (self.roof - self.floor) * (self.box.top - self.box.bottom)

    def apart(self, dot: _Dot, other: _Dot) -> float:
        """Points between the middles of two dots."""
        return math.hypot(self.x(dot.x) - self.x(other.x), self.y(dot.y) - self.y(other.y))


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
