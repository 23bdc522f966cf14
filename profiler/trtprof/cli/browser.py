"""A page in the browser of whoever sits here, if anybody does."""

from __future__ import annotations

import os
import sys


def open_in_browser(url: str) -> str:
    """Open a page; empty if that worked, else in words why not."""
    import webbrowser

    if sys.platform.startswith("linux") and not any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    ):
        return "there is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set)"
    try:
        return "" if webbrowser.open(url) else "no browser was found"
    except webbrowser.Error as error:
        return str(error) or "no browser was found"
