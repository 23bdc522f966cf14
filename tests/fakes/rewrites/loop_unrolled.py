"""Cases of `trtprof.rewrite.loop_unrolled`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase, random

ROUNDS = {"n": np.array(3), "t": np.array(True)}
BODY = """body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u, float[2] o) {
  d = Identity (c)
  f = Cast <to = 1> (i)
  u = Add (s, f)
  o = Mul (u, x)
}"""
PLAIN = """body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) { d = Identity (c) \n u = Neg (s) }"""
SCAN = """body = b (float[2] s, float[2] e) => (float[2] u, float[2] o) { u = Add (s, e) \n o = Mul (u, s) }"""

CASES = (
    RewriteCase(
        "a Loop with a state and a list",
        f"g (float[2] x) => (float[2] y, float[3,2] l) {{ y, l = Loop (n, t, x) <{BODY}> }}",
        weights=ROUNDS,
    ),
    RewriteCase(
        "a Loop in an old opset, whose condition is left out, and a list that nobody reads",
        f"g (float[2] x) => (float[2] y) {{ z, l = Loop (n, , x) <{BODY}> \n y = Abs (z) }}",
        weights=ROUNDS,
        opset=11,
    ),
    RewriteCase(
        "a Loop whose state grows, and whose condition is a constant in its body",
        """g (float[N,2] x) => (float[M,2] y) {
          y = Loop (n, t, x) <body = b (int64 i, bool c, float[A,2] s) => (bool d, float[B,2] u) {
            d = Constant <value = bool {1}> ()
            a = Neg (s)
            u = Concat <axis = 0> (s, a)
          }>
        }""",
        weights=ROUNDS,
        dims={"N": 1, "M": 8},
    ),
    RewriteCase(
        "a Loop that passes a state on, with a weight of its own",
        """g (float[2] x, float[2] z) => (float[2] y, float[2] w, float[1,2] l) {
          y, w, l = Loop (n, t, x, z) <body = b (int64 i, bool c, float[2] s, float[2] k)
              => (bool c, float[2] u, float[2] k, float[2] o) <float[2] h = {0.5, 2.0}> {
            u = Mul (s, h)
            o = Sub (u, k)
          }>
        }""",
        weights={"n": np.array([1]), "t": np.array(True)},
    ),
    RewriteCase(
        "a Scan with a state, backwards along another axis",
        f"""g (float[2] x, float[2,4] e) => (float[2] y, float[2,4] l) {{
          y, l = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                       scan_output_axes = [1], scan_output_directions = [1], {SCAN}> (x, e)
        }}""",
    ),
    RewriteCase(
        "an If with one way, in which is another",
        """g (float[2] x, bool c) => (float[2] y, float[2] z) {
          y, z = If (t) <
            then_branch = t1 () => (float[2] u, float[2] u2) {
              a = Neg (x)
              u = If (c) <
                then_branch = t2 () => (float[2] v) { v = Exp (a) },
                else_branch = e2 () => (float[2] v2) { v2 = Sqrt (x) }
              >
              u2 = Add (a, w)
            },
            else_branch = e1 () => (float[2] r, float[2] r2) { r = Abs (x) \n r2 = Neg (x) }
          >
        }""",
        weights={"t": np.array(True), "w": random(0, 2)},
    ),
    RewriteCase(
        "as many rounds as callers choose",
        f"g (float[2] x, int64 n) => (float[2] y) {{ y = Loop (n, t, x) <{PLAIN}> }}",
        fits=0,
        weights=ROUNDS,
    ),
    RewriteCase(
        "more rounds than are copied",
        f"g (float[2] x) => (float[2] y) {{ y = Loop (n, t, x) <{PLAIN}> }}",
        fits=0,
        weights={"n": np.array(1000), "t": np.array(True)},
    ),
    RewriteCase(
        "a condition that depends on what is computed",
        """g (float[2] x) => (float[2] y) {
          y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) {
            u = Neg (s)
            m = ReduceMax <keepdims = 0> (u)
            d = Less (m, one)
          }>
        }""",
        fits=0,
        weights={**ROUNDS, "one": np.array(1, np.float32)},
    ),
    RewriteCase(
        "random numbers in each round",
        """g (float[2] x) => (float[2] y) {
          z = Loop (n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) {
            d = Identity (c)
            u = RandomNormalLike <seed = 1.0> (s)
          }>
          y = Sub (z, z)
        }""",
        fits=0,
        weights=ROUNDS,
    ),
    RewriteCase(
        "a Scan over a length that callers choose",
        f"""g (float[2] x, float[N,2] e) => (float[2] y, float[N,2] l) {{
          y, l = Scan <num_scan_inputs = 1, {SCAN}> (x, e)
        }}""",
        fits=0,
        dims={"N": 2},
    ),
)
