"""What the nodes of a task give in ONNX Runtime, and how far a kernel may be off it.

In fp64 where ONNX Runtime has the ops and the operands are small, else in fp32. An element y may be off by

    8 r + 8 u max|y| + h |y| + the least number of its dtype

u = 2^-24 is the unit roundoff of fp32 (of the narrowest float type that the nodes cast to on the way), h that of the
output's dtype. r is how far y moves, rms of four draws, where each element of the inputs moves by sqrt(K) u of itself,
up or down at random; K is the largest of their last two dimensions. Rounding of a sum of K terms is as if the terms
were off by so much (N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019), so that r
follows the condition of y. With a reference in fp32 r is twice that, with large operands it is sqrt(K) u max|y|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtprof.base.onnx_graph import DTYPES
from trtprof.base.units import is_float
from trtprof.plugin.interpret import Array
from trtprof.plugin.task import Operand, Task, numpy_dtype

_EXACT = 2**22  # Elements of all inputs: fp64 and draws up to here
_UNIT = 2.0**-24
_UNITS: dict[int, float] = {TensorProto.FLOAT16: 2.0**-11, TensorProto.BFLOAT16: 2.0**-8}
_FLOATS: set[int] = {*_UNITS, TensorProto.FLOAT, TensorProto.DOUBLE}


class Expected(NamedTuple):
    """An output in fp64, and what each element may be off."""

    values: Array
    tolerance: Array


def expect(task: Task, shapes: Sequence[Sequence[int]], arrays: Sequence[Array]) -> list[Expected]:
    """The outputs for inputs; raises what ONNX Runtime raises where it does not know the nodes."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    # Fused kernels for fp64, such as RMS normalization, compute in fp32.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    small = sum(one.size for one in arrays) <= _EXACT
    for kind in [TensorProto.DOUBLE] * small + [TensorProto.FLOAT]:
        model = _model(task, shapes, kind).SerializeToString()
        try:
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            break
        except Exception:
            if kind == TensorProto.FLOAT:
                raise
    dtype = helper.tensor_dtype_to_np_dtype(kind)

    def run(step: float) -> list[Array]:
        """The outputs where inputs move by so much of themselves."""
        given = [
            np.asarray(one * (1 + step * draw.choice((-1, 1), one.shape)) if step else one, dtype)
            if is_float(operand.dtype) else one
            for operand, one in zip(task.inputs, arrays, strict=True)
        ]  # fmt: skip
        return [one.astype(np.float64) for one in session.run(None, dict(zip(task.body.input, given, strict=True)))]

    casts = [one for one in task.body.node if one.op_type == "Cast" and one.output[0] not in task.body.output]
    unit = max([_UNIT, *(_UNITS.get(one.attribute[0].i, 0.0) for one in casts)])
    longest = max(size for shape in shapes for size in (1, *shape[-2:]))
    step = math.sqrt(longest) * unit * (1 if kind == TensorProto.DOUBLE else 2)
    draw = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        values = run(0)
        near = [run(step) for _ in range(4 * small)]
        return [
            Expected(value, _tolerance(task, place, value, [one[place] for one in near], unit, step))
            for place, value in enumerate(values)
        ]


def compare(operand: Operand, expected: Expected, got: Array, written: Array) -> tuple[float, str]:
    """Largest error over the tolerance of the elements that were written, and what is wrong, "" where nothing is."""
    with np.errstate(all="ignore"):
        wanted, found = expected.values[written], got[written].astype(np.float64)
        stored = wanted.astype(got.dtype).astype(np.float64)  # What overflows there may overflow
        error = np.abs(found - wanted) / expected.tolerance[written]
    error[(found == stored) | np.isnan(wanted)] = 0  # A maximum on a GPU takes the number, that of ONNX the NaN
    error[np.isnan(error)] = np.inf
    worst = float(np.max(error, initial=0.0))
    if worst <= 1:
        return worst, ""
    at = int(np.argmax(error))
    values = f"{found[at]:.6g} instead of {wanted[at]:.6g} at {np.argwhere(written)[at].tolist()}"
    return worst, f"{np.count_nonzero(error > 1)} of {error.size} elements of {operand.name} are wrong: {values}"


def _tolerance(task: Task, place: int, value: Array, near: Sequence[Array], unit: float, step: float) -> Array:
    if not is_float(task.outputs[place].dtype):
        rounds = any(one.op_type.endswith(("QuantizeLinear", "Round")) for one in task.body.node)
        return np.full(value.shape, 1.0 if rounds else 0.0)
    largest = float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
    moved = np.sqrt(sum((one - value) ** 2 for one in near) / len(near)) if near else step * largest
    limits = ml_dtypes.finfo(numpy_dtype(task.outputs[place].dtype))  # type: ignore[no-untyped-call]
    own = max(float(limits.eps) / 2, _UNIT)
    return np.asarray(8 * moved + 8 * unit * largest + own * np.abs(value) + float(limits.smallest_subnormal))


def _model(task: Task, shapes: Sequence[Sequence[int]], kind: int) -> onnx.ModelProto:
    """The nodes with ``kind`` in place of all float types."""
    numbers = {name: kind if is_float(name) else number for number, name in DTYPES.items()}
    infos = [
        helper.make_tensor_value_info(name, numbers[one.dtype], shape)
        for name, one, shape in zip(
            (*task.body.input, *task.body.output), (*task.inputs, *task.outputs),
            (*shapes, *task.output_shapes(shapes)), strict=True,
        )
    ]  # fmt: skip
    nodes = []
    for given in task.body.node:
        nodes.append(node := onnx.NodeProto())
        node.CopyFrom(given)
        for one in node.attribute:
            if one.t.data_type in _FLOATS:
                dtype = helper.tensor_dtype_to_np_dtype(kind)
                one.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one.t).astype(dtype)))
            elif node.op_type == "Cast" and one.i in _FLOATS:
                one.i = kind
    graph = helper.make_graph(nodes, task.name, infos[: len(task.inputs)], infos[len(task.inputs) :])
    return helper.make_model(graph, opset_imports=task.body.opset_import, ir_version=10)
