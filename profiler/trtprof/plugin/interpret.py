"""Run a Triton kernel in Triton's own interpreter, on the CPU, and look at each address before it is used.

Not seen: faults of the compiler, the rounding of approximate instructions, atomics (refused).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from trtprof.plugin.compile import TYPES
from trtprof.plugin.form import Kernel
from trtprof.plugin.task import Operand, Task, numpy_dtype

Array: TypeAlias = np.ndarray[Any, Any]
SECTOR = 32  # Bytes that DRAM and L2 move at least


class Fault(Exception):  # noqa: N818 - the kernel's, not ours
    """What a kernel does that it must not, in a sentence."""


class Launched(NamedTuple):
    """What came of a kernel."""

    outputs: tuple[Array, ...]
    written: tuple[Array, ...]  # Elements of each output that were written, as booleans
    sectors: Mapping[str, int]  # Distinct sectors that were read or written, by operand
    requested: int  # Distinct sectors of each load and store of each program, summed
    programs: int  # That ran


class _Buffer:
    """An operand in memory, and who touched what; an output where no array is given."""

    def __init__(self, operand: Operand, shape: Sequence[int], shift: int, given: Array | None) -> None:
        dtype = numpy_dtype(operand.dtype)
        self.name, self.type, self.item = operand.name, TYPES[operand.dtype], dtype.itemsize
        self.nbytes, self.output = math.prod(shape) * self.item, given is None
        raw = np.full(self.nbytes + 512 + shift, 0xFF, np.uint8)  # NaN, where the type has it
        start = 256 - raw.ctypes.data % 256 + shift
        self.base = raw.ctypes.data + start
        self.view = raw[start : start + self.nbytes].view(dtype).reshape(shape)
        if given is not None:
            self.view[...] = given
        self.owner = np.full(self.view.size * self.output, -1)  # The program that wrote an element
        self.sectors = np.zeros(self.nbytes // SECTOR + 2, bool)


class _Run:
    """Looks at what the present program reads and writes."""

    def __init__(self, buffers: Sequence[_Buffer]) -> None:
        self.buffers, self.program, self.requested = buffers, 0, 0

    def look(self, pointers: Array, mask: Array, store: bool) -> None:
        at = pointers.astype(np.int64).ravel()[np.broadcast_to(mask, pointers.shape).ravel()]
        if not at.size:
            return
        program, low, high = f"(program {self.program})", int(at.min()), int(at.max())
        one = next((one for one in self.buffers if low < one.base + one.nbytes and high >= one.base), None)
        if one is None:
            raise Fault(f"out of bounds: an address outside of all operands {program}")
        if low < one.base or high + one.item > one.base + one.nbytes:
            span = f"bytes {low - one.base} to {high - one.base + one.item} of {one.nbytes}"
            raise Fault(f"out of bounds: {one.name}, {span} {program}")
        if store != one.output:
            raise Fault(f"{f'writes {one.name}, an input' if store else f'reads {one.name}, an output'} {program}")
        elements, rest = np.divmod(at - one.base, one.item)
        if rest.any():
            raise Fault(f"misaligned: an address inside an element of {one.name} {program}")
        touched = at // SECTOR - one.base // SECTOR
        one.sectors[touched] = True
        self.requested += np.unique(touched).size
        if store:
            was = one.owner[elements]
            if ((was >= 0) & (was != self.program)).any():
                raise Fault(f"race: two programs write the same element of {one.name} {program}")
            one.owner[elements] = order = np.arange(elements.size)
            if (one.owner[elements] != order).any():
                raise Fault(f"race: one store writes an element of {one.name} twice {program}")
            one.owner[elements] = self.program


def launch(
    kernel: Kernel, task: Task, shapes: Sequence[Sequence[int]], arrays: Sequence[Array], blocks: Mapping[str, int], *,
    shift: int = 0, order: str = "", seed: int = 0, programs: int = 0, until: float = math.inf,
) -> Launched:  # fmt: skip
    """Run a kernel on inputs, with the blocks of a tactic or larger ones; raises Fault.

    ``shift``: bytes by which operands lie off a multiple of 256. ``order``: "random". ``seed``: of order, choice and
    poison. ``programs``: at most, in random order, the first and the last among them; 0 is all. Raises TimeoutError
    after ``until``, a `time.process_time`.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    integers, grid = kernel.launch(shapes, blocks)
    inputs = [_Buffer(one, shape, shift, array) for one, shape, array in zip(task.inputs, shapes, arrays, strict=True)]
    made = zip(task.outputs, task.output_shapes(shapes), strict=True)
    outputs = [_Buffer(one, shape, shift, None) for one, shape in made]
    given: list[_Buffer | int] = [*inputs, *integers, *outputs]
    arguments: dict[str, Any] = {name: one for name, one in {**kernel.sizes, **blocks}.items() if name != "num_warps"}
    names = kernel.function.arg_names
    if set(names[len(given) :]) != set(arguments):
        raise Fault(f"its parameters are {', '.join(names)}: {len(given)} and {', '.join(arguments)} are passed")
    for name, value in zip(names, given, strict=False):
        arguments[name] = interpreter._implicit_cvt(value)
        if isinstance(value, _Buffer):
            kind = tl.str_to_ty(f"*{value.type}", None)
            arguments[name] = tl.tensor(interpreter.TensorHandle(np.array([value.base], np.uint64), kind), kind)
    count = math.prod(grid)
    ends = (0, count - 1) if 0 < programs < count else ()
    draw = np.random.default_rng(seed).permutation if programs or order == "random" else np.arange
    every = list(dict.fromkeys([*ends, *draw(count).tolist()]))[: programs or count]
    run = _Run([*inputs, *outputs])
    with _interpreted(kernel.function, run, (np.nan, 3e38, -3e38)[seed % 3]) as function:
        interpreter.interpreter_builder.set_grid_dim(*grid)
        for run.program in every:
            if time.process_time() > until:
                raise TimeoutError
            interpreter.interpreter_builder.set_grid_idx(*map(int, np.unravel_index(run.program, grid)))
            function(**arguments)
    for one in outputs:
        if (one.owner < 0).any() and len(every) == count:
            raise Fault(f"{np.count_nonzero(one.owner < 0)} elements of {one.name} are never written")
    written = tuple((one.owner >= 0).reshape(one.view.shape) for one in outputs)
    sectors = {one.name: int(np.count_nonzero(one.sectors)) for one in run.buffers}
    return Launched(tuple(one.view for one in outputs), written, sectors, run.requested, len(every))


@contextmanager
def _interpreted(function: Any, run: _Run, poison: float) -> Iterator[Any]:
    """Yield a Triton function as one of Python. TRITON_INTERPRET would keep the whole process from compiling."""
    import triton.language as tl
    from triton import knobs
    from triton.runtime import interpreter, jit

    builder, bf16 = interpreter.InterpreterBuilder, numpy_dtype("bf16")
    load, store, convert = builder.create_masked_load, builder.create_masked_store, interpreter._convert_float

    def read(self: Any, pointers: Any, mask: Any, other: Any, *more: Any) -> Any:
        run.look(pointers.data, mask.data, False)
        if other is None:  # On a GPU, lanes that are masked off hold anything
            kind = pointers.get_element_ty()
            stored = interpreter._get_np_dtype(kind)
            filled = np.full(pointers.data.shape, poison, np.float32).astype(bf16 if kind == tl.bfloat16 else stored)
            other = interpreter.TensorHandle(filled.view(stored), kind)
        return load(self, pointers, mask, other, *more)

    def write(self: Any, pointers: Any, value: Any, mask: Any, *more: Any) -> Any:
        run.look(pointers.data, mask.data, True)
        return store(self, pointers, value, mask, *more)

    def rounded(given: Any, source: Any, target: Any, mode: Any) -> Any:
        # The interpreter cuts off what does not fit into bf16; a GPU rounds.
        exact = source == tl.float32 and target == tl.bfloat16
        return given.astype(bf16).view(np.uint16) if exact else convert(given, source, target, mode)

    def refused(*_: Any) -> Any:
        raise Fault("it uses atomics, which are not checked")

    def called(self: Any, *arguments: Any, **named: Any) -> Any:
        return interpreter.InterpretedFunction(self.fn).rewrite()(*arguments, **named)

    fast = replace(
        interpreter.interpreter_builder.options, sanitize_overflow=False
    )  # What it sanitizes, it never tells
    scopes = [interpreter._patch_lang(one.fn) for one in (function, tl.sum)]  # `tl.sum`: the module that has it
    scopes.append(scope := interpreter._LangPatchScope())
    for owner, name, value in (
        (builder, "create_masked_load", read), (builder, "create_masked_store", write),
        (builder, "create_atomic_rmw", refused), (builder, "create_atomic_cas", refused),
        (interpreter, "_convert_float", rounded), (jit.JITFunction, "__call__", called),
        (knobs.runtime, "interpret", True), (interpreter.interpreter_builder, "options", fast),
    ):  # fmt: skip
        scope.set_attr(owner, name, value)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield interpreter.InterpretedFunction(function.fn).rewrite()
    finally:
        for one in reversed(scopes):
            one.restore()
