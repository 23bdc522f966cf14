"""Pieces of CUDA C++ that kernels share: types, loads of 16 bytes, conversions, sums over a warp and a block.

`pieces` gives the text of those that are named, each once, with what they need before them. Nothing is included, so
that NVRTC and nvcc take the text alike; fp16 and bf16 are kept as the bits of an ``unsigned short``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trtprof.plugin.kernel import NotFitError


class Stored(NamedTuple):
    """How elements of a dtype lie in memory, and how they get into fp32 and back."""

    c: str  # The type in CUDA C++
    widen: str  # From an element to a float; ``{}`` is the element
    narrow: str  # From a float to an element, rounded to the nearest, ties to even; integers saturate
    pieces: tuple[str, ...] = ()  # What the two need


STORED: dict[str, Stored] = {
    "fp32": Stored("float", "{}", "{}"),
    "fp16": Stored("unsigned short", "half_to_float({})", "float_to_half({})", ("half",)),
    "bf16": Stored("unsigned short", "bf16_to_float({})", "float_to_bf16({})", ("bf16",)),
    "int8": Stored("signed char", "(float)({})", "float_to_int8({})", ("int8",)),
    "uint8": Stored("unsigned char", "(float)({})", "float_to_uint8({})", ("uint8",)),
    "int16": Stored("short", "(float)({})", "(short)({})"),
    "uint16": Stored("unsigned short", "(float)({})", "(unsigned short)({})"),
    "int32": Stored("int", "(float)({})", "(int)({})"),
    "uint32": Stored("unsigned int", "(float)({})", "(unsigned int)({})"),
    "int64": Stored("long long", "(float)({})", "(long long)({})"),
    "uint64": Stored("unsigned long long", "(float)({})", "(unsigned long long)({})"),
    "bool": Stored("unsigned char", "(float)({})", "(unsigned char)(({}) != 0.0f)"),
}
"""The dtypes that kernels know, by their key in `units.DTYPE_BITS`."""


def c_type(dtype: str) -> str:
    """The type of CUDA C++ that an element is stored in."""
    return _stored(dtype).c


def widened(dtype: str, element: str) -> str:
    """An expression of type float with the value of an element."""
    return _stored(dtype).widen.format(element)


def narrowed(dtype: str, value: str) -> str:
    """An expression of the stored type with the value of a float, rounded."""
    return _stored(dtype).narrow.format(value)


def pieces(*names: str, of: Iterable[str] = ()) -> str:
    """The text of some pieces and of what they need, each once, in an order that compiles."""
    wanted = set(_needed([*names, *(piece for dtype in of for piece in _stored(dtype).pieces)]))
    return "\n".join(piece.text.strip("\n") + "\n" for name, piece in PIECES.items() if name in wanted)


class Piece(NamedTuple):
    """Some text, and the pieces that stand before it."""

    text: str
    needs: tuple[str, ...] = ()


def _stored(dtype: str) -> Stored:
    found = STORED.get(dtype)
    if found is None:
        raise NotFitError(f"it has elements of {dtype}")
    return found


def _needed(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield from _needed(PIECES[name].needs)


PIECES: dict[str, Piece] = {
    "half": Piece("""
// fp16 is kept as its 16 bits. One instruction converts; sums are made in fp32.
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
"""),
    "bf16": Piece("""
// bf16 is the upper half of an fp32: a shift converts.
__device__ __forceinline__ float bf16_to_float(unsigned short bits) {
    return __uint_as_float((unsigned int)bits << 16);
}

// Rounded to the nearest, ties to even. GPUs before 8.0 have no instruction for it: half a unit of the last place is
// added to the bits, less one where the place is even, and what overflows becomes infinite by itself.
__device__ __forceinline__ unsigned short float_to_bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned int bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // not a number
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}
"""),
    "int8": Piece("""
__device__ __forceinline__ signed char float_to_int8(float value) {
    return (signed char)__float2int_rn(fminf(fmaxf(value, -128.0f), 127.0f));
}
"""),
    "uint8": Piece("""
__device__ __forceinline__ unsigned char float_to_uint8(float value) {
    return (unsigned char)__float2int_rn(fminf(fmaxf(value, 0.0f), 255.0f));
}
"""),
    "int8x4": Piece("""
// Four int8 (or uint8) become floats without the conversion unit, which has a quarter of the rate of the others: the
// byte, moved up by 128 where it is signed, goes into the mantissa of 2^23, and 2^23 (+ 128) is taken off again.
// Both steps are exact.
template <bool SIGNED>
__device__ __forceinline__ void bytes_to_float(unsigned int four, float *to) {
    if (SIGNED) four ^= 0x80808080u;
    const float offset = SIGNED ? 8388736.0f : 8388608.0f;
    to[0] = __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7440)) - offset;
    to[1] = __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7441)) - offset;
    to[2] = __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7442)) - offset;
    to[3] = __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7443)) - offset;
}
"""),
    "pack": Piece("""
// N elements side by side. Where they fill 2, 4, 8 or 16 bytes one instruction moves them all: with 16 bytes a thread
// a warp asks for 512 bytes at once, and keeps four times the bytes of single floats in flight for each instruction.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
    T at[N];
};

template <int BYTES> struct Word;
template <> struct Word<16> { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = unsigned int; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<1> { using type = unsigned char; };

template <int N, class T>
__device__ __forceinline__ Pack<T, N> zeros() {
    Pack<T, N> found;
#pragma unroll
    for (int i = 0; i < N; ++i) found.at[i] = 0;  // of every dtype the bits of 0 are 0
    return found;
}
"""),
    "aligned": Piece("""
// Whether packs of so many bytes can be moved from or to a pointer. TensorRT's own buffers are aligned to 256 bytes,
// but a tensor may be a view into the middle of another.
template <int BYTES>
__device__ __forceinline__ bool aligned(const void *pointer) {
    return (unsigned long long)pointer % BYTES == 0;
}
"""),
    "load": Piece(
        """
// What is read once: it is the first to leave the caches, so that what is read again can stay there.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_once(const T *from) {
    using Bits = typename Word<N * sizeof(T)>::type;
    const Bits bits = __ldcs(reinterpret_cast<const Bits *>(from));
    Pack<T, N> found;
    memcpy(&found, &bits, sizeof(found));
    return found;
}

// What other threads read too, and nobody writes while the kernel runs: it stays in L1.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_again(const T *from) {
    using Bits = typename Word<N * sizeof(T)>::type;
    const Bits bits = __ldg(reinterpret_cast<const Bits *>(from));
    Pack<T, N> found;
    memcpy(&found, &bits, sizeof(found));
    return found;
}
""",
        ("pack",),
    ),
    "store": Piece(
        """
// Without a hint: the next layer reads at once what is written here, best from L2.
template <int N, class T>
__device__ __forceinline__ void store(T *to, const Pack<T, N> &elements) {
    using Bits = typename Word<N * sizeof(T)>::type;
    Bits bits;
    memcpy(&bits, &elements, sizeof(bits));
    *reinterpret_cast<Bits *>(to) = bits;
}
""",
        ("pack",),
    ),
    "operations": Piece("""
// What sums and the like are made of: two values to one, and what changes nothing. Max and Min keep what is not a
// number, as ONNX Runtime and numpy do.
struct Add {
    template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; }
    static __device__ __forceinline__ float start() { return 0.0f; }
};
struct Mul {
    template <class T> static __device__ __forceinline__ T of(T a, T b) { return a * b; }
    static __device__ __forceinline__ float start() { return 1.0f; }
};
struct Max {
    template <class T> static __device__ __forceinline__ T of(T a, T b) { return a > b || a != a ? a : b; }
    static __device__ __forceinline__ float start() { return __uint_as_float(0xff800000u); }  // -infinity
};
struct Min {
    template <class T> static __device__ __forceinline__ T of(T a, T b) { return a < b || a != a ? a : b; }
    static __device__ __forceinline__ float start() { return __uint_as_float(0x7f800000u); }  // infinity
};
"""),
    "warp": Piece(
        """
// Over groups of LANES neighbouring threads (2, 4, ... 32) of a warp; each gets the result. Registers are exchanged,
// not shared memory, in log2(LANES) steps. All 32 threads of the warp have to come here.
template <class Operation, int LANES, class T>
__device__ __forceinline__ T warp_reduce(T value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        value = Operation::of(value, (T)__shfl_xor_sync(0xffffffffu, value, step));  // of small types it gives an int
    return value;
}
""",
        ("operations",),
    ),
    "block": Piece(
        """
// Over all THREADS of a block (a multiple of 32), which all have to come here; each gets the result, and all the same
// one. Each warp leaves one value in shared memory. The second barrier lets `room` be used again at once.
template <class Operation, int THREADS, class T>
__device__ __forceinline__ T block_reduce(T value) {
    __shared__ T room[THREADS / 32];
    value = warp_reduce<Operation, 32>(value);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    __syncthreads();
    T all = room[0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; ++warp) all = Operation::of(all, room[warp]);
    __syncthreads();
    return all;
}
""",
        ("warp",),
    ),
    "columns": Piece(
        """
// Over the DEEP rows of threads of a block of WIDTH columns, for each column; all have to come here.
template <class Operation, int WIDTH, int DEEP, class T>
__device__ __forceinline__ T column_reduce(T value) {
    if (DEEP == 1) return value;
    __shared__ T room[DEEP][WIDTH];
    room[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    T all = room[0][threadIdx.x];
#pragma unroll
    for (int deep = 1; deep < DEEP; ++deep) all = Operation::of(all, room[deep][threadIdx.x]);
    __syncthreads();
    return all;
}
""",
        ("operations",),
    ),
    "some": Piece(
        """
// N elements as they were loaded. They are taken apart where they are used: done where they are loaded, it would wait
// for them, and the next load with it.
template <class T, int N>
struct Held {
    typename Word<N * sizeof(T)>::type bits;
    __device__ __forceinline__ T operator[](int i) const {
        Pack<T, N> found;
        memcpy(&found, &bits, sizeof(found));
        return found.at[i];
    }
};

template <class T, int N>
__device__ __forceinline__ Held<T, N> held(const Pack<T, N> &pack) {
    Held<T, N> found;
    memcpy(&found.bits, &pack, sizeof(pack));
    return found;
}

// N elements of which the first `left` exist: with one instruction where all do and the address allows it.
template <int N, class T>
__device__ __forceinline__ Held<T, N> load_some(const T *from, long long left, bool packed) {
    if (packed && left >= N) return {__ldcs(reinterpret_cast<const typename Word<N * sizeof(T)>::type *>(from))};
    Pack<T, N> found;
#pragma unroll
    for (int i = 0; i < N; ++i) found.at[i] = i < left ? from[i] : T(0);
    return held(found);
}

// The same of what is read more than once.
template <int N, class T>
__device__ __forceinline__ Held<T, N> load_some_again(const T *from, long long left, bool packed) {
    if (packed && left >= N) return {__ldg(reinterpret_cast<const typename Word<N * sizeof(T)>::type *>(from))};
    Pack<T, N> found;
#pragma unroll
    for (int i = 0; i < N; ++i) found.at[i] = i < left ? __ldg(from + i) : T(0);
    return held(found);
}

template <int N, class T>
__device__ __forceinline__ void store_some(T *to, const Pack<T, N> &elements, long long left, bool packed) {
    if (packed && left >= N) {
        store(to, elements);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (i < left) to[i] = elements.at[i];
}

template <int N, class T>
__device__ __forceinline__ void store_some(T *to, const Held<T, N> &elements, long long left, bool packed) {
    if (packed && left >= N) {
        *reinterpret_cast<typename Word<N * sizeof(T)>::type *>(to) = elements.bits;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (i < left) to[i] = elements[i];
}
""",
        ("load", "store"),
    ),
}
"""All pieces by name, each behind those that it needs."""
