"""Why measured differs from attainable: the ledger, the rules, and their ranking.

A rule is one file under ``diagnose/rules``. Its module docstring has three parts, What, Why and
Try, which `trtprof rules CODE` prints. It looks at a `Case` and yields `Claim` records:

    @rule("FU301", "unfused pointwise chain")
    def check(case: Case) -> Iterator[Claim]: ...

One that judges layers one by one, or the run as a whole, says in one place what it finds or why nothing:

    @layer_rule("RL101", "memory-bound op far under bandwidth")
    def judge(case: Case, layer: LayerResult) -> Loss | str: ...

A rule of a plan alone looks at a `PlanView` and yields `PlanLint` records (`plan_rule`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from trtprof.base import records
from trtprof.base.registry import Registry
from trtprof.base.trace import Transfer
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose.ledger import GAPS_BETWEEN, GAPS_INSIDE, OUTSIDE, UNEXPLAINED, WAITING
from trtprof.diagnose.plans import PlanView
from trtprof.kernel_names.parse import KernelName, parse

AtLeastOne = Annotated[float, msgspec.Meta(ge=1.0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Thresholds(NamedTuple):
    """Every threshold of every rule, with where it comes from.

    A project may set its own (`trtprof.diagnose.config`), each within the type of its field, and never below 0.

    Attributes:
        efficiency: Attainable / measured under which a layer is far from its roof. A calibrated
            roof leaves healthy kernels between 0.7 and 1 (the calibration's own checks); half of
            that is not noise.
        of_datasheet: What a healthy kernel attains of a roof that is a datasheet's: 1 / 1.42, the median
            of measured over roofline time over 54 inferences on 7 GPUs (data published with Lee et al.,
            NeuSight, ASPLOS 2025). ``efficiency`` is multiplied by it there.
        min_share: Share of latency under which a single finding is not worth a person's time.
        launch_share: Share of latency in launch-bound layers from which the model is launch-bound.
        host_share: Share of latency outside kernels from which the host is named as a cause.
        coverage: Attributed share of kernel time under which no verdict is given.
        unpriced: Share of latency without a price from which no verdict is given: what is slow may well be in it.
        above_roof: Measured / ideal under which a kernel is too fast to be counted right; the
            ceilings repeat to within 3 %.
        above_roof_limit: Share of the time of all layers in such kernels from which there is no verdict, as
            much as makes a finding critical (``critical_share``).
        noise_cv: Standard deviation over mean of the latency from which small findings are doubtful, where the system
            does not report who else used the CPUs.
        p99: 99th percentile over median of the latency from which the median is doubtful.
        p99_limit: The same from which there is no verdict: the slowest hundredth then takes a tenth of what all the
            others take together, as for the other shares of time (``host_share``), and the median tells of no such.
        profiler_cost: Latency under the profiler over that without it, less one, from which times of layers are
            doubtful. What is taken off for the profiler is known to 30 % either way: the repeats of its calibration
            lay apart by 58 % of their median on a busy machine of two cores. Half the latency makes that 15 %.
        profiler_limit: The same from which there is no verdict: 30 % of it is more than half of the latency.
        unexplained: Share of latency that the ledger cannot explain, or that the medians of layers do not add up to,
            from which times of layers are doubtful, as for the other shares of time (``host_share``).
        unexplained_limit: The same from which there is no verdict: what explains less than half of the latency would
            hide what explains the rest (``explains``).
        clock_moved: Change of a GPU's clock, as a share of it, from which times belong to different clocks. A
            kernel that arithmetic bounds takes longer by as much, and that share of latency makes a finding a
            warning (``warning_share``). A step of the clock is less: 15 MHz (nvidia-smi -q -d SUPPORTED_CLOCKS).
        clock_held: Share of the time from which a reason that held the clock down counts, as for the other
            shares of time (``launch_share``, ``host_share``).
        warning_share: Share of latency from which a finding is a warning.
        critical_share: Share of latency from which a finding is critical.
        doubt: What confidence is multiplied by for an inferred match, and again for noise, for a
            datasheet, or a busy machine, in place of ceilings measured alone, and for a profile of one inference.
        cheaper_fix: Share of a plugin's net gain that a cheaper fix must be predicted to bring to be tried first:
            what is left then, at most 30 %, is within what healthy kernels of one class differ by (0.7 to 1).
        explains: Share of what a layer lost that a cause must explain by its price to be named for the layer: a layer
            is claimed once, and what explains less than half would hide what explains the rest.
        tail: Share of a layer's time that SMs without a block in the last round cost from which that tail is named.
            It is less than 1 / rounds, so of five rounds or more it is no cause of its own.
        occupancy: Share of the warps that the SMs can hold from which more of them hardly help: half is the rule of
            thumb of the CUDA C++ Best Practices Guide (Occupancy), whose words were not at hand to check.
        near_cache: Largest tensor, in sizes of the last-level cache, of which half leaves a quarter of the cache free
            for what is read and written beside it.
        healthy: Attainable / measured from which a kernel is healthy, whatever its name or its dimensions: what a
            calibrated roof leaves of healthy kernels at the least (the calibration's own checks, 0.7 to 1).
            ``of_datasheet`` multiplies it too.
        generations: Major versions of the compute capability that a kernel is behind its GPU from which it is an old
            one: one behind is normal (code of sm80 runs on sm89 and sm90 as a rule).
        attention_gain: How many times as fast as one of the generation before fused attention is at the least that is
            written for the GPU: FlashAttention 3 over 2 on an H100, 1.5 to 2 times (Shah et al., 2024).
        skinny: Smaller side of the result of a product up to which it is a thin one: the narrowest result of a
            tensor-core instruction, 16 x 8 (PTX ISA, mma shapes), is not filled by less.
        helper_share: Share of a layer's time in kernels that only help it from which they count, as for the other
            shares of time (``launch_share``).
        launched: Launch floor / measured under which a layer that is smaller than its launch is slow for another
            reason: ten times an empty kernel is not the launch.
        large: Roof of a layer, in launches, from which it keeps the GPU busy for long enough to be judged by it alone.
        alike: The farther over the nearer of two distances from a roof, up to which they may have one cause: the best
            layers of healthy engines differ by 1.2 to 1.4 between what memory and what arithmetic bounds (TensorRT's
            own ResNets on an A100).
        slow_kernel_ns: Time of an op of ONNX Runtime on a CPU from which another form of several ops may be faster: a
            node costs some microseconds of its own (PRelu and its four ops take 8 us each on 4,608 elements).
        wider_share: Share of latency computed in a wider type than the model stores, or in steps that wait for one
            another, from which that is told, as for the other shares of time (``launch_share``).
        others_cpus: CPUs that other processes kept busy from which threads that spin lose their slices: half of one.
        waited: Share of the time of a run's threads in which they had no CPU from which the same.
    """

    efficiency: records.Fraction = 0.5
    of_datasheet: records.Fraction = 0.7
    min_share: records.Fraction = 0.01
    launch_share: records.Fraction = 0.1
    host_share: records.Fraction = 0.1
    coverage: records.Fraction = 0.95
    unpriced: records.Fraction = 0.5
    above_roof: records.Fraction = 0.95
    above_roof_limit: records.Fraction = 0.25
    noise_cv: float = 0.1
    p99: AtLeastOne = 2.0
    p99_limit: AtLeastOne = 10.0
    profiler_cost: float = 0.5
    profiler_limit: float = 2.0
    unexplained: records.Fraction = 0.1
    unexplained_limit: records.Fraction = 0.5
    clock_moved: records.Fraction = 0.05
    clock_held: records.Fraction = 0.1
    warning_share: records.Fraction = 0.05
    critical_share: records.Fraction = 0.25
    doubt: records.Fraction = 0.8
    cheaper_fix: records.Fraction = 0.7
    explains: records.Fraction = 0.5
    tail: records.Fraction = 0.2
    occupancy: records.Fraction = 0.5
    near_cache: AtLeastOne = 1.5
    healthy: records.Fraction = 0.7
    generations: Count = 2
    attention_gain: AtLeastOne = 1.5
    skinny: Count = 8
    helper_share: records.Fraction = 0.1
    launched: records.Fraction = 0.1
    large: AtLeastOne = 5.0
    alike: AtLeastOne = 2.0
    slow_kernel_ns: Count = 20_000
    wider_share: records.Fraction = 0.1
    others_cpus: float = 0.5
    waited: records.Fraction = 0.1


THRESHOLDS = Thresholds()


class Case(NamedTuple):
    """What a rule may look at. Layers are in execution order."""

    layers: tuple[records.LayerResult, ...]
    engine: Mapping[str, records.Layer]
    latency: records.Latency
    profiled: records.Latency
    coverage: records.Coverage
    ceilings: records.Ceilings
    ledger: tuple[records.LedgerRow, ...]
    clock_resolution_ns: int
    profiled_gap_ns: int  # Time of a profiled inference outside its kernels; without the profiler there is less of it
    cpu_use: records.CpuUse | None = None  # What else used the CPUs meanwhile; None for a GPU and for files
    thresholds: Thresholds = THRESHOLDS
    claimed: frozenset[str] = frozenset()  # Layers whose time a more specific rule has claimed already
    tensorrt: bool = False  # Whether the layers are those of a TensorRT engine, and its remedies are wanted
    gpu: bool = False  # Whether they ran on a GPU
    graph_ns: int = 0  # Latency of the same inference as a CUDA graph; 0 where it was not measured
    partial: frozenset[str] = frozenset()
    """Layers of whose work only a part is known: what they take beyond it is not lost, but unknown."""
    edges: tuple[records.PlanEdge, ...] = ()  # Fusions that did not happen in a TensorRT engine, priced
    tactics: Mapping[str, str] = {}  # What kernel a TensorRT engine chose, by layer, as far as it tells
    end_to_end: bool = True  # Whether the latency was measured; otherwise it is the sum of the layers
    enqueue_ns: int = 0  # Time of the host to put one inference into the queue; 0 where it was not measured
    lacking: tuple[str, ...] = ()  # In a few words each, what makes the verdict less sure
    would_price: str = ""  # What would tell the work of layers that have no price, in words
    clocks: records.ClockSummary | None = None
    """Clocks of the GPU while the latency was measured; None where they were not sampled."""
    clocks_profiled: records.ClockSummary | None = None  # The same while the kernels were timed
    rated_mhz: float | None = None  # Boost clock of the datasheet of the GPU
    spec: records.GpuSpec | None = None  # That datasheet; None on a CPU
    plan: Mapping[
        str, records.MatchedLayer
    ] = {}  # Layers as the plan of an engine has them, by the name that they have here
    bindings: tuple[records.PlanBinding, ...] = ()  # Inputs and outputs of that engine
    options: Mapping[str, str] = {}  # Of the session or engine that ran the layers, as far as they are known
    backend: str = ""
    """What ran the layers, as `records.Backend` names it; ``pytorch`` or ``unknown`` of a capture without a plan."""
    transfers: tuple[Transfer, ...] = ()  # Copies and memsets of no layer in a capture
    tries: str = ""
    """The command that tries what would help the model, up to what it is to try; empty where there is none."""
    tried: records.Tried | None = None  # What it found, where it was run
    ops: Mapping[str, records.Op] = {}
    """ONNX ops by node, which tell the tensors inside of a fused layer; without them, their sizes are guessed."""
    runs: Mapping[str, int] = {}  # How often a layer runs in one inference, where that is not once
    estimates: Mapping[str, records.Estimate] = {}
    """What bounds all the runs of a layer in one inference, as far as its work is known."""
    implausible: tuple[tuple[str, str], ...] = ()
    """What of the files cannot be so: each in a few words, and in a sentence."""

    def kernel_names(self, layer: records.LayerResult) -> tuple[tuple[records.Match, KernelName], ...]:
        """The kernels of a layer with what their names say, most time first."""
        kernels = sorted(layer.kernels, key=lambda match: (-match.total_ns, match.kernel))
        return tuple((match, parse(match.kernel)) for match in kernels)

    @property
    def noisy(self) -> bool:
        """Whether the latency scatters, or on a CPU that tells who used it, other processes hide it."""
        if self.cpu_use is None:
            return self.latency.cv > self.thresholds.noise_cv
        return self.cpu_use.disturbed and self.latency.undisturbed_basis != "inferences"

    @property
    def architecture(self) -> int | None:
        """Compute capability of the GPU as kernels are named for it: 89 of 8.9; None where it is not known."""
        capability = self.spec.compute_capability if self.spec is not None else ""
        major, _, minor = capability.partition(".")
        return int(major) * 10 + int(minor) if major.isdigit() and minor.isdigit() else None

    @property
    def unclaimed(self) -> tuple[records.LayerResult, ...]:
        """The layers that a rule may still claim and speak of."""
        return tuple(layer for layer in self.layers if layer.name not in self.claimed)

    def in_latency(self, ns: int) -> int:
        """Profiled kernel time as part of the latency: all shrink in proportion where it has no room for them."""
        kernels, room = self.kernels_ns, self.room_ns
        return ns if kernels <= room else ns * room // kernels

    @property
    def attainable_ns(self) -> int:
        """What its layers take at best, one after the other; those without a price count nothing."""
        return sum(layer.attainable_ns or 0 for layer in self.layers if layer.role in ("compute", "control"))

    @property
    def kernels_ns(self) -> int:
        """Time of all kernels in the ledger, as profiled."""
        return sum(row.ns for row in self.ledger if row.cause not in OUTSIDE)

    @property
    def room_ns(self) -> int:
        """What the latency leaves for kernels, beside the rows of the ledger that are none."""
        return self.latency.headline_ns - sum(self.row(cause) for cause in OUTSIDE if cause != UNEXPLAINED)

    def share(self, ns: float) -> float:
        """A time as a share of the end-to-end latency."""
        return ns / self.latency.headline_ns if self.latency.headline_ns else 0.0

    def far_from_roof(self, layer: records.LayerResult) -> bool:
        """Whether a layer that does the model's work is under the efficiency threshold, beyond the clock's step."""
        if layer.role != "compute" or layer.attainable_ns is None or layer.lost_ns is None or not layer.measured_ns:
            return False
        if layer.name in self.partial:
            return False
        efficiency = layer.attainable_ns / layer.measured_ns
        return efficiency < self.least_efficiency and layer.lost_ns > self.clock_resolution_ns

    @property
    def least_efficiency(self) -> float:
        """Attainable / measured under which a layer is far from its roof."""
        return self.thresholds.efficiency * (self.thresholds.of_datasheet if self.from_datasheet else 1.0)

    @property
    def from_datasheet(self) -> bool:
        """Whether what counts as attainable is a datasheet's and not measured."""
        return self.ceilings.origin == "datasheet"

    @property
    def time_of(self) -> str:
        """What it is whose time was measured: kernels, or the layers of a TensorRT engine."""
        return "layer" if self.tensorrt else "kernel"

    @property
    def on_ort_cpu(self) -> bool:
        """Whether ONNX Runtime ran the layers on the CPU: causes are then told from what ran, not from the roofline."""
        return self.backend == "ort-cpu"

    @property
    def cache_name(self) -> str:
        """What the last-level cache is called."""
        return "the L2" if self.gpu else "the last-level cache"

    @property
    def peaks_from(self) -> str:
        """Where peaks are from, to be said behind one."""
        return "of the datasheet" if self.from_datasheet else "measured here"

    def tactic(self, layer: records.LayerResult) -> str:
        """The kernel that the engine chose, to be said at the end of evidence; empty where it is not known."""
        tactic = self.tactics.get(layer.name)
        return f"; its tactic is {tactic}" if tactic else ""

    @property
    def readers(self) -> dict[str, list[str]]:
        """Tensors of the plan with the layers that read them, by the names that they have here."""
        readers: dict[str, list[str]] = {}
        for name, matched in self.plan.items():
            for tensor in dict.fromkeys(tensor.name for tensor in matched.layer.inputs):
                readers.setdefault(tensor, []).append(name)
        return readers

    def bound_to(self, mode: Literal["input", "output"]) -> frozenset[str]:
        """Names of the inputs, or outputs, of the engine."""
        return frozenset(binding.name for binding in self.bindings if binding.mode == mode)

    def row(self, cause: str) -> int:
        """The ns of a ledger row, 0 where there is none."""
        return sum(row.ns for row in self.ledger if row.cause == cause)

    @property
    def gaps_ns(self) -> int:
        """Time of an inference in which no kernel ran, beside the host's call, as far as the profile shows it."""
        # More than the profile itself shows between kernels is drift of the machine, not a gap.
        return self._captured_gaps_ns or min(max(self.row(UNEXPLAINED), 0), self.profiled_gap_ns)

    @property
    def unexplained_ns(self) -> int:
        """What no row of the ledger and no gap that the profile shows accounts for; below 0 where they hold more."""
        return self.row(UNEXPLAINED) - (0 if self._captured_gaps_ns else self.gaps_ns)

    @property
    def _captured_gaps_ns(self) -> int:
        """Gaps that have rows of their own in the ledger, as a capture shows them."""
        return self.row(GAPS_INSIDE) + self.row(GAPS_BETWEEN) + self.row(WAITING)


class Judge(NamedTuple):
    """By what a case is judged, and who else wants to see it."""

    thresholds: Thresholds = THRESHOLDS
    seen: Callable[[Case], None] | None = None

    def takes(self, case: Case) -> Case:
        """The case as it is to be diagnosed: with these thresholds."""
        case = case._replace(thresholds=self.thresholds)
        if self.seen is not None:
            self.seen(case)
        return case

    @property
    def notes(self) -> tuple[str, ...]:
        """The thresholds that are not the defaults, in sentences."""
        return tuple(
            f"the threshold {name.replace('_', '-')} is {value:g}, by default {default:g}"
            for name, value, default in zip(Thresholds._fields, self.thresholds, THRESHOLDS, strict=True)
            if value != default
        )


JUDGE = Judge()  # The one that nobody asked for anything else


class Claim(NamedTuple):
    """A rule's claim to some lost time."""

    where: str  # The layer, or in words the place
    evidence: str  # Facts and estimates, with their numbers
    remedy: str  # What to try first
    # Time claimed by layer, in ns as profiled; `rank` lets each layer be claimed once and no layer for more than
    # it took.
    layers: Mapping[str, int] = {}
    other_ns: int = 0  # Time claimed outside layers (the ledger's host call and unexplained rows)
    confidence: float = 0.8  # How likely the cause is, before inferred matches and noise are taken into account
    kind: Literal["hypothesis", "trust"] = "hypothesis"  # ``trust`` is about the numbers themselves and claims no time
    brief: str = ""  # Of a doubt: what it is, in a few words with its number
    beyond: bool = False  # Of a doubt: whether it is beyond the limit at which there is no verdict
    always: bool = False  # Whether it is told however little time it claims
    rungs: str = ""  # What `trtprof try` is to try of its remedies; empty for all that answer the rule


def doubt(
    evidence: str,
    remedy: str,
    *,
    brief: str = "",
    beyond: bool = False,
    where: str = "the whole run",
    layers: Iterable[str] = (),
    confidence: float = 0.9,
) -> Claim:
    """A claim about the numbers themselves, to no time: ``layers`` are those that it is about. See `Claim`."""
    none = dict.fromkeys(layers, 0)
    return Claim(where, evidence, remedy, none, confidence=confidence, kind="trust", brief=brief, beyond=beyond)


Check = Callable[[Case], Iterable[Claim]]
Reason = Callable[[Case, records.LayerResult], str]
"""Why a rule has nothing to say of a layer, in a sentence with its numbers; empty where it cannot tell."""


class Loss(NamedTuple):
    """What a rule finds in one layer."""

    ns: int  # Time that it explains, as profiled
    evidence: str  # See `Claim`
    remedy: str  # Layers of one op type with the same one make one finding
    confidence: float = 0.8  # See `Claim`


JudgeLayer = Callable[[Case, records.LayerResult], Loss | str]
"""What a rule finds in a layer, or why nothing, as a `Reason` says it."""
JudgeRun = Callable[[Case], Claim | str]  # The same of the whole run, or of what lies outside its layers


PlanCheck = Callable[[PlanView], Iterable[records.PlanLint]]


class Rule(NamedTuple):
    """A registered rule, of runs or of plans alone; the lower ``order`` has a layer that two of them want."""

    code: str
    title: str
    check: Check
    order: int
    doc: str
    reason: Reason | None = None
    plan: PlanCheck | None = None  # What it finds in a plan; None of a rule of runs
    thresholds: tuple[str, ...] = ()  # Fields of `Thresholds` that it reads, all of them

    def section(self, name: str) -> str:
        """One part of the docstring: ``What``, ``Why`` or ``Try``."""
        lines: Iterator[str] = iter(self.doc.splitlines())
        for line in lines:
            if line.strip() == f"{name}:":
                break
        part = []
        for line in lines:
            if line.strip() in ("What:", "Why:", "Try:"):
                break
            part.append(line.strip())
        return " ".join(part).strip()


RULES: Registry[str, Rule] = Registry("rule", "trtprof.diagnose.rules", "trtprof.rules")


def rule(
    code: str, title: str, *, order: int = 50, reason: Reason | None = None, thresholds: tuple[str, ...] = ()
) -> Callable[[Check], Check]:
    """Decorator that registers a check under its code; the module's docstring documents it."""
    if unknown := set(thresholds) - set(Thresholds._fields):
        raise ValueError(f"rule {code} declares {', '.join(sorted(unknown))}: no thresholds")

    def add(check: Check) -> Check:
        doc = sys.modules[check.__module__].__doc__ or ""
        RULES.register(code)(Rule(code, title, check, order, doc, reason, thresholds=thresholds))
        return check

    return add


def layer_rule(
    code: str, title: str, *, order: int = 50, thresholds: tuple[str, ...] = ()
) -> Callable[[JudgeLayer], JudgeLayer]:
    """Decorator that registers a judge of single layers; those of one op type with the same remedy make one claim."""

    def add(judge: JudgeLayer) -> JudgeLayer:
        @functools.wraps(judge)
        def check(case: Case) -> Iterator[Claim]:
            losses = {}
            for layer in case.unclaimed:
                loss = judge(case, layer)
                if isinstance(loss, Loss):
                    losses[layer.name] = loss
            layers = [layer for layer in case.unclaimed if layer.name in losses]
            for remedy, group in by_cause(layers, lambda layer: losses[layer.name].remedy):
                worst = losses[group[0].name]
                claimed = {layer.name: losses[layer.name].ns for layer in group}
                yield Claim(place(group), worst.evidence, remedy, claimed, confidence=worst.confidence)

        def reason(case: Case, layer: records.LayerResult) -> str:
            loss = judge(case, layer)
            return loss if isinstance(loss, str) else ""

        rule(code, title, order=order, reason=reason, thresholds=thresholds)(check)
        return judge

    return add


def run_rule(
    code: str, title: str, *, order: int = 50, thresholds: tuple[str, ...] = ()
) -> Callable[[JudgeRun], JudgeRun]:
    """Decorator that registers a judge of the whole run, as `rule` does a check."""

    def add(judge: JudgeRun) -> JudgeRun:
        @functools.wraps(judge)
        def check(case: Case) -> Iterator[Claim]:
            claim = judge(case)
            if not isinstance(claim, str):
                yield claim

        def reason(case: Case, _layer: records.LayerResult) -> str:
            claim = judge(case)
            return claim if isinstance(claim, str) else ""

        rule(code, title, order=order, reason=reason, thresholds=thresholds)(check)
        return judge

    return add


def plan_rule(code: str, title: str, *, order: int = 50) -> Callable[[PlanCheck], PlanCheck]:
    """Decorator that registers a rule of plans alone, as `rule` does one of runs."""

    def add(check: PlanCheck) -> PlanCheck:
        doc = sys.modules[check.__module__].__doc__ or ""
        why = "the rule judges plans alone, whatever was measured: what it finds is told with the plan"
        RULES.register(code)(Rule(code, title, lambda _: (), order, doc, lambda *_: why, check))
        return check

    return add


def judge_plan(view: PlanView) -> tuple[records.PlanLint, ...]:
    """All that the rules of plans find, rule by rule, each in the order of the plan."""
    rules = sorted((each for each in RULES.values() if each.plan is not None), key=lambda r: (r.order, r.code))
    return tuple(lint for each in rules if each.plan is not None for lint in each.plan(view))


def by_cause(
    layers: Iterable[records.LayerResult], remedy: Callable[[records.LayerResult], str]
) -> Iterator[tuple[str, list[records.LayerResult]]]:
    """Layers of one op type that the same remedy would help, largest loss first in each group."""
    groups: dict[tuple[str, str], list[records.LayerResult]] = {}
    for layer in layers:
        groups.setdefault((layer.op_type, remedy(layer)), []).append(layer)
    for (_, text), found in groups.items():
        # Without a price all may be lost.
        yield (
            text,
            sorted(found, key=lambda one: (-(one.measured_ns if one.lost_ns is None else one.lost_ns), one.name)),
        )


def place(layers: Sequence[records.LayerResult]) -> str:
    """Where a group of layers is: the last ONNX node of the worst one, and how many more of its kind."""
    worst = layers[0]
    more = f" and {len(layers) - 1} more {worst.op_type}".rstrip() if len(layers) > 1 else ""
    return (worst.nodes[-1] if worst.nodes else worst.name) + more


def needless(case: Case, layers: Sequence[records.LayerResult], *, noun: str, why: str, remedy: str) -> Iterator[Claim]:
    """One claim to all the time of layers that the model does not need; none where that is within the clock's step."""
    total = sum(layer.measured_ns for layer in layers)
    if total <= case.clock_resolution_ns:
        return
    worst = max(layers, key=lambda layer: layer.measured_ns)
    share = format_percent(case.share(case.in_latency(total)))
    yield Claim(
        where=f"{len(layers)} {noun}{'s' if len(layers) > 1 else ''}, largest {worst.name}",
        evidence=f"{format_ns(total)} a run, {share} of latency, {why}",
        remedy=remedy,
        layers={layer.name: layer.measured_ns for layer in layers},
        confidence=0.95,
    )
