"""What the families of C++ names have in common: types of arguments and parameters, and fields that need no reading."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.kernel_names.record import Fields, Unit
from trtprof.kernel_names.symbols import Part, Term, dtype


def fact(family: str, op: str, unit: Unit, evidence: str) -> Fields:
    """The fields that a function's identifier settles by itself."""
    return {"family": family, "op": op, "unit": unit, "evidence": evidence}


def leading_types(args: Sequence[Term] | None, start: int = 0) -> list[str]:
    """The dtypes that stand in a row from ``start``, up to the first argument that is none."""
    found: list[str] = []
    for term in (args or ())[start:]:
        kind = dtype(term)
        if kind is None:
            break
        found.append(kind)
    return found


def pointer_types(part: Part) -> Fields:
    """Inputs are pointers to const, results are not: the first of each. nsys writes arguments as ``T1``, ``T2``."""
    fields: Fields = {}
    args = part.args or ()
    for term in part.params or ():
        number = term.last.name[1:] if term.last.name[:1] == "T" else ""
        at = int(number) - 1 if number.isascii() and number.isdigit() and len(number) < 4 else -1
        kind = dtype(args[at]) if 0 <= at < len(args) else dtype(term)
        if term.pointer and kind:
            fields.setdefault("dtype_in" if term.const else "dtype_out", kind)
    return fields
