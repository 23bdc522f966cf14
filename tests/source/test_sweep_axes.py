"""The grammar of ``--sweep``, the dimensions that its names mean, and the binding of symbols."""

from __future__ import annotations

import pytest

from tests.fakes.support import refused
from trtprof.base.errors import UsageError
from trtprof.base.records import Dim, Tensor
from trtprof.source.shapes import MAX_DIM, bind_shapes
from trtprof.source.sweep_axes import MAX_POINTS, Axis, parse_sweeps, place_sweeps, swept_shapes


def tensor(name: str, *shape: Dim, dtype: str = "fp32") -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape)


# --- the grammar ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "name", "values"),
    [
        ("batch=1..64:x2", "batch", (1, 2, 4, 8, 16, 32, 64)),
        ("batch=1..63:x2", "batch", (1, 2, 4, 8, 16, 32)),
        ("n=3..100:x10", "n", (3, 30)),
        ("L=1..17:+8", "L", (1, 9, 17)),
        ("L=128..1024:128", "L", tuple(range(128, 1025, 128))),
        ("n=1..4", "n", (1, 2, 3, 4)),
        ("n=7", "n", (7,)),
        ("n=7..7", "n", (7,)),
        ("n=8,1,2", "n", (8, 1, 2)),
        ("n=1..3,2..9:x2,64", "n", (1, 2, 3, 4, 8, 64)),
        (" n = 1 , 2 ", "n", (1, 2)),
        ("x[2]=5", "x[2]", (5,)),
        ("a=b=5", "a=b", (5,)),
        ("floor(h/2) + 1=5", "floor(h/2) + 1", (5,)),
        (f"n={MAX_DIM}", "n", (MAX_DIM,)),
    ],
)
def test_values_are_read(spec: str, name: str, values: tuple[int, ...]) -> None:
    assert parse_sweeps([spec]) == [Axis(name, values)]


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (["batch"], "it needs a dimension"),
        (["=1..4"], "it needs a dimension"),
        (["n="], "a value is missing"),
        (["n=1,,2"], "a value is missing"),
        (["n=one"], "cannot read 'one'"),
        (["n=1..4:*2"], "cannot read"),
        (["n=1:x2"], "cannot read"),
        (["n=-1"], "cannot read"),
        (["n=1.5"], "cannot read"),
        (["n=0"], "the dimension 0"),
        (["n=0..4"], "the dimension 0"),
        ([f"n={MAX_DIM + 1}"], f"the dimension {MAX_DIM + 1}"),
        (["n=8..4"], "an empty range"),
        (["n=1..8:x1"], "a factor of 1 never reaches 8"),
        (["n=1..8:x0"], "a factor of 0 never reaches 8"),
        (["n=1..8:0"], "a step of 0 never reaches 8"),
        (["n=1", "n=2"], "names 'n' twice"),
        ([f"n=1..{MAX_POINTS + 1}"], "too many points"),
        ([f"n=1..{MAX_DIM}"], "too many points"),
        (["n=1..101", "m=1..100"], "too many points"),
    ],
)
def test_what_is_no_sweep_is_refused(specs: list[str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_sweeps(specs)
    assert says in refused(error.value)


# --- which dimensions are meant -------------------------------------------------------------

IMAGES = [tensor("x", "N", 3, "H", "H"), tensor("mask", "N", "?")]
PLAIN = [tensor("x", "?", 3, "?", 7)]


@pytest.mark.parametrize(
    ("inputs", "name", "symbols", "places"),
    [
        (IMAGES, "H", ("H",), (("x", 2), ("x", 3))),
        (IMAGES, "N", ("N",), (("x", 0), ("mask", 0))),
        (IMAGES, "batch", ("N",), (("x", 0), ("mask", 0))),
        (IMAGES, "mask[1]", ("mask[1]",), (("mask", 1),)),
        (IMAGES, "x[3]", ("H",), (("x", 2), ("x", 3))),
        (PLAIN, "batch", ("x[0]",), (("x", 0),)),
        ([tensor("x", "time", "batch", 4)], "batch", ("batch",), (("x", 1),)),
        ([tensor("x", "time", "bs", 4)], "batch", ("bs",), (("x", 1),)),
        ([tensor("a", "N", 2), tensor("b", "?", 2)], "batch", ("N", "b[0]"), (("a", 0), ("b", 0))),
        ([tensor("x[1]", "?", "?")], "x[1][1]", ("x[1][1]",), (("x[1]", 1),)),
    ],
)
def test_a_name_means_a_dimension(
    inputs: list[Tensor], name: str, symbols: tuple[str, ...], places: tuple[tuple[str, int], ...]
) -> None:
    (dim,) = place_sweeps(inputs, [Axis(name, (2, 3))], {})
    assert (dim.symbols, dim.places) == (symbols, places)
    bound = bind_shapes(inputs, {}, symbols=dict.fromkeys(dim.symbols, 3)).shapes
    assert [bound[input_name][index] for input_name, index in places] == [3] * len(places)


@pytest.mark.parametrize(
    ("inputs", "name", "says"),
    [
        (IMAGES, "W", "not a dynamic dimension of this model"),
        (IMAGES, "?", "not a dynamic dimension"),
        (IMAGES, "y[0]", "not a dynamic dimension"),
        (IMAGES, "x[1]", "the model fixes that dimension at 3"),
        (IMAGES, "x[4]", "has 4 dimensions"),
        ([tensor("x", 1, 3)], "batch", "not a dynamic dimension"),
        ([Tensor(name="x", dtype="fp32", shape=None)], "x[0]", "declares no shape"),
        ([], "batch", "not a dynamic dimension"),
    ],
)
def test_a_name_that_means_none_is_refused(inputs: list[Tensor], name: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        place_sweeps(inputs, [Axis(name, (1,))], {})
    assert says in refused(error.value)


@pytest.mark.parametrize(("first", "second"), [("N", "batch"), ("H", "x[2]"), ("mask[1]", "mask[1]")])
def test_a_dimension_is_swept_once(first: str, second: str) -> None:
    with pytest.raises(UsageError, match="both decide dimension"):
        place_sweeps(IMAGES, [Axis(first, (1,)), Axis(second, (1,))], {})


def test_the_sweep_replaces_its_dimensions_in_shapes_that_were_given() -> None:
    given = {"x": (1, 3, 9, 9), "m*": (1, 5)}
    dims = place_sweeps(IMAGES, [Axis("N", (4,)), Axis("x[2]", (6,))], given)
    assert swept_shapes(IMAGES, given, dims, (4, 6)) == {"x": (4, 3, 6, 6), "mask": (4, 5)}
    unranked = [Tensor(name="x", dtype="fp32", shape=None)]
    dims = place_sweeps(unranked, [Axis("x[1]", (6,))], {"x": (1, 2)})
    assert swept_shapes(unranked, {"x": (1, 2)}, dims, (6,)) == {"x": (1, 6)}
    assert dims[0].symbols == ()


# --- binding --------------------------------------------------------------------------------
