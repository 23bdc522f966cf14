"""Variants on a GPU, by TensorRT and TensorRT-RTX.

No GPU has run this: engines are built for real (TensorRT-RTX needs no GPU for that) and their plans are read, but what
takes turns was only ever a stand-in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from trtprof.analysis.evidence import Subject
from trtprof.analysis.plan import price_plan
from trtprof.analysis.run import untimed
from trtprof.base import onnx_graph, run_folder
from trtprof.base.plan_words import REGIONS, tokens
from trtprof.base.records import InputTensor, PlanLayer, PlanTensor, Run, Source
from trtprof.base.run_folder import RunFolder
from trtprof.capture.gpu_record import GpuArtefact, PlanArtefact, TensorrtRequest
from trtprof.capture.turns import Variant as Side
from trtprof.engine.inspector import read_layer_info
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.build import EngineBuild, bound, engine_of
from trtprof.flows.options import GpuOptions, RunOptions, typed_flags, with_flags
from trtprof.flows.progress import Progress
from trtprof.flows.run import session_of
from trtprof.flows.try_.options import Candidate, cuda_graph_rung, no_fp32, one_chain, tf32_rung
from trtprof.flows.try_.price import Price, predicted
from trtprof.flows.try_.target import Built, Rounding, Setup
from trtprof.flows.try_.variants import Variant
from trtprof.runtime.tensorrt_module import Version, parse_version, product_of
from trtprof.source.load import LoadedModel, load_model
from trtprof.source.request import ModelRequest

TIMING_CACHE = "timing.cache"
"""In the folder of the runs: all builds of a search share it, so that what a variant leaves as it is gets the kernels
that the original has."""
LEAST_BUILD_S, BUILD_TIMES = 300.0, 20.0
"""A build may take so long, or so many times as long as that of the original, before it counts as hung."""


class OnTensorrt:
    """TensorRT or TensorRT-RTX; see `target.Target`."""

    def __init__(
        self, run: RunOptions, folder: RunFolder, loaded: LoadedModel, scratch: Path, progress: Progress
    ) -> None:
        self._run, self._loaded, self._progress = run, loaded, progress
        self._base, self._source = folder.report(), folder.read(run_folder.SOURCE, Source)
        self._plan, self._gpu = folder.read(run_folder.PLAN, PlanArtefact), folder.read(run_folder.GPU, GpuArtefact)
        self._backend = self._plan.backend.name
        plan = read_layer_info(folder.file(self._plan.layers_file))
        self._streams = len({layer.stream for layer in plan.layers} - {None}) > 1
        priced = price_plan(plan, self._source, self._plan.facts, self._plan.added_nodes)
        timed = {layer.name: layer for layer in self._base.layers}
        self._layers = [timed.get(layer.name, layer) for layer in untimed(priced, self._subject(self._source))]
        self.original = Setup(session=session_of(loaded, scratch), gpu=run.gpu)

    def _subject(self, source: Source) -> Subject:
        return Subject(ceilings=self._base.ceilings, spec=self._gpu.spec, source=source, backend=self._plan.backend)

    def rungs(self) -> Iterator[Candidate]:
        return tensorrt_rungs(self._facts())

    def _facts(self) -> Facts:
        ops = {node.op_type for _, graph in onnx_graph.all_graphs(self._loaded.proto.graph) for node in graph.node}
        facts = self._plan.facts
        return Facts(
            base=self._base,
            backend=self._backend,
            version=parse_version(facts.versions.get(self._backend, "")),
            capability=parse_version(self._gpu.live.compute_capability),
            tf32=self.original.gpu.build.tf32,
            quantised=bool(ops & {"QuantizeLinear", "DequantizeLinear"}),
            streams=self._streams,
        )

    def setup(self, settings: Mapping[str, str], _threads: int, /) -> Setup:
        return msgspec.structs.replace(self.original, gpu=with_flags(self.original.gpu, settings))

    def built(self, setup: Setup, folder: Path) -> Built:
        folder.rmdir()
        own = setup.session.model == self.original.session.model
        loaded = self._loaded if own else load_model(setup.session.model)
        how = msgspec.structs.replace(setup.gpu.build, backend=self._backend)
        source, how = bound(self._request(None if own else setup.session.model), loaded, how)
        made = engine_of(loaded, source, how, self._progress.detail, deadline_s=self._deadline_s())
        return Built(plan_digest([matched.layer for matched in made.priced.document.layers]), made)

    def _deadline_s(self) -> float:
        return max(BUILD_TIMES * (self._plan.facts.build_ns or 0) / 1e9, LEAST_BUILD_S)

    def _request(self, file: str | None) -> ModelRequest:
        given = self._run.model
        return given if file is None else ModelRequest.of(file, given.shapes_given, given.batch)

    def priced(self, variant: Variant, /) -> Price:
        """By the plan of its engine: nothing runs."""
        built = cast("EngineBuild", variant.engine)
        after = untimed(built.priced, self._subject(built.source or self._source))
        return predicted(msgspec.structs.replace(self._base, layers=tuple(self._layers)), after)

    def side(self, variant: Variant, name: str, inputs: tuple[InputTensor, ...], seed: int) -> Side:
        return side_of(cast("EngineBuild", variant.engine), variant.gpu, name, inputs, seed)

    def rounding(self, variant: Variant, /) -> Rounding:
        return rounding_of(self.original.gpu.build, variant.gpu.build)

    def run_options(self, variant: Variant) -> RunOptions:
        return msgspec.structs.replace(self._run, gpu=variant.gpu)

    def flags(self, variant: Variant) -> tuple[str, ...]:
        return "--backend", self._backend, *typed_flags(variant.gpu)


def side_of(made: EngineBuild, gpu: GpuOptions, name: str, inputs: tuple[InputTensor, ...], seed: int) -> Side:
    """An engine as what takes turns."""
    engine = TensorrtRequest(
        phase="clean", folder="", scratch="", inputs=inputs, layers=len(made.priced.document.layers), seed=seed,
        iterations=1, warmup_ms=0.0, duration_s=0.0, profile_iterations=1,
        backend="tensorrt-rtx" if made.built.backend == "tensorrt-rtx" else "tensorrt",
        engine=str(made.built.plan.resolve()), plugins=gpu.build.static_plugins,
    )  # fmt: skip
    return Side(name=name, inputs=inputs, seed=seed, engine=engine, cuda_graph=gpu.cuda_graph is True)


def rounding_of(*builds: BuildOptions) -> Rounding:
    """What engines that were built so may differ by."""
    found = [name for name in ("fp16", "bf16") if any(getattr(build, name) for build in builds)]
    # A step of 8 bits is no finer than the last of the 8 that bf16 has.
    narrow = any(build.int8 or build.fp8 for build in builds)
    precision = "+".join(dict.fromkeys([*found, *(["bf16"] if narrow else [])]))
    return Rounding(any(build.tf32 for build in builds), precision)


def with_timing_cache(run: RunOptions, backend: str, runs: Path) -> RunOptions:
    """A run whose builds share a timing cache; TensorRT-RTX has none."""
    if backend != "tensorrt" or run.gpu.build.timing_cache:
        return run
    build = msgspec.structs.replace(run.gpu.build, timing_cache=str(runs / TIMING_CACHE))
    return msgspec.structs.replace(run, gpu=msgspec.structs.replace(run.gpu, build=build))


# --- the rungs -----------------------------------------------------------------------------------


class Facts(NamedTuple):
    """What decides which rungs there are."""

    base: Run  # The original, measured
    backend: str  # ``tensorrt`` or ``tensorrt-rtx``
    version: Version  # Of the library
    capability: Version  # Of the GPU: (8, 9)
    tf32: bool  # Whether fp32 may be multiplied as TF32 in the original
    quantised: bool  # Whether the model holds Q/DQ nodes
    streams: bool  # Whether the layers of the original lie on several streams

    @property
    def title(self) -> str:
        return " ".join([product_of(self.backend).title, ".".join(map(str, self.version))]).strip()

    @property
    def chooses_types(self) -> bool:
        """Whether the builder chooses types by flags, as it did up to TensorRT 10."""
        return self.backend == "tensorrt" and self.version < (11,)


_Why = Callable[[Facts], str]


def _no_bf16(facts: Facts) -> str:
    if not facts.chooses_types:
        return f"{facts.title} takes all types from the model, and trtprof converts none to bf16 (TensorRT 10 chooses)"
    if facts.version < (10,):
        return f"{facts.title} has no bf16 (10.0 to 10.16 have)"
    return "the GPU has no bf16 (compute capability 8.0 and later have)" if facts.capability < (8,) else ""


def _no_narrow(facts: Facts) -> str:
    if not facts.quantised:
        return "the model holds no QuantizeLinear and DequantizeLinear, and scales are not made up"
    return "" if facts.chooses_types else f"{facts.title} takes all types from the model: it is built so anyway"


def _no_fp8(facts: Facts) -> str:
    why = _no_narrow(facts)
    return why or ("" if facts.capability >= (8, 9) else "the GPU has no fp8 (compute capability 8.9 and later have)")


def _no_libraries(facts: Facts) -> str:
    return "" if facts.chooses_types else f"{facts.title} has no such tactics (TensorRT 8.6 to 10.16 have)"


def _no_routes(facts: Facts) -> str:
    if facts.backend != "tensorrt":
        return f"{facts.title} lists no build routes (TensorRT 11.1 and later do)"
    return "" if facts.version >= (11, 1) else f"{facts.title} has no build routes (11.1 and later have)"


class _Row(NamedTuple):
    name: str
    title: str
    settings: tuple[str, ...]
    answers: tuple[str, ...] = ()
    why_not: _Why = lambda _: ""
    idle: _Why = lambda _: ""


_RUNGS: tuple[_Row, ...] = (
    _Row("fp16", "products and tensors in fp16", ("--fp16=1",),
         ("PR801", "PR2", "KN701", "KN702", "KN705", "TC2", "DW805", "RL102"), idle=lambda facts: no_fp32(facts.base)),
    _Row("bf16", "products and tensors in bf16", ("--bf16=1",), ("PR801", "KN702", "KN705"), _no_bf16,
         lambda facts: no_fp32(facts.base)),
    _Row("int8", "quantised layers in int8", ("--int8=1",), (), _no_narrow),
    _Row("fp8", "quantised layers in fp8", ("--fp8=1",), (), _no_fp8),
    _Row("builder-level-5", "the builder tries as many kernels as it can", ("--builderOptimizationLevel=5",),
         ("KN701", "KN702", "KN704", "LY201", "OC707", "RL102", "TC2", "WV706")),
    _Row("no-aux-streams", "all layers on one stream", ("--maxAuxStreams=0",),
         idle=lambda facts: "" if facts.streams else "its layers lie on one stream"),
    _Row("aux-streams-4", "layers that do not wait for one another on up to five streams", ("--maxAuxStreams=4",),
         ("OC707", "WV706"), idle=lambda facts: one_chain(facts.base)),
    _Row("tactics-of-libraries", "kernels of cuBLAS and cuDNN, too", ("--tacticSources=+CUBLAS,+CUBLAS_LT,+CUDNN",),
         ("KN701", "KN702"), _no_libraries),
    _Row("route-more-fusions", "build route: more tactics are timed where kernels are fused",
         ("--setBuildRoute=-cask_fusion:num_tactics=20",), (), _no_routes),
    _Row("route-cuda-tile", "build route: fused kernels by CUDA Tile", ("--setBuildRoute=-kgen:codegen:cuda_tile=3",),
         (), _no_routes),
    _Row("route-no-copy-fusion", "build route: copies are left as they are", ("--setBuildRoute=-copy_ppg=off",), (),
         _no_routes),
    _Row("timing-cache", "kernels as they were timed before", (), (),
         lambda _: "it makes builds fast, not engines: all that are built here share one"),
)  # fmt: skip
"""What TensorRT 8.6 to 11.4 and TensorRT-RTX 1.5 to 1.7 have; `engine.dialect` knows which has what.

Another batch is no rung: it is other work for an inference, and its outputs are not those of the original;
`trtprof sweep` sets batches side by side. Of the build routes (TensorRT 11.1, Global Performance Tuner) these are
single knobs that NVIDIA's own examples turn; the tuner turns each of a list in the same way. A knob that a version
does not know makes a build that fails, which is a row.
"""


def tensorrt_rungs(facts: Facts) -> Iterator[Candidate]:
    """The rungs of options of an engine, those that cannot be had here too."""
    for row in _RUNGS:
        yield Candidate(
            row.name, row.title, row.settings, 0, row.answers, exact=False, idle=row.idle(facts),
            why_not=row.why_not(facts),
        )  # fmt: skip
    yield cuda_graph_rung(facts.base)
    yield tf32_rung(facts.base, facts.capability, on=facts.tf32)


# --- the same engine -----------------------------------------------------------------------------


def plan_digest(layers: list[PlanLayer]) -> str:
    """A digest of the layers of a plan, whatever they and their tensors are called."""

    def tensor(one: PlanTensor) -> tuple[object, ...]:
        return one.dims, one.dtype, one.format, one.vector_axis, one.vector, one.strides, one.location

    told = []
    for layer in layers:
        closed = layer.kind in REGIONS or layer.onnx_range
        sides = [tuple(map(tensor, side)) for side in (layer.inputs, layer.constants, layer.outputs)]
        held = [(one.dtype, one.count) if one is not None else None for one in (layer.weights, layer.bias)]
        own = layer.kind, layer.parameter_type, layer.tactic, layer.tactic_value, layer.stream, layer.origin
        told.append((own, sides, held, tokens(layer), sorted(layer.attributes.items()), closed and layer.onnx_nodes))
    return hashlib.sha256(repr(told).encode()).hexdigest()
