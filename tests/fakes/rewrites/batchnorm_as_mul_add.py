"""Cases of `trtprof.rewrite.batchnorm_as_mul_add`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random
from tests.fakes.rewrites.batchnorm_folded import CONV, NORM, W, numbers

CASES = (
    RewriteCase(
        "of images whose size callers choose",
        f"g (float[N,4,H,W] c) => (float[N,4,H,W] y) {{ {NORM} }}",
        weights=numbers(4),
        dims={"N": 2, "H": 3, "W": 5},
    ),
    RewriteCase(
        "of rows, in an old opset",
        "g (float[5,4] x) => (float[5,4] y) { c = Relu (x) \n z = BatchNormalization (c, s, b, m, v) \n y = Abs (z) }",
        weights=numbers(4),
        opset=7,
    ),
    RewriteCase(
        "behind a Conv whose result a caller gets",
        f"g (float[1,3,4,4] x) => (float[1,4,4,4] y, float[1,4,4,4] c) {{ {CONV} \n {NORM} }}",
        weights=W,
    ),
    RewriteCase(
        "behind a Conv that it folds into",
        f"g (float[1,3,4,4] x) => (float[1,4,4,4] y) {{ {CONV} \n {NORM} }}",
        fits=0,
        weights=W,
    ),
    RewriteCase(
        "a variance that callers may replace",
        f"g (float[1,4,2] c, float[4] v) => (float[1,4,2] y) {{ {NORM} }}",
        fits=0,
        weights=numbers(4),
    ),
    RewriteCase(
        "in a training",
        """g (float[4,4,2] c) => (float[4,4,2] y, float[4] rm, float[4] rv) {
          y, rm, rv = BatchNormalization <training_mode = 1> (c, s, b, m, v)
        }""",
        fits=0,
        weights={**numbers(4), "m": random(3, 4)},
        opset=15,
    ),
)
