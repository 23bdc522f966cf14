"""A sweep gives at every point what `inspect` gives there, and closed forms that say the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import onnx
import onnx.parser
import pytest

from tests.fakes.support import SAMPLES
from trtprof.base.records import OpForms, Polynomial, Sweep, WorkForms
from trtprof.flows.inspect import inspect
from trtprof.flows.model_sweep import sweep
from trtprof.report import render
from trtprof.report.content.model_sweep import polynomial_text
from trtprof.source.load import KnownTensors, LoadedModel, tensors_of
from trtprof.source.request import ModelRequest


def written(folder: Path, text: str) -> str:
    """A model in ONNX's text form, without its header, as a file."""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return str(path)


def value(form: Polynomial, at: dict[str, int]) -> int:
    total = 0
    for term in form.terms:
        product = term.coefficient
        for name, power in term.powers.items():
            for _ in range(power):
                product *= at[name]
        total += product
    assert total % form.divisor == 0
    return total // form.divisor


def checked(
    model: str, sweeps: Sequence[str], shapes_at: Callable[..., Sequence[str]], given_shapes: Sequence[str] = ()
) -> Sweep:
    """The sweep, after every point of it was held against `inspect` with the shapes spelled out."""
    found = sweep(ModelRequest.of(model, given_shapes), sweeps)
    assert len(found.points) == math.prod(len(dim.values) for dim in found.dims)
    for point in found.points:
        alone = inspect(ModelRequest.of(model, shapes_at(*point.at.values())))
        assert (point.total, point.ops, point.macs_by_dtype, point.unsupported) == (
            alone.total, alone.ops, alone.macs_by_dtype, alone.unsupported,
        )  # fmt: skip
        assert_forms_hold(found.total, found, point.at, point.total)
        for op in point.ops:
            assert_forms_hold(form_of(found, op.op_type, op.domain).work, found, point.at, op.work)
    return found


def assert_forms_hold(forms: WorkForms, found: Sweep, at: dict[str, int], work: object) -> None:
    for name in WorkForms.__struct_fields__:
        form = getattr(forms, name)
        if form is not None:
            assert value(form, at) == getattr(work, name), (name, at)


def form_of(found: Sweep, op_type: str, domain: str = "") -> OpForms:
    return next(op for op in found.ops if (op.domain, op.op_type) == (domain, op_type))


def text(form: Polynomial | None) -> str:
    return polynomial_text(form)


# --- real models ----------------------------------------------------------------------------


def test_sequence_of_a_transformer_is_quadratic() -> None:
    """Two layers, width 64: QK and AV are 64 * length^2 MACs each, the weights 12 * 64^2 a token."""
    found = checked(
        str(SAMPLES / "transformer_block.onnx"),
        ["batch=1,3", "sequence=32..160:32"],
        lambda batch, length: [f"input_ids:{batch}x{length},attention_mask:{batch}x{length}"],
    )
    products = form_of(found, "MatMul").work.macs
    assert products is not None
    assert {tuple(term.powers.items()): term.coefficient for term in products.terms} == {
        (("batch", 1), ("sequence", 2)): 2 * 2 * 64,
        (("batch", 1), ("sequence", 1)): 2 * 12 * 64 * 64,
    }


# --- what shapes are made of ----------------------------------------------------------------

CONVOLUTIONS = """
g (float[N, 3, S, S] x, float[8, 3, 3, 3] w, float[8, 8, 3, 3] v) => (float[N, 8, a, b] y) {
    c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
    r = Relu (c)
    p = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (r)
    y = Conv <strides = [2, 2]> (p, v)
}
"""


def images(size: int) -> list[str]:
    return [f"x:1x3x{size}x{size}"]


def test_sizes_that_a_stride_divides_have_a_closed_form(tmp_path: Path) -> None:
    found = checked(written(tmp_path, CONVOLUTIONS), ["S=64..512:32"], images)
    assert found.forms_hold == "every S from 64 to 512 in steps of 32"
    assert text(form_of(found, "Relu").work.flops) == "2*S^2"


@pytest.fixture
def inferred(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """Symbols of every inference that a sweep makes."""
    seen: list[dict[str, int]] = []

    def counted(
        model: LoadedModel, shapes: dict[str, tuple[int, ...]], batch: int | None, symbols: dict[str, int]
    ) -> KnownTensors:
        seen.append(symbols)
        return tensors_of(model, shapes, batch, symbols)

    monkeypatch.setattr("trtprof.source.symbolic.tensors_of", counted)
    return seen


def test_a_batch_is_inferred_at_five_points(tmp_path: Path, inferred: list[dict[str, int]]) -> None:
    found = sweep(ModelRequest.of(written(tmp_path, CONVOLUTIONS), ["x:1x3x64x64"]), ["N=1..1000"])
    assert inferred == [{"N": n} for n in (1, 2, 3, 1000, 500)]
    assert len(found.points) == 1000
    assert found.forms_hold == "every N from 1 to 1000"


# --- how it is asked for --------------------------------------------------------------------


def test_dimensions_without_a_name(tmp_path: Path) -> None:
    graph = onnx.parser.parse_graph("g (float[N, 3, S, S] x) => (float[N, 3, S, S] y) { y = Exp (x) }")
    for info in (*graph.input, *graph.output):
        for dim in info.type.tensor_type.shape.dim:
            dim.ClearField("dim_param")
    for info in (*graph.input, *graph.output):
        info.type.tensor_type.shape.dim[1].dim_value = 3
    model = str(tmp_path / "m.onnx")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
    found = checked(model, ["batch=1,2", "x[3]=7..21:7"], lambda n, s: [f"x:{n}x3x5x{s}"], ["x:1x3x5x9"])
    assert [dim.symbols for dim in found.dims] == [("x[0]",), ("x[3]",)]
    assert any("--shapes gives input 'x' 9 for x[3]" in note for note in found.notes)
    assert "input 'x' 1 for batch" not in "".join(found.notes)


# --- what is printed ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resnet() -> Sweep:
    return sweep(ModelRequest.of(SAMPLES / "resnet_tiny.onnx"), ["batch=1..64:x2"])


def test_the_json_holds_everything(resnet: Sweep) -> None:
    assert msgspec.json.decode(render(resnet, "json"), type=Sweep) == resnet
