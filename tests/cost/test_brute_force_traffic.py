"""Cost functions against loops that count every operation and remember every element that they touch.

What `test_cost_brute_force` leaves open: other ranks, groups, dilations and directions, random
equations and axes, and bytes as distinct elements that were read and written rather than as sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.counting import Array, Num, Tally, flops, largest, plain, run, total, work
from trtprof.base.records import Work

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).uniform(-2, 2, shape).astype(np.float32)


class Traced:
    """An array that counts what is done to its values and remembers which of them were read or written."""

    def __init__(self, array: Array, tally: Tally) -> None:
        self.array = array
        self.tally = tally
        self.touched: set[tuple[int, ...]] = set()

    def __getitem__(self, index: tuple[int, ...]) -> Num:
        index = tuple(int(at) for at in index)
        assert all(0 <= at < dim for at, dim in zip(index, self.array.shape, strict=True))
        self.touched.add(index)
        return self.tally.of(self.array[index])

    def __setitem__(self, index: tuple[int, ...], value: Num) -> None:
        self.touched.add(tuple(int(at) for at in index))
        self.array[index] = value.value

    @property
    def bytes(self) -> int:
        """Bytes of the distinct elements that were touched."""
        return len(self.touched) * self.array.itemsize


class Memory:
    """What one calculation reads and writes, and what it computes."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.inputs: list[Traced] = []
        self.outputs: list[Traced] = []

    def read(self, array: Array) -> Traced:
        self.inputs.append(Traced(array, self.tally))
        return self.inputs[-1]

    def write(self, shape: Sequence[int]) -> Traced:
        self.outputs.append(Traced(np.zeros(shape, np.float32), self.tally))
        return self.outputs[-1]

    def check(self, found: Work, *references: Array, tolerance: float = 1e-4) -> None:
        """Results, arithmetic and bytes are those of the work."""
        for made, reference in zip(self.outputs, references, strict=True):
            np.testing.assert_allclose(made.array, reference, rtol=tolerance, atol=tolerance)
        assert flops(found) == self.tally.flops()
        assert found.bytes_read == sum(array.bytes for array in self.inputs)
        assert found.bytes_written == sum(array.bytes for array in self.outputs)


def positions(dims: Iterable[int]) -> Iterable[tuple[int, ...]]:
    return itertools.product(*map(range, dims))


# --- convolution and pooling ----------------------------------------------------------------


@st.composite
def windows(draw: st.DrawFn, ranks: tuple[int, int] = (1, 3)) -> dict[str, list[int]]:
    """A window that meets every element: steps no longer than the window, and sizes that divide."""
    rank = draw(st.integers(*ranks))
    kernel = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    strides = [draw(st.integers(1, k)) for k in kernel]
    dilations = [draw(st.integers(1, 2)) if s == 1 else 1 for s in strides]
    pads = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    dims = []
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        steps = draw(st.integers(1, 2)) + (reach - 1 if dilations[axis] > 1 else 0)
        around = pads[axis] + pads[rank + axis]
        dims.append(max(reach + (steps - 1) * strides[axis] - around, 1))
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads, "dims": dims}


def attributes(window: dict[str, list[int]]) -> dict[str, Any]:
    return {name: value for name, value in window.items() if name != "dims"}


def taps(
    window: dict[str, list[int]], position: tuple[int, ...]
) -> Iterable[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """Offsets in the window at an output position, with the input element under each or None for padding."""
    begin = window["pads"][: len(position)]
    for offset in positions(window["kernel_shape"]):
        cell = tuple(
            p * s + o * d - b
            for p, s, o, d, b in zip(position, window["strides"], offset, window["dilations"], begin, strict=True)
        )
        yield offset, cell if all(0 <= at < n for at, n in zip(cell, window["dims"], strict=True)) else None


@FEW
@given(window=windows(), group=st.integers(1, 3), per_group=st.integers(1, 2), filters=st.integers(1, 2))
def test_convolution_in_one_to_three_dimensions(
    window: dict[str, list[int]], group: int, per_group: int, filters: int
) -> None:
    x = values(2, group * per_group, *window["dims"])
    w, b = values(group * filters, per_group, *window["kernel_shape"], seed=1), values(group * filters, seed=2)
    op, (y,) = run("Conv", [x, w, b], group=group, **attributes(window))
    memory = Memory()
    source, weights, bias = memory.read(x), memory.read(w), memory.read(b)
    result = memory.write(y.shape)
    for n, m, *position in positions(y.shape):
        acc = memory.tally.of(0)
        for c in range(per_group):
            for offset, cell in taps(window, tuple(position)):
                # A padded position is multiplied too, by a zero that is not in memory.
                zero = memory.tally.of(0)
                value = zero if cell is None else source[(n, m // filters * per_group + c, *cell)]
                acc = acc.mac(value, weights[(m, c, *offset)])
        result[(n, m, *position)] = acc + bias[(m,)]
    memory.check(work(op), y)


def test_a_convolution_that_steps_over_pixels_does_not_read_them() -> None:
    """Pixels between two steps may share their bursts of memory with others, or not: no kernel has to read them."""
    x, w = values(1, 2, 7, 7), values(3, 2, 1, 1)
    op, (y,) = run("Conv", [x, w], strides=[2, 2])
    assert y.shape == (1, 3, 4, 4)
    assert work(op).bytes_read == 2 * 4 * 4 * 4 + w.nbytes


@FEW
@given(
    group=st.integers(1, 2),
    channels=st.integers(1, 2),
    filters=st.integers(1, 2),
    kernel=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    extra=st.integers(0, 1),
    crop=st.integers(0, 1),
    bias=st.booleans(),
)
def test_transposed_convolution(
    group: int,
    channels: int,
    filters: int,
    kernel: list[int],
    stride: int,
    dilation: int,
    extra: int,
    crop: int,
    bias: bool,
) -> None:
    rank = len(kernel)
    extra = min(extra, stride - 1)
    reach = [(k - 1) * dilation + 1 for k in kernel]
    crop = crop if all(2 * stride + r + extra > 2 for r in reach) else 0
    x = values(1, group * channels, *[3] * rank)
    w, b = values(group * channels, filters, *kernel, seed=1), values(group * filters, seed=2)
    op, (y,) = run(
        "ConvTranspose",
        [x, w, b] if bias else [x, w],
        group=group,
        strides=[stride] * rank,
        dilations=[dilation] * rank,
        output_padding=[extra] * rank,
        pads=[crop] * 2 * rank,
    )
    memory = Memory()
    source, weights = memory.read(x), memory.read(w)
    whole = [2 * stride + r + extra for r in reach]
    sums = {(m, *at): memory.tally.of(0) for m in range(group * filters) for at in positions(whole)}
    for c, m in itertools.product(range(group * channels), range(filters)):
        target = c // channels * filters + m
        for position in positions(x.shape[2:]):
            for offset in positions(kernel):
                at = (target, *(p * stride + o * dilation for p, o in zip(position, offset, strict=True)))
                sums[at] = sums[at].mac(source[(0, c, *position)], weights[(c, m, *offset)])
    added = memory.read(b) if bias else None
    result = memory.write(y.shape)
    for m, *place in positions(y.shape[1:]):
        value = sums[(m, *(p + crop for p in place))]
        result[(0, m, *place)] = value + added[(m,)] if added else value
    memory.check(work(op), y)


@FEW
@given(
    window=windows(ranks=(1, 2)),
    kind=st.sampled_from(["MaxPool", "AveragePool", "LpPool"]),
    include=st.booleans(),
    ceil=st.booleans(),
)
def test_pooling(window: dict[str, list[int]], kind: str, include: bool, ceil: bool) -> None:
    """Every window counts in full, whatever of it is padding and whether padding counts in the average."""
    if kind == "LpPool":
        window = {**window, "pads": [0] * len(window["pads"]), "dilations": [1] * len(window["dilations"])}
        window["dims"] = [max(d, k) for d, k in zip(window["dims"], window["kernel_shape"], strict=True)]
    x = values(1, 2, *window["dims"])
    extra: dict[str, Any] = (
        {"count_include_pad": int(include)} if kind == "AveragePool" else {"p": 2} if kind == "LpPool" else {}
    )
    op, (y,) = run(kind, [x], version=22, ceil_mode=int(ceil), **attributes(window), **extra)
    tally = Tally()
    size = math.prod(window["kernel_shape"])
    for _ in positions(y.shape):
        under = [tally.of(1.0) for _ in range(size)]
        if kind == "MaxPool":
            largest([tally.of(-math.inf), *under])
        elif kind == "AveragePool":
            total(under) / size
        else:
            total([value * value for value in under]).sqrt()
    found = work(op)
    assert flops(found) == tally.flops()
    assert (found.bytes_read, found.bytes_written) == (x.nbytes, y.nbytes)


def test_maxpool_writes_its_indices_too() -> None:
    op, (y, where) = run("MaxPool", [values(1, 2, 6, 6)], 2, kernel_shape=[2, 2], strides=[2, 2])
    assert where.dtype == np.int64
    assert work(op).bytes_written == y.nbytes + where.nbytes == 3 * y.nbytes


# --- matrix products ------------------------------------------------------------------------


@st.composite
def broadcast_pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that MatMul takes: batches of different length that broadcast, and operands of rank 1."""
    k = draw(st.integers(1, 3))
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    left, right = (
        [draw(st.sampled_from([1, dim])) for dim in batch[draw(st.integers(0, len(batch))) :]] for _ in range(2)
    )
    a, b = (*left, draw(st.integers(1, 3)), k), (*right, k, draw(st.integers(1, 3)))
    if draw(st.booleans()) and len(a) == 2:
        a = (k,)
    if draw(st.booleans()) and len(b) == 2:
        b = (k,)
    return a, b


@FEW
@given(pair=broadcast_pairs())
def test_matmul_broadcasts_and_reads_each_operand_once(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = values(*pair[0]), values(*pair[1], seed=1)
    op, (y,) = run("MatMul", [a, b])
    memory = Memory()
    left, right = memory.read(a), memory.read(b)
    result = memory.write(y.shape)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])

    def under(at: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
        """The element of a batch of these dimensions that a broadcast position means."""
        return tuple(0 if dim == 1 else p for p, dim in zip(at[len(at) - len(dims) :], dims, strict=True))

    for at in positions(batch):
        rows = range(a.shape[-2]) if a.ndim > 1 else [None]
        columns = range(b.shape[-1]) if b.ndim > 1 else [None]
        for i, j in itertools.product(rows, columns):
            acc = memory.tally.of(0)
            for p in range(a.shape[-1]):
                x = left[(*under(at, a.shape[:-2]), i, p) if i is not None else (p,)]
                z = right[(*under(at, b.shape[:-2]), p, j) if j is not None else (p,)]
                acc = acc.mac(x, z)
            result[(*at, *(index for index in (i, j) if index is not None))] = acc
    memory.check(work(op), y)


@pytest.mark.parametrize("c", [(), (1,), (3,), (2, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
def test_gemm_reads_its_summand_once(c: tuple[int, ...], beta: float) -> None:
    """Also where ``beta`` is 0: the definition reads C, and ONNX has no way to leave it out but to omit it."""
    a, b, addend = values(4, 2), values(3, 4, seed=1), values(*c, seed=2)
    op, (y,) = run("Gemm", [a, b, addend], transA=1, transB=1, beta=beta)
    found = work(op)
    assert found.bytes_read == a.nbytes + b.nbytes + addend.nbytes
    assert found.bytes_written == y.nbytes
    assert found.vector_flops == {1.0: 6, 0.5: 6 + addend.size, 0.0: 0}[beta]


LABELS = "abcd"


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, list[str], str]:
    """An Einsum equation with its terms and result: no label twice in a term, as contractions have them."""
    count = draw(st.integers(1, 3))
    terms = ["".join(draw(st.permutations(LABELS))[: draw(st.integers(1, 3))]) for _ in range(count)]
    seen = sorted(set("".join(terms)))
    result = "".join(draw(st.permutations(seen))[: draw(st.integers(0, len(seen)))])
    return ",".join(terms) + "->" + result, terms, result


@FEW
@given(equation=equations(), sizes=st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_einsum_contracts_from_left_to_right(equation: tuple[str, list[str], str], sizes: list[int]) -> None:
    text, terms, result = equation
    dims = dict(zip(LABELS, sizes, strict=True))
    arrays = [values(*(dims[label] for label in term), seed=index) for index, term in enumerate(terms)]
    op, (y,) = run("Einsum", arrays, equation=text)
    memory = Memory()
    tally = memory.tally

    def summed(labels: str, table: dict[tuple[int, ...], Num], kept: str) -> dict[tuple[int, ...], Num]:
        """Sums over the labels that are not kept: one add for every element that disappears."""
        sums: dict[tuple[int, ...], Num] = {}
        for at, value in table.items():
            target = tuple(p for p, label in zip(at, labels, strict=True) if label in kept)
            sums[target] = sums[target] + value if target in sums else value
        return sums

    left, have = {}, ""
    for index, term in enumerate(terms):
        later = "".join(terms[index + 1 :]) + result
        traced = memory.read(arrays[index])
        table = {at: traced[at] for at in positions(traced.array.shape)}
        kept = "".join(label for label in term if label in later or label in have)
        table = summed(term, table, kept)
        if index == 0:
            left, have = table, kept
            continue
        own = "".join(label for label in have if label in later or label in kept)
        left = summed(have, left, own)
        joint = own + "".join(label for label in kept if label not in own)
        stays = "".join(label for label in joint if label in later)
        products: dict[tuple[int, ...], Num] = {}
        for at in positions(dims[label] for label in joint):
            place = dict(zip(joint, at, strict=True))
            a = left[tuple(place[label] for label in own)]
            b = table[tuple(place[label] for label in kept)]
            target = tuple(place[label] for label in stays)
            if stays == joint:
                products[target] = a * b
            else:
                products[target] = products.get(target, tally.of(0)).mac(a, b)
        left, have = products, stays
    made = memory.write(y.shape)
    for at in positions(y.shape):
        place = dict(zip(result, at, strict=True))
        made[at] = left[tuple(place[label] for label in have)]
    memory.check(work(op), y, tolerance=1e-3)


# --- rows and axes --------------------------------------------------------------------------


def _shifted(row: list[Num]) -> list[Num]:
    top = largest(row)
    return [value - top for value in row]


REDUCTIONS: dict[str, Callable[[list[Num]], Num]] = {
    "ReduceSum": total,
    "ReduceMean": lambda row: total(row) / len(row),
    "ReduceMax": largest,
    "ReduceMin": lambda row: _folded(row, Num.min),
    "ReduceProd": lambda row: _folded(row, Num.__mul__),
    "ReduceL1": lambda row: total([abs(value) for value in row]),
    "ReduceL2": lambda row: total([value * value for value in row]).sqrt(),
    "ReduceSumSquare": lambda row: total([value * value for value in row]),
    "ReduceLogSum": lambda row: total(row).log(),
    "ReduceLogSumExp": lambda row: total([v.exp() for v in _shifted(row)]).log() + max(v.value for v in row),
}


def _folded(row: list[Num], combine: Callable[[Num, Num], Num]) -> Num:
    result = row[0]
    for value in row[1:]:
        result = combine(result, value)
    return result


@st.composite
def reductions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int] | None]:
    dims = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    axes = draw(st.none() | st.lists(st.sampled_from(range(len(dims))), min_size=1, unique=True))
    return dims, axes and [axis - len(dims) if draw(st.booleans()) else axis for axis in axes]


@FEW
@given(case=reductions(), kind=st.sampled_from(sorted(REDUCTIONS)), keep=st.integers(0, 1))
def test_reductions_over_any_axes(case: tuple[tuple[int, ...], list[int] | None], kind: str, keep: int) -> None:
    dims, axes = case
    x = abs(values(*dims)) + np.float32(0.1)
    inputs = [x] if axes is None else [x, np.array(axes, dtype=np.int64)]
    op, (y,) = run(kind, inputs, version=18, keepdims=keep)
    gone = {axis % len(dims) for axis in (range(len(dims)) if axes is None else axes)}
    memory = Memory()
    source = memory.read(x)
    kept = [dim for axis, dim in enumerate(dims) if axis not in gone]
    made = memory.write(kept)
    for at in positions(kept):
        rest = iter(at)
        lanes = [range(dim) if axis in gone else [next(rest)] for axis, dim in enumerate(dims)]
        made[at] = REDUCTIONS[kind]([source[cell] for cell in itertools.product(*lanes)])
    found = work(op)
    np.testing.assert_allclose(made.array.reshape(y.shape), y, rtol=1e-4)
    assert flops(found) == memory.tally.flops()
    assert found.bytes_read == source.bytes + (8 * len(axes) if axes else 0)
    assert found.bytes_written == made.bytes


@FEW
@given(
    dims=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    data=st.data(),
    kind=st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]),
)
def test_softmax_along_any_axis(dims: list[int], data: st.DataObject, kind: str) -> None:
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    x = values(*dims)
    op, (y,) = run(kind, [x], version=13, axis=axis)
    tally = Tally()
    lines = tally.array(np.moveaxis(x, axis, -1))
    result = np.empty(lines.shape, dtype=object)
    for at in positions(lines.shape[:-1]):
        row = list(lines[at])
        top = largest(row)
        if kind == "Hardmax":
            result[at] = [Num(float(i == int(np.argmax(plain(np.array(row))))), tally) for i in range(len(row))]
            continue
        shifted = [value - top for value in row]
        powers = [value.exp() for value in shifted]
        below = total(powers)
        if kind == "Softmax":
            result[at] = [power / below for power in powers]
        else:
            shift = below.log()
            result[at] = [value - shift for value in shifted]
    np.testing.assert_allclose(np.moveaxis(plain(result), -1, axis), y, rtol=1e-4, atol=1e-5)
    found = work(op)
    assert flops(found) == tally.flops()
    assert (found.bytes_read, found.bytes_written) == (x.nbytes, y.nbytes)


# --- recurrent and attention ----------------------------------------------------------------

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@FEW
@given(
    kind=st.sampled_from(["RNN", "GRU"]),
    steps=st.integers(1, 3),
    batch=st.integers(1, 2),
    inputs=st.integers(1, 3),
    hidden=st.integers(1, 2),
    bias=st.booleans(),
    start=st.booleans(),
    direction=st.sampled_from(["forward", "reverse", "bidirectional"]),
)
def test_rnn_and_gru_in_every_direction(
    kind: str, steps: int, batch: int, inputs: int, hidden: int, bias: bool, start: bool, direction: str
) -> None:
    gates, ways = GATES[kind], 2 if direction == "bidirectional" else 1
    x = values(steps, batch, inputs)
    w, r = values(ways, gates * hidden, inputs, seed=1), values(ways, gates * hidden, hidden, seed=2)
    b = values(ways, 2 * gates * hidden, seed=3) if bias else None
    first = values(ways, batch, hidden, seed=4) if start else None
    op, (y, last) = run(kind, [x, w, r, b, None, first], 2, hidden_size=hidden, direction=direction)
    memory = Memory()
    tally = memory.tally
    xs, ws, rs = memory.read(x), memory.read(w), memory.read(r)
    bs = None if b is None else memory.read(b)
    hs = None if first is None else memory.read(first)
    every, final = memory.write(y.shape), memory.write(last.shape)
    rows = gates * hidden

    def gate(d: int, t: int, n: int, row: int, state: list[Num]) -> Num:
        acc = tally.of(0)
        for i in range(inputs):
            acc = acc.mac(xs[t, n, i], ws[d, row, i])
        for i in range(hidden):
            acc = acc.mac(state[i], rs[d, row, i])
        return acc if bs is None else acc + bs[d, row] + bs[d, rows + row]

    def sigmoid(value: Num) -> Num:
        return 1.0 / (1.0 + (-value).exp())

    for d, n in itertools.product(range(ways), range(batch)):
        state = [hs[d, n, u] if hs else tally.of(0) for u in range(hidden)]
        backwards = direction == "reverse" or d == 1
        for t in reversed(range(steps)) if backwards else range(steps):
            if kind == "RNN":
                state = [gate(d, t, n, u, state).tanh() for u in range(hidden)]
            else:
                z = [sigmoid(gate(d, t, n, u, state)) for u in range(hidden)]
                reset = [sigmoid(gate(d, t, n, hidden + u, state)) for u in range(hidden)]
                scaled = [a * h for a, h in zip(reset, state, strict=True)]
                new = [gate(d, t, n, 2 * hidden + u, scaled).tanh() for u in range(hidden)]
                state = [(1.0 - z[u]) * new[u] + z[u] * state[u] for u in range(hidden)]
            for u in range(hidden):
                every[t, d, n, u] = state[u]
        for u in range(hidden):
            final[d, n, u] = state[u]
    memory.check(work(op), y, last)


@FEW
@given(
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    shared=st.integers(1, 2),
    queries=st.integers(1, 3),
    new=st.integers(1, 2),
    past=st.integers(0, 2),
    depth=st.integers(1, 2),
    value_depth=st.integers(1, 2),
    masked=st.booleans(),
    cap=st.sampled_from([0.0, 2.0]),
)
def test_attention_with_shared_heads_and_a_past(
    batch: int,
    kv_heads: int,
    shared: int,
    queries: int,
    new: int,
    past: int,
    depth: int,
    value_depth: int,
    masked: bool,
    cap: float,
) -> None:
    heads, keys = kv_heads * shared, past + new
    q = values(batch, heads, queries, depth)
    k, v = values(batch, kv_heads, new, depth, seed=1), values(batch, kv_heads, new, value_depth, seed=2)
    mask = values(queries, keys, seed=3) if masked else None
    before = (
        [values(batch, kv_heads, past, depth, seed=4), values(batch, kv_heads, past, value_depth, seed=5)]
        if past
        else [None, None]
    )
    inputs = [q, k, v, mask, *before]
    while inputs[-1] is None:
        inputs.pop()
    op, results = run("Attention", inputs, 3 if past else 1, version=23, softcap=cap)
    memory = Memory()
    tally = memory.tally
    qs, ks, vs = memory.read(q), memory.read(k), memory.read(v)
    masks = None if mask is None else memory.read(mask)
    pasts = [memory.read(array) for array in before if array is not None]
    y = memory.write(results[0].shape)
    presents = [memory.write(array.shape) for array in results[1:]]

    def joined(which: int, fresh: Traced, n: int, h: int, j: int, d: int) -> Num:
        value = pasts[which][n, h, j, d] if j < past else fresh[n, h, j - past, d]
        if presents:
            presents[which][n, h, j, d] = value
        return value

    for n, h, i in positions((batch, heads, queries)):
        scores = []
        for j in range(keys):
            acc = tally.of(0)
            for d in range(depth):
                acc = acc.mac(qs[n, h, i, d], joined(0, ks, n, h // shared, j, d))
            acc = acc * (1 / math.sqrt(depth))
            if cap:
                acc = (acc / cap).tanh() * cap
            scores.append(acc + masks[i, j] if masks else acc)
        top = largest(scores)
        powers = [(score - top).exp() for score in scores]
        below = total(powers)
        weights = [power / below for power in powers]
        for d in range(value_depth):
            acc = tally.of(0)
            for j in range(keys):
                acc = acc.mac(weights[j], joined(1, vs, n, h // shared, j, d))
            y[n, h, i, d] = acc
    memory.check(work(op), *results, tolerance=1e-3)


# --- moves: how much of the data arrives ----------------------------------------------------

FIRST = 1000.0
"""Data that is moved is numbered from here on; what fills gaps is smaller."""


def numbered(*dims: int) -> Array:
    """An array in which every element is another number."""
    return np.arange(FIRST, FIRST + math.prod(dims), dtype=np.float32).reshape(dims)


def arrived(*results: Array) -> int:
    """How many elements of the numbered data are in the results."""
    return int((np.unique(np.concatenate([result.ravel() for result in results])) >= FIRST).sum())


def check_moved(op_type: str, inputs: list[Array | None], outputs: int = 1, **more: Any) -> Work:
    """What is read of the first input is what arrives; of the others, all of it."""
    op, results = run(
        op_type, inputs, outputs, constants=[i for i, array in enumerate(inputs) if i and array is not None], **more
    )
    found = work(op)
    # Nothing needs to be read for a result without elements.
    some = any(result.size for result in results)
    others = sum(array.nbytes for array in inputs[1:] if array is not None and some)
    data = 4 * arrived(*results)
    assert found.bound == "exact"
    assert (found.bytes_read - others, found.bytes_written) == (data, sum(result.nbytes for result in results))
    assert not found.flops
    return found


def integers(*values_: int) -> Array:
    return np.array(values_, dtype=np.int64)


@FEW
@given(dims=st.lists(st.integers(1, 5), min_size=1, max_size=3), data=st.data())
def test_slice(dims: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.sampled_from(range(len(dims))), min_size=1, unique=True))
    starts, ends = (data.draw(st.lists(st.integers(-6, 6), min_size=len(axes), max_size=len(axes))) for _ in range(2))
    steps = data.draw(st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=len(axes), max_size=len(axes)))
    check_moved("Slice", [numbered(*dims), *(integers(*row) for row in (starts, ends, axes, steps))])


@FEW
@given(dims=st.lists(st.integers(1, 4), min_size=1, max_size=3), data=st.data())
def test_gather(dims: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    n = dims[axis]
    indices = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=5))
    check_moved("Gather", [numbered(*dims), integers(*indices)], axis=axis)


@FEW
@given(dims=st.lists(st.integers(1, 3), min_size=1, max_size=3), data=st.data())
def test_indices_that_are_data_are_an_upper_bound(dims: list[int], data: st.DataObject) -> None:
    """GatherElements and GatherND name single elements: as many as are made, or fewer where they repeat."""
    axis = data.draw(st.integers(0, len(dims) - 1))
    drawn = data.draw(st.lists(st.integers(0, dims[axis] - 1), min_size=math.prod(dims), max_size=math.prod(dims)))
    x = numbered(*dims)
    cases: list[tuple[str, Array, dict[str, Any]]] = [
        ("GatherElements", integers(*drawn).reshape(dims), {"axis": axis}),
        ("GatherND", integers(*(at % dims[0] for at in drawn))[:, None], {}),
    ]
    for op_type, indices, extra in cases:
        op, (y,) = run(op_type, [x, indices], **extra)
        found = work(op)
        assert found.bound == "upper"
        assert 4 * arrived(y) <= found.bytes_read - indices.nbytes <= min(x.nbytes, y.nbytes)


@FEW
@given(
    dims=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    data=st.data(),
    mode=st.sampled_from(["constant", "edge", "reflect"]),
)
def test_pad(dims: list[int], data: st.DataObject, mode: str) -> None:
    low = -1 if mode == "constant" else 0
    pads = data.draw(st.lists(st.integers(low, 1), min_size=2 * len(dims), max_size=2 * len(dims)))
    check_moved("Pad", [numbered(*dims), integers(*pads)], mode=mode)


@FEW
@given(rows=st.integers(1, 4), columns=st.integers(1, 4), upper=st.integers(0, 1), k=st.integers(-5, 5))
def test_trilu(rows: int, columns: int, upper: int, k: int) -> None:
    check_moved("Trilu", [numbered(2, rows, columns), np.array(k, dtype=np.int64)], upper=upper)


@FEW
@given(dims=st.lists(st.integers(1, 4), min_size=2, max_size=4), data=st.data())
def test_nearest_resize_reads_what_it_picks(dims: list[int], data: st.DataObject) -> None:
    sizes = [data.draw(st.integers(1, 6)) for _ in dims]
    x = numbered(*dims)
    target = np.array(sizes, dtype=np.int64)
    check_moved("Resize", [x, None, None, target], coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@pytest.mark.parametrize(
    ("op_type", "shape", "inputs", "extra"),
    [
        ("Transpose", (2, 3, 4), [], {"perm": [2, 0, 1]}),
        ("Tile", (2, 3), [integers(2, 3)], {}),
        ("Expand", (2, 1, 3), [integers(2, 4, 3)], {}),
        ("DepthToSpace", (1, 8, 2, 3), [], {"blocksize": 2}),
        ("SpaceToDepth", (1, 2, 4, 6), [], {"blocksize": 2}),
        ("CenterCropPad", (3, 5), [integers(5, 2)], {}),
        ("ReverseSequence", (3, 2), [integers(1, 3)], {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_moves(op_type: str, shape: tuple[int, ...], inputs: list[Array], extra: dict[str, Any]) -> None:
    check_moved(op_type, [numbered(*shape), *inputs], **extra)


def test_split_writes_every_part_and_concat_reads_each_input_once() -> None:
    x = numbered(4, 6)
    check_moved("Split", [x, integers(1, 3)], 2, axis=0)
    op, (y,) = run("Concat", [x, x[:2]], axis=0)
    found = work(op)
    assert (found.bytes_read, found.bytes_written) == (x.nbytes + x[:2].nbytes, y.nbytes)


# --- transforms -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 8, 2), (3, 16, 4, 2), (2, 4, 32, 1)])
def test_a_transform_along_an_axis_that_is_data_is_bounded_by_every_axis(shape: tuple[int, ...]) -> None:
    fixed = []
    for axis in range(len(shape) - 1):
        op, _ = run("DFT", [values(*shape), None, np.array(axis, dtype=np.int64)], version=20, constants=[2])
        assert work(op).bound == "exact"
        fixed.append(work(op).vector_flops)
    op, (y,) = run("DFT", [values(*shape), None, np.array(1, dtype=np.int64)], version=20)
    found = work(op)
    assert (found.vector_flops, found.bound) == (max(fixed), "upper")
    assert (found.bytes_read, found.bytes_written) == (4 * math.prod(shape) + 8, y.nbytes)


@pytest.mark.parametrize("length", [7, 8])
def test_frames_of_a_length_that_is_data_are_bounded_by_their_bins(length: int) -> None:
    """n points have n // 2 + 1 bins: 6 and 7, or 8 and 9, cannot be told apart."""
    x, step, size = values(1, 40, 1), np.array(4, dtype=np.int64), np.array(length, dtype=np.int64)
    known, _ = run("STFT", [x, step, None, size], version=17, constants=[1, 3])
    unknown, _ = run("STFT", [x, step, None, size], version=17, constants=[1])
    assert (work(known).bound, work(unknown).bound) == ("exact", "upper")
    longer, _ = run("STFT", [x, step, None, np.array(length | 1, dtype=np.int64)], version=17, constants=[1, 3])
    frames = [made.shape[1] for op in (unknown, longer) if (made := op.outputs[0]) and made.shape]
    per_frame = [work(op).vector_flops // int(count) for op, count in zip((unknown, longer), frames, strict=True)]
    assert per_frame[0] == per_frame[1] >= work(known).vector_flops // int(frames[0])
