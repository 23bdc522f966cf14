"""The cache model: by hand, by its laws, and against a cache that is simulated line by line."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from trtprof.estimate.cache import Access, Traffic, steady_state_traffic, traffic_of_accesses

SIZES = {f"t{i}": size for i, size in enumerate([0, 1, 2, 3, 5, 8, 13, 24])}
ALL = sum(SIZES.values())
CAPACITIES = st.integers(0, ALL + 5)
OUTPUTS = st.none() | st.sets(st.sampled_from(sorted(SIZES)), max_size=3)


@st.composite
def programs(draw: st.DrawFn) -> list[Access]:
    """Layers that touch some of eight tensors, in place as well; one draw in two touches parts of them."""
    some = st.lists(st.sampled_from(sorted(SIZES)), max_size=4, unique=True)
    parts = (1, 2, 5) if draw(st.booleans()) else (1,)

    def sizes() -> dict[str, int]:
        return {name: SIZES[name] // draw(st.sampled_from(parts)) for name in draw(some)}

    return [Access(f"layer{i}", sizes(), sizes()) for i in range(draw(st.integers(0, 8)))]


def touched(access: Access) -> int:
    return sum(access.reads.values()) + sum(access.writes.values())


def dram(traffic: list[Traffic]) -> int:
    return sum(one.dram_bytes for one in traffic)


def line_by_line(
    accesses: list[Access], capacity: int, outputs: Collection[str] | None, inferences: int = 3
) -> list[Traffic]:
    """LRU over lines of one byte, each with its own state; counts what happens in the last inference."""
    touches = [
        (number, kind, name, [(name, index) for index in range(SIZES[name] - size, SIZES[name])])
        for number, access in enumerate(accesses)
        for kind, tensors in (("read", access.reads), ("write", access.writes))
        for name, size in tensors.items()
    ]
    if outputs is None:
        last_use = {name: kind for _, kind, name, _ in touches}
        outputs = {name for name, kind in last_use.items() if kind == "write"}

    def needed_after(position: int, line: tuple[str, int]) -> bool:
        for step in range(1, len(touches) + 1):
            _, kind, name, touched_lines = touches[(position + step) % len(touches)]
            if line in touched_lines:
                return kind == "read" or (position + step >= len(touches) and name in outputs)
        raise AssertionError("a touch comes round to itself")

    needed = [{line: needed_after(at, line) for line in touch[3]} for at, touch in enumerate(touches)]
    lines: OrderedDict[tuple[str, int], None] = OrderedDict()
    dirty: dict[tuple[str, int], int] = {}  # by line, the access whose value would have to be written back
    misses = [0] * len(accesses)

    def share_out(number: int) -> None:
        """A layer that touches more than there is room for leaves a part of each tensor: its last lines."""
        most = dict(accesses[number].reads)
        for name, size in accesses[number].writes.items():
            most[name] = max(most.pop(name, 0), size)
        pieces = [[(name, at) for at in range(SIZES[name] - size, SIZES[name])] for name, size in most.items()]
        total = sum(map(len, pieces))
        if total <= capacity:
            return
        lines.clear()
        for piece in pieces:
            kept = capacity * len(piece) // total
            lines.update(dict.fromkeys(piece[len(piece) - kept :]))
        for line in [line for line in dirty if line not in lines]:
            misses[dirty.pop(line)] += 1

    for _ in range(inferences):
        misses[:] = [0] * len(accesses)
        for position, (number, kind, _, touched_lines) in enumerate(touches):
            for line in touched_lines:
                if kind == "read" and line not in lines:
                    misses[number] += 1
                if kind == "write":
                    dirty[line] = number
                elif not needed[position][line]:
                    dirty.pop(line, None)
                lines[line] = None
                lines.move_to_end(line)
                if len(lines) > capacity:
                    gone, _ = lines.popitem(last=False)
                    if gone in dirty:
                        misses[dirty.pop(gone)] += 1
            if position + 1 == len(touches) or touches[position + 1][0] != number:
                share_out(number)
                # The layer is over: what nobody needs leaves.
                last_touch = {line: at for at, touch in enumerate(touches) if touch[0] == number for line in touch[3]}
                for line, at in last_touch.items():
                    if not needed[at][line]:
                        lines.pop(line, None)
                        dirty.pop(line, None)
    return [Traffic(touched(access) - missed, missed) for access, missed in zip(accesses, misses, strict=True)]


# --- by hand --------------------------------------------------------------------------------


def test_three_layers_by_hand() -> None:
    """The example of the module's docstring, where every step is explained."""
    accesses = [
        Access("one", {"x": 2}, {"a": 2}),
        Access("two", {"a": 2, "w": 4}, {"b": 6}),
        Access("three", {"b": 6}, {"y": 6}),
    ]
    assert steady_state_traffic(accesses, 6) == {
        "one": Traffic(cache_bytes=2, dram_bytes=2),  # a | x
        "two": Traffic(cache_bytes=5, dram_bytes=7),  # a, 3 of b | w, 3 of b
        "three": Traffic(cache_bytes=3, dram_bytes=9),  # 3 of b | 3 of b, y
    }
    # x, w, y stay for the next inference, a and b are there at once: 2 + 4 + 6 + 2 + 6.
    assert dram(list(steady_state_traffic(accesses, 20).values())) == 0
    # One byte less: as b is written, the first byte of y must go, and no other.
    assert steady_state_traffic(accesses, 19)["three"] == Traffic(11, 1)
    assert dram(list(steady_state_traffic(accesses, 19).values())) == 1


def test_an_intermediate_pushed_out_before_its_last_read_is_written_and_read_again() -> None:
    """Cache of 10. ``a`` waits for layer three while layer two streams ``w`` through the cache."""
    accesses = [
        Access("one", {}, {"a": 4}),
        Access("two", {"w": 9}, {}),  # w needs 9: 3 bytes of a must go, to DRAM, as three still reads it
        Access("three", {"a": 4}, {}),  # 1 byte left of a, 0 free: its first bytes push it out before it is read
    ]
    assert traffic_of_accesses(accesses, 10) == [Traffic(0, 4), Traffic(0, 9), Traffic(0, 4)]
    # Read by the next layer, a is dead when w comes: its 4 bytes are free for the 3 of w that it pushed out.
    early = [accesses[0], Access("next", {"a": 4}, {}), accesses[1]]
    assert traffic_of_accesses(early, 10) == [Traffic(4, 0), Traffic(4, 0), Traffic(6, 3)]


def test_outputs_are_what_is_named_or_what_is_not_read_after_it_was_written() -> None:
    accesses = [
        Access("one", {}, {"h": 4, "unused": 4}),
        Access("two", {"h": 4}, {"y": 4}),
        Access("three", {"w": 10}, {}),
    ]
    by_default = [Traffic(4, 4), Traffic(4, 4), Traffic(0, 10)]
    assert traffic_of_accesses(accesses, 12) == by_default
    assert traffic_of_accesses(accesses, 12, outputs={"y", "unused"}) == by_default
    # h is read, and taken out of the graph as well; nobody takes what is unused.
    assert traffic_of_accesses(accesses, 12, outputs={"h"}) == [Traffic(4, 4), Traffic(8, 0), Traffic(0, 10)]


def test_a_tensor_that_is_changed_in_place_needs_its_room_once() -> None:
    in_place = [Access("relu", {"a": 6}, {"a": 6}), Access("next", {"a": 6}, {"y": 2})]
    assert dram(traffic_of_accesses(in_place, 8)) == 0
    elsewhere = [Access("relu", {"a": 6}, {"b": 6}), Access("next", {"b": 6}, {"y": 2})]
    assert dram(traffic_of_accesses(elsewhere, 8)) > 0
    # A state that an inference takes over from the one before is no dead value.
    state = [Access("step", {"h": 4}, {"h": 4}), Access("scan", {"w": 8}, {})]
    assert traffic_of_accesses(state, 8) == [Traffic(0, 8), Traffic(0, 8)]


def test_a_part_of_a_tensor_is_found_where_the_tensor_is() -> None:
    """Cache of 10. ``a`` is written (8), and 3 of its bytes are read: the other 5 nobody needs."""
    accesses = [Access("one", {}, {"a": 8}), Access("gather", {"a": 3}, {"b": 3}), Access("next", {"b": 3, "w": 7}, {})]
    # As a is written, 5 of w must go. The 5 of a that nobody needs leave; so does the rest, once it is read: w has
    # 2 bytes there and 5 free, into which the 5 that are missing fit.
    assert traffic_of_accesses(accesses, 10) == [Traffic(8, 0), Traffic(6, 0), Traffic(5, 5)]
    # Taken out of the graph, they are all needed until they are overwritten.
    assert traffic_of_accesses(accesses, 10, outputs={"a"})[0] == Traffic(0, 8)
    # A table of which a part is looked up needs no more room than that.
    table = [Access("once", {"table": 90}, {}), Access("lookup", {"table": 4}, {}), Access("lookup", {"table": 4}, {})]
    assert traffic_of_accesses(table, 10) == [Traffic(0, 90), Traffic(4, 0), Traffic(4, 0)]


# --- laws -----------------------------------------------------------------------------------


@given(programs(), CAPACITIES, OUTPUTS)
def test_every_byte_that_a_layer_touches_is_counted_once(
    accesses: list[Access], capacity: int, outputs: Collection[str] | None
) -> None:
    traffic = traffic_of_accesses(accesses, capacity, outputs=outputs)
    assert len(traffic) == len(accesses)
    for access, one in zip(accesses, traffic, strict=True):
        assert min(one) >= 0
        assert sum(one) == touched(access)


@given(programs(), CAPACITIES, OUTPUTS)
def test_what_any_cache_must_fetch_is_fetched(
    accesses: list[Access], capacity: int, outputs: Collection[str] | None
) -> None:
    """An inference begins with ``capacity`` bytes at most of what it reads before it writes it."""
    written: set[tuple[str, int]] = set()
    fetched: set[tuple[str, int]] = set()
    for access in accesses:
        reads, writes = ({(name, at) for name, size in part.items() for at in range(size)} for part in access[1:])
        fetched |= reads - written
        written |= writes
    compulsory = max(0, len(fetched) - capacity)
    assert dram(traffic_of_accesses(accesses, capacity, outputs=outputs)) >= compulsory


@given(programs(), CAPACITIES, CAPACITIES, OUTPUTS)
def test_a_larger_cache_never_costs_a_layer_more(
    accesses: list[Access], capacity: int, other: int, outputs: Collection[str] | None
) -> None:
    small, large = (traffic_of_accesses(accesses, size, outputs=outputs) for size in sorted((capacity, other)))
    assert all(one.dram_bytes >= two.dram_bytes for one, two in zip(small, large, strict=True))


@given(programs(), CAPACITIES, OUTPUTS)
def test_the_second_inference_is_the_steady_state(
    accesses: list[Access], capacity: int, outputs: Collection[str] | None
) -> None:
    second, third, tenth = (
        traffic_of_accesses(accesses, capacity, outputs=outputs, inferences=number) for number in (2, 3, 10)
    )
    assert second == third == tenth


@given(programs(), CAPACITIES, OUTPUTS)
def test_a_cache_simulated_line_by_line_gives_the_same(
    accesses: list[Access], capacity: int, outputs: Collection[str] | None
) -> None:
    assert traffic_of_accesses(accesses, capacity, outputs=outputs) == line_by_line(accesses, capacity, outputs)
