"""Cases of `trtprof.rewrite.convtranspose_as_conv`."""

from __future__ import annotations

from tests.fakes.rewrites import RewriteCase, random

_BIAS = {"b": random(9, 5)}


def _image(name: str, size: int, step: int, pads: str, more: str, out: str, *, fits: int = 1) -> RewriteCase:
    return RewriteCase(
        name,
        f"g (float[N,3,4,6] x) => (float[N,5,{out}] y) {{"
        f" y = ConvTranspose <strides = [{step}, {step}], pads = {pads}, output_padding = {more}> (x, w, b) }}",
        fits=fits,
        weights={"w": random(size, 3, 5, size, size)} | _BIAS,
        dims={"N": 2},
    )


CASES = (
    _image("a window of one step", 2, 2, "[0, 0, 0, 0]", "[0, 0]", "8,12"),
    _image("a window of two steps, padded", 4, 2, "[1, 1, 1, 1]", "[0, 0]", "8,12"),
    _image("three points, output padding", 3, 2, "[1, 1, 1, 1]", "[1, 1]", "8,12"),
    _image("five points, padded unlike on each side", 5, 2, "[2, 0, 1, 3]", "[1, 0]", "9,12"),
    _image("steps of three, a window of seven", 7, 3, "[3, 1, 2, 4]", "[0, 2]", "11,19"),
    _image("a window smaller than a step", 2, 3, "[0, 1, 0, 0]", "[1, 0]", "12,16"),
    _image("padding of a whole step", 4, 2, "[2, 3, 2, 3]", "[0, 1]", "6,9"),
    RewriteCase(
        "images of any size, of an old model",
        """g (float[N,3,H,W] x) => (float[N,5,A,B] y) {
            y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], kernel_shape = [3, 3]> (x, w)
        }""",
        weights={"w": random(0, 3, 5, 3, 3)},
        opset=9,
        dims={"N": 2, "H": 4, "W": 6, "A": 7, "B": 11},
    ),
    RewriteCase(
        "along one axis, any batch, a result that is read",
        """g (float[N,3,7] x) => (float[N,5,28] y, float[N,5,28] z) {
            y = ConvTranspose <strides = [4], pads = [2, 2]> (x, w, b) z = Neg (y)
        }""",
        weights={"w": random(0, 3, 5, 8)} | _BIAS,
        dims={"N": 2},
    ),
    RewriteCase(
        "along one axis, any length",
        "g (float[1,3,L] x) => (float[1,5,M] y) { y = ConvTranspose <strides = [4]> (x, w) }",
        weights={"w": random(0, 3, 5, 4)},
        dims={"L": 7, "M": 28},
    ),
    _image("steps of one", 3, 1, "[1, 1, 1, 1]", "[0, 0]", "4,6", fits=0),
    _image("padding that the window does not cover", 2, 2, "[2, 2, 0, 0]", "[0, 0]", "6,10", fits=0),
    RewriteCase(
        "any batch and any length",
        "g (float[N,3,L] x) => (float[N,5,M] y) { y = ConvTranspose <strides = [4]> (x, w) }",
        fits=0,
        weights={"w": random(0, 3, 5, 4)},
        dims={"N": 2, "L": 7, "M": 28},
    ),
    RewriteCase(
        "with groups",
        "g (float[2,4,4,6] x) => (float[2,4,8,12] y) { y = ConvTranspose <strides = [2, 2], group = 2> (x, w) }",
        fits=0,
        weights={"w": random(0, 4, 2, 2, 2)},
    ),
    RewriteCase(
        "dilated",
        "g (float[2,3,4,6] x) => (float[2,5,9,13] y) {"
        " y = ConvTranspose <strides = [2, 2], dilations = [2, 2]> (x, w) }",
        fits=0,
        weights={"w": random(0, 3, 5, 2, 2)},
    ),
    RewriteCase(
        "steps that differ",
        "g (float[2,3,4,6] x) => (float[2,5,8,18] y) { y = ConvTranspose <strides = [2, 3]> (x, w) }",
        fits=0,
        weights={"w": random(0, 3, 5, 2, 3)},
    ),
    RewriteCase(
        "an output shape that is given",
        "g (float[2,3,4,6] x) => (float[2,5,7,12] y) {"
        " y = ConvTranspose <strides = [2, 2], output_shape = [7, 12]> (x, w) }",
        fits=0,
        weights={"w": random(0, 3, 5, 2, 2)},
    ),
)
