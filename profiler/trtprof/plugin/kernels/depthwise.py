"""Convolution of each channel with filters of its own, in one or two dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import NodeProto, helper

from trtprof.base.records import Dim
from trtprof.plugin.chain import Chain, attribute, find, power
from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.kernels.norm import replace_nodes
from trtprof.plugin.task import Task

_MOST_TAPS = 128  # Elements of a filter: the loop over those of a row is unrolled
_UNROLLED = 25  # From so many on the loop over rows of a filter is not: registers would run short
_BODY = """
t = tl.program_id(0)
plane = (t // tl.cdiv(S, BLOCK_S)).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
place = t % tl.cdiv(S, BLOCK_S) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
inside = (plane < P) & (place < S)
top = place // OW * SH - PH
left = place % OW * SW - PW
source = {x} + {channel} * (H * W)
taps = {filters} + plane % M * (KH * KW)
{y} = tl.zeros([BLOCK_P, BLOCK_S], tl.float32)
for i in {every}(KH):
    row = top + i * DH
    rows = inside & (row >= 0) & (row < H)
    for j in tl.static_range(KW):
        column = left + j * DW
        tap = tl.load(taps + (i * KW + j), mask=plane < P, other=0).to(tl.float32)
        there = rows & (column >= 0) & (column < W)
        {y} += tap * tl.load(source + (row * W + column), mask=there, other=0).to(tl.float32)
"""


def fits(task: Task) -> Form:
    """Conv with a group for each channel, with a bias and element-wise nodes after it."""
    node = find(task, "Conv")
    rank, group = len(Chain(task).dims(node.input[0])) - 2, attribute(node, "group", 1)
    # The bias becomes an element-wise node, with the rank of a channel.
    core = helper.make_node("Conv", node.input[:2], ["core"] if node.input[2:] else node.output)
    bias = [helper.make_node("Add", ["core", name], node.output) for name in node.input[2:]]
    chain = Chain(replace_nodes(task, [node], [core, *bias], dict.fromkeys(node.input[2:], rank + 1)))
    core = find(chain.task, "Conv")
    before, after = chain.parts(core)
    if before or not set(core.input) <= set(chain.operands):
        raise NoFitError("what the convolution reads is computed by a node before it")
    if rank not in (1, 2):
        raise NoFitError(f"the convolution has {rank} dimensions, not 1 or 2")
    dims, (channels, depth, *taps) = chain.dims(core.input[0]), chain.dims(core.input[1])
    if depth != 1 or dims[1] != group:
        raise NoFitError(f"a filter of the convolution reads {depth} channels, not one")
    sizes = [one for one in (channels, *taps) if isinstance(one, int)]
    if len(sizes) <= rank or math.prod(sizes[1:]) > _MOST_TAPS:
        raise NoFitError(f"a filter has over {_MOST_TAPS} elements, or an unknown number")
    chain.shapes[core.output[0]] = result = task.outputs[0].dims
    # One dimension is the second of two.
    over, size, shape = ((1, *one)[-2:] for one in (result[2:], dims[2:], sizes[1:]))
    strides, dilations = ((1, *attribute(node, name, [1] * rank))[-2:] for name in ("strides", "dilations"))
    numbers = {"K": shape, "S": strides, "D": dilations, "P": _pads(node, over, size, shape, strides, dilations)}
    chain.sizes |= {f"{label}{axis}": pair[at] for label, pair in numbers.items() for at, axis in enumerate("HW")}
    for label, one in {
        "P": result[:2],
        "S": over,
        "M": result[1:2],
        "H": size[:1],
        "W": size[1:],
        "OW": over[1:],
    }.items():
        chain.size(label, one)
    walk = [("plane", result[:2], "plane < P"), ("place", result[2:], "place < S")]
    y = f"v_{core.output[0]}"
    known = {core.output[0]: y}
    after_lines = chain.lines(after, walk, known) + chain.stores(task.body.output, walk, known)
    every = "tl.static_range" if math.prod(shape) < _UNROLLED else "range"
    per = sizes[0] // group  # Results of a channel
    channel = "plane" if per == 1 else f"(plane // {per})"
    text = _BODY.strip().format(x=core.input[0], filters=core.input[1], channel=channel, every=every, y=y)
    area = power(chain.sizes.get("S", 1024))
    tactics = [
        {"BLOCK_P": max(total // area, 1), "BLOCK_S": min(area, total), "num_warps": total // 128}
        for total in (128, 256, 512, 1024)
    ]
    return chain.form("depthwise", [*text.splitlines(), *after_lines], tactics, ["cdiv(P, BLOCK_P) * cdiv(S, BLOCK_S)"])


def _pads(node: NodeProto, over: Sequence[Dim], size: Sequence[Dim], *window: Sequence[int]) -> tuple[int, ...]:
    """Zeros before the first row and the first column."""
    mode = attribute(node, "auto_pad", b"NOTSET").decode()
    if not mode.startswith("SAME"):
        pads = attribute(node, "pads", [0] * 4)
        return (0, *pads[: len(pads) // 2])[-2:]
    pads = []
    for results, given, taps, stride, dilation in zip(over, size, *window, strict=True):
        if isinstance(results, str) or isinstance(given, str):
            raise NoFitError("padding depends on a dimension without a number")
        pads.append(max((results - 1) * stride + dilation * (taps - 1) + 1 - given, 0))
    return tuple((one + (mode == "SAME_LOWER")) // 2 for one in pads)
