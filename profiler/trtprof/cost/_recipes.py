"""Arithmetic per element of what many ops share: activations, quantisation, normalisation, softmax.

Each activation is counted as its ONNX definition reads, one vector FLOP per add, multiply, divide,
compare, negation or absolute value, one special per transcendental function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trtprof.base.records import Op


class Recipe(NamedTuple):
    """Vector FLOP, and evaluations by special function; recipes add and scale like vectors."""

    vector: int
    special: Mapping[str, int] = {}

    def plus(self, other: Recipe) -> Recipe:
        """Both, one after the other."""
        return Recipe(self.vector + other.vector, merged(self.special, other.special))

    def times(self, count: int) -> Recipe:
        """This recipe for ``count`` elements."""
        return Recipe(self.vector * count, {name: each * count for name, each in self.special.items()})


def merged(first: Mapping[str, int], second: Mapping[str, int]) -> Mapping[str, int]:
    """Counts by name, added up."""
    if not first or not second:
        return first or second
    return {name: first.get(name, 0) + second.get(name, 0) for name in (*first, *second)}


NOTHING = Recipe(0)

GELU_ERF = Recipe(4, {"erf": 1})
"""0.5 * x * (1 + erf(x / sqrt 2)): divide, add, two multiplies; erf."""
GELU_TANH = Recipe(8, {"tanh": 1})
"""0.5 * x * (1 + tanh(c * (x + 0.044715 * x^3))): cube 2, scale, add, scale, add, two multiplies; tanh."""
SILU = Recipe(4, {"exp": 1})
"""x * sigmoid(x)."""

ACTIVATIONS: dict[str, Recipe] = {
    "affine": Recipe(2),  # alpha * x + beta
    "celu": Recipe(6, {"exp": 1}),  # max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
    "clip": Recipe(2),
    "elu": Recipe(3, {"exp": 1}),  # x < 0 ? alpha * (exp(x) - 1) : x
    "fastgelu": GELU_TANH,
    "gelu": GELU_ERF,
    "hardsigmoid": Recipe(4),  # max(0, min(1, alpha * x + beta))
    "hardswish": Recipe(5),  # x * max(0, min(1, x / 6 + 0.5))
    "leakyrelu": Recipe(2),  # x < 0 ? alpha * x : x
    "mish": Recipe(2, {"exp": 1, "log": 1, "tanh": 1}),  # x * tanh(log(1 + exp(x)))
    "prelu": Recipe(2),
    "quickgelu": Recipe(5, {"exp": 1}),  # x * sigmoid(alpha * x)
    "relu": Recipe(1),
    "scaledtanh": Recipe(2, {"tanh": 1}),  # alpha * tanh(beta * x)
    "selu": Recipe(4, {"exp": 1}),  # gamma * (x > 0 ? x : alpha * exp(x) - alpha)
    "shrink": Recipe(3),  # x < -l ? x + b : x > l ? x - b : 0
    "sigmoid": Recipe(3, {"exp": 1}),  # 1 / (1 + exp(-x))
    "silu": SILU,
    "softplus": Recipe(1, {"exp": 1, "log": 1}),  # log(exp(x) + 1)
    "softsign": Recipe(3),  # x / (1 + |x|)
    "swish": Recipe(5, {"exp": 1}),  # x * sigmoid(alpha * x)
    "tanh": Recipe(0, {"tanh": 1}),
    "thresholdedrelu": Recipe(1),
}
"""By name in lower case, because the recurrent ops take their names in any case."""


def fused_activation(op: Op) -> tuple[Recipe, str]:
    """Recipe of the activation named in a fused op's attributes, and a note when it is not known."""
    name = op.attributes.get("activation", "")
    if not isinstance(name, str) or name.lower() in ("", "none", "identity"):
        return NOTHING, ""
    recipe = ACTIVATIONS.get(name.lower())
    return (NOTHING, f"activation {name} not counted") if recipe is None else (recipe, "")


def quantize(zero_point: bool) -> Recipe:
    """saturate(round(x / scale) + zero_point): divide, round, add, two compares."""
    return Recipe(5 if zero_point else 4)


def dequantize(zero_point: bool) -> Recipe:
    """(x - zero_point) * scale: subtract, convert, multiply."""
    return Recipe(3 if zero_point else 2)


def requantize(zero_point: bool = True) -> Recipe:
    """An int32 accumulator to 8 bits: convert, multiply, round, add, two compares."""
    return Recipe(6 if zero_point else 5)


def dynamic_quantize(elements: int) -> Recipe:
    """Range of the values, scale and zero point from it, then every value quantised.

    Minimum and maximum take ``elements - 1`` compares each, and 2 to take in zero; the scale 2, the
    zero point 4 (divide, round, two compares).
    """
    return NOTHING if elements == 0 else Recipe(2 * (elements - 1) + 8).plus(quantize(True).times(elements))


def normalize(groups: int, n: int, centered: bool = True) -> Recipe:
    """Mean and variance over ``n`` values, then every value scaled by the inverse deviation.

    Centered (layer, instance, group and batch norm): sum n-1 and a divide; subtract n; square n, sum n-1 and a divide;
    epsilon, square root, reciprocal; multiply n: 5n + 2 and one special a group. Not centered (RMS norm): square n, sum
    n-1 and a divide; epsilon, square root, reciprocal; multiply n: 3n + 2 and one special.
    """
    if n == 0:
        return NOTHING
    return Recipe((5 if centered else 3) * n + 2, {"sqrt": 1}).times(groups)


def softmax(rows: int, n: int) -> Recipe:
    """exp(x - max x) / sum: n-1 compares, n subtracts, n exp, n-1 adds, n divides a row."""
    return NOTHING if n == 0 else Recipe(4 * n - 2, {"exp": n}).times(rows)
