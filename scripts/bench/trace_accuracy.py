"""How many kernels are led back to the right layer, by how much of the evidence a capture holds.

    python scripts/bench/trace_accuracy.py LAYERS.json ... [--era 2022.4 --era 2026.2] [--iterations 4]

Takes real plans (layer information as trtexec exports it) and writes captures of engines with these layers, in the
schema of each version of nsys (`tests/fakes/trace_factory.py`), whose truth is known. A layer with a TacticName
launches a kernel of that name with the suffix that TensorRT adds (Myelin's have none), any other working layer one that
its kind is known for, or nothing in one of seven cases, as views that the plan does not call so; every fifth product
launches a second one that adds up what it split; idle layers launch nothing.

The evidence is then taken away bit by bit. Printed is the share of kernels with the right layer, a wrong one and none,
and which strategies found them. Exit code 1 where a kernel is wrong that was called exact, or where anything is wrong
or missing although ranges and launches are there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.fakes.trace_factory import ERAS, Layer, Process, Work, write_trace
from trtprof.align.gpu_kernels import align_trace
from trtprof.align.plan import match_plan
from trtprof.base.records import MatchedLayer, PlanLayer
from trtprof.base.trace import GpuTrace
from trtprof.capture.nsys.trace import read_trace
from trtprof.engine.inspector import read_layer_info

_KINDS = {
    "reformat": "void genericReformat::copyVectorizedKernel<double, float, float, true, true, 1>(unsigned int)",
    "pointwisev2": "generatedNativePointwise",
    "cudapooling": "void poolCoalescedC<4, 1, 3>(PoolParams)",
    "tiledpooling": "void tiledPooling::poolCHW_RS3_UV2<4, 3>(TiledPoolingParams)",
    "cudadepthwiseconvolution": "void cuDepthwise::depthwiseConvHMMAPrefetchKernel<3, 3>(Params)",
}
"""Kernels of layers without a TacticName, by kind, as real captures name them."""


def engine_of(layers: Sequence[MatchedLayer]) -> tuple[Layer, ...]:
    return tuple(Layer(each.layer.name, _work(each, index), _myelin(each.layer)) for index, each in enumerate(layers))


def _work(layer: MatchedLayer, index: int) -> tuple[Work, ...]:
    if layer.role not in ("compute", "layout"):
        return ()
    kind, tactic = layer.layer.kind.casefold(), layer.layer.tactic
    if not tactic and index % 7 == 3:
        return ()
    if not tactic:
        return (Work(_KINDS.get(kind, f"void {kind}::kernel<float>(Params)"), 1500 + index),)
    if tactic.startswith("__myl"):
        return (Work(tactic, 2500 + index),)
    main = Work(f"{tactic}_execute_kernel_trt" if "xmma" in tactic else tactic, 4000 + index)
    second = Work(f"{tactic}_execute_split_k_kernel__5x_cublas" if "xmma" in tactic else "void splitKreduce_kernel()")
    return (main, second) if index % 5 == 0 else (main,)


def _myelin(layer: PlanLayer) -> str:
    bare, _, graph = layer.name.rpartition("_myl")
    return bare if bare and graph.replace("_", "").isdigit() else ""


def _without_layers(trace: GpuTrace) -> GpuTrace:
    return trace._replace(ranges=trace.ranges[trace.ranges["name"].str.startswith("ExecutionContext")])


def _only_myelin(trace: GpuTrace) -> GpuTrace:
    outer = trace.ranges["domain"].eq("TensorRT") & trace.ranges["name"].str.contains(r"_myl\d+_\d+$")
    return trace._replace(ranges=trace.ranges[~outer])


class Mode(NamedTuple):
    what: str
    graph: bool
    cut: Callable[[GpuTrace], GpuTrace]
    complete: bool


MODES = (
    Mode("all ranges and launches", False, lambda trace: trace, True),
    Mode("Myelin's own ranges alone, cut names", False, _only_myelin, False),
    Mode("a fifth of the launches missing", False, lambda t: t._replace(launches=t.launches[t.launches.index % 5 > 0]),
         False),
    Mode("ranges of inferences alone", False, _without_layers, False),
    Mode("no NVTX", False, lambda trace: trace._replace(ranges=trace.ranges[:0]), False),
    Mode("no NVTX, no launches", False, lambda t: t._replace(ranges=t.ranges[:0], launches=t.launches[:0]), False),
    Mode("CUDA graph, capture in the window", True, lambda trace: trace, True),
    Mode("CUDA graph, captured before", True, lambda t: t._replace(ranges=t.ranges[:0], graph_nodes=t.graph_nodes[:0]),
         False),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=Path, nargs="+")
    parser.add_argument("--era", choices=ERAS, action="append")
    parser.add_argument("--iterations", type=int, default=4)
    options = parser.parse_args()
    ok = True
    for path in options.plans:
        layers, _ = match_plan((), read_layer_info(path))
        print(f"{path.name}: {len(layers)} layers")
        for mode in MODES:
            found: Counter[str] = Counter()
            strategies: Counter[str] = Counter()
            for era in options.era or ERAS:
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / "trace.sqlite"
                    process = Process(4711, engine_of(layers), iterations=options.iterations, graph=mode.graph)
                    truth = write_trace(file, [process], era=era, shuffle=7)
                    trace = mode.cut(read_trace(file))
                real = {(each.start_ns, each.stream): each.layer for each in truth.work}
                aligned = align_trace(trace, layers)
                keys = zip(trace.work["start_ns"], trace.work["stream"], strict=True)
                columns = zip(keys, aligned.work["layer"], aligned.work["strategy"], aligned.work["confidence"],
                              strict=True)  # fmt: skip
                for key, at, strategy, confidence in columns:
                    right = at >= 0 and layers[at].layer.name == real[key]
                    found["right" if right else "none" if at < 0 else f"wrong, {confidence}"] += 1
                    strategies[f"{strategy} {confidence}" if at >= 0 else "none"] += 1
            total = found.total()
            shares = ", ".join(f"{what} {count / total:.1%}" for what, count in sorted(found.items()))
            how = ", ".join(f"{what} {count / total:.1%}" for what, count in strategies.most_common())
            print(f"  {mode.what:<36} {total:>6} kernels: {shares}  [{how}]")
            ok &= not found["wrong, exact"] and (not mode.complete or found["right"] == total)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
