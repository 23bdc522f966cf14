"""Sums, means, extremes, products and norms over any axes, with the element-wise ops before and after."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.plugin import rows
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.task import Task


@template("reduce", "a reduction over any axes, with element-wise ops before and after")
def reduce(task: Task) -> Sequence[Kernel]:
    """Kernels for a body whose reductions are all over the same axes; all else in it is element-wise."""
    if not any(node.op_type.startswith("Reduce") for node in task.body.node):
        raise NotFitError("no reduction is in it")
    found = rows.program(task)
    return rows.write(found, "reduce", "reductions, with what is before and after", rows.shapes_of(found))
