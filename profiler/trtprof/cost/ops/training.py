"""Optimisers of ``ai.onnx.preview.training``: one step for any number of tensors.

Inputs are the learning rate R, the update count T, then all tensors, their gradients and the states
that the optimiser keeps of them. What is computed once a step, the adjusted learning rate, is not
counted; nor is a regularisation whose coefficient is 0.
"""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import need, number, size, string, work

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
