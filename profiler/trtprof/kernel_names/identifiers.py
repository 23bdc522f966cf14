"""What the words of an identifier say where no library is known: ``my_layer_norm_kernel`` is a layer norm."""

from __future__ import annotations

import re

from trtprof.kernel_names.record import Fields
from trtprof.kernel_names.symbols import Term

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_OPS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("softmax",), "softmax"), (("soft", "max"), "softmax"), (("layer", "norm"), "layer_norm"),
    (("layernorm",), "layer_norm"), (("rms", "norm"), "rms_norm"), (("rmsnorm",), "rms_norm"),
    (("batch", "norm"), "batch_norm"), (("batchnorm",), "batch_norm"), (("group", "norm"), "group_norm"),
    (("instance", "norm"), "instance_norm"), (("max", "pool"), "pooling"), (("avg", "pool"), "pooling"),
    (("average", "pool"), "pooling"), (("pooling",), "pooling"), (("pool",), "pooling"), (("rotary",), "elementwise"),
    (("rope",), "elementwise"), (("attention",), "attention"), (("mha",), "attention"), (("gemv",), "gemv"),
    (("gemm",), "gemm"), (("sgemm",), "gemm"), (("hgemm",), "gemm"), (("dgemm",), "gemm"), (("cgemm",), "gemm"),
    (("igemm",), "gemm"), (("bmm",), "gemm"), (("mm",), "gemm"), (("matmul",), "gemm"), (("mat", "mul"), "gemm"),
    (("conv",), "conv"), (("convolution",), "conv"), (("top", "k"), "topk"), (("topk",), "topk"), (("sort",), "sort"),
    (("transpose",), "transpose"), (("permute",), "transpose"), (("gather",), "gather"), (("scatter",), "scatter"),
    (("concat",), "concat"), (("embedding",), "gather"), (("resize",), "resize"), (("upsample",), "resize"),
    (("dequantize",), "dequantize"), (("quantize",), "quantize"), (("reformat",), "reformat"),
    (("im2col",), "reformat"), (("reduce",), "reduce"), (("reduction",), "reduce"), (("cast",), "cast"),
    (("convert",), "cast"), (("expand",), "copy"), (("split",), "split"), (("slice",), "slice"), (("pad",), "pad"),
    (("scan",), "scan"), (("cumsum",), "scan"), (("fill",), "fill"), (("copy",), "copy"), (("memcpy",), "copy"),
    (("memset",), "fill"), (("elementwise",), "elementwise"), (("element", "wise"), "elementwise"),
    (("pointwise",), "elementwise"), (("activation",), "elementwise"), (("silu",), "elementwise"),
    (("gelu",), "elementwise"), (("relu",), "elementwise"), (("swiglu",), "elementwise"), (("nonzero",), "select"),
    (("where",), "elementwise"), (("nms",), "nms"),
)  # fmt: skip
_WITH_PRODUCTS = frozenset(("attention", "gemv", "gemm", "conv"))


def subwords(name: str) -> list[str]:
    """``nchwToNhwcKernel`` and ``layer_norm_kernel`` as lower-case words."""
    return [word.lower() for word in _WORD.findall(name)]


def op_of(name: str) -> str | None:
    """The op that the words of a complete identifier name, or None; a product wins over what is fused with it."""
    words = subwords(name)
    found = [op for sought, op in _OPS for at in range(len(words)) if tuple(words[at : at + len(sought)]) == sought]
    return next((op for op in found if op in _WITH_PRODUCTS), found[0] if found else None)


_MAY_MULTIPLY = frozenset(
    ("moe", "mlp", "ffn", "linear", "proj", "fc", "dot", "mma", "wmma", "hmma", "imma", "expert", "qkv")
)
_HELPERS = frozenset(("pointers", "ptrs", "offsets", "setup", "init", "prepare", "workspace"))


def parse(term: Term, *, complete: bool) -> Fields:
    """The op of a function of an unknown library; its unit only where nothing in its name may multiply."""
    words = subwords(term.last.name) if complete else []
    op = op_of(term.last.name) if complete else None
    if op is None or _HELPERS & set(words):
        return {}
    if op in _WITH_PRODUCTS or _MAY_MULTIPLY & set(words):
        return {"op": op}
    return {"op": op, "unit": "none", "evidence": op}
