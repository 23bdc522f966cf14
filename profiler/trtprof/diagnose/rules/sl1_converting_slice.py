"""A slice or shuffle, in a plan, that converts.

What:
    The output of a slice or shuffle has another type than its input. Looked for in a plan, before anything is measured.

Why:
    What could be a view, or a copy of bytes, becomes a kernel that converts each element.

Try:
    Give what is before and behind it one precision.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.plan_words import main_tensors
from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView, conversion_words


@plan_rule("SL1", "slices and shuffles that convert", order=8)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Slices and shuffles whose output has another type than their input."""
    for matched, _ in view.layers:
        layer = matched.layer
        moves = {layer.kind.lower(), layer.parameter_type.lower()} & {"slice", "shuffle"}
        tensors = main_tensors(layer) if moves else None
        if tensors is None:
            continue
        source, target = tensors
        if source.dtype and target.dtype and source.dtype != target.dtype:
            yield PlanLint(
                code="SL1",
                layer=layer.name,
                what=f"a {layer.kind.lower()} that converts {source.dtype} to {target.dtype}",
                evidence=conversion_words(source, target),
                try_="give what is before and behind it one precision",
            )
