"""How long a sweep takes beside one `trtprof inspect` for each of its points.

    python scripts/bench/sweep.py [--repeats 3] [--each 3]

Four sweeps, each a whole process of its own, the median of ``--repeats`` runs:

* the decoder stack of 28,000 nodes (`decoder_stack.py`) over 7 batches and over 8 sequence lengths;
* ResNet-50 (He et al. 2015; 25.6 million parameters, dynamic batch and size, built here) over 1,000
  batches, where every shape is a polynomial, and over 1,000 sizes, where strides leave floors.

Beside it stands the median of ``--each`` plain `inspect` commands, spread over the points, times the number of
points. What both say of those points is compared: counts must be the same to the last FLOP and byte.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from decoder_stack import decoder_stack, layers_of
from onnx import TensorProto, helper

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, blocks and stride of the four stages of ResNet-50."""


def resnet50() -> onnx.ModelProto:
    """The classifier with batch normalisation folded into the convolutions; all weights are 0."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(*shape: int) -> str:
        count = 4
        for dim in shape:
            count *= dim
        name = f"w{len(weights)}"
        weights.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, raw_data=bytes(count)))
        return name

    def op(op_type: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, inputs, [f"t{len(nodes)}"], name=f"n{len(nodes)}", **attributes))
        return f"t{len(nodes) - 1}"

    def conv(x: str, fan_in: int, fan_out: int, kernel: int, stride: int = 1) -> str:
        return op(
            "Conv", x, weight(fan_out, fan_in, kernel, kernel), weight(fan_out),
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4,
        )  # fmt: skip

    x = op("Relu", conv("x", 3, 64, 7, 2))
    x = op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, blocks, first_stride in STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = op("Relu", conv(x, channels, width, 1))
            y = op("Relu", conv(y, width, width, 3, stride))
            y = conv(y, width, 4 * width, 1)
            short = conv(x, channels, 4 * width, 1, stride) if block == 0 else x
            x = op("Relu", op("Add", y, short))
            channels = 4 * width
    x = op("Flatten", op("GlobalAveragePool", x))
    x = op("Gemm", x, weight(1000, channels), weight(1000), transB=1)
    graph = helper.make_graph(
        nodes, "resnet50",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "size", "size"])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", 1000])],
        weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@dataclass(frozen=True)
class Case:
    """A sweep and the shapes of a plain `inspect` at one of its points."""

    name: str
    model: Path
    options: tuple[str, ...]
    shapes: Callable[[int], str]


def command() -> str:
    beside = Path(sys.executable).with_name("trtprof")
    return str(beside) if beside.exists() else shutil.which("trtprof") or "trtprof"


def timed(*arguments: str) -> tuple[float, dict[str, Any]]:
    """Seconds of the whole process that prints text, and the document of one more that prints JSON."""
    began = time.perf_counter()
    subprocess.run([command(), "inspect", *arguments], check=True, capture_output=True)
    seconds = time.perf_counter() - began
    done = subprocess.run([command(), "inspect", *arguments, "--format", "json"], check=True, capture_output=True)
    return seconds, json.loads(done.stdout)


def compared(case: Case, repeats: int, each: int) -> bool:
    """Time one case and print its row; whether all counts are the same."""
    runs = [timed(str(case.model), *case.options) for _ in range(repeats)]
    sweep_s, found = statistics.median(seconds for seconds, _ in runs), runs[0][1]
    points = found["points"]
    seconds = []
    same = True
    for index in range(each):
        point = points[index * (len(points) - 1) // max(each - 1, 1)]
        (value,) = (point["at"][dim["name"]] for dim in found["dims"] if len(dim["values"]) > 1)
        taken, alone = timed(str(case.model), "--shapes", case.shapes(value))
        seconds.append(taken)
        same = same and (point["total"], point["ops"]) == (alone["total"], alone["ops"])
    one_s = statistics.median(seconds)
    print(
        f"{case.name:<36} {len(points):>6} {sweep_s:>8.2f} s {one_s:>8.2f} s {one_s * len(points):>9.1f} s "
        f"{one_s * len(points) / sweep_s:>8.1f}x   {'equal' if same else 'DIFFERENT'}"
    )
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each sweep")
    parser.add_argument("--each", type=int, default=3, help="points at which a plain inspect is run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trtprof-bench-") as name:
        stack, resnet = Path(name) / "stack.onnx", Path(name) / "resnet50.onnx"
        onnx.save(decoder_stack(layers_of(28_000)), stack)
        onnx.save(resnet50(), resnet)
        cases = [
            Case(
                "decoder stack, batch=1..64:x2",
                stack,
                ("--sweep", "batch=1..64:x2", "--sweep", "sequence=128"),
                lambda n: f"input_ids:{n}x128,attention_mask:{n}x128",
            ),
            Case(
                "decoder stack, sequence=128..1024:128",
                stack,
                ("--sweep", "batch=1", "--sweep", "sequence=128..1024:128"),
                lambda n: f"input_ids:1x{n},attention_mask:1x{n}",
            ),
            Case("ResNet-50, batch=1..1000", resnet, ("--sweep", "batch=1..1000"), lambda n: f"x:{n}x3x224x224"),
            Case("ResNet-50, size=33..1032", resnet, ("--sweep", "size=33..1032"), lambda n: f"x:1x3x{n}x{n}"),
        ]
        print(f"{'':<36} {'points':>6} {'sweep':>10} {'inspect':>10} {'all points':>11} {'faster':>9}")
        equal = [compared(case, options.repeats, options.each) for case in cases]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
