"""A model with a plugin in it beside the original: outputs, a build, and what inspect, predict and run say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.fakes.in_process import quick
from tests.fakes.plugin_models import written
from trtprof.base.errors import BuildError, MissingError
from trtprof.base.records import CheckStep, Inspection, Run, Source
from trtprof.engine import tensorrt
from trtprof.flows.inspect import inspect
from trtprof.flows.options import RunOptions
from trtprof.flows.plugin import inserted
from trtprof.flows.plugin.inserted import check_inserted, model_of
from trtprof.flows.run import execute
from trtprof.plugin.insert import insert
from trtprof.plugin.select import alike, choices
from trtprof.source.load import LoadedModel, load_model, source_of
from trtprof.source.request import ModelRequest

GRAPH = """g (float[N,16] a) => (float[N,8] y) <float[8] bias = {1,2,3,4,5,6,7,8}>
    { [e] e = Exp(a) [w] w = ConstantOfShape <value = float[1] {0.5}> (s) [p] p = MatMul(e, w) [q] q = Add(p, bias)
      [r] r = Relu(q) [y] y = Softmax(r) }"""


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return written(
        tmp_path / "model.onnx", GRAPH.replace("= {1,2,3,4,5,6,7,8}>", "= {1,2,3,4,5,6,7,8}, int64[2] s = {16,8}>")
    )


def sources(path: Path) -> tuple[LoadedModel, Source]:
    loaded = load_model(path)
    return loaded, source_of(loaded)


def put(path: Path, to: Path, node: str = "p", **how: Any) -> str:
    """The plugin for a node with all that fits beside it, and its name."""
    loaded = load_model(path)
    model = model_of(loaded, [node])
    task = choices(model, node)[0].task
    insert(model, task, alike(model, task).places, to, **how)
    return task.name


# --- the check -----------------------------------------------------------------------------------


@pytest.mark.process
def test_outputs_are_those_of_the_original_and_rtx_builds_it(original: Path, tmp_path: Path) -> None:
    made = tmp_path / "with.onnx"
    put(original, made)
    ran, built = check_inserted(*sources(original), made)
    assert (ran.name, ran.verdict, ran.reason) == ("onnxruntime", "passed", "")
    assert ran.cases == 4  # two draws, zeros, extremes
    assert built.verdict in ("passed", "not here")
    if built.verdict == "not here":
        assert "TensorRT-RTX" in built.reason


@pytest.mark.process
def test_another_function_is_found_out(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "with.onnx"
    put(original, made)
    proto = onnx.load(made)
    (relu,) = [node for node in proto.functions[0].node if node.op_type == "Relu"]
    relu.op_type = "Neg"
    onnx.save(proto, made)
    monkeypatch.setattr(tensorrt, "build", lambda *_, **__: None)
    ran, built = check_inserted(*sources(original), made)
    assert (ran.verdict, built.verdict) == ("failed", "passed")
    assert ran.reason.startswith("with inputs random, seed 0: output 'y' is off by ")


@pytest.mark.parametrize(
    ("errors", "verdict", "reason"),
    [
        ([MissingError("TensorRT-RTX is not installed", why="no module")], "not here", "is not installed; no module"),
        ([BuildError("refused", why="of the plugin"), None], "failed", "refused; of the plugin"),
        ([BuildError("refused"), BuildError("no such op")], "not here", "does not build the original: no such op"),
    ],
)
def test_what_a_build_says(
    original: Path, monkeypatch: pytest.MonkeyPatch, errors: list[Exception | None], verdict: str, reason: str
) -> None:
    built: list[Path] = []

    def build(model: Path, *_: object, **__: object) -> None:
        built.append(model)
        error = errors[len(built) - 1]
        if error is not None:
            raise error

    monkeypatch.setattr(tensorrt, "build", build)
    same = CheckStep(name="onnxruntime", verdict="passed")
    monkeypatch.setattr(inserted, "same_outputs", lambda *_: same)
    other = original.with_name("other.onnx")
    _, step = check_inserted(*sources(original), other)
    assert (step.verdict, step.name) == (verdict, "tensorrt-rtx")
    assert step.reason.endswith(reason)
    assert built[0] == other.resolve()


# --- the other verbs -----------------------------------------------------------------------------


def test_inspect_prices_a_custom_node_by_its_function_as_one_kernel(original: Path, tmp_path: Path) -> None:
    name = put(original, tmp_path / "with.onnx")
    before, after = (inspect(ModelRequest.of(path, ["a:4x16"])) for path in (original, tmp_path / "with.onnx"))
    (row,) = [op for op in after.ops if op.domain == "trtprof"]
    assert (row.op_type, row.count) == (name, 1)
    assert {op.op_type for op in after.ops} == {name, "Softmax", "ConstantOfShape"}
    assert not after.unsupported
    assert after.total.flops == before.total.flops
    # What the nodes of the function hand to one another does not move: Exp, MatMul and Add of 4x16 and 4x8.
    inside = 2 * 4 * (4 * 16 + 2 * 4 * 8)
    assert row.work.bytes == before.total.bytes - inside - _softmax(after)
    (node,) = [node for node in after.nodes if node.call is not None]
    assert node.name == "p"
    assert [tensor.name for tensor in node.op.inputs if tensor is not None] == ["a", "w", "bias"]


def _softmax(inspection: Inspection) -> int:
    return next(op.work.bytes for op in inspection.ops if op.op_type == "Softmax")


def test_a_run_leads_all_back_to_the_custom_node(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    put(original, tmp_path / "with.onnx")
    options = RunOptions(
        model=ModelRequest.of(tmp_path / "with.onnx", ["a:4x16"]), output=str(tmp_path / "run"), iterations=3,
        warmup_ms=0.0, duration_s=0.0,
    )  # fmt: skip
    run: Run = execute(options).report()
    assert run.coverage.exact == 1.0
    names = {name for layer in run.layers for name in layer.nodes}
    assert {name.split("/")[0] for name in names} == {"p", "y"}
