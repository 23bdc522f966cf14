"""Kernels of cuBLAS, cuDNN and CUTLASS that are C++ templates or plain functions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trtprof.kernel_names import blas, identifiers
from trtprof.kernel_names.identifiers import op_of
from trtprof.kernel_names.record import ARCH_WORDS, FIRST_TENSOR_CORES, SM_VERSIONS, Fields, Unit, sm_version
from trtprof.kernel_names.signatures import fact, leading_types, pointer_types
from trtprof.kernel_names.symbols import Part, Term, dtype, walk
from trtprof.kernel_names.words import Words

_GEMV = re.compile(r"gemv(?:NSP|2T|2N|2C|x)(?:_kernel(?:_val)?)?", re.ASCII)
_SMALL_N = re.compile(r"gemmSN_([NTC]{2})_kernel\w*", re.ASCII)
_SPLIT_K = frozenset(("splitKreduce_kernel", "splitKreduce", "reduceSplitK"))
_ARCH_SPLIT_K = re.compile(r"sm(\d+)_split_k_reduce_impl", re.ASCII)
BARE = frozenset(
    ("gemv2T_kernel_val", "gemv2N_kernel_val", *(f"sm{version}_split_k_reduce_impl" for version in SM_VERSIONS))
)
"""Short names that are whole as they stand: no name is known that goes on behind them."""
_REDUCTIONS = frozenset(
    ("dot_kernel", "reduce_1Block_kernel", "nrm2_kernel", "asum_kernel", "iamax_kernel", "iamin_kernel")
)
_MAPS = frozenset(("scal_kernel", "scal_kernel_val", "axpy_kernel_val", "axpy_kernel", "copy_kernel", "swap_kernel"))
_SCALAR_GEMM = frozenset(
    ("gemm_kernel2x2_core", "gemm_kernel2x2_tile_multiple_core", "gemmk1_kernel", "gemm_kernel1x1_core")
)


def cublas(term: Term, *, complete: bool) -> Fields | None:
    """CuBLAS's and cuBLASLt's own kernels: gemv, small products, the sums behind split-K."""
    name, args = term.last.name, term.last.args
    namespaces = set(term.names[:-1])
    if ("gemvx" in namespaces and name == "kernel") or (complete and _GEMV.fullmatch(name)):
        # A matrix times a vector uses each element of the matrix once: cuBLAS does it on the scalar pipes.
        return fact("cublas", "gemv", "simt", "gemv") | _gemv_types(term.last)
    if not complete:
        return None
    if (small := _SMALL_N.fullmatch(name)) or name.startswith("gemmSN_"):
        fields = fact("cublas", "gemm", "simt", "gemmSN") | ({"layout": small[1].lower()} if small else {})
        if kinds := leading_types(args):
            fields |= {"dtype_in": kinds[0], "dtype_out": kinds[0]}
        return fields
    if name in _SCALAR_GEMM:
        fields = fact("cublas", "gemm", "simt", name)
        start = 1 if args and dtype(args[0]) == "int32" else 0
        if kinds := leading_types(args, start):
            fields |= {"dtype_in": kinds[0], "dtype_out": kinds[0]}
        return fields
    if found := _ARCH_SPLIT_K.fullmatch(name):
        # Whose it is the name does not say.
        return {"op": "split_k_reduce", "unit": "none", "evidence": "split_k_reduce", "arch": sm_version(found[1])}
    if name in _SPLIT_K:
        return fact("cublas", "split_k_reduce", "none", name) | _split_k_types(term.last)
    if name in _REDUCTIONS or name in _MAPS:
        if not (namespaces & {"cublas", "cublasLt"} or any("cublas" in part.name for part in walk(term))):
            return None
        op = "reduce" if name in _REDUCTIONS else "copy" if name in ("copy_kernel", "swap_kernel") else "elementwise"
        # The first argument is what is computed in; the operands are the tensors.
        tensor = next(
            (part.args[0] for part in walk(term) if part.name.startswith("cublasGemvTensor") and part.args), None
        )
        kind = dtype(tensor) if tensor else None
        return fact("cublas", op, "none", name) | ({"dtype_in": kind} if kind else {})
    if name.startswith("sgemm_largek"):
        return fact("cublas", "gemm", "simt", "sgemm") | dict.fromkeys(("dtype_in", "dtype_acc", "dtype_out"), "fp32")
    if name == "magma_sgemmEx_kernel":
        # <operands, result, ...>; s is the BLAS letter of the sum.
        fields = fact("cublas", "gemm", "simt", "sgemm") | {"dtype_acc": "fp32"}
        kinds = leading_types(args)
        return fields | ({"dtype_in": kinds[0], "dtype_out": kinds[1]} if len(kinds) > 1 else {})
    if name.startswith("fermiPlusCgemm"):
        return fact("cublas", "gemm", "simt", "Cgemm") | {"arch": ARCH_WORDS["fermi"], "dtype_in": "complex64"}
    if term.names[-3:] == ("epilogue", "impl", "globalKernel"):
        return fact("cublas", "epilogue", "none", "epilogue")
    return None


def _gemv_types(part: Part) -> Fields:
    """<index types, matrix, vector, result, sum, numbers...>; without the vector in older versions."""
    args = part.args or ()
    start = 0
    while start < len(args) and dtype(args[start]) in ("int32", "int64") and start < 2:
        start += 1
    kinds = leading_types(args, start)
    fields: Fields = {"dtype_in": kinds[0]} if kinds else {}
    closed = start + len(kinds) < len(args) or part.args_end
    if closed and len(kinds) in (3, 4):
        fields |= {"dtype_out": kinds[-2], "dtype_acc": kinds[-1]}
    return fields


def _split_k_types(part: Part) -> Fields:
    """<numbers, index type, partial sums, ., scale, ., ...>: equal types leave no doubt what the result is."""
    args = part.args or ()
    start = next((i for i, arg in enumerate(args) if dtype(arg) not in (None, "int32")), len(args))
    kinds = leading_types(args, start)[:4]
    if len(kinds) < 4:
        return {"dtype_in": kinds[0]} if kinds else {}
    fields: Fields = {"dtype_in": kinds[0], "dtype_acc": kinds[2]}
    if len(set(kinds)) == 1:
        fields["dtype_out"] = kinds[0]
    return fields


_CUDNN: tuple[tuple[str, str, Unit], ...] = (
    ("implicit_convolve_", "conv", "simt"), ("explicit_convolve_", "conv", "simt"),
    ("precomputed_convolve_", "conv", "simt"), ("conv2d_grouped_direct_kernel", "conv", "simt"),
    ("conv2d_c1_k1_nhwc_kernel", "conv", "simt"), ("winograd3x3Kernel", "conv", "simt"),
    ("dgrad_engine", "dgrad", "simt"), ("dgrad_alg1_engine", "dgrad", "simt"), ("dgrad2d_", "dgrad", "simt"),
    ("wgrad_alg0_engine", "wgrad", "simt"), ("wgrad_alg1_engine", "wgrad", "simt"), ("wgrad2d_", "wgrad", "simt"),
    ("generateWinogradTilesKernel", "winograd_transform", "none"), ("winogradForward", "winograd_transform", "none"),
    ("winogradWgrad", "winograd_transform", "none"), ("winogradBackward", "winograd_transform", "none"),
    ("fft2d_", "fft", "none"), ("flip_filter", "fft", "none"), ("regular_fft", "fft", "none"),
    ("vector_fft", "fft", "none"), ("bn_bw_", "batch_norm_backward", "none"), ("bn_fw_", "batch_norm", "none"),
    ("bnScale", "batch_norm", "none"), ("batchnorm_", "batch_norm", "none"), ("pooling_fw_", "pooling", "none"),
    ("pooling_bw_", "pooling_backward", "none"), ("softmax_", "softmax", "none"),
    ("nchwToNhwcKernel", "reformat", "none"), ("nhwcToNchwKernel", "reformat", "none"),
    ("nchwToFoldedNhwcKernel", "reformat", "none"), ("nhwcToFoldedNhwcKernel", "reformat", "none"),
    ("foldedNhwcToNhwcKernel", "reformat", "none"), ("foldedNhwcToNchwKernel", "reformat", "none"),
    ("nhwcAddPaddingKernel", "pad", "none"), ("tensorTransformGeneric", "reformat", "none"),
    ("transpose_readWrite", "transpose", "none"), ("im2col", "reformat", "none"),
    ("scalePackedTensor_kernel", "elementwise", "none"), ("scaleTensor", "elementwise", "none"),
    ("setTensor", "fill", "none"), ("op_generic_tensor_kernel", "elementwise", "none"),
    ("op_tensor_kernel", "elementwise", "none"), ("add_tensor_kernel", "elementwise", "none"),
    ("activation_fw_", "elementwise", "none"), ("activation_bw_", "elementwise", "none"),
    ("reduce_wgrad_", "reduce", "none"), ("reduceTensor", "reduce", "none"), ("lrn", "lrn", "none"),
    ("computeOffsetsKernel", "index_setup", "none"), ("computeBOffsetsKernel", "index_setup", "none"),
    ("computeWgradBOffsetsKernel", "index_setup", "none"), ("computeWgradSplitKOffsetsKernel", "index_setup", "none"),
    ("computeWgradOffsetsKernel", "index_setup", "none"), ("kern_precompute_indices", "index_setup", "none"),
)  # fmt: skip
"""cuDNN's functions by how they begin; those on ``simt`` are written without tensor-core instructions."""
_CUDNN_BARE = (
    "implicit_convolve_", "explicit_convolve_", "precomputed_convolve_", "conv2d_grouped_direct_kernel",
    "conv2d_c1_k1_nhwc_kernel", "dgrad_engine", "dgrad_alg1_engine", "dgrad2d_", "wgrad_alg0_engine",
    "wgrad_alg1_engine", "wgrad2d_", "generateWinogradTilesKernel", "winogradForward", "winogradWgrad", "fft2d_",
    "nchwToNhwcKernel", "nhwcToNchwKernel", "op_generic_tensor_kernel", "kern_precompute_indices",
    "scalePackedTensor_kernel", "transpose_readWrite", "computeOffsetsKernel", "flip_filter", "im2col4d_kernel",
    "add_tensor_kernel_v3", "op_tensor_kernel", "bn_fw_", "bn_bw_", "pooling_fw_", "pooling_bw_",
)  # fmt: skip
_OWNERS = {"cask_trt": "tensorrt", "cask_": "cudnn", "xmma_": "xmma", "cudnn": "cudnn", "DSE": "cudnn"}
"""Whose a namespace is, by how it begins; the first that fits."""
_TRAITS = re.compile(r"(Volta|Turing|Ampere|Ada|Hopper)_([hidb]mma|gmma)_\w+", re.ASCII)


def cudnn(term: Term, *, complete: bool) -> Fields | None:
    """CuDNN's functions, with or without their namespace, and the helpers of xmma that TensorRT has as well."""
    spaces, name = term.names[:-1], term.last.name
    owner = next((_OWNERS[begin] for space in spaces for begin in _OWNERS if space.startswith(begin)), None)
    if not complete or (owner is None and not name.startswith(_CUDNN_BARE)):
        return {"family": owner} if owner else None
    family = owner or "cudnn"
    if family == "xmma":
        return {"family": family} | _xmma_traits(term)
    for begin, op, unit in _CUDNN:
        if name.startswith(begin):
            fields = fact(family, op, unit, name)
            if op == "index_setup":
                return fields
            args = term.last.args or ()
            kinds = leading_types(args, next((i for i, arg in enumerate(args) if arg.value is None), 0))
            if kinds:
                fields["dtype_in"] = kinds[0]
            out = pointer_types(term.last).get("dtype_out")
            if out not in (None, "int32"):
                fields["dtype_out"] = out
            if name.endswith("_sgemm"):
                fields["dtype_acc"] = "fp32"
            return fields
    named = op_of(name)
    return {"family": family} | ({"op": named} if named else {})


def _xmma_traits(term: Term) -> Fields:
    fields: Fields = {}
    for part in walk(term):
        if found := _TRAITS.fullmatch(part.name):
            fields |= {"arch": ARCH_WORDS[found[1].lower()], "unit": "tensor", "evidence": found[2]}
            break
    for word in term.names:
        if word in ("fprop", "dgrad", "wgrad", "gemm"):
            fields["op"] = {"fprop": "conv"}.get(word, word)
    return fields


_MAINLOOP = re.compile(r"(?:\w*[a-z0-9_])?Sm(\d{2,3})[af]?(?![a-z0-9])\w*", re.ASCII)
_ENABLE = re.compile(r"enable_sm(\d{2,3})(?:a|_\w+)?", re.ASCII)
_ATOM = re.compile(r"SM(\d{2,3})_(\d+x\d+x\d+)_([A-Z]+\d+)([A-Z0-9]+)_\w+", re.ASCII)
_ATOM_TYPE = re.compile(r"TF32|BF16|[EF]\d+M\d+|[A-Z]+\d+", re.ASCII)
_ATOM_TYPES = {
    "F32": "fp32", "F16": "fp16", "BF16": "bf16", "TF32": "tf32", "F64": "fp64", "S32": "int32", "S8": "int8",
    "U8": "uint8", "E4M3": "fp8e4m3fn", "E5M2": "fp8e5m2", "U4": "uint4", "S4": "int4",
}  # fmt: skip


_SCALED_MM = re.compile(r"cutlass_3x_gemm(?:_sm(\d{2,3})(?:_\w+)?)?", re.ASCII)
_FP4 = re.compile(r"DeviceGemmFp4GemmSm(\d{2,3})(?:_\w+)?", re.ASCII)


def wrapped(term: Term, *, complete: bool) -> Fields | None:  # noqa: ARG001
    """Products of CUTLASS that a library configures in a class of its own.

    vLLM's ``cutlass_3x_gemm_sm100<operands, result, epilogue, tile, cluster, ...>``, and FlashInfer's and
    TensorRT-LLM's ``DeviceGemmFp4GemmSm100_half_128_128_256_...``: both ask for the operator class of tensor cores.
    """
    parts = list(walk(term))
    for part in parts:
        args = part.args or ()
        if found := _FP4.fullmatch(part.name):
            arch = sm_version(found[1])
            fields = fact("cutlass", "gemm", "tensor", "DeviceGemmFp4Gemm") | {"dtype_in": "fp4e2m1"}
            return fields | ({"arch": arch} if arch else {})
        if (found := _SCALED_MM.fullmatch(part.name)) and any(each.name == "vllm" for each in parts):
            fields = fact("cutlass", "gemm", "tensor", "cutlass_3x_gemm")
            arch = sm_version(found[1]) if found[1] else None
            kinds = leading_types(args)
            if kinds:
                fields |= {"dtype_in": kinds[0], "dtype_acc": "int32" if kinds[0] == "int8" else "fp32"}
            if len(kinds) > 1:
                fields["dtype_out"] = kinds[1]
            if len(args) > 4 and (tile := _constants(args[3])) and (cluster := _constants(args[4])):
                fields |= {"tile": tile, "cluster": cluster}
            return fields | ({"arch": arch} if arch else {})
    return None


def deepgemm(term: Term, *, complete: bool) -> Fields | None:
    """DeepGEMM's templates, whose identifiers are names of words."""
    if "deep_gemm" not in term.names[:-1]:
        return None
    product = blas.parse_deepgemm(Words(term.last.name, closed=complete))
    return {"family": "deepgemm"} | (product or identifiers.parse(term, complete=complete))


def cutlass(term: Term, *, complete: bool) -> Fields | None:
    """CUTLASS 2 and 3: a procedural name as template argument, or the whole configuration as types."""
    name = term.last.name
    spaces = [each for each in term.names[:-1] if each.startswith("cutlass")]
    if not spaces and not (name in ("Kernel", "Kernel2", "device_kernel") and term.last.args):
        return None
    for arg in term.last.args or ():
        if arg.last.name.startswith("cutlass") and arg.parts:
            inside = blas.parse_cutlass(Words(arg.names[-1], closed=True))
            if inside:
                return inside
    if not spaces:
        return None
    if name not in ("Kernel", "Kernel2") and not term.last.args:
        # FlashAttention 3 is launched by the same `device_kernel`.
        return {}
    fields: Fields = {"family": "cutlass"}
    if not complete:
        return fields
    return fields | _configuration(list(walk(term)))


def _constants(term: Term) -> str | None:
    """``cute::tuple<cute::C<128>, cute::C<64>, cute::C<64>>`` as ``128x64x64``."""
    values = []
    for arg in term.last.args or ():
        inner = [each.value for each in arg.last.args or () if each.value is not None]
        if arg.last.name not in ("C", "Int", "constant") or len(inner) != 1:
            return None
        values.append(str(inner[0]))
    return "x".join(values) if len(values) == 3 and term.last.args_end else None


def _configuration(parts: Iterable[Part]) -> Fields:
    fields: Fields = {}
    shapes: list[str] = []
    for part in parts:
        args = part.args or ()
        found = _ENABLE.fullmatch(part.name) or _MAINLOOP.fullmatch(part.name)
        if found and "arch" not in fields and (arch := sm_version(found[1])) is not None:
            fields["arch"] = arch
        if part.name in ("GemmUniversal", "Gemm", "GemmUniversalStreamk", "GemmGrouped", "DefaultGemmUniversal"):
            fields.setdefault("op", "gemm")
        elif part.name in ("ImplicitGemmConvolution", "ImplicitGemmConvolutionFusion", "ConvUniversal"):
            fields.setdefault("op", "conv")
        elif part.name == "CollectiveMma" and len(args) >= 3:
            if tile := _constants(args[1]):
                fields["tile"] = tile
            if kind := dtype(args[2]):
                fields["dtype_in"] = kind
        elif part.name.startswith("MainloopSm") and args and args[0].value:
            fields.setdefault("stages", args[0].value)
            if len(args) > 1 and (cluster := _constants(args[1])):
                fields["cluster"] = cluster
        elif part.name == "GemmShape" and len(args) == 3 and part.args_end:
            shapes.append("x".join(str(arg.value) for arg in args))
        if "unit" not in fields:
            fields |= _configured_unit(part)
        if atom := _ATOM.fullmatch(part.name):
            fields |= _atom(atom, fields)
    if shapes:
        fields.setdefault("tile", shapes[0])
    return fields


def _configured_unit(part: Part) -> Fields:
    if "TensorOp" in part.name or "Gmma" in part.name or "TmaUmma" in part.name or "GMMA" in part.name:
        return {"unit": "tensor", "evidence": part.name}
    if part.name in ("OpClassSimt", "MmaSimt"):
        return {"unit": "simt", "evidence": part.name}
    return {}


def _atom(found: re.Match[str], known: Fields) -> Fields:
    """``SM90_64x128x16_F32BF16BF16_SS``: instruction, then sum and operands (SM 80 writes the result before)."""
    arch = sm_version(found[1])
    if arch is None or "mma" in known or arch < FIRST_TENSOR_CORES:
        return {}
    fields: Fields = {"mma": found[2]}
    fields.setdefault("unit", known.get("unit", "tensor"))
    if "evidence" not in known:
        fields["evidence"] = found[0]
    types = [_ATOM_TYPES.get(each) for each in _ATOM_TYPE.findall(found[3] + found[4])]
    if types and types[0]:
        fields["dtype_acc"] = types[0]
    return fields
