"""Determinant and inverse."""

from __future__ import annotations

import math

from profiler.cost import Cost, cost
from profiler.cost._shapes import MS, need, shape, work
from profiler.records import Op


@cost("Det")
def det(op: Op) -> Cost:
    """LU elimination: n(n-1)/2 divides and n(n-1)(2n-1)/6 multiply-subtracts, then n - 1 multiplies.

    Pivot search is not counted. Source: Golub and Van Loan, Matrix Computations, section 3.2.
    """
    dims = shape(need(op, 0))
    n = dims[-1]
    each = n * (n - 1) // 2 + n * (n - 1) * (2 * n - 1) // 3 + max(n - 1, 0)
    return work(op, vector=math.prod(dims[:-2]) * each, note="counted as LU elimination")


@cost("Inverse", domain=MS)
def inverse(op: Op) -> Cost:
    """2 n^3, the leading term of elimination and the solution for n unit vectors."""
    dims = shape(need(op, 0))
    return work(op, vector=math.prod(dims[:-2]) * 2 * dims[-1] ** 3, note="2 n^3, its leading term")
