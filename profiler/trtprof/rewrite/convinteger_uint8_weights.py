"""Constant int8 weights of a ConvInteger as uint8, with a zero point that is 128 higher: the same products.

ONNX Runtime's CPU kernel has a fast path for uint8 weights alone.
When: The weights are constant int8, and so is their zero point where there is one.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("convinteger-uint8-weights", "ConvInteger with uint8 weights", answers=("SK803",), exact=True)
def convinteger_uint8_weights(node: ir.Node, edit: Edit) -> None:
    """Replace a ConvInteger with int8 weights."""
    if not edit.is_op(node, "ConvInteger"):
        return
    x, w, x_zero, w_zero = (*node.inputs, None, None)[:4]
    weights = edit.array(w)
    zero = edit.array(w_zero) if w_zero is not None else np.zeros((), np.int8)
    if weights is None or weights.dtype != np.int8 or zero is None or zero.dtype != np.int8:
        return
    raised = [
        edit.constant((array.astype(np.int16) + 128).astype(np.uint8), name)
        for array, name in ((weights, "weights"), (zero, "zero_point"))
    ]
    edit.replace(
        [node], {node.outputs[0]: edit.node("ConvInteger", [x, raised[0], x_zero, raised[1]], node.attributes)}
    )
