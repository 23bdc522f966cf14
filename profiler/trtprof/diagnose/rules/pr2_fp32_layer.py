"""A layer of fp32 in the plan of an engine of lower precision.

What:
    A layer computes in fp32 and passes fp32 on inside the engine, where most products are of a narrower type. Looked
    for in a plan, before anything is measured.

Why:
    The model says so (a cast, an op that is kept wide), or the builder found no faster tactic in the narrower type.

Try:
    Cast its inputs down in the model, unless it needs the range or the digits, as exp, sums and norms do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trtprof.base.plan_words import FULL, is_product, is_reformat, precision
from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView, size_words


@plan_rule("PR2", "fp32 layers in an engine of lower precision", order=4)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Layers that compute in fp32 where most products are of a narrower type, and pass fp32 on inside the engine."""
    amounts: Counter[bool] = Counter()
    for matched, work in view.products:
        # By arithmetic where it is known; a product without it counts one.
        amounts[precision(matched, work) in FULL] += (work.tensor_flops if work is not None else 0) or 1
    if amounts[False] <= amounts[True]:
        return
    border = view.inputs | view.outputs
    for matched, work in view.layers:
        layer = matched.layer
        inner = {tensor.dtype for tensor in (*layer.inputs, *layer.outputs) if tensor.name not in border}
        # What is fp32 outside alone is a conversion of what the engine takes or gives.
        if is_reformat(matched) or precision(matched, work) not in FULL or not inner & FULL:
            continue
        moved = work.bytes if work is not None else layer.nbytes
        yield PlanLint(
            code="PR2",
            layer=layer.name,
            what="computes in fp32 in an engine of lower precision",
            evidence=f"{'a product' if is_product(layer) else 'no product'}, {size_words(moved)} moved",
            try_="cast its inputs down in the model, unless it needs the range or the digits (exp, sums, norms)",
        )
