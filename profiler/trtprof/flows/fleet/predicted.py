"""What a prediction says of a cell: the columns of its row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trtprof.base.fleet_table import most
from trtprof.base.records import (
    BOUND_WORDS,
    FleetKernel,
    FleetLoss,
    GpuPrediction,
    PredictedLayer,
    Prediction,
    least_sure,
)
from trtprof.base.units import format_percent

ABOVE = "good kernels above the bound"  # What the ledger of a prediction calls that part of what is expected


def columns(found: Prediction, gpu: GpuPrediction) -> dict[str, Any]:
    """Fields of `FleetRow` that a prediction tells for one of its GPUs."""
    works = [(layer.work, layer.repeats) for layer in gpu.layers if layer.work is not None]
    joules = gpu.joules if gpu.expected_joules is None else gpu.expected_joules
    low, high = gpu.expected_p10_ns, gpu.expected_p90_ns
    return {
        "device": gpu.name,
        "bound_ns": gpu.time_ns,
        "expected_ns": gpu.forecast_ns,
        "expected_p10_ns": None if low is None else low + gpu.refused_ns,
        "expected_p90_ns": None if high is None else high + gpu.refused_ns,
        "expected_basis": gpu.expected_basis,
        "joules": joules if gpu.tdp_w else None,
        "tdp_w": gpu.tdp_w or None,
        "memory_bytes": found.memory_bytes,
        "flops": sum(work.flops * times for work, times in works) if works or not gpu.layers else None,
        "bytes": sum(work.bytes * times for work, times in works) if works or not gpu.layers else None,
        "layers": len(gpu.layers),
        "verdict": _verdict(found, gpu),
        "doubts": "; ".join(_doubts(found, gpu)),
        "ledger": tuple(_ledger(gpu)),
        "kernels": most(_kernels(gpu.layers)),
    }


def _verdict(found: Prediction, gpu: GpuPrediction) -> str:
    if gpu.time_ns is None:
        return f"no verdict: {found.unpriced}"
    if not gpu.time_ns:
        return "nothing to do"
    shares = (f"{BOUND_WORDS[bound].word} {format_percent(ns / gpu.time_ns)}" for bound, ns in gpu.ns_by_bound.items())
    return f"bound by {', '.join(shares)}"


def _doubts(found: Prediction, gpu: GpuPrediction) -> Iterator[str]:
    if found.unpriced:
        yield found.unpriced
    yield from gpu.notes
    if gpu.time_ns and gpu.expected_ns is None:
        yield f"no forecast: {gpu.expected_reason}"
    elif gpu.refused_ns and gpu.time_ns:
        refused_ns = sum(layer.bound_ns for layer in gpu.layers if layer.expected_ns is None)
        share = format_percent(refused_ns / gpu.time_ns)
        yield f"layers of {share} of the bound have no expectation, and count with their bound"


def _ledger(gpu: GpuPrediction) -> Iterator[FleetLoss]:
    for bound, ns in gpu.ns_by_bound.items():
        yield FleetLoss(cause=f"bound by {BOUND_WORDS[bound].word}", ns=ns, kind="estimate")
    if gpu.forecast_ns is not None and gpu.time_ns is not None:
        yield FleetLoss(cause=ABOVE, ns=gpu.forecast_ns - gpu.time_ns, kind="estimate")


def _kernels(layers: Sequence[PredictedLayer]) -> list[FleetKernel]:
    """Layers that are alike, together; such as have no expectation apart from those that have one."""
    alike: dict[tuple[str, str, str, bool], list[PredictedLayer]] = {}
    for layer in layers:
        dtype = "" if layer.work is None else layer.work.dtype
        alike.setdefault((layer.op_type, dtype, layer.shapes, layer.expected_ns is not None), []).append(layer)
    return [_kernel(*key, found) for key, found in alike.items()]


def _kernel(pattern: str, dtype: str, shapes: str, known: bool, layers: Sequence[PredictedLayer]) -> FleetKernel:
    priced = [layer for layer in layers if layer.estimate is not None]
    return FleetKernel(
        pattern=pattern,
        dtype=dtype,
        shapes=shapes,
        layer=max(layers, key=lambda layer: (layer.expected_ns or 0) * layer.repeats if known else layer.bound_ns).name,
        count=sum(layer.repeats for layer in layers),
        bound_ns=sum(layer.bound_ns for layer in priced) if priced else None,
        expected_ns=sum((layer.expected_ns or 0) * layer.repeats for layer in layers) if known else None,
        expected_basis=least_sure(layers) if known else "none",
    )
