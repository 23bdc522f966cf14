"""The evidence script: its steps apart from each other, and what it reports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

from tests.fakes.seeming_gpu import H100, seem
from tests.fakes.support import ROOT, SAMPLES, load_script
from tests.fakes.trying import GEMV, gained, model_of
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION, BenchSide, Interval, PluginBench
from trtprof.base.run_folder import RunFolder
from trtprof.capture.ncu import record as ncu
from trtprof.capture.nsys import record as nsys
from trtprof.capture.same_outputs import KindCheck, Original
from trtprof.expected import expect, read_measured, works_to_time
from trtprof.flows.try_ import search
from trtprof.hardware import gpus, nvml
from trtprof.hardware.cuda import kernel_times
from trtprof.hardware.cuda._kernels import ROW_LENGTHS
from trtprof.hardware.cuda.kernel_times import KernelTimes

pytestmark = pytest.mark.nightly

SCRIPT = ROOT / "scripts" / "gpu_evidence.py"
evidence = load_script(SCRIPT, "gpu_evidence")


# --- steps -----------------------------------------------------------------------------------

OK = """
import json, sys
print("measuring")
open(sys.argv[1], "w").write(json.dumps({"status": "ok", "headline": "a figure", "facts": {"ns": 12.5}}))
"""
ABSENT = """
import json, sys
open(sys.argv[1], "w").write(json.dumps({"status": "absent", "headline": "there is no such tool"}))
"""
RAISES = "print('half way'); raise RuntimeError('the device is gone')"
HANGS = "import time; print('waiting for the driver', flush=True); time.sleep(600)"
DIES = "import os, signal; print('about to crash', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1] + ".pid", "w").write(str(child.pid))
print("started", flush=True)
time.sleep(600)
"""


def unused(_: Path) -> Any:
    raise AssertionError("stand-ins are commands")


def parts_of(**steps: float) -> list[Any]:
    """A part of one step each, with its share in seconds."""
    return [
        evidence.Part(name, f"the part {name}", (evidence.Step("step", share, unused),))
        for name, share in steps.items()
    ]


def stand_in(codes: dict[str, str]) -> Callable[[str, Path], list[str]]:
    def command(name: str, work: Path) -> list[str]:
        return [sys.executable, "-c", codes[name.partition("/")[0]], str(evidence.outcome_file(work, name))]

    return command


def run(codes: dict[str, str], work: Path, *, budget: float = 60.0, share: float = 10.0) -> dict[str, Any]:
    parts = parts_of(**dict.fromkeys(codes, share))
    done = evidence.perform(parts, work, budget_s=budget, command=stand_in(codes))
    assert [one.part for one in done] == list(codes)
    return {one.part: one for one in done}


def test_a_step_that_fails_dies_or_is_absent_is_said_and_the_others_go_on(tmp_path: Path) -> None:
    done = run({"raises": RAISES, "dies": DIES, "absent": ABSENT, "fine": OK}, tmp_path)
    assert {name: one.outcome.status for name, one in done.items()} == {
        "raises": "failed", "dies": "failed", "absent": "absent", "fine": "ok",
    }  # fmt: skip
    assert "exit code 1" in done["raises"].outcome.headline
    assert "RuntimeError: the device is gone" in done["raises"].outcome.headline
    assert "SIGSEGV" in done["dies"].outcome.headline
    assert "about to crash" in done["dies"].outcome.headline
    assert done["fine"].outcome.facts == {"ns": 12.5}
    assert not done["raises"].outcome.facts
    assert evidence.log_file(tmp_path, "fine/step").read_text() == "measuring\n"


def test_a_step_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "LEAST_S", 0.1)
    done = run({"hangs": HANGS, "family": FAMILY, "fine": OK}, tmp_path, budget=4.5, share=1.5)
    assert [one.outcome.status for one in done.values()] == ["failed", "failed", "ok"]
    assert "no end within 2 s; the last it said: waiting for the driver" in done["hangs"].outcome.headline
    grandchild = int(Path(f"{evidence.outcome_file(tmp_path, 'family/step')}.pid").read_text(encoding="utf-8"))
    for _ in range(100):
        if not alive(grandchild):
            break
        time.sleep(0.05)
    assert not alive(grandchild)


def test_what_a_step_found_before_it_was_cut_short_is_kept(tmp_path: Path) -> None:
    done = run({"dies": OK + "import os; os.abort()"}, tmp_path)["dies"].outcome
    assert done.status == "failed"
    assert "SIGABRT" in done.headline
    assert done.headline.endswith("before that: a figure")
    assert done.facts == {"ns": 12.5}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The limits of the steps, which are not run."""
    found: list[float] = []

    def fake(command: object, name: str, work: Path, limit_s: float) -> Any:
        found.append(limit_s)
        return evidence.Outcome(status="ok", headline="")

    monkeypatch.setattr(evidence, "run_step", fake)
    return found


def timed(work: Path, parts: list[Any], budget: float, *times: float) -> list[Any]:
    """The steps of parts by a clock that shows these times."""
    clock = iter(times)
    command = stand_in(dict.fromkeys((part.name for part in parts), OK))
    found: list[Any] = evidence.perform(parts, work, budget_s=budget, command=command, clock=lambda: next(clock))
    return found


def test_no_step_is_started_when_the_time_is_up(tmp_path: Path, limits: list[float]) -> None:
    done = timed(tmp_path, parts_of(first=50, second=50, third=50), 465, 0, 0, 100, 100, 461, 461)
    assert [one.outcome.status for one in done] == ["ok", "ok", "absent"]
    # A third of all; what is left up to two thirds.
    assert limits == [155, 210]
    assert [one.took_s for one in done] == [100, 361, 0]
    assert done[2].outcome.headline == "not started: the 465 s for all were up"


def test_a_step_has_its_own_share_even_after_late_ones_but_never_more_than_is_left(
    tmp_path: Path, limits: list[float]
) -> None:
    timed(tmp_path, parts_of(first=50, second=30), 100, 0, 0, 80, 80, 85)
    assert limits == [62.5, 20]
    limits.clear()
    timed(tmp_path, parts_of(alone=20), 100, 0, 0, 60)
    assert limits == [100]


def test_the_parts_fit_the_budget_and_their_names_are_unique() -> None:
    names = [f"{part.name}/{step.name}" for part in evidence.PARTS for step in part.steps]
    assert len(set(names)) == len(names)
    assert [part.name for part in evidence.PARTS] == ["here", "calibrate", "runs", "truth", "plugin", "try"]
    unnamed = [part for part in evidence.PARTS if not part.named]
    assert sum(part.share_s for part in unnamed) <= evidence.BUDGET_S < 9 * 60
    assert all(part.share_s <= evidence.BUDGET_S for part in evidence.PARTS if part.named)
    assert all(step.share_s > evidence.TRY_S for part in evidence.PARTS if part.name == "try" for step in part.steps)


def test_parts_are_chosen_by_name_in_their_own_order() -> None:
    assert [part.name for part in evidence.selected([])] == ["here", "calibrate", "runs", "truth"]
    assert [part.name for part in evidence.selected(["try"])] == ["try"]
    assert [part.name for part in evidence.selected(["plugin", "here"])] == ["here", "plugin"]
    with pytest.raises(UsageError, match="no part 'nosuch'"):
        evidence.selected(["nosuch"])


def do(work: Path, step: Callable[[Path], Any]) -> Any:
    parts = [evidence.Part("part", "", (evidence.Step("step", 1, step),))]
    outcome = evidence.do_step("part/step", work, parts)
    left = msgspec.json.decode(evidence.outcome_file(work, "part/step").read_bytes(), type=evidence.Outcome)
    assert left == outcome
    return outcome


def test_errors_of_a_step_become_its_outcome(tmp_path: Path) -> None:
    def lacks(_: Path) -> Any:
        raise MissingError("there is no ncu", why="not on the PATH", fix="install it")

    def imports(_: Path) -> Any:
        import no_such_package_of_ours  # type: ignore[import-not-found]

        return no_such_package_of_ours

    def refuses(_: Path) -> Any:
        raise UsageError("the model is not usable", why="it has no output")

    def breaks(_: Path) -> Any:
        raise ZeroDivisionError("division by zero")

    assert do(tmp_path, lacks) == evidence.Outcome(
        status="absent", headline="there is no ncu; not on the PATH; fix: install it"
    )
    assert "no_such_package_of_ours is not installed" in do(tmp_path, imports).headline
    assert do(tmp_path, imports).status == "absent"
    assert do(tmp_path, refuses) == evidence.Outcome(
        status="failed", headline="the model is not usable; it has no output"
    )
    assert do(tmp_path, breaks) == evidence.Outcome(status="failed", headline="ZeroDivisionError: division by zero")


# --- the whole -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "code"), [({"a": OK, "b": ABSENT}, 0), ({"a": OK, "b": RAISES, "c": OK}, 1)], ids=["absent", "failed"]
)
def test_files_table_and_exit_code(
    codes: dict[str, str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    parts = parts_of(**dict.fromkeys(codes, 10.0))
    assert evidence.evidence(parts, out, budget_s=60, command=stand_in(codes)) == code
    printed = capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["evidence.log", "results.json", "table.txt"]
    results = msgspec.json.decode((out / "results.json").read_bytes(), type=evidence.Results)
    assert [one.part for one in results.steps] == list(codes)
    assert results.exit_code() == code
    assert msgspec.json.decode(msgspec.json.encode(results), type=evidence.Results) == results
    assert evidence.table(results.steps) + "\n" == (out / "table.txt").read_text()
    assert printed.startswith(evidence.table(results.steps))
    assert "measuring" in (out / "evidence.log").read_text()
    assert results.command == "python scripts/gpu_evidence.py " + " ".join(codes)


def test_the_table_has_a_row_a_step_and_wraps_what_was_found() -> None:
    def done(step: str, status: str, headline: str, took: float = 0.0) -> Any:
        return evidence.Done(
            part="runs", step=step, outcome=evidence.Outcome(status=status, headline=headline), took_s=took
        )

    text = evidence.table(
        [done("gemv", "ok", "75.1 us " * 20, 12.4), done("x", "failed", "dead"), done("trt", "absent", "")], 80
    )
    lines = text.splitlines()
    assert lines[0].split() == ["step", "status", "s", "found"]
    assert lines[1].startswith("runs/gemv  ok        12  75.1 us")
    assert lines[2].startswith(" " * 20)
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines if line.startswith("runs/")] == [
        ["runs/gemv", "ok"], ["runs/x", "failed"], ["runs/trt", "absent"],
    ]  # fmt: skip
    assert lines[-1] == "1 ok, 1 failed, 1 absent"


def test_run_folders_are_packed_without_their_pages_and_within_a_limit(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "runs" / "gemv"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("{}")
    (folder / "report.html").write_text("<html>")
    (folder / "nsys.nsys-rep").write_bytes(os.urandom(3000))
    out = tmp_path / "out"
    out.mkdir()
    assert evidence.packed(tmp_path / "work", out, limit=3500) == ["runs/gemv/nsys.nsys-rep"]
    with tarfile.open(out / "runs.tar.gz") as archive:
        assert archive.getnames() == ["runs/gemv/report.json"]
    assert evidence.packed(tmp_path / "work", out) == []
    with tarfile.open(out / "runs.tar.gz") as archive:
        assert archive.getnames() == ["runs/gemv/nsys.nsys-rep", "runs/gemv/report.json"]


def test_a_long_log_is_cut_at_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "LOGGED_BYTES", 100)
    done = evidence.Done(part="a", step="b", outcome=evidence.Outcome(status="ok", headline=""))
    evidence.log_file(tmp_path, "a/b").write_text("x" * 500 + "the end")
    results = evidence.Results(created="", command="", versions={}, budget_s=1, took_s=1, steps=(done,))
    (tmp_path / "out").mkdir()
    evidence.save(results, tmp_path / "out", tmp_path)
    log = (tmp_path / "out" / "evidence.log").read_text()
    assert log.startswith("=== a/b: ok\n")
    assert log.endswith("the end\n")
    assert len(log) < 130


def script(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_the_list_needs_no_gpu() -> None:
    listed = script("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [part.name for part in evidence.PARTS]
    assert re.search(r"^calibrate +\d+ s ", listed.stdout, re.MULTILINE)


def test_without_a_gpu_it_ends_with_one_message(tmp_path: Path) -> None:
    if nvml.gpus()[0]:
        pytest.skip("there is a GPU here")
    out = tmp_path / "out"
    found = script("--out", str(out))
    assert found.returncode == 3
    assert not found.stdout
    assert found.stderr.startswith("error: there is no NVIDIA GPU to take evidence from\n")
    assert "fix: run this where nvidia-smi lists a GPU" in found.stderr
    assert "pip install -e '.[gpu,cupti]'" in found.stderr
    assert "Traceback" not in found.stderr
    assert not out.exists()
    assert script("nosuch").returncode == 2


# --- truth -----------------------------------------------------------------------------------


def test_the_model_of_op_classes_is_valid_and_has_enough_kernels_of_each_class() -> None:
    from trtprof.base.onnx_graph import tensor_from_value_info
    from trtprof.diagnose.reached import op_class

    model = onnx.shape_inference.infer_shapes(evidence.op_classes(), strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.node) >= evidence.LEAST_COUNTED
    assert all(tensor_from_value_info(info).shape is not None for info in model.graph.output)
    kinds = {"MatMul": 7, "Conv": 4, "Softmax": 3, "LayerNormalization": 3, "Transpose": 3}
    counts = {kind: sum(node.op_type == kind for node in model.graph.node) for kind in kinds}
    assert counts == kinds
    assert sum(node.op_type.startswith("Reduce") for node in model.graph.node) == 3
    assert callable(op_class)


def test_errors_are_means_of_shares_of_the_measured_time() -> None:
    times = [
        evidence.Time("gemm", 100, 50, 80),
        evidence.Time("gemm", 200, 210, 220),
        evidence.Time("softmax", 1000, 1000, 1100),
    ]
    found = evidence.errors_by_class(times)
    assert list(found) == ["all", "gemm", "softmax"]
    assert found["gemm"]["ideal_error"] == pytest.approx((0.5 + 0.05) / 2)
    assert found["gemm"]["attainable_error"] == pytest.approx((0.2 + 0.1) / 2)
    assert (found["gemm"]["faster_than_ideal"], found["gemm"]["faster_than_attainable"]) == (1, 1)
    assert (found["all"]["layers"], found["all"]["faster_than_ideal"]) == (3, 1)
    assert found["softmax"]["faster_than_ideal"] == 0


def test_verdicts_are_counted_by_class() -> None:
    assert evidence.tally([("gemm", "confirmed"), ("conv", "refuted"), ("gemm", "confirmed")]) == {
        "gemm": {"confirmed": 2}, "conv": {"refuted": 1},
    }  # fmt: skip


# --- a seeming GPU ---------------------------------------------------------------------------


@pytest.fixture
def seeming_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that seems to have an H100, whose worker is the stand-in of the pipeline's tests."""
    monkeypatch.setattr(evidence, "DURATION_S", 0.05)
    monkeypatch.setattr(sys, "path", list(sys.path))
    seem(monkeypatch, tmp_path, H100, ("ort-cuda", "ort-cpu"))


def test_a_run_on_a_seeming_gpu_is_summed_up_and_its_layers_are_classed(
    seeming_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evidence.run_model(tmp_path, "op_classes", SAMPLES / "resnet_tiny.onnx", batch=1, verify=False)
    outcome = evidence.ran(run)
    assert outcome.status == "ok"
    assert outcome.facts["ledger_off_by_ns"] == 0
    assert outcome.facts["latency"]["median_ns"] == run.latency.median_ns
    assert outcome.facts["share_of_roof"] == pytest.approx(
        sum(layer.attainable_ns or 0 for layer in run.layers) / run.latency.median_ns
    )
    assert outcome.headline.startswith(evidence.format_ns(run.latency.median_ns))
    msgspec.json.encode(outcome)
    times = list(evidence.layer_times(RunFolder(tmp_path / "runs" / "op_classes")))
    # Of one image the last product has one row.
    assert {"conv", "gemv", "softmax"} <= {one.kind for one in times}
    priced = [layer for layer in run.layers if layer.kernels and layer.attainable_ns and layer.ideal_ns]
    assert len(times) == len(priced)
    # The step itself, over that folder.
    found = evidence.predicted(tmp_path)
    assert found.status == "ok"
    assert found.facts["by_class"]["all"]["layers"] == len(times)
    assert "IS the datasheet's" in found.headline


def test_what_would_help_is_tried_and_each_rung_is_told(
    seeming_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "measured", lambda _, after, *__: gained(2.0 if "gemv" in after.name else 1.0))
    monkeypatch.setattr(search, "keep_original", Original)
    monkeypatch.setattr(search, "check_variant", lambda *_, **__: (KindCheck(kind="zeros", matches=True),))
    outcome = evidence.tried(tmp_path, "gemv", model_of(GEMV, tmp_path))
    assert outcome.status == "ok", outcome
    assert outcome.facts["backend"] == "ort-cuda"
    rungs = {rung["name"]: rung for rung in outcome.facts["rungs"]}
    assert rungs["gemv-as-reduce"]["verdict"] == "helps"
    assert rungs["no-tf32"]["verdict"] == "no difference"
    assert outcome.facts["best"]["rungs"][0].startswith("gemv")
    assert re.search(
        rf"helps.*sign right {outcome.facts['sign_right']} of {outcome.facts['predicted']}$", outcome.headline
    )
    kept = json.loads((tmp_path / "runs" / "try-gemv" / "tried.json").read_text())
    assert len(kept["rungs"]) == len(rungs)
    msgspec.json.encode(outcome)


def test_without_a_backend_for_the_gpu_nothing_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seem(monkeypatch, tmp_path, H100, ("ort-cpu",))
    outcome = do(tmp_path, evidence.try_gemv)
    assert outcome.status == "absent"
    assert "no backend runs on the GPU" in outcome.headline


BENCHED = PluginBench(
    schema_version=SCHEMA_VERSION, name="Gemv", gpu=H100.name, created="", verdict="slower", why="it cuts too much",
    alone=BenchSide(what="", median_ns=160_000, n=156), kernel_gain=Interval(value=1.9, low=1.8, high=2.0),
    bandwidth=0.784, score=0.91, engine_gain=Interval(value=0.9, low=0.88, high=0.92),
)  # fmt: skip


@pytest.fixture
def plugins(seeming_gpu: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """What a plugin is written by says how that ended, and what measures it gives this; the commands that were run."""
    from trtprof.flows.plugin import bench as flow

    def put(bench: PluginBench, status: str = "ok") -> list[list[str]]:
        commands: list[list[str]] = []

        def checked_by(command: list[str], _: object) -> Any:
            commands.append(command)
            return evidence.Outcome(status=status, headline="what it said")

        def measured(folder: Path, _: object) -> PluginBench:
            commands.append(["bench", str(folder)])
            return bench

        monkeypatch.setattr(evidence, "checked_by", checked_by)
        monkeypatch.setattr(flow, "bench", measured)
        return commands

    return put


def test_a_plugin_is_written_for_this_gpu_and_measured(plugins: Callable[..., list[list[str]]], tmp_path: Path) -> None:
    commands = plugins(BENCHED)
    outcome = evidence.plugin_gemv(tmp_path)
    assert outcome.status == "ok"
    wrote, measured = commands
    folder = str(tmp_path / "runs" / "plugin-gemv")
    node = onnx.load(SAMPLES / "gemv.onnx").graph.node[0].name
    assert wrote[-9:] == [
        "plugin", str(SAMPLES / "gemv.onnx"), node, "--gpu", "h100-sxm5", "--only", "brief,write,insert", "-o", folder,
    ]  # fmt: skip
    assert measured == ["bench", folder]
    assert outcome.headline == (
        "slower; 160 us alone; 78.4 % of the bandwidth; score 0.910; alone 1.9 (1.8 to 2); engine 0.9 (0.88 to 0.92); "
        "it cuts too much"
    )
    assert outcome.facts["verdict"] == "slower"
    msgspec.json.encode(outcome)


def test_a_plugin_that_is_wrong_has_failed_and_one_that_was_not_written_is_not_measured(
    plugins: Callable[..., list[list[str]]], tmp_path: Path
) -> None:
    plugins(msgspec.structs.replace(BENCHED, verdict="incorrect"))
    assert evidence.plugin_gemv(tmp_path).status == "failed"
    commands = plugins(BENCHED, "absent")
    assert evidence.plugin_gemv(tmp_path) == evidence.Outcome(status="absent", headline="what it said")
    assert len(commands) == 1


def test_timed_kernels_tell_how_far_expectations_are_off_without_and_with_them(
    seeming_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = gpus.find("h100-sxm5")
    ceilings = gpus.ceilings(spec, tf32=False)
    works = works_to_time(spec, ceilings, ROW_LENGTHS)
    expected = [one.expected_ns or 0 for one in expect(works, spec, ceilings, tf32=False)]

    def time_kernels(*_: object, **__: object) -> KernelTimes:
        return KernelTimes({at: 1.5 * ns for at, ns in enumerate(expected)}, None)

    monkeypatch.setattr(kernel_times, "time_kernels", time_kernels)
    found = evidence.kernels_timed(tmp_path)
    assert found.status == "ok"
    assert found.facts["held_out"]["all"]["before"] == pytest.approx(1 / 3, abs=1e-3)
    assert found.facts["held_out"]["all"]["after"] < 0.15
    assert f"{len(works)} kernels timed; " in found.headline
    out = tmp_path / "out"
    out.mkdir()
    step = evidence.Done(part="calibrate", step="kernels", outcome=found)
    results = evidence.Results(created="", command="", versions={}, budget_s=1, took_s=1, steps=(step,))
    evidence.save(results, out, tmp_path)
    assert len(read_measured(out / "kernels.csv").rows()) == len(works)
    assert json.loads((out / "expected.json").read_text())["held_out"] == found.facts["held_out"]
    # All too fast: a clock that went wrong is no accuracy.
    monkeypatch.setattr(kernel_times, "time_kernels", lambda *_, **__: KernelTimes({0: 0.01}, None))
    assert evidence.kernels_timed(tmp_path).status == "failed"


def test_counters_are_held_against_the_predictions_by_class(
    seeming_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fakes.fake_ncu import FakeNcu
    from tests.fakes.ncu_factory import counted

    fake = FakeNcu(tmp_path / "nsight")
    monkeypatch.setenv(ncu.NCU_VARIABLE, str(fake.path))
    monkeypatch.setattr(evidence, "classes_file", lambda _: SAMPLES / "resnet_tiny.onnx")
    run_model = evidence.run_model

    def of_one_image(*given: Any, **named: Any) -> Any:
        return run_model(*given, **named, batch=1)

    monkeypatch.setattr(evidence, "run_model", of_one_image)
    plain = run_model(tmp_path, "plain", SAMPLES / "resnet_tiny.onnx", batch=1, verify=False)
    fake.counts([
        counted(layer.kernels[0].kernel, read=(2 if layer.op_type == "Softmax" else 1) * layer.bytes)
        for layer in plain.layers if layer.bytes and layer.kernels
    ])  # fmt: skip
    outcome = do(tmp_path, evidence.counted)
    assert outcome.status == "ok", outcome
    assert outcome.facts["ncu"] == "2022.3.0.0"
    verdicts = outcome.facts["verdicts"]["DRAM bytes"]
    assert verdicts["conv"]["confirmed"] >= 1
    assert "not counted" in outcome.headline or not outcome.facts["uncounted"]
    assert re.match(r"\d+ launches of \d+ layers", outcome.headline)
    checks = [check for row in outcome.facts["layers"] for check in row["checks"] if check["what"] == "DRAM bytes"]
    assert all(check["counted_high"] is not None for check in checks)
    assert f"--launch-count {evidence.KERNELS_COUNTED}" not in " ".join(fake.calls()[-1])
    fake.behave(said="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", code=1)
    denied = do(tmp_path, evidence.counted)
    assert denied.status == "absent"
    assert "performance counters" in denied.headline


def test_each_nsys_is_asked_whether_it_sees_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = tmp_path / "good" / "nsys", tmp_path / "bad" / "nsys"

    def find() -> nsys.Nsys:
        path = Path(os.environ.get("TRTPROF_NSYS", good))
        version = (2025, 6) if path == good else (2023, 4)
        others = () if "TRTPROF_NSYS" in os.environ else (f"{bad} (2023.4)",)
        return nsys.Nsys(path=path, version=version, version_text=".".join(map(str, version)), why="", others=others)

    def seen(tool: nsys.Nsys, output: Path) -> str:
        if tool.path == bad:
            raise MissingError("nsys is too old", why="driver 580", fix="another")
        return "traces 8 of 8 kernels"

    monkeypatch.delenv("TRTPROF_NSYS", raising=False)
    monkeypatch.setattr(nsys, "find", find)
    monkeypatch.setattr(evidence, "kernels_seen", seen)
    monkeypatch.setenv("TRTPROF_NSYS", "")
    monkeypatch.delenv("TRTPROF_NSYS")
    outcome = do(tmp_path, evidence.traced)
    assert outcome.status == "ok"
    assert outcome.facts["nsys"] == {
        f"2025.6 ({good})": "traces 8 of 8 kernels",
        f"2023.4 ({bad})": "no: nsys is too old; driver 580; fix: another",
    }


def test_what_a_machine_has_is_told_and_what_it_lacks_said(seeming_gpu: None, tmp_path: Path) -> None:
    outcome = do(tmp_path, evidence.machine)
    assert outcome.status == "ok"
    assert outcome.headline == "NVIDIA H100 80GB HBM3, driver 580.0, CUDA unknown; runs ort-cuda, ort-cpu"
    assert outcome.facts["datasheet"].startswith("h100-sxm5: ")
    assert outcome.facts["packages"]["numpy"] == np.__version__
    assert all(outcome.facts[name] for name in ("nsys", "ncu", "nvcc", "cupti"))


def test_wrong_outputs_and_an_open_ledger_fail(tmp_path: Path) -> None:
    run = RunFolder(ROOT / "reports" / "example").report()
    assert evidence.ran(run).status == "ok"
    row = msgspec.structs.replace(run.ledger[0], ns=run.ledger[0].ns + 1)
    opened = msgspec.structs.replace(run, ledger=(row, *run.ledger[1:]))
    assert evidence.ran(opened).status == "failed"
    assert "ledger off by 1 ns" in evidence.ran(opened).headline
    from trtprof.base.records import TensorCheck

    wrong = TensorCheck(name="y", dtype="fp32", max_abs=1, max_rel=1, tolerance=9, matches=False)
    checked = evidence.ran(msgspec.structs.replace(run, checks=(wrong,)))
    assert checked.status == "failed"
    assert "WRONG outputs: y" in checked.headline


def test_without_a_tool_a_step_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ncu") or shutil.which("nsys") or nvml.gpus()[0]:
        pytest.skip("there are such tools here")
    monkeypatch.setenv("TRTPROF_NCU", str(tmp_path / "no-ncu"))
    monkeypatch.setenv("TRTPROF_NSYS", str(tmp_path / "no-nsys"))
    for step in (
        evidence.counted, evidence.traced, evidence.run_tensorrt, evidence.calibrated, evidence.run_gemv,
        evidence.plugin_gemv,
    ):  # fmt: skip
        outcome = do(tmp_path, step)
        assert outcome.status == "absent", outcome
        assert outcome.headline
        assert not outcome.facts


def test_the_checks_of_the_project_say_how_they_ended() -> None:
    def headline(out: Any) -> str:
        return f"{len(out)} lines"

    said = {
        code: evidence.checked_by(
            [sys.executable, "-c", f"print('a row'); import sys; print('why', file=sys.stderr); sys.exit({code})"],
            headline,
        )
        for code in (0, 1, 3)
    }
    assert {code: one.status for code, one in said.items()} == {0: "ok", 1: "failed", 3: "absent"}
    assert said[0].headline == "1 lines"
    assert said[3].headline == "why"
    assert json.loads(msgspec.json.encode(said[0]))["facts"]["printed"] == ["a row"]
