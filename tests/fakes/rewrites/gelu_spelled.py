"""Cases of `trtprof.rewrite.gelu_spelled`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase

CASES = (
    RewriteCase("by erf", "g (float[2,3,4] x) => (float[2,3,4] y) { y = Gelu (x) }", opset=20),
    RewriteCase(
        "by tanh", 'g (float[N,4] x) => (float[N,4] y) { y = Gelu <approximate = "tanh"> (x) }', opset=20, dims={"N": 3}
    ),
    RewriteCase("in fp16", "g (float16[2,3,4] x) => (float16[2,3,4] y) { y = Gelu (x) }", opset=20),
    RewriteCase(
        "in fp64", 'g (double[4] x) => (double[4] y) { y = Gelu <approximate = "tanh"> (x) }', fits=0, opset=20
    ),
    RewriteCase("none", "g (float[4] x) => (float[4] y) { y = Erf (x) }", fits=0),
    RewriteCase("another function", "g (float[4] x) => (float[4] y) { y = HardSwish (x) }", fits=0),
)
