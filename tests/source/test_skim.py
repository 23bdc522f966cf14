"""Files read without the elements of large tensors, against protobuf's own reading of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.fakes.support import real_models
from trtprof.base.evaluate import MAX_ELEMENTS
from trtprof.source import skim

PAYLOAD = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")
LARGE = 1200


def read(data: bytes, folder: Path) -> ModelProto:
    path = folder / "model.onnx"
    path.write_bytes(data)
    return skim.read_model(path, MAX_ELEMENTS)


def typed(name: str, data_type: int, count: int) -> TensorProto:
    """A tensor with its elements in the field of their type."""
    values: Any = [b"text %d" % i for i in range(count)] if data_type == TensorProto.STRING else list(range(count))
    return helper.make_tensor(name, data_type, [count], values)


def sparse(name: str, count: int) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(count, np.float32), name),
        numpy_helper.from_array(np.arange(count), ""),
        [10 * count],
    )


def everywhere(count: int) -> ModelProto:
    """Tensors of ``count`` elements as initializers, in attributes, bodies, their bodies, functions and training."""
    tensors = [
        numpy_helper.from_array(np.arange(count, dtype=np.float32), "raw"),
        typed("floats", TensorProto.FLOAT, count),
        typed("doubles", TensorProto.DOUBLE, count),
        typed("int32s", TensorProto.INT32, count),
        typed("int64s", TensorProto.INT64, count),
        typed("uint64s", TensorProto.UINT64, count),
        typed("strings", TensorProto.STRING, count),
    ]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])]
    node = helper.make_node("Constant", [], ["c"], name="constant", value=tensors[0])
    many = helper.make_node("Odd", [], ["o"], domain="own", tensors=tensors[1:3], sparse_value=sparse("s", count))
    inner = helper.make_graph([node], "inner", [], info, tensors[:2])
    middle = helper.make_graph(
        [helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner), many], "middle", [], info
    )
    outer = helper.make_node("If", ["x"], ["z"], name="if", then_branch=middle, else_branch=inner)
    several = helper.make_node("Odd", [], ["p"], domain="own", bodies=[inner, inner])
    graph = helper.make_graph(
        [node, many, outer, several], "graph", info, info, tensors, sparse_initializer=[sparse("sparse", count)]
    )
    function = helper.make_function("own", "F", ["a"], ["c"], [node], [helper.make_opsetid("", 17)])
    function.attribute_proto.append(helper.make_attribute("t", tensors[0]))
    model = helper.make_model(graph, functions=[function])
    model.training_info.add().algorithm.CopyFrom(inner)
    return model


def tensors_in(message: Message) -> Iterator[TensorProto]:
    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for item in value if field.is_repeated else [value]:
                yield from tensors_in(item)


def assert_same_but_for_elements(found: ModelProto, whole: ModelProto) -> None:
    """Everything is there, and of what is not the field is named."""
    for ours, theirs in zip(tensors_in(found), tensors_in(whole), strict=True):
        left = skim.left_out(ours)
        for field in PAYLOAD:
            if field in left:
                assert getattr(theirs, field)
                assert not getattr(ours, field)
            else:
                assert getattr(ours, field) == getattr(theirs, field), field
    for model in (found, whole):
        for tensor in tensors_in(model):
            for field in (*PAYLOAD, "metadata_props"):
                tensor.ClearField(field)
    assert found == whole


def test_large_tensors_lose_their_elements_wherever_they_are(tmp_path: Path) -> None:
    model = everywhere(LARGE)
    found = read(model.SerializeToString(), tmp_path)
    # Only integers that may decide a shape are kept at this size.
    assert {tensor.name for tensor in tensors_in(found) if not skim.left_out(tensor)} == {"int32s", "int64s", ""}
    assert len(found.SerializeToString()) < len(model.SerializeToString()) / 3
    assert_same_but_for_elements(found, model)


def test_what_is_large_depends_on_the_dtype(tmp_path: Path) -> None:
    cases: list[tuple[TensorProto, list[str]]] = [
        (numpy_helper.from_array(np.zeros(256, np.float32)), []),
        (numpy_helper.from_array(np.zeros(257, np.float32)), ["raw_data"]),
        (numpy_helper.from_array(np.zeros(1025, np.int8)), ["raw_data"]),
        (numpy_helper.from_array(np.zeros(MAX_ELEMENTS, np.int64)), []),
        (numpy_helper.from_array(np.zeros(MAX_ELEMENTS + 1, np.int64)), ["raw_data"]),
        (typed("", TensorProto.INT64, MAX_ELEMENTS), []),
        (typed("", TensorProto.DOUBLE, 200), ["double_data"]),
        (typed("", TensorProto.STRING, 200), ["string_data"]),
    ]
    for tensor, left in cases:
        model = ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
        (found,) = read(model.SerializeToString(), tmp_path).graph.initializer
        assert skim.left_out(found) == left, tensor.dims
        assert (list(found.dims), found.data_type) == (list(tensor.dims), tensor.data_type)


def test_a_blob_in_an_attribute_is_left_out(tmp_path: Path) -> None:
    """An EPContext node may hold a compiled engine as a string."""
    node = helper.make_node("EPContext", [], ["y"], domain="com.microsoft", blob=bytes(1 << 20), note="kept")
    (found,) = read(ModelProto(graph=onnx.GraphProto(node=[node])).SerializeToString(), tmp_path).graph.node
    attributes = {attribute.name: attribute for attribute in found.attribute}
    assert attributes["blob"].HasField("s")
    assert attributes["blob"].s == b""
    assert attributes["note"].s == b"kept"


def test_every_message_that_holds_a_tensor_is_known() -> None:
    """A field that a later onnx adds must not bring weights in unseen."""

    def reaches(message: Any, seen: frozenset[str]) -> bool:
        if message.name == "TensorProto":
            return True
        inner = (field.message_type for field in message.fields if field.type == FieldDescriptor.TYPE_MESSAGE)
        return any(reaches(i, seen | {message.name}) for i in inner if i.name not in seen)

    wanted: dict[str, dict[int, str]] = {}
    queue: list[Any] = [ModelProto.DESCRIPTOR]
    for message in queue:
        fields: dict[int, Any] = {
            field.number: field.message_type
            for field in message.fields
            if field.type == FieldDescriptor.TYPE_MESSAGE and reaches(field.message_type, frozenset())
        }
        wanted[message.name] = {number: inner.name for number, inner in fields.items()}
        queue += [i for i in fields.values() if i.name not in (*wanted, "TensorProto") and i not in queue]
    known = {
        name: {number: inner for number, inner in fields.items() if inner != "blob"}
        for name, fields in skim._HOLDERS.items()
    }
    assert known == wanted
    elements = {field.number: field.name for field in TensorProto.DESCRIPTOR.fields if field.name.endswith("_data")}
    elements.pop(TensorProto.EXTERNAL_DATA_FIELD_NUMBER)
    assert elements == skim._ELEMENTS


def test_a_file_cut_anywhere_is_refused_or_read_as_protobuf_does(tmp_path: Path) -> None:
    data = everywhere(300).SerializeToString()
    for end in range(0, len(data), 499):
        try:
            whole = ModelProto.FromString(data[:end])
        except DecodeError:
            with pytest.raises((skim.SkimError, DecodeError)):
                read(data[:end], tmp_path)
        else:
            assert_same_but_for_elements(read(data[:end], tmp_path), whole)


def test_real_models_are_read_as_protobuf_reads_them() -> None:
    for path in real_models():
        assert_same_but_for_elements(skim.read_model(path, MAX_ELEMENTS), ModelProto.FromString(path.read_bytes()))
