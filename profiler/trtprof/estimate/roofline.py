"""The roofline: what each layer should take on this device.

A layer takes at least as long as the unit or memory level that is busy longest: ``tensor``, ``vector``, ``sfu``
(special functions), ``dram``, ``l2`` (all bytes). S. Williams, A. Waterman, D. Patterson, Roofline, CACM 52(4), 2009;
C. Yang, T. Kurth, S. Williams, Hierarchical Roofline analysis for GPUs, Concurrency and Computation 32(20), 2020.

``ideal``: the best ceilings and the best that any cache can do; sound, for it leaves out what data may spare
(`Work.unsure`). ``attainable``: measured ceilings, the bytes that the cache model finds, at least an empty kernel.
Products that a fast algorithm does without (`Work.fast_flops`) are in neither.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import cast

import msgspec

from trtprof.base.peaks import peak_flops, special_rate
from trtprof.base.records import Bound, Ceilings, Estimate, Layer, Roof, Tensor, Unsure, Work
from trtprof.estimate.cache import Access, Traffic, never_read

_WRITE_SHARES = {"read": 0.0, "add": 1 / 3, "copy": 1 / 2}


def dram_rate(roof: Roof, work: Work) -> float:
    """DRAM bandwidth in B/s of a kernel that does not write where it reads.

    The time a byte takes is interpolated between the patterns that were measured, by the share of the
    bytes that are written.
    """
    points = [
        (share, roof.dram_out_of_place_bytes_per_s[pattern])
        for pattern, share in _WRITE_SHARES.items()
        if pattern in roof.dram_out_of_place_bytes_per_s
    ]
    if not points or not work.bytes:
        return roof.dram_bytes_per_s
    share = work.bytes_written / work.bytes
    shares = [share for share, _ in points]
    rates = [rate for _, rate in points]
    at = bisect.bisect(shares, share)
    if at in (0, len(points)):
        rate = rates[0 if at == 0 else -1]
    else:
        part = (share - shares[at - 1]) / (shares[at] - shares[at - 1])
        rate = 1 / ((1 - part) / rates[at - 1] + part / rates[at])
    return min(rate, roof.dram_bytes_per_s)


def unit_terms(work: Work, roof: Roof) -> dict[str, Fraction]:
    """Exact times in ns that the units of the device are busy with the work: ``tensor``, ``vector``, ``sfu``.

    Where no special function has a ceiling, their FLOP are the vector unit's.
    """
    vector = work.vector_flops + (0 if roof.special_per_s else work.special_flops)
    special = sum(
        (_ns(count, special_rate(roof, function)) for function, count in work.special.items() if roof.special_per_s),
        start=Fraction(0),
    )
    return {
        "tensor": _ns(
            work.fewest_tensor_flops,
            peak_flops(
                roof.tensor_flops_per_s,
                work.dtype,
                roof.fp32_accumulate_flops_per_s if work.accumulator == "fp32" else None,
            ),
        ),
        "vector": _ns(vector, peak_flops(roof.vector_flops_per_s, work.dtype)),
        "sfu": special,
    }


def layer_accesses(
    layers: Sequence[Layer], works: Mapping[str, Work | None], outputs: Collection[str] = ()
) -> tuple[list[Access], frozenset[str]]:
    """What every layer touches, and the tensors whose last value is needed until the next inference."""
    names = _Names(layers)
    accesses = [_access(layer, works.get(layer.name), names) for layer in layers]
    return accesses, frozenset(never_read(accesses) | {names.root("", name) for name in outputs})


def out_of_place(accesses: Sequence[Access]) -> set[str]:
    """Layers that read and cannot write in place: no tensor that dies with them is as large as what they write."""
    last = {name: access.layer for access in accesses for name in access.reads}
    made: set[str] = set()
    found = set()
    for access in accesses:
        dying = {size for name, size in access.reads.items() if name in made and last[name] == access.layer}
        if access.reads and not dying & set(access.writes.values()):
            found.add(access.layer)
        made.update(access.writes)
    return found


def estimate(work: Work, traffic: Traffic, ceilings: Ceilings, *, out_of_place: bool = False) -> Estimate:
    """Ideal and attainable time of one layer in ns, rounded up; ``traffic`` is scaled to ``work.bytes``."""
    best, roof = ceilings.best, ceilings.attainable
    touched = traffic.cache_bytes + traffic.dram_bytes
    # Where the size of the cache is not known, any byte may be found in it.
    capacity = ceilings.cache_bytes or work.bytes
    cache_bytes = min(work.bytes * traffic.cache_bytes // touched if touched else 0, capacity)
    dram_bytes = work.bytes - cache_bytes
    fastest = max(best.dram_bytes_per_s, best.cache_bytes_per_s)
    needed = work.bytes - work.unsure.bytes
    ideal = max(
        *unit_terms(certain(work), best).values(),
        _ns(needed, fastest),
        _ns(max(needed - capacity, 0), best.dram_bytes_per_s),
    )
    # Of equal terms the first is the bound.
    terms = {
        "launch": Fraction(ceilings.launch_ns),
        **unit_terms(work, roof),
        "dram": _ns(dram_bytes, dram_rate(roof, work) if out_of_place else roof.dram_bytes_per_s),
        "l2": _ns(work.bytes, max(roof.cache_bytes_per_s, roof.dram_bytes_per_s)),
    }
    roofline_ns = math.ceil(max(time for name, time in terms.items() if name != "launch"))
    bound, runner_up = sorted(terms, key=lambda name: -terms[name])[:2]
    return Estimate(
        ideal_ns=math.ceil(ideal),
        attainable_ns=max(roofline_ns, math.ceil(ceilings.launch_ns)),
        roofline_ns=roofline_ns,
        bound=cast("Bound", bound),
        runner_up=cast("Bound", runner_up) if terms[runner_up] else "none",
        terms={name: math.ceil(time) for name, time in terms.items()},
        dram_bytes=dram_bytes,
        cache_bytes=cache_bytes,
    )


def certain(work: Work) -> Work:
    """The work less the arithmetic that data may spare."""
    unsure = work.unsure
    if unsure == Unsure():
        return work
    return msgspec.structs.replace(
        work,
        tensor_flops=work.tensor_flops - unsure.tensor_flops,
        vector_flops=work.vector_flops - unsure.vector_flops,
        special={name: count - unsure.special.get(name, 0) for name, count in work.special.items()},
        fast_flops=max(work.fast_flops - unsure.tensor_flops, 0),
    )


def _ns(amount: int, per_s: float) -> Fraction:
    """Exact, so that rounding up never puts a bound above a time that it bounds."""
    return amount * 10**9 / Fraction(per_s)


class _Names:
    """What tensors are called over all graphs of a model."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._made = {f"{layer.graph}/{tensor.name}" for layer in layers for tensor in _present(layer.op.outputs)}
        self._aliases: dict[str, str] = {}

    def root(self, graph: str, name: str) -> str:
        around = graph
        while around and f"{around}/{name}" not in self._made:
            around = around.rpartition("/")[0]
        # What no layer makes is an input or a constant of the graph that reads it.
        full = f"{around}/{name}" if f"{around}/{name}" in self._made else f"{graph}/{name}"
        return self._aliases.get(full, full)

    def alias(self, graph: str, name: str, source: str) -> None:
        """From now on the tensor is the one that ``source`` is the root of."""
        self._aliases[f"{graph}/{name}"] = source


def _access(layer: Layer, work: Work | None, names: _Names) -> Access:
    inputs = {names.root(layer.graph, tensor.name): tensor.nbytes or 0 for tensor in _present(layer.op.inputs)}
    if work is not None and work.bytes == 0:
        # A view moves nothing; its output is its first input under another name. What is of another
        # size is no view (what a Loop gives out, the mask of a Dropout).
        for output in _present(layer.op.outputs):
            if inputs and (source := next(iter(inputs.items())))[1] == output.nbytes:
                names.alias(layer.graph, output.name, source[0])
        return Access(layer.name, {}, {})
    outputs = {f"{layer.graph}/{tensor.name}": tensor.nbytes or 0 for tensor in _present(layer.op.outputs)}
    if work is not None:
        held = sum(tensor.nbytes or 0 for tensor in _present(layer.op.inputs) if tensor.constant)
        if work.bytes_parameters > held:
            # Trees and the like keep their parameters in attributes.
            inputs[f"{layer.graph}/{layer.name} (attributes)"] = work.bytes_parameters - held
        _shrink(inputs, work.bytes_read)
        _shrink(outputs, work.bytes_written)
    return Access(layer.name, inputs, outputs)


def _shrink(sizes: dict[str, int], touched: int) -> None:
    """An op such as Gather touches a part of its tensors: the largest is taken to be the one it is a part of."""
    surplus = sum(sizes.values()) - touched
    for name in sorted(sizes, key=lambda key: -sizes[key]):
        if surplus <= 0:
            return
        cut = min(surplus, sizes[name])
        sizes[name] -= cut
        surplus -= cut


def _present(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]
