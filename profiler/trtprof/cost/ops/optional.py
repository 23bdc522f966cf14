"""Optional values: a wrapper that holds a value or nothing."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._shapes import given, view, work


@cost("Optional", "OptionalGetElement")
def wrap(op: Op) -> Cost:
    """No traffic: the value is the same with and without the wrapper."""
    return view(op) if given(op, 0) is not None else Cost(note="an empty optional: moves nothing")


@cost("OptionalHasElement")
def has_element(op: Op) -> Cost:
    """Only whether there is a value is looked at."""
    return work(op, read={0: 0}, note="reads no values of its input")
