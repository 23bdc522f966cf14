"""Losses of classification, and optimisers of ``ai.onnx.preview.training``: one step for any number of tensors.

Inputs of an optimiser are the learning rate R, the update count T, then all tensors, their gradients and the states
that it keeps of them. What is computed once a step is not counted, nor a regularisation whose coefficient is 0.
"""

from __future__ import annotations

from trtprof.base.records import Op, WorkBound
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._recipes import NOTHING, Recipe, softmax
from trtprof.cost._shapes import given, need, number, shape, size, string, work

TRAINING = "ai.onnx.preview.training"


def _step(op: Op, each: Recipe, states: int) -> Cost:
    """``each`` for every element of the tensors, of which there are as many as of each of ``states`` and gradients."""
    count, rest = divmod(len(op.inputs) - 2, 2 + states)
    if rest or count < 1:
        raise MalformedOpError(f"{op.op_type} takes R, T and {2 + states} inputs a tensor, not {len(op.inputs)} inputs")
    elements = sum(size(need(op, 2 + index)) for index in range(count))
    if number(op, "norm_coefficient", 0.0) != 0.0:
        each = each.plus(Recipe(2))  # norm_coefficient * X + G
    return work(op, each.times(elements))


@cost("Adagrad", domain=TRAINING)
def adagrad(op: Op) -> Cost:
    """H + G * G, and X - r * G / (sqrt H + epsilon): 6 FLOP and a root per element."""
    return _step(op, Recipe(6, {"sqrt": 1}), states=1)


@cost("Adam", domain=TRAINING)
def adam(op: Op) -> Cost:
    """Both averages, 3 and 4 FLOP; X - r * V / (sqrt H + epsilon), 4 and a root; per element.

    ``norm_coefficient_post`` takes one multiply more.
    """
    post = Recipe(int(number(op, "norm_coefficient_post", 0.0) != 0.0))
    return _step(op, Recipe(11, {"sqrt": 1}).plus(post), states=2)


@cost("Momentum", domain=TRAINING)
def momentum(op: Op) -> Cost:
    """V = alpha * V + beta * G, 3 FLOP; X - r * V, 2, or with Nesterov X - r * (G + alpha * V), 4; per element."""
    return _step(op, Recipe(7 if string(op, "mode") == "nesterov" else 5), states=1)


def _of_labels(op: Op, before: Recipe, read: dict[int, int]) -> Cost:
    """The loss of every label after the log-probabilities, and its reduction.

    Per label a negation, with weights a multiply, with ``ignore_index`` a compare. The sum takes an
    add per label after the first. The mean is that over the number of labels, or over the sum of their
    weights, which are 0 for what is ignored: a divide, and there as many adds again.
    """
    labels = size(need(op, 1))
    weighted, ignores = given(op, 2) is not None, "ignore_index" in op.attributes
    reduction = string(op, "reduction", "mean")
    vector = labels * (1 + weighted + ignores)
    if labels and reduction != "none":
        mean = reduction == "mean"
        vector += (labels - 1) * (2 if mean and (weighted or ignores) else 1) + mean
    notes = ["labels may be ignored"] * ignores + ["weights of labels may repeat"] * (weighted and labels > 1)
    bound: WorkBound = "upper" if notes else "exact"
    return work(op, before, vector=vector, read={**read, 2: labels}, bound=bound, note="; ".join(notes))


@cost("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(op: Op) -> Cost:
    """Reads one log-probability a label. Inputs input [N, classes, ...], target [N, ...], weight [classes]."""
    return _of_labels(op, NOTHING, {0: size(need(op, 1))})


@cost("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(op: Op) -> Cost:
    """Log-softmax over the classes, then the loss. Inputs scores [N, classes, ...], labels [N, ...], weights."""
    classes, rows = shape(need(op, 0))[1], size(need(op, 1))
    return _of_labels(op, softmax(rows, classes).plus(Recipe(0, {"log": rows})), {})
