"""Element-wise ops of ONNX, written as C++: one line a node.

Floating point is computed in fp32, whatever a tensor is stored in, integers in their own type; where the model itself
casts to fp16 or bf16, it is rounded there. NaN, infinities and -0 are treated as ONNX's reference does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from onnx import FunctionProto, NodeProto, numpy_helper

from trtprof.base.onnx_graph import attribute_value, dtype_name
from trtprof.base.records import Attribute, Dim
from trtprof.plugin.cuda_text import c_type, narrowed, pieces, widened
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.task import Operand

C_TYPES: Mapping[str, str] = {
    "fp32": "float", "fp16": "float", "bf16": "float", "bool": "bool",
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long",
}  # fmt: skip
"""What each dtype is computed in."""

FLOATS = frozenset({"fp32", "fp16", "bf16"})
INTEGERS = frozenset(C_TYPES) - FLOATS - {"bool"}

HELPERS: Mapping[str, str] = {
    "max_or_nan": """\
// fmaxf drops a NaN; ONNX keeps it.
template <typename T> __device__ __forceinline__ T max_or_nan(T a, T b) { return a > b || a != a ? a : b; }
""",
    "min_or_nan": """\
// fminf drops a NaN; ONNX keeps it.
template <typename T> __device__ __forceinline__ T min_or_nan(T a, T b) { return a < b || a != a ? a : b; }
""",
    "sigmoid": """\
// exp of a number that is never above 0: no overflow, and small results keep their digits.
__device__ __forceinline__ float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
""",
    "softplus": """\
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
""",
    "integer_power": """\
template <typename T> __device__ T integer_power(T base, long long exponent) {
    T power = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            power *= base;
    return power;
}
""",
    "floor_modulo": """\
// The remainder has the sign of the divisor.
template <typename T> __device__ __forceinline__ T floor_modulo(T a, T b) {
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
""",
}
"""Functions that the lines may call; `helpers` picks those that a text does."""


class Value(NamedTuple):
    """A number of a chain."""

    text: str  # An identifier of C, or a literal
    dtype: str  # As ONNX has it; fp16 and bf16 are computed in fp32
    number: float | int | bool | None = None  # Of a constant its value


@dataclass(frozen=True)
class Call:
    """A node as its writer sees it."""

    op_type: str
    opset: int  # The version of the standard ops
    inputs: tuple[Value | None, ...]  # None where an optional one is left out
    attributes: Mapping[str, Attribute]  # By name

    def value(self, place: int) -> Value:
        """An input."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise NotFitError(f"{self.op_type} without its input {place}")
        return found

    @property
    def dtype(self) -> str:
        """Of the first input."""
        return self.value(0).dtype

    def real(self, name: str, default: float) -> str:
        """A numeric attribute as a literal."""
        found = self.attributes.get(name, default)
        if not isinstance(found, int | float):
            raise NotFitError(f"{self.op_type} whose {name} is no number")
        return literal(found, "fp32")


def literal(number: float | int | bool, dtype: str) -> str:
    """A number in C++, of the type that a dtype is computed in."""
    if dtype == "bool":
        return "true" if number else "false"
    if dtype not in FLOATS:
        if dtype == "int64":
            return "(-9223372036854775807LL - 1)" if number == -(2**63) else f"{int(number)}LL"
        return f"{int(number)}ULL" if dtype == "uint64" else f"({C_TYPES[dtype]}){int(number)}"
    value = np.float32(number)
    if np.isnan(value):
        return "__int_as_float(0x7fffffff)"
    if np.isinf(value):
        return f"{'-' if value < 0 else ''}__int_as_float(0x7f800000)"
    text = str(value)  # the shortest that reads back as the same fp32
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


Writer = Callable[[Call], tuple[str, str]]  # Of a node the expression, and the dtype of its result

_WRITERS: dict[str, Writer] = {}


def _writes(*op_types: str) -> Callable[[Writer], Writer]:
    def add(write: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(op_types, write))
        return write

    return add


def known_ops() -> frozenset[str]:
    """Op types that can be written."""
    return frozenset(_WRITERS)


_FLOAT_UNARY = {
    "Sqrt": "sqrtf({x})", "Exp": "expf({x})", "Log": "logf({x})", "Erf": "erff({x})", "Sin": "sinf({x})",
    "Cos": "cosf({x})", "Tan": "tanf({x})", "Asin": "asinf({x})", "Acos": "acosf({x})", "Atan": "atanf({x})",
    "Sinh": "sinhf({x})", "Cosh": "coshf({x})", "Tanh": "tanhf({x})", "Asinh": "asinhf({x})", "Acosh": "acoshf({x})",
    "Atanh": "atanhf({x})", "Ceil": "ceilf({x})", "Floor": "floorf({x})", "Round": "rintf({x})",
    "Reciprocal": "1.0f / {x}", "Sigmoid": "sigmoid({x})", "Softplus": "softplus({x})",
    "Softsign": "{x} / (1.0f + fabsf({x}))", "Mish": "{x} * tanhf(softplus({x}))",
    "HardSwish": "{x} * fminf(fmaxf({x} / 6.0f + 0.5f, 0.0f), 1.0f)",
}  # fmt: skip


@_writes(*_FLOAT_UNARY)
def _float_unary(call: Call) -> tuple[str, str]:
    _want_float(call)
    return _FLOAT_UNARY[call.op_type].format(x=call.value(0).text), call.dtype


_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "BiasAdd": "+"}


@_writes("Add", "Sub", "Mul")
def _arithmetic(call: Call) -> tuple[str, str]:
    return _binary(_ARITHMETIC[call.op_type], call.value(0), call.value(1)), call.dtype


def _binary(sign: str, a: Value, b: Value) -> str:
    """Sum, difference or product; integers wrap around, which C++ promises only of unsigned ones."""
    if a.dtype in FLOATS:
        return f"{a.text} {sign} {b.text}"
    if a.dtype not in INTEGERS:
        raise NotFitError(f"arithmetic of {a.dtype}")
    wide = "unsigned long long" if a.dtype in ("int64", "uint64") else "unsigned int"
    return f"({C_TYPES[a.dtype]})(({wide}){a.text} {sign} ({wide}){b.text})"


@_writes("Div")
def _div(call: Call) -> tuple[str, str]:
    a, b = call.value(0), call.value(1)
    if a.dtype not in FLOATS | INTEGERS:
        raise NotFitError(f"Div of {a.dtype}")
    # C++ truncates as ONNX does.
    text = f"{a.text} / {b.text}"
    return (text if a.dtype in FLOATS else f"({C_TYPES[a.dtype]})({text})"), a.dtype


@_writes("Mod")
def _mod(call: Call) -> tuple[str, str]:
    a, b = call.value(0), call.value(1)
    truncated = bool(call.attributes.get("fmod", 0))
    if a.dtype in FLOATS:
        if not truncated:
            raise NotFitError("Mod of floating point without fmod = 1, which ONNX leaves open")
        return f"fmodf({a.text}, {b.text})", a.dtype
    if a.dtype not in INTEGERS:
        raise NotFitError(f"Mod of {a.dtype}")
    if truncated or a.dtype.startswith("u"):
        return f"({C_TYPES[a.dtype]})({a.text} % {b.text})", a.dtype
    return f"floor_modulo<{C_TYPES[a.dtype]}>({a.text}, {b.text})", a.dtype


@_writes("Pow")
def _pow(call: Call) -> tuple[str, str]:
    base, exponent = call.value(0), call.value(1)
    x = base.text
    if base.dtype in FLOATS:
        match exponent.number:
            case 1:
                return x, base.dtype
            case 2:
                return f"{x} * {x}", base.dtype
            case 3:
                return f"{x} * {x} * {x}", base.dtype
            case _:
                return f"powf({x}, {_as_float(exponent)})", base.dtype
    if base.dtype in INTEGERS and exponent.dtype in INTEGERS:
        return f"integer_power<{C_TYPES[base.dtype]}>({x}, {exponent.text})", base.dtype
    raise NotFitError(f"Pow of {base.dtype} to a power in {exponent.dtype}")


@_writes("Min", "Max", "Sum", "Mean")
def _variadic(call: Call) -> tuple[str, str]:
    values = [call.value(place) for place in range(len(call.inputs))]
    text = values[0].text
    for value in values[1:]:
        if call.op_type in ("Min", "Max"):
            text = f"{call.op_type.lower()}_or_nan<{C_TYPES[call.dtype]}>({text}, {value.text})"
        else:
            text = _binary("+", Value(text, call.dtype), value)
    if call.op_type == "Mean":
        _want_float(call)
        text = f"({text}) / {literal(len(values), 'fp32')}"
    return text, call.dtype


_LOGIC = {"And": "&&", "Or": "||", "Xor": "!="}
_COMPARE = {"Equal": "==", "Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<="}
_BITWISE = {"BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}


@_writes(*_LOGIC, *_COMPARE)
def _truth(call: Call) -> tuple[str, str]:
    sign = _LOGIC.get(call.op_type) or _COMPARE[call.op_type]
    return f"{call.value(0).text} {sign} {call.value(1).text}", "bool"


@_writes(*_BITWISE)
def _bitwise(call: Call) -> tuple[str, str]:
    _want_integer(call)
    return f"({C_TYPES[call.dtype]})({call.value(0).text} {_BITWISE[call.op_type]} {call.value(1).text})", call.dtype


@_writes("BitwiseNot")
def _bitwise_not(call: Call) -> tuple[str, str]:
    _want_integer(call)
    return f"({C_TYPES[call.dtype]})(~{call.value(0).text})", call.dtype


@_writes("BitShift")
def _bit_shift(call: Call) -> tuple[str, str]:
    _want_integer(call)
    sign = "<<" if call.attributes.get("direction") == "LEFT" else ">>"
    return f"({C_TYPES[call.dtype]})({call.value(0).text} {sign} {call.value(1).text})", call.dtype


@_writes("Not")
def _not(call: Call) -> tuple[str, str]:
    return f"!{call.value(0).text}", "bool"


@_writes("Where")
def _where(call: Call) -> tuple[str, str]:
    return f"{call.value(0).text} ? {call.value(1).text} : {call.value(2).text}", call.value(1).dtype


@_writes("Abs")
def _abs(call: Call) -> tuple[str, str]:
    x = call.value(0).text
    if call.dtype in FLOATS:
        return f"fabsf({x})", call.dtype
    return (x if call.dtype.startswith("u") else f"({C_TYPES[call.dtype]})({x} < 0 ? -{x} : {x})"), call.dtype


@_writes("Neg")
def _neg(call: Call) -> tuple[str, str]:
    x = call.value(0).text
    return (f"-{x}" if call.dtype in FLOATS else f"({C_TYPES[call.dtype]})(-{x})"), call.dtype


@_writes("Sign")
def _sign(call: Call) -> tuple[str, str]:
    x = call.value(0).text
    if call.dtype in FLOATS:
        return f"{x} > 0.0f ? 1.0f : {x} < 0.0f ? -1.0f : {x} + 0.0f", call.dtype  # 0 of -0, NaN of NaN
    return f"({C_TYPES[call.dtype]})(({x} > 0) - ({x} < 0))", call.dtype


@_writes("IsNaN")
def _is_nan(call: Call) -> tuple[str, str]:
    return f"{call.value(0).text} != {call.value(0).text}", "bool"


@_writes("IsInf")
def _is_inf(call: Call) -> tuple[str, str]:
    x, infinity = call.value(0).text, literal(math.inf, "fp32")
    above, below = (call.attributes.get(f"detect_{side}", 1) for side in ("positive", "negative"))
    if above and below:
        return f"fabsf({x}) == {infinity}", "bool"
    return (f"{x} == {infinity}" if above else f"{x} == -{infinity}" if below else "false"), "bool"


@_writes("Identity", "Dropout")
def _same(call: Call) -> tuple[str, str]:
    if call.op_type == "Dropout" and len(call.inputs) > 2 and call.inputs[2] is not None and call.inputs[2].number != 0:
        raise NotFitError("Dropout that trains")
    return call.value(0).text, call.dtype


@_writes("Relu")
def _relu(call: Call) -> tuple[str, str]:
    x, zero = call.value(0).text, literal(0, call.dtype)
    return f"{x} < {zero} ? {zero} : {x}", call.dtype


@_writes("Clip")
def _clip(call: Call) -> tuple[str, str]:
    text, kind = call.value(0).text, C_TYPES[call.dtype]
    bounds: list[str | None] = [None, None]
    for place, name in enumerate(("min", "max")):
        given = call.attributes.get(name)  # before opset 11
        if isinstance(given, int | float):
            bounds[place] = literal(given, call.dtype)
        elif len(call.inputs) > place + 1 and (bound := call.inputs[place + 1]) is not None:
            bounds[place] = bound.text
    # In this order: where the bounds are crossed, the upper one counts.
    if bounds[0] is not None:
        text = f"max_or_nan<{kind}>({text}, {bounds[0]})"
    if bounds[1] is not None:
        text = f"min_or_nan<{kind}>({text}, {bounds[1]})"
    return text, call.dtype


@_writes("LeakyRelu", "PRelu", "ThresholdedRelu", "Elu", "Selu", "Celu", "HardSigmoid", "Shrink", "Swish", "Gelu")
def _activation(call: Call) -> tuple[str, str]:
    x, real = call.value(0).text, call.real
    if call.op_type != "PRelu":
        _want_float(call)
    zero = literal(0, call.dtype)
    match call.op_type:
        case "LeakyRelu":
            text = f"{x} < 0.0f ? {real('alpha', 0.01)} * {x} : {x}"
        case "PRelu":
            slope = _binary("*", call.value(1), call.value(0))
            text = f"{x} < {zero} ? {slope} : {x}"
        case "ThresholdedRelu":
            text = f"{x} > {real('alpha', 1.0)} ? {x} : 0.0f"
        case "Elu":
            text = f"{x} < 0.0f ? {real('alpha', 1.0)} * expm1f({x}) : {x}"
        case "Selu":
            alpha, gamma = real("alpha", 1.67326319217681884765625), real("gamma", 1.05070102214813232421875)
            text = f"{gamma} * ({x} <= 0.0f ? {alpha} * expm1f({x}) : {x})"
        case "Celu":
            alpha = real("alpha", 1.0)
            text = f"{x} < 0.0f ? {alpha} * expm1f({x} / {alpha}) : {x}"
        case "HardSigmoid":
            line = f"{real('alpha', 0.2)} * {x} + {real('beta', 0.5)}"
            text = f"min_or_nan<float>(max_or_nan<float>({line}, 0.0f), 1.0f)"
        case "Shrink":
            bias, lambd = real("bias", 0.0), real("lambd", 0.5)
            text = f"{x} < -{lambd} ? {x} + {bias} : {x} > {lambd} ? {x} - {bias} : 0.0f"
        case "Swish":
            text = f"{x} * sigmoid({real('alpha', 1.0)} * {x})"
        case _:
            # Both forms without the difference of nearly equal numbers that 1 + erf(x) and 1 + tanh(x) are.
            if call.attributes.get("approximate", "none") == "tanh":
                inner = f"1.5957691216057308f * ({x} + 0.044715f * {x} * {x} * {x})"
                text = f"{x} * sigmoid({inner})"
            else:
                text = f"{x} * normcdff({x})"
    return text, call.dtype


@_writes("Cast", "CastLike")
def _cast(call: Call) -> tuple[str, str]:
    if call.op_type == "CastLike":
        to = call.value(1).dtype
    else:
        number = call.attributes.get("to")
        to = dtype_name(number) if isinstance(number, int) else "unknown"
    return cast(call.value(0), to), to


def cast(value: Value, to: str) -> str:
    """A value as another dtype: C++ truncates, any number but 0 is true, fp16 and bf16 are rounded to."""
    source, x = value.dtype, value.text
    if source not in C_TYPES or to not in C_TYPES:
        raise NotFitError(f"Cast from {source} to {to}")
    if source == to:
        return x
    if to == "bool":
        return f"{x} != {literal(0, source)}"
    if to in INTEGERS:
        # An fp32 beyond a narrow integer: by way of int, as compilers for CPUs do it.
        way = "(int)" if source in FLOATS and to in ("int8", "uint8", "int16", "uint16") else ""
        return f"({C_TYPES[to]}){way}{x}"
    x = x if source in FLOATS else f"(float){x}"
    if to == "fp32" or (source, to) in (("bool", "fp16"), ("bool", "bf16")):
        return x
    return widened(to, narrowed(to, x))


def _as_float(value: Value) -> str:
    return value.text if value.dtype in FLOATS else f"(float){value.text}"


def _want_float(call: Call) -> None:
    if call.dtype not in FLOATS:
        raise NotFitError(f"{call.op_type} of {call.dtype}")


def _want_integer(call: Call) -> None:
    if call.dtype not in INTEGERS:
        raise NotFitError(f"{call.op_type} of {call.dtype}")


@dataclass
class Chain:
    """Lines of C++ for nodes, one after another."""

    opset: int  # Version of the standard ops
    values: dict[str, Value] = field(default_factory=dict)  # By the names that the nodes use
    lines: list[str] = field(default_factory=list)  # What was written so far

    def add(self, node: NodeProto, name: str = "") -> Value:
        """Write a node whose inputs have values."""
        write = _WRITERS.get(node.op_type)
        if write is None:
            raise NotFitError(f"{node.op_type} is no element-wise op that is written")
        inputs = tuple(self.values[name] if name else None for name in node.input)
        wrong = sorted({value.dtype for value in inputs if value is not None} - set(C_TYPES))
        if wrong:
            raise NotFitError(f"{node.op_type} of {', '.join(wrong)}")
        text, dtype = write(Call(node.op_type, self.opset, inputs, attributes(node)))
        if re.fullmatch(r"\w+", text):  # the value of another: nothing is computed
            found = Value(text, dtype)
        else:
            name = name or f"{node.op_type.lower()}_{len(self.lines) + 1}"
            while any(name == value.text for value in self.values.values()):
                name += "_"
            found = Value(name, dtype)
            self.lines.append(f"const {C_TYPES[dtype]} {found.text} = {text};")
        self.values[node.output[0]] = found
        return found


def helpers(text: str) -> str:
    """The functions that a text calls, and those that they call."""
    found: dict[str, str] = {}

    def look(at: str) -> None:
        for name, code in HELPERS.items():
            if name not in found and re.search(rf"\b{name}\b", at):
                found[name] = code
                look(code)

    look(text)
    return "\n".join(code for name, code in HELPERS.items() if name in found)


def complete(text: str, *names: str, of: Iterable[str] = ()) -> str:
    """A kernel with all that stands before it: pieces of `cuda_text`, and the functions that its lines call."""
    called = [dtype for dtype, name in (("fp16", "float_to_half"), ("bf16", "float_to_bf16")) if name in text]
    return "\n".join(one for one in (pieces(*names, of=[*of, *called]), helpers(text), text) if one)


def attributes(node: NodeProto) -> dict[str, Attribute]:
    """The plain attributes of a node."""
    return {one.name: value for one in node.attribute if (value := attribute_value(one)) is not None}


def opset_of(body: FunctionProto) -> int:
    """Version of the standard ops in a function."""
    return next((one.version for one in body.opset_import if one.domain in ("", "ai.onnx")), 1)


def constants(body: FunctionProto) -> dict[str, np.ndarray[Any, Any]]:
    """What the Constant nodes of a function hold, by the name of their output."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for node in body.node:
        if node.op_type != "Constant":
            continue
        for one in node.attribute:
            if one.name == "value":
                found[node.output[0]] = numpy_helper.to_array(one.t)
            elif one.name in ("value_int", "value_ints"):
                found[node.output[0]] = np.array(attribute_value(one), np.int64)
            elif one.name in ("value_float", "value_floats"):
                found[node.output[0]] = np.array(attribute_value(one), np.float32)
    return found


def computing(body: FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a function that compute something."""
    return (node for node in body.node if node.op_type != "Constant")


def constant_value(array: np.ndarray[Any, Any]) -> Value | None:
    """A constant of one element as a value; None of others."""
    if array.size != 1:
        return None
    dtype = dtype_of(array)
    number = array.reshape(()).astype(np.float64).item() if dtype in FLOATS else array.reshape(()).item()
    return Value(literal(number, dtype), dtype, number) if dtype in C_TYPES else None


def dtype_of(array: np.ndarray[Any, Any]) -> str:
    """The dtype of an array, by our names; numpy's where we have none."""
    import onnx

    try:
        return dtype_name(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
    except (KeyError, ValueError):
        return str(array.dtype)


def broadcast(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The shape that several are broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    found: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            named = " beside ".join(sorted(map(str, sizes)))
            raise NotFitError(f"a dimension of {named}: whether one is broadcast is not known")
        found.append(sizes.pop() if sizes else 1)
    return tuple(found)


def loaded(operand: Operand, element: str) -> str:
    """An element as it is stored, as the type that it is computed in."""
    if operand.dtype in FLOATS:
        return widened(operand.dtype, element)
    return f"{element} != 0" if operand.dtype == "bool" else element


def stored(operand: Operand, value: Value) -> str:
    """A value as it is stored in an operand."""
    text = value.text if operand.dtype in FLOATS and value.dtype in FLOATS else cast(value, operand.dtype)
    return narrowed(operand.dtype, text) if operand.dtype in FLOATS else f"({c_type(operand.dtype)})({text})"


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level further in; what speaks to the compiler stays where it is."""
    return [line if line.startswith("#") or not line else f"    {line}" for line in lines]
