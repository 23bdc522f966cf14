"""A conversion, in a plan, at the border of the engine.

What:
    A reformat changes the type of an input or output of the engine. Looked for in a plan, before anything is measured.

Why:
    Inputs and outputs have the types of the model, mostly fp32, whatever the engine computes in.

Try:
    Let the engine take or give the type that it computes in, where the program around it can: in the model, or with
    `--inputIOFormats` and `--outputIOFormats`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView, conversion_words


@plan_rule("RF1", "conversions at the border of the engine", order=5)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Reformats that change the type of an input or output of the engine."""
    for matched, source, target in view.conversions():
        side = "input" if source.name in view.inputs else "output" if target.name in view.outputs else ""
        if not side:
            continue
        ours, other = (source, target.dtype) if side == "input" else (target, source.dtype)
        yield PlanLint(
            code="RF1",
            layer=matched.layer.name,
            what=f"converts an {side} of the engine",
            evidence=f"{ours.name}, {conversion_words(source, target)}",
            try_=f"let the engine {'take' if side == 'input' else 'give'} {other} where the program around it can:"
            f" that dtype in the model, or trtexec --{side}IOFormats={other}:chw",
        )
