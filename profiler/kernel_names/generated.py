"""Kernels that compilers write and name: Myelin (TensorRT), Triton; and those of NCCL."""

from __future__ import annotations

import re

from profiler.kernel_names.record import Fields
from profiler.kernel_names.words import Words

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
    """Myelin's kernels and layers: ``__myl_MulSum_0xf517...``, ``_gemm_mha_v2_0x...``, ``__myl_bb1_1_TraMov``."""
    start = _myelin_start(words)
    if start < 0:
        return None
    fields: Fields = {"family": "myelin"}
    if words.get(start) in ("gemm", "kgen") and words.get(start + 1) == "mha":
        # TensorRT fuses attention for operands that tensor cores multiply, on GPUs that have them, and for no others
        # (TensorRT developer guide, "Multi-Head Attention Fusion").
        return fields | {"op": "attention", "unit": "tensor", "evidence": "mha"}
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
    for index in range(start + 1, len(words)):
        if found := _TENSOR_TILE.fullmatch(words.get(index)):
            fields |= {"tile": found[1], "unit": "tensor", "evidence": words.all[index]}
    return fields


def _myelin_start(words: Words) -> int:
    if words.all[:2] == ["", ""] and (words.get(2) == "myl" or _GRAPH.fullmatch(words.get(2))):
        return 3
    return 1 if words.all[:3] == ["", "gemm", "mha"] else -1


def myelin_op(ops: tuple[str, ...]) -> str:
    """The one word for a fused list of operations: the product, else the softmax, the reduction, the map, the move."""
    for product in _PRODUCTS:
        if product in ops:
            return product
    if "topk" in ops:
        return "topk"
    if "exp" in ops and "sum" in ops and "max_reduce" in ops:
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
