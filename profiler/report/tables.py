"""The tables of a document, of which csv and parquet write one at a time: columns with units, rows of plain values.

A table is a view of the record (`formats.json_`): same names, same units, nothing computed but sums for one row a
layer. `tables_of` lists those of a record, the first one first; their columns are public, and a new one is put behind
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from profiler.base.errors import UsageError
from profiler.base.plan_words import precision
from profiler.base.records import (
    CeilingsDocument,
    Comparisons,
    EnginePlan,
    GpuListing,
    GpuSheet,
    Inspection,
    OpSweep,
    OpSweepTime,
    PlanTensor,
    PredictedLayer,
    Prediction,
    Record,
    Run,
    Sweep,
    Work,
)
from profiler.report._format import dims_text, headline

__all__ = ["TABLES", "Cell", "Column", "Table", "table_of", "tables_of"]

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
    """A table of a record.

    Attributes:
        name: What ``--table`` calls it.
        meaning: What a row is, in words.
        columns: Gives its columns, in order; of a sweep they depend on what was swept.
        rows: One tuple a row, as long as ``columns``.
    """

    name: str
    meaning: str
    columns: Callable[[Any], tuple[Column, ...]]
    rows: Callable[[Any], Iterator[tuple[Cell, ...]]]


_TABLES: dict[type[Record], dict[str, Table]] = {}


def tables_of(record: type[Record]) -> dict[str, Table]:
    """The tables of records of a type, by name."""
    return _TABLES.get(record, {})


def table_of(name: str, record: type[Record] = Run) -> Table:
    """The table of that name; without one the first.

    Raises:
        UsageError: There is no such table.
    """
    known = tables_of(record)
    found = known.get(name) if name else next(iter(known.values()), None)
    if found is None:
        raise UsageError(f"no table {name!r}", fix=f"use one of: {', '.join(known)}")
    return found


class _Field(NamedTuple):
    """A column, and what it shows of an item of the table; by default the field of its name."""

    column: Column
    of: Callable[[Any], Any]


def _field(name: str, type_: Literal["str", "int", "float", "bool", "list"], unit: str, kind: Kind, meaning: str,
           of: str | Callable[[Any], Any] = "") -> _Field:  # fmt: skip
    return _Field(Column(name, type_, unit, kind, meaning), attrgetter(of or name) if isinstance(of, str) else of)


def _text(name: str, meaning: str, kind: Kind = "name", of: str | Callable[[Any], Any] = "") -> _Field:
    return _field(name, "str", "", kind, meaning, of)


def _list(name: str, meaning: str, kind: Kind = "name", of: str | Callable[[Any], Any] = "") -> _Field:
    return _field(name, "list", "", kind, meaning, of)


def _ns(name: str, kind: Kind, meaning: str, of: str | Callable[[Any], Any] = "") -> _Field:
    return _field(name, "int", "ns", kind, meaning, of)


def _count(name: str, kind: Kind, meaning: str, unit: str = "1", of: str | Callable[[Any], Any] = "") -> _Field:
    return _field(name, "int", unit, kind, meaning, of)


def _number(name: str, kind: Kind, meaning: str, unit: str = "", of: str | Callable[[Any], Any] = "") -> _Field:
    return _field(name, "float", unit, kind, meaning, of)


def _share(name: str, kind: Kind, meaning: str, of: str | Callable[[Any], Any] = "") -> _Field:
    return _number(name, kind, meaning, "1", of)


Items = Callable[[Any], Iterable[Any]]


def _table(record: type[Record], name: str, meaning: str, *fields: _Field) -> Callable[[Items], Items]:
    """Decorator of a function that gives what the rows are of."""

    def add(items: Items) -> Items:
        columns = tuple(field.column for field in fields)

        def rows(found: Any) -> Iterator[tuple[Cell, ...]]:
            for item in items(found):
                yield tuple(field.of(item) for field in fields)

        _TABLES.setdefault(record, {})[name] = Table(name, meaning, lambda _: columns, rows)
        return items

    return add


def _of_work(prefix: str, names: str) -> tuple[_Field, ...]:
    """Counts of the work of an item, which may be unknown."""
    return tuple(
        _count(each, "estimate", _WORK[each], "B" if each.startswith("bytes") else "FLOP", _known(prefix, each))
        for each in names.split()
    )


_WORK = {
    "macs": "multiply-accumulates",
    "flops": "all arithmetic",
    "tensor_flops": "FLOP of multiply-accumulates",
    "vector_flops": "FLOP of all other arithmetic",
    "special_flops": "FLOP of special functions",
    "bytes_read": "from outside, parameters included",
    "bytes_written": "for others",
    "bytes_parameters": "of those read: constant weights",
}
_UNITS = "tensor_flops vector_flops special_flops"
_BYTES = "bytes_read bytes_written bytes_parameters"


def _known(path: str, name: str) -> Callable[[Any], Any]:
    """A field of a record that may not be there."""
    inner = attrgetter(path)

    def of(item: Any) -> Any:
        found = inner(item)
        return None if found is None else getattr(found, name)

    return of


def _first(*fields: _Field) -> tuple[_Field, ...]:
    """Fields of the first of two things that a row is about."""
    return tuple(_Field(field.column, _inside(field.of, 0)) for field in fields)


def _second(*fields: _Field) -> tuple[_Field, ...]:
    return tuple(_Field(field.column, _inside(field.of, 1)) for field in fields)


def _inside(of: Callable[[Any], Any], place: int) -> Callable[[Any], Any]:
    return lambda item: of(item[place])


@_table(
    Run,
    "layers",
    "a layer of the engine, ranked by time lost",
    _count("rank", "name", "place by time lost, 1 for the largest loss", of=lambda item: item[0]),
    *_second(
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
            _field("constant", "bool", "", "name", "its inputs are all constants, yet it runs on every inference"),
            _list("kernels", "that it launches", of=lambda layer: tuple(match.kernel for match in layer.kernels)),
            _count("launches", "fact", "of its kernels, in all profiled inferences",
                   of=lambda layer: sum(match.count for match in layer.kernels)),
            *_of_work("work", f"{_UNITS} {_BYTES}"),
            _text("work_bound", "whether the work is exact, or an upper or lower bound", of=_known("work", "bound")),
            _text("work_note", "why it is a bound", of=_known("work", "note")),
    ),
)  # fmt: skip
def _layers(run: Run) -> Iterable[Any]:
    return enumerate(run.layers, 1)


def _launch(name: str) -> Callable[[Any], Any]:
    # Without its grid nothing is known of a launch: the 0 of a record stands for that.
    return lambda match: getattr(match, name) if match.blocks else None


@_table(
    Run,
    "kernels",
    "the kernels of one name in one layer, layers by time lost; those of no layer last",
    _text("layer", "that launches it; unknown where it was led to none"),
    _text("kernel", "its name"),
    _count("count", "fact", "launches in all profiled inferences"),
    _ns("median_ns", "fact", "of one launch, as captured"),
    _ns("total_ns", "fact", "of all launches; over all rows they sum to the kernel time captured"),
    _text("match", "how surely it was led to the layer: exact, inferred, none", of="confidence"),
    _text("reason", "the evidence for that"),
    _count("blocks", "fact", "thread blocks of a launch; unknown on a CPU, as are all that follow",
           of=_launch("blocks")),
    _count("threads", "fact", "of a block", of=_launch("threads")),
    _count("registers", "fact", "of a thread", of=_launch("registers")),
    _count("shared_bytes", "fact", "shared memory of a block", "B", of=_launch("shared_bytes")),
)  # fmt: skip
def _kernels(run: Run) -> Iterable[Any]:
    return (*(match for layer in run.layers for match in layer.kernels), *run.kernels_unattributed)


@_table(
    Run,
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
def _nodes(run: Run) -> Iterable[Any]:
    return run.nodes


@_table(
    Run,
    "ledger",
    "a step from ideal to the measured latency; the steps sum to it",
    _count("step", "name", "from 1", of=lambda item: item[0]),
    *_second(
        _text("cause", "of the step"),
        _ns("ns", "mixed", "of the step"),
        _text("kind", "whether ns is a fact, an estimate, or the remainder"),
        _text("meaning", "in words"),
    ),
)
def _ledger(run: Run) -> Iterable[Any]:
    return enumerate(run.ledger, 1)


@_table(
    Run,
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
    _text("try", "the remedy", "hypothesis", of="try_"),
    _list("layers", "where time is claimed"),
)
def _findings(run: Run) -> Iterable[Any]:
    return run.findings


@_table(
    Run,
    "plugins",
    "a layer for which a hand-written kernel was weighed, most net gain first; times are of one inference",
    _text("layer", "to be replaced"),
    _list("nodes", "ONNX nodes that it computes"),
    _text("kernel", "that it launches now"),
    _ns("measured_ns", "fact", "of the layer"),
    _ns("reachable_ns", "estimate", "what kernels of this class reach on this device"),
    _text("basis", "where that is from"),
    _ns("recoverable_ns", "estimate", "measured less reachable"),
    _ns("barrier_ns", "estimate", "what a plugin costs by cutting fusion",
        of=lambda one: sum(part.ns for part in one.barrier)),
    _list("barrier", "its parts, in words", of=lambda one: tuple(part.what for part in one.barrier)),
    _ns("net_ns", "estimate", "recoverable less barrier"),
    _ns("net_low_ns", "estimate", "lower end of its interval"),
    _ns("net_high_ns", "estimate", "upper end of its interval"),
    _text("verdict", "write it, try first, do not", "hypothesis"),
    _text("why", "in words", "mixed"),
    _list("ladder", "cheaper fixes to try first, each with its command", "hypothesis",
          of=lambda one: tuple(f"{step.what}: {step.command}" for step in one.ladder)),
)  # fmt: skip
def _plugins(run: Run) -> Iterable[Any]:
    return run.candidates


class _Event(NamedTuple):
    iteration: int
    lane: str
    kind: str
    depth: int
    layer: str | None
    name: str
    start_ns: int
    dur_ns: int


@_table(
    Run,
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
def _timeline(run: Run) -> Iterable[Any]:
    found = run.timeline
    if found is None:
        return
    columns = zip(found.lane, found.layer, found.name, found.start_ns, found.dur_ns, strict=True)
    for at, layer, name, start_ns, dur_ns in columns:
        lane = found.lanes[at]
        owner = found.layers[layer] if layer >= 0 else None
        yield _Event(found.iteration, lane.name, lane.kind, lane.depth, owner, found.names[name], start_ns, dur_ns)


class _Edge(NamedTuple):
    layer_from: str
    layer_to: str
    tensor: str
    nbytes: int | None


@_table(
    Run,
    "edges",
    "a tensor that one layer writes and another reads; no row where neither a plan nor a model tells",
    _text("layer_from", "that writes it"),
    _text("layer_to", "that reads it"),
    _text("tensor", "its name"),
    _count("nbytes", "estimate", "its size", "B"),
)
def _edges(run: Run) -> Iterable[Any]:
    graph = run.graph
    if graph is None:
        return
    columns = zip(graph.layer_from, graph.layer_to, graph.tensor, graph.nbytes, strict=True)
    for source, target, tensor, nbytes in columns:
        yield _Edge(graph.layers[source], graph.layers[target], tensor, None if nbytes < 0 else nbytes)


@_table(
    Run,
    "fusions",
    "a fusion of a TensorRT engine that did not happen, that which would save most first",
    _text("tensor", "that goes through memory"),
    _text("maker", "the layer that writes it"),
    _list("readers", "the layers that read it"),
    _text("kind", "what would have to fuse: epilogue, prologue, pointwise, products, layout"),
    _field("expected", "bool", "", "estimate", "whether engines fuse such nodes as a rule"),
    _text("reason", "in words", "hypothesis"),
    _count("bytes", "estimate", "written once and read by every reader", "B"),
    _ns("saved_ns", "estimate", "what the layers would take less as one"),
)
def _fusions(run: Run) -> Iterable[Any]:
    return run.plan.edges if run.plan is not None else ()


@_table(
    Run,
    "reformats",
    "a layer of a TensorRT engine that only brings a tensor into another dtype, order or padding",
    _text("layer", "its name"),
    _text("origin", "why it is there"),
    _text("serves", "the layer or binding that it is made for"),
    _text("change", "in words"),
    _count("bytes", "estimate", "that it moves", "B"),
    _ns("ns", "fact", "median time of one inference"),
)
def _reformats(run: Run) -> Iterable[Any]:
    return run.plan.reformats if run.plan is not None else ()


@_table(
    Run,
    "counters",
    "a prediction about a layer held against hardware counters",
    _text("layer", "whose kernels were counted", of=lambda item: item[0]),
    *_second(
        _text("what", "DRAM bytes, FLOP, math unit"),
        _text("verdict", "confirmed, refuted, not told"),
        _number("predicted_low", "estimate", "in B or FLOP; of the math unit 1 for tensor cores"),
        _number("predicted_high", "estimate", "the same"),
        _number("counted_low", "fact", "the same"),
        _number("counted_high", "fact", "the same"),
        _text("reason", "in words, with the numbers", "mixed"),
    ),
)
def _counters(run: Run) -> Iterable[Any]:
    return ((one.layer, check) for one in run.confirmations for check in one.checks)


@_table(
    Run,
    "unsupported",
    "ops without a cost function: what they need is unknown, not 0",
    _text("domain", "empty for ai.onnx"),
    _text("op_type", "the op"),
    _count("count", "fact", "nodes or layers of it"),
    _ns("measured_ns", "fact", "of one inference"),
    _share("share", "fact", "of the kernel time, 0 to 1"),
    _text("reason", "in words"),
)
def _unsupported(run: Run) -> Iterable[Any]:
    return run.unsupported


def _doubts(run: Run) -> int:
    return sum(one.kind == "trust" for one in run.findings)


@_table(
    Run,
    "run",
    "the run itself: one row, to stack with those of other runs",
    _text("model", "its name", of="model.name"),
    _text("model_sha256", "digest of the .onnx file", of=lambda run: run.model.sha256 or None),
    _text("backend", "that ran it", of="backend.name"),
    _text("device", "that it ran on", of="device.name"),
    _text("created", "date and time, ISO 8601", of=lambda run: run.created or None),
    _list("tags", "what its owner calls it"),
    _ns("median_ns", "fact", "latency of one inference; without samples the sum of the layers", of="latency.median_ns"),
    _ns("p99_ns", "fact", "latency that 99 of 100 samples are under",
        of=lambda run: run.latency.p99_ns if run.latency.n > 0 else None),
    _share("cv", "fact", "standard deviation over mean of the latency",
           of=lambda run: run.latency.cv if run.latency.n > 0 else None),
    _count("samples", "fact", "of the latency", of="latency.n"),
    _ns("attainable_ns", "estimate", "sum over the layers that do the model's work",
        of=lambda run: headline(run).attainable_ns),
    _ns("ideal_ns", "estimate", "the same at the best ceilings of the device", of=lambda run: headline(run).ideal_ns),
    _share("of_roof", "estimate", "attainable over measured", of=lambda run: headline(run).of_roof),
    _share("exact", "fact", "kernel time led back to ONNX nodes exactly", of="coverage.exact"),
    _share("inferred", "fact", "kernel time led back by inference", of="coverage.inferred"),
    _share("unattributed", "fact", "kernel time led back to nothing", of="coverage.unattributed"),
    _count("layers", "fact", "that took time", of=lambda run: len(run.layers)),
    _count("findings", "hypothesis", "likely causes", of=lambda run: len(run.findings) - _doubts(run)),
    _count("doubts", "name", "findings about the measurement", of=_doubts),
    _text("verdict", "in words", "mixed"),
)  # fmt: skip
def _run(run: Run) -> Iterable[Any]:
    return (run,)


TABLES = tables_of(Run)
"""All tables of a run by name."""


# --- other documents ------------------------------------------------------------------------


@_table(
    EnginePlan,
    "layers",
    "a layer of the engine, in execution order",
    _count("index", "name", "its place", of="place"),
    _text("name", "of the layer", of="layer.name"),
    _text("kind", "what the engine calls it", of="layer.kind"),
    _text("role", "compute, layout, control, ...", of="matched.role"),
    _list("op_types", "of its nodes"),
    _list("nodes", "ONNX nodes that it computes", of="matched.nodes"),
    _list("shared", "of these: in other layers too", of="matched.shared"),
    _list("added", "nodes of the converted model alone", of="matched.added"),
    _text("match", "how surely it was led to its nodes", of="matched.match"),
    _text("reason", "the evidence for that", of="matched.reason"),
    _text("dtype", "what it computes with", of=lambda item: precision(item.matched, item.work).replace("unknown", "")),
    *_of_work("work", f"{_UNITS} {_BYTES}"),
    _text("work_bound", "whether the work is exact, or a bound", of=_known("work", "bound")),
    _text("work_note", "why it is a bound", of=_known("work", "note")),
    _list("inputs", "its tensors", of=lambda item: tuple(map(_tensor, item.layer.inputs))),
    _list("outputs", "its tensors", of=lambda item: tuple(map(_tensor, item.layer.outputs))),
    *(_text(each, "as the plan has it", of=f"layer.{each}") for each in ("tactic", "stream", "profile")),
    _text("serves", "of a reformat: the layer that it is made for", of="layer.serves"),
    _text("origin", "of a reformat: why it is there", of="layer.origin"),
)
def _plan_layers(plan: EnginePlan) -> Iterable[Any]:
    for index, (matched, work) in enumerate(zip(plan.layers, plan.works, strict=True)):
        types = tuple(plan.op_types.get(node, "") for node in matched.nodes)
        yield _PlanLayer(index, matched, matched.layer, work, types)


class _PlanLayer(NamedTuple):
    place: int
    matched: Any
    layer: Any
    work: Work | None
    op_types: tuple[str, ...]


def _tensor(tensor: PlanTensor) -> str:
    return f"{tensor.name} {tensor.dtype} {dims_text(tensor.dims)}"


_TERMS = ("launch", "tensor", "vector", "sfu", "dram", "l2")


def _term(name: str) -> Callable[[Any], Any]:
    return lambda layer: None if layer.estimate is None else layer.estimate.terms.get(name)


@_table(
    Prediction,
    "layers",
    "a layer on a GPU, longest first; times are of one of its repeats",
    _text("gpu", "its slug", of=lambda item: item[0].gpu),
    _count("rank", "name", "place by time", of=lambda item: item[2]),
    *_second(
        _text("name", "of the layer"),
        _text("op_type", "types of its nodes"),
        _text("rule", "by which they are one layer"),
        _text("graph", "path of its subgraph"),
        _list("nodes", "ONNX nodes that it computes"),
        _count("repeats", "estimate", "in an inference"),
        *(
            _field(each, "int", "ns", "estimate", "of one", _known("estimate", each))
            for each in ("attainable_ns", "roofline_ns", "ideal_ns")
        ),
        _text("bound", "what its time is bounded by", "estimate", _known("estimate", "bound")),
        _text("runner_up", "the bound that comes next", "estimate", _known("estimate", "runner_up")),
        *(_ns(f"{term}_ns", "estimate", "what that unit alone would take", _term(term)) for term in _TERMS),
        _count("dram_bytes", "estimate", "that cross to DRAM", "B", _known("estimate", "dram_bytes")),
        _count("cache_bytes", "estimate", "that the cache keeps", "B", _known("estimate", "cache_bytes")),
        *_of_work("work", f"{_UNITS} {_BYTES}"),
        _text("dtype", "what is multiplied, or computed with", of=_known("work", "dtype")),
        _text("work_bound", "whether the work is exact, or a bound", of=_known("work", "bound")),
        _text("shapes", "of its tensors, in words"),
        _text("reason", "why it has no price"),
        _text("kind", "of a built engine: what it calls the layer"),
        _text("role", "of a built engine: compute, layout, control, ..."),
        _text("match", "of a built engine: how surely it was led to its nodes"),
    ),
)
def _predicted(found: Prediction) -> Iterable[Any]:
    for gpu in found.gpus:
        ordered = sorted(gpu.layers, key=lambda layer: (layer.estimate is None, -_whole_ns(layer)))
        yield from ((gpu, layer, rank) for rank, layer in enumerate(ordered, 1))


def _whole_ns(layer: PredictedLayer) -> int:
    return 0 if layer.estimate is None else layer.estimate.attainable_ns * layer.repeats


@_table(
    Inspection,
    "ops",
    "all nodes of one op type",
    _text("domain", "empty for ai.onnx"),
    _text("op_type", "the op"),
    _count("count", "fact", "nodes of it"),
    *_of_work("work", f"macs flops {_UNITS} {_BYTES}"),
    _text("work_bound", "whether the work is exact, or a bound", of="work.bound"),
    _text("work_note", "why it is a bound", of="work.note"),
)
def _ops(found: Inspection) -> Iterable[Any]:
    return found.ops


@_table(
    CeilingsDocument,
    "measurements",
    "a ceiling that was measured",
    *_first(_text("name", "of the ceiling", of=str)),
    *_second(
        _number("value", "fact", "in its unit"),
        _text("unit", "of the value"),
        _share("spread", "fact", "of the repeats"),
        _count("repeats", "fact", "that were made"),
        _count("threads", "fact", "that it was reached with"),
        _text("what", "reached it"),
    ),
)
def _measured(found: CeilingsDocument) -> Iterable[Any]:
    return found.ceilings.measurements.items()


@_table(
    Comparisons,
    "parts",
    "a part of the model in two runs, largest difference first",
    *_first(
        _text("before", "label of that run", of="before.label"), _text("after", "label of that run", of="after.label")
    ),
    *_second(
        _text("op_types", "of its nodes"),
        _text("name", "of the part"),
        _ns("before_ns", "fact", "its time before"),
        _ns("after_ns", "fact", "its time after"),
        _ns("difference_ns", "fact", "after less before"),
        _text("answer", "whether that is significant"),
        _text("match", "on which sides it is"),
    ),
)
def _parts(found: Comparisons) -> Iterable[Any]:
    return ((one, part) for one in found.comparisons for part in one.regions)


# --- sweeps, whose columns are what was swept ------------------------------------------------


def _add(
    record: type[Record], name: str, meaning: str, fields: Callable[[Any], Iterable[_Field]], items: Items
) -> None:
    def rows(found: Any) -> Iterator[tuple[Cell, ...]]:
        made = [field.of for field in fields(found)]
        for item in items(found):
            yield tuple(of(item) for of in made)

    _TABLES.setdefault(record, {})[name] = Table(
        name, meaning, lambda found: tuple(field.column for field in fields(found)), rows
    )


def _of_dim(name: str, values: Iterable[Any]) -> _Field:
    whole = all(isinstance(value, int) for value in values)
    of = (lambda item: item[0].at[name]) if whole else (lambda item: str(item[0].at[name]))
    return _field(name, "int" if whole else "str", "", "name", "swept", of)


def _sweep_fields(found: Sweep) -> Iterator[_Field]:
    yield from (_of_dim(dim.name, dim.values) for dim in found.dims)
    yield from _first(
        *_of_work("total", f"macs flops {_UNITS} {_BYTES}"),
        _text("work_bound", "whether the work is exact, or a bound", of="total.bound"),
        _text("work_note", "why it is a bound", of="total.note"),
    )


_add(Sweep, "points", "a point of the sweep", _sweep_fields, lambda found: ((point,) for point in found.points))


def _op_sweep_fields(found: OpSweep) -> Iterator[_Field]:
    yield from (_of_dim(dim.name, dim.values) for dim in found.dims)
    yield from _first(
        _text("shapes", "of its tensors"),
        _text("compute_dtype", "what is multiplied, or computed with", of="work.dtype"),
        *_of_work("work", f"macs flops {_UNITS} {_BYTES}"),
        _number("intensity", "estimate", "FLOP per byte"),
    )
    yield from _second(
        _text("device", "its slug", of=_of_time("device")),
        _ns("time_ns", "estimate", "least time at the ceilings", of=_of_time("estimate.attainable_ns")),
        _ns("ideal_ns", "estimate", "at the best ceilings", of=_of_time("estimate.ideal_ns")),
        _ns("roofline_ns", "estimate", "without the launch floor", of=_of_time("estimate.roofline_ns")),
        _text("bound", "what its time is bounded by", "estimate", _of_time("estimate.bound")),
        _text("runner_up", "the bound that comes next", "estimate", _of_time("estimate.runner_up")),
        _field("bound_changed", "bool", "", "estimate", "from the point before", _of_time("changed")),
        _share("of_peak", "estimate", "share of the peak", _of_time("of_peak")),
        _number("ridge", "estimate", "FLOP per byte from which on arithmetic bounds", of=_of_time("ridge")),
        _count("dram_bytes", "estimate", "that cross to DRAM", "B", _of_time("estimate.dram_bytes")),
        _count("cache_bytes", "estimate", "that the cache keeps", "B", _of_time("estimate.cache_bytes")),
    )


def _of_time(path: str) -> Callable[[OpSweepTime | None], Any]:
    inner = attrgetter(path)
    return lambda time: None if time is None else inner(time)


_add(
    OpSweep,
    "points",
    "a point of the sweep on a device",
    _op_sweep_fields,
    lambda found: ((point, time) for point in found.points for time in point.times or (None,)),
)


# --- GPUs, of which not all have every dtype -------------------------------------------------

_GROUPS = (
    "cuda_", "tensor_fp", "tensor_tf", "tensor_bf", "tensor_int", "tensor_uint", "ridge_", "weak", "derived", "note",
)  # fmt: skip


def _gpu_fields(found: GpuListing) -> Iterator[_Field]:
    rows = [_gpu(sheet) for sheet in found.gpus]
    names = list(dict.fromkeys(column for row in rows for column in row))
    # Not every GPU has every dtype: what only later rows have goes where it belongs.
    names.sort(key=lambda column: next((n for n, start in enumerate(_GROUPS, 1) if column.startswith(start)), 0))
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None]
        type_: Any = "str" if any(isinstance(value, str) for value in values) else "int"
        type_ = "float" if any(isinstance(value, float) for value in values) else type_
        yield _field(name, type_, "", "name", "SI base units", _gpu_cell(name))


def _gpu_cell(name: str) -> Callable[[Any], Any]:
    return lambda sheet: _gpu(sheet).get(name)


def _gpu(sheet: GpuSheet) -> dict[str, str | int | float | None]:
    spec = sheet.spec
    numbers = {
        "sms": spec.sms, "boost_mhz": spec.boost_mhz, "tensor_mhz": spec.tensor_mhz,
        "memory_bytes": spec.memory_bytes, "dram_bytes_per_s": spec.dram_bytes_per_s, "l2_bytes": spec.l2_bytes,
        "l2_bytes_per_s": spec.l2_bytes_per_s, "tdp_w": spec.tdp_w, "launch_ns": spec.launch_ns,
        **{f"cuda_{dtype}_per_s": figure for dtype, figure in spec.vector_flops_per_s.items()},
        **{
            f"tensor_{dtype}_{accumulator}_per_s": figure
            for dtype, by in spec.tensor_flops_per_s.items()
            for accumulator, figure in by.items()
        },
    }  # fmt: skip
    return {
        "slug": spec.slug,
        "name": spec.name,
        "architecture": spec.architecture,
        "compute_capability": spec.compute_capability,
        "product_class": spec.product_class,
        **{name: _exact(one.value) for name, one in numbers.items()},
        **{f"ridge_{dtype}": _exact(float(f"{value:.6g}")) for dtype, value in sheet.ridge.items()},
        "weak": ";".join(name for name, figure in numbers.items() if figure.kind == "weak"),
        "derived": ";".join(name for name, figure in numbers.items() if figure.kind == "derived"),
        "note": spec.note,
    }


def _exact(value: float) -> int | float:
    return int(value) if value == int(value) else value


_add(GpuListing, "gpus", "a GPU, in SI base units; what it has not, or nobody tells, is unknown", _gpu_fields,
     lambda found: found.gpus)  # fmt: skip
