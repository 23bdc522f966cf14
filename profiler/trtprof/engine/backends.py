"""Which backends can run here, and what the others lack."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
from contextlib import suppress
from typing import NamedTuple

from trtprof.base.errors import MissingError
from trtprof.runtime.tensorrt_module import PRODUCTS, Product, installed_version, product_of


class BackendStatus(NamedTuple):
    """A backend as this machine has it. ``fix`` says what to do about ``reason``."""

    name: str
    available: bool
    reason: str
    fix: str = ""


_NO_DRIVER = "no NVIDIA driver (libcuda) here"
_NO_GPU = "the NVIDIA driver finds no GPU here"
_NO_DEVICE = 100  # What cuInit says (CUDA_ERROR_NO_DEVICE) where the driver's library is installed without a GPU
_INSTALL_ORT = "pip install --force-reinstall trtprof"
_ON_CPU = "use --backend ort-cpu"
_TIMER = "cuda.bindings"


def backends() -> list[BackendStatus]:
    """Every backend in the order in which ``--backend auto`` tries them."""
    lacking = _lacking()
    return [
        _tensorrt(PRODUCTS["tensorrt"], lacking),
        _tensorrt(PRODUCTS["tensorrt-rtx"], lacking),
        _ort_cuda(lacking),
        _ort_cpu(),
    ]


def _tensorrt(product: Product, lacking: str) -> BackendStatus:
    """What it can do here: TensorRT-RTX builds without a GPU, TensorRT does not, and neither runs without one."""
    version = installed_version(product)
    if version is None:
        reason = "; ".join(filter(None, (f"the package {product.module} is not installed", lacking)))
        use = "to build engines, which needs no GPU" if product.backend == "tensorrt-rtx" else "where there is a GPU"
        return BackendStatus(product.backend, False, reason, f"{_ON_CPU}; {use}: {product.install}")
    title = f"{product.title} {version}".strip()
    if lacking:
        builds = product.backend == "tensorrt-rtx"
        can = "builds and shows the plan, cannot run here" if builds else "cannot build here"
        uses = "; `trtprof build` and `trtprof predict --level layers` use this one" if builds else ""
        return BackendStatus(product.backend, False, f"{title} {can}: {lacking}", f"{_ON_CPU}{uses}")
    if not is_installed(_TIMER):
        reason = f"{title} cannot be timed: the package cuda-bindings is not installed"
        return BackendStatus(product.backend, False, reason, "pip install cuda-bindings")
    return BackendStatus(product.backend, True, title)


def _ort_cuda(lacking: str) -> BackendStatus:
    if not is_installed("onnxruntime"):
        return BackendStatus("ort-cuda", False, "the package onnxruntime-gpu is not installed", _INSTALL_ORT)
    if lacking:
        return BackendStatus("ort-cuda", False, lacking, _ON_CPU)
    from trtprof.runtime.ort_session import no_cuda_provider, why_no_cuda_provider

    why = why_no_cuda_provider()
    if why:
        return BackendStatus("ort-cuda", False, why, no_cuda_provider(why).fix)
    return BackendStatus("ort-cuda", True, f"ONNX Runtime {onnxruntime_version()} with its CUDA provider")


def has_driver() -> bool:
    """Whether there are an NVIDIA driver and a GPU, without which TensorRT builds nothing."""
    return not _lacking()


def _lacking() -> str:
    """What of a driver and a GPU is not here; empty where both are."""
    driver = _driver()
    if driver is None:
        return _NO_DRIVER
    with suppress(OSError, AttributeError):  # it cannot be asked
        return _NO_GPU if driver.cuInit(0) == _NO_DEVICE else ""
    return ""


def _driver() -> ctypes.CDLL | None:
    """The library of the driver. `ctypes.util.find_library` would run ldconfig and a compiler to look for it."""
    try:
        return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None


def choose_builder(asked: str = "auto") -> tuple[str, str]:
    """The backend that builds an engine here, and why it was chosen, in words.

    Args:
        asked: ``tensorrt``, ``tensorrt-rtx``, or ``auto``: TensorRT where it and a driver are installed, else
            TensorRT-RTX.
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
            why=f"TensorRT is installed, but {_lacking()}",
            fix=f"{rtx.install}: TensorRT-RTX builds without a GPU",
        )
    raise MissingError(
        "no engine can be built here",
        why=f"neither {tensorrt.module} nor {rtx.module} is installed",
        fix=f"{rtx.install}, which needs no GPU, or {tensorrt.install} where there is one",
    )


def is_installed(module: str) -> bool:
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # its package is missing, or half of it
        return False


def _ort_cpu() -> BackendStatus:
    if not is_installed("onnxruntime"):
        return BackendStatus("ort-cpu", False, "the package onnxruntime is not installed", _INSTALL_ORT)
    return BackendStatus("ort-cpu", True, f"ONNX Runtime {onnxruntime_version()}")


def onnxruntime_version() -> str:
    """Version of the installed ONNX Runtime wheel, whichever of its names it came under."""
    for name in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return f"{importlib.metadata.version(name)} ({name})"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"
