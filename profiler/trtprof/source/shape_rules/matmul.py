"""Matrix products of com.microsoft: fused, quantised, weights of a few bits, experts."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base import onnx_graph
from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule, rules
from trtprof.source.shape_rules._dims import *


def _turned(shape_: Shape | None, matrix: bool, batch: bool) -> Shape | None:
    """An operand of FusedMatMul as it is multiplied; ``batch`` moves the first dimension behind the others of it."""
    if shape_ is None or len(shape_) < 2:
        return shape_
    if batch:
        shape_ = (*shape_[1:-1], shape_[0], shape_[-1])
    return (*shape_[:-2], shape_[-1], shape_[-2]) if matrix else shape_


@rule("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "SparseToDenseMatMul", domain=MS)
def fused_matmul(op: Op) -> Sequence[Tensor | None]:
    """A and B, each with its matrices and its batch transposed or not."""
    a, b = (
        _turned(shape(op, index), bool(integer(op, f"trans{name}", 0)), bool(integer(op, f"transBatch{name}", 0)))
        for index, name in enumerate("AB")
    )
    return [made(dtype(op, 1), matmul(a, b))]


@rule("MatMulInteger16", domain=MS)
def matmul_integer16(op: Op) -> Sequence[Tensor | None]:
    """Unsigned where both operands are."""
    kinds = {dtype(op), dtype(op, 1)}
    kind = "unknown" if "unknown" in kinds else "uint32" if kinds == {"uint16"} else "int32"
    return [made(kind, matmul(shape(op), shape(op, 1)))]


def _gemm(op: Op, b_at: int) -> Shape:
    a, b = dims(op, 0, 2), dims(op, b_at, 2)
    return a[1 if integer(op, "transA", 0) else 0], b[0 if integer(op, "transB", 0) else 1]


@rule("MatMulFpQ4", domain=MS)
def matmul_fpq4(op: Op) -> Sequence[Tensor | None]:
    """A, packed weights, and their shape [K, N]."""
    packed = values(op, 2)
    outputs: Dim = "?" if packed is None else packed[-1]
    return [made(dtype(op), with_last(shape(op), outputs))]


@rule("MatMulNBitsQkv", domain=MS)
def matmul_nbits_qkv(op: Op) -> Sequence[Tensor | None]:
    """Q, K and V of A, and the sum of A and what is skipped."""
    widths = [required(op, name) for name in ("Nq", "Nkv", "Nkv")]
    return [*(made(dtype(op), with_last(shape(op), width)) for width in widths), like(op)]


@rule("GatherBlockQuantized", domain=MS)
def gather_block_quantized(op: Op) -> Sequence[Tensor | None]:
    """data, indices, scales: rows of data in the dtype of the scales.

    Where data are bytes, each holds 8 / bits elements of the last dimension.
    """
    data, indices = shape(op), shape(op, 1)
    if data is None or indices is None:
        return [made(dtype(op, 2), None)]
    if dtype(op) in ("uint8", "unknown"):
        data = (*data[:-1], times(data[-1], 8 // integer(op, "bits", 4)) if dtype(op) == "uint8" else "?")
    at = integer(op, "gather_axis", 0) % len(data)
    return [made(dtype(op, 2), (*data[:at], *indices, *data[at + 1 :]))]


rules(
    MS,
    {
        # A times B.
        "GemmFastGelu": lambda op: [made(dtype(op), matmul(shape(op), shape(op, 1)))],
        # A, B, and the scale of one of them, whose dtype the result has.
        "MatMulIntegerToFloat DynamicQuantizeMatMul": lambda op: [made(dtype(op, 2), matmul(shape(op), shape(op, 1)))],
        # A, scale_A, B; orders of elements do not change what a shape says.
        "QOrderedMatMul": lambda op: [made(dtype(op), matmul(shape(op), shape(op, 2)))],
        # A, B, C.
        "FusedGemm": lambda op: [made(dtype(op), _gemm(op, 1))],
        # A, B, C and scales; the dtype is an attribute.
        "GemmFloat8": lambda op: [made(onnx_graph.dtype_name(integer(op, "dtype", 1)), _gemm(op, 1))],
        # A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point; a float without the last.
        "QGemm": lambda op: [made("fp32" if given(op, 8) is None else dtype(op, 8), _gemm(op, 3))],
        # A [..., K] and weights of N outputs, packed.
        "MatMulNBits": lambda op: [made(dtype(op), with_last(shape(op), required(op, "N")))],
        # A [..., K] gives [..., N]; without transB, A [..., N] gives [..., K].
        "MatMulBnb4": lambda op: [
            made(dtype(op), with_last(shape(op), required(op, "N" if integer(op, "transB", 1) else "K")))
        ],
        # A [..., K], B [N, K] or its halves in bytes.
        "MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight": lambda op: [
            made(dtype(op), with_last(shape(op), dims(op, 1, 2)[0]))
        ],
        # The product of two projections of A, and the sum of A and what is skipped.
        "MatMulNBitsMlp": lambda op: [made(dtype(op), with_last(shape(op), required(op, "N"))), like(op)],
        # As many hidden values as come in.
        "MoE QMoE": lambda op: [like(op)],
    },
)
