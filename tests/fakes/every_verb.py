"""Every verb of the command line as one that ends within seconds, in a folder of files that it can work on."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.support import ROOT, SAMPLES

QUICK = ("--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3")
PLAN = "plan.log"
MANIFEST = """
[[models]]
files = "gemv.onnx"
[[targets]]
gpu = "rtx-4090"
[[targets]]
name = "here"
verb = "run"
options = { duration = 0, iterations = 3, warmup = 0, profile-iterations = 3 }
"""

EVERY_VERB: Mapping[str, tuple[str, ...]] = {
    "version": ("--version",),
    "usage": ("--help",),
    "run": ("run", "resnet_tiny.onnx", "-o", "made", *QUICK),
    "try": ("try", "gemv.onnx", "--budget", "2s", "-o", "tried.onnx"),
    "plugin": ("plugin", "gemv.onnx", "MatMul", "--gpu", "rtx-4090", "-o", "plugin"),
    "plugin-brief": ("plugin", "gemv.onnx", "MatMul", "--gpu", "rtx-4090", "--only", "brief"),
    "plugin-bench": ("plugin", "bench", "written"),
    "inspect": ("inspect", "resnet_tiny.onnx", "-o", "inspected.json"),
    "predict": ("predict", "resnet_tiny.onnx", "--gpu", "rtx-4090,l4", "-o", "predicted.html"),
    "predict-layers": ("predict", "resnet_tiny.onnx", "--gpu", "rtx-4090", "--level", "layers"),
    "build": ("build", "resnet_tiny.onnx", "--saveEngine=made.engine"),
    "analyze": ("analyze", PLAN, "--onnx", "resnet_tiny.onnx", "--batch", "64", "--gpu", "rtx-4090", "-o", "of.html"),
    "report": ("report", "run", "-o", "made.html"),
    "report-json": ("report", "run", "--format", "json"),
    "report-png": ("report", "run", "-o", "made.png"),
    "report-tag": ("report", "run", "--tag", "best"),
    "compare": ("compare", "run", "again", "-o", "compared.html"),
    "export": ("export", "models.net:small", "-o", "exported.onnx"),
    "sweep": ("sweep", "conv", "--kernel", "1,3", "--cin", "64", "--cout", "64", "--hw", "56", "--gpu", "rtx-3080"),
    "fleet-plan": ("fleet", "plan", "fleet.toml"),
    "fleet-run": ("fleet", "run", "fleet.toml", "-o", "fleet", "--workers", "1"),
    "fleet-report": ("fleet", "report", "answered", "-o", "fleet.html"),
    "fleet-status": ("fleet", "status", "answered"),
    "fleet-compare": ("fleet", "compare", "answered", "answered"),
    "gpus": ("gpus", "l4"),
    "gpus-all": ("gpus", "--format", "json"),
    "calibrate": ("calibrate", "--seconds", "1", "--threads", "1"),
    "calibrate-show": ("calibrate", "--show"),
    "kernel": ("kernel", "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4"),
    "kernel-stdin": ("kernel", "-"),
    "rules": ("rules", "RL101"),
    "rules-all": ("rules",),
    "help": ("help", "floor"),
    "doctor": ("doctor",),
    "completion": ("--show-completion",),
}
"""What is typed behind ``trtprof``, in a folder of `fill`. Exit codes may be other than 0: not all can run anywhere."""


def fill(folder: Path) -> None:
    """What `EVERY_VERB` works on; where somebody made them, a fleet that is answered and a plugin.

    They are called ``answered`` and ``written``.
    """
    for model in ("resnet_tiny.onnx", "gemv.onnx"):
        shutil.copy(SAMPLES / model, folder)
    for run, example in (("run", "example"), ("again", "example-1-thread")):
        shutil.copytree(ROOT / "reports" / example, folder / run)
    shutil.copy(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log", folder / PLAN)
    (folder / "fleet.toml").write_text(MANIFEST)


def command(*words: str) -> list[str]:
    """The command of this very checkout; its folder must be on the PYTHONPATH, see `environment`."""
    return [sys.executable, "-P", "-m", "trtprof", *words]


def environment(home: Path, temporary: Path, **more: str) -> dict[str, str]:
    """Of such a command: what people have set is not in it, nor is anything of theirs used."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(ROOT / "profiler"), str(ROOT))),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "COLUMNS": "80",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **more,
    }
