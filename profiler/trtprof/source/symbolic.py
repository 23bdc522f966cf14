"""A model over a sweep: its tensors as functions of the swept dimensions, bound late.

Every dimension and value that differs between a handful of points becomes a polynomial of degree 2 or less in each
swept dimension k = 0 ... K: found at k = 0, 1, 2, and it must hold at K/2 and K. That proves it, node by node:

* sums, products and quotients without rest: f = p / q agrees with a polynomial g at five points, so p - g * q, of
  degree 4 or less, is zero everywhere;
* floor and ceiling of a quotient: less the line that it agrees with at both ends it is monotone, zero at both ends and
  between; no true parabola stays within 1 of a line at five points, K being at least 8;
* minimum, maximum: convex or concave, so that a line met at both ends and between is never left;
* comparison: the same at both ends where the operands come closer and closer; an equality where they stay apart.

Of several swept dimensions each is looked at so, and every corner and the middle of all. Where a shape stays unknown,
every point is inferred and held against the polynomials. Where it fails, the grid of the values asked for is tried,
then without points at which a dimension is 1, for 1 broadcasts, then each half; what is left is inferred point by
point.
"""

from __future__ import annotations

import itertools
import math
from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.records import Dim, Node, Source, Tensor
from trtprof.source.load import KnownTensors, LoadedModel, graph_inputs, source_of, tensors_of
from trtprof.source.shapes import MAX_DIM, Shapes
from trtprof.source.sweep_axes import Axis, SweptDim, place_sweeps, swept_shapes

Point = tuple[int, ...]
"""One value for each swept dimension."""

_LEAST = 8
"""Steps of a grid that is tried: enough to tell a polynomial from what only resembles it."""
_WORTH = 10
"""A part of a sweep with no more points is inferred point by point: that costs no more than to try."""
_RECENT = 4
"""Points whose tensors are kept: those of a grid that failed are often the first of the next."""


class Grid(NamedTuple):
    """Values that swept dimensions take: ``start + step * k`` for k from 0 to ``steps``, for each dimension.

    A dimension with one value has 0 steps.
    """

    start: Point
    step: Point
    steps: Point

    def point(self, counts: Sequence[int]) -> Point:
        """The values at ``counts`` steps from the start."""
        return tuple(a + d * k for a, d, k in zip(self.start, self.step, counts, strict=True))

    def counts(self, point: Point) -> Point:
        """How many steps a point on the grid is from the start."""
        return tuple((v - a) // d for v, a, d in zip(point, self.start, self.step, strict=True))

    def basis(self, counts: Sequence[int]) -> Point:
        """The products of 1, k and k * (k - 1) / 2 of every swept dimension, the last changing fastest."""
        each = [(1, k, k * (k - 1) // 2) if steps else (1,) for k, steps in zip(counts, self.steps, strict=True)]
        return tuple(math.prod(factors) for factors in itertools.product(*each))


class Track(NamedTuple):
    """Shape and value of a tensor over a grid."""

    shape: tuple[Dim | Point, ...] | None
    value: tuple[Dim | Point, ...] | None

    def at(self, basis: Point) -> tuple[tuple[Dim, ...] | None, tuple[int, ...] | None]:
        """Shape and value at a point of the grid."""
        return (
            None if self.shape is None else tuple(_number(dim, basis) for dim in self.shape),
            None if self.value is None else tuple(int(_number(element, basis)) for element in self.value),
        )


class Piece:
    """A part of a sweep in which every tensor is known at every point."""

    def __init__(
        self, source: Source, grid: Grid, points: Sequence[Point], tracks: Tracks, *, proven: bool = False
    ) -> None:
        self.source = source  # The model bound at the start of the grid
        self.grid = grid  # Where the tracks hold; with 0 steps everywhere it is one point
        self.points = tuple(points)  # Points of the sweep on the grid
        self.proven = proven  # Whether the tracks hold at every point of the grid, not only at those of the sweep
        self._scopes = _scopes(source.nodes, tracks)

    def track(self, graph: str, tensor: Tensor) -> Track | None:
        """How a tensor that a node of ``graph`` reads or writes varies; None where it does not."""
        return self._scopes[graph].get(tensor.name)


class Swept(NamedTuple):
    """A model over a sweep."""

    dims: tuple[SweptDim, ...]  # What is swept
    points: tuple[Point, ...]  # All points in the order asked for, the last dimension changing fastest
    pieces: tuple[Piece, ...]  # Parts of the sweep that together hold each point once
    notes: tuple[str, ...]  # What was given up for the sake of the sweep


def sweep_source(
    loaded: LoadedModel, axes: Sequence[Axis], given_shapes: Shapes | None = None, batch: int | None = None
) -> Swept:
    """Bind a model to every point of a sweep, with far fewer inferences than points where that is possible.

    A shape given for an input with a swept dimension says the other ones.
    """
    prober = _Prober(loaded, axes, given_shapes or {}, batch)
    points = tuple(itertools.product(*(dim.values for dim in prober.dims)))
    notes = [
        f"--shapes gives input {name!r} {shape[index]} for {dim.name}: the sweep goes over it"
        for name, shape in prober.given().items()
        for dim in prober.dims
        for place, index in dim.places
        if place == name and shape[index] not in dim.values
    ]
    return Swept(prober.dims, points, tuple(prober.pieces(points)), tuple(notes))


class _Prober:
    def __init__(self, loaded: LoadedModel, axes: Sequence[Axis], given: Shapes, batch: int | None) -> None:
        self._loaded = loaded
        self._batch = batch
        self._inputs = graph_inputs(loaded.proto)
        self.dims = place_sweeps(self._inputs, axes, given, batch)
        self._given = given
        self._recent: dict[Point, KnownTensors] = {}

    def given(self) -> Shapes:
        return swept_shapes(self._inputs, self._given, (), ())

    def _bound(self, point: Point) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
        shapes = swept_shapes(self._inputs, self._given, self.dims, point)
        return shapes, {symbol: value for dim, value in zip(self.dims, point, strict=True) for symbol in dim.symbols}

    def _source(self, point: Point, known: KnownTensors | None = None) -> Source:
        shapes, symbols = self._bound(point)
        # What varies is proven by trying it, and what does not vary must not either: nothing is assumed from the graph.
        return source_of(self._loaded, shapes, self._batch, feed=False, symbols=symbols, known=known, instead={})

    def _tensors(self, point: Point) -> KnownTensors:
        if point not in self._recent:
            shapes, symbols = self._bound(point)
            if len(self._recent) >= _RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[point] = tensors_of(self._loaded, shapes, self._batch, symbols)
        return self._recent[point]

    def pieces(self, points: Sequence[Point]) -> Iterator[Piece]:
        tight = _grid(points)
        every = tuple(1 if steps else step for step, steps in zip(tight.step, tight.steps, strict=True))
        spans = tuple(step * steps for step, steps in zip(tight.step, tight.steps, strict=True))
        wide = Grid(tight.start, every, tuple(max(span, _LEAST) if span else 0 for span in spans))
        long = tight._replace(steps=tuple(max(steps, _LEAST) if steps else 0 for steps in tight.steps))
        for grid in dict.fromkeys((wide, long)):
            found = self._fitted(grid, points)
            if found is not None:
                yield found
                return
        groups = _grouped(points, lambda point: tuple(value == 1 for value in point))
        for group in groups:
            yield from self.pieces(group) if len(groups) > 1 else self._parts(group)

    def _parts(self, points: Sequence[Point]) -> Iterator[Piece]:
        grid = _grid(points)
        swept = [axis for axis, steps in enumerate(grid.steps) if steps]
        if len(points) <= _WORTH or not swept:
            for point in points:
                yield Piece(
                    self._source(point, self._tensors(point)),
                    Grid(point, (1,) * len(point), (0,) * len(point)),
                    [point],
                    {},
                )
            return
        if len(swept) > 1:
            longest = max(swept, key=lambda axis: grid.steps[axis])
            groups = _grouped(points, lambda point: (*point[:longest], *point[longest + 1 :]))
        else:
            axis = swept[0]
            groups = _grouped(points, lambda point: (point[axis] - grid.start[axis]) // grid.step[axis] % 2)
        for group in groups:
            found = self._fitted(_grid(group), group) if len(group) > _WORTH else None
            yield from self._parts(group) if found is None else [found]

    def _fitted(self, grid: Grid, points: Sequence[Point]) -> Piece | None:
        """The piece on a grid, or None where a tensor is no polynomial on it."""
        if max(grid.point(grid.steps)) > MAX_DIM:
            return None
        fit, checks = _probes(grid)
        start, *others = (self._tensors(grid.point(counts)) for counts in fit)
        known = [start.tensors, *(other.tensors for other in others)]
        tracks = _tracks(grid, known)
        if tracks is None:
            return None
        proven = not any(_is_open(tensor) for tensors in known[0].values() for tensor in tensors.values())
        if not proven:
            checks = list(dict.fromkeys((*checks, *map(grid.counts, points))))
        for counts in checks:
            if not _holds(tracks, grid.basis(counts), known[0], self._tensors(grid.point(counts)).tensors):
                return None
        piece = Piece(self._source(grid.start, start), grid, points, tracks, proven=proven)
        return None if any(_may_meet(piece, node) for node in piece.source.nodes) else piece


def _grouped(points: Iterable[Point], key: Callable[[Point], Hashable]) -> list[list[Point]]:
    groups: dict[Hashable, list[Point]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return list(groups.values())


def _grid(points: Sequence[Point]) -> Grid:
    columns = list(zip(*points, strict=True))
    start = tuple(map(min, columns))
    step = tuple(math.gcd(*(value - low for value in column)) or 1 for column, low in zip(columns, start, strict=True))
    steps = tuple((max(column) - low) // by for column, low, by in zip(columns, start, step, strict=True))
    return Grid(start, step, steps)


def _probes(grid: Grid) -> tuple[list[Point], list[Point]]:
    """Steps from the start at which tracks are found, and those at which they must hold: ends and middles."""
    fit = itertools.product(*((0, 1, 2) if steps else (0,) for steps in grid.steps))
    corners = itertools.product(*((steps, 0) if steps else (0,) for steps in grid.steps))
    middles = [tuple(steps // 2 for steps in grid.steps)]
    middles += [
        tuple(steps // 2 if index == axis else 0 for index in range(len(grid.steps)))
        for axis, steps in enumerate(grid.steps)
        if steps
    ]
    start = (0,) * len(grid.steps)
    return list(fit), [counts for counts in dict.fromkeys((*corners, *middles)) if counts != start]


Known = Mapping[str, Mapping[str, Tensor]]
"""Tensors by graph and name."""
Tracks = Mapping[str, Mapping[str, Track | None]]
"""How tensors vary, by graph and name; None for one that does not, which in a body may hide one that does."""


def _tracks(grid: Grid, known: Sequence[Known]) -> Tracks | None:
    """How the tensors vary that do, or None where one is no polynomial."""
    first, *rest = known
    if any(not _same_names(first, other) for other in rest):
        return None
    fitted: dict[Hashable, Track | None] = {}
    tracks: dict[str, dict[str, Track | None]] = {}
    for graph, tensors in first.items():
        found = tracks.setdefault(graph, {})
        others = [other[graph] for other in rest]
        for name, tensor in tensors.items():
            seen = [tensor, *(other[name] for other in others)]
            if all(other == tensor for other in seen):
                if graph:
                    found[name] = None
                continue
            key = tuple((_fixed(other), other.shape, other.value) for other in seen)
            if key not in fitted:
                fitted[key] = _fit(grid, seen)
            track = fitted[key]
            if track is None:
                return None
            found[name] = track
    return tracks


def _same_names(first: Known, other: Known) -> bool:
    return first.keys() == other.keys() and all(
        tensors.keys() == other[graph].keys() for graph, tensors in first.items()
    )


def _fixed(tensor: Tensor) -> Hashable:
    return tensor.dtype, tensor.kind, tensor.constant


def _holds(tracks: Tracks, basis: Point, first: Known, other: Known) -> bool:
    if not _same_names(first, other):
        return False
    expected: dict[Track, tuple[tuple[Dim, ...] | None, tuple[int, ...] | None]] = {}
    for graph, tensors in first.items():
        found, there = tracks[graph], other[graph]
        for name, tensor in tensors.items():
            seen = there[name]
            track = found.get(name)
            if track is None:
                if seen != tensor:
                    return False
                continue
            if track not in expected:
                expected[track] = track.at(basis)
            if (seen.shape, seen.value) != expected[track] or _fixed(seen) != _fixed(tensor):
                return False
    return True


def _fit(grid: Grid, seen: Sequence[Tensor]) -> Track | None:
    first = seen[0]
    if any(_fixed(other) != _fixed(first) for other in seen):
        return None
    shapes, values = [t.shape for t in seen], [t.value for t in seen]
    if len({None if shape is None else len(shape) for shape in shapes}) > 1:
        return None
    if len({None if value is None else len(value) for value in values}) > 1:
        return None
    try:
        return Track(
            None if first.shape is None else tuple(_coefficients(grid, dims) for dims in _columns(shapes)),
            None if first.value is None else tuple(_coefficients(grid, numbers) for numbers in _columns(values)),
        )
    except TypeError:  # a dimension that is a number at one point and a symbol at another
        return None


def _columns(rows: Iterable[tuple[Dim, ...] | None]) -> Iterator[tuple[Dim, ...]]:
    return zip(*(row for row in rows if row is not None), strict=True)


def _coefficients(grid: Grid, numbers: Sequence[Dim]) -> Dim | Point:
    """Coefficients of `Grid.basis` from the numbers at 0, 1 and 2 steps along every swept dimension."""
    if all(number == numbers[0] for number in numbers):
        return numbers[0]
    found = [number for number in numbers if isinstance(number, int)]
    if len(found) < len(numbers):
        raise TypeError
    swept = sum(1 for steps in grid.steps if steps)
    for axis in range(swept):
        stride = 3**axis
        for low in range(len(found)):
            if low // stride % 3 == 0:
                a, b, c = found[low], found[low + stride], found[low + 2 * stride]
                found[low + stride], found[low + 2 * stride] = b - a, c - 2 * b + a
    return tuple(found)


def _number(entry: Dim | Point, basis: Point) -> Dim:
    if isinstance(entry, tuple):
        return sum(c * b for c, b in zip(entry, basis, strict=True) if c)
    return entry


def _is_open(tensor: Tensor) -> bool:
    return tensor.kind == "tensor" and tensor.elements is None


def _may_meet(piece: Piece, node: Node) -> bool:
    """Whether a comparison of known numbers may come out differently at a point between those that were looked at."""
    if node.op.op_type not in _COMPARISONS or len(node.op.inputs) != 2:
        return False
    operands = []
    for tensor in node.op.inputs:
        track = None if tensor is None else piece.track(node.graph, tensor)
        operands.append(track.value if track else tensor.value if tensor else None)
    first, second = operands
    if first is None or second is None or not any(isinstance(entry, tuple) for entry in (*first, *second)):
        return False
    length = max(len(first), len(second))
    if {len(first), len(second)} - {1, length}:
        return True
    pairs = zip(first * (length // len(first)), second * (length // len(second)), strict=True)
    return not all(_comparable(*pair, order=node.op.op_type != "Equal") for pair in pairs)


_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})


def _comparable(first: Dim | Point, second: Dim | Point, *, order: bool) -> bool:
    """Whether ends say how two polynomials compare between them: one moves away from the other, or towards it."""
    size = max(len(entry) if isinstance(entry, tuple) else 1 for entry in (first, second))
    one, other = (entry if isinstance(entry, tuple) else (int(entry), *(0,) * (size - 1)) for entry in (first, second))
    apart = [a - b for a, b in zip(one, other, strict=True)]
    if not any(apart):
        return True
    start, *changes = apart
    if order:
        return all(c >= 0 for c in changes) or all(c <= 0 for c in changes)
    return start != 0 and all(c * start >= 0 for c in changes)


def _scopes(nodes: Sequence[Node], tracks: Tracks) -> dict[str, Mapping[str, Track | None]]:
    """What varies, by name, as the nodes of each graph see it: its own tensors and those around it."""
    scopes: dict[str, ChainMap[str, Track | None]] = {}
    around: dict[str, str] = {}
    owners = {node.graph.rpartition("/")[0] for node in nodes if node.graph}
    for node in nodes:
        if node.graph not in scopes:
            outer = scopes[around[node.graph.rpartition("/")[0]]].maps if node.graph else []
            scopes[node.graph] = ChainMap(dict(tracks.get(node.graph, {})), *outer)
        if node.name in owners:
            around[node.name] = node.graph
    return dict(scopes)
