"""Cases of `trtprof.rewrite.conv_pad_channels`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

_TWO = {"v": random(0, 12, 3, 3, 3), "w": random(1, 5, 12, 1, 1), "a": random(2, 12), "b": random(3, 5)}
_TEXT = "g (float[N,3,6,6] x) => (float[N,5,6,6] y)"

CASES = (
    RewriteCase(
        "two, with a function between them",
        _TEXT + " { p = Conv <pads = [1, 1, 1, 1]> (x, v, a) q = Relu (p) y = Conv (q, w, b) }",
        weights=_TWO,
        dims={"N": 2},
    ),
    RewriteCase(
        "three, and bounds that are inputs",
        """g (float[2,3,6,6] x) => (float[2,5,6,6] y) {
            p = Conv <pads = [1, 1, 1, 1]> (x, v) q = Clip (p, l, h)
            r = Conv (q, u) s = HardSigmoid (r)
            y = Conv (s, w, b)
        }""",
        fits=2,
        weights=_TWO | {"u": random(4, 12, 12, 1, 1), "l": np.array(-1, np.float32), "h": np.array(6, np.float32)},
    ),
    RewriteCase(
        "a depthwise one and a pool between them, bounds as attributes",
        """g (float[2,3,6,6] x) => (float[2,5,2,2] y) {
            p = Conv <pads = [1, 1, 1, 1]> (x, v, a) q = Clip <min = 0.5, max = 6.0> (p)
            r = Conv <group = 12, pads = [1, 1, 1, 1], strides = [2, 2]> (q, d, a)
            s = MaxPool <kernel_shape = [2, 2]> (r)
            y = Conv (s, w, b)
        }""",
        weights=_TWO | {"d": random(4, 12, 1, 3, 3)},
        opset=9,
    ),
    RewriteCase(
        "in a branch, of fp16",
        """g (bool c, float16[2,3,6] x) => (float16[2,5,6] y) {
            y = If (c) <then_branch = t () => (float16[2,5,6] u) { p = Conv (x, v) u = Conv (p, w) },
                        else_branch = e () => (float16[2,5,6] z) { z = Conv (x, k) }>
        }""",
        weights={
            "v": random(0, 6, 3, 1).astype(np.float16),
            "w": random(1, 5, 6, 1).astype(np.float16),
            "k": random(2, 5, 3, 1).astype(np.float16),
        },
        low=0,
        high=1,
    ),
    RewriteCase(
        "channels that others read",
        "g (float[2,3,6,6] x) => (float[2,5,6,6] y, float[2,12,6,6] z) {"
        " p = Conv <pads = [1, 1, 1, 1]> (x, v, a) q = Relu (p) y = Conv (q, w, b) z = Neg (q) }",
        fits=0,
        weights=_TWO,
    ),
    RewriteCase(
        "so few channels that they would be twice as many",
        _TEXT + " { p = Conv <pads = [1, 1, 1, 1]> (x, v) y = Conv (p, w) }",
        fits=0,
        weights={"v": random(0, 8, 3, 3, 3), "w": random(1, 5, 8, 1, 1)},
        dims={"N": 2},
    ),
    RewriteCase(
        "a weight that callers may give",
        "g (float[2,3,6,6] x, float[12,3,3,3] v) => (float[2,5,6,6] y) {"
        " p = Conv <pads = [1, 1, 1, 1]> (x, v, a) q = Relu (p) y = Conv (q, w, b) }",
        fits=0,
        weights=_TWO,
    ),
)
