"""The ops of ONNX Runtime's own domains, with arithmetic and traffic worked out by hand.

As in `test_ops`: what the CPU can run is run, so that shapes and the order of inputs are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from onnxruntime.capi import _pybind_state

from tests.fakes.counting import Array, ms_schemas, tensor, totals, work
from tests.fakes.op_cases import SCALE, SOFTMAX, ZERO, Case, assert_case, f, i32, i64, s8, u8
from tests.fakes.op_cases import covered as covered_there
from trtprof.base.op_kinds import OPERANDS
from trtprof.base.records import Attribute, Op, Tensor
from trtprof.cost import COSTS, CostError, MalformedOpError, NoWidthError, UnknownShapeError, work_of

MS, NHWC = "com.microsoft", "com.ms.internal.nhwc"

RMS = 3 * 4 + 2  # vector FLOP of the RMS normalisation of 4 values
LN = 5 * 4 + 2
SIGMOID, SOFTPLUS = 3, 1
ONE_QUERY = {keys: 4 * keys - 2 + keys for keys in (4, 5, 8, 9)}  # softmax and scale of a row of scores


def ids(*rows: list[int]) -> Array:
    return np.array(rows, dtype=np.int64)


def scalar(value: int) -> Array:
    return np.array(value, dtype=np.int32)


def ones(*shape: int, dtype: type = np.int32) -> Array:
    return np.ones(shape, dtype=dtype)


def heap(n: int, log_k: int, k: int) -> int:
    """Compares that find the best k of n."""
    return n * (1 + 2 * log_k) + k * log_k


HEADS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}

CASES: dict[str, Case] = {
    "CDist": Case([f(3, 4), f(5, 4)], (0, 15 * 11, 15), attributes={"metric": "euclidean"}),
    "CDist squared": Case([f(3, 4), f(5, 4)], (0, 15 * 11, 0), attributes={"metric": "sqeuclidean"}),
    "DynamicTimeWarping": Case([f(4, 6)], (0, 3 * 24, 0)),
    "BranchwiseRMSNorm": Case([f(2, 3, 4), f(4)], (0, 6 * RMS + 24, 6)),
    "BranchwiseRMSNorm flattened": Case([f(2, 12)], (0, 6 * RMS, 6), attributes={"num_branches": 3}),
    "HyperConnectionPreMix": Case([f(2, 3, 4), f(2, 3)], (0, 24 + 2 * 8, 0)),
    "HyperConnectionPreMix flattened": Case([f(2, 12), f(2, 12)], (0, 24 + 2 * 8 + 8, 0), attributes={"num_branches":
        3, "reduction_scale": 0.5}),
    "HyperConnectionPostMix": Case([f(2, 3, 4), f(2, 4), f(2, 3), f(2, 3, 3)], (2 * 24 * 3, 2 * 24, 0)),
    "HyperConnectionPostMix without a matrix": Case([f(2, 3, 4), f(2, 4), f(2, 3)], (0, 2 * 24, 0)),
    # 6 gates of 4 channels: two normalisations, the dot product, the gate, the value
    "EngramGate": Case([f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 4), f(3, 4), f(3, 4)], (0,
        2 * (6 * RMS + 24) + 6 * 7 + 6 * (5 + SIGMOID) + 24, 2 * 6 + 2 * 6)),
    "EngramGate normalised": Case([f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 4), f(3, 4), f(3, 4), f(3, 4)], (0,
        3 * (6 * RMS + 24) + 6 * 7 + 6 * (5 + SIGMOID) + 24, 3 * 6 + 2 * 6), 2),
    "GatedRMSNorm": Case([f(2, 8), f(4), f(2, 8)], (0, 4 * RMS + 16 * (1 + SIGMOID + 1 + 1), 4 + 16)),
    "GatedRMSNorm sigmoid": Case([f(2, 8), f(4), f(2, 8)], (0, 4 * RMS + 16 * (1 + SIGMOID + 1), 4 + 16),
        attributes={"activation": "sigmoid"}),
    "GatedAdd": Case([f(2, 4), f(2, 4), f(2, 1)], (0, 16, 0)),
    "ScaledSiLU": Case([f(2, 4)], (0, 8 * (1 + SIGMOID + 1), 8), attributes={"alpha": 2.0}),
    "CausalConvWithState": Case([f(2, 3, 5), f(3, 1, 4), f(3), f(2, 3, 3)], (2 * 30 * 4, 30 * (1 + SIGMOID + 1), 30),
        2, attributes={"activation": "silu"}),
    # 6 tokens, 2 heads, a state of 4 x 6
    "LinearAttention": Case([f(2, 3, 8), f(2, 3, 8), f(2, 3, 12), f(2, 2, 4, 6), f(2, 3, 2), f(2, 3, 2)],
        (2 * 12 * 24 * 3, 12 * (24 + 2 * 6 + 6), 12), 2, attributes={"q_num_heads": 2, "kv_num_heads": 2}),
    "LinearAttention with fewer keys": Case([f(2, 3, 8), f(2, 3, 4), f(2, 3, 6), None, f(2, 3, 4)],
        (2 * (6 * 24 + 12 * 24), 6 * 24 + 12 * 6, 24), 2, attributes={"q_num_heads": 2, "kv_num_heads": 1,
        "update_rule": "gated"}),
    "LinearAttention with fewer queries": Case([f(2, 3, 4), f(2, 3, 8), f(2, 3, 12)], (2 * (12 * 24 + 12 * 24),
        12 * 6, 0), 2, attributes={"q_num_heads": 1, "kv_num_heads": 2, "update_rule": "linear"}),
    "LinearAttentionGate": Case([f(1, 2, 3), f(3), f(3), f(1, 2, 3)], (0, 6 * (2 + SOFTPLUS) + 6 * SIGMOID,
        6 * 2 + 6), 2),
    "LinearAttentionGate without beta": Case([f(1, 2, 3), f(3), f(3)], (0, 6 * (2 + SOFTPLUS), 6 * 2)),
    # 5 tokens, 2 of 4 experts, hidden 8, inner 6: all experts may be read
    "MoE": Case([f(5, 8), f(5, 4), f(4, 6, 8), f(4, 6), f(4, 8, 6), f(4, 8)], (2 * 10 * 2 * 48,
        10 * (6 * 4 + 6 + 8) + 10 * 8 + 5 * 8 + 5 * (4 * 4 - 2) + 5 * heap(4, 1, 2), 10 * 6 + 5 * 4), attributes={"k":
        2, "activation_type": "gelu"}, bound="upper"),
    # one token goes to 2 experts: those are all that is read
    "MoE of one token": Case([f(1, 8), f(1, 4), f(4, 12, 8), f(4, 12), f(4, 8, 6), f(4, 8)], (2 * 2 * (12 * 8 + 48),
        2 * (6 * (SIGMOID + 4) + 12 + 8) + 3 * 8 + 4 * 4 - 2 + heap(4, 1, 2) + 2 * 2 - 1, 2 * 6 + 4), attributes={"k":
        2, "activation_type": "swiglu", "swiglu_fusion": 1, "normalize_routing_weights": 1},
        read=4 * (8 + 4 + 2 * (96 + 12 + 48 + 8))),
    "QMoE": Case([f(1, 64), f(1, 4), u8(4, 64, 32), f(4, 64), None, u8(4, 64, 16), f(4, 64)],
        (2 * 2 * (64 * 64 + 32 * 64),
        3 * 2 * (64 * 64 + 32 * 64) + 2 * 32 * (SIGMOID + 4) + 3 * 64 + 4 * 4 - 2 + heap(4, 1, 2), 2 * 32 + 4),
        attributes={"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": 4},
        read=4 * (64 + 4) + 2 * (64 * 32 + 64 * 16 + 4 * (64 + 64))),
    "MurmurHash3": Case([i32(1, 2, 3)], (0, 3 * (11 + 9), 0)),
    "MurmurHash3 of 8 bytes": Case([i64(1, 2, 3)], (0, 3 * (2 * 11 + 9), 0)),
    # 8 tokens, n-grams of 2 and 3, 2 heads each
    "NGramHashMapping": Case([ids([1, 2, 3, 4], [4, 5, 6, 7]), i64(3, 5, 7), i64(11, 13, 17, 19)], (0,
        8 * (3 + 2 + 4), 0), 2, attributes={"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 0}),
    "NGramHashMapping with resets": Case([ids([1, 2, 3, 4]), i64(3, 5, 7), i64(11, 13, 17, 19), None, i64(0, 1, 2, 3),
        np.array(2)], (0, 4 * (3 + 2 + 4 + 4 + 1), 0), attributes={"max_ngram_size": 3, "n_head_per_ngram": 2,
        "pad_id": 0, "reset_on_eos": 1}),
    "VarlenNGramHashMapping": Case([i64(1, 2, 3, 4, 4, 5, 6, 7), i64(3, 5, 7), i64(11, 13, 17, 19), i32(0, 3, 8),
        None, i64(0, 1, 2, 3)], (0, 8 * (3 + 2 + 4 + 4), 0), 2, attributes={"max_ngram_size": 3, "n_head_per_ngram":
        2, "pad_id": 0}),
    "NGramRepeatBlock": Case([ids([1, 2, 3, 4], [4, 5, 6, 7]), f(2, 9)], (0, 2 * 2 * 2, 0), attributes={"ngram_size":
        3}, bound="upper"),
    "BifurcationDetector": Case([i64(1, 2, 3, 4, 5), i64(1, 2), np.array(0, dtype=np.int64), i64(1, 2, 3, 4, 8, 9)],
        (0, 6 + 5 * (1 + 2 + 3), 0), 2, bound="upper"),
    "CropAndResize": Case([f(1, 2, 6, 6), f(3, 4), i32(0, 0, 0), i32(2, 3)], (0, 7 * 36, 0), bound="upper"),
    "CropAndResize nearest": Case([f(1, 2, 6, 6), f(3, 4), i32(0, 0, 0), i32(2, 3)], (0, 0, 0), attributes={"mode":
        "nearest"}, read=4 * (36 + 12 + 3 + 2), bound="upper"),
    "MaxpoolWithMask": Case([f(1, 2, 6, 6), ones(1, 2, 6, 6)], (0, 18 * 2 * 4, 0), attributes={"kernel_shape": [2, 2],
        "strides": [2, 2]}, bound="upper"),
    "UnfoldTensor": Case([f(2, 10)], (0, 0, 0), attributes={"dim": 1, "size": 3, "step": 2},
        read=4 * 2 * (3 * 2 + 3)),
    "UnfoldTensor with gaps": Case([f(2, 10)], (0, 0, 0), attributes={"dim": 1, "size": 2, "step": 4},
        read=4 * 2 * (3 * 2)),
    "SampleOp": Case([f(2, 3)], (0, 0, 0)),
    "MatMulInteger16": Case([ones(3, 4, dtype=np.int16), ones(4, 5, dtype=np.int16)], (2 * 15 * 4, 0, 0)),
    "WordConvEmbedding": Case([ones(3, 6), f(5, 1, 2, 4), f(5), f(7, 4)], (2 * 3 * 5 * 5 * 8, 2 * 3 * 5 * 5,
        3 * 5 * 5), bound="upper"),
    "MRotaryEmbedding": Case([f(1, 2, 3, 8), np.zeros((3, 1, 3), np.int64), f(16, 4), f(16, 4)], (0, 3 * 48, 0),
        attributes={"mrope_section": [2, 1, 1]}, read=192 + 72 + 2 * 3 * 16, bound="upper"),
    # one offset for both sequences: their three rows of the caches are the same
    "RotaryEmbedding at an offset": Case([f(2, 2, 3, 8), i64(0), f(16, 4), f(16, 4)], (0, 3 * 96, 0),
        read=384 + 8 + 2 * 3 * 16),
    "GatherBlockQuantized": Case([u8(8, 16), i64(1, 3), f(8, 2)], (0, 3 * 64, 0), constants=[0, 2],
        attributes={"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1}, read=2 * 16 + 16 + 2 * 2 * 4,
        bound="upper"),
    "GatherBlockQuantized of one row": Case([u8(8, 32), i64(1), f(8, 2), u8(8, 2)], (0, 3 * 32, 0), constants=[0, 2,
        3], attributes={"block_size": 16, "bits": 8, "gather_axis": 0, "quantize_axis": 1}, read=32 + 8 + 2 * 4 + 2),
    "QEmbedLayerNormalization": Case([ids([1, 2]).astype(np.int32), ids([0, 1]).astype(np.int32), u8(9, 4), u8(8, 4),
        u8(2, 4), u8(4), u8(4), None] + [SCALE] * 5 + [ZERO] * 5, (0, 2 * LN + 8 * 4 + 3 * (3 * 8 + 2 * 4), 2), 2,
        constants=[2, 3, 4, 5, 6], read=2 * 8 + 3 * 8 + 2 * 4 + 5 * 4 + 5, bound="upper"),
    "MatMulFpQ4": Case([f(3, 32), u8(8 * 20), i64(32, 8)], (2 * 24 * 32, 3 * 256, 0), constants=[1, 2],
        attributes={"blk_quant_type": 0}),
    "MatMulBnb4 transposed": Case([f(3, 8), u8(128), f(8)], (2 * 3 * 32 * 8, 2 * 256, 0), constants=[1, 2],
        attributes={"K": 32, "N": 8, "block_size": 32, "quant_type": 1, "transB": 0}),
    # an LSTM of 4 units on 3 inputs and 6 attended: 8 places of depth 6, an attention of depth 7
    "AttnLSTM": Case([f(5, 2, 3), f(1, 16, 9), f(1, 16, 4), f(1, 32), None, None, None, None, f(1, 4, 7), f(1, 6, 7),
        f(1, 7), f(2, 8, 6)], (2 * (10 * 16 * 13 + 2 * 8 * 6 * 7 + 10 * (4 * 7 + 8 * 7 + 8 * 6)),
        10 * 4 * (3 * 3 + 4) + 10 * 16 * 2 + 10 * (8 * 7 + 4 * 8 - 2), 10 * 4 * 5 + 10 * (8 * 7 + 8)), 3,
        attributes={"hidden_size": 4}),
    "AttnLSTM with an attention layer": Case([f(5, 2, 3), f(1, 16, 8), f(1, 16, 4), None, None, None, None, None, f(1,
        4, 7), f(1, 6, 7), f(1, 7), f(2, 8, 6), i32(8, 5), f(1, 10, 5)],
        (2 * (10 * 16 * 12 + 2 * 8 * 6 * 7 + 10 * (4 * 7 + 8 * 7 + 8 * 6 + 10 * 5)),
        10 * 4 * (3 * 3 + 4) + 10 * (8 * 7 + 4 * 8 - 2), 10 * 4 * 5 + 10 * (8 * 7 + 8)), 3, attributes={"hidden_size":
        4}, bound="upper"),
    # one query of 2 heads of depth 8, and a cache with room for 9 keys
    "DecoderMaskedMultiHeadAttention": Case([f(1, 1, 16), f(1, 1, 16), f(1, 1, 16), None, None, f(1, 2, 9, 8), f(1, 2,
        9, 8), i32(3)], (2 * 2 * 9 * 16, 2 * ONE_QUERY[9], 18), 3, attributes={"num_heads": 2,
        "past_present_share_buffer": 1}, read=4 * (3 * 16 + 2 * 2 * 8 * 8 + 1), written=4 * (16 + 2 * 16),
        bound="upper"),
    "DecoderMaskedMultiHeadAttention after 3": Case([f(1, 1, 16), f(1, 1, 16), f(1, 1, 16), None, None, f(1, 2, 9, 8),
        f(1, 2, 9, 8), i32(3)], (2 * 2 * 4 * 16, 2 * ONE_QUERY[4], 8), 3, attributes={"num_heads": 2,
        "past_present_share_buffer": 1}, constants=[7], read=4 * (3 * 16 + 2 * 2 * 3 * 8 + 1),
        written=4 * (16 + 2 * 16)),
    "DecoderMaskedMultiHeadAttention to the encoder": Case([f(1, 1, 16), f(1, 2, 5, 8), f(1, 2, 5, 8), None, None,
        None, None, None, None, None, f(48)], (2 * 2 * 5 * 16, 2 * ONE_QUERY[5] + 16, 10), attributes={"num_heads":
        2}, read=4 * (16 + 2 * 80 + 16)),
    "MultiHeadAttention in one buffer": Case([f(1, 1, 16), f(1, 1, 16), f(1, 1, 16), None, None, None, f(1, 2, 9, 8),
        f(1, 2, 9, 8), i32(3)], (2 * 2 * 4 * 16, 2 * ONE_QUERY[4], 8), 3, attributes={"num_heads": 2}, constants=[8],
        read=4 * (3 * 16 + 2 * 2 * 3 * 8 + 1), written=4 * (16 + 2 * 16)),
    "MultiHeadAttention to the encoder with a bias": Case([f(1, 3, 16), f(1, 2, 4, 8), f(1, 2, 4, 8), f(48)],
        (2 * 24 * 16, 24 + 6 * SOFTMAX + 48, 24), attributes={"num_heads": 2}, read=4 * (48 + 2 * 64 + 16)),
    "QAttention with a past": Case([u8(1, 4, 10), s8(10, 48), f(48), f(1), f(1), None, u8(1), s8(1), f(2, 1, 2, 3,
        8)], (2 * 4 * 48 * 10 + 2 * 8 * 7 * 16, 3 * 4 * 48 + 8 * (7 + 4 * 7 - 2), 8 * 7), 2, attributes={"num_heads":
        2}),
    # one query of 4 heads, 2 of keys
    "GroupQueryAttention in one buffer": Case([f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 2, 9, 8), f(1, 2, 9, 8),
        i32(3), scalar(4)], (2 * 4 * 9 * 16, 4 * ONE_QUERY[9], 36), 3, attributes=HEADS,
        read=4 * (32 + 2 * 16 + 2 * 2 * 8 * 8 + 2), written=4 * (32 + 2 * 16), bound="upper"),
    "GroupQueryAttention of known length": Case([f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 2, 9, 8), f(1, 2, 9, 8),
        i32(3), scalar(4)], (2 * 4 * 4 * 16, 4 * ONE_QUERY[4], 16), 3, attributes=HEADS, constants=[6],
        read=4 * (32 + 2 * 16 + 2 * 2 * 3 * 8 + 2), written=4 * (32 + 2 * 16)),
    "GroupQueryAttention that copies": Case([f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 2, 3, 8), f(1, 2, 3, 8),
        i32(3), scalar(4)], (2 * 4 * 4 * 16, 4 * ONE_QUERY[4], 16), 3, attributes=HEADS),
    "GroupQueryAttention in a window": Case([f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 2, 9, 8), f(1, 2, 9, 8),
        i32(7), scalar(8)], (2 * 4 * 4 * 16, 4 * ONE_QUERY[4], 16), 3, attributes={**HEADS, "local_window_size": 4},
        constants=[6], read=4 * (32 + 2 * 16 + 2 * 2 * 3 * 8 + 2), written=4 * (32 + 2 * 16)),
    "GroupQueryAttention with a sink and a cap": Case([f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 2, 9, 8), f(1, 2,
        9, 8), i32(7), scalar(8), None, None, None, None, f(4)], (2 * 4 * 8 * 16, 4 * (ONE_QUERY[8] + 8 * 2 + 3),
        4 * (8 + 8 + 1)), 3, attributes={**HEADS, "softcap": 3.0}, constants=[6],
        read=4 * (32 + 2 * 16 + 2 * 2 * 7 * 8 + 2 + 4), written=4 * (32 + 2 * 16)),
    "RotaryEmbedding of 3 dimensions": Case([f(1, 3, 16), i64(0), f(16, 4), f(16, 4)], (0, 3 * 48, 0),
        attributes={"num_heads": 2}, read=192 + 8 + 2 * 3 * 16),
}  # fmt: skip


def test_every_case_costs_what_was_worked_out(subtests: pytest.Subtests) -> None:
    known = ms_schemas()
    for key, case in CASES.items():
        op_type = key.partition(" ")[0]
        if (MS, op_type) not in known:  # of another version of ONNX Runtime
            continue
        with subtests.test(key):
            assert_case(op_type, case._replace(domain=MS))


# --- ops that ONNX Runtime has no CPU kernel for ---------------------------------------------


def ints(*values: int, dims: tuple[int, ...] | None = None, dtype: str = "int32") -> Tensor:
    """A small constant."""
    return tensor("", dtype, *((len(values),) if dims is None else dims), constant=True, value=values)


def dims(*shape: int | str, dtype: str = "fp32") -> Tensor:
    return tensor("", dtype, *shape)


Input = Tensor | tuple[int, ...] | None


def op_with(
    op_type: str, *inputs: Input, out: Sequence[Input], domain: str = MS, dtype: str = "fp32", **attributes: Attribute
) -> Op:
    """An op; a shape alone is a tensor of ``dtype``."""

    def named(each: Input, name: str) -> Tensor | None:
        found = tensor("", dtype, *each) if isinstance(each, tuple) else each
        return None if found is None else msgspec.structs.replace(found, name=name)

    return Op(
        op_type=op_type,
        domain=domain,
        attributes=attributes,
        inputs=tuple(named(each, f"x{index}") for index, each in enumerate(inputs)),
        outputs=tuple(named(each, f"y{index}") for index, each in enumerate(out)),
    )


def attention(rows: int, keys: int, depth: int = 8) -> tuple[int, int, int]:
    """A multiply and a softmax a score, rows of queries with as many keys each."""
    return 2 * rows * keys * 2 * depth, rows * (5 * keys - 2), rows * keys


def plus(first: tuple[int, int, int], tensor: int, vector: int, special: int) -> tuple[int, int, int]:
    return first[0] + tensor, first[1] + vector, first[2] + special


def flags(static: bool, past: bool) -> list[Tensor]:
    return [ints(value, dims=(1,), dtype="bool") for value in (static, past, True, False)]


I32, U8, S8, F8 = "int32", "uint8", "int8", "fp8e4m3fn"
# 2 queries of the decoder, 5 keys of the encoder, 3 in the cache; 2 heads of 4
DECODER: list[Input] = [(2, 1, 8), (5, 1, 8), (8, 8), (8, 16), (24,), None, (1, 2, 3, 4), (1, 2, 3, 4)]
# 6 tokens of 4 heads of 8 in 2 sequences; of 10 blocks of 4 keys of 2 heads each has 3
PAGED: list[Input] = [(6, 32), (6, 16), (6, 16), (10, 4, 2, 8), (10, 4, 2, 8)]
TABLE: list[Input] = [dims(3, dtype=I32), dims(2, dtype=I32), dims(2, 3, dtype=I32)]

RECORDS: dict[str, tuple[Op, tuple[int, int, int]]] = {
    "BiasDropout": (op_with("BiasDropout", (2, 3), (3,), (2, 3), out=[(2, 3)]), (0, 12, 0)),
    "BiasDropout in training": (op_with("BitmaskBiasDropout", (2, 3), (3,), None, None, ints(1, dims=(),
        dtype="bool"), out=[(2, 3)]), (0, 12, 0)),
    "BitmaskDropout": (op_with("BitmaskDropout", (2, 3), out=[(2, 3)]), (0, 0, 0)),
    "ComplexMul": (op_with("ComplexMul", (3, 4, 2), (4, 2), out=[(3, 4, 2)]), (0, 12 * 6, 0)),
    "ComplexMulConj": (op_with("ComplexMulConj", (3, 4, 2), (4, 2), out=[(3, 4, 2)]), (0, 12 * 6, 0)),
    "MulInteger": (op_with("MulInteger", (3, 4), (), (4,), None, out=[dims(3, 4, dtype=I32)], dtype=U8), (0, 12 + 12,
        0)),
    "IsAllFinite": (op_with("IsAllFinite", (3, 4), (5,), out=[dims(dtype="bool")]), (0, 17 + 16, 0)),
    "ReduceSumInteger": (op_with("ReduceSumInteger", (3, 4), out=[dims(3, 1, dtype=I32)], dtype=U8, axes=(1,),
        keepdims=1), (0, 9, 0)),
    "SparseToDenseMatMul": (op_with("SparseToDenseMatMul", (3, 4), (4, 5), out=[(3, 5)]), (2 * 15 * 4, 0, 0)),
    "GemmFloat8 with scales": (op_with("GemmFloat8", (3, 4), (5, 4), None, (), (), (), out=[(3, 5)], transB=1,
        dtype=F8), (2 * 15 * 4, 2 * 15, 0)),
    "Rfft": (op_with("Rfft", (3, 8), out=[(3, 5, 2)], signal_ndim=1), (0, 3 * 5 * 8 * 3 // 2, 0)),
    "Rfft of two dimensions": (op_with("Rfft", (3, 4, 8), out=[(3, 4, 5, 2)], signal_ndim=2), (0, 3 * 5 * 32 * 5 // 2,
        0)),
    "Irfft": (op_with("Irfft", (3, 5, 2), out=[(3, 8)], signal_ndim=1), (0, 3 * 5 * 8 * 3 // 2, 0)),
    "QuantizeBFP": (op_with("QuantizeBFP", (4, 16), out=[dims(72, dtype=U8), ints(4, 16), ints(16, 1)], bfp_type=0),
        (0, 64 * 6, 0)),
    "DequantizeBFP": (op_with("DequantizeBFP", dims(72, dtype=U8), ints(4, 16), ints(16, 1), out=[(4, 16)],
        bfp_type=0), (0, 64 * 2, 0)),
    "QuantizeWithOrder": (op_with("QuantizeWithOrder", (4, 16), (), out=[dims(4, 16, dtype=S8)]), (0, 64 * 4, 0)),
    "DequantizeWithOrder": (op_with("DequantizeWithOrder", dims(4, 16, dtype=S8), (), out=[(4, 16)]), (0, 64 * 2, 0)),
    "QOrderedGelu": (op_with("QOrderedGelu", dims(4, 16, dtype=S8), (), (), out=[dims(4, 16, dtype=S8)]), (0,
        64 * (2 + 4 + 4), 64)),
    "QOrderedLayerNormalization": (op_with("QOrderedLayerNormalization", dims(3, 4, dtype=S8), (), (4,), (4,), (),
        out=[dims(3, 4, dtype=S8)]), (0, 3 * LN + 12 * (2 + 4 + 2), 3)),
    "QOrderedMatMul": (op_with("QOrderedMatMul", dims(2, 3, 4, dtype=S8), (), dims(4, 5, dtype=S8), (), (), (5,),
        dims(1, 3, 5, dtype=S8), (), out=[dims(2, 3, 5, dtype=S8)]), (2 * 30 * 4, 30 * (5 + 1 + 1) + 15 * 2, 0)),
    "GemmaRotaryEmbedding": (op_with("GemmaRotaryEmbedding", dims(1, 3, 8), *4 * [dims(1, 2, 3, 8, dtype="fp16")],
        out=2 * [dims(1, 2, 3, 8, dtype="fp16")]), (0, 2 * 24 + 2 * 3 * 48, 2 * 24)),
    # 2 heads of 4, 3 tokens, a layer of 6 outputs
    "GatedRelativePositionBias": (op_with("GatedRelativePositionBias", (1, 3, 8), (8,), (1, 2, 3, 3), (4, 6), (6,),
        (1, 2, 1, 1), out=[(1, 2, 3, 3)], num_heads=2), (2 * 6 * 4 * 6, 24 + 6 * (6 + 4 + 2 * SIGMOID + 4) + 18,
        6 * 2)),
    "RelativePositionBias": (op_with("RelativePositionBias", (8, 2), ints(3, dtype="int64"), ints(3, dtype="int64"),
        out=[(1, 2, 3, 3)]), (0, 0, 0)),
    "RemovePadding": (op_with("RemovePadding", (2, 3, 4), ints(2, 3), out=[(5, 4), *(dims(*d, dtype=I32) for d in ((2,
        3), (3,), (1,)))]), (0, 0, 0)),
    "RestorePadding": (op_with("RestorePadding", (5, 4), dims(2, 3, dtype=I32), out=[(2, 3, 4)]), (0, 0, 0)),
    "TorchEmbedding": (op_with("TorchEmbedding", (9, 4), dims(2, 3, dtype="int64"), out=[(2, 3, 4)]), (0, 0, 0)),
    "MatMulBlockQuantizedFp4Weight": (op_with("MatMulBlockQuantizedFp4Weight", (3, 32), dims(8, 16, dtype=U8), dims(8,
        2, dtype=U8), dims(), dims(), (8,), out=[(3, 8)], dtype="fp16"), (2 * 24 * 32, 3 * 256 + 16 + 24, 0)),
    "MatMulBlockQuantizedFp8Weight": (op_with("MatMulBlockQuantizedFp8Weight", (3, 32), dims(8, 32, dtype=F8), dims(8,
        1), dims(), (8,), out=[(3, 8)], dtype="bf16"), (2 * 24 * 32, 2 * 256 + 3 * 96 + 24, 0)),
    "MatMulNBitsMlp": (op_with("MatMulNBitsMlp", (3, 32), (3, 32), (32,), dims(8, 1, 16, dtype=U8), (8, 1), (8,),
        dims(8, 1, 16, dtype=U8), (8, 1), None, out=[(3, 8), (3, 32)], K=32, N=8, bits=4, block_size=32,
        activation="silu"), (2 * 2 * 24 * 32, 2 * 3 * 256 + 96 + 3 * (3 * 32 + 2) + 96 + 24 * (1 + SIGMOID + 1 + 1),
        3 + 24)),
    "MatMulNBitsQkv": (op_with("MatMulNBitsQkv", (3, 32), None, (32,), dims(8, 1, 16, dtype=U8), (8, 1), (8,), dims(4,
        1, 16, dtype=U8), (4, 1), None, dims(4, 1, 16, dtype=U8), (4, 1), out=[(3, 8), (3, 4), (3, 4)], K=32, Nq=8,
        Nkv=4, bits=4, block_size=32), (2 * 3 * 16 * 32, 3 * 512 + 3 * (3 * 32 + 2) + 96 + 24, 3)),
    "QMoE of 8-bit floats": (op_with("QMoE", (1, 8), (1, 4), dims(4, 6, 8, dtype=F8), None, None, dims(4, 8, 6,
        dtype=F8), None, None, dims(4, 6, 8, dtype=F8), out=[(1, 8)], k=2, quant_type="fp8", activation_type="silu"),
        (2 * 2 * 3 * 48, 2 * 2 * 3 * 48 + 2 * 6 * (SIGMOID + 1 + 1) + 3 * 8 + 14 + heap(4, 1, 2), 2 * 6 + 4)),
    "QMoE of 8-bit and 2-bit integers": (op_with("QMoE", (1, 8), (1, 4), dims(4, 6, 8, dtype=U8), (4, 6), None,
        dims(4, 8, 2, dtype=U8), (4, 8), None, out=[(1, 8)], k=2, expert_weight_bits=8, fc2_expert_weight_bits=2),
        (2 * 2 * (48 + 64), 3 * 2 * (48 + 64) + 2 * 8 + 3 * 8 + 14 + heap(4, 1, 2), 4)),
    "VarlenCausalConvWithState": (op_with("VarlenCausalConvWithState", (6, 3), (3, 1, 4), dims(3, dtype=I32), (3,),
        (2, 3, 3), out=[(6, 3), (2, 3, 3)]), (2 * 18 * 4, 18, 0)),
    # 6 tokens, 2 heads of keys of 4, 4 heads of values of 3
    "GatedDeltaNet": (op_with("GatedDeltaNet", (6, 2, 4), (6, 2, 4), (6, 4, 3), None, (6, 4), (6, 4), (2, 4, 3, 4),
        out=[(6, 4, 3), (2, 4, 3, 4)]), (2 * 24 * 12 * 3, 24 * (12 + 6 + 3), 24)),
    "GatedDeltaNet packed with its gates": (op_with("GatedDeltaNet", (6, 2 * 8 + 12), None, None, dims(3, dtype=I32),
        (6, 4), (6, 4), (2, 4, 3, 4), (4,), (4,), out=[(6, 4, 3), (2, 4, 3, 4)], gate_activation="qwen",
        beta_activation="sigmoid", qk_l2_norm=1), (2 * 24 * 12 * 3,
        24 * (12 + 6 + 3) + 24 * (2 + SOFTPLUS) + 4 + 24 * SIGMOID + 24 * (3 * 4 - 1), 24 + 24 * 2 + 4 + 24 + 24)),
    "DecoderAttention of itself": (op_with("DecoderAttention", *DECODER, *flags(static=False, past=True), out=[(2, 1,
        8)], num_heads=2), plus(attention(2 * 2, 5, 4), 2 * 2 * 3 * 64, 2 * 3 * 8, 0)),
    "DecoderAttention of the encoder": (op_with("DecoderAttention", *DECODER, *flags(static=True, past=False),
        out=[(2, 1, 8)], num_heads=2), plus(attention(2 * 2, 5, 4), 2 * (2 + 2 * 5) * 64, (2 + 2 * 5) * 8, 0)),
    "DecoderAttention of what is kept": (op_with("DecoderAttention", *DECODER, *flags(static=True, past=True),
        out=[(2, 1, 8)], num_heads=2), plus(attention(2 * 2, 3, 4), 2 * 2 * 64, 2 * 8, 0)),
    "DecoderMaskedSelfAttention": (op_with("DecoderMaskedSelfAttention", (1, 1, 10), (10, 48), (48,), None, (2, 1, 2,
        9, 8), None, ints(3), out=[(1, 1, 16), (2, 1, 2, 9, 8)], num_heads=2, past_present_share_buffer=1),
        plus(attention(2, 4), 2 * 48 * 10, 48, 0)),
    "Attention that rotates": (op_with("Attention", (1, 3, 10), (10, 48), None, out=[(1, 3, 16)], num_heads=2,
        do_rotary=1), plus(attention(6, 3), 2 * 3 * 48 * 10, 3 * 3 * 32, 0)),
    # 5 tokens of 2 sequences of 4 at most: 4 and 1
    "PackedAttention": (op_with("PackedAttention", (5, 10), (10, 48), (48,), dims(2, 4, dtype=I32), dims(3,
        dtype=I32), out=[(5, 16)], num_heads=2), plus((2 * 2 * 17 * 16, 2 * (5 * 17 - 2 * 5), 2 * 17),
        2 * 5 * 48 * 10, 5 * 48, 0)),
    "PackedMultiHeadAttention": (op_with("PackedMultiHeadAttention", (5, 2, 3, 8), None, None, (48,), dims(2, 4,
        dtype=I32), dims(3, dtype=I32), out=[(5, 16)], num_heads=2), plus((2 * 2 * 17 * 16, 2 * (5 * 17 - 2 * 5),
        2 * 17), 0, 5 * 48, 0)),
    # each projected value 6, each score a convert more, each probability 4, each output 5
    "QOrderedAttention": (op_with("QOrderedAttention", (1, 3, 10), *4 * [dims()], *3 * [(10, 16)], *3 * [dims()],
        *3 * [dims(16)], *3 * [dims()], out=[(1, 3, 16)], num_heads=2, dtype=S8), plus(attention(6, 3),
        2 * 3 * 48 * 10, 3 * 48 * 6 + 18 + 18 * 4 + 48 * 5, 0)),
    "GroupQueryAttention of a quantised cache": (op_with("GroupQueryAttention", (1, 1, 64), None, None, *2 * [dims(1,
        2, 9, 8, dtype=S8)], ints(7), ints(8, dims=()), (20, 4), (20, 4), None, None, None, (1,), (1,), (8,), (8,),
        out=[(1, 1, 32), *2 * [dims(1, 2, 9, 8, dtype=S8)]], **HEADS, do_rotary=1), plus(attention(4, 8), 0,
        3 * 6 * 8 + 6 * (3 * 8 + 2) + 6 * 8 + 2 * (2 * 7 + 4) * 2 * 8, 6)),
    # every token sees the 12 keys that a sequence has room for
    "PagedAttention": (op_with("PagedAttention", *PAGED, *TABLE, (20, 4), (20, 4), out=[(6, 32)], **HEADS,
        do_rotary=1), plus(attention(24, 12), 0, 3 * 6 * 6 * 8, 0)),
    "PagedAttention in a window with a sink": (op_with("PagedAttention", *PAGED, *TABLE, None, None, None, (4,),
        out=[(6, 32)], **HEADS, local_window_size=5), plus(attention(24, 5), 0, 24 * 3, 24)),
    "PagedAttention of latent values": (op_with("PagedAttention", (6, 32), (6, 8), None, (10, 4, 1, 8), None, *TABLE,
        out=[(6, 24)], num_heads=4, kv_num_heads=1, kv_cache_layout="LATENT", v_head_size=6, scale=0.3),
        (2 * 24 * 12 * (8 + 6), 24 * (5 * 12 - 2), 24 * 12)),
    "SparsePagedAttention": (op_with("SparsePagedAttention", *PAGED, *TABLE, None, dims(6, 3, dtype=I32), dims(6,
        dtype=I32), out=[(6, 32)], **HEADS), attention(24, 3)),
    "SparsePagedAttention with a window and another cache": (op_with("SparsePagedAttention", *PAGED, *TABLE, None,
        dims(6, 3, dtype=I32), dims(6, dtype=I32), (2, 7, 1, 8), out=[(6, 32)], **HEADS,
        attention_mode="local_plus_selected", selected_kv_source="auxiliary", local_window_size=5,
        auxiliary_kv_shared=1), attention(24, 5 + 3)),
    # 2 queries, a cache of 9
    "DynamicSparseAttention": (op_with("DynamicSparseAttention", (1, 2, 32), (1, 2, 16), (1, 2, 16), (1, 2, 9, 8), (1,
        2, 9, 8), None, None, *(dims(*d, dtype=I32) for d in ((2, 3), (2,), (1,), ())), out=[(1, 2, 32), (1, 2, 9, 8),
        (1, 2, 9, 8)], **HEADS), attention(8, 3)),
    "DynamicSparseAttention with a window and another cache": (op_with("DynamicSparseAttention", (1, 2, 32), (1, 2,
        16), (1, 2, 16), (1, 2, 9, 8), (1, 2, 9, 8), (1, 2, 7, 8), (1, 2, 7, 8), *(dims(*d, dtype=I32) for d in ((2,
        3), (2,), (1,), ())), out=[(1, 2, 32), (1, 2, 9, 8), (1, 2, 9, 8)], **HEADS,
        attention_mode="local_plus_selected", selected_kv_source="auxiliary", local_window_size=4), attention(8,
        4 + 3)),
    # 16 queries times 32 keys are fewer pairs than 3 blocks of 16 x 16 hold
    "SparseAttention": (op_with("SparseAttention", (1, 16, 32), (1, 16, 16), (1, 16, 16), (1, 2, 32, 8), (1, 2, 32,
        8), ints(0, 1, 3, dims=(1, 3)), ints(0, 0, 1, dims=(1, 3)), dims(dtype=I32), dims(1, dtype=I32), out=[(1, 16,
        32), (1, 2, 32, 8), (1, 2, 32, 8)], **HEADS, sparse_block_size=16), attention(64, 32)),
    "SparseAttention of one block": (op_with("SparseAttention", (1, 32, 32), (1, 32, 16), (1, 32, 16), (1, 2, 32, 8),
        (1, 2, 32, 8), ints(0, 1, 1, dims=(1, 3)), ints(0, dims=(1, 1)), dims(dtype=I32), dims(1, dtype=I32), out=[(1,
        32, 32), (1, 2, 32, 8), (1, 2, 32, 8)], **HEADS, sparse_block_size=16), (2 * 4 * 256 * 16,
        4 * (5 * 256 - 2 * 32), 4 * 256)),
    # 5 tokens that see 1 before and 1 behind: 3 * 5 - 2 pairs
    "LongformerAttention": (op_with("LongformerAttention", (1, 5, 16), (16, 48), (48,), (1, 5), (16, 48), (48,),
        dims(1, 5, dtype=I32), out=[(1, 5, 16)], num_heads=2, window=1), (2 * 5 * 48 * 16 + 2 * 26 * 16,
        5 * 48 + 26 * 6 - 2 * 10, 26)),
    "QOrderedLongformerAttention": (op_with("QOrderedLongformerAttention", (1, 5, 16), dims(), (16, 48), dims(),
        dims(48), dims(), dims(), dims(1, 5, dtype="fp16"), (16, 48), dims(), dims(48), dims(), dims(1, 5, dtype=I32),
        dims(), out=[(1, 5, 16)], num_heads=2, window=1, dtype=S8), (2 * 5 * 48 * 16 + 2 * 26 * 16,
        5 * 48 * (1 + 5 + 2) + 26 * 6 - 2 * 10 + 80 * 4, 26)),
    # 3 queries of 2 heads of 8, 5 keys before: 4 blocks of 2, of which 2 are kept
    "SparseAttentionIndexer of blocks": (op_with("SparseAttentionIndexer", (1, 3, 16), (1, 3, 8), (8,), (8,), (1, 16,
        2), (1, 16, 2), None, (1, 5, 8), out=[dims(1, 3, 5, dtype=I32), (1, 8, 8)], policy_mode="qsa",
        compress_ratio=2, token_budget=4), (2 * 12 * 16,
        4 * 8 * 2 + (6 + 4) * (3 * 8 + 2 + 8 + 3 * 4) + 12 * (2 * 2 + 1) + 3 * heap(4, 1, 2), 6 + 4)),
    # 1 token waits: 3 more make 2 entries, besides the 5 before
    "SparseAttentionIndexer of gated entries": (op_with("SparseAttentionIndexer", (1, 3, 16), (1, 3, 16), (8,), (8,),
        (1, 16, 2), (1, 16, 2), None, (1, 5, 8), (1, 3, 16), (2, 16), (1, 3, 2), dims(1, 3, dtype="int64"), None, (2,
        1, 1, 16), out=[dims(1, 3, 3, dtype=I32), (1, 7, 8), (2, 1, 2, 16)], policy_mode="csa", compress_ratio=2,
        index_topk=3), (2 * 21 * 16,
        2 * 8 * (4 + 7 + 14) + (6 + 2) * (3 * 8 + 2 + 8 + 3 * 4) + 21 * (2 * 3 + 1) + 3 * heap(7, 2, 3),
        2 * 8 * 4 + 6 + 2)),
    # 1 more may wait: at most 2 new blocks, and a state with room for 6
    "PackedSparseAttentionIndexer": (op_with("PackedSparseAttentionIndexer", (3, 24), None, (8,), (8,), (16, 2), (16,
        2), dims(2, dtype=I32), dims(1, dtype=I32), None, None, None, None, (1, 6, 8), (1, 3, 8), None, dims(1, 2,
        dtype=I32), out=[dims(3, 5, dtype=I32), dims(3, dtype=I32), (1, 6, 8), (1, 3, 8), None, dims(1, 2,
        dtype=I32)], policy_mode="qsa", compress_ratio=2, token_budget=4, state_capacity=6), (2 * 18 * 16,
        2 * 8 * 2 + (6 + 2) * (3 * 8 + 2 + 8 + 3 * 4) + 18 * (2 * 2 + 1) + 3 * heap(6, 1, 2), 6 + 2)),
    "nhwc QLinearConvTranspose": (op_with("QLinearConvTranspose", (1, 5, 5, 4), dims(), (), (4, 3, 3, 6), dims(), (),
        dims(), (), dims(6, dtype=I32), out=[(1, 7, 7, 6)], domain=NHWC, dtype=U8), (2 * 100 * 54, 6 * 49 * 7, 0)),
    "nhwc ConvTranspose": (op_with("ConvTranspose", (1, 5, 5, 4), (4, 6, 3, 3), (6,), out=[(1, 7, 7, 6)],
        domain=NHWC), (2 * 100 * 54, 6 * 49, 0)),
    "nhwc DepthToSpace": (op_with("DepthToSpace", (1, 2, 2, 4), out=[(1, 4, 4, 1)], domain=NHWC), (0, 0, 0)),
    "nhwc SpaceToDepth": (op_with("SpaceToDepth", (1, 4, 4, 1), out=[(1, 2, 2, 4)], domain=NHWC), (0, 0, 0)),
    "nhwc MaxUnpool": (op_with("MaxUnpool", (1, 2, 2, 4), dims(1, 2, 2, 4, dtype="int64"), out=[(1, 4, 4, 4)],
        domain=NHWC), (0, 0, 0)),
}  # fmt: skip


# What is read and written where that is not all of each tensor.
TRAFFIC: dict[str, tuple[int, int, str]] = {
    "DecoderAttention of itself": (4 * (16 + 64 + 128 + 24 + 24 + 24) + 4, 4 * 16, "exact"),
    "DecoderAttention of the encoder": (4 * (16 + 40 + 64 + 128 + 24) + 4, 4 * 16, "exact"),
    "DecoderAttention of what is kept": (4 * (16 + 64 + 24 + 24 + 24) + 4, 4 * 16, "exact"),
    # 3 keys and values of 2 heads read of the room for 9, one of each written
    "DecoderMaskedSelfAttention": (4 * (10 + 480 + 48 + 2 * 2 * 3 * 8 + 1), 4 * (16 + 2 * 2 * 8), "exact"),
    "PackedAttention": (4 * (50 + 480 + 48 + 8 + 3), 4 * 80, "upper"),
    "GroupQueryAttention of a quantised cache": (4 * (64 + 1 + 1 + 2 * 4 + 1 + 1 + 8 + 8) + 2 * 2 * 7 * 8,
        4 * 32 + 2 * 2 * 8, "exact"),
    # 2 sequences of 3 blocks of 4 keys of 2 heads of 8; 6 new ones written into the inputs
    "PagedAttention": (4 * (6 * 32 + 2 * 6 * 16 + 2 * 24 * 16 + 3 + 2 + 6 + 2 * 6 * 4), 4 * (6 * 32 + 2 * 6 * 16),
        "upper"),
    # of each sequence the 4 keys before
    "PagedAttention in a window with a sink": (4 * (6 * 32 + 2 * 6 * 16 + 2 * 8 * 16 + 3 + 2 + 6 + 4),
        4 * (6 * 32 + 2 * 6 * 16), "upper"),
    # values are part of the keys: one cache
    "PagedAttention of latent values": (4 * (6 * 32 + 6 * 8 + 24 * 8 + 3 + 2 + 6), 4 * (6 * 24 + 6 * 8), "upper"),
    "SparsePagedAttention": (4 * (6 * 32 + 2 * 6 * 16 + 2 * 18 * 16 + 3 + 2 + 6 + 18 + 6), 4 * (6 * 32 + 2 * 6 * 16),
        "upper"),
    "SparsePagedAttention with a window and another cache":
        (4 * (6 * 32 + 2 * 6 * 16 + 2 * 10 * 16 + 3 + 2 + 6 + 18 + 6 + 2 * 7 * 8), 4 * (6 * 32 + 2 * 6 * 16),
        "upper"),
    # 2 queries of 3 selected keys of 2 heads of 8
    "DynamicSparseAttention": (4 * (64 + 64 + 2 * 6 * 16 + 6 + 2 + 1 + 1), 4 * (64 + 2 * 2 * 16), "upper"),
    "DynamicSparseAttention with a window and another cache":
        (4 * (64 + 64 + 2 * 6 * 16 + 2 * 6 * 16 + 6 + 2 + 1 + 1), 4 * (64 + 2 * 2 * 16), "upper"),
    "SparseAttention": (4 * (512 + 2 * 256 + 2 * 16 * 16 + 3 + 3 + 1 + 1), 4 * (512 + 2 * 16 * 16), "upper"),
    "LongformerAttention": (4 * (80 + 768 + 48 + 5 + 5), 4 * 80, "lower"),
    "SparseAttentionIndexer of blocks": (4 * (48 + 24 + 16 + 2 * (3 + 4) * 2 + 40), 4 * (15 + 64), "upper"),
    "PackedSparseAttentionIndexer": (4 * (72 + 16 + 2 * (3 + 2) * 2 + 2 + 1 + 48 + 24 + 2),
        4 * (15 + 3 + 2 * 8 + 24 + 2), "upper"),
    # two of four experts
    "QMoE of 8-bit floats": (4 * (8 + 4) + 2 * 3 * 48, 4 * 8, "exact"),
    "QMoE of 8-bit and 2-bit integers": (4 * (8 + 4) + 2 * (48 + 16 + 4 * (6 + 8)), 4 * 8, "exact"),
    # the scale of the input does nothing
    "MatMulBlockQuantizedFp4Weight": (2 * 96 + 128 + 16 + 4 + 2 * 8, 2 * 24, "exact"),
    "TorchEmbedding": (4 * 24 + 8 * 6, 4 * 24, "upper"),
    "RemovePadding": (4 * 20 + 4 * 2, 4 * (20 + 6 + 3 + 1), "exact"),
    "BiasDropout in training": (4 * (6 + 3) + 1, 4 * 6, "lower"),
    "BitmaskDropout": (0, 0, "exact"),
    "SparseToDenseMatMul": (4 * (12 + 20), 4 * 15, "upper"),
}  # fmt: skip


DTYPES = {
    "MatMulBlockQuantizedFp4Weight": "fp16", "MatMulBlockQuantizedFp8Weight": "bf16", "MatMulNBitsQkv": "fp32",
    "QMoE of 8-bit floats": "fp32", "QOrderedMatMul": "int8", "QOrderedAttention": "int8",
    "QOrderedLongformerAttention": "int8", "DecoderAttention of itself": "fp32", "GatedDeltaNet": "fp32",
    "GroupQueryAttention of a quantised cache": "fp32", "nhwc QLinearConvTranspose": "int8", "TorchEmbedding": "",
}  # fmt: skip
"""What is multiplied; what is only moved has none."""


def test_every_record_costs_what_was_worked_out(subtests: pytest.Subtests) -> None:
    for key, (op, expected) in RECORDS.items():
        with subtests.test(key):
            found = work(op)
            assert totals(found) == expected
            assert found.bytes or found.note
            assert found.note or found.bound == "exact"
            assert key not in TRAFFIC or (found.bytes_read, found.bytes_written, found.bound) == TRAFFIC[key]
            assert key not in DTYPES or found.dtype == DTYPES[key]


def test_operands_of_products_are_required_inputs() -> None:
    known = {schema.name: schema for schema in _pybind_state.get_all_operator_schema() if schema.domain == MS}
    checked = OPERANDS.keys() & known.keys()
    assert "QOrderedMatMul" in checked
    for op_type in checked:
        for position in OPERANDS[op_type]:
            assert "Single" in str(known[op_type].inputs[position].option), op_type


def test_only_the_last_of_a_window_of_states_is_read() -> None:
    inputs: list[Input] = [(2, 3, 8), (2, 3, 8), (2, 3, 12), (4, 2, 2, 4, 6), (2, 3, 2), (2, 3, 2)]
    heads: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
    found = work(op_with("LinearAttention", *inputs, out=[(2, 3, 12), (4, 2, 2, 4, 6)], state_window=4, **heads))
    assert found.bytes_read == 4 * (48 + 48 + 72 + 96 + 12 + 12)
    assert found.bytes_written == 4 * (72 + 4 * 96)


def test_a_mode_that_is_an_input_is_bounded() -> None:
    found = work(op_with("DecoderAttention", *DECODER, *4 * [dims(1, dtype="bool")], out=[(2, 1, 8)], num_heads=2))
    # What costs most: keys and values of the encoder are projected.
    assert found.tensor_flops == RECORDS["DecoderAttention of the encoder"][1][0]
    assert found.bound == "upper"
    assert found.bytes_read == 4 * (16 + 40 + 64 + 128 + 24 + 24 + 24) + 4
    found = work(op_with("BiasDropout", (2, 3), (3,), None, None, dims(dtype="bool"), out=[(2, 3)]))
    assert (found.vector_flops, found.bound) == (12, "mixed")


def test_a_size_that_is_data_is_bounded() -> None:
    def unknown(*shape: int | str) -> Tensor:
        return Tensor(name="", dtype="int64", shape=shape)

    found = work(op_with("DynamicTimeWarping", (4, 6), out=[unknown(2, "n")]))
    assert (found.bytes_written, found.bound) == (8 * 2 * 9, "upper")
    found = work(op_with("RemovePadding", (2, 3, 4), ints(2, 3), out=[unknown("n", 4)]))
    assert (found.bytes_read, found.bytes_written, found.bound) == (4 * 24 + 8, 8 * 24, "upper")
    tokens = [dims(5, dtype="int64"), dims(2, dtype="int64"), dims(dtype="int64"), dims(6, dtype="int64")]
    found = work(op_with("BifurcationDetector", *tokens, out=[unknown("n"), unknown()]))
    assert (found.bytes_written, found.bound) == (8 * (2 + 6) + 8, "upper")


def test_what_cannot_be_priced_is_said(subtests: pytest.Subtests) -> None:
    for op, error in (
        (op_with("CDist", (3, 4), (5, 4), out=[(3, 5)], metric="cosine"), CostError),
        (op_with("MurmurHash3", dims(3, dtype="string"), out=[dims(3, dtype="uint32")]), NoWidthError),
        (op_with("LinearAttention", *3 * [(1, 2, 4)], out=[(1, 2, 4)]), MalformedOpError),
        (op_with("PagedAttention", *PAGED, *TABLE, out=[(6, 32)], num_heads=4), MalformedOpError),
        (op_with("MoE", (5, 8), (5, 4), dims(4, "inner", 8), None, (4, 8, 6), out=[(5, 8)]), UnknownShapeError),
        (op_with("SparseAttention", *6 * [(1, 4, 8)], (1, 3), out=[(1, 4, 8)], **HEADS), MalformedOpError),
        (op_with("SparseAttentionIndexer", (1, 3, 16), None, (8,), (8,), (9, 2), out=[(1, 3, 3)]), CostError),
        (op_with("QAttention", (1, 3, 16), (16, 48), out=[(1, 3, 16)]), MalformedOpError),
    ):
        with subtests.test(op.op_type), pytest.raises(error):
            work_of(op)


def test_every_cost_function_of_these_domains_has_a_case() -> None:
    here = {(MS, key.split(" ")[0]) for key in CASES} | {(op.domain, op.op_type) for op, _ in RECORDS.values()}
    # The NHWC twins of ai.onnx ops share their functions, which do not look at the layout.
    twins = {(NHWC, name) for domain, name in covered_there() if not domain}
    registered = COSTS.keys()
    own = {(domain, name) for domain, name in registered if domain.startswith(("com.microsoft", NHWC))}
    assert own - here - covered_there() - twins == {(NHWC, "QLinearAveragePool")}
