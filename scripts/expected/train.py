"""Learn expected times of GPU kernels from measurements by others.

    python scripts/expected/train.py --neusight scripts/asplos/data/dataset --aiconfigurator .../systems/data
        --vidur data/profiling/compute [-o profiler/trtprof/expected/data]

The three collections are described in ``sources.py``; give folders of checkouts. Written are one ONNX tree ensemble a
class (``product.onnx``), ``model.json`` (names of the features, bands, where there is data and how much, provenance)
and ``rows.parquet``, a sample of the rows themselves. The same input gives the same bytes. Needs lightgbm.

A class has three ensembles of gradient-boosted trees over `trtprof.expected.features`: of the median and of the first
and ninth decile of log(measured / base). The bands are then widened until 80 % of the rows that were held out lie in
them, apart for new shapes on a GPU that is known, for a GPU that is not, and for shapes outside of the range.

Meanwhile it prints what held-out GPUs, architectures and shapes err by; "base" is what the trees start from.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import pandas as pd
from sources import attention, neusight, products, vidur

from trtprof.expected.features import Device, Rows, device_of, features, rates, soonest
from trtprof.expected.model import PRODUCTS, class_of
from trtprof.hardware import gpus

MOST = {
    "product": 12000,
    "product fp32": 6000,
    "attention": 4000,
    "convolution": 3000,
    "softmax": 1800,
    "normalisation": 1800,
    "pointwise": 8000,
}
"""Rows of a GPU and dtype that are learned from, drawn at random."""
QUANTILES = (0.1, 0.5, 0.9)
TREES = {0.1: 120, 0.5: 400, 0.9: 120}
FOLDED = 2000
"""Rows of a GPU and dtype in what is learned without a GPU."""
SLACK = 0.97
CORRUPT = 3.0


def parameters(quantile: float, rows: int) -> dict[str, Any]:
    """Of what is learned from many rows, larger trees."""
    goal = {"objective": "l1"} if quantile == 0.5 else {"objective": "quantile", "alpha": quantile}
    many = rows > 100_000
    return goal | {
        "learning_rate": 0.1 if many or quantile != 0.5 else 0.06, "num_leaves": 127 if many else 47,
        "min_data_in_leaf": 20 if many else 40, "feature_fraction": 0.6, "bagging_fraction": 0.7, "bagging_freq": 1,
        "lambda_l2": 1.0, "num_threads": 1, "seed": 1, "deterministic": True, "force_row_wise": True, "verbose": -1,
    }  # fmt: skip


# --- the table -----------------------------------------------------------------------------------


def collect(options: argparse.Namespace, left_out: Counter[str]) -> pd.DataFrame:
    """All rows that can be right."""
    table = pd.concat(
        [
            neusight(options.neusight, left_out),
            products(options.aiconfigurator, left_out),
            attention(options.aiconfigurator, left_out),
            vidur(options.vidur, left_out),
        ],
        ignore_index=True,
    )
    table["ideal"] = 0.0
    for (gpu, dtype), some in table.groupby(["gpu", "dtype"]):
        table.loc[some.index, "ideal"] = _ideal(some, str(gpu), str(dtype))
    fast = (table["kind"] == "attention") & (table["ideal"] > CORRUPT * table["ns"])
    sources = table["gpu"] + table["source"] + table["kernel"].fillna("").astype(str) + table["kind"]
    corrupt = sources.isin(set(sources[fast]))
    left_out["attention: of a source that is three times as fast as the board"] += int(corrupt.sum())
    under = ~corrupt & (table["ns"] < SLACK * table["ideal"])
    left_out["faster than ideal"] += int(under.sum())
    table = table[~corrupt & ~under]
    keys = ["kind", "split", "dtype", "gpu"]
    drawn = [
        some.sample(min(len(some), MOST[class_of(str(key[0]), str(key[2]))]), random_state=0)
        for key, some in table.groupby(keys, sort=True)
    ]
    return pd.concat(drawn, ignore_index=True)


def _ideal(table: pd.DataFrame, gpu: str, dtype: str) -> np.ndarray:
    return soonest(*_rows(table, gpu, dtype))


def _rows(table: pd.DataFrame, gpu: str, dtype: str) -> tuple[Rows, Device]:
    spec = gpus.find(gpu)
    device = device_of(spec, gpus.ceilings(spec, tf32=False))
    measured = [table[name].to_numpy(dtype=np.float64) for name in Rows._fields[:14]]
    return Rows(*measured, *(np.full(len(table), rate) for rate in rates(device, dtype))), device


def classes(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each ensemble, by its name."""
    names = [class_of(kind, dtype) for kind, dtype in zip(table["kind"], table["dtype"], strict=True)]
    for name, some in table.groupby(names, sort=True):
        yield str(name), some.reset_index(drop=True)


def inputs(name: str, table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Features, and the base in ns, of the rows of a class."""
    found: list[pd.DataFrame] = []
    bases = []
    for (gpu, dtype), some in table.groupby(["gpu", "dtype"], sort=True):
        rows, device = _rows(some, str(gpu), str(dtype))
        columns, base = features(rows, device, product=name in PRODUCTS)
        found.append(pd.DataFrame(columns, index=some.index).astype(np.float32))
        bases.append(pd.Series(base, index=some.index))
    return pd.concat(found).loc[table.index], pd.concat(bases).loc[table.index].to_numpy()


class Fit(NamedTuple):
    """The ensembles of a class by quantile."""

    boosters: dict[float, lightgbm.Booster]

    def ratios(self, x: pd.DataFrame) -> np.ndarray:
        """log(expected / base) by row and quantile, in order."""
        return np.sort([np.asarray(self.boosters[quantile].predict(x)) for quantile in QUANTILES], axis=0).T


def fit(x: pd.DataFrame, y: np.ndarray, quantiles: tuple[float, ...] = QUANTILES, share: float = 1.0) -> Fit:
    return Fit({
        quantile: lightgbm.train(parameters(quantile, len(y)), lightgbm.Dataset(x, y), round(TREES[quantile] * share))
        for quantile in quantiles
    })  # fmt: skip


def unseen(table: pd.DataFrame) -> np.ndarray:
    """A tenth of the shapes, the same ones on every GPU and in every source."""
    dims = table[["batch", "m", "n", "k"]].to_numpy(dtype=np.int64)
    return np.asarray((dims @ np.array([1_000_003, 10_007, 101, 13])) % 97 % 10 == 0)


# --- what is held out -------------------------------------------------------------------------------


def error(expected: np.ndarray, ns: np.ndarray) -> float:
    """Mean absolute error in percent."""
    return float(np.mean(np.abs(expected - ns) / ns) * 100)


class Held(NamedTuple):
    """What was held out, and log(measured / expected) of its rows."""

    fold: str
    residuals: np.ndarray


def without(name: str, table: pd.DataFrame) -> Iterator[Held]:
    """Learn without each GPU and architecture, and without the smallest and the largest tenth; print the errors."""
    parts = [some.sample(min(len(some), FOLDED), random_state=0) for _, some in table.groupby(["gpu", "dtype"])]
    some = pd.concat(parts, ignore_index=True)
    x, base = inputs(name, some)
    y = np.log(some["ns"].to_numpy() / base)
    gpu = some["gpu"].astype(str).to_numpy()
    family = np.array([gpus.find(slug).architecture for slug in gpu])
    roof = x["roof"].to_numpy()
    low, high = np.quantile(roof, [0.1, 0.9])
    folds = [(f"without {slug}", gpu == slug) for slug in sorted(set(gpu))] if len(set(gpu)) > 1 else []
    folds += [(f"without {one}", family == one) for one in sorted(set(family)) if len(set(gpu[family == one])) > 1]
    folds += [("smaller than all", roof <= low), ("larger than all", roof >= high)]
    for fold, test in folds:
        if test.all():
            continue
        found = fit(x[~test], y[~test], (0.5,), 0.5).boosters[0.5].predict(x[test])
        held = some[test].assign(expected=np.exp(np.asarray(found)) * base[test], base=base[test])
        report(name, fold, held)
        yield Held(fold, y[test] - np.asarray(found))


def report(name: str, fold: str, held: pd.DataFrame) -> None:
    """A line of errors: of the base, of what is expected, and that by dtype."""
    ns, expected = held["ns"].to_numpy(), held["expected"].to_numpy()
    parts = "  ".join(
        f"{dtype} {error(part['expected'].to_numpy(), part['ns'].to_numpy()):.1f}"
        for dtype, part in held.groupby("dtype")
    )
    print(f"{name:14}{fold:40}{len(held):7,}  base {error(held['base'].to_numpy(), ns):5.1f}  expected "
          f"{error(expected, ns):5.1f}  median {np.median(np.abs(expected / ns - 1)) * 100:5.1f}  ({parts})",
          flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neusight", type=Path, required=True, metavar="DIR")
    parser.add_argument("--aiconfigurator", type=Path, required=True, metavar="DIR")
    parser.add_argument("--vidur", type=Path, required=True, metavar="DIR")
    parser.add_argument("--table", type=Path, help="keep the table of all rows in this file, or read it from there")
    parser.add_argument("-o", "--output", type=Path, default=Path("profiler/trtprof/expected/data"), metavar="DIR")
    options = parser.parse_args()
    left_out: Counter[str] = Counter()
    if options.table is not None and options.table.exists():
        table = pd.read_parquet(options.table)
    else:
        table = collect(options, left_out)
        if options.table is not None:
            table.to_parquet(options.table)
    print(table.groupby(["kind", "dtype"]).agg(rows=("ns", "size"), GPUs=("gpu", "nunique")).to_string())
    for why, count in left_out.items():
        print(f"left out, {why}: {count:,}")
    from write import write

    write(table, left_out, options.output)


if __name__ == "__main__":
    main()
