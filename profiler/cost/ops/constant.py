"""Values that come from attributes, shapes or a random generator rather than from data."""

from __future__ import annotations

from profiler.cost import cost
from profiler.cost._shapes import MS, out, size, work
from profiler.records import Op, Work


@cost("Constant")
def constant(_op: Op) -> Work:
    """Nothing at run time: the value is part of the model."""
    return Work(note="part of the model: nothing is done at run time")


@cost("ConstantOfShape")
def constant_of_shape(op: Op) -> Work:
    """Fills the output; the input is its shape."""
    return work(op)


@cost("Shape", "Size", "EyeLike")
def metadata(op: Op) -> Work:
    """Only the shape of the input is looked at."""
    return work(op, read={0: 0}, note="reads no values of its input")


@cost("Range")
@cost("Range", domain=MS)
def range_(op: Op) -> Work:
    """Values start + i * delta: a multiply and an add per value."""
    return work(op, vector=2 * size(out(op)))


@cost("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random(op: Op) -> Work:
    """Fills the output; a Like form reads only the shape of its input."""
    return work(op, read={0: 0}, bound="lower", note="the arithmetic of the generator is not specified")


@cost("Bernoulli")
def bernoulli(op: Op) -> Work:
    """A compare per element."""
    return work(op, vector=size(out(op)), bound="lower", note="the arithmetic of the generator is not specified")


@cost("HannWindow", "HammingWindow")
def cosine_window(op: Op) -> Work:
    """Values a - b * cos(2 pi n / N): multiply, divide, multiply, subtract and a cosine per value."""
    return work(op, vector=4 * size(out(op)), special=size(out(op)))


@cost("BlackmanWindow")
def blackman_window(op: Op) -> Work:
    """Values a - b * cos(2 pi n / N) + c * cos(4 pi n / N): twice a cosine window."""
    return work(op, vector=8 * size(out(op)), special=2 * size(out(op)))


@cost("OneHot")
def one_hot(op: Op) -> Work:
    """Fills the output and sets one value per index; nothing is computed."""
    return work(op)
