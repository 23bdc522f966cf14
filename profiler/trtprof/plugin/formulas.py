"""What nodes compute, in formulas that a person reads: ``y[i,j] = sum_k x[i,k] * w[k,j]``, a line a node.

``k`` is summed over; 0 stands where a dimension has one element.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from trtprof.base.op_kinds import POINTWISE, VIEWS
from trtprof.base.records import Dim, Op
from trtprof.base.units import format_shape

_LONG = 16  # Numbers of a list, and attributes of an op, that are written out
_SIGNS = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Pow": "^", "Mod": "mod", "And": "and", "Or": "or", "Xor": "xor",
    "Equal": "==", "Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<=",
}  # fmt: skip
_REDUCED = {
    "Sum": "sum({a})", "Mean": "mean({a})", "Max": "max({a})", "Min": "min({a})", "Prod": "product({a})",
    "L1": "sum(abs({a}))", "L2": "sqrt(sum({a}^2))", "SumSquare": "sum({a}^2)",
}  # fmt: skip
_NORM, _ON = "({a} - mean({a})) / sqrt(var({a}) + {epsilon:g}) * {b}", ", from axis {axis} on"
_TEMPLATES = {
    **{op_type: f"{{a}} {sign} {{b}}" for op_type, sign in _SIGNS.items()},
    **{f"Reduce{name}": f"{text} over axes {{axes}}|{text} over axes {{b}}|{text}" for name, text in _REDUCED.items()},
    "Neg": "-{a}", "Not": "not {a}", "Reciprocal": "1 / {a}", "Relu": "max({a}, 0)", "Sigmoid": "1 / (1 + exp(-{a}))",
    "Swish": "{a} / (1 + exp(-{a}))", "HardSwish": "{a} * min(max({a} / 6 + 0.5, 0), 1)",
    "Where": "{b} if {a} else {c}", "PRelu": "{a} if {a} >= 0 else {b} * {a}",
    "LeakyRelu": "{a} if {a} >= 0 else {alpha:g} * {a}", "Gelu": "0.5 * {a} * (1 + erf({a} / sqrt(2)))",
    "GeluTanh": "0.5 * {a} * (1 + tanh(0.797885 * ({a} + 0.044715 * {a}^3)))",
    "Clip": "min(max({a}, {b}), {c})|max({a}, {b})|min({a}, {c})|min(max({a}, {min:g}), {max:g})",
    "Cast": "{dtype}({a})", "Concat": "{all} along axis {axis}",
    "QuantizeLinear": "saturate(round({a} / {b}) + {c})|saturate(round({a} / {b}))",
    "DequantizeLinear": "({a} - {c}) * {b}|{a} * {b}",
    "Softmax": "softmax({a}) over axis {axis}",
    "BatchNormalization": "({a} - {d}) / sqrt({e} + {epsilon:g}) * {b} + {c}, by channel",
    "LayerNormalization": f"{_NORM} + {{c}}{_ON}|{_NORM}{_ON}",
    "RMSNormalization": "{a} / sqrt(mean({a}^2) + {epsilon:g}) * {b}" + _ON,
}  # fmt: skip
"""By op type, of operands ``a``, ``b``, ... and attributes; behind ``|`` what holds where one is missing."""
_DEFAULTS = {"axis": -1, "epsilon": 1e-5, "alpha": 0.01}


def formulas(ops: Sequence[Op], names: Mapping[str, str]) -> tuple[str, ...]:
    """What ops compute, a line each; `names`: what tensors are called, or values of constants; others ``t0``, ..."""
    called, found, numbers = dict(names), [], itertools.count()
    for op in ops:
        for tensor in (one for one in (*op.inputs, *op.outputs) if one is not None and one.name not in called):
            value = tensor.value if tensor.constant else None
            called[tensor.name] = _value(value if value[1:] else value[0]) if value else f"t{next(numbers)}"
        reads, makes = ([called[one.name] if one else "" for one in each] for each in (op.inputs, op.outputs))
        if makes:
            # Where a shape is not known, or an operand not there, the op is told as a function.
            with contextlib.suppress(LookupError, TypeError, ValueError):
                found.append(_formula(op, reads, makes[0]))
                continue
            given = [f"{name}={_value(value)}" for name, value in sorted(op.attributes.items())]
            attributes = f"; {', '.join(given[:_LONG])}" if given else ""
            found.append(f"{', '.join(makes)} = {op.op_type}({', '.join(one or '-' for one in reads)}{attributes})")
    return tuple(found)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join([*map(_value, value[:_LONG]), *(['...'] if value[_LONG:] else [])])}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:60]


def _formula(op: Op, reads: list[str], y: str) -> str:
    """The formula of an op; what it lacks for that is missed."""
    (made, *_), (first, *_) = op.outputs, op.inputs
    if op.op_type in ("MatMul", "Gemm"):
        return _product(op, reads, y)
    if op.op_type in VIEWS:
        return f"{y} = {reads[0]} as {format_shape(made.shape if made else None)}"
    given = {name: list(one) if isinstance(one, tuple) else one for name, one in op.attributes.items()}
    fields: dict[str, Any] = {**_DEFAULTS, **given, "all": " | ".join(reads), "dtype": made and made.dtype}
    fields |= {letter: name for letter, name in zip("abcdefgh", reads, strict=False) if name}
    if op.op_type.endswith("oftmax") and op.opset < 13:  # All axes from this one on are one
        fields["axis"] = f"{op.attributes.get('axis', 1)} and on"
    elif first and first.shape:
        fields["axis"] %= len(first.shape)
    call = f"{op.op_type.lower()}({', '.join(reads)})" if op.op_type in POINTWISE and not op.attributes else "{none}"
    name = op.op_type + ("Tanh" if op.attributes.get("approximate") == "tanh" else "")
    for template in _TEMPLATES.get(name, call).split("|"):
        with contextlib.suppress(KeyError):
            return f"{y} = {template.format(**fields)}"
    raise KeyError(op.op_type)


def _product(op: Op, reads: list[str], y: str) -> str:
    """That of a MatMul or a Gemm, with indices."""
    shapes = [tuple((one and one.shape) or ()) for one in op.inputs]
    made = tuple((op.outputs[0] and op.outputs[0].shape) or ())
    left, right = map(len, shapes[:2])
    letters, given = "ijlmnpqrst"[: len(made)], op.attributes.get
    if op.op_type == "Gemm":
        a, b = "ki" if given("transA") else "ik", "jk" if given("transB") else "kj"
    else:
        # A vector on one side has no row, or no column, in the result.
        batch = letters[: len(letters) - (left > 1) - (right > 1)]
        rows, columns = letters[len(batch) :][: left > 1], letters[len(letters) - (right > 1) :]
        a = batch[len(batch) - max(left - 2, 0) :] + rows + "k"
        b = batch[len(batch) - max(right - 2, 0) :] + "k" + columns
    text = f"{_at(reads[0], a, shapes[0])} * {_at(reads[1], b, shapes[1])}"
    text = f"sum_k {text}" if shapes[0][a.index("k")] != 1 else text
    if given("alpha", 1) != 1 or given("beta", 1) != 1:
        raise ValueError(text)
    if reads[2:]:
        text += f" + {_at(reads[2], letters[len(letters) - len(shapes[2]) :], shapes[2])}"
    return f"{_at(y, letters, made)} = {text}"


def _at(name: str, indices: str, shape: Sequence[Dim]) -> str:
    text = ",".join("0" if dim == 1 else one for one, dim in zip(indices, shape, strict=True))
    return f"{name}[{text}]" if text else name
