"""Learn expected times of GPU kernels from measurements by others.

    python scripts/expected/train.py --neusight scripts/asplos/data/dataset --aiconfigurator .../systems/data
        --vidur data/profiling/compute [--evaluate] [-o profiler/expected/data]

The three collections are described in ``sources.py``; give folders of checkouts. Written are one ONNX tree ensemble a
class (``product.onnx``), ``model.json`` (names of the features, bands, where there is data and how much, provenance) and
``rows.parquet``, a sample of the rows themselves. The same input gives the same bytes. Needs lightgbm.

A class has three ensembles of gradient-boosted trees over `profiler.expected.features`: of the median and of the first
and ninth decile of log(measured / base). The bands are then widened until 80 % of the rows that were held out lie in
them, apart for new shapes on a GPU that is known, for a GPU that is not, and for shapes outside of the range.

``--evaluate`` prints what held-out GPUs, architectures and shapes err by, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import pandas as pd
from onnx import TensorProto, helper
from sources import attention, neusight, products, vidur

from profiler.expected.features import Rows, device_of, features, rates
from profiler.hardware import gpus

KINDS = ("product", "convolution", "attention", "softmax", "normalisation", "pointwise")
MOST = {
    "product": 6000,
    "attention": 4000,
    "convolution": 3000,
    "softmax": 1800,
    "normalisation": 1800,
    "pointwise": 8000,
}
"""Rows of a GPU and dtype that are learned from, drawn at random."""
QUANTILES = (0.1, 0.5, 0.9)
TREES = {0.1: 120, 0.5: 300, 0.9: 120}
SLACK = 0.97
CORRUPT = 3.0
UNKNOWN_GPU, OUTSIDE = "unknown GPU", "outside"


def parameters(quantile: float) -> dict[str, Any]:
    goal = {"objective": "l1"} if quantile == 0.5 else {"objective": "quantile", "alpha": quantile}
    return goal | {
        "learning_rate": 0.06 if quantile == 0.5 else 0.1, "num_leaves": 31, "min_data_in_leaf": 40,
        "feature_fraction": 0.6, "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 1.0,
        "num_threads": 2, "seed": 1, "deterministic": True, "force_row_wise": True, "verbose": -1,
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
    sources = table["gpu"] + table["source"] + table.get("kernel", "").fillna("").astype(str) + table["kind"]
    corrupt = sources.isin(set(sources[fast]))
    left_out["attention: of a source that is three times as fast as the board"] += int(corrupt.sum())
    under = ~corrupt & (table["ns"] < SLACK * table["ideal"])
    left_out["faster than ideal"] += int(under.sum())
    table = table[~corrupt & ~under]
    keys = ["kind", "split", "dtype", "gpu"]
    drawn = [
        some.sample(min(len(some), MOST[str(key[0])]), random_state=0) for key, some in table.groupby(keys, sort=True)
    ]
    return pd.concat(drawn, ignore_index=True)


def _ideal(table: pd.DataFrame, gpu: str, dtype: str) -> np.ndarray:
    ceilings = gpus.ceilings(gpus.find(gpu), tf32=False)
    device = device_of(gpus.find(gpu), ceilings)._replace(ceilings=ceilings)
    _, peak, _, _ = rates(device, dtype)
    moved = (table["read"] + table["written"]).to_numpy()
    beyond = np.maximum(moved - device.l2_bytes, 0) / device.dram
    return np.asarray(np.maximum.reduce([table["tensor"] / peak, moved / device.l2, beyond]) * 1e9)


def inputs(table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Features, and the base in ns, of the rows of a table."""
    found: list[pd.DataFrame] = []
    bases = []
    for (gpu, dtype), some in table.groupby(["gpu", "dtype"], sort=True):
        spec = gpus.find(str(gpu))
        device = device_of(spec, gpus.ceilings(spec, tf32=False))
        measured = [some[name].to_numpy(dtype=np.float64) for name in Rows._fields[:14]]
        rows = Rows(*measured, *(np.full(len(some), rate) for rate in rates(device, str(dtype))))
        columns, base = features(rows, device)
        found.append(pd.DataFrame(columns, index=some.index).astype(np.float32))
        bases.append(pd.Series(base, index=some.index))
    return pd.concat(found).loc[table.index], pd.concat(bases).loc[table.index].to_numpy()


class Fit(NamedTuple):
    """The ensembles of a class by quantile."""

    boosters: dict[float, lightgbm.Booster]

    def ratios(self, x: pd.DataFrame) -> np.ndarray:
        """log(expected / base) by row and quantile, in order."""
        found = np.stack([np.asarray(self.boosters[quantile].predict(x)) for quantile in QUANTILES], axis=1)
        return np.sort(found, axis=1) if found.shape[1] == len(QUANTILES) else found


def fit(x: pd.DataFrame, y: np.ndarray, quantiles: tuple[float, ...] = QUANTILES, share: float = 1.0) -> Fit:
    return Fit({
        quantile: lightgbm.train(parameters(quantile), lightgbm.Dataset(x, y), round(TREES[quantile] * share))
        for quantile in quantiles
    })  # fmt: skip


def unseen(table: pd.DataFrame) -> np.ndarray:
    """A tenth of the shapes, the same ones on every GPU and in every source."""
    dims = table[["batch", "m", "n", "k"]].to_numpy(dtype=np.int64)
    return np.asarray((dims @ np.array([1_000_003, 10_007, 101, 13])) % 97 % 10 == 0)


# --- evaluation ----------------------------------------------------------------------------------


def error(expected: np.ndarray, ns: np.ndarray) -> float:
    """Mean absolute error in percent."""
    return float(np.mean(np.abs(expected - ns) / ns) * 100)


def splits(table: pd.DataFrame, kind: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Names of splits, and which rows they train on and test."""
    gpu = table["gpu"].to_numpy()
    new = unseen(table)
    yield "new shapes on known GPUs", ~new, new
    for name in sorted(set(gpu)):
        yield f"without {name}", gpu != name, gpu == name


def evaluate(table: pd.DataFrame) -> None:
    for kind in KINDS:
        some = table[table["kind"] == kind]
        x, base = inputs(some)
        ns = some["ns"].to_numpy()
        y = np.log(ns / base)
        for name, train, test in splits(some, kind):
            started = time.perf_counter()
            found = fit(x[train], y[train], (0.5,), 0.7)
            expected = np.exp(np.asarray(found.boosters[0.5].predict(x[test]))) * base[test]
            by = some[test].assign(expected=expected, base=base[test])
            parts = "  ".join(
                f"{dtype} {error(part['expected'].to_numpy(), part['ns'].to_numpy()):.1f}"
                for dtype, part in by.groupby("dtype")
            )
            print(f"{kind:14}{name:44}{test.sum():7,}  bound {error(base[test], ns[test]):5.1f}  ours "
                  f"{error(expected, ns[test]):5.1f}  median {np.median(np.abs(expected / ns[test] - 1)) * 100:5.1f}"
                  f"  ({parts})  {time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neusight", type=Path, required=True, metavar="DIR")
    parser.add_argument("--aiconfigurator", type=Path, required=True, metavar="DIR")
    parser.add_argument("--vidur", type=Path, required=True, metavar="DIR")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--table", type=Path, help="keep the table of all rows in this file, or read it from there")
    parser.add_argument("-o", "--output", type=Path, default=Path("profiler/expected/data"), metavar="DIR")
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
    if options.evaluate:
        evaluate(table)
        return
    from write import write  # noqa: PLC0415

    write(table, left_out, options.output)


if __name__ == "__main__":
    main()
