"""The ceilings were measured while others used the CPUs.

What:
    Other processes, or other guests of the host, kept CPUs busy while the ceilings were measured. From half of the
    CPUs on there is no verdict.

Why:
    A ceiling is the best that the machine was seen doing. What others took of it then is missing, by several times
    where they took the memory bandwidth, so that layers look nearer to their roofline than they are.

Try:
    Close what else runs and run again: ceilings that were measured so are measured again as soon as it is quiet.
    `trtprof calibrate` measures a full set at once.
"""

from __future__ import annotations

from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR911", "ceilings measured on a busy machine", order=0, thresholds=("busy_limit",))
def judge(case: Case) -> Claim | str:
    """One finding when others took a share of the CPUs meanwhile."""
    ceilings, limit = case.ceilings, case.thresholds.busy_limit
    others = ceilings.others_cpus
    if others is None:
        return "the rule is about the whole run: nothing tells what others did while its ceilings were measured"
    taken = f"others kept {others:.1f} of {ceilings.cpus} CPUs busy while the ceilings were measured"
    if not ceilings.disturbed:
        return f"the rule is about the whole run: {taken}"
    beyond = others >= limit * ceilings.cpus
    return doubt(
        f"{taken}: they may be far too low, and layers farther from their roofline than they look"
        + (f"; from {format_percent(limit)} of the CPUs on there is no verdict" if beyond else ""),
        "run again on a quiet machine, where the ceilings are measured again; `trtprof calibrate` measures a full set",
        brief=f"ceilings measured with {others:.1f} of {ceilings.cpus} CPUs busy",
        beyond=beyond,
        confidence=1.0,
    )
