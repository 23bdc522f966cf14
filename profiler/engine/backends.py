"""Which backends can run here, and what the others lack."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
from typing import NamedTuple

from profiler.engine.dialect import PRODUCTS, Product, installed_version


class BackendStatus(NamedTuple):
    """A backend as this machine has it. ``fix`` says what to do about ``reason``."""

    name: str
    available: bool
    reason: str
    fix: str = ""


_NOT_YET = "this version of trtprof cannot drive it yet"
_NOT_RUN = "this version of trtprof cannot run its engines yet"


def backends() -> list[BackendStatus]:
    """Every backend in the order in which ``--backend auto`` tries them."""
    driver = ctypes.util.find_library("cuda") is not None
    gpu = "" if driver else "; no NVIDIA driver (libcuda) here"
    return [
        _tensorrt(PRODUCTS["tensorrt"], driver=driver, gpu=gpu),
        _tensorrt(PRODUCTS["tensorrt-rtx"], driver=driver, gpu=gpu),
        BackendStatus("ort-cuda", False, _NOT_YET + gpu, "use --backend ort-cpu"),
        _ort_cpu(),
    ]


def _tensorrt(product: Product, *, driver: bool, gpu: str) -> BackendStatus:
    """What it can do here: TensorRT-RTX builds without a GPU, TensorRT does not, and neither runs yet."""
    version = installed_version(product)
    if version is None:
        reason = f"{_NOT_RUN}{gpu}; the package {product.module} is not installed"
        return BackendStatus(product.backend, False, reason, f"use --backend ort-cpu; to build: {product.install}")
    title = f"{product.title} {version}".strip()
    builds = driver or product.backend == "tensorrt-rtx"
    can = "builds and shows the plan, cannot run here" if builds else "cannot build here"
    return BackendStatus(product.backend, False, f"{title} {can}: {_NOT_RUN}{gpu}", "use --backend ort-cpu")


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
