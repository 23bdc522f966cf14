"""The work of a group of nodes that run as one kernel: FLOPs add up, bytes are those of its distinct border tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from trtprof.base.records import Op, Unsure, Work, WorkBound
from trtprof.cost import NO_SPARE, Cost, Moved, as_work, cost_of
from trtprof.cost._core import joined_core
from trtprof.cost._recipes import NOTHING, merged
from trtprof.cost.precision import compute_dtype, quantized_products


def work_of_group(
    ops: Sequence[Op], outputs: Collection[str] | None = None, dtypes: Mapping[str, str] | None = None
) -> Work | None:
    """The work of nodes in graph order as one kernel, or None when one of them has no cost function.

    ``dtypes`` are those of tensors in the engine, where they are not the model's.
    """
    costs = _costs(ops)
    if costs is None:
        return None
    found = _joined(ops, costs, outputs)
    return as_work(found, _main_dtype(ops, costs) if found.computes else "", dtypes)


def group_cost(ops: Sequence[Op], outputs: Collection[str] | None = None) -> Cost | None:
    """The same, with traffic by tensor.

    Several nodes that read parts of one tensor (two Slices) count the sum of the parts, and no more than all of it.
    """
    costs = _costs(ops)
    return None if costs is None else _joined(ops, costs, outputs)


def _costs(ops: Sequence[Op]) -> list[Cost] | None:
    costs = []
    for op in ops:
        found = cost_of(op)
        if found is None:
            return None
        costs.append(found)
    return costs


def _joined(ops: Sequence[Op], costs: Sequence[Cost], outputs: Collection[str] | None) -> Cost:
    tensor_flops = fast_flops = 0
    arithmetic = NOTHING
    spare = NO_SPARE
    bound: WorkBound = "exact"
    notes: dict[str, None] = {}
    origin: dict[str, str] = {}
    """View -> the tensor whose bytes it shows."""
    read: dict[str, Moved] = {}
    written: dict[str, Moved] = {}
    used: set[str] = set()
    for op, found in zip(ops, costs, strict=True):
        tensor_flops += found.tensor_flops
        fast_flops += found.fast_flops
        arithmetic = arithmetic.plus(found.arithmetic)
        spare = spare.plus(found.unsure)
        bound = combined(bound, found.bound)
        if found.note and not found.views:
            notes[found.note] = None
        used.update(tensor.name for tensor in op.inputs if tensor is not None)
        for moved in found.reads:
            root = origin.get(moved.tensor.name, moved.tensor.name)
            if root not in written:
                read[root] = _more(read.get(root), moved, root)
        for moved in found.writes:
            written[moved.tensor.name] = moved
        for view, source in found.views.items():
            origin[view] = origin.get(source, source)
    kept = _needed(ops, used) if outputs is None else set(outputs)
    leaving = {origin.get(name, name) for name in kept}
    writes = tuple(moved for name, moved in written.items() if name in leaving)
    return Cost(
        tensor_flops=tensor_flops,
        arithmetic=arithmetic,
        reads=tuple(read.values()),
        writes=writes,
        views=origin,
        bound=bound,
        note="; ".join(notes),
        fast_flops=fast_flops,
        spare=spare._replace(tensors=frozenset(origin.get(name, name) for name in spare.tensors)),
        core=joined_core(ops, costs, sum(moved.elements for moved in writes)),
    )


def combined(*bounds: WorkBound) -> WorkBound:
    """The bound of a sum from those of its parts."""
    sides = set(bounds) - {"exact"}
    if len(sides) > 1:
        return "mixed"
    return sides.pop() if sides else "exact"


def total(works: Iterable[Work]) -> Work:
    """The sum of works, without notes; ``dtype`` is that of the part with most arithmetic."""
    tensor = vector = read = written = parameters = most = fast = 0
    unsure = Unsure()
    special: Mapping[str, int] = {}
    bound: WorkBound = "exact"
    dtype = ""
    for work in works:
        tensor += work.tensor_flops
        vector += work.vector_flops
        special = merged(special, work.special)
        read += work.bytes_read
        written += work.bytes_written
        parameters += work.bytes_parameters
        fast += work.fast_flops
        unsure = both_unsure(unsure, work.unsure)
        bound = combined(bound, work.bound)
        if work.flops > most:
            most, dtype = work.flops, work.dtype
    return Work(
        tensor_flops=tensor,
        vector_flops=vector,
        special=dict(special),
        bytes_read=read,
        bytes_written=written,
        bytes_parameters=parameters,
        dtype=dtype,
        bound=bound,
        fast_flops=fast,
        unsure=unsure,
    )


def both_unsure(first: Unsure, second: Unsure) -> Unsure:
    """What data may spare of two works."""
    if second == Unsure():
        return first
    return Unsure(
        tensor_flops=first.tensor_flops + second.tensor_flops,
        vector_flops=first.vector_flops + second.vector_flops,
        special=dict(merged(first.special, second.special)),
        bytes=first.bytes + second.bytes,
    )


def _more(before: Moved | None, moved: Moved, name: str) -> Moved:
    if before is None:
        same = moved.tensor.name == name
        return moved if same else Moved(msgspec.structs.replace(moved.tensor, name=name), moved.elements)
    whole = before.tensor.elements
    both = before.elements + moved.elements
    return Moved(before.tensor, both if whole is None else min(both, whole))


def _needed(ops: Sequence[Op], used: Collection[str]) -> set[str]:
    return {tensor.name for op in ops for tensor in op.outputs if tensor is not None and tensor.name not in used}


def _main_dtype(ops: Sequence[Op], costs: Sequence[Cost]) -> str:
    """What the node with most arithmetic computes with; products count before all else."""
    main = max(range(len(ops)), key=lambda index: (costs[index].tensor_flops, costs[index].arithmetic.vector))
    return quantized_products(ops).get(main) or compute_dtype(ops[main])
