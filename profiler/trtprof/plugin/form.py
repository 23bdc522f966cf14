"""A kernel in Triton as text: what a folder's kernel.py is written from, and what is read back of it.

kernel.py holds one Triton function, the sizes that the model fixes (constexpr), the tactics that TensorRT chooses from,
and `launch`, which gives the integers and the grid for shapes of the inputs. Checks, compiler and plugin.py read the
same file, so that what is edited there holds everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from trtprof.plugin.task import Task

Number = int | float | bool


class NoFitError(Exception):
    """Why a kernel does not know a task, in a sentence."""


class Form(NamedTuple):
    """A kernel for one task."""

    name: str  # Of the form: "gemv"; the Triton function is called the same
    doc: str  # What it computes, in one line over the operands
    # The Triton function, from ``@triton.jit`` on. Its parameters: inputs of the task, `integers`, outputs, then
    # constexpr: `sizes` and the blocks of a tactic
    body: str
    sizes: Mapping[str, Number]  # Constexpr that the task fixes
    tactics: Mapping[int, Mapping[str, int]]  # By number from 1: blocks (powers of two) and ``num_warps``
    # What follows from open dimensions: name and expression over shapes of the inputs, such as {"R": "a[0] * 1600"};
    # empty where all dimensions are numbers
    integers: Mapping[str, str]
    grid: tuple[str, str, str]  # Expressions over integers, sizes and blocks, with ``cdiv(a, b)``: "cdiv(R, BLOCK_M)"

    def text(self, task: Task) -> str:
        """kernel.py."""
        inputs = [one.name for one in task.inputs]
        sizes = ", ".join(f"{name}={value!r}" for name, value in self.sizes.items())
        tactics = "".join(
            f"    {number}: dict({', '.join(f'{name}={value}' for name, value in blocks.items())}),\n"
            for number, blocks in self.tactics.items()
        )
        # Only what the grid names is taken out of the sizes.
        words = " ".join(self.grid)
        taken = [f'    {name} = SIZES["{name}"]\n' for name in self.sizes if _names(words, name)]
        blocks = [name for name in next(iter(self.tactics.values())) if name != "num_warps"]
        integers = "".join(f"    {name} = {value}\n" for name, value in self.integers.items())
        given = f"({', '.join(self.integers)}{',' if len(self.integers) == 1 else ''})"
        return (
            f'"""{self.doc}\n\nEdit it; `trtprof plugin --only check -o .` says whether it is right.\n"""\n\n'
            f"import triton\nimport triton.language as tl\n\n"
            f"SIZES = dict({sizes})  # The model fixes them\n"
            f"TACTICS = {{  # TensorRT times them when it builds\n{tactics}}}\n\n\n"
            f"def launch(cdiv, {', '.join((*inputs, *blocks))}, **_):\n"
            f'    """Integers between inputs and outputs, and the grid, for inputs of these shapes."""\n'
            f"{''.join(taken)}{integers}"
            f"    return {given}, ({', '.join(self.grid)})\n\n\n"
            f"{self.body.strip()}\n"
        )


class Kernel(NamedTuple):
    """A kernel.py that was read."""

    function: Any  # The Triton function
    sizes: Mapping[str, Number]
    tactics: Mapping[int, Mapping[str, int]]
    module: ModuleType

    def launch(
        self, shapes: Sequence[Sequence[int]], blocks: Mapping[str, int]
    ) -> tuple[tuple[int, ...], tuple[int, int, int]]:
        """Integers and grid for inputs of these shapes, with these blocks."""
        taken = {name: value for name, value in blocks.items() if name != "num_warps"}
        integers, grid = self.module.launch(lambda a, b: -(-a // b), *map(tuple, shapes), **taken)
        return tuple(integers), tuple(grid)


def read_kernel(path: Path, entry: str) -> Kernel:
    """Import a kernel.py: it runs code of the folder. Needs Triton.

    Raises:
        Exception: Whatever the file raises; the callers say it.
    """
    name = f"trtprof_kernel_{abs(hash(path.resolve()))}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102 - no loader: it leaves __pycache__
    return Kernel(getattr(module, entry), module.SIZES, module.TACTICS, module)


def _names(words: str, name: str) -> bool:
    return name in words.replace("(", " ").replace(")", " ").replace(",", " ").split()
