"""`trtprof plugin bench`: the engine without the plugin and with it, measured on the GPU of this machine.

**Not yet run on a GPU**: the tests stand in for engines, latencies and profiles.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Literal, NamedTuple

import msgspec

from trtprof import __version__
from trtprof.base import onnx_graph, run_folder
from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import (
    SCHEMA_VERSION,
    BenchCheck,
    BenchSide,
    ClockSummary,
    InputTensor,
    Interval,
    LiveGpu,
    PluginBench,
    PluginBenches,
)
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.scratch import scratch_folder
from trtprof.base.trace_file import load_trace
from trtprof.base.units import format_percent
from trtprof.capture import clocks
from trtprof.capture.gpu_launch import capture_gpu
from trtprof.capture.same_outputs import check_variant, keep_original
from trtprof.capture.turns import Variant
from trtprof.compare.samples import LEVEL
from trtprof.compare.turns import TurnsChange
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.build import EngineBuild, bound, engine_of
from trtprof.flows.options import GpuOptions, with_flags
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.run_gpu import WORKERS, alone
from trtprof.flows.try_.measure import measured
from trtprof.flows.try_.on_tensorrt import rounding_of, side_of
from trtprof.hardware import nvml
from trtprof.plugin import folder as plugin_folder
from trtprof.plugin.folder import PluginFolder
from trtprof.plugin.task import DOMAIN
from trtprof.runtime import nvml_session
from trtprof.source.request import ModelRequest

WITHOUT, WITH = "engine without the plugin", "engine with the plugin"
PLUGIN = "plugin.py"
TURNS_S = 120.0  # No further round begins after this, except the ones that an interval needs
Inputs = tuple[InputTensor, ...]
MOST_MOVED_MHZ = 50  # SOL-ExecBench allows no wider clock range
PROFILED = 20  # Inferences in which the kernel is named and timed


class Measured(NamedTuple):
    """What was measured; what is missing has its reason in ``why_not``."""

    why_not: str = ""
    checks: tuple[BenchCheck, ...] = ()
    kernel: BenchSide | None = None  # In the engine with the plugin, by the profiler
    change: TurnsChange | None = None
    clock: ClockSummary | None = None  # While the engines took turns
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = {}  # noqa: RUF012 - never changed


def bench(folder: Path, progress: Progress = SILENT, device: int | None = None) -> PluginBench:
    """Measure the plugin of a folder; keep the record there and in the run that the brief is of."""
    given = plugin_folder.load(folder)
    live, why = nvml.gpus()
    if not live:
        fix = "run it on a machine where nvidia-smi lists one"
        raise MissingError(f"measuring {given.name} needs an NVIDIA GPU", why=why, fix=fix)
    with alone(device) as gpu, scratch_folder() as scratch:
        with nvml_session.sampler(gpu.uuid or gpu.index) as sampler:
            others = sampler.processes() or 0
        progress.stage("engines")
        try:
            found = _measure(folder, given, gpu, scratch, progress)
        except TrtprofError as error:
            found = Measured(f"{error.what}: {error.why}" if error.why else error.what)
    document = bench_record(given, gpu, found, others)
    _keep(folder, given, document, progress)
    return document


# --- the engines ----------------------------------------------------------------------------


def _measure(folder: Path, given: PluginFolder, gpu: LiveGpu, scratch: Path, progress: Progress) -> Measured:
    how = with_flags(GpuOptions(), given.settings)
    # Both builds share a timing cache: layers that the plugin does not touch get the same kernels.
    build = msgspec.structs.replace(how.build, timing_cache=str(scratch / "timing.cache"))
    how = msgspec.structs.replace(how, build=build)
    plugin = str((folder / PLUGIN).resolve())
    own = msgspec.structs.replace(how, build=msgspec.structs.replace(build, static_plugins=(plugin,)))
    progress.detail(WITHOUT)
    before, inputs = _built(_original(folder, given, scratch), given, how.build, progress)
    progress.detail(WITH)
    after, _ = _built(folder / given.inserted, given, own.build, progress)
    versions = dict(after.facts.versions)
    one, other = side_of(before, how, WITHOUT, inputs, 0), side_of(after, own, WITH, inputs, 0)
    progress.detail("outputs")
    checks = _compared(one, other, scratch, how.build, own.build)
    if not all(check.ok for check in checks):
        return Measured(checks=checks, versions=versions)
    progress.detail("profile")
    kernel, note = _kernel(other, given.entry, scratch / "profile", gpu, progress)
    if kernel is None and not note:
        why = f"no kernel named {given.entry}: TensorRT took the function of the node"
        return Measured(why, checks, versions=versions)
    progress.detail("latency, interleaved")
    with clocks.sampling(gpu.uuid or gpu.index) as sampling:
        change = measured(one, other, monotonic() + TURNS_S)
    return Measured("", checks, kernel, change, sampling.summary(), (note,) if note else (), versions)


def _built(model: Path, given: PluginFolder, build: BuildOptions, progress: Progress) -> tuple[EngineBuild, Inputs]:
    """Build the engine of a model, and plan values for its inputs."""
    request = ModelRequest.of(model, given.shapes)
    with request.opened(progress.detail) as loaded:
        source, how = bound(request, loaded, msgspec.structs.replace(build, backend="tensorrt"))
        return engine_of(loaded, source, how, progress.detail), request.bound(loaded, feed=True).model.inputs


def _original(folder: Path, given: PluginFolder, scratch: Path) -> Path:
    """Write the model with the nodes of the task in place of the plugin."""
    import onnx
    import onnx.inliner
    from onnx.external_data_helper import load_external_data_for_model

    model = onnx.load(str(folder / given.inserted), load_external_data=False)
    kept = [one for one in model.functions if (one.domain, one.name) != (DOMAIN, given.name)]
    body = given.task.body
    body.domain, body.name = DOMAIN, given.name
    del model.functions[:]
    model.functions.extend([*kept, body])
    for _, graph in onnx_graph.all_graphs(model.graph):
        for node in graph.node:
            if (node.domain, node.op_type) == (DOMAIN, given.name):
                del node.attribute[:]
    inlined = onnx.inliner.inline_selected_functions(model, [(DOMAIN, given.name)])
    load_external_data_for_model(inlined, str(folder))
    path = scratch / "original.onnx"
    onnx.save(inlined, path, save_as_external_data=True)
    return path


def _compared(one: Variant, other: Variant, scratch: Path, *builds: BuildOptions) -> tuple[BenchCheck, ...]:
    """Compare the outputs of both engines for several kinds of inputs."""
    for name in ("kept", "checked"):
        (scratch / name).mkdir()
    rounding = rounding_of(*builds)
    kept = keep_original(one, scratch / "kept")
    found = check_variant(kept, other, scratch / "checked", tf32=rounding.tf32, precision=rounding.precision)
    return tuple(
        BenchCheck(
            what=f"{each.kind} inputs", ok=each.matches,
            reason=each.note or (each.worst.reason if each.worst is not None and not each.matches else ""),
        )
        for each in found
    )  # fmt: skip


def _kernel(side: Variant, entry: str, folder: Path, gpu: LiveGpu, progress: Progress) -> tuple[BenchSide | None, str]:
    """Profile the engine, and find the kernel by its name; with a note in place of it if nothing can profile."""
    (folder / "scratch").mkdir(parents=True)
    assert side.engine is not None  # noqa: S101 - a TensorRT engine
    request = msgspec.structs.replace(
        side.engine, folder=str(folder), scratch=str(folder / "scratch"), iterations=PROFILED, warmup_ms=200.0,
        profile_iterations=PROFILED, cuda_graph=False,
    )  # fmt: skip
    try:
        capture_gpu(request, WORKERS["tensorrt"], "auto", progress.detail, gpu=gpu.uuid or gpu.index)
    except TrtprofError as error:
        return None, f"no profile names the kernel: {error.what}"
    work = load_trace(folder).work
    own = work[(work["kind"] == "kernel") & ((work["short_name"] == entry) | (work["name"] == entry))]
    if not len(own):
        return None, ""
    return BenchSide(what=entry, median_ns=round((own["end_ns"] - own["start_ns"]).median()), n=len(own)), ""


# --- the record -----------------------------------------------------------------------------


def bench_record(given: PluginFolder, gpu: LiveGpu, found: Measured, others: int = 0) -> PluginBench:
    """Judge what was measured."""
    change, run = found.change, given.run
    verdict, why = _verdict(found)
    kernels = [found.kernel] if found.kernel is not None else []
    if kernels and run is not None and run.kernels_ns and run.gpu in ("", gpu.name):
        kernels.insert(0, BenchSide(what=f"{', '.join(run.kernels)} (in the run)", median_ns=run.kernels_ns, n=0))
    engine = gain = None
    if change is not None:
        low, high = change.interval()
        gain = Interval(value=change.gain, low=low, high=high, level=LEVEL)
        levels = zip((WITHOUT, WITH), change.levels, strict=True)
        first, second = (BenchSide(what=what, median_ns=round(ns), n=change.pairs) for what, ns in levels)
        engine = first, second
    spread = found.clock.sm_clock_mhz if found.clock is not None else None
    moved = (round(spread.min), round(spread.median), round(spread.max)) if spread is not None else ()
    return PluginBench(
        schema_version=SCHEMA_VERSION, name=given.name, layer=given.layer, gpu=gpu.name, verdict=verdict, why=why,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        doubts=tuple(_doubts(given, gpu, found, moved, others)),
        checks=found.checks, kernel=tuple(kernels), engine=engine, engine_gain=gain, clocks_mhz=moved,
        versions={**given.versions, **found.versions, "trtprof": __version__, "driver": gpu.driver or "unknown"},
    )  # fmt: skip


def _verdict(found: Measured) -> tuple[Literal["faster", "slower", "inconclusive", "incorrect"], str]:
    wrong = [check for check in found.checks if not check.ok]
    if wrong:
        return "incorrect", f"the outputs differ for {wrong[0].what}: {wrong[0].reason}"
    if found.change is None:
        return "inconclusive", f"the engines were not timed: {found.why_not}"
    gain, (low, high) = found.change.gain, found.change.interval()
    told = f"the engine with the plugin is {gain:.3g}x as fast ({low:.3g} to {high:.3g})"
    if low > 1:
        return "faster", told
    return ("slower", told) if high < 1 else ("inconclusive", f"{told}: the interval includes 1")


def _doubts(given: PluginFolder, gpu: LiveGpu, found: Measured, moved: tuple[int, ...], others: int) -> Iterator[str]:
    yield from found.notes
    if moved and moved[-1] - moved[0] > MOST_MOVED_MHZ:
        yield f"the SM clock moved between {moved[0]} and {moved[-1]} MHz"
    for name, share in ((found.clock.reasons if found.clock is not None else None) or {}).items():
        if name != "idle":
            yield f"{name} held the clock down for {format_percent(share)} of the time"
    if others:
        yield f"{others} other process{'es' * (others > 1)} used the GPU"
    if given.run is not None and given.run.gpu not in ("", gpu.name):
        yield f"the brief is based on a run on {given.run.gpu}"


def _keep(folder: Path, given: PluginFolder, found: PluginBench, progress: Progress) -> None:
    progress.detail(f"wrote {RunFolder(folder).write(run_folder.BENCH, found)}")
    if given.run is None:
        return
    name, here = given.run.folder, folder.resolve()
    for place in (here.parent, *(parent / name for parent in (here.parent, here.parent / "reports", Path("reports")))):
        run = RunFolder(place)
        there = place.name == name and run.has(run_folder.REQUEST)
        if there and run.read(run_folder.REQUEST, Request).created == given.run.created:
            break
    else:
        progress.note(f"run {name} was not found: the record is in {folder} only")
        return
    before = run.read(run_folder.BENCH, PluginBenches).benches if run.has(run_folder.BENCH) else ()
    kept = sorted((*(one for one in before if one.name != found.name), found), key=lambda one: one.name)
    run.write(run_folder.BENCH, PluginBenches(schema_version=SCHEMA_VERSION, benches=tuple(kept)))
