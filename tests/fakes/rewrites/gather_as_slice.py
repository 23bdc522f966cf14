"""Cases of `trtprof.rewrite.gather_as_slice`."""

from __future__ import annotations

import numpy as np

from tests.fakes.rewrites import RewriteCase


def gather(
    name: str, places: list[int] | int, dims: str, axis: int, given: dict[str, int], fits: int = 1, opset: int = 17
) -> RewriteCase:
    """A Gather of constant places."""
    sizes = [str(size) for size in ([] if isinstance(places, int) else [len(places)])]
    kept = dims.split(",")
    out = ",".join([*kept[:axis], *sizes, *kept[axis + 1 :]])
    text = f"g (float[{dims}] x) => (float[{out}] y) {{ y = Gather <axis = {axis}> (x, i) }}"
    return RewriteCase(name, text, fits, weights={"i": np.asarray(places, np.int64)}, dims=given, opset=opset)


CASES = (
    gather("neighbours", [1, 2, 3], "2,5,3", 1, {}),
    gather("neighbours in an old opset", [0, 1], "4,3", 0, {}, opset=9),
    gather("one, which stays a dimension", [2], "2,5", 1, {}, opset=13),
    gather("a number", 2, "N,5,3", 1, {"N": 2}),
    gather("a number in an old opset", -1, "N,5", 1, {"N": 2}, opset=9),
    gather("the last, of how many callers choose", -1, "N,4", 0, {"N": 3}),
    gather("the last ones", [-3, -2, -1], "2,N", 1, {"N": 3}),
    gather("every second", [0, 2, 4], "6,2", 0, {}),
    gather("backwards to the first", [3, 2, 1, 0], "4,2", 0, {}),
    gather("backwards to the first, of how many callers choose", [4, 2, 0], "N,2", 0, {"N": 5}),
    gather("backwards from the last, to the first", [-1, -2], "N,2", 0, {"N": 2}),
    gather("from both ends, of as many as are known", [1, -2, 3], "4,2", 0, {}),
    RewriteCase(
        "in a body, of what is around it",
        """g (float[4,3] x, bool c) => (float[3] y) {
          y = If (c) <
            then_branch = t () => (float[3] u) { a = Gather (x, i) \n u = Neg (a) },
            else_branch = e () => (float[3] v) { v = Gather (x, i) }
          >
        }""",
        fits=2,
        weights={"i": np.array(1, np.int32)},
    ),
    gather("from both ends, of how many callers choose", [-1, 0], "N,2", 0, {"N": 3}, fits=0),
    gather("no single step", [0, 1, 3], "4,2", 0, {}, fits=0),
    gather("one twice", [1, 1], "4,2", 0, {}, fits=0),
    gather("every second, before steps", [0, 2], "4,2", 0, {}, fits=0, opset=9),
    RewriteCase(
        "a table of places",
        "g (float[4,3] x) => (float[2,2,3] y) { y = Gather (x, i) }",
        fits=0,
        weights={"i": np.array([[0, 1], [2, 3]])},
    ),
    RewriteCase(
        "places that callers may replace",
        "g (float[4,3] x, int64[2] i) => (float[2,3] y) { y = Gather (x, i) }",
        fits=0,
        weights={"i": np.array([0, 1])},
    ),
    RewriteCase(
        "a number of a shape",
        "g (float[N,3] x) => (int64 y) { s = Shape (x) \n y = Gather (s, i) }",
        fits=0,
        weights={"i": np.array(0)},
        dims={"N": 2},
    ),
)
