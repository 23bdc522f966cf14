"""Several residual streams mixed into one and back, and the gates between them."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, Recipe, normalize
from trtprof.cost._shapes import MS, given, integer, made, need, number, out, shape, size, work


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
