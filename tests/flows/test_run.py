"""Order, resume, overwrite and the run folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trtprof
from tests.fakes.support import ROOT, SAMPLES, fixed_ceilings, refused
from tests.fakes.trying import model_of
from trtprof.base import run_folder
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION
from trtprof.base.run_folder import RunFolder
from trtprof.compare import compare
from trtprof.flows.options import RunOptions
from trtprof.flows.run import choose_backend, execute
from trtprof.runtime.session_tuning import SessionTuning
from trtprof.source.request import ModelRequest

pytestmark = pytest.mark.usefixtures("quick_runs")
LSTM = SAMPLES / "lstm.onnx"


class Recorder:
    """A `Progress` that remembers, and can stop the run in a stage as Ctrl-C would."""

    def __init__(self, stop_in: str = "") -> None:
        self.stages: list[str] = []
        self.details: list[str] = []
        self.folder: Path | None = None
        self._stop_in = stop_in

    def note(self, text: str) -> None:
        self.detail(text)

    def opened(self, folder: Path) -> None:
        self.folder = folder

    def stage(self, name: str) -> None:
        self.stages.append(name)
        if name == self._stop_in:
            raise KeyboardInterrupt

    def detail(self, text: str) -> None:
        self.details.append(text)


def options(out: Path, **changes: object) -> RunOptions:
    quick: dict[str, object] = {
        "output": str(out),
        "duration_s": 0.0,
        "iterations": 3,
        "warmup_ms": 0.0,
        "profile_iterations": 3,
    }
    return RunOptions(**{"model": ModelRequest.of(LSTM), **quick, **changes})  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_stages_run_in_the_order_of_the_design(tmp_path: Path) -> None:
    seen = Recorder()
    folder = execute(options(tmp_path / "run"), seen)
    assert seen.stages == ["source", "ceilings", "capture", "analysis"]
    assert seen.folder == folder.path == tmp_path / "run"
    assert any("inputs are random (seed 0)" in detail for detail in seen.details)
    names = {path.name for path in folder.path.iterdir()}
    assert names == {
        "request.json", "source.json", "engine.json", "engine.onnx", "device.json", "ceilings.json", "capture.json",
        "latency.parquet", "kernels.parquet", "report.json", "report.html",
    }  # fmt: skip


@pytest.mark.parametrize("stage", ["ceilings", "capture", "analysis"])
def test_a_stopped_run_keeps_its_stages_and_goes_on(tmp_path: Path, stage: str) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        execute(options(out), Recorder(stop_in=stage))
    kept = contents(out)
    assert "report.json" not in kept
    with pytest.raises(MissingError, match=r"has no report.json"):
        RunFolder(out).report()
    seen = Recorder()
    execute(options(out, resume=True), seen)
    after = contents(out)
    assert RunFolder(out).report().latency.n >= 3
    # Ceilings are measured between the parts of the capture: both are kept, or none.
    assert seen.details.count("kept from before") == (2 if stage == "analysis" else 0)
    if stage == "analysis":
        assert after["capture.json"] == kept["capture.json"]
        assert after["kernels.parquet"] == kept["kernels.parquet"]


def test_resume_refuses_other_settings(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        execute(options(out), Recorder(stop_in="capture"))
    kept = contents(out)
    with pytest.raises(UsageError, match="other settings") as caught:
        execute(options(out, resume=True, seed=7))
    assert caught.value.why == "different: seed"
    assert contents(out) == kept


TUNED = SessionTuning.of(["graph_optimization_level=basic", "session.intra_op.allow_spinning=0"])


def test_what_a_session_was_tuned_by_is_kept_compared_and_asked_for_again(tmp_path: Path) -> None:
    plain = execute(options(tmp_path / "plain"))
    tuned = execute(options(tmp_path / "tuned", tuning=TUNED))
    kept = json.loads((tuned.path / "request.json").read_bytes())["options"]
    assert kept["sessionOption"] == "graph_optimization_level=basic,session.intra_op.allow_spinning=0"
    assert "sessionOption" not in json.loads((plain.path / "request.json").read_bytes())["options"]
    backends = [folder.report().backend.options for folder in (plain, tuned)]
    assert [each["graph_optimization_level"] for each in backends] == ["all", "basic"]
    assert "session.intra_op.allow_spinning" not in backends[0]
    assert backends[1]["session.intra_op.allow_spinning"] == "0"
    differ = {fact.what: (fact.before, fact.after) for fact in compare([[plain], [tuned]]).comparisons[0].facts}
    assert differ["backend option graph_optimization_level"] == ("all", "basic")
    assert differ["backend option session.intra_op.allow_spinning"] == ("none", "0")
    assert differ["option sessionOption"] == ("none", kept["sessionOption"])


def test_a_finished_run_is_not_overwritten_without_force(tmp_path: Path) -> None:
    out = tmp_path / "run"
    execute(options(out))
    kept = contents(out)
    with pytest.raises(UsageError, match="will not be overwritten"):
        execute(options(out))
    assert contents(out) == kept
    execute(options(out, force=True, seed=5))
    assert contents(out)["request.json"] != kept["request.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_failed_replacement_leaves_the_old_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    execute(options(out))
    kept = contents(out)
    with pytest.raises(KeyboardInterrupt):
        execute(options(out, force=True), Recorder(stop_in="capture"))
    assert contents(out) == kept
    # And the left-overs of the failed one are no obstacle.
    execute(options(out, force=True, seed=5))
    assert contents(out) != kept


def test_numbers_out_of_range_are_refused_before_anything_is_written(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for field, value in (
        ("iterations", 0),
        ("profile_iterations", 0),
        ("warmup_ms", -1.0),
        ("duration_s", -0.5),
        ("threads", -2),
        ("seed", -1),
    ):
        with subtests.test(f"{field} {value}"):
            with pytest.raises(UsageError, match="is not possible"):
                execute(options(tmp_path / "run", **{field: value}))
            assert not (tmp_path / "run").exists()


def test_unknown_backends_and_those_that_cannot_run() -> None:
    with pytest.raises(UsageError, match="no backend 'tenserrt'"):
        choose_backend("tenserrt")
    with pytest.raises(MissingError, match="cannot run here") as caught:
        choose_backend("tensorrt")
    assert caught.value.fix
    chosen = choose_backend("auto")
    assert chosen.name == "ort-cpu"
    assert "first of" in chosen.reason


def test_a_run_loads_as_tables_from_its_folder_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    execute(options(out))
    moved = tmp_path / "elsewhere" / "run"
    moved.parent.mkdir()
    shutil.move(out, moved)
    loaded = trtprof.load_run(moved)
    assert int(loaded.ledger["ns"].sum()) == loaded.run.latency.median_ns
    assert int(loaded.launches["self_ns"].sum()) == int(loaded.kernels["total_ns"].sum()) == loaded.run.captured_ns
    assert len(loaded.latency) == loaded.run.latency.n
    assert round(loaded.latency["latency_ns"].median()) == loaded.run.latency.median_ns
    assert set(loaded.nodes["fate"]) == {"layer"}
    assert list(loaded.layers["name"]) == [layer.name for layer in loaded.run.layers]
    assert {"code", "where", "lost_ns", "try"} <= set(loaded.findings.columns)
    assert all(isinstance(t, pd.DataFrame) for t in (loaded.layers, loaded.findings, loaded.kernels, loaded.launches))
    assert trtprof.load_run(moved / "report.json").run == loaded.run


def test_a_damaged_or_newer_report_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.file(run_folder.REPORT).write_text('{"schema_version": 99}')
    with pytest.raises(UsageError) as newer:
        folder.report()
    assert "schema version 99" in newer.value.why
    folder.file(run_folder.REPORT).write_text('{"schema_ver')
    with pytest.raises(UsageError, match="cannot be read"):
        folder.report()


def test_a_report_of_an_older_schema_is_read_and_a_newer_one_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    document = json.loads(RunFolder(ROOT / "reports" / "example").file(run_folder.REPORT).read_text())
    folder.file(run_folder.REPORT).write_text(json.dumps({**document, "schema_version": SCHEMA_VERSION - 1}))
    assert folder.report().schema_version == SCHEMA_VERSION
    folder.file(run_folder.REPORT).write_text(json.dumps({**document, "schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(UsageError) as newer:
        folder.report()
    assert f"schema version {SCHEMA_VERSION + 1}" in refused(newer.value)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    folder.write_bytes("x.json", b"old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trtprof.base.run_folder.os.replace", full_disk)
    with pytest.raises(MissingError, match="cannot be written") as caught:
        folder.write_bytes("x.json", b"new")
    assert caught.value.why == "No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert folder.file("x.json").read_bytes() == b"old"


def test_a_layer_of_a_loop_is_bound_by_all_its_steps(tmp_path: Path) -> None:
    graph = """g (float[1,256] x) => (float[1,256] y) {
        n = Abs (x) y = Loop <body = b (int64 i, bool c, float[1,256] s) => (bool d, float[1,256] t) {
            d = Identity (c) t = MatMul (s, w)
        }> (steps, yes, n)
    }"""
    weights = {"w": np.eye(256, dtype=np.float32), "steps": np.asarray(64), "yes": np.asarray(True)}
    model = ModelRequest.of(model_of(graph, tmp_path, **weights))
    report = execute(options(tmp_path / "run", model=model)).report()
    layers = {layer.op_type: layer for layer in report.layers}
    step, weight_bytes, launch_ns = layers["MatMul"], 4 * 256 * 256, fixed_ceilings().launch_ns
    assert step.work is not None
    assert (step.flops, layers["Abs"].flops) == (64 * 2 * 256 * 256, 256)
    assert weight_bytes * 64 <= step.work.bytes_read < weight_bytes * 65
    assert step.attainable_ns is not None
    assert step.attainable_ns >= 64 * launch_ns
