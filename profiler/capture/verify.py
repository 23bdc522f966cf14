"""Outputs of a GPU held against those of ONNX Runtime's CPU provider, on the same inputs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from profiler.base.errors import CaptureError
from profiler.base.records import TensorCheck
from profiler.capture.workers.inference import numpy_dtype, say
from profiler.runtime.ort_session import SessionRequest, clean_message, make_session


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
    """What ONNX Runtime's CPU provider makes of the inputs: arrays, or lists of arrays for a sequence.

    Args:
        session: The model; whatever its provider is, the CPU runs it.
        feeds: The inputs; those that the model has not are left out.
        names: Of the outputs.

    Raises:
        CaptureError: The model does not run there, or lacks an output.
        TrtprofError: See `make_session`.
    """
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
        plain = [name for name in names if is_array(types[name])]
        found = dict(zip(plain, made.run(plain, feeds) if plain else [], strict=True))
        return [found[name] if name in found else _held(made, feeds, name) for name in names]
    except Exception as error:
        raise CaptureError(
            "the outputs cannot be held against those of the CPU provider",
            why=clean_message(error),
            fix="leave --verify away, or give inputs that the CPU provider takes",
        ) from None


def _held(session: Any, feeds: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    binding = session.io_binding()
    for given, array in feeds.items():
        binding.bind_cpu_input(given, array)
    binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)
    return ort_array(binding.get_outputs()[0])


def check_outputs(
    names: Sequence[str], found: Sequence[Any], expected: Sequence[Any], *, tf32: bool, precision: str = ""
) -> tuple[TensorCheck, ...]:
    """Compare outputs one by one.

    A type of the same kind but another width is compared all the same: TensorRT 8 has no int64, and an engine may have
    outputs in the type that it computes in.

    Args:
        names: Of the outputs.
        found: What is to be checked: arrays, or lists of arrays for a sequence.
        expected: What it should be.
        tf32: Whether fp32 may have been computed in TF32.
        precision: ``fp16``, ``bf16`` or both with ``+`` between, where fp32 may have been computed in that.

    Returns:
        One an array, the worst first: what does not match before what does, then by how far it is off.
    """
    computed = [*(["tf32"] if tf32 else []), *(part for part in precision.split("+") if part in COMPUTED)]
    checks = []
    for name, one, other in zip(names, found, expected, strict=True):
        pairs = list(_arrays(name, one, other))
        checks += [_check(title, mine, theirs, computed) for title, mine, theirs in pairs]
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


def _check(name: str, found: Any, expected: Any, computed: Sequence[str]) -> TensorCheck:
    one, other = np.asarray(found), np.asarray(expected)
    dtype = str(other.dtype)

    def verdict(max_abs: float, max_rel: float, share: float, reason: str) -> TensorCheck:
        return TensorCheck(
            name=name, dtype=dtype, max_abs=max_abs, max_rel=max_rel, tolerance=share, matches=not reason, reason=reason
        )

    if one.shape != other.shape or _kind(one) != _kind(other):
        reason = f"{_what(one)} where the CPU provider has {_what(other)}"
        return verdict(-1.0, -1.0, -1.0, reason)
    allowed = _tolerance(one, other, computed)
    if allowed == _EXACT:
        different = int(np.count_nonzero(one != other))
        if not different:
            return verdict(0.0, 0.0, 0.0, "")
        numeric = _kind(one) == "integer"
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
