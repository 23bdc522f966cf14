"""A GPU through the CUDA driver API: compiled kernels, one stream, plain memory, events.

cuda-bindings maps the functions of the driver and of NVRTC one to one, for CUDA 12 and 13 alike, and
brings nothing else along; the few that are needed are wrapped here so that an error becomes an exception.
"""

from __future__ import annotations

import ctypes
import uuid as uuids
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from trtprof.base.errors import CaptureError, MissingError
from trtprof.runtime import child
from trtprof.runtime.nvrtc import INSTALL_12, CudaError, bindings, first_line, nvrtc_version

R = TypeVar("R")

Argument = ctypes.c_uint32 | ctypes.c_uint64 | ctypes.c_int32
Extent = int | tuple[int, int, int]  # Of a grid or a block: in x, or in x, y and z

_SPIN = "spin"


class Properties(NamedTuple):
    """What the driver says about a device."""

    name: str
    uuid: str  # As NVML writes it, without ``GPU-`` or ``MIG-``
    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    free_bytes: int
    cuda: tuple[int, int]  # The newest CUDA that the driver runs
    nvrtc: tuple[int, int]


class Graph:
    """Work that was recorded once and is launched as a whole."""

    def __init__(self, gpu: Gpu, handle: Any) -> None:
        self._gpu = gpu
        self._handle = handle

    def launch(self) -> None:
        self._gpu.check(self._gpu.driver.cuGraphLaunch(self._handle, self._gpu.stream))


@contextmanager
def device(ordinal: int, uuid: str = "") -> Iterator[Gpu]:
    """A device, given back in the end."""
    gpu = Gpu(ordinal)
    try:
        if uuid and not uuid.endswith(gpu.properties.uuid):
            raise MissingError(
                f"CUDA does not see the GPU {uuid}",
                why=f"its device {ordinal} is {gpu.properties.uuid}",
                fix="look at CUDA_VISIBLE_DEVICES",
            )
        yield gpu
    finally:
        gpu.close()


def answer_on_gpu(argv: list[str], kind: type[R], measure: Callable[[R], object]) -> int:
    """`child.answer` of a child that works on a GPU: why a function of CUDA failed is why the child did."""

    def told(request: R) -> object:
        try:
            return measure(request)
        except CudaError as error:
            raise CaptureError("a function of CUDA failed", why=str(error)) from error

    return child.answer(argv, kind, told)


class Gpu:
    """A device, its primary context and a stream."""

    def __init__(self, ordinal: int) -> None:
        self.driver = bindings("driver")
        self._start(ordinal)
        driver = self.driver
        self._device = self.check(driver.cuDeviceGet(ordinal))
        self._context = self.check(driver.cuDevicePrimaryCtxRetain(self._device))
        self.check(driver.cuCtxSetCurrent(self._context))
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        self.stream = self.check(driver.cuStreamCreate(flags))
        self._events = [self.check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT.value)) for _ in range(2)]
        self._functions: dict[tuple[int, str], Any] = {}
        self._modules: list[Any] = []
        self.properties = self._properties()

    def load(self, image: bytes) -> int:
        """Load what `compile_source` made, or PTX that ends with a zero.

        Returns:
            What `launch` calls it by; 0 is the first.
        """
        self._modules.append(self.check(self.driver.cuModuleLoadData(image)))
        return len(self._modules) - 1

    def close(self) -> None:
        """Give the context back, and with it all memory."""
        self.driver.cuDevicePrimaryCtxRelease(self._device)

    # --- kernels ----------------------------------------------------------------------------

    def full_wave(self, kernel: str, threads: int) -> int:
        """Blocks that run on the device at the same time."""
        resident = self.check(
            self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self._function(0, kernel), threads, 0)
        )
        return max(int(resident), 1) * self.properties.sms

    def launch(self, kernel: str, blocks: Extent, threads: Extent, *arguments: Argument, module: int = 0) -> None:
        """Put a kernel on the stream."""
        grid, block = ((one, 1, 1) if isinstance(one, int) else one for one in (blocks, threads))
        values = tuple(argument.value for argument in arguments)
        types = tuple(type(argument) for argument in arguments)
        packed = (values, types) if arguments else 0
        self.check(self.driver.cuLaunchKernel(self._function(module, kernel), *grid, *block, 0, self.stream, packed, 0))

    def graph(self, enqueue: Callable[[], None]) -> Graph:
        """Record what ``enqueue`` puts on the stream, without running it."""
        driver = self.driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.check(driver.cuStreamBeginCapture(self.stream, mode))
        try:
            enqueue()
        finally:
            recorded = driver.cuStreamEndCapture(self.stream)
        graph = self.check(recorded)
        handle = self.check(driver.cuGraphInstantiate(graph, 0))
        self.check(driver.cuGraphDestroy(graph))
        self.check(driver.cuGraphUpload(handle, self.stream))
        return Graph(self, handle)

    # --- time -------------------------------------------------------------------------------

    def elapsed_ns(
        self, enqueue: Callable[[], None], hold_ns: int = 0, before: Callable[[], None] | None = None
    ) -> float | None:
        """Time that the device takes for what ``enqueue`` puts on the stream, by a pair of events.

        Returns:
            The time in ns, or None when the work began before the host was done putting it there.
        """
        driver = self.driver
        start, end = self._events
        if before is not None:
            before()
        if hold_ns:
            self.launch(_SPIN, 1, 1, ctypes.c_uint64(hold_ns))
        self.check(driver.cuEventRecord(start, self.stream))
        enqueue()
        late = False
        if hold_ns or before is not None:
            (state,) = driver.cuEventQuery(start)
            late = state != driver.CUresult.CUDA_ERROR_NOT_READY
        self.check(driver.cuEventRecord(end, self.stream))
        self.check(driver.cuEventSynchronize(end))
        elapsed = float(self.check(driver.cuEventElapsedTime(start, end)))
        return None if late else elapsed * 1e6

    def synchronize(self) -> None:
        """Wait for the stream."""
        self.check(self.driver.cuStreamSynchronize(self.stream))

    # --- memory -----------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Device memory: its address."""
        return int(self.check(self.driver.cuMemAlloc(nbytes)))

    def allocate_pinned(self, nbytes: int) -> int:
        """Memory of the host that the device reads and writes itself: its address."""
        return int(self.check(self.driver.cuMemHostAlloc(nbytes, 0)))

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Put it on the stream that memory of the device is made the same byte all over."""
        self.check(self.driver.cuMemsetD8Async(address, byte, nbytes, self.stream))

    def copy_to_device(self, target_address: int, source_address: int, nbytes: int) -> None:
        """Put a copy from the host's memory on the stream."""
        self.check(self.driver.cuMemcpyHtoDAsync(target_address, source_address, nbytes, self.stream))

    def copy_to_host(self, target_address: int, source_address: int, nbytes: int) -> None:
        """Put a copy to the host's memory on the stream."""
        self.check(self.driver.cuMemcpyDtoHAsync(target_address, source_address, nbytes, self.stream))

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes of the device's memory, once the stream is done."""
        buffer = ctypes.create_string_buffer(nbytes)
        self.copy_to_host(ctypes.addressof(buffer), address, nbytes)
        self.synchronize()
        return buffer.raw

    # --- the driver -------------------------------------------------------------------------

    def check(self, answer: Sequence[Any]) -> Any:
        """What a function of the driver returned beside its error code."""
        code, *values = answer
        if code != self.driver.CUresult.CUDA_SUCCESS:
            failed, text = self.driver.cuGetErrorString(code)
            words = text.decode() if failed == self.driver.CUresult.CUDA_SUCCESS and text else ""
            raise CudaError(f"{code.name}: {words}" if words else code.name)
        return values[0] if len(values) == 1 else tuple(values)

    def _function(self, module: int, name: str) -> Any:
        found = self._functions.get((module, name))
        if found is None:
            found = self.check(self.driver.cuModuleGetFunction(self._modules[module], name.encode()))
            self._functions[module, name] = found
        return found

    def _start(self, ordinal: int) -> None:
        driver = self.driver
        try:
            (code,) = driver.cuInit(0)
        except Exception as error:  # cuda-pathfinder has error classes of its own for a library that is not found
            raise MissingError(
                "the CUDA driver is not installed here",
                why=first_line(error),
                fix="install the NVIDIA driver; a container sees that of its host when started with --gpus all",
            ) from None
        count = 0
        if code == driver.CUresult.CUDA_SUCCESS:
            count = self.check(driver.cuDeviceGetCount())
        elif code != driver.CUresult.CUDA_ERROR_NO_DEVICE:
            self.check((code,))
        if not 0 <= ordinal < count:
            raise MissingError(
                f"CUDA sees no device {ordinal}",
                why=f"it may use {count} of them" if count else "the driver finds none that it may use",
                fix="look at nvidia-smi and at CUDA_VISIBLE_DEVICES",
            )

    def _properties(self) -> Properties:
        driver, device = self.driver, self._device
        attribute = driver.CUdevice_attribute

        def ask(name: str) -> int:
            return int(
                self.check(driver.cuDeviceGetAttribute(getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device))
            )

        version = self.check(driver.cuDriverGetVersion())
        cuda = (version // 1000, version % 1000 // 10)
        nvrtc = nvrtc_version()
        if nvrtc[0] > cuda[0]:
            raise MissingError(
                f"the NVIDIA driver is too old for NVRTC {nvrtc[0]}.{nvrtc[1]}",
                why=f"it runs CUDA {cuda[0]}.{cuda[1]} at most",
                fix=f"update the driver, or {INSTALL_12}" if cuda[0] == 12 else "update the driver",
            )
        free, _ = self.check(driver.cuMemGetInfo())
        name = self.check(driver.cuDeviceGetName(128, device))
        identity = self.check(driver.cuDeviceGetUuid(device))
        return Properties(
            name=name.split(b"\0")[0].decode(errors="replace"),
            uuid=str(uuids.UUID(bytes=bytes(identity.bytes))),
            capability=(ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")),
            sms=ask("MULTIPROCESSOR_COUNT"),
            l2_bytes=ask("L2_CACHE_SIZE"),
            free_bytes=int(free),
            cuda=cuda,
            nvrtc=nvrtc,
        )
