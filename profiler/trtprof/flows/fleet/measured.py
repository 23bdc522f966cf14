"""What a run, or a build, says of a cell: the columns of its row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trtprof.analysis.plan import PricedPlan
from trtprof.base import run_folder
from trtprof.base.fleet_table import most
from trtprof.base.records import FleetKernel, FleetLoss, GpuSpec, LayerResult, PluginCandidate, Run, least_sure
from trtprof.base.run_folder import RunFolder
from trtprof.capture.gpu_record import GpuArtefact
from trtprof.compare.latency import latency_interval
from trtprof.compare.sides import load_side
from trtprof.flows.predict.on_gpus import forecast

_NO = "do not"
_WORKING = ("compute", "control")  # Roles of layers that do what the model asks; the others only reorder, or wait


def columns(folder: RunFolder) -> dict[str, Any]:
    """Fields of `FleetRow` that a finished run tells."""
    side = load_side([folder])
    run = side.middle.run
    interval = latency_interval(side)
    latency = run.latency.headline_ns if run.latency.n else None
    watts = folder.read(run_folder.GPU, GpuArtefact).spec.tdp_w.value if folder.has(run_folder.GPU) else 0.0
    return {
        "device": run.device.name,
        "latency_ns": latency,
        "latency_low_ns": None if interval is None or latency is None else round(interval.low),
        "latency_high_ns": None if interval is None or latency is None else round(interval.high),
        "bound_ns": _sum(layer.ideal_ns for layer in run.layers if layer.role in _WORKING),
        **_expected(run.layers),
        "joules": latency / 1e9 * watts if latency is not None and watts else None,
        "tdp_w": watts or None,
        "memory_bytes": run.model.parameter_bytes + run.memory.peak_bytes if run.memory is not None else None,
        "flops": _sum(layer.flops for layer in run.layers),
        "bytes": _sum(layer.bytes for layer in run.layers),
        "layers": len(run.layers),
        "verdict": run.verdict,
        "doubts": "; ".join((*run.doubts, *run.lacking)),
        "ledger": tuple(FleetLoss(cause=row.cause, ns=row.ns, kind=row.kind) for row in run.ledger),
        "kernels": most(kernels(run)),
    }


def elsewhere(folder: RunFolder, gpu: GpuSpec) -> str:
    """The doubt where a finished run was not on the GPU that a datasheet is of; empty where it was."""
    if folder.has(run_folder.GPU):
        found = folder.read(run_folder.GPU, GpuArtefact)
        if found.spec.slug == gpu.slug or found.live.name in gpu.nvml_names:
            return ""
    return f"it ran on {folder.report().device.name}, and {gpu.name} was asked for"


def columns_of_build(priced: PricedPlan) -> dict[str, Any]:
    """The same of an engine that was built and not run: it has no times."""
    plan = priced.document
    works = [work for work in plan.works if work is not None]
    return {
        "device": plan.facts.device,
        "flops": sum(work.flops for work in works) if works else None,
        "bytes": sum(work.bytes for work in works) if works else None,
        "layers": plan.summary.layers,
        "verdict": f"built: {plan.summary.launches:,} of its layers launch something",
        "doubts": "; ".join(plan.facts.notes),
    }


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _expected(layers: Sequence[LayerResult]) -> dict[str, Any]:
    """What good kernels take for the layers that do the work: by the same rule as of a prediction."""
    working = [layer for layer in layers if layer.role in _WORKING and layer.attainable_ns is not None]
    whole = forecast([(layer, layer.attainable_ns or 0, 1) for layer in working])
    if whole.expected_ns is None:
        return {}
    rest = sum(layer.attainable_ns or 0 for layer in working if layer.expected_ns is None)
    times = ("expected_ns", "expected_p10_ns", "expected_p90_ns")
    return {**{name: rest + getattr(whole, name) for name in times}, "expected_basis": whole.expected_basis}


def kernels(run: Run) -> list[FleetKernel]:
    """Layers that are alike and ran in the same kernel, together."""
    candidates = {} if run.no_verdict else {candidate.layer: candidate for candidate in run.candidates}
    alike: dict[tuple[str, str, str, str], list[LayerResult]] = {}
    for layer in run.layers:
        longest = max(layer.kernels, key=lambda match: match.total_ns, default=None)
        kernel = "" if longest is None else longest.kernel
        alike.setdefault((layer.op_type, layer.dtype, layer.shapes, kernel), []).append(layer)
    return [
        _kernel(key, layers, [candidates[layer.name] for layer in layers if layer.name in candidates], run)
        for key, layers in alike.items()
    ]


def _kernel(
    key: tuple[str, str, str, str], layers: Sequence[LayerResult], candidates: Sequence[PluginCandidate], run: Run
) -> FleetKernel:
    pattern, dtype, shapes, kernel = key
    best = max(candidates, key=lambda candidate: candidate.net_ns, default=None)
    if best is not None:
        # It is put where it pays alone.
        candidates = [each for each in candidates if (each.verdict == _NO) == (best.verdict == _NO)]
    expected = None not in [layer.expected_ns for layer in layers]
    return FleetKernel(
        pattern=pattern,
        dtype=dtype,
        shapes=shapes,
        kernel=kernel,
        layer=best.layer if best is not None else max(layers, key=lambda layer: layer.measured_ns).name,
        count=sum(_runs(layer, run.profiled.n) for layer in layers),
        bound_ns=_sum([layer.ideal_ns for layer in layers]),
        expected_ns=_sum([layer.expected_ns for layer in layers]) if expected else None,
        expected_basis=least_sure(layers) if expected else "none",
        measured_ns=sum(layer.measured_ns for layer in layers),
        verdict="not decided" if best is None else best.verdict,
        # One kernel would serve all of them, and errs with all of them the same way.
        win_ns=sum(candidate.net_ns for candidate in candidates) if candidates else None,
        win_low_ns=sum(candidate.net_low_ns for candidate in candidates) if candidates else None,
        win_high_ns=sum(candidate.net_high_ns for candidate in candidates) if candidates else None,
    )


def _runs(layer: LayerResult, inferences: int) -> int:
    """How often a layer runs in one inference: as often as the kernel of it that is launched least."""
    launched = min((match.count for match in layer.kernels), default=0)
    return max(round(launched / inferences), 1) if inferences else 1
