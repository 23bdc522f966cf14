"""Nodes on known values: as onnx's reference has it, and nothing that would be large."""

from __future__ import annotations

from typing import Any

import numpy as np
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
