"""Ops of com.microsoft against loops that do the arithmetic, one counted operation at a time.

As in `test_cost_brute_force`: the results are compared with ONNX Runtime's.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.counting import (
    FEW,
    Array,
    Num,
    Tally,
    assert_same,
    flops,
    largest,
    ms_schemas,
    run,
    total,
    values,
    work,
)
from trtprof.base.records import Op

MS = "com.microsoft"
SMALL = st.integers(1, 3)


def check(op: Op, tally: Tally, result: Any, reference: Array, tolerance: float = 1e-4) -> None:
    assert_same(result, reference, tolerance)
    assert flops(work(op)) == tally.flops()


def needs(op_type: str) -> None:
    if (MS, op_type) not in ms_schemas():
        pytest.skip(f"this ONNX Runtime has no {op_type}")


def sigmoid(value: Num) -> Num:
    return 1.0 / ((-value).exp() + 1.0)


def softplus(value: Num) -> Num:
    return (value.exp() + 1.0).log()


def dot(left: Any, right: Any) -> Num:
    acc: Num = left[0].tally.of(0)
    for a, b in zip(left, right, strict=True):
        acc = acc.mac(a, b)
    return acc


def rms(row: Any, epsilon: float) -> list[Num]:
    mean = total([value * value for value in row]) / len(row)
    inverse = 1.0 / (mean + epsilon).sqrt()
    return [value * inverse for value in row]


def softmax(row: list[Num]) -> list[Num]:
    most = largest(row)
    exps = [(value - most).exp() for value in row]
    whole = total(exps)
    return [value / whole for value in exps]


@FEW
@given(rows=SMALL, other=SMALL, n=st.integers(1, 4), root=st.booleans())
def test_distances(rows: int, other: int, n: int, root: bool) -> None:
    a, b = values(rows, n), values(other, n, seed=1)
    op, (y,) = run("CDist", [a, b], domain=MS, metric="euclidean" if root else "sqeuclidean")
    tally = Tally()
    left, right = tally.array(a), tally.array(b)
    result = np.empty(y.shape, dtype=object)
    for i, j in itertools.product(range(rows), range(other)):
        differences = [p - q for p, q in zip(left[i], right[j], strict=True)]
        squares = total([each * each for each in differences])
        result[i, j] = squares.sqrt() if root else squares
    # ONNX Runtime takes |a|^2 - 2ab + |b|^2, which loses digits where a and b are close.
    check(op, tally, result, y, 1e-2)


@FEW
@given(m=st.integers(1, 4), n=st.integers(1, 4))
def test_dynamic_time_warping(m: int, n: int) -> None:
    costs = np.abs(values(m, n))
    op, (path,) = run("DynamicTimeWarping", [costs], domain=MS)
    tally = Tally()
    best = np.full((m + 1, n + 1), tally.of(1e9), dtype=object)
    best[0, 0] = tally.of(0)
    source = tally.array(costs)
    for i, j in itertools.product(range(m), range(n)):
        best[i + 1, j + 1] = source[i, j] + best[i, j].min(best[i, j + 1]).min(best[i + 1, j])
    taken = sum(float(costs[i, j]) for i, j in path.T)
    assert best[m, n].value == pytest.approx(taken, rel=1e-4)
    assert flops(work(op)) == tally.flops()


@FEW
@given(tokens=SMALL, branches=SMALL, n=st.integers(1, 4), scaled=st.booleans())
def test_branchwise_rms_norm(tokens: int, branches: int, n: int, scaled: bool) -> None:
    needs("BranchwiseRMSNorm")
    x, scale = values(tokens, branches, n), values(n, seed=1)
    op, (y,) = run("BranchwiseRMSNorm", [x, scale] if scaled else [x], domain=MS, epsilon=1e-5)
    tally = Tally()
    result = np.empty(y.shape, dtype=object)
    for position in np.ndindex(tokens, branches):
        row = rms(tally.array(x)[position], 1e-5)
        for h in range(n):
            result[(*position, h)] = row[h] * float(scale[h]) if scaled else row[h]
    check(op, tally, result, y)


@FEW
@given(rows=SMALL, groups=SMALL, n=SMALL, plain_gate=st.booleans())
def test_gated_rms_norm(rows: int, groups: int, n: int, plain_gate: bool) -> None:
    needs("GatedRMSNorm")
    x, scale, gate = values(rows, groups * n), values(n, seed=1), values(rows, groups * n, seed=2)
    name = "sigmoid" if plain_gate else "silu"
    op, (y,) = run("GatedRMSNorm", [x, scale, gate], domain=MS, epsilon=1e-5, activation=name)
    tally = Tally()
    gates = tally.array(gate)
    result = np.empty(y.shape, dtype=object)
    for row, group in itertools.product(range(rows), range(groups)):
        normed = rms(tally.array(x[row, group * n : group * n + n]), 1e-5)
        for c in range(n):
            z = gates[row, group * n + c]
            opened = sigmoid(z) if plain_gate else z * sigmoid(z)
            result[row, group * n + c] = normed[c] * float(scale[c]) * opened
    check(op, tally, result, y)


@FEW
@given(tokens=SMALL, streams=SMALL, n=SMALL, reduction=st.sampled_from([1.0, 0.5]))
def test_hyper_connection_pre_mix(tokens: int, streams: int, n: int, reduction: float) -> None:
    needs("HyperConnectionPreMix")
    x, gates = values(tokens, streams, n), values(tokens, streams, seed=1)
    op, (y,) = run("HyperConnectionPreMix", [x, gates], domain=MS, reduction_scale=reduction)
    tally = Tally()
    source = tally.array(x)
    result = np.empty(y.shape, dtype=object)
    for t, h in itertools.product(range(tokens), range(n)):
        mixed = total([source[t, c, h] * float(gates[t, c]) for c in range(streams)])
        result[t, h] = mixed * reduction if reduction != 1.0 else mixed
    check(op, tally, result, y)


@FEW
@given(tokens=SMALL, streams=SMALL, n=SMALL, mixed=st.booleans())
def test_hyper_connection_post_mix(tokens: int, streams: int, n: int, mixed: bool) -> None:
    needs("HyperConnectionPostMix")
    x, block, post = values(tokens, streams, n), values(tokens, n, seed=1), values(tokens, streams, seed=2)
    matrix = values(tokens, streams, streams, seed=3)
    op, (y,) = run("HyperConnectionPostMix", [x, block, post, matrix] if mixed else [x, block, post], domain=MS)
    tally = Tally()
    source, added, weights = tally.array(x), tally.array(block), tally.array(matrix)
    result = np.empty(y.shape, dtype=object)
    for t, k, h in itertools.product(range(tokens), range(streams), range(n)):
        kept = dot(weights[t, :, k], source[t, :, h]) if mixed else source[t, k, h]
        result[t, k, h] = kept + added[t, h] * float(post[t, k])
    check(op, tally, result, y)


@FEW
@given(tokens=SMALL, streams=SMALL, n=st.integers(1, 4), normed=st.booleans())
def test_engram_gate(tokens: int, streams: int, n: int, normed: bool) -> None:
    needs("EngramGate")
    key, query = values(1, tokens, streams, n), values(1, tokens, streams, n, seed=1)
    value, scales = values(1, tokens, n, seed=2), [values(streams, n, seed=seed) for seed in (3, 4, 5)]
    inputs = [key, query, value, *(scales if normed else scales[:2])]
    op, results = run("EngramGate", inputs, 2 if normed else 1, domain=MS, epsilon=1e-5)
    tally = Tally()
    found = [np.empty(results[0].shape, dtype=object) for _ in results]

    def scaled(row: Any, scale: Array) -> list[Num]:
        return [each * float(s) for each, s in zip(rms(row, 1e-5), scale, strict=True)]

    for t, s in itertools.product(range(tokens), range(streams)):
        k = scaled(tally.array(key[0, t, s]), scales[0][s])
        q = scaled(tally.array(query[0, t, s]), scales[1][s])
        together = total([a * b for a, b in zip(k, q, strict=True)]) / math.sqrt(n)
        size = abs(together).max(tally.of(1e-6)).sqrt()
        # The sign is a compare.
        gate = sigmoid(size * (-1.0 if together < 0 else 1.0))
        gated = [each * gate for each in tally.array(value[0, t])]
        found[0][0, t, s] = gated
        if normed:
            found[1][0, t, s] = scaled(gated, scales[2][s])
    for result, reference in zip(found, results, strict=True):
        assert_same(result, reference)
    assert flops(work(op)) == tally.flops()


@FEW
@given(
    rule=st.sampled_from(["linear", "gated", "delta", "gated_delta"]),
    heads=st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]),
    length=SMALL,
    depth=SMALL,
    value_depth=SMALL,
    decay_a_channel=st.booleans(),
)
def test_linear_attention(
    rule: str, heads: tuple[int, int], length: int, depth: int, value_depth: int, decay_a_channel: bool
) -> None:
    needs("LinearAttention")
    q_heads, kv_heads = heads
    decays, retrieves = "gated" in rule, "delta" in rule
    q, k = values(1, length, q_heads * depth), values(1, length, kv_heads * depth, seed=1)
    v, state = values(1, length, kv_heads * value_depth, seed=2), values(1, kv_heads, depth, value_depth, seed=3)
    decay = -np.abs(values(1, length, kv_heads * (depth if decay_a_channel else 1), seed=4))
    beta = np.abs(values(1, length, kv_heads, seed=5))
    inputs = [q, k, v, state, decay if decays else None, beta if retrieves else None]
    while inputs[-1] is None:
        inputs.pop()
    op, (y, after) = run(
        "LinearAttention",
        inputs,
        2,
        domain=MS,
        q_num_heads=q_heads,
        kv_num_heads=kv_heads,
        update_rule=rule,
        scale=0.5,
    )
    tally = Tally()
    states = tally.array(state[0])
    result = np.empty((length, max(heads), value_depth), dtype=object)
    keys, vals = tally.array(k[0]).reshape(length, kv_heads, depth), tally.array(v[0]).reshape(length, kv_heads, -1)
    queries = tally.array(q[0]).reshape(length, q_heads, depth)
    logs = tally.array(decay[0]).reshape(length, kv_heads, -1)
    for t in range(length):
        for h in range(kv_heads):
            s, new = states[h], vals[t, h]
            if decays:
                kept = [each.exp() for each in logs[t, h]]
                for i, j in np.ndindex(depth, value_depth):
                    s[i, j] = s[i, j] * kept[i if decay_a_channel else 0]
            if retrieves:
                found = [dot(s[:, j], keys[t, h]) for j in range(value_depth)]
                new = [(each - old) * float(beta[0, t, h]) for each, old in zip(new, found, strict=True)]
            for i, j in np.ndindex(depth, value_depth):
                s[i, j] = s[i, j].mac(keys[t, h, i], new[j])
        for h in range(max(heads)):
            s, row = states[h * kv_heads // max(heads)], queries[t, h * q_heads // max(heads)]
            result[t, h] = [dot(s[:, j], row) * 0.5 for j in range(value_depth)]
    assert_same(states, after[0])
    check(op, tally, result.reshape(y.shape[1:]), y[0])


@FEW
@given(length=SMALL, heads=SMALL, with_beta=st.booleans())
def test_linear_attention_gate(length: int, heads: int, with_beta: bool) -> None:
    needs("LinearAttentionGate")
    a, bias, scale = values(1, length, heads), values(heads, seed=1), values(heads, seed=2)
    b = values(1, length, heads, seed=3)
    op, results = run(
        "LinearAttentionGate", [a, bias, scale, b][: 4 if with_beta else 3], len([a, b][: 1 + with_beta]), domain=MS
    )
    tally = Tally()
    source, rates = tally.array(a[0]), tally.array(b[0])
    found = [np.empty((length, heads), dtype=object) for _ in results]
    for t, h in np.ndindex(length, heads):
        found[0][t, h] = softplus(source[t, h] + float(bias[h])) * float(scale[h])
        if with_beta:
            found[1][t, h] = sigmoid(rates[t, h])
    for result, reference in zip(found, results, strict=True):
        assert_same(result, reference[0])
    assert flops(work(op)) == tally.flops()


@FEW
@given(channels=SMALL, length=st.integers(1, 5), taps=SMALL, bias=st.booleans(), silu=st.booleans(), past=st.booleans())
def test_causal_conv(channels: int, length: int, taps: int, bias: bool, silu: bool, past: bool) -> None:
    needs("CausalConvWithState")
    x, w, b = values(1, channels, length), values(channels, 1, taps, seed=1), values(channels, seed=2)
    before = values(1, channels, taps - 1, seed=3) if past else np.zeros((1, channels, taps - 1), np.float32)
    inputs = [x, w, b if bias else None, before if past and taps > 1 else None]
    while inputs[-1] is None:
        inputs.pop()
    op, (y, _) = run("CausalConvWithState", inputs, 2, domain=MS, activation="silu" if silu else "none")
    tally = Tally()
    source, weights = tally.array(np.concatenate([before, x], axis=2)), tally.array(w)
    result = np.empty(y.shape, dtype=object)
    for c, t in np.ndindex(channels, length):
        acc = dot(source[0, c, t : t + taps], weights[c, 0])
        acc = acc + float(b[c]) if bias else acc
        result[0, c, t] = acc * sigmoid(acc) if silu else acc
    check(op, tally, result, y)


@FEW
@given(words=SMALL, letters=st.integers(2, 5), window=st.integers(1, 2), filters=SMALL, channels=SMALL)
def test_word_conv_embedding(words: int, letters: int, window: int, filters: int, channels: int) -> None:
    sequence = np.random.default_rng(words + letters).integers(1, 7, (words, letters), dtype=np.int32)
    w, b, table = values(filters, 1, window, channels), values(filters, seed=1), values(7, channels, seed=2)
    op, (y,) = run("WordConvEmbedding", [sequence, w, b, table], domain=MS)
    tally = Tally()
    weights, known = tally.array(w), tally.array(table)
    result = np.empty(y.shape, dtype=object)
    for word, m in np.ndindex(words, filters):
        best = tally.of(-1e12)
        for start in range(letters - window + 1):
            patch = known[sequence[word, start : start + window]]
            best = best.max((dot(patch.ravel(), weights[m, 0].ravel()) + float(b[m])).tanh())
        result[word, m] = best
    check(op, tally, result, y)


@FEW
@given(steps=SMALL, batch=SMALL, hidden=SMALL, places=SMALL, layer=st.booleans())
def test_attention_lstm(steps: int, batch: int, hidden: int, places: int, layer: bool) -> None:
    inputs, memory, depth, attended = 2, 3, 2, 4
    x, m = values(steps, batch, inputs), values(batch, places, memory, seed=1)
    context = attended if layer else memory
    w, r = values(1, 4 * hidden, inputs + context, seed=2), values(1, 4 * hidden, hidden, seed=3)
    b, aw = values(1, 8 * hidden, seed=4), values(1, memory + hidden, attended, seed=5)
    qw, mw, v = values(1, hidden, depth, seed=6), values(1, memory, depth, seed=7), values(1, depth, seed=8)
    given_inputs = [x, w, r, b, None, None, None, None, qw, mw, v, m, None, aw]
    op, (y, *_) = run("AttnLSTM", given_inputs[: 14 if layer else 12], 3, domain=MS, hidden_size=hidden)
    tally = Tally()
    arrays = [tally.array(each[0]) for each in (w, r, aw, qw, mw, v)]
    weights, recurrent, layer_weights, query_weights, memory_weights, vector = arrays
    source, remembered = tally.array(x), tally.array(m)
    keys = [[[dot(place, memory_weights[:, d]) for d in range(depth)] for place in row] for row in remembered]
    result = np.empty((steps, batch, hidden), dtype=object)
    for n in range(batch):
        h, c = [tally.of(0)] * hidden, [tally.of(0)] * hidden
        seen = [tally.of(0)] * context
        for t in range(steps):
            row = [*source[t, n], *seen]
            gates = [
                dot([*row, *h], [*weights[g], *recurrent[g]]) + float(b[0, g]) + float(b[0, 4 * hidden + g])
                for g in range(4 * hidden)
            ]
            for j in range(hidden):
                i, o, f = (sigmoid(gates[k * hidden + j]) for k in range(3))
                c[j] = f * c[j] + i * gates[3 * hidden + j].tanh()
                result[t, n, j] = o * c[j].tanh()
            h = list(result[t, n])
            query = [dot(h, query_weights[:, d]) for d in range(depth)]
            scores = [
                dot([(keys[n][place][d] + query[d]).tanh() for d in range(depth)], vector) for place in range(places)
            ]
            aligned = softmax(scores)
            seen = [dot(aligned, remembered[n, :, d]) for d in range(memory)]
            if layer:
                seen = [dot([*h, *seen], layer_weights[:, a]) for a in range(attended)]
    check(op, tally, result, y[:, 0])


@FEW
@given(tokens=SMALL, hidden=SMALL, inner=SMALL, name=st.sampled_from(["relu", "silu", "identity"]), bias=st.booleans())
def test_mixture_of_experts(tokens: int, hidden: int, inner: int, name: str, bias: bool) -> None:
    experts, k = 3, 2
    x, routes = values(tokens, hidden), values(tokens, experts, seed=1)
    fc1, fc2 = values(experts, inner, hidden, seed=2), values(experts, hidden, inner, seed=3)
    b1, b2 = values(experts, inner, seed=4), values(experts, hidden, seed=5)
    inputs = [x, routes, fc1, b1 if bias else None, fc2, b2] if bias else [x, routes, fc1, None, fc2]
    op, (y,) = run("MoE", inputs, domain=MS, k=k, activation_type=name, normalize_routing_weights=1)
    tally = Tally()
    source, first, second = tally.array(x), tally.array(fc1), tally.array(fc2)
    result = np.empty(y.shape, dtype=object)
    for t in range(tokens):
        chances = softmax(list(tally.array(routes[t])))
        chosen = sorted(range(experts), key=lambda e: -chances[e].value)[:k]
        whole = total([chances[e] for e in chosen])
        parts = []
        for e in chosen:
            weight = chances[e] / whole
            middle = [dot(source[t], first[e, i]) for i in range(inner)]
            if bias:
                middle = [each + float(added) for each, added in zip(middle, b1[e], strict=True)]
            if name == "relu":
                middle = [each.max(tally.of(0)) for each in middle]
            elif name == "silu":
                middle = [each * sigmoid(each) for each in middle]
            leaving = [dot(middle, second[e, j]) for j in range(hidden)]
            if bias:
                leaving = [each + float(added) for each, added in zip(leaving, b2[e], strict=True)]
            parts.append([each * weight for each in leaving])
        result[t] = [total(list(column)) for column in zip(*parts, strict=True)]
    assert_same(result, y)
    # A heap of 2 of 3: a compare with its least and 2 to sift down each, and 2 to sort it.
    tally.vector += tokens * (3 * 3 + 2)
    assert flops(work(op)) == tally.flops()
