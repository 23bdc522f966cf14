"""TensorRT where it runs engines: the library, its plugins and its messages, in one way from 8.6 to 11 and for RTX.

How it builds them, where versions differ, is the matter of the engine stage. The tests list every name that running
takes from the module, and hold the list against the real bindings of each version.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.runtime.tensorrt_module import imported, load_plugins, logger, product_of

DTYPES = {
    "FLOAT": "fp32", "HALF": "fp16", "BF16": "bf16", "FP8": "fp8e4m3fn", "FP4": "fp4e2m1", "E8M0": "fp8e8m0",
    "INT64": "int64", "INT32": "int32", "INT8": "int8", "INT4": "int4", "UINT8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""The members of ``DataType`` by our names; versions have some of them."""

_PLACE = re.compile(r"\s*\bIn \w+ at /\S+:\d+|\[?[\w.]+\.cpp::\w+::\d+\]? |^I\w+::\w+: |Error Code \d+: ")
"""Places in the library's own sources, which its messages carry."""
_CUDA = re.compile(r"Cuda Runtime \(\s*\(cudaError \d+: ([^()]*)\)\)")
_NO_DRIVER = re.compile(r"CUDA driver version is insufficient|no CUDA-capable device|CUDA_ERROR_NO_DEVICE")
_OTHER_VERSION = re.compile(
    r"magic tag|magicTag|not compatible with this version|serialization version|Version tag|stdVersion|library version",
    re.IGNORECASE,
)
_OTHER_GPU = re.compile(r"incompatible device|compute capability|different GPU|expecting compute", re.IGNORECASE)
_NO_PLUGIN = re.compile(r"\bplugin\b|creator", re.IGNORECASE)


class Log:
    """What the library says is wrong."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def take(self, severity: str, message: str) -> None:
        """One message; several threads may call."""
        if severity in {"ERROR", "INTERNAL_ERROR"}:
            text = _PLACE.sub("", " ".join(message.split())).strip()
            self.errors.append(_CUDA.sub(r"CUDA: \1", text))

    def forget(self) -> None:
        """What was said so far has nothing to do with what comes."""
        self.errors.clear()

    def why(self) -> str:
        """The first error, which tells the cause of those that follow."""
        return next(filter(None, self.errors), "the library gave no reason")


class Library(NamedTuple):
    """An installed TensorRT."""

    trt: Any  # The module
    title: str  # What it is, with its version
    logger: Any  # What it is given to say its errors to, which must outlive what is made with it
    log: Log  # Where they are kept
    is_rtx: bool  # Whether it is TensorRT-RTX

    @classmethod
    def of(cls, backend: str) -> Library:
        """The library of a backend."""
        product = product_of(backend)
        trt = imported(product)
        log = Log()
        return cls(trt, f"{product.title} {trt.__version__}", logger(trt, log.take), log, backend == "tensorrt-rtx")

    def load_plugins(self, libraries: Sequence[str]) -> None:
        """Make TensorRT's own plugins and those of the libraries known."""
        load_plugins(self.trt, self.title, self.logger, self.trt.get_plugin_registry, libraries, CaptureError)

    def deserialised(self, path: Path) -> tuple[Any, Any]:
        """The runtime and the engine of a file; the runtime must outlive the engine."""
        try:
            plan = path.read_bytes()
        except OSError as error:
            raise CaptureError(
                f"the engine {path.name} cannot be read", why=error.strerror or str(error), fix="build it again"
            ) from None
        self.log.forget()
        try:
            runtime = self.trt.Runtime(self.logger)
        except TypeError:  # what the bindings make of a null pointer
            runtime = None
        engine = None if runtime is None else runtime.deserialize_cuda_engine(plan)
        if engine is None:
            raise self._refused(path, started=runtime is not None)
        return runtime, engine

    def _refused(self, path: Path, *, started: bool) -> TrtprofError:
        why = self.log.why()
        what = f"{self.title} cannot load the engine {path.name}"
        if _OTHER_VERSION.search(why):
            return CaptureError(what, why=f"it is no engine of this version: {why}", fix="build it again with this one")
        if _OTHER_GPU.search(why):
            return CaptureError(what, why=f"it was built for another GPU: {why}", fix="build it again on this one")
        if _NO_PLUGIN.search(why):
            return CaptureError(
                what, why=f"a plugin of it is missing: {why}", fix="give the library that holds it (--staticPlugins)"
            )
        if not started or _NO_DRIVER.search(" ".join(self.log.errors)):
            return MissingError(what, why=why, fix="it needs an NVIDIA GPU and driver: check it with nvidia-smi")
        return CaptureError(what, why=why, fix="build it again with this version, on this GPU")


@functools.cache
def allocator_class(trt: Any) -> Any:
    """The class of output allocators, made with ``allocate(bytes) -> address``.

    An error of ``allocate`` is kept as ``failure``, since the library must not see it. ``shape`` is that of the last
    inference, None before the first. The library calls ``reallocate_output`` in versions that have
    ``reallocate_output_async``, too, where that is not written.
    """

    class Allocator(trt.IOutputAllocator):  # type: ignore[misc]
        """Memory for an output whose shape depends on the data."""

        def __init__(self, allocate: Any) -> None:
            trt.IOutputAllocator.__init__(self)
            self._allocate = allocate
            self.address = self.size = 0
            self.shape: tuple[int, ...] | None = None
            self.failure: TrtprofError | None = None

        def reallocate_output(self, _name: str, _memory: int, size: int, _alignment: int) -> int:
            if not self.address or size > self.size:
                try:
                    # What there was is kept until the end: work that is enqueued may still write to it.
                    self.address, self.size = self._allocate(size), size
                except TrtprofError as error:
                    self.failure = error
                    return 0
            return int(self.address)

        def notify_shape(self, _name: str, shape: Any) -> None:
            self.shape = tuple(shape)

    return Allocator
