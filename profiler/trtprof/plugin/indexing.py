"""Where elements lie: dims that all operands treat alike are merged, and what is left is index arithmetic in C++.

An operand is dense and row-major, and each of its dims is that of the iteration or 1. So all that index arithmetic has
to know of an operand is along which dims it varies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trtprof.base.records import Dim
from trtprof.base.units import DTYPE_BITS
from trtprof.plugin import sizes
from trtprof.plugin.kernel import Extra, NotFitError
from trtprof.plugin.sizes import Size
from trtprof.plugin.task import Operand, Task

_OWN = re.compile(
    "at|column|columns|down|across|first|formula|from|here|high|inside|lane|line|number|pack|packed|rest|row|rows|"
    r"source|square|start|step|to|total|which|wide|writes|i|[ric]\d+|(dim|sum|room)_.*"
)
"""What kernels call variables of their own."""
FLAT_LIMIT = 2**31  # Fewer elements than this are counted in 32 bits
BLOCKS_LIMIT = 2**31 - 1  # Of a grid in x


@dataclass(frozen=True)
class Extent:
    """A product of dims: of those that are numbers, and of those that have names."""

    number: int = 1
    names: tuple[str, ...] = ()

    def __mul__(self, other: Extent) -> Extent:
        return Extent(self.number * other.number, tuple(sorted((*self.names, *other.names))))

    @property
    def known(self) -> int | None:
        """Its value where no name is in it."""
        return None if self.names and self.number else self.number

    def divisible(self, by: int) -> bool:
        """Whether it is a multiple of a number, whatever the names are."""
        return self.number % by == 0

    def size(self, task: Task) -> Size:
        """The same as a size."""
        return sizes.product([sizes.number(self.number), *(task.size(name) for name in self.names)])


def extent(dims: Iterable[Dim]) -> Extent:
    """The product of dims."""
    kept = list(dims)
    names = sorted(one for one in kept if isinstance(one, str))
    return Extent(math.prod(one for one in kept if isinstance(one, int)), tuple(names))


_PLAIN = re.compile(r"[A-Za-z_]\w{0,23}", re.ASCII)  # Names of dimensions that kernels take over


@dataclass
class Names:
    """Dims with names, as a kernel is given them: one 32-bit integer each."""

    task: Task
    used: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = [one.name for one in (*self.task.inputs, *self.task.outputs) if _OWN.fullmatch(one.name)]
        if taken:
            raise NotFitError(f"an operand is called {taken[0]}, as something in the kernel is")

    def c(self, of: Extent, kind: str) -> str:
        """An extent as an expression of a type of C."""
        if of.known is not None:
            return str(of.known)
        factors = [self._identifier(name) for name in of.names]
        factors[0] = f"({kind}){factors[0]}"
        return " * ".join([*factors, *([str(of.number)] if of.number != 1 else [])])

    def _identifier(self, name: str) -> str:
        if name not in self.used:
            # What shape inference makes of open dimensions may be a formula of hundreds of characters.
            plain = f"dim_{name}" if _PLAIN.fullmatch(name) else f"dim_{len(self.used) + 1}"
            while plain in self.used.values():
                plain += "_"
            self.used[name] = plain
        return self.used[name]

    @property
    def extras(self) -> tuple[Extra, ...]:
        """Of the kernel, in the order of first use."""
        return tuple(Extra(identifier, self.task.size(name)) for name, identifier in self.used.items())

    @property
    def parameters(self) -> list[str]:
        """Likewise, as parameters."""
        return [f"int {identifier}" for identifier in self.used.values()]


@dataclass(frozen=True)
class Group:
    """Neighbouring dims that every operand has, or lacks, as a whole."""

    extent: Extent  # How many elements they count
    varies: frozenset[str]  # Names of the operands that have them
    strides: Mapping[str, Extent]  # Of those, what one step is worth in the memory of each


def groups(dims: Sequence[Dim], axes: Sequence[int], operands: Mapping[str, Sequence[bool]]) -> tuple[Group, ...]:
    """The dims of an iteration along some of its axes, merged as far as all operands allow.

    `dims`: of the whole iteration. `axes`: those to look at, ascending. `operands`: by name, along which of ``dims``
    each varies.
    """
    found: list[Group] = []
    last = -1
    for axis in axes:
        if dims[axis] == 1:
            continue
        varies = frozenset(name for name, along in operands.items() if along[axis])
        strides = {
            name: extent(dims[later] for later in range(axis + 1, len(dims)) if operands[name][later])
            for name in varies
        }
        one = Group(extent([dims[axis]]), varies, strides)
        between = any(dims[skipped] != 1 for skipped in range(last + 1, axis))
        if found and found[-1].varies == varies and not between:
            one = Group(found[-1].extent * one.extent, varies, strides)
            found.pop()
        found.append(one)
        last = axis
    return tuple(found)


def along(dims: Sequence[Dim], frame: Sequence[int], operand: Sequence[Dim]) -> tuple[bool, ...]:
    """Along which dims of an iteration an operand varies.

    `dims`: of the iteration. `frame`: the axes that the operand's dims are aligned to, from the right. `operand`: its
    dims.
    """
    found = [False] * len(dims)
    lead = len(operand) - len(frame)
    if any(dim != 1 for dim in operand[: max(lead, 0)]):
        raise NotFitError(f"an operand of dims {list(operand)} for {list(dims)}")
    for axis, dim in zip(frame[max(-lead, 0) :], operand[max(lead, 0) :], strict=True):
        if dim == 1 and dims[axis] != 1:
            continue
        if dim != dims[axis]:
            raise NotFitError(f"an operand of dims {list(operand)} for {list(dims)}: whether it is broadcast")
        found[axis] = dim != 1
    return tuple(found)


@dataclass(frozen=True)
class Walk:
    """Index arithmetic over groups."""

    groups: tuple[Group, ...]  # Outer before inner
    names: Names  # Of the dims
    kind: str  # Type of C that indices have
    letter: str  # What the index of each group is called, with a number

    @property
    def extent(self) -> Extent:
        """All elements."""
        found = Extent()
        for group in self.groups:
            found = found * group.extent
        return found

    def split(self, at: str, wanted: Iterable[str]) -> list[str]:
        """Lines that take an index apart, as far as some operands need it."""
        needed = self._needed(wanted)
        lines, rest = [], at
        for place in range(len(self.groups) - 1, -1, -1):
            size = self._sized(place)
            if place in needed:
                value = f"{rest} % {size}" if place else rest
                lines.append(f"const {self.kind} {self.letter}{place} = {value};")
            if place and any(before in needed for before in range(place)):
                rest = f"{rest} / {size}"
        return lines

    def offset(self, operand: str, at: str, *, kind: str = "") -> str:
        """The offset of an operand's element; ``at`` is the index that `split` took apart."""
        if self.contiguous(operand):
            return at
        parts = []
        for place, group in enumerate(self.groups):
            if operand not in group.varies:
                continue
            stride = group.strides[operand]
            index = at if len(self.groups) == 1 else f"{self.letter}{place}"
            if stride.known == 1:
                parts.append(index)
            else:
                parts.append(f"{f'({kind})' if kind else ''}{index} * {self._factor(stride)}")
        return " + ".join(parts) or "0"

    def contiguous(self, operand: str) -> bool:
        """Whether an operand's elements follow one another as the index counts."""
        return all(operand in group.varies for group in self.groups) and all(
            group.strides[operand] == self._inside(place) for place, group in enumerate(self.groups)
        )

    def varies(self, operand: str) -> bool:
        """Whether an operand varies at all."""
        return any(operand in group.varies for group in self.groups)

    def _inside(self, place: int) -> Extent:
        found = Extent()
        for group in self.groups[place + 1 :]:
            found = found * group.extent
        return found

    def splits(self, operand: str) -> bool:
        """Whether an operand's offset takes more than the index itself."""
        return len(self.groups) > 1 and not self.contiguous(operand)

    def _needed(self, wanted: Iterable[str]) -> set[int]:
        if len(self.groups) <= 1:
            return set()
        loose = {name for name in wanted if not self.contiguous(name)}
        return {place for place, group in enumerate(self.groups) if loose & group.varies}

    def _sized(self, place: int) -> str:
        return self._factor(self.groups[place].extent)

    def _factor(self, of: Extent) -> str:
        text = "1" if of.known == 0 else self.names.c(of, self.kind)  # nothing is there to be taken apart
        return f"({text})" if " " in text or text.startswith("(") else text


def index_type(whole: Extent) -> str:
    """The type of C that counts so many elements."""
    return "unsigned int" if whole.known is not None and whole.known < FLAT_LIMIT else "unsigned long long"


def nbytes(operand: Operand) -> int:
    """Bytes of an element."""
    bits = DTYPE_BITS.get(operand.dtype, 0)
    if not bits or bits % 8:
        raise NotFitError(f"it has elements of {operand.dtype}")
    return bits // 8


def grid_of(blocks: Size) -> tuple[Size, Size, Size]:
    """A grid in x."""
    if blocks.known is not None and blocks.known > BLOCKS_LIMIT:
        raise NotFitError(f"{blocks.known} blocks: a grid has at most {BLOCKS_LIMIT}")
    return blocks, sizes.number(1), sizes.number(1)
