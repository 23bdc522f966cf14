"""What a kernel is to compute: nodes of a model with the shapes and dtypes of what goes in and out.

The nodes are kept as an ONNX function, so that they are what a reference evaluates, what a template reads, and what
stands behind the custom node for those who know no plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtprof.base import onnx_graph
from trtprof.base.calls import PLUGINS
from trtprof.base.errors import UsageError
from trtprof.base.records import Dim

DOMAIN = PLUGINS  # Domain of custom nodes, and namespace of plugins
VERSION = "1"  # Of each plugin, in the attributes of its node


@dataclass(frozen=True)
class Operand:
    """A tensor that a kernel reads or writes, dense, in row-major order."""

    name: str  # In the kernel and the plugin: an identifier of C, which no other operand of the task has
    dtype: str  # A key of `units.DTYPE_BITS`
    dims: tuple[Dim, ...]  # Numbers, or names of dimensions that a caller chooses. The same name is the same number
    tensor: str = ""  # What the model calls it
    constant: bool = False  # Whether the model has its elements


@dataclass(frozen=True)
class Task:
    """What a kernel is to compute."""

    name: str  # Of the plugin and of the op of its node: an identifier of C, which tells tasks of a model apart
    nodes: tuple[str, ...]  # Names of the nodes that it replaces, in their order
    inputs: tuple[Operand, ...]  # In the order in which the kernel and the node take them
    outputs: tuple[Operand, ...]  # Likewise
    # A function of ``inputs`` to ``outputs``, of standard ops; small constants (axes, scalars) are Constant nodes of it
    body: onnx.FunctionProto
    main: str  # Op type of the node with most arithmetic

    def expression(self, dim: Dim) -> str:
        """A dimension in terms of the shapes of the inputs: ``"64"``, or ``"x[0]"`` of the first input that has it."""
        if isinstance(dim, int):
            return str(dim)
        for operand in self.inputs:
            if dim in operand.dims:
                return f"{operand.name}[{operand.dims.index(dim)}]"
        why = f"its dimension {dim} is no dimension of an input"
        raise UsageError(f"no kernel is written for {self.name}", why=why, fix="--shapes gives it a number")

    def output_shapes(self, shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs for inputs of these shapes."""
        known: dict[Dim, int] = {}
        for operand, shape in zip(self.inputs, shapes, strict=True):
            known |= dict(zip(operand.dims, shape, strict=True))
        return tuple(tuple(one if isinstance(one, int) else known[one] for one in out.dims) for out in self.outputs)

    def shapes(self, given: Mapping[str, int], default: int = 2) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs where named dimensions have these values, and ``default`` the others."""
        dims = (operand.dims for operand in self.inputs)
        return tuple(tuple(one if isinstance(one, int) else given.get(one, default) for one in each) for each in dims)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of an array that holds an operand."""
    number = next(number for number, name in onnx_graph.DTYPES.items() if name == dtype)
    return helper.tensor_dtype_to_np_dtype(number)
