"""A scheduler in a process of its own that does nothing but claim groups of a fleet, and tells what it got.

    python -m tests.fakes.fleet_claimer hammer PLACE OWNER LEASE_S ROUNDS
    python -m tests.fakes.fleet_claimer hold PLACE OWNER LEASE_S GROUP

``hammer`` takes groups again and again, and marks that it is in one by a file that only one may make; it prints how
often it got one, and ``overlap`` where another was in. ``hold`` takes one group and prints ``held``; then for each line
that it reads it puts a row for that group and prints what came of it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from random import Random

import msgspec

from tests.fakes import fleets
from trtprof.flows.fleet.store import Store

GROUPS = ("g0", "g1", "g2")


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def hammer(store: Store, folder: Path, owner: str, rounds: int) -> None:
    random, got = Random(owner), 0
    marks = folder.parent / "marks"
    for _ in range(rounds):
        groups = random.sample(GROUPS, 2)
        for group in sorted(store.claim(groups)):
            got += 1
            try:
                os.close(os.open(marks / group, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                tell("overlap", group)
                return
            time.sleep(random.random() * 0.002)
            (marks / group).unlink()
        store.release(groups)
        time.sleep(random.random() * 0.004)
    tell(got)


def hold(store: Store, group: str) -> None:
    tell("held" if store.claim([group]) else "refused")
    row = msgspec.structs.replace(fleets.row(next(fleets.cells()), fails=0.0), group=group, worker="the child")
    for _ in sys.stdin:
        tell("left out" if store.put([row]) else "put")


def main() -> None:
    what, place, owner, lease, rest = sys.argv[1:]
    store = Store(place, owner, float(lease))
    if what == "hammer":
        hammer(store, Path(place), owner, int(rest))
    else:
        hold(store, rest)


if __name__ == "__main__":
    main()
