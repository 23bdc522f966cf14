"""Determinant, inverse, distances and alignment."""

from __future__ import annotations

import math

import msgspec

from trtprof.base.records import Op
from trtprof.cost import Cost, CostError, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, need, out, shape, size, string, work


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


_DISTANCES = {"euclidean": {"sqrt": 1}, "sqeuclidean": {}, "cityblock": {}, "chebyshev": {}}


@cost("CDist", domain=MS)
def pairwise_distances(op: Op) -> Cost:
    """Distances of the rows of A [m, n] and B [k, n], 3 n - 1 FLOP each, and a root where Euclidean.

    A difference, its square or absolute value, and their sum or maximum.

    Raises:
        CostError: The metric is another.
    """
    metric = string(op, "metric", "sqeuclidean")
    if metric not in _DISTANCES:
        raise CostError(f"CDist with metric {metric!r} has no formula here")
    n = shape(need(op, 0))[1]
    return work(op, Recipe(max(3 * n - 1, 0), _DISTANCES[metric]).times(size(out(op))))


@cost("DynamicTimeWarping", domain=MS)
def dynamic_time_warping(op: Op) -> Cost:
    """The least of three predecessors and an add per cell of the costs [m, n]; the path has less than m + n steps."""
    *_, m, n = shape(need(op, 0))
    if out(op).elements is not None:
        return work(op, vector=3 * m * n)
    longest = msgspec.structs.replace(out(op), shape=(2, max(m + n - 1, 0)))
    return work(
        msgspec.structs.replace(op, outputs=(longest,)),
        vector=3 * m * n,
        bound="upper",
        note="the longest path counted as written",
    )
