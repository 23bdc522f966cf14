"""Outputs held against others of the same inputs: a GPU's against the CPU's, a variant's against its original's."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError
from trtprof.base.records import TensorCheck
from trtprof.capture.workers.inference import numpy_dtype, say
from trtprof.runtime.ort_session import SessionRequest, clean_message, make_session


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

COMPUTED: Mapping[str, str] = {"tf32": "float16", "fp16": "float16", "bf16": "bfloat16"}
"""What fp32 may have been computed in, and the type whose tolerance it then gets: TF32 has as many bits of mantissa as
fp16, 10."""

CPU = "the CPU provider"
OWN = 2.0
"""What differs by so many times what the reference differs from itself, differently rounded, is not told from it."""

_EXACT = Tolerance(0.0, 0.0)
_HELD_AS = {
    "tensor(bfloat16)": "bf16", "tensor(float8e4m3fn)": "fp8e4m3fn", "tensor(float8e4m3fnuz)": "fp8e4m3fnuz",
    "tensor(float8e5m2)": "fp8e5m2", "tensor(float8e5m2fnuz)": "fp8e5m2fnuz",
}  # fmt: skip
"""Types that ONNX Runtime hands over as memory alone."""


def is_array(ort_type: str) -> bool:
    """Whether ONNX Runtime makes an array of a value of this type."""
    return ort_type not in _HELD_AS


def ort_array(value: Any) -> npt.NDArray[Any]:
    """A tensor of ONNX Runtime in the host's memory as an array."""
    dtype = _HELD_AS.get(value.data_type())
    if dtype is None:
        return np.asarray(value.numpy())
    # A copy: the memory is the value's.
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, dtype=numpy_dtype(dtype)).reshape(value.shape())


def reference_outputs(session: SessionRequest, feeds: dict[str, npt.NDArray[Any]], names: Sequence[str]) -> list[Any]:
    """What ONNX Runtime's CPU provider makes of the inputs: arrays, or lists of arrays for a sequence."""
    say("outputs of the CPU provider to compare with")
    made = make_session(msgspec.structs.replace(session, provider="cpu"))
    taken = {value.name for value in made.get_inputs()}
    feeds = {name: array for name, array in feeds.items() if name in taken}
    types = {value.name: value.type for value in made.get_outputs()}
    lacks = [name for name in names if name not in types]
    if lacks:
        raise CaptureError(
            "the outputs cannot be held against those of the CPU provider",
            why=f"the model has no output {lacks[0]!r}: its outputs are {', '.join(types)}",
            fix="give the model that the engine was built from, or leave --verify away",
        )
    try:
        return session_outputs(made, feeds, names)
    except Exception as error:
        raise CaptureError(
            "the outputs cannot be held against those of the CPU provider",
            why=clean_message(error),
            fix="leave --verify away, or give inputs that the CPU provider takes",
        ) from None


def session_outputs(session: Any, feeds: dict[str, npt.NDArray[Any]], names: Sequence[str]) -> list[Any]:
    """What a session makes of its inputs: arrays, or lists of arrays for a sequence; raises what ONNX Runtime does."""
    types = {value.name: value.type for value in session.get_outputs()}
    plain = [name for name in names if is_array(types[name])]
    found = dict(zip(plain, session.run(plain, feeds) if plain else [], strict=True))
    return [found[name] if name in found else _held(session, feeds, name) for name in names]


def _held(session: Any, feeds: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    binding = session.io_binding()
    for given, array in feeds.items():
        binding.bind_cpu_input(given, array)
    binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)
    return ort_array(binding.get_outputs()[0])


class Reference(NamedTuple):
    """What outputs are held against."""

    outputs: Sequence[Any]  # Arrays, or lists of arrays for a sequence
    # The same by the same thing, rounded differently: it differs from itself by that. None where that is not known.
    own: Sequence[Any] | None = None
    name: str = CPU  # In words


def check_outputs(
    names: Sequence[str], found: Sequence[Any], expected: Sequence[Any] | Reference, *, tf32: bool, precision: str = ""
) -> tuple[TensorCheck, ...]:
    """Compare outputs one by one.

    Args:
        precision: ``fp16``, ``bf16`` or both with ``+`` between, where fp32 may have been computed in that.
    """
    reference = expected if isinstance(expected, Reference) else Reference(expected)
    computed = [*(["tf32"] if tf32 else []), *(part for part in precision.split("+") if part in COMPUTED)]
    checks = []
    own = reference.own or [None] * len(names)
    for name, one, other, again in zip(names, found, reference.outputs, own, strict=True):
        pairs = list(_arrays(name, one, other))
        rounded = [mine for _, mine, _ in _arrays(name, again, other)]
        if len(rounded) != len(pairs):
            rounded = [None] * len(pairs)
        for (title, mine, theirs), other_way in zip(pairs, rounded, strict=True):
            checks.append(_Check(title, mine, theirs, other_way, reference.name).made(computed))
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


def _tolerance(one: npt.NDArray[Any], other: npt.NDArray[Any], computed: Sequence[str]) -> Tolerance:
    """What elements may differ by: the widest of what the two types and the types computed in allow."""
    dtypes = [str(one.dtype), str(other.dtype)]
    if "float32" in dtypes or "float64" in dtypes:
        dtypes += [COMPUTED[name] for name in computed]
    found = [TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES]
    return max(found, key=lambda one: one.absolute, default=_EXACT)


def _kind(array: npt.NDArray[Any]) -> str:
    if array.dtype == np.bool_:
        return "bool"
    if array.dtype.kind in "iu":
        return "integer"
    return "float" if str(array.dtype) in TOLERANCES else str(array.dtype)


def differs_by(name: str, one: Any, other: Any) -> float:
    """By how much two renderings of an output differ: 0 for not at all, 1 for as much as it is large, or altogether.

    Of floats the greatest difference over the greatest magnitude, of all else the share of elements that differ; or the
    share of those that are no numbers on one side alone, where that is more.
    """
    worst = 0.0
    for _, first, second in _arrays(name, one, other):
        mine, theirs = np.asarray(first), np.asarray(second)
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return 1.0
        if not mine.size:
            continue
        if _tolerance(mine, theirs, ()) == _EXACT:
            worst = max(worst, float(np.mean(mine != theirs)))
            continue
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        finite = np.isfinite(mine) & np.isfinite(theirs)
        alike = finite | (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        top = float(np.abs(theirs[finite]).max(initial=0.0))
        gap = float(np.abs(mine[finite] - theirs[finite]).max(initial=0.0))
        worst = max(worst, float(np.mean(~alike)), gap / top if top else gap)
    return worst


class _Check:
    """One array held against another; ``own`` is the other, rounded differently."""

    def __init__(self, name: str, found: Any, expected: Any, own: Any, reference: str) -> None:
        self._name, self._reference = name, reference
        self._found, self._expected = np.asarray(found), np.asarray(expected)
        alike = own is not None and np.asarray(own).shape == self._expected.shape
        self._own = np.asarray(own) if alike and np.asarray(own).dtype == self._expected.dtype else self._expected

    def made(self, computed: Sequence[str]) -> TensorCheck:
        """The check; ``computed`` are types that fp32 may have been computed in."""
        one, other = self._found, self._expected
        if one.shape != other.shape or _kind(one) != _kind(other):
            return self._verdict(-1.0, -1.0, -1.0, f"{_what(one)} where {self._reference} has {_what(other)}")
        allowed = _tolerance(one, other, computed)
        return self._equal() if allowed == _EXACT else self._close(allowed)

    def _verdict(
        self, max_abs: float, max_rel: float, share: float, reason: str, *, matches: bool | None = None
    ) -> TensorCheck:
        return TensorCheck(
            name=self._name, dtype=str(self._expected.dtype), max_abs=max_abs, max_rel=max_rel, tolerance=share,
            matches=not reason if matches is None else matches, reason=reason,
        )  # fmt: skip

    def _equal(self) -> TensorCheck:
        one, other = self._found, self._expected
        different, by_itself = int(np.count_nonzero(one != other)), int(np.count_nonzero(self._own != other))
        if not different:
            return self._verdict(0.0, 0.0, 0.0, "")
        numeric = _kind(one) == "integer"
        gap = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()) if numeric else 1.0
        top = float(np.abs(other.astype(np.float64)).max()) if numeric else 1.0
        off = (gap, gap / top if top else float(gap))
        reason = f"{different} of {other.size} elements differ"
        if different <= OWN * by_itself:
            told = f"{reason}, and {by_itself} do where {self._reference} is rounded differently"
            return self._verdict(*off, different / (OWN * by_itself), told, matches=True)
        return self._verdict(*off, -1.0, f"{reason}, and {other.dtype} must be equal")

    def _close(self, allowed: Tolerance) -> TensorCheck:
        one, other, own = (array.astype(np.float64) for array in (self._found, self._expected, self._own))
        finite = np.isfinite(other)
        # What is no number, or another one, when the reference is rounded differently, is no matter of the variant.
        settled = (finite == np.isfinite(own)) & (finite | (other == own) | (np.isnan(other) & np.isnan(own)))
        special = ~finite & settled
        finite &= settled
        same = np.array_equal(one[special], other[special], equal_nan=True) and bool(np.isfinite(one[finite]).all())
        if not same:
            reason = f"infinite values or NaN stand where {self._reference} has others"
            return self._verdict(-1.0, -1.0, -1.0, reason)
        gap, size = np.abs(one[finite] - other[finite]), np.abs(other[finite])
        top = float(size.max(initial=0.0))
        limit = allowed.absolute * max(top, 1.0) + allowed.relative * size
        share = float((gap / limit).max(initial=0.0))
        by_itself = float((np.abs(own[finite] - other[finite]) / limit).max(initial=0.0))
        wider = max(OWN * by_itself, 1.0)
        max_abs = float(gap.max(initial=0.0))
        reason = f"an element is {share:.3g} times as far off as allowed" if share > 1 else ""
        if share > 1 and by_itself:
            reason += f"; {by_itself:.3g} times where {self._reference} is rounded differently"
        return self._verdict(max_abs, max_abs / top if top else max_abs, share / wider, reason, matches=share <= wider)


def _what(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}"
