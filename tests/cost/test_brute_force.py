"""Cost functions against loops that do the arithmetic, one counted operation at a time.

The loops' results are compared with ONNX Runtime's, so that what is counted is what the op does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.counting import FEW, Array, Num, Tally, assert_same, flops, largest, run, tensor, total, values, work
from trtprof.base.records import Op


def pads_of(
    auto_pad: str, pads: list[int], dims: list[int], kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """Begin and end pads as the ONNX specification defines ``auto_pad``."""
    if auto_pad in ("NOTSET", "VALID"):
        return pads if auto_pad == "NOTSET" else [0] * len(pads)
    begin, end = [], []
    for dim, k, stride, dilation in zip(dims, kernel, strides, dilations, strict=True):
        reach = (k - 1) * dilation + 1
        needed = max((math.ceil(dim / stride) - 1) * stride + reach - dim, 0)
        small, large = needed // 2, needed - needed // 2
        begin.append(small if auto_pad == "SAME_UPPER" else large)
        end.append(large if auto_pad == "SAME_UPPER" else small)
    return begin + end


@st.composite
def windows(draw: st.DrawFn, dilated: bool = True) -> dict[str, Any]:
    """Spatial sizes and a window that fits them."""
    rank = draw(st.integers(1, 2))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, strides = each(1, 3), each(1, 3)
    dilations = each(1, 2) if dilated else [1] * rank
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto_pad.startswith("SAME"):
        dilations = [1] * rank
        # ONNX Runtime refuses what it takes for negative padding.
        strides = [min(stride, k) for stride, k in zip(strides, kernel, strict=True)]
    dims = [
        reach + draw(st.integers(0, 3)) for reach in ((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    ]
    pads = [draw(st.integers(0, k - 1)) for k in kernel * 2] if auto_pad == "NOTSET" else [0] * 2 * rank
    return {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "auto_pad": auto_pad,
        "pads": pads,
        "dims": dims,
    }


def attributes(window: dict[str, Any], dilations: bool = True) -> dict[str, Any]:
    found = {"kernel_shape": window["kernel"], "strides": window["strides"], "auto_pad": window["auto_pad"]}
    if dilations:
        found["dilations"] = window["dilations"]
    if window["auto_pad"] == "NOTSET":
        found["pads"] = window["pads"]
    return found


def patches(window: dict[str, Any], padded: Any, dims_out: tuple[int, ...]) -> Any:
    """Every output position with the list of padded input positions under its window."""
    for position in itertools.product(*map(range, dims_out)):
        cells = []
        for offset in itertools.product(*map(range, window["kernel"])):
            steps = zip(position, window["strides"], offset, window["dilations"], strict=True)
            cells.append(tuple(p * s + o * d for p, s, o, d in steps))
        yield position, cells


def touched(window: dict[str, Any], source: Array, dims_out: tuple[int, ...]) -> int:
    """Input positions that any window takes, padding left out."""
    pads = pads_of(
        window["auto_pad"], window["pads"], window["dims"], window["kernel"], window["strides"], window["dilations"]
    )
    inside = [range(before, before + dim) for before, dim in zip(pads, window["dims"], strict=False)]
    cells = {cell for _, each in patches(window, source, dims_out) for cell in each}
    return sum(all(at in places for at, places in zip(cell, inside, strict=True)) for cell in cells)


def padded(window: dict[str, Any], x: Array, fill: float) -> Array:
    pads = pads_of(
        window["auto_pad"], window["pads"], window["dims"], window["kernel"], window["strides"], window["dilations"]
    )
    rank = len(window["dims"])
    # One more on the far side than asked for, because a window may reach over what divides evenly.
    return np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)], constant_values=fill)


@FEW
@given(
    window=windows(), batch=st.integers(1, 2), group=st.integers(1, 2), per_group=st.integers(1, 2), bias=st.booleans()
)
def test_conv(window: dict[str, Any], batch: int, group: int, per_group: int, bias: bool) -> None:
    channels, filters = group * per_group, group * 2
    x, w = values(batch, channels, *window["dims"]), values(filters, per_group, *window["kernel"], seed=1)
    b = values(filters, seed=2) if bias else None
    op, (y,) = run("Conv", [x, w, b] if bias else [x, w], group=group, **attributes(window))
    tally = Tally()
    source, weights = tally.array(padded(window, x, 0)), tally.array(w)
    result = np.empty(y.shape, dtype=object)
    for n, m in itertools.product(range(batch), range(filters)):
        first = m // 2 * per_group
        for position, cells in patches(window, source, y.shape[2:]):
            acc = tally.of(0)
            for c in range(per_group):
                for cell, weight in zip(cells, weights[m, c].ravel(), strict=True):
                    acc = acc.mac(source[(n, first + c, *cell)], weight)
            result[(n, m, *position)] = acc + float(b[m]) if b is not None else acc
    assert_same(result, y)
    found = work(op)
    assert flops(found) == tally.flops()
    seen = batch * channels * touched(window, source, y.shape[2:]) * x.itemsize
    assert found.bytes_read == seen + w.nbytes + (b.nbytes if b is not None else 0)
    assert found.bytes_written == y.nbytes


@FEW
@given(window=windows(dilated=False), stretch=st.integers(1, 2))
def test_conv_transpose(window: dict[str, Any], stretch: int) -> None:
    x, w = values(1, 2, *window["dims"]), values(2, 3, *window["kernel"], seed=1)
    strides = [stretch] * len(window["dims"])
    op, (y,) = run("ConvTranspose", [x, w], strides=strides)
    tally = Tally()
    source, weights = tally.array(x), tally.array(w)
    result = tally.array(np.zeros(y.shape))
    for c, m in itertools.product(range(2), range(3)):
        for position in itertools.product(*map(range, x.shape[2:])):
            for offset in itertools.product(*map(range, window["kernel"])):
                target = (0, m, *(p * stretch + o for p, o in zip(position, offset, strict=True)))
                result[target] = result[target].mac(source[(0, c, *position)], weights[(c, m, *offset)])
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()


@FEW
@given(window=windows(dilated=False), kind=st.sampled_from(["MaxPool", "AveragePool"]))
def test_pool(window: dict[str, Any], kind: str) -> None:
    x = values(1, 2, *window["dims"])
    extra: dict[str, Any] = {"count_include_pad": 1} if kind == "AveragePool" else {}
    op, (y,) = run(kind, [x], **attributes(window, dilations=False), **extra)
    tally = Tally()
    source = tally.array(padded(window, x, -math.inf if kind == "MaxPool" else 0))
    result = np.empty(y.shape, dtype=object)
    for c in range(2):
        for position, cells in patches(window, source, y.shape[2:]):
            # The maximum starts from minus infinity; the average starts from its first value and divides.
            under = [source[(0, c, *cell)] for cell in cells]
            if kind == "MaxPool":
                result[(0, c, *position)] = largest([tally.of(-math.inf), *under])
            else:
                result[(0, c, *position)] = total(under) / len(cells)
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()
    assert work(op).bytes_read == 2 * touched(window, source, y.shape[2:]) * x.itemsize


@FEW
@given(
    m=st.integers(1, 3),
    n=st.integers(1, 3),
    k=st.integers(1, 4),
    trans_a=st.booleans(),
    trans_b=st.booleans(),
    alpha=st.sampled_from([1.0, 0.5]),
    beta=st.sampled_from([1.0, 0.25]),
    c=st.sampled_from([None, (), (1,), "n", "mn"]),
)
def test_gemm(m: int, n: int, k: int, trans_a: bool, trans_b: bool, alpha: float, beta: float, c: Any) -> None:
    a, b = values(m, k), values(k, n, seed=1)
    addend = None if c is None else values(*{"n": (n,), "mn": (m, n)}.get(c, c), seed=2)
    inputs = [np.ascontiguousarray(a.T) if trans_a else a, np.ascontiguousarray(b.T) if trans_b else b]
    flags: dict[str, Any] = {"transA": int(trans_a), "transB": int(trans_b), "alpha": alpha, "beta": beta}
    op, (y,) = run("Gemm", inputs if addend is None else [*inputs, addend], **flags)
    tally = Tally()
    left, right = tally.array(a), tally.array(b)
    result = np.empty((m, n), dtype=object)
    scaled = None
    if addend is not None:
        scaled = tally.array(addend)
        if beta != 1.0:
            scaled = np.vectorize(lambda item: item * beta, otypes=[object])(scaled)
        scaled = np.broadcast_to(scaled, (m, n))
    for i, j in itertools.product(range(m), range(n)):
        acc = tally.of(0)
        for p in range(k):
            acc = acc.mac(left[i, p], right[p, j])
        if alpha != 1.0:
            acc = acc * alpha
        result[i, j] = acc if scaled is None else acc + scaled[i, j]
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((2, 3), (5, 3, 1)),
        ((1, 2, 3), (4, 3, 2)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
        ((3, 1, 4), (1, 4, 1)),
    ],
)
def test_matmul_broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = values(*left), values(*right, seed=1)
    op, (y,) = run("MatMul", [a, b])
    tally = Tally()
    lhs, rhs = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    batch = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
    lhs = tally.array(np.broadcast_to(lhs, batch + lhs.shape[-2:])) if a.size else lhs
    rhs = tally.array(np.broadcast_to(rhs, batch + rhs.shape[-2:])) if b.size else rhs
    result = np.empty((*batch, lhs.shape[-2], rhs.shape[-1]), dtype=object)
    for index in np.ndindex(result.shape):
        acc = tally.of(0)
        for k in range(lhs.shape[-1]):
            acc = acc.mac(lhs[(*index[:-1], k)], rhs[(*index[:-2], k, index[-1])])
        result[index] = acc
    if y.size:
        assert_same(result.reshape(y.shape), y)
    found = work(op)
    assert flops(found) == tally.flops()
    # Nothing needs to be read for a result without elements.
    assert (found.bytes_read, found.bytes_written) == (a.nbytes + b.nbytes if y.size else 0, y.nbytes)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij->", [(2, 3)]),
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("...ij,...jk->...ik", [(1, 2, 3), (4, 3, 2)]),
        ("ij,j->i", [(2, 3), (3,)]),
        ("ijk,il->l", [(2, 3, 4), (2, 5)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [values(*dims, seed=index) for index, dims in enumerate(shapes)]
    op, (y,) = run("Einsum", arrays, equation=equation)
    np.testing.assert_allclose(y, np.einsum(equation, *arrays), rtol=1e-3, atol=1e-4)
    # By hand: a contraction is 2 FLOP per point of the joint index space, a lone sum an add per
    # element that goes, an outer product a multiply per element.
    expected = {
        "ij,jk->ik": (2 * 2 * 3 * 4, 0),
        "bhqd,bhkd->bhqk": (2 * 2 * 3 * 5 * 4, 0),
        "ij,jk": (2 * 2 * 3 * 4, 0),
        "i,j->ij": (0, 6),
        "ij->": (0, 5),
        "ij->ji": (0, 0),
        "ii->i": (0, 0),
        "...ij,...jk->...ik": (2 * 4 * 2 * 2 * 3, 0),
        "ij,j->i": (2 * 2 * 3, 0),
        "ijk,il->l": (2 * 2 * 5, 24 - 2),
        "ij,jk,kl->il": (2 * (2 * 3 * 4 + 2 * 4 * 5), 0),
    }[equation]
    found = work(op)
    assert (found.tensor_flops, found.vector_flops) == expected
    diagonal = 3 * 4 if equation == "ii->i" else sum(array.nbytes for array in arrays)
    assert found.bytes_read == diagonal


# --- recurrent ------------------------------------------------------------------------------


def sigmoid(x: Num) -> Num:
    return 1.0 / (1.0 + (-x).exp())


def tanh(x: Num) -> Num:
    return x.tanh()


def relu(x: Num) -> Num:
    return x.max(0.0)


ACTIVATIONS: dict[str, Callable[[Num], Num]] = {"Sigmoid": sigmoid, "Tanh": tanh, "Relu": relu}


def gate(x: Any, h: Any, w: Any, r: Any, b: Array | None, row: int, rows: int, tally: Tally) -> Num:
    """x * W + h * R + Wb + Rb for one row of the gates."""
    acc = tally.of(0)
    for value, weight in zip(x, w[row], strict=True):
        acc = acc.mac(value, weight)
    for value, weight in zip(h, r[row], strict=True):
        acc = acc.mac(value, weight)
    return acc if b is None else acc + float(b[row]) + float(b[rows + row])


@FEW
@given(
    steps=st.integers(1, 3),
    batch=st.integers(1, 2),
    inputs=st.integers(1, 3),
    hidden=st.integers(1, 3),
    bias=st.booleans(),
    peepholes=st.booleans(),
    bidirectional=st.booleans(),
    custom=st.booleans(),
)
def test_lstm(
    steps: int, batch: int, inputs: int, hidden: int, bias: bool, peepholes: bool, bidirectional: bool, custom: bool
) -> None:
    directions = 2 if bidirectional else 1
    x = values(steps, batch, inputs)
    w, r = values(directions, 4 * hidden, inputs, seed=1), values(directions, 4 * hidden, hidden, seed=2)
    b = values(directions, 8 * hidden, seed=3) if bias else None
    p = values(directions, 3 * hidden, seed=4) if peepholes else None
    names = (["Sigmoid", "Tanh", "Relu"] if custom else ["Sigmoid", "Tanh", "Tanh"]) * directions
    extra: dict[str, Any] = {"activations": names} if custom else {}
    op, (y, y_h, y_c) = run(
        "LSTM",
        [x, w, r, b, None, None, None, p],
        3,
        hidden_size=hidden,
        direction="bidirectional" if bidirectional else "forward",
        **extra,
    )
    tally = Tally()
    f, g, out = (ACTIVATIONS[name] for name in names[:3])
    result = np.empty(y.shape, dtype=object)
    for d, n in itertools.product(range(directions), range(batch)):
        wd, rd, bd = tally.array(w[d]), tally.array(r[d]), None if b is None else b[d]
        h, c = [tally.of(0)] * hidden, [tally.of(0)] * hidden
        for t in range(steps) if d == 0 else reversed(range(steps)):
            xt = tally.array(x[t, n])
            new_h, new_c = [], []
            for u in range(hidden):
                i, o, fg, cg = (gate(xt, h, wd, rd, bd, q * hidden + u, 4 * hidden, tally) for q in range(4))
                if p is not None:
                    i, fg = i + float(p[d, u]) * c[u], fg + float(p[d, 2 * hidden + u]) * c[u]
                cell = f(fg) * c[u] + f(i) * g(cg)
                if p is not None:
                    o = o + float(p[d, hidden + u]) * cell
                new_c.append(cell)
                new_h.append(f(o) * out(cell))
            h, c = new_h, new_c
            result[t, d, n] = h
    assert_same(result, y)
    found = work(op)
    assert flops(found) == tally.flops()
    sources = [array for array in (x, w, r, b, p) if array is not None]
    assert found.bytes_read == sum(array.nbytes for array in sources)
    assert found.bytes_written == y.nbytes + y_h.nbytes + y_c.nbytes


@pytest.mark.parametrize("linear_before_reset", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_gru(linear_before_reset: int, bias: bool) -> None:
    steps, inputs, hidden = 2, 3, 2
    x, w, r = values(steps, 1, inputs), values(1, 3 * hidden, inputs, seed=1), values(1, 3 * hidden, hidden, seed=2)
    b = values(1, 6 * hidden, seed=3) if bias else None
    op, (y, _) = run("GRU", [x, w, r, b], 2, hidden_size=hidden, linear_before_reset=linear_before_reset)
    tally = Tally()
    wd, rd, bd = tally.array(w[0]), tally.array(r[0]), None if b is None else b[0]
    h = [tally.of(0)] * hidden
    result = np.empty(y.shape, dtype=object)
    for t in range(steps):
        xt = tally.array(x[t, 0])
        z = [sigmoid(gate(xt, h, wd, rd, bd, u, 3 * hidden, tally)) for u in range(hidden)]
        reset = [sigmoid(gate(xt, h, wd, rd, bd, hidden + u, 3 * hidden, tally)) for u in range(hidden)]
        new = []
        if not linear_before_reset:
            scaled = [reset[u] * h[u] for u in range(hidden)]
        for u in range(hidden):
            row = 2 * hidden + u
            if linear_before_reset:
                inner = tally.of(0)
                for value, weight in zip(h, rd[row], strict=True):
                    inner = inner.mac(value, weight)
                if bd is not None:
                    inner = inner + float(bd[3 * hidden + row])
                # The product with the gate is where the accumulation of x * W starts from.
                acc = reset[u] * inner
                for value, weight in zip(xt, wd[row], strict=True):
                    acc = acc.mac(value, weight)
                if bd is not None:
                    acc = acc + float(bd[row])
            else:
                acc = gate(xt, scaled, wd, rd, bd, row, 3 * hidden, tally)
            new.append((1.0 - z[u]) * tanh(acc) + z[u] * h[u])
        h = new
        result[t, 0, 0] = h
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()


def test_rnn_with_clip() -> None:
    steps, inputs, hidden = 3, 2, 2
    x, w, r = values(steps, 1, inputs), values(1, hidden, inputs, seed=1), values(1, hidden, hidden, seed=2)
    op, (y, _) = run("RNN", [x, w, r], 2, hidden_size=hidden, clip=0.5)
    tally = Tally()
    wd, rd = tally.array(w[0]), tally.array(r[0])
    h = [tally.of(0)] * hidden
    result = np.empty(y.shape, dtype=object)
    for t in range(steps):
        h = [
            tanh(gate(tally.array(x[t, 0]), h, wd, rd, None, u, hidden, tally).max(-0.5).min(0.5))
            for u in range(hidden)
        ]
        result[t, 0, 0] = h
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()


def test_batch_first_and_short_sequences() -> None:
    w, r = values(1, 8, 3), values(1, 8, 2)
    lengths = np.array([1, 4, 2], dtype=np.int32)
    op, _ = run("LSTM", [values(4, 3, 3), w, r, None, lengths], 1, hidden_size=2)
    assert work(op).bound == "upper"
    # Batch first only changes where the two numbers stand: 3 sequences of 4 steps.
    batch_first = Op(
        op_type="LSTM",
        opset=14,
        attributes={"hidden_size": 2, "layout": 1},
        inputs=(tensor("x", "fp32", 3, 4, 3), *op.inputs[1:4]),
        outputs=(tensor("y", "fp32", 3, 4, 1, 2),),
    )
    assert work(batch_first).tensor_flops == work(op).tensor_flops == 2 * 4 * 3 * 8 * (3 + 2)


# --- activations and arithmetic per element -------------------------------------------------

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
PER_ELEMENT: dict[str, tuple[Callable[[Num], Any], dict[str, Any]]] = {
    "Relu": (relu, {}),
    "LeakyRelu": (lambda x: x * 0.1 if x < 0 else _as_counted(x), {"alpha": 0.1}),
    "ThresholdedRelu": (lambda x: x if x > 0.5 else Num(0, x.tally), {"alpha": 0.5}),
    "Sigmoid": (sigmoid, {}),
    "HardSigmoid": (lambda x: (x * 0.2 + 0.5).min(1.0).max(0.0), {}),
    "HardSwish": (lambda x: x * (x / 6.0 + 0.5).min(1.0).max(0.0), {}),
    "Tanh": (tanh, {}),
    "Softplus": (lambda x: (x.exp() + 1.0).log(), {}),
    "Softsign": (lambda x: x / (1.0 + abs(x)), {}),
    "Mish": (lambda x: x * (x.exp() + 1.0).log().tanh(), {}),
    "Celu": (lambda x: x.max(0.0) + (0.5 * ((x / 0.5).exp() - 1.0)).min(0.0), {"alpha": 0.5}),
    "Gelu": (lambda x: 0.5 * x * (1.0 + (x / math.sqrt(2)).erf()), {}),
    "Reciprocal": (lambda x: 1.0 / x, {}),
    "Abs": (abs, {}),
    "Neg": (lambda x: -x, {}),
    "Exp": (lambda x: x.exp(), {}),
    "Erf": (lambda x: x.erf(), {}),
}


def _as_counted(x: Num) -> Num:
    """The branch that has less to do counts as the one that has more: lanes run both."""
    x.tally.vector += 1
    return x


@pytest.mark.parametrize("op_type", PER_ELEMENT)
def test_per_element(op_type: str) -> None:
    function, extra = PER_ELEMENT[op_type]
    x = values(2, 5)
    op, (y,) = run(op_type, [x], **extra)
    tally = Tally()
    assert_same(np.vectorize(function, otypes=[object])(tally.array(x)), y)
    assert flops(work(op)) == tally.flops()


@pytest.mark.parametrize(
    ("op_type", "taken"),
    [
        ("Elu", lambda x: 0.5 * (x.exp() - 1.0) if x < 0 else x),
        ("Selu", lambda x: SELU_GAMMA * (x if x > 0 else SELU_ALPHA * x.exp() - SELU_ALPHA)),
    ],
)
def test_branching_activations_count_their_longer_branch(op_type: str, taken: Callable[[Num], Num]) -> None:
    x = -abs(values(2, 5))
    extra: dict[str, Any] = {"alpha": 0.5} if op_type == "Elu" else {}
    op, (y,) = run(op_type, [x], **extra)
    tally = Tally()
    negative = tally.array(x)
    assert_same(np.vectorize(taken, otypes=[object])(negative), y)
    assert flops(work(op)) == tally.flops()


def gelu_tanh(x: Num) -> Num:
    return 0.5 * x * (1.0 + (math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))).tanh())


def test_gelu_with_tanh_and_with_bias() -> None:
    x, bias = values(2, 5), values(5, seed=1)
    tally = Tally()
    op, (y,) = run("Gelu", [x], approximate="tanh")
    assert_same(np.vectorize(gelu_tanh, otypes=[object])(tally.array(x)), y)
    assert flops(work(op)) == tally.flops()
    tally = Tally()
    op, (y,) = run("FastGelu", [x, bias], domain="com.microsoft")
    assert_same(np.vectorize(lambda a, b: gelu_tanh(a + b), otypes=[object])(tally.array(x), bias), y, 1e-3)
    assert flops(work(op)) == tally.flops()


# --- rows -----------------------------------------------------------------------------------


def softmax_row(row: list[Num]) -> list[Num]:
    top = largest(row)
    powers = [(value - top).exp() for value in row]
    bottom = total(powers)
    return [power / bottom for power in powers]


def log_softmax_row(row: list[Num]) -> list[Num]:
    top = largest(row)
    shifted = [value - top for value in row]
    bottom = total([value.exp() for value in shifted]).log()
    return [value - bottom for value in shifted]


@pytest.mark.parametrize(("op_type", "row"), [("Softmax", softmax_row), ("LogSoftmax", log_softmax_row)])
@pytest.mark.parametrize(("opset", "axis", "length"), [(13, 1, 3), (13, -1, 4), (11, 1, 12), (11, 2, 4)])
def test_softmax(op_type: str, row: Callable[[list[Num]], list[Num]], opset: int, axis: int, length: int) -> None:
    x = values(2, 3, 4)
    op, (y,) = run(op_type, [x], version=opset, axis=axis)
    tally = Tally()
    last = np.moveaxis(x, axis, -1) if opset >= 13 else x
    result = np.array([row(list(line)) for line in tally.array(last.reshape(-1, length))], dtype=object)
    result = result.reshape(last.shape)
    assert_same(np.moveaxis(result, -1, axis) if opset >= 13 else result, y)
    assert flops(work(op)) == tally.flops()


def normalized(row: list[Num], epsilon: float, centered: bool = True) -> list[Num]:
    if centered:
        middle = total(row) / len(row)
        row = [value - middle for value in row]
    spread = total([value * value for value in row]) / len(row)
    scale = 1.0 / (spread + epsilon).sqrt()
    return [value * scale for value in row]


def test_layer_normalization() -> None:
    x, scale, bias = values(2, 3, 4), values(3, 4, seed=1), values(3, 4, seed=2)
    op, (y,) = run("LayerNormalization", [x, scale, bias], axis=1, epsilon=1e-3)
    tally = Tally()
    rows = [normalized(list(row), 1e-3) for row in tally.array(x.reshape(2, 12))]
    pairs = list(zip(scale.ravel().tolist(), bias.ravel().tolist(), strict=True))
    result = [[value * s + b for value, (s, b) in zip(row, pairs, strict=True)] for row in rows]
    assert_same(np.array(result, dtype=object).reshape(x.shape), y)
    assert flops(work(op)) == tally.flops()


def test_rms_normalization() -> None:
    x, scale = values(3, 4), values(4, seed=1)
    op, (y,) = run("RMSNormalization", [x, scale], version=23, epsilon=1e-3)
    tally = Tally()
    rows = [normalized(list(row), 1e-3, centered=False) for row in tally.array(x)]
    result = [[value * s for value, s in zip(row, scale.tolist(), strict=True)] for row in rows]
    assert_same(np.array(result, dtype=object), y)
    assert flops(work(op)) == tally.flops()


@pytest.mark.parametrize(("op_type", "groups"), [("InstanceNormalization", 4), ("GroupNormalization", 2)])
def test_channel_groups(op_type: str, groups: int) -> None:
    x, scale, bias = values(2, 4, 3), values(4, seed=1), values(4, seed=2)
    extra: dict[str, Any] = {"num_groups": groups} if op_type == "GroupNormalization" else {}
    op, (y,) = run(op_type, [x, scale, bias], epsilon=1e-3, **extra)
    tally = Tally()
    rows = [normalized(list(row), 1e-3) for row in tally.array(x.reshape(2 * groups, -1))]
    even = np.array(rows, dtype=object).reshape(x.shape)
    assert_same(even * scale[:, None].astype(float) + bias[:, None].astype(float), y, 1e-3)
    assert flops(work(op)) == tally.flops()


def test_batch_normalization() -> None:
    x, scale, bias, mean, var = (
        values(2, 3, 4),
        values(3, seed=1),
        values(3, seed=2),
        values(3, seed=3),
        abs(values(3, seed=4)),
    )
    op, (y,) = run("BatchNormalization", [x, scale, bias, mean, var], version=15, epsilon=1e-3)
    tally = Tally()
    result = np.empty(x.shape, dtype=object)
    for c in range(3):
        factor = float(scale[c]) / (tally.of(var[c]) + 1e-3).sqrt()
        shift = float(bias[c]) - factor * float(mean[c])
        for n, i in itertools.product(range(2), range(4)):
            result[n, c, i] = tally.of(x[n, c, i]) * factor + shift
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()


def test_lrn() -> None:
    # One pixel, and the sum over a window that is zero beyond the edge, as the convention counts it.
    x, window = values(1, 5, 1, 1), 3
    op, (y,) = run("LRN", [x], size=window, alpha=0.3, beta=0.7, bias=1.5)
    tally = Tally()
    squares = [value * value for value in tally.array(x.ravel())]
    padded_squares = [tally.of(0), *squares, tally.of(0)]
    result = [
        tally.of(x[0, c, 0, 0]) / (0.3 / window * total(padded_squares[c : c + window]) + 1.5).pow(0.7)
        for c in range(5)
    ]
    assert_same(np.array(result, dtype=object).reshape(x.shape), y)
    assert flops(work(op)) == tally.flops()


REDUCTIONS: dict[str, Callable[[list[Num]], Num]] = {
    "ReduceSum": total,
    "ReduceMean": lambda row: total(row) / len(row),
    "ReduceMax": largest,
    "ReduceL1": lambda row: total([abs(value) for value in row]),
    "ReduceL2": lambda row: total([value * value for value in row]).sqrt(),
    "ReduceSumSquare": lambda row: total([value * value for value in row]),
    "ReduceLogSum": lambda row: total(row).log(),
    "ReduceLogSumExp": lambda row: total([value.exp() for value in _shifted(row)]).log() + largest_again(row),
}


def _shifted(row: list[Num]) -> list[Num]:
    top = largest(row)
    return [value - top for value in row]


def largest_again(row: list[Num]) -> float:
    return max(value.value for value in row)


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_reductions(op_type: str) -> None:
    x = abs(values(2, 3, 4)) + 0.1
    axes = np.array([1], dtype=np.int64)
    op, (y,) = run(op_type, [x, axes], version=18, keepdims=0)
    tally = Tally()
    rows = tally.array(np.moveaxis(x, 1, -1).reshape(-1, 3))
    assert_same(np.array([REDUCTIONS[op_type](list(row)) for row in rows], dtype=object).reshape(y.shape), y)
    found = work(op)
    assert flops(found) == tally.flops()
    assert found.bytes_read == x.nbytes + 8


def test_quantize_and_dequantize() -> None:
    x, scale, zero = values(6), np.float32(0.02), np.uint8(100)
    op, (y,) = run("QuantizeLinear", [x, np.array(scale), np.array(zero)])
    tally = Tally()
    result = [((value / float(scale)).round() + 100.0).max(0.0).min(255.0) for value in tally.array(x)]
    assert_same(np.array(result, dtype=object), y)
    assert flops(work(op)) == tally.flops()
    op, (back,) = run("DequantizeLinear", [y, np.array(scale), np.array(zero)])
    tally = Tally()
    result = [(value - 100.0).convert() * float(scale) for value in tally.array(y)]
    assert_same(np.array(result, dtype=object), back)
    assert flops(work(op)) == tally.flops()
    assert (work(op).bytes_read, work(op).bytes_written) == (6 + 4 + 1, 24)


def test_dynamic_quantize_linear() -> None:
    x = values(6)
    op, (y, scale, zero) = run("DynamicQuantizeLinear", [x], 3)
    tally = Tally()
    row = list(tally.array(x))
    low, high = row[0], largest(row).max(0.0)
    for value in row[1:]:
        low = low.min(value)
    low = low.min(0.0)
    step = (high - low) / 255.0
    origin = (low / step).round().max(-255.0).min(0.0)
    result = [((value / step).round() + -origin.value).max(0.0).min(255.0) for value in row]
    assert_same(np.array(result, dtype=object), y, 1.0)
    np.testing.assert_allclose([step.value, -origin.value], [scale, zero], rtol=1e-5)
    assert flops(work(op)) == tally.flops()


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked: bool) -> None:
    batch, heads, queries, keys, depth = 1, 2, 2, 3, 2
    q, k, v = (
        values(batch, heads, queries, depth),
        values(batch, heads, keys, depth, seed=1),
        values(batch, heads, keys, 3, seed=2),
    )
    mask = values(queries, keys, seed=3)
    op, (y,) = run("Attention", [q, k, v, mask] if masked else [q, k, v], version=23)
    tally = Tally()
    result = np.empty(y.shape, dtype=object)
    for h, i in itertools.product(range(heads), range(queries)):
        scores = []
        for j in range(keys):
            acc = tally.of(0)
            for d in range(depth):
                acc = acc.mac(tally.of(q[0, h, i, d]), tally.of(k[0, h, j, d]))
            acc = acc * (1 / math.sqrt(depth))
            scores.append(acc + float(mask[i, j]) if masked else acc)
        weights = softmax_row(scores)
        for d in range(3):
            acc = tally.of(0)
            for j in range(keys):
                acc = acc.mac(weights[j], tally.of(v[0, h, j, d]))
            result[0, h, i, d] = acc
    assert_same(result, y)
    assert flops(work(op)) == tally.flops()


@pytest.mark.parametrize(("exclusive", "axis"), [(0, 1), (1, 1), (0, 0)])
def test_cumulative_sum(exclusive: int, axis: int) -> None:
    x = values(2, 4)
    op, (y,) = run("CumSum", [x, np.array(axis, dtype=np.int64)], constants=[1], exclusive=exclusive)
    tally = Tally()
    lines = tally.array(np.moveaxis(x, axis, -1))
    result = np.empty(lines.shape, dtype=object)
    for index, line in enumerate(lines):
        sums = [tally.of(0)] if exclusive else []
        running = line[0]
        sums.append(running)
        for value in line[1 : len(line) - exclusive]:
            running = running + value
            sums.append(running)
        result[index] = sums
    assert_same(np.moveaxis(result, -1, axis), y)
    assert flops(work(op)) == tally.flops()


def test_det() -> None:
    x = values(3, 3) + 3 * np.eye(3, dtype=np.float32)
    op, (y,) = run("Det", [x])
    tally = Tally()
    a = tally.array(x)
    for k in range(3):
        for i in range(k + 1, 3):
            factor = a[i, k] / a[k, k]
            for j in range(k + 1, 3):
                a[i, j] = a[i, j] - factor * a[k, j]
    result = a[0, 0] * a[1, 1] * a[2, 2]
    assert result.value == pytest.approx(float(y), rel=1e-3)
    assert flops(work(op)) == tally.flops()
