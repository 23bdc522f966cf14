"""Evidence from a run of ONNX Runtime on the CPU, from the artefacts of its run folder alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from trtprof.align.kernels import align_kernels
from trtprof.align.nodes import match_layers
from trtprof.analysis.evidence import Evidence, Subject
from trtprof.analysis.onnxruntime import layers_as_run, priced_layers
from trtprof.analysis.random_shapes import describe_random_shapes
from trtprof.analysis.timeline import timeline_of_kernels
from trtprof.base import run_folder
from trtprof.base.records import Capture, Ceilings, Device, Engine, Layer, LayersBasis, Roof, Source
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.undisturbed import LayerTimes, estimate_from_layers, known_share
from trtprof.base.units import format_ns

if TYPE_CHECKING:
    import pandas as pd


def evidence_of_cpu(folder: RunFolder) -> tuple[Evidence, Subject]:
    """What a run on the CPU knows, and what it was of."""
    request = folder.read(run_folder.REQUEST, Request)
    source = folder.read(run_folder.SOURCE, Source)
    engine = folder.read(run_folder.ENGINE, Engine)
    device = folder.read(run_folder.DEVICE, Device)
    capture = folder.read(run_folder.CAPTURE, Capture)
    kept = folder.read(run_folder.CEILINGS, Ceilings)
    speed = _speed(kept, capture)
    ceilings = _raised(kept, max(speed, 1.0))
    kernels = folder.table(run_folder.KERNELS)
    kept_iterations = capture.undisturbed_iterations
    matched, fates = match_layers(source.nodes, layers_as_run(engine.layers, capture.inputs, capture.runtime_shapes))
    alignment = align_kernels(kernels, matched, capture.clock_resolution_ns, kept_iterations)
    ran = [layer for layer in _in_execution_order(matched, kernels) if layer.name in alignment.matches]
    iterations = max(int(kernels["iteration"].nunique()), 1)
    launches = {layer.name: sum(m.count for m in alignment.matches[layer.name]) / iterations for layer in ran}
    overheads = _profiler_overheads(ran, launches, ceilings)
    unattributed_ns = sum(match.total_ns for match in alignment.unattributed) // iterations
    scale = _overhead_scale(sum(overheads.values()) + ceilings.profiler_gap_ns * alignment.gaps, capture)
    # A branch may have run in disturbed inferences alone.
    each_ns = [alignment.per_iteration_ns.get(layer.name, 0) for layer in ran]
    layers_ns = [max(ns - round(scale * overheads[layer.name]), 0) for ns, layer in zip(each_ns, ran, strict=True)]
    use, latency = capture.cpu_use, capture.latency
    if use is not None:
        use = msgspec.structs.replace(use, layers_basis=alignment.basis)
    if alignment.basis in ("layers", "shared"):
        latency = estimate_from_layers(latency, _layer_times(kernels, sum(layers_ns), sum(overheads.values())), use)
    evidence = Evidence(
        engine=priced_layers(ran, fates, source, engine, launches),
        layers_ns=layers_ns,
        kernels=[alignment.matches[layer.name] for layer in ran],
        latency=latency,
        profiled=capture.profiled,
        overheads=None,
        coverage=alignment.coverage,
        captured_ns=alignment.captured_ns,
        unattributed=alignment.unattributed,
        unattributed_ns=unattributed_ns,
        resolution_ns=capture.clock_resolution_ns,
        # The fast samples of layers are of inferences that nothing disturbed, and so is the latency.
        adding_ns=0
        if alignment.basis in ("layers", "shared") and latency.undisturbed_basis == "inferences"
        else alignment.inference_ns - sum(each_ns) - unattributed_ns,
        # What the profiler does behind the event of a kernel lies between that and the next.
        gap_ns=max(alignment.gap_ns - round(scale * ceilings.profiler_gap_ns * alignment.gaps), 0),
        notes=tuple(_notes(capture, ceilings, scale, alignment.basis)),
        timeline=timeline_of_kernels(
            kernels[kernels["iteration"].isin(kept_iterations)] if kept_iterations else kernels
        ),
        speed=speed,
        cpu_use=use,
    )
    assumption = describe_random_shapes(source, matched, int(request.options.get("seed", 0)))
    assumptions = (*source.model.assumptions, *([assumption] if assumption else []))
    model = msgspec.structs.replace(source.model, assumptions=assumptions)
    return evidence, Subject(
        ceilings=ceilings,
        device=device,
        source=msgspec.structs.replace(source, model=model),
        backend=engine.backend,
        version=request.version,
        created=request.created,
        command=request.command,
    )


def _in_execution_order(layers: Sequence[Layer], kernels: pd.DataFrame) -> list[Layer]:
    """Layers as they ran in the last profiled inference, which is the order that the cache sees."""
    last = kernels[kernels["iteration"] == kernels["iteration"].max()]
    order = {str(name): at for at, name in enumerate(last.sort_values("index")["layer"].drop_duplicates())}
    return sorted(layers, key=lambda layer: order.get(layer.name, len(order)))


def _profiler_overheads(layers: Sequence[Layer], launches: Mapping[str, float], ceilings: Ceilings) -> dict[str, int]:
    """Time that the profiler spent inside the events of each layer in one inference, in ns."""
    inner: dict[str, float] = {}
    for layer in layers:
        if layer.graph:
            owner = layer.graph.rpartition("/")[0]
            inner[owner] = inner.get(owner, 0.0) + launches[layer.name]
    overheads = {}
    for layer in layers:
        tensors = sum(1 for tensor in (*layer.op.inputs, *layer.op.outputs) if tensor is not None)
        each = ceilings.profiler_ns + tensors * ceilings.profiler_tensor_ns
        behind = inner.get(layer.name, 0.0) * ceilings.profiler_gap_ns
        overheads[layer.name] = round(launches[layer.name] * each + behind)
    return overheads


def _speed(ceilings: Ceilings, capture: Capture) -> float:
    """Speed of a core around the run over that at calibration; 1 where nothing was probed."""
    return ceilings.probe_ns / min(capture.probe_ns) if capture.probe_ns and ceilings.probe_ns > 0 else 1.0


def _raised(ceilings: Ceilings, factor: float) -> Ceilings:
    """Ceilings with all rates higher, and floors lower, by the factor and their band, so that bounds hold."""
    band, dram = ceilings.bands
    factor *= 1 + band / 100

    def roof(of: Roof) -> Roof:
        rates: dict[str, Any] = {
            name: {key: one * factor for key, one in rate.items()} if isinstance(rate, dict) else rate * factor
            for name, rate in msgspec.structs.asdict(of).items()
        }
        if ceilings.band:
            more = (1 + dram / 100) / (1 + band / 100)
            rates["dram_bytes_per_s"] *= more
            for key in rates["dram_out_of_place_bytes_per_s"]:
                rates["dram_out_of_place_bytes_per_s"][key] *= more
        return msgspec.convert(rates, Roof)

    return msgspec.structs.replace(
        ceilings,
        best=roof(ceilings.best),
        attainable=roof(ceilings.attainable),
        launch_ns=ceilings.launch_ns / factor,
    )


MAX_OVERHEAD_SCALE = 2.0  # A run may show the profiler at most this much dearer than empty kernels do; more is noise


def _overhead_scale(overhead_ns: float, capture: Capture) -> float:
    """How much dearer the profiler was in this run than on empty kernels, at least 1.

    It is measured where undisturbed inferences without and with the profiler, interleaved, tell both latencies.
    """
    clean, profiled = capture.latency, capture.profiled
    if overhead_ns <= 0 or {clean.undisturbed_basis, profiled.undisturbed_basis} != {"inferences"}:
        return 1.0
    return min(max((profiled.headline_ns - clean.headline_ns) / overhead_ns, 1.0), MAX_OVERHEAD_SCALE)


def _layer_times(kernels: pd.DataFrame, ns: int, overhead_ns: int) -> LayerTimes:
    """The sum of the times of layers, and its range: from the 5th percentile of each to its median."""
    times = kernels.groupby(["iteration", "layer"])["self_ns"].sum().unstack(fill_value=0).to_numpy()
    low, high = np.percentile(times, (5, 50), axis=0).sum(axis=1) - overhead_ns
    return LayerTimes(ns, max(round(low), 0), max(round(high), 0), known_share(kernels), len(times))


_BASIS_NOTES = {
    "layers": "other processes disturbed most profiled inferences: times of layers are those of their fast samples",
    "shared": (
        "the profiled inferences shared the CPUs with other processes, and too few ran undisturbed: times of layers "
        "are those of their fast samples, and may be too long"
    ),
}


def _notes(capture: Capture, ceilings: Ceilings, scale: float, basis: LayersBasis) -> Iterable[str]:
    if basis in _BASIS_NOTES:
        yield _BASIS_NOTES[basis]
    if ceilings.band:
        yield (
            "bounds are computed with ceilings {} %, of DRAM {} %, above those measured: "
            "sets of one machine differ by that much".format(*ceilings.bands)
        )
    if capture.clock_resolution_ns > 1:
        yield f"the profiler's clock steps by {format_ns(capture.clock_resolution_ns)}; medians are interpolated"
    if ceilings.profiler_ns:
        note = (
            f"measured times of layers are less the profiler's own {format_ns(scale * ceilings.profiler_ns)} an event"
        )
        if scale > 1:
            note += (
                f", {scale:.2f} times what empty kernels cost: by so much profiled inferences took longer than those "
                "without the profiler"
            )
        yield note
