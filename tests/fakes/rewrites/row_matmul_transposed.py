"""Cases of `trtprof.rewrite.row_matmul_transposed`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

_W = {"w": random(0, 8, 7)}
_BIASED = {"w": random(0, 8, 7), "b": random(1, 7)}

CASES = (
    RewriteCase("one row", "g (float[1,8] x) => (float[1,7] y) { y = MatMul (x, w) }", weights=_W),
    RewriteCase(
        "before a Gemm could lack its bias",
        "g (float[1,8] x) => (float[1,7] y) { y = MatMul (x, w) }",
        weights=_W,
        opset=9,
    ),
    RewriteCase(
        "with a bias, in fp64",
        "g (double[1,1,8] x) => (double[1,1,7] y) { p = MatMul (x, w) y = Add (b, p) }",
        weights={name: array.astype(np.float64) for name, array in _BIASED.items()},
    ),
    RewriteCase(
        "a bias of the batch",
        "g (float[1,8] x) => (float[3,7] y) { p = MatMul (x, w) y = Add (p, b) }",
        weights={"w": random(0, 8, 7), "b": random(1, 3, 7)},
    ),
    RewriteCase("two rows", "g (float[2,8] x) => (float[2,7] y) { y = MatMul (x, w) }", fits=0, weights=_W),
    RewriteCase(
        "rows that callers choose",
        "g (float[N,8] x) => (float[N,7] y) { y = MatMul (x, w) }",
        fits=0,
        weights=_W,
        dims={"N": 1},
    ),
    RewriteCase(
        "a weight that callers may give",
        "g (float[1,8] x, float[8,7] w) => (float[1,7] y) { y = MatMul (x, w) }",
        fits=0,
        weights=_W,
    ),
    RewriteCase("a vector", "g (float[8] x) => (float[7] y) { y = MatMul (x, w) }", fits=0, weights=_W),
)
