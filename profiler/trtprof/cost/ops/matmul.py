"""Matrix products: MatMul, Gemm, Einsum, and their fused and quantised forms."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._recipes import GELU_TANH, Recipe, dynamic_quantize, fused_activation, requantize
from trtprof.cost._shapes import MS, given, integer, need, number, out, shape, size, string, work


def _inner(op: Op, trans: bool = False, trans_batch: bool = False) -> int:
    """Length of the dot products, from the left operand [..., M, K].

    Transposed it is [..., K, M]; with transposed batch too, the first dimension has changed places
    with the batch, and it is [K, ..., M].
    """
    left = shape(need(op, 0))
    if not left:
        raise MalformedOpError(f"{op.op_type} needs an operand of rank 1 or more")
    if trans and len(left) > 1:
        return left[0] if trans_batch else left[-2]
    return left[-1]


@cost("MatMul", "MatMulInteger")
@cost("TransposeMatMul", "FusedMatMul", "FusedMatMulActivation", "MatMulInteger16", domain=MS)
def matmul(op: Op) -> Cost:
    """2 * output elements * K: batches broadcast, each operand is read once.

    ``alpha`` other than 1 costs one multiply per output; zero points are folded into the MACs.
    """
    y = size(out(op))
    activation, note = fused_activation(op)
    scaling = Recipe(1 if number(op, "alpha", 1.0) != 1.0 else 0)
    epilogue = scaling.plus(activation).times(y)
    inner = _inner(op, trans=bool(integer(op, "transA", 0)), trans_batch=bool(integer(op, "transBatchA", 0)))
    return work(op, epilogue, tensor=2 * y * inner, bound="lower" if note else "exact", note=note)


@cost("Gemm")
@cost("FusedGemm", "GemmFloat8", domain=MS)
def gemm(op: Op) -> Cost:
    """2 * M * N * K, one add for C, one multiply for alpha and for beta where they are not 1, the activation.

    GemmFloat8 multiplies by the scales of A and of B together, and by that of Y: inputs 3, 4 and 5.
    """
    y = size(out(op))
    activation, note = fused_activation(op)
    vector = y * (any(given(op, index) is not None for index in (3, 4)) + (given(op, 5) is not None))
    if number(op, "alpha", 1.0) != 1.0:
        vector += y
    c = given(op, 2)
    beta = number(op, "beta", 0.0 if op.op_type == "GemmFloat8" else 1.0)
    if c is not None and beta != 0.0:
        vector += y + (size(c) if beta != 1.0 else 0)
    return work(
        op,
        activation.times(y),
        tensor=2 * y * _inner(op, trans=bool(integer(op, "transA", 0))),
        vector=vector,
        bound="lower" if note else "exact",
        note=note,
    )


@cost("SparseToDenseMatMul", domain=MS)
def sparse_to_dense_matmul(op: Op) -> Cost:
    """As MatMul with every element of the sparse matrix counted as not zero."""
    return matmul(op)._replace(bound="upper", note="every element of the sparse matrix counted as not zero")


@cost("GemmFastGelu", domain=MS)
def gemm_fast_gelu(op: Op) -> Cost:
    """X * W, the bias, and the tanh form of Gelu."""
    y = size(out(op))
    bias = Recipe(int(given(op, 2) is not None))
    return work(op, GELU_TANH.plus(bias).times(y), tensor=2 * y * _inner(op))


@cost("QLinearMatMul")
def qlinear_matmul(op: Op) -> Cost:
    """The MACs, and each accumulator requantised."""
    y = size(out(op))
    return work(op, tensor=2 * y * _inner(op), vector=requantize().vector * y)


@cost("QGemm", domain=MS)
def qgemm(op: Op) -> Cost:
    """The MACs, C, and each accumulator requantised, or scaled to float when there is no output scale.

    Inputs A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point.
    """
    y = size(out(op))
    each = 1 if given(op, 6) is not None else 0
    each += requantize(given(op, 8) is not None).vector if given(op, 7) is not None else 2
    return work(op, tensor=2 * y * _inner(op, trans=bool(integer(op, "transA", 0))), vector=each * y)


@cost("MatMulIntegerToFloat", domain=MS)
def matmul_integer_to_float(op: Op) -> Cost:
    """The MACs, a convert and a multiply per output, and the bias (input 6)."""
    y = size(out(op))
    return work(op, tensor=2 * y * _inner(op), vector=(2 + (given(op, 6) is not None)) * y)


@cost("DynamicQuantizeMatMul", domain=MS)
def dynamic_quantize_matmul(op: Op) -> Cost:
    """A quantised by its own range, the MACs, a convert and a multiply per output, and the bias (input 4)."""
    y = size(out(op))
    ranged = dynamic_quantize(size(need(op, 0))).vector
    return work(op, tensor=2 * y * _inner(op), vector=ranged + (2 + (given(op, 4) is not None)) * y)


@cost("Einsum")
def einsum(op: Op) -> Cost:
    """Operands contracted from left to right, as ONNX Runtime does.

    A step that sums over a common index is a matrix product: 2 FLOP per element of the joint index
    space. A step that sums over none is a multiply per element. An index that only one operand has
    and the result has not is summed first: one add per element that disappears. Of a diagonal only
    the diagonal is read.
    """
    terms, result = _einsum_terms(op)
    read = {
        index: _space(term)
        for index, (term, tensor) in enumerate(zip(terms, op.inputs, strict=True))
        if tensor is not None and _space(term) < size(tensor)
    }
    tensor_flops = vector = 0
    left: dict[str, int] = {}
    for index, term in enumerate(terms):
        later = set(result).union(*terms[index + 1 :])
        right = {label: dim for label, dim in term.items() if label in later or label in left}
        vector += _space(term) - _space(right)
        if index == 0:
            left = right
            continue
        kept = {label: dim for label, dim in left.items() if label in later or label in right}
        vector += _space(left) - _space(kept)
        joint = kept | {label: dim for label, dim in right.items() if kept.get(label, 1) == 1}
        left = {label: dim for label, dim in joint.items() if label in later}
        if left == joint:
            vector += _space(joint)
        else:
            tensor_flops += 2 * _space(joint)
    note = "contracted from left to right" if len(terms) > 2 else ""
    return work(op, tensor=tensor_flops, vector=vector, read=read, note=note)


def _space(labels: dict[str, int]) -> int:
    return math.prod(labels.values())


def _einsum_terms(op: Op) -> tuple[list[dict[str, int]], list[str]]:
    """Indices of each operand with their sizes, and those of the result.

    An ellipsis becomes indices ``.0``, ``.1``, ... counted from the right, because it broadcasts.
    """
    equation = string(op, "equation").replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    texts = inputs.split(",")
    if len(texts) != len(op.inputs):
        raise MalformedOpError(f"Einsum {equation!r} does not fit its {len(op.inputs)} inputs")
    terms: list[dict[str, int]] = []
    longest: list[str] = []
    for index, text in enumerate(texts):
        dims = shape(need(op, index))
        before, ellipsis, after = text.partition("...")
        spare = len(dims) - len(before) - len(after)
        dots = [f".{position}" for position in reversed(range(spare))]
        if spare < 0 or (spare and not ellipsis):
            raise MalformedOpError(f"Einsum {equation!r} does not fit operand {index} of shape {list(dims)}")
        terms.append(dict(zip([*before, *dots, *after], dims, strict=True)))
        longest = max(longest, dots, key=len)
    if arrow:
        before, ellipsis, after = result.partition("...")
        return terms, [*before, *(longest if ellipsis else []), *after]
    letters = "".join(texts).replace(".", "")
    return terms, [*longest, *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]
