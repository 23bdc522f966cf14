from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.executing import asked_before_use, kernels, worst
from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.ptx import Fault
from trtprof.plugin.task import Task
from trtprof.runtime import nvrtc

CASTS = {"fp32": 1, "fp16": 10, "bf16": 16}


def chain(dims: tuple[int | str, ...] = ("N", 64, 56, 56)) -> Task:
    return task(
        [node("Add", "x b", "s"), node("Mul", "s w", "m"), node("Relu", "m", "y"), node("Cast", "s", "h", to=10)],
        {"x": ("fp32", dims), "b": ("fp32", [64, 1, 1]), "w": ("fp16", [])},
        {"y": ("fp32", dims), "h": ("fp16", dims)},
    )


def test_dims_that_all_operands_treat_alike_are_one() -> None:
    kernel = kernels("pointwise", chain())[0]
    assert "at / 3136 % 64" in kernel.source
    assert [extra.name for extra in kernel.extras] == ["dim_N"]
    assert kernel.launch([(2, 64, 56, 56), (64, 1, 1), ()])[0] == (196, 1, 1)
    assert kernel.in_flight == 32  # two packs of x


@pytest.mark.parametrize(
    ("dims", "others"),
    [
        (("N", 6, 8), [(6, 8), (8,), (1, 8), ("N", 1, 1), ("N", 6, 1), ()]),
        (("N", 5, 7), [(5, 7), (7,), (5, 1), ("N", 1, 7)]),
        ((3, "N", "M"), [("M",), ("N", 1), (3, 1, 1), (1, "N", 1)]),
        (("N",), [(1,), ("N",)]),
        ((), [()]),
        ((2, 0, 4), [(4,)]),
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_broadcast_of_every_kind(dims: tuple[int | str, ...], others: list[tuple[int | str, ...]], dtype: str) -> None:
    inputs: Specs = {"x": (dtype, dims)} | {f"b{place}": (dtype, one) for place, one in enumerate(others)}
    nodes, last = [], "x"
    for place in range(len(others)):
        nodes.append(node("Add", f"{last} b{place}", f"s{place}"))
        last = f"s{place}"
    of = task([*nodes, node("Tanh", last, "y")], inputs, {"y": (dtype, dims)})
    for kernel in kernels("pointwise", of):
        for given, shift in (({"N": 3, "M": 5}, 0), ({"N": 1, "M": 4}, 1), ({"N": 0, "M": 3}, 0)):
            assert worst(kernel, of, given, shift=shift) <= 1.0


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_dtypes_of_different_widths_and_truths(dtype: str) -> None:
    of = task(
        [node("Cast", "a", "c", to=1), node("Where", "q c w", "y"), node("Greater", "y w", "p")],
        {"a": (dtype, ["N", 6]), "q": ("bool", ["N", 6]), "w": ("fp32", [6])},
        {"y": ("fp32", ["N", 6]), "p": ("bool", ["N", 6])},
    )
    for architecture in ("sm_75", "sm_90"):
        assert worst(kernels("pointwise", of)[0], of, {"N": 67}, architecture=architecture) == 0.0


def test_int64_in_and_out() -> None:
    of = task(
        [node("Mul", "a b", "m"), node("Add", "m c", "y")],
        {"a": ("int64", ["N", 3]), "b": ("int64", [3])}, {"y": ("int64", ["N", 3])}, constants={"c": np.int64(2**40)},
    )  # fmt: skip
    assert worst(kernels("pointwise", of)[0], of, {"N": 43}) == 0.0


def test_a_guard_that_is_off_by_one_is_found() -> None:
    of = task([node("Exp", "x", "y")], {"x": ("fp32", ["N"])}, {"y": ("fp32", ["N"])})
    kernel = kernels("pointwise", of)[0]
    broken = replace(kernel, source=kernel.source.replace("i < left", "i <= left"))
    assert broken.source != kernel.source
    with pytest.raises(Fault, match="behind the end"):
        worst(broken, of, {"N": 5}, shift=1)


def test_more_elements_than_32_bits_count() -> None:
    of = task([node("Exp", "x", "y")], {"x": ("fp16", [2**17, 2**16])}, {"y": ("fp16", [2**17, 2**16])})
    kernel = kernels("pointwise", of)[0]
    assert "const unsigned long long at" in kernel.source
    assert kernel.launch([(2**17, 2**16)])[0] == (2**33 // (256 * 16), 1, 1)


def test_what_is_not_known_is_said() -> None:
    unknown = task([node("MatMul", "x x", "y")], {"x": ("fp32", [4, 4])}, {"y": ("fp32", [4, 4])})
    with pytest.raises(NotFitError, match="MatMul is no element-wise op"):
        kernels("pointwise", unknown)
    open_ = task([node("Add", "a b", "y")], {"a": ("fp32", ["N"]), "b": ("fp32", [5])}, {"y": ("fp32", [5])})
    with pytest.raises(NotFitError, match="5 beside N: whether one is broadcast is not known"):
        kernels("pointwise", open_)
    double = task([node("Exp", "x", "y")], {"x": ("fp64", [4])}, {"y": ("fp64", [4])})
    with pytest.raises(NotFitError, match="x has elements of fp64"):
        kernels("pointwise", double)
    named = task([node("Exp", "row", "y")], {"row": ("fp32", [4])}, {"y": ("fp32", [4])})
    with pytest.raises(NotFitError, match="an operand is called row, as something in the kernel is"):
        kernels("pointwise", named)


def test_loads_do_not_wait_for_one_another() -> None:
    of = task([node("Relu", "x", "y")], {"x": ("fp16", ["N", 1000])}, {"y": ("fp16", ["N", 1000])})
    for kernel in kernels("pointwise", of)[:3]:
        ptx = nvrtc.compile_source(kernel.source.encode(), "compute_80", fast_math=False).ptx
        assert asked_before_use(ptx, r"ld\.global\.cs\.v4") >= kernel.in_flight
