"""How close the predictions come: attainable over measured time on this host.

    python scripts/bench/efficiency.py [--only calibrate,large,models] [--models N] [--seconds S] [--duration S]

* ``calibrate``: the ceilings are measured twice; how far the two lie apart, ceiling by ceiling.
* ``large``: a MatMul and a Conv of 50 ms of work and more, and an Add of tensors far beyond the
  cache, each as a model through the pipeline. Goal: attainable / measured is 0.7 to 1.0 for each, and
  1.05 at most, which is what the repeats of a measurement differ by.
* ``models``: the sample models and the nine ``light_*`` of the onnx package. Goal: no layer took less
  than its ideal time without a trust finding that says so, by more than the profiler's clock steps and
  by more than 3 %, to which the repeats of a ceiling agree.
  Printed: median, worst and best efficiency of each class of ops.

Exit code 1 where a goal is missed. Other load on the machine shows first in the Add.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from all_models import models
from calibration_spread import calibrated_twice, print_spread
from onnx import TensorProto, helper, numpy_helper

from trtprof.base.errors import TrtprofError
from trtprof.base.records import Ceilings, LayerResult, Run
from trtprof.base.units import FLOP_PER_MAC, format_ns
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.hardware.calibrate import SECONDS
from trtprof.hardware.device import host_cpu
from trtprof.hardware.store import load_or_calibrate
from trtprof.source.request import ModelRequest

PARTS = ("calibrate", "large", "models")
LOWEST, HIGHEST, NOISE = 0.7, 1.0, 0.05
LARGE_SECONDS = 0.08
"""Time that the large MatMul and Conv should take at the peak."""

AGREEMENT = 0.03
CLOCK_STEP_NS = 1000
"""ONNX Runtime's profile counts whole microseconds."""

_CLASSES = (
    ("conv", ("Conv",)),
    ("recurrent", ("LSTM", "GRU", "RNN")),
    ("matmul", ("MatMul", "Gemm", "Einsum", "Attention")),
    ("pool", ("Pool",)),
    ("reduce, norm, softmax", ("Reduce", "Norm", "Softmax", "ArgM", "LRN", "CumSum", "TopK")),
    (
        "data movement",
        ("Transpose", "Concat", "Slice", "Gather", "Scatter", "Reorder", "Pad", "Expand", "Split", "Tile", "Reshape",
         "Flatten", "Squeeze", "Shuffle", "DepthToSpace", "SpaceToDepth", "Identity", "Shape", "Constant"),
    ),
    (
        "elementwise",
        ("Add", "Sub", "Mul", "Div", "Relu", "Sigmoid", "Tanh", "Gelu", "Swish", "Clip", "Exp", "Erf", "Sqrt", "Pow",
         "Sum", "Max", "Min", "Cast", "Quantize", "Neg", "Abs", "Where", "Equal", "Greater", "Less", "And", "Or",
         "Not"),
    ),
)  # fmt: skip
"""Class and parts of op names, the first that fits: a pooling is no Max, a fused Conv with Relu is a Conv."""


def op_class(op_type: str) -> str:
    return next((name for name, parts in _CLASSES if any(part in op_type for part in parts)), "other")


class Large(NamedTuple):
    """A model with one op that all its time goes to."""

    op_type: str
    model: onnx.ModelProto


def large_models(ceilings: Ceilings) -> list[Large]:
    """A MatMul, a Conv and an Add that are large for these ceilings."""
    flop = LARGE_SECONDS * ceilings.attainable.tensor_flops_per_s["fp32"]
    n = max(round((flop / FLOP_PER_MAC) ** (1 / 3) / 64), 1) * 64
    channels, side, kernel = 256, 56, 3
    batch = max(round(flop / (FLOP_PER_MAC * channels**2 * kernel**2 * side**2)), 1)
    # Three tensors, each of four times the cache: whatever stays there between runs, nearly all crosses to DRAM.
    columns = 1024
    beyond = max(4 * ceilings.cache_bytes, 64 << 20)
    if memory := host_cpu().memory_bytes:
        beyond = min(beyond, memory // 16)
    rows = beyond // (4 * columns)
    values = np.random.default_rng(0)

    def weight(*shape: int) -> onnx.TensorProto:
        spread = np.float32(np.prod(shape[1:]) ** 0.5)
        return numpy_helper.from_array(values.standard_normal(shape, dtype=np.float32) / spread, "w")

    image = (batch, channels, side, side)
    return [
        Large("MatMul", _model("MatMul", ["x", "w"], (n, n), [weight(n, n)])),
        Large("Conv", _model("Conv", ["x", "w"], image, [weight(channels, channels, kernel, kernel)], pads=[1] * 4)),
        Large("Add", _model("Add", ["x", "x2"], (rows, columns), [])),
    ]


def _model(
    op_type: str, names: list[str], shape: Sequence[int], weights: list[onnx.TensorProto], **attributes: object
) -> onnx.ModelProto:
    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    node = helper.make_node(op_type, names, ["y"], name=op_type, **attributes)  # type: ignore[arg-type]
    graph = helper.make_graph([node], op_type, [info(name) for name in names if name != "w"], [info("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run_of(path: Path, scratch: Path, options: argparse.Namespace) -> Run:
    return execute(
        RunOptions(
            model=ModelRequest.of(path),
            threads=options.threads, duration_s=options.duration, output=str(scratch / path.stem),
            force=True,
        )
    ).report()  # fmt: skip


def check_large(ceilings: Ceilings, scratch: Path, options: argparse.Namespace) -> int:
    """Print predicted and measured time of the large models; how many miss the goal."""
    print(f"\n{'large op':<10}{'attainable':>12}{'measured':>12}{'latency':>12}{'bound':>8}{'efficiency':>12}  goal")
    missed = 0
    for op_type, model in large_models(ceilings):
        path = scratch / f"large_{op_type.lower()}.onnx"
        onnx.save(model, path)
        run = run_of(path, scratch, options)
        layer = max(run.layers, key=lambda layer: layer.attainable_ns or 0)
        efficiency = (layer.attainable_ns or 0) / layer.measured_ns
        met = LOWEST <= efficiency <= HIGHEST + NOISE
        missed += not met
        print(
            f"{op_type:<10}{format_ns(layer.attainable_ns or 0):>12}{format_ns(layer.measured_ns):>12}"
            f"{format_ns(run.latency.median_ns):>12}{layer.bound:>8}{efficiency:>12.2f}  "
            f"{'met' if met else f'missed: {LOWEST} to {HIGHEST}'}",
            flush=True,
        )
    return missed


def above_roof(run: Run) -> list[LayerResult]:
    """Layers faster than their ideal by more than clock and ceilings are good for, and no trust finding says so."""
    told = {name for finding in run.findings if finding.kind == "trust" for name in (*finding.layers, finding.where)}
    return [
        layer
        for layer in run.layers
        if layer.ideal_ns is not None
        and layer.ideal_ns - layer.measured_ns > max(CLOCK_STEP_NS, AGREEMENT * layer.ideal_ns)
        and layer.name not in told
    ]


def check_models(paths: Iterable[Path], scratch: Path, options: argparse.Namespace) -> int:
    """Print layers above the roof and the efficiency of each class of ops; how many models miss the goal."""
    missed = 0
    classes: dict[str, list[tuple[float, str]]] = {}
    print(f"\n{'model':<28}{'layers':>8}{'priced':>8}{'told above':>12}{'untold':>8}")
    for path in paths:
        try:
            run = run_of(path, scratch, options)
        except TrtprofError as error:
            missed += 1
            print(f"{path.stem:<28} failed: {error}")
            continue
        untold = above_roof(run)
        missed += bool(untold)
        priced = [layer for layer in run.layers if layer.attainable_ns is not None and layer.measured_ns]
        told = sum(finding.code == "TR901" for finding in run.findings)
        print(f"{path.stem[:27]:<28}{len(run.layers):>8}{len(priced):>8}{told:>12}{len(untold):>8}", flush=True)
        for layer in untold:
            print(f"    {layer.name} ({layer.op_type}): {layer.measured_ns} ns, ideal {layer.ideal_ns} ns")
        for layer in priced:
            efficiency = (layer.attainable_ns or 0) / layer.measured_ns
            where = f"{layer.op_type} {layer.name} of {path.stem}, {format_ns(layer.measured_ns)}"
            classes.setdefault(op_class(layer.op_type), []).append((efficiency, where))
    print(f"\n{'class of ops':<23}{'layers':>7}{'median':>8}{'worst':>8}{'best':>7}  worst of them")
    for name, found in sorted(classes.items()):
        values = [efficiency for efficiency, _ in found]
        print(
            f"{name:<23}{len(values):>7}{statistics.median(values):>8.2f}{min(values):>8.2f}{max(values):>7.2f}  "
            f"{min(found)[1]}"
        )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, of {', '.join(PARTS)}")
    parser.add_argument("--models", type=int, help="take the first so many models")
    parser.add_argument("--threads", type=int, default=0, help="threads inside an op; 0 is one a usable core")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time for the ceilings of each thread count")
    parser.add_argument("--duration", type=float, default=1.0, help="seconds of clean measurement a model")
    options = parser.parse_args()
    parts = options.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--only takes {', '.join(PARTS)}")

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    missed: dict[str, int] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            if "calibrate" in parts:
                first, second = calibrated_twice(options.threads, options.seconds)
                print_spread(first, second)
                # The runs below take the second from a cache of their own.
                os.environ["TRTPROF_CACHE_DIR"] = str(scratch / "ceilings")
                ceilings = load_or_calibrate(options.threads, progress=say, measure=lambda _: second)
            else:
                ceilings = load_or_calibrate(options.threads, progress=say)
            if "large" in parts:
                missed["large"] = check_large(ceilings, scratch, options)
            if "models" in parts:
                paths = models(scratch / "no captures")[: options.models]
                missed["models"] = check_models(paths, scratch, options)
    except TrtprofError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    for part, count in missed.items():
        print(f"\n{part}: {f'{count} miss the goal' if count else 'all meet the goal'}", end="")
    print()
    return 1 if any(missed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
