"""What a kernel is to compute: nodes of a model with the shapes and dtypes of what goes in and out.

The nodes are kept as an ONNX function, so that they are what a reference evaluates, what a template reads, and what
stands behind the custom node for those who know no plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trtprof.base.calls import PLUGINS
from trtprof.base.errors import UsageError
from trtprof.base.records import Dim
from trtprof.plugin import sizes
from trtprof.plugin.sizes import Size

if TYPE_CHECKING:
    import onnx

DOMAIN = PLUGINS  # Domain of custom nodes, and namespace of plugins


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

    # Of the plugin and of the op of its node, such as ``BatchedGemv_64``: an identifier of C, which tells tasks of
    # one model apart.
    name: str
    nodes: tuple[str, ...]  # Names of the nodes that it replaces, in their order
    inputs: tuple[Operand, ...]  # In the order in which the kernel and the node take them
    outputs: tuple[Operand, ...]  # Likewise
    # The nodes as a function of ``inputs`` to ``outputs``; small constants of the nodes (axes, epsilons, scalars) are
    # Constant nodes of it. It holds only standard ops.
    body: onnx.FunctionProto
    main: str  # Op type of the node with most arithmetic

    def dims(self, operand: Operand) -> tuple[Size, ...]:
        """The dimensions of an operand as sizes: named ones are those of the first input that has them."""
        return tuple(self.size(one) for one in operand.dims)

    def size(self, dim: Dim) -> Size:
        """A dimension as a size; see `dims`."""
        if isinstance(dim, int):
            return sizes.number(dim)
        for place, operand in enumerate(self.inputs):
            if dim in operand.dims:
                return sizes.dim(place, operand.dims.index(dim))
        raise UsageError(
            f"no kernel is written for {self.name}",
            why=f"its dimension {dim} is no dimension of an input",
            fix="--shapes gives it a number",
        )

    def output_shapes(self, shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs for inputs of these shapes."""
        return tuple(tuple(one.value(shapes) for one in self.dims(operand)) for operand in self.outputs)

    def shapes(self, given: Mapping[str, int], default: int = 2) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs where named dimensions have these values, and ``default`` the others."""
        return tuple(
            tuple(one if isinstance(one, int) else given.get(one, default) for one in operand.dims)
            for operand in self.inputs
        )
