"""Cases of `trtprof.rewrite.concat_of_slices`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase

PLACES = {f"p{place}".replace("-", "m"): np.asarray([place], np.int64) for place in (0, 1, 2, 3, 4, -1, -2, 2**63 - 1)}
END = f"p{2**63 - 1}"
"""The largest place, with which PyTorch means the end."""


def cut(*pieces: str, axis: int = 1) -> str:
    """Slices of x from where to where, joined along an axis."""
    lines = [
        f"s{number} = Slice (x, {piece.split()[0]}, {piece.split()[1]}, axis)" for number, piece in enumerate(pieces)
    ]
    names = ", ".join(f"s{number}" for number in range(len(pieces)))
    return "\n".join([f"axis = Constant <value_ints = [{axis}]> ()", *lines, f"c = Concat <axis = {axis}> ({names})"])


KNOWN = "g (float[2,4] x) => (float[2,4] y)"
OPEN = "g (float[2,N] x) => (float[2,M] y)"

CASES = (
    RewriteCase("two halves", f"{KNOWN} {{ {cut('p0 p2', f'p2 {END}')}\n y = Neg (c) }}", 1, PLACES),
    RewriteCase("up to the length itself", f"{KNOWN} {{ {cut('p0 p2', 'p2 p4')}\n y = Neg (c) }}", 1, PLACES, 13),
    RewriteCase(
        "counted from the end, in a length that is open",
        f"{OPEN} {{ {cut('p0 pm2', f'pm2 {END}')}\n y = Neg (c) }}",
        1,
        PLACES,
        dims={"N": 1, "M": 1},
    ),
    RewriteCase(
        "three in a length that is open",
        f"{OPEN} {{ {cut('p0 p2', 'p2 p3', f'p3 {END}')}\n y = Abs (c) }}",
        1,
        PLACES,
        dims={"N": 1, "M": 1},
    ),
    RewriteCase("counted from both sides", f"{KNOWN} {{ {cut('p0 pm1', 'p3 p4')}\n y = Neg (c) }}", 1, PLACES),
    RewriteCase(
        "all of a Split, and it is an output",
        "g (float[2,6] x) => (float[2,6] y) { a, b, c = Split <axis = -1> (x)\n y = Concat <axis = 1> (a, b, c) }",
    ),
    RewriteCase(
        "a Split of which one part is read again, joined with another tensor",
        """g (float[6,2] x, float[1,2] z) => (float[7,2] y, float[3,2] n) {
            a, b = Split <axis = 0, num_outputs = 2> (x)
            n = Neg (a)
            y = Concat <axis = 0> (z, a, b)
        }""",
        opset=18,
    ),
    RewriteCase("of one", "g (int32[2,6] x) => (int32[2,6] y) { a = Concat <axis = 1> (x)\n y = Abs (a) }"),
    RewriteCase("of one, which is an output", "g (float[2,6] x) => (float[2,6] y) { y = Concat <axis = 1> (x) }"),
    RewriteCase(
        "before places were inputs",
        "g (float[2,4] x) => (float[2,4] y) { a = Slice <starts = [0], ends = [1], "
        "axes = [1]> (x)\n b = Slice <starts = [1], ends = [9], axes = [1]> (x)\n c = Concat <axis = 1> (a, b)\n "
        "y = Neg (c) }",
        opset=9,
    ),
    RewriteCase("in another order", f"{KNOWN} {{ {cut(f'p2 {END}', 'p0 p2')}\n y = Neg (c) }}", 0, PLACES),
    RewriteCase(
        "they overlap where the tensor is short",
        f"{OPEN} {{ {cut('p0 p3', 'p3 pm1', f'pm1 {END}')}\n y = Neg (c) }}",
        0,
        PLACES,
        dims={"N": 3, "M": 4},
    ),
    RewriteCase(
        "along another axis",
        "g (float[4,4] x) => (float[2,8] y) "
        f"{{ {cut('p0 p2', 'p2 p4', axis=0).replace('Concat <axis = 0>', 'Concat <axis = 1>')}\n y = Neg (c) }}",
        0,
        PLACES,
    ),
    RewriteCase(
        "parts of a Split in another order",
        "g (float[2,6] x) => (float[2,6] y) { a, b, c = Split <axis = 1> (x)\n y = Concat <axis = 1> (a, c, b) }",
        fits=0,
    ),
)
