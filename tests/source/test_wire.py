"""Files read without the elements of large tensors, against protobuf's own reading of the same bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.fakes.support import real_models, save_with_hole
from trtprof.base.evaluate import MAX_ELEMENTS
from trtprof.source import wire

PAYLOAD = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")
LARGE, SMALL = 1200, 4


def read(data: bytes, folder: Path) -> ModelProto:
    path = folder / "model.onnx"
    path.write_bytes(data)
    return wire.read_model(path, MAX_ELEMENTS)


# --- models with tensors wherever a model can hold them ------------------------------------------


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


def packed_bytes(tensor: TensorProto, field: str) -> int:
    """Bytes of the elements in a field, or the number of strings."""
    if field in ("raw_data", "string_data"):
        return len(getattr(tensor, field))
    alone = TensorProto(**{field: getattr(tensor, field)})
    size = alone.ByteSize()
    header = 1 + next(n for n in range(1, 6) if size - 1 - n < 1 << 7 * n) if size else 0
    return size - header


def assert_same_but_for_elements(found: ModelProto, whole: ModelProto) -> None:
    """Everything is there, and what is not is told by its size."""
    for ours, theirs in zip(tensors_in(found), tensors_in(whole), strict=True):
        left = wire.left_out(ours)
        for field in PAYLOAD:
            kept = 0 if field == "raw_data" and field in left else packed_bytes(ours, field)
            assert kept + left.get(field, 0) == packed_bytes(theirs, field), (ours.name, field)
            if field not in left:
                assert getattr(ours, field) == getattr(theirs, field)
    for model in (found, whole):
        for tensor in tensors_in(model):
            for field in (*PAYLOAD, "metadata_props"):
                tensor.ClearField(field)
    assert found == whole


def test_large_tensors_lose_their_elements_wherever_they_are(tmp_path: Path) -> None:
    model = everywhere(LARGE)
    found = read(model.SerializeToString(), tmp_path)
    every = list(tensors_in(found))
    # Only integers that may decide a shape are kept at this size.
    assert {tensor.name for tensor in every if not wire.left_out(tensor)} == {"int32s", "int64s", ""}
    assert {tensor.data_type for tensor in every if not wire.left_out(tensor)} == {TensorProto.INT32, TensorProto.INT64}
    assert len(found.SerializeToString()) < len(model.SerializeToString()) / 3
    assert_same_but_for_elements(found, model)


def test_small_tensors_are_kept_as_they_are(tmp_path: Path) -> None:
    model = everywhere(SMALL)
    assert read(model.SerializeToString(), tmp_path) == model


@pytest.mark.parametrize(
    ("tensor", "left"),
    [
        (numpy_helper.from_array(np.zeros(256, np.float32)), {}),
        (numpy_helper.from_array(np.zeros(257, np.float32)), {"raw_data": 1028}),
        (numpy_helper.from_array(np.zeros(1025, np.int8)), {"raw_data": 1025}),
        (numpy_helper.from_array(np.zeros(MAX_ELEMENTS, np.int64)), {}),
        (numpy_helper.from_array(np.zeros(MAX_ELEMENTS + 1, np.int64)), {"raw_data": 8 * MAX_ELEMENTS + 8}),
        (typed("", TensorProto.INT64, MAX_ELEMENTS), {}),
        (typed("", TensorProto.DOUBLE, 200), {"double_data": 1600}),
        (typed("", TensorProto.STRING, 200), {"string_data": 200}),
    ],
)
def test_what_is_large_depends_on_the_dtype(tensor: TensorProto, left: dict[str, int], tmp_path: Path) -> None:
    tensor.name = "w"
    model = ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
    (found,) = read(model.SerializeToString(), tmp_path).graph.initializer
    assert wire.left_out(found) == left
    assert bool(found == tensor) == (not left)
    assert (found.name, list(found.dims), found.data_type) == ("w", list(tensor.dims), tensor.data_type)


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
        for name, fields in wire._HOLDERS.items()
    }
    assert known == wanted
    elements = {field.number: field.name for field in TensorProto.DESCRIPTOR.fields if field.name.endswith("_data")}
    elements.pop(TensorProto.EXTERNAL_DATA_FIELD_NUMBER)
    assert elements == wire._ELEMENTS


# --- the wire format ------------------------------------------------------------------------------


def varint(number: int, padding: int = 0) -> bytes:
    """A number, with bytes that add nothing if asked for."""
    number %= 1 << 64
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.append(number & 0x7F)
    parts += [0] * min(padding, 10 - len(parts))
    return bytes(part | 0x80 for part in parts[:-1]) + bytes(parts[-1:])


def field(number: int, kind: int, value: bytes) -> bytes:
    return varint(number << 3 | kind) + (varint(len(value)) if kind == 2 else b"") + value


_FIXED = {FieldDescriptor.TYPE_FLOAT: ("<f", 5), FieldDescriptor.TYPE_DOUBLE: ("<d", 1)}
_TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


class Writer:
    """Writes a message in one of the many ways that protobuf must read the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def message(self, message: Message) -> bytes:
        groups = [self._field(field, value) for field, value in message.ListFields()]
        if self.random.random() < 0.3:
            groups.append([self._unknown()])
        # Fields may come in any order, but the elements of one field in theirs.
        order = [index for index, group in enumerate(groups) for _ in group]
        self.random.shuffle(order)
        queues = [iter(group) for group in groups]
        return b"".join(next(queues[index]) for index in order)

    def _field(self, descriptor: Any, value: Any) -> list[bytes]:
        items = list(value) if descriptor.is_repeated else [value]
        number = descriptor.number
        if descriptor.type == FieldDescriptor.TYPE_MESSAGE:
            if not descriptor.is_repeated and self.random.random() < 0.5:
                return [field(number, 2, part) for part in self._in_two(items[0])]
            return [field(number, 2, self.message(item)) for item in items]
        if descriptor.type in _TEXT:
            return [field(number, 2, item.encode() if isinstance(item, str) else item) for item in items]
        code, kind = _FIXED.get(descriptor.type, ("", 0))
        elements = [struct.pack(code, item) if code else varint(item, self.random.choice((0, 0, 2))) for item in items]
        if descriptor.is_repeated and self.random.random() < 0.7:
            half = self.random.randrange(len(elements) + 1)
            return [field(number, 2, b"".join(part)) for part in (elements[:half], elements[half:])]
        return [field(number, kind, element) for element in elements]

    def _in_two(self, message: Message) -> Iterator[bytes]:
        """A message in two parts, which the reader merges."""
        parts = [type(message)(), type(message)()]
        for descriptor, value in message.ListFields():
            if descriptor.is_repeated:
                half = self.random.randrange(len(value) + 1)
                for part, some in zip(parts, (value[:half], value[half:]), strict=True):
                    if some:
                        getattr(part, descriptor.name).extend(some)
            else:
                part = self.random.choice(parts)
                if descriptor.type == FieldDescriptor.TYPE_MESSAGE:
                    getattr(part, descriptor.name).CopyFrom(value)
                else:
                    setattr(part, descriptor.name, value)
        # Of a single value, the last one counts.
        if isinstance(message, TensorProto) and parts[1].HasField("raw_data"):
            parts[0].raw_data = bytes(self.random.choice((3, 5000)))  # type: ignore[attr-defined]
        for part in parts:
            yield self.message(part)

    def _unknown(self) -> bytes:
        number = self.random.choice((90, 900, 90_000))
        inner = field(number, 0, varint(7)) + field(number + 1, 2, bytes(20))
        group = varint(number << 3 | 3) + inner + varint(number << 3 | 4)
        return self.random.choice((inner, group, field(number, 5, bytes(4)), field(number, 1, bytes(8))))


@given(seed=st.integers(0, 2**32), count=st.sampled_from([SMALL, 300]))
def test_whatever_way_a_model_is_written_it_is_read_as_protobuf_reads_it(
    seed: int, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = Writer(seed).message(everywhere(count))
    whole = ModelProto.FromString(data)
    for message in (whole, found := read(data, tmp_path_factory.getbasetemp())):
        message.DiscardUnknownFields()
    assert_same_but_for_elements(found, whole)


def test_of_raw_data_written_twice_the_last_one_counts(tmp_path: Path) -> None:
    for sizes in ((5000, 8), (8, 5000), (5000, 6000), (6000, 5000)):
        parts = b"".join(TensorProto(raw_data=bytes(size)).SerializeToString() for size in sizes)
        (found,) = read(field(7, 2, field(5, 2, parts)), tmp_path).graph.initializer
        assert wire.left_out(found) == {"raw_data": sizes[1]}
        split = b"".join(field(5, 2, TensorProto(raw_data=bytes(size)).SerializeToString()) for size in sizes)
        node = field(1, 2, field(5, 2, split))
        (attribute,) = read(field(7, 2, node), tmp_path).graph.node[0].attribute
        kept = len(attribute.t.raw_data)
        assert (kept or wire.left_out(attribute.t)["raw_data"]) == sizes[1]


_DAMAGED = everywhere(300).SerializeToString()


@given(data=st.data())
def test_damaged_bytes_are_refused_where_protobuf_refuses_them(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(_DAMAGED)
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(1, len(content))) :]
    try:
        whole = ModelProto.FromString(bytes(content))
    except DecodeError:
        whole = None
    try:
        found = read(bytes(content), tmp_path_factory.getbasetemp())
    except (wire.WireError, DecodeError):
        assert whole is None
    else:
        # What is passed over is not looked at: only within it can damage stay unseen.
        assert whole is not None or any(wire.left_out(tensor) for tensor in tensors_in(found))


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a",  # a header without a length
        b"\x3a\x05\x0a",  # a length beyond the end
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of eleven bytes
        b"\x08",  # a number that is missing
        b"\x08\x80",  # a number that does not end
        b"\x00\x00",  # field number 0
        b"\x0e\x00",  # wire type 6
        b"\x0c",  # the end of a group that did not begin
        b"\x0b\x08\x01",  # a group that does not end
        b"\x0b\x14",  # a group that ends as another one
        b"\x0d\x01\x02",  # four bytes, two of them missing
        b"\x0b" * 200,  # groups nested too deep
        field(7, 2, field(5, 2, b"\x4a\xff\x20" + bytes(2000))),  # elements beyond the end of their tensor
    ],
)
def test_what_is_no_message_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DecodeError):
        ModelProto.FromString(data)
    with pytest.raises((wire.WireError, DecodeError)):
        read(data, tmp_path)


def test_messages_nested_too_deep_are_refused(tmp_path: Path) -> None:
    graph = field(5, 2, TensorProto(raw_data=bytes(5000)).SerializeToString())
    for _ in range(60):
        graph = field(1, 2, field(5, 2, field(6, 2, graph)))
    data = field(7, 2, graph)
    with pytest.raises(DecodeError):
        ModelProto.FromString(data)
    with pytest.raises(wire.WireError, match="too deep"):
        read(data, tmp_path)


def test_a_file_cut_anywhere_is_refused_or_read_as_protobuf_does(tmp_path: Path) -> None:
    data = everywhere(300).SerializeToString()
    for end in range(0, len(data), 499):
        try:
            whole = ModelProto.FromString(data[:end])
        except DecodeError:
            with pytest.raises((wire.WireError, DecodeError)):
                read(data[:end], tmp_path)
        else:
            assert_same_but_for_elements(read(data[:end], tmp_path), whole)


def test_real_models_are_read_as_protobuf_reads_them() -> None:
    for path in real_models():
        whole = ModelProto.FromString(path.read_bytes())
        assert_same_but_for_elements(wire.read_model(path, MAX_ELEMENTS), whole)


# --- what is read -----------------------------------------------------------------------------------


def test_of_a_large_file_next_to_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, size = tmp_path / "model.onnx", 30 << 20
    weights = [TensorProto(name=f"w{index}", data_type=TensorProto.UINT8, dims=[size]) for index in range(50)]
    save_with_hole(ModelProto(), path, weights, size)
    assert path.stat().st_size > 1500 << 20
    got: list[int] = []
    plain: Callable[..., object] = Path.open

    class Counted:
        def __init__(self, file: object) -> None:
            self._file = file

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def read(self, size: int) -> bytes:
            data: bytes = self._file.read(size)  # type: ignore[attr-defined]
            got.append(len(data))
            return data

    monkeypatch.setattr(Path, "open", lambda *a, **k: Counted(plain(*a, **k)))
    model = wire.read_model(path, MAX_ELEMENTS)
    assert [wire.left_out(tensor) for tensor in model.graph.initializer] == [{"raw_data": size}] * 50
    assert 0 < sum(got) < 50 * 8192
