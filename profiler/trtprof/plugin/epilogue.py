"""What follows a sum before it is written: element-wise ops behind a product or a convolution, in the same kernel."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from onnx import NodeProto

from trtprof.base.records import Dim
from trtprof.plugin.cuda_text import c_type
from trtprof.plugin.expressions import (
    C_TYPES,
    Chain,
    Value,
    constant_value,
    constants,
    indented,
    literal,
    loaded,
    opset_of,
    stored,
)
from trtprof.plugin.indexing import Names, Walk, along, groups
from trtprof.plugin.kernel import NotFitError
from trtprof.plugin.task import Task


@dataclass
class Members:
    """What a kernel is given, as members of a struct, so that its functions need not hand it on."""

    task: Task  # What the kernel computes
    names: Names  # Of the dims that are not known before
    given: dict[int, str] = field(default_factory=dict)  # Of each input that is used its name in the text, by its place

    def use(self, place: int, name: str) -> str:
        """How the text calls an input of the task."""
        return self.given.setdefault(place, name)

    @property
    def declared(self) -> list[tuple[str, str, str]]:
        """Type, name and description of each, in the order of the kernel's parameters."""
        unread = [one.name for place, one in enumerate(self.task.inputs) if place not in self.given]
        if unread:
            raise NotFitError(f"nothing reads its input {unread[0]}")
        made = self.task.outputs[0]
        found = [
            (f"const {c_type(one.dtype)} *", self.given[place], f"  // {one.name}: {one.dtype} {_shown(one.dims)}")
            for place, one in enumerate(self.task.inputs)
        ]
        found += [("int ", name, "") for name in self.names.used.values()]
        return [*found, (f"{c_type(made.dtype)} *", "out", f"  // {made.name}: {made.dtype} {_shown(made.dims)}")]

    @property
    def lines(self) -> str:
        """The members of the struct."""
        return "\n".join(f"    {kind}{name};{what}" for kind, name, what in self.declared)

    @property
    def parameters(self) -> str:
        """The parameters of the entry, which calls operands as the plugin does."""
        return ", ".join(f"{kind}{name}" for (kind, _, _), name in zip(self.declared, self._called, strict=True))

    @property
    def arguments(self) -> str:
        """Their names, in their order."""
        return ", ".join(self._called)

    @property
    def _called(self) -> list[str]:
        task = self.task
        return [*(one.name for one in task.inputs), *self.names.used.values(), task.outputs[0].name]


def _shown(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def heading(*words: str) -> str:
    """Sentences as comments that come first in a text."""
    return "".join(f"// {line}\n" for text in words for line in textwrap.wrap(text, 116))


def inside(text: str) -> str:
    """Lines one level further in."""
    return "\n".join(indented(text.rstrip("\n").split("\n")))


def finish(
    members: Members, dims: Sequence[Dim], made: Value, tensor: str, after: Sequence[NodeProto], kind: str,
    first: Sequence[str] = (), added: tuple[str, float] | None = None,
) -> str:  # fmt: skip
    """A function of the kernel from a sum and its place to what is written there.

    `dims`: of the result. `made`: what ``first`` makes of ``total``. `added`: A tensor that is added to ``made`` before
    those, and what it is multiplied by.
    """
    task = members.task
    output = task.outputs[0]
    chain = Chain(opset_of(task.body))
    chain.values.update(
        {name: value for name, array in constants(task.body).items() if (value := constant_value(array)) is not None}
    )
    loads: list[str] = []
    varies: dict[str, tuple[bool, ...]] = {}

    def load(name: str) -> Value:
        place = next((at for at, one in enumerate(task.inputs) if one.name == name), None)
        if place is None:
            raise NotFitError(f"what follows reads {name}, a constant of several elements that is no input")
        operand = task.inputs[place]
        if operand.dtype not in C_TYPES:
            raise NotFitError(f"{operand.name} has elements of {operand.dtype}")
        member = members.use(place, f"operand_{place}")
        varies[member] = along(dims, range(len(dims)), operand.dims)
        loads.append(member)
        return Value(f"value_{place}", operand.dtype)

    lines = list(first)
    if added:
        value = chain.values.get(added[0]) or load(added[0])
        times = "" if added[1] == 1.0 else f"{literal(added[1], 'fp32')} * "
        lines.append(f"const float with_bias = {made.text} + {times}{value.text};")
        made = Value("with_bias", made.dtype)
    chain.values[tensor] = made
    for node in after:
        for name in node.input:
            if name and name not in chain.values:
                chain.values[name] = load(name)
        chain.add(node)
    result = chain.values.get(output.name)
    if result is None or result.dtype != output.dtype:
        raise NotFitError("its output is not what its last node makes")
    walk = Walk(groups(dims, range(len(dims)), varies), members.names, kind, "i")
    head = walk.split("o", loads)
    for member in loads:
        place = next(at for at, name in members.given.items() if name == member)
        operand = task.inputs[place]
        element = loaded(operand, f"{member}[{walk.offset(member, 'o') if walk.varies(member) else '0'}]")
        head.append(f"const {C_TYPES[operand.dtype]} value_{place} = {element};")
    body = [*head, *lines, *chain.lines, f"return {stored(output, result)};"]
    text = "\n".join(indented(body))
    return (
        "// What becomes of a sum before it is written at place o of the result.\n"
        f"__device__ __forceinline__ {c_type(output.dtype)} finish(float total, {kind} o) const {{\n{text}\n}}\n"
    )
