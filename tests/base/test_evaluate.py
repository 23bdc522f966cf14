"""Nodes on known values: as onnx's reference has it, and nothing that would be large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from trtprof.base import evaluate


def _ints(*values: int) -> evaluate.Array:
    return np.array(values, np.int64)


def _found(op_type: str, *inputs: evaluate.Array, equation: str = "") -> list[Any] | None:
    names = [f"i{at}" for at in range(len(inputs))]
    node = helper.make_node(op_type, names, ["o"])
    if equation:
        node.attribute.append(helper.make_attribute("equation", equation))
    made = evaluate.outputs_of(node, dict(zip(names, inputs, strict=True)), {"": 17})
    return None if made is None else [array.tolist() for array in made]


def test_what_indices_are_computed_with_is_evaluated() -> None:
    assert _found("Max", _ints(1, 5), _ints(3)) == [[3, 5]]
    assert _found("NonZero", _ints(0, 7)) == [[[1]]]
    assert _found("Range", np.array(0), np.array(6), np.array(2)) == [[0, 2, 4]]


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("ConstantOfShape", [_ints(2**40, 2**40)]),
        ("Expand", [_ints(1), _ints(2**40)]),
        ("Tile", [_ints(1), _ints(2**40)]),
        ("Pad", [_ints(1), _ints(2**40, 0)]),
        ("Range", [np.array(0), np.array(2**62), np.array(3)]),
        ("OneHot", [_ints(1), np.array(2**40), _ints(0, 1)]),
        ("Sum", [np.ones((4096, 1, 1)), np.ones((4096, 1)), np.ones(4096)]),
        ("MatMul", [np.ones((4096, 1)), np.ones((1, 4096))]),
    ],
    ids=str,
)
def test_what_would_be_large_is_not_made(op_type: str, inputs: list[evaluate.Array]) -> None:
    assert _found(op_type, *inputs) is None


def test_an_op_that_may_take_for_ever_is_not_run() -> None:
    many = "a,b,c,d,e->"
    assert _found("Einsum", *[np.ones(4096)] * 5, equation=many) is None
