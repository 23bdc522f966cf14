"""How long every report format takes to render, and how large it is.

    python scripts/bench/report_formats.py [--layers 10000] [--repeats 3] [--format NAME ...] [RUN ...]

Without a RUN a run of ``--layers`` layers is made up (the one of the tests of reporters: a kernel and a node each),
with a timeline, a graph and a finding over all of its layers. A RUN is a run folder, or its report.json. All formats
of the registry are rendered, those of other distributions included; of a format that holds one table, also all tables.

``first`` is the first time in this process, with the imports that the format needs; ``best`` the best of
``--repeats`` more, and ``cpu`` the least that one of them took of a core. Exit code 1 where the best one is over 3 s.
"""

from __future__ import annotations

import argparse
import gzip
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from trtprof import report
from trtprof.base import units
from trtprof.base.records import Finding, Run, RunGraph
from trtprof.report.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.fakes.report_factory import many  # noqa: E402
from tests.fakes.timeline_factory import timed  # noqa: E402

TARGET_SECONDS = 3.0


def made_up(layers: int) -> Run:
    run = timed(many(layers))
    names = tuple(layer.name for layer in run.layers)
    steps = range(len(names) - 1)
    everywhere = Finding(
        code="RL101",
        title="memory-bound op far under bandwidth",
        severity="warning",
        where=f"{len(names):,} layers",
        evidence="made up",
        lost_ns=sum(max(layer.lost_ns or 0, 0) for layer in run.layers),
        confidence=0.5,
        try_="fuse it with its neighbours",
        layers=names,
    )
    graph = RunGraph(
        layers=names,
        layer_from=tuple(steps),
        layer_to=tuple(step + 1 for step in steps),
        tensor=tuple(f"tensor_{step}" for step in steps),
        nbytes=(4096,) * len(steps),
        node_from=tuple(steps),
        node_to=tuple(step + 1 for step in steps),
    )
    return msgspec.structs.replace(run, findings=(everywhere,), graph=graph)


def read(path: Path) -> Run:
    file = path / "report.json" if path.is_dir() else path
    return msgspec.json.decode(file.read_bytes(), type=Run)


def ways(found: report.Reporter) -> list[tuple[str, Callable[[Run], bytes]]]:
    """What to time of a format: itself, and all its tables."""
    default = report.ReportOptions()
    listed: list[tuple[str, Callable[[Run], bytes]]] = [(found.name, lambda run: found.encode(run, default))]
    if found.tables:
        every = [report.ReportOptions(table=table) for table in TABLES]
        name = f"{found.name}, {len(every)} tables"
        listed.append((name, lambda run: b"".join(found.encode(run, one) for one in every)))
    return listed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--layers", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", action="append", choices=report.REPORTERS.keys())
    options = parser.parse_args()
    runs = [(str(path), read(path)) for path in options.runs]
    runs = runs or [(f"made up, {options.layers:,} layers", made_up(options.layers))]
    slow = 0
    for name, run in runs:
        events = len(run.timeline.start_ns) if run.timeline is not None else 0
        print(f"{name}: {len(run.layers):,} layers, {events:,} events; Python {platform.python_version()}")
        print(f"{'format':24} {'first':>8} {'best':>8} {'cpu':>8} {'size':>10} {'gzip':>10}")
        for format_name in options.format or report.REPORTERS.keys():
            for label, way in ways(report.get(format_name)):
                times, busy = [], []
                for _ in range(options.repeats + 1):
                    began, before = time.perf_counter(), time.process_time()
                    made = way(run)
                    times.append(time.perf_counter() - began)
                    busy.append(time.process_time() - before)
                best = min(times[1:] or times)
                late = best > TARGET_SECONDS
                slow += late
                size, packed = len(made), len(gzip.compress(made, 6))
                print(
                    f"{label:24} {times[0]:6.2f} s {best:6.2f} s {min(busy):6.2f} s {units.format_bytes(size):>10} "
                    f"{units.format_bytes(packed):>10}{f'  over {TARGET_SECONDS:g} s' if late else ''}",
                    flush=True,
                )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
