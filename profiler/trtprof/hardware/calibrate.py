"""The ceilings of this host, measured through the runtime that the model runs on.

A CPU has no datasheet here: what it can do at best is the best that it was seen doing, at any of the thread counts
tried. Every ceiling is that of the fastest of many runs: other processes only take from it. The work is done in child
processes. `calibrate` measures a full set at one thread, the run's own count and all usable cores; a run measures what
its model needs, at its own, in short rounds between its other measurements (`Calibration`).

What each ceiling is:

* Multiply-accumulates by dtype: the best of products and convolutions of several shapes.
* Other arithmetic by dtype: the best elementwise rate that was measured (quantisation, pooling), but never below that
  of multiply-accumulates. Both run on the same vector units, where a fused multiply-add counts two and any other
  instruction at most one for each value. Half of it would be no bound: a kernel does less than the definition that is
  counted (one fused multiply-add and a saturating pack where quantisation counts divide, round, add and two compares).
* Special functions: the best of every op that evaluates the function, on tensors in the cache.
* DRAM and last-level cache: the best of reading, copying, adding and writing, so that no pattern is faster; what each
  of them reaches is kept beside it. Bytes are counted as for a model, so that the read of a line before a write to it
  (write-allocate) lowers the rate of the patterns that need it. Those that write in place, or only write zeros, do not;
  the others have ceilings of their own, `Roof.dram_out_of_place_bytes_per_s`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from trtprof.base.errors import CaptureError
from trtprof.base.peaks import wider
from trtprof.base.progress import Line, Progress, unheard
from trtprof.base.records import BUSY_SHARE, Ceilings, Device, Measurement, Roof, Work, ceiling_name
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_bytes, format_ns
from trtprof.hardware import _fit, calibration, store
from trtprof.hardware._exchange import FLOOR_SECONDS, Measured, MeasureRequest
from trtprof.hardware.device import clock_is_stated, host_cpu, llc_instance_bytes, others_cpus_now, resolve_threads
from trtprof.runtime import child

Measure = Callable[[MeasureRequest], Measured]

SECONDS = 11.0  # At most this for the ceilings of one thread count, except that every one is measured twice

OTHER_SECONDS = 2.0
"""About what a thread count takes on top: a process that starts, and second repeats behind the end of the time."""

QUICK_BAND = 15
FULL_BAND = 10
"""Percent by which sets of one machine differ: of three quick sets on two cores of an EPYC (``calibration_spread.py
--only-quick 3``) the highest lay above the lowest by 1 % (fp32, int8), 2 % (cache), 1 to 15 % (special functions; log
27 %), 50 % (fp64), 20 to 62 % (DRAM, which has a band of its own)."""

_PROBES = ("probe", "together", "handover")
_PROBE_FLOP = 2 * 256**3  # Of `trtprof.runtime.speed_probe`

PARALLEL = 0.7
"""Rate of all threads over that of one as often from which on no CPU was taken away, where the system does not tell."""

TIMEOUT_SECONDS = 600.0  # After this a child is given up: the slowest first round is far below it

_MEMORY = ("cache", "dram")
_OUT_OF_PLACE = {"read": ("dram read",), "add": ("dram add", "dram cast"), "copy": ("dram copy",)}
"""Patterns whose kernels read, and write to other memory than they read."""


def needed_ceilings(works: Iterable[Work | None]) -> frozenset[str]:
    """Names of the ceilings that bound this work, as `Ceilings.measurements` has them, and of the floors."""
    needed = {"tensor fp32", *_MEMORY, "launch", "call", *_PROFILER}
    for work in works:
        if work is None:
            continue
        if work.tensor_flops or work.vector_flops:
            needed.add(f"tensor {wider(work.dtype, _DTYPES)}")
        if work.special:
            # The fastest of them bounds those without a ceiling of their own.
            needed |= {"special exp", *(f"special {function}" for function in work.special)}
    return frozenset(needed)


_DTYPES = ("fp32", "fp64", "fp16", "bf16", "int8")


class Calibration:
    """The ceilings that a model needs, measured in short rounds; a context manager.

    Between rounds the process that measures sleeps. What is kept of earlier runs is not measured again.
    """

    def __init__(
        self,
        threads: int,
        needed: Collection[str],
        *,
        recalibrate: bool = False,
        progress: Progress | None = None,
        device: Device | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        """Look up what is kept of what is ``needed`` (`needed_ceilings`); 0 ``threads`` are one a usable core."""
        self._device = device or host_cpu()
        self._threads = resolve_threads(threads, self._device)
        self._say = progress or unheard
        self._shelf = store.of_host(self._threads, cache_dir=cache_dir, device=self._device)
        self._held = self._shelf.read(self._say)
        if self._held is not None and self._held.disturbed and _quiet(self._held.cpus):
            self._say("the kept ceilings were measured while others used the CPUs; now it is quiet")
            self._held = None
        kept = {} if self._held is None or recalibrate else self._held.measurements
        self._missing = tuple(sorted(set(needed) - kept.keys()))
        self._measured: Measured | None = None
        self._child: child.Dialogue | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._missing:
            scratch = self._stack.enter_context(scratch_folder())
            # The child is ended by a kill: its files lie in here, so that they go too.
            where = {"TMPDIR": str(scratch), **child.ONE_THREAD}
            self._child = child.Dialogue("trtprof.hardware._measure", scratch / "log.txt", where)
            self._stack.callback(self._child.end)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def round(self) -> None:
        """Measure for about a second, the first time two; nothing where all that is needed is kept."""
        if self._child is None:
            return
        if self._measured is None:
            self._say(f"measuring {len(self._missing)} ceilings and floors of this host at {_threads(self._threads)}")
        request = MeasureRequest(
            threads=self._threads,
            seconds=0.0,
            cache_bytes=_reachable_cache(self._device, self._threads),
            memory_bytes=self._device.memory_bytes,
            needed=self._missing,
        )
        self._child.send(msgspec.json.encode(request))
        try:
            told = self._child.receive(TIMEOUT_SECONDS)
        except (EOFError, TimeoutError) as error:
            raise CaptureError(
                "the calibration died", why=str(error), fix="report this with the output of `trtprof doctor`"
            ) from None
        said = msgspec.json.decode(told, type=Measured | child.Failure)
        if isinstance(said, child.Failure):
            raise said.error()
        self._measured = said

    @property
    def best(self) -> tuple[float, float, float]:
        """The fastest speed probes that are kept or were measured; see `best_of`."""
        return best_of(
            self._measured.readings if self._measured is not None else {},
            self._held.measurements if self._held is not None else {},
        )

    def finish(self) -> Ceilings:
        """The ceilings: the best of those that were kept and those that were measured, which are kept from now on."""
        self._stack.close()
        if self._measured is None:
            if self._held is None or self._missing:
                raise ValueError("there was no round")
            self._say(
                f"ceilings of {self._held.device} measured {self._held.measured_at} (--recalibrate measures again)"
            )
            return self._held
        _complete(self._measured, self._missing)
        now = dt.datetime.now(dt.UTC)
        found = merge(
            self._device, self._threads, {self._threads: self._measured}, now=now, quick=True, held=self._held
        )
        self._say(_summary(found))
        self._shelf.write(found, self._say)
        return found


def best_of(*found: Mapping[str, _fit.Reading | Measurement]) -> tuple[float, float, float]:
    """The fastest speed probes `speed_probe.probe_ns` and `together_ns` among some readings, in ns; 0 for none."""
    core, together, handover = (
        min((each[name].value for each in found if name in each), default=0.0) for name in _PROBES
    )
    return core, together, handover


def _quiet(cpus: int) -> bool:
    """Whether others leave the CPUs alone just now; False where the system does not tell."""
    others = others_cpus_now()
    return others is not None and others <= BUSY_SHARE * cpus


def calibrate(
    threads: int,
    *,
    progress: Progress | None = None,
    seconds: float | None = None,
    device: Device | None = None,
    measure: Measure | None = None,
    held: Ceilings | None = None,
) -> Ceilings:
    """Measure a full set of the ceilings of this host, or take what is better in the one that is ``held``.

    ``attainable`` is what was reached with ``threads`` threads (0: one a usable core), ``best`` the highest at one
    thread, ``threads`` threads and all usable cores, which is in ``measurements`` as ``best NAME``. ``seconds`` are
    for each thread count.
    """
    device = device or host_cpu()
    threads = resolve_threads(threads, device)
    say = progress or unheard
    counts = sorted({1, threads, max(device.cores, 1)})
    each = (SECONDS if seconds is None else seconds) + OTHER_SECONDS
    say(Line(f"measuring this host's ceilings at {_list(counts)} threads", each * len(counts) + FLOOR_SECONDS))
    measured: dict[int, Measured] = {}
    for at, count in enumerate(counts, start=1):
        request = MeasureRequest(
            threads=count,
            seconds=SECONDS if seconds is None else seconds,
            cache_bytes=_reachable_cache(device, count),
            memory_bytes=device.memory_bytes,
            with_profiler=count == threads,
        )
        which = f" ({at} of {len(counts)})" if len(counts) > 1 else ""
        later = each * (len(counts) - at) + FLOOR_SECONDS * (threads in counts[at:])
        result = measure(request) if measure else measure_in_child(request, _behind(say, count, which, later))
        _complete(result, ["tensor fp32", "special exp", *_MEMORY, "launch", "call", "probe"])
        if request.with_profiler:
            _complete(result, _PROFILER)
        measured[count] = result
        if result.others_cpus is not None and result.others_cpus > BUSY_SHARE * _usable(device):
            say(f"{_threads(count)}: other processes kept {result.others_cpus:.1f} CPUs busy; the ceilings may be low")
    found = merge(device, threads, measured, now=dt.datetime.now(dt.UTC), held=held)
    say(_summary(found))
    return found


def merge(
    device: Device,
    threads: int,
    measured: Mapping[int, Measured],
    *,
    now: dt.datetime,
    quick: bool = False,
    held: Ceilings | None = None,
) -> Ceilings:
    """One `Ceilings` of the readings at several thread counts, ``threads`` among them, and the best of ``held``."""
    own = measured[threads]
    found = {key: calibration.measurement(key, own.readings[key], threads) for key in own.readings}
    for count in measured:
        for key, reading in measured[count].readings.items():
            name = f"best {key}"
            if _is_ceiling(key) and reading.value > found.get(name, found.get(key, _NOTHING)).value:
                found[name] = calibration.measurement(key, reading, count)
    others = [m.others_cpus if m.others_cpus is not None else _lost(m) for m in measured.values()]
    others_cpus = max((one for one in others if one is not None), default=None)
    quick = quick and (held is None or held.extent == "quick")
    if held is not None:
        # What adds nothing can only improve a set that was measured in quiet.
        most_or_least = max if found.keys() - held.measurements.keys() else min
        known = [one for one in (others_cpus, held.others_cpus) if one is not None]
        others_cpus = most_or_least(known, default=None)
        found = {key: _better(found.get(key), held.measurements.get(key)) for key in {**held.measurements, **found}}
    found = {key: found[key] for key in calibration.ordered(found)}
    best = {key: _better(found[key], found.get(f"best {key}")) for key in found if _is_ceiling(key)}
    by_threads = {
        str(count): m.readings["tensor fp32"].value
        for count, m in sorted(measured.items())
        if "tensor fp32" in m.readings
    }
    ceilings = Ceilings(
        device=device.name,
        source="",
        measured_at=now.isoformat(timespec="seconds"),
        best=_roof(best),
        attainable=_roof(found),
        cache_bytes=_reachable_cache(device, threads),
        threads=threads,
        fp32_flops_by_threads={**(held.fp32_flops_by_threads if held is not None else {}), **by_threads},
        launch_ns=found["launch"].value,
        call_ns=found["call"].value,
        profiler_ns=found["profiler"].value,
        profiler_tensor_ns=found["profiler tensor"].value,
        profiler_gap_ns=found["profiler gap"].value,
        probe_ns=found["probe"].value,
        measurements=found,
        clocks_mhz=_clocks(list(measured.values())),
        extent="quick" if quick else "full",
        band=QUICK_BAND if quick else FULL_BAND,
        cpus=_usable(device),
        others_cpus=others_cpus,
    )
    return msgspec.structs.replace(ceilings, source=_source(device, ceilings, best, own, now))


_NOTHING = Measurement(value=0.0, unit="1/s", what="", repeats=0)


def _better(*both: Measurement | None) -> Measurement:
    """The faster of the same thing in two sets: others can only have taken from either."""
    return max(filter(None, both), key=lambda one: -one.value if one.unit == "ns" else one.value)


def _lost(result: Measured) -> float | None:
    """CPUs that were taken away, by what all threads reached together; None where they reached about all."""
    alone = _PROBE_FLOP / result.readings["probe"].value * 1e9
    reached = result.readings["tensor fp32"].value / alone if "tensor fp32" in result.readings else result.threads
    return result.threads - reached if reached < PARALLEL * result.threads else None


def _is_ceiling(key: str) -> bool:
    """Whether it bounds something: of another thread count too, it may be the best."""
    return key.startswith(("tensor ", "vector ", "special ")) or key in _MEMORY


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


def _usable(device: Device) -> int:
    return int(device.detail.get("logical_cpus", device.cores)) or 1


_PROFILER = ["profiler", "profiler tensor", "profiler gap"]


def _complete(result: Measured, needed: Iterable[str]) -> None:
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


def _roof(readings: Mapping[str, Measurement]) -> Roof:
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


def _summary(found: Ceilings) -> str:
    keys = {"fp32": "tensor fp32", "dram": "dram", "cache": "cache"}
    rates = [
        f"{ceiling_name(name)} {calibration.rate(key, found.measurements[key].value)}" for name, key in keys.items()
    ]
    return f"{_threads(found.threads)}: {', '.join(rates)}, an empty node {format_ns(found.launch_ns)}"


def _source(device: Device, found: Ceilings, best: Mapping[str, Measurement], own: Measured, now: dt.datetime) -> str:
    parts = [
        f"{ceiling_name(key.removeprefix('tensor '))} {calibration.rate(key, best[key].value)} "
        f"({best[key].what}, {_threads(best[key].threads)})"
        for key in best
        if _is_named(key) and best[key].value
    ]
    counts = _list(sorted(map(int, found.fp32_flops_by_threads)))
    text = (
        f"Measured on this host on {now:%Y-%m-%d} through ONNX Runtime {own.runtime} (CPU) with "
        f"{_threads(found.threads)}. "
        f"A CPU has no datasheet here: ideal is the best ceiling measured on it, at {counts} threads: "
        f"{'; '.join(parts)}. Other arithmetic than products is bounded by its own "
        f"rate or, where that is higher, by theirs. Last-level cache: {device.detail.get('llc', 'unknown')}."
    )
    if found.extent == "quick":
        text += " Only what the models need that ran here: `trtprof calibrate` measures a full set."
    cache = found.cache_bytes
    if cache and own.working_set < 4 * cache:
        text += (
            f" The largest working set, {format_bytes(own.working_set)}, is less than four times the cache: "
            "the DRAM bandwidth may hold some of the cache's."
        )
    loose = [
        ceiling_name(key.removeprefix("tensor "))
        for key, one in found.measurements.items()
        if _is_named(key) and (one.spread is None or one.spread > 2 * _fit.AGREEMENT)
    ]
    if loose:
        text += f" Repeats lie more than {2 * _fit.AGREEMENT:.0%} apart, or there is but one, for {_list(loose)}."
    if found.disturbed:
        text += f" Other processes kept {found.others_cpus:.1f} CPUs busy meanwhile: the ceilings may be low."
    if not found.clocks_mhz:
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
