"""Cases for `same_documents` that no file holds: run folders of a GPU, plans, and models of single ops.

    python scripts/same_cases.py CHECKOUT FOLDER    # with the code of that checkout in PYTHONPATH

A run folder of a GPU is that of a run on the CPU in which engine and capture are replaced: by a plan, and by a trace
that `tests.fakes.trace_factory` simulates and of which a case takes something away.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnx.parser
import pandas as pd
from onnx.backend.test.case.node import collect_testcases

from tests.fakes.stats_factory import write_stats
from tests.fakes.trace_factory import ENGINE, Layer, Process, Rows, Work, global_tid, write_trace

ENQUEUE, OPS = "ExecutionContext::enqueue", 400
TWICE, ADD = Work("sm50_conv_b_execute_kernel_trt", 200_000), Work("void ns::add<float, (int)4>(int, T1)", 1500)
LAYERS = (
    *ENGINE, Layer("/stem/MaxPool", (Work("cuPool::pool", 900),)), Layer("conv_2", (TWICE,)),
    Layer("conv_3", (TWICE, Work("helper", 70), TWICE)), Layer("__myl_Add_myl0_5", (ADD,), myelin="__myl_Add"),
    Layer("__myl_Add_myl0_6", (ADD,), myelin="__myl_Add"), Layer("product", (Work("splitKreduce_kernel", 80),)),
)  # fmt: skip
NODES = ("/stem/conv/Conv", "/fc/Gemm", "", "", "/stage1/block0/Add", "/stage1/block0/relu2/Relu", "/softmax/Softmax",
         "/stem/MaxPool", "/stage1/block0/conv1/Conv", "/stage1/block0/conv2/Conv", "/stage1/block1/Add", "",
         "")  # fmt: skip
ODD = """<ir_version: 8, opset_import: ["" : 17]>
odd (float[1,8,16,16] x, float[1,8,4] u) => (float[1,8,16,16] y, float[N,M] z, float[1,8,4] v) {
  conv = Conv<pads = [1,1,1,1]>(x, w) norm = BatchNormalization(conv, s, s, s, s) relu = Relu(norm) again = Relu(norm)
  dead = Exp(relu) same = Identity(relu) both = Add(same, again) drop = Dropout(both)
  last = Transpose<perm = [0,2,3,1]>(drop) soft = Softmax(last) first = Transpose<perm = [0,3,1,2]>(soft)
  one, two = Split<axis = 1>(first) gate = Sigmoid(one) joined = Concat<axis = 1>(gate, two)
  shape = Shape(joined) batch = Gather(shape, zero) some = Unsqueeze(batch, zeros)
  size = Concat<axis = 0>(some, minus) flat = Reshape(joined, size) half = Cast<to = 10>(flat)
  prod = MatMul(half, a) third = MatMul(half, b) sum = Add(prod, third) z = Cast<to = 1>(sum)
  fill = ConstantOfShape<value = float[1] {2.0}>(dims) big = Mul(joined, fill) yes = Constant<value = bool {1}>()
  taken = If(yes) <then_branch = t () => (float[1,8,16,16] to) { tm = Neg(big) to = Tanh(tm) },
                   else_branch = e () => (float[1,8,16,16] eo) { em = Abs(big) eo = Relu(em) }>
  mean = ReduceMean<keepdims = 0>(x) asked = Greater(mean, limit)
  y = If(asked) <then_branch = t2 () => (float[1,8,16,16] to2) { to2 = Mul(taken, taken) },
                 else_branch = e2 () => (float[1,8,16,16] eo2) { eo2 = Add(taken, big) }>
  v = Loop(three, yes, u) <body = l (int64 i, bool c, float[1,8,4] q) => (bool co, float[1,8,4] qo) {
    co = Identity(c) qm = Sin(q) qo = Add(qm, q) }>
}"""
"""A model with what runtimes fold, drop, merge, inline and keep as control flow."""
Edit = Callable[[Any], Any]
Rule = Callable[[pd.DataFrame], Any]


def product(name: str) -> Any:
    """A module of the other revision, whatever its package is called."""
    return importlib.import_module(f"{'trtprof' if importlib.util.find_spec('trtprof') else 'profiler'}.{name}")


def cli(*words: object) -> None:
    """Call `trtprof`; one that refuses leaves nothing."""
    sys.argv = ["trtprof", *map(str, words)]
    with (
        contextlib.suppress(SystemExit),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        product("cli").main()


# --- what a case takes from a trace -------------------------------------------------------------


def without(frame: str, drop: Rule = lambda table: [True] * len(table)) -> Edit:
    """Drop rows of a frame of a trace."""

    def edit(trace: Any) -> Any:
        table = getattr(trace, frame)
        return trace._replace(**{frame: table[~np.asarray(drop(table))].reset_index(drop=True)})

    return edit


def changed(frame: str, rows: Rule, change: Callable[[pd.DataFrame], pd.DataFrame], *, again: bool = False) -> Edit:
    """Change some rows of a frame, or copies of them."""

    def edit(trace: Any) -> Any:
        table = getattr(trace, frame)
        words = {name: "category" for name in table.columns if table[name].dtype.name == "category"}
        chosen, plain = rows(table), table.astype(dict.fromkeys(words, object))
        parts = [plain if again else plain[~np.asarray(chosen)], change(plain[chosen])]
        both = pd.concat(parts).sort_values("start_ns", kind="stable", ignore_index=True)
        return trace._replace(**{frame: both.astype(words)})

    return edit


def each(step: int) -> Rule:
    return lambda table: np.arange(len(table)) % step == 0


def named(text: str) -> Rule:
    return lambda table: table["name"].astype(str).str.contains(text)


def later(ns: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda table: table.assign(**{name: table[name] + ns for name in ("start_ns", "end_ns") if name in table})


def steps(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(domain="", style="start_end", name=[f"step {at}" for at in range(len(table))])


MARKED = changed("ranges", named(ENQUEUE), steps)
CASES: dict[str, tuple[dict[str, Any], tuple[Edit, ...]]] = {
    "nsys_eager": ({"iteration_range": ENQUEUE}, ()),
    "cuda_graph": ({"graph": True}, ()),
    "rtx": ({"rtx": True}, ()),
    "cupti": ({}, (lambda trace: trace._replace(collector="cupti"), without("ranges"))),
    "clock_drift": ({"ort": 2e-5}, ()),
    "several_streams": ({"streams": 3}, (without("ranges", named(ENQUEUE)),)),
    "counters": ({"counters": True}, ()),
    "resumed": ({"rtx": True, "streams": 2}, ()),
    "no_calls": ({}, (without("ranges"), without("launches"))),
    "lost_calls": ({}, (without("launches", each(4)),)),
    "double_calls": ({}, (changed("launches", each(4), later(50), again=True),)),
    "early": ({}, (changed("work", each(5), later(-50_000_000)),)),
    "lost_nodes": ({"graph": True}, (without("graph_nodes", each(3)),
                                     changed("graph_nodes", each(5), later(50), again=True))),
    "marked": ({"iteration_range": "step"}, (MARKED, without("ranges", named("_myl0_6")))),
    "marked_alone": ({}, (MARKED, without("ranges", lambda table: table["domain"].astype(str) != ""))),
    "not_marked": ({"iteration_range": "step"}, (without("ranges", named("_myl0")),)),
    "two_processes": ({"processes": 2}, ()),
    "profiles": ({"profile": " [profile 1]"}, ()),
    "profiles_unnamed": ({"profile": " [profile 1]"}, (without("ranges"),)),
    "clock_steady": ({"ort": 0.0, "iteration_range": ENQUEUE}, ()),
    "clock_apart": ({"ort": 0.5}, ()),
}  # fmt: skip
"""How the engine runs (``ort`` is the drift of the clocks in ns a ns), and what is taken from the trace."""


# --- run folders ---------------------------------------------------------------------------------


def plan_of(layers: list[Layer], more: str) -> dict[str, Any]:
    """The layer information of `LAYERS`, a second time as another optimization profile."""

    def tensor(at: int) -> list[dict[str, Any]]:
        name = {0: "image", len(layers): "probabilities"}.get(at, f"t{at}")
        return [{"Name": name, "Location": "Device", "Dimensions": [1, 16, 32, 32], "Format/Datatype": "Float"}]

    rows = [
        {"Name": layer.name + suffix,
         "LayerType": "kgen" if layer.myelin else "CaskConvolution" if layer.work else "Constant",
         "Inputs": tensor(at), "Outputs": tensor(at + 1), "StreamId": int(layer.name == "side_branch"),
         "TacticName": re.sub("_execute.*|.*[<:].*", "", layer.work[0].name) if layer.work else "",
         "Metadata": f"[ONNX Layer: {NODES[at]}]" if NODES[at] else ""}
        for suffix in {"": 0, more: 1} for at, layer in enumerate(layers)
    ]  # fmt: skip
    return {"Layers": rows, "Bindings": ["image", "probabilities"]}


def events_of(base: Path) -> pd.DataFrame:
    """Twelve inferences of the nodes of a run on the CPU, as ONNX Runtime tells them."""
    nodes = pd.read_parquet(base / "kernels.parquet").query("iteration == 0")
    nodes = nodes.assign(end_ns=nodes["start_ns"] + nodes["dur_ns"], provider="CUDA", tid=111)
    length = int(nodes["end_ns"].max()) + 9_000
    both = pd.concat([nodes.head(1).assign(layer="", start_ns=0, end_ns=length - 5_000), nodes])
    both = both[["start_ns", "end_ns", "layer", "provider", "iteration", "tid"]]
    return pd.concat([later(at * length)(both).assign(iteration=at) for at in range(12)], ignore_index=True)


def trace_of(how: dict[str, Any], layers: list[Layer], events: pd.DataFrame | None, path: Path) -> Any:
    """The trace of layers, or of the nodes of ONNX Runtime."""
    rows, free = Rows(), 0
    for at, row in enumerate([] if events is None else events[events["layer"] != ""].to_dict("records")):
        took = (row["end_ns"] - row["start_ns"]) // 3
        begin = 123_000_000_000 + row["start_ns"] + took + round(row["start_ns"] * how["ort"])
        rows.call(begin, begin + took, "cudaLaunchKernel_v7000", global_tid(111, 111), at + 1)
        work = Work(f"kernel_of_{row['layer']}", 3000)
        free = rows.work(max(free, begin + took + 500), work, pid=111, correlation=at + 1)
    pids = range(111, 111 + how.get("processes", 1) * (events is None))
    processes = [Process(pid, tuple(layers), 5, graph="graph" in how, device=pid - 111) for pid in pids]
    write_trace(path, processes, rows=rows, shuffle=3, other_threads=True)
    trace = product("capture.nsys.trace").read_trace(path)
    shorter = np.arange(len(trace.work)) * 37 % 101 * (trace.work["end_ns"] - trace.work["start_ns"]) // 400
    return trace._replace(work=trace.work.assign(end_ns=trace.work["end_ns"] - shorter))


def make_run(name: str, folder: Path, base: Path, rtx_log: Path) -> Any:
    """Write the run folder of a case; return its trace."""
    how, edits = CASES[name]
    folder.mkdir(parents=True)
    for kept in ("request.json", "source.json", "device.json"):
        shutil.copy(base / kept, folder)
    layers = [layer._replace(name=layer.name + how.get("profile", "")) for layer in LAYERS]
    if "rtx" in how:
        plan = product("engine.inspector").read_layer_info(rtx_log).layers
        kernels = (Work(f"k{at % 9}", 40 * at + 9, stream=7 + layer.stream) for at, layer in enumerate(plan))
        layers = [Layer(layer.name, (kernel,)) for layer, kernel in zip(plan, kernels, strict=True)]
    for at, layer in enumerate(layers if "streams" in how else ()):
        works = tuple(work._replace(stream=7 + at % how["streams"]) for work in layer.work)
        layers[at] = layer._replace(work=works)
    events = events_of(base) if "ort" in how else None
    whole = trace = trace_of(how, layers, events, folder / "trace.sqlite")
    (folder / "trace.sqlite").unlink()
    for edit in edits:
        trace = edit(trace)
    product("base.trace_file").save_trace(trace, folder)
    backend = "ort-cuda" if "ort" in how else "tensorrt-rtx" if "rtx" in how else "tensorrt"
    gpus, capture = product("hardware.gpus"), json.loads((base / "capture.json").read_bytes())
    ns = np.random.default_rng(len(name)).normal(2_000_000, 30_000, 60).astype("int64")
    parts = {"h2d_ns": 40_000, "compute_ns": 1_900_000, "d2h_ns": 20_000, "enqueue_ns": 9_000}
    samples = pd.DataFrame({"mode": ["stream"] * 60 + ["cuda graph"] * 60, "latency_ns": [*ns, *ns // 2], **parts})
    samples.to_parquet(folder / "latency.parquet")
    latency = {**capture["latency"], "median_ns": int(np.median(ns)), "min_ns": int(ns.min()), "max_ns": int(ns.max())}
    modes = [{"mode": mode, "latency": latency, **parts} for mode in ("stream", "cuda graph")]
    clean = {"warmup_iterations": 3, "modes": modes, "timed_by": "cuda events", "copies": len(edits), "copy_bytes": 64}
    spec = gpus.find("rtx-4090")
    live = {"index": 0, "uuid": "GPU-1", "name": spec.name, "compute_capability": "8.9", "sms": 128, "driver": "580.0",
            "memory_bytes": 25_757_220_864, "l2_bytes": 75_497_472, "bus_bits": 384, "max_sm_clock_mhz": 3105,
            "max_memory_clock_mhz": 10501}  # fmt: skip
    documents = {
        "ceilings.json": gpus.ceilings(spec), "gpu.json": {"live": live, "spec": spec, "reason": "by its name"},
        "capture.json": {**capture, "collector": trace.collector, "collector_reason": "it is there", "latency": latency,
                         "clean": clean, "under": {"latency": latency, "cpu_layers": list(how)},
                         "iteration_range": how.get("iteration_range")},
    }  # fmt: skip
    if events is not None:
        events.to_parquet(folder / "ort_nodes.parquet")
        engine = json.loads((base / "engine.json").read_bytes())
        documents["engine.json"] = {**engine, "backend": {**engine["backend"], "name": backend}}
    else:
        text = rtx_log.read_text() if "rtx" in how else json.dumps(plan_of(list(LAYERS), how.get("profile", "")))
        file = f"layers.{'txt' if 'rtx' in how else 'json'}"
        (folder / file).write_text(text)
        documents["plan.json"] = {"backend": {"name": backend, "reason": "asked for"}, "facts": {"backend": backend},
                                  "layers_file": file, "layers": len(layers), "engine": ""}  # fmt: skip
    if "counters" in how:
        values = {"dram__bytes_read.sum": [9e3, "byte"], "dram__bytes_write.sum": [9e3, "byte"],
                  "gpu__time_duration.sum": [2e3, "ns"], "sm__inst_executed_pipe_tensor.sum": [7, "inst"]}  # fmt: skip
        launches = [
            {"kernel": row["name"], "capability": "8.9", "counters": values,
             **{part: [row[f"{part}_{axis}"] for axis in "xyz"] for part in ("grid", "block")}}
            for row in trace.work[trace.work["kind"] == "kernel"].head(48).to_dict("records")
        ]  # fmt: skip
        documents["counters.json"] = {"version": "2022.3", "launches": launches}
    for file, document in documents.items():
        (folder / file).write_bytes(msgspec.json.encode(document))
    if name != "resumed":
        run = product("flows.report").analysed(product("base.run_folder").RunFolder(folder))
        (folder / "report.json").write_bytes(msgspec.json.encode(run))
    return whole


def make_models(out: Path) -> None:
    """The odd model, and 400 of the onnx package's node tests: of each op some."""
    for part in ("models", "ops", "plans", "folders"):
        (out / part).mkdir(parents=True)
    odd, seen = onnx.parser.parse_model(ODD), Counter[str]()
    draw = np.random.default_rng(0).random
    weights: dict[str, Any] = {
        "w": draw((8, 8, 3, 3), "f4"), "s": draw(8, "f4"), "a": draw((2048, 32)).astype("f2"), "zero": 0, "zeros": [0],
        "b": draw((2048, 32)).astype("f2"), "minus": [-1], "dims": [1, 8, 1, 1], "limit": np.float32(0.5), "three": 3,
    }  # fmt: skip
    odd.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items())
    for at, node in enumerate(odd.graph.node):
        node.name = f"/{node.op_type}_{at}"
    onnx.save(odd, out / "models" / "odd.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = sorted(collect_testcases(None), key=lambda test: test.name)
    ranked: list[tuple[bool, int, str, Any]] = []
    for test in tests:
        model: Any = test.model
        op, *more = model.graph.node
        seen[op.op_type] += 1
        ranked.append((bool(more), seen[op.op_type], test.name, model))
    for *_, name, model in sorted(ranked, key=lambda rank: rank[:3])[:OPS]:
        onnx.save(model, out / "ops" / f"{name}.onnx")


def main(before: Path, out: Path) -> None:
    """Make all cases; one that was stopped begins again."""
    shutil.rmtree(out, ignore_errors=True)
    make_models(out)
    folders = out / "folders"
    for model in before.glob("sample_models/*.onnx"):
        shutil.copy(model, out / "models")
    for model in sorted(out.glob("models/*.onnx")):
        quick = ("--duration", "0.2", "--profile-iterations", "5", "--backend", "ort-cpu")
        cli("run", model, *quick, "-o", folders / "cpu" / model.stem)
        cli("build", model, "--backend", "tensorrt-rtx")
        cache = Path(os.environ["TRTPROF_CACHE_DIR"], "engines")
        for plan in cache.glob(f"{model.stem.replace('_', '-')}-*/plan.txt"):
            text = plan.read_text().splitlines(keepends=True)
            for step in (1, 2, 3, 10**6):
                told = [
                    line if at % step == 1 % step else re.sub("Metadata: .*", "Metadata: ", line)
                    for at, line in enumerate(text)
                ]
                (out / "plans" / f"{model.stem}.{step}.txt").write_text("".join(told))
    rtx_log = before / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
    for name in CASES:
        trace = make_run(name, folders / "gpu" / name, folders / "cpu" / "resnet_tiny", rtx_log)
        if name == "nsys_eager":
            write_stats(trace, "nvtx_kern_sum", folders / "eager.engine.nvtx.csv")
            write_stats(without("ranges", named(ENQUEUE))(trace), "nvtx_kern_sum", folders / "eager.engine.other.csv")
            write_stats(trace, "cuda_gpu_kern_sum", folders / "eager.engine.kernels.csv")
            (folders / "eager.engine.json").write_text(json.dumps(plan_of(list(LAYERS), "")))
    (out / "whole").touch()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
