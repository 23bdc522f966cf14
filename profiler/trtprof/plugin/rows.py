"""Element-wise ops and reductions over the same axes, as one kernel: softmax, normalisations, sums and what is around.

The reduced dims of the data are the **columns**, the others the **rows**. Between two reductions lies a **pass** over
the columns; short rows stay in registers from one pass to the next. Mapping ``rows``: the data is contiguous along the
columns, and neighbouring threads take packs of 16 bytes of one row. ``columns``: it is contiguous along the rows, and
neighbouring threads take neighbouring rows; threads above one another share a row through shared memory.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from onnx import NodeProto, helper

from trtprof.base.op_kinds import op_kind
from trtprof.base.records import Dim
from trtprof.plugin import sizes
from trtprof.plugin.cuda_text import c_type
from trtprof.plugin.expressions import (
    C_TYPES,
    FLOATS,
    Chain,
    Value,
    attributes,
    broadcast,
    complete,
    computing,
    constant_value,
    constants,
    indented,
    known_ops,
    literal,
    loaded,
    opset_of,
    stored,
)
from trtprof.plugin.indexing import Extent, Names, Walk, along, extent, grid_of, groups, nbytes
from trtprof.plugin.kernel import Kernel, NotFitError
from trtprof.plugin.sizes import Size
from trtprof.plugin.task import Operand, Task

Fold = Literal["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]
_FOLDS: Mapping[str, str] = {"ReduceSum": "Add", "ReduceMax": "Max", "ReduceMin": "Min", "ReduceProd": "Mul"}
"""Reductions that are kept, with the operation of `cuda_text` that each is made of; others are spelled with them."""

COUNT = "#count"
"""Name of the value that is the number of columns."""

PACK_BYTES = 16
INT_LIMIT = 2**30
"""Fewer elements than this are counted in an int, which the step beyond the last one does not leave either."""
KEPT_ELEMENTS = 32
"""Of a row that a thread keeps in registers at most: of 255 registers, with what is computed from them."""


# ---- what is computed -----------------------------------------------------------------------------------------------


@dataclass
class Program:
    """A body as element-wise ops and reductions over the same axes."""

    task: Task  # Whose body it is
    dims: tuple[Dim, ...]  # Of the data
    reduced: tuple[int, ...]  # The axes that are reduced, ascending
    opset: int = 1  # Of the standard ops
    steps: list[NodeProto] = field(default_factory=list)  # Nodes in an order that can be executed
    element: set[str] = field(default_factory=set)  # Names of the values that each element has, others are of a row
    # Of each value, how many reductions have to be made one after another before it
    after: dict[str, int] = field(default_factory=dict)
    # Inputs by the name of their value, and along which dims of the data each varies
    operands: dict[str, tuple[Operand, tuple[bool, ...]]] = field(default_factory=dict)
    # Of each output the value, and along which dims of the data it varies
    outputs: dict[str, tuple[str, tuple[bool, ...]]] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple(axis for axis in range(len(self.dims)) if axis not in self.reduced)

    @property
    def contiguous_columns(self) -> bool:
        """Whether neighbouring columns are neighbours in memory."""
        inner = next((axis for axis in range(len(self.dims) - 1, -1, -1) if self.dims[axis] != 1), None)
        return inner is None or inner in self.reduced


@dataclass
class _Reader:
    """Spells the nodes of a body, and finds out what is reduced."""

    task: Task
    arrays: dict[str, np.ndarray[Any, Any]]
    dims: dict[str, tuple[Dim, ...]]
    opset: int
    makers: dict[str, NodeProto] = field(default_factory=dict)
    frames: dict[str, tuple[int, ...]] = field(default_factory=dict)
    data: tuple[Dim, ...] | None = None
    reduced: tuple[int, ...] = ()
    _made: int = 0

    def read(self, node: NodeProto) -> None:
        """One node of the body, in its order."""
        if op_kind(node.op_type) in ("pointwise", "cast") or node.op_type in ("Identity", "Dropout"):
            if node.op_type not in known_ops():
                raise NotFitError(f"{node.op_type} is not written")
            self._plain(node)
        elif (spell := _SPELLED.get(node.op_type)) is not None:
            spell(self, node)
        else:
            raise NotFitError(f"{node.op_type} is neither element-wise nor a reduction")

    def shape(self, name: str) -> tuple[Dim, ...]:
        """The dims of a value."""
        if name not in self.dims:
            raise NotFitError(f"{name} is a constant of more than one element")
        return self.dims[name]

    def axis(self, node: NodeProto, default: int) -> int:
        """The attribute of that name, counted from the left."""
        axis = attributes(node).get("axis", default)
        rank = len(self.shape(node.input[0]))
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise NotFitError(f"{node.op_type} over axis {axis} of {rank}")
        return axis % rank

    def over(self, node: NodeProto, axes: Iterable[int]) -> tuple[int, ...]:
        """Note that a node reduces its input over some axes; gives them."""
        dims, axes = self.shape(node.input[0]), tuple(sorted(axes))
        chosen = tuple(axis for axis in axes if dims[axis] != 1)
        if self.data is None:
            self.data, self.reduced = dims, chosen
        same = len(dims) == len(self.data) and chosen == self.reduced
        if not same or any(dims[axis] != self.data[axis] for axis in chosen):
            raise NotFitError(
                f"{node.op_type} over axes {list(chosen)} of {list(dims)} beside one over {list(self.reduced)} of "
                f"{list(self.data)}: one kernel reduces the same axes"
            )
        return axes

    def add(self, op_type: str, *inputs: str, output: str = "", what: str = "") -> str:
        """An element-wise node of a spelling; gives the name of its output, which is told by what it is."""
        node = helper.make_node(op_type, list(inputs), [output or self._name(what or op_type.lower())])
        self._plain(node)
        return str(node.output[0])

    def fold(
        self, op_type: Fold, value: str, axes: Sequence[int], *, kept: bool = True, output: str = "", what: str = "sum"
    ) -> str:
        """A reduction of those that stay; gives the name of its output."""
        node = helper.make_node(op_type, [value], [output or self._name(what)])
        name = str(node.output[0])
        self.makers[name] = node
        dims = self.shape(value)
        self.dims[name] = tuple(1 if axis in axes else dim for axis, dim in enumerate(dims) if kept or axis not in axes)
        self.frames[name] = tuple(axis for axis in range(len(dims)) if kept or axis not in axes)
        return name

    def number(self, value: float) -> str:
        """A constant of a spelling."""
        name = f"#{value!r}"
        self.arrays[name] = np.array(value, np.float32)
        self.dims[name] = ()
        return name

    def result(self, node: NodeProto, place: int) -> str:
        """The name of an output; empty where it is left out."""
        return node.output[place] if place < len(node.output) else ""

    def _name(self, what: str) -> str:
        self._made += 1
        return f"{what}#{self._made}"

    def _plain(self, node: NodeProto) -> None:
        if any(node.output[1:]):
            raise NotFitError(f"the second output of {node.op_type}")
        self.makers[node.output[0]] = node
        self.dims[node.output[0]] = broadcast([self.shape(name) for name in node.input if name])


def program(task: Task) -> Program:
    """The body of a task as a `Program`."""
    arrays = constants(task.body)
    dims: dict[str, tuple[Dim, ...]] = {one.name: one.dims for one in task.inputs}
    dims.update({name: () for name, array in arrays.items() if array.size == 1})
    dims[COUNT] = ()
    reader = _Reader(task, arrays, dims, opset_of(task.body))
    for node in computing(task.body):
        reader.read(node)
    if reader.data is None:
        raise NotFitError("no reduction is in it")
    found = Program(task, reader.data, reader.reduced, reader.opset)
    for one in task.inputs:
        if one.dtype not in C_TYPES:
            raise NotFitError(f"{one.name} has elements of {one.dtype}")
    for name, array in reader.arrays.items():
        if (value := constant_value(array)) is not None:
            found.constants[name] = value
    _Instances(reader, found).outputs()
    return found


@dataclass
class _Instances:
    """Nodes for the axes that their values are aligned to: one node is two where it is used in two ways."""

    reader: _Reader
    program: Program
    _known: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def outputs(self) -> None:
        """All that the outputs of the task need."""
        found, whole = self.program, tuple(range(len(self.program.dims)))
        for output in found.task.outputs:
            frame = self._frame(output.name)
            frame = whole if frame is None else frame
            value = self._of(output.name, frame)
            varies = along(found.dims, frame, output.dims)
            wanted = range(len(found.dims)) if value in found.element else found.kept
            for axis in wanted:
                if found.dims[axis] != 1 and not varies[axis]:
                    raise NotFitError(
                        f"output {output.name} of dims {list(output.dims)} for data of {list(found.dims)}"
                    )
            if value not in found.element and any(varies[axis] for axis in found.reduced):
                raise NotFitError(f"output {output.name} repeats what a row has")
            found.outputs[output.name] = value, varies

    def _frame(self, name: str) -> tuple[int, ...] | None:
        """The axes that the dims of a value are aligned to; None where only those who read it tell."""
        if name in self.reader.frames:
            return self.reader.frames[name]
        node = self.reader.makers.get(name)
        if node is None:
            return None
        found = [frame for one in node.input if one and (frame := self._frame(one)) is not None]
        return max(found, key=len) if found else None

    def _of(self, name: str, frame: tuple[int, ...]) -> str:
        """The name of a value where it is aligned to some axes."""
        if name in self.program.constants or name == COUNT:
            return name
        if (name, frame) not in self._known:
            self._known[name, frame] = self._made(name, frame)
        return self._known[name, frame]

    def _made(self, name: str, frame: tuple[int, ...]) -> str:
        found, node = self.program, self.reader.makers.get(name)
        own = name if len(frame) == len(found.dims) else f"{name}#{len(frame)}"
        if node is None:
            operand = next((one for one in found.task.inputs if one.name == name), None)
            if operand is None:
                raise NotFitError(f"{name} is a constant of more than one element")
            varies = along(found.dims, frame, operand.dims)
            found.operands[own] = operand, varies
            found.after[own] = 0
            if any(varies[axis] for axis in found.reduced):
                found.element.add(own)
            return own
        fold = node.op_type in _FOLDS and name in self.reader.frames
        if fold and frame != self.reader.frames[name]:
            raise NotFitError(f"{node.op_type} whose result is aligned to other axes than it leaves")
        inner = tuple(range(len(found.dims))) if fold else frame
        made = NodeProto()
        made.CopyFrom(node)
        del made.input[:]
        made.input.extend(self._of(one, inner) if one else "" for one in node.input)
        made.output[0] = own
        found.steps.append(made)
        needs = [one for one in made.input if one]
        found.after[own] = max((found.after.get(one, 0) for one in needs), default=0) + fold
        if not fold and any(one in found.element for one in needs):
            found.element.add(own)
        return own


# ---- what is spelled with other ops ---------------------------------------------------------------------------------

Spell = Callable[[_Reader, NodeProto], None]


def _reduction(reader: _Reader, node: NodeProto) -> None:
    """Reduce* in any opset: the axes are an attribute, later an input; none are all."""
    given = attributes(node)
    rank = len(reader.shape(node.input[0]))
    axes: Any = given.get("axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        if node.input[1] not in reader.arrays:
            raise NotFitError(f"{node.op_type} over axes that are not known before the run")
        axes = reader.arrays[node.input[1]].reshape(-1).tolist()
    if not axes:
        axes = [] if given.get("noop_with_empty_axes") else range(rank)
    if any(not -rank <= axis < rank for axis in axes):
        raise NotFitError(f"{node.op_type} over axes {list(axes)} of {rank}")
    chosen = reader.over(node, {axis % rank for axis in axes})
    x, out, kept = node.input[0], node.output[0], bool(given.get("keepdims", 1))

    def total(value: str, output: str = "") -> str:
        return reader.fold("ReduceSum", value, chosen, kept=kept, output=output)

    match node.op_type:
        case "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd":
            reader.fold(node.op_type, x, chosen, kept=kept, output=out)
        case "ReduceMean":
            reader.add("Div", total(x), COUNT, output=out)
        case "ReduceL1":
            total(reader.add("Abs", x), out)
        case "ReduceL2":
            reader.add("Sqrt", total(reader.add("Mul", x, x)), output=out)
        case "ReduceSumSquare":
            total(reader.add("Mul", x, x), out)
        case "ReduceLogSum":
            reader.add("Log", total(x), output=out)
        case _:  # the largest is taken off first, so that nothing overflows; where it is infinite, nothing is
            most = reader.fold("ReduceMax", x, chosen, what="largest")
            shift = reader.add("Where", reader.add("IsInf", most), reader.number(0.0), most, what="shift")
            logs = reader.add("Log", total(reader.add("Exp", reader.add("Sub", x, shift))))
            if not kept:  # the same again, aligned as the result is
                most = reader.fold("ReduceMax", x, chosen, kept=False, what="largest")
                shift = reader.add("Where", reader.add("IsInf", most), reader.number(0.0), most, what="shift")
            reader.add("Add", logs, shift, output=out)


def _softmax(reader: _Reader, node: NodeProto) -> None:
    """Softmax and LogSoftmax: the largest of a row is taken off, so that no exponential overflows."""
    rank = len(reader.shape(node.input[0]))
    if reader.opset < 13:  # all dims from the axis on are one row
        axes: Sequence[int] = range(reader.axis(node, 1), rank)
    else:
        axes = [reader.axis(node, -1)]
    axes = reader.over(node, axes)
    largest = reader.fold("ReduceMax", node.input[0], axes, what="largest")
    centred = reader.add("Sub", node.input[0], largest, what="centred")
    powers = reader.add("Exp", centred, what="power")
    total = reader.fold("ReduceSum", powers, axes)
    if node.op_type == "LogSoftmax":
        reader.add("Sub", centred, reader.add("Log", total), output=node.output[0])
    else:
        reader.add("Mul", powers, reader.add("Reciprocal", total, what="inverse"), output=node.output[0])


def _normalisation(reader: _Reader, node: NodeProto) -> None:
    """LayerNormalization, RMSNormalization and the ops of ONNX Runtime that add a residual before them."""
    skips, simple = (
        node.op_type.startswith("Skip"),
        node.op_type.endswith(("RMSNormalization", "SimplifiedLayerNormalization")),
    )
    names = [*node.input, "", "", "", "", ""]
    value = names[0]
    if skips:
        scale, bias = names[2], "" if simple else names[3]
        extra = names[3] if simple else names[4]
        value = reader.add("Add", value, names[1], what="residual")
        if extra:
            value = reader.add("Add", value, extra, what="residual")
        if reader.result(node, 3):
            reader.add("Identity", value, output=reader.result(node, 3))
    else:
        scale, bias = names[1], "" if simple else names[2]
    rank = len(reader.shape(value))
    start = rank - 1 if skips else reader.axis(node, -1)
    axes = reader.over(helper.make_node(node.op_type, [value], []), range(start, rank))
    centred = value
    if not simple:
        mean = reader.add(
            "Div", reader.fold("ReduceSum", value, axes), COUNT, output=reader.result(node, 1), what="mean"
        )
        centred = reader.add("Sub", value, mean, what="centred")
    squares = reader.fold("ReduceSum", reader.add("Mul", centred, centred, what="square"), axes)
    epsilon = attributes(node).get("epsilon", 1e-12 if skips else 1e-5)
    moved = reader.add(
        "Add", reader.add("Div", squares, COUNT), reader.number(epsilon if isinstance(epsilon, float) else 0.0)
    )
    place = 2 if not simple or skips else 1
    inverse = reader.add("Reciprocal", reader.add("Sqrt", moved), output=reader.result(node, place), what="inverse")
    last = reader.add("Mul", centred, inverse, output="" if scale or bias else node.output[0], what="normal")
    if scale:
        last = reader.add("Mul", last, scale, output="" if bias else node.output[0], what="scaled")
    if bias:
        reader.add("Add", last, bias, output=node.output[0])


_SPELLED: Mapping[str, Spell] = {
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
         "ReduceLogSum", "ReduceLogSumExp"),
        _reduction,
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization",
         "SkipSimplifiedLayerNormalization"),
        _normalisation,
    ),
}  # fmt: skip


# ---- how it is written ----------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How threads share the work."""

    mapping: Literal["rows", "columns"]  # Whether neighbouring threads take neighbouring columns, or neighbouring rows
    threads: int  # That share a row
    rows: int  # Of a block
    width: int = 1  # Elements of a pack
    steps: int = 0  # Packs of a row that a thread keeps in registers; 0 where each pass reads the row again

    @property
    def at_once(self) -> int:
        """Packs that a thread asks for before it waits: of 1024 threads, each has 64 registers at most."""
        return self.steps or (UNROLL if self.threads * self.rows < MOST_THREADS else UNROLL // 2)


@dataclass
class _Pass:
    """What is done in one pass over the columns."""

    steps: list[NodeProto] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    folds: list[NodeProto] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    recalls: list[str] = field(default_factory=list)
    keeps: list[str] = field(default_factory=list)


CACHED_ROW = 32 * 1024  # Bytes of a row that stay in the caches from one pass to the next, whatever runs beside it
UNROLL = 4  # Packs of a row that a thread asks for at once where it keeps none
MOST_THREADS = 1024  # Of a block


def write(found: Program, template: str, title: str, shapes: Sequence[Shape]) -> list[Kernel]:
    """Kernels for a program, one for each way to share the work."""
    return [_Writer(found, shape).kernel(template, title, tactic) for tactic, shape in enumerate(shapes, 1)]


class _Writer:
    """One kernel."""

    def __init__(self, found: Program, shape: Shape) -> None:
        self.program, self.shape = found, shape
        self.names = Names(found.task)
        varies = {name: along_ for name, (_, along_) in found.operands.items()}
        varies |= {f"{name}#out": along_ for name, (_, along_) in found.outputs.items()}
        whole = extent(found.dims)
        self.flat = whole.known is not None and whole.known < INT_LIMIT
        rows, columns = (groups(found.dims, axes, varies) for axes in (found.kept, found.reduced))
        self.rows = Walk(rows, self.names, "int" if self.flat else "long long", "r")
        short = shape.mapping == "rows" and len(columns) == 1 and (columns[0].extent.known or INT_LIMIT) < INT_LIMIT
        self.index = "int" if self.flat or short else "long long"
        self.columns = Walk(columns, self.names, self.index, "c")
        self.values = dict(found.constants)
        self.outputs = {one.name: one for one in found.task.outputs}
        self.variables = {one.output[0]: f"{_told(one)}_{place}" for place, one in enumerate(found.steps, 1)}
        self.dtypes = self._dtypes()
        self.planned = self._passes()

    def _dtypes(self) -> dict[str, str]:
        """The dtype of each value; whatever is not written for such dtypes is found out here."""
        found = self.program
        chain = Chain(found.opset, {**found.constants, COUNT: Value("columns", "fp32")})
        for name, (operand, _) in found.operands.items():
            chain.values[name] = Value(operand.name, operand.dtype)
        for node in found.steps:
            if self._folds(node):
                chain.values[node.output[0]] = Value(self._variable(node), chain.values[node.input[0]].dtype)
                continue
            if COUNT in node.input and chain.values[node.input[0]].dtype not in FLOATS:
                raise NotFitError(f"the mean of {chain.values[node.input[0]].dtype}")
            chain.add(node)
        return {name: value.dtype for name, value in chain.values.items()}

    def _variable(self, node: NodeProto) -> str:
        return self.variables[node.output[0]]

    def _plain(self, name: str) -> str:
        """An identifier for what an operand is where it is used."""
        return name.replace("#", "_") if name in self.program.operands else self.variables[name]

    def _passes(self) -> list[_Pass]:
        """The passes over the columns, planned."""
        found = self.program
        makers = {one.output[0]: one for one in found.steps}
        last = max(found.after.values(), default=0)
        planned: list[_Pass] = []
        made: dict[str, int] = {}  # values that each element has, and the pass that computed them first
        for number in range(last + 1):
            now = _Pass()
            planned.append(now)
            now.folds = [one for one in found.steps if self._folds(one) and found.after.get(one.input[0], 0) == number]
            now.stores = [
                name for name, (value, _) in found.outputs.items()
                if value in found.element and found.after[value] == number
            ]  # fmt: skip
            wanted = [one.input[0] for one in now.folds] + [found.outputs[name][0] for name in now.stores]
            seen: set[str] = set()

            def need(name: str, now: _Pass = now, seen: set[str] = seen, number: int = number) -> None:
                if name not in found.element or name in seen:
                    return
                seen.add(name)
                if self.shape.steps and made.get(name, number) < number:
                    now.recalls.append(name)
                    if name not in planned[made[name]].keeps:
                        planned[made[name]].keeps.append(name)
                    return
                made.setdefault(name, number)
                if name in found.operands:
                    now.loads.append(name)
                    return
                for one in makers[name].input:
                    need(one)
                now.steps.append(makers[name])

            for name in wanted:
                need(name)
        return planned

    def _folds(self, node: NodeProto) -> bool:
        return node.op_type in _FOLDS and node.output[0] not in self.program.element and len(node.input) == 1

    def kernel(self, template: str, title: str, tactic: int) -> Kernel:
        """The kernel, complete."""
        found, shape = self.program, self.shape
        task = found.task
        lines = [*self._start(), *self._row_values(0)]
        for number, now in enumerate(self.planned):
            if now.folds or now.stores:
                lines += ["", *self._pass(now)]
            lines += self._row_values(number + 1)
        lines += self._row_outputs()
        why = self._why()
        entry = f"{template}_{shape.mapping}_{shape.threads}x{shape.width}x{shape.steps}"
        parameters = [
            *(f"const {c_type(one.dtype)} *__restrict__ {one.name}" for one in task.inputs),
            *self.names.parameters,
            *(f"{c_type(one.dtype)} *__restrict__ {one.name}" for one in task.outputs),
        ]
        block = (shape.threads * shape.rows, 1, 1) if shape.mapping == "rows" else (shape.rows, shape.threads, 1)
        text = [
            f"// {task.name}: {title}.",
            *(f"// {line}" for line in textwrap.wrap(why, 116)),
            f'extern "C" __global__ void __launch_bounds__({block[0] * block[1]}) {entry}(',
            *indented(f"{one}{',' if one is not parameters[-1] else ') {'}" for one in parameters),
            *indented(_without_unused(lines, "columns")),
            "}",
            "",
        ]
        names = ["pack", "aligned", "some", "operations"]
        names += ["columns"] if shape.mapping == "columns" else ["block"] if shape.threads > 32 else ["warp"]
        whole_rows = extent(found.dims[axis] for axis in found.kept)
        first = next(now for now in self.planned if now.folds or now.stores)
        return Kernel(
            template=template,
            tactic=tactic,
            label=self._label(),
            entry=entry,
            source=complete("\n".join(text), *names, of={one.dtype for one in (*task.inputs, *task.outputs)}),
            inputs=tuple(one.name for one in task.inputs),
            outputs=tuple(one.name for one in task.outputs),
            extras=self.names.extras,
            grid=grid_of(sizes.cdiv(whole_rows.size(task), shape.rows)),
            block=block,
            why=why,
            in_flight=shape.at_once * sum(
                nbytes(found.operands[name][0]) * (shape.width if self._packed(name) else 1) for name in first.loads
            ),
            reads=self._reads(),
        )  # fmt: skip

    def _start(self) -> list[str]:
        """Which row a thread works at, and where it begins in each operand."""
        found, shape, kind = self.program, self.shape, self.rows.kind
        if shape.mapping == "columns":
            lane, mine = "threadIdx.y", f"({kind})blockIdx.x * {shape.rows} + threadIdx.x"
        elif shape.rows > 1:
            lane = f"threadIdx.x % {shape.threads}"
            mine = f"({kind})blockIdx.x * {shape.rows} + threadIdx.x / {shape.threads}"
        else:
            lane, mine = "threadIdx.x", ""
        lines = [
            f"const {kind} rows = {self.names.c(self.rows.extent, kind)};",
            f"const {self.index} columns = {self.names.c(self.columns.extent, self.index)};",
        ]
        if self._alone:
            lines += [f"const {kind} row = blockIdx.x;", "if (row >= rows) return;"]
        else:
            lines += [
                "if (rows == 0) return;",
                f"{kind} row = {mine};",
                "// A thread beyond the last row works at the last and writes nothing: all meet in the reductions.",
                "const bool writes = row < rows;",
                "if (!writes) row = rows - 1;",
            ]
        lines += [f"const int lane = {lane};", *self.rows.split("row", [*found.operands, *map(_out, found.outputs)])]
        lines += [
            f"const {c_type(operand.dtype)} *{self._plain(name)}_row = {operand.name}{self._moved(name)};"
            for name, (operand, _) in found.operands.items()
        ]
        for name in found.outputs:
            lines.append(f"{c_type(self.outputs[name].dtype)} *{name}_row = {name}{self._moved(_out(name))};")
        if shape.width > 1:
            packs = {one.name: nbytes(one) for name, (one, _) in found.operands.items() if self._packed(name)}
            packs |= {
                name: nbytes(self.outputs[name]) for name, (one, _) in found.outputs.items() if one in found.element
            }
            tests = [f"aligned<{shape.width * size}>({name})" for name, size in packs.items()]
            if not self.columns.groups[-1].extent.divisible(shape.width):
                tests.insert(0, f"columns % {shape.width} == 0")
            lines.append(f"const bool packed = {' && '.join(tests)};")
        known = self.columns.extent.known
        self.values[COUNT] = Value("(float)columns" if known is None else literal(known, "fp32"), "fp32")
        return lines

    @property
    def _alone(self) -> bool:
        """Whether a block has one row, so that all its threads have one."""
        return self.shape.mapping == "rows" and self.shape.rows == 1

    def _moved(self, name: str) -> str:
        offset = self.rows.offset(name, "row", kind="" if self.flat else "long long")
        return "" if offset == "0" else f" + {_bracketed(offset)}"

    def _row_values(self, number: int) -> list[str]:
        """What follows for the whole row once so many reductions were made."""
        found = self.program
        lines: list[str] = []
        for name, (operand, _) in found.operands.items():
            if name not in found.element and number == 0:
                plain = self._plain(name)
                lines.append(f"const {C_TYPES[operand.dtype]} {plain}_value = {loaded(operand, f'{plain}_row[0]')};")
                self.values[name] = Value(f"{plain}_value", operand.dtype)
        chain = Chain(found.opset, self.values)
        for node in found.steps:
            name = node.output[0]
            if name not in found.element and found.after[name] == number and not self._folds(node):
                chain.add(node, self._variable(node))
        return lines + chain.lines

    def _row_outputs(self) -> list[str]:
        """What rows have, stored by the first of the threads that share one."""
        lines = [
            f"    {name}_row[0] = {stored(self.outputs[name], self.values[value])};"
            for name, (value, _) in self.program.outputs.items()
            if value not in self.program.element
        ]
        first = "lane == 0" if self._alone else "writes && lane == 0"
        return ["", f"if ({first}) {{", *lines, "}"] if lines else []

    def _pass(self, now: _Pass) -> list[str]:
        """The loops of one pass, and the reductions after it."""
        found, shape = self.program, self.shape
        steps, width = shape.steps, shape.width
        lines = [f"{C_TYPES[self.dtypes[one]]} {self._plain(one)}_kept[{steps}][{width}];" for one in now.keeps]
        for node in now.folds:
            dtype = self.dtypes[node.input[0]]
            lines.append(f"{C_TYPES[dtype]} {self._variable(node)} = {_start_of(node.op_type, dtype)};")
        packs = [
            f"{'Held' if self._packed(name) else 'Pack'}<{c_type(found.operands[name][0].dtype)}, {width}> "
            f"{self._plain(name)}_pack[{shape.at_once}];"
            for name in now.loads
        ]
        column = f"step * {shape.threads} + lane"
        column = f"({column}) * {width}" if width > 1 else column
        where = [f"const {self.index} column = {column if steps else f'start + {column}'};"]
        if self.columns.extent.known != steps * shape.threads * width:
            where.append("if (column >= columns) break;")
        head = ["#pragma unroll", f"for (int step = 0; step < {shape.at_once}; ++step) {{"]
        body: list[str] = []
        if now.loads:
            body += [*packs, "// All loads are asked for before the first is waited for."]
            split = self.columns.split("column", now.loads)
            one = _without_unused([*where, *split, *self._loads(now.loads, "[step]")], "column")
            body += [*head, *indented(one), "}"]
        split = self.columns.split("column", map(_out, now.stores))
        one = _without_unused([*where, *split, *self._elements(now, "[step]")], "column")
        body += [*head, *indented(one), "}"]
        if not steps:
            stride = shape.threads * width * shape.at_once
            body = [
                f"for ({self.index} start = 0; start < columns; start += {stride}) {{", *indented(body), "}",
            ]  # fmt: skip
        lines += body
        for node in now.folds:
            variable = self._variable(node)
            lines.append(f"{variable} = {self._reduced(node, variable)};")
            self.values[node.output[0]] = Value(variable, self.dtypes[node.output[0]])
        return lines

    def _loads(self, names: Sequence[str], step: str) -> list[str]:
        """Lines that fetch what a pass needs of one pack of columns."""
        found, width = self.program, self.shape.width
        lines = []
        for name in names:
            pack, row = f"{self._plain(name)}_pack{step}", f"{self._plain(name)}_row"
            offset = self.columns.offset(name, "column")
            if self._packed(name):
                load = "load_some" if self._once(name) else "load_some_again"
                lines.append(f"{pack} = {load}<{width}>({row} + {_bracketed(offset)}, {self._left()});")
            else:
                one = f"{self._plain(name)}_one"
                lines += [
                    f"const {c_type(found.operands[name][0].dtype)} {one} = {row}[{offset}];",
                    "#pragma unroll",
                    f"for (int i = 0; i < {width}; ++i) {pack}.at[i] = {one};",
                ]
        return lines

    def _elements(self, now: _Pass, step: str) -> list[str]:
        """Lines for one pack: each element computed, gathered in the reductions, kept and stored."""
        found, width = self.program, self.shape.width
        lines = []
        for name in now.stores:
            c = c_type(self.outputs[name].dtype)
            clear = "" if self._whole_packs() else f" = zeros<{width}, {c}>()"
            lines.append(f"Pack<{c}, {width}> {name}_pack{clear};")
        values = dict(self.values)
        inner = [] if self._whole_packs() else ["if (column + i >= columns) break;"]
        for name in now.loads:
            operand, plain = found.operands[name][0], self._plain(name)
            text = loaded(operand, f"{plain}_pack{step}{'[i]' if self._packed(name) else '.at[i]'}")
            inner.append(f"const {C_TYPES[operand.dtype]} {plain}_value = {text};")
            values[name] = Value(f"{plain}_value", operand.dtype)
        for name in now.recalls:
            values[name] = Value(f"{self._plain(name)}_kept{step}[i]", self.dtypes[name])
        chain = Chain(found.opset, values)
        for node in now.steps:
            chain.add(node, self._variable(node))
        inner += chain.lines
        for node in now.folds:
            variable, value = self._variable(node), values[node.input[0]].text
            inner.append(f"{variable} = {_FOLDS[node.op_type]}::of({variable}, {value});")
        inner += [f"{self._plain(name)}_kept{step}[i] = {values[name].text};" for name in now.keeps]
        for name in now.stores:
            inner.append(f"{name}_pack.at[i] = {stored(self.outputs[name], values[found.outputs[name][0]])};")
        lines += ["#pragma unroll", f"for (int i = 0; i < {width}; ++i) {{", *indented(inner), "}"]
        for name in now.stores:
            to = f"{name}_row + {_bracketed(self.columns.offset(_out(name), 'column'))}"
            when = "" if self._alone else "if (writes) "
            lines.append(f"{when}store_some({to}, {name}_pack, {self._left()});")
        return lines

    def _reduced(self, node: NodeProto, variable: str) -> str:
        operation, shape = _FOLDS[node.op_type], self.shape
        if shape.mapping == "columns":
            return f"column_reduce<{operation}, {shape.rows}, {shape.threads}>({variable})"
        if shape.threads > 32:
            return f"block_reduce<{operation}, {shape.threads}>({variable})"
        return f"warp_reduce<{operation}, {shape.threads}>({variable})"

    def _packed(self, name: str) -> bool:
        """Whether an operand has an element of its own for each column of a pack."""
        inner = self.columns.groups[-1] if self.columns.groups else None
        return name in self.program.element and (self.shape.width == 1 or (inner is not None and name in inner.varies))

    def _whole_packs(self) -> bool:
        return self.columns.extent.divisible(self.shape.width)

    def _left(self) -> str:
        """How many elements there are from a pack on, and whether one instruction may move them."""
        left = str(self.shape.width) if self._whole_packs() else "columns - column"
        return f"{left}, {'packed' if self.shape.width > 1 else 'true'}"

    def _once(self, name: str) -> bool:
        """Whether an operand is read once: by one row, in one pass."""
        varies = self.program.operands[name][1]
        alone = all(varies[axis] for axis in self.program.kept if self.program.dims[axis] != 1)
        return alone and (self.shape.steps > 0 or len([now for now in self.planned if name in now.loads]) == 1)

    def _reads(self) -> dict[str, Size]:
        """What longer rows are read again in each pass."""
        found = self.program
        reads = {}
        for operand in found.task.inputs:
            passes = sum(1 for now in self.planned if any(found.operands[name][0] is operand for name in now.loads))
            columns = extent(found.dims[axis] for axis in found.reduced).known
            if passes > 1 and (columns is None or columns * nbytes(operand) > CACHED_ROW):
                reads[operand.name] = extent(operand.dims).size(found.task) * (passes * nbytes(operand))
        return reads

    def _label(self) -> str:
        shape = self.shape
        ways = "kept in registers" if shape.steps else "read in each pass"
        what = "a row" if shape.mapping == "rows" else "a column"
        return f"{shape.threads} threads {what}, {shape.width} elements a load, {ways}"

    def _why(self) -> str:
        shape, passes = self.shape, len([now for now in self.planned if now.folds or now.stores])
        parts = []
        if shape.mapping == "columns":
            last = max(self.program.reduced, default=-1) + 1  # what lies behind it is contiguous
            side = extent(self.program.dims[last:]).known
            at_once = "up to 32" if side is None else min(side, 32)
            meet = f"; {shape.threads} threads share each and meet in shared memory" if shape.threads > 1 else ""
            parts.append(
                "Neighbouring threads take neighbouring rows of the result, so that a warp reads "
                f"{at_once} neighbouring elements at once{meet}."
            )
        elif shape.threads > 32:
            parts.append(f"{shape.threads} threads share a row and meet in shared memory, once a reduction.")
        else:
            parts.append(
                f"{shape.threads} threads of a warp share a row, and a block takes {shape.rows} rows: they meet in "
                "registers, without shared memory and barriers."
            )
        if shape.steps:
            parts.append(
                f"A thread keeps its {shape.steps * shape.width} elements in registers, so that each crosses DRAM once "
                "and all are asked for at once."
            )
        elif passes > 1:
            parts.append(f"The row is longer than registers hold, or its length is not known: {passes} passes read it.")
        else:
            parts.append("Each element is read once and gathered at once.")
        return " ".join(parts)


def _told(node: NodeProto) -> str:
    """What a value is, as a name: as its spelling calls it, or by its op."""
    what, mark, _ = node.output[0].partition("#")
    return what if mark and what.isidentifier() else node.op_type.lower().removeprefix("reduce")


def _out(name: str) -> str:
    """What an output is called among operands."""
    return f"{name}#out"


def _without_unused(lines: Sequence[str], name: str) -> list[str]:
    """Lines without the declaration of a variable that no other line names."""
    naming = [line for line in lines if re.search(rf"\b{name}\b", line)]
    return [line for line in lines if naming != [line]]


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def _start_of(op_type: str, dtype: str) -> str:
    """What changes nothing in a reduction."""
    if op_type in ("ReduceSum", "ReduceProd"):
        return literal(op_type == "ReduceProd", dtype)
    least = op_type == "ReduceMax"
    if dtype in FLOATS:
        return literal(-np.inf if least else np.inf, dtype)
    if dtype == "bool":
        return literal(not least, dtype)
    limits = np.iinfo(dtype)
    return literal(int(limits.min if least else limits.max), dtype)


# ---- how the work may be shared -------------------------------------------------------------------------------------

WARPS_BLOCK = 128  # Threads of a block whose warps have rows of their own


def shapes_of(found: Program) -> list[Shape]:
    """Ways to share the work of a program, best guess first."""
    columns = extent(found.dims[axis] for axis in found.reduced)
    if not found.contiguous_columns:
        return _column_shapes(columns)
    operands = [one for name, (one, _) in found.operands.items() if name in found.element]
    operands += [one for one in found.task.outputs if found.outputs[one.name][0] in found.element]
    width = max(PACK_BYTES // max((nbytes(one) for one in operands), default=4), 1)
    varies = {name: along_ for name, (_, along_) in found.operands.items()}
    varies |= {_out(name): along_ for name, (_, along_) in found.outputs.items()}
    split = groups(found.dims, found.reduced, varies)
    inner = split[-1].extent if split else Extent()
    if len(split) > 1 or inner.known is not None:  # else whether packs fit is found out when it runs
        while not inner.divisible(width):
            width //= 2
    return _row_shapes(columns, width)


def _row_shapes(columns: Extent, width: int) -> list[Shape]:
    if columns.known is None:
        return [
            Shape("rows", 128, 1, width),
            Shape("rows", 32, WARPS_BLOCK // 32, width),
            Shape("rows", 512, 1, width),
            *([Shape("rows", 128, 1)] if width > 1 else []),
        ]
    packs = max(-(-columns.known // width), 1)
    most = max(KEPT_ELEMENTS // width, 1)
    fitting = [1 << power for power in range(11) if 1 << power < 2 * packs and -(-packs // (1 << power)) <= most]
    warps = [threads for threads in reversed(fitting) if threads <= 32]
    blocks = [threads for threads in fitting if threads > 32]
    # A warp alone needs no barrier; of blocks, those first whose threads keep half of what they may.
    blocks.sort(key=lambda threads: abs(-(-packs // threads) * width - KEPT_ELEMENTS // 2))
    chosen = [*warps[:1], *blocks[: 2 if warps else 3], *warps[2:3]]
    found = [
        Shape("rows", threads, max(WARPS_BLOCK // threads, 1) if threads <= 32 else 1, width, -(-packs // threads))
        for threads in chosen
    ]
    if columns.known > 4096:
        found.append(Shape("rows", 512, 1, width))
    if not chosen:
        found.append(Shape("rows", MOST_THREADS, 1, width))
    return found


def _column_shapes(columns: Extent) -> list[Shape]:
    found = []
    for deep in (8, 32, 1):
        steps = 0 if columns.known is None else -(-columns.known // deep)
        if deep > 1 and columns.known is not None and columns.known <= deep // 2:
            continue  # most threads would have nothing to do
        found.append(Shape("columns", deep, 32, 1, steps if steps <= KEPT_ELEMENTS // 2 else 0))
    return found
