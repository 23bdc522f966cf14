"""One value out for one place in: arithmetic, compares, casts, activations."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import ACTIVATIONS, GELU_ERF, GELU_TANH, SILU, Recipe, dequantize, quantize
from trtprof.cost._shapes import MS, constant, given, integer, need, out, shape, size, string, work


@cost("Abs", "Ceil", "Floor", "IsInf", "IsNaN", "Neg", "Reciprocal", "Round", "Sign", "BitwiseNot", "Not")
def unary(op: Op) -> Cost:
    """One FLOP per element; a reciprocal is a divide."""
    return work(op, vector=size(out(op)))


@cost("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan")
@cost("Erf", "Exp", "Log", "Sqrt")
def transcendental(op: Op) -> Cost:
    """The function of its name, once per element."""
    return work(op, Recipe(0, {op.op_type.lower(): size(out(op))}))


@cost("Add", "Sub", "Mul", "Div", "Mod", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "And", "Or", "Xor")
@cost("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def binary(op: Op) -> Cost:
    """One FLOP per output element; inputs broadcast and are read once at their own size."""
    return work(op, vector=size(out(op)))


@cost("Pow")
def power(op: Op) -> Cost:
    """One power per output element, whatever the exponent."""
    return work(op, Recipe(0, {"pow": size(out(op))}))


@cost("Sum", "Max", "Min")
def variadic(op: Op) -> Cost:
    """One FLOP per output element and input after the first."""
    return work(op, vector=(len(op.inputs) - 1) * size(out(op)))


@cost("Mean")
def mean(op: Op) -> Cost:
    """The sum, and one divide."""
    return work(op, vector=len(op.inputs) * size(out(op)))


@cost("Clip", last=10)
def clip_by_attributes(op: Op) -> Cost:
    """Two compares per element: the limits are attributes with defaults."""
    return work(op, vector=2 * size(out(op)))


@cost("Clip", first=11)
def clip(op: Op) -> Cost:
    """One compare per element and limit given."""
    limits = sum(given(op, index) is not None for index in (1, 2))
    return work(op, vector=limits * size(out(op)))


@cost("Cast", "CastLike")
def cast(op: Op) -> Cost:
    """One convert per element when the dtype changes; the second input of CastLike is not read."""
    changes = need(op, 0).dtype != out(op).dtype
    return work(op, vector=size(out(op)) if changes else 0, read={1: 0})


@cost("CumSum", "CumProd")
def cumulative(op: Op) -> Cost:
    """Takes n - 1 adds along the axis (n - 2 when exclusive), for every line of values."""
    x = need(op, 0)
    total, axis = size(x), constant(op, 1)
    if total == 0:
        return work(op)
    if not axis:
        return work(op, vector=total, bound="upper", note="axis unknown")
    n = shape(x)[axis[0]]
    saved = 2 if integer(op, "exclusive", 0) else 1
    return work(op, vector=max(n - saved, 0) * (total // n))


@cost("BiasAdd", domain=MS)
def bias_add(op: Op) -> Cost:
    """X + bias + skip: two adds per element."""
    return work(op, vector=2 * size(out(op)))


@cost("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(op: Op) -> Cost:
    """Both inputs dequantised, one FLOP, the result quantised.

    Inputs A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point.
    """
    y = size(out(op))
    vector = y + quantize(given(op, 7) is not None).vector * y
    for index in (0, 3):
        vector += dequantize(given(op, index + 2) is not None).vector * size(need(op, index))
    return work(op, vector=vector)


@cost("GatedAdd", domain=MS)
def gated_add(op: Op) -> Cost:
    """X + Y * gate: a multiply and an add per element."""
    return work(op, vector=2 * size(out(op)))


@cost("ComplexMul", "ComplexMulConj", domain=MS)
def complex_multiply(op: Op) -> Cost:
    """Four multiplies and two adds a complex number, which is two values of the last dimension.

    Source: ONNX Runtime, contrib_ops/cuda/math/complex_mul.cc.
    """
    return work(op, vector=3 * size(out(op)))


@cost("MulInteger", domain=MS)
def multiply_integer(op: Op) -> Cost:
    """(A - A_zero_point) * (B - B_zero_point), in integers. Inputs A, A_zero_point, B, B_zero_point."""
    shifted = sum(size(need(op, index)) for index in (0, 2) if given(op, index + 1) is not None)
    return work(op, vector=shifted + size(out(op)))


@cost("IsAllFinite", domain=MS)
def is_all_finite(op: Op) -> Cost:
    """A test per element, and a logic operation per element after the first."""
    total = sum(size(tensor) for tensor in op.inputs if tensor is not None)
    return work(op, vector=max(2 * total - 1, 0))


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
