"""Fourier transforms."""

from __future__ import annotations

import math

from profiler.cost import Cost, UnknownShapeError, cost
from profiler.cost._shapes import constant, given, integer, need, out, shape, size, work
from profiler.records import Op

_NOTE = "5 n log2 n per complex transform, half of it per real one"


def fft_flops(n: int, real: bool) -> int:
    """5 n log2 n, the customary count of a complex transform (radix-2 Cooley-Tukey), half for a real one.

    Rounded to the nearest integer when n is not a power of two.
    """
    return round(5 * n * math.log2(n) * (0.5 if real else 1.0)) if n > 1 else 0


@cost("DFT", last=19)
def dft_attribute(op: Op) -> Cost:
    """Transforms along the ``axis`` attribute."""
    return _dft(op, integer(op, "axis", 1))


@cost("DFT", first=20)
def dft_input(op: Op) -> Cost:
    """Transforms along the axis of input 2, by default the last of the signal."""
    axis = (-2,) if given(op, 2) is None else constant(op, 2)
    if axis is None:
        raise UnknownShapeError("the axis of DFT is not a constant")
    return _dft(op, axis[0])


def _dft(op: Op, axis: int) -> Cost:
    """Inputs [..., signal, ..., 1 or 2], dft_length."""
    x, y = shape(need(op, 0)), shape(out(op))
    axis %= len(x)
    inverse_real = y[-1] == 1
    onesided = bool(integer(op, "onesided", 0))
    length = constant(op, 1)
    if length is not None:
        n = length[0]
    elif given(op, 1) is None and not (onesided and inverse_real):
        n = x[axis]
    elif onesided and not inverse_real:
        raise UnknownShapeError("the dft_length of DFT is not a constant")
    else:
        n = y[axis]
    transforms = math.prod(x[:-1]) // x[axis] if x[axis] else 0
    return work(op, vector=transforms * fft_flops(n, real=x[-1] == 1 or inverse_real), note=_NOTE)


@cost("STFT")
def stft(op: Op) -> Cost:
    """A transform per frame, and a multiply per value for the window.

    Inputs signal [batch, length, 1 or 2], frame_step, window, frame_length; output
    [batch, frames, bins, 2].
    """
    signal, (batch, frames, bins, _) = shape(need(op, 0)), shape(out(op))
    window, length = given(op, 2), constant(op, 3)
    if window is not None:
        n = size(window)
    elif length is not None:
        n = length[0]
    elif not integer(op, "onesided", 1):
        n = bins
    else:
        raise UnknownShapeError("the frame_length of STFT is not a constant")
    real = len(signal) < 3 or signal[2] == 1
    windowing = n * (1 if real else 2) if window is not None else 0
    return work(op, vector=batch * frames * (fft_flops(n, real) + windowing), note=_NOTE)
