"""A compute-bound layer far under the arithmetic peak of the device.

What:
    The roofline says that arithmetic bounds the layer, yet it takes more than twice the time in
    which the device does that arithmetic.

Why:
    Few or odd channels leave vector lanes empty; a depthwise or grouped convolution has little
    reuse; a recurrent layer runs one thin product a step; the batch is too small for all threads;
    special functions (exp, erf, tanh) cost more than one FLOP each.

Try:
    Pad channels to the vector width, raise the batch, merge parallel products into one, use the
    runtime's fused op where there is one. A hand-written kernel is the last step.
"""

from __future__ import annotations

from collections.abc import Iterator

from profiler.diagnose import Case, Claim, rule
from profiler.records import LayerResult
from profiler.units import format_flops, format_ns, format_percent, format_rate


@rule("RL102", "compute-bound op far under peak", order=60)
def check(case: Case) -> Iterator[Claim]:
    """Layers bound by arithmetic whose efficiency is under the threshold."""
    for layer in case.layers:
        if layer.bound != "compute" or layer.role != "compute" or layer.attainable_ns is None:
            continue
        if not layer.measured_ns or not layer.lost_ns or not layer.flops:
            continue
        efficiency = layer.attainable_ns / layer.measured_ns
        if efficiency >= case.thresholds.efficiency or layer.lost_ns <= case.clock_resolution_ns:
            continue
        rate = format_rate(layer.flops / layer.measured_ns * 1e9, "FLOP/s")
        yield Claim(
            where=layer.name,
            evidence=(
                f"{format_flops(layer.flops)} in {format_ns(layer.measured_ns)} is {rate}, "
                f"{format_percent(efficiency)} of the {layer.dtype or 'fp32'} peak measured here"
            ),
            remedy=_remedy(layer, case),
            layers={layer.name: layer.lost_ns},
            confidence=0.7,
        )


def _remedy(layer: LayerResult, case: Case) -> str:
    op = case.engine[layer.name].op
    group = op.attributes.get("group", 1)
    if "Conv" in layer.op_type:
        if isinstance(group, int) and group > 1:
            return (
                "a grouped or depthwise convolution has little reuse: merge it with the pointwise one, or widen groups"
            )
        return "pad its channels to a multiple of the vector width, or raise the batch"
    if layer.op_type in ("LSTM", "GRU", "RNN"):
        return "each step is one thin product: batch more sequences together, or split the input product off"
    if layer.work is not None and layer.work.special * 2 > layer.work.flops:
        return "special functions dominate: use a fused or approximate form (FastGelu, a table), or a lower precision"
    return "raise the batch, or merge products that share an input"
