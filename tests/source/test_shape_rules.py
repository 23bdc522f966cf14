"""Shape rules against ONNX Runtime: what it makes where the CPU has the op, what it infers itself where not.

Inputs are written ``dtype:shape``. With ``=values`` behind it, it is a constant, a vector where no shape is given;
``!`` makes a constant of any other, and ``-`` is an omitted input. Expected outputs are written alike.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.capi import _pybind_state

from tests.fakes.support import SAMPLES, what_this_cpu_can
from trtprof.analysis.work import inspection_of
from trtprof.base import onnx_graph
from trtprof.base.records import Dim, Op, Source, Tensor
from trtprof.source.load import load_model, source_of
from trtprof.source.shape_rules import RULES, outputs_by_rule, rule
from trtprof.source.shape_rules._dims import broadcast, most, over, plus, times
from trtprof.source.shapes import parse_shapes

Array = npt.NDArray[Any]
MS, ML = "com.microsoft", "ai.onnx.ml"
NCHWC, NHWC = "com.microsoft.nchwc", "com.ms.internal.nhwc"
NUMBERS = {name: number for number, name in onnx_graph.DTYPES.items()}
SHORT = {"f": "fp32", "d": "fp64", "h": "fp16", "u8": "uint8", "s8": "int8", "i16": "int16", "u16": "uint16",
         "i32": "int32", "i64": "int64", "u32": "uint32", "b": "bool", "s": "string", "f8": "fp8e4m3fn",
         "bf": "bf16", "i4": "int4", "u4": "uint4"}  # fmt: skip
_PART = re.compile(r"(?P<kind>[a-z]+\d*)(?P<shape>:(?P<dims>[\dx]*))?(=(?P<values>[-\w,]+))?(?P<fixed>!?)")


class Case(NamedTuple):
    """A node: what it reads, and how many outputs, or which of them, are asked for."""

    op_type: str
    inputs: str
    attributes: Mapping[str, Any] = MappingProxyType({})
    outputs: int | str = 1
    domain: str = MS
    version: int = 21
    data: bool = False
    """Data decides a dimension, which stays open."""


class Read(NamedTuple):
    """One input of a case."""

    tensor: Tensor
    proto: TensorProto
    """Its elements."""


def tensors(text: str) -> Iterator[Tensor | None]:
    """The tensors that a text describes."""
    for index, part in enumerate(text.split()):
        if part == "-":
            yield None
            continue
        match = _PART.fullmatch(part)
        assert match, part
        kind, given = SHORT[match["kind"]], match["values"].split(",") if match["values"] else None
        dims = [int(dim) for dim in (match["dims"] or "").split("x") if dim]
        shape = tuple(dims) if match["shape"] else (len(given or ()),)
        value = tuple(map(int, given)) if given and kind in ("int32", "int64", "bool") else None
        constant = given is not None or bool(match["fixed"])
        yield Tensor(name=f"x{index}", dtype=kind, shape=shape, constant=constant, value=value)


def elements(text: str) -> Sequence[Read | None]:
    """The inputs of a case with elements: those given, else small numbers that any op takes."""
    found: list[Read | None] = []
    for part, tensor in zip(text.split(), tensors(text), strict=True):
        if tensor is None:
            found.append(None)
            continue
        shape = tuple(dim for dim in tensor.shape or () if isinstance(dim, int))
        if tensor.dtype in ("int4", "uint4"):
            ones = [1] * int(np.prod(shape))
            found.append(Read(tensor, helper.make_tensor(tensor.name, NUMBERS[tensor.dtype], shape, ones)))
            continue
        given = re.search(r"=(.+)", part)
        if tensor.dtype == "string":
            array = np.full(shape, "a b", dtype=object)
        else:
            kind = helper.tensor_dtype_to_np_dtype(NUMBERS[tensor.dtype])
            if given:
                array = np.array([int(item) for item in given[1].split(",")]).reshape(shape).astype(kind)
            elif kind.kind == "f":
                array = np.random.default_rng(len(part)).uniform(0.1, 0.9, shape).astype(kind)
            else:
                array = np.ones(shape, dtype=kind)
        found.append(Read(tensor, numpy_helper.from_array(array, tensor.name)))
    return found


def asked(case: Case) -> list[str]:
    """Names of the outputs; ``1001`` asks for the first and the last of four."""
    flags = "1" * case.outputs if isinstance(case.outputs, int) else case.outputs
    return [f"y{index}" if flag == "1" else "" for index, flag in enumerate(flags)]


def node_of(case: Case, inputs: Sequence[Tensor | None]) -> NodeProto:
    names = [tensor.name if tensor is not None else "" for tensor in inputs]
    return helper.make_node(case.op_type, names, asked(case), domain=case.domain, **case.attributes)


def opsets_of(case: Case) -> dict[str, int]:
    return {"": case.version} if not case.domain else {"": 21, case.domain: case.version if case.version != 21 else 1}


def session_of(model: ModelProto, severity: int = 4) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = severity
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def model_of(case: Case, reads: Sequence[Read | None], outputs: Sequence[onnx.ValueInfoProto]) -> ModelProto:
    inputs = [read.tensor for read in reads if read is not None]
    fed = [tensor for tensor in inputs if not tensor.constant]
    graph = helper.make_graph(
        [node_of(case, [read and read.tensor for read in reads])],
        "one",
        [helper.make_tensor_value_info(tensor.name, NUMBERS[tensor.dtype], tensor.shape) for tensor in fed],
        outputs,
        [read.proto for read in reads if read is not None and read.tensor.constant],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets_of(case).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def seen(name: str, value: Any) -> Tensor:
    """A result as it is; a list of maps is a sequence."""
    if not isinstance(value, np.ndarray):
        return Tensor(name=name, dtype="unknown", shape=None, kind="sequence")
    kind = "string" if value.dtype.kind in "OU" else onnx_graph.dtype_name(helper.np_dtype_to_tensor_dtype(value.dtype))
    return Tensor(name=name, dtype=kind, shape=value.shape)


@functools.cache
def ran(key: str) -> tuple[Op, Sequence[Tensor | None]]:
    """The op of a case, of whose outputs only the names are known, and the outputs that ONNX Runtime makes."""
    case = CASES[key]
    reads = elements(case.inputs)
    names = [name for name in asked(case) if name]
    model = model_of(case, reads, [onnx.ValueInfoProto(name=name) for name in names])
    feeds = {
        read.tensor.name: numpy_helper.to_array(read.proto)
        for read in reads
        if read is not None and not read.tensor.constant
    }
    with what_this_cpu_can():
        results = dict(zip(names, session_of(model).run(None, feeds), strict=True))
    op = onnx_graph.op_of(model.graph.node[0], opsets_of(case), [read and read.tensor for read in reads])
    return op, [seen(name, results[name]) if name else None for name in asked(case)]


def keyed(cases: Sequence[Case]) -> dict[str, Case]:
    return {f"{index} {case.op_type}": case for index, case in enumerate(cases)}


def present(case: Case) -> bool:
    """Whether this ONNX Runtime has the op."""
    return (case.domain, case.op_type) in schemas() or not case.domain


@functools.cache
def schemas() -> frozenset[tuple[str, str]]:
    return frozenset((schema.domain, schema.name) for schema in _pybind_state.get_all_operator_schema())


# --- what there is ----------------------------------------------------------------------------

_BLOB = "what it does is in a compiled blob that only one vendor's runtime can read"
WITHOUT = {(MS, "EPContext"): _BLOB, (MS, "Snpe"): _BLOB}
"""Ops without a rule, with the reason."""


def test_every_op_has_a_rule_or_a_reason() -> None:
    known = {key for key in schemas() if key[0] in (MS, ML, NCHWC, NHWC)}
    assert len(known) > 170
    assert known - set(RULES.keys()) == set(WITHOUT)


def test_every_rule_is_held_against_something() -> None:
    held = {
        (case.domain, case.op_type) for case in (*CASES.values(), *(case for case, _ in (*INFERRED.values(), *HAND)))
    }
    assert set(RULES.keys()) - held == set()


# --- what ONNX Runtime makes ------------------------------------------------------------------

HEADS = {"num_heads": 2}
GQA = {"num_heads": 4, "kv_num_heads": 2}
Q = "f: u8:"
QQ = f"{Q} {Q}"
DELTA = {"q_num_heads": 2, "kv_num_heads": 2}
NGRAM = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 0}
BITS = {"K": 32, "N": 8, "block_size": 32}

ATTENTION = [
    Case("Attention", "f:1x4x10 f:10x48 f:48", HEADS),
    Case("Attention", "f:2x4x10 f:10x48 f:48", HEADS, 2),
    Case("QAttention", "u8:1x4x10 s8:10x48 f:48 f:1 f:1 - u8:1 s8:1", HEADS),
    Case("QAttention", "u8:2x4x10 s8:10x48 f:48 f:1 f:1 - u8:1 s8:1 f:2x2x2x3x8", HEADS, 2),
    Case("MultiHeadAttention", "f:1x3x16 f:1x4x16 f:1x4x16 f:48", HEADS),
    Case("MultiHeadAttention", "f:2x3x16 f:2x4x16 f:2x4x24", HEADS, 3),
    Case("MultiHeadAttention", "f:2x3x16 f:2x3x16 f:2x3x16 - - - f:2x2x5x8 f:2x2x5x8", HEADS, 3),
    Case("DecoderMaskedMultiHeadAttention", "f:1x1x16 f:1x1x16 f:1x1x16 - - f:1x2x9x8 f:1x2x9x8 i32=3",
         {**HEADS, "past_present_share_buffer": 1}, 3),
    Case("DecoderMaskedMultiHeadAttention", "f:1x1x16 f:1x2x5x8 f:1x2x5x8 - - - - - - - f:48", HEADS),
    Case("GroupQueryAttention", "f:1x4x32 f:1x4x16 f:1x4x16 f:1x2x0x8 f:1x2x0x8 i32=3 i32:=4", GQA, 3),
    Case("GroupQueryAttention", "f:1x4x32 f:1x4x16 f:1x4x16 - - i32=3 i32:=4", GQA, 3),
    Case("GroupQueryAttention", "f:1x1x32 f:1x1x16 f:1x1x16 f:1x2x9x8 f:1x2x9x8 i32=3 i32:=4", GQA, 3),
    Case("RotaryEmbedding", "f:2x2x3x8 i64=0 f:16x4 f:16x4"),
    Case("RotaryEmbedding", "f:2x3x16 i64:2x3 f:16x4 f:16x4", HEADS | {"rotary_embedding_dim": 8}),
    Case("MRotaryEmbedding", "f:1x2x3x8 i64:3x1x3 f:16x4 f:16x4", {"mrope_section": [2, 1, 1]}),
    Case("LinearAttention", "f:2x3x8 f:2x3x8 f:2x3x12 f:2x2x4x6 f:2x3x2 f:2x3x2", DELTA, 2),
    Case("LinearAttention", "f:2x3x8 f:2x3x4 f:2x3x6 - f:2x3x4",
         {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": "gated"}, 2),
    Case("LinearAttentionGate", "f:1x2x3 f:3 f:3 f:1x2x3", {}, 2),
    Case("LinearAttentionGate", "f:1x2x3 f:3 f:3"),
    Case("CausalConvWithState", "f:2x3x5 f:3x1x4 f:3 f:2x3x3", {}, 2),
    Case("CausalConvWithState", "f:2x3x5 f:3x1x4", {}, 2),
    Case("EngramGate", "f:1x2x3x4 f:1x2x3x4 f:1x2x4 f:3x4 f:3x4 f:3x4", {}, 2),
    Case("BranchwiseRMSNorm", "f:2x3x4 f:4"),
    Case("HyperConnectionPreMix", "f:2x3x4 f:2x3"),
    Case("HyperConnectionPreMix", "f:2x12 f:2x12", {"num_branches": 3}),
    Case("HyperConnectionPostMix", "f:2x3x4 f:2x4 f:2x3 f:2x3x3"),
]  # fmt: skip

PRODUCTS = [
    Case("FusedMatMul", "f:2x4x3 f:2x4x5", {"transA": 1}),
    Case("TransposeMatMul", "f:1x3x4 f:1x5x4", {"transB": 1}),
    Case("FusedGemm", "f:3x4 f:4x5 f:5", {"activation": "Relu"}),
    Case("QGemm", f"u8:3x4 {Q} u8:4x5 {Q} i32:5 {Q}"),
    Case("MatMulIntegerToFloat", "u8:3x4 u8:4x5 f: f: u8: u8: f:5"),
    Case("DynamicQuantizeMatMul", "f:3x4 u8:4x5 f: u8: f:5"),
    Case("MatMulInteger16", "i16:3x4 i16:4x5"),
    Case("MatMulNBits", "f:2x3x32 u8:8x1x16! f:8!", {**BITS, "bits": 4}),
    Case("MatMulBnb4", "f:2x3x32 u8:128! f:8!", {**BITS, "quant_type": 1}),
    Case("MatMulFpQ4", "f:2x3x32 u8:160! i64=32,8", {"blk_quant_type": 0}),
    Case("MoE", "f:5x8 f:5x4 f:4x6x8 f:4x6 f:4x8x6 f:4x8", {"k": 2, "activation_type": "gelu"}),
    Case("QMoE", "f:1x32 f:1x4 u8:4x32x16 f:4x32 - u8:4x32x16 f:4x32",
         {"k": 2, "activation_type": "silu", "expert_weight_bits": 4}),
    Case("GatherBlockQuantized", "u8:8x16! i64=1,3 f:8x2!",
         {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1}),
]  # fmt: skip

CONVOLUTIONS = [
    Case("FusedConv", "f:1x4x5x5 f:6x4x3x3 f:6 f:1x6x3x3", {"activation": "Relu"}),
    Case("QLinearConv", f"u8:1x5x6x4 {Q} s8:6x4x3x3! f: s8: {Q}", {"channels_last": 1, "strides": [2, 1]}),
    Case("ConvTransposeWithDynamicPads", "f:1x4x5x6 f:4x3x3x2 i64=1,0,1,1", {"strides": [2, 3], "group": 2}),
    Case("NhwcMaxPool", "u8:1x6x7x2", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("MaxpoolWithMask", "f:1x2x6x6 i32:1x2x6x6", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("QLinearAveragePool", f"u8:1x2x6x6 {QQ}", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("QLinearGlobalAveragePool", f"u8:1x2x6x6 {QQ}"),
    Case("GridSample", "f:2x3x4x5 f:2x6x7x2"),
    Case("CropAndResize", "f:1x2x6x6 f:3x4 i32=0,0,0 i32=2,3"),
    Case("UnfoldTensor", "f:2x10", {"dim": 1, "size": 3, "step": 2}),
    Case("WordConvEmbedding", "i32:3x6 f:5x1x2x4 f:5 f:7x4"),
    Case("ReorderInput", "f:2x32x6x6", domain=NCHWC),
    # 30 of 32 channels: those padded are fewer than a block of 4, 8 or 16, as the machine has it
    Case("ReorderOutput", "f:2x32x6x6", {"channels": 30}, domain=NCHWC),
    Case("Conv", "f:1x32x6x6 f:32x32x3x3!", {"strides": [2, 2], "pads": [1, 1, 1, 1]}, domain=NCHWC),
    Case("MaxPool", "f:1x32x7x7", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, domain=NCHWC),
    Case("AveragePool", "f:1x32x7x7", {"kernel_shape": [2, 2]}, domain=NCHWC),
    Case("GlobalAveragePool", "f:2x32x7x7", domain=NCHWC),
    Case("GlobalMaxPool", "f:2x32x7x7", domain=NCHWC),
    Case("Upsample", "f:1x32x3x4", {"scales": [1, 1, 2, 3]}, domain=NCHWC),
]  # fmt: skip

ELEMENTWISE = [
    *(Case(name, "f:2x3 f:3") for name in ("BiasGelu", "FastGelu")),
    *(Case(name, "f:1x3x4") for name in ("FastGelu", "Gelu", "QuickGelu", "ScaledSiLU", "SampleOp")),
    Case("GatedAdd", "f:2x4 f:2x4 f:2x1"),
    Case("GatedRMSNorm", "f:2x8 f:4 f:2x8"),
    Case("Inverse", "f:3x1x1"),
    Case("Trilu", "f:2x3x4"),
    Case("SkipLayerNormalization", "f:1x3x4 f:1x3x4 f:4 f:4"),
    Case("SkipSimplifiedLayerNormalization", "f:1x3x4 f:1x3x4 f:4", {}, "1001"),
    Case("EmbedLayerNormalization", "i32:2x3 i32:2x3 f:9x4 f:8x4 f:2x4 f:4 f:4", {}, 2),
    Case("QEmbedLayerNormalization",
         f"i32:1x2 i32:1x2 u8:9x4! u8:8x4! u8:2x4! u8:4! u8:4! - {'f: ' * 5}{'u8: ' * 5}", {}, 2),
    Case("QuantizeLinear", f"f:2x3 {Q}"),
    Case("DequantizeLinear", f"u8:2x3 {Q}"),
    *(Case(name, f"u8:2x1x3 {Q} u8:4x3 {QQ}") for name in ("QLinearAdd", "QLinearMul")),
    Case("QLinearAdd", "s8:1x4 f: s8: s8:1x4 f: s8: f: s8:"),
    Case("QLinearSigmoid", f"u8:2x3 {QQ}"),
    Case("QLinearLeakyRelu", f"u8:2x3 {QQ}", {"alpha": 0.1}),
    Case("QLinearSoftmax", f"u8:2x4 {QQ}", {"axis": -1, "opset": 13}),
    Case("QLinearWhere", "b:3 u8:2x3 f:! u8:! u8:1 f:! u8:! f:! u8:!"),
    Case("QLinearConcat", "f:! u8:! u8:2x3 f:! u8:! u8:2x1 f:! u8:!", {"axis": 1}),
    Case("MurmurHash3", "i32:3"),
    Case("LayerNormalization", "f:2x3x4 f:4 f:4", {}, 3, "", 12),
    Case("SimplifiedLayerNormalization", "f:2x3x4 f:4", {}, 2, ""),
    Case("Affine", "f:2x3", domain="", version=8),
    Case("ParametricSoftplus", "f:2x3", {"alpha": 1.0, "beta": 1.0}, domain="", version=8),
    Case("ScaledTanh", "f:2x3", {"alpha": 1.0, "beta": 1.0}, domain="", version=8),
    Case("ImageScaler", "f:1x3x2x2", {"bias": [0.0, 0.0, 0.0]}, domain="", version=8),
]  # fmt: skip

TENSORS = [
    *(Case("ExpandDims", f"f:2x3 i32:={axis}") for axis in (0, 1, -1, -3)),
    Case("ExpandDims", "f:2x3 i32=1"),
    Case("Pad", "f:2x3 i64=0,1,2,3"),
    Case("Range", "i64:=0 i64:=10 i64:=3"),
    Case("Unique", "f:8", {}, 3, data=True),
    Case("GatherND", "f:2x3x4 i64:5x2"),
    Case("CDist", "f:3x4 f:5x4", {"metric": "euclidean"}),
    Case("DynamicTimeWarping", "f:4x6", data=True),
    Case("BifurcationDetector", "i64:5 i64:2 i64:=0 i64:6", {}, 2, data=True),
    Case("Tokenizer", "s:2x3", {"mark": 0, "mincharnum": 1, "pad_value": "#", "separators": [" "]}, data=True),
    Case("NGramRepeatBlock", "i64:2x4 f:2x9", {"ngram_size": 3}),
    Case("NGramHashMapping", "i64:2x4 i64=3,5,7 i64=11,13,17,19", NGRAM, 2),
    Case("VarlenNGramHashMapping", "i64:8 i64=3,5,7 i64=11,13,17,19 i32=0,3,8", NGRAM, 2),
    Case("DynamicQuantizeLSTM", "f:5x2x3 u8:1x3x16! u8:1x4x16! f:1x32 - - - - f:1! u8:1! f:1! u8:1!",
         {"hidden_size": 4}, 3),
    Case("AttnLSTM", "f:5x2x3 f:1x16x9 f:1x16x4 f:1x32 - - - - f:1x4x7 f:1x6x7 f:1x7 f:2x8x6", {"hidden_size": 4}, 3),
]  # fmt: skip

STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
"""One test of feature 1, with one value at each leaf."""
TARGETS: dict[str, Any] = {
    **STUMP, "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
}  # fmt: skip
CLASSES: dict[str, Any] = {
    **STUMP, "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 0], "class_weights": [0.2, 0.8],
}  # fmt: skip
KERNEL: dict[str, Any] = {"kernel_type": "RBF", "kernel_params": [0.5, 0.25, 3.0]}
PAIR: dict[str, Any] = {
    **KERNEL, "vectors_per_class": [1, 1], "support_vectors": [0.1] * 6, "coefficients": [0.5, -0.5], "rho": [0.1],
}  # fmt: skip
FOUR: dict[str, Any] = {
    **KERNEL, "vectors_per_class": [1] * 4, "support_vectors": [0.1] * 12, "coefficients": [0.5, -0.5] * 6,
    "rho": [0.1] * 6,
}  # fmt: skip
TREE_5: dict[str, Any] = {
    "tree_roots": [0], "nodes_featureids": [1], "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [1], [0]),
    "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [1], [0.5]), "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1], "nodes_trueleafs": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
    "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]), "n_targets": 3,
}  # fmt: skip


def ml(op_type: str, inputs: str, outputs: int = 1, version: int = 3, **attributes: Any) -> Case:
    return Case(op_type, inputs, attributes, outputs, ML, version, data=op_type == "CastMap")


def on_any_rows(make: Callable[[str], Case], *, vector: bool = True) -> Iterator[Case]:
    """A case for a matrix, for one row, and for a vector."""
    yield from map(make, ["f:2x3", "f:1x3", "d:2x3", "i64:2x3", *(["f:3"] if vector else [])])


FEATURES = [
    *on_any_rows(lambda x: ml("Scaler", x, offset=[1.0], scale=[2.0])),
    ml("Normalizer", "d:2x3", norm="L1"),
    ml("Imputer", "f:2x3x4", imputed_value_floats=[1.0], replaced_value_float=0.0),
    ml("Imputer", "i64:2x3", imputed_value_int64s=[1], replaced_value_int64=0),
    ml("Binarizer", "f:3", threshold=0.5),
    ml("LabelEncoder", "i64:4", keys_int64s=[1], values_floats=[0.5]),
    ml("LabelEncoder", "s:2x2", keys_strings=["a"], values_strings=["b"]),
    ml("LabelEncoder", "s:4", version=1, classes_strings=["a", "b"]),
    ml("CategoryMapper", "i64:2", cats_int64s=[1], cats_strings=["a"]),
    *on_any_rows(lambda x: ml("OneHotEncoder", x, cats_int64s=[1, 2, 3, 5], zeros=1)),
    *(ml("ArrayFeatureExtractor", x) for x in ("f:2x4 i64:1", "f:4 i64=1,0", "i64:1x2x4 i64:1x2", "s:2x4 i64:=1")),
    ml("FeatureVectorizer", "f:2x3 f:2x2", inputdimensions=[3, 4]),
    ml("FeatureVectorizer", "f:3 f:3", inputdimensions=[3, 3]),
    ml("ZipMap", "f:2x2", classlabels_strings=["a", "b"]),
    *on_any_rows(lambda x: ml("LinearClassifier", x, 2, coefficients=[0.1] * 3, intercepts=[1.0],
                              classlabels_strings=["a", "b"], post_transform="LOGISTIC")),
    ml("LinearClassifier", "f:2x3", 2, coefficients=[0.1] * 6, intercepts=[1.0, 2.0], classlabels_ints=[0, 1]),
    ml("LinearRegressor", "f:3", coefficients=[0.1] * 6, intercepts=[1.0, 2.0], targets=2),
    ml("SVMRegressor", "f:3", n_supports=2, support_vectors=[0.1] * 6, coefficients=[1.0, -1.0], rho=[0.5], **KERNEL),
    ml("SVMClassifier", "f:2x3", 2, classlabels_strings=list("abcd"), **FOUR),
    ml("SVMClassifier", "f:2x3", 2, classlabels_ints=[4, 5, 6, 7], prob_a=[0.1] * 6, prob_b=[0.1] * 6, **FOUR),
    ml("SVMClassifier", "f:2x3", 2, classlabels_ints=[4, 5], **PAIR),
    ml("TreeEnsembleClassifier", "f:2x3", 2, classlabels_strings=["a", "b", "c"], **CLASSES),
    ml("TreeEnsembleClassifier", "f:2x3", 2, classlabels_int64s=[7], **CLASSES),
    ml("TreeEnsembleRegressor", "d:2x3", n_targets=2, **TARGETS),
    ml("TreeEnsemble", "f:2x3", 1, 5, **TREE_5),
]  # fmt: skip

CASES = keyed([*ATTENTION, *PRODUCTS, *CONVOLUTIONS, *ELEMENTWISE, *TENSORS, *FEATURES])


def test_what_the_runtime_makes_is_known_before_and_nothing_is_guessed(subtests: pytest.Subtests) -> None:
    for key, case in CASES.items():
        if not present(case):
            continue
        with subtests.test(key):
            op, real = ran(key)
            ruled = outputs_by_rule(op)
            assert ruled is not None
            if case.data:
                assert all(fits(*pair) for pair in zip(ruled, real, strict=True))
                assert any("?" in (tensor.shape or ()) for tensor in ruled if tensor is not None)
            else:
                assert list(ruled) == list(real)
            assert_nothing_is_guessed(op, real)


def fits(ruled: Tensor | None, real: Tensor | None, symbols: Mapping[str, Dim] = MappingProxyType({})) -> bool:
    """Whether nothing that a rule says is wrong, if symbols stand for these numbers."""
    if ruled is None or real is None:
        return ruled is None
    if ruled.dtype not in (real.dtype, "unknown") or ruled.name != real.name:
        return False
    if ruled.shape is None or real.shape is None:
        return ruled.shape is None
    if len(ruled.shape) != len(real.shape):
        return False
    return all(symbols.get(str(a), a) in (b, "?") for a, b in zip(ruled.shape, real.shape, strict=True))


def less_known(tensor: Tensor) -> Iterator[tuple[Tensor, dict[str, Dim]]]:
    """A tensor with something unknown, and what its symbols stand for."""
    free = msgspec.structs.replace(tensor, value=None, constant=False)
    yield free, {}
    yield msgspec.structs.replace(free, shape=None), {}
    yield msgspec.structs.replace(free, dtype="unknown"), {}
    for index, dim in enumerate(tensor.shape or ()):
        for unknown in ("?", "N"):
            shape = (*(tensor.shape or ())[:index], unknown, *(tensor.shape or ())[index + 1 :])
            yield msgspec.structs.replace(free, shape=shape), {"N": dim}


def assert_nothing_is_guessed(op: Op, real: Sequence[Tensor | None]) -> None:
    for index, tensor in enumerate(op.inputs):
        for open_, symbols in less_known(tensor) if tensor is not None else ():
            inputs = (*op.inputs[:index], open_, *op.inputs[index + 1 :])
            ruled = outputs_by_rule(msgspec.structs.replace(op, inputs=inputs))
            for made, true in zip(ruled or (), real, strict=False):
                assert fits(made, true, symbols), f"input {index} as {open_.dtype} {open_.shape}: {made}, not {true}"


def test_an_op_that_is_not_as_defined_has_no_shapes() -> None:
    def outputs(op_type: str, *shapes: tuple[int, ...], **attributes: Any) -> object:
        inputs = tuple(Tensor(name="x", dtype="fp32", shape=shape) for shape in shapes)
        op = Op(op_type=op_type, domain=MS, inputs=inputs, outputs=(Tensor(name="y", dtype="", shape=None),))
        return outputs_by_rule(msgspec.structs.replace(op, attributes=attributes))

    assert outputs("Attention", (1, 4), (4, 12), num_heads=2) is None  # a rank
    assert outputs("Attention", (1, 4, 8), (8, 24)) is None  # a missing attribute
    assert outputs("Attention", (1, 4, 8), (8, 24), num_heads="2") is None  # an attribute of another kind
    assert outputs("Attention", (1, 4, 8), num_heads=2) is None  # a missing input
    assert outputs("FusedMatMul", (3, 4), (5, 6)) is None  # what does not fit
    assert outputs("UnfoldTensor", (3, 4), dim=2, size=1) is None  # an axis that is not there
    assert outputs("UnfoldTensor", (3, 4), dim=1, size=1, step=0) is None  # a division by zero
    assert outputs("Snake", (3, 4)) is None  # an op without a rule


def test_a_second_rule_for_an_op_is_an_error() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        rule("Attention", domain=MS)(lambda _op: [])


# --- what ONNX Runtime infers of ops that the CPU does not have --------------------------------

DECODER = "f:2x1x8 f:5x1x8 f:8x8 f:8x16 f:24 - f:1x2x3x4 f:1x2x3x4"
PAGED = "h:6x32 h:6x16 h:6x16 h:10x4x2x8 h:10x4x2x8 i32:3 i32:2 i32:2x3"
SPARSE = "h:1x2x32 h:1x2x16 h:1x2x16 h:1x2x9x8 h:1x2x9x8 - - i32:2x3 i32:2 i32:1"
ORDERS = {"order_input": 1, "order_weight": 0, "order_output": 1}
QSA = {"policy_mode": "qsa", "compress_ratio": 2, "token_budget": 4}
CSA = {"policy_mode": "csa", "compress_ratio": 2, "index_topk": 3}
NORM = {"groups": 2, "activation": 1}


def nhwc(op_type: str, inputs: str, attributes: Mapping[str, Any] = MappingProxyType({}), outputs: int = 1) -> Case:
    return Case(op_type, inputs, attributes, outputs, NHWC, 19)


_INFERRED: list[tuple[Case, str]] = [
    (Case("BiasAdd", "f:2x3x4 f:4 f:2x3x4"), "f:2x3x4"),
    (Case("BiasDropout", "f:2x3 f:3 f:2x3", {}, 2), "f:2x3 b:2x3"),
    (Case("BitmaskBiasDropout", "f:5x13 f:13", {}, 2), "f:5x13 u32:3~"),
    (Case("BitmaskDropout", "h:2x3x4", {}, 2), "h:2x3x4 u32:1~"),
    (Case("BiasSoftmax", "f:2x3x4 f:1x3x4", {"axis": 2, "is_inner_broadcast": 0}), "f:2x3x4"),
    (Case("BiasSplitGelu", "f:2x3x8 f:8"), "f:2x3x4"),
    (Case("ComplexMul", "f:3x4x2 f:4x2"), "f:3x4x2~"),
    (Case("ComplexMulConj", "h:1x4x2 h:3x1x2"), "h:3x4x2~"),
    (Case("GroupNorm", "h:2x4x4x8 f:8 f:8", NORM), "h:2x4x4x8"),
    (Case("SkipGroupNorm", "h:2x4x4x8 f:8 f:8 h:2x8 h:8", NORM, 2), "h:2x4x4x8 h:2x4x4x8"),
    (Case("IsAllFinite", "f:3x4 f:5"), "b:"),
    (Case("Rfft", "f:3x8", {"signal_ndim": 1}), "f:3x5x2~"),
    (Case("Irfft", "f:3x5x2", {"signal_ndim": 1}), "f:3x8~"),
    (Case("MulInteger", "u8:3x4 u8: u8:4 u8:"), "i32:3x4"),
    (Case("QLinearReduceMean", "u8:2x3x4 f: u8: f: u8:", {"axes": [1], "keepdims": 1}), "u8:2x1x4"),
    (Case("ReduceSumInteger", "u8:2x3", {"axes": [1], "keepdims": 1}), "u32:2x1~"),
    (Case("QuantizeBFP", "f:4x16", {"bfp_type": 0}, 3), "u8:?~ i64:2 i64:2"),
    (Case("DequantizeBFP", "u8:72 i64=4,16 i64=16,1", {"bfp_type": 0, "dtype": 1}), "f:4x16~"),
    (Case("QuantizeWithOrder", "f:4x16 f:", {"order_input": 1, "order_output": 2}), "s8:4x16"),
    (Case("DequantizeWithOrder", "s8:4x16 f:", {"to": 10, "order_input": 2, "order_output": 1}), "h:4x16"),
    (Case("QOrderedGelu", "s8:4x16 f: f:"), "s8:4x16"),
    (Case("QOrderedLayerNormalization", "s8:3x4 f: f:4 f:4 f:"), "s8:3x4"),
    (Case("QOrderedMatMul", "s8:2x3x4 f: s8:4x5 f: f:", {"order_A": 1, "order_B": 1, "order_Y": 1}), "s8:2x3x5"),
    (Case("QOrderedAttention", f"s8:1x3x10 {'f: ' * 4}{'s8:10x16 ' * 3}{'f: ' * 3}{'f:16 ' * 3}f: f: f:",
          {**HEADS, **ORDERS}), "s8:1x3x16~"),
    (Case("QOrderedLongformerAttention",
          "s8:1x6x16 f: s8:16x48 f: f:48 f: f: h:1x6 s8:16x48 f: f:48 f: i32:1x6 f:",
          {**HEADS, **ORDERS, "window": 1, "order_global_weight": 0}), "s8:1x6x16"),
    (Case("LongformerAttention", "f:1x6x16 f:16x48 f:48 f:1x6 f:16x48 f:48 i32:1x6", {**HEADS, "window": 1}),
     "f:1x6x16"),
    (Case("FusedMatMulActivation", "f:2x4x3 f:4x5", {"activation": "Relu", "transA": 1}), "f:2x3x5"),
    (Case("GemmFastGelu", "h:2x3x4 h:4x5 h:5"), "h:2x3x5"),
    (Case("GemmFloat8", "f8:3x4 f8:5x4 - f: f: f:", {"transB": 1, "dtype": 10}), "h:3x5"),
    (Case("MatMulBlockQuantizedFp4Weight", "h:2x3x32 u8:8x16 u8:8x2 f: f: h:8"), "h:2x3x8"),
    (Case("MatMulBlockQuantizedFp8Weight", "bf:3x32 f8:8x32 f:8x1 - bf:8"), "bf:3x8"),
    (Case("MatMulNBitsMlp", "h:3x32 h:3x32 h:32 u8:8x1x16 h:8x1 h:8 u8:8x1x16 h:8x1 -",
          {**BITS, "activation": "silu"}, 2), "h:3x8 h:3x32"),
    (Case("MatMulNBitsQkv", "h:1x3x32 - h:32 u8:8x1x16 h:8x1 - u8:4x1x16 h:4x1 - u8:4x1x16 h:4x1 -",
          {"K": 32, "Nq": 8, "Nkv": 4, "block_size": 32}, 4), "h:1x3x8 h:1x3x4 h:1x3x4 h:1x3x32"),
    (Case("NhwcFusedConv", "h:1x5x6x4 h:6x2x3x3 h:6", {"group": 2, "strides": [1, 2]}), "h:1x3x2x6"),
    # ONNX Runtime infers from the schema's order of weights, and computes with the other.
    (Case("NhwcConv", "h:1x5x6x4 h:8x4x3x2"), "h:1x3x5x8"),
    (Case("TorchEmbedding", "f:9x4 i64:2x3"), "f:2x3x4"),
    (Case("GemmaRotaryEmbedding", "f:1x3x8 h:1x2x3x8 h:1x2x3x8 h:1x1x3x8 h:1x1x3x8", {}, 2), "h:1x2x3x8 h:1x1x3x8~"),
    (Case("RelativePositionBias", "f:8x2 i64=3 i64=3", {"max_distance": 16}), "f:1x2x3x3~"),
    (Case("GatedRelativePositionBias", "f:1x3x8 f:8 f:1x2x3x3 f:4x6 f:6 f:1x2x1x1", HEADS), "f:1x2x3x3"),
    (Case("RemovePadding", "f:2x3x4 i32:2", {}, 4), "f:?x4 i32:2x3 i32:3 i32:1"),
    (Case("RestorePadding", "f:5x4 i32:2x3"), "f:2x3x4"),
    (Case("PackedAttention", "f:5x10 f:10x48 f:48 i32:2x4 i32:3", HEADS), "f:5x16"),
    (Case("PackedMultiHeadAttention", "f:5x2x3x8 - - f:48 i32:2x4 i32:3", HEADS), "f:5x16"),
    (Case("DecoderAttention", f"{DECODER} b=0 b=1 b=1 b=0", HEADS, 3), "f:2x1x8 f:1x2x5x4 f:1x2x5x4"),
    (Case("DecoderMaskedSelfAttention", "h:1x1x10 h:10x48 h:48 - h:2x1x2x9x8 - i32:1",
          {**HEADS, "past_present_share_buffer": 1}, 2), "h:1x1x16 h:2x1x2x9x8~"),
    (Case("Attention", "f:2x4x10 f:10x48 f:48 - f:2x2x2x9x8 - i32:1", {**HEADS, "past_present_share_buffer": 1}, 2),
     "f:2x4x16 f:2x2x2x9x8~"),
    (Case("MultiHeadAttention", "f:2x3x2x3x8", HEADS), "f:2x3x16"),
    (Case("MultiHeadAttention", "f:2x3x16 f:2x3x16 f:2x3x16 - - - f:2x2x5x8 f:2x2x5x8", HEADS, 4),
     "f:2x3x16 f:2x2x8x8 f:2x2x8x8 unknown:2x2x3x8~"),
    (Case("SparseAttention",
          "f:1x16x32 f:1x16x16 f:1x16x16 f:1x2x32x8 f:1x2x32x8 i32:1x3=0,1,3 i32:1x3=0,0,1 i32:=16 i32=16",
          {**GQA, "sparse_block_size": 16}, 3), "f:1x16x32 f:1x2x32x8 f:1x2x32x8"),
    (Case("LinearAttention", "f:2x3x8 f:2x3x8 f:2x3x12 - f:2x3x2 f:2x3x2", {**DELTA, "state_window": 2}, 2),
     "f:2x3x12 f:2x2x2x4x6"),
    (Case("CausalConvWithState", "f:2x3x5 f:3x1x4", {"dilation": 2, "state_window": 2}, 2), "f:2x3x5 f:2x2x3x6"),
    (Case("MultiHeadAttention", "f:2x3x16 f:2x5x2x2x8", HEADS), "f:2x3x16"),
    (Case("DecoderMaskedMultiHeadAttention", "h:1x1x48 - - - - h:1x2x9x8 h:1x2x9x8 i32:1",
          {**HEADS, "past_present_share_buffer": 1}, 3), "h:1x1x16~ h:1x2x9x8~ h:1x2x9x8~"),
    (Case("GroupQueryAttention", "h:1x1x64 - - s8:1x2x9x8 s8:1x2x9x8 i32:1 i32:=8 - - - - - f:1 f:1",
          {**GQA, "k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}, 3), "h:1x1x32 s8:1x2x9x8 s8:1x2x9x8"),
    (Case("GroupQueryAttention", "h:1x1x64 - - h:1x2x9x8 h:1x2x9x8 i32:1 i32:",
          {**GQA, "sliding_window_cache": 1, "local_window_size": 9}, 3), "h:1x1x32 h:1x2x9x8 h:1x2x9x8"),
    (Case("DynamicSparseAttention", f"{SPARSE} i32:=9", GQA, 3), "h:1x2x32 h:1x2x9x8 h:1x2x9x8"),
    (Case("PagedAttention", PAGED, GQA, 3), "h:6x32 h:10x4x2x8 h:10x4x2x8"),
    (Case("SparsePagedAttention", f"{PAGED} - i32:6x3 i32:6", GQA, 3), "h:6x32 h:10x4x2x8 h:10x4x2x8"),
    (Case("SparseAttentionIndexer", "h:1x3x16 h:1x3x8 h:8 h:8 h:1x16x2 h:1x16x2 - h:1x5x8", QSA, 2),
     "i32:1x3x5 h:1x8x8"),
    *((Case("SparseAttentionIndexer",
            f"h:1x{new}x16 h:1x{new}x16 h:8 h:8 h:1x16x2 h:1x16x2 - h:1x5x8 h:1x{new}x16 h:2x16 h:1x{new}x2"
            f" i64:1x{new} - h:2x1x{waiting}x16", CSA, 3), f"i32:1x{new}x3 h:1x{keys}x8 h:2x1x{left}x16")
      for waiting, new, keys, left in ((1, 3, 7, 2), (0, 1, 5, 1), (2, 1, 5, 3), (3, 4, 7, 3))),
    (Case("PackedSparseAttentionIndexer",
          "h:3x24 - h:8 h:8 h:16x2 h:16x2 i32:2 i32:1 - - - - h:1x6x8 h:1x3x8 - i32:1x2 i32:1",
          {**QSA, "state_capacity": 6, "state_update_capacity": 2}, "1111011"),
     "i32:3x5 i32:3 h:1x6x8 h:1x3x8 - i32:1x2 h:1x2x8"),
    (Case("GatedDeltaNet", "h:6x2x4 h:6x2x4 h:6x4x3 - f:6x4 f:6x4 f:2x4x3x4", {}, 2), "h:6x4x3 f:2x4x3x4"),
    (Case("VarlenCausalConvWithState", "h:6x3 h:3x1x4 i32:3 h:3 h:2x3x3 i32:2", {"state_update_capacity": 2}, 3),
     "h:6x3 h:2x3x3 h:2x2x3"),
    (nhwc("Conv", "f:1x5x6x4 f:6x2x3x2 f:6", {"group": 2, "dilations": [2, 1]}), "f:1x1x5x6"),
    (nhwc("ConvTranspose", "f:1x5x6x4 f:4x3x3x2", {"group": 2, "strides": [2, 3], "pads": [1, 0, 0, 1]}),
     "f:1x10x16x6"),
    (nhwc("QLinearConv", "u8:1x5x6x4 f: u8: s8:6x4x3x3 f: s8: f: u8:"), "u8:1x3x4x6"),
    (nhwc("QLinearConvTranspose", "u8:1x5x6x4 f: u8: u8:4x3x3x3 f: u8: f: u8:"), "u8:1x7x8x3~"),
    (nhwc("MaxPool", "f:1x7x8x4", {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}, 2),
     "f:1x4x4x4 i64:1x4x4x4~"),
    (nhwc("AveragePool", "f:1x7x8x4", {"kernel_shape": [2, 3], "pads": [1, 1, 0, 0]}), "f:1x7x7x4"),
    (nhwc("LpPool", "f:1x7x8x4", {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER", "strides": [3, 1]}), "f:1x3x8x4"),
    (nhwc("QLinearAveragePool", f"u8:1x7x8x4 {QQ}", {"kernel_shape": [2, 3], "channels_last": 1}), "u8:1x6x6x4~"),
    *((nhwc(name, "f:2x7x8x4"), "f:2x1x1x4") for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")),
    (nhwc("MaxUnpool", "f:1x2x3x4 i64:1x4x2x3", {"kernel_shape": [2, 2], "strides": [2, 3]}), "f:1x4x8x4"),
    (nhwc("BatchNormalization", "f:1x2x3x4 f:4 f:4 f:4 f:4", {"training_mode": 1}, 3), "f:1x2x3x4 f:4 f:4"),
    (nhwc("InstanceNormalization", "f:1x2x3x4 f:4 f:4"), "f:1x2x3x4"),
    (nhwc("LRN", "f:1x2x3x4", {"size": 3}), "f:1x2x3x4"),
    (nhwc("DepthToSpace", "f:1x2x3x8", {"blocksize": 2}), "f:1x4x6x2"),
    (nhwc("SpaceToDepth", "f:1x4x6x2", {"blocksize": 2}), "f:1x2x3x8"),
    (nhwc("GridSample", "f:2x3x4x5 f:2x6x7x2"), "f:2x6x7x5"),
    (nhwc("Resize", "f:1x2x3x4 - - i64=1,4,9,4"), "f:1x4x9x4"),
]  # fmt: skip
INFERRED = {f"{index} {case.op_type}": (case, text) for index, (case, text) in enumerate(_INFERRED)}
"""What is expected, by hand; ``~`` marks what ONNX Runtime does not infer, or not as it computes."""

HAND: list[tuple[Case, str]] = [
    (Case("SparseToDenseMatMul", "f:3x4 f:5x4", {"transB": 1}), "f:3x5"),
    (Case("GreedySearch", "i32:2x8 i32=20"), "i32:2x20"),
    (Case("Sampling", "i32:2x8 i32:1", {"vocab_size": 99}, 2), "i32:2x? f:2x99"),
    (Case("BeamSearch", "i32:2x8 i32=20 i32=1 i32=4 i32=3 f:1", {}, 3), "i32:2x3x20 f:2x3 f:?x2x4x?"),
    (Case("WhisperBeamSearch", "h:2x80x99 i32=20 - i32=4 i32=3 - h:1", {"vocab_size": 9}, 3),
     "i32:2x3x20 h:2x3 h:?x2x4x9"),
    (Case("MemcpyFromHost", "f:3x4", domain=""), "f:3x4"),
    (Case("MemcpyToHost", "f:3x4", domain=""), "f:3x4"),
    (ml("DictVectorizer", "f:", int64_vocabulary=[1, 5, 7]), "unknown:1x3"),
    (ml("CastMap", "f:", cast_to="TO_INT64"), "i64:1x?"),
    (ml("CastMap", "f:", cast_to="TO_STRING", map_form="SPARSE", max_map=9), "s:1x9"),
]  # fmt: skip
"""Ops with bodies, of sparse tensors and of maps, and copies that no model holds."""


def expected(case: Case, text: str) -> list[Tensor | None]:
    found: list[Tensor | None] = []
    for name, part in zip(asked(case), text.split(), strict=True):
        if part == "-":
            found.append(None)
            continue
        kind, dims = part.rstrip("~").split(":")
        shape = tuple(int(dim) if dim.isdigit() else dim for dim in dims.split("x") if dim)
        found.append(Tensor(name=name, dtype=SHORT.get(kind, kind), shape=shape))
    return found


def op_of(case: Case) -> Op:
    inputs = list(tensors(case.inputs))
    return onnx_graph.op_of(node_of(case, inputs), opsets_of(case), inputs)


def test_what_only_other_devices_have_is_as_worked_out(
    subtests: pytest.Subtests, capfd: pytest.CaptureFixture[str]
) -> None:
    for key, (case, text) in (INFERRED | {f"HAND {index}": pair for index, pair in enumerate(HAND)}).items():
        with subtests.test(f"{key} {case.op_type}"):
            op, real = op_of(case), expected(case, text)
            ruled = outputs_by_rule(op)
            assert ruled is not None
            assert list(ruled) == real
            if "?" not in text:
                assert_nothing_is_guessed(op, real)
            if key in INFERRED and present(case):
                assert_inferred(case, text, capfd)


def assert_inferred(case: Case, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Outputs are declared with a shape that is wrong; ONNX Runtime says so, and what it is."""
    real = expected(case, text)
    wrong = [
        helper.make_tensor_value_info(tensor.name, NUMBERS.get(tensor.dtype, TensorProto.FLOAT), [7777] * 9)
        for tensor in real
        if tensor is not None
    ]
    refused = ""
    try:
        session_of(model_of(case, elements(case.inputs), wrong), severity=2)
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        refused = str(error)
    assert not refused or re.search("NOT_IMPLEMENTED|does not support|PrecisionFreeCast", refused)
    said = dict(re.findall(r"'(y\d+)' source:\{([^}]*)\}", capfd.readouterr().err))
    for part, tensor in zip(text.split(), real, strict=True):
        if tensor is None or part.endswith("~"):
            continue
        known = [int(dim) if dim.isdigit() else "?" for dim in said[tensor.name].split(",") if dim]
        agrees = len(known) == len(tensor.shape or ()) and all(
            "?" in pair or pair[0] == pair[1] for pair in zip(known, tensor.shape or (), strict=True)
        )
        assert agrees, f"{known}, not {tensor.shape}"


# --- dimensions -------------------------------------------------------------------------------


def test_dimensions_that_are_not_known_stay_so() -> None:
    assert (plus(2, 3), plus("N", 0), plus("N", 1), plus("N", "M"), plus("?", 0)) == (5, "N", "?", "?", "?")
    assert (times(2, 3), times("N", 1), times("N", 2), times("N", 0), times("N", "N")) == (6, "N", "?", 0, "?")
    assert (over(7, 2), over("N", 1), over("N", 2), over(4, "N")) == (3, "N", "?", "?")
    assert (most(2, 3), most("N", "N"), most("N", 3), most("?", "?")) == (3, "N", "?", "?")


def test_shapes_are_broadcast_as_numpy_does_it() -> None:
    assert broadcast((2, 1, 3), (4, 1)) == (2, 4, 3)
    assert broadcast((), (5,)) == (5,)
    assert broadcast(("N", 3), (1, 3)) == ("N", 3)
    assert broadcast(("N", 3), ("M", 3)) == ("?", 3)
    assert broadcast(("N", 1), (4, 0)) == (4, 0)
    assert broadcast(None, (3,)) is None
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast((2,), (3,))


# --- whole models -----------------------------------------------------------------------------


def inspected(path: Path, *shapes: str) -> Source:
    """The model before the run: everything in it has a shape and a cost."""
    found = source_of(load_model(path), parse_shapes(shapes), feed=False)
    assert found.model.shape_coverage == 1.0
    assert inspection_of(found).unsupported == ()
    return found


def assert_runtime_agrees(path: Path, found: Source, feeds: Mapping[str, Array] = MappingProxyType({})) -> None:
    """Every tensor that a node makes has the shape and the dtype in the run that was known before it."""
    model = onnx.load(path)
    known = {tensor.name: tensor for node in found.nodes for tensor in node.op.outputs if tensor is not None}
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in known)
    drawn = np.random.default_rng(0)
    values = dict(feeds)
    for tensor in found.model.inputs:
        if tensor.name not in values:
            kind = helper.tensor_dtype_to_np_dtype(NUMBERS[tensor.dtype])
            values[tensor.name] = drawn.integers(0, 2, tensor.shape).astype(kind)
    results = session_of(model).run(None, values)
    made = {name: seen(name, value) for name, value in zip(known, results, strict=True)}
    plain = {name: Tensor(name=name, dtype=tensor.dtype, shape=tensor.shape) for name, tensor in known.items()}
    assert plain == made


def optimised(name: str, path: Path, level: str) -> Path:
    """A sample as ONNX Runtime writes it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path / f"{name}.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(SAMPLES / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
    return path / f"{name}.onnx"


def kinds(found: Source, domain: str = MS) -> set[str]:
    return {node.op.op_type for node in found.nodes if node.op.domain == domain}


@pytest.mark.parametrize(
    ("name", "level", "shape", "domain", "fused"),
    [
        ("transformer_block", "ORT_ENABLE_EXTENDED", "input_ids:2x7", MS,
         {"SkipLayerNormalization", "BiasGelu", "FusedMatMul"}),
        ("qdq_cnn", "ORT_ENABLE_ALL", "image:2x3x*", MS, {"QLinearAdd", "QLinearGlobalAveragePool", "QGemm"}),
        ("resnet_tiny", "ORT_ENABLE_ALL", "image:2x3x*", "", set()),
    ],
)  # fmt: skip
def test_what_the_optimiser_wrote(
    name: str, level: str, shape: str, domain: str, fused: set[str], tmp_path: Path
) -> None:
    path = optimised(name, tmp_path, level)
    if shape.endswith("*"):
        declared = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
        shape = "image:" + "x".join(str(dim.dim_value or 2) for dim in declared)
    found = inspected(path, shape)
    assert fused <= kinds(found, domain)
    assert_runtime_agrees(path, found)


def node(op_type: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> NodeProto:
    """Names are parted by spaces; ``-`` is an omitted one."""
    read, made = (["" if name == "-" else name for name in names.split()] for names in (inputs, outputs))
    return helper.make_node(op_type, read, made, name=made[0], domain=domain, **attributes)


def saved(path: Path, nodes: Sequence[NodeProto], inputs: str, outputs: str, weights: Mapping[str, Array]) -> Path:
    """A model whose inputs and outputs are written ``name:dtype:dims``; inner tensors declare nothing."""

    def infos(text: str) -> list[onnx.ValueInfoProto]:
        parts = [token.split(":") for token in text.split()]
        return [
            helper.make_tensor_value_info(
                name, NUMBERS[SHORT[kind]], [int(dim) if dim.isdigit() else dim for dim in dims.split(",")]
            )
            for name, kind, dims in parts
        ]

    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), constants)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


WIDTH, KV_WIDTH, INNER, WORDS = 64, 32, 96, 50  # 4 heads of 16, 2 for keys


def decoder_layer(path: Path) -> Path:
    """A layer as ONNX Runtime's model builder writes it: 4-bit weights, grouped-query attention, RMS norms."""
    drawn = np.random.default_rng(2)
    weights: dict[str, Array] = {"embedding": drawn.uniform(-1, 1, (WORDS, WIDTH)).astype(np.float32)}
    angles = np.arange(32)[:, None] / 10000 ** (np.arange(8) / 8)
    weights |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    weights |= {name: np.ones(WIDTH, np.float32) for name in ("norm0", "norm1", "norm2")}
    weights |= {"one": np.array(1, np.int64), "last": np.array([1], np.int64)}

    def linear(x: str, y: str, k: int, n: int) -> NodeProto:
        weights[f"{y}_w"] = drawn.integers(0, 255, (n, k // 32, 16)).astype(np.uint8)
        weights[f"{y}_s"] = np.full(n * k // 32, 0.01, np.float32)
        return node("MatMulNBits", f"{x} {y}_w {y}_s", y, MS, K=k, N=n, bits=4, block_size=32)

    heads = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    nodes = [
        node("ReduceSum", "mask last", "counts", keepdims=0), node("Sub", "counts one", "before"),
        node("Cast", "before", "seqlens", to=TensorProto.INT32),
        node("Shape", "mask", "dims"), node("Gather", "dims one", "total64", axis=0),
        node("Cast", "total64", "total", to=TensorProto.INT32),
        node("Gather", "embedding ids", "h0"),
        node("SimplifiedLayerNormalization", "h0 norm0", "n0", axis=-1, epsilon=1e-5),
        linear("n0", "q", WIDTH, WIDTH), linear("n0", "k", WIDTH, KV_WIDTH), linear("n0", "v", WIDTH, KV_WIDTH),
        node("GroupQueryAttention", "q k v past_k past_v seqlens total cos sin", "attended new_k new_v", MS, **heads),
        linear("attended", "o", WIDTH, WIDTH),
        node("SkipSimplifiedLayerNormalization", "h0 o norm1", "n1 - - h1", MS, epsilon=1e-5),
        linear("n1", "gate", WIDTH, INNER), linear("n1", "up", WIDTH, INNER),
        node("QuickGelu", "gate", "act", MS, alpha=1.0), node("Mul", "act up", "product"),
        linear("product", "down", INNER, WIDTH),
        node("SkipSimplifiedLayerNormalization", "h1 down norm2", "n2", MS, epsilon=1e-5),
        linear("n2", "logits", WIDTH, WORDS),
    ]  # fmt: skip
    return saved(
        path, nodes,
        "ids:i64:batch,length mask:i64:batch,total past_k:f:batch,2,past,16 past_v:f:batch,2,past,16",
        f"logits:f:batch,length,{WORDS} new_k:f:batch,2,total,16 new_v:f:batch,2,total,16", weights,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("length", "past", "total"), [(6, 0, 6), (1, 6, 7), (1, 12, 7)], ids=["prompt", "token", "token in a buffer"]
)
def test_a_decoder_layer_of_the_model_builder(length: int, past: int, total: int, tmp_path: Path) -> None:
    path = decoder_layer(tmp_path / "m.onnx")
    if not past:  # a command line names no empty tensor
        model = onnx.load(path)
        for info in model.graph.input[2:]:
            info.type.tensor_type.shape.dim[2].dim_value = 0
        onnx.save(model, path)
    shapes = [f"ids:2x{length}", f"mask:2x{total}"]
    shapes += [f"{name}:2x2x{past}x16" for name in ("past_k", "past_v") if past]
    found = inspected(path, *shapes)
    made = {tensor.name: tensor.shape for each in found.nodes for tensor in each.op.outputs if tensor is not None}
    assert made["new_k"] == (2, 2, max(past, total), 16)
    assert_runtime_agrees(path, found, {"mask": np.ones((2, total), np.int64)})


# --- ops that ONNX Runtime files under ai.onnx --------------------------------------------------


def runtime_op(path: Path, op_type: str, inputs: str, opset: int) -> Path:
    weights = {"w": np.ones(4, np.float32)}
    nodes = [node(op_type, inputs, "y"), node("Relu", "y", "z")]
    saved(path, nodes, "x:f:2,3,4", "z:f:2,3,4", weights)
    model = onnx.load(path)
    del model.opset_import[:]
    model.opset_import.add(domain="", version=opset)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("op_type", "inputs", "opset"), [("SimplifiedLayerNormalization", "x w", 17), ("LayerNormalization", "x w w", 12)]
)
def test_the_checker_lets_them_pass(op_type: str, inputs: str, opset: int, tmp_path: Path) -> None:
    path = runtime_op(tmp_path / "m.onnx", op_type, inputs, opset)
    before = onnx.load(path).SerializeToString(deterministic=True)
    loaded = load_model(path)
    assert loaded.full().SerializeToString(deterministic=True) == before
    found = inspected(path)
    assert [tensor.shape for tensor in found.nodes[0].op.outputs if tensor] == [(2, 3, 4)]
    assert_runtime_agrees(path, found)
