"""Ops of ONNX that no runtime at hand runs everywhere: losses, recurrences, optimisers, sequences, text.

Where the onnx package has node tests of an op, its definition is carried out on their inputs with
scalars that count; the results must be those of the node test, and the counts those of the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.fakes import op_cases
from tests.fakes.counting import Array, Num, Tally, flops, largest, plain, tensor, total, work
from tests.fakes.onnx_nodes import SingleNode, single_nodes
from tests.fakes.op_cases import x
from trtprof.base.records import Op, Tensor
from trtprof.cost import NoWidthError, UnknownShapeError, work_of
from trtprof.cost.fused import work_of_group
from trtprof.cost.ops.data_movement import _triangle

record = partial(op_cases.record, opset=28)

TRAINING = "ai.onnx.preview.training"


def cases_of(op_type: str, domain: str = "", dtype: str = "fp32") -> list[SingleNode]:
    """Node tests of an op in one dtype, in which the scalars that count compute like the op."""
    found = [
        node for node in single_nodes()[domain, op_type] if node.op.outputs[0] and node.op.outputs[0].dtype == dtype
    ]
    assert found
    return found


def same(counted: Any, expected: Array) -> bool:
    return bool(np.allclose(plain(counted).reshape(expected.shape), expected, rtol=1e-3, atol=1e-5))


def number(op: Op, name: str, default: float = 0.0) -> float:
    value = op.attributes.get(name, default)
    assert isinstance(value, int | float)
    return value


# --- losses ----------------------------------------------------------------------------------


def log_softmax(row: Sequence[Num]) -> list[Num]:
    most = largest(row)
    shifted = [value - most for value in row]
    log = total([value.exp() for value in shifted]).log()
    return [value - log for value in shifted]


def losses_of(tally: Tally, node: SingleNode) -> tuple[Any, Array]:
    """The loss, reduced, and the log-probabilities, as the schemas define them."""
    scores, labels = node.inputs[:2]
    weights = node.inputs[2] if len(node.inputs) > 2 else None
    ignored = node.op.attributes.get("ignore_index")
    classes = scores.shape[1]
    rows = np.moveaxis(tally.array(scores), 1, -1).reshape(-1, classes)
    if node.op.op_type == "SoftmaxCrossEntropyLoss":
        rows = np.array([log_softmax(list(row)) for row in rows], dtype=object)
    scale = None if weights is None else tally.array(weights)
    losses, parts = [], []
    for row, label in zip(rows, labels.ravel(), strict=True):
        if ignored is not None:
            tally.vector += 1
        if label == ignored:
            losses.append(Num(0.0, tally))
            parts.append(Num(0.0, tally))
            continue
        loss = -row[label]
        if scale is not None:
            loss = loss * scale[label]
        losses.append(loss)
        parts.append(Num(1.0, tally) if scale is None else scale[label])
    reduction = node.op.attributes.get("reduction", "mean")
    if reduction == "none":
        return np.array(losses, dtype=object), rows
    summed = total(losses)
    if reduction == "mean":
        summed = summed / (total(parts) if scale is not None or ignored is not None else len(losses))
    return np.array([summed], dtype=object), rows


@pytest.mark.parametrize("op_type", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses_are_those_of_the_node_tests(op_type: str) -> None:
    for node in cases_of(op_type):
        tally = Tally()
        loss, rows = losses_of(tally, node)
        assert same(loss, node.outputs[0]), node.name
        if len(node.outputs) > 1:
            assert same(rows, np.moveaxis(node.outputs[1], 1, -1).reshape(rows.shape)), node.name
        found = work(node.op)
        tensor_flops, vector, special = tally.flops()
        labels = node.inputs[1]
        ignored = int((labels == node.op.attributes.get("ignore_index")).sum())
        # What is ignored takes neither a negation nor a multiply by its weight.
        spared = ignored * (1 + (len(node.inputs) > 2))
        assert flops(found) == (tensor_flops, vector + spared, special), node.name
        if ignored:
            assert found.bound == "upper"
        assert found.bytes_written == sum(array.nbytes for array in node.outputs)


def test_a_loss_reads_one_probability_a_label() -> None:
    likelihood, labels = x(8, 1000), x(8, name="t", dtype="int64")
    found = work(record("NegativeLogLikelihoodLoss", likelihood, labels, out=[x(name="y")]))
    assert (found.bytes_read, found.bytes_written, found.bound) == (4 * 8 + 8 * 8, 4, "exact")
    weights = x(1000, name="w")
    found = work(record("NegativeLogLikelihoodLoss", likelihood, labels, weights, out=[x(name="y")]))
    assert (found.bytes_read, found.bound) == (4 * 16 + 8 * 8, "upper")
    found = work(record("SoftmaxCrossEntropyLoss", likelihood, labels, out=[x(name="y"), x(8, 1000, name="p")]))
    assert (found.bytes_read, found.bytes_written) == (4 * 8000 + 8 * 8, 4 + 4 * 8000)


def test_a_loss_of_no_labels_is_nothing() -> None:
    op = record("SoftmaxCrossEntropyLoss", x(0, 5), x(0, name="t", dtype="int64"), out=[x(name="y")])
    assert (work(op).flops, work(op).bytes_written) == (0, 4)


# --- recurrences -----------------------------------------------------------------------------


def attend(tally: Tally, node: SingleNode) -> tuple[Array, Array]:
    """The recurrence of the schema, token by token, on states [d_k, d_v] of each key head."""
    inputs: list[Any] = [None if array is None else tally.array(array) for array in node.inputs]
    inputs += [None] * (6 - len(inputs))
    q, k, v, past, decay, beta = inputs
    heads, kv_heads = int(number(node.op, "q_num_heads")), int(number(node.op, "kv_num_heads"))
    rule = node.op.attributes.get("update_rule", "gated_delta")
    batch, length = q.shape[:2]
    q, k, v = (array.reshape(batch, length, n, -1) for array, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    dk, dv = k.shape[3], v.shape[3]
    scale = number(node.op, "scale") or 1 / math.sqrt(dk)
    state = tally.array(np.zeros((batch, kv_heads, dk, dv))) if past is None else past.copy()
    output = np.empty((batch, length, heads, dv), dtype=object)
    factors = None
    if rule in ("gated", "gated_delta"):
        factors = np.vectorize(Num.exp, otypes=[object])(decay).reshape(batch, length, kv_heads, -1)
    for b, t, h in np.ndindex(batch, length, kv_heads):
        s, key = state[b, h], k[b, t, h]
        if factors is not None:
            s = s * np.broadcast_to(factors[b, t, h][:, None], (dk, dv))
        add = list(v[b, t, h])
        if rule in ("delta", "gated_delta"):
            rate = beta[b, t, h if beta.shape[2] > 1 else 0]
            seen = [Num(0.0, tally) for _ in range(dv)]
            for i, j in np.ndindex(dk, dv):
                seen[j] = seen[j].mac(s[i, j], key[i])
            add = [(value - found) * rate for value, found in zip(add, seen, strict=True)]
        for i, j in np.ndindex(dk, dv):
            s[i, j] = s[i, j].mac(key[i], add[j])
        state[b, h] = s
        for reader in range(h * heads // kv_heads, (h + 1) * heads // kv_heads):
            for j in range(dv):
                value = Num(0.0, tally)
                for i in range(dk):
                    value = value.mac(q[b, t, reader, i], s[i, j])
                output[b, t, reader, j] = value * scale
    return output, state


def test_linear_attention_is_that_of_the_node_tests() -> None:
    for node in cases_of("LinearAttention"):
        tally = Tally()
        output, state = attend(tally, node)
        assert same(output, node.outputs[0]), node.name
        assert same(state, node.outputs[1]), node.name
        found = work(node.op)
        assert flops(found) == tally.flops(), node.name
        given = [array for array in node.inputs if array is not None]
        assert (found.bytes_read, found.bytes_written) == (
            sum(array.nbytes for array in given),
            sum(array.nbytes for array in node.outputs),
        )


def test_a_causal_convolution_is_that_of_the_node_tests() -> None:
    for node in cases_of("CausalConvWithState"):
        tally = Tally()
        inputs: list[Any] = [*node.inputs, *[None] * (4 - len(node.inputs))]
        data, weight, bias, past = inputs
        batch, channels, length = data.shape
        taps = weight.shape[2]
        before = np.zeros((batch, channels, taps - 1)) if past is None else past
        line, kernel = tally.array(np.concatenate([before, data], axis=2)), tally.array(weight)
        output = np.empty(data.shape, dtype=object)
        for b, c, t in np.ndindex(batch, channels, length):
            value = Num(0.0, tally)
            for i in range(taps):
                value = value.mac(line[b, c, t + i], kernel[c, 0, i])
            if bias is not None:
                value = value + float(bias[c])
            if node.op.attributes.get("activation", "none") != "none":
                value = value * (1.0 / (1.0 + (-value).exp()))
            output[b, c, t] = value
        assert same(output, node.outputs[0]), node.name
        assert flops(work(node.op)) == tally.flops(), node.name


# --- optimisers ------------------------------------------------------------------------------


def adagrad(op: Op, rate: float, count: int, value: Num, gradient: Num, history: Num) -> list[Num]:
    rate = rate / (1 + count * number(op, "decay_factor"))
    history = history + gradient * gradient
    return [value - rate * gradient / (history.sqrt() + number(op, "epsilon")), history]


def adam(op: Op, rate: float, count: int, value: Num, gradient: Num, average: Num, squares: Num) -> list[Num]:
    alpha, beta = number(op, "alpha", 0.9), number(op, "beta", 0.999)
    average = alpha * average + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * (gradient * gradient)
    if count > 0:
        rate = rate * math.sqrt(1 - beta**count) / (1 - alpha**count)
    value = value - rate * (average / (squares.sqrt() + number(op, "epsilon", 1e-6)))
    post = number(op, "norm_coefficient_post")
    return [(1 - post) * value if post else value, average, squares]


def momentum(op: Op, rate: float, count: int, value: Num, gradient: Num, average: Num) -> list[Num]:
    alpha, beta = number(op, "alpha"), number(op, "beta") if count > 0 else 1.0
    average = alpha * average + beta * gradient
    step = gradient + alpha * average if op.attributes["mode"] == "nesterov" else average
    return [value - rate * step, average]


STEPS: dict[str, tuple[Callable[..., list[Num]], int]] = {
    "Adagrad": (adagrad, 3),
    "Adam": (adam, 4),
    "Momentum": (momentum, 3),
}
"""The update of one element, and how many tensors it takes."""


@pytest.mark.parametrize("op_type", STEPS)
def test_optimisers_are_those_of_the_node_tests(op_type: str) -> None:
    step, takes = STEPS[op_type]
    for node in cases_of(op_type, TRAINING):
        op, (rate, count, *tensors) = node.op, node.inputs
        tally = Tally()
        many = len(tensors) // takes
        norm = number(op, "norm_coefficient")
        results: list[Array] = []
        for index in range(many):
            taken = [tally.array(tensors[index + many * kind]) for kind in range(takes)]
            made = []
            for value, gradient, *states in zip(*(array.ravel() for array in taken), strict=True):
                slope = norm * value + gradient if norm else gradient
                made.append(step(op, float(rate), int(count), value, slope, *states))
            results += [np.array(list(kind), dtype=object) for kind in zip(*made, strict=True)]
        # All new tensors come first, then all new states of one kind.
        kinds = takes - 1
        ordered = [results[index * kinds + kind] for kind in range(kinds) for index in range(many)]
        for counted, expected in zip(ordered, node.outputs, strict=True):
            assert same(counted, expected), node.name
        found = work(op)
        assert flops(found) == tally.flops(), node.name
        assert found.bytes_read == sum(array.nbytes for array in node.inputs)
        assert found.bytes_written == sum(array.nbytes for array in node.outputs)


def test_a_regularisation_afterwards_is_a_multiply() -> None:
    inputs = [x(name="r"), x(name="t", dtype="int64"), *(x(6, name=name) for name in "xgvh")]
    out = [x(6, name=name) for name in ("y", "v2", "h2")]
    plain_step = work(record("Adam", *inputs, out=out, domain=TRAINING, opset=1))
    after = work(record("Adam", *inputs, out=out, domain=TRAINING, opset=1, norm_coefficient_post=0.1))
    assert after.vector_flops == plain_step.vector_flops + 6


def test_an_optimiser_with_tensors_missing_is_refused() -> None:
    op = record(
        "Adam", x(name="r"), x(name="t"), x(6), x(6, name="g"), x(6, name="v"), out=[x(6, name="y")], domain=TRAINING
    )
    with pytest.raises(Exception, match="4 inputs a tensor"):
        work_of(op)


# --- sequences and optional values -----------------------------------------------------------


def sequence(name: str, *dims: int | str, dtype: str = "fp32") -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims, kind="sequence")


def test_joining_a_sequence_moves_its_tensors() -> None:
    op = record("ConcatFromSequence", sequence("s", "n", 3), out=[x(10, 3, name="y")], axis=0)
    assert (work(op).flops, work(op).bytes_read, work(op).bytes_written) == (0, 120, 120)
    with pytest.raises(UnknownShapeError):
        work(record("ConcatFromSequence", sequence("s", 3), out=[x("n", 3, name="y")], axis=0))
    with pytest.raises(NoWidthError):
        work(record("ConcatFromSequence", sequence("s", 3, dtype="string"), out=[x(2, 3, dtype="string")], axis=0))


@pytest.mark.parametrize(
    "lengths", [None, tensor("n", "int64", constant=True, value=(2,)), x(3, name="n", dtype="int64")]
)
def test_splitting_into_a_sequence_moves_the_input(lengths: Tensor | None) -> None:
    op = record("SplitToSequence", x(7, 3), lengths, out=[sequence("s", "?", 3)], axis=0)
    assert (work(op).flops, work(op).bytes_written) == (0, 84)
    assert work(op).bytes_read == 84 + (0 if lengths is None else lengths.nbytes or 0)


POSITION = tensor("i", "int64", constant=True, value=(0,))
NOTHING_MOVES = [
    record("SequenceConstruct", x(3), x(4, name="z"), out=[sequence("s", "?")]),
    record("SequenceInsert", sequence("s", 3), x(3), POSITION, out=[sequence("t", 3)]),
    record("SequenceErase", sequence("s", 3), POSITION, out=[sequence("t", 3)]),
    record("SequenceAt", sequence("s", 3), POSITION, out=[x(3, name="y")]),
    record("SequenceEmpty", out=[sequence("s")]),
    record("Optional", x(3), out=[Tensor(name="o", dtype="fp32", shape=(3,), kind="optional")]),
    record("Optional", out=[Tensor(name="o", dtype="fp32", shape=(3,), kind="optional")]),
    record("OptionalGetElement", sequence("s", 3), out=[sequence("t", 3)]),
]


@pytest.mark.parametrize("op", NOTHING_MOVES, ids=lambda op: op.op_type)
def test_a_reference_moves_nothing_and_says_so(op: Op) -> None:
    found = work(op)
    assert (found.flops, found.bytes, found.bound) == (0, 0, "exact")
    assert "nothing" in found.note


@pytest.mark.parametrize(
    ("op", "written"),
    [
        (record("SequenceLength", sequence("s", "?"), out=[x(name="y", dtype="int64")]), 8),
        (record("OptionalHasElement", sequence("s", "?"), out=[x(name="y", dtype="bool")]), 1),
        (record("OptionalHasElement", None, out=[x(name="y", dtype="bool")]), 1),
        (record("OptionalHasElement", out=[x(name="y", dtype="bool")]), 1),
    ],
    ids=lambda value: value.op_type if isinstance(value, Op) else "",
)
def test_asking_about_a_sequence_or_an_optional_reads_no_values(op: Op, written: int) -> None:
    assert (work(op).flops, work(op).bytes_read, work(op).bytes_written) == (0, 0, written)
    assert work(op).note


def test_an_optional_shows_the_bytes_of_its_value() -> None:
    wrapped = Tensor(name="o", dtype="fp32", shape=(6,), kind="optional")
    ops = [
        record("Optional", x(6), out=[wrapped]),
        record("OptionalGetElement", wrapped, out=[x(6, name="v")]),
        record("Exp", x(6, name="v"), out=[x(6, name="y")]),
    ]
    found = work_of_group(ops)
    assert found is not None
    assert (found.bytes_read, found.bytes_written, found.special) == (24, 24, {"exp": 6})


def test_the_body_of_a_sequence_map_is_priced_by_itself() -> None:
    found = work(record("SequenceMap", sequence("s", 3), out=[sequence("t", 3)]))
    assert (found.flops, found.bytes, found.bound) == (0, 0, "exact")
    assert "body" in found.note


# --- strings, images, and tables -------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        record(
            "StringConcat", x(3, dtype="string"), x(3, name="z", dtype="string"), out=[x(3, name="y", dtype="string")]
        ),
        record(
            "StringSplit",
            x(3, dtype="string"),
            out=[x(3, "n", name="y", dtype="string"), x(3, name="z", dtype="int64")],
        ),
        record("StringNormalizer", x("n", dtype="string"), out=[x("m", name="y", dtype="string")]),
        record("RegexFullMatch", x(3, dtype="string"), out=[x(3, name="y", dtype="bool")], pattern="a+"),
        record("TfIdfVectorizer", x(3, dtype="string"), out=[x(4, name="y")], mode="TF"),
        record("Cast", x(3), out=[x(3, name="y", dtype="string")], to=8),
        record("Cast", x(3, dtype="string"), out=[x(3, name="y")], to=1),
        record("Equal", x(3, dtype="string"), x(3, name="z", dtype="string"), out=[x(3, name="y", dtype="bool")]),
        record(
            "Concat", x(3, dtype="string"), x(3, name="z", dtype="string"), out=[x(6, name="y", dtype="string")], axis=0
        ),
    ],
    ids=lambda op: op.op_type,
)
def test_strings_are_refused_with_a_word(op: Op) -> None:
    with pytest.raises(NoWidthError) as raised:
        work_of(op)
    assert raised.value.kind == "no fixed width"


def test_n_grams_are_bounded_by_what_finds_them_all() -> None:
    for node in single_nodes()["", "TfIdfVectorizer"]:
        found = work(node.op)
        assert found.bound == "upper"
        # Each count in the output of mode TF is an n-gram that was found, by at least one look-up a token.
        assert found.vector_flops >= 2 * node.outputs[0].sum(), node.name


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("Trilu", {}),
        ("TfIdfVectorizer", {"mode": "TF", "max_gram_length": 2**40, "max_skip_count": 2**40, "min_gram_length": 1}),
    ],
)
def test_sizes_that_nobody_has_are_counted_at_once(name: str, attributes: dict[str, Any]) -> None:
    """Not one by one: a file that names 2^40 rows or grams is priced as soon as any other."""
    dims = (2**40, 2**40)
    found = work(record(name, x(*dims, dtype="int64"), out=[x(*dims, name="y", dtype="int64")], opset=14, **attributes))
    assert found.bytes_read >= 4 * 2**80


@pytest.mark.parametrize("shift", [-9, -3, -1, 0, 1, 2, 9])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (5, 3), (4, 4), (6, 0)])
def test_a_triangle_has_the_elements_that_numpy_leaves(rows: int, columns: int, shift: int) -> None:
    ones = np.ones((rows, columns))
    assert _triangle(rows, columns, shift + 1) == np.tril(ones, shift).sum()
    assert rows * columns - _triangle(rows, columns, shift) == np.triu(ones, shift).sum()


@pytest.mark.parametrize(
    ("shortest", "longest", "skips"), [(1, 1, 0), (1, 1, 3), (1, 2, 0), (1, 3, 2), (2, 2, 1), (2, 3, 5)]
)
def test_every_n_gram_is_found_among_tokens_that_are_all_the_same(shortest: int, longest: int, skips: int) -> None:
    """A pool of the n-grams of a single token finds every candidate: the bound is met."""
    tokens, rows = 6, 2
    sizes = range(1, longest + 1)
    pool = tuple(7 for n in sizes for _ in range(n))
    op = record(
        "TfIdfVectorizer",
        x(rows, tokens, dtype="int64"),
        out=[x(rows, longest, name="y")],
        opset=9,
        mode="TF",
        pool_int64s=pool,
        ngram_counts=tuple(n * (n - 1) // 2 for n in sizes),
        ngram_indexes=tuple(n - 1 for n in sizes),
        min_gram_length=shortest,
        max_gram_length=longest,
        max_skip_count=skips,
    )
    lookups = found = 0
    least = shortest
    for stride in range(1, skips + 2):
        for start in range(tokens):
            if start + stride * (least - 1) >= tokens:
                break
            for n, _ in enumerate(range(start, tokens, stride), start=1):
                if n > longest:
                    break
                lookups += 1
                found += n >= least
        if least == 1:
            least = 2
            if least > longest:
                break
    counted = work(op)
    assert counted.vector_flops == rows * (lookups + found)
    assert counted.bytes_read == 8 * (rows * tokens + len(pool) + longest)
    assert counted.bytes_parameters == 8 * (len(pool) + longest)


@pytest.mark.parametrize(
    ("mode", "weights", "each"), [("TF", (), 0), ("IDF", (), 1), ("TFIDF", (), 0), ("TFIDF", (0.5, 2.0), 1)]
)
def test_weights_of_n_grams_are_per_output(mode: str, weights: tuple[float, ...], each: int) -> None:
    op = record(
        "TfIdfVectorizer", x(4, dtype="int32"), out=[x(2, name="y")], mode=mode, weights=weights, pool_int64s=(1, 2),
        ngram_counts=(0,), ngram_indexes=(0, 1), min_gram_length=1, max_gram_length=1, max_skip_count=0,
    )  # fmt: skip
    assert work(op).vector_flops == 2 * 4 + 2 * each
    assert work(op).bytes_parameters == 8 * 4 + 4 * len(weights)


def test_an_image_is_bounded_from_below() -> None:
    stream = x(900, dtype="uint8")
    known = work(record("ImageDecoder", stream, out=[x(32, 32, 3, name="y", dtype="uint8")]))
    assert (known.bytes_read, known.bytes_written, known.bound) == (900, 3072, "lower")
    unknown = work(record("ImageDecoder", stream, out=[x("?", "?", 3, name="y", dtype="uint8")]))
    assert (unknown.bytes_read, unknown.bytes_written, unknown.bound) == (900, 0, "lower")
    assert "pixels" in unknown.note


def mel_weights(tally: Tally, bands: int, length: int, rate: int, low: float, high: float) -> Array:
    """As the onnx package's reference computes them; what is the same for all bands is not counted."""
    start, stop = (2595 * math.log10(1 + edge / 700) for edge in (low, high))
    step = (stop - start) / (bands + 2)
    edges = []
    for index in range(bands + 2):
        mel = tally.of(index) * step + start
        hertz = ((mel / 2595)._special("pow", lambda exponent: 10**exponent) - 1) * 700
        bin_ = hertz * (length + 1) / rate
        tally.vector += 1  # the floor
        edges.append(math.floor(bin_.value))
    output = np.zeros((length // 2 + 1, bands))
    for band, (left, center, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        for row in range(left, center):
            output[row, band] = ((tally.of(row) - left) / (center - left)).value
        for row in range(center, right):
            output[row, band] = ((right - tally.of(row)) / (right - center)).value
        output[center, band] = 1
    return output


def test_mel_weights_are_those_of_the_node_test() -> None:
    (node,) = single_nodes()["", "MelWeightMatrix"]
    found, tally = work(node.op), Tally()
    bands, length, rate, low, high = (array.item() for array in node.inputs)
    assert np.allclose(mel_weights(tally, bands, length, rate, low, high), node.outputs[0], atol=1e-3)
    _, vector, special = tally.flops()
    assert (found.special, found.bound) == (special, "upper")
    rows = node.outputs[0].shape[0]
    assert vector <= found.vector_flops == 8 * (bands + 2) + 4 * rows
    assert found.bytes_written == node.outputs[0].nbytes


def test_the_modifiers_of_flexible_attention_are_nodes_of_their_own() -> None:
    q, k, v = x(2, 4, 3, 8, name="q"), x(2, 2, 5, 8, name="k"), x(2, 2, 5, 6, name="v")
    op = record("FlexAttention", q, k, v, out=[x(2, 4, 3, 6, name="y")], domain="ai.onnx.preview", opset=1)
    plain_op = record("Attention", q, k, v, out=[x(2, 4, 3, 6, name="y")], opset=24)
    found, expected = work(op), work(plain_op)
    assert found.note
    assert (flops(found), found.bytes) == (flops(expected), expected.bytes)
