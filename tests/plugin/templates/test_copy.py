from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.executing import execute, kernels, worst
from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.specification import check_source
from trtprof.plugin.task import Task

WIDTHS = ("uint8", "fp32")


def transpose(dims: tuple[int | str, ...], order: tuple[int, ...], dtype: str) -> Task:
    return task(
        [node("Transpose", "x", "y", perm=list(order))], {"x": (dtype, dims)},
        {"y": (dtype, [dims[axis] for axis in order])},
    )  # fmt: skip


@pytest.mark.nightly
def test_transposes(subtests: pytest.Subtests) -> None:
    for dims, order in (
        (("N", 35, 70), (0, 2, 1)),
        (("N", 6, 4, 16), (0, 2, 1, 3)),
        ((33, "N"), (1, 0)),
        (("N", 3, 4, 5), (3, 1, 0, 2)),
    ):
        for dtype in WIDTHS:
            with subtests.test(dtype):
                of = transpose(dims, order, dtype)
                for kernel in kernels("copy", of):
                    for count, shift in ((2, 1), (3, 0), (0, 0)):
                        assert worst(kernel, of, {"N": count}, shift=shift) == 0.0


@pytest.mark.parametrize("dtype", WIDTHS)
def test_slices_expansions_and_tiles(dtype: str) -> None:
    tasks = [
        task([node("Slice", "x s e a t", "y")], {"x": (dtype, [5, 17, 40])}, {"y": (dtype, [5, 6, 10])},
             constants={"s": [-2, 8], "e": [-20, 38], "a": [1, 2], "t": [-3, 3]}),
        task([node("Slice", "x s e a", "y")], {"x": (dtype, ["N", 17, 40])}, {"y": (dtype, ["N", 17, 24])},
             constants={"s": [16], "e": [2**63 - 1], "a": [-1]}),
        task([node("Expand", "x s", "y")], {"x": (dtype, [3, 1, 5])}, {"y": (dtype, [2, 3, 4, 5])},
             constants={"s": [2, 3, 4, 1]}),
        task([node("Tile", "x r", "y")], {"x": (dtype, [3, 8])}, {"y": (dtype, [6, 24])}, constants={"r": [2, 3]}),
        task([node("Reshape", "x s", "r"), node("Transpose", "r", "y", perm=[0, 2, 1, 3])],
             {"x": (dtype, ["N", 6, 32])}, {"y": (dtype, ["N", 4, 6, 8])}, constants={"s": [0, 6, 4, 8]}),
    ]  # fmt: skip
    for of in tasks:
        for kernel in kernels("copy", of):
            assert worst(kernel, of, {"N": 3}, shift=1) == 0.0
            assert worst(kernel, of, {"N": 1}) == 0.0


@pytest.mark.parametrize(
    ("axis", "dims", "out"), [(0, (10, 24), ("N", 3, 24)), (1, (3, 10, 7), (3, "N", 3, 7)), (-1, (4, 10), (4, "N", 3))]
)
def test_gathers(axis: int, dims: tuple[int, ...], out: tuple[int | str, ...]) -> None:
    of = task(
        [node("Gather", "x n", "y", axis=axis)], {"x": ("fp16", dims), "n": ("int64", ["N", 3])}, {"y": ("fp16", out)}
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal(dims).astype(np.float16)
    for kernel in kernels("copy", of):
        for count in (5, 0):
            index = rng.integers(-10, 10, (count, 3)).astype(np.int64)
            (got,) = execute(kernel, of, [x, index], shift=1).outputs
            np.testing.assert_array_equal(got, np.take(x, index, axis))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_concatenations(dtype: str) -> None:
    for axis, inner in ((1, 8), (1, 3), (2, 1)):
        counts = {"a": 3, "b": 5, "c": 1}
        parts: Specs = {
            name: (dtype, ["N", count, inner] if axis == 1 else ["N", 2, count]) for name, count in counts.items()
        }
        out: list[int | str] = ["N", 9, inner] if axis == 1 else ["N", 2, 9]
        of = task([node("Concat", "a b c", "y", axis=axis)], parts, {"y": (dtype, out)})
        for kernel in kernels("copy", of):
            assert worst(kernel, of, {"N": 3}) == 0.0
            assert worst(kernel, of, {"N": 0}) == 0.0


def test_what_is_not_known_is_said() -> None:
    named = task(
        [node("Slice", "x s e", "y")], {"x": ("fp32", ["N"])}, {"y": ("fp32", ["M"])}, constants={"s": [1], "e": [5]}
    )
    with pytest.raises(NotFitError, match="Slice of dimension N, which has no number"):
        kernels("copy", named)
    with pytest.raises(NotFitError, match="Relu is no copy"):
        kernels("copy", task([node("Relu", "x", "y")], {"x": ("fp32", [3])}, {"y": ("fp32", [3])}))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "bool"])
def test_operands_are_declared_as_tensorrt_passes_them(dtype: str) -> None:
    for of in (
        transpose((64, 96), (1, 0), dtype),
        task([node("Slice", "x s e a", "y")], {"x": (dtype, ["N", 40])}, {"y": (dtype, ["N", 24])},
             constants={"s": [16], "e": [40], "a": [-1]}),
        task([node("Gather", "x k", "y")], {"x": (dtype, [9, 8]), "k": ("int64", [5])}, {"y": (dtype, [5, 8])}),
        task([node("Concat", "x z", "y", axis=0)], {"x": (dtype, [9, 8]), "z": (dtype, [2, 8])},
             {"y": (dtype, [11, 8])}),
    ):  # fmt: skip
        for kernel in kernels("copy", of):
            check_source(of, kernel)
