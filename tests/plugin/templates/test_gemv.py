"""Kernels of thin matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fakes.executing import counted, under_way, worst
from tests.fakes.kernel_tasks import batched_gemv, matmul, node, task
from trtprof.plugin import reference
from trtprof.plugin.kernel import NotFitError, write
from trtprof.plugin.task import Task
from trtprof.plugin.templates.gemv import gemv
from trtprof.runtime import nvrtc

DTYPES = ("fp32", "bf16")


def test_the_story_gets_its_kernel() -> None:
    written = write(batched_gemv())
    first = written.kernels[0]
    assert first.template == "gemv"
    assert first.grid[0].known == 15_000
    assert first.block == (128, 1, 1)
    assert first.in_flight == 128
    assert "all rows of a thread meet the same" in first.source
    assert "Why it is fast" in first.source
    assert len({one.label for one in written.kernels}) == len(written.kernels)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_variant_of_the_story_spills_and_all_its_loads_are_under_way(dtype: str) -> None:
    for kernel in gemv(batched_gemv(dtype=dtype)):
        for architecture in ("sm_75", "sm_120"):
            made = nvrtc.compile_source(kernel.source.encode(), architecture, fast_math=False)
            assert " 0 bytes spill stores" in made.log
            assert "warning" not in made.log
            assert under_way(made.ptx, "ld.global.cs") == kernel.in_flight


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0, 1])
def test_a_small_story_is_right_at_any_alignment(dtype: str, shift: int) -> None:
    asked = batched_gemv(1, dtype=dtype)
    for kernel in gemv(asked)[:2]:
        assert worst(kernel, asked, shift=shift) <= 1.0
    architecture = "sm_75" if shift else "sm_120"
    assert worst(gemv(asked)[0], asked, architecture=architecture, order=3) <= 1.0


def test_each_element_is_read_once() -> None:
    asked = batched_gemv(batch=2)
    _, moved = counted(gemv(asked)[0], asked)
    assert {name: 32 * sectors for name, sectors in moved.sectors_read.items()} == {
        "x": 2 * 200 * 8 * 64 * 4, "w": 2 * 8 * 64 * 4,
    }  # fmt: skip
    assert 32 * moved.sectors_written["y"] == 2 * 200 * 8 * 4
    assert moved.bank_conflicts == 0


CASES: dict[str, tuple[Task, Mapping[str, int]]] = {
    "odd": (matmul((3, 5, 63), (3, 63, 1), (3, 5, 1)), {}),
    "a row by a matrix": (matmul((1, 100), (100, 37), (1, 37), "fp16"), {}),
    "rows by a matrix, turned": (matmul((3, 100), (100, 40), (3, 40), "bf16", turned=True), {}),
    "a matrix by columns": (matmul((40, 100), (100, 3), (40, 3), "fp16"), {}),
    "batch on both sides": (matmul((2, 1, 36), (2, 36, 40), (2, 1, 40)), {}),
    "batch of rows": (matmul((3, 1, 20), (20, 48), (3, 1, 48), "fp16"), {}),
    "vectors": (matmul((100,), (100,), ()), {}),
    "long rows": (matmul((2, 3000), (3000, 1), (2, 1), "fp16"), {}),
    "nothing to sum": (matmul((4, 0), (0, 40), (4, 40)), {}),
    "named": (matmul(("b", 3, "k"), ("b", "k", 40), ("b", 3, 40), "fp16"), {"b": 2, "k": 33}),
    "named, nothing to sum": (matmul(("b", "m", "k"), ("b", "k", 1), ("b", "m", 1)), {"b": 2, "m": 7, "k": 0}),
    "int8": (matmul((2, 96), (96, 48), (2, 48), "fp16", stored="int8"), {}),
}


ALL_VARIANTS = ("odd", "a row by a matrix")
"""One that is summed along its rows, one along its columns; of others the first and the last variant are tried."""


@pytest.mark.nightly
def test_every_variant_is_right(subtests: pytest.Subtests) -> None:
    for name, (asked, given) in CASES.items():
        with subtests.test(name):
            kernels = gemv(asked)
            for kernel in kernels if name in ALL_VARIANTS else kernels[:1]:
                assert worst(kernel, asked, given) <= 1.0
            assert worst(kernels[-1], asked, given, shift=1, architecture="sm_75", order=5) <= 1.0


FP32 = Sequence[int]


def product_of(nodes: Sequence[Any], more: Mapping[str, tuple[str, FP32]], constants: Mapping[str, Any] = {}) -> Task:
    """Nodes around x (3 by 50) and w (50 by 24)."""
    inputs = {"x": ("fp32", [3, 50]), "w": ("fp32", [50, 24]), **more}
    return task(nodes, inputs, {"y": ("fp32", [3, 24])}, constants=constants)


@pytest.mark.nightly
def test_what_stands_around_a_product_is_computed_with_it(subtests: pytest.Subtests) -> None:
    for asked in (
        product_of([node("Gemm", "x w c", "y", alpha=0.5, beta=-2.0)], {"c": ("fp32", [24])}),
        product_of([node("Gemm", "x w c", "y")], {"c": ("fp32", [3, 1])}),
        product_of(
            [node("MatMul", "x w", "p"), node("Add", "b p", "s"), node("Sigmoid", "s", "g"), node("Mul", "s g", "y")],
            {"b": ("fp32", [24])},
        ),
        product_of(
            [node("MatMul", "x w", "p"), node("Mul", "p half", "s"), node("Add", "s r", "y")],
            {"r": ("fp32", [3, 24])},
            {"half": np.float32(0.5)},
        ),
        product_of([node("Cast", "w", "wide", to=1), node("MatMul", "x wide", "y")], {"w": ("fp16", [50, 24])}),
        product_of(
            [node("DequantizeLinear", "w s", "wide", axis=0), node("MatMul", "x wide", "y")],
            {"w": ("int8", [50, 24]), "s": ("fp32", [50])},
        ),
    ):
        with subtests.test(f"{asked}"):
            kernels = gemv(asked)
            assert len(kernels[0].inputs) == len(asked.inputs)
            for kernel in kernels[:2]:
                assert worst(kernel, asked) <= 1.0


def test_sums_are_made_in_fp32() -> None:
    # 4,096 ones: fp16 alone would stop at 2,048.
    asked = matmul((1, 4096), (4096, 8), (1, 8), "fp16")
    expected = reference.evaluate(asked, [np.ones((1, 4096), np.float16), np.ones((4096, 8), np.float16)])
    assert expected[0].value.max() == 4096
    assert worst(gemv(asked)[0], asked) <= 1.0


def test_offsets_do_not_end_at_32_bits() -> None:
    # 2^33 elements: the row of the last block lies behind what 32 bits count.
    asked = matmul((1 << 20, 8192), (8192, 1), (1 << 20, 1), "fp16")
    source = gemv(asked)[0].source
    assert "matrix + (Offset)(r) * K" in source
    assert "using Index = unsigned int;" in source
    rows = matmul((1 << 31, 4), (4, 1), (1 << 31, 1), "fp16")
    with pytest.raises(NotFitError, match=r"2\^31"):
        gemv(rows)
    assert (
        "using Index = unsigned long long;"
        in gemv(matmul((1 << 16, 1 << 15, 4), (4, 1), (1 << 16, 1 << 15, 1)))[0].source
    )


def test_what_it_does_not_know_is_said(subtests: pytest.Subtests) -> None:
    for asked, why in (
        (matmul((64, 32), (32, 64), (64, 64)), "wider than 16"),
        (matmul((20, 1, 1, 32), (3, 32, 64), (20, 3, 1, 64)), "read 20 times"),
        (matmul((1, 32), (32, 64), (1, 64), "fp64"), "a product of fp64"),
        (task([node("Relu", "x", "y")], {"x": ("fp32", [4])}, {"y": ("fp32", [4])}), "no product"),
        (product_of([node("MatMul", "x w", "p"), node("Softmax", "p", "y")], {}), "Softmax"),
        (product_of([node("Relu", "x", "r"), node("MatMul", "r w", "y")], {}), "Relu before the product"),
    ):
        with subtests.test(why), pytest.raises(NotFitError, match=why):
            gemv(asked)
