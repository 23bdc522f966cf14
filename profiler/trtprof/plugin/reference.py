"""What a task computes, in float64, and how far a correct kernel may be from it.

The body of a task is evaluated node by node. Float types are all raised to float64 and casts between them change
nothing; integers and booleans stay what they are. Beside each value goes a bound of the error that arithmetic of
single precision makes on its way: a running error analysis (N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.3), with u = 2**-24:

- An element-wise function f of x, each known to within e: what f moves by where x is moved by -e and by +e, plus one
  rounding, u |y|, of what is correctly rounded in hardware (+ - * / sqrt), two of other functions, none of what only
  chooses (max, where, abs).
- A sum of n terms: the errors of the terms, plus sqrt(n) u times the sum of their absolute values. The worst case is
  n u (section 3.1), which a kernel that adds up in fp16 would pass; sqrt(n) is what sums in two levels are bounded by
  up to a factor of 2 (section 4.2), and what rounding errors of any order reach where they are independent (N. J.
  Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019).
  A product of matrices or a convolution is evaluated on absolute values for it.
- Every operation may underflow: plus 2**-150, half of the least number of fp32; functions may give zero in place of
  what is below the least normal one, 2**-126.
- A cast to a narrower float type: half a unit in its last place, where it rounds: a kernel may do so or may not.
- Where a value leaves the range of fp32 on the way, but would come back in exact arithmetic, nothing is known.

The **rounding floor** of an output is that bound plus half a unit in the last place of its dtype at the value: what
remains where only the output is rounded. An error in units of it means the same for every template and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from trtprof.base.errors import UsageError
from trtprof.base.op_kinds import op_kind
from trtprof.base.units import NUMPY_DTYPES, is_float
from trtprof.plugin.task import Task

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]

UNIT = 2.0**-24  # Unit roundoff of fp32
UNDERFLOW = 2.0**-150  # Most that an operation of fp32 loses by underflow: half of its least positive number
NORMAL = 2.0**-126  # Least normal number of fp32
LARGEST = float(np.finfo(np.float32).max)

_PRECISION: Mapping[str, tuple[int, int, float]] = {
    "fp64": (53, -1022, float(np.finfo(np.float64).max)),
    "fp32": (24, -126, LARGEST),
    "fp16": (11, -14, 65504.0),
    "bf16": (8, -126, (2 - 2.0**-7) * 2.0**127),
}
"""Of a float dtype: bits of the significand, least exponent of a normal number, largest number."""


class Expected(NamedTuple):
    """What an output is to hold."""

    value: Array  # In float64, or the integers or booleans themselves; may be infinite or NaN
    floor: Array  # The rounding floor of each element, infinite where nothing is known; 0 where it is to be exact
    dtype: str  # Of the output


class Difference(NamedTuple):
    """How far an output is from what is expected."""

    worst: float  # Largest error in units of the rounding floor; infinite where one is NaN or infinite and is not to be
    place: tuple[int, ...]  # Indices of that element
    compared: int  # Elements that were compared; the others are not known
    reason: str  # The element in words


class _Known(NamedTuple):
    """A value on its way, and by how much fp32 may be off; None where it is exact. Of booleans: which may flip."""

    value: Array
    error: Array | None = None


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype that holds an operand."""
    if dtype == "bf16":
        brain: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return brain
    if dtype not in NUMPY_DTYPES:
        raise UsageError(
            f"no kernel is checked with operands of {dtype}", why="no array holds them", fix="leave it out"
        )
    return np.dtype(NUMPY_DTYPES[dtype])


def evaluate(task: Task, inputs: Sequence[Array]) -> tuple[Expected, ...]:
    """What the outputs of a task are to be. `inputs`: one array an operand, in its order and its dtype."""
    given = {
        operand.name: _Known(array.astype(np.float64) if is_float(operand.dtype) else array)
        for operand, array in zip(task.inputs, inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        found = _function(task.body, given, saturate=False)
        if any(_beyond(one) for one in found.values()):
            found = _merged(found, _function(task.body, given, saturate=True))
    return tuple(_expected(found[operand.name], operand.dtype) for operand in task.outputs)


def difference(expected: Expected, got: Array, where: Array | None = None) -> Difference:
    """How far an output is from what is expected.

    `got`: the output, in its dtype. `where`: which elements are compared; all of them by default.
    """
    known = np.isfinite(expected.floor) if where is None else np.isfinite(expected.floor) & where
    value = expected.value.astype(np.float64)
    off = got.astype(np.float64)
    with np.errstate(all="ignore"):
        floors = np.asarray(np.abs(off - value) / expected.floor)  # numpy makes a number of what has no dims
        floors[off == value] = 0.0
        floors[np.isnan(value) & np.isnan(off)] = 0.0
        if expected.dtype in _PRECISION:
            bits, _, largest = _PRECISION[expected.dtype]
            limit = largest * (1 + 2.0 ** (-bits - 1))  # what is above rounds to infinity
            same = np.isinf(off) & (np.sign(off) == np.sign(value)) & np.isfinite(value)
            slack = np.minimum(expected.floor, np.abs(value))
            floors[same & (np.abs(value) + slack >= limit)] = 0.0
            floors[~np.isinf(off) & (np.abs(value) - slack > limit)] = np.inf
        floors[np.isnan(floors)] = np.inf
    floors[~known] = 0.0
    count = int(np.count_nonzero(known))
    if floors.size == 0 or count == 0:
        return Difference(0.0, (), count, "")
    flat = int(np.argmax(floors))
    place = tuple(int(one) for one in np.unravel_index(flat, floors.shape))
    where_it_is = ", ".join(map(str, place))
    reason = f"element [{where_it_is}] is {off.flat[flat]:.9g}, expected {value.flat[flat]:.9g}"
    return Difference(float(floors.flat[flat]), place, count, reason)


def half_ulp(value: Array, dtype: str) -> Array:
    """Half a unit in the last place of a dtype at each value; 0 of dtypes that hold whole numbers."""
    if dtype not in _PRECISION:
        return np.zeros(value.shape)
    bits, least, largest = _PRECISION[dtype]
    clipped = np.minimum(np.abs(np.nan_to_num(value.astype(np.float64), posinf=0.0, neginf=0.0)), largest)
    _, exponent = np.frexp(clipped)
    exponent = np.where(clipped == 0, least, np.maximum(exponent - 1, least))
    return np.asarray(np.ldexp(0.5, exponent - bits + 1))


def _expected(found: _Known, dtype: str) -> Expected:
    error = np.zeros(found.value.shape) if found.error is None else found.error.astype(np.float64)
    floor = np.nan_to_num(error + half_ulp(found.value, dtype), nan=np.inf, posinf=np.inf)
    if found.value.dtype == bool:
        floor = np.where(error > 0, np.inf, 0.0)
    return Expected(found.value, floor, dtype)


def _beyond(found: _Known) -> bool:
    return found.error is not None and bool(np.isinf(found.error).any())


def _merged(free: Mapping[str, _Known], held: Mapping[str, _Known]) -> dict[str, _Known]:
    """Values where it does not matter whether intermediate ones overflow; nothing is known of the others."""
    merged = {}
    for name, other in held.items():
        one = _in_range(free[name], saturate=True)
        apart = np.abs(one.value.astype(np.float64) - other.value.astype(np.float64))
        same = (one.value == other.value) | ((one.value != one.value) & (other.value != other.value))
        apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
        error = np.zeros(one.value.shape) if other.error is None else other.error
        merged[name] = _Known(other.value if one.value.dtype == bool else one.value, error + apart)
    return merged


# The walk over nodes.


def _function(
    body: onnx.FunctionProto | onnx.GraphProto, given: Mapping[str, _Known], *, saturate: bool, opset: int = 0
) -> dict[str, _Known]:
    """Values of the outputs of a function."""
    opset = next((one.version for one in getattr(body, "opset_import", ()) if one.domain in ("", "ai.onnx")), opset)
    known = dict(given)
    for node in body.node:
        inputs = [known[name] if name else None for name in node.input]
        outputs = _node(node, inputs, opset, saturate=saturate)
        for name, one in zip(node.output, outputs, strict=False):
            if name:
                known[name] = _in_range(one, saturate=saturate)
    return {str(name): known[str(name)] for name in body.output}


def _in_range(known: _Known, *, saturate: bool) -> _Known:
    """A value with what leaves the range of fp32 made infinite, or not known."""
    if known.value.dtype != np.float64:
        return known
    out = np.isfinite(known.value) & (np.abs(known.value) > LARGEST * (1 + UNIT))
    if not out.any():
        return known
    if saturate:
        return _Known(np.where(out, np.copysign(np.inf, known.value), known.value), known.error)
    error = np.zeros(known.value.shape) if known.error is None else known.error
    return _Known(known.value, np.where(out, np.inf, error))


def _node(node: onnx.NodeProto, inputs: list[_Known | None], opset: int, *, saturate: bool) -> list[_Known]:
    op = node.op_type
    if node.domain not in ("", "ai.onnx"):
        raise _not_known(node)
    try:
        if op in _OWN:
            return [_OWN[op](_Call(node, inputs, opset))]
        if op == "Cast":
            return [_cast(_Call(node, inputs, opset))]
        if op == "CastLike" and inputs[1] is not None:
            inputs = [inputs[0], _Known(inputs[1].value)]  # of which the dtype alone matters
        if op in _CHOOSE or op in _ROUND or op in _FUNCTIONS:
            return [_pointwise(_Call(node, inputs, opset))]
        if op_kind(op) in {"view", "move", "fill", "shape"} or all(_whole(one) for one in inputs):
            return _moved(_Call(node, inputs, opset))
        body = _definition(node, inputs, opset)
    except (ValueError, TypeError, IndexError, RuntimeError, NotImplementedError, AttributeError) as error:
        if isinstance(error, UsageError):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"node {node.name or op} cannot be evaluated", why=first[:200], fix="--shapes gives other sizes"
        ) from error
    if body is None:
        raise _not_known(node)
    names = [name for name, one in zip(body.input, inputs, strict=False) if one is not None]
    given = dict(zip(names, (one for one in inputs if one is not None), strict=True))
    found = _function(body, given, saturate=saturate, opset=opset)
    return [found[name] for name in body.output]


def _not_known(node: onnx.NodeProto) -> UsageError:
    return UsageError(
        f"no reference is known for {node.op_type}",
        why=f"node {node.name or node.op_type} has no definition that float64 evaluates",
        fix="choose nodes without it",
    )


def _whole(known: _Known | None) -> bool:
    return known is None or (known.value.dtype != np.float64 and known.error is None)


class _Call(NamedTuple):
    """A node with its inputs."""

    node: onnx.NodeProto
    inputs: list[_Known | None]
    opset: int

    def run(self, values: Sequence[Array | None]) -> list[Array]:
        """Its outputs for other values, as the reference of ONNX computes them."""
        return _evaluated(self.node, values, self.opset)

    def attribute(self, name: str, default: Any) -> Any:
        import onnx

        for one in self.node.attribute:
            if one.name == name:
                return onnx.helper.get_attribute_value(one)
        return default

    def values(self) -> list[Array | None]:
        return [None if one is None else one.value for one in self.inputs]


def _evaluated(node: onnx.NodeProto, values: Sequence[Array | None], opset: int) -> list[Array]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    raised = _raised(node)
    if isinstance(raised, np.ndarray):
        return [raised]
    names = [f"in{place}" if one is not None else "" for place, one in enumerate(values)]
    outputs = [f"out{place}" if name else "" for place, name in enumerate(node.output)]
    call = onnx.NodeProto()
    call.CopyFrom(raised)
    del call.input[:], call.output[:]
    call.input.extend(names)
    call.output.extend(outputs)
    function = onnx.helper.make_function(
        "reference", "one", [name for name in names if name], [name for name in outputs if name], [call],
        [onnx.helper.make_opsetid("", opset)],
    )  # fmt: skip
    fed = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    found = iter(ReferenceEvaluator(function).run(None, fed, attributes={}))
    return [np.asarray(next(found)) if name else np.empty(0) for name in outputs]


def _raised(node: onnx.NodeProto) -> onnx.NodeProto | Array:
    """A node with the float types that it names made float64; of a Constant its value."""
    import onnx

    if node.op_type == "Constant":
        (attribute,) = node.attribute
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            value = onnx.numpy_helper.to_array(value)
        elif attribute.name.startswith("value_float"):
            value = np.asarray(value, np.float32)
        array = np.asarray(value)
        return array.astype(np.float64) if _is_float(array.dtype) else array
    if node.op_type not in {"Cast", "ConstantOfShape"}:
        return node
    raised = onnx.NodeProto()
    raised.CopyFrom(node)
    for attribute in raised.attribute:
        if attribute.name == "to" and attribute.i in _FLOAT_TYPES():
            attribute.i = onnx.TensorProto.DOUBLE
        if attribute.name == "value" and attribute.t.data_type in _FLOAT_TYPES():
            array = onnx.numpy_helper.to_array(attribute.t).astype(np.float64)
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(array))
    return raised


def _FLOAT_TYPES() -> frozenset[int]:  # noqa: N802
    import onnx

    return frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16)


def _definition(node: onnx.NodeProto, inputs: Sequence[_Known | None], opset: int) -> onnx.FunctionProto | None:
    """What the standard says that an op is, as a function of simpler ones; None where it says nothing."""
    import onnx

    schema: Any = onnx.defs.get_schema(node.op_type, opset, "")
    if schema.has_function:
        body = onnx.FunctionProto()
        body.CopyFrom(schema.function_body)
        return _with_attributes(body, node, schema)
    if not schema.has_context_dependent_function:
        return None
    types = [
        onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(one.value.dtype), one.value.shape
        ).SerializeToString() if one is not None else onnx.TypeProto().SerializeToString()
        for one in inputs
    ]  # fmt: skip
    newest = max(schema.context_dependent_function_opset_versions)
    found = schema.get_context_dependent_function_with_opset_version(newest, node.SerializeToString(), types)
    if not found:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(found)
    return _with_attributes(body, node, schema)


def _with_attributes(body: onnx.FunctionProto, node: onnx.NodeProto, schema: Any) -> onnx.FunctionProto:
    """A function whose nodes have, in place of names of attributes, what the node gives them."""
    given = {one.name: one for one in node.attribute}
    for inner in body.node:
        kept = []
        for one in inner.attribute:
            if not one.ref_attr_name:
                kept.append(one)
                continue
            found = given.get(one.ref_attr_name)
            if found is None and schema.attributes[one.ref_attr_name].default_value.name:
                found = schema.attributes[one.ref_attr_name].default_value
            if found is not None:
                copy = type(one)()
                copy.CopyFrom(found)
                copy.name = one.name
                kept.append(copy)
        del inner.attribute[:]
        inner.attribute.extend(kept)
    return body


# How errors go through ops.

_CHOOSE = frozenset({
    "Abs", "Neg", "Max", "Min", "Relu", "Clip", "Where", "Sign", "Floor", "Ceil", "Round", "Identity", "Not",
    "And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf", "Cast",
    "CastLike", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
})  # fmt: skip
"""Ops that round nothing."""

_ROUND = frozenset({
    "Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal", "LeakyRelu", "PRelu", "ThresholdedRelu", "Mod",
})  # fmt: skip
"""Ops that round once."""

_FUNCTIONS: Mapping[str, int] = {
    **dict.fromkeys((
        "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh",
        "Acosh", "Atanh", "Sigmoid", "Softsign", "Sum", "Mean",
    ), 2),
    "Pow": 4,
}  # fmt: skip
"""Functions that are not correctly rounded, with what is granted in roundings. The errors of CUDA's single-precision
functions (CUDA C++ Programming Guide, Mathematical Functions) are 1 to 2 units in the last place for most, which are
2 to 4 roundings, and more for pow."""

_NAN_LOST = frozenset({"Max", "Min", "Relu", "Clip", "Sign", "ThresholdedRelu"})
"""Ops of which the standard does not say what they make of NaN, and libraries differ."""


def _pointwise(call: _Call) -> _Known:
    """An element-wise op: each operand moved by its error, and what the result moves by."""
    values = call.values()
    run = _STABLE.get(call.node.op_type, call.run)
    (value,) = run(values)
    value = np.asarray(value)
    op = call.node.op_type
    counted = value.dtype == np.float64
    error = np.zeros(value.shape)
    touched = False
    for place, one in enumerate(call.inputs):
        if one is None or one.error is None or not one.error.any():
            continue
        touched = True
        moves = []
        for moved in _moves(one):
            (other,) = run([*values[:place], moved, *values[place + 1 :]])
            if not counted:
                moves.append((other != value) * 1.0 if value.dtype == bool else np.abs(other.astype(float) - value))
                continue
            same = (other == value) | (np.isnan(other) & np.isnan(value))
            moves.append(np.where(same, 0.0, np.abs(other - value)))
        stacked = np.stack(moves)
        lost = np.isnan(stacked).all(axis=0) | (np.isinf(one.error) & np.isnan(stacked).any(axis=0))
        error = error + np.where(lost, np.inf, np.nanmax(np.where(lost, 0.0, stacked), axis=0))
    if counted:
        roundings = 0 if op in _CHOOSE else _FUNCTIONS.get(op, 1)
        if op in {"Sum", "Mean"}:
            roundings = len(call.inputs)
        if roundings:
            least = NORMAL if op in _FUNCTIONS else UNDERFLOW
            error = error + roundings * UNIT * np.abs(np.nan_to_num(value, posinf=0.0, neginf=0.0)) + least
        if op in _NAN_LOST:
            nan = np.zeros(value.shape, bool)
            for given in values:
                if given is not None and given.dtype == np.float64:
                    nan = nan | np.isnan(given)
            error = np.where(nan, np.inf, error)
    elif value.dtype != bool and op in {"Cast", "CastLike"}:
        error = error + _out_of_range(values[0], value.dtype)
        touched = touched or bool(error.any())
    return _Known(value, error if counted or touched else None)


def _cast(call: _Call) -> _Known:
    """A cast; to a float type that is narrower than fp32 it may round, or may not."""
    import onnx

    found = _pointwise(call)
    to = {onnx.TensorProto.FLOAT16: "fp16", onnx.TensorProto.BFLOAT16: "bf16"}.get(call.attribute("to", 0))
    if to is None or found.value.dtype != np.float64:
        return found
    exact = (found.value.astype(numpy_dtype(to)).astype(np.float64) == found.value) & (np.asarray(found.error) == 0)
    exact |= ~np.isfinite(found.value)
    largest = _PRECISION[to][2]
    rounded = np.where(np.abs(found.value) > largest, np.inf, half_ulp(found.value, to))
    return _Known(found.value, np.asarray(found.error) + np.where(exact, 0.0, rounded))


def _out_of_range(given: Array | None, dtype: np.dtype[Any]) -> Array | float:
    """Infinite where a float does not fit an integer: the standard leaves open what it becomes."""
    if given is None or given.dtype != np.float64 or dtype.kind not in "iu":
        return 0.0
    limits = np.iinfo(dtype)
    inside = (given > limits.min - 1) & (given < limits.max + 1)
    return np.where(inside, 0.0, np.inf)


def _moves(known: _Known) -> list[Array]:
    """A value moved by its error to either side, and to no number where nothing is known of it."""
    error = known.error
    assert error is not None  # noqa: S101 - the caller has looked
    if known.value.dtype == bool:
        return [np.where(error > 0, ~known.value, known.value)]
    if known.value.dtype == np.float64:
        beyond = np.isinf(error)
        # What went beyond fp32 on the way may be infinite either way, or no number: infinity less infinity.
        lost = [np.where(beyond, np.nan, known.value)] if beyond.any() else []
        return [known.value + error, known.value - error, *lost]
    whole = np.minimum(error, 2.0**31).astype(known.value.dtype)
    return [known.value + whole, known.value - whole]


def _softplus(values: Sequence[Array | None]) -> list[Array]:
    (x,) = values
    return [np.logaddexp(0.0, np.asarray(x))]


_STABLE: Mapping[str, Callable[[Sequence[Array | None]], list[Array]]] = {
    "Sigmoid": lambda values: [np.exp(-np.logaddexp(0.0, -np.asarray(values[0])))],
    "Exp": lambda values: [np.exp(np.asarray(values[0]))],
    "Softplus": _softplus,
}
"""Functions that overflow in ONNX's own reference where their result does not."""


def _moved(call: _Call) -> list[_Known]:
    """An op that moves elements, or computes shapes: it does to the errors what it does to the values."""
    values = call.values()
    found = call.run(values)
    if not any(one is not None and one.error is not None for one in call.inputs):
        return [_Known(one) for one in found]
    errors = [
        None if one is None else one.value if one.error is None and one.value.dtype != np.float64
        else np.zeros(one.value.shape) if one.error is None else one.error
        for one in call.inputs
    ]  # fmt: skip
    return [
        _Known(value, error.astype(np.float64) if value.dtype == np.float64 else None)
        for value, error in zip(found, call.run(errors), strict=True)
    ]


def _bilinear(call: _Call, terms: int, run: Callable[[Sequence[Array | None]], Array] | None = None) -> _Known:
    """Sums of products of two operands, and of a third that is added."""

    def one_output(values: Sequence[Array | None]) -> Array:
        return call.run(values)[0]

    run = run or one_output
    values = call.values()
    value = run(values)
    sizes = [None if one is None else np.abs(np.nan_to_num(one, posinf=0.0, neginf=0.0)) for one in values]
    size = run(sizes)
    error = (math.sqrt(terms) + 1) * UNIT * size + terms * UNDERFLOW
    moved = [None if one is None else one.error for one in call.inputs]
    left, right = (np.zeros(values[k].shape) if moved[k] is None else moved[k] for k in (0, 1))  # type: ignore[union-attr]
    added = [None if one is None else np.zeros(one.shape) if moved[k + 2] is None else moved[k + 2]
             for k, one in enumerate(values[2:])]  # fmt: skip
    if moved[0] is not None:
        error = error + run([left, sizes[1], *(None if one is None else np.zeros_like(one) for one in added)])
    if moved[1] is not None:
        total = [sizes[0] if moved[0] is None else sizes[0] + left, right]  # type: ignore[operator]
        error = error + run([*total, *(None if one is None else np.zeros_like(one) for one in added)])
    if any(one is not None for one in moved[2:]):
        error = error + run([np.zeros_like(left), np.zeros_like(right), *added])
    return _Known(value, _overflowing(error, size))


def _overflowing(error: Array, size: Array) -> Array:
    """An error of a sum, not known where a part of the sum may overflow."""
    return np.where(size > LARGEST, np.inf, np.where(np.isnan(error), np.inf, error))


def _matmul(call: _Call) -> _Known:
    values = [np.asarray(one) for one in call.values()]
    return _bilinear(call, max(values[0].shape[-1], 1), lambda given: np.asarray(given[0]) @ np.asarray(given[1]))


def _gemm(call: _Call) -> _Known:
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    transposed = call.attribute("transA", 0), call.attribute("transB", 0)

    def run(values: Sequence[Array | None]) -> Array:
        a, b = (np.asarray(one).T if flip else np.asarray(one) for one, flip in zip(values, transposed, strict=False))
        product: Array = float(np.float32(alpha)) * (a @ b)
        return product if len(values) < 3 or values[2] is None else product + float(np.float32(beta)) * values[2]

    values = call.values()
    terms = np.asarray(values[0]).shape[0 if transposed[0] else 1] + 2
    found = _bilinear(call, terms, run)
    if alpha >= 0 and beta >= 0:
        return found
    error = np.abs(np.asarray(found.error))  # signs of the factors: bounds only grow by the product and the sum apart
    size = (
        abs(alpha)
        * np.abs(np.asarray(values[0]).T if transposed[0] else np.asarray(values[0]))
        @ np.abs(np.asarray(values[1]).T if transposed[1] else np.asarray(values[1]))
    )
    third = values[2] if len(values) > 2 else None
    size = size if third is None else size + abs(beta) * np.abs(third)
    return _Known(found.value, np.maximum(error, (math.sqrt(terms) + 1) * UNIT * size))


def _einsum(call: _Call) -> _Known:
    equation = call.attribute("equation", b"").decode()
    if len(call.inputs) != 2 or "..." in equation:
        raise _not_known(call.node)
    left, right = (np.asarray(one) for one in call.values())
    sides, _, result = equation.replace(" ", "").partition("->")
    first, second = sides.split(",")
    sizes = dict(zip(first, left.shape, strict=True)) | dict(zip(second, right.shape, strict=True))
    terms = math.prod(size for name, size in sizes.items() if name not in result)
    return _bilinear(call, max(terms, 1), lambda given: np.asarray(np.einsum(equation, *map(np.asarray, given))))


def _conv(call: _Call) -> _Known:
    weight = np.asarray(call.values()[1])
    return _bilinear(call, math.prod(weight.shape[1:]) + 1)


def _axes(call: _Call, rank: int) -> tuple[int, ...]:
    given = call.inputs[1].value.tolist() if len(call.inputs) > 1 and call.inputs[1] is not None else None
    axes = call.attribute("axes", None) if given is None else given
    if not axes:
        return () if call.attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(one % rank for one in axes))


def _summed(x: _Known, axes: tuple[int, ...], *, keep: bool, scale: float = 1.0) -> _Known:
    """A sum over axes, times a number."""
    terms = math.prod(x.value.shape[axis] for axis in axes)
    value = x.value.sum(axis=axes, keepdims=keep) * scale
    size = np.abs(np.nan_to_num(x.value, posinf=0.0, neginf=0.0)).sum(axis=axes, keepdims=keep)
    roundings = math.sqrt(max(terms - 1, 0)) + (scale != 1)
    error = roundings * UNIT * size * abs(scale) + (UNDERFLOW if scale != 1 else 0.0)
    if x.error is not None:
        error = error + x.error.sum(axis=axes, keepdims=keep) * abs(scale)
    return _Known(np.asarray(value), _overflowing(np.asarray(error), np.asarray(size)))


def _reduced(call: _Call) -> _Known:
    (x, *_) = call.inputs
    assert x is not None  # noqa: S101 - the standard asks for it
    op = call.node.op_type
    axes = _axes(call, x.value.ndim)
    keep = bool(call.attribute("keepdims", 1))
    if x.value.dtype != np.float64:
        # The evaluator adds in 64 bits; the result has the type of the operand, and wraps as that does.
        return _Known(call.run(call.values())[0].astype(x.value.dtype))
    count = math.prod(x.value.shape[axis] for axis in axes)
    if op in {"ReduceMax", "ReduceMin"}:
        extreme = np.max if op == "ReduceMax" else np.min
        start = -np.inf if op == "ReduceMax" else np.inf  # of no element
        value = np.asarray(extreme(x.value, axis=axes, keepdims=keep, initial=start))
        moved = np.zeros(x.value.shape) if x.error is None else x.error
        error = np.asarray(moved.max(axis=axes, keepdims=keep, initial=0.0))
        lost = np.isnan(x.value).any(axis=axes, keepdims=keep)
        return _Known(value, np.where(lost, np.inf, error))
    if op == "ReduceSum":
        return _summed(x, axes, keep=keep)
    if op == "ReduceMean":
        return _summed(x, axes, keep=keep, scale=1.0 / count if count else math.nan)
    if op == "ReduceProd":
        value = np.prod(x.value, axis=axes, keepdims=keep)
        relative = np.zeros(x.value.shape) if x.error is None else x.error / np.abs(x.value)
        error = np.abs(value) * (relative.sum(axis=axes, keepdims=keep) + count * UNIT) + count * UNDERFLOW
        return _Known(value, np.where(np.isfinite(value), error, 0.0))
    absolute = _Known(np.abs(x.value), x.error)
    if op == "ReduceL1":
        return _summed(absolute, axes, keep=keep)
    if op == "ReduceLogSum":
        return _through(np.log, _summed(x, axes, keep=keep), 2)
    if op == "ReduceLogSumExp":
        top = np.max(x.value, axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0)
        moved = np.zeros(x.value.shape) if x.error is None else x.error
        terms = _through(np.exp, _Known(x.value - top, moved + UNIT * np.abs(x.value - top)), 2)
        total = _through(np.log, _summed(terms, axes, keep=keep), 2)
        value = total.value + (top if keep else np.squeeze(top, axes))
        return _Known(value, np.asarray(total.error) + UNIT * np.abs(value) + UNDERFLOW)
    total = _summed(_square(x), axes, keep=keep)
    return total if op == "ReduceSumSquare" else _through(np.sqrt, total, 1)


def _square(x: _Known) -> _Known:
    moved = np.zeros(x.value.shape) if x.error is None else x.error
    value = x.value * x.value
    size = np.abs(np.nan_to_num(x.value, posinf=0.0, neginf=0.0))
    return _Known(value, 2 * size * moved + moved * moved + UNIT * size * size + UNDERFLOW)


def _through(function: Callable[[Array], Array], x: _Known, roundings: int) -> _Known:
    """A function of one operand; see `_pointwise`."""
    value = function(x.value)
    error = np.zeros(value.shape)
    if x.error is not None:
        moves = [np.where(other == value, 0.0, np.abs(other - value)) for other in map(function, _moves(x))]
        lost = np.isnan(moves).all(axis=0) | (np.isinf(x.error) & np.isnan(moves).any(axis=0))
        error = np.where(lost, np.inf, np.fmax.reduce(moves))
    size = np.abs(np.nan_to_num(value, posinf=0.0, neginf=0.0))
    return _Known(value, error + roundings * UNIT * size + UNDERFLOW)


def _product(left: _Known, right: _Known) -> _Known:
    value = left.value * right.value
    (a, b) = (np.abs(np.nan_to_num(one.value, posinf=0.0, neginf=0.0)) for one in (left, right))
    (e, f) = (np.zeros(one.value.shape) if one.error is None else one.error for one in (left, right))
    size = np.abs(np.nan_to_num(value, posinf=0.0, neginf=0.0))
    return _Known(value, a * f + e * b + e * f + UNIT * size + UNDERFLOW)


def _total(left: _Known, right: _Known, sign: int = 1) -> _Known:
    value = left.value + sign * right.value
    (e, f) = (np.zeros(one.value.shape) if one.error is None else one.error for one in (left, right))
    size = np.abs(np.nan_to_num(value, posinf=0.0, neginf=0.0))
    return _Known(value, e + f + UNIT * size)


def _layer_norm(call: _Call) -> _Known:
    """By the mean of squares of what is left of the mean: the definition of ONNX subtracts two large numbers."""
    x, scale, *rest = call.inputs
    assert x is not None and scale is not None  # noqa: S101, PT018 - the standard asks for both
    axis = call.attribute("axis", -1) % x.value.ndim
    epsilon = float(np.float32(call.attribute("epsilon", 1e-5)))
    found = _normalised(x, tuple(range(axis, x.value.ndim)), epsilon)
    found = _product(found, scale)
    return found if not rest or rest[0] is None else _total(found, rest[0])


def _instance_norm(call: _Call) -> _Known:
    x, scale, bias = call.inputs
    assert x is not None and scale is not None and bias is not None  # noqa: S101, PT018 - the standard asks for them
    epsilon = float(np.float32(call.attribute("epsilon", 1e-5)))
    shape = (-1, *[1] * (x.value.ndim - 2))
    scale, bias = (_Known(one.value.reshape(shape), one.error) for one in (scale, bias))
    return _total(_product(_normalised(x, tuple(range(2, x.value.ndim)), epsilon), scale), bias)


def _normalised(x: _Known, axes: tuple[int, ...], epsilon: float) -> _Known:
    count = math.prod(x.value.shape[axis] for axis in axes)
    scale = 1.0 / count if count else math.nan
    centred = _total(x, _summed(x, axes, keep=True, scale=scale), -1)
    variance = _total(_summed(_square(centred), axes, keep=True, scale=scale), _Known(np.full((1,), epsilon)))
    return _product(centred, _through(lambda one: 1.0 / np.sqrt(one), variance, 2))


def _quantised(call: _Call) -> tuple[Array, Array]:
    """Scale and zero point of a quantising node, in the shape of what it is for."""
    x, scale, *rest = call.inputs
    assert x is not None and scale is not None  # noqa: S101, PT018 - the standard asks for both
    zero = rest[0].value if rest and rest[0] is not None else np.zeros(scale.value.shape, np.int8)
    block = call.attribute("block_size", 0)
    axis = call.attribute("axis", 1)
    found = []
    for one in (scale.value.astype(np.float64), zero.astype(np.float64)):
        if block:
            spread = np.repeat(one, block, axis=axis)
            spread = np.take(spread, range(x.value.shape[axis]), axis=axis)
        elif one.ndim == 1 and one.size > 1:
            spread = one.reshape([-1 if place == axis % x.value.ndim else 1 for place in range(x.value.ndim)])
        else:
            spread = one.reshape(()) if one.size == 1 else one
        found.append(spread)
    return found[0], found[1]


def _dequantize(call: _Call) -> _Known:
    scale, zero = _quantised(call)
    x = call.inputs[0]
    assert x is not None  # noqa: S101 - the standard asks for it
    return _product(_Known(x.value.astype(np.float64) - zero), _Known(scale))


def _quantize(call: _Call) -> _Known:
    scale, zero = _quantised(call)
    x = call.inputs[0]
    assert x is not None  # noqa: S101 - the standard asks for it
    point = call.inputs[2] if len(call.inputs) > 2 else None
    dtype = np.dtype(np.uint8) if point is None else point.value.dtype
    limits = np.iinfo(dtype)
    moved = np.zeros(x.value.shape) if x.error is None else x.error
    quotient = x.value / scale
    slack = moved / np.abs(scale) + UNIT * np.abs(quotient)

    def rounded(value: Array) -> Array:
        return np.asarray(np.clip(np.rint(value) + zero, limits.min, limits.max))

    value = rounded(quotient)
    error = np.fmax(np.abs(rounded(quotient + slack) - value), np.abs(rounded(quotient - slack) - value))
    error = np.where(np.isnan(quotient), np.inf, error)
    return _Known(np.nan_to_num(value).astype(dtype), error)


def _softplus_known(call: _Call) -> _Known:
    (x,) = call.inputs
    assert x is not None  # noqa: S101 - the standard asks for it
    return _through(lambda one: np.logaddexp(0.0, one), x, 4)


_OWN: Mapping[str, Callable[[_Call], _Known]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
    "Softplus": _softplus_known,
    **dict.fromkeys((
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    ), _reduced),
}  # fmt: skip
"""Ops whose errors are bounded by more than a look at each element."""
