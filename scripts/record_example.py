"""Record the README's example on this machine: the run folder, the pictures and the text.

    python scripts/record_example.py [--keep-run]

Runs ``sample_models/resnet_tiny.onnx`` into ``reports/example``, and with one thread into
``reports/example-1-thread``, of which only what `trtprof compare` reads is kept (``--keep-run``
renders the runs that are there), takes pictures of the page in Chromium, draws the roofline and the
ledger, and writes what the commands of the README print between the markers in README.md. A test holds the
README against all of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from pathlib import Path

import msgspec

from profiler.base.records import OpSweepDevice, Prediction
from profiler.base.run_folder import REPORT, RunFolder
from profiler.compare import compare
from profiler.flows.analyze import Files, analyze
from profiler.flows.model_sweep import sweep
from profiler.flows.op_sweep import parse_options, sweep_op
from profiler.flows.options import RunOptions
from profiler.flows.plugin import make
from profiler.flows.plugin.options import PluginOptions
from profiler.flows.predict import predict
from profiler.flows.predict.groups import Settings
from profiler.flows.report import analysed, save_report
from profiler.flows.run import execute
from profiler.hardware import gpus
from profiler.report import encode, render
from profiler.source.request import ModelRequest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = Path("reports/example")
OTHER = Path("reports/example-1-thread")
COMPARED = {
    "request.json",
    "ceilings.json",
    "capture.json",
    "latency.parquet",
    "kernels.parquet",
    "report.json",
}
"""What a comparison reads of a run folder."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def example_text() -> str:
    return render(RunFolder(ROOT / EXAMPLE).report(), "text", file=str(EXAMPLE))


def two_runs_text() -> str:
    """The comparison of both runs of the example."""
    found = compare([[ROOT / OTHER], [ROOT / EXAMPLE]])
    return render(found)


def sweep_text() -> str:
    """The head of the sweep that the README shows: the table, and the closed forms of the whole model."""
    found = sweep(ModelRequest.of(ROOT / "sample_models/resnet_tiny.onnx"), ["batch=1..64:x4"])
    lines = render(found).splitlines(keepends=True)
    forms = next(index for index, line in enumerate(lines) if line.startswith("closed forms"))
    return "".join(lines[: forms + 7])


def predict_text() -> str:
    """The story on a GPU that is not here: up to its layer."""
    how = Settings(overrides={"dram": 0.92e12, "fp32": 78.65e12})
    found = predict(ModelRequest.of(ROOT / "sample_models/gemv.onnx"), [gpus.find("rtx-4090")], how)
    return _until(render(found), "\nroofline of")


def compare_text() -> str:
    """One model on several GPUs: up to their layers."""
    specs = [gpus.find(name) for name in ("rtx-4090", "l4", "t4", "jetson-agx-orin-64gb")]
    found = predict(ModelRequest.of(ROOT / "sample_models/resnet_tiny.onnx", batch=64), specs, Settings())
    return _until(render(found), "\nlayers of")


def plan_text() -> str:
    """The plan of a real engine on a GPU that is not here: up to its shares."""
    files = Files(layers=ROOT / "tests/engine/data/rtx_resnet_tiny.log", onnx=ROOT / "sample_models/resnet_tiny.onnx")
    found = analyze(files, [gpus.find("rtx-4090")], Settings(), ModelRequest.of("", batch=64))
    if not isinstance(found, Prediction):
        raise TypeError("without a profile a plan is predicted")
    return _until(render(found, top=3), "\nby kind")


def op_sweep_text() -> str:
    """The table of a sweep of a convolution."""
    spec = gpus.find("rtx-3080")
    device = OpSweepDevice(slug=spec.slug, name=spec.name, ceilings=gpus.ceilings(spec))
    values = parse_options("conv", {"kernel": "1,3,5,7", "cin": "64", "cout": "64", "hw": "56"})
    return _until(render(sweep_op("conv", values, [device])), "\nintensity")


def brief_text() -> str:
    """The brief of the story."""
    model = str(ROOT / "sample_models" / "gemv.onnx")
    found = make(
        PluginOptions(what=model, layer="MatMul", request=ModelRequest.of(model), gpu="rtx-4090", steps=("brief",))
    )
    return render(found, "text")


def _until(text: str, end: str) -> str:
    return text[: text.index(end)].rstrip() + "\n"


PRINTED = {
    "example": example_text,
    "two runs": two_runs_text,
    "sweep": sweep_text,
    "predict": predict_text,
    "compare": compare_text,
    "plan": plan_text,
    "op sweep": op_sweep_text,
    "brief": brief_text,
}
"""What stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``."""


def updated(readme: str) -> str:
    """The README with what the commands print today."""
    for name, text in PRINTED.items():
        block = re.compile(rf"(<!-- {name} -->\n```text\n).*?(```\n<!-- /{name} -->)", re.DOTALL)
        readme = block.sub(lambda match, text=text: match[1] + text() + match[2], readme)  # type: ignore[misc]
    return readme


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep-run", action="store_true", help="render the run that is there")
    options = parser.parse_args()
    os.chdir(ROOT)
    if not options.keep_run:
        model = "sample_models/resnet_tiny.onnx"
        asked = RunOptions(model=ModelRequest.of(model), force=True, command=f"trtprof run {model}")
        execute(msgspec.structs.replace(asked, output=str(EXAMPLE)))
        execute(msgspec.structs.replace(asked, output=str(OTHER), threads=1, command=f"{asked.command} --threads 1"))
        for path in OTHER.iterdir():
            if path.name not in COMPARED:
                path.unlink()
    else:
        save_report(RunFolder(EXAMPLE), analysed(RunFolder(EXAMPLE)))
        # Of the other run there is no more than it is compared by: its report is brought up to today's schema.
        other = RunFolder(OTHER)
        other.write_bytes(REPORT, render(other.report(), "json").encode())
    readme = ROOT / "README.md"
    readme.write_text(updated(readme.read_text()))
    figures()
    picture()


def figures() -> None:
    """The roofline and the ledger of the example, as `trtprof report reports/example -o roofline.svg` draws them."""
    run = RunFolder(EXAMPLE).report()
    for figure in ("roofline", "ledger"):
        (ROOT / EXAMPLE / f"{figure}.svg").write_bytes(encode(run, "svg", figure=figure))


def picture() -> None:
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        print("no Chromium here: the picture was not taken")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1200, "height": 1500})
        page.goto((ROOT / EXAMPLE / "report.html").as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=str(ROOT / EXAMPLE / "report.png"))
        for panel in ("timeline", "graph"):
            page.locator(f"#{panel}").scroll_into_view_if_needed()
            page.wait_for_timeout(500)
        top = page.locator("#timeline").bounding_box()
        bottom = page.locator("#graph").bounding_box()
        if top is None or bottom is None:
            raise TypeError("the page has no timeline or no graph")
        below = page.evaluate("window.scrollY")
        page.screenshot(
            path=str(ROOT / EXAMPLE / "panels.png"),
            full_page=True,
            clip={
                "x": 0, "y": top["y"] + below, "width": 1200, "height": bottom["y"] + bottom["height"] - top["y"],
            },
        )  # fmt: skip
        browser.close()


if __name__ == "__main__":
    main()
