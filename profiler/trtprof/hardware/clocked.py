"""Ceilings of a GPU at the clocks that it ran at.

A peak is what a unit does in a cycle times a clock. That of a datasheet is for the boost clock (for the tensor cores
some vendors' tables take a lower one, `GpuSpec.tensor_mhz`), one that was measured for the clock meanwhile
(`Ceilings.clocks_mhz`). What a run could attain is the same at the clock of the run:

* Arithmetic and special functions go with the clock of the SMs.
* So does the L2. That is an assumption: crossbar and L2 have a clock of their own (the domains GPCCLK, XBARCLK and
  SYSCLK of NVIDIA's nvgpu driver), which NVML does not tell. It is taken to keep its ratio to that of the SMs, as in
  `hardware.gpus.ceilings`, and as where NVIDIA gives the bandwidth of an L2 in bytes per clock (A100 whitepaper).
* DRAM goes with the clock of the memory. NVML counts it in units of its own (the rate of a datasheet is a multiple of
  it, which differs by kind of memory), so that only two readings of NVML are compared.
* The launch of a kernel is left alone: no measurement is known of how it depends on the clocks, and a part of it is
  time of the front end, which has another clock than the SMs.

A calibration keeps one clock, the median over all that it measured. Ceilings that were reached at another one, as
those of products where power is capped, are off by as much once they are scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from trtprof.base.records import Ceilings, ClockSummary, GpuSpec, Roof

MEMORY = "memory"  # Key of `Ceilings.clocks_mhz` under which a calibration keeps the clock of the memory

_DURING = "during"


class _Clock(NamedTuple):
    """A clock of the run, in MHz: the median, and the highest that was seen in the same window."""

    median: float
    highest: float


class _Factors(NamedTuple):
    """What ceilings are multiplied by: those that count as attainable, and those that bound ``ideal``.

    ``measured_best`` is for a best that is no datasheet's: the measured one, which was higher.
    """

    attainable: float = 1.0
    best: float = 1.0
    measured_best: float = 1.0


def at_clock(
    ceilings: Ceilings,
    during: ClockSummary | None,
    spec: GpuSpec,
    *,
    profiled: ClockSummary | None = None,
    max_memory_clock_mhz: float | None = None,
) -> tuple[Ceilings, tuple[str, ...]]:
    """Ceilings of a GPU as attainable at the clocks of a run.

    ``attainable`` is scaled by the median clock, up and down. ``best`` bounds ``ideal`` and is never lowered: a kernel
    that a low clock slows down has lost that time.

    Args:
        during: Clocks of the run; None where they were not sampled.
        profiled: Clocks while the kernels were timed, where that is another time than ``during``. Kernels can only be
            held against the clock that they ran at, so these medians are taken, as far as they are told.
        max_memory_clock_mhz: `LiveGpu.max_memory_clock_mhz`, which the bandwidth of a datasheet is for; None where it
            is not known.
    """
    windows = [window for window in (profiled, during) if window is not None]
    if not windows:
        return ceilings, ()
    sm, memory = (_clock(windows, name) for name in ("sm_clock_mhz", "memory_clock_mhz"))
    if sm is None and memory is None:
        why = dict.fromkeys(note for window in windows for note in window.notes)
        return ceilings, (": ".join(["ceilings are not scaled to the clocks of the run, which are not known", *why]),)

    calibrated = ceilings.origin == "measured"
    sm_mhz = ceilings.clocks_mhz.get(_DURING) if calibrated else spec.boost_mhz.value
    memory_mhz = ceilings.clocks_mhz.get(MEMORY) if calibrated else max_memory_clock_mhz
    cores = _factors(sm, sm_mhz, spec.boost_mhz.value)
    tensor = _factors(sm, sm_mhz if calibrated else spec.tensor_mhz.value, spec.tensor_mhz.value)
    dram = _factors(memory, memory_mhz, max_memory_clock_mhz)
    notes = (
        *_of_sms(sm, sm_mhz, spec, windows, calibrated=calibrated, rises=max(cores.best, tensor.best) > 1),
        *_of_memory(memory, memory_mhz, calibrated=calibrated),
    )
    if {*cores, *tensor, *dram} == {1.0}:
        return ceilings, notes
    best = _raised(ceilings, cores, tensor, dram)
    scaled = msgspec.structs.replace(
        ceilings,
        source=f"{ceilings.source.removesuffix('.')}; scaled to the clocks of the run",
        best=best,
        attainable=_scaled(ceilings.attainable, best, cores, tensor, dram),
    )
    return scaled, notes


def sm_clock_mhz(during: ClockSummary | None, profiled: ClockSummary | None = None) -> float | None:
    """The clock of the SMs that `at_clock` scales to, in MHz; None where nothing tells it."""
    found = _clock([window for window in (profiled, during) if window is not None], "sm_clock_mhz")
    return None if found is None else found.median


def _clock(windows: Iterable[ClockSummary], name: str) -> _Clock | None:
    """A clock in the first window that tells it."""
    told = (getattr(window, name) for window in windows)
    spread = next((spread for spread in told if spread is not None and spread.median > 0), None)
    return None if spread is None else _Clock(spread.median, spread.max)


def _factors(clock: _Clock | None, reference_mhz: float | None, rated_mhz: float | None) -> _Factors:
    """How ceilings for ``reference_mhz`` and a datasheet for ``rated_mhz`` change with a clock."""
    if clock is None or not reference_mhz:
        return _Factors()
    return _Factors(
        attainable=clock.median / reference_mhz,
        best=max(clock.highest / rated_mhz, 1.0) if rated_mhz else 1.0,
        measured_best=max(clock.highest / reference_mhz, 1.0),
    )


def _raised(ceilings: Ceilings, cores: _Factors, tensor: _Factors, dram: _Factors) -> Roof:
    """The roof that bounds ``ideal``, where the clocks were above those that it is for."""
    calibrated = ceilings.origin == "measured"

    def one(rate: float, measured: float | None, factors: _Factors) -> float:
        own = calibrated and measured is not None and rate <= measured
        return rate * (factors.measured_best if own else factors.best)

    return _with_rates(ceilings.best, ceilings.attainable, cores, tensor, dram, one)


def _scaled(roof: Roof, best: Roof, cores: _Factors, tensor: _Factors, dram: _Factors) -> Roof:
    """What is attainable at the clocks, nowhere raised above ``best``: a calibration may have been at a low clock."""

    def one(rate: float, bound: float | None, factors: _Factors) -> float:
        return min(rate * factors.attainable, max(rate, rate if bound is None else bound))

    return _with_rates(roof, best, cores, tensor, dram, one)


_One = Callable[[float, float | None, _Factors], float]


def _with_rates(roof: Roof, other: Roof, cores: _Factors, tensor: _Factors, dram: _Factors, one: _One) -> Roof:
    """A roof of what ``one`` makes of each rate and of the other roof's."""

    def all_of(name: str, factors: _Factors) -> dict[str, float]:
        others = getattr(other, name)
        return {key: one(rate, others.get(key), factors) for key, rate in getattr(roof, name).items()}

    vector = all_of("vector_flops_per_s", cores)
    return Roof(
        tensor_flops_per_s=_tensor(roof, all_of("tensor_flops_per_s", tensor), vector),
        fp32_accumulate_flops_per_s=all_of("fp32_accumulate_flops_per_s", tensor),
        vector_flops_per_s=vector,
        special_per_s=all_of("special_per_s", cores),
        dram_bytes_per_s=one(roof.dram_bytes_per_s, other.dram_bytes_per_s, dram),
        dram_out_of_place_bytes_per_s=all_of("dram_out_of_place_bytes_per_s", dram),
        cache_bytes_per_s=one(roof.cache_bytes_per_s, other.cache_bytes_per_s, cores),
    )


def _tensor(roof: Roof, scaled: dict[str, float], vector: Mapping[str, float]) -> dict[str, float]:
    """Rates of products: those that run on the CUDA cores go with these, where the tensor cores' clock is another."""
    own = roof.vector_flops_per_s
    return {
        name: vector[name] if own.get(name) == roof.tensor_flops_per_s[name] else rate for name, rate in scaled.items()
    }


# --- in words -------------------------------------------------------------------------------


def _of_sms(
    sm: _Clock | None,
    reference_mhz: float | None,
    spec: GpuSpec,
    windows: Iterable[ClockSummary],
    *,
    calibrated: bool,
    rises: bool,
) -> Iterable[str]:
    if sm is None:
        yield "peaks and L2 bandwidth are not scaled to the clock of the SMs, which the driver does not tell"
        return
    ran = f"the SMs ran at {_mhz(sm.median)}"
    if not reference_mhz:
        yield f"{ran}; peaks are not scaled to it, as the clock at which they were measured is not known"
        return
    tensor_mhz = reference_mhz if calibrated else spec.tensor_mhz.value
    if sm.median == reference_mhz == tensor_mhz and not rises:
        return
    peaks = "the peaks were measured at" if calibrated else "the peaks are for"
    ran += f", {_share(sm.median / reference_mhz)} of the {_mhz(reference_mhz)} that {peaks}"
    if tensor_mhz != reference_mhz:
        ran += f" ({_mhz(tensor_mhz)} those of the tensor cores)"
    held = _held_down(windows) if sm.median < reference_mhz else ""
    scaled = "peaks and L2 bandwidth that count as attainable are scaled by it"
    if rises:
        scaled += f"; ideal is at {_mhz(sm.highest)}, the highest clock seen, where that is more than its peaks are for"
    yield f"{'; '.join(filter(None, (ran, held)))}: {scaled}"


def _of_memory(memory: _Clock | None, reference_mhz: float | None, *, calibrated: bool) -> Iterable[str]:
    if memory is None or not reference_mhz:
        why = (
            "which the driver does not tell" if memory is None
            else f"{_mhz(memory.median)}, as the one at which it was measured is not known" if calibrated
            else f"{_mhz(memory.median)}, as the one that the datasheet is for is not known in NVML's count"
        )  # fmt: skip
        yield f"DRAM bandwidth is not scaled to the clock of the memory, {why}"
    elif memory.median != reference_mhz:
        yield (
            f"the memory ran at {_mhz(memory.median)}, {_share(memory.median / reference_mhz)} of the "
            f"{_mhz(reference_mhz)} that its bandwidth {'was measured at' if calibrated else 'is for'}: DRAM "
            "bandwidth that counts as attainable is scaled by it"
        )


def _held_down(windows: Iterable[ClockSummary]) -> str:
    """What held the clock down, in the first window that tells it."""
    reasons = next((window.reasons for window in windows if window.reasons is not None), {})
    held = [f"{reason} ({_share(share)} of the time)" for reason, share in reasons.items() if reason != "idle"]
    return f"it was held down by {', '.join(held)}" if held else ""


def _mhz(clock: float) -> str:
    return f"{clock:,.0f} MHz"


def _share(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"
