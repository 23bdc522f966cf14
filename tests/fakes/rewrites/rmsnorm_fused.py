"""Cases of `trtprof.rewrite.rmsnorm_fused`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

WEIGHTS = {"w": random(0, 8)}
CORE = """
    two = Constant <value = float {2.0}> ()
    axes = Constant <value = int64[1] {-1}> ()
    eps = Constant <value = float {0.000001}> ()
    q = Pow (x, two)
    v = ReduceMean (q, axes)
    ve = Add (v, eps)
    s = Sqrt (ve)
    n = Div (x, s)
"""


def layer(rest: str, interface: str = "(float[2,3,8] x) => (float[2,3,8] y)", core: str = CORE) -> str:
    return f"g {interface} {{ {core} {rest} }}"


CASES = (
    RewriteCase("with a scale", layer("y = Mul (n, w)"), weights=WEIGHTS, opset=23),
    RewriteCase(
        "as exporters of language models write it",
        layer(
            "y = Mul (w, n)",
            core=CORE.replace(
                "n = Div (x, s)", "one = Constant <value = float {1.0}> ()\n r = Div (one, s)\n n = Mul (x, r)"
            ),
        ),
        weights=WEIGHTS,
        opset=23,
    ),
    RewriteCase("without one", layer("y = Neg (n)", "(float[N,8] x) => (float[N,8] y)"), opset=23, dims={"N": 3}),
    RewriteCase(
        "a power of minus a half",
        layer(
            "y = Mul (n, w)",
            core=CORE.replace(
                "s = Sqrt (ve)\n    n = Div (x, s)",
                "h = Constant <value = float {-0.5}> ()\n r = Pow (ve, h)\n n = Mul (r, x)",
            ),
        ),
        weights=WEIGHTS,
        opset=23,
    ),
    RewriteCase("an opset that can be raised", layer("y = Mul (n, w)"), weights=WEIGHTS, opset=18),
    RewriteCase(
        "an opset that cannot be raised",
        layer("y = Neg (n)", core=CORE.replace("(q, axes)", "<axes = [-1]> (q)")),
        fits=0,
        opset=17,
    ),
    RewriteCase("over all", layer("y = Neg (n)", core=CORE.replace("(q, axes)", "(q)")), 0, opset=23),
    RewriteCase(
        "a layer normalisation",
        """g (float[2,8] z) => (float[2,8] y) {
            axes = Constant <value = int64[1] {-1}> ()
            eps = Constant <value = float {0.000001}> ()
            m = ReduceMean (z, axes)
            x = Sub (z, m)
            q = Mul (x, x)
            v = ReduceMean (q, axes)
            ve = Add (v, eps)
            s = Sqrt (ve)
            y = Div (x, s)
        }""",
        fits=0,
        opset=23,
    ),
    RewriteCase("no root", layer("y = Neg (n)", core=CORE.replace("Sqrt", "Abs")), 0, opset=23),
)
