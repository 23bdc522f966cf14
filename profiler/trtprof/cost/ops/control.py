"""Control flow, whose bodies are nodes of their own, and values from attributes, shapes or a random generator."""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base.records import Op, WorkBound
from trtprof.cost import Cost, Moved, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, need, out, size, work

MOST_TRIPS = 2**31 - 1
"""A Loop that may make more trips has no trip count."""


class Trips(NamedTuple):
    """How often the body of an op runs each time that the op does."""

    repeats: int
    bound: WorkBound = "exact"
    note: str = ""


def trips(op: Op) -> Trips:
    """How often the bodies of an op run; one that is not known counts once.

    A Scan makes as many trips as its scan inputs are long; a Loop as many as its trip count says,
    where that is a constant and meant. The modifiers of FlexAttention run once on all scores.
    """
    if op.op_type == "If":
        condition = op.inputs[0] if op.inputs else None
        if condition is not None and condition.value:
            return Trips(1)
        return Trips(1, "upper", "of each If the branch with more work is counted")
    if op.op_type == "FlexAttention":
        return Trips(1)
    if op.op_type == "Scan":
        # A plan that came without its model is priced without onnx, whose import takes longer than that.
        from trtprof.base.onnx_graph import scan_length

        length = scan_length(op)
        if length is not None:
            return Trips(length)
    if op.op_type == "Loop":
        limit = op.inputs[0] if op.inputs else None
        # Exporters write the largest integer where a condition alone ends the loop.
        if limit is not None and limit.value and limit.value[0] <= MOST_TRIPS:
            if len(op.inputs) < 2 or op.inputs[1] is None:
                return Trips(max(limit.value[0], 0))
            return Trips(max(limit.value[0], 0), "upper", "each Loop is counted as long as its trip count says")
    return Trips(1, "lower", f"the body of a {op.op_type} whose trips are not known is counted once")


@cost("If")
def if_(op: Op) -> Cost:
    """Reads its condition; the branch that is taken is nodes of its own."""
    return Cost(reads=(Moved(need(op, 0), 1),), note="no arithmetic of its own: its branches are nodes of their own")


@cost("Loop", "Scan", "SequenceMap")
def loop(_op: Op) -> Cost:
    """No arithmetic; a body can read its slice of a scan input and write that of a scan output in place."""
    return Cost(note="no arithmetic of its own: its body is nodes of its own, which can work on slices in place")


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
