"""What a custom kernel for a layer is to compute, what it could win, and whether it should be written.

Of a run the verdict is that of its report (`trtprof.diagnose.plugin`). Of a model that did not run the brief says from
which time of the present kernel on a custom one pays.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from trtprof.base import record_file, run_folder
from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.find_layer import find_layer
from trtprof.base.input_file import read_file
from trtprof.base.latency import latency_of_sum
from trtprof.base.records import (
    Ceilings,
    Coverage,
    Estimate,
    GpuPrediction,
    GpuSpec,
    KernelBuild,
    LadderStep,
    Layer,
    LayerResult,
    ModelInfo,
    Op,
    PlanTensor,
    PluginBrief,
    PluginCandidate,
    PredictedLayer,
    Prediction,
    Run,
    Source,
    Work,
)
from trtprof.base.run_folder import RunFolder
from trtprof.base.units import format_band, format_ns, format_percent, format_rate
from trtprof.cost import CostError, as_work
from trtprof.cost.fused import group_cost
from trtprof.cost.precision import compute_dtype
from trtprof.cost.recast import recast
from trtprof.diagnose import Case
from trtprof.diagnose.explain import layer_of
from trtprof.diagnose.plugin import Cost, Thought, builder_steps, cost_of, fused_in, weigh
from trtprof.diagnose.rank import withheld
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate
from trtprof.flows.gpus import asked_or_here
from trtprof.flows.plugin.described import Home, borders, described, main_of, working
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus
from trtprof.source.request import ModelRequest

_LISTED = "trtprof report --format json lists them all"
_PARTIAL = (
    "what the layer computes beside these nodes is in its times too, and what is expected and in reach is of its class"
)


class Subject(NamedTuple):
    """A layer that a brief is asked of."""

    name: str  # Of the layer, or of a node in it, as it was asked for
    source: Source | None = None  # The model with its shapes; None where it is not at hand
    request: ModelRequest | None = None  # How the model is opened again; None where it is not at hand
    spec: GpuSpec | None = None  # The GPU; None on a CPU
    how: Settings = Settings()  # What is asked of predictions
    run: Run | None = None  # What was measured; None where nothing was
    case: Case | None = None  # The same as rules look at it; None where only the document of a run is there

    @property
    def ops(self) -> dict[str, Op]:
        """The ONNX ops of the model by node."""
        return {node.name: node.op for node in self.source.nodes} if self.source is not None else {}


# --- what a brief is asked of ---------------------------------------------------------------------


def subject_of(
    what: str,
    name: str,
    gpu: str = "",
    request: ModelRequest | None = None,
    how: Settings = Settings(),  # noqa: B008
    say: Callable[[str], None] = lambda _: None,
) -> Subject:
    """A layer of whatever is named.

    `gpu`: A GPU that need not be here. None is needed of a run on a GPU, of a prediction, or where one is here.
    `request`: how the model is opened, where ``what`` is one.
    """
    spec = gpus.find(gpu) if gpu else None
    path = Path(what)
    if path.name == run_folder.REPORT and (path.parent / run_folder.REQUEST).is_file():
        path = path.parent
    if path.is_dir():
        return of_run(RunFolder(path), name, spec, how)
    if path.suffix.lower() == ".json" and path.is_file():
        return _of_document(path, name, spec, how)
    request = request if request is not None else ModelRequest.of(what)
    if spec is None:
        (spec,) = asked_or_here((), say)[:1]
    return of_model(request, name, spec, how)


_DOCUMENTS = "name a run folder, an ONNX model, or what `--format json` of run, analyze or predict wrote"


def _of_document(path: Path, name: str, spec: GpuSpec | None, how: Settings) -> Subject:
    """A layer of the document of a run, an analysis or a prediction."""
    data = read_file(path, most=record_file.MAX_BYTES, what="a document of trtprof", fix=_DOCUMENTS)
    with contextlib.suppress(ValueError):
        run = record_file.decoded(data, Run)
        if spec is not None and not _is_of(run, spec):
            return _of_its_model(path, run.model, name, spec, how)
        find_layer(run.layers, name, fix=_LISTED)
        request, source = _request_of(run.model), None
        with contextlib.suppress(TrtprofError), request.opened() as loaded:
            source = request.bound(loaded)
        return Subject(name, source, request, how=how, run=run)
    try:
        predicted = record_file.decoded(data, Prediction)
    except ValueError as error:
        raise UsageError(
            f"{path} is no document of a run, an analysis or a prediction", why=str(error), fix=_DOCUMENTS
        ) from None
    asked = spec or gpus.find(predicted.gpus[0].gpu)
    how = msgspec.structs.replace(how, precision=predicted.precision)
    return _of_its_model(path, predicted.model, name, asked, how)


def _is_of(run: Run, spec: GpuSpec) -> bool:
    """Whether a run was on a GPU of this datasheet, as far as its name tells."""
    with contextlib.suppress(UsageError):
        return gpus.find(run.device.name).slug == spec.slug
    return False


def _of_its_model(path: Path, model: ModelInfo, name: str, spec: GpuSpec, how: Settings) -> Subject:
    """A layer of the model of a document."""
    if not model.opsets:
        raise UsageError(
            f"{path} says nothing of an ONNX model",
            why="it was made of an engine's plan alone, and without measured times a brief is of the model's nodes",
            fix=f"name the model: trtprof plugin MODEL NODE --gpu {spec.slug}",
        )
    return of_model(_request_of(model), name, spec, how)


def _request_of(model: ModelInfo) -> ModelRequest:
    """The model of a document, at the shapes that it was looked at."""
    return ModelRequest.of(model.path).at({one.name: one.shape for one in model.inputs if one.shape is not None})


def of_run(folder: RunFolder, name: str, spec: GpuSpec | None = None, how: Settings = Settings()) -> Subject:  # noqa: B008
    """A layer of a finished run; of its model, predicted, where another GPU is asked for than it ran on."""
    from trtprof.flows.report import analysed

    cases: list[Case] = []
    run = analysed(folder, cases.append)
    source = folder.read(run_folder.SOURCE, Source)
    asked = folder.read(run_folder.REQUEST, run_folder.Request)
    request = _request_of(msgspec.structs.replace(source.model, path=asked.model))
    return of_case(run, cases[0], source, name, request, spec, how)


def of_case(
    run: Run,
    case: Case,
    source: Source | None,
    name: str,
    request: ModelRequest | None = None,
    spec: GpuSpec | None = None,
    how: Settings = Settings(),  # noqa: B008
) -> Subject:
    """The same of a run that is in memory, as of files that were made elsewhere (`flows.analyze`)."""
    layer = layer_of(case, name)
    if spec is not None and source is not None and (case.spec is None or case.spec.slug != spec.slug):
        # Another engine has other layers, of the same nodes.
        known = [node for node in (*fused_in(case, layer).nodes, *layer.nodes) if node in case.ops]
        if not known:
            raise UsageError(
                f"nothing tells which nodes {layer.name} computes",
                why="on another GPU its layer is found by its nodes",
                fix="name a node of the model, or leave --gpu away",
            )
        return Subject(name if name in known else known[0], source, request, spec, how)
    return Subject(name, source, request, case.spec, how, run, case)


def of_model(request: ModelRequest, name: str, spec: GpuSpec, how: Settings = Settings()) -> Subject:  # noqa: B008
    """A layer of a model that did not run, as an engine may fuse it."""
    with request.opened() as loaded:
        return Subject(name, request.bound(loaded), request, spec, how)


# --- the brief ------------------------------------------------------------------------------------


def brief_of(
    subject: Subject,
    nodes: Collection[str] = (),
    operands: Mapping[str, str] | None = None,
    build: KernelBuild | None = None,
) -> PluginBrief:
    """The brief of a layer."""
    chosen = frozenset(nodes)
    if subject.case is not None and subject.run is not None:
        return _of_run(subject, subject.run, subject.case, chosen, operands, build)
    if subject.run is not None:
        return _of_listed(subject, subject.run, chosen, operands, build)
    if subject.source is not None and subject.spec is not None:
        return _of_model(subject, subject.source, subject.spec, chosen, operands, build)
    raise UsageError(
        f"nothing tells of {subject.name}",
        why="there is neither a run nor a model with a GPU",
        fix="name a run folder, or a model and --gpu",
    )


def kernel_ns(estimate: Estimate | None, bandwidth: float | None, dram_bytes_per_s: float, runs: int = 1) -> int | None:
    """What a kernel that was written is predicted to take in one inference.

    `bandwidth`: share of the datasheet's bandwidth that it draws (`KernelBuild.bandwidth`), its launch included; None
    where it is not known.
    """
    if estimate is None or not bandwidth:
        return None
    return max(round(estimate.dram_bytes * 1e9 / (bandwidth * dram_bytes_per_s)), estimate.attainable_ns) * runs


def _thought(
    nodes: frozenset[str], estimate: Estimate | None, build: KernelBuild | None, spec: GpuSpec | None, runs: int
) -> Thought:
    if build is None or spec is None:
        return Thought(nodes)
    rate = spec.dram_bytes_per_s.value
    ns = kernel_ns(estimate, build.bandwidth, rate, runs)
    if ns is None:
        return Thought(nodes)
    of = f"{format_percent(build.bandwidth or 0)} of the {format_rate(rate, 'B/s')} of the datasheet"
    words = f"{of}, predicted of the kernel that was written for {build.architecture}"
    return Thought(nodes, ns, f"{words}{f': {build.basis}' if build.basis else ''}")


class _Kernel(NamedTuple):
    """What a kernel computes."""

    nodes: tuple[str, ...]  # In the order of the model
    work: Work | None  # Of one run
    estimate: Estimate | None  # The bound of one run


def _kernel(
    case: Case, layer: LayerResult, asked: Collection[str], whole: tuple[Work | None, Estimate | None], precision: str
) -> _Kernel:
    """The nodes that a kernel computes, which may be fewer than those of a layer, or more, and their work."""
    work, bound = whole
    nodes = tuple(name for name in case.ops if name in asked) or fused_in(case, layer).nodes or layer.nodes
    ops = {name: case.ops[name] for name in nodes if name in case.ops}
    if bound is None or len(ops) < len(nodes) or working(case.ops, nodes) == working(case.ops, layer.nodes):
        return _Kernel(nodes, work, bound)
    made = {tensor.name for tensor, role in borders(case.ops, nodes, ()) if role == "output"}
    try:
        cost = group_cost([recast(op, precision) for op in ops.values() if op.op_type != "Constant"], made)
    except CostError:
        cost = None
    if cost is None:
        return _Kernel(nodes, None, None)
    main = main_of(ops)
    own = as_work(cost, compute_dtype(recast(ops[main], precision)) if main else "")
    # What of it is found in the cache is taken to be the share that the layer finds there.
    return _Kernel(nodes, own, estimate(own, Traffic(bound.cache_bytes, bound.dram_bytes), case.ceilings))


# --- of a run -------------------------------------------------------------------------------------


def _of_run(
    subject: Subject,
    run: Run,
    case: Case,
    nodes: frozenset[str],
    operands: Mapping[str, str] | None,
    build: KernelBuild | None,
) -> PluginBrief:
    layer = layer_of(case, subject.name)
    nodes = nodes or _of_name(layer, subject.name, case)
    runs = max(case.runs.get(layer.name, 1), 1)
    estimate = _once(case.estimates.get(layer.name), runs)
    work = _once_work(layer.work, runs)
    plan = case.plan.get(layer.name)
    planned = (*plan.layer.inputs, *plan.layer.constants, *plan.layer.outputs) if plan is not None else ()
    kernel = _kernel(case, layer, nodes, (work, estimate), _precision_of(planned))
    grave = [finding.brief or finding.title for finding in withheld(run.findings)]
    found = weigh(case, layer, _thought(nodes, kernel.estimate, build, case.spec, runs), grave)
    homes = {
        node: Home(each.nodes, f"takes {format_ns(each.measured_ns)}") for each in case.layers for node in each.nodes
    }
    told = described(case.ops, kernel.nodes, layer.nodes, operands, planned, run.model.outputs, homes)
    brief = _measured_brief(run, layer, found.candidate)
    tactic = case.tactics.get(layer.name, "")
    return msgspec.structs.replace(
        brief,
        nodes=kernel.nodes,
        op_types=tuple(case.ops[name].op_type for name in kernel.nodes if name in case.ops) or (layer.op_type,),
        formulas=told.formulas,
        tensors=told.tensors,
        gpu=case.spec.slug if case.spec is not None else run.device.name,
        runs=runs,
        work=kernel.work,
        estimate=kernel.estimate,
        kernels=brief.kernels or ((tactic,) if tactic else ()),
        neighbours=told.neighbours,
        verdict=found.verdict,
        why=found.why,
        doubts=tuple(_doubts(run, case, layer, grave, subject, kernel, planned)),
    )


def _of_listed(
    subject: Subject, run: Run, nodes: frozenset[str], operands: Mapping[str, str] | None, build: KernelBuild | None
) -> PluginBrief:
    """What the document of a run alone tells: the verdict of a layer that it weighed, and nothing of another one."""
    layer = find_layer(run.layers, subject.name, fix=_LISTED)
    one = next((found for found in run.candidates if found.layer == layer.name), None)
    inside = tuple(name for name in subject.ops if name in nodes) or layer.nodes
    homes = {
        node: Home(each.nodes, f"takes {format_ns(each.measured_ns)}") for each in run.layers for node in each.nodes
    }
    told = described(subject.ops, inside, layer.nodes, operands, (), run.model.outputs, homes)
    grave = [finding.brief or finding.title for finding in withheld(run.findings)]
    why = one.why if one is not None else run.no_candidates
    if not why:
        why = "the document weighs other layers than this one; the folder of the run tells of each"
    alone = "only the document of the run is here: the verdict is that of its report"
    return msgspec.structs.replace(
        _measured_brief(run, layer, one),
        nodes=inside,
        op_types=tuple(subject.ops[name].op_type for name in inside if name in subject.ops) or (layer.op_type,),
        formulas=told.formulas,
        tensors=told.tensors,
        neighbours=told.neighbours,
        verdict=one.verdict if one is not None else "not decided",
        why=why,
        doubts=(
            *grave,
            *run.lacking,
            f"{alone}, and not of the kernel that was written" if build is not None else alone,
        ),
    )


def _measured_brief(run: Run, layer: LayerResult, one: PluginCandidate | None) -> PluginBrief:
    """What a run says of a layer, and of the kernel that was weighed for it."""
    return PluginBrief(
        layer=layer.name,
        nodes=layer.nodes,
        op_types=(layer.op_type,),
        formulas=(),
        tensors=(),
        gpu=run.device.name,
        work=layer.work,
        expected_ns=layer.expected_ns,
        expected_p10_ns=layer.expected_p10_ns,
        expected_p90_ns=layer.expected_p90_ns,
        expected_basis=layer.expected_basis,
        expected_reason=layer.expected_reason,
        measured_ns=layer.measured_ns,
        kernels=tuple(
            dict.fromkeys(match.kernel for match in sorted(layer.kernels, key=lambda one: (-one.total_ns, one.kernel)))
        ),
        wrong=tuple(_wrong(run, layer)),
        barrier=one.barrier if one is not None else (),
        ladder=one.ladder if one is not None else (),
        reachable_ns=one.reachable_ns if one is not None else None,
        basis=one.basis if one is not None else "",
        pays_above_ns=one.reachable_ns + sum(part.ns for part in one.barrier) if one is not None else None,
        net_ns=one.net_ns if one is not None else None,
        net_low_ns=one.net_low_ns if one is not None else None,
        net_high_ns=one.net_high_ns if one is not None else None,
        verdict="not decided",
        why="",
    )


def _precision_of(planned: Sequence[PlanTensor]) -> str:
    """What the engine computes in, as `cost.recast` calls it, by the tensors of a layer."""
    floats = [tensor.dtype for tensor in planned if tensor.dtype in ("fp16", "bf16")]
    return floats[0] if floats else "model"


def _of_name(layer: LayerResult, name: str, case: Case) -> frozenset[str]:
    """The node that was asked for where it is the only one of its kind that a kernel may be for; else none."""
    main = fused_in(case, layer).nodes
    return frozenset({name}) if name in layer.nodes and name not in main else frozenset()


def _once(estimate: Estimate | None, runs: int) -> Estimate | None:
    """The bound of one run, from that of all in an inference."""
    if estimate is None or runs == 1:
        return estimate
    return msgspec.structs.replace(
        estimate,
        ideal_ns=estimate.ideal_ns // runs,
        attainable_ns=estimate.attainable_ns // runs,
        roofline_ns=estimate.roofline_ns // runs,
        terms={name: ns // runs for name, ns in estimate.terms.items()},
        dram_bytes=estimate.dram_bytes // runs,
        cache_bytes=estimate.cache_bytes // runs,
    )


def _once_work(work: Work | None, runs: int) -> Work | None:
    if work is None or runs == 1:
        return work
    return msgspec.structs.replace(
        work,
        tensor_flops=work.tensor_flops // runs,
        vector_flops=work.vector_flops // runs,
        special={name: count // runs for name, count in work.special.items()},
        bytes_read=work.bytes_read // runs,
        bytes_written=work.bytes_written // runs,
        bytes_parameters=work.bytes_parameters // runs,
        fast_flops=work.fast_flops // runs,
    )


def _wrong(run: Run, layer: LayerResult) -> Iterator[str]:
    """What the findings say of a layer."""
    for finding in run.findings:
        if finding.kind == "hypothesis" and layer.name in finding.layers:
            sure = f"{100 * finding.confidence:.0f} % sure"
            lost = f", ~{format_ns(finding.lost_ns)} lost" if finding.lost_ns else ""
            yield f"{finding.code} {finding.title} ({sure}{lost}): {finding.evidence}"


def _doubts(
    run: Run,
    case: Case,
    layer: LayerResult,
    grave: Sequence[str],
    subject: Subject,
    kernel: _Kernel,
    planned: Sequence[PlanTensor],
) -> Iterator[str]:
    """What makes the verdict less sure, that which leaves none first."""
    yield from grave
    for finding in run.findings:
        said = finding.brief or finding.title
        if finding.kind == "trust" and said not in grave:
            yield said
    yield from run.lacking
    if not case.gpu:
        yield "the run was on a CPU: --gpu NAME predicts the same layer for a GPU"
    if layer.match == "inferred":
        yield f"its kernels were led to it by inference{f': {layer.reason}' if layer.reason else ''}"
    if case.from_datasheet and case.gpu:
        yield "its bound is that of a datasheet, which no kernel reaches"
    if subject.source is None or any(name not in case.ops for name in layer.nodes) or not layer.nodes:
        yield "the model is not at hand, or does not tell the nodes of the layer: what is fused in it is a guess"
    elif working(case.ops, layer.nodes) - set(kernel.nodes):
        yield _PARTIAL
    in_model = {tensor.name: tensor.dtype for tensor, _ in borders(case.ops, kernel.nodes, ())}
    for tensor in planned:
        other = in_model.get(tensor.name, tensor.dtype)
        if tensor.dtype and other != tensor.dtype:
            yield (
                f"{tensor.name} is {tensor.dtype} in the engine and {other} in the model: what a conversion at the "
                "border of a plugin costs is not in the price"
            )
            break


# --- of a model that did not run ------------------------------------------------------------------


def _of_model(
    subject: Subject,
    source: Source,
    spec: GpuSpec,
    nodes: frozenset[str],
    operands: Mapping[str, str] | None,
    build: KernelBuild | None,
) -> PluginBrief:
    predicted, layer = _predicted(subject, source, spec, subject.how)
    result = _as_result(layer)
    ops = subject.ops
    case = _unmeasured(result, ops, predicted.ceilings, spec)
    nodes = nodes or _of_name(result, subject.name, case)
    kernel = _kernel(case, result, nodes, (layer.work, layer.estimate), subject.how.precision)
    homes = {
        node: Home(each.nodes, f"takes at least {format_ns(each.estimate.attainable_ns * each.repeats)}")
        for each in predicted.layers
        for node in each.nodes
        if each.estimate is not None
    }
    told = described(ops, kernel.nodes, layer.nodes, operands, (), source.model.outputs, homes)
    runs = max(layer.repeats, 1)
    cost = None
    if result.attainable_ns:
        cost = cost_of(case, result, _thought(nodes, kernel.estimate, build, spec, runs))
    weighed = _conditional(layer, result, cost)
    return PluginBrief(
        layer=layer.name,
        nodes=kernel.nodes,
        op_types=tuple(ops[name].op_type for name in kernel.nodes),
        formulas=told.formulas,
        tensors=told.tensors,
        gpu=spec.slug,
        runs=runs,
        work=kernel.work,
        estimate=kernel.estimate,
        expected_ns=result.expected_ns,
        expected_p10_ns=result.expected_p10_ns,
        expected_p90_ns=result.expected_p90_ns,
        expected_basis=result.expected_basis,
        expected_reason=result.expected_reason,
        neighbours=told.neighbours,
        barrier=cost.parts if cost is not None else (),
        ladder=tuple(_ladder(subject, source, spec, predicted, layer)),
        reachable_ns=cost.reachable_ns if cost is not None else None,
        basis=cost.basis if cost is not None else "",
        pays_above_ns=cost.reachable_ns + cost.barrier_ns if cost is not None else None,
        net_ns=weighed.net[1] if weighed.net else None,
        net_low_ns=weighed.net[0] if weighed.net else None,
        net_high_ns=weighed.net[2] if weighed.net else None,
        verdict=weighed.verdict,
        why=weighed.why,
        doubts=tuple(_doubts_of_model(layer, spec, partial=bool(working(ops, layer.nodes) - set(kernel.nodes)))),
    )


def _predicted(subject: Subject, source: Source, spec: GpuSpec, how: Settings) -> tuple[GpuPrediction, PredictedLayer]:
    from trtprof.flows.predict.groups import predict_source

    level: Literal["nodes", "groups"] = "nodes" if how.level == "nodes" else "groups"
    (found,) = predict_source(source, [spec], msgspec.structs.replace(how, level=level, engine=None)).gpus
    if subject.name not in subject.ops:
        return found, find_layer(found.layers, subject.name, fix="trtprof predict --format json lists them all")
    # Its name may be a part of that of another.
    layer = next((one for one in found.layers if subject.name in (one.name, *one.nodes)), None)
    if layer is None:
        raise UsageError(
            f"{subject.ops[subject.name].op_type} {subject.name!r} launches nothing in an engine",
            why="views, control flow, branches not taken, and what shapes and constants alone decide take no kernel",
            fix="name a node that computes: trtprof predict --format json lists the layers",
        )
    return found, layer


def nodes_of(subject: Subject) -> tuple[str, ...]:
    """Nodes of the model that the name stands for: the one that is called so, or those of the layer."""
    known = subject.ops
    if subject.run is not None:
        if subject.name in known:
            return (subject.name,)
        layer: LayerResult | PredictedLayer = find_layer(subject.run.layers, subject.name, fix=_LISTED)
    elif subject.source is not None and subject.spec is not None:
        _, layer = _predicted(subject, subject.source, subject.spec, subject.how)
    else:
        return ()
    nodes = tuple(name for name in layer.nodes if name in known)
    called = [name for name in nodes if name == subject.name]
    part = [name for name in nodes if subject.name.casefold() in name.casefold()]
    return tuple(called) or (tuple(part) if len(part) == 1 else nodes)


def _as_result(layer: PredictedLayer) -> LayerResult:
    """A predicted layer as one of a run that took no time; times of all its runs in one inference."""
    estimate, times = layer.estimate, max(layer.repeats, 1)

    def all_runs(ns: int | None) -> int | None:
        return None if ns is None else ns * times

    return LayerResult(
        name=layer.name,
        op_type=layer.op_type,
        role="compute",
        nodes=layer.nodes,
        kernels=(),
        measured_ns=0,
        ideal_ns=all_runs(estimate.ideal_ns if estimate else None),
        attainable_ns=all_runs(estimate.attainable_ns if estimate else None),
        lost_ns=None,
        bound=estimate.bound if estimate else "unknown",
        flops=layer.work.flops if layer.work else None,
        bytes=layer.work.bytes if layer.work else None,
        dtype=layer.work.dtype if layer.work else "",
        work=layer.work,
        terms=dict(estimate.terms) if estimate else {},
        expected_ns=all_runs(layer.expected_ns),
        expected_p10_ns=all_runs(layer.expected_p10_ns),
        expected_p90_ns=all_runs(layer.expected_p90_ns),
        expected_basis=layer.expected_basis,
        expected_reason=layer.expected_reason,
    )


def _unmeasured(layer: LayerResult, ops: Mapping[str, Op], ceilings: Ceilings, spec: GpuSpec) -> Case:
    """A case of one layer that took no time."""
    nothing = latency_of_sum(0)
    main = main_of({name: ops[name] for name in layer.nodes if name in ops}) or layer.nodes[0]
    return Case(
        layers=(layer,),
        engine={layer.name: Layer(name=layer.name, op=ops[main], role="compute", nodes=layer.nodes, match="exact")},
        latency=nothing,
        profiled=nothing,
        coverage=Coverage(exact=0.0, inferred=0.0, unattributed=1.0),
        ceilings=ceilings,
        ledger=(),
        clock_resolution_ns=0,
        profiled_gap_ns=0,
        tensorrt=True,
        gpu=True,
        spec=spec,
        ops=ops,
    )


class _Conditional(NamedTuple):
    verdict: Literal["do not", "not decided"]
    why: str
    net: tuple[int, int, int] | None = None
    """At worst, as expected, at best, should the engine take what good library kernels take."""


def _conditional(layer: PredictedLayer, result: LayerResult, cost: Cost | None) -> _Conditional:
    """What can be said before anything was measured: from which time of the engine's own kernel on one by hand pays."""
    if cost is None:
        reason = layer.reason or layer.expected_reason
        return _Conditional("not decided", f"its work is not known{f': {reason}' if reason else ''}")
    above = cost.reachable_ns + cost.barrier_ns
    takes = f"a kernel by hand should take ~{format_ns(cost.reachable_ns)}"
    pays = (
        f"{takes}, and cutting the layer out costs {format_ns(cost.barrier_ns)}: it pays where the engine's own kernel "
        f"takes more than {format_ns(above)}"
    )
    if result.bound == "launch":
        return _Conditional(
            "do not", "it is bound by the launch of a kernel, and a plugin launches one, too: only what is fused pays"
        )
    expected, low, high = result.expected_ns, result.expected_p10_ns, result.expected_p90_ns
    if not layer.firm or expected is None or low is None or high is None:
        return _Conditional(
            "not decided", f"nothing was measured: {pays}, and what that takes is not known before it is measured"
        )
    net = (low - cost.worst_ns - cost.most_ns, expected - above, high - cost.best_ns - cost.barrier_ns)
    rival = f"good library kernels take {format_band(expected, low, high)}"
    if net[1] <= 0:
        return _Conditional(
            "do not",
            f"{rival}; {takes}, and cutting the layer out costs {format_ns(cost.barrier_ns)}: nothing is left, unless "
            f"the engine's own kernel is measured to take more than {format_ns(above)}",
            net,
        )
    return _Conditional("not decided", f"nothing was measured: {pays}; {rival}, if the engine has one of those", net)


def _doubts_of_model(layer: PredictedLayer, spec: GpuSpec, *, partial: bool) -> Iterator[str]:
    yield "nothing ran: each time is an estimate, and which kernel an engine takes is not known"
    if partial:
        yield _PARTIAL
    if layer.rule:
        yield "which nodes an engine fuses is estimated from the graph"
    yield "formats of the engine are not known: reformats at its borders, if there are any, are not in the price"
    weak = [name for name in ("bandwidth", "launch") if spec.figures[name].kind == "weak"]
    if weak:
        yield f"weak figures of the datasheet: {', '.join(weak)}"
    if layer.expected_ns is not None and not layer.firm:
        yield f"what good library kernels take is extrapolated, and no verdict rests on it: {layer.expected_reason}"


# --- cheaper ways, before anything was measured -----------------------------------------------------


def _ladder(
    subject: Subject, source: Source, spec: GpuSpec, predicted: GpuPrediction, layer: PredictedLayer
) -> Iterator[LadderStep]:
    yield from _rewrites(subject, spec, layer, predicted)
    yield from _half(subject, source, spec, layer)
    yield from builder_steps(routes=True)
    if layer.estimate is not None and layer.estimate.bound == "launch":
        yield LadderStep(
            what="a CUDA graph",
            command="trtprof run MODEL -o reports/b",
            rung="cuda-graph",
            basis="a run on the GPU measures the engine with one and without",
        )


def _half(subject: Subject, source: Source, spec: GpuSpec, layer: PredictedLayer) -> Iterator[LadderStep]:
    """Half precision, by the bound of the same nodes there."""
    if layer.work is None or layer.work.dtype not in ("fp32", "tf32") or layer.estimate is None:
        return
    how = msgspec.structs.replace(subject.how, precision="fp16")
    _, half = _predicted(subject, source, spec, how)
    gain = None
    basis = "its work at fp16 is not known"
    if half.nodes == layer.nodes and half.estimate is not None:
        before, after = (each.estimate.attainable_ns * layer.repeats for each in (layer, half) if each.estimate)
        gain = max(before - after, 0)
        basis = (
            f"the bound is {format_ns(before)} now and {format_ns(after)} at fp16, for kernels that are as near to it"
        )
    yield LadderStep(
        what="half precision", command="trtprof run MODEL --fp16 -o reports/b", gain_ns=gain, basis=basis, rung="fp16"
    )


def _rewrites(subject: Subject, spec: GpuSpec, layer: PredictedLayer, predicted: GpuPrediction) -> Iterator[LadderStep]:
    """Rewrites of the graph that change nodes of the layer, predicted of the whole model."""
    if subject.request is None or importlib.util.find_spec("onnx_ir") is None:
        return
    from trtprof.flows.options import RunOptions
    from trtprof.flows.try_.on_gpu import CHANGES, predicted_on
    from trtprof.flows.try_.options import TryOptions

    found = predicted_on(TryOptions(run=RunOptions(model=subject.request), gpu=spec), spec, "")
    for rung in found.rungs:
        if rung.verdict != "not measured" or not set(rung.nodes) & set(layer.nodes):
            continue
        gain = rung.predicted
        if gain is not None and gain < 1 - CHANGES:
            continue
        tells = gain is not None and gain > 1 + CHANGES
        before = predicted.forecast_ns if predicted.forecast_ns else predicted.time_ns
        yield LadderStep(
            what=rung.title,
            command=f"trtprof try MODEL --rung {rung.name}",
            gain_ns=round(before * (1 - 1 / gain)) if tells and before and gain else None,
            basis=f"of the whole model, {rung.basis}"
            if tells
            else "no bound tells it: what gains is the kernel that an engine then takes",
            rung=rung.name,
        )
