"""What the rules find in runs and in engines that others measured, and what they claim of the time that was lost.

    python scripts/bench/findings.py FOLDER [FOLDER ...] [--gpu a100-pcie-80gb]

A FOLDER is a run folder, or it holds files of trtexec as TREx keeps them: ``NAME.graph.json`` with
``NAME.profile.json``, and ``NAME.timing.json`` where there is one; these were measured on ``--gpu``. Printed is, for
each, what its layers took above the roofline (the launch floor included, since fewer launches win it back) and what
lies between and around them, what findings claim of that, every finding, and how the layers fare that a hand-written
kernel was weighed for.

Exit code 1 where a layer is claimed twice, or more is claimed than was lost.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from trtprof.base import run_folder
from trtprof.base.errors import TrtprofError
from trtprof.base.records import LayerResult, Run
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose.ledger import OUTSIDE
from trtprof.flows.analyze import Files, analyze
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware.gpus import find

GRAPH = ".graph.json"


def runs(folder: Path, gpu: str) -> Iterator[tuple[str, Run]]:
    """The results that a folder holds, with their names."""
    if (folder / run_folder.REPORT).is_file():
        yield folder.name, run_folder.RunFolder(folder).report()
    for graph in sorted(folder.glob(f"*{GRAPH}")):
        stem = graph.name.removesuffix(GRAPH)
        profile, times = (graph.with_name(f"{stem}.{role}.json") for role in ("profile", "timing"))
        if not profile.is_file():
            print(f"{stem}\n  no profile: nothing was measured")
            continue
        files = Files(layers=graph, profile=profile, times=times if times.is_file() else None)
        run = analyze(files, [find(gpu)], Settings())
        if isinstance(run, Run):
            yield stem, run


def above_roof(layer: LayerResult) -> int:
    """What a layer took above the roofline, in ns; all of it where none of it is the model's work."""
    if layer.role != "compute" or layer.constant or layer.attainable_ns is None:
        return layer.measured_ns
    roofline = max((ns for name, ns in layer.terms.items() if name != "launch"), default=0)
    return max(layer.measured_ns - roofline, 0)


def show(name: str, run: Run) -> bool:
    """One result; returns whether its claims are sound."""
    inside = sum(map(above_roof, run.layers))
    outside = sum(max(row.ns, 0) for row in run.ledger if row.cause in OUTSIDE)
    claimed = sum(finding.lost_ns for finding in run.findings)
    share = format_percent(claimed / (inside + outside)) if inside + outside else "-"
    print(
        f"{name}\n  lost in layers {format_ns(inside)}, outside {format_ns(outside)}; "
        f"claimed {format_ns(claimed)}, {share} of it"
    )
    for finding in run.findings:
        print(f"  {finding.code} {format_ns(finding.lost_ns):>9}  {finding.where}")
    verdicts = Counter(candidate.verdict for candidate in run.candidates)
    told = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items())) or "none weighed"
    print(f"  custom kernels: {told}")
    owners = Counter(name for finding in run.findings for name in finding.layers if finding.kind != "trust")
    twice = [name for name, count in owners.items() if count > 1]
    sound = not twice and claimed <= inside + outside
    if not sound:
        print(f"  WRONG: claimed twice: {twice}; claimed {claimed} of {inside + outside} ns")
    return sound


def main() -> int:
    """Every result of every folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--gpu", default="a100-pcie-80gb")
    given = parser.parse_args()
    sound = True
    for folder in given.folders:
        try:
            for name, run in runs(folder, given.gpu):
                sound &= show(name, run)
        except TrtprofError as error:
            print(f"{folder}\n  {error}")
            sound = False
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
