"""How a kernel convolves, by its name."""

from __future__ import annotations

import re

from trtprof.kernel_names.parse import parse

_FAST = re.compile(r"winograd|(?<![a-z])fft|gcgemm|(?<![a-z])cgemm", re.IGNORECASE)


def is_fast_convolution(name: str) -> bool | None:
    """Whether it is a step of a convolution with fewer products (Winograd, FFT); None where the name does not tell."""
    if _FAST.search(name):
        return True
    found = parse(name)
    return False if found.op in ("conv", "gemm") and found.unit in ("tensor", "simt") else None
