"""Tensors as polynomials of the swept dimensions: what is accepted, what is not, and that it is the truth."""

from __future__ import annotations

import itertools
from pathlib import Path

import onnx
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.base.records import Tensor
from trtprof.source.load import LoadedModel, load_model, source_of
from trtprof.source.sweep_axes import parse_sweeps
from trtprof.source.symbolic import Grid, Piece, Swept, Track, _coefficients, _comparable, sweep_source


def loaded(folder: Path, text: str) -> LoadedModel:
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)
    onnx.save(model, folder / "model.onnx")
    return load_model(folder / "model.onnx")


def swept(model: LoadedModel, *sweeps: str) -> Swept:
    return sweep_source(model, parse_sweeps(sweeps))


def tensor_at(piece: Piece, graph: str, tensor: Tensor, point: tuple[int, ...]) -> tuple[object, object]:
    track = piece.track(graph, tensor)
    if track is None:
        return tensor.shape, tensor.value
    return track.at(piece.grid.basis(piece.grid.counts(point)))


def assert_true(model: LoadedModel, found: Swept) -> None:
    """Every tensor of every node is at every point what binding the model there gives."""
    assert sorted(point for piece in found.pieces for point in piece.points) == sorted(found.points)
    for piece in found.pieces:
        for point in piece.points:
            symbols = {s: v for dim, v in zip(found.dims, point, strict=True) for s in dim.symbols}
            for node, alone in zip(piece.source.nodes, source_of(model, symbols=symbols).nodes, strict=True):
                for own, other in zip(
                    (*node.op.inputs, *node.op.outputs), (*alone.op.inputs, *alone.op.outputs), strict=True
                ):
                    assert (own is None) == (other is None)
                    if own is not None and other is not None:
                        assert tensor_at(piece, node.graph, own, point) == (other.shape, other.value)


# --- the arithmetic -------------------------------------------------------------------------


@given(
    st.lists(st.integers(-50, 50), min_size=9, max_size=9),
    st.integers(0, 2),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_coefficients_give_back_the_polynomial(numbers: list[int], fixed: int, at: tuple[int, int]) -> None:
    """Of degree 2 in two of three dimensions, drawn as coefficients of 1, k, k^2 and their products."""

    def polynomial(a: int, b: int) -> int:
        return sum(c * a**i * b**j for c, (i, j) in zip(numbers, itertools.product(range(3), repeat=2), strict=True))

    steps = [30, 30]
    steps.insert(fixed, 0)
    grid = Grid((5, 5, 5), (1, 2, 3), tuple(steps))
    seen = [polynomial(a, b) for a, b in itertools.product(range(3), repeat=2)]
    counts = [*at]
    counts.insert(fixed, 0)
    track = Track((_coefficients(grid, seen),), None)
    assert track.at(grid.basis(counts)) == ((polynomial(*at),), None)


@pytest.mark.parametrize(
    ("first", "second", "order", "says"),
    [
        ((1, 1, 0), -1, False, True),  # n + 1 is never -1
        ((1, 1, 0), (1, 1, 0), False, True),  # always equal
        ((1, 1, 0), 77, False, False),  # equal at 76 alone
        ((0, 1, 0), 0, False, False),
        ((1, 1, 0), 77, True, True),  # less, then more: the ends tell
        ((9, -6, 2), 5, True, False),  # falls, then rises
    ],
)
def test_comparisons_that_ends_decide(
    first: int | tuple[int, ...], second: int | tuple[int, ...], order: bool, says: bool
) -> None:
    assert _comparable(first, second, order=order) is says
    assert _comparable(second, first, order=order) is says


# --- models ---------------------------------------------------------------------------------

STRIDED = (
    "g (float[N, 1, S, S] x) => (float[N, 1, a, b] y) { y = MaxPool <kernel_shape = [2, 2], strides = [4, 4]> (x) }"
)


def test_a_batch_is_one_piece_that_holds_everywhere(tmp_path: Path) -> None:
    model = loaded(tmp_path, STRIDED)
    found = swept(model, "N=1..64:x2", "S=32")
    (piece,) = found.pieces
    assert (piece.proven, piece.grid.step, piece.grid.steps) == (True, (1, 1), (63, 0))
    (node,) = piece.source.nodes
    assert node.op.inputs[0] is not None
    assert piece.track("", node.op.inputs[0]) == Track(((1, 1, 0), 1, 32, 32), None)
    assert_true(model, found)


def test_floors_are_polynomials_on_a_coarser_grid(tmp_path: Path) -> None:
    model = loaded(tmp_path, STRIDED)
    (piece,) = swept(model, "S=32..96:8").pieces
    assert piece.grid.step == (8,)
    found = swept(model, "S=30..93")
    assert [(piece.grid.step, len(piece.points)) for piece in found.pieces] == [((4,), 16)] * 4
    assert not any(piece.proven and len(found.pieces) == 1 for piece in found.pieces)
    assert_true(model, found)


def test_one_is_taken_apart_where_it_broadcasts(tmp_path: Path) -> None:
    """What has N elements has 4 where N is 1."""
    text = """g (float[N, 4] x) => (float[a] y) <int64[1] one = {1}, int64[1] first = {0}, int64[1] four = {4}> {
        s = Shape (x) n = Slice (s, first, one) e = Equal (n, one) t = Where (e, four, n)
        z = ConstantOfShape (t) y = Exp (z) }"""
    model = loaded(tmp_path, text)
    found = swept(model, "N=1..64:x2")
    assert [(piece.points[0], len(piece.points), piece.proven) for piece in found.pieces] == [
        ((1,), 1, True),
        ((2,), 6, True),
    ]
    assert_true(model, found)
