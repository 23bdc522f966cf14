"""Elements in another order: Transpose, DepthToSpace, SpaceToDepth and Gather along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from onnx import NodeProto

from trtprof.base.records import Dim
from trtprof.plugin.chain import Chain, Walk, attribute, find, power
from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.task import Task

_OPS = ("Transpose", "DepthToSpace", "SpaceToDepth", "Gather")
_LEAST = 256  # Elements of a block: where what is contiguous has fewer, it also has elements that are not
_BLOCKS = (32, 1024), (32, 2048), (64, 2048), (64, 4096)  # Side of a block and its elements


def fits(task: Task) -> Form:
    """One op that moves elements, with element-wise nodes around it."""
    node, chain = find(task, *_OPS), Chain(task)
    before, after = chain.parts(node)
    name, made = node.input[0], node.output[0]
    integers = name in chain.operands and chain.operands[name].dtype[:2] not in ("fp", "bf")
    if (before or after) and (integers or (node.op_type != "Transpose" and (before or node.op_type != "Gather"))):
        raise NoFitError(f"{node.op_type} fits without the nodes around it")
    known: dict[str, str] = {}
    if node.op_type == "Gather":
        dims, ids = chain.dims(name), chain.dims(node.input[1])
        axis = attribute(node, "axis", 0) % len(dims)
        chain.shapes[made] = (*dims[:axis], *ids, *dims[axis + 1 :])
        walk, lines, tactics, grid = _blocks(chain, ((), (*dims[:axis], *ids), (), dims[axis + 1 :]), turned=False)
        lines += _gather(chain, node, axis, walk, known)
    else:
        axes = _axes(chain, node)
        walk, lines, tactics, grid = _blocks(chain, *_parts(chain.dims(made), axes))
        lines += chain.lines(before, walk, known, axes)
        more, known[made] = chain.read(name, walk, known, axes=axes)
        lines += more
    lines += chain.lines(after, walk, known) + chain.stores(task.body.output, walk, known)
    return chain.form("copy", lines, tactics, [grid])


def _axes(chain: Chain, node: NodeProto) -> Sequence[int]:
    """The axis of the input along each dim of the result; dims of both are split where they move in parts."""
    name, made = node.input[0], node.output[0]
    dims = chain.dims(name)
    axes: Sequence[int] = attribute(node, "perm", range(len(dims))[::-1])
    if node.op_type != "Transpose":
        if not all(isinstance(dim, int) for dim in dims[1:]):
            raise NoFitError(f"{node.op_type} of unknown dimensions")
        (n, c, h, w), b = dims, attribute(node, "blocksize", 1)
        dims, axes = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2)
        if node.op_type == "SpaceToDepth":
            dims, axes = (n, c, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4)
        elif attribute(node, "mode", b"DCR") == b"CRD":
            dims, axes = (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3)
        chain.operands[name] = replace(chain.operands[name], dims=dims)
        chain.operands[made] = replace(chain.operands[made], dims=tuple(dims[axis] for axis in axes))
    chain.shapes[made] = tuple(dims[axis] for axis in axes)
    return axes


def _parts(dims: Sequence[Dim], axes: Sequence[int]) -> tuple[Sequence[Sequence[Dim]], bool]:
    """Outermost dims, those contiguous in the input, between, contiguous in the result; whether these are two."""
    places = [place for place, dim in enumerate(dims) if dim != 1]
    if not places:
        return ((), (), (), dims), False
    order = sorted(axes[place] for place in places)
    ranks = [order.index(axes[place]) for place in places]

    def begin(end: int) -> int:
        while end > 0 and ranks[end - 1] == ranks[end] - 1:
            end -= 1
        return places[end]

    side = ranks.index(len(ranks) - 1)
    first, last = begin(side), begin(len(ranks) - 1)
    rows, columns = dims[first : places[side] + 1], dims[last:]
    sizes = [dim if isinstance(dim, int) else _LEAST for dim in (*rows, *columns)]
    if first == last or math.prod(sizes) < _LEAST:
        return ((), dims[:last], (), columns), False
    return (dims[:first], rows, dims[places[side] + 1 : last], columns), True


def _blocks(
    chain: Chain, parts: Sequence[Sequence[Dim]], turned: bool
) -> tuple[Walk, list[str], list[dict[str, int]], str]:
    """Walk, first lines, tactics and grid: blocks of the second and the fourth part, for each place in the others."""
    several = [label for label, part in zip("OB", parts[::2], strict=True) if any(dim != 1 for dim in part)]
    for label, part in zip("OMBN", parts, strict=True):
        if label in ("M", "N", *several):
            chain.size(label, part)
    lines = [
        "t = tl.program_id(0)",
        "n = (t % tl.cdiv(N, BLOCK_N)).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]",
        "m = (t // tl.cdiv(N, BLOCK_N) % tl.cdiv(M, BLOCK_M)).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]",
        "inside = (m < M) & (n < N)",
    ]
    if several:
        lines.append("rest = (t // tl.cdiv(N, BLOCK_N) // tl.cdiv(M, BLOCK_M)).to(tl.int64)")
    variables = "rest // B" if "B" in several else "rest", "m", "rest % B" if "O" in several else "rest", "n"
    walk = list(zip(variables, parts, ("", "m < M", "", "n < N"), strict=True))
    height, width = (power(chain.sizes.get(label, 1024)) for label in "MN")
    tactics = []
    for side, total in _BLOCKS:
        # What is contiguous in the input alone gets a side; else rows are as long as they can be.
        across = min(width, total // (min(height, side) if turned else max(total // width, 1)))
        down = min(height, total // across)
        tactics.append({"BLOCK_M": down, "BLOCK_N": across, "num_warps": min(max(down * across // 256, 1), 8)})
    return walk, lines, tactics, " * ".join([*several, "cdiv(M, BLOCK_M)", "cdiv(N, BLOCK_N)"])


def _gather(chain: Chain, node: NodeProto, axis: int, walk: Walk, known: dict[str, str]) -> list[str]:
    """Read where indices say, which count from the end where they are negative."""
    name, indices = node.input
    if indices not in chain.operands:
        raise NoFitError("it takes one place, which is known: a slice")
    dims, ids = chain.dims(name), chain.dims(indices)
    inner, count = dims[axis + 1 :], chain.product(dims[axis : axis + 1])
    lines, index = chain.read(indices, walk, known, dims=(*ids, *[1] * len(inner)))
    outer = (f"m // {chain.product(ids)}", dims[:axis], "m < M" if dims[axis] == 1 else "")
    there = [outer, ("place", dims[axis : axis + 1], "m < M"), ("n", inner, "n < N")]
    more, known[node.output[0]] = chain.read(name, there, known)
    return [*lines, f"place = tl.where({index} < 0, {index} + {count}, {index}).to(tl.int64)", *more]
