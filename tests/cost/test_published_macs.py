"""Whole architectures, built from their papers' tables, against MACs summed up from these tables by hand.

Each graph states kernels, strides and paddings; each hand count states the sizes of the maps, as the papers print
them. Neither uses the other nor the cost functions, and both must give the count that is pinned and published.
Weights have shapes and no values: external data in a file of holes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import StringStringEntryProto, TensorProto, helper, numpy_helper

from trtprof.flows.inspect import inspect
from trtprof.source.request import ModelRequest


class Net:
    """Collects nodes and weights; every method appends and returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[TensorProto] = []
        self.weight_bytes = 0

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        result = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [result], name=f"n{len(self.nodes)}", **attributes))
        return result

    def weight(self, *dims: int) -> str:
        length = 4 * math.prod(dims)
        entries = {"location": "weights", "offset": str(self.weight_bytes), "length": str(length)}
        self.initializers.append(
            TensorProto(
                name=f"w{len(self.initializers)}",
                data_type=TensorProto.FLOAT,
                dims=dims,
                data_location=TensorProto.EXTERNAL,
                external_data=[StringStringEntryProto(key=key, value=value) for key, value in entries.items()],
            )
        )
        self.weight_bytes += length
        return self.initializers[-1].name

    def integers(self, *values: int) -> str:
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        weight, bias = self.weight(outputs, inputs // group, kernel, kernel), self.weight(outputs)
        pads = [kernel // 2] * 4
        return self.op("Conv", x, weight, bias, strides=[stride] * 2, pads=pads, group=group)

    def conv_relu(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        return self.op("Relu", self.conv(x, inputs, outputs, kernel, stride, group))

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(inputs, outputs)), self.weight(outputs))

    def norm(self, x: str, width: int) -> str:
        return self.op("LayerNormalization", x, self.weight(width), self.weight(width), axis=-1)

    def classify(self, x: str, inputs: int) -> str:
        flat = self.op("Flatten", self.op("GlobalAveragePool", x))
        return self.op("Gemm", flat, self.weight(1000, inputs), self.weight(1000), transB=1)

    def encoder_layer(self, x: str, tokens: int, width: int, heads: int, pre_norm: bool) -> str:
        """Self-attention and a feed-forward of four times the width (Vaswani et al. 2017)."""

        def split(name: str, perm: list[int]) -> str:
            shape = self.integers(1, tokens, heads, width // heads)
            return self.op("Transpose", self.op("Reshape", name, shape), perm=perm)

        y = self.norm(x, width) if pre_norm else x
        queries, keys, values = (self.linear(y, width, width) for _ in range(3))
        scores = self.op("MatMul", split(queries, [0, 2, 1, 3]), split(keys, [0, 2, 3, 1]))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), split(values, [0, 2, 1, 3]))
        mixed = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self.linear(self.op("Reshape", mixed, self.integers(1, tokens, width)), width, width)
        x = self.op("Add", x, mixed)
        x = x if pre_norm else self.norm(x, width)
        y = self.norm(x, width) if pre_norm else x
        inner = self.linear(y, width, 4 * width)
        erf = self.op("Erf", inner)  # Gelu but for its scalar factors, which are no MACs
        x = self.op("Add", x, self.linear(self.op("Mul", inner, erf), 4 * width, width))
        return x if pre_norm else self.norm(x, width)

    def save(self, folder: Path, name: str, dtype: int, shape: list[int], output: str) -> Path:
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", dtype, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with (folder / "weights").open("wb") as holes:
            holes.truncate(self.weight_bytes)
        path = folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        return path


# --- ResNet: He et al. 2016, table 1 ----------------------------------------------------------------------------

RESNET_STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))
"""Size of the map and width of each stage, conv2_x to conv5_x."""


def resnet(folder: Path, blocks: tuple[int, ...], bottleneck: bool) -> Path:
    net = Net()
    x = net.conv_relu("input", 3, 64, 7, stride=2)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for stage, ((_, width), count) in enumerate(zip(RESNET_STAGES, blocks, strict=True)):
        outputs = 4 * width if bottleneck else width
        for block in range(count):
            stride = 2 if stage and not block else 1
            if bottleneck:  # the stride is in the 3x3, as in what is published as version 1.5
                y = net.conv_relu(x, inputs, width, 1)
                y = net.conv_relu(y, width, width, 3, stride)
                y = net.conv(y, width, outputs, 1)
            else:
                y = net.conv(net.conv_relu(x, inputs, width, 3, stride), width, width, 3)
            shortcut = x if inputs == outputs else net.conv(x, inputs, outputs, 1, stride)
            x = net.op("Relu", net.op("Add", y, shortcut))
            inputs = outputs
    return net.save(folder, "resnet", TensorProto.FLOAT, [1, 3, 224, 224], net.classify(x, inputs))


def resnet_by_hand(blocks: tuple[int, ...], bottleneck: bool) -> int:
    total = 112**2 * 64 * 3 * 7**2
    inputs, before = 64, 56
    for (size, width), count in zip(RESNET_STAGES, blocks, strict=True):
        outputs = 4 * width if bottleneck else width
        for block in range(count):
            if bottleneck:
                total += (size if block else before) ** 2 * width * inputs
                total += size**2 * (width * width * 9 + outputs * width)
            else:
                total += size**2 * (width * inputs * 9 + width * width * 9)
            if inputs != outputs:
                total += size**2 * outputs * inputs
            inputs = outputs
        before = size
    return total + 1000 * inputs


# --- MobileNetV2: Sandler et al. 2018, table 2 ------------------------------------------------------------------

MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion t, channels c, repeats n, stride s of each row."""
MOBILENET_V2_INPUTS = (112, 112, 56, 28, 14, 14, 7)
"""Size of the map that each row takes in, from the column Input."""


def mobilenet_v2(folder: Path) -> Path:
    net = Net()
    x, inputs = net.conv_relu("input", 3, 32, 3, stride=2), 32
    for expansion, outputs, repeats, first_stride in MOBILENET_V2:
        for block in range(repeats):
            inner = expansion * inputs
            y = net.conv_relu(x, inputs, inner, 1) if expansion > 1 else x
            y = net.conv_relu(y, inner, inner, 3, first_stride if block == 0 else 1, group=inner)
            y = net.conv(y, inner, outputs, 1)
            x, inputs = (net.op("Add", x, y) if block else y), outputs
    x = net.conv_relu(x, inputs, 1280, 1)
    return net.save(folder, "mobilenet_v2", TensorProto.FLOAT, [1, 3, 224, 224], net.classify(x, 1280))


def mobilenet_v2_by_hand() -> int:
    total, inputs = 112**2 * 32 * 3 * 9, 32
    for (expansion, outputs, repeats, _), size, after in zip(
        MOBILENET_V2, MOBILENET_V2_INPUTS, (*MOBILENET_V2_INPUTS[1:], 7), strict=True
    ):
        for block in range(repeats):
            inner = expansion * inputs
            if expansion > 1:
                total += (after if block else size) ** 2 * inner * inputs
            total += after**2 * (inner * 9 + outputs * inner)
            inputs = outputs
    return total + 7**2 * 1280 * inputs + 1000 * 1280


# --- ViT-B/16: Dosovitskiy et al. 2021, table 1; BERT-base: Devlin et al. 2019, section 3 -----------------------


def vit_b_16(folder: Path) -> Path:
    net = Net()
    patches = net.op("Conv", "input", net.weight(768, 3, 16, 16), net.weight(768), strides=[16, 16])
    x = net.op("Transpose", net.op("Reshape", patches, net.integers(1, 768, -1)), perm=[0, 2, 1])
    x = net.op("Concat", net.weight(1, 1, 768), x, axis=1)
    x = net.op("Add", x, net.weight(1, 197, 768))
    for _ in range(12):
        x = net.encoder_layer(x, tokens=197, width=768, heads=12, pre_norm=True)
    token = net.op("Gather", net.norm(x, 768), net.integers(0), axis=1)
    head = net.linear(net.op("Flatten", token), 768, 1000)
    return net.save(folder, "vit_b_16", TensorProto.FLOAT, [1, 3, 224, 224], head)


def bert_base(folder: Path) -> Path:
    net = Net()
    x = net.op("Add", net.op("Gather", net.weight(30522, 768), "input"), net.weight(1, 128, 768))
    x = net.norm(x, 768)
    for _ in range(12):
        x = net.encoder_layer(x, tokens=128, width=768, heads=12, pre_norm=False)
    first = net.op("Flatten", net.op("Gather", x, net.integers(0), axis=1))
    return net.save(folder, "bert_base", TensorProto.INT64, [1, 128], net.op("Tanh", net.linear(first, 768, 768)))


def encoder_by_hand(tokens: int) -> int:
    """Four projections, two linear layers of 768 x 3072, and scores and mixing: tokens^2 for each of 768 channels."""
    return 12 * (4 * tokens * 768**2 + 2 * tokens * 768 * 3072 + 2 * tokens**2 * 768)


@pytest.mark.parametrize(
    ("build", "by_hand", "pinned", "published"),
    [
        # Published: the table of torchvision's models (its GFLOPS are MACs), for BERT the README of calflops.
        pytest.param(
            lambda folder: resnet(folder, (2, 2, 2, 2), bottleneck=False),
            resnet_by_hand((2, 2, 2, 2), bottleneck=False),
            1_814_073_344,
            1.81,
            id="resnet18",
        ),
        pytest.param(
            lambda folder: resnet(folder, (3, 4, 6, 3), bottleneck=True),
            resnet_by_hand((3, 4, 6, 3), bottleneck=True),
            4_089_184_256,
            4.09,
            id="resnet50",
        ),
        pytest.param(
            lambda folder: resnet(folder, (3, 8, 36, 3), bottleneck=True),
            resnet_by_hand((3, 8, 36, 3), bottleneck=True),
            11_513_626_624,
            11.51,
            id="resnet152",
        ),
        pytest.param(mobilenet_v2, mobilenet_v2_by_hand(), 300_774_272, 0.30, id="mobilenet_v2"),
        pytest.param(
            vit_b_16, 196 * 768 * 3 * 16**2 + encoder_by_hand(197) + 768 * 1000, 17_563_828_224, 17.56, id="vit_b_16"
        ),
        pytest.param(bert_base, encoder_by_hand(128) + 768 * 768, 11_174_215_680, 11.17, id="bert_base"),
    ],
)
def test_published_macs(
    tmp_path: Path, build: Callable[[Path], Path], by_hand: int, pinned: int, published: float
) -> None:
    inspected = inspect(ModelRequest.of(build(tmp_path)))
    assert inspected.total.macs == by_hand == pinned
    assert round(pinned / 1e9, 2) == published
    assert inspected.model.shape_coverage == 1.0
    assert not inspected.unsupported
