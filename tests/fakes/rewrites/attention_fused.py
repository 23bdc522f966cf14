"""Cases of `trtprof.rewrite.attention_fused`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

FORBIDDEN = np.where(np.tri(4) > 0, 0, -np.inf).astype(np.float32)
OUT = "(float[2,3,4,8] q, float[2,3,4,8] k, float[2,3,4,5] v) => (float[2,3,4,5] y)"


def attention(between: str, interface: str = OUT, keys: str = "kt = Transpose <perm = [0, 1, 3, 2]> (k)") -> str:
    """From the scores s to the weights w there must be a Softmax."""
    return f"g {interface} {{ {keys}\n s = MatMul (q, kt)\n {between}\n y = MatMul (w, v) }}"


CASES = (
    RewriteCase(
        "divided by the root of the width",
        attention("d = Div (s, c)\n w = Softmax <axis = -1> (d)"),
        weights={"c": np.asarray(2.828427, np.float32)},
        opset=23,
    ),
    RewriteCase(
        "with a causal mask, scaled first",
        attention("d = Mul (c, s)\n m = Add (d, f)\n w = Softmax (m)"),
        weights={"c": np.asarray([0.35], np.float32), "f": FORBIDDEN},
        opset=24,
    ),
    RewriteCase(
        "a mask of keys alone, an opset that can be raised",
        attention("m = Add (f, s)\n w = Softmax <axis = 3> (m)"),
        weights={"f": random(0, 2, 1, 1, 4)},
        opset=17,
    ),
    RewriteCase(
        "keys that were turned with their heads, a batch that callers choose",
        attention(
            "w = Softmax (s)",
            "(float[N,3,4,8] q, float[N,4,3,8] k, float[N,3,4,5] v) => (float[N,3,4,5] y)",
            "kt = Transpose <perm = [0, 2, 3, 1]> (k)",
        ),
        opset=23,
        dims={"N": 2},
    ),
    RewriteCase(
        "keys that callers give turned",
        attention("w = Softmax (s)", OUT.replace("float[2,3,4,8] k", "float[2,3,8,4] k"), "kt = Identity (k)"),
        opset=23,
    ),
    RewriteCase(
        "a query that may see nothing",
        attention("m = Add (s, f)\n w = Softmax (m)"),
        fits=0,
        weights={"f": np.where(np.arange(4)[:, None] == 1, -np.inf, np.zeros((4, 4))).astype(np.float32)},
        opset=23,
    ),
    RewriteCase(
        "a mask that callers choose",
        attention("m = Add (s, f)\n w = Softmax (m)", OUT.replace("v)", "v, float[4,4] f)")),
        fits=0,
        opset=23,
    ),
    RewriteCase(
        "heads that share keys",
        attention("w = Softmax (s)", OUT.replace("float[2,3,4,8] k", "float[2,1,4,8] k")),
        fits=0,
        opset=23,
    ),
    RewriteCase("a Softmax over the queries", attention("w = Softmax <axis = 2> (s)"), fits=0, opset=23),
    RewriteCase(
        "the weights are an output", attention("w = Softmax (s)", OUT[:-1] + ", float[2,3,4,4] w)"), 0, opset=23
    ),
    RewriteCase("in fp64", attention("w = Softmax (s)", OUT.replace("float", "double")), fits=0, opset=23),
)
