"""Matrix products by cuBLASLt, the library whose kernels reach the peak of tensor cores.

``mma.sync`` does not reach it on GPUs of compute capability 9.0 and 10.x, whose tensor cores take whole
tiles from shared memory. nvmath-python binds the library; its tables of names and sizes follow the header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.units import FLOP_PER_MAC

WORKSPACE = 64 << 20  # Bytes of device memory that an algorithm may use on top of its operands

ALGORITHMS = 8  # How many algorithms are asked for; the first few of them are tried


class UnsupportedError(Exception):
    """The library has no algorithm for it on this device."""


class Product(NamedTuple):
    """A kind of matrix product."""

    dtype: str  # Of the operands, a key of `units.DTYPE_BITS`, or ``tf32``
    accumulator: str  # What it is summed in
    compute: str  # Name in `cublasComputeType_t` without its prefix
    data: str  # Name of the operands' type in `cudaDataType_t` without its prefix
    out: str  # The same of the result
    scale: str  # The same of the factors of product and addend
    tolerance: float  # Root mean square of the error over that of the result up to which it counts as right
    at_least: tuple[int, int] = (7, 0)  # The lowest compute capability that it is tried on
    fast: bool = False  # Whether sums of fp8 may stay in the tensor cores' own precision

    @property
    def ceiling(self) -> str:
        """The ceiling that it may reach."""
        return f"tensor {self.dtype}"

    @property
    def part(self) -> str:
        """What else its rate is kept as."""
        return f"tensor {self.dtype} acc {self.accumulator}"

    @property
    def fill(self) -> str:
        """Type of the random values that its operands are filled with."""
        return "fp32" if self.dtype == "tf32" else self.dtype


PRODUCTS = (
    Product("fp64", "fp64", "64F", "R_64F", "R_64F", "R_64F", 1e-12),
    Product("fp32", "fp32", "32F", "R_32F", "R_32F", "R_32F", 2e-5),
    Product("tf32", "fp32", "32F_FAST_TF32", "R_32F", "R_32F", "R_32F", 3e-3, (8, 0)),
    Product("fp16", "fp32", "32F", "R_16F", "R_16F", "R_32F", 3e-3),
    Product("fp16", "fp16", "16F", "R_16F", "R_16F", "R_16F", 5e-2),
    Product("bf16", "fp32", "32F", "R_16BF", "R_16BF", "R_32F", 2e-2, (8, 0)),
    Product("int8", "int32", "32I", "R_8I", "R_32I", "R_32I", 0.0, (7, 5)),
    Product("fp8e4m3fn", "fp32", "32F", "R_8F_E4M3", "R_16BF", "R_32F", 5e-2, (8, 9)),
    Product("fp8e4m3fn", "fp32 fast", "32F", "R_8F_E4M3", "R_16BF", "R_32F", 5e-2, (8, 9), fast=True),
)
"""The tolerances are a few times the rounding of operands (tf32: 11 bits) and results (bf16: 8 bits), or, of sums
in fp16, that of 512 additions of 16 products each; a wrong layout or type errs by 1 and more."""

_BYTES = {"R_64F": 8, "R_32F": 4, "R_32I": 4, "R_16F": 2, "R_16BF": 2, "R_8I": 1, "R_8F_E4M3": 1}
_NUMPY = {"R_64F": "f8", "R_32F": "f4", "R_32I": "i4", "R_16F": "f2", "R_16BF": "u2", "R_8I": "i1", "R_8F_E4M3": "u1"}


class Extent(NamedTuple):
    """How large a product is: the rows of A, the columns of B, what is summed up, and how many such products."""

    rows: int
    columns: int
    depth: int
    batch: int = 1


def square(size: int) -> Extent:
    """The product of two square matrices."""
    return Extent(size, size, size)


def flops(extent: Extent) -> int:
    """FLOP of a product."""
    return FLOP_PER_MAC * extent.rows * extent.columns * extent.depth * extent.batch


def layout(product: Product, extent: Extent) -> tuple[int, int, int, int]:
    """Where A, B and the result of a product lie behind each other, and how many bytes they take together."""
    rows, columns, depth, batch = extent
    width = _BYTES[product.data]
    a, b = (-(-batch * lines * depth * width // 256) * 256 for lines in (rows, columns))
    return 0, a, a + b, a + b + batch * rows * columns * _BYTES[product.out]


def element_bytes(name: str) -> int:
    """Size of an element of a type by its name in `cudaDataType_t`."""
    return _BYTES[name]


def values(name: str, raw: bytes) -> npt.NDArray[np.float64]:
    """Elements of a type by its name in `cudaDataType_t`, as double precision."""
    bits = np.frombuffer(raw, dtype=_NUMPY[name])
    if name == "R_16BF":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if name == "R_8F_E4M3":
        exponent, mantissa = (bits >> 3 & 15).astype(np.float64), (bits & 7).astype(np.float64)
        size = np.where(exponent > 0, (1 + mantissa / 8) * 2 ** (exponent - 7), mantissa / 8 * 2.0**-6)
        return np.where(bits & 0x7F == 0x7F, np.nan, np.where(bits & 0x80, -size, size))
    return bits.astype(np.float64)


def relative_error(
    rows: npt.NDArray[np.float64], columns: npt.NDArray[np.float64], found: npt.NDArray[np.float64]
) -> float:
    """Root mean square of the error of some entries of a product over that of the right ones."""
    right = rows @ columns.T
    return float(np.sqrt(np.mean((found - right) ** 2)) / np.sqrt(np.mean(right**2)))


class Library:
    """cuBLASLt on a device, whose context is current, with `WORKSPACE` bytes of its memory."""

    def __init__(self, workspace: int, stream: int) -> None:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas
        from nvmath.bindings import cublasLt as lt  # noqa: N813

        self._lt: Any = lt
        self._types: Any = CudaDataType
        self._compute: Any = cublas.ComputeType
        self._workspace, self._stream = workspace, stream
        self._errors = (lt.cuBLASLtError, RuntimeError)  # the latter: the library or the driver is not found
        with self._failures():
            self._handle = lt.create()
            version = lt.get_version()
        self.version = f"{version // 10000}.{version % 10000 // 100}.{version % 100}"

    def algorithms(self, product: Product, extent: Extent, address: int) -> list[Callable[[], None]]:
        """What puts a product on the stream, one for each algorithm, the one that should be fastest first.

        A is given transposed, so that both operands lie along the direction of the sum, as products of fp8 and int8
        need them: an element of row i of A is at ``i * depth + k``, one of column j of B at ``j * depth + k``, and the
        entry of both in the result at ``j * rows + i``.
        """
        lt = self._lt
        with self._failures():
            operation = lt.matmul_desc_create(
                self._compute[f"COMPUTE_{product.compute}"], self._types[f"CUDA_{product.scale}"]
            )
            self._set(operation, lt.MatmulDescAttribute.TRANSA, 1)  # CUBLAS_OP_T
            if product.fast:
                self._set(operation, lt.MatmulDescAttribute.FAST_ACCUM, 1)
            data, out = self._types[f"CUDA_{product.data}"], self._types[f"CUDA_{product.out}"]
            rows, columns, depth, batch = extent
            left = self._matrix(data, depth, rows, batch)
            right = self._matrix(data, depth, columns, batch)
            result = self._matrix(out, rows, columns, batch)
            preference = lt.matmul_preference_create()
            limit = np.array([WORKSPACE], dtype=np.uint64)
            attribute = lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
            lt.matmul_preference_set_attribute(preference, attribute, limit.ctypes.data, limit.nbytes)
            found = np.zeros(ALGORITHMS, dtype=lt.matmul_heuristic_result_dtype)
            count = np.zeros(1, dtype=np.int32)
            lt.matmul_algo_get_heuristic(
                self._handle, operation, left, right, result, result, preference, ALGORITHMS,
                found.ctypes.data, count.ctypes.data,
            )  # fmt: skip
            lt.matmul_preference_destroy(preference)
        usable = [index for index in range(int(count[0])) if found["state"][index] == 0]
        if not usable:
            raise UnsupportedError(f"cuBLASLt has no algorithm for {product.part}")
        a, b, c, _ = layout(product, extent)
        factors = np.array([1, 0], dtype=_NUMPY[product.scale])

        def runner(algorithm: npt.NDArray[Any]) -> Callable[[], None]:
            def run() -> None:
                one = factors.ctypes.data
                try:
                    lt.matmul(
                        self._handle, operation, one, address + a, left, address + b, right,
                        one + factors.itemsize, address + c, result, address + c, result, algorithm.ctypes.data,
                        self._workspace, WORKSPACE, self._stream,
                    )  # fmt: skip
                except lt.cuBLASLtError as error:
                    raise UnsupportedError(str(error)) from None

            return run

        return [runner(found[index : index + 1]) for index in usable]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise UnsupportedError(f"cuBLASLt: {error}") from None

    def _matrix(self, kind: Any, rows: int, columns: int, batch: int) -> int:
        """The layout of matrices that lie behind each other, column by column."""
        lt = self._lt
        found: int = lt.matrix_layout_create(kind, rows, columns, rows)
        attributes = lt.MatrixLayoutAttribute
        for attribute, value in (
            ((attributes.BATCH_COUNT, batch), (attributes.STRIDED_BATCH_OFFSET, rows * columns)) if batch > 1 else ()
        ):
            buffer = np.array([value], dtype=lt.get_matrix_layout_attribute_dtype(attribute))
            lt.matrix_layout_set_attribute(found, attribute, buffer.ctypes.data, buffer.nbytes)
        return found

    def _set(self, operation: int, attribute: Any, value: int) -> None:
        dtype = self._lt.get_matmul_desc_attribute_dtype(attribute)
        buffer = np.array([value], dtype=dtype)
        self._lt.matmul_desc_set_attribute(operation, attribute, buffer.ctypes.data, buffer.nbytes)
