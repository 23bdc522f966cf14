"""Whether a hand-written kernel pays: what it would win back, less what it costs to cut a layer out of its fusion.

A plugin replaces one op; what the engine computed with it becomes layers of their own, with tensors between them. It
takes and gives linear tensors, so that reformats may be needed on both sides, and nothing writes through it into a
concatenation. All is priced by the ceilings of the layers, and cheaper fixes come first. The price is that of a plugin
for the main op alone: one that computes the rest too, or takes the formats as they are, pays less, and the verdict says
so where that decides it. Of a kernel that is known better (`Thought`) it is that of this one.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import msgspec

from trtprof.base.op_kinds import MULTIPLYING, VIEWS
from trtprof.base.plan_words import NARROW, is_reformat, layout, main_tensors, tokens
from trtprof.base.records import (
    BarrierPart,
    Ceilings,
    LadderStep,
    LayerResult,
    MatchedLayer,
    Op,
    PlanTensor,
    PluginCandidate,
    Rung,
    Tensor,
)
from trtprof.base.units import dtype_bytes, format_bytes, format_ns, format_percent
from trtprof.diagnose import Case
from trtprof.diagnose.libraries import as_fast
from trtprof.diagnose.products import aligned, has_weights, main_kernel, product_dtype, product_of
from trtprof.diagnose.reached import Reached, class_of, healthy_layers, op_class, reached
from trtprof.diagnose.remedies import unquantised
from trtprof.diagnose.tried import makes, nodes_of, short, times, tried_in

_FLOATS = frozenset({"fp32", "tf32", "fp16", "bf16"})
_HALVES = ("fp16", "bf16")

_NO_WORK = re.compile(r"(?i)[._/](?:weight|bias)$|quantize|unnamed layer")
"""What a plan names beside nodes: weights, what quantises them, and layers that TensorRT put in itself."""

_SMALL = 10
"""A layer whose roof is under so many launches keeps the device busy for too short a time to be judged alone."""

Verdict = Literal["write it", "try first", "do not", "not decided"]
Weighing = Literal["write it", "try first", "do not"]  # A verdict on a layer that can be weighed
Kind = Literal["fusion", "format", "concat", "launch"]


class Fused(NamedTuple):
    """What a plugin for the main op of a layer leaves to other layers."""

    main: str  # What it computes, in a word
    nodes: tuple[str, ...] = ()  # That it computes, as far as they are known
    # Tensors that newly cross memory: name, bytes of one pass, how often (written, read).
    crossing: tuple[tuple[str, int, int], ...] = ()
    before: tuple[str, ...] = ()  # Op types that would run in a layer of their own before it
    behind: tuple[str, ...] = ()  # The same behind it
    # Products in the layer, of which a plugin computes one; 1 where there is none, 0 where nobody knows.
    products: int = 1
    guessed: bool = False  # Whether the sizes are guesses, for lack of the model


class Thought(NamedTuple):
    """A kernel that is thought of, as far as more is known of it than its class."""

    nodes: frozenset[str] = frozenset()  # Those of the layer that it computes; none: its main op, or all of a chain
    ns: int | None = None  # What it is predicted to take in one inference; None: what kernels of its class reach
    basis: str = ""  # Where that is from, in words


class Weighed(NamedTuple):
    """What came of weighing a kernel for a layer."""

    verdict: Verdict  # Whether to write it
    why: str  # In words
    candidate: PluginCandidate | None = None  # The numbers; None where nothing tells them
    # Whether a report lists the layer: it lost enough, and is slower than kernels of its class are.
    listed: bool = False


class _Price(NamedTuple):
    """A part of the barrier, and its time where none of its bytes is found in the cache."""

    part: BarrierPart
    most_ns: int
    kind: Kind


class Cost(NamedTuple):
    """What a kernel takes in one inference, and what it costs to cut a layer out of its fusion."""

    fused: Fused  # What it leaves to other layers
    reachable_ns: int  # What it should take
    best_ns: int  # At best
    worst_ns: int  # At worst
    basis: str  # Where that is from, in words
    down_to: str  # What that is of kernels, in a few words to be said behind a gain
    prices: tuple[_Price, ...]  # Of the barrier

    @property
    def parts(self) -> tuple[BarrierPart, ...]:
        return tuple(price.part for price in self.prices)

    @property
    def barrier_ns(self) -> int:
        """Of the whole barrier."""
        return sum(price.part.ns for price in self.prices)

    @property
    def most_ns(self) -> int:
        """The same where nothing is found in the cache."""
        return sum(price.most_ns for price in self.prices)


class _Net(NamedTuple):
    """A gain with its interval, in ns."""

    low: int
    point: int
    high: int


class _View(NamedTuple):
    """A case as the weighing of a plugin looks at it."""

    case: Case
    makers: Mapping[str, Sequence[MatchedLayer]]
    """The layers that write a tensor, as ``readers`` are those that read it."""
    readers: Mapping[str, Sequence[MatchedLayer]]
    concatenated: Mapping[str, str]
    """Tensors that layers write their part of a concatenation into, and what it is called."""
    kernels_ns: int  # Time of all layers in one inference

    @property
    def host_bound(self) -> bool:
        """Whether the host enqueues for longer than the GPU works."""
        return self.case.enqueue_ns > self.kernels_ns


def candidates(case: Case) -> tuple[PluginCandidate, ...]:
    """The layers for which a hand-written kernel is worth a thought, most net gain first."""
    slow = [] if _undecided(case) else [layer for layer in case.layers if _lost_enough(case, layer)]
    if not slow:
        return ()
    view, healthy = _view(case), healthy_layers(case)
    weighed = [_weighed(view, layer, reached(case, layer, healthy), Thought()) for layer in slow]
    found = [one.candidate for one in weighed if one.listed and one.candidate is not None]
    return tuple(sorted(found, key=lambda one: (-one.net_ns, -one.recoverable_ns, one.layer)))


def weigh(case: Case, layer: LayerResult, kernel: Thought = Thought(), doubts: Sequence[str] = ()) -> Weighed:  # noqa: B008
    """A hand-written kernel for any layer of a run, listed among the `candidates` or not."""
    undecided = _undecided(case, doubts) or _not_told(case, layer)
    if undecided:
        return Weighed("not decided", undecided)
    nothing = _nothing_to_write(layer)
    if nothing:
        return Weighed("do not", nothing)
    return _weighed(_view(case), layer, reached(case, layer), kernel)


def _weighed(view: _View, layer: LayerResult, reach: Reached, kernel: Thought) -> Weighed:
    case = view.case
    cost = _cost(view, layer, reach, fused_in(case, layer, kernel.nodes), kernel)
    found = _candidate(view, layer, reach, cost)
    lost, far = _lost_enough(case, layer), _far_from(case, layer, reach)
    if lost and far:
        return Weighed(found.verdict, found.why, found, listed=True)
    share = format_percent(case.thresholds.min_share)
    if not lost:
        why = f"it lost {format_ns(max(layer.lost_ns or 0, 0))} to its roofline, under {share} of latency"
    else:
        why = (
            f"it is no slower than kernels of its class are, by {share} of latency: "
            f"{format_ns(found.recoverable_ns)} could be won back; {reach.basis}"
        )
    found = msgspec.structs.replace(found, verdict="do not", why=why, command="")
    return Weighed("do not", why, found)


def no_candidates(case: Case, doubts: Sequence[str] = ()) -> str:
    """Why no layer of a run was weighed, in words; ``doubts`` are those that leave no verdict."""
    undecided = _undecided(case, doubts)
    if undecided:
        return f"not decided: {undecided}"
    share = format_percent(case.thresholds.min_share)
    if not any(_lost_enough(case, layer) for layer in case.layers):
        return f"no: no layer whose work is known lost {share} of latency"
    good = sum(1 for layer in case.layers if _lost_enough(case, layer) and as_fast(layer))
    as_good = f"; {good} of those that lost as much {'is' if good == 1 else 'are'} as fast as good library kernels"
    return (
        f"no: no layer whose work is known is slower than kernels of its class are on this device by {share} of "
        f"latency: there is nothing to win back{as_good if good else ''}"
    )


def _undecided(case: Case, doubts: Sequence[str] = ()) -> str:
    """Why no layer of a run can be weighed, in words; empty where each can."""
    if not case.gpu:
        return "on a CPU nothing tells what healthy kernels of a class reach, and plugins are for TensorRT"
    attributed = case.coverage.exact + case.coverage.inferred
    if attributed < case.thresholds.coverage:
        return (
            f"only {format_percent(attributed)} of {case.time_of} time is attributed, and "
            f"{format_percent(case.thresholds.coverage)} are needed"
        )
    return f"there is no verdict: {'; '.join(doubts)}" if doubts else ""


def _not_told(case: Case, layer: LayerResult) -> str:
    """Why nothing tells what a kernel for a layer would win, in words."""
    if layer.name in case.partial:
        return "only a part of its work is known, so that nothing tells what it lost"
    if layer.role == "compute" and (layer.bound == "unknown" or not layer.attainable_ns or layer.lost_ns is None):
        return f"its work is not known{f': {layer.reason}' if layer.reason else ''}"
    return ""


def _nothing_to_write(layer: LayerResult) -> str:
    """Why there is nothing to write a kernel for, in words."""
    if layer.constant:
        return "all that it reads is constant: it can be computed before the run, and needs no kernel"
    if layer.role != "compute":
        return f"it is no work of the model: the engine put it in ({layer.role}), and a plugin replaces nodes"
    return ""


def _view(case: Case) -> _View:
    makers: dict[str, list[MatchedLayer]] = {}
    for matched in case.plan.values():
        for tensor in _once(matched.layer.outputs):
            makers.setdefault(tensor.name, []).append(matched)
    readers = {tensor: [case.plan[name] for name in names] for tensor, names in case.readers.items()}
    kernels_ns = sum(layer.measured_ns for layer in case.layers)
    return _View(case, makers, readers, _concatenated(case, makers), kernels_ns)


def _concatenated(case: Case, makers: Mapping[str, Sequence[MatchedLayer]]) -> dict[str, str]:
    """Of concatenations that no layer computes, since what they join is written in its place at once."""
    found = {
        name: f"the tensor {name}, which {len(layers)} layers write a part of each"
        for name, layers in makers.items()
        if len(layers) > 1
    }
    run = {node for matched in case.plan.values() for node in matched.nodes}
    for node, op in case.ops.items():
        if op.op_type == "Concat" and node not in run:
            for tensor in op.inputs:
                if tensor is not None and tensor.name in makers:
                    found.setdefault(tensor.name, f"the concatenation {node}")
    return found


def _lost_enough(case: Case, layer: LayerResult) -> bool:
    """Whether a layer does work of the model that is known, and lost enough of its time to be worth a look."""
    if layer.role != "compute" or layer.name in case.partial or layer.constant or layer.bound == "unknown":
        return False
    if not layer.attainable_ns or layer.lost_ns is None or layer.lost_ns <= case.clock_resolution_ns:
        return False
    return case.share(case.in_latency(layer.lost_ns)) >= case.thresholds.min_share


def _far_from(case: Case, layer: LayerResult, reach: Reached) -> bool:
    """Whether it is slower than any kernel of its class would be, and what could be won back worth a person's time."""
    attainable = layer.attainable_ns or 0
    recoverable = layer.measured_ns - math.ceil(attainable / reach.efficiency)
    if layer.measured_ns <= math.ceil(attainable / reach.low) + case.clock_resolution_ns:
        return False
    return case.share(case.in_latency(max(recoverable, 0))) >= case.thresholds.min_share


def cost_of(case: Case, layer: LayerResult, kernel: Thought = Thought()) -> Cost:  # noqa: B008
    """What a kernel for a layer takes and costs, whatever the layer takes now."""
    return _cost(_view(case), layer, reached(case, layer), fused_in(case, layer, kernel.nodes), kernel)


def _cost(view: _View, layer: LayerResult, reach: Reached, fused: Fused, kernel: Thought) -> Cost:
    attainable = layer.attainable_ns or 0
    reachable, down_to = math.ceil(attainable / reach.efficiency), reach.down_to
    best, worst = math.ceil(attainable / reach.high), math.ceil(attainable / reach.low)
    if kernel.ns is not None:
        # What it is predicted to do was not measured: it is not promised to be faster than its class is at best.
        reachable, down_to = max(kernel.ns, best), ", down to what is predicted of the kernel"
        worst = max(worst, reachable)
    prices = tuple(_barrier(view, layer, fused))
    return Cost(fused, reachable, min(best, reachable), worst, kernel.basis or reach.basis, down_to, prices)


def _candidate(view: _View, layer: LayerResult, reach: Reached, cost: Cost) -> PluginCandidate:
    case = view.case
    recoverable = max(layer.measured_ns - cost.reachable_ns, 0)
    noise = math.ceil(layer.measured_ns * min(max(case.latency.cv, 0.0), 1.0))
    net = _Net(
        low=layer.measured_ns - noise - cost.worst_ns - cost.most_ns,
        point=recoverable - cost.barrier_ns,
        high=layer.measured_ns + noise - cost.best_ns - cost.barrier_ns,
    )
    ladder = _measured(case, layer, tuple(_ladder(view, layer, reach)))
    verdict, why = _judge(view, cost, recoverable, net, ladder)
    kernels = case.kernel_names(layer)
    return PluginCandidate(
        layer=layer.name,
        nodes=layer.nodes,
        kernel=kernels[0][0].kernel if kernels else case.tactics.get(layer.name, ""),
        measured_ns=layer.measured_ns,
        reachable_ns=cost.reachable_ns,
        basis=cost.basis,
        recoverable_ns=recoverable,
        barrier=cost.parts,
        net_ns=net.point,
        net_low_ns=net.low,
        net_high_ns=max(net.high, net.point),
        verdict=verdict,
        why=why,
        ladder=ladder,
        command="" if verdict == "do not" else _writes(case, layer, cost.fused),
    )


def _writes(case: Case, layer: LayerResult, fused: Fused) -> str:
    """The command that writes the kernel: it names a node that no other layer has, which is shorter than the layer."""
    others = {node for other in case.layers if other.name != layer.name for node in other.nodes}
    called = next((node for node in (*fused.nodes, *layer.nodes) if node not in others), layer.name)
    return f"trtprof plugin RUN {shlex.quote(called)}"


def noise_floor_ns(case: Case) -> int:
    """The most of two standard errors of a difference of means, the clock's step, and min_share; ns."""
    deviation = case.latency.headline_ns * max(case.latency.cv, 0.0)
    error = 2 * deviation * math.sqrt(2 / max(case.latency.n, 1))
    share = case.thresholds.min_share * case.latency.headline_ns
    return math.ceil(max(error, share, case.clock_resolution_ns))


def _judge(view: _View, cost: Cost, recoverable: int, net: _Net, ladder: Sequence[LadderStep]) -> tuple[Weighing, str]:
    """The verdict and why; ``recoverable`` is in ns."""
    case, fused, prices = view.case, cost.fused, cost.prices
    priced = (
        f"{format_ns(recoverable)} could be won back{cost.down_to}, and cutting the layer out costs "
        f"{format_ns(cost.barrier_ns)}"
    )
    floor = noise_floor_ns(case)
    if net.high <= 0 or case.in_latency(max(net.point, 0)) < floor:
        left = f"{format_ns(net.point)} is left, under the {format_ns(floor)} that are sure to show and worth it"
        small = "nothing is left" if net.point <= 0 else left
        return "do not", f"{priced}: {small}{_unless(prices, fused, recoverable, floor)}"
    if fused.products != 1:
        several = f"{fused.products} products are" if fused.products else "a range of nodes is"
        why = f"{several} one layer here, and which of them is slow is not known"
        return "try first", f"{why}: mark what is between them as an output, and measure again"
    if view.host_bound:
        why = f"the host takes {format_ns(case.enqueue_ns)} to enqueue what takes the GPU {format_ns(view.kernels_ns)}"
        return "try first", f"{why}: a faster kernel shortens nothing until a CUDA graph takes the host out"
    for step in ladder:
        if step.gain_ns is not None and step.gain_ns >= case.thresholds.cheaper_fix * net.point:
            told = f"{step.basis}, which is" if step.tried else "predicted to bring"
            why = f"cheaper: {step.what}, {told} {format_ns(step.gain_ns)}"
            return "try first", f"{why}, where a plugin would net {format_ns(net.point)}"
    if net.low <= 0:
        doubt = f"{format_ns(net.point)} is likely, but at worst it costs {format_ns(-net.low)}: {priced}"
        return "try first", doubt + _unless(prices, fused, recoverable, floor)
    if case.backend == "tensorrt-rtx":
        return "try first", f"{format_ns(net.point)} net, but TensorRT-RTX takes no plugins: build it with TensorRT"
    return "write it", f"{priced}: {format_ns(net.point)} net, at least {format_ns(net.low)}; {_cheaper(ladder)}"


def _cheaper(ladder: Sequence[LadderStep]) -> str:
    """What cheaper fixes bring at most, by measurement where they were tried, and which of those brought nothing."""
    best = max((step for step in ladder if step.gain_ns), key=lambda step: step.gain_ns or 0, default=None)
    if best is None:
        said = "no cheaper fix has a predicted gain"
    else:
        how = "was measured" if best.tried else "is predicted"
        said = f"no cheaper fix {how} to bring more than {format_ns(best.gain_ns or 0)}"
    fruitless = [step.what for step in ladder if step.tried and not step.gain_ns]
    return said + (f"; tried without gain: {', '.join(fruitless)}" if fruitless else "")


def _unless(prices: Sequence[_Price], fused: Fused, recoverable: int, floor: int) -> str:
    """What a plugin would have to do to escape the barrier, where that would change the verdict."""
    by_kind = dict.fromkeys(get_args(Kind), 0)
    for price in prices:
        by_kind[price.kind] += price.part.ns
    rest = recoverable - by_kind["launch"] - by_kind["concat"]
    escapes = []
    if by_kind["fusion"] and fused.before + fused.behind:
        escapes.append(f"computes {' and '.join(dict.fromkeys(fused.before + fused.behind))} too")
    if by_kind["format"]:
        escapes.append("takes and gives the formats as they are")
    if not escapes or rest < floor:
        return ""
    return f"; one that {' and '.join(escapes)} would keep {format_ns(rest)}"


def _barrier(view: _View, layer: LayerResult, fused: Fused) -> Iterator[_Price]:
    ceilings = view.case.ceilings
    times = view.case.runs.get(layer.name, 1)
    launch = math.ceil(ceilings.launch_ns) * times

    def moved(what: str, size: int, passes: int, kind: Kind, *, launched: bool = False) -> _Price:
        count = size * passes * times
        extra = launch if launched else 0
        return _Price(
            BarrierPart(what=what, ns=_move_ns(size, passes, ceilings) * times + extra, bytes=count),
            _slow_ns(size, passes, ceilings) * times + extra,
            kind,
        )

    guess = ", taken to be as large as what the layer writes" if fused.guessed else ""
    for name, size, passes in fused.crossing:
        verb = "written and read" if passes > 1 else "read once more"
        yield moved(f"{name} crosses memory, {verb}: {format_bytes(size)}{guess}", size, passes, "fusion")
    for names, where in ((fused.before, "before"), (fused.behind, "behind")):
        if names:
            what = f"{' + '.join(names)} {where} {fused.main}: a layer of its own, with a launch"
            yield _Price(BarrierPart(what=what, ns=launch), launch, "fusion")
    matched = view.case.plan.get(layer.name)
    for tensor, side in _foreign_borders(view, matched) if matched is not None else ():
        change = f"{layout(tensor)} -> Linear" if side == "before" else f"Linear -> {layout(tensor)}"
        size = tensor.nbytes or 0
        words = f"a reformat of {tensor.name} {side} it, {change}: {format_bytes(size)} read and written"
        yield moved(words, size, 2, "format", launched=True)
    for tensor in _once(matched.layer.outputs) if matched is not None else ():
        if tensor.name in view.concatenated and tensor.nbytes:
            words = f"a copy into {view.concatenated[tensor.name]}, which it writes into now"
            words += f": {format_bytes(tensor.nbytes)} read and written"
            yield moved(words, tensor.nbytes, 2, "concat", launched=True)
    yield _Price(BarrierPart(what="the launch of the plugin itself", ns=launch), launch, "launch")


def _move_ns(size: int, passes: int, ceilings: Ceilings) -> int:
    """Time for so many passes over a tensor: at the rate of the cache where it fits there, else at that of DRAM."""
    roof = ceilings.attainable
    rate = roof.dram_bytes_per_s
    if size <= ceilings.cache_bytes:
        rate = max(rate, roof.cache_bytes_per_s)
    return math.ceil(size * passes * 1e9 / rate)


def _slow_ns(size: int, passes: int, ceilings: Ceilings) -> int:
    """The same where none of it is found in the cache."""
    return math.ceil(size * passes * 1e9 / ceilings.attainable.dram_bytes_per_s)


def _foreign_borders(view: _View, matched: MatchedLayer) -> Iterator[tuple[PlanTensor, Literal["before", "behind"]]]:
    """Tensors that a layer reads and writes in formats that are not linear."""
    for tensor in _once(matched.layer.inputs):
        maker, reader = view.makers.get(tensor.name, ()), view.readers.get(tensor.name, ())
        alone = len(maker) == len(reader) == 1 and _reformats(maker[0], of_input=True)
        if not is_linear(tensor) and tensor.nbytes and not alone:
            yield tensor, "before"
    for tensor in _once(matched.layer.outputs):
        reader = view.readers.get(tensor.name, ())
        alone = len(reader) == 1 and _reformats(reader[0], of_input=False)
        if not is_linear(tensor) and tensor.nbytes and not alone:
            yield tensor, "behind"


def _once(tensors: Sequence[PlanTensor]) -> Sequence[PlanTensor]:
    """Each tensor once, though a layer may read two views of it."""
    return tuple({tensor.name: tensor for tensor in tensors}.values())


def _reformats(matched: MatchedLayer, *, of_input: bool) -> bool:
    """Whether a layer only reformats, and what it reads, or writes, is linear."""
    tensors = main_tensors(matched.layer) if is_reformat(matched) else None
    return tensors is not None and is_linear(tensors[0 if of_input else 1])


def is_linear(tensor: PlanTensor) -> bool:
    """Whether a tensor is linear in memory, by its strides where they are told; without format or strides it is."""
    if tensor.vector > 1:
        return False
    if tensor.strides is not None and tensor.dims is not None and len(tensor.strides) == len(tensor.dims):
        # A slice of a larger tensor has the order of a linear one, but gaps.
        step = 1
        for dim, stride in zip(reversed(tensor.dims), reversed(tensor.strides), strict=True):
            if dim != 1 and stride != step:
                return False
            step *= max(dim, 1)
        return True
    return layout(tensor) in ("", "Linear")


def fused_in(case: Case, layer: LayerResult, inside: Collection[str] = ()) -> Fused:
    """What a layer computes beside its main op, or beside the nodes ``inside`` that the plugin computes."""
    matched = case.plan.get(layer.name)
    nodes = {name: case.ops[name] for name in layer.nodes if name in case.ops}
    if len(nodes) < len(layer.nodes) or not nodes:
        return _guessed(layer, matched)
    kind = class_of(layer, case).op
    products = [name for name, op in nodes.items() if op.op_type in MULTIPLYING]
    heads = products or [name for name, op in nodes.items() if op_class(op) in ("norm", "softmax")]
    several = len(products) if len(products) > 1 and kind != "attention" else 1
    chosen = [name for name in nodes if name in inside]
    if chosen and len(chosen) < len(nodes):
        main = next((name for name in heads if name in chosen), chosen[-1])
        return _around(main, chosen, nodes, layer, matched)._replace(products=several)
    if chosen or len(nodes) == 1 or len(heads) != 1 or kind == "attention":
        main = kind if len(nodes) > 1 else next(iter(nodes.values())).op_type
        return Fused(main, tuple(nodes), products=several)
    return _around(heads[0], heads, nodes, layer, matched)


def _around(
    main: str, inside: Collection[str], nodes: Mapping[str, Op], layer: LayerResult, matched: MatchedLayer | None
) -> Fused:
    """The tensors between what a plugin computes of a layer and the rest; views and what is constant move nothing."""
    root: dict[str, str] = {}
    maker: dict[str, str] = {}
    sizes: dict[str, int] = {}
    width = _width(layer, matched)
    working = {}
    for name, op in nodes.items():
        inputs = [tensor for tensor in op.inputs if tensor is not None]
        outputs = [tensor for tensor in op.outputs if tensor is not None]
        if inputs and all(tensor.constant for tensor in inputs):
            continue
        if op.op_type in VIEWS and name != main and inputs and outputs:
            root[outputs[0].name] = root.get(inputs[0].name, inputs[0].name)
            continue
        working[name] = op
        for tensor in outputs:
            maker[tensor.name] = name
            sizes[tensor.name] = _nbytes(tensor, width)
    given = {tensor.name for tensor in matched.layer.outputs} if matched is not None else set()
    given |= {root[name] for name in given if name in root}
    crossing: dict[str, int] = {}
    behind: set[str] = set()
    for name, op in working.items():
        for read in op.inputs:
            source = root.get(read.name, read.name) if read is not None else ""
            made_by = maker.get(source)
            if made_by is None:
                continue
            if (made_by in inside) != (name in inside):
                crossing[source] = 1 if source in given else 2
            if made_by in inside or made_by in behind:
                behind.add(name)
    others = [name for name in working if name not in inside]
    return Fused(
        main=nodes[main].op_type,
        nodes=tuple(name for name in nodes if name in inside),
        crossing=tuple((name, sizes[name], passes) for name, passes in crossing.items()),
        before=tuple(nodes[name].op_type for name in others if name not in behind),
        behind=tuple(nodes[name].op_type for name in others if name in behind),
    )


def _guessed(layer: LayerResult, matched: MatchedLayer | None) -> Fused:
    """Without the model the names of nodes, or the words of Myelin, tell that something is fused, and not its size."""
    plan = matched.layer if matched is not None else None
    if plan is not None and plan.onnx_range:
        return Fused(layer.op_type, layer.nodes, products=0)
    names = [name for name in layer.nodes if not _NO_WORK.search(name)]
    words = tokens(plan) if plan is not None and not names else ()
    if max(len(names), len(words)) <= 1:
        return Fused(layer.op_type, layer.nodes)
    outputs = plan.outputs if plan is not None else ()
    size = max((tensor.nbytes or 0 for tensor in outputs), default=0)
    others = len(names) - 1
    rest = words[1:] or ("another node" if others == 1 else f"{others} other nodes",)
    crossing = (("what its main op gives", size, 2),)
    return Fused(layer.op_type, layer.nodes, crossing=crossing, behind=rest, guessed=True)


def _width(layer: LayerResult, matched: MatchedLayer | None) -> str:
    """The float type of what a layer passes on."""
    outputs = matched.layer.outputs if matched is not None else ()
    found = next((tensor.dtype for tensor in outputs if tensor.dtype in _FLOATS), "")
    return found or (layer.dtype if layer.dtype in _FLOATS else "")


def _nbytes(tensor: Tensor, width: str) -> int:
    """Bytes of a tensor of the model in the engine, which may compute in narrower floats."""
    if width and tensor.dtype in _FLOATS and tensor.elements is not None:
        return dtype_bytes(width, tensor.elements)
    return tensor.nbytes or 0


def _ladder(view: _View, layer: LayerResult, reach: Reached) -> Iterator[LadderStep]:
    """Cheaper fixes for a layer, in the order in which to try them, as far as they apply."""
    case = view.case
    kind = class_of(layer, case).op
    yield from _padding(case, layer, reach)
    if kind in ("gemm", "gemv") and has_weights(case, layer):
        yield LadderStep(
            what="store the weights transposed",
            command="trtprof run TRANSPOSED.onnx -o reports/b",
            basis="nothing here tells which order the kernel wants: write the product with the weights transposed",
            rung="row-matmul-transposed",
        )
    yield from _precision(case, layer, case.backend)
    if case.backend == "ort-cuda":
        yield LadderStep(
            what="an engine of TensorRT",
            command="trtprof run MODEL --backend tensorrt -o reports/b",
            basis="nothing tells which kernel TensorRT would choose before it has timed its tactics",
        )
    else:
        yield from builder_steps(routes=case.backend != "tensorrt-rtx")
    if layer.bound == "launch" or view.host_bound:
        yield _cuda_graph(case)
    if layer.bound == "launch" or (layer.attainable_ns or 0) < _SMALL * case.ceilings.launch_ns:
        yield LadderStep(
            what="a larger batch",
            command="trtprof run MODEL --batch N -o reports/b",
            basis="an inference takes longer, one of its samples less: how much is not known before it is measured",
        )


def builder_steps(*, routes: bool) -> Iterator[LadderStep]:
    """What has the builder time more kernels; ``routes``: whether it may be one that has build routes."""
    yield LadderStep(
        what="a higher builder optimisation level",
        command="trtprof run MODEL --builderOptimizationLevel 5 -o reports/b",
        basis="nothing tells before the builder has timed more tactics",
        rung="builder-level-5",
    )
    if routes:
        yield LadderStep(
            what="a build route (TensorRT 11.1 and later)",
            command="trtprof run MODEL --setBuildRoute=-cask_fusion:num_tactics=20 -o reports/b",
            basis="nothing tells before it is built; this one times more tactics where kernels are fused, and trtexec "
            "--tuneBuildRoutes turns each knob of a list",
            rung="route-more-fusions",
        )


def _measured(case: Case, layer: LayerResult, steps: Sequence[LadderStep]) -> tuple[LadderStep, ...]:
    """The ladder with what `trtprof try` measured in place of what is predicted of the same."""
    left = tried_in(case, nodes_of(case, (layer.name,)))
    told = []
    for step in steps:
        # What helps most stands first.
        own = [rung for rung in left if rung.name == step.rung]
        left = [rung for rung in left if rung not in own]
        told.append(_as_tried(case, step, own[0]) if own else step)
    others = [
        _as_tried(case, LadderStep(what=rung.title, command="", rung=rung.name), rung)
        for rung in left
        if rung.kind != "option" or rung.verdict == "helps"
    ]
    return (*others, *told)


def _as_tried(case: Case, step: LadderStep, rung: Rung) -> LadderStep:
    """A step with the gain that was measured of its rung: none where it does not help."""
    helps = rung.verdict == "helps" and rung.gain is not None
    gain = round(case.latency.headline_ns * (1 - 1 / rung.gain.value)) if helps and rung.gain else 0
    said = {"helps": "measured", "no difference": "tried without effect"}.get(rung.verdict, f"tried, {rung.verdict}")
    words = ", ".join(filter(None, (times(rung.gain), "" if helps else rung.reason)))
    return msgspec.structs.replace(
        step,
        command=makes(case, [rung]) or step.command,
        gain_ns=max(gain, 0),
        basis=f"{said}: {words}" if words else said,
        rung=rung.name,
        tried=short(rung),
    )


def _padding(case: Case, layer: LayerResult, reach: Reached) -> Iterator[LadderStep]:
    """Zeros up to what tensor cores load at once, where they have anything to do."""
    product = product_of(layer)
    if product is None or not product.suits_tensor_cores:
        return
    step = max(aligned(product_dtype(layer)), 1)
    misfits = product.misfits(step)
    if not misfits:
        return
    if alone := unquantised(product, product_dtype(layer)):
        yield LadderStep(
            what=alone,
            command="trtprof run UNQUANTISED.onnx -o reports/b",
            basis="measured of another network, on another GPU: 202 us in 8 bits, 112 us in fp16",
        )
        return
    kernel = main_kernel(case, layer)
    gain = None
    basis = "its kernel is on the tensor cores already: what the alignment costs it, nothing tells"
    if kernel is None or kernel.name.unit != "tensor":
        # Bytes grow by no more than the work does.
        grown = product.padding(step)
        attainable = max((ns * (1 if term == "launch" else grown) for term, ns in layer.terms.items()), default=0)
        gain = max(layer.measured_ns - math.ceil(attainable / reach.efficiency), 0)
        basis = "the roofline of the padded product, at what its class reaches; no kernel says tensor cores now"
    names = ", ".join(f"{name} from {size} to {-(-size // step) * step}" for name, size in misfits)
    yield LadderStep(
        what=f"zeros that pad {names}",
        command="trtprof run PADDED.onnx -o reports/b",
        gain_ns=gain,
        basis=basis,
        rung="conv-pad-channels" if product.convolution else "",
    )


def _precision(case: Case, layer: LayerResult, backend: str) -> Iterator[LadderStep]:
    """Half precision for what is fp32: half the bytes, and the peak of the narrower type."""
    matched = case.plan.get(layer.name)
    wide = [one for one in _once(matched.layer.outputs) if one.dtype in _FLOATS] if matched is not None else []
    if layer.dtype in NARROW and wide and layer.bytes:
        spared = sum((one.nbytes or 0) - dtype_bytes(layer.dtype, one.elements or 0) for one in wide)
        by_bytes = layer.bound in ("dram", "l2")
        yield LadderStep(
            what=f"a Q/DQ pair behind it, so that it writes {layer.dtype}",
            command="trtprof run QUANTISED.onnx -o reports/b",
            gain_ns=layer.measured_ns * min(spared, layer.bytes) // layer.bytes if by_bytes else None,
            basis=f"{format_bytes(spared)} of {format_bytes(layer.bytes)} less, "
            + ("at the bandwidth that it has now" if by_bytes else "which do not bound it by the roofline"),
        )
    if layer.dtype not in ("fp32", "tf32"):
        return
    roof = case.ceilings.attainable
    half = next((dtype for dtype in _HALVES if dtype in roof.tensor_flops_per_s), "")
    gain: int | None = None
    basis = "the ceilings have no rate for fp16"
    if layer.terms and (half or layer.bound in ("dram", "l2", "launch")):
        terms = {term: ns / 2 if term in ("dram", "l2") else float(ns) for term, ns in layer.terms.items()}
        for term, peaks in (("tensor", roof.tensor_flops_per_s), ("vector", roof.vector_flops_per_s)):
            before, after = peaks.get(layer.dtype), peaks.get(half)
            if before and after and after > before:
                terms[term] *= before / after
        now = max(layer.terms.values())
        ratio = min(max(terms.values()) / now, 1.0) if now else 1.0
        gain = math.floor(layer.measured_ns * (1 - ratio))
        share = f"the roofline at fp16 takes {format_percent(ratio)} of that at {layer.dtype}"
        basis = f"{share}, if its kernel stays at the same share of it"
    rung = ""
    if any(other.dtype in _HALVES for other in case.layers):
        # The engine may choose fp16 already, and did not here.
        what, command = "its inputs cast down in the model", "trtprof run CAST.onnx -o reports/b"
    elif backend == "ort-cuda":
        what, command = "half precision", "trtprof run MODEL-FP16.onnx -o reports/b"
    else:
        what, command, rung = "half precision", "trtprof run MODEL --fp16 -o reports/b", "fp16"
    yield LadderStep(what=what, command=command, gain_ns=gain, basis=basis, rung=rung)


def _cuda_graph(case: Case) -> LadderStep:
    known = case.graph_ns > 0
    return LadderStep(
        what="a CUDA graph",
        command="trtprof run MODEL -o reports/b",
        rung="cuda-graph",
        gain_ns=max(case.latency.headline_ns - case.graph_ns, 0) if known else None,
        basis=(
            f"measured: {format_ns(case.graph_ns)} with a CUDA graph, {format_ns(case.latency.headline_ns)} without"
            if known
            else "not measured here: a run on the GPU measures both"
        ),
    )
