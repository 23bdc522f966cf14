"""Which nsys there is on this machine, and how its version calls options and reports.

Names are those of ``nsys --help`` of 2022.4.2 and 2023.4.4, which were run; what is said of later versions is from
NVIDIA's release notes of 2025.6 and from files of 2026.1 and 2026.2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.runtime import installed_tool
from trtprof.runtime.installed_tool import Version, answer

NSYS_VARIABLE = "TRTPROF_NSYS"

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
    """An option of ``nsys profile`` that not all versions have."""

    text: str  # As it is given
    since: Version  # First version of which it is known, for where the help cannot be asked
    required: bool = False  # Whether a capture is worthless or harmful without it


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

# --- which nsys -----------------------------------------------------------------------------


class Nsys(msgspec.Struct, frozen=True, kw_only=True):
    """An nsys that answers."""

    path: Path  # The program
    version: Version  # For example ``(2023, 4, 4, 54)``
    version_text: str  # For example ``2023.4.4.54``
    why: str  # Why this one, in words
    others: tuple[str, ...] = ()  # Further ones on this machine, with their versions
    help: str = ""  # What it says of ``nsys profile``; empty where it does not answer

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
    """The nsys to use: that of ``TRTPROF_NSYS``, else the one on the PATH, else the newest in the usual folders."""
    tool = installed_tool.Tool("nsys", "Nsight Systems", NSYS_VARIABLE, _USUAL_PLACES, _INSTALL, _own_version)
    found = installed_tool.find(tool)
    told, _ = answer([str(found.path), "profile", "--help"])
    return Nsys(
        path=found.path, version=found.version, version_text=found.version_text, why=found.why, others=found.others,
        # A help that is not whole tells nothing of the options that it leaves out.
        help=told if "--capture-range-end" in told else "",
    )  # fmt: skip


def _own_version(told: str) -> Version:
    return parse_version(told) if "Nsight Systems" in told else ()


def choice(nsys: Nsys) -> str:
    """The other versions that are here, as the end of a sentence."""
    return f"; here are also {', '.join(nsys.others)}" if nsys.others else ""
