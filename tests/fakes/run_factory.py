"""Real runs whose latency is known: a machine that is busy makes another one every time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from tests.fakes.in_process import quick
from tests.fakes.support import SAMPLES
from trtprof.base import run_folder
from trtprof.base.latency import latency_of
from trtprof.base.records import Latency, Run
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.source.request import ModelRequest

SAMPLES_OF_A_RUN = 200
SPREAD = 0.01
"""Of the samples, over their median."""


def tiny_run(folder: Path, *, batch: int, median_ns: int, seed: int) -> Path:
    """A run of a small model, its latency replaced: samples are drawn about ``median_ns``."""
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        made = execute(
            RunOptions(
                model=ModelRequest.of(SAMPLES / "resnet_tiny.onnx", batch=batch),
                output=str(folder), duration_s=0.0, iterations=3,
                warmup_ms=0.0, profile_iterations=3,
            )
        )  # fmt: skip
    drawn = np.random.default_rng(seed).normal(median_ns, SPREAD * median_ns, SAMPLES_OF_A_RUN)
    samples = np.rint(drawn).astype("int64")
    pd.DataFrame({"latency_ns": samples}).to_parquet(made.file(run_folder.LATENCY))
    run = made.report()
    made.write(run_folder.REPORT, with_latency(run, latency_of(samples)))
    return made.path


def with_latency(run: Run, latency: Latency) -> Run:
    """The same with another latency, of which the last row of its ledger tells."""
    *rows, last = run.ledger
    rest = msgspec.structs.replace(last, ns=latency.median_ns - sum(row.ns for row in rows))
    return msgspec.structs.replace(run, latency=latency, ledger=(*rows, rest))
