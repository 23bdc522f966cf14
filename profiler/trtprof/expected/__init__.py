"""What good library kernels reach: a median with a band from the tenth to the ninetieth percentile.

Gradient-boosted trees over the terms of the roofline (`features`), which `scripts/expected/train.py` grows from three
public collections of measurements; ``data/model.json`` names them, with commit and licence. Refused for a kind of
work, a dtype or an architecture without data; with a wider band where only the GPU or the shape is new.
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
