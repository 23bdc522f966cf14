"""``trtprof doctor``: what can run here, and why not the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from profiler.base.errors import MissingError, TrtprofError
from profiler.cli import app
from profiler.cli.output import errors_shown, result

if TYPE_CHECKING:
    from profiler.base.records import LiveGpu


@app.command()
def doctor() -> None:
    """Say what can run here, and why not the rest.

    Versions, the device, kept ceilings, and for every backend that cannot run, the fix.
    """
    with errors_shown():
        import platform

        from profiler import __version__
        from profiler.base.units import format_bytes
        from profiler.engine.backends import backends, onnxruntime_version
        from profiler.hardware import nvml
        from profiler.hardware.device import host_cpu
        from profiler.hardware.store import default_cache_dir

        device = host_cpu()
        lines = [
            f"trtprof      {__version__}   Python {platform.python_version()}   {platform.platform(terse=True)}",
            f"onnxruntime  {onnxruntime_version()}",
            (
                f"device       {device.name}, {device.cores} cores, {format_bytes(device.memory_bytes)} memory, "
                f"{format_bytes(device.cache_bytes)} last-level cache"
            ),
            *_gpu_lines(*nvml.gpus()),
            f"ceilings     {_ceilings_kept(default_cache_dir())}",
            "backends, in the order of --backend auto:",
        ]
        for status in backends():
            mark = "ok" if status.available else "--"
            lines.append(f"  {mark}  {status.name:<13} {status.reason}")
            if status.fix:
                lines.append(f"      {'':<13} fix: {status.fix}")
        lines += ["collectors on a GPU, in the order of --collector auto:", *_collector_lines()]
        lines += _left_out_lines()
        result("\n".join(lines))
        if not any(status.available for status in backends()):
            raise MissingError("no backend can run here", fix="see the fixes above")


def _left_out_lines() -> list[str]:
    """Plug-ins of other distributions and datasheets of GPUs that are broken."""
    from profiler.base import plugins
    from profiler.cost import COSTS
    from profiler.diagnose import RULES
    from profiler.hardware import gpus
    from profiler.report import CONTENT, REPORTERS
    from profiler.source.shape_rules import RULES as SHAPE_RULES

    for registry in (COSTS, SHAPE_RULES, RULES, CONTENT, REPORTERS):
        registry.load()
    gpus.specs()
    lines = []
    for each in plugins.LEFT_OUT:
        lines += [f"  --  {each.what}: {each.why}", f"      {'':<13} fix: {each.fix}"]
    return ["left out, for it is broken:", *lines] if lines else []


def _collector_lines() -> list[str]:
    """What can watch a GPU here, and what the others lack."""
    from profiler.capture.cupti import activity as cupti
    from profiler.capture.nsys import record as nsys

    lines = []
    for name, look in (("nsys", nsys.find), ("cupti", cupti.require)):
        try:
            found = look()
        except TrtprofError as error:
            lines += [f"  --  {name:<13} {error.what}: {error.why}", f"      {'':<13} fix: {error.fix}"]
        else:
            lines.append(f"  ok  {name:<13} " + (f"{found.version_text} ({found.path})" if found else "in the process"))
    return lines


def _gpu_lines(gpus: tuple[LiveGpu, ...], why_not: str) -> list[str]:
    lines = []
    for gpu in gpus:
        place = f"{gpu.index}" + (f".{gpu.slice}" if gpu.slice is not None else "")
        known = [
            f"compute capability {gpu.compute_capability}" if gpu.compute_capability else "",
            f"{gpu.sms} SMs" if gpu.sms else "",
            f"driver {gpu.driver}" if gpu.driver else "",
            f"CUDA {gpu.cuda}" if gpu.cuda else "",
        ]
        lines.append(f"gpu {place:<9}" + ", ".join([gpu.name, *filter(None, known)]))
    if why_not:
        lines.append(f"gpu          {why_not}" if gpus else f"gpu          none: {why_not}")
    return lines


def _ceilings_kept(folder: Path) -> str:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        return f"none measured yet; the first run does it and keeps them in {folder}"
    return f"{len(files)} kept in {folder}; `trtprof calibrate` measures again"
