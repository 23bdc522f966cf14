"""Sweeps as asked for on the command line: ``batch=1..64:x2`` names a dynamic dimension and its values.

The values are taken one after the other; several sweeps make every combination.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.records import Dim, Tensor
from trtprof.source.shapes import MAX_DIM, Shapes, batch_axes, chosen_shapes, describe

MAX_POINTS = 10_000
"""Rows of a sweep: more than anyone reads, and few enough to hold."""
_VALUES_GRAMMAR = "1..64:x2, 128..1024:128, 1..8 or 1,2,4"
_SWEEP_GRAMMAR = "NAME=1..64:x2, NAME=128..1024:128, NAME=1..8 or NAME=1,2,4"
_RANGE = re.compile(r"(?P<low>[0-9]{1,30})(?:\.\.(?P<high>[0-9]{1,30})(?::(?P<step>[x+]?)(?P<by>[0-9]{1,30}))?)?")
_PLACE = re.compile(r"(?P<input>.+)\[(?P<axis>[0-9]{1,9})\]", re.DOTALL)


class Axis(NamedTuple):
    """A dynamic dimension and the values that a sweep gives it, in the order in which they were asked for."""

    name: str  # A symbolic dimension; ``batch``, which also means what ``--batch`` does; or ``input[axis]``
    values: tuple[int, ...]


class SweptDim(NamedTuple):
    """An axis of a sweep with its places in the inputs of a model."""

    name: str  # As asked for
    values: tuple[int, ...]  # As asked for
    # What is bound: symbolic dimensions, and ``input[axis]`` for those without a name. An input without a rank has
    # none: its shape is given.
    symbols: tuple[str, ...]
    places: tuple[tuple[str, int], ...]  # Inputs and the indices of the dimensions


def parse_sweeps(specs: Iterable[str]) -> list[Axis]:
    """The axes of ``--sweep`` values, one a value.

    ``low..high`` counts by 1, ``low..high:8`` and ``low..high:+8`` by 8, ``low..high:x2`` doubles; the end is included
    where it is hit.
    """
    axes: dict[str, Axis] = {}
    for spec in specs:
        name, equals, text = (part.strip() for part in spec.rpartition("="))
        given = f"--sweep {spec!r}"
        if not equals or not name:
            raise _values_error(given, "it needs a dimension, '=' and values", _SWEEP_GRAMMAR)
        if name in axes:
            raise UsageError(
                f"--sweep names {name!r} twice",
                why="a dimension has one list of values",
                fix=f"list them together: --sweep {name}=1..8,16,32",
            )
        axes[name] = Axis(name, parse_values(text, given, _SWEEP_GRAMMAR))
    check_points({axis.name: len(axis.values) for axis in axes.values()}, "--sweep")
    return list(axes.values())


def parse_values(text: str, given: str, grammar: str = _VALUES_GRAMMAR) -> tuple[int, ...]:
    """The values of ``1..64:x2,128``, each once, in the order asked for; see `parse_sweeps`."""
    values: dict[int, None] = {}
    for item in text.split(","):
        values.update(dict.fromkeys(_range_values(item.strip(), given, grammar)))
        _check_number(len(values), given)
    return tuple(values)


def _range_values(item: str, given: str, grammar: str) -> Iterable[int]:
    match = _RANGE.fullmatch(item)
    if match is None:
        raise _values_error(given, f"cannot read {item!r}" if item else "a value is missing", grammar)
    low, high, by = int(match["low"]), int(match["high"] or match["low"]), int(match["by"] or 1)
    for number in (low, high):
        if not 1 <= number <= MAX_DIM:
            raise UsageError(
                f"{given} holds the dimension {number}",
                why=f"a dimension is at least 1 and at most {MAX_DIM}",
                fix="the form is " + grammar,
            )
    if high < low:
        raise UsageError(
            f"{given} is an empty range", why=f"{high} is less than {low}", fix=f"turn it round: {high}..{low}"
        )
    if match["step"] == "x":
        if by < 2:
            raise _values_error(given, f"a factor of {by} never reaches {high}", grammar)
        values = []
        while low <= high:
            values.append(low)
            low *= by
        return values
    if by < 1:
        raise _values_error(given, f"a step of {by} never reaches {high}", grammar)
    steps = range(low, high + 1, by)
    _check_number(len(steps), given)
    return steps


def check_points(values: Mapping[str, int], option: str) -> None:
    """Refuse more than `MAX_POINTS` combinations."""
    words = " ".join(f"{name} ({number} values)" for name, number in values.items())
    _check_number(math.prod(values.values()), f"{option} {words}")


def _check_number(points: int, what: str) -> None:
    if points > MAX_POINTS:
        raise UsageError(
            f"{what}: too many points",
            why=f"a sweep has at most {MAX_POINTS:,}; this one has {points:,} or more",
            fix="take larger steps, for example 1..1024:x2",
        )


def _values_error(given: str, why: str, grammar: str) -> UsageError:
    return UsageError(f"{given} cannot be read", why=why, fix="the form is " + grammar)


def place_sweeps(
    inputs: Sequence[Tensor], axes: Sequence[Axis], given: Shapes, batch: int | None = None
) -> tuple[SweptDim, ...]:
    """The dimensions that the axes of `parse_sweeps` go over; ``batch`` is the value of ``--batch``."""
    chosen = chosen_shapes(inputs, given)
    found: list[SweptDim] = []
    owners: dict[str, str] = {}
    if batch is not None:
        owners |= {_symbol(inputs, place): "--batch" for place in _batch_places(inputs) if place[0] not in chosen}
    for axis in axes:
        places = _places(inputs, axis.name, chosen)
        symbols = tuple(dict.fromkeys(_symbol(inputs, place) for place in places))
        for symbol in symbols:
            if symbol in owners:
                raise UsageError(
                    f"--sweep {axis.name} and {owners[symbol]} both decide dimension {symbol!r}",
                    why="its inputs are " + describe(inputs),
                    fix="leave one of them away",
                )
            owners[symbol] = f"--sweep {axis.name}"
        ranked = {tensor.name for tensor in inputs if tensor.shape is not None}
        bound = tuple(dict.fromkeys(_symbol(inputs, place) for place in places if place[0] in ranked))
        found.append(SweptDim(axis.name, axis.values, bound, places))
    return tuple(found)


def _places(inputs: Sequence[Tensor], name: str, chosen: Shapes) -> tuple[tuple[str, int], ...]:
    named = [(t.name, index) for t in inputs for index, dim in enumerate(t.shape or ()) if dim == name != "?"]
    if named:
        return tuple(named)
    if name == "batch" and (places := _batch_places(inputs)):
        return tuple(places)
    match = _PLACE.fullmatch(name)
    tensor = next((t for t in inputs if match and t.name == match["input"]), None)
    if match is None or tensor is None:
        raise UsageError(
            f"--sweep names {name!r}, which is not a dynamic dimension of this model",
            why="its inputs are " + (describe(inputs) or "none"),
            fix=_sweep_hint(inputs),
        )
    index = int(match["axis"])
    shape: Sequence[Dim] | None = tensor.shape
    if shape is None and tensor.name in chosen:
        shape = ("?",) * len(chosen[tensor.name])
    if shape is None:
        raise UsageError(
            f"--sweep {name}: input {tensor.name!r} declares no shape",
            why="the model does not say its rank",
            fix=f"give one with --shapes {tensor.name}:<dims>; the sweep replaces dimension {index} of it",
        )
    if index >= len(shape):
        raise UsageError(
            f"--sweep {name}: input {tensor.name!r} has {len(shape)} dimensions",
            why="they are counted from 0: " + describe([tensor]),
            fix=_sweep_hint(inputs),
        )
    dim = shape[index]
    if isinstance(dim, int):
        raise UsageError(
            f"--sweep {name}: the model fixes that dimension at {dim}",
            why="its inputs are " + describe(inputs),
            fix=_sweep_hint(inputs),
        )
    return ((tensor.name, index),) if dim == "?" else _places(inputs, dim, chosen)


def _sweep_hint(inputs: Sequence[Tensor]) -> str:
    for tensor in inputs:
        for index, dim in enumerate(tensor.shape or ()):
            if isinstance(dim, str):
                return f"for example --sweep {_symbol(inputs, (tensor.name, index))}=1..8"
    return "export the model with that dimension dynamic"


def _batch_places(inputs: Sequence[Tensor]) -> list[tuple[str, int]]:
    """The dimensions that ``--batch`` binds: batch symbols, else leading ones; see `_bind_batch`."""
    return [(name, index) for name, indices in batch_axes(inputs).items() for index in indices]


def _symbol(inputs: Sequence[Tensor], place: tuple[str, int]) -> str:
    """How the dimension at a place is bound: by its symbol, or as ``input[axis]`` where it has none."""
    name, index = place
    shape = next(tensor.shape for tensor in inputs if tensor.name == name)
    dim = shape[index] if shape is not None else "?"
    return f"{name}[{index}]" if dim == "?" else str(dim)


def swept_shapes(
    inputs: Sequence[Tensor], given: Shapes, dims: Sequence[SweptDim], values: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """The shapes given, by full name, with the swept dimensions at the values of one point."""
    shapes = chosen_shapes(inputs, given)
    for dim, value in zip(dims, values, strict=True):
        for name, index in dim.places:
            if name in shapes and index < len(shapes[name]):
                shapes[name] = (*shapes[name][:index], value, *shapes[name][index + 1 :])
    return shapes
