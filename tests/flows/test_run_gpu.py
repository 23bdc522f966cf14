"""A run on a GPU from the model to the report, with a worker in place of the GPU (see ``stub_gpu_worker``)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.fakes.seeming_gpu import H100, NO_CUDA, seem
from tests.fakes.stub_gpu_worker import frame
from tests.fakes.support import ROOT, SAMPLES, refused
from trtprof.analysis import gpu as gpu_analysis
from trtprof.analysis.plan import price_plan
from trtprof.base import run_folder
from trtprof.base.errors import CaptureError, MissingError, UsageError
from trtprof.base.records import EngineFacts, Run
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.capture.gpu_record import ITERATION_RANGE, GpuCapture, PlanArtefact
from trtprof.diagnose import THRESHOLDS
from trtprof.diagnose.config import KEPT
from trtprof.diagnose.explain import explain
from trtprof.engine import backends
from trtprof.engine.inspector import parse_layer_info
from trtprof.engine.tensorrt import BuildOptions, BuiltEngine
from trtprof.flows import run_gpu
from trtprof.flows.build import EngineBuild
from trtprof.flows.options import GpuOptions, RunOptions
from trtprof.flows.report import analysed, case_of
from trtprof.flows.run import choose_backend, execute
from trtprof.hardware import gpus, nvml, store
from trtprof.report import render
from trtprof.source.request import ModelRequest

RESNET = SAMPLES / "resnet_tiny.onnx"
PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
LATENCY = {"median_ns": 1, "p99_ns": 1, "cv": 0.0, "n": 1}


@pytest.fixture(autouse=True)
def seeming_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that seems to have an H100."""
    seem(monkeypatch, tmp_path, H100, ("tensorrt", "tensorrt-rtx", "ort-cuda", "ort-cpu"))


def options(out: Path, backend: str, model: Path = RESNET, **gpu: object) -> RunOptions:
    return RunOptions(
        model=ModelRequest.of(model, batch=2),
        output=str(out), backend=backend, duration_s=0.0, iterations=5, warmup_ms=0.0,
        profile_iterations=4, gpu=GpuOptions(collector="cupti", **gpu),  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BuildOptions]:
    """Engines are not built but read from a recorded build; a list of what was asked for."""
    asked: list[BuildOptions] = []

    def build(loaded: object, source: object, how: BuildOptions, *_: object, **__: object) -> EngineBuild:
        asked.append(how)
        plan = tmp_path / f"model{len(asked)}.plan"
        plan.write_bytes(b"plan")
        text = PLAN.read_text()
        if how.max_aux_streams == 0:
            text = text.replace("StreamId: 1", "StreamId: 0")
        facts = EngineFacts(backend=how.backend, versions={how.backend: "1.7.1"}, precision="as in the file")
        built = BuiltEngine(
            plan=plan, plan_text=text, layer_info="", backend=how.backend, versions=facts.versions, precision=None,
            build_ns=1, network_layers=30, warnings=(),
        )  # fmt: skip
        priced = price_plan(parse_layer_info(text, plan), source, facts)  # type: ignore[arg-type]
        return EngineBuild(priced, built, source, text, facts)  # type: ignore[arg-type]

    monkeypatch.setattr(run_gpu, "engine_of", build)
    return asked


def trace_of_nothing() -> GpuTrace:
    return GpuTrace(
        work=frame(WORK_COLUMNS, 0),
        launches=frame(LAUNCH_COLUMNS, 0),
        ranges=frame(RANGE_COLUMNS, 0),
        graph_nodes=frame(GRAPH_COLUMNS, 0),
    )


def check_closed(run: Run) -> None:
    """What holds of every run."""
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns
    matched = sum(match.total_ns for layer in run.layers for match in layer.kernels)
    assert matched + sum(match.total_ns for match in run.kernels_unattributed) == run.captured_ns
    assert {node.fate for node in run.nodes} <= {"layer", "folded", "eliminated"}


def test_a_run_with_onnx_runtime_leads_every_kernel_to_its_node(tmp_path: Path) -> None:
    folder = execute(options(tmp_path / "run", "ort-cuda"))
    run = folder.report()
    check_closed(run)
    assert (run.backend.name, run.device.name) == ("ort-cuda", H100.name)
    assert run.coverage.exact + run.coverage.inferred == pytest.approx(1.0)
    assert run.latency.n == 5
    assert {mode.mode for mode in run.modes} == {"stream"} or len(run.modes) == 2
    for layer in run.layers:
        assert [match.kernel for match in layer.kernels] == [f"kernel_of_{layer.name}"]
        assert layer.kernels[0].count == 4
        assert layer.attainable_ns is not None
    assert run.ceilings.origin == "datasheet", "none could be measured, and the run goes on with the datasheet"
    assert "CUPTI" in " ".join(run.assumptions) or "cupti" in " ".join(run.assumptions)
    assert run.profiled.n == 4


def timed_rows(folder: Path, ns: float = 40_000) -> Path:
    """A table of kernels as a person has it."""
    path = folder / "rows.csv"
    path.write_text("kind,dtype,m,ns\n" + "".join(f"pointwise,fp32,{1 << n},{ns}\n" for n in range(8, 16)))
    return path


def test_timed_kernels_are_kept_in_the_folder_and_correct_the_run_when_it_is_opened_again(tmp_path: Path) -> None:
    rows = timed_rows(tmp_path)
    plain = execute(options(tmp_path / "plain", "ort-cuda", build=BuildOptions(tf32=False))).report()
    folder = execute(options(tmp_path / "run", "ort-cuda", build=BuildOptions(tf32=False), measured=str(rows)))
    run = folder.report()
    assert plain.corrected is None
    assert run.corrected is not None
    assert (run.corrected.rows, run.corrected.source) == (8, "rows.csv")
    rows.unlink()
    assert render(analysed(folder), "json").encode() == folder.file(run_folder.REPORT).read_bytes()
    with pytest.raises(UsageError, match="begun with other settings"):
        execute(msgspec.structs.replace(options(folder.path, "ort-cuda", build=BuildOptions(tf32=False)), resume=True))


def test_kernels_that_calibrate_timed_on_this_very_gpu_correct_a_run_without_being_asked_for(tmp_path: Path) -> None:
    remarks = "# gpu: NVIDIA H100 80GB HBM3\n# datasheet: h100-sxm5\n# timed: 2026-11-23T01:02:03+00:00\n"
    kept = store.kernels_of_gpu(H100)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(remarks + timed_rows(tmp_path).read_text() + "pointwise,fp32,1048576,1\n")
    folder = execute(options(tmp_path / "run", "ort-cuda"))
    corrected = folder.report().corrected
    assert corrected is not None
    assert (corrected.rows, corrected.left_out, corrected.source) == (8, 1, kept.name)
    assert corrected.brief == "corrected by 8 rows timed on this GPU on 2026-11-23"
    kept.unlink()
    assert analysed(folder).corrected == corrected
    assert execute(options(tmp_path / "another", "ort-cuda", measured="none")).report().corrected is None


def test_a_run_with_tensorrt_is_of_its_plan(tmp_path: Path, engine: list[BuildOptions]) -> None:
    how = BuildOptions(fp16=True, tf32=False)
    folder = execute(options(tmp_path / "run", "tensorrt-rtx", build=how))
    run = folder.report()
    check_closed(run)
    assert engine[0].backend == "tensorrt-rtx"
    assert engine[0].fp16
    assert not engine[0].tf32
    assert engine[0].shapes
    assert run.engine is not None
    assert "TensorRT-RTX" in run.engine.era
    assert run.coverage.unattributed == 0.0
    assert [mode.mode for mode in run.modes] == ["stream", "cuda graph"]
    assert (run.profiled.median_ns, run.profiled.n) == (1_250_000, 4)
    rows = {row.cause: row.ns for row in run.ledger}
    assert (rows["copies to the GPU"], rows["copies from the GPU"]) == (40_000, 20_000)
    assert run.ceilings.attainable.tensor_flops_per_s["fp32"] == run.ceilings.attainable.vector_flops_per_s["fp32"]
    kept = folder.read(run_folder.PLAN, PlanArtefact)
    assert folder.has(kept.layers_file)
    assert json.loads(folder.file(run_folder.REQUEST).read_bytes())["options"]["fp16"] == "True"


def test_an_engine_of_several_streams_is_built_once(tmp_path: Path, engine: list[BuildOptions]) -> None:
    execute(options(tmp_path / "run", "tensorrt"))
    assert [how.max_aux_streams for how in engine] == [None], "the recorded plan has two streams"


def test_a_range_of_shapes_is_built_and_run_at_its_optimum_and_the_engine_is_saved(
    tmp_path: Path, engine: list[BuildOptions]
) -> None:
    from trtprof.engine.tensorrt import ShapeRange

    (wide,) = (ShapeRange(min=(1, 3, 64, 64), opt=(2, 3, 64, 64), max=(8, 3, 64, 64)),)
    asked = options(
        tmp_path / "run", "tensorrt", build=BuildOptions(profiles=({"im*": wide},)),
        save_engine=str(tmp_path / "saved.engine"),
    )  # fmt: skip
    asked = msgspec.structs.replace(asked, model=ModelRequest.of(RESNET))
    folder = execute(asked)
    assert folder.report().model.inputs[0].shape == (2, 3, 64, 64)
    assert engine[0].profiles == ({"image": wide},)
    assert engine[0].shapes == {}
    kept = folder.read(run_folder.PLAN, PlanArtefact).engine
    assert (tmp_path / "saved.engine").read_bytes() == Path(kept).read_bytes()


def test_a_capture_that_failed_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise CaptureError("the GPU fell off the bus", why="it was not screwed in", fix="screw it in")

    monkeypatch.setattr(run_gpu, "capture_gpu", broken)
    with pytest.raises(CaptureError):
        execute(options(tmp_path / "run", "ort-cuda"))
    monkeypatch.undo()
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"gpu.json", "ceilings.json"}


@pytest.mark.parametrize(
    ("backend", "gpu", "said"),
    [
        ("ort-cpu", {"cold_l2": True}, "--cold-l2"),
        ("ort-cpu", {"device": 1}, "--device"),
        ("ort-cuda", {"build": BuildOptions(fp16=True)}, "--fp16"),
        ("ort-cuda", {"load_engine": "x.plan"}, "--loadEngine"),
        ("tensorrt", {"collector": "perf"}, "perf"),
    ],
)
def test_options_that_a_backend_has_no_use_for_are_refused(
    backend: str, gpu: dict[str, object], said: str, tmp_path: Path
) -> None:
    asked = msgspec.structs.replace(
        options(tmp_path / "run", backend),
        gpu=GpuOptions(**gpu),  # type: ignore[arg-type]
    )
    with pytest.raises(UsageError) as error:
        execute(asked)
    assert said in refused(error.value)
    assert not (tmp_path / "run").exists()


def test_children_see_the_chosen_gpu_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = msgspec.structs.replace(H100, index=1, uuid="GPU-2")
    monkeypatch.setattr(nvml, "gpus", lambda: ((H100, other), ""))
    seen: list[str | None] = []

    def look(*_: object, gpu: object, **__: object) -> None:
        seen.append(os.environ.get("CUDA_VISIBLE_DEVICES"))
        assert gpu == seen[-1]
        raise NO_CUDA

    monkeypatch.setattr(run_gpu, "capture_gpu", look)
    for number, (shown, device) in enumerate((("0", 1), ("1", None), ("GPU-2", None))):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        with pytest.raises(MissingError):
            execute(options(tmp_path / f"run{number}", "ort-cuda", device=device))
        assert os.environ["CUDA_VISIBLE_DEVICES"] == shown
    assert seen == ["GPU-2"] * 3


def test_auto_passes_over_a_library_that_is_not_made_for_this_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [backends.BackendStatus(name, name != "tensorrt", "") for name in ("tensorrt", "tensorrt-rtx", "ort-cuda")]
    monkeypatch.setattr(backends, "backends", lambda: here)
    chosen = choose_backend("auto")
    assert chosen.name == "ort-cuda"
    assert "tensorrt-rtx is passed over: it is documented for compute capability 7.5" in chosen.reason
    assert choose_backend("tensorrt-rtx").name == "tensorrt-rtx", "asked for by name, it is tried"
    ada = msgspec.structs.replace(H100, name="NVIDIA L4", compute_capability="8.9")
    monkeypatch.setattr(nvml, "gpus", lambda: ((ada,), ""))
    assert choose_backend("auto").name == "tensorrt-rtx"


def test_ceilings_that_are_measured_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured = msgspec.structs.replace(
        gpus.ceilings(nvml.spec_of(H100)[0]), origin="measured", measured_at="2026-01-01T00:00:00+00:00"
    )
    calls: list[int] = []

    def measure(index: int, **_: object) -> object:
        calls.append(index)
        return measured

    monkeypatch.setattr(run_gpu, "calibrate_gpu", measure)
    for name in ("one", "two"):
        run = execute(options(tmp_path / name, "ort-cuda")).report()
        assert run.ceilings.origin == "measured"
    assert calls == [0]


def test_under_nsys_the_first_inference_tells_how_the_clocks_stand() -> None:
    capture = msgspec.convert(
        {
            "collector": "nsys", "latency": LATENCY, "profiled": LATENCY, "warmup_iterations": 1, "threads": 1,
            "inputs": [], "clock_resolution_ns": 1, "iteration_range": ITERATION_RANGE, "under": {"latency": LATENCY},
            "clean": {"warmup_iterations": 1, "modes": [], "timed_by": "host clock", "copies": 1, "copy_bytes": 0},
        },
        GpuCapture,
    )  # fmt: skip
    events = pd.DataFrame({"layer": ["", "conv", ""], "start_ns": [500, 510, 900]})
    ranges = frame(RANGE_COLUMNS, 3, start_ns=[100, 7_000, 7_400], name=["other", ITERATION_RANGE, ITERATION_RANGE])
    trace = trace_of_nothing()._replace(ranges=ranges)
    assert gpu_analysis._guess_ns(trace, events, capture) == 6_500
    assert gpu_analysis._guess_ns(trace_of_nothing(), events, capture) is None
    assert gpu_analysis._guess_ns(trace, events, msgspec.structs.replace(capture, iteration_range=None)) is None
    told = msgspec.structs.replace(capture.under, clock_guess_ns=42)
    assert gpu_analysis._guess_ns(trace, events, msgspec.structs.replace(capture, under=told)) == 42


@pytest.mark.parametrize("backend", ["ort-cuda", "tensorrt-rtx"])
@pytest.mark.usefixtures("engine")
def test_a_run_is_judged_by_what_it_kept(backend: str, tmp_path: Path) -> None:
    """As one on a CPU is, see the tests of `diagnose.config`."""
    strict = THRESHOLDS._replace(min_share=0.0, efficiency=0.9)
    asked = msgspec.structs.replace(options(tmp_path / "run", backend), thresholds=strict)
    folder = RunFolder(execute(asked).path.rename(tmp_path / "elsewhere"))
    assert folder.read(run_folder.REQUEST, Request).options[KEPT] == '{"efficiency":0.9,"min-share":0.0}'
    run = folder.report()
    assert "the threshold efficiency is 0.9, by default 0.5" in run.assumptions
    assert render(analysed(folder), "json").encode() == folder.file(run_folder.REPORT).read_bytes()

    case = case_of(folder)
    assert case.thresholds == strict
    assert case.gpu
    for finding in run.findings:
        for name in finding.layers:
            assert finding in explain(case, finding.code, name).findings
