"""Whole numbers that are known as soon as the shapes of inputs are: grids, loop counts, arguments of kernels.

A `Size` is made of numbers and of dimensions of inputs by ``+ - * //``, `cdiv`, `least` and `most`. It is evaluated
here for shapes that are known, and written out in Python and C++ by those who write plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Operation = Literal["number", "dim", "+", "-", "*", "//", "cdiv", "min", "max"]

_APPLY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}


@dataclass(frozen=True)
class Size:
    """A number, a dimension, or an operation on two others."""

    operation: Operation
    of: tuple[Size, ...] = ()  # Operands of an operation
    number: int = 0  # Of ``number`` its value
    dim: tuple[int, int] = (0, 0)  # Of ``dim`` the input (its place among the inputs of the task) and the axis

    def __add__(self, other: Size | int) -> Size:
        return _made("+", self, other)

    def __sub__(self, other: Size | int) -> Size:
        return _made("-", self, other)

    def __mul__(self, other: Size | int) -> Size:
        return _made("*", self, other)

    def __rmul__(self, other: int) -> Size:
        return _made("*", other, self)

    def __floordiv__(self, other: Size | int) -> Size:
        return _made("//", self, other)

    @property
    def known(self) -> int | None:
        """Its value where it depends on no shape."""
        return self.number if self.operation == "number" else None

    def value(self, shapes: Sequence[Sequence[int]]) -> int:
        """Its value for inputs of these shapes, in the order of the task."""
        if self.operation == "number":
            return self.number
        if self.operation == "dim":
            place, axis = self.dim
            return shapes[place][axis]
        left, right = (one.value(shapes) for one in self.of)
        return _APPLY[self.operation](left, right)


def number(value: int) -> Size:
    """A number."""
    return Size("number", number=value)


def dim(place: int, axis: int) -> Size:
    """A dimension of an input."""
    return Size("dim", dim=(place, axis))


def cdiv(left: Size | int, right: Size | int) -> Size:
    """A quotient, rounded up; the divisor is above 0."""
    return _made("cdiv", left, right)


def least(left: Size | int, right: Size | int) -> Size:
    """The lesser of two."""
    return _made("min", left, right)


def most(left: Size | int, right: Size | int) -> Size:
    """The greater of two."""
    return _made("max", left, right)


def product(sizes: Sequence[Size | int]) -> Size:
    """All multiplied; 1 of none."""
    found = number(1)
    for one in sizes:
        found = found * one
    return found


def _made(operation: Operation, left: Size | int, right: Size | int) -> Size:
    """An operation, done at once where both operands are numbers, or one changes nothing."""
    a, b = (number(one) if isinstance(one, int) else one for one in (left, right))
    if a.known is not None and b.known is not None:
        return number(_APPLY[operation](a.known, b.known))
    if operation == "*" and 1 in (a.known, b.known):
        return b if a.known == 1 else a
    if operation in ("//", "cdiv") and b.known == 1:
        return a
    if operation in ("+", "-") and b.known == 0:
        return a
    return Size(operation, (a, b))
