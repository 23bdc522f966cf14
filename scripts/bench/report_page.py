"""How large the HTML report is, and how soon it answers in Chromium.

    python scripts/bench/report_page.py [--repeats 7] [--layers 10000] [--keep FOLDER]

Three reports: ResNet-50 (``light_resnet50`` of the onnx package, run here by ONNX Runtime on the CPU), a transformer
encoder of 48 layers (``sample_models/generate.py``, width 256, sequence 128, the same), and ``--layers`` layers whose
records are made here: times follow a recurrence, each layer is a node, an event of the timeline and a box of the graph.

A row has the bytes of the file; the seconds that `trtprof.report` takes to write it (median of three); and of the
page, opened from its file in a browser context of its own, the milliseconds from the start of the navigation

    ready        until the tables and all charts near the window are drawn (two frames after the last)
    all drawn    until every chart has been scrolled to and drawn as well
    answered     until a click on a column head, right after that, has sorted the table and the next frame is painted

as the median of ``--repeats`` openings, with the least and the most. The first opening of each is left out: it pays
for what the browser itself loads. Needs playwright and a Chromium on the PATH.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import onnx

from trtprof.base.records import (
    SCHEMA_VERSION,
    Backend,
    Ceilings,
    Coverage,
    Device,
    Latency,
    LayerResult,
    LedgerRow,
    Match,
    ModelInfo,
    NodeResult,
    Roof,
    Run,
    RunGraph,
    Timeline,
    TimelineLane,
    Work,
)
from trtprof.base.run_folder import RunFolder
from trtprof.report import ReportOptions, get

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_models"))
import generate  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PEAK, DRAM, CACHE, LAUNCH = 80e9, 12e9, 45e9, 900
"""FLOP/s, B/s, B/s and ns of the device of the made run."""

DRAW_ALL = """async () => {
  for (const chart of document.querySelectorAll(".chart")) {
    chart.scrollIntoView({ block: "center" });
    while (!chart.querySelector("canvas, .none")) await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now();
}"""
CLICK = """() => new Promise((done) => {
  const from = performance.now();
  document.querySelectorAll("#layers-table .sort")[2].click();
  requestAnimationFrame(() => setTimeout(() => done([from, performance.now()])));
})"""


def made(count: int) -> Run:
    """A run of ``count`` layers that never was: each one node, one kernel, one event, one edge to the next."""
    layers = sorted((_layer(at) for at in range(count)), key=lambda layer: -(layer.lost_ns or 0))
    order = sorted(range(count), key=lambda place: int(layers[place].name.rpartition("_")[2]))
    names = tuple(layers[place].name for place in order)
    starts, now = [], 0
    for place in order:
        starts.append(now)
        now += layers[place].measured_ns + 400
    total, ideal = sum(layer.measured_ns for layer in layers), sum(layer.ideal_ns or 0 for layer in layers)
    median = now + 20_000
    roof = Roof(
        tensor_flops_per_s={"fp32": PEAK},
        vector_flops_per_s={"fp32": PEAK},
        dram_bytes_per_s=DRAM,
        cache_bytes_per_s=CACHE,
    )
    latency = Latency(median_ns=median, p99_ns=median + median // 50, cv=0.01, n=100)
    return Run(
        schema_version=SCHEMA_VERSION,
        model=ModelInfo(name=f"made of {count} layers", path="", sha256="", ir_version=10, opsets={"": 20}),
        backend=Backend(name="ort-cpu", reason="made by scripts/bench/report_page.py"),
        device=Device(name="no device", kind="cpu"),
        versions={},
        ceilings=Ceilings(
            device="no device", source="made", measured_at="", best=roof, attainable=roof, cache_bytes=1 << 25,
            threads=1, launch_ns=LAUNCH, call_ns=5000.0,
        ),
        latency=latency,
        profiled=latency,
        coverage=Coverage(exact=1.0, inferred=0.0, unattributed=0.0),
        verdict="Made, not measured.",
        ledger=(
            LedgerRow(cause="ideal", ns=ideal, kind="estimate"),
            LedgerRow(cause="kernel inefficiency", ns=total - ideal, kind="estimate"),
            LedgerRow(cause="unexplained", ns=median - total, kind="remainder"),
        ),
        layers=tuple(layers),
        nodes=tuple(
            NodeResult(name=layers[place].name, op_type=layers[place].op_type, graph="", fate="layer",
                       layers=(layers[place].name,), flops=layers[place].flops, bytes=layers[place].bytes,
                       reason=layers[place].reason)
            for place in order
        ),
        findings=(),
        unsupported=(),
        captured_ns=total,
        timeline=Timeline(
            iteration=0, duration_ns=now, lanes=(TimelineLane(name="inference thread", kind="kernels"),),
            layers=names, names=("Conv", "Gemm", "Add", "Softmax"), lane=(0,) * count, layer=tuple(range(count)),
            name=tuple(at % 4 for at in range(count)), start_ns=tuple(starts),
            dur_ns=tuple(layers[place].measured_ns for place in order),
        ),
        graph=RunGraph(
            layers=names, layer_from=tuple(range(count - 1)), layer_to=tuple(range(1, count)),
            tensor=tuple(f"tensor_{at}" for at in range(count - 1)), nbytes=(4096,) * (count - 1),
            node_from=tuple(range(count - 1)), node_to=tuple(range(1, count)),
        ),
    )  # fmt: skip


def _layer(at: int) -> LayerResult:
    op = ("Conv", "Gemm", "Add", "Softmax")[at % 4]
    flops, nbytes = 1 + at * 7919 % 1000 * 3000, 8 + at * 104_729 % 900_000
    terms = {
        "tensor": round(flops / PEAK * 1e9),
        "dram": 0 if at % 3 == 0 else round(nbytes / DRAM * 1e9),
        "l2": round(nbytes / CACHE * 1e9),
        "launch": LAUNCH,
    }
    bound, attainable = max(terms.items(), key=lambda term: term[1])
    measured = attainable + attainable * (at * 31 % 200) // 100
    name = f"/model/layers.{at // 4}/block/{op}_{at}"
    kernel = Match(layer=name, kernel=f"{name}_kernel_time", count=50, median_ns=measured, total_ns=measured * 50,
                   confidence="exact", reason="the profile names the node")  # fmt: skip
    return LayerResult(
        name=name, op_type=op, role="compute", nodes=(name,), kernels=(kernel,), measured_ns=measured,
        ideal_ns=round(max(flops / PEAK, nbytes / DRAM) * 1e9) // 2, attainable_ns=attainable,
        lost_ns=measured - attainable, bound=msgspec.convert(bound, Any), flops=flops, bytes=nbytes, dtype="fp32",
        match="exact", reason="the layer keeps the name of its node", shapes="1x64x56x56 -> 1x64x56x56", terms=terms,
        work=Work(tensor_flops=flops, bytes_read=nbytes // 2, bytes_written=nbytes - nbytes // 2, dtype="fp32"),
    )  # fmt: skip


def measured_run(model: Path, folder: Path, *options: str) -> Run:
    """The run of a model by ONNX Runtime on the CPU, in a process of its own."""
    beside = Path(sys.executable).with_name("trtprof")
    tool = str(beside) if beside.exists() else shutil.which("trtprof") or "trtprof"
    command = [tool, "run", str(model), "--backend", "ort-cpu", "--duration", "1", "--profile-iterations", "10"]
    command += [*options, "-o", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return RunFolder(folder).report()


def runs(folder: Path, layers: int) -> dict[str, Run]:
    """The three runs, by what to call them."""
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
    transformer = folder / "transformer_48.onnx"
    onnx.save(generate.transformer(layers=48, width=256), str(transformer))
    shapes = ("--shapes", "input_ids:1x128,attention_mask:1x128")
    return {
        "ResNet-50": measured_run(light, folder / "resnet50"),
        "transformer, 48 layers": measured_run(transformer, folder / "transformer", *shapes),
        f"{layers:,} layers, made": made(layers),
    }


def written(run: Run, file: Path) -> float:
    """Write the report; seconds that the reporter takes, median of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        source = get("html").render(run, ReportOptions())
        seconds.append(time.perf_counter() - start)
    file.write_text(source, encoding="utf-8")
    return statistics.median(seconds)


def opened(browser: Any, file: Path) -> tuple[float, float, float]:
    """Open the page once: ms until it is ready, until all is drawn, until the click right after is answered."""
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("html[data-ready]").wait_for(timeout=60_000)
    ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime")
    # From Python to the page and back is no time of the page: only what it takes itself is added.
    start = page.evaluate("performance.now()")
    drawn = ready + page.evaluate(DRAW_ALL) - start
    clicked, answered = page.evaluate(CLICK)
    context.close()
    return ready, drawn, drawn + answered - clicked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--layers", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="folder to keep runs and pages in")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is on the PATH")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = arguments.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        load = os.getloadavg()[0]
        print(f"Chromium {browser.version}, {os.cpu_count()} CPUs ({platform.machine()}), load {load:.1f} at the start")
        print(f"{'':24} {'layers':>7} {'bytes':>10} {'written':>8} {'ready ms':>16} {'all drawn':>16} {'answered':>16}")
        for label, run in runs(folder, arguments.layers).items():
            file = folder / f"{label.split(',')[0].replace(' ', '-')}-{len(run.layers)}.html"
            seconds = written(run, file)
            opened(browser, file)
            times = [opened(browser, file) for _ in range(arguments.repeats)]
            columns = " ".join(
                f"{statistics.median(one):6.0f} {f'({min(one):.0f}-{max(one):.0f})':>9}"
                for one in zip(*times, strict=True)
            )
            print(f"{label:24} {len(run.layers):7,} {file.stat().st_size:10,} {seconds:6.2f} s {columns}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
