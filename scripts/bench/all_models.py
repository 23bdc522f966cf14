"""Run every model at hand and print what each run proves: coverage, ledger, unsupported ops.

    python scripts/bench/all_models.py [--duration 1] [--captures ../shared/captures/onnx] [--keep FOLDER]

The models are those of ``sample_models``, the nine ``light_*`` of the onnx package, and, where the
folder is at hand, the valid ones under ``--captures``. Exit code 1 if a run fails a contract.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import onnx

from trtprof.base.errors import TrtprofError
from trtprof.base.units import format_ns
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.source.request import ModelRequest

ROOT = Path(__file__).resolve().parents[2]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def models(captures: Path) -> list[Path]:
    found = sorted((ROOT / "sample_models").glob("*.onnx")) + sorted(LIGHT.glob("light_*.onnx"))
    return found + [path for path in sorted(captures.glob("*.onnx")) if "bad_graph" not in path.name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duration", type=float, default=1.0, help="seconds of clean measurement a model")
    parser.add_argument("--captures", type=Path, default=ROOT.parent / "shared" / "captures" / "onnx")
    parser.add_argument("--keep", type=Path, help="folder for the run folders; a temporary one by default")
    options = parser.parse_args()
    failures = 0
    print(f"{'model':<28}{'latency':>9}{'profiled':>9}{'roof':>7}{'exact':>8}{'infer':>7}{'unattr':>7}"
          f"{'ledger':>8}{'unexpl':>8}{'unsup':>6}{'lost':>5}  findings")  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        for path in models(options.captures):
            folder = (options.keep or Path(scratch)) / path.stem
            try:
                run = execute(
                    RunOptions(model=ModelRequest.of(path), duration_s=options.duration, output=str(folder), force=True)
                ).report()
            except TrtprofError as error:
                failures += 1
                print(f"{path.stem:<28} failed: {error}")
                continue
            median = run.latency.median_ns
            closes = sum(row.ns for row in run.ledger) - median
            rest = sum(row.ns for row in run.ledger if row.cause == "unexplained")
            allowed = sum(layer.attainable_ns or 0 for layer in run.layers)
            lost_nodes = sum(node.fate == "lost" for node in run.nodes)
            cover = run.coverage
            failures += cover.exact + cover.inferred < 0.98 or closes != 0 or bool(run.unsupported) or lost_nodes > 0
            codes: dict[str, int] = {}
            for finding in run.findings:
                codes[finding.code] = codes.get(finding.code, 0) + 1
            print(
                f"{path.stem[:27]:<28}{format_ns(median):>9}{format_ns(run.profiled.median_ns):>9}"
                f"{allowed / median:>7.0%}{cover.exact:>8.2%}{cover.inferred:>7.2%}{cover.unattributed:>7.2%}"
                f"{closes:>5} ns{rest / median:>8.1%}{len(run.unsupported):>6}{lost_nodes:>5}  "
                + " ".join(f"{code}x{count}" for code, count in sorted(codes.items()))
            )
    print("all contracts hold" if not failures else f"{failures} models fail a contract")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
