"""Cases of `trtprof.rewrite.gemv_as_reduce`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

CASES = (
    RewriteCase("one row", "g (float[6,1,8] a, float[6,8,7] b) => (float[6,1,7] y) { y = MatMul (a, b) }"),
    RewriteCase(
        "a batch that callers choose",
        "g (float[N,5,8] a, float[N,8,1] b) => (float[N,5,1] y) { y = MatMul (a, b) }",
        dims={"N": 3},
    ),
    RewriteCase(
        "before axes became an input",
        "g (float[6,5,8] a, float[6,8,1] b) => (float[6,5,1] y) { y = MatMul (a, b) }",
        opset=11,
    ),
    RewriteCase("a vector for every row", "g (float[6,5,8] a, float[8,1] b) => (float[6,5,1] y) { y = MatMul (a, b) }"),
    RewriteCase(
        "one matrix for the whole batch",
        "g (float[6,1,8] a) => (float[6,1,7] y) { y = MatMul (a, w) }",
        fits=0,
        weights={"w": random(0, 8, 7)},
    ),
    RewriteCase("no batch", "g (float[5,8] a, float[8,1] b) => (float[5,1] y) { y = MatMul (a, b) }", fits=0),
    RewriteCase("no vector", "g (float[6,5,8] a, float[6,8,7] b) => (float[6,5,7] y) { y = MatMul (a, b) }", fits=0),
    RewriteCase("of integers", "g (int32[6,5,8] a, int32[6,8,1] b) => (int32[6,5,1] y) { y = MatMul (a, b) }", fits=0),
)
