from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.fakes.executing import execute, kernels, worst
from tests.fakes.kernel_tasks import node, task
from trtprof.plugin.task import Task

NUMPY = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def softmax(
    dims: tuple[int | str, ...], dtype: str = "fp32", op: str = "Softmax", axis: int = -1, opset: int = 22
) -> Task:
    return task([node(op, "x", "y", axis=axis)], {"x": (dtype, dims)}, {"y": (dtype, dims)}, opset=opset)


def masked(dtype: str, columns: int, mask: tuple[int | str, ...]) -> Task:
    dims = ("B", 3, 5, columns)
    return task(
        [node("Div", "x d", "s"), node("Add", "s m", "a"), node("Softmax", "a", "y", axis=-1)],
        {"x": (dtype, dims), "m": (dtype, mask)}, {"y": (dtype, dims)}, constants={"d": NUMPY[dtype](8)},
    )  # fmt: skip


@pytest.mark.parametrize(("columns", "dtype"), [(1, "fp32"), (33, "fp16"), (100, "bf16")])
def test_rows_in_registers(columns: int, dtype: str) -> None:
    of = softmax(("B", columns), dtype)
    for kernel in kernels("softmax", of):
        assert kernel.reads == {}
        assert worst(kernel, of, {"B": 5}) <= 1.0
        assert worst(kernel, of, {"B": 3}, shift=1, order=1) <= 1.0
        assert worst(kernel, of, {"B": 0}) == 0.0


@pytest.mark.parametrize("op", ["LogSoftmax"])
def test_rows_longer_than_registers_and_of_lengths_that_are_not_known(op: str) -> None:
    for of in (softmax((2, 33_003), op=op), softmax(("B", "S"), "fp16", op)):
        for kernel in kernels("softmax", of):
            assert "x" in kernel.reads
            assert worst(kernel, of, {"B": 3, "S": 41}) <= 1.0
    assert worst(kernel, of, {"B": 3, "S": 48}) <= 1.0  # whole packs
    assert worst(kernel, of, {"B": 3, "S": 0}) == 0.0


@pytest.mark.parametrize("mask", [("B", 1, 1, 24), (5, 24), ()])
def test_masks_of_every_shape(mask: tuple[int | str, ...]) -> None:
    of = masked("fp16", 24, mask)
    assert worst(kernels("softmax", of)[0], of, {"B": 2}, shift=1) <= 1.0


def test_a_row_that_is_masked_throughout_is_nan_as_in_onnx() -> None:
    of = task(
        [node("Where", "m x low", "a"), node("Softmax", "a", "y", axis=-1)],
        {"x": ("fp32", ["B", 4, 7]), "m": ("bool", ["B", 1, 7])}, {"y": ("fp32", ["B", 4, 7])},
        constants={"low": np.float32(-np.inf)},
    )  # fmt: skip
    keep = np.ones((2, 1, 7), bool)
    keep[0], keep[1, 0, 3:] = False, False
    x = np.random.default_rng(0).standard_normal((2, 4, 7)).astype(np.float32)
    for kernel in kernels("softmax", of):
        (got,) = execute(kernel, of, [x, keep]).outputs
        assert np.isnan(got[0]).all()
        assert (got[1, :, 3:] == 0).all()
        assert np.allclose(got[1].sum(-1), 1)


def test_the_largest_has_to_be_taken_off() -> None:
    of = softmax((3, 50))
    kernel = kernels("softmax", of)[0]
    broken = replace(kernel, source=kernel.source.replace("x_kept[step][i] - largest_1", "x_kept[step][i]"))
    assert broken.source != kernel.source
    x = np.full((3, 50), 200, np.float32)
    assert worst(broken, of, arrays=[x]) > 4
