#!/usr/bin/env python3
"""Execute the notebooks of the manual in a Jupyter kernel, and keep what their cells show.

On a busy machine what is kept is worth little: look at TRUST.
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


def execute(notebook: Any, folder: Path) -> Any:
    """The notebook with the outputs that its code cells have, run in a kernel whose working folder is ``folder``."""
    metadata = dict(notebook.metadata)
    where = {"metadata": {"path": str(folder)}}
    made = NotebookClient(notebook, timeout=600, record_timing=False, resources=where).execute()
    made.metadata = nbformat.from_dict(metadata)  # the version of Python is that of whoever executes it last
    return made


def text_of(notebook: Any) -> str:
    """The content of its file: each output in one string, for nobody reads a picture's lines."""
    found = json.loads(nbformat.writes(notebook))
    for cell in found["cells"]:
        for output in (one for one in cell.get("outputs", ()) if "data" in one):
            output["data"] = {kind: "".join(data) for kind, data in output["data"].items()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    for path in sorted(DOCS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(text_of(execute(nbformat.read(path, as_version=4), Path(folder))), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
