"""What Nsight Compute (ncu) says when it fails, and what that means.

Messages are those of 2022.3, which was run, and of later versions as users quoted them in public issues.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from trtprof.base.errors import CaptureError, MissingError, TrtprofError

NCU_VARIABLE = "TRTPROF_NCU"

_PERMISSION = (
    "as root: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/nvidia-profiling.conf, "
    "rebuild the initramfs (update-initramfs -u, or dracut --regenerate-all -f) and reboot; or run as root; in a "
    "container: --cap-add=SYS_ADMIN (docs: developer.nvidia.com/ERR_NVGPUCTRPERM)"
)


class _Explained(NamedTuple):
    """A message, what it means, and how to mend it."""

    pattern: str
    kind: Literal["missing", "capture"]
    what: str
    fix: str


_EXPLAINED = (
    _Explained(
        r"ERR_NVGPUCTRPERM|not have permission to access NVIDIA GPU Performance Counters",
        "missing",
        "this user may not read the GPU's performance counters",
        _PERMISSION,
    ),
    _Explained(
        r"driver resource was unavailable|concurrently collecting profiling data",
        "missing",
        "another tool holds the GPU's performance counters",
        "end the other profiler; where DCGM runs (nv-hostengine, dcgm-exporter): dcgmi profile --pause, and "
        "--resume afterwards",
    ),
    _Explained(
        r"failed to connect to the CUDA driver",
        "missing",
        "ncu finds no NVIDIA driver",
        "install the driver; in a container, run it with --gpus all; a stub libcuda.so must not be on LD_LIBRARY_PATH",
    ),
    _Explained(
        r"[Cc]uda driver is not compatible|incompatible .*driver",
        "missing",
        "this ncu and the driver do not fit together",
        f"use the Nsight Compute of the CUDA version that nvidia-smi shows; name it by {NCU_VARIABLE}",
    ),
    _Explained(
        r"as it uses the Windows Subsystem for Linux",
        "missing",
        "ncu cannot profile under this Windows Subsystem for Linux",
        "run it on Linux itself, or under WSL 2 of Windows 11 with a current driver and ncu",
    ),
    _Explained(
        r"Profiling is not supported on (?:this )?device",
        "missing",
        "this ncu does not know the GPU",
        f"use a newer Nsight Compute (ncu --list-chips shows what it knows); name it by {NCU_VARIABLE}",
    ),
    _Explained(
        r"Profiling is not supported on .*(?:vGPU|MIG)|Cannot lock GPU clock frequencies on MIG",
        "missing",
        "the GPU is shared in a way that ncu cannot profile",
        "run it on a whole GPU",
    ),
    _Explained(
        r"[Uu]nknown [Ee]rror on device|Failed to prepare kernel for profiling",
        "capture",
        "ncu cannot set up the counters",
        "an ncu that is older than the driver fails so, and so do older ones while DCGM holds the counters: take a "
        f"newer Nsight Compute ({NCU_VARIABLE} names it), and pause DCGM (dcgmi profile --pause)",
    ),
    _Explained(
        r"unrecogni[sz]ed option|Failed to find metric",
        "missing",
        "ncu refuses an option",
        f"name another ncu by {NCU_VARIABLE}",
    ),
    _Explained(
        r"No space left on device|disk is full",
        "missing",
        "the disk is full",
        "free space on it, or choose another folder (-o)",
    ),
    _Explained(
        r"terminated before first instrumented API call",
        "capture",
        "the program ended before it used the GPU",
        "run the same without --confirm: its error says more",
    ),
)
_SAID = re.compile(r"^==(?:ERROR|WARNING)== *(.+?)\s*$", re.MULTILINE)
_IDLE = re.compile(r"No kernels were profiled|requires the --target-processes all|For more information, see")
_AVAILABLE = re.compile(r"^Available Kernels:\s*$((?:\s*^\s*\d+\. .+$)+)", re.MULTILINE)


def explained(said: str, what: str) -> TrtprofError | None:
    """The error behind what ncu said; None where it reports none."""
    for known in _EXPLAINED:
        found = re.search(rf"^.*(?:{known.pattern}).*$", said, re.MULTILINE)
        if found is not None:
            kind = MissingError if known.kind == "missing" else CaptureError
            line = found[0].strip().removeprefix("==ERROR==").removeprefix("==WARNING==").strip()
            return kind(f"{what}: {known.what}", why=f"ncu says: {line}", fix=known.fix)
    return None


def no_kernels(said: str, what: str, fix: str) -> TrtprofError:
    """Why nothing was counted: a known error, else what ncu said last."""
    known = explained(said, what)
    if known is not None:
        return known
    lines = [line for line in _SAID.findall(said) if not _IDLE.search(line)]
    if lines:
        return CaptureError(what, why=f"ncu says: {lines[-1]}", fix=fix)
    seen = _AVAILABLE.search(said)
    if seen is not None:
        names = [line.strip() for line in seen[1].splitlines() if line.strip()]
        return CaptureError(
            what, why=f"no kernel has a name that was asked for; it saw {', '.join(names[:3])}", fix=fix
        )
    if "No kernels were profiled" in said:
        return CaptureError(what, why="ncu saw no kernel in the profiled inferences", fix=fix)
    return CaptureError(what, why="ncu printed no counters", fix=fix)
