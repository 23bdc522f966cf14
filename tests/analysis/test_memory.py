"""Which tensors are alive while each layer runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trtprof.analysis.memory import memory_of_plan
from trtprof.base.records import PlanLayer, PlanTensor


def tensors(sizes: str) -> tuple[PlanTensor, ...]:
    """``a:4 b:?``: names with their bytes."""
    parts = [part.split(":") for part in sizes.split()]
    return tuple(
        PlanTensor(name=name, dims=None if size == "?" else (int(size),), dtype="int8") for name, size in parts
    )


def layer(reads: str, writes: str, constants: str = "") -> PlanLayer:
    return PlanLayer(
        name=writes, kind="kgen", inputs=tensors(reads), outputs=tensors(writes), constants=tensors(constants)
    )


def test_a_tensor_lives_from_its_writer_to_its_last_reader() -> None:
    found = memory_of_plan(
        [layer("x:10", "a:100", "W:999"), layer("a:100", "b:20"), layer("b:20", "c:5"), layer("c:5 a:100", "y:1")],
        {"y"},
    )
    assert found is not None
    assert dict(zip(found.tensor, zip(found.first, found.last, strict=True), strict=True)) == {
        "x": (0, 0), "a": (0, 3), "b": (1, 2), "c": (2, 3), "y": (3, 3),
    }  # fmt: skip
    assert found.live == (110, 120, 125, 106)
    assert (found.peak_bytes, found.peak_at, found.unknown) == (125, 2, 0)


def test_an_output_of_the_model_stays_and_an_input_is_there_from_the_start() -> None:
    found = memory_of_plan([layer("x:1", "a:2"), layer("a:2", "early:4"), layer("late:8", "y:16")], {"y", "early"})
    assert found is not None
    assert found.live == (1 + 2 + 8, 2 + 4 + 8, 4 + 8 + 16)


def test_what_nobody_reads_goes_at_once_and_what_is_written_again_is_there_till_then() -> None:
    found = memory_of_plan([layer("s:1", "mask:50"), layer("mask2:2", "s:1"), layer("z:4", "y:8")], {"y"})
    assert found is not None
    assert found.live == (1 + 50 + 2 + 4, 1 + 2 + 4, 4 + 8)


def test_parts_that_share_a_name_share_their_memory_and_an_unknown_size_is_told() -> None:
    found = memory_of_plan([layer("x:8", "joined:30"), layer("x:8 u:?", "joined:30"), layer("joined:30", "y:2")], {"y"})
    assert found is not None
    assert found.live == (38, 38, 32)
    assert found.unknown == 1
    assert "u" not in found.tensor


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 99)), min_size=1, max_size=12))
def test_what_is_alive_is_the_sum_over_the_tensors_at_each_step(made: list[tuple[int, int, int]]) -> None:
    size = {f"t{at}": 7 * at + 1 for at in range(8)}
    found = memory_of_plan([layer(f"t{a}:{size[f't{a}']}", f"t{b}:{size[f't{b}']}") for a, b, _ in made], {"t0"})
    assert found is not None
    for at, live in enumerate(found.live):
        rows = zip(found.nbytes, found.first, found.last, strict=True)
        assert live == sum(nbytes for nbytes, first, last in rows if first <= at <= last)
    assert found.peak_bytes == max(found.live)
