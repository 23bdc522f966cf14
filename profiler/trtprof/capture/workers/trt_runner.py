"""An engine of TensorRT or TensorRT-RTX, ready to run: context, shapes, memory, CUDA graphs, one inference."""

from __future__ import annotations

import contextlib
import ctypes
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.units import DTYPE_BITS, dtype_bytes, format_bytes, format_ns
from trtprof.capture.gpu_record import TensorrtRequest
from trtprof.capture.workers.gpu_work import Arrays, Cuda, EventTimer, Runner, event_timer
from trtprof.capture.workers.inference import numpy_dtype, say
from trtprof.capture.workers.trt_runtime import DTYPES, Library, allocator_class


@contextlib.contextmanager
def opened(request: TensorrtRequest, feeds: Arrays, copies: int) -> Iterator[TrtRunner]:
    """The engine of a request, ready to run; all of it is given back at the end, what was made last first."""
    library = Library.of(request.backend)
    try:
        cuda = Cuda(request.device)
    except ImportError:
        raise MissingError(
            "TensorRT cannot be given memory of the GPU",
            why="the package cuda-bindings is not installed",
            fix="pip install 'trtprof[gpu]'",
        ) from None
    library.load_plugins(request.plugins)
    say("loading the engine")
    runtime, engine = library.deserialised(Path(request.engine))
    with event_timer(cuda) as timer, Memory(cuda) as memory:
        runner = TrtRunner(library, engine, timer, cuda, memory)
        try:
            runner.set_up(request, feeds, copies)
            yield runner
        finally:
            runner.close()
            del engine, runtime


# --- memory ---------------------------------------------------------------------------------


class Memory:
    """Memory of the device, and pinned memory of the host: given back when the block ends, not before."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._device: list[int] = []
        self._pinned: list[int] = []

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_exception: object) -> None:
        for address in self._device:
            self._cuda.runtime.cudaFree(address)
        for address in self._pinned:
            self._cuda.runtime.cudaFreeHost(address)

    def on_device(self, size: int) -> int:
        """So many bytes of the device; one at least, since TensorRT takes no null pointer for an empty tensor."""
        held = len(self._device)
        address = self._cuda.call(
            f"hold {format_bytes(size)} more for inputs and outputs, besides {held} of them",
            self._cuda.runtime.cudaMalloc(max(size, 1)),
            fix="use smaller shapes, leave --cold-l2 away, or end what else runs on the GPU",
        )
        self._device.append(int(address))
        return int(address)

    def pinned(self, size: int) -> npt.NDArray[np.uint8]:
        """So many bytes of the host that the device can copy from and to."""
        address = int(
            self._cuda.call(
                f"have {format_bytes(size)} of the host's memory pinned",
                self._cuda.runtime.cudaMallocHost(max(size, 1)),
                fix="use smaller shapes, or raise the limit of locked memory (ulimit -l)",
            )
        )
        self._pinned.append(address)
        return np.ctypeslib.as_array((ctypes.c_uint8 * max(size, 1)).from_address(address))[:size]


# --- one inference --------------------------------------------------------------------------


class _Tensor(NamedTuple):
    """An input or output of the engine."""

    name: str  # Its name
    is_input: bool  # Whether it is an input
    on_host: bool  # Whether the engine reads or writes it in the host's memory: it tells shapes
    dtype: str  # Its type, by our names
    vector: tuple[int, int]  # The dimension whose elements stand together in vectors, and of how many: (-1, 1) for none

    def bytes_of(self, shape: Sequence[int]) -> int:
        """Bytes that a tensor of the shape takes."""
        place, count = self.vector
        sizes = [-(-size // count) * count if index == place else size for index, size in enumerate(shape)]
        return dtype_bytes(self.dtype, math.prod(sizes))

    def array(self, raw: npt.NDArray[np.uint8], shape: Sequence[int]) -> npt.NDArray[Any]:
        """A copy of the memory as an array; two values in a byte are taken apart, the lower four bits first."""
        if self.dtype in {"int4", "fp4e2m1"}:
            nibbles = np.stack([raw & 0xF, raw >> 4], axis=-1).reshape(-1)[: math.prod(shape)]
            if self.dtype == "int4":
                return np.asarray((nibbles ^ 8).astype(np.int8) - 8).reshape(shape)
            return np.asarray(nibbles.view(ml_dtypes.float4_e2m1fn)).reshape(shape)
        return np.asarray(raw.copy().view(numpy_dtype(self.dtype))).reshape(shape)


class _Slot:
    """A copy of the inputs and outputs on the device; ``graph`` is the CUDA graph of its addresses."""

    def __init__(self) -> None:
        self.inputs: list[tuple[int, npt.NDArray[np.uint8]]] = []
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}
        self.graph: Any = None


class TrtRunner(Runner[_Slot]):
    """An execution context, and as many copies of its inputs and outputs as take turns.

    Attributes:
        notes: What is to be said of it.
        timer: Times its work, and has the stream that it works on.
    """

    def __init__(self, library: Library, engine: Any, timer: EventTimer, cuda: Cuda, memory: Memory) -> None:
        """Take what it works with; `set_up` makes it ready."""
        super().__init__(timer)
        self.timer = timer
        self.notes: list[str] = []
        self._library, self._engine, self._cuda, self._memory = library, engine, cuda, memory
        self._context: Any = None
        self._tensors = [self._tensor(engine.get_tensor_name(index)) for index in range(engine.num_io_tensors)]
        self._outputs = [tensor for tensor in self._tensors if not tensor.is_input]
        self.names = [tensor.name for tensor in self._outputs]
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._host: dict[str, npt.NDArray[np.uint8]] = {}
        self._bound: _Slot | None = None

    def set_up(self, request: TensorrtRequest, feeds: Arrays, copies: int) -> None:
        """Make the context, set its shapes, allocate, and run once with each copy."""
        began = time.perf_counter_ns()
        self._context = self._made_context()
        self._choose_profile(request.profile)
        self._set_verbosity(profiled=request.phase == "profiled")
        inputs = self._given(feeds)
        self._set_shapes(inputs, request.profile)
        for tensor in self._tensors:
            if not tensor.is_input and -1 not in self._shapes[tensor.name]:
                self._host[tensor.name] = self._memory.pinned(tensor.bytes_of(self._shapes[tensor.name]))
        self._slots = [self._slot() for _ in range(copies)]
        for slot in self._slots:
            self.prepare(slot)
            self.copy_in(slot)
            self.run(slot)
            self.copy_out(slot)
            if self._library.is_rtx and slot is self._slots[0]:
                took = format_ns(time.perf_counter_ns() - began)
                self.notes.append(
                    f"{self._library.title} compiles kernels when they are first used: {took} to the end of the first "
                    "inference, which is not timed"
                )
        streams = int(self._engine.num_aux_streams)
        if streams > 0:
            self.notes.append(f"the engine works on {streams} streams besides the main one")

    def capture_graphs(self) -> None:
        """Have every further inference replay a CUDA graph: one a copy, since a graph is of fixed addresses."""
        graphs = []
        try:
            for slot in self._slots:
                self.prepare(slot)
                # TensorRT may prepare new addresses in a way that cannot be captured.
                self.run(slot)
                self._wait("run the engine")
                graphs.append(self._graph())
        except CaptureError:
            self._destroy(graphs)
            raise
        for slot, graph in zip(self._slots, graphs, strict=True):
            slot.graph = graph

    def unreadable(self) -> str:
        """Why the outputs cannot be compared; empty where they can."""
        names = [tensor.name for tensor in self._tensors if tensor.vector != (-1, 1)]
        return f"{', '.join(names)} is kept in vectors of several elements" if names else ""

    def close(self) -> None:
        """Wait for the work, and give back graphs and context."""
        self._cuda.runtime.cudaStreamSynchronize(self.timer.stream)
        self._destroy([slot.graph for slot in self._slots if slot.graph is not None])
        self._slots, self._bound = [], None
        # The context before the engine.
        self._context = self._engine = None

    # --- see Runner ---------------------------------------------------------------------------

    def prepare(self, slot: _Slot) -> None:
        if slot is self._bound:
            return
        for name, address in slot.addresses.items():
            self._accepted(self._context.set_tensor_address(name, address), f"the memory of {name!r}")
        for name, allocator in slot.allocators.items():
            self._accepted(self._context.set_output_allocator(name, allocator), f"the memory of {name!r}")
        self._bound = slot

    def copy_in(self, slot: _Slot) -> None:
        kind = self._cuda.runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        for address, host in slot.inputs:
            self._copy(address, host.ctypes.data, host.nbytes, kind)
        self._wait("copy the inputs")

    def run(self, slot: _Slot) -> None:
        if slot.graph is not None:
            launched = self._cuda.runtime.cudaGraphLaunch(slot.graph, self.timer.stream)
            self._cuda.call("launch the CUDA graph", launched)
        elif not self._context.execute_async_v3(self.timer.stream):
            failures = [one.failure for one in slot.allocators.values() if one.failure is not None]
            raise failures[0] if failures else self._failed("cannot run the engine")

    def copy_out(self, slot: _Slot) -> None:
        kind = self._cuda.runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        # The shape of an output that depends on the data is known when the work is done.
        if slot.allocators:
            self._wait("run the engine")
        for tensor in self._outputs:
            if tensor.on_host:
                continue
            address, size = slot.addresses.get(tensor.name, 0), 0
            if tensor.name in slot.allocators:
                allocator = slot.allocators[tensor.name]
                address, size = allocator.address, tensor.bytes_of(self._shape_of(tensor.name, slot))
                if tensor.name not in self._host or self._host[tensor.name].nbytes < size:
                    self._host[tensor.name] = self._memory.pinned(allocator.size)
            else:
                size = self._host[tensor.name].nbytes
            self._copy(self._host[tensor.name].ctypes.data, address, size, kind)
        self._wait("run the engine and copy the outputs")

    def read(self, slot: _Slot) -> list[Any]:
        found = []
        for tensor in self._outputs:
            shape = self._shape_of(tensor.name, slot)
            found.append(tensor.array(self._host[tensor.name][: tensor.bytes_of(shape)], shape))
        return found

    # --- parts --------------------------------------------------------------------------------

    def _tensor(self, name: str) -> _Tensor:
        trt, engine = self._library.trt, self._engine
        kind = engine.get_tensor_dtype(name).name
        if kind not in DTYPES:
            raise CaptureError(
                f"the engine has a tensor of a type that is not known: {name!r}", why=f"it is {kind}",
                fix="this version of TensorRT is newer than trtprof: update trtprof",
            )  # fmt: skip
        vector = int(engine.get_tensor_vectorized_dim(name)), int(engine.get_tensor_components_per_element(name))
        return _Tensor(
            name=name,
            is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
            on_host=engine.get_tensor_location(name) == trt.TensorLocation.HOST,
            dtype=DTYPES[kind],
            vector=vector if vector[0] >= 0 and vector[1] > 1 else (-1, 1),
        )

    def _made_context(self) -> Any:
        trt = self._library.trt
        self._library.log.forget()
        if self._library.is_rtx:
            config = self._engine.create_runtime_config()
            # Otherwise kernels for these very shapes take the place of general ones at some time while it is measured.
            eager = trt.DynamicShapesKernelSpecializationStrategy.EAGER
            config.dynamic_shapes_kernel_specialization_strategy = eager
            context = self._engine.create_execution_context(config)
        else:
            context = self._engine.create_execution_context()
        if context is None:
            raise self._failed("cannot make an execution context", "end what else runs on the GPU, or build it smaller")
        return context

    def _choose_profile(self, profile: int) -> None:
        count = int(self._engine.num_optimization_profiles)
        if not 0 <= profile < max(count, 1):
            raise CaptureError(
                f"the engine has no optimisation profile {profile}", why=f"it has {count}, counted from 0",
                fix="choose one of them",
            )  # fmt: skip
        if count > 1:
            with self._explained(f"cannot switch to optimisation profile {profile}"):
                done = self._context.set_optimization_profile_async(profile, self.timer.stream)
                self._accepted(done, f"optimisation profile {profile}")
            self._wait("switch the optimisation profile")

    def _set_verbosity(self, *, profiled: bool) -> None:
        levels, built = self._library.trt.ProfilingVerbosity, self._engine.profiling_verbosity
        if profiled:
            self._context.nvtx_verbosity = built
            if built == levels.NONE:
                self.notes.append("the engine was built with profiling verbosity NONE: its layers have no NVTX names")
        elif built == levels.DETAILED:
            # What a deployed engine has unless asked otherwise: details cost time while enqueuing.
            self._context.nvtx_verbosity = levels.LAYER_NAMES_ONLY

    def _given(self, feeds: Arrays) -> dict[str, npt.NDArray[Any]]:
        """The inputs of the engine, in its types."""
        wanted = {tensor.name: tensor for tensor in self._tensors if tensor.is_input}
        missing = [name for name in wanted if name not in feeds]
        if missing:
            raise CaptureError(
                f"the engine has an input that the model has not: {missing[0]!r}",
                why=f"the engine asks for {', '.join(wanted)}; there is {', '.join(feeds) or 'nothing'}",
                fix="give the model that the engine was built from",
            )
        unused = [name for name in feeds if name not in wanted]
        if unused:
            self.notes.append(f"the engine does not use {', '.join(unused)}")
        return {name: self._in_type(tensor, feeds[name]) for name, tensor in wanted.items()}

    def _in_type(self, tensor: _Tensor, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if DTYPE_BITS[tensor.dtype] < 8:
            raise CaptureError(
                f"the input {tensor.name!r} cannot be given values", why=f"it is {tensor.dtype}",
                fix="use an engine with inputs of eight bits or more",
            )  # fmt: skip
        dtype = numpy_dtype(tensor.dtype)
        if array.dtype == dtype:
            return array
        given = array.astype(dtype)
        if dtype.kind in "iub" and not np.array_equal(given, array):
            raise CaptureError(
                f"the values of the input {tensor.name!r} do not fit the engine",
                why=f"they are {array.dtype}, and the engine takes {tensor.dtype}",
                fix="give values that do (--loadInputs), or build the engine from this model",
            )
        self.notes.append(f"the input {tensor.name} is {array.dtype} in the model, and {tensor.dtype} in the engine")
        return given

    def _set_shapes(self, inputs: dict[str, npt.NDArray[Any]], profile: int) -> None:
        """Set all shapes and the values that shapes depend on, and keep what follows."""
        self._library.log.forget()
        for tensor in self._tensors:
            if not tensor.is_input:
                continue
            array = inputs[tensor.name]
            declared = tuple(self._engine.get_tensor_shape(tensor.name))
            fits = len(declared) == array.ndim and all(
                want in {-1, have} for want, have in zip(declared, array.shape, strict=False)
            )
            if not fits or (-1 in declared and not self._context.set_input_shape(tensor.name, tuple(array.shape))):
                raise self._misfit(tensor, array.shape, declared, profile)
            self._host[tensor.name] = self._memory.pinned(tensor.bytes_of(array.shape))
            raw = np.frombuffer(array.tobytes(), dtype=np.uint8)
            # In vectors of several elements there is more room, which is filled anew from the first value on.
            self._host[tensor.name][:] = np.resize(raw, self._host[tensor.name].nbytes) if raw.size else 0
            if tensor.on_host:
                address = self._host[tensor.name].ctypes.data
                self._accepted(self._context.set_tensor_address(tensor.name, address), f"the values of {tensor.name!r}")
        with self._explained("cannot tell the shapes of the outputs"):
            unknown = list(self._context.infer_shapes())
        if unknown:
            raise CaptureError(
                f"{self._library.title} cannot tell the shapes of the outputs",
                why=f"the shape or the values of {', '.join(unknown)} are not given",
                fix="give them: --shapes=" + ",".join(f"{name}:..." for name in unknown),
            )
        self._shapes = {tensor.name: tuple(self._context.get_tensor_shape(tensor.name)) for tensor in self._tensors}

    def _misfit(self, tensor: _Tensor, shape: Sequence[int], declared: Sequence[int], profile: int) -> CaptureError:
        why = f"it is {_dims(declared)} in the engine"
        if len(declared) == len(shape) and -1 in declared and not tensor.on_host:
            low, _, high = self._engine.get_tensor_profile_shape(tensor.name, profile)
            why += f", from {_dims(low)} to {_dims(high)} in profile {profile}"
        return CaptureError(
            f"the shape {_dims(shape)} of the input {tensor.name!r} does not fit the engine", why=why,
            fix="give another shape (--shapes), or build the engine for this one (--minShapes, --maxShapes)",
        )  # fmt: skip

    def _slot(self) -> _Slot:
        """Memory for the inputs and outputs, on the device."""
        slot = _Slot()
        for tensor in self._tensors:
            if tensor.on_host:
                if tensor.name in self._host:
                    slot.addresses[tensor.name] = self._host[tensor.name].ctypes.data
                    continue
                raise CaptureError(
                    f"the output {tensor.name!r} is written to the host, and its shape depends on the data",
                    why="how much memory it takes is not known before", fix="leave this output out of the model",
                )  # fmt: skip
            if tensor.name in self._host:
                host = self._host[tensor.name]
                slot.addresses[tensor.name] = self._memory.on_device(host.nbytes)
                if tensor.is_input:
                    slot.inputs.append((slot.addresses[tensor.name], host))
            else:
                slot.allocators[tensor.name] = allocator_class(self._library.trt)(self._memory.on_device)
        return slot

    def _shape_of(self, name: str, slot: _Slot) -> tuple[int, ...]:
        if name not in slot.allocators:
            return self._shapes[name]
        shape = slot.allocators[name].shape
        if shape is None:
            raise self._failed(f"did not tell the shape of {name!r}")
        return tuple(shape)

    def _graph(self) -> Any:
        """One inference with what is bound, as a CUDA graph."""
        runtime, stream = self._cuda.runtime, self.timer.stream
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        what = "capture the engine as a CUDA graph"
        self._library.log.forget()
        self._cuda.call(what, runtime.cudaStreamBeginCapture(stream, mode))
        try:
            done = self._context.execute_async_v3(stream)
        finally:
            # However it went: until then the stream takes nothing else.
            captured = runtime.cudaStreamEndCapture(stream)
        if not done:
            if int(captured[0]) == 0:
                runtime.cudaGraphDestroy(captured[1])
            runtime.cudaGetLastError()  # forgotten, as it says no more than the engine did
            raise self._failed("cannot be captured as a CUDA graph")
        if int(captured[0]) != 0:
            runtime.cudaGetLastError()
        graph = self._cuda.call(what, captured)
        try:
            made = self._cuda.call("make a CUDA graph ready", runtime.cudaGraphInstantiate(graph, 0))
        finally:
            runtime.cudaGraphDestroy(graph)
        return made

    def _destroy(self, graphs: list[Any]) -> None:
        for graph in graphs:
            self._cuda.runtime.cudaGraphExecDestroy(graph)

    def _copy(self, target: int, source: int, size: int, kind: Any) -> None:
        if size:
            done = self._cuda.runtime.cudaMemcpyAsync(target, source, size, kind, self.timer.stream)
            self._cuda.call("copy inputs and outputs", done)

    def _wait(self, what: str) -> None:
        self._cuda.call(what, self._cuda.runtime.cudaStreamSynchronize(self.timer.stream))

    def _accepted(self, done: object, what: str) -> None:
        if not done:
            raise self._failed(f"refuses {what}")

    def _failed(self, what: str, fix: str = "build the engine again with this version, on this GPU") -> CaptureError:
        return CaptureError(f"{self._library.title} {what}", why=self._library.log.why(), fix=fix)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn the errors that the bindings raise into ours."""
        try:
            yield
        except RuntimeError as error:
            if not self._library.log.errors:
                self._library.log.take("ERROR", str(error))
            raise self._failed(what, "give other shapes (--shapes), or build the engine for these") from None


def _dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
