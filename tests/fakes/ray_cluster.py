"""A Ray cluster of several nodes on this machine, each with its own environment; nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
QUICK = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
"""A node that is lost is missed sooner; slower than the default would do on a machine that is busy."""
STORE_BYTES = 80_000_000
"""Of the object store of a node, which is of the machine's shared memory."""
_START_S = 120.0
_MOST_STARTS = 3


class Node:
    """A node: `ray start`, and all that it starts."""

    def __init__(self, command: list[str], environment: Mapping[str, str], place: Path) -> None:
        self._command = command
        self._environment = environment
        self._place = place
        self._starts = 0
        self._killed = False
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        with (self._place / "log").open("ab") as log:
            return subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                start_new_session=True, cwd=self._place,
            )  # fmt: skip

    def kill(self) -> None:
        """As a machine is lost: raylet, workers and all."""
        self._killed = True
        # Workers have process groups of their own, and would go on for a while without their raylet.
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.kill()
        self._process.wait()

    @property
    def started(self) -> bool:
        """Whether it says so."""
        return "Ray runtime started" in (self._place / "log").read_text()

    def check(self) -> None:
        """Start it again where it gave up: Ray waits 30 s for its own processes, too little for a machine so busy.

        Raises:
            RuntimeError: It gave up several times.
        """
        if self._killed or self._process.poll() is None:
            return
        self.kill()
        if self._starts == _MOST_STARTS:
            raise RuntimeError(f"ray start ended: {(self._place / 'log').read_text()[-2000:]}")
        self._killed = False
        self._process = self._start()


class Cluster:
    """A cluster; `cluster` makes one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.nodes: list[Node] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def head(self, cpus: int = 0, **more: Any) -> Node:
        """The node that every cluster has; it offers nothing unless it is told to."""
        return self._start(
            "--head", "--port", str(self.port), "--include-dashboard=false", "--temp-dir", str(self.folder / "r"),
            "--system-config", json.dumps(QUICK), cpus=cpus, **more,
        )  # fmt: skip

    def node(self, cpus: int = 1, **more: Any) -> Node:
        """Another one; see `_start`."""
        return self._start("--address", self.address, cpus=cpus, **more)

    def _start(
        self,
        *arguments: str,
        cpus: int,
        gpus: int = 0,
        resources: Mapping[str, float] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Node:
        place = self.folder / f"node{len(self.nodes)}"
        place.mkdir()
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *arguments,
            "--num-cpus", str(cpus), "--num-gpus", str(gpus), "--resources", json.dumps(resources or {}),
            "--object-store-memory", str(STORE_BYTES),
        ]  # fmt: skip
        # Others on the machine may use its memory; that is no concern of this cluster.
        settings = {"RAY_memory_monitor_refresh_ms": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        paths = {"PYTHONPATH": str(ROOT / "profiler"), "TMPDIR": str(place)}
        told = {**os.environ, **paths, **settings, **(environment or {})}
        self.nodes.append(Node(command, told, place))
        return self.nodes[-1]

    def wait(self, ray: Any, nodes: int) -> None:
        """Until so many nodes live, as a driver sees it."""
        self._until(lambda: sum(bool(node["Alive"]) for node in ray.nodes()) == nodes, f"{nodes} nodes")

    def ready(self) -> None:
        """Until every node said that it has started; no driver is needed."""
        self._until(lambda: all(node.started for node in self.nodes), "all nodes")

    def _until(self, there: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _START_S
        while not there():
            for node in self.nodes:
                node.check()
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not start in {_START_S} s")
            time.sleep(0.1)


@contextmanager
def cluster(cpus: int = 0, **more: Any) -> Iterator[Cluster]:
    """A cluster with a head alone; killed at the end, and its files gone."""
    # Its sockets lie in there, and a path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))
    made = Cluster(folder)
    try:
        made.head(cpus, **more)
        made.ready()
        yield made
    finally:
        for node in made.nodes:
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)
