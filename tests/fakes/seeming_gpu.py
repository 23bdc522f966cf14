"""A machine that seems to have a GPU, on which a worker that needs none plays (see `tests.fakes.stub_gpu_worker`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.in_process import call_telling
from tests.fakes.support import ROOT
from trtprof.base.errors import MissingError
from trtprof.base.records import LiveGpu
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.ncu import record as ncu
from trtprof.engine import backends
from trtprof.flows import run_gpu
from trtprof.hardware import nvml
from trtprof.runtime import child

NO_CUDA = MissingError("the GPU cannot be measured", why="there is none", fix="get one")
H100 = LiveGpu(
    index=0, uuid="GPU-1", name="NVIDIA H100 80GB HBM3", compute_capability="9.0", sms=132, memory_bytes=85_520_809_984,
    l2_bytes=52_428_800, bus_bits=5120, max_sm_clock_mhz=1980, max_memory_clock_mhz=2619, driver="580.0",
)  # fmt: skip


def seem(monkeypatch: pytest.MonkeyPatch, folder: Path, gpu: LiveGpu, names: Sequence[str]) -> None:
    """Let the machine have the GPU, the backends of these names, an empty cache in the folder, and no ncu."""
    monkeypatch.setattr(nvml, "gpus", lambda: ((gpu,), ""))
    monkeypatch.setattr(backends, "backends", lambda: [backends.BackendStatus(name, True, "here") for name in names])
    monkeypatch.setattr(cupti, "require", lambda: None)
    monkeypatch.setattr(cupti, "injection_environment", dict)
    monkeypatch.setattr(ncu, "_PARAMETERS", folder / "no parameters")
    monkeypatch.setattr(ncu, "_USUAL_PLACES", ())

    def measure(index: int, **_: object) -> None:
        raise NO_CUDA

    monkeypatch.setattr(child, "run_telling", call_telling)
    monkeypatch.setattr(run_gpu, "calibrate_gpu", measure)
    monkeypatch.setattr(run_gpu, "on_cuda", lambda session, _: session)
    for name in run_gpu.WORKERS:
        monkeypatch.setitem(run_gpu.WORKERS, name, "tests.fakes.stub_gpu_worker")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
