"""What a variant should take, by its layers, before it is measured."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.op_kinds import op_kind
from trtprof.base.records import LayerResult, Run
from trtprof.base.units import format_ns
from trtprof.diagnose import THRESHOLDS


class Price(NamedTuple):
    """What is predicted of a variant."""

    gain: float | None  # Time of the original over that of the variant
    basis: str  # Where that is from, in words
    at_most: float | None = None  # The gain if the layers that it changes took no time


NOT_TOLD = Price(None, "nothing but a measurement tells it")
SAME = Price(1.0, "the runtime makes the same graph of both")


def predicted(base: Run, layers: Sequence[LayerResult]) -> Price:
    """The latency of the original beside what the layers of a variant should take."""
    gone, came = _apart(base.layers, layers)
    unknown = [layer for layer in came if layer.attainable_ns is None and layer.expected_ns is None]
    if unknown:
        return Price(None, f"the work of {unknown[0].op_type} is not known")
    of_layers = sum(layer.measured_ns for layer in base.layers) or 1
    room = min(1.0, base.latency.headline_ns / of_layers)
    less = sum(layer.measured_ns for layer in gone) * room
    kept = [layer for layer in base.layers if layer not in gone]
    efficiencies = _efficiencies(kept)
    more = sum(
        layer.expected_ns or (layer.attainable_ns or 0) / efficiencies.get(op_kind(layer.op_type), THRESHOLDS.healthy)
        for layer in came
    )
    after = max(base.latency.headline_ns - less + more, 1.0)
    basis = (
        f"{_layers(gone)} of the original {'takes' if len(gone) == 1 else 'take'} {format_ns(round(less))}; "
        f"{_layers(came)} in {'its' if len(gone) == 1 else 'their'} place should take {format_ns(round(more))}"
    )
    return Price(base.latency.headline_ns / after, basis)


def _layers(layers: Sequence[LayerResult]) -> str:
    ops = Counter(layer.op_type for layer in layers)
    few = ", ".join(f"{count} {op}" if count > 1 else op for op, count in ops.most_common(3))
    return f"{few}{' and others' if len(ops) > 3 else ''}" or "nothing"


def _kind(layer: LayerResult) -> Hashable:
    return layer.op_type, layer.shapes, layer.dtype, layer.flops, layer.bytes


def _apart(before: Iterable[LayerResult], after: Iterable[LayerResult]) -> tuple[list[LayerResult], list[LayerResult]]:
    """Layers that one side alone has."""

    def without(layers: Iterable[LayerResult], others: Iterable[LayerResult]) -> list[LayerResult]:
        left = Counter(map(_kind, others))
        rest = []
        for layer in layers:
            if left[_kind(layer)]:
                left[_kind(layer)] -= 1
            else:
                rest.append(layer)
        return rest

    before, after = list(before), list(after)
    return without(before, after), without(after, before)


def _efficiencies(layers: Iterable[LayerResult]) -> Mapping[str, float]:
    """Attainable over measured by kind of op, the median of those that take more than their launch."""
    found: dict[str, list[float]] = {}
    for layer in layers:
        if layer.attainable_ns and layer.measured_ns and layer.bound != "launch":
            found.setdefault(op_kind(layer.op_type), []).append(min(layer.attainable_ns / layer.measured_ns, 1.0))
    return {kind: statistics.median(values) for kind, values in found.items()}
