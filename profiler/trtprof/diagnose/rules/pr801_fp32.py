"""A model of fp32 products on a GPU that multiplies narrower types faster.

What:
    Most multiply-accumulates of the model are fp32, arithmetic bounds them, and the GPU has a higher peak for fp16 (or
    for TF32, where that is off). One finding for the whole model.

Why:
    Exporters write fp32, and engines keep what the file says unless they are told otherwise. Tensor cores multiply
    fp16 at two to eight times the rate of TF32, and bytes halve too; without TF32 fp32 does not use them at all.

Try:
    Build in fp16 (`--fp16`) and compare the outputs with those of fp32; layers that lose too many digits (norms,
    softmax, sums) can stay wide. The price is an estimate: each layer at the same share of the narrower roofline.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent, format_rate
from trtprof.diagnose import Case, Claim, rule
from trtprof.diagnose.products import multiplies, no_product, product_dtype, tf32_off
from trtprof.diagnose.reasons import bound_otherwise


def _saved(case: Case, layer: LayerResult) -> int | str:
    """What fp16 would save in a layer, in ns, or why it would not."""
    if why := no_product(case, layer) or bound_otherwise(case, layer, "tensor", "vector"):
        return why
    if product_dtype(layer) != "fp32":
        return f"it multiplies {product_dtype(layer)}, not fp32"
    half, full = _peak(case, "fp16"), case.ceilings.attainable.tensor_flops_per_s["fp32"]
    if half <= full:
        return f"fp16 is no faster here: {format_rate(half, 'FLOP/s')} against {format_rate(full, 'FLOP/s')} of fp32"
    saving = _saving(layer, half, bytes_share=0.5)
    if saving <= case.clock_resolution_ns:
        return f"with fp16 it would take {format_ns(saving)} less, which is within the step of the clock that timed it"
    return saving


def _reason(case: Case, layer: LayerResult) -> str:
    saving = _saved(case, layer)
    if not isinstance(saving, str) and not _is_fp32(case):
        return "most multiply-accumulates of the model are of another type than fp32"
    return saving if isinstance(saving, str) else ""


@rule("PR801", "fp32 where a narrower type is faster", order=65, reason=_reason)
def check(case: Case) -> Iterator[Claim]:
    """The fp32 products of an fp32 model that arithmetic bounds, as one finding; silent where fp16 is no faster."""
    if not case.gpu or not _is_fp32(case):
        return
    judged = ((layer, _saved(case, layer)) for layer in case.unclaimed)
    savings = {layer.name: saving for layer, saving in judged if not isinstance(saving, str)}
    if not savings:
        return
    layers = [layer for layer in case.layers if layer.name in savings]
    half, full = _peak(case, "fp16"), case.ceilings.attainable.tensor_flops_per_s["fp32"]
    worst = max(layers, key=lambda layer: (savings[layer.name], layer.name))
    now = sum(layer.measured_ns for layer in layers)
    saved = sum(savings[layer.name] for layer in layers)
    tf32 = "allow TF32 (without --noTF32), or " if tf32_off(case.spec, case.ceilings) else ""
    build = "trtprof run MODEL --fp16" if case.tensorrt else "trtprof run MODEL --backend tensorrt --fp16"
    yield Claim(
        where=f"{len(layers)} fp32 product{'s' if len(layers) > 1 else ''}, largest {worst.name}",
        evidence=(
            f"{format_ns(now)} a run, {format_percent(case.share(case.in_latency(now)))} of latency, in fp32 at a peak "
            f"of {format_rate(full, 'FLOP/s')}; fp16 has {format_rate(half, 'FLOP/s')} ({case.peaks_from}), where the "
            f"same share of the roofline takes {format_ns(now - saved)}{_by_tf32(case, layers)}"
        ),
        remedy=(f"{tf32}build in fp16 ({build}), and compare the outputs with those of fp32"),
        layers={layer.name: savings[layer.name] for layer in layers},
        confidence=0.5,
    )


def _is_fp32(case: Case) -> bool:
    """Whether most multiply-accumulates of the model are fp32."""
    amounts = {False: 0, True: 0}
    for layer in case.layers:
        if multiplies(layer) and layer.work is not None:
            amounts[product_dtype(layer) == "fp32"] += layer.work.tensor_flops
    return amounts[True] > amounts[False]


def _peak(case: Case, dtype: str) -> float:
    """FLOP/s that this GPU multiplies a dtype with; 0 where it has no tensor cores for it."""
    if case.spec is None or dtype not in case.spec.tensor_flops_per_s:
        return 0.0
    return case.ceilings.attainable.tensor_flops_per_s.get(dtype, 0.0)


def _saving(layer: LayerResult, peak: float, *, bytes_share: float) -> int:
    """What a layer would take less, in ns, with products at ``peak`` and as large a share of its roofline as now."""
    if layer.work is None or not layer.attainable_ns:
        return 0
    terms = dict(layer.terms)
    terms["tensor"] = round(layer.work.tensor_flops * 1e9 / peak)
    for level in ("dram", "l2"):
        terms[level] = round(terms.get(level, 0) * bytes_share)
    return max(round(layer.measured_ns * (1 - max(terms.values()) / layer.attainable_ns)), 0)


def _by_tf32(case: Case, layers: list[LayerResult]) -> str:
    """What TF32 alone would give, where it is off."""
    if not tf32_off(case.spec, case.ceilings) or case.spec is None:
        return ""
    figures = case.spec.tensor_flops_per_s["tf32"].values()
    peak = case.ceilings.attainable.tensor_flops_per_s.get("tf32") or max(figure.value for figure in figures)
    saved = sum(_saving(layer, peak, bytes_share=1.0) for layer in layers)
    now = sum(layer.measured_ns for layer in layers)
    return f"; TF32 is off, with it {format_ns(now - saved)}"
