"""Cases of `trtprof.rewrite.batchnorm_folded`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.fakes.rewrites import RewriteCase, random


def numbers(channels: int) -> dict[str, npt.NDArray[Any]]:
    """Scale, shift, mean and variance."""
    return {
        "s": random(1, channels),
        "b": random(2, channels),
        "m": random(3, channels),
        "v": np.abs(random(4, channels)) + np.float32(0.1),
    }


CONV = "c = Conv <pads = [1, 1, 1, 1]> (x, w)"
NORM = "y = BatchNormalization (c, s, b, m, v)"
W = {"w": random(0, 4, 3, 3, 3), **numbers(4)}

CASES = (
    RewriteCase(
        "behind a Conv without a bias",
        f"g (float[N,3,H,6] x) => (float[N,4,H,6] y) {{ {CONV} \n {NORM} }}",
        weights=W,
        dims={"N": 2, "H": 5},
    ),
    RewriteCase(
        "behind a Conv in groups, before training was told by an attribute",
        """g (float[2,4,5] x) => (float[2,6,3] y) {
          c = Conv <group = 2> (x, w, k)
          z = BatchNormalization <epsilon = 0.1> (c, s, b, m, v)
          y = Relu (z)
        }""",
        opset=9,
        weights={"w": random(0, 6, 2, 3), "k": random(5, 6), **numbers(6)},
    ),
    RewriteCase(
        "behind a ConvTranspose in groups",
        """g (float[1,4,3,3] x) => (float[1,6,A,B] y) {
          c = ConvTranspose <group = 2, strides = [2, 2]> (x, w, k)
          y = BatchNormalization (c, s, b, m, v)
        }""",
        weights={"w": random(0, 4, 3, 2, 2), "k": random(5, 6), **numbers(6)},
    ),
    RewriteCase(
        "behind a Gemm with factors",
        """g (float[N,3] x) => (float[N,4] y) {
          c = Gemm <alpha = 0.5, beta = 2.0, transB = 1> (x, w, k)
          y = BatchNormalization (c, s, b, m, v)
        }""",
        weights={"w": random(0, 4, 3), "k": random(5, 1, 4), **numbers(4)},
        dims={"N": 3},
    ),
    RewriteCase(
        "a scale that callers may replace",
        f"g (float[1,3,4,4] x, float[4] s) => (float[1,4,4,4] y) {{ {CONV} \n {NORM} }}",
        fits=0,
        weights=W,
    ),
    RewriteCase("behind no product", f"g (float[1,4,4,4] c) => (float[1,4,4,4] y) {{ {NORM} }}", 0, numbers(4)),
    RewriteCase(
        "a Gemm that adds a matrix",
        "g (float[2,3] x) => (float[2,4] y) { c = Gemm (x, w, k) \n y = BatchNormalization (c, s, b, m, v) }",
        fits=0,
        weights={"w": random(0, 3, 4), "k": random(5, 2, 1), **numbers(4)},
    ),
)
