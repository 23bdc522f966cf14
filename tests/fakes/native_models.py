"""Models that onnx's own C++ code reads wrongly, slowly or for ever: its checker, inliner, converter and inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import onnx
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
)  # fmt: skip

NUMBERS = (0, -1, 1, 2, 3, 4, 7, 100, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**31), 2**33 + 1)
_DEPTHS = (5, 20, 28, 31, 33, 49, 60, 97, 110, 1000, 20_000)
_COUNTS = (10, 1000, 20_000)
_LATEST = defs.onnx_opset_version()
_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(
    nodes: Sequence[NodeProto], initializers: Sequence[TensorProto] = (), functions: Sequence[FunctionProto] = ()
) -> ModelProto:
    """A model of x, 2x3x4x5 floats, to whatever the last node makes."""
    made = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", _FLOAT, [2, 3, 4, 5])],
        [helper.make_tensor_value_info(nodes[-1].output[0], _FLOAT, [None] * 4)], list(initializers),
    )  # fmt: skip
    return helper.make_model(made, opset_imports=_opsets(), functions=list(functions), ir_version=10)


def _opsets(version: int = _LATEST) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid("", version), helper.make_opsetid("d", 1), helper.make_opsetid("com.microsoft", 1)]


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes as protobuf writes it."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _in_one_another(path: Sequence[int], depth: int, core: bytes, marks: Sequence[bytes]) -> bytes:
    """Messages that lie in one another, written without an object for each.

    Args:
        path: Numbers of the fields from the outer to the next of its kind.
        depth: How often.
        core: The innermost.
        marks: Other fields of each on the path.
    """
    for _ in range(depth):
        for number, mark in zip(reversed(path), reversed(marks), strict=True):
            core = mark + _field(number, core)
        if len(core) > 1 << 22:
            break
    return core


def bodies(random: Random) -> bytes:
    """Branches in branches."""
    depth = random.choice(_DEPTHS)
    inner = GraphProto(name="b", node=[helper.make_node("Identity", ["x"], ["y"])])
    inner.output.add(name="y").type.tensor_type.elem_type = _FLOAT
    name = _field(2, b"b") + _field(12, inner.output[0].SerializeToString())
    op = _field(1, b"c") + _field(2, b"y") + _field(4, b"If")
    attribute = _field(1, b"then_branch") + b"\xa0\x01\x05"
    content = _in_one_another((1, 5, 6), depth, inner.SerializeToString(), (name, op, attribute))
    outer = model_of([helper.make_node("Identity", ["x"], ["y"])])
    outer.graph.Clear()
    return outer.SerializeToString() + _field(7, content)


def types(random: Random) -> bytes:
    """A type of types, of an input or an attribute."""
    fields = random.choice(((4, 1), (9, 1), (5, 2)))  # sequence, optional, map
    tensor = helper.make_tensor_type_proto(_FLOAT, [1]).SerializeToString()
    marks = (b"", b"\x08\x07") if fields[0] == 5 else (b"", b"")
    content = _in_one_another(fields, random.choice(_DEPTHS), tensor, marks)
    if random.random() < 0.5:
        extra = _field(11, _field(1, b"q") + _field(2, content))
        return model_of([helper.make_node("Identity", ["q"], ["y"])]).SerializeToString() + _field(7, extra)
    op = (
        _field(2, b"y") + _field(4, b"Optional") + _field(5, _field(1, b"type") + b"\xa0\x01\x0d" + _field(14, content))
    )
    return model_of([helper.make_node("Relu", ["x"], ["z"])]).SerializeToString() + _field(7, _field(1, op))


def functions(random: Random) -> ModelProto:
    """Functions that call themselves by another name, are there twice, hide an op, or lie deep."""
    domain, other = random.choice((("", "ai.onnx"), ("ai.onnx", ""), ("d", "d"), ("com.microsoft", "")))
    name = random.choice(("f", "Relu", "Conv", "If", "Constant", "Identity", ""))
    kind = random.randrange(8)
    node, make = helper.make_node, helper.make_function
    call = node(name, ["x"], ["y"], domain=other)
    body: list[NodeProto] = [call]
    if kind == 1:  # through a branch
        inner = GraphProto(name="b", node=[call])
        inner.output.add(name="y").type.tensor_type.elem_type = _FLOAT
        body = [node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)]
    elif kind == 2:
        body = [node("Relu", ["x"], ["y"], domain="")] * random.choice((2, 5000))
    elif kind == 3:
        body = []
    found = [make(domain, name, ["x"], ["y"], body, _opsets())]
    if kind == 4:  # the same twice, or with overloads
        found = found * 3
        found[1].overload = random.choice(("", "o"))
    elif kind == 5:
        found = [make("d", f"f{i}", ["x"], ["y"], [node(f"f{i + 1}", ["x"], ["y"], domain="d")], _opsets())
                 for i in range(random.choice((30, 150, 199, 3000)))]  # fmt: skip
        found.append(make("d", f"f{len(found)}", ["x"], ["y"], [node("Relu", ["x"], ["y"])], _opsets()))
        call = node("f0", ["x"], ["y"], domain="d")
    elif kind == 6:  # parameters that name one another
        one = node("LeakyRelu", ["x"], ["y"])
        one.attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name=random.choice(("alpha", "", "none")))
        found = [make("d", "f", ["x"], ["y"], [one], _opsets(), ["alpha", "alpha"][: random.randrange(3)])]
        call = node("f", ["x"], ["y"], domain="d", alpha=random.choice((1.0, "x", [1, 2])))
    elif kind == 7:  # names of the function that are there twice, or nowhere
        found = [make("d", "f", ["x"] * random.choice((0, 2, 2000)), ["y"] * random.choice((0, 1, 3)),
                      [node("Relu", ["x"], ["z"])], random.choice((_opsets(), [], _opsets(1) * 3)))]  # fmt: skip
        call = node("f", ["x"] * random.choice((0, 1, 5)), ["y"], domain="d")
    return model_of([call], functions=found)


def lists(random: Random) -> ModelProto:
    """Attributes with very many parts, or the same one many times."""
    count = random.choice(_COUNTS) * 10
    node = helper.make_node(random.choice(("Constant", "Relu", "Reshape", "Transpose", "Conv")), ["x"], ["y"])
    match random.randrange(6):
        case 0:
            node.attribute.add(name="value_ints", type=AttributeProto.INTS).ints.extend(range(count))
        case 1:
            node.attribute.add(name="value_strings", type=AttributeProto.STRINGS).strings.extend([b"\xff"] * count)
        case 2:
            tensors = [helper.make_tensor("t", _FLOAT, [1], [1.0])] * (count // 10)
            node.attribute.add(name="t", type=AttributeProto.TENSORS).tensors.extend(tensors)
        case 3:
            graphs = [GraphProto(name="b")] * (count // 10)
            node.attribute.add(name="then_branch", type=AttributeProto.GRAPHS).graphs.extend(graphs)
        case 4:
            for _ in range(count // 10):
                node.attribute.add(name="axis", type=AttributeProto.INT, i=1)
        case _:
            kinds = [TypeProto()] * (count // 10)
            node.attribute.add(name="type", type=AttributeProto.TYPE_PROTOS).type_protos.extend(kinds)
    return model_of([node])


def tensors(random: Random) -> ModelProto:
    """Constants whose shape says other than their elements, in 64 bits perhaps not."""
    tensor = TensorProto(name="w", data_type=random.choice((1, 7, 8, 9, 10, 11, 14, 17, 22, 23, 24, 0, -1, 99)))
    tensor.dims.extend(random.choice(NUMBERS) for _ in range(random.choice((0, 1, 2, 2, 3, 8, 1000))))
    if random.random() < 0.4:
        tensor.dims[:] = random.choice(([2**32, 2**32], [2**33, 2**31], [2**63 - 1, 2], [3, -1, 2**62], [2**62, 4, 0]))
    match random.randrange(6):
        case 0:
            tensor.raw_data = bytes(random.choice((0, 1, 4, 64)))
        case 1:
            tensor.float_data.extend([1.0] * random.choice((1, 4)))
        case 2:
            tensor.string_data.extend([b"\xff\xfe\0", b""])
        case 3:
            tensor.int64_data.extend([random.choice(NUMBERS)] * random.choice((1, 4)))
            tensor.raw_data = b"x"
        case 4:
            tensor.int32_data.extend([-1, 2**31 - 1])
            tensor.segment.begin, tensor.segment.end = -1, 2**62
        case _:
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": "w.bin", "offset": str(random.choice(NUMBERS)), "length": str(random.choice(NUMBERS)),
                     "checksum": "\0" * 9}  # fmt: skip
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
    op_type = random.choice(("Add", "Reshape", "Expand", "Tile", "Gather", "Conv", "Slice", "ConstantOfShape", "Pad"))
    model = model_of([helper.make_node(op_type, ["x", "w"], ["y"])], [tensor])
    match random.randrange(4):
        case 0:
            model.graph.node.insert(0, helper.make_node("Constant", [], ["w"]))
            model.graph.node[0].attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
            del model.graph.initializer[:]
        case 1:
            sparse = SparseTensorProto(values=tensor, dims=[random.choice(NUMBERS) for _ in range(3)])
            sparse.indices.CopyFrom(
                helper.make_tensor("", _INT64, [2], [random.choice(NUMBERS), random.choice(NUMBERS)])
            )
            if random.random() < 0.5:
                model.graph.sparse_initializer.append(sparse)
            else:
                first = model.graph.node.add(op_type="Constant", output=["s"])
                first.attribute.add(name="sparse_value", type=AttributeProto.SPARSE_TENSOR).sparse_tensor.CopyFrom(
                    sparse
                )
        case 2:
            model.graph.initializer.extend([tensor] * 3)
    return model


def imports(random: Random) -> ModelProto:
    """Sets of ops that are there many times, by two names, or that nobody has."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"], domain=random.choice(("", "ai.onnx", "d", "\u0661")))])
    if random.random() < 0.5:
        del model.opset_import[:]
    for _ in range(random.choice((1, 2, 1000))):
        model.opset_import.add(
            domain=random.choice(("", "ai.onnx", "ai.onnx.ml", "d", "x" * 1000)), version=random.choice((*NUMBERS, 18))
        )
    model.ir_version = random.choice((0, 1, 3, 7, 10, 13, 99, 2**62))
    return model


def many(random: Random) -> ModelProto:
    """Very many nodes, values, names or texts, some of them the same."""
    count = random.choice(_COUNTS)
    node = helper.make_node
    model = model_of([node("Relu", ["x"], ["y"])])
    graph = model.graph
    match random.randrange(8):
        case 0:
            graph.node.extend(node("Relu", [f"t{i + 1}"], [f"t{i}"]) for i in range(count))
        case 1:
            graph.node.extend([node("Relu", ["x"], ["y"])] * count)
        case 2:
            graph.value_info.extend([graph.input[0]] * count)
        case 3:
            graph.input.extend([graph.input[0]] * count)
        case 4:
            graph.output.extend([graph.output[0]] * count)
        case 5:
            for i in range(count):
                graph.quantization_annotation.add(tensor_name=f"t{i}").quant_parameter_tensor_names.add(
                    key="SCALE_TENSOR"
                )
                model.metadata_props.add(key="k", value="v")
        case 6:
            model.training_info.add().algorithm.CopyFrom(graph)
            model.training_info[0].update_binding.add(key="a", value="b")
        case _:
            graph.node[0].name = graph.name = model.doc_string = "x" * (count * 500)
    return model


@cache
def _schemas() -> list[defs.OpSchema]:
    kept = ("", "ai.onnx.ml", "ai.onnx.preview")
    found = [one for one in defs.get_all_schemas_with_history() if one.domain in kept]
    return sorted(found, key=lambda one: (one.domain, one.name, one.since_version))


def _value(random: Random, kind: object) -> object:
    """A value of an attribute that no exporter writes."""
    match str(kind).rpartition(".")[2]:
        case "INT":
            return random.choice(NUMBERS)
        case "INTS":
            return [random.choice(NUMBERS) for _ in range(random.choice((0, 1, 1, 2, 2, 4, 9)))]
        case "FLOAT":
            return random.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case "FLOATS":
            return [random.choice((0.0, 1e30, float("inf"))) for _ in range(random.choice((1, 2, 4)))]
        case "STRING":
            return random.choice(
                (b"", b"\xff", b"SAME_UPPER", b"VALID", b"linear", b"cubic", b"NOTSET", b"->", b"ij->ij")
            )
        case "STRINGS":
            return [random.choice((b"", b"\xff", b"Relu", b"Tanh"))] * random.choice((1, 3))
        case "TENSOR":
            values = [random.choice(NUMBERS) for _ in range(random.choice((1, 2, 4)))]
            return helper.make_tensor("", _INT64, [len(values)], values)
        case "GRAPH":
            inner = GraphProto(name="b", node=[helper.make_node("Identity", ["x"], ["q"])])
            inner.output.add(name="q")
            inner.input.extend(helper.make_tensor_value_info(f"i{i}", _FLOAT, [1]) for i in range(random.randrange(4)))
            return inner
        case _:
            return None


def ops(random: Random) -> ModelProto:
    """Any op of any opset, with numbers that it divides by, counts to or makes room for."""
    schema = random.choice(_schemas())
    names = []
    initializers = []
    least = schema.min_input
    count = random.choice((least, least, min(schema.max_input, least + 3), least + 1, len(schema.inputs)))
    for i in range(min(count, 12)):
        kind = random.random()
        if kind < 0.5:
            names.append("x")
        elif kind < 0.55:
            names.append("")
        else:
            size = random.choice((0, 1, 1, 2, 4, 4, 8))
            values = [random.choice(NUMBERS) for _ in range(size)]
            shape = random.choice(([size], [size], [] if size == 1 else [size], [1, size]))
            initializers.append(helper.make_tensor(f"c{i}", _INT64, shape, values))
            if random.random() < 0.25:
                initializers[-1] = helper.make_tensor(f"c{i}", _FLOAT, shape, list(map(float, values)))
            names.append(f"c{i}")
    outputs = random.choice((max(schema.min_output, 1), min(schema.max_output, 3), 1))
    node = helper.make_node(schema.name, names, [f"y{i}" for i in range(outputs)], domain=schema.domain)
    for name, attribute in sorted(schema.attributes.items()):
        if attribute.required or random.random() < 0.6:
            value = _value(random, attribute.type)
            if value is not None:
                with_type = str(attribute.type).rpartition(".")[2]
                node.attribute.append(
                    helper.make_attribute(name, value, attr_type=AttributeProto.AttributeType.Value(with_type))
                )
    model = model_of([node], initializers)
    version = random.choice((schema.since_version, schema.since_version, _LATEST if not schema.domain else 1))
    model.opset_import[0].version = version if not schema.domain else _LATEST
    model.opset_import.add(domain="ai.onnx.ml", version=5)
    if schema.domain == "ai.onnx.preview":
        model.opset_import.add(domain=schema.domain, version=1)
    if random.random() < 0.5:
        dims = [random.choice((0, 1, 2, 3, 8, 2**31, 2**40)) for _ in range(random.choice((0, 1, 2, 3, 4, 4, 5)))]
        model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(random.choice((1, 1, 1, 7, 9, 10)), dims))
    if random.random() < 0.3:  # what decides a shape is made, not given
        model.graph.node.insert(0, helper.make_node("Shape", ["x"], ["s"]))
        node = model.graph.node[-1]
        node.input[:] = ["s" if name.startswith("c") else name for name in node.input]
    return model


def wire(random: Random) -> bytes:
    """Bytes that no writer of protobuf makes: lengths of more than is there, groups, fields that nobody knows."""
    content = model_of([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    length = random.choice((2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(content) + 1))
    match random.randrange(6):
        case 0:
            return content + _varint(random.choice((7, 8, 5, 14, 20, 25, 99, 2**29 - 1)) << 3 | 2) + _varint(length)
        case 1:
            return content + b"\x9b\x06" * random.choice(_DEPTHS)
        case 2:
            depth = random.choice(_DEPTHS)
            return content + b"\x9b\x06" * depth + b"\x9c\x06" * depth
        case 3:
            return content + _in_one_another((99,), random.choice(_DEPTHS), b"", (b"",))
        case 4:
            return _field(7, _field(5, _varint(9 << 3 | 2) + _varint(length))) + content
        case _:
            return content * random.choice((2, 1000))


NATIVE: Sequence[Callable[[Random], ModelProto | bytes]] = (
    bodies, types, functions, lists, tensors, imports, many, wire, ops, ops, ops, ops, ops, ops,
)  # fmt: skip


def native(random: Random) -> tuple[str, bytes]:
    """One of them: what it is, and the file."""
    make = random.choice(NATIVE)
    made = make(random)
    return make.__name__, made if isinstance(made, bytes) else made.SerializeToString()
