"""Fused attention: FlashAttention 2 and 3, FlashInfer, TensorRT's, TensorRT-LLM's, CUTLASS's, cuDNN's and PyTorch's."""

from __future__ import annotations

import re

from trtprof.kernel_names.record import FIRST_TENSOR_CORES, FP16_OR_BF16, SHORT_TYPES, Fields, sm_version
from trtprof.kernel_names.signatures import leading_types
from trtprof.kernel_names.symbols import Part, Term, dtype, walk
from trtprof.kernel_names.words import Words

_AMPERE = 80
_FLASH_NAMES = frozenset(("flash_fwd_kernel", "flash_bwd_kernel", "flash_fwd_splitkv_kernel"))
_SM90 = re.compile(
    r"enable_sm(\d{2,3})(?:_or_later|_to_sm\d+|_only|_family)?|Flash\w*[a-z]Sm(\d{2,3})(?![a-z0-9])\w*", re.ASCII
)


def parse_words(words: Words) -> Fields | None:
    """Names of words: ``fmha_v2_...``, ``fmha_cutlassF_...``, ``fmhaSm100fKernel_...``, cuDNN's."""
    if words.all[:2] == ["cudnn", "generated"] and (at := words.first("sdpa", start=3)) > 0:
        return _cudnn(words, at)
    if found := _TRTLLM.fullmatch(words.get(0)):
        return _trtllm(words, sm_version(found[1]))
    if words.get(0) != "fmha":
        return None
    fields: Fields = {"family": "attention", "op": "attention"}
    kind = words.get(1)
    if kind in ("cutlassF", "cutlassB"):
        return fields | _efficient(words)
    for index in range(1, len(words)):
        if arch := words.sm(index):
            fields["arch"] = arch
            break
    types = [i for i in range(1, len(words)) if words.dtype(i)]
    if types:
        fields["dtype_in"] = words.dtype(types[0])
        last = types[0]
        if words.dtype(last + 1):
            last += 1
            fields["dtype_acc"] = words.dtype(last)
        tile = words.number(last + 1), words.number(last + 2)
        if words.get(1) == "v2" and None not in tile:
            fields["tile"] = f"{tile[0]}x{tile[1]}"
    if kind == "v2":
        # Every kernel of that generator multiplies with hmma, imma or wgmma.
        fields |= {"unit": "tensor", "evidence": "fmha_v2"}
    return fields


def _efficient(words: Words) -> Fields:
    """PyTorch's kernels on CUTLASS: which unit they use follows from type and SM version.

    ``DefaultGemmType`` of ``gemm_kernel_utils.h``: TensorOp for 16-bit types from SM 70 and for fp32 from SM 80 (three
    TF32 products), Simt otherwise.
    """
    fields: Fields = {"op": "attention" if words.get(1) == "cutlassF" else "attention_backward", "dtype_acc": "fp32"}
    kind = words.dtype(2)
    if kind:
        fields["dtype_in"] = fields["dtype_out"] = kind
    if tile := words.shape(4, dims=2):
        fields["tile"] = tile
    arch = next((found for i in range(4, len(words)) if (found := words.sm(i))), None)
    if arch and kind:
        fields["arch"] = arch
        least = _AMPERE if kind == "fp32" else FIRST_TENSOR_CORES
        fields |= {"unit": "tensor" if arch >= least else "simt", "evidence": f"{words.all[2]} on sm{arch}"}
        if kind == "fp32" and arch >= least:
            fields["dtype_math"] = "tf32"
    return fields


_TRTLLM = re.compile(r"fmhaSm(\d{2,3}[af]?)Kernel", re.ASCII)
_TRTLLM_TYPES = {
    "Bfloat16": "bf16", "Fp16": "fp16", "Fp32": "fp32", "E4m3": "fp8e4m3fn", "E5m2": "fp8e5m2", "E2m1": "fp4e2m1",
}  # fmt: skip
_TRTLLM_OPERANDS = re.compile(
    r"Q(?:kv)?({0})(?:Kv(?:{0}))?O(?:({0})H\w*)?\w*".format("|".join(_TRTLLM_TYPES)), re.ASCII
)


def _trtllm(words: Words, arch: int | None) -> Fields:
    """TensorRT-LLM's generated attention: ``fmhaSm100fKernel_QkvE4m3OBfloat16HQk128HV128PersistentContext``.

    The type of Q, K and V (``QE4m3KvE2m1`` where they differ), that of the result, the head's dimensions, the schedule.
    """
    fields: Fields = {"family": "attention", "op": "attention"}
    if arch:
        fields |= {"arch": arch, "unit": "tensor", "evidence": words.all[0]}
    if found := _TRTLLM_OPERANDS.fullmatch(words.at(1)):
        fields["dtype_in"] = _TRTLLM_TYPES[found[1]]
        if found[2]:
            fields["dtype_out"] = _TRTLLM_TYPES[found[2]]
    if words.get(1).endswith("ForGen"):
        fields["ops"] = ("decode",)
    return fields


def _cudnn(words: Words, at: int) -> Fields:
    """``cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_...``; f16 may be bf16."""
    fields: Fields = {"family": "attention"}
    if arch := words.sm(at + 1):
        fields["arch"] = arch
    if words.get(at + 2) == "flash" and words.get(at + 3) in ("fprop", "bprop"):
        fields["op"] = "attention" if words.all[at + 3] == "fprop" else "attention_backward"
        fields |= {"unit": "tensor", "evidence": f"sdpa_flash_{words.all[at + 3]}"}
        if words.first("f16", start=at + 4) > 0:
            fields["dtype_in"] = FP16_OR_BF16
    for index in range(at + 4, len(words)):
        if tile := words.shape(index, dims=3):
            fields["tile"] = tile
            break
    return fields


def parse_term(term: Term, *, complete: bool) -> Fields | None:
    """The fields of C++ names: ``flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, ..., half_t>, ...>``."""
    name = term.last.name
    parts = list(walk(term))
    if (
        {"flash", "pytorch_flash"} & set(term.names[:-1])
        or name.startswith(("flash_fwd_", "flash_bwd_"))
        or (term.last.name == "device_kernel" and any(arg.names[:1] == ("flash",) for arg in term.last.args or ()))
    ):
        return _flash(name, parts, complete=complete)
    if name in _FLASHINFER:
        return _flashinfer(name, parts)
    if found := next((match for part in parts if (match := _FMHA.fullmatch(part.name))), None):
        return _fmha(found, parts)
    if name.startswith("fmha_cutlass") or (name.startswith("fmha_") and complete):
        return parse_words(Words(name, closed=complete))
    if name == "attention_kernel_batched_impl":
        kernel = next((part for part in parts if part.name == "AttentionKernel"), None)
        fields: Fields = {"family": "attention", "op": "attention"}
        if kernel and kernel.args and (kind := dtype(kernel.args[0])):
            fields["dtype_in"] = kind
        return fields
    return None


_FLASHINFER = {
    "BatchPrefillWithPagedKVCacheKernel": "tensor", "BatchPrefillWithRaggedKVCacheKernel": "tensor",
    "SinglePrefillWithKVCacheKernel": "tensor", "PrefillWithKVCacheKernel": "tensor",
    "BatchPODWithKVCacheTensorKernel": "tensor", "BatchDecodeWithPagedKVCacheKernel": "simt",
    "SingleDecodeWithKVCacheKernel": "simt",
}  # fmt: skip
"""FlashInfer's: prefill multiplies with mma or wgmma, decode adds up vectors (its ``decode.cuh``).

No other name begins with one of these, so that a cut shows."""


def _flashinfer(name: str, parts: list[Part]) -> Fields:
    """``flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<..., bf16, bf16, bf16, float, int>>``.

    The traits name Q, K and V, the result and the sum in a row.
    """
    unit = _FLASHINFER[name]
    fields: Fields = {"family": "attention", "op": "attention", "unit": unit, "evidence": name}
    if unit == "simt":
        fields["ops"] = ("decode",)
    for part in parts:
        if part.name == "KernelTraits" and part.args:
            start = next((at for at, arg in enumerate(part.args) if dtype(arg)), len(part.args))
            kinds = leading_types(part.args, start)
            if len(kinds) >= 4:
                fields |= {"dtype_in": kinds[0], "dtype_out": kinds[2], "dtype_acc": kinds[3]}
            break
    return fields


_FMHA = re.compile(r"Sm(\d{2,3})Fmha(Fwd|Bwd|Gen)\w*", re.ASCII)


def _fmha(found: re.Match[str], parts: list[Part]) -> Fields:
    """CUTLASS's attention: ``device_kernel<cutlass::fmha::kernel::Sm100FmhaFwdKernelTmaWarpspecialized<...> >``."""
    fields: Fields = {"family": "attention", "unit": "tensor", "evidence": found[0]}
    fields["op"] = "attention_backward" if found[2] == "Bwd" else "attention"
    if arch := sm_version(found[1]):
        fields["arch"] = arch
    return fields | _collectives(parts)


def _collectives(parts: list[Part]) -> Fields:
    """Operand and sum follow each other in the main loop's arguments; the result is the epilogue's first type."""
    fields: Fields = {}
    for part in parts:
        args = part.args or ()
        start = next((at for at, arg in enumerate(args) if dtype(arg)), len(args))
        kinds = leading_types(args, start)
        if "Mainloop" in part.name and len(kinds) > 1:
            fields.setdefault("dtype_in", kinds[0])
            fields.setdefault("dtype_acc", kinds[1])
        elif "Epilogue" in part.name and kinds:
            fields.setdefault("dtype_out", kinds[0])
    return fields


def _flash(name: str, parts: list[Part], *, complete: bool) -> Fields:
    fields: Fields = {"family": "attention"}
    joined = " ".join(part.name for part in parts)
    if "combine" in name or "FwdCombine" in joined:
        return fields | {"op": "reduce", "unit": "none", "evidence": "combine"}
    if not complete and name not in _FLASH_NAMES:
        return fields
    if name == "device_kernel" and "FlashAttn" not in joined:
        return fields
    if name.startswith("flash_bwd") or "FlashAttnBwd" in joined:
        if "preprocess" in name or "convert" in name or "Preprocess" in joined or "Convert" in joined:
            return fields | {"op": "reduce", "unit": "none", "evidence": name}
        fields["op"] = "attention_backward"
    else:
        fields["op"] = "attention"
    fields |= {"unit": "tensor", "evidence": "FlashAttention"}
    if name != "device_kernel":
        # FlashAttention 2 begins with Ampere's copies and instructions; the third version has its own kernels.
        fields["arch"] = _AMPERE
        if "splitkv" in name:
            fields["split_k"] = True
    for part in parts:
        found = _SM90.fullmatch(part.name)
        if found and (arch := sm_version(found[1] or found[2])):
            fields["arch"] = arch
            break
    for part in parts:
        if part.name in ("Flash_fwd_kernel_traits", "Flash_bwd_kernel_traits") and part.args:
            # Head dimension, rows of Q, rows of K, warps, ..., element.
            numbers = [arg.value for arg in part.args[:3]]
            if len(numbers) == 3 and None not in numbers:
                fields["tile"] = f"{numbers[1]}x{numbers[2]}"
            kinds = [kind for arg in part.args if (kind := dtype(arg)) in SHORT_TYPES]
            if kinds:
                fields["dtype_in"] = kinds[0]
                fields["dtype_acc"] = "fp32"
            break
    return fields | (_collectives(parts) if name == "device_kernel" else {})
