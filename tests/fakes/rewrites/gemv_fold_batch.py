"""Cases of `trtprof.rewrite.gemv_fold_batch`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

CASES = (
    RewriteCase(
        "vectors that share a matrix",
        "g (float[5,8] a, float[4,3,8,1] b) => (float[4,3,5,1] y) { y = MatMul (a, b) }",
    ),
    RewriteCase(
        "each side varies along an axis of its own",
        "g (float[3,1,2,4,8] a, float[1,5,2,8,1] b) => (float[3,5,2,4,1] y) { y = MatMul (a, b) }",
        opset=9,
    ),
    RewriteCase(
        "axes of one, and one that a side lacks",
        "g (float[3,1,4,1,8] a, float[1,4,8,6] b) => (float[3,1,4,1,6] y) { y = MatMul (a, b) }",
    ),
    RewriteCase(
        "in a branch, of values that others read",
        """g (bool c, float[2,4,1,8] a, float[2,1,8,7] b) => (float[2,4,1,7] y, float[2,4,1,8] z) {
            z = Neg (a)
            y = If (c) <then_branch = t () => (float[2,4,1,7] u) { u = MatMul (z, b) },
                        else_branch = e () => (float[2,4,1,7] v) { v = MatMul (z, b) }>
        }""",
        fits=2,
        low=0,
        high=1,
    ),
    RewriteCase(
        "both vary everywhere",
        "g (float[6,5,1,8] a, float[6,5,8,1] b) => (float[6,5,1,1] y) { y = MatMul (a, b) }",
        fits=0,
    ),
    RewriteCase(
        "two folded axes that callers choose",
        "g (float[2,N,M,1,8] a, float[2,1,1,8,3] b) => (float[2,N,M,1,3] y) { y = MatMul (a, b) }",
        fits=0,
        dims={"N": 4, "M": 2},
    ),
    RewriteCase(
        "an outer batch and a folded one that callers choose",
        "g (float[M,N,1,8] a, float[M,1,8,3] b) => (float[M,N,1,3] y) { y = MatMul (a, b) }",
        fits=0,
        dims={"N": 4, "M": 2},
    ),
    RewriteCase(
        "one matrix for the whole batch",
        "g (float[6,1,8] a) => (float[6,1,7] y) { y = MatMul (a, w) }",
        fits=0,
        weights={"w": random(0, 8, 7)},
    ),
    RewriteCase(
        "matrices that would be transposed",
        "g (float[2,1,1,8] a, float[2,4,8,7] b) => (float[2,4,1,7] y) { y = MatMul (a, b) }",
        fits=0,
    ),
    RewriteCase(
        "no vector", "g (float[6,5,2,8] a, float[6,1,8,7] b) => (float[6,5,2,7] y) { y = MatMul (a, b) }", fits=0
    ),
)
