"""What `trtprof compare` prints: what changed between runs, what it is made of, and the answers of the gates."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from profiler.base.records import Comparisons
from profiler.report import _comparison_text
from profiler.report._format import plain
from profiler.report.json_ import schema_of

__all__ = ["render_html", "render_json", "render_markdown", "render_text", "schema_text"]


def render_text(
    found: Comparisons, width: int = 80, top: int | None = None, *, ascii_only: bool = False, color: bool = False
) -> str:
    """The comparisons as lines of at most ``width`` columns.

    Args:
        found: The comparisons.
        width: Columns.
        top: Parts of the model and findings of each; by default few.
        ascii_only: Write ASCII only; other characters are escaped.
        color: Use ANSI colours.
    """
    return _comparison_text.render(found, width, top, ascii_only=ascii_only, color=color)


def render_json(found: Comparisons) -> str:
    """The comparisons as one JSON document, indented, complete.

    Raises:
        TrtprofError: A number is NaN or infinite, or a string is not valid Unicode.
    """
    document = plain(cast("Any", found))
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def schema_text() -> str:
    """The schema of the document as the text of ``comparison.schema.json``, which ships with the package."""
    schema = schema_of(Comparisons, "trtprof compare")
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2).decode() + "\n"


def render_markdown(found: Comparisons, top: int | None = None) -> str:
    """The comparisons for a comment on a pull request: one table first, the rest folded."""
    from profiler.report import _comparison_markdown

    return _comparison_markdown.render(found, top)


def render_html(found: Comparisons) -> str:
    """The comparisons as one page that needs no network and runs no script."""
    from profiler.report import _comparison_html

    return _comparison_html.render(found)
