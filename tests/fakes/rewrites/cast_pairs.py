"""Cases of `trtprof.rewrite.cast_pairs`: type 1 is float32, 6 int32, 7 int64, 9 bool, 10 float16, 11 float64."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase


def pair(name: str, first: str, between: int, last: str, number: int, fits: int = 1, opset: int = 17) -> RewriteCase:
    """Two Casts in a row."""
    text = f"""g ({first}[2,N] x) => ({last}[2,N] y, {last}[2,N] z) {{
      a = Identity (x)
      b = Cast <to = {between}> (a)
      c = Cast <to = {number}> (b)
      y = Identity (c)
      z = Identity (c)
    }}"""
    return RewriteCase(name, text, fits, opset=opset, dims={"N": 7}, low=-100, high=100)


CASES = (
    pair("float16 made wider and narrow again", "float16", 1, "float16", 10),
    pair("integers made wider and narrow again", "int32", 7, "int32", 6),
    pair("integers made wider and another type", "int32", 7, "float", 1, opset=9),
    pair("two steps to a wider float", "float16", 1, "double", 11),
    pair("a truth as a number and back", "bool", 1, "bool", 9),
    pair("the type that is there", "float", 1, "float", 1, fits=2),
    pair("whole numbers rounded at another place", "int32", 11, "float16", 10, fits=0),
    pair("values that are lost", "float", 10, "float", 1, fits=0),
    pair("whole numbers that a float does not hold", "int32", 1, "int32", 6, fits=0),
    pair("whole numbers that are cut", "int64", 6, "int64", 7, fits=0),
    pair("a float that may be no whole number", "float16", 1, "int32", 6, fits=0),
    pair("digits that the exponents are paid with", "float16", 16, "float16", 10, fits=0),
    RewriteCase(
        "a wider value that is read too",
        """g (int32[4] x) => (int64[4] y, int32[4] z) {
          y = Cast <to = 7> (x)
          a = Cast <to = 6> (y)
          z = Add (a, a)
        }""",
    ),
)
