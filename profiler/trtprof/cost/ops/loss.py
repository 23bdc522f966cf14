"""Losses of classification."""

from __future__ import annotations

from trtprof.base.records import Op, WorkBound
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import NOTHING, Recipe, softmax
from trtprof.cost._shapes import given, need, shape, size, string, work


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
