"""A matrix times one vector, or a few: products that have 16 rows or columns at most on one side, with any batch.

The kernels read the matrix once, with 16 bytes a load and many loads under way, and keep the vectors in L1; sums are
made in fp32. ``rows``: the matrix is contiguous in what is summed, and threads that share a row add up by shuffles.
``columns``: it is contiguous across, and the threads of a block share what is summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from string import Template as Text
from typing import NamedTuple

from trtprof.base.records import Dim
from trtprof.base.units import DTYPE_BITS
from trtprof.plugin import products
from trtprof.plugin.cuda_text import c_type, widened
from trtprof.plugin.epilogue import Members, finish, heading, inside
from trtprof.plugin.expressions import Value, complete, literal
from trtprof.plugin.indexing import Names, Walk, extent, grid_of, groups, index_type
from trtprof.plugin.kernel import Kernel, NotFitError, template
from trtprof.plugin.products import Product, guess, static
from trtprof.plugin.sizes import cdiv, product
from trtprof.plugin.task import Task

_LOAD = 16  # Bytes of the widest load
_WARP = 32
_MANY = 128 * 4  # Blocks that keep a large GPU busy: some on each of its SMs
_VARIANTS = 5
_HELD = 160  # Numbers that a thread may hold in registers
_LONGEST = 2**31  # Dimensions are counted in 32 bits
_FLOATS = ("fp32", "fp16", "bf16")
_BYTES = ("int8", "uint8")

_READ = Text("""
// N elements of $what as floats, in packs of PACK. $why
template <int N, int WIDEST>
__device__ __forceinline__ void read_$name(const $c *from, float *to) {
    constexpr int PACK = WIDEST * sizeof($c) > 16 ? 16 / sizeof($c) : WIDEST;
#pragma unroll
    for (int at = 0; at < N; at += PACK) {
        const Pack<$c, PACK> pack = load_again<PACK>(from + at);
#pragma unroll
        for (int i = 0; i < PACK; ++i) to[at + i] = $widen;
    }
}
""")

_TO_FLOAT = Text("""
// Elements of the matrix as floats.
template <int N>
__device__ __forceinline__ void to_float(const Pack<Matrix, N> &pack, float *to) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = $widen;
}
""")

_BYTES_TO_FLOAT = Text("""
// Elements of the matrix as floats: four at a time where there are four.
template <int N>
__device__ __forceinline__ void to_float(const Pack<Matrix, N> &pack, float *to) {
    if constexpr (N % 4 == 0) {
        unsigned int fours[N / 4];
        memcpy(fours, &pack, N);
#pragma unroll
        for (int i = 0; i < N / 4; ++i) bytes_to_float<$signed>(fours[i], to + 4 * i);
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = (float)pack.at[i];
    }
}
""")

_VECTORS_BY_ROWS = """
// Elements k to k + WIDE of each vector: b[vector * WIDE + element]. Each vector is contiguous.
template <int WIDE>
__device__ __forceinline__ void read_vectors(const Vector *from, unsigned int k, unsigned int K, float *b) {
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) read_vector<WIDE, WIDE>(from + (Offset)j * K + k, b + j * WIDE);
}

template <int WIDE>
__device__ constexpr int in_vectors(int j, int i) { return j * WIDE + i; }
"""

_VECTORS_BY_COLUMNS = """
// Elements k to k + WIDE of all vectors, which lie side by side: b[element * VECTORS + vector].
template <int WIDE>
__device__ __forceinline__ void read_vectors(const Vector *from, unsigned int k, unsigned int, float *b) {
    read_vector<WIDE * VECTORS, WIDE>(from + (Offset)k * VECTORS, b);
}

template <int WIDE>
__device__ constexpr int in_vectors(int j, int i) { return i * VECTORS + j; }
"""

_ROWS_CONSTANTS = Text("""\
enum : int {
    THREADS = $threads,  // of a block
    LANES = $lanes,  // neighbouring threads that share a row
    ROWS = $rows,  // rows that a thread works on side by side
    PACKS = $packs,  // loads that a thread has under way in each of them
    VECTORS = $vectors,
    GROUPS = THREADS / LANES,
};
""")

_ROWS = Text("""\
template <int WIDE>
__device__ __forceinline__ void multiply($room_parameter) const {
    constexpr unsigned int STEP = LANES * WIDE * PACKS;  // elements of a row that are under way at once
$local_depth    const Index rows = $total;
    const unsigned int lane = threadIdx.x % LANES;
    const Index first = (Index)blockIdx.x * (GROUPS * ROWS) + threadIdx.x / LANES;
    const Matrix *row[ROWS];
    const Vector *vectors[ROWS];
$declare#pragma unroll
    for (int u = 0; u < ROWS; ++u) {
        // Threads beyond the last row read it once more and write nothing: sums need all threads of a warp.
        const Index wanted = first + u * GROUPS;
        const Index r = wanted < rows ? wanted : rows - 1;
$split        row[u] = matrix + (Offset)($matrix_index) * K;
        vectors[u] = vector + (Offset)($vector_index) * K * VECTORS;
$prepare    }

    float sum[ROWS][VECTORS] = {};
    for (unsigned int start = 0; start < K; start += STEP) {
        // All loads of the matrix go out before the first is waited for. What lies beyond the end of a row is not
        // used: its first pack is loaded in its place, so that no load waits for a branch.
        Pack<Matrix, WIDE> part[ROWS][PACKS];
#pragma unroll
        for (int p = 0; p < PACKS; ++p) {
            const unsigned int k = start + (p * LANES + lane) * WIDE;
            const unsigned int from = $whole k < K ? k : 0;
#pragma unroll
            for (int u = 0; u < ROWS; ++u) part[u][p] = load_once<WIDE>(row[u] + from);
        }
#pragma unroll
        for (int p = 0; p < PACKS; ++p) {
            const unsigned int k = start + (p * LANES + lane) * WIDE;
            if ($whole k < K) {
                float b[WIDE * VECTORS];
$read_scales#pragma unroll
                for (int u = 0; u < ROWS; ++u) {
$read_vectors                    float x[WIDE];
                    to_float(part[u][p], x);
$adjust#pragma unroll
                    for (int j = 0; j < VECTORS; ++j) {
#pragma unroll
                        for (int i = 0; i < WIDE; ++i) sum[u][j] += x[i] * b[in_vectors<WIDE>(j, i)];
                    }
                }
            }
        }
    }

$write}
""")

_WRITE_BY_WARP = Text("""\
    // Each of the threads of a row ends with its sum, and they take turns to write.
#pragma unroll
    for (int u = 0; u < ROWS; ++u) {
        const Index r = first + u * GROUPS;
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
            const float total = warp_reduce<Add, LANES>(sum[u][j]);
            if (lane == (u * VECTORS + j) % LANES && r < rows) {
                const $place o = $out_index;
                out[o] = finish(total$scaled, o);
            }
        }
    }
""")

_WRITE_BY_BLOCK = Text("""\
    // First the threads of each warp add up, then, by way of shared memory, the warps that share a row.
    constexpr int WARPS = LANES / 32;
#pragma unroll
    for (int u = 0; u < ROWS; ++u) {
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
            const float total = warp_reduce<Add, 32>(sum[u][j]);
            if (threadIdx.x % 32 == 0) room[u * VECTORS + j][threadIdx.x / 32] = total;
        }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < GROUPS * ROWS * VECTORS; at += THREADS) {
        const int group = at % GROUPS, u = at / GROUPS / VECTORS, j = at / GROUPS % VECTORS;
        const Index r = (Index)blockIdx.x * (GROUPS * ROWS) + u * GROUPS + group;
        float total = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) total += room[u * VECTORS + j][group * WARPS + warp];
        if (r < rows) {
            const $place o = $out_index;
            out[o] = finish(total$scaled, o);
        }
    }
""")
_COLUMNS_CONSTANTS = Text("""\
enum : int {
    THREADS = $threads,  // of a block
    ACROSS = $across,  // threads side by side, each with WIDE columns
    SPLIT = THREADS / ACROSS,  // parts that the sum is split into
    DEEP = $deep,  // loads that a thread has under way
    VECTORS = $vectors,
    TILE = ACROSS * $wide,  // columns of a block
    ROOM = TILE + TILE / 32,  // with a gap behind every 32, so that threads WIDE apart meet different banks
};
""")

_COLUMNS = Text("""\
// VECTOR_LOADS: whether WIDE columns are one load. If not, the columns of a thread are ACROSS apart, so that
// those of a warp still lie side by side.
template <int WIDE, bool VECTOR_LOADS>
__device__ __forceinline__ void multiply(float (*room)[ROOM]) const {
$local_depth    const unsigned int columns = $columns;
    const unsigned int tiles = (columns + TILE - 1) / TILE;
$batch    const unsigned int tile = blockIdx.x % tiles * TILE;
    const unsigned int lane = threadIdx.x % ACROSS, split = threadIdx.x / ACROSS;
    const unsigned int column = tile + (VECTOR_LOADS ? lane * WIDE : lane);
    const Matrix *block = matrix + (Offset)($matrix_index) * K * columns;
    const Vector *vectors = vector + (Offset)($vector_index) * K * VECTORS;
$prepare
    float sum[VECTORS][WIDE] = {};
    for (unsigned int start = split; start < K; start += SPLIT * DEEP) {
        // All loads of the matrix go out before the first is waited for. What lies beyond its end is not used: its
        // first elements are loaded in its place, so that no load waits for a branch.
        Pack<Matrix, WIDE> part[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; ++d) {
            const unsigned int k = start + d * SPLIT;
            const Matrix *from = block + (Offset)(k < K ? k : 0) * columns;
            if constexpr (VECTOR_LOADS) {
                part[d] = load_once<WIDE>(from + (column < columns ? column : 0));
            } else {
#pragma unroll
                for (int i = 0; i < WIDE; ++i) {
                    const unsigned int at = column + i * ACROSS;
                    part[d].at[i] = load_once<1>(from + (at < columns ? at : 0)).at[0];
                }
            }
        }
#pragma unroll
        for (int d = 0; d < DEEP; ++d) {
            const unsigned int k = start + d * SPLIT;
            if (k < K) {
                float b[VECTORS];
#pragma unroll
                for (int j = 0; j < VECTORS; ++j) read_vector<1, 1>(vectors + $vector_element, b + j);
$read_scales                float x[WIDE];
                to_float(part[d], x);
$adjust#pragma unroll
                for (int j = 0; j < VECTORS; ++j) {
#pragma unroll
                    for (int i = 0; i < WIDE; ++i) sum[j][i] += x[i] * b[j];
                }
            }
        }
    }

    // Threads of a warp that have the same columns add up by shuffles, warps by way of shared memory.
    constexpr int WARPS = THREADS / 32;
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
#pragma unroll
        for (int i = 0; i < WIDE; ++i) {
            float total = sum[j][i];
#pragma unroll
            for (int step = ACROSS; step < 32; step *= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
            const unsigned int at = VECTOR_LOADS ? lane * WIDE + i : i * ACROSS + lane;
            if (threadIdx.x % 32 < ACROSS) room[threadIdx.x / 32][at + at / 32] = total;
        }
        __syncthreads();
        for (unsigned int at = threadIdx.x; at < TILE; at += THREADS) {
            float total = 0.0f;
#pragma unroll
            for (int warp = 0; warp < WARPS; ++warp) total += room[warp][at + at / 32];
            const unsigned int r = tile + at;
            if (r < columns) {
                const $place o = $out_index;
                out[o] = finish(total$scaled, o);
            }
        }
        __syncthreads();  // the next vector uses the same shared memory
    }
}
""")

_ZEROS_ACROSS = """\
    float zeros_across[WIDE];
#pragma unroll
    for (int i = 0; i < WIDE; ++i) {{
        const unsigned int at = column + (VECTOR_LOADS ? i : i * ACROSS);
        zeros_across[i] = {value};
    }}
"""


class _Shape(NamedTuple):
    """How a variant shares its work out."""

    threads: int  # Of a block
    together: int  # Neighbouring threads that share a row, or that stand side by side over columns
    loads: int  # That a thread has under way, in each of its rows
    rows: int = 1  # Rows that a thread works on; 1 by columns


@template("gemv", "a matrix times a vector, or times up to 16: what is large is read once")
def gemv(task: Task) -> Sequence[Kernel]:
    """Kernels by rows or by columns, whichever way the matrix lies in memory."""
    if len(task.outputs) != 1:
        raise NotFitError(f"it has {len(task.outputs)} outputs")
    found = products.read(task)
    _check(task, found)
    shapes = list(dict.fromkeys(_by_rows(found) if found.by_rows else _by_columns(found)))[:_VARIANTS]
    return [_kernel(task, found, shape, tactic) for tactic, shape in enumerate(shapes, 1)]


def _check(task: Task, found: Product) -> None:
    """Refuse what the kernels do not know."""
    for one in (found.matrix, found.vector):
        known = (*_FLOATS, *_BYTES) if one.scale else _FLOATS
        if one.stored not in known or one.dtype not in _FLOATS:
            raise NotFitError(f"a product of {one.stored}")
    scale, zero = found.vector.scale, found.vector.zero
    if (scale and scale.place is not None) or (zero and zero.place is not None):
        raise NotFitError("a scale of the smaller side that is an input")
    if task.outputs[0].dtype not in _FLOATS:
        raise NotFitError(f"a result in {task.outputs[0].dtype}")
    for operand in (*task.inputs, *task.outputs):
        if any(isinstance(one, int) and one >= _LONGEST for one in operand.dims):
            raise NotFitError("a dimension of 2^31 or more")


def _element(found: Product) -> int:
    """Bytes of an element of the matrix."""
    return DTYPE_BITS[found.matrix.stored] // 8


def _wide(found: Product) -> int:
    """Elements of the matrix that one load moves: 16 bytes, or what its pitch is a multiple of."""
    pitch = found.summed if found.by_rows else found.across
    widest = _LOAD // _element(found)
    if not found.by_rows:
        # Each column has a sum for each vector: so many registers.
        widest = min(widest, max(64 // _power(found.vectors), 1))
    return math.gcd(pitch, widest) if isinstance(pitch, int) else widest


def _power(count: float) -> int:
    return int(2 ** max(math.ceil(math.log2(count)), 0)) if count > 1 else 1


def _rows_of(found: Product) -> tuple[Dim, ...]:
    """The dimensions that rows are counted along."""
    return (*found.batch, found.across)


def _walk(names: Names, found: Product) -> Walk:
    """From the number of a row, or by columns from that of the batch, to the places of the matrix and the vectors."""
    dims, varies = found.batch, {"matrix": found.of_matrix, "vector": found.of_vector}
    if found.by_rows:
        dims, varies = _rows_of(found), {"matrix": (*found.of_matrix, True), "vector": (*found.of_vector, False)}
    return Walk(groups(dims, range(len(dims)), varies), names, "Index", "i")


def _same_vectors(found: Product, groups_of_threads: int, rows: int) -> bool:
    """Whether the rows of a thread, which are so many groups apart, all meet the same vectors."""
    if not any(found.of_vector):
        return True
    if not static(_rows_of(found)) or found.again:
        return False
    kept = [one for one in zip(_rows_of(found), (*found.of_vector, False), strict=True) if one[0] != 1]
    # From the innermost: what the vectors have too, then what only the matrix has.
    inner = span = 1
    while kept and kept[-1][1]:
        inner *= guess([kept.pop()[0]])
    span = inner
    while kept and not kept[-1][1]:
        span *= guess([kept.pop()[0]])
    return groups_of_threads % inner == 0 and span % (groups_of_threads * rows) == 0


def _by_rows(found: Product) -> Iterator[_Shape]:
    """Variants by rows, the best guess first."""
    wide = _wide(found)
    loads = -(-guess([found.summed]) // wide)  # of a row
    count = guess(_rows_of(found))
    if count * _WARP < _MANY * 256 and loads > 2 * _WARP:
        for threads in (256, 512, 128):  # few rows: the threads of a block share one
            if loads >= threads // 2:
                yield _Shape(threads, threads, min(_power(loads / threads), 8 if found.vectors < 4 else 2))
    order = [(8, 1)] if loads >= 8 * _WARP else []
    order += [(4, 2), (4, 1), (2, 2), (8, 1), (2, 4), (2, 1), (1, 4), (1, 1)]
    if found.vectors >= 4:  # rows that share what is read of the vectors ask less of L1
        order = [(1, 4), (2, 2), (1, 2), (2, 1), (4, 1), (1, 1)]
    for each, rows in order:
        lanes = min(_power(loads / each), _WARP)
        packs = min(_power(loads / lanes), each)
        held = found.vectors * (wide + rows) + rows * packs * 4 + wide
        if rows * packs > 8 or rows * packs * wide * _element(found) > 128 or (held > _HELD and rows * packs > 1):
            continue
        if rows > 1 and count * lanes < rows * 256 * _MANY:
            continue  # too few blocks
        threads = next((one for one in (256, 128) if _same_vectors(found, one // lanes, rows)), 256)
        yield _Shape(threads, lanes, packs, rows)


def _by_columns(found: Product) -> Iterator[_Shape]:
    """Variants by columns, the best guess first."""
    wide = _wide(found)
    packs = -(-guess([found.across]) // wide)
    summed = guess([found.summed])
    least = max(_power(32 / (wide * _element(found))), 1)  # whole sectors
    across = max(min(_power(packs), _WARP), 1)
    while across > least and guess(found.batch) * -(-packs // across) < _MANY:
        across //= 2  # few columns: the threads of a block share the sum instead
    deep = max(min(64 // wide, 8) // _power(found.vectors / 4), 2)  # what is under way is held in registers
    for threads, wider, loads in (
        (256, across, deep), (512, across, deep), (256, across, deep // 2), (256, min(2 * across, _WARP), deep),
        (128, across, deep), (256, max(across // 2, min(least, across)), deep),
    ):  # fmt: skip
        yield _Shape(threads, wider, max(min(loads, _power(summed * wider / threads)), 1))


def _kernel(task: Task, found: Product, shape: _Shape, tactic: int) -> Kernel:
    wide = _wide(found)
    rows = [task.size(one) for one in _rows_of(found)]
    if found.by_rows:
        blocks = cdiv(product(rows), shape.threads // shape.together * shape.rows)
    else:
        blocks = product(rows[:-1]) * cdiv(rows[-1], shape.together * wide)
    label, why = _words(found, shape)
    entry = f"{task.name}_{tactic}"
    members = Members(task, Names(task))
    source = _source(members, found, shape, entry, [f"{task.name}: {label}.", f"Why it is fast: {why}"])
    reads = {}
    if found.again:
        elements = product([task.size(one) for one in (*found.matrix.dims, *found.again)])
        reads[task.inputs[found.matrix.place].name] = elements * _element(found)
    return Kernel(
        template="gemv",
        tactic=tactic,
        label=label,
        entry=entry,
        source=source,
        inputs=tuple(one.name for one in task.inputs),
        outputs=(task.outputs[0].name,),
        grid=grid_of(blocks),
        block=(shape.threads, 1, 1),
        why=why,
        in_flight=shape.rows * shape.loads * wide * _element(found),
        extras=members.names.extras,
        reads=reads,
    )


def _words(found: Product, shape: _Shape) -> tuple[str, str]:
    """What tells a variant from the others, and why it is fast."""
    load = _wide(found) * _element(found)
    flight = shape.rows * shape.loads * load
    often = f"once for each of the {' x '.join(map(str, found.again))} that share it" if found.again else "once"
    once = f"Each element of the matrix is read {often}, {load} bytes a load, and a thread has {flight} bytes under way"
    loads = f"{shape.loads} load{'s' * (shape.loads > 1)}"
    if not found.by_rows:
        parts = shape.threads // shape.together
        return f"{shape.together} threads across, sums in {parts} parts, {loads}", (
            f"{once}. The {parts} parts of a sum keep the memory busy where columns are few; they meet in shared "
            "memory."
        )
    a_thread = f"{shape.rows} row{'s' * (shape.rows > 1)} a thread"
    label = f"{shape.together} threads a row, {a_thread}, {loads}, blocks of {shape.threads}"
    if shape.together > _WARP:
        return label, f"{once}. Rows are few, so that a whole block shares one: the memory is busy all the same."
    same = _same_vectors(found, shape.threads // shape.together, shape.rows)
    kept = "the vectors stay in registers from row to row" if same and shape.rows > 1 else "the vectors come from L1"
    steps = (shape.together - 1).bit_length()
    return label, f"{once}; {kept}. A sum takes {steps} shuffle{'s' * (steps != 1)} and no shared memory."


class _Quantised(NamedTuple):
    """What a quantised matrix adds to the text."""

    scaled: str = ""  # Behind a sum: `` * ...``
    adjust: str = ""  # Lines that turn elements ``x[i]`` into what they stand for; none where they stand for themselves
    prepare: str = ""  # Lines that read zero points across, once
    along: str = ""  # Lines that read what goes along the sum
    functions: str = ""  # That those call


def _quantised(members: Members, found: Product, row: str) -> _Quantised:
    """How the numbers of a quantised matrix become what they stand for.

    `row`: the expression of a row's number in the matrix, for kernels by rows; it is ``r`` for those by columns.
    """
    by_rows = found.by_rows
    of_sum = -1 if found.first else -2
    scaled = element = prepare = along = functions = ""
    for one, name in ((found.matrix.zero, "zero"), (found.matrix.scale, "scale")):
        if one is None or (one.place is None and name == "zero" and one.value == 0):
            continue
        if one.place is None:
            use = literal(one.value, "fp32")
        else:
            members.use(one.place, name)
            use = widened(one.dtype, f"{name}[0]")
        if one.axis == of_sum and by_rows:
            use = f"{name}s[i]"
            functions += _reader(name, f"the {name}s along a row", one.dtype, "They need not be aligned.")
            along += f"                float {name}s[WIDE];\n"
            along += f"                read_{name}<WIDE, 1>({name} + k, {name}s);\n"
        elif one.axis == of_sum:
            use = f"{name}_of_k"
            along += f"                const float {use} = {widened(one.dtype, f'{name}[k]')};\n"
        elif one.axis and name == "zero":
            use = "zeros_across[u]" if by_rows else "zeros_across[i]"
            if by_rows:
                prepare = f"        zeros_across[u] = {widened(one.dtype, f'zero[{row}]')};\n"
            else:
                prepare = _ZEROS_ACROSS.format(value=widened(one.dtype, "zero[at < columns ? at : 0]"))
        elif one.axis:
            use = widened(one.dtype, f"scale[{row}]")
        if name == "zero":
            element = f"x[i] - {use}"
        elif one.axis == of_sum:
            element = f"({element or 'x[i]'}) * {use}"
        else:
            scaled = f" * {use}"
    if found.vector.scale:
        scaled += f" * {literal(found.vector.scale.value, 'fp32')}"
    indent = " " * (20 if by_rows else 16)
    adjust = f"#pragma unroll\n{indent}for (int i = 0; i < WIDE; ++i) x[i] = {element};\n" if element else ""
    return _Quantised(scaled, adjust, prepare, along, functions)


def _reader(name: str, what: str, dtype: str, why: str, offset: str = "") -> str:
    """A function that reads elements as floats."""
    widen = widened(dtype, "pack.at[i]") + offset
    return _READ.substitute(name=name, what=what, why=why, c=c_type(dtype), widen=widen)


def _readers(found: Product) -> str:
    """The functions that read both operands."""
    zero = found.vector.zero
    offset = f" - {literal(zero.value, 'fp32')}" if zero and zero.value else ""
    vector = _reader("vector", "a vector", found.vector.stored, "Other rows read them too.", offset)
    if found.matrix.stored in _BYTES:
        matrix = _BYTES_TO_FLOAT.substitute(signed=str(found.matrix.stored == "int8").lower())
    else:
        matrix = _TO_FLOAT.substitute(widen=widened(found.matrix.stored, "pack.at[i]"))
    if not found.by_rows:
        return vector + matrix
    return vector + matrix + (_VECTORS_BY_ROWS if found.vectors_by_rows else _VECTORS_BY_COLUMNS)


def _source(members: Members, found: Product, shape: _Shape, entry: str, words: Sequence[str]) -> str:
    """The whole file."""
    task = members.task
    members.use(found.matrix.place, "matrix")
    members.use(found.vector.place, "vector")
    whole = extent(task.outputs[0].dims)
    place = index_type(whole)
    counted = extent(_rows_of(found))
    index = "unsigned int" if counted.known is not None and counted.known < _LONGEST - 2**20 else "unsigned long long"
    constants, functions, multiply, call = (_rows if found.by_rows else _columns)(members, found, shape)
    name = "total"
    first = []
    if found.alpha != 1.0:
        first.append(f"const float product = total * {literal(found.alpha, 'fp32')};")
        name = "product"
    end = finish(
        members, found.dims, Value(name, found.matrix.dtype), found.node.output[0], found.after, place, first,
        found.added,
    )  # fmt: skip
    if isinstance(found.summed, int):
        constants += f"enum : unsigned int {{ K = {found.summed} }};  // what is summed\n"
    body = [f"    {line}" for line in call] if whole.known != 0 else ["    // The result has no elements."]
    lines = [
        heading(*words),
        f"using Matrix = {c_type(found.matrix.stored)};",
        f"using Vector = {c_type(found.vector.stored)};",
        f"using Index = {index};  // of rows",
        "using Offset = unsigned long long;  // of elements, which may be more than 32 bits count",
        "",
        *([] if whole.known == 0 else [constants + functions]),
        "struct Gemv {",
        members.lines,
        *([] if whole.known == 0 else ["", inside(end), "", inside(multiply)]),
        "};",
        "",
        "// One block an SM is asked for, so that the compiler keeps all loads in registers and under way.",
        f'extern "C" __global__ void __launch_bounds__({shape.threads}, 1) {entry}(',
        f"    {members.parameters}) {{",
        f"    const Gemv all = {{{members.arguments}}};",
        *body,
        "}",
        "",
    ]
    wanted = ["load", "aligned", "warp", *(["int8x4"] if found.matrix.stored in _BYTES else [])]
    dtypes = {one.dtype for one in (*task.inputs, *task.outputs)} & {*_FLOATS}
    return complete("\n".join(lines), *wanted, of=sorted(dtypes))


class _Text(NamedTuple):
    """Parts of the text."""

    constants: str  # Of the file
    functions: str  # Before the struct
    multiply: str  # The kernel itself, a member of the struct
    call: tuple[str, ...]  # Lines of the entry


def _depth(members: Members, found: Product) -> str:
    """A line for a length of sums that is not known before."""
    if isinstance(found.summed, int):
        return ""
    return f"    const unsigned int K = {members.names.c(extent([found.summed]), 'unsigned int')};  // what is summed\n"


def _rows(members: Members, found: Product, shape: _Shape) -> _Text:
    names = members.names
    walk = _walk(names, found)
    batched = any(one != 1 for one in found.batch)
    across = names.c(extent([found.across]), "Index")
    across = across if " " not in across else f"({across})"
    of_across = f"r % {across}" if batched else "r"
    quantised = _quantised(members, found, of_across)
    if _same_vectors(found, shape.threads // shape.together, shape.rows):
        read = "if (u == 0) read_vectors<WIDE>(vectors[0], k, K, b);  // all rows of a thread meet the same"
    else:
        read = "read_vectors<WIDE>(vectors[u], k, K, b);"
    if found.vectors == 1:
        out = "r"
    elif found.first:
        out = "(Offset)r * VECTORS + j"
    elif batched:
        out = f"((Offset)(r / {across}) * VECTORS + j) * {across} + {of_across}"
    else:
        out = f"(Offset)j * {across} + r"
    block = shape.together > _WARP
    write = (_WRITE_BY_BLOCK if block else _WRITE_BY_WARP).substitute(
        out_index=out, scaled=quantised.scaled, place=index_type(extent(found.dims))
    )
    multiply = _ROWS.substitute(
        local_depth=_depth(members, found),
        total=names.c(extent(_rows_of(found)), "Index"),
        room_parameter="float (*room)[THREADS / 32 + 1]" if block else "",
        declare="    float zeros_across[ROWS];\n" if quantised.prepare else "",
        split="".join(f"        {line}\n" for line in walk.split("r", ["matrix", "vector"])),
        matrix_index=walk.offset("matrix", "r"),
        vector_index=walk.offset("vector", "r") if walk.varies("vector") else "0",
        prepare=quantised.prepare,
        whole="K % STEP == 0 ||" if isinstance(found.summed, int) else "",
        read_scales=quantised.along,
        read_vectors=f"                    {read}\n",
        adjust=quantised.adjust,
        write=write,
    )
    constants = _ROWS_CONSTANTS.substitute(
        threads=shape.threads, lanes=shape.together, rows=shape.rows, packs=shape.loads, vectors=found.vectors
    )
    argument = "room" if block else ""
    call = _call(members, found, f"all.multiply<{_wide(found)}>({argument});", f"all.multiply<1>({argument});")
    room = (
        ["__shared__ float room[ROWS * VECTORS][THREADS / 32 + 1];  // one more: no two threads meet a bank"]
        if block
        else []
    )
    return _Text(constants, _readers(found) + quantised.functions, multiply, (*room, *call))


def _columns(members: Members, found: Product, shape: _Shape) -> _Text:
    names, wide = members.names, _wide(found)
    walk = _walk(names, found)
    quantised = _quantised(members, found, "r")
    batched = any(one != 1 for one in found.batch)
    if found.first:
        out = f"({'(Offset)batch * columns + ' if batched else '(Offset)'}r) * VECTORS + j"
    else:
        out = f"({'(Offset)batch * VECTORS + ' if batched else '(Offset)'}j) * columns + r"
    batch = ["const Index batch = blockIdx.x / tiles;", *walk.split("batch", ["matrix", "vector"])] if batched else []
    multiply = _COLUMNS.substitute(
        local_depth=_depth(members, found),
        columns=names.c(extent([found.across]), "unsigned int"),
        batch="".join(f"    {line}\n" for line in batch),
        matrix_index=walk.offset("matrix", "batch") if batched and walk.varies("matrix") else "0",
        vector_index=walk.offset("vector", "batch") if batched and walk.varies("vector") else "0",
        vector_element="(Offset)j * K + k" if found.vectors_by_rows else "(Offset)k * VECTORS + j",
        prepare=quantised.prepare,
        read_scales=quantised.along,
        adjust=quantised.adjust,
        out_index=out,
        scaled=quantised.scaled,
        place=index_type(extent(found.dims)),
    )
    constants = _COLUMNS_CONSTANTS.substitute(
        threads=shape.threads, across=shape.together, deep=shape.loads, vectors=found.vectors, wide=wide
    )
    call = _call(members, found, f"all.multiply<{wide}, true>(room);", f"all.multiply<{wide}, false>(room);")
    functions = _readers(found) + quantised.functions
    return _Text(constants, functions, multiply, ("__shared__ float room[THREADS / 32][ROOM];", *call))


def _call(members: Members, found: Product, wide_call: str, narrow_call: str) -> tuple[str, ...]:
    """The lines that choose between wide loads and single elements."""
    wide, names = _wide(found), members.names
    rows = extent(_rows_of(found))
    empty = () if rows.known else (f"if ({names.c(rows, 'Index')} == 0) return;  // the grid has a block all the same",)
    if wide == 1:
        return (*empty, wide_call)
    tests = [f"aligned<{wide * _element(found)}>(all.matrix)"]
    if found.by_rows:
        tests.append(f"aligned<{min(wide * DTYPE_BITS[found.vector.stored] // 8, _LOAD)}>(all.vector)")
    pitch = found.summed if found.by_rows else found.across
    if not isinstance(pitch, int):
        tests.append(f"{names.c(extent([pitch]), 'unsigned int')} % {wide} == 0")
    return (*empty, f"if ({' && '.join(tests)})", f"    {wide_call}", "else", f"    {narrow_call}")
