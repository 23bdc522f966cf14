"""The ceilings are a quick set.

What:
    The ceilings were measured in a few seconds, for a first result: with less ways to reach each of them, fewer
    repeats, and at the run's own thread count alone.

Why:
    A ceiling is the best that the machine was seen doing, and a short look sees less. A full set lies above a quick
    one, so that layers look nearer to their roofline than they are.

Try:
    `trtprof calibrate` measures a full set once, which later runs take.
"""

from __future__ import annotations

from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR912", "quick ceilings", order=0)
def judge(case: Case) -> Claim | str:
    """One finding for a quick set."""
    if case.ceilings.extent != "quick":
        return "the rule is about the whole run: its ceilings are no quick set"
    band = case.ceilings.band
    return doubt(
        f"the ceilings are a quick set: products in fp32 and memory of a full one lie up to {band} % above it, "
        "products in fp64 and int8 up to twice as high, so that more may be lost than is told",
        "trtprof calibrate measures a full set, which later runs take",
        brief=f"quick ceilings (full: up to +{band} %, int8 +100 %)",
        confidence=1.0,
    )
