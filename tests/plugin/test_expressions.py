from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import NodeProto, TensorProto

from tests.fakes.executing import execute, kernels, worst
from tests.fakes.kernel_tasks import node, task
from trtprof.base.op_kinds import POINTWISE
from trtprof.plugin import expressions
from trtprof.plugin.expressions import broadcast, literal
from trtprof.plugin.kernel import NotFitError

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, 1e-40, -1e-40, 1e38, -1e38,
    88.7, -103.9, 20.5, -20.5, 5.0, -5.0, 10.0, -10.0, 0.1, -7.25, 1e-5, -1e-5, 65519.0, 65520.0, 3e-8,
]  # fmt: skip
COUNT = 101
UNARY = """Sqrt Exp Log Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Ceil Floor Round Reciprocal
    Sigmoid Softplus Softsign Mish HardSwish Abs Neg Sign Relu LeakyRelu ThresholdedRelu Elu Selu HardSigmoid Shrink
    Gelu Identity"""
BINARY = "Add Sub Mul Div Pow Min Max Sum Mean PRelu"
COMPARE = "Equal Greater GreaterOrEqual Less LessOrEqual"
NUMBERS = {"fp32": 1, "fp16": 10, "bf16": 16, "int8": 3, "uint8": 2, "int32": 6, "int64": 7, "bool": 9}


def reals(seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    found = np.concatenate([SPECIAL, 3 * rng.standard_normal(COUNT)])[:COUNT].astype(np.float32)
    return rng.permutation(found) if seed else found


def off(
    nodes: Sequence[NodeProto], dtype: str, outputs: Mapping[str, str], arrays: Sequence[Any], **more: Any
) -> float:
    """The worst error of one kernel that has all these nodes."""
    inputs = {name: (dtype, ["N"]) for name in ("x", "z")[: len(arrays)]}
    of = task(nodes, inputs, {name: (kind, ["N"]) for name, kind in outputs.items()}, constants=more)
    return worst(kernels("pointwise", of)[0], of, arrays=arrays)


def test_functions_of_one_number_for_nan_infinities_and_negative_zero() -> None:
    nodes = [node(op, "x", f"y{place}") for place, op in enumerate(UNARY.split())]
    nodes += [
        node("Gelu", "x", "tanh", approximate="tanh"), node("IsNaN", "x", "nan"), node("IsInf", "x", "inf"),
        node("IsInf", "x", "below", detect_positive=0), node("Clip", "x lo hi", "within"),
        node("Clip", "x hi lo", "crossed"), node("Clip", "x _ hi", "above"), node("Pow", "x two", "squared"),
        node("Pow", "x three", "cube"), node("Pow", "x less", "inverse"),
    ]  # fmt: skip
    outputs = dict.fromkeys([str(one.output[0]) for one in nodes], "fp32") | dict.fromkeys(
        ["nan", "inf", "below"], "bool"
    )
    constants = {"lo": -1, "hi": 1, "two": 2, "three": 3, "less": -1}
    constants_32 = {name: np.float32(value) for name, value in constants.items()}
    assert off(nodes, "fp32", outputs, [reals()], **constants_32) <= 2.0


def test_functions_of_two_numbers() -> None:
    nodes = [node(op, "x z", f"y{place}") for place, op in enumerate(f"{BINARY} {COMPARE}".split())]
    nodes.append(node("Mod", "x z", "modulo", fmod=1))
    outputs = {f"y{place}": "fp32" if place < len(BINARY.split()) else "bool" for place in range(len(nodes) - 1)}
    assert off(nodes, "fp32", {**outputs, "modulo": "fp32"}, [reals(), reals(1)]) <= 2.0


def test_celu_is_what_its_formula_says() -> None:
    of = task([node("Celu", "x", "y", alpha=0.75)], {"x": ("fp32", [COUNT])}, {"y": ("fp32", [COUNT])})
    x = reals()
    (got,) = execute(kernels("pointwise", of)[0], of, [x]).outputs
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.maximum(wide, 0) + np.minimum(0, 0.75 * np.expm1(wide / 0.75))
    np.testing.assert_allclose(got, expected, rtol=4e-7, atol=1e-45)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_wrap_and_truncate(dtype: str) -> None:
    ops = ["Add", "Sub", "Mul", "Min", "Max", "BitwiseAnd", "BitwiseOr", "BitwiseXor"]
    one = ["Abs", "Sign", "BitwiseNot"] + (["Neg", "Relu"] if dtype.startswith("int") else [])
    nodes = [node(op, "x z", op) for op in [*ops, "Equal", "Less", "Div", "Mod"]]
    nodes += [node(op, "x", op) for op in one] + [node("Mod", "x z", "fmod", fmod=1)]
    rng, kind = np.random.default_rng(0), np.dtype(dtype)
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, COUNT, kind)
    z = rng.integers(1, 9, COUNT, kind) * (rng.choice([-1, 1], COUNT).astype(kind) if limits.min < 0 else 1)
    outputs = dict.fromkeys([str(one.output[0]) for one in nodes], dtype) | dict.fromkeys(["Equal", "Less"], "bool")
    with np.errstate(all="ignore"):
        assert off(nodes, dtype, outputs, [x, z.astype(kind)]) == 0.0


def test_logic() -> None:
    rng = np.random.default_rng(0)
    nodes = [node(op, "x z", op) for op in ("And", "Or", "Xor", "Equal")] + [node("Not", "x", "Not")]
    outputs = dict.fromkeys([str(one.output[0]) for one in nodes], "bool")
    assert off(nodes, "bool", outputs, [rng.random(COUNT) < 0.5, rng.random(COUNT) < 0.5]) == 0.0


@pytest.mark.parametrize("source", ["fp32", "fp16", "bf16", "int32", "bool"])
def test_casts(source: str) -> None:
    targets = [one for one in NUMBERS if one != source]
    nodes = [node("Cast", "x", f"y{place}", to=NUMBERS[one]) for place, one in enumerate(targets)]
    kinds = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int32": np.int32, "bool": np.bool_}
    rng = np.random.default_rng(0)
    x = (100 * rng.uniform(0, 1, COUNT)).astype(kinds.get(source, np.float32))
    assert off(nodes, source, {f"y{place}": one for place, one in enumerate(targets)}, [x]) <= 1.0


def test_the_model_own_casts_round() -> None:
    nodes = [
        node("Cast", "x", "h", to=10), node("Cast", "h", "y", to=1),
        node("Cast", "x", "b", to=16), node("Cast", "b", "z", to=1),
    ]  # fmt: skip
    of = task(nodes, {"x": ("fp32", ["N"])}, {"y": ("fp32", ["N"]), "z": ("fp32", ["N"])})
    x = reals()
    for architecture in ("sm_75", "sm_89"):
        half, brief = execute(kernels("pointwise", of)[0], of, [x], architecture=architecture).outputs
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(half, x.astype(np.float16).astype(np.float32))
        np.testing.assert_array_equal(brief, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_what_is_not_written_is_named() -> None:
    assert not expressions.known_ops() - POINTWISE - {"Cast", "CastLike", "Identity", "Dropout"}
    left = {
        op for op in POINTWISE - expressions.known_ops() if op not in {"BiasAdd", "BiasGelu", "FastGelu", "QuickGelu"}
    }
    assert left == set()  # those four are ops of ONNX Runtime
    for nodes, why in (
        ([node("Mod", "x x", "y")], "Mod of floating point without fmod"),
        ([node("BitwiseNot", "x", "y")], "BitwiseNot of fp32"),
        ([node("Cast", "x", "y", to=TensorProto.DOUBLE)], "Cast from fp32 to fp64"),
    ):
        with pytest.raises(NotFitError, match=why):
            kernels("pointwise", task(nodes, {"x": ("fp32", [4])}, {"y": ("fp32", [4])}))


def test_literals_read_back_as_the_same_number() -> None:
    assert literal(0.1, "fp32") == "0.1f"
    assert literal(1, "fp16") == "1.0f"
    assert literal(-np.inf, "fp32") == "-__int_as_float(0x7f800000)"
    assert literal(-(2**63), "int64") == "(-9223372036854775807LL - 1)"


def test_broadcast_of_named_dims() -> None:
    assert broadcast([("N", 1, 4), (3, 1), ()]) == ("N", 3, 4)
    with pytest.raises(NotFitError, match="M beside N"):
        broadcast([("N",), ("M",)])
