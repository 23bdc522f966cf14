"""Control flow: the bodies are nodes of their own."""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base.records import Op, WorkBound
from trtprof.cost import Cost, Moved, cost
from trtprof.cost._shapes import need

MOST_TRIPS = 2**31 - 1
"""A Loop that may make more trips has no trip count."""


class Trips(NamedTuple):
    """How often the body of an op runs each time that the op does."""

    repeats: int
    bound: WorkBound = "exact"
    note: str = ""


def trips(op: Op) -> Trips:
    """How often the bodies of an op run; one that is not known counts once.

    A Scan makes as many trips as its scan inputs are long; a Loop as many as its trip count says,
    where that is a constant and meant. The modifiers of FlexAttention run once on all scores.
    """
    if op.op_type == "If":
        condition = op.inputs[0] if op.inputs else None
        if condition is not None and condition.value:
            return Trips(1)
        return Trips(1, "upper", "of each If the branch with more work is counted")
    if op.op_type == "FlexAttention":
        return Trips(1)
    if op.op_type == "Scan":
        # A plan that came without its model is priced without onnx, whose import takes longer than that.
        from trtprof.base.onnx_graph import scan_length

        length = scan_length(op)
        if length is not None:
            return Trips(length)
    if op.op_type == "Loop":
        limit = op.inputs[0] if op.inputs else None
        # Exporters write the largest integer where a condition alone ends the loop.
        if limit is not None and limit.value and limit.value[0] <= MOST_TRIPS:
            if len(op.inputs) < 2 or op.inputs[1] is None:
                return Trips(max(limit.value[0], 0))
            return Trips(max(limit.value[0], 0), "upper", "each Loop is counted as long as its trip count says")
    return Trips(1, "lower", f"the body of a {op.op_type} whose trips are not known is counted once")


@cost("If")
def if_(op: Op) -> Cost:
    """Reads its condition; the branch that is taken is nodes of its own."""
    return Cost(reads=(Moved(need(op, 0), 1),), note="no arithmetic of its own: its branches are nodes of their own")


@cost("Loop", "Scan", "SequenceMap")
def loop(_op: Op) -> Cost:
    """No arithmetic; a body can read its slice of a scan input and write that of a scan output in place."""
    return Cost(note="no arithmetic of its own: its body is nodes of its own, which can work on slices in place")
