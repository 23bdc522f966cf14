"""Correct expected times for one device, from kernels that were timed on it.

Gaussian process regression (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2) over the
dimensions; the band is that of the leave-one-out errors (5.4.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base.records import Core

Array = npt.NDArray[np.float64]

SIZES = ("batch", "m", "n", "k", "window", "stride", "shared")
"""Dimensions of a `Core`."""

_LENGTH = 6.0
"""Doublings of the dimensions over which what is measured says something of its neighbours."""
_SMOOTH, _DTYPE, _KIND = 0.1, 0.02, 0.02
"""Variances of log(measured / expected) that depend on the dimensions, on the dtype, and on the kind alone."""
_OTHER = 0.5
"""How much of the first is the same for another dtype."""
_NOISE = 0.01
"""Variance of what no dimension tells."""
_FEW = 30
"""Rows from which on a device is known about as well as the model itself."""
_OUTLIER = 4.0
"""Medians of deviations from which on a row counts as if it were so far away and no farther."""


class Fitted(NamedTuple):
    """Rows of one class in columns, and what is made of them."""

    places: Array
    dtypes: npt.NDArray[np.str_]
    inverse: Array
    weights: Array
    low: float
    high: float
    told: float  # Variance that the other rows explain at a row, in the median

    @property
    def trust(self) -> float:
        return len(self.places) / (len(self.places) + _FEW)


class Moves(NamedTuple):
    """By work: by how much log(expected) moves, where its band then lies, and how far that is to be believed (0..1)."""

    middle: Array
    low: float
    high: float
    weight: Array


class Correction(NamedTuple):
    """What the rows of a device say, by class of work (`model.class_of`)."""

    classes: Mapping[str, Fitted]
    counts: Mapping[str, int]

    def at(self, name: str, places: Array, dtypes: Sequence[str]) -> Moves | None:
        """The moves of works of a class; None where none of it was timed. See `place_of`."""
        known = self.classes.get(name)
        if known is None:
            return None
        across = _covariance(places, np.array(dtypes), known.places, known.dtypes)
        explained = (across @ known.inverse * across).sum(1)
        weight = np.clip(explained / known.told, 0, 1) * known.trust
        return Moves(across @ known.weights, known.low, known.high, weight)


def place_of(core: Core, expected_ns: float) -> tuple[float, ...]:
    """Where a work lies among others: doublings of its dimensions, and of its time."""
    return (*(math.log2(max(getattr(core, name), 1)) for name in SIZES), float(core.causal), math.log2(expected_ns))


def fitted(places: Array, dtypes: npt.NDArray[np.str_], apart: Array) -> Fitted:
    """A class of rows at places that took exp(``apart``) times what was expected."""
    middle = float(np.median(apart))
    limit = _OUTLIER * max(float(np.median(np.abs(apart - middle))), math.sqrt(_NOISE))
    kept = np.clip(apart, middle - limit, middle + limit)
    count = len(apart)
    noise = _NOISE * (1 + _FEW / count)
    inverse = np.linalg.inv(_covariance(places, dtypes, places, dtypes) + noise * np.eye(count))
    weights = inverse @ kept
    alone = np.diag(inverse)
    # What the others say of each row, and how much of the variance there they explain.
    others = apart - (kept - weights / alone)
    told = float(np.median(_SMOOTH + _DTYPE + _KIND + noise - 1 / alone))
    low, high = (float(np.quantile(others, share)) for share in (0.1, 0.9))
    return Fitted(places, dtypes, np.asarray(inverse), np.asarray(weights), low, high, max(told, _NOISE))


def _covariance(a: Array, a_dtypes: npt.NDArray[np.str_], b: Array, b_dtypes: npt.NDArray[np.str_]) -> Array:
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    near = np.exp(-np.sqrt(np.maximum(squares, 0)) / _LENGTH)
    same = a_dtypes[:, None] == b_dtypes
    return np.asarray(_SMOOTH * near * np.where(same, 1, _OTHER) + _DTYPE * same + _KIND)
