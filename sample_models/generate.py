"""Write the sample models: small ONNX graphs that exercise each part of trtprof, and the story's big convolution.

Usage::

    python sample_models/generate.py                     # every committed model, beside this file
    python sample_models/generate.py resnet -o r.onnx    # one of them, elsewhere
    python sample_models/generate.py conv --spatial 64   # the story's convolution, 26 MB, not committed

The same command writes the same bytes on every machine. Weights come from the raw words of PCG64, a stream that NumPy
keeps fixed across versions (it does not promise so for `Generator.normal` and its like), and only from operations that
IEEE 754 rounds one way. Calibration runs a model, whose last bits do depend on the machine, so calibrated ranges are
rounded to three digits before use.

The graphs are opset 17 in IR version 8, old enough for every runtime of interest, and use the ops and the naming that
PyTorch's exporter emits.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Context
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 17
IR_VERSION = 8
PRODUCER = "trtprof sample_models"
HERE = Path(__file__).resolve().parent

FloatArray = npt.NDArray[np.float32]
Dim = int | str

# ReLU6's ceiling, and the range of 7-bit signed weights: without VNNI, x86 adds two uint8 x int8 products in int16,
# which 2 * 255 * 127 overflows and 2 * 255 * 64 does not.
RELU6_MAX = 6.0
WEIGHT_QMAX = 64
ACTIVATION_QMAX = 255

# TensorRT's limit on a dimension.
MAX_SPATIAL = 2**31 - 1


class GraphBuilder:
    """Collects nodes and initializers, names them the way PyTorch's exporter does, and draws the weights.

    A node is named ``<path>/<op_type>``, with ``_1``, ``_2`` ... appended where that is taken; its output is
    ``<node name>_output_0``.

    Args:
        seed: Seed of the weights.
    """

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._bits = np.random.PCG64(seed)
        self._taken: Counter[str] = Counter()

    def op(
        self, op_type: str, inputs: Sequence[str], path: str, *, output: str | None = None, n_out: int = 1, **attrs: Any
    ) -> str:
        """Append a node and return the name of its first output.

        Args:
            op_type: ONNX operator.
            inputs: Tensor names.
            path: Module path, such as ``/stage1/block0/conv1``.
            output: Name of the first output, where it is an output of the graph.
            n_out: Number of outputs.
            **attrs: ONNX attributes.
        """
        name = f"{path}/{op_type}"
        self._taken[name] += 1
        if self._taken[name] > 1:
            name += f"_{self._taken[name] - 1}"
        outputs = [f"{name}_output_{i}" for i in range(n_out)]
        if output is not None:
            outputs[0] = output
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attrs))
        return outputs[0]

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """Store an initializer and return its name; asking again for the same name shares the first one."""
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(value, dtype=dtype), name)
        return name

    def uniform(self, name: str, shape: Sequence[int], low: float, high: float) -> str:
        """Store an fp32 initializer of `shape` drawn uniformly from [low, high) and return its name."""
        return self.constant(name, low + (high - low) * _unit_uniform(self._bits, shape))

    def he(self, name: str, shape: Sequence[int], fan_in: int) -> str:
        """Store an fp32 weight with He's uniform initialisation and return its name.

        The bound sqrt(6 / fan_in) keeps the variance through a ReLU (He et al. 2015, arXiv:1502.01852).
        """
        bound = math.sqrt(6.0 / fan_in)
        return self.uniform(name, shape, -bound, bound)

    def conv(
        self,
        x: str,
        path: str,
        c_in: int,
        c_out: int,
        kernel: int,
        *,
        stride: int = 1,
        group: int = 1,
        bias: bool,
        output: str | None = None,
    ) -> str:
        """Append a square 2-D convolution with He-scaled weights and padding ``kernel // 2``; return its output."""
        param = _param(path)
        inputs = [x, self.he(f"{param}.weight", (c_out, c_in // group, kernel, kernel), c_in // group * kernel**2)]
        if bias:
            inputs.append(self.uniform(f"{param}.bias", (c_out,), -0.1, 0.1))
        return self.op(
            "Conv",
            inputs,
            path,
            output=output,
            dilations=[1, 1],
            group=group,
            kernel_shape=[kernel, kernel],
            pads=[kernel // 2] * 4,
            strides=[stride, stride],
        )

    def linear(self, x: str, path: str, n_in: int, n_out: int, *, output: str | None = None) -> str:
        """Append a Gemm with the weight stored [n_out, n_in], as ``torch.nn.Linear`` does; return its output."""
        param = _param(path)
        bound = 1.0 / math.sqrt(n_in)
        weight = self.uniform(f"{param}.weight", (n_out, n_in), -bound, bound)
        bias = self.uniform(f"{param}.bias", (n_out,), -bound, bound)
        return self.op("Gemm", [x, weight, bias], path, output=output, alpha=1.0, beta=1.0, transB=1)

    def model(
        self, name: str, doc: str, inputs: Iterable[onnx.ValueInfoProto], outputs: Iterable[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """The checked model.

        Raises:
            onnx.checker.ValidationError: The graph is not valid ONNX: a bug in the builder.
            onnx.shape_inference.InferenceError: The declared output shapes contradict the graph.
        """
        graph = helper.make_graph(self.nodes, name, list(inputs), list(outputs), list(self.initializers.values()))
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name=PRODUCER,
            doc_string=doc,
        )
        onnx.checker.check_model(model, full_check=True)
        return model


def gemv() -> onnx.ModelProto:
    """The batched gemv of the story, both operands as inputs: 122.88 MFLOP over 250,828,800 bytes.

    Shapes: ``a`` [600, 200, 8, 1, 64] x ``b`` [600, 1, 8, 64, 1] -> ``y`` [600, 200, 8, 1, 1], fp32.
    """
    g = GraphBuilder(seed=0)
    g.op("MatMul", ["a", "b"], "/gemv", output="y")
    return g.model(
        "gemv",
        _doc("The batched gemv of the story: memory-bound, 250,828,800 bytes for 122.88 MFLOP.", "gemv"),
        [_tensor("a", (600, 200, 8, 1, 64)), _tensor("b", (600, 1, 8, 64, 1))],
        [_tensor("y", (600, 200, 8, 1, 1))],
    )


def conv(spatial: int = 256) -> onnx.ModelProto:
    """The story's convolution: 512 -> 512 channels, 5x5, padding 2, no bias, dynamic batch; 26 MB of weights.

    Args:
        spatial: Height and width of the input and of the output.

    Raises:
        ValueError: `spatial` is under 1 or over MAX_SPATIAL.
    """
    if not 1 <= spatial <= MAX_SPATIAL:
        raise ValueError(f"spatial size must be between 1 and {MAX_SPATIAL}, not {spatial}")
    g = GraphBuilder(seed=1)
    g.conv("x", "/conv", 512, 512, 5, bias=False, output="y")
    return g.model(
        "conv",
        _doc("The convolution of the story: 512 -> 512, 5x5, padding 2, no bias.", f"conv --spatial {spatial}"),
        [_tensor("x", ("batch", 512, spatial, spatial))],
        [_tensor("y", ("batch", 512, spatial, spatial))],
    )


def resnet() -> onnx.ModelProto:
    """A ResNet of three stages of two basic blocks, its BatchNormalization nodes unfused.

    Shapes: ``image`` [batch, 3, 64, 64] -> ``probabilities`` [batch, 10], fp32.
    """
    g = GraphBuilder(seed=2)

    def conv_bn(
        x: str, path: str, c_in: int, c_out: int, *, kernel: int = 3, stride: int = 1, gain: float = 1.0
    ) -> str:
        y = g.conv(x, path, c_in, c_out, kernel, stride=stride, bias=False)
        bn_path = path.replace("conv", "bn")
        bn = _param(bn_path)
        params = [
            g.uniform(f"{bn}.weight", (c_out,), 0.8 * gain, 1.2 * gain),
            g.uniform(f"{bn}.bias", (c_out,), -0.1, 0.1),
            g.uniform(f"{bn}.running_mean", (c_out,), -0.1, 0.1),
            g.uniform(f"{bn}.running_var", (c_out,), 0.5, 1.5),
        ]
        return g.op("BatchNormalization", [y, *params], bn_path, epsilon=1e-5, momentum=0.9)

    x = g.op("Relu", [conv_bn("image", "/stem/conv", 3, 16)], "/stem")
    x = g.op("MaxPool", [x], "/stem", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    c_in = 16
    for stage, c_out in enumerate((16, 32, 64), start=1):
        for index in range(2):
            block = f"/stage{stage}/block{index}"
            stride = 2 if c_out != c_in else 1
            y = g.op("Relu", [conv_bn(x, f"{block}/conv1", c_in, c_out, stride=stride)], f"{block}/relu1")
            # A small gain on the branch, as in trained networks: else the sums grow from block to block and the
            # Softmax at the end saturates.
            y = conv_bn(y, f"{block}/conv2", c_out, c_out, gain=0.25)
            shortcut = x
            if stride > 1:
                shortcut = conv_bn(x, f"{block}/downsample/conv", c_in, c_out, kernel=1, stride=stride)
            x = g.op("Relu", [g.op("Add", [y, shortcut], block)], f"{block}/relu2")
            c_in = c_out
    x = g.op("Flatten", [g.op("GlobalAveragePool", [x], "/pool")], "/pool", axis=1)
    g.op("Softmax", [g.linear(x, "/fc", c_in, 10)], "/softmax", output="probabilities", axis=-1)
    return g.model(
        "resnet_tiny",
        _doc("A small ResNet, random weights, BatchNormalization left unfused for the runtime to fold.", "resnet"),
        [_tensor("image", ("batch", 3, 64, 64))],
        [_tensor("probabilities", ("batch", 10))],
    )


def mobilenet() -> onnx.ModelProto:
    """A MobileNetV2 in small: inverted residuals, depthwise 3x3 convolutions, ReLU6 as Clip(0, 6), BN folded.

    Shapes: ``image`` [batch, 3, 96, 96] -> ``probabilities`` [batch, 10], fp32.
    """
    g = GraphBuilder(seed=3)

    def relu6(x: str, path: str) -> str:
        return g.op("Clip", [x, g.constant("relu6.min", 0.0), g.constant("relu6.max", RELU6_MAX)], path)

    x = relu6(g.conv("image", "/stem/conv", 3, 16, 3, stride=2, bias=True), "/stem")
    c_in, index = 16, 0
    # Expansion, output channels, repeats, stride of the first: the columns of table 2 in arXiv:1801.04381.
    for expand, c_out, repeats, first_stride in ((1, 8, 1, 1), (4, 16, 2, 2), (4, 24, 3, 2), (4, 40, 2, 2)):
        for repeat in range(repeats):
            block, stride, hidden = f"/block{index}", first_stride if repeat == 0 else 1, c_in * expand
            y = x
            if expand > 1:
                y = relu6(g.conv(y, f"{block}/expand", c_in, hidden, 1, bias=True), f"{block}/expand")
            y = g.conv(y, f"{block}/depthwise", hidden, hidden, 3, stride=stride, group=hidden, bias=True)
            y = relu6(y, f"{block}/depthwise")
            y = g.conv(y, f"{block}/project", hidden, c_out, 1, bias=True)
            x = g.op("Add", [x, y], block) if stride == 1 and c_in == c_out else y
            c_in, index = c_out, index + 1
    x = relu6(g.conv(x, "/head/conv", c_in, 160, 1, bias=True), "/head")
    x = g.op("Flatten", [g.op("GlobalAveragePool", [x], "/pool")], "/pool", axis=1)
    g.op("Softmax", [g.linear(x, "/classifier", 160, 10)], "/softmax", output="probabilities", axis=-1)
    return g.model(
        "mobilenet_tiny",
        _doc("A small MobileNetV2, random weights: inverted residuals, depthwise convolutions, ReLU6.", "mobilenet"),
        [_tensor("image", ("batch", 3, 96, 96))],
        [_tensor("probabilities", ("batch", 10))],
    )


def transformer(*, layers: int = 2, width: int = 64, heads: int = 4, vocabulary: int = 1000) -> onnx.ModelProto:
    """A pre-norm transformer encoder with attention and Gelu written out, as an exporter leaves them for the runtime.

    There are no position embeddings, so no limit on the sequence length.

    Shapes: ``input_ids`` and ``attention_mask`` int64 [batch, sequence] -> ``hidden_states`` fp32
    [batch, sequence, width]. Ids are in [0, vocabulary); mask 1 = attend, 0 = ignore.

    Args:
        layers: Encoder layers.
        width: Width of the hidden states.
        heads: Attention heads; divides `width`.
        vocabulary: Rows of the embedding table.
    """
    g = GraphBuilder(seed=4)
    head_dim = width // heads

    def norm(x: str, path: str, output: str | None = None) -> str:
        scale = g.uniform(f"{_param(path)}.weight", (width,), 0.8, 1.2)
        bias = g.uniform(f"{_param(path)}.bias", (width,), -0.1, 0.1)
        return g.op("LayerNormalization", [x, scale, bias], path, output=output, axis=-1, epsilon=1e-5)

    def dense(x: str, path: str, n_in: int, n_out: int) -> str:
        # Three-dimensional input: the exporter writes MatMul + Add, with the weight stored [n_in, n_out].
        bound = 1.0 / math.sqrt(n_in)
        y = g.op("MatMul", [x, g.uniform(f"{_param(path)}.weight", (n_in, n_out), -bound, bound)], path)
        return g.op("Add", [g.uniform(f"{_param(path)}.bias", (n_out,), -bound, bound), y], path)

    def split_heads(x: str, path: str, perm: Sequence[int]) -> str:
        shape = g.constant("attention.split_shape", [0, 0, heads, head_dim], np.int64)
        return g.op("Transpose", [g.op("Reshape", [x, shape], path)], path, perm=perm)

    def attention(x: str, bias: str, path: str) -> str:
        q = split_heads(dense(x, f"{path}/query", width, width), f"{path}/query", [0, 2, 1, 3])
        k = split_heads(dense(x, f"{path}/key", width, width), f"{path}/key", [0, 2, 3, 1])
        v = split_heads(dense(x, f"{path}/value", width, width), f"{path}/value", [0, 2, 1, 3])
        scores = g.op("MatMul", [q, k], f"{path}/scores")
        scores = g.op("Div", [scores, g.constant("attention.sqrt_head_dim", math.sqrt(head_dim))], f"{path}/scores")
        scores = g.op("Softmax", [g.op("Add", [scores, bias], f"{path}/scores")], path, axis=-1)
        context = g.op(
            "Transpose", [g.op("MatMul", [scores, v], f"{path}/context")], f"{path}/context", perm=[0, 2, 1, 3]
        )
        merged = g.op("Reshape", [context, g.constant("attention.merge_shape", [0, 0, width], np.int64)], path)
        return dense(merged, f"{path}/output", width, width)

    def gelu(x: str, path: str) -> str:
        # x / 2 * (1 + erf(x / sqrt 2)), in the order that PyTorch's exporter writes and fusions look for.
        y = g.op("Erf", [g.op("Div", [x, g.constant("gelu.sqrt_two", math.sqrt(2.0))], path)], path)
        y = g.op("Add", [y, g.constant("gelu.one", 1.0)], path)
        return g.op("Mul", [g.op("Mul", [x, y], path), g.constant("gelu.half", 0.5)], path)

    mask = g.op("Unsqueeze", ["attention_mask", g.constant("mask.axes", [1, 2], np.int64)], "/mask")
    mask = g.op("Cast", [mask], "/mask", to=TensorProto.FLOAT)
    mask = g.op("Sub", [g.constant("mask.one", 1.0), mask], "/mask")
    # -10000 rather than the lowest fp32, so that the model stays usable after a conversion to fp16.
    mask = g.op("Mul", [mask, g.constant("mask.bias", -10000.0)], "/mask")

    x = g.op(
        "Gather", [g.uniform("embedding.weight", (vocabulary, width), -1.0, 1.0), "input_ids"], "/embedding", axis=0
    )
    for layer in range(layers):
        path = f"/layer{layer}"
        x = g.op("Add", [x, attention(norm(x, f"{path}/norm1"), mask, f"{path}/attention")], path)
        y = gelu(dense(norm(x, f"{path}/norm2"), f"{path}/mlp/fc1", width, 4 * width), f"{path}/mlp/gelu")
        x = g.op("Add", [x, dense(y, f"{path}/mlp/fc2", 4 * width, width)], path)
    norm(x, "/norm", output="hidden_states")
    return g.model(
        "transformer_block",
        _doc(
            f"A transformer encoder of {layers} layers, random weights, attention and Gelu written out.", "transformer"
        ),
        [
            _tensor("input_ids", ("batch", "sequence"), TensorProto.INT64),
            _tensor("attention_mask", ("batch", "sequence"), TensorProto.INT64),
        ],
        [_tensor("hidden_states", ("batch", "sequence", width))],
    )


def lstm() -> onnx.ModelProto:
    """A bidirectional LSTM, 64 -> 2 x 128, with a Gemm on its last hidden states.

    Shapes: ``features`` [sequence, batch, 64] -> ``logits`` [batch, 10], fp32.
    """
    g = GraphBuilder(seed=5)
    n_in, hidden = 64, 128
    bound = 1.0 / math.sqrt(hidden)
    weights = [
        g.uniform("lstm.weight_ih", (2, 4 * hidden, n_in), -bound, bound),
        g.uniform("lstm.weight_hh", (2, 4 * hidden, hidden), -bound, bound),
        g.uniform("lstm.bias", (2, 8 * hidden), -bound, bound),
    ]
    g.op("LSTM", ["features", *weights], "/lstm", n_out=3, direction="bidirectional", hidden_size=hidden)
    last = g.op("Transpose", [g.nodes[-1].output[1]], "/head", perm=[1, 0, 2])
    last = g.op("Reshape", [last, g.constant("head.shape", [-1, 2 * hidden], np.int64)], "/head")
    g.linear(last, "/head", 2 * hidden, 10, output="logits")
    return g.model(
        "lstm",
        _doc("A bidirectional LSTM with a Gemm head, random weights, dynamic sequence length.", "lstm"),
        [_tensor("features", ("sequence", "batch", n_in))],
        [_tensor("logits", ("batch", 10))],
    )


def float_cnn() -> onnx.ModelProto:
    """The fp32 residual CNN that `qdq` quantises.

    Shapes: ``image`` [batch, 3, 32, 32] -> ``logits`` [batch, 10], fp32.
    """
    g = GraphBuilder(seed=6)

    def conv_relu(x: str, path: str, c_in: int, c_out: int, stride: int = 1) -> str:
        return g.op("Relu", [g.conv(x, path, c_in, c_out, 3, stride=stride, bias=True)], path)

    x, c_in = "image", 3
    for stage, (c_out, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        path = f"/stage{stage}"
        x = conv_relu(x, f"{path}/conv0", c_in, c_out, stride)
        y = g.conv(conv_relu(x, f"{path}/conv1", c_out, c_out), f"{path}/conv2", c_out, c_out, 3, bias=True)
        x = g.op("Relu", [g.op("Add", [y, x], path)], path)
        c_in = c_out
    x = g.op("Flatten", [g.op("GlobalAveragePool", [x], "/pool")], "/pool", axis=1)
    g.linear(x, "/fc", c_in, 10, output="logits")
    return g.model(
        "float_cnn",
        _doc("The fp32 network behind qdq_cnn.onnx.", "qdq"),
        [_tensor("image", ("batch", 3, 32, 32))],
        [_tensor("logits", ("batch", 10))],
    )


def sample_images(count: int, seed: int) -> FloatArray:
    """Random images [count, 3, 32, 32] in [-1, 1): coarse patches of 8x8 pixels plus fine noise.

    White noise alone would be no use for calibration: averaged over a receptive field, one such image is like another.
    """
    bits = np.random.PCG64(seed)
    coarse = 2.0 * _unit_uniform(bits, (count, 3, 4, 4)) - 1.0
    fine = 2.0 * _unit_uniform(bits, (count, 3, 32, 32)) - 1.0
    return (0.8 * coarse.repeat(8, axis=2).repeat(8, axis=3) + 0.2 * fine).astype(np.float32)


def calibrate(model: onnx.ModelProto, images: FloatArray) -> dict[str, tuple[float, float]]:
    """The least and greatest value of every fp32 activation of `model` over `images`.

    Args:
        model: A model with one input, ``image``.
        images: The calibration set.

    Returns:
        Tensor name -> (min, max), for the graph's input and every node's output.
    """
    values = cast("dict[str, FloatArray]", ReferenceEvaluator(model).run(None, {"image": images}, intermediate=True))
    weights = {tensor.name for tensor in model.graph.initializer}
    return {
        name: (float(np.min(value)), float(np.max(value)))
        for name, value in values.items()
        if name and name not in weights
    }


def round_range(low: float, high: float) -> tuple[float, float]:
    """Widen a range to hold 0 and to three significant digits, rounding away from 0."""
    context = Context(prec=3, rounding=ROUND_UP)
    return float(context.create_decimal(min(low, 0.0))), float(context.create_decimal(max(high, 0.0)))


def quantise(model: onnx.ModelProto, ranges: Mapping[str, tuple[float, float]], name: str, doc: str) -> onnx.ModelProto:
    """Put QuantizeLinear and DequantizeLinear around every op of `model`, in ONNX Runtime's QDQ format.

    Activations are uint8 per tensor: with a range that starts at 0 the zero point is 0, so the clamp of Relu is the
    clamp of the quantisation and the runtime can drop Relu. Weights are int8 per output channel, symmetric, 7 bits.
    Biases are int32 at scale(input) * scale(weight). A Conv or Add with a Relu behind it is quantised after the Relu.

    Own code rather than `onnxruntime.quantization`: the file has to come out the same, byte for byte, with every
    version of the runtime.

    Args:
        model: An fp32 model of Conv, Gemm (transB=1), Add, Relu, GlobalAveragePool and Flatten.
        ranges: (min, max) of every activation, from `calibrate`.
        name: Name of the new graph.
        doc: Its doc_string.
    """
    g = GraphBuilder(seed=0)
    source = model.graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in source.initializer}
    consumers: dict[str, list[str]] = {}
    for node in source.node:
        for tensor in node.input:
            consumers.setdefault(tensor, []).append(node.op_type)
    kept_float = {tensor.name for tensor in source.output} | {t for t, ops in consumers.items() if ops == ["Relu"]}
    scales: dict[str, np.float32] = {}
    dequantised: dict[str, str] = {}

    def append(op_type: str, inputs: Sequence[str], output: str, node_name: str, **attrs: Any) -> str:
        g.nodes.append(helper.make_node(op_type, inputs, [output], name=node_name, **attrs))
        return output

    def activation(tensor: str, params_of: str) -> None:
        low, high = round_range(*ranges[params_of])
        scales[tensor] = np.float32((high - low) / ACTIVATION_QMAX)
        zero_point = round(-low / float(scales[tensor]))
        params = [
            g.constant(f"{params_of}_scale", scales[tensor]),
            g.constant(f"{params_of}_zero_point", zero_point, np.uint8),
        ]
        quantised = append("QuantizeLinear", [tensor, *params], f"{tensor}_quantized", f"{tensor}_QuantizeLinear")
        dequantised[tensor] = append(
            "DequantizeLinear", [quantised, *params], f"{tensor}_dequantized", f"{tensor}_DequantizeLinear"
        )

    def stored(tensor: str, values: npt.NDArray[Any], scale: FloatArray, dtype: npt.DTypeLike) -> str:
        inputs = [
            g.constant(f"{tensor}_quantized", values, dtype),
            g.constant(f"{tensor}_scale", scale),
            g.constant(f"{tensor}_zero_point", np.zeros(len(scale)), dtype),
        ]
        return append("DequantizeLinear", inputs, f"{tensor}_dequantized", f"{tensor}_DequantizeLinear", axis=0)

    def weighted(node: onnx.NodeProto) -> list[str]:
        x, weight, bias = node.input
        value = weights[weight].astype(np.float64)
        scale = (np.abs(value).reshape(len(value), -1).max(axis=1) / WEIGHT_QMAX).astype(np.float32)
        per_channel = scale.astype(np.float64).reshape(-1, *[1] * (value.ndim - 1))
        bias_scale = scales[x] * scale
        return [
            dequantised[x],
            stored(weight, np.rint(value / per_channel), scale, np.int8),
            stored(
                bias, np.rint(weights[bias].astype(np.float64) / bias_scale.astype(np.float64)), bias_scale, np.int32
            ),
        ]

    for image in source.input:
        activation(image.name, image.name)
    for node in source.node:
        inputs = (
            weighted(node)
            if node.op_type in {"Conv", "Gemm"}
            else [dequantised.get(tensor, tensor) for tensor in node.input]
        )
        g.nodes.append(helper.make_node(node.op_type, inputs, list(node.output), name=node.name))
        g.nodes[-1].attribute.extend(node.attribute)
        output = node.output[0]
        if output not in kept_float:
            # Flatten moves no value, so it keeps its input's scale: that lets the runtime run it on integers.
            activation(output, node.input[0] if node.op_type == "Flatten" else output)
    return g.model(name, doc, source.input, source.output)


def qdq() -> onnx.ModelProto:
    """A residual CNN in QDQ form, calibrated over 32 seeded images; the CPU provider fuses it to QLinearConv and kin.

    Shapes: ``image`` [batch, 3, 32, 32] -> ``logits`` [batch, 10], fp32 at both ends.
    """
    model = float_cnn()
    doc = _doc("A residual CNN in QDQ form: uint8 activations, int8 weights per channel, int32 biases.", "qdq")
    return quantise(model, calibrate(model, sample_images(32, seed=7)), "qdq_cnn", doc)


@dataclass(frozen=True)
class Sample:
    """One committed model: the file it goes to and the function that makes it."""

    file_name: str
    build: Callable[[], onnx.ModelProto]


# Command -> the model it writes. Only the convolution, too big to commit, stands apart.
COMMITTED: dict[str, Sample] = {
    "gemv": Sample("gemv.onnx", gemv),
    "resnet": Sample("resnet_tiny.onnx", resnet),
    "mobilenet": Sample("mobilenet_tiny.onnx", mobilenet),
    "transformer": Sample("transformer_block.onnx", transformer),
    "lstm": Sample("lstm.onnx", lstm),
    "qdq": Sample("qdq_cnn.onnx", qdq),
}


def write(model: onnx.ModelProto, path: Path, *, external_data: bool = False) -> list[Path]:
    """Write `model` to `path`, over whatever is there.

    Args:
        model: The model.
        path: The file.
        external_data: Put the weights in ``<path>.data``.

    Returns:
        The files written.

    Raises:
        OSError: A file cannot be written.
    """
    if not external_data:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return [path]
    data = _data_path(path)
    # onnx appends to a data file that is already there.
    data.unlink(missing_ok=True)
    onnx.save_model(model, path, save_as_external_data=True, location=data.name)
    return [path, data]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: print one line for each file written.

    Args:
        argv: Arguments without the program's name; None for those of the process.

    Returns:
        0. Bad usage and files that cannot be written leave through `SystemExit` 2, with one message on stderr.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.model != "conv" and (args.spatial is not None or args.external_data):
        parser.error(f"--spatial and --external-data belong to 'conv', not to '{args.model}'")
    spatial = 256 if args.spatial is None else args.spatial
    if not 1 <= spatial <= MAX_SPATIAL:
        parser.error(f"--spatial must be between 1 and {MAX_SPATIAL}, not {spatial}")
    jobs = _jobs(args.model, args.output, spatial)

    targets = [path for path, _ in jobs]
    if args.external_data:
        targets.append(_data_path(targets[0]))
    try:
        # All the refusals come before the first write.
        if refusal := _refusal(targets, force=args.force):
            parser.error(refusal)
        for path, build in jobs:
            for file in write(build(), path, external_data=args.external_data):
                print(f"{file}  {file.stat().st_size:,} bytes")
    except OSError as error:
        parser.error(f"cannot write {error.filename or targets[0]}: {error.strerror or error}")
    return 0


def _refusal(targets: Sequence[Path], *, force: bool) -> str:
    for path in targets:
        if path.is_dir():
            return f"{path} is a folder: --output takes a file, except with 'all'"
        if not path.parent.is_dir():
            return f"no folder {path.parent}: make it first"
    present = [str(path) for path in targets if path.exists()]
    if present and not force:
        return f"already there: {', '.join(present)}; pass --force to overwrite"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="generate.py", description="Write the sample models; the same command writes the same bytes."
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="all",
        choices=["all", *COMMITTED, "conv"],
        help="which model; 'all' (the default) is every committed one, so not 'conv'",
    )
    parser.add_argument("-o", "--output", type=Path, help="the file to write; with 'all', an existing folder")
    parser.add_argument("--force", action="store_true", help="overwrite files that are already there")
    parser.add_argument("--spatial", type=int, metavar="N", help="conv: height and width (default 256)")
    parser.add_argument("--external-data", action="store_true", help="conv: put the weights in OUTPUT.data")
    return parser


def _jobs(model: str, output: Path | None, spatial: int) -> list[tuple[Path, Callable[[], onnx.ModelProto]]]:
    if model == "all":
        return [((output or HERE) / sample.file_name, sample.build) for sample in COMMITTED.values()]
    if model == "conv":
        return [(output or HERE / f"conv_512_5x5_{spatial}.generated.onnx", lambda: conv(spatial))]
    sample = COMMITTED[model]
    return [(output or HERE / sample.file_name, sample.build)]


def _data_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.data")


def _doc(what: str, command: str) -> str:
    return f"{what} Made by: python sample_models/generate.py {command}"


def _param(path: str) -> str:
    return path.strip("/").replace("/", ".")


def _tensor(name: str, shape: Sequence[Dim], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _unit_uniform(bits: np.random.PCG64, shape: Sequence[int]) -> npt.NDArray[np.float64]:
    # The top 53 bits of each word, as NumPy itself makes doubles in [0, 1).
    words = bits.random_raw(math.prod(shape))
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)


if __name__ == "__main__":
    sys.exit(main())
