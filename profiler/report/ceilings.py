"""What `trtprof calibrate` prints: the ceilings of a device, what reached each and how far the repeats agree."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator

import msgspec

from profiler.base.records import Ceilings, Measurement, NonNegative, Record
from profiler.base.units import format_bytes, format_ns, format_percent, format_rate
from profiler.report._format import visible


class CeilingsDocument(Record, frozen=True, kw_only=True):
    """The document of `trtprof calibrate --format json`."""

    schema_version: int
    ceilings: Ceilings
    ridge_flop_per_byte: dict[str, float]
    """By dtype, the FLOP per byte of DRAM traffic from which on multiply-accumulates bound the time."""
    kept_in: str = ""
    """The file that keeps them; empty where none could be written."""
    age_days: NonNegative | None = None
    """Whole days since they were measured, of kept ones."""


_TITLES = {"FLOP/s": "arithmetic", "1/s": "special functions, evaluations", "B/s": "memory", "ns": "floors"}
_ELSEWHERE = "best "
"""Prefix of what was reached at another thread count than the run's."""


def render_json(document: CeilingsDocument) -> str:
    """The document, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def render_text(document: CeilingsDocument, width: int = 80, *, ascii_only: bool = False) -> str:
    """A table of at most ``width`` columns, a row a measurement, and where the ceilings are kept."""
    ceilings = document.ceilings
    threads = f", {_threads(ceilings.threads)}" if ceilings.threads else ""
    lines = [f"{ceilings.device}{threads}", f"measured {ceilings.measured_at}{_age(document.age_days)}"]
    lines += [f"last-level cache {format_bytes(ceilings.cache_bytes)}", f"clock {_clocks(ceilings.clocks_mhz)}", ""]
    lines += _table(ceilings, width)
    lines += ["", *textwrap.wrap("ridge points, FLOP/byte of DRAM: " + _ridges(document.ridge_flop_per_byte), width)]
    lines += ["", *textwrap.wrap(ceilings.source, width)]
    lines += ["", f"kept in {document.kept_in}" if document.kept_in else "not kept"]
    shown = (visible(line, ascii_only=ascii_only).rstrip() for line in lines)
    # A path that is cut would be of no use.
    return "\n".join(line if line.startswith("kept in ") else line[:width] for line in shown) + "\n"


def _table(ceilings: Ceilings, width: int) -> Iterator[str]:
    found = list(ceilings.measurements.items())
    label = max([len("ceiling"), *(len(name) for name, _ in found)])
    yield f"{'ceiling':<{label}} {'value':>13} {'spread':>8} {'n':>3}  reached by"[:width]
    for title, rows in itertools.groupby(found, key=_section):
        yield f"- {title}"
        for name, measured in rows:
            spread = "-" if measured.spread is None else format_percent(measured.spread)
            where = "" if measured.threads == ceilings.threads else f", {_threads(measured.threads)}"
            yield f"{name:<{label}} {_value(measured):>13} {spread:>8} {measured.repeats:>3}  {measured.what}{where}"


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


def _ridges(ridges: dict[str, float]) -> str:
    return ", ".join(f"{dtype} {flop:.1f}" for dtype, flop in ridges.items())


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _age(days: int | None) -> str:
    return "" if days is None else " (today)" if days == 0 else f" ({days} day{'s' if days > 1 else ''} ago)"
