from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.executing import compiled, execute, kernels, worst
from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.plugin import numerics, traffic
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.ptx import Fault
from trtprof.plugin.reference import numpy_dtype
from trtprof.plugin.specification import check_source
from trtprof.plugin.task import Task
from trtprof.plugin.trials import Trial

WIDTHS = ("uint8", "fp16", "fp32", "int64")


def transpose(dims: tuple[int | str, ...], order: tuple[int, ...], dtype: str) -> Task:
    return task(
        [node("Transpose", "x", "y", perm=list(order))], {"x": (dtype, dims)},
        {"y": (dtype, [dims[axis] for axis in order])},
    )  # fmt: skip


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize(
    ("dims", "order"),
    [
        (("N", 35, 70), (0, 2, 1)), (("N", 6, 4, 16), (0, 2, 1, 3)), ((2, 9, 11, 3), (0, 3, 1, 2)), ((33, "N"), (1, 0)),
        (("N", 3, 4, 5), (3, 1, 0, 2)), ((5, 1, 7), (2, 1, 0)),
    ],
)  # fmt: skip
def test_transposes(dims: tuple[int | str, ...], order: tuple[int, ...], dtype: str) -> None:
    of = transpose(dims, order, dtype)
    for kernel in kernels("copy", of):
        for count, shift in ((2, 1), (3, 0), (0, 0)):
            assert worst(kernel, of, {"N": count}, shift=shift) == 0.0


def test_squares_turn_without_bank_conflicts() -> None:
    for dtype in ("fp32", "fp16", "uint8", "int64"):
        of = transpose((64, 96), (1, 0), dtype)
        for kernel in kernels("copy", of)[:1]:
            assert kernel.label == "squares of 32"
            x = np.zeros((64, 96), numpy_dtype(dtype))
            found = numerics.execute(kernel, compiled(kernel.source), Trial(of, (x.shape,)), [x])
            assert found.counted.bank_conflicts == 0


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


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    of = task(
        [node("DepthToSpace", "x", "y", blocksize=2, mode=mode)], {"x": ("fp16", ["N", 12, 5, 7])},
        {"y": ("fp16", ["N", 3, 10, 14])},
    )  # fmt: skip
    for kernel in kernels("copy", of):
        assert worst(kernel, of, {"N": 2}) == 0.0


@pytest.mark.parametrize("numbers", ["int32", "int64"])
@pytest.mark.parametrize(
    ("axis", "dims", "out"), [(0, (10, 24), ("N", 3, 24)), (1, (3, 10, 7), (3, "N", 3, 7)), (-1, (4, 10), (4, "N", 3))]
)
def test_gathers(numbers: str, axis: int, dims: tuple[int, ...], out: tuple[int | str, ...]) -> None:
    of = task(
        [node("Gather", "x n", "y", axis=axis)], {"x": ("fp16", dims), "n": (numbers, ["N", 3])}, {"y": ("fp16", out)}
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal(dims).astype(np.float16)
    for kernel in kernels("copy", of):
        for count in (5, 0):
            index = rng.integers(-10, 10, (count, 3)).astype(numbers)
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


def test_a_grid_that_is_too_short_is_found() -> None:
    of = transpose((40, 40), (1, 0), "fp32")
    kernel = kernels("copy", of)[0]
    short = replace(kernel, grid=(kernel.grid[0] - 1, *kernel.grid[1:]))
    with pytest.raises(AssertionError):
        worst(short, of)
    misaligned = kernels("copy", transpose(("N", 4, 8, 16), (0, 2, 1, 3), "fp16"))[0]
    broken = replace(
        misaligned, source=misaligned.source.replace("const bool packed = ", "const bool packed = true || ")
    )
    with pytest.raises(Fault, match="aligned"):
        worst(broken, transpose(("N", 4, 8, 16), (0, 2, 1, 3), "fp16"), {"N": 1}, shift=1)


def test_what_is_not_known_is_said() -> None:
    named = task(
        [node("Slice", "x s e", "y")], {"x": ("fp32", ["N"])}, {"y": ("fp32", ["M"])}, constants={"s": [1], "e": [5]}
    )
    with pytest.raises(NotFitError, match="Slice of dimension N, which has no number"):
        kernels("copy", named)
    with pytest.raises(NotFitError, match="Relu is no copy"):
        kernels("copy", task([node("Relu", "x", "y")], {"x": ("fp32", [3])}, {"y": ("fp32", [3])}))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "int8", "int32", "bool"])
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


@pytest.mark.parametrize(
    ("dims", "first", "last", "axis", "step", "out"),
    [
        ((8, 300, 64), 0, 200, 1, 1, (8, 200, 64)), ((500, 512), 0, 5, 1, 1, (500, 5)),
        ((500, 512), 0, 256, 1, 1, (500, 256)), ((900, 30, 40), 0, 900, 0, 3, (300, 30, 40)),
        ((64, 4000), 0, 4000, 1, 2, (64, 2000)), ((64, 4000), 0, 4000, 1, 16, (64, 250)),
        (("N", 512), 0, 5, 1, 1, ("N", 5)), ((1, 16000), 119, -16001, 1, -1, (1, 120)),
    ],
)  # fmt: skip
def test_of_a_slice_what_it_reads_is_predicted(
    dims: tuple[int | str, ...], first: int, last: int, axis: int, step: int, out: tuple[int | str, ...]
) -> None:
    of = task(
        [node("Slice", "x s e a t", "y")], {"x": ("fp32", dims)}, {"y": ("fp32", out)},
        constants={"s": [first], "e": [last], "a": [axis], "t": [step]},
    )  # fmt: skip
    for kernel in kernels("copy", of):
        found = traffic.count(of, kernel, compiled(kernel.source), given={"N": 400})
        assert found.ok, (kernel.label, found.reason)


def test_what_is_repeated_is_not_said_to_be_read_once() -> None:
    expand = task([node("Expand", "x s", "y")], {"x": ("fp32", [5, 1, 8])}, {"y": ("fp32", [5, 6, 8])},
                  constants={"s": [5, 6, 8]})  # fmt: skip
    assert all("read again from the caches" in one.why for one in kernels("copy", expand))
    assert all("read again" not in one.why for one in kernels("copy", transpose((3, 40, 50), (0, 2, 1), "fp32")))
