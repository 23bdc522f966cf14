"""Times of layers and of inferences from the files of trtexec, joined to the layers of a plan.

trtexec exports a profile as a JSON list whose first entry is the number of iterations
(``--exportProfile``), and prints it as a table (``--dumpProfile``). The printed one leaves out layers without
time; both hold the layers of one optimisation profile, in the order of the plan.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import InferenceTimes, Latency, LayerTime, LayerTimes, Plan
from trtprof.base.text_file import read_text_file
from trtprof.engine._decode_json import decode_json

_NS_PER_MS = 1e6
_LONGEST_MS = 86_400_000.0
"""A day: no inference takes longer, and what a hundred thousand layers take together fits in 64 bits."""
_MOST_INFERENCES = 10**12
_EXPORT = "export it with trtexec --loadEngine=model.plan --dumpProfile --exportProfile=profile.json"
_EXPORT_TIMES = "export it with trtexec --loadEngine=model.plan --exportTimes=times.json"
_DOCUMENT = re.compile(r"\s*(?:\{|\[\s*[\]{])")
_TITLE = re.compile(r"=== Profile \((\d+) iterations? *\) ===")
_HEADER = re.compile(r"Time ?\(ms\).*Time ?\(?%\)?")
_PREFIX = re.compile(r"^(?:\[[^\]]*\] ?)+")
_NUMBER = r"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)"
_TIMES_MS = {"latency_ns": "latencyMs", "compute_ns": "computeMs", "h2d_ns": "h2dMs", "d2h_ns": "d2hMs"}


def read_profile(path: Path) -> LayerTimes:
    """Read the times of layers from a profile of trtexec, exported as JSON or printed in a log.

    Times of the printed table are as rounded there, to 0.1 us an iteration; of several tables the last is taken, and a
    note says so.
    """
    text = read_text_file(path, what="a profile", fix=_EXPORT)
    if _DOCUMENT.match(text):
        return _profile_json(path, text)
    return _profile_table(path, text)


def _profile_json(path: Path, text: str) -> LayerTimes:
    document, _ = decode_json(path, text, 0)
    if not isinstance(document, list) or not any(isinstance(one, Mapping) and "averageMs" in one for one in document):
        raise UsageError(f"{path} is no profile", why=_what_else(document), fix=_EXPORT)
    count = next((one["count"] for one in document if isinstance(one, Mapping) and "count" in one), 0)
    rows = [one for one in document if isinstance(one, Mapping) and "name" in one]
    layers = []
    for position, row in enumerate(rows):
        name = str(row["name"])
        where = f"{path}, layer {position} ({name})"
        average = _milliseconds(row.get("averageMs"), where, "averageMs")
        if average is None:
            raise UsageError(f"{where} has no averageMs", why="a profile has one for every layer", fix=_EXPORT)
        layers.append(
            LayerTime(
                name=name, total_ns=_milliseconds(row.get("timeMs"), where, "timeMs") or 0, average_ns=average,
                median_ns=_milliseconds(row.get("medianMs"), where, "medianMs"),
                fraction=_fraction(row.get("percentage"), where),
            )
        )  # fmt: skip
    iterations = count if type(count) is int and 0 < count <= _MOST_INFERENCES else 0
    notes = () if iterations else ("the number of iterations is not told",)
    return LayerTimes(iterations=iterations, layers=tuple(layers), notes=notes)


def _what_else(document: Any) -> str:
    if isinstance(document, Mapping) and any(key in document for key in ("Layers", "layers", "LayerInfo", "layerInfo")):
        return "it is layer information: what the layers are, without their times"
    if isinstance(document, list) and any(isinstance(one, Mapping) and "latencyMs" in one for one in document):
        return "it holds the times of whole inferences, as trtexec --exportTimes writes them"
    if isinstance(document, list) and any(isinstance(one, Mapping) and "count" in one for one in document):
        return "it holds no layers"
    return "its JSON is not a list of layers with averageMs, as trtexec --exportProfile writes it"


def _profile_table(path: Path, text: str) -> LayerTimes:
    tables: list[tuple[int, list[LayerTime]]] = []
    iterations = 0
    row: re.Pattern[str] | None = None
    for line in text.split("\n"):
        if title := _TITLE.search(line):
            iterations, row = int(title[1][:12]), None
        elif _HEADER.search(line):
            row = _row_pattern(line)
            tables.append((iterations, []))
        elif row is not None:
            found = row.match(_PREFIX.sub("", line).strip())
            if found is None:
                row = None
                continue
            tables[-1][1].append(_table_row(path, found))
    filled = [(count, rows) for count, rows in tables if rows]
    if not filled:
        raise UsageError(
            f"{path} holds no profile",
            why="it is neither JSON nor a log with the table of trtexec --dumpProfile",
            fix=_EXPORT,
        )
    iterations, rows = filled[-1]
    if rows[-1].name == "Total":
        rows = rows[:-1]
    if not rows:
        raise UsageError(f"{path} holds no profile", why="its table has no layers", fix=_EXPORT)
    notes = ["times are rounded as printed; layers that took no time are not in the table"]
    if len(filled) > 1:
        notes.append(f"{len(filled)} tables in the file: the last one is taken")
    return LayerTimes(iterations=iterations, layers=tuple(rows), complete=False, notes=tuple(notes))


def _row_pattern(header: str) -> re.Pattern[str]:
    """How the rows under ``header`` read: the layer is the last column, before TensorRT 8.5 the first."""
    columns = ["total", "average", *(["median"] if "Median" in header else []), "percentage"]
    numbers = r"\s+".join(rf"(?P<{column}>{_NUMBER})%?" for column in columns)
    if header.rstrip("\r").rstrip().endswith("Layer"):
        return re.compile(rf"{numbers}\s+(?P<name>.*)$", re.IGNORECASE)
    return re.compile(rf"(?P<name>.*?)\s+{numbers}$", re.IGNORECASE)


def _table_row(path: Path, found: re.Match[str]) -> LayerTime:
    cells = found.groupdict()
    where = f"{path}, layer {cells['name']}"
    return LayerTime(
        name=cells["name"],
        total_ns=_milliseconds(cells["total"], where, "time") or 0,
        average_ns=_milliseconds(cells["average"], where, "average") or 0,
        median_ns=_milliseconds(cells.get("median"), where, "median"),
        fraction=_fraction(cells["percentage"], where),
    )


def _milliseconds(value: Any, where: str, what: str) -> int | None:
    """A time in ms as ns; None where there is none."""
    if value is None:
        return None
    return round(_number(value, where, what) * _NS_PER_MS)


def _fraction(value: Any, where: str) -> float:
    if value is None:
        return 0.0
    # Printed with one decimal, of a layer that took all the time 100.0.
    return min(_number(value, where, "percentage", most=100.1, rule="a share is 0 to 100 %") / 100, 1.0)


def _number(
    value: Any,
    where: str,
    what: str,
    *,
    most: float = _LONGEST_MS,
    rule: str = "a time is a number, not negative, and under a day",
) -> float:
    number = _float(value)
    if not 0 <= number <= most:
        raise UsageError(f"{where}: {what} is {str(value)[:40]}", why=rule, fix="measure and export again")
    return number


_SUMMARY = {
    "latency_ns": "Latency",
    "compute_ns": "GPU Compute Time",
    "h2d_ns": "H2D Latency",
    "d2h_ns": "D2H Latency",
    "enqueue_ns": "Enqueue Time",
}


def read_times(path: Path) -> InferenceTimes:
    """Read the times of every inference that ``trtexec --exportTimes`` wrote, or trtexec's own summary of them.

    trt-engine-explorer keeps that summary, which trtexec prints, as ``performance_summary`` of
    ``*.profile.metadata.json``.
    """
    text = read_text_file(path, what="times of inferences", fix=_EXPORT_TIMES)
    document, _ = decode_json(path, text, 0)
    if isinstance(document, Mapping) and isinstance(summary := document.get("performance_summary"), Mapping):
        times = _summarised(path, summary)
        options = document.get("inference_options")
        separate = options.get("Separate profiling") if isinstance(options, Mapping) else None
        return msgspec.structs.replace(times, profiled=separate == "Disabled")
    rows = document if isinstance(document, list) else []
    if not rows or not all(isinstance(row, Mapping) and "latencyMs" in row for row in rows):
        raise UsageError(
            f"{path} holds no times of inferences",
            why="its JSON is not a list of entries with latencyMs, as trtexec --exportTimes writes it",
            fix=_EXPORT_TIMES,
        )
    columns: dict[str, list[int]] = {name: [] for name in (*_TIMES_MS, "enqueue_ns")}
    for position, one in enumerate(document):
        where = f"{path}, inference {position}"
        for name, key in _TIMES_MS.items():
            columns[name].append(_milliseconds(one.get(key, 0), where, key) or 0)
        enqueue = _float(one.get("endEnqMs", 0)) - _float(one.get("startEnqMs", 0))
        columns["enqueue_ns"].append(_milliseconds(enqueue, where, "endEnqMs - startEnqMs") or 0)
    return _times(columns)


def _summarised(path: Path, summary: Mapping[str, Any]) -> InferenceTimes:
    """The times of a summary, each of which lists min, max, mean, median and the percentiles asked for, in ms."""
    known = {}
    for name, key in _SUMMARY.items():
        values = summary.get(key)
        if not isinstance(values, list) or len(values) < 5:
            if name != "latency_ns":
                known[name] = [0] * 5
                continue
            raise UsageError(
                f"{path} holds no summary of the latency",
                why="its performance_summary has no Latency with min, max, mean, median and percentiles",
                fix=_EXPORT_TIMES,
            )
        known[name] = [_milliseconds(value, f"{path}, {key}", "a time") or 0 for value in values]
    least, most, mean, median = known["latency_ns"][:4]
    number = _float(summary.get("Throughput", 0)) * _float(summary.get("Total Host Walltime", 0))
    latency = Latency(
        median_ns=median,
        p99_ns=known["latency_ns"][-1],
        cv=0.0,
        n=max(round(number), 1) if 0 <= number <= _MOST_INFERENCES else 1,
        mean_ns=mean,
        min_ns=least,
        max_ns=most,
    )
    return _times({name: values[3:4] for name, values in known.items()}, latency)


def _times(columns: Mapping[str, Sequence[int]], summary: Latency | None = None) -> InferenceTimes:
    return InferenceTimes(
        latency_ns=tuple(columns["latency_ns"]),
        compute_ns=tuple(columns["compute_ns"]),
        enqueue_ns=tuple(columns["enqueue_ns"]),
        h2d_ns=tuple(columns["h2d_ns"]),
        d2h_ns=tuple(columns["d2h_ns"]),
        summary=summary,
    )


def _float(value: Any) -> float:
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def profile_json(profile: LayerTimes) -> str:
    """A profile as ``trtexec --exportProfile`` writes it; `read_profile` reads it back."""
    rows = [
        {
            "name": layer.name,
            "timeMs": layer.total_ns / _NS_PER_MS,
            "averageMs": layer.average_ns / _NS_PER_MS,
            "medianMs": (layer.average_ns if layer.median_ns is None else layer.median_ns) / _NS_PER_MS,
            "percentage": layer.fraction * 100,
        }
        for layer in profile.layers
    ]
    return _lines([{"count": profile.iterations}, *rows])


def profile_table(profile: LayerTimes) -> str:
    """A profile as ``trtexec --dumpProfile`` prints it, with every layer; `read_profile` reads it back."""
    rows = [
        f"=== Profile ({profile.iterations} iterations ) ===",
        "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
    ]
    for layer in profile.layers:
        median = layer.average_ns if layer.median_ns is None else layer.median_ns
        times = [f"{ns / _NS_PER_MS:.4f}" for ns in (layer.total_ns, layer.average_ns, median)]
        rows.append(f"{times[0]:>11}  {times[1]:>11}  {times[2]:>11}  {layer.fraction * 100:>8.1f}   {layer.name}")
    total = sum(layer.total_ns for layer in profile.layers) / _NS_PER_MS
    average = sum(layer.average_ns for layer in profile.layers) / _NS_PER_MS
    medians = sum(layer.median_ns or 0 for layer in profile.layers) / _NS_PER_MS
    rows.append(f"{total:>11.4f}  {average:>11.4f}  {medians:>11.4f}  {100:>8.1f}   Total")
    return "\n".join(rows) + "\n"


def times_json(times: InferenceTimes) -> str:
    """Times of inferences as ``trtexec --exportTimes`` writes them; `read_times` reads them back."""
    rows = []
    begin = 0
    columns = (times.latency_ns, times.h2d_ns, times.compute_ns, times.d2h_ns, times.enqueue_ns)
    for latency, h2d, compute, d2h, enqueue in zip(*columns, strict=True):
        spans = {
            "Enq": (begin, begin + enqueue),
            "H2d": (begin, begin + h2d),
            "Compute": (begin + h2d, begin + h2d + compute),
            "D2h": (begin + h2d + compute, begin + h2d + compute + d2h),
        }
        row = {f"{end}{name}Ms": ns / _NS_PER_MS for name, both in spans.items()
               for end, ns in zip(("start", "end"), both, strict=True)}  # fmt: skip
        row |= {f"{name}Ms": ns / _NS_PER_MS for name, ns in (("h2d", h2d), ("compute", compute), ("d2h", d2h))}
        rows.append(row | {"latencyMs": latency / _NS_PER_MS})
        begin += latency
    return _lines(rows)


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """A list as JSON, an entry a line."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def join_profile(plan: Plan, profile: LayerTimes) -> tuple[tuple[LayerTime | None, ...], tuple[str, ...]]:
    """The times of the layers of a plan.

    Rows are joined by name and in order, so that layers of one name each get their own row.

    Returns:
        One entry for every layer of the plan, None where the profile has no row for it, and notes on what was not
            certain or is lacking.
    """
    names = [layer.name for layer in plan.layers]
    joined = _join_in_order(names, profile.layers)
    notes = []
    if joined is None:
        joined = _join_by_name(names, profile.layers)
        notes.append("the rows of the profile are in another order than the layers of the plan: joined by name")
    lacking = sum(one is None for one in joined)
    if lacking:
        reason = "" if profile.complete else ", which a printed table leaves out when they took none"
        notes.append(f"{lacking} of {len(names)} layers have no time in the profile{reason}")
    unclear = _unclear(names, joined)
    if unclear:
        notes.append(
            f"{len(unclear)} names are those of several layers, not all of which have a time:"
            " theirs went to the first of them"
        )
    return tuple(joined), tuple(notes)


def _unclear(names: Sequence[str], joined: Sequence[LayerTime | None]) -> list[str]:
    """Names of several layers of which some have a time and some have none."""
    timed: dict[str, set[bool]] = defaultdict(set)
    for name, row in zip(names, joined, strict=True):
        timed[name].add(row is not None)
    return [name for name, seen in timed.items() if len(seen) > 1]


def _join_in_order(names: Sequence[str], rows: Sequence[LayerTime]) -> list[LayerTime | None] | None:
    """The rows where they are a subsequence of the layers, else None."""
    joined: list[LayerTime | None] = []
    position = 0
    for name in names:
        fits = position < len(rows) and rows[position].name == name
        joined.append(rows[position] if fits else None)
        position += fits
    return joined if position == len(rows) else None


def _join_by_name(names: Sequence[str], rows: Sequence[LayerTime]) -> list[LayerTime | None]:
    places: dict[str, list[int]] = defaultdict(list)
    for index in reversed(range(len(names))):
        places[names[index]].append(index)
    joined: list[LayerTime | None] = [None] * len(names)
    strangers = []
    for position, row in enumerate(rows):
        if places[row.name]:
            joined[places[row.name].pop()] = row
        else:
            strangers.append(position)
    if strangers:
        first = strangers[0]
        if rows[first].name in names:
            differs = f"row {first} is {rows[first].name!r} once more than the plan has layers of that name"
        else:
            expected = f"; the plan has {names[first]!r} there" if first < len(names) else ""
            differs = f"row {first} is {rows[first].name!r}, which no layer of the plan is called{expected}"
        raise UsageError(
            "the profile is of another engine than the layer information",
            why=f"{differs}; {len(rows) - len(strangers)} of {len(rows)} rows match",
            fix="export both from one engine: trtexec --loadEngine=model.plan --exportLayerInfo=layers.json"
            " --dumpProfile --exportProfile=profile.json",
        )
    return joined
