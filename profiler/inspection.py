"""The work of a model before anything is built: node by node, by op, and in all.

A pure function of the source artefact, like `profiler.analysis`, and needed by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from profiler.cost import CostError, work_of
from profiler.cost.fused import combined, total
from profiler.cost.precision import compute_dtypes
from profiler.records import (
    SCHEMA_VERSION,
    Inspection,
    Node,
    Op,
    OpTotal,
    Source,
    Unsupported,
    Work,
    WorkBound,
)

NO_COST = "no cost function"


def price(op: Op, dtype: str = "") -> tuple[Work | None, str]:
    """The work of an op, or None and why there is none."""
    try:
        work = work_of(op, dtype)
    except CostError as error:
        return None, f"{error.kind}: {error}"
    return (work, "") if work is not None else (None, NO_COST)


def work_of_nodes(nodes: Sequence[Node]) -> tuple[dict[str, Work | None], dict[str, str]]:
    """Work by node name, None where it is unknown, and why it is unknown.

    A node that constants decide does no work in the run; it is priced all the same.
    """
    works: dict[str, Work | None] = {}
    reasons: dict[str, str] = {}
    dtypes = compute_dtypes(nodes)
    for node in nodes:
        works[node.name], reason = price(node.op, dtypes.get(node.name, ""))
        if reason:
            reasons[node.name] = reason
    return works, reasons


def inspection_of(source: Source) -> Inspection:
    """Work of a model by op, before anything is built.

    The nodes of a body count as often as it runs: the total says where that is not known.
    """
    works, reasons = work_of_nodes(source.nodes)
    nodes = tuple(msgspec.structs.replace(node, work=works[node.name]) for node in source.nodes)
    runs = count_runs(nodes)
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.op.domain, node.op.op_type), []).append(node)
    ops = [
        OpTotal(domain=domain, op_type=op_type, count=len(found), work=_total(found, runs.times))
        for (domain, op_type), found in sorted(groups.items())
    ]
    missing: dict[tuple[str, str, str], int] = {}
    for node in nodes:
        if node.name in reasons:
            key = (node.op.domain, node.op.op_type, reasons[node.name].partition(":")[0])
            missing[key] = missing.get(key, 0) + 1
    everything = total(op.work for op in ops)
    return Inspection(
        schema_version=SCHEMA_VERSION,
        model=source.model,
        total=msgspec.structs.replace(everything, bound=combined(everything.bound, runs.bound), note=_note(ops, runs)),
        macs_by_dtype=_macs_by_dtype(nodes, runs.times),
        ops=tuple(sorted(ops, key=lambda op: (-op.work.flops, -op.work.bytes, op.op_type))),
        nodes=nodes,
        unsupported=tuple(
            Unsupported(domain=domain, op_type=op_type, count=count, measured_ns=0, share=0.0, reason=reason)
            for (domain, op_type, reason), count in sorted(missing.items())
        ),
    )


def _note(ops: Sequence[OpTotal], runs: Runs) -> str:
    bounded = [f"{op.op_type} ({op.work.bound})" for op in ops if op.work.bound != "exact"]
    return "; ".join(
        filter(None, (runs.note, "bounded by what data decides: " + ", ".join(bounded) if bounded else ""))
    )


def _macs_by_dtype(nodes: Sequence[Node], times: Mapping[str, int]) -> dict[str, int]:
    macs: dict[str, int] = {}
    for node in nodes:
        if node.work is not None and node.work.tensor_flops and not node.constant and times[node.graph]:
            macs[node.work.dtype] = macs.get(node.work.dtype, 0) + node.work.macs * times[node.graph]
    return dict(sorted(macs.items()))


def _total(nodes: Sequence[Node], times: Mapping[str, int]) -> Work:
    return total(scaled(node.work, times[node.graph]) for node in nodes if not node.constant and node.work is not None)


def scaled(work: Work, times: int) -> Work:
    """The work of something that is done several times, each time from memory."""
    if times == 1:
        return work
    return msgspec.structs.replace(
        work,
        tensor_flops=work.tensor_flops * times,
        vector_flops=work.vector_flops * times,
        special={name: count * times for name, count in work.special.items()},
        bytes_read=work.bytes_read * times,
        bytes_written=work.bytes_written * times,
        bytes_parameters=work.bytes_parameters * times,
        bound=work.bound if times else "exact",
    )


class Runs(NamedTuple):
    """How often the nodes of each graph run in one inference."""

    times: Mapping[str, int]
    bound: WorkBound
    note: str


def count_runs(nodes: Sequence[Node]) -> Runs:
    """How often each graph runs in one inference.

    Of each If the branch with more work counts. A Scan makes as many trips as its scan inputs are
    long; a Loop as many as its trip count says, where that is a constant. A body whose trips are
    not known counts once.
    """
    inside: dict[str, list[Node]] = {}
    bodies: dict[str, list[str]] = {}
    for node in nodes:
        if node.graph not in inside:
            inside[node.graph] = []
            if node.graph:
                bodies.setdefault(node.graph.rpartition("/")[0], []).append(node.graph)
        inside[node.graph].append(node)
    owners = {node.name: node.op for node in nodes if node.name in bodies}
    trips = {name: _trips(op) for name, op in owners.items()}
    flops: dict[str, int] = {}
    taken: dict[str, list[str]] = {}
    # A graph is first met after the one around it: from the back, bodies come before their owners.
    for graph in reversed(list(inside)):
        flops[graph] = 0
        for node in inside[graph]:
            flops[graph] += node.work.flops if node.work is not None else 0
            if node.name in bodies:
                of = bodies[node.name]
                of = [max(of, key=lambda body: (flops[body], body))] if node.op.op_type == "If" else of
                taken[node.name] = of
                flops[graph] += trips[node.name].repeats * sum(flops[body] for body in of)
    times = dict.fromkeys(inside, 0)
    times[""] = 1
    for graph, own in inside.items():
        for node in own:
            for body in taken.get(node.name, ()):
                times[body] = times[graph] * trips[node.name].repeats
    counted = [trips[node.name] for node in nodes if node.name in trips and times[node.graph]]
    notes = dict.fromkeys(trip.note for trip in counted if trip.note)
    return Runs(times, combined(*(trip.bound for trip in counted)), "; ".join(notes))


class _Trips(NamedTuple):
    repeats: int
    bound: WorkBound = "exact"
    note: str = ""


def _trips(op: Op) -> _Trips:
    if op.op_type == "If":
        return _Trips(1, "upper", "of each If the branch with more work is counted")
    if op.op_type == "Scan":
        length = _scan_length(op)
        if length is not None:
            return _Trips(length)
    if op.op_type == "Loop":
        limit = op.inputs[0] if op.inputs else None
        if limit is not None and limit.value:
            if len(op.inputs) < 2 or op.inputs[1] is None:
                return _Trips(max(limit.value[0], 0))
            return _Trips(max(limit.value[0], 0), "upper", "each Loop is counted as long as its trip count says")
    return _Trips(1, "lower", f"the body of a {op.op_type} whose trips are not known is counted once")


def _scan_length(op: Op) -> int | None:
    """Trips of a Scan: the length of its scan inputs; in opset 8, which has a batch, times the batch."""
    count = op.attributes.get("num_scan_inputs", 0)
    if not isinstance(count, int) or not 0 < count <= len(op.inputs):
        return None
    first = op.inputs[-count]
    if first is None or first.shape is None or not first.shape:
        return None
    if op.opset < 9:
        dims = first.shape[:2]
    else:
        axes = op.attributes.get("scan_input_axes", ())
        axis = int(axes[0]) if isinstance(axes, tuple) and axes else 0
        dims = first.shape[axis : axis + 1] if axis >= 0 else first.shape[axis:][:1]
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if known and len(known) == len(dims) else None
