"""Cases of `trtprof.rewrite.matmul_as_conv1x1`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

_W = {"w": random(0, 3, 5)}
_BIASED = _W | {"b": random(1, 5)}

CASES = (
    RewriteCase(
        "of images, with a bias",
        """g (float[N,3,H,W] x) => (float[N,5,H,W] y) {
            t = Transpose <perm = [0, 2, 3, 1]> (x)
            p = MatMul (t, w) q = Add (b, p)
            y = Transpose <perm = [0, 3, 1, 2]> (q)
        }""",
        weights=_BIASED,
        dims={"N": 2, "H": 4, "W": 6},
    ),
    RewriteCase(
        "of one axis, the first transposed read by another",
        """g (float[2,3,L] x) => (float[2,5,L] y, float[2,L,3] z) {
            t = Transpose <perm = [0, 2, 1]> (x)
            p = MatMul (t, w) y = Transpose <perm = [0, 2, 1]> (p) z = Neg (t)
        }""",
        weights=_W,
        opset=9,
        dims={"L": 4},
    ),
    RewriteCase(
        "a result that others read",
        """g (float[2,3,4,6] x) => (float[2,5,4,6] y, float[2,5,4,6] z) {
            t = Transpose <perm = [0, 2, 3, 1]> (x)
            p = MatMul (t, w) y = Transpose <perm = [0, 3, 1, 2]> (p) z = Relu (y)
        }""",
        weights=_W,
    ),
    RewriteCase(
        "Transposes that do not undo one another",
        """g (float[2,3,4,6] x) => (float[2,5,6,4] y) {
            t = Transpose <perm = [0, 2, 3, 1]> (x)
            p = MatMul (t, w) y = Transpose <perm = [0, 3, 2, 1]> (p)
        }""",
        fits=0,
        weights=_W,
    ),
    RewriteCase(
        "a bias of each position",
        """g (float[2,3,4] x) => (float[2,5,4] y) {
            t = Transpose <perm = [0, 2, 1]> (x) p = MatMul (t, w) q = Add (p, b)
            y = Transpose <perm = [0, 2, 1]> (q)
        }""",
        fits=0,
        weights=_W | {"b": random(1, 4, 5)},
    ),
    RewriteCase(
        "of a type that is not convolved everywhere",
        """g (double[2,3,4] x) => (double[2,5,4] y) {
            t = Transpose <perm = [0, 2, 1]> (x) p = MatMul (t, w) y = Transpose <perm = [0, 2, 1]> (p)
        }""",
        fits=0,
        weights={"w": random(0, 3, 5).astype(np.float64)},
    ),
    RewriteCase(
        "a weight for each of a batch",
        """g (float[2,3,4] x) => (float[2,5,4] y) {
            t = Transpose <perm = [0, 2, 1]> (x) p = MatMul (t, w) y = Transpose <perm = [0, 2, 1]> (p)
        }""",
        fits=0,
        weights={"w": random(0, 2, 3, 5)},
    ),
)
