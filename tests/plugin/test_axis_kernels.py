"""Kernels over axes, and of moved elements: right at odd sizes in all tactics; and what does not fit, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import kernel_tasks as tasks
from tests.fakes.kernel_tasks import Specs, node, one_node, task
from trtprof.base.records import Dim
from trtprof.plugin.form import NoFitError, read_kernel
from trtprof.plugin.interpret import launch
from trtprof.plugin.kernels import FORMS, form_of
from trtprof.plugin.reference import compare, expect
from trtprof.plugin.task import Task, numpy_dtype

pytest.importorskip("triton")

F357: tuple[str, tuple[Dim, ...]] = ("fp32", (3, 5, 7))
IMAGE: tuple[Dim, ...] = ("n", 3, "h", "w")


def conv(x: Sequence[Dim], w: Sequence[Dim], y: Sequence[Dim], after: str = "", **attributes: Any) -> Task:
    """A convolution of three groups with a bias, and an op after it."""
    made = "sum" if after else "y"
    nodes = [node("Conv", "x w b", made, group=3, **attributes), *([node(after, "sum")] if after else [])]
    inputs: Specs = {"x": ("fp32", x), "w": ("fp32", w), "b": ("fp32", w[:1])}
    return task(nodes, inputs, {"y": ("fp32", y)})


def spelled_norm(*steps: tuple[str, str, str], axis: int = -1, dims: Sequence[Dim] = ("n", 5, 70)) -> Task:
    """A normalization of x in nodes of (op type, inputs, output), with a scale after it."""
    nodes = [node(*names) for names in steps]
    inputs: Specs = {"x": ("fp32", dims), "w": ("fp32", (dims[axis], *[1] * (-1 - axis)))}
    numbers = {name: np.float32(value) for name, value in (("two", 2), ("eps", 1e-5), ("one", 1))}
    return task(
        [*nodes, node("Mul", "d_ w")], inputs, {"y": ("fp32", dims)}, constants={"axes": [axis], **numbers},
        main="ReduceMean",
    )  # fmt: skip


def instance_norm(dims: Sequence[Dim]) -> Task:
    return one_node("InstanceNormalization", {"x": dims, "w": (dims[1],), "b": (dims[1],), "y": dims})


CENTER = (("ReduceMean", "x axes", "m"), ("Sub", "x m", "d"))
SQUARE = (("ReduceMean", "q axes", "v"), ("Add", "v eps", "e"), ("Sqrt", "e", "s"))
EMBEDDED: Specs = {"x": ("fp32", (50, 24)), "ids": ("int64", ("n", "s")), "b": ("fp32", ("s", 24))}
FIT: dict[str, tuple[str, Task]] = {
    "one row": ("softmax", tasks.softmax(1, 1, "fp32")),
    "rows": ("softmax", tasks.softmax("n", 197, "fp32")),
    "long rows": ("softmax", tasks.softmax(2, 20_000, "fp32")),
    "rows of open length": ("softmax", tasks.masked_softmax(2, "r", "w", "fp32")),
    "rows that lie apart": ("softmax", one_node("Softmax", {"x": (3, 21, 77), "y": (3, 21, 77)}, axis=1)),
    "chunks that lie apart": ("softmax", one_node("LogSoftmax", {"x": IMAGE, "y": IMAGE}, axis=2)),
    "old rows": ("softmax", task([node("Softmax", "x")], {"x": F357}, {"y": F357}, opset=11)),
    "layer": ("norm", tasks.layer_norm("n", 33, "fp32")),
    "long layer": ("norm", tasks.layer_norm("n", 20_000, "fp32")),
    "residual": ("norm", tasks.rms_norm("n", 70, "fp32")),
    "instance": ("norm", instance_norm((2, 3, 9, 11))),
    "open instance": ("norm", instance_norm(IMAGE)),
    "spelled": ("norm", spelled_norm(*CENTER, ("Pow", "d two", "q"), *SQUARE, ("Div", "d s", "d_"))),
    "spelled channels": (
        "norm",
        spelled_norm(*CENTER, ("Mul", "d d", "q"), *SQUARE, ("Div", "one s", "i"), ("Mul", "i d", "d_"), axis=-3),
    ),
    "spelled rms": (
        "norm", spelled_norm(("Pow", "x two", "q"), *SQUARE, ("Reciprocal", "s", "i"), ("Mul", "x i", "d_")),
    ),
    "window": ("depthwise", conv(IMAGE, (3, 1, 3, 3), IMAGE, "Relu", pads=[1, 1, 1, 1])),
    "two filters": ("depthwise", conv((2, 3, 7, 9), (6, 1, 5, 3), (2, 6, 7, 9), pads=[2, 1, 2, 1])),
    "dilated": ("depthwise", conv((2, 3, 21, 19), (3, 1, 3, 3), (2, 3, 17, 15), dilations=[2, 2])),
    "same": ("depthwise", conv((2, 3, 8, 9), (3, 1, 3, 3), (2, 3, 4, 5), strides=[2, 2], auto_pad="SAME_UPPER")),
    "one dimension": ("depthwise", conv((2, 3, 50), (3, 1, 31), (2, 3, 50), "HardSwish", pads=[15, 15])),
    "turned": ("copy", tasks.transpose(("n", 40, 24), (0, 2, 1), "fp32")),
    "heads": ("copy", tasks.transpose(("n", 3, "s", 16), (0, 2, 1, 3), "fp16")),
    "all axes": ("copy", tasks.transpose(("n", 3, 4, "r", "s"), (3, 0, 4, 2, 1), "int64")),
    "squeezed": ("copy", tasks.transpose((33, 1, 65), (2, 1, 0), "fp32")),
    "depth": ("copy", one_node("DepthToSpace", {"x": ("n", 12, 5, 7), "y": ("n", 3, 10, 14)}, blocksize=2)),
    "depth first": (
        "copy", one_node("DepthToSpace", {"x": ("n", 12, 5, 7), "y": ("n", 3, 10, 14)}, blocksize=2, mode="CRD"),
    ),
    "space": ("copy", one_node("SpaceToDepth", {"x": (2, 3, 10, 14), "y": (2, 12, 5, 7)}, blocksize=2)),
    "picked": ("copy", tasks.gather(50, 33, "n", "fp32")),
    "picked inside": (
        "copy", task([node("Gather", "x ids", axis=1)], {"x": ("int64", (2, 9, 5)), "ids": ("int32", (2, 4))},
                     {"y": ("int64", (2, 2, 4, 5))}),
    ),
    "picked last": (
        "copy", task([node("Gather", "x ids", axis=-1)], {"x": ("fp16", (2, 5, 9)), "ids": ("int64", (7,))},
                     {"y": ("fp16", (2, 5, 7))}),
    ),
    "embedded": (
        "copy", task([node("Gather", "x ids", "e"), node("Add", "e b")], EMBEDDED, {"y": ("fp32", ("n", "s", 24))}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIT)
def test_kernels_are_right_in_all_tactics(name: str, tmp_path: Path) -> None:
    expected, given = FIT[name]
    form, why = form_of(given)
    assert form is not None, why
    assert form.name == expected
    file, draw = tmp_path / "kernel.py", np.random.default_rng(0)
    file.write_text(form.text(given))
    kernel = read_kernel(file, form.name)
    shapes = given.shapes({"n": 2, "h": 37, "w": 40, "r": 5, "s": 6})
    arrays = [
        (draw.integers(-9, 9, shape) if "int" in one.dtype else draw.standard_normal(shape) + 0.5).astype(
            numpy_dtype(one.dtype)
        )
        for one, shape in zip(given.inputs, shapes, strict=True)
    ]
    wanted = expect(given, shapes, arrays)
    for blocks in kernel.tactics.values():
        launched = launch(kernel, given, shapes, arrays, blocks)
        for one in zip(given.outputs, wanted, launched.outputs, launched.written, strict=True):
            assert compare(*one)[1] == "", blocks


PICKED: Specs = {"x": ("fp32", (9, 5)), "ids": ("int64", (4,))}
REFUSED = {
    "softmax": (tasks.layer_norm(3, 4), "no nodes are Softmax or LogSoftmax"),
    "norm": (spelled_norm(*CENTER, ("Pow", "x two", "q"), *SQUARE, ("Div", "d s", "d_")), "no normalization is in it"),
    "depthwise": (conv((2, 6, 7, 9), (3, 2, 3, 3), (2, 3, 5, 7)), "a filter of the convolution reads 2 channels"),
    "copy": (
        task([node("Relu", "x", "r"), node("Gather", "r ids")], PICKED, {"y": ("fp32", (4, 5))}),
        "Gather fits without the nodes around it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_has_a_reason(name: str) -> None:
    given, reason = REFUSED[name]
    with pytest.raises(NoFitError, match=reason):
        FORMS[name](given)
