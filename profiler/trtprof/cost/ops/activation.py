"""Activations, plain, with a bias, and quantised."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import ACTIVATIONS, GELU_ERF, GELU_TANH, SILU, Recipe, dequantize, quantize
from trtprof.cost._shapes import MS, given, need, out, size, string, work


def _each(op: Op, recipe: Recipe) -> Cost:
    total = recipe.times(size(out(op)))
    return work(op, total)


@cost("Relu", "LeakyRelu", "PRelu", "ThresholdedRelu", "Elu", "Celu", "Selu", "Shrink")
@cost("Sigmoid", "HardSigmoid", "HardSwish", "Mish", "Softplus", "Softsign", "Swish", "Tanh")
@cost("QuickGelu", domain=MS)
def activation(op: Op) -> Cost:
    """Its definition, per element."""
    return _each(op, ACTIVATIONS[op.op_type.lower()])


@cost("Gelu")
@cost("Gelu", domain=MS)
def gelu(op: Op) -> Cost:
    """The form with erf, or with tanh when ``approximate`` says so."""
    return _each(op, GELU_TANH if string(op, "approximate", "none") == "tanh" else GELU_ERF)


@cost("FastGelu", domain=MS)
def fast_gelu(op: Op) -> Cost:
    """The form with tanh, and one add for a bias."""
    return _each(op, GELU_TANH.plus(Recipe(int(given(op, 1) is not None))))


@cost("BiasGelu", domain=MS)
def bias_gelu(op: Op) -> Cost:
    """One add, and the form with erf."""
    return _each(op, GELU_ERF.plus(Recipe(1)))


@cost("BiasSplitGelu", domain=MS)
def bias_split_gelu(op: Op) -> Cost:
    """X + bias, halved along the last axis: one half times the Gelu of the other."""
    gated = GELU_ERF.plus(Recipe(1)).times(size(out(op)))
    return work(op, gated, vector=size(need(op, 0)))


@cost("QLinearSigmoid", "QLinearLeakyRelu", domain=MS)
def qlinear_activation(op: Op) -> Cost:
    """Dequantised, the definition, quantised; a table of 256 results does with less.

    Inputs X, X_scale, X_zero_point, Y_scale, Y_zero_point.
    """
    recipe = ACTIVATIONS[op.op_type.removeprefix("QLinear").lower()]
    around = dequantize(given(op, 2) is not None).plus(quantize(given(op, 4) is not None))
    return _each(op, recipe.plus(around))


@cost("ScaledSiLU", domain=MS)
def scaled_silu(op: Op) -> Cost:
    """Z * sigmoid(z) with z = scale * x. Inputs X, scale."""
    return work(op, SILU.plus(Recipe(1)).times(size(out(op))))


@cost("SwiGLU")
def swiglu(op: Op) -> Cost:
    """Swish of the gate, times the value. Inputs gate, value."""
    return _each(op, ACTIVATIONS["swish"].plus(Recipe(1)))
