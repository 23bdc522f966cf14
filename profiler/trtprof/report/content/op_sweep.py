"""What `trtprof sweep OP` says: work, intensity and time of one op over a sweep of its shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.records import OpSweep, OpSweepDevice, OpSweepPoint, OpSweepTime, bound_name
from trtprof.base.units import format_bytes, format_ns, format_percent, format_rate
from trtprof.report import ReportOptions, content_of
from trtprof.report._estimates import at_least
from trtprof.report._format import count, without_unit
from trtprof.report.document import Column, Document, Notes, Row, Table, sections

DRAWN = 10  # Lines in a picture: more cannot be told apart
_SKIPS = 3  # Skipped combinations that are listed


@content_of(OpSweep)
def document(found: OpSweep, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """The conditions, one row a point, and what it shows."""
    changed = any(time.changed for point in found.points for time in point.times)
    changes = (f"* another bound than at the {found.dims[0].name} before",) if changed else ()
    return Document(
        title=title_of(found),
        sections=sections(
            [Notes((conditions_of(found), *_conditions(found)))],
            [Table(columns=_columns(found), rows=_rows(found), stack=True, after=changes)],
            [Notes((*found.shows, *_skipped(found)))],
            [Notes(tuple(_notes(found)))],
        ),
    )


# --- words ----------------------------------------------------------------------------------


def title_of(found: OpSweep) -> str:
    """The op and what is swept: ``conv over kernel (4)``."""
    if not found.dims:
        return found.op
    return f"{found.op} over " + " and ".join(f"{dim.name} ({len(dim.values)})" for dim in found.dims)


def conditions_of(found: OpSweep) -> str:
    """What is not swept: ``cin=64  hw=56``."""
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
    low, high = number_text(min(values)), number_text(max(values))
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


def number_text(value: float | None) -> str:
    """Three significant digits without an exponent."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:,.{min(max(2 - math.floor(math.log10(abs(value))), 0), 6)}f}"


# --- the table ------------------------------------------------------------------------------


def _columns(found: OpSweep) -> tuple[Column, ...]:
    counts = [*(["MAC"] if _multiplies(found) else []), "FLOP", "bytes", "FLOP/B"]
    of_device = ("time", "bound", "next", "of peak")
    return (
        *(Column(dim.name, right=True, key=True) for dim in found.dims),
        *(Column(head, right=True, group=" ") for head in counts),
        *(
            # A mark or a space stands before a bound.
            Column(head, right=head in ("time", "of peak"), group=device.slug, gap=1 if head == "bound" else 2)
            for device in found.devices
            for at, head in enumerate(of_device)
        ),
    )


def _multiplies(found: OpSweep) -> bool:
    return any(point.work.macs for point in found.points)


def _rows(found: OpSweep) -> list[Row]:
    rows = []
    for point in found.points:
        work = point.work
        cells = [str(point.at[dim.name]) for dim in found.dims]
        cells += [without_unit(work.macs)] if _multiplies(found) else []
        cells += [without_unit(work.flops), format_bytes(work.bytes), number_text(point.intensity)]
        for device, time in zip(found.devices, point.times, strict=True):
            cells += [at_least(time.estimate.attainable_ns), _bound(time, device), _next(time, device)]
            cells.append(format_percent(time.of_peak))
        rows.append(Row(tuple(cells)))
    return rows


def _bound(time: OpSweepTime, device: OpSweepDevice) -> str:
    return ("*" if time.changed else " ") + bound_name(time.estimate.bound, device.kind)


def _next(time: OpSweepTime, device: OpSweepDevice) -> str:
    found = time.estimate
    if found.runner_up == "none" or not found.attainable_ns:
        return "none"
    share = found.terms.get(found.runner_up, 0) / found.attainable_ns
    return f"{bound_name(found.runner_up, device.kind)} {100 * share:.0f} %"


# --- lines of a picture -----------------------------------------------------------------------


class Series(NamedTuple):
    """A series along the first swept parameter: places on its axis, values, and how its points are marked."""

    label: str
    places: tuple[int, ...]
    values: tuple[float, ...]
    bounds: tuple[str, ...] = ()


def _lines(found: OpSweep, value: Callable[[OpSweepPoint], float | None], index: int | None = None) -> list[Series]:
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
    return [Series(label, *(tuple(column) for column in zip(*points, strict=True))) for label, points in series.items()]


def intensities(found: OpSweep) -> list[Series]:
    """FLOP per byte, a line for every combination of the other swept parameters."""
    return _lines(found, lambda point: point.intensity)


def _times(found: OpSweep, index: int) -> list[Series]:
    return _lines(found, lambda point: point.times[index].estimate.attainable_ns, index)


def time_panels(found: OpSweep) -> list[tuple[str, list[Series]]]:
    """One panel with a line a device, or where there are several lines one panel a device."""
    lines = [_times(found, index) for index in range(len(found.devices))]
    if lines and all(len(own) == 1 for own in lines):
        named = [own[0]._replace(label=d.slug) for own, d in zip(lines, found.devices, strict=True)]
        return [("", named)]
    return [(device.slug, own) for device, own in zip(found.devices, lines, strict=True)]


def ridge_lines(found: OpSweep) -> list[tuple[str, float]]:
    """Ridges to draw: a device and dtype that has one ridge at all points."""
    several = len(found.devices) > 1 or len({point.work.dtype for point in found.points}) > 1
    return [
        (f"ridge {device.slug} {dtype}" if several else "ridge", values[0])
        for index, device in enumerate(found.devices)
        for dtype, values in _ridges(found, index).items()
        if number_text(min(values)) == number_text(max(values))
    ]
