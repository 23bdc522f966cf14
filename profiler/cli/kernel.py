"""``trtprof kernel``: what the names of kernels and tactics say."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from profiler.base.errors import UsageError
from profiler.cli import app
from profiler.cli.output import ascii_only, errors_shown, result
from profiler.cli.output_files import check_format

if TYPE_CHECKING:
    from profiler.kernel_names.parse import KernelName

FORMATS = ("text", "json")
_UNITS = {
    "tensor": "tensor cores",
    "simt": "scalar pipes, no tensor cores",
    "none": "no matrix product",
    "unknown": "the name does not say on which unit",
}


@app.command()
def kernel(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Of kernels or tactics; -: one a line on stdin.", show_default=False),
    ] = None,
    format_name: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
) -> None:
    """Say what the name of a kernel or a tactic tells, and what it does not.

    Family, op, the least architecture it was written for, tensor cores or scalar pipes, the instruction, dtypes,
    layout, tile, stages and split-k, of mangled, demangled, short and cut names.
    """
    with errors_shown():
        from profiler.kernel_names.parse import parse

        check_format("kernel", format_name, FORMATS)
        parsed = [parse(name) for name in _asked(names or [])]
        if format_name == "json":
            result(json.dumps([each.as_dict() for each in parsed], indent=2))
            return
        text = "\n\n".join("\n".join(_lines(each)) for each in parsed)
        result(text.encode("ascii", "backslashreplace").decode() if ascii_only(sys.stdout) else text)


def _asked(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        if name == "-":
            found.extend(sys.stdin.buffer.read().decode("utf-8", "replace").splitlines())
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


def _lines(kernel: KernelName) -> list[str]:
    fields = kernel.as_dict()
    arch = f"sm{kernel.arch} or later" if kernel.arch is not None else "architecture not said"
    unit = _UNITS[kernel.unit] + (f" ({kernel.evidence})" if kernel.evidence else "")
    lines = [kernel.name, f"  {kernel.op}, family {kernel.family}, {arch}", f"  {unit}"]
    types = [f"{word} {fields[word]}" for word in ("in", "math", "acc", "out") if fields[word]]
    if types:
        lines.append("  dtypes: " + ", ".join(types))
    said = [
        f"{word} {fields[word]}" for word in ("mma", "layout", "tile", "cluster", "stages", "vector") if fields[word]
    ]
    if kernel.split_k is not None:
        said.append("split-k" if kernel.split_k else "no split-k")
    said += [f"align {operand} {elements}" for operand, elements in kernel.alignment]
    if said:
        lines.append("  " + ", ".join(said))
    if kernel.ops:
        lines.append("  ops: " + ", ".join(kernel.ops))
    return lines
