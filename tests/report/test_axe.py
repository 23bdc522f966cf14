"""axe-core on the pages of comparisons, fleets and plain documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import comparison_factory, fleet_reports, plan_factory, tried_factory
from tests.fakes.command_line import trtprof
from tests.fakes.estimates import SWEEPS, predicted
from tests.fakes.support import ROOT
from trtprof.report import render

pytestmark = [pytest.mark.nightly, pytest.mark.browser]

COMPARED = comparison_factory.document(comparison_factory.typical(), comparison_factory.faster())
PAGES: dict[str, Callable[[], str]] = {
    "compare": lambda: render(COMPARED, "html"),
    "compare what is unknown": lambda: render(comparison_factory.document(comparison_factory.unknown()), "html"),
    "plan": lambda: render(plan_factory.typical(timed=True), "html"),
    "predict": lambda: render(predicted("resnet_tiny", "rtx-4090"), "html", top=20),
    "predict two": lambda: render(predicted("resnet_tiny", "rtx-4090", "l4"), "html", top=20),
    "sweep": lambda: render(SWEEPS["two devices"], "html"),
    "try": lambda: render(tried_factory.typical(), "html"),
    "fleet": lambda: render(fleet_reports.made_up(), "html"),
    "fleet of predictions": lambda: render(fleet_reports.made_up(40, 1, ran=False), "html"),
}
COMMANDS = {
    "inspect": ("inspect", str(ROOT / "sample_models" / "resnet_tiny.onnx")),
    "gpus": ("gpus",),
    "gpus two": ("gpus", "l4", "t4"),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in (*PAGES, *COMMANDS)}
    for name, made in PAGES.items():
        files[name].write_text(made(), encoding="utf-8")
    for name, words in COMMANDS.items():
        done = trtprof(*words, "-o", str(files[name]))
        assert done.exit_code == 0, done.output
    return files


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_no_violation_and_nothing_scrolls_sideways(
    chromium: Any, web: Path, pages: dict[str, Path], width: int, scheme: str
) -> None:
    axe = (web / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    found = {}
    for name, file in pages.items():
        page.goto(file.as_uri())
        page.evaluate(axe)
        seen = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
        found[name] = [(one["id"], node["target"]) for one in seen for node in one["nodes"]]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found[name].append(("scrolls sideways", []))
    page.close()
    assert {name: violations for name, violations in found.items() if violations} == {}
