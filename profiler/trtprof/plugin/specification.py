"""A task, its kernels and what they were compiled to: all that a plugin is written from, in either form.

TensorRT checks no arguments: `Specification.check` reads the parameters out of the CUDA text and out of every PTX.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trtprof.base.errors import UsageError
from trtprof.plugin.cuda_text import c_type
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.task import DOMAIN, Operand, Task

if TYPE_CHECKING:
    import jinja2

VERSION = "1"  # Of every plugin: quick deployable ones have no other

MOST_EXTRA = 2**31 - 1


class TensorRTType(NamedTuple):
    """What TensorRT calls a dtype."""

    quick: str  # In combinations of quick deployable plugins
    python: str  # In ``tensorrt.DataType``
    cpp: str  # In ``nvinfer1::DataType``


TYPES: Mapping[str, TensorRTType] = {
    "fp32": TensorRTType("FP32", "FLOAT", "kFLOAT"),
    "fp16": TensorRTType("FP16", "HALF", "kHALF"),
    "bf16": TensorRTType("BF16", "BF16", "kBF16"),
    "fp8e4m3fn": TensorRTType("FP8", "FP8", "kFP8"),
    "int8": TensorRTType("INT8", "INT8", "kINT8"),
    "int32": TensorRTType("INT32", "INT32", "kINT32"),
    "int64": TensorRTType("INT64", "INT64", "kINT64"),
    "bool": TensorRTType("BOOL", "BOOL", "kBOOL"),
}
"""Of the keys of `units.DTYPE_BITS` those that plugins get, all of them known to TensorRT 10.0."""

_POINTER, _INTEGER = "64-bit pointer", "32-bit integer"
_PTX_TYPES = {"u64": _POINTER, "s64": _POINTER, "b64": _POINTER, "u32": _INTEGER, "s32": _INTEGER, "b32": _INTEGER}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PTX_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)")
_PTX_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})")


class Parameter(NamedTuple):
    """A parameter of a kernel in its CUDA text."""

    type: str  # What it is, or points to: ``float``
    name: str  # What it is called
    pointer: bool
    constant: bool  # Whether it points to what is only read

    def __str__(self) -> str:
        return f"{'const ' if self.constant else ''}{self.type} {'*' if self.pointer else ''}{self.name}"


class Specification(NamedTuple):
    """What a plugin is written from."""

    task: Task  # What it computes
    kernels: tuple[Kernel, ...]  # Its variants, by their tactic
    # Text by architecture (``sm_89``) and tactic. A variant that is not used on an architecture has none there
    ptx: Mapping[tuple[str, int], str]

    @property
    def plugin(self) -> str:
        """Namespace and name as one: ``trtprof::BatchedGemv_64``."""
        return f"{DOMAIN}::{self.task.name}"

    @property
    def file_name(self) -> str:
        """What files and the module are named: the name of the task in lower case."""
        return self.task.name.lower()

    @property
    def architectures(self) -> tuple[str, ...]:
        """Those that there is PTX for, the oldest first."""
        return tuple(sorted({name for name, _ in self.ptx}, key=capability))

    def tactics(self, architecture: str) -> tuple[Kernel, ...]:
        """The variants that are used on an architecture."""
        return tuple(kernel for kernel in self.kernels if (architecture, kernel.tactic) in self.ptx)

    def check(self) -> None:
        """Look for all that TensorRT would not notice."""
        for name in (self.task.name, *(kernel.entry for kernel in self.kernels)):
            if not _IDENTIFIER.fullmatch(name):
                raise _refused(self.task, f"{name!r} is no name of a function of C", "TensorRT and CUDA look it up")
        for operand in (*self.task.inputs, *self.task.outputs):
            if operand.dtype not in TYPES:
                raise _refused(
                    self.task, f"{operand.name} is {operand.dtype}", f"TensorRT gives plugins {', '.join(TYPES)}"
                )
            self.task.dims(operand)
        tactics = [kernel.tactic for kernel in self.kernels]
        if not tactics or len(set(tactics)) < len(tactics) or min(tactics) < 1:
            raise _refused(self.task, f"its tactics are {tactics}", "they have to be different numbers from 1")
        for kernel in self.kernels:
            check_source(self.task, kernel)
        if not self.ptx:
            raise _refused(self.task, "it has no PTX", "compile it for an architecture first")
        unknown = sorted({tactic for _, tactic in self.ptx} - set(tactics))
        if unknown:
            raise _refused(self.task, f"there is PTX of tactic {unknown[0]}", f"its tactics are {tactics}")
        for kernel in self.kernels:
            if not any(tactic == kernel.tactic for _, tactic in self.ptx):
                raise _refused(
                    self.task, f"tactic {kernel.tactic} ({kernel.label}) has PTX for no architecture",
                    "compile it, or leave the variant out",
                )  # fmt: skip
        by_tactic = {kernel.tactic: kernel for kernel in self.kernels}
        for (architecture, tactic), text in self.ptx.items():
            check_ptx(self.task, by_tactic[tactic], architecture, text)


def check_source(task: Task, kernel: Kernel) -> None:
    """Hold the parameters in the CUDA text of a kernel against its task: their types and their order."""
    inputs, outputs = _names(task.inputs), _names(task.outputs)
    if kernel.inputs != inputs or kernel.outputs != outputs:
        raise _refused(
            task, f"{kernel.entry} declares {', '.join(kernel.inputs)} -> {', '.join(kernel.outputs)}",
            f"TensorRT passes all operands of the task: {', '.join(inputs)} -> {', '.join(outputs)}",
        )  # fmt: skip
    found = parameters(kernel)
    wanted = (
        *(Parameter(c_type(one.dtype), one.name, pointer=True, constant=True) for one in task.inputs),
        *(Parameter("int", extra.name, pointer=False, constant=False) for extra in kernel.extras),
        *(Parameter(c_type(one.dtype), one.name, pointer=True, constant=False) for one in task.outputs),
    )
    known = {one.name for one in wanted}
    if len(found) != len(wanted) or not all(_serves(*pair, known) for pair in zip(found, wanted, strict=True)):
        raise _refused(
            task, f"{kernel.entry} takes ({', '.join(map(str, found))}) in its CUDA text",
            f"TensorRT calls it with ({', '.join(map(str, wanted))}): inputs, 32-bit integers, outputs",
        )  # fmt: skip


def _serves(given: Parameter, wanted: Parameter, known: Collection[str]) -> bool:
    """Whether a parameter is what TensorRT passes in its place, where these names are those of all that it passes."""
    return given._replace(name=wanted.name) == wanted and (given.name == wanted.name or given.name not in known)


def check_ptx(task: Task, kernel: Kernel, architecture: str, text: str) -> None:
    """Hold the parameters of a kernel in a PTX against its declaration, and what the PTX is for."""
    where = f"the PTX of tactic {kernel.tactic} for {architecture}"
    capability(architecture)
    target = _PTX_TARGET.search(text)
    if target is None or target[1] != architecture:
        raise _refused(task, f"{where} is for {target[1] if target else 'no architecture'}", "compile it anew")
    kinds = ptx_parameters(text, kernel.entry)
    if kinds is None:
        raise _refused(task, f"{where} has no entry {kernel.entry}", "TensorRT looks it up by this name")
    pointers, integers = (_POINTER,), (_INTEGER,)
    wanted = len(kernel.inputs) * pointers + len(kernel.extras) * integers + len(kernel.outputs) * pointers
    if kinds != wanted:
        raise _refused(task, f"{where} takes ({', '.join(kinds)})", f"TensorRT calls it with ({', '.join(wanted)})")


def capability(architecture: str) -> int:
    """Compute capability of an architecture, times 10: 89 of ``sm_89``."""
    found = _ARCHITECTURE.fullmatch(architecture)
    if not found:
        raise UsageError(
            f"{architecture!r} is no architecture that a plugin has PTX for", fix="write it as sm_89, without a letter"
        )
    return int(found[1])


def parameters(kernel: Kernel) -> tuple[Parameter, ...]:
    """The parameters of a kernel as its CUDA text has them."""
    bounds = r"(?:__launch_bounds__\s*\([^()]*\)\s*)?"
    text = _COMMENT.sub(" ", kernel.source)
    found = re.search(rf"__global__\s+{bounds}void\s+{bounds}{kernel.entry}\s*\(([^()]*)\)", text)
    if not found:
        raise UsageError(
            f"the CUDA text of tactic {kernel.tactic} has no kernel {kernel.entry}",
            fix=f'write it as extern "C" __global__ void {kernel.entry}(...)',
        )
    return tuple(_parameter(piece) for piece in found[1].split(",") if piece.strip())


def _parameter(text: str) -> Parameter:
    pointed, star, _ = text.partition("*")
    words = _IDENTIFIER.findall(text.replace("__restrict__", " "))
    of = _IDENTIFIER.findall(pointed) if star else words[:-1]
    constant = "const" in of
    kind = " ".join(one for one in of if one != "const")
    return Parameter(kind, words[-1], pointer=bool(star), constant=constant and bool(star))


def ptx_parameters(text: str, entry: str) -> tuple[str, ...] | None:
    """Kinds of the parameters of an entry of a PTX, in words; None where it has no such entry."""
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*(?:\(([^()]*)\))?", text)
    if not found:
        return None
    return tuple(_PTX_TYPES.get(kind, f".{kind}") for kind in _PTX_PARAMETER.findall(found[1] or ""))


def python_names(operands: Sequence[Operand], taken: Collection[str] = ()) -> tuple[str, ...]:
    """Names of operands as parameters in Python, where some words are taken."""
    return tuple(f"{one.name}_" if keyword.iskeyword(one.name) or one.name in taken else one.name for one in operands)


@functools.cache
def forms() -> jinja2.Environment:
    """The templates of the files of plugins."""
    import jinja2

    return jinja2.Environment(  # noqa: S701 - programs, not pages
        loader=jinja2.PackageLoader("trtprof.plugin", "forms"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _names(operands: Sequence[Operand]) -> tuple[str, ...]:
    return tuple(one.name for one in operands)


def _refused(task: Task, what: str, why: str) -> UsageError:
    return UsageError(f"no plugin is written for {task.name}: {what}", why=why)
