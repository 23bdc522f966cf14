"""ONNX Runtime's CPU engine: what it builds, what it leaves behind, and what it says when it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.support import SAMPLES, ort_engine, refused
from trtprof.base.errors import BuildError, CaptureError, MissingError
from trtprof.base.records import Engine
from trtprof.engine.onnxruntime import ENGINE_GRAPH, layers_from_file, layers_from_graph
from trtprof.engine.ort_graph import save_graph
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, clean_message, make_session, name_layers
from trtprof.source.load import load_model


class Place:
    """Where a build puts things."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "run"
        self.folder.mkdir()

    def build(self, model: Path, external_data: str = "") -> Engine:
        return ort_engine(SessionRequest(model=str(model), threads=1, external_data=external_data), self.folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int],
    dtype: int = TensorProto.FLOAT,
    constants: tuple[onnx.TensorProto, ...] = (),
    opset: int = 17,
) -> Path:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, None)], list(constants),
    )  # fmt: skip
    domains = {node.domain for node in nodes if node.domain}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def dense(rows: int = 256) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones((rows, rows), np.float32), "w")


# --- a build --------------------------------------------------------------------------------


def test_a_build_lists_its_layers_and_how_it_was_made(place: Place) -> None:
    engine = place.build(SAMPLES / "lstm.onnx")
    assert [layer.op.op_type for layer in engine.layers].count("LSTM") == 1
    assert engine.backend.name == "ort-cpu"
    assert engine.backend.reason == "asked for"
    assert engine.backend.options["intra_op_threads"] == "1"
    assert engine.backend.options["graph_optimization_level"] == "all"
    assert set(engine.versions) == {"onnxruntime", "onnx", "python"}
    assert engine.build_ns > 0
    assert all(layer.match == "none" and not layer.nodes for layer in engine.layers), "matching is a stage of its own"


def test_the_graph_is_kept_without_its_weights(place: Place, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "m")]
    model = save(tmp_path / "m.onnx", nodes, [4, 256], constants=(dense(),))
    assert model.stat().st_size > 256 * 256 * 4
    engine = place.build(model)
    kept = place.folder / ENGINE_GRAPH
    assert kept.stat().st_size < 4096
    assert [path.name for path in place.folder.iterdir()] == [ENGINE_GRAPH], "weights are as large as the model"
    (weight,) = (tensor for tensor in engine.layers[0].op.inputs if tensor is not None and tensor.constant)
    assert weight.shape == (256, 256)
    assert layers_from_file(kept) == engine.layers, "read back without the weights"


def test_roles_tell_control_and_layout_from_compute(place: Place, tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["o"], "neg")], "b", [], [helper.make_tensor_value_info("o", 1, [4])]
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], "sum", keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], "cast", to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], "if", then_branch=body, else_branch=body),
    ]
    nodes[2].attribute[1].g.node[0].name = "other"
    engine = place.build(save(tmp_path / "if.onnx", nodes, [4]))
    roles = {layer.name: (layer.role, layer.graph) for layer in engine.layers}
    assert roles["if"] == ("control", "")
    assert {roles["neg"], roles["other"]} == {("compute", "if/then_branch"), ("compute", "if/else_branch")}


# --- names ----------------------------------------------------------------------------------


def hinted(name: str, op_type: str = "Conv", weights: str = "w") -> tuple[tuple[str, ...], tuple[str, ...]]:
    node = helper.make_node(op_type, ["x", weights], ["reorder"], name, domain="com.microsoft.nchwc")
    values = [helper.make_tensor_value_info("x", 1, [1])]
    graph = helper.make_graph([node], "g", values, [])
    (layer,) = layers_from_graph(helper.make_model(graph))
    return layer.hints, layer.output_hints


def test_hints_undo_what_onnxruntime_does_to_names() -> None:
    assert hinted("conv1_nchwc") == (("conv1_nchwc",), ("conv1",))
    assert hinted("conv1_nchwc_token_12") == (("conv1_nchwc_token_12", "conv1_nchwc"), ("conv1",))
    assert hinted("t_bn_nchwc", weights="bn_scale_token_3")[1][0] == "t"
    assert hinted("t_mul_nchwc", weights="mul_scale")[1][0] == "t"
    assert hinted("t_bn_nchwc", weights="reorder_token_3")[1] == ("t_bn",), "a tensor really called t_bn"
    assert "m" in hinted("m/MatMulScaleFusion/", "FusedMatMul")[0]
    assert "m" in hinted("fused m/MatMulAddFusion/GemmTransposeFusion/", "FusedGemm")[0]
    assert hinted("a/b", "MatMul") == (("a/b",), ())
    assert hinted("", "Mul")[0] == ()


def test_every_layer_has_a_name_of_its_own() -> None:
    """ONNX Runtime leaves nodes of inlined functions without one, and repeats names across subgraphs."""

    def branch(name: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node("HardSigmoid", ["x"], ["h"]),
            helper.make_node("Mul", ["x", "h"], ["m"]),
            helper.make_node("Reorder", ["m"], ["o"], "Reorder"),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("o", 1, None)])

    nodes = [
        helper.make_node("HardSigmoid", ["x"], ["h"]),
        helper.make_node("If", ["h"], ["i"], "if", then_branch=branch("t"), else_branch=branch("e")),
        helper.make_node("Reorder", ["i"], ["y"], "Reorder"),
        helper.make_node("Relu", ["y"], ["z"], "relu"),
        helper.make_node("Relu", ["z"], ["q"], "HardSigmoid#0"),
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", [], []))
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    scheduled = name_layers(model)
    names = [node.name for node in scheduled]
    assert len(names) == len(set(names))
    assert all(names)
    kept = {node.saved_name: node.name for node in scheduled if not node.graph and node.saved_name}
    assert kept == {name: name for name in ("if", "Reorder", "relu", "HardSigmoid#0")}, "names in use stay"
    assert [(node.name, node.saved_name) for node in scheduled if node.graph == "if/then_branch"] == [
        ("if/then_branch/HardSigmoid#0", ""),
        ("if/then_branch/Mul#1", ""),
        ("if/then_branch/Reorder", "Reorder"),
    ]
    assert name_layers(copy) == scheduled, "two stages read the same file and must agree"
    assert [layer.name for layer in layers_from_graph(copy)] == [
        node.name for node in name_layers(onnx.ModelProto.FromString(copy.SerializeToString()))
    ]


def test_inserted_layers_have_one_name_in_all_sessions() -> None:
    def session(order: str) -> set[tuple[str, str]]:
        nodes = [
            helper.make_node(
                "ReorderOutput", [f"reorder_token_{at}"], [f"conv_{of}"], "ReorderOutput" + f"_token_{at}" * bool(at),
                domain="com.microsoft.nchwc",
            )
            for at, of in enumerate(order)
        ]  # fmt: skip
        nodes.append(helper.make_node("Softmax", ["conv_a"], ["y"], "Softmax"))
        named = name_layers(helper.make_model(helper.make_graph(nodes, "g", [], [])))
        return {(found.name, node.output[0]) for found, node in zip(named, nodes, strict=True)}

    assert session("abc") == session("cab"), "numbers go to other nodes in the next session"
    assert ("Softmax", "y") in session("abc"), "a name of the model stays"


def test_layers_stand_in_the_order_in_which_they_run(place: Place) -> None:
    engine = place.build(SAMPLES / "transformer_block.onnx")
    made: set[str] = set()
    produced = {tensor.name for layer in engine.layers for tensor in layer.op.outputs if tensor is not None}
    for layer in engine.layers:
        for tensor in layer.op.inputs:
            assert tensor is None or tensor.name not in produced or tensor.name in made
        made |= {tensor.name for tensor in layer.op.outputs if tensor is not None}


# --- models whose weights lie beside them ---------------------------------------------------


@pytest.fixture
def with_external_data(tmp_path: Path) -> Path:
    """Two nodes of one name, which must be renamed, and weights in a file of their own."""
    folder = tmp_path / "model"
    folder.mkdir()
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    path = save(folder / "m.onnx", nodes, [4, 256], constants=(dense(),))
    model = onnx.load(str(path))
    onnx.save(model, str(path), save_as_external_data=True, location="weights.data", size_threshold=1024)
    assert (folder / "weights.data").stat().st_size == 256 * 256 * 4
    return path


def test_a_renamed_model_finds_its_weights_in_the_folder_it_came_from(
    with_external_data: Path, tmp_path: Path, place: Place
) -> None:
    loaded = load_model(with_external_data)
    assert loaded.renamed == 2
    assert loaded.external_data
    elsewhere = tmp_path / "elsewhere.onnx"
    elsewhere.write_bytes(loaded.full().SerializeToString())
    engine = place.build(elsewhere, external_data=str(with_external_data.parent))
    assert {hint for layer in engine.layers for hint in layer.hints} >= set(loaded.original_names)
    request = SessionRequest(model=str(elsewhere), threads=1, external_data=str(with_external_data.parent))
    (result,) = make_session(request).run(None, {"x": np.ones((4, 256), np.float32)})
    assert result[0, 0] == 256.0 * 256.0, "the weights are the ones of the file"


def test_weights_that_are_not_there_are_a_build_error(with_external_data: Path, place: Place) -> None:
    (with_external_data.parent / "weights.data").unlink()
    with pytest.raises(BuildError, match=r"cannot build m\.onnx") as error:
        place.build(with_external_data)
    assert "weights.data" in error.value.why


# --- models that cannot be built ------------------------------------------------------------


@pytest.mark.parametrize(
    ("op_type", "domain", "called"),
    [
        ("FlashThing", "acme", "acme:FlashThing"),
        ("NoSuchContrib", "com.microsoft", "com.microsoft:NoSuchContrib"),
        ("NotAnOp", "", "NotAnOp"),
    ],
)
def test_an_op_that_onnxruntime_does_not_know_is_named(
    op_type: str, domain: str, called: str, place: Place, tmp_path: Path
) -> None:
    model = save(tmp_path / "custom.onnx", [helper.make_node(op_type, ["x"], ["y"], "mine", domain=domain)], [4])
    with pytest.raises(MissingError) as error:
        place.build(model)
    assert error.value.what.startswith(f"ONNX Runtime cannot run the op {called} of custom.onnx")
    assert error.value.exit_code == 3
    assert "trtprof inspect" in error.value.fix


def test_an_op_without_a_kernel_for_the_data_type_is_named_with_its_node(place: Place, tmp_path: Path) -> None:
    node = helper.make_node("Det", ["x"], ["y"], "volume")
    model = save(tmp_path / "det.onnx", [node], [3, 3], dtype=TensorProto.DOUBLE)
    with pytest.raises(MissingError) as error:
        place.build(model)
    assert error.value.what == "ONNX Runtime cannot run the op Det (node 'volume') of det.onnx"
    assert "data type" in error.value.fix


def clean(text: str, model: Path) -> None:
    """No noise of ONNX Runtime's in a text for people."""
    assert "[ONNXRuntimeError]" not in text
    assert "onnxruntime_src" not in text
    assert "onnxruntime::" not in text
    assert str(model) not in text
    assert "\n" not in text
    assert text


def test_a_model_that_is_refused_says_why_in_plain_words(place: Place, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "clash")]
    model = save(tmp_path / "clash.onnx", nodes, [4, 3], constants=(dense(4),))
    with pytest.raises(BuildError, match=r"cannot build clash\.onnx") as error:
        place.build(model)
    clean(error.value.why, model)
    assert error.value.why.startswith("Node (clash) Op (MatMul)")
    assert error.value.exit_code == 4


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model from /a b/m.onnx failed:Protobuf parsing failed.",
            "Protobuf parsing failed.",
        ),
        (
            (
                "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running MatMul node. Name:'m m' "
                "Status Message: matmul_helper.h:59 Compute MatMul dimension mismatch"
            ),
            "MatMul 'm m': MatMul dimension mismatch",
        ),
        (
            (
                "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: /src/core/x.cc:12 "
                "void onnxruntime::A::B(const std::map<int, float>&, std::function<void (int)>) const [with T = float] "
                "axis (2) is\nout of range"
            ),
            "Exception during initialization: axis (2) is out of range",
        ),
        ("a plain text about f(x) in a.cc", "a plain text about f(x) in a.cc"),
        ("", ""),
    ],
)
def test_messages_are_cleaned(raw: str, expected: str) -> None:
    assert clean_message(RuntimeError(raw)) == expected


@pytest.mark.nightly
def test_a_graph_is_saved_by_a_process_that_a_model_may_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_graph(SessionRequest(model=str(SAMPLES / "gemv.onnx"), threads=1), tmp_path)
    assert layers_from_file(tmp_path / ENGINE_GRAPH)
    with pytest.raises(BuildError, match="cannot build"):
        save_graph(SessionRequest(model=str(tmp_path / "gone.onnx"), threads=1), tmp_path)
    monkeypatch.setattr(child, "command", lambda *_: [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
    with pytest.raises(CaptureError, match=r"ONNX Runtime with gemv\.onnx died") as caught:
        save_graph(SessionRequest(model=str(SAMPLES / "gemv.onnx"), threads=1), tmp_path)
    assert "SIGSEGV" in refused(caught.value)


def test_the_condition_of_an_if_in_a_file_beside_the_model_is_told_what_to_do(tmp_path: Path, place: Place) -> None:
    """ONNX Runtime 1.31 looks for it in the working folder."""
    info = helper.make_tensor_value_info
    graphs = [
        helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [info(op, TensorProto.FLOAT, [4])])
        for op in ("Relu", "Neg")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])
    x, y = (info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(np.array(True), "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path = tmp_path / "if.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="if.bin")
    with pytest.raises(BuildError, match=r"cannot build if\.onnx") as caught:
        place.build(path)
    assert "keep the condition of an If in the model" in caught.value.fix
