"""Made-up fleets of any size: cells, and rows as predictions and runs would leave them, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from trtprof.base.records import FleetCell, FleetKernel, FleetLoss, FleetRow, FleetVerb

PATTERNS = ("Conv + Relu", "MatMul", "LayerNormalization", "Softmax", "Gather", "Resize", "Transpose", "Einsum")
TARGETS: tuple[tuple[str, FleetVerb, str], ...] = (
    ("rtx-4090", "predict", "rtx-4090"), ("l4", "predict", "l4"), ("h100-sxm", "predict", "h100-sxm"),
    ("t4", "predict", "t4"), ("h100-pool", "run", "h100-sxm"), ("here", "run", ""),
)  # fmt: skip


def digest(*parts: object) -> str:
    """A key."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def cells(
    models: int = 3, sizes: int = 2, targets: tuple[tuple[str, FleetVerb, str], ...] = TARGETS, content: str = ""
) -> Iterator[FleetCell]:
    """Every combination, one after the other."""
    for at in range(models):
        name = f"model_{at:04}"
        sha256 = hashlib.sha256(f"{name}{content}".encode()).hexdigest()
        for size in range(sizes):
            for target, verb, gpu in targets:
                key = digest(sha256, size, target)
                yield FleetCell(
                    key=key,
                    group=digest(sha256, size) if verb == "predict" else key,
                    model=name,
                    path=f"models/{name}.onnx",
                    sha256=sha256,
                    target=target,
                    verb=verb,
                    gpu=gpu,
                    resource="gpu_h100" if target == "h100-pool" else "",
                    batch=2**size,
                    precision="fp16" if at % 2 else "model",
                    trtprof="0.1.0",
                    tags=("vision",) if at % 2 else ("speech", "nightly"),
                )


def row(cell: FleetCell, seed: int = 0, slower: float = 1.0, fails: float = 0.05) -> FleetRow:
    """What might have come of a cell; ``slower`` times as slow, and failed with a probability of ``fails``."""
    random = Random(f"{cell.model}{cell.target}{cell.batch}{seed}")
    asked: dict[str, Any] = msgspec.structs.asdict(cell)
    passing: dict[str, Any] = {
        "started": f"2026-11-2{random.randrange(9)}T10:00:00Z",
        "seconds": random.random(),
        "worker": "here:1",
    }
    if random.random() < fails:
        return FleetRow(
            **asked, **passing, status="failed", stage="source", error=f"{cell.path} is not an ONNX model",
            why="it is cut short", fix="copy it again", log="source: reading\n",
        )  # fmt: skip
    bound = int(random.lognormvariate(13, 1) * slower)
    expected = int(bound * random.uniform(1.05, 1.6))
    ran = cell.verb == "run"
    measured = int(expected * random.uniform(0.95, 2.5)) if ran else None
    kernels, left = [], 1.0
    for at in range(random.randint(2, 8)):
        share = left * random.uniform(0.1, 0.6)
        left -= share
        win = int((measured or 0) * share * random.uniform(-0.1, 0.4))
        kernels.append(
            FleetKernel(
                pattern=random.choice(PATTERNS),
                dtype="fp16",
                shapes=f"{cell.batch}x{64 * (at + 1)}x56x56",
                kernel=f"sm80_xmma_{at}" if ran else "",
                layer=f"layer_{at}",
                count=random.randint(1, 6),
                bound_ns=int(bound * share),
                expected_ns=int(expected * share),
                expected_basis="measured",
                measured_ns=int((measured or 0) * share) if ran else None,
                verdict=("write it" if win > 0 else "do not") if ran else "not decided",
                win_ns=win if ran else None,
                win_low_ns=int(win * 0.7) if ran else None,
                win_high_ns=int(win * 1.3) if ran else None,
            )
        )
    if measured is None:
        ledger = [
            FleetLoss(cause="bound by memory", ns=int(bound * 0.7), kind="estimate"),
            FleetLoss(cause="bound by compute", ns=bound - int(bound * 0.7), kind="estimate"),
            FleetLoss(cause="good kernels above the bound", ns=expected - bound, kind="estimate"),
        ]
    else:
        gaps = (measured - bound) // 3
        ledger = [
            FleetLoss(cause="ideal", ns=bound, kind="estimate"),
            FleetLoss(cause="kernel inefficiency", ns=measured - bound - gaps, kind="estimate"),
            FleetLoss(cause="gaps", ns=gaps, kind="fact"),
        ]
    return FleetRow(
        **asked, **passing, status="done", device=cell.gpu or "a CPU", latency_ns=measured,
        latency_low_ns=None if measured is None else int(measured * 0.98),
        latency_high_ns=None if measured is None else int(measured * 1.02), bound_ns=bound, expected_ns=expected,
        expected_p10_ns=int(expected * 0.9), expected_p90_ns=int(expected * 1.3), expected_basis="measured",
        joules=(measured or expected) / 1e9 * 300 if cell.gpu else None, tdp_w=300.0 if cell.gpu else None,
        memory_bytes=10**8, flops=bound * 1000, bytes=bound * 500, layers=len(kernels), ledger=tuple(ledger),
        kernels=tuple(kernels), run=f"runs/{cell.key}" if ran else "",
    )  # fmt: skip


def rows(models: int = 3, sizes: int = 2, seed: int = 0, slower: float = 1.0, fails: float = 0.05) -> list[FleetRow]:
    """A whole fleet."""
    return [row(cell, seed, slower, fails) for cell in cells(models, sizes)]
