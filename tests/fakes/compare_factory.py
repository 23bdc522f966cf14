"""Runs to compare: small networks whose layers, nodes and times a test lays down, as run folders and as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from tests.fakes.support import fixed_ceilings
from trtprof.base import run_folder
from trtprof.base.records import (
    SCHEMA_VERSION,
    Backend,
    Capture,
    Ceilings,
    Coverage,
    Device,
    InputTensor,
    Latency,
    LayerResult,
    LedgerRow,
    Match,
    ModelInfo,
    NodeResult,
    Run,
    RunGraph,
    Work,
)
from trtprof.base.run_folder import RunFolder
from trtprof.compare.sides import Runs, load_side


class L(NamedTuple):
    """A layer: its name, its nodes, its time in ns, and what else a test wants of it."""

    name: str
    nodes: tuple[str, ...]
    ns: int
    kernel: str = "conv"
    dtype: str = "fp32"
    op_type: str = "Conv"
    role: str = "compute"
    flops: int = 1_000_000
    bytes: int = 10_000
    bound: str = "tensor"
    shapes: str = "1x8 -> 1x8"


def chain(*op_types: str, stem: str = "n") -> list[tuple[str, str]]:
    """Nodes in a row, as (name, op type)."""
    return [(f"{stem}{at}", op) for at, op in enumerate(op_types)]


def make_run(
    nodes: Sequence[tuple[str, str]],
    layers: Sequence[L],
    *,
    latency_ns: int | None = None,
    edges: Sequence[tuple[int, int]] | None = None,
    layer_edges: Sequence[tuple[str, str]] = (),
    node_flops: Mapping[str, int] | None = None,
    host_ns: int = 0,
    **changes: Any,
) -> Run:
    """A run of a chain of nodes (or of ``edges``), whose ledger closes."""
    kernels = sum(layer.ns for layer in layers)
    latency = kernels + host_ns if latency_ns is None else latency_ns
    links = [(at, at + 1) for at in range(len(nodes) - 1)] if edges is None else list(edges)
    names = [layer.name for layer in layers]
    holders: dict[str, list[str]] = {}
    for layer in layers:
        for node in layer.nodes:
            holders.setdefault(node, []).append(layer.name)
    run = Run(
        schema_version=SCHEMA_VERSION,
        model=ModelInfo(
            name="net", path="net.onnx", sha256="a" * 64, ir_version=9, opsets={"": 17},
            inputs=(InputTensor(name="x", dtype="fp32", shape=(1, 8)),), nodes=len(nodes),
        ),
        backend=Backend(name="ort-cpu", reason="asked for"),
        device=Device(name="a CPU", kind="cpu"),
        versions={"trtprof": "0"},
        ceilings=fixed_ceilings(),
        latency=Latency(median_ns=latency, p99_ns=latency, cv=0.01, n=400),
        profiled=Latency(median_ns=latency, p99_ns=latency, cv=0.01, n=30),
        coverage=Coverage(exact=1.0, inferred=0.0, unattributed=0.0),
        verdict="",
        ledger=(
            LedgerRow(cause="kernel inefficiency", ns=kernels, kind="estimate"),
            LedgerRow(cause="host call", ns=host_ns, kind="estimate"),
            LedgerRow(cause="unexplained", ns=latency - kernels - host_ns, kind="remainder"),
        ),
        layers=tuple(_layer(layer) for layer in layers),
        nodes=tuple(
            NodeResult(
                name=name, op_type=op, graph="", fate="layer",
                layers=tuple(holders.get(name, ())),
                flops=(node_flops or {}).get(name, 1000), bytes=64,
            )
            for name, op in nodes
        ),
        findings=(),
        unsupported=(),
        captured_ns=30 * kernels,
        graph=RunGraph(
            layers=tuple(names),
            layer_from=tuple(names.index(maker) for maker, _ in layer_edges),
            layer_to=tuple(names.index(reader) for _, reader in layer_edges),
            tensor=("t",) * len(layer_edges),
            nbytes=(64,) * len(layer_edges),
            node_from=tuple(maker for maker, _ in links),
            node_to=tuple(reader for _, reader in links),
        ),
    )  # fmt: skip
    return msgspec.structs.replace(run, **changes)


def _layer(layer: L) -> LayerResult:
    return LayerResult(
        name=layer.name, op_type=layer.op_type, role=layer.role, nodes=layer.nodes, measured_ns=layer.ns, ideal_ns=1,
        attainable_ns=1, lost_ns=layer.ns - 1, bound=layer.bound, flops=layer.flops, bytes=layer.bytes,  # type: ignore[arg-type]
        dtype=layer.dtype, shapes=layer.shapes, match="exact" if layer.nodes else "none",
        work=Work(tensor_flops=layer.flops, bytes_read=layer.bytes, dtype=layer.dtype),
        kernels=(
            Match(
                layer=layer.name, kernel=layer.kernel, count=30, median_ns=layer.ns, total_ns=30 * layer.ns,
                confidence="exact", reason="",
            ),
        ),
    )  # fmt: skip


def save(
    path: Path,
    run: Run,
    *,
    samples: npt.NDArray[Any] | None = None,
    kernels: bool = True,
    ceilings: Ceilings | None = None,
) -> RunFolder:
    """A run folder of a run: its samples are all but equal unless given."""
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    folder.write(run_folder.REPORT, run)
    folder.write(run_folder.CEILINGS, ceilings or run.ceilings)
    folder.write(
        run_folder.CAPTURE,
        Capture(
            collector="ort-profile", latency=run.latency, profiled=run.profiled, warmup_iterations=1, threads=2,
            inputs=(), clock_resolution_ns=1,
        ),
    )  # fmt: skip
    if samples is None:
        samples = run.latency.median_ns + np.arange(-200, 201) % 7 - 3
    pd.DataFrame({"latency_ns": samples}).to_parquet(path / run_folder.LATENCY, index=False)
    if kernels:
        rows = [
            (
                iteration,
                at,
                kernel.kernel,
                layer.name,
                0,
                layer.measured_ns,
                layer.measured_ns + (iteration * 7) % 3 - 1,
            )
            for iteration in range(30)
            for at, layer in enumerate(run.layers)
            for kernel in layer.kernels
        ]
        columns = ["iteration", "index", "name", "layer", "start_ns", "dur_ns", "self_ns"]
        pd.DataFrame.from_records(rows, columns=columns).to_parquet(path / run_folder.KERNELS, index=False)
    return folder


def side(tmp_path: Path, name: str, run: Run, **named: Any) -> Runs:
    """A side of one run."""
    return load_side([save(tmp_path / name, run, **named)])
