"""Cells executed on a Ray cluster: what is asked and the rows travel as JSON, nothing of either is code.

A build or a run takes its share of the CPUs of its node, so that nothing is predicted beside a measurement. A model
that is not on its node, by content, travels as objects of the cluster.
"""

from __future__ import annotations

import math
import os
import shutil
import socket
import time
import uuid
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trtprof import __version__
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import FleetCell
from trtprof.base.scratch import scratch_folder
from trtprof.flows.fleet import ray_worker, travel
from trtprof.flows.fleet.contents import content_of
from trtprof.flows.fleet.execute import INSTALL_RAY, Answered, Task
from trtprof.flows.fleet.ray_worker import Ask, Probe, Reply
from trtprof.flows.fleet.work import failed

START = "ray start --head on one machine and ray start --address=HOST:6379 on the others, or --ray HOST:6379"

_CONNECT_S = 5.0
_PROBE_S = 180.0  # The first process of a node may take a while: it imports trtprof
_PROBES = 3  # As often a node is asked whose worker dies
_GET_S = 300.0  # What was answered is fetched in that time, or lost
_LOOK_S = 5.0  # How old what is known of the nodes may be
_NOWHERE_S = 30.0  # A task that no node fits is lost then: a node that was lost may come back, or another one
_WAITING_S = 5.0  # What must have nodes to itself and has waited for so long goes before predictions
_TOGETHER_S = 0.5  # About how long one Ray task of several predictions takes, of which Ray's own part is some ms
_MOST_TOGETHER = 32
_AHEAD = 2  # Ray tasks a slot that are handed to Ray: one runs, one waits
_STORE_SHARE = 0.5  # Of the object store of a node, that models of ours may take
_LINE = 300


def require() -> Any:
    """Ray."""
    try:
        import ray
    except ImportError as error:
        raise MissingError("Ray is not installed", why=_line(error), fix=INSTALL_RAY) from None
    return ray


class _Node(NamedTuple):
    id: str
    host: str
    offers: Mapping[str, float]


class _Demand(NamedTuple):
    """What a task takes of a node."""

    cpus: float
    gpus: float = 0.0
    resource: str = ""

    def slots(self, node: _Node) -> int:
        """How many of them a node runs at once."""
        asked = {"CPU": self.cpus, "GPU": self.gpus, self.resource: 1.0 if self.resource else 0.0}
        return int(min((node.offers.get(name, 0.0) // need for name, need in asked.items() if need), default=1))

    @property
    def words(self) -> str:
        parts = [self.resource] if self.resource else []
        parts += [f"{self.gpus:g} GPU{'s' * (self.gpus != 1)}"] if self.gpus else []
        parts += [f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}"] if self.cpus else []
        return " and ".join(parts) or "nothing"


class _Batch:
    """Tasks that one Ray task answers, one after the other.

    Attributes:
        at: The first that is not answered yet.
        began: When that one was; None until the worker says that it begins.
        asked: When it was handed to Ray.
        node: Where it is, as soon as that is known; empty until then.
        incoming: The answer to a task whose run folder is on its way.
    """

    def __init__(self, reference: Any, tasks: Sequence[Task], demand: _Demand) -> None:
        self.reference = reference
        self.tasks = tasks
        self.demand = demand
        self.at = 0
        self.asked = time.monotonic()
        self.began: float | None = None
        self.node = ""
        self.host = ""
        self.process = 0
        self.incoming: _Incoming | None = None

    @property
    def left(self) -> Sequence[Task]:
        return self.tasks[self.at :]


class _Incoming:
    def __init__(self, reply: Reply, archive: Path) -> None:
        self.reply = reply
        self.archive = archive
        self.pieces = reply.pieces


class _Objects(NamedTuple):
    """A model in the object store."""

    files: list[tuple[str, list[Any]]]
    size: int


class UnderWay(NamedTuple):
    """A task that a worker has begun."""

    task: Task
    node: str
    host: str
    process: int


class RayExecutor:
    """See `execute.Executor`; `connect` makes one."""

    def __init__(
        self,
        ray: Any,
        timeout_s: float = 3600.0,
        runs: Path | None = None,
        *,
        disconnect: bool = False,
        streams: bool = True,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._ray = ray
        self._timeout_s = timeout_s
        self._disconnect = disconnect
        self._streams = streams
        self._say = say
        self._known: list[_Node] = []
        self._looked = -math.inf
        self._check_nodes()
        self._answer = ray.remote(max_retries=0)(ray_worker.stream if streams else ray_worker.whole)
        self._waiting: list[Task] = []
        self._batches: dict[Any, _Batch] = {}
        self._models: OrderedDict[str, _Objects] = OrderedDict()
        self._lacking = False
        self._avoid: dict[str, set[str]] = {}
        self._pace_s: float | None = None
        self._left: list[Path] = []
        self._ended: list[Answered] = []
        self._open = ExitStack()
        self._folder = self._open.enter_context(scratch_folder(runs))
        self._token = uuid.uuid4().hex
        (self._folder / ray_worker.TOKEN).write_text(self._token)

    # --- the executor -----------------------------------------------------------------------

    @property
    def under_way(self) -> list[UnderWay]:
        """What workers said that they had begun."""
        return [
            UnderWay(batch.tasks[batch.at], batch.node, batch.host, batch.process)
            for batch in self._batches.values()
            if batch.began is not None and batch.left
        ]

    def refuses(self, cell: FleetCell, num_gpus: float = 0.0) -> str:
        """That no node offers its resource, and as many GPUs, and what is offered."""
        nodes, least = self._nodes(), _Demand(0.0, num_gpus, cell.resource)
        if not (cell.resource or num_gpus) or any(least.slots(node) for node in nodes):
            return ""
        return f"no node of the cluster offers {least.words}; offered {_offered(nodes)}"

    def takes(self, task: Task) -> bool:
        """Whether its kind of slot has less to do than `_AHEAD` Ray tasks, and the object store has room."""
        if task.predicts and self._alone_waits():
            return False
        demand = self._demand(task)
        busy = sum(len(batch.left) for batch in self._batches.values() if batch.demand == demand)
        busy += sum(self._demand(each) == demand for each in self._waiting)
        ahead = _AHEAD if self._streams else 1
        if busy >= ahead * max(self._slots(demand), 1) * self._together(task):
            return False
        return not self._lacking or self._has_room(task)

    def start(self, task: Task) -> None:
        """Keep it for the next Ray task; `answered` hands these to Ray."""
        self._waiting.append(task)

    def answered(self, seconds: float) -> Sequence[Answered]:
        """What was answered; a task that took too long has failed, one whose worker or node died is lost."""
        # Run folders of those that were told before are taken over by now.
        while self._left:
            shutil.rmtree(self._left.pop(), ignore_errors=True)
        with suppress(OSError):  # what is old is of the dead (`Store.tidy`)
            os.utime(self._folder)
        until = time.monotonic() + seconds
        while True:
            self._hand_over()
            self._end_overdue()
            self._end_homeless()
            left = max(until - time.monotonic(), 0.0)
            if not self._batches:
                if not self._ended and not self._waiting:
                    time.sleep(left)
            else:
                self._hear(0.0 if self._ended else min(left, 1.0))
            if self._ended or time.monotonic() >= until:
                found, self._ended = self._ended, []
                return found

    def close(self) -> None:
        """Cancel what is under way and forget the models; the cluster stays."""
        for batch in self._batches.values():
            # What is answered is about to end: cancelled just then, Ray aborts, or ends what its worker does next.
            if batch.left:
                self._cancel(batch)
        self._batches.clear()
        self._waiting.clear()
        self._models.clear()
        self._open.close()
        if self._disconnect:
            self._ray.shutdown()
            _prints(self._ray, True)

    # --- nodes ------------------------------------------------------------------------------

    def _nodes(self) -> list[_Node]:
        """Those that live, and offer something."""
        now = time.monotonic()
        if now - self._looked > _LOOK_S:
            try:
                listed = self._ray.nodes()
            except Exception as error:  # of many kinds: its head was lost
                why = f"{_line(error)}; what was done stays done"
                raise MissingError("the Ray cluster does not answer any more", why=why, fix=START) from None
            self._looked = now
            self._known = [
                node
                for each in listed
                if each["Alive"]
                and _kinds(node := _Node(each["NodeID"], str(each.get("NodeManagerHostname", "")), each["Resources"]))
            ]
        return self._known

    def _check_nodes(self) -> None:
        """Ask every node what it has: once, not with every task."""
        from ray.exceptions import NodeDiedError, TaskUnschedulableError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = self._nodes()
        # A worker that dies says nothing of its node; where that is lost, Ray says so instead of trying again.
        asked = self._ray.remote(max_retries=_PROBES - 1, num_cpus=0)(ray_worker.probe)
        references = [
            asked.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote()
            for node in nodes
        ]
        wrong, gone = [], 0
        for node, reference in zip(nodes, references, strict=True):
            try:
                found = msgspec.json.decode(self._ray.get(reference, timeout=_PROBE_S), type=Probe)
            except (NodeDiedError, TaskUnschedulableError):
                # It was lost a moment ago, and Ray had not missed it yet.
                gone += 1
            except Exception as error:  # of any kind: what it says is all there is
                wrong.append(f"{_name(node)}: {_why_not(error)}")
            else:
                if found.trtprof != __version__:
                    wrong.append(f"{_name(node)} has trtprof {found.trtprof}")
        if wrong:
            raise MissingError(
                f"{len(wrong)} of the {len(nodes)} nodes of the Ray cluster cannot answer for trtprof {__version__}",
                why="; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""),
                fix=f"pip install 'trtprof[fleet]=={__version__}' on every node, into the Python that runs Ray",
            )
        if len(nodes) == gone:
            raise MissingError("no node of the Ray cluster offers a CPU or anything else", fix=START)
        self._looked = -math.inf
        left = len(nodes) - gone
        self._say(f"Ray cluster with {left} node{'s' * (left != 1)}: offered {_offered(self._nodes())}")

    def _demand(self, task: Task) -> _Demand:
        resource = task.cells[0].resource
        if task.predicts:
            return _Demand(1.0, task.num_gpus, resource)
        alone = _Demand(0.0, task.num_gpus, resource)
        fit = [node for node in self._nodes() if alone.slots(node)]
        cpus = [node.offers.get("CPU", 0.0) for node in fit]
        if not (resource or task.num_gpus):
            return alone._replace(cpus=max(cpus, default=1.0))
        # A share that every node of the kind has, so that none of them is left out.
        shares = [math.floor(have / alone.slots(node)) for have, node in zip(cpus, fit, strict=True)]
        return alone._replace(cpus=float(min(shares, default=0)))

    def _slots(self, demand: _Demand) -> int:
        return sum(demand.slots(node) for node in self._nodes())

    def _alone_waits(self) -> bool:
        """Whether a build or a run waits for a node that predictions keep busy."""
        now = time.monotonic()
        waiting: Counter[_Demand] = Counter()
        running: Counter[_Demand] = Counter()
        for batch in self._batches.values():
            if not batch.tasks[0].predicts:
                old = now - batch.asked > _WAITING_S
                (running if batch.began is not None else waiting)[batch.demand] += 1 if batch.began or old else 0
        return any(count and running[demand] < self._slots(demand) for demand, count in waiting.items())

    # --- to Ray -----------------------------------------------------------------------------

    def _together(self, task: Task) -> int:
        if not task.predicts or task.attempts or self._pace_s is None or not self._streams:
            return 1
        return min(max(int(_TOGETHER_S / max(self._pace_s, 1e-6)), 1), _MOST_TOGETHER)

    def _hand_over(self) -> None:
        """Hand what waits to Ray, predictions several at a time, as long as every slot has something."""
        kinds: dict[tuple[_Demand, bool], list[Task]] = {}
        for task in self._waiting:
            kinds.setdefault((self._demand(task), bool(task.attempts) or not task.predicts), []).append(task)
        self._waiting = []
        for (demand, _), tasks in kinds.items():
            most = min(self._together(tasks[0]), math.ceil(len(tasks) / max(self._slots(demand), 1)))
            for first in range(0, len(tasks), most):
                self._submit(tasks[first : first + most], demand)

    def _submit(self, tasks: Sequence[Task], demand: _Demand) -> None:
        from ray.exceptions import RayError

        models: dict[str, list[tuple[str, list[Any]]]] = {}
        ready = []
        for task in tasks:
            cell = task.cells[0]
            if self._lacking:
                try:
                    self._put(cell)
                except (OSError, ValueError) as error:
                    self._ended.append(
                        Answered(task, failed(task, "source", f"{cell.path} cannot be sent", str(error)))
                    )
                    continue
                except RayError as error:
                    self._ended.append(Answered(task, lost=why_lost(error)))
                    continue
                models[cell.sha256] = self._models[cell.sha256].files
            ready.append(task)
        if not ready:
            return
        asked = Ask(trtprof=__version__, tasks=tuple(ready), runs=str(self._folder), token=self._token)
        options: dict[str, Any] = {"num_cpus": demand.cpus, "num_gpus": demand.gpus, "name": "trtprof fleet"}
        options["resources"] = {demand.resource: 1} if demand.resource else {}
        options |= {"num_returns": "streaming"} if self._streams else {}
        options |= self._elsewhere(ready[0], demand)
        reference = self._answer.options(**options).remote(msgspec.json.encode(asked), models)
        self._batches[reference] = _Batch(reference, ready, demand)

    def _elsewhere(self, task: Task, demand: _Demand) -> dict[str, Any]:
        """Another node than those where a task came to nothing; the one of them with least of ours to do."""
        avoid = self._avoid.get(task.group)
        others = [node for node in self._nodes() if demand.slots(node) and node.id not in (avoid or ())]
        if not avoid or not others:
            return {}
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        busy = Counter(batch.node for batch in self._batches.values())
        chosen = min(others, key=lambda node: busy[node.id])
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(chosen.id, soft=True)}

    def _has_room(self, task: Task) -> bool:
        """Whether the model of a task may be put beside those that are in use."""
        cell = task.cells[0]
        used = {each.cells[0].sha256 for batch in self._batches.values() for each in batch.left}
        if cell.sha256 in self._models or not used:
            return True
        stores = [node.offers.get("object_store_memory", math.inf) for node in self._nodes()]
        in_use = sum(self._models[sha256].size for sha256 in used if sha256 in self._models)
        return in_use + travel.bytes_of(Path(cell.path)) <= _STORE_SHARE * min(stores, default=math.inf)

    def _put(self, cell: FleetCell) -> None:
        """Put a model, unless it is there; those that nothing under way needs go."""
        if cell.sha256 in self._models:
            self._models.move_to_end(cell.sha256)
            return
        path = Path(cell.path)
        if content_of(path).sha256 != cell.sha256:
            raise ValueError("it was changed since the fleet was planned" if path.is_file() else "it is not there")
        used = {each.cells[0].sha256 for batch in self._batches.values() for each in batch.left}
        for sha256 in [sha256 for sha256 in self._models if sha256 not in used]:
            del self._models[sha256]
        parts = travel.parts_of(path)
        files = [(part.name, [self._ray.put(piece) for piece in travel.pieces_of(part.path)]) for part in parts]
        self._models[cell.sha256] = _Objects(files, sum(travel.bytes_of(part.path) for part in parts))

    # --- from Ray ---------------------------------------------------------------------------

    def _hear(self, seconds: float) -> None:
        """Everything that is there; waits for the first of it for so long."""
        ready, _ = self._ray.wait(list(self._batches), num_returns=1, timeout=seconds)
        while ready:
            for reference in ready:
                self._hear_one(self._batches[reference])
            references = list(self._batches)
            if not references:
                return
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)

    def _hear_one(self, batch: _Batch) -> None:
        try:
            if self._streams:
                said = [self._ray.get(next(batch.reference), timeout=_GET_S)]
            else:
                said = self._ray.get(batch.reference, timeout=_GET_S)
                self._batches.pop(batch.reference)
            for data in said:
                self._said(batch, data)
        except StopIteration:
            self._over(batch, "the worker ended before it had answered")
        except Exception as error:  # whatever came of Ray, or of a worker that is not ours: the task is lost
            self._cancel(batch)
            self._over(batch, why_lost(error))

    def _said(self, batch: _Batch, data: bytes) -> None:
        if batch.incoming is not None:
            self._piece(batch, batch.incoming, data)
            return
        reply = msgspec.json.decode(data, type=Reply)
        if reply.kind == "here":
            batch.node, batch.host, batch.process = reply.node, reply.host, reply.process
            batch.began = time.monotonic()
        elif reply.kind == "rows" and reply.pieces:
            batch.incoming = _Incoming(reply, self._folder / f"{uuid.uuid4().hex}.zip")
        elif reply.kind == "rows":
            self._done(batch, reply, self._folder / Path(reply.run).name if reply.run else None)
        elif reply.kind == "lacks":
            self._lacking = True
            self._waiting.append(self._next(batch))
        else:
            self._lost(batch, self._next(batch), reply.why)

    def _piece(self, batch: _Batch, incoming: _Incoming, data: bytes) -> None:
        with incoming.archive.open("ab") as file:
            file.write(data)
        incoming.pieces -= 1
        if incoming.pieces:
            return
        batch.incoming = None
        run = incoming.archive.with_suffix("")
        try:
            travel.unpack(incoming.archive, run)
        except ValueError as error:
            self._left.append(run)
            self._lost(batch, self._next(batch), f"its run folder did not arrive: {error}")
        else:
            self._done(batch, incoming.reply, run)
        finally:
            incoming.archive.unlink(missing_ok=True)

    def _next(self, batch: _Batch) -> Task:
        """The task that was answered; the next one begins."""
        batch.at += 1
        batch.began = time.monotonic()
        return batch.tasks[batch.at - 1]

    def _done(self, batch: _Batch, reply: Reply, run: Path | None) -> None:
        task = self._next(batch)
        self._avoid.pop(task.group, None)
        if task.predicts:
            seconds = sum(row.seconds for row in reply.rows)
            self._pace_s = seconds if self._pace_s is None else 0.8 * self._pace_s + 0.2 * seconds
        if run is not None:
            self._left.append(run)
        self._ended.append(Answered(task, reply.rows, run))

    def _lost(self, batch: _Batch, task: Task, why: str) -> None:
        if batch.node:
            self._avoid.setdefault(task.group, set()).add(batch.node)
            why = f"{why} (on {batch.host}, node {batch.node[:8]})"
        self._looked = -math.inf
        self._ended.append(Answered(task, lost=why))

    def _over(self, batch: _Batch, why: str) -> None:
        """Nothing more comes of a batch: the task that it was at is lost, those after it had not begun."""
        self._batches.pop(batch.reference, None)
        if batch.incoming is not None:
            batch.incoming.archive.unlink(missing_ok=True)
        if batch.left:
            self._waiting += batch.left[1:]
            self._lost(batch, batch.left[0], why)

    # --- what does not end by itself ----------------------------------------------------------

    def _end_overdue(self) -> None:
        for batch in list(self._batches.values()):
            # Without streams nobody says when it began.
            began = batch.began if self._streams else batch.asked
            if began is None or not batch.left or time.monotonic() - began <= self._timeout_s:
                continue
            self._cancel(batch)
            del self._batches[batch.reference]
            self._waiting += batch.left[1:]
            error = f"it was not done after {self._timeout_s:g} s, and was ended"
            rows = failed(batch.left[0], "timeout", error, fix="--timeout SECONDS for more, with --retry failed")
            self._ended.append(Answered(batch.left[0], rows))

    def _end_homeless(self) -> None:
        """What waits for a node that there is no more."""
        for batch in list(self._batches.values()):
            if batch.began is None and time.monotonic() - batch.asked > _NOWHERE_S and not self._slots(batch.demand):
                self._cancel(batch)
                why = f"no node of the cluster has {batch.demand.words}; offered {_offered(self._nodes())}"
                for task in batch.left:
                    self._lost(batch, task, why)
                del self._batches[batch.reference]

    def _cancel(self, batch: _Batch) -> None:
        with suppress(Exception):  # it may have ended, and so may the cluster
            self._ray.cancel(batch.reference, force=True)


# --- words --------------------------------------------------------------------------------


def why_lost(error: BaseException) -> str:
    """Why there is no answer, in plain words."""
    from ray import exceptions as of_ray

    words: list[tuple[type[BaseException], str]] = [
        (of_ray.OutOfMemoryError, "its node ran out of memory, and Ray ended the worker"),
        (of_ray.NodeDiedError, "its node was lost"),
        (of_ray.WorkerCrashedError, "its worker died: it was killed, or crashed, or its node was lost"),
        (of_ray.LocalRayletDiedError, "Ray died on this machine"),
        (of_ray.ObjectStoreFullError, "the object store is full"),
        (of_ray.OutOfDiskError, "the disk of its node is full"),
        (of_ray.OwnerDiedError, "whoever held an object of it died"),
        (of_ray.ObjectLostError, "an object of it was lost with its node"),
        (of_ray.TaskCancelledError, "someone cancelled it"),
        (of_ray.TaskUnschedulableError, "no node could take it"),
        (of_ray.GetTimeoutError, "its answer did not arrive in time"),
    ]
    for kind, said in words:
        if isinstance(error, kind):
            return said
    return f"its worker failed: {_why_not(error)}"


def _why_not(error: BaseException) -> str:
    """What a worker or Ray says, in a line."""
    cause = getattr(error, "cause", None)
    text = str(cause if isinstance(cause, BaseException) else error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    missing = next((line for line in lines if line.startswith("ModuleNotFoundError")), "")
    if missing:
        return f"it lacks trtprof ({missing})" if "'profiler" in missing else missing[:_LINE]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no more is known'}"[:_LINE]


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_LINE]


def _kinds(node: _Node) -> dict[str, float]:
    """What a node offers, less what Ray keeps for itself."""
    own = {"memory", "object_store_memory"}
    return {name: have for name, have in node.offers.items() if have and name not in own and ":" not in name}


def _offered(nodes: Iterable[_Node]) -> str:
    total: Counter[str] = Counter()
    for node in nodes:
        total.update(_kinds(node))
    return "are " + ", ".join(f"{name} ({have:g})" for name, have in sorted(total.items())) if total else "is nothing"


def _name(node: _Node) -> str:
    return f"{node.host or 'node'} ({node.id[:8]})"


# --- the connection -----------------------------------------------------------------------


def connect(
    address: str, timeout_s: float = 3600.0, runs: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> RayExecutor:
    """An executor on a Ray cluster that runs.

    `address`: ``auto`` for the one that Ray finds, ``HOST:PORT``, or ``ray://HOST:PORT`` of a Ray client.
    """
    ray = require()
    client = address.startswith("ray://")
    own = not ray.is_initialized()
    if own:
        _initialize(ray, address)
    try:
        return RayExecutor(ray, timeout_s, runs, disconnect=own, streams=not client, say=say)
    except BaseException:
        if own:
            ray.shutdown()
        raise


def _initialize(ray: Any, address: str) -> None:
    if address == "auto":
        given = os.environ.get("RAY_ADDRESS", "")
        if given:
            _check_reached(given)
    else:
        _check_reached(address)
    try:
        with _nowhere(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many kinds: ConnectionError, RuntimeError, ImportError, errors of gRPC
        raise MissingError(
            "there is no Ray cluster that runs" if address == "auto" else f"no Ray cluster answers at {address}",
            why=_line(error),
            fix="pip install 'ray[client]'" if isinstance(error, ImportError) else START,
        ) from None
    _prints(ray, False)


def _prints(ray: Any, does: bool) -> None:
    """Whether Ray prints on stdout what becomes of workers: `why_lost` says it, and stdout is for the result."""
    with suppress(AttributeError):
        ray._private.worker._worker_logs_enabled = does


def _check_reached(address: str) -> None:
    """Ray would try for minutes, and print each try."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"{address!r} is no address of a Ray cluster", fix="--ray auto, HOST:6379 or ray://HOST:10001")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise MissingError(f"no Ray cluster answers at {address}", why=_line(error), fix=START) from None


@contextmanager
def _nowhere() -> Iterator[None]:
    """In an empty folder: Ray has workers import from the one that it is started in, before all others."""
    here = Path.cwd()
    with scratch_folder() as empty:
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(here)
