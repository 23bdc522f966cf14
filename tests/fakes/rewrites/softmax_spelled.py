"""Cases of `trtprof.rewrite.softmax_spelled`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase

CASES = (
    RewriteCase("an axis in the middle", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 1> (x) }"),
    RewriteCase("opset 18", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 0> (x) }", opset=18),
    RewriteCase("fp64", "g (double[2,5,4] x) => (double[2,5,4] y) { y = LogSoftmax <axis = 1> (x) }"),
    RewriteCase(
        "its logarithm, counted from the end",
        "g (float[N,3,M] x) => (float[N,3,M] y) { y = LogSoftmax <axis = -3> (x) }",
        dims={"N": 2, "M": 4},
    ),
    RewriteCase("the last axis", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 2> (x) }", fits=0),
    RewriteCase("the last axis by default", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax (x) }", fits=0),
    RewriteCase("fp16", "g (float16[2,5,4] x) => (float16[2,5,4] y) { y = Softmax <axis = 1> (x) }", fits=0),
    RewriteCase(
        "all axes from one on", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 1> (x) }", 0, opset=11
    ),
)
