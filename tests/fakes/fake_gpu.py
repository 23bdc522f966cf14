"""A CUDA runtime and a TensorRT without a GPU, which do what they are told as late and as strictly as the real ones.

Work that is enqueued runs when something waits for it, and no sooner: a copy that is not waited for is not there. Every
address is looked up when the work runs, so that memory which was given back, or was never had, is found out. What the
two have as public names is all that the worker can use; tests hold these names against the real packages.

An engine is a file of JSON: its tensors, and what becomes of them. See `Engine`.
"""

# ruff: noqa: N802, N815 - the names are CUDA's

from __future__ import annotations

import ctypes
import enum
import json
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

OUT_OF_MEMORY, INVALID, CAPTURING, ILLEGAL = 2, 1, 900, 700
WORDS = {
    OUT_OF_MEMORY: "out of memory", INVALID: "invalid argument",
    CAPTURING: "operation not permitted when stream is capturing", ILLEGAL: "an illegal memory access was encountered",
    35: "CUDA driver version is insufficient for CUDA runtime version",
}  # fmt: skip
STEP_MS = 0.25
"""What each piece of work takes on the device."""

Work = Callable[[], None]


class Stream:
    """Work in the order in which it was enqueued."""

    def __init__(self) -> None:
        self.waiting: list[Work] = []
        self.graph: list[Work] | None = None

    def enqueue(self, work: Work) -> None:
        (self.waiting if self.graph is None else self.graph).append(work)


class Runtime(ModuleType):
    """``cuda.bindings.runtime``, as far as the workers use it; ``fails`` names functions and the error they give."""

    cudaStreamNonBlocking = 1
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)

    def __init__(self) -> None:
        super().__init__("runtime")
        self.fails: dict[str, int] = {}
        self.asked: list[str] = []
        self.now_ms = 0.0
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, float | None] = {}
        self.graphs: dict[int, list[Work]] = {}
        self.device: dict[int, Any] = {}
        self.host: dict[int, Any] = {}
        self.capacity = 1 << 30
        self._last = 1000

    def _begin(self, name: str) -> int:
        self.asked.append(name)
        return self.fails.get(name, 0)

    def _handle(self) -> int:
        self._last += 1
        return self._last

    def _drain(self, stream: Stream) -> None:
        while stream.waiting:
            self.now_ms += STEP_MS
            stream.waiting.pop(0)()

    def left(self) -> dict[str, int]:
        """What was not given back."""
        kinds: dict[str, Any] = {
            "stream": self.streams,
            "event": self.events,
            "graph": self.graphs,
            "device": self.device,
            "host": self.host,
        }
        return {name: len(held) for name, held in kinds.items() if held}

    def held(self, address: int, size: int, *, on_device: bool) -> Any:
        """The bytes at an address, which must be memory of that kind."""
        for begin, buffer in (self.device if on_device else self.host).items():
            if begin <= address and address + size <= begin + len(buffer):
                raw = (ctypes.c_uint8 * size).from_address(address)
                return np.ctypeslib.as_array(raw) if size else np.zeros(0, np.uint8)
        raise AssertionError(f"{size} bytes at {address} are no memory of the {'device' if on_device else 'host'}")

    def cudaSetDevice(self, _device: int) -> tuple[Any, ...]:
        return (self._begin("cudaSetDevice"),)

    def cudaGetErrorString(self, error: int) -> tuple[Any, ...]:
        return 0, WORDS.get(error, "unknown").encode()

    def cudaGetLastError(self) -> tuple[Any, ...]:
        return (self._begin("cudaGetLastError"),)

    def cudaStreamCreateWithFlags(self, _flags: int) -> tuple[Any, ...]:
        error = self._begin("cudaStreamCreateWithFlags")
        handle = self._handle()
        self.streams[handle] = Stream()
        return error, handle

    def cudaStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        assert self.streams[stream].graph is None, "a capture was never ended"
        del self.streams[stream]
        return (self._begin("cudaStreamDestroy"),)

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        error = self._begin("cudaStreamSynchronize")
        if self.streams[stream].graph is not None:
            return (CAPTURING,)
        self._drain(self.streams[stream])
        return (error,)

    def cudaEventCreate(self) -> tuple[Any, ...]:
        handle = self._handle()
        self.events[handle] = None
        return self._begin("cudaEventCreate"), handle

    def cudaEventDestroy(self, event: int) -> tuple[Any, ...]:
        del self.events[event]
        return (self._begin("cudaEventDestroy"),)

    def cudaEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        self.events[event] = None

        def happen() -> None:
            self.now_ms -= STEP_MS  # an event takes no time
            self.events[event] = self.now_ms

        self.streams[stream].enqueue(happen)
        return (self._begin("cudaEventRecord"),)

    def cudaEventSynchronize(self, event: int) -> tuple[Any, ...]:
        for stream in self.streams.values():
            self._drain(stream)
        assert self.events[event] is not None, "it was recorded"
        return (self._begin("cudaEventSynchronize"),)

    def cudaEventElapsedTime(self, begin: int, end: int) -> tuple[Any, ...]:
        one, other = self.events[begin], self.events[end]
        assert one is not None
        assert other is not None
        return self._begin("cudaEventElapsedTime"), other - one

    def _take(self, name: str, size: int, held: dict[int, Any]) -> tuple[Any, ...]:
        error = self._begin(name)
        taken = sum(len(buffer) for buffer in held.values())
        if error or taken + size > self.capacity:
            return error or OUT_OF_MEMORY, 0
        assert size > 0, "TensorRT takes no null pointer"
        buffer = (ctypes.c_uint8 * size)(*([0xAB] * min(size, 64)))
        held[ctypes.addressof(buffer)] = buffer
        return 0, ctypes.addressof(buffer)

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:
        return self._take("cudaMalloc", size, self.device)

    def cudaMallocHost(self, size: int) -> tuple[Any, ...]:
        return self._take("cudaMallocHost", size, self.host)

    def cudaFree(self, address: int) -> tuple[Any, ...]:
        assert not any(stream.waiting for stream in self.streams.values()), "work may still use it"
        del self.device[address]
        return (self._begin("cudaFree"),)

    def cudaFreeHost(self, address: int) -> tuple[Any, ...]:
        del self.host[address]
        return (self._begin("cudaFreeHost"),)

    def cudaMemcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> tuple[Any, ...]:
        to_device = kind == self.cudaMemcpyKind.cudaMemcpyHostToDevice
        assert size > 0

        def copy() -> None:
            self.held(target, size, on_device=to_device)[:] = self.held(source, size, on_device=not to_device)

        self.streams[stream].enqueue(copy)
        return (self._begin("cudaMemcpyAsync HtoD" if to_device else "cudaMemcpyAsync DtoH"),)

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> tuple[Any, ...]:
        assert mode == self.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        assert not self.streams[stream].waiting, "nothing may be left to do"
        error = self._begin("cudaStreamBeginCapture")
        if not error:
            self.streams[stream].graph = []
        return (error,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        error, found = self._begin("cudaStreamEndCapture"), self.streams[stream].graph
        self.streams[stream].graph = None
        if error or found is None:
            return error or INVALID, None
        handle = self._handle()
        self.graphs[handle] = found
        return 0, handle

    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[Any, ...]:
        assert flags == 0
        error = self._begin("cudaGraphInstantiate")
        if error:
            return error, None
        handle = self._handle()
        self.graphs[handle] = list(self.graphs[graph])
        return 0, handle

    def cudaGraphDestroy(self, graph: int) -> tuple[Any, ...]:
        del self.graphs[graph]
        return (self._begin("cudaGraphDestroy"),)

    def cudaGraphExecDestroy(self, graph: int) -> tuple[Any, ...]:
        del self.graphs[graph]
        return (self._begin("cudaGraphExecDestroy"),)

    def cudaGraphLaunch(self, graph: int, stream: int) -> tuple[Any, ...]:
        for work in self.graphs[graph]:
            self.streams[stream].enqueue(work)
        return (self._begin("cudaGraphLaunch"),)


# --- TensorRT -------------------------------------------------------------------------------

TYPES = {
    "FLOAT": np.float32, "HALF": np.float16, "BF16": ml_dtypes.bfloat16, "INT32": np.int32, "INT64": np.int64,
    "BOOL": np.bool_, "INT4": np.int8, "FP8": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def enumeration(name: str, *members: str) -> Any:
    return enum.Enum(name, {member: place for place, member in enumerate(members)})


class Tensorrt(ModuleType):
    """The module; ``fails`` names what goes wrong, and what the library says of it."""

    __version__ = "10.16.1"

    def __init__(self, runtime: Runtime, name: str = "tensorrt") -> None:
        super().__init__(name)
        self.__version__ = "10.16.1"
        self.fails: dict[str, str] = {}
        self.asked: list[str] = []
        fake, rtx = self, name == "tensorrt_rtx"

        self.DataType = enumeration("DataType", *TYPES, "NEWER")
        self.TensorIOMode = enumeration("TensorIOMode", "INPUT", "OUTPUT")
        self.TensorLocation = enumeration("TensorLocation", "HOST", "DEVICE")
        self.ProfilingVerbosity = enumeration("ProfilingVerbosity", "LAYER_NAMES_ONLY", "NONE", "DETAILED")
        self.logger: Any = None

        class ILogger:
            def __init__(self) -> None:
                self.ready = True

            def log(self, _severity: Any, _message: str) -> None:
                raise AssertionError("a logger must be written")

        class IOutputAllocator:
            def __init__(self) -> None:
                self.ready = True

        class IPluginRegistry:
            def load_library(self, path: str) -> object | None:
                fake.asked.append(f"load {path}")
                return None if "broken" in path else object()

        class Loader:
            def __init__(self, logger: Any) -> None:
                assert logger.ready, "the base class was not initialised"
                fake.logger = logger
                if "Runtime" in fake.fails:
                    fake.say("Runtime")
                    raise TypeError("pybind11::init(): factory function returned nullptr")

            def deserialize_cuda_engine(self, plan: bytes) -> Any:
                fake.asked.append("deserialize")
                return None if fake.say("deserialize") else ICudaEngine(json.loads(plan))

        class IRuntimeConfig:
            dynamic_shapes_kernel_specialization_strategy: Any = None

        class ICudaEngine:
            def __init__(self, spec: dict[str, Any]) -> None:
                self._spec = spec
                self._tensors = {tensor["name"]: tensor for tensor in spec["tensors"]}
                self.num_io_tensors = len(self._tensors)
                self.num_optimization_profiles = spec.get("profiles", 1)
                self.num_aux_streams = spec.get("aux", 0)
                self.profiling_verbosity = fake.ProfilingVerbosity[spec.get("verbosity", "DETAILED")]

            def get_tensor_name(self, index: int) -> str:
                return str(list(self._tensors)[index])

            def get_tensor_mode(self, name: str) -> Any:
                return fake.TensorIOMode[self._tensors[name]["mode"]]

            def get_tensor_dtype(self, name: str) -> Any:
                return fake.DataType[self._tensors[name]["dtype"]]

            def get_tensor_location(self, name: str) -> Any:
                return fake.TensorLocation["HOST" if self._tensors[name].get("host") else "DEVICE"]

            def get_tensor_shape(self, name: str) -> tuple[int, ...]:
                return tuple(self._tensors[name]["shape"])

            def get_tensor_vectorized_dim(self, name: str) -> int:
                return int(self._tensors[name].get("vector", [-1, 1])[0])

            def get_tensor_components_per_element(self, name: str) -> int:
                return int(self._tensors[name].get("vector", [-1, 1])[1])

            def get_tensor_profile_shape(self, name: str, _profile: int) -> list[tuple[int, ...]]:
                return [tuple(max(size, low) for size in self.get_tensor_shape(name)) for low in (1, 4, 8)]

            def create_execution_context(self, *given: Any) -> Any:
                if rtx:
                    (config,) = given
                    assert config.dynamic_shapes_kernel_specialization_strategy == "EAGER"
                else:
                    assert given == ()
                return None if fake.say("context") else IExecutionContext(self)

        if rtx:
            self.DynamicShapesKernelSpecializationStrategy = SimpleNamespace(EAGER="EAGER")
            self.IRuntimeConfig = IRuntimeConfig
            ICudaEngine.create_runtime_config = lambda _self: IRuntimeConfig()  # type: ignore[attr-defined]

        class IExecutionContext:
            def __init__(self, engine: ICudaEngine) -> None:
                self._engine, self._tensors = engine, engine._tensors
                self._shapes = {name: engine.get_tensor_shape(name) for name in self._tensors}
                self._addresses: dict[str, int] = {}
                self._allocators: dict[str, Any] = {}
                self._verbosity = engine.profiling_verbosity
                fake.contexts.append(self)

            @property
            def nvtx_verbosity(self) -> Any:
                return self._verbosity

            @nvtx_verbosity.setter
            def nvtx_verbosity(self, value: Any) -> None:
                order = [fake.ProfilingVerbosity[name] for name in ("NONE", "LAYER_NAMES_ONLY", "DETAILED")]
                assert order.index(value) <= order.index(self._engine.profiling_verbosity), "it can be lowered alone"
                self._verbosity = value

            def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
                fake.asked.append(f"profile {profile}")
                if fake.say("profile"):
                    raise RuntimeError("Error in set optimization profile async.")
                return stream in runtime.streams

            def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
                assert -1 in self._tensors[name]["shape"]
                if max(shape, default=0) > 8:
                    return False
                self._shapes[name] = shape
                return True

            def set_tensor_address(self, name: str, address: int) -> bool:
                self._addresses[name] = address
                return address != 0 and not fake.say("address")

            def set_output_allocator(self, name: str, allocator: Any) -> bool:
                assert allocator.ready, "the base class was not initialised"
                self._allocators[name] = allocator
                return True

            def infer_shapes(self) -> list[str]:
                if fake.say("infer_shapes"):
                    raise RuntimeError("shape inference failed")
                if "unknown" in fake.fails:
                    return [fake.fails["unknown"]]
                for out, tensor in self._tensors.items():
                    if tensor["mode"] == "OUTPUT" and "like" in tensor:
                        self._shapes[out] = self._shapes[tensor["like"]]
                    if tensor["mode"] == "OUTPUT" and "shape_from" in tensor:
                        self._shapes[out] = tuple(int(size) for size in self._read(tensor["shape_from"]))
                return []

            def get_tensor_shape(self, name: str) -> tuple[int, ...]:
                return self._shapes[name]

            def _view(self, name: str, shape: tuple[int, ...], address: int) -> Any:
                tensor = self._tensors[name]
                dtype = np.dtype(TYPES[tensor["dtype"]])
                count = int(np.prod(shape))
                size = -(-count // 2) if tensor["dtype"] == "INT4" else count * dtype.itemsize
                raw = runtime.held(address, size, on_device=not tensor.get("host"))
                return raw if tensor["dtype"] == "INT4" else raw.view(dtype).reshape(shape)

            def _read(self, name: str) -> Any:
                return self._view(name, self._shapes[name], self._addresses[name]).copy()

            def execute_async_v3(self, handle: int) -> bool:
                fake.asked.append("execute")
                stream = runtime.streams[handle]
                missing = [
                    name for name in self._tensors if name not in self._addresses and name not in self._allocators
                ]
                if missing:
                    fake.logger.log(SimpleNamespace(name="ERROR"), f"no address is set for {missing}")
                if missing or fake.say("execute") or (stream.graph is not None and fake.say("capture")):
                    return False
                addresses = dict(self._addresses)
                for out, tensor in self._tensors.items():
                    if tensor["mode"] == "INPUT":
                        continue
                    if out not in self._allocators:
                        stream.enqueue(partial(self._compute, out, tensor, addresses))
                        continue
                    if stream.graph is not None:
                        fake.logger.log(SimpleNamespace(name="ERROR"), "a data-dependent shape needs a synchronisation")
                        return False
                    runtime._drain(stream)
                    if not self._allocated(out, tensor, addresses):
                        return False
                return True

            def _compute(self, name: str, tensor: dict[str, Any], addresses: dict[str, int]) -> None:
                given = self._view(tensor["of"], self._shapes[tensor["of"]], addresses[tensor["of"]])
                found = self._view(name, self._shapes[name], addresses[name])
                if tensor["dtype"] == "INT4":
                    found[:] = 0x1F
                elif tensor.get("does") == "fill":
                    found[...] = given.reshape(-1)[0]
                else:
                    found[...] = (given + given).astype(found.dtype)
                found += np.asarray(fake.error).astype(found.dtype)

            def _allocated(self, name: str, tensor: dict[str, Any], addresses: dict[str, int]) -> bool:
                given = self._view(tensor["of"], self._shapes[tensor["of"]], addresses[tensor["of"]])
                found = np.stack(np.nonzero(given)).astype(TYPES[tensor["dtype"]])
                allocator = self._allocators[name]
                address = allocator.reallocate_output(name, addresses.get(name, 0), max(found.nbytes, 1), 256)
                if not address:
                    return False
                runtime.held(address, found.nbytes, on_device=True)[:] = found.view(np.uint8).reshape(-1)
                allocator.notify_shape(name, found.shape)
                return True

        self.contexts: list[Any] = []
        self.error: float = 0
        """Added to every output."""
        self.ILogger, self.IOutputAllocator, self.IPluginRegistry = ILogger, IOutputAllocator, IPluginRegistry
        self.Runtime, self.ICudaEngine, self.IExecutionContext = Loader, ICudaEngine, IExecutionContext

    def say(self, what: str) -> bool:
        """Log what goes wrong with this, if anything does."""
        if what not in self.fails:
            return False
        self.logger.log(SimpleNamespace(name="INFO"), "this is no error")
        self.logger.log(SimpleNamespace(name="ERROR"), self.fails[what])
        return True

    def get_plugin_registry(self) -> Any:
        return self.IPluginRegistry()

    def init_libnvinfer_plugins(self, _logger: Any, namespace: str) -> None:
        assert namespace == ""
        self.asked.append("plugins")


def engine(**spec: Any) -> bytes:
    """The file of an engine: by default ``y = x + x`` for ``x [-1, 3]``."""
    tensors = spec.pop("tensors", None) or [
        {"name": "x", "mode": "INPUT", "dtype": "FLOAT", "shape": [-1, 3]},
        {"name": "y", "mode": "OUTPUT", "dtype": "FLOAT", "shape": [-1, 3], "like": "x", "of": "x"},
    ]
    return json.dumps({"tensors": tensors, **spec}).encode()
