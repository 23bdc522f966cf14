"""Whether a custom kernel for a layer of a run saves time: the kernel and the rest of its fused group.

What else the engine computes in the same kernel becomes layers of their own, with tensors in memory between them; a
plugin takes and gives linear tensors, and nothing writes through it into a concatenation. A kernel without the main op
of its group saves nothing, for that op takes what it takes now. Cheaper candidates come first.
"""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from trtprof.base import records as r
from trtprof.base.op_kinds import MULTIPLYING, VIEWS, op_kind, op_types
from trtprof.base.plan_words import NARROW, is_convolution, is_product, is_reformat, layout, main_tensors, tokens
from trtprof.base.units import dtype_bytes, format_bytes, format_ns, format_percent
from trtprof.diagnose import Case
from trtprof.diagnose.libraries import as_fast, expected_words, reachable_ns
from trtprof.diagnose.products import aligned, has_weights, main_kernel, product_dtype, product_of
from trtprof.diagnose.remedies import unquantised
from trtprof.diagnose.tried import makes, nodes_of, short, times, tried_in

LIGHT = op_types("pointwise", "cast", "quantise", "batch norm")  # Ops that an engine computes in kernels of others
_IDLE, _HEADS = VIEWS | {"Constant"}, op_types("normalisation", "batch norm", "softmax")  # Main ops beside products
_FLOATS = frozenset({"fp32", "tf32", "fp16", "bf16"})
_NO_WORK = re.compile(r"(?i)[._/](?:weight|bias)$|quantize|unnamed layer")  # Names in a plan that are no work of a node
_SMALL, _KERNELS = 10, 3  # Launches below which a bound is too short to judge by; kernels that have quartiles
_DATASHEET = 1 / 2.53, 1 / 1.07  # Range of roofline over measured time around `Thresholds.of_datasheet`, in its data

Verdict = Literal["write it", "try first", "do not"]


class Fused(NamedTuple):
    """What a kernel for some nodes of a layer leaves to other layers."""

    main: str  # Op type that it computes
    nodes: tuple[str, ...] = ()  # That it computes, as far as they are known
    crossing: tuple[tuple[str, int, int], ...] = ()  # Tensors that newly cross memory: name, bytes, passes
    before: tuple[str, ...] = ()  # Op types that run in a layer of their own before it
    behind: tuple[str, ...] = ()  # The same behind it
    products: int = 1  # In the layer, of which it computes one; 1 where there is none, 0 where nobody knows
    guessed: bool = False  # Whether the sizes are guesses, for lack of the model
    kept: str = ""  # Op type of the group's main op where the kernel does not compute it


class Thought(NamedTuple):
    """A kernel that might be written."""

    nodes: frozenset[str] = frozenset()  # Those of the layer that it computes; none: its main op, or all of a chain


class Weighed(NamedTuple):
    """A verdict with its reason."""

    verdict: Verdict | Literal["not decided"]
    why: str
    candidate: r.PluginCandidate | None = None  # The numbers; None where nothing tells them
    listed: bool = False  # Whether a report lists the layer: its excess counts, and it is slower than its class


class Cost(NamedTuple):
    """What a kernel takes in one inference, and what it costs to break the fusion of its layer."""

    fused: Fused
    reachable_ns: int  # What it should take; without the main op of its group what that op takes now
    best_ns: int
    worst_ns: int
    basis: str  # Where that is from, in words
    down_to: str = ""  # The same in a few words
    parts: tuple[r.BarrierPart, ...] = ()
    barrier_ns: int = 0
    most_ns: int = 0  # The same where nothing is found in the cache
    spared_ns: int = 0  # Of it, for a kernel that computes the whole group and takes its formats
    formats: bool = False  # Whether reformats are part of it


def candidates(case: Case) -> tuple[r.PluginCandidate, ...]:
    """Weigh the layers of a run that are slow enough, largest saving first."""
    weighed = [weigh(case, layer) for layer in case.layers if _lost_enough(case, layer)]
    found = [each.candidate for each in weighed if each.listed and each.candidate is not None]
    return tuple(sorted(found, key=lambda each: (-each.net_ns, -each.recoverable_ns, each.layer)))


def weigh(case: Case, layer: r.LayerResult, kernel: Thought = Thought(), doubts: Sequence[str] = ()) -> Weighed:  # noqa: B008
    """Weigh a kernel for any layer of a run, listed among the `candidates` or not."""
    if why := _undecided(case, doubts):
        return Weighed("not decided", why)
    if layer.name in case.partial:
        return Weighed("not decided", "only a part of its work is known, so that nothing tells what it lost")
    if layer.role == "compute" and (layer.bound == "unknown" or not layer.attainable_ns or layer.lost_ns is None):
        return Weighed("not decided", f"its work is not known{f': {layer.reason}' if layer.reason else ''}")
    if layer.constant or layer.role != "compute":
        why = f"it is no work of the model: the engine put it in ({layer.role}), and a plugin replaces nodes"
        early = "all that it reads is constant: it can be computed before the run, and needs no kernel"
        return Weighed("do not", early if layer.constant else why)
    cost, noise = cost_of(case, layer, kernel), math.ceil(layer.measured_ns * min(max(case.latency.cv, 0.0), 1.0))
    recoverable, share = max(layer.measured_ns - cost.reachable_ns, 0), format_percent(case.thresholds.min_share)
    low, net = layer.measured_ns - noise - cost.worst_ns - cost.most_ns, recoverable - cost.barrier_ns
    high = max(layer.measured_ns + noise - cost.best_ns - cost.barrier_ns, net)
    lost, far = _lost_enough(case, layer), layer.measured_ns > cost.worst_ns + case.clock_resolution_ns
    far = far and case.share(case.in_latency(recoverable)) >= case.thresholds.min_share
    ladder = _with_tried(case, layer, tuple(_ladder(case, layer, cost)))
    verdict, why = _judge(case, cost, (recoverable, low, net, high), ladder)
    if not lost:
        why = f"it lost {format_ns(max(layer.lost_ns or 0, 0))} to its roofline, under {share} of latency"
    elif not far:
        why = f"it is no slower than kernels of its class are, by {share} of latency: {format_ns(recoverable)} "
        why += f"could be won back; {cost.basis}"
    fuses = engine_fuses(case, layer, cost)
    verdict, why = verdict if lost and far and not fuses else "do not", fuses or why
    own = (node for node in (*cost.fused.nodes, *layer.nodes) if sum(node in o.nodes for o in case.layers) == 1)
    found = r.PluginCandidate(
        layer=layer.name, nodes=layer.nodes, measured_ns=layer.measured_ns, reachable_ns=cost.reachable_ns,
        kernel=next((match.kernel for match, _ in case.kernel_names(layer)), case.tactics.get(layer.name, "")),
        basis=cost.basis, recoverable_ns=recoverable, barrier=cost.parts, net_ns=net, net_low_ns=low, net_high_ns=high,
        command="" if verdict == "do not" else f"trtprof plugin RUN {shlex.quote(next(own, layer.name))}",
        verdict=verdict, why=why, ladder=ladder,
    )  # fmt: skip
    return Weighed(verdict, why, found, listed=lost and far)


def engine_fuses(case: Case, layer: r.LayerResult, cost: Cost) -> str:
    """Why a kernel for pointwise nodes saves nothing, or one without the main op of its group; "" for any other."""
    fused, takes = cost.fused, format_ns(cost.reachable_ns)
    types = [case.ops[name].op_type for name in fused.nodes if name in case.ops] or [layer.op_type]
    named = [op for op in dict.fromkeys(types) if op not in _IDLE] or types[:1]
    words = " + ".join(named[:3]) + (" ..." if len(named) > 3 else "")
    if fused.kept:
        loses = "the product loses its epilogue" if fused.kept in MULTIPLYING else "the group is cut"
        why = f"the engine computes {words} in the kernel of {fused.kept} ({takes} in all): a kernel of its own saves "
        return f"{why}nothing, {loses}, and that costs {format_ns(cost.barrier_ns)}"
    if fused.guessed or not fused.products or len(types) < len(fused.nodes) or not named or set(named) - LIGHT:
        return ""
    return f"an engine fuses it; {words} is pointwise, work for the kernels beside it, and a plugin is in the way"


def no_candidates(case: Case, doubts: Sequence[str] = ()) -> str:
    """Why no layer of a run was weighed, in words; ``doubts`` are those that leave no verdict."""
    if undecided := _undecided(case, doubts):
        return f"not decided: {undecided}"
    share = format_percent(case.thresholds.min_share)
    slow = [layer for layer in case.layers if _lost_enough(case, layer)]
    if not slow:
        return f"no: no layer whose work is known lost {share} of latency"
    good = sum(1 for layer in slow if as_fast(layer))
    why = f"no: no layer whose work is known is slower than kernels of its class are on this device by {share} of "
    why += "latency: there is nothing to win back" + (f"; {good} of those that lost as much " if good else "")
    return why + (f"{'is' if good == 1 else 'are'} as fast as good library kernels" if good else "")


def _undecided(case: Case, doubts: Sequence[str] = ()) -> str:
    """Why no layer of a run can be weighed, in words; empty where each can."""
    if not case.gpu:
        return "on a CPU nothing tells what healthy kernels of a class reach, and plugins are for TensorRT"
    attributed, least = case.coverage.exact + case.coverage.inferred, format_percent(case.thresholds.coverage)
    if attributed < case.thresholds.coverage:
        return f"only {format_percent(attributed)} of {case.time_of} time is attributed, and {least} are needed"
    return f"there is no verdict: {'; '.join(doubts)}" if doubts else ""


def _lost_enough(case: Case, layer: r.LayerResult) -> bool:
    """Return whether a layer does known work of the model, with an excess that is worth a look."""
    if layer.role != "compute" or layer.name in case.partial or layer.constant or layer.bound == "unknown":
        return False
    lost = layer.lost_ns or 0 if layer.attainable_ns else 0
    return lost > case.clock_resolution_ns and case.share(case.in_latency(lost)) >= case.thresholds.min_share


def _judge(case: Case, cost: Cost, saves: Sequence[int], ladder: Sequence[r.LadderStep]) -> tuple[Verdict, str]:
    """The verdict and why; ``saves``: by the kernel alone, then less the fusion at worst, as expected and at best."""
    recoverable, low, point, high = saves
    won, barrier = format_ns(recoverable), format_ns(cost.barrier_ns)
    priced = f"{won} could be won back{cost.down_to}, and cutting the layer out costs {barrier}"
    latency, kernels_ns = case.latency.headline_ns, sum(layer.measured_ns for layer in case.layers)
    error = 2 * latency * max(case.latency.cv, 0.0) * math.sqrt(2 / max(case.latency.n, 1))  # Of a difference
    floor = math.ceil(max(error, case.thresholds.min_share * latency, case.clock_resolution_ns))
    rest = recoverable - cost.barrier_ns + cost.spared_ns  # For a plugin that keeps the fusion
    others = dict.fromkeys(cost.fused.before + cost.fused.behind)
    escapes = [f"computes {' and '.join(others)} too"] if others else []
    escapes += ["takes and gives the formats as they are"] * cost.formats
    unless = f"; one that {' and '.join(escapes)} would keep {format_ns(rest)}" if escapes and rest >= floor else ""
    if high <= 0 or case.in_latency(max(point, 0)) < floor:
        left = f"{format_ns(point)} is left, under the {format_ns(floor)} that are sure to show and worth it"
        return "do not", f"{priced}: {left if point > 0 else 'nothing is left'}{unless}"
    if cost.fused.products != 1:
        why = f"{cost.fused.products} products are" if cost.fused.products else "a range of nodes is"
        why += " one layer here, and which of them is slow is not known: mark what is between them as an output, and "
        return "try first", f"{why}measure again"
    if case.enqueue_ns > kernels_ns:
        why = f"the host takes {format_ns(case.enqueue_ns)} to enqueue what takes the GPU {format_ns(kernels_ns)}"
        return "try first", f"{why}: a faster kernel shortens nothing until a CUDA graph takes the host out"
    for step in ladder:
        if step.gain_ns is not None and step.gain_ns >= case.thresholds.cheaper_fix * point:
            told = f"{step.basis}, which is" if step.tried else "predicted to bring"
            why = f"cheaper: {step.what}, {told} {format_ns(step.gain_ns)}"
            return "try first", f"{why}, where a plugin would net {format_ns(point)}"
    if low <= 0:
        return "try first", f"{format_ns(point)} is likely, but at worst it costs {format_ns(-low)}: {priced}{unless}"
    if case.backend == "tensorrt-rtx":
        return "try first", f"{format_ns(point)} net, but TensorRT-RTX takes no plugins: build it with TensorRT"
    gain, how = max((step.gain_ns or 0, "was measured" if step.tried else "is predicted") for step in ladder)
    fix = (
        f"no cheaper fix {how} to bring more than {format_ns(gain)}" if gain else "no cheaper fix has a predicted gain"
    )
    idle = ", ".join(step.what for step in ladder if step.tried and not step.gain_ns)
    fix += f"; tried without gain: {idle}" if idle else ""
    return "write it", f"{priced}: {format_ns(point)} net, at least {format_ns(low)}; {fix}"


def cost_of(case: Case, layer: r.LayerResult, kernel: Thought = Thought()) -> Cost:  # noqa: B008
    """Price a kernel for a layer together with the rest of its fused group, whatever the layer takes now."""
    fused = fused_in(case, layer, kernel.nodes)
    prices = list(_barrier(case, layer, fused, cached=True))
    most = sum(part.ns for part, _ in _barrier(case, layer, fused, cached=False))
    total, spared = sum(part.ns for part, _ in prices), sum(part.ns for part, kind in prices if kind != "other")
    cost = _reach(case, layer, fused)._replace(parts=tuple(part for part, _ in prices), barrier_ns=total, most_ns=most)
    return cost._replace(spared_ns=spared, formats=any(kind == "format" for _, kind in prices))


def _reach(case: Case, layer: r.LayerResult, fused: Fused) -> Cost:
    """What good kernels take: by the expected time, by other kernels of the run, or by the origin of the peaks."""
    bound = layer.attainable_ns or 0
    if fused.kept:
        now = max(layer.measured_ns or layer.expected_ns or 0, bound)
        return Cost(fused, now, now, now, f"{fused.kept} stays in a kernel of the engine, and takes what it takes now")
    if layer.firm and bound:
        best, why = reachable_ns(layer), f"; {layer.expected_reason}" if layer.expected_reason else ""
        basis = f"{format_percent(bound / best)} of the roofline ({format_ns(best)}), as the fastest tenth of library "
        basis += f"kernels by measurements of others, which take {expected_words(layer)}{why}"
        worst, down_to = max(layer.expected_p90_ns or 0, best), ", down to the fastest tenth of library kernels"
        return Cost(fused, best, best, worst, basis, down_to)
    alike = [o for o in case.layers if o.name != layer.name and o.role == "compute" and o.attainable_ns]
    alike = [o for o in alike if o.bound == layer.bound and o.measured_ns]
    if layer.bound != "launch":  # Healthy ones of the same kind, dtype and size, or smaller
        least, kind, size = case.thresholds.above_roof, _kind(case, layer), len(str(bound))
        alike = [o for o in alike if o.dtype == layer.dtype and o.name not in case.partial]
        alike = [o for o in alike if o.measured_ns >= least * (o.ideal_ns or 0) and not case.far_from_roof(o)]
        alike = [o for o in alike if len(str(o.attainable_ns)) <= size and _kind(case, o) == kind]
        same = [o for o in alike if len(str(o.attainable_ns)) == size]
        alike = same if len(same) >= _KERNELS else alike
    shares, low, high = [min((o.attainable_ns or 0) / o.measured_ns, 1.0) for o in alike], case.thresholds.healthy, 1.0
    point, basis = (max(low, 0.01) + high) / 2, "the middle between measured peaks and the {} of them that are healthy"
    if len(shares) >= _KERNELS:
        quarter, _, point = statistics.quantiles(shares, n=4, method="inclusive")
        low, high = min(quarter, max(shares)) if layer.bound == "launch" else min(shares), max(shares)
        point = min(max(point, low), high)  # The interpolation rounds
        basis = f"the upper quartile of {len(shares)} other kernels of its kind in this run ({{}} to {{}})"
    elif case.from_datasheet:
        point = max(case.thresholds.of_datasheet, 0.01)
        low, high = min(_DATASHEET[0], point), min(max(_DATASHEET[1], point), 1.0)
        basis = "the median over 54 published inferences beside datasheets ({} to {}; NeuSight, ASPLOS 2025)"
    takes, least_ns, most = (math.ceil(bound / share) for share in (point, high, max(low, 0.01)))
    basis = f"{format_percent(point)} of the roofline, {basis.format(format_percent(low), format_percent(high))}"
    return Cost(fused, takes, least_ns, most, basis)


def _kind(case: Case, layer: r.LayerResult) -> str:
    """Return what a layer mainly does: an `op_kinds.OpKind`, or ``gemv`` or ``depthwise``."""
    matched, engine, product = case.plan.get(layer.name), case.engine.get(layer.name), product_of(layer)
    mha = matched is not None and "mha" in matched.layer.name.lower()
    if mha or any(name.op == "attention" for _, name in case.kernel_names(layer)):
        return "attention"
    kind: str = op_kind(engine.op.op_type) if engine is not None and engine.op is not None else ""
    if not kind and matched is not None and is_product(matched.layer):
        kind = "convolution" if is_convolution(matched.layer) else "matmul"
    if product is None or kind not in ("matmul", "convolution"):
        return kind
    return "depthwise" if product.depthwise else "gemv" if product.thin == 1 and not product.convolution else kind


def _barrier(case: Case, layer: r.LayerResult, fused: Fused, cached: bool) -> Iterator[tuple[r.BarrierPart, str]]:
    """What breaking the fusion costs, part by part; ``cached``: what fits in the cache is found there."""
    peak, runs, matched = case.ceilings.attainable, case.runs.get(layer.name, 1), case.plan.get(layer.name)

    def price(what: str, size: int = 0, passes: int = 0, launches: int = 1) -> r.BarrierPart:
        fits = cached and size <= case.ceilings.cache_bytes
        rate = max(peak.dram_bytes_per_s, peak.cache_bytes_per_s if fits else 0.0)
        ns = math.ceil(size * passes * 1e9 / rate) + math.ceil(case.ceilings.launch_ns) * launches
        return r.BarrierPart(what=what, ns=ns * runs, bytes=size * passes * runs)

    guess = ", taken to be as large as what the layer writes" if fused.guessed else ""
    for name, size, passes in fused.crossing:
        verb = "written and read" if passes > 1 else "read once more"
        yield price(f"{name} crosses memory, {verb}: {format_bytes(size)}{guess}", size, passes, launches=0), "fusion"
    for names, where in ((fused.before, "before"), (fused.behind, "behind")):
        if names and fused.kept not in names:
            yield price(f"{' + '.join(names)} {where} {fused.main}: a layer of its own, with a launch"), "fusion"
    run = {node for each in case.plan.values() for node in each.nodes}
    joins = [
        (name, op) for name, op in case.ops.items() if op.op_type == "Concat" and name not in run
    ]  # In place of a layer
    for written, tensors in enumerate((matched.layer.inputs, matched.layer.outputs) if matched is not None else ()):
        for name, one in {tensor.name: tensor for tensor in tensors if tensor.nbytes}.items():
            makers = [each for each in case.plan.values() if name in (tensor.name for tensor in each.layer.outputs)]
            readers = [each for each in case.plan.values() if name in (tensor.name for tensor in each.layer.inputs)]
            beside, moved = readers if written else makers, f"{format_bytes(one.nbytes or 0)} read and written"
            # A reformat that is there for this layer alone falls away.
            ends = (
                main_tensors(beside[0].layer) if len(readers) == len(beside) == 1 and is_reformat(beside[0]) else None
            )
            if not is_linear(one) and (ends is None or not is_linear(ends[written])):
                change = f"behind it, Linear -> {layout(one)}" if written else f"before it, {layout(one)} -> Linear"
                yield price(f"a reformat of {name} {change}: {moved}", one.nbytes or 0, 2), "format"
            into = [f"the concatenation {join}" for join, op in joins if name in (t and t.name for t in op.inputs)]
            if len(makers) > 1:
                into = [f"the tensor {name}, which {len(makers)} layers write a part of each"]
            if written and into:
                yield price(f"a copy into {into[0]}, which it writes into now: {moved}", one.nbytes or 0, 2), "other"
    yield price("the launch of the plugin itself"), "other"


def is_linear(tensor: r.PlanTensor) -> bool:
    """Return whether a tensor is linear in memory."""
    dims, strides = tensor.dims, tensor.strides
    if tensor.vector > 1 or strides is None or dims is None or len(strides) != len(dims):
        return tensor.vector <= 1 and layout(tensor) in ("", "Linear")
    sizes = [math.prod(max(dim, 1) for dim in dims[at + 1 :]) for at in range(len(dims))]
    return all(dim == 1 or own == size for dim, own, size in zip(dims, strides, sizes, strict=True))


def fused_in(case: Case, layer: r.LayerResult, inside: Collection[str] = ()) -> Fused:
    """What a layer computes beside its main op, or beside the nodes ``inside`` that the plugin computes."""
    matched, attention = case.plan.get(layer.name), _kind(case, layer) == "attention"
    written = matched.layer.outputs if matched is not None else ()
    types = {name: case.ops[name].op_type for name in layer.nodes if name in case.ops}
    if len(types) < len(layer.nodes) or not types:
        # Names of nodes, or the words of Myelin, tell that something is fused, and not its size.
        names, plan = [name for name in layer.nodes if not _NO_WORK.search(name)], matched and matched.layer
        words = tokens(plan) if plan and not names else ()
        if (plan and plan.onnx_range) or max(len(names), len(words)) <= 1:
            return Fused(layer.op_type, layer.nodes, products=0 if plan and plan.onnx_range else 1)
        size = max((tensor.nbytes or 0 for tensor in written), default=0)
        rest = words[1:] or ("another node" if len(names) == 2 else f"{len(names) - 1} other nodes",)
        return Fused(layer.op_type, layer.nodes, (("what its main op gives", size, 2),), behind=rest, guessed=True)
    products = [name for name, op in types.items() if op in MULTIPLYING]
    heads = products or [name for name, op in types.items() if op in _HEADS]
    chosen = [name for name in types if name in inside]
    several = len(products) if len(products) > 1 and not attention and not set(products) <= set(chosen) else 1
    if len(chosen) == len(types) or (not chosen and (len(types) == 1 or len(heads) != 1 or attention)):
        return Fused(next(iter(types.values())), tuple(types), products=several)
    chosen = chosen or heads
    main = next((name for name in heads if name in chosen), chosen[-1])
    light = {types[name] for name in chosen} <= LIGHT | _IDLE
    others = heads or [name for name in types if light and types[name] not in LIGHT | _IDLE]
    kept = types[others[0]] if others and main not in heads else ""
    width = next((tensor.dtype for tensor in written if tensor.dtype in _FLOATS), layer.dtype)
    root: dict[str, str] = {}  # Of a view the tensor that it is one of
    made: dict[str, tuple[str, int]] = {}  # Of a tensor its node and bytes
    given, crossing = {tensor.name for tensor in written}, dict[str, None]()
    behind: dict[str, bool] = {}  # Of a node that computes whether the plugin comes before it
    for name in sorted(types, key=list(case.ops).index):
        reads, writes = ([t for t in side if t is not None] for side in (case.ops[name].inputs, case.ops[name].outputs))
        sources = [root.get(tensor.name, tensor.name) for tensor in reads]
        if reads and all(tensor.constant for tensor in reads):
            continue
        if types[name] in VIEWS and name != main and reads and writes:
            root[writes[0].name] = sources[0]
            given |= {sources[0]} if writes[0].name in given else set()
            continue
        makers = {source: made[source][0] for source in sources if source in made}
        crossing |= {source: None for source, maker in makers.items() if (maker in chosen) != (name in chosen)}
        behind[name] = any(maker in chosen or behind[maker] for maker in makers.values())
        for one in writes:  # The engine may compute in narrower floats than the model
            recast = width in _FLOATS and one.dtype in _FLOATS and one.elements is not None
            made[one.name] = name, dtype_bytes(width, one.elements or 0) if recast else one.nbytes or 0
    crosses = tuple((name, made[name][1], 1 if name in given else 2) for name in crossing)
    apart = [tuple(types[name] for name in behind if name not in chosen and behind[name] == after) for after in (0, 1)]
    return Fused(types[main], tuple(chosen), crosses, apart[0], apart[1], several, kept=kept)


def _step(what: str, arguments: str, basis: str, gain_ns: int | None = None, rung: str = "") -> r.LadderStep:
    command = f"trtprof run {arguments} -o reports/b"
    return r.LadderStep(what=what, command=command, gain_ns=gain_ns, basis=basis, rung=rung)


def _ladder(case: Case, layer: r.LayerResult, cost: Cost) -> Iterator[r.LadderStep]:
    """Cheaper candidates for a layer, in the order in which to try them, as far as they apply."""
    yield from _padding(case, layer, cost)
    matched = case.plan.get(layer.name)
    if _kind(case, layer) in ("matmul", "gemv") and has_weights(case, layer):
        basis = "nothing here tells which order the kernel wants: write the product with the weights transposed"
        yield _step("store the weights transposed", "TRANSPOSED.onnx", basis, rung="row-matmul-transposed")
    wide = {t.name: t for t in matched.layer.outputs if t.dtype in _FLOATS} if matched is not None else {}
    if layer.dtype in NARROW and wide and layer.bytes:
        spared = sum((one.nbytes or 0) - dtype_bytes(layer.dtype, one.elements or 0) for one in wide.values())
        gain = layer.measured_ns * min(spared, layer.bytes) // layer.bytes if layer.bound in ("dram", "l2") else None
        rate = "at the bandwidth that it has now" if gain is not None else "which do not bound it by the roofline"
        basis = f"{format_bytes(spared)} of {format_bytes(layer.bytes)} less, {rate}"
        yield _step(f"a Q/DQ pair behind it, so that it writes {layer.dtype}", "QUANTISED.onnx", basis, gain)
    yield from _half(case, layer)
    if case.backend == "ort-cuda":
        basis = "nothing tells which kernel TensorRT would choose before it has timed its tactics"
        yield _step("an engine of TensorRT", "MODEL --backend tensorrt", basis)
    else:
        yield from builder_steps(routes=case.backend != "tensorrt-rtx")
    now, graph, short_of = case.latency.headline_ns, case.graph_ns, layer.bound == "launch"
    if short_of or case.enqueue_ns > sum(other.measured_ns for other in case.layers):
        told = f"measured: {format_ns(graph)} with a CUDA graph, {format_ns(now)} without"
        basis = told if graph > 0 else "not measured here: a run on the GPU measures both"
        yield _step("a CUDA graph", "MODEL", basis, max(now - graph, 0) if graph > 0 else None, "cuda-graph")
    if short_of or (layer.attainable_ns or 0) < _SMALL * case.ceilings.launch_ns:
        basis = "an inference takes longer, one of its samples less: how much is not known before it is measured"
        yield _step("a larger batch", "MODEL --batch N", basis)


def builder_steps(*, routes: bool) -> Iterator[r.LadderStep]:
    """What has the builder time more kernels; ``routes``: whether it may be one that has build routes."""
    basis, level = "nothing tells before the builder has timed more tactics", "MODEL --builderOptimizationLevel 5"
    yield _step("a higher builder optimisation level", level, basis, rung="builder-level-5")
    basis = "nothing tells before it is built; this one times more tactics where kernels are fused, and trtexec "
    basis, route = (
        f"{basis}--tuneBuildRoutes turns each knob of a list",
        "MODEL --setBuildRoute=-cask_fusion:num_tactics=20",
    )
    if routes:
        yield _step("a build route (TensorRT 11.1 and later)", route, basis, rung="route-more-fusions")


def _with_tried(case: Case, layer: r.LayerResult, steps: Sequence[r.LadderStep]) -> tuple[r.LadderStep, ...]:
    """The ladder with what `trtprof try` measured in place of what is predicted of the same; other rungs first."""
    left, names = tried_in(case, nodes_of(case, (layer.name,))), {step.rung for step in steps}
    others = [rung for rung in left if rung.name not in names and (rung.kind != "option" or rung.verdict == "helps")]
    told = [*(r.LadderStep(what=rung.title, command="", rung=rung.name) for rung in others), *steps]
    for at, step in enumerate(told):
        for rung in [rung for rung in left if rung.name == step.rung][:1]:  # What helps most stands first
            helps = rung.gain if rung.verdict == "helps" else None
            gain = round(case.latency.headline_ns * (1 - 1 / helps.value)) if helps is not None else 0
            said = {"helps": "measured", "no difference": "tried without effect"}.get(rung.verdict)
            words = ", ".join(filter(None, (times(rung.gain), "" if helps else rung.reason)))
            basis = ": ".join(filter(None, (said or f"tried, {rung.verdict}", words)))
            fields = {"command": makes(case, [rung]) or step.command, "gain_ns": max(gain, 0), "tried": short(rung)}
            told[at] = msgspec.structs.replace(step, basis=basis, **fields)
    return tuple(told)


def _padding(case: Case, layer: r.LayerResult, cost: Cost) -> Iterator[r.LadderStep]:
    """Zeros up to what tensor cores load at once, where they have anything to do."""
    product, step = product_of(layer), max(aligned(product_dtype(layer)), 1)
    if product is None or not product.suits_tensor_cores or not (misfits := product.misfits(step)):
        return
    if alone := unquantised(product, product_dtype(layer)):
        basis = "measured of another network, on another GPU: 202 us in 8 bits, 112 us in fp16"
        yield _step(alone, "UNQUANTISED.onnx", basis)
        return
    kernel, gain, rung = main_kernel(case, layer), None, "conv-pad-channels" if product.convolution else ""
    basis = "its kernel is on the tensor cores already: what the alignment costs it, nothing tells"
    if kernel is None or kernel.name.unit != "tensor":
        grown = product.padding(step) * cost.reachable_ns / max(layer.attainable_ns or 0, 1)  # Bytes no more
        gain = max(layer.measured_ns - math.ceil(max(layer.terms.values(), default=0) * grown), 0)
        basis = "the roofline of the padded product, at what its class reaches; no kernel says tensor cores now"
    pads = ", ".join(f"{name} from {size} to {-(-size // step) * step}" for name, size in misfits)
    yield _step(f"zeros that pad {pads}", "PADDED.onnx", basis, gain, rung)


def _half(case: Case, layer: r.LayerResult) -> Iterator[r.LadderStep]:
    """Half precision for what is fp32: half the bytes, and the peak of the narrower type."""
    if layer.dtype not in ("fp32", "tf32"):
        return
    peaks, gain, basis = case.ceilings.attainable, None, "the ceilings have no rate for fp16"
    half = next((dtype for dtype in ("fp16", "bf16") if dtype in peaks.tensor_flops_per_s), "")
    if layer.terms and (half or layer.bound in ("dram", "l2", "launch")):
        takes = {"dram": 0.5, "l2": 0.5}  # Share of a term at half precision
        for term, rates in (("tensor", peaks.tensor_flops_per_s), ("vector", peaks.vector_flops_per_s)):
            takes[term] = min(rates.get(layer.dtype, math.inf) / rates[half], 1.0) if rates.get(half) else 1.0
        after = max(ns * takes.get(term, 1.0) for term, ns in layer.terms.items())
        ratio = min(after / max(*layer.terms.values(), 1), 1.0)
        gain = math.floor(layer.measured_ns * (1 - ratio))
        basis = f"the roofline at fp16 takes {format_percent(ratio)} of that at {layer.dtype}"
        basis += ", if its kernel stays at the same share of it"
    if any(other.dtype in ("fp16", "bf16") for other in case.layers):  # The engine may choose fp16, and did not here
        yield _step("its inputs cast down in the model", "CAST.onnx", basis, gain)
    else:
        arguments, rung = ("MODEL-FP16.onnx", "") if case.backend == "ort-cuda" else ("MODEL --fp16", "fp16")
        yield _step("half precision", arguments, basis, gain, rung)
