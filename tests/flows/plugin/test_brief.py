"""What a kernel is to compute, and whether to write it: of a run as its report says, of a model alone with an if."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import onnx
import onnx.parser
import pytest

from tests.fakes.seeming_gpu import H100, seem
from tests.fakes.support import ROOT, SAMPLES
from trtprof.base import run_folder
from trtprof.base.errors import UsageError
from trtprof.base.records import KernelBuild, PluginBrief, Run, Source
from trtprof.base.run_folder import RunFolder
from trtprof.diagnose import THRESHOLDS, Case, Judge
from trtprof.diagnose.plugin import candidates
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze
from trtprof.flows.options import GpuOptions, RunOptions
from trtprof.flows.plugin.brief import brief_of, kernel_ns, of_case, of_model, of_run, subject_of
from trtprof.flows.predict.on_gpus import Settings
from trtprof.flows.run import execute
from trtprof.hardware import gpus
from trtprof.report import render
from trtprof.source.request import ModelRequest

GEMV = SAMPLES / "gemv.onnx"
GEMV_LOG = ROOT / "tests" / "engine" / "data" / "rtx_gemv.log"
RTX_4090 = gpus.find("rtx-4090")
MEASURED = {"dram": 0.92e12, "fp32": 78.65e12}
"""Ceilings of the story."""


def build(bandwidth: float) -> KernelBuild:
    return KernelBuild(
        architecture="sm_89", registers=32, spill_bytes=0, shared_bytes=0, blocks_per_sm=8, occupancy=1.0,
        bandwidth=bandwidth, basis="bytes in flight",
    )  # fmt: skip


def source_of(model: Path) -> Source:
    request = ModelRequest.of(model)
    with request.opened() as loaded:
        return request.bound(loaded)


def story(folder: Path, ms: float) -> tuple[Run, Case]:
    """The story from the plan of an engine and a profile made by hand, on its ceilings."""
    profile = folder / "profile.json"
    (one,) = read_layer_info(GEMV_LOG).layers
    row = {"name": one.name, "timeMs": 100 * ms, "averageMs": ms, "medianMs": ms, "percentage": 100.0}
    profile.write_text(json.dumps([{"count": 100}, row]))
    cases: list[Case] = []
    run = analyze(
        Files(layers=GEMV_LOG, profile=profile, onnx=GEMV), [RTX_4090], Settings(overrides=MEASURED, cold=True),
        judge=Judge(THRESHOLDS, cases.append),
    )  # fmt: skip
    assert isinstance(run, Run)
    return run, cases[0]


def story_brief(folder: Path, ms: float, kernel: KernelBuild | None = None) -> PluginBrief:
    run, case = story(folder, ms)
    return brief_of(of_case(run, case, source_of(GEMV), "MatMul"), build=kernel)


# --- of a run ---------------------------------------------------------------------------------------


def test_the_story_is_worth_a_kernel_and_the_brief_says_so_as_the_report_does(tmp_path: Path) -> None:
    run, case = story(tmp_path, 1.9)
    found = brief_of(of_case(run, case, source_of(GEMV), "/gemv/MatMul"))
    (one,) = run.candidates
    assert (found.verdict, found.why) == (one.verdict, one.why) == ("write it", one.why)
    assert (found.net_low_ns, found.net_ns, found.net_high_ns) == (one.net_low_ns, one.net_ns, one.net_high_ns)
    assert (found.barrier, found.ladder, found.basis) == (one.barrier, one.ladder, one.basis)
    assert one.command == "trtprof plugin RUN /gemv/MatMul"
    assert found.formulas == ("y[i,j,l,0,0] = sum_k a[i,j,l,0,k] * b[i,0,l,k,0]",)
    assert found.work is not None
    assert (found.work.bytes, found.work.flops) == (250_828_800, 122_880_000)
    assert found.estimate is not None
    assert found.estimate.bound == "dram"
    assert found.estimate.attainable_ns == pytest.approx(250_828_800 / 920, abs=1)
    assert found.measured_ns == 1_900_000
    assert [(tensor.operand, tensor.role, tensor.nbytes) for tensor in found.tensors] == [
        ("a", "input", 245_760_000), ("b", "input", 1_228_800), ("y", "output", 3_840_000)
    ]  # fmt: skip
    assert found.gpu == "rtx-4090"
    assert found.pays_above_ns == one.reachable_ns + sum(part.ns for part in one.barrier)


def test_no_brief_contradicts_the_report(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A layer that the report weighs has its verdict; one that it does not is none to write."""
    for ms in (0.25, 0.29, 0.33, 0.6, 1.0, 1.9, 30.0):
        with subtests.test(f"{ms}"):
            run, case = story(tmp_path, ms)
            found = brief_of(of_case(run, case, source_of(GEMV), "MatMul"))
            if run.candidates:
                (one,) = run.candidates
                assert (found.verdict, found.net_ns, found.why) == (one.verdict, one.net_ns, one.why)
            else:
                assert found.verdict == ("not decided" if run.no_candidates.startswith("not decided") else "do not")
            assert run.candidates == candidates(case)
            assert ms < 1 or found.verdict in ("write it", "try first")


def test_a_kernel_that_was_written_is_priced_by_the_bandwidth_that_it_draws(tmp_path: Path) -> None:
    before = story_brief(tmp_path, 1.9)
    found = story_brief(tmp_path, 1.9, build(0.8))
    # A share of the datasheet's bandwidth, whatever the ceilings of the run are.
    assert found.reachable_ns == pytest.approx(250_828_800 / (0.8 * 1008), abs=2)
    assert found.basis == (
        "80.0 % of the 1.01 TB/s of the datasheet, predicted of the kernel that was written for sm_89: bytes in flight"
    )
    assert found.net_ns is not None
    assert found.reachable_ns is not None
    assert before.net_ns is not None
    assert before.reachable_ns is not None
    assert found.net_ns - before.net_ns == before.reachable_ns - found.reachable_ns
    assert found.net_low_ns is not None
    assert found.net_high_ns is not None
    assert found.net_low_ns <= found.net_ns <= found.net_high_ns
    # What is predicted was not measured: it is not promised to beat the best of its class, 93.5 % of the roofline.
    assert story_brief(tmp_path, 1.9, build(1.0)).reachable_ns == math.ceil(272_640 * 1.07)
    slow = story_brief(tmp_path, 1.9, build(0.1))
    assert slow.verdict == "do not"
    assert slow.net_ns is not None
    assert slow.net_low_ns is not None
    assert slow.net_high_ns is not None
    assert slow.net_low_ns <= slow.net_ns <= slow.net_high_ns


def test_doubts_that_leave_no_verdict_come_first(tmp_path: Path) -> None:
    run, case = story(tmp_path, 1.9)
    grave = msgspec.structs.replace(
        run,
        findings=(
            *run.findings,
            msgspec.structs.replace(
                run.findings[0], kind="trust", severity="critical", title="too noisy", brief="cv 9", code="TR903"
            ),
        ),
    )
    found = brief_of(of_case(grave, case, source_of(GEMV), "MatMul"))
    assert found.verdict == "not decided"
    assert found.doubts[0] == "cv 9"
    assert "cv 9" in found.why
    assert found.formulas


@pytest.mark.parametrize("backend", ["ort-cuda", "ort-cpu"])
def test_every_layer_of_a_run_folder_has_a_brief(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a worker in place of the GPU."""
    if backend == "ort-cuda":
        seem(monkeypatch, tmp_path, H100, (backend,))
    else:
        from tests.fakes.in_process import quick

        quick(monkeypatch)
    out = tmp_path / "run"
    execute(
        RunOptions(
            model=ModelRequest.of(SAMPLES / "resnet_tiny.onnx"), output=str(out), backend=backend, duration_s=0.0,
            iterations=5, warmup_ms=0.0, profile_iterations=4,
            gpu=GpuOptions(collector="cupti" if backend == "ort-cuda" else "auto"),
        )
    )  # fmt: skip
    run = RunFolder(out).report()
    listed = {one.layer: one for one in run.candidates}
    for layer in run.layers[:4]:
        found = brief_of(of_run(RunFolder(out), layer.name))
        assert found.measured_ns == layer.measured_ns
        assert found.why
        assert found.tensors
        one = listed.get(layer.name)
        assert found.verdict == (one.verdict if one else found.verdict)
        assert found.verdict in ("do not", "not decided") or one is not None
        if backend == "ort-cpu":
            assert (found.verdict, "on a CPU" in found.why) == ("not decided", True)
    product = next(layer for layer in run.layers if "Conv" in layer.op_type)
    named = brief_of(subject_of(str(out), product.name, gpu="rtx-4090"))
    assert (named.gpu, named.measured_ns) == ("rtx-4090", None)
    assert RunFolder(out).has(run_folder.REQUEST)


# --- of a model that did not run ----------------------------------------------------------------------


def model_of(text: str, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}'), path)
    return path


def brief_of_model(path: Path, name: str, kernel: KernelBuild | None = None, nodes: Sequence[str] = ()) -> PluginBrief:
    return brief_of(of_model(ModelRequest.of(path), name, RTX_4090), nodes, build=kernel)


def test_of_a_model_alone_it_is_said_when_a_kernel_pays_and_never_that_it_does() -> None:
    found = brief_of_model(GEMV, "MatMul")
    assert (found.verdict, found.measured_ns, found.net_ns) == ("not decided", None, None)
    assert found.pays_above_ns is not None
    assert found.reachable_ns is not None
    assert found.pays_above_ns == found.reachable_ns + sum(part.ns for part in found.barrier)
    assert "it pays where the engine's own kernel takes more than 356 us" in found.why
    assert found.doubts[0].startswith("nothing ran")
    assert {"gemv-as-reduce", "fp16", "builder-level-5", "route-more-fusions"} <= {step.rung for step in found.ladder}
    assert next(step for step in found.ladder if step.rung == "fp16").gain_ns == pytest.approx(124_419, abs=1)
    assert next(step for step in found.ladder if step.rung == "gemv-as-reduce").gain_ns is None


def test_neighbours_are_what_works_element_by_element_beside_it(tmp_path: Path) -> None:
    """The engine may fuse the activation: a plugin for the product alone cuts it off, one with it does not."""
    path = model_of(
        """agraph (float[4096,64] a, float[64,2048] b, float[2048] c) => (float[4096,2048] y, float[4096,2048] z) {
            p = Exp (a)
            m = MatMul (p, b)
            s = Add (m, c)
            r = Relu (s)
            y = Tanh (r)
            z = Neg (r)
        }""",
        tmp_path,
    )
    found = brief_of_model(path, "MatMul")
    assert found.op_types == ("MatMul",)
    by_op = {one.op_type: one for one in found.neighbours}
    assert "in a layer of its own: the kernel could compute it" in by_op["Exp"].reason
    size = 4096 * 2048 * 4
    assert set(by_op) == {"Exp", "Add", "Relu", "Tanh", "Neg"} or {"Exp", "Add", "Relu"} <= set(by_op)
    assert (by_op["Exp"].side, by_op["Exp"].bytes, by_op["Exp"].fused) == ("producer", 2 * 4096 * 64 * 4, False)
    assert (by_op["Add"].side, by_op["Add"].bytes) == ("consumer", 2 * size)
    assert "cuts it off" in by_op["Add"].reason
    crossing = [part for part in found.barrier if part.bytes]
    assert [part.bytes for part in crossing] == [2 * size]
    fused = brief_of_model(path, "MatMul", nodes=(*found.nodes, by_op["Add"].node, by_op["Relu"].node))
    assert fused.op_types == ("MatMul", "Add", "Relu")
    assert not any("Add" in part.what for part in fused.barrier)
    assert {one.op_type for one in fused.neighbours if one.fused} == {"Add", "Relu"}
    assert sum(part.ns for part in fused.barrier) < sum(part.ns for part in found.barrier)
    assert fused.formulas[-1].startswith("r = max(") or "max(" in fused.formulas[-1]


def test_a_kernel_may_compute_what_is_a_layer_of_its_own_and_its_work_is_that_of_all_its_nodes(tmp_path: Path) -> None:
    path = model_of(
        """agraph (float16[4096,64] a, float16[64,2048] b) => (float16[4096,2048] y) {
            m = MatMul (a, b)
            s = Softmax (m)
            y = Neg (s)
        }""",
        tmp_path,
    )
    source = source_of(path)
    product, softmax, negated = (node.name for node in source.nodes)
    alone = brief_of_model(path, product)
    found = brief_of_model(path, product, nodes=(negated, softmax, product))
    assert found.nodes == (product, softmax, negated)
    assert [line.partition(" ")[0] for line in found.formulas] == ["t0[i,j]", "t1", "y"]
    assert {tensor.operand for tensor in found.tensors} == {"a", "b", "y"}
    assert found.work is not None
    assert alone.work is not None
    assert found.work.bytes == alone.work.bytes == (4096 * 64 + 64 * 2048 + 4096 * 2048) * 2
    assert found.work.flops > alone.work.flops
    (one,) = [each for each in found.neighbours if each.fused]
    assert (one.node, one.side) == (negated, "consumer")
    assert one.reason.startswith("its layer takes at least ")
    assert one.reason.endswith("the kernel computes all of it: won, too, not in the net gain")


def test_a_document_of_a_prediction_asks_of_its_model_again(tmp_path: Path) -> None:
    from trtprof.flows.predict.groups import predict_source

    predicted = predict_source(source_of(GEMV), [RTX_4090], Settings())
    path = tmp_path / "predicted.json"
    path.write_text(render(predicted, "json"))
    found = brief_of(subject_of(str(path), "MatMul"))
    assert msgspec.structs.replace(found, ladder=()) == msgspec.structs.replace(
        brief_of_model(GEMV, "MatMul"), ladder=()
    )
    # In place of a model there may be the file of a plan.
    (tmp_path / "layers.json").write_text("{}")
    plan = msgspec.structs.replace(predicted.model, path=str(tmp_path / "layers.json"), opsets={}, sha256="")
    path.write_text(render(msgspec.structs.replace(predicted, model=plan), "json"))
    with pytest.raises(UsageError, match="says nothing of an ONNX model"):
        subject_of(str(path), "MatMul")


# --- small things -----------------------------------------------------------------------------------


def test_what_is_asked_for_wrongly_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no layer is called"):
        brief_of_model(GEMV, "nonsense")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UsageError, match="is no document of a run"):
        subject_of(str(tmp_path / "x.json"), "MatMul")
    monkeypatch.setattr("trtprof.hardware.nvml.gpus", lambda: ((), "no driver"))
    with pytest.raises(UsageError, match="which GPU"):
        subject_of(str(GEMV), "MatMul")


def test_no_kernel_is_faster_than_what_bounds_it() -> None:
    bound = brief_of_model(GEMV, "MatMul").estimate
    assert bound is not None
    rate = RTX_4090.dram_bytes_per_s.value
    slow_l2 = msgspec.structs.replace(bound, attainable_ns=900_000)
    assert kernel_ns(slow_l2, 0.85, rate) == 900_000
    assert kernel_ns(bound, None, rate) is None
    assert kernel_ns(None, 0.85, rate) is None
    assert kernel_ns(bound, 1.0, rate, runs=3) == 3 * 248_839
