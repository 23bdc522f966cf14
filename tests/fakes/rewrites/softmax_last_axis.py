"""Cases of `trtprof.rewrite.softmax_last_axis`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase

CASES = (
    RewriteCase("an axis in the middle", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 1> (x) }"),
    RewriteCase(
        "its logarithm, counted from the end",
        "g (float[N,3,M] x) => (float[N,3,M] y) { y = LogSoftmax <axis = -3> (x) }",
        dims={"N": 2, "M": 4},
    ),
    RewriteCase(
        "between Transposes that undo each other",
        """g (float[2,5,4] x) => (float[2,5,4] y) {
            t = Transpose <perm = [0, 2, 1]> (x)
            s = Softmax <axis = 1> (t)
            y = Transpose <perm = [0, 2, 1]> (s)
        }""",
    ),
    RewriteCase(
        "behind a Transpose that makes an output of its own",
        """g (float[2,5,4] x) => (float[2,4,5] y, float[2,4,5] t) {
            t = Transpose <perm = [0, 2, 1]> (x)
            y = Softmax <axis = 1> (t)
        }""",
    ),
    RewriteCase(
        "before a Transpose that puts the axis last",
        """g (float[2,5,4,3] x) => (float[4,3,2,5] y) {
            s = Softmax <axis = 1> (x)
            y = Transpose <perm = [2, 3, 0, 1]> (s)
        }""",
    ),
    RewriteCase(
        "between two Transposes of other orders",
        """g (float[2,5,4,3] x) => (float[3,2,5,4] y) {
            t = Transpose (x)
            s = Softmax <axis = 2> (t)
            y = Transpose <perm = [0, 3, 2, 1]> (s)
        }""",
    ),
    RewriteCase("the last axis", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 2> (x) }", fits=0),
    RewriteCase("the last axis by default", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax (x) }", fits=0),
    RewriteCase(
        "all axes from one on", "g (float[2,5,4] x) => (float[2,5,4] y) { y = Softmax <axis = 1> (x) }", 0, opset=11
    ),
    RewriteCase("one dimension", "g (float[5] x) => (float[5] y) { y = LogSoftmax <axis = 0> (x) }", fits=0),
)
