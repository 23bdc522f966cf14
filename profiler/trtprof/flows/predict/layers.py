"""What a built engine should take on GPUs that need not be at hand: its plan and datasheets in, a prediction out.

A pure function like `trtprof.flows.predict.groups`, which does the same where there is no engine.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trtprof.analysis.plan import PricedPlan, estimates_of, expectations_of, on_device, traffic_of, would_price
from trtprof.base.plan_words import LAUNCHING
from trtprof.base.records import (
    EngineFacts,
    GpuPrediction,
    GpuSpec,
    MatchedLayer,
    PlanTensor,
    PredictedLayer,
    Prediction,
    Source,
    Unsupported,
)
from trtprof.base.units import format_shape
from trtprof.estimate.cache import Traffic
from trtprof.flows.predict import on_gpus
from trtprof.flows.predict.on_gpus import Settings, ceilings_of, has_unit

_OTHER_FLOATS = {
    "fp32": frozenset({"fp16", "bf16"}),
    "tf32": frozenset({"fp16", "bf16"}),
    "fp16": frozenset({"bf16"}),
    "bf16": frozenset({"fp16"}),
}
"""Precision asked for -> dtypes that an engine of that precision does not compute with."""

_TITLES = {"tensorrt": "TensorRT", "tensorrt-rtx": "TensorRT-RTX"}


def predict_plan(priced: PricedPlan, source: Source, specs: Sequence[GpuSpec], how: Settings) -> Prediction:
    """Predict the layers of an engine on each GPU.

    `how`: what is asked; the level is ``layers``, whatever it says, and the precision that of the engine.
    """
    on_gpus.check(how)
    op_types = {node.name: node.op.op_type for node in source.nodes}
    shown = [
        (index, _layer(matched, op_types))
        for index, matched in enumerate(priced.document.layers)
        if matched.role in LAUNCHING
    ]
    memory_bytes = _memory(priced, source)
    document = priced.document
    # By size of the cache, the same at every precision of a GPU.
    traffic: dict[int, tuple[Traffic, ...]] = {}
    found = tuple(_on_gpu(priced, shown, memory_bytes, spec, how, traffic) for spec in specs)
    return on_gpus.prediction(
        source,
        "layers",
        how,
        memory_bytes,
        found,
        _unsupported(priced, shown, found),
        tuple(_assumptions(priced, how)),
        would_price=would_price(priced, source),
        engine=document.facts,
        fates=document.fates,
    )


def computes_otherwise(priced: PricedPlan, precision: str) -> str:
    """Why the engine cannot tell what the model takes at a precision, in words; empty where it can."""
    others = sorted(_OTHER_FLOATS.get(precision, frozenset()) & _dtypes(priced))
    return f"the engine computes in {' and '.join(others)}, as the file has it" if others else ""


def _dtypes(priced: PricedPlan) -> frozenset[str]:
    """What its layers compute with."""
    found: set[str] = set()
    for work in priced.document.works:
        if work is not None and work.dtype not in found and work.flops:
            found.add(work.dtype)
    return frozenset(found)


def _layer(matched: MatchedLayer, op_types: dict[str, str]) -> PredictedLayer:
    layer = matched.layer
    found = [op_types[name] for name in matched.nodes if name in op_types]
    return PredictedLayer(
        name=layer.name,
        op_type=" + ".join(found) or layer.kind,
        nodes=matched.nodes,
        shapes=f"{_dims((*layer.inputs, *layer.constants))} -> {_dims(layer.outputs)}".strip(" ->"),
        kind=layer.kind,
        role=matched.role,
        match=matched.match,
        reason=matched.reason,
    )


def _dims(tensors: Iterable[PlanTensor]) -> str:
    distinct = {tensor.name: tensor.dims for tensor in tensors}
    return ", ".join(map(_dims_words, distinct.values()))


@functools.lru_cache(maxsize=1 << 12)
def _dims_words(dims: tuple[int, ...] | None) -> str:
    return format_shape(dims)


def _memory(priced: PricedPlan, source: Source) -> int:
    weights: dict[str, int] = {}
    for cost in priced.costs:
        for name in cost.constants:
            weights[name] = max(weights.get(name, 0), cost.reads.get(name, 0))
    kept = {tensor.name for tensor in source.model.inputs} | {tensor.name for tensor in source.model.outputs}
    kept |= {binding.name for binding in priced.document.bindings}
    return sum(weights.values()) + on_gpus.live_bytes(priced.accesses, weights, kept)


def _unsupported(
    priced: PricedPlan, shown: Sequence[tuple[int, PredictedLayer]], found: Sequence[GpuPrediction]
) -> tuple[Unsupported, ...]:
    """Layers that launch something and have no price on one of the GPUs, by kind."""
    missing = Counter(
        (priced.document.layers[index].layer.kind, priced.costs[index].reason)
        for at, (index, _) in enumerate(shown)
        if any(gpu.layers[at].estimate is None for gpu in found)
    )
    domain = priced.document.facts.backend or "tensorrt"
    return tuple(
        Unsupported(domain=domain, op_type=kind, count=count, measured_ns=0, share=0.0, reason=reason)
        for (kind, reason), count in sorted(missing.items())
    )


def _on_gpu(
    priced: PricedPlan,
    shown: Sequence[tuple[int, PredictedLayer]],
    memory_bytes: int,
    spec: GpuSpec,
    how: Settings,
    known: dict[int, tuple[Traffic, ...]],
) -> GpuPrediction:
    ceilings = ceilings_of(spec, how, how.precision)
    size = ceilings.cache_bytes
    traffic = known[size] if size in known else known.setdefault(size, traffic_of(priced, size))
    found = on_device(priced, ceilings, traffic=traffic)
    correction, corrected = on_gpus.correction(spec, how, ceilings)
    expected = expectations_of(priced, lambda works: on_gpus.expectations(works, spec, how, ceilings, correction))
    layers = tuple(
        msgspec.structs.replace(
            layer,
            work=priced.costs[index].work,
            repeats=priced.costs[index].runs,
            estimate=found.estimates[index],
            # What is not known of the work comes first; how the nodes were found is said of every layer.
            reason="; ".join(filter(None, (priced.costs[index].reason, layer.reason))),
            **msgspec.structs.asdict(expected[index]),
        )
        for index, layer in shown
    )
    by_precision: dict[str, int | None] = {}
    for precision in _answered(priced, how):
        other = ceilings_of(spec, how, precision)
        estimates = found.estimates if other == ceilings else estimates_of(priced, other, traffic)
        ns = sum(
            each.attainable_ns * cost.runs
            for each, cost in zip(estimates, priced.costs, strict=True)
            if each is not None
        )
        by_precision[precision] = ns if has_unit(spec, precision) else None
    return on_gpus.gpu_prediction(
        spec, how, ceilings, layers, by_precision, memory_bytes, plan=found.summary, corrected=corrected
    )


def _answered(priced: PricedPlan, how: Settings) -> tuple[str, ...]:
    """The precisions whose time this engine tells: what it was built at, and TF32 or not where it is all fp32."""
    if how.precision not in ("model", "fp32", "tf32"):
        return (how.precision,)
    products = {work.dtype for work in priced.document.works if work is not None and work.tensor_flops}
    if products <= {"fp32", "fp64"} and not _OTHER_FLOATS["fp32"] & _dtypes(priced):
        return ("fp32", "tf32")
    return ()


# --- in words -------------------------------------------------------------------------------


def built_by(facts: EngineFacts) -> str:
    """Which library built an engine, and where: ``TensorRT-RTX 1.7.1.116 on a machine without a GPU``."""
    title = _TITLES.get(facts.backend, facts.backend or "TensorRT")
    version = facts.versions.get(facts.backend, "")
    where = {"": "", "no GPU": " on a machine without a GPU"}.get(facts.device, f" on {facts.device}")
    return f"{title}{' ' if version else ''}{version}{where}"


def _assumptions(priced: PricedPlan, how: Settings) -> Iterator[str]:
    document = priced.document
    yield f"the layers are those of the engine that was built by {built_by(document.facts)}"
    if document.facts.backend == "tensorrt-rtx":
        yield "TensorRT-RTX chooses its kernels on the GPU, at the first run: which ones is not in the plan"
        yield "GPUs that TensorRT-RTX does not serve would run an engine of TensorRT, which may fuse otherwise"
    wide = [binding.name for binding in document.bindings if binding.dtype == "fp32"]
    if how.precision in ("fp16", "bf16") and wide:
        yield f"inputs and outputs stay fp32, as in the file: {', '.join(wide)}"
    streams = {layer.layer.stream for layer in document.layers if layer.layer.stream is not None}
    if len(streams) > 1:
        yield f"layers lie on {len(streams)} streams and may overlap: the sum takes one after the other"
    yield from on_gpus.assumptions(how, tf32=how.precision in ("model", "tf32") and "fp32" in _dtypes(priced))
    lost = sum(fate.fate == "lost" for fate in document.fates)
    if lost:
        yield f"ONNX nodes that were found in no layer: {lost} of {len(document.fates)}"
