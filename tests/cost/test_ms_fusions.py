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


BYTES: dict[str, tuple[str, str, str]] = {
    "FusedConv": (
        "g (float[1,4,5,5] x, float[6,4,3,3] w, float[6] b, float[1,6,3,3] z) => (float[1,6,3,3] y)",
        """y = com.microsoft.FusedConv <activation = "Relu"> (x, w, b, z)""",
        "c = Conv(x, w, b) s = Add(c, z) y = Relu(s)",
    ),
    "FusedGemm": (
        "g (float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y)",
        """y = com.microsoft.FusedGemm <activation = "LeakyRelu", alpha = 0.5> (a, b, c)""",
        "m = Gemm <alpha = 0.5> (a, b, c) y = LeakyRelu(m)",
    ),
    "GemmFastGelu": (
        "g (float[2,3,4] a, float[4,5] b, float[5] c) => (float[2,3,5] y)",
        "y = com.microsoft.GemmFastGelu(a, b, c)",
        """m = MatMul(a, b) s = Add(m, c) y = Gelu <approximate = "tanh"> (s)""",
    ),
    "BiasGelu": (
        "g (float[3,4] a, float[4] b) => (float[3,4] y)",
        "y = com.microsoft.BiasGelu(a, b)",
        "s = Add(a, b) y = Gelu(s)",
    ),
    "FastGelu": (
        "g (float[3,4] a, float[4] b) => (float[3,4] y)",
        "y = com.microsoft.FastGelu(a, b)",
        """s = Add(a, b) y = Gelu <approximate = "tanh"> (s)""",
    ),
    "BiasSplitGelu": (
        "g (float[2,3,8] a, float[8] b) => (float[2,3,4] y)",
        "y = com.microsoft.BiasSplitGelu(a, b)",
        "s = Add(a, b) l, r = Split <axis = 2, num_outputs = 2> (s) t = Gelu(r) y = Mul(l, t)",
    ),
    "BiasAdd": (
        "g (float[2,3,4] a, float[4] b, float[2,3,4] c) => (float[2,3,4] y)",
        "y = com.microsoft.BiasAdd(a, b, c)",
        "s = Add(a, b) y = Add(s, c)",
    ),
    "BiasSoftmax": (
        "g (float[2,3,4] a, float[2,1,4] b) => (float[2,3,4] y)",
        "y = com.microsoft.BiasSoftmax <axis = 2, is_inner_broadcast = 0> (a, b)",
        "s = Add(a, b) y = Softmax(s)",
    ),
    "BiasDropout": (
        "g (float[2,3,4] a, float[4] b, float[2,3,4] c) => (float[2,3,4] y)",
        "y = com.microsoft.BiasDropout(a, b, c)",
        "s = Add(a, b) y = Add(s, c)",
    ),
    "SkipLayerNormalization": (
        "g (float[2,3,4] x, float[2,3,4] k, float[4] s, float[4] b, float[4] c) => (float[2,3,4] y, float[2,3,4] z)",
        "y, , , z = com.microsoft.SkipLayerNormalization(x, k, s, b, c)",
        "t = Add(x, c) z = Add(t, k) y = LayerNormalization(z, s, b)",
    ),
    "SkipSimplifiedLayerNormalization": (
        "g (float[2,3,4] x, float[2,3,4] k, float[4] s) => (float[2,3,4] y)",
        "y = com.microsoft.SkipSimplifiedLayerNormalization(x, k, s)",
        "z = Add(x, k) y = RMSNormalization(z, s)",
    ),
    "GroupNorm": (
        "g (float[1,4,2,2] x, float[4] s, float[4] b) => (float[1,4,2,2] y)",
        "y = com.microsoft.GroupNorm <groups = 2, activation = 1, channels_last = 0> (x, s, b)",
        "<float[1,4,2,2] n> { n = GroupNormalization <num_groups = 2> (x, s, b) g = Sigmoid(n) y = Mul(n, g) }",
    ),
    "GatedRMSNorm": (
        "g (float[2,3,4] x, float[4] s, float[2,3,4] z) => (float[2,3,4] y)",
        "y = com.microsoft.GatedRMSNorm(x, s, z)",
        "n = RMSNormalization(x, s) g = Sigmoid(z) o = Mul(z, g) y = Mul(n, o)",
    ),
    "GatedAdd": (
        "g (float[3,4] a, float[3,4] b, float[3,1] c) => (float[3,4] y)",
        "y = com.microsoft.GatedAdd(a, b, c)",
        "m = Mul(b, c) y = Add(a, m)",
    ),
    "ScaledSiLU": (
        "g (float[3,4] x, float s) => (float[3,4] y)",
        "y = com.microsoft.ScaledSiLU(x, s)",
        "z = Mul(x, s) g = Sigmoid(z) y = Mul(z, g)",
    ),
    "LinearAttentionGate": (
        "g (float[1,2,3] a, float[3] b, float[3] s, float[1,2,3] r) => (float[1,2,3] y, float[1,2,3] z)",
        "y, z = com.microsoft.LinearAttentionGate(a, b, s, r)",
        "t = Add(a, b) p = Softplus(t) y = Mul(p, s) z = Sigmoid(r)",
    ),
    "GemmaRotaryEmbedding": (
        """g (float[1,3,8] e, float16[1,2,3,8] q, float16[1,2,3,8] r, float16[1,2,3,8] k, float16[1,2,3,8] u) =>
        (float16[1,2,3,8] y, float16[1,2,3,8] z)""",
        "y, z = com.microsoft.GemmaRotaryEmbedding(e, q, r, k, u)",
        """s = Sin(e) c = Cos(e) sh = Cast <to = 10> (s) ch = Cast <to = 10> (c) a = Mul(q, ch) b = Mul(r, sh) y =
        Add(a, b) d = Mul(k, ch) f = Mul(u, sh) z = Add(d, f)""",
    ),
    "DynamicQuantizeMatMul": (
        "g (float[3,4] a, uint8[4,5] b, float s, uint8 p, float[5] c) => (float[3,5] y)",
        "y = com.microsoft.DynamicQuantizeMatMul(a, b, s, p, c)",
        """q, t, z = DynamicQuantizeLinear(a) m = MatMulInteger(q, b, z, p) f = Cast <to = 1> (m) r = Mul(f, s) y =
        Add(r, c)""",
    ),
    "QLinearSigmoid": (
        "g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,4] y)",
        "y = com.microsoft.QLinearSigmoid(x, s, z, t, u)",
        "d = DequantizeLinear(x, s, z) f = Sigmoid(d) y = QuantizeLinear(f, t, u)",
    ),
    "QLinearSoftmax": (
        "g (uint8[3,4] x, float s, uint8 z, float t, uint8 u) => (uint8[3,4] y)",
        "y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, s, z, t, u)",
        "d = DequantizeLinear(x, s, z) f = Softmax(d) y = QuantizeLinear(f, t, u)",
    ),
    "QLinearAdd": (
        "g (uint8[3,4] a, float s, uint8 z, uint8[4] b, float t, uint8 u, float v, uint8 w) => (uint8[3,4] y)",
        "y = com.microsoft.QLinearAdd(a, s, z, b, t, u, v, w)",
        "c = DequantizeLinear(a, s, z) d = DequantizeLinear(b, t, u) e = Add(c, d) y = QuantizeLinear(e, v, w)",
    ),
    "QLinearWhere": (
        "g (bool[4] k, uint8[4] a, float s, uint8 z, uint8[4] b, float t, uint8 u, float v, uint8 w) => (uint8[4] y)",
        "y = com.microsoft.QLinearWhere(k, a, s, z, b, t, u, v, w)",
        "c = DequantizeLinear(a, s, z) d = DequantizeLinear(b, t, u) e = Where(k, c, d) y = QuantizeLinear(e, v, w)",
    ),
    "QLinearConcat": (
        "g (float v, uint8 w, uint8[3,4] a, float s, uint8 z, uint8[3,2] b, float t, uint8 u) => (uint8[3,6] y)",
        "y = com.microsoft.QLinearConcat <axis = 1> (v, w, a, s, z, b, t, u)",
        """c = DequantizeLinear(a, s, z) d = DequantizeLinear(b, t, u) e = Concat <axis = 1> (c, d) y =
        QuantizeLinear(e, v, w)""",
    ),
    "MatMulNBitsMlp": (
        """g (float[3,32] x, float[3,32] k, float[32] s, uint8[8,1,16] w, float[8,1] t, float[8] b, uint8[8,1,16]
        v, float[8,1] u, float[8] c) => (float[3,8] y, float[3,32] z)""",
        """y, z = com.microsoft.MatMulNBitsMlp <K = 32, N = 8, bits = 4, block_size = 32, activation = "silu"> (x,
        k, s, w, t, b, v, u, c)""",
        """<float[3,8] g, float[3,8] h> { z = Add(x, k) n = RMSNormalization(z, s) g = com.microsoft.MatMulNBits <K
        = 32, N = 8, bits = 4, block_size = 32> (n, w, t, , , b) h = com.microsoft.MatMulNBits <K = 32, N = 8,
        bits = 4, block_size = 32> (n, v, u, , , c) o = Sigmoid(g) a = Mul(g, o) y = Mul(a, h) }""",
    ),
}  # fmt: skip
"""What the op takes and makes, the op, and plain ops for it: bytes are the same too."""


def test_a_fused_op_counts_what_its_plain_ops_do(subtests: pytest.Subtests) -> None:
    for key, (signature, one, several) in BYTES.items():
        with subtests.test(key):
            fused = f"{signature} {{ {one} }}"
            whole = plain(f"{signature} {several}" if several.startswith("<") else f"{signature} {{ {several} }}")
            (op,), _ = graph_of(fused)
            assert flops(work(op)) == flops(whole)
            assert (plain(fused).bytes_read, plain(fused).bytes_written) == (whole.bytes_read, whole.bytes_written)
