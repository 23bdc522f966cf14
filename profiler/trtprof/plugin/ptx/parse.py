"""PTX text, as instructions whose operands are resolved: the language of the PTX ISA as NVRTC and Triton write it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trtprof.plugin.ptx.fault import Fault

_TOKEN = re.compile(
    r"""
    (?:\s+|//[^\n]*|/\*.*?\*/)*
    (?: ([.%$_A-Za-z](?:::|[\w$.%])*
        |0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
        |\d+\.\d+(?:[eE][+-]?\d+)?|\d+U?
        |[{}\[\]()<>,;:@!|+\-=*]
        |"[^"]*")
     |\Z)
    """,
    re.VERBOSE | re.DOTALL,
)

BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32,
    "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
    "f32x2": 64, "e4m3x2": 16, "e5m2x2": 16, "b128": 128,
}  # fmt: skip
"""Width of each type in bits."""

_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|lanemask_\w\w|clock|clock_hi|clock64"
    r"|globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|aggr_smem_size)(\.[xyz])?"
)
_SPACES = {".param", ".shared", ".local", ".const", ".global"}


class Parameter(NamedTuple):
    """One argument of a kernel: its name, and its type as PTX says it: ``u64``, ``f32``, ``b8`` of a struct."""

    name: str
    type: str


class Register(NamedTuple):
    """A register: its place among those of the whole program, and its width (1 is a predicate)."""

    slot: int
    bits: int
    name: str


class Immediate(NamedTuple):
    """A number: its bits where it was written as those of a float, of ``width``; else an integer."""

    value: int
    width: int = 0


class Special(NamedTuple):
    """A special register, such as ``%tid.x``."""

    name: str


class Negated(NamedTuple):
    """A predicate, negated."""

    register: Register


class Variable:
    """A named piece of memory of one of the spaces."""

    def __init__(self, name: str, space: str, align: int, kind: str, count: int | None) -> None:
        self.name, self.space, self.kind = name, space, kind
        self.align = max(align, BITS[kind] // 8)
        self.count = count
        """Elements; None where the launch says how many (dynamic shared memory)."""
        self.initial: tuple[int | tuple[int, int], ...] = ()
        self.offset = 0
        """Where it begins in its space: shared and local memory."""
        self.number = -1
        """Of parameters: which."""

    @property
    def nbytes(self) -> int:
        """Its size; 0 where the launch says it."""
        return (self.count or 0) * BITS[self.kind] // 8


class Address(NamedTuple):
    """What stands in brackets."""

    base: Register | Variable | Immediate
    offset: int


class Vector(NamedTuple):
    """Operands in braces, or those of a call in parentheses."""

    items: tuple[Operand, ...]


class Pair(NamedTuple):
    """Two results: ``%r1|%p1``."""

    first: Operand
    second: Operand


class Label(NamedTuple):
    """A place in the program, or a list of them (``.branchtargets``), by name; `Program.target` finds it."""

    name: str


class Nothing(NamedTuple):
    """``_``: a result that nobody wants."""


Operand = Register | Immediate | Special | Negated | Variable | Address | Vector | Pair | Label | Nothing


@dataclass(eq=False)
class Instruction:
    """One instruction."""

    text: str  # As it was written, in one line
    opcode: str  # ``ld``
    modifiers: tuple[str, ...]  # What follows it, without dots: ``global``, ``f32``
    operands: tuple[Operand, ...]  # In their order
    guard: Register | None  # The predicate that it hangs on, or none
    negated: bool  # Whether it is executed where that is false
    function: Function
    scope: int = 0


@dataclass(eq=False)
class Function:
    """A kernel, or a function that kernels call."""

    name: str
    parameters: list[Variable] = field(default_factory=list)  # What it is given
    results: list[Variable] = field(default_factory=list)  # What it gives back
    code: list[Instruction] = field(default_factory=list)
    start: int = -1  # The place of its first instruction in `Program.code`; -1 where it is only declared
    # The register that holds where it returns to
    back: Register = field(default_factory=lambda: Register(-1, 64, "return address"))
    labels: dict[tuple[int, str], int] = field(default_factory=dict)  # Places by name
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)  # Lists of labels by name
    parents: list[int] = field(default_factory=lambda: [-1])


@dataclass(eq=False)
class Entry:
    """A kernel that can be launched."""

    name: str
    parameters: tuple[Parameter, ...]  # Its arguments in their order
    shared_bytes: int  # Shared memory of a block, without what a launch adds
    function: Function  # Its instructions


class Program:
    """A module of PTX.

    Attributes:
        code: The instructions of all, those of functions before those of kernels, so that threads which are still in a
            function come before those which have returned from it.
        variables: Variables of the module: ``.shared``, ``.const``, ``.global``; and ``.shared`` and ``.local`` ones of
            functions.
        shared_bytes: Shared memory with the gaps between variables, which nobody may touch.
        params: Parameters of functions, and those of calls.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.functions: dict[str, Function] = {}
        self.code: list[Instruction] = []
        self.registers = 0
        self.variables: list[Variable] = []
        self.params: list[Variable] = []
        self.shared_bytes = 0
        self.local_bytes = 0
        self.compiled: list[object] = []

    @classmethod
    def parse(cls, text: str) -> Program:
        """Read PTX."""
        program = cls()
        _Parser(program, text.rstrip("\0")).module()
        program._link()
        return program

    def uses_shared(self, entry: Entry) -> bool:
        """Whether a kernel, or any function that it may call, names a variable of shared memory."""
        return any(
            _space(operand) == "shared"
            for one in self.code
            if one.function is entry.function or one.function.name not in self.entries
            for operand in one.operands
        )

    def target(self, function: Function, scope: int, name: str) -> int:
        """The place of a label, seen from a scope of a function."""
        while scope >= 0:
            if (scope, name) in function.labels:
                return function.start + function.labels[scope, name]
            scope = function.parents[scope]
        raise Fault("unknown instruction", f"{function.name} has no label {name}")

    def _link(self) -> None:
        bodies = [one for one in self.functions.values() if one.code]
        for body in sorted(bodies, key=lambda found: found.name in self.entries):
            body.start = len(self.code)
            self.code += body.code
        dynamic: int | None = None
        # Gaps between shared variables are a multiple of 128 bytes, so that banks are what they would be without.
        # All dynamic shared memory is the same, behind what is static.
        for one in sorted((v for v in self.variables if v.space == "shared"), key=lambda v: v.count is None):
            if dynamic is not None:
                one.offset = dynamic
                continue
            place = -(-self.shared_bytes // 128) * 128 + (128 if self.shared_bytes else 0)
            one.offset = -(-place // one.align) * one.align
            self.shared_bytes = one.offset + one.nbytes
            dynamic = one.offset if one.count is None else None
        for one in self.variables:
            if one.space == "local":
                one.offset = -(-self.local_bytes // one.align) * one.align
                self.local_bytes = one.offset + one.nbytes


class _Parser:
    """Recursive descent over the tokens of a module."""

    def __init__(self, program: Program, text: str) -> None:
        self.program = program
        self.text = text
        self.starts: list[int] = []
        """Where each token begins, and an end."""
        self.tokens = self.split()
        self.place = 0
        self.scopes: list[dict[str, Register | Variable]] = [{}]
        self.ranges: list[list[tuple[str, int, int, int]]] = [[]]
        self.function: Function | None = None
        self.scope = 0

    # What the tokens are read with.
    def split(self) -> list[str]:
        """All tokens, and two that are empty: one is looked ahead at most."""
        found: list[str] = []
        place, text, match = 0, self.text, _TOKEN.match
        while True:
            one = match(text, place)
            if one is None:
                line = text.count("\n", 0, place) + 1
                raise Fault("unknown instruction", f"line {line}: {text[place : place + 20]!r} is no PTX")
            word = one[1]
            if word is None:
                self.starts += [len(text), len(text)]
                return [*found, "", ""]
            found.append(word)
            place = one.end()
            self.starts.append(place - len(word))

    def peek(self) -> str:
        return self.tokens[self.place]

    def next(self) -> str:
        word = self.tokens[self.place]
        if not word:
            raise Fault("unknown instruction", "the text ends within a statement")
        self.place += 1
        return word

    def take(self, text: str) -> bool:
        if self.tokens[self.place] == text:
            self.place += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"{text!r} was expected")

    def error(self, why: str) -> Fault:
        line = self.text.count("\n", 0, self.starts[self.place]) + 1
        return Fault("unknown instruction", f"line {line}: {why} at {self.peek() or 'the end'!r}")

    def skip_line(self) -> None:
        end = self.text.find("\n", self.starts[self.place])
        if end < 0:
            end = len(self.text)
        while self.peek() and self.starts[self.place] < end:
            self.place += 1

    def integer(self) -> int:
        negative = self.take("-")
        value = _number(self.next()).value
        return -value if negative else value

    # A module.
    def module(self) -> None:
        while self.peek():
            word = self.peek()
            if word in (".version", ".target", ".address_size", ".file"):
                self.skip_line()
            elif word == ".section":
                while self.next() != "}":
                    pass
            elif word in (".visible", ".extern", ".weak", ".common"):
                self.place += 1
            elif word == ".entry":
                self.place += 1
                self.entry()
            elif word == ".func":
                self.place += 1
                self.device_function()
            elif word in _SPACES:
                self.variable()
            elif word in (".pragma", ".alias"):
                while self.next() != ";":
                    pass
            else:
                raise self.error("a directive is not known")

    def entry(self) -> None:
        function = Function(self.next())
        before = len(self.program.variables)
        self.scopes.append({})
        self.ranges.append([])
        if self.peek() == "(":
            function.parameters = self.parameter_list()
        while self.peek() not in ("{", ";"):
            self.next()
        self.body(function)
        own = [v for v in self.program.variables if v.space == "shared"]
        used = [
            v
            for v in own
            if v in self.program.variables[before:]
            or any(_mentions(one, v) for code in function.code for one in code.operands)
        ]
        size = 0
        for one in used:
            size = -(-size // one.align) * one.align + one.nbytes
        parameters = tuple(Parameter(v.name, v.kind) for v in function.parameters)
        self.program.entries[function.name] = Entry(function.name, parameters, size, function)

    def device_function(self) -> None:
        self.scopes.append({})
        self.ranges.append([])
        results = self.parameter_list() if self.peek() == "(" else []
        name = self.next()
        function = self.program.functions.get(name) or Function(name)
        function.results = results
        function.parameters = self.parameter_list() if self.peek() == "(" else []
        while self.peek() not in ("{", ";"):
            self.next()
        self.body(function)

    def parameter_list(self) -> list[Variable]:
        found: list[Variable] = []
        self.expect("(")
        while not self.take(")"):
            if self.take(".reg"):
                raise self.error("a parameter in a register is not known here")
            found.append(self.declare())
            self.take(",")
        return found

    def body(self, function: Function) -> None:
        self.program.functions[function.name] = function
        if self.take(";"):
            self.scopes.pop()
            self.ranges.pop()
            return
        function.back = self.register("return address", 64)
        self.function, self.scope = function, 0
        self.expect("{")
        depth = 1
        while depth:
            if self.take("{"):
                self.scopes.append({})
                self.ranges.append([])
                function.parents.append(self.scope)
                self.scope = len(function.parents) - 1
                depth += 1
            elif self.take("}"):
                self.scopes.pop()
                self.ranges.pop()
                self.scope = function.parents[self.scope]
                depth -= 1
            else:
                self.statement(function)
        self.function = None

    # Declarations.
    def register(self, name: str, bits: int) -> Register:
        self.program.registers += 1
        return Register(self.program.registers - 1, bits, name)

    def declare(self) -> Variable:
        """``.shared .align 4 .b8 name[16] = {...}``, up to what follows it."""
        space = self.next()[1:]
        align, kind = 1, "b8"
        while self.peek().startswith("."):
            word = self.next()[1:]
            if word == "align":
                align = self.integer()
            elif word in BITS:
                kind = word
            elif word in ("v2", "v4"):
                raise self.error("variables that are vectors are not known here")
            elif word == "ptr":
                while self.peek() in (".global", ".shared", ".const", ".local"):
                    self.next()
        name = self.next()
        count: int | None = 1
        while self.take("["):
            if self.take("]"):
                count = None
            else:
                count = (1 if count is None else count) * self.integer()
                self.expect("]")
        found = Variable(name, space, align, kind, count)
        if space == "param":
            found.number = len(self.program.params)
            self.program.params.append(found)
        else:
            self.program.variables.append(found)
        self.scopes[-1][name] = found
        return found

    def variable(self) -> None:
        while True:
            found = self.declare()
            if self.take("="):
                found.initial = tuple(self.initial())
                if found.count is None:
                    found.count = len(found.initial)
            if not self.take(","):
                break
        self.expect(";")

    def initial(self) -> Iterator[int | tuple[int, int]]:
        if self.take("{"):
            while not self.take("}"):
                yield from self.initial()
                self.take(",")
            return
        negative = self.take("-")
        word = self.next()
        if not word[0].isdigit():
            raise self.error("the value of a variable that is an address is not known here")
        one = _number(word)
        yield -one.value if negative else one.value

    # What stands in a function.
    def statement(self, function: Function) -> None:
        word = self.peek()
        if self.tokens[self.place + 1] == ":" and not word.startswith("."):
            self.place += 2
            if self.take(".branchtargets"):
                names = []
                while not self.take(";"):
                    names.append(self.next())
                    self.take(",")
                function.lists[word] = tuple(names)
            elif self.peek() in (".callprototype", ".calltargets"):
                raise self.error("calls through pointers are not known here")
            else:
                function.labels[self.scope, word] = len(function.code)
        elif word == ".reg":
            self.place += 1
            self.registers()
        elif word in _SPACES:
            self.variable()
        elif word == ".loc":
            self.skip_line()
        elif word == ".pragma":
            while self.next() != ";":
                pass
        elif word == ";":
            self.place += 1
        elif word.startswith("."):
            raise self.error("a directive is not known")
        else:
            self.instruction(function)

    def registers(self) -> None:
        kind = self.next()[1:]
        if kind in ("v2", "v4"):
            raise self.error("registers that are vectors are not known here")
        if kind not in BITS:
            raise self.error("a type is not known")
        while True:
            name = self.next()
            if self.take("<"):
                count = self.integer()
                self.expect(">")
                first = self.program.registers
                self.program.registers += count
                self.ranges[-1].append((name, first, count, BITS[kind]))
            else:
                self.scopes[-1][name] = self.register(name, BITS[kind])
            if not self.take(","):
                break
        self.expect(";")

    def instruction(self, function: Function) -> None:
        begin = self.place
        guard: Register | None = None
        negated = False
        if self.take("@"):
            negated = self.take("!")
            found = self.name(self.next())
            if not isinstance(found, Register):
                raise self.error("a predicate was expected")
            guard = found
        opcode, *modifiers = self.next().split(".")
        operands: list[Operand] = []
        while not self.take(";"):
            operands.append(self.operand())
            if not self.take(",") and self.peek() != ";":
                raise self.error("',' or ';' was expected")
        text = " ".join(self.text[self.starts[begin] : self.starts[self.place - 1]].split())
        function.code.append(
            Instruction(text, opcode, tuple(modifiers), tuple(operands), guard, negated, function, self.scope)
        )

    def operand(self) -> Operand:
        first = self.one_operand()
        if self.take("|"):
            return Pair(first, self.one_operand())
        return first

    def one_operand(self) -> Operand:
        if self.take("{") or self.take("("):
            items = []
            while not (self.take("}") or self.take(")")):
                items.append(self.operand())
                self.take(",")
            return Vector(tuple(items))
        if self.take("["):
            return self.address()
        if self.take("!"):
            found = self.name(self.next())
            if not isinstance(found, Register):
                raise self.error("a predicate was expected")
            return Negated(found)
        if self.take("-"):
            one = _number(self.next())
            return Immediate(-one.value, one.width)
        word = self.next()
        if word[0].isdigit():
            return _number(word)
        found = self.name(word)
        if isinstance(found, Variable) and self.take("+"):
            return Address(found, self.integer())
        return found

    def address(self) -> Address:
        word = self.next()
        base: Operand = _number(word) if word[0].isdigit() else self.name(word)
        if not isinstance(base, Register | Variable | Immediate):
            raise self.error("an address was expected")
        offset = 0
        while not self.take("]"):
            if self.take("+") or self.peek() == "-":
                offset += self.integer()
            else:
                raise self.error("an address of this form is not known here")
        return Address(base, offset)

    def name(self, word: str) -> Register | Variable | Special | Label | Nothing:
        if word == "_":
            return Nothing()
        for names, ranges in zip(reversed(self.scopes), reversed(self.ranges), strict=True):
            if word in names:
                return names[word]
            for prefix, first, count, bits in ranges:
                if word.startswith(prefix) and word[len(prefix) :].isdigit():
                    number = int(word[len(prefix) :])
                    if number < count:
                        return Register(first + number, bits, word)
        if _SPECIAL.fullmatch(word):
            return Special(word)
        if word.startswith("%"):
            raise self.error(f"{word} is not declared")
        return Label(word)


def _number(word: str) -> Immediate:
    if word[:2] in ("0f", "0F"):
        return Immediate(int(word[2:], 16), 32)
    if word[:2] in ("0d", "0D"):
        return Immediate(int(word[2:], 16), 64)
    if "." in word:
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(word)))[0], 64)
    word = word.rstrip("U")
    if word[:2] in ("0x", "0X", "0b", "0B"):
        return Immediate(int(word, 0))
    try:
        return Immediate(int(word, 8) if len(word) > 1 and word[0] == "0" else int(word))
    except ValueError:
        raise Fault("unknown instruction", f"{word!r} is no number") from None


def _space(operand: Operand) -> str:
    """The space of a variable that an operand names."""
    base = operand.base if isinstance(operand, Address) else operand
    return base.space if isinstance(base, Variable) else ""


def _mentions(operand: Operand, variable: Variable) -> bool:
    if isinstance(operand, Address):
        return operand.base is variable
    return operand is variable
