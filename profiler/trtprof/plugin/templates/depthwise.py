"""Depthwise convolution: each channel of an image, or of a signal, with a small filter of its own.

Neighbouring threads take neighbouring columns, and each thread some rows below one another, kept in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template as Text

from onnx import NodeProto

from trtprof.base.records import Attribute, Dim
from trtprof.base.units import DTYPE_BITS
from trtprof.plugin.cuda_text import c_type, widened
from trtprof.plugin.epilogue import Members, finish, heading, inside
from trtprof.plugin.expressions import Value, attributes, complete, computing
from trtprof.plugin.indexing import Names, extent, grid_of, index_type
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.sizes import cdiv, product
from trtprof.plugin.task import Operand, Task

_THREADS = 256
_UNROLLED = 49  # Elements of a filter up to which all of it is kept in registers
_HELD = 128  # Pixels that a thread may hold in registers
_FLOATS = ("fp32", "fp16", "bf16")


@dataclass(frozen=True)
class _Conv:
    """A depthwise convolution; what has two numbers is along rows and columns, and a signal is an image of one row."""

    node: NodeProto  # The node, as the body has it
    given: int  # The image
    weights: int  # The filters
    bias: int | None  # Input of the task, or None
    image: tuple[Dim, Dim]  # Rows and columns of the image
    out: tuple[Dim, Dim]  # Of the result
    filter: tuple[int, int]
    stride: tuple[int, int]  # By how much it moves
    dilation: tuple[int, int]  # By how much its elements are apart
    begin: tuple[int, int]  # What is padded before

    @property
    def taps(self) -> int:
        """Elements of a filter."""
        return self.filter[0] * self.filter[1]


@template("depthwise", "a depthwise convolution: each channel with a filter of its own")
def depthwise(task: Task) -> Sequence[Kernel]:
    """Kernels for a Conv whose groups are its channels, and what follows it."""
    if len(task.outputs) != 1:
        raise NotFitError(f"it has {len(task.outputs)} outputs")
    found = _read(task)
    return [_kernel(task, found, *shape, tactic) for tactic, shape in enumerate(_shapes(found), 1)]


def _shapes(found: _Conv) -> Iterator[tuple[int, int]]:
    """Rows below one another and columns apart that a thread takes, the best guess first."""
    if found.taps > _UNROLLED:
        yield 1, 1
        return
    for rows, items in ((1, 4), (1, 2), (1, 8), (1, 1)) if found.out[0] == 1 else ((4, 1), (2, 1), (8, 1), (1, 1)):
        span = (rows - 1) * found.stride[0] + (found.filter[0] - 1) * found.dilation[0] + 1
        held = items * min(span, rows * found.filter[0]) * found.filter[1]
        tall = isinstance(found.out[0], int) and rows >= 2 * found.out[0]
        if rows * items == 1 or (held <= _HELD and not tall):
            yield rows, items


def _read(task: Task) -> _Conv:
    nodes = [node for node in computing(task.body) if node.op_type == "Conv"]
    if len(nodes) != 1:
        raise NotFitError(f"it has {len(nodes)} convolutions, of which it knows one" if nodes else "no convolution")
    node, given = nodes[0], attributes(nodes[0])
    places = [next((at for at, one in enumerate(task.inputs) if one.name == name), None) for name in node.input]
    if None in places[:2] or (len(places) > 2 and node.input[2] and places[2] is None):
        raise NotFitError("the operands of its convolution are made in it")
    image, weights = task.inputs[places[0] or 0], task.inputs[places[1] or 0]
    bias = places[2] if len(places) > 2 and node.input[2] else None
    rank = len(image.dims) - 2
    if rank not in (1, 2) or len(weights.dims) != rank + 2:
        raise NotFitError("a convolution of images or signals is what it knows")
    channels, filters = image.dims[1], weights.dims
    sizes = [one for one in filters if isinstance(one, int)]
    if given.get("group", 1) != channels or filters[0] != channels or filters[1] != 1 or len(sizes) != rank + 2:
        raise NotFitError("a convolution whose channels are not each a group of their own, with one filter")
    out = task.outputs[0]
    for one in (image, weights, out, *([task.inputs[bias]] if bias is not None else [])):
        if one.dtype not in _FLOATS:
            raise NotFitError(f"a convolution of {one.dtype}")
    taps, strides, dilations = tuple(sizes[2:]), _numbers(given, "strides", rank), _numbers(given, "dilations", rank)
    begin = [_begin(given, image, out, axis, taps[axis], strides[axis], dilations[axis]) for axis in range(rank)]
    if rank == 1:
        return _Conv(
            node, places[0] or 0, places[1] or 0, bias, (1, image.dims[2]), (1, out.dims[2]), (1, taps[0]),
            (1, strides[0]), (1, dilations[0]), (0, begin[0]),
        )  # fmt: skip
    return _Conv(
        node, places[0] or 0, places[1] or 0, bias, (image.dims[2], image.dims[3]), (out.dims[2], out.dims[3]),
        (taps[0], taps[1]), (strides[0], strides[1]), (dilations[0], dilations[1]), (begin[0], begin[1]),
    )  # fmt: skip


def _numbers(given: Mapping[str, Attribute], name: str, rank: int) -> tuple[int, ...]:
    """An attribute with a number for each axis; 1 where it is left out."""
    found = given.get(name, (1,) * rank)
    if not isinstance(found, tuple) or len(found) != rank or not all(isinstance(one, int) and one > 0 for one in found):
        raise NotFitError(f"{name} of {found}")
    return tuple(int(one) for one in found)


def _begin(
    given: Mapping[str, Attribute], image: Operand, out: Operand, axis: int, taps: int, stride: int, dilation: int
) -> int:
    """What is padded before the image along an axis; the dimension of the result is held against it."""
    size, result = image.dims[2 + axis], out.dims[2 + axis]
    reach = dilation * (taps - 1)
    mode = given.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
        elif stride == 1:
            total = reach
        else:
            raise NotFitError("padding that follows from a dimension which is not known")
        begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
    elif mode == "VALID":
        begin = total = 0
    else:
        rank = len(image.dims) - 2
        pads = given.get("pads", (0,) * 2 * rank)
        if not isinstance(pads, tuple) or len(pads) != 2 * rank:
            raise NotFitError(f"pads of {pads}")
        begin, total = int(pads[axis]), int(pads[axis]) + int(pads[rank + axis])
    expected: Dim = size
    if isinstance(size, int):
        if size == 0:
            raise NotFitError("an image without pixels")
        expected = max((size + total - reach - 1) // stride + 1, 0)
    elif stride != 1 or total != reach:
        raise NotFitError("an image of unknown size, whose result has another")
    if result != expected:
        raise NotFitError(f"a result of {result} along an axis where {expected} follow from the image")
    return begin


_UNROLLED_SUM = Text("""\
    // All loads go out before the first is waited for. What lies in the padding is 0: the nearest pixel is loaded
    // in its place, so that no load waits for a branch.
    float pixels[ITEMS][SPAN][FILTER_X];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const Place p = place(item);
        const Pixel *image = given + (Offset)p.plane * H * W;
#pragma unroll
        for (int row = 0; row < SPAN; ++row) {
            if (!used(row)) continue;
            const long long y = (long long)p.y * STRIDE_Y - PAD_Y + row;
#pragma unroll
            for (int tap = 0; tap < FILTER_X; ++tap) {
                const long long x = (long long)p.x * STRIDE_X - PAD_X + tap * DILATION_X;
                const Pixel pixel = __ldg(image + nearest(y, H) * W + nearest(x, W));
                const bool inside = y >= 0 && y < H && x >= 0 && x < W;
                pixels[item][row][tap] = inside ? $pixel : 0.0f;
            }
        }
    }

#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const Place p = place(item);
        float filter[FILTER_Y][FILTER_X];
#pragma unroll
        for (int tap = 0; tap < FILTER_Y * FILTER_X; ++tap) {
            const Weight weight = __ldg(weights + (Offset)(p.plane % CHANNELS) * (FILTER_Y * FILTER_X) + tap);
            filter[tap / FILTER_X][tap % FILTER_X] = $weight;
        }
        const float start = $bias;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < FILTER_Y; ++i) {
#pragma unroll
                for (int j = 0; j < FILTER_X; ++j)
                    sum += pixels[item][r * STRIDE_Y + i * DILATION_Y][j] * filter[i][j];
            }
            write(p, r, sum + start);
        }
    }
""")

_LOOPED_SUM = Text("""\
    // The filter is too large for registers: pixels and weights come from L1 as they are needed.
    const Place p = place(0);
    const Pixel *image = given + (Offset)p.plane * H * W;
    const Weight *filter = weights + (Offset)(p.plane % CHANNELS) * (FILTER_Y * FILTER_X);
    float sum = 0.0f;
    for (int i = 0; i < FILTER_Y; ++i) {
        const long long y = (long long)p.y * STRIDE_Y - PAD_Y + i * DILATION_Y;
        if (y < 0 || y >= H) continue;
#pragma unroll 8
        for (int j = 0; j < FILTER_X; ++j) {
            const long long x = (long long)p.x * STRIDE_X - PAD_X + j * DILATION_X;
            const Pixel pixel = __ldg(image + y * W + nearest(x, W));
            const Weight weight = __ldg(filter + i * FILTER_X + j);
            if (x >= 0 && x < W) sum += $pixel * $weight;
        }
    }
    write(p, 0, sum + $bias);
""")

_TEXT = Text("""\
using Pixel = $pixel;
using Weight = $weight;
using Index = $index;  // of results
using Offset = unsigned long long;  // of elements, which may be more than 32 bits count

enum : int {
    THREADS = $threads,
    ROWS = $rows,  // results below one another that a thread makes
    ITEMS = $items,  // columns of them, a block apart
    CHANNELS = $channels,
    FILTER_Y = $filter_y,
    FILTER_X = $filter_x,
    STRIDE_Y = $stride_y,
    STRIDE_X = $stride_x,
    DILATION_Y = $dilation_y,
    DILATION_X = $dilation_x,
    PAD_Y = $pad_y,  // above the image
    PAD_X = $pad_x,  // left of it
    SPAN = (ROWS - 1) * STRIDE_Y + (FILTER_Y - 1) * DILATION_Y + 1,  // rows of the image that a thread reads
};

struct Place {
    Index plane;  // image and channel
    unsigned int y, x;  // of the first result
    bool real;  // or beyond the last
};

// The pixel of a row or column that is nearest to a place.
__device__ __forceinline__ long long nearest(long long at, long long size) {
    return at < 0 ? 0 : at < size ? at : size - 1;
}

// Whether a row of the span is one that a result needs: not all are where strides or dilations are large.
__device__ constexpr bool used(int row) {
    for (int r = 0; r < ROWS; ++r)
        for (int i = 0; i < FILTER_Y; ++i)
            if (r * STRIDE_Y + i * DILATION_Y == row) return true;
    return false;
}

struct Depthwise {
$members

$finish
    __device__ __forceinline__ Place place(int item) const {
        const Index total = $total, at = (Index)blockIdx.x * (THREADS * ITEMS) + item * THREADS + threadIdx.x;
        const Index safe = at < total ? at : total - 1;
        const Index row = safe / $out_x;
        return {row / $tiles, (unsigned int)(row % $tiles) * ROWS, (unsigned int)(safe % $out_x), at < total};
    }

    __device__ __forceinline__ void write(const Place &p, int r, float sum) const {
        if (!p.real || p.y + r >= $out_y) return;
        const $place o = (($place)p.plane * $out_y + p.y + r) * $out_x + p.x;
        out[o] = finish(sum, o);
    }

    __device__ __forceinline__ void convolve() const {
        const long long H = $image_y, W = $image_x;
$sum
    }
};

// One block an SM is asked for, so that the compiler keeps all loads in registers and under way.
extern "C" __global__ void __launch_bounds__(THREADS, 1) $entry(
    $parameters) {
    const Depthwise all = {$arguments};
$call
}
""")


def _kernel(task: Task, found: _Conv, rows: int, items: int, tactic: int) -> Kernel:
    image, weights, out = task.inputs[found.given], task.inputs[found.weights], task.outputs[0]
    names = Names(task)
    members = Members(task, names)
    members.use(found.given, "given")
    members.use(found.weights, "weights")
    bias = "0.0f"
    if found.bias is not None:
        bias = widened(task.inputs[found.bias].dtype, f"{members.use(found.bias, 'bias')}[p.plane % CHANNELS]")
    whole = extent(out.dims)
    place = index_type(whole)
    node = found.node
    end = finish(
        members, out.dims, Value("total", image.dtype), node.output[0],
        tuple(one for one in computing(task.body) if one != node), place,
    )  # fmt: skip
    planes = extent(image.dims[:2])
    tiles = cdiv(task.size(found.out[0]), rows)
    kind = index_type(whole)
    out_y, out_x = (_sized(names, one, kind) for one in found.out)
    tiles_text = str(tiles.known) if tiles.known is not None else f"(({out_y} + {rows - 1}) / {rows})"
    total = f"{names.c(planes, kind)} * {tiles_text} * {out_x}"
    label, why = _words(found, rows, items)
    entry = f"{task.name}_{tactic}"
    values = {"pixel": widened(image.dtype, "pixel"), "weight": widened(weights.dtype, "weight"), "bias": bias}
    sums = (_LOOPED_SUM if found.taps > _UNROLLED else _UNROLLED_SUM).substitute(values)
    call = "    // The result has no elements." if whole.known == 0 else "    all.convolve();"
    if whole.known is None:
        call = f"    if ({names.c(whole, kind)} == 0) return;  // the grid has a block all the same\n{call}"
    text = _TEXT.substitute(
        pixel=c_type(image.dtype), weight=c_type(weights.dtype), index=kind, threads=_THREADS, rows=rows, items=items,
        channels=image.dims[1], filter_y=found.filter[0], filter_x=found.filter[1], stride_y=found.stride[0],
        stride_x=found.stride[1], dilation_y=found.dilation[0], dilation_x=found.dilation[1], pad_y=found.begin[0],
        pad_x=found.begin[1], members=members.lines,
        finish=inside(end), total=total, out_x=out_x, out_y=out_y, tiles=tiles_text, place=place,
        image_y=_sized(names, found.image[0], "long long"), image_x=_sized(names, found.image[1], "long long"),
        sum=inside(sums), entry=entry, parameters=members.parameters,
        arguments=members.arguments, call=call,
    )  # fmt: skip
    head = heading(f"{task.name}: {label}.", f"Why it is fast: {why}")
    blocks = cdiv(
        product([*(task.size(one) for one in image.dims[:2]), tiles, task.size(found.out[1])]), _THREADS * items
    )
    dtypes = {one.dtype for one in (*task.inputs, out)} & {*_FLOATS}
    element = DTYPE_BITS[image.dtype] // 8
    return Kernel(
        template="depthwise",
        tactic=tactic,
        label=label,
        entry=entry,
        source=complete(f"{head}\n{text}", of=sorted(dtypes)),
        inputs=tuple(one.name for one in task.inputs),
        outputs=(out.name,),
        grid=grid_of(blocks),
        block=(_THREADS, 1, 1),
        why=why,
        in_flight=_in_flight(found, rows, items) * element,
        extras=names.extras,
    )


def _in_flight(found: _Conv, rows: int, items: int) -> int:
    """Pixels that a thread is the first to ask for before it waits: those up to the results of the next thread."""
    if found.taps > _UNROLLED:
        return min(found.filter[1], 8) if found.filter[1] <= found.stride[1] else 1
    across = min(found.stride[1], found.filter[1])
    return items * across * min(rows * found.stride[0], rows * found.filter[0])


def _words(found: _Conv, rows: int, items: int) -> tuple[str, str]:
    """What tells a variant from the others, and why it is fast."""
    apart = f"are {found.stride[1]} pixels apart" if found.stride[1] > 1 else "lie side by side"
    if found.taps > _UNROLLED:
        return "one result a thread, filter from L1", (
            f"Neighbouring threads make neighbouring results, so that loads of a warp {apart}; pixels that "
            "several results need come from L1."
        )
    if items > 1:
        label = f"{items} results a thread"
        return label, f"{label}, whose loads are all under way at once; those of a warp {apart}."
    label = f"{rows} row{'s' * (rows > 1)} a thread"
    return label, (
        f"Loads of a warp {apart} and are all under way at once; the {rows} results of a thread share the "
        "rows of the image in registers, and the filter too."
    )


def _sized(names: Names, dim: Dim, kind: str) -> str:
    text = names.c(extent([dim]), kind)
    return f"({text})" if " " in text else text
