"""Layer and root-mean-square normalisation, as an op or spelled out, with a residual before and a scale behind."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.plugin import rows
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.task import Task

OPS = frozenset(
    {
        "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
    }
)  # fmt: skip
SPELLED = frozenset({"ReduceMean", "Sqrt"})  # Ops that all spellings have


@template("norm", "layer or root-mean-square normalisation, with residual, scale and bias")
def norm(task: Task) -> Sequence[Kernel]:
    """Kernels for a body with a normalisation over the same dims throughout; all else in it is element-wise."""
    ops = {node.op_type for node in task.body.node}
    if not ops & OPS and not ops >= SPELLED:
        raise NotFitError("no normalisation is in it")
    found = rows.program(task)
    return rows.write(
        found, "norm", "normalisation; a variance is that of what is left without the mean", rows.shapes_of(found)
    )
