"""A file of a few kilobytes does not take all memory, whatever it says."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from profiler.base.errors import ModelError
from profiler.source.load import load_model, source_of
from tests.fakes import model_bombs


@pytest.mark.parametrize("name", model_bombs.CALLING)
def test_functions_that_cannot_be_inlined_are_an_error(tmp_path: Path, name: str) -> None:
    onnx.save(model_bombs.CALLING[name](), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"cannot be used|fails the ONNX checker"):
        load_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", model_bombs.GROWING)
def test_where_inference_would_not_end_the_model_is_read_without(tmp_path: Path, name: str) -> None:
    onnx.save(model_bombs.GROWING[name](), tmp_path / "m.onnx")
    source = source_of(load_model(tmp_path / "m.onnx"), feed=False)
    assert any("shapes grow" in note for note in source.model.assumptions)
    assert max(len(t.shape or ()) for node in source.nodes for t in node.op.outputs if t is not None) < 1000


def test_without_a_declared_output_the_error_says_that_inference_would_not_end(tmp_path: Path) -> None:
    model = model_bombs.doubled("Concat")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "m.onnx")
    assert "shapes grow" in caught.value.why


@pytest.mark.parametrize("name", model_bombs.DECIDING)
def test_a_huge_tensor_that_decides_a_shape_is_not_made(tmp_path: Path, name: str) -> None:
    onnx.save(model_bombs.DECIDING[name](), tmp_path / "m.onnx")
    source = source_of(load_model(tmp_path / "m.onnx"), feed=False)
    assert source.nodes[-1].op.outputs[0] is not None
    assert source.nodes[-1].op.outputs[0].elements is None
