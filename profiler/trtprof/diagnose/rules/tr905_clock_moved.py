"""The clocks of the GPU moved while it was measured.

What:
    The clock of the SMs or of the memory changed within the time in which the latency was measured, or it
    was another one while the kernels were timed under the profiler.

Why:
    A GPU raises its clocks while it is cool and has power to spare, and lowers them at the limits of power
    and temperature, within seconds. A profiler leaves gaps in which it cools down. Latency, times of kernels
    and ceilings then belong to different clocks: what one loses against another is no fault of a kernel.

Try:
    Lock the clocks while measuring, at a value that holds: `nvidia-smi --lock-gpu-clocks=MHZ` as root,
    `--lock-memory-clocks` likewise, undone by `--reset-gpu-clocks` and `--reset-memory-clocks`; trtprof changes
    no clocks. Warm up longer (`--warmUp`). Compare only runs at the same clocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import Spread
from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule

_CLOCKS = {
    "sm_clock_mhz": ("SM clock", "--lock-gpu-clocks"),
    "memory_clock_mhz": ("memory clock", "--lock-memory-clocks"),
}
"""What each is called, and the option of nvidia-smi that locks it."""


@run_rule("TR905", "GPU clocks moved", order=0, thresholds=("clock_moved",))
def judge(case: Case) -> Claim | str:
    """One finding with all that moved by more than the threshold; silent where no clock was sampled."""
    evidence, locks = [], []
    for name, (words, option) in _CLOCKS.items():
        clean: Spread | None = getattr(case.clocks, name, None)
        profiled: Spread | None = getattr(case.clocks_profiled, name, None)
        if clean is None or not clean.median > 0:
            continue
        moved = list(_moved(words, clean, profiled, case.thresholds.clock_moved))
        if moved:
            evidence.append(", and ".join(moved))
            # The lowest of both is one that the board can hold.
            locks.append(f"{option}={min(clean.median, profiled.median if profiled else clean.median):.0f}")
    if evidence:
        return doubt(
            f"{'; '.join(evidence)}; {_samples(case)}",
            f"lock the clocks while measuring (nvidia-smi {' '.join(locks)}), and warm up longer (--warmUp)",
            brief="GPU clocks moved",
        )
    if case.clocks is None:
        return "the rule is about the whole run, in which no clock of a GPU was sampled"
    return (
        f"the rule is about the whole run: no clock moved by more than {format_percent(case.thresholds.clock_moved)}; "
        f"{_samples(case)}"
    )


def _moved(words: str, clean: Spread, profiled: Spread | None, most: float) -> Iterator[str]:
    """In words, the change of one clock within the clean window and from there to the profiled one."""
    within = (clean.max - clean.min) / clean.median
    if within > most:
        yield (
            f"{words} from {clean.min:,.0f} to {clean.max:,.0f} MHz while the latency was measured, "
            f"{format_percent(within)} of its median {clean.median:,.0f} MHz"
        )
    if profiled is not None and abs(profiled.median / clean.median - 1) > most:
        yield (
            f"{words} {profiled.median:,.0f} MHz while the kernels were timed, "
            f"{format_percent(profiled.median / clean.median)} of the {clean.median:,.0f} MHz of the latency"
        )


def _samples(case: Case) -> str:
    clean, profiled = case.clocks, case.clocks_profiled
    counts = [str(window.samples) for window in (clean, profiled) if window is not None]
    return f"samples: {' and '.join(counts)}"
