"""Matrix products of which one side is thin: the other is read once, and each of its rows multiplied with all of it."""

from __future__ import annotations

import math
from typing import NamedTuple

from onnx import NodeProto

from trtprof.base.records import Dim
from trtprof.plugin.chain import Axes, Chain, Walk, attribute, find
from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.kernels.reduce import OPEN, count, loop
from trtprof.plugin.task import Task

_THIN = 16  # Rows or columns of the thin side, at most


class _Side(NamedTuple):
    """An operand of the product."""

    value: str  # Before a Transpose
    dims: tuple[Dim, ...]  # As it is stored
    axes: dict[str, int]  # Where among them are "m" or "n", "k", and batch dims by their place in the result

    def dim(self, axis: str) -> Dim:
        return self.dims[self.axes[axis]] if axis in self.axes else 1


def fits(task: Task) -> Form:
    """MatMul or Gemm with few rows or columns, of any batch; element-wise nodes before and after it."""
    main, chain = find(task, "MatMul", "Gemm"), Chain(task)
    ranks = [len(chain.dims(name)) for name in main.input[:2]]
    a, b = (_side(chain, main, place, max(ranks) - 2) for place in (0, 1))
    batch = {str(at): next((d for d in (a.dim(str(at)), b.dim(str(at))) if d != 1), 1) for at in range(max(ranks) - 2)}
    m, n, k = {"m": a.dim("m")}, {"n": b.dim("n")}, a.dim("k")
    made = [*batch, *(axis for axis, side in (("m", a), ("n", b)) if axis in side.axes)]
    chain.shapes[main.output[0]] = tuple({**batch, **m, **n}[axis] for axis in made)
    # The side that is read once, its rows, and what each is multiplied with; all rows where the right has no batch.
    same = all(b.dim(axis) == 1 for axis in batch)
    options = [(a, {**batch, **m}, n), (b, n, {**batch, **m}) if same else (b, {**batch, **n}, m)]
    options = [one for one in options if count(one[2].values(), math.inf) <= _THIN]
    if not options:
        raise NoFitError(f"neither side of {main.op_type} is known to have {_THIN} rows or columns at most")
    big, rows, thin = max(options, key=lambda one: count(one[0].dims, OPEN))
    order = [*rows, *thin, "k"]
    walk: Walk = [
        ("r", list(rows.values()), "r < R"),
        ("t", list(thin.values()), "t < T" if count(thin.values(), 1) > 1 else ""),
        ("k", [k], "k < K"),
    ]
    values, read = [], []
    for side in (a, b):
        known: dict[str, str] = {}
        axes = [side.axes.get(axis) for axis in order]
        read += chain.lines(chain.upstream(side.value), walk, known, axes)
        more, value = chain.read(side.value, walk, known, axes=axes)
        read += more
        values.append(value)
        if chain.dtypes[side.value] not in ("fp32", "fp16", "bf16"):
            raise NoFitError(f"{main.op_type} of {chain.dtypes[side.value]}")
    if len({line.split(" = ")[0] for line in read}) < len(read):
        raise NoFitError("both sides are computed of the same operand")
    # What nodes make of the zeros that are read beyond the end need not be zeros.
    product = " * ".join(values)
    if chain.upstream(a.value, b.value):
        product = f"tl.where(k < K, {product}, 0.0)"
    known = {main.output[0]: f"v_{main.output[0]}"}
    y_axes = [made.index(axis) if axis in made else None for axis in order[:-1]]
    write = _bias(chain, main, known, walk[:-1], y_axes)
    write += chain.lines(chain.parts(main)[1], walk[:-1], known, y_axes)
    write += chain.stores(list(task.body.output), walk[:-1], known, y_axes)
    across = any(dim != 1 for dim in big.dims[big.axes["k"] + 1 :])
    end = f"v_{main.output[0]} = tl.sum(total, {2 if walk[1][2] else 1}, keep_dims=True)"
    return loop(chain, "gemv", walk, ("0.0", [*read, f"total += {product}"], end, write), across=across)


def _side(chain: Chain, main: NodeProto, place: int, batch: int) -> _Side:
    """An operand of a product whose result has so many batch dims."""
    value = main.input[place]
    rank = len(chain.dims(value))
    perm = list(range(rank))
    if maker := next((node for node in chain.nodes if value in node.output and node.op_type == "Transpose"), None):
        value, perm = maker.input[0], list(attribute(maker, "perm", perm[::-1]))
    matrix = (["m", "k"], ["k", "n"])[place] if rank > 1 else ["k"]
    if attribute(main, ("transA", "transB")[place], 0):
        matrix.reverse()
    names = [*map(str, range(batch - rank + 2, batch)), *matrix] if rank > 1 else matrix
    return _Side(value, chain.dims(value), dict(zip(names, perm, strict=True)))


def _bias(chain: Chain, main: NodeProto, known: dict[str, str], walk: Walk, axes: Axes) -> list[str]:
    """Factors and the third operand of a Gemm."""
    alpha, beta, result = attribute(main, "alpha", 1.0), attribute(main, "beta", 1.0), f"v_{main.output[0]}"
    lines = [f"{result} = {alpha} * {result}"] if alpha != 1 else []
    if len(main.input) > 2 and main.input[2]:
        more, value = chain.read(main.input[2], walk, known, axes=axes)
        lines += [*more, f"{result} = {result} + {value if beta == 1 else f'{beta} * {value}'}"]
    return lines
