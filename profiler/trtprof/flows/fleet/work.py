"""The answer to a task: what a worker does, wherever it is, and without which no cell has a row."""

from __future__ import annotations

import datetime as dt
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.errors import BuildError, MissingError, ModelError, TrtprofError, UsageError
from trtprof.base.records import FleetCell, FleetRow, GpuSpec
from trtprof.flows.fleet.cells import key_by, request_of
from trtprof.flows.fleet.execute import Task
from trtprof.flows.fleet.options import build_options_of, run_options_of, settings_of

RUN = "run"  # Of the scratch folder: where the run folder of a task lies when it is answered
LOG_BYTES = 8192  # Of what was told on the way, its end: kept in the row

_OF_MODEL = (ModelError, BuildError, MissingError)
"""Errors that are of the model or of this machine, and so of every GPU that it is predicted for."""


def answer(
    task: Task, scratch: Path, model: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> tuple[FleetRow, ...]:
    """A row for each cell of a task; what fails is in its rows, faults of our own with their traceback.

    `scratch`: an empty folder; a run leaves its run folder in ``scratch/RUN``. `model`: the file, where it is elsewhere
    than ``task`` says; its content is the same.
    """
    return _Answer(task, scratch, model, _Told(say)).rows()


def failed(task: Task, stage: str, error: str, why: str = "", fix: str = "") -> tuple[FleetRow, ...]:
    """A row for each cell of a task that no worker could answer: it took too long, or whoever tried died."""
    same: dict[str, Any] = {"stage": stage, "error": error, "why": why, "fix": fix}
    same |= {"started": _now(), "attempts": task.attempts, "worker": _worker()}
    return tuple(FleetRow(**msgspec.structs.asdict(cell), status="failed", **same) for cell in task.cells)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _worker() -> str:
    return f"{platform.node()}:{os.getpid()}"


class _Told:
    """What is told on the way: a `Progress` that keeps its end, and knows the stage."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._kept: list[str] = []
        self.running = ""

    def stage(self, name: str) -> None:
        self.running = name
        self._tell(name)

    def detail(self, text: str) -> None:
        self._tell(f"{self.running}: {text}")

    def note(self, text: str) -> None:
        self._tell(text)

    def opened(self, folder: Path) -> None:
        """Nothing: the folder is moved."""

    def _tell(self, line: str) -> None:
        self._kept.append(line)
        self._say(line)

    def log(self, more: str = "") -> str:
        """The end of what was told, and of what is told of a fault."""
        text = "".join(f"{line}\n" for line in self._kept) + more
        return text.encode()[-LOG_BYTES:].decode(errors="ignore")


def _apart(cells: Sequence[FleetCell], specs: Mapping[str, GpuSpec]) -> list[list[FleetCell]]:
    """Cells that one prediction answers: those of datasheets that say other things under one slug are apart."""
    found: list[tuple[dict[str, GpuSpec], list[FleetCell]]] = []
    for cell in cells:
        spec = msgspec.structs.replace(specs[cell.key], origin="")
        for by_slug, together in found:
            if by_slug.setdefault(spec.slug, spec) == spec:
                together.append(cell)
                break
        else:
            found.append(({spec.slug: spec}, [cell]))
    return [together for _, together in found]


def _too_large(value: object) -> bool:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, tuple):
        return any(map(_too_large, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


class _Answer:
    def __init__(self, task: Task, scratch: Path, model: Path | None, told: _Told) -> None:
        self.task = task
        self.scratch = scratch
        self.model = model
        self.told = told
        self.started = _now()
        self.began = time.monotonic()

    def rows(self) -> tuple[FleetRow, ...]:
        """In the order of the cells."""
        cells = self.task.cells
        found = self._predicted(cells) if cells[0].verb == "predict" else {cells[0].key: self._alone(cells[0])}
        share = (time.monotonic() - self.began) / len(cells)
        rows = (self._kept(cell, found[cell.key]) for cell in cells)
        return tuple(msgspec.structs.replace(row, seconds=share) for row in rows)

    # --- predictions ------------------------------------------------------------------------

    def _predicted(self, cells: Sequence[FleetCell]) -> dict[str, FleetRow]:
        """All GPUs at once; where that fails and may be due to one of them, one by one."""
        self.told.stage("datasheet")
        rows: dict[str, FleetRow] = {}
        specs: dict[str, GpuSpec] = {}
        for cell in cells:
            try:
                specs[cell.key] = self._datasheet(cell)
            except Exception as error:  # the others have their answer
                rows[cell.key] = self._failed(cell, error)
        for known in _apart([cell for cell in cells if cell.key in specs], specs):
            try:
                rows.update(self._at_once(known, specs))
            except Exception as error:  # a fault of one GPU is not one of the others
                if len(known) == 1 or isinstance(error, _OF_MODEL):
                    rows.update((cell.key, self._failed(cell, error)) for cell in known)
                else:
                    rows.update(self._one_by_one(known, specs))
        return rows

    def _datasheet(self, cell: FleetCell) -> GpuSpec:
        from trtprof.hardware import gpus

        spec = self.task.datasheets.get(cell.gpu) or gpus.find(cell.gpu)
        # Those of trtprof itself are as its version is.
        if Path(spec.origin).name != spec.origin and key_by(cell, spec) != cell.key:
            raise UsageError(
                f"{spec.origin} is not what it was when the fleet was planned",
                why="a cell is addressed by what its datasheet says",
                fix="run the same command again: it asks by the datasheet as it is then",
            )
        return spec

    def _one_by_one(self, cells: Sequence[FleetCell], specs: dict[str, GpuSpec]) -> Iterator[tuple[str, FleetRow]]:
        for cell in cells:
            try:
                yield from self._at_once([cell], specs).items()
            except Exception as error:  # likewise
                yield cell.key, self._failed(cell, error)

    def _at_once(self, cells: Sequence[FleetCell], specs: dict[str, GpuSpec]) -> dict[str, FleetRow]:
        from trtprof.flows import predict
        from trtprof.flows.fleet.predicted import columns

        self.told.stage("prediction")
        # Cells that name one datasheet in two ways have one prediction.
        asked = {specs[cell.key].slug: specs[cell.key] for cell in cells}
        how = settings_of(cells[0])
        found = predict.predict(request_of(cells[0], self.model), list(asked.values()), how, self.told)
        by_slug = {gpu.gpu: gpu for gpu in found.gpus}
        return {cell.key: self._row(cell, **columns(found, by_slug[specs[cell.key].slug])) for cell in cells}

    # --- builds and runs --------------------------------------------------------------------

    def _alone(self, cell: FleetCell) -> FleetRow:
        try:
            return self._row(cell, **(self._ran(cell) if cell.verb == "run" else self._built(cell)))
        except Exception as error:  # the row says it
            return self._failed(cell, error)

    def _ran(self, cell: FleetCell) -> dict[str, Any]:
        from trtprof.flows.fleet.measured import columns, elsewhere
        from trtprof.flows.run import execute

        gpu = self._datasheet(cell) if cell.gpu else None
        options = run_options_of(cell, request_of(cell, self.model))
        folder = execute(msgspec.structs.replace(options, output=str(self.scratch / RUN)), self.told)
        self.told.stage("row")
        found = columns(folder)
        doubts = (elsewhere(folder, gpu) if gpu is not None else "", found["doubts"])
        return {**found, "doubts": "; ".join(filter(None, doubts))}

    def _built(self, cell: FleetCell) -> dict[str, Any]:
        from trtprof.engine.backends import choose_builder
        from trtprof.flows.build import build
        from trtprof.flows.fleet.measured import columns_of_build

        options = build_options_of(cell)
        backend, why = choose_builder(options.backend)
        self.told.note(f"backend {backend}: {why}")
        built = build(request_of(cell, self.model), msgspec.structs.replace(options, backend=backend), self.told)
        self.told.stage("row")
        return columns_of_build(built.priced)

    # --- rows -------------------------------------------------------------------------------

    def _kept(self, cell: FleetCell, row: FleetRow) -> FleetRow:
        """A row, if a table can hold it."""
        if not _too_large(msgspec.structs.astuple(row)):
            return row
        why = "the table of a fleet holds numbers up to 2^63"
        return self._failed(cell, UsageError("its work is too large to be kept", why=why, fix="ask for smaller sizes"))

    def _row(self, cell: FleetCell, **columns: Any) -> FleetRow:
        passing: dict[str, Any] = {
            "started": self.started,
            "attempts": self.task.attempts,
            "worker": _worker(),
            "log": self.told.log(),
        }
        return FleetRow(**{**msgspec.structs.asdict(cell), "status": "done", **passing, **columns})

    def _failed(self, cell: FleetCell, error: Exception) -> FleetRow:
        """What an error leaves in the row: that of a user in its words, a fault with its traceback."""
        if isinstance(error, TrtprofError):
            words = {"error": error.what, "why": error.why, "fix": error.fix}
            log = self.told.log()
        else:
            words = {"error": f"{type(error).__name__}: {error}", "why": "this is a fault of trtprof", "fix": ""}
            log = self.told.log("".join(traceback.format_exception(error)))
        # Wherever the file and the scratch folder lay for this worker, the row is of what was asked for.
        for place, name in ((str(self.model) if self.model else "", cell.path), (f"{self.scratch}{os.sep}", "")):
            words = {key: text.replace(place, name) if place else text for key, text in words.items()}
        stage = "source" if isinstance(error, ModelError) else self.told.running
        return self._row(cell, status="failed", stage=stage, log=log, **words)
