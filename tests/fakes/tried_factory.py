"""What `trtprof try` found, made up: a rung of every verdict."""

from __future__ import annotations

import msgspec

from tests.fakes.report_factory import typical as run
from trtprof.base.records import SCHEMA_VERSION, BestRungs, Interval, Rung, RungCheck, RungKind, RungVerdict, Tried


def rung(
    name: str, verdict: RungVerdict, gain: float | None = None, kind: RungKind = "rewrite", reason: str = ""
) -> Rung:
    ends = None if gain is None else Interval(value=gain, low=gain * 0.97, high=gain * 1.03, level=0.99)
    wrong = verdict == "wrong"
    return Rung(
        name=name, kind=kind, title=f"what {name} does", verdict=verdict, reason=reason, answers=("KN703",), gain=ends,
        tail=None if gain is None else 1e-6, predicted=gain and gain * 1.1, basis="1 MatMul takes 700 ms",
        before_ns=791_000_000 if gain else None, after_ns=round(791e6 / gain) if gain else None,
        turns=24 if gain else 0,
        processes=6 if gain else 0, exact=False,
        checks=(
            RungCheck(
                inputs="zeros", matches=not wrong, tensor="y", max_abs=1e-6, of_tolerance=40.0 if wrong else 0.1,
                reason="an element is 40 times as far off as allowed" if wrong else "",
            ),
        ),
        difference=40.0 if wrong else 0.1, nodes=("/gemv/MatMul",), added=3, seconds=4.5,
    )  # fmt: skip


def typical() -> Tried:
    """A rung of every verdict, with a best."""
    of = run()
    helps = rung("gemv-as-reduce", "helps", 7.1)
    return Tried(
        schema_version=SCHEMA_VERSION,
        model=of.model,
        backend=of.backend,
        device=of.device,
        created="2026-11-23T03:00:00+00:00",
        version="0.1.0",
        command="trtprof try model.onnx",
        threads=2,
        latency=of.latency,
        folder="reports/model-try/base",
        verdict="gemv-as-reduce: 7.1x (6.90 to 7.30)",
        doubts=("p99 is 3.1 x the median",),
        rungs=(
            helps,
            rung("gemv-as-reduce+no-spinning", "helps", 7.3, "combination", "beside gemv-as-reduce alone"),
            rung("no-arena", "no difference", 1.001, "option", "the interval holds 1"),
            rung("threads-1", "slower", 0.6, "option"),
            rung("no-spinning", "unclear", 1.6, "option", "the original took 94.1 ms alone, 60 ms interleaved"),
            rung("pow-as-mul", "wrong", None, reason="on zeros: an element is 40 times as far off as allowed"),
            rung("onnxslim", "failed", None, "pass", "the run of the model died: it was ended by SIGSEGV"),
            rung("ort-transformers", "refused", None, "pass", "sympy is not installed"),
            rung("conv-pad-channels", "not measured", None, reason="it is predicted to be slower"),
        ),
        best=BestRungs(
            rungs=("gemv-as-reduce",), gain=Interval(value=7.1, low=6.9, high=7.3), options={"--threads": "2"},
            model="best.onnx", folder="reports/model-try/best", command="trtprof run best.onnx --threads 2",
            patch=("- MatMul", "+ Mul", "+ ReduceSum"),
        ),
        candidates=3,
        budget_s=300.0,
        spent_s=61.2,
        unfit=("cast-pairs", "loop-unrolled"),
        notes=("there was no time left to combine no-arena",),
    )  # fmt: skip


def nothing() -> Tried:
    """Nothing helped."""
    found = typical()
    kept = tuple(one for one in found.rungs if one.verdict != "helps")
    return msgspec.structs.replace(
        found, rungs=kept, best=None, verdict="nothing helps of the 2 candidates that were measured", doubts=()
    )
