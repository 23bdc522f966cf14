"""Kernels that compilers write and name: Myelin (TensorRT), Triton, the CuTe DSL; and those of NCCL."""

from __future__ import annotations

import re

from trtprof.kernel_names.identifiers import op_of, subwords
from trtprof.kernel_names.record import ARCH_WORDS, Fields, sm_version
from trtprof.kernel_names.words import Words

_MYELIN = {
    # Four letters since TensorRT 10.11 or before, three until 10.5 at least.
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Max": "max", "Min": "min", "Pow": "pow", "Exp": "exp",
    "Log": "log", "Erf": "erf", "Abs": "abs", "Neg": "neg", "Sin": "sin", "Cos": "cos", "Not": "not", "And": "and",
    "Or": "or", "Xor": "xor", "Eql": "equal", "Gtr": "greater", "Les": "less", "Less": "less", "Orand": "or",
    "Sqrt": "sqrt", "Sqr": "sqrt", "Rsqr": "rsqrt", "Tanh": "tanh", "Tan": "tanh", "Sigm": "sigmoid", "Sig": "sigmoid",
    "Relu": "relu", "Rel": "relu", "Gelu": "gelu", "Gel": "gelu", "Silu": "silu", "Floo": "floor", "Flo": "floor",
    "Ceil": "ceil", "Cei": "ceil", "Roun": "round", "Rou": "round", "Sele": "select", "Sel": "select", "Clip": "clip",
    "Iota": "iota", "Iot": "iota", "Cast": "cast", "Cas": "cast", "Quan": "quantize", "Qua": "quantize",
    "Resh": "reshape", "Res": "reshape", "Tran": "transpose", "Tra": "transpose", "Move": "copy", "Mov": "copy",
    "Slic": "slice", "Sli": "slice", "Conc": "concat", "Repl": "repeat", "Rep": "repeat", "Gath": "gather",
    "Gat": "gather", "Scat": "scatter", "Padd": "pad", "Pad": "pad",
    "Sum": "sum", "Mean": "mean", "Mea": "mean", "Maxr": "max_reduce", "Minr": "min_reduce", "Prod": "prod",
    "Topk": "topk", "Top": "topk", "Fc": "gemm", "Gemm": "gemm", "Gem": "gemm", "Conv": "conv", "Mha": "attention",
}  # fmt: skip
_PRODUCTS = ("gemm", "conv", "attention")
_SOFTMAX = frozenset(("max", "sub", "exp", "sum", "div"))
"""Of a list that may be cut: the whole of a softmax, its division too; older Myelin writes the reduction ``Max``."""
_REDUCTIONS = frozenset(("sum", "mean", "max_reduce", "min_reduce", "prod"))
_MOVES = {
    "copy": "copy", "transpose": "transpose", "reshape": "copy", "cast": "cast", "slice": "slice", "concat": "concat",
    "gather": "gather", "scatter": "scatter", "pad": "pad", "repeat": "copy", "quantize": "quantize",
}  # fmt: skip
_CAMEL = re.compile(r"[A-Z][a-z0-9]*")
_HASH = re.compile(r"0x[0-9a-f]{1,32}")
_SERIAL = re.compile(r"(?:bb)?\d+|myl\d+|0x[0-9a-f]+", re.ASCII)
_GRAPH = re.compile(r"mye\d+", re.ASCII)
_TENSOR_TILE = re.compile(r"tensorop(\d{1,4}x\d{1,4})", re.ASCII)


def parse_myelin(words: Words) -> Fields | None:
    """Myelin's kernels and layers: ``__myl_MulSum_0xf517...``, ``_gemm_mha_v2_0x...``, ``__myl_bb1_1_TraMov``.

    Older versions write ``bb1_1_`` before the list and nothing behind it, so that a cut would not show: of such a list
    only a whole softmax tells the operation.
    """
    start = _myelin_start(words)
    if start < 0:
        return None
    fields: Fields = {"family": "myelin"}
    if words.get(start) in ("gemm", "kgen") and words.get(start + 1) == "mha":
        # TensorRT fuses attention for operands that tensor cores multiply, on GPUs that have them, and for no others
        # (TensorRT developer guide, "Multi-Head Attention Fusion").
        return fields | {"op": "attention", "unit": "tensor", "evidence": "mha"}
    if words.get(start) == "gemv" and words.get(start + 1) == "mha":
        # One row of queries: a token that is decoded. On which unit the name does not say.
        return fields | {"op": "attention", "ops": ("decode",)}
    while _SERIAL.fullmatch(words.get(start)):
        start += 1
    token = words.at(start)
    behind = words.at(start + 1)
    listed = _CAMEL.findall(token)
    if not listed or "".join(listed) != token:
        return fields
    # The list is complete where what Myelin puts behind it begins, and not where it was too long for a name.
    complete = words.whole(start) and bool(_HASH.match(behind) or _SERIAL.fullmatch(behind)) and listed[-1] != "Etc"
    if listed[-1] == "Etc" or not words.whole(start):
        listed = listed[:-1]
    fields["ops"] = tuple(_MYELIN.get(word, word.lower()) for word in listed)
    known = complete and all(word in _MYELIN for word in listed)
    if known:
        fields["op"] = myelin_op(fields["ops"])
        if fields["op"] not in _PRODUCTS:
            fields |= {"unit": "none", "evidence": "no product among its operations"}
    elif words.get(3).startswith("bb") and not words.whole(start) and set(fields["ops"]) >= _SOFTMAX:
        fields |= {"op": "softmax", "unit": "none", "evidence": "max, exp, sum, div"}
    for index in range(start + 1, len(words)):
        if found := _TENSOR_TILE.match(words.at(index)):
            fields |= {"unit": "tensor", "evidence": words.all[index]}
            if words.whole(index) and found.end() == len(words.all[index]):
                fields["tile"] = found[1]
            if product := next((each for each in _PRODUCTS if each in fields["ops"]), None):
                fields["op"] = product
    return fields


def _myelin_start(words: Words) -> int:
    if words.all[:2] == ["", ""] and (words.get(2) == "myl" or _GRAPH.fullmatch(words.get(2))):
        return 3
    return 1 if words.all[:3] in (["", "gemm", "mha"], ["", "gemv", "mha"]) else -1


def myelin_op(ops: tuple[str, ...]) -> str:
    """The one word for a fused list of operations: the product, else the softmax, the reduction, the map, the move."""
    for product in _PRODUCTS:
        if product in ops:
            return product
    if "topk" in ops:
        return "topk"
    if "exp" in ops and "sum" in ops and ("max_reduce" in ops or set(ops) >= _SOFTMAX):
        return "softmax"
    if _REDUCTIONS & set(ops):
        return "reduce"
    moves = [_MOVES.get(op) for op in ops]
    if None in moves:
        return "elementwise"
    real = [move for move in moves if move not in ("copy", "cast")]
    return real[0] or "" if real else "cast" if "cast" in ops else "copy"


_TRITON = {"poi": "elementwise", "per": "reduce", "red": "reduce"}
_TRITON_TEMPLATES = {"mm": "gemm", "bmm": "gemm", "addmm": "gemm", "baddbmm": "gemm", "convolution": "conv"}


def parse_triton(words: Words) -> Fields | None:
    """Inductor's kernels: ``triton_poi_fused_add_mul_silu_23`` is pointwise, ``per`` and ``red`` are reductions."""
    if words.get(0) != "triton":
        return None
    fields: Fields = {"family": "triton"}
    kind = words.get(1)
    if kind in _TRITON:
        fields |= {"op": _TRITON[kind], "unit": "none", "evidence": kind}
    elif kind != "tem":
        return fields
    if words.get(2) != "fused":
        return fields
    end = len(words)
    listed = [words.get(i) for i in range(3, end) if words.whole(i)]
    fields["ops"] = tuple(word for word in listed if word and not word.isdigit())
    if kind == "tem":
        for word in fields["ops"]:
            if word in _TRITON_TEMPLATES:
                fields["op"] = _TRITON_TEMPLATES[word]
                break
        if "attention" in fields["ops"]:
            fields["op"] = "attention"
    return fields


_CUTE_CLASS = re.compile(r"[A-Z]\w*", re.ASCII)
_CUTE_ARCH = re.compile(r"S[Mm](\d{2,3})(?![a-z0-9])", re.ASCII)
_CUTE_ATOM = re.compile(r"ShapeMNK(\d{4,})", re.ASCII)
_CUTE_TENSOR = re.compile(r"tensorptr(bf16|f16|f32|f8E4M3FN|f8E5M2|f4E2M1FN)gmem\w*", re.ASCII)
_CUTE_TYPES = {
    "bf16": "bf16", "f16": "fp16", "f32": "fp32", "f8E4M3FN": "fp8e4m3fn", "f8E5M2": "fp8e5m2", "f4E2M1FN": "fp4e2m1",
}  # fmt: skip
_CUTE_PRODUCTS = ("gemm", "conv", "attention", "attention_backward")
_CUTE_BARE = frozenset(("BlackwellFusedMultiHeadAttentionForward", "FlashAttentionForwardSm100"))
"""Classes that reports name without the rest, and that begin no other name."""
_CUTE_HELPERS = frozenset(("combine", "preprocess", "postprocess"))


def parse_cute(words: Words) -> Fields | None:
    """The CuTe DSL's: ``kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__...``.

    The module's path and the class stand together before ``_object_at__``, the types of the arguments behind it.
    """
    if words.all[0] in _CUTE_BARE and len(words) == 1:
        return {"family": "cute"} | _cute_class(words.all[0])
    if words.all[:2] != ["kernel", "cutlass"] or len(words) < 3:
        return None
    fields: Fields = {"family": "cute"}
    end = words.first("object", start=3)
    found = _CUTE_CLASS.search(words.at(end - 1)) if end > 0 and words.get(2) == "kernel" else None
    if found is None:
        return fields
    fields |= _cute_class(found[0])
    if fields.get("op") in _CUTE_PRODUCTS and "unit" not in fields:
        for index in range(end, len(words)):
            # A product of one element, as the scalar pipes do it, is 111.
            if _CUTE_ATOM.fullmatch(words.get(index)):
                fields |= {"unit": "tensor", "evidence": words.all[index]}
                break
    first = _CUTE_TENSOR.match(words.at(end + 3))
    if first and words.get(end + 1) == "at":
        fields["dtype_in"] = _CUTE_TYPES[first[1]]
    return fields


def _cute_class(name: str) -> Fields:
    fields: Fields = {}
    said = subwords(name)
    if {"attention", "attn", "fmha", "mla"} & set(said):
        fields["op"] = "attention_backward" if {"backward", "bwd"} & set(said) else "attention"
        if _CUTE_HELPERS & set(said):
            fields |= {"op": "reduce", "unit": "none", "evidence": name}
    elif op := op_of(name):
        fields["op"] = op
    arch = next((sm for each in _CUTE_ARCH.finditer(name) if (sm := sm_version(each[1]))), None)
    arch = arch or next((ARCH_WORDS[word] for word in said if word in ARCH_WORDS), None)
    if arch:
        fields["arch"] = arch
    multiplies = fields.get("op") in _CUTE_PRODUCTS
    if multiplies and arch and arch >= ARCH_WORDS["hopper"]:
        # A class that names such a GPU and a product is written for its tensor cores.
        fields |= {"unit": "tensor", "evidence": name}
    elif "op" in fields and not multiplies and fields["op"] != "gemv":
        fields |= {"unit": "none", "evidence": name}
    return fields


_COLLECTIVES = {
    "AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "Broadcast": "broadcast",
    "Reduce": "reduce", "SendRecv": "send_recv", "AllToAll": "all_to_all",
}  # fmt: skip
_NCCL_TYPES = {
    "float": "fp32", "double": "fp64", "half": "fp16", "f32": "fp32", "f64": "fp64", "f16": "fp16", "bf16": "bf16",
    "u8": "uint8", "i8": "int8", "u32": "uint32", "i32": "int32", "u64": "uint64", "i64": "int64", "int8": "int8",
    "f8e4m3": "fp8e4m3fn", "f8e5m2": "fp8e5m2",
}  # fmt: skip


def parse_nccl(words: Words) -> Fields | None:
    """``ncclKernel_AllReduce_RING_LL_Sum_float``, ``ncclDevKernel_AllReduce_Sum_bf16_RING_LL``."""
    if not words.at(0).startswith("nccl"):
        return None
    fields: Fields = {"family": "nccl", "unit": "none", "evidence": "nccl"}
    for index in range(1, len(words)):
        word = words.get(index) or words.only(index, _COLLECTIVES)
        if word in _COLLECTIVES and "op" not in fields:
            fields["op"] = _COLLECTIVES[word]
        elif word in _NCCL_TYPES:
            fields["dtype_in"] = fields["dtype_out"] = _NCCL_TYPES[word]
    return fields
