"""The work of every op: FLOPs and bytes, from shapes and attributes alone.

A cost function takes an `Op` and returns its `Work`. Functions live in ``cost/ops/<family>.py``
and are filed under ``(domain, op_type)`` and a range of opsets:

    @cost("Gemm", first=7)
    def gemm(op: Op) -> Work: ...
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
