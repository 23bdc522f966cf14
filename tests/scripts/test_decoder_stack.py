"""The generated graphs of the scaling benchmark: their size, that they run, and their work in closed form."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tests.fakes.support import load_script
from trtprof.flows.inspect import inspect
from trtprof.source.request import ModelRequest

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench" / "decoder_stack.py"


stack = load_script(SCRIPT, "decoder_stack")


@pytest.mark.parametrize(("nodes", "layers"), [(40, 0), (1_120, 9), (28_000, 233), (112_000, 933)])
def test_the_sizes_of_the_benchmark_are_whole_numbers_of_layers(nodes: int, layers: int) -> None:
    assert stack.layers_of(nodes) == layers
    with pytest.raises(ValueError, match="nodes are not"):
        stack.layers_of(nodes + 1)


def test_a_layer_has_the_nodes_it_should_and_the_checker_accepts_it() -> None:
    for layers in (0, 1, 3):
        model = stack.decoder_stack(layers)
        onnx.checker.check_model(model, full_check=True)
        assert stack.layers_of(len(model.graph.node)) == layers
        names = [node.name for node in model.graph.node]
        assert len(set(names)) == len(names)
    assert not model.graph.value_info


def test_28_000_nodes_hold_200_mb_of_weights() -> None:
    none, one = (
        sum(4 * math.prod(item.dims) for item in stack.decoder_stack(layers).graph.initializer if len(item.dims) == 2)
        for layers in (0, 1)
    )
    assert none + stack.layers_of(28_000) * (one - none) == pytest.approx(200e6, rel=0.01)


def test_it_computes_a_causal_decoder_and_its_macs_are_those_in_closed_form() -> None:
    model = stack.decoder_stack(2)
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    stored = {item.name: tuple(item.dims) for item in model.graph.initializer}
    made = [name for node in products for name in (*node.input, *node.output) if name not in stored]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted({*made} - {"logits"}))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    ids = np.random.default_rng(0).integers(0, stack.VOCABULARY, (2, 7))
    mask = np.ones((2, 7), dtype=np.int64)
    found = dict(zip(names, session.run(None, {"input_ids": ids, "attention_mask": mask}), strict=True))
    shapes = {**stored, **{name: np.shape(value) for name, value in found.items()}}
    macs = sum(math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1] for node in products)
    assert macs == stack.matmul_macs(layers=2, batch=2, sequence=7)

    logits = found["logits"]
    assert logits.shape == (2, 7, stack.VOCABULARY)
    ids[:, -1] += 1
    ids %= stack.VOCABULARY
    (changed,) = session.run(["logits"], {"input_ids": ids, "attention_mask": mask})
    assert np.array_equal(logits[:, :-1], changed[:, :-1])
    assert np.abs(logits[:, -1] - changed[:, -1]).max() > 0.1
    mask[:, 0] = 0
    (masked,) = session.run(["logits"], {"input_ids": ids, "attention_mask": mask})
    assert np.abs(changed[:, 1:] - masked[:, 1:]).max() > 1e-3


def test_inspect_gives_the_macs_in_closed_form(tmp_path: Path) -> None:
    path = tmp_path / "stack.onnx"
    path.write_bytes(stack.decoder_stack(2).SerializeToString())
    inspected = inspect(ModelRequest.of(path, ["input_ids:3x16", "attention_mask:3x16"]))
    assert not inspected.unsupported
    assert inspected.total.macs == stack.matmul_macs(layers=2, batch=3, sequence=16)
