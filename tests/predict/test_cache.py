"""The cache model: by hand, and against a second way to get the same numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.predict.cache import Access, Traffic, steady_state_traffic

QUIET = settings(deadline=None)  # a busy machine is no failure
SIZES = {f"t{i}": size for i, size in enumerate([0, 1, 2, 3, 5, 8, 13, 40])}
ALL = sum(SIZES.values())


@st.composite
def inferences(draw: st.DrawFn) -> list[Access]:
    """Layers that touch some of eight tensors; a tensor has one size wherever it is used."""
    some = st.lists(st.sampled_from(sorted(SIZES)), max_size=4, unique=True)
    return [
        Access(f"layer{i}", {name: SIZES[name] for name in draw(some)}, {name: SIZES[name] for name in draw(some)})
        for i in range(draw(st.integers(0, 8)))
    ]


def touched(access: Access) -> int:
    return sum(access.reads.values()) + sum(access.writes.values())


def dram(traffic: dict[str, Traffic]) -> int:
    return sum(one.dram_bytes for one in traffic.values())


def by_distance(accesses: list[Access], capacity: int) -> dict[str, Traffic]:
    """Mattson's way, without a cache: a tensor is found when it and the distinct ones since then fit together."""
    found = {}
    recency: list[str] = []  # most recent first
    for _ in range(3):  # one more than the model: the second inference is the steady state already
        for access in accesses:
            hits = misses = 0
            for kind, tensors in (("read", access.reads), ("write", access.writes)):
                for name, size in tensors.items():
                    depth = recency.index(name) + 1 if name in recency else None
                    fits = depth is not None and sum(SIZES[other] for other in recency[:depth]) <= capacity
                    # What is written lands in the cache if there is room for it at all.
                    hit = fits if kind == "read" else size <= capacity
                    hits, misses = hits + size * hit, misses + size * (not hit)
                    if depth is not None:
                        recency.remove(name)
                    recency.insert(0, name)
            found[access.layer] = Traffic(hits, misses)
    return found


def test_a_small_network_by_hand() -> None:
    """Capacity 10. Inference 1 leaves the cache as the table shows, least recently used first:

        layer  touches                            cache after
        one    reads x (4), w1 (3); writes a (3)  x w1 a          10 bytes: full
        two    reads a (3), w2 (5); writes b (2)  a w2 b          x and w1 had to go for w2
        three  reads b (2); writes y (2)          w2 b y          a had to go: 3 + 5 + 2 + 2 > 10

    Inference 2, which counts:

        one    x is gone: miss 4, w2 goes         b y x           8 bytes
               w1 is gone: miss 3, b goes         y x w1          9 bytes
               a written: lands in the cache, 3   x w1 a          y goes: hit 3
        two    a hit 3; w2 is gone: miss 5        a w2            x and w1 go; b written: hit 2
        three  b hit 2; y written: hit 2
    """
    accesses = [
        Access("one", {"x": 4, "w1": 3}, {"a": 3}),
        Access("two", {"a": 3, "w2": 5}, {"b": 2}),
        Access("three", {"b": 2}, {"y": 2}),
    ]
    assert steady_state_traffic(accesses, 10) == {
        "one": Traffic(cache_bytes=3, dram_bytes=7),
        "two": Traffic(cache_bytes=5, dram_bytes=5),
        "three": Traffic(cache_bytes=4, dram_bytes=0),
    }


def test_a_tensor_larger_than_the_cache_streams_through_and_takes_the_rest_with_it() -> None:
    accesses = [
        Access("small", {"w": 2}, {}),
        Access("large", {"x": 11}, {}),
        Access("again", {"w": 2}, {}),
    ]
    assert steady_state_traffic(accesses, 10) == {
        "small": Traffic(2, 0),  # read by the last layer of the inference before
        "large": Traffic(0, 11),
        "again": Traffic(0, 2),
    }
    assert steady_state_traffic(accesses, 13)["again"] == Traffic(2, 0)


def test_weights_that_survive_from_one_inference_to_the_next_are_hits() -> None:
    accesses = [Access("only", {"w": 6}, {"y": 4})]
    assert steady_state_traffic(accesses, 10) == {"only": Traffic(10, 0)}
    # One byte less: the write of y evicts w, though y itself still lands in the cache.
    assert steady_state_traffic(accesses, 9) == {"only": Traffic(4, 6)}


def test_a_write_that_does_not_fit_goes_to_memory() -> None:
    assert steady_state_traffic([Access("only", {}, {"y": 11})], 10) == {"only": Traffic(0, 11)}


def test_nothing_runs() -> None:
    assert steady_state_traffic([], 10) == {}


@QUIET
@given(inferences(), st.integers(0, ALL + 5))
def test_hits_and_misses_are_the_bytes_touched(accesses: list[Access], capacity: int) -> None:
    traffic = steady_state_traffic(accesses, capacity)
    assert list(traffic) == [access.layer for access in accesses]
    for access in accesses:
        one = traffic[access.layer]
        assert one.cache_bytes >= 0
        assert one.dram_bytes >= 0
        assert one.cache_bytes + one.dram_bytes == touched(access)


@QUIET
@given(inferences())
def test_without_a_cache_all_are_misses_and_with_room_for_all_none_are(accesses: list[Access]) -> None:
    assert dram(steady_state_traffic(accesses, 0)) == sum(map(touched, accesses))
    assert dram(steady_state_traffic(accesses, ALL)) == 0


@QUIET
@given(inferences(), st.integers(0, ALL + 5))
def test_what_is_larger_than_the_cache_always_comes_from_memory(accesses: list[Access], capacity: int) -> None:
    for access, traffic in zip(accesses, steady_state_traffic(accesses, capacity).values(), strict=True):
        large = [size for tensors in (access.reads, access.writes) for size in tensors.values() if size > capacity]
        assert traffic.dram_bytes >= sum(large)


@QUIET
@given(inferences(), st.integers(0, ALL + 5), st.integers(0, ALL + 5))
def test_a_larger_cache_never_misses_more(accesses: list[Access], capacity: int, other: int) -> None:
    """LRU over whole tensors has no anomaly: the larger cache holds all that the smaller one holds.

    That a streamed tensor clears the cache does not break it: it is as large as all that it evicts.
    """
    small, large = sorted((capacity, other))
    with_small, with_large = steady_state_traffic(accesses, small), steady_state_traffic(accesses, large)
    for name in with_small:
        assert with_large[name].dram_bytes <= with_small[name].dram_bytes


@QUIET
@given(inferences(), st.integers(0, ALL + 5))
def test_the_model_agrees_with_stack_distances_and_is_steady(accesses: list[Access], capacity: int) -> None:
    assert steady_state_traffic(accesses, capacity) == by_distance(accesses, capacity)
