"""Sequences of tensors: a sequence refers to its tensors, which move where they are split or joined."""

from __future__ import annotations

import msgspec

from trtprof.base.records import Op
from trtprof.cost import Cost, Moved, cost
from trtprof.cost._shapes import need, out, shape, size, work


@cost("SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt")
def refer(_op: Op) -> Cost:
    """No traffic: a sequence takes up, hands on and gives out its tensors by reference.

    Where a runtime copies instead, the copy is time lost. Positions are not counted, as with a view.
    """
    return Cost(note="a sequence refers to its tensors: moves nothing")


@cost("SequenceEmpty")
def empty(_op: Op) -> Cost:
    """Nothing: there is no tensor yet."""
    return Cost(note="an empty sequence: moves nothing")


@cost("SequenceLength")
def length(op: Op) -> Cost:
    """Only the number of tensors is looked at."""
    return work(op, read={0: 0}, note="reads no values of its input")


@cost("ConcatFromSequence")
def concat(op: Op) -> Cost:
    """As Concat: what the tensors of the sequence hold together is the output, read and written once."""
    y = out(op)
    tensors = msgspec.structs.replace(need(op, 0), dtype=y.dtype)
    return Cost(reads=(Moved(tensors, size(y)),), writes=(Moved(y, size(y)),))


@cost("SplitToSequence")
def split(op: Op) -> Cost:
    """As Split: the input read once, and written as tensors that are as large together. Inputs input, split."""
    x = need(op, 0)
    parts = msgspec.structs.replace(out(op), dtype=x.dtype, shape=shape(x), kind="tensor")
    return work(msgspec.structs.replace(op, outputs=(parts,)))
