"""Cases of `trtprof.rewrite.layernorm_spelled`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

WEIGHTS = {"w": random(0, 8), "b": random(1, 8)}

CASES = (
    RewriteCase(
        "without one", "g (float[N,8] x) => (float[N,8] y) { y = LayerNormalization (x, w) }", 1, WEIGHTS, dims={"N": 3}
    ),
    RewriteCase(
        "over two axes, a wide epsilon, axes as an input",
        "g (float[2,3,4] x, float[3,4] w) => (float[2,3,4] y) { y = LayerNormalization <axis=1, epsilon=0.1> (x, w) }",
        opset=18,
    ),
    RewriteCase(
        "in fp16",
        "g (float16[2,8] x) => (float16[2,8] y) { y = LayerNormalization <axis = -1> (x, w, b) }",
        weights={"w": random(0, 8).astype(np.float16), "b": random(1, 8).astype(np.float16)},
    ),
    RewriteCase(
        "in fp64",
        "g (double[2,8] x, double[8] w) => (double[2,8] y) { y = LayerNormalization (x, w) }",
        fits=0,
    ),
    RewriteCase(
        "the mean is read",
        "g (float[2,8] x) => (float[2,8] y, float[2,1] m) { y, m = LayerNormalization (x, w) }",
        0,
        WEIGHTS,
    ),
)
