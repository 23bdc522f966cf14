"""``trtprof calibrate``: the ceilings of the device at hand, measured."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from trtprof.base.errors import MissingError, UsageError
from trtprof.cli import app
from trtprof.cli.declared import opt
from trtprof.cli.options import ForceOption, ThreadsOption
from trtprof.cli.output import StageLines, errors_shown, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable

if TYPE_CHECKING:
    from trtprof.base.records import Ceilings
    from trtprof.flows import timed_rows
    from trtprof.hardware.store import Shelf

_GPU = re.compile(r"gpu(?::(\d+))?")


@app.command()
def calibrate(
    device: Annotated[str, opt("--device", "cpu, gpu:0, or auto, which is the CPU.", metavar="DEVICE")] = "auto",
    threads: ThreadsOption = 0,
    seconds: Annotated[
        float | None,
        opt(
            "--seconds",
            "Time for the ceilings of each thread count, or of the GPU, whose kernels take twice as long.",
            metavar="S",
            min=0,
        ),
    ] = None,
    show: Annotated[bool, opt("--show", "Measure nothing: print what is kept.")] = False,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """Measure what this device can do at best, and keep it for the runs to come.

    Arithmetic by dtype and size, special functions, DRAM and cache by pattern, the floors of a kernel and a call; each
    with the spread of its repeats and what reached it.
    """
    progress = StageLines()
    with errors_shown(progress):
        from trtprof.base.records import SCHEMA_VERSION, CeilingsDocument
        from trtprof.hardware.gpus import ridge_points

        check_report("calibrate", format_name, CeilingsDocument)
        paths = writable(output, CeilingsDocument, force=force, example="ceilings.html")
        gpu = _gpu_index(device)
        if device == "auto":
            say("device auto: the CPU (--device gpu:0 measures a GPU)")
        if show and seconds is not None:
            raise UsageError("--show and --seconds", why="what is kept is not measured again", fix="leave one away")
        found, shelf, kernels = (
            _of_cpu(threads, seconds, show, progress) if gpu is None else _of_gpu(gpu, seconds, show, progress)
        )
        document = CeilingsDocument(
            schema_version=SCHEMA_VERSION,
            ceilings=found,
            ridge_flop_per_byte=ridge_points(found.attainable),
            kept_in=str(shelf.path) if shelf.path.is_file() else "",
            age_days=_age_days(found.measured_at) if show else None,
            **kernels,
        )
        deliver(document, format_name, paths)


def _gpu_index(device: str) -> int | None:
    """Number of the GPU, None for the CPU."""
    if device in ("auto", "cpu"):
        return None
    found = _GPU.fullmatch(device)
    if found is None:
        raise UsageError(
            f"there is no device {device!r}", why="known: auto, cpu, gpu:0, gpu:1, ...", fix="--device cpu"
        )
    return int(found[1] or 0)


def _of_cpu(
    threads: int, seconds: float | None, show: bool, progress: StageLines
) -> tuple[Ceilings, Shelf, dict[str, Any]]:
    from trtprof.hardware import store
    from trtprof.hardware.calibrate import calibrate as measured
    from trtprof.hardware.device import host_cpu

    host = host_cpu()
    shelf = store.of_host(threads, device=host)
    if show:
        count = shelf.key["threads"]
        return _kept(shelf, f"{host.name} at {count} thread{'s' * (count != '1')}", f"--threads {count}"), shelf, {}
    with progress:
        progress.stage("ceilings")
        kept = shelf.read(progress.detail)
        found = measured(threads, progress=progress.detail, seconds=seconds, device=host, held=kept)
        shelf.write(found, progress.detail)
    return found, shelf, {}


def _of_gpu(
    index: int, seconds: float | None, show: bool, progress: StageLines
) -> tuple[Ceilings, Shelf, dict[str, Any]]:
    """The ceilings, where they are kept, and what `CeilingsDocument` has of kernels."""
    from trtprof.flows import timed_rows
    from trtprof.hardware import nvml, store

    gpus, why = nvml.gpus()
    gpu = next((gpu for gpu in gpus if gpu.index == index and gpu.slice is None), None)
    if gpu is None:
        known = ", ".join(f"gpu:{gpu.index} {gpu.name}" for gpu in gpus if gpu.slice is None)
        raise MissingError(
            f"there is no GPU {index} here",
            why=why or f"the driver sees {known}",
            fix="--device cpu measures the CPU; `trtprof gpus` lists the GPUs of this machine and all that are known",
        )
    shelf = store.of_gpu(gpu)
    if show:
        return _kept(shelf, gpu.name, f"--device gpu:{index}"), shelf, _kernels(timed_rows.kept_of(gpu, say=say))
    from trtprof.hardware.cuda.calibrate import SECONDS, calibrate_gpu

    with progress:
        progress.stage("ceilings")
        budget = SECONDS if seconds is None else seconds
        found = calibrate_gpu(index, progress=progress.detail, seconds=budget)
        shelf.write(found, progress.detail)
        progress.stage("kernels")
        kernels = timed_rows.time_kernels(gpu, progress=progress.detail, seconds=2 * budget)
        for note in kernels.notes:
            progress.detail(note)
    return found, shelf, _kernels(kernels)


def _kernels(kept: timed_rows.Kept) -> dict[str, Any]:
    """What `CeilingsDocument` has of kernels."""
    path = "" if kept.path is None else str(kept.path)
    return {"kernels": kept.corrected, "kernels_kept_in": path, "kernels_notes": kept.notes}


def _kept(shelf: Shelf, what: str, options: str) -> Ceilings:
    """The kept ceilings."""
    found = shelf.read(say)
    if found is None:
        raise MissingError(
            f"no ceilings are kept of {what}",
            why=f"{shelf.path} is not there, or not of this version of trtprof",
            fix=f"trtprof calibrate {options}",
        )
    return found


def _age_days(measured_at: str) -> int | None:
    import datetime as dt

    try:
        then = dt.datetime.fromisoformat(measured_at)
    except ValueError:
        return None
    return max((dt.datetime.now(dt.UTC) - then).days, 0)
