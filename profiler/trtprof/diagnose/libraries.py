"""A layer beside what good library kernels take for the same (`records.Expectation`).

One that takes no longer than nine of ten of them is not slow. What a remedy may win is what their fastest tenth would.
Without an expectation, and where it is an extrapolation (`Expectation.firm`), all that is lost counts.
"""

from __future__ import annotations

from trtprof.base.records import LayerResult
from trtprof.base.units import format_band, format_ns


def expected_words(layer: LayerResult) -> str:
    """``~3.50 ms (3.00 .. 4.20, 80 %)``; empty without a firm expectation."""
    if not layer.firm or layer.expected_ns is None or layer.expected_p10_ns is None or layer.expected_p90_ns is None:
        return ""
    return format_band(layer.expected_ns, layer.expected_p10_ns, layer.expected_p90_ns)


def as_fast(layer: LayerResult) -> str:
    """That a layer is as fast as good library kernels, in words with the numbers; empty where it is not."""
    if not layer.firm or layer.expected_p10_ns is None or layer.expected_p90_ns is None:
        return ""
    if layer.measured_ns > layer.expected_p90_ns:
        return ""
    praised = layer.measured_ns < layer.expected_p10_ns
    how = "faster than nine of ten library kernels" if praised else "as fast as good library kernels"
    return f"the layer is {how}: {format_ns(layer.measured_ns)} measured, {expected_words(layer)} expected of those"


def reachable_ns(layer: LayerResult) -> int:
    """What the fastest tenth of library kernels take, no less than is attainable; without a firm expectation that."""
    return max(layer.attainable_ns or 0, (layer.expected_p10_ns or 0) if layer.firm else 0)


def winnable_ns(layer: LayerResult) -> int:
    """What a remedy may hope to win of a layer whose loss is known, in ns; 0 of any other."""
    return 0 if layer.lost_ns is None else max(min(layer.lost_ns, layer.measured_ns - reachable_ns(layer)), 0)


def down_to(layer: LayerResult) -> str:
    """To be said behind what is claimed of a layer: how far down one may hope to come; empty without an expectation."""
    if not (words := expected_words(layer)):
        return ""
    down = f"; claimed is what lies above {format_ns(reachable_ns(layer))}"
    if (layer.expected_p10_ns or 0) < (layer.attainable_ns or 0):
        return f"{down}, the roofline; good library kernels take {words}"
    return f"{down}, which one in ten library kernels beats; good ones take {words}"
