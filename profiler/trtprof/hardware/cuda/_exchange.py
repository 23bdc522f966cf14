"""What the caller and the child process that measures a GPU say to each other, without heavy imports."""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.hardware._fit import Reading


class GpuRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure.

    Attributes:
        ordinal: Of the device, as CUDA counts those that the child may use.
        uuid: Of the device, as NVML writes it; empty when it is not known.
        nvml_index: Of the GPU whose clock is read.
        seconds: Time for the ceilings; compiling, warming up and the floors come on top.
    """

    ordinal: int
    seconds: float
    uuid: str = ""
    nvml_index: int = 0


class GpuSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What a GPU is measured with.

    Attributes:
        name: What the driver calls it.
        architecture: What the kernels were compiled for.
        nvrtc: Version of the compiler.
        cublas: Version of cuBLASLt, empty where there is none.
        l2_bytes: Size of the L2, 0 when the driver does not tell.
        pool_bytes: Memory that the working sets were taken from.
    """

    name: str
    architecture: str
    nvrtc: str
    cublas: str
    l2_bytes: int
    pool_bytes: int


class GpuMeasured(GpuSetting, frozen=True, kw_only=True):
    """The readings of a GPU.

    Attributes:
        readings: By the name of the ceiling, part or floor.
        errors: Relative error of the product behind each kind of GEMM, the largest of its sizes.
        clocks_mhz: SM clock ``before``, ``during`` and ``after``, and that of the ``memory``, where NVML tells them.
        held_down: By reason, the share of the samples in which the clock was held down.
        notes: What could not be measured, and why.
        seconds: How long all took.
    """

    readings: dict[str, Reading]
    errors: dict[str, float] = {}
    clocks_mhz: dict[str, float] = {}
    held_down: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class KernelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel to time: dimensions as in `records.Core`, and what it multiplies or computes with."""

    kind: Literal["product", "softmax", "normalisation", "pointwise"]
    dtype: str
    batch: int = 1
    m: int
    n: int = 1
    k: int = 1


class KernelsRequest(GpuRequest, frozen=True, kw_only=True):
    """Which kernels to time.

    Attributes:
        shapes: In this order, as far as ``seconds`` go.
        rows_file: Gets a line ``PLACE NS`` as soon as one is timed, so that none is lost when the process dies.
    """

    shapes: tuple[KernelShape, ...]
    rows_file: str


class KernelsMeasured(GpuSetting, frozen=True, kw_only=True):
    """What is to be said of timed kernels.

    Attributes:
        clocks_mhz: As of `GpuMeasured`.
        held_down: The same.
        notes: What could not be timed, and why.
    """

    clocks_mhz: dict[str, float] = {}
    held_down: dict[str, float] = {}
    notes: tuple[str, ...] = ()
