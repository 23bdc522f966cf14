"""Which backends can run here, and why the others cannot."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

from tests.fakes.support import hide_modules, refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.engine.backends import backends, choose_builder, onnxruntime_version
from trtprof.runtime.tensorrt_module import Product


def test_a_driver_without_a_gpu_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    no_device = SimpleNamespace(cuInit=lambda _flags: 100)
    monkeypatch.setattr("trtprof.engine.backends._driver", lambda: no_device)
    found = {status.name: status for status in backends()}
    for name in ("tensorrt", "tensorrt-rtx", "ort-cuda"):
        assert not found[name].available
        assert "the NVIDIA driver finds no GPU here" in found[name].reason
    assert found["ort-cpu"].available


def test_the_cpu_is_available_and_says_which_onnxruntime() -> None:
    (cpu,) = (status for status in backends() if status.name == "ort-cpu")
    assert cpu.available
    import onnxruntime

    assert onnxruntime.__version__ in cpu.reason
    assert cpu.fix == ""


def test_auto_tries_the_fastest_first_and_the_cpu_last() -> None:
    assert [status.name for status in backends()] == ["tensorrt", "tensorrt-rtx", "ort-cuda", "ort-cpu"]


def test_what_cannot_run_says_why_and_what_to_do() -> None:
    for status in backends():
        if not status.available:
            assert status.reason, status
            assert status.fix, status


@pytest.mark.parametrize("driver", [None, "libcuda.so.1"])
def test_a_missing_driver_and_package_are_named(driver: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtprof.engine.backends._driver", lambda: driver)
    hide_modules(monkeypatch, "tensorrt")
    found = {status.name: status for status in backends()}
    assert "the package tensorrt is not installed" in found["tensorrt"].reason
    for name in ("tensorrt", "tensorrt-rtx", "ort-cuda"):
        assert ("no NVIDIA driver" in found[name].reason) == (driver is None)
    assert found["ort-cpu"].available, "it needs neither"


@pytest.mark.parametrize(
    ("backend", "driver", "can"),
    [
        ("tensorrt-rtx", None, "TensorRT-RTX 1.7.1 builds and shows the plan, cannot run here"),
        ("tensorrt-rtx", "libcuda.so.1", ""),
        ("tensorrt", None, "TensorRT 1.7.1 cannot build here"),
        ("tensorrt", "libcuda.so.1", ""),
    ],
)
def test_what_is_installed_says_what_it_can_do_without_a_gpu(
    backend: str, driver: str | None, can: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trtprof.engine.backends._driver", lambda: driver)
    monkeypatch.setattr("trtprof.engine.backends.installed_version", lambda _product: "1.7.1")
    monkeypatch.setattr("trtprof.engine.backends.is_installed", lambda _module: True)
    monkeypatch.setattr("trtprof.runtime.ort_session.why_no_cuda_provider", lambda: "")
    (found,) = (status for status in backends() if status.name == backend)
    if not can:
        assert found.available
        assert found.fix == ""
        return
    assert not found.available
    assert found.reason.startswith(can)
    assert ("trtprof build" in found.fix) == ("builds" in can)


def test_an_engine_that_cannot_be_timed_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtprof.engine.backends._driver", lambda: "libcuda.so.1")
    monkeypatch.setattr("trtprof.engine.backends.installed_version", lambda _product: "10.16")
    monkeypatch.setattr("trtprof.engine.backends.is_installed", lambda module: module != "cuda.bindings")
    monkeypatch.setattr("trtprof.runtime.ort_session.why_no_cuda_provider", lambda: "libcudnn.so.9 cannot be loaded")
    found = {status.name: status for status in backends()}
    assert "cuda-bindings" in found["tensorrt"].reason
    assert "cuda-bindings" in found["tensorrt"].fix
    assert found["ort-cuda"].reason == "libcudnn.so.9 cannot be loaded"
    assert "cudnn" in found["ort-cuda"].fix


@pytest.mark.parametrize(
    ("installed", "driver", "chosen"),
    [
        ({"tensorrt", "tensorrt_rtx"}, "libcuda.so.1", "tensorrt"),
        ({"tensorrt", "tensorrt_rtx"}, None, "tensorrt-rtx"),
        ({"tensorrt_rtx"}, "libcuda.so.1", "tensorrt-rtx"),
        ({"tensorrt"}, None, ""),
        (set(), "libcuda.so.1", ""),
    ],
)
def test_what_builds_here(
    installed: set[str], driver: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(product: Product) -> str | None:
        return "1" if product.module in installed else None

    monkeypatch.setattr("trtprof.engine.backends._driver", lambda: driver)
    monkeypatch.setattr("trtprof.engine.backends.installed_version", version)
    if chosen:
        backend, reason = choose_builder()
        assert backend == chosen
        assert reason
        return
    with pytest.raises(MissingError) as caught:
        choose_builder()
    assert "pip install 'trtprof[rtx]'" in refused(caught.value)


def test_a_builder_that_is_asked_for_by_name_is_taken() -> None:
    assert choose_builder("tensorrt") == ("tensorrt", "asked for")
    with pytest.raises(UsageError, match="builds no TensorRT engine"):
        choose_builder("ort-cpu")


def test_without_onnxruntime_nothing_pretends_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_modules(monkeypatch, "onnxruntime")
    found = {status.name: status for status in backends()}
    assert not found["ort-cpu"].available
    assert "onnxruntime" in found["ort-cpu"].reason
    assert "pip install" in found["ort-cpu"].fix


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"onnxruntime": "1.2"}, "1.2 (onnxruntime)"),
        ({"onnxruntime": "1.2", "onnxruntime-gpu": "1.3"}, "1.3 (onnxruntime-gpu)"),
        ({}, "of unknown version"),
    ],
)
def test_the_version_is_that_of_the_wheel_whatever_it_is_called(
    installed: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert onnxruntime_version() == expected
