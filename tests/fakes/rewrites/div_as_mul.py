"""Cases of `trtprof.rewrite.div_as_mul`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fakes.rewrites import RewriteCase


def division(name: str, divisor: Any, fits: int = 1, opset: int = 17, dtype: Any = np.float32) -> RewriteCase:
    """A division of what callers choose."""
    types = {np.float32: "float", np.float64: "double", np.float16: "float16", np.int32: "int32"}
    text = f"g ({types[dtype]}[N,3] x) => ({types[dtype]}[N,3] y) {{ y = Div (x, d) }}"
    return RewriteCase(name, text, fits, {"d": np.asarray(divisor, dtype)}, opset, {"N": 2})


CASES = (
    division("by a power of two", 8),
    division("by the root of a width, in an old opset", 5.656854, opset=7),
    division("by a number a column", [0.5, -3, 7]),
    division("in float64", [[3]], dtype=np.float64),
    RewriteCase(
        "in a body, by a constant that another reads",
        """g (float[3] x, bool c) => (float[3] y) {
          y = If (c) <
            then_branch = t () => (float[3] u) { a = Div (x, d) \n u = Add (a, d) },
            else_branch = e () => (float[3] v) { v = Div (d, x) }
          >
        }""",
        weights={"d": np.array(3, np.float32)},
    ),
    division("by zero", [1, 0, 2], fits=0),
    division("by so small a number that its reciprocal is infinite", 1e-40, fits=0),
    division("by so large a number that its reciprocal has fewer digits", 2e38, fits=0),
    division("by infinity", np.inf, fits=0),
    RewriteCase(
        "of integers", "g (int32[3] x) => (int32[3] y) { y = Div (x, d) }", fits=0, weights={"d": np.array(4, np.int32)}
    ),
)
