"""The brief for a layer: what a kernel computes, its bound, what it costs and saves, cheaper candidates, a verdict.

A run has the verdict of its report. For a model that did not run, the brief says when a custom kernel pays.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trtprof.base import record_file, run_folder
from trtprof.base import records as r
from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.find_layer import find_layer
from trtprof.base.op_kinds import VIEWS, op_types
from trtprof.base.plan_words import layout
from trtprof.base.units import format_band, format_ns
from trtprof.cost import CostError, as_work
from trtprof.cost.fused import group_cost
from trtprof.cost.precision import compute_dtype
from trtprof.cost.recast import recast
from trtprof.diagnose import THRESHOLDS, Case
from trtprof.diagnose.plugin import Thought, cost_of, engine_fuses, fused_in, weigh
from trtprof.diagnose.rank import withheld
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate
from trtprof.flows.gpus import asked_or_here
from trtprof.flows.options import RunOptions
from trtprof.flows.predict.groups import predict_source
from trtprof.flows.predict.on_gpus import Settings
from trtprof.flows.report import analysed
from trtprof.flows.try_.on_gpu import CHANGES, predicted_on
from trtprof.flows.try_.options import TryOptions
from trtprof.hardware import gpus
from trtprof.plugin.formulas import formulas
from trtprof.plugin.task import Task
from trtprof.source.request import ModelRequest

_IDLE = (*VIEWS, "Constant")  # Op types that run no kernel
_BESIDE = op_types("pointwise", "cast", "quantise", "batch norm") | {*_IDLE}
_ALL = "trtprof report --format json lists them all"
_DOCUMENTS = "Pass a run folder, an ONNX model, or the output of `--format json` of run, analyze or predict."
_EXPECTED = r.Expectation.__struct_fields__


class Subject(NamedTuple):
    """A layer, and what is known about it."""

    name: str  # Of the layer or of a node in it, as requested
    layer: r.LayerResult
    source: r.Source | None  # The model with its shapes; None where it is not available
    request: ModelRequest  # How the model is opened again
    spec: r.GpuSpec | None = None  # None for a CPU
    run: r.Run | None = None  # None for a prediction
    case: Case | None = None  # None where only the document of a run is there
    folder: run_folder.RunFolder | None = None  # Of the run
    precision: str = "model"  # Of the prediction
    runs: int = 1  # Of the layer, in one inference

    @property
    def ops(self) -> dict[str, r.Op]:
        """The model's ONNX ops by node."""
        return {node.name: node.op for node in self.source.nodes} if self.source is not None else {}


def subject_of(what: str, name: str, gpu: str, request: ModelRequest | None, say: Callable[[str], None]) -> Subject:
    """Find a layer in a run folder, a document, or a model on a GPU (``gpu``; "" = the run's, or the one here)."""
    spec = gpus.find(gpu) if gpu else None
    path = Path(what)
    if path.is_dir():
        return _from_run(run_folder.RunFolder(path), name, spec)
    if path.suffix.lower() == ".json" and path.is_file():
        return _from_document(path, name, spec)
    return _from_model(request or ModelRequest.of(what), name, spec or asked_or_here((), say)[0])


def _from_run(folder: run_folder.RunFolder, name: str, spec: r.GpuSpec | None) -> Subject:
    cases: list[Case] = []
    run = analysed(folder, cases.append)
    case, source = cases[0], folder.read(run_folder.SOURCE, r.Source)
    asked = folder.read(run_folder.REQUEST, run_folder.Request)
    request = _request_of(msgspec.structs.replace(source.model, path=asked.model))
    layer = find_layer(case.layers, name, "layer with a measured time", _ALL)
    if spec is None or (case.spec is not None and case.spec.slug == spec.slug):
        return Subject(name, layer, source, request, case.spec, run, case, folder, runs=case.runs.get(layer.name, 1))
    # Another engine has other layers for the same nodes.
    nodes = (name, *fused_in(case, layer).nodes, *layer.nodes)
    return _from_model(request, next((node for node in nodes if node in case.ops), name), spec)


def _from_document(path: Path, name: str, spec: r.GpuSpec | None) -> Subject:
    document: r.Run | r.Prediction
    try:
        document = record_file.read_record(path, r.Run, what="a document", fix=_DOCUMENTS)
    except UsageError:
        document = record_file.read_record(path, r.Prediction, what="a document", fix=_DOCUMENTS)
    if not document.model.opsets:
        raise UsageError(f"{path} does not describe an ONNX model", fix=_DOCUMENTS)
    request, source = _request_of(document.model), None
    if isinstance(document, r.Prediction):
        return _from_model(request, name, spec or gpus.find(document.gpus[0].gpu), document.precision)
    if spec is not None and spec.name not in document.device.name:
        return _from_model(request, name, spec)
    with contextlib.suppress(TrtprofError), request.opened() as loaded:
        source = request.bound(loaded)
    return Subject(name, find_layer(document.layers, name, fix=_ALL), source, request, run=document)


def _request_of(model: r.ModelInfo) -> ModelRequest:
    return ModelRequest.of(model.path).at({one.name: one.shape for one in model.inputs if one.shape is not None})


def _from_model(request: ModelRequest, name: str, spec: r.GpuSpec, precision: str = "model") -> Subject:
    """Find a layer as an engine may fuse it, in a run that takes the expected time."""
    with request.opened() as loaded:
        source = request.bound(loaded)
    ops = {node.name: node.op for node in source.nodes}
    (gpu,) = predict_source(source, [spec], Settings(precision=precision)).gpus
    # The name of a node may be a part of another's.
    layer = next((one for one in gpu.layers if name in (one.name, *one.nodes)), None)
    if layer is None and name in ops:
        why = "views, control flow, shapes and constants run no kernel in an engine"
        raise UsageError(f"{ops[name].op_type} {name!r} launches no kernel", why=why, fix="Pass a node that computes.")
    layer = layer or find_layer(gpu.layers, name, fix="trtprof predict --format json lists them all")
    times, bound, work = max(layer.repeats, 1), layer.estimate, layer.work
    expected = {field: getattr(layer, field) for field in _EXPECTED}
    expected |= {field: ns * times for field, ns in expected.items() if isinstance(ns, int)}
    takes = expected["expected_ns"] or round(layer.bound_ns / THRESHOLDS.of_datasheet)
    result = r.LayerResult(
        name=layer.name, op_type=layer.op_type, role="compute", nodes=layer.nodes, kernels=(), measured_ns=takes,
        ideal_ns=bound.ideal_ns * times if bound else None, attainable_ns=layer.bound_ns if bound else None, flops=None,
        lost_ns=takes - layer.bound_ns, bound=bound.bound if bound else "unknown", bytes=work.bytes if work else None,
        dtype=work.dtype if work else "", reason=layer.reason, work=work, **expected,
        terms={term: ns * times for term, ns in bound.terms.items()} if bound else {},
    )  # fmt: skip
    main = r.Layer(name=result.name, op=ops[_main_of(ops, layer.nodes)], role="compute", nodes=result.nodes)
    latency, known = (
        r.Latency(median_ns=takes, p99_ns=takes, cv=0.0, n=0),
        r.Coverage(exact=1.0, inferred=0.0, unattributed=0.0),
    )
    case = Case(
        (result,), {result.name: main}, latency, latency, known, gpu.ceilings, (), 0, 0, tensorrt=True, gpu=True,
        spec=spec, ops=ops, runs={result.name: times}, estimates={result.name: bound} if bound else {},
    )  # fmt: skip
    return Subject(name, result, source, request, spec, None, case, None, precision, times)


def nodes_of(subject: Subject) -> tuple[str, ...]:
    """Return the nodes that the name stands for: one of that name, the only one with it as a part, or the layer's."""
    ops, name = subject.ops, subject.name
    nodes = tuple(node for node in subject.layer.nodes if node in ops)
    part = tuple(node for node in nodes if name.casefold() in node.casefold())
    return (name,) if name in ops else part if len(part) == 1 else nodes


def _main_of(ops: Mapping[str, r.Op], nodes: Sequence[str]) -> str:
    """Return the first node that is not pointwise, else the first."""
    return max((name for name in nodes if name in ops), key=lambda name: ops[name].op_type not in _BESIDE)


def brief_of(subject: Subject, task: Task | None = None) -> r.PluginBrief:
    """Return the brief for the kernel of a task; without one, what the layer alone tells."""
    layer, case, ops, run = subject.layer, subject.case, subject.ops, subject.run
    nodes = task.nodes if task is not None else nodes_of(subject) or layer.nodes
    own = [ops[name] for name in nodes if name in ops]
    plan = case.plan.get(layer.name) if case is not None else None
    planned = (*plan.layer.inputs, *plan.layer.constants, *plan.layer.outputs) if plan is not None else ()
    names = {one.tensor: one.name for one in (*task.inputs, *task.outputs)} if task is not None else {}
    work, bound = _kernel_work(subject, nodes, {one.tensor for one in task.outputs} if task else None, planned)
    kernels = dict.fromkeys(one.kernel for one in sorted(layer.kernels, key=lambda one: -one.total_ns))
    brief = r.PluginBrief(
        layer=layer.name, group=layer.nodes, nodes=nodes, op_types=tuple(op.op_type for op in own) or (layer.op_type,),
        formulas=formulas(own, names), runs=subject.runs, work=work,
        tensors=tuple(_tensors(own, task, planned)) if task else (), estimate=bound, group_bound_ns=layer.attainable_ns,
        gpu=subject.spec.slug if subject.spec is not None else run.device.name if run is not None else "",
        measured_ns=layer.measured_ns if run is not None else None, kernels=tuple(kernels),
        verdict="not decided", why="", **{field: getattr(layer, field) for field in _EXPECTED},
    )  # fmt: skip
    if run is not None:
        return msgspec.structs.replace(brief, **_judge_run(subject, nodes, run))
    return msgspec.structs.replace(brief, **_judge_model(subject, nodes, case)) if case is not None else brief


def _kernel_work(
    subject: Subject, nodes: Sequence[str], made: Collection[str] | None, planned: Sequence[r.PlanTensor]
) -> tuple[r.Work | None, r.Estimate | None]:
    """Work and bound of one run of a kernel, which may compute fewer nodes than the layer, or more."""
    layer, case, ops, work = subject.layer, subject.case, subject.ops, subject.layer.work
    idle = {name for name, op in ops.items() if op.op_type in _IDLE}
    if {*nodes} - idle != {*layer.nodes} - idle or (subject.runs != 1 and subject.run is not None):
        precision = next((one.dtype for one in planned if one.dtype in ("fp16", "bf16")), subject.precision)
        cast = {name: recast(ops[name], precision) for name in nodes if name in ops and ops[name].op_type != "Constant"}
        cost = None
        with contextlib.suppress(CostError):
            cost = group_cost(list(cast.values()), made) if cast else None
        work = as_work(cost, compute_dtype(cast[_main_of(ops, list(cast))])) if cost is not None else None
    whole = case.estimates.get(layer.name) if case is not None else None
    if work is None or whole is None or case is None:
        return work, None
    # The kernel finds the same share of its bytes in the cache as the layer.
    return work, estimate(work, Traffic(whole.cache_bytes, whole.dram_bytes), case.ceilings)


def _tensors(ops: Sequence[r.Op], task: Task, planned: Sequence[r.PlanTensor]) -> Iterator[r.BriefTensor]:
    """The operands at the sizes of the model, with dtype and format as the engine has them, where that is known."""
    engine = {tensor.name: tensor for tensor in planned}
    known = {one.name: one for op in ops for one in (*op.inputs, *op.outputs) if one is not None}
    made = {one.name for op in ops for one in op.outputs if one is not None}
    for operand in (*task.inputs, *task.outputs):
        tensor, other = known.get(operand.tensor), engine.get(operand.tensor)
        yield r.BriefTensor(
            name=operand.tensor, operand=operand.name, dtype=other.dtype if other and other.dtype else operand.dtype,
            role="output" if operand.tensor in made else "weight" if operand.constant else "input",
            shape=(tensor.shape if tensor is not None else None) or operand.dims, layout=layout(other) if other else "",
            nbytes=other.nbytes if other else tensor.nbytes if tensor is not None else None,
        )  # fmt: skip


def _judge_run(subject: Subject, nodes: Sequence[str], run: r.Run) -> dict[str, Any]:
    """The verdict of the report, with what decides it."""
    layer, case = subject.layer, subject.case
    grave = [finding.brief or finding.title for finding in withheld(run.findings)]
    one = next((found for found in run.candidates if found.layer == layer.name), None)
    if case is not None:
        verdict, why, one, _ = weigh(case, layer, Thought(frozenset(nodes)), grave)
    else:
        reason = (run.no_candidates or "it was not weighed").removeprefix("not decided: ")
        verdict, why = (one.verdict, one.why) if one else ("not decided", reason)
    doubts = [*grave, *(one.brief or one.title for one in run.findings if one.kind == "trust"), *run.lacking]
    if case is None:
        doubts.append("only the document of the run is here: the verdict is that of its report")
    elif case.gpu and case.from_datasheet:
        doubts.append("the bound uses the datasheet's peaks, which no kernel reaches")
    if not layer.nodes or any(name not in subject.ops for name in layer.nodes):
        doubts.append("the nodes of the layer are not known: what is fused in it is a guess")
    found = [each for each in run.findings if each.kind == "hypothesis" and layer.name in each.layers]
    wrong = tuple(f"{each.code} {each.title} ({100 * each.confidence:.0f} % sure): {each.evidence}" for each in found)
    return _priced(one) | {"verdict": verdict, "why": why, "wrong": wrong, "doubts": (*dict.fromkeys(doubts),)}


def _priced(one: r.PluginCandidate | None) -> dict[str, Any]:
    fields = ("barrier", "ladder", "reachable_ns", "basis", "net_low_ns", "net_ns", "net_high_ns") if one else ()
    pays = {"pays_above_ns": one.reachable_ns + sum(part.ns for part in one.barrier)} if one else {}
    return {name: getattr(one, name) for name in fields} | pays


def _judge_model(subject: Subject, nodes: Sequence[str], case: Case) -> dict[str, Any]:
    """What is known before a run: from which time of the engine's kernel on a custom one pays."""
    layer = subject.layer
    doubts = ["nothing was measured: the engine's kernel is not known, nor are its tensor formats (reformats)"]
    doubts += ["which nodes an engine fuses is estimated from the graph"] if len(layer.nodes) > 1 else []
    unsure = f"the expected time is extrapolated, and decides nothing: {layer.expected_reason}"
    doubts += [unsure] if layer.expected_ns is not None and not layer.firm else []
    weighed = weigh(case, layer, kernel := Thought(frozenset(nodes)))
    judged = _priced(weighed.candidate) | {"doubts": tuple(doubts), "verdict": "not decided", "why": weighed.why}
    if weighed.candidate is None:
        return judged
    judged["ladder"] = (*_rewrites(subject), *weighed.candidate.ladder)
    launches = "it is bound by launch overhead, and a plugin launches a kernel, too" if layer.bound == "launch" else ""
    if never := engine_fuses(case, layer, cost_of(case, layer, kernel)) or launches:
        return judged | {"verdict": "do not", "why": never}
    takes = f"a custom kernel should take ~{format_ns(judged['reachable_ns'])}, and breaking the fusion costs "
    takes += f"{format_ns(sum(part.ns for part in weighed.candidate.barrier))}: it pays if the engine's kernel takes "
    takes += f"more than {format_ns(judged['pays_above_ns'])}"
    low, expected, high = layer.expected_p10_ns, layer.expected_ns, layer.expected_p90_ns
    if not layer.firm or low is None or expected is None or high is None:
        unknown = {"net_low_ns": None, "net_ns": None, "net_high_ns": None}
        return judged | unknown | {"why": f"nothing was measured: {takes}"}
    net = {"net_low_ns": judged["net_low_ns"] + low - expected, "net_high_ns": judged["net_high_ns"] + high - expected}
    why = f"the engine's kernel is expected to take {format_band(expected, low, high)}; {takes}"
    return judged | net | {"verdict": "do not" if judged["net_ns"] <= 0 else "not decided", "why": why}


def _rewrites(subject: Subject) -> Iterator[r.LadderStep]:
    """Rewrites that change nodes of the layer, predicted for the whole model."""
    if subject.spec is None or importlib.util.find_spec("onnx_ir") is None:
        return
    options = TryOptions(run=RunOptions(model=subject.request), gpu=subject.spec)
    for rung in predicted_on(options, subject.spec, "").rungs:
        gain = rung.predicted or 1.0
        if rung.verdict == "not measured" and {*rung.nodes} & {*subject.layer.nodes} and gain >= 1 - CHANGES:
            faster = f"predicted {gain:.3g}x for the whole model, {rung.basis}"
            basis = faster if gain > 1 + CHANGES else "the bound is the same; the kernel may differ"
            command = f"trtprof try MODEL --rung {rung.name}"
            yield r.LadderStep(what=rung.title, command=command, rung=rung.name, basis=basis)
