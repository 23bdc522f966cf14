"""Threads of ONNX Runtime that spin on CPUs which other processes use too.

What:
    The session has several threads that spin while they wait for work, and other processes kept CPUs busy while the
    latency was measured, or the threads waited for a CPU; or it has more threads than CPUs.

Why:
    A thread that spins uses up its time slice without doing work. When the others need the CPU, the thread with the
    work is the one that is stopped, and all threads wait for the slowest one at the end of every op.

Try:
    Sleep in place of spinning (`session.intra_op.allow_spinning=0`), or one thread, where the deployment shares its
    CPUs as this machine did. On a machine of its own, spinning and a thread a core are faster.
"""

from __future__ import annotations

from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, run_rule


@run_rule("HO503", "threads spin on busy CPUs", order=65, thresholds=("others_cpus", "waited"))
def judge(case: Case) -> Claim | str:
    """Several spinning threads next to other processes; or more threads than CPUs."""
    use = case.cpu_use
    if not case.on_ort_cpu or use is None:
        return "the rule is about threads of ONNX Runtime on a CPU, and what else used the CPUs meanwhile"
    threads, others, waited = int(case.options.get("intra_op_threads", "0")), use.others_cpus or 0.0, use.waited or 0.0
    if threads > use.cpus > 0:
        return Claim(
            where="the session",
            evidence=f"{threads} threads on {use.cpus} CPUs",
            remedy=f"use at most {use.cpus} threads (--threads {use.cpus})",
            confidence=0.9,
            always=True,
        )
    if threads < 2 or case.options.get("session.intra_op.allow_spinning") == "0":
        return "the session has one thread, or threads that do not spin"
    crowded = others >= case.thresholds.others_cpus and threads + others > use.cpus
    if not crowded and waited < case.thresholds.waited:
        return (
            f"other processes kept {others:.1f} of {use.cpus} CPUs busy, and the threads waited "
            f"{format_percent(waited)} of their time for one"
        )
    by = f"{use.others} other process{'es' * (use.others != 1)}" if use.others else "other processes"
    waits = f"; the threads waited {format_percent(waited)} of their time for a CPU" if use.waits else ""
    return Claim(
        where="the session",
        evidence=(
            f"{threads} threads spin while they wait for work, on {use.cpus} CPUs, of which {by} kept {others:.1f} "
            f"busy{waits}"
        ),
        remedy="where CPUs are shared as here: let threads sleep (session.intra_op.allow_spinning=0), or use one",
        confidence=0.8,
        always=True,
        rungs="no-spinning,threads-1",
    )
