"""What nodes compute, in formulas that a person reads: ``y[i,j] = sum_k x[i,k] * w[k,j]``, a line a node.

Products, reductions and what moves elements have indices, with 0 where a dimension has one element. What is element by
element has none where all tensors are alike. An op without a formula of its own is a function of its operands.

Indices ``i``, ``j``, ``l``, ... count the elements of the result; ``k``, ``c``, ``u`` and ``v`` what is summed over.
What a window reads outside of its tensor is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.op_kinds import VIEWS
from trtprof.base.records import Attribute, Op, Tensor
from trtprof.base.units import format_shape

_LETTERS = "ijlmnpqrst"  # Of elements of a result; ``k`` is what is summed over
_OVER = "kuvwz"
_FEW = 6  # Attributes of an op without a formula that a line holds
_LONG = 16  # Numbers of a list that are written out: trees of a forest have thousands


class _Line(NamedTuple):
    """An op, and what its tensors are called."""

    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def result(self) -> Tensor | None:
        return self.op.outputs[0] if self.op.outputs else None

    def rank(self, place: int) -> int:
        """Of an input; 0 where that is not known."""
        tensor = self.op.inputs[place] if place < len(self.op.inputs) else None
        return len(tensor.shape or ()) if tensor is not None else 0

    def dim(self, place: int, axis: int) -> int | str | None:
        """Of an input; None where its rank is not known."""
        tensor = self.op.inputs[place] if place < len(self.op.inputs) else None
        return None if tensor is None or not tensor.shape else tensor.shape[axis]

    def at(self, place: int, indices: Sequence[str]) -> str:
        """An input with indices: 0 where a dimension has one element."""
        return _at(self.inputs[place], self.op.inputs[place], indices)

    def made(self, indices: Sequence[str]) -> str:
        """The result with indices."""
        return _at(self.outputs[0], self.result, indices)

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """An attribute that is a list of numbers."""
        found = self.op.attributes.get(name)
        return tuple(int(one) for one in found) if isinstance(found, tuple) else tuple(default)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        found = self.op.attributes.get(name, default)
        return found if isinstance(found, (int, float)) else default


def formulas(ops: Sequence[Op], names: Mapping[str, str]) -> tuple[str, ...]:
    """What ops compute, a line each, in their order.

    `names`: what operands are called, by the names of the tensors; others become ``t0``, ``t1``, ... Of a constant of
    one element it may be its value.
    """
    called = dict(names)
    given = len(names)
    found = []
    for op in ops:
        for tensor in (*op.inputs, *op.outputs):
            if tensor is None or tensor.name in called:
                continue
            if tensor.constant and tensor.value is not None:
                called[tensor.name] = _value(tensor.value if len(tensor.value) != 1 else tensor.value[0])
                given += 1
            else:
                called[tensor.name] = f"t{len(called) - given}"
        line = _Line(
            op,
            tuple(_called(tensor, called) for tensor in op.inputs),
            tuple(_called(tensor, called) for tensor in op.outputs if tensor is not None),
        )
        if line.outputs:
            found.append(_formula(line))
    return tuple(found)


def _called(tensor: Tensor | None, called: Mapping[str, str]) -> str:
    return "" if tensor is None else called[tensor.name]


def _formula(line: _Line) -> str:
    """The formula of an op, or the op as a function where it has none of its own, or its shapes are not known."""
    op_type = line.op.op_type
    write = _WRITERS.get(op_type)
    found = write(line) if write is not None else ""
    if not found and op_type in _POINTWISE:
        found = _pointwise(line, _POINTWISE[op_type])
    if not found and op_type in VIEWS and line.result is not None:
        found = f"{line.outputs[0]} = {line.inputs[0]} as {format_shape(line.result.shape)}"
    return found or _function(line)


def _function(line: _Line) -> str:
    given = [
        f"{name}={_value(value)}"
        for name, value in sorted(line.op.attributes.items())
        if not (isinstance(value, str) and len(value) > 20)
    ]
    operands = [name or "-" for name in line.inputs]
    attributes = f"; {', '.join(given[:_FEW])}" if given else ""
    return f"{', '.join(line.outputs)} = {line.op.op_type}({', '.join(operands)}{attributes})"


def _value(value: Attribute) -> str:
    if isinstance(value, tuple):
        left = [f"... {len(value)} in all"] if len(value) > _LONG else []
        return f"[{', '.join([*map(_value, value[:_LONG]), *left])}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _at(name: str, tensor: Tensor | None, indices: Sequence[str]) -> str:
    """A tensor with indices: 0 where a dimension has one element."""
    shape = tensor.shape if tensor is not None else None
    if not indices or shape is None or len(shape) != len(indices):
        return name if not indices else f"{name}[{','.join(indices)}]"
    return f"{name}[{','.join('0' if dim == 1 else index for dim, index in zip(shape, indices, strict=True))}]"


def _letters(count: int) -> list[str]:
    return [_LETTERS[at] if at < len(_LETTERS) else f"i{at}" for at in range(count)]


def _sum(over: Sequence[str], what: str, word: str = "sum") -> str:
    """``sum_k x``, ``sum_{k,u} x``; without anything to sum over the term alone."""
    if not over:
        return what
    return f"{word}_{over[0]} {what}" if len(over) == 1 and len(over[0]) == 1 else f"{word}_{{{','.join(over)}}} {what}"


# --- products -----------------------------------------------------------------------------------


def _matmul(line: _Line) -> str:
    left, right = line.rank(0), line.rank(1)
    if line.result is None or line.result.shape is None or not left or not right:
        return ""
    # A vector on one side has no row, or no column, in the result.
    row, column = left > 1, right > 1
    letters = _letters(len(line.result.shape))
    batch = letters[: len(letters) - row - column]
    rows = letters[len(batch) : len(batch) + row]
    columns = letters[len(batch) + row :]
    a = [*_last(batch, max(left - 2, 0)), *rows, "k"]
    b = [*_last(batch, max(right - 2, 0)), "k", *columns]
    return f"{line.made(letters)} = {_summed(line.dim(0, -1), line.at(0, a), line.at(1, b))}"


def _summed(depth: int | str | None, *factors: str) -> str:
    product = " * ".join(factors)
    return product if depth == 1 else _sum(["k"], product)


def _last(items: Sequence[str], count: int) -> Sequence[str]:
    return items[len(items) - count :] if count else ()


def _gemm(line: _Line) -> str:
    if line.rank(0) != 2 or line.rank(1) != 2:
        return ""
    a = ["k", "i"] if line.number("transA", 0) else ["i", "k"]
    b = ["j", "k"] if line.number("transB", 0) else ["k", "j"]
    depth = line.dim(0, a.index("k"))
    alpha, beta = line.number("alpha", 1.0), line.number("beta", 1.0)
    found = _summed(depth, line.at(0, a), line.at(1, b))
    found = f"{alpha:g} * {found}" if alpha != 1 else found
    if len(line.inputs) > 2 and line.inputs[2]:
        scaled = f"{beta:g} * " if beta != 1 else ""
        found += f" + {scaled}{line.at(2, _last(['i', 'j'], line.rank(2)))}"
    return f"{line.made(['i', 'j'])} = {found}"


def _conv(line: _Line) -> str:
    spatial = line.rank(0) - 2
    filters, given = line.dim(1, 0), line.dim(1, 1)
    if spatial < 1 or line.rank(1) != line.rank(0) or not isinstance(filters, int):
        return ""
    window = [line.dim(1, 2 + axis) for axis in range(spatial)]
    letters = _letters(2 + spatial)
    strides, dilations = line.ints("strides", [1] * spatial), line.ints("dilations", [1] * spatial)
    pads = line.ints("pads", [0] * (2 * spatial))
    over = [_OVER[1 + axis] if axis < len(_OVER) - 1 else f"u{axis}" for axis in range(spatial)]
    groups = max(int(line.number("group", 1)), 1)
    places = [
        _place(letters[2 + axis], strides[axis], over[axis] if window[axis] != 1 else "", dilations[axis], pads[axis])
        for axis in range(spatial)
    ]
    each = filters // groups
    if groups == 1:
        channel = "c"
    elif given == 1:
        channel = letters[1] if each == 1 else f"{letters[1]}//{each}"
    else:
        channel = f"{given}*{letters[1] if each == 1 else f'({letters[1]}//{each})'}+c"
    summed = [*(["c"] if given != 1 else []), *(index for index, dim in zip(over, window, strict=True) if dim != 1)]
    first = "0" if line.dim(0, 0) == 1 else letters[0]
    image = f"{line.inputs[0]}[{','.join([first, channel, *places])}]"
    weight = line.at(1, [letters[1], "c", *over])
    bias = f" + {line.inputs[2]}[{letters[1]}]" if len(line.inputs) > 2 and line.inputs[2] else ""
    return f"{line.made(letters)} = {_sum(summed, f'{image} * {weight}')}{bias}"


def _place(letter: str, stride: int, over: str, dilation: int, pad: int) -> str:
    """``2*l+u-1``: where a window of a convolution reads."""
    found = letter if stride == 1 else f"{stride}*{letter}"
    if over:
        found += f"+{over}" if dilation == 1 else f"+{dilation}*{over}"
    return f"{found}-{pad}" if pad else found


def _einsum(line: _Line) -> str:
    equation = str(line.op.attributes.get("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if "." in equation or not arrow or len(terms) != len(line.inputs):
        return ""
    over = list(dict.fromkeys(letter for letter in left if letter.isalpha() and letter not in right))
    factors = " * ".join(f"{name}[{','.join(term)}]" for name, term in zip(line.inputs, terms, strict=True))
    return f"{line.outputs[0]}[{','.join(right)}] = {_sum(over, factors)}"


# --- what reduces -------------------------------------------------------------------------------


def _axes(line: _Line) -> tuple[int, ...] | None:
    """What a reduction goes over, from the front; None where that is not known."""
    rank = line.rank(0)
    given: Sequence[int] | None = line.ints("axes") or None
    if given is None and len(line.op.inputs) > 1 and line.op.inputs[1] is not None:
        given = line.op.inputs[1].value
        if given is None:
            return None
    if not given:
        return tuple(range(rank)) if not line.number("noop_with_empty_axes", 0) else None
    return tuple(sorted(axis % rank for axis in given))


def _reduction(word: str, term: str = "{}") -> Callable[[_Line], str]:
    def write(line: _Line) -> str:
        rank = line.rank(0)
        axes = _axes(line) if rank else None
        if axes is None:
            return ""
        over = [_OVER[at] if at < len(_OVER) else f"k{at}" for at in range(len(axes))]
        kept = iter(_letters(rank - len(axes)))
        summed = iter(over)
        indices = [next(summed) if axis in axes else next(kept) for axis in range(rank)]
        keeps = line.number("keepdims", 1)
        result = ["0" if axis in axes else index for axis, index in enumerate(indices) if axis not in axes or keeps]
        return f"{line.made(result)} = {_sum(over, term.format(line.at(0, indices)), word)}"

    return write


def _softmax(function: str) -> Callable[[_Line], str]:
    def write(line: _Line) -> str:
        rank = line.rank(0)
        axis = int(line.number("axis", -1 if line.op.opset >= 13 else 1))
        # Before opset 13 all axes from this one on are one.
        over = f"axis {axis % rank if rank else axis}" + (" and on" if line.op.opset < 13 else "")
        return f"{line.outputs[0]} = {function}({line.inputs[0]}) over {over}"

    return write


def _layer_norm(line: _Line) -> str:
    x, rank = line.inputs[0], line.rank(0)
    axis = int(line.number("axis", -1))
    epsilon = line.number("epsilon", 1e-5)
    over = f"axes {axis % rank} to {rank - 1}" if rank and axis % rank != rank - 1 else f"axis {rank - 1}"
    scale = f" * {line.inputs[1]}" if len(line.inputs) > 1 and line.inputs[1] else ""
    bias = f" + {line.inputs[2]}" if len(line.inputs) > 2 and line.inputs[2] else ""
    return f"{line.outputs[0]} = ({x} - mean({x})) / sqrt(var({x}) + {epsilon:g}){scale}{bias} over {over}"


def _rms_norm(line: _Line) -> str:
    x, rank = line.inputs[0], line.rank(0)
    axis = int(line.number("axis", -1))
    over = f"axes {axis % rank} to {rank - 1}" if rank and axis % rank != rank - 1 else f"axis {rank - 1}"
    scale = f" * {line.inputs[1]}" if len(line.inputs) > 1 and line.inputs[1] else ""
    return f"{line.outputs[0]} = {x} / sqrt(mean({x}^2) + {line.number('epsilon', 1e-5):g}){scale} over {over}"


def _batch_norm(line: _Line) -> str:
    if len(line.inputs) < 5:
        return ""
    x, scale, bias, mean, variance = line.inputs[:5]
    epsilon = line.number("epsilon", 1e-5)
    return f"{line.outputs[0]} = ({x} - {mean}) / sqrt({variance} + {epsilon:g}) * {scale} + {bias} by channel"


# --- what moves ---------------------------------------------------------------------------------


def _transpose(line: _Line) -> str:
    rank = line.rank(0)
    order = line.ints("perm", range(rank - 1, -1, -1))
    if not rank or sorted(order) != list(range(rank)):
        return ""
    letters = _letters(rank)
    indices = [letters[order.index(axis)] for axis in range(rank)]
    return f"{line.made(letters)} = {line.at(0, indices)}"


def _gather(line: _Line) -> str:
    rank, given = line.rank(0), line.rank(1)
    if not rank or line.result is None or line.result.shape is None:
        return ""
    axis = int(line.number("axis", 0)) % rank
    letters = _letters(rank - 1 + given)
    inner = line.inputs[1] if not given else line.at(1, letters[axis : axis + given])
    indices = [*letters[:axis], inner, *letters[axis + given :]]
    return f"{line.made(letters)} = {line.inputs[0]}[{','.join(indices)}]"


def _cast(line: _Line) -> str:
    dtype = line.result.dtype if line.result is not None else ""
    return f"{line.outputs[0]} = {dtype}({line.inputs[0]})" if dtype else ""


def _concat(line: _Line) -> str:
    return f"{line.outputs[0]} = {' | '.join(line.inputs)} along axis {int(line.number('axis', 0))}"


# --- element by element -------------------------------------------------------------------------


def _infix(sign: str) -> Callable[[_Line, Sequence[str]], str]:
    return lambda _, given: f" {sign} ".join(given)


def _call(function: str) -> Callable[[_Line, Sequence[str]], str]:
    return lambda _, given: f"{function}({', '.join(one for one in given if one)})"


def _clip(line: _Line, given: Sequence[str]) -> str:
    low = given[1] if len(given) > 1 else f"{line.number('min', float('-inf')):g}"
    high = given[2] if len(given) > 2 else f"{line.number('max', float('inf')):g}"
    found = given[0]
    found = found if low in ("", "-inf") else f"max({found}, {low})"
    return found if high in ("", "inf") else f"min({found}, {high})"


def _gelu(line: _Line, given: Sequence[str]) -> str:
    x = given[0]
    if line.op.attributes.get("approximate") == "tanh":
        return f"0.5 * {x} * (1 + tanh(0.797885 * ({x} + 0.044715 * {x}^3)))"
    return f"0.5 * {x} * (1 + erf({x} / sqrt(2)))"


def _leaky(line: _Line, given: Sequence[str]) -> str:
    return f"{given[0]} if {given[0]} >= 0 else {line.number('alpha', 0.01):g} * {given[0]}"


def _quantised(_: _Line, given: Sequence[str]) -> str:
    zero = f" + {given[2]}" if len(given) > 2 and given[2] else ""
    return f"saturate(round({given[0]} / {given[1]}){zero})"


def _dequantised(_: _Line, given: Sequence[str]) -> str:
    zero = len(given) > 2 and given[2]
    return f"({given[0]} - {given[2]}) * {given[1]}" if zero else f"{given[0]} * {given[1]}"


_SIGNS = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Pow": "^", "Mod": "mod", "And": "and", "Or": "or", "Xor": "xor",
    "Equal": "==", "Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<=", "Sum": "+",
    "BiasAdd": "+",
}  # fmt: skip
_FUNCTIONS = (
    "Abs", "Sign", "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
    "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "IsNaN", "IsInf", "Min", "Max", "Softplus", "Mish",
)  # fmt: skip

_POINTWISE: Mapping[str, Callable[[_Line, Sequence[str]], str]] = {
    **{op_type: _infix(sign) for op_type, sign in _SIGNS.items()},
    **{op_type: _call(op_type.lower()) for op_type in _FUNCTIONS},
    "Neg": lambda _, given: f"-{given[0]}",
    "Not": lambda _, given: f"not {given[0]}",
    "Reciprocal": lambda _, given: f"1 / {given[0]}",
    "Relu": lambda _, given: f"max({given[0]}, 0)",
    "Sigmoid": lambda _, given: f"1 / (1 + exp(-{given[0]}))",
    "Swish": lambda _, given: f"{given[0]} / (1 + exp(-{given[0]}))",
    "HardSwish": lambda _, given: f"{given[0]} * min(max({given[0]} / 6 + 0.5, 0), 1)",
    "Where": lambda _, given: f"{given[1]} if {given[0]} else {given[2]}",
    "PRelu": lambda _, given: f"{given[0]} if {given[0]} >= 0 else {given[1]} * {given[0]}",
    "LeakyRelu": _leaky,
    "Gelu": _gelu,
    "Clip": _clip,
    "QuantizeLinear": _quantised,
    "DequantizeLinear": _dequantised,
}
"""What an op that works element by element computes of its operands."""


def _pointwise(line: _Line, write: Callable[[_Line, Sequence[str]], str]) -> str:
    """With indices where an operand is broadcast, but for one of a single element."""
    shapes = [tensor.shape if tensor is not None else None for tensor in line.op.inputs]
    made = line.result.shape if line.result is not None else None
    plain = made is None or all(shape is None or shape == made or _single(shape) for shape in shapes)
    if plain or made is None or line.op.op_type.endswith("Linear"):
        return f"{line.outputs[0]} = {write(line, line.inputs)}"
    letters = _letters(len(made))
    given = [
        line.inputs[at] if shape is None or _single(shape) else line.at(at, _last(letters, len(shape)))
        for at, shape in enumerate(shapes)
    ]
    return f"{line.made(letters)} = {write(line, given)}"


def _single(shape: Iterable[int | str]) -> bool:
    return all(dim == 1 for dim in shape)


_WRITERS: Mapping[str, Callable[[_Line], str]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "Einsum": _einsum,
    "ReduceSum": _reduction("sum"),
    "ReduceMean": _reduction("mean"),
    "ReduceMax": _reduction("max"),
    "ReduceMin": _reduction("min"),
    "ReduceProd": _reduction("product"),
    "ReduceL1": _reduction("sum", "abs({})"),
    "ReduceSumSquare": _reduction("sum", "{}^2"),
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log softmax"),
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "SimplifiedLayerNormalization": _rms_norm,
    "BatchNormalization": _batch_norm,
    "Transpose": _transpose,
    "Gather": _gather,
    "Cast": _cast,
    "Concat": _concat,
}
