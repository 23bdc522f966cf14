"""`trtprof plugin bench`: the kernel alone and the engine with it, measured on the GPU that is here.

The verdict is that of the engine. **No GPU has run this yet**: tests execute kernels in numpy, and engines only seem.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from trtprof import __version__
from trtprof.base import onnx_graph, run_folder
from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import (
    SCHEMA_VERSION,
    BenchCheck,
    BenchSide,
    Ceilings,
    ClockSummary,
    Interval,
    LiveGpu,
    PluginBench,
    PluginBenches,
    Work,
)
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.scratch import PART, scratch_folder
from trtprof.base.units import dtype_bytes, format_ns, format_percent
from trtprof.capture import clocks
from trtprof.capture.same_outputs import check_variant, keep_original
from trtprof.compare.samples import LEVEL
from trtprof.compare.turns import TurnsChange, change_of_turns
from trtprof.engine.tensorrt import BuildOptions
from trtprof.estimate.roofline import certain, unit_terms
from trtprof.flows.build import EngineBuild, bound, engine_of
from trtprof.flows.options import GpuOptions, with_flags
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.run_gpu import alone, ceilings_here
from trtprof.flows.try_.measure import measured
from trtprof.flows.try_.on_tensorrt import rounding_of, side_of
from trtprof.hardware import nvml
from trtprof.hardware.cuda import calibrate
from trtprof.plugin import folder as plugin_folder
from trtprof.plugin.alone import Alone, AloneRequest, Rival, measure_alone
from trtprof.plugin.folder import PluginFolder
from trtprof.plugin.task import DOMAIN
from trtprof.runtime import nvml_session
from trtprof.source.request import ModelRequest

Verdict = Literal["faster", "slower", "inconclusive", "incorrect"]

_PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum"})
ROUNDS = 3  # Fresh processes in which the kernel takes turns with its rival
TURNS_S = 120.0  # After so long the engines begin no further round, but those that are needed
CLOCK_S = 0.005  # Between two looks at the clock: the turns of a process last some tens of milliseconds
MOST_MOVED_MHZ = 50  # SOL-ExecBench lets clocks move no further
ABOVE = 0.98
"""A time below this share of the speed of light is above the roof; what is nearer is the resolution of events."""
WITHOUT, WITH = "the engine without the plugin", "the engine with it"


class BenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to measure."""

    device: int | None = None  # Index of the GPU, as nvidia-smi counts; None for the first
    plugins: tuple[str, ...] = ()  # Libraries that hold the plugin, in place of the Python module in the folder
    run: str = ""  # The run that the brief is of; empty looks for it beside the folder and under ``reports``
    seed: int = 0  # Of inputs


class Single(NamedTuple):
    """The kernel alone."""

    rounds: tuple[Alone, ...]  # Each from a process of its own; the first has the checks
    clocks: tuple[ClockSummary, ...]  # Of the GPU in the turns of each

    @property
    def first(self) -> Alone:
        return self.rounds[0]

    @property
    def right(self) -> bool:
        return all(one.tactic for one in self.rounds)

    def times(self, side: Literal["kernel", "rival"]) -> list[float]:
        return [ns for one in self.rounds for pair in one.pairs for ns in getattr(pair, side)]

    def change(self) -> TurnsChange | None:
        """Rival over kernel; None where nothing took turns with it."""
        if not self.times("rival"):
            return None
        return change_of_turns(
            [[(np.asarray(pair.rival), np.asarray(pair.kernel)) for pair in one.pairs] for one in self.rounds]
        )

    def moved(self) -> tuple[int, ...]:
        """Clock of the SMs while it was timed in MHz: least, median, most; empty where it is not told."""
        spreads = [one.sm_clock_mhz for one in self.clocks if one.sm_clock_mhz is not None]
        if not spreads:
            return ()
        middle = statistics.median(one.median for one in spreads)
        return round(min(one.min for one in spreads)), round(middle), round(max(one.max for one in spreads))


class Whole(NamedTuple):
    """The engine without the plugin and with it."""

    change: TurnsChange | None = None  # By turns; None where they took none
    checks: tuple[BenchCheck, ...] = ()  # Outputs of the one beside those of the other
    why_not: str = ""  # Why there are no turns, in words
    # What held the clock down meanwhile, with its share of the time
    held_down: dict[str, float] = {}  # noqa: RUF012 - is never changed


def bench(folder: Path, progress: Progress = SILENT, options: BenchOptions = BenchOptions()) -> PluginBench:  # noqa: B008
    """Measure a plugin, and keep the record in its folder and beside the run that its brief is of."""
    given = plugin_folder.load(folder)
    _gpu_is_here(given)
    with alone(options.device) as gpu, scratch_folder() as scratch:
        others = _others(gpu)
        spec, _ = nvml.spec_of(gpu)
        progress.stage("ceilings")
        ceilings = ceilings_here(gpu, spec, progress.detail)
        progress.stage("kernel")
        single = _single(folder, given, gpu, options, progress)
        whole = Whole(why_not="the kernel is not right alone")
        if single.right:
            progress.stage("engine")
            whole = _whole(folder, given, gpu, scratch, options, progress)
    found = document(given, gpu, ceilings, single, whole, others)
    _keep(folder, given, found, options, progress)
    return found


def _gpu_is_here(given: PluginFolder) -> None:
    live, why = nvml.gpus()
    if not live:
        raise MissingError(
            f"there is no NVIDIA GPU to measure {given.name} on",
            why=why,
            fix="run the same command where nvidia-smi lists one; until then no GPU has run this kernel, and all that "
            "is said of its speed is predicted",
        )


def _others(gpu: LiveGpu) -> int:
    """Processes that compute on the GPU before anything of ours does."""
    with nvml_session.sampler(gpu.uuid or gpu.index) as sampler:
        return sampler.processes() or 0


# --- the kernel alone -----------------------------------------------------------------------


def _single(folder: Path, given: PluginFolder, gpu: LiveGpu, options: BenchOptions, progress: Progress) -> Single:
    asked = calibrate.request(gpu, 0.0)
    rounds: list[Alone] = []
    summaries: list[ClockSummary] = []
    for number in range(ROUNDS):
        request = AloneRequest(
            folder=str(folder.resolve()), ordinal=asked.ordinal, uuid=asked.uuid, rival=rival_of(given),
            tactic=rounds[0].tactic if rounds else 0, first=number % 2, seed=options.seed + number,
        )  # fmt: skip
        progress.detail(f"{given.name} alone, process {number + 1} of {ROUNDS}")
        with clocks.sampling(gpu.uuid or gpu.index, CLOCK_S) as sampling:
            found = measure_alone(request, calibrate.environment(asked))
        rounds.append(found)
        summaries.append(sampling.summary(found.began_ns, found.ended_ns))
        if not found.tactic:
            break
    return Single(tuple(rounds), tuple(summaries))


def rival_of(given: PluginFolder) -> Rival | None:
    """What a library makes in place of the kernel: products, where it is mostly these."""
    core = given.work.core if given.work is not None else None
    if given.work is None or core is None or core.kind != "product" or given.main not in _PRODUCTS:
        return None
    batch, m, n, k = _folded(given) or (core.batch, core.m, core.n, core.k)
    return Rival(dtype=given.work.dtype, batch=batch, m=m, n=n, k=k)


def _folded(given: PluginFolder) -> tuple[int, int, int, int] | None:
    """The products of a MatMul as few large ones: what one side is repeated over are rows, or columns, of the other's.

    None where its operands are not those of the task.
    """
    task = given.task
    shapes = {operand.name: shape for operand, shape in zip(task.inputs, given.operand_shapes, strict=True)}
    found = [node for node in task.body.node if node.op_type == "MatMul"]
    if len(found) != 1 or any(name not in shapes for name in found[0].input):
        return None
    left, right = (shapes[name] for name in found[0].input)
    left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
    rank = max(len(left), len(right))
    left, right = ((1,) * (rank - len(side)) + side for side in (left, right))
    batch, m, n = 1, left[-2], right[-1]
    for one, other in zip(left[:-2], right[:-2], strict=True):
        if one == other:
            batch *= one
        elif other == 1:
            m *= one
        else:
            n *= other
    return batch, m, n, left[-1]


class Needed(NamedTuple):
    """What a kernel must do, whatever it does besides."""

    read: int  # Bytes that it must read at least once
    written: int  # Bytes of its outputs
    arithmetic: Work | None = None  # Its work; None where that of the layer is not its own

    @property
    def nbytes(self) -> int:
        return self.read + self.written

    def light_ns(self, ceilings: Ceilings) -> float:
        """The bound: no correct kernel takes less on a device of these ceilings with its inputs in no cache."""
        best = ceilings.best
        memory = Fraction(max(self.read, self.nbytes - ceilings.cache_bytes) * 10**9) / Fraction(best.dram_bytes_per_s)
        units = unit_terms(certain(self.arithmetic), best).values() if self.arithmetic is not None else ()
        return float(max([memory, *units]))


def needed(given: PluginFolder, tactic: int) -> Needed:
    """What a variant must do at the sizes of the brief: each of its operands once, or what it says it reads of one."""
    task, shapes = given.task, given.operand_shapes
    reads = next(files.kernel.reads for files in given.kernels if files.kernel.tactic == tactic)
    read = 0
    for operand, shape in zip(task.inputs, shapes, strict=True):
        nbytes = dtype_bytes(operand.dtype, math.prod(shape))
        read += min(nbytes, reads[operand.name].value(shapes)) if operand.name in reads else nbytes
    written = sum(
        dtype_bytes(operand.dtype, math.prod(shape))
        for operand, shape in zip(task.outputs, task.output_shapes(shapes), strict=True)
    )
    work = given.work
    # That of a layer is that of the kernel where both move the same.
    own = work if work is not None and work.bytes == read + written else None
    return Needed(max(read - work.unsure.bytes, 0) if work is not None else read, written, own)


# --- the engine -----------------------------------------------------------------------------


def _whole(
    folder: Path, given: PluginFolder, gpu: LiveGpu, scratch: Path, options: BenchOptions, progress: Progress
) -> Whole:
    plugins = options.plugins or ((str((folder / given.quick).resolve()),) if given.quick else ())
    if not given.inserted or not plugins:
        return Whole(why_not="the folder has no model with the plugin in it" if plugins else "it has no plugin")
    how = with_flags(GpuOptions(), given.settings)
    how = msgspec.structs.replace(
        how, build=msgspec.structs.replace(how.build, timing_cache=str(scratch / "timing.cache"))
    )
    own = msgspec.structs.replace(how, build=msgspec.structs.replace(how.build, static_plugins=plugins))
    try:
        with _original(folder, given) as original:
            progress.detail(WITHOUT)
            before = _built(original, given, how.build, progress)
        progress.detail(WITH)
        after = _built(folder / given.inserted, given, own.build, progress)
    except TrtprofError as error:
        return Whole(why_not=f"{error.what}: {error.why}" if error.why else error.what)
    if _has_function(folder, given) and not has_plugin(before, after, given.name):
        version = after.facts.versions.get("tensorrt", "")
        return Whole(
            why_not=f"no layer of it is a plugin: TensorRT {version} took the function of the node; write the model "
            "again with --no-function"
        )
    assert before.source is not None  # noqa: S101 - it was built from a model
    inputs = before.source.model.inputs
    one = side_of(before, how, WITHOUT, inputs, options.seed)
    other = side_of(after, own, WITH, inputs, options.seed)
    try:
        with clocks.sampling(gpu.uuid or gpu.index) as sampling:
            progress.detail("outputs of both engines")
            for name in ("kept", "checked"):
                (scratch / name).mkdir()
            kept = keep_original(one, scratch / "kept")
            rounding = rounding_of(how.build, own.build)
            found = check_variant(kept, other, scratch / "checked", tf32=rounding.tf32, precision=rounding.precision)
            checks = tuple(
                BenchCheck(
                    what=f"{WITH}, {each.kind} inputs", ok=each.matches,
                    reason=each.note or (each.worst.reason if each.worst is not None and not each.matches else ""),
                )
                for each in found
            )  # fmt: skip
            if not all(check.ok for check in checks):
                return Whole(checks=checks, why_not="its outputs are others")
            progress.detail("the engines take turns")
            change = measured(one, other, time.monotonic() + TURNS_S)
    except TrtprofError as error:
        return Whole(why_not=f"{error.what}: {error.why}" if error.why else error.what)
    held = {name: share for name, share in (sampling.summary().reasons or {}).items() if name != "idle"}
    return Whole(change, checks, held_down=held)


def _built(model: Path, given: PluginFolder, build: BuildOptions, progress: Progress) -> EngineBuild:
    request = ModelRequest.of(model, given.shapes)
    with request.opened(progress.detail) as loaded:
        source, how = bound(request, loaded, msgspec.structs.replace(build, backend="tensorrt"))
        return engine_of(loaded, source, how, progress.detail)


@contextmanager
def _original(folder: Path, given: PluginFolder) -> Iterator[Path]:
    """The model with the nodes of the task in place of the plugin, beside the other one: weights may lie there."""
    import onnx
    import onnx.inliner

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
    path = folder / f"{PART}{os.urandom(8).hex()}.onnx"
    try:
        try:
            path.write_bytes(inlined.SerializeToString())
        except OSError as error:
            raise MissingError(
                f"{folder} cannot be written", why=error.strerror or str(error),
                fix="copy the folder to where it can be: the model without the plugin is written beside the other",
            ) from None  # fmt: skip
        yield path
    finally:
        path.unlink(missing_ok=True)


def _has_function(folder: Path, given: PluginFolder) -> bool:
    """Whether the model says what the plugin computes, so that an engine may be built of that instead."""
    import onnx

    model = onnx.load(str(folder / given.inserted), load_external_data=False)
    return any((one.domain, one.name) == (DOMAIN, given.name) for one in model.functions)


def has_plugin(before: EngineBuild, after: EngineBuild, name: str) -> bool:
    """Whether an engine has more layers that are plugins than the one before: a model may have others of its own."""

    def count(made: EngineBuild) -> int:
        layers = [matched.layer for matched in made.priced.document.layers]
        return sum(
            "plugin" in layer.kind.lower() or name in (layer.attributes.get("PluginType"), layer.parameter_type)
            for layer in layers
        )

    return count(after) > count(before)


# --- the verdict ----------------------------------------------------------------------------


def document(
    given: PluginFolder, gpu: LiveGpu, ceilings: Ceilings, single: Single, whole: Whole, others: int = 0
) -> PluginBench:
    """What was measured, judged."""
    first = single.first
    alone_change = single.change() if single.right else None
    kernel = _side("the kernel alone", single.times("kernel")) if single.right else None
    rival = _rival(given, single)
    least = needed(given, first.tactic) if single.right else None
    light = least.light_ns(ceilings) if least is not None else None
    checks = (*_checked(given, single), *whole.checks)
    verdict, why = _verdict(single, whole, kernel, light, alone_change)
    bandwidth, above = _bandwidth(least, ceilings, kernel)
    return PluginBench(
        schema_version=SCHEMA_VERSION,
        name=given.name,
        layer=given.layer,
        gpu=gpu.name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        verdict=verdict,
        why=why,
        doubts=(*_doubts(given, gpu, ceilings, single, whole, others), *above),
        checks=checks,
        tactic=first.tactic if single.right else 0,
        raced_ns={
            files.kernel.label: round(first.raced[files.kernel.tactic])
            for files in given.kernels
            if files.kernel.tactic in first.raced
        },
        alone=kernel,
        kernel=(rival, kernel) if rival is not None and kernel is not None else None,
        kernel_gain=_interval(alone_change),
        worst=max((one.worst for one in first.checks if one.worst is not None), default=None),
        bandwidth=bandwidth,
        sol_ns=round(light) if light is not None else None,
        score=_score(kernel, rival, light),
        engine=_sides(whole.change),
        engine_gain=_interval(whole.change),
        clocks_mhz=single.moved(),
        versions={**given.versions, "trtprof": __version__, "driver": gpu.driver or "unknown"},
        notes=tuple(dict.fromkeys(note for one in single.rounds for note in one.notes))
        + tuple(f"variant {tactic} was left out: {why}" for tactic, why in first.left_out.items()),
    )


def _verdict(
    single: Single, whole: Whole, kernel: BenchSide | None, light: float | None, alone_change: TurnsChange | None
) -> tuple[Verdict, str]:
    wrong = [check for one in single.rounds for check in one.checks if not check.ok]
    if wrong:
        return "incorrect", f"variant {wrong[0].tactic}: {wrong[0].reason}"
    if kernel is not None and light is not None and kernel.median_ns < ABOVE * light:
        own, least = format_ns(kernel.median_ns), format_ns(light)
        why = f"it takes {own}, and no correct kernel can take less than {least} here: it leaves work out, or its time"
        return "incorrect", f"{why} is wrong"
    other = [check for check in whole.checks if not check.ok]
    if other:
        return "incorrect", f"the engine with it makes other outputs: {other[0].what}: {other[0].reason}"
    told = _alone_words(alone_change)
    if whole.change is None:
        return "inconclusive", f"the engine was not measured: {whole.why_not}{told and f'; {told}'}"
    gain = whole.change.gain
    low, high = whole.change.interval()
    between = f"({low:.3g} to {high:.3g})"
    moved = single.moved()
    if moved and (low > 1 or high < 1) and moved[-1] / moved[0] > max(gain, 1 / gain):
        by = format_percent(moved[-1] / moved[0] - 1)
        why = f"the engine is {gain:.3g} times as fast with it {between}, but the clock moved by {by} while the kernel"
        return "inconclusive", f"{why} was timed alone, which is more"
    if low > 1:
        return "faster", f"the engine is {gain:.3g} times as fast with it {between}"
    if high < 1:
        won = alone_change is not None and alone_change.interval()[0] > 1
        cut = f", though {told}: what it cuts costs more than it wins" if won else f"; {told}" if told else ""
        return "slower", f"the engine takes {1 / gain:.3g} times as long with it{cut}"
    return "inconclusive", f"no difference shows: the engine is {gain:.3g} times as fast with it {between}"


def _alone_words(change: TurnsChange | None) -> str:
    if change is None:
        return ""
    low, high = change.interval()
    return f"alone it is {change.gain:.3g} times as fast as its rival ({low:.3g} to {high:.3g})"


def _doubts(
    given: PluginFolder, gpu: LiveGpu, ceilings: Ceilings, single: Single, whole: Whole, others: int
) -> Iterator[str]:
    moved = single.moved()
    if moved and moved[-1] - moved[0] > MOST_MOVED_MHZ:
        yield f"the clock moved between {moved[0]} and {moved[-1]} MHz while the kernel was timed"
    if not moved and single.right:
        yield "the driver does not tell the clock"
    held: dict[str, float] = dict(whole.held_down)
    for summary in single.clocks:
        for name, share in (summary.reasons or {}).items():
            if name != "idle":
                held[name] = max(held.get(name, 0.0), share)
    for name, share in held.items():
        yield f"the clock was held down by {name} ({format_percent(share)} of the time)"
    if others:
        yield f"{others} other process{'es' * (others > 1)} computed on the GPU"
    if ceilings.origin != "measured":
        yield "no ceilings were measured here: shares of the bandwidth are of the datasheet's"
    if given.run is not None and given.run.gpu and given.run.gpu != gpu.name:
        yield f"the brief is of a run on {given.run.gpu}: times of that are no rivals here"
    elif not single.times("rival") and given.run is not None and given.run.kernels_ns:
        yield "the present kernels took no turns with it: their time is that of the run"


def _checked(given: PluginFolder, single: Single) -> Iterator[BenchCheck]:
    labels = {files.kernel.tactic: files.kernel.label for files in given.kernels}
    for one in (check for each in single.rounds for check in each.checks):
        yield BenchCheck(
            what=f"variant {one.tactic} alone ({labels[one.tactic]})", ok=one.ok, worst=one.worst, reason=one.reason
        )


def _side(what: str, times: Sequence[float]) -> BenchSide:
    return BenchSide(what=what, median_ns=round(statistics.median(times)), n=len(times))


def _rival(given: PluginFolder, single: Single) -> BenchSide | None:
    """What took turns with the kernel, else the kernels of the run, where that was on the same GPU."""
    times = single.times("rival")
    if times:
        return _side(single.first.rival, times)
    run = given.run
    if run is None or run.kernels_ns is None or run.gpu not in ("", single.first.gpu):
        return None
    return BenchSide(what=f"the present kernels, by the run: {', '.join(run.kernels)}", median_ns=run.kernels_ns, n=0)


def _bandwidth(
    least: Needed | None, ceilings: Ceilings, kernel: BenchSide | None
) -> tuple[float | None, tuple[str, ...]]:
    """The share of what the GPU was measured to reach, and what is to be said where that is more than all."""
    if least is None or kernel is None or not kernel.median_ns:
        return None, ()
    share = least.nbytes / (kernel.median_ns * 1e-9) / ceilings.attainable.dram_bytes_per_s
    if share <= 1:
        return share, ()
    said = f"it moves {share:.3g} times what the GPU was measured to: --recalibrate measures that again"
    return 1.0, (said,)


def _score(kernel: BenchSide | None, rival: BenchSide | None, light: float | None) -> float | None:
    """SOL-ExecBench's; None where the rival is at the speed of light itself, or something is not known."""
    if kernel is None or rival is None or light is None or rival.median_ns <= light:
        return None
    return 1 / (1 + max(kernel.median_ns - light, 0.0) / (rival.median_ns - light))


def _interval(change: TurnsChange | None) -> Interval | None:
    if change is None:
        return None
    low, high = change.interval()
    return Interval(value=change.gain, low=low, high=high, level=LEVEL)


def _sides(change: TurnsChange | None) -> tuple[BenchSide, BenchSide] | None:
    if change is None:
        return None
    before, after = (
        BenchSide(what=what, median_ns=round(level), n=change.pairs)
        for what, level in zip((WITHOUT, WITH), change.levels, strict=True)
    )
    return before, after


# --- where it is kept -----------------------------------------------------------------------


def _keep(folder: Path, given: PluginFolder, found: PluginBench, options: BenchOptions, progress: Progress) -> None:
    path = RunFolder(folder).write(run_folder.BENCH, found)
    progress.detail(f"wrote {path}")
    if given.run is None and not options.run:
        return
    run = run_of(folder, given, options.run)
    if run is None:
        progress.note(
            f"the run {given.run.folder if given.run else options.run} is not here: nothing is kept beside it"
        )
        return
    before = run.read(run_folder.BENCH, PluginBenches).benches if run.has(run_folder.BENCH) else ()
    kept = (*(one for one in before if one.name != found.name), found)
    ordered = tuple(sorted(kept, key=lambda one: one.name))
    run.write(run_folder.BENCH, PluginBenches(schema_version=SCHEMA_VERSION, benches=ordered))
    progress.detail(f"kept beside the run {run.path}")


def run_of(folder: Path, given: PluginFolder, asked: str = "") -> RunFolder | None:
    """The run that the brief is of: the one asked for, else one of its name beside the folder or under ``reports``."""
    if asked:
        return RunFolder(Path(asked)) if (Path(asked) / run_folder.REQUEST).is_file() else None
    if given.run is None:
        return None
    name, here = given.run.folder, folder.resolve()
    for place in (here.parent, *(parent / name for parent in (here.parent, here.parent / "reports", Path("reports")))):
        run = RunFolder(place)
        there = place.name == name and run.has(run_folder.REQUEST)
        if there and run.read(run_folder.REQUEST, Request).created == given.run.created:
            return run
    return None
