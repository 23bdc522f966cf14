"""Values in float64 and the rounding floor."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from onnx.reference import ReferenceEvaluator

from tests.fakes import kernel_tasks
from tests.fakes.kernel_tasks import node, one_node
from trtprof.base.errors import UsageError
from trtprof.base.records import Dim
from trtprof.plugin.reference import difference, evaluate, half_ulp

Array = npt.NDArray[Any]
RNG = np.random.default_rng(5)


def worst(task: Any, inputs: list[Array], got: Array) -> float:
    (expected,) = evaluate(task, inputs)
    assert expected.value.shape == got.shape
    return difference(expected, got).worst


@pytest.mark.parametrize(("dtype", "kind"), [("fp32", np.float32), ("fp16", np.float16)])
def test_half_a_unit_is_half_the_spacing(dtype: str, kind: Any) -> None:
    values = np.array([0.0, 1.0, 1.5, 1.999, 2.0, 3e-7, 6e-5, 6.2e-5, 1000.0, 40000.0], kind)
    assert half_ulp(values, dtype).tolist() == (np.spacing(values).astype(np.float64) / 2).tolist()


MATMUL: dict[str, tuple[Dim, ...]] = {"a": ("m", 512), "b": (512, 8), "y": ("m", 8)}


def test_an_exactly_rounded_result_is_a_floor_off_at_most() -> None:
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((16, 512), (512, 8)))
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    assert 0.5 < worst(one_node("MatMul", MATMUL, "fp16"), [a, b], exact) <= 1.0


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_accumulation_in_fp32_is_near_the_floor_and_in_fp16_far_from_it(dtype: str) -> None:
    kind = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    a, b = (RNG.standard_normal(shape).astype(kind) for shape in ((16, 512), (512, 8)))
    task = one_node("MatMul", MATMUL, dtype)
    sums: dict[Any, Array] = {}
    for accumulator in (np.float32, np.float16):
        total = np.zeros((16, 8), accumulator)
        for k in range(512):
            product = a[:, k : k + 1].astype(np.float32) * b[k].astype(np.float32)
            total = (total + product.astype(accumulator)).astype(accumulator)
        sums[accumulator] = total.astype(kind)
    assert worst(task, [a, b], sums[np.float32]) <= 1.0
    assert worst(task, [a, b], sums[np.float16]) > (4.0 if dtype != "bf16" else 1.0)


def test_what_cancels_is_judged_by_what_went_in() -> None:
    a = np.array([[1e4, -1e4, 1.0]], np.float32)
    b = np.array([[1.0001], [1.0], [0.1]], np.float32)
    task = one_node("MatMul", {"a": (1, 3), "b": (3, 1), "y": (1, 1)})
    (expected,) = evaluate(task, [a, b])
    assert expected.value[0, 0] == pytest.approx(1.1, abs=1e-3)
    assert 1e-3 < expected.floor[0, 0] < 1e-2
    assert difference(expected, a @ b).worst < 1.0


def layer_norm(x: Array, *, by_squares: bool = False) -> Array:
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    variance = (
        (x * x).mean(-1, keepdims=True) - mean * mean if by_squares else (centred * centred).mean(-1, keepdims=True)
    )
    deviation: Array = np.sqrt(variance + np.float32(1e-5))
    return np.asarray(centred / deviation)


def test_the_variance_is_not_to_be_a_difference_of_large_numbers() -> None:
    x = (RNG.standard_normal((8, 256)) + 1000).astype(np.float32)
    ones = np.ones(256, np.float32)
    task = one_node("LayerNormalization", {"x": (8, 256), "w": (256,), "y": (8, 256)})
    assert worst(task, [x, ones], layer_norm(x)) < 1.0
    assert worst(task, [x, ones], layer_norm(x, by_squares=True)) > 4.0


def test_a_softmax_without_the_maximum_is_told() -> None:
    x = (20 * RNG.standard_normal((4, 64)) + 80).astype(np.float32)
    task = one_node("Softmax", {"x": (4, 64), "y": (4, 64)})
    with np.errstate(over="ignore", invalid="ignore"):
        naive = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    shifted = np.exp(x - x.max(-1, keepdims=True))
    assert worst(task, [x], shifted / shifted.sum(-1, keepdims=True)) < 2.0
    assert worst(task, [x], naive) == np.inf


UNARY = (
    "Abs", "Neg", "Relu", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Sin",
    "Cos", "Tanh", "Sigmoid", "HardSigmoid", "Softsign", "Softplus", "Elu", "Selu", "Celu", "LeakyRelu",
    "ThresholdedRelu", "HardSwish", "Mish", "Swish", "Gelu", "Shrink", "LogSoftmax", "Softmax", "Atan",
    "Sinh", "Asinh", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceLogSumExp",
    "ReduceSumSquare", "ReduceProd", "Identity", "Not",
)  # fmt: skip


def test_fp32_as_onnx_computes_it_is_near_the_floor(subtests: pytest.Subtests) -> None:
    for op_type in UNARY:
        with subtests.test(op_type):
            reduced = op_type.startswith("Reduce")
            kind = "bool" if op_type == "Not" else "fp32"
            task = one_node(op_type, {"x": (6, 33), "y": (6, 33)}, kind)
            if reduced:
                task = kernel_tasks.reduction(op_type, (6, 33), -1, kind)
            x: Array = RNG.standard_normal((6, 33)).astype(np.float32)
            x = np.abs(x) if op_type in {"Sqrt", "Log"} else x > 0 if op_type == "Not" else x
            (expected,) = evaluate(task, [x])
            got = fp32(task, x)
            found = difference(expected, got)
            assert found.compared == got.size
            assert found.worst < 3.0
            if kind == "fp32" and op_type not in {"Sign", "Round"}:
                assert difference(expected, got * np.float32(1.00002)).worst > 4.0, (
                    "no floor is so wide that it hides 1e-5"
                )


def fp32(task: Any, x: Array) -> Array:
    """What ONNX's reference makes of fp32; of what it has only as a function, by hand."""
    if task.main == "Gelu":
        from math import erf

        return np.asarray(np.float32(0.5) * x * (1 + np.vectorize(erf)(x / np.sqrt(np.float32(2)))), np.float32)
    if task.main in {"Swish"}:
        return np.asarray(x / (1 + np.exp(-x)), np.float32)
    (found,) = ReferenceEvaluator(task.body).run(None, {"x": x}, attributes={})
    return np.asarray(found)


def test_an_overflow_on_the_way_is_not_judged_and_one_at_the_end_is() -> None:
    x = np.array([1e30, 1.0], np.float32)
    squares = kernel_tasks.task(
        [node("Mul", "x x", "s"), node("Div", "s x")], {"x": ("fp32", [2])}, {"y": ("fp32", [2])}
    )
    (expected,) = evaluate(squares, [x])
    assert expected.floor[0] == np.inf
    assert difference(expected, np.array([np.inf, 1.0], np.float32)).compared == 1
    product = one_node("Mul", {"a": (2,), "b": (2,), "y": (2,)})
    assert worst(product, [x, x], np.array([np.inf, 1.0], np.float32)) == 0.0
    assert worst(product, [x, x], np.array([3e38, 1.0], np.float32)) == np.inf


def test_nan_and_infinity_are_to_be_where_the_formula_has_them() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    task = one_node("Exp", {"x": (4,), "y": (4,)})
    assert worst(task, [x], np.exp(x)) < 1.0
    for place, wrong in ((0, 1.0), (1, np.nan), (2, -np.inf), (3, np.nan)):
        got = np.exp(x)
        got[place] = wrong
        assert worst(task, [x], got) == np.inf


def test_what_has_no_definition_is_said() -> None:
    task = one_node("Add", {"a": (2,), "b": (2,), "y": (2,)})
    task.body.node[0].domain = "com.microsoft"
    with pytest.raises(UsageError, match="no reference is known for Add"):
        evaluate(task, [np.zeros(2, np.float32)] * 2)
