"""Layers that only change the layout for the backend.

What:
    The backend inserted reorders or transposes that no ONNX node asks for, and they cost time.

Why:
    Blocked-layout convolutions (NCHWc) and plain ops alternate, so tensors are reordered at each
    border; a quantised convolution wants channels last. TensorRT reformats where neighbouring layers
    have their fastest kernels in different formats or precisions, and at inputs and outputs that are fp32.

Try:
    Keep convolution chains unbroken: move the op at the border (Transpose, Reshape, Concat with odd
    channels, an op without a blocked kernel) out of the chain, or feed channels that are a multiple
    of the block (8 or 16). For TensorRT, give inputs and outputs in the dtype and format that the engine
    wants (`--inputIOFormats`, `--outputIOFormats`), and keep one precision through a chain of layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from profiler.diagnose import Case, Claim, needless, rule


@rule("LY201", "layout conversions", order=20)
def check(case: Case) -> Iterator[Claim]:
    """All layers whose role is layout, as one finding."""
    layers = [layer for layer in case.unclaimed if layer.role == "layout" and layer.measured_ns]
    yield from needless(
        case,
        layers,
        noun="reformat" if case.tensorrt else "reorder",
        why=(
            "to bring tensors into another dtype, order or place" if case.tensorrt else "does none of the model's work"
        ),
        remedy=(
            "keep one precision and format through the chain, and feed and take tensors as the engine has them "
            "(--inputIOFormats, --outputIOFormats)"
            if case.tensorrt
            else "keep convolution chains unbroken: move the op at the border of the blocked layout out of the chain"
        ),
    )
