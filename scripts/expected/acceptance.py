"""What the model of expected times errs by on what it never saw.

    python scripts/expected/acceptance.py --neusight scripts/asplos/data/dataset --captures DIR

With ``--neusight`` a model is learned from NeuSight's ``train`` rows of T4, V100 and A100 40 GB alone, as ``train.py``
does it, and meets NeuSight's own ``test`` rows: other shapes, on these GPUs and on GPUs that it never saw. With
``--captures`` the model that is shipped meets layers of TensorRT engines that others timed (layer information and a
profile), on which nothing was tuned.

Errors are means of |expected - measured| / measured, in percent. "bound" is the roofline with every byte from DRAM, at
least a launch; "in band" the share of rows from p10 to p90, which is to be 80.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sources import neusight
from train import Fit, classes, error, fit, inputs
from write import bands

from trtprof.analysis.plan import price_plan
from trtprof.analysis.profile import evidence_of_profile
from trtprof.base.records import EngineFacts, GpuSpec, Work
from trtprof.engine.inspector import read_layer_info, read_profile
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate
from trtprof.expected.model import KNOWN, OUTSIDE, UNKNOWN_GPU, expect
from trtprof.hardware import gpus

SEEN = ("t4", "v100-pcie-32gb", "a100-pcie-40gb")
GROUPS = {"bmm": "bmm", "linear": "linear", "softmax": "softmax", "ln": "LayerNorm"}
"""What NeuSight tells apart; all else is element-wise."""
CAPTURED = {
    "trex__examples__pytorch__resnet__A100__fp16__resnet.onnx.engine": "a100-pcie-80gb",
    "trex__examples__pytorch__resnet__A100__qat__resnet-qat.onnx.engine": "a100-pcie-80gb",
    "trex__tests__inputs__mobilenet.qat.onnx.engine": "titan-rtx",
    "trex__tests__inputs__mobilenet_v2_residuals.qat.onnx.engine": "titan-rtx",
}
"""Engines of NVIDIA's trt-engine-explorer (Apache 2.0) and the GPU that ran them."""
DIMS = ("batch", "m", "n", "k")
FOR_BANDS = 9000
"""Rows of a class from which the width of its bands is learned, drawn at random."""


class Learned(NamedTuple):
    """One class, as `write.write` keeps it."""

    trees: Fit
    bands: dict[str, list[float]]
    range: dict[str, tuple[float, float]]
    gpus: frozenset[str]


class Model:
    """What a table teaches."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.classes: dict[str, Learned] = {}
        for name, some in classes(table):
            x, base = inputs(name, some)
            trees = fit(x, np.log(some["ns"].to_numpy() / base))
            limits = some[list(DIMS)].assign(roof=x["roof"]).agg(["min", "max"])
            ranges = {str(dim): (float(column.iloc[0]), float(column.iloc[1])) for dim, column in limits.items()}
            part = some.sample(min(len(some), FOR_BANDS), random_state=0).reset_index(drop=True)
            found = bands(name, part, *inputs(name, part))
            self.classes[name] = Learned(trees, found, ranges, frozenset(some["gpu"].astype(str)))

    def expect(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with bound, p10, p50 and p90 in ns, and by which band they are."""
        parts = []
        for name, some in classes(table):
            x, base = inputs(name, some)
            learned = self.classes[name]
            sizes = some[list(DIMS)].assign(roof=x["roof"])
            beyond = np.logical_or.reduce([~sizes[dim].between(*limits) for dim, limits in learned.range.items()])
            band = np.where(beyond, OUTSIDE, np.where(some["gpu"].isin(learned.gpus), KNOWN, UNKNOWN_GPU))
            ratios = learned.trees.ratios(x)
            moves = np.array([learned.bands[str(which)] for which in band])
            own = (ratios - ratios[:, [1]])[:, [0, 2]] * (band == KNOWN)[:, None] + moves
            low, high = np.minimum(own[:, 0], 0), np.maximum(own[:, 1], 0)
            middle = np.exp(ratios[:, 1]) * base
            bound = np.exp2(x["roof"] + np.maximum(x["launch / roof"], 0)).to_numpy()
            times = {"bound": bound, "p10": middle * np.exp(low), "p50": middle, "p90": middle * np.exp(high)}
            parts.append(some.assign(band=band, **times))
        return pd.concat(parts, ignore_index=True)


def shown(table: pd.DataFrame, by: list[str]) -> None:
    """Print the errors of bound and expectation by group."""

    def row(some: pd.DataFrame) -> pd.Series:
        ns = some["ns"].to_numpy()
        found: dict[str, Any] = {"rows": len(some), "bound": error(some["bound"].to_numpy(), ns),
                                 "ours": error(some["p50"].to_numpy(), ns),
                                 "median": float(np.median(np.abs(some["p50"] / ns - 1))) * 100}  # fmt: skip
        found["in band"] = float(np.mean((ns >= some["p10"]) & (ns <= some["p90"])) * 100)
        return pd.Series(found)

    rows = [row(some).rename(name) for name, some in table.groupby(by)]
    print(pd.DataFrame(rows).round(1).to_string(), flush=True)


def _marked(table: pd.DataFrame) -> pd.DataFrame:
    first = table["shape"].str.split().str[0]
    return table.assign(
        GPUs=np.where(table["gpu"].isin(SEEN), "seen", "held out"), op=first.map(GROUPS).fillna("element-wise")
    )


# --- NeuSight's kernels and networks ----------------------------------------------------------------


def rows_of(options: argparse.Namespace) -> pd.DataFrame:
    """NeuSight's rows, kept in a file where one is named."""
    if options.rows is not None and options.rows.exists():
        return pd.read_parquet(options.rows)
    left_out: Counter[str] = Counter()
    table = neusight(options.neusight, left_out)
    for why, count in left_out.items():
        print(f"left out, {why}: {count:,}")
    if options.rows is not None:
        table.to_parquet(options.rows)
    return table


def learned(table: pd.DataFrame) -> Model:
    some = table[(table["split"] == "train") & table["gpu"].isin(SEEN) & (table["kind"] != "convolution")]
    return Model(some.reset_index(drop=True))


def kernels(model: Model, table: pd.DataFrame) -> None:
    found = _marked(model.expect(table[table["split"] == "test"].reset_index(drop=True)))
    print("\nKernels of NeuSight's test set")
    shown(found, ["GPUs", "op"])
    shown(found, ["GPUs", "gpu"])
    shown(found, ["GPUs"])
    shown(found, ["GPUs", "band"])


# --- TensorRT's layers ------------------------------------------------------------------------------


def captures(root: Path) -> None:
    """What the model as shipped says of the layers of `CAPTURED`."""
    for start, slug in CAPTURED.items():
        layers = root / "layer_info" / f"{start}.graph.json"
        if not layers.exists():
            print(f"without {layers}")
            continue
        priced = price_plan(read_layer_info(layers), None, EngineFacts())
        profile = read_profile(layers.with_name(f"{start}.profile.json"))
        times = evidence_of_profile(priced, profile, None).layers_ns
        print(f"\n{start} on {slug}")
        compare(priced.document.works, times, gpus.find(slug))


def compare(works: Sequence[Work | None], times: Sequence[int | None], spec: GpuSpec) -> None:
    """Print what is refused, the sum of what is not, and errors by kind of work."""
    ceilings = gpus.ceilings(spec, tf32=False)
    found = []
    for work, one, ns in zip(works, expect(works, spec, ceilings, tf32=False), times, strict=True):
        if not ns:
            continue
        bound = 0 if work is None else estimate(work, Traffic(0, work.bytes), ceilings).attainable_ns
        op = f"{work.core.kind} {work.dtype}" if work is not None and work.core is not None else ""
        found.append((op, ns, bound, one.expected_p10_ns, one.expected_ns, one.expected_p90_ns, one.expected_reason))
    table = pd.DataFrame(found, columns=["op", "ns", "bound", "p10", "p50", "p90", "why"])
    table = table.astype(dict.fromkeys(("ns", "bound", "p10", "p50", "p90"), float))
    known, refused = table[table["p50"].notna()], table[table["p50"].isna()]
    whole = table["ns"].sum()
    for why, some in refused.groupby("why"):
        print(f"refused: {len(some)} of {len(table)} layers, {some['ns'].sum() / whole:.0%} of the time: {why}")
    if len(known):
        sums = known[["bound", "p10", "p50", "p90"]].sum() / known["ns"].sum()
        print(f"expected: {len(known)} layers, {known['ns'].sum() / whole:.0%} of the time; of what was measured their "
              f"sum is {sums['p50']:.2f} ({sums['p10']:.2f} to {sums['p90']:.2f}), that of their bounds "
              f"{sums['bound']:.2f}")  # fmt: skip
        shown(known, ["op"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neusight", type=Path, metavar="DIR")
    parser.add_argument("--captures", type=Path, metavar="DIR")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep NeuSight's rows in this file, or read them")
    options = parser.parse_args()
    if options.neusight:
        table = rows_of(options)
        kernels(learned(table), table)
    if options.captures:
        captures(options.captures)


if __name__ == "__main__":
    main()
