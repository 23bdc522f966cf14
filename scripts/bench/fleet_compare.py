#!/usr/bin/env python
"""How long it takes to compare two fleets of many made-up cells, and how much memory: reading, comparing, writing.

    python scripts/bench/fleet_compare.py --cells 100000
    python scripts/bench/fleet_compare.py --cells 100000 --formats text,html,json

One cell in twenty of the later fleet is 10 % slower than in the earlier one. Folders are written as a scheduler leaves
them when all parts are folded.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fakes import fleets
from trtprof.base import fleet_table
from trtprof.base.records import SCHEMA_VERSION, FleetRow
from trtprof.flows.fleet import compared
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.store import Store, _digest, _parquet
from trtprof.report import encode

AT_ONCE = 4096
SIZES = 5
GATES = ("latency>3%", "geomean>1%", "cost>5%", "bound>0%", "failed>0", "vanished>0")


def made(folder: Path, cells: int, slower: float, kernels: int) -> None:
    """A fleet that is done; every twentieth cell is so many times as slow."""
    models = -(-cells // (SIZES * len(fleets.TARGETS)))
    asked = list(itertools.islice(fleets.cells(models, SIZES), cells))
    names = tuple(AskedModel(name=f"model_{at:04}") for at in range(models))
    targets = tuple(AskedTarget(name=name, verb=verb, price_per_hour=2.0) for name, verb, _ in fleets.TARGETS)
    Store(str(folder)).keep(
        Asked(schema_version=SCHEMA_VERSION, name=folder.name, models=names, targets=targets), asked
    )
    (folder / "table").mkdir(exist_ok=True)
    for at in range(0, len(asked), AT_ONCE):
        rows = (whole(fleets.row(cell, slower=slower if int(cell.key, 16) % 20 == 0 else 1.0), kernels)
                for cell in asked[at : at + AT_ONCE])  # fmt: skip
        content = _parquet(fleet_table.table_of(rows), compression="zstd")
        (folder / "table" / f"{_digest(content)}.parquet").write_bytes(content)


def whole(row: FleetRow, kernels: int) -> FleetRow:
    """A row with so many kernels, no two of a cell at the same shapes."""
    if not row.kernels:
        return row
    several = itertools.islice(itertools.cycle(row.kernels), kernels)
    shapes = (msgspec.structs.replace(one, shapes=f"{row.model}:{at}x{one.shapes}") for at, one in enumerate(several))
    return msgspec.structs.replace(row, kernels=tuple(shapes))


def measure(folder: Path, formats: list[str]) -> None:
    """Compare both folders, in this process."""

    def told(what: str, since: float) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        print(f"  {what:<10} {time.perf_counter() - since:7.2f} s   peak {peak:6.0f} MB", flush=True)

    start = time.perf_counter()
    found = compared.compare(str(folder / "before"), str(folder / "after"), GATES, print)
    told("compared", start)
    for name in formats:
        start = time.perf_counter()
        size = len(encode(found, name))
        told(f"{name} {size / 1e6:.1f} MB", start)
    print(f"  {found.verdict}")


def main() -> None:
    """Make both fleets, and measure each format in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--kernels", type=int, default=fleet_table.MOST_KERNELS, help="of each cell")
    parser.add_argument("--formats", default="text,html,json,csv,parquet")
    parser.add_argument("--in", dest="folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        measure(Path(options.folder), options.formats.split(","))
        return
    with tempfile.TemporaryDirectory() as place:
        for name, slower in (("before", 1.0), ("after", 1.1)):
            folder = Path(place) / name
            folder.mkdir()
            made(folder, options.cells, slower, options.kernels)
        for name in options.formats.split(","):
            print(f"{options.cells:,} cells a side, {name}")
            arguments = [sys.executable, __file__, "--in", place, "--formats", name]
            subprocess.run(arguments, check=True)


if __name__ == "__main__":
    main()
