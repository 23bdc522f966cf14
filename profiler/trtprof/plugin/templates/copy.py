"""Copies that compute nothing: transposes, slices, expansions, gathers along an axis, concatenations.

Most only change how one dense tensor is walked: a **view**, an extent and a stride a dim; dims that follow one another
in memory are merged.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import NodeProto

from trtprof.base.records import Dim
from trtprof.plugin import sizes
from trtprof.plugin.cuda_text import c_type
from trtprof.plugin.expressions import attributes, complete, computing, constants, indented
from trtprof.plugin.indexing import Extent, Names, extent, grid_of, index_type, nbytes
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.task import Operand, Task

THREADS = 256
PACK_BYTES = 16
TILE_ROWS = 8
SECTOR = 32  # Bytes that DRAM gives at least
SQUARE = 16  # Below so many elements a side, squares are mostly empty


@dataclass(frozen=True)
class View:
    """A walk over the elements of a dense tensor, in row-major order."""

    dims: tuple[Dim, ...]  # As later nodes see them
    # How many elements each dim has, and how far one step is; may be more than there are dims
    axes: tuple[tuple[Extent, Extent], ...]
    start: tuple[Extent, ...] = ()  # Where the first element is; all are added

    @property
    def dense(self) -> bool:
        """Whether it walks a whole tensor as it lies."""
        return not self.start and all(
            stride == inside for (_, stride), inside in zip(self.axes, self._inside(), strict=True)
        )

    def _inside(self) -> list[Extent]:
        found = [Extent()]
        for size, _ in reversed(self.axes[1:]):
            found.append(size * found[-1])
        return found[::-1] if self.axes else []

    def merged(self) -> View:
        """Dims that follow one another in memory as one."""
        found: list[tuple[Extent, Extent]] = []
        for size, stride in self.axes:
            if size.known == 1:
                continue
            if found and found[-1][1] == size * stride:
                found[-1] = (found[-1][0] * size, stride)
            else:
                found.append((size, stride))
        return replace(self, axes=tuple(found))


def whole(operand: Operand) -> View:
    """A tensor as it lies."""
    return _dense(operand.dims)


def _dense(dims: Sequence[Dim]) -> View:
    return View(tuple(dims), tuple((extent([dim]), extent(dims[axis + 1 :])) for axis, dim in enumerate(dims)))


@template("copy", "transposes, slices, gathers, concatenations: elements moved, nothing computed")
def copy(task: Task) -> Sequence[Kernel]:
    """Kernels for a body of one output that holds movers alone."""
    if len(task.outputs) != 1:
        raise NotFitError("copies to several outputs")
    nodes = list(computing(task.body))
    output = task.outputs[0]
    arrays = constants(task.body)
    sized = {one.name: one for one in task.inputs}
    if len(nodes) == 1 and nodes[0].op_type == "Gather":
        return _gather(task, nodes[0], sized)
    if len(nodes) == 1 and nodes[0].op_type == "Concat":
        return _concat(task, nodes[0], sized)
    views = {name: whole(one) for name, one in sized.items()}
    for node in nodes:
        write = _VIEWS.get(node.op_type)
        if write is None:
            raise NotFitError(
                f"{node.op_type} is no copy that is written" + (" beside others" if len(nodes) > 1 else "")
            )
        if node.input[0] not in views:
            raise NotFitError(f"{node.op_type} of a constant")
        views[node.output[0]] = write(views[node.input[0]], node, arrays)
    if len(task.inputs) != 1 or output.name not in views:
        raise NotFitError("copies of several inputs that no Concat joins")
    _want_dims(output, views[output.name].dims)
    return _strided(task, task.inputs[0], output, views[output.name].merged())


def _want_dims(output: Operand, dims: Sequence[Dim]) -> None:
    if tuple(output.dims) != tuple(dims):
        raise NotFitError(f"output {output.name} of dims {list(output.dims)} where its nodes make {list(dims)}")


# ---- views ----------------------------------------------------------------------------------------------------------

Arrays = Mapping[str, "np.ndarray[Any, Any]"]


def _given(node: NodeProto, arrays: Arrays, place: int, name: str) -> list[int] | None:
    """Whole numbers of a node: an attribute, or a constant input; None where it has neither."""
    own = attributes(node).get(name)
    if isinstance(own, tuple):
        return [int(one) for one in own]
    if len(node.input) <= place or not node.input[place]:
        return None
    if node.input[place] not in arrays:
        raise NotFitError(f"{node.op_type} whose {name} are not known before the run")
    return [int(one) for one in arrays[node.input[place]].reshape(-1)]


def _logical(view: View, node: NodeProto) -> None:
    if len(view.axes) != len(view.dims):
        raise NotFitError(f"{node.op_type} of what Tile or DepthToSpace has made")


def _transpose(view: View, node: NodeProto, arrays: Arrays) -> View:
    _logical(view, node)
    rank = len(view.dims)
    order = _given(node, arrays, 9, "perm") or list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise NotFitError(f"Transpose by {order} of {rank} dims")
    return replace(view, dims=tuple(view.dims[axis] for axis in order), axes=tuple(view.axes[axis] for axis in order))


def _slice(view: View, node: NodeProto, arrays: Arrays) -> View:
    _logical(view, node)
    starts, ends = _given(node, arrays, 1, "starts"), _given(node, arrays, 2, "ends")
    if starts is None or ends is None:
        raise NotFitError("Slice without bounds")
    axes = _given(node, arrays, 3, "axes") or list(range(len(starts)))
    steps = _given(node, arrays, 4, "steps") or [1] * len(starts)
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        place = axis % len(view.dims)
        dim, (_, stride) = view.dims[place], view.axes[place]
        if not isinstance(dim, int):
            if first == 0 and step == 1 and last >= 2**31 - 1:
                continue
            raise NotFitError(f"Slice of dimension {dim}, which has no number")
        start, stop, by = slice(first, None if last < -dim and step < 0 else last, step).indices(dim)
        count = len(range(start, stop, by))
        moved = (*view.start, Extent(start) * stride) if start and count else view.start
        dims = (*view.dims[:place], count, *view.dims[place + 1 :])
        strides = (*view.axes[:place], (Extent(count), Extent(by) * stride), *view.axes[place + 1 :])
        view = View(dims, strides, moved)
    return view


def _expand(view: View, node: NodeProto, arrays: Arrays) -> View:
    _logical(view, node)
    shape = _given(node, arrays, 1, "shape") or []
    rank = max(len(shape), len(view.dims))
    wanted = [1] * (rank - len(shape)) + shape
    lead = rank - len(view.dims)
    dims: list[Dim] = [*[1] * lead, *view.dims]
    axes = [(Extent(), Extent())] * lead + list(view.axes)
    for axis, size in enumerate(wanted):
        if dims[axis] == 1 and size != 1:
            dims[axis], axes[axis] = size, (Extent(size), Extent(0))
        elif size not in (1, dims[axis]):
            raise NotFitError(f"Expand of dimension {dims[axis]} to {size}")
    return View(tuple(dims), tuple(axes), view.start)


def _tile(view: View, node: NodeProto, arrays: Arrays) -> View:
    _logical(view, node)
    repeats = _given(node, arrays, 1, "repeats")
    if repeats is None or len(repeats) != len(view.dims):
        raise NotFitError("Tile without a number for each dim")
    dims: list[Dim] = []
    axes: list[tuple[Extent, Extent]] = []
    for dim, axis, times in zip(view.dims, view.axes, repeats, strict=True):
        if times != 1:
            if not isinstance(dim, int):
                raise NotFitError(f"Tile of dimension {dim}, which has no number")
            axes.append((Extent(times), Extent(0)))
        axes.append(axis)
        dims.append(dim * times if isinstance(dim, int) else dim)
    return View(tuple(dims), tuple(axes), view.start)


def _depth_to_space(view: View, node: NodeProto, _arrays: Arrays) -> View:
    given = attributes(node)
    block = given.get("blocksize")
    if not view.dense or len(view.dims) != 4 or not isinstance(block, int):
        raise NotFitError("DepthToSpace of what is no dense image")
    batch, channels, height, width = view.dims
    if not isinstance(channels, int):
        raise NotFitError("DepthToSpace with channels that have no number")
    depth, side = channels // block**2, Extent(block)
    plane = extent([height, width])
    line = extent([width])
    if given.get("mode", "DCR") == "CRD":
        strides = [Extent(block**2) * plane, side * plane, plane]
    else:
        strides = [plane, Extent(depth * block) * plane, Extent(depth) * plane]
    axes = (
        (extent([batch]), Extent(channels) * plane), (Extent(depth), strides[0]), (extent([height]), line),
        (side, strides[1]), (line, Extent()), (side, strides[2]),
    )  # fmt: skip
    grown: list[Dim] = [one * block if isinstance(one, int) else f"{one}*{block}" for one in (height, width)]
    return View((batch, depth, *grown), axes)


def _reshape(view: View, node: NodeProto, arrays: Arrays) -> View:
    shape = _given(node, arrays, 1, "shape")
    if shape is None or not view.dense:
        raise NotFitError("Reshape of what is not dense, or to what is not known")
    named = attributes(node).get("allowzero")
    dims: list[Dim] = [view.dims[axis] if one == 0 and not named else one for axis, one in enumerate(shape)]
    if -1 in dims:
        all_, rest = extent(view.dims), extent(dim for dim in dims if dim != -1)
        names = list(all_.names)
        for name in rest.names:
            names.remove(name)
        count = all_.number // rest.number if rest.number else 0
        if len(names) > 1 or (names and count != 1):
            raise NotFitError(f"Reshape to a dim of {' * '.join([*names, str(count)])}")
        dims[dims.index(-1)] = names[0] if names else count
    return _dense(dims)


def _same(view: View, _node: NodeProto, _arrays: Arrays) -> View:
    return view


def _squeeze(view: View, node: NodeProto, arrays: Arrays) -> View:
    _logical(view, node)
    axes = _given(node, arrays, 1, "axes")
    if axes is None:
        axes = [axis for axis, dim in enumerate(view.dims) if dim == 1]
    left = [axis for axis in range(len(view.dims)) if axis not in {one % len(view.dims) for one in axes}]
    return replace(view, dims=tuple(view.dims[one] for one in left), axes=tuple(view.axes[one] for one in left))


def _unsqueeze(view: View, node: NodeProto, arrays: Arrays) -> View:
    _logical(view, node)
    axes = _given(node, arrays, 1, "axes") or []
    rank = len(view.dims) + len(axes)
    dims, strides = list(view.dims), list(view.axes)
    for axis in sorted(one % rank for one in axes):
        dims.insert(axis, 1)
        strides.insert(axis, (Extent(), Extent()))
    return replace(view, dims=tuple(dims), axes=tuple(strides))


_VIEWS = {
    "Transpose": _transpose, "Slice": _slice, "Expand": _expand, "Tile": _tile, "DepthToSpace": _depth_to_space,
    "Reshape": _reshape, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Identity": _same,
}  # fmt: skip


# ---- kernels --------------------------------------------------------------------------------------------------------


def _strided(task: Task, operand: Operand, output: Operand, view: View) -> list[Kernel]:
    size = nbytes(operand)
    names = Names(task)
    kind = index_type(extent(output.dims))
    signed = "int" if kind == "unsigned int" and _small(view) else "long long"
    axes = view.axes
    run = axes[-1][0] if axes and axes[-1][1] == Extent() else Extent()
    numbers = [run, *(stride for _, stride in axes if stride != Extent()), *view.start]
    width = PACK_BYTES // size
    while width > 1 and not all(one.divisible(width) for one in numbers):
        width //= 2
    lines, rest = [], "at"
    for place in range(len(axes) - 1, -1, -1):
        text = names.c(axes[place][0], kind)
        text = f"({text})" if " " in text else "1" if text == "0" else text
        lines.append(f"const {signed} i{place} = {rest}{f' % {text}' if place else ''};")
        rest = f"{rest} / {text}"
    terms = [_product(names, one, signed) for one in view.start]
    terms += [
        f"i{place}" if stride == Extent() else f"i{place} * {_product(names, stride, signed)}"
        for place, (_, stride) in enumerate(axes)
        if stride.known != 0
    ]
    used = [line for place, line in zip(range(len(axes) - 1, -1, -1), lines, strict=True) if axes[place][1].known != 0]
    source = [*used, f"return {operand.name} + ({' + '.join(terms) or '0'});"]
    kernels = []
    core = next(
        (place for place, (count, stride) in enumerate(axes[:-1]) if stride == Extent() and count.known != 1), None
    )
    if core is not None and axes[-1][1].known != 0:
        kernels += [_tiled(task, operand, output, view, core, tile) for tile in ((32,) if size > 2 else (32, 64))]
    runs = f"{width} elements at once" if width > 1 else "single elements"
    once = "Every element is read and written once"
    if any(stride.known == 0 and count.known != 1 for count, stride in axes):
        once = "Every element of the result is written once, and what it repeats is read again from the caches"
    why = f"{once}, {runs}; dims that follow one another in memory are merged."
    plain = [_plain(task, output, names, source, width, steps, why) for steps in (4, 1)]
    if core is not None and min(axes[core][0].number, axes[-1][0].number) < SQUARE and not axes[core][0].names:
        kernels = [*plain, *kernels]  # most of a square would be empty
    else:
        kernels += plain
    reads = _reads(task, operand, view)
    return [replace(one, tactic=tactic, reads=reads) for tactic, one in enumerate(kernels, 1)]


def _reads(task: Task, operand: Operand, view: View) -> dict[str, sizes.Size]:
    """Bytes of sectors that a view reads of a tensor; nothing where it reads all of it."""
    size = nbytes(operand)
    walked = [(count, stride) for count, stride in view.axes if stride.known != 0]
    total = Extent()
    for count, _ in walked:
        total = total * count
    if total == extent(operand.dims):
        return {}
    steps = sorted(abs(stride.known) for _, stride in walked if stride.known is not None)
    run = next((count for count, stride in walked if stride.known in (1, -1)), Extent())
    if run.known is None or not steps:
        return {operand.name: total.size(task) * size}
    # A run of neighbours takes whole sectors, which it may share with the next one.
    pitch = next((step for step in steps if step > 1), None)
    sectors = -(-run.known * size // SECTOR) * SECTOR
    taken = min(sectors, pitch * size) if pitch is not None else sectors
    others = Extent()
    for count, stride in walked:
        others = others * (Extent() if stride.known in (1, -1) else count)
    return {operand.name: others.size(task) * taken}


def _small(view: View) -> bool:
    """Whether all offsets are known to fit 32 bits."""
    reach = 0
    for number in (*(size * stride for size, stride in view.axes), *view.start):
        if number.known is None:
            return False
        reach += abs(number.known)
    return reach < 2**31


def _product(names: Names, of: Extent, kind: str) -> str:
    text = names.c(of, kind)
    return f"({text})" if " " in text or text.startswith(("(", "-")) else text


def _gather(task: Task, node: NodeProto, sized: Mapping[str, Operand]) -> list[Kernel]:
    """Gather: rows of a table by number; negative numbers count from the end."""
    data, indices = (sized.get(name) for name in node.input)
    if data is None or indices is None:
        raise NotFitError("Gather of a constant")
    if indices.dtype not in ("int32", "int64"):
        raise NotFitError(f"Gather by {indices.dtype}")
    rank = len(data.dims)
    axis = attributes(node).get("axis", 0)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise NotFitError(f"Gather along axis {axis} of {rank}")
    axis %= rank
    names, size = Names(task), nbytes(data)
    output = task.outputs[0]
    _want_dims(output, (*data.dims[:axis], *indices.dims, *data.dims[axis + 1 :]))
    kind = index_type(Extent(max(*(extent(one.dims).known or 2**31 for one in (data, output)), 0)))
    inner, table, count = extent(data.dims[axis + 1 :]), extent([data.dims[axis]]), extent(indices.dims)
    width = PACK_BYTES // size
    while width > 1 and not inner.divisible(width):
        width //= 2
    row, many = (_product(names, one, kind) if one.known != 0 else "1" for one in (inner, count))
    dim = _product(names, table, "long long")
    lines = [
        f"const {kind} inside = at % {row}, which = at / {row};",
        f"long long number = {indices.name}[which % {many}];",
        f"if (number < 0) number += {dim};",
        "// What no row has would be read from somewhere else.",
        f"number = number < 0 ? 0 : number >= {dim} ? {dim} - 1 : number;",
        f"return {data.name} + ((which / {many} * ({kind}){dim} + ({kind})number) * {row} + inside);",
    ]
    why = (
        f"A row of the table is read {width} elements at once by neighbouring threads; its number, which all of them "
        "need, comes from L1."
    )
    reads = {data.name: (extent(output.dims).size(task)) * size}
    return [
        replace(_plain(task, output, names, lines, width, steps, why, indices.name), tactic=tactic, reads=reads)
        for tactic, steps in enumerate((2, 4, 1), 1)
    ]


def _concat(task: Task, node: NodeProto, sized: Mapping[str, Operand]) -> list[Kernel]:
    """Concat of inputs whose sizes along the axis are numbers."""
    parts = [sized.get(name) for name in node.input]
    output = task.outputs[0]
    rank = len(output.dims)
    axis = attributes(node).get("axis", 1)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise NotFitError(f"Concat along axis {axis} of {rank}")
    axis %= rank
    names, size = Names(task), nbytes(output)
    inner = extent(output.dims[axis + 1 :])
    chunks: list[tuple[Operand, Extent]] = []
    for part in parts:
        if part is None:
            raise NotFitError("Concat of a constant")
        if not isinstance(part.dims[axis], int):
            raise NotFitError(f"Concat along dimension {part.dims[axis]}, which has no number")
        _want_dims(output, (*part.dims[:axis], output.dims[axis], *part.dims[axis + 1 :]))
        chunks.append((part, extent(part.dims[axis:])))
    joined = sum(int(part.dims[axis]) for part, _ in chunks)
    _want_dims(output, (*output.dims[:axis], joined, *output.dims[axis + 1 :]))
    kind = index_type(extent(output.dims))
    width = PACK_BYTES // size
    while width > 1 and not all(chunk.divisible(width) for _, chunk in chunks):
        width //= 2
    pitch = Extent(joined) * inner
    long = _product(names, pitch, kind) if pitch.known != 0 else "1"
    lines = [f"const {kind} row = at / {long}, inside = at % {long};"]
    before = 0
    for place, (part, chunk) in enumerate(chunks):
        start = _product(names, Extent(before) * inner, kind)
        before += int(part.dims[axis])
        end = _product(names, Extent(before) * inner, kind)
        text = f"{part.name} + (row * {_product(names, chunk, kind)} + inside{f' - {start}' if place else ''})"
        test = f"if (inside < {end}) " if place + 1 < len(chunks) else ""
        lines.append(f"{test}return {text};")
    why = f"Every element is read and written once, {width} at once; where an input ends is known to the compiler."
    return [
        replace(_plain(task, output, names, lines, width, steps, why), tactic=tactic)
        for tactic, steps in enumerate((4, 1), 1)
    ]


def _plain(
    task: Task,
    output: Operand,
    names: Names,
    source: Sequence[str],
    width: int,
    steps: int,
    why: str,
    numbers: str = "",
) -> Kernel:
    """A thread moves packs of neighbouring elements, several at once.

    `names`: of the dims in the source. `source`: lines that return where the element is that the output has at the
    index ``at``.
    """
    size = nbytes(output)
    c, total = c_type(output.dtype), extent(output.dims)
    kind = index_type(total)
    pointers = [one.name for one in (*task.inputs, output) if one.name != numbers]
    entry = f"copy_{width}x{steps}"
    inputs = [f"const {c_type(one.dtype)} *__restrict__ {one.name}" for one in task.inputs]
    text_total = names.c(total, kind)
    parameters = [*inputs, *names.parameters, f"{c} *__restrict__ {output.name}"]
    packed = " && ".join(f"aligned<{width * size}>({name})" for name in pointers)
    given = ", ".join([*(one.name for one in task.inputs), *names.used.values(), "at"])
    lines = [
        f"const {kind} total = {text_total};",
        f"const {kind} first = ({kind})blockIdx.x * {THREADS * width * steps} + threadIdx.x * {width};",
        f"const bool packed = {packed};",
        f"Held<{c}, {width}> pack[{steps}];",
        "#pragma unroll",
        f"for (int step = 0; step < {steps}; ++step) {{",
        f"    const {kind} at = first + step * {THREADS * width};",
        f"    if (at < total) pack[step] = load_some_again<{width}>(source({given}), {width}, packed);",
        "}",
        "#pragma unroll",
        f"for (int step = 0; step < {steps}; ++step) {{",
        f"    const {kind} at = first + step * {THREADS * width};",
        f"    if (at < total) store_some({output.name} + at, pack[step], {width}, packed);",
        "}",
    ]
    head = [*inputs, *names.parameters, f"{kind} at"]
    text = [
        "// Where the element is that the output has at an index.",
        f"__device__ __forceinline__ const {c} *source(",
        *indented(f"{one}{',' if place + 1 < len(head) else ') {'}" for place, one in enumerate(head)),
        *indented(source),
        "}",
        "",
        *_opening(task, why, entry, parameters, THREADS),
        *indented(lines),
        "}",
        "",
    ]
    return Kernel(
        template="copy",
        tactic=1,
        label=f"{width} elements a load, {steps} at once",
        entry=entry,
        source=complete("\n".join(text), "pack", "aligned", "some"),
        inputs=tuple(one.name for one in task.inputs),
        outputs=(output.name,),
        extras=names.extras,
        grid=grid_of(sizes.cdiv(total.size(task), THREADS * width * steps)),
        block=(THREADS, 1, 1),
        why=why,
        in_flight=width * steps * size,
        most_error=0.0,
    )


def _tiled(task: Task, operand: Operand, output: Operand, view: View, core: int, tile: int) -> Kernel:
    """A transpose of one matrix for each batch, in squares that turn in shared memory."""
    size, names = nbytes(operand), Names(task)
    c, pad = c_type(output.dtype), max(4 // size, 1)
    kind = "int" if index_type(extent(output.dims)) == "unsigned int" and _small(view) else "long long"
    (high, _), (wide, step) = view.axes[core], view.axes[-1]
    batch = [place for place in range(len(view.axes) - 1) if place != core]
    to_core = Extent()
    for size_, _ in view.axes[core + 1 :]:
        to_core = to_core * size_
    texts = {"high": names.c(high, kind), "wide": names.c(wide, kind)}
    lines = [
        "// Rows are an odd number of words long, so that the elements of a column lie in different banks.",
        f"__shared__ {c} square[{tile}][{tile} + {pad}];",
        f"const {kind} lane = threadIdx.x;",
        f"const {kind} high = {texts['high']}, wide = {texts['wide']};",
        f"const {kind} across = (wide + {tile - 1}) / {tile}, down = (high + {tile - 1}) / {tile};",
        "if (high == 0 || wide == 0) return;",
        f"{kind} rest = blockIdx.x;",
        f"const {kind} column = rest % across * {tile};",
        "rest /= across;",
        f"const {kind} line = rest % down * {tile};",
        "rest /= down;",
    ]
    start = [_product(names, one, kind) for one in view.start]
    end: list[str] = []
    for position, place in enumerate(reversed(batch)):
        count, stride = view.axes[place]
        inside = Extent()
        for later, _ in view.axes[place + 1 :]:
            inside = inside * later
        size_text = _product(names, count, kind) if count.known != 0 else "1"
        last = position + 1 == len(batch)
        lines.append(f"const {kind} i{place} = rest{'' if last else f' % {size_text}'};")
        if not last:
            lines.append(f"rest /= {size_text};")
        else:
            lines.append(f"if (i{place} >= {_product(names, count, kind)}) return;")
        if stride.known != 0:
            start.append(f"i{place} * {_product(names, stride, kind)}")
        end.append(f"i{place} * {_product(names, inside, kind)}")
    if not batch:
        lines.append("if (rest != 0) return;")
    lines += [
        f"const {c} *from = {operand.name}{f' + ({chr(32).join(_plus(start))})' if start else ''};",
        f"{c} *to = {output.name}{f' + ({chr(32).join(_plus(end))})' if end else ''};",
        "// Neighbouring threads read neighbouring elements of the input, which are one column of the output.",
        "#pragma unroll",
        f"for (int i = threadIdx.y; i < {tile}; i += {TILE_ROWS})",
        "    if (line + lane < high && column + i < wide)",
        f"        square[i][lane] = __ldcs(from + (line + lane + (column + i) * {_product(names, step, kind)}));",
        "__syncthreads();",
        "// And they write neighbouring elements of the output.",
        "#pragma unroll",
        f"for (int i = threadIdx.y; i < {tile}; i += {TILE_ROWS})",
        "    if (line + i < high && column + lane < wide)",
        f"        to[(line + i) * {_product(names, to_core, kind)} + column + lane] = square[lane][i];",
    ]
    why = (
        f"A square of {tile} x {tile} elements turns in shared memory, so that neighbouring elements are read and "
        "neighbouring ones written; its rows are padded, so that no two threads of a warp meet in a bank."
    )
    entry = f"transpose_{tile}"
    parameters = [
        f"const {c} *__restrict__ {operand.name}", *names.parameters, f"{c} *__restrict__ {output.name}",
    ]  # fmt: skip
    blocks = sizes.product([
        sizes.cdiv(wide.size(task), tile), sizes.cdiv(high.size(task), tile),
        *(view.axes[place][0].size(task) for place in batch),
    ])  # fmt: skip
    text = [*_opening(task, why, entry, parameters, tile * TILE_ROWS), *indented(lines), "}", ""]
    return Kernel(
        template="copy",
        tactic=1,
        label=f"squares of {tile}",
        entry=entry,
        source="\n".join(text),
        inputs=(operand.name,),
        outputs=(output.name,),
        extras=names.extras,
        grid=grid_of(blocks),
        block=(tile, TILE_ROWS, 1),
        why=why,
        in_flight=tile // TILE_ROWS * size,
        most_error=0.0,
    )


def _plus(terms: Sequence[str]) -> list[str]:
    return " + ".join(terms).split(" ")


def _opening(task: Task, why: str, entry: str, parameters: Sequence[str], threads: int) -> list[str]:
    return [
        f"// {task.name}: a copy.",
        *(f"// {line}" for line in textwrap.wrap(why, 116)),
        f'extern "C" __global__ void __launch_bounds__({threads}) {entry}(',
        *indented(f"{one}{',' if one is not parameters[-1] else ') {'}" for one in parameters),
    ]
