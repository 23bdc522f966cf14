"""Control flow: the bodies are nodes of their own."""

from __future__ import annotations

from profiler.cost import Cost, Moved, cost
from profiler.cost._shapes import need
from profiler.records import Op


@cost("If")
def if_(op: Op) -> Cost:
    """Reads its condition; the branch that is taken is nodes of its own."""
    return Cost(
        reads=(Moved(need(op, 0), 1),),
        note="no arithmetic of its own: its branches are nodes of their own",
    )


@cost("Loop", "Scan")
def loop(_op: Op) -> Cost:
    """No arithmetic; a body can read its slice of a scan input and write that of a scan output in place."""
    return Cost(note="no arithmetic of its own: its body is nodes of its own; scan slices are taken as read in place")
