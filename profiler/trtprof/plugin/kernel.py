"""A kernel as it is written, and the templates that write it.

A template is one file of `trtprof.plugin.templates`. It registers a function from a task to the kernels that compute
it, which are variants of one another (rows a block, threads a row), best guess first:

    @template("gemv", "a matrix times a thin one: what is large is streamed once")
    def gemv(task: Task) -> Sequence[Kernel]: ...

It raises `NotFitError`, with the reason in words, for what it does not know. What it knows it does for every size:
dimensions that are 0 or odd, and pointers that are aligned to no more than their elements.

TensorRT calls a kernel with its inputs, then 32-bit integers, then its outputs, and passes nothing else. That is the
one order here, too: ``extern "C" __global__ void entry(const T *x, ..., int extra, ..., T *y, ...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trtprof.base.registry import Registry
from trtprof.plugin.sizes import Size
from trtprof.plugin.task import Task


class NotFitError(Exception):
    """A template does not know such a task; the message says what it does not know."""


class Extra(NamedTuple):
    """A 32-bit integer that a kernel is given: a size that is not known before the shapes are."""

    name: str
    size: Size


@dataclass(frozen=True)
class Kernel:
    """One kernel, in CUDA C++ that includes nothing, so that NVRTC and nvcc take it alike."""

    template: str  # What wrote it
    tactic: int  # Its number among the variants of the task, from 1
    label: str  # What tells it from the other variants, in a few words: ``4 threads a row``
    entry: str  # Its function
    source: str  # The text, with the helpers that it needs
    inputs: tuple[str, ...]  # Names of the operands that it reads, in the order of `Task.inputs` and of its parameters
    outputs: tuple[str, ...]  # Names of the operands that it writes
    grid: tuple[Size, Size, Size]  # Blocks in x, y and z; at least 1 each, for every shape
    block: tuple[int, int, int]  # Threads of a block in x, y and z
    why: str  # Why it is fast, in a sentence or two
    in_flight: int  # Bytes that a thread asks of DRAM before it waits for the first
    extras: tuple[Extra, ...] = ()  # What stands between them and the outputs
    # Bytes of DRAM that it reads of each input, for caches that keep nothing; each input once where it is left out
    reads: dict[str, Size] = field(default_factory=dict)
    least: tuple[int, int] = (7, 5)  # The lowest compute capability that it is for
    most_error: float = 4.0  # Of each output, how many times the rounding floor of `numerics` it may be off

    def launch(self, shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], tuple[int, ...]]:
        """The grid and the extras for inputs of these shapes."""
        x, y, z = (max(one.value(shapes), 1) for one in self.grid)
        return (x, y, z), tuple(extra.size.value(shapes) for extra in self.extras)


Write = Callable[[Task], Sequence[Kernel]]


class Template(NamedTuple):
    """What writes kernels of one kind."""

    name: str  # What it is called in commands and documents
    title: str  # What it computes, in a few words
    write: Write  # From a task to kernels; raises `NotFitError`


TEMPLATES: Registry[str, Template] = Registry("template", "trtprof.plugin.templates", "trtprof.templates")
"""All templates by name."""


def template(name: str, title: str) -> Callable[[Write], Write]:
    """Decorator that files a function as a `Template`."""

    def add(write: Write) -> Write:
        TEMPLATES.register(name)(Template(name, title, write))
        return write

    return add


class Written(NamedTuple):
    """What templates made of a task."""

    kernels: tuple[Kernel, ...]  # Of the first template that knows it, variants by their tactic
    refused: dict[str, str]  # What each of the others does not know, by its name


ORDER = ("gemv", "depthwise", "softmax", "norm", "reduce", "copy", "pointwise")
"""Templates that may know the same task, the more special first; those that others bring come before all."""


def write(task: Task) -> Written:
    """Have a kernel written by the first template that knows the task."""
    refused: dict[str, str] = {}
    for one in sorted(TEMPLATES.values(), key=lambda found: ORDER.index(found.name) if found.name in ORDER else -1):
        try:
            return Written(tuple(one.write(task)), refused)
        except NotFitError as error:
            refused[one.name] = str(error)
    return Written((), refused)
