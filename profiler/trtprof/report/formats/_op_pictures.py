"""The sweep of an op as a picture: the intensity with the ridge, and the time, against the first swept parameter."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtprof.base.errors import UsageError
from trtprof.base.records import OpSweep, bound_name
from trtprof.report.content.op_sweep import (
    DRAWN,
    Series,
    conditions_of,
    intensities,
    number_text,
    ridge_lines,
    time_panels,
    title_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = {"tensor": "s", "vector": "D", "sfu": "P", "dram": "o", "l2": "v", "launch": "^", "none": "x"}
"""Shapes of the points of the picture by what bounds them."""


def render_image(found: OpSweep, suffix: str) -> bytes:
    """The intensity with the ridge, and the time, against the first swept parameter, as ``.svg`` or ``.png``.

    Lines are the other swept parameters; the shape of a point says what bounds it.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    work = intensities(found)
    if max((len(line.places) for line in work), default=0) < 2:
        raise UsageError(
            f"there is nothing to draw of {found.op}",
            why="a picture needs two points along a swept parameter",
            fix="give a parameter several values, such as --batch 1..64:x2",
        )
    panels = time_panels(found)
    # Ids in an SVG come from this salt instead of a random number.
    with mpl.rc_context({"svg.hashsalt": "trtprof", "svg.fonttype": "none", "font.size": 9.0}):
        inches = 4.8 * (1 + len(panels))
        figure = Figure(figsize=(inches, 4.6), layout="constrained")
        conditions = conditions_of(found) + (f"  {'cold' if found.cold else 'warm'}" if found.devices else "")
        # 14 characters of this size take an inch.
        figure.suptitle("\n".join([title_of(found), *textwrap.wrap(conditions, int(14 * inches))]), fontsize=9)
        axes: list[Axes] = list(figure.subplots(1, 1 + len(panels), squeeze=False)[0])
        for index, (label, level) in enumerate(ridge_lines(found)):
            axes[0].axhline(
                level,
                color="0.35",
                linestyle=("--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)))[index % 4],
                linewidth=1.0,
                label=f"{label} {number_text(level)}",
            )
        _draw(axes[0], found, work, "intensity, FLOP/byte")
        for (title, lines), ax in zip(panels, axes[1:], strict=True):
            in_us = [line._replace(values=tuple(value / 1e3 for value in line.values)) for line in lines]
            _draw(ax, found, in_us, f"time on {title}, at least, us" if title else "time, at least, us")
            if ax is not axes[1]:
                ax.sharey(axes[1])
        out = io.BytesIO()
        # What is written of the time and the program would differ from run to run.
        metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(out, format=suffix.removeprefix("."), dpi=150, metadata=metadata)
    return out.getvalue()


def _draw(ax: Axes, found: OpSweep, lines: Sequence[Series], title: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    dim = found.dims[0]
    numbers = [value for value in dim.values if isinstance(value, int)]
    numeric = len(numbers) == len(dim.values)
    # Values that double are evenly spaced on a logarithmic axis.
    wide = numeric and max(numbers) >= 16 * min(numbers)
    seen: dict[str, None] = {}
    for index, line in enumerate(lines[:DRAWN]):
        xs = [numbers[place] if numeric else place for place in line.places]
        ax.plot(
            xs,
            line.values,
            color=f"C{index}",
            linewidth=1.2,
            label=line.label or None,
            marker="" if any(line.bounds) else ".",
        )
        for x, value, bound in zip(xs, line.values, line.bounds, strict=False):
            if bound:
                ax.plot([x], [value], color=f"C{index}", marker=_MARKERS.get(bound, "x"), markersize=5, linestyle="")
                seen[bound] = None
    if wide:
        ax.set_xscale("log", base=2)
    if len(dim.values) <= 12:
        ax.set_xticks(numbers if numeric else range(len(dim.values)), labels=[str(value) for value in dim.values])
        ax.minorticks_off()
    ax.set_yscale("log")
    # 1, 2, 5, 10 in plain digits.
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(dim.name)
    ax.set_title(title, fontsize=9)
    ax.grid(visible=True, which="major", linewidth=0.4, alpha=0.6)
    kinds = {device.kind for device in found.devices}
    for bound in seen:
        name = bound_name(bound, "cpu" if kinds == {"cpu"} else "gpu")
        ax.plot([], [], color="0.35", marker=_MARKERS.get(bound, "x"), linestyle="", label=f"bound: {name}")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=7)
    if len(lines) > DRAWN:
        ax.annotate(f"{len(lines) - DRAWN} more lines not drawn", (0.02, 0.02), xycoords="axes fraction", fontsize=7)
