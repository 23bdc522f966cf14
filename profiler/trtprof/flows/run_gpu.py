"""The stages of a run on a GPU up to the capture: which GPU, the engine, ceilings; then counters, where asked for.

The model must be read from a file, and everything that is found goes into the run folder, stage by stage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec

from trtprof.base import run_folder
from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.kernel_counters import COUNTERS_FILE, Counters
from trtprof.base.records import Ceilings, GpuSpec, LiveGpu, Roof
from trtprof.base.units import format_ns
from trtprof.capture.gpu_launch import AskedCollector, capture_gpu
from trtprof.capture.gpu_record import (
    GpuArtefact,
    GpuCapture,
    GpuWorkerRequest,
    OrtCudaRequest,
    PlanArtefact,
    TensorrtRequest,
)
from trtprof.capture.ncu import record as ncu
from trtprof.engine.onnxruntime import ENGINE_GRAPH, session_engine
from trtprof.expected import Measured
from trtprof.flows.build import copy_engine, engine_from, engine_of, static_shapes
from trtprof.flows.job import Job
from trtprof.flows.options import USUAL_S, GpuOptions
from trtprof.flows.timed_rows import timed_on
from trtprof.hardware import gpus, nvml, store
from trtprof.hardware.cuda.calibrate import calibrate_gpu, find
from trtprof.runtime import child
from trtprof.runtime.ort_session import CudaOptions, SessionRequest

WORKERS = {
    "tensorrt": "trtprof.capture.workers.tensorrt",
    "tensorrt-rtx": "trtprof.capture.workers.tensorrt",
    "ort-cuda": "trtprof.capture.workers.ort_cuda",
}
"""The module of the worker by backend."""

_MOST_LAUNCHES = 500  # To count: each is replayed for every group of counters
_COUNTING_S, _LAUNCH_S = 900.0, 10.0
"""What ncu may take for libraries and the model, and for each launch, before it counts as hung."""

_SHOWN = "CUDA_VISIBLE_DEVICES"


class Captured(NamedTuple):
    """A run on a GPU up to the capture: what counting kernels goes on from."""

    job: Job
    gpu: LiveGpu
    request: OrtCudaRequest | TensorrtRequest
    tool: ncu.Ncu | None  # None where nobody asked for counters

    @property
    def to_count(self) -> bool:
        """Whether counters are asked for, and not there yet."""
        folder = self.job.folder
        there = folder.has(COUNTERS_FILE) and folder.read(COUNTERS_FILE, Counters).launches
        return self.tool is not None and not there


def run_on_gpu(job: Job) -> Captured:
    """Do the stages up to the capture."""
    folder, options, say = job.folder, job.options.gpu, job.progress
    # Known to be missing before anything runs.
    tool = ncu.require() if options.confirm else None
    gpu = _gpu(options.device)
    spec, reason = nvml.spec_of(gpu)
    measured = timed_on(options.measured, [spec], live=gpu, say=say.detail).get(spec.slug)
    say.detail(f"GPU {gpu.index}: {gpu.name} ({reason})")
    if not folder.has(run_folder.GPU):
        folder.write(run_folder.DEVICE, nvml.as_device(gpu))
        folder.write(run_folder.GPU, GpuArtefact(live=gpu, spec=spec, reason=reason))
    with _only(gpu):
        if job.backend.name != "ort-cuda":
            say.stage("engine")
        layers = len(job.source.nodes) if job.backend.name == "ort-cuda" else _tensorrt(job)
        _ceilings(job, gpu, spec)
        _corrects(job, measured, spec)
        say.stage("capture")
        request = _request(job, layers, gpu.l2_bytes or int(spec.l2_bytes.value))
        if folder.has(run_folder.CAPTURE):
            say.detail("kept from before")
        else:
            collector = cast("AskedCollector", options.collector)
            capture_gpu(request, WORKERS[job.backend.name], collector, say.detail, gpu=gpu.uuid or gpu.index)
        if job.backend.name == "ort-cuda" and not folder.has(run_folder.ENGINE):
            _keep_engine(job, request)
    return Captured(job, gpu, request, tool)


def count_kernels(captured: Captured, names: Sequence[str], launches: int) -> None:
    """Run the worker once more, under ncu, and leave the counters of some kernels."""
    job, tool = captured.job, captured.tool
    assert tool is not None  # noqa: S101 - there is nothing to count without
    say = job.progress
    if not names:
        say.detail("no kernel lost any time: there is nothing to confirm")
        return
    say.detail(f"ncu {tool.version_text} ({tool.path}: {tool.why}) counts {', '.join(names)}")
    apart = job.scratch / "counters"
    apart.mkdir(exist_ok=True)
    # As for nsys, the worker marks the profiled inferences off; what it leaves is that of a run under ncu, of no use.
    asked = msgspec.structs.replace(
        captured.request,
        phase="profiled",
        collector="nsys",
        folder=str(apart),
        scratch=str(apart),
        profile_iterations=1,
    )
    try:
        with _only(captured.gpu):
            counted = ncu.profile(
                tool,
                child.prepare(WORKERS[job.backend.name], asked, apart),
                apart,
                names,
                launches=min(launches, _MOST_LAUNCHES),
                timeout_s=_COUNTING_S + _LAUNCH_S * min(launches, _MOST_LAUNCHES),
                progress=say.detail,
                worker_error=lambda: child.failure_in(apart),
            )
    except TrtprofError as error:
        say.detail(f"no counters: {error.what}: {error.why}; fix: {error.fix}")
        failure = "; ".join(filter(None, (f"{error.what}: {error.why}", error.fix and f"to mend it: {error.fix}")))
        job.folder.write(COUNTERS_FILE, Counters(version=tool.version_text, failure=failure))
        return
    found = Counters(version=tool.version_text, command=counted.command, launches=counted.launches)
    job.folder.write(COUNTERS_FILE, found)
    say.detail(f"{len(counted.launches)} launches counted")


def _request(job: Job, layers: int, l2_bytes: int) -> OrtCudaRequest | TensorrtRequest:
    """What the worker is asked."""
    measure, options = job.options, job.options.gpu
    common = GpuWorkerRequest(
        phase="clean",
        folder=str(job.folder.path.resolve()),
        scratch=str(job.scratch),
        inputs=job.source.model.inputs,
        layers=layers,
        seed=measure.seed,
        iterations=measure.iterations,
        warmup_ms=measure.warmup_ms,
        duration_s=USUAL_S if measure.duration_s is None else measure.duration_s,
        profile_iterations=measure.profile_iterations,
        cuda_graph=options.cuda_graph is not False,
        cold_l2=options.cold_l2,
        l2_bytes=l2_bytes,
        verify=options.verify,
    )
    fields = msgspec.structs.asdict(common)
    if job.backend.name == "ort-cuda":
        session = on_cuda(job.session, job.options.gpu)
        return OrtCudaRequest(**fields, session=session, graph_file=ENGINE_GRAPH)
    built = job.folder.read(run_folder.PLAN, PlanArtefact)
    return TensorrtRequest(
        **fields,
        backend=cast("Literal['tensorrt', 'tensorrt-rtx']", job.backend.name),
        engine=built.engine,
        plugins=options.build.static_plugins,
        reference=job.session if options.verify else None,
        tf32=options.build.tf32,
        precision="fp16" if options.build.fp16 else "bf16" if options.build.bf16 else "",
    )


# --- the GPU ----------------------------------------------------------------------------------


def _gpu(asked: int | None) -> LiveGpu:
    """The GPU to run on: the one asked for, else the first that CUDA shows to a program."""
    if asked is not None:
        return find(asked)
    first = os.environ.get(_SHOWN, "").split(",")[0].strip()
    if first.isdigit():
        return find(int(first))
    live, _ = nvml.gpus()
    named = [gpu for gpu in live if first.startswith("GPU-") and gpu.slice is None and gpu.uuid.startswith(first)]
    return find(named[0].index if named else 0)


@contextmanager
def alone(device: int | None) -> Iterator[LiveGpu]:
    """Children see the GPU of a run alone, until the block ends: the one asked for, or the first."""
    gpu = _gpu(device)
    with _only(gpu):
        yield gpu


@contextmanager
def _only(gpu: LiveGpu) -> Iterator[None]:
    """Children see this GPU alone, as number 0: CUDA counts in another order than NVML."""
    before = os.environ.get(_SHOWN)
    if gpu.uuid:
        os.environ[_SHOWN] = gpu.uuid
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SHOWN, None)
        else:
            os.environ[_SHOWN] = before


def _ceilings(job: Job, gpu: LiveGpu, spec: GpuSpec) -> None:
    """The ceilings of the GPU: kept from before, measured, or those of its datasheet where that is not possible."""
    folder, again, say = job.folder, job.options.recalibrate, job.progress
    say.stage("ceilings")
    if folder.has(run_folder.CEILINGS) and not again:
        say.detail("kept from before")
        return
    found = ceilings_here(gpu, spec, say.detail, again=again)
    folder.write(run_folder.CEILINGS, found if job.options.gpu.build.tf32 else _without_tf32(found))


def ceilings_here(gpu: LiveGpu, spec: GpuSpec, say: Callable[[str], None], *, again: bool = False) -> Ceilings:
    """The ceilings of a GPU that is here: those that were measured before, else measured, else its datasheet's."""
    shelf = store.of_gpu(gpu)
    found = None if again else shelf.read(say)
    if found is not None:
        say(f"ceilings of {found.device} measured {found.measured_at} (--recalibrate measures them again)")
        return found
    try:
        found = calibrate_gpu(gpu.index, progress=say)
        shelf.write(found, say)
    except (MissingError, CaptureError) as error:
        if again:
            raise
        say(f"the datasheet's, since none were measured: {error.what} ({error.why})")
        found = gpus.ceilings(spec)
    return found


def _corrects(job: Job, measured: Measured | None, spec: GpuSpec) -> None:
    """Keep the kernels that were timed on the GPU, which correct what is expected there."""
    if measured is None or job.folder.has(run_folder.MEASURED):
        return
    measured.check(spec, job.folder.read(run_folder.CEILINGS, Ceilings), tf32=job.options.gpu.build.tf32)
    job.folder.write(run_folder.MEASURED, measured)


def _without_tf32(ceilings: Ceilings) -> Ceilings:
    """Ceilings where fp32 is multiplied as fp32, which tensor cores do not."""

    def plain(roof: Roof) -> Roof:
        return msgspec.structs.replace(
            roof, tensor_flops_per_s={**roof.tensor_flops_per_s, "fp32": roof.vector_flops_per_s["fp32"]}
        )

    return msgspec.structs.replace(ceilings, best=plain(ceilings.best), attainable=plain(ceilings.attainable))


# --- the engine -------------------------------------------------------------------------------


def on_cuda(session: SessionRequest, options: GpuOptions) -> SessionRequest:
    """The same session with the CUDA provider, as a run on a GPU asks for it."""
    chosen = session.tuning.of_cuda
    cuda = CudaOptions(
        use_tf32=options.build.tf32,
        cudnn_conv_algo_search=cast("Any", chosen.get("cudnn_conv_algo_search", "EXHAUSTIVE")),
        prefer_nhwc=chosen.get("prefer_nhwc") == "1",
    )
    return msgspec.structs.replace(session, provider="cuda", cuda=cuda)


def _keep_engine(job: Job, request: OrtCudaRequest | TensorrtRequest) -> None:
    """Keep the session of ONNX Runtime that was profiled as the engine of the run."""
    facts = job.folder.read(run_folder.CAPTURE, GpuCapture).under.session
    assert facts is not None and isinstance(request, OrtCudaRequest)  # noqa: S101, PT018 - its worker tells it
    engine = session_engine(job.backend, request.session, facts, job.folder.file(ENGINE_GRAPH))
    job.folder.write(run_folder.ENGINE, engine)
    job.progress.detail(f"{engine.backend.name}: {len(engine.layers)} layers in {format_ns(engine.build_ns)}")
    on_cpu = sum(place.provider != "CUDA" for place in facts.placements)
    if on_cpu:
        job.progress.detail(f"{on_cpu} nodes stay on the CPU")


def _tensorrt(job: Job) -> int:
    """The engine of TensorRT; returns the number of its layers."""
    folder, options, say = job.folder, job.options.gpu, job.progress.detail
    if folder.has(run_folder.PLAN):
        kept = folder.read(run_folder.PLAN, PlanArtefact)
        if Path(kept.engine).is_file():
            say("kept from before")
            _save_engine(kept.engine, options.save_engine, say)
            return kept.layers
    if options.load_engine:
        plugins = options.build.static_plugins
        built = engine_from(Path(options.load_engine), job.backend.name, job.source, say, static_plugins=plugins)
    else:
        shapes = {} if options.build.profiles else static_shapes(job.source)
        how = msgspec.structs.replace(options.build, backend=job.backend.name, shapes=shapes)
        built = engine_of(job.loaded, job.source, how, say, rebuild=options.rebuild)
    layers = len(built.priced.document.layers)
    say(f"{job.backend.name}: {layers} layers" + (", kept from an earlier build" if built.built.cached else ""))
    folder.write_bytes(built.layers_file, built.text.encode())
    artefact = PlanArtefact(
        backend=job.backend,
        facts=built.facts,
        layers_file=built.layers_file,
        layers=layers,
        added_nodes=built.added_nodes,
        engine=str(built.built.plan.resolve()),
    )
    folder.write(run_folder.PLAN, artefact)
    _save_engine(artefact.engine, options.save_engine, say)
    return layers


def _save_engine(engine: str, path: str, say: Callable[[str], None]) -> None:
    """Copy the engine to where ``--saveEngine`` says."""
    if path:
        copy_engine(Path(engine), Path(path))
        say(f"wrote {path}")
