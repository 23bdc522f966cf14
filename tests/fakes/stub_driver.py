"""A CUDA driver library that is a stub, compiled where a compiler is; see `stub_cuda.c`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.support import ROOT


def stub_driver(folder: Path) -> Path:
    """Put it into a folder, for ``LD_LIBRARY_PATH``; its path."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a C compiler for Linux makes the stub of the CUDA driver")
    pytest.importorskip("cuda.bindings", reason="cuda-bindings calls the stub")
    library = folder / "libcuda.so.1"
    source = ROOT / "tests" / "fakes" / "stub_cuda.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, source, "-ldl"], check=True)
    return library
