"""A conversion, in a plan, between two layers.

What:
    A reformat inside the engine changes the type, and does not quantise. Looked for in a plan, before anything is
    measured.

Why:
    Neighbouring layers compute in different precisions: the model casts, or their fastest tactics differ.

Try:
    Give the layers around it one precision. LY201 says what such layers take in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView, conversion_words


@plan_rule("RF2", "conversions between layers", order=6)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Reformats inside the engine that change the type, but do not quantise."""
    for matched, source, target in view.conversions():
        if source.name not in view.inputs and target.name not in view.outputs:
            yield PlanLint(
                code="RF2",
                layer=matched.layer.name,
                what=f"converts {source.dtype} to {target.dtype} between two layers",
                evidence=conversion_words(source, target),
                try_=f"give the layers around it one precision; it is made for {matched.layer.serves or 'a reader'}",
            )
