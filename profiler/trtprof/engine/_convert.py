"""An fp32 ONNX file made fp16, for the versions of TensorRT that take all types from the file."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx
import onnx.external_data_helper
from onnx import ModelProto, TensorProto, TypeProto

from trtprof.base import onnx_graph
from trtprof.base.errors import BuildError

CONVERTER = "onnxruntime.transformers.float16"
_FP16_MAX = 65504.0
_INSIDE = 1 << 30  # Weights beyond this many bytes are written beside the converted file: protobuf ends at 2 GB
_TRUNCATED = re.compile(r"the float32 number (\S+) will be truncated to (\S+)")


class Converted(NamedTuple):
    """A converted model on disk."""

    path: Path
    converter: str
    added_nodes: tuple[str, ...]
    warnings: tuple[str, ...]


def to_fp16(model: Path, external_data: Path, folder: Path) -> Converted:
    """Convert weights and activations to fp16; inputs and outputs keep their types, with casts beside them.

    The converter is ONNX Runtime's: it knows the ops whose inputs must stay fp32, and turns casts to fp32 inside the
    graph into casts to fp16.
    """
    import onnxruntime
    from onnxruntime.transformers import float16

    proto = onnx.load(str(model), load_external_data=False)
    before = set(_node_names(proto))
    watch = _Watch()
    # Told at the level DEBUG alone: which weights do not fit into fp16.
    float16.logger.addHandler(watch)
    float16.logger.setLevel(logging.DEBUG)
    float16.logger.propagate = False
    try:
        onnx.external_data_helper.load_external_data_for_model(proto, str(external_data))
        proto = float16.convert_float_to_float16(proto, keep_io_types=_fed_and_fetched(proto))
    except Exception as error:  # of any kind: it reads models of every kind
        raise BuildError(
            f"{model.name} cannot be converted to fp16",
            why=f"{CONVERTER} of ONNX Runtime {onnxruntime.__version__}: "
            + " ".join(f"{type(error).__name__}: {error}".split()),
            fix="export the model in fp16, or convert it with "
            f"`python -m modelopt.onnx.autocast --onnx_path {model} --low_precision_type fp16`",
        ) from None
    path = folder / f"{model.stem}_fp16.onnx"
    if proto.ByteSize() < _INSIDE:
        onnx.save(proto, str(path))
    else:
        onnx.save(proto, str(path), save_as_external_data=True, location="fp16.weights")
    return Converted(
        path=path,
        converter=f"{CONVERTER} of onnxruntime {onnxruntime.__version__}",
        added_nodes=tuple(name for name in _node_names(proto) if name not in before),
        warnings=watch.warnings(),
    )


def has_fp32(proto: ModelProto) -> bool:
    """Whether any weight, constant, input or output is fp32."""
    declared: Iterator[TypeProto] = (value.type for value in (*proto.graph.input, *proto.graph.output))
    return any(tensor.data_type == TensorProto.FLOAT for tensor in onnx_graph.stored_tensors(proto)) or any(
        kind.tensor_type.elem_type == TensorProto.FLOAT for kind in declared
    )


def _fed_and_fetched(proto: ModelProto) -> list[str]:
    """Inputs that a caller feeds, and outputs: weights that are listed among the inputs need no cast."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    return [value.name for value in (*proto.graph.input, *proto.graph.output) if value.name not in stored]


def _node_names(proto: ModelProto) -> list[str]:
    return [node.name for _, graph in onnx_graph.all_graphs(proto.graph) for node in graph.node]


class _Watch(logging.Handler):
    """Notes weights beyond the range of fp16, which the converter cuts to it."""

    def __init__(self) -> None:
        super().__init__()
        self._cut: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = _TRUNCATED.search(record.getMessage())
        if found is not None and abs(float(found[2])) >= _FP16_MAX:
            self._cut.append(float(found[1]))

    def warnings(self) -> tuple[str, ...]:
        if not self._cut:
            return ()
        largest = max(self._cut, key=abs)
        return (f"weights beyond the range of fp16 were cut to {_FP16_MAX:g}, the largest of them {largest:g}",)
