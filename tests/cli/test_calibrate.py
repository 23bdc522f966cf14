"""`trtprof calibrate` as a person uses it, with ceilings that a test fixed: those of the hardware are real."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.measured import measured
from tests.fakes.support import SAMPLES, fixed_ceilings
from trtprof.base.records import SCHEMA_VERSION, Ceilings, CeilingsDocument, Core, LiveGpu, Measurement
from trtprof.expected import expect, work_at
from trtprof.hardware import calibrate, gpus, nvml, store
from trtprof.hardware.cuda import calibrate as cuda_calibrate
from trtprof.hardware.cuda import kernel_times
from trtprof.hardware.cuda._exchange import KernelShape
from trtprof.hardware.cuda.kernel_times import KernelTimes

FIXED = msgspec.structs.replace(
    fixed_ceilings(),
    measurements={
        "tensor fp32": Measurement(value=5e11, unit="FLOP/s", what="MatMul 512", repeats=3, spread=0.012, threads=2),
        "special exp": Measurement(value=1.9e10, unit="1/s", what="Exp 8 MB", repeats=2, spread=0.3, threads=2),
        "dram": Measurement(value=5e10, unit="B/s", what="EyeLike 268 MB", repeats=1, threads=2),
        "launch": Measurement(value=150.0, unit="ns", what="empty nodes", repeats=3, spread=0.0, threads=2),
        "best dram": Measurement(value=6e10, unit="B/s", what="Neg 268 MB", repeats=3, spread=0.1, threads=1),
    },
    clocks_mhz={"before": 2600.0, "during": 3100.0},
)
GPU = LiveGpu(index=0, uuid="GPU-1", name="NVIDIA Fake 4090", driver="575.57")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRTPROF_THREADS", raising=False)


def keep(threads: int, ceilings: Ceilings = FIXED) -> Path:
    shelf = store.of_host(threads)
    shelf.write(ceilings, lambda _: None)
    return shelf.path


def document(ceilings: Ceilings = FIXED, kept_in: str = "", age_days: int | None = None) -> CeilingsDocument:
    return CeilingsDocument(
        schema_version=SCHEMA_VERSION,
        ceilings=ceilings,
        ridge_flop_per_byte={"fp32": 10.0},
        kept_in=kept_in,
        age_days=age_days,
    )


def test_it_measures_replaces_what_is_kept_and_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--show` prints the same document afterwards."""
    monkeypatch.setattr(calibrate, "measure_in_child", lambda request, _: measured(request.threads))
    path = keep(1)
    done = trtprof("calibrate", "--device", "cpu", "--threads", "1", "--seconds", "0", "--format", "json")
    assert done.exit_code == 0, done.output
    first = json.loads(done.stdout)
    assert first["kept_in"] == str(path)
    assert first["ceilings"]["source"] != FIXED.source
    assert not first["ceilings"]["cached"]
    roof = first["ceilings"]["attainable"]
    for dtype, ridge in first["ridge_flop_per_byte"].items():
        assert ridge == pytest.approx(roof["tensor_flops_per_s"][dtype] / roof["dram_bytes_per_s"])
    assert re.search(r"^ceilings +[0-9.]+ s  . threads?: fp32 ", done.stderr, re.MULTILINE)
    assert "ceilings  " not in done.stdout

    again = trtprof("calibrate", "--device", "cpu", "--threads", "1", "--show", "--format", "json")
    assert again.exit_code == 0, again.output
    shown = json.loads(again.stdout)
    assert shown["age_days"] == 0
    assert shown["ceilings"] == first["ceilings"] | {"cached": True}
    assert "ceilings  " not in again.stderr


def test_show_prints_a_table_of_what_is_kept() -> None:
    path = keep(2)
    done = trtprof("calibrate", "--threads", "2", "--show")
    assert done.exit_code == 0, done.output
    rows = {line[:12].strip(): line for line in done.stdout.splitlines()}
    assert rows["compute fp32"].split() == ["compute", "fp32", "500", "GFLOP/s", "1.2", "%", "3", "MatMul", "512"]
    assert rows["special exp"].split()[2:7] == ["19.0", "Geval/s", "30.0", "%", "2"]
    # One repeat has no spread, which is not the same as none.
    assert rows["memory"].split() == ["memory", "50.0", "GB/s", "-", "1", "EyeLike", "268", "MB"]
    assert rows["launch"].split()[1:5] == ["150", "ns", "0.0", "%"]
    assert rows["best memory"].endswith("Neg 268 MB, 1 thread")
    assert "clock 2600 MHz before, 3100 MHz during" in done.stdout
    assert "fp32 10.0" in done.stdout  # 500 GFLOP/s at 50 GB/s
    assert f"kept in {path}" in done.stdout
    assert "device auto: the CPU" in done.stderr


def test_nothing_kept_is_said_with_the_command_that_mends_it() -> None:
    done = trtprof("calibrate", "--threads", "2", "--show")
    assert done.exit_code == 3
    assert "no ceilings are kept" in done.stderr
    assert "at 2 threads" in done.stderr
    assert "fix: trtprof calibrate --threads 2" in done.stderr
    assert done.stdout == ""


def test_a_gpu_that_is_not_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: ((), "no NVIDIA driver is installed here"))
    done = trtprof("calibrate", "--device", "gpu:0")
    assert done.exit_code == 3
    assert "there is no GPU 0 here\n  why: no NVIDIA driver is installed here\n  fix: --device cpu" in done.stderr
    monkeypatch.setattr(nvml, "gpus", lambda: ((GPU,), ""))
    done = trtprof("calibrate", "--device", "gpu:1")
    assert done.exit_code == 3
    assert "the driver sees gpu:0 NVIDIA Fake 4090" in done.stderr


def test_a_gpu_is_measured_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, dict[str, float]]] = []

    def calibrate_gpu(index: int, *, progress: Callable[[str], None], **options: float) -> Ceilings:
        asked.append((index, options))
        progress("measuring a fake")
        return msgspec.structs.replace(FIXED, device=GPU.name, threads=0)

    monkeypatch.setattr(nvml, "gpus", lambda: ((GPU,), ""))
    module = SimpleNamespace(calibrate_gpu=calibrate_gpu, SECONDS=20.0)
    monkeypatch.setitem(sys.modules, "trtprof.hardware.cuda.calibrate", module)
    done = trtprof("calibrate", "--device", "gpu:0", "--seconds", "2")
    assert done.exit_code == 0, done.output
    assert asked == [(0, {"seconds": 2.0})]
    first, second = done.stderr.splitlines()[:2]
    assert first.split() == ["ceilings", "0.0", "s", "measuring", "a", "fake"]
    assert "no kernels were timed: no datasheet is of NVIDIA Fake 4090" in second
    assert "no kernels were timed" in " ".join(done.stdout.split())
    assert str(store.of_gpu(GPU).path) in done.stdout
    assert trtprof("calibrate", "--device", "gpu:0", "--show").exit_code == 0
    trtprof("calibrate", "--device", "gpu:0")
    assert asked[1:] == [(0, {"seconds": 20.0})]


def test_the_kernels_of_a_gpu_are_timed_kept_shown_and_used_by_a_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the GPU, whose kernels take twice what is expected of them."""
    gpu = LiveGpu(index=0, uuid="GPU-1", name="NVIDIA L4", driver="580.0", memory_bytes=24_152_899_584)
    ceilings = gpus.ceilings(gpus.find("l4"), tf32=False)
    kept = msgspec.structs.replace(ceilings, origin="measured", measured_at="2026-11-23T00:00:00+00:00")
    asked: list[float] = []

    def time_kernels(gpu: LiveGpu, shapes: Sequence[KernelShape], *, seconds: float, **_: object) -> KernelTimes:
        asked.append(seconds)
        works = [work_at(Core(kind=one.kind, batch=one.batch, m=one.m, n=one.n, k=one.k), one.dtype) for one in shapes]
        found = expect(works, gpus.find("l4"), ceilings, tf32=False)
        return KernelTimes({at: 2.0 * (one.expected_ns or 0) for at, one in enumerate(found)}, None)

    monkeypatch.setattr(nvml, "gpus", lambda: ((gpu,), ""))
    monkeypatch.setattr(cuda_calibrate, "calibrate_gpu", lambda *_, **__: kept)
    monkeypatch.setattr(kernel_times, "time_kernels", time_kernels)
    plain = predicted()
    done = trtprof("calibrate", "--device", "gpu:0", "--seconds", "2", "--format", "json")
    assert done.exit_code == 0, done.output
    assert asked == [4.0]
    found = json.loads(done.stdout)
    assert found["kernels"]["rows"] > 290
    assert Path(found["kernels_kept_in"]).is_file()
    shown = " ".join(trtprof("calibrate", "--device", "gpu:0", "--show").stdout.split())
    assert f"from now on expectations are corrected by {found['kernels']['rows']} rows timed on this GPU on 20" in shown
    corrected = predicted()
    assert corrected["corrected"]["rows"] == found["kernels"]["rows"]
    assert corrected["expected_ns"] > 1.5 * plain["expected_ns"]
    assert any("timed on this GPU on" in note for note in corrected["notes"])
    assert predicted("--measured", "none") == plain


def predicted(*more: str) -> Any:
    """What is expected of a transformer's block on the L4."""
    block = str(SAMPLES / "transformer_block.onnx")
    done = trtprof("predict", block, "--gpu", "l4", "--dtype", "fp16", "--format", "json", *more)
    assert done.exit_code == 0, done.output
    (gpu,) = json.loads(done.stdout)["gpus"]
    return gpu
