"""Which nsys there is on this machine, and how its version calls options and reports.

Names are those of ``nsys --help`` of 2022.4.2 and 2023.4.4, which were run; what is said of later versions is from
NVIDIA's release notes of 2025.6 and from files of 2026.1 and 2026.2.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from glob import glob
from pathlib import Path
from typing import NamedTuple

import msgspec

from profiler.base.errors import MissingError
from profiler.capture.nsys._process import code_words

Version = tuple[int, ...]

NSYS_VARIABLE = "TRTPROF_NSYS"

_ANSWER_S = 60.0
"""How long ``nsys --version`` and ``--help`` may take, on a slow network disk too."""
_INSTALL = (
    "install Nsight Systems (developer.nvidia.com/nsight-systems; it is part of the CUDA toolkit; Debian and Ubuntu: "
    f"apt install nsight-systems), or give its path by {NSYS_VARIABLE}"
)
_USUAL_PLACES = (
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/lib/*/nsight-systems/target-linux-*/nsys",
)
"""Where NVIDIA's packages, the CUDA toolkit and Debian's put it."""


# --- names by version: the one table --------------------------------------------------------


class Option(NamedTuple):
    """An option of ``nsys profile`` that not all versions have.

    Attributes:
        text: As it is given.
        since: First version of which it is known, for where the help cannot be asked.
        required: Whether a capture is worthless or harmful without it.
    """

    text: str
    since: Version
    required: bool = False


OPTIONS = (
    # The default, stop-shutdown, kills the program at cudaProfilerStop.
    Option("--capture-range-end=stop", (2022, 4), required=True),
    # The default traces a graph as one piece, without a row for each of its kernels.
    Option("--cuda-graph-trace=node", (2022, 4)),
    # Kernels that are still in a buffer at cudaProfilerStop would be missing.
    Option("--flush-on-cudaprofilerstop=true", (2023, 4)),
    # nsys itself warns that it costs time and may make streams wait for each other.
    Option("--cuda-event-trace=false", (2025, 1)),
)
SOFTWARE_TRACE = Option("cuda-sw", (2025, 6))
"""As a value of --trace. The hardware trace, which later versions prefer, is reported (of 2026.3.1) to settle the times
of kernels when the program ends, too late for a range that is stopped before; MIG, MPS and virtual machines lack it."""

_REPORTS = {
    "cuda_api_sum": "cudaapisum",
    "cuda_gpu_kern_sum": "gpukernsum",
    "cuda_gpu_mem_time_sum": "gpumemtimesum",
    "cuda_gpu_sum": "gpusum",
    "cuda_gpu_trace": "gputrace",
    "cuda_kern_exec_sum": "kernexecsum",
    "cuda_kern_exec_trace": "kernexectrace",
    "nvtx_gpu_proj_trace": "nvtxgpuproj",
    "nvtx_kern_sum": "nvtxkernsum",
    "nvtx_pushpop_sum": "nvtxppsum",
    "nvtx_sum": "nvtxsum",
    "osrt_sum": "osrtsum",
}
"""Reports of ``nsys stats`` by their present name, with the name they had before `_RENAMED`."""
_RENAMED: Version = (2023, 1)


def report_name(version: Version, report: str) -> str:
    """What ``nsys stats`` of a version calls a report; one that was never renamed keeps its name."""
    return report if version >= _RENAMED else _REPORTS.get(report, report)


# --- which nsys -----------------------------------------------------------------------------


class Nsys(msgspec.Struct, frozen=True, kw_only=True):
    """An nsys that answers.

    Attributes:
        path: The program.
        version: For example ``(2023, 4, 4, 54)``.
        version_text: For example ``2023.4.4.54``.
        why: Why this one, in words.
        others: Further ones on this machine, with their versions.
        help: What it says of ``nsys profile``; empty where it does not answer.
    """

    path: Path
    version: Version
    version_text: str
    why: str
    others: tuple[str, ...] = ()
    help: str = ""

    def knows(self, option: Option) -> bool:
        """Whether this nsys has an option, by its own help, else by its version."""
        if not self.help:
            return self.version >= option.since
        return re.search(rf"{re.escape(option.text.partition('=')[0])}(?![\w-])", self.help) is not None


def parse_version(text: str) -> Version:
    """The version of Nsight Systems in a text; empty where there is none.

    It is printed as ``NVIDIA Nsight Systems version 2022.4.2.1-df9881f``, by the importer without the word, with
    or without a build number after the dash, and in one message of 2022.4 as ``2023@4@4@54-234433681190v0``.
    """
    found = re.search(r"\b(20\d\d(?:[.@]\d+)+)", text)
    return tuple(int(part) for part in re.split("[.@]", found[1])) if found else ()


def find() -> Nsys:
    """The nsys to use: that of ``TRTPROF_NSYS``, else the one on the PATH, else the newest in the usual folders.

    Raises:
        MissingError: There is none, the one of ``TRTPROF_NSYS`` does not answer, or none of them does.
    """
    asked = os.environ.get(NSYS_VARIABLE)
    if asked:
        path = shutil.which(asked)
        version, silent = _version(Path(path)) if path else ((), "it is not there, or not executable")
        if path is None or not version:
            raise MissingError(f"{NSYS_VARIABLE}={asked} is no nsys that runs", why=silent, fix=_INSTALL)
        return _nsys(Path(path), version, f"{NSYS_VARIABLE} names it", ())
    on_path = shutil.which("nsys")
    places = list(dict.fromkeys([*([on_path] if on_path else []), *_usual()]))
    found: list[tuple[Version, Path]] = []
    silent_ones: list[str] = []
    seen: set[str] = set()
    for place in places:
        if os.path.realpath(place) in seen:
            continue
        seen.add(os.path.realpath(place))
        version, silent = _version(Path(place))
        if version:
            found.append((version, Path(place)))
        else:
            silent_ones.append(f"{place}: {silent}")
    if not found:
        why = "; ".join(silent_ones) or f"there is none on the PATH, nor in {', '.join(_USUAL_PLACES)}"
        raise MissingError("Nsight Systems (nsys) is not installed here", why=why, fix=_INSTALL)
    if on_path and str(found[0][1]) == on_path:
        chosen, why = found[0], "it is the first on the PATH"
    else:
        chosen = max(found, key=lambda entry: entry[0])
        why = "it is the only one in the usual folders" if len(found) == 1 else "it is the newest in the usual folders"
        if silent_ones:
            why += f" ({'; '.join(silent_ones)})"
    others = tuple(f"{path} ({dotted(version)})" for version, path in found if path != chosen[1])
    return _nsys(chosen[1], chosen[0], why, others)


def _usual() -> list[str]:
    return [path for pattern in _USUAL_PLACES for path in sorted(glob(pattern)) if os.access(path, os.X_OK)]


def _nsys(path: Path, version: Version, why: str, others: tuple[str, ...]) -> Nsys:
    told, _ = _answer(path, "profile", "--help")
    return Nsys(
        path=path, version=version, version_text=dotted(version), why=why, others=others,
        # A help that is not whole tells nothing of the options that it leaves out.
        help=told if "--capture-range-end" in told else "",
    )  # fmt: skip


def _version(path: Path) -> tuple[Version, str]:
    """The version of a program that should be nsys, or why it has none."""
    told, why = _answer(path, "--version")
    version = parse_version(told) if "Nsight Systems" in told else ()
    return version, why or f"it answers --version with {' '.join(told.split())[:120]!r}"


def _answer(path: Path, *arguments: str) -> tuple[str, str]:
    """What it prints when asked, or why it does not."""
    try:
        asked = subprocess.run(
            [str(path), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_ANSWER_S, check=False,
        )  # fmt: skip
    except OSError as error:
        return "", error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return "", f"it does not answer within {_ANSWER_S:g} s"
    told = asked.stdout + asked.stderr
    return told, "" if asked.returncode == 0 else " ".join(told.split())[:200] or code_words(asked.returncode)


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


def choice(nsys: Nsys) -> str:
    """The other versions that are here, as the end of a sentence."""
    return f"; here are also {', '.join(nsys.others)}" if nsys.others else ""
