"""From files that were made elsewhere to a result: what they are, whether they belong together, and what they say.

Without a profile nothing was measured, and the result is a prediction of the engine's layers.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from trtprof.analysis import plausible
from trtprof.analysis.batches import batches_copied, possible_batches
from trtprof.analysis.evidence import Evidence, Lack, Subject
from trtprof.analysis.named import NamedPlan, in_graph_order, named_plan, price_named, without_shapes
from trtprof.analysis.plan import PricedPlan, backend_of, model_of_plan, price_plan, unpriced, without_model
from trtprof.analysis.profile import evidence_of_profile
from trtprof.analysis.run import analyse
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import open_file
from trtprof.base.kernel_counters import Counters
from trtprof.base.records import (
    Ceilings,
    EngineFacts,
    GpuSpec,
    InputTensor,
    LayerTimes,
    ModelInfo,
    Plan,
    PlanLayer,
    Prediction,
    Run,
    Source,
)
from trtprof.base.units import DTYPE_BITS, dtype_bytes, format_names, format_ns
from trtprof.diagnose import JUDGE, Judge
from trtprof.engine.inspector import plan_of_names, read_layer_info, read_profile, read_times
from trtprof.flows.predict.layers import predict_plan
from trtprof.flows.predict.on_gpus import Settings, ceilings_of
from trtprof.hardware import gpus
from trtprof.runtime.gc_paused import gc_paused
from trtprof.source.request import ModelRequest

if TYPE_CHECKING:
    from trtprof.base.trace import GpuTrace, TraceGpu
    from trtprof.capture.nsys.stats import KernelSums
    from trtprof.source.load import LoadedModel

ROLES = {
    "layers": "layer information (trtexec --exportLayerInfo, or the verbose log of a build)",
    "profile": "times of layers (--exportProfile, or a log of --dumpProfile)",
    "times": "times of inferences (--exportTimes, or their summary in a *.profile.metadata.json)",
    "nsys": "a capture of nsys (.nsys-rep, or exported to .sqlite; as a poorer source, a CSV of nsys stats)",
    "onnx": "the ONNX model",
    "ncu": "hardware counters of kernels (.ncu-rep, or a CSV of ncu)",
}
"""What a file may be to an analysis, in words."""

_HEAD = 1 << 20  # Bytes from which it shows what a JSON file is
_EXPORT = (
    "trtexec --loadEngine=model.plan --exportLayerInfo=layers.json --dumpProfile --separateProfileRun"
    " --exportProfile=profile.json --exportTimes=times.json"
)
_ORT_PROFILE = re.compile(rb'"cat" *: *"Session"[^{}]*"name" *: *"(?:model_|session_)|_kernel_time"')
"""Marks of a profile that a session of ONNX Runtime wrote: its own events, or that of a node."""
_SUMMARY = b'"performance_summary"'  # Mark of the summary of times that trt-engine-explorer keeps
_SQLITE = b"SQLite format 3\0"
NCU_SUFFIX = ".ncu-rep"
NSYS_SUFFIXES = (".nsys-rep", ".qdstrm", ".qdrep")
_DEVICE = re.compile(rb"Selected Device: ([^\r\n]+)")
_DEVICE_OF_SUMMARY = re.compile(rb'"Selected Device": "([^"]+)"')
_SUFFIXES = re.compile(
    r"(?i)(?:[._-](?:json|txt|log|graph|layers?|layer_?info|exportlayerinfo|engine|plan|trt|onnx|inspector))+$"
)


class Files(NamedTuple):
    """The files of an analysis by what they are; one log may be several of them."""

    layers: Path | None = None
    profile: Path | None = None
    times: Path | None = None
    onnx: Path | None = None
    nsys: Path | None = None
    ncu: Path | None = None

    def named(self) -> dict[str, Path]:
        """Those that are given, by role."""
        return {role: path for role, path in zip(self._fields, self, strict=True) if path is not None}


_NONE = Files()
_AS_BUILT = ModelRequest("")


def sort_files(given: Iterable[Path], named: Files = _NONE) -> Files:
    """Tell files apart by what is in them."""
    found: dict[str, Path | None] = named._asdict()
    said = named.named().keys()
    for path in given:
        roles = _roles(path)
        # A log may hold several; what was said on the command line wins there.
        wanted = [role for role in roles if role not in said] or roles
        for role in wanted:
            other = found[role]
            if other is not None and role == "times" and _is_summary(path) != _is_summary(other):
                # Samples say more than their summary.
                found[role] = other if _is_summary(path) else path
                continue
            if other is not None:
                raise UsageError(
                    f"{other} and {path} are both {ROLES[role].partition(' (')[0]}",
                    why="an analysis is of one engine",
                    fix="leave one away",
                )
            found[role] = path
    if found["nsys"] is not None and found["profile"] is not None:
        raise UsageError(
            f"{found['nsys']} and {found['profile']} both have times of layers",
            why="TensorRT's profiler runs the layers one after the other, a capture as they run",
            fix="leave one away",
        )
    if found["ncu"] is not None and found["nsys"] is None and found["profile"] is None:
        raise UsageError(
            f"{found['ncu']} is of no use without times",
            why="counters are held against layers whose time was measured",
            fix=f"give a capture of nsys too, or the profile: {_EXPORT}",
        )
    by_names = found["profile"] is not None and found["onnx"] is not None
    if found["layers"] is None and found["nsys"] is None and not by_names:
        raise UsageError(
            "there is no layer information among the files" if any(found.values()) else "no file is named",
            why="what the layers of the engine are is needed; times alone do not tell it",
            fix=f"give the file of {_EXPORT}; beside a profile the ONNX model will do",
        )
    return Files(**found)


def _is_summary(path: Path) -> bool:
    """Whether times of inferences are their summary alone."""
    with open_file(path) as file:
        return _SUMMARY in file.read(_HEAD)


def _roles(path: Path) -> list[str]:
    """What a file is, by the marks that each kind has in it."""
    from trtprof.capture.ncu.csv import is_counters

    try:
        with open_file(path) as file:
            head = file.read(_HEAD)
            text = head.replace(b"\0", b"") if head.startswith((b"\xff\xfe", b"\xfe\xff")) else head
            if path.suffix.lower() == ".onnx":
                return ["onnx"]
            if head.startswith(_SQLITE) or path.suffix.lower() in NSYS_SUFFIXES:
                return ["nsys"]
            if path.suffix.lower() == NCU_SUFFIX:
                return ["ncu"]
            if not head:
                raise UsageError(f"{path} is empty", why="0 bytes: its making was cut short", fix="make it again")
            if b"\0" in text[: 1 << 16]:
                raise UsageError(
                    f"{path} is a binary file",
                    why="an engine itself cannot be read without TensorRT and its GPU",
                    fix=f"give what trtexec says of it: {_EXPORT}",
                )
            if text.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1] not in (b"{", b"["):
                text += file.read()
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}", fix=f"make it with {_EXPORT}") from None
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix="name a file") from None
    marks = {
        "layers": (b'"LayerType"', b'"Layers"', b"LayerType: ", b"Engine Layer Information"),
        "profile": (b'"averageMs"', b"=== Profile ("),
        "times": (b'"latencyMs"', _SUMMARY),
    }
    roles = [role for role, words in marks.items() if any(word in text for word in words)]
    if not roles and is_counters(text.decode("utf-8-sig", errors="replace")):
        return ["ncu"]
    if not roles and _is_table(path):
        return ["nsys"]
    if not roles and _ORT_PROFILE.search(text):
        raise UsageError(
            f"{path} is a profile of ONNX Runtime",
            why="it tells times of nodes, not of which graph they are or what its device can do at best",
            fix="trtprof run MODEL --backend ort-cpu (or ort-cuda) profiles the model with ONNX Runtime itself",
        )
    if not roles:
        raise UsageError(
            f"{path} is nothing that can be analysed",
            why="it is none of: " + "; ".join(ROLES.values()),
            fix=f"make the files with {_EXPORT}",
        )
    return roles


def _printed(path: Path) -> bool:
    """Whether a file is what some report of nsys stats printed."""
    from trtprof.capture.nsys.stats import is_stats

    if path.suffix.lower() in NSYS_SUFFIXES:
        return False
    try:
        with open_file(path) as file:
            head = file.read(_HEAD)
    except OSError:
        # Whoever reads the file next says so.
        return False
    return b"\0" not in head and is_stats(head.decode("utf-8-sig", errors="replace"))


def _is_table(path: Path) -> bool:
    """Whether what is given for a capture is to be read as a CSV of nsys stats, rather than as an SQLite file."""
    return path.suffix.lower() == ".csv" or _printed(path)


def exported(files: Files, progress: Callable[[str], None] | None = None) -> Files:
    """The files with the capture as an SQLite file: what nsys wrote itself is exported, beside it."""
    report = files.nsys
    if report is None or report.suffix.lower() not in NSYS_SUFFIXES:
        return files
    from trtprof.capture.nsys.record import export_sqlite, find

    _check_report(report)
    made = report.with_suffix(".sqlite")
    if not (made.is_file() and report.is_file() and made.stat().st_mtime >= report.stat().st_mtime):
        made = export_sqlite(report, find(), progress=progress)
    return files._replace(nsys=made)


def _check_report(report: Path) -> None:
    """Refuse what is no report whichever nsys is here, before one is looked for."""
    fix = "name the report that nsys profile wrote"
    try:
        if report.is_dir():
            raise UsageError(f"{report} is a folder", why="a report of nsys was expected", fix=fix)
        if not report.stat().st_size:
            raise UsageError(f"{report} is empty", why="0 bytes: its making was cut short", fix="profile again")
    except FileNotFoundError:
        raise MissingError(f"there is no file {report}", why="nothing has that name", fix=fix) from None
    except OSError as error:
        raise MissingError(f"{report} cannot be read", why=error.strerror or str(error), fix=fix) from None


def gpu_in(files: Files, device: int | None = None) -> tuple[str, str]:
    """The GPU that files were made on, and which kind of file says so; empty where none tells.

    `device`: which GPU of the capture is meant; None for the only one.
    """
    if files.nsys is not None:
        names = {gpu.name for gpu in _described(files.nsys) if gpu.name and device in (None, gpu.device)}
        return (names.pop(), "capture") if len(names) == 1 else ("", "")
    for role in ("profile", "layers", "times"):
        path = files.named().get(role)
        exported = path is not None and path.suffix.lower() == ".json"
        if path is None or (exported and role != "times"):
            continue
        mark, kind = (_DEVICE_OF_SUMMARY, "summary") if exported else (_DEVICE, "log")
        try:
            with open_file(path) as file:
                if named := mark.search(file.read(_HEAD)):
                    return named[1].decode(errors="replace").strip(), kind
        except OSError:
            # Whoever reads the file next says so.
            continue
    return "", ""


def _described(nsys: Path) -> tuple[TraceGpu, ...]:
    """The GPUs that a capture describes."""
    if _is_table(nsys):
        from trtprof.capture.nsys.stats import KernelSums, read_report

        found = read_report(nsys)
        return () if isinstance(found, KernelSums) else found.gpus
    from trtprof.capture.nsys.trace import read_gpus

    return read_gpus(nsys)


def analyze(
    files: Files,
    specs: Sequence[GpuSpec],
    how: Settings,
    model: ModelRequest = _AS_BUILT,
    device: int | None = None,
    inferences: int | None = None,
    judge: Judge = JUDGE,
) -> Run | Prediction:
    """Analyse an engine from files.

    `how`: the ceilings asked for; ``precision`` ``fp32`` multiplies fp32 on the CUDA cores. `model`: the shapes of the
    ONNX model, whose file is among ``files``; by default those of the engine. `device`: which GPU of a capture to look
    at; None for all that worked in it. `inferences`: how many inferences a CSV of sums is of; None for what it tells
    itself.
    """
    counters = None
    if files.ncu is not None:
        from trtprof.capture.ncu.csv import read_counters
        from trtprof.capture.ncu.record import read_report

        launches = (read_report if files.ncu.suffix.lower() == NCU_SUFFIX else read_counters)(files.ncu)
        counters = Counters(version="", launches=launches)
    with gc_paused():
        if files.nsys is not None:
            measured: _Measured | Prediction = _captured(files, files.nsys, specs, model, device, inferences)
        elif inferences is not None:
            raise _counted()
        else:
            measured = _profiled(files, specs, how, model)
        if isinstance(measured, Prediction):
            return measured
        spec = _one(specs)
        ceilings = ceilings_of(spec, how, how.precision)
        evidence, engine, _ = _as_far_as_shaped(measured, ceilings)
        evidence = evidence._replace(implausible=(*_of_another_gpu(files, device, spec), *evidence.implausible))
        corrects = how.measured.get(spec.slug)
        if corrects is not None:
            corrects.check(spec, ceilings, tf32=how.precision != "fp32")
        subject = Subject(
            ceilings=ceilings,
            spec=spec,
            source=engine.source,
            model=engine.model,
            files={role: path.name for role, path in files.named().items() if role != "ncu"},
            clock_mhz=how.clock_mhz,
            counters=counters,
            measured=corrects,
        )
        return analyse(evidence, subject, judge)


def _of_another_gpu(files: Files, device: int | None, spec: GpuSpec) -> Iterable[Lack]:
    """What the files say of the GPU that they were made on, where it is another one than is named."""
    name, where = gpu_in(files, device)
    if not name:
        return ()
    try:
        told = gpus.find(name)
    except UsageError:  # one that has no datasheet here
        return ()
    return plausible.of_device(told, where, spec)


def _profiled(files: Files, specs: Sequence[GpuSpec], how: Settings, model: ModelRequest) -> _Measured | Prediction:
    """What a profile of layers tells; without one a prediction of them."""
    profile = read_profile(files.profile) if files.profile is not None else None
    times = read_times(files.times) if files.times is not None else None
    if files.layers is not None:
        plan, found_in = read_layer_info(files.layers, names=files.onnx is not None), files.layers
        plan = _one_profile(plan, None if profile is None else _timed(profile))
    else:
        assert profile is not None and files.profile is not None  # noqa: S101, PT018 - `sort_files` sees to it
        plan = plan_of_names(((layer.name, "") for layer in profile.layers), "the profile: names of layers alone")
        found_in = files.profile
    engine = _engine(files, plan, found_in, model)
    if profile is None:
        if times is not None:
            raise UsageError(
                f"{files.times} is of no use without times of layers",
                why="times of whole inferences say nothing of layers",
                fix=f"give the profile too: {_EXPORT}",
            )
        source = engine.source or Source(model=engine.model, nodes=())
        assert engine.priced is not None  # noqa: S101 - there is layer information
        return predict_plan(engine.priced, source, specs, msgspec.structs.replace(how, level="layers"))
    _one(specs)
    assert engine.measured is not None  # noqa: S101 - there is layer information
    evidence = evidence_of_profile(engine.measured, profile, times)
    implausible = (*plausible.of_profile(profile), *plausible.of_times(times, evidence))
    return _Measured(evidence._replace(lacking=(*evidence.lacking, *engine.unsure), implausible=implausible), engine)


_Ran = Callable[[PlanLayer], bool]  # Whether a layer ran, as far as a file tells


class _Engine(NamedTuple):
    """What the files tell of an engine beside its times."""

    priced: PricedPlan | None  # Its layers; None where nothing tells of them
    source: Source | None  # The model; None where it is not at hand
    model: ModelInfo  # What to say of it there
    named: NamedPlan | None = None  # The layers where only their names are known
    open: _Open | None = None  # What is not known of the model's shapes, of such layers
    unsure: tuple[Lack, ...] = ()  # What makes their work less sure without kernels

    @property
    def measured(self) -> PricedPlan | None:
        """The plan as times are led to it: without the model nobody checked its nodes."""
        return self.priced if self.priced is None or self.source is not None else without_model(self.priced)


class _Open(NamedTuple):
    """A model with dimensions that nobody gave."""

    at: Callable[[int], Source]  # The model at a batch
    assumed: tuple[str, ...]  # What was assumed of them, in sentences
    batch: bool  # Whether the batch alone is open


class _Measured(NamedTuple):
    """What was measured of an engine, and the sizes of copies to the GPU that came again and again."""

    evidence: Evidence
    engine: _Engine
    copied: frozenset[int] = frozenset()


def _engine(files: Files, plan: Plan | None, found_in: Path, model: ModelRequest) -> _Engine:
    """The plan with its work, and the model as far as it is at hand."""
    name = _SUFFIXES.sub("", found_in.name) or found_in.stem if files.layers else found_in.name.partition(".")[0]
    info = model_of_plan(plan.bindings if plan is not None else (), name, str(found_in))
    loaded = _loaded(files.onnx, model)
    if plan is None:
        return _Engine(None, None, info)
    if loaded is None:
        return _Engine(price_plan(plan, None, EngineFacts(backend=backend_of(EngineFacts(era=plan.era)))), None, info)
    if plan.names_only:
        request = msgspec.structs.replace(model, model=str(files.onnx))
        source = request.bound(loaded)
        named = named_plan(plan, source, str(found_in))
        priced, unsure = price_named(named)
        return _Engine(priced, source, info, named, _open(loaded, request), unsure)
    if not model.shapes and model.batch is None:
        model = model.at(_shapes_of_plan(plan, [info.name for info in loaded.proto.graph.input]))
    source = msgspec.structs.replace(model, model=str(files.onnx)).bound(loaded)
    priced = price_plan(plan, source, EngineFacts(backend=backend_of(EngineFacts(era=plan.era))))
    _check_model(priced, source, files)
    return _Engine(priced, source, info)


def _open(loaded: LoadedModel, model: ModelRequest) -> _Open | None:
    """Which dimensions of the model nobody gave; None where each has a number."""
    from trtprof.source.load import bound_as_allowed

    assumed = tuple(bound_as_allowed(loaded, model.shapes, model.batch, model.symbols).assumptions)
    if not assumed:
        return None

    def at(batch: int) -> Source:
        return msgspec.structs.replace(model, batch=batch).bound(loaded)

    alone = False
    if model.batch is None:
        with contextlib.suppress(UsageError):  # no dimension of it is a batch
            alone = not bound_as_allowed(loaded, model.shapes, 1, model.symbols).assumptions
    return _Open(at, assumed, alone)


def _as_far_as_shaped(measured: _Measured, ceilings: Ceilings) -> _Measured:
    """What was measured, without prices where the shapes that ran are not known."""
    evidence, engine, copied = measured
    named, open_ = engine.named, engine.open
    if named is None or open_ is None:
        return measured
    if not open_.batch:
        words = "the shapes are not known, --shapes decides"
        return _without_prices(measured, named, open_, words, f"no layer has a price: {words}")
    bracket = possible_batches(
        lambda batch: price_named(named._replace(source=open_.at(batch)), evidence.kernels).plan, evidence, ceilings
    )
    ruled_out = ""
    if bracket.layer:
        ruled_out = (
            f"; of {bracket.largest + 1}, {bracket.layer!r} alone would take at least {format_ns(bracket.ideal_ns)} "
            f"where {format_ns(bracket.measured_ns)} were measured"
        )
    if bracket.largest == 1:
        only = f"the model leaves its batch open, and 1 is the only one possible{ruled_out}"
        return measured._replace(evidence=evidence._replace(notes=(*evidence.notes, only)))
    if not bracket.largest:
        none = "no batch is possible", f"not even a batch of 1 is possible{ruled_out}: another model, or another GPU"
        return measured._replace(evidence=evidence._replace(lacking=(none, *evidence.lacking)))
    sizes = [{tensor.name: _nbytes(tensor) for tensor in open_.at(batch).model.inputs} for batch in (1, 2)]
    fitting = [batch for batch in batches_copied(sizes, copied) if batch <= bracket.largest]
    hint = (
        f" (copies to the GPU are as large as the inputs of {format_names([str(batch) for batch in fitting])})"
        if fitting
        else ""
    )
    words = f"the batch is not known, 1 to {bracket.largest} are possible{hint}, --batch decides"
    return _without_prices(measured, named, open_, words, f"no layer has a price: {words}{ruled_out}")


def _nbytes(tensor: InputTensor) -> int:
    """Bytes of an input as the model has it; 0 where they are not known."""
    known = tensor.shape is not None and tensor.dtype in DTYPE_BITS
    return dtype_bytes(tensor.dtype, math.prod(tensor.shape or ())) if known else 0


def _without_prices(measured: _Measured, named: NamedPlan, open_: _Open, words: str, sentence: str) -> _Measured:
    evidence, engine, _ = measured
    source = without_shapes(named.source, open_.assumed)
    priced = unpriced(price_named(named._replace(source=source), evidence.kernels).plan, words)
    lacking = ((words, sentence), *evidence.lacking)
    return _Measured(evidence._replace(engine=priced, lacking=lacking), engine._replace(source=source))


def _captured(
    files: Files, nsys: Path, specs: Sequence[GpuSpec], model: ModelRequest, device: int | None, inferences: int | None
) -> _Measured:
    """What a capture tells."""
    from trtprof.analysis.sums import evidence_of_sums
    from trtprof.analysis.trace import evidence_of_trace, sizes_copied
    from trtprof.capture.nsys.stats import KernelSums

    _one(specs)
    capture = _read_capture(nsys)
    times = read_times(files.times) if files.times is not None else None
    plan, found_in = None, nsys
    if files.layers is not None:
        read = read_layer_info(files.layers, names=files.onnx is not None)
        plan, found_in = _one_profile(read, _seen(capture)), files.layers
    elif files.onnx is not None:
        plan = _plan_of_ranges(capture, nsys, device)
    engine = _engine(files, plan, found_in, model)
    if engine.named is not None and isinstance(capture, KernelSums) and files.layers is None:
        engine = engine._replace(named=in_graph_order(engine.named))
    known = engine.named or engine.measured
    if isinstance(capture, KernelSums):
        if device is not None:
            raise UsageError(
                f"--device {device} cannot be told apart",
                why=f"{nsys} has sums over all GPUs",
                fix="leave --device away, or give the capture as .sqlite, or its cuda_gpu_trace",
            )
        evidence = evidence_of_sums(capture.sums, known, times, inferences=inferences, notes=capture.notes)
        odd = () if capture.rounded else plausible.of_sums(capture.sums)
        evidence = evidence._replace(implausible=(*odd, *plausible.of_times(times, evidence)))
    elif inferences is not None:
        raise _counted()
    else:
        evidence = evidence_of_trace(capture, known, times, device=device)
        evidence = evidence._replace(implausible=tuple(plausible.of_times(times, evidence)))
        return _Measured(evidence, engine, sizes_copied(capture))
    return _Measured(evidence, engine)


def _plan_of_ranges(capture: KernelSums | GpuTrace, nsys: Path, device: int | None) -> Plan:
    """The layers that the NVTX ranges of a capture name."""
    from trtprof.analysis.sums import ranges_of_sums
    from trtprof.analysis.trace import ranges_of_trace
    from trtprof.capture.nsys.stats import KernelSums

    sums = isinstance(capture, KernelSums)
    found = ranges_of_sums(capture.sums) if isinstance(capture, KernelSums) else ranges_of_trace(capture, device)
    if not found:
        raise UsageError(
            f"{nsys} does not tell which nodes of the model a kernel computes",
            why="it has no sums by NVTX range" if sums else "no kernel was launched in an NVTX range",
            fix="give the capture itself, its nvtx_kern_sum, or the file of " + _EXPORT
            if sums
            else f"profile with nsys profile -t cuda,nvtx, or give the file of {_EXPORT}",
        )
    return plan_of_names(((layer.name, layer.kind) for layer in found), "the NVTX ranges of the capture")


def _read_capture(nsys: Path) -> KernelSums | GpuTrace:
    """A capture: an SQLite file, or a CSV of nsys stats."""
    if _is_table(nsys):
        from trtprof.capture.nsys.stats import read_report

        return read_report(nsys)
    from trtprof.capture.nsys.trace import read_trace

    return read_trace(nsys)


def _counted() -> UsageError:
    return UsageError(
        "--inferences is of no use here",
        why="it is for sums of kernels, the CSV of nsys stats: other files tell inferences apart themselves",
        fix="leave --inferences away",
    )


def _one(specs: Sequence[GpuSpec]) -> GpuSpec:
    if len(specs) != 1:
        raise UsageError(
            "one GPU must be named",
            why="the times were measured on one, not on " + (", ".join(spec.slug for spec in specs) or "none"),
            fix="--gpu with the name of the GPU that ran it",
        )
    return specs[0]


def _one_profile(plan: Plan, ran: _Ran | None) -> Plan:
    """The layers of one optimisation profile: the one most of whose layers ran, or the first."""
    numbers = sorted({layer.profile for layer in plan.layers})
    if len(numbers) < 2:
        return plan
    taken = numbers[0]
    if ran is not None:
        fits = Counter(layer.profile for layer in plan.layers if ran(layer))
        taken = max(numbers, key=lambda number: (fits[number], -number))
    return msgspec.structs.replace(
        plan,
        layers=tuple(layer for layer in plan.layers if layer.profile == taken),
        notes=(
            *plan.notes,
            f"the plan has {len(numbers)} optimisation profiles: only the layers of profile {taken} are looked at",
        ),
    )


def _timed(profile: LayerTimes) -> _Ran:
    """Whether a profile has times of a layer."""
    timed = {time.name for time in profile.layers}
    return lambda layer: layer.name in timed


def _seen(found: KernelSums | GpuTrace) -> _Ran:
    """Whether a capture has an NVTX range with the name of a layer, or a kernel that begins like its tactic."""
    from trtprof.capture.nsys.stats import KernelSums

    if isinstance(found, KernelSums):
        # The report prints the domain of a range before its name: `TensorRT:conv1`.
        named = {str(name).partition(":")[2] for name in set(found.sums.get("range", ()))}
        ordered = sorted(set(found.sums["name"]))
    else:
        named = set(found.ranges["name"].cat.categories)
        ordered = sorted(found.work["name"].cat.categories)

    def ran(layer: PlanLayer) -> bool:
        at = bisect.bisect_left(ordered, layer.tactic)
        has_tactic = bool(layer.tactic) and at < len(ordered) and ordered[at].startswith(layer.tactic)
        return layer.name in named or has_tactic

    return ran


def _loaded(onnx: Path | None, model: ModelRequest) -> LoadedModel | None:
    if onnx is None:
        for option, value in (("--shapes", model.shapes), ("--batch", model.batch)):
            if value:
                raise UsageError(
                    f"{option} is of no use without the ONNX model",
                    why="shapes are those of the inputs of a model, and a plan has the dimensions of its engine",
                    fix=f"leave {option} away, or name the model with --onnx",
                )
        return None
    from trtprof.source.load import load_model

    return load_model(onnx)


def _shapes_of_plan(plan: Plan, inputs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes that the inputs have in the engine, where it tells them."""
    return {
        binding.name: binding.dims
        for binding in plan.bindings
        if binding.name in inputs and binding.dims is not None and min(binding.dims, default=0) >= 0
    }


def _check_model(priced: PricedPlan, source: Source, files: Files) -> None:
    """Refuse a model that has nothing in common with the plan."""
    layers = priced.document.layers
    if any(matched.nodes for matched in layers) or not source.nodes:
        return
    named = next((matched.layer.onnx_nodes[0] for matched in layers if matched.layer.onnx_nodes), "")
    has = f"; the plan names {named!r}, the model {source.nodes[0].name!r}" if named else ""
    raise UsageError(
        f"{files.onnx} is not the model that this engine was built from",
        why=f"no layer of {files.layers.name if files.layers else 'the plan'} computes a node of it{has}",
        fix="name the ONNX file that the engine was built from, or leave --onnx away",
    )
