"""Cases of `trtprof.rewrite.depthwise_repeated_channels`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

_TWICE = {"w": random(0, 8, 1, 3, 3), "b": random(1, 8)}

CASES = (
    RewriteCase(
        "two of each, of images of any size",
        """g (float[N,4,H,W] x) => (float[N,8,A,B] y) {
            y = Conv <group = 4, pads = [1, 1, 1, 1], strides = [2, 2]> (x, w, b)
        }""",
        weights=_TWICE,
        dims={"N": 2, "H": 6, "W": 8, "A": 3, "B": 4},
    ),
    RewriteCase(
        "three of each along one axis, of an old model",
        """g (float[2,4,9] x) => (float[2,12,7] y) { p = Relu (x) y = Conv <group = 4, auto_pad = "VALID"> (p, w) }""",
        weights={"w": random(0, 12, 1, 3)},
        opset=8,
    ),
    RewriteCase(
        "a result that is read and is an output",
        "g (float[2,4,6,6] x) => (float[2,8,4,4] y, float[2,8,4,4] z) { y = Conv <group = 4> (x, w, b) z = Neg (y) }",
        weights=_TWICE,
    ),
    RewriteCase(
        "groups of two",
        "g (float[2,8,6,6] x) => (float[2,8,4,4] y) { y = Conv <group = 4> (x, w) }",
        fits=0,
        weights={"w": random(0, 8, 2, 3, 3)},
    ),
    RewriteCase(
        "one channel, which is no group",
        "g (float[2,1,6,6] x) => (float[2,8,4,4] y) { y = Conv (x, w, b) }",
        fits=0,
        weights=_TWICE,
    ),
    RewriteCase(
        "a weight that callers may give",
        "g (float[2,4,6,6] x, float[8,1,3,3] w) => (float[2,8,4,4] y) { y = Conv <group = 4> (x, w) }",
        fits=0,
        weights=_TWICE,
    ),
)
