"""``trtprof kernel``: what the names of kernels and tactics say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.base.units import format_bytes
from trtprof.cli.options import ForceOption, command
from trtprof.cli.output import errors_shown
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable

_MOST = 16 << 20
"""Bytes that are read from stdin: names without end are none."""


@command
def kernel(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Of kernels or tactics; -: one a line on stdin.", show_default=False),
    ] = None,
    output: OutputsOption = None,
    force: ForceOption = False,
    format_name: FormatOption = "text",
) -> None:
    """Say what the name of a kernel or a tactic tells, and what it does not.

    Family, op, the least architecture it was written for, tensor cores or scalar pipes, the instruction, dtypes,
    layout, tile, stages and split-k, of mangled, demangled, short and cut names.
    """
    with errors_shown():
        import msgspec

        from trtprof.base.records import SCHEMA_VERSION, KernelListing, NamedKernel
        from trtprof.kernel_names.parse import parse

        check_report("kernel", format_name, KernelListing)
        paths = writable(output, KernelListing, force=force, example="kernels.html")
        said = (parse(name).as_dict() for name in _asked(names or []))
        kernels = tuple(msgspec.convert(each, NamedKernel) for each in said)
        deliver(KernelListing(schema_version=SCHEMA_VERSION, kernels=kernels), format_name, paths)


def _asked(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        if name == "-":
            said = sys.stdin.buffer.read(_MOST + 1)
            if len(said) > _MOST:
                raise UsageError(
                    "stdin holds too much for names of kernels",
                    why=f"more than {format_bytes(_MOST)}",
                    fix="trtprof kernel - < names.txt, with one a line",
                )
            found.extend(said.decode("utf-8", "replace").splitlines())
        else:
            # Bytes of the command line that are no text could not be printed.
            found.append(name.encode("utf-8", "replace").decode("utf-8"))
    found = [name.strip() for name in found if name.strip()]
    if not found:
        given = "stdin" if "-" in names else "the command line"
        raise UsageError(
            "no name of a kernel",
            why=f"{given} holds none",
            fix="trtprof kernel ampere_sgemm_128x64_tn; or one a line on stdin: trtprof kernel - < names.txt",
        )
    return found
