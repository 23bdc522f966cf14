"""What changed between two runs, how sure that is, and what it is made of.

`compare` sets runs side by side whatever engine they are of: parts of the model are matched by its nodes
(`compare.nodes`, `compare.regions`), the difference of the median latencies has an interval (`compare.samples`) and is
taken apart by cause (`compare.causes`). Nothing but run folders is read: no model, no engine, no device.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base import records
from trtprof.base.errors import UsageError
from trtprof.base.run_folder import RunFolder
from trtprof.compare import gates as gating
from trtprof.compare.causes import Parts, ledger_of, parts_of
from trtprof.compare.facts import facts_of, findings_apart, notes_of
from trtprof.compare.latency import latency_change
from trtprof.compare.layer_times import RegionTimes, region_times
from trtprof.compare.nodes import match_nodes
from trtprof.compare.regions import Region, op_types, regions_of
from trtprof.compare.sides import Runs, load_side
from trtprof.compare.verdict import verdict_of

__all__ = ["compare"]


def compare(sides: Sequence[Sequence[Path | RunFolder]], gates: Sequence[str] = ()) -> records.Comparisons:
    """Compare runs with the first of them; gates are as `compare.gates` has them, such as ``latency>3%``."""
    asked = gating.parse(gates)
    if len(sides) < 2:
        raise UsageError(
            f"{len(sides)} side{'' if len(sides) == 1 else 's'} to compare",
            why="a comparison needs a run and another one to hold against it",
            fix="trtprof compare reports/before reports/after",
        )
    loaded = _told_apart([load_side([_folder(run) for run in runs]) for runs in sides])
    found = tuple(_comparison(loaded[0], after) for after in loaded[1:])
    return gating.judged(records.Comparisons(schema_version=records.SCHEMA_VERSION, comparisons=found), asked)


def _folder(run: Path | RunFolder) -> RunFolder:
    return run if isinstance(run, RunFolder) else RunFolder(run)


def _told_apart(sides: Sequence[Runs]) -> list[Runs]:
    """Sides whose folders have the same names in other places go by their whole paths."""
    found = []
    for one in sides:
        alike = [other for other in sides if other.side.label == one.side.label and other.side.paths != one.side.paths]
        label = ", ".join(one.side.paths) if alike else one.side.label
        found.append(one._replace(side=msgspec.structs.replace(one.side, label=label)))
    return found


def _comparison(before: Runs, after: Runs) -> records.Comparison:
    match = match_nodes(before.graph, after.graph)
    regions = regions_of(before, after, match)
    parts = parts_of(regions, before, after)
    times = region_times(regions, before, after)
    latency = latency_change(before, after)
    changes = sorted(
        (_region_change(*row, before, after) for row in zip(regions, parts, times, strict=True)),
        key=lambda one: (-abs(one.difference_ns), -one.after_ns, one.name),
    )
    ledger = ledger_of(parts, before, after)
    gone, new = findings_apart(before, after, regions)
    facts = facts_of(before, after)
    undecided = latency.answer == "not significant" and (before.disturbed or after.disturbed)
    return records.Comparison(
        before=before.side,
        after=after.side,
        verdict=verdict_of(before.side, after.side, latency, ledger, changes, facts, undecided=undecided),
        latency=latency,
        ledger=ledger,
        regions=tuple(changes),
        facts=facts,
        findings_gone=gone,
        findings_new=new,
        notes=notes_of(before, after, latency, match, regions),
    )


def _region_change(
    region: Region, parts: Parts, times: RegionTimes | None, before: Runs, after: Runs
) -> records.RegionChange:
    return records.RegionChange(
        name=region.name,
        op_types=op_types(region, before, after),
        nodes_before=tuple(before.graph.names[at] for at in region.nodes_before),
        nodes_after=tuple(after.graph.names[at] for at in region.nodes_after),
        layers_before=tuple(layer.name for layer in region.before),
        layers_after=tuple(layer.name for layer in region.after),
        kernels_before=_kernels(region.before),
        kernels_after=_kernels(region.after),
        dtype_before=_dtype(region.before),
        dtype_after=_dtype(region.after),
        before_ns=max(region.before_ns, 0),
        after_ns=max(region.after_ns, 0),
        difference_ns=region.after_ns - region.before_ns,
        attainable_before_ns=_attainable(region.before),
        attainable_after_ns=_attainable(region.after),
        expected_before=_expected(region.before),
        expected_after=_expected(region.after),
        parts={str(cause): ns for cause, ns in parts.ns.items()},
        interval_ns=times.interval if times else None,
        answer=times.answer if times else None,
        match=region.match,
        reason=parts.reason,
    )


def _kernels(layers: Sequence[records.LayerResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kernel.kernel for layer in layers for kernel in layer.kernels))


def _dtype(layers: Sequence[records.LayerResult]) -> str:
    return ", ".join(dict.fromkeys(layer.dtype for layer in layers if layer.dtype))


def _attainable(layers: Sequence[records.LayerResult]) -> int | None:
    known = [layer.attainable_ns for layer in layers if layer.attainable_ns is not None]
    return sum(known) if known and len(known) == len(layers) else None


def _expected(layers: Sequence[records.LayerResult]) -> records.Expectation | None:
    if not layers or any(layer.expected_ns is None for layer in layers):
        return None
    return records.Expectation(
        expected_ns=sum(layer.expected_ns or 0 for layer in layers),
        expected_p10_ns=sum(layer.expected_p10_ns or 0 for layer in layers),
        expected_p90_ns=sum(layer.expected_p90_ns or 0 for layer in layers),
        expected_basis=records.least_sure(layers),
    )


class _Callable(types.ModuleType):
    """`trtprof.compare(a, b)` is a verb of notebooks as `profiler.run` is: the package has its name, so it answers."""

    def __call__(self, *sides: Any) -> Any:
        # What it returns shows itself with reports, which are above comparisons.
        return importlib.import_module("trtprof.flows.notebook").compare(*sides)


sys.modules[__name__].__class__ = _Callable
