"""A tensor that is a little too large to stay in the L2.

What:
    A layer leaves a tensor for the next one that is larger than the L2, but half of it is not. The next layer, which
    DRAM bounds, reads all of it from DRAM.

Why:
    A cache that replaces what was used least recently keeps nothing of a tensor that is larger than itself and read
    from its start (`trtprof` takes the L2 for such a cache). With half the batch the tensor would be found there.

Try:
    Two runs of half the batch, or two streams (`--infStreams=2`), where the time of one item counts and not that of
    the launches; layers in another order, so that each part is read before it leaves; fusing the two layers. The
    price is that of one tensor by the roofline, less a second read of the weights and a second launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trtprof.base.records import LayerResult, PlanTensor
from trtprof.base.units import format_bytes, format_ns
from trtprof.diagnose import Case, Claim, rule
from trtprof.diagnose.reasons import bound_otherwise, no_work, unpriced


class _Thrash(NamedTuple):
    maker: LayerResult
    reader: LayerResult
    tensor: PlanTensor
    saved_ns: int


def _saved_ns(case: Case, layer: LayerResult, tensor_bytes: int) -> int:
    """What a layer would take less in two runs that each find half of a tensor in the cache; below 0 if more."""
    work, rate = layer.work, case.ceilings.attainable.dram_bytes_per_s
    if work is None or not layer.terms.get("dram"):
        return 0
    change_ns = (work.bytes_parameters - tensor_bytes) / rate * 1e9
    terms = {**layer.terms, "dram": layer.terms["dram"] + change_ns}
    return int(max(layer.terms.values()) - max(terms.values()) - case.ceilings.launch_ns)


def _thrashing(case: Case) -> Iterator[_Thrash]:
    """Tensors between two layers that follow one another."""
    capacity = case.ceilings.cache_bytes
    if not case.gpu or not capacity:
        return
    given_out, readers = case.bound_to("output"), case.readers
    for maker, reader in zip(case.layers, case.layers[1:], strict=False):
        one, other = case.plan.get(maker.name), case.plan.get(reader.name)
        if one is None or other is None or reader.role != "compute" or reader.bound != "dram":
            continue
        read = {tensor.name for tensor in other.layer.inputs}
        for tensor in one.layer.outputs:
            size = tensor.nbytes
            if size is None or not capacity < size <= case.thresholds.near_cache * capacity:
                continue
            # Half of an odd batch is none, and what others read as well has more to it than these two layers.
            halves = bool(tensor.dims) and tensor.dims[0] % 2 == 0  # type: ignore[index]
            if tensor.name in read and halves and len(readers[tensor.name]) == 1 and tensor.name not in given_out:
                yield _Thrash(maker, reader, tensor, _saved_ns(case, reader, size))


def _reason(case: Case, layer: LayerResult) -> str:
    if why := no_work(case, layer) or unpriced(case, layer) or bound_otherwise(case, layer, "dram"):
        return why
    capacity = case.ceilings.cache_bytes
    if not case.gpu or not capacity:
        return "the size of the cache of this device is not known"
    found = next((one for one in _thrashing(case) if one.reader.name == layer.name), None)
    if found is None:
        return (
            f"the layer before it leaves it no tensor of an even batch, read by nothing else, that is larger than the "
            f"{format_bytes(capacity)} of {case.cache_name} and not larger than "
            f"{format_bytes(round(case.thresholds.near_cache * capacity))}"
        )
    return (
        f"to read {found.tensor.name} from {case.cache_name} would save {format_ns(max(found.saved_ns, 0))}, less a "
        f"second read of its weights and a second launch"
    )


@rule("CA806", "tensor a little larger than the L2", order=66, reason=_reason, thresholds=("near_cache",))
def check(case: Case) -> Iterator[Claim]:
    """All such tensors as one finding, which claims what their readers would take less."""
    free = {layer.name for layer in case.unclaimed}
    found = [one for one in _thrashing(case) if one.reader.name in free and one.saved_ns > case.clock_resolution_ns]
    if not found:
        return
    worst = max(found, key=lambda one: (one.saved_ns, one.reader.name))
    size, batch = worst.tensor.nbytes or 0, (worst.tensor.dims or (0,))[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    yield Claim(
        where=f"{worst.maker.name} -> {worst.reader.name}{more}",
        evidence=(
            f"{format_bytes(size)} between them do not stay in the {format_bytes(case.ceilings.cache_bytes)} of "
            f"{case.cache_name}, {format_bytes(size // 2)} would: two runs with {batch // 2} in place of {batch} would "
            f"take {format_ns(worst.saved_ns)} less in {worst.reader.name} by the roofline, "
            f"{format_ns(sum(one.saved_ns for one in found))} in all such layers"
        ),
        remedy=f"compare two runs of batch {batch // 2} with one of {batch} (--shapes), or fuse the two layers",
        layers={one.reader.name: one.saved_ns for one in found},
        confidence=0.4,
    )
