"""What the caller and the child process that measures a GPU say to each other, without heavy imports."""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.hardware._fit import Reading


class GpuRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure."""

    ordinal: int  # Of the device, as CUDA counts those that the child may use
    seconds: float  # Time for the ceilings; compiling, warming up and the floors come on top
    uuid: str = ""  # Of the device, as NVML writes it; empty when it is not known
    nvml_index: int = 0  # Of the GPU whose clock is read


class GpuSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What a GPU is measured with."""

    name: str  # What the driver calls it
    architecture: str  # What the kernels were compiled for
    nvrtc: str  # Version of the compiler
    cublas: str  # Version of cuBLASLt, empty where there is none
    l2_bytes: int  # Size of the L2, 0 when the driver does not tell
    pool_bytes: int  # Memory that the working sets were taken from


class GpuMeasured(GpuSetting, frozen=True, kw_only=True):
    """The readings of a GPU."""

    readings: dict[str, Reading]  # By the name of the ceiling, part or floor
    errors: dict[str, float] = {}  # Relative error of the product behind each kind of GEMM, the largest of its sizes
    # SM clock ``before``, ``during`` and ``after``, and that of the ``memory``, where NVML tells them.
    clocks_mhz: dict[str, float] = {}
    held_down: dict[str, float] = {}  # By reason, the share of the samples in which the clock was held down
    notes: tuple[str, ...] = ()  # What could not be measured, and why
    seconds: float = 0.0  # How long all took


class KernelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel to time: dimensions as in `records.Core`, and what it multiplies or computes with."""

    kind: Literal["product", "softmax", "normalisation", "pointwise"]
    dtype: str
    batch: int = 1
    m: int
    n: int = 1
    k: int = 1


class KernelsRequest(GpuRequest, frozen=True, kw_only=True):
    """Which kernels to time."""

    shapes: tuple[KernelShape, ...]  # In this order, as far as ``seconds`` go
    rows_file: str  # Gets a line ``PLACE NS`` as soon as one is timed, so that none is lost when the process dies


class KernelsMeasured(GpuSetting, frozen=True, kw_only=True):
    """What is to be said of timed kernels."""

    clocks_mhz: dict[str, float] = {}  # As of `GpuMeasured`
    held_down: dict[str, float] = {}  # The same
    notes: tuple[str, ...] = ()  # What could not be timed, and why
