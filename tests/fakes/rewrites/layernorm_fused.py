"""Cases of `trtprof.rewrite.layernorm_fused`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

WEIGHTS = {"w": random(0, 8), "b": random(1, 8)}
CORE = """
    two = Constant <value = float {2.0}> ()
    eps = Constant <value = float {0.00001}> ()
    m = ReduceMean <axes = [-1], keepdims = 1> (x)
    d = Sub (x, m)
    q = Pow (d, two)
    v = ReduceMean <axes = [-1], keepdims = 1> (q)
    ve = Add (v, eps)
    s = Sqrt (ve)
    n = Div (d, s)
"""


def layer(rest: str, interface: str = "(float[2,3,8] x) => (float[2,3,8] y)", core: str = CORE) -> str:
    return f"g {interface} {{ {core} {rest} }}"


CASES = (
    RewriteCase("with scale and bias", layer("nw = Mul (n, w)\n y = Add (nw, b)"), weights=WEIGHTS),
    RewriteCase(
        "a batch that callers choose, scale and bias first",
        layer("nw = Mul (w, n)\n y = Add (b, nw)", "(float[N,M,8] x) => (float[N,M,8] y)"),
        weights=WEIGHTS,
        dims={"N": 2, "M": 3},
    ),
    RewriteCase("neither scale nor bias", layer("y = Neg (n)")),
    RewriteCase("scale alone, from a caller", layer("y = Mul (n, k)", "(float[4,8] x, float[8] k) => (float[4,8] y)")),
    RewriteCase("bias alone, of one element", layer("y = Add (n, c)"), weights={"c": random(2, 1)}),
    RewriteCase(
        "a scale that is no scale of the op stays",
        layer("nw = Mul (n, k)\n y = Add (nw, b)", "(float[4,8] x, float[4,8] k) => (float[4,8] y)"),
        weights=WEIGHTS,
    ),
    RewriteCase("before the op was", layer("nw = Mul (n, w)\n y = Add (nw, b)"), weights=WEIGHTS, opset=13),
    RewriteCase(
        "over two axes that are an input, with a second difference",
        """g (float[2,3,4] x) => (float[2,3,4] y) {
            axes = Constant <value = int64[2] {2, 1}> ()
            eps = Constant <value = float {0.001}> ()
            m = ReduceMean (x, axes)
            d = Sub (x, m)
            e = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean (q, axes)
            ve = Add (eps, v)
            s = Sqrt (ve)
            r = Reciprocal (s)
            y = Mul (e, r)
        }""",
        opset=18,
    ),
    RewriteCase(
        "an average over all but the last axis",
        """g (float[2,3,8] x) => (float[2,3,8] y) {
            eps = Constant <value = float {0.00001}> ()
            m = ReduceMean <axes = [1], keepdims = 1> (x)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [1], keepdims = 1> (q)
            ve = Add (v, eps)
            s = Sqrt (ve)
            y = Div (d, s)
        }""",
        fits=0,
    ),
    RewriteCase(
        "a cube",
        layer("y = Neg (n)", core=CORE.replace("{2.0}", "{3.0}")),
        fits=0,
        low=-0.1,
        high=0.1,
    ),
    RewriteCase(
        "the deviation is an output", layer("y = Neg (n)", "(float[4,8] x) => (float[4,8] y, float[4,1] s)"), 0
    ),
    RewriteCase(
        "in fp64",
        layer("y = Neg (n)", "(double[4,8] x) => (double[4,8] y)", CORE.replace("float", "double")),
        fits=0,
    ),
    RewriteCase(
        "axes of which one has no number",
        layer("y = Neg (n)", "(float[4,N] x) => (float[4,N] y)"),
        fits=0,
        dims={"N": 8},
    ),
    RewriteCase(
        "the mean of another value",
        layer("y = Neg (n)", "(float[4,8] x, float[4,8] z) => (float[4,8] y)", CORE.replace("1> (x)", "1> (z)")),
        fits=0,
    ),
)
