"""Every kernel of a GPU capture led back to a layer of a TensorRT plan, with how sure that is and why.

Strategies, the next one for what the last left open:

1. ``launch``: process and correlation id lead to the API call, its thread and time to the innermost NVTX range that is
   named like a layer. Layer ranges are on the host: kernels start after they ended, so overlap in time means nothing.
2. ``graph``: of a CUDA graph, the node leads to the node that was captured, whose thread and time lead to the range.
3. ``tactic``: the kernel is called like the TacticName of one layer alone.
4. ``counterpart``: another iteration runs kernels of the same names in the same order, and there they are known.
5. ``order``: the name fits several layers, as many as there are such kernels, so each takes its turn; or between
   two known kernels of a stream there are as many kernels left as the plan has layers without one.
6. ``helper``: it runs between two kernels of one layer, or adds up what a split product left.

What is left has no layer, and says why. Time is never split: each kernel belongs to one layer or to none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from trtprof.align._gpu_activity import activity, busy_ns
from trtprof.align._gpu_columns import KERNEL, Bools, Codes, Ints, Work, grouped, integers, mixed, pieces, read_work
from trtprof.align._gpu_iterations import Host, base_name, find_iterations
from trtprof.align._gpu_launches import Launches, find_launches, find_origins
from trtprof.align._gpu_ranges import NO_LAYER, nest, read_ranges
from trtprof.align._gpu_strategies import HOWS, NONE, STRATEGIES, Attribution, Strategy
from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.records import Coverage, Match, MatchConfidence, MatchedLayer
from trtprof.base.trace import GpuTrace, Transfer

if TYPE_CHECKING:
    import pandas as pd


WORK_COLUMNS = ("layer", "strategy", "confidence", "iteration", "counted")
"""Columns of `TraceAlignment.work`: one row for each row of `GpuTrace.work`, in its order.

``layer`` is the place in `TraceAlignment.layers`, -1 where there is none; ``iteration`` a row of
`TraceAlignment.iterations`, -1 for none. ``counted`` is True of what `TraceAlignment.captured_ns` adds up: kernels, and
copies and memsets that a layer launched. ``strategy`` and ``confidence`` are categories.
"""

ITERATION_COLUMNS = (
    "start_ns", "end_ns", "kernels", "kernel_ns", "overlap_ns", "copy_ns", "gap_inside_ns", "gap_between_ns",
    "gap_host_ns", "host_start_ns", "host_end_ns", "kept", "reason",
)  # fmt: skip
"""Columns of `TraceAlignment.iterations`.

``start_ns`` to ``end_ns`` is from the first work on the GPU to the last. That time is made of ``kernel_ns`` (all
counted work) less ``overlap_ns`` (what ran beside other counted work), ``copy_ns`` (copies and memsets of no layer,
while nothing else ran), ``gap_host_ns`` (nothing ran, and the call which launched the next work had not returned yet:
the GPU waited for the host), ``gap_inside_ns`` (nothing ran, else, between two kernels of one layer) and
``gap_between_ns`` (nothing ran, else); of several devices, the parts are sums over them. ``host_start_ns`` to
``host_end_ns`` is when the host enqueued it, -1 where that is not known. ``kept`` is False of iterations unlike most
others, and ``reason`` says how.
"""


_CONFIDENCES: tuple[MatchConfidence, ...] = get_args(MatchConfidence)


class LaunchFacts(NamedTuple):
    """How the host launched kernels; 0 where no launch is known."""

    known: int  # Kernels whose launch is known
    call_ns: int  # Median time of such a call
    queue_ns: int  # Median time from the end of the call to the start of the kernel; 0 where the kernel starts sooner
    queue_p90_ns: int  # 90 % of kernels start within this time
    host_ns: int  # Median time in which the host enqueues one kept iteration


class StrategyShare(NamedTuple):
    """What a strategy found."""

    strategy: Strategy
    confidence: MatchConfidence
    kernels: int
    total_ns: int


class TraceAlignment(NamedTuple):
    """The work of a GPU by layers."""

    layers: tuple[MatchedLayer, ...]  # Those given, or one for each NVTX range that launched something
    work: pd.DataFrame  # See `WORK_COLUMNS`
    # For each layer its kernels by name, most time first. ``count`` and ``total_ns`` are over the whole capture,
    # ``median_ns`` is over kept iterations where it runs in one of them.
    matches: tuple[tuple[Match, ...], ...]
    unattributed: tuple[Match, ...]  # Kernels without a layer, and why
    captured_ns: int  # All kernels, and copies and memsets of layers: what matches and unattributed add up to
    coverage: Coverage  # Shares of ``captured_ns`` by how surely it was led to layers
    node_coverage: Coverage  # The same by how surely it was led to ONNX nodes: the weaker of kernel -> layer -> nodes
    shares: tuple[StrategyShare, ...]  # What each strategy found
    # For each layer, the median over kept iterations of the time of its kernels in one.
    per_iteration_ns: tuple[int, ...]
    iterations: pd.DataFrame  # See `ITERATION_COLUMNS`
    iteration_source: str  # In words, what tells iterations apart; empty where nothing does
    busy_ns: int  # Time in which some counted work ran, over the whole capture
    transfers: tuple[Transfer, ...]  # What else ran
    launching: LaunchFacts  # See `LaunchFacts`
    notes: tuple[str, ...]  # What was odd, in words


def align_trace(
    trace: GpuTrace,
    layers: Sequence[MatchedLayer] | None,
    *,
    device: int | None = None,
    iteration_range: str | None = None,
) -> TraceAlignment:
    """Lead every kernel of a capture back to at most one layer: matches and unattributed sum to captured_ns, to the ns.

    ``layers`` are in execution order; None takes them from the NVTX ranges. ``iteration_range`` is as ``marks`` of
    `find_iterations`.
    """
    work = read_work(trace.work, device)
    _check(trace, work, device)
    notes: list[str] = []
    launches = find_launches(trace.work, trace.launches)
    launches = Launches(launches.row[work.row], launches.early[work.row])
    origins = find_origins(trace.work, trace.graph_nodes)
    origins = origins._replace(node=origins.node[work.row])
    host = Host(
        row=launches.row,
        pid=trace.work["pid"].to_numpy()[work.row],
        graph=(trace.work["graph_node"].to_numpy() != 0)[work.row],
        starts=integers(trace.launches["start_ns"]),
        ends=integers(trace.launches["end_ns"]),
        tids=trace.launches["tid"].to_numpy(),
    )
    ranges = read_ranges(trace.ranges)
    inferences = nest(ranges, np.flatnonzero(ranges.is_run()).astype(np.int32))
    iterations = find_iterations(work, host, ranges, inferences, iteration_range)
    if iteration_range is not None and iteration_range not in {*iterations.marks, *map(base_name, iterations.marks)}:
        notes.append(f"no NVTX range {iteration_range!r}: iterations are told by other means")
    found = Attribution(work, launches, host, origins, ranges, inferences, iterations, layers, notes)
    found.run()
    return _Totals(found).result(trace)


def _check(trace: GpuTrace, work: Work, device: int | None) -> None:
    if (work.kind == KERNEL).any():
        return
    worked = sorted(set(integers(trace.work["device"]).tolist())) if len(trace.work) else []
    if device is not None and worked and device not in worked:
        raise UsageError(
            f"GPU {device} did nothing in this capture",
            why=f"work of GPU {', '.join(map(str, worked))} is in it",
            fix="name one of those",
        )
    raise CaptureError(
        "the capture holds no kernels",
        why="; ".join(trace.notes) or "nothing ran on a GPU between its start and its end",
        fix="capture CUDA (`nsys profile -t cuda,nvtx`) over the inferences, and check that the window holds them",
    )


class _Totals:
    """What was found, added up."""

    def __init__(self, found: Attribution) -> None:
        self._found = found
        self.work, self.kernel, self.layer, self.how = found.work, found.kernel, found.layer, found.how
        self.layers, self.iterations, self.host, self.launches = (
            found.layers, found.iterations, found.host, found.launches
        )  # fmt: skip
        self.notes = found.notes

    def result(self, trace: GpuTrace) -> TraceAlignment:
        work, counted = self.work, self.kernel | (self.layer != NO_LAYER)
        captured = int(work.duration[counted].sum())
        kept, iterations = self._iterations(counted)
        of_work = self.iterations.of_work
        in_kept = (of_work >= 0) & np.append(kept, False)[of_work]
        matches, unattributed, shares = self._matches(trace, counted, in_kept)
        total = sum(match.total_ns for found in (*matches, unattributed) for match in found)
        if total != captured:
            raise CaptureError(
                "kernel time was not conserved",
                why=f"{captured} ns captured, {total} ns attributed",
                fix="report this bug",
            )
        medians = [0] * len(self.layers)
        sums = np.zeros(len(kept), dtype=np.int64)
        for layer, rows in grouped(self.layer):
            if layer == NO_LAYER or not kept.any():
                continue
            sums[:] = 0
            mine = rows[self.iterations.of_work[rows] >= 0]
            np.add.at(sums, self.iterations.of_work[mine], self.work.duration[mine])
            medians[layer] = _median(sums[kept])
        per_iteration = tuple(medians)
        return TraceAlignment(
            layers=self.layers,
            matches=matches,
            unattributed=unattributed,
            captured_ns=captured,
            coverage=_coverage(
                (match.confidence, match.total_ns) for found in (*matches, unattributed) for match in found
            ),
            node_coverage=_coverage(
                (_weaker(match.confidence, match_of_nodes), match.total_ns)
                for match_of_nodes, found in zip(
                    (*(layer.match for layer in self.layers), "none"), (*matches, unattributed), strict=True
                )
                for match in found
            ),
            shares=shares,
            per_iteration_ns=per_iteration,
            iterations=iterations,
            iteration_source=self.iterations.source,
            busy_ns=busy_ns(work, counted),
            transfers=self._transfers(trace, counted, kept),
            launching=self._launching(iterations),
            notes=tuple(self.notes),
            work=self._work_frame(len(trace.work), counted),
        )

    def _work_frame(self, length: int, counted: Bools) -> pd.DataFrame:
        """The columns in the order of the rows that were given."""
        import pandas as pd

        strategy = np.array([STRATEGIES.index(how.strategy) for how in HOWS], dtype=np.int8)
        confidence = np.array([_CONFIDENCES.index(how.confidence) for how in HOWS], dtype=np.int8)
        columns: dict[str, Any] = {}
        for column, values, nothing in (
            ("layer", self.layer, NO_LAYER),
            ("strategy", strategy[self.how], STRATEGIES.index("none")),
            ("confidence", confidence[self.how], _CONFIDENCES.index("none")),
            ("iteration", self.iterations.of_work, -1),
            ("counted", counted, False),
        ):
            columns[column] = np.full(length, nothing, dtype=values.dtype)
            columns[column][self.work.row] = values
        for column, words in (("strategy", STRATEGIES), ("confidence", _CONFIDENCES)):
            columns[column] = pd.Categorical.from_codes(columns[column], pd.Index(words), validate=False)
        return pd.DataFrame(columns, columns=list(WORK_COLUMNS), copy=False)

    def _iterations(self, counted: Bools) -> tuple[Bools, pd.DataFrame]:
        """Which iterations are alike, and what the GPU did in each."""
        import pandas as pd

        of_work, count = self.iterations.of_work, len(self.iterations.host_start)
        table = activity(self.work, of_work, count, self.layer, counted, self.host.row, self.host.ends)
        table["host_start_ns"], table["host_end_ns"] = self.iterations.host_start, self.iterations.host_end
        # A sum does not depend on the order: iterations are alike that run the same kernels for the same layers.
        alike = np.zeros(count, dtype=np.uint64)
        for piece in pieces(len(of_work)):
            rows = piece.start + np.flatnonzero((of_work[piece] >= 0) & self.kernel[piece])
            mark = mixed((mixed(self.layer[rows], 0) + mixed(self.work.name[rows], 1)).view(np.int64), 2)
            np.add.at(alike, of_work[rows], mark)
        marks, first, kind, size = np.unique(alike, return_index=True, return_inverse=True, return_counts=True)
        kept = np.zeros(count, dtype=np.bool_)
        reason = np.zeros(count, dtype=np.int8)
        if count:
            usual = min(range(len(marks)), key=lambda index: (-size[index], first[index]))
            kept = kind == usual if size[usual] > 1 else np.ones(count, dtype=np.bool_)
            kernels = table["kernels"].to_numpy()
            reason = np.where(kept, 0, 2 + np.sign(kernels - kernels[first[usual]])).astype(np.int8)
            if size[usual] == 1 and count > 1:
                self.notes.append(f"no two of {count} iterations run the same kernels: medians are over all of them")
            elif not kept.all():
                self.notes.append(f"{int((~kept).sum())} of {count} iterations are unlike the others: not in medians")
        words = ("", "fewer kernels than most iterations", "other kernels than most iterations",
                 "more kernels than most iterations")  # fmt: skip
        table["kept"] = kept
        table["reason"] = pd.Categorical.from_codes(reason.tolist(), pd.Index(words))
        return kept, table[list(ITERATION_COLUMNS)]

    def _matches(
        self, trace: GpuTrace, counted: Bools, in_kept: Bools
    ) -> tuple[tuple[tuple[Match, ...], ...], tuple[Match, ...], tuple[StrategyShare, ...]]:
        import pandas as pd

        names = max(len(self.work.names), 1)
        why = np.where(self.layer == NO_LAYER, 32 + 8 * self._found.cause + self._found.later, self.how)
        keys = ((self.layer + np.int64(1)) * names + self.work.name) * 128 + why
        keys[~counted] = -1
        numbers, distinct = pd.factorize(keys)
        del keys, why
        found: list[list[Match]] = [[] for _ in self.layers]
        unattributed: list[Match] = []
        shares: dict[tuple[int, Strategy, MatchConfidence], list[int]] = {}
        groups = list(grouped(numbers))
        geometry = _Geometry(trace, self.work, numbers, groups)
        for number, rows in groups:
            key = int(distinct[number])
            if key < 0:
                continue
            duration, regular = self.work.duration[rows], in_kept[rows]
            count, total = len(rows), int(duration.sum())
            # Of a kernel that runs in odd iterations alone, over these.
            typical = regular if regular.any() else slice(None)
            median, launch = _median(duration[typical]), geometry.of(number, rows, typical)
            rest, code = divmod(key, 128)
            at, name = divmod(rest, names)
            how = HOWS[code] if code < 32 else NONE
            match = Match(
                layer=self.layers[at - 1].layer.name if at else None,
                kernel=self.work.names[name],
                count=count,
                median_ns=median,
                total_ns=total,
                confidence=how.confidence,
                reason=how.reason if code < 32 else self._found.reason(*divmod(code - 32, 8)),
                blocks=launch.blocks,
                threads=launch.threads,
                registers=launch.registers,
                shared_bytes=launch.shared_bytes,
            )
            (found[at - 1] if at else unattributed).append(match)
            share = shares.setdefault((STRATEGIES.index(how.strategy), how.strategy, how.confidence), [0, 0])
            share[0] += count
            share[1] += total
        return (
            tuple(tuple(sorted(own, key=_most_time_first)) for own in found),
            tuple(sorted(unattributed, key=_most_time_first)),
            tuple(
                StrategyShare(strategy, confidence, count, total)
                for (_, strategy, confidence), (count, total) in sorted(shares.items())
            ),
        )

    def _transfers(self, trace: GpuTrace, counted: Bools, kept: Bools) -> tuple[Transfer, ...]:
        rows = np.flatnonzero(~counted)
        found = []
        for name, mine in grouped(self.work.name[rows]):
            own = rows[mine]
            duration, of_work = self.work.duration[own], self.iterations.of_work[own]
            sums = np.zeros(len(kept), dtype=np.int64)
            np.add.at(sums, of_work[of_work >= 0], duration[of_work >= 0])
            found.append(
                Transfer(
                    name=self.work.names[name],
                    number=len(own),
                    total_ns=int(duration.sum()),
                    bytes=int(trace.work["bytes"].to_numpy()[self.work.row[own]].sum()),
                    per_iteration_ns=_median(sums[kept]),
                )
            )
        return tuple(found)

    def _launching(self, iterations: pd.DataFrame) -> LaunchFacts:
        row = self.launches.row[self.kernel]
        called = np.zeros(len(self.host.starts), dtype=np.bool_)
        called[row[row >= 0]] = True
        known = np.flatnonzero(self.kernel & (self.launches.row >= 0)).astype(np.int32)
        queue = self.work.start[known]
        queue -= self.host.ends[self.launches.row[known]]
        np.maximum(queue, 0, out=queue)
        queue.sort()
        timed = iterations[iterations["kept"] & (iterations["host_start_ns"] >= 0)]
        host = (timed["host_end_ns"] - timed["host_start_ns"]).to_numpy()
        return LaunchFacts(
            known=len(known),
            call_ns=_median((self.host.ends - self.host.starts)[called]),
            queue_ns=_median(queue),
            queue_p90_ns=int(queue[(9 * len(queue) - 1) // 10]) if len(queue) else 0,
            host_ns=_median(host),
        )


class _Launch(NamedTuple):
    """Blocks of a launch, threads of a block, registers of a thread, bytes of shared memory of a block."""

    blocks: int
    threads: int
    registers: int
    shared_bytes: int


class _Geometry:
    """How the kernels of each group of rows were launched."""

    def __init__(
        self, trace: GpuTrace, work: Work, numbers: Codes, groups: Sequence[tuple[int, npt.NDArray[np.intp]]]
    ) -> None:
        self._row = work.row
        self._columns = {
            name: trace.work[name].to_numpy()
            for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_smem",
                         "dynamic_smem")
        }  # fmt: skip
        first = work.row[[rows[0] for _, rows in groups]] if groups else work.row[:0]
        # Rows as they were given are a slice of a column, which is far cheaper than to pick them.
        straight = bool((work.row[1:] > work.row[:-1]).all()) and len(work.row) == len(trace.work)
        self._mixed = {
            name: self._unlike(column, column[first], numbers, straight=straight)
            for name, column in self._columns.items()
        }

    def of(self, number: int, rows: npt.NDArray[np.intp], typical: Bools | slice) -> _Launch:
        """Medians over some rows of a group; of an even number the lower one, so that it is that of a launch."""

        def median(join: Callable[[Iterable[Any]], Any], *names: str) -> int:
            columns = [self._columns[name] for name in names]
            if not any(number in self._mixed[name] for name in names):
                return int(join(int(column[self._row[rows[0]]]) for column in columns))
            values = join(column[self._row[rows[typical]]].astype(np.int64) for column in columns)
            middle = (len(values) - 1) // 2
            return int(np.partition(values, middle)[middle])

        return _Launch(
            median(math.prod, "grid_x", "grid_y", "grid_z"),
            median(math.prod, "block_x", "block_y", "block_z"),
            median(sum, "registers"),
            median(sum, "static_smem", "dynamic_smem"),
        )

    def _unlike(
        self, column: npt.NDArray[Any], first: npt.NDArray[Any], numbers: Codes, *, straight: bool
    ) -> frozenset[int]:
        """Groups in which a column differs from its value in their first row."""
        same = first[0] if len(first) and (first == first[0]).all() else None
        found: set[int] = set()
        for piece in pieces(len(numbers)):
            values = column[piece] if straight else column[self._row[piece]]
            differs = values != (first[numbers[piece]] if same is None else same)
            if differs.any():
                found.update(np.unique(numbers[piece][differs]).tolist())
        return frozenset(found)


def _median(values: Ints) -> int:
    if not len(values):
        return 0
    low, high = (len(values) - 1) // 2, len(values) // 2
    ordered = np.partition(values, (low, high))
    middle, odd = divmod(int(ordered[low]) + int(ordered[high]), 2)
    # Halves go to the even number, as `round` has it.
    return middle + (odd and middle % 2)


def _most_time_first(match: Match) -> tuple[int, str, str]:
    return -match.total_ns, match.kernel, match.reason


def _weaker(one: MatchConfidence, other: MatchConfidence) -> MatchConfidence:
    order: tuple[MatchConfidence, ...] = ("none", "inferred", "exact")
    return min(one, other, key=order.index)


def _coverage(shares: Iterable[tuple[MatchConfidence, int]]) -> Coverage:
    times: Counter[MatchConfidence] = Counter()
    for confidence, time in shares:
        times[confidence] += time
    total = sum(times.values())
    if not total:
        return Coverage(exact=1.0, inferred=0.0, unattributed=0.0)
    return Coverage(
        exact=times["exact"] / total, inferred=times["inferred"] / total, unattributed=times["none"] / total
    )
