#!/usr/bin/env python3
"""Execute the notebooks of the manual in a Jupyter kernel, and keep what their cells show.

``--check`` writes nothing. On a busy machine what is kept is worth little: look at TRUST.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).resolve().parents[1] / "profiler" / "trtprof" / "docs"
_TIMEOUT = 600
"""Seconds that a cell may take: the first run measures ceilings."""


def execute(notebook: Any, folder: Path) -> Any:
    """The notebook with the outputs that its code cells have, run in a kernel whose working folder is ``folder``.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised something.
    """
    metadata = dict(notebook.metadata)
    # Times and the version of Python are those of whoever executes it last: no news.
    client = NotebookClient(
        notebook, timeout=_TIMEOUT, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    made = client.execute()
    made.metadata = nbformat.from_dict(metadata)
    return made


def text_of(notebook: Any) -> str:
    """The content of its file: sources by line, and each output in one string, for nobody reads a picture's lines."""
    found = json.loads(nbformat.writes(notebook))
    for cell in found["cells"]:
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["data"] = {kind: "".join(data) for kind, data in output["data"].items()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Execute all of them; returns the exit code."""
    for path in sorted(DOCS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            made = execute(notebook, Path(folder))
        if "--check" not in arguments:
            path.write_text(text_of(made), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
