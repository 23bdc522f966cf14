"""A compiled kernel, executed on many inputs and held against float64.

The PTX that is executed is what ships. Constant dimensions are part of it, so that the same template is also asked for
kernels of the same task with other dimensions: what is wrong for one of 33 is seldom seen at 4,096.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import CheckStep, NumericCase
from trtprof.base.units import DTYPE_BITS
from trtprof.plugin import reference, trials
from trtprof.plugin.kernel import TEMPLATES, Kernel, NotFitError
from trtprof.plugin.ptx.count import Counted
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.machine import launch
from trtprof.plugin.ptx.memory import Memory
from trtprof.plugin.ptx.parse import Program
from trtprof.plugin.reference import Array, Expected
from trtprof.plugin.task import Task
from trtprof.plugin.trials import Trial
from trtprof.runtime import nvrtc

WHOLE = 4_000_000  # Elements of all operands up to which a task is evaluated as a whole
LARGEST = 400_000_000  # Elements of all operands above which a task is not executed at its own shapes
FEW = 64  # Blocks that are not too many
KEPT = 20  # Cases that failed which are kept

_LESS = "--shapes makes it less"

Compile = Callable[[str, str], str]  # From CUDA C++ and an architecture (``sm_89``) to PTX


class Execution(NamedTuple):
    """What a kernel left."""

    outputs: tuple[Array, ...]  # In the order of the task
    written: tuple[Array, ...]  # Of each element, whether it was written
    counted: Counted  # What was moved


class Outcome(NamedTuple):
    """A trial of a kernel."""

    ok: bool  # Whether each element is within what the kernel may be off
    worst: float | None  # The largest error in units of the rounding floor; None where it did not run to its end
    compared: int  # Elements that were compared
    reason: str = ""  # Why not


def compiled(source: str, architecture: str) -> str:
    """PTX of a kernel, by NVRTC."""
    virtual = architecture.replace("sm_", "compute_")
    return nvrtc.compile_source(source.encode(), virtual, fast_math=False).ptx


def signature(task: Task, kernel: Kernel, program: Program) -> str:
    """What is wrong with the parameters of a compiled kernel; empty if nothing.

    TensorRT gives a kernel its inputs, its 32-bit integers and its outputs, in that order, whatever it declares.
    """
    entry = program.entries.get(kernel.entry)
    if entry is None:
        return f"it has no entry {kernel.entry}"
    wanted = [64] * len(kernel.inputs) + [32] * len(kernel.extras) + [64] * len(kernel.outputs)
    found = [int(re.sub(r"\D", "", one.type) or 0) for one in entry.parameters]
    if found != wanted:
        shown = " ".join(one.type for one in entry.parameters)
        return (
            f"it has parameters {shown or 'none'}, and is given {len(kernel.inputs)} pointers, {len(kernel.extras)} "
            f"32-bit integers and {len(kernel.outputs)} pointers"
        )
    known = {one.name for one in task.inputs}
    order = [one.name for one in task.inputs if one.name in kernel.inputs]
    if list(kernel.inputs) != order or not known.issuperset(kernel.inputs):
        return f"it takes {', '.join(kernel.inputs)}, the task has {', '.join(one.name for one in task.inputs)}"
    if list(kernel.outputs) != [one.name for one in task.outputs]:
        return f"it writes {', '.join(kernel.outputs)}, the task has {', '.join(one.name for one in task.outputs)}"
    return ""


def execute(
    kernel: Kernel, program: Program, trial: Trial, inputs: Sequence[Array], *, blocks: Sequence[int] | None = None
) -> Execution:
    """Execute a kernel. `inputs`: the values, in the order of the task."""
    task = trial.task
    memory = Memory()
    arguments: list[int] = []
    shifts = [trial.shift if trial.only in {-1, place} else 0 for place in range(len(inputs) + len(task.outputs))]
    for operand, array, shift in zip(task.inputs, inputs, shifts, strict=False):
        if operand.name in kernel.inputs:
            arguments.append(memory.add(operand.name, array, shift=shift * array.dtype.itemsize))
    grid, extras = kernel.launch(trial.shapes)
    arguments.extend(extras)
    shapes = task.output_shapes(trial.shapes)
    for operand, shape, shift in zip(task.outputs, shapes, shifts[len(inputs) :], strict=True):
        item = DTYPE_BITS[operand.dtype] // 8
        arguments.append(memory.output(operand.name, item * math.prod(shape), shift=shift * item))
    found = launch(program, kernel.entry, grid, kernel.block, arguments, memory, blocks=blocks, order=trial.order)
    outputs = []
    written = []
    for operand, shape in zip(task.outputs, shapes, strict=True):
        dtype = reference.numpy_dtype(operand.dtype)
        outputs.append(memory.read(operand.name, dtype, shape))
        known = _written(memory, operand.name).reshape(*shape, dtype.itemsize)
        written.append(np.asarray(known.all(axis=-1)))
    return Execution(tuple(outputs), tuple(written), found)


def _written(memory: Memory, name: str) -> Array:
    """Of each byte of an output, whether it was written."""
    buffer = next(one for one in memory.buffers if one.name == name)
    begin = buffer.start - buffer.origin
    assert buffer.written is not None  # noqa: S101 - it is an output
    return buffer.written[begin : begin + buffer.nbytes] > 0


def tried(
    kernel: Kernel,
    program: Program,
    trial: Trial,
    inputs: Sequence[Array],
    expected: Sequence[Expected],
    *,
    blocks: Sequence[int] | None = None,
) -> Outcome:
    """Execute a kernel and compare what it leaves. `inputs`: the values, in the order of the task."""
    wrong = signature(trial.task, kernel, program)
    if wrong:
        return Outcome(False, None, 0, wrong)
    try:
        found = execute(kernel, program, trial, inputs, blocks=blocks)
    except Fault as fault:
        return Outcome(False, None, 0, str(fault))
    return judged(kernel, trial.task, found, expected, whole=blocks is None)


def judged(kernel: Kernel, task: Task, found: Execution, expected: Sequence[Expected], *, whole: bool) -> Outcome:
    """What was left, beside what is expected; ``whole`` if each element is to be written."""
    worst, compared = 0.0, 0
    for operand, one, array, written in zip(task.outputs, expected, found.outputs, found.written, strict=True):
        if one.value.shape != array.shape:
            shapes = f"{list(array.shape)}, and the nodes give {list(one.value.shape)}"
            return Outcome(False, None, compared, f"{operand.name} has the shape {shapes}")
        if whole and not written.all():
            missing = int(np.count_nonzero(~written))
            place = ", ".join(str(axis[0]) for axis in np.nonzero(~written))
            reason = f"{missing} of {written.size} elements of {operand.name} are never written, the first is [{place}]"
            return Outcome(False, None, compared, reason)
        apart = reference.difference(one, array, None if whole else written)
        worst = max(worst, apart.worst)
        compared += apart.compared
        if apart.worst > kernel.most_error:
            return Outcome(
                False, apart.worst if math.isfinite(apart.worst) else None, compared, f"{operand.name}: {apart.reason}"
            )
    return Outcome(True, worst, compared)


def respecialised(task: Task, kernel: Kernel) -> Kernel | None:
    """The same variant of a template for the task with other dimensions; None where it has none."""
    found = TEMPLATES.get(kernel.template)
    if found is None:
        return None
    try:
        variants = found.write(task)
    except (NotFitError, UsageError):
        return None
    alike = [one for one in variants if one.label == kernel.label] or [
        one for one in variants if one.tactic == kernel.tactic
    ]
    return alike[0] if alike else None


def check(
    task: Task,
    kernels: Sequence[Kernel],
    ptx: Mapping[tuple[int, str], str],
    *,
    seconds: float = 20.0,
    seed: int = 0,
    least: int = 2,
    compile_source: Compile = compiled,
) -> tuple[CheckStep, tuple[NumericCase, ...]]:
    """Try kernels on many inputs.

    `ptx`: what ships, by tactic and architecture (``sm_89``). What is the same for two architectures is tried once.
    `seconds`: after how many no further trial begins.
    """
    began = time.perf_counter()
    bench = _Bench(task, kernels, ptx, compile_source)
    many = too_many(task, task.shapes(dict.fromkeys(trials.names(task), 64)))
    if many:
        bench.left.append(f"other dimensions alone were tried: {many}")
    cases: list[NumericCase] = []
    for number, (trial, sampled) in enumerate(planned(task, seed)):
        for kernel in kernels:
            if number >= least and time.perf_counter() - began > seconds:
                return bench.step(cases, time.perf_counter() - began), _telling(cases)
            # All architectures take the first trials; of the others each takes its turn.
            programs = bench.programs[kernel.tactic]
            for one in programs if number < least else programs[number % len(programs) :][:1]:
                cases.extend(bench.cases(kernel, one, trial, seed + number, sampled=sampled))
        bench.forget()
    raise AssertionError("trials have no end")


def too_many(task: Task, shapes: Sequence[Sequence[int]]) -> str:
    """Why a task is not executed at these shapes of its inputs, in words; empty where it can be."""
    count = trials.elements(task, shapes)
    return f"{count:,} elements are too many to be executed; {_LESS}" if count > LARGEST else ""


def planned(task: Task, seed: int) -> Iterator[tuple[Trial, bool]]:
    """Trials, and whether only some blocks are executed."""
    shapes = task.shapes(dict.fromkeys(trials.names(task), 64))
    count = trials.elements(task, shapes)
    own = [Trial(task, shapes, one, shift) for one, shift in (("normal", 0), ("wide exponents", 1))]
    for number, trial in enumerate(trials.trials(task, seed)):
        if trials.SMALL < count <= LARGEST and number < len(own):
            yield own[number], True
        # Its nodes may say dimensions that no trial makes less.
        large = trials.SMALL < count <= LARGEST and trials.elements(trial.task, trial.shapes) > 10 * trials.SMALL
        yield (Trial(task, shapes, trial.values, trial.shift), True) if large else (trial, False)


class _Text(NamedTuple):
    """A compiled kernel, and the architectures for which it is the same."""

    architectures: tuple[str, ...]
    program: Program


class _Bench:
    """Where kernels of one task are tried."""

    def __init__(
        self, task: Task, kernels: Sequence[Kernel], ptx: Mapping[tuple[int, str], str], compile_source: Compile
    ) -> None:
        self.task = task
        self.compile_source = compile_source
        self.programs = {one.tactic: _programs(one.tactic, ptx) for one in kernels}
        self.left: list[str] = []
        self.compiles = True
        self._made: dict[tuple[int, str], tuple[Kernel, Program] | None] = {}
        self._inputs: list[Array] | None = None
        self._expected: list[Expected] | None = None
        self._parts: _Parts | None = None

    def forget(self) -> None:
        """Before another trial begins."""
        self._made.clear()
        self._inputs = self._expected = None

    def cases(self, kernel: Kernel, text: _Text, trial: Trial, seed: int, *, sampled: bool) -> Iterator[NumericCase]:
        """A kernel tried once; nothing where it is not for such a trial."""
        if self._inputs is None:
            self._inputs = trials.drawn(trial, seed)
        try:
            if not sampled and self._expected is None:
                self._expected = list(reference.evaluate(trial.task, self._inputs))
            if trial.task != self.task:
                settled = _settled(trial, self._expected or [])
                if settled is None:
                    return
                trial = settled
            made = self._compiled(kernel, text, trial.task)
            if made is None:
                return
            outcome = self._sampled(*made, trial, self._inputs) if sampled else self._whole(*made, trial, self._inputs)
        except UsageError as error:
            if trial.task == self.task:
                self._leave(f"{trial.what}: {error}")
            return
        yield NumericCase(
            tactic=kernel.tactic, architecture=" ".join(text.architectures), what=trial.what, ok=outcome.ok,
            worst=outcome.worst, reason=outcome.reason,
        )  # fmt: skip

    def step(self, cases: Sequence[NumericCase], seconds: float) -> CheckStep:
        """All of it."""
        failed = [one for one in cases if not one.ok]
        reasons = [f"{len(failed)} of {len(cases)} trials failed, the first with {failed[0].what}"] if failed else []
        if not cases:
            reasons.append("nothing was tried")
        verdict: Any = "failed" if failed else "passed" if cases else "not here"
        reason = "; ".join([*reasons, *self.left[:3]])
        return CheckStep(name="numerics", verdict=verdict, reason=reason, cases=len(cases), seconds=round(seconds, 3))

    def _compiled(self, kernel: Kernel, text: _Text, task: Task) -> tuple[Kernel, Program] | None:
        if task == self.task:
            return kernel, text.program
        architecture = text.architectures[0]
        key = kernel.tactic, architecture
        if key not in self._made:
            self._made[key] = None
            other = respecialised(task, kernel) if self.compiles else None
            if other is not None:
                try:
                    self._made[key] = other, Program.parse(self.compile_source(other.source, architecture))
                except MissingError as error:
                    self.compiles = False
                    self._leave(f"no other dimensions were tried: {error}")
        return self._made[key]

    def _leave(self, reason: str) -> None:
        if reason not in self.left:
            self.left.append(reason)

    def _whole(self, kernel: Kernel, program: Program, trial: Trial, inputs: Sequence[Array]) -> Outcome:
        return tried(kernel, program, trial, inputs, self._expected or [])

    def _sampled(self, kernel: Kernel, program: Program, trial: Trial, inputs: Sequence[Array]) -> Outcome:
        """Some blocks of a large launch, held against the part of the task that they wrote."""
        wrong = signature(trial.task, kernel, program)
        if wrong:
            return Outcome(False, None, 0, wrong)
        grid, _ = kernel.launch(trial.shapes)
        try:
            found = execute(kernel, program, trial, inputs, blocks=some_blocks(math.prod(grid)))
        except Fault as fault:
            return Outcome(False, None, 0, str(fault))
        if self._parts is None:
            self._parts = _Parts.of(trial.task)
        cut, expected = self._parts.evaluate(trial.task, inputs, found)
        return judged(kernel, trial.task, cut, expected, whole=False)


class _Parts(NamedTuple):
    """How a task falls into independent parts."""

    axis: int | None  # Of the outputs, along which they lie; None where there is none
    inputs: tuple[int | None, ...] = ()  # The axis of each input that is cut with it; None of one that all parts read

    @classmethod
    def of(cls, task: Task) -> _Parts:
        """By trial: a small task of the same kind is evaluated as a whole and in parts."""
        small = trials.shrunk(task, 3000)
        shapes = small.shapes({}, 3)
        inputs = trials.drawn(Trial(small, shapes), 0)
        try:
            whole = reference.evaluate(small, inputs)
        except UsageError:
            return cls(None)
        # Outputs are as the nodes make them of other dimensions. Two parts of two would tell nothing.
        results = [one.value.shape for one in whole]
        axis = next((k for k in range(len(results[0])) if all(len(r) > k and r[k] > 2 for r in results)), None)
        if axis is None:
            return cls(None)
        rows = [0, results[0][axis] - 1]
        choices = [
            [*(k for k, size in enumerate(shape) if size == results[0][axis]), None] for shape in shapes
        ]  # fmt: skip
        for chosen in itertools.islice(itertools.product(*choices), 200):
            found = cls(axis, chosen)
            try:
                part = reference.evaluate(small, found._cut(inputs, rows))
            except UsageError:
                continue
            if all(
                _alike(one.value, np.take(all_of.value, rows, axis)) for one, all_of in zip(part, whole, strict=True)
            ):
                return found
        return cls(None)

    def evaluate(self, task: Task, inputs: Sequence[Array], found: Execution) -> tuple[Execution, tuple[Expected, ...]]:
        """What was written, cut to the parts in which something was, and what these are to be."""
        if self.axis is None:
            if sum(one.size for one in (*inputs, *found.outputs)) > WHOLE:
                raise UsageError(
                    f"{task.name} is large", why="it does not fall into parts", fix="--shapes makes it less"
                )
            return found, reference.evaluate(task, inputs)
        axis = self.axis
        touched = np.zeros(found.outputs[0].shape[axis], bool)
        for one in found.written:
            touched |= one.any(axis=tuple(k for k in range(one.ndim) if k != axis))
        rows = np.flatnonzero(touched)
        parts = self._cut(inputs, rows)
        cut = Execution(
            tuple(np.take(one, rows, axis) for one in found.outputs),
            tuple(np.take(one, rows, axis) for one in found.written),
            found.counted,
        )
        if sum(one.size for one in (*parts, *cut.outputs)) > 4 * WHOLE:
            raise UsageError(
                f"{task.name} is large", why="some blocks write to many parts", fix="--shapes makes it less"
            )
        return cut, reference.evaluate(task, parts)

    def _cut(self, inputs: Sequence[Array], rows: Sequence[int] | Array) -> list[Array]:
        return [
            one if axis is None else np.take(one, rows, axis) for one, axis in zip(inputs, self.inputs, strict=True)
        ]


def _settled(trial: Trial, expected: Sequence[Expected]) -> Trial | None:
    """A trial at other dimensions with the outputs that its nodes make of them.

    None where an output would have a name for what is another number.
    """
    outputs = []
    shapes = trial.task.output_shapes(trial.shapes)
    for operand, one, shape in zip(trial.task.outputs, expected, shapes, strict=True):
        if len(operand.dims) != one.value.ndim:
            return None
        dims = []
        for dim, size, real in zip(operand.dims, shape, one.value.shape, strict=True):
            if size != real and isinstance(dim, str):
                return None
            dims.append(dim if size == real else real)
        outputs.append(replace(operand, dims=tuple(dims)))
    return trial._replace(task=replace(trial.task, outputs=tuple(outputs)))


def some_blocks(count: int) -> list[int] | None:
    """A few of so many blocks, the first and the last among them; None if they are few."""
    if count <= FEW:
        return None
    return sorted({0, 1, count // 2, count - 2, count - 1})


def _alike(left: Array, right: Array) -> bool:
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=1e-9, atol=1e-12, equal_nan=True))


def _programs(tactic: int, ptx: Mapping[tuple[int, str], str]) -> list[_Text]:
    """The different texts of a kernel."""
    found: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for (number, architecture), text in ptx.items():
        if number == tactic:
            same = re.sub(r"(?m)^\s*(//.*|\.target .*|\.version .*)$", "", text)
            found.setdefault(same, []).append(architecture)
            texts.setdefault(same, text)
    return [_Text(tuple(names), Program.parse(texts[same])) for same, names in found.items()]


def _telling(cases: Sequence[NumericCase]) -> tuple[NumericCase, ...]:
    """Those that failed, and of each variant the worst that passed."""
    failed = [one for one in cases if not one.ok][:KEPT]
    best: dict[tuple[int, str], NumericCase] = {}
    for one in cases:
        key = one.tactic, one.architecture
        if one.ok and (key not in best or (one.worst or 0.0) > (best[key].worst or 0.0)):
            best[key] = one
    return (*failed, *best.values())
