"""What launched the kernels of a capture without a plan, as far as their names and the NVTX ranges show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from trtprof.base.records import Match
from trtprof.base.units import format_percent
from trtprof.kernel_names.parse import UNKNOWN, parse

_OWN = {
    "tensorrt": "tensorrt", "myelin": "tensorrt", "onnxruntime": "ort-cuda", "pytorch": "pytorch", "triton": "pytorch",
}  # fmt: skip
"""Families of kernels that one runtime alone launches; Triton's are read as Inductor names them. Those of cuBLAS,
cuDNN, CUTLASS, CUB and others are everybody's."""
_TITLES = {"tensorrt": "TensorRT", "ort-cuda": "ONNX Runtime", "pytorch": "PyTorch"}
_TORCH_RANGES = ("aten::", "autograd::", "c10d::", "Torch-Compiled Region", "ProfilerStep#")
_TENSORRT_DOMAINS = ("tensorrt", "myelin")


class Producer(NamedTuple):
    """What launched the kernels."""

    backend: str  # ``tensorrt``, ``ort-cuda``, ``pytorch``, or ``unknown``
    note: str  # What shows it, in a sentence


def producer_of(kernels: Iterable[Match], ranges: Iterable[str], domains: Iterable[str]) -> Producer:
    """Who launched the kernels: by TensorRT's ranges, else the runtime with most kernel time, else PyTorch's."""
    if any(domain.lower().startswith(_TENSORRT_DOMAINS) for domain in domains):
        return Producer("tensorrt", "TensorRT's NVTX ranges show that it launched the kernels")
    spent: Counter[str] = Counter()
    total = 0
    for match in kernels:
        total += match.total_ns
        if owner := _owner(match.kernel):
            spent[owner] += match.total_ns
    if spent:
        backend, ns = max(spent.items(), key=lambda item: (item[1], item[0]))
        share = format_percent(ns / total if total else 1.0)
        return Producer(
            backend, f"{_TITLES[backend]} launched the kernels: {share} of their time is in some that are its alone"
        )
    if torch := next((name for name in ranges if name.startswith(_TORCH_RANGES)), ""):
        return Producer("pytorch", f"the NVTX ranges are PyTorch's: {torch}")
    return Producer(UNKNOWN, "no name of a kernel or an NVTX range tells what launched the kernels")


def _owner(kernel: str) -> str:
    # TensorRT marks the tactics that it shares with cuDNN and cuBLAS: ``..._execute_kernel_trt``, ``trt_ampere_...``.
    if kernel.startswith("trt_") or kernel.endswith("_kernel_trt"):
        return "tensorrt"
    return _OWN.get(parse(kernel).family, "")
