"""Small models that rewrites fit, and near misses that they must leave alone: one module a rewrite, named as it is."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnxruntime as ort

from trtprof.rewrite import Rewrite, apply
from trtprof.rewrite.edit import Site
from trtprof.rewrite.model import opened, save


class RewriteCase(NamedTuple):
    """A model and what a rewrite is to make of it.

    Attributes:
        name: Of the case.
        text: The graph in ONNX's text form (``onnx.parser.parse_graph``).
        fits: In how many places the rewrite fits.
        weights: Initializers by name, which the text does not need to spell out.
        opset: Of the standard operators.
        dims: What to run it with for each dimension that has a name.
        low: Least value of its inputs.
        high: Largest.
    """

    name: str
    text: str
    fits: int = 1
    weights: dict[str, npt.NDArray[Any]] = {}  # noqa: RUF012 - a default that nobody writes to
    opset: int = 17
    dims: dict[str, int] = {}  # noqa: RUF012
    low: float = -2.0
    high: float = 2.0

    def model(self) -> onnx.ModelProto:
        """The model of the case, with a name for every node."""
        graph = onnx.parser.parse_graph(self.text)
        graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items())
        for number, node in enumerate(nodes_of(graph)):
            node.name = node.name or f"{node.op_type}_{number}"
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)], ir_version=10)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, and of those inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def cases_of(rewrite: str) -> tuple[RewriteCase, ...]:
    """The cases of a rewrite."""
    module = importlib.import_module(f"tests.fakes.rewrites.{rewrite.replace('-', '_')}")
    return tuple(module.CASES)


def random(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    """Weights of fp32 around zero."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rewritten(
    chosen: Rewrite, model: onnx.ModelProto, folder: Path, only: set[str] | None = None
) -> tuple[tuple[Site, ...], onnx.ModelProto]:
    """The places that a rewrite changed, and the model that it made; both models are in the folder."""
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(model, before)
    opened_model = opened(before)
    sites = apply(chosen, opened_model, only)
    save(opened_model, after)
    return sites, onnx.load(after)


def outputs_of(model: onnx.ModelProto, feeds: dict[str, npt.NDArray[Any]]) -> list[Any]:
    """What ONNX Runtime makes of the inputs, node by node as the model has them."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, feeds)
    return found


def feeds_of(model: onnx.ModelProto, case: RewriteCase) -> list[dict[str, npt.NDArray[Any]]]:
    """Random values, zeros, ones, and values so large that some functions of them are infinite."""
    generator = np.random.default_rng(0)
    kinds: list[dict[str, npt.NDArray[Any]]] = [{}, {}, {}, {}]
    constants = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        if info.name in constants:
            continue
        dims = [dim.dim_value or case.dims[dim.dim_param] for dim in info.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        drawn = generator.uniform(case.low, case.high, dims)
        whole = dtype.kind in "iub"
        for feeds, values in zip(kinds, (drawn, np.zeros(dims), np.ones(dims), drawn * 1e3), strict=True):
            feeds[info.name] = np.asarray(np.clip(values, case.low, case.high) if whole else values, dtype)
    return kinds
