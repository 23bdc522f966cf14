"""Sequences of tensors, which refer to them, optional values, and images in files."""

from __future__ import annotations

import msgspec

from trtprof.base.records import Op
from trtprof.cost import Cost, Moved, cost
from trtprof.cost._shapes import given, need, out, shape, size, view, work


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


@cost("Optional", "OptionalGetElement")
def wrap(op: Op) -> Cost:
    """No traffic: the value is the same with and without the wrapper."""
    return view(op) if given(op, 0) is not None else Cost(note="an empty optional: moves nothing")


@cost("OptionalHasElement")
def has_element(op: Op) -> Cost:
    """Only whether there is a value is looked at."""
    return work(op, read={0: 0}, note="reads no values of its input")


@cost("ImageDecoder")
def image_decoder(op: Op) -> Cost:
    """Reads the stream, and writes the pixels [height, width, channels] where their number is known."""
    stream, pixels = need(op, 0), out(op)
    notes = ["the arithmetic of a decoder depends on the format of the stream: not counted"]
    writes = []
    if pixels.elements is None:
        notes.append("the size of the image is in the stream: pixels not counted")
    else:
        writes.append(Moved(pixels, pixels.elements))
    return Cost(reads=(Moved(stream, size(stream)),), writes=tuple(writes), bound="lower", note="; ".join(notes))
