"""Chains of element-wise ops with broadcast, in one pass: what lies between the ops never leaves the registers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtprof.plugin import sizes
from trtprof.plugin.cuda_text import c_type
from trtprof.plugin.expressions import (
    C_TYPES,
    Chain,
    Value,
    broadcast,
    complete,
    computing,
    constant_value,
    constants,
    indented,
    loaded,
    opset_of,
    stored,
)
from trtprof.plugin.indexing import Extent, Group, Names, Walk, along, extent, grid_of, groups, index_type, nbytes
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.task import Operand, Task

THREADS = 256
PACK_BYTES = 16  # What one instruction of a thread moves at most
_HELD = ("pack", "row")  # Ways to read an operand that bring a whole pack at once


def chain_of(task: Task) -> Chain:
    """Lines for the whole body of a task, over operands of their own names."""
    chain = Chain(opset_of(task.body))
    for name, array in constants(task.body).items():
        if (value := constant_value(array)) is not None:
            chain.values[name] = value
    for operand in task.inputs:
        if operand.dtype not in C_TYPES:
            raise NotFitError(f"{operand.name} has elements of {operand.dtype}")
        chain.values[operand.name] = Value(operand.name, operand.dtype)
    for node in computing(task.body):
        unknown = [name for name in node.input if name and name not in chain.values]
        if unknown:
            raise NotFitError(f"{node.op_type} reads {unknown[0]}, a constant of more than one element")
        chain.add(node)
    return chain


@dataclass(frozen=True)
class _Plan:
    """What the variants share."""

    task: Task
    chain: Chain
    walk: Walk
    whole: Extent


@template("pointwise", "a chain of element-wise ops with broadcast, in one pass")
def pointwise(task: Task) -> Sequence[Kernel]:
    """Kernels for a body that holds element-wise ops alone."""
    chain = chain_of(task)
    dims = broadcast([operand.dims for operand in task.inputs])
    for output in task.outputs:
        if tuple(output.dims) != dims:
            raise NotFitError(f"output {output.name} of dims {list(output.dims)} where the inputs make {list(dims)}")
    frame = range(len(dims))
    varies = {one.name: along(dims, frame, one.dims) for one in (*task.inputs, *task.outputs)}
    names = Names(task)
    found = groups(dims, frame, varies)
    kind = index_type(extent(dims))
    plan = _Plan(task, chain, Walk(found, names, kind, "i"), extent(dims))
    width = max(PACK_BYTES // max(nbytes(one) for one in (*task.inputs, *task.outputs)), 1)
    inner = found[-1].extent if len(found) > 1 else None
    if inner is None or inner.divisible(width):
        shapes = [(width, 2), (width, 1), (width, 4), (1, 4)]
    else:  # a pack reaches across the end of a row, so that each of its elements has indices of its own
        fitting = next(one for one in (8, 4, 2, 1) if one <= width and inner.divisible(one))
        shapes = [(fitting, 4), (width, 1), (fitting, 1), (1, 4)]
    return [_kernel(plan, tactic, *one) for tactic, one in enumerate(dict.fromkeys(shapes), 1)]


def _kernel(plan: _Plan, tactic: int, width: int, steps: int) -> Kernel:
    """One variant: packs of ``width`` elements, of which a thread takes ``steps`` at once."""
    task, walk = plan.task, plan.walk
    inner = walk.groups[-1] if walk.groups else None
    rowwise = len(walk.groups) > 1 and inner is not None and not inner.extent.divisible(width)
    entry = f"pointwise_{width}x{steps}"
    ways = {one.name: _way(walk, one, inner, rowwise) for one in task.inputs}
    packed = [one for one in (*task.inputs, *task.outputs) if ways.get(one.name, "pack") == "pack"]
    total = walk.names.c(plan.whole, walk.kind)
    lines = [
        f"const {walk.kind} total = {total};",
        f"const {walk.kind} first = ({walk.kind})blockIdx.x * {THREADS * width * steps} + threadIdx.x * {width};",
        "const bool packed = " + " && ".join(f"aligned<{width * nbytes(one)}>({one.name})" for one in packed) + ";",
        *(f"const {c_type(one.dtype)} {one.name}_all = total ? {one.name}[0] : 0;" for one in task.inputs
          if ways[one.name] == "all"),
        *(f"{'Held' if ways[one.name] in _HELD else 'Pack'}<{c_type(one.dtype)}, {width}> {one.name}_pack[{steps}];"
          for one in task.inputs if ways[one.name] != "all"),
        "// All loads are asked for before the first is waited for.",
        "#pragma unroll",
        f"for (int step = 0; step < {steps}; ++step) {{",
        *indented(_loads(plan, ways, width)),
        "}",
        "#pragma unroll",
        f"for (int step = 0; step < {steps}; ++step) {{",
        *indented(_results(plan, ways, width)),
        "}",
    ]  # fmt: skip
    parameters = [
        *(f"const {c_type(one.dtype)} *__restrict__ {one.name}" for one in task.inputs),
        *walk.names.parameters,
        *(f"{c_type(one.dtype)} *__restrict__ {one.name}" for one in task.outputs),
    ]
    why = _why(width, steps, rowwise)
    formula = _formula(plan)
    text = [
        f"// {task.name}: {len(plan.chain.lines)} element-wise steps over {_shown(task)}.",
        *(f"// {line}" for line in textwrap.wrap(why, 116)),
        f'extern "C" __global__ void __launch_bounds__({THREADS}) {entry}(',
        *indented(f"{one}{',' if one is not parameters[-1] else ') {'}" for one in parameters),
        *indented(lines),
        "}",
    ]
    dtypes = {one.dtype for one in (*task.inputs, *task.outputs)}
    body = "\n".join([*formula, "", *text, ""])
    per_block = THREADS * width * steps
    return Kernel(
        template="pointwise",
        tactic=tactic,
        label=f"{width} elements a load, {steps} at once",
        entry=entry,
        source=complete(body, "pack", "aligned", "some", of=dtypes),
        inputs=tuple(one.name for one in task.inputs),
        outputs=tuple(one.name for one in task.outputs),
        extras=walk.names.extras,
        grid=grid_of(sizes.cdiv(plan.whole.size(task), per_block)),
        block=(THREADS, 1, 1),
        why=why,
        in_flight=sum(width * steps * nbytes(one) for one in task.inputs if ways[one.name] in ("pack", "each")),
    )


def _way(walk: Walk, operand: Operand, inner: Group | None, rowwise: bool) -> str:
    """How an operand is read.

    ``pack`` where it lies as the output does, ``row`` a pack somewhere else, ``splat`` one
    element for the whole pack, ``each`` element by itself, ``all`` one element for everything.
    """
    if not walk.varies(operand.name):
        return "all"
    if walk.contiguous(operand.name):
        return "pack"
    if rowwise or inner is None:
        return "each"
    return "row" if operand.name in inner.varies else "splat"


def _loads(plan: _Plan, ways: Mapping[str, str], width: int) -> list[str]:
    task, walk = plan.task, plan.walk
    shared = [one for one in task.inputs if ways[one.name] in ("row", "splat")]
    each = [one for one in task.inputs if ways[one.name] == "each"]
    lines = [
        f"const {walk.kind} at = first + step * {THREADS * width};",
        "if (at >= total) break;",
        *walk.split("at", [one.name for one in shared]),
    ]
    for one in task.inputs:
        name, pack, c = one.name, f"{one.name}_pack[step]", c_type(one.dtype)
        match ways[name]:
            case "pack":
                lines.append(f"{pack} = load_some<{width}>({name} + at, (long long)(total - at), packed);")
            case "row":
                offset = walk.offset(name, "at")
                size = width * nbytes(one)
                lines.append(
                    f"{pack} = load_some_again<{width}>({name} + ({offset}), {width}, aligned<{size}>({name}));"
                )
            case "splat":
                lines += [
                    f"const {c} {name}_one = {name}[{walk.offset(name, 'at')}];",
                    "#pragma unroll",
                    f"for (int i = 0; i < {width}; ++i) {pack}.at[i] = {name}_one;",
                ]
            case _:
                pass
    if each:
        lines += [
            "#pragma unroll",
            f"for (int i = 0; i < {width}; ++i) {{",
            f"    const {walk.kind} here = at + i < total ? at + i : at;",
            *indented(walk.split("here", [one.name for one in each])),
            *(f"    {one.name}_pack[step].at[i] = {one.name}[{walk.offset(one.name, 'here')}];" for one in each),
            "}",
        ]
    return lines


def _results(plan: _Plan, ways: Mapping[str, str], width: int) -> list[str]:
    task, walk = plan.task, plan.walk
    given = []
    for one in task.inputs:
        pack = f"{one.name}_pack[step]"
        ways_to = {"all": f"{one.name}_all", **dict.fromkeys(_HELD, f"{pack}[i]")}
        given.append(loaded(one, ways_to.get(ways[one.name], f"{pack}.at[i]")))
    return [
        f"const {walk.kind} at = first + step * {THREADS * width};",
        "if (at >= total) break;",
        *(f"Pack<{c_type(one.dtype)}, {width}> {one.name}_pack;" for one in task.outputs),
        "#pragma unroll",
        f"for (int i = 0; i < {width}; ++i)",
        f"    formula({', '.join([*given, *(f'{one.name}_pack.at[i]' for one in task.outputs)])});",
        *(f"store_some({one.name} + at, {one.name}_pack, (long long)(total - at), packed);" for one in task.outputs),
    ]


def _formula(plan: _Plan) -> list[str]:
    """The chain for one element, as a function."""
    task, chain = plan.task, plan.chain
    results = []
    for output in task.outputs:
        value = chain.values.get(output.name)
        if value is None:
            raise NotFitError(f"no node makes output {output.name}")
        results.append(f"{output.name} = {stored(output, value)};")
    parameters = [
        *(f"const {C_TYPES[one.dtype]} {one.name}" for one in task.inputs),
        *(f"{c_type(one.dtype)} &{one.name}" for one in task.outputs),
    ]
    return [
        "// One element, in registers from its operands to what is stored.",
        f"__device__ __forceinline__ void formula({', '.join(parameters)}) {{",
        *indented([*chain.lines, *results]),
        "}",
    ]


def _why(width: int, steps: int, rowwise: bool) -> str:
    first = "Every operand crosses DRAM once and every result once; what lies between the ops stays in registers."
    if width == 1:
        return f"{first} Neighbouring threads take neighbouring elements, and {steps} loads of each are in flight."
    moved = f"A load moves {width} neighbouring elements with one instruction, and a thread asks for {steps} at once."
    if rowwise:
        return f"{first} {moved} Operands that are broadcast are small and stay in L1; each element finds its own."
    return f"{first} {moved}"


def _shown(task: Task) -> str:
    shapes = (f"{one.dtype}[{', '.join(map(str, one.dims))}]" for one in (*task.inputs, *task.outputs))
    return re.sub(r"[^\w\[\], ]", "_", ", ".join(shapes))
