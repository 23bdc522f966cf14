"""Which layer of a plan does the arithmetic of an ONNX node that several layers compute.

Nothing is counted twice and nothing is lost: the parts of a node add up to it.

* Products go to the layers that are made for products and, where those cannot do all of it, to those that multiply
  and sum up as well; where there are neither, to the one that moves most. Several of them share in proportion to
  what the dims of their own tensors say that they multiply, less the products that they alone do.
* All other arithmetic goes to the layers whose name has most of its operations (a LayerNormalization: mean, sub,
  mul, sqrt, div); where no name tells, to the layers of the product, else to all. Several share it in proportion to
  what they write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trtprof.base.plan_words import tokens
from trtprof.base.records import PlanLayer
from trtprof.cost import NO_SPARE, Cost, Spare
from trtprof.cost._recipes import NOTHING, Recipe

_LETTERS = 3
"""Of a word of Myelin's that tell: it shortened operations to three letters up to TensorRT 10.5, then to four."""

_WORDS: dict[str, frozenset[str]] = {
    op_type: frozenset(words.split())
    for op_types, words in (
        ("Softmax LogSoftmax", "max sub exp sum div"),
        ("LayerNormalization InstanceNormalization GroupNormalization", "mea sub mul sqr div"),
        ("RMSNormalization SimplifiedLayerNormalization", "mea mul sqr div"),
        ("LpNormalization", "sqr div sum"),
        ("BatchNormalization", "mul add"),
        ("Gemm Conv ConvTranspose MatMul FusedMatMul", "add"),
        ("LSTM GRU RNN", "sig tan mul"),
        ("Gelu FastGelu QuickGelu BiasGelu", "erf tan mul add sig"),
        ("HardSwish HardSigmoid", "har mul add max min"),
        ("Swish Silu", "sig mul"),
        ("Softplus Mish", "exp log tan"),
        ("Clip", "max min cli rel"),
        ("ReduceMean GlobalAveragePool AveragePool", "mea sum avg"),
        ("ReduceMax GlobalMaxPool MaxPool", "max"),
        ("ReduceSum CumSum ReduceL1 ReduceL2 ReduceSumSquare", "sum"),
        ("ArgMax ArgMin TopK", "top arg"),
        ("QuantizeLinear", "rou qua"),
        ("DequantizeLinear", "deq cas mul"),
        ("Attention MultiHeadAttention", "max sub exp sum div"),
    )
    for op_type in op_types.split()
}  # fmt: skip


class Part(NamedTuple):
    """What a layer does of its nodes, in all of its runs together."""

    tensor_flops: int = 0
    arithmetic: Recipe = NOTHING
    fast_flops: int = 0
    spare: Spare = NO_SPARE

    def plus(self, other: Part) -> Part:
        """Both."""
        return Part(
            self.tensor_flops + other.tensor_flops,
            self.arithmetic.plus(other.arithmetic),
            self.fast_flops + other.fast_flops,
            self.spare.plus(other.spare),
        )


class Owner(NamedTuple):
    """A layer as it competes for the arithmetic of a node."""

    place: int  # In the plan
    layer: PlanLayer
    explicit: bool  # It is made for products
    sums: bool  # It multiplies and sums up
    flops: int  # What it multiplies by the dims of its tensors, in all of its runs; 0 where they do not tell
    moved: int  # Bytes that it reads and writes, of the tensors that it lists
    written: int  # Bytes that it writes, in all of its runs
    runs: int = 1  # How often it runs in one inference


class Shares(NamedTuple):
    """Who does what; layers by their place in the plan."""

    # What each layer does; those without arithmetic, of which data spare nothing either, are left out
    parts: dict[int, Part]
    makers: dict[str, frozenset[int]]  # Node that several layers compute -> those that do its products
    doers: dict[str, frozenset[int]]  # Likewise, those that do its other arithmetic


def shares(costs: Mapping[str, Cost], op_types: Mapping[str, str], owners: Mapping[str, Sequence[Owner]]) -> Shares:
    """Divide the arithmetic of nodes among layers (``owners``: node -> the layers that compute it, at least one)."""
    parts: dict[int, Part] = {}
    makers_of: dict[str, frozenset[int]] = {}
    doers_of: dict[str, frozenset[int]] = {}

    def give(place: int, part: Part) -> None:
        before = parts.get(place)
        parts[place] = part if before is None else before.plus(part)

    several = []
    for node, found in owners.items():
        cost = costs[node]
        if len(found) > 1:
            several.append(node)
        elif cost.computes or any(cost.unsure):
            give(found[0].place, Part(cost.tensor_flops, cost.arithmetic, cost.fast_flops, cost.unsure))
    alone = {place: part.tensor_flops for place, part in parts.items()}
    for node in several:
        cost, found = costs[node], owners[node]
        makers = _makers(found, cost.tensor_flops, alone)
        if cost.tensor_flops:
            own = [_free(one, alone) for one in makers]
            weights = own if any(own) else [one.flops for one in makers]
            weights = weights if any(weights) else [one.written for one in makers]
            for one, flops in zip(makers, _by_runs(cost.tensor_flops, weights, makers), strict=True):
                # Rounded up: what is left over for sure is not more than there is.
                fast = -(-flops * cost.fast_flops // cost.tensor_flops)
                spare = Spare(-(-flops * cost.unsure.tensor_flops // cost.tensor_flops), tensors=cost.unsure.tensors)
                give(one.place, Part(flops, NOTHING, fast, spare))
        doers = _doers(op_types[node], found, makers if cost.tensor_flops else found)
        makers_of[node] = frozenset(one.place for one in makers)
        doers_of[node] = frozenset(one.place for one in doers)
        spared = _split(cost.unsure.arithmetic, doers)
        for one, recipe, less in zip(doers, _split(cost.arithmetic, doers), spared, strict=True):
            give(one.place, Part(0, recipe, 0, Spare(0, less, cost.unsure.tensors)))
    return Shares(parts, makers_of, doers_of)


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """A total in whole parts in proportion to weights, with the same sum; evenly where all weights are 0."""
    if not any(weights):
        weights = [1] * len(weights)
    whole = sum(weights)
    parts = []
    before = seen = 0
    for weight in weights:
        seen += weight
        upto = total * seen // whole
        parts.append(upto - before)
        before = upto
    return parts


def _by_runs(total: int, weights: Sequence[int], owners: Sequence[Owner]) -> list[int]:
    """Parts that can be divided by the runs that all owners have in common, but for what is left over."""
    common = math.gcd(*(one.runs for one in owners))
    parts = [part * common for part in apportioned(total // common, weights)]
    parts[-1] += total % common
    return parts


def _makers(owners: Sequence[Owner], total: int, alone: Mapping[int, int]) -> Sequence[Owner]:
    explicit = [one for one in owners if one.explicit]
    sums = [one for one in owners if one.sums and not one.explicit]
    if explicit:
        known = all(one.flops for one in explicit)
        if known and sum(_free(one, alone) for one in explicit) < total:
            return [*explicit, *(one for one in sums if one.flops)]
        return explicit
    return sums or [max(owners, key=lambda one: one.moved)]


def _free(owner: Owner, alone: Mapping[int, int]) -> int:
    """What it multiplies, less the products that it alone does."""
    return max(owner.flops - alone.get(owner.place, 0), 0)


def _doers(op_type: str, owners: Sequence[Owner], makers: Sequence[Owner]) -> Sequence[Owner]:
    wanted = _WORDS.get(op_type) or frozenset((op_type[:_LETTERS].lower(),))
    scores = [len(wanted.intersection(word[:_LETTERS].lower() for word in tokens(one.layer))) for one in owners]
    best = max(scores)
    if best == 0:
        return makers
    return [one for one, score in zip(owners, scores, strict=True) if score == best]


def _split(recipe: Recipe, owners: Sequence[Owner]) -> list[Recipe]:
    if len(owners) == 1:
        return [recipe]
    weights = [one.written for one in owners]
    vector = _by_runs(recipe.vector, weights, owners)
    special = {name: _by_runs(count, weights, owners) for name, count in recipe.special.items()}
    return [
        Recipe(vector[index], {name: counts[index] for name, counts in special.items() if counts[index]})
        for index in range(len(owners))
    ]
