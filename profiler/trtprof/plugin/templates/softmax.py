"""Softmax and its logarithm, with the mask and the scale before it and what follows, in one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.plugin import rows
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.task import Task

OPS = frozenset({"Softmax", "LogSoftmax"})


@template("softmax", "softmax along one axis, with mask, scale and other element-wise ops around it")
def softmax(task: Task) -> Sequence[Kernel]:
    """Kernels for a body with a Softmax or LogSoftmax; all else in it is element-wise, or reduces the same axis."""
    if not any(node.op_type in OPS for node in task.body.node):
        raise NotFitError("no Softmax is in it")
    found = rows.program(task)
    return rows.write(found, "softmax", "softmax; the largest of a row is taken off first", rows.shapes_of(found))
