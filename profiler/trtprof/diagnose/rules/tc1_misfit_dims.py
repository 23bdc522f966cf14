"""Dimensions of a product, in a plan, that tensor cores cannot use.

What:
    The channels of a convolution, or K and N of a matrix product, are no multiple of 16 bytes, and the name of its
    tactic does not say that it runs on tensor cores all the same. Looked for in a plan, before anything is measured.

Why:
    Tensor cores work on pieces of 16 bytes: 8 of fp16, 16 of int8, 4 of TF32 (NVIDIA, Matrix Multiplication
    Background User's Guide, "Tensor Core Requirements").

Try:
    Leave the first convolution of a quantised model unquantised. Else pad with zeros in the model, or leave it where
    the layer takes little time: AL802 says what padding would give in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.plan_words import FULL, precision
from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView
from trtprof.diagnose.products import aligned, of_plan, plan_misfits
from trtprof.diagnose.remedies import unquantised
from trtprof.kernel_names.parse import parse


@plan_rule("TC1", "dimensions that tensor cores cannot use", order=1)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Products whose channels, or K and N, are no multiple of what tensor cores work on."""
    for matched, work in view.products:
        layer, tactic = matched.layer, parse(matched.layer.tactic)
        misfits = plan_misfits(matched, work)
        if not misfits or tactic.unit == "tensor":
            continue
        dtype = precision(matched, work)
        align = aligned(dtype)
        shown = " and ".join(f"{size} {name}" if name.endswith("s") else f"{name} = {size}" for name, size in misfits)
        simt = f"; its tactic is one of the CUDA cores ({tactic.evidence}): {layer.tactic}"
        padded = ", ".join(str(-(-size // align) * align) for _, size in misfits)
        yield PlanLint(
            code="TC1",
            layer=layer.name,
            what=f"{misfits[0][0]} no multiple of {align}, as tensor cores want them of "
            f"{'TF32' if dtype in FULL else dtype}",
            evidence=shown + (simt if tactic.unit == "simt" else ""),
            try_=unquantised(of_plan(layer), dtype)
            or f"pad to {padded} with zeros in the model, or leave it where the layer takes little time",
        )
