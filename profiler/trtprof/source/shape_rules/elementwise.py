"""Ops that keep the shape of an input or broadcast several: activations, norms, quantised arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base import onnx_graph
from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule, rules
from trtprof.source.shape_rules._dims import *


@rule(
    *("BiasAdd", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "QuickGelu", "ScaledSiLU", "GatedAdd", "GatedRMSNorm"),
    *("BranchwiseRMSNorm", "GroupNorm", "HyperConnectionPostMix", "Inverse", "SampleOp", "Trilu"),
    *("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QOrderedGelu", "QOrderedLayerNormalization"),
    *("RotaryEmbedding", "MRotaryEmbedding", "LongformerAttention", "QOrderedLongformerAttention"),
    domain=MS,
)
@rule("Affine", "ImageScaler", "ParametricSoftplus", "ScaledTanh", "MemcpyFromHost", "MemcpyToHost", domain="")
def unchanged(op: Op) -> Sequence[Tensor | None]:
    """Shape and dtype of the first input."""
    return [like(op)]


@rule("QuantizeBFP", domain=MS)
def quantize_bfp(op: Op) -> Sequence[Tensor | None]:
    """Bytes, as many as the format of a device takes; then shape and strides of x."""
    x = shape(op)
    rank: Dim = "?" if x is None else len(x)
    return [made("uint8", ("?",)), made("int64", (rank,)), made("int64", (rank,))]


@rule("DequantizeBFP", domain=MS)
def dequantize_bfp(op: Op) -> Sequence[Tensor | None]:
    """Bytes, and the shape of what they stand for."""
    (rank,) = dims(op, 1, 1)
    asked = values(op, 1) or (("?",) * rank if isinstance(rank, int) else None)
    return [made(onnx_graph.dtype_name(integer(op, "dtype", 1)), asked)]


@rule("BitmaskDropout", "BitmaskBiasDropout", domain=MS)
def bitmask_dropout(op: Op) -> Sequence[Tensor | None]:
    """data, and a bit for each element in words of 32."""
    elements: Dim = "?" if like(op).elements is None else rounded_up(like(op).elements or 0, 32)
    return [like(op), made("uint32", (elements,))]


@rule("BiasSplitGelu", domain=MS)
def bias_split_gelu(op: Op) -> Sequence[Tensor | None]:
    """Half the channels gate the other half."""
    x = shape(op)
    return [made(dtype(op), None if x is None else with_last(x, over(x[-1], 2)))]


def _statistics(x: Shape | None, axis: int) -> Shape | None:
    return None if x is None else (*x[: axis_of(axis, len(x))], *(1,) * (len(x) - axis_of(axis, len(x))))


@rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MS)
def skip_layer_norm(op: Op) -> Sequence[Tensor | None]:
    """The result, mean, inverse deviation, and the sum that was normalised."""
    each = made("fp32", _statistics(shape(op), -1))
    return [like(op), each, each, like(op)]


@rule("LayerNormalization", domain="")
def layer_norm(op: Op) -> Sequence[Tensor | None]:
    """Before opset 17 it was ONNX Runtime's own: the dtype is that of the scale."""
    each = made(onnx_graph.dtype_name(integer(op, "stash_type", 1)), _statistics(shape(op), integer(op, "axis", -1)))
    return [like(op, kind=dtype(op, 1)), each, each]


@rule("HyperConnectionPreMix", domain=MS)
def hyper_connection_pre_mix(op: Op) -> Sequence[Tensor | None]:
    """[..., C, H], or [..., C * H] with C as an attribute, becomes [..., H]."""
    x, branches = shape(op), integer(op, "num_branches", 0)
    if x is None:
        return [like(op)]
    return [made(dtype(op), with_last(x, over(x[-1], branches)) if branches else (*x[:-2], x[-1]))]


def _reduced(op: Op, kind: str) -> list[Tensor | None]:
    return [made(kind, reduced(shape(op), integers(op, "axes") or None, bool(integer(op, "keepdims", 1))))]


@rule("ReduceSumInteger", domain=MS)
def reduce_sum_integer(op: Op) -> Sequence[Tensor | None]:
    """32-bit integers with the sign of the input."""
    kinds = {"int8": "int32", "uint8": "uint32"}
    return _reduced(op, kinds.get(dtype(op), "unknown"))


@rule("QLinearConcat", domain=MS)
def qlinear_concat(op: Op) -> Sequence[Tensor | None]:
    """y_scale, y_zero_point, then data, scale and zero point of each part."""
    parts = [shape(op, index) for index in range(2, len(op.inputs), 3)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return [made(dtype(op, 1), None)]
    at = axis_of(required(op, "axis"), len(known[0]))
    found = [_agreed(column) for column in zip(*known, strict=True)]
    found[at] = plus(*(part[at] for part in known))
    return [made(dtype(op, 1), found)]


def _agreed(column: Sequence[Dim]) -> Dim:
    """What all parts have: a number where one is known."""
    return next((dim for dim in column if isinstance(dim, int)), column[0] if len(set(column)) == 1 else "?")


rules(
    MS,
    {
        # Numpy's broadcasting of pairs.
        "ComplexMul ComplexMulConj": lambda op: [made(dtype(op), broadcast(shape(op), shape(op, 1)))],
        # A, A_scale, A_zero_point, B, ...
        "QLinearAdd QLinearMul": lambda op: [made(dtype(op), broadcast(shape(op), shape(op, 3)))],
        # A, A_zero_point, B, B_zero_point.
        "MulInteger": lambda op: [made("int32", broadcast(shape(op), shape(op, 2)))],
        # condition, X, x_scale, x_zero_point, Y, ...
        "QLinearWhere": lambda op: [made(dtype(op, 1), broadcast(shape(op), shape(op, 1), shape(op, 4)))],
        # x, scale, zero point, whose dtype the result has.
        "QuantizeLinear": lambda op: [like(op, kind="uint8" if given(op, 2) is None else dtype(op, 2))],
        # x, scale, whose dtype the result has.
        "DequantizeLinear": lambda op: [like(op, kind=dtype(op, 1))],
        # 8-bit integers.
        "QuantizeWithOrder": lambda op: [like(op, kind="int8")],
        # The dtype is an attribute.
        "DequantizeWithOrder": lambda op: [like(op, kind=onnx_graph.dtype_name(required(op, "to")))],
        # data, and a flag for each element.
        "BiasDropout": lambda op: [like(op), like(op, kind="bool")],
        # The result, and the sum that was normalised.
        "SkipGroupNorm": lambda op: [like(op), like(op)],
        # Keys [batch, length, branches, hidden]: the gated value for each branch, and the same normalised.
        "EngramGate": lambda op: [like(op), like(op)],
        # Decay, and beta where it is asked for.
        "LinearAttentionGate": lambda op: [like(op), like(op, 0 if given(op, 3) is None else 3)],
        # emb, q, q_rot, k, k_rot: q and k rotated.
        "GemmaRotaryEmbedding": lambda op: [like(op, 1), like(op, 3)],
        # 32 bits for each element.
        "MurmurHash3": lambda op: [like(op, kind="uint32" if integer(op, "positive", 1) else "int32")],
        # One flag.
        "IsAllFinite": lambda _op: [made("bool", ())],
        # Axes are an attribute.
        "QLinearReduceMean": lambda op: _reduced(op, dtype(op)),
    },
)


rules(
    "",
    {
        # The result in the dtype of the scale, and the inverse deviation. ONNX Runtime files it under ai.onnx.
        "SimplifiedLayerNormalization": lambda op: layer_norm(op)[:2]
    },
)
