"""Record the example of the README and the manual on this machine: the run folder and the pictures.

    python scripts/record_example.py [--keep-run]

Runs ``sample_models/resnet_tiny.onnx`` into ``reports/example``, and with one thread into
``reports/example-1-thread``, of which only what `trtprof compare` reads is kept (``--keep-run``
renders the runs that are there), takes pictures of the page in Chromium, and draws the roofline and the ledger.
``scripts/docs record`` then writes what the README and the manual show of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.run_folder import REPORT, RunFolder
from trtprof.flows.options import RunOptions
from trtprof.flows.report import analysed, save_report
from trtprof.flows.run import execute
from trtprof.report import encode, render
from trtprof.source.request import ModelRequest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = Path("reports/example")
OTHER = Path("reports/example-1-thread")
COMPARED = {"request.json", "ceilings.json", "capture.json", "latency.parquet", "kernels.parquet", "report.json"}
"""What a comparison reads of a run folder."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


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
    run = RunFolder(EXAMPLE).report()
    for figure in ("roofline", "ledger"):
        (ROOT / EXAMPLE / f"{figure}.svg").write_bytes(encode(run, "svg", figure=figure))
    picture()


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
        top, bottom = (page.locator(f"#{panel}").bounding_box() for panel in ("timeline", "graph"))
        assert top is not None and bottom is not None  # noqa: S101, PT018
        below, height = page.evaluate("window.scrollY"), bottom["y"] + bottom["height"] - top["y"]
        where: Any = {"x": 0, "y": top["y"] + below, "width": 1200, "height": height}
        page.screenshot(path=str(ROOT / EXAMPLE / "panels.png"), full_page=True, clip=where)
        browser.close()


if __name__ == "__main__":
    main()
