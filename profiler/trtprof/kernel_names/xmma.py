"""xmma: kernels and tactics of TensorRT, cuDNN and cuBLAS, ``sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_...``.

The types read ``<in><out>_<multiplied><accumulated>_<scaled in the epilogue>``. TensorRT's int8 convolutions show it:
``i8f16_i8i32_f32`` has int8 inputs, fp16 outputs, and products of int8 summed in int32. Where the second word has one
type, ``f32f32_f32_f32``, it is that of the sum.
"""

from __future__ import annotations

import re

from trtprof.kernel_names.record import DTYPES, FIRST_TENSOR_CORES, SHORT_TYPES, Fields
from trtprof.kernel_names.words import Words, split_types

_DIRECTIONS = {"fprop": "conv", "dgrad": "dgrad", "wgrad": "wgrad", "deconv": "deconv", "convolution": "conv"}
_SCALAR = frozenset(("ffma", "hfma", "hfma2", "dfma", "simt", "idp4a", "dp4a", "imad"))
_TENSOR = frozenset(("hmma", "imma", "dmma", "bmma", "gmma", "wgmma", "qmma", "utcmma", "hgmma", "igmma", "qgmma"))
_LAYOUT = re.compile(r"[nt]{1,3}|(?:\d+)?(?:nc\d?d?h?w|n[dh]{1,2}wc|nchw|nhwc|kcrs|krsc|kctrs|ktrsc|nchwkcrs|nhwckrsc|"
                     r"nchwkrsc|nhwckcrs|ncdhwkctrs|ndhwcktrsc|nwckc|cx|vect|c|\d+)", re.ASCII)  # fmt: skip
_POOLED = re.compile(r"(FP16|FP32|BF16|INT8)(FP16|FP32|INT32)?(NCHW|NHWC|NCDHW|NDHWC|NCxHW\d+)?", re.ASCII)
_POOLING_TYPES = {"FP16": "fp16", "FP32": "fp32", "BF16": "bf16", "INT8": "int8", "INT32": "int32"}
_POOLING_LAYOUTS = ("NCHW", "NHWC", "NCDHW", "NDHWC", "NCxHW2", "nhwc")
_KINDS = {"kFLOAT": "fp32", "kHALF": "fp16", "kINT8": "int8", "kBF16": "bf16"}
_ACCUMULATORS = {"Accfloat": "fp32", "Acchalf": "fp16", "Accint": "int32", "Accint32": "int32"}


def parse(words: Words) -> Fields | None:
    """The fields of ``sm<NN>_xmma_...``, or None for other names."""
    arch = words.sm(0)
    if arch is None or words.get(1) != "xmma":
        return None
    fields: Fields = {"family": "xmma", "arch": arch}
    op, start = _op(words)
    if op == "pooling":
        return fields | _pooling(words, start)
    if words.get(start) == "conv" and words.first("fp32", "fp16", "int8") == words.first("act") + 1 > 0:
        fields |= _direct(words, words.first("act") + 1)
    elif words.get(start) == "convolution":
        fields |= _formats(words, start)
    else:
        fields |= _types(words, start)
    if op:
        fields["op"] = op
    fields |= _tail(words, 2)
    fields |= _unit(words, fields)
    return fields


def _op(words: Words) -> tuple[str, int]:
    for index in range(2, len(words)):
        word = words.get(index)
        if word in _DIRECTIONS:
            return _DIRECTIONS[word], index
        if word.startswith("pooling"):
            return "pooling", index
        if word in ("gemvx", "gemv"):
            return "gemv", index
        if word == "conv" and words.get(index + 1) in _DIRECTIONS:
            return _DIRECTIONS[words.all[index + 1]], index
        if word == "gemm":
            # After `implicit` it is how a convolution is done; the direction may follow.
            if words.get(index - 1) != "implicit":
                return "gemm", index
            for later in range(index + 1, len(words)):
                if words.get(later) in _DIRECTIONS:
                    return _DIRECTIONS[words.all[later]], index
                if split_types(words.get(later)):
                    return "conv", index
            return "", index
    return "", 2


def _types(words: Words, start: int) -> Fields:
    """The three words of types, and the layout that stands behind them."""
    for index in range(start, len(words) - 1):
        pair = split_types(words.get(index))
        if len(pair) != 2:
            continue
        fields: Fields = {"dtype_in": pair[0], "dtype_out": pair[1]}
        middle = split_types(words.get(index + 1))
        if len(middle) == 2:
            fields["dtype_acc"] = middle[1]
            if middle[0] != pair[0]:
                fields["dtype_math"] = middle[0]
        elif len(middle) == 1:
            fields["dtype_acc"] = middle[0]
        if middle and split_types(words.get(index + 2)):
            end = index + 3
            while _LAYOUT.fullmatch(words.get(end)):
                end += 1
            if end > index + 3 and words.whole(end):
                fields["layout"] = "_".join(words.all[index + 3 : end])
        return fields
    return {}


def _direct(words: Words, start: int) -> Fields:
    """Direct convolution: ``fp32_NCHW_fp32_NCHW_KCRS_fp32_fp32_fp32_Accfloat``: source, result, filter."""
    fields: Fields = {"dtype_in": words.dtype(start), "dtype_out": words.dtype(start + 2)}
    source, result, weights = words.get(start + 1), words.get(start + 3), words.get(start + 4)
    if weights in ("KCRS", "KRSC"):
        fields["layout"] = f"{source}{weights}_{result}".lower()
    for index in range(start + 5, len(words)):
        if words.get(index) in _ACCUMULATORS:
            fields["dtype_acc"] = _ACCUMULATORS[words.all[index]]
        elif (width := words.number(index, "srcVec")) is not None:
            fields["vector"] = width
    return fields


_FORMAT = re.compile(r"(fp32|fp16|int8)(n[a-z]+x?\d*)", re.ASCII)


def _formats(words: Words, start: int) -> Fields:
    """``convolution_trt_depthwiseFP32NHWC4_fp32nhwcx4_fp32nhwcx4_fp32kcrs``: source, result, filter."""
    found = [match for i in range(start, len(words)) if (match := _FORMAT.fullmatch(words.get(i)))]
    fields: Fields = {}
    if found:
        fields["dtype_in"] = DTYPES[found[0][1]]
    if len(found) > 1:
        fields["dtype_out"] = DTYPES[found[1][1]]
    if words.get(start + 2).startswith("depthwise"):
        fields["ops"] = ("depthwise",)
    return fields


def _tail(words: Words, start: int) -> Fields:
    fields: Fields = {}
    alignment: list[tuple[str, int]] = []
    for index in range(start, len(words)):
        word = words.at(index)
        for key, prefix in (("tile", "tilesize"), ("cluster", "cgasize")):
            if (shape := words.shape(index, prefix)) is not None:
                fields[key] = shape
        if (stages := words.number(index, "stage")) is not None:
            fields["stages"] = stages
        if (mma := words.mma(index, "tensor") or words.mma(index, "sptensor")) is not None:
            fields["mma"] = mma
        if words.get(index) in ("depthwise", "sparse"):
            fields["ops"] = (*fields.get("ops", ()), word)
        alignment += [(each, align) for each in "abc" if (align := words.alignment(index, f"align{each}")) is not None]
        if word == "execute" and words.get(index + 1) == "split" and words.get(index + 2) == "k":
            fields["split_k"] = True
        if word == "segment" and words.get(index + 1) == "k" and words.get(index + 2) in ("on", "off"):
            fields["split_k"] = words.all[index + 2] == "on"
    if alignment:
        fields["alignment"] = tuple(alignment)
    return fields


def _unit(words: Words, fields: Fields) -> Fields:
    for index in range(2, len(words)):
        word = words.get(index) or (words.at(index) if words.at(index) in _SCALAR - {"hfma"} else "")
        if word in _SCALAR:
            return {"unit": "simt", "evidence": word}
        if word in _TENSOR:
            return {"unit": "tensor", "evidence": word}
        if words.mma(index, "tensor") or words.mma(index, "sptensor"):
            return {"unit": "tensor", "evidence": words.at(index)}
        # Warp groups of four warps are how wgmma works on Hopper.
        if words.shape(index, "warpgroupsize"):
            return {"unit": "tensor", "evidence": word}
    if fields.get("op") == "gemv":
        return {"unit": "simt", "evidence": "gemv"}
    if fields["arch"] < FIRST_TENSOR_CORES and fields.get("op"):
        return {"unit": "simt", "evidence": words.all[0]}
    math = fields.get("dtype_math") or fields.get("dtype_in")
    if fields.get("dtype_acc") and (math == "tf32" or (math in SHORT_TYPES and fields["dtype_acc"] == "fp32")):
        return {"unit": "tensor", "evidence": f"{math} summed in {fields['dtype_acc']}"}
    return {}


def _pooling(words: Words, start: int) -> Fields:
    fields: Fields = {"op": "pooling", "unit": "none", "evidence": "pooling"}
    for index in range(start, len(words)):
        word = words.get(index)
        found = _POOLED.fullmatch(word)
        if found:
            fields["dtype_in"] = _POOLING_TYPES[found[1]]
            if found[2]:
                fields["dtype_acc"] = _POOLING_TYPES[found[2]]
            if found[3]:
                fields.setdefault("layout", found[3].lower())
        elif word in _KINDS:
            fields["dtype_in"] = _KINDS[word]
        elif word in _POOLING_LAYOUTS:
            fields.setdefault("layout", word.lower())
    return fields
