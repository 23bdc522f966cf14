"""What all workers share: their files, inputs and timing loops."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError
from trtprof.base.machine_errors import no_memory
from trtprof.base.progress import Line
from trtprof.base.records import InputTensor
from trtprof.base.units import NUMPY_DTYPES, format_shape
from trtprof.runtime.ort_session import clean_message

LATENCY_FILE = "latency.parquet"
CAPTURE_FILE = "capture.json"
DOES_NOT_RUN = "the model does not run with these inputs"
"""What is said of a model that refuses its inputs."""
LONGEST_S = 1800.0
"""An inference that takes longer never ends, as far as anybody who waits can tell."""
_LARGE = 1024  # Elements of an input that is data; smaller ones may be settings, which decide shapes
EVENT_LIMIT = 200_000
"""Profiler events to record at most: each is about 1 kB of JSON, and ONNX Runtime drops all after one million."""


NARROW_DTYPES = {
    "bf16": "bfloat16", "fp8e4m3fn": "float8_e4m3fn", "fp8e4m3fnuz": "float8_e4m3fnuz", "fp8e5m2": "float8_e5m2",
    "fp8e5m2fnuz": "float8_e5m2fnuz", "fp8e8m0": "float8_e8m0fnu",
}  # fmt: skip
"""Types of a byte or two that numpy has through ml_dtypes alone, by their names there."""


class Runnable(Protocol):
    """One inference with everything bound."""

    def __call__(self) -> object:
        """Run it."""


def say(text: str) -> None:
    """One line of progress for the parent."""
    print(text.wire() if isinstance(text, Line) else text, flush=True)  # noqa: T201 - stdout is the channel to the parent


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """What an array of a type has, by our name of it."""
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(
        getattr(ml_dtypes, NARROW_DTYPES[dtype]) if dtype in NARROW_DTYPES else NUMPY_DTYPES[dtype]
    )
    return found


def make_input_sets(plans: tuple[InputTensor, ...], seed: int) -> list[dict[str, npt.NDArray[Any]]]:
    """The inputs to alternate on a CPU: those of the seed, and the same with other values in large random floats.

    A branch predictor learns a single input: a model with PRelu took 264 us with one, 429 us with two, 446 with eight.
    """
    feeds = make_inputs(plans, seed)
    large = {plan.name for plan in plans if plan.kind == "uniform" and feeds[plan.name].size >= _LARGE}
    other = make_inputs(plans, seed + 1) if large else {}
    return [feeds, {**feeds, **{name: other[name] for name in large}}] if large else [feeds]


def make_inputs(plans: tuple[InputTensor, ...], seed: int) -> dict[str, npt.NDArray[Any]]:
    """The input arrays of a plan; the same seed gives the same values on every machine."""
    try:
        return _made_inputs(plans, seed)
    except MemoryError:
        raise CaptureError(
            "the inputs of the model do not fit in memory",
            why="; ".join(f"{plan.name} is {plan.dtype} {format_shape(plan.shape)}" for plan in plans)[:1000],
            fix="set smaller shapes (--shapes, --batch)",
        ) from None


def _made_inputs(plans: tuple[InputTensor, ...], seed: int) -> dict[str, npt.NDArray[Any]]:
    generator = np.random.default_rng(seed)
    feeds: dict[str, npt.NDArray[Any]] = {}
    for plan in plans:
        dtype = np.dtype(NUMPY_DTYPES[plan.dtype])
        if plan.kind == "file":
            feeds[plan.name] = np.asarray(np.load(plan.file, allow_pickle=False), order="C")
        elif plan.kind == "integers":
            values = generator.integers(int(plan.low), int(plan.high), size=plan.shape, endpoint=True)
            feeds[plan.name] = np.asarray(values).astype(dtype)
        else:
            drawn = np.asarray(generator.uniform(plan.low, plan.high, size=plan.shape)).astype(dtype)
            # Rounding to a narrow type must not reach the upper end, which is left out.
            below = np.nextafter(dtype.type(plan.high), dtype.type(plan.low))
            feeds[plan.name] = np.where(drawn >= plan.high, below, drawn)
    return feeds


def first_run(run: Runnable) -> None:
    """Run once, and say what ONNX Runtime has against the inputs; one that lasts `LONGEST_S` ends this process."""
    watch = threading.Timer(LONGEST_S, _give_up)
    watch.daemon = True
    watch.start()
    try:
        run()
    except Exception as error:
        said = clean_message(error)
        if "Failed to allocate memory" in said:
            raise no_memory(said) from None
        raise CaptureError(
            DOES_NOT_RUN,
            why=said,
            fix="set the shapes (--shapes) or give real inputs (--loadInputs); `trtprof inspect` lists the inputs",
        ) from None
    finally:
        watch.cancel()


def _give_up() -> None:
    """Nothing else ends a loop inside of ONNX Runtime; the parent tells what was said last."""
    sys.stderr.write(f"one inference takes longer than {LONGEST_S:.0f} s\n")
    sys.stderr.flush()
    os._exit(CaptureError.exit_code)


def runs_to_profile(asked: int, nodes: int) -> int:
    """How many inferences to profile of a model with so many nodes: at most `EVENT_LIMIT` events, at least 3 runs."""
    return max(3, min(asked, EVENT_LIMIT // max(nodes, 1)))


def warm_up(run: Runnable, warmup_ms: float, at_most: int | None = None) -> int:
    """Run for so many milliseconds, and not more often than said; returns how often."""
    count = 0
    end = time.perf_counter_ns() + int(warmup_ms * 1e6)
    while time.perf_counter_ns() < end and (at_most is None or count < at_most):
        run()
        count += 1
    return count
