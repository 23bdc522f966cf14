"""A fleet is run: its manifest read, its folder opened, its cells scheduled, and how far it is told on the way."""

from __future__ import annotations

import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import SCHEMA_VERSION, FleetCell, FleetPlan, FleetTargetCount
from trtprof.flows.fleet import HowToRun, progress
from trtprof.flows.fleet.cells import Asked, expand, in_shard
from trtprof.flows.fleet.manifest import read
from trtprof.flows.fleet.schedule import Standing, schedule
from trtprof.flows.fleet.store import Store
from trtprof.flows.progress import Progress

if TYPE_CHECKING:
    from trtprof.flows.fleet.execute import Executor


def run(
    manifest: Path, place: str, how: HowToRun, told: Progress, watch: Callable[[FleetPlan], None] = lambda _: None
) -> FleetPlan:
    """See `flows.fleet.run`."""
    if sys.platform == "win32":
        raise MissingError(
            "cells cannot be answered on Windows",
            why="processes that answer are ended and watched as Linux and macOS do it",
            fix="the same command in WSL 2; fleet plan, status, report and compare work here",
        )
    told.stage("cells")
    expanded = expand(read(manifest))
    asked = expanded.asked
    cells = [cell for cell in expanded.cells if in_shard(cell, *how.shard)]
    models = len({cell.model for cell in cells})
    told.detail(f"{len(cells):,} cell{'s' * (len(cells) != 1)}, {models:,} model{'s' * (models != 1)}")
    for note in expanded.notes:
        told.note(note)
    store = Store(place, owner=uuid.uuid4().hex[:16], lease_s=how.lease_s, say=told.note)
    _tell_dropped(store, expanded.cells, told)
    store.keep(asked, expanded.cells)
    told.stage("answers")
    executor = _executor(how, cells, store.folder, told)
    look = _Look(asked, cells, store.place)
    standing = schedule(
        cells,
        store,
        executor,
        how,
        gpus={target.name: target.num_gpus for target in asked.targets},
        watch=lambda standing: watch(look.at(standing)),
        say=told.note,
    )
    left = [f"{count:,} cell{'s' * (count != 1)} of {why}" for why, count in standing.refused.items()]
    return progress.looked_at(store, asked, cells, folder=store.place, notes=left)


def _tell_dropped(store: Store, cells: Sequence[FleetCell], told: Progress) -> None:
    """Tell which cells of the folder are asked no more: another manifest, or an edited one, asks something else."""
    try:
        before, known = store.asked()
    except TrtprofError:  # It is new, or what is asked there cannot be read, and is written anew.
        return
    gone = {cell.key for cell in known}.difference(cell.key for cell in cells)
    if gone:
        told.note(
            f"{len(gone):,} of {len(known):,} cells that {before.name!r} asked in {store.place} are asked no more: "
            "reports leave them out, and what is answered of them is kept"
        )


def _executor(how: HowToRun, cells: Sequence[FleetCell], folder: Path | None, told: Progress) -> Executor:
    if how.ray:
        from trtprof.flows.fleet.on_ray import connect

        return connect(how.ray, how.timeout_s, folder, told.detail)
    from trtprof.flows.fleet.local import LocalExecutor

    return LocalExecutor(cells, how.workers, how.timeout_s, say=told.detail)


class _Look:
    """How far a scheduler is, as the document of a plan: at no cost that grows with the fleet."""

    def __init__(self, asked: Asked, cells: Sequence[FleetCell], folder: str) -> None:
        self.asked = asked
        self.folder = folder
        self.models = len({cell.model for cell in cells})
        self.cells = Counter(cell.target for cell in cells)
        self.began = time.monotonic()

    def at(self, standing: Standing) -> FleetPlan:
        """As of now. What is left takes as long as what was done here, as many at once as there were on average."""
        elapsed = time.monotonic() - self.began
        at_once = max(sum(standing.seconds.values()) / elapsed, 1.0) if elapsed else 1.0
        targets = []
        for target in self.asked.targets:
            count = self.cells[target.name]
            if not count:
                continue
            here, left = standing.here[target.name], count - standing.answered[target.name]
            each = standing.seconds.get(target.name, 0.0) / here / at_once if here else None
            targets.append(
                FleetTargetCount(
                    target=target.name,
                    verb=target.verb,
                    cells=count,
                    done=standing.answered[target.name] - standing.failed[target.name],
                    failed=standing.failed[target.name],
                    claimed=max(standing.running[target.name], 0),
                    left_s=each * left if each is not None else None if left else 0.0,
                )
            )
        known = [each.left_s for each in targets if each.left_s is not None]
        return FleetPlan(
            schema_version=SCHEMA_VERSION,
            name=self.asked.name,
            folder=self.folder,
            models=self.models,
            cells=self.cells.total(),
            targets=tuple(targets),
            left_s=sum(known) if len(known) == len(targets) else None,
        )
