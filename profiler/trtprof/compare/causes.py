"""What a difference is made of: the ledger of a comparison.

The difference of two medians is that of the kernels, region by region, that of copies and gaps, that of the host, and
what is left: kernels are timed under a profiler, the latency is not, and what the two disagree about is unexplained.
The rows sum to the difference to the nanosecond.

The difference d of a region is taken apart in this order, what was asked for first, then what it ran on, then what the
engine made of it, because each step changes what the next one starts from:

1. ``only before``, ``only after``: the region is on one side alone. All of d. A region of nothing but format changes
   that came or went with a quantisation is ``precision changed``.
2. ``work changed``: nodes took the place of others: all of d, since other kernels and another fusion are what that
   means. Where the same nodes have other shapes, an estimate: between what the roofline demands more, A(w2, r1) -
   A(w1, r1), as a kernel that loses a fixed time would show it, and what is in proportion to that, as a kernel of the
   same efficiency would; of what lies between, all that was measured.
3. ``roof changed`` (another device, other threads): the same for A(w2, r2) against A(w2, r1).
4. ``clock changed`` (the same device at another clock or speed): time goes with 1 / clock where a layer is bound by
   arithmetic, by the cache or by launches, and with 1 / memory speed where it is bound by DRAM. Where nothing else
   changed, all such regions together get no more of it than they show: single ones are noisy.
5. What is left goes to the first of ``precision changed`` (computed in another dtype: its kernels and its fusion are
   then others by necessity), ``fusion changed`` (nodes share layers in another way), ``kernel changed`` (another kernel
   for the same layer, another layout around it), and else ``same kernels, other time``.

"In proportion" is by logarithmic means, L(a, b) = (b - a) / ln(b / a): with b = a x y, L ln x + L ln y is exactly
b - a, and it only changes its sign when the sides are swapped (B. W. Ang, The LMDI approach to decomposition analysis,
Energy Policy 33(7), 2005).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from trtprof.base.peaks import peak_flops, special_rate
from trtprof.base.records import Ceilings, ChangeCause, ChangeRow, LayerResult, Roof, Work
from trtprof.base.units import format_names
from trtprof.compare.nodes import FORMAT_OPS
from trtprof.compare.regions import KERNELS_OF_NO_LAYER, Region
from trtprof.compare.sides import COPIES_AND_GAPS, HOST, Runs, speed_ratio

KERNEL_CAUSES: tuple[ChangeCause, ...] = (
    "work changed", "precision changed", "fusion changed", "kernel changed", "roof changed", "clock changed",
    "only before", "only after", "same kernels, other time",
)  # fmt: skip

MEANING: dict[ChangeCause, str] = {
    "work changed": "the model asks for other work: other shapes, or other ops",
    "precision changed": "parts are computed in another dtype, with the kernels and the fusion that this brings",
    "fusion changed": "other nodes share a layer",
    "kernel changed": "another kernel, or another layout, for the same layer",
    "roof changed": "other ceilings: another device, or another number of threads",
    "clock changed": "another clock, or speed of the machine, on the same device",
    "only before": "parts that the later run does not have",
    "only after": "parts that the earlier run does not have",
    "same kernels, other time": "nothing that is known of these layers changed but their time",
    "copies and gaps": "copies, and time in which nothing ran between kernels",
    "host": "the call of an inference, and waiting for launches",
    "unexplained": "kernels are timed under a profiler, the latency is not: what the two disagree about",
}

SPEED_STEP = 0.005  # A change of clock by less is none


class Parts(NamedTuple):
    """What the difference of a region is made of."""

    ns: dict[ChangeCause, int]  # By cause; sums to the difference
    reason: str  # In words, what was seen
    estimated: bool  # Whether a part of it was estimated, which makes an estimate of the rest as well


class _Taken(NamedTuple):
    """A region on its way: what is explained, and who gets the rest."""

    ns: dict[ChangeCause, int]
    rest: ChangeCause
    clock_ns: float
    reasons: list[str]


def parts_of(regions: Sequence[Region], before: Runs, after: Runs) -> list[Parts]:
    """What the difference of every region is made of."""
    market = _Market(before, after)
    taken = [_take_apart(region, market) for region in regions]
    same: list[int] = []
    for at, (region, one) in enumerate(zip(regions, taken, strict=True)):
        if one.rest == "same kernels, other time":
            same.append(at)
        elif one.clock_ns:
            _add(one.ns, "clock changed", round(one.clock_ns))
        if one.clock_ns:
            one.reasons.append(market.clock_words(region))
    shown = sum(regions[at].after_ns - regions[at].before_ns - sum(taken[at].ns.values()) for at in same)
    wanted = sum(taken[at].clock_ns for at in same)
    share = min(max(shown / wanted, 0.0), 1.0) if wanted else 0.0
    for at in same:
        _add(taken[at].ns, "clock changed", round(share * taken[at].clock_ns))
    found = []
    for region, one in zip(regions, taken, strict=True):
        _add(one.ns, one.rest, region.after_ns - region.before_ns - sum(one.ns.values()))
        ns = {cause: one.ns[cause] for cause in KERNEL_CAUSES if one.ns.get(cause)}
        # A difference that one cause has as a whole was measured.
        estimated = len(ns) > 1 or one.rest not in ns
        found.append(Parts(ns, "; ".join(filter(None, one.reasons)), estimated))
    return found


def ledger_of(parts: Sequence[Parts], before: Runs, after: Runs) -> tuple[ChangeRow, ...]:
    """Rows that sum to the difference of the two medians."""
    difference = after.side.latency.headline_ns - before.side.latency.headline_ns
    sums: Counter[ChangeCause] = Counter()
    counts: Counter[ChangeCause] = Counter()
    guessed: set[ChangeCause] = set()
    for one in parts:
        sums.update(one.ns)
        counts.update(one.ns.keys())
        if one.estimated:
            guessed |= one.ns.keys()
    around: dict[ChangeCause, tuple[int, Sequence[str]]] = {
        "copies and gaps": (after.copies_ns - before.copies_ns, COPIES_AND_GAPS),
        "host": (after.host_ns - before.host_ns, HOST),
    }
    rest = difference - sums.total() - sum(ns for ns, _ in around.values())
    moved = _clock_of_the_rest(rest, before, after)
    if moved:
        sums["clock changed"] += moved
        guessed.add("clock changed")
    for cause, (ns, names) in around.items():
        if ns:
            sums[cause] = ns
            kinds = {row.kind for runs in (before, after) for row in runs.middle.run.ledger if row.cause in names}
            guessed |= set() if kinds == {"fact"} else {cause}
    return (
        *(
            ChangeRow(
                cause=cause, ns=sums[cause], kind="estimate" if cause in guessed else "fact", regions=counts[cause],
                meaning=meaning,
            )
            for cause, meaning in MEANING.items()
            if cause in sums
        ),
        ChangeRow(cause="unexplained", ns=rest - moved, kind="remainder", meaning=MEANING["unexplained"]),
    )  # fmt: skip


def clock_of_latency(before: Runs, after: Runs) -> float:
    """Logarithm of how much longer compute takes by the speed of the machine alone; 0 where nobody looked."""
    ratios = speed_ratio(before, after).get("compute")
    return -math.log(ratios[0]) if ratios else 0.0


def _clock_of_the_rest(rest: int, before: Runs, after: Runs) -> int:
    """The part of what the profiled run does not show that is the machine's: it had another speed meanwhile."""
    ratios = speed_ratio(before, after).get("compute")
    if not ratios:
        return 0
    apart = math.log(ratios[1] / ratios[0])
    if abs(apart) < SPEED_STEP:
        return 0
    mean = _log_mean(before.side.latency.headline_ns, after.side.latency.headline_ns)
    return round(_between(rest, 0.0, mean * apart))


class _Market:
    """What prices are made of: the ceilings of both sides, and the speed of their machines."""

    def __init__(self, before: Runs, after: Runs) -> None:
        self.before, self.after = before, after
        self.ceilings = (before.middle.ceilings, after.middle.ceilings)
        self.dram = tuple(runs.middle.run.ceilings.attainable.dram_bytes_per_s for runs in (before, after))
        self.other_device = not before.on_same_device(after)
        self.other_threads = not self.other_device and self.ceilings[0].threads != self.ceilings[1].threads
        self.other_roof = self.other_device or self.other_threads
        self.speeds = {
            name: kernels if abs(math.log(kernels)) >= SPEED_STEP else 1.0
            for name, (_, kernels) in speed_ratio(before, after).items()
        }

    def clock_ns(self, region: Region) -> float:
        """What another clock or speed makes of the time of a region, in proportion."""
        if not self.speeds or (region.before_ns and region.after_ns) == 0:
            return 0.0
        total = sum(layer.measured_ns for layer in region.before)
        found = 0.0
        for layer in region.before:
            speed = self.speeds.get("memory" if layer.bound == "dram" else "compute", 1.0)
            found += layer.measured_ns / total * -math.log(speed) if total else 0.0
        return _log_mean(region.before_ns, region.after_ns) * found

    def clock_words(self, region: Region) -> str:
        bound = {layer.bound for layer in region.before}
        name = "memory" if bound == {"dram"} else "compute"
        ratio = self.speeds.get(name, 1.0)
        return f"the machine ran at {ratio:.3g} times the speed" if ratio != 1 else ""

    def price(self, layers: Sequence[LayerResult], works_of: int, roof_of: int) -> float | None:
        """Attainable ns of the work of layers of the side ``works_of`` under the ceilings of the side ``roof_of``.

        None where the work of none is known.
        """
        known = [layer for layer in layers if layer.work is not None]
        if not known:
            return None
        ceilings = self.ceilings[roof_of]
        dram = self.dram[works_of] or 0.0
        return sum(
            attainable_ns(layer.work, round(layer.terms.get("dram", 0) * dram / 1e9), ceilings)
            for layer in known
            if layer.work is not None
        )


def attainable_ns(work: Work, dram_bytes: int, ceilings: Ceilings) -> float:
    """What the roofline allows for some work, of whose bytes ``dram_bytes`` cross to DRAM; as `estimate.roofline`."""
    roof = ceilings.attainable
    vector = work.vector_flops + (0 if roof.special_per_s else work.special_flops)
    terms = [
        ceilings.launch_ns,
        _per(work.tensor_flops, _peak(roof.tensor_flops_per_s, work.dtype)),
        _per(vector, _peak(roof.vector_flops_per_s, work.dtype)),
        sum(
            _per(count, special_rate(roof, function)) for function, count in work.special.items() if roof.special_per_s
        ),
        _per(min(dram_bytes, work.bytes), roof.dram_bytes_per_s),
        _per(work.bytes, max(roof.cache_bytes_per_s, roof.dram_bytes_per_s)),
    ]
    return max(terms)


def _peak(peaks: dict[str, float], dtype: str) -> float:
    return peak_flops(peaks, dtype) if peaks.get("fp32") or peaks.get(dtype) else 0.0


def _per(amount: float, rate: float) -> float:
    return amount * 1e9 / rate if rate else 0.0


def _take_apart(region: Region, market: _Market) -> _Taken:
    difference = region.after_ns - region.before_ns
    if region.name == KERNELS_OF_NO_LAYER and not region.before and not region.after:
        return _Taken({}, _without_layers(region), 0.0, ["kernels that were led to no layer"])
    if not region.before or not region.after:
        return _one_sided(region, market)
    ns: dict[ChangeCause, int] = {}
    reasons: list[str] = []
    work = _work_changed(region, market)
    if region.replaced or work == "other ops":
        reasons.append(_replaced_words(region, market))
        quantised = _same_in_integers(*_unpaired_ops(region, market))
        return _Taken(ns, "precision changed" if quantised else "work changed", 0.0, reasons)
    dtypes = _dtypes(region.before), _dtypes(region.after)
    formats = _format_nodes(region, market)
    rest: ChangeCause
    if (dtypes[0] != dtypes[1] and all(dtypes)) or formats:
        rest = "precision changed"
        reasons.append(_precision_words(dtypes, formats))
    elif _grouping(region, market, later=False) != _grouping(region, market, later=True):
        rest = "fusion changed"
        reasons.append(f"{_layers(len(region.before))} became {_layers(len(region.after))}")
    elif (kernels := _kernel_counts(region.before)) != (others := _kernel_counts(region.after)):
        rest = "kernel changed"
        reasons.append(_kernel_words(list(kernels - others), list(others - kernels)))
    else:
        rest = "same kernels, other time"
    if work == "other shapes":
        prices = [
            [market.price(layers, side, roof) for roof in (0, 1)]
            for side, layers in enumerate((region.before, region.after))
        ]
        # Averaged over both ceilings, so that swapping the sides changes the sign alone.
        at_roofs = [(prices[0][roof], prices[1][roof]) for roof in ((0, 1) if market.other_roof else (0,))]
        explained = _explained(difference, region, at_roofs)
        if explained is None:
            rest = "work changed"
        else:
            _add(ns, "work changed", explained)
        reasons.append("other shapes")
    if market.other_roof:
        at_works = [
            (market.price(layers, side, 0), market.price(layers, side, 1))
            for side, layers in enumerate((region.before, region.after))
        ]
        explained = _explained(difference - sum(ns.values()), region, at_works)
        if explained is None:
            rest = "roof changed"
        else:
            _add(ns, "roof changed", explained)
        reasons.append("another device" if market.other_device else "another number of threads")
    return _Taken(ns, rest, market.clock_ns(region), reasons)


def _explained(difference: int, region: Region, prices: Sequence[tuple[float | None, float | None]]) -> int | None:
    """How much of a difference another price explains: between their difference, and as much in proportion."""
    known = [(first, second) for first, second in prices if first and second]
    if len(known) < len(prices) or not known:
        return None
    added = sum(second - first for first, second in known) / len(known)
    logs = sum(math.log(second / first) for first, second in known) / len(known)
    in_proportion = _log_mean(region.before_ns, region.after_ns) * logs
    return round(_between(difference, added, in_proportion))


def _between(value: float, one: float, other: float) -> float:
    return min(max(value, min(one, other)), max(one, other))


def _log_mean(one: float, other: float) -> float:
    if one <= 0 or other <= 0:
        return 0.0
    apart = math.log(other / one)
    # Close to one another the quotient loses its digits, and both means are the same.
    return (other - one) / apart if abs(apart) > 1e-6 else (one + other) / 2


def _add(ns: dict[ChangeCause, int], cause: ChangeCause, amount: int) -> None:
    if amount:
        ns[cause] = ns.get(cause, 0) + amount


def _without_layers(region: Region) -> ChangeCause:
    if not region.extra_before:
        return "only after"
    return "same kernels, other time" if region.extra_after else "only before"


def _one_sided(region: Region, market: _Market) -> _Taken:
    runs, nodes = (market.before, region.nodes_before) if region.before else (market.after, region.nodes_after)
    ops = {runs.graph.op_types[at] for at in nodes}
    if ops and ops <= FORMAT_OPS:
        return _Taken({}, "precision changed", 0.0, [f"{', '.join(sorted(ops))} on one side alone"])
    if not nodes:
        what = (
            "a layer of the engine's own" if len(region.before or region.after) == 1 else "layers of the engine's own"
        )
        return _Taken({}, "only before" if region.before else "only after", 0.0, [what])
    return _Taken({}, "only before" if region.before else "only after", 0.0, ["no such part on the other side"])


def _work_changed(region: Region, market: _Market) -> str:
    """``other ops``, ``other shapes`` or nothing, by what the model asks for, not by how it was fused."""
    first, second = market.before, market.after
    gone, new = _unpaired_ops(region, market)
    if any(op not in FORMAT_OPS for op in (*gone, *new)):
        return "other ops"
    for earlier, later in region.pairs:
        one, other = first.middle.run.nodes[earlier], second.middle.run.nodes[later]
        if one.op_type in FORMAT_OPS:
            continue
        if (one.flops or 0) != (other.flops or 0):
            return "other shapes"
        # Of what computes nothing the bytes tell, as long as they are of the same dtype.
        if not one.flops and (one.bytes or 0) != (other.bytes or 0) and _dtypes(region.before) == _dtypes(region.after):
            return "other shapes"
    if _kernel_counts(region.before) == _kernel_counts(region.after):
        shapes = [Counter(layer.shapes for layer in layers) for layers in (region.before, region.after)]
        moved = [sum(layer.work.bytes for layer in layers if layer.work) for layers in (region.before, region.after)]
        if len(region.before) == len(region.after) and shapes[0] != shapes[1] and moved[0] != moved[1]:
            return "other shapes"
    return ""


def _unpaired_ops(region: Region, market: _Market) -> tuple[list[str], list[str]]:
    """Op types of the nodes that the other side does not have: of those before, and of those after."""
    earlier, later = {pair[0] for pair in region.pairs}, {pair[1] for pair in region.pairs}
    gone = [market.before.graph.op_types[at] for at in region.nodes_before if at not in earlier]
    new = [market.after.graph.op_types[at] for at in region.nodes_after if at not in later]
    return gone, new


_IN_INTEGERS = {
    "ConvInteger": "Conv", "QLinearConv": "Conv", "MatMulInteger": "MatMul", "MatMulIntegerToFloat": "MatMul",
    "QLinearMatMul": "MatMul", "DynamicQuantizeMatMul": "MatMul", "QGemm": "Gemm", "DynamicQuantizeLSTM": "LSTM",
}  # fmt: skip
"""Ops that do the work of another one, on quantised values."""
_SCALING = frozenset({"Mul", "Add", *FORMAT_OPS})  # What a model has around them to scale what they make


def _same_in_integers(gone: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one side does in integers what the other one does, and nothing else."""
    first, second = (Counter(_IN_INTEGERS.get(op, op) for op in ops) for ops in (gone, new))
    quantised = any(op in _IN_INTEGERS for op in (*gone, *new))
    return quantised and set((first - second) + (second - first)) <= _SCALING


def _dtypes(layers: Sequence[LayerResult]) -> frozenset[str]:
    return frozenset(layer.dtype for layer in layers if layer.dtype and layer.role == "compute")


def _format_nodes(region: Region, market: _Market) -> list[str]:
    """Quantisations and casts that one side alone has in a region of both."""
    gone, new = _unpaired_ops(region, market)
    return sorted({op for op in (*gone, *new) if op in FORMAT_OPS and op != "Identity"})


def _grouping(region: Region, market: _Market, *, later: bool) -> frozenset[tuple[frozenset[int], int]]:
    """Which nodes share a layer, by their earlier places; format changes and layouts have no part in it."""
    back = {after: before for before, after in region.pairs}
    runs, layers = (market.after, region.after) if later else (market.before, region.before)
    places = runs.places
    groups: Counter[frozenset[int]] = Counter()
    for layer in layers:
        nodes = [places[name] for name in layer.nodes if name in places]
        own = [at for at in nodes if runs.graph.op_types[at] not in FORMAT_OPS]
        if own:
            groups[frozenset(back.get(at, -1) if later else at for at in own)] += 1
    return frozenset(groups.items())


def _kernel_counts(layers: Sequence[LayerResult]) -> Counter[str]:
    return Counter(kernel.kernel for layer in layers for kernel in layer.kernels)


def _precision_words(dtypes: tuple[frozenset[str], frozenset[str]], formats: Sequence[str]) -> str:
    first, second = (" and ".join(sorted(found)) or "no arithmetic" for found in dtypes)
    if first != second:
        return f"{first} became {second}"
    return f"{', '.join(formats)} on one side alone"


def _replaced_words(region: Region, market: _Market) -> str:
    first, second = (", ".join(dict.fromkeys(ops)) for ops in _unpaired_ops(region, market))
    return f"{first} became {second}" if first and second else f"{first} left" if first else f"{second} was added"


def _kernel_words(gone: Sequence[str], new: Sequence[str]) -> str:
    before, after = format_names(gone, 2), format_names(new, 2)
    if gone and new:
        return f"{before} became {after}"
    return f"{before} left" if gone else f"{after} was added"


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def roof_words(roof: Roof) -> str:
    """The ceilings that matter most, for a comparison of facts."""
    peaks = ", ".join(f"{dtype} {rate:.3g} FLOP/s" for dtype, rate in sorted(roof.tensor_flops_per_s.items())[:3])
    return f"{peaks}, DRAM {roof.dram_bytes_per_s:.3g} B/s"
