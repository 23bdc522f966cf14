"""What `trtprof calibrate` says: the ceilings of a device, what reached each and how far the repeats agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from trtprof.base.records import Ceilings, CeilingsDocument, Measurement, ceiling_name
from trtprof.base.units import format_bytes, format_ns, format_percent, format_rate
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import count
from trtprof.report.document import Column, Document, Notes, Row, Span, Table, prose, sections

_TITLES = {"FLOP/s": "arithmetic", "1/s": "special functions, evaluations", "B/s": "memory", "ns": "floors"}
_ELSEWHERE = "best "  # Prefix of what was reached at another thread count than the run's


@content_of(CeilingsDocument)
def document(found: CeilingsDocument, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """A row a measurement, and where the ceilings are kept."""
    ceilings = found.ceilings
    days = found.age_days
    age = "" if days is None else " (today)" if days == 0 else f" ({count(days, 'day')} ago)"
    ridges = ", ".join(f"{dtype} {flop:.1f}" for dtype, flop in found.ridge_flop_per_byte.items())
    told = (
        f"measured {ceilings.measured_at}{age}",
        f"last-level cache {format_bytes(ceilings.cache_bytes)}",
        f"clock {_clocks(ceilings.clocks_mhz)}",
    )
    kept = f"kept in {found.kept_in}" if found.kept_in else "not kept"
    return Document(
        title=prose(ceilings.device + (f", {count(ceilings.threads, 'thread')}" if ceilings.threads else "")),
        sections=sections(
            [Notes(tuple(map(prose, told)), 1)],
            [_table(ceilings)],
            [Notes((f"ridge points, FLOP/byte of DRAM: {ridges}",), hang=0)],
            [Notes((ceilings.source,), hang=0)],
            [Notes((Span(kept, cut="never"),))],
            [Notes(tuple(_kernels(found)))] if found.kernels_notes or found.kernels else [],
        ),
    )


def _kernels(found: CeilingsDocument) -> Iterator[Span]:
    """What was timed on a GPU beside the ceilings."""
    if found.kernels is not None:
        yield prose(f"from now on {found.kernels.words}")
    yield from map(prose, found.kernels_notes)
    if found.kernels_kept_in:
        yield Span(f"these rows are kept in {found.kernels_kept_in}", cut="never")


def _table(ceilings: Ceilings) -> Table:
    rows = []
    for title, same in itertools.groupby(ceilings.measurements.items(), key=_section):
        rows.append(Row(across=f"- {title}"))
        for name, measured in same:
            spread = "-" if measured.spread is None else format_percent(measured.spread)
            where = "" if measured.threads == ceilings.threads else f", {count(measured.threads, 'thread')}"
            rows.append(
                Row((ceiling_name(name), _value(measured), spread, str(measured.repeats), f"{measured.what}{where}"))
            )
    return Table(
        columns=(
            Column("ceiling"),
            Column("value", right=True, gap=1, least=13),
            Column("spread", right=True, gap=1, least=8),
            Column("n", right=True, gap=1, least=3),
            Column("reached by", cut="end"),
        ),
        rows=rows,
    )


def _section(row: tuple[str, Measurement]) -> str:
    name, measured = row
    return "higher at another thread count" if name.startswith(_ELSEWHERE) else _TITLES[measured.unit]


def _value(measured: Measurement) -> str:
    if measured.unit == "ns":
        return format_ns(measured.value)
    return format_rate(measured.value, "eval/s" if measured.unit == "1/s" else measured.unit)


def _clocks(clocks: dict[str, float]) -> str:
    named = {**clocks}
    memory = named.pop("memory", None)
    parts = [f"{mhz:.0f} MHz {when}" for when, mhz in named.items()]
    parts += [f"memory {memory:.0f} MHz"] if memory is not None else []
    return ", ".join(parts) or "unknown: the system does not tell it"
