"""Check a kernel.py without a GPU: its numbers, its traffic, what the compiler makes of it, TensorRT's registry."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import CheckStep, KernelVariant, NumericCase, PluginCheck, Traffic
from trtprof.base.units import dtype_bytes, is_float
from trtprof.plugin import contract
from trtprof.plugin import folder as folders
from trtprof.plugin.compile import Compiled, compile_kernel, require_triton
from trtprof.plugin.form import Kernel, read_kernel
from trtprof.plugin.interpret import SECTOR, Array, Fault, Launched, launch
from trtprof.plugin.reference import Expected, compare, expect
from trtprof.plugin.task import Task, numpy_dtype
from trtprof.plugin.write import PORTABLE, dtypes_offered

SECONDS = 20.0  # Of CPU time, for the interpreter
_MOST_BYTES = 2**30  # Of all operands
_AIM, _MOST_PROGRAMS = 32, 512  # Programs of a case: larger blocks until the first, then smaller open dimensions
_SAMPLE, _ODD_PROGRAMS = 16, 64  # Programs of a case that looks at some, and at odd sizes
_BLOCK = 2**18  # Elements of a block
_VECTORS = 512  # Elements of an operand: four for each of 128 threads
_ALIGNMENT = 16  # Bytes that kernels are promised of the address of an operand
_ENOUGH = 3  # Cases that fail
_CASES = {"small": (1e-3, (1, 1, 1, 1)), "large": (100.0, (7, 3, 5, 2)), "normal": (1.0, (33, 9, 6, 5))}
"""Values: their scale, and sizes of open dimensions, in turn."""
_POSITIVE = {"Log", "Sqrt", "Pow", "Div", "Reciprocal", "BatchNormalization"}  # Ops that give NaN for much else
_PARTIAL = {"Gather", "GatherElements", "GatherND", "Slice", "Split", "Pad", "Conv", "MaxPool", "AveragePool"}


def check(folder: Path, *, seconds: float = SECONDS, compiled: Compiled | None = None) -> PluginCheck:
    """Check a folder of `trtprof plugin`; ``compiled`` is its kernel.py where the caller has compiled it."""
    given = folders.load(folder)
    file, task = folder / "kernel.py", given.task
    result = check_numbers(file, given.entry, task, given.dims, seconds)
    steps = (*result.steps, check_compiled(file, given.entry, task, compiled), contract.registry(folder))
    return PluginCheck(steps=steps, numerics=result.numerics, traffic=result.traffic)


def check_numbers(
    file: Path, entry: str, task: Task, dims: Mapping[str, int], seconds: float = SECONDS
) -> PluginCheck:  # fmt: skip
    """Run a kernel.py in the interpreter: numerics and traffic; ``dims`` are named dimensions in the model."""
    begun = time.perf_counter()
    try:
        require_triton()
        cases = _Cases(read_kernel(file, entry), task, dims, time.process_time() + seconds)
        cases.run()
    except MissingError as error:
        return PluginCheck(steps=(CheckStep(name="numerics", verdict="not here", reason=f"{error.what}; {error.fix}"),))
    except Exception as error:  # whatever the file raises, or ONNX Runtime of the nodes
        why = f"{type(error).__name__}: {error}"
        return PluginCheck(steps=(CheckStep(name="numerics", verdict="failed", reason=why),))
    failed = [case for case in cases.results if not case.ok]
    worst = {case.tactic: case for case in sorted(cases.results, key=lambda case: case.worst or 0.0) if case.ok}
    told = [f"{case.what}: {case.reason}" for case in failed[:1]] + cases.notes
    numerics = CheckStep(
        name="numerics", verdict="failed" if failed else "passed" if cases.results else "not here",
        reason="; ".join(told), cases=len(cases.results), seconds=time.perf_counter() - begun,
    )  # fmt: skip
    traffic = CheckStep(name="traffic", verdict="not here", reason="no case with all programs ran to its end")
    for one in cases.traffic:
        traffic = CheckStep(name="traffic", verdict="passed" if one.ok else "failed", reason=one.reason, cases=1)
    return PluginCheck(steps=(numerics, traffic), numerics=(*failed, *worst.values()), traffic=tuple(cases.traffic))


def check_compiled(file: Path, entry: str, task: Task, compiled: Compiled | None = None) -> CheckStep:
    """Whether all tactics compile for all architectures: no spills, and vector loads where rows allow them."""
    begun = time.perf_counter()
    try:
        first, *others = dtypes_offered(task).values()
        every = [compiled or compile_kernel(file, entry, first)]
        every += [compile_kernel(file, entry, one, (PORTABLE,)) for one in others]
    except MissingError as error:
        return CheckStep(name="compiler", verdict="not here", reason=f"{error.what}; {error.fix}")
    except TrtprofError as error:
        return CheckStep(name="compiler", verdict="failed", reason=f"{error.what}: {error.why}")
    wrong = [text for one in every for text in find_wrong_builds(task, one.variants)]
    return CheckStep(
        name="compiler", verdict="failed" if wrong else "passed", reason="; ".join(wrong[:3]),
        cases=sum(len(one.builds) for one in every), seconds=time.perf_counter() - begun,
    )  # fmt: skip


def find_wrong_builds(task: Task, variants: Sequence[KernelVariant]) -> Iterator[str]:
    """Spills, and no vector load where the rows of the largest operand are multiples of 16 bytes, in words."""
    builds = [(variant.tactic, build) for variant in variants for build in variant.builds]
    for tactic, build in builds:
        if build.spill_bytes:
            yield f"tactic {tactic} spills {build.spill_bytes} bytes a thread on {build.architecture}"
    if task.main == "Conv":
        return  # Windows begin at any element
    largest = max(task.inputs, key=lambda one: math.prod(dim for dim in one.dims if isinstance(dim, int)))
    row = largest.dims[-1] if largest.dims else 1
    nbytes = dtype_bytes(largest.dtype, row) if isinstance(row, int) else 0
    sizes = [dim for dim in largest.dims if isinstance(dim, int)]
    if len(sizes) == len(largest.dims) and math.prod(sizes) < _VECTORS:
        return
    if nbytes and nbytes % _ALIGNMENT == 0 and all(build.loads.startswith("0 ") for _, build in builds):
        yield f"no load is a vector, though rows of {largest.name} have {nbytes} bytes"


class _Inputs(NamedTuple):
    """Inputs of a kernel, and what is expected of them."""

    task: Task
    shapes: tuple[tuple[int, ...], ...]
    arrays: list[Array]
    expected: list[Expected]
    said: str  # In words


class _Cases:
    """Runs a kernel on sizes, values, blocks and dtypes, as long as there is time."""

    def __init__(self, kernel: Kernel, task: Task, dims: Mapping[str, int], until: float) -> None:
        self.kernel, self.until, self.tasks = kernel, until, dtypes_offered(task)
        self.dims = {dim: dims.get(dim, 2) for one in task.inputs for dim in one.dims if isinstance(dim, str)}
        self.ops = {node.op_type for node in task.body.node}
        self.results: list[NumericCase] = []
        self.traffic: list[Traffic] = []
        self.notes: list[str] = []
        self.left = False  # Whether there was no time for some

    def run(self) -> None:
        """All cases, those that see most first."""
        tactics = self.kernel.tactics
        first, shipped = next(iter(tactics.items()))
        whole, large = self._fit(shipped)
        inputs = self._inputs(whole, "normal")
        for tactic, blocks in tactics.items():
            self._case(tactic, blocks, inputs, _SAMPLE)
        self._case(first, large, inputs, _MOST_PROGRAMS, whole=True)
        for (kind, (_, sizes)), suffix in product(_CASES.items(), self.tasks):
            if not self.dims and (kind == "normal") == (not suffix):
                continue  # Fixed sizes: they ran, or are in fp32
            if time.process_time() > self.until or sum(not case.ok for case in self.results) >= _ENOUGH:
                self.left = True
                break
            inputs = self._inputs({dim: sizes[at % 4] for at, dim in enumerate(self.dims)}, kind, suffix)
            for tactic, blocks in tactics.items():
                self._case(tactic, blocks, inputs, _ODD_PROGRAMS if self.dims else _SAMPLE)
        if self.left and all(case.ok for case in self.results):
            self.notes.append("the other cases were left out: the time for them was over")

    def _fit(self, shipped: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Sizes and blocks that the interpreter can run: a program takes it 2 to 60 ms, whatever its block."""
        sizes, blocks, task = dict(self.dims), dict(shipped), self.tasks[""]

        def programs(blocks: Mapping[str, int]) -> int:
            return math.prod(self.kernel.launch(task.shapes(sizes), blocks)[1])

        def nbytes() -> int:
            return sum(_operand_bytes(task, task.shapes(sizes)).values())

        names = [name for name in blocks if name != "num_warps"]
        while programs(blocks) > _AIM and math.prod(blocks[name] for name in names) < _BLOCK:
            best = min(({**blocks, name: 2 * blocks[name]} for name in names), key=programs)
            if programs(best) >= programs(blocks):
                break
            blocks = best
        while max(sizes.values(), default=1) > 1 and (programs(blocks) > _MOST_PROGRAMS or nbytes() > _MOST_BYTES):
            name = max(sizes, key=lambda one: sizes[one])
            sizes[name] = -(-sizes[name] // 2)
        cut = [name for name in sizes if sizes[name] != self.dims[name]]
        self.notes += [f"{name} was cut from {self.dims[name]} to {sizes[name]}" for name in cut]
        if nbytes() > 2 * _MOST_BYTES:
            raise ValueError(f"its operands have {nbytes()} bytes, too many for the interpreter")
        return sizes, blocks

    def _inputs(self, sizes: Mapping[str, int], kind: str, suffix: str = "") -> _Inputs:
        """Random inputs, and what the reference makes of them."""
        task = self.tasks[suffix]
        shapes, draw = task.shapes(sizes), np.random.default_rng(len(self.results))
        known = dict(zip(task.body.input, shapes, strict=True))
        limits = {
            node.input[1]: known[node.input[0]][sum(one.i for one in node.attribute if one.name == "axis")]
            for node in task.body.node if node.op_type == "Gather" and node.input[0] in known
        }  # fmt: skip
        arrays: list[Array] = []
        for one, shape in zip(task.inputs, shapes, strict=True):
            dtype = numpy_dtype(one.dtype)
            if is_float(one.dtype):
                values: Array = draw.standard_normal(shape, np.float32)
                if self.ops & _POSITIVE and kind != "large":
                    values = np.abs(values) + np.float32(0.1)
                scale = min(_CASES[kind][0], 16 if one.dtype == "fp16" else math.inf)
                values *= np.float32(scale)
            elif dtype.itemsize == 1:
                octets = draw.integers(0, 256, shape, np.uint8)
                values = octets > 127 if one.dtype == "bool" else octets.view(dtype)
            else:
                values = draw.integers(0, limits.get(one.name, 8), shape)
            arrays.append(np.asarray(values, dtype))  # numpy draws () as a number
        said = [*("x".join(map(str, one)) or "scalar" for one in shapes), f"{kind} values", task.inputs[0].dtype]
        return _Inputs(task, shapes, arrays, expect(task, shapes, arrays), ", ".join(said))

    def _case(
        self, tactic: int, blocks: Mapping[str, int], inputs: _Inputs, programs: int, whole: bool = False
    ) -> None:
        """Run the kernel once, and compare; the traffic of the whole is counted."""
        worst, reason = None, ""
        try:
            launched = launch(
                self.kernel, inputs.task, inputs.shapes, inputs.arrays, blocks, shift=0 if whole else _ALIGNMENT,
                order="random", seed=len(self.results), programs=programs, until=self.until,
            )  # fmt: skip
        except TimeoutError:
            self.left = True
            return
        except Fault as fault:
            reason = str(fault)
        except Exception as error:  # whatever the kernel raises
            reason = f"{type(error).__name__}: {error}"
        else:
            every = zip(inputs.task.outputs, inputs.expected, launched.outputs, launched.written, strict=True)
            worst, reason = max((compare(*one) for one in every), key=lambda one: (bool(one[1]), one[0]))
            if whole and all(one.all() for one in launched.written):
                self._count(tactic, inputs, launched)
        said = inputs.said + ("" if blocks == self.kernel.tactics[tactic] else ", larger blocks")
        worst = None if worst == math.inf else worst
        self.results.append(NumericCase(tactic=tactic, what=said, ok=not reason, worst=worst, reason=reason))

    def _count(self, tactic: int, inputs: _Inputs, launched: Launched) -> None:
        every, touched = _operand_bytes(inputs.task, inputs.shapes), launched.sectors
        less = [name for name, nbytes in every.items() if touched[name] * SECTOR < nbytes and not self.ops & _PARTIAL]
        self.traffic.append(Traffic(
            tactic=tactic, shapes=", ".join("x".join(map(str, one)) for one in inputs.shapes), ok=not less,
            predicted_bytes=sum(every.values()), counted_bytes=SECTOR * sum(touched.values()),
            requested_bytes=SECTOR * launched.requested, reason=f"not all of {less[0]} is read" if less else "",
        ))  # fmt: skip


def _operand_bytes(task: Task, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    every = zip((*task.inputs, *task.outputs), (*shapes, *task.output_shapes(shapes)), strict=True)
    return {one.name: dtype_bytes(one.dtype, math.prod(shape)) for one, shape in every}
