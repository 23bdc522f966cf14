"""Record the README's example on this machine: the run folder, the picture, the text and the rule list.

    python scripts/record_example.py [--keep-run]

Runs ``sample_models/resnet_tiny.onnx`` into ``reports/example`` (``--keep-run`` renders the run that
is there), takes a picture of its page in Chromium, and writes the text report, the head of a sweep and
the list of rules between the markers in README.md. A test holds the README against all three.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from pathlib import Path

from profiler import pipeline
from profiler.diagnose import RULES
from profiler.report import sweep
from profiler.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = Path("reports/example")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def rule_table() -> str:
    rows = [f"| {rule.code} | {rule.title} |" for rule in RULES.values()]
    return "\n".join(["| code | finds |", "| --- | --- |", *rows])


def example_text() -> str:
    return pipeline.render(RunFolder(ROOT / EXAMPLE).report(), "text")


def sweep_text() -> str:
    """The head of the sweep that the README shows: the table, and the closed forms of the whole model."""
    found = pipeline.sweep(str(ROOT / "sample_models/resnet_tiny.onnx"), ["batch=1..64:x4"])
    lines = sweep.render_text(found).splitlines(keepends=True)
    forms = next(index for index, line in enumerate(lines) if line.startswith("closed forms"))
    return "".join(lines[: forms + 7])


def updated(readme: str) -> str:
    """The README with the example, the sweep and the rules of today."""
    readme = re.sub(
        r"(<!-- sweep -->\n```text\n).*?(```\n<!-- /sweep -->)",
        lambda m: m[1] + sweep_text() + m[2],
        readme,
        flags=re.DOTALL,
    )
    readme = re.sub(
        r"(<!-- example: text -->\n```text\n).*?(```)", lambda m: m[1] + example_text() + m[2], readme, flags=re.DOTALL
    )
    return re.sub(
        r"(<!-- rules -->\n).*?(\n<!-- /rules -->)", lambda m: m[1] + rule_table() + m[2], readme, flags=re.DOTALL
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep-run", action="store_true", help="render the run that is there")
    options = parser.parse_args()
    os.chdir(ROOT)
    if not options.keep_run:
        model = "sample_models/resnet_tiny.onnx"
        pipeline.execute(pipeline.RunOptions(model=model, output=str(EXAMPLE), force=True))
    else:
        pipeline.save_report(RunFolder(EXAMPLE), RunFolder(EXAMPLE).report())
    readme = ROOT / "README.md"
    readme.write_text(updated(readme.read_text()))
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
        browser.close()


if __name__ == "__main__":
    main()
