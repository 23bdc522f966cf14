"""Whether any kernel that others measured is faster than what is called ideal.

    python scripts/bench/bounds.py --neusight scripts/asplos/data/dataset --aiconfigurator .../systems/data

NeuSight (S. Lee et al., github.com/sitar-lab/NeuSight, MIT) timed bmm, linear, element-wise ops, softmax, LayerNorm and
convolutions in fp32 without TF32; NVIDIA's aiconfigurator (github.com/ai-dynamo/aiconfigurator, Apache 2.0) products
and attention in bf16, fp8, int8 and fp4. Neither is part of this project: give the folders of a checkout.

A row is under ideal where it is more than 3 % faster. Rows that cannot be right are a class of their own, by what is
wrong with them, and are not in the sum: products of nothing (``m = 0``); ``int8_wo``, timed on what it does not
multiply; attention from a source (a GPU, framework, version and kernel) of which some rows are more than three times as
fast as the board.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from trtprof.base.records import Op
from trtprof.cost import work_of
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate
from trtprof.hardware import gpus

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "expected"))

import sources
from sources import AICONFIGURATOR, ATTENTION, neusight_op, op_of, tensor

SLACK = 0.97
CORRUPT = 3.0
PRODUCTS = sources.PRODUCTS | {
    "fp8_static": ("fp8e4m3fn", "fp8e4m3fn", "fp8e4m3fn"),
    "fp8_block": ("fp8e4m3fn", "fp8e4m3fn", "fp8e4m3fn"),
    "int8_wo": ("bf16", "int8", "bf16"),
    "int4_wo": ("bf16", "int4", "bf16"),
}
"""What a quantisation reads of activations and weights, and what it multiplies."""


# --- aiconfigurator --------------------------------------------------------------------------------


def product(kind: str, m: int, n: int, k: int) -> Op:
    x, w, _ = PRODUCTS[kind]
    return op_of("MatMul", [tensor("x", x, m, k), tensor("w", w, k, n, constant=True)], tensor("y", "bf16", m, n))


def products(root: Path) -> Iterator[pd.DataFrame]:
    for file in sorted(root.glob("*/gemm/*/*/gemm_perf.parquet")):
        table = pd.read_parquet(file, columns=["device", "gemm_dtype", "m", "n", "k", "latency"])
        gpu = AICONFIGURATOR.get(str(table["device"].iloc[0]))
        if gpu is None:
            continue
        table = table[table["gemm_dtype"].isin(PRODUCTS) & (table["latency"] > 0)]
        kinds = table["gemm_dtype"].astype(str)
        wrong = kinds.map({"int8_wo": "int8_wo"}).fillna("").where(table["m"] > 0, "m = 0")
        shapes = zip(kinds, table["m"].astype(int), table["n"].astype(int), table["k"].astype(int), strict=True)
        yield pd.DataFrame(
            {
                "op": "gemm " + kinds.to_numpy(),
                "gpu": gpu,
                "ns": table["latency"].to_numpy() * 1e6,
                "key": list(shapes),
                "corrupt": wrong.to_numpy(),
            }
        )


def attention(kind: str, q: str, c: str, b: int, s: int, kv: int, h: int, hkv: int, d: int) -> Op:
    sides = [tensor("q", q, b, h, s, d), tensor("k", c, b, hkv, kv, d), tensor("v", c, b, hkv, kv, d)]
    return op_of("Attention", sides, tensor("y", "bf16", b, h, s, d), is_causal=int(kind == "context"))


def attentions(root: Path, most: int) -> Iterator[pd.DataFrame]:
    for file in sorted(root.glob("*/*attention/*/*/*_attention_perf.parquet")):
        kind = file.name.split("_")[0]
        table = pd.read_parquet(file)
        gpu = AICONFIGURATOR.get(str(table["device"].iloc[0]))
        if gpu is None or kind not in ("context", "generation", "encoder"):
            continue
        table = table[table["latency"] > 0]
        if "window_size" in table:
            table = table[table["window_size"] == 0]
        table = table[table["attn_dtype"].isin(ATTENTION)]
        table = table.sample(min(len(table), most), random_state=0)
        keys = []
        for row in table.to_dict("records"):
            shared = int(row.get("num_key_value_heads", 0) or row["num_heads"])
            s, kv = (1, int(row["step"]) + 1) if kind == "generation" else (int(row["isl"]), int(row["isl"]))
            q = ATTENTION[str(row["attn_dtype"])]
            c = ATTENTION.get(str(row.get("kv_cache_dtype", row["attn_dtype"])), q)
            keys.append(
                (kind, q, c, int(row["batch_size"]), s, kv, int(row["num_heads"]), shared, int(row["head_dim"]))
            )
        yield pd.DataFrame(
            {
                "op": f"attention {kind}",
                "gpu": gpu,
                "ns": table["latency"].to_numpy() * 1e6,
                "key": keys,
                "corrupt": "",
                "source": [f"{file.parent} {source}" for source in table["kernel_source"]],
            }
        )


# --- held against ideal ------------------------------------------------------------------------------


def with_ideal(
    table: pd.DataFrame, make: Callable[..., Op], dtype_of: Callable[..., str], *, tf32: bool
) -> pd.DataFrame:
    """The table with the ideal time of each row in ns; each op is priced once, and bounded once a GPU."""
    works = {key: work_of(make(*key), dtype_of(*key)) for key in dict.fromkeys(table["key"])}
    ceilings = {gpu: gpus.ceilings(gpus.find(gpu), tf32=tf32) for gpu in table["gpu"].unique()}
    pairs = list(zip(table["gpu"], table["key"], strict=True))
    bounds = {}
    for gpu, key in dict.fromkeys(pairs):
        work = works[key]
        bounds[gpu, key] = estimate(work, Traffic(0, work.bytes), ceilings[gpu]).ideal_ns if work is not None else 0
    return table.assign(ideal=[bounds[pair] for pair in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neusight", type=Path, metavar="DIR")
    parser.add_argument("--aiconfigurator", type=Path, metavar="DIR")
    parser.add_argument("--attention-rows", type=int, default=400, metavar="N", help="of each file, drawn at random")
    options = parser.parse_args()
    parts = []
    if options.neusight:
        rows = pd.concat(sources.neusight_rows(options.neusight), ignore_index=True).assign(corrupt="")
        parts.append(with_ideal(rows, lambda name, *shape: neusight_op(name, shape), lambda *_: "", tf32=False))
    if options.aiconfigurator:
        rows = pd.concat(products(options.aiconfigurator), ignore_index=True)
        parts.append(with_ideal(rows, product, lambda kind, *_: PRODUCTS[kind][2], tf32=True))
        rows = pd.concat(attentions(options.aiconfigurator, options.attention_rows), ignore_index=True)
        found = with_ideal(rows, attention, lambda _, __, cached, *___: cached, tf32=True)
        fast = set(found["source"][found["ideal"] > CORRUPT * found["ns"]])
        wrong = found["source"].isin(fast)
        found["corrupt"] = found["corrupt"].where(~wrong, "sources with rows that are three times too fast")
        parts.append(found.drop(columns="source"))
    if not parts:
        parser.error("give --neusight, --aiconfigurator or both")
    table = pd.concat([part.drop(columns="key") for part in parts], ignore_index=True)
    table["under"] = table["ns"] < SLACK * table["ideal"]
    table["ratio"] = table["ideal"] / table["ns"]
    good = table[table["corrupt"] == ""]
    shown = good.groupby("op").agg(
        rows=("ns", "size"), under=("under", "sum"), worst=("ratio", "max"), median=("ratio", "median")
    )
    print("ideal / measured by class; under: measured more than 3 % below ideal")
    print(shown.round(2).to_string())
    print(f"\nin all {len(good):,} rows, {int(good['under'].sum()):,} under ideal")
    for why, some in table[table["corrupt"] != ""].groupby("corrupt"):
        print(f"left out, {why}: {len(some):,} rows, {int(some['under'].sum()):,} under ideal")
    for (op, gpu), some in good[good["under"]].groupby(["op", "gpu"]):
        print(f"under: {op} on {gpu}: {len(some):,}, worst {some['ratio'].max():.2f}")


if __name__ == "__main__":
    main()
