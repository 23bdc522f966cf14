"""Images in files."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, Moved, cost
from trtprof.cost._shapes import need, out, size


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
