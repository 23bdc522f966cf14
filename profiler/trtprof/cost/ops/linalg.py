"""Determinant, inverse, distances, alignment and Fourier transforms."""

from __future__ import annotations

import math

import msgspec

from trtprof.base.records import Op
from trtprof.cost import Cost, CostError, UnknownShapeError, cost
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import MS, constant, given, integer, need, out, shape, size, string, work


@cost("Det")
def det(op: Op) -> Cost:
    """LU elimination: n(n-1)/2 divides and n(n-1)(2n-1)/6 multiply-subtracts, then n - 1 multiplies.

    Pivot search is not counted. Source: Golub and Van Loan, Matrix Computations, section 3.2.
    """
    dims = shape(need(op, 0))
    n = dims[-1]
    each = n * (n - 1) // 2 + n * (n - 1) * (2 * n - 1) // 3 + max(n - 1, 0)
    return work(op, vector=math.prod(dims[:-2]) * each, note="counted as LU elimination")


@cost("Inverse", domain=MS)
def inverse(op: Op) -> Cost:
    """2 n^3, the leading term of elimination and the solution for n unit vectors."""
    dims = shape(need(op, 0))
    return work(op, vector=math.prod(dims[:-2]) * 2 * dims[-1] ** 3, note="2 n^3, its leading term")


_DISTANCES = {"euclidean": {"sqrt": 1}, "sqeuclidean": {}, "cityblock": {}, "chebyshev": {}}


@cost("CDist", domain=MS)
def pairwise_distances(op: Op) -> Cost:
    """Distances of the rows of A [m, n] and B [k, n], 3 n - 1 FLOP each, and a root where Euclidean.

    A difference, its square or absolute value, and their sum or maximum.

    Raises:
        CostError: The metric is another.
    """
    metric = string(op, "metric", "sqeuclidean")
    if metric not in _DISTANCES:
        raise CostError(f"CDist with metric {metric!r} has no formula here")
    n = shape(need(op, 0))[1]
    return work(op, Recipe(max(3 * n - 1, 0), _DISTANCES[metric]).times(size(out(op))))


@cost("DynamicTimeWarping", domain=MS)
def dynamic_time_warping(op: Op) -> Cost:
    """The least of three predecessors and an add per cell of the costs [m, n]; the path has less than m + n steps."""
    *_, m, n = shape(need(op, 0))
    if out(op).elements is not None:
        return work(op, vector=3 * m * n)
    longest = msgspec.structs.replace(out(op), shape=(2, max(m + n - 1, 0)))
    return work(
        msgspec.structs.replace(op, outputs=(longest,)),
        vector=3 * m * n,
        bound="upper",
        note="the longest path counted as written",
    )


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
    if axis is not None:
        return _dft(op, axis[0])
    possible = [_dft(op, index) for index in range(max(len(shape(need(op, 0))) - 1, 1))]
    most = max(possible, key=lambda found: found.arithmetic.vector)
    return most._replace(bound="upper", note=f"{most.note}; axis unknown: the one that takes most")


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

    One-sided, n points give n // 2 + 1 bins: where ``frame_length`` is not known, n is the larger of two.

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
        n = max(2 * bins - 1, 0)
    guessed = window is None and length is None and bool(integer(op, "onesided", 1))
    real = len(signal) < 3 or signal[2] == 1
    windowing = n * (1 if real else 2) if window is not None else 0
    return work(
        op,
        vector=batch * frames * (fft_flops(n, real) + windowing),
        bound="upper" if guessed else "exact",
        note=_NOTE + ("; frame_length unknown: the larger that gives so many bins" if guessed else ""),
    )


@cost("Rfft", "Irfft", domain=MS)
def rfft(op: Op) -> Cost:
    """Real transforms over the last ``signal_ndim`` dimensions, n points together; X or Y is the real side."""
    signal = shape(need(op, 0) if op.op_type == "Rfft" else out(op))
    ndim = integer(op, "signal_ndim", 1)
    n = math.prod(signal[len(signal) - ndim :])
    return work(op, vector=math.prod(signal) // n * fft_flops(n, real=True) if n else 0, note=_NOTE)


@cost("MelWeightMatrix")
def mel_weight_matrix(op: Op) -> Cost:
    """Edges of the bands from the mel scale to bins, then triangles of which at most two meet in a row.

    Per edge, two more than bands: i * step + low, 700 * (10 ^ (m / 2595) - 1), times the length, over
    the rate, rounded: 8 FLOP and a power. Per value within a triangle a subtract and a divide. Output
    [spectrogram bins, bands].
    """
    rows, bands = shape(out(op))
    edges = Recipe(8, {"pow": 1}).times(bands + 2)
    return work(op, edges, vector=4 * rows, bound="upper", note="every row counted as in two triangles")
