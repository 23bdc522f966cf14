"""The work of every op: FLOPs and bytes, from shapes and attributes alone.

A cost function takes an `Op` and returns its `Work`. Functions live in ``cost/ops/<family>.py``
and are filed under ``(domain, op_type)`` and a range of opsets:

    @cost("Gemm", first=7)
    def gemm(op: Op) -> Work: ...

Conventions, the same for every op:

* The multiply-accumulates of convolutions, matrix products, recurrent gates and attention are
  ``tensor_flops``, 2 per MAC, whatever unit runs them and whatever their dtype.
* All other arithmetic is ``vector_flops``: one per add, multiply, divide, compare, negation,
  absolute value, rounding, logic or bit operation, and one per element that changes dtype.
* exp, log, erf, tanh, sine and the like, square root and power are ``special``, one each.
* An op is counted as its definition reads, with the stable softmax (maximum subtracted) and the
  two-pass variance. Index arithmetic and what is computed once per axis are not counted.
* Convolution: every output element takes the whole kernel, so that padded positions count as MACs.
  Transposed convolution: every input element meets the whole kernel. Pooling: the whole window,
  padding included, per output element.
* ``bytes_read``: each distinct input once, at its dtype, however often an algorithm comes back to
  it, and only the part that is touched where that is known (Slice, Gather). ``bytes_parameters``
  is the part of it that is constant. ``bytes_written``: each output that is present.
* A view (Reshape, Squeeze, Identity, ...) moves nothing.
* What data decides is bounded: ``bound`` says from which side, ``note`` why.
* Shapes are taken as recorded, so that a layout that pads channels counts what it pads.
"""

from __future__ import annotations

from collections.abc import Callable

from profiler.records import Op, Work
from profiler.registry import NEWEST, Registry

CostFunction = Callable[[Op], Work]

COSTS: Registry[tuple[str, str], CostFunction] = Registry("cost", "profiler.cost.ops", "trtprof.costs")


class UnknownShapeError(Exception):
    """A cost function met a tensor whose shape or dtype it needs and does not have."""


def cost(
    *op_types: str, domain: str = "", first: int = 1, last: int = NEWEST
) -> Callable[[CostFunction], CostFunction]:
    """Decorator that files a cost function under op types of one domain and a range of opsets."""
    return COSTS.register(*((domain, op_type) for op_type in op_types), first=first, last=last)


def work_of(op: Op) -> Work | None:
    """The work of one op, or None when no cost function knows it.

    Raises:
        UnknownShapeError: The op is known, but a tensor that its cost depends on is not.
    """
    function = COSTS.get((op.domain, op.op_type), op.opset)
    return None if function is None else function(op)
