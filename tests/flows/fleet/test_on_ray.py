"""Cells on a real Ray cluster of a head and two nodes on this machine, which lose workers and nodes on the way.

A model whose path is a named pipe keeps a worker waiting until somebody writes: so long a task is under way for sure.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import onnx
import pytest

from tests.fakes.ray_cluster import Cluster, Node, cluster
from tests.fakes.support import SAMPLES, fixed_ceilings
from trtprof import __version__
from trtprof.base import fleet_table
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import FleetCell, FleetRow
from trtprof.base.scratch import PREFIX
from trtprof.flows import doctor
from trtprof.flows.fleet import HowToRun, manifest, on_ray, ray_worker, travel
from trtprof.flows.fleet.cells import expand
from trtprof.flows.fleet.execute import Answered, Task
from trtprof.flows.fleet.on_ray import RayExecutor, connect, why_lost
from trtprof.flows.fleet.schedule import schedule
from trtprof.flows.fleet.store import Store
from trtprof.flows.fleet.work import answer
from trtprof.hardware.device import host_cpu
from trtprof.hardware.store import of_host

pytestmark = pytest.mark.nightly

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: pip install 'trtprof[fleet]'")

LONG_S = 90.0
"""Longer than anything takes here on a machine that is busy."""
MANIFEST = """
[[models]]
files = ["*.onnx"]
batches = [1, 2]
[[targets]]
gpu = "l4"
[[targets]]
gpu = "h100-sxm"
"""


class Pair:
    """A cluster with two nodes that offer a GPU each, of different kinds, and both ``spare``."""

    def __init__(self, made: Cluster, nodes: dict[str, Node], started_in: Path) -> None:
        self.made = made
        self.nodes = nodes
        self.started_in = started_in

    def resource_of(self, node: str) -> str:
        """Which of the GPUs a node offers, by Ray's name of it."""
        offers = next(each["Resources"] for each in ray.nodes() if each["NodeID"] == node)
        return next(name for name in self.nodes if name in offers)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kept = tmp_path_factory.mktemp("cache")
    of_host(0, cache_dir=kept, device=host_cpu()).write(fixed_ceilings(), lambda _: None)
    environment = {"TRTPROF_CACHE_DIR": str(kept)}
    with cluster() as made:
        nodes = {}
        with chdir(kept):
            on_ray._initialize(ray, made.address)
        try:
            for name in ("gpu_h100", "gpu_a100"):
                # One after the other: each starts a handful of processes.
                nodes[name] = made.node(gpus=1, resources={name: 1, "spare": 1}, environment=environment)
                made.wait(ray, 1 + len(nodes))
            yield Pair(made, nodes, kept)
        finally:
            ray.shutdown()


@pytest.fixture
def executor(pair: Pair, tmp_path: Path) -> Iterator[RayExecutor]:
    made = connect(pair.made.address, runs=tmp_path)
    yield made
    made.close()
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def some_cells(folder: Path, *models: str) -> list[FleetCell]:
    folder.mkdir(exist_ok=True)
    for name in models:
        (folder / f"{name}.onnx").write_bytes((SAMPLES / f"{name}.onnx").read_bytes())
    (folder / "fleet.toml").write_text(MANIFEST)
    return list(expand(manifest.read(folder / "fleet.toml")).cells)


def tasks_of(cells: Sequence[FleetCell], **more: Any) -> list[Task]:
    groups: dict[str, list[FleetCell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    return [Task(group=group, cells=tuple(same), **more) for group, same in groups.items()]


def asking(cells: Sequence[FleetCell], resource: str) -> list[FleetCell]:
    return [msgspec.structs.replace(cell, resource=resource) for cell in cells]


def until_answered(executor: RayExecutor, count: int = 1) -> list[Answered]:
    found: list[Answered] = []
    until = time.monotonic() + LONG_S
    while len(found) < count and time.monotonic() < until:
        found += executor.answered(1.0)
    assert len(found) == count
    return found


def until_under_way(executor: RayExecutor) -> on_ray.UnderWay:
    until = time.monotonic() + LONG_S
    while not executor.under_way and time.monotonic() < until:
        assert not executor.answered(0.1)
    return executor.under_way[0]


class Held:
    """A model that nobody can read until it is let go."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._real = path.with_suffix(".real")
        path.rename(self._real)
        os.mkfifo(path)

    def let_go(self) -> None:
        """Who waits reads nothing, and whoever comes then the model."""
        waiting = self._path.with_suffix(".pipe")
        self._path.rename(waiting)
        self._real.rename(self._path)
        # It raises where nobody waits any more.
        with suppress(OSError):
            os.close(os.open(waiting, os.O_WRONLY | os.O_NONBLOCK))


def undisturbed(cells: Sequence[FleetCell], folder: Path) -> Any:
    """The table of cells that are answered here, one after the other."""
    folder.mkdir()
    rows = [row for task in tasks_of(cells) for row in answer(task, folder)]
    return fleet_table.lasting(fleet_table.table_of(rows))


def same(rows: Sequence[FleetRow], cells: Sequence[FleetCell], folder: Path) -> bool:
    return bool(fleet_table.lasting(fleet_table.table_of(rows)).equals(undisturbed(cells, folder)))


# --- where and what -------------------------------------------------------------------------


def test_a_task_is_where_its_resource_is_and_alone_has_its_gpu(
    pair: Pair, executor: RayExecutor, tmp_path: Path
) -> None:
    cells = asking(some_cells(tmp_path / "m", "mobilenet_tiny")[:2], "gpu_a100")
    held = Held(Path(cells[0].path))
    (task,) = tasks_of(cells, num_gpus=1.0)
    assert executor.takes(task)
    executor.start(task)
    found = until_under_way(executor)
    assert pair.resource_of(found.node) == "gpu_a100"
    assert found.task == task
    held.let_go()
    (answered,) = until_answered(executor)
    assert not answered.lost
    assert [row.status for row in answered.rows] == ["done", "done"]
    assert {row.worker.rpartition(":")[2] for row in answered.rows} == {str(found.process)}


def test_what_no_node_offers_is_refused_and_it_is_told_what_is_offered(executor: RayExecutor, tmp_path: Path) -> None:
    (cell, *_) = some_cells(tmp_path / "m", "mobilenet_tiny")
    assert not executor.refuses(cell)
    assert not executor.refuses(asking([cell], "gpu_h100")[0], 1.0)
    assert executor.refuses(asking([cell], "gpu_h100")[0], 4.0).startswith(
        "no node of the cluster offers gpu_h100 and 4 GPUs; offered are "
    )
    why = executor.refuses(asking([cell], "gpu_b200")[0])
    assert why == (
        "no node of the cluster offers gpu_b200; offered are CPU (2), GPU (2), gpu_a100 (1), gpu_h100 (1), spare (2)"
    )


def test_it_takes_no_more_than_is_soon_begun(executor: RayExecutor, tmp_path: Path) -> None:
    cells = asking(some_cells(tmp_path / "m", "mobilenet_tiny", "qdq_cnn"), "gpu_h100")
    tasks = tasks_of(cells)
    held = [Held(Path(path)) for path in {cell.path for cell in cells}]
    taken = 0
    while executor.takes(tasks[taken]):
        executor.start(tasks[taken])
        taken += 1
        executor.answered(0.0)
    assert taken == 2
    for each in held:
        each.let_go()
    until_answered(executor, 2)
    assert executor.takes(tasks[2])


@pytest.mark.usefixtures("pair")
def test_a_model_that_is_not_there_travels_with_its_weights(
    executor: RayExecutor, pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes have another working folder, in which a relative path leads nowhere."""
    folder = tmp_path / "m"
    folder.mkdir()
    proto = onnx.load(SAMPLES / "resnet_tiny.onnx")
    onnx.save(proto, folder / "apart.onnx", save_as_external_data=True, location="apart.weights", size_threshold=64)
    monkeypatch.setattr(travel, "CHUNK_BYTES", 4096)
    monkeypatch.chdir(tmp_path)
    cells = [
        msgspec.structs.replace(cell, path=str(Path(cell.path).relative_to(tmp_path)))
        for cell in some_cells(folder, "mobilenet_tiny")
    ]
    assert {cell.path for cell in cells} == {"m/apart.onnx", "m/mobilenet_tiny.onnx"}
    found: list[Answered] = []
    for task in tasks_of(cells):
        executor.start(task)
        found += until_answered(executor)
    assert not [each.lost for each in found if each.lost]
    assert same([row for each in found for row in each.rows], cells, tmp_path / "here")
    assert len(executor._models) == 1, "those that nothing needs go"
    sent = [sorted(os.listdir(path)) for path in pair.made.folder.glob("node*/trtprof-fleet-*/model-*/")]
    assert ["apart.onnx", "apart.weights"] in sent


def test_a_model_that_was_changed_since_is_not_sent(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [
        msgspec.structs.replace(cell, path="m/mobilenet_tiny.onnx")
        for cell in some_cells(tmp_path / "m", "mobilenet_tiny")
    ]
    (tmp_path / "m" / "mobilenet_tiny.onnx").write_bytes((SAMPLES / "qdq_cnn.onnx").read_bytes())
    executor.start(tasks_of(cells)[0])
    (answered,) = until_answered(executor)
    assert {row.error for row in answered.rows} == {"m/mobilenet_tiny.onnx cannot be sent"}
    assert {row.why for row in answered.rows} == {"it was changed since the fleet was planned"}


def test_a_model_that_has_no_room_on_the_cluster_is_lost_and_may_be_tried_again(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task, *_) = tasks_of(some_cells(tmp_path / "m", "mobilenet_tiny"))
    here = executor._ray
    monkeypatch.setattr(executor, "_lacking", True)
    with monkeypatch.context() as patch:

        def full(_: bytes) -> None:
            raise here.exceptions.ObjectStoreFullError

        patch.setattr(here, "put", full)
        executor.start(task)
        assert until_answered(executor)[0].lost == "the object store is full"
    executor.start(task)
    assert until_answered(executor)[0].rows


def test_a_cluster_that_is_gone_is_one_clear_error(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise ConnectionError("no GCS")

    monkeypatch.setattr(executor, "_looked", -math.inf)
    monkeypatch.setattr(executor._ray, "nodes", gone)
    with pytest.raises(MissingError, match="does not answer any more"):
        executor._nodes()


def test_a_model_that_changes_while_it_is_answered_is_not_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would be under the key of what it was."""
    (cell, *_) = some_cells(tmp_path / "m", "mobilenet_tiny")

    def change(*given: Any) -> tuple[FleetRow, ...]:
        rows = real(*given)
        Path(cell.path).write_bytes(b"another")
        return rows

    real = answer
    monkeypatch.setattr(ray_worker, "answer", change)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "node"))
    asked = ray_worker.Ask(trtprof=__version__, tasks=tuple(tasks_of([cell])))
    said = ray_worker.whole(msgspec.json.encode(asked), {})
    assert [msgspec.json.decode(each, type=ray_worker.Reply).kind for each in said] == ["here", "lacks"]


class Listening:
    """Ray, with an ear at what is handed to it."""

    def __init__(self) -> None:
        self.functions: list[Any] = []
        self.arguments: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(ray, name)

    def remote(self, **options: Any) -> Any:
        def heard(function: Any) -> Any:
            self.functions.append(function)
            made, options_of = ray.remote(**options)(function), None
            options_of = made.options

            def with_options(**more: Any) -> Any:
                assert "runtime_env" not in more
                inner = options_of(**more)
                handed = inner.remote

                class Handed:
                    @staticmethod
                    def remote(*arguments: Any) -> Any:
                        self.arguments.append(arguments)
                        return handed(*arguments)

                return Handed

            made.options = with_options
            return made

        return heard


@pytest.mark.usefixtures("pair")
def test_what_travels_is_json_and_names_no_code_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
    ear = Listening()
    executor = RayExecutor(ear)
    try:
        (task, *_) = tasks_of(some_cells(tmp_path / "m", "mobilenet_tiny"))
        executor.start(task)
        until_answered(executor)
    finally:
        executor.close()
    for function in ear.functions:
        by_name = ray.cloudpickle.dumps(function)
        assert len(by_name) < 200
        assert b"trtprof.flows.fleet.ray_worker" in by_name
    handed = [arguments for arguments in ear.arguments if arguments]
    ((asked, models),) = handed
    assert models == {}
    assert type(asked) is bytes
    told = msgspec.json.decode(asked)
    assert set(told) == {"trtprof", "tasks", "runs", "token"}
    assert msgspec.convert(told["tasks"], list[Task]) == [task]
    assert b"do-not-tell" not in pickle.dumps(handed)
    assert ray.get_runtime_context().runtime_env.get("env_vars") is None


def test_workers_import_nothing_from_the_folder_that_it_is_started_in(pair: Pair) -> None:
    """Where somebody may keep an ``onnx.py`` of their own."""
    path = ray.get(ray.remote(num_cpus=0)(lambda: sys.path).remote())
    assert str(pair.started_in) not in path


@pytest.mark.parametrize("shared", [True, False])
def test_a_run_folder_comes_back(executor: RayExecutor, tmp_path: Path, shared: bool) -> None:
    if not shared:
        (executor._folder / ray_worker.TOKEN).write_text("of another folder")
    (cell, *_) = some_cells(tmp_path / "m", "mobilenet_tiny")
    quick = {"duration": "0", "iterations": "2", "warmup": "0", "profile-iterations": "2", "backend": "ort-cpu"}
    cell = msgspec.structs.replace(cell, verb="run", gpu="", target="local", group=cell.key, options=quick)
    executor.start(Task(group=cell.key, cells=(cell,)))
    (answered,) = until_answered(executor)
    assert [(row.status, row.error) for row in answered.rows] == [("done", "")]
    assert answered.run is not None
    assert (answered.run / "report.json").is_file()
    assert answered.run.is_relative_to(tmp_path)


# --- what goes wrong --------------------------------------------------------------------------


def test_a_task_that_takes_too_long_is_ended(pair: Pair, tmp_path: Path) -> None:
    executor = connect(pair.made.address, timeout_s=1.0)
    cells = some_cells(tmp_path / "m", "mobilenet_tiny")
    held = Held(Path(cells[0].path))
    try:
        (task, *_) = tasks_of(cells)
        executor.start(task)
        process = until_under_way(executor).process
        (answered,) = until_answered(executor)
        assert [(row.status, row.stage) for row in answered.rows] == [("failed", "timeout")] * 2
        until = time.monotonic() + LONG_S
        while Path(f"/proc/{process}").exists() and time.monotonic() < until:
            time.sleep(0.1)
        assert not Path(f"/proc/{process}").exists()
    finally:
        executor.close()
        held.let_go()


def test_those_behind_a_task_whose_worker_dies_had_not_begun(executor: RayExecutor, tmp_path: Path) -> None:
    cells = asking(some_cells(tmp_path / "m", "mobilenet_tiny", "qdq_cnn"), "gpu_h100")
    executor._pace_s = 0.01
    first, *others = tasks_of(cells)
    held = Held(Path(first.cells[0].path))
    for task in (first, *others):
        executor.start(task)
    os.kill(until_under_way(executor).process, signal.SIGKILL)
    held.let_go()
    found = until_answered(executor, 4)
    assert [each.task for each in found if each.lost] == [first]
    assert {each.task.group for each in found if each.rows} == {task.group for task in others}


def test_what_is_answered_is_not_cancelled(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nobody heard yet that it is over: the worker may have something else to do by then."""
    (task, *_) = tasks_of(some_cells(tmp_path / "m", "mobilenet_tiny"))
    executor.start(task)
    executor._hand_over()
    (batch,) = executor._batches.values()
    until_answered(executor)
    executor._batches[batch.reference] = batch
    cancelled: list[Any] = []
    monkeypatch.setattr(ray, "cancel", lambda reference, **_: cancelled.append(reference))
    executor.close()
    assert not cancelled


def test_a_worker_that_dies_is_no_node_that_cannot_answer(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, died = ray_worker.probe, tmp_path / "died"

    def dies_once() -> bytes:
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return probe()

    monkeypatch.setattr(ray_worker, "probe", dies_once)
    connect(pair.made.address).close()
    assert died.exists()


def test_what_was_lost_on_a_node_is_tried_on_another(executor: RayExecutor, tmp_path: Path) -> None:
    (task, *_) = tasks_of(asking(some_cells(tmp_path / "m", "mobilenet_tiny"), "spare"))
    held = Held(Path(task.cells[0].path))
    nodes = set()
    for _ in range(2):
        executor.start(task)
        found = until_under_way(executor)
        nodes.add(found.node)
        os.kill(found.process, signal.SIGKILL)
        (answered,) = until_answered(executor)
        task = msgspec.structs.replace(task, attempts=(*task.attempts, answered.lost))
    held.let_go()
    assert len(nodes) == 2
    for node in (*nodes, *nodes):
        # Ray may have chosen the other one by itself.
        held = Held(Path(task.cells[0].path))
        executor._avoid[task.group] = {node}
        executor.start(task)
        assert until_under_way(executor).node != node
        held.let_go()
        until_answered(executor)


def through_faults(
    pair: Pair, folder: Path, cells: Sequence[FleetCell], held: Held, fault: Any
) -> tuple[list[FleetRow], Any]:
    """Rows of a fleet on which a fault comes while the worker of a held model waits; and the table."""
    executor = connect(pair.made.address, runs=folder)
    path = next(cell.path for cell in cells if cell.model == "mobilenet_tiny")
    came: list[str] = []

    def watch(_: object) -> None:
        waits = [each for each in executor.under_way if each.task.cells[0].path == path]
        if waits and not came:
            came.append(waits[0].node)
            fault(waits[0])
            held.let_go()

    store = Store(str(folder / "fleet"), owner="a-test")
    schedule(cells, store, executor, HowToRun(), watch=watch)
    assert came
    table = store.table()
    rows = fleet_table.rows_of(table)
    assert sorted(row.key for row in rows) == sorted(cell.key for cell in cells)
    return rows, fleet_table.lasting(table)


def test_a_worker_that_is_killed_is_made_up_for(pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = asking(some_cells(tmp_path / "m", "mobilenet_tiny", "qdq_cnn", "resnet_tiny"), "spare")
    held = Held(tmp_path / "m" / "mobilenet_tiny.onnx")
    killed: list[on_ray.UnderWay] = []

    def fault(waits: on_ray.UnderWay) -> None:
        killed.append(waits)
        os.kill(waits.process, signal.SIGKILL)

    rows, table = through_faults(pair, tmp_path, cells, held, fault)
    assert table.equals(undisturbed(cells, tmp_path / "here"))
    tried = {row.attempts for row in rows if row.attempts}
    assert len(tried) == 1
    assert f"node {killed[0].node[:8]}" in min(tried)[0]
    assert "its worker died" in min(tried)[0]
    assert not capsys.readouterr().out, "Ray prints nothing where the result goes"


def test_nodes_that_lack_trtprof_are_told_at_once(pair: Pair, tmp_path: Path) -> None:
    """The package that is found there has nothing of ours in it."""
    (tmp_path / "trtprof").mkdir()
    (tmp_path / "trtprof" / "__init__.py").write_text("")
    node = pair.made.node(resources={"bare": 1}, environment={"PYTHONPATH": str(tmp_path)})
    try:
        pair.made.wait(ray, 4)
        with pytest.raises(MissingError) as caught:
            connect(pair.made.address)
    finally:
        node.kill()
        pair.made.wait(ray, 3)
    assert caught.value.what.startswith("1 of the 3 nodes of the Ray cluster cannot answer")
    assert "it lacks trtprof" in caught.value.why
    assert caught.value.fix.startswith("pip install 'trtprof[fleet]==")


def test_nodes_of_another_version_are_told_at_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "__version__", "99.1")
    with pytest.raises(MissingError) as caught:
        connect(pair.made.address)
    assert caught.value.what.startswith("2 of the 2 nodes of the Ray cluster cannot answer for trtprof 99.1")
    assert "has trtprof 0." in caught.value.why


def test_a_node_that_joined_later_with_another_version_answers_nothing(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "__version__", "99.1")
    (task, *_) = tasks_of(some_cells(tmp_path / "m", "mobilenet_tiny"))
    executor.start(task)
    (answered,) = until_answered(executor)
    assert "99.1 is asked" in answered.lost


def test_a_node_that_is_lost_is_made_up_for_by_another(pair: Pair, tmp_path: Path) -> None:
    """The last of the tests that need both nodes."""
    cells = asking(some_cells(tmp_path / "m", "mobilenet_tiny", "qdq_cnn", "resnet_tiny"), "spare")
    held = Held(tmp_path / "m" / "mobilenet_tiny.onnx")
    lost: list[on_ray.UnderWay] = []

    def fault(waits: on_ray.UnderWay) -> None:
        lost.append(waits)
        pair.nodes[pair.resource_of(waits.node)].kill()

    rows, table = through_faults(pair, tmp_path, cells, held, fault)
    assert table.equals(undisturbed(cells, tmp_path / "here"))
    told = {line for row in rows for line in row.attempts}
    assert any(f"node {lost[0].node[:8]}" in line for line in told)


def test_what_waits_for_a_node_that_is_gone_is_lost(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "_NOWHERE_S", 0.5)
    executor = connect(pair.made.address)
    try:
        (task, *_) = tasks_of(asking(some_cells(tmp_path / "m", "mobilenet_tiny"), "gone"))
        executor.start(task)
        (answered,) = until_answered(executor)
        assert answered.lost.startswith("no node of the cluster has gone and 1 CPU; offered are CPU (")
    finally:
        executor.close()


# --- without a cluster --------------------------------------------------------------------------


def of_ray() -> list[tuple[BaseException, str]]:
    errors = ray.exceptions
    return [
        (errors.OutOfMemoryError("Task was killed due to the node running low on memory."), "ran out of memory"),
        (errors.NodeDiedError("gone"), "its node was lost"),
        (errors.WorkerCrashedError(), "its worker died"),
        (errors.LocalRayletDiedError(), "Ray died on this machine"),
        (errors.ObjectLostError("ab", None, ""), "an object of it was lost"),
        (errors.OwnerDiedError("ab", None, ""), "whoever held an object of it died"),
        (errors.ObjectStoreFullError("full"), "the object store is full"),
        (errors.OutOfDiskError("full"), "the disk of its node is full"),
        (errors.TaskCancelledError(), "someone cancelled it"),
        (errors.TaskUnschedulableError("no"), "no node could take it"),
        (errors.GetTimeoutError("late"), "did not arrive in time"),
        (ValueError("something else"), "its worker failed: ValueError: something else"),
    ]


@pytest.mark.parametrize(("error", "words"), of_ray(), ids=lambda value: type(value).__name__)
def test_why_a_task_is_lost_is_told_in_plain_words(error: BaseException, words: str) -> None:
    assert words in why_lost(error)


def test_ray_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingError) as caught:
        connect("auto")
    assert caught.value.fix == "pip install 'trtprof[fleet]'"


def test_doctor_tells_whether_ray_is_there() -> None:
    (part,) = [part for part in doctor.look().parts if part.kind == "fleet"]
    assert (part.name, part.available, part.reason) == ("ray", True, ray.__version__)
    part = doctor._package("fleet", "no-such-package", "pip install 'trtprof[fleet]'")
    assert (part.available, part.reason) == (False, "no-such-package is not installed")


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)


@pytest.mark.usefixtures("unconnected")
def test_an_address_at_which_nothing_answers_is_told_at_once() -> None:
    with pytest.raises(MissingError) as caught:
        connect("127.0.0.1:1")
    assert caught.value.what == "no Ray cluster answers at 127.0.0.1:1"
    assert "ray start --head" in caught.value.fix
    with pytest.raises(UsageError, match="is no address"):
        connect("somewhere")


@pytest.mark.usefixtures("unconnected")
def test_no_cluster_to_be_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nMore.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", nothing)
    here = Path.cwd()
    with pytest.raises(MissingError) as caught:
        connect("auto")
    assert caught.value.what == "there is no Ray cluster that runs"
    assert caught.value.why == "Could not find any running Ray instance."
    assert "ray start --head" in caught.value.fix
    assert Path.cwd() == here
