"""Control flow: the bodies are nodes of their own."""

from __future__ import annotations

from profiler.cost import cost
from profiler.cost._shapes import need, size_bytes
from profiler.records import Op, Work


@cost("If")
def if_(op: Op) -> Work:
    """Reads its condition; the branch that is taken is nodes of its own."""
    condition = need(op, 0)
    count = size_bytes(condition, 1)
    return Work(
        bytes_read=count,
        bytes_parameters=count if condition.constant else 0,
        note="no arithmetic of its own: its branches are nodes of their own",
    )


@cost("Loop", "Scan")
def loop(_op: Op) -> Work:
    """No arithmetic; slicing scan inputs and stacking scan outputs is not counted."""
    return Work(bound="lower", note="no arithmetic of its own: its body is nodes of its own; scan copies not counted")
