"""Cases of `trtprof.rewrite.merge_products`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

_QKV = {"q": random(0, 8, 8), "k": random(1, 8, 4), "v": random(2, 8, 4)}
_BIASES = {"a": random(3, 8), "b": random(4, 4), "c": random(5, 4)}

CASES = (
    RewriteCase(
        "queries, keys and values",
        """g (float[2,N,8] x) => (float[2,N,8] y, float[2,N,4] z, float[2,N,4] u) {
            y = MatMul (x, q) z = MatMul (x, k) u = MatMul (x, v)
        }""",
        weights=_QKV,
        dims={"N": 3},
    ),
    RewriteCase(
        "before lengths became an input",
        """g (float[2,3,8] x) => (float[2,3,8] y, float[2,3,4] z) {
            p = MatMul (x, q) y = Relu (p) z = MatMul (x, k)
        }""",
        weights={name: _QKV[name] for name in "qk"},
        opset=11,
    ),
    RewriteCase(
        "with a bias each",
        """g (float[2,3,8] x) => (float[2,3,8] y, float[2,3,4] z, float[2,3,4] u) {
            p = MatMul (x, q) y = Add (p, a)
            r = MatMul (x, k) z = Add (b, r)
            s = MatMul (x, v) u = Add (s, c)
        }""",
        weights=_QKV | _BIASES,
    ),
    RewriteCase(
        "Gemms, one with a bias of one element",
        """g (float[3,8] x) => (float[3,8] y, float[3,4] z) {
            y = Gemm <transB = 1> (x, q, a) z = Gemm <transB = 1> (x, k, b)
        }""",
        weights={"q": random(0, 8, 8), "k": random(1, 4, 8), "a": random(2, 1, 8), "b": random(3, 1)},
    ),
    RewriteCase(
        "in a branch, of constants there",
        """g (bool c, float[2,8] x) => (float[2,8] y) {
            y = If (c) <then_branch = t () => (float[2,8] u) {
                            p = MatMul (x, q) r = MatMul (x, k) u = Concat <axis = 1> (p, r)
                        },
                        else_branch = e () => (float[2,8] w) { w = Relu (x) }>
        }""",
        weights={"q": random(0, 8, 5), "k": random(1, 8, 3)},
        low=0,
        high=1,
    ),
    RewriteCase(
        "of different inputs",
        """g (float[2,8] x) => (float[2,8] y, float[2,4] z) {
            y = MatMul (x, q) r = Neg (x) z = MatMul (r, k)
        }""",
        fits=0,
        weights={name: _QKV[name] for name in "qk"},
    ),
    RewriteCase(
        "a weight that callers may give",
        "g (float[2,8] x, float[8,8] q) => (float[2,8] y, float[2,4] z) { y = MatMul (x, q) z = MatMul (x, k) }",
        fits=0,
        weights={name: _QKV[name] for name in "qk"},
    ),
    RewriteCase(
        "a weight that both share",
        "g (float[2,8] x) => (float[2,8] y, float[2,8] z) { y = MatMul (x, q) r = MatMul (x, q) z = Neg (r) }",
        fits=0,
        weights={"q": _QKV["q"]},
    ),
    RewriteCase(
        "a weight for each of a batch",
        "g (float[2,3,8] x) => (float[2,3,8] y, float[2,3,4] z) { y = MatMul (x, q) z = MatMul (x, k) }",
        fits=0,
        weights={"q": random(0, 2, 8, 8), "k": random(1, 2, 8, 4)},
    ),
    RewriteCase(
        "Gemms of which one is scaled",
        """g (float[3,8] x) => (float[3,8] y, float[3,4] z) {
            y = Gemm <alpha = 0.5> (x, q) z = Gemm (x, k)
        }""",
        fits=0,
        weights={name: _QKV[name] for name in "qk"},
    ),
    RewriteCase(
        "Gemms of which one adds a matrix",
        "g (float[3,8] x) => (float[3,8] y, float[3,4] z) { y = Gemm (x, q, a) z = Gemm (x, k, b) }",
        fits=0,
        weights={"q": _QKV["q"], "k": _QKV["k"], "a": random(0, 8), "b": random(1, 3, 4)},
    ),
)
