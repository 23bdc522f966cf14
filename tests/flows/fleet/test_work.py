"""Answering the cells of a fleet: what a prediction, a run and a build leave in a row, and what a failure does."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.fleets import digest
from tests.fakes.in_process import quick
from tests.fakes.report_factory import layer, make_run
from tests.fakes.seeming_gpu import H100, seem
from trtprof.base.records import FleetCell, FleetRow, FleetVerb, Latency, PluginCandidate
from trtprof.base.run_folder import RunFolder
from trtprof.flows import predict as flow
from trtprof.flows.fleet.execute import Task
from trtprof.flows.fleet.measured import elsewhere, kernels
from trtprof.flows.fleet.work import RUN, answer
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus
from trtprof.source.request import ModelRequest

SAMPLES = Path(__file__).parents[3] / "sample_models"


def cell(model: str = "resnet_tiny", target: str = "l4", verb: FleetVerb = "predict", **fields: Any) -> FleetCell:
    path = str(SAMPLES / f"{model}.onnx")
    gpu = target if verb == "predict" else ""
    key = digest(model, target, verb, fields)
    group = digest(model, fields) if verb == "predict" else key
    given = {"path": path, "gpu": gpu, **fields}
    return FleetCell(
        key=key, group=group, model=model, sha256=digest(path), target=target, verb=verb, trtprof="0", **given
    )


def task(*cells: FleetCell, **fields: Any) -> Task:
    return Task(group=cells[0].group, cells=cells, **fields)


def lasting(row: FleetRow) -> dict[str, Any]:
    from trtprof.base.fleet_table import lasting, table_of

    return dict(lasting(table_of([row])).to_pylist()[0])


def test_one_call_predicts_a_model_on_all_gpus_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def predict(*arguments: Any) -> Any:
        calls.append(arguments)
        return real(*arguments)

    real = flow.predict
    monkeypatch.setattr(flow, "predict", predict)
    rows = answer(task(cell(target="rtx-4090"), cell(target="l4"), attempts=("its node was lost",)), tmp_path)
    assert len(calls) == 1
    assert [row.target for row in rows] == ["rtx-4090", "l4"]
    assert {row.status for row in rows} == {"done"}
    assert {row.attempts for row in rows} == {("its node was lost",)}
    request = ModelRequest.of(str(SAMPLES / "resnet_tiny.onnx"))
    alone = real(request, [gpus.find("l4")], Settings(level="auto")).gpus[0]
    l4 = rows[1]
    assert (l4.bound_ns, l4.expected_ns, l4.device) == (alone.time_ns, alone.forecast_ns, "L4")
    assert l4.latency_ns is None
    assert l4.run == ""
    assert l4.layers == len(alone.layers)
    assert l4.memory_bytes
    assert l4.flops
    assert l4.bytes


@pytest.mark.parametrize(("model", "precision"), [("resnet_tiny", "fp16"), ("lstm", "fp16"), ("gemv", "model")])
def test_the_ledger_of_a_prediction_adds_up_to_what_is_expected(model: str, precision: str, tmp_path: Path) -> None:
    (row,) = answer(task(cell(model, precision=precision)), tmp_path)
    # Of the three only one has a forecast, which is that of its layers with the others at their bound.
    assert (row.expected_ns is not None) == (model == "resnet_tiny")
    assert sum(loss.ns for loss in row.ledger) == (row.bound_ns if row.expected_ns is None else row.expected_ns)
    assert sum(kernel.bound_ns or 0 for kernel in row.kernels) == row.bound_ns
    times = [kernel.expected_ns or kernel.bound_ns or 0 for kernel in row.kernels]
    assert times == sorted(times, reverse=True)
    if row.expected_ns is not None:
        assert (row.expected_p10_ns or 0) < row.expected_ns < (row.expected_p90_ns or 0)
        assert sum(times) == row.expected_ns
        assert row.joules == pytest.approx(row.expected_ns / 1e9 * (row.tdp_w or 0))
        assert "have no expectation, and count with their bound" in row.doubts
    else:
        assert "no forecast: " in row.doubts


def test_a_model_that_cannot_be_read_fails_every_cell_with_the_words_of_its_error(tmp_path: Path) -> None:
    broken = tmp_path / "copied.onnx"
    broken.write_bytes(b"no model")
    cells = (cell(target="rtx-4090"), cell(target="l4"))
    rows = answer(task(*cells), tmp_path, broken)
    assert [(row.status, row.stage, row.bound_ns) for row in rows] == [("failed", "source", None)] * 2
    assert rows[0].error.startswith(cells[0].path)
    assert rows[0].why
    assert "copied.onnx" not in rows[0].error + rows[0].why + rows[0].fix
    assert [row.key for row in rows] == [each.key for each in cells]


def test_a_gpu_that_fails_does_not_fail_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = flow.predict

    def predict(request: Any, specs: Any, *rest: Any) -> Any:
        if any(spec.slug == "t4" for spec in specs):
            raise ZeroDivisionError("of the T4")
        return real(request, specs, *rest)

    monkeypatch.setattr(flow, "predict", predict)
    rows = answer(
        task(cell(target="l4"), cell(target="t4"), cell(target="rtx-9999"), cell(target="h100-sxm")), tmp_path
    )
    assert [row.status for row in rows] == ["done", "failed", "failed", "done"]
    assert rows[1].error == "ZeroDivisionError: of the T4"
    assert "Traceback" in rows[1].log
    assert rows[2].stage == "datasheet"
    assert "rtx-9999" in rows[2].error
    assert lasting(rows[0]) == lasting(answer(task(cell(target="l4")), tmp_path)[0])


SHORT = {"duration": "0.05", "warmup": "10", "profile-iterations": "3", "threads": "1"}


def test_a_run_leaves_its_folder_and_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    asked = cell("resnet_tiny", "here", "run", gpu="l4", options={"backend": "ort-cpu", **SHORT})
    (row,) = answer(task(asked), tmp_path)
    assert (row.status, row.error) == ("done", "")
    assert row.doubts.startswith(f"it ran on {row.device}, and L4 was asked for")
    report = json.loads((tmp_path / RUN / "report.json").read_bytes())
    latency, low, high = row.latency_ns or 0, row.latency_low_ns or 0, row.latency_high_ns or 0
    assert latency == msgspec.convert(report["latency"], Latency).headline_ns
    assert low <= latency <= high
    # What processes differ by is in it: it is never narrower.
    assert high - low > 2 * 0.02 * latency
    assert sum(loss.ns for loss in row.ledger) == row.latency_ns
    assert row.verdict == report["verdict"]
    assert row.layers == len(report["layers"])
    assert sum(kernel.count for kernel in row.kernels) == row.layers > len(row.kernels)
    times = [kernel.measured_ns or 0 for kernel in row.kernels]
    assert times == sorted(times, reverse=True)
    assert sum(times) == sum(layer["measured_ns"] for layer in report["layers"])
    assert {kernel.kernel[:4] for kernel in row.kernels} == {"CPU:"}
    # Not what is attainable by the ceilings of this run, which others disturbed: a correct kernel may well be faster.
    assert row.bound_ns == next(loss.ns for loss in row.ledger if loss.cause == "ideal")
    assert row.bound_ns < sum(layer["attainable_ns"] for layer in report["layers"] if layer["role"] == "compute")
    assert row.joules is None, "a CPU has no datasheet"


def test_a_run_on_a_gpu_takes_energy_by_its_datasheet_and_weighs_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seem(monkeypatch, tmp_path, H100, ("tensorrt", "tensorrt-rtx", "ort-cuda", "ort-cpu"))
    options = {"backend": "ort-cuda", "collector": "cupti", "duration": "0", "iterations": "5", "warmup": "0"}
    scratch = tmp_path / "scratch"
    asked = cell("resnet_tiny", "h100", "run", gpu="h100-sxm", options={**options, "profile-iterations": "4"})
    (row,) = answer(task(asked), scratch)
    assert (row.status, row.error, row.device) == ("done", "", H100.name)
    assert row.joules == pytest.approx((row.latency_ns or 0) / 1e9 * (row.tdp_w or 0))
    assert row.tdp_w == gpus.find("h100-sxm").tdp_w.value
    run = RunFolder(scratch / RUN).report()
    assert row.doubts == "; ".join((*run.doubts, *run.lacking)) != ""
    assert {kernel.kernel for kernel in row.kernels} == {layer.kernels[0].kernel for layer in run.layers}
    assert elsewhere(RunFolder(scratch / RUN), gpus.find("l4")) == f"it ran on {H100.name}, and L4 was asked for"


def test_the_win_of_a_kernel_is_that_of_its_candidates_and_there_is_none_without_a_verdict() -> None:
    def weighed(name: str, net: int) -> PluginCandidate:
        return PluginCandidate(
            layer=name, nodes=(), kernel="gemv", measured_ns=9, reachable_ns=1, basis="", recoverable_ns=8, barrier=(),
            net_ns=net, net_low_ns=net - 2, net_high_ns=net + 3, verdict="write it" if net > 5 else "try first", why="",
        )  # fmt: skip

    run = make_run(tuple(layer(name, "MatMul", flops=1, nbytes=1, slow=2.0) for name in ("first", "second")))
    run = msgspec.structs.replace(run, candidates=(weighed("second", 7), weighed("first", 4)), verdict="3.1 x the roof")
    same = tuple(msgspec.structs.replace(each, kernels=run.layers[0].kernels) for each in run.layers)
    run = msgspec.structs.replace(run, layers=same)
    (kernel,) = kernels(run)
    assert (kernel.layer, kernel.verdict) == ("second", "write it")
    assert (kernel.win_ns, kernel.win_low_ns, kernel.win_high_ns) == (11, 7, 17)
    costs = msgspec.structs.replace(weighed("first", -4), verdict="do not")
    (kernel,) = kernels(msgspec.structs.replace(run, candidates=(weighed("second", 7), costs)))
    assert (kernel.verdict, kernel.win_ns) == ("write it", 7), "nobody puts it where it costs"
    (kernel,) = kernels(msgspec.structs.replace(run, verdict="no verdict: p99 is 19 x the median"))
    assert (kernel.verdict, kernel.win_ns, kernel.win_low_ns) == ("not decided", None, None)


@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="tensorrt_rtx is not installed")
def test_a_build_tells_what_the_engine_is_and_no_time(tmp_path: Path) -> None:
    (row,) = answer(task(cell("resnet_tiny", "here", "build", options={"backend": "tensorrt-rtx"})), tmp_path)
    assert (row.status, row.error, row.latency_ns, row.bound_ns) == ("done", "", None, None)
    assert row.layers > 5
    assert row.flops
    assert row.bytes
