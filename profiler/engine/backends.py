"""Which backends can run here, and what the others lack."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
from typing import NamedTuple


class BackendStatus(NamedTuple):
    """A backend as this machine has it. ``fix`` says what to do about ``reason``."""

    name: str
    available: bool
    reason: str
    fix: str = ""


_NOT_YET = "this version of trtprof cannot drive it yet"


def backends() -> list[BackendStatus]:
    """Every backend in the order in which ``--backend auto`` tries them."""
    driver = ctypes.util.find_library("cuda") is not None
    gpu = "" if driver else "; no NVIDIA driver (libcuda) here"
    return [
        BackendStatus("tensorrt", False, _NOT_YET + gpu + _package("tensorrt"), "use --backend ort-cpu"),
        BackendStatus("tensorrt-rtx", False, _NOT_YET + gpu + _package("tensorrt_rtx"), "use --backend ort-cpu"),
        BackendStatus("ort-cuda", False, _NOT_YET + gpu, "use --backend ort-cpu"),
        _ort_cpu(),
    ]


def _package(module: str) -> str:
    return "" if importlib.util.find_spec(module) else f"; the package {module} is not installed"


def _ort_cpu() -> BackendStatus:
    if importlib.util.find_spec("onnxruntime") is None:
        return BackendStatus(
            "ort-cpu", False, "the package onnxruntime is not installed", "pip install --force-reinstall trtprof"
        )
    return BackendStatus("ort-cpu", True, f"ONNX Runtime {onnxruntime_version()}")


def onnxruntime_version() -> str:
    """Version of the installed ONNX Runtime wheel, whichever of its names it came under."""
    for name in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return f"{importlib.metadata.version(name)} ({name})"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"
