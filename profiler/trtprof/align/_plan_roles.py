"""What a layer of a TensorRT plan is for, as far as its own kind, tensors and name tell."""

from __future__ import annotations

import itertools

from trtprof.align._fates import INTEGER
from trtprof.base.plan_words import tokens
from trtprof.base.records import IDLE_KINDS, PlanLayer, PlanRole, PlanTensor

_SYNC = frozenset({"signal", "wait", "signal_and_wait"})
_SHAPE = frozenset({"shape_call", "shapehosttodevice", "devicetoshapehost"})
_IDLE = frozenset({kind.casefold() for kind in IDLE_KINDS} | {"reshape"})
_LAYOUT = frozenset({"reformat", "cast", "copy", "move"})
_KERNELS = frozenset({"kgen", "gemm", "correlation", "runtime_fusion", "runtime_function"})
_MOVES = frozenset(
    {"Move", "Mov", "Cast", "Cas", "Tran", "Tra", "Resh", "Res", "Conc", "Con", "Slic", "Sli", "Repl", "Rep", "Copy",
     "Cop", "Pad"}
)  # fmt: skip
"""What Myelin calls operations that compute nothing, in four letters, before TensorRT 10.11 in three."""


def own_role(layer: PlanLayer) -> tuple[PlanRole, str]:
    """The role that shows in the layer alone, and why; a ``Reformat`` that quantises is layout, too."""
    kind = layer.kind.casefold()
    if kind in _SYNC:
        event = layer.attributes.get("EventId")
        return "sync", "makes streams of the GPU wait for one another" + ("" if event is None else f" (event {event})")
    if kind in _SHAPE or layer.name.startswith(("[ShapeHostToDevice]", "[DeviceToShapeHost]")):
        return "shape", "computes or copies shapes for the host"
    if kind in _IDLE:
        why = {"constant": "a constant, in memory before the run", "reshape": "a view: nothing is moved"}
        return "idle", why.get(kind, "launches nothing")
    if layer.serves or kind in _LAYOUT:
        return "layout", ""
    if not layer.onnx_nodes and kind not in _KERNELS and _counts(layer):
        return "shape", "counts or tests a single integer, as the loops of an engine do"
    return "compute", ""


def _counts(layer: PlanLayer) -> bool:
    """Whether all that a layer touches are single integers: the counters, offsets and tests of a loop."""
    tensors = (*layer.inputs, *layer.outputs)
    return bool(tensors) and all(tensor.elements == 1 and tensor.dtype.startswith(INTEGER) for tensor in tensors)


def only_moves(layer: PlanLayer) -> bool:
    """Whether a layer computes nothing: it moves, casts, pads or fills, and Myelin's name of it says so."""
    done = tokens(layer)
    return bool(done) and _MOVES.issuperset(done)


def fills(layer: PlanLayer) -> bool:
    """Whether a layer writes a tensor and reads nothing but, perhaps, a scalar."""
    return bool(layer.outputs) and not layer.inputs and not layer.constants


def is_copy(layer: PlanLayer) -> bool:
    """Whether a layer without a word of its own only brings one tensor into another order or dtype."""
    if len(layer.inputs) != 1 or len(layer.outputs) != 1 or layer.constants or tokens(layer):
        return False
    (source,), (target,) = layer.inputs, layer.outputs
    form = (source.strides, source.format, source.dtype) != (target.strides, target.format, target.dtype)
    return source.dims is not None and source.dims == target.dims and form


def in_order(tensor: PlanTensor) -> bool | None:
    """Whether dimensions lie in memory in their order (``NHWC`` is a format, so True); None where not told."""
    if tensor.strides is None or tensor.dims is None or "hannel major" in tensor.format:
        return None
    steps = [stride for stride, dim in zip(tensor.strides, tensor.dims, strict=False) if dim != 1]
    return all(one >= other for one, other in itertools.pairwise(steps))
