"""C++ names as profilers write them, demangled: read into a tree of parts, arguments and parameters.

Nothing here raises: profilers cut names anywhere, and write lambdas, anonymous namespaces and casts each in its own way
(``{lambda(float)#1}``, ``[lambda(float) (instance 1)]``, ``<unnamed>``, ``(anonymous namespace)``, ``(int)4``, ``4u``).
Where reports leave out the middle, ``__myl_Fc_0x33..._tensorop256x256``, dots belong to the word around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ANONYMOUS = "(anonymous namespace)"
LAMBDA = "(lambda)"
MAX_DEPTH = 64  # Of brackets and of mangled types: what lies deeper is left out; real names reach 20
MAX_TOKENS = 20_000
_TOKEN = re.compile(r"[^\W\d][\w$]*(?:(?:\.{3}|\u2026)[\w$]+)*|\d[\w.]*|::|->|[<>()\[\]{},]|[^\s\w]")
_OPEN = {"<": ">", "(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(_OPEN.values())
_QUALIFIERS = frozenset(("const", "volatile", "&", "*", "static_cast", "restrict", "__restrict__", "typename", "enum"))
_SIGNS = frozenset(("unsigned", "signed", "long", "short"))
_NUMBER = re.compile(r"\d+")


class Term(NamedTuple):
    """A type, a function or a literal."""

    parts: tuple[Part, ...] = ()  # The path, as ``at``, ``native``, ``reduce_kernel``; empty for a literal
    value: int | None = None  # Of a literal: booleans are 0 and 1
    const: bool = False  # Whether ``const`` stands in it
    pointer: bool = False  # Whether it is a pointer or a reference

    @property
    def names(self) -> tuple[str, ...]:
        """The path without arguments."""
        return tuple(part.name for part in self.parts)

    @property
    def last(self) -> Part:
        """The end of the path; a part without a name where there is none."""
        return self.parts[-1] if self.parts else Part("")


class Part(NamedTuple):
    """One step of a path."""

    name: str  # The identifier
    # Template arguments; None where the name shows no list of them. Of a lambda: which one of its function it is,
    # from 1.
    args: tuple[Term, ...] | None = None
    params: tuple[Term, ...] | None = None  # Types of the parameters; None where the name shows none
    args_end: bool = False  # Whether the list of arguments was closed


class _Group:
    __slots__ = ("bracket", "closed", "runs")

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self.runs: list[list[str | _Group]] = [[]]
        self.closed = False


def read(name: str) -> tuple[Term, bool]:
    """The function that a demangled name names, and whether its own identifier is complete."""
    root, whole = _grouped(name)
    term = _term(root.runs[0], 0)
    complete = whole or bool(term.parts and (term.last.args is not None or term.last.params is not None))
    return term, complete


def walk(term: Term) -> Iterator[Part]:
    """Every part of a tree in reading order: paths, template arguments, parameters."""
    stack = [iter(term.parts)]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
            continue
        yield part
        # The last one pushed is read first.
        stack.extend(
            iter([inner for each in terms for inner in each.parts]) for terms in (part.params, part.args) if terms
        )


def _grouped(name: str) -> tuple[_Group, bool]:
    root = _Group("")
    stack = [root]
    skipped = 0
    piece = ""
    for count, match in enumerate(_TOKEN.finditer(name)):
        if count >= MAX_TOKENS:
            break
        before, piece = piece, match[0]
        if piece in _OPEN and not (before == "operator" and piece == "<"):
            if len(stack) >= MAX_DEPTH:
                skipped += 1
            else:
                group = _Group(piece)
                stack[-1].runs[-1].append(group)
                stack.append(group)
        elif piece in _CLOSE:
            if skipped:
                skipped -= 1
            elif len(stack) > 1 and _OPEN[stack[-1].bracket] == piece:
                stack.pop().closed = True
        elif skipped:
            continue
        elif piece == ",":
            stack[-1].runs.append([])
        else:
            stack[-1].runs[-1].append(piece)
    return root, len(stack) == 1 and piece in (")", ">")


def _arguments(group: _Group, depth: int) -> tuple[Term, ...]:
    runs = group.runs
    if not group.closed:
        # The word at the end of a cut list may be cut as well: `float` of `float2`, `12` of `128`.
        last = runs[-1]
        if not (last and isinstance(last[-1], _Group) and last[-1].bracket == "<" and not last[-1].closed):
            runs = runs[:-1]
    return tuple(_term(run, depth + 1) for run in runs if run)


def _anonymous(group: _Group) -> bool:
    words = [item for item in group.runs[0] if isinstance(item, str)]
    return words == ["unnamed"] or words[-2:] in (["anonymous", "namespace"], ["unnamed", "namespace"])


def _term(run: list[str | _Group], depth: int) -> Term:
    if depth > MAX_DEPTH:
        return Term()
    parts: list[Part] = []
    joined = True  # the next identifier goes on with the path
    const = pointer = False
    value: int | None = None
    for index, item in enumerate(run):
        if isinstance(item, _Group):
            if item.bracket in "<(" and _anonymous(item):
                # Without `::` before it a path begins here, and what stood before was a return type.
                parts = [*(parts if joined else ()), Part(ANONYMOUS)]
                joined = False
            elif item.bracket in "[{":
                parts.append(Part(LAMBDA, _lambda_number(item), _lambda_params(item, depth)))
                joined = False
            elif item.bracket == "<" and parts:
                parts[-1] = parts[-1]._replace(args=_arguments(item, depth), args_end=item.closed)
            elif item.bracket == "(" and parts and not joined:
                if parts[-1].params is None or parts[-1].name == "operator":
                    parts[-1] = parts[-1]._replace(params=_arguments(item, depth))
            elif item.bracket == "(" and joined and not parts and index == 0:
                continue  # the cast before a literal: (int)4
        elif item == "::":
            joined = True
        elif item in _QUALIFIERS:
            const |= item == "const"
            pointer |= item in ("*", "&")
        elif item[0].isdigit():
            found = _NUMBER.match(item)
            value = int(found[0][:18]) if found else None
        elif item in ("true", "false") and not parts:
            value = int(item == "true")
        elif item[0].isalpha() or item[0] == "_":
            if joined and parts:
                parts.append(Part(item))
            elif parts and parts[-1].name.split(" ")[-1] in _SIGNS and not joined:
                parts[-1] = Part(f"{parts[-1].name} {item}")
            else:
                parts = [Part(item)]  # what stood before was a return type
            joined = False
    return Term(tuple(parts), None if parts and "=" not in run else value, const, pointer)


def _lambda_params(group: _Group, depth: int) -> tuple[Term, ...] | None:
    for before, item in zip(group.runs[0], group.runs[0][1:], strict=False):
        if before == "lambda" and isinstance(item, _Group) and item.bracket == "(":
            return _arguments(item, depth) if group.closed or item.closed else None
    return None


def _lambda_number(group: _Group) -> tuple[Term, ...] | None:
    """``{lambda(int)#2}`` and ``[lambda(int) (instance 2)]``: which lambda of its function it is, from 1."""
    for item in reversed(group.runs[-1]):
        if isinstance(item, _Group) and item.bracket == "(" and item.runs[0][:1] == ["instance"]:
            item = item.runs[0][-1]  # noqa: PLW2901
        if isinstance(item, str) and item.isascii() and item.isdigit() and group.closed:
            return (Term(value=int(item[:6])),)
    return None


_TYPES = {
    "float": "fp32", "double": "fp64", "half": "fp16", "__half": "fp16", "half_t": "fp16", "Half": "fp16",
    "__half2": "fp16", "half2": "fp16", "__nv_bfloat16": "bf16", "__nv_bfloat162": "bf16", "nv_bfloat16": "bf16",
    "bfloat16": "bf16", "bfloat16_t": "bf16", "BFloat16": "bf16", "tfloat32_t": "tf32", "char": "int8",
    "signed char": "int8", "int8_t": "int8", "unsigned char": "uint8", "uint8_t": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "int32_t": "int32", "unsigned int": "uint32", "unsigned": "uint32",
    "uint32_t": "uint32", "long": "int64", "long long": "int64", "int64_t": "int64", "unsigned long": "uint64",
    "unsigned long long": "uint64", "uint64_t": "uint64", "bool": "bool", "float2": "complex64",
    "cuComplex": "complex64", "double2": "complex128", "cuDoubleComplex": "complex128", "float_e4m3_t": "fp8e4m3fn",
    "float_e5m2_t": "fp8e5m2", "__nv_fp8_e4m3": "fp8e4m3fn", "__nv_fp8_e5m2": "fp8e5m2", "Float8_e4m3fn": "fp8e4m3fn",
    "Float8_e5m2": "fp8e5m2", "float_e2m1_t": "fp4e2m1", "__nv_fp4_e2m1": "fp4e2m1",
}  # fmt: skip


def dtype(term: Term) -> str | None:
    """The dtype that a type stands for, without pointers and ``const``; None for anything else, as ``T1``."""
    if not term.parts or term.value is not None:
        return None
    if term.last.name == "complex" and term.last.args:
        return {"fp32": "complex64", "fp64": "complex128"}.get(dtype(term.last.args[0]) or "")
    return _TYPES.get(term.last.name)
