"""Which tensors of an engine are alive while each of its layers runs (`records.RunMemory`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from trtprof.base.records import PlanLayer, RunMemory

__all__ = ["memory_of_plan"]


def memory_of_plan(layers: Sequence[PlanLayer], results: Collection[str]) -> RunMemory | None:
    """The memory that tensors need, layer by layer in execution order, results to the end; None without a layer.

    A name is one piece of memory from its first writer to its last reader: so the parts of a Concat share theirs.
    """
    if not layers:
        return None
    end = len(layers) - 1
    constant = {tensor.name for layer in layers for tensor in layer.constants}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    size: dict[str, int | None] = {}
    for at, layer in enumerate(layers):
        for tensor in layer.inputs:
            if tensor.name in constant:
                continue
            # What nobody wrote before is given from outside, before the first layer runs.
            first.setdefault(tensor.name, 0)
            last[tensor.name] = at
            size[tensor.name] = _larger(size.get(tensor.name, 0), tensor.nbytes)
        for tensor in layer.outputs:
            if tensor.name in constant:
                continue
            first.setdefault(tensor.name, at)
            last[tensor.name] = at
            size[tensor.name] = _larger(size.get(tensor.name, 0), tensor.nbytes)
    names = [name for name, nbytes in size.items() if nbytes]
    ends = {name: end if name in results else last[name] for name in names}
    steps = [0] * (len(layers) + 1)
    for name in names:
        steps[first[name]] += size[name] or 0
        steps[ends[name] + 1] -= size[name] or 0
    live = tuple(accumulate(steps[:-1]))
    peak = max(live)
    return RunMemory(
        live=live,
        peak_bytes=peak,
        peak_at=live.index(peak),
        tensor=tuple(names),
        nbytes=tuple(size[name] or 0 for name in names),
        first=tuple(first[name] for name in names),
        last=tuple(ends[name] for name in names),
        unknown=sum(nbytes is None for nbytes in size.values()),
    )


def _larger(one: int | None, other: int | None) -> int | None:
    """The larger size; None where one is not known."""
    return None if one is None or other is None else max(one, other)
