"""A GPU through the CUDA driver API: compiled kernels, one stream, plain memory, events.

cuda-bindings maps the functions of the driver and of NVRTC one to one, for CUDA 12 and 13 alike, and
brings nothing else along; the few that are needed are wrapped here so that an error becomes an exception.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from profiler.base.errors import MissingError

INSTALL = "pip install 'trtprof[gpu]'"
"""What brings the packages that measuring a GPU takes."""

INSTALL_12 = "pip install 'trtprof[gpu-cu12]'"
"""The same for drivers that run no newer CUDA than 12."""

Argument = ctypes.c_uint32 | ctypes.c_uint64

_SPIN = "spin"


class CudaError(Exception):
    """A function of the driver or of NVRTC failed. All that follows in this process may fail too."""


class Properties(NamedTuple):
    """What the driver says about a device."""

    name: str
    uuid: str
    """As NVML writes it, without ``GPU-`` or ``MIG-``."""
    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    free_bytes: int
    cuda: tuple[int, int]
    """The newest CUDA that the driver runs."""
    nvrtc: tuple[int, int]


class Compiled(NamedTuple):
    """What NVRTC made of a source."""

    image: bytes
    """Machine code, or PTX where the architecture is virtual (``compute_90``)."""
    ptx: str
    log: str
    """With the registers and the spills of each kernel."""


def compile_source(source: bytes, architecture: str) -> Compiled:
    """Compile CUDA C++ that includes nothing; no GPU and no driver is needed.

    Args:
        source: The text.
        architecture: ``sm_90``, or ``compute_90`` for PTX that the driver compiles.

    Raises:
        MissingError: NVRTC is not installed.
        CudaError: It does not compile; the message has the compiler's.
    """
    nvrtc = _import("nvrtc")
    program = _nvrtc(nvrtc, nvrtc.nvrtcCreateProgram(source, b"trtprof.cu", 0, [], []))
    options = [
        f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"--use_fast_math", b"--ptxas-options=-v",
    ]  # fmt: skip
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)

    def text(size: Any, get: Any) -> bytes:
        buffer = _room(_nvrtc(nvrtc, size(program)))
        _nvrtc(nvrtc, get(program, buffer))
        return buffer.rstrip(b"\0")

    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CudaError(f"NVRTC for {architecture}: {code.name}: {log.strip()}")
    ptx = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    if architecture.startswith("compute_"):
        return Compiled(ptx + b"\0", ptx.decode(), log)
    size = _nvrtc(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
    image = _room(size)
    _nvrtc(nvrtc, nvrtc.nvrtcGetCUBIN(program, image))
    return Compiled(image[:size], ptx.decode(), log)


def _room(size: int) -> bytes:
    """Bytes that NVRTC may write over: more than one, because Python has a single object for each of one byte."""
    return bytes(size + 1)


def nvrtc_version() -> tuple[int, int]:
    """Version of the installed NVRTC.

    Raises:
        MissingError: It is not installed.
    """
    nvrtc = _import("nvrtc")
    try:
        code, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # cuda-pathfinder has error classes of its own for a library that is not found
        raise MissingError("NVRTC is not installed", why=_first_line(error), fix=INSTALL) from None
    _nvrtc(nvrtc, (code,))
    return major, minor


def target(capability: tuple[int, int], wanted: str) -> str:
    """The architecture to compile for: ``wanted``, or PTX for a GPU that is newer than NVRTC.

    Raises:
        MissingError: NVRTC no longer compiles for a GPU of this compute capability.
    """
    nvrtc = _import("nvrtc")
    known = _nvrtc(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    number = 10 * capability[0] + capability[1]
    if number in known:
        return wanted
    if number > max(known):
        return f"compute_{max(known)}"
    version = ".".join(map(str, nvrtc_version()))
    raise MissingError(
        f"NVRTC {version} does not compile for GPUs of compute capability {capability[0]}.{capability[1]}",
        why=f"the oldest that it compiles for is {min(known) // 10}.{min(known) % 10}",
        fix=INSTALL_12,
    )


class Graph:
    """Work that was recorded once and is launched as a whole."""

    def __init__(self, gpu: Gpu, handle: Any) -> None:
        self._gpu = gpu
        self._handle = handle

    def launch(self) -> None:
        self._gpu.check(self._gpu.driver.cuGraphLaunch(self._handle, self._gpu.stream))


class Gpu:
    """A device, its primary context and a stream.

    Args:
        ordinal: As CUDA counts the devices that it may use.

    Raises:
        MissingError: A package, the driver or the device is missing, or the driver is too old for NVRTC.
        CudaError: The driver refuses the device.
    """

    def __init__(self, ordinal: int) -> None:
        self.driver = _import("driver")
        self._start(ordinal)
        driver = self.driver
        self._device = self.check(driver.cuDeviceGet(ordinal))
        self._context = self.check(driver.cuDevicePrimaryCtxRetain(self._device))
        self.check(driver.cuCtxSetCurrent(self._context))
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        self.stream = self.check(driver.cuStreamCreate(flags))
        self._events = [self.check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT.value)) for _ in range(2)]
        self._functions: dict[str, Any] = {}
        self._module: Any = None
        self.properties = self._properties()

    def load(self, image: bytes) -> None:
        """Load what `compile_source` made."""
        self._module = self.check(self.driver.cuModuleLoadData(image))
        self._functions.clear()

    def close(self) -> None:
        """Give the context back, and with it all memory."""
        self.driver.cuDevicePrimaryCtxRelease(self._device)

    # --- kernels ----------------------------------------------------------------------------

    def full_wave(self, kernel: str, threads: int) -> int:
        """Blocks that run on the device at the same time."""
        resident = self.check(
            self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self._function(kernel), threads, 0)
        )
        return max(int(resident), 1) * self.properties.sms

    def launch(self, kernel: str, blocks: int, threads: int, *arguments: Argument) -> None:
        """Put a kernel on the stream."""
        values = tuple(argument.value for argument in arguments)
        types = tuple(type(argument) for argument in arguments)
        packed = (values, types) if arguments else 0
        self.check(
            self.driver.cuLaunchKernel(self._function(kernel), blocks, 1, 1, threads, 1, 1, 0, self.stream, packed, 0)
        )

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

    def elapsed_ns(self, enqueue: Callable[[], None], hold_ns: int = 0) -> float | None:
        """Time that the device takes for what ``enqueue`` puts on the stream, by a pair of events.

        Args:
            enqueue: Puts work on the stream.
            hold_ns: Keeps the device busy beforehand so long, for the host to be done when the work begins.

        Returns:
            The time in ns, or None when the work began before the host was done putting it there.
        """
        driver = self.driver
        start, end = self._events
        if hold_ns:
            self.launch(_SPIN, 1, 1, ctypes.c_uint64(hold_ns))
        self.check(driver.cuEventRecord(start, self.stream))
        enqueue()
        late = False
        if hold_ns:
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
        """What a function of the driver returned beside its error code.

        Raises:
            CudaError: The code says that it failed.
        """
        code, *values = answer
        if code != self.driver.CUresult.CUDA_SUCCESS:
            failed, text = self.driver.cuGetErrorString(code)
            words = text.decode() if failed == self.driver.CUresult.CUDA_SUCCESS and text else ""
            raise CudaError(f"{code.name}: {words}" if words else code.name)
        return values[0] if len(values) == 1 else tuple(values)

    def _function(self, name: str) -> Any:
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = self.check(self.driver.cuModuleGetFunction(self._module, name.encode()))
        return found

    def _start(self, ordinal: int) -> None:
        driver = self.driver
        try:
            (code,) = driver.cuInit(0)
        except Exception as error:  # cuda-pathfinder has error classes of its own for a library that is not found
            raise MissingError(
                "the CUDA driver is not installed here",
                why=_first_line(error),
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
            uuid=str(uuid.UUID(bytes=bytes(identity.bytes))),
            capability=(ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")),
            sms=ask("MULTIPROCESSOR_COUNT"),
            l2_bytes=ask("L2_CACHE_SIZE"),
            free_bytes=int(free),
            cuda=cuda,
            nvrtc=nvrtc,
        )


def _import(module: str) -> Any:
    """A module of cuda-bindings.

    Raises:
        MissingError: The package is not installed.
    """
    try:
        if module == "driver":
            from cuda.bindings import driver as found
        else:
            from cuda.bindings import nvrtc as found
    except ImportError as error:
        raise MissingError("the Python package cuda-bindings is not installed", why=str(error), fix=INSTALL) from None
    return found


def _nvrtc(nvrtc: Any, answer: Sequence[Any]) -> Any:
    code, *values = answer
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CudaError(f"NVRTC: {code.name}")
    return values[0] if len(values) == 1 else tuple(values)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
