"""The library that nvcc makes of a plugin's C++ project, and what that takes: a compiler and TensorRT's headers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from glob import glob
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import BuildError, MissingError
from trtprof.plugin import native
from trtprof.plugin.specification import Specification
from trtprof.runtime import installed_tool
from trtprof.runtime.installed_tool import Found, Tool, Version

NVCC_VARIABLE = "CUDACXX"  # Names the nvcc to use, for CMake too
NVCC_INSTALL = (
    "install the CUDA Toolkit, or pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime "
    "nvidia-cuda-cccl (13.x)"
)

HEADER = "NvInferRuntime.h"
HEADERS_VARIABLE = "TENSORRT_ROOT"  # The folder that a TensorRT archive was unpacked to
HEADERS_INSTALL = (
    f"unpack a TensorRT archive and set {HEADERS_VARIABLE} to its folder, or install its headers; the source "
    "of NVIDIA/TensorRT has them too, and the packages of pip have none"
)
_HEADER_PLACES = (
    "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu", "/usr/include", "/usr/local/include",
    "/usr/local/tensorrt/include", "/usr/local/TensorRT*/include", "/opt/tensorrt/include", "/opt/TensorRT*/include",
)  # fmt: skip

_DEADLINE_S = 600.0
_VERSION_PARTS = ("MAJOR", "MINOR", "PATCH")


class Headers(NamedTuple):
    """TensorRT's headers."""

    folder: Path  # Where they are
    version: Version  # What they are of: ``(10, 16, 1)``


class Library(NamedTuple):
    """What was compiled."""

    file: Path  # The library
    test: Path  # A program that asks the plugin everything, without a GPU
    nvcc: Found  # The compiler
    headers: Headers


def find_headers(given: Path | None = None) -> Headers:
    """Those in ``given``, else those that the variable names, else those in the usual folders."""
    root = os.environ.get(HEADERS_VARIABLE)
    if given is not None:
        places = [str(given)]
    elif root:
        places = [str(Path(root) / "include")]
    else:
        places = [place for pattern in _HEADER_PLACES for place in sorted(glob(pattern), reverse=True)]
    for place in places:
        if (Path(place) / HEADER).is_file():
            return Headers(Path(place), _header_version(Path(place)))
    raise MissingError(
        "TensorRT's headers are not here", why=f"there is no {HEADER} in {', '.join(places)}", fix=HEADERS_INSTALL
    )


def find_nvcc() -> Found:
    """The nvcc to use, that of Python packages included."""
    spec = PathFinder.find_spec("nvidia")
    packages = [f"{place}/*/bin/nvcc" for place in (spec.submodule_search_locations if spec else None) or ()]
    places = ("/usr/local/cuda*/bin/nvcc", "/opt/cuda*/bin/nvcc", *packages)
    return installed_tool.find(Tool("nvcc", "the CUDA compiler", NVCC_VARIABLE, places, NVCC_INSTALL, _nvcc_version))


def compile_library(
    spec: Specification, folder: Path, into: Path, *, include: Path | None = None, test: bool = True
) -> Library:
    """Compile the project in a folder."""
    headers, nvcc = find_headers(include), find_nvcc()
    usual = [str(nvcc.path), "-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden"]
    included = ["-isystem", str(headers.folder.resolve())]
    sources = [str((folder / name).resolve()) for name in native.sources(spec)]
    _run([*usual, *included, *native.architecture_options(spec), "--threads=0", "-c", *sources], into)
    objects = [f"{Path(name).stem}.o" for name in native.sources(spec)]
    made = Library(into / native.library(spec), into / "host_test", nvcc, headers)
    packaged = nvcc.path.parent.parent / "lib"  # where Python packages have the runtime, and nvcc does not look
    _run([*usual, f"-L{packaged}", "-shared", "-o", made.file.name, *objects], into)
    if test:
        program = str((folder / "host_test.cpp").resolve())
        _run(
            [*usual, *included, "-cudart", "none", "-o", made.test.name, program, *objects, f"-L{packaged}", "-ldl"],
            into,
        )
    return made


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_DEADLINE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BuildError("the plugin's library was not made", why=f"nvcc took over {_DEADLINE_S:.0f} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        first = next((line for line in said if "error" in line.lower()), said[0] if said else "nvcc says nothing")
        raise BuildError("the plugin's library was not made", why=first.strip())


def _nvcc_version(told: str) -> Version:
    found = re.search(r"release [\d.]+, V([\d.]+)", told)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _header_version(folder: Path) -> Version:
    """From ``NvInferVersion.h``; empty where it does not tell. Newer ones go by a second name."""
    file = folder / "NvInferVersion.h"
    text = file.read_text(errors="replace") if file.is_file() else ""
    numbers = dict(re.findall(r"#define\s+(\w+)\s+(\w+)", text))
    found = [numbers.get(f"NV_TENSORRT_{part}", "") for part in _VERSION_PARTS]
    found = [numbers.get(one, one) for one in found]
    return tuple(int(one) for one in found) if all(one.isdigit() for one in found) else ()
