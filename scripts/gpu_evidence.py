"""What a GPU says of trtprof: everything that only one can tell, measured by one command, in under nine minutes.

    python scripts/gpu_evidence.py [PART...] [--out FOLDER] [--list]

Parts (all but the last two by default, in this order; ``--list`` tells the share of time of each):

* ``here``: driver, CUDA, libraries and tools with their versions; whether the kernels of the calibration, CUPTI in the
  process, TensorRT-RTX and TensorRT, and each nsys that is found, work on this GPU.
* ``calibrate``: every ceiling with the spread of its repeats, beside the datasheet; some 300 kernels timed, and how far
  expectations are off for half of them, without and with the other half as a correction.
* ``runs``: ONNX Runtime's CUDA provider on a batched gemv, a convolution, ResNet-50, a MobileNet, an LSTM and a
  transformer of 12 layers in fp32 and fp16; one of them under nsys, one with TensorRT, where these are here.
* ``truth``: predicted DRAM bytes and FLOP beside the counters of ncu, and predicted beside measured time, by op class.
* ``plugin``, only where it is named: a kernel by hand for the batched gemv, as `trtprof plugin` writes it and `trtprof
  plugin bench` measures it: against float64, beside cuBLASLt and the measured bandwidth, and in an engine of TensorRT
  where that is here.
* ``try``, only where it is named: what `trtprof try` finds on the batched gemv and on a MobileNet with the backend that
  is chosen here: each rung with its measured and its predicted gain, and those that fail.

Every step of a part runs in a process of its own with a limit of time, so that one that fails or hangs takes nothing
with it; no step is started when the time is up. A step is ``ok``, ``failed``, or ``absent`` where what it needs is not
here; a number that was not measured is not there. ``--out`` gets ``results.json`` (`Results`), ``evidence.log`` (what
the steps printed), ``table.txt`` (what is printed last), ``runs.tar.gz`` (run folders, without their pages),
``kernels.csv`` (the kernels that were timed, as ``--measured`` takes them) and ``expected.json`` (the errors).

It needs ``pip install -e '.[gpu,cupti]'`` (``.[tensorrt]``, ``.[rtx]``, torch, nsys and ncu add what they are for), and
no network. Run folders hold paths, versions and, in reports of nsys, the environment: look through them, or redact
them (``trtprof report --redact``), before they are passed on.

Exit code 0 where all steps are ok or absent with a reason, 1 where one failed, 3 where there is no GPU.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

# A checkout need not be installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "profiler"))

from trtprof import __version__
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.units import format_ns, format_percent
from trtprof.runtime import child
from trtprof.source.request import ModelRequest

if TYPE_CHECKING:
    import onnx

    from trtprof.base.records import Ceilings, Run
    from trtprof.base.run_folder import RunFolder
    from trtprof.capture.nsys.record import Nsys
    from trtprof.expected import HeldOut
    from trtprof.runtime.cuda_driver import Gpu

ROOT = Path(__file__).resolve().parents[1]
OUT = Path("reports") / "gpu-evidence"
BUDGET_S = 530.0
"""For all steps; packing what they left takes a few seconds on top."""
LEAST_S = 5.0
"""A step is not started where less is left."""
KILLED_S = 5.0
"""What a process may take to end once it is told to."""
INSTALL = "pip install -e '.[gpu,cupti]'"
FILE_BYTES = 16 << 20
LOGGED_BYTES = 1 << 20
"""At most so much of what a step prints is kept: its end."""
GPU_INDEX = 0

Status = Literal["ok", "failed", "absent"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step.

    Attributes:
        status: ``ok``; ``failed``; ``absent`` where what it needs is not here, or the time was up.
        headline: In one sentence what was found, or why nothing was.
        facts: All that was measured; what was not is not there.
    """

    status: Status
    headline: str
    facts: dict[str, Any] = {}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A step, its limit and what came of it; times in seconds."""

    part: str
    step: str
    outcome: Outcome
    limit_s: float = 0.0
    took_s: float = 0.0


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The document ``results.json``."""

    created: str
    command: str
    versions: dict[str, str]
    budget_s: float
    took_s: float
    steps: tuple[Done, ...]
    left_out: tuple[str, ...] = ()
    """Files of run folders that ``runs.tar.gz`` has no room for."""

    def exit_code(self) -> int:
        """1 where a step failed, else 0."""
        return int(any(done.outcome.status == "failed" for done in self.steps))


class Step(NamedTuple):
    """A process of its own.

    Attributes:
        name: Within its part.
        share_s: What it may take at least, in seconds, where so much is left.
        work: Does it, given the folder that all steps share.
    """

    name: str
    share_s: float
    work: Callable[[Path], Outcome]


class Part(NamedTuple):
    """Some steps.

    Attributes:
        name: That names it.
        what: What it measures.
        steps: In this order.
        named: Whether it is left out unless it is named.
    """

    name: str
    what: str
    steps: tuple[Step, ...]
    named: bool = False

    @property
    def share_s(self) -> float:
        return sum(step.share_s for step in self.steps)


Command = Callable[[str, Path], list[str]]
"""The command of a step, by its name ``part/step`` and the folder."""


# --- the steps, one after the other ----------------------------------------------------------


def perform(
    parts: Sequence[Part],
    work: Path,
    *,
    budget_s: float = BUDGET_S,
    command: Command | None = None,
    done: Callable[[Done], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Done]:
    """Run the steps of parts, each in a process of its own.

    A step may take its share of the budget, what earlier ones left of theirs on top.

    Args:
        parts: In this order.
        work: The folder that they share; a step leaves an `Outcome` in it.
        budget_s: For all together.
        command: How a step is started.
        done: Told each step that is over.
        clock: In seconds.
    """
    began = clock()
    scale = budget_s / max(sum(part.share_s for part in parts), 1e-9)
    planned = 0.0
    found: list[Done] = []
    for part in parts:
        for step in part.steps:
            planned += scale * step.share_s
            gone = clock() - began
            left = budget_s - gone
            if left < LEAST_S:
                why = f"not started: the {budget_s:.0f} s for all were up"
                one = Done(part=part.name, step=step.name, outcome=Outcome(status="absent", headline=why))
            else:
                limit = min(max(planned - gone, step.share_s), left)
                name = f"{part.name}/{step.name}"
                outcome = run_step((command or step_command)(name, work), name, work, limit)
                took = clock() - began - gone
                one = Done(part=part.name, step=step.name, outcome=outcome, limit_s=limit, took_s=took)
            found.append(one)
            done(one)
    return found


def step_command(name: str, work: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--step", name, "--work", str(work)]


def run_step(command: Sequence[str], name: str, work: Path, limit_s: float) -> Outcome:
    """Run the process of a step to its end or its limit; what it prints goes to its log."""
    result, log = outcome_file(work, name), log_file(work, name)
    result.unlink(missing_ok=True)
    # The ceilings that one step measures the others take.
    environment = {
        **child.environment(),
        "TRTPROF_CACHE_DIR": str(work / "cache"),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as NVML counts
    }
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment,
                cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return Outcome(status="failed", headline=f"it could not be started: {error.strerror or error}")
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return _cut_short(f"no end within {limit_s:.0f} s", result, log)
        except BaseException:
            _end(process)
            raise
    if code:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return _cut_short(f"it ended without a result ({how})", result, log)
    try:
        return msgspec.json.decode(result.read_bytes(), type=Outcome)
    except (OSError, msgspec.DecodeError):
        return _cut_short("it ended without a result", result, log)


def _cut_short(how: str, result: Path, log: Path) -> Outcome:
    """A step that did not come to its end; what it found until then is kept (`so_far`)."""
    headline = f"{how}; the last it said: {_last(log) or 'nothing'}"
    try:
        before = msgspec.json.decode(result.read_bytes(), type=Outcome)
    except (OSError, msgspec.DecodeError):
        return Outcome(status="failed", headline=headline)
    return Outcome(status="failed", headline=f"{headline}; before that: {before.headline}", facts=before.facts)


def so_far(work: Path, name: str, headline: str, facts: dict[str, Any]) -> None:
    """Leave what a step has found, should it not come to its end."""
    outcome_file(work, name).write_bytes(msgspec.json.encode(Outcome(status="ok", headline=headline, facts=facts)))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started; one that hangs in the driver is left to the system."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(KILLED_S)
        except subprocess.TimeoutExpired:
            continue


def _last(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def outcome_file(work: Path, name: str) -> Path:
    return work / f"{name.replace('/', '.')}.json"


def log_file(work: Path, name: str) -> Path:
    return work / f"{name.replace('/', '.')}.log"


def do_step(name: str, work: Path, parts: Sequence[Part]) -> Outcome:
    """Do a step in this process, and leave its outcome, whatever happened."""
    step = next(step for part in parts for step in part.steps if f"{part.name}/{step.name}" == name)
    try:
        outcome = step.work(work)
    except MissingError as error:
        outcome = Outcome(status="absent", headline=words(error))
    except ModuleNotFoundError as error:
        outcome = Outcome(status="absent", headline=f"the package {error.name} is not installed; fix: {INSTALL}")
    except TrtprofError as error:
        outcome = Outcome(status="failed", headline=words(error))
    except Exception as error:  # a fault of ours is a result, too: the others go on
        import traceback

        traceback.print_exc()
        outcome = Outcome(status="failed", headline=" ".join(f"{type(error).__name__}: {error}".split())[:500])
    outcome_file(work, name).write_bytes(msgspec.json.encode(outcome))
    return outcome


def words(error: TrtprofError) -> str:
    """An error in one line."""
    parts = (error.what, error.why, error.fix and f"fix: {error.fix}")
    return " ".join("; ".join(filter(None, parts)).split())


# --- here ------------------------------------------------------------------------------------

PACKAGES = (
    "onnxruntime-gpu", "onnxruntime", "onnx", "numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "cupy",
    "cuda-bindings", "cupti-python", "nvidia-cuda-cupti", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12",
    "nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvmath-python", "nvtx",
    "tensorrt", "tensorrt-rtx", "triton", "nvidia-ml-py",
)  # fmt: skip
LAUNCHES = 8
"""Kernels that a profiler is to see."""


def machine(_work: Path) -> Outcome:
    """Driver, GPU, packages and tools."""
    from trtprof.capture.cupti import activity as cupti
    from trtprof.capture.ncu import record as ncu
    from trtprof.capture.nsys import record as nsys
    from trtprof.engine.backends import backends
    from trtprof.hardware import nvml

    live, why = nvml.gpus()
    if not live:
        raise MissingError("there is no NVIDIA GPU here", why=why)
    gpu = live[GPU_INDEX]
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "gpus": [msgspec.to_builtins(gpu) for gpu in live],
        "packages": installed(PACKAGES),
        "backends": {status.name: status.reason for status in backends()},
    }
    if why:
        facts["gpus_not_read"] = why
    facts["datasheet"] = said(lambda: ": ".join((nvml.spec_of(gpu)[0].slug, nvml.spec_of(gpu)[1])))
    facts["nvcc"] = said(lambda: told(["nvcc", "--version"]))
    facts["nsys"] = said(lambda: "{0.version_text} ({0.path}): {0.why}".format(nsys.find()))
    facts["ncu"] = said(lambda: "{0.version_text} ({0.path}): {0.why}".format(ncu.require()))

    def in_process() -> str:
        cupti.require()
        return "usable in the process"

    facts["cupti"] = said(in_process)
    for name, value in facts.items():
        print(f"{name}: {value}")
    runnable = [status.name for status in backends() if status.available]
    headline = f"{gpu.name}, driver {gpu.driver or 'unknown'}, CUDA {gpu.cuda or 'unknown'}; runs {', '.join(runnable)}"
    return Outcome(status="ok", headline=headline, facts=facts)


def installed(names: Sequence[str]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def said(ask: Callable[[], object]) -> str:
    """An answer, or in words why there is none."""
    try:
        return str(ask())
    except TrtprofError as error:
        return f"no: {words(error)}"
    except ModuleNotFoundError as error:
        return f"no: the package {error.name} is not installed"


def told(command: Sequence[str]) -> str:
    """The last line that a tool prints."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{command[0]} does not answer", why=str(error)) from None
    return (answer.stdout.strip().splitlines() or ["nothing"])[-1]


def selfchecked(_work: Path) -> Outcome:
    """The calibration in short, in this process: what fails of it shows here."""
    measured = f"calibrate.calibrate_gpu({GPU_INDEX}, seconds=4, measure=_measure.measure)"
    code = f"from trtprof.hardware.cuda import _measure, calibrate; print({measured}.source)"
    return checked_by([sys.executable, "-c", code], lambda out: out[-1] if out else "")


def checked_by(command: Sequence[str], headline: Callable[[Sequence[str]], str]) -> Outcome:
    """What a check of the project's own says by its exit code: 0 ok, 3 absent."""
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    print(answer.stdout + answer.stderr)
    out = [line for line in answer.stdout.splitlines() if line.strip()]
    facts = {"exit_code": answer.returncode, "printed": out}
    if answer.returncode == 0:
        return Outcome(status="ok", headline=headline(out), facts=facts)
    why = " ".join(answer.stderr.split())[-600:] or headline(out)
    status: Status = "absent" if answer.returncode == MissingError.exit_code else "failed"
    return Outcome(status=status, headline=why or f"exit code {answer.returncode}", facts=facts)


def engine_runs(backend: str, work: Path) -> Outcome:
    """Whether a TensorRT builds, loads and runs an engine here, each answer in its own words."""
    from trtprof.capture.workers.trt_runtime import Library
    from trtprof.engine.tensorrt import BuildOptions
    from trtprof.flows.build import build

    library = Library.of(backend)
    model = str(ROOT / "sample_models" / "resnet_tiny.onnx")
    facts: dict[str, Any] = {"library": library.title}
    asked: dict[str, Callable[[], str]] = {}
    engines: list[Path] = []

    def built() -> str:
        made = build(ModelRequest.of(model, batch=1), BuildOptions(backend=backend))
        engines.append(made.built.plan)
        return f"yes: {len(made.priced.document.layers)} layers"

    def loaded() -> str:
        if not engines:
            raise MissingError("there is no engine to load", why="the build failed")
        _, engine = library.deserialised(engines[0])
        return f"yes: {engine.num_io_tensors} inputs and outputs"

    def ran() -> str:
        run = run_model(work, f"resnet_tiny-{backend}", Path(model), backend=backend, batch=1)
        return f"yes: {format_ns(run.latency.median_ns)}, right: {all(check.matches for check in run.checks)}"

    asked = {"builds": built, "deserialises": loaded, "runs": ran}
    for what, ask in asked.items():
        print(f"{library.title}: {what}?", flush=True)
        facts[what] = said(ask)
        print(facts[what], flush=True)
        answers = "; ".join(f"{each}: {facts[each]}" for each in asked if each in facts)
        so_far(work, f"here/{backend}", f"{library.title} {answers}", facts)
    # That it refuses this GPU is the answer that was asked for.
    return Outcome(status="ok", headline=f"{library.title} {answers}", facts=facts)


def rtx(work: Path) -> Outcome:
    return engine_runs("tensorrt-rtx", work)


def tensorrt(work: Path) -> Outcome:
    return engine_runs("tensorrt", work)


def traced(work: Path) -> Outcome:
    """Whether each nsys that is here records kernels between cudaProfilerStart and Stop."""
    from trtprof.capture.nsys import record as nsys

    first = nsys.find()
    paths = [str(first.path), *(other.rpartition(" (")[0] for other in first.others)]
    answers: dict[str, str] = {}
    for at, path in enumerate(paths):
        os.environ["TRTPROF_NSYS"] = path
        tool = nsys.find()
        answers[f"{tool.version_text} ({path})"] = said(lambda tool=tool, at=at: kernels_seen(tool, work / f"nsys{at}"))  # type: ignore[misc]
        name = f"{tool.version_text} ({path})"
        print(f"{name}: {answers[name]}", flush=True)
        so_far(work, "here/nsys", f"{name}: {answers[name]}", {"nsys": answers})
    works = any(answer.startswith("traces ") for answer in answers.values())
    headline = "; ".join(f"{name}: {answer}" for name, answer in answers.items())
    return Outcome(status="ok" if works else "failed", headline=headline, facts={"nsys": answers})


def kernels_seen(tool: Nsys, output: Path) -> str:
    from trtprof.capture.nsys import record as nsys
    from trtprof.capture.nsys.trace import read_trace

    worker = [sys.executable, str(Path(__file__).resolve()), "--launch"]
    profile = nsys.run_profile(tool, worker, output, timeout_s=90, progress=print)
    trace = read_trace(nsys.export_sqlite(profile.report, tool, timeout_s=60))
    kernels = int((trace.work["kind"] == "kernel").sum())
    notes = f" ({'; '.join(profile.notes)})" if profile.notes else ""
    return f"{'traces' if kernels == LAUNCHES else 'LOSES'} {kernels} of {LAUNCHES} kernels{notes}"


def launch() -> int:
    """What a profiler watches: kernels that do nothing, between cudaProfilerStart and Stop."""
    from trtprof.hardware.cuda import _kernels

    gpu = opened(_kernels.source())
    gpu.launch("empty", 1, 32)
    gpu.synchronize()
    gpu.check(gpu.driver.cuProfilerStart())
    for _ in range(LAUNCHES):
        gpu.launch("empty", 1, 32)
    gpu.synchronize()
    gpu.check(gpu.driver.cuProfilerStop())
    gpu.close()
    return 0


def opened(source: bytes) -> Gpu:
    """The GPU with a source compiled and loaded."""
    from trtprof.hardware.cuda import _kernels
    from trtprof.runtime import cuda_driver, nvrtc

    gpu = cuda_driver.Gpu(GPU_INDEX)
    capability = gpu.properties.capability
    gpu.load(nvrtc.compile_source(source, nvrtc.target(capability, _kernels.architecture(capability))).image)
    return gpu


# --- calibrate -------------------------------------------------------------------------------


def calibrated(work: Path) -> Outcome:
    """Measure the ceilings, keep them for the other steps, and hold them against the datasheet."""
    from trtprof.hardware import calibration, gpus, nvml
    from trtprof.hardware.cuda import calibrate

    gpu = calibrate.find(GPU_INDEX)
    found = measured_ceilings(work)
    spec, reason = nvml.spec_of(gpu)
    sheet = calibrate.flat(gpus.ceilings(spec).best)
    rows = {}
    for key, one in found.measurements.items():
        rows[key] = {**msgspec.to_builtins(one), **({"datasheet": sheet[key]} if key in sheet else {})}
        spread = "-" if one.spread is None else format_percent(one.spread)
        beside = f"{format_percent(one.value / sheet[key])} of the datasheet" if sheet.get(key) else "no datasheet"
        print(f"{key:<28}{calibration.rate(key, one.value):>16}  spread {spread:>7}  {beside:<28} {one.what}")
    print(found.source)
    shown = [key for key in ("dram", "tensor fp16", "tensor tf32", "vector fp32") if key in rows and sheet.get(key)]
    figures = [
        f"{key} {calibration.rate(key, found.measurements[key].value)} "
        f"({format_percent(found.measurements[key].value / sheet[key])})"
        for key in shown
    ]
    headline = f"{len(rows)} measured; of the datasheet of {spec.name}: {', '.join(figures)}"
    facts = {"datasheet": f"{spec.slug}: {reason}", "measurements": rows, "source": found.source,
             "clocks_mhz": found.clocks_mhz}  # fmt: skip
    return Outcome(status="ok", headline=headline, facts=facts)


def measured_ceilings(work: Path) -> Ceilings:
    """The ceilings as an earlier step measured them, else measured now and kept for the others."""
    from trtprof.hardware import store
    from trtprof.hardware.cuda import calibrate

    shelf = store.of_gpu(calibrate.find(GPU_INDEX), cache_dir=work / "cache")
    found = shelf.read(print)
    if found is None:
        found = calibrate.calibrate_gpu(GPU_INDEX, progress=print)
        shelf.write(found, print)
    return found


KERNEL_SECONDS = 40.0
"""For all kernels that are timed."""
KERNELS, ERRORS = "kernels.csv", "expected.json"
"""What the timed kernels leave in the folder: themselves, and how far expectations are off for those held out."""


def kernels_timed(work: Path) -> Outcome:
    """Time kernels, keep them for the steps to come, and tell what half of them does for the other half."""
    from trtprof.expected import held_out, read_measured
    from trtprof.flows import timed_rows
    from trtprof.hardware import gpus, nvml
    from trtprof.hardware.cuda import calibrate

    gpu = calibrate.find(GPU_INDEX)
    kept = timed_rows.time_kernels(gpu, progress=print, seconds=KERNEL_SECONDS)
    for note in kept.notes:
        print(note)
    if kept.path is None:
        return Outcome(status="failed", headline="; ".join(kept.notes) or "no kernel could be timed")
    shutil.copyfile(kept.path, work / KERNELS)
    spec, reason = nvml.spec_of(gpu)
    rows = read_measured(kept.path).rows()
    found = held_out(rows, spec, gpus.ceilings(spec, tf32=False))
    facts = {
        "datasheet": f"{spec.slug}: {reason}",
        "rows": len(rows),
        "left_out": len(rows) if kept.corrected is None else kept.corrected.left_out,
        "notes": list(kept.notes),
        "held_out": {name: one._asdict() for name, one in found.items()},
    }
    (work / ERRORS).write_bytes(msgspec.json.format(msgspec.json.encode(facts)))
    for name, one in found.items():
        print(f"{name:<16}{_errors(one)}")
    if "all" not in found:
        return Outcome(status="failed", headline=f"{len(rows)} kernels timed, none of which can be right", facts=facts)
    return Outcome(status="ok", headline=f"{len(rows)} kernels timed; {_errors(found['all'])}", facts=facts)


def _errors(one: HeldOut) -> str:
    return (
        f"{one.rows} held out: expectations off by {format_percent(one.before)} on average, "
        f"{format_percent(one.after)} with the others as correction, {format_percent(one.covered)} in the band"
    )


# --- runs ------------------------------------------------------------------------------------


DURATION_S = 1.0
"""Of the clean measurement, in each mode."""


class Say:
    """A `Progress` that prints."""

    def opened(self, folder: Path) -> None:
        print(f"folder {folder.name}", flush=True)

    def stage(self, name: str) -> None:
        print(f"{name} ...", flush=True)

    def detail(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def note(self, text: str) -> None:
        self.detail(text)


def run_model(
    work: Path,
    name: str,
    model: Path,
    *,
    shapes: Sequence[str] = (),
    batch: int | None = None,
    backend: str = "ort-cuda",
    collector: str = "",
    verify: bool = True,
    confirm: int = 0,
    profile_iterations: int = 30,
) -> Run:
    """Run a model through the pipeline into the folder ``runs/NAME``; its result."""
    from trtprof.flows.options import GpuOptions, RunOptions
    from trtprof.flows.run import execute

    gpu = GpuOptions() if backend == "ort-cpu" else GpuOptions(
        collector=collector or usable_collector(), verify=verify, confirm=confirm
    )  # fmt: skip
    folder = execute(
        RunOptions(
            model=ModelRequest.of(model, shapes, batch=batch), backend=backend, duration_s=DURATION_S, gpu=gpu,
            profile_iterations=profile_iterations, output=str(work / "runs" / name), force=True,
        ),
        Say(),
    )  # fmt: skip
    return folder.report()


def usable_collector() -> str:
    """CUPTI in the process where it can be used, which needs no tool; else what there is."""
    from trtprof.capture.gpu_launch import choose_collector

    try:
        return choose_collector("cupti")[0]
    except MissingError as error:
        print(words(error))
        return "auto"


def summary(run: Run) -> dict[str, Any]:
    """What a run found, in short; its folder has all."""
    attainable = sum(layer.attainable_ns or 0 for layer in run.layers)
    kernels = sum(layer.measured_ns for layer in run.layers)
    return {
        "model": run.model.name,
        "backend": run.backend.name,
        "device": run.device.name,
        "versions": run.versions,
        "latency": msgspec.to_builtins(run.latency),
        "profiled": msgspec.to_builtins(run.profiled),
        "modes": [msgspec.to_builtins(mode) for mode in run.modes],
        "coverage": msgspec.to_builtins(run.coverage),
        "ledger": [{"cause": row.cause, "ns": row.ns, "kind": row.kind} for row in run.ledger],
        "ledger_off_by_ns": sum(row.ns for row in run.ledger) - run.latency.median_ns,
        "attainable_ns": attainable,
        "kernels_ns": kernels,
        "share_of_roof": attainable / run.latency.median_ns if run.latency.median_ns else None,
        "layers": len(run.layers),
        "findings": [
            {"code": finding.code, "where": finding.where, "lost_ns": finding.lost_ns,
             "confidence": finding.confidence, "kind": finding.kind}
            for finding in run.findings
        ],
        "checks": [msgspec.to_builtins(check) for check in run.checks],
        "unsupported": [f"{one.domain}.{one.op_type}" for one in run.unsupported],
        "clocks": msgspec.to_builtins(run.clocks) if run.clocks else None,
        "ceilings": run.ceilings.origin,
        "verdict": run.verdict,
        "assumptions": list(run.assumptions),
    }  # fmt: skip


def in_words(run: Run) -> str:
    """A run in one sentence."""
    found = summary(run)
    codes: dict[str, int] = {}
    for finding in run.findings:
        codes[finding.code] = codes.get(finding.code, 0) + 1
    wrong = [check.name for check in run.checks if not check.matches]
    rest = sum(row.ns for row in run.ledger if row.cause == "unexplained")
    parts = [
        f"{format_ns(run.latency.median_ns)} (profiled {format_ns(run.profiled.median_ns)})",
        f"exact {format_percent(run.coverage.exact)} inferred {format_percent(run.coverage.inferred)}",
        f"roof {format_percent(found['share_of_roof'])}" if found["share_of_roof"] is not None else "",
        f"ledger off by {found['ledger_off_by_ns']} ns, unexplained {format_ns(rest)}",
        f"WRONG outputs: {', '.join(wrong)}" if wrong else "outputs right" if run.checks else "",
        " ".join(f"{code}x{count}" for code, count in sorted(codes.items())),
    ]
    return "; ".join(filter(None, parts))


def ran(run: Run) -> Outcome:
    """A run as an outcome: failed where a contract does not hold."""
    found = summary(run)
    broken = [check.name for check in run.checks if not check.matches]
    status: Status = "failed" if broken or found["ledger_off_by_ns"] else "ok"
    return Outcome(status=status, headline=in_words(run), facts=found)


def sample(work: Path, name: str, make: Callable[[Any], onnx.ModelProto]) -> Path:
    """A model that ``sample_models/generate.py`` makes, as a file."""
    import onnx

    sys.path.insert(0, str(ROOT / "sample_models"))
    import generate

    path = work / "models" / f"{name}.onnx"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        onnx.save(make(generate), str(path))
    return path


TRANSFORMER = {"layers": 12, "width": 768, "heads": 12}
TRANSFORMER_SHAPES = ("input_ids:8x128,attention_mask:8x128",)


def run_gemv(work: Path) -> Outcome:
    return ran(run_model(work, "gemv", ROOT / "sample_models" / "gemv.onnx"))


def run_conv(work: Path) -> Outcome:
    path = sample(work, "conv", lambda generate: generate.conv(256))
    return ran(run_model(work, "conv", path, batch=1))


def run_resnet50(work: Path) -> Outcome:
    import onnx

    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    return ran(run_model(work, "resnet50", light))


def run_mobilenet(work: Path) -> Outcome:
    return ran(run_model(work, "mobilenet", ROOT / "sample_models" / "mobilenet_tiny.onnx", batch=32))


def run_lstm(work: Path) -> Outcome:
    path = ROOT / "sample_models" / "lstm.onnx"
    return ran(run_model(work, "lstm", path, shapes=("features:64x16x64",)))


def transformer(work: Path) -> Path:
    return sample(work, "transformer_12", lambda generate: generate.transformer(**TRANSFORMER))


def run_transformer(work: Path) -> Outcome:
    return ran(run_model(work, "transformer_12", transformer(work), shapes=TRANSFORMER_SHAPES))


def run_transformer_fp16(work: Path) -> Outcome:
    from trtprof.engine._convert import to_fp16

    path = transformer(work)
    converted = to_fp16(path, path.parent, path.parent)
    return ran(run_model(work, "transformer_12_fp16", converted.path, shapes=TRANSFORMER_SHAPES))


def run_nsys(work: Path) -> Outcome:
    """The gemv once more, under nsys."""
    return ran(run_model(work, "gemv-nsys", ROOT / "sample_models" / "gemv.onnx", collector="nsys", verify=False))


def run_tensorrt(work: Path) -> Outcome:
    """The gemv with the first TensorRT that runs here."""
    from trtprof.flows.run import choose_backend

    refused = []
    for backend in ("tensorrt", "tensorrt-rtx"):
        try:
            choose_backend(backend)
            return ran(run_model(work, f"gemv-{backend}", ROOT / "sample_models" / "gemv.onnx", backend=backend))
        except TrtprofError as error:
            # That RTX refuses a GPU it is not made for is no fault.
            if backend == "tensorrt" and not isinstance(error, MissingError):
                raise
            refused.append(words(error))
    raise MissingError("no TensorRT runs here", why="; ".join(refused))


# --- truth -----------------------------------------------------------------------------------

CLASSES_NAME = "op_classes"
KERNELS_COUNTED = 64
LEAST_COUNTED = 20
"""Kernels that the predictions are to be held against at least."""


def op_classes() -> onnx.ModelProto:
    """One model of many ops that do not depend on each other: several of each class, in sizes that differ."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    inputs = {
        "x": (4096, 4096), "w": (4096, 4096), "thin": (4096, 512), "few": (512, 4096), "row": (1, 4096),
        "column": (4096, 1), "heads_a": (64, 512, 64), "heads_b": (64, 64, 512), "story_a": (150, 200, 8, 1, 64),
        "story_b": (150, 1, 8, 64, 1), "scores": (16, 12, 256, 256), "tokens": (32768, 768),
        "image": (16, 64, 112, 112),
    }  # fmt: skip
    nodes: list[onnx.NodeProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    weights: list[onnx.TensorProto] = []
    values = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> str:
        if name not in {one.name for one in weights}:
            scale = np.float32(np.prod(shape[1:]) ** -0.5)
            weights.append(numpy_helper.from_array(values.standard_normal(shape, dtype=np.float32) * scale, name))
        return name

    def op(op_type: str, *names: str, **attributes: Any) -> None:
        name = f"{op_type}_{len(nodes)}"
        nodes.append(helper.make_node(op_type, list(names), [f"{name}_out"], name=name, **attributes))
        outputs.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None))

    for left, right in (("x", "w"), ("x", "thin"), ("few", "thin"), ("heads_a", "heads_b")):
        op("MatMul", left, right)
    for left, right in (("story_a", "story_b"), ("row", "x"), ("w", "column")):
        op("MatMul", left, right)
    op("Conv", "image", weight("w3", 64, 64, 3, 3), pads=[1] * 4)
    op("Conv", "image", weight("w1", 256, 64, 1, 1))
    op("Conv", "image", weight("w5", 64, 64, 5, 5), pads=[2] * 4, strides=[2, 2])
    op("Conv", "image", weight("wd", 64, 1, 3, 3), pads=[1] * 4, group=64)
    for name in ("x", "scores", "tokens"):
        op("Softmax", name, axis=-1)
    for name in ("x", "scores", "tokens"):
        width = inputs[name][-1]
        op("LayerNormalization", name, weight(f"scale{width}", width), weight(f"bias{width}", width), axis=-1)
    op("Exp", "x")
    op("Add", "x", "w")
    op("Sigmoid", "tokens")
    op("Mul", "image", "image")
    op("ReduceMean", "x", axes=[1], keepdims=0)
    op("ReduceMax", "x", axes=[0], keepdims=0)
    op("ReduceMean", "tokens", axes=[1], keepdims=0)
    op("Transpose", "x", perm=[1, 0])
    op("Transpose", "image", perm=[0, 2, 3, 1])
    op("Transpose", "scores", perm=[0, 2, 1, 3])
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, CLASSES_NAME, infos, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def classes_file(work: Path) -> Path:
    import onnx

    path = work / "models" / f"{CLASSES_NAME}.onnx"
    path.parent.mkdir(exist_ok=True)
    if not path.is_file():
        onnx.save(onnx.shape_inference.infer_shapes(op_classes()), str(path))
    return path


def run_classes(work: Path, confirm: int) -> Run:
    # Its inputs and outputs are 2 GB, which every inference copies: a few inferences do.
    return run_model(work, CLASSES_NAME, classes_file(work), verify=False, confirm=confirm, profile_iterations=10)


def counted(work: Path) -> Outcome:
    """Predicted bytes and FLOP of the ops of each class beside what ncu counts."""
    from trtprof.base.kernel_counters import COUNTERS_FILE, Counters
    from trtprof.base.run_folder import RunFolder
    from trtprof.capture.ncu import record as ncu
    from trtprof.diagnose.reached import class_of
    from trtprof.flows.report import case_of

    ncu.require()
    run = run_classes(work, KERNELS_COUNTED)
    folder = RunFolder(work / "runs" / CLASSES_NAME)
    counters = folder.read(COUNTERS_FILE, Counters) if folder.has(COUNTERS_FILE) else Counters(version="")
    if not counters.launches:
        why = counters.failure or "no kernel was counted"
        # A permission is missing here, all else is a fault.
        status: Status = "absent" if "NVGPUCTRPERM" in why else "failed"
        return Outcome(status=status, headline=why)
    case = case_of(folder)
    kinds = {layer.name: class_of(layer, case).op for layer in run.layers}
    rows = [
        {"layer": one.layer, "class": kinds[one.layer], "launches": one.launches, "match": one.match,
         "checks": [msgspec.to_builtins(check) for check in one.checks]}
        for one in run.confirmations
    ]  # fmt: skip
    for one in run.confirmations:
        print(f"{kinds[one.layer]:<14} {one.layer}: " + "; ".join(check.reason for check in one.checks))
    tallies = {
        what: tally(
            [
                (kinds[one.layer], check.verdict)
                for one in run.confirmations
                for check in one.checks
                if check.what == what
            ]
        )
        for what in ("DRAM bytes", "FLOP", "math unit")
    }
    uncounted = sorted(set(kinds) - {one.layer for one in run.confirmations})
    few = "" if len(counters.launches) >= LEAST_COUNTED else f" (fewer than the {LEAST_COUNTED} asked for)"
    parts = [f"{len(counters.launches)} launches of {len(rows)} layers{few}"]
    for what, by_class in tallies.items():
        sums = {verdict: sum(own.get(verdict, 0) for own in by_class.values())
                for verdict in ("confirmed", "refuted", "not told")}  # fmt: skip
        parts.append(f"{what}: {', '.join(f'{count} {verdict}' for verdict, count in sums.items())}")
    if uncounted:
        parts.append(f"{len(uncounted)} layers not counted")
    facts = {"ncu": counters.version, "layers": rows, "verdicts": tallies, "uncounted": uncounted}
    return Outcome(status="ok", headline="; ".join(parts), facts=facts)


def tally(pairs: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """How often each second word stands beside each first one."""
    found: dict[str, dict[str, int]] = {}
    for first, second in pairs:
        own = found.setdefault(first, {})
        own[second] = own.get(second, 0) + 1
    return found


class Time(NamedTuple):
    """Of one layer, in ns."""

    kind: str
    measured: int
    ideal: int
    attainable: int


def predicted(work: Path) -> Outcome:
    """Predicted beside measured time, by op class, over every run that was made; how many were faster than ideal."""
    from trtprof.base.run_folder import REPORT, RunFolder

    sys.path.insert(0, str(ROOT / "scripts" / "bench"))
    from efficiency import above_roof

    if not (work / "runs" / CLASSES_NAME / REPORT).is_file():
        run_classes(work, 0)
    times: list[Time] = []
    untold: list[str] = []
    origins = set()
    folders = [RunFolder(path.parent) for path in sorted((work / "runs").glob(f"*/{REPORT}"))]
    unread: dict[str, str] = {}
    for folder in folders:
        name = folder.path.name
        try:
            run = folder.report()
            times += layer_times(folder)
        except TrtprofError as error:
            unread[name] = words(error)
            continue
        origins.add(run.ceilings.origin)
        untold += [f"{name}: {one.name} ({one.measured_ns} of {one.ideal_ns} ns)" for one in above_roof(run)]
    if not times:
        return Outcome(status="failed", headline="no layer has both a measured and a predicted time")
    by_class = errors_by_class(times)
    for kind, own in by_class.items():
        print(f"{kind:<16} {own}")
    for line in untold:
        print(f"faster than ideal, and no finding says so: {line}")
    total = by_class["all"]
    read = len(folders) - len(unread)
    headline = (
        f"{len(times)} layers of {read} runs: mean absolute error {format_percent(total['attainable_error'])} "
        f"of the calibrated roof, {format_percent(total['ideal_error'])} of the datasheet's; "
        f"{total['faster_than_ideal']} faster than ideal, {len(untold)} of them untold by more than noise"
    )
    if "datasheet" in origins:
        headline += "; in some runs the calibrated roof IS the datasheet's: none was measured"
    if unread:
        headline += f"; not read: {', '.join(unread)}"
    facts = {"by_class": by_class, "untold": untold, "runs": [folder.path.name for folder in folders],
             "not_read": unread, "roofs": sorted(origins)}  # fmt: skip
    return Outcome(status="ok", headline=headline, facts=facts)


def layer_times(folder: RunFolder) -> Iterator[Time]:
    """Of the layers of a run that were measured and priced."""
    from trtprof.diagnose.reached import class_of
    from trtprof.flows.report import case_of

    case = case_of(folder)
    for layer in folder.report().layers:
        if layer.measured_ns and layer.ideal_ns and layer.attainable_ns and layer.kernels:
            yield Time(class_of(layer, case).op, layer.measured_ns, layer.ideal_ns, layer.attainable_ns)


def errors_by_class(times: Sequence[Time]) -> dict[str, dict[str, float]]:
    """By class, and of all: mean of |predicted - measured| / measured by both roofs, and how many beat the ideal."""
    kinds = {"all": list(times)}
    for one in times:
        kinds.setdefault(one.kind, []).append(one)
    return {
        kind: {
            "layers": len(own),
            "attainable_error": statistics.fmean(abs(one.attainable - one.measured) / one.measured for one in own),
            "ideal_error": statistics.fmean(abs(one.ideal - one.measured) / one.measured for one in own),
            "faster_than_ideal": sum(one.measured < one.ideal for one in own),
            "faster_than_attainable": sum(one.measured < one.attainable for one in own),
        }
        for kind, own in kinds.items()
    }


# --- try -------------------------------------------------------------------------------------

TRY_S = 150.0
"""What one model has for all of its rungs; building engines is in it, and the runs of the original and of the best."""


def try_gemv(work: Path) -> Outcome:
    return tried(work, "gemv", ROOT / "sample_models" / "gemv.onnx")


def try_mobilenet(work: Path) -> Outcome:
    return tried(work, "mobilenet", ROOT / "sample_models" / "mobilenet_tiny.onnx", batch=32)


def tried(work: Path, name: str, model: Path, batch: int | None = None) -> Outcome:
    """Try what would help a model, with the backend that is chosen here; the whole document lies beside its runs."""
    from trtprof.flows.options import GPU_BACKENDS, GpuOptions, RunOptions
    from trtprof.flows.run import choose_backend
    from trtprof.flows.try_ import try_model
    from trtprof.flows.try_.options import TryOptions
    from trtprof.report import render

    backend = choose_backend("auto")
    if backend.name not in GPU_BACKENDS:
        raise MissingError("no backend runs on the GPU here", why=backend.reason, fix=INSTALL)
    folder = work / "runs" / f"try-{name}"
    found = try_model(
        TryOptions(
            run=RunOptions(
                model=ModelRequest.of(model, batch=batch), backend=backend.name, duration_s=DURATION_S,
                gpu=GpuOptions(collector=usable_collector()), profile_iterations=10, output=str(folder),
            ),
            budget_s=TRY_S,
        ),
        Say(),
    )  # fmt: skip
    (folder / "tried.json").write_text(render(found, "json"), encoding="utf-8")
    rungs = [
        {
            "name": rung.name, "kind": rung.kind, "verdict": rung.verdict, "reason": rung.reason,
            "predicted": rung.predicted, "basis": rung.basis, "difference": rung.difference, "seconds": rung.seconds,
            "gain": rung.gain and msgspec.to_builtins(rung.gain),
        }
        for rung in found.rungs
    ]  # fmt: skip
    both = [(rung.predicted, rung.gain.value) for rung in found.rungs if rung.predicted and rung.gain]
    facts = {
        "backend": found.backend.name, "candidates": found.candidates, "spent_s": found.spent_s, "rungs": rungs,
        "best": found.best and msgspec.to_builtins(found.best), "doubts": list(found.doubts),
        "sign_right": sum((guess >= 1) == (gain >= 1) for guess, gain in both), "predicted": len(both),
    }  # fmt: skip
    verdicts = tally([("", rung.verdict) for rung in found.rungs]).get("", {})
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    headline = f"{found.backend.name}: {found.verdict}; {told}; sign right {facts['sign_right']} of {len(both)}"
    return Outcome(status="ok" if found.candidates else "failed", headline=headline, facts=facts)


# --- plugin ----------------------------------------------------------------------------------


def plugin_gemv(work: Path) -> Outcome:
    """The story's product: its kernel by hand, written here and measured."""
    return benched(work, "gemv", ROOT / "sample_models" / "gemv.onnx")


def benched(work: Path, name: str, model: Path) -> Outcome:
    """Write a plugin for the first node of a model, and measure it; the folder lies beside the runs."""
    import onnx

    from trtprof.flows.plugin.bench import bench
    from trtprof.hardware import nvml
    from trtprof.hardware.cuda import calibrate

    spec, _ = nvml.spec_of(calibrate.find(GPU_INDEX))
    node = onnx.load(str(model), load_external_data=False).graph.node[0].name
    folder = work / "runs" / f"plugin-{name}"
    words = ["plugin", str(model), node, "--gpu", spec.slug, "--only", "brief,write,insert", "-o", str(folder)]
    wrote = checked_by(child.command("trtprof", *words), lambda said: said[-1] if said else "")
    if wrote.status != "ok":
        return wrote
    found = bench(folder, Say())
    gains = {"alone": found.kernel_gain, "engine": found.engine_gain}
    told = [f"{what} {gain.value:.3g} ({gain.low:.3g} to {gain.high:.3g})" for what, gain in gains.items() if gain]
    alone = f"{format_ns(found.alone.median_ns)} alone" if found.alone is not None else ""
    share = f"{format_percent(found.bandwidth)} of the bandwidth" if found.bandwidth is not None else ""
    score = f"score {found.score:.3f}" if found.score is not None else ""
    return Outcome(
        status="failed" if found.verdict == "incorrect" else "ok",
        headline="; ".join(filter(None, [found.verdict, alone, share, score, *told, found.why])),
        facts=msgspec.to_builtins(found),
    )


# --- all of it -------------------------------------------------------------------------------

PARTS = (
    Part("here", "what is here, and whether each tool works on this GPU", (
        Step("machine", 10, machine), Step("selfcheck", 25, selfchecked),
        Step("tensorrt-rtx", 15, rtx), Step("tensorrt", 15, tensorrt), Step("nsys", 20, traced),
    )),
    Part("calibrate", "ceilings with their spread, beside the datasheet; kernels that correct what is expected", (
        Step("ceilings", 45, calibrated), Step("kernels", 65, kernels_timed),
    )),
    Part("runs", "models through the pipeline: latency, coverage, ledger, share of the roof, findings", (
        Step("gemv", 22, run_gemv), Step("conv", 22, run_conv), Step("resnet50", 22, run_resnet50),
        Step("mobilenet", 18, run_mobilenet), Step("transformer", 26, run_transformer),
        Step("transformer-fp16", 26, run_transformer_fp16), Step("lstm", 18, run_lstm), Step("gemv-nsys", 20, run_nsys),
        Step("gemv-tensorrt", 16, run_tensorrt),
    )),
    Part("truth", "predictions beside hardware counters and measured times, by op class", (
        Step("counters", 85, counted), Step("errors", 20, predicted),
    )),
    Part("plugin", "a kernel by hand for the batched gemv: right, alone beside a library, in an engine of TensorRT", (
        Step("gemv", 300, plugin_gemv),
    ), named=True),
    Part("try", "rungs on a GPU: measured and predicted gains, by TensorRT or ONNX Runtime", (
        Step("gemv", 230, try_gemv), Step("mobilenet", 230, try_mobilenet),
    ), named=True),
)  # fmt: skip


def selected(names: Sequence[str], parts: Sequence[Part] = PARTS) -> list[Part]:
    """The parts of these names, in their own order; where none is named, those that need not be.

    Raises:
        UsageError: There is no part of a name.
    """
    known = [part.name for part in parts]
    for name in names:
        if name not in known:
            raise UsageError(f"there is no part {name!r}", why=f"known: {', '.join(known)}", fix="--list shows them")
    return [part for part in parts if (part.name in names if names else not part.named)]


def no_gpu() -> MissingError | None:
    """Why nothing can be measured here; None where there is a GPU."""
    from trtprof.hardware import nvml

    live, why = nvml.gpus()
    if live:
        return None
    return MissingError(
        "there is no NVIDIA GPU to take evidence from",
        why=why,
        fix=f"run this where nvidia-smi lists a GPU (a container: --gpus all), after {INSTALL}",
    )


SHOWN_LINES = 4
"""Of each row of the table; ``results.json`` has all."""


def table(steps: Sequence[Done], width: int = 120) -> str:
    """A row a step: its name, status, seconds, and what was found or why nothing was."""
    names = [f"{done.part}/{done.step}" for done in steps]
    left = max(map(len, [*names, "step"]))
    lines = [f"{'step':<{left}}  {'status':<6} {'s':>5}  found"]
    for name, done in zip(names, steps, strict=True):
        head = f"{name:<{left}}  {done.outcome.status:<6} {done.took_s:>5.0f}  "
        wrapped = textwrap.wrap(
            done.outcome.headline, max(width - len(head), 20), max_lines=SHOWN_LINES, placeholder=" ..."
        ) or [""]  # fmt: skip
        lines += [head + wrapped[0], *(" " * len(head) + line for line in wrapped[1:])]
    counts = tally([("", done.outcome.status) for done in steps]).get("", {})
    lines.append(", ".join(f"{counts[status]} {status}" for status in ("ok", "failed", "absent") if status in counts))
    return "\n".join(lines)


def save(results: Results, out: Path, work: Path) -> None:
    """Leave what there is so far; the run folders come last (`packed`)."""
    (out / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    (out / "table.txt").write_text(table(results.steps) + "\n")
    parts = []
    for done in results.steps:
        name = f"{done.part}/{done.step}"
        log = log_file(work, name)
        text = log.read_bytes()[-LOGGED_BYTES:] if log.is_file() else b""
        parts.append(f"=== {name}: {done.outcome.status}\n".encode() + text + b"\n")
    budget = FILE_BYTES // max(len(parts), 1)
    (out / "evidence.log").write_bytes(b"".join(part[-budget:] for part in parts))
    for name in (KERNELS, ERRORS):
        if (work / name).is_file():
            shutil.copyfile(work / name, out / name)


TAR_HEADER_BYTES = 1024
"""Of each file in an archive, the filling of its last block with it."""
LEFT_OUT = (".html", ".sqlite")
"""Of a run folder: what the rest of it makes again."""


def packed(work: Path, out: Path, limit: int = FILE_BYTES) -> list[str]:
    """Pack the run folders; what was left out because the file would have grown too large."""
    files = [path for path in sorted((work / "runs").rglob("*")) if path.is_file() and path.suffix not in LEFT_OUT]
    if not files:
        return []
    sizes = {path: len(zlib.compress(path.read_bytes())) + TAR_HEADER_BYTES for path in files}
    # The small ones first: they hold the results.
    room = limit
    taken: list[Path] = []
    for path in sorted(files, key=lambda path: (sizes[path], str(path))):
        if sizes[path] <= room:
            room -= sizes[path]
            taken.append(path)
    with tarfile.open(out / "runs.tar.gz", "w:gz") as archive:
        for path in sorted(taken):
            archive.add(path, str(path.relative_to(work)))
    return [str(path.relative_to(work)) for path in files if path not in taken]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of the files ({OUT})")
    parser.add_argument("--list", action="store_true", help="list the parts and their shares of the time")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.launch:
        return launch()
    if given.step:
        do_step(given.step, given.work, PARTS)
        return 0
    if given.list:
        for part in PARTS:
            print(f"{part.name:<10} {part.share_s:>4.0f} s  {part.what}: {', '.join(step.name for step in part.steps)}")
        return 0
    try:
        parts = selected(given.parts)
    except UsageError as error:
        parser.error(words(error))
    missing = no_gpu()
    if missing is not None:
        print(f"error: {missing}", file=sys.stderr)
        return missing.exit_code
    return evidence(parts, given.out)


def evidence(parts: Sequence[Part], out: Path, *, budget_s: float = BUDGET_S, command: Command | None = None) -> int:
    """Run parts, leave their files in ``out``, print the table; the exit code."""
    began = time.monotonic()
    created = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    # Where they cannot be left, nothing is measured.
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="trtprof-evidence-"))
    finished: list[Done] = []

    def results() -> Results:
        return Results(
            created=created,
            command=" ".join(["python", "scripts/gpu_evidence.py", *(part.name for part in parts)]),
            versions={"trtprof": __version__, "python": platform.python_version()},
            budget_s=budget_s,
            took_s=time.monotonic() - began,
            steps=tuple(finished),
        )

    def over(done: Done) -> None:
        finished.append(done)
        print(f"{done.part}/{done.step}: {done.outcome.status} ({done.took_s:.0f} s)", file=sys.stderr, flush=True)
        save(results(), out, work)

    try:
        for part in parts:
            print(f"{part.name}: about {part.share_s:.0f} s", file=sys.stderr)
        perform(parts, work, budget_s=budget_s, command=command, done=over)
        left = packed(work, out)
        final = msgspec.structs.replace(results(), left_out=tuple(left))
        save(final, out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(table(finished))
    if left:
        print(f"too large for runs.tar.gz: {', '.join(left)}")
    print(f"in {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")
    return final.exit_code()


if __name__ == "__main__":
    sys.exit(main())
