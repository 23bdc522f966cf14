from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.fakes.executing import execute, kernels, worst
from tests.fakes.kernel_tasks import Specs, node, task
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


@pytest.mark.parametrize("dtype", ["fp32", "int64"])
def test_every_reduction(dtype: str) -> None:
    ops = (FLOATS if dtype == "fp32" else WHOLE).split()
    nodes = [node(op, "x axes", f"y{place}", keepdims=place % 2) for place, op in enumerate(ops)]
    outputs: Specs = {f"y{place}": (dtype, ["N", 1] if place % 2 else ["N"]) for place in range(len(ops))}
    of = task(nodes, {"x": (dtype, ["N", 37])}, outputs, constants={"axes": [1]})
    x = np.abs(np.random.default_rng(0).standard_normal((5, 37))) * (1 if dtype == "fp32" else 3)
    for kernel in kernels("reduce", of):
        assert worst(kernel, of, arrays=[x.astype({"fp32": np.float32}.get(dtype, dtype))]) <= 1.0


@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        (("N", 7, 9), (0,)), ((5, 33, 64), (1,)), ((4, 5, 6, 7), (1, 3)), (("N", 300), (0,)), ((3, 40, "M"), (1,)),
    ],
)  # fmt: skip
def test_any_axes(dims: tuple[int | str, ...], axes: tuple[int, ...]) -> None:
    of = reduced("ReduceSum", dims, axes, "fp16", keep=len(dims) == 4)
    for kernel in kernels("reduce", of):
        assert worst(kernel, of, {"N": 6, "M": 35}, shift=1, order=1) <= 1.0
        assert worst(kernel, of, {"N": 4, "M": 8}) <= 1.0


def test_nothing_to_reduce_and_nothing_to_write() -> None:
    axes = (1,)
    for op, nothing in (("ReduceSum", 0.0), ("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceProd", 1.0)):
        of = reduced(op, ("N", "M"), axes)
        for given in ((0, 3), (3, 0), (0, 0)):
            (got,) = execute(kernels("reduce", of)[0], of, [np.zeros(given, np.float32)]).outputs
            assert (got == nothing).all()


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
