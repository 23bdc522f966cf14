"""Ops that give the same values another shape or name: they move nothing."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._shapes import MS, constant, given, integer, made, out, size, view, work


@cost("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "BitCast")
@cost("ExpandDims", domain=MS)
def same_bytes(op: Op) -> Cost:
    """No traffic: a runtime hands on the buffer. Where it copies instead, the copy is time lost."""
    return view(op)


def _dropout(op: Op, training: bool | None) -> Cost:
    """At inference a view, whose mask nobody should need; in training a multiply per element."""
    if training:
        return work(op, vector=size(out(op)), bound="lower", note="the random numbers are not counted")
    if training is None:
        return work(op, vector=size(out(op)), bound="upper", note="training_mode unknown: counted as training")
    if made(op, 1) is not None:
        return view(op)._replace(
            bound="lower", note="a view: moves nothing; a mask of ones, if it is used, is not counted"
        )
    return view(op)


@cost("Dropout", last=6)
def dropout_is_test(op: Op) -> Cost:
    """Training unless ``is_test``."""
    return _dropout(op, training=not integer(op, "is_test", 0))


@cost("Dropout", first=7, last=11)
def dropout_inference(op: Op) -> Cost:
    """Inference only."""
    return _dropout(op, training=False)


@cost("BiasDropout", "BitmaskBiasDropout", domain=MS)
def bias_dropout(op: Op) -> Cost:
    """Dropout of the data and its bias, and the residual added; in training a multiply per element more.

    Inputs data, bias, residual, ratio, training_mode.
    """
    y = size(out(op))
    added = y * (1 + (given(op, 2) is not None))
    mode = constant(op, 4)
    if given(op, 4) is None or mode == (0,):
        return work(op, vector=added)
    if mode is None:
        return work(
            op,
            vector=added + y,
            bound="mixed",
            note="training_mode unknown: counted as training, without the random numbers",
        )
    return work(op, vector=added + y, bound="lower", note="the random numbers are not counted")


@cost("Dropout", first=12)
@cost("BitmaskDropout", domain=MS)
def dropout(op: Op) -> Cost:
    """Training when the input ``training_mode`` is true."""
    if given(op, 2) is None:
        return _dropout(op, training=False)
    mode = constant(op, 2)
    return _dropout(op, training=None if mode is None else bool(mode[0]))
