"""Formulas say what nodes compute."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx.shape_inference

from tests.fakes.support import SAMPLES
from trtprof.base import onnx_graph
from trtprof.plugin.formulas import formulas
from trtprof.source.request import ModelRequest


def test_formulas() -> None:
    for node, text in {
        "MatMul (m, n)": "y[i,j,l,m] = sum_k m[i,j,l,k] * n[j,k,m]", "MatMul (h, n)": "y[i,j] = sum_k h[k] * n[i,k,j]",
        "MatMul (m, h)": "y[i,j,l] = sum_k m[i,j,l,k] * h[k]", "MatMul (n, t)": "y[i,j,l] = sum_k n[i,j,k] * t[k,l]",
        "Gemm <transA = 1, transB = 1> (t, a, v)": "y[i,j] = sum_k t[k,i] * a[j,k] + v[j]",
        "Gemm <alpha = 2.0> (w, o)": "y = Gemm(w, o; alpha=2)", "MatMul (w, o)": "y[i,j] = w[i,0] * o[0,j]",
        "MatMul (a, u)": "y = MatMul(a, u)", "Add (a, b)": "y = a + b",
        "Erf (a)": "y = erf(a)", "Max (a, b, c)": "y = max(a, b, c)",
        "Gelu (a)": "y = 0.5 * a * (1 + erf(a / sqrt(2)))",
        'Gelu <approximate = "tanh"> (a)': "y = 0.5 * a * (1 + tanh(0.797885 * (a + 0.044715 * a^3)))",
        "LeakyRelu <alpha = 0.2> (a)": "y = a if a >= 0 else 0.2 * a", "Softmax (a)": "y = softmax(a) over axis 1",
        "Clip (a, b)": "y = max(a, b)", "Clip (a, , c)": "y = min(a, c)",
        "LayerNormalization (a, c)": "y = (a - mean(a)) / sqrt(var(a) + 1e-05) * c, from axis 1 on",
        "ReduceMean <axes = [0]> (a)": "y = mean(a) over axes [0]", "Flatten (a)": "y = a as 2x3",
        "Concat <axis = -1> (a, b)": "y = a | b along axis 1",
        "EyeLike <dtype = 1, k = 2> (a)": "y = EyeLike(a; dtype=1, k=2)",
        "Conv <group = 2> (a, b)": "y = Conv(a, b; group=2)",
    }.items():  # fmt: skip
        assert told(node) == text
    assert told("Softmax <axis = 0> (a)", opset=11) == "y = softmax(a) over axis 0 and on"
    request = ModelRequest.of(SAMPLES / "transformer_block.onnx")
    with request.opened() as loaded:
        nodes = request.bound(loaded).nodes
    made = [line.split(" = ")[0].partition("[")[0] for line in formulas([node.op for node in nodes], {})]
    assert len(set(made)) == len(made) == len(nodes)


def told(node: str, opset: int = 22) -> str:
    """The formula of a node over some tensors."""
    given = "float[2,3] a, float[2,3] b, float[3] c, float[5] h, float[3,2,4,5] m, float[2,5,3] n, float[1,5] o"
    given += ", float[3,4] t, float[] u, float[2] v, float[5,1] w"
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g ({given}) => (float[] y) {{ y = {node} }}'
    (one,) = onnx_graph.nodes_in(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    return formulas([one.op], {name: name for name in "abchmnotuvwy"})[0]
