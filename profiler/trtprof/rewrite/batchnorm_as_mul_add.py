"""A BatchNormalization as a Mul and an Add.

With k = scale / sqrt(variance + epsilon): x * k + (B - mean * k), k and the rest computed in float64 and broadcast over
the dimensions behind the channels.
When: It is an inference, all its numbers are constants, all k are finite, and the rank is known. Not right behind a
Conv, ConvTranspose or Gemm that nothing else reads: it folds into their weights.
"""

from __future__ import annotations

import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.batchnorm_folded import factors
from trtprof.rewrite.edit import Edit


@rewrite("batchnorm-as-mul-add", "BatchNormalization as Mul and Add", answers=("FU301",), exact=False)
def batchnorm_as_mul_add(node: ir.Node, edit: Edit) -> None:
    """Write one out."""
    found = factors(node, edit)
    if found is None:
        return
    value = node.inputs[0]
    rank, dtype = edit.rank(value), edit.dtype(value)
    if value is None or rank is None or rank < 2 or dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return
    product = edit.producer(value, "Conv", "ConvTranspose", "Gemm")
    if product is not None and product.graph is node.graph and edit.used_once(value):
        return
    factor, offset = (
        edit.constant(one.reshape(-1, *[1] * (rank - 2)).astype(dtype.numpy()), name)
        for one, name in zip(found, ("factor", "offset"), strict=True)
    )
    edit.replace([node], {node.outputs[0]: edit.node("Add", [edit.node("Mul", [value, factor]), offset])})
