"""A case for every rule of ONNX Runtime on a CPU: one that it finds, and a near miss."""

from __future__ import annotations

import msgspec

from tests.fakes.cases import Timed, layer, make_case, tensor
from trtprof.base.records import Op
from trtprof.diagnose import Case


def prelu(ns: int, backend: str = "ort-cpu") -> Case:
    image, slope = tensor("x", 1, 64, 56, 56), tensor("w", 64, 1, 1, constant=True)
    return make_case(
        Timed(layer("prelu", "PRelu", (image, slope), (tensor("y", 1, 64, 56, 56),)), ns=ns), backend=backend
    )


def dequantized(dtype: str = "int8") -> Case:
    """A product in fp32 with weights that a DequantizeLinear of the model makes of constants of this type."""
    stored, weights = tensor("q", 384, 384, dtype=dtype, constant=True), tensor("w", 384, 384)
    product = layer("product", "MatMul", (tensor("x", 128, 384), weights), (tensor("y", 128, 384),))
    ops = {"dequantize": Op(op_type="DequantizeLinear", inputs=(stored,), outputs=(weights,)), "product": product.op}
    return make_case(Timed(product), backend="ort-cpu", ops=ops)


def half(dtype: str = "fp16") -> Case:
    """A convolution of the model in this type, which ran in fp32 between casts."""
    image, result = tensor("x", 1, 64, 56, 56), tensor("y", 1, 64, 56, 56)
    weights = tensor("w", 64, 64, 3, 3, constant=True)
    cast = layer("cast", "Cast", (image,), (tensor("x32", 1, 64, 56, 56),), role="layout", nodes=())
    conv = layer("conv", "Conv", (tensor("x32", 1, 64, 56, 56), weights), (result,))
    inputs = tuple(msgspec.structs.replace(one, dtype=dtype) for one in (image, weights))
    ops = {"conv": Op(op_type="Conv", inputs=inputs, outputs=(msgspec.structs.replace(result, dtype=dtype),))}
    return make_case(Timed(cast, ns=40_000), Timed(conv), backend="ort-cpu", ops=ops)


POSITIVE: dict[str, Case] = {
    "PR802": half(),
    "SK803": prelu(900_000),
}

NEGATIVE: dict[str, Case] = {
    "PR802": half("fp32"),
    # No longer than Relu, Sub, Mul and Add take.
    "SK803": prelu(90_000),
}
