"""A stack of decoder layers as exporters of language models write it, of any size.

One layer is 120 nodes and 837 kB of fp32 weights, embedded; what comes before and after all layers is
40 nodes and 5 MB. So 9, 233 and 933 layers give 1,120, 28,000 and 112,000 nodes exactly, and the second
holds 200 MB of weights.

A layer is that of LLaMA (Touvron et al. 2023) as torch.onnx traces it, op by op: RMSNorm in nine nodes,
projections as MatMul, Reshape to shapes that Shape, Gather, Unsqueeze and Concat build at run time, rotary
positions with Slice, Neg and Concat, grouped key and value heads through Expand, attention with an additive
mask, SiLU as Sigmoid and Mul; and, as a tracing exporter does, a Constant node for every number at every use:
a third of the nodes. Batch and sequence are dynamic, and no shape is recorded between input and output. The
graph computes what it says: it is causal, and runs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
HIDDEN = 128
HEADS = 4
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
FEED_FORWARD = 416
VOCABULARY = 5000
NODES_PER_LAYER = 120
NODES_AROUND = 40
MASKED = -3.4028235e38
"""What exporters add to a masked score: the smallest fp32."""


def layers_of(nodes: int) -> int:
    """Number of layers that make exactly so many nodes.

    Raises:
        ValueError: No number of layers does.
    """
    layers, rest = divmod(nodes - NODES_AROUND, NODES_PER_LAYER)
    if rest or layers < 0:
        raise ValueError(f"{nodes} nodes are not {NODES_AROUND} + {NODES_PER_LAYER} * layers")
    return layers


def matmul_macs(layers: int, batch: int, sequence: int) -> int:
    """MACs of all matrix products: projections, the two products of attention, feed-forward and the head."""
    tokens = batch * sequence
    projections = HIDDEN * (HIDDEN + 2 * KV_HEADS * HEAD_DIM + HIDDEN + 3 * FEED_FORWARD)
    attention = 2 * HEADS * HEAD_DIM * sequence
    return tokens * (layers * (projections + attention) + HIDDEN * VOCABULARY)


@dataclass
class _Graph:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    taken: Counter[str] = field(default_factory=Counter)

    def op(self, path: str, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Append a node, named as torch.onnx names it, and return the name of its result."""
        name = f"{path}/{op_type}"
        self.taken[name] += 1
        if self.taken[name] > 1:
            name += f"_{self.taken[name] - 1}"
        result = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(op_type, inputs, [result], name=name, **attributes))
        return result

    def constant(self, path: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> str:
        return self.op(path, "Constant", value=numpy_helper.from_array(np.asarray(value, dtype=dtype)))

    def weight(self, name: str, value: npt.NDArray[np.float32]) -> str:
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def matrix(self, name: str, rows: int, columns: int) -> str:
        value = self.draw.standard_normal((rows, columns), dtype=np.float32)
        return self.weight(name, value / np.float32(rows**0.5))

    def linear(self, path: str, x: str, inputs: int, outputs: int) -> str:
        return self.op(path, "MatMul", x, self.matrix(f"{path}.weight"[1:], inputs, outputs))

    def norm(self, path: str, x: str) -> str:
        """x / sqrt(mean(x^2) + eps) * weight, in nine nodes."""
        squares = self.op(path, "Pow", x, self.constant(path, 2, np.float32))
        mean = self.op(path, "ReduceMean", squares, axes=[-1])
        root = self.op(path, "Sqrt", self.op(path, "Add", mean, self.constant(path, 1e-5, np.float32)))
        scaled = self.op(path, "Mul", x, self.op(path, "Reciprocal", root))
        return self.op(path, "Mul", self.weight(f"{path}.weight"[1:], np.ones(HIDDEN, np.float32)), scaled)

    def dim(self, path: str, x: str, index: int) -> str:
        """Dimension ``index`` of x, a scalar."""
        return self.op(path, "Gather", self.op(path, "Shape", x), self.constant(path, index))

    def unsqueeze(self, path: str, x: str, *axes: int) -> str:
        return self.op(path, "Unsqueeze", x, self.constant(path, axes))

    def shape(self, path: str, *dims: str | int) -> str:
        """A shape of dimensions computed before (names) and fixed ones."""
        parts = [dim if isinstance(dim, str) else self.constant(path, [dim]) for dim in dims]
        return self.op(path, "Concat", *parts, axis=0)

    def slice(self, path: str, x: str, start: str | int, end: str | int) -> str:
        """x[..., start:end] of a tensor of rank 4."""
        bounds = [bound if isinstance(bound, str) else self.constant(path, [bound]) for bound in (start, end)]
        return self.op(path, "Slice", x, *bounds, self.constant(path, [3]))


def _layer(g: _Graph, path: str, x: str, positions: tuple[str, str], mask: str) -> str:
    here = f"{path}/self_attn"
    normed = g.norm(f"{path}/input_layernorm", x)
    counts = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    projected = {
        name: g.linear(f"{here}/{name}_proj", normed, HIDDEN, count * HEAD_DIM) for name, count in counts.items()
    }
    batch = g.unsqueeze(here, g.dim(here, normed, 0), 0)
    length = g.unsqueeze(here, g.dim(here, normed, 1), 0)
    heads = {}
    for name, count in counts.items():
        split = g.op(here, "Reshape", projected[name], g.shape(here, batch, length, count, HEAD_DIM))
        heads[name] = g.op(here, "Transpose", split, perm=[0, 2, 1, 3])

    cos, sin = (g.unsqueeze(here, value, 0, 1) for value in positions)
    half = g.unsqueeze(here, g.op(here, "Div", g.dim(here, heads["q"], 3), g.constant(here, 2)), 0)
    for name in ("q", "k"):
        left, right = g.slice(here, heads[name], 0, half), g.slice(here, heads[name], half, 2**63 - 1)
        turned = g.op(here, "Concat", g.op(here, "Neg", right), left, axis=-1)
        heads[name] = g.op(here, "Add", g.op(here, "Mul", heads[name], cos), g.op(here, "Mul", turned, sin))

    for name in ("k", "v"):
        wide = g.unsqueeze(here, heads[name], 2)
        wide = g.op(here, "Expand", wide, g.shape(here, batch, KV_HEADS, HEADS // KV_HEADS, length, HEAD_DIM))
        heads[name] = g.op(here, "Reshape", wide, g.shape(here, batch, HEADS, length, HEAD_DIM))

    scores = g.op(here, "MatMul", heads["q"], g.op(here, "Transpose", heads["k"], perm=[0, 1, 3, 2]))
    scores = g.op(here, "Add", g.op(here, "Mul", scores, "scale"), mask)
    mixed = g.op(here, "MatMul", g.op(here, "Softmax", scores, axis=-1), heads["v"])
    mixed = g.op(here, "Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = g.op(here, "Reshape", mixed, g.shape(here, batch, length, HIDDEN))
    x = g.op(path, "Add", x, g.linear(f"{here}/o_proj", mixed, HIDDEN, HIDDEN))

    here = f"{path}/mlp"
    normed = g.norm(f"{path}/post_attention_layernorm", x)
    gate = g.linear(f"{here}/gate_proj", normed, HIDDEN, FEED_FORWARD)
    gate = g.op(f"{here}/act_fn", "Mul", gate, g.op(f"{here}/act_fn", "Sigmoid", gate))
    inner = g.op(here, "Mul", gate, g.linear(f"{here}/up_proj", normed, HIDDEN, FEED_FORWARD))
    return g.op(path, "Add", x, g.linear(f"{here}/down_proj", inner, FEED_FORWARD, HIDDEN))


def decoder_stack(layers: int) -> onnx.ModelProto:
    """The model: ``input_ids`` and ``attention_mask`` (int64, batch x sequence) -> ``logits`` (fp32)."""
    g = _Graph()
    x = g.op("/model/embed_tokens", "Gather", g.matrix("model.embed_tokens.weight", VOCABULARY, HIDDEN), "input_ids")
    g.weight("scale", np.array(HEAD_DIM**-0.5, np.float32))

    here = "/model"
    places = g.op(here, "Range", g.constant(here, 0), g.dim(here, "input_ids", 1), g.constant(here, 1))
    causal = g.op(here, "Greater", g.unsqueeze(here, places, 0), g.unsqueeze(here, places, 1))
    causal = g.op(here, "Where", causal, g.constant(here, MASKED, np.float32), g.constant(here, 0, np.float32))
    kept = g.op(here, "Cast", g.unsqueeze(here, "attention_mask", 1, 2), to=TensorProto.FLOAT)
    padding = g.op(here, "Sub", g.constant(here, 1, np.float32), kept)
    padding = g.op(here, "Mul", padding, g.constant(here, MASKED, np.float32))
    mask = g.op(here, "Add", causal, padding)

    here = "/model/rotary_emb"
    steps = 10_000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = g.unsqueeze(here, g.op(here, "Cast", places, to=TensorProto.FLOAT), 1)
    angles = g.op(here, "Mul", angles, g.constant(here, [[*steps, *steps]], np.float32))
    positions = g.op(here, "Cos", angles), g.op(here, "Sin", angles)

    for index in range(layers):
        x = _layer(g, f"/model/layers.{index}", x, positions, mask)
    x = g.norm("/model/norm", x)
    g.op("/lm_head", "MatMul", x, g.matrix("lm_head.weight", HIDDEN, VOCABULARY), output="logits")

    graph = helper.make_graph(
        g.nodes,
        "decoder_stack",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", VOCABULARY])],
        g.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
