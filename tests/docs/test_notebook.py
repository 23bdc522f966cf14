"""The notebook of the manual runs from its first cell to its last, and shows what it did when it was kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.support import ROOT, fixed_ceilings, load_script
from trtprof.hardware import store

pytestmark = pytest.mark.nightly

NOTEBOOK = ROOT / "profiler" / "trtprof" / "docs" / "notebook.ipynb"


def shown(notebook: dict[str, Any]) -> list[list[list[str]]]:
    """What kinds of output each code cell has."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[sorted(output.get("data", [output["output_type"]])) for output in cell["outputs"]] for cell in code]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What executes notebooks; its kernels find ceilings that were not measured, and the package of this checkout."""
    for module in ("nbclient", "ipykernel"):
        pytest.importorskip(module, reason=f"{module} is not installed: scripts/test installs it")
    store.of_host(0, cache_dir=tmp_path / "cache").write(fixed_ceilings(), print)
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    for name in ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")  # without it Jupyter warns of a change to come
    return load_script(ROOT / "scripts" / "execute_notebook.py", "execute_notebook")


def test_the_notebook_runs_in_a_kernel_and_shows_what_is_kept_in_it(script: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import nbformat

    folder = tmp_path / "work"
    folder.mkdir()
    fresh = script.execute(nbformat.read(NOTEBOOK, as_version=4), folder)
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    assert shown(json.loads(script.text_of(fresh))) == shown(kept)
    assert (folder / "annotated.onnx").is_file()
    assert ["image/svg+xml", "text/plain"] in [kinds for cell in shown(kept) for kinds in cell]
    run = json.loads((folder / "reports" / "one" / "report.json").read_text("utf-8"))
    assert run["ceilings"]["source"] == "not measured: fixed by a test"


def test_the_notebook_is_one_that_was_executed() -> None:
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])


def test_a_cell_that_fails_is_an_error_and_a_printed_line_is_kept(script: Any, tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell, new_notebook

    cells = [new_code_cell("print('a')\n1 + 1")]
    made = json.loads(script.text_of(script.execute(new_notebook(cells=cells), tmp_path)))
    assert [output["output_type"] for output in made["cells"][0]["outputs"]] == ["stream", "execute_result"]
    assert made["cells"][0]["outputs"][1]["data"] == {"text/plain": "2"}
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        script.execute(new_notebook(cells=[new_code_cell("1 / 0")]), tmp_path)


@pytest.mark.parametrize("word", ["run", "load_run", "runs", "analyze", "predict", "compare"])
def test_every_verb_of_python_is_in_it(word: str) -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert any(f"tp.{word}(" in "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
