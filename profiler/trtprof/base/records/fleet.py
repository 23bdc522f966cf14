"""A fleet: models x targets x sizes, a cell each, and what came of every cell.

The table of a fleet has a row a cell (`FleetRow`); `base.fleet_table` makes columns of it.
"""

from __future__ import annotations

from typing import Literal

from trtprof.base.records import common as c
from trtprof.base.records.common import Record
from trtprof.base.records.estimate import Expectation, ExpectedBasis

FleetVerb = Literal["predict", "build", "run"]
"""What is done for a cell: nothing runs, an engine is built, or it is run and measured."""


class FleetCell(Record, frozen=True, kw_only=True):
    """One question of a fleet: a model on a target at a size and a precision.

    ``key`` is a digest of all that decides the answer, and nothing else: the content of the model, what the target is
    (of a prediction its datasheet), ``verb``, ``shapes``, ``batch``, ``sizes``, ``precision``, ``options`` and the
    version of trtprof. Names, paths, prices and tags are not in it. ``group`` is the same without the target, of a
    prediction; one call answers all cells of a group. Of a build or a run it is the key.
    """

    key: c.Digest
    group: c.Digest
    model: c.ModelName
    """What the fleet calls it; no two models of a fleet have the same name."""
    path: c.FileName
    """The file, absolute or as seen from where the manifest is."""
    sha256: c.Digest
    """Of its content, with files beside it that hold its weights."""
    target: c.Safe
    """What the manifest calls it."""
    verb: FleetVerb
    gpu: c.Safe = ""
    """Slug of its datasheet; empty of a machine that is looked at when it runs."""
    resource: c.Safe = ""
    """What a node of a cluster must offer to run it; empty of what any may."""
    shapes: c.Prose = ""
    """As ``--shapes`` takes them; empty where the manifest gives none."""
    batch: int | None = None
    sizes: dict[c.Safe, int] = {}
    """Named dimensions of the inputs: ``{"seq": 128}``."""
    precision: c.Safe = "model"
    options: dict[c.Safe, str] = {}
    """What else the manifest asks for, by the names that it uses."""
    trtprof: c.Safe
    """The version."""
    tags: tuple[c.Tag, ...] = ()

    @property
    def size(self) -> str:
        """The size in words, as tables say it; cells of one model that differ in nothing else differ in this."""
        parts = [self.shapes] if self.shapes else []
        parts += [] if self.batch is None else [f"batch={self.batch}"]
        parts += [f"{name}={number}" for name, number in sorted(self.sizes.items())]
        return " ".join(parts) or "as in the file"


class FleetLoss(Record, frozen=True, kw_only=True):
    """One row of the ledger of a cell, in ns of one inference; see `LedgerRow`.

    Of a prediction: ``bound by memory`` and so on, then ``good kernels above the bound``, all of them estimates.
    """

    cause: c.Prose
    ns: int
    kind: Literal["fact", "estimate", "remainder"]


class FleetKernel(Record, frozen=True, kw_only=True):
    """Layers of one inference of a cell that are alike: the same ops at the same shapes, in the same kernel.

    Times are of all their runs in one inference. The win is that of a custom kernel, net of what it costs to cut them
    out of their fusions, with its interval; None where nothing was measured or there is no verdict.
    """

    pattern: c.Prose
    """Op types: ``Conv + Relu``."""
    dtype: c.Safe
    shapes: c.Prose
    kernel: c.KernelName = ""
    """That took most of the time; empty of a prediction."""
    layer: c.LayerName
    """One of them, which `trtprof plugin` finds."""
    count: c.NonNegative
    """Runs in one inference."""
    bound_ns: c.NonNegative | None = None
    expected_ns: c.NonNegative | None = None
    expected_basis: ExpectedBasis = "none"
    measured_ns: c.NonNegative | None = None
    verdict: Literal["write it", "try first", "do not", "not decided"] = "not decided"
    win_ns: int | None = None
    win_low_ns: int | None = None
    win_high_ns: int | None = None


class FleetRow(FleetCell, frozen=True, kw_only=True):
    """A cell with what came of it: a row of the table of a fleet.

    Times are of one inference in ns. What is measured (``latency_ns``), what is expected and what bounds it are three
    things: none stands for another. All from ``started`` on differs from one execution to the next without the answer
    being another one (`base.fleet_table.PASSING`).
    """

    status: Literal["done", "failed"]
    stage: c.Safe = ""
    """Where it failed."""
    error: c.Message = ""
    why: c.Message = ""
    fix: c.Message = ""
    device: c.Prose = ""
    """The name of the device that it is of."""
    latency_ns: c.NonNegative | None = None
    """Median, measured; None of predictions and builds."""
    latency_low_ns: c.NonNegative | None = None
    """Of the interval (95 %) that holds the median of another run of the same, too; of a run on a machine that was
    slower than when its ceilings were measured, also what would be left at that speed."""
    latency_high_ns: c.NonNegative | None = None
    bound_ns: c.NonNegative | None = None
    """No correct kernels are faster, by the datasheet; where there is none (a run on a CPU), by the best that was ever
    measured on the device. None where nothing is priced."""
    expected_ns: c.NonNegative | None = None
    """What good kernels take, layers without an expectation at their bound; None where there is no forecast."""
    expected_p10_ns: c.NonNegative | None = None
    expected_p90_ns: c.NonNegative | None = None
    expected_basis: ExpectedBasis = "none"
    joules: float | None = None
    """At the board's power limit for as long as it is measured, else expected, else bound to take; None without a
    datasheet."""
    tdp_w: float | None = None
    memory_bytes: c.NonNegative | None = None
    flops: c.NonNegative | None = None
    bytes: c.NonNegative | None = None
    layers: c.NonNegative = 0
    verdict: c.Prose = ""
    doubts: c.Prose = ""
    """What makes the numbers less sure, in words; of a run, why there is no verdict."""
    ledger: tuple[FleetLoss, ...] = ()
    kernels: tuple[FleetKernel, ...] = ()
    """Those with most time first; the others summed up (`base.fleet_table.REST`)."""
    run: c.FileName = ""
    """Its run folder, from the folder of the fleet on; empty where there is none."""
    started: c.Safe = ""
    """UTC, ISO 8601."""
    seconds: float = 0.0
    """That answering it took: its share, where several were answered at once."""
    attempts: tuple[c.Prose, ...] = ()
    """Why earlier attempts came to nothing: a worker that died, a node that was lost."""
    worker: c.Safe = ""
    """Host and process."""
    log: c.Message = ""
    """The end of what was told on the way, and of a fault the traceback."""


class FleetTargetCount(Record, frozen=True, kw_only=True):
    """Cells of one target."""

    target: c.Safe
    verb: FleetVerb
    cells: c.NonNegative
    done: c.NonNegative = 0
    failed: c.NonNegative = 0
    claimed: c.NonNegative = 0
    """Under way, here or elsewhere."""
    left_s: float | None = None
    """About how long the rest takes on this machine; None where nothing tells."""

    @property
    def left(self) -> int:
        """Neither done nor failed."""
        return self.cells - self.done - self.failed


class FleetPlan(Record, frozen=True, kw_only=True):
    """What a fleet asks, and how much of it is answered: the document of ``fleet plan`` and ``fleet status``."""

    schema_version: int
    name: c.Prose
    folder: c.FileName
    models: c.NonNegative
    cells: c.NonNegative
    targets: tuple[FleetTargetCount, ...]
    """In the order of the manifest."""
    left_s: float | None = None
    """About how long the rest takes; None where nothing tells."""
    basis: c.Prose = ""
    """Where that is from, in words."""
    failures: tuple[FleetRow, ...] = ()
    """Failed cells, by what failed; a few of many."""
    sample: tuple[FleetCell, ...] = ()
    """The first cells that are left."""
    notes: tuple[c.Prose, ...] = ()


# --- two fleets -----------------------------------------------------------------------------

FleetOutcome = Literal[
    "slower",
    "failed now",
    "vanished",
    "estimate rose",
    "faster",
    "mended",
    "appeared",
    "estimate fell",
    "not significant",
    "estimate equal",
    "not decided",
    "not answered",
    "failed on both",
]
"""What became of a cell. ``slower``, ``faster`` and ``not significant`` are of latencies that were measured on both
sides; an estimate (an expectation or a bound) that is another one ``rose`` or ``fell``, and is never slower or faster.
``not decided``: there is no number on a side, or none with an interval. ``not answered``: both sides ask it, and one
has no row for it yet."""

FleetQuantity = Literal["latency", "expected", "bound"]


class FleetSide(Record, frozen=True, kw_only=True):
    """One side of a comparison of fleets: what it asks now, and how far it is."""

    name: c.Prose
    folder: c.FileName
    cells: c.NonNegative
    done: c.NonNegative
    failed: c.NonNegative
    trtprof: tuple[c.Safe, ...] = ()
    """Versions of its cells."""
    first: c.Safe = ""
    """When the first of its cells was begun, and the last: UTC, ISO 8601; empty where there is none."""
    last: c.Safe = ""

    @property
    def left(self) -> int:
        """Cells without an answer."""
        return self.cells - self.done - self.failed


class FleetCellChange(Record, frozen=True, kw_only=True):
    """One cell on both sides, which are the same by model, target, verb, size and precision."""

    model: c.ModelName
    """As it is called after; of one that vanished, before."""
    was: c.ModelName = ""
    """What it was called before; empty where that is the same."""
    path: c.FileName = ""
    target: c.Safe
    verb: FleetVerb
    size: c.Prose
    precision: c.Safe
    tags: tuple[c.Tag, ...] = ()
    answer: FleetOutcome
    told_by: FleetQuantity | None = None
    """What the answer is told by: a measured latency, else an estimate; None where there is no number."""
    before_ns: c.NonNegative | None = None
    """Of that quantity."""
    after_ns: c.NonNegative | None = None
    ratio: float | None = None
    """After over before."""
    low: float | None = None
    """Of the interval (95 %) of the ratio; None of estimates, which are computed."""
    high: float | None = None
    chance: float | None = None
    """How often chance alone makes a difference as large."""
    expected_before_ns: c.NonNegative | None = None
    expected_after_ns: c.NonNegative | None = None
    bound_before_ns: c.NonNegative | None = None
    bound_after_ns: c.NonNegative | None = None
    causes: tuple[c.Safe, ...] = ()
    """What else is another one, on any side of the cell: see `FleetCause`."""
    reason: c.Message = ""
    """Why it failed, or why there is no answer."""
    key_before: c.Digest = ""
    key_after: c.Digest = ""
    run_before: c.FileName = ""
    run_after: c.FileName = ""


class FleetGroupChange(Record, frozen=True, kw_only=True):
    """Cells that have something in common, taken together: measured ones, or estimates.

    ``ratio`` is the geometric mean of theirs.
    """

    by: Literal["fleet", "target", "model", "tag"]
    name: c.Prose
    """Of a tag or a model; `FleetCellChange.target`; empty of the whole fleet."""
    kind: Literal["fact", "estimate"]
    cells: c.NonNegative
    """That have the quantity on both sides."""
    ratio: float
    low: float | None = None
    """Of its interval (95 %); None of estimates."""
    high: float | None = None
    more: c.NonNegative = 0
    """Cells that are slower beyond noise; of estimates those that rose."""
    less: c.NonNegative = 0


class FleetKernelChange(Record, frozen=True, kw_only=True):
    """Kernels of one pattern on one target that take longer, or less long, in many models.

    ``ratio`` is the geometric mean over models in which they moved that way by more than noise does, ``mean`` over all.
    """

    pattern: c.Prose
    dtype: c.Safe
    target: c.Safe
    kind: Literal["fact", "estimate"]
    models: c.NonNegative
    """In which they moved that way."""
    of: c.NonNegative
    """Models that have them."""
    ratio: float
    mean: float
    low: float | None = None
    """Of the interval (95 %) of the mean, from what models differ by; None of estimates."""
    high: float | None = None
    before_ns: c.NonNegative
    """In those models, over one inference of every cell."""
    after_ns: c.NonNegative
    example: c.ModelName = ""
    """The model in which it makes the largest difference."""


class FleetCause(Record, frozen=True, kw_only=True):
    """Something that both sides do not have the same, and in how many cells."""

    what: Literal["model content", "trtprof", "GPU", "datasheet", "options", "device", "resource", "nothing recorded"]
    """``datasheet`` is told by the address of a cell, where all else that is in it stayed. ``nothing recorded``: an
    estimate is another one though its address is the same."""
    before: c.Message = ""
    after: c.Message = ""
    model: c.ModelName = ""
    """Whose content changed."""
    cells: c.NonNegative = 0
    slower: c.NonNegative = 0
    faster: c.NonNegative = 0
    rose: c.NonNegative = 0
    fell: c.NonNegative = 0


class FleetRename(Record, frozen=True, kw_only=True):
    """A model that has another name, and the same content."""

    before: c.ModelName
    after: c.ModelName
    cells: c.NonNegative


class FleetGate(Record, frozen=True, kw_only=True):
    """A gate over two fleets and its answer.

    Of each cell, or of the whole fleet: see `trtprof.compare.fleet_gates`. ``over``, ``within`` and ``between`` count
    the cells (of the whole fleet, the one number) that are above the threshold, not above it, and neither for sure.
    """

    gate: c.Safe
    what: c.Safe
    unit: Literal["%", "ns", "cells"]
    threshold: float
    answer: Literal["passed", "failed", "inconclusive"]
    value: float | None = None
    """Of the whole fleet, or of the worst cell."""
    low: float | None = None
    high: float | None = None
    over: c.NonNegative = 0
    within: c.NonNegative = 0
    between: c.NonNegative = 0
    worst: c.Prose = ""
    """The cell that is furthest above; empty where none is."""
    reason: c.Prose


class FleetComparison(Record, frozen=True, kw_only=True):
    """Two fleets, or one at two times: the document of ``fleet compare --format json``."""

    schema_version: int
    before: FleetSide
    after: FleetSide
    verdict: c.Prose
    doubts: tuple[c.Prose, ...] = ()
    """Why what is called slower or faster may not be."""
    counts: dict[c.Safe, int]
    """Cells by answer (`FleetOutcome`), those with none left out."""
    rate: float
    """Of the cells that are called slower or faster, at most this share is so by chance, on average."""
    cells: tuple[FleetCellChange, ...] = ()
    """All cells of both sides, in the order of `FleetOutcome`, the largest change first."""
    groups: tuple[FleetGroupChange, ...] = ()
    kernels: tuple[FleetKernelChange, ...] = ()
    """That are another beyond noise, those that cost most first."""
    causes: tuple[FleetCause, ...] = ()
    renames: tuple[FleetRename, ...] = ()
    gates: tuple[FleetGate, ...] = ()
    method: c.Prose = ""
    notes: tuple[c.Prose, ...] = ()


# --- the report -------------------------------------------------------------------------------

FleetBasis = Literal["measured", "expected", "bound", "none"]
"""What a number rests on: a fact, an estimate with a band, no less than that, nothing."""


class FleetTarget(Record, frozen=True, kw_only=True):
    """A target, what became of its cells, and how many of it the fleet needs."""

    target: c.Safe
    verb: FleetVerb
    gpu: c.Safe = ""
    resource: c.Safe = ""
    price_per_hour: float | None = None
    tags: tuple[c.Tag, ...] = ()
    cells: c.NonNegative = 0
    done: c.NonNegative = 0
    failed: c.NonNegative = 0
    models: c.NonNegative = 0
    """With a request rate that it serves."""
    busy: float | None = None
    """How many of it these keep busy, one inference after the other; None where it serves none that is priced."""
    needed: c.NonNegative | None = None
    """The same in whole ones: no fewer can do."""
    basis: FleetBasis = "none"
    """``expected`` where any part of it is."""


class FleetAnswer(Expectation, frozen=True, kw_only=True):
    """A cell as a table of models and targets shows it: times of one inference in ns."""

    key: c.Digest
    model: c.ModelName
    target: c.Safe
    verb: FleetVerb
    size: c.Prose
    precision: c.Safe
    status: Literal["done", "failed"]
    requests: int = 1
    """That one inference answers: its batch; 1 where the fleet gave none."""
    latency_ns: c.NonNegative | None = None
    latency_low_ns: c.NonNegative | None = None
    latency_high_ns: c.NonNegative | None = None
    bound_ns: c.NonNegative | None = None
    of_expected: float | None = None
    """Expected over measured; above 1 it is faster than good kernels are expected to be."""
    cost_per_million: float | None = None
    """Of requests, in the currency of the fleet, with the target busy all the time."""
    cost_basis: FleetBasis = "none"
    joules: float | None = None
    """Of an inference, at the power limit of the board."""
    joules_basis: FleetBasis = "none"
    doubts: c.Prose = ""
    error: c.Message = ""
    run: c.FileName = ""
    """Its run folder, from the folder of the fleet on."""
    page: c.FileName = ""
    """The page of the run, where there is one."""


class FleetBest(Record, frozen=True, kw_only=True):
    """Which target a model is best served by at a precision: it keeps to the limit at every size that was asked.

    A measured latency keeps with its whole interval, an expected one with its whole band; a bound alone never does.
    """

    model: c.ModelName
    precision: c.Safe
    sizes: c.NonNegative
    limit_ns: c.NonNegative | None = None
    target: c.Safe = ""
    """Empty where none keeps."""
    by: Literal["cost", "latency", ""] = ""
    """The cheapest a request; without prices the fastest a request."""
    basis: FleetBasis = "none"
    latency_ns: c.NonNegative | None = None
    """Of its slowest size there, measured or expected."""
    cost_per_million: float | None = None
    """Of requests, spread evenly over the sizes."""
    alike: tuple[c.Safe, ...] = ()
    """Other targets that keep, too, and may be as good: intervals or bands overlap."""
    why: c.Prose = ""
    """Why there is none, or what keeps others out."""
    requests_per_s: float | None = None
    """Of all its sizes at this precision."""
    served_by: c.Safe = ""
    """Which target its requests are counted on."""
    served_basis: FleetBasis = "none"
    """``expected`` where any of its times there is."""
    busy: float | None = None
    """How many of that they keep busy."""
    hours_per_day: float | None = None
    """The same times 24."""


class FleetLedgerRow(Record, frozen=True, kw_only=True):
    """Hours a day that go to one cause, over all requests of the fleet."""

    cause: c.Prose
    kind: Literal["fact", "estimate", "remainder"]
    basis: FleetBasis
    """``measured`` of runs, ``expected`` of predictions."""
    needed: bool = False
    """Whether no kernel could do without: the bound itself."""
    hours_per_day: float


class FleetWin(Record, frozen=True, kw_only=True):
    """Layers alike in op types and dtype over all measured cells, and what a custom kernel would win on them.

    The ends of the interval are the sums of the ends: as if all cells erred to the same side.
    """

    pattern: c.Prose
    dtype: c.Safe
    verdict: Literal["write it", "try first"]
    """``write it`` where that is the verdict of any of its cells."""
    win_ns: int
    """Of one inference of each cell."""
    win_low_ns: int
    win_high_ns: int
    hours_per_day: float | None = None
    """By the requests of the models that it is in; None where none of these has any."""
    hours_low: float | None = None
    hours_high: float | None = None
    share: float = 0.0
    """Of the measured hours a day, or without requests of the measured latencies of all cells."""
    cells: c.NonNegative
    models: c.NonNegative
    targets: tuple[c.Safe, ...]
    run: c.FileName = ""
    """Of the cell in which it wins most."""
    layer: c.LayerName = ""
    command: c.Command = ""


class FleetEfficiency(Record, frozen=True, kw_only=True):
    """How near to their bound layers are on a target."""

    target: c.Safe
    basis: FleetBasis
    of_bound: float
    """Sum of bounds over the sum of times that were measured, or are expected."""
    cells: c.NonNegative


class FleetPattern(Record, frozen=True, kw_only=True):
    """Layers alike in op types and dtype over all cells."""

    pattern: c.Prose
    dtype: c.Safe
    models: c.NonNegative
    cells: c.NonNegative
    above_ns: c.NonNegative = 0
    """Expected less bound, of one inference of each cell: an estimate."""
    above_hours: float | None = None
    """The same in hours a day; None without requests."""
    targets: tuple[FleetEfficiency, ...] = ()


class FleetFailedCell(Record, frozen=True, kw_only=True):
    """Which cell failed."""

    key: c.Digest
    model: c.ModelName
    path: c.FileName
    target: c.Safe
    size: c.Prose
    precision: c.Safe


class FleetFailure(Record, frozen=True, kw_only=True):
    """Cells that failed in the same way: at one stage, with one error but for the name of the model."""

    stage: c.Safe
    error: c.Message
    """Of the first."""
    why: c.Message = ""
    fix: c.Message = ""
    cells: c.NonNegative
    models: c.NonNegative
    targets: tuple[c.Safe, ...]
    examples: tuple[FleetFailedCell, ...]
    """The first of them."""


class Fleet(Record, frozen=True, kw_only=True):
    """What came of a fleet: the document of ``fleet report``.

    It holds no more than a page does; the Parquet data set of the folder (``trtprof.fleet``) has every cell whole.
    """

    schema_version: int
    name: c.Prose
    folder: c.FileName
    currency: c.Safe = ""
    limit_ns: c.NonNegative | None = None
    """Of all models, where it was given to the report."""
    chosen: tuple[c.Prose, ...] = ()
    """What it was narrowed to, in words."""
    models: c.NonNegative
    cells: c.NonNegative
    done: c.NonNegative
    failed: c.NonNegative
    doubts: tuple[c.Prose, ...] = ()
    targets: tuple[FleetTarget, ...]
    """In the order of the manifest."""
    answers: tuple[FleetAnswer, ...]
    """By model, precision, size; targets in their order."""
    answers_left_out: c.NonNegative = 0
    best: tuple[FleetBest, ...] = ()
    best_left_out: c.NonNegative = 0
    none_keeps: c.NonNegative = 0
    """Models, at a precision, that have a limit which no target keeps to."""
    requests_per_s: float | None = None
    """Of all models with a target that serves them; None where no model has any."""
    hours_per_day: float | None = None
    """That these keep targets busy; the sum of the ledger."""
    measured_hours: float = 0.0
    """Of those, what was measured; the rest is expected."""
    ledger: tuple[FleetLedgerRow, ...] = ()
    """What is needed first, then by hours."""
    not_counted: tuple[c.Prose, ...] = ()
    """Models with requests that are in no sum, and why."""
    measured: c.NonNegative = 0
    """Cells that were measured."""
    wins: tuple[FleetWin, ...] = ()
    wins_left_out: c.NonNegative = 0
    no_wins: c.Prose = ""
    """Why there is none."""
    above: tuple[FleetPattern, ...] = ()
    """Where nothing was measured: where what is expected stands furthest above its bound. No verdict."""
    patterns: tuple[FleetPattern, ...] = ()
    """In most models first."""
    patterns_left_out: c.NonNegative = 0
    failures: tuple[FleetFailure, ...] = ()
    failures_left_out: c.NonNegative = 0
    notes: tuple[c.Prose, ...] = ()
