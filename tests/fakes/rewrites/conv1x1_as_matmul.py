"""Cases of `trtprof.rewrite.conv1x1_as_matmul`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

_W = {"w": random(0, 5, 3, 1, 1)}
_BIASED = _W | {"b": random(1, 5)}

CASES = (
    RewriteCase(
        "with a bias, a batch that callers choose",
        "g (float[N,3,4,6] x) => (float[N,5,4,6] y) { y = Conv <kernel_shape = [1, 1]> (x, w, b) }",
        weights=_BIASED,
        dims={"N": 2},
    ),
    RewriteCase(
        "a width that callers choose, all attributes written down",
        """g (float[2,3,4,W] x) => (float[2,5,4,W] y) {
            y = Conv <strides = [1, 1], pads = [0, 0, 0, 0], dilations = [2, 2], group = 1, auto_pad = "NOTSET"> (x, w)
        }""",
        weights=_W,
        opset=8,
        dims={"W": 6},
    ),
    RewriteCase(
        "of one axis, of any length",
        "g (float[N,3,L] x) => (float[N,5,L] y, float[N,5,L] z) { y = Conv (x, w) z = Neg (y) }",
        weights={"w": random(0, 5, 3, 1)},
        dims={"N": 2, "L": 4},
    ),
    RewriteCase(
        "in both branches",
        """g (bool c, float[2,3,4,4] x) => (float[2,5,4,4] y) {
            y = If (c) <then_branch = t () => (float[2,5,4,4] u) { u = Conv (x, w) },
                        else_branch = e () => (float[2,5,4,4] v) { v = Conv (x, w, b) }>
        }""",
        fits=2,
        weights=_BIASED,
        low=0,
        high=1,
    ),
    RewriteCase(
        "a batch and a width that callers choose",
        "g (float[N,3,4,W] x) => (float[N,5,4,W] y) { y = Conv (x, w) }",
        fits=0,
        weights=_W,
        dims={"N": 2, "W": 6},
    ),
    RewriteCase(
        "with steps of two",
        "g (float[2,3,4,6] x) => (float[2,5,2,3] y) { y = Conv <strides = [2, 2]> (x, w) }",
        fits=0,
        weights=_W,
    ),
    RewriteCase(
        "with padding",
        "g (float[2,3,4,6] x) => (float[2,5,6,8] y) { y = Conv <pads = [1, 1, 1, 1]> (x, w) }",
        fits=0,
        weights=_W,
    ),
    RewriteCase(
        "with groups",
        "g (float[2,6,4,6] x) => (float[2,4,4,6] y) { y = Conv <group = 2> (x, w) }",
        fits=0,
        weights={"w": random(0, 4, 3, 1, 1)},
    ),
    RewriteCase(
        "a weight that callers may give",
        "g (float[2,3,4,6] x, float[5,3,1,1] w) => (float[2,5,4,6] y) { y = Conv (x, w) }",
        fits=0,
        weights=_W,
    ),
)
