"""Bindings of other versions than those installed, which tests hold the code against.

``scripts/test`` runs this file once, after the installation, so that no test needs the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trtprof.runtime import child
from trtprof.runtime.stub_library import stub_library

FOLDER = Path(sys.prefix) / "other-versions"

TENSORRT = {
    "8.6.1": "tensorrt-bindings==8.6.1",
    "10.0.1": "tensorrt-cu12-bindings==10.0.1",
    "10.16.1.11": "tensorrt-cu13-bindings==10.16.1.11",
    "11.4.0.106": "tensorrt-cu13-bindings==11.4.0.106",
}
LEAN = {
    version: f"tensorrt-cu13-bindings=={version} tensorrt-lean-cu13-libs=={version}"
    for version in ("10.16.1.11", "11.4.0.106")
}
"""The lean runtime, which has the registry of plugins."""
CUPTI = {"13.0.1": "cupti-python==13.0.1", "13.4.0": "cupti-python==13.4.0 pyelftools"}
"""By version: what is downloaded."""

SYMBOLS = (
    "createInferBuilder_INTERNAL", "createInferRuntime_INTERNAL", "createInferRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL", "createNvOnnxParserRefitter_INTERNAL", "getBuilderPluginRegistry",
    "getPluginRegistry", "getNvOnnxParserVersion", "initLibNvInferPlugins",
)  # fmt: skip
OLD_SYMBOLS = (
    "_ZN11nvuffparser15createUffParserEv", "_ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi",
    "_ZN14nvcaffeparser117createCaffeParserEv", "_ZN14nvcaffeparser123shutdownProtobufLibraryEv",
)  # fmt: skip
"""What TensorRT 8 links besides: its parsers for UFF and Caffe."""
LIBRARIES = ("nvinfer", "nvonnxparser", "nvinfer_plugin", "nvparsers")


def _place(packages: str, end: str = "") -> Path:
    return FOLDER / (packages.replace(" ", "+") + end)


def other_version(packages: str) -> Path:
    """The folder to import ``packages`` from; the test skips where they could not be had."""
    why = _place(packages, ".txt")
    if not _place(packages).is_dir():
        pytest.skip(why.read_text() if why.is_file() else f"{packages} is not here: scripts/test downloads it")
    return _place(packages)


def asked_of(code: str, arguments: Sequence[str], path: Path | None = None, libraries: Path | None = None) -> Any:
    """What a child prints as JSON that runs ``code`` with ``path`` before all others, and the libraries of a folder."""
    environment = child.environment()
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), environment["PYTHONPATH"]])
    if libraries is not None:
        environment["LD_LIBRARY_PATH"] = str(libraries)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stub_libraries(folder: Path, major: int) -> Path:
    """Libraries of the names that the bindings link, with the symbols that they need and nothing else."""
    stub = stub_library((*SYMBOLS, *(OLD_SYMBOLS if major < 10 else ())))
    for library in LIBRARIES:
        (folder / f"lib{library}.so.{major}").write_bytes(stub)
    return folder


def download() -> None:
    """Download what is not here yet. Not every version has a wheel for every Python: the reason is kept, too."""
    FOLDER.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--target"]
    for packages in (*TENSORRT.values(), *LEAN.values(), *CUPTI.values()):
        why = _place(packages, ".txt")
        if _place(packages).is_dir() or why.is_file():
            continue
        part = _place(packages, ".part")
        done = subprocess.run([*pip, str(part), *packages.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join(done.stderr.split())
            why.write_text(f"{packages} could not be downloaded (delete {why} to try again): {said}")
        else:
            part.rename(_place(packages))


if __name__ == "__main__":
    download()
