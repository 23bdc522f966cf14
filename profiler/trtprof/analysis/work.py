"""The work of a model before anything is built: node by node, by op, and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trtprof.base import records
from trtprof.base.calls import folded
from trtprof.base.op_kinds import MULTIPLYING
from trtprof.base.units import format_names
from trtprof.cost import CostError, UnknownShapeError, work_of
from trtprof.cost.fused import combined, total, work_of_group
from trtprof.cost.ops.control import trips
from trtprof.cost.precision import compute_dtypes

NO_COST = "no cost function"
_UNKNOWN = UnknownShapeError.kind


def price(op: records.Op, dtype: str = "") -> tuple[records.Work | None, str]:
    """The work of an op, or None and why there is none."""
    try:
        work = work_of(op, dtype)
    except CostError as error:
        return None, f"{error.kind}: {error}"
    return (work, "") if work is not None else (None, NO_COST)


def price_group(nodes: Sequence[records.Node], outputs: Collection[str]) -> tuple[records.Work | None, str]:
    """The work of nodes as one kernel that writes these tensors, or None and why there is none."""
    try:
        work = work_of_group([node.op for node in nodes if not node.constant], outputs)
    except CostError as error:
        return None, f"{error.kind}: {error}"
    return (work, "") if work is not None else (None, NO_COST)


def work_of_nodes(nodes: Sequence[records.Node]) -> tuple[dict[str, records.Work | None], dict[str, str]]:
    """Work by node name, None where it is unknown, and why it is unknown."""
    works: dict[str, records.Work | None] = {}
    reasons: dict[str, str] = {}
    dtypes = compute_dtypes(nodes)
    # Networks repeat themselves: what differs in the names of its tensors alone has one price.
    kinds = Kinds()
    done: dict[Hashable, records.Work] = {}
    for node in nodes:
        dtype = dtypes.get(node.name, "")
        kind = dtype, kinds.of(node.op)
        work = done.get(kind)
        if work is None:
            work, reason = price(node.op, dtype)
            if work is None:
                reasons[node.name] = reason
            else:
                done[kind] = work
        works[node.name] = work
    return works, reasons


class Kinds:
    """What tells ops apart without names of tensors; ``varying`` stands for a shape and value that vary, else None."""

    def __init__(self, varying: Callable[[str, records.Tensor], Hashable] | None = None) -> None:
        self._varying = varying
        self._tokens: dict[Hashable, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def of(self, op: records.Op, graph: str = "") -> tuple[Hashable, ...]:
        """Equal for two ops that are equal but for names; one that reads a tensor twice is of another kind."""
        tensors = (*op.inputs, *op.outputs)
        names = [tensor.name if tensor else "" for tensor in tensors]
        same = () if len(set(names)) == len(names) else tuple(map(names.index, names))
        tokens = [self._token(tensor, graph) if tensor else -1 for tensor in tensors]
        return op.domain, op.op_type, op.opset, tuple(op.attributes.items()), len(op.inputs), same, *tokens

    def _token(self, tensor: records.Tensor, graph: str) -> int:
        place = graph, id(tensor)  # the nodes of a graph share the records of their tensors
        token = self._seen.get(place)
        if token is None:
            varying = None if self._varying is None else self._varying(graph, tensor)
            shape = (tensor.shape, tensor.value) if varying is None else varying
            content = tensor.dtype, tensor.kind, tensor.constant, shape
            token = self._seen[place] = self._tokens.setdefault(content, len(self._tokens))
        return token


def inspection_of(source: records.Source) -> records.Inspection:
    """Work of a model by op, before anything is built."""
    works, reasons = work_of_nodes(source.nodes)
    nodes = []
    for node, inner in folded(source.nodes):
        if node.call is None:
            work = works[node.name]
        else:
            work, reason = price_group(inner, node.call.outputs)
            reasons |= {node.name: reason} if reason else {}
        nodes.append(msgspec.structs.replace(node, work=work))
    found = totals([Alike(node, 1, reasons.get(node.name, "")) for node in nodes])
    return records.Inspection(
        schema_version=records.SCHEMA_VERSION,
        model=source.model,
        total=found.total,
        macs_by_dtype=found.macs_by_dtype,
        ops=found.ops,
        nodes=tuple(nodes),
        unsupported=found.unsupported,
        uncounted=found.uncounted,
    )


def explain_uncounted(ops: Iterable[tuple[str, int, str]]) -> str:
    """Name the ops of multiply-accumulates that are not counted, and why; empty where all of them are.

    Each op is given as its type, how many there are alike, and why they have no price.
    """
    everything, missing, reasons = Counter[str](), Counter[str](), dict[str, None]()
    for op_type, number, reason in ops:
        if op_type in MULTIPLYING:
            everything[op_type] += number
            if reason:
                missing[op_type] += number
                reasons[_UNKNOWN if _UNKNOWN in reason else reason.rpartition(": ")[2]] = None
    names = format_names([f"{number:,} of {everything[name]:,} {name}" for name, number in missing.most_common()])
    return f"{names} not counted ({format_names(list(reasons))})" if names else ""


class Alike(NamedTuple):
    """Nodes of one graph that do the same work."""

    first: records.Node  # The first of them, with its work
    number: int
    reason: str = ""  # Why they have no price


class Totals(NamedTuple):
    """What the nodes of a model add up to; see `Inspection`."""

    total: records.Work
    macs_by_dtype: dict[str, int]
    ops: tuple[records.OpTotal, ...]
    unsupported: tuple[records.Unsupported, ...]
    uncounted: str  # See `explain_uncounted`


def totals(nodes: Sequence[Alike]) -> Totals:
    """Add up all nodes of a model, in order of the first of each; one that owns bodies stands alone."""
    runs = count_runs([_all_of(alike) for alike in nodes])
    by_op: dict[tuple[str, str], list[Alike]] = {}
    missing: dict[tuple[str, str, str], int] = {}
    for alike in nodes:
        op = alike.first.op
        by_op.setdefault((op.domain, op.op_type), []).append(alike)
        if alike.reason:
            key = (op.domain, op.op_type, alike.reason.partition(":")[0])
            missing[key] = missing.get(key, 0) + alike.number
    ops = [
        records.OpTotal(
            domain=domain, op_type=op_type, count=sum(alike.number for alike in found), work=_total(found, runs.times)
        )
        for (domain, op_type), found in sorted(by_op.items())
    ]
    everything = total(op.work for op in ops)
    uncounted = explain_uncounted((node.op.op_type, number, reason) for node, number, reason in nodes)
    bound = combined(everything.bound, runs.bound, "lower" if missing else "exact")
    if uncounted:
        # What data may spare is no part of a lower bound.
        everything, bound = total(op.work for op in ops if op.work.bound in ("exact", "lower")), "lower"
    macs: dict[str, int] = {}
    for node, number, _ in nodes:
        if node.work is not None and node.work.tensor_flops and not node.constant and runs.times[node.graph]:
            macs[node.work.dtype] = macs.get(node.work.dtype, 0) + node.work.macs * runs.times[node.graph] * number
    return Totals(
        total=msgspec.structs.replace(
            everything,
            bound=bound,
            note=_note(ops, runs, sum(missing.values())),
        ),
        macs_by_dtype=dict(sorted(macs.items())),
        ops=tuple(sorted(ops, key=lambda op: (-op.work.flops, -op.work.bytes, op.op_type))),
        unsupported=tuple(
            records.Unsupported(domain=domain, op_type=op_type, count=count, measured_ns=0, share=0.0, reason=reason)
            for (domain, op_type, reason), count in sorted(missing.items())
        ),
        uncounted=uncounted,
    )


def _all_of(alike: Alike) -> records.Node:
    """One node that does the work of all."""
    node = alike.first
    if alike.number == 1 or node.work is None:
        return node
    return msgspec.structs.replace(node, work=scaled(node.work, alike.number))


def _note(ops: Sequence[records.OpTotal], runs: Runs, unpriced: int) -> str:
    missing = f"nodes without a price, which are not counted: {unpriced}" if unpriced else ""
    bounded = [f"{op.op_type} ({op.work.bound})" for op in ops if op.work.bound != "exact"]
    decided = "bounded by what data decides: " + ", ".join(bounded) if bounded else ""
    return "; ".join(filter(None, (missing, runs.note, decided)))


def _total(nodes: Sequence[Alike], times: Mapping[str, int]) -> records.Work:
    each = [
        (scaled(node.work, times[node.graph]), number)
        for node, number, _ in nodes
        if not node.constant and node.work is not None
    ]
    everything = total(scaled(work, number) for work, number in each)
    if all(number == 1 for _, number in each):
        return everything
    # The one with most arithmetic is a node, not many of them.
    most = max((work for work, _ in each), key=lambda work: work.flops)
    return msgspec.structs.replace(everything, dtype=most.dtype if most.flops else "")


def scaled(work: records.Work, times: int) -> records.Work:
    """The work of something that is done several times, each time from memory."""
    if times == 1:
        return work
    return msgspec.structs.replace(
        work, tensor_flops=work.tensor_flops * times, vector_flops=work.vector_flops * times,
        special={name: count * times for name, count in work.special.items()}, bytes_read=work.bytes_read * times,
        bytes_written=work.bytes_written * times, bytes_parameters=work.bytes_parameters * times,
        bound=work.bound if times else "exact", fast_flops=work.fast_flops * times,
        unsure=records.Unsure(
            tensor_flops=work.unsure.tensor_flops * times,
            vector_flops=work.unsure.vector_flops * times,
            special={name: count * times for name, count in work.unsure.special.items()},
            bytes=work.unsure.bytes * times,
        ),
    )  # fmt: skip


class Runs(NamedTuple):
    """How often the nodes of each graph run in one inference."""

    times: Mapping[str, int]
    bound: records.WorkBound
    note: str


def count_runs(nodes: Sequence[records.Node]) -> Runs:
    """How often each graph runs in an inference: of an If the branch with more work; unknown trips count once."""
    inside: dict[str, list[records.Node]] = {}
    bodies: dict[str, list[str]] = {}
    for node in nodes:
        if node.graph not in inside:
            inside[node.graph] = []
            if node.graph:
                bodies.setdefault(node.graph.rpartition("/")[0], []).append(node.graph)
        inside[node.graph].append(node)
    owners = {node.name: node.op for node in nodes if node.name in bodies}
    made = {name: trips(op) for name, op in owners.items()}
    flops: dict[str, int] = {}
    taken: dict[str, list[str]] = {}
    # A graph is first met after the one around it: from the back, bodies come before their owners.
    for graph in reversed(list(inside)):
        flops[graph] = 0
        for node in inside[graph]:
            flops[graph] += node.work.flops if node.work is not None else 0
            if node.name in bodies:
                of = bodies[node.name]
                if node.op.op_type == "If":
                    of = [_branch(node.op, of) or max(of, key=lambda body: (flops[body], body))]
                taken[node.name] = of
                flops[graph] += made[node.name].repeats * sum(flops[body] for body in of)
    times = dict.fromkeys(inside, 0)
    times[""] = 1
    for graph, own in inside.items():
        for node in own:
            for body in taken.get(node.name, ()):
                times[body] = times[graph] * made[node.name].repeats
    counted = [made[node.name] for node in nodes if node.name in made and times[node.graph]]
    notes = dict.fromkeys(trip.note for trip in counted if trip.note)
    return Runs(times, combined(*(trip.bound for trip in counted)), "; ".join(notes))


def _branch(op: records.Op, bodies: Sequence[str]) -> str | None:
    """The branch of an If that is taken, where shapes decide that; an empty one is not listed."""
    condition = op.inputs[0] if op.inputs else None
    if condition is None or not condition.value:
        return None
    taken = "/then_branch" if condition.value[0] else "/else_branch"
    return next((body for body in bodies if body.endswith(taken)), None)
