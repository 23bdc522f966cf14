"""Cases of `trtprof.rewrite.gelu_fused`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase

ERF = """
    root = Constant <value = float {1.4142135}> ()
    one = Constant <value = float {1.0}> ()
    half = Constant <value = float {0.5}> ()
    s = Div (x, root)
    e = Erf (s)
    p = Add (e, one)
"""
TANH = """
    three = Constant <value = float {3.0}> ()
    a = Constant <value = float {0.044715}> ()
    k = Constant <value = float {0.7978845608}> ()
    one = Constant <value = float {1.0}> ()
    half = Constant <value = float {0.5}> ()
    c = Pow (x, three)
    ac = Mul (c, a)
    i = Add (x, ac)
    ki = Mul (i, k)
    t = Tanh (ki)
    p = Add (one, t)
"""


def erf(rest: str, interface: str = "(float[2,3,4] x) => (float[2,3,4] y)") -> str:
    return f"g {interface} {{ {ERF} {rest} }}"


CASES = (
    RewriteCase("as PyTorch writes it", erf("m = Mul (x, p)\n y = Mul (m, half)"), opset=20),
    RewriteCase("half of x first", erf("h = Mul (x, half)\n y = Mul (h, p)"), opset=21),
    RewriteCase(
        "half of the other factor first",
        erf("h = Mul (half, p)\n y = Mul (h, x)", "(float[N,3] x) => (float[N,3] y)"),
        dims={"N": 2},
    ),
    RewriteCase("divided by two", erf("two = Constant <value = float {2.0}> ()\n m = Mul (x, p)\n y = Div (m, two)")),
    RewriteCase("an opset that can be raised", erf("m = Mul (x, p)\n y = Mul (m, half)"), opset=13),
    RewriteCase(
        "times the inverse, behind a product",
        """g (float[2,3] a, float[3,4] b) => (float[2,4] y) {
            r = Constant <value = float[1] {0.70710677}> ()
            one = Constant <value = float[1] {1.0}> ()
            half = Constant <value = float[1] {0.5}> ()
            x = MatMul (a, b)
            s = Mul (r, x)
            e = Erf (s)
            p = Add (one, e)
            h = Mul (x, half)
            m = Mul (h, p)
            y = Relu (m)
        }""",
    ),
    RewriteCase(
        "two of them",
        erf(
            "m = Mul (x, p)\n z = Mul (m, half)\n s2 = Div (z, root)\n e2 = Erf (s2)\n "
            "p2 = Add (e2, one)\n m2 = Mul (z, p2)\n y = Mul (m2, half)"
        ),
        fits=2,
    ),
    RewriteCase(
        "by tanh",
        f"g (float[2,3,4] x) => (float[2,3,4] y) {{ {TANH} h = Mul (x, half)\n y = Mul (h, p) }}",
        opset=20,
    ),
    RewriteCase(
        "by tanh, as x times a factor",
        """g (float[4,5] x) => (float[4,5] y) {
            a = Constant <value = float {0.044715}> ()
            k = Constant <value = float {0.79788458}> ()
            one = Constant <value = float {1.0}> ()
            half = Constant <value = float {0.5}> ()
            q = Mul (x, x)
            aq = Mul (a, q)
            i = Add (one, aq)
            xi = Mul (x, i)
            ki = Mul (xi, k)
            t = Tanh (ki)
            p = Add (t, one)
            m = Mul (x, p)
            y = Mul (half, m)
        }""",
    ),
    RewriteCase("no half", erf("y = Mul (x, p)"), fits=0, opset=20),
    RewriteCase(
        "another root",
        """g (float[4,5] x) => (float[4,5] y) {
            r = Constant <value = float {1.4141}> ()
            one = Constant <value = float {1.0}> ()
            half = Constant <value = float {0.5}> ()
            s = Div (x, r)
            e = Erf (s)
            p = Add (e, one)
            m = Mul (x, p)
            y = Mul (m, half)
        }""",
        fits=0,
        opset=20,
    ),
    RewriteCase(
        "times another x",
        erf("m = Mul (z, p)\n y = Mul (m, half)", "(float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y)"),
        fits=0,
        opset=20,
    ),
    RewriteCase(
        "an inner value is an output",
        erf("m = Mul (x, p)\n y = Mul (m, half)", "(float[2,3] x) => (float[2,3] y, float[2,3] e)"),
        fits=0,
        opset=20,
    ),
    RewriteCase(
        "a constant that adds a dimension",
        erf(
            "h = Constant <value = float[1,1,1] {0.5}> ()\n m = Mul (x, p)\n y = Mul (m, h)",
            "(float[3,4] x) => (float[1,3,4] y)",
        ),
        fits=0,
        opset=20,
    ),
    RewriteCase(
        "an average that a newer opset takes otherwise",
        erf(
            "m = Mul (x, p)\n z = Mul (m, half)\n "
            "y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (z)",
            "(float[1,1,3,3] x) => (float[1,1,2,2] y)",
        ),
        fits=0,
    ),
    RewriteCase(
        "a Softmax in a branch, which a newer opset takes otherwise",
        erf(
            """m = Mul (x, p)
            z = Mul (m, half)
            y = If (c) <then_branch = one () => (float[2,3,4] t) { t = Softmax <axis = 1> (z) },
                        else_branch = other () => (float[2,3,4] u) { u = Neg (z) }>""",
            "(bool c, float[2,3,4] x) => (float[2,3,4] y)",
        ),
        fits=0,
        opset=11,
    ),
)
