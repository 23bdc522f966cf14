"""The shape grammar of ``--shapes`` and the binding of dynamic dimensions."""

from __future__ import annotations

import pytest

from tests.fakes.support import refused
from trtprof.base.errors import UsageError
from trtprof.base.records import Dim, Tensor
from trtprof.source.shapes import (
    DEFAULT_LENGTH,
    DEFAULT_SAMPLES,
    DEFAULT_SIGNAL,
    DEFAULT_SPATIAL,
    MAX_DIM,
    bind_shapes,
    parse_shapes,
)


def tensor(name: str, *shape: Dim, dtype: str = "fp32") -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape)


# --- the grammar ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["a:1x3x224x224,b:8x128"], {"a": (1, 3, 224, 224), "b": (8, 128)}),
        (["a:1x3", "b:2"], {"a": (1, 3), "b": (2,)}),
        (["'Input:0':1x3"], {"Input:0": (1, 3)}),
        (['"Input:0":1x3,b:2'], {"Input:0": (1, 3), "b": (2,)}),
        (["onnx::MatMul_1:1x3"], {"onnx::MatMul_1": (1, 3)}),
        (["'a,b':4"], {"a,b": (4,)}),
        (["s:scalar"], {"s": ()}),
        (["s:"], {"s": ()}),
        (["s:,t:scalar,u:[],v:1"], {"s": (), "t": (), "u": (), "v": (1,)}),
        (["in*:1x3"], {"in*": (1, 3)}),
        (["a:[1,3,224],b:2x4"], {"a": (1, 3, 224), "b": (2, 4)}),
        ([" a : 1x3 , b : [ 2 , 4 ] "], {"a": (1, 3), "b": (2, 4)}),
        (["a:1X3"], {"a": (1, 3)}),
        ([f"a:{MAX_DIM}"], {"a": (MAX_DIM,)}),
        ([], {}),
    ],
)
def test_trtexec_and_polygraphy_spellings_are_read(specs: list[str], expected: dict[str, tuple[int, ...]]) -> None:
    assert parse_shapes(specs) == expected


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("x", "cannot read 'x'"),
        ("1x3x224x224", "cannot read"),
        (",x:1", "cannot read"),
        ("x:1,,y:2", "cannot read"),
        ("x:1, :2", "no name"),
        ("'x:1x3", "cannot read"),
        ("x:[1,3", "cannot read"),
        ("x:1x", "dimension '' of 'x'"),
        ("x:axb", "dimension 'a' of 'x'"),
        ("x:1.5", "dimension '1.5' of 'x'"),
        ("x:1x3_0", "dimension '3_0' of 'x'"),
        ("x:+3", "dimension '+3' of 'x'"),
        ("x:\u0663", "is not an integer"),
        ("x:" + "9" * 5000, "is not an integer"),
        ("x:[1x3]", "dimension '1x3' of 'x'"),
        ("*a*:1", "more than one '*'"),
    ],
)
def test_what_is_not_of_the_grammar_is_refused(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shapes([spec])
    message = refused(caught.value)
    assert says in message
    assert "1x3x224x224" in caught.value.fix


# --- binding --------------------------------------------------------------------------------


def test_given_shapes_are_taken_and_need_no_assumption() -> None:
    binding = bind_shapes([tensor("x", "N", 3, "H", "W")], {"x": (2, 3, 64, 48)})
    assert binding.shapes == {"x": (2, 3, 64, 48)}
    assert binding.symbols == {"N": 2, "H": 64, "W": 48}
    assert binding.assumptions == []


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        (("N", 3, "H", "W"), "fp32", (1, 3, DEFAULT_SPATIAL, DEFAULT_SPATIAL)),
        (("N", "C", "H", 8), "fp32", (1, DEFAULT_LENGTH, DEFAULT_SPATIAL, 8)),
        (("N", 3, "D", "H", "W"), "fp32", (1, 3, DEFAULT_SPATIAL, DEFAULT_SPATIAL, DEFAULT_SPATIAL)),
        (("?", "?"), "int64", (1, DEFAULT_LENGTH)),
        (("N", "width"), "fp32", (1, DEFAULT_SIGNAL)),
        (("batch", "samples"), "fp32", (1, DEFAULT_SAMPLES)),
        (("batch_size", "N"), "fp32", (1, DEFAULT_SIGNAL)),
        ((1, "N"), "fp32", (1, DEFAULT_SIGNAL)),
        ((1, 80, "N"), "fp32", (1, 80, DEFAULT_LENGTH)),
        (("seq_len", 576), "fp32", (DEFAULT_LENGTH, 576)),
        (("N", "T", 80), "fp32", (1, DEFAULT_LENGTH, 80)),
        (("T", "batch", 64), "fp32", (DEFAULT_LENGTH, 1, 64)),
        (("batch_size", 3), "fp32", (1, 3)),
    ],
)
def test_defaults_depend_on_the_place_and_are_said(
    shape: tuple[Dim, ...], dtype: str, expected: tuple[int, ...]
) -> None:
    binding = bind_shapes([tensor("x", *shape, dtype=dtype)], {})
    assert binding.shapes == {"x": expected}
    dynamic = [(index, dim) for index, dim in enumerate(shape) if isinstance(dim, str)]
    assert len(binding.assumptions) == len(dynamic)
    for (index, dim), sentence in zip(dynamic, binding.assumptions, strict=True):
        assert f"index {index} of input 'x'" in sentence
        assert f"{expected[index]} assumed" in sentence
        assert dim == "?" or repr(dim) in sentence


def test_n_of_a_recording_is_its_length_and_no_batch() -> None:
    inputs = [tensor("waveforms", "batch_size", "N"), tensor("waveforms_lens", "batch_size", dtype="int64")]
    binding = bind_shapes(inputs, {})
    assert binding.shapes == {"waveforms": (1, DEFAULT_SAMPLES), "waveforms_lens": (1,)}
    assert any("'N' (samples of a recording" in sentence for sentence in binding.assumptions), binding.assumptions
    assert bind_shapes(inputs, {}, batch=4).shapes["waveforms"] == (4, DEFAULT_SAMPLES)
    assert bind_shapes([tensor("audio", "N")], {}).shapes == {"audio": (DEFAULT_SAMPLES,)}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (("N", 3), (5, 3)),
        (("?", 3), (5, 3)),
        (("anything", 3), (5, 3)),
        ((7, "batch", 64), (7, 5, 64)),
        (("T", "batch", 64), (DEFAULT_LENGTH, 5, 64)),
    ],
)
def test_batch_binds_the_batch(shape: tuple[Dim, ...], expected: tuple[int, ...]) -> None:
    binding = bind_shapes([tensor("x", *shape)], {}, batch=5)
    assert binding.shapes == {"x": expected}
    assert not any("a batch" in sentence for sentence in binding.assumptions)


def test_batch_and_shapes_work_together() -> None:
    inputs = [tensor("x", "N", "T"), tensor("y", "N", 3), tensor("z", "M", 3)]
    assert bind_shapes(inputs, {"x": (4, 16)}, batch=4).shapes == {"x": (4, 16), "y": (4, 3), "z": (4, 3)}
    # A leading dimension that --shapes has named is no batch, so nothing contradicts.
    inputs = [tensor("x", "T", "batch"), tensor("y", "T", 3), tensor("z", "batch", 3)]
    assert bind_shapes(inputs, {"y": (9, 3)}, batch=2).shapes == {"x": (9, 2), "y": (9, 3), "z": (2, 3)}
    inputs = [tensor("a", "T", 3), tensor("b", "T", 5), tensor("c", "N", 5)]
    assert bind_shapes(inputs, {"a": (9, 3)}, batch=2).shapes == {"a": (9, 3), "b": (9, 5), "c": (2, 5)}


def test_a_star_gives_every_input_that_fits_a_shape_and_a_full_name_wins() -> None:
    inputs = [tensor("in_a", "N", 3), tensor("in_b", "M", 3), tensor("other", "K", 3)]
    starred = bind_shapes(inputs, {"in_*": (2, 3)})
    assert starred.shapes == {"in_a": (2, 3), "in_b": (2, 3), "other": (1, 3)}
    for given_shapes in ({"in_*": (2, 3), "in_b": (5, 3)}, {"in_b": (5, 3), "in_*": (2, 3)}):
        assert bind_shapes(inputs, given_shapes).shapes == {"in_a": (2, 3), "in_b": (5, 3), "other": (1, 3)}


X = tensor("x", "N", 3)


@pytest.mark.parametrize(
    ("inputs", "shapes", "batch", "says"),
    [
        ([X], {"z": (1, 3)}, None, ["'z', which is not an input", "x:Nx3", "--shapes x:1x3"]),
        ([X], {"z*": (1, 3)}, None, ["'z*', which is not an input"]),
        ([], {"z": (1,)}, None, ["it has no inputs", "leave --shapes away"]),
        ([X], {"x": (1, 3, 1)}, None, ["given 3 dimensions, the model has 2", "x:Nx3"]),
        ([X], {"x": ()}, None, ["given 0 dimensions, the model has 2"]),
        ([tensor("s")], {"s": (1,)}, None, ["given 1 dimensions, the model has 0", "s:scalar"]),
        ([X], {"x": (1, 4)}, None, ["dimension 1 of input 'x' is given as 4, the model fixes it at 3", "x:Nx3"]),
        ([X, tensor("y", "N")], {"x": (2, 3), "y": (5,)}, None, ["'N' would be 2 and 5 at once", "inputs 'x' and 'y'"]),
        ([tensor("x", "N", "N")], {"x": (2, 5)}, None, ["'N' would be 2 and 5 at once"]),
        (
            [tensor(name, "N") for name in "abc"],
            {"a": (2,), "b": (2,), "c": (5,)},
            None,
            ["'N' would be 2 and 5 at once", "inputs 'a' and 'c'"],
        ),
        ([tensor("ab", "N")], {"a*": (1,), "*b": (2,)}, None, ["input 'ab' two shapes", "'a*' and '*b'"]),
        ([X], {}, 0, ["--batch 0 is not possible"]),
        ([X], {}, -2, ["--batch -2 is not possible"]),
        ([X], {}, MAX_DIM + 1, [f"at most {MAX_DIM}"]),
        ([tensor("x", 1, 3)], {}, 2, ["--batch 2 binds nothing", "x:1x3"]),
        ([], {}, 2, ["--batch 2 binds nothing"]),
        ([X], {"x": (4, 3)}, 2, ["--batch 2 binds nothing", "--shapes already gives"]),
        ([X, tensor("y", "N")], {"x": (4, 3)}, 2, ["'N' would be 4 and 2 at once", "--shapes and --batch"]),
        ([tensor("x", 0, 3)], {}, None, ["dimension 0 of input 'x' is 0 in the model"]),
        ([Tensor(name="x", dtype="fp32", shape=None)], {}, None, ["input 'x' declares no shape", "--shapes x:1x128"]),
        ([Tensor(name="x", dtype="unknown", shape=None)], {}, None, ["input 'x' is not a tensor"]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    inputs: list[Tensor], shapes: dict[str, tuple[int, ...]], batch: int | None, says: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        bind_shapes(inputs, shapes, batch)
    message = refused(caught.value)
    for text in says:
        assert text in message
