"""Models opened for rewriting, and written again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx.external_data_helper

from tests.fakes.rewrites import RewriteCase, outputs_of, rewritten
from trtprof.rewrite import REWRITES, apply
from trtprof.rewrite.model import opened, save

GRAPH = "g (float[2,512] x) => (float[2,512] y) { y = Div (x, c) }"


def divided(**ir: int) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(GRAPH)
    graph.node[0].name = "divide"
    graph.initializer.append(onnx.numpy_helper.from_array(np.full(512, 2, np.float32), "c"))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 8)], **ir)


def multiplied(path: Path, beside: Path | str = "") -> onnx.ModelProto:
    chosen = REWRITES.get("div-as-mul")
    assert chosen is not None
    model = opened(path, beside)
    assert apply(chosen, model)
    after = path.parent / "after.onnx"
    save(model, after)
    made = onnx.load(after)
    onnx.checker.check_model(made, full_check=True)
    return made


def test_a_constant_among_the_inputs_of_an_old_model_is_one(tmp_path: Path) -> None:
    """Before version 4 of the representation every initializer had to be an input, too."""
    model = divided(ir_version=3)
    model.graph.input.append(onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [512]))
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "before.onnx")
    made = multiplied(tmp_path / "before.onnx")
    assert [info.name for info in made.graph.input] == ["x"]
    assert made.ir_version == 4


def test_in_a_newer_model_a_caller_may_give_it(tmp_path: Path) -> None:
    model = divided(ir_version=8)
    model.graph.input.append(onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [512]))
    onnx.save(model, tmp_path / "before.onnx")
    chosen = REWRITES.get("div-as-mul")
    assert chosen is not None
    assert apply(chosen, opened(tmp_path / "before.onnx")) == ()


def test_weights_beside_the_file_are_found_and_taken_along(tmp_path: Path) -> None:
    folder, other = tmp_path / "weights", tmp_path / "elsewhere"
    folder.mkdir()
    other.mkdir()
    onnx.save(
        divided(ir_version=8), folder / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    # The file with the names of nodes stands elsewhere: its weights lie where they were.
    (other / "model.onnx").write_bytes((folder / "model.onnx").read_bytes())
    made = multiplied(other / "model.onnx", folder)
    (weights,) = (onnx.numpy_helper.to_array(one) for one in made.graph.initializer)
    np.testing.assert_array_equal(weights, np.full(512, 0.5, np.float32))
    assert sorted(path.name for path in other.iterdir()) == ["after.onnx", "model.onnx"]


def test_shapes_that_were_inferred_are_not_written(tmp_path: Path) -> None:
    graph = "g (float[2,512] x) => (float[2,512] y) { t = Neg (x) y = Div (t, c) }"
    model = divided(ir_version=8)
    del model.graph.node[:]
    model.graph.node.extend(onnx.parser.parse_graph(graph).node)
    onnx.save(model, tmp_path / "before.onnx")
    assert "t" not in {info.name for info in multiplied(tmp_path / "before.onnx").graph.value_info}


def test_a_prelu_spelled_out_keeps_infinities_and_nan(tmp_path: Path) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 3.0, -3.0] * 9, np.float32)
    chosen = REWRITES.get("prelu-spelled")
    assert chosen is not None
    for slope in (0.25, 0.0, -0.5):
        graph = "g (float[63] x) => (float[63] y) { y = PRelu (x, s) }"
        model = RewriteCase("", graph, weights={"s": np.array([slope], np.float32)}).model()
        sites, made = rewritten(chosen, model, tmp_path)
        assert len(sites) == 1
        np.testing.assert_array_equal(outputs_of(made, {"x": x}), outputs_of(model, {"x": x}))
