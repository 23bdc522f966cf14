"""What the name of a kernel says: the record, and the words that all families share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["tensor", "simt", "none", "unknown"]
"""Where the products are done: ``tensor`` cores, ``simt`` (the scalar pipes), ``none`` (the kernel multiplies no
matrices: it copies, maps, reduces, pools), or ``unknown`` (the name does not tell)."""

UNKNOWN = "unknown"

FP16_OR_BF16 = "fp16|bf16"  # One of both: cuDNN's attention is called ``f16`` where the tensors are bf16 as well


@dataclass(frozen=True, slots=True)
class KernelName:
    """What one name says. None, ``()`` and ``unknown`` stand for what it does not say."""

    name: str  # As given
    # Whose kernel it is: ``xmma``, ``cublas``, ``nvjet``, ``cutlass``, ``cute`` (its DSL, whose users name the
    # kernels), ``trtllm``, ``deepgemm``, ``cudnn``, ``cutensor``, ``myelin``, ``attention``, ``tensorrt``,
    # ``triton``, ``onnxruntime``, ``pytorch``, ``cub``, ``thrust``, ``nccl``.
    family: str = UNKNOWN
    # What it computes: ``gemm``, ``gemv``, ``conv``, ``attention``, ``softmax``, ``elementwise``, ``reformat``...
    op: str = UNKNOWN
    arch: int | None = None  # The least SM version it was written for, as 80; not the GPU it runs on
    unit: Unit = "unknown"  # Where its products are done
    mma: str | None = None  # Shape of one tensor-core instruction, as ``16x8x16`` (M, N, K)
    # Of the (first) operand in memory; `FP16_OR_BF16` where the name says no more than 16 bits.
    dtype_in: str | None = None
    dtype_math: str | None = None  # That operands are rounded to before they are multiplied, as ``tf32``
    dtype_acc: str | None = None  # Of the accumulator
    dtype_out: str | None = None  # Of the result in memory
    layout: str | None = None  # In the name's own words: ``tn``, ``nhwckrsc_nhwc``
    tile: str | None = None  # Of one thread block, in elements: ``128x64`` or ``128x64x32`` (M, N, K)
    cluster: str | None = None  # Thread blocks of one cluster, as ``2x1x1``
    stages: int | None = None  # Depth of the software pipeline
    split_k: bool | None = None  # Whether several thread blocks share the sum of one result
    # Elements that the address and row length of operands must be multiples of: pairs of ``a``, ``b`` or ``c``
    # and a number.
    alignment: tuple[tuple[str, int], ...] = ()
    vector: int | None = None  # Elements that one load moves
    ops: tuple[str, ...] = ()  # The fused operations that the name lists, in its order
    evidence: str = ""  # The part of the name that tells the unit

    def as_dict(self) -> dict[str, Any]:
        """The record for JSON: dtypes as ``in``, ``math``, ``acc`` and ``out``, what is not known as null."""
        fields = "name family op arch unit mma in acc out layout tile stages split_k alignment vector math cluster ops"
        known: dict[str, Any] = {
            field: getattr(self, f"dtype_{field}" if field in ("in", "acc", "out", "math") else field)
            for field in fields.split()
        }
        return known | {
            "alignment": dict(self.alignment) or None,
            "ops": list(self.ops),
            "evidence": self.evidence or None,
        }


Fields = dict[str, Any]  # Fields of `KernelName` that a family has read, without ``name``

SM_VERSIONS = frozenset(
    (20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
)
"""SM versions there are; none is the beginning of another, so that a name cut inside one never reads as another."""

ARCH_WORDS = {
    "fermi": 20, "kepler": 30, "maxwell": 50, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "ada": 89,
    "hopper": 90, "blackwell": 100,
}  # fmt: skip
"""The first SM version of an architecture."""

FIRST_TENSOR_CORES = 70  # Volta brought tensor cores: code for earlier SMs has no instruction for them

_SHAPES = (
    "8x8x4",
    "16x8x4",
    "16x8x8",
    "16x8x16",
    "16x8x32",
    "16x8x64",
    "16x8x128",
    "16x8x256",
    "8x8x16",
    "8x8x32",
    "8x8x128",
    "16x16x4",
    "16x16x8",
    "16x16x16",
    "32x8x16",
    "8x32x16",
)
MMA_SHAPES = frozenset(_SHAPES)  # Warp-wide products of the PTX manual (mma, wmma); none is the beginning of another

MMA_DIGITS = {shape.replace("x", ""): shape for shape in _SHAPES}
"""The same as cuBLAS and CUTLASS 2 write them: ``16816``."""

DTYPES = {
    "f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "tf32": "tf32", "fp64": "fp64", "fp32": "fp32",
    "fp16": "fp16", "s8": "int8", "u8": "uint8", "i8": "int8", "s4": "int4", "u4": "uint4", "i4": "int4",
    "s32": "int32", "i32": "int32", "u32": "uint32", "s64": "int64", "i64": "int64", "u64": "uint64", "int8": "int8",
    "int4": "int4", "int32": "int32", "int8x4": "int8", "int8x32": "int8", "uint8": "uint8", "e4m3": "fp8e4m3fn",
    "e5m2": "fp8e5m2", "f8": "fp8", "fp8": "fp8", "e2m1": "fp4e2m1", "f4": "fp4", "f6": "fp6",
    "e3m2": "fp6e3m2", "e2m3": "fp6e2m3", "b1": "b1", "cf32": "complex64", "cf64": "complex128",
}  # fmt: skip
"""Dtypes by the words of tactic names, in those of `trtprof.base.units`; ``fp8``, ``fp6``, ``fp4`` of an open kind."""

LETTERS = {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int32", "c": "complex64", "z": "complex128"}
"""Accumulators by the letter of BLAS that cuBLAS, cuDNN and CUTLASS 2 put before ``gemm``."""

SHORT_TYPES = {
    "fp16": "16 bits", "bf16": "16 bits", "fp8e4m3fn": "8 bits", "fp8e5m2": "8 bits", "fp8": "8 bits",
    "fp6e2m3": "6 bits", "fp6e3m2": "6 bits", "fp6": "6 bits", "fp4e2m1": "4 bits", "fp4": "4 bits",
}  # fmt: skip
"""Floating-point operands that only tensor cores multiply into an fp32 sum: scalar code converts them first."""


def sm_version(text: str) -> int | None:
    """The SM version that ``80``, ``90a`` or ``100f`` names, or None."""
    digits = text[:-1] if text[-1:] in ("a", "f") else text
    # Digits of other scripts are digits to Python too.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 3):
        return None
    return int(digits) if int(digits) in SM_VERSIONS else None
