"""Documents in a format, with the arguments that tests of them share."""

from __future__ import annotations

from typing import Any

from trtprof.base.records import Record
from trtprof.report import encode, render


def render_text(found: Record, width: int = 80, top: int | None = None, **options: Any) -> str:
    """For a terminal."""
    return render(found, "text", width=width, top=top, **options)


def render_json(found: Record) -> str:
    return render(found, "json")


def render_csv(found: Record) -> str:
    return render(found, "csv")


def render_markdown(found: Record, top: int | None = None) -> str:
    return render(found, "markdown", top=top)


def render_html(found: Record) -> str:
    return render(found, "html")


def render_image(found: Record, suffix: str) -> bytes:
    return encode(found, suffix.removeprefix("."))
