"""The roofline: what each layer should take on this device.

``ideal`` = max(FLOP / peak, bytes / bandwidth) with the best ceilings of the device (S. Williams,
A. Waterman, D. Patterson, Roofline, CACM 52(4), 2009). Of the bytes of one layer, as many as the
last-level cache holds may be found there and are charged at the faster bandwidth; the rest must
cross to DRAM whatever came before. ``attainable`` uses the ceilings measured as the run was made,
charges at cache bandwidth what the cache model finds there, and is never below the time of an empty
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from profiler.predict.cache import Access, Traffic, steady_state_traffic
from profiler.records import Bound, Ceilings, Estimate, Layer, Roof, Tensor, Work


def peak_flops(roof: Roof, dtype: str) -> float:
    """Peak FLOP/s for a dtype; one without a ceiling of its own is bounded by fp32's."""
    return roof.flops_per_s.get(dtype) or roof.flops_per_s["fp32"]


def predict_layers(
    layers: Sequence[Layer], works: Mapping[str, Work | None], ceilings: Ceilings
) -> dict[str, Estimate | None]:
    """An estimate for every layer, None where its work is unknown.

    Args:
        layers: In execution order; their tensors carry the shapes of the run.
        works: Work by layer name.
        ceilings: Of the device that ran it.
    """
    aliases: dict[str, str] = {}
    accesses = [_access(layer, works.get(layer.name), aliases) for layer in layers]
    traffic = steady_state_traffic(accesses, ceilings.cache_bytes)
    return {
        layer.name: None if (work := works.get(layer.name)) is None else estimate(work, traffic[layer.name], ceilings)
        for layer in layers
    }


def estimate(work: Work, traffic: Traffic, ceilings: Ceilings) -> Estimate:
    """Ideal and attainable time of one layer in ns, rounded up.

    ``traffic`` gives the split between cache and DRAM; it is scaled to ``work.bytes``, because an
    op such as Gather touches only a part of its tensors.
    """
    best, roof = ceilings.best, ceilings.attainable
    touched = traffic.cache_bytes + traffic.dram_bytes
    # Where the size of the cache is not known, any byte may be found in it.
    capacity = ceilings.cache_bytes or work.bytes
    cache_bytes = min(work.bytes * traffic.cache_bytes // touched if touched else 0, capacity)
    dram_bytes = work.bytes - cache_bytes
    near = min(work.bytes, capacity)
    fastest = max(best.dram_bytes_per_s, best.cache_bytes_per_s)
    moved = _ns(near, fastest) + _ns(work.bytes - near, best.dram_bytes_per_s)
    ideal = max(_ns(work.flops, peak_flops(best, work.dtype)), moved)
    compute = _ns(work.flops, peak_flops(roof, work.dtype))
    dram, cache = _ns(dram_bytes, roof.dram_bytes_per_s), _ns(cache_bytes, roof.cache_bytes_per_s)
    roofline = max(compute, dram + cache)
    launch_ns = math.ceil(ceilings.launch_ns)
    roofline_ns = math.ceil(roofline)
    bound: Bound
    if launch_ns >= roofline_ns:
        bound = "launch"
    elif compute >= dram + cache:
        bound = "compute"
    else:
        bound = "dram" if dram >= cache else "cache"
    return Estimate(
        ideal_ns=math.ceil(ideal),
        attainable_ns=max(roofline_ns, launch_ns),
        roofline_ns=roofline_ns,
        bound=bound,
        terms={
            "compute": math.ceil(compute),
            "dram": math.ceil(dram),
            "cache": math.ceil(cache),
            "launch": launch_ns,
        },
        dram_bytes=dram_bytes,
        cache_bytes=cache_bytes,
    )


def _ns(amount: int, per_s: float) -> Fraction:
    """Exact, so that rounding up never puts a bound above a time that it bounds."""
    return amount * 10**9 / Fraction(per_s)


def _access(layer: Layer, work: Work | None, aliases: dict[str, str]) -> Access:
    inputs = {_root(layer, tensor, aliases): tensor.nbytes or 0 for tensor in _present(layer.op.inputs)}
    if work is not None and work.bytes == 0:
        # A view moves nothing; its output is its first input under another name. What is of another
        # size is no view (what a Loop gives out, the mask of a Dropout).
        for output in _present(layer.op.outputs):
            if inputs and (source := next(iter(inputs.items())))[1] == output.nbytes:
                aliases[f"{layer.graph}/{output.name}"] = source[0]
        return Access(layer.name, {}, {})
    outputs = {f"{layer.graph}/{tensor.name}": tensor.nbytes or 0 for tensor in _present(layer.op.outputs)}
    return Access(layer.name, inputs, outputs)


def _root(layer: Layer, tensor: Tensor, aliases: Mapping[str, str]) -> str:
    name = f"{layer.graph}/{tensor.name}"
    return aliases.get(name, name)


def _present(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]
