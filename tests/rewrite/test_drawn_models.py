"""The laws of rewrites over models that are drawn at random."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import onnx
import onnx.printer
import onnx_ir as ir
import pytest

from tests.fakes.random_graphs import Drawn, drawn
from tests.fakes.rewrite_laws import Subject, smaller
from trtprof.rewrite import REWRITES, Rewrite
from trtprof.rewrite.edit import Edit

NAMES = REWRITES.keys()
DRAWN_OFTEN = ("concat-of-slices", "gelu-fused", "gemv-as-reduce", "layernorm-fused")


@pytest.mark.nightly
def test_every_rewrite_keeps_the_laws_of_drawn_models(tmp_path: Path) -> None:
    places: Counter[str] = Counter()
    for seed in range(120):
        random = Random(seed)
        model = drawn(random)
        subject = Subject(model, tmp_path)
        for chosen in [*([name] for name in NAMES), random.choices(NAMES, k=4)]:
            kept = subject.kept(chosen)
            if kept.broken:
                small = smaller(model, functools.partial(_breaks, chosen, tmp_path))
                pytest.fail(f"{', '.join(chosen)}: {kept.broken} (seed {seed})\n{onnx.printer.to_text(small.model)}")
            places[chosen[0]] += kept.places
    # Models are drawn in which there is something to do.
    assert [name for name in DRAWN_OFTEN if not places[name]] == []


def _breaks(chosen: list[str], folder: Path, model: Drawn) -> bool:
    return bool(Subject(model, folder).kept(chosen).broken)


# --- that a law which is broken is seen -----------------------------------------------------------


def _another_function(node: ir.Node, edit: Edit) -> None:
    if edit.is_op(node, "Tanh"):
        edit.replace([node], {node.outputs[0]: edit.node("Relu", node.inputs)})


def _again_and_again(node: ir.Node, edit: Edit) -> None:
    if edit.is_op(node, "Tanh") and not edit.sites:
        edit.replace([node], {node.outputs[0]: edit.node("Tanh", node.inputs)})


def _another_name(node: ir.Node, edit: Edit) -> None:
    if edit.is_op(node, "Tanh") and not edit.sites:
        edit.replace([node], {node.outputs[0]: edit.node("Tanh", node.inputs)})
        edit.sites[-1] = edit.sites[-1]._replace(before=())


def _quietly(node: ir.Node, edit: Edit) -> None:
    if edit.is_op(node, "Tanh"):
        node.name = "another name"


def _of_another_type(node: ir.Node, edit: Edit) -> None:
    if edit.is_op(node, "Tanh"):
        edit.replace([node], {node.outputs[0]: edit.node("Cast", node.inputs, {"to": ir.DataType.DOUBLE.value})})


def _falls_over(node: ir.Node, edit: Edit) -> None:
    if edit.is_op(node, "Tanh"):
        raise KeyError(node.name)


BROKEN: dict[Callable[[ir.Node, Edit], None], str] = {
    _another_function: "output y of inputs 0",
    _again_and_again: "it fits its own result",
    _another_name: "it changed the node t, which it does not name",
    _quietly: "it changed a model in which it fits nowhere",
    _of_another_type: "the result is not valid",
    _falls_over: "it raised KeyError",
}


def _case(text: str) -> Drawn:
    graph = onnx.parser.parse_graph(text)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)
    return Drawn(model, ({"x": np.asarray([-1.0, 0.5], np.float32)},))


def test_a_broken_law_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    case = _case("g (float[2] x) => (float[2] y) { [t] h = Tanh (x)\n [n] y = Neg (h) }")
    for step, law in BROKEN.items():
        with subtests.test(step.__name__):
            monkeypatch.setattr(REWRITES, "get", lambda name, step=step: Rewrite(name, "", (), False, step))
            assert Subject(case, tmp_path).kept(["broken"]).broken.startswith(law)


def test_a_model_that_breaks_a_law_is_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REWRITES, "get", lambda name: Rewrite(name, "", (), False, _another_function))
    case = _case("""g (float[2] x) => (float[2] y, float[2] z) {
        [a] a = Abs (x)
        [s] s = Sigmoid (a)
        [t] h = Tanh (s)
        [n] y = Neg (h)
        [e] z = Exp (a)
    }""")
    small = smaller(case, functools.partial(_breaks, ["broken"], tmp_path))
    assert [node.op_type for node in small.model.graph.node] == ["Tanh"]
