"""The tables of a run, of which csv and parquet write one at a time: columns with their units, rows of plain values.

A table is a view of the document (`json_`): same names, same units, nothing computed but sums for one row a layer.
`TABLES` lists them all; their columns are public, and a new one is put behind the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from profiler.base.errors import UsageError
from profiler.base.records import LayerResult, Match, Run
from profiler.report._format import headline

__all__ = ["TABLES", "Cell", "Column", "Table", "table_of"]

Cell = str | int | float | bool | tuple[str, ...] | None
"""A value of a table. None is unknown, which is not 0."""

Kind = Literal["name", "fact", "estimate", "hypothesis", "mixed"]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: What it is called. ``*_ns`` are nanoseconds, ``flops`` FLOP, ``bytes*`` bytes.
        type: Of its values, where they are known.
        unit: ``ns``, ``FLOP``, ``B``, ``1`` for counts and shares, ``""`` of names.
        kind: What its values are: measured (``fact``), computed (``estimate``), a cause (``hypothesis``), a
            description (``name``), or that which another column of the row says (``mixed``).
        meaning: In words.
    """

    name: str
    type: Literal["str", "int", "float", "bool", "list"]
    unit: str
    kind: Kind
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table of a run.

    Attributes:
        name: What ``--table`` calls it.
        meaning: What a row is, in words.
        columns: Its columns, in order.
        rows: One tuple a row, as long as ``columns``.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[Run], Iterator[tuple[Cell, ...]]]


TABLES: dict[str, Table] = {}
"""All tables by name."""


def table_of(name: str) -> Table:
    """The table of that name.

    Raises:
        UsageError: There is no such table.
    """
    found = TABLES.get(name)
    if found is None:
        raise UsageError(f"no table {name!r}", fix=f"use one of: {', '.join(TABLES)}")
    return found


def _text(name: str, meaning: str, kind: Kind = "name") -> Column:
    return Column(name, "str", "", kind, meaning)


def _list(name: str, meaning: str, kind: Kind = "name") -> Column:
    return Column(name, "list", "", kind, meaning)


def _ns(name: str, kind: Kind, meaning: str) -> Column:
    return Column(name, "int", "ns", kind, meaning)


def _count(name: str, kind: Kind, meaning: str, unit: str = "1") -> Column:
    return Column(name, "int", unit, kind, meaning)


def _share(name: str, kind: Kind, meaning: str) -> Column:
    return Column(name, "float", "1", kind, meaning)


def _table(
    name: str, meaning: str, *columns: Column
) -> Callable[[Callable[[Run], Iterator[tuple[Cell, ...]]]], Callable[[Run], Iterator[tuple[Cell, ...]]]]:
    def add(rows: Callable[[Run], Iterator[tuple[Cell, ...]]]) -> Callable[[Run], Iterator[tuple[Cell, ...]]]:
        TABLES[name] = Table(name, meaning, columns, rows)
        return rows

    return add


@_table(
    "layers",
    "a layer of the engine, ranked by time lost",
    _count("rank", "name", "place by time lost, 1 for the largest loss"),
    _text("name", "of the layer"),
    _text("op_type", "what the backend calls its kind"),
    _text("role", "compute, layout, control, ..."),
    _list("nodes", "ONNX nodes that it computes"),
    _ns("measured_ns", "fact", "median time of one inference"),
    _ns("ideal_ns", "estimate", "least time at the best ceilings of the device"),
    _ns("attainable_ns", "estimate", "least time at the ceilings of this run"),
    _ns("lost_ns", "estimate", "measured less attainable; negative where it was faster than the estimate"),
    _text("bound", "what its time is bounded by", "estimate"),
    _text("runner_up", "the bound that comes next", "estimate"),
    _count("flops", "estimate", "work", "FLOP"),
    _count("bytes", "estimate", "bytes that it must move", "B"),
    _text("dtype", "what is multiplied, or computed with"),
    _text("shapes", "of its tensors, in words"),
    _text("match", "how surely it was led to its nodes: exact, inferred, none"),
    _text("reason", "the evidence for that"),
    Column("constant", "bool", "", "name", "its inputs are all constants, yet it runs on every inference"),
    _list("kernels", "that it launches"),
    _count("launches", "fact", "of its kernels, in all profiled inferences"),
    _count("tensor_flops", "estimate", "FLOP of multiply-accumulates", "FLOP"),
    _count("vector_flops", "estimate", "FLOP of all other arithmetic", "FLOP"),
    _count("special_flops", "estimate", "FLOP of special functions", "FLOP"),
    _count("bytes_read", "estimate", "from outside, parameters included", "B"),
    _count("bytes_written", "estimate", "for others", "B"),
    _count("bytes_parameters", "estimate", "of those read: constant weights", "B"),
    _text("work_bound", "whether the work is exact, or an upper or lower bound"),
    _text("work_note", "why it is a bound"),
)
def _layers(run: Run) -> Iterator[tuple[Cell, ...]]:
    for rank, layer in enumerate(run.layers, 1):
        yield _layer(rank, layer)


def _layer(rank: int, layer: LayerResult) -> tuple[Cell, ...]:
    work = layer.work
    return (
        rank,
        layer.name,
        layer.op_type,
        layer.role,
        layer.nodes,
        layer.measured_ns,
        layer.ideal_ns,
        layer.attainable_ns,
        layer.lost_ns,
        layer.bound,
        layer.runner_up,
        layer.flops,
        layer.bytes,
        layer.dtype,
        layer.shapes,
        layer.match,
        layer.reason,
        layer.constant,
        tuple(match.kernel for match in layer.kernels),
        sum(match.count for match in layer.kernels),
        work.tensor_flops if work else None,
        work.vector_flops if work else None,
        work.special_flops if work else None,
        work.bytes_read if work else None,
        work.bytes_written if work else None,
        work.bytes_parameters if work else None,
        work.bound if work else None,
        work.note if work else None,
    )


@_table(
    "kernels",
    "the kernels of one name in one layer, layers by time lost; those of no layer last",
    _text("layer", "that launches it; unknown where it was led to none"),
    _text("kernel", "its name"),
    _count("count", "fact", "launches in all profiled inferences"),
    _ns("median_ns", "fact", "of one launch, as captured"),
    _ns("total_ns", "fact", "of all launches; over all rows they sum to the kernel time captured"),
    _text("match", "how surely it was led to the layer: exact, inferred, none"),
    _text("reason", "the evidence for that"),
    _count("blocks", "fact", "thread blocks of a launch; unknown on a CPU, as are all that follow"),
    _count("threads", "fact", "of a block"),
    _count("registers", "fact", "of a thread"),
    _count("shared_bytes", "fact", "shared memory of a block", "B"),
)
def _kernels(run: Run) -> Iterator[tuple[Cell, ...]]:
    for layer in run.layers:
        for match in layer.kernels:
            yield _kernel(match)
    for match in run.kernels_unattributed:
        yield _kernel(match)


def _kernel(match: Match) -> tuple[Cell, ...]:
    # Without its grid nothing is known of a launch: the 0 of a record stands for that.
    launch = (match.blocks, match.threads, match.registers, match.shared_bytes) if match.blocks else (None,) * 4
    return (
        match.layer,
        match.kernel,
        match.count,
        match.median_ns,
        match.total_ns,
        match.confidence,
        match.reason,
        *launch,
    )


@_table(
    "nodes",
    "a node of the ONNX model, in graph order; time belongs to layers and is never split over nodes",
    _text("name", "of the node"),
    _text("op_type", "of the node"),
    _text("graph", "path of the subgraph that holds it, empty for the main graph"),
    _text("fate", "what became of it: layer, folded, eliminated, lost"),
    _list("layers", "that compute it"),
    _count("flops", "estimate", "work", "FLOP"),
    _count("bytes", "estimate", "bytes that it must move on its own", "B"),
    _text("reason", "why that became of it"),
)
def _nodes(run: Run) -> Iterator[tuple[Cell, ...]]:
    for node in run.nodes:
        yield node.name, node.op_type, node.graph, node.fate, node.layers, node.flops, node.bytes, node.reason


@_table(
    "ledger",
    "a step from ideal to the measured latency; the steps sum to it",
    _count("step", "name", "from 1"),
    _text("cause", "of the step"),
    _ns("ns", "mixed", "of the step"),
    _text("kind", "whether ns is a fact, an estimate, or the remainder"),
    _text("meaning", "in words"),
)
def _ledger(run: Run) -> Iterator[tuple[Cell, ...]]:
    for step, row in enumerate(run.ledger, 1):
        yield step, row.cause, row.ns, row.kind, row.meaning


@_table(
    "findings",
    "a likely cause, or a doubt about the measurement",
    _text("code", "of the rule: `trtprof rules CODE` explains it"),
    _text("title", "of the rule", "hypothesis"),
    _text("severity", "info, warning, critical"),
    _text("kind", "hypothesis: a likely cause; trust: a doubt"),
    _text("where", "in words"),
    _text("evidence", "the facts and estimates behind it", "mixed"),
    _ns("lost_ns", "estimate", "time lost that this finding alone claims"),
    _share("confidence", "estimate", "that it is the cause, 0 to 1"),
    _text("try", "the remedy", "hypothesis"),
    _list("layers", "where time is claimed"),
)
def _findings(run: Run) -> Iterator[tuple[Cell, ...]]:
    for one in run.findings:
        yield (
            one.code,
            one.title,
            one.severity,
            one.kind,
            one.where,
            one.evidence,
            one.lost_ns,
            one.confidence,
            one.try_,
            one.layers,
        )


@_table(
    "plugins",
    "a layer for which a hand-written kernel was weighed, most net gain first; times are of one inference",
    _text("layer", "to be replaced"),
    _list("nodes", "ONNX nodes that it computes"),
    _text("kernel", "that it launches now"),
    _ns("measured_ns", "fact", "of the layer"),
    _ns("reachable_ns", "estimate", "what kernels of this class reach on this device"),
    _text("basis", "where that is from"),
    _ns("recoverable_ns", "estimate", "measured less reachable"),
    _ns("barrier_ns", "estimate", "what a plugin costs by cutting fusion"),
    _list("barrier", "its parts, in words"),
    _ns("net_ns", "estimate", "recoverable less barrier"),
    _ns("net_low_ns", "estimate", "lower end of its interval"),
    _ns("net_high_ns", "estimate", "upper end of its interval"),
    _text("verdict", "write it, try first, do not", "hypothesis"),
    _text("why", "in words", "mixed"),
    _list("ladder", "cheaper fixes to try first, each with its command", "hypothesis"),
)
def _plugins(run: Run) -> Iterator[tuple[Cell, ...]]:
    for one in run.candidates:
        yield (
            one.layer,
            one.nodes,
            one.kernel,
            one.measured_ns,
            one.reachable_ns,
            one.basis,
            one.recoverable_ns,
            sum(part.ns for part in one.barrier),
            tuple(part.what for part in one.barrier),
            one.net_ns,
            one.net_low_ns,
            one.net_high_ns,
            one.verdict,
            one.why,
            tuple(f"{step.what}: {step.command}" for step in one.ladder),
        )


@_table(
    "timeline",
    "an event of one inference as captured, by its start; no row where nobody saw when kernels ran",
    _count("iteration", "name", "which of the profiled inferences it is"),
    _text("lane", "where it ran: a stream, a thread"),
    _text("kind", "of the lane: kernels, copies, host"),
    _count("depth", "name", "1 for what runs inside events of depth 0"),
    _text("layer", "that launched it; unknown where it was led to none"),
    _text("name", "of the kernel, the copy, the call"),
    _ns("start_ns", "fact", "from the first event on"),
    _ns("dur_ns", "fact", "as captured, the profiler's own time included"),
)
def _timeline(run: Run) -> Iterator[tuple[Cell, ...]]:
    line = run.timeline
    if line is None:
        return
    for at, layer, name, start_ns, dur_ns in zip(
        line.lane, line.layer, line.name, line.start_ns, line.dur_ns, strict=True
    ):
        lane = line.lanes[at]
        yield (
            line.iteration,
            lane.name,
            lane.kind,
            lane.depth,
            line.layers[layer] if layer >= 0 else None,
            line.names[name],
            start_ns,
            dur_ns,
        )


@_table(
    "edges",
    "a tensor that one layer writes and another reads; no row where neither a plan nor a model tells",
    _text("layer_from", "that writes it"),
    _text("layer_to", "that reads it"),
    _text("tensor", "its name"),
    _count("nbytes", "estimate", "its size", "B"),
)
def _edges(run: Run) -> Iterator[tuple[Cell, ...]]:
    graph = run.graph
    if graph is None:
        return
    for source, target, tensor, nbytes in zip(
        graph.layer_from, graph.layer_to, graph.tensor, graph.nbytes, strict=True
    ):
        yield graph.layers[source], graph.layers[target], tensor, None if nbytes < 0 else nbytes


@_table(
    "fusions",
    "a fusion of a TensorRT engine that did not happen, that which would save most first",
    _text("tensor", "that goes through memory"),
    _text("maker", "the layer that writes it"),
    _list("readers", "the layers that read it"),
    _text("kind", "what would have to fuse: epilogue, prologue, pointwise, products, layout"),
    Column("expected", "bool", "", "estimate", "whether engines fuse such nodes as a rule"),
    _text("reason", "in words", "hypothesis"),
    _count("bytes", "estimate", "written once and read by every reader", "B"),
    _ns("saved_ns", "estimate", "what the layers would take less as one"),
)
def _fusions(run: Run) -> Iterator[tuple[Cell, ...]]:
    for edge in run.plan.edges if run.plan is not None else ():
        yield (
            edge.tensor,
            edge.maker,
            edge.readers,
            edge.kind,
            edge.expected,
            edge.reason,
            edge.bytes,
            edge.saved_ns,
        )


@_table(
    "reformats",
    "a layer of a TensorRT engine that only brings a tensor into another dtype, order or padding",
    _text("layer", "its name"),
    _text("origin", "why it is there"),
    _text("serves", "the layer or binding that it is made for"),
    _text("change", "in words"),
    _count("bytes", "estimate", "that it moves", "B"),
    _ns("ns", "fact", "median time of one inference"),
)
def _reformats(run: Run) -> Iterator[tuple[Cell, ...]]:
    for one in run.plan.reformats if run.plan is not None else ():
        yield one.layer, one.origin, one.serves, one.change, one.bytes, one.ns


@_table(
    "counters",
    "a prediction about a layer held against hardware counters",
    _text("layer", "whose kernels were counted"),
    _text("what", "DRAM bytes, FLOP, math unit"),
    _text("verdict", "confirmed, refuted, not told"),
    Column("predicted_low", "float", "", "estimate", "in B or FLOP; of the math unit 1 for tensor cores"),
    Column("predicted_high", "float", "", "estimate", "the same"),
    Column("counted_low", "float", "", "fact", "the same"),
    Column("counted_high", "float", "", "fact", "the same"),
    _text("reason", "in words, with the numbers", "mixed"),
)
def _counters(run: Run) -> Iterator[tuple[Cell, ...]]:
    for one in run.confirmations:
        for check in one.checks:
            yield (
                one.layer,
                check.what,
                check.verdict,
                check.predicted_low,
                check.predicted_high,
                check.counted_low,
                check.counted_high,
                check.reason,
            )


@_table(
    "unsupported",
    "ops without a cost function: what they need is unknown, not 0",
    _text("domain", "empty for ai.onnx"),
    _text("op_type", "the op"),
    _count("count", "fact", "nodes or layers of it"),
    _ns("measured_ns", "fact", "of one inference"),
    _share("share", "fact", "of the kernel time, 0 to 1"),
    _text("reason", "in words"),
)
def _unsupported(run: Run) -> Iterator[tuple[Cell, ...]]:
    for one in run.unsupported:
        yield one.domain, one.op_type, one.count, one.measured_ns, one.share, one.reason


@_table(
    "run",
    "the run itself: one row, to stack with those of other runs",
    _text("model", "its name"),
    _text("model_sha256", "digest of the .onnx file"),
    _text("backend", "that ran it"),
    _text("device", "that it ran on"),
    _text("created", "date and time, ISO 8601"),
    _list("tags", "what its owner calls it"),
    _ns("median_ns", "fact", "latency of one inference; without samples the sum of the layers"),
    _ns("p99_ns", "fact", "latency that 99 of 100 samples are under"),
    _share("cv", "fact", "standard deviation over mean of the latency"),
    _count("samples", "fact", "of the latency"),
    _ns("attainable_ns", "estimate", "sum over the layers that do the model's work"),
    _ns("ideal_ns", "estimate", "the same at the best ceilings of the device"),
    _share("of_roof", "estimate", "attainable over measured"),
    _share("exact", "fact", "kernel time led back to ONNX nodes exactly"),
    _share("inferred", "fact", "kernel time led back by inference"),
    _share("unattributed", "fact", "kernel time led back to nothing"),
    _count("layers", "fact", "that took time"),
    _count("findings", "hypothesis", "likely causes"),
    _count("doubts", "name", "findings about the measurement"),
    _text("verdict", "in words", "mixed"),
)
def _run(run: Run) -> Iterator[tuple[Cell, ...]]:
    sums = headline(run)
    sampled = run.latency.n > 0
    doubts = sum(one.kind == "trust" for one in run.findings)
    yield (
        run.model.name,
        run.model.sha256 or None,
        run.backend.name,
        run.device.name,
        run.created or None,
        run.tags,
        run.latency.median_ns,
        run.latency.p99_ns if sampled else None,
        run.latency.cv if sampled else None,
        run.latency.n,
        sums.attainable_ns,
        sums.ideal_ns,
        sums.of_roof,
        run.coverage.exact,
        run.coverage.inferred,
        run.coverage.unattributed,
        len(run.layers),
        len(run.findings) - doubts,
        doubts,
        run.verdict,
    )
