#!/usr/bin/env python3
"""Execute the notebooks of the manual in order and keep what their cells show.

Cells are run as Jupyter runs them, in one namespace, the value of a last expression being shown as the best of
``_repr_html_``, ``_repr_svg_`` and ``repr``; no kernel is needed for it. ``--check`` writes nothing.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "profiler" / "docs"


def execute(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs that its code cells have, run with ``folder`` as the working folder.

    An exception of a cell is raised.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        count = 0
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell["execution_count"] = count
                cell["outputs"] = _outputs("".join(cell["source"]), names, count)
    finally:
        os.chdir(before)
    return notebook


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    tree.body = tree.body[:-1] if shown else tree.body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)  # noqa: S102 - the notebooks are ours
        value = None if shown is None else eval(compile(shown, f"cell {count}", "eval"), names)  # noqa: S307
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        for method, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
            if hasattr(value, method):
                data[kind] = _lines(getattr(value, method)())
        found.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(arguments: list[str]) -> int:
    """Execute all of them; returns the exit code."""
    for path in sorted(DOCS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            found = execute(json.loads(path.read_text("utf-8")), Path(folder))
        if "--check" not in arguments:
            path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
