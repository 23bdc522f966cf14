"""Cases of `trtprof.rewrite.convinteger_uint8_weights`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase

GRAPH = "g (uint8[1,3,8,8] x) => (int32[1,4,8,8] y) { y = ConvInteger <pads = [1, 1, 1, 1]> (x, w%s) }"
W8 = np.random.default_rng(0).integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
ZERO, LOW = np.array(120, np.uint8), np.array(-128, np.int8)
CASES = (
    RewriteCase("without zero points", GRAPH % "", weights={"w": W8}, low=0, high=255),
    RewriteCase("with that of the input", GRAPH % ", a", weights={"w": W8, "a": ZERO}, low=0, high=255),
    RewriteCase("both zero points", GRAPH % ", a, b", weights={"w": W8, "a": ZERO, "b": LOW}, low=0, high=255),
    RewriteCase("uint8 weights", GRAPH % ", a", 0, {"w": W8.view(np.uint8), "a": ZERO}, low=0, high=255),
    RewriteCase(
        "weights that are computed",
        "g (uint8[1,3,8,8] x, int8[4,3,3,3] w) => (int32[1,4,6,6] y) { y = ConvInteger (x, w) }",
        fits=0, low=0.0, high=100.0,
    ),
)  # fmt: skip
