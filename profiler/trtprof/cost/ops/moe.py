"""Mixture of experts: every token goes through the k experts that its router chose."""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base import units
from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, Recipe, softmax
from trtprof.cost._shapes import MS, given, integer, need, shape, size, string, work
from trtprof.cost.ops.selection import heap_compares


class _Layer(NamedTuple):
    """One matrix an expert: positions of its weights and bias, and of what goes with the weights."""

    weights: int
    bias: int
    beside: tuple[int, ...] = ()


_MOE = (_Layer(2, 3), _Layer(4, 5), _Layer(6, 7))
_QMOE = (_Layer(2, 4, (3, 11, 15)), _Layer(5, 7, (6, 12, 16)), _Layer(8, 10, (9, 13)))
"""fc1, fc2 and fc3."""


@cost("MoE", "QMoE", domain=MS)
def mixture_of_experts(op: Op) -> Cost:
    """2 FLOP a weight of k experts and token; routing; the outputs of the experts weighted and added.

    Which experts are chosen is data: as many as possible count as read, each once. Quantised weights
    of those are converted, shifted where they have a zero point, and scaled once. Inputs of MoE:
    input [..., hidden], router_probs [tokens, experts], then weights [experts, ...] and bias of fc1,
    fc2 and fc3; of QMoE: input, router_probs, then weights, scales and bias of each, three zero
    points, router_weights, global scales of fc1 and fc2, ... SwiGLU has its gate fused into fc1
    unless there is an fc3.
    """
    quantized = op.op_type == "QMoE"
    layers = [layer for layer in (_QMOE if quantized else _MOE) if given(op, layer.weights) is not None]
    hidden = shape(need(op, 0))[-1]
    tokens, experts = shape(need(op, 1))
    k = min(integer(op, "k", 1), experts)
    pairs = tokens * k
    touched = min(experts, pairs)
    read: dict[int, int] = {}
    weights, unpacked = [], 0
    for number, layer in enumerate(layers, start=1):
        stored = need(op, layer.weights)
        each = _logical(op, stored, number) // experts if experts else 0
        weights.append(each)
        if quantized:
            unpacked += touched * each * (2 if string(op, "quant_type", "int") == "fp8" else 3)
        for index in (layer.weights, layer.bias, *layer.beside):
            if (tensor := given(op, index)) is not None and experts and shape(tensor)[:1] == (experts,):
                read[index] = size(tensor) // experts * touched
    biases = sum(size(bias) // experts for layer in layers if (bias := given(op, layer.bias)) is not None and experts)
    inner = weights[1] // hidden if hidden and len(weights) > 1 else 0
    per_pair = _activation(op, gated=len(weights) > 2).times(inner).plus(Recipe(biases + hidden))
    combined = per_pair.times(pairs).plus(Recipe(max(pairs - tokens, 0) * hidden))
    routing = softmax(tokens, experts).plus(Recipe(tokens * heap_compares(experts, k)))
    if integer(op, "normalize_routing_weights", 0):
        routing = routing.plus(Recipe(tokens * (2 * k - 1)))
    some = k < touched
    return work(
        op,
        combined.plus(routing),
        tensor=2 * pairs * sum(weights),
        vector=unpacked,
        read=read,
        bound="upper" if some else "exact",
        note="which experts are chosen is data: as many as possible counted as read" if some else "",
    )


def _logical(op: Op, stored: Tensor, number: int) -> int:
    """Weights in a tensor that may hold several in a byte."""
    if op.op_type == "MoE" or stored.dtype != "uint8":
        return size(stored)
    bits = integer(op, f"fc{number}_expert_weight_bits", integer(op, "expert_weight_bits", 4))
    return size(stored) * units.DTYPE_BITS["uint8"] // bits


def _activation(op: Op, gated: bool) -> Recipe:
    """Per inner element; a gate of its own (fc3) is one more multiply.

    SwiGLU is G * sigmoid(alpha * G) * (L + beta), with G clamped from above and L from both sides
    where there is a limit.
    """
    name = string(op, "activation_type", "relu")
    if name == "swiglu":
        clamps = Recipe(3 if "swiglu_limit" in op.attributes else 0)
        return ACTIVATIONS["sigmoid"].plus(Recipe(1 + 1 + 1 + 1)).plus(clamps)
    return ACTIVATIONS.get(name, NOTHING).plus(Recipe(int(gated)))
