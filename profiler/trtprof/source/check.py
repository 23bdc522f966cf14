"""What makes a model file fit to use: the ONNX checker's rules, held without reading the weights.

The checker sees the model with one element in place of what was left out; sizes, and what lies in
files beside the model, are checked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import onnx
import onnx.checker
import onnx.external_data_helper
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from trtprof.base import onnx_graph, shape_inference, units
from trtprof.base.errors import MissingError, ModelError
from trtprof.source import wire
from trtprof.source.shape_rules import ops_with_rules

EXPORT_HINT = "export the model again, for example with torch.onnx.export(..., dynamo=True)"
MOST_OPSET = 2**31 - 1
"""Largest version that onnx can be asked about."""
EXTERNAL = TensorProto.EXTERNAL
_ONNX, _MICROSOFT = ("", "ai.onnx"), "com.microsoft"


class StoredTensors(NamedTuple):
    """The tensors that a file holds or points at: initializers, and attributes of nodes (Constant)."""

    tensors: list[TensorProto]
    """With the values and the indices of sparse ones."""
    sparse: list[SparseTensorProto]
    runtime: list[NodeProto]
    """Nodes of ops that ONNX Runtime adds to ai.onnx, which onnx does not know."""


_TENSOR_KINDS = {
    # Files of IR version 1 do not say what kind an attribute is of.
    AttributeProto.UNDEFINED, AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.SPARSE_TENSOR,
    AttributeProto.SPARSE_TENSORS, AttributeProto.GRAPH, AttributeProto.GRAPHS,
}  # fmt: skip


def stored_tensors(path: Path, proto: ModelProto) -> StoredTensors:
    """All stored tensors; on the way, every name must be text.

    protobuf hands out bytes for a name that is none, which `str.join` refuses.
    """
    stored = StoredTensors([], [], [])
    for entry in (*proto.opset_import, *(one for function in proto.functions for one in function.opset_import)):
        if not 0 <= entry.version <= MOST_OPSET:
            raise ModelError(
                f"{path} is damaged", why=f"it says opset {entry.version}", fix="copy it again, or " + EXPORT_HINT
            )
    opset = next((entry.version for entry in proto.opset_import if entry.domain in _ONNX), 1)
    runtime = {op_type for op_type in ops_with_rules("") if not onnx.defs.has(op_type, opset, "")}

    def add_sparse(found: Iterable[SparseTensorProto]) -> None:
        for sparse in found:
            stored.sparse.append(sparse)
            stored.tensors.extend((sparse.values, sparse.indices))

    def add_nodes(nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            "".join((node.name, node.op_type, node.domain, *node.input, *node.output))
            if node.op_type in runtime and node.domain in _ONNX:
                stored.runtime.append(node)
            add_attributes(node.attribute)

    def add_attributes(attributes: Iterable[AttributeProto]) -> None:
        for attribute in attributes:
            "".join((attribute.name, attribute.ref_attr_name))
            if attribute.type in _TENSOR_KINDS:
                if attribute.HasField("t"):
                    stored.tensors.append(attribute.t)
                stored.tensors.extend(attribute.tensors)
                if attribute.HasField("sparse_tensor"):
                    add_sparse([attribute.sparse_tensor])
                add_sparse(attribute.sparse_tensors)
                if attribute.HasField("g"):
                    add_graph(attribute.g)
                for body in attribute.graphs:
                    add_graph(body)

    def add_graph(graph: GraphProto) -> None:
        "".join((graph.name, *(tensor.name for tensor in graph.initializer)))
        for info in (*graph.input, *graph.output, *graph.value_info):
            "".join((info.name, *(dim.dim_param for dim in info.type.tensor_type.shape.dim)))
        stored.tensors.extend(graph.initializer)
        add_sparse(graph.sparse_initializer)
        add_nodes(graph.node)

    try:
        "".join((proto.producer_name, proto.producer_version, *(entry.domain for entry in proto.opset_import)))
        add_graph(proto.graph)
        for function in proto.functions:
            "".join((function.name, function.domain, *function.input, *function.output, *function.attribute))
            add_nodes(function.node)
            add_attributes(function.attribute_proto)
    except TypeError:
        raise ModelError(
            f"{path} is damaged", why="a name in it is not text", fix="copy it again, or " + EXPORT_HINT
        ) from None
    return stored


def check_external_data(path: Path, tensors: Iterable[TensorProto]) -> None:
    """Presence, place and size of what lies in files beside the model."""
    places: dict[str, tuple[str, int]] = {}
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
            said = ", ".join(f"{key}={value}" for key, value in entries.items()) or "nothing"
            raise ModelError(
                f"{path}: where the weights of {tensor.name!r} lie is damaged",
                why=f"it says {said}; the tensor has {size} bytes",
                fix=EXPORT_HINT,
            )
        hint = f"copy {location!r} beside {path.name}: an exporter writes both"
        if location not in places:
            file = path.parent / location
            if not file.is_file():
                raise MissingError(
                    f"{path}: the weights of {tensor.name!r} are missing", why=f"no file {file}", fix=hint
                )
            places[location] = (tensor.name, file.stat().st_size)
        there = places[location][1]
        if there < offset + length:
            raise MissingError(
                f"{path}: the weights of {tensor.name!r} are cut short",
                why=f"{path.parent / location} has {there} bytes, {offset + length} are needed",
                fix=hint,
            )
    for location, (name, size) in places.items():
        _check_place(path, location, name, size)


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


_ENTRY_BYTES = {"float_data": 4, "double_data": 8}
_MOST_VARINT_BYTES = 10


def check_elements(path: Path, stored: StoredTensors) -> None:
    """Hold the elements that were left out against shapes and dtypes, as the checker does with those it sees."""
    for tensor in stored.tensors:
        for field, size in wire.left_out(tensor).items():
            _check_size(path, tensor, field, size)
    for sparse in stored.sparse:
        if _is_checked_here(sparse):
            _check_sparse(path, sparse)


def _check_size(path: Path, tensor: TensorProto, field: str, size: int) -> None:
    known = onnx_graph.tensor_from_initializer(tensor)
    width = units.DTYPE_BITS.get(known.dtype)
    elements = known.elements or 0
    least = most = None
    negative = any(dim < 0 for dim in tensor.dims)
    if field == "string_data":
        least = most = elements
    elif field == "raw_data":
        least = most = known.nbytes
    elif field in _ENTRY_BYTES:
        parts = 2 if known.dtype.startswith("complex") else 1
        least = most = parts * elements * _ENTRY_BYTES[field]
    elif width is not None:
        least = elements if width >= 8 else known.nbytes or 0
        most = _MOST_VARINT_BYTES * elements
    if negative or (least is not None and most is not None and not least <= size <= most):
        kind = "strings" if field == "string_data" else "bytes"
        takes = "" if negative or least is None else f" takes {least}" + (f" to {most}" if most != least else "")
        raise ModelError(
            f"{path}: the elements of {tensor.name!r} do not fit its shape",
            why=f"{field} has {size} {kind}, {known.dtype} {list(tensor.dims)}" + (takes or " is no shape"),
            fix="copy it again, or " + EXPORT_HINT,
        )


def _is_checked_here(sparse: SparseTensorProto) -> bool:
    """Whether the checker cannot look into a sparse tensor."""
    return any(t.data_location == EXTERNAL or wire.left_out(t) for t in (sparse.values, sparse.indices))


def _check_sparse(path: Path, sparse: SparseTensorProto) -> None:
    """The checker's rules for sparse tensors, but for the order of the indices, which are not read."""
    count, rank = tuple(sparse.values.dims), len(sparse.dims)
    fits = (
        len(count) == 1
        and rank > 0
        and all(dim > 0 for dim in sparse.dims)
        and sparse.indices.data_type == TensorProto.INT64
        and tuple(sparse.indices.dims) in (count, (*count, rank))
    )
    if not fits:
        raise ModelError(
            f"{path} fails the ONNX checker",
            why=f"the sparse tensor {sparse.values.name!r} of shape {list(sparse.dims)} has values of shape "
            f"{list(count)} and indices of shape {list(sparse.indices.dims)}",
            fix=EXPORT_HINT,
        )


def check_model(path: Path, proto: ModelProto, stored: StoredTensors) -> str:
    """The ONNX checker, with one defect mended: a graph output that declares no shape.

    Returns:
        What was mended in ``proto``, in words, or nothing.
    """
    try:
        onnx.checker.check_model(_checkable(proto, stored))
    except onnx.checker.ValidationError as error:
        first = first_line(error)
        names = Counter(node.name for node in proto.graph.node if node.name)
        duplicates = [name for name, count in names.items() if count > 1]
        shapeless = [
            output.name
            for output in proto.graph.output
            if output.type.WhichOneof("value") == "tensor_type" and not output.type.tensor_type.HasField("shape")
        ]
        if shapeless and not duplicates and "shape" in first:
            refused = _fill_output_shapes(proto)
            try:
                onnx.checker.check_model(_checkable(proto, stored))
            except onnx.checker.ValidationError as second:
                first = refused or first_line(second)
            else:
                return "the file declares no shape for " + ", ".join(shapeless) + ": filled in by shape inference"
        if duplicates:
            first += f"; two nodes are called {duplicates[0]!r}"
        raise ModelError(f"{path} fails the ONNX checker", why=first, fix=EXPORT_HINT) from None
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"{path} cannot be checked", why=first_line(error), fix=EXPORT_HINT) from None
    return ""


_ONE_ELEMENT = {
    "raw_data": TensorProto(raw_data=bytes(16)), "string_data": TensorProto(string_data=[b""]),
    "float_data": TensorProto(float_data=[0, 0]), "double_data": TensorProto(double_data=[0, 0]),
    "int32_data": TensorProto(int32_data=[0]), "int64_data": TensorProto(int64_data=[0]),
    "uint64_data": TensorProto(uint64_data=[0]),
}  # fmt: skip
"""One element, complex or not, by the field that holds it."""


def _checkable(proto: ModelProto, stored: StoredTensors) -> bytes:
    """The model for the checker: what was left out and what lies elsewhere has become one element.

    The fields that hold elements stay the same ones, since the checker minds which they are.
    """
    kept: list[tuple[TensorProto | SparseTensorProto, bytes]] = []

    def keep(message: TensorProto | SparseTensorProto) -> None:
        kept.append((message, message.SerializeToString()))

    for sparse in stored.sparse:
        if _is_checked_here(sparse):
            keep(sparse)
            sparse.dims[:] = [1]
            for part in (sparse.values, sparse.indices):
                part.dims[:] = [1]
                part.ClearField("data_location")
                _have_one_element(part, ["raw_data"])
    for tensor in stored.tensors:
        fields = list(wire.left_out(tensor))
        outside = tensor.data_location == EXTERNAL
        if outside and not fields and not any(getattr(tensor, field) for field in _ONE_ELEMENT):
            fields = ["string_data" if tensor.data_type == TensorProto.STRING else "raw_data"]
            outside = False
        if fields and not outside:
            keep(tensor)
            tensor.ClearField("dims")
            tensor.ClearField("data_location")
            _have_one_element(tensor, fields)
    domains = [(node, node.domain) for node in stored.runtime]
    imports = len(proto.opset_import)
    if domains and all(entry.domain != _MICROSOFT for entry in proto.opset_import):
        proto.opset_import.add(domain=_MICROSOFT, version=1)
    for node in stored.runtime:
        node.domain = _MICROSOFT
    try:
        return proto.SerializeToString()
    finally:
        for node, domain in domains:
            node.ClearField("domain")
            if domain:
                node.domain = domain
        del proto.opset_import[imports:]
        for message, before in reversed(kept):
            message.ParseFromString(before)


def _have_one_element(tensor: TensorProto, fields: Iterable[str]) -> None:
    """Make these the fields that hold elements, and forget what was left out."""
    for field in _ONE_ELEMENT:
        tensor.ClearField(field)
    tensor.ClearField("metadata_props")
    for field in fields:
        tensor.MergeFrom(_ONE_ELEMENT[field])


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
