"""Cases of `trtprof.rewrite.cube_as_mul`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase
from tests.fakes.rewrites.pow_as_mul import power

CASES = (
    power("a cube", 3),
    power("a cube in an old opset, and more dimensions", np.full((1, 1), 3, np.float32), opset=7),
    power("a cube, whose exponent is a whole number", np.array([3], np.int64)),
    RewriteCase(
        "in a body, of what is around it, with one that a caller gets",
        """g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) {
          z = Pow (x, p)
          y = If (c) <
            then_branch = t () => (float[2,3] u) { a = Pow (x, p) \n u = Neg (a) },
            else_branch = e () => (float[2,3] v) { v = Abs (z) }
          >
        }""",
        fits=2,
        weights={"p": np.array(3, np.float32)},
    ),
    power("a square", 2, fits=0),
    RewriteCase(
        "an exponent with more dimensions",
        "g (float[3] x) => (float[1,3] y) { y = Pow (x, p) }",
        fits=0,
        weights={"p": np.array([[3]], np.float32)},
    ),
    RewriteCase(
        "of integers", "g (int32[3] x) => (int32[3] y) { y = Pow (x, p) }", fits=0, weights={"p": np.array(3, np.int32)}
    ),
    RewriteCase(
        "an exponent that callers may replace",
        "g (float[3] x, float p) => (float[3] y) { y = Pow (x, p) }",
        fits=0,
        weights={"p": np.array(3, np.float32)},
    ),
)
