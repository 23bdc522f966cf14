"""What a small file would become is counted before anything becomes it."""

from __future__ import annotations

import pytest

from tests.fakes import model_bombs
from trtprof.base import expansion, shape_inference


@pytest.mark.parametrize("name", model_bombs.CALLING)
def test_functions_that_call_one_another_too_often_are_refused(name: str) -> None:
    model = model_bombs.CALLING[name]()
    with pytest.raises(expansion.ExpansionError, match="functions"):
        expansion.check_calls(model)
    with pytest.raises(shape_inference.InferenceError, match="functions"):
        shape_inference.infer_shapes(model)


@pytest.mark.parametrize("called", [True, False])
def test_a_function_that_calls_itself_is_refused(called: bool) -> None:
    model = model_bombs.calling(3)
    model.functions[2].node[0].op_type = "f1"
    model.functions[2].node[0].domain = "d"
    if not called:
        model.graph.node[0].op_type, model.graph.node[0].domain = "Relu", ""
    with pytest.raises(expansion.ExpansionError, match="themselves"):
        expansion.check_calls(model)


def test_functions_of_the_size_that_exporters_write_pass() -> None:
    for model in (model_bombs.calling(12), model_bombs.calling(100, 1), model_bombs.calling_in_branches(20)):
        expansion.check_calls(model)


@pytest.mark.parametrize("name", model_bombs.GROWING)
def test_shapes_that_grow_without_end_are_not_inferred(name: str) -> None:
    with pytest.raises(shape_inference.InferenceError, match="shapes may grow"):
        shape_inference.infer_shapes(model_bombs.GROWING[name]())


def test_squeezes_take_back_what_unsqueezes_add() -> None:
    """However long a network is, its ranks do not grow."""
    model = model_bombs.made(
        [
            model_bombs.node(("Unsqueeze", "Squeeze")[i % 2], [f"t{i}", "k"], [f"t{i + 1}"])
            for i in range(20_000)
        ],
        {"t0": [1]},
        {"k": [0]},
        "t20000",
    )  # fmt: skip
    expansion.check_dims(model)
