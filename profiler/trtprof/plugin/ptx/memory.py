"""The memory that kernels are given: named buffers, far from one another, which know what was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trtprof.plugin.ptx.fault import Fault

Array = npt.NDArray[Any]

FIRST = 0x2_0000_0000  # Where buffers begin: above 32 bits, so that a pointer that is cut short points nowhere
SHARED = 1 << 40  # Where shared memory is for those who have a generic address
LOCAL = 1 << 41  # Where local memory is for those who have a generic address
GAP = 1 << 20
POISON = 0xFF  # What an output holds before it is written: NaN in each float format
VIEWS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
"""What holds cells of so many bytes: 16 only as bits that are copied."""


class Buffer:
    """One piece of memory.

    Attributes:
        origin: The aligned place behind which it begins; what `bytes` begins with.
        bytes: Its content, from ``origin`` on.
        writable: Whether a kernel may write it.
        written: 1 for each byte that was written, from ``origin`` on; None where all are known.
    """

    def __init__(self, name: str, start: int, nbytes: int, origin: int, content: Array, writable: bool) -> None:
        self.name, self.start, self.nbytes, self.origin = name, start, nbytes, origin
        self.bytes = content
        self.writable = writable
        self.written: Array | None = None
        self._views: dict[tuple[bool, int], Array] = {}

    @property
    def end(self) -> int:
        return self.start + self.nbytes

    def cells(self, size: int, *, written: bool = False) -> Array:
        """The content in cells of ``size`` bytes (1 to 16), or what is known of whether it was written."""
        if (written, size) not in self._views:
            source = self.written if written else self.bytes
            if source is None:
                raise ValueError(f"{self.name} is no output")
            whole = source[: source.size // size * size]
            self._views[written, size] = whole.view(VIEWS[size])
        return self._views[written, size]


class Memory:
    """Buffers by name, for any number of launches."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._next = FIRST
        self._by_name: dict[str, Buffer] = {}

    def add(self, name: str, array: Array | bytes, *, writable: bool = False, align: int = 256, shift: int = 0) -> int:
        """Put bytes into memory. `shift`: how many bytes behind that place it begins."""
        content = np.frombuffer(array, np.uint8) if isinstance(array, bytes | bytearray) else _flat(array)
        origin = self._place(align)
        if shift or writable:
            room = np.full(-(-(shift + content.size) // 32) * 32, POISON, np.uint8)
            room[shift : shift + content.size] = content
            return self._keep(Buffer(name, origin + shift, content.size, origin, room, writable))
        return self._keep(Buffer(name, origin, content.size, origin, content, writable))

    def output(self, name: str, nbytes: int, *, align: int = 256, shift: int = 0) -> int:
        """Room for a result, poisoned with bytes 0xFF; see `add`."""
        origin = self._place(align)
        size = -(-(shift + nbytes) // 32) * 32
        buffer = Buffer(name, origin + shift, nbytes, origin, np.full(size, POISON, np.uint8), True)
        buffer.written = np.zeros(size, np.uint8)
        return self._keep(buffer)

    def read(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        """A copy of what begins a buffer."""
        buffer = self._by_name[name]
        kind = np.dtype(dtype)
        begin = buffer.start - buffer.origin
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if size > buffer.nbytes:
            raise ValueError(f"{name} has {buffer.nbytes} bytes, no {size}")
        return buffer.bytes[begin : begin + size].copy().view(kind).reshape(shape)

    def unwritten(self, name: str) -> int:
        """Bytes of a buffer that no kernel wrote; 0 of one that was put in."""
        buffer = self._by_name[name]
        if buffer.written is None:
            return 0
        begin = buffer.start - buffer.origin
        return buffer.nbytes - int(np.count_nonzero(buffer.written[begin : begin + buffer.nbytes]))

    def find(self, address: int) -> tuple[Buffer | None, str]:
        """The buffer that an address is in, and in words where it is."""
        nearest, distance = "no buffer is near", 1 << 62
        for one in self.buffers:
            if one.start <= address < one.end:
                return one, f"{address - one.start} bytes into {one.name}"
            away = one.start - address if address < one.start else address - one.end
            if away < distance:
                distance = away
                where = "before" if address < one.start else "behind the end of"
                nearest = f"{away} bytes {where} {one.name} ({one.nbytes} bytes)"
        return None, f"address 0x{address:x}, {nearest}"

    def _place(self, align: int) -> int:
        if align < 1 or align & (align - 1):
            raise Fault("launch", f"an alignment of {align} is no power of two")
        unit = max(align, 256)
        # A place that is aligned to no more than was asked for.
        return -(-self._next // (2 * unit)) * (2 * unit) + (align if align >= 256 else 0)

    def _keep(self, buffer: Buffer) -> int:
        if buffer.name in self._by_name:
            raise Fault("launch", f"two buffers are called {buffer.name}")
        self._by_name[buffer.name] = buffer
        self.buffers.append(buffer)
        self._next = buffer.end + buffer.nbytes + GAP
        return buffer.start


def _flat(array: Array) -> Array:
    whole = np.ascontiguousarray(array)
    return whole.reshape(-1).view(np.uint8) if whole.size else np.zeros(0, np.uint8)
