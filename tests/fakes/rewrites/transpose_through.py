"""Cases of `trtprof.rewrite.transpose_through`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

CASES = (
    RewriteCase(
        "a pair around a function",
        """g (float[2,3,4,5] x) => (float[2,3,4,5] y) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          b = Relu (a)
          y = Transpose <perm = [0, 3, 1, 2]> (b)
        }""",
    ),
    RewriteCase(
        "two in a row, of which a caller gets the second",
        """g (float[2,3,4] x) => (float[2,3,4] y) {
          a = Transpose <perm = [1, 2, 0]> (x)
          y = Transpose <perm = [2, 0, 1]> (a)
        }""",
    ),
    RewriteCase(
        "two that merge, in the default order",
        "g (float[2,N,4] x) => (float[2,4,N] y) { a = Transpose (x) \n y = Transpose <perm = [2, 0, 1]> (a) }",
        dims={"N": 3},
    ),
    RewriteCase(
        "dimensions that callers choose, and constants of several ranks",
        """g (float[N,3,H,W] x) => (float[N,3,H,W] y) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          b = Mul (a, channels)
          c = Add (scalar, b)
          d = Sub (c, one)
          e = Max (d, full)
          y = Transpose <perm = [0, 3, 1, 2]> (e)
        }""",
        weights={
            "channels": random(0, 3),
            "scalar": np.array(0.5, np.float32),
            "one": random(1, 1, 1),
            "full": random(2, 1, 1, 1, 3),
        },
        dims={"N": 2, "H": 4, "W": 5},
    ),
    RewriteCase(
        "two ways that meet, and one result that a caller gets in the other order",
        """g (float[2,3,4,4] x, float[2,3,4,4] z) => (float[2,6,4,4] y, float[2,4,4,6] middle) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          b = Transpose <perm = [0, 2, 3, 1]> (z)
          c = Sigmoid (a)
          middle = Concat <axis = 3> (c, b)
          e = LeakyRelu <alpha = 0.1> (middle)
          y = Transpose <perm = [0, 3, 1, 2]> (e)
        }""",
    ),
    RewriteCase(
        "Pad and Slice whose numbers are attributes",
        """g (float[2,3,4,5] x) => (float[2,3,5,3] y) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          b = Pad <pads = [0, 1, 0, 0, 0, 0, 2, 0], mode = "constant", value = 0.5> (a)
          c = Slice <starts = [1], ends = [4], axes = [2]> (b)
          y = Transpose <perm = [0, 3, 1, 2]> (c)
        }""",
        opset=9,
    ),
    RewriteCase(
        "Pad and Slice whose numbers are inputs",
        """g (float[2,3,4,5] x, int64[2] starts) => (float[2,3,A,B] y) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          b = Pad <mode = "reflect"> (a, pads)
          c = Slice (b, starts, ends, axes)
          d = Slice (c, first, last)
          y = Transpose <perm = [0, 3, 1, 2]> (d)
        }""",
        weights={
            "pads": np.array([0, 1, 0, 0, 0, 0, 2, 0]),
            "ends": np.array([4, 3]),
            "axes": np.array([-2, 1]),
            "first": np.array([0, 1]),
            "last": np.array([2, 9]),
        },
        low=0,
        high=1,
    ),
    RewriteCase(
        "a mean over what was transposed",
        """g (float[2,3,4,5] x) => (float[2,3] y) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          b = Sqrt (a)
          y = ReduceMean <axes = [1, 2], keepdims = 0> (b)
        }""",
        low=0,
    ),
    RewriteCase(
        "a sum whose axes are an input, quantised by channel",
        """g (float[2,3,4,5] x) => (float[2,3,1,1] y) {
          a = Transpose <perm = [0, 2, 3, 1]> (x)
          q = QuantizeLinear <axis = 3> (a, scale, zero)
          d = DequantizeLinear <axis = 3> (q, scale, zero)
          s = ReduceSum <keepdims = 1> (d, axes)
          y = Transpose <perm = [0, 3, 1, 2]> (s)
        }""",
        weights={
            "axes": np.array([1, 2]),
            "scale": np.array([0.25, 0.125, 0.5], np.float32),
            "zero": np.zeros(3, np.int8),
        },
    ),
    RewriteCase(
        "one that moves nothing",
        "g (float[2,3] x) => (float[2,3] y) { a = Transpose <perm = [0, 1]> (x) \n y = Abs (a) }",
    ),
    RewriteCase(
        "a Softmax of a matrix made of several dimensions",
        """g (float[2,3,4] x) => (float[2,3,4] y) {
          a = Transpose <perm = [0, 2, 1]> (x)
          b = Softmax <axis = 1> (a)
          y = Transpose <perm = [0, 2, 1]> (b)
        }""",
        fits=0,
        opset=11,
    ),
    RewriteCase(
        "a table that callers may replace is transposed when it runs",
        """g (float[2,3,4] x, float[2,4,3] w) => (float[2,3,4] y) {
          a = Transpose <perm = [0, 2, 1]> (x)
          b = Mul (a, w)
          y = Transpose <perm = [0, 2, 1]> (b)
        }""",
        weights={"w": random(3, 2, 4, 3)},
    ),
)
