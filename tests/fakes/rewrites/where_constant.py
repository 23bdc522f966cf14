"""Cases of `trtprof.rewrite.where_constant`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase

CASES = (
    RewriteCase(
        "a mask that is all true",
        "g (float[N,3] x, float[1] z) => (float[N,3] y) { y = Where (m, x, z) }",
        weights={"m": np.ones((1, 1), bool)},
        dims={"N": 2},
    ),
    RewriteCase(
        "a mask that is all false",
        "g (float[2,3] x, float[2,3] z) => (float[2,3] y) { a = Where (m, z, x) \n y = Neg (a) }",
        weights={"m": np.zeros((2, 1), bool)},
        opset=9,
    ),
    RewriteCase(
        "an Expand and a Tile that do nothing, of what others read",
        """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
          a = Abs (x)
          b = Expand (a, s)
          c = Tile (b, ones)
          y = Neg (c)
          z = Add (a, b)
        }""",
        fits=2,
        weights={"s": np.array([1, 3]), "ones": np.array([1, 1])},
        dims={"N": 2},
    ),
    RewriteCase(
        "an Expand to its own shape, in a body",
        """g (float[A,B] x, bool c) => (float[A,B] y) {
          s = Shape (x)
          y = If (c) <
            then_branch = t () => (float[A,B] u) { a = Expand (x, s) \n u = Neg (a) },
            else_branch = e () => (float[A,B] v) { v = Where (m, x, x) }
          >
        }""",
        fits=1,
        weights={"m": np.array([True, False, True])},
        dims={"A": 2, "B": 3},
    ),
    RewriteCase(
        "the other side has more elements",
        "g (float[1,3] x, float[N,3] z) => (float[N,3] y) { y = Where (m, x, z) }",
        fits=0,
        weights={"m": np.array([True])},
        dims={"N": 2},
    ),
    RewriteCase(
        "a mask that callers may replace",
        "g (float[3] x, float[3] z, bool[3] m) => (float[3] y) { y = Where (m, x, z) }",
        fits=0,
        weights={"m": np.ones(3, bool)},
        low=0,
        high=1,
    ),
    RewriteCase(
        "a Tile that repeats",
        "g (float[2] x) => (float[4] y) { a = Tile (x, r) \n y = Neg (a) }",
        fits=0,
        weights={"r": np.array([2])},
    ),
)
