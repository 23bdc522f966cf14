"""With which dtype an op computes: what decides the peak that bounds it.

The static answer for a quantised model is that of an engine which fuses QDQ: a product whose
operands both come from DequantizeLinear multiplies the quantised values.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base import units
from trtprof.base.op_kinds import OPERANDS
from trtprof.base.records import Node, Op, Tensor

_WEIGHT_ONLY = frozenset({
    "MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "MatMulNBitsMlp", "MatMulNBitsQkv", "QMoE",
    "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight",
})  # fmt: skip
_ACCURACY_LEVELS = {1: "fp32", 2: "fp16", 3: "bf16", 4: "int8"}
"""``accuracy_level`` of MatMulNBits: what the activations are converted to before the product."""

_QDQ_PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"})
_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand", "Slice", "Gather"})
"""What may stand between a DequantizeLinear and the product that uses it without changing values."""


def compute_dtype(op: Op) -> str:
    """The dtype whose arithmetic peak bounds the op by itself."""
    if op.op_type in _WEIGHT_ONLY:
        level = op.attributes.get("accuracy_level", 0)
        chosen = _ACCURACY_LEVELS.get(level) if isinstance(level, int) else None
        return chosen or _first_float(op.inputs)
    operands = OPERANDS.get(op.op_type)
    if operands is not None and op.inputs:
        found = [op.inputs[index] for index in operands if index < len(op.inputs)]
        return product_dtype([tensor.dtype for tensor in found if tensor is not None])
    # Trees and linear models of ai.onnx.ml compute in floating point, whatever they read.
    return _first_float((*op.inputs, *op.outputs) if op.domain == "ai.onnx.ml" or not op.inputs else op.inputs)


def compute_dtypes(nodes: Sequence[Node]) -> dict[str, str]:
    """Node name -> what it computes with in an engine that fuses QDQ, for the nodes of a model where that differs."""
    graphs: dict[str, list[Node]] = {}
    for node in nodes:
        graphs.setdefault(node.graph, []).append(node)
    return {
        own[index].name: dtype
        for own in graphs.values()
        for index, dtype in quantized_products([node.op for node in own]).items()
    }


def quantized_products(ops: Sequence[Op]) -> dict[int, str]:
    """Positions of the products whose operands are all dequantised values -> what is multiplied."""
    stored: dict[str, str] = {}
    """Dequantised tensor -> the dtype that its values are stored as."""
    found: dict[int, str] = {}
    for index, op in enumerate(ops):
        first = op.inputs[0] if op.inputs else None
        origin = None
        if op.op_type == "DequantizeLinear":
            origin = None if first is None or first.dtype == "unknown" else first.dtype
        elif op.op_type in _MOVES:
            origin = None if first is None else stored.get(first.name)
        elif op.op_type in _QDQ_PRODUCTS:
            operands = [stored.get(tensor.name) if tensor is not None else None for tensor in op.inputs[:2]]
            known = [dtype for dtype in operands if dtype is not None]
            if len(known) == 2:
                found[index] = product_dtype(known)
        if origin is not None and op.outputs and op.outputs[0] is not None:
            stored[op.outputs[0].name] = origin
    return found


def product_dtype(dtypes: Sequence[str]) -> str:
    """What a unit multiplies operands of these dtypes as: the wider, and int8 for narrow integers."""
    if not dtypes:
        return "unknown"
    widest = max(dtypes, key=lambda dtype: units.DTYPE_BITS.get(dtype, 0))
    return "int8" if "int" in widest and units.DTYPE_BITS.get(widest, 64) <= 8 else widest


def _first_float(tensors: Sequence[Tensor | None]) -> str:
    dtypes = [tensor.dtype for tensor in tensors if tensor is not None and tensor.dtype != "unknown"]
    return next((dtype for dtype in dtypes if units.is_float(dtype)), dtypes[0] if dtypes else "unknown")
