"""What kind of op an ONNX op type is: the one table that everybody asks.

A name means the same in every domain that has it (ai.onnx, com.microsoft and ONNX Runtime's internal ones), so that
the domain is no part of the key. An op type that is not in the table has no kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

OpKind = Literal[
    "convolution", "matmul", "recurrent", "attention", "softmax", "normalisation", "batch norm", "reduction", "ranking",
    "scan", "pool", "pointwise", "cast", "quantise", "view", "dropout", "move", "fill", "random", "shape", "control",
]  # fmt: skip

_TYPES: Mapping[OpKind, str] = {
    "convolution": """Conv ConvTranspose ConvInteger DeformConv QLinearConv QLinearConvTranspose FusedConv NhwcConv
        NhwcFusedConv ConvTransposeWithDynamicPads CausalConvWithState VarlenCausalConvWithState""",
    "matmul": """MatMul Gemm Einsum MatMulInteger QLinearMatMul FusedMatMul FusedMatMulActivation TransposeMatMul
        FusedGemm GemmFastGelu GemmFloat8 QGemm MatMulInteger16 MatMulIntegerToFloat DynamicQuantizeMatMul
        SparseToDenseMatMul QOrderedMatMul MatMulNBits MatMulNBitsMlp MatMulNBitsQkv MatMulBnb4 MatMulFpQ4
        MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight""",
    "recurrent": "LSTM GRU RNN AttnLSTM DynamicQuantizeLSTM",
    "attention": """Attention FlexAttention MultiHeadAttention GroupQueryAttention PackedAttention
        PackedMultiHeadAttention PagedAttention QAttention QOrderedAttention DecoderAttention
        DecoderMaskedSelfAttention DecoderMaskedMultiHeadAttention LongformerAttention QOrderedLongformerAttention
        SparseAttention SparsePagedAttention DynamicSparseAttention""",
    "softmax": "Softmax LogSoftmax BiasSoftmax",
    "normalisation": """LayerNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization
        SkipSimplifiedLayerNormalization InstanceNormalization GroupNormalization GroupNorm SkipGroupNorm
        LpNormalization MeanVarianceNormalization LRN""",
    "batch norm": "BatchNormalization",
    "reduction": """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum
        ReduceLogSumExp ReduceSumSquare""",
    "ranking": "ArgMax ArgMin TopK",
    "scan": "CumSum CumProd",
    "pool": "MaxPool AveragePool GlobalMaxPool GlobalAveragePool LpPool GlobalLpPool NhwcMaxPool",
    "pointwise": """Add Sub Mul Div Pow Mod Min Max Sum Mean And Or Xor Not Equal Greater GreaterOrEqual Less
        LessOrEqual Where Abs Neg Sign Ceil Floor Round Sqrt Reciprocal Exp Log Erf Sin Cos Tan Asin Acos Atan Sinh
        Cosh Tanh Asinh Acosh Atanh IsNaN IsInf BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Relu LeakyRelu
        PRelu ThresholdedRelu Elu Selu Celu Gelu FastGelu QuickGelu BiasGelu Mish Sigmoid HardSigmoid HardSwish Swish
        Softplus Softsign Clip Shrink BiasAdd""",
    "cast": "Cast CastLike",
    "quantise": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    "view": "Reshape Flatten Squeeze Unsqueeze Identity BitCast ExpandDims",
    "dropout": "Dropout",
    "move": """Transpose Concat Split Slice Gather GatherElements GatherND ScatterElements ScatterND Expand Tile Pad
        DepthToSpace SpaceToDepth""",
    "fill": "Constant ConstantOfShape",
    "random": "RandomNormal RandomUniform RandomNormalLike RandomUniformLike Multinomial Bernoulli",
    "shape": "Shape Size",
    "control": "If Loop Scan SequenceMap",
}

_KINDS: Mapping[str, OpKind] = {name: kind for kind in get_args(OpKind) for name in _TYPES[kind].split()}


def op_kind(op_type: str) -> OpKind | Literal[""]:
    """The kind of an op type; ``""`` of one that has none."""
    return _KINDS.get(op_type, "")


def op_types(*kinds: OpKind) -> frozenset[str]:
    """All op types of some kinds."""
    return frozenset(name for kind in kinds for name in _TYPES[kind].split())


CONVOLUTIONS = op_types("convolution")
PRODUCTS = op_types("convolution", "matmul")
"""Ops that are one product of two operands, whatever else they do to its result."""
MULTIPLYING = op_types("convolution", "matmul", "recurrent", "attention")
"""Ops whose work is multiply-accumulates, of one product or of several."""
POINTWISE = op_types("pointwise")
VIEWS = op_types("view", "dropout")
"""Ops whose result has, in an inference, the bytes of what they read, in the same order."""
MOVERS = op_types("view", "dropout", "move", "cast", "fill")
"""Ops that compute nothing."""
RANDOM = op_types("random")
SHAPES = op_types("shape")
CONTROL = op_types("control")

OPERANDS: Mapping[str, tuple[int, int]] = {
    name: places
    for places, names in {
        (0, 1): """MatMul Gemm Conv ConvTranspose Einsum ConvInteger MatMulInteger MatMulIntegerToFloat FusedConv
            FusedGemm FusedMatMul FusedMatMulActivation TransposeMatMul NhwcConv NhwcFusedConv GemmFastGelu GemmFloat8
            QAttention Attention ConvTransposeWithDynamicPads CausalConvWithState VarlenCausalConvWithState
            MatMulInteger16 SparseToDenseMatMul DecoderMaskedSelfAttention PackedAttention LongformerAttention""",
        (0, 2): "QOrderedMatMul MoE DecoderAttention QOrderedLongformerAttention",
        (0, 3): "QLinearConv QLinearMatMul QLinearConvTranspose QGemm QLinearAdd QLinearMul",
        (0, 5): "QOrderedAttention",
        (1, 1): "DynamicQuantizeMatMul DynamicQuantizeLSTM",
    }.items()
    for name in names.split()
}
"""Positions of the two operands that are multiplied; they decide what an op computes with, whatever else it reads."""

SHAPE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Resize": (2, 3), "Upsample": (1,), "Range": (0, 1, 2), "TopK": (1,), "Loop": (0,), "Unsqueeze": (1,),
    "Squeeze": (1,), "Split": (1,), "CumSum": (1,), "OneHot": (1,), "CenterCropPad": (1,),
}  # fmt: skip
"""Inputs of ops that decide the shape of their output."""


VENDORS_DOMAINS = frozenset((
    "", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft",
    "com.microsoft.nchwc", "com.microsoft.experimental", "com.ms.internal.nhwc", "com.microsoft.dml",
    "org.pytorch.aten", "org.pytorch._caffe2", "pkg.onnxscript.torch_lib", "pkg.onnxscript.torch_lib.common",
    "trt.plugins",
))  # fmt: skip
"""Domains of operators that vendors gave a name to: ops of any other are of a user's own making."""
