"""What a finished run knows, in the forms in which trtexec prints and exports it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trtprof.base import run_folder
from trtprof.base.errors import MissingError
from trtprof.base.records import Engine, InferenceTimes, LayerResult, LayerTime, LayerTimes, Run, Tensor
from trtprof.base.run_folder import RunFolder
from trtprof.capture.gpu_record import PlanArtefact
from trtprof.engine.tensorrt import kept_layer_info

if TYPE_CHECKING:
    from trtprof.flows.build import EngineBuild


def times_of(folder: RunFolder) -> InferenceTimes:
    """The samples of the latency, measured without the profiler."""
    samples = folder.table(run_folder.LATENCY)
    if "mode" in samples:
        from trtprof.analysis.gpu import times_of as times_on_gpu

        return times_on_gpu(samples)
    times = tuple(int(value) for value in samples["latency_ns"])
    nothing = (0,) * len(times)
    return InferenceTimes(latency_ns=times, compute_ns=times, enqueue_ns=times, h2d_ns=nothing, d2h_ns=nothing)


def profile_of(run: Run) -> LayerTimes:
    """The times of the layers, in the order in which they were captured where a timeline tells, else as ranked."""
    iterations = max(run.profiled.n, 1)
    totals = {layer.name: sum(match.total_ns for match in layer.kernels) for layer in run.layers}
    whole = sum(totals.values()) or 1
    return LayerTimes(
        iterations=iterations,
        layers=tuple(
            LayerTime(
                name=layer.name,
                total_ns=totals[layer.name],
                average_ns=round(totals[layer.name] / iterations),
                median_ns=layer.measured_ns,
                fraction=min(totals[layer.name] / whole, 1.0),
            )
            for layer in _in_order(run)
        ),
    )


def _in_order(run: Run) -> list[LayerResult]:
    order = {name: place for place, name in enumerate(run.graph.layers)} if run.graph else {}
    return sorted(run.layers, key=lambda layer: order.get(layer.name, len(order)))


def layer_text(folder: RunFolder) -> str:
    """The layers as text: as the backend printed them, else as JSON."""
    if folder.has(run_folder.PLAN):
        return folder.file(folder.read(run_folder.PLAN, PlanArtefact).layers_file).read_text(encoding="utf-8")
    return _own_keys(folder)


class LayerFile(NamedTuple):
    """The content of ``--exportLayerInfo``, and what it is in words."""

    content: str
    what: str


_INSPECTOR = "what TensorRT's engine inspector says"


def layers_of_run(folder: RunFolder, path: Path) -> LayerFile:
    """The layers of a run for a file: of TensorRT what it says itself, of ONNX Runtime the same keys."""
    if not folder.has(run_folder.PLAN):
        return LayerFile(_own_keys(folder), "the layers of ONNX Runtime, with the keys of TensorRT's engine inspector")
    built = folder.read(run_folder.PLAN, PlanArtefact)
    text = folder.file(built.layers_file).read_text(encoding="utf-8")
    if text.lstrip().startswith(("{", "[")):
        return _in_form(path, "", LayerFile(text, _INSPECTOR))
    kept = kept_layer_info(Path(built.engine))
    return _in_form(path, text, LayerFile(kept, _INSPECTOR))


def layers_of_build(found: EngineBuild, path: Path) -> LayerFile:
    """The layers of a build for a file; as JSON our own document where TensorRT's inspector finds no driver."""
    from trtprof import report

    as_json = LayerFile(found.built.layer_info, _INSPECTOR)
    if not as_json.content:
        why = "trtprof's own document; TensorRT's inspector needs a driver, and none is installed"
        as_json = LayerFile(report.render(found.priced.document, "json"), why)
    return _in_form(path, found.built.plan_text, as_json)


def _in_form(path: Path, text: str, as_json: LayerFile) -> LayerFile:
    if path.suffix.lower() == ".json":
        found, why, other = as_json, "TensorRT's inspector did not tell them", "layers.txt"
    else:
        what = f"the plan as the build printed it; `trtprof analyze --layers {path}` reads it"
        found, why, other = LayerFile(text, what), "an engine prints its plan only while it is built", "layers.json"
    if not found.content:
        raise MissingError(f"{path} was not written", why=why, fix=f"--exportLayerInfo={other}")
    return found


def _own_keys(folder: RunFolder) -> str:
    engine = folder.read(run_folder.ENGINE, Engine)
    layers = [
        {
            "Name": layer.name,
            "LayerType": layer.op.op_type,
            "Inputs": [_tensor(tensor) for tensor in layer.op.inputs if tensor is not None],
            "Outputs": [_tensor(tensor) for tensor in layer.op.outputs if tensor is not None],
            "Metadata": "\x1e".join(f"[ONNX Layer: {name}]" for name in layer.nodes),
        }
        for layer in engine.layers
    ]
    return json.dumps({"Layers": layers, "Bindings": []}, indent=1) + "\n"


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {"Name": tensor.name, "Dimensions": list(tensor.shape or ()), "Format/Datatype": tensor.dtype}
