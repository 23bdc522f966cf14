"""The child process that runs a variant for its outputs: ``python -m trtprof.capture.workers.outputs REQUEST``.

It reads an `OutputsRequest`. Of the original it keeps what it makes of all kinds of inputs, and what it makes of them
at another level of graph optimisation: what both differ by is rounding. A variant is held against that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - its types have names then
import msgspec
import numpy as np

from trtprof.base.errors import CaptureError, TrtprofError
from trtprof.capture.same_outputs import (
    EXTREMES,
    SATURATING,
    ZEROS,
    Kept,
    KindCheck,
    OutputsRequest,
    inputs_of,
    kinds_of,
)
from trtprof.capture.turns import Variant
from trtprof.capture.verify import Reference, check_outputs, differs_by, session_outputs
from trtprof.capture.workers.gpu_work import Arrays
from trtprof.capture.workers.inference import DOES_NOT_RUN
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest, clean_message, make_session

Outputs = dict[str, Any]
"""By their names."""
_BEYOND_FP16 = f"left out: {SATURATING:g} times the range of the inputs is not for fp16, which ends at 65504"
UNSTEADY = 0.05
"""An original that differs from itself by more, with some inputs, tells nothing of variants with these."""


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, OutputsRequest, lambda request: keep(request) if request.original else check(request))


def keep(request: OutputsRequest) -> None:
    """Keep what the original makes."""
    variant = request.variant
    outputs: dict[str, list[Any]] = {}
    left_out: dict[str, str] = {}
    names: list[str] = []
    with outputs_of(variant) as run:
        for kind, seed in kinds_of(variant.inputs, variant.seed, variant.kinds).items():
            feeds = inputs_of(kind, variant.inputs, seed)
            try:
                found, again = run(feeds), run(feeds)
            except Exception as error:
                left_out[kind] = f"the original itself does not run with these: {_said(error)}"
                continue
            names = list(found)
            by = max((differs_by(name, again[name], found[name]) for name in names), default=0.0)
            if by > UNSTEADY:
                left_out[kind] = (
                    f"the original gives other outputs a second time: they differ by {by:.2g} of their size"
                )
            else:
                outputs[kind] = list(found.values())
    if not names:
        raise CaptureError(
            DOES_NOT_RUN,
            why=next(iter(left_out.values())).partition(": ")[2],
            fix="set the shapes (--shapes) or give real inputs (--loadInputs); `trtprof inspect` lists the inputs",
        )
    own = _own(variant, names, list(outputs))
    for kind, rounded in own.items():
        by = max((differs_by(*each) for each in zip(names, rounded, outputs[kind], strict=True)), default=0.0)
        if by > UNSTEADY:
            left_out[kind] = f"the original is {by:.2g} of its size off without graph optimisation"
            del outputs[kind]
    if not set(outputs) - {ZEROS, EXTREMES}:
        raise CaptureError(
            "no outputs can be held against those of this model",
            why=next(iter(left_out.values())),
            fix="leave what draws random numbers out of the model, or give real inputs (--loadInputs)",
        )
    Path(request.kept).write_bytes(msgspec.msgpack.encode(Kept(names, outputs, own, left_out), enc_hook=_packed))


def _packed(value: Any) -> msgspec.msgpack.Ext:
    """An array as msgpack holds it; one of texts as a list."""
    array = np.asarray(value)
    data = array.tolist() if array.dtype == object else array.tobytes()
    return msgspec.msgpack.Ext(0, msgspec.msgpack.encode((str(array.dtype), array.shape, data)))


def _unpacked(_code: int, packed: memoryview) -> Any:
    dtype, shape, data = msgspec.msgpack.decode(packed)
    flat = np.array(data, dtype) if dtype == "object" else np.frombuffer(data, dtype)
    return flat.reshape(shape)


def _own(variant: Variant, names: list[str], kinds: list[str]) -> dict[str, list[Any]]:
    """What the original makes where it is rounded differently, by kind of inputs; empty where that is not known."""
    otherwise = _rounded_differently(variant)
    if otherwise is None:
        return {}
    seeds = kinds_of(variant.inputs, variant.seed, variant.kinds)
    found: dict[str, list[Any]] = {}
    try:
        with outputs_of(otherwise) as run:
            for kind in kinds:
                made = run(inputs_of(kind, variant.inputs, seeds[kind]))
                found[kind] = [made[name] for name in names]
    except Exception:  # Some ops run only when they are fused.
        return {}
    return found


def _rounded_differently(variant: Variant) -> Variant | None:
    """The same without graph optimisation, or with all of it; None of an engine."""
    if variant.session is None:
        return None
    tuning = variant.session.tuning
    level = "all" if tuning.graph_optimization_level == "disable" else "disable"
    tuning = msgspec.structs.replace(tuning, graph_optimization_level=level)
    return msgspec.structs.replace(variant, session=msgspec.structs.replace(variant.session, tuning=tuning))


def check(request: OutputsRequest) -> list[KindCheck]:
    """Hold a variant against the original, with each kind of inputs."""
    kept = Kept(*msgspec.msgpack.decode(Path(request.kept).read_bytes(), ext_hook=_unpacked))
    variant = request.variant
    checks = []
    with outputs_of(variant) as run:
        for kind, seed in kinds_of(variant.inputs, variant.seed, variant.kinds).items():
            if kind in kept.left_out:
                note = f"left out: {kept.left_out[kind]}"
                checks.append(KindCheck(kind=kind, matches=True, note=note))
                continue
            if kind == EXTREMES and "fp16" in request.precision:
                checks.append(KindCheck(kind=kind, matches=True, note=_BEYOND_FP16))
                continue
            try:
                found = run(inputs_of(kind, variant.inputs, seed))
            except Exception as error:
                checks.append(KindCheck(kind=kind, matches=False, note=_said(error)))
                continue
            checks.append(_checked(kind, found, kept, request))
    return checks


def _checked(kind: str, found: Outputs, kept: Kept, request: OutputsRequest) -> KindCheck:
    lacks = [name for name in kept.names if name not in found]
    if lacks:
        return KindCheck(kind=kind, matches=False, note=f"it has no output {lacks[0]!r}")
    reference = Reference(kept.outputs[kind], kept.own.get(kind), "the original")
    session = request.variant.session
    tf32 = request.tf32 or (session is not None and session.provider == "cuda" and session.cuda.use_tf32)
    checks = check_outputs(
        kept.names, [found[name] for name in kept.names], reference, tf32=tf32, precision=request.precision
    )
    return KindCheck(kind=kind, matches=all(check.matches for check in checks), worst=checks[0] if checks else None)


@contextmanager
def outputs_of(variant: Variant) -> Iterator[Callable[[Arrays], Outputs]]:
    """What makes outputs of inputs. With an engine no GPU has seen it yet."""
    if variant.engine is not None:
        engine = variant.engine

        def of_engine(feeds: Arrays) -> Outputs:
            from trtprof.capture.workers.trt_runner import opened

            with opened(engine, feeds, 1) as runner:
                return dict(zip(runner.names, runner.outputs(), strict=True))

        yield of_engine
        return
    if variant.session is None:
        raise ValueError(f"{variant.name} has neither a session nor an engine")
    yield _of_session(variant.session)


def _of_session(request: SessionRequest) -> Callable[[Arrays], Outputs]:
    made = make_session(request)
    taken = {value.name for value in made.get_inputs()}
    names = [value.name for value in made.get_outputs()]

    def run(feeds: Arrays) -> Outputs:
        # A rewritten graph may no longer need an input.
        given = {name: array for name, array in feeds.items() if name in taken}
        return dict(zip(names, session_outputs(made, given, names), strict=True))

    return run


def _said(error: Exception) -> str:
    return error.why or error.what if isinstance(error, TrtprofError) else clean_message(error)


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
