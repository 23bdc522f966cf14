"""What the model of expected times errs by on what it never saw.

    python scripts/expected/acceptance.py --neusight scripts/asplos/data/dataset --published scripts/asplos
        --captures DIR --table table.parquet --without l40s --without a100-sxm4-80gb

With ``--neusight`` a model is learned from NeuSight's ``train`` rows of T4, V100 and A100 40 GB alone, as ``train.py``
does it, and meets NeuSight's own ``test`` rows: other shapes, on these GPUs and on GPUs that it never saw. How much
these rows scatter is told by trees that know four fifths of a GPU's own. Beside that, ``--published`` (``label`` and
``results`` of the same checkout) has the model meet the ops of whole networks, with NeuSight's published predictions
of the same rows. With ``--captures`` the model that is shipped meets layers of TensorRT engines that others timed
(layer information and a profile), on which nothing was tuned. With ``--table`` (which ``train.py --table`` keeps) and
``--without`` a GPU is left out of products, and 300 of its rows then correct what is expected of the others.

Errors are means of |expected - measured| / measured, in percent. "bound" is the roofline with every byte from DRAM, at
least a launch; "in band" the share of rows from p10 to p90, which is to be 80.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from sources import NEUSIGHT, neusight, neusight_columns
from train import FOLDED, Fit, classes, error, fit, inputs
from write import bands

from trtprof.analysis.plan import price_plan
from trtprof.analysis.profile import evidence_of_profile
from trtprof.base.records import Core, EngineFacts, GpuSpec, Work
from trtprof.engine.inspector import read_layer_info, read_profile
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate
from trtprof.expected.correction import Correction, fitted, place_of
from trtprof.expected.model import KNOWN, OUTSIDE, SIMT_PRODUCTS, UNKNOWN_GPU, expect
from trtprof.hardware import gpus

SEEN = ("t4", "v100-pcie-32gb", "a100-pcie-40gb")
FOLDERS = {device.replace(" ", "_"): slug for device, slug in NEUSIGHT.items()}
PUBLISHED = ("neusight", "roofline")
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


def shown(table: pd.DataFrame, by: list[str], others: tuple[str, ...] = ()) -> None:
    """Print the errors of bound, expectation and others by group."""

    def row(some: pd.DataFrame) -> pd.Series:
        ns = some["ns"].to_numpy()
        found: dict[str, Any] = {"rows": len(some), "bound": error(some["bound"].to_numpy(), ns),
                                 "ours": error(some["p50"].to_numpy(), ns),
                                 "median": float(np.median(np.abs(some["p50"] / ns - 1))) * 100}  # fmt: skip
        for other in others:
            known = some[other].notna().to_numpy()
            found[other] = error(some[other].to_numpy()[known], ns[known]) if known.any() else np.nan
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


def from_itself(table: pd.DataFrame) -> None:
    """Print what trees that know four fifths of a GPU's products err by on the rest: how much no size tells."""
    rows = table[(table["split"] == "test") & (table["kind"] == "product")]
    for slug, some in rows.groupby("gpu"):
        x, base = inputs(SIMT_PRODUCTS, some)
        ns = some["ns"].to_numpy()
        fold = np.random.default_rng(0).permutation(len(some)) % 5
        found = np.empty(len(some))
        for test in (fold == number for number in range(5)):
            trees = fit(x[~test], np.log(ns / base)[~test], (0.5,), 0.5).boosters[0.5]
            found[test] = np.exp(np.asarray(trees.predict(x[test]))) * base[test]
        print(f"{slug}: products err by {error(found, ns):.1f} % where the trees know four fifths of them", flush=True)


def network_rows(root: Path) -> pd.DataFrame:
    """The ops of networks whose work is known: measured, and published predictions, in ns; alike ones are one row."""
    found = []
    for folder, gpu in FOLDERS.items():
        for file in sorted((root / "label" / folder).glob("*-inf-*.csv")):
            published = {how: _by_name(root / "results/prediction" / folder / how / file.name) for how in PUBLISHED}
            ops = published["neusight"]
            if ops is None:
                continue
            for name, measured in _by_name(file)["fw_latency"].items():
                op = ast.literal_eval(str(ops["FwOps"].get(name, "[]")))
                if len(op) != 1 or op[0][0] == "MEM" or not measured > 0:
                    continue
                found.append({"network": file.stem, "gpu": gpu, "key": _key(*op[0]), "ns": measured * 1e6} | {
                    how: table["fw_latency"].get(name, np.nan) * 1e6 if table is not None else np.nan
                    for how, table in published.items()
                })  # fmt: skip
    table = pd.DataFrame(found)
    same = table.groupby(["network", "gpu", "key"], as_index=False)
    return same.agg(count=("ns", "size"), ns=("ns", "mean"), **{how: (how, "mean") for how in PUBLISHED})


def _by_name(file: Path) -> Any:
    return pd.read_csv(file).drop_duplicates("Name").set_index("Name") if file.exists() else None


def _key(kind: str, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """A name and dimensions as in the tables of kernels."""
    if kind == "Linear":
        return ("linear", int(np.prod(dims[:-2])), 1, dims[-2], dims[-1])
    if kind == "BMM":
        return ("bmm", *dims)
    name = kind.removeprefix("VEC")
    return (name, int(np.prod(dims[:-1])), dims[-1])


def networks(model: Model, root: Path) -> None:
    table = network_rows(root)
    table = table.join(neusight_columns(table["key"]))
    table = table.assign(dtype="fp32", shape=[" ".join(map(str, key)) for key in table["key"]])
    found = _marked(model.expect(table.drop(columns="key")))
    print("\nOps of whole networks")
    shown(found, ["GPUs", "op"], PUBLISHED)
    shown(found, ["GPUs"], PUBLISHED)
    times = ["ns", "bound", "p10", "p50", "p90", *PUBLISHED]
    sums = found[times].mul(found["count"], axis=0).assign(**found[["GPUs", "gpu", "network"]])
    sums = sums.groupby(["GPUs", "gpu", "network"], as_index=False)[times].sum(min_count=1)
    print("\nWhole networks: the sum over those ops; the band is the sum of theirs, as if all erred alike")
    shown(sums, ["GPUs", "gpu"], PUBLISHED)
    shown(sums, ["GPUs"], PUBLISHED)


# --- TensorRT's layers ------------------------------------------------------------------------------


def captures(root: Path) -> None:
    """Layers of `CAPTURED`, from their information and the profile beside it: what the model as shipped says of them.

    Then what it would say were convolutions products, an image's windows times the filters: shown, and nowhere used.
    """
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
        print("with convolutions as products")
        compare([as_product(work) for work in priced.document.works], times, gpus.find(slug))


def as_product(work: Work | None) -> Work | None:
    if work is None or work.core is None or work.core.kind != "convolution":
        return work
    core = msgspec.structs.replace(work.core, kind="product", window=1, stride=1)
    return msgspec.structs.replace(work, core=core, fast_flops=0)


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


# --- a device with rows of its own ------------------------------------------------------------------


def corrected(name: str, table: pd.DataFrame, slug: str, count: int) -> None:
    """A class on a GPU that was left out: before, and after ``count`` rows of it, drawn at random three times."""
    parts = [some.sample(min(len(some), FOLDED), random_state=0) for _, some in table.groupby(["gpu", "dtype"])]
    some = pd.concat(parts, ignore_index=True)
    x, base = inputs(name, some)
    out = (some["gpu"] == slug).to_numpy()
    learned_from = fit(x[~out], np.log(some["ns"].to_numpy() / base)[~out], (0.5,), 0.5)
    ratios = np.asarray(learned_from.boosters[0.5].predict(x[out]))
    rows = some[out].assign(expected=np.exp(ratios) * base[out]).reset_index(drop=True)
    cores = rows[[name for name in Core.__struct_fields__ if name in rows]].to_dict("records")
    places = np.array(
        [place_of(msgspec.convert(core, Core), ns) for core, ns in zip(cores, rows["expected"], strict=True)]
    )
    dtypes = rows["dtype"].to_numpy().astype(str)
    apart = np.log(rows["ns"].to_numpy() / rows["expected"].to_numpy())
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        own, rest = order[:count], order[count:]
        known = fitted(places[own], dtypes[own], apart[own])
        moves = Correction({name: known}, {name: count}).at(name, places[rest], dtypes[rest].tolist())
        assert moves is not None  # noqa: S101 - it was just made
        after = np.exp(moves.middle)
        inside = (apart[rest] >= moves.middle + moves.low) & (apart[rest] <= moves.middle + moves.high)
        tested = rows.loc[rest].assign(after=rows.loc[rest, "expected"] * after, inside=inside)
        for dtype, part in (*tested.groupby("dtype"), ("all", tested)):
            found.append({
                "dtype": dtype, "rows": len(part), "before": error(part["expected"].to_numpy(), part["ns"].to_numpy()),
                "after": error(part["after"].to_numpy(), part["ns"].to_numpy()),
                "median after": float(np.median(np.abs(part["after"] / part["ns"] - 1))) * 100,
                "in band": part["inside"].mean() * 100,
            })  # fmt: skip
    print(f"\nClass {name} on {slug}, which was left out, after {count} rows of it, three draws")
    print(pd.DataFrame(found).groupby("dtype").mean().round(1).to_string(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neusight", type=Path, metavar="DIR")
    parser.add_argument("--published", type=Path, metavar="DIR")
    parser.add_argument("--captures", type=Path, metavar="DIR")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep NeuSight's rows in this file, or read them")
    parser.add_argument("--table", type=Path, metavar="FILE", help="of train.py --table: GPUs are left out of it")
    parser.add_argument("--without", action="append", default=[], metavar="GPU", help="one to leave out of the table")
    parser.add_argument("--own", type=int, default=300, metavar="N", help="rows of it that correct what is expected")
    options = parser.parse_args()
    if options.neusight:
        table = rows_of(options)
        model = learned(table)
        kernels(model, table)
        from_itself(table)
        if options.published:
            networks(model, options.published)
    if options.table:
        table = pd.read_parquet(options.table)
        for name, some in classes(table[table["kind"] == "product"]):
            for slug in (slug for slug in options.without if slug in set(some["gpu"])):
                corrected(name, some, slug, options.own)
    if options.captures:
        captures(options.captures)


if __name__ == "__main__":
    main()
