"""What the kernels of ``kernels.cu`` do, counted, and which GPU runs which of them.

The tests count the instructions of the compiled kernels against the amounts given here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trtprof.base.units import FLOP_PER_MAC

THREADS = 256  # Threads a block of every kernel

PIECE = 16  # Bytes that a thread moves with one instruction

TILE = 4 * THREADS * PIECE  # Bytes that a block moves in one step; every buffer is a multiple of it

_WARP = 32
_CHAINS, _STEPS = 8, 16
_SPECIAL = 4 * 8
_FRAGMENTS = 4
_BLOCK_SCALED = 12  # Major compute capability whose ``mma.sync`` takes fp4, with a scale a block


ROW_LENGTHS = {"fp32": (128, 512, 1024, 2048, 4096, 8192, 16384), "fp16": (512, 1024, 2048, 4096, 8192, 16384)}
"""Rows that there are kernels of softmax and normalisation for (``softmax_fp32_1024``), by dtype."""

_SHARED_BY_WARP = 1024  # The longest row that one warp takes; longer ones take a block


class RowKernel(NamedTuple):
    """A kernel over the rows of a matrix."""

    name: str  # Its function in the source
    rows: int  # How many a block of `THREADS` threads takes at a time


def row_kernel(kind: str, dtype: str, length: int) -> RowKernel | None:
    """The kernel of a softmax or normalisation over rows of a length; None where there is none."""
    if length not in ROW_LENGTHS.get(dtype, ()):
        return None
    return RowKernel(f"{kind}_{dtype}_{length}", THREADS // _WARP if length <= _SHARED_BY_WARP else 1)


class ComputeKernel(NamedTuple):
    """A kernel that computes in registers."""

    name: str  # Its function in the source
    ceiling: str  # The ceiling that it may reach: ``vector fp32``, ``special exp``, ``tensor fp16``
    part: str  # What else its rate is kept as, with the accumulator: ``tensor fp16 acc fp32``
    amount: int  # FLOP or evaluations of one thread in one trip; those of a warp are shared by its threads
    instruction: str  # The PTX instruction that does it, or the function of CUDA's mathematical library
    repeats: int  # How often a trip of a thread or warp issues ``instruction``
    # The lowest compute capability that has the instruction, or does it at full rate.
    at_least: tuple[int, int] = (7, 0)
    below: tuple[int, int] = (99, 0)  # The first one that has a better instruction instead

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether it says something about a GPU of this compute capability."""
        return self.at_least <= capability < self.below


def kernels(capability: tuple[int, int]) -> list[ComputeKernel]:
    """The kernels that say something about a GPU of this compute capability."""
    return [kernel for kernel in (*_VECTOR, *_SPECIAL_FUNCTIONS, *_tensor()) if kernel.runs_on(capability)]


def source() -> bytes:
    """The text that NVRTC compiles."""
    return Path(__file__).with_name("kernels.cu").read_bytes()


def architecture(capability: tuple[int, int]) -> str:
    """What NVRTC calls a GPU of this compute capability: ``sm_90``, and ``sm_120a`` where only that has fp4."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if major == _BLOCK_SCALED else ''}"


def _vector(
    dtype: str, instruction: str, lanes: int = 1, at_least: tuple[int, int] = (7, 0), variant: str = ""
) -> ComputeKernel:
    repeats = _CHAINS * _STEPS
    amount = FLOP_PER_MAC * lanes * repeats
    return ComputeKernel(f"vector_{dtype}{variant}", f"vector {dtype}", "", amount, instruction, repeats, at_least)


_VECTOR = (
    _vector("fp32", "fma.rn.f32"),
    _vector("fp32", "fma.rn.f32x2", 2, (10, 0), "x2"),
    _vector("fp64", "fma.rn.f64"),
    _vector("fp16", "fma.rn.f16x2", 2),
    _vector("bf16", "fma.rn.bf16x2", 2, (8, 0)),
    _vector("int32", "mad.lo.u32"),
)


def _special(function: str, instruction: str, lanes: int = 1, variant: str = "") -> ComputeKernel:
    at_least = (7, 5) if lanes == 2 or function == "tanh" else (7, 0)
    return ComputeKernel(
        f"special_{function}{variant}", f"special {function}", "", lanes * _SPECIAL, instruction, _SPECIAL, at_least
    )


_SPECIAL_FUNCTIONS = (
    _special("exp", "ex2.approx.ftz.f32"),
    _special("exp", "ex2.approx.f16x2", 2, "_fp16"),
    _special("log", "lg2.approx.ftz.f32"),
    _special("sqrt", "sqrt.approx.ftz.f32"),
    _special("sin", "sin.approx.ftz.f32"),
    _special("cos", "cos.approx.ftz.f32"),
    _special("tan", "sin.approx.ftz.f32, cos.approx.ftz.f32, rcp.approx.ftz.f32"),
    _special("tanh", "tanh.approx.f32"),
    _special("tanh", "tanh.approx.f16x2", 2, "_fp16"),
    _special("pow", "lg2.approx.ftz.f32, ex2.approx.ftz.f32"),
    _special("sinh", "ex2.approx.ftz.f32, rcp.approx.ftz.f32"),
    _special("cosh", "ex2.approx.ftz.f32, rcp.approx.ftz.f32"),
    _special("asinh", "sqrt.approx.ftz.f32, lg2.approx.ftz.f32"),
    _special("acosh", "sqrt.approx.ftz.f32, lg2.approx.ftz.f32"),
    _special("atanh", "rcp.approx.ftz.f32, lg2.approx.ftz.f32"),
    _special("erf", "erff"),
    _special("asin", "asinf"),
    _special("acos", "acosf"),
    _special("atan", "atanf"),
)
"""What the special-function unit has no instruction for goes through CUDA's library with fast mathematics."""


def _mma(
    dtype: str,
    accumulator: str,
    shape: tuple[int, int, int],
    at_least: tuple[int, int],
    below: tuple[int, int] = (99, 0),
    chains: int = 8,
) -> ComputeKernel:
    m, n, k = shape
    name = f"m{m}n{n}k{k}"
    repeats = chains * _FRAGMENTS
    amount = FLOP_PER_MAC * m * n * k * repeats // _WARP
    return ComputeKernel(
        f"tensor_{dtype}_{accumulator}_{name}",
        f"tensor {dtype}",
        f"tensor {dtype} acc {accumulator}",
        amount,
        f"mma.sync.{name}",
        repeats,
        at_least,
        below,
    )


def _tensor() -> tuple[ComputeKernel, ...]:
    """The shapes that the tensor cores of each compute capability do in one instruction.

    Compiled for 9.0 and 10.0, ``mma.sync`` of fp8 becomes conversions and products of fp16: it is left out there.
    """
    turing, ampere, ada, hopper, blackwell = (7, 5), (8, 0), (8, 9), (9, 0), (12, 0)
    fp8 = [
        _mma(dtype, accumulator, (16, 8, 32), since, until)
        for dtype, accumulator in (("fp8e4m3fn", "fp32"), ("fp8e4m3fn", "fp16"), ("fp8e5m2", "fp32"))
        for since, until in ((ada, hopper), (blackwell, (99, 0)))
    ]
    return (
        _mma("fp16", "fp32", (16, 8, 8), turing, ampere),
        _mma("fp16", "fp16", (16, 8, 8), turing, ampere),
        _mma("int8", "int32", (8, 8, 16), turing, ampere),
        _mma("fp16", "fp32", (16, 8, 16), ampere),
        _mma("fp16", "fp16", (16, 8, 16), ampere),
        _mma("bf16", "fp32", (16, 8, 16), ampere),
        _mma("tf32", "fp32", (16, 8, 8), ampere),
        _mma("int8", "int32", (16, 8, 32), ampere),
        _mma("fp64", "fp64", (8, 8, 4), ampere),
        _mma("fp64", "fp64", (16, 8, 16), hopper, (10, 0), chains=4),
        *fp8,
        _mma("fp4e2m1", "fp32", (16, 8, 64), blackwell, (13, 0)),
    )
