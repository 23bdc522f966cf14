"""A fused op counts as many FLOP as the plain ops that it stands for, as one kernel."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from tests.fakes.counting import flops, work
from trtprof.base import onnx_graph
from trtprof.base.records import Op, Work
from trtprof.cost.fused import work_of_group


def graph_of(text: str) -> tuple[list[Op], list[str]]:
    """The ops of a graph in ONNX's textual form, and what it returns."""
    header = '<ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]>'
    model = onnx.shape_inference.infer_shapes(parser.parse_model(header + text))
    return [node.op for node in onnx_graph.nodes_in(model)], [output.name for output in model.graph.output]


def plain(text: str) -> Work:
    """The work of the graph as one kernel."""
    found = work_of_group(*graph_of(text))
    assert found is not None
    return found


def fused(text: str) -> Work:
    """The work of the one op of the graph."""
    (op,), _ = graph_of(text)
    return work(op)


BYTES: dict[str, tuple[str, str]] = {
    "FusedConv": (
        """g (float[1,4,5,5] x, float[6,4,3,3] w, float[6] b, float[1,6,3,3] z) => (float[1,6,3,3] y) {
            y = com.microsoft.FusedConv <activation = "Relu"> (x, w, b, z) }""",
        """g (float[1,4,5,5] x, float[6,4,3,3] w, float[6] b, float[1,6,3,3] z) => (float[1,6,3,3] y) {
            c = Conv(x, w, b)  s = Add(c, z)  y = Relu(s) }""",
    ),
    "FusedGemm": (
        """g (float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y) {
            y = com.microsoft.FusedGemm <activation = "LeakyRelu", alpha = 0.5> (a, b, c) }""",
        """g (float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y) {
            m = Gemm <alpha = 0.5> (a, b, c)  y = LeakyRelu(m) }""",
    ),
    "GemmFastGelu": (
        """g (float[2,3,4] a, float[4,5] b, float[5] c) => (float[2,3,5] y) {
            y = com.microsoft.GemmFastGelu(a, b, c) }""",
        """g (float[2,3,4] a, float[4,5] b, float[5] c) => (float[2,3,5] y) {
            m = MatMul(a, b)  s = Add(m, c)  y = Gelu <approximate = "tanh"> (s) }""",
    ),
    "BiasGelu": (
        "g (float[3,4] a, float[4] b) => (float[3,4] y) { y = com.microsoft.BiasGelu(a, b) }",
        "g (float[3,4] a, float[4] b) => (float[3,4] y) { s = Add(a, b)  y = Gelu(s) }",
    ),
    "FastGelu": (
        "g (float[3,4] a, float[4] b) => (float[3,4] y) { y = com.microsoft.FastGelu(a, b) }",
        """g (float[3,4] a, float[4] b) => (float[3,4] y) {
            s = Add(a, b)  y = Gelu <approximate = "tanh"> (s) }""",
    ),
    "BiasSplitGelu": (
        "g (float[2,3,8] a, float[8] b) => (float[2,3,4] y) { y = com.microsoft.BiasSplitGelu(a, b) }",
        """g (float[2,3,8] a, float[8] b) => (float[2,3,4] y) {
            s = Add(a, b)  l, r = Split <axis = 2, num_outputs = 2> (s)  t = Gelu(r)  y = Mul(l, t) }""",
    ),
    "BiasAdd": (
        "g (float[2,3,4] a, float[4] b, float[2,3,4] c) => (float[2,3,4] y) { y = com.microsoft.BiasAdd(a, b, c) }",
        "g (float[2,3,4] a, float[4] b, float[2,3,4] c) => (float[2,3,4] y) { s = Add(a, b)  y = Add(s, c) }",
    ),
    "BiasSoftmax": (
        """g (float[2,3,4] a, float[2,1,4] b) => (float[2,3,4] y) {
            y = com.microsoft.BiasSoftmax <axis = 2, is_inner_broadcast = 0> (a, b) }""",
        "g (float[2,3,4] a, float[2,1,4] b) => (float[2,3,4] y) { s = Add(a, b)  y = Softmax(s) }",
    ),
    "BiasDropout": (
        """g (float[2,3,4] a, float[4] b, float[2,3,4] c) => (float[2,3,4] y) {
            y = com.microsoft.BiasDropout(a, b, c) }""",
        "g (float[2,3,4] a, float[4] b, float[2,3,4] c) => (float[2,3,4] y) { s = Add(a, b)  y = Add(s, c) }",
    ),
    "SkipLayerNormalization": (
        """g (float[2,3,4] x, float[2,3,4] k, float[4] s, float[4] b, float[4] c) => (float[2,3,4] y, float[2,3,4] z) {
            y, , , z = com.microsoft.SkipLayerNormalization(x, k, s, b, c) }""",
        """g (float[2,3,4] x, float[2,3,4] k, float[4] s, float[4] b, float[4] c) => (float[2,3,4] y, float[2,3,4] z) {
            t = Add(x, c)  z = Add(t, k)  y = LayerNormalization(z, s, b) }""",
    ),
    "SkipSimplifiedLayerNormalization": (
        """g (float[2,3,4] x, float[2,3,4] k, float[4] s) => (float[2,3,4] y) {
            y = com.microsoft.SkipSimplifiedLayerNormalization(x, k, s) }""",
        """g (float[2,3,4] x, float[2,3,4] k, float[4] s) => (float[2,3,4] y) {
            z = Add(x, k)  y = RMSNormalization(z, s) }""",
    ),
    "GroupNorm": (
        """g (float[1,4,2,2] x, float[4] s, float[4] b) => (float[1,4,2,2] y) {
            y = com.microsoft.GroupNorm <groups = 2, activation = 1, channels_last = 0> (x, s, b) }""",
        """g (float[1,4,2,2] x, float[4] s, float[4] b) => (float[1,4,2,2] y) <float[1,4,2,2] n> {
            n = GroupNormalization <num_groups = 2> (x, s, b)  g = Sigmoid(n)  y = Mul(n, g) }""",
    ),
    "GatedRMSNorm": (
        """g (float[2,3,4] x, float[4] s, float[2,3,4] z) => (float[2,3,4] y) {
            y = com.microsoft.GatedRMSNorm(x, s, z) }""",
        """g (float[2,3,4] x, float[4] s, float[2,3,4] z) => (float[2,3,4] y) {
            n = RMSNormalization(x, s)  g = Sigmoid(z)  o = Mul(z, g)  y = Mul(n, o) }""",
    ),
    "GatedAdd": (
        "g (float[3,4] a, float[3,4] b, float[3,1] c) => (float[3,4] y) { y = com.microsoft.GatedAdd(a, b, c) }",
        "g (float[3,4] a, float[3,4] b, float[3,1] c) => (float[3,4] y) { m = Mul(b, c)  y = Add(a, m) }",
    ),
    "ScaledSiLU": (
        "g (float[3,4] x, float s) => (float[3,4] y) { y = com.microsoft.ScaledSiLU(x, s) }",
        "g (float[3,4] x, float s) => (float[3,4] y) { z = Mul(x, s)  g = Sigmoid(z)  y = Mul(z, g) }",
    ),
    "LinearAttentionGate": (
        """g (float[1,2,3] a, float[3] b, float[3] s, float[1,2,3] r) => (float[1,2,3] y, float[1,2,3] z) {
            y, z = com.microsoft.LinearAttentionGate(a, b, s, r) }""",
        """g (float[1,2,3] a, float[3] b, float[3] s, float[1,2,3] r) => (float[1,2,3] y, float[1,2,3] z) {
            t = Add(a, b)  p = Softplus(t)  y = Mul(p, s)  z = Sigmoid(r) }""",
    ),
    "GemmaRotaryEmbedding": (
        """g (float[1,3,8] e, float16[1,2,3,8] q, float16[1,2,3,8] r, float16[1,2,3,8] k, float16[1,2,3,8] u)
            => (float16[1,2,3,8] y, float16[1,2,3,8] z) { y, z = com.microsoft.GemmaRotaryEmbedding(e, q, r, k, u) }""",
        """g (float[1,3,8] e, float16[1,2,3,8] q, float16[1,2,3,8] r, float16[1,2,3,8] k, float16[1,2,3,8] u)
            => (float16[1,2,3,8] y, float16[1,2,3,8] z) {
            s = Sin(e)  c = Cos(e)  sh = Cast <to = 10> (s)  ch = Cast <to = 10> (c)
            a = Mul(q, ch)  b = Mul(r, sh)  y = Add(a, b)  d = Mul(k, ch)  f = Mul(u, sh)  z = Add(d, f) }""",
    ),
    "DynamicQuantizeMatMul": (
        """g (float[3,4] a, uint8[4,5] b, float s, uint8 p, float[5] c) => (float[3,5] y) {
            y = com.microsoft.DynamicQuantizeMatMul(a, b, s, p, c) }""",
        """g (float[3,4] a, uint8[4,5] b, float s, uint8 p, float[5] c) => (float[3,5] y) {
            q, t, z = DynamicQuantizeLinear(a)
            m = MatMulInteger(q, b, z, p)  f = Cast <to = 1> (m)  r = Mul(f, s)  y = Add(r, c) }""",
    ),
    "QLinearSigmoid": (
        """g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,4] y) {
            y = com.microsoft.QLinearSigmoid(x, s, z, t, u) }""",
        """g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,4] y) {
            d = DequantizeLinear(x, s, z)  f = Sigmoid(d)  y = QuantizeLinear(f, t, u) }""",
    ),
    "QLinearSoftmax": (
        """g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,4] y) {
            y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, s, z, t, u) }""",
        """g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,4] y) {
            d = DequantizeLinear(x, s, z)  f = Softmax(d)  y = QuantizeLinear(f, t, u) }""",
    ),
    "QLinearAdd": (
        """g (uint8[3,4] a, float s, uint8 z, uint8[4] b, float t, uint8 u, float v, uint8 w) => (uint8[3,4] y) {
            y = com.microsoft.QLinearAdd(a, s, z, b, t, u, v, w) }""",
        """g (uint8[3,4] a, float s, uint8 z, uint8[4] b, float t, uint8 u, float v, uint8 w) => (uint8[3,4] y) {
            c = DequantizeLinear(a, s, z)  d = DequantizeLinear(b, t, u)  e = Add(c, d)
            y = QuantizeLinear(e, v, w) }""",
    ),
    "QLinearWhere": (
        """g (bool[4] k, uint8[4] a, float s, uint8 z, uint8[4] b, float t, uint8 u, float v, uint8 w) => (uint8[4] y) {
            y = com.microsoft.QLinearWhere(k, a, s, z, b, t, u, v, w) }""",
        """g (bool[4] k, uint8[4] a, float s, uint8 z, uint8[4] b, float t, uint8 u, float v, uint8 w) => (uint8[4] y) {
            c = DequantizeLinear(a, s, z)  d = DequantizeLinear(b, t, u)  e = Where(k, c, d)
            y = QuantizeLinear(e, v, w) }""",
    ),
    "QLinearConcat": (
        """g (float v, uint8 w, uint8[3,4] a, float s, uint8 z, uint8[3,2] b, float t, uint8 u) => (uint8[3,6] y) {
            y = com.microsoft.QLinearConcat <axis = 1> (v, w, a, s, z, b, t, u) }""",
        """g (float v, uint8 w, uint8[3,4] a, float s, uint8 z, uint8[3,2] b, float t, uint8 u) => (uint8[3,6] y) {
            c = DequantizeLinear(a, s, z)  d = DequantizeLinear(b, t, u)  e = Concat <axis = 1> (c, d)
            y = QuantizeLinear(e, v, w) }""",
    ),
    "MatMulNBitsMlp": (
        """g (float[3,32] x, float[3,32] k, float[32] s, uint8[8,1,16] w, float[8,1] t, float[8] b, uint8[8,1,16] v,
            float[8,1] u, float[8] c) => (float[3,8] y, float[3,32] z) {
            y, z = com.microsoft.MatMulNBitsMlp <K = 32, N = 8, bits = 4, block_size = 32, activation = "silu">
                (x, k, s, w, t, b, v, u, c) }""",
        """g (float[3,32] x, float[3,32] k, float[32] s, uint8[8,1,16] w, float[8,1] t, float[8] b, uint8[8,1,16] v,
            float[8,1] u, float[8] c) => (float[3,8] y, float[3,32] z) <float[3,8] g, float[3,8] h> {
            z = Add(x, k)  n = RMSNormalization(z, s)
            g = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, block_size = 32> (n, w, t, , , b)
            h = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, block_size = 32> (n, v, u, , , c)
            o = Sigmoid(g)  a = Mul(g, o)  y = Mul(a, h) }""",
    ),
}
"""Fused, and plain with the same inputs and outputs: bytes are the same too."""

# Plain forms that read or write something else: scalars, tables, copies, weights in another width.
FLOPS: dict[str, tuple[str, str]] = {
    "QuickGelu": (
        "g (float[3,4] x) => (float[3,4] y) { y = com.microsoft.QuickGelu(x) }",
        "g (float[3,4] x, float a) => (float[3,4] y) { z = Mul(x, a)  s = Sigmoid(z)  y = Mul(x, s) }",
    ),
    "FusedMatMul": (
        """g (float[2,4,3] a, float[2,4,5] b) => (float[2,3,5] y) {
            y = com.microsoft.FusedMatMul <transA = 1, alpha = 0.5> (a, b) }""",
        """g (float[2,4,3] a, float[2,4,5] b, float s) => (float[2,3,5] y) {
            t = Transpose <perm = [0, 2, 1]> (a)  m = MatMul(t, b)  y = Mul(m, s) }""",
    ),
    "FusedMatMul with batch transposed": (
        """g (float[4,2,3] a, float[2,4,5] b) => (float[2,3,5] y) {
            y = com.microsoft.FusedMatMul <transA = 1, transBatchA = 1> (a, b) }""",
        """g (float[4,2,3] a, float[2,4,5] b) => (float[2,3,5] y) {
            t = Transpose <perm = [1, 2, 0]> (a)  y = MatMul(t, b) }""",
    ),
    "FusedMatMulActivation": (
        """g (float[3,4] a, float[4,5] b) => (float[3,5] y) {
            y = com.microsoft.FusedMatMulActivation <activation = "Tanh"> (a, b) }""",
        "g (float[3,4] a, float[4,5] b) => (float[3,5] y) { m = MatMul(a, b)  y = Tanh(m) }",
    ),
    "EmbedLayerNormalization": (
        """g (int32[2,3] i, int32[2,3] j, float[9,4] w, float[8,4] p, float[2,4] t, float[4] s, float[4] b)
            => (float[2,3,4] y) { y = com.microsoft.EmbedLayerNormalization(i, j, w, p, t, s, b) }""",
        """g (int32[2,3] i, int32[2,3] j, float[9,4] w, float[3,4] p, float[2,4] t, float[4] s, float[4] b)
            => (float[2,3,4] y) {
            e = Gather(w, i)  f = Gather(t, j)  c = Add(e, f)  d = Add(c, p)  y = LayerNormalization(d, s, b) }""",
    ),
    "MatMulNBits": (
        """g (float[3,32] a, uint8[8,1,16] b, float[8,1] s, uint8[8,1] z, float[8] c) => (float[3,8] y) {
            y = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, block_size = 32> (a, b, s, z, , c) }""",
        """g (float[3,32] a, uint4[8,32] b, float[8,1] s, uint4[8,1] z, float[8] c) => (float[3,8] y) {
            w = DequantizeLinear <axis = 1, block_size = 32> (b, s, z)  t = Transpose(w)  m = MatMul(a, t)
            y = Add(m, c) }""",
    ),
    "GatherBlockQuantized": (
        """g (uint4[8,32] d, int64[2] i, float[8,1] s, uint4[8,1] z) => (float[2,32] y) {
            y = com.microsoft.GatherBlockQuantized <block_size = 32, gather_axis = 0, quantize_axis = 1> (d, i, s, z)
        }""",
        """g (uint4[8,32] d, int64[2] i, float[2,1] s, uint4[2,1] z) => (float[2,32] y) {
            e = Gather(d, i)  y = DequantizeLinear <axis = 1, block_size = 32> (e, s, z) }""",
    ),
    "CausalConvWithState": (
        """g (float[2,3,5] x, float[3,1,4] w, float[3] b, float[2,3,3] p) => (float[2,3,5] y, float[2,3,3] q) {
            y, q = com.microsoft.CausalConvWithState <activation = "silu"> (x, w, b, p) }""",
        """g (float[2,3,5] x, float[3,1,4] w, float[3] b, float[2,3,3] p) => (float[2,3,5] y, float[2,3,8] a) {
            a = Concat <axis = 2> (p, x)  c = Conv <group = 3> (a, w, b)  s = Sigmoid(c)  y = Mul(c, s) }""",
    ),
    "MultiHeadAttention": (
        """g (float[2,3,16] q, float[2,4,16] k, float[2,4,16] v, float[48] b, float[2,2,3,4] m) => (float[2,3,16] y) {
            y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, b, , m) }""",
        """g (float[2,2,3,8] q, float[2,2,8,4] k, float[2,2,4,8] v, float[2,1,1,8] b, float[2,1,8,1] c, float s,
            float[2,2,3,4] m) => (float[2,2,3,8] y) {
            a = Add(q, b)  d = Add(k, c)  e = Add(v, b)
            t = MatMul(a, d)  u = Mul(t, s)  w = Add(u, m)  p = Softmax(w)  y = MatMul(p, e) }""",
    ),
    "Attention": (
        """g (float[2,3,10] x, float[10,48] w, float[48] b) => (float[2,3,16] y) {
            y = com.microsoft.Attention <num_heads = 2> (x, w, b) }""",
        """g (float[2,3,10] x, float[10,48] w, float[48] b, float[2,2,3,8] q, float[2,2,8,3] k, float[2,2,3,8] v,
            float s) => (float[2,3,48] h, float[2,2,3,8] y) {
            g = MatMul(x, w)  h = Add(g, b)  t = MatMul(q, k)  u = Mul(t, s)  p = Softmax(u)  y = MatMul(p, v) }""",
    ),
    "GroupQueryAttention": (
        """g (float[2,1,32] q, float[2,1,16] k, float[2,1,16] v, float[2,2,4,8] pk, float[2,2,4,8] pv, int32[2] n,
            int32 t, float[9,4] c, float[9,4] s) => (float[2,1,32] y, float[2,2,5,8] rk, float[2,2,5,8] rv) {
            y, rk, rv = com.microsoft.GroupQueryAttention
                <num_heads = 4, kv_num_heads = 2, do_rotary = 1, softcap = 5.0> (q, k, v, pk, pv, n, t, c, s) }""",
        """g (float[2,4,1,8] q, float[2,2,1,8] k, float[2,4,8,5] u, float[2,4,5,8] v, float[9,4] c, float[9,4] s,
            int64[2,1] i, float a, float b) => (float[2,4,1,8] y, float[2,2,1,8] l) {
            r = RotaryEmbedding(q, c, s, i)  l = RotaryEmbedding(k, c, s, i)
            t = MatMul(r, u)  w = Mul(t, a)  d = Div(w, b)  e = Tanh(d)  f = Mul(e, b)  p = Softmax(f)
            y = MatMul(p, v) }""",
    ),
    "QLinearReduceMean": (
        """g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,1] y) {
            y = com.microsoft.QLinearReduceMean <axes = [1], keepdims = 1> (x, s, z, t, u) }""",
        """g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,1] y) <int64[1] a = {1}> {
            d = DequantizeLinear(x, s, z)  f = ReduceMean(d, a)  y = QuantizeLinear(f, t, u) }""",
    ),
    "MatMulIntegerToFloat": (
        """g (uint8[3,4] a, uint8[4,5] b, float s, float t, uint8 p, uint8 q, float[5] c) => (float[3,5] y) {
            y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, p, q, c) }""",
        # The two scales are multiplied once.
        """g (uint8[3,4] a, uint8[4,5] b, float s, uint8 p, uint8 q, float[5] c) => (float[3,5] y) {
            m = MatMulInteger(a, b, p, q)  f = Cast <to = 1> (m)  r = Mul(f, s)  y = Add(r, c) }""",
    ),
    "QEmbedLayerNormalization": (
        """g (int32[2,3] i, uint8[9,4] w, uint8[8,4] p, uint8[4] s, uint8[4] b, float[1] f, uint8[1] z)
            => (float[2,3,4] y, int32[2] m) {
            y, m = com.microsoft.QEmbedLayerNormalization(i, , w, p, , s, b, , f, f, , f, f, z, z, , z, z) }""",
        # ONNX Runtime dequantises the position of every token.
        """g (int32[2,3] i, uint8[9,4] w, uint8[2,3,4] p, uint8[4] s, uint8[4] b, float f, uint8 z)
            => (float[2,3,4] y) {
            e = Gather(w, i)  a = DequantizeLinear(e, f, z)  c = DequantizeLinear(p, f, z)
            t = DequantizeLinear(s, f, z)  u = DequantizeLinear(b, f, z)
            d = Add(a, c)  y = LayerNormalization(d, t, u) }""",
    ),
}


@pytest.mark.parametrize("key", [*BYTES, *FLOPS])
def test_flops_are_those_of_the_plain_ops(key: str) -> None:
    one, several = (BYTES | FLOPS)[key]
    assert flops(fused(one)) == flops(plain(several))


@pytest.mark.parametrize("key", BYTES)
def test_bytes_are_what_crosses_the_border(key: str) -> None:
    one, several = map(plain, BYTES[key])
    assert (one.bytes_read, one.bytes_written) == (several.bytes_read, several.bytes_written)


PRODUCTS: dict[str, tuple[str, str]] = {
    "QLinearConv": (
        """g (uint8[1,4,5,5] x, float s, uint8 z, uint8[6,4,3,3] w, float t, uint8 u, float v, uint8 r, int32[6] b)
            => (uint8[1,6,3,3] y) { y = QLinearConv(x, s, z, w, t, u, v, r, b) }""",
        "g (float[1,4,5,5] x, float[6,4,3,3] w, float[6] b) => (float[1,6,3,3] y) { y = Conv(x, w, b) }",
    ),
    "QLinearConv in NHWC": (
        """g (uint8[1,5,5,4] x, float s, uint8 z, uint8[6,4,3,3] w, float t, uint8 u, float v, uint8 r)
            => (uint8[1,3,3,6] y) { y = com.microsoft.QLinearConv <channels_last = 1> (x, s, z, w, t, u, v, r) }""",
        "g (float[1,4,5,5] x, float[6,4,3,3] w) => (float[1,6,3,3] y) { y = Conv(x, w) }",
    ),
    "NhwcFusedConv": (
        """g (float16[1,5,5,4] x, float16[6,4,3,3] w, float16[6] b) => (float16[1,3,3,6] y) {
            y = com.microsoft.NhwcFusedConv <activation = "Relu"> (x, w, b) }""",
        "g (float[1,4,5,5] x, float[6,4,3,3] w, float[6] b) => (float[1,6,3,3] y) { y = Conv(x, w, b) }",
    ),
    "QGemm": (
        """g (uint8[3,4] a, float s, uint8 z, uint8[4,5] b, float t, uint8 u, int32[5] c) => (float[3,5] y) {
            y = com.microsoft.QGemm(a, s, z, b, t, u, c) }""",
        "g (float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y) { y = Gemm(a, b, c) }",
    ),
    "QAttention": (
        """g (uint8[2,3,10] x, uint8[10,48] w, float[48] b, float s, float t) => (float[2,3,16] y) {
            y = com.microsoft.QAttention <num_heads = 2> (x, w, b, s, t) }""",
        """g (float[2,3,10] x, float[10,48] w, float[48] b) => (float[2,3,16] y) {
            y = com.microsoft.Attention <num_heads = 2> (x, w, b) }""",
    ),
    "PackedAttention of full sequences": (
        """g (float[6,10] x, float[10,48] w, float[48] b, int32[2,3] o, int32[3] c) => (float[6,16] y) {
            y = com.microsoft.PackedAttention <num_heads = 2> (x, w, b, o, c) }""",
        """g (float[2,3,10] x, float[10,48] w, float[48] b) => (float[2,3,16] y) {
            y = com.microsoft.Attention <num_heads = 2> (x, w, b) }""",
    ),
    "PagedAttention with all of its room": (
        """g (float[2,32] q, float[2,16] k, float[2,16] v, float[6,2,2,8] c, float[6,2,2,8] d, int32[3] n, int32[2] p,
            int32[2,3] t) => (float[2,32] y) {
            y = com.microsoft.PagedAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, c, d, n, p, t) }""",
        """g (float[2,1,32] q, float[2,1,16] k, float[2,1,16] v, float[2,2,5,8] c, float[2,2,5,8] d, int32[2] n,
            int32 t) => (float[2,1,32] y) {
            y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, c, d, n, t) }""",
    ),
    "MoE of one expert": (
        """g (float[5,8] x, float[5,1] r, float[1,6,8] w, float[1,8,6] v) => (float[5,8] y) {
            y = com.microsoft.MoE <activation_type = "relu"> (x, r, w, , v) }""",
        """g (float[5,8] x, float[8,6] w, float[6,8] v) => (float[5,8] y) {
            h = MatMul(x, w)  a = Relu(h)  y = MatMul(a, v) }""",
    ),
    "QMoE": (
        """g (float[5,32] x, float[5,4] r, uint8[4,32,16] w, float[4,32] s, uint8[4,32,16] v, float[4,32] t)
            => (float[5,32] y) { y = com.microsoft.QMoE <k = 2> (x, r, w, s, , v, t) }""",
        """g (float[5,32] x, float[5,4] r, float[4,32,32] w, float[4,32,32] v) => (float[5,32] y) {
            y = com.microsoft.MoE <k = 2> (x, r, w, , v) }""",
    ),
}


@pytest.mark.parametrize("key", PRODUCTS)
def test_products_are_those_of_the_plain_form(key: str) -> None:
    one, several = PRODUCTS[key]
    assert fused(one).tensor_flops == plain(several).tensor_flops
