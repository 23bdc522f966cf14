"""The annotated model: what was measured beside its nodes, and the same outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.fakes.command_line import trtprof
from tests.fakes.support import QUICK
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Run
from trtprof.base.run_folder import RunFolder
from trtprof.base.units import format_ns
from trtprof.flows.options import RunOptions
from trtprof.flows.report import model_as_run
from trtprof.flows.run import execute
from trtprof.report import ReportOptions, get
from trtprof.source.request import ModelRequest

pytestmark = pytest.mark.usefixtures("quick_runs")

FLOAT = TensorProto.FLOAT
WEIGHTS = np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32)


def two_layers(ir_version: int = 8, *, listed: bool = False, function: bool = False) -> ModelProto:
    """Gemm and a sigmoid gate, whose two nodes become one layer; the nodes have no names."""
    weight = numpy_helper.from_array(WEIGHTS, "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Sigmoid", ["m"], ["s"]),
        helper.make_node("Mul", ["m", "s"], ["y"]),
    ]
    functions, opsets = [], [helper.make_opsetid("", 17)]
    if function:
        opsets.append(helper.make_opsetid("own", 1))
        gate = helper.make_function(
            "own", "Gate", ["a"], ["b"],
            [helper.make_node("Sigmoid", ["a"], ["c"]), helper.make_node("Mul", ["a", "c"], ["b"])], opsets[:1],
        )  # fmt: skip
        nodes[1:] = [helper.make_node("Gate", ["m"], ["y"], domain="own")]
        functions = [gate]
    inputs = [helper.make_tensor_value_info("x", FLOAT, ["n", 32])]
    inputs += [helper.make_tensor_value_info("w", FLOAT, [32, 64])] if listed else []
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", FLOAT, ["n", 64])], [weight])
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=ir_version)


def finished(model: ModelProto, folder: Path, **saved: Any) -> RunFolder:
    path = folder / "model.onnx"
    onnx.save(model, path, **saved)
    return execute(RunOptions(model=ModelRequest.of(path), output=str(folder / "run"), **QUICK))  # type: ignore[arg-type]


def annotated(run: Run, *, weights: bool = True) -> ModelProto:
    options = ReportOptions(model=model_as_run(run, weights=weights), weights=weights)
    return ModelProto.FromString(get("onnx").encode(run, options))


def words(entries: Any) -> Mapping[str, str]:
    return {entry.key: entry.value for entry in entries}


def outputs(model: str | bytes) -> Any:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(1).normal(size=(3, 32)).astype(np.float32)})


@pytest.mark.parametrize(
    ("model", "saved"),
    [
        (two_layers(), {}),
        (two_layers(3, listed=True), {}),
        (two_layers(10), {}),
        (two_layers(9, function=True), {}),
        (two_layers(), {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}),
    ],
    ids=["ir 8", "weights among the inputs", "ir 10", "function", "external data"],
)
def test_it_passes_the_checker_and_computes_the_same(
    model: ModelProto, saved: Mapping[str, Any], tmp_path: Path
) -> None:
    expected = outputs(model.SerializeToString())
    run = finished(model, tmp_path, **saved).report()
    made = annotated(run)
    assert made.ir_version == 10
    assert [info.name for info in made.graph.input] == ["x"]
    onnx.checker.check_model(made, full_check=True)
    for one, other in zip(outputs(made.SerializeToString()), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_time_belongs_to_a_layer_and_is_not_split(tmp_path: Path) -> None:
    run = finished(two_layers(), tmp_path).report()
    made = {node.op_type: words(node.metadata_props) for node in annotated(run).graph.node}
    gate = next(layer for layer in run.layers if len(layer.nodes) == 2)
    told = f"layer {gate.name}: {format_ns(gate.measured_ns)} for these 2 nodes: {', '.join(gate.nodes)}"
    assert made["Sigmoid"]["trtprof.time"] == made["Mul"]["trtprof.time"] == told
    product = next(layer for layer in run.layers if layer.op_type == "MatMul")
    assert made["MatMul"]["trtprof.time"] == format_ns(product.measured_ns)
    assert product.attainable_ns is not None
    assert made["MatMul"]["trtprof.floor"].startswith(f"~{format_ns(product.attainable_ns)} ")
    assert "MatMul" in made["MatMul"]["trtprof.kernels"]
    about = [finding for finding in run.findings if product.name in finding.layers]
    assert [key for key in made["MatMul"] if ".finding." in key] == [
        f"trtprof.finding.{number}" for number in range(1, len(about) + 1)
    ]
    assert run.verdict == words(annotated(run).metadata_props)["trtprof.verdict"]


def test_what_was_written_before_is_replaced(tmp_path: Path) -> None:
    run = finished(two_layers(), tmp_path).report()
    first = annotated(run)
    (first.graph.node[0].metadata_props.add()).CopyFrom(onnx.StringStringEntryProto(key="own", value="kept"))
    again = ModelProto.FromString(get("onnx").encode(run, ReportOptions(model=first.SerializeToString())))
    assert words(again.graph.node[0].metadata_props) == words(first.graph.node[0].metadata_props)
    assert words(again.graph.node[0].metadata_props)["own"] == "kept"


def test_weights_are_left_out_on_request(tmp_path: Path) -> None:
    folder = finished(two_layers(), tmp_path)
    for flag, name in (("--weights", "all.onnx"), ("--no-weights", "few.onnx")):
        done = trtprof("report", folder.path, "-o", tmp_path / name, flag)
        assert done.exit_code == 0, done.output
    few = onnx.load(tmp_path / "few.onnx", load_external_data=False)
    assert (tmp_path / "few.onnx").stat().st_size + WEIGHTS.nbytes - 100 < (tmp_path / "all.onnx").stat().st_size
    assert list(few.graph.initializer[0].dims) == [32, 64]
    assert "trtprof.time" in words(few.graph.node[0].metadata_props)


def test_a_run_writes_it_at_once(tmp_path: Path) -> None:
    onnx.save(two_layers(), tmp_path / "model.onnx")
    out = tmp_path / "annotated.onnx"
    short = ("--backend", "ort-cpu", "--iterations", 3, "--duration", 0, "--warmUp", 0)
    done = trtprof("run", tmp_path / "model.onnx", *short, "-o", tmp_path / "run", "-o", out)
    assert done.exit_code == 0, done.output
    assert "trtprof.time" in words(onnx.load(out).graph.node[0].metadata_props)


def test_another_file_in_the_place_of_the_model_is_refused(tmp_path: Path) -> None:
    run = finished(two_layers(), tmp_path).report()
    onnx.save(two_layers(9), tmp_path / "model.onnx")
    with pytest.raises(UsageError, match="is not the model that ran"):
        model_as_run(run)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(MissingError, match="is not there") as caught:
        model_as_run(run)
    assert caught.value.fix


def test_names_cannot_be_replaced_in_a_model(tmp_path: Path) -> None:
    folder = finished(two_layers(), tmp_path)
    done = trtprof("report", folder.path, "-o", tmp_path / "a.onnx", "--redact")
    assert done.exit_code == 2
    assert "--redact is not for an annotated model" in done.stderr
    assert not (tmp_path / "a.onnx").exists()


def test_without_a_model_there_is_nothing_to_write_into(tmp_path: Path) -> None:
    run = finished(two_layers(), tmp_path).report()
    with pytest.raises(MissingError, match="no model to write into"):
        get("onnx").encode(run, ReportOptions())
