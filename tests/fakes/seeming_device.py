"""A GPU that executes kernels in numpy, instruction by instruction, and takes for them the time that it is told.

What is wrong with a kernel is wrong here as it is on a GPU: outputs that nobody wrote hold what was there before, and
what goes beyond its memory crashes, as late as the driver would tell it. Its clock is its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.machine import launch
from trtprof.plugin.ptx.memory import Buffer, Memory
from trtprof.plugin.ptx.parse import Program
from trtprof.runtime import cublas
from trtprof.runtime.cuda_driver import Argument, Extent, Properties
from trtprof.runtime.nvrtc import CudaError

ADA = Properties(
    name="NVIDIA GeForce RTX 4090", uuid="d5b3a1c0-4e5f-4a6b-8c7d-9e0f1a2b3c4d", capability=(8, 9), sms=4,
    l2_bytes=1 << 16, free_bytes=1 << 30, cuda=(13, 0), nvrtc=(13, 0),
)  # fmt: skip
FLUSH_BYTES_PER_NS = 1000.0
Pending = tuple[int, str, tuple[int, int, int], tuple[int, int, int], tuple[int, ...]]


class SeemingDevice:
    """In place of `cuda_driver.Gpu`.

    Args:
        ns: What each kernel takes, by its entry; a number, or what tells it of every launch.
        properties: What the driver says of it.
        newest: The newest PTX that the driver takes.
        busy: Whether the host is too slow to put work on the stream before the last is done.
    """

    def __init__(
        self,
        ns: Mapping[str, float | Callable[[], float]],
        *,
        properties: Properties = ADA,
        newest: tuple[int, int] = (99, 0),
        busy: bool = False,
    ) -> None:
        self.properties, self.ns, self.newest, self.busy = properties, ns, newest, busy
        self.memory, self.now, self.stream = Memory(), 0.0, 0
        self.launched: list[str] = []
        self.given: list[tuple[int, ...]] = []
        self.closed = False
        self._modules: list[Program | None] = []
        # In their order; what a launch does shows when somebody looks.
        self._waiting: dict[Pending, None] = {}

    def load(self, image: bytes) -> int:
        if image.startswith(b"\x7fELF"):  # what flushes the L2
            self._modules.append(None)
        else:
            assert image.endswith(b"\0"), "the driver reads up to a zero"
            text = image[:-1].decode()
            version = text.split(".version", 1)[1].split(maxsplit=1)[0]
            if tuple(map(int, version.split("."))) > self.newest:
                raise CudaError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with a newer one")
            self._modules.append(Program.parse(text))
        return len(self._modules) - 1

    def close(self) -> None:
        self.closed = True

    def full_wave(self, _kernel: str, _threads: int) -> int:
        return self.properties.sms

    def launch(self, kernel: str, blocks: Extent, threads: Extent, *arguments: Argument, module: int = 0) -> None:
        values = tuple(argument.value for argument in arguments)
        self.launched.append(kernel)
        if self._modules[module] is None:
            self.now += values[1] * 16 / FLUSH_BYTES_PER_NS
            return
        self.given.append(values)
        ns = self.ns[kernel]
        self.now += ns() if callable(ns) else ns
        grid, block = ((one, 1, 1) if isinstance(one, int) else one for one in (blocks, threads))
        self._waiting[module, kernel, grid, block, values] = None

    def elapsed_ns(
        self, enqueue: Callable[[], None], hold_ns: int = 0, before: Callable[[], None] | None = None
    ) -> float | None:
        if before is not None:
            before()
        begun = self.now
        enqueue()
        return None if (self.busy and before is not None) or hold_ns else round(self.now - begun, 3)

    def synchronize(self) -> None:
        waiting, self._waiting = list(self._waiting), {}
        for module, kernel, grid, block, values in waiting:
            program = self._modules[module]
            assert program is not None
            try:
                launch(program, kernel, grid, block, values, self.memory)
            except Fault as fault:
                raise CudaError(f"CUDA_ERROR_ILLEGAL_ADDRESS: {fault}") from None

    # --- memory ---------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        assert nbytes > 0, "the driver refuses it"
        return self.memory.add(f"piece {len(self.memory.buffers)}", np.zeros(nbytes, np.uint8), writable=True)

    def _at(self, address: int, nbytes: int) -> Any:
        buffer, where = self.memory.find(address)
        assert isinstance(buffer, Buffer), where
        assert address + nbytes <= buffer.end, where
        return buffer.bytes[address - buffer.origin :][:nbytes]

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        # A launch whose outputs are made poison again need not be executed: nobody has looked at them.
        for pending in [one for one in self._waiting if any(address <= each < address + nbytes for each in one[4])]:
            del self._waiting[pending]
        self._at(address, nbytes)[:] = byte

    def copy_to_device(self, target_address: int, source_address: int, nbytes: int) -> None:
        raw = (ctypes.c_uint8 * nbytes).from_address(source_address)
        self._at(target_address, nbytes)[:] = np.ctypeslib.as_array(raw)

    def read(self, address: int, nbytes: int) -> bytes:
        self.synchronize()
        return bytes(self._at(address, nbytes).tobytes())


class SeemingProducts:
    """In place of `cublas.Library`: products take a time, and nothing else."""

    version = "13.1.0"

    def __init__(self, gpu: SeemingDevice, ns: float | Callable[[], float], refused: str = "") -> None:
        self.gpu, self.ns, self.refused = gpu, ns, refused
        self.asked: list[tuple[str, cublas.Extent]] = []

    def algorithms(self, product: cublas.Product, extent: cublas.Extent, _address: int) -> list[Callable[[], None]]:
        if self.refused:
            raise cublas.UnsupportedError(self.refused)
        self.asked.append((product.part, extent))

        def run(times: float) -> None:
            self.gpu.launched.append("library")
            self.gpu.now += times * (self.ns() if callable(self.ns) else self.ns)

        return [lambda: run(2.0), lambda: run(1.0)]
