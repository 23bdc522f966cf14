"""A ResNet-18 as PyTorch exports it, its batch normalisations folded, and a bare capture of an engine of it.

The nodes are named as exporters of PyTorch name them: ``/layer1/layer1.0/conv1/Conv``, or by type and place as old
ones did: ``Conv_5``. The capture has a range for each layer that TensorRT makes of them, and no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.trace_factory import NVTX, Layer, Process, Rows, Work, write_trace

REFORMAT = "Reformatting CopyNode for Input Tensor 0 to "
HALF = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor"
HALF_KERNEL = HALF + "16x8x16_execute_kernel_trt"
COPY = "void genericReformat::copyVectorizedKernel<double, float, __half, (bool)1, (bool)0, (int)1>()"


class _Graph:
    def __init__(self, *, numbered: bool) -> None:
        self.numbered = numbered
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, path: str, op_type: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{op_type}_{len(self.nodes)}" if self.numbered else f"/{path}/{op_type}"
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}_output"], name=name, **attributes))
        return f"{name}_output"

    def constant(self, name: str, *shape: int) -> str:
        self.weights.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def conv(self, path: str, x: str, channels: tuple[int, int], kernel: int, stride: int) -> str:
        weights = self.constant(f"{path}.weight", channels[1], channels[0], kernel, kernel)
        bias = self.constant(f"{path}.bias", channels[1])
        pads = [kernel // 2] * 4
        return self.add(path, "Conv", [x, weights, bias], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)


def write_resnet18(
    path: Path, batch: int | str = "N", *, width: int = 64, size: int = 224, numbered: bool = False
) -> onnx.ModelProto:
    """Write the model; a batch that is a word is open.

    Args:
        path: The file.
        batch: Of the input.
        width: Channels of the first stage: 64 is the real one.
        size: Height and width of the images.
        numbered: Nodes are named by their type and place.
    """
    graph = _Graph(numbered=numbered)
    x = graph.add("relu", "Relu", [graph.conv("conv1", "input", (3, width), 7, 2)])
    x = graph.add("maxpool", "MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    made = width
    for stage in range(4):
        for block in range(2):
            at = f"layer{stage + 1}/layer{stage + 1}.{block}"
            given, out = made, width << stage
            stride = 2 if stage and not block else 1
            shortcut = x
            y = graph.add(f"{at}/relu", "Relu", [graph.conv(f"{at}/conv1", x, (given, out), 3, stride)])
            y = graph.conv(f"{at}/conv2", y, (out, out), 3, 1)
            if given != out:
                shortcut = graph.conv(f"{at}/downsample/downsample.0", x, (given, out), 1, stride)
            x = graph.add(f"{at}/relu_1", "Relu", [graph.add(at, "Add", [y, shortcut])])
            made = out
    x = graph.add("avgpool", "GlobalAveragePool", [x])
    x = graph.add("flatten", "Flatten", [x], axis=1)
    weights, bias = graph.constant("fc.weight", 1000, made), graph.constant("fc.bias", 1000)
    x = graph.add("fc", "Gemm", [x, weights, bias], transB=1)
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "resnet18",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, size, size])],
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, [batch, 1000])],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(proto, path)
    return proto


def layer_names(proto: onnx.ModelProto) -> list[str]:
    """What TensorRT calls the layers of an engine of it: a convolution with the Add and the Relu behind it."""
    nodes = list(proto.graph.node)
    names: list[str] = []
    taken: set[str] = set()
    made = {node.output[0] for node in nodes if node.op_type == "Conv"}
    for node in nodes:
        if node.name in taken or node.op_type == "Flatten":
            continue
        parts, end = [node.name], node.output[0]
        while node.op_type == "Conv":
            behind = next((one for one in nodes if end in one.input and one.op_type in ("Add", "Relu")), None)
            # The last product before an Add takes it in; the shortcut is made before.
            if behind is None or behind.name in taken:
                break
            later = [one for one in behind.input if one in made and one != end]
            order = [one.output[0] for one in nodes]
            if behind.op_type == "Add" and any(order.index(one) > order.index(end) for one in later):
                break
            parts.append(behind.name)
            end = behind.output[0]
        taken.update(parts)
        names.append(" + ".join(parts))
    return names


def engine_of(proto: onnx.ModelProto, ns: int = 50_000) -> tuple[Layer, ...]:
    """Layers of a bare capture: each launches a kernel of fp16 that took ``ns``, behind a reformat of the input."""
    names = layer_names(proto)
    layers = [Layer(REFORMAT + names[0], (Work(COPY, ns // 2),))]
    for name in names:
        multiplies = "Conv" in name or "Gemm" in name
        layers.append(Layer(name, (Work(HALF_KERNEL if multiplies else "generatedNativePointwise", ns),)))
    return tuple(layers)


def write_capture(path: Path, layers: tuple[Layer, ...], *, ranges: bool = True, rows: Rows | None = None) -> int:
    """Write a capture of an engine, with or without NVTX ranges, and return the time of its kernels."""
    process = Process(pid=111, layers=layers, iterations=5)
    return write_trace(path, [process], rows=rows, without=() if ranges else (NVTX,)).kernel_ns
