"""What is computed of constants alone, computed once.

A node whose inputs are all constants gives way to constants: the results that ONNX's reference evaluator finds. So do
Shape and Size of a tensor whose dimensions are numbers, and what a Gather takes of a Shape where those are.
When: The op has no random numbers and no graphs in it, and its result is at most as large as what it is made of, or one
MiB. Left alone are quantised weights, which are meant to be read as they are, sums in float16, which runtimes keep in
more digits than the evaluator, and what has no result that every runtime agrees on (division of integers by zero, a
float as an integer out of range). An initializer that a caller may replace is no constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from trtprof.base import shape_inference
from trtprof.base.op_kinds import op_kind
from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

Array = npt.NDArray[Any]

KINDS = ("pointwise", "cast", "view", "move", "shape", "scan", "softmax", "reduction", "matmul")
OTHERS = ("ConstantOfShape", "Range", "EyeLike", "Trilu", "OneHot", "NonZero")
SUMS = ("scan", "softmax", "reduction", "matmul")
UNLIKE = ("BitShift", "BitCast", "Einsum")
"""Ops of the kinds above whose results are not said for all values, or that take the evaluator very long."""
MOST_BYTES = 2**20  # Of a result that is larger than what it is made of
MOST_ELEMENTS = 2**26  # Of all inputs and outputs together: the evaluator is no fast one


@rewrite(
    "constant-folding",
    "what depends on constants alone computed once",
    answers=("CN601", "LA401", "HO501"),
    exact=False,
)
def constant_folding(node: ir.Node, edit: Edit) -> None:
    """Put constants in the place of a node."""
    if node.domain not in ("", "ai.onnx") or edit.opset < 7:
        return
    if node.op_type == "Identity" and node.outputs[0].is_graph_output():
        return  # As far as it goes.
    found = _of_shapes(node, edit)
    if found is None:
        found = _computed(node, edit)
    if found is not None:
        values = {
            output: edit.constant(array, f"{output.name}_folded")
            for output, array in zip(node.outputs, found, strict=True)
            if output.uses() or output.is_graph_output()
        }
        edit.replace([node], values)


def _of_shapes(node: ir.Node, edit: Edit) -> list[Array] | None:
    """What is said of the shape of a value, where that is known."""
    if node.op_type == "Gather":
        made = edit.producer(node.inputs[0], "Shape")
        places = edit.array(node.inputs[1])
        taken = _taken(made, edit) if made is not None else None
        if taken is None or places is None or not all(-len(taken) <= place < len(taken) for place in places.flat):
            return None
        found = [taken[int(place)] for place in places.flat]
        return [np.asarray(found, np.int64).reshape(places.shape)] if _numbers(found) else None
    if node.op_type not in ("Shape", "Size"):
        return None
    dims = _taken(node, edit) if node.op_type == "Shape" else edit.dims(node.inputs[0])
    numbers = _numbers(dims or ()) if dims is not None else None
    if numbers is None:
        return None
    return [np.asarray(math.prod(numbers) if node.op_type == "Size" else numbers, np.int64)]


def _numbers(dims: Any) -> list[int] | None:
    return list(dims) if all(isinstance(dim, int) for dim in dims) else None


def _taken(node: ir.Node, edit: Edit) -> tuple[int | str | None, ...] | None:
    """The dimensions that a Shape gives."""
    dims = edit.dims(node.inputs[0])
    if dims is None:
        return None
    return dims[int(edit.number(node, "start", 0)) : int(edit.number(node, "end", len(dims)))]


def _computed(node: ir.Node, edit: Edit) -> list[Array] | None:
    """The results of a node whose inputs are constants."""
    kind = op_kind(node.op_type)
    if (kind not in KINDS and node.op_type not in OTHERS) or node.op_type in UNLIKE:
        return None
    if any(output.name == "" for output in node.outputs):
        return None
    given = [value for value in node.inputs if value is not None]
    if not given or not all(edit.is_constant(value) for value in given):
        return None
    arrays = {str(value.name): array for value in given if (array := edit.array(value)) is not None}
    if len(arrays) < len(set(given)) or any(array.dtype.kind not in "fiub" for array in arrays.values()):
        return None
    if kind in SUMS and any(array.dtype == np.float16 for array in arrays.values()):
        return None
    model = _alone(node, arrays, edit.opset)
    if model is None or not _is_defined(node, [edit.array(value) for value in node.inputs]):
        return None
    return _evaluated(model)


def _is_defined(node: ir.Node, arrays: list[Array | None]) -> bool:
    """Whether every runtime finds the same."""
    first, second = (arrays[0], arrays[1] if len(arrays) > 1 else None)
    if first is None:
        return False
    if node.op_type in ("Div", "Mod") and second is not None and second.dtype.kind in "iu":
        return bool(np.all(second != 0))
    if node.op_type == "Pow":
        return first.dtype.kind == "f"
    if op_kind(node.op_type) == "cast" and first.dtype.kind == "f":
        target = node.attributes.get("to")
        wanted = second.dtype if second is not None else None
        wanted = ir.DataType(target.value).numpy() if target is not None else wanted
        if wanted is None or wanted.kind not in "iu":
            return wanted is not None and wanted.kind in "fb"
        ends = np.iinfo(wanted)
        return bool(np.all((first > float(ends.min)) & (first < float(ends.max))))
    return True


def _alone(node: ir.Node, arrays: dict[str, Array], opset: int) -> onnx.ModelProto | None:
    """A model of a node alone, whose results are known to be small enough."""
    graph = onnx.helper.make_graph(
        [ir.to_proto(node)],
        "alone",
        [],
        [onnx.helper.make_empty_tensor_value_info(str(output.name)) for output in node.outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        model = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except shape_inference.InferenceError:
        return None
    taken = sum(array.nbytes for array in arrays.values())
    elements = sum(array.size for array in arrays.values())
    for output in model.graph.output:
        tensor = output.type.tensor_type
        if not tensor.elem_type or onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).kind not in "fiub":
            return None
        bound = node.op_type == "NonZero"  # Its result has a row a dimension, and no more columns than it has elements.
        if not bound and not (tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)):
            return None
        size = math.prod(dim.dim_value for dim in tensor.shape.dim) if not bound else elements * 8
        elements += size
        if size * onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize > max(MOST_BYTES, taken):
            return None
    return model if elements <= MOST_ELEMENTS else None


def _evaluated(model: onnx.ModelProto) -> list[Array] | None:
    """What the reference evaluator finds, if it is what was foreseen."""
    import onnx.reference

    try:
        with np.errstate(all="ignore"):
            results = onnx.reference.ReferenceEvaluator(model).run(None, {})
    except Exception:  # It raises whatever its ops do, and has not all of them.
        return None
    found = []
    for output, result in zip(model.graph.output, results, strict=True):
        array, tensor = np.asarray(result), output.type.tensor_type
        dims = [dim.dim_value for dim in tensor.shape.dim if dim.HasField("dim_value")]
        if array.dtype != onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type):
            return None
        if len(dims) == len(tensor.shape.dim) and array.shape != tuple(dims):
            return None
        found.append(array)
    return found
