"""What the predictions of every level share: what may be asked, the ceilings that follow, sums and words.

`trtprof.flows.predict.groups` predicts nodes and groups of them, `trtprof.flows.predict.layers` the layers of a built
engine; both give `records.Prediction`, made here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from trtprof.analysis.work import explain_uncounted
from trtprof.base.errors import UsageError
from trtprof.base.records import (
    DOES_NOT_FIT,
    EXPECTED_BASES,
    SCHEMA_VERSION,
    WIDER_BASES,
    Accumulate,
    Ceilings,
    Corrected,
    EngineFacts,
    Expectation,
    ExpectedBasis,
    GpuPrediction,
    GpuSpec,
    NodeFate,
    PlanSummary,
    PredictedLayer,
    Prediction,
    Source,
    Unsupported,
    Work,
    least_sure,
)
from trtprof.base.units import format_bytes, format_ns, format_percent
from trtprof.cost.recast import NARROW, PRECISIONS
from trtprof.estimate.cache import Access
from trtprof.expected import Correction, Measured, expect
from trtprof.hardware import gpus

Level = Literal["auto", "layers", "groups", "nodes"]

LEVELS: tuple[Level, ...] = ("auto", "layers", "groups", "nodes")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked of a prediction."""

    # ``layers``: those of an engine that TensorRT-RTX builds; ``groups``: nodes that an engine may fuse are one
    # layer; ``nodes``: each is one; ``auto``: ``layers`` where an engine is asked for, else ``groups``.
    level: Level = "groups"
    engine: bool | None = None  # Build one, which asks for its layers; None leaves that to the level
    precision: str = "model"  # One of `cost.recast.PRECISIONS`
    accumulate: Accumulate = "auto"  # See `hardware.gpus.ceilings`
    clock_mhz: float | None = None  # See `hardware.gpus.ceilings`
    overrides: dict[str, float] = {}  # See `hardware.gpus.ceilings`
    cold: bool = False  # Charge every byte to DRAM, as if the last-level cache kept nothing
    measured: dict[str, Measured] = {}  # By slug, kernels that were timed on a GPU; they correct what is expected there


def check(how: Settings) -> None:
    """Refuse a precision or a level that there is not, and an engine that the level has no use for."""
    for option, value, known in (("--dtype", how.precision, PRECISIONS), ("--level", how.level, LEVELS)):
        if value not in known:
            raise UsageError(
                f"{option} {value} is not possible", why="known: " + ", ".join(known), fix=f"{option} {known[0]}"
            )
    if how.engine is not None and how.level != "auto" and how.engine != (how.level == "layers"):
        raise UsageError(
            f"{'--engine' if how.engine else '--no-engine'} and --level {how.level}",
            why="layers are those of an engine, all else is estimated from the graph alone",
            fix="leave one away",
        )


def ceilings_of(spec: GpuSpec, how: Settings, precision: str) -> Ceilings:
    """The ceilings of a GPU as asked for, at a precision."""
    found = gpus.ceilings(
        spec, tf32=precision != "fp32", accumulate=how.accumulate, clock_mhz=how.clock_mhz, overrides=how.overrides
    )
    return msgspec.structs.replace(found, cache_bytes=0) if how.cold else found


def expectations(
    works: Sequence[Work | None], spec: GpuSpec, how: Settings, ceilings: Ceilings, correction: Correction | None
) -> tuple[Expectation, ...]:
    """What good library kernels take for each work, as it is asked for; see `expected.expect` and `correction`."""
    return expect(works, spec, ceilings, tf32=how.precision != "fp32", correction=correction)


def correction(spec: GpuSpec, how: Settings, ceilings: Ceilings) -> tuple[Correction | None, Corrected | None]:
    """What corrects the expectations on a GPU, and in a record what that is."""
    measured = how.measured.get(spec.slug)
    if measured is None:
        return None, None
    tf32 = how.precision != "fp32"
    measured.check(spec, ceilings, tf32=tf32)
    return measured.learn(spec, ceilings, tf32=tf32)


def has_unit(spec: GpuSpec, precision: str) -> bool:
    """Whether the GPU has a unit for a precision: of 8 bits and TF32 only tensor cores count."""
    if precision in ("model", "fp32"):
        return True
    dtype = NARROW.get(precision, precision)
    return dtype in spec.tensor_flops_per_s or (precision in ("fp16", "bf16") and dtype in spec.vector_flops_per_s)


def live_bytes(accesses: Sequence[Access], weights: Collection[str], kept: Collection[str]) -> int:
    """The most bytes of activations that are needed at one time.

    `accesses`: what each layer touches, in the order in which they run.
    """
    last: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for at, access in enumerate(accesses):
        for tensors in (access.reads, access.writes):
            for name, size in tensors.items():
                if name not in weights:
                    last[name] = at
                    if size > sizes.get(name, -1):
                        sizes[name] = size
    dies: dict[int, list[str]] = {}
    for name, at in last.items():
        if name not in kept:
            dies.setdefault(at, []).append(name)
    live = {name for name in kept if name in sizes}
    now = most = sum(sizes[name] for name in live)
    for at, access in enumerate(accesses):
        for name in (*access.reads, *access.writes):
            if name in sizes and name not in live:
                live.add(name)
                now += sizes[name]
        most = max(most, now)
        for name in dies.get(at, ()):
            live.discard(name)
            now -= sizes[name]
    return most


FORECAST_SHARE = 0.5
"""Share of the bound time that layers with an expectation must have, or there is no forecast of all."""


def forecast(layers: Sequence[tuple[Expectation, int, int]]) -> Expectation:
    """The sum of the expectations of layers, as far as there are any.

    Each is given as its expectation, the bound of all its runs in ns, and how many runs the expectation is not of. All
    erring the same way, the sum of the tenth percentiles is the tenth percentile of the sum; the errors of one model on
    one GPU have much in common, so that a narrower band would promise too much.
    """
    bound_ns = sum(bound for _, bound, _ in layers)
    known = [each for each in layers if each[0].expected_ns is not None]
    known_ns = sum(bound for _, bound, _ in known)
    if not known:
        return Expectation(expected_reason="no layer has an expectation" if layers else "there are no layers")
    if known_ns < FORECAST_SHARE * bound_ns:
        share = format_percent(known_ns / bound_ns)
        return Expectation(expected_reason=f"only layers of {share} of the bound time have an expectation")
    return Expectation(
        expected_ns=sum((one.expected_ns or 0) * runs for one, _, runs in known),
        expected_p10_ns=sum((one.expected_p10_ns or 0) * runs for one, _, runs in known),
        expected_p90_ns=sum((one.expected_p90_ns or 0) * runs for one, _, runs in known),
        expected_basis=least_sure([one for one, _, _ in known]),
    )


def _by_basis(layers: Sequence[PredictedLayer]) -> dict[ExpectedBasis, int]:
    found: Counter[ExpectedBasis] = Counter()
    for layer in layers:
        found[layer.expected_basis] += (layer.expected_ns or 0) * layer.repeats
    return {basis: found[basis] for basis in EXPECTED_BASES if found[basis]}


def held_to_bound(layer: PredictedLayer) -> PredictedLayer:
    """The layer with nothing expected below its bound, which no correct kernel beats; what was, is said."""
    low, middle, high = layer.expected_p10_ns, layer.expected_ns, layer.expected_p90_ns
    bound = 0 if layer.estimate is None else layer.estimate.attainable_ns
    if low is None or middle is None or high is None or low >= bound:
        return layer
    raised = f"kernels of libraries are expected at {format_ns(middle)}, below the bound" if middle < bound else ""
    return msgspec.structs.replace(
        layer,
        expected_p10_ns=bound,
        expected_ns=max(middle, bound),
        expected_p90_ns=max(high, bound),
        expected_reason="; ".join(filter(None, (layer.expected_reason, raised))),
    )


def _forecast_ns(layer: PredictedLayer, ceilings: Ceilings) -> int:
    """What a layer without an expectation counts in a forecast: its bound, but each step of a recurrence launches."""
    launches_ns = math.ceil(ceilings.launch_ns) * layer.steps * layer.repeats if layer.steps > 1 else 0
    return max(layer.bound_ns, launches_ns)


OPEN_LOOP = "in a loop of unknown length"  # Reason of a layer that is counted for one trip


def _explain_uncounted(layers: Sequence[PredictedLayer]) -> str:
    """Name the ops of multiply-accumulates in layers without an estimate; see `work.explain_uncounted`."""
    partly = [layer.estimate is None or layer.reason == OPEN_LOOP for layer in layers]
    reasons = [(layer.reason or "no estimate") if some else "" for layer, some in zip(layers, partly, strict=True)]
    types = [layer.op_type.split(" + ") for layer in layers]
    return explain_uncounted((name, 1, why) for why, names in zip(reasons, types, strict=True) for name in names)


def gpu_prediction(
    spec: GpuSpec,
    how: Settings,
    ceilings: Ceilings,
    layers: tuple[PredictedLayer, ...],
    by_precision: Mapping[str, int | None],
    memory_bytes: int,
    plan: PlanSummary | None = None,
    corrected: Corrected | None = None,
) -> GpuPrediction:
    """The layers of a model on one GPU, with their sums and what is to be said about it."""
    asked, layers = layers, tuple(map(held_to_bound, layers))
    by_bound = Counter[str]()
    for layer in layers:
        if layer.estimate is not None:
            by_bound[layer.estimate.bound] += layer.bound_ns
    unpriced = sum(layer.estimate is None for layer in layers)
    # Of layers that all lack a price nothing is known, which is not that they take no time.
    priced = not layers or unpriced < len(layers)
    time_ns = by_bound.total()
    ideal_ns = sum(layer.estimate.roofline_ns * layer.repeats for layer in layers if layer.estimate is not None)
    refused = [layer for layer in layers if layer.expected_ns is None]
    wider = Counter(layer.expected_reason for layer in asked if layer.expected_basis in WIDER_BASES)
    raised = sum(one.expected_reason != layer.expected_reason for one, layer in zip(asked, layers, strict=True))
    whole = forecast([(layer, _forecast_ns(layer, ceilings), layer.repeats) for layer in layers])
    if uncounted := _explain_uncounted(layers):
        whole = Expectation(expected_reason=uncounted)
    refused_ns = sum(_forecast_ns(layer, ceilings) for layer in refused)
    return GpuPrediction(
        gpu=spec.slug,
        name=spec.name,
        ceilings=ceilings,
        clock_mhz=how.clock_mhz or spec.boost_mhz.value,
        tdp_w=spec.tdp_w.value,
        memory_bytes=int(spec.memory_bytes.value),
        time_ns=time_ns if priced else None,
        ideal_ns=ideal_ns if priced else None,
        **msgspec.structs.asdict(whole),
        expected_ns_by_basis={} if whole.expected_ns is None else _by_basis(layers),
        refused_ns=refused_ns,
        refused_layers=dict(Counter(layer.expected_reason for layer in refused).most_common()),
        wider_layers=dict(wider.most_common()),
        joules=time_ns / 1e9 * spec.tdp_w.value if priced else None,
        expected_joules=None
        if whole.expected_ns is None
        else (whole.expected_ns + refused_ns) / 1e9 * spec.tdp_w.value,
        ridge=gpus.ridge_points(ceilings.attainable),
        ns_by_bound=dict(by_bound.most_common()),
        by_precision=dict(by_precision) if priced else {},
        layers=layers,
        plan=plan,
        corrected=corrected,
        notes=tuple(_notes(spec, how, memory_bytes, unpriced, raised, corrected)),
    )


def _notes(
    spec: GpuSpec, how: Settings, needed: int, unpriced: int, raised: int, corrected: Corrected | None
) -> Iterator[str]:
    if corrected is not None:
        yield corrected.words
    if unpriced:
        yield f"layers without a price, which are not in the time: {unpriced}"
    if raised:
        yield f"layers of which less than the bound would be expected, so that they count with it: {raised}"
    there = int(spec.memory_bytes.value)
    if needed > there:
        yield f"{DOES_NOT_FIT}: at least {format_bytes(needed)} of {format_bytes(there)} of memory"
    if not has_unit(spec, how.precision):
        yield f"no unit for {how.precision}: multiplied as the next wider type that it has one for"
    weak = [name for name, figure in spec.figures.items() if figure.kind == "weak"]
    if weak:
        yield "weak figures of its datasheet: " + ", ".join(weak)


def prediction(
    source: Source,
    level: Literal["layers", "groups", "nodes"],
    how: Settings,
    memory_bytes: int,
    found: tuple[GpuPrediction, ...],
    unsupported: tuple[Unsupported, ...],
    assumptions: Sequence[str],
    *,
    would_price: str = "",
    engine: EngineFacts | None = None,
    fates: tuple[NodeFate, ...] = (),
) -> Prediction:
    """A model on at least one GPU; ``assumptions`` stand behind those of the model.

    ``would_price`` is what would tell the work of its layers, for where none has a price; without it that is told by
    the reasons of ``unsupported``.
    """
    timed = [gpu for gpu in found if gpu.time_ns is not None]
    why = would_price or "; ".join(f"{one.count:,} x {one.op_type}: {one.reason}" for one in unsupported[:2])
    unpriced = next(filter(None, (_explain_uncounted(gpu.layers) for gpu in found)), "")
    if not timed:
        unpriced = f"nothing is priced, the work of no layer is known: {why}"
    by = "" if unpriced else _compared_by(timed)

    def ns(gpu: GpuPrediction) -> int:
        return (gpu.forecast_ns if by == "expectation" else gpu.time_ns) or 0

    def joules(gpu: GpuPrediction) -> float:
        return (gpu.expected_joules if by == "expectation" else gpu.joules) or 0

    return Prediction(
        schema_version=SCHEMA_VERSION,
        model=source.model,
        level=level,
        precision=how.precision,
        memory_bytes=memory_bytes,
        gpus=found,
        fastest=min(timed, key=ns).gpu if by else "",
        fastest_by=by,
        # A board whose limit is not known cannot be compared.
        most_efficient=min(timed, key=lambda gpu: (not gpu.tdp_w, joules(gpu))).gpu if by else "",
        unsupported=unsupported,
        unpriced=unpriced,
        engine=engine,
        fates=fates,
        assumptions=(*source.model.assumptions, *assumptions),
    )


def _compared_by(timed: Sequence[GpuPrediction]) -> Literal["expectation", "bound", ""]:
    """What GPUs are ranked by: expectations where each has those of the same layers, which alone are alike."""
    having = {tuple(layer.expected_ns is not None for layer in gpu.layers) for gpu in timed}
    if len(having) == 1 and all(gpu.expected_ns is not None for gpu in timed):
        return "expectation"
    return "bound" if timed else ""


def assumptions(how: Settings, *, tf32: bool) -> Iterator[str]:
    """What is taken for granted at every level; ``tf32``: whether fp32 products may run as TF32."""
    yield "the ceilings of a datasheet are not reached: times with >= are lower bounds, and a good engine takes longer"
    yield (
        "times with ~ are what good library kernels take, with the band that four fifths of them lie in; of all layers "
        "it is the sum of their bands, as if all erred the same way, and no band of a sum is wider; what is "
        "extrapolated, or taken for a product, is in it with its own wider one"
    )
    if tf32:
        yield "fp32 products run as TF32 where a GPU has it, as TensorRT lets them by default"
    if how.cold:
        yield "every byte comes from DRAM"
    else:
        yield "inferences follow one another: the last-level cache holds what the one before left there"
    yield "convolutions may leave out products as Winograd does, so that none is faster than its time"
    yield "energy is the bound, or what is expected, at the power limit of the board"
    yield "memory is the weights and the most that lives between layers, without what the runtime itself takes"
