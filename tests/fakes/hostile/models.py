"""ONNX files with parts that are wrong, and small files that say much: an error, or work that a model can have."""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.fakes import native_models
from tests.fakes.hostile.mutate import TEXTS, mutated_bytes
from tests.fakes.hostile.running import Case, Outcome
from tests.fakes.support import ROOT

_SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
WARM = [
    ("inspect", str(_SAMPLES[0])),
    ("inspect", str(_SAMPLES[0]), "--format", "json"),
    ("predict", str(_SAMPLES[0]), "--gpu", "l4"),
    ("build", str(_SAMPLES[0]), "--dry-run"),
]
_ASKED: tuple[tuple[str, ...], ...] = (
    ("inspect",), ("inspect", "--format", "json"), ("predict", "--gpu", "l4"), ("build", "--dry-run"),
    ("inspect", "--format", "csv"), ("predict", "--gpu", "l4,t4", "--format", "json"), ("inspect", "--batch", "4"),
    ("predict", "--gpu", "l4", "--level", "nodes", "--dtype", "fp16"), ("predict", "--gpu", "l4", "-o", "p.html"),
    ("predict", "--gpu", "l4", "--format", "json", "--batch", "7"),
)  # fmt: skip
_BIG = (0, -1, 1, 2, 3, 7, 2**31 - 1, 2**31, 10**12, 2**62, 2**63 - 1, -(2**63), -(2**31))
_NAMES = tuple(text for text in TEXTS if text != "NaN" and not any("\ud800" <= letter <= "\udfff" for letter in text))
_OP_TYPES = """Nope Conv If Loop Scan Einsum Resize Reshape Attention LSTM TopK Split ConstantOfShape Tile Expand Range
    OneHot Pad Slice Concat Gather GatherND Unsqueeze Squeeze Where Pow GroupQueryAttention <b>""".split()  # noqa: SIM905
_DTYPES = (0, 1, 2, 7, 8, 9, 10, 14, 16, 17, 20, 21, 22, 23, 24, 25, 26, 99, -1, 2**31 - 1)
_STRINGS = (b"", b"\xff\xfe", b"x" * 10**6, b"SAME_UPPER", b"NOTSET", b"\0", b"linear", b"->", b"i" * 60 + b"->i",
            b"...ij,jk...->...", b"a,b,c,d,e,f,g->")  # fmt: skip
_SECRET = b"what lies outside is read by nobody"
_LOCATIONS = ("../secret", "/etc/hostname", "link", "w.bin", "", ".", "..", "a/../../secret", "w.bin\0x", "\0", "fifo",
              "/dev/zero", "x" * 5000, "w.bin")  # fmt: skip
_MOST_BYTES = 6_000_000
_ABSURD = 2**63


@cache
def _pool(data: Path | None) -> Sequence[bytes]:
    """Models to be broken: ours and those of the operators' tests, or others' where there are any."""
    found = [path.read_bytes() for path in _SAMPLES] * 3
    if data is not None:
        return found + [path.read_bytes() for path in sorted(data.rglob("*.onnx")) if path.stat().st_size < _MOST_BYTES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    return found + [one.model.SerializeToString() for one in cases if one.model is not None]


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)


def _values(graph: GraphProto) -> list[ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _mutate(random: Random, model: ModelProto) -> None:
    """One thing wrong, of those that people and programs get wrong, or would not think of."""
    graph = model.graph
    kinds: list[Callable[[], object]] = [lambda: _of_model(random, model), lambda: _of_values(random, graph)]
    nodes = list(_nodes(graph))
    if nodes:
        kinds += [lambda: _of_node(random, graph, random.choice(nodes), nodes)] * 2
        kinds.append(lambda: _of_attribute(random, random.choice(nodes)))
    if graph.initializer:
        kinds.append(lambda: _of_tensor(random, random.choice(graph.initializer)))
    random.choice(kinds)()


def _of_model(random: Random, model: ModelProto) -> None:
    graph, name = model.graph, random.choice(_NAMES)
    match random.randrange(9):
        case 0:
            if not model.opset_import:
                model.opset_import.add(domain="", version=1)
            model.opset_import[0].version = random.choice((0, 1, 5, 999, -1, 2**31, 2**62, 27))
        case 1:
            model.ir_version = random.choice((0, 1, 2, 3, 999, -1, 2**62))
        case 2:
            function = model.functions.add(
                name=random.choice(("f", "Conv", "Relu", "")), domain=random.choice(("", "d"))
            )
            function.node.add(op_type=random.choice(("f", "Relu")), domain="d", input=["x"], output=["y"])
        case 3:
            model.metadata_props.add(key=name, value=random.choice(_NAMES))
        case 4:
            model.producer_name, model.doc_string, graph.name = name, name, name
        case 5:
            graph.ClearField(random.choice(("output", "input", "node", "name", "initializer", "value_info")))
        case 6:
            graph.output.add().name = random.choice(
                ("nowhere", "", *(n for node in graph.node[:3] for n in node.output))
            )
        case 7 if len(graph.node) > 1:
            order = [copy.deepcopy(node) for node in graph.node]
            random.shuffle(order)
            del graph.node[:]
            graph.node.extend(order)
        case _:
            del model.opset_import[:]


def _of_values(random: Random, graph: GraphProto) -> None:
    values = _values(graph)
    if not values:
        return
    value = random.choice(values)
    dims = value.type.tensor_type.shape.dim
    match random.randrange(6):
        case 0 | 1:
            if not dims or random.random() < 0.2:
                dims.add()
            random.choice(dims).dim_value = random.choice(_BIG)
        case 2:
            value.type.tensor_type.elem_type = random.choice(_DTYPES)
        case 3:
            for dim in dims:
                dim.dim_param = random.choice((*_NAMES[:8], "N", "-1", "2*N", "N+1", "__import__('os')"))
        case 4:
            tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
            kinds: tuple[Callable[[], Any], ...] = (
                value.type.Clear,
                lambda: value.type.CopyFrom(helper.make_sequence_type_proto(tensor)),
                lambda: value.type.CopyFrom(helper.make_optional_type_proto(tensor)),
                lambda: value.type.CopyFrom(helper.make_map_type_proto(TensorProto.INT64, tensor)),
                lambda: value.type.CopyFrom(helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2**62, 3])),
            )
            random.choice(kinds)()
        case _:
            _renamed(graph, value.name, random.choice(_NAMES))


def _renamed(graph: GraphProto, old: str, new: str) -> None:
    for node in _nodes(graph):
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    for value in _values(graph):
        value.name = new if value.name == old else value.name
    for tensor in graph.initializer:
        tensor.name = new if tensor.name == old else tensor.name


def _of_node(random: Random, graph: GraphProto, node: NodeProto, nodes: Sequence[NodeProto]) -> None:
    other = random.choice(nodes)
    match random.randrange(12):
        case 0:
            graph.node.add().CopyFrom(node)
        case 1 if node.input and other.output:  # a cycle, one time in two
            node.input[random.randrange(len(node.input))] = random.choice(other.output)
        case 2:
            node.op_type = random.choice(_OP_TYPES)
        case 3:
            node.domain = random.choice(("nope.domain", "com.microsoft", "ai.onnx.ml", "trtprof", "<script>"))
        case 4:
            node.name = random.choice(_NAMES)
        case 5:
            for one in nodes:
                one.name = "same"
        case 6 if node.input:
            del node.input[random.randrange(len(node.input))]
        case 7:
            node.input.extend(["", "missing", *node.output][: random.randrange(1, 4)])
        case 8:
            node.output[:] = list(node.output) * random.choice((0, 2, 3))
        case 9 if node.input and len(graph.node) < 300:
            many = random.choice((40, 2000))
            node.input.extend([node.input[0]] * many)
        case 10 if len(nodes) < 100:
            node.attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(copy.deepcopy(graph))
        case _:
            if node in list(graph.node):
                graph.node.remove(node)


def _of_attribute(random: Random, node: NodeProto) -> None:
    if not node.attribute:
        node.attribute.add(name=random.choice(("axis", "to", "axes", "perm")), type=AttributeProto.INT, i=10**12)
        return
    attribute = random.choice(node.attribute)
    match attribute.type:
        case _ if random.random() < 0.2:
            node.attribute.remove(attribute)
        case AttributeProto.INT:
            attribute.i = random.choice(_BIG)
        case AttributeProto.INTS:
            attribute.ints[:] = [random.choice(_BIG) for _ in range(random.choice((0, 1, 2, 4, 5, 100, 5000)))]
        case AttributeProto.FLOAT:
            attribute.f = random.choice((float("nan"), float("inf"), -1e38, 0))
        case AttributeProto.STRING:
            attribute.s = random.choice(_STRINGS)
        case AttributeProto.TENSOR:
            _of_tensor(random, attribute.t)
        case _:
            attribute.type = random.choice(
                (AttributeProto.GRAPH, AttributeProto.UNDEFINED, AttributeProto.INTS, AttributeProto.TYPE_PROTO)
            )


def _of_tensor(random: Random, tensor: TensorProto) -> None:
    match random.randrange(6):
        case 0:
            tensor.data_type = random.choice(_DTYPES)
        case 1 if tensor.dims:
            tensor.dims[random.randrange(len(tensor.dims))] = random.choice(_BIG)
        case 2:
            tensor.dims.append(random.choice(_BIG))
        case 3:
            tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2] or b"x"
        case 4:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            told = {
                "location": random.choice(_LOCATIONS),
                "offset": random.choice(("0", "-1", str(2**63), "x", "1e3", "0x10", "\u0661", "9" * 5000)),
                "length": random.choice(("0", "4", "-4", str(2**64), "nan")),
            }
            for key, value in told.items():
                if random.random() < 0.8:
                    tensor.external_data.add(key=key, value=value)
        case _:
            if tensor.data_type == TensorProto.INT64 and not tensor.external_data:
                values = numpy_helper.to_array(tensor).copy()
                if values.size:
                    values.reshape(-1)[random.randrange(values.size)] = random.choice(_BIG)
                    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _made(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Sequence[int]],
    output: str,
    rank: int | None = 1,
) -> ModelProto:
    """A model of integers, with one output."""
    kind = TensorProto.INT64
    initializers = [helper.make_tensor(name, kind, [len(value)], value) for name, value in constants.items()]
    takes = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()]
    gives = helper.make_tensor_value_info(output, kind, None if rank is None else [None] * rank)
    graph = helper.make_graph(nodes, "g", takes, [gives], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def _many(random: Random) -> ModelProto:
    """A node of very many inputs, outputs or dimensions; a network of huge products."""
    node, made = helper.make_node, _made
    count = random.choice((100, 5000, 30_000))
    large = random.choice((2**12, 2**20, 2**31, 2**62))
    others: list[Callable[[], ModelProto]] = [
        lambda: made([node("Sum", ["x"] * count, ["y"])], {"x": [1]}, {}, "y"),
        lambda: made([node("Split", ["x"], [f"y{i}" for i in range(count)], axis=0)], {"x": [count]}, {}, "y0"),
        lambda: made([node("Unsqueeze", ["x", "a"], ["y"])], {"x": [1]}, {"a": list(range(count))}, "y", None),
        lambda: made([node("Relu", ["x"], ["y"])], {"x": [large] * random.choice((2, 8, 2000))}, {}, "y", None),
        lambda: made(
            [node("MatMul", [f"t{i}", "w"], [f"t{i + 1}"]) for i in range(30)],
            {"t0": [large, large], "w": [large, large]}, {}, "t30", 2,
        ),
        lambda: made([node("Identity", [f"t{i}"], [f"t{i + 1}"]) for i in range(3000)], {"t0": [1]}, {}, "t3000"),
    ]  # fmt: skip
    return random.choice(others)()


def _absurd(outcome: Outcome) -> Iterator[str]:
    """What no model can have, in a document that was accepted: negative work, or more bytes than can be addressed."""
    if _SECRET in outcome.out + outcome.err:
        yield "a file outside of the model's folder is shown"
    if outcome.code or not outcome.out.startswith(b"{"):
        return

    def numbers(part: Any, key: str) -> Iterator[tuple[str, float]]:
        if isinstance(part, dict):
            for name, value in part.items():
                yield from numbers(value, name)
        elif isinstance(part, list):
            for value in part:
                yield from numbers(value, key)
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield key, part

    try:
        document = json.loads(outcome.out)
    except ValueError as error:
        yield f"JSON that is none: {error}"
        return
    for key, value in numbers(document, ""):
        counted = any(word in key for word in ("bytes", "flops", "macs", "parameters", "_ns"))
        held = "bytes" in key and not key.startswith("bytes_")  # what loops read and write has no end
        if counted and (value < 0 or (held and value >= _ABSURD)):
            yield f"{key} is {'negative' if value < 0 else 'more than can be addressed'}"
            return


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """A model with one to four parts that are wrong, with bytes that are, or one that says too much."""
    asked = random.choice(_ASKED)
    kind = random.random()
    if kind < 0.05:
        label, content = "much", _many(random).SerializeToString()
    elif kind > 0.6:
        label, content = native_models.native(random)
    else:
        content = random.choice(_pool(data))
        if kind < 0.3:
            label, content = "bytes", mutated_bytes(random, content)
        else:
            label, model = "parts", ModelProto.FromString(content)
            for _ in range(random.choice((1, 1, 1, 2, 4))):
                try:
                    _mutate(random, model)
                except (ValueError, TypeError, UnicodeError):  # protobuf takes no such value
                    continue
            content = model.SerializeToString()
    inside = folder / "in"
    inside.mkdir()
    (inside / "m.onnx").write_bytes(content)
    (folder / "secret").write_bytes(_SECRET)
    (inside / "w.bin").write_bytes(bytes(4096))
    (inside / "link").symlink_to(folder / "secret")
    os.mkfifo(inside / "fifo")
    return Case(label, [asked[0], "in/m.onnx", *asked[1:]], _absurd, exact="csv" in asked)
