"""The work of a model over a sweep of its dynamic dimensions, as an exact table and in closed form.

A closed form is a polynomial through a few points that holds at all the others, those of the table included.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec

from trtprof.analysis.work import Alike, Kinds, Totals, price, totals
from trtprof.base.records import (
    SCHEMA_VERSION,
    Node,
    Op,
    OpForms,
    Polynomial,
    Sweep,
    SweepDim,
    SweepPoint,
    Term,
    Work,
    WorkForms,
)
from trtprof.cost.precision import compute_dtypes
from trtprof.runtime.gc_paused import gc_paused
from trtprof.source.request import ModelRequest
from trtprof.source.sweep_axes import parse_sweeps
from trtprof.source.symbolic import Grid, Piece, Point, Swept, Track, sweep_source

MAX_DEGREE = 4
"""Largest power of one dimension in a closed form. Attention has 2; what has more than 4 is no polynomial."""


def sweep(request: ModelRequest, sweeps: Iterable[str]) -> Sweep:
    """Look at a model alone over a sweep of its dynamic dimensions.

    `sweeps`: ``--sweep`` values, such as ``batch=1..64:x2``.
    """
    axes = parse_sweeps(sweeps)
    with request.opened() as loaded, gc_paused():
        found = sweep_of(sweep_source(loaded, axes, request.shapes, request.batch))
    return msgspec.structs.replace(found, model=request.named(found.model))


def sweep_of(swept: Swept) -> Sweep:
    """Price a model at every point of a sweep, and find the closed forms of what it costs."""
    names = [dim.name for dim in swept.dims]
    main = _main_piece(swept)
    nodes = _table_nodes(swept.points) if main is None else _grid_nodes(main.grid)
    found: dict[Point, Totals] = {}
    for piece in swept.pieces:
        pricer = _Pricer(piece)
        others = (*itertools.product(*nodes), *_held_out(piece.grid)) if piece is main else ()
        found.update((point, pricer.at(point)) for point in dict.fromkeys((*piece.points, *others)))
    fitted = _Fit(names, nodes)
    last = found[swept.points[-1]]
    works = {point: {(op.domain, op.op_type): op.work for op in each.ops} for point, each in found.items()}
    return Sweep(
        schema_version=SCHEMA_VERSION,
        model=swept.pieces[0].source.model,
        dims=tuple(SweepDim(name=dim.name, symbols=dim.symbols, values=dim.values) for dim in swept.dims),
        points=tuple(
            SweepPoint(
                at=dict(zip(names, point, strict=True)),
                total=found[point].total,
                macs_by_dtype=found[point].macs_by_dtype,
                ops=found[point].ops,
                unsupported=found[point].unsupported,
            )
            for point in swept.points
        ),
        total=fitted.forms({point: each.total for point, each in found.items()}),
        ops=tuple(
            OpForms(
                domain=op.domain,
                op_type=op.op_type,
                work=fitted.forms({point: each[op.domain, op.op_type] for point, each in works.items()}),
            )
            for op in last.ops
        ),
        forms_hold=_range(swept, main),
        notes=swept.notes,
    )


def _main_piece(swept: Swept) -> Piece | None:
    """The one part of a sweep that goes over all its dimensions, if the model is known between its points too."""
    moving = [len(dim.values) > 1 for dim in swept.dims]
    found = [p for p in swept.pieces if p.proven and [steps > 0 for steps in p.grid.steps] == moving]
    return found[0] if len(found) == 1 else None


def _range(swept: Swept, main: Piece | None) -> str:
    """For which values the closed forms hold, in words."""
    table = "the points of the table"
    if main is None:
        return table
    parts = []
    for dim, start, step, steps in zip(swept.dims, *main.grid, strict=True):
        every = f"every {dim.name} from {start} to {max(dim.values)}" + (f" in steps of {step}" if step > 1 else "")
        parts.append(every if steps else f"{dim.name} = {start}")
    return ", ".join(parts) + (f", and {table}" if len(swept.pieces) > 1 else "")


# --- the table ------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Nodes of one graph that are the same at every point, but for the names of their tensors."""

    first: Node
    dtype: str
    tracks: tuple[tuple[int, Track], ...]  # What varies among the inputs and outputs of the op, by position


class _Pricer:
    """The work of a model at any point of a piece."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._groups: list[_Group] = []
        self._numbers: list[int] = []
        self._prices: dict[int, tuple[Work | None, str]] = {}
        """Of the groups in which nothing varies."""
        indices: dict[Hashable, int] = {}
        dtypes = compute_dtypes(piece.source.nodes)
        owners = {node.graph.rpartition("/")[0] for node in piece.source.nodes}
        kinds = Kinds(piece.track)
        for node in piece.source.nodes:
            dtype, owns = dtypes.get(node.name, ""), node.name in owners
            kind = node.graph, node.constant, dtype, kinds.of(node.op, node.graph)
            key: Hashable = node.name if owns else kind
            index = indices.setdefault(key, len(self._groups))
            if index == len(self._groups):
                tensors = (*node.op.inputs, *node.op.outputs)
                tracks = [None if tensor is None else piece.track(node.graph, tensor) for tensor in tensors]
                varying = tuple((position, track) for position, track in enumerate(tracks) if track is not None)
                self._groups.append(_Group(node, dtype, varying))
                self._numbers.append(0)
            self._numbers[index] += 1

    def at(self, point: Point) -> Totals:
        """What the nodes add up to at a point of the grid."""
        basis = self._piece.grid.basis(self._piece.grid.counts(point))
        nodes = []
        for index, (group, number) in enumerate(zip(self._groups, self._numbers, strict=True)):
            op = _op_at(group, basis) if group.tracks else group.first.op
            if index in self._prices:
                work, reason = self._prices[index]
            else:
                work, reason = price(op, group.dtype)
                if not group.tracks:
                    self._prices[index] = work, reason
            nodes.append(Alike(msgspec.structs.replace(group.first, op=op, work=work), number, reason))
        return totals(nodes)


def _op_at(group: _Group, basis: Point) -> Op:
    op = group.first.op
    tensors = [*op.inputs, *op.outputs]
    for position, track in group.tracks:
        tensor = tensors[position]
        if tensor is not None:
            shape, value = track.at(basis)
            tensors[position] = msgspec.structs.replace(tensor, shape=shape, value=value)
    count = len(op.inputs)
    return msgspec.structs.replace(op, inputs=tuple(tensors[:count]), outputs=tuple(tensors[count:]))


# --- closed forms ---------------------------------------------------------------------------


def _grid_nodes(grid: Grid) -> list[list[int]]:
    """For each dimension the values through which closed forms are drawn: the first of the grid."""
    return [
        [start + step * k for k in range(min(steps, MAX_DEGREE) + 1)]
        for start, step, steps in zip(grid.start, grid.step, grid.steps, strict=True)
    ]


def _held_out(grid: Grid) -> list[Point]:
    """Points besides those of the table at which closed forms must hold: behind their nodes, halfway, at the end."""
    counts = [
        *(tuple(min(k, steps) for steps in grid.steps) for k in (MAX_DEGREE + 1, MAX_DEGREE + 2, MAX_DEGREE + 3)),
        tuple(steps // 2 for steps in grid.steps),
        grid.steps,
    ]
    return [grid.point(each) for each in dict.fromkeys(counts)]


def _table_nodes(points: Sequence[Point]) -> list[list[int]]:
    """The same from the points of the table alone, of which one value a dimension is left to check with."""
    columns = [sorted(set(column)) for column in zip(*points, strict=True)]
    return [column[: max(min(len(column) - 1, MAX_DEGREE + 1), 1)] for column in columns]


_COUNTS: dict[str, Callable[[Work], int]] = {
    "macs": lambda work: work.macs,
    "flops": lambda work: work.flops,
    "bytes": lambda work: work.bytes,
    "bytes_read": lambda work: work.bytes_read,
    "bytes_written": lambda work: work.bytes_written,
    "bytes_parameters": lambda work: work.bytes_parameters,
}


class _Fit:
    """Polynomials through the values at ``nodes``, each combination of them a point."""

    def __init__(self, names: Sequence[str], nodes: Sequence[Sequence[int]]) -> None:
        self._names = names
        self._nodes = nodes
        self._bases = [_lagrange(values) for values in nodes]

    def forms(self, works: Mapping[Point, Work]) -> WorkForms:
        """The closed forms that hold at every point."""
        found = {
            name: self._polynomial({point: count(work) for point, work in works.items()})
            for name, count in _COUNTS.items()
        }
        return WorkForms(**found)

    def _polynomial(self, values: Mapping[Point, int]) -> Polynomial | None:
        coefficients: dict[Point, Fraction] = {
            indices: Fraction(values[tuple(axis[i] for axis, i in zip(self._nodes, indices, strict=True))])
            for indices in itertools.product(*(range(len(axis)) for axis in self._nodes))
        }
        for axis, basis in enumerate(self._bases):
            raised: dict[Point, Fraction] = {}
            for indices, number in coefficients.items():
                for power, factor in enumerate(basis[indices[axis]]):
                    powers = (*indices[:axis], power, *indices[axis + 1 :])
                    raised[powers] = raised.get(powers, Fraction(0)) + number * factor
            coefficients = raised
        kept = {powers: number for powers, number in coefficients.items() if number}
        divisor = math.lcm(*(number.denominator for number in kept.values()))
        whole = {powers: int(number * divisor) for powers, number in kept.items()}
        if any(_evaluated(whole, point) != value * divisor for point, value in values.items()):
            return None
        ordered = sorted(whole.items(), key=lambda item: (-sum(item[0]), tuple(-power for power in item[0])))
        return Polynomial(
            terms=tuple(
                Term(
                    coefficient=number,
                    powers={name: power for name, power in zip(self._names, powers, strict=True) if power},
                )
                for powers, number in ordered
            ),
            divisor=divisor,
        )


def _evaluated(terms: Mapping[Point, int], point: Point) -> int:
    return sum(
        number * math.prod(value**power for value, power in zip(point, powers, strict=True))
        for powers, number in terms.items()
    )


def _lagrange(values: Sequence[int]) -> list[list[Fraction]]:
    """For each value the coefficients, constant first, of the polynomial that is 1 there and 0 at the others."""
    found = []
    for value in values:
        polynomial = [Fraction(1)]
        for other in values:
            if other != value:
                # times (x - other) / (value - other)
                shifted = [Fraction(0), *polynomial]
                scaled = [*(-other * number for number in polynomial), Fraction(0)]
                polynomial = [(a + b) / (value - other) for a, b in zip(shifted, scaled, strict=True)]
        found.append(polynomial)
    return found
