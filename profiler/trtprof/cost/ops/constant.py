"""Values that come from attributes, shapes or a random generator rather than from data."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, out, size, work


@cost("Constant")
def constant(_op: Op) -> Cost:
    """Nothing at run time: the value is part of the model."""
    return Cost(note="part of the model: nothing is done at run time")


@cost("ConstantOfShape")
def constant_of_shape(op: Op) -> Cost:
    """Fills the output; the input is its shape."""
    return work(op)


@cost("Shape", "Size", "EyeLike")
def metadata(op: Op) -> Cost:
    """Only the shape of the input is looked at."""
    return work(op, read={0: 0}, note="reads no values of its input")


@cost("Range")
@cost("Range", domain=MS)
def range_(op: Op) -> Cost:
    """Values start + i * delta: a multiply and an add per value."""
    return work(op, vector=2 * size(out(op)))


@cost("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random(op: Op) -> Cost:
    """Fills the output; a Like form reads only the shape of its input."""
    return work(op, read={0: 0}, bound="lower", note="the arithmetic of the generator is not specified")


@cost("Bernoulli")
def bernoulli(op: Op) -> Cost:
    """A compare per element."""
    return work(op, vector=size(out(op)), bound="lower", note="the arithmetic of the generator is not specified")


@cost("HannWindow", "HammingWindow")
def cosine_window(op: Op) -> Cost:
    """Values a - b * cos(2 pi n / N): multiply, divide, multiply, subtract and a cosine per value."""
    return work(op, Recipe(4, {"cos": 1}).times(size(out(op))))


@cost("BlackmanWindow")
def blackman_window(op: Op) -> Cost:
    """Values a - b * cos(2 pi n / N) + c * cos(4 pi n / N): twice a cosine window."""
    return work(op, Recipe(8, {"cos": 2}).times(size(out(op))))


@cost("OneHot")
def one_hot(op: Op) -> Cost:
    """Fills the output and sets one value per index; nothing is computed."""
    return work(op)
