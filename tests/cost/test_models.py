"""Whole networks: the sum over their layers against the sum worked out by hand and against the literature."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.counting import op_of, tensor, work
from trtprof.base.records import Op, Work
from trtprof.flows.inspect import inspect
from trtprof.source.load import load_model, source_of
from trtprof.source.request import ModelRequest

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def ops_of(path: Path) -> list[Op]:
    """The ops of the main graph of a model, with inferred shapes."""
    return [node.op for node in source_of(load_model(path), feed=False).nodes]


def macs(name: str) -> int:
    """MACs of a network, as the cost functions and as `trtprof inspect` have them."""
    path = LIGHT / f"{name}.onnx"
    counted = sum(work(op).macs for op in ops_of(path))
    inspected = inspect(ModelRequest.of(path))
    by_op = {op.op_type: op.work.macs for op in inspected.ops}
    assert by_op["Conv"] + by_op["Gemm"] == inspected.total.macs == counted
    return counted


def test_alexnet() -> None:
    # The grouped network of the paper; this file has no padding in conv1, hence 54 instead of 55.
    layers = [
        96 * 54 * 54 * 3 * 11 * 11,
        256 * 26 * 26 * 48 * 5 * 5,  # two groups
        384 * 12 * 12 * 256 * 3 * 3,
        384 * 12 * 12 * 192 * 3 * 3,  # two groups
        256 * 12 * 12 * 192 * 3 * 3,  # two groups
        9216 * 4096,
        4096 * 4096,
        4096 * 1000,
    ]
    assert macs("light_bvlc_alexnet") == sum(layers) == 654_560_384


def bottleneck(hw: int, inputs: int, width: int, stride: int, projected: bool) -> int:
    """1x1, 3x3, 1x1 and the projection; the stride is in the 3x3, as in this file (ResNet v1.5)."""
    small = hw // stride
    total = width * hw * hw * inputs
    total += width * small * small * width * 3 * 3
    total += 4 * width * small * small * width
    if projected:
        total += 4 * width * small * small * inputs
    return total


def test_resnet50() -> None:
    stages = [(56, 64, 64, 1, 3), (56, 256, 128, 2, 4), (28, 512, 256, 2, 6), (14, 1024, 512, 2, 3)]
    layers = [64 * 112 * 112 * 3 * 7 * 7]
    for hw, inputs, width, stride, blocks in stages:
        layers.append(bottleneck(hw, inputs, width, stride, projected=True))
        layers += [bottleneck(hw // stride, 4 * width, width, 1, projected=False)] * (blocks - 1)
    layers.append(2048 * 1000)
    assert macs("light_resnet50") == sum(layers) == 4_089_184_256


def test_every_op_of_the_light_models_has_work() -> None:
    views = {"Reshape", "Unsqueeze", "Dropout", "Constant", "Flatten", "Identity"}
    for path in sorted(LIGHT.glob("*.onnx")):
        for op in ops_of(path):
            found = work(op)
            assert (found.bytes > 0) == (op.op_type not in views), (path, op.op_type)
            assert found.bytes_parameters <= found.bytes_read


# --- what ONNX Runtime makes of a convolutional network -------------------------------------


def test_nchwc_layout_counts_the_channels_it_pads(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((20, 3, 3, 3)).astype(np.float32),
        "b1": rng.standard_normal(20).astype(np.float32),
        "w2": rng.standard_normal((24, 20, 3, 3)).astype(np.float32),
        "w3": rng.standard_normal((24, 20, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["ar"]),
        helper.make_node("Conv", ["ar", "w2"], ["c"], pads=[1] * 4),
        helper.make_node("Conv", ["ar", "w3"], ["d"]),
        helper.make_node("Add", ["c", "d"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 10, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.zeros((2, 3, 10, 10), dtype=np.float32)})
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    optimized = onnx.load(tmp_path / "optimized.onnx").graph
    if not any(node.domain == "com.microsoft.nchwc" for node in optimized.node):
        pytest.skip("this machine's ONNX Runtime does not block the channels")
    constants = {item.name for item in optimized.initializer}
    shapes = {
        event["name"].removesuffix("_kernel_time"): event["args"]
        for event in events
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time")
    }
    found: dict[str, list[tuple[Op, Work]]] = {}
    for node in optimized.node:
        args = shapes[node.name]
        tensors = {}
        for names, key in ((node.input, "input_type_shape"), (node.output, "output_type_shape")):
            # The profile leaves omitted inputs out.
            for name, entry in zip([name for name in names if name], args[key], strict=True):
                ((dtype, dims),) = entry.items()
                assert dtype == "float"
                tensors[name] = tensor(name, "fp32", *dims, constant=name in constants)
        op = op_of(node, 1 if node.domain else 17, tensors)
        found.setdefault(op.op_type, []).append((op, work(op)))
        assert work(op).bytes == sum(item.nbytes or 0 for item in tensors.values())
    blocked = found["Conv"][0][0].outputs[0]
    assert blocked is not None
    assert blocked.shape is not None
    # 20 and 24 channels, padded to blocks of 4, 8 or 16 as the machine has it.
    narrow = blocked.shape[1]
    assert isinstance(narrow, int)
    wide = {20: 24, 24: 24, 32: 32}[narrow]
    first, (second, third) = found["Conv"][0][1], [item for _, item in found["Conv"][1:]]
    assert first.macs == 2 * narrow * 10 * 10 * 3 * 3 * 3
    assert first.vector_flops == 2 * 2 * narrow * 10 * 10  # bias and Relu
    values = 2 * wide * 10 * 10
    assert {second.macs, third.macs} == {values * narrow, values * narrow * 3 * 3}
    assert {second.vector_flops, third.vector_flops} == {0, 2 * values}  # the summand and Relu
    reorders = [*found.get("ReorderInput", []), *found.get("ReorderOutput", [])]
    assert reorders
    assert all(item.flops == 0 and item.bytes > 0 for _, item in reorders)
