"""Sums of kernels led back to the layers of a TensorRT plan: what can be said where no single kernel is known.

1. ``nvtx_kern_sum`` counts a kernel once for each range around it. What the range of a layer holds is of that layer;
Myelin's ranges lie within those of TensorRT, whose own around an inference holds all, says what is left, and counts
inferences.
2. A kernel that is called like the TacticName of one layer alone is of that layer. What is left has none, and says why.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trtprof.align import _gpu_names as _names
from trtprof.align.gpu_kernels import _coverage, _most_time_first, _weaker
from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.plan_words import MYELIN_KIND
from trtprof.base.records import Coverage, Match, MatchConfidence, MatchedLayer, PlanLayer

if TYPE_CHECKING:
    import pandas as pd

_COMMON = 0.95  # Share of the kernel time from which a number that counts are multiples of is worth a hint

_IN_RANGE = "launched in the layer's NVTX range"
_SHARED_TACTIC = "launched in an NVTX range that several layers share, with the tactic of this one"
_AROUND = "launched in the layer's NVTX range, less what Myelin's ranges within it hold"
_TACTIC = "named like the tactic of this layer alone"
_ITSELF = "a sum of kernels does not tell the layer: the kernel stands for itself"

_SHARED = "launched in an NVTX range that several layers share"
_NESTED = "launched in NVTX ranges of several layers, one within the other: their sums do not tell the inner one"
_OUTSIDE = "launched outside of any NVTX range that is a layer"
_NO_RANGES = "a sum of kernels by name does not tell which layer launched them"
_MANY = "its name is the tactic of several layers, and a sum is not split among them"
_UNNAMED = "its name is no tactic of the plan"


class SumsAlignment(NamedTuple):
    """Sums of kernels by layers."""

    # Those given; or one for each NVTX range that launched something; or where there are no ranges one for each
    # name of a kernel, which is then led nowhere (``from_kernels``).
    layers: tuple[MatchedLayer, ...]
    # For each layer its kernels, most time first. ``median_ns`` is the average of a kernel where the report has
    # no median, or where a part of a sum is meant.
    matches: tuple[tuple[Match, ...], ...]
    unattributed: tuple[Match, ...]  # Kernels without a layer, and why
    captured_ns: int  # What matches and unattributed add up to: each kernel once
    coverage: Coverage  # Shares of ``captured_ns`` by how surely it was led to layers
    node_coverage: Coverage  # The same by how surely it was led to ONNX nodes
    inferences: int  # How many there were; 0 where nothing tells
    inference_source: str  # In words, what tells; empty where nothing does
    common: int  # Most kernels, by time, ran a multiple of this number of times; 1 where no number stands out
    from_kernels: bool  # Whether each layer is but a kernel
    notes: tuple[str, ...]  # What was odd, in words


class _Sum(NamedTuple):
    """A row of the report."""

    kernel: str
    number: int
    total_ns: int
    median_ns: int
    range: str = ""
    domain: int = _names.OTHER
    nests: bool = False
    thread: tuple[int, int] = (-1, -1)
    range_count: int = 0
    which: str = ""  # What tells the row from others of the same kernel: its grid, its thread

    @property
    def runs(self) -> bool:
        """Whether the range is TensorRT's own around an inference."""
        return self.nests and self.domain == _names.TENSORRT and _names.is_run(self.range)


class _Piece(NamedTuple):
    """A sum, or a part of it, and where it belongs: ``layer`` is a place, -1 for none."""

    layer: int
    row: _Sum
    number: int
    total_ns: int
    confidence: MatchConfidence
    reason: str
    rounds: int = 0  # How often the layer came, as far as this tells; 0 where it does not


_Find = Callable[[str, int], tuple[int, ...]]


def align_sums(sums: pd.DataFrame, layers: Sequence[MatchedLayer] | None, runs: Sequence[int] = ()) -> SumsAlignment:
    """Lead sums of kernels back to layers: matches and unattributed sum to captured_ns, to the ns.

    ``sums`` has a row a sum: ``name``, ``count``, ``total_ns``, ``median_ns`` (NaN where not known); ``grid`` and
    ``block`` where rows are told apart by them; by NVTX range also ``range`` (``domain:name``, empty for outside of
    all), ``style``, ``pid``, ``tid`` and ``range_count``: then a kernel counts for each range around its launch.
    ``layers`` are in execution order; None takes them from the ranges, else from the kernels.
    """
    rows = _read(sums)
    return _Sums(rows, layers, runs, by_range="range" in sums.columns).result()


def _read(sums: pd.DataFrame) -> list[_Sum]:
    by_range, by_grid = "range" in sums.columns, "grid" in sums.columns
    threads = len(set(zip(sums["pid"], sums["tid"], strict=True)) - {(-1, -1)}) if by_range else 1
    rows = []
    for row in sums.to_dict("records"):
        count, total = int(row["count"]), int(row["total_ns"])
        if count <= 0:
            continue
        median = row["median_ns"]
        own = _Sum(
            kernel=str(row["name"]),
            number=count,
            total_ns=total,
            median_ns=round(total / count if math.isnan(median) else median),
        )
        if by_grid:
            own = own._replace(which=f"grid {_size(row['grid'])}, block {_size(row['block'])}")
        if by_range:
            domain, name = _range(str(row["range"]))
            thread = int(row["pid"]), int(row["tid"])
            own = own._replace(
                range=name,
                domain=domain,
                nests=bool(name) and row["style"] == "push_pop",
                thread=thread,
                range_count=int(row["range_count"]),
                which=f"process {thread[0]}, thread {thread[1]}" if threads > 1 and thread[0] >= 0 else "",
            )
        rows.append(own)
    return rows


def _size(printed: object) -> str:
    return "x".join(str(printed).split())


def _range(printed: str) -> tuple[int, str]:
    """Whose domain a range is of, and its name, from what is printed: ``TensorRT:conv1``, ``:mine``, ``mine``."""
    domain, colon, name = printed.partition(":")
    kind = _names.domain_kind(domain) if colon else _names.OTHER
    # The name of Myelin's domain ends in a colon itself.
    return kind, (printed if kind == _names.OTHER else name).removeprefix(":")


class _Sums:
    """What was found, piece by piece."""

    def __init__(
        self, rows: Sequence[_Sum], layers: Sequence[MatchedLayer] | None, runs: Sequence[int], *, by_range: bool
    ) -> None:
        self._rows, self._by_range = rows, by_range
        self._notes: list[str] = []
        self._own = any(self._names_a_layer(row) and row.domain != _names.OTHER for row in rows)
        self._from_ranges = layers is None and any(self._names_a_layer(row) for row in rows)
        self._from_kernels = layers is None and not self._from_ranges
        self._find: _Find
        if layers is not None:
            self._layers = tuple(layers)
            kernels = {(row.kernel, "") for row in rows}
            ranges = {row.range for row in rows if row.nests and row.domain != _names.OTHER}
            profile, why = _names.running_profile(self._layers, sorted(ranges), sorted(kernels))
            if why:
                self._notes.append(f"the plan has several optimisation profiles; {profile} is taken: {why}")
            names = _names.LayerNames(self._layers)
            self._find = lambda name, domain: names.find(name, domain, profile)
        elif self._from_ranges:
            if not self._own:
                _refuse_nested(rows)
            used = [row for row in rows if self._names_a_layer(row) and (not self._own or row.domain != _names.OTHER)]
            place = _places(_names.without_counters(row.range) for row in used)
            others = {_names.without_counters(row.range) for row in rows if row.domain != _names.MYELIN}
            self._layers = tuple(
                _bare(name, "known by its NVTX range alone", "" if name in others else MYELIN_KIND) for name in place
            )
            kinds = (_names.TENSORRT, _names.MYELIN) if self._own else (_names.OTHER,)
            self._find = lambda name, domain: (
                (place[_names.without_counters(name)],)
                if domain in kinds and _names.without_counters(name) in place
                else ()
            )
        else:
            place = _places(row.kernel for row in rows)
            self._layers = tuple(_bare(name, _ITSELF, "kernel") for name in place)
            self._find = lambda name, _: (place[name],)
        self._runs = tuple(runs) or (1,) * len(self._layers)
        self._tactics = _names.Tactics(self._layers)

    @staticmethod
    def _names_a_layer(row: _Sum) -> bool:
        return row.nests and not _names.is_run(row.range) and not _names.is_whole_graph(row.range)

    def result(self) -> SumsAlignment:
        if self._from_ranges and not self._own:
            self._notes.append("no range is TensorRT's: the layers are the NVTX ranges, whatever they mean")
        groups: defaultdict[tuple[tuple[int, int], str], list[_Sum]] = defaultdict(list)
        pieces: list[_Piece] = []
        for row in self._rows:
            if self._by_range and row.range:
                groups[row.thread, row.kernel].append(row)
            else:
                pieces.append(self._left(row, row.number, row.total_ns, _OUTSIDE if self._by_range else _NO_RANGES))
        for rows in groups.values():
            pieces += self._split(rows)
        # Sums that were printed in coarse units may leave time without a count.
        pieces = [piece._replace(number=max(piece.number, 1)) for piece in pieces if piece.total_ns or piece.number > 0]
        found: list[list[Match]] = [[] for _ in self._layers]
        unattributed: list[Match] = []
        for piece in pieces:
            (found[piece.layer] if piece.layer >= 0 else unattributed).append(self._match(piece))
        captured = sum(piece.total_ns for piece in pieces)
        self._check(captured, [match for own in (*found, unattributed) for match in own], groups)
        inferences, source = self._inferences(pieces)
        matches = tuple(tuple(sorted(own, key=_most_time_first)) for own in found)
        used = tuple(range(len(matches)))
        if self._from_ranges:
            used = tuple(index for index, own in enumerate(matches) if own)
        return SumsAlignment(
            layers=tuple(self._layers[index] for index in used),
            matches=tuple(matches[index] for index in used),
            unattributed=tuple(sorted(unattributed, key=_most_time_first)),
            captured_ns=captured,
            coverage=_coverage((piece.confidence, piece.total_ns) for piece in pieces),
            node_coverage=_coverage(
                (
                    _weaker(piece.confidence, self._layers[piece.layer].match if piece.layer >= 0 else "none"),
                    piece.total_ns,
                )
                for piece in pieces
            ),
            inferences=inferences,
            inference_source=source,
            common=_common(pieces),
            from_kernels=self._from_kernels,
            notes=tuple(self._notes),
        )

    # --- one kernel of one thread ---------------------------------------------------------------

    def _split(self, rows: Sequence[_Sum]) -> Iterator[_Piece]:
        """The sums of one kernel by the ranges of one thread: to layers, so that each run of it counts once."""
        outer, inner = self._named(rows)
        largest = max(rows, key=lambda row: (row.total_ns, row.number))
        taken_outer = sum(row.total_ns for row, _ in outer)
        taken = taken_outer + sum(row.total_ns for row, _ in inner)
        whole, number = largest.total_ns, largest.number
        around = [row for row in rows if row.runs]
        if not (outer and inner) and taken > whole and (not around or taken <= sum(row.total_ns for row in around)):
            # Ranges side by side, and none around all of them.
            whole, number = taken, sum(row.number for row, _ in (*outer, *inner))
        over, again = taken - whole, sum(row.number for row, _ in (*outer, *inner)) - number
        if not around and outer and inner:
            over, again = taken - taken_outer, sum(row.number for row, _ in inner)
        if over > 0 and not (len(outer) == 1 and inner and over <= taken_outer):
            yield self._left(largest, number, whole, _NESTED)
            return
        for row, hits in inner:
            yield self._of_range(row, hits, row.number, row.total_ns)
        for row, hits in outer:
            less, fewer = (over, again) if over > 0 else (0, 0)
            yield self._of_range(row, hits, row.number - fewer, row.total_ns - less)
        rest = whole - taken + max(over, 0)
        if rest > 0:
            many = number - sum(row.number for row, _ in (*outer, *inner)) + (again if over > 0 else 0)
            yield self._left(largest, many, rest, _OUTSIDE)

    def _named(
        self, rows: Sequence[_Sum]
    ) -> tuple[list[tuple[_Sum, tuple[int, ...]]], list[tuple[_Sum, tuple[int, ...]]]]:
        """Rows whose range is of a layer, and the layers: those of TensorRT and others, and Myelin's within them."""
        found = [
            (row, hits) for row in rows if self._names_a_layer(row) and (hits := self._find(row.range, row.domain))
        ]
        outer = [(row, hits) for row, hits in found if row.domain != _names.MYELIN]
        same = {_names.short_name(row.range) for row, _ in outer}
        return outer, [(row, hits) for row, hits in found if row.domain == _names.MYELIN and row.range not in same]

    def _of_range(self, row: _Sum, hits: tuple[int, ...], count: int, total_ns: int) -> _Piece:
        rounds = row.range_count
        if len(hits) > 1:
            by_tactic = set(self._tactics.find(row.kernel, "")) & set(hits)
            if len(by_tactic) != 1:
                return _Piece(-1, row, count, total_ns, "none", _SHARED)
            return _Piece(by_tactic.pop(), row, count, total_ns, "exact", _SHARED_TACTIC)
        if total_ns != row.total_ns:
            return _Piece(hits[0], row, count, total_ns, "inferred", _AROUND, rounds)
        return _Piece(
            hits[0], row, count, total_ns, "inferred" if row.domain == _names.OTHER else "exact", _IN_RANGE, rounds
        )

    def _left(self, row: _Sum, count: int, total_ns: int, reason: str) -> _Piece:
        """What no range leads to a layer: perhaps the name of the kernel does."""
        if self._from_kernels:
            return _Piece(self._find(row.kernel, _names.OTHER)[0], row, count, total_ns, "none", _ITSELF)
        hits = self._tactics.find(row.kernel, "")
        if len(hits) == 1:
            return _Piece(hits[0], row, count, total_ns, "exact", _TACTIC, count)
        if self._tactics:
            reason = f"{reason}; {_MANY if hits else _UNNAMED}"
        return _Piece(-1, row, count, total_ns, "none", reason)

    def _match(self, piece: _Piece) -> Match:
        whole = piece.total_ns == piece.row.total_ns
        return Match(
            layer=self._layers[piece.layer].layer.name if piece.layer >= 0 else None,
            kernel=piece.row.kernel,
            count=piece.number,
            median_ns=piece.row.median_ns if whole else round(piece.total_ns / max(piece.number, 1)),
            total_ns=piece.total_ns,
            confidence=piece.confidence,
            reason="; ".join(filter(None, (piece.reason, piece.row.which))),
        )

    def _check(
        self, captured: int, matches: Iterable[Match], groups: dict[tuple[tuple[int, int], str], list[_Sum]]
    ) -> None:
        """Each run of a kernel counts once: no less than the largest sum of it, no more than all of them."""
        outside = sum(row.total_ns for row in self._rows if not (self._by_range and row.range))
        least = outside + sum(max(row.total_ns for row in rows) for rows in groups.values())
        most = outside + sum(row.total_ns for rows in groups.values() for row in rows)
        total = sum(match.total_ns for match in matches)
        if total != captured or not least <= captured <= most:
            raise CaptureError(
                "kernel time was not conserved",
                why=f"{captured} ns captured, {total} ns attributed, between {least} and {most} ns in the file",
                fix="report this bug",
            )

    # --- inferences -----------------------------------------------------------------------------

    def _inferences(self, pieces: Iterable[_Piece]) -> tuple[int, str]:
        """How many inferences there were: TensorRT's own ranges tell, else how often the layers came."""
        often: defaultdict[tuple[int, int], int] = defaultdict(int)
        for row in self._rows:
            if row.runs:
                often[row.thread] = max(often[row.thread], row.range_count)
        if often:
            return sum(often.values()), "TensorRT's own NVTX ranges"
        rounds: defaultdict[int, dict[tuple[object, ...], int]] = defaultdict(dict)
        weight: Counter[int] = Counter()
        for at, piece in enumerate(pieces):
            if piece.layer >= 0 and piece.rounds and not self._from_kernels:
                # A range counts once however many kernels it launched; by tactic each row counts.
                key = (piece.row.thread, piece.row.range) if piece.reason != _TACTIC else (at,)
                known = rounds[piece.layer]
                known[key] = max(known.get(key, 0), piece.rounds)
                weight[piece.layer] += piece.total_ns
        votes: Counter[int] = Counter()
        for layer, own in rounds.items():
            number, rest = divmod(sum(own.values()), self._runs[layer])
            if not rest:
                votes[number] += weight[layer]
        if not votes or (not self._own and self._from_ranges):
            return 0, ""
        best = max(votes, key=lambda number: (votes[number], -number))
        other = sum(1 for layer, own in rounds.items() if sum(own.values()) != best * self._runs[layer])
        if other:
            self._notes.append(f"{other} of {len(rounds)} layers came another number of times than most, {best}")
        return best, "how often its layers came"


def _refuse_nested(rows: Iterable[_Sum]) -> None:
    """Refuse ranges of which one may lie within the other, where nothing tells layers from what is around them."""
    seen: dict[tuple[tuple[int, int], str], str] = {}
    for row in rows:
        if not row.nests:
            continue
        name = _names.without_counters(row.range)
        other = seen.setdefault((row.thread, row.kernel), name)
        if other != name:
            raise UsageError(
                "the NVTX ranges of this summary may lie within one another",
                why=f"it counts a kernel for each range around it, for {other!r} and for {name!r}, and does not tell "
                "which is the inner one; none is TensorRT's",
                fix="give the capture itself as .sqlite; or its cuda_gpu_kern_sum, which counts each kernel once; or "
                "the layers of the engine with --layers",
            )


def _places(names: Iterable[str]) -> dict[str, int]:
    place: dict[str, int] = {}
    for name in names:
        place.setdefault(name, len(place))
    return place


def _bare(name: str, reason: str, kind: str = "") -> MatchedLayer:
    return MatchedLayer(layer=PlanLayer(name=name, kind=kind), reason=reason)


def _common(pieces: Sequence[_Piece]) -> int:
    """The largest number that the counts of kernels are multiples of, of those which take most of the time."""
    counts: Counter[int] = Counter()
    for piece in pieces:
        counts[piece.number] += piece.total_ns
    total = sum(counts.values())
    found = {math.gcd(one, other) for one in counts for other in counts} if len(counts) <= 1000 else set()
    fits = (n for n in found if sum(ns for count, ns in counts.items() if count % n == 0) >= _COMMON * total)
    return max(fits, default=1)
