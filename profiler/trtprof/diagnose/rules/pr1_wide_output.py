"""A quantised product, in a plan, with a wide output.

What:
    A product reads integers or fp8 and writes a wider type. Looked for in a plan, before anything is measured.

Why:
    Without a Q/DQ pair behind a product its output stays float, and is read by what follows at two to four times the
    bytes.

Try:
    Quantise what follows it too: a Q/DQ pair behind it, and behind the addition of a residual. QD804 says what that
    would give in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base import units
from trtprof.base.plan_words import FULL, HALF, NARROW
from trtprof.base.records import PlanLint
from trtprof.diagnose import plan_rule
from trtprof.diagnose.plans import PlanView, size_words


@plan_rule("PR1", "quantised products with wide outputs", order=3)
def check(view: PlanView) -> Iterator[PlanLint]:
    """Products that read integers or fp8 and write a wider type."""
    for matched, _ in view.products:
        layer = matched.layer
        if not layer.inputs or not layer.outputs:
            continue
        source, target = layer.inputs[0], layer.outputs[0]
        if source.dtype not in NARROW or target.dtype not in HALF | FULL:
            continue
        end = " (an output of the engine)" if target.name in view.outputs else ""
        narrow = None if target.elements is None else units.dtype_bytes(source.dtype, target.elements)
        yield PlanLint(
            code="PR1",
            layer=layer.name,
            what=f"reads {source.dtype} and writes {target.dtype}",
            evidence=f"{size_words(target.nbytes)} written{end}, {size_words(narrow)} as {source.dtype}",
            try_="quantise what follows it too: a Q/DQ pair behind it (and behind the addition of a residual)",
        )
