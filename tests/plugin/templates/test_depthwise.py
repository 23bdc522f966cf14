"""Kernels of depthwise convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.executing import counted, under_way, worst
from tests.fakes.kernel_tasks import node, task
from trtprof.base.records import Dim
from trtprof.plugin.kernel import write
from trtprof.plugin.task import Task
from trtprof.plugin.templates.depthwise import depthwise
from trtprof.runtime import nvrtc


def conv(
    image: tuple[Dim, ...], out: tuple[Dim, ...], filter_of: tuple[int, ...], dtype: str = "fp32", *,
    bias: bool = True, after: tuple[Any, ...] = (), more: Mapping[str, Any] = {}, **attributes: Any,
) -> Task:  # fmt: skip
    """A depthwise Conv of x and w, with a bias b, and what follows it."""
    channels = image[1]
    assert isinstance(channels, int)
    inputs = {"x": (dtype, image), "w": (dtype, (channels, 1, *filter_of))}
    if bias:
        inputs["b"] = (dtype, (channels,))
    made = node("Conv", "x w b" if bias else "x w", "p" if after else "y", group=channels, **attributes)
    return task([made, *after], {**inputs, **more}, {"y": (dtype, out)})


CASES: dict[str, tuple[Task, Mapping[str, int]]] = {
    "3x3": (conv((2, 3, 14, 17), (2, 3, 14, 17), (3, 3), pads=[1, 1, 1, 1]), {}),
    "stride 2": (conv((1, 8, 15, 16), (1, 8, 8, 8), (3, 3), "fp16", strides=[2, 2], pads=[1, 1, 1, 1]), {}),
    "dilated": (conv((1, 2, 20, 9), (1, 2, 16, 5), (3, 3), "bf16", dilations=[2, 2], bias=False), {}),
    "same lower": (conv((1, 3, 9, 8), (1, 3, 9, 8), (2, 4), auto_pad="SAME_LOWER"), {}),
    "1D": (conv((2, 5, 100), (2, 5, 100), (7,), "fp16", pads=[3, 3]), {}),
    "named image": (conv(("n", 3, "h", "w"), ("n", 3, "h", "w"), (3, 3), pads=[1, 1, 1, 1]), {"n": 2, "h": 5, "w": 33}),
    "followed": (
        conv(
            (1, 3, 8, 8), (1, 3, 8, 8), (3, 3), pads=[1, 1, 1, 1], more={"r": ("fp32", (1, 3, 1, 8))},
            after=(node("Relu", "p", "q"), node("Add", "q r", "y")),
        ),
        {},
    ),
}  # fmt: skip


@pytest.mark.nightly
def test_every_variant_is_right(subtests: pytest.Subtests) -> None:
    for name, (asked, given) in CASES.items():
        with subtests.test(name):
            kernels = depthwise(asked)
            for kernel in kernels[:2]:
                assert worst(kernel, asked, given) <= 1.0
            assert worst(kernels[-1], asked, given, shift=1, architecture="sm_75") <= 1.0


def test_the_image_crosses_memory_once() -> None:
    asked, _ = CASES["3x3"]
    written = write(asked)
    assert written.kernels[0].template == "depthwise"
    assert "gemv" in written.refused
    _, moved = counted(written.kernels[0], asked)
    assert moved.sectors_read["x"] == -(-2 * 3 * 14 * 17 * 4 // 32)


def test_no_variant_spills_and_all_its_loads_are_under_way() -> None:
    for dtype in ("fp32", "bf16"):
        asked = conv((1, 32, 112, 112), (1, 32, 112, 112), (3, 3), dtype, pads=[1, 1, 1, 1])
        kernels = depthwise(asked)
        assert [one.label for one in kernels] == [
            "4 rows a thread",
            "2 rows a thread",
            "8 rows a thread",
            "1 row a thread",
        ]
        for kernel in kernels:
            made = nvrtc.compile_source(kernel.source.encode(), "sm_75", fast_math=False)
            assert " 0 bytes spill stores" in made.log
            assert "warning" not in made.log
            assert under_way(made.ptx, "ld.global.nc") >= kernel.in_flight
