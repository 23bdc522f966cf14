"""Shape rules against ONNX Runtime: what it makes where the CPU has the op, what it infers itself where not.

Inputs are written ``dtype:shape``; ``dtype=values`` is a constant vector and ``dtype:=value`` a constant scalar,
``!`` makes a constant of any other, ``-`` is an omitted input. Expected outputs are written the same way.
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

from profiler import onnx_graph
from profiler.errors import ModelError
from profiler.inspection import inspection_of
from profiler.records import Dim, Op, Source, Tensor
from profiler.source.load import load_model, source_of
from profiler.source.shape_rules import RULES, has_rule, outputs_by_rule, rule
from profiler.source.shape_rules._dims import axis_of, broadcast, matmul, most, over, plus, times
from profiler.source.shapes import parse_shapes
from support import SAMPLES

Array = npt.NDArray[Any]
MS, ML = "com.microsoft", "ai.onnx.ml"
NCHWC, NHWC = "com.microsoft.nchwc", "com.ms.internal.nhwc"
NUMBERS = {name: number for number, name in onnx_graph.DTYPES.items()}
SHORT = {"f": "fp32", "d": "fp64", "h": "fp16", "u8": "uint8", "s8": "int8", "i16": "int16", "u16": "uint16",
         "i32": "int32", "i64": "int64", "u32": "uint32", "b": "bool", "s": "string", "f8": "fp8e4m3fn",
         "bf": "bf16", "i4": "int4", "u4": "uint4"}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<kind>[a-z]+\d*)(?::=?(?P<scalar>(?<==)-?\w+)?(?P<dims>[\dx]*)|=(?P<values>[-\w,]*))(?P<fixed>!?)"
)


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
    proto: TensorProto | None
    """Its elements; None for a dtype that numpy does not have."""


def tokens(text: str) -> Iterator[Tensor | None]:
    """The tensors that a text describes."""
    for index, token in enumerate(text.split()):
        if token == "-":
            yield None
            continue
        match = _TOKEN.fullmatch(token)
        assert match, token
        kind = SHORT[match["kind"]]
        given = (match["scalar"] or match["values"] or "").split(",") if match["scalar"] or match["values"] else None
        shape: tuple[int, ...] = (len(given),) if given and match["values"] else ()
        if match["dims"]:
            shape = tuple(map(int, match["dims"].split("x")))
        value = tuple(map(int, given)) if given and kind in ("int32", "int64", "bool") else None
        constant = given is not None or bool(match["fixed"])
        yield Tensor(name=f"x{index}", dtype=kind, shape=shape, constant=constant, value=value)


def elements(text: str) -> Sequence[Read | None]:
    """The inputs of a case with elements: those given, else small numbers that any op takes."""
    found: list[Read | None] = []
    for token, tensor in zip(text.split(), tokens(text), strict=True):
        if tensor is None:
            found.append(None)
            continue
        shape = tuple(dim for dim in tensor.shape or () if isinstance(dim, int))
        if tensor.dtype in ("int4", "uint4"):
            ones = [1] * int(np.prod(shape))
            found.append(Read(tensor, helper.make_tensor(tensor.name, NUMBERS[tensor.dtype], shape, ones)))
            continue
        given = re.search(r"=(.+)", token)
        if tensor.dtype == "string":
            array = np.array(given[1].split(",") if given else ["a b"] * int(np.prod(shape)), dtype=object).reshape(
                shape
            )
        else:
            kind = helper.tensor_dtype_to_np_dtype(NUMBERS[tensor.dtype])
            if given:
                array = np.array([int(item) for item in given[1].split(",")]).reshape(shape).astype(kind)
            elif kind.kind == "f":
                array = np.random.default_rng(len(token)).uniform(0.1, 0.9, shape).astype(kind)
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
        [read.proto for read in reads if read is not None and read.tensor.constant and read.proto is not None],
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
        if read is not None and read.proto is not None and not read.tensor.constant
    }
    results = dict(zip(names, session_of(model).run(None, feeds), strict=True))
    op = onnx_graph.op_of(model.graph.node[0], opsets_of(case), [read and read.tensor for read in reads])
    return op, [seen(name, results[name]) if name else None for name in asked(case)]


def keyed(cases: Sequence[Case]) -> dict[str, Case]:
    return {f"{index} {case.op_type}": case for index, case in enumerate(cases)}


def present(domain: str, op_type: str) -> None:
    if (domain, op_type) not in schemas() and domain:
        pytest.skip(f"this ONNX Runtime has no {op_type}")


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
    assert known - set(RULES.keys()) - set(WITHOUT) == set()


def test_no_reason_is_stale() -> None:
    assert set(WITHOUT) & set(RULES.keys()) == set()


def test_every_rule_is_held_against_something() -> None:
    held = {(case.domain, case.op_type) for case in (*CASES.values(), *(case for case, _ in INFERRED.values()))}
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
    Case("Attention", "f:2x4x10 f:10x48", HEADS, 2),
    Case("Attention", "f:2x3x10 f:10x48 f:48 - f:2x2x2x1x8", HEADS, 2),
    Case("Attention", "f:2x4x10 f:10x40 f:40", {**HEADS, "qkv_hidden_sizes": [16, 16, 8]}),
    Case("QAttention", "u8:1x4x10 s8:10x48 f:48 f:1 f:1 - u8:1 s8:1", HEADS),
    Case("QAttention", "u8:2x4x10 s8:10x48 f:48 f:1 f:1 - u8:1 s8:1 f:2x2x2x3x8", HEADS, 2),
    Case("MultiHeadAttention", "f:1x3x16 f:1x4x16 f:1x4x16 f:48", HEADS),
    Case("MultiHeadAttention", "f:2x3x16 f:2x4x16 f:2x4x24", HEADS, 3),
    Case("MultiHeadAttention", "f:2x3x16 f:2x3x16 f:2x3x16 - - - f:2x2x5x8 f:2x2x5x8", HEADS, 4),
    Case("MultiHeadAttention", "f:1x3x16 f:1x2x4x8 f:1x2x4x8", HEADS),
    Case("MultiHeadAttention", "f:1x1x16 f:1x1x16 f:1x1x16 - - - f:1x2x9x8 f:1x2x9x8 i32=3", HEADS, 3),
    Case("DecoderMaskedMultiHeadAttention", "f:1x1x16 f:1x1x16 f:1x1x16 - - f:1x2x9x8 f:1x2x9x8 i32=3",
         {**HEADS, "past_present_share_buffer": 1}, 3),
    Case("DecoderMaskedMultiHeadAttention", "f:1x1x16 f:1x2x5x8 f:1x2x5x8 - - - - - - - f:48", HEADS),
    Case("GroupQueryAttention", "f:1x4x32 f:1x4x16 f:1x4x16 f:1x2x0x8 f:1x2x0x8 i32=3 i32:=4", GQA, 3),
    Case("GroupQueryAttention", "f:1x4x32 f:1x4x16 f:1x4x16 - - i32=3 i32:=4", GQA, 3),
    Case("GroupQueryAttention", "f:1x1x32 f:1x1x16 f:1x1x16 f:1x2x9x8 f:1x2x9x8 i32=3 i32:=4", GQA, 3),
    Case("GroupQueryAttention", "f:1x1x64 - - f:1x2x3x8 f:1x2x3x8 i32=3 i32:=4", GQA, 3),
    Case("GroupQueryAttention", "h:2x2x32 h:2x2x16 h:2x2x16 h:2x2x3x8 h:2x2x3x8 i32=4,4 i32:=5",
         {**GQA, "qk_output": 1}, 4),
    Case("GroupQueryAttention", "f:1x4x64 - - f:1x2x0x8 f:1x2x0x8 i32=3 i32:=4 f:9x4 f:9x4",
         {**GQA, "do_rotary": 1}, 3),
    Case("GroupQueryAttention", "f:1x1x32 f:1x1x16 f:1x1x16 f:1x2x0x8 f:1x2x0x8 i32=0 i32:", GQA, 3, data=True),
    Case("SparseAttention", "f:1x16x32 f:1x16x16 f:1x16x16 f:1x2x32x8 f:1x2x32x8 i32:1x3 i32:1x3 i32:=16 i32=16",
         {**GQA, "sparse_block_size": 16}, 3) if False else
    Case("RotaryEmbedding", "f:2x2x3x8 i64=0 f:16x4 f:16x4"),
    Case("RotaryEmbedding", "f:2x3x16 i64:2x3 f:16x4 f:16x4", HEADS | {"rotary_embedding_dim": 8}),
    Case("MRotaryEmbedding", "f:1x2x3x8 i64:3x1x3 f:16x4 f:16x4", {"mrope_section": [2, 1, 1]}),
    Case("LinearAttention", "f:2x3x8 f:2x3x8 f:2x3x12 f:2x2x4x6 f:2x3x2 f:2x3x2", DELTA, 2),
    Case("LinearAttention", "f:2x3x8 f:2x3x4 f:2x3x6 - f:2x3x4",
         {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": "gated"}, 2),
    Case("LinearAttention", "f:2x3x4 f:2x3x8 f:2x3x12",
         {"q_num_heads": 1, "kv_num_heads": 2, "update_rule": "linear"}, 2),
    Case("LinearAttention", "f:2x3x8 f:2x3x8 f:2x3x12 - f:2x3x2 f:2x3x2", {**DELTA, "state_window": 2}, 2),
    Case("LinearAttentionGate", "f:1x2x3 f:3 f:3 f:1x2x3", {}, 2),
    Case("LinearAttentionGate", "f:1x2x3 f:3 f:3"),
    Case("CausalConvWithState", "f:2x3x5 f:3x1x4 f:3 f:2x3x3", {}, 2),
    Case("CausalConvWithState", "f:2x3x5 f:3x1x4", {}, 2),
    Case("CausalConvWithState", "f:2x3x5 f:3x1x4", {"dilation": 2, "state_window": 2}, 2),
    Case("CausalConvWithState", "f:2x5x3 f:3x1x4", {"channels_last": 1}, 2),
    Case("EngramGate", "f:1x2x3x4 f:1x2x3x4 f:1x2x4 f:3x4 f:3x4 f:3x4", {}, 2),
    Case("BranchwiseRMSNorm", "f:2x3x4 f:4"),
    Case("HyperConnectionPreMix", "f:2x3x4 f:2x3"),
    Case("HyperConnectionPreMix", "f:2x12 f:2x12", {"num_branches": 3}),
    Case("HyperConnectionPostMix", "f:2x3x4 f:2x4 f:2x3 f:2x3x3"),
]  # fmt: skip

PRODUCTS = [
    Case("FusedMatMul", "f:2x4x3 f:2x4x5", {"transA": 1}),
    Case("FusedMatMul", "f:3x4 f:2x7x4x5"),
    Case("FusedMatMul", "f:2x3x4 f:2x5x4", {"transB": 1}),
    Case("FusedMatMul", "f:3x2x4 f:2x4x5", {"transBatchA": 1}),
    Case("FusedMatMul", "f:3x2x7x4 f:4x2x7x5", {"transBatchA": 1, "transBatchB": 1}),
    Case("FusedMatMul", "f:4x2x3 f:2x4x5", {"transBatchA": 1, "transA": 1}),
    Case("FusedMatMul", "f:4 f:4x5"),
    Case("FusedMatMul", "f:2x3x4 f:4"),
    Case("TransposeMatMul", "f:1x3x4 f:1x5x4", {"transB": 1}),
    Case("FusedGemm", "f:3x4 f:4x5 f:5", {"activation": "Relu"}),
    Case("FusedGemm", "f:4x3 f:5x4", {"activation": "Relu", "transA": 1, "transB": 1}),
    Case("QGemm", f"u8:3x4 {Q} u8:4x5 {Q} i32:5 {Q}"),
    Case("QGemm", f"u8:3x4 {Q} u8:5x4 {Q}", {"transB": 1}),
    Case("QGemm", "s8:3x4 f: s8: s8:4x5 f: s8: - f: s8:"),
    Case("MatMulIntegerToFloat", "u8:3x4 u8:4x5 f: f: u8: u8: f:5"),
    Case("MatMulIntegerToFloat", "u8:2x1x3x4 s8:7x4x5 f: f:"),
    Case("DynamicQuantizeMatMul", "f:3x4 u8:4x5 f: u8: f:5"),
    Case("DynamicQuantizeMatMul", "f:2x3x4 s8:4x5 f:"),
    Case("MatMulInteger16", "i16:3x4 i16:4x5"),
    Case("MatMulNBits", "f:2x3x32 u8:8x1x16! f:8!", {**BITS, "bits": 4}),
    Case("MatMulNBits", "f:3x32 u8:8x1x16! f:8! u8:8! - f:8", {**BITS, "bits": 4}),
    Case("MatMulNBits", "f:1x1x32 u8:8x1x32! f:8!", {**BITS, "bits": 8}),
    Case("MatMulBnb4", "f:2x3x32 u8:128! f:8!", {**BITS, "quant_type": 1}),
    Case("MatMulBnb4", "f:3x8 u8:128! f:8!", {**BITS, "quant_type": 0, "transB": 0}),
    Case("MatMulFpQ4", "f:2x3x32 u8:160! i64=32,8", {"blk_quant_type": 0}),
    Case("MoE", "f:5x8 f:5x4 f:4x6x8 f:4x6 f:4x8x6 f:4x8", {"k": 2, "activation_type": "gelu"}),
    Case("MoE", "f:1x5x8 f:5x4 f:4x6x8 - f:4x8x6", {"k": 1}),
    Case("QMoE", "f:1x32 f:1x4 u8:4x32x16 f:4x32 - u8:4x32x16 f:4x32",
         {"k": 2, "activation_type": "silu", "expert_weight_bits": 4}),
    Case("GatherBlockQuantized", "u8:8x16! i64=1,3 f:8x2!",
         {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1}),
    Case("GatherBlockQuantized", "u8:8x32! i64:2x3 f:8x2! u8:8x2!",
         {"block_size": 16, "bits": 8, "gather_axis": 0, "quantize_axis": 1}),
    Case("GatherBlockQuantized", "i4:8x32! i32:2 f:8x2!", {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}),
    Case("GatherBlockQuantized", "u4:4x3x32! i32:2x5 f:4x3x2!",
         {"block_size": 16, "gather_axis": 1, "quantize_axis": 2}),
]  # fmt: skip

CONVOLUTIONS = [
    Case("FusedConv", "f:1x4x5x5 f:6x4x3x3 f:6 f:1x6x3x3", {"activation": "Relu"}),
    Case("FusedConv", "f:2x4x9x8 f:6x2x3x3", {"activation": "Relu", "group": 2, "strides": [2, 3], "pads": [1, 0, 2, 1]}),
    Case("FusedConv", "f:2x4x9x8 f:6x4x3x2", {"activation": "Relu", "auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    Case("FusedConv", "f:2x4x9x8 f:6x4x3x2", {"activation": "Relu", "auto_pad": "SAME_LOWER"}),
    Case("FusedConv", "f:2x4x9x8 f:6x4x3x2", {"activation": "Relu", "auto_pad": "VALID", "dilations": [2, 2]}),
    Case("FusedConv", "f:2x4x9 f:6x4x3", {"activation": "Relu", "kernel_shape": [3], "dilations": [2]}),
    Case("FusedConv", "f:1x2x5x6x7 f:3x2x2x3x3", {"activation": "Relu"}),
    Case("QLinearConv", f"u8:1x5x6x4 {Q} s8:6x4x3x3! f: s8: {Q}", {"channels_last": 1, "strides": [2, 1]}),
    Case("QLinearConv", f"u8:1x4x5x6 {Q} s8:6x4x3x3! f: s8: {Q} i32:6", {"pads": [1, 1, 1, 1]}),
    Case("ConvTransposeWithDynamicPads", "f:1x4x5x6 f:4x3x3x2 i64=1,0,1,1", {"strides": [2, 3], "group": 2}),
    Case("ConvTransposeWithDynamicPads", "f:1x4x5x6 f:4x3x3x2 - f:3", {"strides": [2, 2], "output_padding": [1, 0]}),
    Case("NhwcMaxPool", "u8:1x6x7x2", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("NhwcMaxPool", "s8:1x6x7x2", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    Case("NhwcMaxPool", "u8:1x7x8x2", {"kernel_shape": [2, 3], "strides": [3, 3], "ceil_mode": 1, "pads": [0, 1, 0, 1]}),
    Case("NhwcMaxPool", "u8:1x5x5x2",
         {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Case("NhwcMaxPool", "u8:1x9x9x2", {"kernel_shape": [3, 3], "dilations": [2, 2]}),
    Case("MaxpoolWithMask", "f:1x2x6x6 i32:1x2x6x6", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("QLinearAveragePool", f"u8:1x2x6x6 {QQ}", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("QLinearAveragePool", f"u8:1x6x7x3 {QQ}",
         {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1, "ceil_mode": 1}),
    Case("QLinearGlobalAveragePool", f"u8:1x2x6x6 {QQ}"),
    Case("QLinearGlobalAveragePool", f"u8:2x6x6x3 {QQ}", {"channels_last": 1}),
    Case("GridSample", "f:2x3x4x5 f:2x6x7x2"),
    Case("CropAndResize", "f:1x2x6x6 f:3x4 i32=0,0,0 i32=2,3"),
    Case("UnfoldTensor", "f:2x10", {"dim": 1, "size": 3, "step": 2}),
    Case("UnfoldTensor", "f:2x10x4", {"dim": -2, "size": 3}),
    Case("WordConvEmbedding", "i32:3x6 f:5x1x2x4 f:5 f:7x4"),
    Case("WordConvEmbedding", "i32:2x3x6 f:5x1x2x4 f:5 f:7x4", {"embedding_size": 5, "conv_window_size": 2}),
    Case("ReorderInput", "f:2x32x6x6", domain=NCHWC),
    Case("ReorderInput", "f:2x6x6x32", {"channels_last": 1}, domain=NCHWC),
    Case("ReorderInput", "f:2x20x6x6", domain=NCHWC, data=True),
    Case("ReorderOutput", "f:2x32x6x6", {"channels": 20}, domain=NCHWC),
    Case("ReorderOutput", "f:2x32x6x6", {"channels": 32, "channels_last": 1}, domain=NCHWC),
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
    Case("SkipLayerNormalization", "f:2x3x4 f:3x4 f:4 f:4 f:4", {}, "1001"),
    Case("SkipLayerNormalization", "h:2x3x4 h:1x3x4 h:4", {}, "1001"),
    Case("SkipSimplifiedLayerNormalization", "f:1x3x4 f:1x3x4 f:4", {}, "1001"),
    Case("SkipSimplifiedLayerNormalization", "f:3x4 f:3x4 f:4 f:4"),
    Case("EmbedLayerNormalization", "i32:2x3 i32:2x3 f:9x4 f:8x4 f:2x4 f:4 f:4", {}, 2),
    Case("EmbedLayerNormalization", "i32:1x3 - f:9x4 f:8x4 - f:4 f:4 i32:1x3", {}, 3),
    Case("EmbedLayerNormalization", "i32:2x3 i32:2x3 f:9x4 f:8x4 f:2x4 f:4 f:4", {}, "101"),
    Case("QEmbedLayerNormalization",
         f"i32:1x2 i32:1x2 u8:9x4! u8:8x4! u8:2x4! u8:4! u8:4! - {'f: ' * 5}{'u8: ' * 5}", {}, 2),
    Case("QuantizeLinear", f"f:2x3 {Q}"),
    Case("QuantizeLinear", "f:2x3 f:"),
    Case("QuantizeLinear", "f:2x3 f:3 s8:3", {"axis": 1}),
    Case("DequantizeLinear", f"u8:2x3 {Q}"),
    *(Case(name, f"u8:2x1x3 {Q} u8:4x3 {QQ}") for name in ("QLinearAdd", "QLinearMul")),
    Case("QLinearAdd", f"u8:1x4 {Q} u8:1x4 f: - {Q}"),
    Case("QLinearSigmoid", f"u8:2x3 {QQ}"),
    Case("QLinearLeakyRelu", f"u8:2x3 {QQ}", {"alpha": 0.1}),
    Case("QLinearSoftmax", f"u8:2x4 {QQ}", {"axis": -1, "opset": 13}),
    Case("QLinearWhere", "b:3 u8:2x3 f:! u8:! u8:1 f:! u8:! f:! u8:!"),
    Case("QLinearConcat", "f:! u8:! u8:2x3 f:! u8:! u8:2x1 f:! u8:!", {"axis": 1}),
    Case("QLinearConcat", "f:! s8:! s8:2x3x4 f:! s8:! s8:5x3x4 f:! s8:! s8:1x3x4 f:! s8:!", {"axis": -3}),
    Case("MurmurHash3", "i32:3"),
    Case("MurmurHash3", "i64:2x3", {"positive": 0}),
    Case("LayerNormalization", "f:2x3x4 f:4 f:4", {}, 3, "", 12),
    Case("LayerNormalization", "f:2x3x4 f:3x4", {"axis": 1}, "101", "", 16),
    Case("SimplifiedLayerNormalization", "f:2x3x4 f:4", {}, 2, ""),
    Case("SimplifiedLayerNormalization", "h:2x3x4 h:4", {"axis": -1}, 1, ""),
    Case("Affine", "f:2x3", domain="", version=8),
    Case("ParametricSoftplus", "f:2x3", domain="", version=8),
    Case("ScaledTanh", "f:2x3", domain="", version=8),
    Case("ImageScaler", "f:1x3x2x2", {"bias": [0.0, 0.0, 0.0]}, domain="", version=8),
]  # fmt: skip

TENSORS = [
    *(Case("ExpandDims", f"f:2x3 i32:={axis}") for axis in (0, 1, -1, -3)),
    Case("ExpandDims", "f:2x3 i32=1"),
    Case("ExpandDims", "f:2x3 i32:", data=True),
    Case("Pad", "f:2x3 i64=0,1,2,3"),
    Case("Pad", "f:2x3 i64=0,-1,2,0 f:"),
    Case("Pad", "f:2x3 i64:4", data=True),
    Case("Range", "i64:=0 i64:=10 i64:=3"),
    Case("Range", "i32=2 i32=7"),
    Case("Range", "i64:=5 i64:=-4 i64:=-2"),
    Case("Range", "f:=0 f:=10 f:=2", data=True),
    Case("Unique", "f:8", {}, 3, data=True),
    Case("GatherND", "f:2x3x4 i64:5x2"),
    Case("GatherND", "f:2x3x4 i32:5x6x1"),
    Case("CDist", "f:3x4 f:5x4", {"metric": "euclidean"}),
    Case("DynamicTimeWarping", "f:4x6", data=True),
    Case("BifurcationDetector", "i64:5 i64:2 i64: i64:6", {}, 2, data=True),
    Case("Tokenizer", "s:2x3", {"mark": 0, "mincharnum": 1, "pad_value": "#", "separators": [" "]}, data=True),
    Case("NGramRepeatBlock", "i64:2x4 f:2x9", {"ngram_size": 3}),
    Case("NGramHashMapping", "i64:2x4 i64=3,5,7 i64=11,13,17,19", NGRAM, 2),
    Case("VarlenNGramHashMapping", "i64:8 i64=3,5,7 i64=11,13,17,19 i32=0,3,8", NGRAM, 2),
    Case("VarlenNGramHashMapping",
         "i64:8 i64=3,5,7 i64=11,13,17,19 i32=0,3,8 - - - i32:8 i32:2x2 i32:2",
         {**NGRAM, "state_update_capacity": 2}, 4),
    Case("DynamicQuantizeLSTM", "f:5x2x3 u8:1x3x16! u8:1x4x16! f:1x32 - - - - f:1! u8:1! f:1! u8:1!",
         {"hidden_size": 4}, 3),
    Case("DynamicQuantizeLSTM", "f:5x1x3 u8:2x3x16! u8:2x4x16! - - - - - f:2! u8:2! f:2! u8:2!",
         {"hidden_size": 4, "direction": "bidirectional"}, "011"),
    Case("AttnLSTM", "f:5x2x3 f:1x16x9 f:1x16x4 f:1x32 - - - - f:1x4x7 f:1x6x7 f:1x7 f:2x8x6", {"hidden_size": 4}, 3),
    Case("AttnLSTM",
         "f:5x2x3 f:1x16x8 f:1x16x4 - - - - - f:1x4x7 f:1x6x7 f:1x7 f:2x8x6 i32=8,5 f:1x10x5", {"hidden_size": 4}, 3),
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
KERNEL = {"kernel_type": "RBF", "kernel_params": [0.5, 0.25, 3.0]}
PAIR = {**KERNEL, "vectors_per_class": [1, 1], "support_vectors": [0.1] * 6, "coefficients": [0.5, -0.5], "rho": [0.1]}
THREE = {**KERNEL, "vectors_per_class": [1, 2, 1], "support_vectors": [0.1] * 12, "coefficients": [0.5, -0.5] * 4,
         "rho": [0.1] * 3}  # fmt: skip
FOUR = {**KERNEL, "vectors_per_class": [1] * 4, "support_vectors": [0.1] * 12, "coefficients": [0.5, -0.5] * 6,
        "rho": [0.1] * 6}  # fmt: skip
TREE_5: dict[str, Any] = {
    "tree_roots": [0], "nodes_featureids": [1], "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [1], [0]),
    "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [1], [0.5]), "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1], "nodes_trueleafs": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
    "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]), "n_targets": 3,
}  # fmt: skip
DOUBLES = {"nodes_splits": helper.make_tensor("s", TensorProto.DOUBLE, [1], [0.5]),
           "leaf_weights": helper.make_tensor("w", TensorProto.DOUBLE, [2], [1.0, 2.0])}  # fmt: skip


def ml(op_type: str, inputs: str, outputs: int = 1, version: int = 3, **attributes: Any) -> Case:
    return Case(op_type, inputs, attributes, outputs, ML, version, data=op_type == "CastMap")


def on_any_rows(make: Callable[[str], Case], *, vector: bool = True) -> Iterator[Case]:
    """A case for a matrix, for one row, and for a vector."""
    yield from map(make, ["f:2x3", "f:1x3", "d:2x3", "i64:2x3", *(["f:3"] if vector else [])])


FEATURES = [
    *on_any_rows(lambda x: ml("Scaler", x, offset=[1.0], scale=[2.0])),
    *on_any_rows(lambda x: ml("Normalizer", x, norm="L1")),
    *(ml("Imputer", x, imputed_value_floats=[1.0], replaced_value_float=0.0) for x in ("f:2x3", "f:3", "f:2x3x4")),
    ml("Imputer", "i64:2x3", imputed_value_int64s=[1], replaced_value_int64=0),
    *(ml("Binarizer", x, threshold=0.5) for x in ("f:2x3", "f:3")),
    ml("LabelEncoder", "i64:4", keys_int64s=[1], values_floats=[0.5]),
    ml("LabelEncoder", "f:2x2", keys_floats=[1.0], values_int64s=[3]),
    ml("LabelEncoder", "s:2x2", keys_strings=["a"], values_strings=["b"]),
    ml("LabelEncoder", "i64:4", version=1, classes_strings=["a", "b"]),
    ml("LabelEncoder", "s:4", version=1, classes_strings=["a", "b"]),
    ml("CategoryMapper", "i64:2", cats_int64s=[1], cats_strings=["a"]),
    ml("CategoryMapper", "s:2x2", cats_int64s=[1], cats_strings=["a"]),
    *on_any_rows(lambda x: ml("OneHotEncoder", x, cats_int64s=[1, 2, 3, 5], zeros=1)),
    ml("OneHotEncoder", "s:2", cats_strings=["a b", "c"]),
    *(ml("ArrayFeatureExtractor", f"{x} {y}") for x in ("f:2x4", "f:4", "i64:1x2x4", "s:2x4")
      for y in ("i64:1", "i64=1,0", "i64:1x2", "i64:=1")),
    ml("FeatureVectorizer", "f:2x3 f:2x2", inputdimensions=[3, 2]),
    ml("FeatureVectorizer", "f:2x3 f:2x2", inputdimensions=[3, 4]),
    ml("FeatureVectorizer", "f:3 f:3", inputdimensions=[3, 3]),
    ml("FeatureVectorizer", "d:2x3", inputdimensions=[3]),
    ml("ZipMap", "f:2x3", classlabels_int64s=[1, 2, 3]),
    ml("ZipMap", "f:2x2", classlabels_strings=["a", "b"]),
]  # fmt: skip

MODELS = [
    *on_any_rows(lambda x: ml("LinearClassifier", x, 2, coefficients=[0.1] * 9, intercepts=[1.0] * 3,
                              classlabels_ints=[4, 5, 6])),
    *on_any_rows(lambda x: ml("LinearClassifier", x, 2, coefficients=[0.1] * 3, intercepts=[1.0],
                              classlabels_strings=["a", "b"], post_transform="LOGISTIC")),
    ml("LinearClassifier", "f:2x3", 2, coefficients=[0.1] * 6, intercepts=[1.0, 2.0], classlabels_ints=[0, 1]),
    *(ml("LinearRegressor", x, coefficients=[0.1] * 6, intercepts=[1.0, 2.0], targets=2)
      for x in ("f:2x3", "f:1x3", "f:3")),
    ml("LinearRegressor", "f:2x3", coefficients=[0.1] * 3),
    *(ml("SVMRegressor", x, n_supports=2, support_vectors=[0.1] * 6, coefficients=[1.0, -1.0], rho=[0.5], **KERNEL)
      for x in ("f:2x3", "f:1x3", "f:3")),
    ml("SVMRegressor", "f:2x3", coefficients=[0.1] * 3, rho=[0.5], kernel_type="LINEAR"),
    *on_any_rows(lambda x: ml("SVMClassifier", x, 2, classlabels_ints=[4, 5, 6], **THREE)),
    ml("SVMClassifier", "f:2x3", 2, classlabels_ints=[4, 5, 6], prob_a=[0.1] * 3, prob_b=[0.1] * 3, **THREE),
    ml("SVMClassifier", "f:2x3", 2, classlabels_strings=list("abcd"), **FOUR),
    ml("SVMClassifier", "f:2x3", 2, classlabels_ints=[4, 5, 6, 7], prob_a=[0.1] * 6, prob_b=[0.1] * 6, **FOUR),
    ml("SVMClassifier", "f:2x3", 2, classlabels_ints=[4, 5], **PAIR),
    ml("SVMClassifier", "f:2x3", 2, classlabels_strings=["a", "b"], prob_a=[0.1], prob_b=[0.1], **PAIR),
    ml("SVMClassifier", "f:2x3", 2, classlabels_ints=[4, 5, 6], kernel_type="LINEAR", coefficients=[0.5] * 9,
       rho=[0.1] * 3, kernel_params=[0.5, 0.25, 3.0]),
    *on_any_rows(lambda x: ml("TreeEnsembleClassifier", x, 2, classlabels_int64s=[0, 1], **CLASSES), vector=False),
    ml("TreeEnsembleClassifier", "f:2x3", 2, classlabels_strings=["a", "b", "c"], **CLASSES),
    ml("TreeEnsembleClassifier", "f:2x3", 2, classlabels_int64s=[7], **CLASSES),
    *(ml("TreeEnsembleRegressor", x, n_targets=2, **TARGETS) for x in ("f:2x3", "f:1x3", "d:2x3")),
    ml("TreeEnsembleRegressor", "f:2x3", 1, 1, **TARGETS),
    ml("TreeEnsemble", "f:2x3", 1, 5, **TREE_5),
    ml("TreeEnsemble", "d:1x3", 1, 5, **TREE_5 | DOUBLES),
]  # fmt: skip

CASES = keyed([*ATTENTION, *PRODUCTS, *CONVOLUTIONS, *ELEMENTWISE, *TENSORS, *FEATURES, *MODELS])
