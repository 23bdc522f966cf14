"""Models that plugins are put into, written in ONNX's own text form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnxruntime as ort

from trtprof.plugin.model import Model, opened

Array = npt.NDArray[Any]


def written(path: Path, graph: str, *, opset: int = 17, ir_version: int = 8, more: str = "") -> Path:
    """A file with this graph; node names are written as ``[name]`` before a node."""
    text = f'<ir_version: {ir_version}, opset_import: ["" : {opset}{more}]>\n{graph}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def model(tmp_path: Path, graph: str, **how: Any) -> Model:
    """The same, opened."""
    return opened(written(tmp_path / "model.onnx", graph, **how))


def outputs(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime makes of a file, without optimisations that round otherwise."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [np.asarray(one) for one in session.run(None, dict(feeds))]


def same(path: Path, other: Path, feeds: Mapping[str, Array]) -> bool:
    """Whether two files make the same outputs, to the bit."""
    pairs = zip(outputs(path, feeds), outputs(other, feeds), strict=True)
    return all(one.dtype == two.dtype and np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
               for one, two in pairs)  # fmt: skip
