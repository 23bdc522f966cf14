"""Measured times of GPU kernels by others, as one table.

Three public collections, each read from a checkout that the reader makes; none of them is part of this project:

    NeuSight        github.com/sitar-lab/NeuSight, MIT: fp32 kernels under PyTorch 2.1, TF32 off (S. Lee, A.
                    Phanishayee, D. Mahajan, Forecasting GPU Performance for Deep Learning Training and Inference,
                    ASPLOS 2025)
    aiconfigurator  github.com/ai-dynamo/aiconfigurator, Apache 2.0: products and attention in bf16, fp8, int8 and fp4
                    under TensorRT-LLM, SGLang and vLLM
    vidur           github.com/microsoft/vidur, MIT: the layers of LLMs in fp16 under PyTorch (A. Agrawal and others,
                    Vidur, MLSys 2024)

What cannot be the time of a kernel is left out, and counted by why:

* products of nothing (``m = 0``), and what is more than 3 % faster than the ideal of the datasheet;
* of NeuSight, rows within a quarter of what the same op takes where it has next to nothing to do: the host was slower
  than the GPU. Of the others of pointwise ops, softmax and normalisations, what the measurement itself adds is taken
  off: the time at no bytes of the line through the rows (Theil and Sen), at most that of the smallest ones;
* of vidur, rows under 10 us: its times are whole microseconds;
* of products and attention, rows that are faster than DRAM: run again and again, they found their operands in an L2 of
  tens of MB, where a network's next layer finds others;
* of what is left of them and several frameworks ran, all but the fastest: what good kernels reach is asked for;
* of attention, sources (a GPU, framework, version and kernel) of which some rows are three times as fast as the board.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trtprof.base.records import Op, Tensor, Work
from trtprof.cost import work_of
from trtprof.hardware import gpus

NEUSIGHT = {
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm5",
    "NVIDIA L4": "l4",
    "Tesla T4": "t4",
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
}
AICONFIGURATOR = {
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm5",
    "NVIDIA H200": "h200",
    "NVIDIA B200": "b200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB200": "gb200",
    "NVIDIA L40S": "l40s",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-blackwell-server",
}
"""By what the rows say, not the folder: one of a B300 holds rows of a GB300, which has no datasheet here."""
VIDUR = {"a100": "a100-sxm4-80gb", "a40": "a40", "h100": "h100-sxm5"}
PRODUCTS = {
    "bfloat16": ("bf16", "bf16", "bf16"),
    "fp8": ("fp8e4m3fn", "fp8e4m3fn", "fp8e4m3fn"),
    "nvfp4": ("fp4e2m1", "fp4e2m1", "fp4e2m1"),
    "sq": ("int8", "int8", "int8"),
}
"""What a quantisation reads of activations and weights, and what it multiplies."""
ATTENTION = {"bfloat16": "bf16", "fp8": "fp8e4m3fn", "float16": "fp16"}
BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "fp8e4m3fn": 1.0, "fp4e2m1": 0.5}

COLUMNS = (
    "source", "split", "kind", "dtype", "gpu", "ns", "shape",
    "batch", "m", "n", "k", "window", "stride", "shared", "causal",
    "tensor", "saved", "vector", "special", "read", "written",
)  # fmt: skip
"""Of the table: where a row is from and what was asked, the dimensions of its core, and its work."""

_HOST = 1.25
_STREAMED = 0.94
"""Share of its datasheet's bandwidth that DRAM reaches at most, by kernels that only read and write."""
_ONE = {"tanh": "Tanh", "relu": "Relu", "gelu": "Gelu"}
_TWO = {"add": "Add", "mul": "Mul", "div": "Div", "pow": "Pow"}


# --- NeuSight ------------------------------------------------------------------------------------


def tensor(name: str, dtype: str, *dims: int, constant: bool = False) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=tuple(int(dim) for dim in dims), constant=constant)


def op_of(kind: str, inputs: list[Tensor], output: Tensor, **attributes: Any) -> Op:
    return Op(op_type=kind, opset=24, attributes=attributes, inputs=tuple(inputs), outputs=(output,))


def neusight_op(name: str, s: tuple[int, ...]) -> Op:
    """An op by its name and dimensions in the tables."""
    if name == "bmm":
        b, m, k, n = s
        return op_of(
            "MatMul", [tensor("a", "fp32", b, m, k), tensor("b", "fp32", b, k, n)], tensor("y", "fp32", b, m, n)
        )
    if name == "linear":
        b, m, k, n = s
        sides = [
            tensor("x", "fp32", b * m, k),
            tensor("w", "fp32", k, n, constant=True),
            tensor("c", "fp32", n, constant=True),
        ]
        return op_of("Gemm", sides, tensor("y", "fp32", b * m, n))
    if name == "conv":
        batch, channels, filters, kernel, size, stride, pad = s
        places = (size + 2 * pad - kernel) // stride + 1
        sides = [
            tensor("x", "fp32", batch, channels, size, size),
            tensor("w", "fp32", filters, channels, kernel, kernel),
        ]
        made = tensor("y", "fp32", batch, filters, places, places)
        return op_of("Conv", sides, made, kernel_shape=(kernel,) * 2, strides=(stride,) * 2, pads=(pad,) * 4)
    x, y = tensor("x", "fp32", *s), tensor("y", "fp32", *s)
    if name == "softmax":
        return op_of("Softmax", [x], y, axis=-1)
    if name == "ln":
        return op_of("LayerNormalization", [x, tensor("g", "fp32", s[-1]), tensor("b", "fp32", s[-1])], y, axis=-1)
    if name in _ONE:
        return op_of(_ONE[name], [x], y)
    if name in _TWO:
        return op_of(_TWO[name], [x, tensor("z", "fp32", *s)], y)
    return op_of(_TWO[name[:-1]], [x, tensor("z", "fp32")], y)


def neusight_rows(root: Path) -> Iterator[pd.DataFrame]:
    """Tables with columns op, gpu, ns, key and split; ``root`` is ``scripts/asplos/data/dataset`` of a checkout."""
    files = [
        *sorted(root.glob("train/collect/*/*/*.csv")),
        *(root / f"test/{name}.csv" for name in ("bmm", "linear", "elem", "ln", "softmax")),
    ]
    for file in files:
        if not file.exists():
            print(f"without {file}", file=sys.stderr)
            continue
        table = pd.read_csv(file, low_memory=False)
        table = table[table["Device"].isin(NEUSIGHT)]
        if table.empty:
            continue
        op = str(table["OPName"].iloc[0])
        columns = ["B", "H"]
        if op == "conv":
            columns = ["B", "Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding"]
        elif op in ("bmm", "linear"):
            columns = ["B", "M", "N", "K"]
        shapes = map(tuple, table[columns].astype(int).to_numpy().tolist())
        ops = table["OPName"].astype(str)
        yield pd.DataFrame({
            "op": ops.to_numpy(),
            "gpu": table["Device"].map(NEUSIGHT).to_numpy(),
            "ns": table["Latency"].to_numpy() * 1e6,
            "key": [(name, *shape) for name, shape in zip(ops, shapes, strict=True)],
            "split": file.relative_to(root).parts[0],
        })  # fmt: skip


def neusight(root: Path, left_out: Counter[str]) -> pd.DataFrame:
    """NeuSight's rows. ``split`` is theirs: ``test`` has other shapes, and GPUs that ``train`` has not."""
    table = pd.concat(neusight_rows(root), ignore_index=True)
    table = table.join(neusight_columns(table["key"]))
    table["source"] = "NeuSight"
    table["dtype"] = "fp32"
    table["shape"] = [" ".join(map(str, key)) for key in table["key"]]
    moved = table["read"] + table["written"]
    trained = (table["split"] == "train") & (table["kind"] != "convolution")
    tiny = table[trained & (moved < 1 << 20) & (table["tensor"] < 1e8)]
    floor = tiny.groupby(["op", "gpu"])["ns"].median().rename("floor")
    table = table.join(floor, on=["op", "gpu"])
    host = trained & (table["ns"] < _HOST * table["floor"])
    left_out["NeuSight: as long as the host takes to launch"] += int(host.sum())
    table = table[~host].copy()
    vector = trained[table.index] & table["kind"].isin(["pointwise", "softmax", "normalisation"])
    for _, some in table[vector].groupby(["op", "gpu"]):
        added = time_at_nothing((some["read"] + some["written"]).to_numpy(), some["ns"].to_numpy())
        table.loc[some.index, "ns"] -= min(max(added, 0.0), float(some["floor"].iloc[0]))
    return table[list(COLUMNS)]


def time_at_nothing(moved: np.ndarray, ns: np.ndarray) -> float:
    """What the line through times by bytes has at none, from rows of up to ten times the least time."""
    near = ns < 10 * ns.min()
    x, y = moved[near], ns[near]
    order = np.argsort(x, kind="stable")
    half = len(order) // 2
    low, high = order[:half], order[-half:]
    apart = x[high] > x[low]
    slope = float(np.median((y[high] - y[low])[apart] / (x[high] - x[low])[apart])) if apart.any() else 0.0
    return float(np.median(y - slope * x))


def neusight_columns(keys: pd.Series[Any]) -> pd.DataFrame:
    """Cores and works of ops by their names and dimensions in the tables; like ones are priced once."""
    known = {key: _columns(work_of(neusight_op(key[0], key[1:]))) for key in dict.fromkeys(keys)}
    return pd.DataFrame([known[key] for key in keys], index=keys.index)


def _columns(work: Work | None) -> dict[str, Any]:
    if work is None or work.core is None:
        raise ValueError(f"{work} has no core")
    core = work.core
    return {
        "kind": core.kind, "batch": core.batch, "m": core.m, "n": core.n, "k": core.k, "window": core.window,
        "stride": core.stride, "shared": core.shared, "causal": core.causal,
        "tensor": work.fewest_tensor_flops, "saved": work.fast_flops, "vector": work.vector_flops,
        "special": sum(work.special.values()), "read": work.bytes_read, "written": work.bytes_written,
    }  # fmt: skip


# --- aiconfigurator --------------------------------------------------------------------------------


def _order(version: str) -> list[int]:
    """``1.3.0rc20`` is newer than ``1.3.0rc10`` and than ``1.2.0``."""
    return [int(part) for part in re.findall(r"\d+", version)]


def products(root: Path, left_out: Counter[str]) -> pd.DataFrame:
    """Products under the newest version of each framework; ``root`` is ``.../systems/data`` of a checkout."""
    parts = []
    for folder in sorted({file.parent.parent for file in root.glob("*/gemm/*/*/gemm_perf.parquet")}):
        seen: set[str] = set()
        for file in _newest_first(folder, "gemm_perf.parquet"):
            table = pd.read_parquet(file, columns=["device", "gemm_dtype", "m", "n", "k", "latency"])
            table = table[~table["gemm_dtype"].astype(str).isin(seen)]
            if table.empty:
                continue
            seen |= set(table["gemm_dtype"].astype(str))
            gpu = AICONFIGURATOR.get(str(table["device"].iloc[0]))
            if gpu is None:
                left_out["aiconfigurator: no datasheet of the GPU"] += len(table)
                continue
            kinds = table["gemm_dtype"].astype(str)
            left_out["aiconfigurator: weights alone are quantised, or by blocks"] += int((~kinds.isin(PRODUCTS)).sum())
            left_out["aiconfigurator: products of nothing"] += int((table["m"] == 0).sum())
            table = table[kinds.isin(PRODUCTS) & (table["m"] > 0) & (table["latency"] > 0)]
            parts.append(table.assign(gpu=gpu, source=f"aiconfigurator {folder.name} {file.parent.name}"))
    table = pd.concat(parts, ignore_index=True)
    kinds = table["gemm_dtype"].astype(str)
    m, n, k = (table[name].astype(np.int64) for name in "mnk")
    x, w = (kinds.map({kind: BYTES[PRODUCTS[kind][at]] for kind in PRODUCTS}) for at in (0, 1))
    return _fastest(left_out, table, ["gpu", "gemm_dtype", "m", "n", "k"], {
        "kind": "product", "dtype": kinds.map({kind: PRODUCTS[kind][2] for kind in PRODUCTS}), "m": m, "n": n, "k": k,
        "tensor": 2 * m * n * k, "read": np.ceil(m * k * x) + np.ceil(k * n * w), "written": m * n * 2,
        "ns": table["latency"].astype(float) * 1e6,
        "shape": m.astype(str) + " x " + n.astype(str) + " x " + k.astype(str),
    })  # fmt: skip


def _newest_first(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"*/{name}"), key=lambda file: _order(file.parent.name), reverse=True)


def attention(root: Path, left_out: Counter[str]) -> pd.DataFrame:
    """Attention of prompts (causal), of one query against a cache, and of encoders, likewise."""
    parts = []
    folders = {file.parent.parent for file in root.glob("*/*attention/*/*/*_attention_perf.parquet")}
    for folder in sorted(folders):
        for kind in ("context", "generation", "encoder"):
            for file in _newest_first(folder, f"{kind}_attention_perf.parquet")[:1]:
                table = pd.read_parquet(file)
                gpu = AICONFIGURATOR.get(str(table["device"].iloc[0]))
                if gpu is None:
                    left_out["aiconfigurator: no datasheet of the GPU"] += len(table)
                    continue
                table = table[(table["latency"] > 0) & table["attn_dtype"].isin(ATTENTION)]
                if "window_size" in table:
                    table = table[table["window_size"] == 0]
                heads = table["num_heads"]
                keys = table.get("num_key_value_heads", heads)
                parts.append(pd.DataFrame({
                    "gpu": gpu, "source": f"aiconfigurator {folder.name} {file.parent.name}",
                    "kernel": table["kernel_source"].astype(str), "phase": kind,
                    "dtype": table["attn_dtype"].astype(str).map(ATTENTION),
                    "cache": table.get("kv_cache_dtype", table["attn_dtype"]).astype(str).map(ATTENTION),
                    "entries": table["batch_size"].astype(np.int64), "heads": heads.astype(np.int64),
                    "pairs_of_heads": keys.where(keys > 0, heads).astype(np.int64),
                    "m": 1 if kind == "generation" else table["isl"].astype(np.int64),
                    "n": table["step"].astype(np.int64) + 1 if kind == "generation" else table["isl"].astype(np.int64),
                    "k": table["head_dim"].astype(np.int64), "ns": table["latency"].astype(float) * 1e6,
                }))  # fmt: skip
    table = pd.concat(parts, ignore_index=True)
    unknown = table["cache"].isna()
    left_out["aiconfigurator: keys of another dtype"] += int(unknown.sum())
    table = table[~unknown].reset_index(drop=True)
    causal = table["phase"] == "context"
    batch = table["entries"] * table["heads"]
    pairs = batch * np.where(causal, table["n"] * (table["n"] + 1) // 2, table["m"] * table["n"])
    q, c = table["dtype"].map(BYTES), table["cache"].map(BYTES)
    same = ["gpu", "phase", "dtype", "cache", "entries", "heads", "pairs_of_heads", "m", "n", "k"]
    return _fastest(left_out, table, same, {
        "kind": "attention", "batch": batch, "shared": table["heads"] // table["pairs_of_heads"], "causal": causal,
        "tensor": 4 * pairs * table["k"], "vector": 5 * pairs - 2 * batch * table["m"], "special": pairs,
        "read": batch * table["m"] * table["k"] * q
        + 2 * table["entries"] * table["pairs_of_heads"] * table["n"] * table["k"] * c,
        "written": batch * table["m"] * table["k"] * 2,
        "shape": table["phase"] + " " + table["entries"].astype(str) + " x " + table["heads"].astype(str) + "/"
        + table["pairs_of_heads"].astype(str) + " heads x " + table["m"].astype(str) + " x " + table["n"].astype(str)
        + " x " + table["k"].astype(str),
    })  # fmt: skip


def _fastest(left_out: Counter[str], table: pd.DataFrame, same: list[str], columns: dict[str, Any]) -> pd.DataFrame:
    """The table with all `COLUMNS`, and of rows that are alike the fastest one that had its operands from DRAM."""
    plain = {"split": "", "batch": 1, "window": 1, "stride": 1, "shared": 1, "causal": False, "saved": 0, "vector": 0,
             "special": 0}  # fmt: skip
    keys = table[same].reset_index(drop=True)
    whole = table.assign(**dict[str, Any](plain | columns))[[*COLUMNS, *({"kernel"} & set(table))]].reset_index(
        drop=True
    )
    from_cache = whole["ns"] * _STREAMED < in_dram_ns(whole)
    left_out["aiconfigurator: operands were in the cache"] += int(from_cache.sum())
    whole, keys = whole[~from_cache], keys[~from_cache]
    best = whole["ns"].groupby([keys[name] for name in same], observed=True).idxmin()
    left_out["aiconfigurator: another framework is faster"] += len(whole) - len(best)
    return whole.loc[np.sort(best.to_numpy())].reset_index(drop=True)


def in_dram_ns(table: pd.DataFrame) -> pd.Series[float]:
    """How long the datasheet's DRAM takes for the bytes of rows, in ns."""
    rates = table["gpu"].map({gpu: gpus.find(gpu).dram_bytes_per_s.value for gpu in set(table["gpu"])})
    return (table["read"] + table["written"]) / rates * 1e9


# --- vidur -----------------------------------------------------------------------------------------


def vidur(root: Path, left_out: Counter[str]) -> pd.DataFrame:
    """The layers of LLMs by the number of tokens, in fp16; ``root`` is ``data/profiling/compute`` of a checkout."""
    parts = []
    for file in sorted(root.glob("*/*/*/mlp.csv")):
        gpu = VIDUR[file.relative_to(root).parts[0]]
        table = pd.read_csv(file)
        gated = table["use_gated_mlp"].astype(int)
        shards, tokens, width = table["num_tensor_parallel_workers"], table["num_tokens"], table["n_embd"]
        inner = table["n_expanded_embd"] // shards
        head = width // table["n_head"]
        for name, columns, outputs, depth in (
            ("attn_pre_proj", "product", (table["n_head"] + 2 * table["n_kv_head"]) * head // shards, width),
            ("attn_post_proj", "product", width, width // shards),
            ("mlp_up_proj", "product", inner * (1 + gated), width),
            ("mlp_down_proj", "product", width, inner),
            ("mlp_act", "pointwise", inner, 1 + gated),
            ("add", "pointwise", width, 2),
            ("input_layernorm", "normalisation", width, 1),
            ("post_attention_layernorm", "normalisation", width, 1),
        ):
            if f"time_stats.{name}.median" not in table:
                continue
            made = tokens * outputs
            product = columns == "product"
            parts.append(pd.DataFrame({
                "source": "vidur", "split": "", "kind": columns, "dtype": "fp16", "gpu": gpu,
                "ns": table[f"time_stats.{name}.median"] * 1e6,
                "shape": name + " of " + file.parent.name + ", " + tokens.astype(str) + " tokens",
                "batch": 1, "m": made if columns == "pointwise" else tokens,
                "n": 1 if columns == "pointwise" else outputs, "k": depth if product else 1,
                "window": 1, "stride": 1, "shared": 1, "causal": False,
                "tensor": 2 * made * depth if product else 0, "saved": 0,
                "vector": 0 if product else made * {"add": 1, "mlp_act": 2}.get(name, 6),
                "special": made if name == "mlp_act" else 0,
                "read": 2 * (tokens * depth + depth * outputs if product else made * depth),
                "written": 2 * made,
            }))  # fmt: skip
    table = pd.concat(parts, ignore_index=True)
    short = ~(table["ns"] >= 10_000)
    left_out["vidur: under 10 us, which it tells in whole microseconds, or not measured"] += int(short.sum())
    table = table[~short]
    # The same layer stands in many models and under several numbers of shards.
    same = ["gpu", "kind", "batch", "m", "n", "k", "read", "written"]
    return table.assign(ns=table.groupby(same)["ns"].transform("median")).drop_duplicates(same)
