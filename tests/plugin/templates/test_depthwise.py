"""Kernels of depthwise convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.executing import counted, under_way, worst
from tests.fakes.kernel_tasks import node, task
from trtprof.base.records import Dim
from trtprof.plugin.kernel import NotFitError, write
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
    "same upper": (conv((1, 3, 9, 8), (1, 3, 5, 4), (4, 5), strides=[2, 2], auto_pad="SAME_UPPER"), {}),
    "same lower": (conv((1, 3, 9, 8), (1, 3, 9, 8), (2, 4), auto_pad="SAME_LOWER"), {}),
    "valid": (conv((1, 3, 9, 8), (1, 3, 7, 4), (3, 5), auto_pad="VALID"), {}),
    "more padding than filter": (conv((1, 2, 3, 3), (1, 2, 9, 9), (1, 1), pads=[3, 3, 3, 3]), {}),
    "strides that skip": (conv((1, 2, 12, 11), (1, 2, 4, 4), (1, 2), strides=[3, 3]), {}),
    "1D": (conv((2, 5, 100), (2, 5, 100), (7,), "fp16", pads=[3, 3]), {}),
    "large": (conv((1, 2, 12, 12), (1, 2, 12, 12), (9, 9), pads=[4, 4, 4, 4]), {}),
    "named": (conv(("n", 3, 9, 8), ("n", 3, 9, 8), (3, 3), pads=[1, 1, 1, 1]), {"n": 2}),
    "empty": (conv(("n", 3, 9, 8), ("n", 3, 9, 8), (3, 3), pads=[1, 1, 1, 1]), {"n": 0}),
    "named image": (conv(("n", 3, "h", "w"), ("n", 3, "h", "w"), (3, 3), pads=[1, 1, 1, 1]), {"n": 2, "h": 5, "w": 33}),
    "followed": (
        conv(
            (1, 3, 8, 8), (1, 3, 8, 8), (3, 3), pads=[1, 1, 1, 1], more={"r": ("fp32", (1, 3, 1, 8))},
            after=(node("Relu", "p", "q"), node("Add", "q r", "y")),
        ),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_variant_is_right(name: str) -> None:
    asked, given = CASES[name]
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


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (conv((1, 4, 8, 8), (1, 4, 8, 8), (3, 3), "fp64", pads=[1, 1, 1, 1]), "a convolution of fp64"),
        (conv((1, 4, 8, 8, 8), (1, 4, 6, 6, 6), (3, 3, 3)), "images or signals"),
        (conv((1, 4, "h", 8), (1, 4, "g", 6), (3, 3)), "an image of unknown size"),
        (conv((1, 4, 8, 8), (1, 4, 8, 8), (3, 3)), "a result of 8 along an axis where 6"),
        (task([node("Conv", "x w", "y")], {"x": ("fp32", [1, 4, 8, 8]), "w": ("fp32", [4, 4, 1, 1])},
              {"y": ("fp32", [1, 4, 8, 8])}), "a group of their own"),
        (task([node("Relu", "x", "y")], {"x": ("fp32", [4])}, {"y": ("fp32", [4])}), "no convolution"),
    ],
)  # fmt: skip
def test_what_it_does_not_know_is_said(asked: Task, why: str) -> None:
    with pytest.raises(NotFitError, match=why):
        depthwise(asked)


def test_pixels_that_a_stride_leaves_out_are_not_said_to_lie_side_by_side() -> None:
    asked = conv((1, 32, 112, 112), (1, 32, 56, 56), (3, 3), "fp32", pads=[1, 1, 1, 1], strides=[2, 2])
    assert all("2 pixels apart" in one.why for one in depthwise(asked))
