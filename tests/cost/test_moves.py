"""What moves of the data: the distinct elements that arrive in the results that ONNX Runtime makes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.counting import Array, run, work
from trtprof.base.records import Work

FEW = settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).uniform(-2, 2, shape).astype(np.float32)


def test_a_convolution_that_steps_over_pixels_does_not_read_them() -> None:
    """Pixels between two steps may share their bursts of memory with others, or not: no kernel has to read them."""
    x, w = values(1, 2, 7, 7), values(3, 2, 1, 1)
    op, (y,) = run("Conv", [x, w], strides=[2, 2])
    assert y.shape == (1, 3, 4, 4)
    assert work(op).bytes_read == 2 * 4 * 4 * 4 + w.nbytes


# --- moves: how much of the data arrives ----------------------------------------------------

FIRST = 1000.0
"""Data that is moved is numbered from here on; what fills gaps is smaller."""


def numbered(*dims: int) -> Array:
    """An array in which every element is another number."""
    return np.arange(FIRST, FIRST + math.prod(dims), dtype=np.float32).reshape(dims)


def arrived(*results: Array) -> int:
    """How many elements of the numbered data are in the results."""
    return int((np.unique(np.concatenate([result.ravel() for result in results])) >= FIRST).sum())


def check_moved(op_type: str, inputs: list[Array | None], outputs: int = 1, **more: Any) -> Work:
    """What is read of the first input is what arrives; of the others, all of it."""
    op, results = run(
        op_type, inputs, outputs, constants=[i for i, array in enumerate(inputs) if i and array is not None], **more
    )
    found = work(op)
    # Nothing needs to be read for a result without elements.
    some = any(result.size for result in results)
    others = sum(array.nbytes for array in inputs[1:] if array is not None and some)
    data = 4 * arrived(*results)
    assert found.bound == "exact"
    assert (found.bytes_read - others, found.bytes_written) == (data, sum(result.nbytes for result in results))
    assert not found.flops
    return found


def integers(*values_: int) -> Array:
    return np.array(values_, dtype=np.int64)


@FEW
@given(dims=st.lists(st.integers(1, 5), min_size=1, max_size=3), data=st.data())
def test_slice(dims: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.sampled_from(range(len(dims))), min_size=1, unique=True))
    starts, ends = (data.draw(st.lists(st.integers(-6, 6), min_size=len(axes), max_size=len(axes))) for _ in range(2))
    steps = data.draw(st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=len(axes), max_size=len(axes)))
    check_moved("Slice", [numbered(*dims), *(integers(*row) for row in (starts, ends, axes, steps))])


@FEW
@given(dims=st.lists(st.integers(1, 4), min_size=1, max_size=3), data=st.data())
def test_gather(dims: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    n = dims[axis]
    indices = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=5))
    check_moved("Gather", [numbered(*dims), integers(*indices)], axis=axis)


@FEW
@given(dims=st.lists(st.integers(1, 3), min_size=1, max_size=3), data=st.data())
def test_indices_that_are_data_are_an_upper_bound(dims: list[int], data: st.DataObject) -> None:
    """GatherElements and GatherND name single elements: as many as are made, or fewer where they repeat."""
    axis = data.draw(st.integers(0, len(dims) - 1))
    drawn = data.draw(st.lists(st.integers(0, dims[axis] - 1), min_size=math.prod(dims), max_size=math.prod(dims)))
    x = numbered(*dims)
    cases: list[tuple[str, Array, dict[str, Any]]] = [
        ("GatherElements", integers(*drawn).reshape(dims), {"axis": axis}),
        ("GatherND", integers(*(at % dims[0] for at in drawn))[:, None], {}),
    ]
    for op_type, indices, extra in cases:
        op, (y,) = run(op_type, [x, indices], **extra)
        found = work(op)
        assert found.bound == "upper"
        assert 4 * arrived(y) <= found.bytes_read - indices.nbytes <= min(x.nbytes, y.nbytes)


@FEW
@given(
    dims=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    data=st.data(),
    mode=st.sampled_from(["constant", "edge", "reflect"]),
)
def test_pad(dims: list[int], data: st.DataObject, mode: str) -> None:
    low = -1 if mode == "constant" else 0
    pads = data.draw(st.lists(st.integers(low, 1), min_size=2 * len(dims), max_size=2 * len(dims)))
    check_moved("Pad", [numbered(*dims), integers(*pads)], mode=mode)


@FEW
@given(rows=st.integers(1, 4), columns=st.integers(1, 4), upper=st.integers(0, 1), k=st.integers(-5, 5))
def test_trilu(rows: int, columns: int, upper: int, k: int) -> None:
    check_moved("Trilu", [numbered(2, rows, columns), np.array(k, dtype=np.int64)], upper=upper)


@FEW
@given(dims=st.lists(st.integers(1, 4), min_size=2, max_size=4), data=st.data())
def test_nearest_resize_reads_what_it_picks(dims: list[int], data: st.DataObject) -> None:
    sizes = [data.draw(st.integers(1, 6)) for _ in dims]
    x = numbered(*dims)
    target = np.array(sizes, dtype=np.int64)
    check_moved("Resize", [x, None, None, target], coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@pytest.mark.parametrize(
    ("op_type", "shape", "inputs", "extra"),
    [
        ("Transpose", (2, 3, 4), [], {"perm": [2, 0, 1]}),
        ("Tile", (2, 3), [integers(2, 3)], {}),
        ("Expand", (2, 1, 3), [integers(2, 4, 3)], {}),
        ("DepthToSpace", (1, 8, 2, 3), [], {"blocksize": 2}),
        ("SpaceToDepth", (1, 2, 4, 6), [], {"blocksize": 2}),
        ("CenterCropPad", (3, 5), [integers(5, 2)], {}),
        ("ReverseSequence", (3, 2), [integers(1, 3)], {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_moves(op_type: str, shape: tuple[int, ...], inputs: list[Array], extra: dict[str, Any]) -> None:
    check_moved(op_type, [numbered(*shape), *inputs], **extra)


def test_split_writes_every_part_and_concat_reads_each_input_once() -> None:
    x = numbered(4, 6)
    check_moved("Split", [x, integers(1, 3)], 2, axis=0)
    op, (y,) = run("Concat", [x, x[:2]], axis=0)
    found = work(op)
    assert (found.bytes_read, found.bytes_written) == (x.nbytes + x[:2].nbytes, y.nbytes)


# --- transforms -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 8, 2), (3, 16, 4, 2), (2, 4, 32, 1)])
def test_a_transform_along_an_axis_that_is_data_is_bounded_by_every_axis(shape: tuple[int, ...]) -> None:
    fixed = []
    for axis in range(len(shape) - 1):
        op, _ = run("DFT", [values(*shape), None, np.array(axis, dtype=np.int64)], version=20, constants=[2])
        assert work(op).bound == "exact"
        fixed.append(work(op).vector_flops)
    op, (y,) = run("DFT", [values(*shape), None, np.array(1, dtype=np.int64)], version=20)
    found = work(op)
    assert (found.vector_flops, found.bound) == (max(fixed), "upper")
    assert (found.bytes_read, found.bytes_written) == (4 * math.prod(shape) + 8, y.nbytes)


@pytest.mark.parametrize("length", [7, 8])
def test_frames_of_a_length_that_is_data_are_bounded_by_their_bins(length: int) -> None:
    """n points have n // 2 + 1 bins: 6 and 7, or 8 and 9, cannot be told apart."""
    x, step, size = values(1, 40, 1), np.array(4, dtype=np.int64), np.array(length, dtype=np.int64)
    known, _ = run("STFT", [x, step, None, size], version=17, constants=[1, 3])
    unknown, _ = run("STFT", [x, step, None, size], version=17, constants=[1])
    assert (work(known).bound, work(unknown).bound) == ("exact", "upper")
    longer, _ = run("STFT", [x, step, None, np.array(length | 1, dtype=np.int64)], version=17, constants=[1, 3])
    frames = [made.shape[1] for op in (unknown, longer) if (made := op.outputs[0]) and made.shape]
    per_frame = [work(op).vector_flops // int(count) for op, count in zip((unknown, longer), frames, strict=True)]
    assert per_frame[0] == per_frame[1] >= work(known).vector_flops // int(frames[0])
