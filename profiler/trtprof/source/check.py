"""What makes a model file fit to use: the ONNX checker's rules, held without reading the weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import onnx.checker
import onnx.external_data_helper
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from trtprof.base import onnx_graph, shape_inference
from trtprof.base.errors import MissingError, ModelError
from trtprof.source import skim
from trtprof.source.shape_rules import ops_with_rules

EXPORT_HINT = "export the model again, for example with torch.onnx.export(..., dynamo=True)"
EXTERNAL = TensorProto.EXTERNAL
_ONNX, _MICROSOFT = ("", "ai.onnx"), "com.microsoft"
_HOLDERS = {
    # Files of IR version 1 do not say what kind an attribute is of.
    AttributeProto.UNDEFINED, AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.SPARSE_TENSOR,
    AttributeProto.SPARSE_TENSORS, AttributeProto.GRAPH, AttributeProto.GRAPHS,
}  # fmt: skip


class Stored(NamedTuple):
    """What a model, its bodies and its functions hold."""

    nodes: list[NodeProto]
    tensors: list[TensorProto]  # Initializers, attributes of nodes, the values and the indices of sparse ones
    sparse: list[SparseTensorProto]


def stored_of(proto: ModelProto) -> Stored:
    """Every node and tensor that a model holds or points at."""
    found = Stored([], [], [])
    waiting: list[GraphProto | FunctionProto] = [proto.graph, *proto.functions]
    for part in waiting:
        found.nodes.extend(part.node)
        defaults = part.attribute_proto if isinstance(part, FunctionProto) else ()
        if isinstance(part, GraphProto):
            found.tensors.extend(part.initializer)
            found.sparse.extend(part.sparse_initializer)
        for attribute in chain(defaults, *(node.attribute for node in part.node)):
            if attribute.type in _HOLDERS:
                found.tensors.extend([attribute.t] if attribute.HasField("t") else attribute.tensors)
                found.sparse.extend(
                    [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else attribute.sparse_tensors
                )
                waiting.extend([attribute.g] if attribute.HasField("g") else attribute.graphs)
    found.tensors.extend(tensor for each in found.sparse for tensor in (each.values, each.indices))
    return found


def check_external_data(path: Path, tensors: Iterable[TensorProto]) -> None:
    """Presence, place and size of what lies in files beside the model."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        if tensor.data_location != EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        size = onnx_graph.tensor_from_initializer(tensor).nbytes
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0)) or size or 0
        except ValueError:
            offset, length = -1, -1
        if not location or offset < 0 or length < 0 or (size is not None and length != size):
            stated = ", ".join(f"{key}={value}" for key, value in entries.items()) or "nothing"
            raise ModelError(
                f"{path}: where the weights of {tensor.name!r} lie is damaged",
                why=f"it says {stated}; the tensor has {size} bytes",
                fix=EXPORT_HINT,
            )
        file = path.parent / location
        hint = f"copy {location!r} beside {path.name}: an exporter writes both"
        if location not in sizes:
            if not file.is_file():
                raise MissingError(
                    f"{path}: the weights of {tensor.name!r} are missing", why=f"no file {file}", fix=hint
                )
            sizes[location] = file.stat().st_size
            _check_place(path, location, tensor.name, sizes[location])
        if sizes[location] < offset + length:
            raise MissingError(
                f"{path}: the weights of {tensor.name!r} are cut short",
                why=f"{file} has {sizes[location]} bytes, {offset + length} are needed",
                fix=hint,
            )


def _check_place(path: Path, location: str, name: str, size: int) -> None:
    """Have onnx refuse places that a model must not point at: outside its folder, links."""
    probe = TensorProto(name=name, data_type=TensorProto.UINT8, data_location=EXTERNAL)
    for key, value in (("location", location), ("offset", size), ("length", 0)):
        probe.external_data.add(key=key, value=str(value))
    try:
        onnx.external_data_helper.load_external_data_for_tensor(probe, str(path.parent))
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{path} fails the ONNX checker", why=first_line(error), fix=EXPORT_HINT) from None
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{path} cannot be checked", why=first_line(error), fix=EXPORT_HINT) from None


def check_model(path: Path, proto: ModelProto) -> str:
    """The ONNX checker, with one defect mended: a graph output without a shape. Returns what was mended, in words."""
    reason = _refused(path, proto)
    if not reason:
        return ""
    names = Counter(node.name for node in proto.graph.node if node.name)
    duplicates = [name for name, count in names.items() if count > 1]
    shapeless = [
        output.name
        for output in proto.graph.output
        if output.type.WhichOneof("value") == "tensor_type" and not output.type.tensor_type.HasField("shape")
    ]
    if shapeless and not duplicates and "shape" in reason:
        reason = _fill_output_shapes(proto) or _refused(path, proto)
        if not reason:
            return "the file declares no shape for " + ", ".join(shapeless) + ": filled in by shape inference"
    if duplicates:
        reason += f"; two nodes are called {duplicates[0]!r}"
    raise ModelError(f"{path} fails the ONNX checker", why=reason, fix=EXPORT_HINT)


def _refused(path: Path, proto: ModelProto) -> str:
    try:
        onnx.checker.check_model(_checkable(proto))
    except onnx.checker.ValidationError as error:
        return first_line(error)
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"{path} cannot be checked", why=first_line(error), fix=EXPORT_HINT) from None
    return ""


def _checkable(proto: ModelProto) -> ModelProto:
    """A copy for the checker: what was left out and what lies elsewhere has become one element.

    Ops that ONNX Runtime adds to ai.onnx, which onnx does not know, are moved to its own domain.
    """
    copy = ModelProto()
    copy.CopyFrom(proto)
    stored = stored_of(copy)
    for sparse in stored.sparse:
        if any(_is_elsewhere(part) for part in (sparse.values, sparse.indices)):
            sparse.dims[:] = [1]
            for part in (sparse.values, sparse.indices):
                _have_one_element(part, ["raw_data"], dims=[1])
    for tensor in stored.tensors:
        if _is_elsewhere(tensor):
            text = tensor.data_type == TensorProto.STRING
            _have_one_element(tensor, skim.left_out(tensor) or ["string_data" if text else "raw_data"])
    opset = next((entry.version for entry in proto.opset_import if entry.domain in _ONNX), 1)
    runtime = {op_type for op_type in ops_with_rules("") if not onnx.defs.has(op_type, opset, "")}
    for node in stored.nodes:
        if node.op_type in runtime and node.domain in _ONNX:
            node.domain = _MICROSOFT
    if all(entry.domain != _MICROSOFT for entry in copy.opset_import):
        copy.opset_import.add(domain=_MICROSOFT, version=1)
    return copy


def _is_elsewhere(tensor: TensorProto) -> bool:
    return tensor.data_location == EXTERNAL or bool(skim.left_out(tensor))


def _have_one_element(tensor: TensorProto, fields: Iterable[str], dims: Iterable[int] = ()) -> None:
    """Have one element, complex or not, in each of these fields, and nothing else."""
    values: dict[str, Any] = {"raw_data": bytes(16), "string_data": [b""]}
    given: dict[str, Any] = {field: values.get(field, [0, 0]) for field in fields}
    tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=dims, **given))


def _fill_output_shapes(proto: ModelProto) -> str:
    """Returns why they stay open, where shape inference refuses the model."""
    graphs = list(onnx_graph.all_graphs(proto.graph))
    bare, _ = onnx_graph.for_inference(proto, graphs, declared=False)
    try:
        inferred = shape_inference.infer_shapes(bare)
    except shape_inference.InferenceError as error:
        return first_line(error)
    found = {output.name: output for output in inferred.graph.output}
    for output in proto.graph.output:
        if not output.type.tensor_type.HasField("shape") and output.name in found:
            output.CopyFrom(found[output.name])
    return ""


def first_line(error: BaseException) -> str:
    """What an error of onnx says, without the text around it."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
