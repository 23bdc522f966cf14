"""One representative of every op that must have a cost, with its arithmetic and traffic worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tests.fakes.core_law import keeps_the_law
from tests.fakes.counting import Array, run, tensor, totals, work
from trtprof.base.records import Attribute, Op, Tensor

MS = "com.microsoft"
NCHWC = "com.microsoft.nchwc"


class Case(NamedTuple):
    """Inputs as arrays, and what is expected: FLOP (tensor, vector, special) and bytes where not all of each tensor."""

    inputs: Sequence[Array | None]
    flops: tuple[int, int, int]
    outputs: int | Sequence[bool] = 1
    opset: int = 21
    domain: str = ""
    attributes: Mapping[str, Any] = MappingProxyType({})
    constants: Sequence[int] = ()
    read: int | None = None
    written: int | None = None
    bound: str = "exact"


def f(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape).astype(np.float32)


def i64(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def i32(*values: int) -> Array:
    return np.array(values, dtype=np.int32)


def u8(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 255, shape, dtype=np.uint8)


def s8(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-127, 127, shape, dtype=np.int8)


def flag(*values: bool) -> Array:
    return np.array(values, dtype=np.bool_)


SCALE, ZERO, ZERO_S8 = np.array(0.1, dtype=np.float32), np.array(7, dtype=np.uint8), np.array(0, dtype=np.int8)
Q = (SCALE, ZERO)
LN = 5 * 4 + 2  # vector FLOP of normalising 4 values
SOFTMAX = 4 * 4 - 2  # vector FLOP of a softmax of 4 values


def assert_case(op_type: str, case: Case) -> None:
    """What ONNX Runtime runs costs what was worked out."""
    op, results = run(op_type, case.inputs, case.outputs, case.opset, case.domain, case.constants, **case.attributes)
    found = work(op)
    assert totals(found) == case.flops
    sizes = [0 if array is None else array.nbytes for array in case.inputs]
    assert found.bytes_read == (sum(sizes) if case.read is None else case.read)
    assert found.bytes_written == (sum(array.nbytes for array in results) if case.written is None else case.written)
    assert case.read is not None or found.bytes_parameters == sum(sizes[index] for index in case.constants)
    assert found.bound == case.bound
    assert keeps_the_law(found), found.core
    assert found.note or (case.bound == "exact" and case.written != 0)


# A key is the op type, with the domain and whatever tells two cases of one op apart.
CASES: dict[str, Case] = {
    # elementwise
    **{name: Case([f(2, 3)], (0, 6, 0)) for name in ("Abs", "Ceil", "Floor", "Neg", "Reciprocal", "Round", "Sign",
        "Relu")},
    **{name: Case([f(2, 3)], (0, 6, 0)) for name in ("IsNaN", "IsInf")},
    **{name: Case([f(2, 3)], (0, 0, 6)) for name in ("Acos", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf",
        "Exp", "Log", "Sin", "Sinh", "Sqrt", "Tan", "Tanh")},
    "Acosh": Case([f(2, 3) + 1], (0, 0, 6)),
    "Not": Case([flag(True, False)], (0, 2, 0)),
    "BitwiseNot": Case([i32(1, 2, 3)], (0, 3, 0)),
    **{name: Case([f(2, 3), f(3)], (0, 6, 0)) for name in ("Add", "Sub", "Mul", "Div")},
    **{name: Case([f(2, 1), f(3)], (0, 6, 0)) for name in ("Equal", "Greater", "GreaterOrEqual", "Less",
        "LessOrEqual")},
    "Mod": Case([i32(5, 6, 7), i32(3)], (0, 3, 0)),
    "BitShift": Case([np.array([1, 2], dtype=np.uint8), np.array([1, 1], dtype=np.uint8)], (0, 2, 0),
        attributes={"direction": "LEFT"}),
    **{name: Case([i32(5, 6, 7), i32(3)], (0, 3, 0)) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    **{name: Case([flag(True, False), flag(True)], (0, 2, 0)) for name in ("And", "Or", "Xor")},
    "Pow": Case([f(2, 3), np.array(2, dtype=np.float32)], (0, 0, 6)),
    **{name: Case([f(2, 3), f(3), f(1)], (0, 12, 0)) for name in ("Sum", "Max", "Min")},
    "Mean": Case([f(2, 3), f(3), f(1)], (0, 18, 0)),
    "Clip": Case([f(2, 3), SCALE], (0, 6, 0)),
    "Clip-6": Case([f(2, 3)], (0, 12, 0), opset=6),
    "Cast": Case([f(2, 3)], (0, 6, 0), attributes={"to": 7}),
    "Cast to itself": Case([f(2, 3)], (0, 0, 0), attributes={"to": 1}),
    "CastLike": Case([f(2, 3), i64(1)], (0, 6, 0), read=24),
    "CumSum": Case([f(2, 3), i64(1)], (0, 2 * 2, 0), constants=[1]),
    "Where": Case([flag(True, False, True), f(2, 3), f(1)], (0, 0, 0)),
    # activations
    "LeakyRelu": Case([f(2, 3)], (0, 12, 0)),
    "PRelu": Case([f(2, 3), f(3)], (0, 12, 0)),
    "ThresholdedRelu": Case([f(2, 3)], (0, 6, 0)),
    "Elu": Case([f(2, 3)], (0, 18, 6)),
    "Celu": Case([f(2, 3)], (0, 36, 6)),
    "Selu": Case([f(2, 3)], (0, 24, 6)),
    "Sigmoid": Case([f(2, 3)], (0, 18, 6)),
    "HardSigmoid": Case([f(2, 3)], (0, 24, 0)),
    "HardSwish": Case([f(2, 3)], (0, 30, 0)),
    "Mish": Case([f(2, 3)], (0, 12, 18)),
    "Softplus": Case([f(2, 3)], (0, 6, 12)),
    "Softsign": Case([f(2, 3)], (0, 18, 0)),
    "Shrink": Case([f(2, 3)], (0, 18, 0)),
    "Swish": Case([f(2, 3)], (0, 30, 6), opset=24),
    "Gelu": Case([f(2, 3)], (0, 24, 6)),
    "Gelu tanh": Case([f(2, 3)], (0, 48, 6), attributes={"approximate": "tanh"}),
    f"{MS}::Gelu": Case([f(2, 3)], (0, 24, 6), domain=MS),
    f"{MS}::QuickGelu": Case([f(2, 3)], (0, 30, 6), domain=MS),
    f"{MS}::FastGelu": Case([f(2, 3), f(3)], (0, 54, 6), domain=MS),
    f"{MS}::BiasGelu": Case([f(2, 3), f(3)], (0, 30, 6), domain=MS),
    # softmax
    **{name: Case([f(2, 4)], (0, 2 * SOFTMAX, 8)) for name in ("Softmax",)},
    "LogSoftmax": Case([f(2, 4)], (0, 2 * SOFTMAX, 2 * 5)),
    "Hardmax": Case([f(2, 4)], (0, 2 * 3, 0)),
    f"{MS}::QLinearSoftmax": Case([u8(2, 4), *Q, *Q], (0, 2 * SOFTMAX + 8 * 8, 8), domain=MS, attributes={"axis": -1,
        "opset": 13}),
    # convolution
    "Conv": Case([f(1, 4, 5, 5), f(6, 2, 3, 3), f(6)], (2 * 54 * 18, 54, 0), attributes={"group": 2}),
    "ConvTranspose": Case([f(1, 4, 5, 5), f(4, 6, 3, 3), f(6)], (2 * 100 * 54, 6 * 49, 0)),
    "ConvInteger": Case([u8(1, 4, 5, 5), u8(6, 4, 3, 3)], (2 * 54 * 36, 0, 0)),
    "QLinearConv": Case([u8(1, 4, 5, 5), *Q, s8(6, 4, 3, 3), SCALE, ZERO_S8, *Q, i32(*range(6))], (2 * 54 * 36,
        54 * 7, 0)),
    "DeformConv": Case([f(1, 4, 5, 5), f(6, 4, 3, 3), f(1, 18, 3, 3), f(6), f(1, 9, 3, 3)], (2 * 54 * 36,
        4 * 81 * 8 + 54, 0)),
    "Col2Im": Case([f(1, 4, 9), i64(4, 4), i64(2, 2)], (0, 36, 0), bound="upper"),
    f"{MS}::FusedConv": Case([f(1, 4, 5, 5), f(6, 4, 3, 3), f(6), f(1, 6, 3, 3)], (2 * 54 * 36, 54 * 3, 0), domain=MS,
        attributes={"activation": "Relu"}),
    f"{MS}::FusedConv without bias": Case([f(1, 4, 5, 5), f(6, 4, 3, 3)], (2 * 54 * 36, 54 * 3, 54), domain=MS,
        attributes={"activation": "Sigmoid"}),
    f"{MS}::QLinearConv": Case([u8(1, 5, 5, 4), *Q, s8(6, 4, 3, 3), SCALE, ZERO_S8, *Q], (2 * 54 * 36, 54 * 6, 0),
        domain=MS, attributes={"channels_last": 1}),
    # matrix products
    "MatMul": Case([f(2, 3, 4), f(4, 5)], (2 * 30 * 4, 0, 0)),
    "Gemm": Case([f(3, 4), f(4, 5), f(5)], (2 * 15 * 4, 15, 0)),
    "Einsum": Case([f(2, 3, 4), f(2, 5, 4)], (2 * 30 * 4, 0, 0), attributes={"equation": "bij,bkj->bik"}),
    "MatMulInteger": Case([u8(3, 4), u8(4, 5), ZERO], (2 * 15 * 4, 0, 0)),
    "QLinearMatMul": Case([u8(3, 4), *Q, u8(4, 5), *Q, *Q], (2 * 15 * 4, 15 * 6, 0)),
    f"{MS}::FusedMatMul": Case([f(2, 4, 3), f(2, 4, 5)], (2 * 30 * 4, 30, 0), domain=MS, attributes={"transA": 1,
        "alpha": 0.5}),
    f"{MS}::TransposeMatMul": Case([f(2, 3, 4), f(2, 5, 4)], (2 * 30 * 4, 0, 0), domain=MS, attributes={"transB": 1}),
    f"{MS}::FusedGemm": Case([f(3, 4), f(4, 5), f(5)], (2 * 15 * 4, 30, 0), domain=MS, attributes={"activation":
        "Relu"}),
    f"{MS}::QGemm": Case([u8(3, 4), *Q, u8(4, 5), *Q, i32(*range(5)), *Q], (2 * 15 * 4, 15 * 7, 0), domain=MS),
    f"{MS}::QGemm to float": Case([u8(3, 4), *Q, u8(4, 5), *Q, i32(*range(5))], (2 * 15 * 4, 15 * 3, 0), domain=MS),
    f"{MS}::MatMulIntegerToFloat": Case([u8(3, 4), u8(4, 5), SCALE, SCALE, ZERO, ZERO, f(5)], (2 * 15 * 4, 15 * 3, 0),
        domain=MS),
    f"{MS}::DynamicQuantizeMatMul": Case([f(3, 4), u8(4, 5), SCALE, ZERO, f(5)], (2 * 15 * 4, 7 * 12 + 6 + 15 * 3, 0),
        domain=MS),
    f"{MS}::MatMulNBits": Case([f(3, 32), u8(8, 1, 16), f(8)], (2 * 3 * 8 * 32, 3 * 8 * 32, 0), domain=MS,
        attributes={"K": 32, "N": 8, "bits": 4, "block_size": 32}, constants=[1, 2]),
    # normalisation
    "BatchNormalization": Case([f(2, 3, 4), f(3), f(3), f(3), f(3)], (0, 2 * 24 + 4 * 3, 3)),
    "BatchNormalization in training": Case([f(2, 3, 4), f(3), f(3), f(3), f(3)], (0, 3 * (5 * 8 + 2) + 2 * 24 + 6 * 3,
        3), outputs=3, attributes={"training_mode": 1}),
    "InstanceNormalization": Case([f(2, 3, 4), f(3), f(3)], (0, 6 * LN + 48, 6)),
    "GroupNormalization": Case([f(2, 4, 2), f(4), f(4)], (0, 4 * LN + 32, 4), attributes={"num_groups": 2}),
    "LayerNormalization": Case([f(2, 3, 4), f(4), f(4)], (0, 6 * LN + 48, 6), outputs=3),
    "LayerNormalization without bias": Case([f(2, 3, 4), f(4)], (0, 6 * LN + 24, 6)),
    "RMSNormalization": Case([f(2, 3, 4), f(4)], (0, 6 * (3 * 4 + 2) + 24, 6), opset=23),
    "SimplifiedLayerNormalization": Case([f(2, 3, 4), f(4)], (0, 6 * 14 + 24, 6), opset=17),
    "MeanVarianceNormalization": Case([f(2, 3, 2, 2)], (0, 3 * (5 * 8 + 2), 3)),
    "LpNormalization": Case([f(2, 4)], (0, 2 * (3 * 4 - 1), 2)),
    "LRN": Case([f(1, 5, 2, 2)], (0, 20 * 6, 20), attributes={"size": 3}),
    f"{MS}::SkipLayerNormalization": Case([f(1, 3, 4), f(1, 3, 4), f(4), f(4)], (0, 3 * LN + 12 * 3, 3), domain=MS),
    f"{MS}::SkipSimplifiedLayerNormalization": Case([f(1, 3, 4), f(1, 3, 4), f(4), f(4)], (0, 3 * 14 + 12 * 3, 3),
        [True, False, False, True], domain=MS),
    f"{MS}::EmbedLayerNormalization": Case([i32(1, 2).reshape(1, 2), i32(0, 1).reshape(1, 2), f(9, 4), f(8, 4), f(2,
        4), f(4), f(4)], (0, 2 * LN + 8 * 4, 2), 2, domain=MS, read=2 * 8 + 3 * 8 * 4 + 2 * 16, bound="upper"),
    # pooling
    "MaxPool": Case([f(1, 2, 6, 6)], (0, 18 * 4, 0), 2, attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    "AveragePool": Case([f(1, 2, 6, 6)], (0, 18 * 4, 0), attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    "LpPool": Case([f(1, 2, 6, 6)], (0, 18 * 7, 18), attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    **{name: Case([f(1, 2, 6, 6)], (0, 72, 0)) for name in ("GlobalMaxPool", "GlobalAveragePool")},
    "GlobalLpPool": Case([f(1, 2, 6, 6)], (0, 2 * 71, 2)),
    "MaxUnpool": Case([f(1, 1, 2, 2), i64(0, 2, 8, 10).reshape(1, 1, 2, 2)], (0, 0, 0), attributes={"kernel_shape":
        [2, 2], "strides": [2, 2]}),
    "MaxRoiPool": Case([f(1, 2, 6, 6), f(3, 5) * 0], (0, 3 * 2 * 10 * 10, 0), attributes={"pooled_shape": [2, 2]},
        bound="upper"),
    "RoiAlign": Case([f(1, 2, 6, 6), f(3, 4), i64(0, 0, 0)], (0, 8 * 24 * 4, 0), attributes={"output_height": 2,
        "output_width": 2, "sampling_ratio": 2}, bound="upper"),
    f"{MS}::NhwcMaxPool": Case([u8(1, 6, 6, 2)], (0, 18 * 4, 0), domain=MS, attributes={"kernel_shape": [2, 2],
        "strides": [2, 2]}),
    f"{MS}::QLinearAveragePool": Case([u8(1, 2, 6, 6), *Q, *Q], (0, 18 * (4 + 6), 0), domain=MS,
        attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    f"{MS}::QLinearGlobalAveragePool": Case([u8(1, 2, 6, 6), *Q, *Q], (0, 72 + 2 * 6, 0), domain=MS),
    # reductions
    **{name: Case([f(2, 3, 4), i64(1)], (0, 16, 0)) for name in ("ReduceSum", "ReduceMax", "ReduceMin",
        "ReduceProd")},
    "ReduceMean": Case([f(2, 3, 4), i64(1)], (0, 24, 0)),
    "ReduceMean-13": Case([f(2, 3, 4)], (0, 24, 0), opset=13, attributes={"axes": [1]}),
    **{name: Case([f(2, 3, 4), i64(1)], (0, 40, 0)) for name in ("ReduceL1", "ReduceSumSquare")},
    "ReduceL2": Case([f(2, 3, 4), i64(1)], (0, 40, 8)),
    "ReduceLogSum": Case([f(2, 3, 4), i64(1)], (0, 16, 8)),
    "ReduceLogSumExp": Case([f(2, 3, 4), i64(1)], (0, 64, 32)),
    "ReduceSum of nothing": Case([f(2, 3, 4)], (0, 0, 0), attributes={"noop_with_empty_axes": 1}),
    **{name: Case([f(2, 3, 4)], (0, 16, 0), attributes={"axis": 1}) for name in ("ArgMax", "ArgMin")},
    # recurrent
    "RNN": Case([f(5, 2, 3), f(1, 4, 3), f(1, 4, 4), f(1, 8)], (2 * 10 * 4 * 7, 10 * 4 * 2, 10 * 4), 2,
        attributes={"hidden_size": 4}),
    "GRU": Case([f(5, 2, 3), f(1, 12, 3), f(1, 12, 4), f(1, 24)], (2 * 10 * 12 * 7,
        10 * 4 * (2 * 3 + 5) + 10 * 12 * 2, 10 * 4 * 3), 2, attributes={"hidden_size": 4}),
    "LSTM": Case([f(5, 2, 3), f(1, 16, 3), f(1, 16, 4), f(1, 32)], (2 * 10 * 16 * 7,
        10 * 4 * (3 * 3 + 4) + 10 * 16 * 2, 10 * 4 * 5), 3, attributes={"hidden_size": 4}),
    f"{MS}::DynamicQuantizeLSTM": Case([f(5, 2, 3), u8(1, 3, 16), u8(1, 4, 16), f(1, 32), None, None, None, None,
        f(1), u8(1), f(1), u8(1)], (2 * 10 * 16 * 7,
        10 * 4 * 13 + 10 * 16 * 2 + 10 * (7 * 3 + 6 + 7 * 4 + 6) + 10 * 16 * 4, 10 * 4 * 5), 3, domain=MS,
        attributes={"hidden_size": 4}, constants=[1, 2, 8, 9, 10, 11]),
    "LSTM with peepholes and a clip": Case([f(5, 2, 3), f(1, 16, 3), f(1, 16, 4), None, None, None, None, f(1, 12)],
        (2 * 10 * 16 * 7, 10 * 4 * (3 * 3 + 4 + 6 + 2 * 5), 10 * 4 * 5), 3, attributes={"hidden_size": 4, "clip":
        3.0}),
    "LSTM with a coupled gate": Case([f(5, 2, 3), f(1, 16, 3), f(1, 16, 4)], (2 * 10 * 16 * 7,
        10 * 4 * (2 * 3 + 1 + 4), 10 * 4 * 4), 3, attributes={"hidden_size": 4, "input_forget": 1}),
    # attention: batch 1, 2 heads, 3 queries, 4 keys, depth 8
    "Attention": Case([f(1, 2, 3, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)], (2 * 24 * 16, 24 + 6 * SOFTMAX, 24), opset=23),
    "Attention of rank 3": Case([f(1, 3, 16), f(1, 4, 16), f(1, 4, 16), f(3, 4)], (2 * 24 * 16, 48 + 6 * SOFTMAX, 24),
        opset=23, attributes={"q_num_heads": 2, "kv_num_heads": 2}),
    "Attention causal": Case(
        [f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)],
        # Of 2 heads the 10 scores on and under the diagonal; a row of n takes 4 n - 2.
        (2 * 20 * 16, 20 + 4 * 20 - 2 * 8, 20),
        opset=23,
        attributes={"is_causal": 1},
    ),
    f"{MS}::Attention": Case([f(1, 4, 10), f(10, 48), f(48)], (2 * 4 * 48 * 10 + 2 * 32 * 16,
        4 * 48 + 32 + 8 * SOFTMAX, 32), domain=MS, attributes={"num_heads": 2}),
    f"{MS}::MultiHeadAttention": Case([f(1, 3, 16), f(1, 4, 16), f(1, 4, 16), f(48)], (2 * 24 * 16,
        24 + 6 * SOFTMAX + 3 * 16 + 2 * 4 * 16, 24), domain=MS, attributes={"num_heads": 2}),
    # 3 new keys after a past of 1, with a mask
    "Attention with a past": Case([f(1, 2, 3, 8), f(1, 2, 3, 8), f(1, 2, 3, 8), f(3, 4), f(1, 2, 1, 8), f(1, 2, 1,
        8)], (2 * 24 * 16, 2 * 24 + 6 * SOFTMAX, 24), 3, opset=23),
    "Attention with a soft cap": Case([f(1, 2, 3, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)], (2 * 24 * 16,
        3 * 24 + 6 * SOFTMAX, 48), opset=23, attributes={"softcap": 2.0}),
    f"{MS}::Attention with a past": Case([f(1, 3, 10), f(10, 48), f(48), None, f(2, 1, 2, 1, 8)],
        (2 * 3 * 48 * 10 + 2 * 24 * 16, 3 * 48 + 24 + 6 * SOFTMAX, 24), 2, domain=MS, attributes={"num_heads": 2}),
    f"{MS}::MultiHeadAttention with a past": Case([f(1, 3, 16), f(1, 3, 16), f(1, 3, 16), None, None, f(1, 2, 3, 4),
        f(1, 2, 1, 8), f(1, 2, 1, 8)], (2 * 24 * 16, 2 * 24 + 6 * SOFTMAX, 24), 3, domain=MS, attributes={"num_heads":
        2}),
    f"{MS}::MultiHeadAttention with keys of rank 4": Case([f(1, 3, 16), f(1, 2, 4, 8), f(1, 2, 4, 8)], (2 * 24 * 16,
        24 + 6 * SOFTMAX, 24), domain=MS, attributes={"num_heads": 2}),
    f"{MS}::GroupQueryAttention packed and rotary": Case([f(1, 4, 128), None, None, f(1, 2, 0, 16), f(1, 2, 0, 16),
        i32(3), np.array(4, dtype=np.int32), f(9, 8), f(9, 8)], (2 * 40 * 32, 40 + 4 * 40 - 2 * 16 + 3 * 4 * 6 * 16,
        40), 3, domain=MS, read=2048 + 8 + 2 * 4 * 32, bound="upper", attributes={"num_heads": 4, "kv_num_heads": 2,
        "do_rotary": 1}),
    f"{MS}::GroupQueryAttention": Case([f(1, 4, 32), f(1, 4, 16), f(1, 4, 16), f(1, 2, 0, 8), f(1, 2, 0, 8), i32(3),
        np.array(4, dtype=np.int32)], (2 * 40 * 16, 40 + 4 * 40 - 2 * 16, 40), 3, domain=MS, attributes={"num_heads":
        4, "kv_num_heads": 2}, bound="upper"),
    f"{MS}::QAttention": Case([u8(1, 4, 10), s8(10, 48), f(48), f(1), f(1), None, u8(1), s8(1)],
        (2 * 4 * 48 * 10 + 2 * 32 * 16, 3 * 4 * 48 + 32 + 8 * SOFTMAX, 32), domain=MS, attributes={"num_heads": 2}),
    "RotaryEmbedding": Case([f(1, 2, 3, 8), f(16, 4), f(16, 4), i64(0, 1, 2).reshape(1, 3)], (0, 3 * 48, 0), opset=23,
        read=192 + 2 * 3 * 16 + 24, bound="upper"),
    # data movement
    "Concat": Case([f(2, 3), f(2, 1)], (0, 0, 0), attributes={"axis": 1}),
    "Split": Case([f(2, 4), i64(1, 3)], (0, 0, 0), 2, attributes={"axis": 1}),
    "Transpose": Case([f(2, 3)], (0, 0, 0)),
    "DepthToSpace": Case([f(1, 4, 2, 2)], (0, 0, 0), attributes={"blocksize": 2}),
    "SpaceToDepth": Case([f(1, 1, 4, 4)], (0, 0, 0), attributes={"blocksize": 2}),
    "Expand": Case([f(1, 3), i64(2, 3)], (0, 0, 0)),
    "Tile": Case([f(2, 3), i64(2, 2)], (0, 0, 0)),
    "ReverseSequence": Case([f(3, 2), i64(1, 2)], (0, 0, 0)),
    "Slice": Case([f(10, 3), i64(2), i64(8), i64(0), i64(2)], (0, 0, 0), read=3 * 12 + 4 * 8),
    "Slice-9": Case([f(10, 3)], (0, 0, 0), opset=9, attributes={"starts": [2], "ends": [8], "axes": [0]},
        read=6 * 12),
    "CenterCropPad": Case([f(4, 4), i64(2, 2)], (0, 0, 0), read=16 + 16),
    "Gather": Case([f(10, 3), i64(1, 2, 1)], (0, 0, 0), read=3 * 12 + 24, bound="upper"),
    "Gather of constant indices": Case([f(10, 3), i64(1, -9, 4)], (0, 0, 0), constants=[1], read=2 * 12 + 24),
    "Gather of one index": Case([f(10, 3), i64(4)], (0, 0, 0), read=12 + 8),
    "Gather on another axis": Case([f(10, 3), i64(0)], (0, 0, 0), attributes={"axis": 1}, read=40 + 8),
    "GatherElements": Case([f(10, 3), i64(1, 2, 1).reshape(1, 3)], (0, 0, 0), read=12 + 24, bound="upper"),
    "GatherND": Case([f(10, 3), i64(1, 2).reshape(2, 1)], (0, 0, 0), read=24 + 16, bound="upper"),
    "ScatterElements": Case([f(5), i64(1, 2), f(2)], (0, 2, 0), attributes={"reduction": "add"}),
    "ScatterND": Case([f(5, 2), i64(1).reshape(1, 1), f(1, 2)], (0, 0, 0)),
    "Pad": Case([f(4, 4), i64(1, 0, 0, 2)], (0, 0, 0), constants=[1]),
    "Pad that crops": Case([f(4, 4), i64(-1, 0, 0, 2)], (0, 0, 0), constants=[1], read=48 + 32),
    "Pad of one axis": Case([f(4, 4), i64(0, -2), None, i64(1)], (0, 0, 0), constants=[1, 3], read=32 + 16 + 8),
    "Pad-2": Case([f(4, 4)], (0, 0, 0), opset=10, attributes={"pads": [1, 0, 0, -2]}, read=32),
    "Trilu": Case([f(2, 3, 4)], (0, 0, 0), read=2 * (4 + 3 + 2) * 4),
    "Trilu lower": Case([f(2, 3, 4), np.array(1, dtype=np.int64)], (0, 0, 0), constants=[1], attributes={"upper": 0},
        read=2 * (2 + 3 + 4) * 4 + 8),
    f"{MS}::QLinearConcat": Case([*Q, u8(2, 3), *Q, u8(2, 1), *Q], (0, 8 * 8, 0), domain=MS, attributes={"axis": 1},
        constants=[0, 1, 3, 4, 6, 7]),
    f"{MS}::QLinearWhere": Case([flag(True, False, True), u8(3), *Q, u8(3), *Q, *Q], (0, 3 * 5 + 2 * 9, 0), domain=MS,
        constants=[2, 3, 5, 6, 7, 8]),
    # resampling
    "Resize": Case([f(1, 2, 3, 3), None, np.array([1, 1, 2, 2], dtype=np.float32)], (0, 0, 0)),
    "Resize linear": Case([f(1, 2, 3, 3), None, None, i64(1, 2, 6, 3)], (0, 3 * 36, 0), attributes={"mode":
        "linear"}),
    "Resize bilinear": Case([f(1, 2, 3, 3), None, None, i64(1, 2, 6, 6)], (0, 7 * 72, 0), attributes={"mode":
        "linear"}),
    "Resize cubic": Case([f(1, 2, 4, 4), None, None, i64(1, 2, 8, 8)], (0, 31 * 128, 0), attributes={"mode":
        "cubic"}),
    "Resize smaller": Case([f(1, 1, 8, 8), None, None, i64(1, 1, 2, 2)], (0, 0, 0), read=4 * 4 + 32),
    "Resize linear smaller": Case([f(1, 1, 8, 8), None, None, i64(1, 1, 2, 2)], (0, 7 * 4, 0), attributes={"mode":
        "linear"}, read=4 * 4 * 4 + 32, bound="upper"),
    "Upsample": Case([f(1, 2, 3, 3), np.array([1, 1, 2, 2], dtype=np.float32)], (0, 0, 0), opset=9),
    "GridSample": Case([f(1, 2, 4, 4), f(1, 3, 3, 2)], (0, 2 * 18 + 7 * 18, 0), bound="upper"),
    "AffineGrid": Case([f(1, 2, 3), i64(1, 1, 4, 4)], (2 * 32 * 3, 0, 0), opset=20),
    # views
    "Reshape": Case([f(2, 3), i64(6)], (0, 0, 0), read=0, written=0),
    "Flatten": Case([f(2, 3)], (0, 0, 0), read=0, written=0),
    "Squeeze": Case([f(1, 3), i64(0)], (0, 0, 0), read=0, written=0),
    "Squeeze-11": Case([f(1, 3)], (0, 0, 0), opset=11, attributes={"axes": [0]}, read=0, written=0),
    "Unsqueeze": Case([f(3), i64(0)], (0, 0, 0), read=0, written=0),
    "Identity": Case([f(3)], (0, 0, 0), read=0, written=0),
    "Dropout": Case([f(3)], (0, 0, 0), read=0, written=0),
    # values without data
    "ConstantOfShape": Case([i64(2, 3)], (0, 0, 0)),
    "Shape": Case([f(2, 3)], (0, 0, 0), read=0),
    "Size": Case([f(2, 3)], (0, 0, 0), read=0),
    "Range": Case([np.array(0, dtype=np.int64), np.array(5, dtype=np.int64), np.array(1, dtype=np.int64)], (0, 10,
        0)),
    "EyeLike": Case([f(3, 3)], (0, 0, 0), read=0),
    "OneHot": Case([i64(1, 2), np.array(4, dtype=np.int64), f(2)], (0, 0, 0)),
    "HannWindow": Case([np.array(8, dtype=np.int64)], (0, 32, 8)),
    "BlackmanWindow": Case([np.array(8, dtype=np.int64)], (0, 64, 16)),
    "RandomNormalLike": Case([f(3, 3)], (0, 0, 0), read=0, bound="lower"),
    "Bernoulli": Case([f(3, 3)], (0, 9, 0), bound="lower"),
    # quantisation
    "QuantizeLinear": Case([f(2, 3), *Q], (0, 30, 0)),
    "QuantizeLinear without zero point": Case([f(2, 3), SCALE], (0, 24, 0)),
    "DequantizeLinear": Case([u8(2, 3), *Q], (0, 18, 0)),
    "DynamicQuantizeLinear": Case([f(2, 3)], (0, 7 * 6 + 6, 0), 3),
    f"{MS}::QuantizeLinear": Case([f(2, 3), *Q], (0, 30, 0), domain=MS),
    f"{MS}::DequantizeLinear": Case([u8(2, 3), *Q], (0, 18, 0), domain=MS),
    **{f"{MS}::{name}": Case([u8(2, 3), *Q, u8(3), *Q, *Q], (0, 6 * (3 + 1 + 5) + 3 * 3, 0),
        domain=MS) for name in ("QLinearAdd", "QLinearMul")},
    f"{MS}::QLinearSigmoid": Case([u8(2, 3), *Q, *Q], (0, 6 * (3 + 3 + 5), 6), domain=MS),
    f"{MS}::QLinearLeakyRelu": Case([u8(2, 3), *Q, *Q], (0, 6 * (3 + 2 + 5), 0), domain=MS, attributes={"alpha":
        0.1}),
    # decided by data
    "TopK": Case([f(2, 8), i64(4)], (0, 2 * (8 * 5 + 4 * 2), 0), 2, bound="upper"),
    "NonZero": Case([f(2, 3)], (0, 6, 0)),
    "Unique": Case([f(8)], (0, 8 * 3, 0), 4, bound="upper"),
    "Compress": Case([f(4, 3), flag(True, False, True, False)], (0, 0, 0), attributes={"axis": 0}, read=24 + 4),
    "NonMaxSuppression": Case([f(1, 4, 4), f(1, 2, 4), i64(2)], (0, 2 * (4 + 4 * 2 + 19 * 4 * 2), 0), constants=[2],
        bound="upper"),
    # transforms
    "DFT": Case([f(1, 8, 1)], (0, 5 * 8 * 3 // 2, 0), opset=17, attributes={"axis": 1}),
    "DFT-20": Case([f(1, 8, 2)], (0, 5 * 8 * 3, 0), opset=20),
    "STFT": Case([f(1, 16, 1), np.array(4, dtype=np.int64), f(8)], (0, 3 * (60 + 8), 0)),
    "Det": Case([f(2, 3, 3)], (0, 2 * (3 + 10 + 2), 0)),
    # the rest
    "CumProd": Case([f(2, 3), np.array(1, dtype=np.int64)], (0, 4, 0), opset=26, constants=[1]),
    "TensorScatter": Case([f(2, 5, 3), f(2, 1, 3), i64(1, 2)], (0, 0, 0), opset=24),
    "Scatter": Case([f(1, 5), i64(1, 2).reshape(1, 2), f(1, 2)], (0, 0, 0), opset=10, attributes={"axis": 1}),
    "HammingWindow": Case([np.array(8, dtype=np.int64)], (0, 32, 8)),
    "RandomUniformLike": Case([f(3, 3)], (0, 0, 0), read=0, bound="lower"),
    "RandomNormal": Case([], (0, 0, 0), attributes={"shape": [3, 3]}, bound="lower"),
    "RandomUniform": Case([], (0, 0, 0), attributes={"shape": [3, 3]}, bound="lower"),
    "Multinomial": Case([f(2, 4)], (0, 2 * (4 + 3 * 2), 8), attributes={"sample_size": 3}, bound="lower"),
    f"{MS}::Pad": Case([f(4, 4), i64(1, 0, 0, 2)], (0, 0, 0), domain=MS, constants=[1]),
    f"{MS}::Range": Case([np.array(value, dtype=np.int64) for value in (0, 5, 1)], (0, 10, 0), domain=MS),
    f"{MS}::Trilu": Case([f(2, 3, 4)], (0, 0, 0), domain=MS, read=2 * (4 + 3 + 2) * 4),
    f"{MS}::Unique": Case([f(8)], (0, 24, 0), 3, domain=MS, bound="upper"),
    f"{MS}::ExpandDims": Case([f(2, 3), np.array(1, dtype=np.int32)], (0, 0, 0), domain=MS, read=0, written=0),
    f"{MS}::GridSample": Case([f(1, 2, 4, 4), f(1, 3, 3, 2)], (0, 2 * 18 + 7 * 18, 0), domain=MS, bound="upper"),
    f"{MS}::RotaryEmbedding": Case([f(1, 2, 3, 8), i64(0, 1, 2).reshape(1, 3), f(16, 4), f(16, 4)], (0, 3 * 48, 0),
        domain=MS, read=192 + 2 * 3 * 16 + 24, bound="upper"),
    f"{MS}::ConvTransposeWithDynamicPads": Case([f(1, 4, 5, 5), f(4, 6, 3, 3), i64(0, 0, 0, 0), f(6)], (2 * 100 * 54,
        6 * 49, 0), domain=MS),
    f"{MS}::MatMulBnb4": Case([f(3, 32), u8(128), f(8)], (2 * 3 * 8 * 32, 2 * 8 * 32, 0), domain=MS, attributes={"K":
        32, "N": 8, "block_size": 32, "quant_type": 1}, constants=[1, 2]),
    f"{MS}::Inverse": Case([f(3, 3)], (0, 54, 0), domain=MS),
}  # fmt: skip


def x(*dims: int | str, dtype: str = "fp32", name: str = "x") -> Tensor:
    return tensor(name, dtype, *dims)


def record(
    op_type: str,
    *inputs: Tensor | None,
    out: Sequence[Tensor | None],
    domain: str = "",
    opset: int = 21,
    **attributes: Attribute,
) -> Op:
    return Op(op_type=op_type, domain=domain, opset=opset, attributes=attributes, inputs=inputs, outputs=tuple(out))


def names(*shapes: tuple[int, ...], dtype: str = "fp32") -> list[Tensor]:
    return [tensor(f"i{index}", dtype, *dims) for index, dims in enumerate(shapes)]


RECORDS: dict[str, tuple[Op, tuple[int, int, int]]] = {
    "BiasSoftmax": (record("BiasSoftmax", *names((2, 3, 4), (1, 3, 4)), out=[x(2, 3, 4)], domain=MS, axis=2), (0,
        24 + 6 * SOFTMAX, 24)),
    "BiasAdd": (record("BiasAdd", *names((2, 3, 4), (4,), (2, 3, 4)), out=[x(2, 3, 4)], domain=MS), (0, 48, 0)),
    # Swish: multiply by alpha, negate, add, divide, multiply by x, and exp; then times the value.
    "SwiGLU": (record("SwiGLU", *names((2, 3), (2, 3)), out=[x(2, 3)], opset=28), (0, 6 * 6, 6)),
    "BiasSplitGelu": (record("BiasSplitGelu", *names((2, 3, 8), (8,)), out=[x(2, 3, 4)], domain=MS), (0, 48 + 24 * 5,
        24)),
    "GroupNorm": (record("GroupNorm", *names((1, 2, 2, 4), (4,), (4,)), out=[x(1, 2, 2, 4)], domain=MS, groups=2,
        activation=1), (0, 2 * (5 * 8 + 2) + 32 + 16 * 4, 2 + 16)),
    "NhwcConv": (record("NhwcConv", *names((1, 5, 5, 4), (6, 3, 3, 4)), out=[x(1, 3, 3, 6)], domain=MS), (2 * 54 * 36,
        0, 0)),
    "NhwcFusedConv": (record("NhwcFusedConv", *names((1, 5, 5, 4), (6, 4, 3, 3), (6,)), out=[x(1, 3, 3, 6)],
        domain=MS, activation="LeakyRelu"), (2 * 54 * 36, 54 * 3, 0)),
    "nchwc Conv": (record("Conv", *names((1, 8, 5, 5), (16, 8, 3, 3), (16,)), out=[x(1, 16, 3, 3)], domain=NCHWC,
        activation="Relu"), (2 * 144 * 72, 288, 0)),
    "nchwc MaxPool": (record("MaxPool", x(1, 8, 6, 6), out=[x(1, 8, 3, 3, name="y")], domain=NCHWC, kernel_shape=(2,
        2), strides=(2, 2)), (0, 72 * 4, 0)),
    "nchwc AveragePool": (record("AveragePool", x(1, 8, 6, 6), out=[x(1, 8, 3, 3, name="y")], domain=NCHWC,
        kernel_shape=(2, 2), strides=(2, 2)), (0, 72 * 4, 0)),
    "nchwc GlobalAveragePool": (record("GlobalAveragePool", x(1, 8, 6, 6), out=[x(1, 8, 1, 1, name="y")],
        domain=NCHWC), (0, 288, 0)),
    "nchwc GlobalMaxPool": (record("GlobalMaxPool", x(1, 8, 6, 6), out=[x(1, 8, 1, 1, name="y")], domain=NCHWC), (0,
        288, 0)),
    "nchwc ReorderInput": (record("ReorderInput", x(1, 3, 6, 6), out=[x(1, 8, 6, 6, name="y")], domain=NCHWC), (0, 0,
        0)),
    "nchwc ReorderOutput": (record("ReorderOutput", x(1, 8, 6, 6), out=[x(1, 3, 6, 6, name="y")], domain=NCHWC,
        channels=3), (0, 0, 0)),
    "nchwc Upsample": (record("Upsample", x(1, 8, 3, 3), out=[x(1, 8, 6, 6, name="y")], domain=NCHWC, scales=(1, 1, 2,
        2)), (0, 0, 0)),
    "nchwc Upsample linear": (record("Upsample", x(1, 8, 3, 3), out=[x(1, 8, 6, 6, name="y")], domain=NCHWC,
        scales=(1, 1, 2, 2), mode="linear"), (0, 7 * 288, 0)),
    "SkipGroupNorm": (record("SkipGroupNorm", *names((1, 2, 2, 4), (4,), (4,), (1, 2, 2, 4), (4,)), out=[x(1, 2, 2,
        4), x(1, 2, 2, 4, name="s")], domain=MS, groups=2), (0, 2 * (5 * 8 + 2) + 32 + 32, 2)),
    "MultiHeadAttention packed": (record("MultiHeadAttention", x(1, 4, 2, 3, 8), out=[x(1, 4, 16, name="y")],
        domain=MS, num_heads=2), (2 * 32 * 16, 32 + 8 * SOFTMAX, 32)),
    "FusedMatMulActivation": (record("FusedMatMulActivation", *names((3, 4), (4, 5)), out=[x(3, 5)], domain=MS,
        activation="Tanh"), (2 * 60, 0, 15)),
    "GemmFastGelu": (record("GemmFastGelu", *names((3, 4), (4, 5), (5,)), out=[x(3, 5)], domain=MS), (2 * 60, 15 * 9,
        15)),
    "GemmFloat8": (record("GemmFloat8", *names((3, 4), (5, 4), (3, 5)), out=[x(3, 5)], domain=MS, transB=1, beta=1.0,
        activation="RELU"), (2 * 60, 30, 0)),
    "QLinearReduceMean": (record("QLinearReduceMean", x(2, 4, dtype="uint8"), *names((), (1,)), *names((), (1,)),
        out=[x(2, dtype="uint8", name="y")], domain=MS), (0, 8 + 3 * 8 + 5 * 2, 0)),
    "GatherND": (record("GatherND", x(2, 4), tensor("i", "int64", 2, 1), out=[x(2, 4, name="y")], domain=MS), (0, 0,
        0)),
    "MemcpyToHost": (record("MemcpyToHost", x(2, 4), out=[x(2, 4, name="y")]), (0, 0, 0)),
    "MemcpyFromHost": (record("MemcpyFromHost", x(2, 4), out=[x(2, 4, name="y")]), (0, 0, 0)),
    "Dropout in training": (record("Dropout", x(4), tensor("ratio", "fp32"), tensor("mode", "bool", constant=True,
        value=(1,)), out=[x(4, name="y"), x(4, dtype="bool", name="m")]), (0, 4, 0)),
}  # fmt: skip


def covered() -> set[tuple[str, str]]:
    """What the tables above hold, as (domain, op type)."""
    found = {(case.domain, key.rpartition("::")[2].split(" ")[0].split("-")[0]) for key, case in CASES.items()}
    return (
        found
        | {(op.domain, op.op_type) for op, _ in RECORDS.values()}
        | {("", name) for name in ("BitCast", "If", "Loop", "Scan", "Constant")}
    )
