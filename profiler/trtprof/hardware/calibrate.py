"""The ceilings of this host, measured through the runtime that the model runs on.

A CPU has no datasheet here: what it can do at best is the best that it was seen doing, at any of
the thread counts tried (one, the run's own, all usable cores). Every ceiling is the highest of a
few repeats, each the median of many runs; floors are medians. The work is done in child processes.

What each ceiling is:

* Multiply-accumulates by dtype: the best of products and convolutions of several shapes.
* Other arithmetic by dtype: the best elementwise rate that was measured (quantisation, pooling), but
  never below that of multiply-accumulates. Both run on the same vector units, where a fused
  multiply-add counts two and any other instruction at most one for each value. Half of it would be
  no bound: a kernel does less than the definition that is counted (one fused multiply-add and a
  saturating pack where quantisation counts divide, round, add and two compares).
* Special functions: the best of every op that evaluates the function, on tensors in the cache.
* DRAM and last-level cache: the best of reading, copying, adding and writing, so that no pattern is
  faster; what each of them reaches is kept beside it. Bytes are counted as for a model, so that
  the read of a line before a write to it (write-allocate) lowers the rate of the patterns that need
  it. Those that write in place, or only write zeros, do not; the others have ceilings of
  their own, `Roof.dram_out_of_place_bytes_per_s`.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Callable, Mapping, Sequence

from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.progress import Line, Progress, unheard
from trtprof.base.records import BUSY_SHARE, Ceilings, Device, Roof, ceiling_name
from trtprof.base.units import format_bytes, format_ns
from trtprof.hardware import _fit, calibration
from trtprof.hardware._exchange import FLOOR_SECONDS, Measured, MeasureRequest
from trtprof.hardware.device import clock_is_stated, host_cpu, llc_instance_bytes
from trtprof.runtime import child

Measure = Callable[[MeasureRequest], Measured]

SECONDS = 11.0  # At most this for the ceilings of one thread count, except that every one is measured twice

OTHER_SECONDS = 2.0
"""About what a thread count takes on top: a process that starts, and second repeats behind the end of the time."""

QUICK_SECONDS = 3.0  # The same as `SECONDS` for a quick set

QUICK_BAND = 10
"""Percent by which products in fp32, memory and the cache of a full set lay above those of a quick one at most: -1, 4
and 0 % in medians of four sets each in turns, 6 % by pattern, on two cores of an EPYC that nothing else used
(``scripts/bench/calibration_spread.py --quick 4``). A quick set may find half of the rate of products in fp64 and int8,
which lay 97 and 78 % above; one special function 33 %, other arithmetic up to 20 %."""

TIMEOUT_SECONDS = 600.0  # After this a child is given up: the slowest first round is far below it

_MEMORY = ("cache", "dram")
_OUT_OF_PLACE = {"read": ("dram read",), "add": ("dram add", "dram cast"), "copy": ("dram copy",)}
"""Patterns by the share of their bytes that they write; see `Roof.dram_out_of_place_bytes_per_s`."""
"""Patterns whose kernels read, and write to other memory than they read."""


def calibrate(
    threads: int,
    *,
    progress: Progress | None = None,
    seconds: float | None = None,
    quick: bool = False,
    device: Device | None = None,
    measure: Measure | None = None,
) -> Ceilings:
    """Measure the ceilings of this host.

    ``attainable`` is what was reached with ``threads`` threads, ``best`` the highest at one thread, ``threads`` threads
    and all usable cores. ``measurements`` holds all that ``threads`` threads reached, and as ``best NAME`` the ceilings
    that another thread count reached.

    Args:
        threads: Threads inside an op; 0 takes one a usable core, as the runtime does.
        seconds: Time for each thread count; more makes the repeats agree better. None takes `SECONDS`, or
            `QUICK_SECONDS`.
        quick: Measure a quick set, for a first result: at ``threads`` threads alone, see `MeasureRequest.quick`.
        measure: Measures one thread count; None does it in a child process.
    """
    device = device or host_cpu()
    threads = resolve_threads(threads, device)
    say = progress or unheard
    counts = [threads] if quick else sorted({1, threads, max(device.cores, 1)})
    if seconds is None:
        seconds = QUICK_SECONDS if quick else SECONDS
    each = seconds + OTHER_SECONDS
    what = "a quick set of this host's ceilings" if quick else "this host's ceilings"
    say(Line(f"measuring {what} at {_list(counts)} threads", each * len(counts) + FLOOR_SECONDS))
    measured: dict[int, Measured] = {}
    for at, count in enumerate(counts, start=1):
        cache = _reachable_cache(device, count)
        request = MeasureRequest(
            threads=count,
            seconds=seconds,
            cache_bytes=cache,
            memory_bytes=device.memory_bytes,
            with_profiler=count == threads,
            quick=quick,
        )
        which = f" ({at} of {len(counts)})" if len(counts) > 1 else ""
        later = each * (len(counts) - at) + FLOOR_SECONDS * (threads in counts[at:])
        result = measure(request) if measure else measure_in_child(request, _behind(say, count, which, later))
        _complete(result, with_profiler=request.with_profiler)
        measured[count] = result
        say(f"{_threads(count)}: {_summary(result)}")
        if _disturbed(result, device):
            say(f"{_threads(count)}: other processes kept {result.others_cpus:.1f} CPUs busy; the ceilings may be low")
    return merge(device, threads, measured, quick=quick, now=dt.datetime.now(dt.UTC))


def resolve_threads(threads: int, device: Device) -> int:
    """The thread count that 0 stands for: one a usable core."""
    if threads < 0:
        raise UsageError(
            f"a thread count of {threads} is not usable", fix="give 0 (one thread a core) or a positive number"
        )
    return threads or max(device.cores, 1)


def merge(
    device: Device, threads: int, measured: Mapping[int, Measured], *, now: dt.datetime, quick: bool = False
) -> Ceilings:
    """One `Ceilings` of the readings at several thread counts; ``threads`` must be one of them."""
    own = measured[threads]
    # The run's own count wins a tie, so that best and attainable name the same measurement.
    order = sorted(measured, key=lambda count: count != threads)
    winners = {
        key: max((count for count in order if key in measured[count].readings), key=lambda c: _value(measured[c], key))
        for count in order
        for key in measured[count].readings
        if key.startswith(("tensor ", "vector ", "special ")) or key in _MEMORY
    }
    best = {key: measured[count].readings[key] for key, count in winners.items()}
    measurements = {
        key: calibration.measurement(key, own.readings[key], threads) for key in calibration.ordered(own.readings)
    }
    for key in calibration.ordered(winners):
        if winners[key] != threads:
            measurements[f"best {key}"] = calibration.measurement(key, best[key], winners[key])
    return Ceilings(
        device=device.name,
        source=_source(device, threads, measured, winners, now, quick=quick),
        measured_at=now.isoformat(timespec="seconds"),
        best=_roof(best),
        attainable=_roof(own.readings),
        cache_bytes=_reachable_cache(device, threads),
        threads=threads,
        fp32_flops_by_threads={str(count): measured[count].readings["tensor fp32"].value for count in sorted(measured)},
        launch_ns=own.readings["launch"].value,
        call_ns=own.readings["call"].value,
        profiler_ns=own.readings["profiler"].value,
        profiler_tensor_ns=own.readings["profiler tensor"].value,
        profiler_gap_ns=own.readings["profiler gap"].value,
        probe_ns=own.readings["probe"].value,
        measurements=measurements,
        clocks_mhz=_clocks(list(measured.values())),
        extent="quick" if quick else "full",
        band=QUICK_BAND if quick else 0,
        cpus=_usable(device),
        others_cpus=max((m.others_cpus for m in measured.values() if m.others_cpus is not None), default=None),
    )


def _behind(say: Progress, count: int, which: str, later_s: float) -> Progress:
    """What a thread count tells, with the time that those behind it will take."""

    def told(text: str) -> None:
        if isinstance(text, Line):
            say(Line(f"{_threads(count)}{which}: {text}", text.left_s + later_s))

    return told


def measure_in_child(request: MeasureRequest, progress: Progress = unheard) -> Measured:
    """Measure one thread count in a fresh Python process; ``progress`` is told what it does."""
    return child.ask(
        "trtprof.hardware._measure",
        request,
        Measured,
        what=f"the calibration with {_threads(request.threads)}",
        fix="try fewer threads, or report this with the output of `trtprof doctor`",
        within_s=TIMEOUT_SECONDS,
        say=progress,
    )


def _disturbed(result: Measured, device: Device) -> bool:
    return result.others_cpus is not None and result.others_cpus > BUSY_SHARE * _usable(device)


def _usable(device: Device) -> int:
    return int(device.detail.get("logical_cpus", device.cores)) or 1


_PROFILER = ["profiler", "profiler tensor", "profiler gap"]


def _complete(result: Measured, *, with_profiler: bool) -> None:
    needed = ["tensor fp32", "special exp", "dram", "cache", "launch", "call", "probe", *(_PROFILER * with_profiler)]
    lacking = [key for key in needed if key not in result.readings]
    if lacking:
        raise CaptureError(
            f"no ceiling for {_list(lacking)} could be resolved with {_threads(result.threads)}",
            why="every run of it was over before the clock could tell it from an empty call",
            fix="measure again with --recalibrate on an idle machine",
        )


def _reachable_cache(device: Device, threads: int) -> int:
    """Last-level cache in bytes that ``threads`` threads reach: one instance a thread at most."""
    each = llc_instance_bytes(device)
    return min(device.cache_bytes, each * threads)


def _value(measured: Measured, key: str) -> float:
    return measured.readings[key].value


def _roof(readings: Mapping[str, _fit.Reading]) -> Roof:
    tensor, arithmetic = calibration.rates_of("tensor", readings), calibration.rates_of("vector", readings)
    vector = {dtype: max(tensor[dtype], arithmetic.get(dtype, 0.0)) for dtype in tensor}
    for peaks in (tensor, vector):
        if "int8" in peaks:
            peaks["uint8"] = peaks["int8"]
    return Roof(
        tensor_flops_per_s=tensor,
        vector_flops_per_s=vector,
        special_per_s=calibration.rates_of("special", readings),
        dram_bytes_per_s=readings["dram"].value,
        dram_out_of_place_bytes_per_s={
            pattern: max(readings[key].value for key in keys if key in readings)
            for pattern, keys in _OUT_OF_PLACE.items()
            if any(key in readings for key in keys)
        },
        cache_bytes_per_s=readings["cache"].value,
    )


def _clocks(measured: Sequence[Measured]) -> dict[str, float]:
    """The first clock before, the median of those during, the last one after; in the order measured."""
    found = {name: [m.clocks_mhz[name] for m in measured if name in m.clocks_mhz] for name in ("before", "after")}
    during = [m.clocks_mhz["during"] for m in measured if "during" in m.clocks_mhz]
    return {
        **({"before": found["before"][0]} if found["before"] else {}),
        **({"during": statistics.median(during)} if during else {}),
        **({"after": found["after"][-1]} if found["after"] else {}),
    }


def _summary(result: Measured) -> str:
    keys = {"fp32": "tensor fp32", "exp": "special exp", "dram": "dram", "cache": "cache"}
    rates = [f"{ceiling_name(name)} {calibration.rate(key, result.readings[key].value)}" for name, key in keys.items()]
    return f"{', '.join(rates)}, an empty node {format_ns(result.readings['launch'].value)}"


def _source(
    device: Device,
    threads: int,
    measured: Mapping[int, Measured],
    winners: Mapping[str, int],
    now: dt.datetime,
    *,
    quick: bool,
) -> str:
    own = measured[threads]
    parts = []
    for key in (key for key in calibration.ordered(winners) if _is_named(key)):
        reading = measured[winners[key]].readings[key]
        where = f"{reading.what}, {_threads(winners[key])}"
        parts.append(f"{ceiling_name(key.removeprefix('tensor '))} {calibration.rate(key, reading.value)} ({where})")
    text = (
        f"{'A quick set, measured' if quick else 'Measured'} on this host on {now:%Y-%m-%d} through ONNX Runtime "
        f"{own.runtime} (CPU) with {_threads(threads)}. "
        f"A CPU has no datasheet here: ideal is the best ceiling measured on it, at {_list(sorted(measured))} threads: "
        f"{'; '.join(parts)}. Other arithmetic than products is bounded by its own "
        f"rate or, where that is higher, by theirs. Last-level cache: {device.detail.get('llc', 'unknown')}."
    )
    if quick:
        text += (
            f" Products in fp32 and memory of a full one lie up to {QUICK_BAND} % above it, products in fp64 and int8 "
            "up to twice as high: `trtprof calibrate` measures one."
        )
    cache = _reachable_cache(device, threads)
    if cache and own.working_set < 4 * cache:
        text += (
            f" The largest working set, {format_bytes(own.working_set)}, is less than four times the cache: "
            "the DRAM bandwidth may hold some of the cache's."
        )
    loose = [
        ceiling_name(key.removeprefix("tensor "))
        for key in calibration.ordered(own.readings)
        if _is_named(key) and calibration.is_loose(own.readings[key])
    ]
    if loose:
        named = _list(loose)
        text += f" Repeats lie more than {2 * _fit.AGREEMENT:.0%} apart, or there is but one, for {named}."
    busy = max((m.others_cpus or 0.0 for m in measured.values() if _disturbed(m, device)), default=0.0)
    if busy:
        text += f" Other processes kept {busy:.1f} CPUs busy meanwhile: the ceilings may be low (--recalibrate)."
    clocks = _clocks(list(measured.values()))
    if not clocks:
        text += " The system does not tell the clock."
    elif clock_is_stated(device):
        text += " The clock is the one that the hypervisor states, no reading; the speed probe shows how it moved."
    return text


def _is_named(key: str) -> bool:
    """Whether the source text names it; all others are in the measurements."""
    return key.startswith("tensor ") or key in _MEMORY


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _list(items: list[int] | list[str]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
