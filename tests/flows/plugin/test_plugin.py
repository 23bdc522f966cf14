"""`trtprof plugin` as a flow: the brief of a run and of a model, and a kernel with its files and checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.fakes.in_process import quick
from tests.fakes.plugin_models import written
from tests.fakes.support import ROOT, SAMPLES
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Run
from trtprof.diagnose import THRESHOLDS, Judge
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze
from trtprof.flows.options import RunOptions
from trtprof.flows.plugin import PluginOptions, make
from trtprof.flows.plugin.brief import brief_of, subject_of
from trtprof.flows.predict.on_gpus import Settings
from trtprof.flows.run import execute
from trtprof.hardware import gpus
from trtprof.plugin import check
from trtprof.plugin import compile as compiler
from trtprof.report import render
from trtprof.source.request import ModelRequest

GEMV, LOG = SAMPLES / "gemv.onnx", ROOT / "tests" / "engine" / "data" / "rtx_gemv.log"
CHAIN = "g (float[n,48] x, float[48] b) => (float[n,48] y) { [add] p = Add(x, b) [mul] q = Mul(p, x) y = Relu(q) }"
MLP = "g (float[512,512] x, float[512,2048] w) => (float[512,2048] y) { [fc] p = MatMul(x, w) [act] y = Tanh(p) }"
SORT = "g (float[64,64] x) => (float[64,5] y, int64[64,5] i) <int64[1] k = {5}> { [sort] y, i = TopK(x, k) }"


def options(model: Path, layer: str, **more: Any) -> PluginOptions:
    return PluginOptions(what=str(model), layer=layer, gpu="rtx-4090", **{"seconds": 3.0, **more})


def brief(model: Path, layer: str) -> Any:
    return make(options(model, layer, steps=("brief",))).brief


def test_for_a_model_alone_the_brief_says_when_a_kernel_pays_and_not_that_it_does() -> None:
    found = brief(GEMV, "MatMul")
    assert (found.verdict, found.measured_ns, found.net_ns) == ("not decided", None, None)
    assert (found.work.bytes, found.estimate.dram_bytes, found.estimate.bound) == (250_828_800, 250_828_800, "dram")
    assert found.reachable_ns == pytest.approx(found.estimate.attainable_ns / 0.7, abs=1)
    assert found.pays_above_ns == sum(part.ns for part in found.barrier) + found.reachable_ns
    assert "it pays if the engine's kernel takes more than 356 us" in found.why
    assert found.formulas == ("y[i,j,l,0,0] = sum_k x0[i,j,l,0,k] * x1[i,0,l,k,0]",)
    assert [(one.name, one.role, one.nbytes) for one in found.tensors] == [
        ("a", "input", 245_760_000), ("b", "input", 1_228_800), ("y", "output", 3_840_000)
    ]  # fmt: skip
    assert {"gemv-as-reduce", "fp16", "builder-level-5"} <= {step.rung for step in found.ladder}


@pytest.mark.parametrize(("ms", "verdict"), [(0.29, "do not"), (1.9, "write it")])
def test_for_a_run_the_verdict_is_that_of_its_report(ms: float, verdict: str, tmp_path: Path) -> None:
    (one,) = read_layer_info(LOG).layers
    row = {"name": one.name, "timeMs": 100 * ms, "averageMs": ms, "medianMs": ms, "percentage": 100.0}
    (tmp_path / "profile.json").write_text(json.dumps([{"count": 100}, row]))
    files = Files(layers=LOG, profile=tmp_path / "profile.json", onnx=GEMV)
    cases: list[Any] = []
    how = Settings(overrides={"dram": 0.92e12, "fp32": 78.65e12}, cold=True)
    run = analyze(files, [gpus.find("rtx-4090")], how, judge=Judge(THRESHOLDS, cases.append))
    assert isinstance(run, Run)
    (tmp_path / "run.json").write_text(render(run, "json"))
    document = subject_of(str(tmp_path / "run.json"), "MatMul", "", None, print)
    told = run.candidates[0] if run.candidates else None
    for case in (None, cases[0]):
        found = brief_of(document._replace(case=case))
        assert found.measured_ns == 1_000_000 * ms
        assert found.verdict == (verdict if case or told else "not decided")
        assert told is None or (found.why, found.net_ns, found.ladder) == (told.why, told.net_ns, told.ladder)


def test_a_pointwise_op_that_engines_fuse_is_not_to_be_written(tmp_path: Path) -> None:
    found = brief(written(tmp_path / "mlp.onnx", MLP), "act")
    assert (found.verdict, found.nodes, found.group) == ("do not", ("act",), ("fc", "act"))
    assert "the engine computes Tanh in the kernel of MatMul" in found.why
    assert any(part.bytes for part in found.barrier)


def test_a_layer_is_found_by_a_part_of_its_name_and_a_shape_is_not_a_layer(tmp_path: Path) -> None:
    graph = "g (float[8,8] x) => (int64[2] s, float[8,8] y) { [s] s = Shape(x) [exp] y = Exp(x) }"
    path = written(tmp_path / "m.onnx", graph)
    assert brief(path, "ex").nodes == ("exp",)
    with pytest.raises(UsageError, match="Shape 's' launches no kernel"):
        brief(path, "s")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        brief(tmp_path / "x.json", "exp")


@pytest.mark.process
def test_a_layer_becomes_a_plugin_with_its_checks_and_a_fault_is_found(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    model, out = written(tmp_path / "chain.onnx", CHAIN), tmp_path / "plugin"
    found: Any = make(options(model, "mul", request=ModelRequest.of(model, ("x:5x48",)), folder=str(out)))
    assert (found.form, found.brief.nodes) == ("pointwise", ("add", "mul", "Relu_2"))
    steps = {step.name: step.verdict for step in found.check.steps}
    assert steps.pop("registry") != "failed"
    assert steps.pop("tensorrt-rtx") in ("passed", "not here")
    assert set(steps.values()) == {"passed"}, found.check
    assert {one.architecture for each in found.variants for one in each.builds} >= {"sm_75", "sm_120"}
    assert sorted(path.name for path in out.iterdir()) == sorted(found.files) == [
        "README.md", "kernel.py", "model.onnx", "plugin.json", "plugin.py", "test_plugin.py"
    ]  # fmt: skip
    assert found.brief.why in " ".join((out / "README.md").read_text().split())
    kernel = (out / "kernel.py").read_text()
    (out / "kernel.py").write_text(kernel.replace("mask=i < N)", "mask=i < N - 1)"))
    again: Any = make(PluginOptions(folder=str(out), steps=("check",), seconds=3.0))
    assert {step.name: step.verdict for step in again.check.steps}["numerics"] == "failed"


def test_without_triton_the_kernel_is_written_and_checks_say_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingError("Triton is not installed", fix="pip install 'trtprof[plugin]'")

    for module in (check, compiler):
        monkeypatch.setattr(module, "require_triton", missing)
    monkeypatch.setattr("trtprof.flows.plugin._check_model", lambda *_: ())
    out = tmp_path / "plugin"
    found: Any = make(options(written(tmp_path / "chain.onnx", CHAIN), "add", folder=str(out)))
    assert "def pointwise(" in (out / "kernel.py").read_text()
    assert found.check.steps[0].verdict == "not here"
    assert "pip install 'trtprof[plugin]'" in found.check.steps[0].reason
    again = make(options(tmp_path / "chain.onnx", "add", folder=str(tmp_path / "model"), steps=("insert",)))
    assert again.files == ("model.onnx",)
    assert onnx.load(tmp_path / "model" / "model.onnx").functions


def test_a_layer_without_a_form_gets_the_brief_and_the_reason(tmp_path: Path) -> None:
    sort = written(tmp_path / "sort.onnx", SORT)
    found = make(options(sort, "sort", folder=str(tmp_path / "out")))
    assert (found.form, found.variants, found.inserted, found.files) == ("", (), None, ("README.md",))
    assert found.refused["pointwise"]
    assert "no kernel is written" in (tmp_path / "out" / "README.md").read_text()


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    model = written(tmp_path / "chain.onnx", CHAIN)
    wrong = ((tmp_path, "write", "is not empty"), (model, "write", "is a file"), ("", "insert", "writes a model"))
    for folder, step, words in wrong:
        with pytest.raises(UsageError, match=words):
            make(options(model, "add", folder=str(folder), steps=(step,)))
    with pytest.raises(UsageError, match="no node 'moon'"):
        make(options(model, "add", folder=str(tmp_path / "out"), places=("moon",)))
    assert make(options(model, "add", steps=("brief", "write"))).files == ()


def test_a_kernel_is_for_the_model_that_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    model = written(tmp_path / "chain.onnx", CHAIN)
    request = ModelRequest.of(str(model), ("x:5x48",))
    execute(RunOptions(model=request, iterations=1, duration_s=0, output=str(tmp_path / "run")))
    ran = PluginOptions(what=str(tmp_path / "run"), layer="mul", steps=("brief", "write"))
    found: Any = make(ran)
    assert found.form == "pointwise"
    assert "on a CPU" in found.brief.why
    model.write_bytes(written(tmp_path / "other.onnx", CHAIN.replace("Mul", "Sub")).read_bytes())
    assert "was changed since the run" in make(ran).refused[""]
