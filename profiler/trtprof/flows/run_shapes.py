"""The model of a run folder, at the shapes that its tensors had while it ran."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import msgspec

from trtprof.base import run_folder
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Capture, Engine, ModelInfo, Source
from trtprof.base.run_folder import RunFolder
from trtprof.cost import UnknownShapeError
from trtprof.source.request import ModelRequest
from trtprof.source.spec import parse_spec


def request_as_run(request: ModelRequest) -> ModelRequest:
    """Return the model of a run folder at the shapes of that run, and any other request as it is."""
    from trtprof.analysis.onnxruntime import layers_as_run

    folder = RunFolder(Path(request.model))
    if not folder.has(run_folder.REQUEST):
        return request
    model = folder.read(run_folder.SOURCE, Source).model
    if msgspec.structs.replace(request, model="") != ModelRequest(""):
        raise UsageError(
            f"{request.model} is a run folder, and options for the model were given",
            why="--shapes, --batch and options of an export would change the shapes that the run had",
            fix=f"leave them away, or name the model: {shlex.quote(model.path)}",
        )
    capture = folder.read(run_folder.CAPTURE, Capture)
    layers = folder.read(run_folder.ENGINE, Engine).layers if folder.has(run_folder.ENGINE) else ()
    return msgspec.structs.replace(
        ModelRequest(str(path_of_model(model))).at({t.name: t.shape for t in model.inputs if t.shape is not None}),
        seen={
            (layer.graph, tensor.name): tensor
            for layer in layers_as_run(layers, capture.inputs, capture.runtime_shapes)
            for tensor in (*layer.op.inputs, *layer.op.outputs)
            if tensor is not None and tensor.elements is not None and not tensor.constant
        },
        assumptions=(f"shapes are those of the run {request.model}", *model.assumptions),
    )


def path_of_model(model: ModelInfo) -> Path:
    """Return the file that a run was of; raise where it is gone or was changed since."""
    path, spec = Path(model.path), parse_spec(model.path)
    if spec is not None or not path.is_file():
        raise MissingError(
            f"the model of the run, {model.path}, is not there",
            why="the run folder does not keep the model"
            + ("; this one was exported for the run alone" if spec is not None else ""),
            fix="put the file back in its place, or run the command in the folder where the run was made",
        )
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if model.sha256 and digest != model.sha256:
        raise UsageError(
            f"{path} is not the model that ran",
            why="its digest differs from that of the run: its nodes may be others",
            fix=f"put that file back, or run again: trtprof run {path}",
        )
    return path


def count_by_running(missing: str, request: ModelRequest) -> str:
    """Say how to count ops whose shapes are not known before the model runs; ``missing`` names them."""
    if request.seen or UnknownShapeError.kind not in missing:
        return missing
    run = f"trtprof run {shlex.quote(request.model)} --backend ort-cpu"
    return f"{missing}; to count them, run it once ({run}) and give the run folder in place of the model"
