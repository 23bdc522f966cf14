"""What tests of `trtprof try` share: a small model, and what turns say of gains that are known."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from trtprof.base.records import Rung, Tried
from trtprof.compare.turns import TurnsChange, change_of_turns

GEMV = "g (float[40,5,1,8] a, float[40,1,8,1] b) => (float[40,5,1,1] y) { y = MatMul (a, b) }"


def model_of(text: str, folder: Path, **weights: np.ndarray[Any, Any]) -> Path:
    graph = onnx.parser.parse_graph(text)
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    for number, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{number}"
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


@functools.cache
def gained(gain: float) -> TurnsChange:
    """What turns say that are always so much faster, and hardly differ."""
    noise = np.random.default_rng(0)
    rounds = [
        [(noise.normal(1e6, 1e3, 30), noise.normal(1e6 / gain, 1e3 / gain, 30)) for _ in range(4)] for _ in range(3)
    ]
    return change_of_turns(rounds)


def row(found: Tried, name: str) -> Rung:
    return next(rung for rung in found.rungs if rung.name == name)
