"""What good library kernels reach, learned from measurements by others.

An expectation is a median with a band, the tenth part of kernels under it and the tenth above: of kernels of libraries
(cuBLAS, cuDNN, CUTLASS, FlashAttention and the like) that compute the same on the same board. It is made by
gradient-boosted trees over the terms of the roofline (`features`), which `scripts/expected/train.py` grows from three
public collections of measurements; ``data/model.json`` names them, with commit and licence, and counts what was left
out.

It is refused where nothing like it was measured: for a kind of work, a dtype or an architecture without data. Where
only the GPU is not among those measured, or a shape lies outside of theirs, it is made with the band that such cases
had when they were held out, and says so.
"""

from __future__ import annotations

from trtprof.expected.correction import Correction
from trtprof.expected.coverage import measured_on
from trtprof.expected.measured import NONE, Measured, TimedWork, learn, measured_text, read_measured, work_at
from trtprof.expected.model import document, expect, nearest
from trtprof.expected.sweep import HeldOut, held_out, works_to_time

__all__ = [
    "NONE",
    "Correction",
    "HeldOut",
    "Measured",
    "TimedWork",
    "document",
    "expect",
    "held_out",
    "learn",
    "measured_on",
    "measured_text",
    "nearest",
    "read_measured",
    "work_at",
    "works_to_time",
]
