"""Cases of `trtprof.rewrite.convtranspose_as_resize`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random


def _flat(seed: int, inputs: int, outputs: int, *window: int) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(random(seed, inputs, outputs, *[1] * len(window)),
                                                (inputs, outputs, *window)))  # fmt: skip


_FLAT = {"w": _flat(0, 3, 5, 2, 2), "b": random(1, 5)}
_TEXT = "g (float[N,3,H,W] x) => (float[N,5,A,B] y)"
_DIMS = {"N": 2, "H": 4, "W": 6, "A": 8, "B": 12}

CASES = (
    RewriteCase(
        "images of any size, with a bias",
        _TEXT + " { y = ConvTranspose <strides = [2, 2]> (x, w, b) }",
        weights=_FLAT,
        dims=_DIMS,
    ),
    RewriteCase(
        "of the first opset with such a Resize, steps that differ",
        """g (float[2,3,4,6] x) => (float[2,5,8,18] y, float[2,5,8,18] z) {
            y = ConvTranspose <strides = [2, 3]> (x, w) z = Neg (y)
        }""",
        weights={"w": _flat(0, 3, 5, 2, 3)},
        opset=11,
    ),
    RewriteCase(
        "with groups, along one axis",
        "g (float[2,4,7] x) => (float[2,6,21] y) { y = ConvTranspose <strides = [3], group = 2> (x, w) }",
        weights={"w": _flat(0, 4, 3, 3)},
    ),
    RewriteCase(
        "channels that are repeated, in a branch",
        """g (bool c, float[2,4,3,3] x) => (float[2,4,6,6] y) {
            y = If (c) <then_branch = t () => (float[2,4,6,6] u) {
                            u = ConvTranspose <strides = [2, 2], group = 4> (x, w)
                        },
                        else_branch = e () => (float[2,4,6,6] v) { v = ConvTranspose <strides = [2, 2]> (x, k) }>
        }""",
        weights={"w": np.ones((4, 1, 2, 2), np.float32), "k": random(1, 4, 4, 2, 2)},
        low=0,
        high=1,
    ),
    RewriteCase(
        "windows that overlap",
        _TEXT + " { y = ConvTranspose <strides = [2, 2]> (x, w) }",
        fits=0,
        weights={"w": _flat(0, 3, 5, 3, 3)},
        dims=_DIMS | {"A": 9, "B": 13},
    ),
    RewriteCase(
        "with padding",
        _TEXT + " { y = ConvTranspose <strides = [2, 2], pads = [0, 1, 0, 0]> (x, w) }",
        fits=0,
        weights=_FLAT,
        dims=_DIMS | {"B": 11},
    ),
    RewriteCase(
        "older than such a Resize",
        _TEXT + " { y = ConvTranspose <strides = [2, 2]> (x, w, b) }",
        fits=0,
        weights=_FLAT,
        dims=_DIMS,
        opset=10,
    ),
)
