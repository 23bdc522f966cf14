"""Cells on a real Ray cluster of a head and two nodes on this machine, which lose workers and nodes on the way.

A model whose path is a named pipe keeps a worker waiting until somebody writes: so long a task is under way for sure.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

from tests.fakes.ray_cluster import Cluster, Node, cluster
from tests.fakes.support import SAMPLES, fixed_ceilings
from trtprof.base import fleet_table
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import FleetCell, FleetRow
from trtprof.base.scratch import PREFIX
from trtprof.flows.fleet import HowToRun, manifest, on_ray, ray_worker, travel
from trtprof.flows.fleet.cells import expand
from trtprof.flows.fleet.execute import Answered, Task
from trtprof.flows.fleet.on_ray import RayExecutor, connect
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


# --- without a cluster --------------------------------------------------------------------------


def test_ray_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingError) as caught:
        connect("auto")
    assert caught.value.fix == "pip install 'trtprof[fleet]'"


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
