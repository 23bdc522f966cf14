"""A compute-bound layer far under the arithmetic peak of the device.

What:
    The roofline says that arithmetic bounds the layer, yet it takes more than twice the time in
    which the device does that arithmetic.

Why:
    Few or odd channels leave vector lanes or tensor cores empty; a depthwise or grouped convolution has
    little reuse; a recurrent layer runs one thin product a step; the batch is too small for all threads or
    multiprocessors; special functions (exp, erf, tanh) come from a scalar library.

Try:
    Pad channels to the vector width (on tensor cores to 8 of fp16 or 16 of int8), raise the batch,
    merge parallel products into one, use the runtime's fused op where there is one. A hand-written
    kernel is the last step.
"""

from __future__ import annotations

from profiler.base.op_kinds import op_kind
from profiler.base.records import LayerResult
from profiler.base.units import format_flops, format_ns, format_percent, format_rate
from profiler.diagnose import Case, Loss, layer_rule
from profiler.diagnose.reasons import not_far


@layer_rule("RL102", "compute-bound op far under peak", order=60, thresholds=("efficiency", "of_datasheet"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A layer bound by arithmetic whose efficiency is under the threshold."""
    if (why := not_far(case, layer, "tensor", "vector", "sfu")) is not None:
        return why
    return Loss(layer.lost_ns or 0, _evidence(layer, case) + case.tactic(layer), _remedy(layer, case), 0.7)


def _evidence(layer: LayerResult, case: Case) -> str:
    measured, flops = layer.measured_ns, layer.flops or 0
    share = format_percent((layer.attainable_ns or 0) / measured)
    if layer.bound == "sfu" and layer.work is not None:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(layer.work.special.items()))
        return f"{counts} in {format_ns(measured)}, {share} of the rate of special functions {case.peaks_from}"
    unit = "" if layer.bound == "tensor" else "vector "
    return (
        f"{format_flops(flops)} in {format_ns(measured)} is {format_rate(flops / measured * 1e9, 'FLOP/s')}, "
        f"{share} of the {layer.dtype} {unit}peak {case.peaks_from}"
    )


def _remedy(layer: LayerResult, case: Case) -> str:
    if layer.bound == "sfu":
        return "special functions dominate: use a fused or approximate form (FastGelu, a table), or a lower precision"
    op = case.engine[layer.name].op
    group = op.attributes.get("group", 1)
    kind = op_kind(op.op_type)
    if kind == "convolution":
        if isinstance(group, int) and group > 1:
            return (
                "a grouped or depthwise convolution has little reuse: merge it with the pointwise one, or widen groups"
            )
        if case.gpu:
            return "pad its channels to a multiple of 8 (fp16) or 16 (int8) for the tensor cores, or raise the batch"
        return "pad its channels to a multiple of the vector width, or raise the batch"
    if kind == "recurrent":
        return "each step is one thin product: batch more sequences together, or split the input product off"
    return "raise the batch, or merge products that share an input"
