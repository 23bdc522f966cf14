from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.executing import kernels, worst
from tests.fakes.kernel_tasks import Specs, node, task
from trtprof.plugin.ptx import Fault


@pytest.mark.parametrize(
    ("dims", "others"),
    [
        (("N", 6, 8), [(6, 8), (8,), (1, 8), ("N", 1, 1), ("N", 6, 1), ()]),
        ((3, "N", "M"), [("M",), ("N", 1), (3, 1, 1), (1, "N", 1)]),
        ((), [()]),
        ((2, 0, 4), [(4,)]),
    ],
)
def test_broadcast_of_every_kind(dims: tuple[int | str, ...], others: list[tuple[int | str, ...]]) -> None:
    dtype = "fp16"
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


def test_a_guard_that_is_off_by_one_is_found() -> None:
    of = task([node("Exp", "x", "y")], {"x": ("fp32", ["N"])}, {"y": ("fp32", ["N"])})
    kernel = kernels("pointwise", of)[0]
    broken = replace(kernel, source=kernel.source.replace("i < left", "i <= left"))
    assert broken.source != kernel.source
    with pytest.raises(Fault, match="behind the end"):
        worst(broken, of, {"N": 5}, shift=1)
