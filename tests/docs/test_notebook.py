"""The notebook of the manual runs from its first cell to its last, and shows what it did when it was kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.support import ROOT, load_script

NOTEBOOK = ROOT / "profiler" / "docs" / "notebook.ipynb"


def shown(notebook: dict[str, Any]) -> list[list[tuple[str, ...]]]:
    """What kinds of output each code cell has."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[tuple(output.get("data", [output["output_type"]])) for output in cell["outputs"]] for cell in code]


@pytest.mark.usefixtures("quick_runs")
def test_the_notebook_runs_and_shows_what_is_kept_in_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    script = load_script(ROOT / "scripts" / "execute_notebook.py", "execute_notebook")
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    fresh = script.execute(json.loads(NOTEBOOK.read_text("utf-8")), tmp_path)
    assert shown(fresh) == shown(kept)
    assert (tmp_path / "annotated.onnx").is_file()
    assert ("text/plain", "image/svg+xml") in [kinds for cell in shown(fresh) for kinds in cell]


def test_the_notebook_is_one_that_was_executed() -> None:
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])


def test_a_cell_that_fails_is_an_error_and_a_printed_line_is_kept(tmp_path: Path) -> None:
    script = load_script(ROOT / "scripts" / "execute_notebook.py", "execute_notebook")
    cells = [{"cell_type": "code", "source": ["print('a')\n", "1 + 1"]}]
    (made,) = script.execute({"cells": cells}, tmp_path)["cells"]
    assert [output["output_type"] for output in made["outputs"]] == ["stream", "execute_result"]
    with pytest.raises(ZeroDivisionError):
        script.execute({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}, tmp_path)
