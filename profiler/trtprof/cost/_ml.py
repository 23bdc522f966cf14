"""What the ops of ``ai.onnx.ml`` share: rows of features, parameters in attributes, score transforms."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, MalformedOpError, Moved
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, Recipe, softmax
from trtprof.cost._shapes import shape

ML = "ai.onnx.ml"

PROBIT = Recipe(15, {"log": 1, "sqrt": 2})
"""sqrt 2 * erfinv(2 x - 1) by S. Winitzki, A handy approximation for the error function and its inverse, 2008.

erfinv(y) = sgn y * sqrt(-v + sqrt(v^2 - w)), where v = a + log(1 - y^2) / 2 and w = b log(1 - y^2), which is
what ONNX Runtime and ONNX's reference compute: y 2, its sign 1, (1 - y) (1 + y) 3, v 2, w 1, v^2 - w 2,
-v + 2, and the multiplies by sign and sqrt 2.
"""


def matrix(tensor: Tensor) -> tuple[int, int]:
    """Rows and features of [N, F]; a vector is one row."""
    dims = shape(tensor)
    if len(dims) not in (1, 2):
        raise MalformedOpError(f"{tensor.name!r} has shape {list(dims)}; rows of features have rank 1 or 2")
    return (1, dims[0]) if len(dims) == 1 else (dims[0], dims[1])


def items(op: Op, name: str) -> tuple[int | float | str, ...]:
    """A list in an attribute; empty when it is absent."""
    value = op.attributes.get(name, ())
    return value if isinstance(value, tuple) else ()


def ids(op: Op, name: str, length: int | None = None) -> tuple[int, ...]:
    """A list of integers in an attribute; empty when it is absent."""
    found = tuple(int(item) for item in items(op, name))
    if length is not None and len(found) != length:
        raise MalformedOpError(f"{op.op_type} has {len(found)} {name}, not {length}")
    return found


def table(op: Op, name: str, dtype: str, length: int, read: int | None = None) -> Moved:
    """What is read of a list of ``length`` values that the model holds in an attribute.

    Args:
        dtype: How the model stores it: int64 for integers, fp32 for floats.
    """
    owner = next((tensor.name for tensor in op.outputs if tensor is not None), op.op_type)
    values = Tensor(name=f"{owner}/{name}", dtype=dtype, shape=(length,), constant=True)
    return Moved(values, length if read is None else min(read, length))


def reading(cost: Cost, *tables: Moved) -> Cost:
    """The cost with what is read of parameters in attributes."""
    return cost._replace(reads=(*cost.reads, *(moved for moved in tables if moved.elements)))


def with_outputs(op: Op, *made: tuple[str, Sequence[int]]) -> Op:
    """The op with what is not known of its outputs filled in (``made``: dtype and shape of each output)."""

    def filled(tensor: Tensor | None, dtype: str, dims: Sequence[int]) -> Tensor | None:
        if tensor is None:
            return None
        return msgspec.structs.replace(
            tensor,
            dtype=dtype if tensor.dtype == "unknown" else tensor.dtype,
            shape=tuple(dims) if tensor.elements is None else tensor.shape,
            kind="tensor",
        )

    outputs = [filled(tensor, *known) for tensor, known in zip(op.outputs, made, strict=False)]
    return msgspec.structs.replace(op, outputs=tuple(outputs))


def converted(tensor: Tensor, elements: int) -> int:
    """FLOP of converting values to the fp32 that an op of this domain computes with."""
    return 0 if tensor.dtype == "fp32" else elements


def labels(op: Op, integers: str, strings: str) -> tuple[int, str, tuple[Moved, ...]]:
    """Number of classes, dtype of the label output, and the table of labels that it comes from."""
    numbers, names = items(op, integers), items(op, strings)
    if names:
        return len(names), "string", ()
    return len(numbers), "int64", (table(op, integers, "int64", len(numbers)),)


def post_transform(name: str, rows: int, n: int) -> tuple[Recipe, str]:
    """Arithmetic of the transform of ``n`` scores a row, and a note where it is an upper bound.

    SOFTMAX_ZERO is a softmax of the scores that are not zero, two compares each to tell; those that are get multiplied
    by exp(-max), whose negation and exponential count: 6 n - 1 and n + 1 exp a row if none is zero.
    """
    match name:
        case "NONE":
            return NOTHING, ""
        case "LOGISTIC":
            return ACTIVATIONS["sigmoid"].times(rows * n), ""
        case "SOFTMAX":
            return softmax(rows, n), ""
        case "SOFTMAX_ZERO":
            recipe = Recipe(6 * n - 1, {"exp": n + 1}).times(rows) if n else NOTHING
            return recipe, "no score counted as zero"
        case "PROBIT":
            return PROBIT.times(rows * n), ""
        case _:
            raise MalformedOpError(f"there is no post_transform {name!r}")
