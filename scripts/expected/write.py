"""Write what was learned: ensembles as ONNX, and what must be known beside them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnx
import pandas as pd
from onnx import TensorProto, helper
from train import QUANTILES, classes, fit, inputs, report, unseen, without

from trtprof.expected.model import KNOWN, OUTSIDE, UNKNOWN_GPU
from trtprof.hardware import gpus

COVERED = 0.8
SOURCES = {
    "NeuSight": {"repository": "https://github.com/sitar-lab/NeuSight", "commit": "6945927", "licence": "MIT"},
    "aiconfigurator": {
        "repository": "https://github.com/ai-dynamo/aiconfigurator", "commit": "095f58a", "licence": "Apache-2.0",
    },
    "vidur": {"repository": "https://github.com/microsoft/vidur", "commit": "7d47513", "licence": "MIT"},
}  # fmt: skip
KEPT = 120
"""Rows of a source, GPU, dtype and kind that are kept to be shown beside an expectation."""


def write(table: pd.DataFrame, left_out: Counter[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name, some in classes(table):
        x, base = inputs(name, some)
        y = np.log(some["ns"].to_numpy() / base)
        ensembles = fit(x, y)
        model = as_onnx(name, [ensembles.boosters[quantile] for quantile in QUANTILES], len(x.columns))
        file = folder / f"{name.replace(' ', '_')}.onnx"
        file.write_bytes(model.SerializeToString(deterministic=True))
        found[name] = {
            "features": list(x.columns),
            "bands": bands(name, some, x, base),
            "range": {dim: [float(some[dim].min()), float(some[dim].max())] for dim in ("batch", "m", "n", "k")}
            | {"roof": [float(x["roof"].min()), float(x["roof"].max())]},
            "measured": measured(some),
        }
        print(name, found[name]["bands"], file.stat().st_size, flush=True)
    document = {"quantiles": QUANTILES, "covered": COVERED, "sources": SOURCES, "left_out": dict(left_out),
                "classes": found}  # fmt: skip
    (folder / "model.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    keep(table).to_parquet(folder / "rows.parquet", compression="zstd", index=False)


def measured(some: pd.DataFrame) -> dict[str, dict[str, dict[str, int]]]:
    """Rows by dtype, architecture and GPU."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    counts = some.groupby(["dtype", "gpu"], as_index=False).size()
    for dtype, gpu, count in zip(counts["dtype"], counts["gpu"], counts["size"], strict=True):
        found.setdefault(dtype, {}).setdefault(gpus.find(gpu).architecture, {})[gpu] = int(count)
    return found


def bands(name: str, some: pd.DataFrame, x: pd.DataFrame, base: np.ndarray) -> dict[str, list[float]]:
    """Where four fifths of the held-out rows lie.

    Of new shapes on known GPUs: by how much log(p10) and log(p90) of the trees are moved. Of GPUs that are left out one
    after the other, and of the tenth of the rows that takes longest or shortest by the roofline: log(measured /
    expected) itself.
    """
    y = np.log(some["ns"].to_numpy() / base)
    new = unseen(some)
    ratios = fit(x[~new], y[~new]).ratios(x[new])
    report(
        name, "new shapes on known GPUs", some[new].assign(expected=np.exp(ratios[:, 1]) * base[new], base=base[new])
    )
    # Each side alone leaves out a tenth.
    side = (1 + COVERED) / 2
    found = {KNOWN: [-float(np.quantile(ratios[:, 0] - y[new], side)), float(np.quantile(y[new] - ratios[:, 2], side))]}
    inside = np.mean((y[new] >= ratios[:, 0] + found[KNOWN][0]) & (y[new] <= ratios[:, 2] + found[KNOWN][1]))
    print(f"{name}: {inside:.1%} of new shapes in the band", flush=True)
    held = list(without(name, some))
    for band, folds in ((UNKNOWN_GPU, "without "), (OUTSIDE, "than all")):
        parts = [one.residuals for one in held if folds in one.fold]
        if parts:
            found[band] = [float(value) for value in np.quantile(np.concatenate(parts), [1 - side, side])]
    return found


def keep(table: pd.DataFrame) -> pd.DataFrame:
    """A sample of the rows, to show the nearest ones."""
    columns = ["source", "kind", "dtype", "gpu", "shape", "ns", "batch", "m", "n", "k"]
    parts = [
        some.sample(min(len(some), KEPT), random_state=1)
        for _, some in table.groupby(["source", "kind", "dtype", "gpu"], sort=True)
    ]
    kept = pd.concat(parts, ignore_index=True)[columns]
    return kept.assign(ns=kept["ns"].round().astype(np.int64), **{
        name: kept[name].astype(np.int64) for name in ("batch", "m", "n", "k")
    }, **{name: kept[name].astype("category") for name in ("source", "kind", "dtype", "gpu")})  # fmt: skip


# --- ONNX ----------------------------------------------------------------------------------------


def as_onnx(kind: str, boosters: list[lightgbm.Booster], width: int) -> onnx.ModelProto:
    """The ensembles as one TreeEnsembleRegressor (ai.onnx.ml 3) with a target each: [rows, width] -> [rows, targets].

    A node of LightGBM takes the left branch where a value is at most its threshold, a double; the largest float that
    is not above it takes every float the same way.
    """
    nodes: dict[str, Any] = {name: [] for name in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
        "nodes_falsenodeids", "target_treeids", "target_nodeids", "target_ids", "target_weights",
    )}  # fmt: skip
    number = 0
    for target, booster in enumerate(boosters):
        for tree in booster.dump_model()["tree_info"]:
            _add(nodes, tree["tree_structure"], number, target)
            number += 1
    node = helper.make_node(
        "TreeEnsembleRegressor", ["features"], ["ratios"], domain="ai.onnx.ml", n_targets=len(boosters), **nodes
    )
    graph = helper.make_graph(
        [node], kind,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", width])],
        [helper.make_tensor_value_info("ratios", TensorProto.FLOAT, ["rows", len(boosters)])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="trtprof")


def _add(nodes: dict[str, list[Any]], tree: dict[str, Any], number: int, target: int) -> None:
    waiting = [tree]
    made = 1
    place = 0
    while place < len(waiting):
        branch = waiting[place]
        leaf = "leaf_value" in branch
        nodes["nodes_treeids"].append(number)
        nodes["nodes_nodeids"].append(place)
        nodes["nodes_featureids"].append(0 if leaf else branch["split_feature"])
        nodes["nodes_modes"].append("LEAF" if leaf else "BRANCH_LEQ")
        nodes["nodes_values"].append(0.0 if leaf else _below(branch["threshold"]))
        nodes["nodes_truenodeids"].append(0 if leaf else made)
        nodes["nodes_falsenodeids"].append(0 if leaf else made + 1)
        if leaf:
            nodes["target_treeids"].append(number)
            nodes["target_nodeids"].append(place)
            nodes["target_ids"].append(target)
            nodes["target_weights"].append(float(np.float32(branch["leaf_value"])))
        else:
            waiting += [branch["left_child"], branch["right_child"]]
            made += 2
        place += 1


def _below(threshold: float) -> float:
    found = np.float32(threshold)
    return float(np.nextafter(found, np.float32(-np.inf)) if float(found) > threshold else found)
