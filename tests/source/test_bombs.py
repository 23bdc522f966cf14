"""A file of a few kilobytes does not take all memory, whatever it says."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.fakes import model_bombs
from trtprof.base import shape_inference
from trtprof.base.errors import ModelError
from trtprof.flows.inspect import inspect
from trtprof.source.load import load_model, source_of
from trtprof.source.request import ModelRequest


@pytest.mark.parametrize("name", model_bombs.CALLING)
def test_functions_that_cannot_be_inlined_are_an_error(tmp_path: Path, name: str) -> None:
    onnx.save(model_bombs.CALLING[name](), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"cannot be used|fails the ONNX checker"):
        load_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", model_bombs.GROWING)
def test_where_inference_would_not_end_the_model_is_read_without(tmp_path: Path, name: str) -> None:
    onnx.save(model_bombs.GROWING[name](), tmp_path / "m.onnx")
    source = source_of(load_model(tmp_path / "m.onnx"), feed=False)
    assert len(source.nodes) > 30
    assert max(len(t.shape or ()) for node in source.nodes for t in node.op.outputs if t is not None) < 1000


def test_without_a_declared_output_the_error_says_that_inference_would_not_end(tmp_path: Path) -> None:
    model = model_bombs.doubled("Concat")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "m.onnx")
    assert "shapes may grow" in caught.value.why


@pytest.mark.parametrize("name", model_bombs.DECIDING)
def test_a_huge_tensor_that_decides_a_shape_is_not_made(tmp_path: Path, name: str) -> None:
    onnx.save(model_bombs.DECIDING[name](), tmp_path / "m.onnx")
    source = source_of(load_model(tmp_path / "m.onnx"), feed=False)
    assert source.nodes[-1].op.outputs[0] is not None
    assert source.nodes[-1].op.outputs[0].elements is None


def _neg(shape: list[int], opset: int = 17) -> onnx.ModelProto:
    model = model_bombs.made([model_bombs.node("Neg", ["x"], ["y"])], {"x": shape}, {}, "y", None)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    model.opset_import[0].version = opset
    return model


@pytest.mark.parametrize("shape", [[2**62] * 2, [2**62] * 2000, [1] * 5000, [224] * 300], ids=len)
def test_a_tensor_that_no_memory_has_is_an_error(tmp_path: Path, shape: list[int]) -> None:
    onnx.save(_neg(shape), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="larger than any memory") as caught:
        source_of(load_model(tmp_path / "m.onnx"), feed=False)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("opset", [2**62, 2**31, -1])
def test_an_opset_that_is_no_number_of_one_is_an_error(tmp_path: Path, opset: int) -> None:
    onnx.save(_neg([1], opset), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="damaged") as caught:
        load_model(tmp_path / "m.onnx")
    assert str(opset) in caught.value.why


@pytest.mark.parametrize("equation", ["1abc", "...>b,ca,i", "a. ...", "ij,jk>ik", "i\u00e9,jk->ik"])
def test_an_equation_that_is_none_is_not_looked_through_for_ever(tmp_path: Path, equation: str) -> None:
    node = onnx.helper.make_node("Einsum", ["x", "x"], ["y"], equation=equation)
    model = model_bombs.made([node], {"x": [2, 3]}, {}, "y", None)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="fails the ONNX checker") as caught:
        load_model(tmp_path / "m.onnx")
    assert "no equation of Einsum" in caught.value.why


def test_a_call_with_more_inputs_than_its_function_has_is_an_error(tmp_path: Path) -> None:
    model = model_bombs.calling(1)
    model.graph.node[0].input.extend(["x", "x"])
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="cannot be used") as caught:
        load_model(tmp_path / "m.onnx")
    assert "cannot be put in the place of their calls: Number of actual parameters" in caught.value.why


def test_work_of_more_than_64_bits_is_counted_to_the_last(tmp_path: Path) -> None:
    onnx.save(model_bombs.looping(3, 2**31 - 1), tmp_path / "m.onnx")
    counted = inspect(ModelRequest.of(tmp_path / "m.onnx")).total
    assert counted.macs == 64**3 * (2**31 - 1) ** 3
    assert counted.bytes_written == 64 * 64 * 4 * (2**31 - 1) ** 3


@pytest.mark.parametrize("told", [1, 2**31, 0])
@pytest.mark.parametrize("inside", [False, True])
def test_a_split_into_other_than_its_outputs_does_not_end_the_process(tmp_path: Path, told: int, inside: bool) -> None:
    split = onnx.helper.make_node("Split", ["x"], ["y", "b", "c"], num_outputs=told)
    if inside:
        body = onnx.GraphProto(name="b", node=[split])
        body.output.add(name="y")
        split = onnx.helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)
    model = model_bombs.made([split], {"x": [6]}, {}, "y")
    model.opset_import[0].version = 18
    with pytest.raises(shape_inference.GrowthError, match="has 3 outputs"):
        shape_inference.infer_shapes(model)
    onnx.save(model, tmp_path / "m.onnx")
    assert "Split" in {node.op.op_type for node in source_of(load_model(tmp_path / "m.onnx"), feed=False).nodes}


def test_a_loop_whose_body_gives_back_too_little_is_read(tmp_path: Path) -> None:
    model = model_bombs.looping(1, 4)
    del model.graph.node[0].attribute[0].g.output[1:]
    onnx.save(model, tmp_path / "m.onnx")
    assert source_of(load_model(tmp_path / "m.onnx"), feed=False).nodes[0].op.op_type == "Loop"
