"""Element-wise nodes as lines of a Triton function, before and after the node that a kernel is written for.

A kernel walks over the elements of a result with a few index variables. Of these and the shapes follow the offsets at
which operands are read and written, whatever is broadcast. Values are fp32; integers where they are int32 or int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from onnx import NodeProto, helper, numpy_helper

from trtprof.base import onnx_graph
from trtprof.base.records import Dim
from trtprof.plugin.form import Form, NoFitError, Number
from trtprof.plugin.task import Task

Walk: TypeAlias = Sequence[tuple[str, Sequence[Dim], str]]
"""Index variables, the dims that each goes over, and what is true inside of these: ``("r", (8, "n"), "r < R")``."""
Axes: TypeAlias = Sequence[int | None]
"""For each dim of a walk the axis of a tensor that lies along it; empty: the same order, aligned at the last."""
_WIDE = 2**31 - 2**20  # Elements from which on offsets may pass 32 bits; a block goes beyond the last element
_Stride: TypeAlias = tuple[int, tuple[str, ...]]  # A number times open dims
_MAGIC = "12582912.0"  # 1.5 * 2**23: an fp32 plus it, minus it, is rounded to even
_OPS = {
    "Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}", "Neg": "-{0}", "Abs": "tl.abs({0})",
    "Max": "tl.maximum({0}, {1})", "Min": "tl.minimum({0}, {1})", "Sum": "{0} + {1}", "Identity": "{0}",
    "Equal": "{0} == {1}", "Greater": "{0} > {1}", "GreaterOrEqual": "{0} >= {1}", "Less": "{0} < {1}",
    "LessOrEqual": "{0} <= {1}", "And": "{0} & {1}", "Or": "{0} | {1}", "Xor": "{0} ^ {1}", "Not": "{0} == 0",
    "Where": "tl.where({0}, {1}, {2})", "Relu": "tl.maximum({0}, 0.0)", "Reciprocal": "1.0 / {0}",
    "Exp": "tl.exp({0})", "Log": "tl.log({0})", "Sqrt": "tl.sqrt({0})", "Erf": "tl.erf({0})", "Sin": "tl.sin({0})",
    "Cos": "tl.cos({0})", "Floor": "tl.floor({0})", "Ceil": "tl.ceil({0})", "Sigmoid": "1.0 / (1.0 + tl.exp(-{0}))",
    "Round": f"tl.where(tl.abs({{0}}) < 4194304.0, {{0}} + {_MAGIC} - {_MAGIC}, {{0}})",
    "Sign": "tl.where({0} > 0, 1.0, 0.0) - tl.where({0} < 0, 1.0, 0.0)",
    # Near 0 the quotient cancels: the series has its bits there.
    "Tanh": "tl.where(tl.abs({0}) < 0.2, {0} * (1.0 - {0} * {0} * (0.33333334 - {0} * {0} * (0.13333334 - 0.05396825 * "
    "{0} * {0}))), tl.where({0} < 0, -1.0, 1.0) * (1.0 - 2.0 / (1.0 + tl.exp(2.0 * tl.abs({0})))))",
    "Swish": "{0} / (1.0 + tl.exp(-{alpha} * {0}))",
    "Softplus": "tl.maximum({0}, 0.0) + tl.log(1.0 + tl.exp(-tl.abs({0})))",
    "Mish": "{0} * (1.0 - 2.0 / (1.0 + (1.0 + tl.exp({0})) * (1.0 + tl.exp({0}))))",
    "HardSigmoid": "tl.minimum(tl.maximum({alpha} * {0} + {beta}, 0.0), 1.0)",
    "HardSwish": "{0} * tl.minimum(tl.maximum({0} / 6.0 + 0.5, 0.0), 1.0)",
    "LeakyRelu": "tl.where({0} >= 0, {0}, {alpha} * {0})", "PRelu": "tl.where({0} >= 0, {0}, {1} * {0})",
    "Elu": "tl.where({0} > 0, {0}, {alpha} * (tl.exp({0}) - 1.0))",
    "Gelu": "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))",
    "Gelu tanh": "{0} / (1.0 + tl.exp({0} * (-1.5957691216057308 - 0.07135481627260025 * {0} * {0})))",
    "QuantizeLinear": "tl.minimum(tl.maximum("
    f"tl.minimum(tl.maximum(tl.div_rn({{0}}, {{1}}), -999.0), 999.0) + {_MAGIC} - {_MAGIC}"
    " + {2}, {low}), {high})",
    "DequantizeLinear": "({0} - {2}) * {1}", "IsNaN": "{0} != {0}",
    "BatchNormalization": "({0} - {3}) * tl.rsqrt({4} + {epsilon}) * {1} + {2}",
}  # fmt: skip
_DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "LeakyRelu": {"alpha": 0.01}, "Elu": {"alpha": 1.0}, "Swish": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "BatchNormalization": {"epsilon": 1e-5},
}  # fmt: skip
_POWERS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 4: "{0} * {0} * {0} * {0}", 0.5: "tl.sqrt({0})", -0.5: "tl.rsqrt({0})",
           -1: "1.0 / {0}", 1: "{0}"}  # fmt: skip
_LOGIC = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN"}
_ALIGNED = {"QuantizeLinear", "DequantizeLinear", "BatchNormalization"}  # What they read besides lies along one axis
_BYTES = {"DequantizeLinear", "Cast", "Where", "Identity", "Max", "Min", *_LOGIC}  # Others would wrap around
ELEMENTWISE = {*_OPS, "Cast", "Clip", "Mean", "Pow"}
_WHOLE = _BYTES | {"Add", "Sub", "Mul", "Neg", "Abs", "Sum", "Clip"}
_KINDS = {"bool": "bool", "int32": "int", "int64": "int", "int8": "byte", "uint8": "byte"}  # Of the others: float
_RANGES = {"int8": {"low": -128.0, "high": 127.0}, "uint8": {"low": 0.0, "high": 255.0}}


def find(task: Task, *op_types: str) -> NodeProto:
    """The one node of these op types."""
    nodes = [node for node in task.body.node if node.op_type in op_types]
    if len(nodes) != 1:
        raise NoFitError(f"{len(nodes) or 'no'} nodes are {' or '.join(op_types)}")
    return nodes[0]


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute of a node."""
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def power(number: float) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(math.ceil(number) - 1, 0).bit_length()


class Chain:
    """What a Triton function for a task is put together from.

    Attributes:
        operands: Inputs and outputs, by name.
        constants: Arrays of the task's Constant nodes, by name.
        nodes: The other nodes.
        dtypes: Of inputs, constants and what nodes make, as lines are written.
        shapes: Dims of what nodes make that do not keep those of their first input; a kernel sets them.
        integers, sizes: As in `Form`; they grow as dims are named.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.operands = {one.name: one for one in (*task.inputs, *task.outputs)}
        made = {node.output[0]: node for node in task.body.node if node.op_type == "Constant"}
        self.constants = {name: numpy_helper.to_array(node.attribute[0].t) for name, node in made.items()}
        self.nodes = [node for node in task.body.node if node.op_type != "Constant"]
        self.shapes: dict[str, tuple[Dim, ...]] = {}
        self.integers: dict[str, str] = {}
        self.sizes: dict[str, Number] = {}
        self._products: dict[str, str] = {}
        self.dtypes = {one.name: one.dtype for one in task.inputs}
        self.dtypes |= {name: onnx_graph.DTYPES[node.attribute[0].t.data_type] for name, node in made.items()}

    @property
    def wide(self) -> bool:
        """Whether an offset into an operand may need 64 bits."""
        every = [_multiplied(one.dims) for one in self.operands.values()]
        return any(names or number > _WIDE for number, names in every)

    def upstream(self, *names: str) -> list[NodeProto]:
        """The nodes that compute some values."""
        needed, found = set(names), list[NodeProto]()
        for node in reversed(self.nodes):
            if needed & set(node.output):
                needed |= set(node.input)
                found.insert(0, node)
        return found

    def parts(self, main: NodeProto) -> tuple[list[NodeProto], list[NodeProto]]:
        """The nodes that compute what ``main`` reads, and those after it."""
        before = self.upstream(*main.input)
        return before, [node for node in self.nodes if node not in before and node is not main]

    def dims(self, name: str) -> tuple[Dim, ...]:
        """Dims of an operand or of what a node makes."""
        known = {name: one.dims for name, one in self.operands.items()} | self.shapes
        if name in known or name in self.constants:
            return known[name] if name in known else self.constants[name].shape
        node = next(node for node in self.nodes if name in node.output)
        if node.op_type not in ELEMENTWISE - _ALIGNED - {"Cast", "Clip"}:
            return self.dims(node.input[0])
        shapes = [self.dims(one) for one in node.input]
        padded = [(1,) * (max(map(len, shapes)) - len(shape)) + shape for shape in shapes]
        return tuple(next((dim for dim in dims if dim != 1), 1) for dims in zip(*padded, strict=True))

    def product(self, dims: Sequence[Dim]) -> str:
        """Dims multiplied, as an expression of the Triton function."""
        words = []
        for dim in dims:
            if isinstance(dim, str):
                text = self.task.expression(dim)
                known = (name for name, value in self.integers.items() if value == text)
                words.append(next(known, f"D{len(self.integers)}"))
                self.integers[words[-1]] = text
        number, _ = _multiplied(dims)
        words += [str(number)] if number != 1 or not words else []
        return words[0] if len(words) == 1 else f"({' * '.join(words)})"

    def size(self, label: str, dims: Sequence[Dim]) -> None:
        """Name the product of dims: a constexpr, or where one of them is open a line before those of `form`."""
        number, names = _multiplied(dims)
        if not names:
            self.sizes[label] = number
        else:  # A factor that the kernel knows tells the compiler how rows are aligned.
            self._products[label] = self.product(dims)

    def offset(self, dims: Sequence[Dim], walk: Walk, axes: Axes = ()) -> str:
        """Where an element lies in a dense tensor; 0 along dims that are broadcast."""
        terms = []
        for (variable, group, _), mine in zip(walk, _grouped(dims, walk, axes), strict=True):
            runs: list[tuple[int, int, _Stride]] = []  # Dims that lie behind one another: first, last + 1, stride
            for at, (dim, stride) in enumerate(mine):
                if dim != 1:
                    begun, ended, outer = runs[-1] if runs else (0, 0, (0, ()))
                    adjacent = all(one == 1 for one in group[ended:at]) and outer == _multiplied((dim,), stride)
                    runs[-1 if adjacent else len(runs) :] = [(begun if adjacent else at, at + 1, stride)]
            for begun, ended, (number, names) in runs:
                index, after = variable, self.product(group[ended:])
                index += f" // {after}" if after != "1" else ""
                if any(one != 1 for one in group[:begun]):
                    index += f" % {self.product(group[begun:ended])}"
                by = self.product((number, *names))
                terms.append(index if by == "1" else f"{index} * {by}")
        return " + ".join(terms) or "0"

    def mask(self, dims: Sequence[Dim], walk: Walk, axes: Axes = (), *, written: bool = False) -> str:
        """What is true where a tensor has elements; ``inside``, which the kernel makes, where it has every variable.

        What is written is written once, also along dims of 1.
        """
        every = [inside for _, _, inside in walk if inside]
        groups = zip(walk, _grouped(dims, walk, axes), strict=True)
        used = [
            inside for (_, group, inside), mine in groups
            if inside and (any(dim != 1 for dim, _ in mine) or (written and all(dim == 1 for dim in group)))
        ]  # fmt: skip
        if len(used) < 2:
            return "".join(used)
        return "inside" if used == every else " & ".join(f"({one})" for one in used)

    def read(
        self, name: str, walk: Walk, known: dict[str, str], dims: Sequence[Dim] | None = None, axes: Axes = ()
    ) -> tuple[list[str], str]:
        """The lines that read an operand if it is not known yet, and what its value is called."""
        if name in known:
            return [], known[name]
        if name in self.constants:
            if self.constants[name].size != 1:
                raise NoFitError(f"constant {name} has several elements")
            value = self.constants[name].item()
            return [], repr(value) if math.isfinite(value) else f'float("{value}")'
        if name not in self.dtypes:
            raise NoFitError(f"{name} is not computed element by element")
        if name not in self.operands:
            raise NoFitError(f"{name} is read before {self.task.main} and after it")
        dims = self.operands[name].dims if dims is None else dims
        mask = self.mask(dims, walk, axes)
        text = f"tl.load({name} + {self.offset(dims, walk, axes)}{f', mask={mask}, other=0' if mask else ''})"
        text += "" if _KINDS.get(self.dtypes[name]) in ("int", "bool") else ".to(tl.float32)"
        known[name] = f"v_{name}"
        return [f"v_{name} = {text}"], known[name]

    def lines(self, nodes: Sequence[NodeProto], walk: Walk, known: dict[str, str], axes: Axes = ()) -> list[str]:
        """The lines that compute element-wise nodes; ``known`` grows by what they make."""
        lines = []
        for node in nodes:
            values = []
            for place, name in enumerate(node.input):
                more, value = self.read(name, walk, known, self._aligned(node, place), axes) if name else ([], "")
                lines += more
                values.append(value)
            known[node.output[0]] = f"v_{node.output[0]}"
            lines.append(f"v_{node.output[0]} = {self._computed(node, values)}")
        return lines

    def stores(self, names: Sequence[str], walk: Walk, known: Mapping[str, str], axes: Axes = ()) -> list[str]:
        """The lines that write outputs."""
        lines = []
        for name in names:
            dims = self.operands[name].dims
            grouped = _grouped(dims, walk, axes)
            if name not in known or any(
                [dim for dim, _ in mine] != list(group) for (_, group, _), mine in zip(walk, grouped, strict=True)
            ):
                raise NoFitError(f"output {name} has other elements than what the kernel goes over")
            # Variables that are 0 give the pointers as many dimensions as the value has.
            zeros = [one for one, group, inside in walk if inside and all(dim == 1 for dim in group)]
            at = " + ".join([self.offset(dims, walk, axes), *zeros]).removeprefix("0 + ")
            lines.append(f"tl.store({name} + {at}, {known[name]}, mask={self.mask(dims, walk, axes, written=True)})")
        return lines

    def form(self, name: str, lines: Sequence[str], tactics: Sequence[Mapping[str, int]], grid: Sequence[str]) -> Form:
        """A Triton function of these lines, without its head; of equal tactics one."""
        task, blocks = self.task, [one for one in tactics[0] if one != "num_warps"]
        inputs, outputs = ([one.name for one in operands] for operands in (task.inputs, task.outputs))
        given = ", ".join([*inputs, *self.integers, *outputs])
        fixed = ", ".join(f"{one}: tl.constexpr" for one in (*self.sizes, *blocks))
        body = f"@triton.jit\ndef {name}(\n    {given},\n    {fixed},\n):\n"
        said = [f"{one.name} {one.dtype} [{', '.join(map(str, one.dims))}]" for one in self.operands.values()]
        doc = f"{', '.join(node.op_type for node in self.nodes)}: {', '.join(said)}."
        numbered = dict(enumerate({tuple(one.items()): one for one in tactics}.values(), 1))
        for label, product in self._products.items():
            bare = product[1:-1] if " " in product else product
            body += f"    {label} = {bare}\n"
            grid = [re.sub(rf"\b{label}\b", product, one.replace(f"({label},", f"({bare},")) for one in grid]
        body += "".join(f"    {line}\n" for line in lines)
        x, y, z = (*grid, "1", "1")[:3]
        return Form(name, doc, body, self.sizes, numbered, self.integers, (x, y, z))

    def _aligned(self, node: NodeProto, place: int) -> tuple[Dim, ...] | None:
        """Dims of a scale or zero point, aligned at the axis of its node; None of what is aligned at the last."""
        if not (place and node.op_type in _ALIGNED and node.input[place] in self.operands):
            return None
        dims, rank = self.operands[node.input[place]].dims, len(self.dims(node.input[0]))
        if attribute(node, "block_size", 0):
            raise NoFitError(f"{node.op_type} in blocks")
        return (*dims, *[1] * (rank - attribute(node, "axis", 1) % rank - 1)) if len(dims) == 1 else dims

    def _computed(self, node: NodeProto, values: Sequence[str]) -> str:
        """What a node computes of values."""
        op, given = node.op_type, {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if op not in ELEMENTWISE:
            raise NoFitError(f"{op} is not an element-wise op that is known")
        if all(name in self.constants for name in node.input):
            raise NoFitError(f"{op} of constants: fold them first")
        dtypes = [self.dtypes.get(name, "fp32") for name in node.input]
        dtype = dtypes[op == "Where"]
        kind = _KINDS.get(dtype, "float")
        if op not in {"int": _WHOLE, "byte": _BYTES, "bool": _BYTES}.get(kind, {op}):
            raise NoFitError(f"{op} of {dtype}")
        if op == "Cast":
            dtype = onnx_graph.DTYPES.get(given["to"], "")
        elif op == "QuantizeLinear":
            dtype = dtypes[2] if len(dtypes) > 2 else onnx_graph.DTYPES.get(given.get("output_dtype", 0), "uint8")
        elif op in _LOGIC or op == "DequantizeLinear":
            dtype = "bool" if op in _LOGIC else dtypes[1]
        self.dtypes[node.output[0]] = dtype
        first, *others = values
        if op == "Cast":
            if _KINDS.get(dtype) == "byte" and kind != "bool":
                raise NoFitError(f"Cast to {dtype}")
            other = f"{first}.to(tl.float32)" if kind in ("int", "bool") else first
            return {"int": f"{first}.to(tl.{dtype})", "bool": f"{first} != 0"}.get(_KINDS.get(dtype, ""), other)
        if op == "Clip":
            low, high = (*others, "", "")[:2]
            text = f"tl.maximum({first}, {low or given['min']})" if low or "min" in given else first
            return f"tl.minimum({text}, {high or given['max']})" if high or "max" in given else text
        if op == "Mean":
            return f"({' + '.join(values)}) / {float(len(values))}"
        if op == "Pow":
            exponent = self.constants.get(node.input[1])
            if exponent is None or exponent.item() not in _POWERS:
                raise NoFitError(f"Pow with an exponent that is none of {', '.join(map(str, _POWERS))}")
            return _POWERS[exponent.item()].format(first)
        if op.endswith("Linear"):
            if op == "QuantizeLinear" and dtype not in _RANGES:
                raise NoFitError(f"it quantizes to {dtype}")
            text = _OPS[op]
            if others[1:] in ([], ["0"]):
                text = text.replace("({0} - {2})", "{0}").replace(" + {2}", "")
            first = f"{first}.to(tl.float32)" if kind == "int" else first
            return text.format(first, *others, **_RANGES.get(dtype, {}))
        if op in ("Sum", "Max", "Min"):
            for other in others:
                first = _OPS[op].format(first, other)
            return first
        text = _OPS["Gelu tanh" if given.get("approximate") == b"tanh" else op]
        return text.format(*values, **{**_DEFAULTS.get(op, {}), **given})


def _multiplied(dims: Sequence[Dim], by: _Stride = (1, ())) -> _Stride:
    names = [dim for dim in dims if isinstance(dim, str)]
    return by[0] * math.prod(dim for dim in dims if isinstance(dim, int)), tuple(sorted((*by[1], *names)))


def _grouped(dims: Sequence[Dim], walk: Walk, axes: Axes) -> list[list[tuple[Dim, _Stride]]]:
    """Dims and strides of a tensor along each variable of a walk."""
    axes = axes or range(sum(len(group) for _, group, _ in walk))
    rank = sum(axis is not None for axis in axes)
    beyond = max(len(dims) - rank, 0)
    if any(dim != 1 for dim in dims[:beyond]):
        raise NoFitError("an operand has more dimensions than what is computed of it")
    padded = (*[1] * (rank - len(dims)), *dims[beyond:])
    left, grouped = iter(axes), []
    for _, group, _ in walk:
        mine: list[tuple[Dim, _Stride]] = []
        for dim in group:
            axis = next(left)
            pair = (1, (0, ())) if axis is None else (padded[axis], _multiplied(padded[axis + 1 :]))
            if pair[0] not in (1, dim):
                raise NoFitError(f"a dimension {pair[0]} meets {dim}: one may be broadcast")
            mine.append(pair)
        grouped.append(mine)
    return grouped
