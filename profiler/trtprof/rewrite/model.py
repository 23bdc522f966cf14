"""A model opened for rewriting, and written again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from trtprof.base import shape_inference

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_THE_FILE = 2**30  # Bytes of weights up to which they are kept in the ONNX file; of more a file beside it holds them


def opened(path: str | Path, external_data: str | Path = "") -> ir.Model:
    """A model with the types and shapes that follow from its inputs as they are declared."""
    proto = onnx.load(str(path), load_external_data=False)
    model = ir.from_proto(proto)
    ir.external_data.set_base_dir(model.graph, external_data or Path(path).parent)
    if model.ir_version < 4:
        # There a constant must be among the inputs, too, and no caller can give another.
        constants = [value for value in model.graph.inputs if value.name in model.graph.initializers]
        for value in constants:
            model.graph.inputs.remove(value)
        model.ir_version = 4
    with suppress(shape_inference.InferenceError):
        _know(model, ir.from_proto(shape_inference.infer_shapes(proto)))
    return model


def _know(model: ir.Model, inferred: ir.Model) -> None:
    """Take over what was inferred of values, all of whose names are those of the same graphs."""
    for own, other in zip(_graphs(model), _graphs(inferred), strict=True):
        for node, same in zip(own, other, strict=True):
            for value, known in zip(node.outputs, same.outputs, strict=True):
                value.meta["declared"] = value.shape is not None
                value.type = value.type or known.type
                value.shape = value.shape or known.shape


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    yield model.graph
    yield from model.graph.subgraphs()


def save(model: ir.Model, path: str | Path) -> None:
    """Write a model: shapes that were inferred and not declared are left out, large weights go beside the file."""
    for graph in _graphs(model):
        for node in graph:
            for value in node.outputs:
                if not value.is_graph_output() and not value.meta.get("declared", False):
                    value.shape, value.type = None, None
    path = Path(path)
    size = sum(value.const_value.nbytes for graph in _graphs(model) for value in graph.initializers.values()
               if value.const_value is not None)  # fmt: skip
    if size > IN_THE_FILE:
        ir.save(model, path, external_data=f"{path.name}.data")
    else:
        # Weights that lay beside the original are taken in: the new file may stand elsewhere.
        ir.save(ir.external_data.load_to_model(model), path)
