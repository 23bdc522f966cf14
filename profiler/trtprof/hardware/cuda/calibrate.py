"""The ceilings of an NVIDIA GPU, measured by kernels of our own and by cuBLASLt.

How the numbers are taken:

* Time is that between two events on a stream. Runs are put there while the device is held busy, so that
  the host's own time is not in it; where the host is too slow for that, a ceiling comes out low, never high.
* A repeat is the median of several batches of runs, about 2 ms each; a ceiling is the best repeat, and
  repeats go on until the two best agree within 3 % or the time is up (`_fit.race`).
* DRAM: every run begins where the last one ended, in a pool of up to 32 times the L2. What a run leaves
  unwritten in the L2 the next one writes, so that a steady state is timed.
* L2: a working set of an eighth to a half of it, read past the L1 by all SMs in turns, or copied.
* CUDA cores, special functions, tensor cores: independent chains in registers, a full wave of threads.
* Matrix products: random operands, several sizes and algorithms. A result that differs from a product in
  double precision on the host, on a sample of its entries, does not count.
* An empty kernel: what one more of them adds to a chain, in a stream and in a CUDA graph.
* Copies between host and device, of pinned and of pageable memory.

At most a quarter of the free device memory is taken. All is done in a child process.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.progress import Line, Progress, unheard
from trtprof.base.records import Ceilings, LiveGpu, Roof
from trtprof.base.units import format_bytes, format_percent
from trtprof.hardware import _fit, calibration, gpus, nvml
from trtprof.hardware.cuda._exchange import GpuMeasured, GpuRequest
from trtprof.runtime import child
from trtprof.runtime.nvrtc import INSTALL

Measure = Callable[[GpuRequest], GpuMeasured]

SECONDS = 20.0  # Time for the ceilings; compiling, warming up and the floors take a few seconds on top

GRACE_SECONDS = 180.0  # What the child may take beyond several times that: a slow GPU finishes its first round

_NEEDED = ("vector fp32", "special exp", "dram", "cache", "launch graph")
_LEAST_ROTATION = 8  # A pool of fewer L2s, which could serve one byte in so many of what is read from DRAM, is said

_ABOVE = 1.02  # A measured ceiling above this multiple of the datasheet's is said


def calibrate_gpu(
    index: int = 0, *, progress: Progress | None = None, seconds: float = SECONDS, measure: Measure | None = None
) -> Ceilings:
    """Measure the ceilings of a GPU.

    ``best`` is its datasheet's, or what was measured where that is higher; ``attainable`` is what was measured.
    ``tensor_flops_per_s`` has the best of the accumulators of a dtype, and for fp32 that of TF32, as in
    `gpus.ceilings`; what each of them reached is in ``measurements`` (``tensor fp16 acc fp32``). ``launch_ns`` is that
    of a kernel in a CUDA graph.

    Args:
        seconds: Time for the ceilings; more makes the repeats agree better.
        measure: Measures a device; None does it in a child process.
    """
    say = progress or unheard
    gpu = find(index)
    say(Line(f"measuring the ceilings of {gpu.name} (GPU {index})", seconds + 10))
    result = (measure or measure_in_child)(request(gpu, seconds))
    found = ceilings_of(gpu, result, now=dt.datetime.now(dt.UTC))
    say(f"{gpu.name}: {_summary(found)}")
    return found


def find(index: int) -> LiveGpu:
    """The GPU that NVML counts as ``index``."""
    live, why = nvml.gpus()
    gpu = next((gpu for gpu in live if gpu.index == index and gpu.slice is None), None)
    if gpu is None:
        names = ", ".join(f"{gpu.index} {gpu.name}" for gpu in live if gpu.slice is None)
        raise MissingError(
            f"there is no GPU {index} to measure",
            why=why or f"the driver sees {names}",
            fix="measure the CPU, or take the datasheet of a GPU that `trtprof gpus` lists",
        )
    if gpu.mig:
        raise MissingError(
            f"GPU {index} ({gpu.name}) cannot be measured as a whole",
            why="it is split into MIG slices, and CUDA runs on one slice at a time",
            fix=f"end the split with `nvidia-smi -i {index} -mig 0`, or take the datasheet",
        )
    return gpu


def request(gpu: LiveGpu, seconds: float) -> GpuRequest:
    """What the child is asked for. It sees one device only (`environment`), so that is its first."""
    return GpuRequest(ordinal=0 if gpu.uuid else gpu.index, uuid=gpu.uuid, nvml_index=gpu.index, seconds=seconds)


def environment(wanted: GpuRequest) -> dict[str, str]:
    """What the child's environment has besides: CUDA counts devices in another order than NVML, unless it sees one."""
    return {"CUDA_VISIBLE_DEVICES": wanted.uuid} if wanted.uuid else {}


def measure_in_child(wanted: GpuRequest) -> GpuMeasured:
    """Measure a GPU in a fresh Python process."""
    return child.ask(
        "trtprof.hardware.cuda._measure",
        wanted,
        GpuMeasured,
        what=f"the calibration of GPU {wanted.nvml_index}",
        fix=FIX,
        within_s=5 * wanted.seconds + GRACE_SECONDS,
        variables=environment(wanted),
    )


FIX = "try again with nothing else on the GPU (nvidia-smi), or report this with the output of `trtprof doctor`"


# --- the ceilings ---------------------------------------------------------------------------


def ceilings_of(gpu: LiveGpu, measured: GpuMeasured, *, now: dt.datetime) -> Ceilings:
    """The ceilings of a GPU from its readings."""
    lacking = [key for key in _NEEDED if key not in measured.readings]
    if lacking:
        raise CaptureError(
            f"no ceiling for {', '.join(lacking)} could be resolved on {gpu.name}",
            why="; ".join(measured.notes) or "every run of it failed or was over at once",
            fix=FIX,
        )
    readings = with_best_accumulators(measured.readings)
    attainable = _roof(readings)
    datasheet, sheet_words = _datasheet(gpu)
    best = _raised(datasheet, attainable) if datasheet else attainable
    return Ceilings(
        device=gpu.name,
        source=_source(gpu, measured, readings, datasheet, sheet_words, now),
        measured_at=now.isoformat(timespec="seconds"),
        origin="measured",
        best=best,
        attainable=attainable,
        cache_bytes=measured.l2_bytes or gpu.l2_bytes or 0,
        threads=0,
        launch_ns=readings["launch graph"].value,
        call_ns=0.0,
        measurements={key: calibration.measurement(key, readings[key]) for key in calibration.ordered(readings)},
        clocks_mhz=measured.clocks_mhz,
    )


def with_best_accumulators(readings: Mapping[str, _fit.Reading]) -> dict[str, _fit.Reading]:
    """The readings, with one for each dtype of the tensor cores: the best of its accumulators.

    Those of single accumulators are left out where a dtype has no other.
    """
    by_dtype: dict[str, list[str]] = {}
    for key in readings:
        if key.startswith("tensor "):
            by_dtype.setdefault(key.split()[1], []).append(key)
    found = dict(readings)
    for dtype, keys in by_dtype.items():
        winner = max(keys, key=lambda key: readings[key].value)
        summed = winner.partition(" acc ")[2]
        reading = readings[winner]
        if len(keys) == 1:
            del found[winner]
        found[f"tensor {dtype}"] = reading._replace(what=f"{reading.what}, summed in {summed}")
    return found


_SLOWER = 0.75


def _roof(readings: Mapping[str, _fit.Reading]) -> Roof:
    vector = calibration.rates_of("vector", readings)
    tensor = dict(vector)
    wide = {}
    for key, value in calibration.rates_of("tensor", readings).items():
        if " " not in key:
            tensor[key] = max(value, tensor.get(key, 0.0))
        elif key.endswith(" acc fp32"):
            wide[key.split()[0]] = value
    if "tf32" in tensor:
        tensor["fp32"] = max(tensor["fp32"], tensor["tf32"])
    # A datasheet has one figure for all kinds of a type, and tensor cores run them alike: one was measured.
    for kinds in gpus.SHORT_DTYPES.values():
        highest = max((tensor[kind] for kind in kinds if kind in tensor), default=0.0)
        if highest:
            tensor |= dict.fromkeys(kinds, highest)
    return Roof(
        tensor_flops_per_s=tensor,
        # Boards run it at the same rate or at half of it; what lies between is noise.
        fp32_accumulate_flops_per_s={
            dtype: value for dtype, value in wide.items() if value < _SLOWER * tensor.get(dtype, 0.0)
        },
        vector_flops_per_s=vector,
        special_per_s=calibration.rates_of("special", readings),
        dram_bytes_per_s=readings["dram"].value,
        cache_bytes_per_s=readings["cache"].value,
    )


def _datasheet(gpu: LiveGpu) -> tuple[Roof | None, str]:
    """The roof of the datasheet that fits, and in words which one; None where there is none."""
    try:
        spec, why = nvml.spec_of(gpu)
        return gpus.ceilings(spec).best, f"Ideal is the datasheet of {spec.name} ({spec.origin}: {why})"
    except TrtprofError as error:
        return None, f"Ideal is what was measured: {error.what} ({error.why})"


def _raised(datasheet: Roof, measured: Roof) -> Roof:
    """The datasheet's roof, but nowhere below what was measured: boards clock above what is published."""

    def larger(sheet: dict[str, float], own: dict[str, float]) -> dict[str, float]:
        return sheet | {key: max(value, sheet.get(key, 0.0)) for key, value in own.items()}

    return Roof(
        tensor_flops_per_s=larger(datasheet.tensor_flops_per_s, measured.tensor_flops_per_s),
        vector_flops_per_s=larger(datasheet.vector_flops_per_s, measured.vector_flops_per_s),
        special_per_s=larger(datasheet.special_per_s, measured.special_per_s),
        dram_bytes_per_s=max(datasheet.dram_bytes_per_s, measured.dram_bytes_per_s),
        cache_bytes_per_s=max(datasheet.cache_bytes_per_s, measured.cache_bytes_per_s),
    )


def flat(roof: Roof) -> dict[str, float]:
    """The ceilings of a roof by the names of their measurements; those of fp32 with TF32 left out."""
    tensor = {f"tensor {dtype}": value for dtype, value in roof.tensor_flops_per_s.items() if dtype != "fp32"}
    vector = {f"vector {dtype}": value for dtype, value in roof.vector_flops_per_s.items()}
    special = {f"special {function}": value for function, value in roof.special_per_s.items()}
    return {**tensor, **vector, **special, "dram": roof.dram_bytes_per_s, "cache": roof.cache_bytes_per_s}


# --- in words -------------------------------------------------------------------------------


def _summary(found: Ceilings) -> str:
    keys = [key for key in ("tensor fp16", "vector fp32", "dram", "cache", "launch graph") if key in found.measurements]
    return ", ".join(f"{key} {calibration.rate(key, found.measurements[key].value)}" for key in keys)


def _source(
    gpu: LiveGpu,
    measured: GpuMeasured,
    readings: Mapping[str, _fit.Reading],
    datasheet: Roof | None,
    sheet_words: str,
    now: dt.datetime,
) -> str:
    named = [
        key
        for key in calibration.ordered(readings)
        if key in ("dram", "cache") or (key.startswith(("tensor ", "vector ")) and " acc " not in key)
    ]
    parts = [f"{key} {calibration.rate(key, readings[key].value)} ({readings[key].what})" for key in named]
    library = f"cuBLASLt {measured.cublas}" if measured.cublas else "without cuBLASLt"
    kernels = f"kernels compiled for {measured.architecture} (NVRTC {measured.nvrtc})"
    sentences = [
        f"Measured on this GPU on {now:%Y-%m-%d} with driver {gpu.driver or 'unknown'} by {kernels} and {library}",
        "; ".join(parts),
        sheet_words,
    ]
    if datasheet:
        above = [
            f"{key} ({value / sheet:.2f} times)"
            for key, value in flat(_roof(readings)).items()
            if (sheet := flat(datasheet).get(key)) and value > _ABOVE * sheet
        ]
        if above:
            sentences.append(f"Measured above the datasheet, and ideal with it: {', '.join(above)}")
    if "tensor tf32" in readings:
        sentences.append("fp32 is multiplied as TF32")
    if not measured.cublas:
        sentences.append(
            f"Peaks of the tensor cores are those of mma.sync, which newer GPUs exceed ({INSTALL} brings cuBLASLt)"
        )
    if measured.pool_bytes < _LEAST_ROTATION * measured.l2_bytes or not measured.l2_bytes:
        sentences.append(
            f"Buffers rotated through {format_bytes(measured.pool_bytes)} only, for an L2 of "
            f"{format_bytes(measured.l2_bytes) if measured.l2_bytes else 'unknown size'}: "
            "the DRAM bandwidth may hold some of the L2's"
        )
    loose = [key for key in named if calibration.is_loose(readings[key])]
    if loose:
        sentences.append(
            f"Repeats lie more than {2 * _fit.AGREEMENT:.0%} apart, or there is but one, for {', '.join(loose)}"
        )
    if measured.held_down:
        reasons = [f"{reason} ({format_percent(share)} of the time)" for reason, share in measured.held_down.items()]
        sentences.append(f"The clock was held down by {', '.join(reasons)}")
    if not measured.clocks_mhz:
        sentences.append("The driver does not tell the clock")
    return ". ".join([*sentences, *measured.notes]) + "."
