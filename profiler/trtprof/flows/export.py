"""From a PyTorch module to an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.records import Tensor
from trtprof.flows.progress import SILENT, Progress
from trtprof.source.request import ModelRequest


class ExportResult(NamedTuple):
    """An ONNX model as exported; ``parameters`` and ``parameter_bytes`` count as `records.ModelInfo` does."""

    path: Path
    data: Path | None
    inputs: list[Tensor]
    outputs: list[Tensor]
    shapes: dict[str, tuple[int, ...]]
    parameters: int
    parameter_bytes: int
    assumptions: list[str]


def export(
    request: ModelRequest, output: str = "", *, force: bool = False, progress: Progress = SILENT
) -> ExportResult:
    """Export the PyTorch module that a spec names, check the result, and move it into place.

    `request`: the spec, ``package.module:factory``, and how to export it. `output`: the file; ``<factory>.onnx`` in the
    current folder by default.
    """
    from trtprof.base import onnx_graph
    from trtprof.source.export import export_model, staged
    from trtprof.source.load import graph_inputs, load_model

    model, spec = request.model, request.spec
    if spec is None:
        raise UsageError(
            f"{model} names no PyTorch module",
            why="it is a file" if Path(model).exists() else "it is not of the form package.module:factory",
            fix="trtprof export package.module:factory, or path/to/file.py:factory",
        )
    target = Path(output or f"{spec.name}.onnx")
    progress.stage("export")
    with staged(target, force=force) as path:
        exported = export_model(spec, request.export, path, progress.detail)
        progress.detail("checking")
        proto = load_model(path).proto
    stored = map(onnx_graph.tensor_from_initializer, proto.graph.initializer)
    weights = [tensor for tensor in stored if tensor.value is None]
    progress.detail(f"{target.name}: {len(proto.graph.node)} nodes")
    return ExportResult(
        path=target,
        data=target.with_name(exported.data.name) if exported.data else None,
        inputs=graph_inputs(proto),
        outputs=[onnx_graph.tensor_from_value_info(info) for info in proto.graph.output],
        shapes=exported.shapes,
        parameters=sum(tensor.elements or 0 for tensor in weights),
        parameter_bytes=sum(tensor.nbytes or 0 for tensor in weights),
        assumptions=exported.assumptions,
    )
