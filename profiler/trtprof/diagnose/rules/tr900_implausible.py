"""What the files say cannot be so.

What:
    Numbers in the files contradict one another, the GPU that is named, or physics: an average that is not the total
    over the number of inferences, layers faster than the GPU can be, an inference in which nothing accounts for most
    of the time, a file that names another GPU. There is no verdict then.

Why:
    The files are of two engines, two GPUs or two runs; times were written in other units (trtexec writes ms); the
    latency was measured with the profiler attached; or a file was edited.

Try:
    Give files of one engine from one run, as they were written: `trtexec --loadEngine=model.plan
    --exportLayerInfo=layers.json --dumpProfile --separateProfileRun --exportProfile=profile.json
    --exportTimes=times.json`, and name the GPU that ran it (`--gpu`).
"""

from __future__ import annotations

from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR900", "implausible files", order=0)
def judge(case: Case) -> Claim | str:
    """One finding for all that cannot be so."""
    if not case.implausible:
        return "the rule is about the whole run: nothing that was read contradicts another thing, or the GPU"
    briefs = dict.fromkeys(brief for brief, _ in case.implausible)
    return doubt(
        "; ".join(sentence for _, sentence in case.implausible) + "; there is no verdict",
        "give files of one engine and one run as trtexec or nsys wrote them, and name the GPU that ran it (--gpu)",
        brief=", ".join(briefs),
        beyond=True,
        confidence=1.0,
    )
