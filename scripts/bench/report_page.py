"""How large the HTML report is, and how soon it answers in Chromium.

    python scripts/bench/report_page.py [--repeats 7] [--layers 10000] [--keep FOLDER]

Three reports: ResNet-50 (``light_resnet50`` of the onnx package, run here by ONNX Runtime on the CPU), a transformer
encoder of 48 layers (``sample_models/generate.py``, width 256, sequence 128, the same), and ``--layers`` layers whose
records are those of `tests.fakes.report_factory`, with a timeline and a graph.

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

import onnx

from trtprof.base.records import Run
from trtprof.base.run_folder import RunFolder
from trtprof.report import ReportOptions, get

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sample_models")]
import generate  # noqa: E402

from tests.fakes import page_factory, report_factory  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

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
        f"{layers:,} layers, made": page_factory.with_panels(report_factory.many(layers)),
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
