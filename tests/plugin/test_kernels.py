"""Kernels of all forms: what they fit and are refused for, their text, and what they compute, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.fakes import kernel_tasks as tasks
from tests.fakes.kernel_tasks import node, task
from trtprof.base.records import Dim
from trtprof.plugin import interpret
from trtprof.plugin.form import read_kernel
from trtprof.plugin.kernels import form_of
from trtprof.plugin.reference import compare, expect
from trtprof.plugin.task import Task, numpy_dtype

UNARY = """Abs Ceil Cos Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu Mish Neg Relu Round Sigmoid
    Sign Sin Softplus Tanh"""


def f(*dims: Dim) -> tuple[str, tuple[Dim, ...]]:
    return "fp32", dims


def matmul(x: tuple[Dim, ...], w: tuple[Dim, ...], y: tuple[Dim, ...], **more: Any) -> Task:
    return tasks.matmul(x, w, y, **more)


def reduced(op_type: str, axes: list[int], y: tuple[Dim, ...], keepdims: int = 1) -> Task:
    body = [node(op_type, "x axes", keepdims=keepdims)]
    return task(body, {"x": f(3, 5, "n", 8)}, {"y": f(*y)}, constants={"axes": np.array(axes, np.int64)}, opset=18)


def unary() -> Task:
    """All ops of one operand, each with an output."""
    return task(
        [node(op, "x", op) for op in UNARY.split()],
        {"x": f("n", 33)},
        {op: f("n", 33) for op in UNARY.split()},
        opset=21,
    )


def binary() -> Task:
    """Ops of several operands, and those of a positive one, with all kinds of broadcasts."""
    body = [
        *(node(op, "x z", op) for op in ("Add", "Sub", "Mul", "Max", "Min", "PRelu", "Sum", "Mean")),
        node("Abs", "x", "a"), node("Add", "a one", "p"), node("Div", "z p", "Div"),
        *(node(op, "p", op) for op in ("Sqrt", "Log", "Reciprocal")),
        *(node("Pow", f"p {name}", f"Pow_{name}") for name in ("two", "half", "minus")),
        node("Greater", "x z", "g"), node("Not", "g", "h"), node("Where", "h x low", "Where"),
        node("Clip", "x low one", "Clip"), node("Clip", "x _ one", "Clip_high"),
        node("BatchNormalization", "x c c c c", "Norm", epsilon=9.0),
    ]  # fmt: skip
    outputs = {one.output[0]: f("n", 5, 7) for one in body if one.output[0][0].isupper()}
    constants = {"one": 1.0, "two": 2.0, "half": 0.5, "minus": -1.0, "low": -0.25}
    arrays = {name: np.array(value, np.float32) for name, value in constants.items()}
    return task(body, {"x": f("n", 5, 7), "z": f(5, 1), "c": f(5)}, outputs, constants=arrays, opset=21)


def integers() -> Task:
    body = [
        node("Cast", "a", "j", to=7), node("Add", "j k", "Added"), node("Equal", "a three", "e"),
        node("Cast", "e", "Cast", to=1), node("Where", "e x zero", "Where"), node("Cast", "x", "Cut", to=6),
        node("Or", "e b", "Or"), node("IsNaN", "x", "Nan"),
    ]  # fmt: skip
    inputs = {"x": f("n", 40), "a": ("int32", ("n", 40)), "k": ("int64", (40,)), "b": ("bool", (40,))}
    kinds = {"Added": "int64", "Cast": "fp32", "Where": "fp32", "Cut": "int32", "Or": "bool", "Nan": "bool"}
    outputs = {name: (kind, ("n", 40)) for name, kind in kinds.items()}
    return task(body, inputs, outputs, constants={"three": np.int32(3), "zero": np.float32(-1)}, opset=21)


def gemm() -> Task:
    """What a Gemm can have: a turned side, factors, a bias that is a column."""
    inputs = {"x": f(40, 50), "w": f(40, 5), "c": f(50, 1)}
    return task([node("Gemm", "x w c", transA=1, alpha=0.5, beta=2.0)], inputs, {"y": f(50, 5)})


def surrounded() -> Task:
    """A product with ops on both sides and after it, whose values beyond the end of a row are not 0."""
    body = [
        node("Sigmoid", "x", "s"), node("Mul", "s g", "h"), node("Exp", "w", "e"), node("MatMul", "h e", "p"),
        node("Add", "p b", "q"), node("Gelu", "q"),
    ]  # fmt: skip
    inputs = {"x": f(2, 5, 37), "g": f(2, 5, 1), "w": f(37, 70), "b": f(70)}
    return task(body, inputs, {"y": f(2, 5, 70)}, main="MatMul", opset=21)


class Row(NamedTuple):
    form: str
    task: Task


ROWS: Mapping[str, Row] = {
    "story": Row("gemv", tasks.batched_gemv("n", "m", 3, 33)),
    "few columns": Row("gemv", matmul((2, 3, 50, 40), (3, 40, 4), (2, 3, 50, 4))),
    "few rows": Row("gemv", matmul((2, 3, 4, 40), (2, 1, 40, 50), (2, 3, 4, 50))),
    "few rows turned": Row("gemv", matmul((2, 3, 4, 40), (2, 1, 40, 50), (2, 3, 4, 50), turned=True)),
    "rows of a batch": Row("gemv", matmul((2, 3, 1, 40), (40, 50), (2, 3, 1, 50))),
    "int8": Row("gemv", matmul((3, 40), (40, 50), (3, 50), stored="int8")),
    "int8 turned": Row("gemv", matmul((1, 40), (40, 50), (1, 50), stored="int8", turned=True)),
    "a vector": Row("gemv", task([node("MatMul", "x w")], {"x": f(40), "w": f("n", 40, 6)}, {"y": f("n", 6)})),
    "a number": Row("gemv", task([node("MatMul", "x w")], {"x": f(40), "w": f(40)}, {"y": f()})),
    "gemm": Row("gemv", gemm()),
    "surrounded": Row("gemv", surrounded()),
    "last axes": Row("reduce", reduced("ReduceMean", [2, -1], (3, 5), 0)),
    "axes apart": Row("reduce", reduced("ReduceL2", [0, 2], (1, 5, 1, 8))),
    "a middle axis": Row("reduce", reduced("ReduceMin", [1], (3, "n", 8), 0)),
    "all axes": Row("reduce", task([node("ReduceSumSquare", "x")], {"x": f(9, 300)}, {"y": f(1, 1)}, opset=18)),
    "unary": Row("pointwise", unary()),
    "binary": Row("pointwise", binary()),
    "integers": Row("pointwise", integers()),
}
REFUSED: Mapping[str, tuple[Task, str, str]] = {
    "both sides thick": (matmul((20, 40), (40, 50), (20, 50)), "gemv", "16 rows or columns"),
    "open rows": (matmul(("n", 1, 40), (40, 50), ("n", 1, 50)), "gemv", "16 rows or columns"),
    "a square": (task([node("MatMul", "x x")], {"x": f(4, 4)}, {"y": f(4, 4)}), "gemv", "the same operand"),
    "one long row": (tasks.reduction("ReduceSum", (2, 200_000), -1), "reduce", "too few SMs"),
    "bytes": (task([node("Add", "x x")], {"x": ("int8", (9,))}, {"y": ("int8", (9,))}), "pointwise", "Add of int8"),
    "dims": (task([node("Add", "x z")], {"x": f("n"), "z": f("k")}, {"y": f("n")}), "pointwise", "may be broadcast"),
    "outputs": (
        task([node("Exp", "x", "s"), node("Add", "s z")], {"x": f(4), "z": f(3, 4)}, {"y": f(3, 4), "s": f(4)}),
        "pointwise", "output s has other elements",
    ),
    "read twice": (
        task([node("Exp", "x", "e"), node("ReduceMax", "e", "m"), node("Sub", "e m")], {"x": f(4, 8)}, {"y": f(4, 8)},
             main="ReduceMax"),
        "reduce", "e is read before ReduceMax and after it",
    ),
    "an exponent": (task([node("Pow", "x x")], {"x": f(4)}, {"y": f(4)}), "pointwise", "Pow with an exponent"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_kernels_are_right(name: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    form, why = form_of(ROWS[name].task)
    assert form is not None, why
    assert form.name == ROWS[name].form
    assert len(form.body.splitlines()) <= 80 or name in ("unary", "binary")
    given = ROWS[name].task
    (tmp_path / "kernel.py").write_text(form.text(given))
    kernel = read_kernel(tmp_path / "kernel.py", form.name)
    shapes = given.shapes({"n": 11, "m": 7})
    draw = np.random.default_rng(0)
    arrays = [
        draw.standard_normal(shape) if one.dtype.startswith("fp") else draw.integers(0, 5, shape)
        for one, shape in zip(given.inputs, shapes, strict=True)
    ]  # fmt: skip
    arrays = [array.astype(numpy_dtype(one.dtype)) for array, one in zip(arrays, given.inputs, strict=True)]
    expected = expect(given, shapes, arrays)
    for number, blocks in kernel.tactics.items():
        if number in (1, len(kernel.tactics)):
            launched = interpret.launch(kernel, given, shapes, arrays, blocks, shift=16)
            for place, one in enumerate(given.outputs):
                worst, wrong = compare(one, expected[place], launched.outputs[place], launched.written[place])
                assert (worst <= 1, wrong) == (True, ""), f"{one.name}, tactic {number}"


def test_what_is_refused_has_its_reason() -> None:
    assert [
        name for name, (refused, form, why) in REFUSED.items() if why not in form_of(refused)[1].get(form, "")
    ] == []


def test_the_story_is_a_kernel_of_few_lines_with_four_tactics() -> None:
    form, _ = form_of(tasks.batched_gemv())
    assert form is not None
    lines = form.body.splitlines()
    assert (len(lines), len(form.tactics)) == (15, 4)
    assert "        v_w = tl.load(w + r // 1600 * 512 + r % 8 * 64 + k, mask=inside, other=0).to(tl.float32)" in lines


def test_offsets_have_64_bits_where_32_are_too_few() -> None:
    small, large, unknown = (form_of(tasks.batched_gemv(*sizes))[0] for sizes in ((600,), (60_000,), ("n",)))
    assert [form is not None and "int64" in form.body for form in (small, large, unknown)] == [False, True, True]
