"""`trtprof plugin bench` without a GPU: engines, latencies and the profile are stand-ins."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pandas as pd
import pytest

from tests.fakes.kernel_tasks import matmul
from tests.fakes.seeming_gpu import H100
from tests.fakes.trying import gained
from trtprof.base import run_folder
from trtprof.base.errors import BuildError, CaptureError, MissingError
from trtprof.base.records import SCHEMA_VERSION, PluginBench, PluginBenches
from trtprof.base.run_folder import Request, RunFolder
from trtprof.capture.gpu_record import TensorrtRequest
from trtprof.capture.same_outputs import KindCheck
from trtprof.flows.plugin import bench as flow
from trtprof.hardware import nvml
from trtprof.plugin.folder import OfRun, PluginFolder, save
from trtprof.plugin.task import DOMAIN

MODEL = """<ir_version: 10, opset_import: ["": 24, "DOMAIN": 1]>
g (float[300,8] x, float[8,1] w) => (float[300,1] y) {
  p = Relu (x)
  q = DOMAIN.Gemv <plugin_version = "1"> (p, w)
  y = Relu (q)
}"""
CLOCK = SimpleNamespace(sm_clock_mhz=SimpleNamespace(min=2000, median=2500, max=2520), reasons={"power cap": 0.4})


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "plugin"
    folder.mkdir()
    onnx.save(onnx.parser.parse_model(MODEL.replace("DOMAIN", DOMAIN)), folder / "model.onnx")
    for name in ("kernel.py", "plugin.py"):
        (folder / name).touch()
    run_of = OfRun(folder="run-1", created="then", kernels_ns=3000, kernels=("old",), gpu=H100.name)
    task = matmul((300, 8), (8, 1), (300, 1), name="Gemv")
    save(folder, PluginFolder.of(task, entry="gemv", inserted="model.onnx", settings={"--fp16": "1"}, run=run_of))
    monkeypatch.setattr(nvml, "gpus", lambda: ((H100,), ""))

    def run(gain: float = 1.5, kernel: str = "gemv", wrong: str = "", refused: str = "") -> Any:
        built: list[Any] = []
        names = [kernel, "conv"]
        work = {"name": names, "short_name": names, "start_ns": 0, "end_ns": [5_000, 9_000], "kind": "kernel"}
        sampled = nullcontext(SimpleNamespace(summary=lambda: CLOCK, processes=lambda: 1))
        fields: dict[str, Any] = dict.fromkeys(TensorrtRequest.__struct_fields__, "")

        def build(loaded: Any, source: Any, how: Any, *_: object) -> Any:
            if refused:
                raise BuildError(refused, why="", fix="")
            built.append((how, [node.op_type for node in loaded.full(plugins=True).graph.node]))
            return SimpleNamespace(source=source, facts=SimpleNamespace(versions={"tensorrt": "10.16.1"}))

        def capture(request: TensorrtRequest, *_: object, **__: object) -> None:
            assert [one.kind for one in request.inputs] == ["uniform", "uniform"]
            if not kernel:
                raise CaptureError("nothing can record kernels", why="", fix="")

        for name, stand_in in {
            "side_of": lambda *given: SimpleNamespace(engine=TensorrtRequest(**{**fields, "inputs": given[3]})),
            "engine_of": build, "keep_original": lambda *_: None, "capture_gpu": capture,
            "load_trace": lambda _: SimpleNamespace(work=pd.DataFrame(work)),
            "check_variant": lambda *_, **__: (KindCheck(kind="zeros", matches=not wrong, note=wrong),),
            "measured": lambda *_: gained(gain), "clocks.sampling": lambda _: sampled,
            "nvml_session.sampler": lambda _: sampled,
        }.items():  # fmt: skip
            monkeypatch.setattr(f"{flow.__name__}.{name}", stand_in)
        return flow.bench(folder), built

    return run


def test_the_verdict_is_that_of_the_engine(measure: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for given, verdict, why in (
        ({}, "faster", "the engine with the plugin is 1.5x as fast (1.4"),
        ({"gain": 0.8}, "slower", "is 0.8x as fast"),
        ({"gain": 1.0}, "inconclusive", "the interval includes 1"),
        ({"kernel": "other"}, "inconclusive", "no kernel named gemv: TensorRT took the function"),
        ({"wrong": "off by 1"}, "incorrect", "zeros inputs: off by 1"),
        ({"refused": "no tactic"}, "inconclusive", "the engines were not timed: no tactic"),
    ):
        with subtests.test(why):
            found, _ = measure(**given)
            assert (found.verdict, why in found.why) == (verdict, True), found.why
            assert (found.engine is not None) == (not given or "gain" in given)
            assert RunFolder(tmp_path / "plugin").read(run_folder.BENCH, PluginBench) == found


def test_the_kernel_is_named_and_timed_beside_the_present_ones(measure: Any, tmp_path: Path) -> None:
    (run := RunFolder(tmp_path / "run-1")).path.mkdir()
    how = Request(schema_version=SCHEMA_VERSION, created="then", version="", model="", sha256="", options={})
    run.write(run_folder.REQUEST, how)
    found, _ = measure()
    assert run.read(run_folder.BENCH, PluginBenches).benches == (found,)
    assert {one.what: one.median_ns for one in found.kernel} == {"old (in the run)": 3000, "gemv": 5000}
    assert [doubt.split()[0] for doubt in found.doubts] == ["the", "power", "1"]
    found, _ = measure(kernel="")
    assert (found.verdict, found.kernel, found.doubts[0][:16]) == ("faster", (), "no profile names")


def test_both_engines_are_of_one_model_and_one_has_the_plugin(measure: Any, tmp_path: Path) -> None:
    _, ((plain, before), (own, after)) = measure()
    assert (plain.static_plugins, own.static_plugins) == ((), (str(tmp_path / "plugin" / "plugin.py"),))
    assert (plain.timing_cache == own.timing_cache != "", plain.fp16, own.fp16) == (True, True, True)
    assert (before, after) == (["Relu", "MatMul", "Relu"], ["Relu", "Gemv", "Relu"])


def test_without_a_gpu_it_is_refused_in_a_sentence(measure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: ((), "no NVIDIA driver is installed"))
    with pytest.raises(MissingError, match="measuring Gemv needs an NVIDIA GPU") as caught:
        measure()
    assert caught.value.exit_code == 3
