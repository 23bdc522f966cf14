"""A GPU and its library of matrix products that take given times, for what measures them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trtprof.hardware.cuda._kernels import TILE
from trtprof.hardware.cuda._workloads import Run
from trtprof.runtime import cublas
from trtprof.runtime.cublas import Extent
from trtprof.runtime.cuda_driver import Argument, Properties

UUID = "01020304-0506-0708-090a-0b0c0d0e0f10"

PROPERTIES = Properties(
    name="Fake GPU",
    uuid=UUID,
    capability=(8, 0),
    sms=10,
    l2_bytes=1 << 20,
    free_bytes=1 << 30,
    cuda=(13, 0),
    nvrtc=(13, 4),
)
POOL_AT = 1 << 60


class FakeGpu:
    """A device whose kernels take given times, with a memory for what products need.

    Bytes per ns: DRAM read 400, copy 350, write 300, L2 2000 and 1800. A trip of a thread takes an
    eighth of a ns, an empty kernel 1500 ns in a stream and 900 ns in a graph.
    """

    def __init__(self, properties: Properties = PROPERTIES, *, late: bool = False) -> None:
        self.properties = properties
        self.late = late
        self.now = 0.0
        self.allocated: list[int] = []
        self.launches: list[tuple[str, int, tuple[int, ...]]] = []
        self.held: list[int] = []
        self.capturing: list[str] | None = None
        self.pool = np.zeros(256 << 20, dtype=np.uint8)
        self.wrong = ""

    def full_wave(self, kernel: str, threads: int) -> int:
        assert kernel
        assert threads == 256
        return 4 * self.properties.sms

    def launch(self, kernel: str, blocks: int, threads: int, *arguments: Argument) -> None:
        values = tuple(argument.value for argument in arguments)
        if self.capturing is not None:
            self.capturing.append(kernel)
            return
        self.launches.append((kernel, blocks, values))
        kind = kernel.partition("_")[0]
        if kind in ("vector", "special", "tensor"):
            self.now += values[1] * blocks * threads / 8
        elif kind == "dram":
            count = values[1] if kernel == "dram_write" else values[2]
            self.now += 16 * count * {"read": 1 / 400, "copy": 2 / 350, "write": 1 / 300}[kernel[5:]]
        elif kind == "cache":
            self.now += values[3] * blocks * TILE * {"read": 1 / 2000, "copy": 2 / 1800}[kernel[6:]]
        elif kind in ("softmax", "normalisation"):
            self.rows(kernel, values)
        elif kernel.startswith("fill_"):
            self.fill(kernel.removeprefix("fill_"), *values)
        elif kernel == "empty":
            self.now += 1500

    def fill(self, kind: str, address: int, count: int, seed: int) -> None:
        if kind == "bits":
            return
        random = np.random.default_rng(seed)
        kinds: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
            "fp64": lambda: random.uniform(-1, 1, count),
            "fp32": lambda: random.uniform(-1, 1, count).astype("f4"),
            "fp16": lambda: random.uniform(-1, 1, count).astype("f2"),
            "bf16": lambda: (random.uniform(-1, 1, count).astype("f4").view("u4") >> 16).astype("u2"),
            "int8": lambda: random.integers(-128, 128, count).astype("i1"),
        }
        raw = kinds[kind]()
        self.at(address, raw.nbytes)[:] = raw.view("u1")

    def rows(self, kernel: str, values: tuple[int, ...]) -> None:
        """What a kernel over rows makes of them, at 200 bytes a ns."""
        kind, dtype, length = kernel.split("_")
        out, given, *factors, rows = values
        element = np.dtype({"fp32": "f4", "fp16": "f2"}[dtype])
        nbytes = rows * int(length) * element.itemsize
        self.now += 1000 + 2 * nbytes / 200

        def read(address: int, count: int) -> np.ndarray[Any, Any]:
            return self.at(address, count * element.itemsize).view(element).astype("f8")

        x = read(given, rows * int(length)).reshape(rows, int(length))
        if kind == "softmax":
            raised = np.exp(x - x.max(1, keepdims=True))
            found = raised / raised.sum(1, keepdims=True)
        else:
            by = read(factors[0], 2 * int(length)).reshape(2, -1)
            found = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * by[0] + by[1]
        if kernel == self.wrong:
            found = x
        self.at(out, nbytes)[:] = found.astype(element).reshape(-1).view("u1")

    def at(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        start = address - POOL_AT
        assert 0 <= start <= start + nbytes <= self.pool.nbytes
        return self.pool[start : start + nbytes]

    def graph(self, enqueue: Run) -> Any:
        self.capturing = []
        enqueue()
        recorded, self.capturing = self.capturing, None
        gpu = self

        class Recorded:
            def launch(self) -> None:
                gpu.now += 2000 + 900 * len(recorded)

        return Recorded()

    def elapsed_ns(self, enqueue: Run, hold_ns: int = 0) -> float | None:
        began = self.now
        self.held.append(hold_ns)
        enqueue()
        return None if hold_ns and self.late else self.now - began

    def synchronize(self) -> None: ...

    def allocate(self, nbytes: int) -> int:
        self.allocated.append(nbytes)
        return POOL_AT * len(self.allocated)

    def allocate_pinned(self, nbytes: int) -> int:
        self.host = np.zeros(nbytes, dtype=np.uint8)
        return int(self.host.ctypes.data)

    def copy_to_device(self, target_address: int, source_address: int, nbytes: int) -> None:
        assert target_address >= POOL_AT > source_address > 0
        self.now += nbytes / 50

    def copy_to_host(self, target_address: int, source_address: int, nbytes: int) -> None:
        assert source_address >= POOL_AT > target_address > 0
        self.now += nbytes / 40

    def read(self, address: int, nbytes: int) -> bytes:
        return self.at(address, nbytes).tobytes()


class FakeProducts:
    """Matrix products of the fake device, by numpy; the second algorithm is the fastest."""

    version = "9.9.9"

    def __init__(self, gpu: FakeGpu, wrong: str = "", refused: str = "") -> None:
        self.gpu, self.wrong, self.refused = gpu, wrong, refused
        self.runs: list[tuple[str, int, int]] = []

    def algorithms(self, product: cublas.Product, extent: Extent, address: int) -> list[Run]:
        if product.dtype == self.refused:
            raise cublas.UnsupportedError("no algorithm")
        return [functools.partial(self.run, product, extent, address, which) for which in range(2)]

    def run(self, product: cublas.Product, extent: Extent, address: int, which: int) -> None:
        self.runs.append((product.part, extent.rows, which))
        self.gpu.now += cublas.flops(extent) / (200 if which else 100)
        a, b, c, _ = cublas.layout(product, extent)
        left, right = (
            cublas.values(
                product.data, self.gpu.read(address + at, size * extent.depth * cublas.element_bytes(product.data))
            ).reshape(size, extent.depth)
            for at, size in ((a, extent.rows), (b, extent.columns))
        )
        found = (right @ left.T).ravel()  # column by column
        if product.dtype == self.wrong:
            found = (left @ right.T).ravel()
        if product.out == "R_16BF":
            raw = (found.astype("f4").view("u4") + 0x8000 >> 16).astype("u2")
        else:
            raw = found.astype({"R_64F": "f8", "R_32F": "f4", "R_32I": "i4", "R_16F": "f2"}[product.out])
        self.gpu.at(address + c, raw.nbytes)[:] = raw.view("u1")
