"""What an op computes with: the wider of two operands, and the integers of a QDQ model."""

from __future__ import annotations

import msgspec
import pytest

from trtprof.base.records import Attribute, Node, Op, Tensor
from trtprof.cost.precision import compute_dtype, compute_dtypes, product_dtype


def op_of(kind: str, *dtypes: str | None, **attributes: Attribute) -> Op:
    tensors = [
        None if dtype is None else Tensor(name=f"i{i}", dtype=dtype, shape=(2,)) for i, dtype in enumerate(dtypes)
    ]
    made = Tensor(name="y", dtype="fp32", shape=(2,))
    return Op(op_type=kind, inputs=tuple(tensors), outputs=(made,), attributes=attributes)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (op_of("MatMul", "fp32", "fp32"), "fp32"),
        (op_of("MatMul", "fp64", "fp64"), "fp64"),
        (op_of("Conv", "fp16", "fp16", "fp32"), "fp16"),
        (op_of("Where", "bool", "bf16", "bf16"), "bf16"),
        (op_of("MatMulInteger", "uint8", "int8"), "int8"),
        (op_of("QLinearConv", "uint8", "fp32", "uint8", "int8", "fp32", "int8", "fp32", "uint8"), "int8"),
        # Weights alone are quantised: the product is one of what they are unpacked to.
        (op_of("MatMulNBits", "fp16", "uint8", "fp16", "uint8"), "fp16"),
        (op_of("MatMulNBits", "fp32", "uint8", "fp32", "uint8", accuracy_level=4), "int8"),
        # Dynamic quantisation: fp32 activations, int8 weights; the product is one of integers.
        (op_of("DynamicQuantizeMatMul", "fp32", "int8", "fp32", "int8"), "int8"),
        (op_of("GemmFloat8", "fp8e4m3fn", "fp8e5m2", "fp16"), "fp8e4m3fn"),
        (op_of("Attention", "bf16", "bf16", "fp32"), "bf16"),
        # These convert, move or compute in floating point.
        (op_of("QuantizeLinear", "fp32", "fp32", "uint8"), "fp32"),
        (op_of("DequantizeLinear", "int8", "fp32", "int8"), "fp32"),
        (op_of("Cast", "uint8"), "uint8"),
        (op_of("Add", "int64", "int64"), "int64"),
        (op_of("Clip", "fp32", None, "fp32"), "fp32"),
        (op_of("Resize", None, "fp32"), "fp32"),
        (op_of("RandomNormal"), "fp32"),
        (op_of("Mul", "unknown", "fp16"), "fp16"),
        (msgspec.structs.replace(op_of("LinearRegressor", "int64"), domain="ai.onnx.ml"), "fp32"),
    ],
)
def test_the_dtype_whose_peak_binds(op: Op, dtype: str) -> None:
    assert compute_dtype(op) == dtype


@pytest.mark.parametrize(
    ("operands", "dtype"),
    [
        (("int8", "uint8"), "int8"), (("int4", "int8"), "int8"), (("uint4", "uint4"), "int8"),
        (("fp8e4m3fn", "fp8e5m2"), "fp8e4m3fn"), (("fp4e2m1", "fp8e4m3fn"), "fp8e4m3fn"),
        (("fp16", "int4"), "fp16"), (("int16", "int16"), "int16"), ((), "unknown"),
    ],
)  # fmt: skip
def test_operands_of_two_dtypes_are_multiplied_as_the_wider(operands: tuple[str, ...], dtype: str) -> None:
    assert product_dtype(operands) == dtype


def node(kind: str, inputs: list[tuple[str, str]], output: str, dtype: str = "fp32", graph: str = "") -> Node:
    tensors = tuple(Tensor(name=name, dtype=held, shape=(4, 4)) for name, held in inputs)
    op = Op(op_type=kind, inputs=tensors, outputs=(Tensor(name=output, dtype=dtype, shape=(4, 4)),))
    return Node(name=f"{graph}{kind}:{output}", original_name="", graph=graph, op=op)


def dequantized(name: str, dtype: str, graph: str = "") -> Node:
    return node("DequantizeLinear", [(f"{name}_q", dtype), ("scale", "fp32")], name, graph=graph)


FLOAT = "fp32"


@pytest.mark.parametrize(("x", "w", "dtype"), [("int8", "int8", "int8"), ("uint8", "int4", "int8"),
                                               ("fp8e4m3fn", "fp8e4m3fn", "fp8e4m3fn")])  # fmt: skip
def test_a_product_behind_dequantizelinear_multiplies_what_was_stored(x: str, w: str, dtype: str) -> None:
    product = node("MatMul", [("x", FLOAT), ("w", FLOAT)], "y")
    assert compute_dtypes([dequantized("x", x), dequantized("w", w), product]) == {product.name: dtype}


def test_moves_between_keep_what_was_stored_and_arithmetic_does_not() -> None:
    turned = node("Transpose", [("w", FLOAT)], "wt")
    product = node("Gemm", [("x", FLOAT), ("wt", FLOAT), ("c", FLOAT)], "y")
    assert compute_dtypes([dequantized("x", "int8"), dequantized("w", "int8"), turned, product]) == {
        product.name: "int8"
    }
    scaled = node("Mul", [("w", FLOAT), ("s", FLOAT)], "wt")
    assert compute_dtypes([dequantized("x", "int8"), dequantized("w", "int8"), scaled, product]) == {}


def test_weights_alone_quantised_leave_the_product_in_floating_point() -> None:
    assert compute_dtypes([dequantized("w", "int4"), node("MatMul", [("x", FLOAT), ("w", FLOAT)], "y")]) == {}


def test_names_of_one_graph_say_nothing_of_another() -> None:
    inner = node("MatMul", [("x", FLOAT), ("w", FLOAT)], "y", graph="If_0/then_branch")
    assert compute_dtypes([dequantized("x", "int8"), dequantized("w", "int8"), inner]) == {}
    own = [dequantized(name, "int8", graph="If_0/then_branch") for name in ("x", "w")]
    assert compute_dtypes([*own, inner]) == {inner.name: "int8"}
