"""Formulas say what nodes compute: each is evaluated element by element, and held against ONNX's own reference."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx.reference
import pytest

from tests.fakes.support import SAMPLES
from trtprof.base.records import Op, Tensor
from trtprof.plugin.formulas import formulas
from trtprof.source.request import ModelRequest

Array = npt.NDArray[Any]


class Image(dict[tuple[int, ...], float]):
    """A tensor that is 0 outside."""

    def __init__(self, values: Array) -> None:
        super().__init__({at: float(values[at]) for at in np.ndindex(values.shape)})

    def __getitem__(self, at: Any) -> float:
        return self.get(at if isinstance(at, tuple) else (at,), 0.0)


def evaluated(formula: str, tensors: Mapping[str, Array], over: Mapping[str, int], shape: tuple[int, ...]) -> Array:
    """A formula with indices, element by element."""
    left, right = formula.split(" = ", 1)
    letters = re.fullmatch(r"\w+\[(.*)\]", left)
    assert letters, formula
    indices = letters[1].split(",")
    found = re.match(r"(.*?)\b(sum|mean|max|min|product)_(?:\{([\w,]+)\}|(\w)) (.*?)( \+ .*)?$", right)
    scope = {
        **{name: Image(np.asarray(values)) for name, values in tensors.items()},
        "exp": math.exp, "abs": abs, "max": max, "min": min,
    }  # fmt: skip
    result = np.empty(shape)
    for at in np.ndindex(shape):
        own = {index: place for index, place in zip(indices, at, strict=True) if not index.isdigit()}

        def value(text: str, extra: Mapping[str, int] = {}, own: Mapping[str, int] = own) -> float:
            return float(eval(text.replace("^", "**"), {"__builtins__": {}}, {**scope, **own, **extra}))  # noqa: S307

        if found is None:
            result[at] = value(right)
            continue
        before, word, several, alone, term, behind = found.groups()
        names = (several or alone).split(",")
        terms = [
            value(term, dict(zip(names, places, strict=True)))
            for places in itertools.product(*(range(over[name]) for name in names))
        ]
        inner = {"sum": sum(terms), "mean": sum(terms) / len(terms), "max": max(terms), "min": min(terms),
                 "product": math.prod(terms)}[word]  # fmt: skip
        result[at] = value(f"{before} {inner!r} {behind or ''}".strip())
    return result


CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, int], str]] = {
    "a batched product": ("y = MatMul (a, b)", {"a": (3, 2, 4, 5), "b": (2, 5, 3)}, {"k": 5},
                          "y[i,j,l,m] = sum_k a[i,j,l,k] * b[j,k,m]"),
    "a batch on the right alone": (
        "y = MatMul (a, b)", {"a": (2, 4, 5), "b": (3, 2, 5, 6)}, {"k": 5},
        "y[i,j,l,m] = sum_k a[j,l,k] * b[i,j,k,m]"),
    "a vector on the left": (
        "y = MatMul (a, b)", {"a": (5,), "b": (2, 5, 3)}, {"k": 5}, "y[i,j] = sum_k a[k] * b[i,k,j]"),
    "a vector on the right": ("y = MatMul (a, b)", {"a": (2, 4, 5), "b": (5,)}, {"k": 5}, ""),
    "nothing to sum over": ("y = MatMul (a, b)", {"a": (4, 1), "b": (1, 3)}, {}, "y[i,j] = a[i,0] * b[0,j]"),
    "a Gemm with all that it may have": (
        "y = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (a, b, c)",
        {"a": (5, 4), "b": (3, 5), "c": (3,)}, {"k": 5}, "y[i,j] = 0.5 * sum_k a[k,i] * b[j,k] + 2 * c[j]"),
    "a convolution": (
        "y = Conv <strides = [2, 1], pads = [1, 0, 1, 2], dilations = [1, 2]> (a, b, c)",
        {"a": (2, 3, 5, 6), "b": (4, 3, 3, 2), "c": (4,)}, {"c": 3, "u": 3, "v": 2}, ""),
    "a convolution by groups": (
        "y = Conv <group = 2> (a, b)", {"a": (1, 6, 4, 4), "b": (4, 3, 2, 2)}, {"c": 3, "u": 2, "v": 2}, ""),
    "a depthwise convolution": (
        "y = Conv <group = 3, pads = [1, 1]> (a, b)", {"a": (1, 3, 6), "b": (3, 1, 3)}, {"u": 3},
        "y[0,j,l] = sum_u a[0,j,l+u-1] * b[j,0,u]"),
    "two filters a channel": (
        "y = Conv <group = 3> (a, b)", {"a": (2, 3, 6), "b": (6, 1, 3)}, {"u": 3}, ""),
    "a sum that keeps its axis": ("y = ReduceSum (a, axes)", {"a": (3, 4, 5)}, {"k": 4}, "y[i,0,j] = sum_k a[i,k,j]"),
    "a mean that drops it": (
        "y = ReduceMean <keepdims = 0> (a, axes)", {"a": (3, 4, 5)}, {"k": 4}, "y[i,j] = mean_k a[i,k,j]"),
    "the largest of all": ("y = ReduceMax <keepdims = 1> (a)", {"a": (3, 4)}, {"k": 3, "u": 4}, ""),
    "a sum of squares": ("y = ReduceSumSquare (a, axes)", {"a": (3, 4, 5)}, {"k": 4}, ""),
    "a transpose": ("y = Transpose <perm = [2, 0, 1]> (a)", {"a": (3, 4, 5)}, {}, "y[i,j,l] = a[j,l,i]"),
    "a gather": ("y = Gather <axis = 1> (a, at)", {"a": (3, 4, 5)}, {}, "y[i,j,l,m] = a[i,at[j,l],m]"),
    "a broadcast": ("y = Add (a, b)", {"a": (2, 3, 4), "b": (3, 1)}, {}, "y[i,j,l] = a[i,j,l] + b[j,0]"),
    "a product by Einsum": (
        'y = Einsum <equation = "ij,lj->li"> (a, b)', {"a": (3, 4), "b": (5, 4)}, {"j": 4},
        "y[l,i] = sum_j a[i,j] * b[l,j]"),
}  # fmt: skip
INDICES = {"axes": np.array([1]), "at": np.array([[0, 2], [3, 1]])}


def test_a_formula_gives_what_the_node_does(subtests: pytest.Subtests) -> None:
    for name, (node, shapes, over, text) in CASES.items():
        with subtests.test(name):
            made, result, op, inputs = op_of(node, shapes)
            (formula,) = formulas([op], {name: name for name in (*inputs, *made, "y")})
            assert formula == text or not text
            assert np.allclose(evaluated(formula, {**inputs, **made}, over, result.shape), result, atol=1e-5)


def op_of(node: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, Array], Array, Op, dict[str, Array]]:
    """A node as an op, and what ONNX's reference makes of numbers that are drawn."""
    drawn = np.random.default_rng(3)
    inputs: dict[str, Array] = {name: drawn.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    proto = onnx.parser.parse_node(node)
    constants = {name: INDICES[name] for name in proto.input if name in INDICES}
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for name, a in (inputs | constants).items()}
    graph = onnx.helper.make_graph(
        [proto], "one",
        [onnx.helper.make_tensor_value_info(name, types[name], a.shape) for name, a in (inputs | constants).items()],
        [onnx.helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    (result,) = map(np.asarray, onnx.reference.ReferenceEvaluator(model).run(None, inputs | constants))
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in proto.attribute}
    op = Op(
        op_type=proto.op_type,
        opset=18,
        attributes={
            key: tuple(value) if isinstance(value, list) else value.decode() if isinstance(value, bytes) else value
            for key, value in attributes.items()
        },
        inputs=tuple(
            Tensor(
                name=name, dtype="fp32", shape=(inputs | constants)[name].shape,
                value=tuple(INDICES["axes"].tolist()) if name == "axes" else None,
            )
            for name in proto.input
        ),
        outputs=(Tensor(name="y", dtype="fp32", shape=result.shape),),
    )  # fmt: skip
    return constants, result, op, inputs


def test_the_story() -> None:
    assert lines_of("gemv.onnx") == ("y[i,j,l,0,0] = sum_k a[i,j,l,0,k] * b[i,0,l,k,0]",)


def test_a_line_a_node_and_tensors_between_them_have_numbers() -> None:
    lines = lines_of("transformer_block.onnx")
    assert any(re.fullmatch(r"t\d+ = softmax\(t\d+\) over axis 3", line) for line in lines)
    made = [line.split(" = ")[0].partition("[")[0] for line in lines]
    assert len(set(made)) == len(made)


def lines_of(name: str) -> tuple[str, ...]:
    request = ModelRequest.of(SAMPLES / name)
    with request.opened() as loaded:
        source = request.bound(loaded)
    names = {one.name: one.name for one in source.model.inputs} | {one.name: one.name for one in source.model.outputs}
    found = formulas([node.op for node in source.nodes], names)
    assert len(found) == len(source.nodes)
    return found


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name=name, dtype="fp32", shape=shape)


X, Y = tensor("x", 2, 3), tensor("y", 2, 3)
