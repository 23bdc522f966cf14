"""Outputs of one provider held against those of another, on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.capture.cuda_record import TensorCheck


class Tolerance(NamedTuple):
    """What an element may differ by: ``absolute`` times the magnitude of its tensor, plus ``relative`` of itself."""

    absolute: float
    relative: float


TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(1e-5, 1e-5),
    "float32": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(2.5e-3, 1e-3),
    "bfloat16": Tolerance(2e-2, 1e-2),
}
"""Those with which ONNX Runtime tests its own providers (onnxruntime/test/unittest_util/checkers.cc,
``DefaultTolerance``), for values up to 1. All other types must be equal."""

TF32 = TOLERANCES["float16"]
"""TF32 has as many bits of mantissa as fp16: 10."""


def check_outputs(
    names: Sequence[str], found: Sequence[Any], expected: Sequence[Any], *, tf32: bool
) -> tuple[TensorCheck, ...]:
    """Compare outputs one by one.

    Args:
        names: Of the outputs.
        found: What is to be checked: arrays, or lists of arrays for a sequence.
        expected: What it should be.
        tf32: Whether fp32 may have been computed in TF32.

    Returns:
        One an array, the worst first: what does not match before what does, then by how far it is off.
    """
    checks = []
    for name, one, other in zip(names, found, expected, strict=True):
        pairs = list(_arrays(name, one, other))
        checks += [_check(title, mine, theirs, tf32=tf32) for title, mine, theirs in pairs]
    return tuple(sorted(checks, key=lambda check: (check.matches, -_badness(check), check.name)))


def _badness(check: TensorCheck) -> float:
    return float("inf") if check.tolerance < 0 else check.tolerance


def _arrays(name: str, found: Any, expected: Any) -> list[tuple[str, Any, Any]]:
    if not isinstance(found, list) or not isinstance(expected, list) or len(found) != len(expected):
        return [(name, found, expected)]
    return [
        pair
        for place, (one, other) in enumerate(zip(found, expected, strict=True))
        for pair in _arrays(f"{name}[{place}]", one, other)
    ]


def _check(name: str, found: Any, expected: Any, *, tf32: bool) -> TensorCheck:
    one, other = np.asarray(found), np.asarray(expected)
    dtype = str(other.dtype)

    def verdict(max_abs: float, max_rel: float, share: float, reason: str) -> TensorCheck:
        return TensorCheck(
            name=name, dtype=dtype, max_abs=max_abs, max_rel=max_rel, tolerance=share, matches=not reason, reason=reason
        )

    if one.shape != other.shape or one.dtype != other.dtype:
        reason = f"{_what(one)} where the CPU provider has {_what(other)}"
        return verdict(-1.0, -1.0, -1.0, reason)
    allowed = TF32 if tf32 and dtype == "float32" else TOLERANCES.get(dtype)
    if allowed is None:
        different = int(np.count_nonzero(one != other))
        if not different:
            return verdict(0.0, 0.0, 0.0, "")
        numeric = np.issubdtype(one.dtype, np.integer)
        gap = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()) if numeric else 1.0
        top = float(np.abs(other.astype(np.float64)).max()) if numeric else 1.0
        reason = f"{different} of {other.size} elements differ, and {dtype} must be equal"
        return verdict(gap, gap / top if top else float(gap), -1.0, reason)
    return _close(one.astype(np.float64), other.astype(np.float64), allowed, verdict)


def _close(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], allowed: Tolerance, verdict: Any
) -> TensorCheck:
    finite = np.isfinite(other)
    same = np.array_equal(one[~finite], other[~finite], equal_nan=True) and bool(np.isfinite(one[finite]).all())
    if not same:
        result: TensorCheck = verdict(
            -1.0, -1.0, -1.0, "infinite values or NaN stand where the CPU provider has others"
        )
        return result
    gap, size = np.abs(one[finite] - other[finite]), np.abs(other[finite])
    top = float(size.max(initial=0.0))
    limit = allowed.absolute * max(top, 1.0) + allowed.relative * size
    share = float((gap / limit).max(initial=0.0))
    max_abs = float(gap.max(initial=0.0))
    reason = f"an element is {share:.3g} times as far off as allowed" if share > 1 else ""
    close: TensorCheck = verdict(max_abs, max_abs / top if top else max_abs, share, reason)
    return close


def _what(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}"
