"""Windows that slide over a tensor: the elements that they touch, and what a fast algorithm saves of the products."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from trtprof.base.records import Op
from trtprof.cost._shapes import MS, NHWC, integer, integers, need, out, shape, string


def fast_products(flops: int, kernel: Sequence[int], strides: Sequence[int]) -> int:
    """The part of the products of a convolution that a fast algorithm does without, in FLOP."""
    return flops - -(-flops // 4) if tuple(kernel) == (3, 3) and set(strides) == {1} else 0


def channels_last(op: Op) -> bool:
    """Whether the channels of activations are the last dimension, as in ONNX Runtime's own forms."""
    own = op.op_type.startswith("Nhwc") or bool(integer(op, "channels_last", 0))
    return op.domain == NHWC or (op.domain == MS and own)


def _spatial(op: Op, dims: Sequence[int]) -> tuple[int, ...]:
    """Dimensions of activations that a window slides over."""
    return tuple(dims[1:-1] if channels_last(op) else dims[2:])


def touched_elements(op: Op, kernel: Sequence[int]) -> int:
    """Elements of the first input that any window touches."""
    dims = shape(need(op, 0))
    sizes, outputs = _spatial(op, dims), _spatial(op, shape(out(op)))
    rank = len(sizes)
    strides, dilations = integers(op, "strides") or (1,) * rank, integers(op, "dilations") or (1,) * rank
    if not rank or {len(outputs), len(kernel), len(strides), len(dilations)} != {rank}:
        return math.prod(dims)
    before = _pads_before(op, sizes, kernel, strides, dilations, outputs)
    places = [touched(*each) for each in zip(sizes, kernel, strides, dilations, before, outputs, strict=True)]
    whole = math.prod(sizes)
    return math.prod(dims) // whole * math.prod(places) if whole else 0


@functools.lru_cache(maxsize=4096)
def touched(size: int, window: int, stride: int, dilation: int, before: int, outputs: int) -> int:
    """Places of one dimension that windows touch."""
    if size <= 0 or outputs <= 0:
        return 0
    if dilation == 1 and window >= stride:
        return max(min(size, (outputs - 1) * stride + window - before) - max(-before, 0), 0)
    # Elements a period apart touch places of the same remainder; those of any other period touch others.
    shared = math.gcd(dilation, stride)
    period = stride // shared
    seen = 0
    for element in range(min(window, period, _MOST_REMAINDERS)):
        index, remainder = divmod(element * dilation - before, stride)
        count = len(range(element, window, period))
        seen += _covered(index, dilation // shared, count, outputs, -(-(size - remainder) // stride))
    return seen


_MOST_REMAINDERS = 1 << 16
"""More are not counted, of windows that no network has: what is left is a bound from below."""


def _covered(first: int, apart: int, count: int, length: int, size: int) -> int:
    """How many of ``size`` places lie in any of ``count`` runs of ``length`` that begin ``apart`` from one another."""
    if apart <= length:
        return max(min(first + (count - 1) * apart + length, size) - max(first, 0), 0)
    begin = max(-((first + length - 1) // apart), 0)
    end = min((size - 1 - first) // apart, count - 1)
    if size <= 0 or end < begin:
        return 0
    cut = max(-(first + begin * apart), 0) + max(first + end * apart + length - size, 0)
    return (end - begin + 1) * length - cut


def _pads_before(
    op: Op,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    outputs: Sequence[int],
) -> tuple[int, ...]:
    auto = string(op, "auto_pad", "NOTSET")
    if not auto.startswith("SAME"):
        pads = integers(op, "pads") if auto == "NOTSET" else None
        return pads[: len(sizes)] if pads and len(pads) == 2 * len(sizes) else (0,) * len(sizes)
    both = [
        max((count - 1) * stride + (window - 1) * dilation + 1 - size, 0)
        for size, window, stride, dilation, count in zip(sizes, kernel, strides, dilations, outputs, strict=False)
    ]
    return tuple(pad // 2 if auto == "SAME_UPPER" else pad - pad // 2 for pad in both)
