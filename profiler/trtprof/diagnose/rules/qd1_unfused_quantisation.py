"""A layer, in a plan, that only quantises or dequantises.

What:
    A quantisation or its inverse is a layer of its own. Looked for in a plan, before anything is measured.

Why:
    It is a part of the layer beside it only where that is its only reader, or makes its tensor, and may run in the
    quantised type.

Try:
    Move the Q/DQ pair next to the product or pooling that it belongs to, quantise what else reads the tensor, or give
    the engine the quantised input. QD803 says what such layers take in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.plan_words import quantisation
from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView, conversion_words


@plan_rule("QD1", "Q/DQ layers left unfused", order=7)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Layers that only quantise or dequantise."""
    for matched, _ in view.layers:
        layer = matched.layer
        change = quantisation(layer)
        if change is None:
            continue
        source, target, quantises = change
        others = [name for name in view.readers.get(source.name, ()) if name != layer.name]
        remedy = "move the Q/DQ pair next to the product or pooling that it belongs to"
        if source.name in view.inputs:
            remedy = "give the engine the quantised input, where the program around it can"
        elif quantises and others:
            remedy = f"quantise what {others[0]} reads too: it reads the same tensor as {source.dtype}"
        yield PlanLint(
            code="QD1",
            layer=layer.name,
            what=f"a layer of its own for {'quantising' if quantises else 'dequantising'}",
            evidence=f"{source.name}, {conversion_words(source, target)}",
            try_=remedy,
        )
