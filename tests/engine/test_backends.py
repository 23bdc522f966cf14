"""Which backends can run here, and why the others cannot."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from profiler.engine.backends import backends, onnxruntime_version


def hide(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Make packages look as if they were not installed."""
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in modules else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


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
    monkeypatch.setattr("ctypes.util.find_library", lambda _name: driver)
    hide(monkeypatch, "tensorrt")
    found = {status.name: status for status in backends()}
    assert "the package tensorrt is not installed" in found["tensorrt"].reason
    for name in ("tensorrt", "tensorrt-rtx", "ort-cuda"):
        assert ("no NVIDIA driver" in found[name].reason) == (driver is None)
    assert found["ort-cpu"].available, "it needs neither"


@pytest.mark.parametrize(
    ("backend", "driver", "can"),
    [
        ("tensorrt-rtx", None, "TensorRT-RTX 1.7.1 builds and shows the plan, cannot run here"),
        ("tensorrt-rtx", "libcuda.so.1", "TensorRT-RTX 1.7.1 builds and shows the plan, cannot run here"),
        ("tensorrt", None, "TensorRT 1.7.1 cannot build here"),
        ("tensorrt", "libcuda.so.1", "TensorRT 1.7.1 builds and shows the plan, cannot run here"),
    ],
)
def test_what_is_installed_says_what_it_can_do_without_a_gpu(
    backend: str, driver: str | None, can: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda _name: driver)
    monkeypatch.setattr("profiler.engine.backends.installed_version", lambda _product: "1.7.1")
    (found,) = (status for status in backends() if status.name == backend)
    assert not found.available, "it cannot run a model yet"
    assert found.reason.startswith(can)
    assert found.fix


def test_without_onnxruntime_nothing_pretends_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "onnxruntime")
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
