"""What the rules find in engines that others measured, and what they claim of the time that was lost.

    python scripts/bench/findings.py FOLDER [--gpu a100-pcie-80gb]

FOLDER holds files of trtexec as TREx keeps them: ``NAME.graph.json`` with ``NAME.profile.json``, and
``NAME.timing.json`` where there is one. Printed is, for each, what its layers took above the roofline (the launch floor
included, since fewer launches win it back), what findings claim of that, every finding, and how the layers fare that a
hand-written kernel was weighed for.

Exit code 1 where a layer is claimed twice, or more is claimed than lies above the roofline.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from profiler.analyze_files import Files, analyze
from profiler.diagnose.ledger import CEILING, IDEAL
from profiler.errors import TrtprofError
from profiler.hardware.gpus import find
from profiler.on_gpus import Settings
from profiler.records import Run
from profiler.units import format_ns, format_percent

GRAPH = ".graph.json"


def show(graph: Path, gpu: str) -> bool:
    """One engine; returns whether its claims are sound."""
    stem = graph.name.removesuffix(GRAPH)
    beside = {role: graph.with_name(f"{stem}.{role}.json") for role in ("profile", "timing")}
    files = Files(
        layers=graph,
        profile=beside["profile"] if beside["profile"].is_file() else None,
        times=beside["timing"] if beside["timing"].is_file() else None,
    )
    print(stem)
    if files.profile is None:
        print("  no profile: nothing was measured")
        return True
    run = analyze(files, [find(gpu)], Settings())
    if not isinstance(run, Run):
        raise TypeError("what was measured is a run")
    rows = {row.cause: row.ns for row in run.ledger}
    claimed = sum(finding.lost_ns for finding in run.findings)
    layers = sum(layer.measured_ns for layer in run.layers)
    lost = layers - rows[IDEAL] - rows.get(CEILING, 0)
    print(
        f"  layers {format_ns(layers)}, above the roofline {format_ns(lost)}, claimed {format_ns(claimed)} "
        f"({format_percent(claimed / lost) if lost else '-'} of it)"
    )
    for finding in run.findings:
        print(f"  {finding.code} {format_ns(finding.lost_ns):>9}  {finding.where}")
    verdicts = Counter(candidate.verdict for candidate in run.candidates)
    print("  plugins: " + (", ".join(f"{count} {name}" for name, count in sorted(verdicts.items())) or "none weighed"))
    owners = Counter(name for finding in run.findings for name in finding.layers)
    twice = [name for name, count in owners.items() if count > 1]
    if twice or claimed > lost:
        print(f"  WRONG: claimed twice: {twice}; claimed {claimed} of {lost} ns")
    return not twice and claimed <= lost


def main() -> int:
    """Every engine of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", default="a100-pcie-80gb")
    given = parser.parse_args()
    sound = True
    for graph in sorted(given.folder.glob(f"*{GRAPH}")):
        try:
            sound &= show(graph, given.gpu)
        except TrtprofError as error:
            print(f"  {error}")
            sound = False
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
