"""Ops whose work, and often whose output shape, is decided by the data."""

from __future__ import annotations

import math

from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, Spare, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, axis_of, constant, given, integer, need, out, shape, size, work


def _log2(count: int) -> int:
    """Levels of a comparison sort or a heap of ``count`` values: the ceiling of log2."""
    return max(count - 1, 0).bit_length()


def heap_compares(n: int, k: int) -> int:
    """Compares that find the best ``k`` of ``n`` values in order.

    A heap of k: a compare with its least, and at most two per level to sift down, then its sort:
    n * (1 + 2 log2 k) + k * log2 k.
    """
    return n * (1 + 2 * _log2(k)) + k * _log2(k)


def _known(tensor: Tensor) -> bool:
    return tensor.elements is not None


def _at_most(op: Op, most: dict[int, int]) -> Op:
    """The op with outputs of unknown size replaced by ones of the given largest number of elements."""
    outputs = [
        tensor
        if tensor is None or _known(tensor)
        else Tensor(name=tensor.name, dtype=tensor.dtype, shape=(most[index],))
        for index, tensor in enumerate(op.outputs)
    ]
    return Op(
        op_type=op.op_type,
        domain=op.domain,
        opset=op.opset,
        attributes=op.attributes,
        inputs=op.inputs,
        outputs=tuple(outputs),
    )


def _most(op: Op, most: dict[int, int], *, note: str, vector: int = 0) -> Cost:
    """The cost of an op whose data decide how much there is of its outputs: the most, of which nothing is sure."""
    found = work(_at_most(op, most), vector=vector, bound="upper", note=note)
    names = frozenset(moved.tensor.name for moved in (*found.reads, *found.writes))
    return found._replace(spare=Spare(0, found.arithmetic, names))


@cost("TopK")
def top_k(op: Op) -> Cost:
    """The compares of `heap_compares` per line."""
    dims = shape(need(op, 0))
    axis = axis_of(op, len(dims), -1)
    n, k = dims[axis], shape(out(op))[axis]
    rows = math.prod(dims) // n if n else 0
    note = "compares depend on the order of the data: heap of k"
    found = work(op, vector=rows * heap_compares(n, k), bound="upper", note=note)
    # Every element is looked at once in any case.
    return found._replace(spare=Spare(0, Recipe(max(found.arithmetic.vector - size(need(op, 0)), 0))))


@cost("NonZero")
def non_zero(op: Op) -> Cost:
    """A compare per element; where the count is not known, every element is one that is not zero."""
    x = need(op, 0)
    vector = size(x)
    if _known(out(op)):
        return work(op, vector=vector)
    return _most(op, {0: len(shape(x)) * vector}, vector=vector, note="every element counted as not zero")


@cost("Unique")
@cost("Unique", domain=MS)
def unique(op: Op) -> Cost:
    """A sort: n * log2 n compares of slices; where the count is not known, all are distinct."""
    x = need(op, 0)
    total = size(x)
    dims = shape(x)
    n = dims[axis_of(op, len(dims), 0)] if "axis" in op.attributes else total
    compares = total * _log2(n)
    note = "counted as a sort of values that are all distinct"
    return _most(op, {0: total, 1: n, 2: n, 3: n}, vector=compares, note=note)


@cost("Compress")
def compress(op: Op) -> Cost:
    """Moves the slices that are picked; where the count is not known, all of them."""
    x = need(op, 0)
    y = out(op)
    if _known(y):
        return work(op, read={0: size(y)})
    return _most(op, {0: size(x)}, note="every slice counted as picked")


@cost("NonMaxSuppression")
def non_max_suppression(op: Op) -> Cost:
    """Per class a sort of the scores, then each box against each box selected so far.

    An intersection over union takes 19 FLOP: 4 compares and 2 subtracts for the sides of the overlap, 2
    compares with zero and a multiply; two areas of 3 each; an add, a subtract and a divide for the
    ratio; a compare with the threshold. Inputs boxes [batch, n, 4], scores [batch, classes, n], the largest
    number to select per class, iou_threshold, score_threshold.
    """
    batch, classes, n = shape(need(op, 1))
    limit = constant(op, 2)
    picked = min(n, limit[0]) if limit else n
    if given(op, 2) is None:
        picked = 0
    per_class = n + n * _log2(n) + 19 * n * picked
    most = {0: batch * classes * picked * 3}
    return _most(op, most, vector=batch * classes * per_class, note="every box counted as a candidate")


@cost("Multinomial")
def multinomial(op: Op) -> Cost:
    """Exp and running sum of each row of log-probabilities, and a binary search per sample."""
    batch, classes = shape(need(op, 0))
    samples = shape(out(op))[1]
    return work(
        op,
        Recipe(0, {"exp": batch * classes}),
        vector=batch * (classes + samples * _log2(classes)),
        bound="lower",
        note="the arithmetic of the generator is not specified",
    )


@cost("BifurcationDetector", domain=MS)
def bifurcation_detector(op: Op) -> Cost:
    """Where the prediction leaves the source, then a search of the source for the last n-gram of each length.

    At most a compare per predicted token, and n per source token for n from ``min_ngram_size`` to
    ``max_ngram_size``. Inputs src_tokens, cur_tokens, prev_suffix_match_idx, pred_tokens.
    """
    source, current = size(need(op, 0)), size(need(op, 1))
    predicted = given(op, 3)
    new = size(predicted) if predicted is not None else 0
    lengths = range(integer(op, "min_ngram_size", 1), integer(op, "max_ngram_size", 3) + 1)
    return _most(
        op, {0: current + new, 1: 1}, vector=new + source * sum(lengths), note="every token counted as searched"
    )


@cost("NGramRepeatBlock", domain=MS)
def ngram_repeat_block(op: Op) -> Cost:
    """Scores copied; each earlier n-gram compared with the last tokens. Inputs input_ids [batch, length], scores."""
    batch, length = shape(need(op, 0))
    n = integer(op, "ngram_size", 1)
    return work(
        op,
        vector=batch * max(length - n + 1, 0) * max(n - 1, 0),
        bound="upper",
        note="a compare ends at the first token that differs",
    )
