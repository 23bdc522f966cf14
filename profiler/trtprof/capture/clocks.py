"""Clocks, power, temperature and what holds the clocks down, of one GPU, sampled while something runs on it.

To be used in a process that waits for the one that is measured: a sample costs a few NVML calls and, in the same
process, the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from trtprof.base.records import ClockSummary, Spread
from trtprof.runtime.nvml_session import Sampler, sampler

STEP_S = 0.02
"""Time between samples."""
_HANGS_S = 10.0
"""A driver that does not answer is waited for so long."""


class ClockSample(NamedTuple):
    """One reading; None is what the driver did not tell."""

    at_ns: int  # `time.monotonic_ns` when it was taken, which on Linux all processes share
    sm_clock_mhz: float | None = None  # Clock of the SMs
    memory_clock_mhz: float | None = None  # Clock of the memory, as NVML counts it
    power_w: float | None = None  # Of the board
    temperature_c: float | None = None  # Of the GPU
    energy_j: float | None = None  # Counted since the driver was loaded
    reasons: tuple[str, ...] | None = None  # What held the SM clock down


class Sampling:
    """The samples of a run, as they come in; see `sampling`."""

    def __init__(self, gpu: Sampler, step_s: float) -> None:
        self._gpu = gpu
        self._step_ns = round(step_s * 1e9)
        self._samples: list[ClockSample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-clocks", daemon=True)

    def samples(self) -> tuple[ClockSample, ...]:
        """Those taken so far, in the order of time."""
        return tuple(self._samples)

    def summary(self, start_ns: int | None = None, end_ns: int | None = None) -> ClockSummary:
        """Sum up the samples so far, or those of a window; see `summarize`."""
        found = summarize(self.samples(), start_ns, end_ns)
        return found if not self._gpu.note else ClockSummary(samples=0, duration_ns=0, notes=(self._gpu.note,))

    def _start(self) -> None:
        if not self._gpu.note:
            self._thread.start()

    def _stop(self) -> None:
        self._ended.set()
        if not self._gpu.note:
            self._thread.join(_HANGS_S)

    def _run(self) -> None:
        due = time.monotonic_ns()
        while True:
            self._samples.append(self._read())
            if self._ended.is_set():
                return  # the last sample is of the end, so that a short run has two
            # On a fixed beat; a reading that took longer than a step drops beats instead of piling them up.
            now = time.monotonic_ns()
            due = max(due + self._step_ns, now)
            self._ended.wait((due - now) / 1e9)

    def _read(self) -> ClockSample:
        gpu = self._gpu
        return ClockSample(
            at_ns=time.monotonic_ns(),
            sm_clock_mhz=gpu.sm_clock_mhz(),
            memory_clock_mhz=gpu.memory_clock_mhz(),
            power_w=gpu.power_w(),
            temperature_c=gpu.temperature_c(),
            energy_j=gpu.energy_j(),
            reasons=gpu.clock_events(),
        )


@contextmanager
def sampling(which: int | str = 0, step_s: float = STEP_S) -> Iterator[Sampling]:
    """Sample a GPU while the block runs."""
    with sampler(which) as gpu:
        run = Sampling(gpu, step_s)
        run._start()
        try:
            yield run
        finally:
            run._stop()


_QUANTITIES = {
    "sm_clock_mhz": "SM clock",
    "memory_clock_mhz": "memory clock",
    "power_w": "power",
    "temperature_c": "temperature",
}


def summarize(samples: Sequence[ClockSample], start_ns: int | None = None, end_ns: int | None = None) -> ClockSummary:
    """What samples, in the order of time, come to."""
    taken = [
        sample for sample in samples
        if (start_ns is None or sample.at_ns >= start_ns) and (end_ns is None or sample.at_ns <= end_ns)
    ]  # fmt: skip
    if not taken:
        return ClockSummary(samples=0, duration_ns=0, notes=("no sample was taken in that time",))
    spreads = {name: _spread([getattr(sample, name) for sample in taken]) for name in _QUANTITIES}
    reasons = _shares(taken)
    silent = [words for name, words in _QUANTITIES.items() if spreads[name] is None]
    if reasons is None:
        silent.append("what holds the clocks down")
    energy = [sample.energy_j for sample in taken if sample.energy_j is not None]
    return ClockSummary(
        samples=len(taken),
        duration_ns=taken[-1].at_ns - taken[0].at_ns,
        **spreads,
        # A counter that went back was set to 0 in between, as when the driver is loaded again.
        energy_j=energy[-1] - energy[0] if len(energy) > 1 and energy[-1] >= energy[0] else None,
        reasons=reasons,
        notes=(f"the driver does not tell: {', '.join(silent)}",) if silent else (),
    )


def _spread(readings: Sequence[float | None]) -> Spread | None:
    told = [float(value) for value in readings if value is not None]
    return Spread(min=min(told), median=median(told), max=max(told)) if told else None


def _shares(taken: Sequence[ClockSample]) -> dict[str, float] | None:
    """The share of the time for which each reason held; a sample stands for the time until the next one."""
    told = [
        (sample, later) for sample, later in zip(taken, [*taken[1:], None], strict=True) if sample.reasons is not None
    ]
    if not told:
        return None
    lengths = [later.at_ns - sample.at_ns if later is not None else 0 for sample, later in told]
    if not sum(lengths):  # a single sample is all that is known
        lengths = [1] * len(told)
    held: dict[str, int] = {}
    for (sample, _), length in zip(told, lengths, strict=True):
        for reason in (sample.reasons or ()) if length else ():
            held[reason] = held.get(reason, 0) + length
    total = sum(lengths)
    return {reason: length / total for reason, length in sorted(held.items(), key=lambda item: (-item[1], item[0]))}
