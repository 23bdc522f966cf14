"""What rewrites of convolutions read of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from trtprof.rewrite.edit import Edit

FINITE_AT_ZERO = frozenset({
    "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "Mish", "Swish", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
    "Softplus", "Softsign", "ThresholdedRelu", "Clip", "Neg", "Abs", "Erf",
})  # fmt: skip
"""Ops of one tensor, element by element, that make no Inf and no NaN of a zero."""


class Convolution(NamedTuple):
    """A Conv or ConvTranspose with constant weights."""

    node: ir.Node  # Itself
    x: ir.Value  # What it reads
    weight: npt.NDArray[Any]  # Outputs, inputs of a group (ConvTranspose: inputs, outputs of a group), window
    bias: ir.Value | None  # One for each output channel, or None
    strides: tuple[int, ...]  # One for each axis of the window
    pads: tuple[int, ...]  # Of the begins, then of the ends
    dilations: tuple[int, ...]  # One for each axis of the window
    group: int  # Number of groups

    @property
    def window(self) -> tuple[int, ...]:
        """Its size along each axis."""
        return self.weight.shape[2:]


def convolution(edit: Edit, node: ir.Node | None, op_type: str = "Conv") -> Convolution | None:
    """A convolution of floating-point numbers whose weight is constant and whose pads are written down."""
    if node is None or not edit.is_op(node, op_type) or len(node.inputs) < 2:
        return None
    x, weight = node.inputs[0], edit.array(node.inputs[1])
    if x is None or weight is None or weight.ndim < 3 or 0 in weight.shape or not edit.is_float(node.inputs[1]):
        return None
    axes = weight.ndim - 2
    given = node.attributes.get("auto_pad")
    auto_pad = "NOTSET" if given is None else given.as_string()
    pads = edit.ints(node, "pads") or (0,) * 2 * axes
    if auto_pad not in ("NOTSET", "VALID") or min(pads) < 0 or (edit.rank(x) or weight.ndim) != weight.ndim:
        return None
    return Convolution(
        node,
        x,
        weight,
        node.inputs[2] if len(node.inputs) > 2 else None,
        edit.ints(node, "strides") or (1,) * axes,
        pads if auto_pad == "NOTSET" else (0,) * 2 * axes,
        edit.ints(node, "dilations") or (1,) * axes,
        int(edit.number(node, "group", 1)),
    )


def padded(array: npt.NDArray[Any], sizes: Sequence[int]) -> npt.NDArray[Any]:
    """An array with zeros behind what it has, up to these sizes."""
    return np.pad(array, [(0, size - own) for own, size in zip(array.shape, sizes, strict=True)])
