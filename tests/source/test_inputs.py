"""Which values the graph inputs get: files, or random values that the ops accept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import InputTensor, Tensor
from trtprof.capture.workers.inference import make_inputs
from trtprof.source.inputs import check_files, parse_load_inputs
from trtprof.source.load import load_model, source_of

FLOAT, FLOAT16, INT64, INT32, BOOL = (
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL,
)  # fmt: skip
INT8, UINT8, STRING, BF16 = TensorProto.INT8, TensorProto.UINT8, TensorProto.STRING, TensorProto.BFLOAT16

Value = tuple[str, int, Sequence[int | str]]


def _info(value: Value) -> ValueInfoProto:
    return make_tensor_value_info(value[0], value[1], list(value[2]))


def model_of(
    nodes: Sequence[NodeProto], inputs: Sequence[Value], outputs: Sequence[Value], constants: dict[str, object]
) -> ModelProto:
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = make_graph(list(nodes), "graph", [*map(_info, inputs)], [*map(_info, outputs)], initializer=weights)
    return make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)


def save(model: ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def plans(model: ModelProto, folder: Path, **files: Path) -> dict[str, InputTensor]:
    """How the inputs are filled, once ONNX Runtime has accepted the values for three seeds."""
    path = save(model, folder)
    found = source_of(load_model(path), input_files=files).model.inputs
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for seed in range(3):
        feeds = make_inputs(found, seed)
        for plan in found:
            values = feeds[plan.name]
            assert values.shape == plan.shape
            if plan.kind == "integers":
                assert values.min() >= plan.low
                assert values.max() <= plan.high
        session.run(None, feeds)
    return {plan.name: plan for plan in found}


def limits(plan: InputTensor) -> tuple[float, float]:
    assert plan.kind == "integers"
    return plan.low, plan.high


TABLE = np.zeros((10, 4), np.float32)


def _gather(axis: int = 0) -> tuple[list[NodeProto], dict[str, object]]:
    return [make_node("Gather", ["table", "ids"], ["y"], name="embed", axis=axis)], {"table": TABLE}


@pytest.mark.parametrize(("axis", "high"), [(0, 9), (1, 3), (-1, 3), (-2, 9)])
def test_indices_of_a_gather_lie_in_its_table(tmp_path: Path, axis: int, high: int) -> None:
    nodes, constants = _gather(axis)
    model = model_of(nodes, [("ids", INT64, [5])], [("y", FLOAT, ["a", "b"])], constants)
    plan = plans(model, tmp_path)["ids"]
    assert limits(plan) == (0, high)
    assert plan.values == f"integers 0..{high} (indices of embed)"


@pytest.mark.parametrize(
    "moves",
    [
        [make_node("Cast", ["ids"], ["moved"], to=INT64)],
        [make_node("Unsqueeze", ["ids", "axis"], ["wide"]), make_node("Squeeze", ["wide", "axis"], ["moved"])],
        [make_node("Reshape", ["ids", "flat"], ["a"]), make_node("Identity", ["a"], ["moved"])],
        [make_node("Concat", ["ids", "ids"], ["a"], axis=0), make_node("Slice", ["a", "axis", "five"], ["moved"])],
    ],
)
def test_indices_are_followed_through_ops_that_move_data(tmp_path: Path, moves: list[NodeProto]) -> None:
    constants: dict[str, object] = {
        "table": TABLE,
        "axis": np.array([0]),
        "flat": np.array([-1]),
        "five": np.array([5]),
    }
    nodes = [*moves, make_node("Gather", ["table", "moved"], ["y"], name="embed")]
    model = model_of(nodes, [("ids", INT64, [5])], [("y", FLOAT, ["a", "b"])], constants)
    assert limits(plans(model, tmp_path)["ids"]) == (0, 9)


@pytest.mark.parametrize(
    ("node", "ids", "high"),
    [
        (make_node("GatherElements", ["table", "ids"], ["y"], axis=1), [10, 2], 3),
        (make_node("ScatterElements", ["table", "ids", "update"], ["y"], axis=1), [2, 2], 3),
        (make_node("GatherND", ["table", "ids"], ["y"]), [7, 2], 3),
        (make_node("OneHot", ["ids", "depth", "levels"], ["y"]), [6], 6),
    ],
)
def test_indices_of_other_ops_lie_in_range(tmp_path: Path, node: NodeProto, ids: list[int], high: int) -> None:
    constants: dict[str, object] = {
        "table": TABLE,
        "update": np.zeros((2, 2), np.float32),
        "depth": np.array(7),
        "levels": np.array([0, 1], np.float32),
    }
    used = {name: value for name, value in constants.items() if name in node.input}
    rank = 1 if node.op_type == "GatherND" else 2
    model = model_of([node], [("ids", INT64, ids)], [("y", FLOAT, ["a", "b"][:rank])], used)
    assert limits(plans(model, tmp_path)["ids"]) == (0, high)


@pytest.mark.parametrize(("asked", "expected"), [(0, (0, 1)), (1, (0, 1)), (16000, (16000, 16000)), (-5, (-5, -5))])
@pytest.mark.parametrize("first", [True, False])
def test_a_value_that_the_model_asks_for_is_given(
    tmp_path: Path, asked: int, expected: tuple[int, int], first: bool
) -> None:
    """A speech model asks whether its sample rate is 16000."""
    operands = ["rate", "asked"] if first else ["asked", "rate"]
    nodes = [make_node("Equal", operands, ["y"], name="is_rate")]
    model = model_of(nodes, [("rate", INT64, [1])], [("y", BOOL, [1])], {"asked": np.array([asked])})
    plan = plans(model, tmp_path)["rate"]
    assert limits(plan) == expected
    assert "is_rate" in plan.values


def test_masks_are_zero_or_one(tmp_path: Path) -> None:
    nodes = [
        make_node("Cast", ["mask"], ["m"], to=FLOAT),
        make_node("Mul", ["m", "x"], ["y"]),
        make_node("Where", ["condition", "x", "y"], ["z"]),
    ]
    inputs: list[Value] = [("mask", INT64, [2, 3]), ("x", FLOAT, [2, 3]), ("condition", BOOL, [2, 3])]
    found = plans(model_of(nodes, inputs, [("z", FLOAT, [2, 3])], {}), tmp_path)
    assert limits(found["mask"]) == (0, 1)
    assert limits(found["condition"]) == (0, 1)
    assert (found["x"].kind, found["x"].values) == ("uniform", "uniform -1..1")


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_sequence_lengths_are_the_length_of_the_sequence(tmp_path: Path, op_type: str, gates: int) -> None:
    nodes = [make_node(op_type, ["x", "w", "r", "", "lengths"], ["y"], name="rnn", hidden_size=2)]
    constants: dict[str, object] = {
        "w": np.zeros((1, gates * 2, 3), np.float32),
        "r": np.zeros((1, gates * 2, 2), np.float32),
    }
    inputs: list[Value] = [("x", FLOAT, [6, 5, 3]), ("lengths", INT32, [5])]
    plan = plans(model_of(nodes, inputs, [("y", FLOAT, [6, 1, 5, 2])], constants), tmp_path)["lengths"]
    assert limits(plan) == (6, 6)
    assert plan.values == "6 (sequence lengths of rnn)"


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(UINT8, 0, 255), (INT8, -128, 127), (BOOL, 0, 1), (INT32, 0, 1), (INT64, 0, 1)]
)
def test_integers_that_nothing_limits(tmp_path: Path, dtype: int, low: int, high: int) -> None:
    model = model_of([make_node("Cast", ["x"], ["y"], to=FLOAT)], [("x", dtype, [400])], [("y", FLOAT, [400])], {})
    plan = plans(model, tmp_path)["x"]
    assert limits(plan) == (low, high)
    values = make_inputs((plan,), 0)["x"]
    assert len(np.unique(values)) > (100 if high > 1 else 1)


@pytest.mark.parametrize(("dtype", "name"), [(STRING, "string"), (BF16, "bf16"), (TensorProto.COMPLEX64, "complex64")])
def test_types_that_cannot_be_made_up_are_refused(tmp_path: Path, dtype: int, name: str) -> None:
    path = save(model_of([make_node("Identity", ["x"], ["y"])], [("x", dtype, [2])], [("y", dtype, [2])], {}), tmp_path)
    with pytest.raises(UsageError, match=f"input 'x' has type {name}") as caught:
        source_of(load_model(path))
    assert caught.value.why
    assert caught.value.fix


# --- files ------------------------------------------------------------------------------------


X = Tensor(name="x", dtype="fp32", shape=("N", 3))


def _relu(folder: Path) -> Path:
    return save(
        model_of([make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["N", 3])], [("y", FLOAT, ["N", 3])], {}), folder
    )


def test_a_file_gives_values_and_shape(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "x.npy", values)
    source = source_of(load_model(_relu(tmp_path)), input_files={"x": tmp_path / "x.npy"})
    (plan,) = source.model.inputs
    assert (plan.kind, plan.shape, plan.values) == ("file", (4, 3), "file x.npy")
    assert Path(plan.file).is_absolute()
    assert np.array_equal(make_inputs((plan,), 0)["x"], values)
    assert source.nodes[0].op.outputs[0] is not None
    assert source.nodes[0].op.outputs[0].shape == (4, 3)
    assert not any("random" in note or "assumed" in note for note in source.model.assumptions)


def test_other_inputs_stay_random_and_share_the_dims_of_the_file(tmp_path: Path) -> None:
    inputs: list[Value] = [("x", FLOAT, ["N", 3]), ("z", FLOAT, ["N", 3])]
    model = model_of([make_node("Add", ["x", "z"], ["y"])], inputs, [("y", FLOAT, ["N", 3])], {})
    np.save(tmp_path / "x.npy", np.zeros((7, 3), np.float32))
    found = plans(model, tmp_path, x=tmp_path / "x.npy")
    assert (found["x"].kind, found["z"].kind, found["z"].shape) == ("file", "uniform", (7, 3))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.zeros((2, 4), np.float32), "the model fixes it at 3"),
        (np.zeros((2, 3, 1), np.float32), "given 3 dimensions, the model has 2"),
        (np.zeros((0, 3), np.float32), "holds no values"),
        (np.zeros((2, 3), np.float64), "holds float64, input 'x' takes fp32"),
        (np.zeros((2, 3), np.int64), "values.astype('float32')"),
        (np.zeros((2, 3), ">f4"), "holds >f4, input 'x' takes fp32"),
        (np.zeros(2, [("a", "<f4")]), "takes fp32"),
        (np.array([[{}]]), "is not a .npy array"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, values: object, says: str) -> None:
    np.save(tmp_path / "x.npy", np.asarray(values), allow_pickle=True)
    with pytest.raises(UsageError) as caught:
        source_of(load_model(_relu(tmp_path)), input_files={"x": tmp_path / "x.npy"})
    assert says in str(caught.value)
    assert caught.value.why
    assert caught.value.fix


def _npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(3, np.float32))


def _cut(path: Path) -> None:
    np.save(path, np.zeros((4, 3), np.float32))
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_npz, "is an archive"),
        (_cut, "is not a .npy array"),
        (lambda path: path.write_bytes(b""), "is not a .npy array"),
        (lambda path: path.write_text("1, 2, 3"), "is not a .npy array"),
        (lambda path: path.write_bytes(b"PK\x03\x04 no archive"), "is an archive"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': <f4(((("), "is not a .npy array"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x09\x00\x10\x00{}"), "is not a .npy array"),
    ],
)
def test_what_is_no_npy_file_is_refused(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    path = tmp_path / "x.npy"
    make(path)
    with pytest.raises(UsageError) as caught:
        check_files([X], {"x": path})
    assert says in caught.value.what
    assert str(path) in caught.value.what
    assert caught.value.why
    assert caught.value.fix


# --- --loadInputs -------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the files that the specs below name."""
    if sys.platform == "win32":
        pytest.skip("Windows has no files with a colon in their name")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    for name in ("a.npy", "b.npy", "d/a.npy", "with space.npy", "12:30.npy", r"C:\a.npy"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["x:a.npy"], {"x": "a.npy"}),
        (["x:a.npy,y:b.npy"], {"x": "a.npy", "y": "b.npy"}),
        (["x:a.npy", "y:d/a.npy"], {"x": "a.npy", "y": "d/a.npy"}),
        ([" x:a.npy , y:b.npy "], {"x": "a.npy", "y": "b.npy"}),
        (["x:with space.npy"], {"x": "with space.npy"}),
        (["Input:0:a.npy"], {"Input:0": "a.npy"}),
        (["onnx::x:a.npy"], {"onnx::x": "a.npy"}),
        (["'Input:0':a.npy"], {"Input:0": "a.npy"}),
        (['"Input:0":a.npy'], {"Input:0": "a.npy"}),
        (["x:12:30.npy"], {"x": "12:30.npy"}),
        (["'x':12:30.npy"], {"x": "12:30.npy"}),
        (["Input:0:12:30.npy"], {"Input:0": "12:30.npy"}),
        ([r"x:C:\a.npy"], {"x": r"C:\a.npy"}),
        ([r"'Input:0':C:\a.npy"], {"Input:0": r"C:\a.npy"}),
        ([r"Input:0:C:\a.npy"], {"Input:0": r"C:\a.npy"}),
        ([], {}),
    ],
)
def test_names_and_files_are_told_apart(files: Path, specs: list[str], expected: dict[str, str]) -> None:
    assert {name: str(path) for name, path in parse_load_inputs(specs).items()} == expected


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        ("x:none.npy", "none.npy"),
        ("Input:0:none.npy", "none.npy"),
        ("x:a.npy,y:none.npy", "none.npy"),
        (r"x:D:\none.npy", r"D:\none.npy"),
        ("x:D:/none.npy", "D:/none.npy"),
        ("x:d", "d"),
    ],
)
def test_a_missing_file_is_named_whole(files: Path, spec: str, missing: str) -> None:
    with pytest.raises(MissingError) as caught:
        parse_load_inputs([spec])
    assert caught.value.what.endswith(f"no file {missing}")
    assert caught.value.exit_code == 3
    assert str(files) in caught.value.why
    assert caught.value.fix


@pytest.mark.parametrize("spec", ["", "x", "x:", ":a.npy", "a.npy", "x:a.npy,", "'x'a.npy"])
def test_what_is_not_name_and_file_is_refused(files: Path, spec: str) -> None:
    with pytest.raises(UsageError, match="cannot be read") as caught:
        parse_load_inputs([spec])
    assert caught.value.why
    assert "input:values.npy" in caught.value.fix
