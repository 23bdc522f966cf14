"""ONNX Runtime's engines: the layers of the optimised graph that a session saved.

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
from trtprof.base.op_kinds import CONTROL
from trtprof.base.records import Backend, Engine, Layer, Op
from trtprof.runtime.ort_session import COPY_OPS, NUMBERED, SessionFacts, SessionRequest, name_layers

ENGINE_GRAPH = "engine.onnx"  # The optimised graph in the run folder; its weights are not kept

_LAYOUT_OPS = frozenset({"ReorderInput", "ReorderOutput"})
_NCHWC_SUFFIX = "_nchwc"
_FUSED_NAME = re.compile(r"^(?:fused )?(.*?)/\w+Fusion/.*$")


def session_engine(backend: Backend, request: SessionRequest, facts: SessionFacts, graph: Path) -> Engine:
    """Return the engine that a session is, from what its process told and the graph that it saved.

    Its layers are in the order of the graph, subgraphs included, not yet matched to ONNX nodes.
    """
    import onnxruntime as ort

    options = {
        "graph_optimization_level": request.tuning.graph_optimization_level,
        "execution_mode": request.tuning.execution_mode,
        "intra_op_threads": str(facts.threads),
        **request.tuning.changed,
    }
    if backend.name == "ort-cuda":
        on_cpu = [place for place in facts.placements if place.provider != "CUDA"]
        named = ", ".join(place.node or f"({place.op_type} without a name)" for place in on_cpu) or "none"
        if not facts.placements:
            named = "not known: this version of ONNX Runtime does not tell"
        options |= {**request.cuda.as_given(), "nodes_on_cpu": named}
    return Engine(
        backend=msgspec.structs.replace(backend, options=options),
        versions={"onnxruntime": ort.__version__, "onnx": onnx.__version__, "python": platform.python_version()},
        layers=layers_from_file(graph),
        build_ns=facts.build_ns,
    )


def layers_from_file(path: Path) -> tuple[Layer, ...]:
    """Layers of a graph that a session saved; its weights need not be there."""
    return tuple(layers_from_graph(onnx.load(str(path), load_external_data=False)))


def layers_from_graph(model: onnx.ModelProto) -> list[Layer]:
    """Layers of an optimised graph saved by ONNX Runtime; hints are the names that theirs point at.

    Nodes of ``model`` are renamed in place where their names are empty or repeat.
    """
    saved_names = {node.name: node.saved_name for node in name_layers(model)}
    layers = []
    for node in onnx_graph.nodes_in(model):
        name = saved_names[node.proto.name]
        plain = NUMBERED.sub("", name)
        fused = _FUSED_NAME.sub(r"\1", plain)
        layout = node.op.op_type in COPY_OPS or (
            node.op.op_type in _LAYOUT_OPS and node.op.domain == "com.microsoft.nchwc"
        )
        layers.append(
            Layer(
                name=node.proto.name, op=node.op,
                role="layout" if layout else "control" if node.op.op_type in CONTROL else "compute", graph=node.graph,
                hints=tuple(hint for hint in dict.fromkeys((name, plain, fused)) if hint),
                output_hints=_output_hints(plain, node.op), constant=node.constant,
            )
        )  # fmt: skip
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
