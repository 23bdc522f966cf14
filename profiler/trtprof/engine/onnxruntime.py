"""ONNX Runtime's engines: build the session, save its optimised graph, read the layers back.

A layer is a node of the optimised graph: what ONNX Runtime schedules and times. Names of rewritten
nodes follow ONNX Runtime's transformers (onnxruntime/core/optimizer): the NCHWc transformer calls a
node after the tensor that it made, with ``_nchwc`` appended; a name that would be taken gets
``_token_<n>``; other fusions keep the name of one of their nodes, some with ``/<Name>Fusion/`` behind
it, or make one of their own; nodes of functions that it inlines have none (`ort_session.name_layers`
gives them one). Where nodes run on several providers it puts copies between them (`ort_session.COPY_OPS`).
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

import msgspec
import onnx

from trtprof.base import onnx_graph
from trtprof.base.errors import BuildError, MissingError
from trtprof.base.op_kinds import CONTROL
from trtprof.base.output_file import copy_file
from trtprof.base.progress import unheard
from trtprof.base.records import Backend, Engine, Layer, Op
from trtprof.engine._ort_build import Made, Request
from trtprof.runtime import child
from trtprof.runtime.ort_session import COPY_OPS, Placement, SessionRequest, name_layers

ENGINE_GRAPH = "engine.onnx"
"""The optimised graph in the run folder; its weights are not kept."""

_LAYOUT_OPS = frozenset({"ReorderInput", "ReorderOutput"})
_NCHWC_SUFFIX = "_nchwc"
_FUSED_NAME = re.compile(r"^(?:fused )?(.*?)/\w+Fusion/.*$")
_UNIQUE_SUFFIX = re.compile(r"_token_\d+$")


def build_ort_cpu(request: SessionRequest, folder: Path, scratch: Path, reason: str) -> Engine:
    """Build the model with ONNX Runtime's CPU provider and list the layers of the result.

    Returns:
        Layers in the order of the saved graph, subgraphs included, not yet matched to ONNX nodes.
    """
    return _build("ort-cpu", request, folder, scratch, reason)[0]


def build_ort_cuda(
    request: SessionRequest, folder: Path, scratch: Path, reason: str
) -> tuple[Engine, tuple[Placement, ...]]:
    """Build the model with ONNX Runtime's CUDA provider and list the layers of the result.

    Args:
        request: The model, with ``cuda`` for its provider.
    """
    engine, found = _build("ort-cuda", request, folder, scratch, reason)
    on_cpu = tuple(place for place in found if place.provider != "CUDA")
    options = {
        **engine.backend.options,
        **request.cuda.as_given(),
        "nodes_on_cpu": ", ".join(place.node or f"({place.op_type} without a name)" for place in on_cpu) or "none",
    }
    if not found:
        options["nodes_on_cpu"] = "not known: this version of ONNX Runtime does not tell"
    return msgspec.structs.replace(engine, backend=msgspec.structs.replace(engine.backend, options=options)), on_cpu


def _build(
    backend: str, request: SessionRequest, folder: Path, scratch: Path, reason: str
) -> tuple[Engine, tuple[Placement, ...]]:
    import onnxruntime as ort

    saved = scratch / ENGINE_GRAPH
    made = _made(Request(session=request, saved=str(saved), told=str(scratch / "session.json")), scratch)
    copy_file(saved, folder / ENGINE_GRAPH)
    engine = Engine(
        backend=Backend(
            name=backend,
            reason=reason,
            options={
                "graph_optimization_level": request.tuning.graph_optimization_level,
                "execution_mode": request.tuning.execution_mode,
                "intra_op_threads": str(made.threads),
                **request.tuning.changed,
            },
        ),
        versions={"onnxruntime": ort.__version__, "onnx": onnx.__version__, "python": platform.python_version()},
        layers=layers_from_file(saved),
        build_ns=made.build_ns,
    )
    return engine, made.placements


_DEADLINE_S = 3600.0


def _made(request: Request, scratch: Path) -> Made:
    """What a child tells of a session that it made."""
    asked, log, told = scratch / "session_request.json", scratch / "session.log", Path(request.told)
    asked.write_bytes(msgspec.json.encode(request))
    told.unlink(missing_ok=True)
    try:
        code = child.run_telling(
            child.command("trtprof.engine._ort_build", str(asked)), log, unheard, child.environment(), _DEADLINE_S
        )
    except TimeoutError:
        raise _died(request, f"it was not done in {_DEADLINE_S:.0f} s") from None
    answer = told.read_bytes() if told.is_file() else b""
    if code == 0 and answer:
        return msgspec.json.decode(answer, type=Made)
    if code > 0 and answer:
        failure = msgspec.json.decode(answer, type=child.Failure)
        kind = MissingError if code == MissingError.exit_code else BuildError
        raise kind(failure.what, why=failure.why, fix=failure.fix)
    if code == child.UNTOLD:
        raise child.untold("ONNX Runtime", "", str(told.parent), str(scratch))
    last = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()][-1:]
    raise _died(request, ": ".join([child.exit_words(code), *last]))


def _died(request: Request, why: str) -> BuildError:
    return BuildError(
        f"ONNX Runtime died of {request.session.model}",
        why=why,
        fix=f"`trtprof inspect {request.session.model}` checks the model; another version of onnxruntime may take it",
    )


def layers_from_file(path: Path) -> tuple[Layer, ...]:
    """Layers of a graph that a session saved; its weights need not be there.

    ONNX Runtime numbers the reorders that it inserts in an order that differs from session to
    session, so a profile must be read with the graph of the session that made it.
    """
    return tuple(layers_from_graph(onnx.load(str(path), load_external_data=False)))


def layers_from_graph(model: onnx.ModelProto) -> list[Layer]:
    """Layers of an optimised graph saved by ONNX Runtime; hints are the names that theirs point at.

    Nodes of ``model`` are renamed in place where their names are empty or repeat.
    """
    saved_names = {node.name: node.saved_name for node in name_layers(model)}
    layers = []
    for node in onnx_graph.nodes_in(model):
        name = saved_names[node.proto.name]
        plain = _UNIQUE_SUFFIX.sub("", name)
        fused = _FUSED_NAME.sub(r"\1", plain)
        layout = node.op.op_type in COPY_OPS or (
            node.op.op_type in _LAYOUT_OPS and node.op.domain == "com.microsoft.nchwc"
        )
        layers.append(
            Layer(
                name=node.proto.name,
                op=node.op,
                role="layout" if layout else "control" if node.op.op_type in CONTROL else "compute",
                graph=node.graph,
                hints=tuple(hint for hint in dict.fromkeys((name, plain, fused)) if hint),
                output_hints=_output_hints(plain, node.op),
                constant=node.constant,
            )
        )
    return layers


def _output_hints(name: str, op: Op) -> tuple[str, ...]:
    """What the output tensor was called before the NCHWc transformer renamed it.

    A BatchNormalization or Mul that became a 1x1 convolution carries ``_bn`` or ``_mul`` as well;
    its weights are then called ``bn_scale`` or ``mul_scale``.
    """
    if not name.endswith(_NCHWC_SUFFIX):
        return ()
    tensor = name.removesuffix(_NCHWC_SUFFIX)
    weights = op.inputs[1].name if len(op.inputs) > 1 and op.inputs[1] is not None else ""
    for suffix in ("_bn", "_mul"):
        if tensor.endswith(suffix) and weights.startswith(f"{suffix[1:]}_scale"):
            return (tensor.removesuffix(suffix), tensor)
    return (tensor,)
