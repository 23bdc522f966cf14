"""How pictures look, whatever they show: colours that colour-blind readers tell apart, and grey that prints."""

from __future__ import annotations

from typing import Any

BOUND_COLORS = {
    "dram": "#0072b2", "l2": "#56b4e9", "tensor": "#d55e00", "vector": "#e69f00", "sfu": "#cc79a7",
    "launch": "#7f7f7f",
}  # fmt: skip
"""By what bounds a layer: the palette of M. Okabe and K. Ito, Color Universal Design (2002)."""

OTHER_COLOR = "#000000"
"""Of layers whose bound is not known."""

INK = "#222222"
FAINT = "#666666"
GRID = "#dddddd"

KIND_COLORS = {"fact": "#0072b2", "estimate": "#bcd9ea", "remainder": "#ffffff"}
"""Of the ledger: what was measured is full, what was computed pale and hatched, what has no name empty."""
KIND_HATCHES = {"fact": "", "estimate": "////", "remainder": ".."}
TOTAL_COLOR = "#333333"

SETTINGS: dict[Any, Any] = {
    # Ids are hashed with a salt that is random by default; glyphs as outlines look the same everywhere.
    "svg.hashsalt": "trtprof",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 8.0,
    "hatch.linewidth": 0.5,
    # No name in a run is a formula.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.unicode_minus": True,
}
"""On top of matplotlib's own defaults, so that the settings of a user change nothing."""

METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "trtprof", "Title": "trtprof"},
    "png": {"Software": None},
}
"""SVG holds the date, PNG the version of the software, unless told otherwise."""
