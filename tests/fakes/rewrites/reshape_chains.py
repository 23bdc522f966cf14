"""Cases of `trtprof.rewrite.reshape_chains`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase

CASES = (
    RewriteCase(
        "three ops, whose axes are attributes",
        """g (float[2,1,3,4] x) => (float[1,2,12] y) {
          a = Squeeze <axes = [1]> (x)
          b = Flatten (a)
          y = Unsqueeze <axes = [0]> (b)
        }""",
        opset=11,
    ),
    RewriteCase(
        "there and back, which a caller gets",
        "g (float[N,1] x) => (float[N,1] y) { a = Squeeze (x, last) \n y = Unsqueeze (a, last) }",
        weights={"last": np.array([1])},
        dims={"N": 2},
    ),
    RewriteCase(
        "heads, whose batch and length callers choose",
        """g (float[N,S,6] x) => (float[N,S,2,3] y) {
          a = Reshape (x, rows)
          b = Reshape (a, heads)
          y = Identity (b)
        }""",
        weights={"rows": np.array([0, -1, 6]), "heads": np.array([0, 0, 2, 3])},
        dims={"N": 2, "S": 3},
    ),
    RewriteCase(
        "a shape that is computed, and one that is not",
        """g (float[A,B] x) => (float[2,C] y) {
          s = Shape (x)
          a = Reshape (x, s)
          b = Reshape (a, two)
          y = Abs (b)
        }""",
        weights={"two": np.array([2, -1])},
        dims={"A": 2, "B": 3, "C": 3},
    ),
    RewriteCase(
        "what changes nothing",
        """g (float[2,3] x) => (float[2,3] y) {
          a = Identity (x)
          b = Abs (a)
          c = Flatten (b)
          d = Neg (c)
          e = Reshape (d, same)
          y = Sqrt (e)
        }""",
        fits=3,
        weights={"same": np.array([2, -1])},
        low=-2,
        high=0,
    ),
    RewriteCase(
        "two dimensions that would follow from the others",
        """g (float[N,M,4] x) => (float[A,B] y) {
          a = Unsqueeze (x, first)
          y = Flatten <axis = 2> (a)
        }""",
        fits=0,
        weights={"first": np.array([0])},
        dims={"N": 2, "M": 3, "A": 2, "B": 12},
    ),
    RewriteCase(
        "one that follows beside one that may be 0",
        """g (float[N,M,K] x) => (float[N,A] y) {
          a = Unsqueeze (x, last)
          y = Flatten (a)
        }""",
        fits=0,
        weights={"last": np.array([-1])},
        dims={"N": 2, "M": 3, "K": 2, "A": 6},
    ),
    RewriteCase(
        "a caller gets what is between",
        "g (float[2,3] x) => (float[3,2] y, float[6] a) { a = Reshape (x, p) \n y = Reshape (a, q) }",
        fits=0,
        weights={"p": np.array([6]), "q": np.array([3, 2])},
    ),
    RewriteCase(
        "a shape that callers may replace",
        "g (float[2,3] x, int64[2] q) => (float[3,2] y) { a = Flatten <axis = 0> (x) \n y = Reshape (a, q) }",
        fits=0,
        weights={"q": np.array([3, 2])},
    ),
)
