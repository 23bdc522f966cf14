"""`trtprof plugin bench` on a GPU that only seems to be here: kernels are executed in numpy, engines are from a log."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.fakes.benched import CRASHES, DEPTH, NAN, RIGHT, ROWS, UNWRITTEN, Made, entry, work, written
from tests.fakes.seeming_device import ADA, SeemingDevice, SeemingProducts
from tests.fakes.seeming_gpu import seem
from tests.fakes.support import ROOT
from tests.fakes.trying import gained
from trtprof.analysis.plan import price_plan
from trtprof.base import run_folder
from trtprof.base.errors import BuildError, MissingError, TrtprofError
from trtprof.base.records import (
    SCHEMA_VERSION,
    ClockSummary,
    EngineFacts,
    LiveGpu,
    PluginBench,
    PluginBenches,
    Spread,
    TensorCheck,
    Unsure,
)
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.scratch import PART
from trtprof.capture import clocks
from trtprof.capture.same_outputs import KindCheck, Original
from trtprof.capture.turns import Variant as Side
from trtprof.compare.turns import TurnsChange
from trtprof.engine.inspector import parse_layer_info
from trtprof.engine.tensorrt import BuildOptions, BuiltEngine
from trtprof.flows.build import EngineBuild
from trtprof.flows.plugin import bench as flow
from trtprof.flows.plugin.bench import WITH, WITHOUT, BenchOptions, Needed, bench, needed, rival_of
from trtprof.hardware import gpus, nvml
from trtprof.plugin import alone_worker, sizes
from trtprof.plugin.alone import Alone, AloneRequest
from trtprof.plugin.folder import OfRun
from trtprof.runtime import cublas
from trtprof.source.load import LoadedModel

PLAN = (ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log").read_text()
RTX_4090 = LiveGpu(
    index=0, uuid=f"GPU-{ADA.uuid}", name=ADA.name, compute_capability="8.9", sms=128, memory_bytes=25_757_220_864,
    l2_bytes=75_497_472, bus_bits=384, max_sm_clock_mhz=3105, max_memory_clock_mhz=10501, driver="580.0",
)  # fmt: skip
STEADY = ClockSummary(samples=9, duration_ns=1, sm_clock_mhz=Spread(min=2520, median=2520, max=2535), reasons={})


class Bench(NamedTuple):
    """What may be said of the stand-ins before a bench, and what they were asked.

    Attributes:
        run: Measures the folder.
        built: Options and graph of each engine.
        sides: What took turns.
    """

    run: Callable[..., PluginBench]
    built: list[tuple[BuildOptions, onnx.ModelProto]]
    sides: list[Side]


@pytest.fixture
def on_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    seem(monkeypatch, tmp_path, RTX_4090, ("tensorrt", "ort-cpu"))
    monkeypatch.setattr(alone_worker, "LEAST_FLUSHED", 1 << 16)
    monkeypatch.setattr(alone_worker, "RAMP", 50)
    monkeypatch.setattr(cublas, "WORKSPACE", 1 << 16)
    built: list[tuple[BuildOptions, onnx.ModelProto]] = []
    sides: list[Side] = []

    def run(
        variants: Sequence[Made] = (RIGHT,),
        *,
        ns: float = 1000.0,
        rival_ns: float = 2000.0,
        gain: float | TrtprofError = 1.5,
        before: str = PLAN,
        plan: str = PLAN.replace("LayerType: kgen", "LayerType: PluginV3", 1),
        checks: Sequence[KindCheck] = (KindCheck(kind="zeros", matches=True),),
        clock: ClockSummary = STEADY,
        others: int = 0,
        options: BenchOptions = BenchOptions(),  # noqa: B008 - is never changed
        refuses: TrtprofError | None = None,
        spoils: Callable[[AloneRequest, SeemingDevice], None] = lambda *_: None,
        **more: Any,
    ) -> PluginBench:
        written(tmp_path / "plugin", variants, **more)

        def single(request: AloneRequest, environment: Mapping[str, str]) -> Alone:
            assert environment == {"CUDA_VISIBLE_DEVICES": RTX_4090.uuid}
            gpu = SeemingDevice({entry(tactic): ns * tactic for tactic in range(1, len(variants) + 1)})
            spoils(request, gpu)
            return alone_worker.measure(request, gpu, b"\x7fELF", lambda _: SeemingProducts(gpu, rival_ns))

        def build(loaded: LoadedModel, source: Any, how: BuildOptions, *_: object) -> EngineBuild:
            if how.static_plugins and refuses is not None:
                raise refuses
            beside = (tmp_path / "plugin").glob(".*")
            assert all(path.name.startswith(PART) for path in beside), "a kill would leave it for good"
            built.append((how, onnx.ModelProto.FromString(loaded.full(plugins=True).SerializeToString())))
            text = plan if how.static_plugins else before
            file = tmp_path / f"{len(built)}.plan"
            file.write_bytes(b"plan")
            facts = EngineFacts(backend="tensorrt", versions={"tensorrt": "10.16.1"}, build_ns=10**9)
            made = BuiltEngine(
                plan=file, plan_text=text, layer_info="", backend="tensorrt", versions=facts.versions, precision=None,
                build_ns=10**9, network_layers=3, warnings=(),
            )  # fmt: skip
            return EngineBuild(price_plan(parse_layer_info(text, file), source, facts), made, source, text, facts)

        def turns(before: Side, after: Side, _: float) -> TurnsChange:
            sides.extend([before, after])
            if isinstance(gain, TrtprofError):
                raise gain
            return gained(gain)

        @contextlib.contextmanager
        def sampling(*_: object) -> Iterator[Any]:
            yield types.SimpleNamespace(summary=lambda *_: clock)

        monkeypatch.setattr(flow, "measure_alone", single)
        monkeypatch.setattr(flow, "engine_of", build)
        monkeypatch.setattr(flow, "keep_original", Original)
        monkeypatch.setattr(flow, "check_variant", lambda *_, **__: tuple(checks))
        monkeypatch.setattr(flow, "measured", turns)
        monkeypatch.setattr(clocks, "sampling", sampling)
        monkeypatch.setattr(flow, "_others", lambda _: others)
        return bench(tmp_path / "plugin", options=options)

    return Bench(run, built, sides)


# --- verdicts --------------------------------------------------------------------------------


def test_a_plugin_that_wins_alone_and_in_the_engine_is_faster(on_gpu: Bench, tmp_path: Path) -> None:
    found = on_gpu.run()
    assert found.verdict == "faster"
    assert found.why.startswith("the engine is 1.5 times as fast with it (1.4")
    assert found.kernel is not None
    rival, own = found.kernel
    assert own == found.alone
    assert (own.median_ns, own.n) == (1000, 156)
    assert (rival.median_ns, rival.n) == (2000, 156)
    assert rival.what.startswith("cuBLASLt 13.1.0")
    assert found.worst is not None
    assert 0 < found.worst <= 1
    assert found.kernel_gain is not None
    assert found.kernel_gain.value == pytest.approx(2.0)
    assert found.kernel_gain.low < 2.0 < found.kernel_gain.high
    assert found.engine_gain is not None
    assert found.engine_gain.value == pytest.approx(1.5, rel=0.01)
    assert found.engine is not None
    assert [side.what for side in found.engine] == [WITHOUT, WITH]
    assert [check.ok for check in found.checks] == [True, True]
    assert (found.gpu, found.layer, found.tactic) == (ADA.name, "product", 1)
    assert found.clocks_mhz == (2520, 2520, 2535)
    # No ceilings could be measured there; nothing else is to be doubted.
    assert found.doubts == ("no ceilings were measured here: shares of the bandwidth are of the datasheet's",)
    assert RunFolder(tmp_path / "plugin").read(run_folder.BENCH, PluginBench) == found


def test_share_of_the_bandwidth_and_score_are_those_of_their_formulas(on_gpu: Bench) -> None:
    found = on_gpu.run()
    spec, _ = nvml.spec_of(RTX_4090)
    ceilings = gpus.ceilings(spec)
    read = 4 * (ROWS * DEPTH + DEPTH)
    light = Needed(read, 4 * ROWS, work()).light_ns(ceilings)
    assert light == pytest.approx(read / ceilings.best.dram_bytes_per_s * 1e9)
    assert found.sol_ns == round(light)
    assert found.bandwidth == pytest.approx((read + 4 * ROWS) / 1e-6 / ceilings.attainable.dram_bytes_per_s)
    assert found.score == pytest.approx(1 / (1 + (1000 - light) / (2000 - light)))


def test_what_a_kernel_must_do_is_what_its_own_operands_are(tmp_path: Path) -> None:
    given = written(tmp_path)
    read, own = 4 * (ROWS * DEPTH + DEPTH), 4 * ROWS
    assert needed(given, 1) == Needed(read, own, work())
    # The layer of the run did more than the kernel does: its arithmetic says nothing of that.
    layer = msgspec.structs.replace(given, work=msgspec.structs.replace(work(), bytes_read=10**9))
    assert needed(layer, 1) == Needed(read, own, None)
    nothing = msgspec.structs.replace(given, work=None)
    assert needed(nothing, 1) == Needed(read, own, None)
    # A kernel that says it reads less, as of a table, and data that may spare even that.
    (files,) = given.kernels
    reads = {"a": sizes.number(100), "x": sizes.number(10**9)}
    fewer = msgspec.structs.replace(files, kernel=dataclasses.replace(files.kernel, reads=reads))
    table = msgspec.structs.replace(given, kernels=(fewer,), work=None)
    assert needed(table, 1) == Needed(100 + 4 * DEPTH, own, None)
    spared = msgspec.structs.replace(work(), unsure=Unsure(bytes=50))
    assert needed(msgspec.structs.replace(table, work=spared), 1).read == 50 + 4 * DEPTH


def test_a_plugin_that_wins_alone_and_loses_in_the_engine_is_slower(on_gpu: Bench) -> None:
    found = on_gpu.run(gain=0.8)
    assert found.kernel_gain is not None
    assert found.kernel_gain.low > 1
    assert found.verdict == "slower"
    assert "the engine takes 1.25 times as long with it, though alone it is 2 times as fast" in found.why
    assert found.why.endswith("what it cuts costs more than it wins")


def test_a_difference_that_chance_makes_is_inconclusive(on_gpu: Bench) -> None:
    found = on_gpu.run(gain=1.0)
    assert found.verdict == "inconclusive"
    assert found.why.startswith("no difference shows: the engine is 1 times as fast with it")


@pytest.mark.parametrize(
    ("made", "reason"),
    [(NAN, "are NaN"), (UNWRITTEN, "are not written"), (CRASHES, "it crashed")],
    ids=["NaN", "unwritten", "crash"],
)
def test_a_wrong_kernel_is_incorrect_however_fast_and_no_engine_is_built(
    made: Made, reason: str, on_gpu: Bench
) -> None:
    found = on_gpu.run((RIGHT, made))
    assert found.verdict == "incorrect"
    assert found.why.startswith("variant 2: ")
    assert reason in found.why
    assert (found.alone, found.kernel, found.kernel_gain, found.score, found.bandwidth, found.engine) == (None,) * 6
    assert found.tactic == 0
    assert [check.ok for check in found.checks] == [True, False]
    assert on_gpu.built == []


def test_an_engine_that_makes_other_outputs_is_incorrect(on_gpu: Bench) -> None:
    worst = TensorCheck(
        name="y", dtype="fp32", max_abs=1.0, max_rel=1.0, tolerance=2.0, matches=False, reason="off by 1",
    )  # fmt: skip
    found = on_gpu.run(checks=(KindCheck(kind="extremes", matches=False, worst=worst),))
    assert found.verdict == "incorrect"
    assert found.why == f"the engine with it makes other outputs: {WITH}, extremes inputs: off by 1"
    assert on_gpu.sides == []


def test_a_kernel_above_the_roof_is_never_a_win(on_gpu: Bench) -> None:
    found = on_gpu.run(ns=5.0)
    assert found.verdict == "incorrect"
    assert "no correct kernel can take less than" in found.why
    assert found.gpu == ADA.name


def test_a_clock_that_moved_by_more_than_what_is_won_leaves_it_open(on_gpu: Bench) -> None:
    moved = msgspec.structs.replace(
        STEADY, sm_clock_mhz=Spread(min=2000, median=2500, max=2520), reasons={"power cap": 0.4, "idle": 0.2}
    )
    found = on_gpu.run(gain=1.1, clock=moved)
    assert found.verdict == "inconclusive"
    assert "but the clock moved by 26.0 % while the kernel was timed alone, which is more" in found.why
    assert found.doubts[0] == "the clock moved between 2000 and 2520 MHz while the kernel was timed"
    assert "the clock was held down by power cap (40.0 % of the time)" in found.doubts
    assert not any("idle" in doubt for doubt in found.doubts)
    assert on_gpu.run(gain=1.5, clock=moved).verdict == "faster"


# --- engines ---------------------------------------------------------------------------------


def test_both_engines_are_of_one_model_and_the_plugin_is_in_one_of_them(on_gpu: Bench, tmp_path: Path) -> None:
    on_gpu.run(settings={"--fp16": "1", "--cuda-graph": "1"})
    (plain, before), (own, after) = on_gpu.built
    assert plain.static_plugins == ()
    assert own.static_plugins == (str(tmp_path / "plugin" / "small_gemv.py"),)
    assert plain.fp16
    assert own.fp16
    assert plain.timing_cache == own.timing_cache != ""
    assert [node.op_type for node in before.graph.node] == ["Relu", "MatMul", "Relu"]
    assert [node.op_type for node in after.graph.node] == ["Relu", "SmallGemv", "Relu"]
    feeds = {"a": np.ones((ROWS, DEPTH), np.float32), "x": np.full((DEPTH, 1), 2.0, np.float32)}
    (one,), (other,) = (ReferenceEvaluator(model).run(None, feeds) for model in (before, after))
    np.testing.assert_array_equal(one, other)
    assert not list((tmp_path / "plugin").glob(".*"))
    assert [side.name for side in on_gpu.sides] == [WITHOUT, WITH]
    assert all(side.cuda_graph for side in on_gpu.sides)
    engines = [side.engine for side in on_gpu.sides]
    assert [engine and engine.plugins for engine in engines] == [(), own.static_plugins]


def test_a_model_without_the_function_gets_its_nodes_back(on_gpu: Bench, tmp_path: Path) -> None:
    written(tmp_path / "plugin")
    model = onnx.load(tmp_path / "plugin" / "model.plugin.onnx")
    del model.functions[:]
    onnx.save(model, tmp_path / "plugin" / "bare.onnx")
    found = on_gpu.run(inserted="bare.onnx", plan=PLAN)
    assert [node.op_type for node in on_gpu.built[0][1].graph.node] == ["Relu", "MatMul", "Relu"]
    # Whatever its layers are called: there is nothing else that TensorRT could have built of its node.
    assert found.verdict == "faster"


@pytest.mark.parametrize(
    "error",
    [
        BuildError("TensorRT cannot build it", why="no tactic is left", fix=""),
        MissingError("TensorRT is not installed", why="no module named tensorrt", fix=""),
    ],
)
def test_without_an_engine_there_is_no_verdict_whatever_the_kernel_does_alone(
    error: TrtprofError, on_gpu: Bench
) -> None:
    found = on_gpu.run(refuses=error)
    assert found.verdict == "inconclusive"
    assert f"the engine was not measured: {error.what}: {error.why}; alone it is 2 times as fast" in found.why
    assert found.kernel_gain is not None
    assert found.engine is None


# --- what is not here ------------------------------------------------------------------------


def test_without_a_gpu_nothing_is_measured_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    monkeypatch.setattr(nvml, "gpus", lambda: ((), "no NVIDIA driver is installed here"))
    with pytest.raises(MissingError, match="there is no NVIDIA GPU to measure SmallGemv on") as caught:
        bench(tmp_path)
    assert caught.value.exit_code == 3
    assert caught.value.why == "no NVIDIA driver is installed here"
    assert "no GPU has run this kernel" in caught.value.fix
    assert not (tmp_path / run_folder.BENCH).exists()


def test_a_driver_that_is_too_old_leaves_no_record(on_gpu: Bench, tmp_path: Path) -> None:
    def spoils(_: AloneRequest, gpu: SeemingDevice) -> None:
        gpu.newest = (7, 0)

    with pytest.raises(MissingError, match="the NVIDIA driver is too old for") as caught:
        on_gpu.run(spoils=spoils)
    assert caught.value.exit_code == 3
    assert not (tmp_path / "plugin" / run_folder.BENCH).exists()


def test_a_kernel_that_is_no_product_has_the_time_of_the_run_as_its_rival(on_gpu: Bench) -> None:
    plain = msgspec.structs.replace(work(), core=None)
    run = OfRun(folder="gone", created="then", kernels_ns=3000, kernels=("old_kernel",), gpu=ADA.name)
    found = on_gpu.run(work=plain, run=run)
    assert found.kernel is not None
    rival, _ = found.kernel
    assert (rival.median_ns, rival.n) == (3000, 0)
    assert "old_kernel" in rival.what
    assert found.kernel_gain is None
    assert "the present kernels took no turns with it: their time is that of the run" in found.doubts
    elsewhere = msgspec.structs.replace(run, gpu="NVIDIA L4")
    found = on_gpu.run(work=plain, run=elsewhere)
    assert found.kernel is None
    assert found.alone is not None
    assert found.score is None
    assert any("the brief is of a run on NVIDIA L4" in doubt for doubt in found.doubts)


def test_a_library_gets_products_as_few_large_ones(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for left, right, products in (
        ((600, 200, 8, 1, 64), (600, 1, 8, 64, 1), (4800, 200, 1, 64)),
        ((16, 3, 8), (8, 5), (1, 48, 5, 8)),
        ((3, 8), (16, 8, 5), (1, 3, 80, 8)),
        ((16, 3, 8), (16, 8, 5), (16, 3, 5, 8)),
        ((8,), (4, 8, 5), (1, 1, 20, 8)),
        ((4, 3, 8), (8,), (1, 12, 1, 8)),
    ):
        with subtests.test(f"{left}"):
            given = written(tmp_path)
            a, x = given.inputs
            shaped = dataclasses.replace(a, dims=left), dataclasses.replace(x, dims=right)
            found = rival_of(msgspec.structs.replace(given, inputs=shaped))
            assert found is not None
            assert (found.batch, found.m, found.n, found.k) == products
            # As much as numpy does.
            shape = np.matmul(np.zeros(left), np.zeros(right)).shape
            assert math.prod(shape) == math.prod(products[:3])


# --- the record ------------------------------------------------------------------------------


def test_it_is_kept_beside_the_run_that_the_brief_is_of(on_gpu: Bench, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "gemv-1")
    run.path.mkdir()
    request = Request(schema_version=SCHEMA_VERSION, created="then", version="", model="", sha256="", options={})
    run.write(run_folder.REQUEST, request)
    of_run = OfRun(folder="gemv-1", created="then")
    first = on_gpu.run(run=of_run)
    second = on_gpu.run(run=of_run, gain=0.8)
    kept = run.read(run_folder.BENCH, PluginBenches).benches
    assert kept == (second,)
    assert first.verdict != second.verdict
    other = PluginBench(schema_version=SCHEMA_VERSION, name="Another", gpu="", created="", verdict="faster", why="")
    run.write(run_folder.BENCH, PluginBenches(schema_version=SCHEMA_VERSION, benches=(other,)))
    third = on_gpu.run(run=of_run)
    assert run.read(run_folder.BENCH, PluginBenches).benches == (other, third)
