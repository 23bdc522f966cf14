"""Cases of `trtprof.rewrite.split_products`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

_W = {"w": random(0, 8, 12)}
_CUT = {"s": np.array([6, 4, 2])}
_SPLIT = "g (float[2,N,8] x) => (float[2,N,6] y, float[2,N,4] z, float[2,N,2] u)"


def _slices(*edges: tuple[int, int]) -> dict[str, np.ndarray]:
    cut = {f"s{place}": np.array([start]) for place, (start, _) in enumerate(edges)}
    return cut | {f"e{place}": np.array([end]) for place, (_, end) in enumerate(edges)} | {"a": np.array([-1])}


CASES = (
    RewriteCase(
        "before lengths became an input, in equal parts",
        "g (float[2,8] x) => (float[2,6] y, float[2,6] z) { p = MatMul (x, w) y, z = Split <axis = 1> (p) }",
        weights=_W,
        opset=11,
    ),
    RewriteCase(
        "with a bias",
        _SPLIT + "{ p = MatMul (x, w) q = Add (b, p) y, z, u = Split <axis = 2> (q, s) }",
        weights=_W | _CUT | {"b": random(1, 12)},
        dims={"N": 3},
    ),
    RewriteCase(
        "a Gemm by its rows",
        """g (float[2,8] x) => (float[2,6] y, float[2,4] z, float[2,2] u) {
            p = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, w, b) y, z, u = Split <axis = 1> (p, s)
        }""",
        weights=_CUT | {"w": random(0, 12, 8), "b": random(1, 12)},
    ),
    RewriteCase(
        "by Slices that cover it, in any order",
        """g (float[2,8] x) => (float[2,7] y, float[2,5] z) {
            p = MatMul (x, w) z = Slice (p, s1, e1, a) n = Slice (p, s0, e0, a) y = Neg (n)
        }""",
        weights=_W | _slices((0, 7), (-5, 99)),
    ),
    RewriteCase(
        "cut along rows",
        "g (float[2,8] x) => (float[1,12] y, float[1,12] z) { p = MatMul (x, w) y, z = Split <axis = 0> (p, s) }",
        fits=0,
        weights=_W | {"s": np.array([1, 1])},
    ),
    RewriteCase(
        "Slices that leave a column out",
        """g (float[2,8] x) => (float[2,6] y, float[2,5] z) {
            p = MatMul (x, w) y = Slice (p, s0, e0, a) z = Slice (p, s1, e1, a)
        }""",
        fits=0,
        weights=_W | _slices((0, 6), (7, 12)),
    ),
    RewriteCase(
        "every second column",
        """g (float[2,8] x) => (float[2,6] y, float[2,6] z) {
            p = MatMul (x, w) y = Slice (p, s0, e0, a, t) z = Slice (p, s1, e1, a)
        }""",
        fits=0,
        weights=_W | _slices((0, 12), (6, 12)) | {"t": np.array([2])},
    ),
    RewriteCase(
        "lengths that callers choose",
        """g (float[2,8] x, int64[2] s) => (float[2,A] y, float[2,B] z) {
            p = MatMul (x, w) y, z = Split <axis = 1> (p, s)
        }""",
        fits=0,
        weights=_W,
        dims={"A": 6, "B": 6},
        low=6,
        high=6,
    ),
    RewriteCase(
        "a weight with another reader",
        """g (float[2,8] x) => (float[2,6] y, float[2,6] z, float[8,12] v) {
            p = MatMul (x, w) y, z = Split <axis = 1> (p, s) v = Neg (w)
        }""",
        fits=0,
        weights=_W | {"s": np.array([6, 6])},
    ),
)
