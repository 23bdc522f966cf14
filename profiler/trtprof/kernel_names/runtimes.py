"""Kernels of TensorRT, ONNX Runtime, cuTENSOR, CUB and Thrust that are C++ templates or plain functions."""

from __future__ import annotations

from trtprof.kernel_names import identifiers
from trtprof.kernel_names.identifiers import op_of, subwords
from trtprof.kernel_names.record import Fields
from trtprof.kernel_names.signatures import fact, leading_types, pointer_types
from trtprof.kernel_names.symbols import Term, dtype

_TRT_SPACES = {
    "genericReformat": "reformat", "cuInt8": "reformat", "cuSliceLayer": "slice", "cuPad": "pad", "cuPadLayer": "pad",
    "cuEltwise": "elementwise", "cuResizeLayer": "resize", "cuGatherLayer": "gather", "cuGather": "gather",
    "cuScatter": "scatter", "cuScatterLayer": "scatter", "cuTopK": "topk", "cuReduceLayer": "reduce",
    "cuReduce": "reduce", "cuSoftmax": "softmax", "cuSoftMaxLayer": "softmax", "cuShuffle": "transpose",
    "cuConcat": "concat", "cuPool": "pooling", "cuPoolingLayer": "pooling", "cuScaleLayer": "elementwise",
    "cuActivation": "elementwise", "cuUnary": "elementwise", "cuSelect": "elementwise", "cuFill": "fill",
    "cuOneHot": "elementwise", "cuCast": "cast", "cuNms": "nms", "cuEfficientNMS": "nms",
    "cuRaggedSoftmax": "softmax", "cuLrn": "lrn",
}  # fmt: skip
_TRT_NAMES = {
    "copyPackedKernel": "reformat", "copyVectorizedKernel": "reformat", "copyPackedRunKernel": "reformat",
    "generatedNativePointwise": "elementwise", "nchwToNcxhwKernel": "reformat", "nchwToNchhw2": "reformat",
}  # fmt: skip

BARE = frozenset(("generatedNativePointwise",))  # TensorRT's short names, which have nothing behind them


def tensorrt(term: Term, *, complete: bool) -> Fields | None:
    """TensorRT's own copies, reformats and layers that are no tactic of xmma or Myelin, and cuTENSOR in it."""
    name, args = term.last.name, term.last.args or ()
    spaces = term.names[:-1]
    if any(each.lower().startswith("cutensor") for each in term.names):
        return _cutensor(term, complete=complete)
    op = next((_TRT_SPACES[space] for space in spaces if space in _TRT_SPACES), None)
    if op is None and complete:
        op = _TRT_NAMES.get(name)
    if "cuDepthwise" in spaces:
        words = subwords(name) if complete else []
        tensor = next((word for word in words if word in ("hmma", "imma")), "")
        fields = {"family": "tensorrt", "op": "conv", "ops": ("depthwise",)}
        return fields | ({"unit": "tensor", "evidence": tensor} if tensor else {})
    if op is None:
        if "nvinfer1" not in spaces:
            return None
        return {"family": "tensorrt"} | identifiers.parse(term, complete=complete)
    fields = fact("tensorrt", op, "none", next((s for s in spaces if s in _TRT_SPACES), name))
    if name == "copyPackedKernel":
        kinds = leading_types(args)
        if len(kinds) > 1:
            fields |= {"dtype_in": kinds[0], "dtype_out": kinds[1]}
    elif name == "copyVectorizedKernel":
        # <type of the scale, source, result, ...>: at an fp16 network's inputs it reads <double, float, __half>.
        kinds = leading_types(args)
        if len(kinds) > 2:
            fields |= {"dtype_in": kinds[1], "dtype_out": kinds[2]}
    elif "cuInt8" in spaces:
        fields |= pointer_types(term.last)
    elif "cuEltwise" in spaces and args and args[0].last.name == "SimpleAlgo":
        kinds = leading_types(args[0].last.args)
        if len(kinds) > 1:
            fields |= {"dtype_in": kinds[0], "dtype_out": kinds[1]}
    return fields


def _cutensor(term: Term, *, complete: bool) -> Fields:
    fields: Fields = {"family": "cutensor"}
    if not complete:
        return fields
    lower = term.last.name.lower()
    if "permutation" in lower:
        fields |= {"op": "transpose", "unit": "none", "evidence": "permutation"}
    elif "reduction" in lower or "reduce" in lower:
        fields |= {"op": "reduce", "unit": "none", "evidence": "reduction"}
    elif "elementwise" in lower:
        fields |= {"op": "elementwise", "unit": "none", "evidence": "elementwise"}
    elif "contraction" in lower or "gett" in lower:
        fields["op"] = "gemm"
        if "tensor_op" in lower or "tensorop" in lower:
            fields |= {"unit": "tensor", "evidence": "tensorop"}
    return fields


def onnxruntime(term: Term, *, complete: bool) -> Fields | None:
    """Kernels of the CUDA execution provider: ``onnxruntime::cuda::_UnaryElementWise<float, float, OP_Relu, ...>``."""
    if "onnxruntime" not in term.names[:-1]:
        return None
    fields: Fields = {"family": "onnxruntime"}
    name, args = term.last.name, term.last.args or ()
    if not complete:
        return fields
    op = op_of(name)
    if "ElementWise" in name:
        op = "elementwise"
        operators = [part.name[3:].lower() for arg in args for part in arg.parts if part.name.startswith("OP_")]
        if operators:
            fields["ops"] = tuple(operators)
        start = next((i for i, arg in enumerate(args) if dtype(arg)), len(args))
        kinds = leading_types(args, start)
        if "Unary" in name and len(kinds) > 1:
            fields |= {"dtype_in": kinds[0], "dtype_out": kinds[1]}
        elif "Binary" in name and len(kinds) > 1:
            # <result, left, right, functor, ...>
            fields |= {"dtype_out": kinds[0], "dtype_in": kinds[1]}
    elif kinds := leading_types(args):
        fields["dtype_in"] = kinds[0]
    if op is not None:
        fields["op"] = op
        if op not in ("gemm", "conv", "gemv", "attention"):
            fields |= {"unit": "none", "evidence": name}
    return fields


def cub(term: Term, *, complete: bool) -> Fields | None:
    """CUB's device-wide algorithms and Thrust's: scans, sorts, reductions, fills."""
    spaces = term.names[:-1]
    family = "thrust" if "thrust" in spaces else "cub" if "cub" in spaces else None
    if family is None and complete and not spaces and term.last.name.startswith(_CUB_BARE):
        family = "cub"
    if family is None:
        return None
    fields: Fields = {"family": family, "unit": "none", "evidence": family}
    if not complete:
        return fields
    words = subwords(term.last.name)
    agents = [word for arg in term.last.args or () for name in arg.names for word in subwords(name)]
    if words == ["kernel", "agent"] and not term.last.args_end:
        return fields
    for pool in (words, agents if family == "thrust" else []):
        for word, op in _CUB_OPS:
            if word in pool:
                return fields | {"op": op}
    return fields


_CUB_BARE = ("DeviceRadixSort", "DeviceSegmentedRadixSort", "DeviceScan", "DeviceReduce", "DeviceSegmentedReduce",
             "DeviceSelectSweep", "DeviceHistogram", "DeviceMergeSort", "DeviceRunLengthEncode")  # fmt: skip
_CUB_OPS = (
    ("sort", "sort"), ("scan", "scan"), ("histogram", "histogram"), ("select", "select"), ("partition", "select"),
    ("unique", "select"), ("encode", "scan"), ("merge", "sort"), ("reduce", "reduce"), ("fill", "fill"),
    ("copy", "copy"), ("transform", "elementwise"), ("for", "elementwise"), ("tabulate", "fill"),
)  # fmt: skip
