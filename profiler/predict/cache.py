"""A tensor-level model of the last-level cache over one steady-state inference.

Layers touch whole tensors in execution order; the cache keeps the most recently used ones. The
second of two simulated inferences is the steady state: weights and inputs that survive from one
inference to the next are hits. A tensor is found there when it and the distinct tensors touched
since its last use fit together (R. L. Mattson et al., Evaluation techniques for storage
hierarchies, IBM Systems Journal 9(2), 1970), so a larger cache never misses more. It is a lower
bound of the traffic: real caches are set-associative, shared with neighbours, and write dirty lines
back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Access(NamedTuple):
    """What one layer touches: tensor names and their sizes in bytes."""

    layer: str
    reads: Mapping[str, int]
    writes: Mapping[str, int]


class Traffic(NamedTuple):
    """Bytes that a layer gets from or leaves in the cache, and those that go to DRAM."""

    cache_bytes: int
    dram_bytes: int


def steady_state_traffic(accesses: Sequence[Access], capacity: int) -> dict[str, Traffic]:
    """Traffic of each layer in the second of two inferences that run one after the other.

    Args:
        accesses: Layers in execution order.
        capacity: Size of the cache in bytes; 0 makes every byte a miss.

    Returns:
        For each layer ``cache_bytes + dram_bytes`` equals the bytes that it touches.
    """
    resident: OrderedDict[str, int] = OrderedDict()
    used = 0
    result: dict[str, Traffic] = {}

    def touch(name: str, size: int) -> bool:
        nonlocal used
        hit = name in resident
        if hit:
            resident.move_to_end(name)
            return True
        if size > capacity:
            # Streamed: it passes through and evicts what was there.
            resident.clear()
            used = 0
            return False
        resident[name] = size
        used += size
        while used > capacity:
            _, evicted = resident.popitem(last=False)
            used -= evicted
        return False

    for inference in range(2):
        for access in accesses:
            hits = misses = 0
            for name, size in access.reads.items():
                if touch(name, size):
                    hits += size
                else:
                    misses += size
            for name, size in access.writes.items():
                touch(name, size)
                # A write that fits stays in the cache for its reader, wherever the line was before.
                if size <= capacity:
                    hits += size
                else:
                    misses += size
            if inference == 1:
                result[access.layer] = Traffic(hits, misses)
    return result
