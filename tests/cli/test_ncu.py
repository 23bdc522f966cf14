"""``trtprof analyze --ncu`` and ``run --confirm``: counters beside times, from files and with a stand-in for ncu."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.fake_ncu import FakeNcu
from tests.fakes.ncu_factory import counted, ncu_csv
from tests.fakes.seeming_gpu import seem
from tests.fakes.support import ROOT, SAMPLES
from tests.fakes.trace_factory import Layer, Process, Work, write_trace
from trtprof.align.counters import function
from trtprof.base.records import LiveGpu
from trtprof.base.run_folder import RunFolder
from trtprof.capture.ncu import record as ncu
from trtprof.engine.inspector import read_layer_info
from trtprof.flows import run_gpu
from trtprof.flows.report import analysed as analysed_again

PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
RESNET = SAMPLES / "resnet_tiny.onnx"
IDLE = ("signal", "wait", "shape_call")
SLOW_NS = 400_000
AS_CAPTURED: dict[str, Any] = {"ns": SLOW_NS, "grid": Work("").grid, "block": Work("").block}
ADA = LiveGpu(
    index=0, uuid="GPU-1", name="NVIDIA GeForce RTX 4090", compute_capability="8.9", sms=128,
    memory_bytes=25_757_220_864, l2_bytes=75_497_472, bus_bits=384, max_sm_clock_mhz=3105, max_memory_clock_mhz=10501,
    driver="580.0",
)  # fmt: skip


# --- analyze --ncu --------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of an engine whose layers launch one kernel each, all of them slow."""
    layers = tuple(
        Layer(layer.name, () if layer.kind in IDLE else (Work(f"kernel_{at}", ns=SLOW_NS),))
        for at, layer in enumerate(read_layer_info(PLAN).layers)
    )
    path = tmp_path / "run.sqlite"
    write_trace(path, [Process(pid=111, layers=layers, iterations=3)])
    return path


def analysed(capture: Path, *more: str | Path) -> dict[str, Any]:
    """The document of an analysis."""
    arguments = ["analyze", PLAN, capture, "--onnx", RESNET, "--gpu", "rtx-4090", "--format", "json", *more]
    result = trtprof(*arguments)
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_counters_confirm_and_refute_layers(capture: Path, tmp_path: Path) -> None:
    plain = analysed(capture)
    found = {layer["name"]: layer for layer in plain["layers"] if (layer["bytes"] or 0) > 100_000}
    good, bad = list(found.values())[:2]
    path = tmp_path / "counters.csv"
    launches = [
        counted(
            good["kernels"][0]["name"],
            read=good["work"]["bytes_read"],
            written=good["work"]["bytes_written"],
            **AS_CAPTURED,
        ),
        counted(bad["kernels"][0]["name"], read=9 * bad["bytes"], **AS_CAPTURED),
        counted("a_kernel_of_nobody", read=1),
    ]
    path.write_text(ncu_csv(launches, form="long"))
    for how in ([path], ["--ncu", path]):
        told = analysed(capture, *how)
        verdicts = {one["layer"]: one["verdict"] for one in told["confirmations"]}
        assert verdicts == {good["name"]: "confirmed", bad["name"]: "refuted"}
        notes = "\n".join(told["assumptions"])
        assert "hardware counters of 3 launches, led to 2 layers: 1 confirmed, 1 refuted" in notes
        assert "no layer runs, with those blocks and threads, a kernel called a_kernel_of_nobody" in notes
        # The times, what is lost and the ledger are those of the capture alone.
        for name in ("latency", "ledger", "layers", "coverage", "verdict"):
            assert told[name] == plain[name]
    said = trtprof("analyze", PLAN, capture, "--onnx", RESNET, "--gpu", "rtx-4090", "--ncu", path).stderr
    assert f"counters: {bad['name']}: refuted: " in said
    assert "9.00 times of it" in said
    assert plain["confirmations"] == []


# --- run --confirm --------------------------------------------------------------------------


@pytest.fixture
def seeming_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that seems to have an RTX 4090."""
    seem(monkeypatch, tmp_path, ADA, ("ort-cuda",))


RUN = (
    "run", RESNET, "--backend", "ort-cuda", "--batch", "2", "--duration", "0", "--iterations", "3", "--warmUp", "0",
    "--profile-iterations", "3", "--collector", "cupti",
)  # fmt: skip


@pytest.mark.usefixtures("seeming_gpu")
def test_without_ncu_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_run(*_: object, **__: object) -> None:
        raise AssertionError("it must not get that far")

    monkeypatch.setattr(run_gpu, "capture_gpu", no_run)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = trtprof(*RUN, "--confirm", "3", "-o", tmp_path / "run")
    assert result.exit_code == 3
    assert "Nsight Compute (ncu) is not installed here" in result.stderr


@pytest.mark.process
@pytest.mark.usefixtures("seeming_gpu")
def test_the_worst_kernels_are_counted_and_held_against_the_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeNcu(tmp_path / "nsight")
    monkeypatch.setenv(ncu.NCU_VARIABLE, str(fake.path))
    plain = trtprof(*RUN, "-o", tmp_path / "plain", "--format", "json")
    assert plain.exit_code == 0, plain.stderr
    worst = json.loads(plain.stdout)["layers"]
    fake.counts([counted(layer["kernels"][0]["name"], read=layer["bytes"]) for layer in worst if layer["bytes"]])
    result = trtprof(*RUN, "-o", tmp_path / "run", "--confirm", "2", "--format", "json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["confirmations"]
    assert told["versions"]["ncu"] == "2022.3.0.0"
    (asked,) = [call for call in fake.calls() if "--kernel-name" in call]
    names = asked[asked.index("--kernel-name") + 1].removeprefix("regex:^(").removesuffix(")$").split("|")
    assert len(names) == 2
    assert set(names) <= {function(kernel["name"]) for layer in told["layers"] for kernel in layer["kernels"]}
    # What the run under ncu left is not that of the run itself, and the saved run gives the same again.
    folder = RunFolder(tmp_path / "run")
    assert analysed_again(folder) == folder.report()
    assert told["profiled"]["n"] == 3
