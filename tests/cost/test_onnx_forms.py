"""Ops of ONNX in the forms that they took from opset to opset, and those that no runtime at hand runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.fakes.counting import tensor, totals, work
from trtprof.base.records import Attribute, Op, Tensor
from trtprof.cost import NoWidthError, UnknownShapeError, work_of


def x(*dims: int | str, name: str = "x", dtype: str = "fp32") -> Tensor:
    return tensor(name, dtype, *dims)


def ints(name: str, *values: int) -> Tensor:
    """A constant vector."""
    return tensor(name, "int64", len(values), constant=True, value=values)


def scalar(name: str, value: int, dtype: str = "int64") -> Tensor:
    return tensor(name, dtype, constant=True, value=(value,))


def record(
    op_type: str, opset: int, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None], **attributes: Attribute
) -> Op:
    return Op(op_type=op_type, opset=opset, attributes=attributes, inputs=tuple(inputs), outputs=tuple(outputs))


def y(*dims: int | str, dtype: str = "fp32") -> Tensor:
    return x(*dims, name="y", dtype=dtype)


def normalized(opset: int, *statistics: Tensor, **attributes: Attribute) -> Op:
    inputs = [x(2, 3, 4), *(x(3, name=name) for name in ("scale", "bias", "mean", "var"))]
    return record("BatchNormalization", opset, inputs, [y(2, 3, 4), *statistics], **attributes)


def sequence(*dims: int | str) -> Tensor:
    return Tensor(name="sequence", dtype="fp32", shape=dims, kind="sequence")


def optimised(op_type: str, states: int, **attributes: Attribute) -> Op:
    """A step of 6 elements, given the rate, the count, the tensor, its gradient and its states."""
    inputs = [x(name="r"), x(name="t", dtype="int64"), *(x(6, name=f"i{index}") for index in range(states + 1))]
    op = record(op_type, 1, inputs, [x(6, name=f"o{index}") for index in range(states)], **attributes)
    return msgspec.structs.replace(op, domain="ai.onnx.preview.training")


GATES = [x(1, 12, 3, name="w"), x(1, 12, 4, name="r")]

SAME: dict[str, Sequence[Op]] = {
    "Slice": [record("Slice", 1, [x(8, 6)], [y(3, 6)], axes=(0,), starts=(1,), ends=(4,)), *(record("Slice", v, [x(8,
        6), ints("s", 1), ints("e", 4), ints("a", 0)], [y(3, 6)]) for v in (10, 11, 13))],
    "Pad": [record("Pad", 1, [x(4, 6)], [y(3, 8)], paddings=(-1, 0, 0, 2), mode="constant"), record("Pad", 2, [x(4,
        6)], [y(3, 8)], pads=(-1, 0, 0, 2)), *(record("Pad", v, [x(4, 6), ints("p", -1, 0, 0, 2)], [y(3,
        8)]) for v in (11, 13, 18, 25)), record("Pad", 18, [x(4, 6), ints("p", 0, -1, 2, 0), None, ints("a", 1, 0)],
        [y(3, 8)]), record("Pad", 18, [x(4, 6), ints("p", 0, -1, 2, 0), None, ints("a", -1, -2)], [y(3, 8)])],
    "TopK": [record("TopK", 1, [x(3, 8)], [y(3, 2), x(3, 2, name="i", dtype="int64")], k=2), *(record("TopK", v, [x(3,
        8), ints("k", 2)], [y(3, 2), x(3, 2, name="i", dtype="int64")]) for v in (10, 11, 24))],
    "ReduceSum": [*(record("ReduceSum", v, [x(3, 8)], [y(3, 1)], axes=(1,)) for v in (1, 11)), *(record("ReduceSum",
        v, [x(3, 8), ints("a", 1)], [y(3, 1)]) for v in (13, 18)), record("ReduceSum", 13, [x(3, 8), x(1, name="a",
        dtype="int64")], [y(3, 1)], noop_with_empty_axes=1)],
    "ReduceLogSumExp": [*(record("ReduceLogSumExp", v, [x(3, 8)], [y(3, 1)], axes=(1,)) for v in (1, 11, 13)),
        record("ReduceLogSumExp", 18, [x(3, 8), ints("a", 1)], [y(3, 1)])],
    "Split": [record("Split", 1, [x(4, 6)], [y(1, 6), x(3, 6, name="z")], split=(1, 3)), record("Split", 11, [x(4,
        6)], [y(1, 6), x(3, 6, name="z")], split=(1, 3)), record("Split", 13, [x(4, 6), ints("s", 1, 3)], [y(1, 6),
        x(3, 6, name="z")]), record("Split", 18, [x(4, 6)], [y(2, 6), x(2, 6, name="z")], num_outputs=2)],
    "Clip": [record("Clip", 1, [x(6)], [y(6)], min=0.0, max=6.0), record("Clip", 6, [x(6)], [y(6)]), *(record("Clip",
        v, [x(6), x(name="lo"), x(name="hi")], [y(6)]) for v in (11, 12, 13))],
    "Softmax over the last axis": [record("Softmax", 1, [x(3, 8)], [y(3, 8)]), record("Softmax", 11, [x(3, 8)], [y(3,
        8)], axis=-1), record("Softmax", 13, [x(3, 8)], [y(3, 8)])],
    "Upsample": [record("Upsample", 1, [x(1, 2, 3, 3)], [y(1, 2, 6, 6)], width_scale=2.0, height_scale=2.0,
        mode="bilinear"), record("Upsample", 7, [x(1, 2, 3, 3)], [y(1, 2, 6, 6)], scales=(1.0, 1.0, 2.0, 2.0),
        mode="linear"), *(record("Upsample", v, [x(1, 2, 3, 3), x(4, name="s")], [y(1, 2, 6, 6)],
        mode="linear") for v in (9, 10)), record("Resize", 10, [x(1, 2, 3, 3), x(4, name="s")], [y(1, 2, 6, 6)],
        mode="linear"), *(record("Resize", v, [x(1, 2, 3, 3), None, x(4, name="s")], [y(1, 2, 6, 6)],
        mode="linear") for v in (11, 13, 19)), record("Resize", 18, [x(1, 2, 3, 3), None, None, ints("z", 6, 6)],
        [y(1, 2, 6, 6)], mode="linear", axes=(2, 3))],
    "BatchNormalization at inference": [*(normalized(opset, is_test=1) for opset in (1, 6)),
        *(normalized(opset) for opset in (7, 9, 14, 15))],
    "BatchNormalization in training": [*(normalized(opset, x(3, name="p"), x(3, name="q")) for opset in (6, 7, 9)),
        *(normalized(opset, x(3, name="p"), x(3, name="q"), training_mode=1) for opset in (14, 15))],
    "GRU": [*(record("GRU", v, [x(5, 2, 3), *GATES], [y(5, 1, 2, 4), x(1, 2, 4, name="h")]) for v in (1, 3, 7, 14,
        22)), record("GRU", 14, [x(2, 5, 3), *GATES], [y(2, 5, 1, 4), x(2, 1, 4, name="h")], layout=1)],
}  # fmt: skip
"""Forms of one calculation."""


def test_every_form_of_an_op_costs_the_same(subtests: pytest.Subtests) -> None:
    for key, ops in SAME.items():
        first = work(ops[0])
        data = [sum(t.nbytes or 0 for t in op.inputs[1:] if t is not None) for op in ops]
        for op, before in zip(ops[1:], data[1:], strict=True):
            with subtests.test(f"{key} {op.opset}"):
                found = work(op)
                assert totals(found) == totals(first)
                assert (found.bytes_written, found.bound) == (first.bytes_written, first.bound)
                # What became an input is read.
                assert found.bytes_read - before == first.bytes_read - data[0]


WORKED: dict[str, tuple[Op, tuple[int, int, int], int, int]] = {
    "Slice reads what it keeps": (SAME["Slice"][0], (0, 0, 0), 72, 72),
    "Pad reads what negative pads leave": (SAME["Pad"][0], (0, 0, 0), 3 * 6 * 4, 3 * 8 * 4),
    "Pad that reflects": (record("Pad", 2, [x(4)], [y(8)], pads=(2, 2), mode="reflect"), (0, 0, 0), 16, 32),
    "TopK with a heap": (SAME["TopK"][0], (0, 3 * (8 * 3 + 2), 0), 96, 3 * 2 * (4 + 8)),
    "ReduceSum": (SAME["ReduceSum"][0], (0, 21, 0), 96, 12),
    "ReduceMean of no axes is a copy": (record("ReduceMean", 18, [x(3, 8)], [y(3, 8)], noop_with_empty_axes=1), (0, 0,
        0), 96, 96),
    "ReduceSumSquare of no axes squares": (record("ReduceSumSquare", 18, [x(3, 8)], [y(3, 8)],
        noop_with_empty_axes=1), (0, 24, 0), 96, 96),
    "ReduceLogSum of no axes takes logarithms": (record("ReduceLogSum", 18, [x(3, 8), ints("a")], [y(3, 8)],
        noop_with_empty_axes=1), (0, 0, 24), 96, 96),
    "ReduceL2 of no axes": (record("ReduceL2", 18, [x(3, 8)], [y(3, 8)], noop_with_empty_axes=1), (0, 24, 24), 96,
        96),
    "ReduceSum of all axes": (record("ReduceSum", 13, [x(3, 8), ints("a")], [y()]), (0, 23, 0), 96, 4),
    "ReduceMax of bool": (record("ReduceMax", 20, [x(8, dtype="bool")], [y(dtype="bool")]), (0, 7, 0), 8, 1),
    "Clip with one limit": (record("Clip", 13, [x(6), None, x(name="hi")], [y(6)]), (0, 6, 0), 28, 24),
    "Softmax flattened at its axis": (record("Softmax", 11, [x(2, 3, 4)], [y(2, 3, 4)], axis=1), (0, 2 * 46, 24), 96,
        96),
    "Softmax along its axis": (record("Softmax", 13, [x(2, 3, 4)], [y(2, 3, 4)], axis=1), (0, 8 * 10, 24), 96, 96),
    "Upsample with four taps": (SAME["Upsample"][0], (0, 7 * 72, 0), 72, 288),
    "Resize to the nearest": (record("Resize", 19, [x(1, 1, 4, 4), None, None, ints("z", 1, 1, 2, 2)], [y(1, 1, 2,
        2)]), (0, 0, 0), 16 + 32, 16),
    "Dropout in opset 6": (record("Dropout", 6, [x(6)], [y(6), x(6, name="m")]), (0, 6, 0), 24, 48),
    "Dropout in opset 6 at inference": (record("Dropout", 6, [x(6)], [y(6)], is_test=1), (0, 0, 0), 0, 0),
    "Dropout in opset 10": (record("Dropout", 10, [x(6)], [y(6)], ratio=0.1), (0, 0, 0), 0, 0),
    "Dropout that may train": (record("Dropout", 13, [x(6), x(name="r"), x(name="t", dtype="bool")], [y(6)]), (0, 6,
        0), 24 + 4 + 1, 24),
    "BatchNormalization at inference": (SAME["BatchNormalization at inference"][0], (0, 48 + 12, 3), 96 + 48, 96),
    "BatchNormalization in training": (SAME["BatchNormalization in training"][0], (0, 3 * (5 * 8 + 2) + 48 + 18, 3),
        96 + 48, 96 + 24),
    "GroupNormalization with a scale per group": (record("GroupNormalization", 18, [x(2, 4, 6), x(2, name="s"), x(2,
        name="b")], [y(2, 4, 6)], num_groups=2), (0, 4 * (5 * 12 + 2) + 96, 4), 192 + 16, 192),
    "GroupNormalization with a scale per channel": (record("GroupNormalization", 21, [x(2, 4, 6), x(4, name="s"), x(4,
        name="b")], [y(2, 4, 6)], num_groups=2), (0, 4 * (5 * 12 + 2) + 96, 4), 192 + 32, 192),
    "Gather of one row": (record("Gather", 13, [x(9, 6), scalar("i", 2)], [y(6)]), (0, 0, 0), 24 + 8, 24),
    "Gather from the back": (record("Gather", 13, [x(9, 6), ints("i", -1, 8)], [y(2, 6)]), (0, 0, 0), 24 + 16, 48),
    "MaxPool with indices": (record("MaxPool", 12, [x(1, 1, 4, 4)], [y(1, 1, 2, 2), x(1, 1, 2, 2, name="i",
        dtype="int64")], kernel_shape=(2, 2), strides=(2, 2)), (0, 16, 0), 64, 16 + 32),
    "CenterCropPad that crops one axis and pads another": (record("CenterCropPad", 18, [x(20, 8), ints("z", 10, 10)],
        [y(10, 10)]), (0, 0, 0), 4 * 80 + 16, 400),
    "TensorScatter": (record("TensorScatter", 24, [x(2, 9, 4), x(2, 3, 4, name="u"), ints("i", 0, 1)], [y(2, 9, 4)]),
        (0, 0, 0), 288 + 96 + 16, 288),
    "ScatterND that adds": (record("ScatterND", 16, [x(9, 4), x(2, 1, name="i", dtype="int64"), x(2, 4, name="u")],
        [y(9, 4)], reduction="add"), (0, 8, 0), 144 + 16 + 32, 144),
    "CumProd": (record("CumProd", 26, [x(3, 8), scalar("a", -1)], [y(3, 8)]), (0, 21, 0), 96 + 8, 96),
    "CumProd without the value itself": (record("CumProd", 26, [x(3, 8), scalar("a", 1)], [y(3, 8)], exclusive=1), (0,
        18, 0), 96 + 8, 96),
    "BitCast": (record("BitCast", 26, [x(6)], [y(6, dtype="int32")], to=6), (0, 0, 0), 0, 0),
    "RMSNormalization": (record("RMSNormalization", 23, [x(3, 8), x(8, name="s")], [y(3, 8)]), (0, 3 * 26 + 24, 3),
        128, 96),
    "QuantizeLinear per axis": (record("QuantizeLinear", 13, [x(4, 6), x(4, name="s"), x(4, name="z", dtype="int8")],
        [y(4, 6, dtype="int8")], axis=0), (0, 5 * 24, 0), 96 + 16 + 4, 24),
    "QuantizeLinear in blocks": (record("QuantizeLinear", 21, [x(4, 6), x(4, 2, name="s")], [y(4, 6, dtype="int4")],
        axis=1, block_size=3, output_dtype=22), (0, 4 * 24, 0), 96 + 32, 12),
    "DequantizeLinear in blocks": (record("DequantizeLinear", 21, [x(4, 6, dtype="uint4"), x(4, 2, name="s"), x(4, 2,
        name="z", dtype="uint4")], [y(4, 6)], axis=1, block_size=3), (0, 3 * 24, 0), 12 + 32 + 4, 96),
    "DequantizeLinear of fp8": (record("DequantizeLinear", 19, [x(4, 6, dtype="fp8e4m3fn"), x(name="s")], [y(4, 6)]),
        (0, 2 * 24, 0), 24 + 4, 96),
    # A label: a negation; 7 adds and a divide for the mean.
    "NegativeLogLikelihoodLoss reads one score a label": (record("NegativeLogLikelihoodLoss", 22, [x(8, 1000),
        x(8, name="t", dtype="int64")], [y()]), (0, 8 + 8, 0), 4 * 8 + 8 * 8, 4),
    # A row: the maximum, the shifts, the sum, and the shifts by its logarithm.
    "SoftmaxCrossEntropyLoss": (record("SoftmaxCrossEntropyLoss", 13, [x(8, 10), x(8, name="t", dtype="int64")],
        [y(), x(8, 10, name="p")]), (0, 8 * (4 * 10 - 2) + 8 + 8, 8 * 11), 4 * 80 + 8 * 8, 4 + 4 * 80),
    # The mean 3, the squares 4, the step 4 and a root; 6 elements.
    "Adam": (optimised("Adam", 3), (0, 6 * 11, 6), 4 + 8 + 4 * 24, 3 * 24),
    "Adam with a norm afterwards": (optimised("Adam", 3, norm_coefficient_post=0.1), (0, 6 * 12, 6), 108, 72),
    "Adagrad": (optimised("Adagrad", 2), (0, 6 * 6, 6), 4 + 8 + 3 * 24, 2 * 24),
    "Momentum": (optimised("Momentum", 2, mode="standard"), (0, 6 * 5, 0), 84, 48),
    "Momentum of Nesterov": (optimised("Momentum", 2, mode="nesterov"), (0, 6 * 7, 0), 84, 48),
    # 6 tokens of 2 heads with a state of 4 x 6: decay, read, update, query.
    "LinearAttention": (record("LinearAttention", 27, [*(x(2, 3, n, name=f"i{n}") for n in (8, 9, 12)),
        x(2, 2, 4, 6, name="s"), x(2, 3, 2, name="d"), x(2, 3, 2, name="b")],
        [y(2, 3, 12), x(2, 2, 4, 6, name="t")], q_num_heads=2, kv_num_heads=2),
        (2 * 12 * 24 * 3, 12 * (24 + 2 * 6 + 6), 12), 4 * (6 * 29 + 96 + 24), 4 * (72 + 96)),
    "CausalConvWithState": (record("CausalConvWithState", 27, [x(2, 3, 8), x(3, 1, 4, name="w"), x(3, name="b")],
        [y(2, 3, 8), x(2, 3, 3, name="s")]), (2 * 48 * 4, 48, 0), 4 * (48 + 12 + 3), 4 * (48 + 18)),
    "ConcatFromSequence": (record("ConcatFromSequence", 11, [sequence("n", 3)], [y(10, 3)], axis=0), (0, 0, 0), 120,
        120),
    "SplitToSequence": (record("SplitToSequence", 24, [x(7, 3), ints("n", 2)], [sequence("?", 3)], axis=0),
        (0, 0, 0), 84 + 8, 84),
    "ImageDecoder": (record("ImageDecoder", 20, [x(900, dtype="uint8")], [y(32, 32, 3, dtype="uint8")]), (0, 0, 0),
        900, 3072),
    # 10 edges, and the slopes of 9 rows.
    "MelWeightMatrix": (record("MelWeightMatrix", 17, [scalar("n", 8), scalar("l", 16), scalar("r", 8000), x(name="lo"),
        x(name="hi")], [y(9, 8)]), (0, 8 * 10 + 4 * 9, 10), 3 * 8 + 2 * 4, 4 * 72),
    "OptionalHasElement": (record("OptionalHasElement", 18, [sequence("?")], [y(dtype="bool")]), (0, 0, 0), 0, 1),
    "SequenceLength": (record("SequenceLength", 11, [sequence("?")], [y(dtype="int64")]), (0, 0, 0), 0, 8),
    # A count and an index for each of 6 tokens and their pairs (5), 2 outputs.
    "TfIdfVectorizer": (record("TfIdfVectorizer", 9, [x(4, dtype="int32")], [y(2)], mode="IDF", weights=(0.5, 2.0),
        pool_int64s=(1, 2), ngram_counts=(0,), ngram_indexes=(0, 1), min_gram_length=1, max_gram_length=1,
        max_skip_count=0), (0, 2 * 4 + 2, 0), 4 * 4 + 8 * 4 + 4 * 2, 8),
    **{op_type: (record(op_type, 24, [sequence(3), *more], [sequence(3)]), (0, 0, 0), 0, 0) for op_type, more in (
        ("SequenceInsert", [x(3)]), ("SequenceErase", []), ("SequenceAt", [scalar("i", 0)]), ("SequenceMap", []),
        ("OptionalGetElement", []), ("Optional", []), ("SequenceConstruct", []))},
    "SequenceEmpty": (record("SequenceEmpty", 11, [], [sequence()]), (0, 0, 0), 0, 0),
    "a view by attribute": (record("Squeeze", 1, [x(1, 6)], [y(6)], axes=(0,)), (0, 0, 0), 0, 0),
    "a view by input": (record("Unsqueeze", 13, [x(6), ints("a", 0)], [y(1, 6)]), (0, 0, 0), 0, 0),
}  # fmt: skip
"""The op, its arithmetic (tensor, vector, special), and the bytes it reads and writes."""


def test_every_op_costs_what_was_worked_out(subtests: pytest.Subtests) -> None:
    for key, (op, arithmetic, read, written) in WORKED.items():
        with subtests.test(key):
            found = work(op)
            assert totals(found) == arithmetic
            assert (found.bytes_read, found.bytes_written) == (read, written)
            assert found.flops or found.bytes or found.note


def test_strings_are_refused_with_a_word(subtests: pytest.Subtests) -> None:
    def text(*dims: int | str) -> Tensor:
        return x(*dims, dtype="string")

    for op in (
        record("StringConcat", 20, [text(3), text(3)], [text(3)]),
        record("StringSplit", 20, [text(3)], [text(3, "n"), x(3, name="z", dtype="int64")]),
        record("StringNormalizer", 10, [text("n")], [text("m")]),
        record("RegexFullMatch", 20, [text(3)], [y(3, dtype="bool")], pattern="a+"),
        record("TfIdfVectorizer", 9, [text(3)], [y(4)], mode="TF"),
        record("Cast", 13, [x(3)], [text(3)], to=8),
        record("Cast", 13, [text(3)], [y(3)], to=1),
        record("Equal", 19, [text(3), text(3)], [y(3, dtype="bool")]),
    ):
        with subtests.test(op.op_type), pytest.raises(NoWidthError):
            work_of(op)


def test_a_cast_moves_the_true_width_of_both_types(subtests: pytest.Subtests) -> None:
    for dtype, width in (
        ("bool", 100),
        ("fp8e8m0", 100),
        ("int4", 50),
        ("int2", 25),
        ("bf16", 200),
        ("complex64", 800),
    ):
        with subtests.test(dtype):
            there = work(record("Cast", 25, [x(100)], [y(100, dtype=dtype)], to=0))
            back = work(record("Cast", 25, [x(100, dtype=dtype)], [y(100)], to=1))
            like = work(record("CastLike", 25, [x(100), x(7, name="t", dtype=dtype)], [y(100, dtype=dtype)]))
            assert totals(there) == totals(back) == totals(like) == (0, 100, 0)
            assert [(w.bytes_read, w.bytes_written) for w in (there, back, like)] == [
                (400, width), (width, 400), (400, width),
            ]  # fmt: skip


# --- attention -------------------------------------------------------------------------------


def attention(
    opset: int = 24, extra: Sequence[Tensor | None] = (), more: Sequence[Tensor | None] = (), **attributes: Attribute
) -> Op:
    """4 query heads of 3 queries over 2 heads of 5 keys of depth 8, and values of depth 6, in a batch of 2."""
    inputs = [x(2, 4, 3, 8, name="q"), x(2, 2, 5, 8, name="k"), x(2, 2, 5, 6, name="v"), *extra]
    return record("Attention", opset, inputs, [y(2, 4, 3, 6), *more], **attributes)


def test_attention_of_rank_3_is_that_of_rank_4() -> None:
    flat = record(
        "Attention", 23, [x(2, 3, 32, name="q"), x(2, 5, 16, name="k"), x(2, 5, 12, name="v")], [y(2, 3, 24)],
        q_num_heads=4, kv_num_heads=2,
    )  # fmt: skip
    first, second = work(flat), work(attention(23))
    assert (totals(first), first.bytes) == (totals(second), second.bytes)
    assert first.tensor_flops == 2 * (2 * 4 * 3 * 5) * (8 + 6)


def test_the_past_of_attention_is_read_and_the_present_written() -> None:
    past = [None, x(2, 2, 7, 8, name="pk"), x(2, 2, 7, 6, name="pv")]
    present = [x(2, 2, 12, 8, name="nk"), x(2, 2, 12, 6, name="nv")]
    found = work(attention(extra=past, more=present))
    assert found.tensor_flops == 2 * (2 * 4 * 3 * 12) * (8 + 6)
    assert found.bytes_read == work(attention()).bytes_read + 4 * 2 * 2 * 7 * 14
    assert found.bytes_written == work(attention()).bytes_written + 4 * 2 * 2 * 12 * 14


def test_a_window_bounds_the_keys_of_a_query() -> None:
    """Three queries and five keys: the first query stands at the first key."""
    cases: list[tuple[dict[str, Attribute], int]] = [
        ({}, 5 + 5 + 5),
        ({"is_causal": 1}, 1 + 2 + 3),
        ({"left_window_size": 1, "right_window_size": 1}, 2 + 3 + 3),
        ({"left_window_size": 1, "right_window_size": 9, "is_causal": 1}, 1 + 2 + 2),
        ({"left_window_size": 1}, 5 + 5 + 4),
        ({"right_window_size": 0}, 1 + 2 + 3),
    ]
    for attributes, seen in cases:
        found = work(msgspec.structs.replace(attention(25), attributes=attributes))
        assert (found.tensor_flops, found.bound) == (2 * (2 * 4 * seen) * (8 + 6), "exact"), attributes


def test_the_modifiers_of_flexible_attention_are_nodes_of_their_own() -> None:
    op = attention()
    flexible, plain = work(msgspec.structs.replace(op, op_type="FlexAttention", domain="ai.onnx.preview")), work(op)
    assert flexible.note
    assert (totals(flexible), flexible.bytes) == (totals(plain), plain.bytes)


# --- what only an input says -----------------------------------------------------------------


def test_pads_that_are_not_known_count_all_of_the_input() -> None:
    found = work(record("Pad", 18, [x(4, 6), x(4, name="p", dtype="int64")], [y(3, 8)]))
    assert (found.bytes_read, found.bound) == (96 + 32, "upper")


def test_an_axis_that_is_not_known_is_a_bound() -> None:
    found = work(record("CumProd", 26, [x(3, 8), x(name="a", dtype="int64")], [y(3, 8)]))
    assert (found.vector_flops, found.bound) == (24, "upper")


def test_a_pool_without_a_kernel_is_refused() -> None:
    with pytest.raises(UnknownShapeError):
        work_of(record("LpPool", 1, [x(1, 1, 4, 4)], [y(1, 1, 2, 2)]))
