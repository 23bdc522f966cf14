"""The sectors of memory that a kernel moves, counted while it is executed, beside what is predicted.

Predicted: what the kernel says that it reads (`Kernel.reads`; else each operand once), and each output once. Counted:
different sectors of 32 bytes over the whole launch, or a part of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trtprof.base.records import Traffic
from trtprof.base.units import dtype_bytes, format_shape
from trtprof.plugin import numerics, trials
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.ptx.count import SECTOR
from trtprof.plugin.ptx.parse import Program
from trtprof.plugin.task import Task
from trtprof.plugin.trials import Trial

TOLERANCE = 0.02
"""By how much counted bytes may be off those predicted, beside a sector at each end of a piece of memory."""
ASKED = 6
"""How many times the bytes of DRAM L1 may be asked for before it is told: 8 where threads that are neighbours read
elements of fp32 that are not. It gives 128 bytes a clock to each SM: 40 times the bandwidth of DRAM on an RTX 4090, 10
times on an H100, less on what came later; where it is in the way depends on the GPU, so that it is no verdict."""
THREADS = 2_000_000  # Threads up to which all blocks are executed


def predicted(task: Task, kernel: Kernel, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Different bytes of each operand that a kernel is to move."""
    sizes = _sizes(task, kernel, shapes)
    return {
        name: min(size, kernel.reads[name].value(shapes)) if name in kernel.reads else size
        for name, size in sizes.items()
    }


def count(
    task: Task,
    kernel: Kernel,
    program: Program,
    *,
    given: Mapping[str, int] | None = None,
    seed: int = 0,
    most_threads: int = THREADS,
) -> Traffic:
    """Execute a kernel and count what it moves."""
    shapes = task.shapes(given or {}, 64)
    trial = Trial(task, shapes)
    grid, _ = kernel.launch(shapes)
    total, threads = math.prod(grid), math.prod(kernel.block)
    executed = min(total, max(most_threads // threads, 1))
    first = (total - executed) // 2
    blocks = None if executed == total else range(first, first + executed)
    found = numerics.execute(kernel, program, trial, trials.drawn(trial, seed), blocks=blocks).counted
    scale = total / executed
    sizes = _sizes(task, kernel, shapes)
    moved = dict.fromkeys(sizes, 0.0)
    for sectors in (found.sectors_read, found.sectors_written):
        for name, number in sectors.items():
            if name in moved:  # the others are constants of the kernel
                moved[name] += max(min(number * SECTOR * scale, sizes[name]), number * SECTOR)
    requested = (found.requested_sectors_read + found.requested_sectors_written) * SECTOR * scale
    wanted = sum(predicted(task, kernel, shapes).values())
    counted = sum(moved.values())
    wrong = _wrong(task, wanted, counted, len(moved))
    told = list(wrong)
    if requested > ASKED * counted:
        told.append(f"L1 is asked for {requested / max(counted, 1):.3g} times what DRAM gives")
    if blocks is not None:
        told.append(f"{executed} of {total} blocks were executed")
    told += [
        f"{name} is read {size.value(shapes) / sizes[name]:.3g} times where no cache keeps it"
        for name, size in kernel.reads.items()
        if sizes.get(name) and size.value(shapes) > sizes[name]
    ]
    return Traffic(
        tactic=kernel.tactic, shapes=" ".join(map(format_shape, shapes)), predicted_bytes=wanted,
        counted_bytes=round(counted), requested_bytes=round(requested),
        bank_conflicts=round(found.bank_conflicts * scale), ok=not wrong, reason="; ".join(told),
    )  # fmt: skip


def _sizes(task: Task, kernel: Kernel, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Bytes of each operand that a kernel is given."""
    operands = [
        *((one, shape) for one, shape in zip(task.inputs, shapes, strict=True) if one.name in kernel.inputs),
        *zip(task.outputs, task.output_shapes(shapes), strict=True),
    ]
    return {one.name: dtype_bytes(one.dtype, math.prod(shape)) for one, shape in operands}


def _wrong(task: Task, wanted: int, counted: float, operands: int) -> list[str]:
    slack = TOLERANCE * wanted + 2 * SECTOR * operands
    found = []
    if counted > wanted + slack:
        found.append(f"it moves {counted / max(wanted, 1):.3g} times what is predicted")
    # Which elements a gather reads is in its values.
    if counted < wanted - slack and not any(node.op_type.startswith("Gather") for node in task.body.node):
        found.append(f"it moves only {counted / wanted:.3g} of what is predicted")
    return found
