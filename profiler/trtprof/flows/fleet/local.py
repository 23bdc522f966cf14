"""Cells executed by processes of this machine: predictions side by side, a build or a run alone and last."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base.errors import MissingError
from trtprof.base.records import FleetCell, FleetRow
from trtprof.base.units import format_bytes
from trtprof.flows.fleet.execute import Answered, Task
from trtprof.flows.fleet.local_worker import Request
from trtprof.flows.fleet.travel import NodeFolder, bytes_of
from trtprof.flows.fleet.work import RUN, failed
from trtprof.hardware.device import available_memory, host_cpu
from trtprof.runtime.child import Dialogue, wait_for

BASE_BYTES = 512 << 20
"""Of a process that predicts, beside the file of its model: Python, its packages, the graph, what is learned."""
MOST_TASKS = 1000  # That a process answers before another takes its place: what libraries keep of each does not add up
MODULE = "trtprof.flows.fleet.local_worker"

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS"), "1")
"""Of predictions, which share the machine."""


class _Child:
    """A process, and how often it has answered."""

    def __init__(self, worker: Dialogue, *, predicts: bool) -> None:
        self.worker = worker
        self.predicts = predicts
        self.answered = 0


class _Busy(NamedTuple):
    """A process with its task, which it has until then."""

    child: _Child
    task: Task
    scratch: Path
    until: float


class LocalExecutor:
    """See `execute.Executor`. `workers`: processes that predict; 0: as many as cores and memory carry."""

    def __init__(
        self,
        cells: Iterable[FleetCell],
        workers: int = 0,
        timeout_s: float = 3600.0,
        module: str = MODULE,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._timeout_s = timeout_s
        self._module = module
        largest = max((bytes_of(Path(path)) for path in {cell.path for cell in cells}), default=0)
        self._share = BASE_BYTES + largest
        self.workers, why = (workers, "as asked for") if workers else _as_many_as_fit(self._share)
        say(f"{self.workers} process{'es' * (self.workers != 1)} on this machine: {why}")
        self._open = ExitStack()
        self._scratch = self._made_scratch()
        self._busy: dict[int, _Busy] = {}
        self._idle: list[_Child] = []
        self._left: list[Path] = []
        self._started = 0

    @property
    def processes(self) -> list[int]:
        """Their numbers: first of those that have a task, in the order in which they got it."""
        busy = [each.child for each in self._busy.values()]
        return [child.worker.pid for child in (*busy, *self._idle)]

    def refuses(self, cell: FleetCell, num_gpus: float = 0.0) -> str:  # noqa: ARG002 - Ray keeps GPUs
        """Anything of a cluster."""
        return f"it needs {cell.resource}, which nodes of a Ray cluster offer (--ray)" if cell.resource else ""

    def takes(self, task: Task) -> bool:
        """Whether a process is free for it; a build or a run waits until the machine is."""
        if any(not busy.task.predicts for busy in self._busy.values()):
            return False
        return len(self._busy) < self.workers if task.predicts else not self._busy

    def start(self, task: Task) -> None:
        """Hand it to a process."""
        predicts = task.predicts
        if not predicts:
            # Nothing of ours holds memory, or wakes up, beside a measurement.
            self._end_idle()
        if not self._scratch.is_dir():
            # Who tidies up the temporary files of a machine takes it away, though it is in use.
            self._scratch = self._made_scratch()
        try:
            scratch = Path(tempfile.mkdtemp(dir=self._scratch))
        except OSError as error:
            raise _no_scratch(error) from None
        child = self._awake() or self._fresh(predicts=predicts)
        request = Request(task=task, scratch=str(scratch))
        self._busy[child.worker.fileno] = _Busy(child, task, scratch, time.monotonic() + self._timeout_s)
        child.worker.send(msgspec.json.encode(request))

    def answered(self, seconds: float) -> Sequence[Answered]:
        """What came of tasks; one that took too long has failed, one whose process died is lost."""
        found: list[Answered] = []
        # Run folders of those that were told before are taken over by now.
        while self._left:
            shutil.rmtree(self._left.pop(), ignore_errors=True)
        nearest = min((busy.until for busy in self._busy.values()), default=0.0) - time.monotonic()
        workers = [busy.child.worker for busy in self._busy.values()]
        for worker in wait_for(workers, max(min(seconds, nearest), 0.0) if workers else seconds):
            busy = self._busy[worker.fileno]
            try:
                lines = worker.heard()
            except EOFError as end:
                self._ended(busy)
                found.append(Answered(busy.task, lost=str(end)))
                continue
            if lines:
                self._freed(busy)
                rows = msgspec.json.decode(lines[0], type=tuple[FleetRow, ...])
                run = busy.scratch / RUN
                found.append(Answered(busy.task, rows, run if run.is_dir() else None))
        now = time.monotonic()
        for busy in [busy for busy in self._busy.values() if busy.until <= now]:
            self._ended(busy)
            error = f"it was not done after {self._timeout_s:g} s, and was ended"
            rows = failed(busy.task, "timeout", error, fix="--timeout SECONDS for more, with --retry failed")
            found.append(Answered(busy.task, rows))
        return found

    def close(self) -> None:
        """Kill every process; what they left lying goes, too."""
        for busy in list(self._busy.values()):
            busy.child.worker.end()
        self._busy.clear()
        self._end_idle()
        self._open.close()

    # --- processes --------------------------------------------------------------------------

    def _made_scratch(self) -> Path:
        try:
            return self._open.enter_context(NodeFolder().scratch())
        except OSError as error:
            raise _no_scratch(error) from None

    def _awake(self) -> _Child | None:
        """One that waits for a task and lives: some die while they do nothing, of others' need of memory."""
        while self._idle:
            child = self._idle.pop()
            if child.worker.alive:
                return child
            child.worker.end()
        return None

    def _fresh(self, *, predicts: bool) -> _Child:
        self._started += 1
        environment = _ONE_THREAD if predicts else {}
        try:
            worker = Dialogue(self._module, self._scratch / f"{self._started}.log", environment)
        except OSError as error:
            raise MissingError("no process can be started to answer cells", why=str(error)) from None
        return _Child(worker, predicts=predicts)

    def _freed(self, busy: _Busy) -> None:
        """The process has answered: it is asked again, unless it has grown, or done much."""
        child = busy.child
        del self._busy[child.worker.fileno]
        self._left.append(busy.scratch)
        child.answered += 1
        if not child.predicts or child.answered >= MOST_TASKS or child.worker.resident_bytes() > self._share:
            child.worker.end()
        else:
            self._idle.append(child)

    def _ended(self, busy: _Busy) -> None:
        del self._busy[busy.child.worker.fileno]
        self._left.append(busy.scratch)
        busy.child.worker.end()

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().worker.end()


def _no_scratch(error: OSError) -> MissingError:
    return MissingError(
        "processes that answer cells have no place to work in",
        why=f"no folder can be made for temporary files: {error.strerror or error}",
        fix="make room there, or TMPDIR=FOLDER for another place; what was done stays done",
    )


def usable_cores() -> int:
    """Physical cores that this process may use."""
    return max(host_cpu().cores, 1)


def _as_many_as_fit(share: int) -> tuple[int, str]:
    cores, free = usable_cores(), available_memory()
    why = f"{cores} core{'s' * (cores != 1)}, {format_bytes(free)} of memory free"
    why += f", of which one may need {format_bytes(share)}"
    return max(min(cores, free // share), 1), why
