"""Whether variants make the same of the same inputs, for several kinds of inputs, each in a child process.

What is wrong for some inputs only shows with these: a mask that is never all zeros, an exponential that never
overflows. The original is run once, and what it makes is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.records import InputTensor, TensorCheck
from trtprof.base.units import NUMPY_DTYPES
from trtprof.capture import launch
from trtprof.capture.turns import Variant
from trtprof.capture.workers.inference import make_inputs

WORKER = "trtprof.capture.workers.outputs"
KEPT_FILE = "outputs.msgpack"
SATURATING = 100.0
"""Extremes are so many times the ends of the range: exp, tanh and sigmoid saturate, and fp16 is near its end."""

GIVEN, ZEROS, EXTREMES = "given", "zeros", "extremes"


class KindCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of a variant for one kind of inputs."""

    kind: str  # Of the inputs: ``random, seed 0``, ``zeros``, ``extremes``, or ``given`` where files are
    matches: bool  # Whether all outputs are as they should; also where nothing could be told
    worst: TensorCheck | None = None  # The check of the output that is furthest off; None where there is none
    note: str = ""  # What else is to be said: why the variant or the original does not run with these inputs


class OutputsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """To the worker: run a variant, and keep what it makes or hold it against what is kept."""

    variant: Variant  # What to run, with the inputs of the original
    folder: str  # Where the results go
    scratch: str  # Where all else goes
    kept: str  # The file with the outputs of the original
    original: bool  # Whether this is the original: the file is written then, else read
    tf32: bool = False  # See `check_outputs`
    precision: str = ""  # See `check_outputs`


class Original(NamedTuple):
    """An original whose outputs are kept."""

    variant: Variant  # What was run
    kept: Path  # The file with its outputs


def kinds_of(inputs: Sequence[InputTensor], seed: int, most: int | None = None) -> dict[str, int]:
    """The kinds of inputs that are tried, in this order, each with its seed; at most ``most``."""
    given = {GIVEN: seed} if any(one.kind == "file" for one in inputs) else {}
    random = {f"random, seed {seed}": seed, f"random, seed {seed + 1}": seed + 1}
    return dict([*given.items(), *random.items(), (ZEROS, seed), (EXTREMES, seed)][:most])


def inputs_of(kind: str, inputs: Sequence[InputTensor], seed: int) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a kind."""
    if kind == GIVEN:
        return make_inputs(tuple(inputs), seed)
    plans = tuple(_ranged(one) for one in inputs)
    feeds = make_inputs(plans, seed)
    generator = np.random.default_rng(seed)
    for plan in plans:
        array = feeds[plan.name]
        if plan.kind == "file" or kind not in (ZEROS, EXTREMES):
            continue
        integers = plan.kind == "integers"
        ends = np.asarray([plan.low, plan.high] + ([] if integers else [SATURATING * plan.low, SATURATING * plan.high]))
        if kind == ZEROS:
            values = np.full(array.shape, np.clip(0, plan.low, plan.high) if integers else 0)
        else:
            values = ends[generator.integers(len(ends), size=array.shape)]
            if array.dtype == np.float16:
                values = np.clip(values, -np.finfo(np.float16).max, np.finfo(np.float16).max)
        feeds[plan.name] = values.astype(array.dtype)
    return feeds


def _ranged(plan: InputTensor) -> InputTensor:
    """A plan without its file, where that holds floats."""
    if plan.kind != "file" or np.dtype(NUMPY_DTYPES[plan.dtype]).kind != "f":
        return plan
    values = np.load(plan.file, allow_pickle=False).astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    shape = values.shape
    return msgspec.structs.replace(
        plan, kind="uniform", shape=shape, low=low, high=high if high > low else low + max(abs(low), 1.0)
    )


def keep_original(variant: Variant, folder: Path, *, deadline_s: float = 300.0) -> Original:
    """Run the original with all kinds of inputs, and once more with other rounding, and keep what it makes."""
    kept = folder / KEPT_FILE
    request = OutputsRequest(variant=variant, folder=str(folder), scratch=str(folder), kept=str(kept), original=True)
    launch.run_worker(request, WORKER, type(None), within_s=deadline_s)
    return Original(variant, kept)


def check_variant(
    original: Original,
    variant: Variant,
    folder: Path,
    *,
    tf32: bool = False,
    precision: str = "",
    deadline_s: float = 300.0,
) -> tuple[KindCheck, ...]:
    """Hold a variant against the original; what comes and goes does so in an empty folder."""
    same = msgspec.structs.replace(variant, inputs=original.variant.inputs, seed=original.variant.seed)
    request = OutputsRequest(
        variant=same, folder=str(folder), scratch=str(folder), kept=str(original.kept), original=False, tf32=tf32,
        precision=precision,
    )  # fmt: skip
    return launch.run_worker(request, WORKER, tuple[KindCheck, ...], within_s=deadline_s)


class Kept(NamedTuple):
    """What the original made: what is in `KEPT_FILE`."""

    names: Sequence[str]  # Of its outputs
    outputs: Mapping[str, Sequence[Any]]  # Of each kind of inputs: arrays, or lists of arrays for a sequence
    own: Mapping[str, Sequence[Any]]  # The same, rounded differently, of the kinds where that is known
    left_out: Mapping[str, str]  # Kinds that the original itself does not run with, and why
