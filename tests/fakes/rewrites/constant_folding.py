"""Cases of `trtprof.rewrite.constant_folding`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

CASES = (
    RewriteCase(
        "a chain of constants",
        """g (float[2,4] x) => (float[2,3] y) {
          a = Transpose (w)
          b = Mul (a, two)
          c = Softmax (b)
          y = MatMul (x, c)
        }""",
        fits=3,
        weights={"w": random(0, 3, 4), "two": np.array(2, np.float32)},
    ),
    RewriteCase(
        "numbers that were attributes",
        """g (float[2,3] x) => (float[1,2,3] y) {
          z = Constant <value = float[2,1] {1.5, -2.0}> ()
          a = Unsqueeze <axes = [0]> (z)
          b = Clip <min = -1.0, max = 1.0> (a)
          y = Add (x, b)
        }""",
        fits=2,
        opset=9,
    ),
    RewriteCase(
        "a constant that others read and that a caller gets",
        """g (float[3] x) => (float[3] y, float[3] n, float[3] w2) {
          n = Neg (w)
          y = Add (x, n)
          w2 = Sub (x, w)
        }""",
        weights={"w": random(0, 3)},
    ),
    RewriteCase(
        "shapes, of which some numbers are known",
        """g (float[N,4,6] x) => (int64[1] a, int64 b, int64[2] c, float[N,24] y) {
          s = Shape (x)
          b = Gather (s, last)
          c = Gather (s, both)
          a = Shape <start = 1, end = 2> (x)
          n = Gather (s, first)
          y = Reshape (x, k)
          d = Add (n, n)
        }""",
        fits=3,
        weights={
            "last": np.array(-1),
            "both": np.array([1, 2]),
            "first": np.array([0]),
            "k": np.array([0, 24]),
        },
        dims={"N": 3},
    ),
    RewriteCase(
        "a result far larger than what it is made of",
        "g (float[1,1024] x) => (float[1024,1024] y) { a = Expand (w, s) \n y = Add (x, a) }",
        fits=0,
        weights={"w": random(0, 1024, 1), "s": np.array([1024, 1024])},
    ),
    RewriteCase(
        "a number out of the range of integers",
        "g (int32[1] x) => (int32[1] y) { a = Cast <to = 6> (w) \n b = Mul (a, x) \n y = Sub (b, b) }",
        fits=0,
        weights={"w": np.array([3e10], np.float32)},
    ),
    RewriteCase(
        "a shape that callers choose",
        "g (float[N,4] x) => (int64[2] y) { s = Shape (x) \n y = Add (s, s) }",
        fits=0,
        dims={"N": 3},
    ),
)
