"""Made-up cells through all that handles those of a fleet: part of `fleet.py`.

    python scripts/bench/fleet.py synthetic [--cells 100000] [--parts N] [--folder DIR]

``synthetic`` takes a quarter, a half and all of ``--cells`` made-up cells (`tests.fakes.fleets`: models x 4 sizes x 5
targets, a twentieth of them failed) through each step, every step in a process of its own, as a user would:

* plan: what is asked is written, and what is left of it found (of a fleet that is not begun: all);
* store: a part a cell, written by 20, folded whenever there are 1,000; the rows are made up, which is not timed.
  With ``--parts`` only so many are, and the rest is written as files of the table, as folding leaves them; the time
  is then of as many cells as there are parts;
* resume: what is asked is read, and which cells are done, by a process that knows nothing;
* one at a time: what `Store.finished` says of 20 cells, of that process, on average;
* table: every column of every row, sorted; columns: without those of records;
* frame: `trtprof.fleet`;
* report: the document of ``fleet report``, and its page.

Seconds, and the most memory that the process had. Exit code 1 where planning or resuming all cells takes more than
10 s, a step but storing more than 1 GB, or the time of a cell grows by more than a half from a quarter to all.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tests.fakes import fleets
from trtprof.base import fleet_table
from trtprof.base.records import SCHEMA_VERSION, FleetCell
from trtprof.flows.fleet import store as stores
from trtprof.flows.fleet import summary
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.store import Store
from trtprof.report import encode

SECONDS, BYTES, GROWTH = 10.0, 10**9, 1.5
SIZES, AT_ONCE, FOLD = 4, 20, 1000
TARGETS = fleets.TARGETS[:5]


FLEET = str(Path(__file__).with_name("fleet.py"))


class Clock:
    """Seconds of what is timed of a step."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began


def check(holds: bool) -> None:
    if not holds:
        raise SystemExit("a step came to something else than it should")


def cells_of(count: int) -> Iterator[FleetCell]:
    return islice(fleets.cells(-(-count // (SIZES * len(TARGETS))), SIZES, TARGETS), count)


def asked_of(cells: Sequence[FleetCell]) -> Asked:
    models = dict.fromkeys(cell.model for cell in cells)
    targets = {cell.target: cell for cell in cells}
    return Asked(
        schema_version=SCHEMA_VERSION,
        name="made up",
        currency="EUR",
        models=tuple(AskedModel(name=name, requests_per_s=10.0, latency_limit_ns=10**7) for name in models),
        targets=tuple(
            AskedTarget(name=name, verb=cell.verb, gpu=cell.gpu, resource=cell.resource, price_per_hour=0.5 + at)
            for at, (name, cell) in enumerate(targets.items())
        ),
    )


def plan(place: str, count: int, clock: Clock, _parts: int) -> None:
    cells = list(cells_of(count))
    with clock:
        store = Store(place)
        store.keep(asked_of(cells), cells)
        state = store.state()
        left = [cell for cell in cells if cell.key not in state.done and cell.key not in state.failed]
    check(len(left) == count)


def store(place: str, count: int, clock: Clock, parts: int) -> None:
    with clock:
        found = Store(place, f"bench-{os.getpid()}")
    cells = cells_of(count)
    while count > parts:
        some = list(islice(cells, min(FOLD, count - parts)))
        content = stores._parquet(fleet_table.table_of(map(fleets.row, some)), "zstd")
        found._files.write(f"table/{count:032}.parquet", content)
        count -= len(some)
    for _ in range(0, count, AT_ONCE):
        some = list(islice(cells, AT_ONCE))
        groups = {cell.group for cell in some}
        rows = [fleets.row(cell) for cell in some]
        with clock:
            found.claim(groups)
            found.put(rows)
            found.release(groups)
            found.fold(FOLD)
    with clock:
        found.close()


def resume(place: str, count: int, clock: Clock, _parts: int) -> None:
    with clock:
        store = Store(place)
        _, cells = store.asked()
        state = store.state()
        left = [cell for cell in cells if cell.key not in state.done and cell.key not in state.failed]
    check(left == [])
    check(len(cells) == count)


def one_at_a_time(place: str, count: int, clock: Clock, _parts: int) -> None:
    found, keys = Store(place), [cell.key for cell in cells_of(count)]
    found.finished(keys[:AT_ONCE])
    times = 50
    with clock:
        for at in range(times):
            state = found.finished(keys[at * AT_ONCE : (at + 1) * AT_ONCE])
    check(len(state.done | state.failed) == AT_ONCE)
    clock.seconds /= times


def table(place: str, count: int, clock: Clock, _parts: int) -> None:
    with clock:
        found = Store(place).table()
    check(found.num_rows == count)


def columns(place: str, count: int, clock: Clock, _parts: int) -> None:
    with clock:
        found = Store(place).table(columns=["model", "target", "batch", "bound_ns", "expected_ns", "latency_ns"])
    check(found.num_rows == count)


def frame(place: str, count: int, clock: Clock, _parts: int) -> None:
    import trtprof

    with clock:
        found = trtprof.fleet(place)
    check(len(found) == count)


def report(place: str, count: int, clock: Clock, _parts: int) -> None:
    with clock:
        found = summary.report(place)
        text = encode(found, "html")
    check(found.cells == count)
    check(len(text) > 0)


STEPS: dict[str, Callable[[str, int, Clock, int], None]] = {
    "plan": plan, "store": store, "resume": resume, "one at a time": one_at_a_time, "table": table,
    "columns": columns, "frame": frame, "report": report,
}  # fmt: skip


def step(asked: argparse.Namespace) -> int:
    clock = Clock()
    STEPS[asked.name](asked.place, asked.cells, clock, asked.parts)
    print(json.dumps([clock.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
    return 0


def synthetic(asked: argparse.Namespace) -> int:
    most, parts = asked.cells, asked.parts
    counts = [most // 4, most // 2, most]
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in STEPS}
    disk = []
    for count in counts:
        with tempfile.TemporaryDirectory(dir=asked.folder or None) as scratch:
            place = f"{scratch}/fleet"
            for name in STEPS:
                command = [sys.executable, FLEET, "step", name, place, str(count), str(parts)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[name].append(tuple(json.loads(done.stdout)))
            disk.append(sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file()))
            shutil.rmtree(place)
    print(f"{'':14}" + "".join(f"{f'{count:,} cells':>24}" for count in counts))
    for name, each in found.items():
        print(f"{name:14}" + "".join(f"{f'{seconds:.4f} s {used / 1e6:6.0f} MB':>24}" for seconds, used in each))
    print(f"{'on disk':14}" + "".join(f"{f'{size / 1e6:.1f} MB':>24}" for size in disk))
    wrong = [
        f"{name} takes {found[name][-1][0]:.1f} s, not {SECONDS:.0f}"
        for name in ("plan", "resume")
        if found[name][-1][0] > SECONDS
    ]
    for name, each in found.items():
        if each[-1][1] > BYTES:
            wrong.append(f"{name} takes {each[-1][1] / 1e6:.0f} MB, not {BYTES / 1e6:.0f}")
        first, last = (min(count, parts) if name == "store" else count for count in (counts[0], counts[-1]))
        growth = each[-1][0] / last / (each[0][0] / first)
        if name != "one at a time" and growth > GROWTH:
            wrong.append(f"a cell of {name} takes {growth:.2f} times as long in {counts[-1]:,} as in {counts[0]:,}")
    print("\n".join(wrong) or "linear, and within the goals")
    return int(bool(wrong))


def add(commands: Any) -> None:
    """Add these commands to those of `fleet.py`."""
    command = commands.add_parser("synthetic")
    command.add_argument("--cells", type=int, default=100_000)
    command.add_argument("--parts", type=int, default=sys.maxsize)
    command.add_argument("--folder", default="")
    command.set_defaults(run=synthetic)
    command = commands.add_parser("step")
    command.add_argument("name", choices=list(STEPS))
    command.add_argument("place")
    command.add_argument("cells", type=int)
    command.add_argument("parts", type=int)
    command.set_defaults(run=step)
