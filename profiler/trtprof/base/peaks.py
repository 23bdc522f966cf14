"""What a device computes at most of a dtype or a special function."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from trtprof.base.records import Roof

_WIDER: dict[str, str] = {
    "uint2": "uint4", "int2": "int4", "uint4": "uint8", "int4": "int8", "uint8": "int8", "int8": "fp16",
    "fp4e2m1": "fp8e4m3fn", "fp6e2m3": "fp8e4m3fn", "fp6e3m2": "fp8e5m2",
    "fp8e4m3fn": "fp16", "fp8e5m2": "fp16", "fp8e4m3fnuz": "fp16", "fp8e5m2fnuz": "fp16", "fp8e8m0": "bf16",
    "fp16": "fp32", "bf16": "fp32", "tf32": "fp32",
}  # fmt: skip
"""The type that holds all values of another one: a device without a unit for that one can compute in this."""


def peak_flops(peaks: Mapping[str, float], dtype: str, slower: Mapping[str, float] | None = None) -> float:
    """Peak FLOP/s for a dtype; one without a peak of its own has that of the next wider type, in the end fp32's."""
    dtype = wider(dtype, [known for known in peaks if peaks[known]])
    return (slower or {}).get(dtype) or peaks[dtype]


def wider(dtype: str, known: Collection[str]) -> str:
    """The type, the next wider one that is known, or fp32."""
    while dtype != "fp32" and dtype not in known:
        dtype = _WIDER.get(dtype, "fp32")
    return dtype


def special_rate(roof: Roof, function: str) -> float:
    """Evaluations per second of a special function of a roof that has any; one without is bounded by the fastest."""
    return roof.special_per_s.get(function) or max(roof.special_per_s.values())
