"""Softmax over one axis, and the frame of all kernels over rows: whole rows in a block, or rows in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onnx import NodeProto

from trtprof.base.records import Dim
from trtprof.plugin.chain import Chain, attribute, find, power
from trtprof.plugin.form import Form
from trtprof.plugin.task import Task

_MOST = 16384  # Elements of a block: 32 for each thread of 16 warps
_SIDE = 32  # Elements that lie side by side, which a block takes at least where those of a row do not

_WHOLE = ["e = tl.exp({x} - tl.max({x}, 1, keep_dims=True))", "{y} = e / tl.sum(e, 1, keep_dims=True)"]
_WHOLE_LOG = [
    "low = {x} - tl.max({x}, 1, keep_dims=True)",
    "{y} = low - tl.log(tl.sum(tl.exp(low), 1, keep_dims=True))",
]
# The least fp32 instead of -inf: of rows that begin with -inf, exp(top - new) is not NaN.
_START = ["top = tl.full([BLOCK_R, 1], -3.4e38, tl.float32)", "total = tl.zeros([BLOCK_R, 1], tl.float32)"]
_STEP = [
    "new = tl.maximum(top, tl.max({x}, 1, keep_dims=True))",
    "total = total * tl.exp(top - new) + tl.sum(tl.exp({x} - new), 1, keep_dims=True)",
    "top = new",
]


class Steps(NamedTuple):
    """Lines that compute ``{y}`` of ``{x}``, rows in fp32 of [BLOCK_R, BLOCK_C]."""

    outside: str  # The value of {x} after the end of a row
    whole: Sequence[str]  # For rows in one block
    start: Sequence[str]  # For rows in chunks: before the first
    step: Sequence[str]  # For each chunk
    apply: Sequence[str]  # For each chunk, after all steps


def fits(task: Task) -> Form:
    """Softmax or LogSoftmax over any axis, with element-wise nodes around it."""
    node = find(task, "Softmax", "LogSoftmax")
    dims = Chain(task).dims(node.input[0])
    # Up to opset 12 a row is all that follows an axis.
    old = any(one.domain == "" and one.version < 13 for one in task.body.opset_import)
    axis = attribute(node, "axis", 1 if old else -1) % max(len(dims), 1)
    end = len(dims) if old else axis + 1
    whole, apply = _WHOLE, "{y} = tl.exp({x} - top) / total"
    if node.op_type == "LogSoftmax":
        whole, apply = _WHOLE_LOG, "{y} = {x} - top - tl.log(total)"
    steps = Steps('-float("inf")', whole, _START, _STEP, [apply])
    return rows(task, node, "softmax", steps, (axis, end), {})


def rows(
    task: Task, main: NodeProto, name: str, steps: Steps, axes: tuple[int, int], constants: Mapping[str, float]
) -> Form:
    """A kernel over rows, whose elements lie along axes from the first up to the last of two."""
    chain = Chain(task)
    chain.sizes.update(constants)
    dims = chain.dims(main.input[0])
    outer, row, inner = dims[: axes[0]], dims[axes[0] : axes[1]], dims[axes[1] :]
    strided = any(dim != 1 for dim in inner)
    chain.size("C", row)
    chain.size("R", inner if strided else outer)
    column, here = "tl.arange(0, BLOCK_C)[None, :]", "tl.arange(0, BLOCK_R)[:, None]"
    walk: list[tuple[str, Sequence[Dim], str]]
    if strided:  # Rows side by side in memory go together.
        column = f"({column}).to(tl.int64)"
        head = ["t = tl.program_id(0)", "outer = (t // tl.cdiv(R, BLOCK_R)).to(tl.int64)"]
        head += [f"row = t % tl.cdiv(R, BLOCK_R) * BLOCK_R + {here}"]
        chain.size("O", outer)
        walk = [("outer", outer, ""), ("column", row, "column < C"), ("row", inner, "row < R")]
    else:
        head = [f"row = tl.program_id(0).to(tl.int64) * BLOCK_R + {here}"]
        walk = [("row", outer, "row < R"), ("column", (*row, *inner), "column < C")]
    before, after = chain.parts(main)
    known: dict[str, str] = {}
    read = chain.lines(before, walk, known)
    more, x = chain.read(main.input[0], walk, known)
    read += [*more, f"x_ = tl.where(inside, {x}, {steps.outside})"]
    y = known[main.output[0]] = f"v_{main.output[0]}"
    write = chain.lines(after, walk, known) + chain.stores(task.body.output, walk, known)
    width, least = chain.sizes.get("C", _MOST + 1), min(_SIDE, power(chain.sizes.get("R", _SIDE))) if strided else 1
    inside = "inside = " + " & ".join(f"({one})" for _, _, one in walk if one)
    if whole := power(width) * least <= _MOST:
        lines = [f"column = {column}", inside, *read, *steps.whole, *write]
    else:
        loop, chunk = "for start in range(0, C, BLOCK_C):", [f"column = start + {column}", inside, *read]
        lines = [*steps.start, loop, *(f"    {one}" for one in (*chunk, *steps.step))]
        lines += [loop, *(f"    {one}" for one in (*chunk, *steps.apply, *write))]
    tactics = []
    for total, each in ((1024, 16), (2048, 16), (4096, 16), (1024, 4)):  # Elements of a block and of a thread
        columns = power(width) if whole else max(total // least // 2, 32) if strided else total
        taken = max(total // columns, least)
        warps = min(max(taken * columns // (32 * each), 1), 16)
        tactics.append({"BLOCK_R": taken, "BLOCK_C": columns, "num_warps": warps})
    lines = [*head, *(line.format(x="x_", y=y) for line in lines)]
    return chain.form(name, lines, tactics, [f"{'O * ' if strided else ''}cdiv(R, BLOCK_R)"])
