"""Which backends can run here, and what the others lack."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
from typing import NamedTuple

from profiler.engine.dialect import PRODUCTS, Product, installed_version, product_of
from profiler.errors import MissingError


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
    driver = has_driver()
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
    uses = "; `trtprof build` and `trtprof predict --level layers` use this one" if builds else ""
    return BackendStatus(product.backend, False, f"{title} {can}: {_NOT_RUN}{gpu}", f"use --backend ort-cpu{uses}")


def has_driver() -> bool:
    """Whether an NVIDIA driver is installed, without which TensorRT builds nothing."""
    return ctypes.util.find_library("cuda") is not None


def choose_builder(asked: str = "auto") -> tuple[str, str]:
    """The backend that builds an engine here, and why it was chosen, in words.

    Args:
        asked: ``tensorrt``, ``tensorrt-rtx``, or ``auto``: TensorRT where it and a driver are installed, else
            TensorRT-RTX.

    Raises:
        UsageError: There is no such backend, or it builds no engines.
        MissingError: Under ``auto``, none can build here. What is asked for by name is not looked for.
    """
    if asked != "auto":
        return product_of(asked).backend, "asked for"
    tensorrt, rtx = PRODUCTS["tensorrt"], PRODUCTS["tensorrt-rtx"]
    has_tensorrt, has_rtx = (installed_version(product) is not None for product in (tensorrt, rtx))
    if has_tensorrt and has_driver():
        return tensorrt.backend, "TensorRT and a driver are installed"
    if has_rtx:
        missing = "no NVIDIA driver is here, and it needs none" if has_tensorrt else "TensorRT is not installed"
        return rtx.backend, missing
    if has_tensorrt:
        raise MissingError(
            "no engine can be built here",
            why="TensorRT is installed, but no NVIDIA driver (libcuda)",
            fix=f"{rtx.install}: TensorRT-RTX builds without a GPU",
        )
    raise MissingError(
        "no engine can be built here",
        why=f"neither {tensorrt.module} nor {rtx.module} is installed",
        fix=f"{rtx.install}, which needs no GPU, or {tensorrt.install} where there is one",
    )


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
