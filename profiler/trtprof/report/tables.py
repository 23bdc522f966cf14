"""The tables of a document, of which csv and parquet write one at a time: columns with units, rows of plain values.

A table is a view of the record (`formats.json_`): same names, same units, nothing computed but sums for one row a
layer. `tables_of` lists those of a record, the first one first; their columns are public, and a new one is put behind
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, Literal, NamedTuple

from trtprof.base import records
from trtprof.base.errors import UsageError
from trtprof.base.plan_words import precision
from trtprof.report._format import dims_text, headline
from trtprof.report.content.plugin import beside_one_another
from trtprof.report.content.prediction import longest

__all__ = ["TABLES", "Cell", "Column", "Table", "table_of", "tables_of"]

Cell = str | int | float | bool | tuple[str, ...] | None  # A value of a table. None is unknown, which is not 0.

Kind = Literal["name", "fact", "estimate", "hypothesis", "mixed"]


class Column(NamedTuple):
    """A column of a table."""

    name: str  # What it is called. ``*_ns`` are nanoseconds, ``flops`` FLOP, ``bytes*`` bytes.
    type: Literal["str", "int", "float", "bool", "list"]  # Of its values, where they are known
    unit: str  # ``ns``, ``FLOP``, ``B``, ``1`` for counts and shares, ``""`` of names
    # What its values are: measured (``fact``), computed (``estimate``), a cause (``hypothesis``), a description
    # (``name``), or that which another column of the row says (``mixed``)
    kind: Kind
    meaning: str  # In words


@dataclass(frozen=True)
class Table:
    """A table of a record."""

    name: str  # What ``--table`` calls it
    meaning: str  # What a row is, in words
    # Gives its columns, in order; of a sweep they depend on what was swept
    columns: Callable[[Any], tuple[Column, ...]]
    rows: Callable[[Any], Iterator[tuple[Cell, ...]]]  # One tuple a row, as long as ``columns``


_TABLES: dict[type[records.Record], dict[str, Table]] = {}


def tables_of(record: type[records.Record]) -> dict[str, Table]:
    """The tables of records of a type, by name."""
    return _TABLES.get(record, {})


def table_of(name: str, record: type[records.Record] = records.Run) -> Table:
    """The table of that name; without one the first."""
    known = tables_of(record)
    found = known.get(name) if name else next(iter(known.values()), None)
    if found is None:
        raise UsageError(f"no table {name!r}", fix=f"use one of: {', '.join(known)}")
    return found


class _Field(NamedTuple):
    """A column, and what it shows of an item of the table."""

    column: Column
    of: Callable[[Any], Any]


def _of(path: str) -> Callable[[Any], Any]:
    """What an item has at a path of fields, the last but one of which may not be there."""
    inner, _, name = path.rpartition(".")
    if not inner:
        return attrgetter(name)
    get = attrgetter(inner)

    def of(item: Any) -> Any:
        found = get(item)
        return None if found is None else getattr(found, name)

    return of


def _field(name: str, type_: Literal["str", "int", "float", "bool", "list"], unit: str, kind: Kind, meaning: str,
           of: str | Callable[[Any], Any] = "") -> _Field:  # fmt: skip
    return _Field(Column(name, type_, unit, kind, meaning), _of(of or name) if isinstance(of, str) else of)


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


def _table(
    name: str,
    meaning: str,
    items: Callable[[Any], Iterable[Any]],
    *fields: _Field,
    record: type[records.Record] = records.Run,
    swept: Callable[[Any], Iterable[_Field]] = lambda _: (),
    plain: bool = False,
) -> None:
    """Add a table; ``items`` gives what its rows are of, for a ``plain`` one the rows."""

    def columns(found: Any) -> tuple[Column, ...]:
        return tuple(field.column for field in (*swept(found), *fields))

    def rows(found: Any) -> Iterator[tuple[Cell, ...]]:
        made = [field.of for field in (*swept(found), *fields)]
        return (tuple(item) if plain else tuple(of(item) for of in made) for item in items(found))

    _TABLES.setdefault(record, {})[name] = Table(name, meaning, columns, rows)


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


def _of_work(path: str, *, sums: bool = False) -> Iterator[_Field]:
    """Counts of the work of an item, which may be unknown; with the sums of them."""
    for each, meaning in list(_WORK.items())[0 if sums else 2 :]:
        yield _count(each, "estimate", meaning, "B" if each.startswith("bytes") else "FLOP", f"{path}.{each}")


def _expectation() -> tuple[_Field, ...]:
    return (
        _ns("expected_ns", "estimate", "what good library kernels take: half of them less"),
        _ns("expected_p10_ns", "estimate", "the same: a tenth of them less"),
        _ns("expected_p90_ns", "estimate", "the same: nine tenths of them less"),
        _text("expected_basis", f"what that rests on: {', '.join(records.EXPECTED_BASES)}", "estimate"),
        _text("expected_reason", "why there is no expectation, or why its band is wider", "estimate"),
    )


def _by_basis(basis: records.ExpectedBasis) -> Callable[[records.GpuPrediction], int | None]:
    return lambda gpu: gpu.expected_ns_by_basis.get(basis)


def _exactness(path: str, bound: str = "or a bound") -> tuple[_Field, ...]:
    return (
        _text("work_bound", f"whether the work is exact, {bound}", of=f"{path}.bound"),
        _text("work_note", "why it is a bound", of=f"{path}.note"),
    )


def _part(place: int, *fields: _Field) -> tuple[_Field, ...]:
    """Fields of one of the things that a row is about, which may not be there."""
    return tuple(_Field(field.column, _inside(field.of, place)) for field in fields)


def _inside(of: Callable[[Any], Any], place: int) -> Callable[[Any], Any]:
    return lambda item: None if item[place] is None else of(item[place])


_table(
    "layers",
    "a layer of the engine, ranked by time lost",
    lambda run: enumerate(run.layers, 1),
    _count("rank", "name", "place by time lost, 1 for the largest loss", of=itemgetter(0)),
    *_part(
        1,
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
        *_of_work("work"),
        *_exactness("work", "or an upper or lower bound"),
        *_expectation(),
    ),
)  # fmt: skip


def _launch(name: str) -> Callable[[Any], Any]:
    # Without its grid nothing is known of a launch: the 0 of a record stands for that.
    return lambda match: getattr(match, name) if match.blocks else None


_table(
    "kernels",
    "the kernels of one name in one layer, layers by time lost; those of no layer last",
    lambda run: (*(match for layer in run.layers for match in layer.kernels), *run.kernels_unattributed),
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
_table(
    "nodes",
    "a node of the ONNX model, in graph order; time belongs to layers and is never split over nodes",
    lambda run: run.nodes,
    _text("name", "of the node"),
    _text("op_type", "of the node"),
    _text("graph", "path of the subgraph that holds it, empty for the main graph"),
    _text("fate", "what became of it: layer, folded, eliminated, lost"),
    _list("layers", "that compute it"),
    _count("flops", "estimate", "work", "FLOP"),
    _count("bytes", "estimate", "bytes that it must move on its own", "B"),
    _text("reason", "why that became of it"),
)
_table(
    "ledger",
    "a step from ideal to the measured latency; the steps sum to it",
    lambda run: enumerate(run.ledger, 1),
    _count("step", "name", "from 1", of=itemgetter(0)),
    *_part(
        1,
        _text("cause", "of the step"),
        _ns("ns", "mixed", "of the step"),
        _text("kind", "whether ns is a fact, an estimate, or the remainder"),
        _text("meaning", "in words"),
    ),
)
_table(
    "findings",
    "a likely cause, or a doubt about the measurement",
    lambda run: run.findings,
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
    _text("command", "what tries the remedy, or makes what helped; empty where there is none", "hypothesis"),
)
_table(
    "plugins",
    "a layer for which a hand-written kernel was weighed, most net gain first; times are of one inference",
    lambda run: run.candidates,
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
    _text("command", "what goes on, and writes it; empty where it is not worth it", "hypothesis"),
)  # fmt: skip


def _timeline(run: records.Run) -> Iterator[Any]:
    found = run.timeline
    if found is None:
        return
    columns = zip(found.lane, found.layer, found.name, found.start_ns, found.dur_ns, strict=True)
    for at, layer, name, start_ns, dur_ns in columns:
        lane = found.lanes[at]
        owner = found.layers[layer] if layer >= 0 else None
        yield found.iteration, lane.name, lane.kind, lane.depth, owner, found.names[name], start_ns, dur_ns


_table(
    "timeline",
    "an event of one inference as captured, by its start; no row where nobody saw when kernels ran",
    _timeline,
    _count("iteration", "name", "which of the profiled inferences it is"),
    _text("lane", "where it ran: a stream, a thread"),
    _text("kind", "of the lane: kernels, copies, host"),
    _count("depth", "name", "1 for what runs inside events of depth 0"),
    _text("layer", "that launched it; unknown where it was led to none"),
    _text("name", "of the kernel, the copy, the call"),
    _ns("start_ns", "fact", "from the first event on"),
    _ns("dur_ns", "fact", "as captured, the profiler's own time included"),
    plain=True,
)


def _edges(run: records.Run) -> Iterator[Any]:
    graph = run.graph
    if graph is None:
        return
    columns = zip(graph.layer_from, graph.layer_to, graph.tensor, graph.nbytes, strict=True)
    for source, target, tensor, nbytes in columns:
        yield graph.layers[source], graph.layers[target], tensor, None if nbytes < 0 else nbytes


_table(
    "edges",
    "a tensor that one layer writes and another reads; no row where neither a plan nor a model tells",
    _edges,
    _text("layer_from", "that writes it"),
    _text("layer_to", "that reads it"),
    _text("tensor", "its name"),
    _count("nbytes", "estimate", "its size", "B"),
    plain=True,
)
_table(
    "fusions",
    "a fusion of a TensorRT engine that did not happen, that which would save most first",
    lambda run: run.plan.edges if run.plan is not None else (),
    _text("tensor", "that goes through memory"),
    _text("maker", "the layer that writes it"),
    _list("readers", "the layers that read it"),
    _text("kind", "what would have to fuse: epilogue, prologue, pointwise, products, layout"),
    _field("expected", "bool", "", "estimate", "whether engines fuse such nodes as a rule"),
    _text("reason", "in words", "hypothesis"),
    _count("bytes", "estimate", "written once and read by every reader", "B"),
    _ns("saved_ns", "estimate", "what the layers would take less as one"),
)
_table(
    "reformats",
    "a layer of a TensorRT engine that only brings a tensor into another dtype, order or padding",
    lambda run: run.plan.reformats if run.plan is not None else (),
    _text("layer", "its name"),
    _text("origin", "why it is there"),
    _text("serves", "the layer or binding that it is made for"),
    _text("change", "in words"),
    _count("bytes", "estimate", "that it moves", "B"),
    _ns("ns", "fact", "median time of one inference"),
)
_table(
    "counters",
    "a prediction about a layer held against hardware counters",
    lambda run: ((one.layer, check) for one in run.confirmations for check in one.checks),
    _text("layer", "whose kernels were counted", of=itemgetter(0)),
    *_part(
        1,
        _text("what", "DRAM bytes, FLOP, math unit"),
        _text("verdict", "confirmed, refuted, not told"),
        _number("predicted_low", "estimate", "in B or FLOP; of the math unit 1 for tensor cores"),
        _number("predicted_high", "estimate", "the same"),
        _number("counted_low", "fact", "the same"),
        _number("counted_high", "fact", "the same"),
        _text("reason", "in words, with the numbers", "mixed"),
    ),
)
_table(
    "unsupported",
    "ops without a cost function: what they need is unknown, not 0",
    lambda run: run.unsupported,
    _text("domain", "empty for ai.onnx"),
    _text("op_type", "the op"),
    _count("count", "fact", "nodes or layers of it"),
    _ns("measured_ns", "fact", "of one inference"),
    _share("share", "fact", "of the kernel time, 0 to 1"),
    _text("reason", "in words"),
)


def _doubts(run: records.Run) -> int:
    return sum(one.kind == "trust" for one in run.findings)


_table(
    "run",
    "the run itself: one row, to stack with those of other runs",
    lambda run: (run,),
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
TABLES = tables_of(records.Run)  # All tables of a run by name


# --- other documents ------------------------------------------------------------------------


def _plan_layers(plan: records.EnginePlan) -> Iterator[Any]:
    for index, (matched, work) in enumerate(zip(plan.layers, plan.works, strict=True)):
        types = tuple(plan.op_types.get(node, "") for node in matched.nodes)
        yield _PlanLayer(index, matched, matched.layer, work, types)


_table(
    "layers",
    "a layer of the engine, in execution order",
    _plan_layers,
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
    *_of_work("work"),
    *_exactness("work"),
    _list("inputs", "its tensors", of=lambda item: tuple(map(_tensor, item.layer.inputs))),
    _list("outputs", "its tensors", of=lambda item: tuple(map(_tensor, item.layer.outputs))),
    _text("tactic", "as the plan has it", of="layer.tactic"),
    *(_field(each, "int", "", "name", "as the plan has it", of=f"layer.{each}") for each in ("stream", "profile")),
    _text("serves", "of a reformat: the layer that it is made for", of="layer.serves"),
    _text("origin", "of a reformat: why it is there", of="layer.origin"),
    record=records.EnginePlan,
)


class _PlanLayer(NamedTuple):
    place: int
    matched: Any
    layer: Any
    work: records.Work | None
    op_types: tuple[str, ...]


def _tensor(tensor: records.PlanTensor) -> str:
    return f"{tensor.name} {tensor.dtype} {dims_text(tensor.dims)}"


_TERMS = ("launch", "tensor", "vector", "sfu", "dram", "l2")


def _term(name: str) -> Callable[[Any], Any]:
    return lambda layer: None if layer.estimate is None else layer.estimate.terms.get(name)


_table(
    "layers",
    "a layer on a GPU, longest first; times are of one of its repeats",
    lambda found: ((gpu, layer, rank) for gpu in found.gpus for rank, layer in enumerate(longest(gpu), 1)),
    _text("gpu", "its slug", of=lambda item: item[0].gpu),
    _count("rank", "name", "place by time", of=itemgetter(2)),
    *_part(
        1,
        _text("name", "of the layer"),
        _text("op_type", "types of its nodes"),
        _text("rule", "by which they are one layer"),
        _text("graph", "path of its subgraph"),
        _list("nodes", "ONNX nodes that it computes"),
        _count("repeats", "estimate", "in an inference"),
        *(
            _field(each, "int", "ns", "estimate", "of one", f"estimate.{each}")
            for each in ("attainable_ns", "roofline_ns", "ideal_ns")
        ),
        _text("bound", "what its time is bounded by", "estimate", "estimate.bound"),
        _text("runner_up", "the bound that comes next", "estimate", "estimate.runner_up"),
        *(_ns(f"{term}_ns", "estimate", "what that unit alone would take", _term(term)) for term in _TERMS),
        _count("dram_bytes", "estimate", "that cross to DRAM", "B", "estimate.dram_bytes"),
        _count("cache_bytes", "estimate", "that the cache keeps", "B", "estimate.cache_bytes"),
        *_of_work("work"),
        _text("dtype", "what is multiplied, or computed with", of="work.dtype"),
        _text("work_bound", "whether the work is exact, or a bound", of="work.bound"),
        _text("shapes", "of its tensors, in words"),
        _text("reason", "why it has no price"),
        _text("kind", "of a built engine: what it calls the layer"),
        _text("role", "of a built engine: compute, layout, control, ..."),
        _text("match", "of a built engine: how surely it was led to its nodes"),
        *_expectation(),
    ),
    record=records.Prediction,
)
_table(
    "gpus",
    "a GPU",
    lambda found: found.gpus,
    _text("gpu", "its slug"),
    _text("name", "in words"),
    _ns("time_ns", "estimate", "least time of all layers that have a price: a bound"),
    *_expectation(),
    *(
        _ns(f"expected_{basis}_ns", "estimate", "the part of expected_ns with that basis", _by_basis(basis))
        for basis in records.EXPECTED_BASES[:-1]
    ),
    _ns("refused_ns", "estimate", "the part of the bound that is of layers without an expectation"),
    _count(
        "refused_layers", "estimate", "layers without an expectation", of=lambda gpu: sum(gpu.refused_layers.values())
    ),
    _count(
        "wider_layers",
        "estimate",
        "layers with the band of what was not measured itself",
        of=lambda gpu: sum(gpu.wider_layers.values()),
    ),
    _list("refused_reasons", "why, the most frequent first", "estimate", of=lambda gpu: tuple(gpu.refused_layers)),
    _number("joules", "estimate", "the bound at the power limit", "J"),
    _number("expected_joules", "estimate", "what is expected at the power limit, the rest at its bound", "J"),
    record=records.Prediction,
)
_table(
    "nearest",
    "a measurement by others that is like the layer, on a GPU, the most like first",
    lambda found: ((gpu, row) for gpu in found.gpus for row in gpu.nearest),
    *_part(
        0,
        _text("gpu", "that was asked for"),
        _text("layer", "its name", of="layer.name"),
        *(_Field(field.column, _of(f"layer.{field.column.name}")) for field in _expectation()),
    ),
    *_part(
        1,
        _text("source", "whose measurement it is"),
        _text("measured_on", "GPU", of="gpu"),
        _text("dtype", "of what was measured"),
        _text("shape", "as its source writes it"),
        _ns("measured_ns", "fact", "by its source", of="ns"),
    ),
    record=records.PredictedWhy,
)


_table(
    "ops",
    "all nodes of one op type",
    lambda found: found.ops,
    _text("domain", "empty for ai.onnx"),
    _text("op_type", "the op"),
    _count("count", "fact", "nodes of it"),
    *_of_work("work", sums=True),
    *_exactness("work"),
    record=records.Inspection,
)
_table(
    "measurements",
    "a ceiling that was measured",
    lambda found: found.ceilings.measurements.items(),
    *_part(0, _text("name", "of the ceiling", of=str)),
    *_part(
        1,
        _number("value", "fact", "in its unit"),
        _text("unit", "of the value"),
        _share("spread", "fact", "of the repeats"),
        _count("repeats", "fact", "that were made"),
        _count("threads", "fact", "that it was reached with"),
        _text("what", "reached it"),
    ),
    record=records.CeilingsDocument,
)
_table(
    "parts",
    "a part of the model in two runs, largest difference first",
    lambda found: ((one, part) for one in found.comparisons for part in one.regions),
    *_part(
        0,
        _text("before", "label of that run", of="before.label"),
        _text("after", "label of that run", of="after.label"),
    ),
    *_part(
        1,
        _text("op_types", "of its nodes"),
        _text("name", "of the part"),
        _ns("before_ns", "fact", "its time before"),
        _ns("after_ns", "fact", "its time after"),
        _ns("difference_ns", "fact", "after less before"),
        _text("answer", "whether that is significant"),
        _text("match", "on which sides it is"),
    ),
    record=records.Comparisons,
)


_table(
    "rungs",
    "a rung that was tried, those that help first",
    lambda found: found.rungs,
    _text("name", "what --rung calls it"),
    _text("kind", "option, rewrite, pass or combination"),
    _text("title", "what it does"),
    _text("verdict", "helps, no difference, slower, wrong, refused, failed, not measured"),
    _text("reason", "why"),
    _number("gain", "fact", "time before over after", of="gain.value"),
    _number("gain_low", "fact", "lower end of its interval", of="gain.low"),
    _number("gain_high", "fact", "upper end of its interval", of="gain.high"),
    _number("predicted", "estimate", "the same, before it was measured"),
    _ns("before_ns", "fact", "median of the turns of the original"),
    _ns("after_ns", "fact", "median of the turns of the variant"),
    _number("difference", "fact", "largest difference of an output over what its type allows"),
    _text("beside", "what a combination was measured against, empty for the original"),
    _list("answers", "codes of the rules whose remedy it is"),
    _list("nodes", "of the original, that went"),
    record=records.Tried,
)


# --- a custom kernel -------------------------------------------------------------------------

_table(
    "kernels",
    "a kernel of a plugin on an architecture; none where no form fits",
    lambda found: ((one, build) for one in found.variants for build in one.builds),
    *_part(
        0,
        _count("tactic", "name", "its number among the variants"),
        _text("entry", "its function"),
        _text("label", "its blocks and warps"),
    ),
    *_part(
        1,
        _text("architecture", "compiled for"),
        _count("registers", "fact", "of a thread"),
        _count("spill_bytes", "fact", "that it spills", "B"),
        _count("shared_bytes", "fact", "shared memory of a block", "B"),
        _count("blocks_per_sm", "estimate", "blocks that an SM holds at a time"),
        _share("occupancy", "estimate", "share of the warps that fit"),
        _text("loads", "how many of its loads are vectors", "fact"),
    ),
    record=records.Plugin,
)
_table(
    "tensors",
    "a tensor that the kernel reads or writes",
    lambda found: found.brief.tensors if found.brief is not None else (),
    _text("operand", "what kernel and formulas call it"),
    _text("role", "input, weight or output"),
    _text("dtype", "of its elements"),
    _list("shape", "its dimensions", of=lambda one: tuple(map(str, one.shape))),
    _count("nbytes", "name", "its size", "B"),
    _text("layout", "where it is not dense and row-major"),
    _text("name", "what the model calls it"),
    record=records.Plugin,
)
_table(
    "ladder",
    "a cheaper candidate, to be tried first",
    lambda found: found.brief.ladder if found.brief is not None else (),
    _text("what", "in words", "hypothesis"),
    _ns("gain_ns", "mixed", "of one inference: measured where the step was tried, else an estimate"),
    _text("basis", "where that is from"),
    _text("command", "that measures it", "hypothesis"),
    _text("rung", "what `trtprof try --rung` calls it"),
    record=records.Plugin,
)
_table(
    "checks",
    "a check that needs no GPU",
    lambda found: found.check.steps if found.check is not None else (),
    _text("name", "what is checked"),
    _text("verdict", "passed, failed, not here"),
    _text("reason", "why"),
    _count("cases", "fact", "that were looked at"),
    _number("seconds", "fact", "that it took", "s"),
    record=records.Plugin,
)


def _bench_sides(
    found: records.PluginBench,
) -> Iterator[tuple[records.PluginBench, str, records.BenchSide, records.Interval | None]]:
    for what, sides, gain in beside_one_another(found):
        yield from ((found, what, side, gain) for side in sides)


_SIDES = (
    *_part(0, _text("plugin", "its name", of="name"), _text("gpu", "that ran it"), _text("verdict", "of the engine")),
    _text("of", "kernel, or engine: the whole inference", of=itemgetter(1)),
    *_part(2, _text("what", "which side"), _ns("median_ns", "fact", "of its samples"), _count("n", "fact", "samples")),
    *_part(
        3,
        _number("gain", "fact", "time before over after", of="value"),
        _number("gain_low", "fact", "lower end of its interval", of="low"),
        _number("gain_high", "fact", "upper end of its interval", of="high"),
    ),
)
_OUTPUTS = (
    *_part(0, _text("plugin", "its name", of="name")),
    *_part(
        1,
        _text("what", "kind of inputs"),
        _field("ok", "bool", "", "fact", "whether they are equal within the tolerance"),
        _text("reason", "why"),
    ),
)


def _benches(found: records.PluginBench | records.PluginBenches) -> tuple[records.PluginBench, ...]:
    return found.benches if isinstance(found, records.PluginBenches) else (found,)


for _bench in (records.PluginBench, records.PluginBenches):
    _table(
        "sides",
        "one of two engines or kernels on a GPU",
        lambda found: (side for one in _benches(found) for side in _bench_sides(one)),
        *_SIDES,
        record=_bench,
    )
    _table(
        "outputs",
        "outputs of the engine with the plugin, compared with those of the engine without it",
        lambda found: ((one, check) for one in _benches(found) for check in one.checks),
        *_OUTPUTS,
        record=_bench,
    )


# --- sweeps, whose columns are what was swept ------------------------------------------------


def _of_dim(name: str, values: Iterable[Any]) -> _Field:
    whole = all(isinstance(value, int) for value in values)
    of = (lambda item: item[0].at[name]) if whole else (lambda item: str(item[0].at[name]))
    return _field(name, "int" if whole else "str", "", "name", "swept", of)


def _dims(found: records.Sweep | records.OpSweep) -> Iterator[_Field]:
    return (_of_dim(dim.name, dim.values) for dim in found.dims)


_table(
    "points",
    "a point of the sweep",
    lambda found: ((point,) for point in found.points),
    *_part(0, *_of_work("total", sums=True), *_exactness("total")),
    record=records.Sweep,
    swept=_dims,
)
_table(
    "points",
    "a point of the sweep on a device",
    lambda found: ((point, time) for point in found.points for time in point.times or (None,)),
    *_part(
        0,
        _text("shapes", "of its tensors"),
        _text("compute_dtype", "what is multiplied, or computed with", of="work.dtype"),
        *_of_work("work", sums=True),
        _number("intensity", "estimate", "FLOP per byte"),
    ),
    *_part(
        1,
        _text("device", "its slug"),
        _ns("time_ns", "estimate", "least time at the ceilings", of="estimate.attainable_ns"),
        _ns("ideal_ns", "estimate", "at the best ceilings", of="estimate.ideal_ns"),
        _ns("roofline_ns", "estimate", "without the time of an empty kernel", of="estimate.roofline_ns"),
        _text("bound", "what its time is bounded by", "estimate", "estimate.bound"),
        _text("runner_up", "the bound that comes next", "estimate", "estimate.runner_up"),
        _field("bound_changed", "bool", "", "estimate", "from the point before", "changed"),
        _share("of_peak", "estimate", "share of the peak"),
        _number("ridge", "estimate", "FLOP per byte from which on arithmetic bounds"),
        _count("dram_bytes", "estimate", "that cross to DRAM", "B", "estimate.dram_bytes"),
        _count("cache_bytes", "estimate", "that the cache keeps", "B", "estimate.cache_bytes"),
    ),
    record=records.OpSweep,
    swept=_dims,
)


# --- GPUs, of which not all have every dtype -------------------------------------------------

_GROUPS = (
    "cuda_", "tensor_fp", "tensor_tf", "tensor_bf", "tensor_int", "tensor_uint", "ridge_", "weak", "derived", "note",
)  # fmt: skip


def _gpu_fields(found: records.GpuListing) -> Iterator[_Field]:
    rows = list(map(_gpu, found.gpus))
    names = list(dict.fromkeys(column for row in rows for column in row))
    # Not every GPU has every dtype: what only later rows have goes where it belongs.
    names.sort(key=lambda column: next((n for n, start in enumerate(_GROUPS, 1) if column.startswith(start)), 0))
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None]
        type_: Any = "str" if any(isinstance(value, str) for value in values) else "int"
        type_ = "float" if any(isinstance(value, float) for value in values) else type_
        yield _field(name, type_, "", "name", "SI base units", methodcaller("get", name))


def _gpu(sheet: records.GpuSheet) -> dict[str, str | int | float | None]:
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
        "measured": ";".join(
            f"{one.words} in {one.dtypes}: {f'{one.rows} rows' if one.rows else 'others of its architecture'}"
            for one in sheet.measured
        ),
        "weak": ";".join(name for name, figure in numbers.items() if figure.kind == "weak"),
        "derived": ";".join(name for name, figure in numbers.items() if figure.kind == "derived"),
        "note": spec.note,
    }


def _exact(value: float) -> int | float:
    return int(value) if value == int(value) else value


_table(
    "gpus",
    "a GPU, in SI base units; what it has not, or nobody tells, is unknown",
    lambda found: map(_gpu, found.gpus),
    record=records.GpuListing,
    swept=_gpu_fields,
)


# --- what names, rules and machines are told of ----------------------------------------------

_table(
    "kernels",
    "a name; what it does not say is unknown",
    lambda found: found.kernels,
    _text("name", "as given"),
    _text("family", "whose kernel it is"),
    _text("op", "what it computes"),
    _count("arch", "name", "the least SM version it was written for", unit=""),
    _text("unit", "where its products are done: tensor, simt, none"),
    _text("mma", "shape of one tensor-core instruction"),
    *(
        _text(of.removeprefix("dtype_"), meaning, of=of)
        for of, meaning in (
            ("dtype_in", "dtype of the first operand"),
            ("dtype_math", "dtype that operands are rounded to"),
            ("dtype_acc", "dtype of the sum"),
            ("dtype_out", "dtype of the result"),
        )
    ),
    _text("layout", "in its own words"),
    _text("tile", "of one thread block, in elements"),
    _text("cluster", "thread blocks of one cluster"),
    _count("stages", "name", "of the software pipeline"),
    _field("split_k", "bool", "", "name", "several thread blocks share the sum of one result"),
    _list("ops", "fused operations that it lists"),
    _text("evidence", "the part that tells the unit"),
    record=records.KernelListing,
)
_table(
    "rules",
    "a rule",
    lambda found: found.rules,
    _text("code", "of the rule"),
    _text("title", "what it finds, in a few words"),
    _count("order", "name", "the lower claims first"),
    _text("summary", "what it finds"),
    _text("what", "it looks at"),
    _text("why", "it happens"),
    _text("try", "the remedy", of="remedy"),
    _list("thresholds", "its own", of=lambda rule: tuple(f"{each.name}={each.value:g}" for each in rule.thresholds)),
    _list("rungs", "what of its remedy `trtprof try` makes"),
    record=records.RuleListing,
)
_table(
    "explanation",
    "what a rule says of a layer",
    lambda found: (found,),
    *(
        _text(name, meaning)
        for name, meaning in (
            ("code", "of the rule"),
            ("title", "of the rule"),
            ("layer", "its name"),
            ("op_type", "of the layer"),
        )
    ),
    _ns("measured_ns", "fact", "median time of one inference"),
    _ns("attainable_ns", "estimate", "least time at the ceilings of the run"),
    _ns("lost_ns", "estimate", "measured less attainable"),
    _text("outcome", "claims, run, taken, dropped or silent"),
    _text("why", "in a sentence"),
    record=records.Explanation,
)
_table(
    "parts",
    "a backend, a collector, a tool for plugins, or something that is broken",
    lambda found: found.parts,
    _text("kind", "which of these"),
    _text("name", "its name"),
    _field("available", "bool", "", "fact", "whether it can be used here"),
    _text("reason", "what it is, or what it lacks"),
    _text("fix", "what to do about that"),
    record=records.Machine,
)


# --- a fleet ---------------------------------------------------------------------------------

_table(
    "targets",
    "a target of a fleet, in the order of its manifest",
    lambda found: found.targets,
    _text("target", "what the manifest calls it"),
    _text("verb", "what is done there: predict, build, run"),
    _count("cells", "name", "that are asked of it"),
    _count("done", "fact", "of these"),
    _count("failed", "fact", "of these"),
    _count("left", "fact", "neither done nor failed"),
    _count("claimed", "fact", "under way, here or elsewhere"),
    _number("left_s", "estimate", "about how long the rest takes; unknown where nothing tells", "s"),
    record=records.FleetPlan,
)


# --- fleets -----------------------------------------------------------------------------------

_FLEET_BASIS = "what it rests on: measured, expected, bound, none"
_table(
    "answers",
    "a cell of a fleet; times of one inference, costs in the currency of the fleet",
    lambda found: found.answers,
    _text("model", "its name in the fleet"),
    _text("target", "its name in the fleet"),
    _text("verb", "predict, build or run"),
    _text("size", "of its inputs, in words"),
    _text("precision", "that was asked for"),
    _text("status", "done or failed"),
    _ns("latency_ns", "fact", "median, measured"),
    _ns("latency_low_ns", "fact", "low end of its interval (95 %)"),
    _ns("latency_high_ns", "fact", "high end of the same"),
    _ns("bound_ns", "estimate", "no correct kernels are faster"),
    *(field for field in _expectation() if field.column.name != "expected_reason"),
    _share("of_expected", "estimate", "expected over measured"),
    _count("requests", "name", "that one inference answers"),
    _number("cost_per_million", "mixed", "of requests"),
    _text("cost_basis", _FLEET_BASIS),
    _number("joules", "estimate", "of an inference at the power limit of the board", "J"),
    _text("joules_basis", _FLEET_BASIS),
    _text("doubts", "what makes the numbers less sure"),
    _text("error", "why it failed"),
    _text("run", "its run folder, from that of the fleet on"),
    _text("key", "of the cell"),
    record=records.Fleet,
)
_table(
    "best",
    "which target serves a model best at a precision",
    lambda found: found.best,
    _text("model", "its name in the fleet"),
    _text("precision", "that was asked for"),
    _count("sizes", "name", "that were asked"),
    _ns("limit_ns", "name", "no inference may take longer"),
    _text("target", "that keeps to it at every size; none where it is empty"),
    _text("by", "the cheapest or the fastest a request: cost, latency", "estimate"),
    _text("basis", _FLEET_BASIS),
    _ns("latency_ns", "mixed", "of its slowest size there"),
    _number("cost_per_million", "mixed", "of requests, spread evenly over the sizes"),
    _list("alike", "targets that may be as good", "estimate"),
    _text("why", "why there is none, or what keeps others out"),
    _number("requests_per_s", "name", "of all its sizes", "1/s"),
    _text("served_by", "the target that its requests are counted on"),
    _number("busy", "mixed", "how many of that they keep busy", "1"),
    _number("hours_per_day", "mixed", "the same times 24", "h"),
    record=records.Fleet,
)
_table(
    "wins",
    "layers alike over all measured cells, and what a custom kernel would win",
    lambda found: found.wins,
    _text("pattern", "op types"),
    _text("dtype", "what is computed with"),
    _text("verdict", "write it or try first", "hypothesis"),
    _ns("win_ns", "estimate", "of one inference of each cell"),
    _ns("win_low_ns", "estimate", "the same, at least"),
    _ns("win_high_ns", "estimate", "the same, at most"),
    _number("hours_per_day", "estimate", "by the requests of their models", "h"),
    _number("hours_low", "estimate", "the same, at least", "h"),
    _number("hours_high", "estimate", "the same, at most", "h"),
    _share("share", "estimate", "of the measured hours, or without requests of the measured latencies"),
    _count("cells", "fact", "that have them"),
    _count("models", "fact", "that have them"),
    _list("targets", "on which they were measured", "fact"),
    _text("command", "to begin with"),
    record=records.Fleet,
)
_table(
    "ledger",
    "hours a day that go to one cause; the rows sum to all hours",
    lambda found: found.ledger,
    _text("cause", "of the hours"),
    _text("kind", "whether they are a fact, an estimate, or the remainder"),
    _text("basis", "of runs (measured) or predictions (expected)"),
    _field("needed", "bool", "", "name", "no kernel could do without"),
    _number("hours_per_day", "mixed", "of targets", "h"),
    record=records.Fleet,
)
_table(
    "failures",
    "cells that failed in the same way",
    lambda found: found.failures,
    _text("stage", "where"),
    _text("error", "of the first"),
    _text("why", "it failed"),
    _text("fix", "what to do about that"),
    _count("cells", "fact", "that failed so"),
    _count("models", "fact", "of which"),
    _list("targets", "on which", "fact"),
    record=records.Fleet,
)


# --- two fleets -----------------------------------------------------------------------------


def _told_ns(kind: str, end: str) -> Callable[[records.FleetCellChange], int | None]:
    """The latency of a cell where it was measured on both sides; of estimates that is another column."""
    return lambda cell: getattr(cell, f"{end}_ns") if cell.told_by == kind else None


_table(
    "cells",
    "a cell of two fleets, by what became of it",
    lambda found: found.cells,
    _text("model", "as it is called after"),
    _text("was", "what it was called before, where that is another name"),
    _text("target", "what the manifest calls it"),
    _text("verb", "predict, build or run"),
    _text("size", "shapes, batch and sizes"),
    _text("precision", "as asked for"),
    _text("answer", "what became of it", kind="mixed"),
    _text("told_by", "latency where it was measured, else expected or bound"),
    _ns("latency_before_ns", "fact", "median before", of=_told_ns("latency", "before")),
    _ns("latency_after_ns", "fact", "median after", of=_told_ns("latency", "after")),
    _ns("expected_before_ns", "estimate", "what good kernels take"),
    _ns("expected_after_ns", "estimate", "the same after"),
    _ns("bound_before_ns", "estimate", "no correct kernels are faster"),
    _ns("bound_after_ns", "estimate", "the same after"),
    _share("ratio", "mixed", "after over before, of what told_by says"),
    _share("low", "fact", "lower end of its interval (95 %); unknown of estimates"),
    _share("high", "fact", "upper end of it"),
    _share("chance", "fact", "how often chance alone makes as large a difference"),
    _list("causes", "what else is another one", kind="hypothesis"),
    _text("reason", "why it failed, or has no answer"),
    _list("tags", "of the model and the target"),
    _text("path", "of the model"),
    _text("key_before", "address of the cell"),
    _text("key_after", "the same after"),
    _text("run_before", "its run folder, from the folder of the fleet on"),
    _text("run_after", "the same after"),
    record=records.FleetComparison,
)
_table(
    "groups",
    "cells of the fleet, a target, a tag or a model, taken together",
    lambda found: found.groups,
    _text("by", "what they have in common"),
    _text("name", "of it; empty of the whole fleet"),
    _text("kind", "fact where they were measured, else estimate"),
    _count("cells", "fact", "that have a number on both sides"),
    _share("ratio", "mixed", "geometric mean of after over before"),
    _share("low", "fact", "lower end of its interval (95 %); unknown of estimates"),
    _share("high", "fact", "upper end of it"),
    _count("more", "mixed", "cells that are slower beyond noise; estimates that rose"),
    _count("less", "mixed", "cells that are faster beyond noise; estimates that fell"),
    record=records.FleetComparison,
)
_table(
    "kernels",
    "a pattern of kernels on a target that moved in many models",
    lambda found: found.kernels,
    _text("pattern", "op types"),
    _text("dtype", "of the kernels"),
    _text("target", "what the manifest calls it"),
    _text("kind", "fact where they were measured, else estimate"),
    _count("models", "mixed", "in which they moved that way"),
    _count("of", "fact", "models that have them"),
    _share("ratio", "mixed", "geometric mean over those models"),
    _share("mean", "mixed", "the same over all that have them"),
    _share("low", "fact", "lower end of the interval (95 %) of the mean; unknown of estimates"),
    _share("high", "fact", "upper end of it"),
    _ns("before_ns", "mixed", "in those models, over one inference of every cell"),
    _ns("after_ns", "mixed", "the same after"),
    _text("example", "the model in which it makes the largest difference"),
    record=records.FleetComparison,
)
_table(
    "causes",
    "something that both sides do not have the same",
    lambda found: found.causes,
    _text("what", "it is"),
    _text("model", "whose content changed"),
    _text("before", "what it was"),
    _text("after", "what it is"),
    _count("cells", "fact", "that it changed of"),
    _count("slower", "hypothesis", "cells among them that are slower beyond noise"),
    _count("faster", "hypothesis", "that are faster beyond noise"),
    _count("rose", "estimate", "estimates that rose"),
    _count("fell", "estimate", "estimates that fell"),
    record=records.FleetComparison,
)
_table(
    "gates",
    "a gate and its answer",
    lambda found: found.gates,
    _text("gate", "as asked for"),
    _text("answer", "passed, failed or inconclusive"),
    _number("value", "mixed", "in its unit: of the whole fleet, or of the worst cell"),
    _number("low", "fact", "lower end of its interval (95 %); unknown of estimates and counts"),
    _number("high", "fact", "upper end of it"),
    _text("unit", "%, ns or cells"),
    _number("threshold", "name", "above which it fails"),
    _count("over", "mixed", "cells above it; of the whole fleet the one number"),
    _count("within", "mixed", "cells not above it"),
    _count("between", "mixed", "cells of which that is not sure"),
    _text("worst", "the cell that is furthest above"),
    _text("reason", "in words"),
    record=records.FleetComparison,
)
