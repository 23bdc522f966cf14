"""Itanium-mangled C++ names (ABI section 5.1), read into the tree of `symbols`; a cut name as far as it goes.

Own code: of 35 mangled names in captures ``itanium-demangler`` 1.1 reads 17; ``cxxfilt`` 0.3.0 needs libstdc++ at run
time and refuses a cut name.
"""

from __future__ import annotations

from trtprof.kernel_names.symbols import ANONYMOUS, LAMBDA, MAX_DEPTH, Part, Term

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_BUILTIN_D = {"Dh": "half", "DF": "_Float", "Dn": "nullptr_t", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t"}
_STD = {"St": (), "Sa": ("allocator",), "Sb": ("basic_string",), "Ss": ("string",), "Si": ("istream",),
        "So": ("ostream",), "Sd": ("iostream",)}  # fmt: skip
_OPERATORS = frozenset(
    (
        "nw",
        "na",
        "dl",
        "da",
        "ps",
        "ng",
        "ad",
        "de",
        "co",
        "pl",
        "mi",
        "ml",
        "dv",
        "rm",
        "an",
        "or",
        "eo",
        "aS",
        "pL",
        "mI",
        "mL",
        "dV",
        "rM",
        "aN",
        "oR",
        "eO",
        "ls",
        "rs",
        "lS",
        "rS",
        "eq",
        "ne",
        "lt",
        "gt",
        "le",
        "ge",
        "nt",
        "aa",
        "oo",
        "pp",
        "mm",
        "cm",
        "pm",
        "pt",
        "cl",
        "ix",
        "qu",
    )
)
_MAX_STEPS = 20_000


class _EndError(Exception):
    """The name ends, or goes on in a way that is not known, at this place."""


def read(name: str) -> tuple[Term, bool]:
    """The function that a mangled name names, and whether its own identifier is complete."""
    reader = _Reader(name)
    try:
        term = reader.encoding(0)
    except (_EndError, RecursionError):
        term = Term(tuple(reader.outer))
        return term, bool(reader.outer)
    return term, True


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 2  # behind _Z
        self.steps = 0
        self.known: list[Term] = []  # what S_, S0_ ... stand for
        self.outer: list[Part] = []  # the outermost path, as far as it was read
        self.templates: list[tuple[Term, ...]] = []

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise _EndError

    def step(self, depth: int) -> None:
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > _MAX_STEPS or self.at >= len(self.text):
            raise _EndError

    def number(self) -> int:
        start = self.at
        while self.peek().isascii() and self.peek().isdigit():
            self.at += 1
        if start == self.at or self.at - start > 18:
            raise _EndError
        return int(self.text[start : self.at])

    def encoding(self, depth: int) -> Term:
        """<encoding> ::= <name> [<types of result and parameters>]."""
        outer = depth == 0
        term = self.name(depth, self.outer if outer else None)
        params: list[Term] = []
        try:
            if term.last.args is not None and not self.ends():
                self.type(depth + 1)  # templates carry their result type first
            while not self.ends():
                params.append(self.type(depth + 1))
        except _EndError:
            if not outer:
                raise
        if not term.parts:
            return term
        return Term((*term.parts[:-1], term.last._replace(params=tuple(params))))

    def ends(self) -> bool:
        return self.at >= len(self.text) or self.peek() in ("E", ".", "@")

    def name(self, depth: int, outer: list[Part] | None = None) -> Term:
        self.step(depth)
        if self.take("N"):
            return self.nested(depth + 1, outer)
        if self.take("Z"):
            return self.local(depth + 1, outer)
        parts: list[Part] = [] if outer is None else outer
        if self.take("St"):
            parts.append(Part("std"))
            parts.append(self.unqualified(depth))
        elif self.peek() == "S":
            parts.extend(self.substitution().parts)
        else:
            parts.append(self.unqualified(depth))
        if self.peek() == "I":
            self.known.append(Term(tuple(parts)))
            self.arguments(parts, depth + 1)
        return Term(tuple(parts))

    def nested(self, depth: int, outer: list[Part] | None) -> Term:
        while self.peek() in ("r", "V", "K", "R", "O"):
            self.at += 1
        parts: list[Part] = [] if outer is None else outer
        while not self.take("E"):
            self.step(depth)
            if self.peek() == "S":
                parts.extend(self.substitution().parts)
                continue
            if self.peek() == "I":
                self.arguments(parts, depth + 1)
            elif self.peek() == "T":
                parts.extend(self.template_param().parts)
            elif self.take("L"):
                continue  # internal linkage
            else:
                parts.append(self.unqualified(depth))
            if self.peek() != "E":
                self.known.append(Term(tuple(parts)))
        return Term(tuple(parts))

    def local(self, depth: int, outer: list[Part] | None) -> Term:
        """<local-name> ::= Z <encoding> E <name>: what a function defines inside."""
        function = self.encoding(depth + 1)
        self.need("E")
        parts: list[Part] = [] if outer is None else outer
        parts.extend(function.parts)
        if self.take("s"):
            self.discriminator()
            return Term(tuple(parts))
        if self.take("d"):
            if self.peek().isdigit():
                self.number()
            self.need("_")
        inner = self.name(depth + 1)
        self.discriminator()
        parts.extend(inner.parts)
        return Term(tuple(parts))

    def discriminator(self) -> None:
        if self.take("__"):
            self.number()
            self.need("_")
        elif self.peek() == "_" and self.peek(2)[1:].isdigit():
            self.at += 2

    def unqualified(self, depth: int) -> Part:
        self.step(depth)
        if self.peek().isdigit():
            length = self.number()
            name = self.text[self.at : self.at + length]
            if len(name) < length:
                raise _EndError
            self.at += length
            self.tags()
            return Part(ANONYMOUS if name.startswith("_GLOBAL__N_") else name)
        if self.take("Ul"):
            return self.closure(depth + 1)
        if self.take("Ut"):
            if self.peek().isdigit():
                self.number()
            self.need("_")
            return Part("(unnamed)")
        if self.peek(2) in ("C1", "C2", "C3", "D0", "D1", "D2"):
            self.at += 2
            return Part("(constructor)")
        if self.peek(2) in _OPERATORS:
            self.at += 2
            return Part("operator")
        if self.take("cv"):
            self.type(depth + 1)
            return Part("operator")
        raise _EndError

    def tags(self) -> None:
        while self.peek() == "B":
            self.at += 1
            length = self.number()
            self.at += length

    def closure(self, depth: int) -> Part:
        params: list[Term] = []
        while not self.take("E"):
            params.append(self.type(depth + 1))
        number = self.number() + 2 if self.peek().isdigit() else 1
        self.need("_")
        if len(params) == 1 and params[0].names == ("void",):
            params = []
        return Part(LAMBDA, (Term(value=number),), tuple(params))

    def arguments(self, parts: list[Part], depth: int) -> None:
        """Reads template arguments into the last part, one by one, so that a cut name keeps those before the cut."""
        self.need("I")
        if not parts:
            raise _EndError
        read: list[Term] = []
        parts[-1] = parts[-1]._replace(args=())
        while not self.take("E"):
            read.extend(self.argument(depth + 1))
            parts[-1] = parts[-1]._replace(args=tuple(read))
        parts[-1] = parts[-1]._replace(args_end=True)
        self.templates.append(tuple(read))

    def argument(self, depth: int) -> list[Term]:
        self.step(depth)
        if self.take("L"):
            return [self.literal(depth + 1)]
        if self.take("J"):
            pack: list[Term] = []
            while not self.take("E"):
                pack.extend(self.argument(depth + 1))
            return pack
        if self.take("X"):
            self.expression(depth + 1)
            return [Term()]
        return [self.type(depth + 1)]

    def literal(self, depth: int) -> Term:
        if self.take("_Z"):
            inner = self.encoding(depth + 1)
            self.need("E")
            return inner
        self.type(depth + 1)
        negative = self.take("n")
        value = self.number() if self.peek().isdigit() else 0
        self.need("E")
        return Term(value=-value if negative else value)

    def expression(self, depth: int) -> None:
        """Skips an expression: none of its values is read."""
        while not self.take("E"):
            self.step(depth)
            if self.take("L"):
                self.literal(depth + 1)
            elif self.peek() == "T":
                self.template_param()
            elif self.peek(2) in ("sr", "st", "at", "sz", "cv"):
                self.at += 2
                self.type(depth + 1)
            elif self.peek().isdigit():
                self.unqualified(depth + 1)
                if self.peek() == "I":
                    self.arguments([Part("")], depth + 1)
            elif self.peek(2) in _OPERATORS:
                self.at += 2
            else:
                raise _EndError

    def substitution(self) -> Term:
        pair = self.peek(2)
        if pair in _STD:
            self.at += 2
            return Term((Part("std"), *(Part(name) for name in _STD[pair])))
        self.need("S")
        index = self.sequence()
        if index >= len(self.known):
            raise _EndError
        return self.known[index]

    def sequence(self) -> int:
        """The number of ``S_`` and ``S1A_``: base 36 and one more, 0 where there are no digits."""
        if self.take("_"):
            return 0
        end = self.text.find("_", self.at, self.at + 6)
        digits = self.text[self.at : end]
        if end < 0 or not digits.isascii() or not digits.isalnum():
            raise _EndError
        self.at = end + 1
        return int(digits, 36) + 1

    def template_param(self) -> Term:
        """T_, T0_ ...: named as nsys does, T1, T2 ..., because they carry no dtype that the arguments do not show."""
        self.need("T")
        index = 0
        if not self.take("_"):
            index = self.number() + 1
            self.need("_")
        term = Term((Part(f"T{index + 1}"),))
        self.known.append(term)
        return term

    def type(self, depth: int) -> Term:
        self.step(depth)
        char = self.peek()
        if char in "rVK":
            self.at += 1
            inner = self.type(depth + 1)
            term = inner._replace(const=inner.const or char == "K")
        elif char in "PRO":
            self.at += 1
            term = self.type(depth + 1)._replace(pointer=True)
        elif char == "D" and self.peek(2) == "Dp":
            self.at += 2
            term = self.type(depth + 1)
        elif self.peek(2) in _BUILTIN_D:
            name = _BUILTIN_D[self.peek(2)]
            self.at += 2
            if name == "_Float":
                name += str(self.number())
                self.need("_")
            return Term((Part({"_Float16": "half"}.get(name, name)),))
        elif char == "F":
            self.at += 1
            while not self.take("E"):
                self.type(depth + 1)
            term = Term((Part("(function)"),))
        elif char == "A":
            self.at += 1
            if self.peek().isdigit():
                self.number()
            self.need("_")
            term = self.type(depth + 1)._replace(pointer=True)
        elif char == "M":
            self.at += 1
            self.type(depth + 1)
            term = self.type(depth + 1)
        elif char == "T" or (char == "S" and self.peek(2) != "St"):
            term = self.template_param() if char == "T" else self.substitution()
            if self.peek() != "I":
                return term
            parts = list(term.parts)
            self.arguments(parts, depth + 1)
            term = Term(tuple(parts))
        elif char in _BUILTIN:
            self.at += 1
            return Term((Part(_BUILTIN[char]),))
        else:
            term = self.name(depth + 1)
        self.known.append(term)
        return term
