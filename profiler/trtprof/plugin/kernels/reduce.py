"""Reductions over any axes, and the frame of all kernels that go over rows in a loop, and write a number for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from trtprof.base.records import Dim
from trtprof.plugin.chain import Chain, Walk, attribute, find, power
from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.task import Task

OPEN = 1024  # What an open dimension counts as, where a choice needs a number
_LONGEST = 2**16  # Elements of a row, where there are less than `_FEWEST`: one program goes over each
_FEWEST = 64
# Elements of a block, and of these at most in a row; and where it is rows that lie side by side
_ALONG, _ACROSS = (
    ((1024, 1024), (2048, 512), (4096, 512), (8192, 256)),
    ((2048, 128), (2048, 64), (4096, 64), (8192, 64)),
)
_SUM = ("0.0", "total += tl.where(k < K, {x}, 0.0)", "tl.sum(total, 1, keep_dims=True)")
_OPS = {
    "ReduceSum": _SUM,
    "ReduceMean": (*_SUM[:2], f"{_SUM[2]} / K"),
    "ReduceL1": ("0.0", "total += tl.where(k < K, tl.abs({x}), 0.0)", _SUM[2]),
    "ReduceL2": ("0.0", "total += tl.where(k < K, {x} * {x}, 0.0)", f"tl.sqrt({_SUM[2]})"),
    "ReduceSumSquare": ("0.0", "total += tl.where(k < K, {x} * {x}, 0.0)", _SUM[2]),
    "ReduceLogSum": (*_SUM[:2], f"tl.log({_SUM[2]})"),
    "ReduceMax": (
        '-float("inf")',
        'total = tl.maximum(total, tl.where(k < K, {x}, -float("inf")))',
        "tl.max(total, 1, keep_dims=True)",
    ),
    "ReduceMin": (
        'float("inf")',
        'total = tl.minimum(total, tl.where(k < K, {x}, float("inf")))',
        "tl.min(total, 1, keep_dims=True)",
    ),
}  # What it begins with, what each element is taken in by, and what comes of it
_OPS |= {"GlobalAveragePool": _OPS["ReduceMean"], "GlobalMaxPool": _OPS["ReduceMax"]}


def fits(task: Task) -> Form:
    """A reduction, with element-wise nodes before and after it."""
    main, chain = find(task, *_OPS), Chain(task)
    x, y = main.input[0], main.output[0]
    dims = chain.dims(x)
    rank, pools = len(dims), main.op_type.startswith("Global")
    given = attribute(main, "axes", list(range(2, rank)) if pools else [])
    if len(main.input) > 1 and main.input[1]:
        if main.input[1] not in chain.constants:
            raise NoFitError("its axes are not constant")
        given = chain.constants[main.input[1]].tolist()
    if not given and attribute(main, "noop_with_empty_axes", 0):
        raise NoFitError("it reduces nothing")
    axes = sorted({axis % rank for axis in given} or range(rank))
    kept = [axis for axis in range(rank) if axis not in axes]
    rows, deep = ([dims[axis] for axis in some] for some in (kept, axes))
    if count(rows, OPEN) < _FEWEST and count(deep, OPEN) > _LONGEST:
        raise NoFitError(f"{count(rows, OPEN)} rows of {count(deep, OPEN)} elements occupy too few SMs")
    keeps = pools or attribute(main, "keepdims", 1)
    chain.shapes[y] = tuple(1 if axis in axes else dim for axis, dim in enumerate(dims) if keeps or axis in kept)
    walk: Walk = [("r", rows, "r < R"), ("t", [], ""), ("k", deep, "k < K")]
    known: dict[str, str] = {}
    read = chain.lines(chain.upstream(x), walk, known, [*kept, *axes])
    more, value = chain.read(x, walk, known, axes=[*kept, *axes])
    if chain.dtypes[x] not in ("fp32", "fp16", "bf16"):
        raise NoFitError(f"{main.op_type} of {chain.dtypes[x]}")
    begin, step, end = _OPS[main.op_type]
    # Along reduced axes the result has dims of 1, or none.
    result: Walk = [walk[0], ("k", [1] * len(axes) if keeps else [], "")]
    y_axes = [*kept, *axes] if keeps else list(range(len(kept)))
    known = {y: f"v_{y}"}
    write = chain.lines(chain.parts(main)[1], result, known, y_axes) + chain.stores(
        task.body.output, result, known, y_axes
    )
    read += [*more, step.format(x=value)]
    across = rank - 1 in kept and any(dim != 1 for dim in dims[axes[-1] + 1 :])
    return loop(chain, "reduce", walk, (begin, read, f"v_{y} = {end}", write), across=across)


def loop(
    chain: Chain, name: str, walk: Walk, lines: tuple[str, Sequence[str], str, Sequence[str]], *, across: bool
) -> Form:
    """A kernel that goes over rows ``r``, each with ``t`` others, in a loop over their elements ``k``.

    Args:
        chain: Of the task.
        name: Of the form.
        walk: Over ``r``, ``t`` and ``k``.
        lines: What ``total`` begins with, what is done in the loop, after it, and then to the result.
        across: Whether it is rows that lie side by side in memory, and not the elements of one.
    """
    (rows, thin, deep), (begin, read, end, write) = ([dims for _, dims, _ in walk]), lines
    thick = power(count(thin, 1))
    r, t, k = (
        ("[:, None]", "", "[None, :]") if thick == 1 else ("[:, None, None]", "[None, :, None]", "[None, None, :]")
    )
    blocks = [one for one in ("BLOCK_R", "BLOCK_T", "BLOCK_K") if thick > 1 or one != "BLOCK_T"]
    for label, dims in (("R", rows), ("T", thin), ("K", deep)):
        if f"BLOCK_{label}" in blocks:
            chain.size(label, dims)
    wide = ".to(tl.int64)" if chain.wide else ""
    text = [
        f"r = (tl.program_id(0){wide} * BLOCK_R + tl.arange(0, BLOCK_R)){r}",
        *([f"t = tl.arange(0, BLOCK_T){t}"] if t else []),
        f"total = tl.full([{', '.join(blocks)}], {begin}, tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        f"    k = (start + tl.arange(0, BLOCK_K)){wide if across else ''}{k}",
        *(f"    {line}" for line in _masked(walk, read)),
        end,
        *_masked(walk[:-1], write),
    ]
    tactics = []
    for elements, most in _ACROSS if across else _ALONG:
        each = min(most, power(count(deep, most)))
        taken = min(elements // most, power(count(rows, OPEN)))
        if across:
            each = max(each // thick, 1)
        else:
            each = min(each, max(most // thick, 64))
            taken = max(elements * min(thick, 2) // each // thick, 1)
        sizes = {"BLOCK_R": taken, "BLOCK_T": thick, "BLOCK_K": each}
        tactics.append({**{one: sizes[one] for one in blocks}, "num_warps": 4 if elements < 4096 else 8})
    return chain.form(name, text, tactics, ["cdiv(R, BLOCK_R)"])


def count(dims: Iterable[Dim], unknown: float) -> float:
    """Elements; an open dimension counts as ``unknown``."""
    return math.prod(dim if isinstance(dim, int) else unknown for dim in dims)


def _masked(walk: Walk, lines: Sequence[str]) -> list[str]:
    """Lines after that which makes their mask, if they have one."""
    inside = " & ".join(f"({one})" for _, _, one in walk if one)
    return [*([f"inside = {inside}"] if any("mask=inside" in line for line in lines) else []), *lines]
