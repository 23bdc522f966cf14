"""Attention in a kernel of the generation before, on a GPU that has kernels of its own for it.

What:
    The name of the kernel says that it is fused attention on tensor cores, written for Ampere (FlashAttention 2,
    PyTorch's memory-efficient one), and the GPU is a Hopper or a data-center Blackwell.

Why:
    An older kernel feeds the tensor cores warp by warp (mma). Hopper needs warp groups and copies by the TMA (wgmma) to
    come near its peak: FlashAttention 2 reaches 35 % of an H100, FlashAttention 3 up to 75 %, 1.5 to 2 times as fast
    forward and 1.5 to 1.75 times backward (Shah et al., FlashAttention-3, 2024). Blackwell's instructions are other
    ones again; there Hopper's figure is taken.

Try:
    FlashAttention 3, or the attention of cuDNN, which PyTorch has too. They want fp16, bf16 or fp8, heads of at most
    256 and no dropout. What is claimed is what the smallest of these gains would save, where the work is known no more
    than was lost.
"""

from __future__ import annotations

from trtprof.base.records import LayerResult, Match
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import explains, shown, too_little
from trtprof.diagnose.reasons import no_work, not_slow
from trtprof.kernel_names.parse import KernelName
from trtprof.kernel_names.record import FP16_OR_BF16

_NEWER = {
    90: "FlashAttention 3 or cuDNN's attention",
    100: "cuDNN's attention or FlashAttention 4",
    103: "cuDNN's attention or FlashAttention 4",
}
"""GPUs with fused attention of their own, by architecture. GeForce Blackwell (120) has Ampere's instructions."""
_DTYPES = ("fp16", "bf16", FP16_OR_BF16, None)


@layer_rule(
    "KN705",
    "attention kernel of an older generation",
    order=25,
    thresholds=("efficiency", "of_datasheet", "explains", "attention_gain"),
)
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """Fused attention written for an earlier GPU than this, where this one has its own."""
    if not case.gpu:
        return "the layer did not run on a GPU"
    if why := no_work(case, layer) or not_slow(case, layer):
        return why
    newer = _NEWER.get(case.architecture or 0)
    if newer is None:
        return "no library has fused attention that is written for this GPU alone, as far as is known here"
    found = [(match, name) for match, name in case.kernel_names(layer) if _older(case, name)]
    if not found:
        return f"no name of its kernels is of fused attention for a GPU before sm{case.architecture}"
    (match, name), ns = found[0], _part(layer, [match for match, _ in found])
    gain = case.thresholds.attention_gain
    won = round(ns * (1 - 1 / gain))
    if layer.lost_ns is not None:
        won = min(won, layer.lost_ns)
        if not explains(case, layer, won):
            return too_little(case, layer, won)
        won = min(won, winnable_ns(layer))
    return Loss(
        won,
        f"{shown(match.kernel)} is written for sm{name.arch} and runs on sm{case.architecture}: {format_ns(ns)}, "
        f"{format_percent(ns / layer.measured_ns)} of the layer; those for it are {gain:g} times as fast at least"
        f"{down_to(layer)}",
        _remedy(case, newer),
        0.6,
    )


def _older(case: Case, name: KernelName) -> bool:
    if name.op not in ("attention", "attention_backward") or name.unit != "tensor" or name.dtype_in not in _DTYPES:
        return False
    # With few rows of queries, for which K and V are split, bytes bound it whoever wrote the kernel.
    return name.arch is not None and name.arch // 10 < (case.architecture or 0) // 10 and not name.split_k


def _part(layer: LayerResult, matches: list[Match]) -> int:
    """Time of the layer in these kernels."""
    total = sum(match.total_ns for match in layer.kernels)
    return layer.measured_ns * sum(match.total_ns for match in matches) // total if total else 0


def _remedy(case: Case, newer: str) -> str:
    if case.tensorrt:
        return "a newer TensorRT, whose fused attention has kernels for this GPU, or a plugin with one"
    how = " (torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION))" if case.backend == "pytorch" else ""
    return f"{newer}{how}: for fp16, bf16 or fp8, heads of at most 256 and no dropout; then compare the outputs"
