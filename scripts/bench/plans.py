"""Build every model at hand with TensorRT-RTX, and show what its plan is led back to.

    python scripts/bench/plans.py [--gpu rtx-4090] [--captures FOLDER] [--only NAME] [--cached]

Needs TensorRT-RTX (``pip install 'trtprof[rtx]'``), no GPU. The models are those of ``sample_models``, the nine
``light_*`` of the onnx package, transformer encoders of 12 and 48 layers (width 256, sequence 128), and, where the
folder is at hand, the valid ones under ``--captures``; each as in the file and converted to fp16. Dynamic batches
are 1, other dynamic dimensions as `trtprof inspect` takes them.

A row has the layers of the network before the builder fused them, those of the plan, how many of them launch
something, what became of every ONNX node (in a layer, folded, eliminated, lost), the time attainable on the GPU,
the share of it in layers whose nodes are known exactly and by inference, and the time of the build. What
TensorRT-RTX refuses is named with its reason. ``--cached`` takes engines from an earlier build, and their times.

Exit code 1 where a node is lost, or a layer that launches something has no work.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import onnx
from all_models import models

from trtprof.analysis.plan import on_device
from trtprof.base.errors import TrtprofError
from trtprof.base.plan_words import LAUNCHING
from trtprof.base.records import Ceilings
from trtprof.base.units import format_ns
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.build import build
from trtprof.hardware import gpus
from trtprof.source.request import ModelRequest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sample_models"))
import generate

ROOT = Path(__file__).resolve().parents[2]
FATES = ("layer", "folded", "eliminated", "lost")


def encoders(folder: Path) -> list[Path]:
    found = []
    for layers in (12, 48):
        path = folder / f"transformer_{layers}.onnx"
        onnx.save(generate.transformer(layers=layers, width=256), str(path))
        found.append(path)
    return found


def show(path: Path, *, fp16: bool, ceilings: Ceilings, rebuild: bool) -> int:
    """Print the row of a model; the number of nodes lost and of layers without work."""
    label = path.stem + (" fp16" if fp16 else "")
    shapes = ("input_ids:1x128", "attention_mask:1x128") if "transformer" in path.stem else ()
    try:
        made = build(ModelRequest.of(path, shapes), BuildOptions(backend="tensorrt-rtx", fp16=fp16), rebuild=rebuild)
    except TrtprofError as error:
        print(f"{label:<34} refused: " + " ".join(str(error).split())[:300], flush=True)
        return 0
    document = made.priced.document
    found = on_device(made.priced, ceilings)
    facts, summary = document.facts, found.summary
    times = {share.what: share for share in summary.by_match}
    total = sum(share.ns or 0 for share in summary.by_match)
    fates = {fate: sum(one.fate == fate for one in document.fates) for fate in FATES}
    unknown = [
        matched.layer.name
        for matched, work in zip(document.layers, document.works, strict=True)
        if matched.role in LAUNCHING and work is None
    ]
    shares = "".join(
        f"{(times[what].ns or 0) / total if what in times and total else 0.0:>8.1%}" for what in ("exact", "inferred")
    )
    print(
        f"{label:<34}{facts.network_layers:>6}{summary.layers:>6}{summary.launches:>6}{len(document.fates):>7}"
        + "".join(f"{fates[fate]:>7}" for fate in FATES)
        + f"{format_ns(total):>10}{shares}{(facts.build_ns or 0) / 1e9:>8.2f}",
        flush=True,
    )
    for fate in document.fates:
        if fate.fate == "lost":
            print(f"    lost: {fate.node}: {fate.reason}")
    for name in unknown:
        print(f"    without work: {name}")
    return fates["lost"] + len(unknown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="rtx-4090")
    parser.add_argument("--captures", type=Path, default=ROOT.parent / "shared" / "captures" / "onnx")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    parser.add_argument(
        "--cached", action="store_true", help="take engines that are kept, and the times of their build"
    )
    options = parser.parse_args()
    ceilings = gpus.ceilings(gpus.find(options.gpu))
    failures = 0
    print(
        f"{'model':<34}{'net':>6}{'plan':>6}{'runs':>6}{'nodes':>7}"
        + "".join(f"{fate[:6]:>7}" for fate in FATES)
        + f"{'time':>10}{'exact':>8}{'infer':>8}{'build s':>8}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for path in [*models(options.captures), *encoders(Path(scratch))]:
            for fp16 in (False, True):
                if options.only in path.stem:
                    failures += show(path, fp16=fp16, ceilings=ceilings, rebuild=not options.cached)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
