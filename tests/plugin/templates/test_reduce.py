from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.executing import execute, kernels, worst
from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.ptx import Fault
from trtprof.plugin.task import Task

FLOATS = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum
    ReduceLogSumExp"""
WHOLE = "ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceSumSquare"


def reduced(
    op: str, dims: Sequence[int | str], axes: Sequence[int], dtype: str = "fp32", *, keep: bool = False
) -> Task:
    out = [1 if axis in axes else dim for axis, dim in enumerate(dims) if keep or axis not in axes]
    return task(
        [node(op, "x axes", "y", keepdims=int(keep))], {"x": (dtype, dims)}, {"y": (dtype, out)},
        constants={"axes": list(axes)},
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["fp32", "int32", "int64"])
def test_every_reduction(dtype: str) -> None:
    ops = (FLOATS if dtype == "fp32" else WHOLE).split()
    nodes = [node(op, "x axes", f"y{place}", keepdims=place % 2) for place, op in enumerate(ops)]
    outputs: Specs = {f"y{place}": (dtype, ["N", 1] if place % 2 else ["N"]) for place in range(len(ops))}
    of = task(nodes, {"x": (dtype, ["N", 37])}, outputs, constants={"axes": [1]})
    x = np.abs(np.random.default_rng(0).standard_normal((5, 37))) * (1 if dtype == "fp32" else 3)
    for kernel in kernels("reduce", of):
        assert worst(kernel, of, arrays=[x.astype({"fp32": np.float32}.get(dtype, dtype))]) <= 1.0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
def test_extremes_of_types_that_are_narrower_than_a_shuffle(dtype: str) -> None:
    nodes = [node(op, "x axes", f"y{place}", keepdims=0) for place, op in enumerate(("ReduceMax", "ReduceMin"))]
    for columns in (37, 2000):  # in a warp, and in a block
        of = task(
            nodes, {"x": (dtype, [3, columns])}, {"y0": (dtype, [3]), "y1": (dtype, [3])}, constants={"axes": [1]}
        )
        for kernel in kernels("reduce", of)[:2]:
            assert worst(kernel, of) <= 1.0


@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        (("N", 7, 9), (0,)), (("N", 7, 9), (1,)), ((5, 33, 64), (1,)), (("N", 8, 6, 5), (2, 3)),
        ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6, 7), (1, 3)), ((4, 1, 6), (1,)), (("N", 300), (0,)), ((3, 40, "M"), (1,)),
        ((6, "N", 16), (1, 2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_any_axes(dims: tuple[int | str, ...], axes: tuple[int, ...], dtype: str) -> None:
    of = reduced("ReduceSum", dims, axes, dtype, keep=len(dims) == 4)
    for kernel in kernels("reduce", of):
        assert worst(kernel, of, {"N": 6, "M": 35}, shift=1, order=1) <= 1.0
        assert worst(kernel, of, {"N": 4, "M": 8}) <= 1.0


@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
def test_nothing_to_reduce_and_nothing_to_write(axes: tuple[int, ...]) -> None:
    for op, nothing in (("ReduceSum", 0.0), ("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceProd", 1.0)):
        of = reduced(op, ("N", "M"), axes)
        for given in ((0, 3), (3, 0), (0, 0)):
            (got,) = execute(kernels("reduce", of)[0], of, [np.zeros(given, np.float32)]).outputs
            assert (got == nothing).all()


def test_everything_to_one_number() -> None:
    of = reduced("ReduceMean", (3, 5, 7), (0, 1, 2))
    for kernel in kernels("reduce", of):
        assert worst(kernel, of) <= 1.0


def test_ops_before_and_after() -> None:
    """A gemv as the rewrite of the story has it: a product that is broadcast, and a sum."""
    of = task(
        [node("Mul", "x w", "p"), node("ReduceSum", "p axes", "s", keepdims=0), node("Add", "s b", "t"),
         node("Relu", "t", "y")],
        {"x": ("fp32", [3, 20, 8, 64]), "w": ("fp32", [3, 1, 8, 64]), "b": ("fp32", [8])}, {"y": ("fp32", [3, 20, 8])},
        constants={"axes": [-1]},
    )  # fmt: skip
    for kernel in kernels("reduce", of):
        assert worst(kernel, of) <= 1.0
        assert worst(kernel, of, shift=3) <= 1.0


def test_the_difference_to_the_mean_has_both_outputs() -> None:
    of = task(
        [node("ReduceMean", "x axes", "m", keepdims=1), node("Sub", "x m", "y")],
        {"x": ("fp32", ["N", 50, 7, 9])}, {"y": ("fp32", ["N", 50, 7, 9]), "m": ("fp32", ["N", 1, 7, 9])},
        constants={"axes": [1]},
    )  # fmt: skip
    for kernel in kernels("reduce", of):
        assert worst(kernel, of, {"N": 2}) <= 1.0


def test_a_barrier_that_is_missing_is_found() -> None:
    of = reduced("ReduceSum", (2, 4096), (1,))
    kernel = next(one for one in kernels("reduce", of) if one.block[0] > 128)
    broken = replace(
        kernel,
        source=kernel.source.replace(
            "room[threadIdx.x / 32] = value;\n    __syncthreads();", "room[threadIdx.x / 32] = value;"
        ),
    )
    assert broken.source != kernel.source
    with pytest.raises(Fault):
        assert worst(broken, of, order=1) <= 4.0


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(NotFitError, match="the mean of int32"):
        kernels("reduce", reduced("ReduceMean", (3, 4), (1,), "int32"))
    two = task(
        [node("ReduceSum", "x a", "p"), node("ReduceSum", "x b", "q"), node("Add", "p q", "y")],
        {"x": ("fp32", [3, 4])}, {"y": ("fp32", [3, 4])}, constants={"a": [0], "b": [1]},
    )  # fmt: skip
    with pytest.raises(NotFitError, match=r"ReduceSum over axes \[1\] of \[3, 4\] beside one over \[0\]"):
        kernels("reduce", two)
    open_ = task([node("ReduceSum", "x a", "y")], {"x": ("fp32", [3]), "a": ("int64", [1])}, {"y": ("fp32", [1])})
    with pytest.raises(NotFitError, match="axes that are not known before the run"):
        kernels("reduce", open_)


@pytest.mark.parametrize(("inner", "told"), [((4,), "4"), ((8, 8), "32"), (("N",), "up to 32")])
def test_what_a_warp_reads_at_once_is_what_lies_side_by_side(inner: tuple[int | str, ...], told: str) -> None:
    for kernel in kernels("reduce", reduced("ReduceSum", (6, 50, *inner), (1,))):
        assert f"a warp reads {told} neighbouring elements" in kernel.why
        assert ("meet in shared memory" in kernel.why) == (kernel.block[1] > 1)
