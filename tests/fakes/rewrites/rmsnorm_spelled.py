"""Cases of `trtprof.rewrite.rmsnorm_spelled`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

WEIGHTS = {"w": random(0, 8)}

CASES = (
    RewriteCase(
        "the last axis", "g (float[2,3,8] x) => (float[2,3,8] y) { y = RMSNormalization (x, w) }", 1, WEIGHTS, 23
    ),
    RewriteCase(
        "over two axes",
        "g (float[N,3,4] x, float[3,4] w) => (float[N,3,4] y) { y = RMSNormalization <axis=-2, epsilon=0.1> (x, w) }",
        opset=23,
        dims={"N": 2},
    ),
    RewriteCase(
        "in fp16",
        "g (float16[2,8] x) => (float16[2,8] y) { y = RMSNormalization (x, w) }",
        weights={"w": random(0, 8).astype(np.float16)},
        opset=23,
    ),
    RewriteCase(
        "in fp64", "g (double[2,8] x, double[8] w) => (double[2,8] y) { y = RMSNormalization (x, w) }", 0, opset=23
    ),
)
