"""A model at another precision than that of its file.

At int8 and fp8 the operands of products are of 8 bits and all else that floats is fp16, as quantising tools do by
default. Integers and fp64 stay.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from trtprof.base.op_kinds import OPERANDS
from trtprof.base.records import Node, Op, Tensor

PRECISIONS = ("model", "fp32", "tf32", "fp16", "bf16", "int8", "fp8")
"""``model`` is as the file has it; ``tf32`` has the tensors of ``fp32`` and multiplies them as TF32."""

NARROW = {"int8": "int8", "fp8": "fp8e4m3fn"}
"""Precision -> the dtype of the operands of products."""

_WIDE = {"fp32": "fp32", "tf32": "fp32", "fp16": "fp16", "bf16": "bf16", "int8": "fp16", "fp8": "fp16"}
"""Precision -> the dtype of all else that floats."""

_FLOATS = frozenset({"fp32", "fp16", "bf16"})
_MOVES = frozenset({
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand", "Slice", "MaxPool",
})  # fmt: skip
"""What does to 8-bit values what it does to the values they stand for, on its first input."""


def recast(op: Op, precision: str, narrow: Collection[str] = ()) -> Op:
    """An op as it is at another precision."""
    wide = _WIDE.get(precision)
    if wide is None:
        return op
    small = NARROW.get(precision, "")
    operands = set(_operands(op)) if small else set()

    def cast(tensor: Tensor | None, operand: bool) -> Tensor | None:
        if tensor is None or tensor.dtype not in _FLOATS:
            return tensor
        dtype = small if small and (operand or tensor.name in narrow) else wide
        return tensor if dtype == tensor.dtype else msgspec.structs.replace(tensor, dtype=dtype)

    return msgspec.structs.replace(
        op,
        inputs=tuple(cast(tensor, at in operands) for at, tensor in enumerate(op.inputs)),
        outputs=tuple(cast(tensor, operand=False) for tensor in op.outputs),
    )


def narrow_tensors(nodes: Sequence[Node], outputs: Collection[str] = ()) -> set[tuple[str, str]]:
    """The tensors that nothing reads but products, as operands: they are kept in 8 bits at int8 and fp8."""
    made = {(node.graph, tensor.name) for node in nodes for tensor in node.op.outputs if tensor is not None}
    bodies = ((node.graph, tensor.name) for node in nodes if node.graph for tensor in node.op.inputs if tensor)
    # Read from around a body, by that name.
    captured = {key[1] for key in bodies if key not in made}
    wide = {("", name) for name in outputs}
    read: set[tuple[str, str]] = set()

    def kept(node: Node) -> bool:
        keys = [(node.graph, tensor.name) for tensor in node.op.outputs if tensor is not None]
        return all(key in read and key not in wide and key[1] not in captured for key in keys)

    # What reads a tensor is settled before its maker is met.
    for node in reversed(nodes):
        operands = _operands(node.op)
        if node.op.op_type in _MOVES and kept(node):
            operands = (0,)
        for at, tensor in enumerate(node.op.inputs):
            if tensor is not None:
                read.add((node.graph, tensor.name))
                if at not in operands:
                    wide.add((node.graph, tensor.name))
    return {key for key in read - wide if key[1] not in captured}


def _operands(op: Op) -> tuple[int, ...]:
    return OPERANDS.get(op.op_type, ())
