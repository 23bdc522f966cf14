"""A tensor-level model of the last-level cache over one steady-state inference.

Layers touch whole tensors in execution order: what a layer reads, then what it writes, each tensor
once and from its first byte to its last. The cache is fully associative, replaces what was used
least recently (LRU) and writes back. A tensor at a time gives the same, byte for byte, as LRU over
lines of one byte: what is there of a tensor are its last bytes, and when it is touched its first
bytes either fit into free room and that of what was used before it, or push out the rest just before
it is reached.

A kernel reads and writes side by side, so that a layer that touches more than there is room for
leaves of each of its tensors a part in proportion to its size, and nothing else: one that streams r
bytes in and w out leaves ``capacity * w / (r + w)`` of its output, however large that is. (That is
what ncu counts: an element-wise kernel on an A100 leaves 19 MB of its output in the L2 of 40 MB.)

What a touch costs:

- A read is found in the cache or comes from DRAM.
- A write lands in the cache and fetches nothing. The bytes of it that are pushed out while somebody
  still needs the value go to DRAM, once, and are charged to the layer that wrote them, so that the
  traffic of a layer is always the bytes that it touches. A value is needed until its last read
  before that tensor is written again, at least while the layer that writes it runs; an output of the
  graph until it is overwritten in the next inference.
- A value that nobody needs costs nothing when it is pushed out, and leaves its room when the layer
  that used it last is over: its buffer is reused.

Some of this can only make the traffic smaller, as a lower bound may: the dead leave at once, whole
lines are written without a fetch, the host touches neither inputs nor outputs between inferences,
no neighbour uses the cache, and none of it is lost to sets or lines. LRU itself is no bound: of a
scan that is a little larger than the cache, a policy that keeps a part of it does better. No policy
can avoid to fetch, in each inference, what is read before it is written, less the size of the cache.

A larger cache never costs more: resident are always the most recently used of the living bytes, so a
larger cache holds all that a smaller one holds (R. L. Mattson et al., Evaluation techniques for
storage hierarchies, IBM Systems Journal 9(2), 1970).

The second inference is the steady state. Bytes that the running inference has touched are not pushed
out while there are older ones, so which of them are there does not depend on what it started with.
It touches every tensor, so that at its end nothing older is left: all inferences end alike.

An example by hand: three layers, 6 bytes of cache, ``y`` is the output. Least recently used first::

    layer  touches    found  DRAM  what happens                                  there afterwards
                                                                                 3 of y, 3 free
    one    read x 2       0     2  into the free room                            y x
           write a 2      2     0  1 of y must go, which nobody overwrote yet:   2 of y, x a
                                   it is charged to three, which wrote it
    two    read a 2       2     0                                                2 of y, x a
           read w 4       0     4  the rest of y must go, likewise; x goes       a w
           write b 6      3     3  12 bytes are touched: half of each stays,     2 of w, 3 of b
                                   but a is dead and leaves
    three  read b 6       3     3  w goes, 1 free                                b
           write y 6      0     6  12 bytes are touched: half of each stays,     3 of y, 3 free
                                   but b is dead and leaves; 3 of y went, and
                                   the rest goes in the next inference
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Access(NamedTuple):
    """What one run of a layer touches: tensor names and their sizes in bytes; what it uses twice is read once.

    A name in both ``reads`` and ``writes`` is changed in place. A tensor is as large as the largest of its sizes; a
    smaller one stands for a part, such as Gather takes: always the last bytes, so that as much as can be is there.
    """

    layer: str
    reads: Mapping[str, int]
    writes: Mapping[str, int]


class Traffic(NamedTuple):
    """Bytes that a layer gets from or leaves in the cache, and those that go to DRAM."""

    cache_bytes: int
    dram_bytes: int


def steady_state_traffic(
    accesses: Sequence[Access], capacity: int, *, outputs: Collection[str] | None = None
) -> dict[str, Traffic]:
    """Traffic of each layer in one of many inferences; ``cache_bytes + dram_bytes`` are the bytes that it touches.

    A layer that runs several times has the sum of its runs; `traffic_of_accesses` keeps them apart. With a ``capacity``
    of 0 bytes all goes to DRAM. ``outputs`` are needed until they are overwritten; by default what is not read after
    its last write.
    """
    result: dict[str, Traffic] = {}
    for access, traffic in zip(accesses, traffic_of_accesses(accesses, capacity, outputs=outputs), strict=True):
        before = result.get(access.layer, Traffic(0, 0))
        result[access.layer] = Traffic(before.cache_bytes + traffic.cache_bytes, before.dram_bytes + traffic.dram_bytes)
    return result


def traffic_of_accesses(
    accesses: Sequence[Access], capacity: int, *, outputs: Collection[str] | None = None, inferences: int = 2
) -> list[Traffic]:
    """Traffic of each access in the last of ``inferences``; see `steady_state_traffic`.

    From the second inference on they are the same.
    """
    if capacity < 0:
        raise ValueError(f"the capacity of a cache is not negative: {capacity}")
    program = _Program(accesses, outputs)
    sizes = program.sizes
    cache = _Lru(sizes, capacity)
    touch, lost = cache.touch, cache.lost
    hits = [0] * len(accesses)
    written_back: list[dict[int, int]] = [{} for _ in accesses]
    """By the access that wrote the value and its tensor."""
    writer = [-1] * len(sizes)
    """The access that wrote the value which a tensor has now, -1 where nobody needs it in DRAM."""

    def settle(tensor: int) -> None:
        """Nobody needs the value any more: what was pushed out of it until now is all that goes to DRAM."""
        written_back[writer[tensor]][tensor] = lost[tensor]
        writer[tensor] = -1

    for _ in range(inferences):
        for number, layer in enumerate(program.layers):
            found = 0
            for tensor, last in layer.reads:
                found += touch(tensor)
                if last and writer[tensor] >= 0:
                    settle(tensor)
            hits[number] = found
            for tensor in layer.writes:
                touch(tensor)
                if writer[tensor] >= 0:
                    settle(tensor)
                writer[tensor] = number
                # What has no room even while it is written.
                size = sizes[tensor]
                lost[tensor] = size - capacity if size > capacity else 0
            cache.share(layer.touched)
            for tensor in layer.dead:
                if writer[tensor] >= 0:
                    settle(tensor)
                cache.drop(tensor)
    result = []
    for access, found, back in zip(accesses, hits, written_back, strict=True):
        read, written = sum(access.reads.values()), sum(access.writes.values())
        dram = read - found + sum(back.values())
        result.append(Traffic(read + written - dram, dram))
    return result


class _Touches(NamedTuple):
    """What one access touches, in this order; tensors as numbers."""

    reads: list[tuple[int, bool]]  # Tensor, and whether its value is read for the last time
    writes: list[int]  # Tensors
    touched: list[Sequence[int]]  # Both, each tensor once; of one that is cut into parts these, first byte first
    dead: list[int]  # Tensors whose value nobody needs when the access is over


class _Program:
    """One inference with tensors as numbers, and where each value is needed for the last time.

    A tensor that is touched at several sizes is as many tensors here, each the part by which one size
    exceeds the next smaller one.
    """

    def __init__(self, accesses: Sequence[Access], outputs: Collection[str] | None) -> None:
        first: dict[str, int] = {}
        """Name -> the size at which it is touched first."""
        several: dict[str, set[int]] = {}
        """Name -> all of its sizes where there are several."""
        for access in accesses:
            for tensors in (access.reads, access.writes):
                for name, size in tensors.items():
                    if size < 0:
                        raise ValueError(f"the size of a tensor is not negative: {name} has {size} bytes")
                    if first.setdefault(name, size) != size:
                        several.setdefault(name, {first[name]}).add(size)
        number = {name: at for at, name in enumerate(first)}
        self.sizes = list(first.values())  # Of each tensor in bytes
        parts: dict[tuple[str, int], list[int]] = {}
        """By name and size, first byte first; of tensors of several sizes."""
        for name, sizes in several.items():
            smallest, *larger = sorted(sizes)
            self.sizes[number[name]] = smallest
            before, own = smallest, [number[name]]
            parts[name, smallest] = own
            for size in larger:
                own = parts[name, size] = [len(self.sizes), *own]
                self.sizes.append(size - before)
                before = size

        def touched(tensors: Mapping[str, int]) -> list[int]:
            if several.keys().isdisjoint(tensors):
                return [number[name] for name in tensors]
            return [part for item in tensors.items() for part in parts.get(item) or (number[item[0]],)]

        def whole(access: Access) -> list[Sequence[int]]:
            most = dict(access.reads)
            for name, size in access.writes.items():
                # In the order of the last touch.
                most[name] = max(most.pop(name, 0), size)
            return [parts.get(item) or (number[item[0]],) for item in most.items()]

        layers = [(touched(access.reads), touched(access.writes)) for access in accesses]
        # Whether anybody needs the value that each tensor has after the layer: another layer, the first
        # that touches it in the next inference, or whoever takes the outputs of the graph.
        needed = [False] * len(self.sizes)
        for reads, writes in reversed(layers):
            _step_back(needed, reads, writes)
        if outputs is None:
            outputs = never_read(accesses)
        for name in outputs:
            if name in number:
                needed[number[name]] = True
        for (name, _), (part, *_) in parts.items():
            needed[part] = needed[part] or name in outputs
        self.layers: list[_Touches] = []  # The touches of each access
        for access, (reads, writes) in zip(reversed(accesses), reversed(layers), strict=True):
            self.layers.append(
                _Touches(
                    [(tensor, tensor in writes or not needed[tensor]) for tensor in reads],
                    writes,
                    whole(access),
                    [tensor for tensor in reads if not needed[tensor] and tensor not in writes]
                    + [tensor for tensor in writes if not needed[tensor]],
                )
            )
            _step_back(needed, reads, writes)
        self.layers.reverse()


def _step_back(needed: list[bool], reads: Sequence[int], writes: Sequence[int]) -> None:
    """From what is needed after a layer to what is needed before it."""
    for tensor in writes:
        needed[tensor] = False
    for tensor in reads:
        needed[tensor] = True


def never_read(accesses: Sequence[Access]) -> set[str]:
    """Tensors that are not read after they were last written."""
    names: set[str] = set()
    for access in accesses:
        names -= access.reads.keys()
        names |= access.writes.keys()
    return names


class _Lru:
    """The cache: how many of its last bytes are resident of each tensor, least recently used first."""

    def __init__(self, sizes: Sequence[int], capacity: int) -> None:
        self.lost = [0] * len(sizes)  # Bytes of each tensor that were pushed out at least once since it was written
        self._sizes = sizes
        self._capacity = capacity
        self._free = capacity
        self._resident: OrderedDict[int, int] = OrderedDict()

    def touch(self, tensor: int) -> int:
        """Bytes of it that are found; afterwards it is the most recently used."""
        size = self._sizes[tensor]
        there = self._resident.get(tensor, 0)
        if there == size and there:
            self._resident.move_to_end(tensor)
            return there
        missing = size - there
        if missing <= self._free:
            self._free -= missing
            self._resident[tensor] = size
            self._resident.move_to_end(tensor)
            return there
        if there:
            if missing <= self._free + self._older(tensor):
                self._make_room(missing)
                self._free -= missing
                self._resident[tensor] = size
                self._resident.move_to_end(tensor)
                return there
            # Its first bytes push out the rest of it before that is reached.
            self.lost[tensor] = size
            self.drop(tensor)
        needed = min(size, self._capacity)
        if self._free < needed:
            self._make_room(needed)
        self._free -= needed
        self._resident[tensor] = needed
        return 0

    def share(self, tensors: Sequence[Sequence[int]]) -> None:
        """One layer touched all of these: where they do not fit, each leaves a part in proportion to its size."""
        sizes = self._sizes
        wholes = [sum([sizes[part] for part in parts]) for parts in tensors]
        total = sum(wholes)
        if total <= self._capacity:
            return
        own = {part for parts in tensors for part in parts}
        for gone in self._resident:
            if gone not in own:
                self.lost[gone] = sizes[gone]
        self._resident.clear()
        self._free = self._capacity
        for parts, whole in zip(tensors, wholes, strict=True):
            left = self._capacity * whole // total
            self._free -= left
            kept = []
            for part in reversed(parts):
                there = min(left, sizes[part])
                left -= there
                self.lost[part] = max(self.lost[part], sizes[part] - there)
                kept.append((part, there))
            self._resident.update((part, there) for part, there in reversed(kept) if there)

    def _older(self, tensor: int) -> int:
        older = 0
        for other, there in self._resident.items():
            if other == tensor:
                break
            older += there
        return older

    def drop(self, tensor: int) -> None:
        self._free += self._resident.pop(tensor, 0)

    def _make_room(self, needed: int) -> None:
        resident, free = self._resident, self._free
        while free < needed:
            tensor, there = resident.popitem(last=False)
            left = there - (needed - free)
            if left > 0:
                resident[tensor] = left
                resident.move_to_end(tensor, last=False)
                there -= left
            else:
                left = 0
            free += there
            if (gone := self._sizes[tensor] - left) > self.lost[tensor]:
                self.lost[tensor] = gone
        self._free = free
