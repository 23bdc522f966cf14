"""`trtprof try`: what is made, checked, measured and combined. Times are made up: no test depends on the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.fakes.in_process import quick
from tests.fakes.support import SAMPLES
from tests.fakes.trying import GEMV, gained, model_of, row
from trtprof.base import run_folder
from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.records import Backend, Latency, Tried
from trtprof.base.run_folder import Request, RunFolder
from trtprof.capture.turns import Pair, Samples, Variant
from trtprof.compare import compare
from trtprof.compare.turns import TurnsChange, judged
from trtprof.flows import try_
from trtprof.flows.options import RunOptions
from trtprof.flows.report import analysed, tries
from trtprof.flows.run import execute
from trtprof.flows.try_ import measure, search, try_model
from trtprof.flows.try_.options import Candidate, TryOptions
from trtprof.flows.try_.variants import graph_digest
from trtprof.hardware import gpus
from trtprof.report import render
from trtprof.rewrite import REWRITES, Rewrite
from trtprof.rewrite.edit import Edit
from trtprof.runtime.session_tuning import SessionTuning
from trtprof.source.request import ModelRequest

Made = Callable[..., Tried]


@pytest.fixture
def try_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Tries a model in which each variant is as fast as the gains say, by a part of its name; others change nothing."""

    def run(path: Path, gains: dict[str, float | BaseException], **options: Any) -> Tried:
        def measured(before: Variant, after: Variant, *_: Any, **__: Any) -> TurnsChange:
            ratio = 1.0
            for part, gain in gains.items():
                if part not in after.name:
                    continue
                if isinstance(gain, BaseException):
                    raise gain
                ratio *= gain if part not in before.name else 1.0
            return gained(ratio)

        quick(monkeypatch)
        monkeypatch.setattr(search, "measured", measured)
        monkeypatch.setattr(search, "AGREE", np.inf)  # Times of turns are made up, those of the run are not
        run_options = RunOptions(
            model=ModelRequest.of(path, options.pop("shapes", ())), backend="ort-cpu",
            threads=2, iterations=1, warmup_ms=0, duration_s=0,
            profile_iterations=1, output=str(tmp_path / "runs"),
        )  # fmt: skip
        return try_model(TryOptions(run=run_options, **options))

    return run


@pytest.fixture
def only_rewrites() -> dict[str, Any]:
    return {"kinds": frozenset({"rewrite"}), "rungs": ("gemv-as-reduce",)}


def test_the_story_is_found_measured_and_written(tmp_path: Path, try_it: Made, only_rewrites: dict[str, Any]) -> None:
    path, best = model_of(GEMV, tmp_path), tmp_path / "best.onnx"
    found = try_it(path, {"gemv-as-reduce": 7.0}, model=str(best), **only_rewrites)
    rung = row(found, "gemv-as-reduce")
    assert (rung.verdict, rung.nodes, rung.added) == ("helps", ("MatMul_0",), 3)
    assert rung.gain is not None
    assert rung.gain.low < 7.0 < rung.gain.high
    assert {check.inputs for check in rung.checks} >= {"zeros"}
    assert rung.difference is not None
    assert rung.difference <= 1
    assert found.best is not None
    assert found.best.rungs == ("gemv-as-reduce",)
    assert [node.op_type for node in onnx.load(best).graph.node] == ["Transpose", "Mul", "ReduceSum"]
    assert any(line.startswith("- ") and "MatMul" in line for line in found.best.patch)
    # The original's report says what was tried, from what lies beside it alone, and the same each time.
    folder = RunFolder(Path(found.folder))
    kept = folder.report()
    assert folder.read(run_folder.TRIED, Tried) == found
    told = {one.name: one.verdict for finding in kept.findings for one in finding.tried}
    assert told in ({}, {"gemv-as-reduce": "helps"})  # A busy machine may find nothing that the rung answers.
    assert render(analysed(folder), "json") == folder.file(run_folder.REPORT).read_text()
    # Both runs are there to be compared.
    (one,) = compare([[Path(found.folder)], [Path(found.best.folder)]]).comparisons
    assert one.before.model == "model"


def test_what_helps_is_combined_and_measured_again(tmp_path: Path, try_it: Made) -> None:
    found = try_it(
        model_of(GEMV, tmp_path),
        {"gemv-as-reduce": 4.0, "no-spinning": 1.5, "no-arena": 0.5},
        rungs=("gemv-as-reduce", "no-spinning", "no-arena", "dynamic-blocks"),
    )
    assert [rung.verdict for rung in found.rungs if rung.kind != "combination"] == [
        "helps", "helps", "no difference", "slower",
    ]  # fmt: skip
    both = row(found, "gemv-as-reduce+no-spinning")
    assert (both.beside, both.verdict) == ("gemv-as-reduce", "helps")
    assert found.best is not None
    assert found.best.rungs == ("gemv-as-reduce", "no-spinning")
    assert found.best.options == {"session.intra_op.allow_spinning": "0"}
    assert 5.5 < found.best.gain.value < 6.5
    assert "--sessionOption session.intra_op.allow_spinning=0" in found.best.command


def test_the_verdict_is_what_held_when_it_was_measured_again(
    tmp_path: Path, try_it: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of many is the luckiest, too: it is measured once more after it was chosen, and then the next one."""
    real = search.Search._confirm

    def luck_is_over(self: search.Search, *given: Any) -> bool:
        monkeypatch.setattr(search, "measured", lambda _, after, *__: gained(1.0 if "gemv" in after.name else 1.3))
        return real(self, *given)

    monkeypatch.setattr(search.Search, "_confirm", luck_is_over)
    gains: dict[str, float | BaseException] = {"gemv-as-reduce": 1.5, "no-spinning": 1.3}
    found = try_it(model_of(GEMV, tmp_path), gains, rungs=tuple(gains))
    assert found.verdict.startswith("no-spinning: 1.3x (")
    assert found.best is not None
    assert found.best.rungs == ("no-spinning",)
    assert row(found, "gemv-as-reduce").verdict == "unclear"
    assert any("gemv-as-reduce helped once, but not when it was measured again" in note for note in found.notes)


def test_the_cheap_come_first_and_what_touches_little_is_not_measured(
    tmp_path: Path, try_it: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = """g (float[8,8] a, float[8,8] b) => (float[8,8] y, float[8,8] z) {
        y = MatMul (a, b)
        z = Div (a, c)
    }"""
    path = model_of(graph, tmp_path, c=np.full(1, 3, np.float32))
    real = search.Search.__init__

    def with_times(self: search.Search, options: Any, base: Any, *rest: Any) -> None:
        layers = tuple(
            msgspec.structs.replace(layer, measured_ns=20_000 if layer.op_type == "Div" else 980_000)
            for layer in base.layers
        )
        real(self, options, msgspec.structs.replace(base, layers=layers), *rest)

    monkeypatch.setattr(search.Search, "__init__", with_times)
    order: list[str] = []
    monkeypatch.setattr(search.Search, "_measure", lambda _, one, *__: order.append(one.candidate.name))
    div = row(try_it(path, {}, kinds=frozenset({"option", "rewrite"})), "div-as-mul")
    assert order[:2] == ["no-spinning", "threads-1"]
    assert (div.verdict, round(div.at_most or 0, 3)) == ("not measured", 1.02)


def test_a_name_that_is_none_is_refused_before_anything_runs(
    tmp_path: Path, try_it: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(try_, "execute", lambda *_: pytest.fail("it ran"))
    with pytest.raises(UsageError, match="--rung foo: there is no such candidate"):
        try_it(model_of(GEMV, tmp_path), {}, rungs=("threads-3", "foo"))


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that takes a sum for a difference."""

    def step(node: ir.Node, edit: Edit) -> None:
        if edit.is_op(node, "Add"):
            edit.replace([node], {node.outputs[0]: edit.node("Sub", node.inputs)})

    bad = Rewrite("wrong-sign", "a sum as a difference", (), True, step)
    real = REWRITES.get
    monkeypatch.setattr(REWRITES, "get", lambda name, *rest: bad if name == "wrong-sign" else real(name, *rest))
    monkeypatch.setattr(REWRITES, "values", lambda: iter([bad]))


@pytest.mark.usefixtures("wrong")
def test_a_wrong_variant_is_shown_as_wrong_and_never_as_fast(tmp_path: Path, try_it: Made) -> None:
    path = model_of("g (float[64] a, float[64] b) => (float[64] y) { y = Add (a, b) }", tmp_path)
    found = try_it(path, {"wrong-sign": 9.0}, kinds=frozenset({"rewrite"}), rungs=("wrong-sign",))
    (rung,) = found.rungs
    assert (rung.verdict, rung.gain) == ("wrong", None)
    assert any(not check.matches for check in rung.checks)
    assert found.best is None
    assert found.candidates == 0


def test_ctrl_c_keeps_what_is_measured(tmp_path: Path, try_it: Made) -> None:
    found = try_it(
        model_of(GEMV, tmp_path), {"gemv-as-reduce": 3.0, "no-": KeyboardInterrupt()},
        rungs=("gemv-as-reduce", "no-arena"),
    )  # fmt: skip
    assert found.interrupted
    assert "not measured again" in found.verdict
    assert "nothing helps" not in found.verdict
    assert row(found, "gemv-as-reduce").verdict == "helps"
    assert found.best is None


def test_a_rewrite_that_the_runtime_makes_by_itself_is_not_measured(tmp_path: Path, try_it: Made) -> None:
    """The digest of the graph says so, whatever its nodes are called."""
    path = model_of("g (float[64] a) => (float[64] y) { y = Add (a, b) }", tmp_path, b=np.ones(64, np.float32))
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    model = onnx.load(path)
    onnx.save(model, one)
    model.graph.node[0].name = "called otherwise"
    model.graph.node[0].output[0] = "t"
    model.graph.output[0].name = "t"
    onnx.save(model, other)
    assert graph_digest(one) == graph_digest(other)
    model.graph.node[0].op_type = "Mul"
    onnx.save(model, other)
    assert graph_digest(one) != graph_digest(other)


def test_a_gpu_that_is_not_here_is_predicted(tmp_path: Path) -> None:
    request = ModelRequest.of(SAMPLES / "gemv.onnx")
    options = TryOptions(run=RunOptions(model=request, output=str(tmp_path)), dry_run=True, gpu=gpus.find("rtx-4090"))
    found = try_model(options)
    rung = row(found, "gemv-as-reduce")
    assert rung.predicted is not None
    assert "before" in rung.basis
    assert found.device.name == "RTX 4090" or "4090" in found.device.name
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path, try_it: Made) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine.txt").write_text("kept")
    with pytest.raises(UsageError, match="will not be overwritten"):
        try_it(model_of(GEMV, tmp_path), {})


@pytest.mark.nightly
def test_real_turns_tell_two_processes_of_one_model_apart_by_their_times_alone(tmp_path: Path) -> None:
    """All parts are real: the session, the processes, the outputs. What comes out is not asked for."""
    run = RunOptions(
        model=ModelRequest.of(model_of(GEMV, tmp_path)), backend="ort-cpu", threads=1, iterations=1, warmup_ms=0,
        duration_s=0, profile_iterations=1, output=str(tmp_path / "runs"),
    )  # fmt: skip
    found = try_model(TryOptions(run=run, rungs=("gemv-as-reduce",)))
    rung = row(found, "gemv-as-reduce")
    assert rung.verdict in ("helps", "no difference", "slower", "unclear", "not measured")
    if rung.gain is not None:
        assert rung.turns >= 2
        assert rung.before_ns
        assert rung.gain.low <= rung.gain.value <= rung.gain.high


# --- how a report asks for it -------------------------------------------------------------------


def asked(of: str = "ort-cpu", gpu: str = "", model: str = "my model.onnx", **options: str) -> str:
    request = Request(schema_version=1, created="", version="", model=model, sha256="", options=options)
    return tries(request, Backend(name=of, reason=""), gpus.find(gpu) if gpu else None)


def test_a_report_asks_for_the_model_as_it_was_run() -> None:
    assert asked() == "trtprof try 'my model.onnx'"
    usual = {"shapes": "()", "batch": "None", "backend": "auto", "threads": "0", "load_inputs": "()", "seed": "0"}
    assert asked(**usual) == asked()
    given = {
        "shapes": "('x:1x3', 'y:2')", "batch": "4", "backend": "ort-cpu", "threads": "2", "load_inputs": "('x:f.npy',)",
        "sessionOption": "execution_mode=parallel,enable_mem_pattern=0",
    }  # fmt: skip
    assert asked(model="net.onnx", **given) == (
        "trtprof try net.onnx --shapes x:1x3 --shapes y:2 --loadInputs x:f.npy --backend ort-cpu --batch 4 --threads 2 "
        "--sessionOption execution_mode=parallel --sessionOption enable_mem_pattern=0"
    )
    assert asked(model="models.py:Net") == "trtprof try models.py:Net"


def test_of_a_gpu_it_asks_with_the_options_of_its_engine() -> None:
    given = {"fp16": "True", "noTF32": "False", "maxAuxStreams": "0", "timingCacheFile": "t", "collector": "cupti"}
    assert asked("tensorrt", "rtx-4090", batch="4", **given) == (
        "trtprof try 'my model.onnx' --backend tensorrt --batch 4 --fp16 --noTF32 --maxAuxStreams=0"
    )
    assert asked("ort-cuda", sessionOption="cuda.prefer_nhwc=1") == (
        "trtprof try 'my model.onnx' --backend ort-cuda --sessionOption cuda.prefer_nhwc=1"
    )


@pytest.mark.process
def test_the_options_of_a_run_are_found_in_its_request(tmp_path: Path) -> None:
    """What `run` writes down is what `tries` reads."""
    options = RunOptions(
        model=ModelRequest.of(model_of("g (float[n,4] x) => (float[n,4] y) { y = Relu (x) }", tmp_path), ["x:3x4"]),
        backend="ort-cpu", threads=1, iterations=1, warmup_ms=0, duration_s=0, profile_iterations=1,
        tuning=SessionTuning.of(["enable_mem_pattern=0"]), output=str(tmp_path / "run"),
    )  # fmt: skip
    request = execute(options).read(run_folder.REQUEST, Request)
    assert tries(request, Backend(name="ort-cpu", reason=""), None) == (
        f"trtprof try {tmp_path}/model.onnx --shapes x:3x4 --backend ort-cpu --threads 1 "
        "--sessionOption enable_mem_pattern=0"
    )


# --- what must not be lost, and what is promised -----------------------------------------------------


@pytest.mark.parametrize(
    "fault", [KeyboardInterrupt(), CaptureError("the run died", why="it was ended by SIGSEGV", fix="")]
)
def test_what_was_measured_outlives_the_run_of_the_best(
    tmp_path: Path, try_it: Made, only_rewrites: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr("trtprof.flows.try_._kept", broken)
    found = try_it(model_of(GEMV, tmp_path), {"gemv-as-reduce": 3.0}, **only_rewrites)
    assert row(found, "gemv-as-reduce").verdict == "helps"
    assert found.best is None
    assert found.interrupted == isinstance(fault, KeyboardInterrupt)
    assert found.notes


def test_a_verdict_says_which_machine_it_is_for(subtests: pytest.Subtests) -> None:
    """Numbers of u2netp: two threads take 109 ms on a machine of their own, 277 ms beside a neighbor; one takes 204."""
    shared = gained(1.36)._replace(before_ns=277e6, levels=(277e6, 204e6), all_ran=0.55)
    alike = shared._replace(before_ns=110e6)
    own = shared._replace(before_ns=110e6, undisturbed=True)
    known = Latency(
        median_ns=109_000_000, p99_ns=0, cv=0.0, n=9, undisturbed_ns=109_000_000, undisturbed_basis="layers"
    )
    unknown = msgspec.structs.replace(known, undisturbed_ns=None, undisturbed_basis="")
    threads = Candidate("threads-1", "", threads=1)
    spinning = Candidate("no-spinning", "")
    for candidate, change, latency, verdict, reason in (
        (
            threads,
            shared,
            known,
            "unclear",
            "277 ms interleaved; all threads had a CPU in as little as 55 %",
        ),
        (threads, alike, known, "unclear", "on a machine of your own 2 threads are faster"),
        (threads, alike, unknown, "unclear", "on a machine of your own 2 threads may be faster"),
        (spinning, shared, known, "unclear", "109 ms alone, 277 ms interleaved"),
        (
            spinning,
            alike,
            known,
            "helps",
            "while other processes use these CPUs; all threads",
        ),
        (spinning, own, known, "helps", ""),
        (spinning, alike._replace(all_ran=0.99), known, "helps", ""),
    ):
        with subtests.test(candidate=candidate.name, reason=reason):
            it = SimpleNamespace(_base=SimpleNamespace(latency=latency), threads=2)
            found = search.Search._verdict(cast("search.Search", it), candidate, judged([change])[0])
            assert found[0] == verdict
            assert reason in found[1]
            assert bool(reason) == bool(found[1])


def test_undisturbed_inferences_judge_where_there_are_enough() -> None:
    """Beside a neighbor the variant seems 1.4 times as fast; of the inferences that waited for no CPU it is slower."""
    noise = np.random.default_rng(0)

    def pair(undisturbed: int) -> Pair:
        alone = np.arange(20) < undisturbed
        before = np.where(alone, noise.normal(1e6, 1e4, 20), noise.normal(2.8e6, 1e4, 20))
        return Pair(
            before.astype(np.int64), noise.normal(2e6, 1e4, 20).astype(np.int64), (alone, np.ones(20, bool)), (0.4, 0.9)
        )

    own, shared = ([[pair(count) for _ in range(4)] for _ in range(2)] for count in (4, 1))
    change = measure.change_of_rounds(own)
    assert (change.undisturbed, round(change.gain, 1)) == (True, 0.5)
    assert change.all_ran == pytest.approx(0.4)
    change = measure.change_of_rounds(shared)
    assert (change.undisturbed, round(change.gain, 1)) == (False, 1.4)


def test_no_verdict_rests_on_one_round_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def round_of(*_: Any, **__: Any) -> list[Pair]:
        made.append(1)
        noise = np.random.default_rng(len(made))

        def one(ns: float) -> Samples:
            return noise.normal(ns, 1e4, 9).astype(np.int64)

        return [Pair(one(1e6), one(2e6)) for _ in range(4)]

    monkeypatch.setattr(measure, "round_of", round_of)
    side = Variant(name="any", inputs=())
    assert measure.measured(side, side, deadline=0.0, usual_ns=0.0).rounds == len(made) == measure.FEWEST
