"""Names with the core of a BLAS routine in them: cuBLAS's and cuDNN's assembled kernels, nvjet, and CUTLASS's.

A core is ``<letters><instruction>gemm``: ``sgemm`` has no instruction and runs on the scalar pipes, ``s16816gemm`` has
the tensor-core instruction m16n8k16. The letter is the accumulator's. As in CUTLASS's ``procedural_name``, a type
before the core is that of the result where it is not the accumulator's, one behind it that of the operands where it is
not.
"""

from __future__ import annotations

import re

from trtprof.kernel_names.record import ARCH_WORDS, DTYPES, LETTERS, MMA_DIGITS, SHORT_TYPES, Fields, sm_version
from trtprof.kernel_names.words import LAYOUTS, Words

_ENDS = {
    "gemm": "gemm", "spgemm": "gemm", "bsspgemm": "gemm", "cudnn": "conv", "fprop": "conv", "fprop2d": "conv",
    "fprop3d": "conv", "dgrad": "dgrad", "wgrad": "wgrad", "deconv": "deconv", "syrk": "syrk", "herk": "syrk",
    "symm": "gemm", "hemm": "gemm", "trmm": "trmm", "rank2k": "syrk", "rankk": "syrk",
}  # fmt: skip
_CORE = re.compile(
    r"(?P<letter>g?[shdicz])?(?P<shape>\d+(?:x\d+x\d+)?)?(?P<math>tf32|bf16|f16|s8)?"
    r"(?P<end>gemm|spgemm|bsspgemm|cudnn|fprop(?:[23]d)?|dgrad|wgrad|deconv|syrk|herk|symm|hemm|trmm)",
    re.ASCII,
)
_SCALED = re.compile(r"ue(?:4m3|8m0)x(\w+)", re.ASCII)
_DEPTH = re.compile(r"(\d{1,4})x(\d{1,3})", re.ASCII)
_PREFIXES = frozenset(("trt", "cudnn", "infer", "train", "cnn", "ops", "adv", "", "5x", "cublas"))
_IMAGE = ("nhwc", "nchw", "ndhwc", "ncdhw")
_TENSOR_WORDS = frozenset(("hmma", "imma", "dmma", "wgmma", "tensorop"))


def _core(word: str) -> re.Match[str] | None:
    """A word that is a core: of a letter, an instruction or both, and the routine."""
    found = _CORE.fullmatch(word)
    return (
        found
        if found and (found["letter"] or found["shape"] or found["end"] in ("gemm", "fprop", "spgemm", "bsspgemm"))
        else None
    )


def _mma(shape: str) -> str | None:
    return shape if "x" in shape else MMA_DIGITS.get(shape)


def _products(core: re.Match[str], behind: str | None, *, known: bool) -> Fields:
    """What a core says of dtypes: ``behind`` is the type behind it, ``known`` whether that can be told."""
    letter = (core["letter"] or "").removeprefix("g")
    acc = LETTERS.get(letter)
    fields: Fields = {"dtype_acc": acc} if acc else {}
    if core["math"]:
        fields["dtype_math"] = DTYPES[core["math"]]
    if behind:
        fields["dtype_in"] = behind
    elif known and acc and acc != "int32":
        fields["dtype_in"] = acc
        # fp32 operands on tensor cores are rounded to TF32 there: no instruction takes them as they are.
        if acc == "fp32" and core["shape"]:
            fields.setdefault("dtype_math", "tf32")
    return fields


def parse_assembled(words: Words) -> Fields | None:
    """``ampere_h16816gemm_128x64_ldg8_stages_64x3_nn_v1``, ``volta_scudnn_...``, ``trt_turing_h1688cudnn_...``."""
    start = 0
    while words.get(start) in _PREFIXES and start < len(words) - 1:
        start += 1
    arch = ARCH_WORDS.get(words.get(start))
    if arch is None:
        return None
    at = start + 1
    out = words.dtype(at)
    if out:
        at += 1
    core = _core(words.at(at))
    if words.get(at) == "cutlass":
        return {"arch": arch, "family": "cutlass"} | _first_layer(words, at)
    if core is None:
        fields: Fields = {"arch": arch}
        for index in range(at, len(words)):
            if words.get(index) in _TENSOR_WORDS:
                fields |= {"unit": "tensor", "evidence": words.all[index]}
        if words.get(at) == "first" and words.get(at + 1) == "layer":
            fields |= {"op": "conv", "family": "tensorrt"}
        return fields
    fields = {"arch": arch, "op": _ENDS[core["end"]], "family": "cudnn" if core["end"] == "cudnn" else "cublas"}
    behind = words.dtype(at + 1)
    fields |= _products(core, behind, known=words.whole(at + 1))
    fields["dtype_out"] = out or fields.get("dtype_acc")
    fields |= _core_unit(core)
    for index in range(at + 1, len(words)):
        word = words.get(index)
        if (tile := words.shape(index, dims=2)) and "tile" not in fields:
            fields["tile"] = tile
        elif word == "stages" and (depth := _DEPTH.fullmatch(words.get(index + 1))):
            fields["stages"] = int(depth[2])
        elif word in ("splitK", "splitk"):
            fields["split_k"] = True
        elif word == "winograd":
            fields["ops"] = ("winograd",)
        elif word in _IMAGE:
            fields["layout"] = word
        elif words.at(index) in LAYOUTS and "layout" not in fields:
            fields["layout"] = words.at(index)
        elif (width := words.number(index, "ldg")) is not None:
            fields.setdefault("vector", width)
    return fields


def _core_unit(core: re.Match[str]) -> Fields:
    if core["shape"]:
        fields: Fields = {"unit": "tensor", "evidence": core[0]}
        if mma := _mma(core["shape"]):
            fields["mma"] = mma
        return fields
    return {"unit": "simt", "evidence": core[0]} if core["letter"] else {}


def _first_layer(words: Words, start: int) -> Fields:
    """``trt_turing_cutlass_image_network_first_layer_hmma_fprop_f16f16f32_nhwc_...``."""
    fields: Fields = {}
    for index in range(start, len(words)):
        word = words.get(index)
        if word in _TENSOR_WORDS:
            fields |= {"unit": "tensor", "evidence": word}
        elif word in _ENDS:
            fields["op"] = _ENDS[word]
            if words.get(index + 1).startswith("f16f16"):
                fields["dtype_in"] = "fp16"
        elif word in _IMAGE:
            fields["layout"] = word
    return fields


def parse_convolve(words: Words) -> Fields | None:
    """CuDNN's of Kepler's days: ``cudnn_convolve_precomputed_sgemm_sm35_ldg_nn_64x8x256x8x32``."""
    if words.all[:2] != ["cudnn", "convolve"]:
        return None
    fields: Fields = {"family": "cudnn", "op": "conv"}
    for index in range(2, len(words)):
        core = _core(words.get(index))
        if arch := words.sm(index):
            fields["arch"] = arch
        elif core:
            fields |= _products(core, None, known=True) | _core_unit(core)
            fields["dtype_out"] = fields.get("dtype_acc")
        elif words.get(index) in LAYOUTS:
            fields["layout"] = words.all[index]
    return fields


def parse_cutlass(words: Words) -> Fields | None:
    """CUTLASS's procedural names: ``cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8``."""
    if words.get(0) == "cutlass3x":
        return _cutlass3(words)
    if words.get(0) != "cutlass":
        return None
    fields: Fields = {"family": "cutlass"}
    at = 1
    arch = sm_version(words.get(at)) or words.sm(at) if words.whole(at) else None
    if arch:
        fields["arch"] = arch
        at += 1
    scalar = False
    while words.get(at) in ("tensorop", "wmma", "simt", "sptensorop", "planar", "complex", "bstensorop"):
        scalar |= words.all[at] == "simt"
        if words.all[at].endswith("tensorop"):
            fields |= {"unit": "tensor", "evidence": words.all[at]}
        elif words.all[at] == "simt":
            fields |= {"unit": "simt", "evidence": "simt"}
        at += 1
    out = words.dtype(at)
    if out:
        at += 1
    core = _core(words.get(at))
    if core is None:
        return fields
    fields["op"] = _ENDS[core["end"]]
    tile = next((i for i in range(at + 1, len(words)) if words.shape(i, dims=2)), -1)
    types = [found for i in range(at + 1, tile if tile > 0 else len(words)) if (found := words.dtype(i))]
    fields |= _products(core, types[0] if types else None, known=tile > 0)
    if out or tile > 0:
        fields["dtype_out"] = out or fields.get("dtype_acc")
    if core["shape"] and not scalar and (mma := _mma(core["shape"])):
        fields["mma"] = mma
    if tile < 0:
        return fields
    depth = _DEPTH.fullmatch(words.get(tile + 1))
    if depth:
        fields["tile"] = f"{words.all[tile]}x{depth[1]}"
        fields["stages"] = int(depth[2])
    return fields | _cutlass_end(words, tile + 2)


def _cutlass_end(words: Words, start: int) -> Fields:
    fields: Fields = {}
    for index in range(start, len(words)):
        word = words.at(index)
        if "layout" not in fields and (word in LAYOUTS or (words.whole(index) and word in _IMAGE)):
            fields["layout"] = word
        elif (align := words.alignment(index, "align")) is not None:
            fields["alignment"] = (("a", align), ("b", align))
        elif words.get(index).lower() in ("splitk", "streamk"):
            fields["split_k"] = True
    return fields


def _cutlass3(words: Words) -> Fields:
    """``cutlass3x_sm90_tensorop_gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_ntn_align8_...``: A, B, sum, C, D.

    Block-scaled operands are written scale x data: ``gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32_f16_f16_256x192x256_0``;
    the cluster is left out where the launch gives it.
    """
    fields: Fields = {"family": "cutlass"}
    if arch := words.sm(1):
        fields["arch"] = arch
    at = 2
    if words.get(at).endswith("tensorop"):
        fields |= {"unit": "tensor", "evidence": words.all[at]}
    elif words.get(at) == "simt":
        fields |= {"unit": "simt", "evidence": "simt"}
    core = _core(words.get(at + 1))
    if core is None:
        return fields
    fields["op"] = _ENDS[core["end"]]
    if core["shape"] and (mma := _mma(core["shape"])):
        fields["mma"] = mma
    at += 4 if words.get(at + 2) == "block" and words.get(at + 3) == "scaled" else 2
    types: list[str | None] = []
    while words.get(at) == "void" or _operand(words, at):
        types.append(_operand(words, at))
        at += 1
    tile = words.shape(at, dims=3)
    if types and _SCALED.fullmatch(words.get(at - len(types))):
        # No other product has scales; which operand is the first does not wait for the rest of the name.
        fields["dtype_in"] = types[0]
    if tile is None or len(types) != 5:
        return fields
    fields |= {"dtype_in": types[0], "dtype_acc": types[2], "dtype_out": types[4], "tile": tile}
    if cluster := words.shape(at + 1, dims=3):
        fields["cluster"] = cluster
        at += 1
    if (stages := words.number(at + 1)) is not None:
        # 0 leaves the depth to the compiler.
        fields["stages"] = stages or None
        if words.whole(at + 2) and set(words.all[at + 2]) <= {"n", "t"}:
            fields["layout"] = words.all[at + 2]
    if types[0] == "fp32" and fields.get("unit") == "tensor":
        fields["dtype_math"] = "tf32"
    return fields | {k: v for k, v in _cutlass_end(words, at + 3).items() if k != "layout"}


def _operand(words: Words, index: int) -> str | None:
    """The dtype of a word; of ``ue4m3xf4`` that of the data, whose scales stand before."""
    scaled = _SCALED.fullmatch(words.get(index))
    return DTYPES.get(scaled[1]) if scaled else words.dtype(index)


_JET = {"t": "bf16", "h": "fp16", "s": "fp32", "d": "fp64", "q": "fp8e4m3fn", "o": "fp4e2m1"}
"""Letters of nvjet whose dtype is known from products of known dtypes; names with others are read without dtypes."""


def parse_nvjet(words: Words) -> Fields | None:
    """CuBLAS's generated products: ``nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN``.

    Three letters are operands, sum and result; five are A, B, C, sum and result (``qqtst``: two of FP8 E4M3 to bf16).
    Then come tile, depth of the tile in K with the stages, and the cluster; the last word is the transposition of A and
    B and the order of the result. The family begins with Hopper: without an architecture it is at least that.
    """
    if words.get(0) != "nvjet":
        return None
    fields: Fields = {"family": "nvjet", "op": "gemm"}
    at = 1
    if arch := words.sm(at):
        fields["arch"] = arch
        at += 1
    letters = words.get(at)
    types = [_JET.get(letter) for letter in letters]
    if len(letters) not in (3, 5) or None in types:
        return fields
    fields.setdefault("arch", ARCH_WORDS["hopper"])
    fields |= {"dtype_in": types[0], "dtype_acc": types[-2], "dtype_out": types[-1]}
    at += 1
    if words.dtype(at) in ("tf32", "bf16"):
        fields |= {"dtype_math": words.dtype(at), "unit": "tensor", "evidence": words.all[at]}
        at += 1
    if types[0] in SHORT_TYPES:
        fields |= {"unit": "tensor", "evidence": f"nvjet, {types[0]}"}
    if words.get(at) == "mma":
        fields |= {"unit": "tensor", "evidence": "mma"}
        if tile := words.shape(at + 1, dims=3):
            fields["tile"] = tile
            fields["stages"] = words.number(at + 2)
    elif (tile := words.shape(at, dims=2)) and (depth := _DEPTH.fullmatch(words.get(at + 1))):
        fields |= {"tile": f"{tile}x{depth[1]}", "stages": int(depth[2])}
        if cluster := words.shape(at + 2, dims=2):
            fields["cluster"] = cluster
    dims = 4 if words.get(at) == "mma" else 3
    for index in range(at + 1, len(words)):
        if words.get(index) == "splitK":
            fields["split_k"] = True
        elif len(words.at(index)) == dims and set(words.at(index)) <= {"N", "T"}:
            fields["layout"] = words.at(index)
    return fields


_GENERATED = {
    "Bfloat16": "bf16", "Fp16": "fp16", "Fp32": "fp32", "E4m3": "fp8e4m3fn", "E5m2": "fp8e5m2", "E2m1": "fp4e2m1",
    "E3m2": "fp6e3m2", "E2m3": "fp6e2m3",
}  # fmt: skip
"""Types as TensorRT-LLM's generator writes them; ``Mx`` before one is a block-scaled one."""
_GENERATED_TYPE = "(?:Mx)?(" + "|".join(_GENERATED) + ")"
_GENERATED_PAIR = re.compile(_GENERATED_TYPE + _GENERATED_TYPE, re.ASCII)
_GENERATED_ONE = re.compile(_GENERATED_TYPE, re.ASCII)
_GENERATED_TILE = re.compile(r"t(\d{1,4}x\d{1,4}x\d{1,4})(?:u\d)?", re.ASCII)


def parse_trtllm(words: Words) -> Fields | None:
    """TensorRT-LLM's generated products, which FlashInfer and vLLM launch as well.

    ``bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16_t128x128x256u2_s6_et128x128_m256x128x64_c2x1x1_rM_TN_..._sm100f``: result,
    the two operands and the sum, then tile, stages, the tile of the epilogue, the instruction and the cluster.
    """
    out = _GENERATED_ONE.fullmatch(words.get(1))
    pair = _GENERATED_PAIR.fullmatch(words.get(2))
    acc = _GENERATED_ONE.fullmatch(words.get(3))
    if words.get(0) not in ("bmm", "gemm") or out is None or pair is None or acc is None:
        return None
    fields: Fields = {
        "family": "trtllm",
        "op": "gemm",
        # The generator writes for the tensor cores of Blackwell and Hopper alone.
        "unit": "tensor",
        "evidence": words.all[2],
        "dtype_in": _GENERATED[pair[1]],
        "dtype_acc": _GENERATED[acc[1]],
        "dtype_out": _GENERATED[out[1]],
    }
    for index in range(4, len(words)):
        if tile := _GENERATED_TILE.fullmatch(words.get(index)):
            fields["tile"] = tile[1]
        elif (stages := words.number(index, "s")) is not None:
            fields["stages"] = stages
        elif (mma := words.shape(index, "m", dims=3)) is not None:
            fields["mma"] = mma
        elif (cluster := words.shape(index, "cga", dims=3) or words.shape(index, "c", dims=3)) is not None:
            fields["cluster"] = cluster
        elif words.number(index, "splitK") is not None:
            fields["split_k"] = True
        elif words.get(index).lower() in LAYOUTS:
            fields.setdefault("layout", words.all[index])
        elif arch := words.sm(index):
            fields["arch"] = arch
    return fields


_DEEP_TYPES = {"fp8": "fp8", "fp4": "fp4", "bf16": "bf16"}


def parse_deepgemm(words: Words) -> Fields | None:
    """DeepGEMM's: ``sm90_fp8_gemm_1d2d_impl``, ``sm100_fp8_fp4_gemm_1d1d_impl``: the operands, then their scales.

    Nothing but ``wgmma`` and ``tcgen05`` multiplies there.
    """
    arch, kind = words.sm(0), _DEEP_TYPES.get(words.get(1))
    if arch is None or kind is None:
        return None
    at = 3 if words.get(2) in _DEEP_TYPES else 2
    if words.at(at) != "gemm":
        return None
    fields: Fields = {"family": "deepgemm", "op": "gemm", "arch": arch, "dtype_in": kind}
    return fields | {"unit": "tensor", "evidence": f"{words.all[1]} on sm{arch}"}
