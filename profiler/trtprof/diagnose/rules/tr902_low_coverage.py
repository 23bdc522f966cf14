"""Too little kernel time is led back to ONNX nodes.

What:
    The share of kernel time that is attributed, exactly or by inference, is under the threshold.

Why:
    The backend renamed or merged nodes in a way that neither names nor tensors explain.

Try:
    Look at the unattributed layers in the report (`--format json`, match `none`). With a lower
    optimisation level of the backend the names are kept. Of a TensorRT engine, give the model with
    `--onnx`, and build with detailed profiling verbosity. PyTorch writes ranges of its ops with `emit_nvtx`.
"""

from __future__ import annotations

from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule


@run_rule("TR902", "low coverage", order=0, thresholds=("coverage",))
def judge(case: Case) -> Claim | str:
    """One finding when coverage is under the threshold."""
    attributed = case.coverage.exact + case.coverage.inferred
    evidence = (
        f"{format_percent(attributed)} of {case.time_of} time is attributed, "
        f"{format_percent(case.thresholds.coverage)} are needed"
    )
    if attributed >= case.thresholds.coverage:
        return f"the rule is about the whole run: {evidence}"
    return doubt(
        evidence,
        _remedy(case),
        brief=f"only {format_percent(attributed)} of {case.time_of} time attributed",
        beyond=True,
        confidence=1.0,
    )


def _remedy(case: Case) -> str:
    if case.tensorrt:
        return (
            "give the layers of the engine with --layers and the model that it was built from with --onnx, and build "
            "it with --profilingVerbosity=detailed"
        )
    if case.backend == "pytorch":
        return "run it under torch.autograd.profiler.emit_nvtx() and capture with nsys profile -t cuda,nvtx"
    return "look at the layers with match none in --format json before trusting any share"
