"""Scheduling a fleet: whatever is lost, interrupted or done by others, in the end every cell has one row."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.fakes.fleets import cells
from tests.fakes.fleets import row as made
from trtprof.base.errors import MissingError
from trtprof.base.fleet_table import lasting
from trtprof.base.records import FleetCell, FleetRow, FleetVerb, GpuSpec
from trtprof.flows.fleet import HowToRun, schedule
from trtprof.flows.fleet.execute import Answered, Task
from trtprof.flows.fleet.schedule import Standing
from trtprof.flows.fleet.store import Store
from trtprof.hardware import gpus

pytestmark = pytest.mark.nightly

RETRY = HowToRun(retry="failed")


def row(cell: FleetCell) -> FleetRow:
    return made(cell, fails=0.2)


class Fake:
    """An executor whose answers come in any order; workers die with a probability."""

    def __init__(self, seed: int = 0, *, dies: float = 0.0, room: int = 4) -> None:
        self.random = Random(seed)
        self.dies = dies
        self.room = room
        self.under_way: list[Task] = []
        self.done: Counter[str] = Counter()
        self.most = 0
        self.closed = False

    def refuses(self, cell: FleetCell, num_gpus: float = 0.0) -> str:  # noqa: ARG002
        return "no node offers it" if cell.resource else ""

    def takes(self, task: Task) -> bool:  # noqa: ARG002
        return len(self.under_way) < self.room

    def start(self, task: Task) -> None:
        self.under_way.append(task)
        self.most = max(self.most, len(self.under_way))

    def answered(self, seconds: float) -> Sequence[Answered]:
        found: list[Answered] = []
        while self.under_way and (not found or self.random.random() < 0.5):
            task = self.under_way.pop(self.random.randrange(len(self.under_way)))
            if self.random.random() < self.dies:
                found.append(Answered(task, lost=self.random.choice(("it was killed", "its node is gone"))))
                continue
            self.done.update(cell.key for cell in task.cells)
            found.append(Answered(task, answers(task)))
        if not found:
            threading.Event().wait(min(seconds, 0.01))
        return found

    def close(self) -> None:
        self.closed = True


def answers(task: Task) -> tuple[FleetRow, ...]:
    return tuple(msgspec.structs.replace(row(cell), attempts=task.attempts) for cell in task.cells)


CELLS = [cell for cell in cells(models=4, sizes=2) if not cell.resource]


def run(store: Store, executor: Fake, how: HowToRun = HowToRun(), some: Sequence[FleetCell] = CELLS) -> Standing:  # noqa: B008
    return schedule.schedule(some, store, executor, how, poll_s=0.02)


def check_whole(folder: Path, some: Sequence[FleetCell] = CELLS) -> None:
    """Every cell has exactly its row."""
    table = lasting(Store(str(folder)).table())
    assert sorted(table["key"].to_pylist()) == sorted(cell.key for cell in some)
    found = {each["key"]: each["bound_ns"] for each in table.select(["key", "bound_ns"]).to_pylist()}
    assert found == {cell.key: row(cell).bound_ns for cell in some}


def test_every_cell_gets_its_row_and_all_claims_are_let_go(tmp_path: Path) -> None:
    fake = Fake()
    standing = run(Store(str(tmp_path), "a"), fake)
    check_whole(tmp_path)
    assert standing.answered.total() == len(CELLS) == fake.done.total()
    assert standing.failed.total() == sum(row(cell).status == "failed" for cell in CELLS) > 0
    assert not Store(str(tmp_path)).claimed()
    assert fake.closed
    assert +standing.running == Counter()


def test_gpus_of_one_model_are_asked_together_and_runs_alone_and_last(tmp_path: Path) -> None:
    order: list[Task] = []
    fake = Fake(room=1)
    start = fake.start
    fake.start = lambda task: (order.append(task), start(task))[1]  # type: ignore[method-assign, func-returns-value]
    run(Store(str(tmp_path), "a"), fake, some=CELLS[::-1])
    assert [len(task.cells) for task in order] == [4] * 8 + [1] * 8
    assert {cell.verb for task in order[8:] for cell in task.cells} == {"run"}
    assert {len({cell.group for cell in task.cells}) for task in order} == {1}


def test_what_is_done_is_not_done_again_and_what_failed_only_when_it_is_asked_for(tmp_path: Path) -> None:
    first = Fake(1)
    run(Store(str(tmp_path), "a"), first)
    again = Fake(2)
    standing = run(Store(str(tmp_path), "b"), again)
    assert not again.done
    assert standing.answered.total() == len(CELLS)
    retried = Fake(3)
    standing = run(Store(str(tmp_path), "c"), retried, RETRY)
    failed = {cell.key for cell in CELLS if row(cell).status == "failed"}
    assert retried.done == Counter(dict.fromkeys(failed, 1))
    assert standing.failed.total() == len(failed)
    check_whole(tmp_path)


class Interrupted(Store):
    """A store in the middle of whose work somebody presses Ctrl-C: before a call of it, or behind."""

    def __init__(self, place: str, owner: str, calls: int, *, before: bool) -> None:
        super().__init__(place, owner)
        self.calls = calls
        self.before = before

    def _pressed(self, *, before: bool) -> None:
        if before == self.before:
            self.calls -= 1
            if not self.calls:
                raise KeyboardInterrupt

    def claim(self, groups: Iterable[str]) -> set[str]:
        self._pressed(before=True)
        claimed = super().claim(groups)
        self._pressed(before=False)
        return claimed

    def put(self, rows: Sequence[FleetRow]) -> frozenset[str]:
        self._pressed(before=True)
        left_out = super().put(rows)
        self._pressed(before=False)
        return left_out

    def release(self, groups: Iterable[str]) -> None:
        self._pressed(before=True)
        super().release(groups)
        self._pressed(before=False)


def test_law_interrupted_and_resumed_with_workers_that_die_every_cell_is_there_once(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for seed in range(5):
        with subtests.test(f"{seed}"):
            folder = tmp_path / str(seed)
            random = Random(seed)
            answered = 0
            for turn in range(100):
                fake = Fake(random.randrange(10**6), dies=0.2, room=random.randint(1, 6))
                store = Interrupted(str(folder), f"owner{turn}", random.randint(1, 15), before=random.random() < 0.5)
                try:
                    run(store, fake, HowToRun(attempts=50))
                    break
                except KeyboardInterrupt:
                    assert not Store(str(folder)).claimed()
                finally:
                    assert fake.closed
                    answered += fake.done.total()
            check_whole(folder)
            # What was answered and not yet stored is lost: no more than one turn gave.
            assert answered - len(CELLS) <= turn * 6 * 4


def test_law_two_at_once_never_do_a_cell_twice_nor_lose_one(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for seed in range(4):
        with subtests.test(f"{seed}"):
            folder = tmp_path / str(seed)
            fakes = [Fake(seed, dies=0.1), Fake(seed + 100, dies=0.1)]
            standings: list[Standing] = []

            def one(store: Store, fake: Fake, standings: list[Standing]) -> None:
                standings.append(run(store, fake, HowToRun(attempts=50)))

            stores = [Store(str(folder), f"owner{at}") for at in range(2)]
            threads = [
                threading.Thread(target=one, args=(*pair, standings)) for pair in zip(stores, fakes, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert [standing.answered.total() for standing in standings] == [len(CELLS)] * 2, "both know of all"
            assert fakes[0].done + fakes[1].done == Counter(dict.fromkeys((cell.key for cell in CELLS), 1))
            check_whole(folder)


def test_a_worker_that_always_dies_leaves_a_failed_row_that_says_why(tmp_path: Path) -> None:
    run(Store(str(tmp_path), "a"), Fake(dies=1.0), HowToRun(attempts=3), CELLS[:1])
    (found,) = Store(str(tmp_path)).table().to_pylist()
    assert (found["status"], found["stage"]) == ("failed", "worker")
    assert found["error"].startswith("worker died: it")
    assert len(found["attempts"]) == 3
    assert found["why"] == "so it did 3 times"


def test_a_task_has_the_datasheets_that_are_files_and_who_refuses_knows_its_gpus(tmp_path: Path) -> None:
    sheet = tmp_path / "l4.toml"
    shutil.copy(Path(gpus.__file__).with_name("specs") / "l4.toml", sheet)
    asked: dict[str, float] = {}
    given: dict[str, dict[str, GpuSpec]] = {}

    class Looking(Fake):
        def refuses(self, cell: FleetCell, num_gpus: float = 0.0) -> str:
            asked[cell.target] = num_gpus
            return super().refuses(cell, num_gpus)

        def start(self, task: Task) -> None:
            given.update((cell.target, task.datasheets) for cell in task.cells)
            super().start(task)

    targets: tuple[tuple[str, FleetVerb, str], ...] = (("own", "predict", str(sheet)), ("here", "run", ""))
    store = Store(str(tmp_path / "fleet"), "me")
    schedule.schedule(list(cells(1, 1, targets)), store, Looking(), HowToRun(), gpus={"here": 2.0})
    assert asked == {"own": 0.0, "here": 2.0}
    assert given == {"own": {str(sheet): gpus.find(str(sheet))}, "here": {}}


def test_a_full_disk_ends_it_and_what_is_done_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put: Callable[[Store, Sequence[FleetRow]], frozenset[str]] = Store.put
    left = [3]

    def full(self: Store, rows: Sequence[FleetRow]) -> frozenset[str]:
        left[0] -= 1
        if left[0] < 0:
            raise MissingError("the folder cannot be written", why="No space left on device")
        return put(self, rows)

    fake = Fake()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full)
        with pytest.raises(MissingError, match="cannot be written"):
            run(Store(str(tmp_path), "a"), fake)
    assert fake.closed
    assert Store(str(tmp_path)).table().num_rows == 12
    assert not Store(str(tmp_path)).claimed()
    run(Store(str(tmp_path), "b"), Fake())
    check_whole(tmp_path)
