"""Cases of `trtprof.rewrite.prelu_spelled`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

GRAPH = "g (float[2,3,4,5] x) => (float[2,3,4,5] y) { y = PRelu (x, s) }"
CASES = (
    RewriteCase("a slope per channel", GRAPH, weights={"s": random(0, 3, 1, 1)}),
    RewriteCase("one slope, opset 7", GRAPH, weights={"s": random(0, 1)}, opset=7),
    RewriteCase("a slope per element, one of them 0", GRAPH, weights={"s": random(0, 3, 4, 5).clip(0, 1)}),
    RewriteCase(
        "with a batch that is not known, and the input is read again",
        "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = PRelu (x, s) z = Exp (x) }",
        weights={"s": random(0, 3)},
        dims={"N": 4},
    ),
    RewriteCase(
        "in a row", "g (float[7] x) => (float[7] y) { t = PRelu (x, s) y = PRelu (t, s) }", 2, {"s": random(0, 7)}
    ),
    RewriteCase("fp16", GRAPH.replace("float", "float16"), weights={"s": random(0, 3, 1, 1).astype(np.float16)}),
    RewriteCase("fp64", GRAPH.replace("float", "double"), weights={"s": random(0, 3, 1, 1).astype(np.float64)}),
    RewriteCase("a slope that is computed", "g (float[7] x, float[7] s) => (float[7] y) { y = PRelu (x, s) }", fits=0),
    RewriteCase("an infinite slope", GRAPH, 0, {"s": np.asarray([0, 1, np.inf], np.float32).reshape(3, 1, 1)}),
    RewriteCase("integers", "g (int32[7] x) => (int32[7] y) { y = PRelu (x, s) }", 0, {"s": np.ones(1, np.int32)}),
    RewriteCase("another function", "g (float[7] x) => (float[7] y) { y = LeakyRelu (x) }", fits=0),
)
