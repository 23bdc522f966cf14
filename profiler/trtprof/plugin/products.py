"""A matrix product in the body of a task, by roles: a large operand, the matrix, and a thin one, the vectors.

The product may be a MatMul or a Gemm. Before it may stand what only says how an operand lies in memory: a Transpose of
the last two dimensions, a Cast, a DequantizeLinear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnx import NodeProto

from trtprof.base.onnx_graph import dtype_name
from trtprof.base.records import Dim
from trtprof.plugin.expressions import attributes, broadcast, computing, constant_value, constants
from trtprof.plugin.indexing import along
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.task import Task

THIN = 16  # Rows or columns up to which a product is one of a few vectors, and how often a matrix may be read again

UNKNOWN = 1024  # What a dimension is taken for where something is chosen before it is known

_LIBRARY = "a matrix product, for which libraries have better kernels"


@dataclass(frozen=True)
class Quantised:
    """A scale or a zero point."""

    dtype: str  # Of its elements
    place: int | None = None  # The input of the task that has them; None where ``value`` is the one number
    value: float = 0.0  # The number
    axis: int = 0  # The axis of the operand that it belongs to, counted from its end (-1, -2); 0 of one for all


@dataclass(frozen=True)
class Factor:
    """One of the two operands of a product."""

    place: int  # Which input of the task it is
    stored: str  # The dtype that it has in memory
    dtype: str  # The dtype that the product is given
    dims: tuple[Dim, ...]  # As it is multiplied
    turned: bool = False  # Whether it lies in memory with the last two dimensions swapped
    scale: Quantised | None = None  # Of a quantised operand
    zero: Quantised | None = None  # Likewise


@dataclass(frozen=True)
class Product:
    """A product by its roles."""

    matrix: Factor  # The large operand
    vector: Factor  # The other
    first: bool  # Whether the matrix is the left one
    across: Dim  # The dimension that only the matrix has
    vectors: int  # How many vectors there are
    summed: Dim  # The dimension that is summed up
    batch: tuple[Dim, ...]  # The others
    of_matrix: tuple[bool, ...]  # Along which of them the matrix varies
    of_vector: tuple[bool, ...]  # Along which of them the vectors do
    dims: tuple[Dim, ...]  # Of the result
    alpha: float  # What it is multiplied by
    node: NodeProto  # The node itself
    added: tuple[str, float] | None  # The tensor that is added to it, and what that is multiplied by
    after: tuple[NodeProto, ...]  # The nodes behind it

    @property
    def by_rows(self) -> bool:
        """Whether the matrix is contiguous in what is summed."""
        return self.across == 1 or self.matrix.turned != self.first

    @property
    def vectors_by_rows(self) -> bool:
        """Whether the vectors are."""
        return self.vectors == 1 or self.vector.turned == self.first

    @property
    def again(self) -> tuple[Dim, ...]:
        """Along what the matrix is read again."""
        return tuple(one for one, varies in zip(self.batch, self.of_matrix, strict=True) if not varies and one != 1)


def guess(dims: Sequence[Dim]) -> int:
    """How many elements there may be: exactly, where all dimensions are known."""
    return math.prod(one if isinstance(one, int) else UNKNOWN for one in dims)


def static(dims: Sequence[Dim]) -> bool:
    """Whether all dimensions are known."""
    return all(isinstance(one, int) for one in dims)


def read(task: Task) -> Product:
    """The product of a task; the matrix is the larger operand whose partner is thin."""
    reader = _Reader(task)
    nodes = list(computing(task.body))
    found = [node for node in nodes if node.op_type in ("MatMul", "Gemm")]
    if len(found) != 1:
        raise NotFitError(f"it has {len(found)} products, of which it knows one" if found else "it has no product")
    node = found[0]
    left, right = (reader.factor(name) for name in node.input[:2])
    given = attributes(node)
    alpha, added = 1.0, None
    if node.op_type == "Gemm":
        alpha = _real(given.get("alpha", 1.0))
        left, right = (turn(one) if given.get(name) else one for one, name in ((left, "transA"), (right, "transB")))
        if len(node.input) > 2 and node.input[2]:
            added = node.input[2], _real(given.get("beta", 1.0))
    ends = [left.dims[-2:-1], right.dims[-1:] if len(right.dims) > 1 else ()]
    left = replace(left, dims=(1, *left.dims)) if len(left.dims) == 1 else left
    right = replace(right, dims=(*right.dims, 1)) if len(right.dims) == 1 else right
    if left.dims[-1] != right.dims[-2]:
        raise NotFitError(f"a sum over {left.dims[-1]} beside {right.dims[-2]}")
    dims = (*broadcast((left.dims[:-2], right.dims[:-2])), *ends[0], *ends[1])
    around = [id(one) for one in (*reader.before, node)]
    after = tuple(one for one in nodes if id(one) not in around)
    batch = left.dims[:-2]
    if batch and not left.turned and guess(right.dims[:-2]) == 1 and static(left.dims[:-1]):
        # No batch on the right: the batch of the left is nothing but more rows.
        left = replace(left, dims=(guess(left.dims[:-1]), left.dims[-1]))
        right = replace(right, dims=right.dims[-2:])
    return _by_role(left, right, dims, alpha, node, added, after)


def _by_role(
    left: Factor, right: Factor, dims: tuple[Dim, ...], alpha: float, node: NodeProto,
    added: tuple[str, float] | None, after: tuple[NodeProto, ...],
) -> Product:  # fmt: skip
    found: list[tuple[int, Product]] = []
    why = f"both sides are wider than {THIN}: {_LIBRARY}"
    batch = broadcast((left.dims[:-2], right.dims[:-2]))
    varies = [along(batch, range(len(batch)), one.dims[:-2]) for one in (left, right)]
    for first in (True, False):
        matrix, vector = (left, right) if first else (right, left)
        across, vectors = (left.dims[-2], right.dims[-1]) if first else (right.dims[-1], left.dims[-2])
        if not isinstance(vectors, int) or vectors > THIN:
            continue
        of_matrix, of_vector = varies if first else varies[::-1]
        one = Product(
            matrix, vector, first, across, vectors, left.dims[-1], batch, of_matrix, of_vector, dims, alpha, node,
            added, after,
        )  # fmt: skip
        again = math.prod(each for each in one.again if isinstance(each, int))
        if again > THIN:
            why = f"one side would be read {again} times: {_LIBRARY}"
            continue
        found.append((guess(matrix.dims), one))
    if not found:
        raise NotFitError(why)
    return max(found, key=lambda each: each[0])[1]


def turn(one: Factor) -> Factor:
    """The factor with its last two dimensions swapped."""

    def swap(given: Quantised | None) -> Quantised | None:
        return replace(given, axis={0: 0, -1: -2, -2: -1}[given.axis]) if given else None

    dims = (*one.dims[:-2], one.dims[-1], one.dims[-2])
    return replace(one, dims=dims, turned=not one.turned, scale=swap(one.scale), zero=swap(one.zero))


class _Reader:
    """Finds what the operands of a product are made of.

    Attributes:
        before: The nodes that were found on the way.
    """

    def __init__(self, task: Task) -> None:
        self.before: list[NodeProto] = []
        self._task = task
        self._constants = constants(task.body)
        self._makers = {name: node for node in computing(task.body) for name in node.output}
        self._places = {operand.name: place for place, operand in enumerate(task.inputs)}

    def factor(self, name: str) -> Factor:
        """The operand of that name."""
        place = self._places.get(name)
        if place is not None:
            operand = self._task.inputs[place]
            return Factor(place, operand.dtype, operand.dtype, operand.dims)
        node = self._makers.get(name)
        if node is None:
            raise NotFitError("one side of the product is a constant that is no input")
        self.before.append(node)
        found = self.factor(node.input[0])
        given = attributes(node)
        match node.op_type:
            case "Identity":
                return found
            case "Cast":
                return replace(found, dtype=dtype_name(int(_real(given["to"]))))
            case "Transpose":
                rank = len(found.dims)
                wanted = (*range(rank - 2), rank - 1, rank - 2)
                moved = given.get("perm", tuple(range(rank)[::-1]))
                if rank < 2 or moved != wanted:
                    raise NotFitError("a Transpose before the product that moves more than the last two dimensions")
                return turn(found)
            case "DequantizeLinear" if found.scale is None and not given.get("block_size"):
                axis = int(_real(given.get("axis", 1)))
                axis -= len(found.dims) if axis >= 0 else 0
                scale = self._quantised(node.input[1], axis, found)
                zero = self._quantised(node.input[2], axis, found) if len(node.input) > 2 and node.input[2] else None
                return replace(found, dtype=scale.dtype, scale=scale, zero=zero)
        raise NotFitError(f"{node.op_type} before the product")

    def _quantised(self, name: str, axis: int, of: Factor) -> Quantised:
        found = self._constants.get(name)
        if found is not None:
            value = constant_value(found)
            if value is None or value.number is None:
                raise NotFitError("a scale of several elements that is no input")
            return Quantised(value.dtype, value=float(value.number))
        if name not in self._places:
            raise NotFitError("a scale that is computed")
        place = self._places[name]
        operand = self._task.inputs[place]
        if math.prod(one if isinstance(one, int) else 0 for one in operand.dims) == 1:
            return Quantised(operand.dtype, place)
        if len(operand.dims) != 1 or axis not in (-1, -2) or len(of.dims) < 2 or operand.dims[0] != of.dims[axis]:
            raise NotFitError("scales in blocks, or along a dimension of the batch")
        return Quantised(operand.dtype, place, axis=axis)


def _real(value: object) -> float:
    if not isinstance(value, int | float):
        raise NotFitError("an attribute of the product that is no number")
    return float(value)
