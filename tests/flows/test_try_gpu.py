"""`trtprof try` on a GPU that only seems to be here.

Engines of TensorRT-RTX are built for real, which needs no GPU; those of other versions are read from a recorded build.
What runs is made up: the run of the original by `tests.fakes.stub_gpu_worker`, outputs and turns here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.fakes.in_process import call_telling
from tests.fakes.seeming_gpu import H100, seem
from tests.fakes.support import ROOT, SAMPLES
from tests.fakes.trying import GEMV, gained, model_of, row
from trtprof.analysis.plan import price_plan
from trtprof.base import run_folder
from trtprof.base.errors import BuildError
from trtprof.base.records import EngineFacts, Tried
from trtprof.base.run_folder import RunFolder
from trtprof.capture.gpu_record import PlanArtefact
from trtprof.capture.same_outputs import KindCheck, Original
from trtprof.capture.turns import Variant as Side
from trtprof.compare.turns import TurnsChange
from trtprof.engine.inspector import parse_layer_info
from trtprof.engine.tensorrt import BuildOptions, BuiltEngine
from trtprof.flows import run_gpu
from trtprof.flows.build import EngineBuild
from trtprof.flows.options import GpuOptions, RunOptions, changed_options, typed_flags, with_flags
from trtprof.flows.try_ import on_tensorrt, search, try_model
from trtprof.flows.try_.options import TryOptions
from trtprof.runtime import child
from trtprof.source.load import LoadedModel
from trtprof.source.request import ModelRequest

PLAN = (ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log").read_text()
L4 = msgspec.structs.replace(H100, name="NVIDIA L4", compute_capability="8.9")
needs_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None, reason="the package tensorrt_rtx is not installed"
)
Gains = dict[str, float | BaseException]


class Seen(NamedTuple):
    """What was asked of the stand-ins: who took turns, and how outputs were compared."""

    turns: list[tuple[Side, Side]]
    checks: list[tuple[Side, bool, str]]


class Trial(NamedTuple):
    found: Tried
    seen: Seen


Try = Callable[..., Trial]


@pytest.fixture
def on_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Try:
    """Tries a model with a backend; each variant is as fast as the gains say, by a part of its name."""
    started = child.run_telling
    seem(monkeypatch, tmp_path, L4, ("tensorrt", "tensorrt-rtx", "ort-cuda", "ort-cpu"))

    def call(command: Sequence[str], *given: Any) -> int:
        build = "trtprof.engine._trt_build" in command
        return started(command, *given) if build else call_telling(command, *given)

    monkeypatch.setattr(child, "run_telling", call)

    def run(model: Path, backend: str, gains: Gains | None = None, *, gpu: GpuOptions | None = None, **options: Any):  # type: ignore[no-untyped-def]
        seen = Seen([], [])

        def measured(before: Side, after: Side, *_: Any, **__: Any) -> TurnsChange:
            seen.turns.append((before, after))
            ratio = 1.0
            for part, gain in (gains or {}).items():
                if part in after.name and isinstance(gain, BaseException):
                    raise gain
                ratio *= gain if part in after.name and part not in before.name else 1.0  # type: ignore[operator]
            return gained(ratio)

        def check(_: Original, side: Side, __: Path, *, tf32: bool, precision: str) -> tuple[KindCheck, ...]:
            seen.checks.append((side, tf32, precision))
            return (KindCheck(kind="zeros", matches=True),)

        monkeypatch.setattr(search, "measured", measured)
        monkeypatch.setattr(search, "AGREE", float("inf"))  # Times of turns are made up, those of the run are not
        monkeypatch.setattr(search, "keep_original", Original)
        monkeypatch.setattr(search, "check_variant", check)
        run_options = RunOptions(
            model=ModelRequest.of(model), backend=backend, iterations=3, warmup_ms=0, duration_s=0,
            profile_iterations=2, output=str(tmp_path / "runs"),
            gpu=gpu or GpuOptions(collector="cupti"),
        )  # fmt: skip
        return Trial(try_model(TryOptions(run=run_options, **options)), seen)

    return run


# --- TensorRT-RTX, built for real ----------------------------------------------------------------


@pytest.mark.process
@needs_rtx
def test_rewrites_and_options_are_built_priced_and_combined_by_tensorrt_rtx(tmp_path: Path, on_gpu: Try) -> None:
    model = model_of(GEMV, tmp_path)
    found, seen = on_gpu(
        model, "tensorrt-rtx", {"gemv-as-reduce": 4.0, "cuda-graph": 1.5},
        rungs=("gemv-as-reduce", "cuda-graph", "fp16"),
    )  # fmt: skip
    assert (found.backend.name, found.device.name, found.threads) == ("tensorrt-rtx", L4.name, 0)
    reduced = row(found, "gemv-as-reduce")
    assert (reduced.verdict, reduced.nodes) == ("helps", ("MatMul_0",))
    assert reduced.predicted is not None, "its plan tells its layers, though nothing ran"
    assert row(found, "fp16").verdict == "no difference"
    graph = row(found, "cuda-graph")
    assert graph.predicted == pytest.approx(2.0, rel=0.1), "the run of the original has measured it"
    assert "in its own run" in graph.basis
    assert found.best is not None
    assert found.best.rungs == ("gemv-as-reduce", "cuda-graph")
    assert found.best.command.endswith("best.onnx --backend tensorrt-rtx --collector=cupti --cuda-graph")
    ran = RunFolder(Path(found.best.folder)).read(run_folder.PLAN, PlanArtefact)
    assert ran.engine == getattr(seen.turns[-1][1].engine, "engine", None), "the one that was measured, not another"
    engines = {after.name: after.engine.engine for _, after in seen.turns if after.engine is not None}
    originals = {before.engine.engine for before, _ in seen.turns if before.engine and before.name == "the original"}
    assert originals == {engines["cuda-graph"]}, "what captures it changes nothing in it"
    kept = RunFolder(Path(found.folder)).read(run_folder.PLAN, PlanArtefact)
    assert originals == {kept.engine}, "that of the run of the original"
    assert engines["gemv-as-reduce"] == engines["gemv-as-reduce+cuda-graph"] != engines["cuda-graph"]
    assert all(Path(engine).is_file() for engine in engines.values())
    assert all(after.cuda_graph == ("cuda-graph" in after.name) for _, after in seen.turns)


# --- TensorRT, from a recorded build -------------------------------------------------------------


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BuildOptions]:
    """TensorRT 10 that builds nothing: plans are from a log, which is another one from `builder-level-5` on."""
    return recorded(monkeypatch, tmp_path, "10.16.1")


def recorded(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str) -> list[BuildOptions]:
    asked: list[BuildOptions] = []

    def build(_: LoadedModel, source: Any, how: BuildOptions, *__: object, **___: object) -> EngineBuild:
        asked.append(how)
        if how.tactic_sources:
            raise BuildError("TensorRT cannot build it", why="no kernel is left", fix="another version")
        plan = folder / f"model{len(asked)}.plan"
        plan.write_bytes(b"plan")
        facts = EngineFacts(backend=how.backend, versions={how.backend: version}, build_ns=10**9)
        text = PLAN.replace("StreamId: 1", "StreamId: 0") if how.max_aux_streams == 0 else PLAN
        text = text.replace("Half", "Float") if not how.fp16 else text
        built = BuiltEngine(
            plan=plan, plan_text=text, layer_info="", backend=how.backend, versions=facts.versions, precision=None,
            build_ns=10**9, network_layers=30, warnings=(),
        )  # fmt: skip
        return EngineBuild(price_plan(parse_layer_info(text, plan), source, facts), built, source, text, facts)

    monkeypatch.setattr(run_gpu, "engine_of", build)
    monkeypatch.setattr(on_tensorrt, "engine_of", build)
    return asked


def test_options_of_the_builder_are_rungs_and_what_fails_is_a_row(builds: list[BuildOptions], on_gpu: Try) -> None:
    found, seen = on_gpu(
        SAMPLES / "resnet_tiny.onnx", "tensorrt", {"fp16": 2.0, "builder-level-5": 1.2, "aux-streams-4": 0.8},
        kinds=frozenset({"option"}),
    )  # fmt: skip
    verdicts = {rung.name: rung.verdict for rung in found.rungs}
    assert verdicts["fp16"] == verdicts["builder-level-5"] == "helps"
    assert verdicts["tactics-of-libraries"] == "failed"
    assert "no kernel is left" in row(found, "tactics-of-libraries").reason
    assert found.best is not None
    assert set(found.best.rungs) >= {"fp16", "builder-level-5"}
    assert "--fp16" in found.best.command
    assert "--builderOptimizationLevel=5" in found.best.command
    caches = {how.timing_cache for how in builds}
    assert len(caches) == 1, "all builds share one"
    assert caches.pop().endswith(on_tensorrt.TIMING_CACHE)
    precisions = {side.name: (tf32, precision) for side, tf32, precision in seen.checks}
    assert precisions["fp16"] == (True, "fp16")
    assert precisions["builder-level-5"] == (True, "")
    assert "fp16" in precisions["fp16+builder-level-5"][1]


@pytest.mark.parametrize(
    ("backend", "version", "refused"),
    [
        ("tensorrt", "8.6.1", {"bf16": "10.0 to 10.16", "route-cuda-tile": "11.1", "int8": "QuantizeLinear"}),
        ("tensorrt", "10.16.1", {"route-cuda-tile": "11.1", "timing-cache": "share one"}),
        ("tensorrt", "11.4.0", {"bf16": "takes all types", "tactics-of-libraries": "8.6 to 10.16"}),
        ("tensorrt-rtx", "1.7.1", {"bf16": "takes all types", "route-cuda-tile": "lists no build routes"}),
    ],
)
def test_what_a_version_has_not_is_refused_with_the_reason(
    backend: str, version: str, refused: dict[str, str], on_gpu: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch, tmp_path, version)
    found, _ = on_gpu(SAMPLES / "resnet_tiny.onnx", backend, kinds=frozenset({"option"}), dry_run=True)
    rows = {rung.name: (rung.verdict, rung.reason) for rung in found.rungs}
    had = {name for name, (verdict, _) in rows.items() if verdict != "refused"}
    assert not had & set(refused)
    for name, reason in refused.items():
        assert reason in rows[name][1], name
    assert ("tactics-of-libraries" in had) == (backend == "tensorrt" and not version.startswith("11"))
    assert ("route-cuda-tile" in had) == version.startswith("11")
    assert {"fp16", "builder-level-5", "no-tf32", "cuda-graph"} <= had


def test_settings_are_options_and_flags() -> None:
    settings = {"--fp16": "1", "--noTF32": "1", "--maxAuxStreams": "0", "--setBuildRoute": "-a=b", "--cuda-graph": "1"}
    made = with_flags(GpuOptions(), settings)
    assert made.build == BuildOptions(fp16=True, tf32=False, max_aux_streams=0, build_route="-a=b")
    assert made.cuda_graph is True
    assert set(changed_options(made)) == set(settings)
    assert set(typed_flags(made)) == {
        "--fp16", "--noTF32", "--maxAuxStreams=0", "--setBuildRoute=-a=b", "--cuda-graph",
    }  # fmt: skip
    assert with_flags(made, {"--noTF32": "0"}).build.tf32


# --- ONNX Runtime with CUDA ----------------------------------------------------------------------


def test_options_of_the_cuda_provider_are_rungs(tmp_path: Path, on_gpu: Try) -> None:
    found, seen = on_gpu(
        SAMPLES / "resnet_tiny.onnx", "ort-cuda", {"channels-last": 1.5},
        kinds=frozenset({"option"}), skip=("graph-basic",),
    )  # fmt: skip
    rows = {rung.name: rung.verdict for rung in found.rungs}
    assert rows["channels-last"] == "helps"
    assert {"cudnn-heuristic", "cudnn-default", "graph-extended", "no-tf32"} <= set(rows)
    assert found.best is not None
    assert "--backend ort-cuda" in found.best.command
    assert "--sessionOption cuda.prefer_nhwc=1" in found.best.command
    assert all(tf32 for _, tf32, _ in seen.checks), "the original may use it"
