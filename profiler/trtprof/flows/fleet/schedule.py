"""Bring cells, the store and an executor together: in the end every cell has a row, and none is done twice.

What another scheduler has claimed is waited for: it leaves rows, or its claim lapses. Rows are stored as they come.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.records import FleetCell, FleetRow, GpuSpec
from trtprof.flows.fleet import HowToRun
from trtprof.flows.fleet.execute import Answered, Executor, Task
from trtprof.flows.fleet.store import State, Store
from trtprof.flows.fleet.work import failed
from trtprof.hardware.gpus import find

TOGETHER = 16  # GPUs that a model is predicted for in one task
AHEAD = 8  # Groups of predictions that are claimed at once; as many as are under way, where these are more
FOLD_EVERY = 1000  # Rows that are stored between two looks at whether parts are to be folded

_ORDER = {"predict": 0, "build": 1, "run": 2}
_POLL_S = 2.0
_TURN_S = 0.5  # That answers are waited for at most, before progress is told and others are looked at
_TELL_S = 0.25


class Standing(NamedTuple):
    """How far a scheduler is."""

    answered: Counter[str]  # Cells that have a row, failed ones included, by target: of all its cells, whoever did them
    failed: Counter[str]  # Those of them that failed
    running: Counter[str]  # Cells under way here, by target
    elsewhere: int  # Cells that others work on
    refused: Mapping[str, int]  # Cells that nothing here can execute, by their target and why
    seconds: Mapping[str, float]  # What answering took the workers, by target, of cells that were answered here
    here: Counter[str]  # How many these are, by target


def schedule(
    cells: Sequence[FleetCell],
    store: Store,
    executor: Executor,
    how: HowToRun,
    *,
    gpus: Mapping[str, float] | None = None,
    watch: Callable[[Standing], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    poll_s: float = _POLL_S,
) -> Standing:
    """Give every cell a row.

    `how`: ``retry``, ``attempts`` and ``lease_s``, that of the claims of the store, are read. `watch`: told how far it
    is, some times a second. `poll_s`: about how many seconds are between two looks at what others work on.
    """
    scheduler = _Scheduler(store, executor, how, gpus or {}, say, poll_s)
    try:
        with _alive(store, how.lease_s / 4, scheduler.stop):
            scheduler.sort_out(cells)
            scheduler.work(watch)
            with suppress(TrtprofError):  # nothing of the fleet hangs on it
                store.tidy()
    finally:
        executor.close()
        with suppress(TrtprofError, OSError):
            store.close()
    standing = scheduler.standing()
    watch(standing)
    return standing


_HANGS_S = 60.0  # A store that does not answer is waited for so long


@contextmanager
def _alive(store: Store, every_s: float, stop: Callable[[Exception], None]) -> Iterator[None]:
    """Keep claims from lapsing while the block runs, whatever it is busy with."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(every_s):
            try:
                store.alive()
            except Exception as error:  # it is raised where the work is done
                stop(error)

    store.alive()
    thread = threading.Thread(target=beat, name="fleet-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_HANGS_S)


class _Lane:
    """What is left of one target, or of all predictions: done in order, claimed as it is taken."""

    def __init__(self) -> None:
        self.groups: deque[_Group] = deque()
        self.ready: deque[Task] = deque()
        """Of groups that are claimed."""
        self.under_way = 0


class _Group:
    """Cells that are claimed together, as far as they are left."""

    def __init__(self, key: str, lane: _Lane) -> None:
        self.key = key
        self.lane = lane
        self.cells: list[FleetCell] = []
        self.open = 0
        """Tasks that are not answered, of a group that is claimed."""

    @property
    def predicts(self) -> bool:
        return self.cells[0].verb == "predict"


class _Scheduler:
    def __init__(
        self,
        store: Store,
        executor: Executor,
        how: HowToRun,
        gpus: Mapping[str, float],
        say: Callable[[str], None],
        poll_s: float,
    ) -> None:
        self.store = store
        self.executor = executor
        self.how = how
        self.gpus = gpus
        self.say = say
        self.poll_s = poll_s
        self.random = random.Random()  # noqa: S311 - of who meets whom
        self.datasheets: dict[str, GpuSpec] = {}
        """Those from files, by their paths."""
        self.groups: dict[str, _Group] = {}
        self.lanes: dict[tuple[str, str], _Lane] = {}
        self.waiting: dict[str, float] = {}
        """Groups that others have, and when to look again."""
        self.answered: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.here: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.unfolded = 0
        self.began_ns = 0
        """By the clock of the store."""
        self.fault: Exception | None = None

    def stop(self, error: Exception) -> None:
        """The claims may lapse: it ends with the error."""
        self.fault = error

    def standing(self) -> Standing:
        """How far it is."""
        return Standing(
            Counter(self.answered),
            Counter(self.failed),
            Counter(self.running),
            sum(len(self.groups[key].cells) for key in self.waiting),
            dict(self.refused),
            dict(self.seconds),
            Counter(self.here),
        )

    # --- what is left -----------------------------------------------------------------------

    def sort_out(self, cells: Sequence[FleetCell]) -> None:
        """What has a row, what nothing here can do, and the rest: predictions first, then builds, then runs."""
        if self.how.retry:
            self.began_ns = self.store.time_ns()
        state = self.store.state()
        why: dict[tuple[str, str], str] = {}
        left = []
        for cell in cells:
            if self._has_row(cell, state, again=self.how.retry == "failed"):
                continue
            asks = cell.target, cell.verb
            if asks not in why:
                why[asks] = self.executor.refuses(cell, self.gpus.get(cell.target, 0.0))
            if why[asks]:
                self.refused[f"{cell.target}: {why[asks]}"] += 1
            else:
                left.append(cell)
        for gpu in {cell.gpu for cell in left if cell.gpu.endswith(".toml")}:
            with suppress(UsageError):  # whoever answers says what is wrong with it
                self.datasheets[gpu] = find(gpu)
        left.sort(key=lambda cell: _ORDER[cell.verb])
        for cell in left:
            group = self.groups.get(cell.group)
            if group is None:
                place = cell.verb, "" if cell.verb == "predict" else cell.target
                lane = self.lanes.setdefault(place, _Lane())
                group = self.groups[cell.group] = _Group(cell.group, lane)
                lane.groups.append(group)
            group.cells.append(cell)
        if self.store.claimed():
            # Who comes second begins elsewhere: claims that meet are withdrawn by both.
            for lane in self.lanes.values():
                lane.groups.rotate(self.random.randrange(len(lane.groups)))

    def _has_row(self, cell: FleetCell, state: State, *, again: bool) -> bool:
        """Whether a cell need not be done; it is counted then."""
        has_failed = cell.key in state.failed and cell.key not in state.done
        if cell.key not in state.done and (again or not has_failed):
            return False
        self.answered[cell.target] += 1
        self.failed[cell.target] += has_failed
        return True

    # --- the work ---------------------------------------------------------------------------

    def work(self, watch: Callable[[Standing], None]) -> None:
        """Until nothing is left."""
        told = looked = 0.0
        waits = False
        while True:
            self._begin()
            lanes = self.lanes.values()
            busy = any(lane.under_way or lane.ready or lane.groups for lane in lanes)
            if not busy and not self.waiting:
                return
            if not busy and not waits:
                waits = True
                self.say(f"the rest, {self.standing().elsewhere:,} cells, is worked on by others: waiting for them")
            if time.monotonic() - told >= _TELL_S:
                watch(self.standing())
                told = time.monotonic()
            found = self.executor.answered(_TURN_S if busy else min(_TURN_S, self.poll_s))
            # Workers go on while what they answered is stored.
            self._begin()
            for answered in found:
                self._take(answered)
            if self.fault is not None:
                raise self.fault
            if self.waiting and time.monotonic() - looked >= self.poll_s / 2:
                self._look_at_others()
                looked = time.monotonic()
            if self.unfolded >= FOLD_EVERY:
                self.unfolded = 0
                self.store.fold()

    def _begin(self) -> None:
        """Give the executor what it takes, in the order of the lanes."""
        for lane in self.lanes.values():
            while lane.ready or lane.groups:
                # Nothing is claimed for one who would not begin with it.
                task = lane.ready[0] if lane.ready else next(self._tasks(lane.groups[0]))
                if not self.executor.takes(task):
                    break
                if not lane.ready:
                    self._claim(lane)
                    continue
                lane.ready.popleft()
                lane.under_way += 1
                self.running.update(cell.target for cell in task.cells)
                self.executor.start(task)

    def _claim(self, lane: _Lane) -> None:
        """Claim the next groups of a lane; those that others have are waited for."""
        most = max(AHEAD, lane.under_way) if lane.groups[0].predicts else 1
        wanted = [lane.groups.popleft() for _ in range(min(most, len(lane.groups)))]
        mine = self.store.claim([group.key for group in wanted])
        claimed = []
        for group in wanted:
            if group.key in mine:
                claimed.append(group)
            else:
                self._wait_for(group)
        keys = [cell.key for group in claimed for cell in group.cells]
        state = self.store.finished(keys) if keys else State(frozenset(), frozenset())
        # What failed since this began was done again, by whomever.
        again = set(keys) - self.store.written_since(keys, self.began_ns) if self.how.retry else set()
        for group in claimed:
            group.cells = [cell for cell in group.cells if not self._has_row(cell, state, again=cell.key in again)]
            tasks = list(self._tasks(group))
            group.open = len(tasks)
            lane.ready.extend(tasks)
            if not tasks:
                self.store.release([group.key])

    def _tasks(self, group: _Group) -> Iterator[Task]:
        for at in range(0, len(group.cells), TOGETHER):
            cells = tuple(group.cells[at : at + TOGETHER])
            datasheets = {each.gpu: self.datasheets[each.gpu] for each in cells if each.gpu in self.datasheets}
            num_gpus = self.gpus.get(cells[0].target, 0.0)
            yield Task(group=group.key, cells=cells, num_gpus=num_gpus, datasheets=datasheets)

    def _wait_for(self, group: _Group) -> None:
        # Two that withdrew from each other do not meet again.
        self.waiting[group.key] = time.monotonic() + self.poll_s * self.random.uniform(0.5, 1.5)

    def _look_at_others(self) -> None:
        """Groups that others let go, done or not, are claimed again; then it is looked at what is left of them."""
        now = time.monotonic()
        due = [self.groups[key] for key, at in self.waiting.items() if at <= now]
        claimed = self.store.claimed() if due else set()
        for group in due:
            if group.key in claimed:
                self._wait_for(group)
            else:
                del self.waiting[group.key]
                group.lane.groups.append(group)

    def _take(self, answered: Answered) -> None:
        """Keep what came of a task, or see to it that it is tried again."""
        task = answered.task
        group = self.groups[task.group]
        group.lane.under_way -= 1
        self.running.subtract(cell.target for cell in task.cells)
        rows = answered.rows
        if answered.lost:
            task = msgspec.structs.replace(task, attempts=(*task.attempts, answered.lost))
            if len(task.attempts) < self.how.attempts:
                group.lane.ready.appendleft(task)
                return
            rows = _given_up(task)
        if answered.run is not None and rows[0].status == "done" and self.store.holds([group.key]):
            rows = (msgspec.structs.replace(rows[0], run=self.store.put_run(rows[0].key, answered.run)),)
        # Those of a claim that lapsed are left to whoever has it now.
        theirs = self.store.put(rows)
        group.cells = [cell for cell in group.cells if cell.key in theirs or cell.key not in {row.key for row in rows}]
        self.unfolded += len(rows)
        for row in rows:
            if row.key in theirs:
                continue
            self.answered[row.target] += 1
            self.here[row.target] += 1
            self.failed[row.target] += row.status == "failed"
            self.seconds[row.target] = self.seconds.get(row.target, 0.0) + row.seconds
        group.open -= 1
        if group.open:
            return
        self.store.release([group.key])
        if group.cells:
            self._wait_for(group)


def _given_up(task: Task) -> tuple[FleetRow, ...]:
    times = len(task.attempts)
    return failed(
        task,
        "worker",
        f"worker died: {task.attempts[-1]}",
        why=f"so it did {times} times" if times > 1 else "",
        fix="--retry failed, with fewer --workers where memory is short",
    )
