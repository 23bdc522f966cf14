"""Kernels of templates, compiled and executed without a GPU, beside what float64 gives."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trtprof.plugin import numerics, trials
from trtprof.plugin.kernel import TEMPLATES, Kernel
from trtprof.plugin.numerics import Execution
from trtprof.plugin.ptx import Counted, Program
from trtprof.plugin.reference import Array, difference, evaluate
from trtprof.plugin.task import Task
from trtprof.plugin.trials import Trial


def kernels(template: str, task: Task) -> Sequence[Kernel]:
    """What one template writes for a task."""
    found = TEMPLATES.get(template)
    assert found is not None
    return found.write(task)


@functools.lru_cache(maxsize=64)
def compiled(source: str, architecture: str = "sm_89") -> Program:
    """PTX of a source, read."""
    return Program.parse(numerics.compiled(source, architecture))


def execute(
    kernel: Kernel, task: Task, arrays: Sequence[Array], *, shift: int = 0, order: int = 0, architecture: str = "sm_89"
) -> Execution:
    """What a kernel leaves, which has to write every element of its outputs.

    Args:
        kernel: The kernel.
        task: That it is for.
        arrays: Of the inputs.
        shift: Elements by which every pointer is off the alignment of an allocation.
        order: In which warps take turns; see `trtprof.plugin.trials`.
        architecture: To compile for.
    """
    trial = Trial(task, tuple(array.shape for array in arrays), shift=shift, order=order)
    program = compiled(kernel.source, architecture)
    assert numerics.signature(task, kernel, program) == ""
    found = numerics.execute(kernel, program, trial, arrays)
    assert all(written.all() for written in found.written)
    return found


def counted(
    kernel: Kernel, task: Task, given: Mapping[str, int] = {}, *, arrays: Sequence[Array] | None = None, **options: Any
) -> tuple[float, Counted]:
    """The largest error that a kernel makes in an element, in units of the rounding floor; and what it moves.

    Args:
        kernel: The kernel.
        task: That it is for.
        given: Values of named dimensions; 2 of others.
        arrays: Of the inputs; drawn by default.
        options: Of `execute`.
    """
    if arrays is None:
        arrays = trials.drawn(Trial(task, task.shapes(given)), 0)
    found = execute(kernel, task, arrays, **options)
    apart = [difference(one, array) for one, array in zip(evaluate(task, arrays), found.outputs, strict=True)]
    return max(one.worst for one in apart), found.counted


def worst(kernel: Kernel, task: Task, given: Mapping[str, int] = {}, **options: Any) -> float:
    """The same without what it moves."""
    return counted(kernel, task, given, **options)[0]


def under_way(ptx: str, kind: str) -> int:
    """The most bytes that may be asked for before the first is waited for.

    Counted are loads between one branch or label and the next whose addresses follow from no load among them, in
    whatever order the text has them: the assembler moves them together.

    Args:
        ptx: Of one kernel.
        kind: How the instructions begin: ``ld.global.cs``.
    """
    best = now = 0
    loaded: set[str] = set()
    for line in ptx.splitlines():
        found = re.match(r"\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+(.*);", line)
        operation, operands = found.groups() if found else ("", "")
        if operation.startswith(("bra", "bar")) or re.match(r"\s*\$?\w+:", line):
            now, loaded = 0, set()
            continue
        target, _, source = operands.partition("[" if operation.startswith("ld") else ",")
        if operation.startswith(kind) and not loaded & set(re.findall(r"%\w+", source)):
            parts, bits = re.search(r"\.v(\d)", operation), re.search(r"(\d+)$", operation)
            now += (int(parts[1]) if parts else 1) * (int(bits[1]) if bits else 0) // 8
            best = max(best, now)
        if operation.startswith("ld.global") or loaded & set(re.findall(r"%\w+", source)):
            loaded.update(re.findall(r"%\w+", target))
    return best
