"""Gelu in the ops of which it is made.

Gelu becomes x * 0.5 * (1 + erf(x / sqrt(2))), or with ``approximate="tanh"`` 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x +
0.044715 * x^3))).
When: It is in fp32 or fp16.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit


@rewrite("gelu-spelled", "Gelu spelled out", answers=("FU301",), exact=False)
def gelu_spelled(node: ir.Node, edit: Edit) -> None:
    """Replace a Gelu of the standard operators."""
    x = node.inputs[0] if node.inputs else None
    dtype = edit.dtype(x)
    if not edit.is_op(node, "Gelu") or x is None or dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return

    def number(value: float) -> ir.Value:
        return edit.constant(np.asarray(value, dtype.numpy()), "gelu")

    approximate = node.attributes.get("approximate")
    if approximate is not None and approximate.value == "tanh":
        cube = edit.node("Mul", [edit.node("Mul", [x, x]), x])
        inner = edit.node("Add", [x, edit.node("Mul", [cube, number(0.044715)])])
        bent = edit.node("Tanh", [edit.node("Mul", [inner, number(math.sqrt(2 / math.pi))])])
    else:
        bent = edit.node("Erf", [edit.node("Mul", [x, number(math.sqrt(0.5))])])
    half = edit.node("Mul", [x, number(0.5)])
    edit.replace([node], {node.outputs[0]: edit.node("Mul", [half, edit.node("Add", [bent, number(1.0)])])})
