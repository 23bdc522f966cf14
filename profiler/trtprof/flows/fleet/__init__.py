"""A fleet: one question of many models on many targets, in a folder that survives every interruption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from trtprof.base.records import FleetPlan
from trtprof.flows.progress import SILENT, Progress

if TYPE_CHECKING:
    from trtprof.flows.fleet.cells import Expanded


class HowToRun(msgspec.Struct, frozen=True, kw_only=True):
    """How the cells of a fleet are executed; nothing of it decides an answer."""

    workers: int = 0  # Processes of this machine; 0: as many as its cores and its memory carry
    ray: str = ""  # Address of a Ray cluster, ``auto`` for the one that is found; empty: processes of this machine
    retry: Literal["", "failed"] = ""  # ``failed``: cells that failed are done again, too
    shard: tuple[int, int] = (1, 1)  # Which part of the cells, from 1, of how many
    attempts: int = 3  # How often a task is tried whose worker dies
    timeout_s: float = 3600.0  # A task that takes longer is ended and has failed
    lease_s: float = 60.0  # A scheduler that was not heard of for so long is taken for dead


def plan(manifest: Path, place: str = "", shard: tuple[int, int] = (1, 1)) -> tuple[FleetPlan, Expanded]:
    """What a manifest asks; with the folder of a fleet, how much of it is answered there.

    Before any cell is done a few predictions are tried, which takes a second, to tell about how long all will take.
    `place`: folder or URI of the fleet, which need not be there yet; empty: nothing is done.
    """
    from trtprof.flows.fleet import progress, trial
    from trtprof.flows.fleet.cells import expand, in_shard
    from trtprof.flows.fleet.contents import content_of
    from trtprof.flows.fleet.manifest import read
    from trtprof.flows.fleet.store import Store
    from trtprof.hardware.device import host_cpu

    expanded = expand(read(manifest))
    cells = [cell for cell in expanded.cells if in_shard(cell, *shard)]
    workers = max(host_cpu().cores, 1)
    store = Store(place) if place else None
    state = store.state() if store is not None else progress.NOTHING
    pace = progress.Pace()
    if not any(cell.key in state.done for cell in cells):
        left = [cell for cell in cells if cell.key not in state.failed]
        nodes = {cell.model: content_of(Path(cell.path)).nodes for cell in {each.model: each for each in left}.values()}
        pace = trial.tried(left, nodes)
    if store is None:
        return progress.counted(expanded.asked, cells, pace=pace, workers=workers, notes=expanded.notes), expanded
    counted = progress.looked_at(
        store, expanded.asked, cells, folder=place, state=state, workers=workers, pace=pace, notes=expanded.notes
    )
    return counted, expanded


def run(
    manifest: Path,
    place: str,
    how: HowToRun = HowToRun(),  # noqa: B008 - it is frozen
    progress: Progress = SILENT,
    watch: Callable[[FleetPlan], None] = lambda _: None,
) -> FleetPlan:
    """Answer every cell of a manifest that has no row yet; what is done stays done, whatever interrupts it.

    `watch`: told how far it is, some times a second.
    """
    from trtprof.flows.fleet import running

    return running.run(manifest, place, how, progress, watch)


def status(place: str, failures: int = 5) -> FleetPlan:
    """How far the fleet of a folder is, whoever works on it."""
    from trtprof.flows.fleet.progress import looked_at
    from trtprof.flows.fleet.store import Store
    from trtprof.hardware.device import host_cpu

    store = Store(place)
    asked, cells = store.asked()
    return looked_at(store, asked, cells, folder=store.place, workers=max(host_cpu().cores, 1), failures=failures)


__all__ = ["HowToRun", "plan", "run", "status"]
