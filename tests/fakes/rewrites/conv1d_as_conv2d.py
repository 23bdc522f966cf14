"""Cases of `trtprof.rewrite.conv1d_as_conv2d`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

_DEPTHWISE = {"w": random(0, 6, 1, 3), "b": random(1, 6)}

CASES = (
    RewriteCase(
        "depthwise, of any length",
        """g (float[N,6,L] x) => (float[N,6,L] y) {
            y = Conv <group = 6, pads = [2, 2], dilations = [2], kernel_shape = [3]> (x, w, b)
        }""",
        weights=_DEPTHWISE,
        dims={"N": 2, "L": 9},
    ),
    RewriteCase(
        "in steps, more padding on one side, before axes became an input",
        "g (float[2,4,9] x) => (float[2,5,5] y) { y = Conv <strides = [2], pads = [0, 2]> (x, w) }",
        weights={"w": random(0, 5, 4, 3)},
        opset=11,
    ),
    RewriteCase(
        "a chain, with a result in the middle",
        """g (float[2,6,L] x) => (float[2,6,A] p, float[2,6,B] y) {
            p = Conv <group = 6, auto_pad = "VALID"> (x, w) y = Conv <group = 6> (p, v)
        }""",
        fits=2,
        weights=_DEPTHWISE | {"v": random(2, 6, 1, 2)},
        dims={"L": 9, "A": 7, "B": 6},
    ),
    RewriteCase(
        "channels that are no multiple of 4, of any length",
        "g (float[N,17,L] x) => (float[N,5,L] y) { y = Conv <pads = [1, 1]> (x, w, b) }",
        weights={"w": random(0, 5, 17, 3), "b": random(1, 5)},
        dims={"N": 2, "L": 4},
    ),
    RewriteCase(
        "a weight that callers may give",
        "g (float[2,6,9] x, float[6,1,3] w) => (float[2,6,7] y) { y = Conv <group = 6> (x, w) }",
        fits=0,
        weights=_DEPTHWISE,
    ),
    RewriteCase(
        "pads that depend on the length",
        """g (float[2,6,9] x) => (float[2,6,9] y) { y = Conv <group = 6, auto_pad = "SAME_UPPER"> (x, w) }""",
        fits=0,
        weights=_DEPTHWISE,
    ),
)
