"""Which batches a measured time allows, where neither the model nor the capture tells the batch.

More images take no less time: the largest batch whose `ideal` is not above the measured time in any layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from trtprof.analysis.evidence import Evidence
from trtprof.analysis.plan import PricedPlan, estimates_of, layer_names
from trtprof.base.records import Ceilings
from trtprof.estimate.cache import Traffic

MOST = 1 << 20  # Batches that are looked at
_OVER = 1.1  # What GPUs run faster than the clock of their datasheet: a batch is impossible only beyond that


class Bracket(NamedTuple):
    """Batches that are possible: 1 to ``largest``; of none it is 0."""

    largest: int  # Up to `MOST`, where nothing bounds it
    layer: str = ""  # The layer that rules out the next one; empty where none does
    ideal_ns: int = 0  # What it would take at least, of the next one
    measured_ns: int = 0  # What it took


def possible_batches(price: Callable[[int], PricedPlan], evidence: Evidence, ceilings: Ceilings) -> Bracket:
    """The largest batch for which no layer was faster than its ideal time."""
    low, high = 0, 1
    above = _above(price(high), evidence, ceilings)
    while above is None and high < MOST:
        low, high = high, 2 * high
        above = _above(price(high), evidence, ceilings)
    if above is None:
        return Bracket(high)
    while high - low > 1:
        middle = (low + high) // 2
        found = _above(price(middle), evidence, ceilings)
        if found is None:
            low = middle
        else:
            high, above = middle, found
    return above._replace(largest=low)


def batches_copied(inputs: Sequence[Mapping[str, int]], copied: Collection[int]) -> tuple[int, ...]:
    """The batches at which each input is as large as some copy to the device, in bytes."""
    one, two = inputs
    # What does not grow with the batch tells nothing of it.
    sizes = [size for name, size in one.items() if size and two[name] == 2 * size]
    found = [{bytes_ // size for bytes_ in copied if bytes_ % size == 0} for size in sizes]
    return tuple(sorted(set.intersection(*found) - {0})) if found else ()


def _above(priced: PricedPlan, evidence: Evidence, ceilings: Ceilings) -> Bracket | None:
    """The layer whose ideal time is most above what it took; None where none is."""
    layers = priced.document.layers
    estimates = estimates_of(priced, ceilings, [Traffic(0, 0)] * len(layers))
    worst, found = _OVER, None
    for name, matched, cost, estimate, ns in zip(
        layer_names(layers), layers, priced.costs, estimates, evidence.layers_ns, strict=True
    ):
        if not ns or estimate is None or cost.work is None:
            continue
        sure = matched.role == "compute" and matched.match == "exact" and cost.work.bound in ("exact", "lower")
        ideal = estimate.ideal_ns * cost.runs
        if sure and ideal > worst * ns:
            worst, found = ideal / ns, Bracket(0, name, ideal, ns)
    return found
