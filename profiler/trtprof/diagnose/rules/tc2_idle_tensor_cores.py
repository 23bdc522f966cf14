"""A product, in a plan, whose tactic leaves the tensor cores idle.

What:
    The dimensions and the dtype of a product suit tensor cores, and the name of its tactic says that it multiplies on
    the CUDA cores. Looked for in a plan, before anything is measured.

Why:
    TF32 was off when the engine was built, or the builder tried too few tactics, or had too little workspace for the
    better ones.

Try:
    Build again with TF32 or half precision allowed, or with a higher optimization level and more workspace: KN702 says
    what that would give in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.plan_words import FULL, precision
from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView
from trtprof.diagnose.products import TENSOR_DTYPES, of_plan, plan_misfits
from trtprof.kernel_names.parse import parse


@plan_rule("TC2", "tactics that leave the tensor cores idle", order=2)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Products with dimensions that suit tensor cores, but with a tactic of the CUDA cores."""
    for matched, work in view.products:
        layer, tactic = matched.layer, parse(matched.layer.tactic)
        if tactic.unit != "simt":
            continue
        product, dtype = of_plan(layer), precision(matched, work)
        unfit = product is not None and not product.suits_tensor_cores
        if dtype not in TENSOR_DTYPES or unfit or plan_misfits(matched, work):
            continue
        remedy = "a higher builder optimization level and more workspace, so that more tactics are tried"
        if dtype in FULL:
            remedy = "TF32 allowed, or in fp16 or bf16"
        yield PlanLint(
            code="TC2",
            layer=layer.name,
            what=f"a product of {dtype} on the CUDA cores",
            evidence=f"'{tactic.evidence}' in its tactic {layer.tactic}",
            try_=f"build again with {remedy}",
        )
