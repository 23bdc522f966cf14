"""Recurrent attention with a state of fixed size, the convolutions before it, and residual streams mixed into one."""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._attention import heads_of
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, SILU, Recipe, fused_activation, normalize
from trtprof.cost._shapes import MS, given, integer, made, need, number, out, shape, size, string, work

_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Update rule -> whether it has a decay, whether it takes away what the key retrieves."""
_NOTE = "counted token by token; a form that works on chunks multiplies more"


class _Recurrence(NamedTuple):
    """S = decay * S + k (beta * (v - S^T k))^T and o = scale * S^T q, token by token.

    A state is a matrix depth x value_depth a head of keys or values, whichever are more. The outer
    product, the retrieval and the output are a MAC a cell of the state; the decay is a multiply a
    cell, the difference and beta a FLOP a value, the scale a multiply an output.
    """

    tokens: int
    heads: int
    outputs: int  # Heads of the output
    depth: int
    value_depth: int

    def flops(self, op: Op) -> tuple[int, Recipe]:
        """Tensor FLOP, and the other arithmetic except for the decay itself."""
        rule = string(op, "update_rule", "gated_delta")
        if rule not in _RULES:
            raise MalformedOpError(f"{op.op_type} has no update_rule {rule!r}")
        decays, retrieves = _RULES[rule]
        states = self.tokens * self.heads
        cells = self.depth * self.value_depth
        products = states * cells * (2 if retrieves else 1) + self.tokens * self.outputs * cells
        vector = states * (cells * decays + 2 * self.value_depth * retrieves)
        return 2 * products, Recipe(vector + self.tokens * self.outputs * self.value_depth)


@cost("LinearAttention")
@cost("LinearAttention", domain=MS)
def linear_attention(op: Op) -> Cost:
    """The recurrence of its ``update_rule`` a token, and an exp a decay.

    Inputs query [batch, length, q_heads * depth], key [batch, length, kv_heads * depth], value [batch,
    length, kv_heads * value_depth], past_state [batch, kv_heads, depth, value_depth], of a window of
    states the last, decay a head or a channel of a key, beta.
    """
    batch, length, width = shape(need(op, 0))
    heads, kv_heads = heads_of(op, "q_num_heads"), heads_of(op, "kv_num_heads")
    recurrence = _Recurrence(
        batch * length, kv_heads, max(heads, kv_heads), width // heads, shape(need(op, 2))[2] // kv_heads
    )
    tensor, other = recurrence.flops(op)
    decay = given(op, 4)
    if decay is not None and _RULES[string(op, "update_rule", "gated_delta")][0]:
        other = other.plus(Recipe(0, {"exp": size(decay)}))
    return work(op, other, tensor=tensor, read=_last_state(op, 3), note=_NOTE)


def _last_state(op: Op, index: int) -> dict[int, int]:
    """Of a window of states only the last is read."""
    window, past = integer(op, "state_window", 0), given(op, index)
    return {index: size(past) // window} if window > 0 and past is not None else {}


@cost("GatedDeltaNet", domain=MS)
def gated_delta_net(op: Op) -> Cost:
    """As LinearAttention over packed tokens, with the gates computed and queries and keys normalised where asked for.

    A decay by its gate is an add, a softplus and a multiply by -exp(a_log). Inputs query [..., q_heads,
    depth] or packed with key and value, key, value [..., v_heads, value_depth], cu_seqlens, decay,
    beta, initial_state [batch, v_heads, value_depth, depth], a_log, dt_bias, capture_count,
    state_update_active.
    """
    y = shape(out(op))
    outputs, value_depth = y[-2:]
    tokens = size(out(op)) // (outputs * value_depth) if outputs * value_depth else 0
    if given(op, 1) is not None:
        heads, depth = shape(need(op, 0))[-2:]
        value_heads = shape(need(op, 2))[-2]
    else:
        _, value_heads, value_depth, depth = shape(need(op, 6))
        heads = (shape(need(op, 0))[-1] - value_heads * value_depth) // (2 * depth)
    tensor, other = _Recurrence(tokens, value_heads, outputs, depth, value_depth).flops(op)
    decay, beta = given(op, 4), given(op, 5)
    if decay is not None and _RULES[string(op, "update_rule", "gated_delta")][0]:
        other = other.plus(Recipe(0, {"exp": size(decay)}))
        if string(op, "gate_activation", "none") == "qwen":
            each = ACTIVATIONS["softplus"].plus(Recipe(2))
            other = other.plus(each.times(size(decay))).plus(Recipe(1, {"exp": 1}).times(value_heads))
    if beta is not None and string(op, "beta_activation", "none") == "sigmoid":
        other = other.plus(ACTIVATIONS["sigmoid"].times(size(beta)))
    if integer(op, "qk_l2_norm", 0):
        # A square and a divide an element, n - 1 adds and a root a vector.
        other = other.plus(Recipe(max(3 * depth - 1, 0), {"sqrt": 1}).times(2 * tokens * heads))
    return work(op, other, tensor=tensor, note=_NOTE)


@cost("LinearAttentionGate", domain=MS)
def linear_attention_gate(op: Op) -> Cost:
    """The decay, scale * Softplus(a + bias), and beta, the Sigmoid of b. Inputs a, dt_bias, decay_scale, b."""
    each = ACTIVATIONS["softplus"].plus(Recipe(2)).times(size(need(op, 0)))
    b = given(op, 3)
    if b is not None and made(op, 1) is not None:
        each = each.plus(ACTIVATIONS["sigmoid"].times(size(b)))
    return work(op, each)


@cost("GatedRMSNorm", domain=MS)
def gated_rms_norm(op: Op) -> Cost:
    """RMS normalisation of groups as long as the scale, times the scale and the activation of the gate.

    Inputs X, scale, gate.
    """
    total, n = size(need(op, 0)), size(need(op, 1))
    gate = ACTIVATIONS["sigmoid" if string(op, "activation", "silu") == "sigmoid" else "silu"]
    each = gate.plus(Recipe(2)).times(total)
    return work(op, normalize(total // n if n else 0, n, centered=False).plus(each))


@cost("CausalConvWithState")
@cost("CausalConvWithState", "VarlenCausalConvWithState", domain=MS)
def causal_conv(op: Op) -> Cost:
    """A depthwise convolution: a MAC a tap and output element; one add for a bias, the activation.

    Weights are [channels, 1, taps, ...]. Inputs of CausalConvWithState: input, weight, bias,
    past_state, of a window of states the last; of the packed form: input, weight,
    cumulative_sequence_length, bias, initial_state, capture_count.
    """
    packed = op.op_type == "VarlenCausalConvWithState"
    y = size(out(op))
    taps = size(need(op, 1)) // shape(need(op, 1))[0] if shape(need(op, 1))[0] else 0
    # Swish has no alpha here.
    activation, note = (SILU, "") if string(op, "activation") == "swish" else fused_activation(op)
    bias = Recipe(1) if given(op, 3 if packed else 2) is not None else NOTHING
    return work(
        op,
        activation.plus(bias).times(y),
        tensor=2 * y * taps,
        read={} if packed else _last_state(op, 3),
        bound="lower" if note else "exact",
        note=note,
    )


@cost("HyperConnectionPreMix", domain=MS)
def hyper_connection_pre_mix(op: Op) -> Cost:
    """Streams times their gates, added up: a multiply per element, an add per element that disappears; the scale."""
    x, y = size(need(op, 0)), size(out(op))
    scale = y if number(op, "reduction_scale", 1.0) != 1.0 else 0
    return work(op, vector=x + max(x - y, 0) + scale)


@cost("HyperConnectionPostMix", domain=MS)
def hyper_connection_post_mix(op: Op) -> Cost:
    """Streams times a matrix, a MAC a stream and output element; plus the gated output of the block, 2 FLOP.

    Inputs streams, block_output, post_mix, stream_mix [..., streams, streams].
    """
    y = size(out(op))
    mix = given(op, 3)
    return work(op, tensor=2 * y * shape(mix)[-1] if mix is not None else 0, vector=2 * y)


@cost("BranchwiseRMSNorm", domain=MS)
def branchwise_rms_norm(op: Op) -> Cost:
    """RMS normalisation of every branch of X [..., branches, n], which may be flattened; a multiply for the scale."""
    dims = shape(need(op, 0))
    n = dims[-1] // max(integer(op, "num_branches", 0), 1)
    total = size(need(op, 0))
    scale = Recipe(total) if given(op, 1) is not None else NOTHING
    return work(op, normalize(total // n if n else 0, n, centered=False).plus(scale))


@cost("EngramGate", domain=MS)
def engram_gate(op: Op) -> Cost:
    """A gate a stream from normalised keys and queries, times the value; normalised again where asked for.

    sigmoid(sign(dot) * sqrt(max(|dot|, epsilon))), with dot = RMSNorm(key) * RMSNorm(query) summed
    over n channels, over sqrt n. Inputs key [batch, length, streams, n], query, value [batch, length, n],
    key_norm_scale, query_norm_scale, conv_norm_scale.
    """
    total, n = size(need(op, 0)), shape(need(op, 0))[-1]
    gates = total // n if n else 0
    norm = normalize(gates, n, centered=False).plus(Recipe(total))
    # The product of the two and their sum; scale, absolute value, maximum, sign, multiply.
    gate = Recipe(5, {"sqrt": 1}).plus(ACTIVATIONS["sigmoid"]).times(gates)
    dot = Recipe(2 * total - gates)
    each = norm.times(2).plus(dot).plus(gate).plus(Recipe(total))
    return work(op, each.plus(norm) if made(op, 1) is not None else each)
