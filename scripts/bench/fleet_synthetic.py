"""How planning, storing, reading and reporting a fleet grow with its cells.

    python scripts/bench/fleet_synthetic.py [--cells 100000] [--folder FOLDER]

Takes a quarter, a half and all of ``--cells`` made-up cells (`tests.fakes.fleets`: models x 4 sizes x 5 targets, a
twentieth of them failed) through each step, every step in a process of its own: plan (what is asked is written, and
what is left is found), store (parts of 20 cells, folded at 1,000), resume (by a process that knows nothing), table,
frame (`trtprof.fleet`), report (the document and its page).

Exit code 1 where planning or resuming all cells takes more than 10 s, a step more than 1 GB, or the time of a cell
grows by more than a half from a quarter to all.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes import fleets
from trtprof.base.records import SCHEMA_VERSION, FleetCell
from trtprof.flows.fleet import summary
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.store import Store
from trtprof.report import encode

SECONDS, BYTES, GROWTH = 10.0, 10**9, 1.5
SIZES, AT_ONCE, FOLD = 4, 20, 1000
TARGETS = fleets.TARGETS[:5]


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


def plan(place: str, count: int, clock: Clock) -> None:
    cells = list(cells_of(count))
    with clock:
        store = Store(place)
        store.keep(asked_of(cells), cells)
        state = store.state()
        left = [cell for cell in cells if cell.key not in state.done and cell.key not in state.failed]
    check(len(left) == count)


def store(place: str, count: int, clock: Clock) -> None:
    with clock:
        found = Store(place, f"bench-{os.getpid()}")
    cells = cells_of(count)
    for _ in range(0, count, AT_ONCE):
        some = list(islice(cells, AT_ONCE))
        groups, rows = {cell.group for cell in some}, [fleets.row(cell) for cell in some]
        with clock:
            found.claim(groups)
            found.put(rows)
            found.release(groups)
            found.fold(FOLD)
    with clock:
        found.close()


def resume(place: str, count: int, clock: Clock) -> None:
    with clock:
        store = Store(place)
        _, cells = store.asked()
        state = store.state()
        left = [cell for cell in cells if cell.key not in state.done and cell.key not in state.failed]
    check(left == [])
    check(len(cells) == count)


def table(place: str, count: int, clock: Clock) -> None:
    with clock:
        found = Store(place).table()
    check(found.num_rows == count)


def frame(place: str, count: int, clock: Clock) -> None:
    import trtprof

    with clock:
        found = trtprof.fleet(place)
    check(len(found) == count)


def report(place: str, count: int, clock: Clock) -> None:
    with clock:
        found = summary.report(place)
        text = encode(found, "html")
    check(found.cells == count)
    check(len(text) > 0)


STEPS: dict[str, Callable[[str, int, Clock], None]] = {
    "plan": plan, "store": store, "resume": resume, "table": table, "frame": frame, "report": report,
}  # fmt: skip


def in_child(name: str, place: str, count: int) -> tuple[float, int]:
    """Seconds of a step and the most memory of its process."""
    command = [sys.executable, __file__, "--step", name, "--place", place, "--cells", str(count)]
    seconds, used = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return seconds, used


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--folder", help="where the fleets are written")
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--place", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        clock = Clock()
        STEPS[given.step](given.place, given.cells, clock)
        print(json.dumps([clock.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
        return 0
    counts = [given.cells // 4, given.cells // 2, given.cells]
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in STEPS}
    for count in counts:
        with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
            for name in STEPS:
                found[name].append(in_child(name, f"{scratch}/fleet", count))
    wrong = []
    print(f"{'':14}" + "".join(f"{f'{count:,} cells':>24}" for count in counts))
    for name, each in found.items():
        print(f"{name:14}" + "".join(f"{f'{seconds:.4f} s {used / 1e6:6.0f} MB':>24}" for seconds, used in each))
        (first, _), (last, used) = each[0], each[-1]
        if name in ("plan", "resume") and last > SECONDS:
            wrong.append(f"{name} takes {last:.1f} s, not {SECONDS:.0f}")
        if used > BYTES:
            wrong.append(f"{name} takes {used / 1e6:.0f} MB, not {BYTES / 1e6:.0f}")
        growth = last / counts[-1] / (first / counts[0])
        if growth > GROWTH:
            wrong.append(f"a cell of {name} takes {growth:.2f} times as long in {counts[-1]:,} as in {counts[0]:,}")
    print("\n".join(wrong) or "linear, and within the goals")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
