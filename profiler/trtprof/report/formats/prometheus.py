"""The answers of a fleet for dashboards: Prometheus' text exposition format, version 0.0.4.

A metric has base units (seconds, joules) and says in its name what it rests on: what is measured, what is expected and
what bounds it are three metrics. A sample is a cell, labelled by what it asks; a cell that failed has none but its
count, and what is not known has no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from trtprof.base.records import Fleet, FleetAnswer
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, reporter

Labels = tuple[tuple[str, str], ...]


class _Metric(NamedTuple):
    name: str
    help: str
    of: Callable[[FleetAnswer], float | None]


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _only(basis: str, of: str) -> Callable[[FleetAnswer], float | None]:
    return lambda one: getattr(one, of) if getattr(one, of.replace("_per_million", "") + "_basis") == basis else None


_METRICS = (
    _Metric("latency_seconds", "Median latency of an inference, measured.", lambda one: _seconds(one.latency_ns)),
    _Metric("latency_low_seconds", "Low end of its 95 % interval.", lambda one: _seconds(one.latency_low_ns)),
    _Metric("latency_high_seconds", "High end of its 95 % interval.", lambda one: _seconds(one.latency_high_ns)),
    _Metric("expected_seconds", "What good kernels are expected to take: an estimate.",
            lambda one: _seconds(one.expected_ns)),
    _Metric("expected_p10_seconds", "Low end of the 80 % band of that.", lambda one: _seconds(one.expected_p10_ns)),
    _Metric("expected_p90_seconds", "High end of the 80 % band of that.", lambda one: _seconds(one.expected_p90_ns)),
    _Metric("bound_seconds", "No correct kernels are faster.", lambda one: _seconds(one.bound_ns)),
    _Metric("expected_over_measured_ratio", "Expected over measured time.", lambda one: one.of_expected),
    *(
        _Metric(f"{what}_{basis}", f"{words} {how}.", _only(basis, of))
        for what, words, of in (
            ("cost_per_million_requests", "Of a million requests, in the currency of trtprof_fleet_info:",
             "cost_per_million"),
            ("energy_joules", "Of an inference, at the power limit of the board:", "joules"),
        )
        for basis, how in (
            ("measured", "by the time measured"), ("expected", "by the time expected, an estimate"),
            ("bound", "no less, by the bound"),
        )
    ),
)  # fmt: skip


@reporter("prometheus", suffix=".prom", of=(Fleet,))
def render(found: Fleet, options: ReportOptions) -> str:  # noqa: ARG001 - there is nothing to choose
    """Each metric with its help, its type and its samples."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Fleet) -> Iterator[str]:
    fleet: Labels = (("fleet", found.name),)
    yield from _metric("info", "The fleet.", [((*fleet, ("currency", found.currency)), 1)])
    states = [
        ((*fleet, ("target", one.target), ("verb", one.verb), ("status", status)), number)
        for one in found.targets
        for status, number in (("done", one.done), ("failed", one.failed), ("left", one.cells - one.done - one.failed))
    ]
    yield from _metric("cells", "Cells of a target by what became of them.", states)
    prices = [((*fleet, ("target", one.target)), one.price_per_hour) for one in found.targets]
    yield from _metric("price_per_hour", "Of a target, in the currency of trtprof_fleet_info.", prices)
    busy = [((*fleet, ("target", one.target), ("basis", one.basis)), one.busy) for one in found.targets]
    yield from _metric("busy_targets", "How many of a target the requests keep busy.", busy)
    hours = [
        ((*fleet, ("cause", row.cause), ("kind", row.kind), ("basis", row.basis)), row.hours_per_day)
        for row in found.ledger
    ]
    yield from _metric("hours_per_day", "Hours a day that the requests keep targets busy, by cause.", hours)
    left_out = [(fleet, found.answers_left_out)]
    yield from _metric("answers_left_out", "Cells that the metrics of cells do not hold.", left_out)
    done = [one for one in found.answers if one.status == "done"]
    for metric in _METRICS:
        yield from _metric(metric.name, metric.help, ((_labels(found, one), metric.of(one)) for one in done))


def _labels(found: Fleet, one: FleetAnswer) -> Labels:
    return (
        ("fleet", found.name), ("model", one.model), ("target", one.target), ("size", one.size),
        ("precision", one.precision), ("key", one.key),
    )  # fmt: skip


def _metric(name: str, words: str, samples: Iterable[tuple[Labels, float | None]]) -> Iterator[str]:
    """The lines of a metric; none where it has no sample."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    full = f"trtprof_fleet_{name}"
    yield f"# HELP {full} {_escaped(words, quote=False)}"
    yield f"# TYPE {full} gauge"
    for labels, value in known:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{full}{{{inside}}} {value!r}"


def _escaped(text: str, *, quote: bool = True) -> str:
    """As the format asks; before that what could steer a terminal or end a line is made visible."""
    text = visible(text).replace("\\", "\\\\")
    return text.replace('"', '\\"') if quote else text
