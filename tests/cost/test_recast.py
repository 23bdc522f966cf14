"""A model at another precision: which tensors change, and what an op then costs."""

from __future__ import annotations

import pytest

from trtprof.base.records import Node, Op, Tensor
from trtprof.cost import work_of
from trtprof.cost.recast import PRECISIONS, narrow_tensors, recast


def tensor(name: str, *shape: int, dtype: str = "fp32", constant: bool = False) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape or (8, 8), constant=constant)


def op(op_type: str, *inputs: Tensor, out: str, dtype: str = "fp32") -> Op:
    return Op(op_type=op_type, opset=17, inputs=inputs, outputs=(tensor(out, dtype=dtype),))


def node(of: Op, graph: str = "") -> Node:
    made = of.outputs[0]
    assert made is not None
    return Node(name=f"n_{made.name}", original_name="", graph=graph, op=of)


def dtypes(of: Op) -> list[str]:
    return [each.dtype for each in (*of.inputs, *of.outputs) if each is not None]


PRODUCT = op("MatMul", tensor("x"), tensor("w", constant=True), out="y")


@pytest.mark.parametrize(
    ("precision", "expected", "computes"),
    [
        ("model", ["fp32", "fp32", "fp32"], "fp32"),
        ("fp32", ["fp32", "fp32", "fp32"], "fp32"),
        ("tf32", ["fp32", "fp32", "fp32"], "fp32"),
        ("fp16", ["fp16", "fp16", "fp16"], "fp16"),
        ("bf16", ["bf16", "bf16", "bf16"], "bf16"),
        ("int8", ["int8", "int8", "fp16"], "int8"),
        ("fp8", ["fp8e4m3fn", "fp8e4m3fn", "fp16"], "fp8e4m3fn"),
    ],
)
def test_a_product_at_each_precision(precision: str, expected: list[str], computes: str) -> None:
    found = recast(PRODUCT, precision)
    assert dtypes(found) == expected
    work = work_of(found)
    assert work is not None
    assert work.dtype == computes
    width = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "fp8e4m3fn": 1}
    assert work.bytes == sum(64 * width[dtype] for dtype in expected)
    assert work.tensor_flops == 2 * 8**3


@pytest.mark.parametrize("precision", [name for name in PRECISIONS if name != "model"])
def test_integers_and_fp64_stay(precision: str) -> None:
    quantised = op("DequantizeLinear", tensor("q", dtype="int8"), tensor("s", 1), out="x")
    assert recast(quantised, precision).inputs[0] == quantised.inputs[0]
    double = op("Add", tensor("a", dtype="fp64"), tensor("b", dtype="fp64"), out="c", dtype="fp64")
    assert recast(double, precision) == double


def test_a_model_of_16_bits_at_32() -> None:
    half = op("Add", tensor("a", dtype="fp16"), tensor("b", dtype="bf16"), out="c", dtype="fp16")
    assert dtypes(recast(half, "fp32")) == ["fp32"] * 3


def test_what_only_products_read_is_kept_in_8_bits() -> None:
    """``x`` feeds a product through a transpose, ``y`` a product and a sum, ``z`` leaves the model."""
    nodes = [
        node(op("Relu", tensor("in"), out="x")),
        node(op("Transpose", tensor("x"), out="xt")),
        node(op("MatMul", tensor("xt"), tensor("w", constant=True), out="y")),
        node(op("MatMul", tensor("y"), tensor("v", constant=True), out="z")),
        node(op("Add", tensor("y"), tensor("z"), out="s")),
        node(op("MatMul", tensor("s"), tensor("w", constant=True), out="z2")),
    ]
    found = {name for _, name in narrow_tensors(nodes, ["z2"])}
    assert found == {"x", "xt", "w", "v", "s"}
    # Its maker writes it so, its readers take it so.
    assert dtypes(recast(nodes[0].op, "int8", found)) == ["fp16", "int8"]
    assert dtypes(recast(nodes[1].op, "int8", found)) == ["int8", "int8"]
    # A product reads 8 bits of what others need wider.
    assert dtypes(recast(nodes[3].op, "int8", found)) == ["int8", "int8", "fp16"]


def test_an_output_of_the_model_and_what_a_body_reads_stay_wide() -> None:
    outer = node(op("Relu", tensor("in"), out="x"))
    product = node(op("MatMul", tensor("x"), tensor("w", constant=True), out="y"))
    body = node(op("Add", tensor("x"), tensor("k"), out="t"), "loop/body")
    assert ("", "x") in narrow_tensors([outer, product], ["y"])
    assert ("", "x") not in narrow_tensors([outer, product], ["y", "x"])
    assert ("", "x") not in narrow_tensors([outer, product, body], ["y"])
