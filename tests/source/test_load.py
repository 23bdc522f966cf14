"""ONNX files read: names, external data, functions, repairs, shapes, constants, subgraphs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper
from onnx.helper import (
    make_function,
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_optional_type_proto,
    make_sequence_type_proto,
    make_sparse_tensor,
    make_sparse_tensor_type_proto,
    make_tensor,
    make_tensor_type_proto,
    make_tensor_value_info,
)

from tests.fakes.support import LIGHT, SAMPLES, captured, real_models, save_with_hole
from trtprof.base import onnx_graph, units
from trtprof.base.errors import MissingError, ModelError, UsageError
from trtprof.base.records import Node, Source, Tensor
from trtprof.source import skim
from trtprof.source.load import LoadedModel, load_model, source_of

Entries = Mapping[str, str | int]
OPSETS = [make_opsetid("", 17)]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def floats(name: str, *shape: int | str | None) -> ValueInfoProto:
    return make_tensor_value_info(name, FLOAT, list(shape))


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: Sequence[TensorProto] = (),
) -> ModelProto:
    graph = make_graph(list(nodes), "graph", list(inputs), list(outputs), initializer=list(weights))
    return make_model(graph, opset_imports=OPSETS, ir_version=8)


def weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def save(model: ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def load(model: ModelProto, folder: Path) -> LoadedModel:
    return load_model(save(model, folder))


def named(source: Source) -> dict[str, Node]:
    return {node.name: node for node in source.nodes}


def chain(names: Sequence[str], first: str = "x", last: str = "y") -> list[NodeProto]:
    """Relu nodes one after the other under the given names."""
    tensors = [first, *(f"{first}_{last}_{index}" for index in range(len(names) - 1)), last]
    return [make_node("Relu", [a], [b], name=name) for name, a, b in zip(names, tensors[:-1], tensors[1:], strict=True)]


def branches(then_names: Sequence[str], else_names: Sequence[str]) -> NodeProto:
    """An unnamed If whose branches are chains over the outer tensor ``x``."""
    then = make_graph(chain(then_names, last="then_out"), "then", [], [floats("then_out", 2)])
    other = make_graph(chain(else_names, last="else_out"), "else", [], [floats("else_out", 2)])
    return make_node("If", ["c"], ["z"], then_branch=then, else_branch=other)


def with_branches(names: Sequence[str], then_names: Sequence[str], else_names: Sequence[str]) -> ModelProto:
    return model_of(
        [*chain(names), branches(then_names, else_names)],
        [floats("x", 2), make_tensor_value_info("c", BOOL, [])],
        [floats("y", 2), floats("z", 2)],
    )


def body(model: ModelProto, branch: str) -> GraphProto:
    """A branch of the If of `with_branches`."""
    return next(attribute.g for attribute in model.graph.node[-1].attribute if attribute.name == branch)


# --- names ----------------------------------------------------------------------------------


def test_unnamed_and_duplicate_nodes_get_unique_names(tmp_path: Path) -> None:
    loaded = load(with_branches(["a", "", "a", "a_1"], ["a", ""], ["", "a"]), tmp_path)
    assert loaded.original_names == {
        "a": "a",
        "Relu_1": "",
        "a_2": "a",
        "a_1": "a_1",
        "If_4": "",
        "a_3": "a",
        "If_4/then_branch/Relu_1": "",
        "If_4/else_branch/Relu_0": "",
        "a_4": "a",
    }
    assert loaded.renamed == 7
    assert loaded.changed
    source = source_of(loaded)
    assert source.model.renamed == 7
    assert {node.name: node.original_name for node in source.nodes} == loaded.original_names
    assert [node.name for node in loaded.proto.graph.node] == ["a", "Relu_1", "a_2", "a_1", "If_4"]


_NAMES = st.lists(st.sampled_from(["", "a", "a_1", "b", "Relu_0", "If_1", "If_1/then_branch/Relu_0"]), min_size=1)


@given(names=_NAMES, then_names=_NAMES, else_names=_NAMES)
def test_names_are_unique_stable_and_given_once(
    names: list[str], then_names: list[str], else_names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = save(with_branches(names, then_names, else_names), folder)
    first, again = load_model(path), load_model(path)
    assert first.proto == again.proto
    assert list(first.original_names.items()) == list(again.original_names.items())
    in_graphs = [node.name for _, graph in onnx_graph.all_graphs(first.proto.graph) for node in graph.node]
    assert len(in_graphs) == len(names) + len(then_names) + len(else_names) + 1
    assert len(set(in_graphs)) == len(in_graphs)
    assert "" not in in_graphs
    # Each name of the file is still there, on a node that had it.
    for name in {*names, *then_names, *else_names} - {""}:
        assert first.original_names[name] == name
    once_more = load(first.proto, folder)
    assert not once_more.changed
    assert once_more.proto == first.proto


# --- weights in files of their own ------------------------------------------------------------


def external(
    folder: Path, *, shape: Sequence[int] = (3, 4), size: int | None = 48, entries: Entries | None = None
) -> Path:
    """A model whose only weight lies in ``weights.bin`` of ``size`` bytes (None: no such file)."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", **(entries or {})}.items():
        tensor.external_data.add(key=key, value=str(value))
    if size is not None:
        with (folder / "weights.bin").open("wb") as file:
            file.truncate(size)
    nodes = [make_node("MatMul", ["x", "w"], ["y"], name="gemm")]
    return save(model_of(nodes, [floats("x", "N", shape[0])], [floats("y", "N", shape[1])], [tensor]), folder)


@pytest.mark.parametrize("entries", [{}, {"offset": 0, "length": 48}, {"length": 48, "checksum": "ab"}])
def test_external_weights_are_counted(tmp_path: Path, entries: Entries) -> None:
    loaded = load_model(external(tmp_path, entries=entries))
    assert loaded.external_data
    model = source_of(loaded).model
    assert (model.parameters, model.parameter_bytes) == (12, 48)


_MEASURED = """
import resource, sys
from trtprof.source.request import ModelRequest
from trtprof.flows.inspect import inspect
from pathlib import Path
def read():
    io = Path("/proc/self/io")
    return int(io.read_text().split()[1]) if io.exists() else 0
inspect(ModelRequest.of(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, read()
found = inspect(ModelRequest.of(sys.argv[2]))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, read()
unit = 1 if sys.platform == "darwin" else 1024
print(found.model.parameter_bytes, (after[0] - before[0]) * unit, after[1] - before[1])
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no getrusage")
@pytest.mark.parametrize("outside", [True, False])
def test_weights_are_not_read(tmp_path: Path, outside: bool) -> None:
    """Files of 3 and 1.5 GB, nearly all of them a hole, of which next to nothing reaches the process."""
    rows, columns = 1 << 14, (3 << 14 if outside else 3 << 13)
    size = 4 * rows * columns
    if outside:
        (tmp_path / "small").mkdir()
        small, large = external(tmp_path / "small"), external(tmp_path, shape=(rows, columns), size=size)
    else:
        small, large = tmp_path / "small.onnx", tmp_path / "large.onnx"
        model = model_of(
            [make_node("MatMul", ["x", "w"], ["y"])], [floats("x", "N", rows)], [floats("y", "N", columns)]
        )
        save_with_hole(model, large, [TensorProto(name="w", data_type=FLOAT, dims=[rows, columns])], size)
        save_with_hole(model, small, [TensorProto(name="w", data_type=FLOAT, dims=[rows, 1])], 4 * rows)
    command = [sys.executable, "-c", _MEASURED, str(small), str(large)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    parameter_bytes, memory, read = map(int, done.stdout.split())
    assert parameter_bytes == size
    assert memory < 20 << 20
    assert read < 1 << 20


@pytest.mark.parametrize(
    ("size", "entries", "says"),
    [
        (None, {"length": 48}, "are missing"),
        (47, {}, "has 47 bytes, 48 are needed"),
        (47, {"length": 48}, "has 47 bytes, 48 are needed"),
        (48, {"offset": 16, "length": 48}, "has 48 bytes, 64 are needed"),
        (0, {"offset": 0}, "has 0 bytes, 48 are needed"),
    ],
)
def test_missing_and_short_weights_are_refused(tmp_path: Path, size: int | None, entries: Entries, says: str) -> None:
    path = external(tmp_path, size=size, entries=entries)
    with pytest.raises(MissingError, match=says) as caught:
        load_model(path)
    assert caught.value.exit_code == 3
    assert "weights of 'w'" in caught.value.what
    assert "weights.bin" in caught.value.why
    assert "'weights.bin'" in caught.value.fix


@pytest.mark.parametrize(
    "entries", [{"offset": "abc"}, {"offset": -4}, {"length": "1e3"}, {"length": 4}, {"length": -48}, {"location": ""}]
)
def test_damaged_places_of_weights_are_refused(tmp_path: Path, entries: Entries) -> None:
    with pytest.raises(ModelError, match="where the weights of 'w' lie is damaged"):
        load_model(external(tmp_path, entries=entries))


@pytest.mark.parametrize("location", ["../weights.bin", "{folder}/weights.bin"])
def test_weights_outside_the_folder_of_the_model_are_refused(tmp_path: Path, location: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(48))
    with pytest.raises(ModelError, match="fails the ONNX checker"):
        load_model(external(inner, size=None, entries={"location": location.format(folder=tmp_path)}))


def test_external_weights_of_constants_and_branches_are_checked(tmp_path: Path) -> None:
    tensor = TensorProto(name="t", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    constant = make_node("Constant", [], ["then_out"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
    model = with_branches(["a"], ["b"], ["c"])
    body(model, "then_branch").node[0].CopyFrom(constant)
    with pytest.raises(MissingError, match="weights of 't'"):
        load(model, tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes(8))
    assert load(model, tmp_path).external_data


# --- weights that were not read -----------------------------------------------------------------

MANY = 600
"""Elements that are more than are kept, whatever their type."""


def _stored(tensor: TensorProto) -> ModelProto:
    """A model that holds a tensor and does not look at it."""
    return model_of(chain(["a"]), [floats("x", 2)], [floats("y", 2)], [tensor])


def _raw(count: int, dims: Sequence[int], data_type: int = FLOAT) -> TensorProto:
    return TensorProto(name="w", data_type=data_type, dims=dims, raw_data=bytes(count))


def _typed(data_type: int, count: int, dims: Sequence[int]) -> TensorProto:
    values: Any = [b"t" * 9] * count if data_type == TensorProto.STRING else [1] * count
    tensor = make_tensor("w", data_type, [count], values)
    tensor.dims[:] = dims
    return tensor


def test_large_tensors_of_any_type_are_accepted_unread(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for tensor in (
        _raw(4 * MANY, [2, MANY // 2, 1]),
        _raw(16 * MANY, [MANY], TensorProto.COMPLEX128),
        _raw(2 * MANY, [4 * MANY - 1], TensorProto.INT4),
        _raw(8 * 5000, [5000], INT64),
        *(
            _typed(kind, MANY, [MANY])
            for kind in (FLOAT, TensorProto.COMPLEX64, TensorProto.DOUBLE, TensorProto.STRING)
        ),
        _typed(TensorProto.FLOAT16, 2 * MANY, [2 * MANY]),
        _typed(TensorProto.INT4, 8 * MANY, [8 * MANY]),
        _typed(TensorProto.UINT64, 2 * MANY, [2 * MANY]),
    ):
        with subtests.test(TensorProto.DataType.Name(tensor.data_type)):
            onnx.checker.check_model(_stored(tensor))
            loaded = load(_stored(tensor), tmp_path)
            assert skim.left_out(loaded.proto.graph.initializer[0])
            assert not loaded.changed
            assert source_of(loaded).model.parameters == int(np.prod(tensor.dims))
            assert loaded.full() == _stored(tensor)


def test_the_full_model_has_the_names_of_the_loaded_one(tmp_path: Path) -> None:
    twice = make_function("local", "Twice", ["a"], ["b"], [make_node("Add", ["a", "a"], ["b"])], OPSETS)
    model = with_branches(["a", "", "a"], ["a", ""], [""])
    model.graph.node.append(make_node("Twice", ["y"], ["t"], domain="local"))
    model.graph.initializer.append(weight("w", MANY))
    model.functions.append(twice)
    model.opset_import.append(make_opsetid("local", 1))
    loaded = load(model, tmp_path)
    full = loaded.full()
    ours, theirs = (
        [(path, [node.name for node in graph.node]) for path, graph in onnx_graph.all_graphs(proto.graph)]
        for proto in (loaded.proto, full)
    )
    assert ours == theirs
    assert {name for _, names in ours for name in names} == set(loaded.original_names)
    assert full.graph.initializer[0].raw_data == bytes(4 * MANY)
    assert not full.functions


def test_a_file_that_changed_is_not_taken_for_the_one_that_was_loaded(tmp_path: Path) -> None:
    loaded = load(with_branches(["a", "a"], ["b"], ["c"]), tmp_path)
    save(with_branches(["a", "a", "a"], ["b"], ["c"]), tmp_path)
    with pytest.raises(ModelError, match="was changed"):
        loaded.full()
    loaded.path.write_bytes(b"no model any more")
    with pytest.raises(ModelError, match="is not an ONNX model"):
        loaded.full()
    loaded.path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        loaded.full()
    with pytest.raises(ModelError, match="cannot be read"):
        _ = loaded.sha256


@pytest.mark.process
def test_inspecting_imports_no_runtime_and_no_tables(tmp_path: Path) -> None:
    path = save(model_of(chain(["a"]), [floats("x", 2)], [floats("y", 2)]), tmp_path)
    code = (
        "import sys; from trtprof.flows.inspect import inspect; from trtprof.source.request import ModelRequest;"
        "inspect(ModelRequest(sys.argv[1])); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    imported = set(done.stdout.split())
    assert "onnx" in imported
    assert not imported & {"pandas", "pyarrow", "onnxruntime", "onnx.reference", "jinja2", "torch"}


# --- sparse and other constants -------------------------------------------------------------------


def _sparse(count: int, dims: Sequence[int], indices: npt.NDArray[np.int64] | None = None) -> onnx.SparseTensorProto:
    places = np.arange(count, dtype=np.int64) if indices is None else indices
    return make_sparse_tensor(
        numpy_helper.from_array(np.ones(count, np.float32), "s"), numpy_helper.from_array(places, ""), list(dims)
    )


def _with_sparse(sparse: onnx.SparseTensorProto, *, constant: bool) -> ModelProto:
    nodes = [make_node("MatMul", ["x", "s"], ["y"], name="gemm")]
    rows, columns = sparse.dims
    if constant:
        nodes.insert(0, make_node("Constant", [], ["s"], name="constant", sparse_value=sparse))
    model = model_of(nodes, [floats("x", "N", rows)], [floats("y", "N", columns)])
    if not constant:
        model.graph.sparse_initializer.append(sparse)
    return model


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("count", [3, 5000], ids=["kept", "left out"])
def test_a_sparse_constant_is_dense_to_its_readers_and_counts_what_it_stores(
    count: int, constant: bool, tmp_path: Path
) -> None:
    for indices in (None, np.stack([np.zeros(count, np.int64), np.arange(count)], axis=1)):
        model = _with_sparse(_sparse(count, [100, 6000], indices), constant=constant)
        onnx.checker.check_model(model)
        source = source_of(load(model, tmp_path), {"x": (7, 100)})
        gemm = named(source)["gemm"].op
        assert gemm.inputs[1] == Tensor(name="s", dtype="fp32", shape=(100, 6000), constant=True)
        assert source.model.outputs[0].shape == (7, 6000)
        stored = count if indices is None else 2 * count
        assert source.model.parameters == count + stored
        assert source.model.parameter_bytes == 4 * count + 8 * stored


# --- local functions --------------------------------------------------------------------------


def test_local_functions_are_inlined_and_said(tmp_path: Path) -> None:
    twice = make_function("local", "Twice", ["a"], ["b"], [make_node("Add", ["a", "a"], ["b"], name="add")], OPSETS)
    four = make_function(
        "local", "Four", ["a"], ["b"],
        [make_node("Twice", ["a"], ["h"], domain="local"), make_node("Twice", ["h"], ["b"], domain="local")],
        [*OPSETS, make_opsetid("local", 1)],
    )  # fmt: skip
    graph = make_graph(
        [make_node("Four", ["x"], ["m"], domain="local"), make_node("Relu", ["m"], ["y"], name="last")],
        "graph", [floats("x", 2, 3)], [floats("y", 2, 3)],
    )  # fmt: skip
    model = make_model(graph, opset_imports=[*OPSETS, make_opsetid("local", 1)], ir_version=8, functions=[twice, four])
    loaded = load(model, tmp_path)
    assert loaded.changed
    assert loaded.assumptions == ["2 local functions were inlined before the build"]
    source = source_of(loaded)
    assert [node.op.op_type for node in source.nodes] == ["Add", "Add", "Relu"]
    assert len(named(source)) == 3
    assert source.model.shape_coverage == 1.0
    assert loaded.assumptions[0] in source.model.assumptions


PLUGIN = """<ir_version: 8, opset_import: ["" : 17, "trtprof" : 1, "own" : 1]>
g (float[N,4] a) => (float[N,4] y, float[N,4] z)
<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>
{ b = own.F (a) [p] y = trtprof.Gemv <plugin_namespace = "trtprof", plugin_version = "1"> (b, w)
  z = trtprof.Gemv <plugin_namespace = "trtprof", plugin_version = "1"> (y, w) }
<domain: "trtprof", opset_import: ["" : 17]>
Gemv <plugin_namespace, plugin_version> (x, w) => (y) { [product] p = MatMul(x, w) y = Relu(p) }
<domain: "own", opset_import: ["" : 17]>
F (x) => (y) { t = Neg(x) y = Exp(t) }
"""


def test_nodes_of_a_plugin_are_those_of_its_function_and_name_it(tmp_path: Path) -> None:
    loaded = load(onnx.parser.parse_model(PLUGIN), tmp_path)
    source = source_of(loaded)
    assert [(node.name, node.call and (node.call.name, node.call.outputs)) for node in source.nodes[2:]] == [
        ("p/product", ("p", ("y",))),
        ("p/Relu_1", ("p", ("y",))),
        ("Gemv_2/product", ("Gemv_2", ("z",))),
        ("Gemv_2/Relu_1", ("Gemv_2", ("z",))),
    ]
    assert [node.call for node in source.nodes[:2]] == [None, None]
    assert {node.call.op_type for node in source.nodes if node.call is not None} == {"Gemv"}
    assert source.model.nodes == 4
    assert source.model.shape_coverage == 1.0
    assert loaded.assumptions == [
        "1 local functions were inlined before the build",
        "custom nodes of plugins, priced by their functions, each as one kernel: 2",
    ]


def test_a_runtime_is_given_the_plugin_where_it_may_have_it(tmp_path: Path) -> None:
    loaded = load(onnx.parser.parse_model(PLUGIN), tmp_path)
    flat, kept = loaded.full(), loaded.full(plugins=True)
    assert [node.name for node in flat.graph.node] == [node.name for node in loaded.proto.graph.node]
    assert not flat.functions
    assert [(node.op_type, node.name) for node in kept.graph.node[2:]] == [("Gemv", "p"), ("Gemv", "Gemv_2")]
    assert [function.name for function in kept.functions] == ["Gemv"]
    onnx.checker.check_model(kept, full_check=True)
    other = onnx.parser.parse_model(PLUGIN.replace("own.F (a)", "Neg (a)"))
    loaded.path.write_bytes(other.SerializeToString())
    for plugins in (False, True):
        with pytest.raises(ModelError, match="was changed while it was used"):
            loaded.full(plugins=plugins)


# --- the checker ------------------------------------------------------------------------------


def _shapeless(names: Sequence[str]) -> ModelProto:
    """A valid model as onnx-graphsurgeon writes it: the output has a type and no shape."""
    model = model_of(chain(names), [floats("x", "N", 3)], [floats("y", "N", 3)])
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(model)
    return model


def test_an_output_without_a_shape_is_repaired_and_said(tmp_path: Path) -> None:
    loaded = load(_shapeless(["a", "b"]), tmp_path)
    assert loaded.changed
    assert loaded.assumptions == ["the file declares no shape for y: filled in by shape inference"]
    onnx.checker.check_model(loaded.proto)
    source = source_of(loaded, {"x": (4, 3)})
    assert source.model.outputs[0].shape == (4, 3)
    assert loaded.assumptions[0] in source.model.assumptions


def _no_graph_name(model: ModelProto) -> None:
    model.graph.name = ""


def _unknown_op(model: ModelProto) -> None:
    model.graph.node[0].op_type = "NoSuchOp"


def _undefined_input(model: ModelProto) -> None:
    model.graph.node[0].input[0] = "nowhere"


def _future_ir(model: ModelProto) -> None:
    model.ir_version = 1000


def _no_opset(model: ModelProto) -> None:
    del model.opset_import[:]


@pytest.mark.parametrize("damage", [_no_graph_name, _unknown_op, _undefined_input, _future_ir, _no_opset])
def test_what_the_checker_rejects_is_refused_in_its_words(tmp_path: Path, damage: Callable[[ModelProto], None]) -> None:
    model = model_of(chain(["a", "b"]), [floats("x", 2)], [floats("y", 2)])
    damage(model)
    with pytest.raises(ModelError, match="fails the ONNX checker") as caught:
        load(model, tmp_path)
    assert caught.value.exit_code == 2
    assert caught.value.why
    assert "torch.onnx.export" in caught.value.fix


@pytest.mark.parametrize(
    "which", ["with_duplicate_node_names", "with_multi_level_errors", "with_no_name", "with_parallel_invalid_nodes"]
)
def test_the_invalid_graphs_of_polygraphy_are_refused(which: str) -> None:
    with pytest.raises(ModelError, match="fails the ONNX checker"):
        load_model(captured("onnx", f"polygraphy__bad_graph_{which}.onnx"))


# --- files that are no models -------------------------------------------------------------------


def test_what_is_no_model_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def huge(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(3 << 30)

    def folder(path: Path) -> None:
        path.mkdir()
        (path / "inner.onnx").touch()

    def content(data: bytes) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(data)

    cases: list[tuple[Callable[[Path], object], str]] = [
        (lambda _: None, "no such file"),
        (Path.mkdir, "is a directory"),
        (folder, "inner.onnx"),
        (os.mkfifo, "a pipe"),
        (huge, "a protobuf has at most"),
        (content(b""), "is empty"),
        (content(b"hello, this is text\n" * 10), "it holds text"),
        (content(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), "git lfs pull"),
        (content(np.random.default_rng(0).bytes(4096)), "not an ONNX"),
        (content((SAMPLES / "gemv.onnx").read_bytes()[:-100]), "cut short"),
        (content(ModelProto(ir_version=8, producer_name="x").SerializeToString()), "it holds no graph"),
    ]
    for index, (make, says) in enumerate(cases):
        with subtests.test(says):
            path = tmp_path / f"{index}.onnx"
            make(path)
            with pytest.raises(ModelError) as caught:
                load_model(path)
            assert says in str(caught.value)
            assert str(path) in caught.value.what


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_path_that_is_not_utf8_is_refused_with_a_name_that_can_be_printed(tmp_path: Path) -> None:
    path = save(model_of(chain(["a"]), [floats("x", 2)], [floats("y", 2)]), tmp_path, os.fsdecode(b"\xff.onnx"))
    with pytest.raises(ModelError, match="not UTF-8") as caught:
        load_model(path)
    str(caught.value).encode("ascii")


# --- shapes, constants, parameters ----------------------------------------------------------------


def test_shapes_are_inferred_from_the_bound_inputs(tmp_path: Path) -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["h"], name="gemm"), make_node("Relu", ["h"], ["y"], name="relu")]
    model = model_of(nodes, [floats("x", "N", 3)], [floats("y", "N", 4)], [weight("w", 3, 4)])
    # A stale inner shape, such as an optimiser leaves, must not win over the bound input.
    model.graph.value_info.append(floats("h", 77, 4))
    source = source_of(load(model, tmp_path), {"x": (5, 3)})
    gemm = named(source)["gemm"]
    assert [tensor.shape if tensor else None for tensor in gemm.op.inputs] == [(5, 3), (3, 4)]
    assert [tensor.shape if tensor else None for tensor in gemm.op.outputs] == [(5, 4)]
    assert source.model.shape_coverage == 1.0
    assert source.model.inputs[0].shape == (5, 3)
    assert [(tensor.name, tensor.shape) for tensor in source.model.outputs] == [("y", (5, 4))]


@pytest.mark.parametrize(("op_type", "expected"), [("Relu", (5, 3)), ("Odd", (1, 3))])
def test_a_declared_output_counts_only_where_nothing_is_inferred(
    tmp_path: Path, op_type: str, expected: tuple[int, ...]
) -> None:
    """Exporters trace with a batch of 1 and write that into the outputs of a dynamic model."""
    node = make_node(op_type, ["x"], ["y"], domain="own" if op_type == "Odd" else "")
    graph = make_graph([node], "graph", [floats("x", "N", 3)], [floats("y", 1, 3)])
    model = make_model(graph, opset_imports=[*OPSETS, make_opsetid("own", 1)], ir_version=8)
    source = source_of(load(model, tmp_path), {"x": (5, 3)})
    assert source.model.outputs[0].shape == expected


def test_constants_are_flagged(tmp_path: Path) -> None:
    nodes = [
        make_node("Constant", [], ["c"], name="constant", value=weight("", 2)),
        make_node("Add", ["c", "w"], ["folded"], name="folded"),
        make_node("Sqrt", ["folded"], ["deep"], name="deep"),
        make_node("RandomNormal", [], ["noise"], name="random", shape=[2]),
        make_node("Add", ["noise", "deep"], ["n"], name="of random"),
        make_node("Shape", ["x"], ["s"], name="shape"),
        make_node("Add", ["x", "deep"], ["y"], name="data"),
    ]
    outputs = [floats("y", 2), floats("n", 2), make_tensor_value_info("s", INT64, [1])]
    source = source_of(load(model_of(nodes, [floats("x", 2)], outputs, [weight("w", 2)]), tmp_path))
    assert [node.name for node in source.nodes if node.constant] == ["constant", "folded", "deep"]
    deep = named(source)["data"].op.inputs[1]
    assert deep is not None
    assert deep.constant
    assert deep.shape == (2,)


def test_small_integer_constants_keep_their_values_and_weights_do_not(tmp_path: Path) -> None:
    nodes = [
        make_node("Constant", [], ["target"], value=make_tensor("", INT64, [2], [3, 2])),
        make_node("Reshape", ["w", "target"], ["r"], name="reshape"),
        make_node("Constant", [], ["axes"], value_ints=[0]),
        make_node("Unsqueeze", ["x", "axes"], ["u"], name="unsqueeze"),
        make_node("MatMul", ["u", "r"], ["m"], name="gemm"),
        make_node("Gather", ["m", "table"], ["y"], name="gather"),
    ]
    table = numpy_helper.from_array(np.zeros(onnx_graph.SMALL_CONSTANT + 1, np.int64), "table")
    source = source_of(
        load(model_of(nodes, [floats("x", 3)], [floats("y", 65, 2)], [weight("w", 2, 3), table]), tmp_path)
    )
    nodes_by_name = named(source)
    assert [tensor.value if tensor else None for tensor in nodes_by_name["reshape"].op.inputs] == [None, (3, 2)]
    assert [tensor.value if tensor else None for tensor in nodes_by_name["unsqueeze"].op.inputs] == [None, (0,)]
    assert [tensor.value if tensor else None for tensor in nodes_by_name["gather"].op.inputs] == [None, None]
    # Six weights and 65 large integers; the shape and the axes are no parameters.
    assert (source.model.parameters, source.model.parameter_bytes) == (6 + 65, 6 * 4 + 65 * 8)


TENSOR = make_tensor_type_proto(FLOAT, ["N", 3])
MAP = TypeProto(map_type=TypeProto.Map(key_type=INT64, value_type=make_tensor_type_proto(FLOAT, [])))


def test_every_type_is_read() -> None:
    for declared, expected in (
        (TENSOR, ("fp32", ("N", 3), "tensor")),
        (make_tensor_type_proto(FLOAT, None), ("fp32", None, "tensor")),
        (make_sparse_tensor_type_proto(TensorProto.DOUBLE, ["N", 3]), ("fp64", ("N", 3), "sparse")),
        (make_sequence_type_proto(TENSOR), ("fp32", ("N", 3), "sequence")),
        (make_sequence_type_proto(make_sequence_type_proto(TENSOR)), ("fp32", ("N", 3), "sequence")),
        (make_sequence_type_proto(MAP), ("unknown", None, "sequence")),
        (make_optional_type_proto(TENSOR), ("fp32", ("N", 3), "optional")),
        (make_optional_type_proto(make_sequence_type_proto(TENSOR)), ("fp32", ("N", 3), "sequence")),
        (MAP, ("unknown", None, "map")),
        (TypeProto(), ("unknown", None, "tensor")),
    ):
        found = onnx_graph.tensor_from_value_info(ValueInfoProto(name="v", type=declared))
        assert (found.name, found.dtype, found.shape, found.kind) == ("v", *expected), declared
        assert found.elements is None or found.kind not in ("sequence", "map")


def test_every_dtype_of_onnx_has_a_name_and_a_width() -> None:
    """A type that a later onnx adds must be looked at, not counted as unknown."""
    for name, number in TensorProto.DataType.items():
        if number == TensorProto.UNDEFINED:
            continue
        dtype = onnx_graph.dtype_name(number)
        assert dtype in (*units.DTYPE_BITS, "string"), name
        if dtype in units.DTYPE_BITS and number not in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
            # Their names say the width.
            digits = re.search(r"[0-9]+", {"bool": "8"}.get(dtype, dtype))
            assert digits is not None
            assert units.DTYPE_BITS[dtype] == int(digits[0]), name
    assert len(set(onnx_graph.DTYPES.values())) == len(onnx_graph.DTYPES)


@pytest.mark.parametrize(
    ("declared", "shape", "says"),
    [
        (make_sequence_type_proto(TENSOR), None, "is a sequence"),
        (make_optional_type_proto(TENSOR), None, "is an optional"),
        (MAP, None, "is a map"),
        (make_sparse_tensor_type_proto(FLOAT, ["N", 3]), None, "is a sparse tensor"),
        (make_tensor_type_proto(FLOAT, [0, 3]), (0, 3), ""),
        (make_tensor_type_proto(TensorProto.STRING, ["N", 3]), (1, 3), "'N'"),
        (make_tensor_type_proto(TensorProto.FLOAT8E5M2, [2]), (2,), ""),
    ],
    ids=str,
)
def test_what_cannot_be_fed_can_be_inspected(
    declared: TypeProto, shape: tuple[int, ...] | None, says: str, tmp_path: Path
) -> None:
    model = model_of(chain(["a"]), [floats("x", 2), ValueInfoProto(name="odd", type=declared)], [floats("y", 2)])
    loaded = load(model, tmp_path)
    with pytest.raises(UsageError, match="'odd'"):
        source_of(loaded)
    found = source_of(loaded, feed=False).model
    x, odd = found.inputs
    assert (x.shape, x.kind, x.declared, x.values) == ((2,), "none", (2,), "")
    tensor = onnx_graph.tensor_from_value_info(model.graph.input[1])
    assert (odd.shape, odd.kind, odd.declared, odd.dtype) == (shape, "none", tensor.shape or (), tensor.dtype)
    assert any("odd" in note and says in note for note in found.assumptions) == bool(says)
    assert not any("random" in note for note in found.assumptions)


def test_symbols_are_bound_by_name_and_the_declared_dims_kept(tmp_path: Path) -> None:
    model = model_of(
        [make_node("MatMul", ["a", "b"], ["c"])], [floats("a", "N", "K"), floats("b", "K", 4)], [floats("c", "N", 4)]
    )
    loaded = load(model, tmp_path)
    found = source_of(loaded, {"b": (6, 4)}, symbols={"N": 5}, feed=False).model
    assert [(i.shape, i.declared) for i in found.inputs] == [((5, 6), ("N", "K")), ((6, 4), ("K", 4))]
    assert found.outputs[0].shape == (5, 4)
    assert found.assumptions == ()
    assert source_of(loaded, symbols={"N": 5}).model.inputs[0].declared == ("N", "K")
    with pytest.raises(UsageError, match="'M' is not a dynamic dimension") as unknown:
        source_of(loaded, symbols={"M": 5})
    assert "N, K" in unknown.value.fix
    with pytest.raises(UsageError, match="'N' would be 3 and 5 at once"):
        source_of(loaded, {"a": (3, 6)}, symbols={"N": 5})


# --- subgraphs ------------------------------------------------------------------------------------


def _loop() -> NodeProto:
    body = make_graph(
        [
            make_node("Identity", ["cond_in"], ["cond_out"], name="keep"),
            make_node("Relu", ["state"], ["next"], name="step"),
        ],
        "body",
        [make_tensor_value_info("i", INT64, []), make_tensor_value_info("cond_in", BOOL, []), floats("state", 2)],
        [make_tensor_value_info("cond_out", BOOL, []), floats("next", 2)],
    )
    return make_node("Loop", ["trips", "", "x"], ["looped"], name="loop", body=body)


def _scan() -> NodeProto:
    body: GraphProto = make_graph(
        [make_node("Add", ["sum_in", "row"], ["sum_out"], name="accumulate")],
        "body",
        [floats("sum_in", 2), floats("row", 2)],
        [floats("sum_out", 2)],
    )
    return make_node("Scan", ["looped", "rows"], ["y"], name="scan", body=body, num_scan_inputs=1)


def test_bodies_of_loop_and_scan_are_listed_with_their_paths(tmp_path: Path) -> None:
    trips = numpy_helper.from_array(np.array(3), "trips")
    model = model_of([_loop(), _scan()], [floats("x", 2), floats("rows", 5, 2)], [floats("y", 2)], [trips])
    source = source_of(load(model, tmp_path))
    assert [(node.graph, node.name) for node in source.nodes] == [
        ("", "loop"),
        ("loop/body", "keep"),
        ("loop/body", "step"),
        ("", "scan"),
        ("scan/body", "accumulate"),
    ]
    add = named(source)["accumulate"].op
    assert [tensor.shape if tensor else None for tensor in (*add.inputs, *add.outputs)] == [(2,), (2,), (2,)]
    # An omitted optional input is None, not a tensor without a name.
    assert named(source)["loop"].op.inputs[1] is None
    assert not named(source)["loop"].constant


# --- real models ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    return {path.name: source_of(load_model(path)) for path in real_models() if path.parent != LIGHT}


def test_samples_and_captures_are_known_in_shape(sources: dict[str, Source]) -> None:
    for name, source in sources.items():
        assert len(named(source)) == source.model.nodes, name
        # Which branch silero takes, and so the shapes behind it, depends on data.
        wanted = 0.5 if name.startswith("silero") else 1.0
        assert source.model.shape_coverage >= wanted, name
