"""The laws of rewrites over models that are drawn at random, in which patterns overlap and values are shared."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.fakes.rewrites import rewritten
from trtprof.rewrite import REWRITES

SEEDS = range(40)
NAMES = REWRITES.keys()


class Drawn:
    """A model of ops drawn at random, with the value of each for its one input.

    Attributes:
        feeds: Of its input.
        model: With up to three outputs, of which some are read within it too.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        start = self._random.standard_normal(self._random.permutation([1, 2, 3, 4])[: self._draw(3, 5)])
        self.feeds = {"x": start.astype(np.float32)}
        self._values: dict[str, tuple[int, ...]] = {"x": start.shape}
        while len(self._nodes) < 14:
            names = list(self._values)
            self._add(names[max(0, len(names) - 1 - int(self._random.exponential(1.5)))])
        names = list(self._values)
        outputs = {names[-1], *self._random.choice(names[1:], 2)}
        infos = [onnx.helper.make_tensor_value_info(name, 1, self._values[name]) for name in ("x", *sorted(outputs))]
        graph = onnx.helper.make_graph(self._nodes, "drawn", infos[:1], infos[1:], self._constants)
        opset = onnx.helper.make_opsetid("", 17)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
        # What nobody reads is left in: a rewrite must stand it.
        onnx.checker.check_model(model, full_check=True)
        self.model = model

    def _draw(self, low: int, high: int) -> int:
        return int(self._random.integers(low, high))

    def _constant(self, array: npt.NDArray[Any]) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def _node(self, op_type: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> str:
        name = f"v{len(self._nodes)}"
        node = onnx.helper.make_node(op_type, inputs, [name], name=f"{op_type}_{len(self._nodes)}", **attributes)
        self._nodes.append(node)
        self._values[name] = shape
        return name

    def _add(self, value: str) -> None:
        shape = self._values[value]
        rank = len(shape)
        axis = self._draw(0, rank) if rank else 0
        same = [name for name, other in self._values.items() if other == shape]
        kind = self._draw(0, 16) if rank > 1 else self._draw(0, 2)
        if kind <= 1:
            self._node(str(self._random.choice(["Sigmoid", "Neg", "Tanh", "Identity"])), [value], shape)
        elif kind <= 6:
            perm = [int(place) for place in self._random.permutation(rank)]
            self._node("Transpose", [value], tuple(shape[place] for place in perm), perm=perm)
        elif kind == 7:
            self._node("Add", [value, str(self._random.choice(same))], shape)
        elif kind == 8:
            dims = [dim if self._random.random() < 0.5 else 1 for dim in shape][self._draw(0, rank) :]
            constant = self._constant(self._random.uniform(0.5, 2, dims).astype(np.float32))
            self._node(str(self._random.choice(["Mul", "Div", "Sub"])), [value, constant], shape)
        elif kind == 9:
            longer = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            self._node("Concat", [value, str(self._random.choice(same))], longer, axis=axis - rank)
        elif kind == 10:
            self._node("Softmax", [value], shape, axis=axis)
        elif kind == 11 and rank > 2:
            kept = self._draw(0, 2)
            left = shape[:axis] + (1,) * kept + shape[axis + 1 :]
            self._node("ReduceMean", [value], left, axes=[axis], keepdims=kept)
        elif kind == 12:
            pads = np.zeros(2 * rank, np.int64)
            pads[axis], pads[rank + axis] = 1, 2
            longer = (*shape[:axis], shape[axis] + 3, *shape[axis + 1 :])
            self._node("Pad", [value, self._constant(pads)], longer)
        elif kind == 13 and shape[axis] > 1:
            bounds = [self._constant(np.array([one])) for one in (1, 2**62, axis)]
            self._node("Slice", [value, *bounds], (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :]))
        elif kind == 14:
            flat = self._constant(np.array([shape[0], -1]))
            self._node("Reshape", [value, flat], (shape[0], math.prod(shape[1:])))
        elif kind == 15:
            places = self._constant(np.arange(shape[axis])[::-1].copy())
            self._node("Gather", [value, places], shape, axis=axis)


def moved(model: onnx.ModelProto) -> int:
    """Elements that Transposes of a model give."""
    model = onnx.shape_inference.infer_shapes(model)
    infos = (*model.graph.value_info, *model.graph.output)
    shapes = {info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in infos}
    return sum(math.prod(shapes[node.output[0]]) for node in model.graph.node if node.op_type == "Transpose")


def test_transposes_that_move_make_fewer_elements_move(tmp_path: Path) -> None:
    chosen = REWRITES.get("transpose-through")
    assert chosen is not None
    fewer = 0
    for seed in SEEDS:
        drawn = Drawn(seed)
        sites, changed = rewritten(chosen, drawn.model, tmp_path)
        before, after = (moved(one) for one in (drawn.model, changed))
        assert after < before or (not sites and after == before), seed
        fewer += after < before
    assert fewer > len(SEEDS) / 2
