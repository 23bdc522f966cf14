"""Break fleets while schedulers work on them, and see whether each is whole afterwards.

    python scripts/fuzz/fleet_faults.py --seconds 120 --seed 0 [--only KIND,...]

Each trial has a new folder, one to three schedulers (``fleet run``, as it is but for a short lease and early folding)
and some faults at random moments. One undisturbed ``fleet run --retry failed`` must then leave every cell exactly
once, the table of an undisturbed fleet byte for byte but for what passes, and nothing lying: no claim, no half-written
file, no process, no temporary folder. No command may ever show a traceback. Exit code 1 if a trial is not so.

A full disk and one that is only read are a small tmpfs of its own; without the right to mount these kinds are left out.
"""

from __future__ import annotations

import argparse
import functools
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

MANIFEST = """
name = "faults"
[[models]]
files = ["{samples}/resnet_tiny.onnx", "{samples}/mobilenet_tiny.onnx"]
batches = [1, 2, 4]
precisions = ["model", "fp16"]
[[models]]
files = "{samples}/transformer_block.onnx"
batches = [1, 2]
sizes = {{ sequence = [64, 128] }}
[[models]]
files = "broken.onnx"
[[targets]]
gpu = "rtx-4090"
[[targets]]
gpu = "l4"
[[targets]]
gpu = "t4"
[[targets]]
gpu = "h100-sxm5"
"""
LEASE_S = 1.5
FOLDED = 12
"""Parts that are folded together, so that there are files of the table."""
LONGEST_S = 60.0
"""What goes on for longer after the last fault waits without end."""
DISK = "16m"


def main() -> int:
    if sys.argv[1:2] == ["trtprof"]:
        return as_trtprof(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds of faults, with commas")
    options = parser.parse_args()
    injected: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    wrong = trials = 0
    seed = options.seed
    with tempfile.TemporaryDirectory(prefix="fleet-faults-") as name, disk(Path(name) / "disk") as mounted:
        base = Path(name)
        kinds = [kind for kind in KINDS if mounted or kind not in ON_DISK]
        kinds = [kind for kind in kinds if kind in options.only.split(",") or not options.only]
        (base / "broken.onnx").write_bytes(b"no model")
        manifest = base / "fleet.toml"
        manifest.write_text(MANIFEST.format(samples=ROOT / "sample_models"), encoding="utf-8")
        calm = Trial(base, manifest, base / "disk", seed)
        calm.end_undisturbed()
        expected = calm.table()
        print(f"{len(calm.keys())} cells; not possible here: {', '.join(set(KINDS) - set(kinds)) or 'nothing'}")
        if problems := calm.problems(expected):
            print(*problems, sep="\n", file=sys.stderr)
            return 1
        calm.clear()
        began = time.monotonic()
        while time.monotonic() - began < options.seconds:
            seed += 1
            trials += 1
            trial = Trial(base, manifest, base / "disk", seed)
            done = trial.disturbed(kinds)
            trial.end_undisturbed()
            injected.update(done)
            problems = trial.problems(expected)
            if problems:
                wrong += 1
                print(f"seed {seed - 1} --seconds 1: {', '.join(trial.story)}", *problems, sep="\n  ", file=sys.stderr)
            else:
                survived.update(done)
            trial.clear()
    print(f"{'fault':18} {'injected':>9} {'survived':>9}")
    for kind in kinds:
        print(f"{kind:18} {injected[kind]:9} {survived[kind]:9}")
    print(
        f"{trials} fleets in {time.monotonic() - began:.0f} s (seeds {options.seed + 1} to {seed}): "
        f"{injected.total()} faults, {survived.total()} survived, {wrong} fleets wrong"
    )
    return 1 if wrong else 0


def as_trtprof(arguments: list[str]) -> int:
    """The command itself, with a lease that ends soon and parts that are folded early."""
    from trtprof.__main__ import main as command
    from trtprof.flows import fleet
    from trtprof.flows.fleet import schedule, store

    fleet.HowToRun = functools.partial(fleet.HowToRun, lease_s=LEASE_S)  # type: ignore[assignment, misc]
    schedule.FOLD_EVERY = FOLDED
    store.Store.fold.__defaults__ = (FOLDED,)
    sys.argv[:] = ["trtprof", *arguments]
    command()
    return 0


@contextmanager
def disk(place: Path) -> Iterator[bool]:
    """A small disk of its own, where that may be mounted."""
    place.mkdir()
    mounted = not _call("mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(place))
    try:
        yield mounted
    finally:
        if mounted:
            _call("umount", "-l", str(place))


def _call(*command: str) -> int:
    with suppress(FileNotFoundError):
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode
    return 127


class Command(NamedTuple):
    """A process of ours, and where what it says goes."""

    process: subprocess.Popen[bytes]
    log: Path
    what: str


class Trial:
    def __init__(self, base: Path, manifest: Path, on: Path, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - of tests
        self.manifest = manifest
        self.disk = on
        self.folder = on / f"fleet-{seed}"
        self.aside = base / f"trial-{seed}"
        self.temporary = self.aside / "tmp"
        self.temporary.mkdir(parents=True)
        self.commands: list[Command] = []
        self.story: list[str] = []
        self.endless = False
        self.undo: list[tuple[float, Callable[[], None]]] = []

    # --- commands ---------------------------------------------------------------------------

    def start(self, *arguments: str) -> Command:
        log = self.aside / f"{len(self.commands)}.log"
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "TRTPROF_CACHE_DIR": str(self.aside.parent / "cache"),
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, __file__, "trtprof", *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env=environment, start_new_session=True,
            )  # fmt: skip
        command = Command(process, log, " ".join(arguments[:2]))
        self.commands.append(command)
        return command

    def run(self, *more: str) -> Command:
        return self.start("fleet", "run", str(self.manifest), "-o", str(self.folder), *more)

    def living(self) -> list[Command]:
        """Schedulers that have not ended."""
        return [each for each in self.commands if each.what == "fleet run" and each.process.poll() is None]

    def disturbed(self, kinds: list[str]) -> list[str]:
        """Schedulers and faults; the kinds that were done."""
        count = self.random.choice((1, 2, 2, 3))
        shards = self.random.random() < 0.3
        for at in range(count):
            more = ["--workers", str(self.random.randint(1, 3))]
            more += ["--shard", f"{at + 1}/{count}"] if shards else []
            more += ["--retry", "failed"] if self.random.random() < 0.3 else []
            self.run(*more)
        began = time.monotonic()
        moments = sorted(self.random.uniform(0.8, 5.0) for _ in range(self.random.randint(3, 9)))
        done = []
        for moment in moments:
            self._wait(began + moment)
            kind = self.random.choice(kinds)
            if KINDS[kind](self):
                done.append(kind)
                self.story.append(f"{kind} at {moment:.1f} s")
        self._wait(began + moments[-1] + 0.3)
        while self.undo:
            self._wait(self.undo[0][0])
        patience = self.random.choice((0.0, 2.0, LONGEST_S))
        until = time.monotonic() + patience
        while self.living() and time.monotonic() < until:
            time.sleep(0.05)
        self.endless = bool(self.living()) and patience == LONGEST_S
        for command in self.living():
            # A machine that goes down.
            command.process.kill()
        return done

    def _wait(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            for due in [each for each in self.undo if each[0] <= time.monotonic()]:
                self.undo.remove(due)
                due[1]()
            time.sleep(min(left, 0.02))
        for due in [each for each in self.undo if each[0] <= time.monotonic()]:
            self.undo.remove(due)
            due[1]()

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.undo.append((time.monotonic() + seconds, what))
        self.undo.sort(key=lambda each: each[0])

    def end_undisturbed(self) -> None:
        """An hour passes for all that the dead left, then one runs to the end."""
        for command in self.commands:
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(LONGEST_S)
        then = time.time() - 2 * 3600
        for path in self.folder.rglob("*"):
            if path.is_file() and (path.parent.name == "claims" or path.name.startswith(".")):
                os.utime(path, (then, then))
        last = self.run("--retry", "failed")
        with suppress(subprocess.TimeoutExpired):
            last.process.wait(LONGEST_S)

    # --- what came of it --------------------------------------------------------------------

    def problems(self, expected: bytes) -> list[str]:
        """What is not as it should be, in words."""
        found = []
        last = self.commands[-1]
        if last.process.returncode != 0:
            found.append(f"the last one left with {last.process.returncode}: {_end(last.log)}")
        if self.endless:
            found.append("schedulers waited without end")
        faulty = [each for each in self.commands if "Traceback" in each.log.read_text(errors="replace")]
        found += [f"{command.what} shows a traceback: {_end(command.log, 12)}" for command in faulty]
        if len(self.keys()) != len(set(self.keys())):
            found.append("a cell is there twice")
        if self.table() != expected:
            found.append(f"its table is another, with {len(self.keys())} cells")
        lying = [path for path in self.folder.rglob("*") if path.name.startswith(".") or path.parent.name == "claims"]
        lying += [path for path in self.temporary.rglob("*") if path.name != f"trtprof-fleet-{os.getuid()}"]
        found += [f"left lying: {path}" for path in lying]
        found += [f"left running: {pid}" for pid in self.processes()]
        return found

    def table(self) -> bytes:
        """What lasts of the rows."""
        import pyarrow as pa

        from trtprof.base.fleet_table import lasting
        from trtprof.flows.fleet.store import Store

        try:
            table = lasting(Store(str(self.folder)).table()).combine_chunks()
        except Exception as error:  # it is another table then
            return str(error).encode()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return sink.getvalue()

    def keys(self) -> list[str]:
        from trtprof.flows.fleet.store import Store

        found: list[str] = Store(str(self.folder)).table(columns=["key"])["key"].to_pylist()
        return found

    def processes(self, but: str = "") -> list[int]:
        """Those that live and were started for this trial."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ours = f"TMPDIR={self.temporary}\0".encode() in (path / "environ").read_bytes()
                if ours and (not but or but in (path / "cmdline").read_text()):
                    found.append(int(path.name))
        return found

    def clear(self) -> None:
        for pid in self.processes():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.aside, ignore_errors=True)

    # --- faults -----------------------------------------------------------------------------

    def signalled(self, number: signal.Signals) -> bool:
        living = self.living()
        if living:
            self.random.choice(living).process.send_signal(number)
        return bool(living)

    def stopped(self) -> bool:
        living = self.living()
        if not living:
            return False
        process = self.random.choice(living).process
        process.send_signal(signal.SIGSTOP)
        self.later(LEASE_S * self.random.uniform(0.2, 2.5), lambda: process.send_signal(signal.SIGCONT))
        return True

    def worker_killed(self, number: signal.Signals = signal.SIGKILL) -> bool:
        workers = self.processes("local_worker")
        if workers:
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(workers), number)
        return bool(workers)

    def _file(self, *folders: str) -> Path | None:
        found = [path for each in folders for path in sorted(self.folder.glob(each)) if path.is_file()]
        return self.random.choice(found) if found else None

    def damaged(self, how: str, *where: str) -> bool:
        path = self._file(*where)
        if path is None:
            return False
        with suppress(OSError):
            content = bytearray(path.read_bytes())
            if how == "delete":
                path.unlink()
            elif how == "truncate":
                os.truncate(path, self.random.randrange(len(content) or 1))
            elif content:
                for _ in range(self.random.choice((1, 8))):
                    content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
                path.write_bytes(content)
        return True

    def full(self) -> bool:
        filler = self.disk / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for size in (1 << 16, 1 << 10, 1):
                    with suppress(OSError):
                        while True:
                            file.write(bytes(size))
        except OSError:  # it is only read for now
            return False

        def room() -> None:
            self._writable()
            filler.unlink(missing_ok=True)

        self.later(self.random.uniform(0.2, 1.5), room)
        return True

    def _writable(self) -> None:
        _call("mount", "-o", "remount,rw", str(self.disk))

    def read_only(self) -> bool:
        until = time.monotonic() + 1
        while failed := _call("mount", "-o", "remount,ro", str(self.disk)):
            # A file is being written.
            if time.monotonic() > until:
                break
            time.sleep(0.005)
        self.later(self.random.uniform(0.1, 1.0), self._writable)
        return not failed

    def clock(self) -> bool:
        hours = self.random.choice((-48, -1, 1, 48))
        now = time.time() + hours * 3600
        paths = [path for path in self.folder.rglob("*") if self.random.random() < 0.5]
        for path in paths:
            with suppress(OSError):
                os.utime(path, (now, now))
        return bool(paths)

    def claims_gone(self) -> bool:
        if self.random.random() < 0.3 and (self.folder / "claims").is_dir():
            shutil.rmtree(self.folder / "claims", ignore_errors=True)
            return True
        return self.damaged("delete", "claims/*")

    def folder_gone(self) -> bool:
        gone = self.folder.is_dir()
        shutil.rmtree(self.folder, ignore_errors=True)
        return gone

    def temporary_gone(self) -> bool:
        found = [*self.temporary.glob("*")]
        for path in found:
            shutil.rmtree(path, ignore_errors=True)
        return bool(found)

    def read(self) -> bool:
        what = self.random.choice(("status", "report"))
        self.start("fleet", what, str(self.folder))
        return True


def _end(log: Path, lines: int = 4) -> str:
    return "\n    ".join(log.read_text(errors="replace").splitlines()[-lines:])


KINDS: dict[str, Callable[[Trial], bool]] = {
    "SIGKILL": lambda trial: trial.signalled(signal.SIGKILL),
    "SIGINT": lambda trial: trial.signalled(signal.SIGINT),
    "SIGTERM": lambda trial: trial.signalled(signal.SIGTERM),
    "SIGHUP": lambda trial: trial.signalled(signal.SIGHUP),
    "SIGSTOP, SIGCONT": Trial.stopped,
    "worker killed": Trial.worker_killed,
    "part truncated": lambda trial: trial.damaged("truncate", "parts/[!.]*"),
    "part corrupted": lambda trial: trial.damaged("corrupt", "parts/[!.]*"),
    "part deleted": lambda trial: trial.damaged("delete", "parts/[!.]*"),
    "table truncated": lambda trial: trial.damaged("truncate", "table/[!.]*"),
    "table corrupted": lambda trial: trial.damaged("corrupt", "table/[!.]*"),
    "table deleted": lambda trial: trial.damaged("delete", "table/[!.]*"),
    "request damaged": lambda trial: trial.damaged("truncate", "fleet.json", "cells-*"),
    "disk full": Trial.full,
    "disk read-only": Trial.read_only,
    "clock moved": Trial.clock,
    "claims deleted": Trial.claims_gone,
    "folder deleted": Trial.folder_gone,
    "TMPDIR emptied": Trial.temporary_gone,
    "read meanwhile": Trial.read,
}
ON_DISK = ("disk full", "disk read-only")


if __name__ == "__main__":
    sys.exit(main())
