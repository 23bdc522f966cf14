"""How an option is declared."""

from __future__ import annotations

from typing import Any

import typer


def opt(names: str, help: str, panel: str | None = None, **more: Any) -> Any:  # noqa: A002 - as typer calls it
    """An option of typer: its names, separated by spaces, and its heading in the help."""
    return typer.Option(*names.split(), help=help, rich_help_panel=panel, **more)
