"""CUDA C++ compiled at run time by NVRTC, which needs no GPU and no driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trtprof.base.errors import MissingError

INSTALL = "pip install 'trtprof[gpu]'"  # What brings the packages that measuring a GPU takes

INSTALL_12 = "pip install 'trtprof[gpu-cu12]'"  # The same for drivers that run no newer CUDA than 12


class CudaError(Exception):
    """A function of the driver or of NVRTC failed. All that follows in this process may fail too."""


class Compiled(NamedTuple):
    """What NVRTC made of a source."""

    image: bytes  # Machine code, or PTX where the architecture is virtual (``compute_90``)
    ptx: str
    log: str  # With the registers and the spills of each kernel


def compile_source(source: bytes, architecture: str) -> Compiled:
    """Compile CUDA C++ that includes nothing, to ``sm_90`` or (PTX) ``compute_90``; no GPU and no driver is needed."""
    nvrtc = bindings("nvrtc")
    program = _nvrtc(nvrtc, nvrtc.nvrtcCreateProgram(source, b"trtprof.cu", 0, [], []))
    options = [
        f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"--ptxas-options=-v", b"--use_fast_math",
    ]  # fmt: skip
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)

    def text(size: Any, get: Any) -> bytes:
        buffer = _room(_nvrtc(nvrtc, size(program)))
        _nvrtc(nvrtc, get(program, buffer))
        return buffer.rstrip(b"\0")

    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CudaError(f"NVRTC for {architecture}: {code.name}: {log.strip()}")
    ptx = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    if architecture.startswith("compute_"):
        return Compiled(ptx + b"\0", ptx.decode(), log)
    size = _nvrtc(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
    image = _room(size)
    _nvrtc(nvrtc, nvrtc.nvrtcGetCUBIN(program, image))
    return Compiled(image[:size], ptx.decode(), log)


def _room(size: int) -> bytes:
    """Bytes that NVRTC may write over: more than one, because Python has a single object for each of one byte."""
    return bytes(size + 1)


def nvrtc_version() -> tuple[int, int]:
    """Version of the installed NVRTC."""
    nvrtc = bindings("nvrtc")
    try:
        code, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # cuda-pathfinder has error classes of its own for a library that is not found
        raise MissingError("NVRTC is not installed", why=first_line(error), fix=INSTALL) from None
    _nvrtc(nvrtc, (code,))
    return major, minor


def architectures() -> tuple[int, ...]:
    """What the installed NVRTC compiles for, such as 89 for ``sm_89``, ascending."""
    nvrtc_version()
    nvrtc = bindings("nvrtc")
    return tuple(sorted(_nvrtc(nvrtc, nvrtc.nvrtcGetSupportedArchs())))


def target(capability: tuple[int, int], wanted: str) -> str:
    """The architecture to compile for: ``wanted``, or PTX for a GPU that is newer than NVRTC."""
    known = architectures()
    number = 10 * capability[0] + capability[1]
    if number in known:
        return wanted
    if number > max(known):
        return f"compute_{max(known)}"
    version = ".".join(map(str, nvrtc_version()))
    raise MissingError(
        f"NVRTC {version} does not compile for GPUs of compute capability {capability[0]}.{capability[1]}",
        why=f"the oldest that it compiles for is {min(known) // 10}.{min(known) % 10}",
        fix=INSTALL_12,
    )


def bindings(module: str) -> Any:
    """A module of cuda-bindings."""
    try:
        if module == "driver":
            from cuda.bindings import driver as found
        else:
            from cuda.bindings import nvrtc as found
    except ImportError as error:
        raise MissingError("the Python package cuda-bindings is not installed", why=str(error), fix=INSTALL) from None
    return found


def _nvrtc(nvrtc: Any, answer: Sequence[Any]) -> Any:
    code, *values = answer
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CudaError(f"NVRTC: {code.name}")
    return values[0] if len(values) == 1 else tuple(values)


def first_line(error: BaseException) -> str:
    """The first line of what an error says; the name of its class where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]
