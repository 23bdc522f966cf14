"""What `trtprof sweep OP` prints and draws: work, intensity and time of one op over a sweep of its shape."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from profiler.base.errors import UsageError
from profiler.base.records import OpSweep, OpSweepDevice, OpSweepPoint, OpSweepTime, bound_name
from profiler.base.units import format_bytes, format_flops, format_ns, format_percent, format_rate
from profiler.report._format import count, visible
from profiler.report.csv_ import safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    "shapes", "compute_dtype", "macs", "flops", "tensor_flops", "vector_flops", "special_flops", "bytes_read",
    "bytes_written", "bytes_parameters", "intensity", "device", "time_ns", "ideal_ns", "roofline_ns", "bound",
    "runner_up", "bound_changed", "of_peak", "ridge", "dram_bytes", "cache_bytes",
)  # fmt: skip
"""Columns of the CSV behind those of the swept parameters: one row a point and device."""

_MARKERS = {"tensor": "s", "vector": "D", "sfu": "P", "dram": "o", "l2": "v", "launch": "^", "none": "x"}
"""Shapes of the points of the picture by what bounds them."""
_DRAWN = 10
"""Lines in a picture: more cannot be told apart."""
_LETTERS = "abcdefghij"
_ROWS = 9
"""Height of a plot of characters."""
_SKIPS = 3
"""Skipped combinations that are listed."""


def render_json(found: OpSweep) -> str:
    """The sweep as one JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1).decode() + "\n"


def render_csv(found: OpSweep) -> str:
    """One row a point and device with a header row, exact numbers; without a device its cells are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(dim.name for dim in found.dims), *COLUMNS])
    for point in found.points:
        work = point.work
        left = (
            *point.at.values(), point.shapes, work.dtype, work.macs, work.flops, work.tensor_flops, work.vector_flops,
            work.special_flops, work.bytes_read, work.bytes_written, work.bytes_parameters, _exact(point.intensity),
        )  # fmt: skip
        for time in point.times or (None,):
            writer.writerow([safe(cell) for cell in (*left, *_time_cells(time))])
    return out.getvalue()


def _time_cells(time: OpSweepTime | None) -> tuple[str | int | None, ...]:
    if time is None:
        return (None,) * (len(COLUMNS) - COLUMNS.index("device"))
    found = time.estimate
    return (
        time.device, found.attainable_ns, found.ideal_ns, found.roofline_ns, found.bound, found.runner_up,
        "true" if time.changed else "false", _exact(time.of_peak), _exact(time.ridge), found.dram_bytes,
        found.cache_bytes,
    )  # fmt: skip


def _exact(value: float | None) -> str | None:
    return None if value is None else repr(value)


def render_markdown(found: OpSweep) -> str:
    """A heading, the devices, the table and what it shows."""
    columns = [
        column._replace(title=f"{column.title} {group.title}".strip())
        for group in _groups(found)
        for column in group.columns
    ]
    rows = [
        [column.title for column in columns],
        ["---" if column.left else "---:" for column in columns],
        *zip(*(column.cells for column in columns), strict=True),
    ]
    lines = [
        f"# {_title(found)}",
        "",
        _fixed(found),
        "",
        *(f"- {line}" for line in _conditions(found)),
        "",
        *("| " + " | ".join(cell.strip().replace("|", "\\|") for cell in row) + " |" for row in rows),
        "",
        *(f"- {line}" for line in (*found.shows, *_skipped(found))),
        "",
        *(f"- {line}" for line in _notes(found)),
    ]
    return "\n".join(map(visible, lines)).rstrip() + "\n"


def render_text(found: OpSweep, width: int = 80) -> str:
    """The conditions, one row a point, plots of characters, and what it shows, at most ``width`` columns wide."""
    lines = [_title(found), *_wrapped(_fixed(found), width)]
    lines += [line for text in _conditions(found) for line in _wrapped(text, width)]
    lines += ["", *_tables(found, width)]
    if any(time.changed for point in found.points for time in point.times):
        lines.append(f"* another bound than at the {found.dims[0].name} before")
    lines += ["", *_plots(found, width)]
    for part in ((*found.shows, *_skipped(found)), tuple(_notes(found))):
        lines += [line for text in part for line in _wrapped(text, width)] + ([""] if part else [])
    return "\n".join(map(visible, lines)).rstrip() + "\n"


# --- words ----------------------------------------------------------------------------------


def _title(found: OpSweep) -> str:
    if not found.dims:
        return found.op
    return f"{found.op} over " + " and ".join(f"{dim.name} ({len(dim.values)})" for dim in found.dims)


def _fixed(found: OpSweep) -> str:
    return "  ".join(f"{name}={value}" for name, value in found.fixed.items())


def _conditions(found: OpSweep) -> Iterator[str]:
    for index, device in enumerate(found.devices):
        roof = device.ceilings.attainable
        ridges = ", ".join(f"{_ridge(values)} ({dtype})" for dtype, values in _ridges(found, index).items())
        yield (
            f"{device.slug}: {device.name}, DRAM {format_rate(roof.dram_bytes_per_s, 'B/s')}, "
            f"launch {format_ns(device.ceilings.launch_ns)}, ridge {ridges or 'none'} FLOP/byte"
        )
    if found.devices:
        yield (
            "cold: every byte crosses to DRAM"
            if found.cold
            else "warm: the op runs again and again, and finds in the last-level cache what fits there"
        )


def _ridges(found: OpSweep, index: int) -> dict[str, list[float]]:
    """Ridges of a device by what is computed with."""
    ridges: dict[str, list[float]] = {}
    for point in found.points:
        ridge = point.times[index].ridge
        if ridge is not None:
            ridges.setdefault(point.work.dtype, []).append(ridge)
    return ridges


def _ridge(values: Sequence[float]) -> str:
    low, high = _number(min(values)), _number(max(values))
    return low if low == high else f"{low} to {high}"


def _skipped(found: OpSweep) -> Iterator[str]:
    if not found.skipped:
        return
    yield f"{count(len(found.skipped), 'combination')} skipped:"
    for skip in found.skipped[:_SKIPS]:
        yield f"  {_at(skip.at)}: {skip.reason}"
    if len(found.skipped) > _SKIPS:
        yield f"  and {len(found.skipped) - _SKIPS:,} more"


def _notes(found: OpSweep) -> Iterator[str]:
    yield from found.notes
    for device in found.devices:
        source = device.ceilings.source
        yield f"ceilings of {device.slug}: {source}"


def _at(at: Mapping[str, int | str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in at.items())


def _wrapped(text: str, width: int) -> list[str]:
    indent = len(text) - len(text.lstrip())
    return textwrap.wrap(visible(text), width, subsequent_indent=" " * (indent + 2), break_long_words=True) or [""]


def _number(value: float | None) -> str:
    """Three significant digits without an exponent."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:,.{min(max(2 - math.floor(math.log10(abs(value))), 0), 6)}f}"


# --- the table ------------------------------------------------------------------------------


class _Column(NamedTuple):
    title: str
    cells: tuple[str, ...]
    left: bool = False

    def lines(self) -> list[str]:
        """The title and the cells, all of one width."""
        width = max(map(len, (self.title, *self.cells)))
        return [f"{text:<{width}}" if self.left else f"{text:>{width}}" for text in (self.title, *self.cells)]


class _Group(NamedTuple):
    """Columns that stay together, under a title."""

    title: str
    columns: tuple[_Column, ...]

    def lines(self) -> list[str]:
        """The titles and the rows, all of one width."""
        rows = ["  ".join(cells) for cells in zip(*(column.lines() for column in self.columns), strict=True)]
        width = max(len(self.title), len(rows[0]))
        return [f"{text:<{width}}" for text in (self.title, *rows)]


def _groups(found: OpSweep) -> list[_Group]:
    points = found.points
    work = [
        _Column("FLOP", tuple(_count(point.work.flops) for point in points)),
        _Column("bytes", tuple(format_bytes(point.work.bytes) for point in points)),
        _Column("FLOP/B", tuple(_number(point.intensity) for point in points)),
    ]
    if any(point.work.macs for point in points):
        work.insert(0, _Column("MAC", tuple(_count(point.work.macs) for point in points)))
    groups = [_Group("", (*_at_columns(found), *work))]
    for index, device in enumerate(found.devices):
        times = [point.times[index] for point in points]
        groups.append(
            _Group(
                device.slug,
                (
                    _Column("time", tuple(format_ns(time.estimate.attainable_ns) for time in times)),
                    _Column("bound", tuple(_bound(time, device) for time in times), left=True),
                    _Column("next", tuple(_next(time, device) for time in times), left=True),
                    _Column("of peak", tuple(format_percent(time.of_peak) for time in times)),
                ),
            )
        )
    return groups


def _at_columns(found: OpSweep) -> list[_Column]:
    return [_Column(dim.name, tuple(str(point.at[dim.name]) for point in found.points)) for dim in found.dims]


def _bound(time: OpSweepTime, device: OpSweepDevice) -> str:
    return ("*" if time.changed else " ") + bound_name(time.estimate.bound, device.kind)


def _next(time: OpSweepTime, device: OpSweepDevice) -> str:
    found = time.estimate
    if found.runner_up == "none" or not found.attainable_ns:
        return "none"
    share = found.terms.get(found.runner_up, 0) / found.attainable_ns
    return f"{bound_name(found.runner_up, device.kind)} {100 * share:.0f} %"


def _count(value: int) -> str:
    return format_flops(value).removesuffix("FLOP").strip() if value else "0"


def _tables(found: OpSweep, width: int) -> Iterator[str]:
    """The groups side by side as far as they fit, the others below with the swept values again."""
    at = [_Group("", tuple(_at_columns(found))).lines()] if found.dims else []
    row: list[list[str]] = []
    for group in (group.lines() for group in _groups(found)):
        if row and sum(len(lines[0]) + 3 for lines in (*row, group)) - 3 > width:
            yield from (*_beside(row), "")
            row = [*at]
        row.append(group)
    yield from _beside(row)


def _beside(groups: Sequence[Sequence[str]]) -> Iterator[str]:
    titles, *rows = ("   ".join(cells).rstrip() for cells in zip(*groups, strict=True))
    yield from ([titles] if titles else [])
    yield from rows


# --- lines, and plots of characters ---------------------------------------------------------


class _Line(NamedTuple):
    """A series along the first swept parameter: places on its axis, values, and how its points are marked."""

    label: str
    places: tuple[int, ...]
    values: tuple[float, ...]
    bounds: tuple[str, ...] = ()


def _lines(found: OpSweep, value: Callable[[OpSweepPoint], float | None], index: int | None = None) -> list[_Line]:
    """One line for every combination of the other swept parameters; with the bounds on a device."""
    if not found.dims:
        return []
    place = {value: index for index, value in enumerate(found.dims[0].values)}
    series: dict[str, list[tuple[int, float, str]]] = {}
    for point in found.points:
        label = ", ".join(f"{dim.name} {point.at[dim.name]}" for dim in found.dims[1:])
        number = value(point)
        if number:
            bound = "" if index is None else point.times[index].estimate.bound
            series.setdefault(label, []).append((place[point.at[found.dims[0].name]], number, bound))
    return [_Line(label, *(tuple(column) for column in zip(*points, strict=True))) for label, points in series.items()]


def _intensities(found: OpSweep) -> list[_Line]:
    return _lines(found, lambda point: point.intensity)


def _times(found: OpSweep, index: int) -> list[_Line]:
    return _lines(found, lambda point: point.times[index].estimate.attainable_ns, index)


def _time_panels(found: OpSweep) -> list[tuple[str, list[_Line]]]:
    """One panel with a line a device, or where there are several lines one panel a device."""
    lines = [_times(found, index) for index in range(len(found.devices))]
    if lines and all(len(own) == 1 for own in lines):
        named = [own[0]._replace(label=d.slug) for own, d in zip(lines, found.devices, strict=True)]
        return [("", named)]
    return [(device.slug, own) for device, own in zip(found.devices, lines, strict=True)]


def _ridge_lines(found: OpSweep) -> list[tuple[str, float]]:
    """Ridges to draw: a device and dtype that has one ridge at all points."""
    several = len(found.devices) > 1 or len({point.work.dtype for point in found.points}) > 1
    return [
        (f"ridge {device.slug} {dtype}" if several else "ridge", values[0])
        for index, device in enumerate(found.devices)
        for dtype, values in _ridges(found, index).items()
        if _number(min(values)) == _number(max(values))
    ]


def _plots(found: OpSweep, width: int) -> Iterator[str]:
    intensities = _intensities(found)
    if not found.dims or max((len(line.places) for line in intensities), default=0) < 2:
        return
    yield from _panel("intensity, FLOP/byte", intensities, _ridge_lines(found), found, width, _number)
    for title, lines in _time_panels(found):
        heading = f"time on {title}" if title else "time"
        yield from _panel(heading, lines, [], found, width, format_ns)


def _panel(
    title: str,
    lines: Sequence[_Line],
    levels: Sequence[tuple[str, float]],
    found: OpSweep,
    width: int,
    form: Callable[[float], str],
) -> Iterator[str]:
    """A plot of characters: a letter a line, values on a logarithmic scale, points evenly spaced."""
    drawn = lines[:_DRAWN]
    values = [value for line in drawn for value in line.values]
    low, high = (math.log(bound(*values, *(level for _, level in levels))) for bound in (min, max))
    ticks = {form(math.exp(low)), form(math.exp(high)), *(form(level) for _, level in levels)}
    margin = max(map(len, ticks))
    area = min(width - margin - 2, 72)
    last = len(found.dims[0].values) - 1
    rows = [[" "] * area for _ in range(_ROWS)]
    labels = [""] * _ROWS

    def row(value: float) -> int:
        part = (math.log(value) - low) / (high - low) if high > low else 0.5
        return round((1 - part) * (_ROWS - 1))

    labels[row(math.exp(high))], labels[row(math.exp(low))] = form(math.exp(high)), form(math.exp(low))
    for _, level in levels:
        rows[row(level)] = ["-"] * area
        labels[row(level)] = form(level)
    for letter, line in zip(_LETTERS, drawn, strict=False):
        for place, value in zip(line.places, line.values, strict=True):
            rows[row(value)][round(place * (area - 1) / last)] = letter
    yield f"{title} (logarithmic)"
    for label, cells in zip(labels, rows, strict=True):
        yield f"{label:>{margin}} |{''.join(cells).rstrip()}"
    yield f"{'':>{margin}} +{'':-<{area}}"
    yield f"{'':>{margin}}  {_axis(found, area)}"
    names = [f"{letter} {line.label}" for letter, line in zip(_LETTERS, drawn, strict=False) if line.label]
    names += [f"--- {label} {form(level)}" for label, level in levels]
    if len(lines) > _DRAWN:
        names.append(f"and {len(lines) - _DRAWN} lines that are not drawn")
    yield from _wrapped(f"{'':>{margin}}  {found.dims[0].name}   {';  '.join(names)}".rstrip(), width)
    yield ""


def _axis(found: OpSweep, area: int) -> str:
    """The values of the first swept parameter below their places, as many as there is room for."""
    values = [str(value) for value in found.dims[0].values]
    text = ""
    for place, value in enumerate(values):
        column = round(place * (area - 1) / (len(values) - 1))
        start = min(column - len(value) // 2 if place else 0, area - len(value))
        if start >= len(text) + 1 or not text:
            text += " " * (start - len(text)) + value
    return text


# --- the picture ----------------------------------------------------------------------------


def render_image(found: OpSweep, suffix: str) -> bytes:
    """The intensity with the ridge, and the time, against the first swept parameter, as ``.svg`` or ``.png``.

    Lines are the other swept parameters; the shape of a point says what bounds it. The same sweep
    gives the same SVG.

    Raises:
        UsageError: Nothing is swept.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    intensities = _intensities(found)
    if max((len(line.places) for line in intensities), default=0) < 2:
        raise UsageError(
            f"there is nothing to draw of {found.op}",
            why="a picture needs two points along a swept parameter",
            fix="give a parameter several values, such as --batch 1..64:x2",
        )
    panels = _time_panels(found)
    # Ids in an SVG come from this salt instead of a random number.
    with mpl.rc_context({"svg.hashsalt": "trtprof", "svg.fonttype": "none", "font.size": 9.0}):
        inches = 4.8 * (1 + len(panels))
        figure = Figure(figsize=(inches, 4.6), layout="constrained")
        conditions = _fixed(found) + (f"  {'cold' if found.cold else 'warm'}" if found.devices else "")
        # 14 characters of this size take an inch.
        figure.suptitle("\n".join([_title(found), *textwrap.wrap(conditions, int(14 * inches))]), fontsize=9)
        axes: list[Axes] = list(figure.subplots(1, 1 + len(panels), squeeze=False)[0])
        for index, (label, level) in enumerate(_ridge_lines(found)):
            axes[0].axhline(
                level,
                color="0.35",
                linestyle=("--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)))[index % 4],
                linewidth=1.0,
                label=f"{label} {_number(level)}",
            )
        _draw(axes[0], found, intensities, "intensity, FLOP/byte")
        for (title, lines), ax in zip(panels, axes[1:], strict=True):
            in_us = [line._replace(values=tuple(value / 1e3 for value in line.values)) for line in lines]
            _draw(ax, found, in_us, f"time on {title}, us" if title else "time, us")
            if ax is not axes[1]:
                ax.sharey(axes[1])
        out = io.BytesIO()
        # What is written of the time and the program would differ from run to run.
        metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(out, format=suffix.removeprefix("."), dpi=150, metadata=metadata)
    return out.getvalue()


def _draw(ax: Axes, found: OpSweep, lines: Sequence[_Line], title: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    dim = found.dims[0]
    numbers = [value for value in dim.values if isinstance(value, int)]
    numeric = len(numbers) == len(dim.values)
    # Values that double are evenly spaced on a logarithmic axis.
    wide = numeric and max(numbers) >= 16 * min(numbers)
    seen: dict[str, None] = {}
    for index, line in enumerate(lines[:_DRAWN]):
        xs = [numbers[place] if numeric else place for place in line.places]
        ax.plot(
            xs,
            line.values,
            color=f"C{index}",
            linewidth=1.2,
            label=line.label or None,
            marker="" if any(line.bounds) else ".",
        )
        for x, value, bound in zip(xs, line.values, line.bounds, strict=False):
            if bound:
                ax.plot([x], [value], color=f"C{index}", marker=_MARKERS.get(bound, "x"), markersize=5, linestyle="")
                seen[bound] = None
    if wide:
        ax.set_xscale("log", base=2)
    if len(dim.values) <= 12:
        ax.set_xticks(numbers if numeric else range(len(dim.values)), labels=[str(value) for value in dim.values])
        ax.minorticks_off()
    ax.set_yscale("log")
    # 1, 2, 5, 10 in plain digits.
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(dim.name)
    ax.set_title(title, fontsize=9)
    ax.grid(visible=True, which="major", linewidth=0.4, alpha=0.6)
    kinds = {device.kind for device in found.devices}
    for bound in seen:
        name = bound_name(bound, "cpu" if kinds == {"cpu"} else "gpu")
        ax.plot([], [], color="0.35", marker=_MARKERS.get(bound, "x"), linestyle="", label=f"bound: {name}")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=7)
    if len(lines) > _DRAWN:
        ax.annotate(f"{len(lines) - _DRAWN} more lines not drawn", (0.02, 0.02), xycoords="axes fraction", fontsize=7)
