"""Fused attention: FlashAttention 2 and 3, TensorRT's and cuDNN's, and PyTorch's memory-efficient kernels."""

from __future__ import annotations

import re

from profiler.kernel_names.record import FIRST_TENSOR_CORES, SHORT_TYPES, Fields, sm_version
from profiler.kernel_names.symbols import Part, Term, dtype, walk
from profiler.kernel_names.words import Words

_AMPERE = 80
_FLASH_NAMES = frozenset(("flash_fwd_kernel", "flash_bwd_kernel", "flash_fwd_splitkv_kernel"))
_SM90 = re.compile(
    r"enable_sm(\d{2,3})(?:_or_later|_to_sm\d+|_only|_family)?|Flash\w*[a-z]Sm(\d{2,3})(?![a-z0-9])\w*", re.ASCII
)


def parse_words(words: Words) -> Fields | None:
    """Names of words: ``fmha_v2_...``, ``fmha_cutlassF_...``, ``cudnn_generated_fort_native_sdpa_...``."""
    if words.all[:3] == ["cudnn", "generated", "fort"] and words.get(4) == "sdpa":
        return _cudnn(words)
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


def _cudnn(words: Words) -> Fields:
    """``cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_...``; f16 may be bf16."""
    fields: Fields = {"family": "attention"}
    if arch := words.sm(5):
        fields["arch"] = arch
    if words.get(6) == "flash" and words.get(7) in ("fprop", "bprop"):
        fields["op"] = "attention" if words.all[7] == "fprop" else "attention_backward"
        fields |= {"unit": "tensor", "evidence": f"sdpa_flash_{words.all[7]}"}
    for index in range(8, len(words)):
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
        or _is_flash3(term)
    ):
        return _flash(name, parts, complete=complete)
    if name.startswith("fmha_cutlass") or (name.startswith("fmha_") and complete):
        return parse_words(Words(name, closed=complete))
    if name == "attention_kernel_batched_impl":
        found = next((part for part in parts if part.name == "AttentionKernel"), None)
        fields: Fields = {"family": "attention", "op": "attention"}
        if found and found.args and (kind := dtype(found.args[0])):
            fields["dtype_in"] = kind
        return fields
    return None


def _is_flash3(term: Term) -> bool:
    return term.last.name == "device_kernel" and any(arg.names[:1] == ("flash",) for arg in term.last.args or ())


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
    return fields
