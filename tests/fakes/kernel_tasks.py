"""Tasks for kernels, written down with few words, and one for each template and dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from trtprof.base.records import Dim
from trtprof.plugin.task import Operand, Task, numpy_dtype

Specs = Mapping[str, tuple[str, Sequence[Dim]]]
"""Operands by name: a dtype and dims."""


def node(op_type: str, inputs: str, outputs: str = "y", domain: str = "", **attributes: Any) -> NodeProto:
    """A node with its operands in one string; ``_`` is one that is left out."""
    reads, makes = (["" if name == "_" else name for name in names.split()] for names in (inputs, outputs))
    return helper.make_node(op_type, reads, makes, f"{op_type}_{makes[0]}", domain=domain, **attributes)


def task(
    nodes: Sequence[NodeProto],
    inputs: Specs,
    outputs: Specs,
    *,
    opset: int = 24,
    constants: Mapping[str, Any] = {},
    weights: str = "",
    name: str = "Task",
    main: str = "",
) -> Task:
    """A task whose body holds some nodes.

    Args:
        nodes: In an order that can be executed.
        inputs: Operands that are read.
        outputs: Operands that are written.
        opset: Of the standard ops.
        constants: What Constant nodes of the body hold, by name; numpy arrays or lists.
        weights: Names of inputs that the model holds.
        name: Of the task.
        main: Its op; that of the first node by default.
    """
    made = [
        helper.make_node("Constant", [], [one], one, value=numpy_helper.from_array(np.asarray(value)))
        for one, value in constants.items()
    ]
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(one, 1) for one in sorted({node.domain for node in nodes} - {""})]
    body = helper.make_function("trtprof", name, list(inputs), list(outputs), [*made, *nodes], opsets)
    read, written = (
        tuple(Operand(one, dtype, tuple(dims), one, one in weights.split()) for one, (dtype, dims) in specs.items())
        for specs in (inputs, outputs)
    )
    return Task(name, tuple(one.name for one in nodes), read, written, body, main or nodes[0].op_type)


def one_node(op_type: str, shapes: Mapping[str, Sequence[Dim]], dtype: str = "fp32", **attributes: Any) -> Task:
    """A node whose operands have these shapes; ``y`` is its output."""
    specs = {name: (dtype, dims) for name, dims in shapes.items()}
    y = specs.pop("y")
    return task([node(op_type, " ".join(specs), **attributes)], specs, {"y": y})


def matmul(
    x: Sequence[Dim],
    w: Sequence[Dim],
    y: Sequence[Dim],
    dtype: str = "fp32",
    *,
    name: str = "Gemv",
    stored: str = "",
    turned: bool = False,
) -> Task:
    """A MatMul of x and w.

    Args:
        x: Dims of the left side.
        w: Of the right.
        y: Of the result.
        dtype: Of all.
        name: Of the task.
        stored: ``int8`` for a right side that is quantised, with a scale for each of its columns.
        turned: Whether the right side lies in memory with its last two dimensions swapped.
    """
    inputs: dict[str, tuple[str, Sequence[Dim]]] = {"x": (dtype, x), "w": (stored or dtype, w)}
    nodes = []
    right, last = "w", len(w) - 1
    if stored:
        nodes.append(node("DequantizeLinear", "w scale zero", "w_real", axis=last - turned))
        inputs |= {"scale": (dtype, w[-1:]), "zero": (stored, w[-1:])}
        right = "w_real"
    if turned:
        inputs["w"] = (inputs["w"][0], (*w[:-2], w[-1], w[-2]))
        nodes.append(node("Transpose", right, "w_turned", perm=[*range(last - 1), last, last - 1]))
        right = "w_turned"
    nodes.append(node("MatMul", f"x {right}"))
    return task(nodes, inputs, {"y": (dtype, y)}, name=name, main="MatMul")


def batched_gemv(batch: Dim = 600, rows: Dim = 200, heads: Dim = 8, depth: int = 64, dtype: str = "fp32") -> Task:
    """The layer of the story, that fell back to an old kernel; at its own sizes without arguments."""
    x, w, y = (batch, rows, heads, 1, depth), (batch, 1, heads, depth, 1), (batch, rows, heads, 1, 1)
    return matmul(x, w, y, dtype, name="BatchedGemv_64")


def linear(rows: Dim, depth: int, columns: int, dtype: str = "fp16") -> Task:
    """A product with a bias and an activation behind it."""
    nodes = [node("MatMul", "x w", "p"), node("Add", "p bias", "q"), node("Relu", "q")]
    inputs: Specs = {"x": (dtype, (rows, depth)), "w": (dtype, (depth, columns)), "bias": (dtype, (columns,))}
    return task(nodes, inputs, {"y": (dtype, (rows, columns))}, weights="w bias")


def transposed_linear(rows: Dim, depth: int, columns: int, dtype: str = "fp16") -> Task:
    inputs: Specs = {"x": (dtype, (rows, depth)), "w": (dtype, (columns, depth)), "bias": (dtype, (columns,))}
    return task([node("Gemm", "x w bias", transB=1)], inputs, {"y": (dtype, (rows, columns))}, weights="w bias")


def quantised_linear(rows: Dim, depth: int, columns: int, dtype: str = "fp16") -> Task:
    """Weights of a byte, with a scale for each column."""
    nodes = [node("DequantizeLinear", "w scale", "v", axis=1), node("MatMul", "x v")]
    inputs: Specs = {"x": (dtype, (rows, depth)), "w": ("int8", (depth, columns)), "scale": (dtype, (columns,))}
    return task(nodes, inputs, {"y": (dtype, (rows, columns))}, weights="w scale", main="MatMul")


def depthwise(channels: int, side: int, dtype: str = "fp16", **attributes: Any) -> Task:
    """A 3x3 convolution that keeps channels apart, with a bias."""
    stride = attributes.get("strides", [1, 1])[0]
    result = (side + 2 - 3) // stride + 1
    shapes: dict[str, tuple[Dim, ...]] = {
        "x": ("n", channels, side, side), "w": (channels, 1, 3, 3), "bias": (channels,),
        "y": ("n", channels, result, result),
    }  # fmt: skip
    return one_node("Conv", shapes, dtype, group=channels, pads=[1, 1, 1, 1], kernel_shape=[3, 3], **attributes)


def softmax(rows: Dim, width: Dim, dtype: str = "fp16") -> Task:
    return one_node("Softmax", {"x": (rows, width), "y": (rows, width)}, dtype, axis=-1)


def masked_softmax(heads: Dim, rows: Dim, width: Dim, dtype: str = "fp16") -> Task:
    nodes = [node("Div", "x root", "z"), node("Add", "z mask", "s"), node("Softmax", "s", axis=-1)]
    dims = ("n", heads, rows, width)
    inputs: Specs = {"x": (dtype, dims), "mask": (dtype, ("n", 1, 1, width))}
    root = np.array(8, numpy_dtype(dtype))
    return task(nodes, inputs, {"y": (dtype, dims)}, constants={"root": root}, main="Softmax")


def layer_norm(rows: Dim, width: int, dtype: str = "fp16") -> Task:
    shapes: dict[str, tuple[Dim, ...]] = {"x": (rows, width), "w": (width,), "b": (width,), "y": (rows, width)}
    return one_node("LayerNormalization", shapes, dtype, axis=-1)


def rms_norm(rows: Dim, width: int, dtype: str = "fp16") -> Task:
    """With the residual before it, which is a result, too."""
    nodes = [node("Add", "x r", "s"), node("RMSNormalization", "s w", axis=-1)]
    of = (dtype, (rows, width))
    inputs: Specs = {"x": of, "r": of, "w": (dtype, (width,))}
    return task(nodes, inputs, {"s": of, "y": of}, main="RMSNormalization")


def reduction(op_type: str, dims: Sequence[Dim], axis: int, dtype: str = "fp16") -> Task:
    result = [1 if place == axis % len(dims) else dim for place, dim in enumerate(dims)]
    nodes = [node(op_type, "x axes", keepdims=1)]
    return task(nodes, {"x": (dtype, dims)}, {"y": (dtype, result)}, constants={"axes": [axis]})


def transpose(dims: Sequence[Dim], perm: Sequence[int], dtype: str = "fp16") -> Task:
    return one_node("Transpose", {"x": dims, "y": [dims[place] for place in perm]}, dtype, perm=list(perm))


def gather(rows: int, width: Dim, count: Dim, dtype: str = "fp16") -> Task:
    inputs: Specs = {"x": (dtype, (rows, width)), "ids": ("int64", (count,))}
    return task([node("Gather", "x ids", axis=0)], inputs, {"y": (dtype, (count, width))})


def swish_gate(rows: Dim, width: Dim, dtype: str = "fp16") -> Task:
    """An element-wise chain with a row that is broadcast."""
    nodes = [
        node("Add", "x bias", "s"), node("Sigmoid", "s", "g"), node("Mul", "s g", "h"), node("Mul", "h gate"),
    ]  # fmt: skip
    inputs: Specs = {"x": (dtype, (rows, width)), "bias": (dtype, (width,)), "gate": (dtype, (rows, 1))}
    return task(nodes, inputs, {"y": (dtype, (rows, width))}, main="Sigmoid")


def usual(dtype: str) -> dict[str, Task]:
    """A few tasks of each template, of middling size."""
    return {
        "gemv batched": batched_gemv("n", 20, 8, 64, dtype),
        "gemv row": linear(1, 256, 96, dtype),
        "gemv rows": linear("m", 96, 5, dtype),
        "gemv transposed": transposed_linear(3, 192, 64, dtype),
        "gemv int8": quantised_linear(1, 128, 96, dtype),
        "depthwise": depthwise(8, 19, dtype),
        "depthwise stride 2": depthwise(8, 18, dtype, strides=[2, 2]),
        "softmax": softmax("n", 1000, dtype),
        "softmax masked": masked_softmax(4, 16, 48, dtype),
        "layer norm": layer_norm("n", 768, dtype),
        "rms norm": rms_norm("n", 512, dtype),
        "reduce last": reduction("ReduceMean", ("n", 500), -1, dtype),
        "reduce first": reduction("ReduceSum", (64, "n"), 0, dtype),
        "reduce max": reduction("ReduceMax", (6, "n", 40), 1, dtype),
        "transpose": transpose(("n", 40, 24), (0, 2, 1), dtype),
        "gather": gather(50, 64, "n", dtype),
        "pointwise": swish_gate("n", 96, dtype),
    }
