"""One side of a comparison: what its run folders hold, read once, and what its runs come to together.

Of several runs the structure (layers, nodes, kernels) is that of the one whose latency is the middle one; times are
medians over all of them. Runs of one side must be of the same thing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trtprof.base import run_folder
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.latency import latency_of, median_ns
from trtprof.base.records import (
    Capture,
    Ceilings,
    Latency,
    LayerResult,
    PluginBench,
    PluginBenches,
    Run,
    Side,
    Source,
    Tried,
)
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.undisturbed import ENOUGH
from trtprof.compare.nodes import NodeGraph, node_graph
from trtprof.compare.samples import FEWEST
from trtprof.diagnose import ledger as rows

if TYPE_CHECKING:
    import pandas as pd

COPIES_AND_GAPS = (rows.TO_DEVICE, rows.FROM_DEVICE, rows.COPIES, rows.OVERLAP, rows.GAPS_INSIDE, rows.GAPS_BETWEEN)
HOST = (rows.HOST, rows.WAITING)
"""Rows of the ledger of a run by what they are called in that of a comparison; the others are kernels, or unexplained.
"""


class LoadedRun(NamedTuple):
    """What a run folder holds, as far as it is there."""

    path: Path  # Of the folder
    run: Run  # The result
    written: int  # Schema version that it was written with
    # Raw latencies in ns, in the order measured; None where there are none, or what is there is no time
    samples: npt.NDArray[np.float64] | None
    capture: Capture | None  # Speed probes and the like
    ceilings: Ceilings  # As measured, before they are brought to the speed of the run
    request: Request | None  # What was asked
    source: Source | None  # The model as bound
    # Of these, in ns, those in which no thread waited for a CPU; None where the system does not tell
    undisturbed: npt.NDArray[np.float64] | None = None
    tried: Tried | None = None  # What `trtprof try` measured of its model
    benches: tuple[PluginBench, ...] = ()  # Plugins for its layers that were measured

    @property
    def stepped_ns(self) -> int:
        """Step of the profiler's clock."""
        return self.capture.clock_resolution_ns if self.capture else 0

    def launches(self) -> pd.DataFrame | None:
        """The kernel table, with the layer of every launch; None where layers are found by another way."""
        folder = RunFolder(self.path)
        if not folder.has(run_folder.KERNELS):
            return None
        try:
            table = folder.table(run_folder.KERNELS)
        except TrtprofError:
            return None
        if not {"iteration", "layer", "self_ns"} <= set(table.columns) or _numbers(table["self_ns"], 0) is None:
            return None
        inferences = _numbers(table["iteration"], 0)
        # Every inference has a launch.
        return table if inferences is not None and len(table) and np.ptp(inferences) < len(table) else None


class Runs(NamedTuple):
    """The runs of one side."""

    all: tuple[LoadedRun, ...]  # In the order given
    middle: LoadedRun  # The one whose median latency is the middle one; what a side looks like is taken from it
    side: Side  # As the document names it
    layers: tuple[LayerResult, ...]  # Of ``middle``, with medians over all runs as times
    graph: NodeGraph  # Of the nodes
    places: dict[str, int]  # Of a node by its name in ``graph``
    kernels_ns: int  # Time of kernels that no layer owns, of one inference
    copies_ns: int  # Copies and gaps
    host_ns: int  # The host's part
    notes: tuple[str, ...]  # What makes it weak, in sentences

    @property
    def samples(self) -> list[npt.NDArray[np.float64]] | None:
        """Raw latencies of every run, undisturbed where there are enough; None where one run has none or too few."""
        own = [run.undisturbed for run in self.all if run.undisturbed is not None and len(run.undisturbed) >= ENOUGH]
        if len(own) == len(self.all):
            return own
        found = [run.samples for run in self.all if run.samples is not None and len(run.samples) >= FEWEST]
        return found if len(found) == len(self.all) else None

    @property
    def disturbed(self) -> bool:
        """Whether other processes left a run too few undisturbed inferences to tell its latency by."""
        return any(
            run.undisturbed is not None and run.samples is not None
            and len(run.undisturbed) < min(ENOUGH, len(run.samples))
            for run in self.all
        )  # fmt: skip

    def on_same_device(self, other: Runs) -> bool:
        """Whether the runs of another side were made on a device of the same name and kind."""
        device, others = self.middle.run.device, other.middle.run.device
        return (device.name, device.kind) == (others.name, others.kind)

    def over_runs(self, what: Callable[[LoadedRun], float | None]) -> float | None:
        """Median over the runs of something about each, or None where one does not tell it."""
        found = [what(run) for run in self.all]
        known = [value for value in found if value is not None]
        return statistics.median(known) if known and len(known) == len(found) else None


def load_side(folders: Sequence[RunFolder]) -> Runs:
    """Read the runs of a side."""
    if not folders:
        raise UsageError("a side has no run", why="a comparison is of run folders", fix="name at least two")
    paths = [folder.path.resolve() for folder in folders]
    for folder, path in zip(folders, paths, strict=True):
        if paths.count(path) > 1:
            raise UsageError(
                f"{folder.path} is named twice on one side",
                why="the same samples twice would look surer than they are",
                fix="name it once, or measure again: `trtprof run`",
            )
    return side_of([_load(folder) for folder in folders])


def side_of(loaded: Sequence[LoadedRun]) -> Runs:
    """The runs of a side together."""
    _check_same(loaded)
    return _joined(tuple(loaded))


def _load(folder: RunFolder) -> LoadedRun:
    if not folder.path.exists():
        raise MissingError(
            f"{folder.path} is not there",
            why="there is no folder of that name",
            fix="name a folder that `trtprof run` wrote; `ls reports` shows those of this place",
        )
    run = folder.report()
    written = folder.written() or run.schema_version
    benches: PluginBenches | None = _artefact(folder, run_folder.BENCH, PluginBenches)
    samples, undisturbed = _samples(folder, waits=run.cpu_use is not None and run.cpu_use.waits)
    return LoadedRun(
        folder.path, run, written, samples, _artefact(folder, run_folder.CAPTURE, Capture),
        _artefact(folder, run_folder.CEILINGS, Ceilings) or run.ceilings,
        _artefact(folder, run_folder.REQUEST, Request), _artefact(folder, run_folder.SOURCE, Source),
        undisturbed, _artefact(folder, run_folder.TRIED, Tried), benches.benches if benches else (),
    )  # fmt: skip


def _samples(
    folder: RunFolder, *, waits: bool
) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None]:
    """All latencies, and those of the undisturbed inferences."""
    if not folder.has(run_folder.LATENCY):
        return None, None
    try:
        table = folder.table(run_folder.LATENCY)
    except TrtprofError:
        return None, None
    if "mode" in table.columns:
        table = table[table["mode"] == "stream"]
    if "latency_ns" not in table.columns:
        return None, None
    found = _numbers(table["latency_ns"], 1)
    if found is None or not waits or "undisturbed" not in table.columns:
        return found, None
    own = found[table["undisturbed"].to_numpy(bool)]
    if folder.has(run_folder.AHEAD):
        ahead = folder.table(run_folder.AHEAD)
        own = np.append(own, ahead.loc[ahead["undisturbed"], "latency_ns"])
    return found, own


def _numbers(column: pd.Series[Any], least: float) -> npt.NDArray[np.float64] | None:
    """A column of a table that anybody may have written; None where not all of it is numbers from ``least`` on."""
    if column.dtype.kind not in "iuf":
        return None
    found = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return found if ((found >= least) & (found < 2**63)).all() else None


def _artefact(folder: RunFolder, name: str, kind: type[Any]) -> Any:
    """An artefact that a comparison can do without; None where it is absent or of another time."""
    if not folder.has(name):
        return None
    try:
        return folder.read(name, kind)
    except TrtprofError:
        return None


def identity(run: LoadedRun) -> dict[str, str]:
    """What makes two runs runs of the same thing, in words."""
    result = run.run
    inputs = ", ".join(
        f"{tensor.name}:{'x'.join(map(str, tensor.shape or ()))} {tensor.dtype}" for tensor in result.model.inputs
    )
    found = {
        "model file": result.model.sha256 or result.model.name,
        "input shapes": inputs,
        "backend": result.backend.name,
        "device": result.device.name,
        "threads": str(run.ceilings.threads),
    }
    found |= {f"backend option {key}": value for key, value in result.backend.options.items()}
    ignored = ("output", "iterations", "duration_s", "warmup_ms", "profile_iterations", "model")
    options = run.request.options if run.request else {}
    return found | {f"option {key}": str(value) for key, value in options.items() if key not in ignored}


def _check_same(runs: Sequence[LoadedRun]) -> None:
    first = identity(runs[0])
    for other in runs[1:]:
        found = identity(other)
        different = sorted(key for key in first.keys() | found.keys() if first.get(key) != found.get(key))
        if different:
            key = different[0]
            more = f", and {', '.join(different[1:4])}" if len(different) > 1 else ""
            raise UsageError(
                f"{runs[0].path} and {other.path} are not runs of the same thing",
                why=f"{key}: {first.get(key, 'none')} and {found.get(key, 'none')}{more}",
                fix="put them on two sides: `trtprof compare A B`; a comma joins runs of the same thing",
            )


def _joined(runs: tuple[LoadedRun, ...]) -> Runs:
    medians = [run.run.latency.headline_ns for run in runs]
    order = sorted(range(len(runs)), key=lambda at: (medians[at], at))
    middle = runs[order[(len(runs) - 1) // 2]]
    times = [{layer.name: layer.measured_ns for layer in run.run.layers} for run in runs]
    layers = tuple(
        msgspec.structs.replace(layer, measured_ns=median_ns(own[layer.name] for own in times if layer.name in own))
        if len(runs) > 1
        else layer
        for layer in middle.run.layers
    )
    noted = [
        f"{run.path.name} was written with schema version {run.written}; what came later is missing from it"
        for run in runs
        if run.written < run.run.schema_version
    ]
    latency = _latency(runs)
    for run in runs:
        if run.samples is None:
            there = RunFolder(run.path).has(run_folder.LATENCY)
            lacks = "raw samples that are no times" if there else "no raw samples"
            noted.append(f"{run.path.name} has {lacks}: whether the latency changed significantly cannot be told")
        elif len(run.samples) < FEWEST:
            noted.append(f"{run.path.name} has {len(run.samples)} samples, too few to tell what is chance")
    attainable = [_attainable(run.run) for run in runs]
    known = [value for value in attainable if value is not None]
    side = Side(
        label=", ".join(run.path.name or str(run.path) for run in runs),
        paths=tuple(str(run.path) for run in runs),
        model=middle.run.model.name,
        backend=middle.run.backend.name,
        device=middle.run.device.name,
        created=middle.run.created,
        tags=tuple(dict.fromkeys(tag for run in runs for tag in run.run.tags)),
        latency=latency,
        medians_ns=tuple(medians),
        attainable_ns=median_ns(known) if known and len(known) == len(runs) else None,
    )
    graph = node_graph(middle.run, middle.source)
    return Runs(
        runs, middle, side, layers, graph, {name: at for at, name in enumerate(graph.names)},
        median_ns(_unattributed_ns(run.run) for run in runs),
        median_ns(_row_sum(run.run, COPIES_AND_GAPS) for run in runs),
        median_ns(_row_sum(run.run, HOST) for run in runs),
        tuple(noted),
    )  # fmt: skip


def _latency(runs: Sequence[LoadedRun]) -> Latency:
    if len(runs) == 1:
        return runs[0].run.latency
    samples = [run.samples for run in runs if run.samples is not None and len(run.samples)]
    if len(samples) == len(runs):
        latency = latency_of(np.concatenate(samples))
        if any(run.run.latency.undisturbed_basis != "inferences" or run.undisturbed is None for run in runs):
            return latency
        own = np.concatenate([run.undisturbed for run in runs if run.undisturbed is not None])
        return msgspec.structs.replace(
            latency, undisturbed_ns=round(float(np.median(own))), undisturbed_basis="inferences", undisturbed_n=len(own)
        )
    of_each = [run.run.latency for run in runs]
    return msgspec.structs.replace(
        of_each[0],
        median_ns=median_ns(one.median_ns for one in of_each),
        p99_ns=median_ns(one.p99_ns for one in of_each),
        mean_ns=median_ns(one.mean_ns for one in of_each),
        cv=statistics.median(one.cv for one in of_each),
        n=sum(one.n for one in of_each),
        min_ns=min(one.min_ns for one in of_each),
        max_ns=max(one.max_ns for one in of_each),
    )


def _attainable(run: Run) -> int | None:
    """As the verdict of a run has it: layers that only reorder have no part in it."""
    found = [layer.attainable_ns for layer in run.layers if layer.role not in ("layout", "shape", "sync", "idle")]
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def _row_sum(run: Run, causes: Sequence[str]) -> int:
    return sum(row.ns for row in run.ledger if row.cause in causes)


def _unattributed_ns(run: Run) -> int:
    """Kernel time of the ledger of a run that none of its layers has."""
    outside = {*COPIES_AND_GAPS, *HOST, rows.ADDING, rows.UNEXPLAINED}
    kernels = sum(row.ns for row in run.ledger if row.cause not in outside)
    return kernels - sum(layer.measured_ns for layer in run.layers) if run.ledger else 0


def speed_ratio(before: Runs, after: Runs) -> dict[str, tuple[float, float]]:
    """Clocks of the GPU on the later side over those on the earlier one.

    Returns:
        ``compute`` and ``memory`` -> (of the latency, of the kernels), 1 where nobody looked; empty of other devices.
    """
    if not before.on_same_device(after):
        return {}

    def ratio(clock: str, *, profiled: bool) -> float:
        earlier, later = (runs.over_runs(lambda one: _clock_mhz(one.run, clock, profiled)) for runs in (before, after))
        return later / earlier if earlier and later else 1.0

    clocks = {"compute": "sm_clock_mhz", "memory": "memory_clock_mhz"}
    return {name: (ratio(clock, profiled=False), ratio(clock, profiled=True)) for name, clock in clocks.items()}


def _clock_mhz(run: Run, clock: str, profiled: bool) -> float | None:
    spread = getattr((run.clocks_profiled if profiled else None) or run.clocks, clock, None)
    return None if spread is None else float(spread.median)
