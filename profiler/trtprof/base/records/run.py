"""The whole result of a run."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records import common as c
from trtprof.base.records.capture import ClockSummary, Coverage, CpuUse, Device, Latency, Match, ModeTimes, TensorCheck
from trtprof.base.records.common import Record
from trtprof.base.records.engine import Backend, EngineFacts, PlanSummary
from trtprof.base.records.estimate import Ceilings, Corrected
from trtprof.base.records.findings import Confirmation, Finding, LayerResult, LedgerRow, PluginCandidate, Unsupported
from trtprof.base.records.model import ModelInfo


class NodeResult(Record, frozen=True, kw_only=True):
    """An ONNX node with its work and its fate. Time belongs to layers and is never split."""

    name: c.NodeName
    op_type: c.OpName
    graph: c.GraphName
    fate: c.Safe
    layers: tuple[c.LayerName, ...]
    flops: c.NonNegative | None
    bytes: c.NonNegative | None
    reason: c.Prose = ""
    attributes: dict[c.Safe, c.Prose] = {}
    """As the model has them, each in a few words; tensors and subgraphs are left out."""


class Timeline(Record, frozen=True, kw_only=True):
    """One inference as captured, kernel by kernel: the one whose time is the median of those that count.

    ``lane``, ``layer``, ``name``, ``start_ns`` and ``dur_ns`` are columns of one table, all of the same length, one row
    an event, by ``start_ns``: columns, since there may be ten thousands of them. ``lane``, ``layer`` and ``name`` are
    places in ``lanes``, ``layers`` and ``names``; ``layer`` is -1 where the event was led to no layer.
    """

    iteration: c.NonNegative
    """Which of the profiled inferences it is."""
    duration_ns: c.NonNegative
    """From the first event to the end of the last."""
    lanes: tuple[TimelineLane, ...]
    layers: tuple[c.LayerName, ...]
    """Names of `Run.layers`."""
    names: tuple[c.KernelName, ...]
    """Of kernels, copies, calls of the host."""
    lane: tuple[int, ...]
    layer: tuple[int, ...]
    name: tuple[int, ...]
    start_ns: tuple[int, ...]
    """From the first event of the inference on."""
    dur_ns: tuple[int, ...]
    note: c.Prose = ""
    """In words, how it was chosen, and what was left out."""


class TimelineLane(Record, frozen=True, kw_only=True):
    """Where events of a timeline happen one after the other: ``stream 7``, ``thread 1``.

    ``depth`` counts lanes of the same name: 1 is for what runs inside events of 0, as the kernels of a loop do.
    """

    name: c.Prose
    kind: Literal["kernels", "copies", "host"]
    depth: c.NonNegative = 0


class RunGraph(Record, frozen=True, kw_only=True):
    """Who reads what from whom, of the layers of a run and of the nodes of its model.

    ``layer_from``, ``layer_to``, ``tensor`` and ``nbytes`` are columns of one table, one row an edge: places in
    ``layers``, the tensor that the one writes and the other reads, and its bytes (-1 where they are not known).
    ``dtype`` is that of the tensor in the engine, ``""`` where it is not told; the column is empty in documents of
    earlier versions. ``node_from`` and ``node_to`` are places in `Run.nodes`.
    """

    layers: tuple[c.LayerName, ...]
    """Names of layers in execution order: those of `Run.layers`, and others that took no time."""
    layer_from: tuple[int, ...] = ()
    layer_to: tuple[int, ...] = ()
    tensor: tuple[c.TensorName, ...] = ()
    nbytes: tuple[int, ...] = ()
    node_from: tuple[int, ...] = ()
    node_to: tuple[int, ...] = ()
    dtype: tuple[c.Safe, ...] = ()


class RunMemory(Record, frozen=True, kw_only=True):
    """Which tensors are alive while each layer runs: an estimate from the plan of what activations need at least.

    ``tensor``, ``nbytes``, ``first`` and ``last`` are columns of one table: a tensor is there from the layer at place
    ``first`` of `RunGraph.layers` that writes it (0 for an input of the model) to that at ``last`` which reads it for
    the last time (the last layer for an output of the model).
    """

    live: tuple[c.NonNegative, ...]
    """Bytes while each layer of `RunGraph.layers` runs: what it reads and writes, and what is kept for later."""
    peak_bytes: c.NonNegative
    peak_at: c.NonNegative
    """Place in ``live`` where that is first reached."""
    tensor: tuple[c.TensorName, ...] = ()
    nbytes: tuple[c.NonNegative, ...] = ()
    first: tuple[c.NonNegative, ...] = ()
    last: tuple[c.NonNegative, ...] = ()
    unknown: c.NonNegative = 0
    """Tensors whose size is not known: they are left out, so that all this is a lower bound."""


class Run(Record, frozen=True, kw_only=True):
    """The whole result of a run: the JSON document, and all that a reporter may read."""

    schema_version: int
    model: ModelInfo
    backend: Backend
    device: Device
    versions: dict[c.Prose, c.Safe]
    ceilings: Ceilings
    latency: Latency
    profiled: Latency
    coverage: Coverage
    verdict: c.Prose
    ledger: tuple[LedgerRow, ...]
    layers: tuple[LayerResult, ...]
    """Ranked by time lost, largest first."""
    nodes: tuple[NodeResult, ...]
    findings: tuple[Finding, ...]
    unsupported: tuple[Unsupported, ...]
    captured_ns: c.NonNegative
    """Kernel time of all profiled iterations, matched plus unmatched, to the ns; of a profile that has only the
    times of layers (`Capture` is not there), that of one inference."""
    speed: float = 1.0
    """Speed of the device during the run over that when its ceilings were measured, in one thread."""
    cpu_use: CpuUse | None = None
    """What else used the CPUs during a run on a CPU; None for a GPU and for files."""
    bound_reason: c.Prose = ""
    """Why the result has no roofline bound that holds; empty where it has one."""
    kernels_unattributed: tuple[Match, ...] = ()
    engine: EngineFacts | None = None
    plan: PlanSummary | None = None
    """Of a TensorRT engine, with the measured times."""
    candidates: tuple[PluginCandidate, ...] = ()
    """Layers for which a hand-written kernel was weighed, most net gain first."""
    no_candidates: c.Prose = ""
    """Why none was weighed, in words; empty where one was."""
    modes: tuple[ModeTimes, ...] = ()
    """Of a run on a GPU: its times without and with a CUDA graph, apart from copies."""
    checks: tuple[TensorCheck, ...] = ()
    """Outputs held against ONNX Runtime's (``--verify``), the worst first."""
    assumptions: tuple[c.Prose, ...] = ()
    lacking: tuple[c.Prose, ...] = ()
    """What makes the result less sure, each in a few words."""
    corrected: Corrected | None = None
    """What its expectations are corrected by; None where they are those of others alone."""
    created: c.Safe = ""
    command: c.Command = ""
    """What runs the same again; empty where nobody typed it."""
    clocks: ClockSummary | None = None
    """Of a GPU, while the latency was measured; None where nobody looked, as for files made elsewhere."""
    clocks_profiled: ClockSummary | None = None
    """The same while the profiler ran, so while the kernels were timed."""
    confirmations: tuple[Confirmation, ...] = ()
    """Layers whose kernels were measured with hardware counters, most time lost first."""
    timeline: Timeline | None = None
    """One inference as captured; None where nobody saw when kernels ran (`nsys stats`, a profile of layers)."""
    graph: RunGraph | None = None
    memory: RunMemory | None = None
    """Who reads what from whom; None where neither a plan nor a model tells."""
    own_names: dict[c.OwnName, Literal["tensor", "dim", "op", "node"]] = {}
    """Names that its sentences hold, or its op types, and no other field is for, with what they name: of tensors,
    dimensions, custom ops. Who shows the run without names takes these out, too."""
    tags: tuple[c.Tag, ...] = ()
    """What its owner calls it: words to find it by, kept beside the run and no part of its result."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is doubtful about the numbers, each in a few words, the gravest first; none where all is well."""
        return tuple(finding.brief or finding.title for finding in self.findings if finding.kind == "trust")

    @property
    def no_verdict(self) -> bool:
        """Whether doubts, or what is not known, forbid a verdict."""
        return self.verdict.startswith("no verdict")
