"""What a cost function is written with, under one name for other distributions: see the manual's page "Extending"."""

from __future__ import annotations

from trtprof.cost import Cost, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import axis_of, constant, given, integer, integers, need, number, out, shape, size, work

__all__ = [
    "Cost", "Recipe", "axis_of", "constant", "cost", "given", "integer", "integers", "need", "number", "out", "shape",
    "size", "work",
]  # fmt: skip
