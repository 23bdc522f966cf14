"""What a fleet costs beside what it answers.

    python scripts/bench/fleet.py predicted MODELS... [--models 20] [--gpus 10] [--sizes 5] [--workers 1 2]
    python scripts/bench/fleet.py ray MODELS... [--models 20] [--gpus 10] [--sizes 5] [--nodes 2]
    python scripts/bench/fleet.py synthetic [--cells 100000] [--parts N] [--folder DIR]

``predicted``: models (files, or folders of them) at some batch sizes are predicted for GPUs. First by a plain loop in
one process, a call of `flows.predict.predict` for each model at each size, which answers all GPUs: nothing is stored.
Then by ``trtprof fleet run``, with each number of workers in an empty folder: to the end, and once more where all is
done. All of them start a Python of their own, whose start counts. The overhead is what ``fleet run`` with one worker
takes longer than the loop, over the cells; of CPU time it is told, too, since the scheduler is a process of its own.
Tables of all runs must be equal.

``ray``: the same, by the loop and by ``trtprof fleet run --ray`` on a cluster of this machine, whose nodes have a CPU
and a pretended GPU each (starting it does not count): to the end, twice, since the first time its workers import
trtprof, and once more where all is done. Beside it ``fleet run`` with as many workers as there are nodes.

``synthetic``: made-up cells through planning, storing, resuming and reading, no model at all; see `fleet_synthetic`.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

OVERHEAD_S = 0.010
"""A cell, at most."""
GPUS = (
    "rtx-4090", "l4", "t4", "h100-sxm5", "a100-sxm4-80gb", "a10", "l40s", "rtx-3090", "v100-sxm2-32gb", "h200",
)  # fmt: skip


class Took(NamedTuple):
    """Seconds of a process and its children, on the clock and of cores."""

    wall_s: float
    cpu_s: float


def timed(command: Sequence[str]) -> Took:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


# --- predicted ----------------------------------------------------------------------------------


def predicted(arguments: argparse.Namespace) -> int:
    """Whether the overhead is small enough, and all tables are equal, as an exit code."""
    from trtprof.base.fleet_table import lasting
    from trtprof.flows.fleet.store import Store

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = folder / "fleet.toml"
        manifest.write_text(manifest_of(arguments))
        loop = timed([sys.executable, __file__, "loop", str(manifest)])
        tables, took, again = [], {}, {}
        for workers in arguments.workers:
            place = folder / f"workers-{workers}"
            command = [sys.executable, "-m", "trtprof", "fleet", "run", str(manifest), "-o", str(place), "--quiet"]
            took[workers] = timed([*command, "--workers", str(workers)])
            again[workers] = timed([*command, "--workers", str(workers)])
            tables.append(lasting(Store(str(place)).table()))
        cells = tables[0].num_rows
        failed = tables[0].column("status").to_pylist().count("failed")
    print(f"{platform.node()}: {cells:,} cells, {failed} failed")
    print(f"{'':34}{'s':>8}{'CPU s':>8}{'ms a cell':>11}{'cells an hour':>15}")
    line("a plain loop", loop, cells)
    for workers in arguments.workers:
        line(f"fleet run --workers {workers}", took[workers], cells)
        line("  where all is done", again[workers], cells)
    one = took[arguments.workers[0]]
    wall, cpu = ((of - plain) / cells for of, plain in zip(one, loop, strict=True))
    print(f"overhead a cell, {arguments.workers[0]} worker: {1e3 * wall:.1f} ms, {1e3 * cpu:.1f} ms of CPU")
    equal = all(table.equals(tables[0]) for table in tables)
    print("tables are equal" if equal else "TABLES DIFFER")
    return 0 if equal and not failed and wall <= OVERHEAD_S else 1


# --- ray ------------------------------------------------------------------------------------------


def on_ray(arguments: argparse.Namespace) -> int:
    """Whether tables are equal and nothing failed, as an exit code."""
    from tests.fakes.ray_cluster import cluster
    from trtprof.base.fleet_table import lasting
    from trtprof.flows.fleet.store import Store

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = folder / "fleet.toml"
        manifest.write_text(manifest_of(arguments))
        loop = timed([sys.executable, __file__, "loop", str(manifest)])
        command = [sys.executable, "-m", "trtprof", "fleet", "run", str(manifest), "--quiet", "-o"]
        local = timed([*command, str(folder / "local"), "--workers", str(arguments.nodes)])
        with cluster() as made:
            for at in range(arguments.nodes):
                made.node(gpus=1, resources={f"gpu_{at}": 1})
            made.ready()
            took = [
                timed([*command, str(folder / place), "--ray", made.address]) for place in ("first", "second", "second")
            ]
        places = ("local", "first", "second")
        tables = [lasting(Store(str(folder / place)).table()) for place in places]
    cells = tables[0].num_rows
    failed = tables[0].column("status").to_pylist().count("failed")
    print(f"{platform.node()}: {cells:,} cells, {failed} failed; CPU time is of the driver alone where Ray works")
    print(f"{'':34}{'s':>8}{'CPU s':>8}{'ms a cell':>11}{'cells an hour':>15}")
    line("a plain loop", loop, cells)
    line(f"fleet run --workers {arguments.nodes}", local, cells)
    for what, each in zip(("the first time", "the second time", "where all is done"), took, strict=True):
        line(f"fleet run --ray, {what}", each, cells)
    more = 1e3 * (took[1].wall_s - local.wall_s) / cells
    print(f"overhead a cell over as many processes of this machine: {more:.1f} ms")
    equal = all(table.equals(tables[0]) for table in tables)
    print("tables are equal" if equal else "TABLES DIFFER")
    return 0 if equal and not failed and more <= 1e3 * OVERHEAD_S else 1


def line(what: str, took: Took, cells: int) -> None:
    each, rate = 1e3 * took.wall_s / cells, 3600 * cells / took.wall_s
    print(f"{what:34}{took.wall_s:8.1f}{took.cpu_s:8.1f}{each:11.1f}{rate:15,.0f}")


def manifest_of(arguments: argparse.Namespace) -> str:
    files = sorted(path for given in arguments.given for path in onnx_files(Path(given)))
    chosen = list(with_a_batch(files, arguments.models))
    if len(chosen) < arguments.models:
        sys.exit(f"only {len(chosen)} models of {len(files)} have a batch dimension that is open")
    batches = [2**at for at in range(arguments.sizes)]
    lines = [f"models = [{{ files = {[str(path) for path in chosen]}, batches = {batches} }}]"]
    lines += [f'[[targets]]\ngpu = "{gpu}"' for gpu in GPUS[: arguments.gpus]]
    return "\n".join(lines) + "\n"


def onnx_files(given: Path) -> list[Path]:
    return [given.resolve()] if given.is_file() else [path.resolve() for path in given.rglob("*.onnx")]


def with_a_batch(files: Sequence[Path], most: int) -> Iterator[Path]:
    """Models of different content that take ``--batch``, those with most to compute first: the largest files."""
    from trtprof.base.errors import TrtprofError
    from trtprof.source.request import ModelRequest

    found: set[str] = set()
    for path in sorted(files, key=lambda path: -path.stat().st_size):
        request = ModelRequest.of(path, batch=2)
        try:
            with request.opened() as loaded:
                request.bound(loaded)
        except TrtprofError:
            continue
        if len(found) < most and loaded.sha256 not in found:
            found.add(loaded.sha256)
            yield path


def loop(arguments: argparse.Namespace) -> int:
    """The plain loop, in a process of its own."""
    from trtprof.flows import predict
    from trtprof.flows.fleet.cells import expand, request_of
    from trtprof.flows.fleet.manifest import read
    from trtprof.flows.fleet.options import settings_of
    from trtprof.hardware import gpus

    groups: dict[str, list[str]] = {}
    cells = {}
    for cell in expand(read(Path(arguments.manifest))).cells:
        groups.setdefault(cell.group, []).append(cell.gpu)
        cells[cell.group] = cell
    for group, names in groups.items():
        predict.predict(request_of(cells[group]), [gpus.find(name) for name in names], settings_of(cells[group]))
    return 0


def main() -> int:
    import fleet_synthetic

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("predicted")
    command.add_argument("given", nargs="+", metavar="MODELS")
    command.add_argument("--models", type=int, default=20)
    command.add_argument("--gpus", type=int, default=len(GPUS))
    command.add_argument("--sizes", type=int, default=5)
    command.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    command.set_defaults(run=predicted)
    command = commands.add_parser("ray")
    command.add_argument("given", nargs="+", metavar="MODELS")
    command.add_argument("--models", type=int, default=20)
    command.add_argument("--gpus", type=int, default=len(GPUS))
    command.add_argument("--sizes", type=int, default=5)
    command.add_argument("--nodes", type=int, default=2)
    command.set_defaults(run=on_ray)
    command = commands.add_parser("loop")
    command.add_argument("manifest")
    command.set_defaults(run=loop)
    fleet_synthetic.add(commands)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
