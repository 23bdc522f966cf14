"""What one multiprocessor does in a clock cycle, by compute capability.

A peak is one of these numbers x multiprocessors x clock. They belong to the architecture: a device whose
datasheet is not known still gets a roof from them (`gpus.derive`), and every peak of a datasheet is checked
against them.

Sources, as the tables below name them:

- CUDA guide: NVIDIA, CUDA C++ Programming Guide up to 12.9 and CUDA C++ Best Practices Guide from 13.0 on,
  "Throughput of Native Arithmetic Instructions".
- XLA: openxla/xla, ``xla/stream_executor/cuda/cuda_core_info_table.cc``, which quotes the guide and the whitepapers.
- Whitepapers of NVIDIA: V100, Turing, A100, GA102, H100, Ada, RTX Blackwell; their tables of peaks, divided by
  multiprocessors and clock.
- gpu-benches: https://github.com/te42kyfo/gpu-benches at commit 1c36d50, raw measurements by file.
"""

from __future__ import annotations

from typing import Literal

from trtprof.base.errors import UsageError

ProductClass = Literal["datacenter", "workstation", "geforce", "jetson"]
Rates = dict[str, dict[str, int]]

_ARCHITECTURES = {
    "7.0": "Volta", "7.2": "Volta", "7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.7": "Ampere", "8.9": "Ada",
    "9.0": "Hopper", "10.0": "Blackwell", "10.3": "Blackwell", "11.0": "Blackwell", "12.0": "Blackwell",
}  # fmt: skip

_CUDA_RESULTS: dict[str, dict[str, int]] = {
    "7.0": {"fp64": 32, "fp32": 64, "fp16": 128, "int32": 64},
    "7.2": {"fp64": 32, "fp32": 64, "fp16": 128, "int32": 64},
    "7.5": {"fp64": 2, "fp32": 64, "fp16": 128, "int32": 64},
    "8.0": {"fp64": 32, "fp32": 64, "fp16": 256, "bf16": 128, "int32": 64},
    "8.6": {"fp64": 2, "fp32": 128, "fp16": 128, "bf16": 128, "int32": 64},
    "8.7": {"fp64": 2, "fp32": 128, "fp16": 256, "bf16": 128, "int32": 64},
    "8.9": {"fp64": 2, "fp32": 128, "fp16": 128, "bf16": 128, "int32": 64},
    "9.0": {"fp64": 64, "fp32": 128, "fp16": 256, "bf16": 256, "int32": 64},
    "10.0": {"fp64": 64, "fp32": 128, "fp16": 128, "bf16": 128, "int32": 64},
    "10.3": {"fp64": 2, "fp32": 128, "fp16": 128, "bf16": 128, "int32": 64},
    "11.0": {"fp32": 128, "fp16": 128, "bf16": 128, "int32": 64},
    "12.0": {"fp64": 2, "fp32": 128, "fp16": 128, "bf16": 128, "int32": 128},
}
"""CUDA guide, and XLA for 8.0, 9.0 and 10.0. bf16: the whitepapers of A100 (39 TFLOP/s, half of fp16), H100, GA102,
Ada and RTX Blackwell (as fp32); as fp16 where none says it. 7.2 as 7.0. 8.7: TechPowerUp's figures of the Jetson
Orin, fp16 at twice fp32. 10.3: fp64 at 1.2 TFLOP/s, TechPowerUp's B300. 11.0: as 10.0, but nobody gives fp64."""

_HOPPER: Rates = {
    "fp64": {"fp64": 256}, "tf32": {"fp32": 2048}, "fp16": {"fp16": 4096, "fp32": 4096}, "bf16": {"fp32": 4096},
    "int8": {"int32": 8192}, "fp8": {"fp16": 8192, "fp32": 8192},
}  # fmt: skip
_BLACKWELL: Rates = {
    "fp64": {"fp64": 128}, "tf32": {"fp32": 4096}, "fp16": {"fp16": 8192, "fp32": 8192}, "bf16": {"fp32": 8192},
    "int8": {"int32": 16384}, "fp8": {"fp16": 16384, "fp32": 16384}, "fp4": {"fp32": 32768},
}  # fmt: skip
_TENSOR_FLOPS: dict[str, Rates] = {
    "7.0": {"fp16": {"fp16": 1024, "fp32": 1024}},
    "7.2": {"fp16": {"fp16": 1024, "fp32": 1024}, "int8": {"int32": 2048}},
    "7.5": {"fp16": {"fp16": 1024, "fp32": 1024}, "int8": {"int32": 2048}},
    "8.0": {
        "fp64": {"fp64": 128}, "tf32": {"fp32": 1024}, "fp16": {"fp16": 2048, "fp32": 2048}, "bf16": {"fp32": 2048},
        "int8": {"int32": 4096},
    },
    "8.6": {
        "tf32": {"fp32": 512}, "fp16": {"fp16": 1024, "fp32": 1024}, "bf16": {"fp32": 1024}, "int8": {"int32": 2048},
    },
    "8.7": {
        "tf32": {"fp32": 1024}, "fp16": {"fp16": 2048, "fp32": 2048}, "bf16": {"fp32": 2048}, "int8": {"int32": 4096},
    },
    "8.9": {
        "tf32": {"fp32": 512}, "fp16": {"fp16": 1024, "fp32": 1024}, "bf16": {"fp32": 1024}, "int8": {"int32": 2048},
        "fp8": {"fp16": 2048, "fp32": 2048},
    },
    "9.0": _HOPPER,
    "10.0": _BLACKWELL,
    "10.3": {dtype: by for dtype, by in _BLACKWELL.items() if dtype != "fp64"}
    | {"int8": {"int32": 512}, "fp4": {"fp32": 49152}},
    "11.0": {dtype: by for dtype, by in _BLACKWELL.items() if dtype != "fp64"},
    "12.0": {
        "tf32": {"fp32": 512}, "fp16": {"fp16": 1024, "fp32": 1024}, "bf16": {"fp32": 1024}, "int8": {"int32": 2048},
        "fp8": {"fp16": 2048, "fp32": 2048}, "fp4": {"fp32": 4096},
    },
}  # fmt: skip
"""Dense rates of the workstation and data-centre parts. XLA for 8.0, 9.0 and 10.0, the whitepapers else. 7.2 and 8.7:
the peaks of the Jetson modules less those of their DLAs. 10.3: the peaks of the B300 against those of the B200 at
https://verda.com/blog/gb300-nvl72-architecture. 11.0: taken to be as 10.0; 2070 sparse FP4 TFLOP/s of the Jetson
Thor then mean 1575 MHz. INT4 is left out: engines multiply 4-bit weights as fp16."""

_GEFORCE_HALVES = frozenset({"7.5", "8.6", "8.9", "12.0"})
"""Where a GeForce accumulates in fp32 at half the rate of the workstation part with the same chip: the whitepapers'
tables of the RTX 2080 Ti, 3080, 4090 and 5090. FP4 accumulates in fp32 alone, at full rate."""

_SPECIAL_RESULTS = 16
"""Results of the special-function unit (MUFU) per clock and multiprocessor: CUDA guide, all from 7.0 on."""

_SPECIAL_FASTER = {"10.3": {"ex2": 32}}
"""The B300 takes exponentials at twice the rate: 10.7e12/s against 5e12/s of the B200 (NVIDIA, Inside NVIDIA Blackwell
Ultra; quoted at https://verda.com/blog/gb300-nvl72-architecture)."""

_SPECIAL_STEPS: dict[str, tuple[str, ...]] = {
    "exp": ("ex2",),
    "log": ("lg2",),
    "sqrt": ("rsqrt",),
    "sin": ("sin",),
    "cos": ("cos",),
    "tan": ("sin", "cos", "rcp"),
    "pow": ("lg2", "ex2"),
    "tanh": ("tanh",),
    "sinh": ("ex2", "rcp"),
    "cosh": ("ex2", "rcp"),
    "asinh": ("rsqrt", "lg2"),
    "acosh": ("rsqrt", "lg2"),
    "atanh": ("rcp", "lg2"),
}
"""Which approximate instructions of the special-function unit the shortest way to a function takes: PTX ISA,
``{ex2,lg2,sin,cos,rcp,rsqrt,tanh}.approx``; CUDA guide, "Intrinsic functions", for pow, tan and the like. More precise
ways take more. erf, asin, acos and atan have no such way: CUDA takes a polynomial, and the unit for some arguments
only."""

_L2_BYTES: dict[str, tuple[float, str]] = {
    "7.0": (
        2048 / 80,
        "2048 bytes per clock of a V100 with 80 multiprocessors (NVIDIA A100 whitepaper, section on the L2)",
    ),
    "8.0": (
        5120 / 108,
        "5120 bytes per clock of an A100 with 108 multiprocessors (NVIDIA A100 whitepaper, section on the L2)",
    ),
    "8.6": (
        2438 / 1.7325 / 84,
        "2438 GB/s measured on an A40 with 84 multiprocessors at 1732.5 MHz (te42kyfo/gpu-benches, gpu-cache/a40.txt)",
    ),
    "8.9": (
        5250 / 2.49 / 142,
        "5250 GB/s of an L40, 142 multiprocessors at its 2490 MHz (te42kyfo/gpu-benches, gpu-l2-cache/l40.txt)",
    ),
    "9.0": (
        4472.3 / 114,
        "4472.3 bytes per clock measured on an H800 PCIe with 114 multiprocessors (W. Luo et al., arXiv:2402.13499)",
    ),
    "10.3": (
        20300 / 1.92 / 148,
        "20.3 TB/s measured on a B300 with 148 multiprocessors at 1920 MHz (a public B300_PIPE_CATALOG.md, audited)",
    ),
    "12.0": (
        8700 / 2.617 / 188,
        "8.7 TB/s of an RTX PRO 6000 with 188 multiprocessors at 2617 MHz (Chips and Cheese, as others quote it)",
    ),
}
"""Bytes that the L2 delivers per clock and multiprocessor, and the source."""

_L2_LIKE = {"7.2": "7.0", "7.5": "7.0", "8.7": "8.6", "10.0": "10.3", "11.0": "12.0"}
"""Whose L2 stands in for one that nobody is known to have measured."""

_GRAPH_LAUNCH: dict[str, tuple[float, str]] = {
    "8.0": (1340.0, "an A100 80 GB (te42kyfo/gpu-benches, gpu-small-kernels/a100_80_graph.txt, 49 GB/s)"),
    "8.6": (1090.0, "an A40 (te42kyfo/gpu-benches, gpu-small-kernels/a40_graph.txt, 60 GB/s)"),
    "8.9": (940.0, "an L40 (te42kyfo/gpu-benches, gpu-small-kernels/l40_graph.txt, 70 GB/s)"),
    "9.0": (1260.0, "an H200 (te42kyfo/gpu-benches, gpu-small-kernels/h200_graph.txt, 52 GB/s)"),
}
"""ns a kernel of a CUDA graph that scales 4096 doubles, so moves 65,536 bytes in the L2: 65,536 B / rate of the file.
An empty one takes no longer."""

_GRAPH_LAUNCH_LIKE = {
    "7.0": "8.0", "7.2": "8.6", "7.5": "8.6", "8.7": "8.6", "10.0": "9.0", "10.3": "9.0", "11.0": "8.9", "12.0": "8.9",
}  # fmt: skip


def known(compute_capability: str) -> bool:
    """Whether the rates of ``compute_capability`` are known here."""
    return compute_capability in _CUDA_RESULTS


def architecture(compute_capability: str) -> str:
    """Name of the architecture."""
    return _ARCHITECTURES[_checked(compute_capability)]


def cuda_results(compute_capability: str) -> dict[str, int]:
    """Results per clock and multiprocessor of the CUDA cores by dtype; a multiply-add is one result, 2 FLOP."""
    return dict(_CUDA_RESULTS[_checked(compute_capability)])


def tensor_flops(compute_capability: str, product_class: ProductClass) -> Rates:
    """Dense FLOP per clock and multiprocessor of the tensor cores, by dtype of the operands, then of the accumulator.

    Dtypes are those of `units.DTYPE_BITS`, ``tf32``, and ``fp8`` and ``fp4`` for all their kinds.
    """
    rates = {dtype: dict(by) for dtype, by in _TENSOR_FLOPS[_checked(compute_capability)].items()}
    if product_class == "geforce" and compute_capability in _GEFORCE_HALVES:
        for dtype, by in rates.items():
            if dtype != "fp4" and "fp32" in by:
                by["fp32"] //= 2
    return rates


def special_results(compute_capability: str) -> dict[str, float]:
    """Evaluations per clock and multiprocessor by special function, a key of `units.SPECIAL_FLOPS`, at most."""
    faster = _SPECIAL_FASTER.get(_checked(compute_capability), {})
    steps = dict(_SPECIAL_STEPS)
    if compute_capability in ("7.0", "7.2"):  # PTX ISA: tanh.approx requires sm_75
        steps["tanh"] = ("ex2", "rcp")
    return {
        function: 1 / sum(1 / faster.get(step, _SPECIAL_RESULTS) for step in needed)
        for function, needed in steps.items()
    }


def l2_bytes(compute_capability: str) -> tuple[float, str]:
    """Bytes per clock and multiprocessor that the L2 delivers, and where that is from."""
    return _of(_L2_BYTES, _L2_LIKE, compute_capability)


def graph_launch_ns(compute_capability: str) -> tuple[float, str]:
    """Time of an all but empty kernel of a CUDA graph, and where that was measured."""
    ns, where = _of(_GRAPH_LAUNCH, _GRAPH_LAUNCH_LIKE, compute_capability)
    return ns, f"a kernel of a CUDA graph that moves 64 KiB in the L2, measured on {where}"


def _of(table: dict[str, tuple[float, str]], stand_ins: dict[str, str], compute_capability: str) -> tuple[float, str]:
    like = stand_ins.get(_checked(compute_capability))
    if like is None:
        return table[compute_capability]
    value, source = table[like]
    return value, f"{source}, which stands in for compute capability {compute_capability}"


def _checked(compute_capability: str) -> str:
    if compute_capability not in _CUDA_RESULTS:
        raise UsageError(
            f"nothing is known of the throughput of compute capability {compute_capability}",
            why=f"known are {', '.join(_CUDA_RESULTS)}",
            fix="describe the GPU in a TOML file after the example of those in profiler/trtprof/hardware/specs",
        )
    return compute_capability
