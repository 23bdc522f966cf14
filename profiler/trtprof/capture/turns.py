"""Variants that take turns: each in a process of its own, which is quiet while another one runs.

Two runs one after the other differ by what the machine did meanwhile. Turns of a fraction of a second, one beside the
other, share it: what is left of a difference is that of the variants, and of their processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base.errors import CaptureError
from trtprof.base.records import InputTensor
from trtprof.base.scratch import scratch_folder
from trtprof.capture import launch
from trtprof.capture.gpu_record import TensorrtRequest
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest

WORKER = "trtprof.capture.workers.turns"

T = TypeVar("T")
Samples = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SLOW = 10.0  # A turn that takes so many times as long as it should, and `_LEAST_S` more, is a hang
_LEAST_S = 20.0


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be run."""

    name: str  # What it is called where something is said of it, such as ``the original``
    inputs: tuple[InputTensor, ...]  # Its inputs
    seed: int = 0  # Of their values
    kinds: int | None = None  # Compare outputs for the first kinds of inputs only; see `same_outputs.kinds_of`
    session: SessionRequest | None = None  # A session of ONNX Runtime, on the CPU or with the CUDA provider
    # In its place, an engine of TensorRT; of the request only what it takes to run it counts.
    engine: TensorrtRequest | None = None
    cuda_graph: bool = False  # Whether inferences on a GPU are replays of a CUDA graph


class TurnsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """To the worker: what it holds ready, and for how many milliseconds it warms up."""

    variant: Variant
    warmup_ms: float


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The worker's first answer: its variant can be run."""

    made_ns: int  # What it took to make the session, or to load the engine, and to run once
    run_ns: int  # Median of the inferences of its warm-up


class Turn(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Its answer to a turn: the latency of each inference in ns, and whether its threads are asleep now."""

    samples: tuple[int, ...]
    quiet: bool
    undisturbed: tuple[bool, ...] | None = None  # Of each, whether no thread waited for a CPU; None where nobody knows
    all_ran: float | None = None  # At least this share of the time every thread had a CPU


class Pair(NamedTuple):
    """Turns that were neighbours: latencies in ns, and of each side the fields of `Turn` of the same name."""

    before: Samples
    after: Samples
    undisturbed: tuple[Mask | None, Mask | None] = (None, None)
    all_ran: tuple[float | None, float | None] = (None, None)


class Side:
    """A process that holds a variant ready; ``made_ns`` as in `Ready`, ``run_ns`` is the median of its latest ones."""

    # Of the latest turn, as in `Turn`.
    undisturbed: Mask | None = None
    all_ran: float | None = None

    def __init__(self, request: TurnsRequest, process: child.Dialogue, log: Path, deadline_s: float) -> None:
        """Wait until the process is ready."""
        self.name, self.pid = request.variant.name, process.pid
        self._process, self._log = process, log
        process.send(msgspec.json.encode(request))
        ready = self._answer(Ready, deadline_s, "to be ready")
        self.made_ns, self.run_ns = ready.made_ns, ready.run_ns

    def turn(self, ms: float, deadline_s: float | None = None) -> Samples:
        """Let it run for so many milliseconds, and at least once; returns the latencies in ns, in their order."""
        should_s = ms / 1e3 + 2 * self.run_ns / 1e9
        self._process.send(str(ms).encode())
        found = self._answer(Turn, deadline_s or _LEAST_S + _SLOW * should_s, "to end its turn")
        if not found.quiet:
            raise CaptureError(
                f"{self.name} cannot take turns",
                why="its threads are busy while it waits, which slows the others down",
                fix="leave a longer session.intra_op.spin_duration_us away",
            )
        samples = np.asarray(found.samples, dtype=np.int64)
        self.run_ns = round(float(np.median(samples)))
        self.undisturbed = None if found.undisturbed is None else np.asarray(found.undisturbed, dtype=np.bool_)
        self.all_ran = found.all_ran
        return samples

    def _answer(self, kind: type[T], deadline_s: float, what: str) -> T:
        fix = "leave it away"
        try:
            answer: T | child.Failure = msgspec.json.decode(
                self._process.receive(deadline_s), type=kind | child.Failure
            )
        except TimeoutError:
            last = child.last_words(self._log)
            why = f"it took more than {deadline_s:.3g} s {what}{last and f': {last}'}"
            raise CaptureError(f"{self.name} hangs", why=why, fix=fix) from None
        except EOFError as died:
            raise CaptureError(f"{self.name} died", why=str(died), fix=fix) from None
        if isinstance(answer, child.Failure):
            raise answer.error()
        return answer


@contextlib.contextmanager
def opened(variant: Variant, *, warmup_ms: float = 200.0, deadline_s: float = 120.0) -> Iterator[Side]:
    """A process that holds a variant ready, warmed up; it is ended with the block, however that ends."""
    with scratch_folder() as folder:
        log = folder / launch.LOG_FILE
        process = child.Dialogue(WORKER, log, {"TMPDIR": str(folder), "TEMP": str(folder)})
        try:
            yield Side(TurnsRequest(variant=variant, warmup_ms=warmup_ms), process, log, deadline_s)
        finally:
            process.end()


def pairs_of(before: Side, after: Side, count: int, ms: float, *, first: int = 0) -> list[Pair]:
    """Turns of ``ms``, pair by pair: A B, B A ... (0: A is first), so that what drifts evenly is no difference."""
    pairs = []
    for number in range(count):
        swapped = (number + first) % 2 == 1
        order = (after, before) if swapped else (before, after)
        one, other = order[0].turn(ms), order[1].turn(ms)
        samples = (other, one) if swapped else (one, other)
        waits = (before.undisturbed, after.undisturbed), (before.all_ran, after.all_ran)
        pairs.append(Pair(*samples, *waits))
    return pairs


def round_of(
    before: Variant,
    after: Variant,
    *,
    pairs: int,
    ms: float,
    first: int = 0,
    warmup_ms: float = 200.0,
    deadline_s: float = 120.0,
) -> list[Pair]:
    """A round: a fresh process of each side, and pairs of turns; see `opened` and `pairs_of`.

    Args:
        ms: Length of a turn.
        first: Which begins, and is opened first: 0 for A, 1 for B; take turns here, too.
    """
    order = (after, before) if first else (before, after)
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(opened(each, warmup_ms=warmup_ms, deadline_s=deadline_s)) for each in order]
        one, other = reversed(sides) if first else sides
        return pairs_of(one, other, pairs, ms, first=first)
