"""Cases of `trtprof.rewrite.pow_as_mul`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fakes.rewrites import RewriteCase


def power(
    name: str, exponent: Any, before: str = "Neg (x)", fits: int = 1, opset: int = 17, **more: Any
) -> RewriteCase:
    """A Pow of what an op makes."""
    text = f"g (float[2,N] x) => (float[2,N] y, float[2,N] a) {{ a = {before} \n b = Pow (a, p) \n y = Abs (b) }}"
    exponent = exponent if isinstance(exponent, np.ndarray) else np.array(exponent, np.float32)
    return RewriteCase(name, text, fits, {"p": exponent}, opset, {"N": 3})


CASES = (
    power("a square", 2),
    power("a square, in an old opset and more dimensions", np.full((1, 1), 2, np.float32), opset=7),
    power("a square, whose exponent is a whole number", np.array([2], np.int64)),
    power("an inverse", -1.0),
    power("nothing", 1),
    power("the root of what is not negative", 0.5, "Abs (x)"),
    power("one by the root of what is not negative", -0.5, "Exp (x)"),
    RewriteCase(
        "the root of a mean of squares, in a body",
        """g (float[2,3] x, bool c) => (float[2,1] y) {
          y = If (c) <
            then_branch = t () => (float[2,1] u) {
              a = Mul (x, x)
              b = ReduceMean <axes = [-1]> (a)
              d = Add (b, tiny)
              u = Pow (d, half)
            },
            else_branch = e () => (float[2,1] v) { v = ReduceMean <axes = [1]> (x) }
          >
        }""",
        weights={"tiny": np.array(1e-5, np.float32), "half": np.array(0.5, np.float32)},
    ),
    power("the root of what may be negative", 0.5, fits=0),
    power("the root of what may be -0", 0.5, "Relu (x)", fits=0),
    power("another exponent", 2.5, fits=0),
    power("a cube", 3, fits=0),
    RewriteCase(
        "an exponent for each",
        "g (float[2,3] x) => (float[2,3] y) { y = Pow (x, p) }",
        fits=0,
        weights={"p": np.array([2, 2, 2], np.float32)},
    ),
    RewriteCase(
        "an exponent with more dimensions",
        "g (float[3] x) => (float[1,3] y) { y = Pow (x, p) }",
        fits=0,
        weights={"p": np.array([[2]], np.float32)},
    ),
    RewriteCase(
        "of integers", "g (int32[3] x) => (int32[3] y) { y = Pow (x, p) }", fits=0, weights={"p": np.array(2, np.int32)}
    ),
    RewriteCase(
        "an exponent that callers may replace",
        "g (float[3] x, float p) => (float[3] y) { y = Pow (x, p) }",
        fits=0,
        weights={"p": np.array(2, np.float32)},
    ),
)
