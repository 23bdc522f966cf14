"""What the attention ops share: the arithmetic of the scores, heads in groups, and caches of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trtprof.base.records import Core, Op, WorkBound
from trtprof.cost import Cost, MalformedOpError, Spare
from trtprof.cost._recipes import NOTHING, Recipe, normalize
from trtprof.cost._shapes import constant, given, integer, made, need, number, shape, size, work


class Scores(NamedTuple):
    """softmax(Q K^T * scale + masks) V, by the number of scores.

    2 * depth FLOP a score for Q K^T and 2 * value_depth for the weighted sum (FlashAttention counts
    the same); one multiply by the scale, ``masks`` adds, and with a soft cap a divide, a tanh and a
    multiply; the stable softmax. A sink is one more logit a row that has no value: a compare, a
    subtract, an exp and an add.
    """

    pairs: int  # Pairs of a query and a key, over batch entries and query heads
    rows: int  # Queries over batch entries and query heads
    depth: int  # Length of a query and of a key
    value_depth: int  # Length of a value
    masks: int = 0  # Tensors that are added to the scores
    sink: bool = False  # Whether each row has a sink

    def flops(self, op: Op) -> tuple[int, Recipe]:
        """Tensor FLOP, and the other arithmetic."""
        if not self.pairs:
            return 0, NOTHING
        each = Recipe(1 + self.masks)
        if number(op, "softcap", 0.0) > 0:
            each = each.plus(Recipe(2, {"tanh": 1}))
        rows = Recipe(4 * self.pairs - 2 * self.rows, {"exp": self.pairs})
        if self.sink:
            rows = rows.plus(Recipe(3, {"exp": 1}).times(self.rows))
        return 2 * self.pairs * (self.depth + self.value_depth), each.times(self.pairs).plus(rows)


def seen_pairs(queries: int, keys: int, *, before: int = 0, left: int = -1, right: int = -1) -> int:
    """Pairs of a query and a key that it may look at, of one head.

    Query i stands at the place of key ``before + i``; ``right`` keys behind its own are seen, all where it is negative.
    """

    def upto(ahead: int) -> int:
        """The sum over all queries of how many keys lie before place ``before + i + ahead``."""
        first = before + ahead

        def below(place: int) -> int:
            inside = min(max(place, 0), keys)
            return inside * (inside + 1) // 2 + max(place - keys, 0) * keys

        return below(first + queries - 1) - below(first - 1)

    until = keys * queries if right < 0 else upto(right + 1)
    return max(until - (0 if left < 0 else upto(-left)), 0)


def attention_core(
    heads: int, queries: int, keys: int, depth: int, value_depth: int, pairs: int, shared: int = 1
) -> Core | None:
    """The core of an attention; None where a window or longer values make it another than dimensions tell."""
    if queries == 1:
        keys = pairs
    causal = pairs != queries * keys
    if not heads * pairs * depth or value_depth > depth:
        return None
    if causal and pairs != seen_pairs(queries, keys, before=keys - queries, right=0):
        return None
    return Core(kind="attention", batch=heads, m=queries, n=keys, k=depth, shared=shared, causal=causal)


def finish(
    op: Op,
    tensor: int,
    other: Recipe,
    reasons: list[str],
    read: Mapping[int, int] | None = None,
    write: Mapping[int, int] | None = None,
    *,
    projections: int = 0,
    core: Core | None = None,
) -> Cost:
    """The cost of an attention, an upper bound when there are reasons for scores to be left out.

    Args:
        tensor: FLOP of the products of the scores and of the values.
        projections: FLOP of other products, which are done in any case.
    """
    note = f"all scores counted, though {' and '.join(reasons)} may leave some out" if reasons else ""
    bound: WorkBound = "upper" if reasons else "exact"
    found = work(op, other, tensor=tensor + projections, read=read, write=write, bound=bound, note=note, core=core)
    if not reasons:
        return found
    data = frozenset(moved.tensor.name for moved in found.reads if not moved.tensor.constant)
    return found._replace(spare=Spare(tensor, other, data))


def heads_of(op: Op, name: str = "num_heads") -> int:
    """The required number of heads."""
    heads = integer(op, name, 0)
    if heads <= 0:
        raise MalformedOpError(f"{op.op_type} needs {name}")
    return heads


class Cache(NamedTuple):
    """Keys and values kept from call to call: past tensors come in, present tensors go out.

    Where both have the same length they are one buffer with room to spare, in which only the new
    entries are written; else the past is copied in front of the new entries.
    """

    keys: int  # Keys that the last query may see, at most
    exact: bool  # There are that many; otherwise it is the room for them
    shared: bool  # Past and present are one buffer
    read: dict[int, int]
    write: dict[int, int]


def cache(
    op: Op,
    past: tuple[int, ...],
    present: tuple[int, ...],
    new: int,
    *,
    axis: int = 2,
    share: bool = False,
    before: int | None = None,
    window: int = 0,
) -> Cache:
    """The cache of an attention op.

    Args:
        axis: Dimension of the entries.
        window: A query sees at most this many keys, itself included; 0 for all.
    """
    first = given(op, past[0])
    if first is None:
        return Cache(new, True, False, {}, {})
    room = shape(first)[axis]
    after = made(op, present[0])
    shared = share or (after is not None and bool(new) and shape(after)[axis] == room)
    if not shared:
        return Cache(room + new, True, False, {}, {})
    keys = min(before + new, room) if before is not None else room
    old = max(keys - new, 0)
    if window:
        old = min(old, window - 1)
    read = {index: size(need(op, index)) // room * old for index in past} if room else {}
    write = {
        index: size(tensor) // room * min(new, room)
        for index in present
        if room and (tensor := made(op, index)) is not None
    }
    return Cache(keys, before is not None, True, read, write)


def single(op: Op, index: int) -> int | None:
    """The value of an input that holds one integer, or None when it is omitted or not known."""
    values = constant(op, index)
    return values[0] if values is not None and len(values) == 1 else None


class Grouped(NamedTuple):
    """Grouped-query attention: fewer heads of keys and values than of queries."""

    tokens: int
    heads: int
    kv_heads: int
    depth: int

    @classmethod
    def of(cls, op: Op) -> Grouped:
        """Inputs query, key, value."""
        heads, kv_heads = heads_of(op), heads_of(op, "kv_num_heads")
        *outer, width = shape(need(op, 0))
        tokens = 1
        for dim in outer:
            tokens *= dim
        parts = heads + 2 * kv_heads if given(op, 1) is None else heads
        return cls(tokens, heads, kv_heads, width // parts)

    def before_scores(self, op: Op, rotary: int, norms: int | None = None) -> tuple[Recipe, dict[int, int]]:
        """RMS normalisation of every head of queries and keys, and their rotation; what is read of the caches.

        Args:
            rotary: Position of the cosine cache, with the sine cache behind it; a row holds a value per rotated pair.
        """
        other = NOTHING
        read = dict.fromkeys((rotary, rotary + 1), 0)
        if integer(op, "do_rotary", 0):
            pairs = shape(need(op, rotary))[-1]
            other = rotation(self.tokens * (self.heads + self.kv_heads) * 2 * pairs)
            read = dict.fromkeys(read, self.tokens * pairs)
        if norms is not None:
            for index, heads in ((norms, self.heads), (norms + 1, self.kv_heads)):
                if given(op, index) is not None:
                    vectors = self.tokens * heads
                    other = other.plus(normalize(vectors, self.depth, centered=False))
                    other = other.plus(Recipe(vectors * self.depth))
        return other, read

    def conversions(self, op: Op, rows: int, scales: int) -> Recipe:
        """Of a quantised cache: ``rows`` of keys and of values to floating point, and the new ones back."""
        given_scales = sum(given(op, index) is not None for index in (scales, scales + 1))
        # Convert and multiply; divide, round and two compares.
        each = self.kv_heads * self.depth * (2 * rows + 4 * self.tokens)
        return Recipe(given_scales * each)


def rotation(elements: int) -> Recipe:
    """Four multiplies and two adds a pair of rotated elements."""
    return Recipe(3 * elements)
