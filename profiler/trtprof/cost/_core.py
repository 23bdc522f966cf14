"""What most of a work is, with its dimensions (`records.Core`): of one op, and of a group of them.

A core is given only where it is proven: its products are those that the op was counted. Cost functions that know more
than their operands tell (attention, softmax, normalisation) give theirs themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtprof.base.op_kinds import CONVOLUTIONS, OPERANDS, PRODUCTS, op_types
from trtprof.base.records import Core, Op, Tensor

if TYPE_CHECKING:
    from trtprof.cost import Cost

_DENSE = PRODUCTS & OPERANDS.keys() - {
    "Einsum", "ConvTranspose", "QLinearConvTranspose", "ConvTransposeWithDynamicPads", "CausalConvWithState",
    "VarlenCausalConvWithState", "DynamicQuantizeMatMul", "SparseToDenseMatMul",
}  # fmt: skip
"""Products whose dimensions lie in their operands as they do in those of a Conv or MatMul."""

_POINTWISE = op_types("pointwise", "cast", "quantise", "batch norm") - {"DynamicQuantizeLinear"}
"""Ops that make each element by itself; one that finds its own scale reduces first."""

_MOST = 0.9
"""Share of the products of a group that makes one of them its core."""

_CARRIES = op_types("pointwise", "cast", "quantise", "view", "dropout", "move")
"""What may stand between the products and the softmax of an attention."""


def core_of(op: Op, found: Cost) -> Core | None:
    """The core of one op that costs ``found``; None where it has none, or its dimensions do not give that cost."""
    if op.op_type in _POINTWISE:
        return None if found.tensor_flops else pointwise(sum([moved.elements for moved in found.writes]))
    if op.op_type not in _DENSE or not found.tensor_flops:
        return None
    core = _product(op)
    return core if core is not None and products_of(core) == found.tensor_flops else None


def pointwise(elements: int) -> Core | None:
    """That of what makes so many elements, each by itself; None of nothing."""
    return Core(kind="pointwise", m=elements) if elements else None


def products_of(core: Core) -> int:
    """FLOP of its multiply-accumulates, of an attention without a causal mask those of both products; else 0."""
    if core.kind in ("product", "convolution"):
        return 2 * core.batch * core.m * core.n * core.k
    return 4 * core.batch * core.m * core.n * core.k if core.kind == "attention" else 0


def most_of(*parts: tuple[Core | None, int]) -> Core | None:
    """Of cores with the FLOP of their products the one that has nine tenths of them."""
    core, flops = max(parts, key=lambda part: part[1])
    return core if flops >= _MOST * sum(part[1] for part in parts) else None


def joined_core(ops: Sequence[Op], costs: Sequence[Cost], written: int) -> Core | None:
    """The core of nodes that run as one kernel (``ops``: in graph order)."""
    if len(costs) == 1:
        return costs[0].core
    total = sum(cost.tensor_flops for cost in costs)
    if total:
        makers = [place for place, cost in enumerate(costs) if cost.tensor_flops]
        main = max(costs, key=lambda cost: cost.tensor_flops)
        if main.tensor_flops >= _MOST * total:
            return main.core
        return _attention(ops, costs, makers) if len(makers) == 2 else None
    rows: Core | None = None
    single = False
    for cost in costs:
        core = cost.core
        if core is None:
            if cost.computes or cost.reads or cost.writes:
                return None
        elif core.kind == "pointwise":
            single = True
        elif rows is None:
            rows = core
        else:
            return None
    return rows or (pointwise(written) if single else None)


def _attention(ops: Sequence[Op], costs: Sequence[Cost], makers: Sequence[int]) -> Core | None:
    """Of two products with a softmax between them: queries by keys, and the probabilities by values."""
    first, last = makers
    scores, values = costs[first].core, costs[last].core
    between = [place for place, cost in enumerate(costs) if cost.core is not None and cost.core.kind == "softmax"]
    if scores is None or values is None or len(between) != 1 or {scores.kind, values.kind} != {"product"}:
        return None
    (middle,) = between
    rows = costs[middle].core
    if rows is None or (rows.m, rows.n) != (scores.batch * scores.m, scores.n):
        return None
    if (values.batch, values.m, values.k) != (scores.batch, scores.m, scores.n) or values.n > scores.k:
        return None
    if not (_leads(ops, first, middle) and _leads(ops, middle, last)):
        return None
    return Core(kind="attention", batch=scores.batch, m=scores.m, n=scores.n, k=scores.k)


def _leads(ops: Sequence[Op], source: int, target: int) -> bool:
    """Whether the first operand of a node is what another made, but for ops that change or move its elements."""
    reached = {tensor.name for tensor in ops[source].outputs if tensor is not None}
    for op in ops[source + 1 : target]:
        if op.op_type in _CARRIES and any(tensor is not None and tensor.name in reached for tensor in op.inputs):
            reached.update(tensor.name for tensor in op.outputs if tensor is not None)
    places = OPERANDS.get(ops[target].op_type, (0,))
    operand = ops[target].inputs[places[0]] if len(ops[target].inputs) > places[0] else None
    return operand is not None and operand.name in reached


def _product(op: Op) -> Core | None:
    left_at, right_at = OPERANDS[op.op_type]
    if len(op.inputs) <= right_at:
        return None
    left, right = known_dims(op.inputs[left_at]), known_dims(op.inputs[right_at])
    if left is None or right is None:
        return None
    if op.op_type in CONVOLUTIONS:
        return _convolution(op, left, right)
    if op.attributes.get("transBatchA") or op.attributes.get("transBatchB"):
        return None
    return matrices(left, right, bool(op.attributes.get("transA")), bool(op.attributes.get("transB")))


def known_dims(tensor: Tensor | None) -> tuple[int, ...] | None:
    """The shape of a tensor that has elements; None where it is not known."""
    if tensor is None or tensor.shape is None:
        return None
    dims = tuple([dim for dim in tensor.shape if isinstance(dim, int) and dim > 0])
    return dims if len(dims) == len(tensor.shape) else None


def _convolution(op: Op, source: Sequence[int], weights: Sequence[int]) -> Core | None:
    """Weights are [outputs, inputs / groups, window], or with the channels last; places are those of the result."""
    made = known_dims(op.outputs[0] if op.outputs else None)
    groups = op.attributes.get("group", 1)
    if made is None or len(made) < 3 or len(weights) != len(made) or not isinstance(groups, int) or groups < 1:
        return None
    summed = math.prod(weights[1:])
    kernel, steps = op.attributes.get("kernel_shape"), op.attributes.get("strides")
    if isinstance(kernel, tuple):
        window = _multiplied(kernel)
    elif source[1] == weights[1] * groups:
        window = math.prod(weights[2:])
    else:
        window = summed * groups // source[-1]
    if not window or summed % window or weights[0] % groups:
        return None
    return Core(
        kind="convolution",
        batch=groups,
        m=math.prod(made) // weights[0],
        n=weights[0] // groups,
        k=summed,
        window=window,
        stride=_multiplied(steps) if isinstance(steps, tuple) else 1,
    )


def _multiplied(numbers: Sequence[object]) -> int:
    return math.prod([number for number in numbers if isinstance(number, int)])


def matrices(
    left: tuple[int, ...], right: tuple[int, ...], left_across: bool = False, right_across: bool = False
) -> Core | None:
    """Of [..., m, k] by [..., k, n]; None where they do not fit."""
    left = left if len(left) > 1 else (1, *left)
    right = right if len(right) > 1 else (*right, 1)
    m, k = left[-2:][::-1] if left_across else left[-2:]
    below, n = right[-2:][::-1] if right_across else right[-2:]
    if k != below and k == n:
        # A matrix may be listed as it lies, transposed.
        below, n = n, below
    if k != below:
        return None
    outer, others = left[:-2], right[:-2]
    if not left_across and math.prod(others) == 1:
        return Core(kind="product", m=m * math.prod(outer), n=n, k=k)
    rank = max(len(outer), len(others))
    sides = [(1,) * (rank - len(side)) + side for side in (outer, others)]
    batch = math.prod([max(pair) for pair in zip(*sides, strict=True)])
    return Core(kind="product", batch=batch, m=m, n=n, k=k)
