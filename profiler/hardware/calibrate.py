"""The ceilings of this host, measured through the runtime that the model runs on.

A CPU has no datasheet here: what it can do at best is the best that it was seen doing, at any of
the thread counts tried (one, the run's own, all usable cores). Every ceiling is the highest of a
few repeats, each the median of many runs; floors are medians. The work is done in child processes.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import tempfile
from collections.abc import Callable, Mapping

import msgspec

from profiler import child
from profiler.errors import CaptureError, MissingError, UsageError
from profiler.hardware import _fit
from profiler.hardware._exchange import Failure, Measured, MeasureRequest
from profiler.hardware.device import host_cpu, llc_instance_bytes
from profiler.records import Ceilings, Device, Roof
from profiler.units import format_bytes, format_ns, format_rate

Progress = Callable[[str], None]
Measure = Callable[[MeasureRequest], Measured]

SECONDS = 8.0
"""At most this for the ceilings of one thread count, except that every one is measured twice."""

FLOOR_SECONDS = 4.0
"""About what the floors of the run's own thread count take on top."""

TIMEOUT_SECONDS = 600.0
"""After this a child is given up: the slowest first round is far below it."""

BUSY_SHARE = 0.05
"""Others that keep more than this share of the usable CPUs busy disturb the measurement."""

_FLOPS = "_flops"


def calibrate(
    threads: int,
    *,
    progress: Progress | None = None,
    seconds: float = SECONDS,
    device: Device | None = None,
    measure: Measure | None = None,
) -> Ceilings:
    """Measure the ceilings of this host.

    ``attainable`` is what was reached with ``threads`` threads, ``best`` the highest at one
    thread, ``threads`` threads and all usable cores. ``flops_per_s`` has a key for every type in
    which the runtime computes; int8 and uint8 share one measurement, a product of both.

    Args:
        threads: Threads inside an op; 0 takes one a usable core, as the runtime does.
        progress: Told in one line what is going on.
        seconds: Time for each thread count; more makes the repeats agree better.
        device: The host, when the caller has described it already.
        measure: Measures one thread count; None does it in a child process.

    Raises:
        UsageError: ``threads`` is negative.
        MissingError: The runtime is not installed or has no kernel for an op of the calibration.
        CaptureError: The measuring process failed, or a ceiling could not be resolved.
    """
    device = device or host_cpu()
    threads = resolve_threads(threads, device)
    measure = measure or measure_in_child
    say = progress or _silent
    counts = sorted({1, threads, max(device.cores, 1)})
    about = seconds * len(counts) + FLOOR_SECONDS
    say(f"measuring this host's ceilings at {_list(counts)} threads (up to {about:.0f} s)")
    measured: dict[int, Measured] = {}
    for count in counts:
        cache = _reachable_cache(device, count)
        request = MeasureRequest(
            threads=count,
            seconds=seconds,
            cache_bytes=cache,
            memory_bytes=device.memory_bytes,
            with_profiler=count == threads,
        )
        result = measure(request)
        _complete(result, with_profiler=request.with_profiler)
        measured[count] = result
        say(f"{_threads(count)}: {_summary(result)}")
        if _disturbed(result, device):
            say(f"{_threads(count)}: other processes kept {result.others_cpus:.1f} CPUs busy; the ceilings may be low")
    return merge(device, threads, measured, now=dt.datetime.now(dt.UTC))


def resolve_threads(threads: int, device: Device) -> int:
    """The thread count that 0 stands for: one a usable core.

    Raises:
        UsageError: ``threads`` is negative.
    """
    if threads < 0:
        raise UsageError(
            f"a thread count of {threads} is not usable", fix="give 0 (one thread a core) or a positive number"
        )
    return threads or max(device.cores, 1)


def merge(device: Device, threads: int, measured: Mapping[int, Measured], *, now: dt.datetime) -> Ceilings:
    """One `Ceilings` of the readings at several thread counts; ``threads`` must be one of them."""
    own = measured[threads]
    # The run's own count wins a tie, so that best and attainable name the same measurement.
    order = sorted(measured, key=lambda count: count != threads)
    winners = {
        key: max((count for count in order if key in measured[count].readings), key=lambda c: _value(measured[c], key))
        for count in order
        for key in measured[count].readings
        if _is_ceiling(key)
    }
    best = {key: measured[count].readings[key] for key, count in winners.items()}
    # One repeat has no spread, which is not the same as none.
    spread = {key: reading.spread for key, reading in sorted(own.readings.items()) if reading.repeats > 1}
    for key, count in sorted(winners.items()):
        if count != threads and best[key].repeats > 1:
            spread[f"best_{key}"] = best[key].spread
    return Ceilings(
        device=device.name,
        source=_source(device, threads, measured, winners, now),
        measured_at=now.isoformat(timespec="seconds"),
        best=_roof(best),
        attainable=_roof(own.readings),
        cache_bytes=_reachable_cache(device, threads),
        threads=threads,
        fp32_flops_by_threads={str(count): measured[count].readings["fp32_flops"].value for count in sorted(measured)},
        launch_ns=own.readings["launch"].value,
        call_ns=own.readings["call"].value,
        profiler_ns=own.readings["profiler"].value,
        profiler_tensor_ns=own.readings["profiler_tensor"].value,
        profiler_gap_ns=own.readings["profiler_gap"].value,
        probe_ns=own.readings["probe"].value,
        spread=spread,
    )


def measure_in_child(request: MeasureRequest) -> Measured:
    """Measure one thread count in a fresh Python process.

    Raises:
        MissingError: The runtime is not installed or lacks a kernel.
        CaptureError: The process failed, hung or wrote something else than its result.
    """
    command = child.command("profiler.hardware._measure", msgspec.json.encode(request).decode())
    what = f"the ceilings of this host could not be measured with {_threads(request.threads)}"
    fix = "try fewer threads, or report this with the output of `trtprof doctor`"
    try:
        # The folder is the parent's, so that it goes away even when the child is killed.
        with tempfile.TemporaryDirectory(prefix="trtprof-") as scratch:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                env={**child.environment(), "TMPDIR": scratch, "TEMP": scratch},
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise CaptureError(what, why=f"no result after {TIMEOUT_SECONDS:.0f} s", fix=fix) from None
    except OSError as error:
        raise CaptureError(what, why=f"the process did not start: {error}", fix=fix) from None
    return read_result(done.returncode, done.stdout, done.stderr, what=what, fix=fix)


def read_result(code: int, stdout: str, stderr: str, *, what: str, fix: str) -> Measured:
    """The child's result from its output, or the error that its output tells.

    Raises:
        MissingError: The child says that something is missing, or could not import a package.
        CaptureError: It failed in another way.
    """
    lines = stdout.strip().splitlines()
    result = lines[-1] if lines else ""
    why = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code == 0:
        try:
            return msgspec.json.decode(result, type=Measured)
        except msgspec.DecodeError as error:
            raise CaptureError(what, why=f"unreadable result: {error}", fix=fix) from None
    try:
        failure = msgspec.json.decode(result, type=Failure)
    except msgspec.DecodeError:
        if why.startswith(("ModuleNotFoundError", "ImportError")):
            raise MissingError(what, why=why, fix="pip install onnxruntime") from None
        ended = f"the process was ended by signal {-code}" if code < 0 else f"exit code {code}"
        raise CaptureError(what, why=why or ended, fix=fix) from None
    error_type = MissingError if code == MissingError.exit_code else CaptureError
    raise error_type(
        what, why=f"{failure.what}: {failure.why}" if failure.why else failure.what, fix=failure.fix or fix
    )


def _disturbed(result: Measured, device: Device) -> bool:
    usable = int(device.detail.get("logical_cpus", device.cores)) or 1
    return result.others_cpus is not None and result.others_cpus > BUSY_SHARE * usable


_PROFILER = ["profiler", "profiler_tensor", "profiler_gap"]


def _complete(result: Measured, *, with_profiler: bool) -> None:
    needed = ["fp32_flops", "dram", "cache", "launch", "call", "probe", *(_PROFILER * with_profiler)]
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


def _is_ceiling(key: str) -> bool:
    return key.endswith(_FLOPS) or key in ("dram", "cache")


def _value(measured: Measured, key: str) -> float:
    return measured.readings[key].value


def _roof(readings: Mapping[str, _fit.Reading]) -> Roof:
    flops = {key.removesuffix(_FLOPS): r.value for key, r in sorted(readings.items()) if key.endswith(_FLOPS)}
    if "int8" in flops:
        flops["uint8"] = flops["int8"]
    return Roof(
        flops_per_s=flops,
        dram_bytes_per_s=readings["dram"].value,
        cache_bytes_per_s=readings["cache"].value,
    )


def _rate(key: str, value: float) -> str:
    return format_rate(value, "FLOP/s" if key.endswith(_FLOPS) else "B/s")


def _summary(result: Measured) -> str:
    keys = ("fp32_flops", "dram", "cache")
    rates = [f"{key.removesuffix(_FLOPS)} {_rate(key, result.readings[key].value)}" for key in keys]
    return f"{', '.join(rates)}, an empty node {format_ns(result.readings['launch'].value)}"


def _source(
    device: Device,
    threads: int,
    measured: Mapping[int, Measured],
    winners: Mapping[str, int],
    now: dt.datetime,
) -> str:
    own = measured[threads]
    parts = []
    for key in sorted(winners, key=lambda k: (not k.endswith(_FLOPS), k)):
        reading = measured[winners[key]].readings[key]
        where = f"{reading.what}, {_threads(winners[key])}"
        parts.append(f"{key.removesuffix(_FLOPS)} {_rate(key, reading.value)} ({where})")
    text = (
        f"Measured on this host on {now:%Y-%m-%d} through ONNX Runtime {own.runtime} (CPU) with {_threads(threads)}. "
        f"A CPU has no datasheet here: ideal is the best ceiling measured on it, at {_list(sorted(measured))} threads: "
        f"{'; '.join(parts)}. Last-level cache: {device.detail.get('llc', 'unknown')}."
    )
    cache = _reachable_cache(device, threads)
    if cache and own.working_set < 4 * cache:
        text += (
            f" The largest working set, {format_bytes(own.working_set)}, is less than four times the cache: "
            "the DRAM bandwidth may hold some of the cache's."
        )
    loose = sorted(
        key for key, r in own.readings.items() if _is_ceiling(key) and (r.repeats < 2 or r.spread > 2 * _fit.AGREEMENT)
    )
    if loose:
        named = _list([key.removesuffix(_FLOPS) for key in loose])
        text += f" Repeats lie more than {2 * _fit.AGREEMENT:.0%} apart, or there is but one, for {named}."
    busy = max((m.others_cpus or 0.0 for m in measured.values() if _disturbed(m, device)), default=0.0)
    if busy:
        text += f" Other processes kept {busy:.1f} CPUs busy meanwhile: the ceilings may be low (--recalibrate)."
    return text


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _list(items: list[int] | list[str]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _silent(text: str) -> None:
    """Progress that nobody asked for."""
