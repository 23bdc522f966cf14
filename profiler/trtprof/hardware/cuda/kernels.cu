// The kernels that measure a GPU. NVRTC compiles them as they are: no header is included.
//
// Every kernel that computes takes (out, trips): `trips` is how often its loop runs, and what one trip of
// one thread or warp does is counted in `_kernels.py`, against which the tests count the instructions.
// Results are written out, for a compiler removes what nobody reads.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void __launch_bounds__(256)

__device__ u32 thread_id() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ u32 thread_count() { return gridDim.x * blockDim.x; }

// --- random values --------------------------------------------------------------------------------

// The finaliser of MurmurHash3 (A. Appleby, public domain): every bit of the input moves half of the output.
__device__ u32 mix(u32 x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

// Uniform in [-1, 1).
__device__ float uniform(u32 seed) { return (int)mix(seed) * 4.656612873e-10f; }

__device__ u16 as_fp16(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

__device__ u16 as_bf16(float x) { return __float_as_uint(x) >> 16; }

#if __CUDA_ARCH__ >= 890
__device__ u8 as_e4m3(float x) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(pair) : "f"(x));
  return pair;
}

__device__ u8 as_e5m2(float x) {
  u16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(pair) : "f"(x));
  return pair;
}
#endif

// What a register of a tensor-core operand holds: random values of one type, and the same negated.
struct Word {
  typedef u32 Operand;
};
struct Fp16 : Word {
  static __device__ u32 value(u32 seed) { return as_fp16(uniform(2 * seed)) | as_fp16(uniform(2 * seed + 1)) << 16; }
  static __device__ u32 negated(u32 value) { return value ^ 0x80008000u; }
};
struct Bf16 : Word {
  static __device__ u32 value(u32 seed) { return as_bf16(uniform(2 * seed)) | as_bf16(uniform(2 * seed + 1)) << 16; }
  static __device__ u32 negated(u32 value) { return value ^ 0x80008000u; }
};
struct Tf32 : Word {
  static __device__ u32 value(u32 seed) { return __float_as_uint(uniform(seed)) & 0xffffe000u; }
  static __device__ u32 negated(u32 value) { return value ^ 0x80000000u; }
};
struct Int8 : Word {
  static __device__ u32 value(u32 seed) { return mix(seed); }
  static __device__ u32 negated(u32 value) { return ~value; }
};
struct Fp64 {
  typedef double Operand;
  static __device__ double value(u32 seed) { return uniform(seed) + uniform(~seed) * 4.656612873e-10; }
  static __device__ double negated(double value) { return -value; }
};
struct E2m1 : Word {
  // All sixteen patterns of four bits are numbers.
  static __device__ u32 value(u32 seed) { return mix(seed); }
  static __device__ u32 negated(u32 value) { return value ^ 0x88888888u; }
};
#if __CUDA_ARCH__ >= 890
struct E4m3 : Word {
  static __device__ u32 value(u32 seed) {
    u32 bits = 0;
    for (int i = 0; i < 4; ++i) bits |= (u32)as_e4m3(uniform(4 * seed + i)) << 8 * i;
    return bits;
  }
  static __device__ u32 negated(u32 value) { return value ^ 0x80808080u; }
};
struct E5m2 : Word {
  static __device__ u32 value(u32 seed) {
    u32 bits = 0;
    for (int i = 0; i < 4; ++i) bits |= (u32)as_e5m2(uniform(4 * seed + i)) << 8 * i;
    return bits;
  }
  static __device__ u32 negated(u32 value) { return value ^ 0x80808080u; }
};
#endif

#define FILL(name, type, value)                                                     \
  KERNEL fill_##name(type *out, u64 count, u32 seed) {                              \
    for (u64 i = thread_id(); i < count; i += thread_count()) {                     \
      u32 at = mix((u32)i ^ seed) + (u32)(i >> 32);                                 \
      out[i] = value;                                                               \
    }                                                                               \
  }
FILL(bits, u32, mix(at))
FILL(fp64, double, uniform(at) + uniform(at ^ 0x5bd1e995u) * 4.656612873e-10)
FILL(fp32, float, uniform(at))
FILL(fp16, u16, as_fp16(uniform(at)))
FILL(bf16, u16, as_bf16(uniform(at)))
FILL(int8, u8, mix(at))
#if __CUDA_ARCH__ >= 890
FILL(fp8e4m3fn, u8, as_e4m3(uniform(at)))
FILL(fp8e5m2, u8, as_e5m2(uniform(at)))
#endif

// --- memory ---------------------------------------------------------------------------------------

#define UNROLL 4

__device__ void load(uint4 &v, const uint4 *p) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
}

// Cached in the L2 only.
__device__ void load_l2(uint4 &v, const uint4 *p) {
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
}

__device__ void store(uint4 *p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ void merge(uint4 &sum, uint4 v) {
  sum.x ^= v.x;
  sum.y ^= v.y;
  sum.z ^= v.z;
  sum.w ^= v.w;
}

// `count` is in pieces of 16 bytes and a multiple of UNROLL * 256.
#define TILES(first, count)                                                                    \
  for (u64 first = (u64)blockIdx.x * (UNROLL * 256) + threadIdx.x; first < count;              \
       first += (u64)gridDim.x * (UNROLL * 256))

KERNEL dram_read(uint4 *out, const uint4 *in, u64 count) {
  uint4 sum = {0, 0, 0, 0};
  TILES(first, count) {
    uint4 v[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) load(v[i], in + first + i * 256);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) merge(sum, v[i]);
  }
  store(out + thread_id(), sum);
}

KERNEL dram_write(uint4 *out, u64 count, u32 seed) {
  uint4 v = {seed ^ thread_id(), mix(seed), ~seed, thread_id()};
  TILES(first, count) {
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) store(out + first + i * 256, v);
  }
}

KERNEL dram_copy(uint4 *out, const uint4 *in, u64 count) {
  TILES(first, count) {
    uint4 v[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) load(v[i], in + first + i * 256);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) store(out + first + i * 256, v[i]);
  }
}

// Every block reads `trips` of the `tiles` that the working set is made of, each time another one: all SMs
// go over all of it, several times over, also where there are more blocks than tiles.
#define WORKING_SET(at, tiles, trips)                                                                   \
  u32 step = gridDim.x % tiles ? gridDim.x % tiles : 1, tile = blockIdx.x % tiles;                      \
  for (u32 trip = 0, at; at = tile * (UNROLL * 256) + threadIdx.x, trip < trips;                        \
       ++trip, tile += step, tile -= tile < tiles ? 0 : tiles)

KERNEL cache_read(uint4 *out, const uint4 *in, u32 tiles, u32 trips) {
  uint4 sum = {0, 0, 0, 0};
  WORKING_SET(at, tiles, trips) {
    uint4 v[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) load_l2(v[i], in + at + i * 256);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) merge(sum, v[i]);
  }
  store(out + thread_id(), sum);
}

KERNEL cache_copy(uint4 *out, const uint4 *in, u32 tiles, u32 trips) {
  WORKING_SET(at, tiles, trips) {
    uint4 v[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) load_l2(v[i], in + at + i * 256);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) store(out + at + i * 256, v[i]);
  }
}

// --- rows -----------------------------------------------------------------------------------------

// Softmax and layer normalisation over the rows of a matrix, as libraries write them for rows of these lengths: a
// row is read once into registers, and written once. THREADS threads share a row and have PIECES pieces of 16
// bytes of it each; a block of 256 threads takes 256 / THREADS rows at a time.

struct Rows32 {
  static constexpr int VALUES = 4;
  static __device__ void open(float *x, uint4 v) {
    x[0] = __uint_as_float(v.x);
    x[1] = __uint_as_float(v.y);
    x[2] = __uint_as_float(v.z);
    x[3] = __uint_as_float(v.w);
  }
  static __device__ uint4 closed(const float *x) {
    return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
  }
};

struct Rows16 {
  static constexpr int VALUES = 8;
  static __device__ void pair(float *x, u32 v) {
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(x[0]), "=f"(x[1]) : "r"(v));
  }
  static __device__ u32 paired(const float *x) { return as_fp16(x[0]) | (u32)as_fp16(x[1]) << 16; }
  static __device__ void open(float *x, uint4 v) {
    pair(x, v.x);
    pair(x + 2, v.y);
    pair(x + 4, v.z);
    pair(x + 6, v.w);
  }
  static __device__ uint4 closed(const float *x) { return {paired(x), paired(x + 2), paired(x + 4), paired(x + 6)}; }
};

struct Sum {
  static __device__ float of(float a, float b) { return a + b; }
};
struct Highest {
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

// Of all threads of a row, in each of them.
template <class Of, int Threads> __device__ float over_row(float x) {
#pragma unroll
  for (int apart = 16; apart; apart /= 2) x = Of::of(x, __shfl_xor_sync(0xffffffffu, x, apart));
  if (Threads > 32) {
    __shared__ float parts[8];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) x = Of::of(x, parts[i]);
  }
  return x;
}

#define EACH_ROW(Threads, row, rows)                                                              \
  for (u32 row = blockIdx.x * (256 / Threads) + threadIdx.x / Threads; row < rows; row += gridDim.x * (256 / Threads))

template <class Type, int Threads, int Pieces> __device__ void softmax_rows(uint4 *out, const uint4 *in, u32 rows) {
  constexpr int N = Pieces * Type::VALUES;
  EACH_ROW(Threads, row, rows) {
    u64 first = (u64)row * (Threads * Pieces) + threadIdx.x % Threads;
    float x[N], top, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < Pieces; ++i) {
      uint4 v;
      load(v, in + first + i * Threads);
      Type::open(x + i * Type::VALUES, v);
    }
    top = x[0];
#pragma unroll
    for (int i = 1; i < N; ++i) top = fmaxf(top, x[i]);
    top = over_row<Highest, Threads>(top);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += x[i] = __expf(x[i] - top);
    float scale = 1.0f / over_row<Sum, Threads>(sum);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] *= scale;
#pragma unroll
    for (int i = 0; i < Pieces; ++i) store(out + first + i * Threads, Type::closed(x + i * Type::VALUES));
  }
}

// `factors` are a row of what each value is multiplied with, and behind it one of what is added.
template <class Type, int Threads, int Pieces>
__device__ void normalised_rows(uint4 *out, const uint4 *in, const uint4 *factors, u32 rows) {
  constexpr int N = Pieces * Type::VALUES;
  EACH_ROW(Threads, row, rows) {
    u32 lane = threadIdx.x % Threads;
    u64 first = (u64)row * (Threads * Pieces) + lane;
    float x[N], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < Pieces; ++i) {
      uint4 v;
      load(v, in + first + i * Threads);
      Type::open(x + i * Type::VALUES, v);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum += x[i];
    float mean = over_row<Sum, Threads>(sum) * (1.0f / (Threads * N));
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (x[i] - mean) * (x[i] - mean);
    float scale = rsqrtf(over_row<Sum, Threads>(squares) * (1.0f / (Threads * N)) + 1e-5f);
#pragma unroll
    for (int i = 0; i < Pieces; ++i) {
      uint4 v;
      float by[Type::VALUES], plus[Type::VALUES];
      load(v, factors + lane + i * Threads);
      Type::open(by, v);
      load(v, factors + (Threads * Pieces) + lane + i * Threads);
      Type::open(plus, v);
#pragma unroll
      for (int j = 0; j < Type::VALUES; ++j) by[j] = (x[i * Type::VALUES + j] - mean) * scale * by[j] + plus[j];
      store(out + first + i * Threads, Type::closed(by));
    }
  }
}

#define SOFTMAX(name, Type, Threads, Pieces)                                                    \
  KERNEL softmax_##name(uint4 *out, const uint4 *in, u32 rows) {                                \
    softmax_rows<Type, Threads, Pieces>(out, in, rows);                                         \
  }
#define NORMALISATION(name, Type, Threads, Pieces)                                              \
  KERNEL normalisation_##name(uint4 *out, const uint4 *in, const uint4 *factors, u32 rows) {    \
    normalised_rows<Type, Threads, Pieces>(out, in, factors, rows);                             \
  }
#define OF_ROWS(KIND)         \
  KIND(fp32_128, Rows32, 32, 1)    \
  KIND(fp32_512, Rows32, 32, 4)    \
  KIND(fp32_1024, Rows32, 32, 8)   \
  KIND(fp32_2048, Rows32, 256, 2)  \
  KIND(fp32_4096, Rows32, 256, 4)  \
  KIND(fp32_8192, Rows32, 256, 8)  \
  KIND(fp32_16384, Rows32, 256, 16) \
  KIND(fp16_512, Rows16, 32, 2)    \
  KIND(fp16_1024, Rows16, 32, 4)   \
  KIND(fp16_2048, Rows16, 256, 1)  \
  KIND(fp16_4096, Rows16, 256, 2)  \
  KIND(fp16_8192, Rows16, 256, 4)  \
  KIND(fp16_16384, Rows16, 256, 8)
OF_ROWS(SOFTMAX)
OF_ROWS(NORMALISATION)

// --- CUDA cores -----------------------------------------------------------------------------------

// CHAINS independent chains of STEPS multiply-adds a trip: the asm is volatile, so each of them is issued.
#define CHAINS 8
#define STEPS 16

#define MULTIPLY_ADD(name, type, letter, instruction, first, factor, addend)                                \
  KERNEL vector_##name(type *out, u32 trips) {                                                              \
    u32 seed = thread_id() * CHAINS;                                                                        \
    type x[CHAINS], a = factor, b = addend, sum = 0;                                                        \
    _Pragma("unroll") for (int j = 0; j < CHAINS; ++j) { u32 at = seed + j; x[j] = first; }                 \
    _Pragma("unroll 1") for (u32 trip = 0; trip < trips; ++trip) {                                          \
      _Pragma("unroll") for (int i = 0; i < STEPS; ++i)                                                     \
        _Pragma("unroll") for (int j = 0; j < CHAINS; ++j)                                                  \
          asm volatile(instruction " %0, %0, %1, %2;" : "+" letter(x[j]) : letter(a), letter(b));           \
    }                                                                                                       \
    _Pragma("unroll") for (int j = 0; j < CHAINS; ++j) sum += x[j];                                         \
    out[thread_id()] = sum;                                                                                 \
  }
MULTIPLY_ADD(fp32, float, "f", "fma.rn.f32", uniform(at), -0.75f + 0.01f * (thread_id() & 7), 0.5f)
MULTIPLY_ADD(fp64, double, "d", "fma.rn.f64", uniform(at), -0.75 + 0.01 * (thread_id() & 7), 0.5)
MULTIPLY_ADD(int32, u32, "r", "mad.lo.u32", mix(at), 2 * thread_id() + 3, thread_id())
// Two values each; 0xba00 is -0.75 and 0x3800 is 0.5 in fp16, 0xbf40 and 0x3f00 are those in bf16.
MULTIPLY_ADD(fp16, u32, "r", "fma.rn.f16x2", Fp16::value(at), 0xba00ba00u, 0x38003800u)
#if __CUDA_ARCH__ >= 800
MULTIPLY_ADD(bf16, u32, "r", "fma.rn.bf16x2", Bf16::value(at), 0xbf40bf40u, 0x3f003f00u)
#endif
#if __CUDA_ARCH__ >= 1000
// Two values each; 0xbf400000 is -0.75, 0x3f000000 is 0.5.
MULTIPLY_ADD(fp32x2, u64, "l", "fma.rn.f32x2", (u64)__float_as_uint(uniform(at)) << 32 | __float_as_uint(uniform(~at)),
             0xbf400000bf400000ull, 0x3f0000003f000000ull)
#endif

// --- special functions ----------------------------------------------------------------------------

// SPECIAL_CHAINS independent chains of SPECIAL_STEPS evaluations a trip, each of the result before.
#define SPECIAL_CHAINS 4
#define SPECIAL_STEPS 8
#define LN2 0.6931471806f
#define LOG2_E 1.442695041f

#define APPROXIMATE(name, instruction)                           \
  __device__ float name(float x) {                               \
    float y;                                                     \
    asm(instruction " %0, %1;" : "=f"(y) : "f"(x));              \
    return y;                                                    \
  }
APPROXIMATE(ex2, "ex2.approx.ftz.f32")
APPROXIMATE(lg2, "lg2.approx.ftz.f32")
APPROXIMATE(root, "sqrt.approx.ftz.f32")
APPROXIMATE(reciprocal, "rcp.approx.ftz.f32")
APPROXIMATE(sine, "sin.approx.ftz.f32")
APPROXIMATE(cosine, "cos.approx.ftz.f32")
#if __CUDA_ARCH__ >= 750
APPROXIMATE(hyperbolic_tangent, "tanh.approx.f32")
#else
__device__ float hyperbolic_tangent(float x) { return 1.0f - 2.0f * reciprocal(1.0f + ex2(2 * LOG2_E * x)); }
#endif

__device__ u32 ex2_pair(u32 x) {
  u32 y;
  asm("ex2.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x));
  return y ^ 0x80008000u;
}

__device__ u32 tanh_pair(u32 x) {
  u32 y;
  asm("tanh.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

#define SPECIAL(name, type, first, value)                                                                   \
  KERNEL special_##name(type *out, u32 trips) {                                                             \
    u32 seed = thread_id() * SPECIAL_CHAINS;                                                                \
    type chain[SPECIAL_CHAINS], sum = 0;                                                                    \
    _Pragma("unroll") for (int j = 0; j < SPECIAL_CHAINS; ++j) { u32 at = seed + j; chain[j] = first; }     \
    _Pragma("unroll 1") for (u32 trip = 0; trip < trips; ++trip) {                                          \
      _Pragma("unroll") for (int i = 0; i < SPECIAL_STEPS; ++i)                                             \
        _Pragma("unroll") for (int j = 0; j < SPECIAL_CHAINS; ++j) { type x = chain[j]; chain[j] = value; } \
    }                                                                                                       \
    _Pragma("unroll") for (int j = 0; j < SPECIAL_CHAINS; ++j) sum += chain[j];                             \
    out[thread_id()] = sum;                                                                                 \
  }
#define POSITIVE (1.5f + 0.5f * uniform(at))
// Scales and sums keep the chain in the domain of its function; they run beside the special-function unit.
SPECIAL(exp, float, POSITIVE, ex2(-LOG2_E *x))
SPECIAL(log, float, POSITIVE, lg2(x) * LN2 + 2.0f)
SPECIAL(sqrt, float, POSITIVE, root(x))
SPECIAL(sin, float, POSITIVE, sine(x))
SPECIAL(cos, float, POSITIVE, cosine(x))
SPECIAL(tan, float, POSITIVE, sine(x) * reciprocal(cosine(x)))
SPECIAL(tanh, float, POSITIVE, hyperbolic_tangent(x))
SPECIAL(pow, float, POSITIVE, ex2(0.9f * lg2(x)))
__device__ float half_sinh(float x) {
  float e = ex2(LOG2_E * x);
  return 0.25f * e - 0.25f * reciprocal(e);
}
__device__ float cosh_less_one(float x) {
  float e = ex2(LOG2_E * x);
  return 0.5f * e + (0.5f * reciprocal(e) - 1.0f);
}
SPECIAL(sinh, float, 0.5f * POSITIVE, half_sinh(x))
SPECIAL(cosh, float, 0.5f * POSITIVE, cosh_less_one(x))
SPECIAL(asinh, float, POSITIVE, lg2(x + root(x * x + 1.0f)) * LN2)
SPECIAL(acosh, float, POSITIVE, lg2(x + root(x * x - 1.0f)) * LN2 + 1.0f)
SPECIAL(atanh, float, 0.25f * POSITIVE, (0.5f * LN2) * lg2((1.0f + x) * reciprocal(1.0f - x)) * 0.5f)
// The unit has no instruction for these: the mathematical library of CUDA, at what --use_fast_math makes of it.
SPECIAL(erf, float, POSITIVE, erff(x))
SPECIAL(asin, float, 0.25f * POSITIVE, 0.5f * asinf(x))
SPECIAL(acos, float, 0.25f * POSITIVE, 0.5f * acosf(x))
SPECIAL(atan, float, POSITIVE, atanf(x))
#if __CUDA_ARCH__ >= 750
SPECIAL(exp_fp16, u32, Fp16::value(at), ex2_pair(x))
SPECIAL(tanh_fp16, u32, Fp16::value(at), tanh_pair(x))
#endif

// --- tensor cores ---------------------------------------------------------------------------------

// A warp keeps `Chains` independent sums. A trip adds FRAGMENTS products to each; every other pair of
// operands is the first negated, so that the sums stay where they are while all bits move.
#define FRAGMENTS 4

template <class Mma, int Chains>
__device__ void multiply(u32 *out, u32 trips) {
  typedef typename Mma::Type Type;
  typename Type::Operand a[FRAGMENTS][Mma::A], b[Chains][Mma::B];
  typename Mma::Sum c[Chains][Mma::C], sum = 0;
  u32 seed = thread_id() * 256;
#pragma unroll
  for (int f = 0; f < FRAGMENTS / 2; ++f)
#pragma unroll
    for (int i = 0; i < Mma::A; ++i) {
      a[f][i] = Type::value(seed + f * Mma::A + i);
      a[f + FRAGMENTS / 2][i] = Type::negated(a[f][i]);
    }
#pragma unroll
  for (int j = 0; j < Chains; ++j) {
#pragma unroll
    for (int i = 0; i < Mma::B; ++i) b[j][i] = Type::value(seed + 128 + j * Mma::B + i);
#pragma unroll
    for (int i = 0; i < Mma::C; ++i) c[j][i] = 0;
  }
#pragma unroll 1
  for (u32 trip = 0; trip < trips; ++trip) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; ++f)
#pragma unroll
      for (int j = 0; j < Chains; ++j) Mma::add(c[j], a[f], b[j]);
  }
#pragma unroll
  for (int j = 0; j < Chains; ++j)
#pragma unroll
    for (int i = 0; i < Mma::C; ++i) sum += c[j][i];
  out[thread_id()] = (u32)sum;
}

// MMA_a_b_c: operands in a and b registers, sums in c; m16n8k16 and the like are rows, columns and depth.
#define MMA(name, chains, type, sum, a_count, b_count, c_count, ...)                    \
  struct name {                                                                         \
    typedef type Type;                                                                  \
    typedef sum Sum;                                                                    \
    enum { A = a_count, B = b_count, C = c_count };                                     \
    static __device__ void add(Sum *c, const Type::Operand *a, const Type::Operand *b) { \
      asm volatile(__VA_ARGS__);                                                        \
    }                                                                                   \
  };                                                                                    \
  KERNEL tensor_##name(u32 *out, u32 trips) { multiply<name, chains>(out, trips); }
#define MMA_4_2_4(name, type, sum, letter, instruction)                                               \
  MMA(name, 8, type, sum, 4, 2, 4,                                                                    \
      instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                  \
      : "+" letter(c[0]), "+" letter(c[1]), "+" letter(c[2]), "+" letter(c[3])                        \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_4_2_2(name, type, instruction)                                                            \
  MMA(name, 8, type, u32, 4, 2, 2, instruction " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"     \
      : "+r"(c[0]), "+r"(c[1])                                                                        \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

#if __CUDA_ARCH__ >= 750
MMA(fp16_fp32_m16n8k8, 8, Fp16, float, 2, 1, 4,
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
    : "r"(a[0]), "r"(a[1]), "r"(b[0]))
MMA(fp16_fp16_m16n8k8, 8, Fp16, u32, 2, 1, 2,
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
    : "+r"(c[0]), "+r"(c[1])
    : "r"(a[0]), "r"(a[1]), "r"(b[0]))
MMA(int8_int32_m8n8k16, 8, Int8, int, 1, 1, 2,
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
    : "+r"(c[0]), "+r"(c[1])
    : "r"(a[0]), "r"(b[0]))
#endif

#if __CUDA_ARCH__ >= 800
MMA_4_2_4(fp16_fp32_m16n8k16, Fp16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_4_2_2(fp16_fp16_m16n8k16, Fp16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
MMA_4_2_4(bf16_fp32_m16n8k16, Bf16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_4_2_4(tf32_fp32_m16n8k8, Tf32, float, "f", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_4_2_4(int8_int32_m16n8k32, Int8, int, "r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
MMA(fp64_fp64_m8n8k4, 8, Fp64, double, 1, 1, 2,
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
    : "+d"(c[0]), "+d"(c[1])
    : "d"(a[0]), "d"(b[0]))
#endif

#if __CUDA_ARCH__ >= 890
MMA_4_2_4(fp8e4m3fn_fp32_m16n8k32, E4m3, float, "f", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA_4_2_4(fp8e5m2_fp32_m16n8k32, E5m2, float, "f", "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32")
MMA_4_2_2(fp8e4m3fn_fp16_m16n8k32, E4m3, "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16")
#endif

#if __CUDA_ARCH__ >= 900
MMA(fp64_fp64_m16n8k16, 4, Fp64, double, 8, 4, 4,
    "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
    "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
    : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
    : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
      "d"(b[2]), "d"(b[3]))
#endif

// A feature of compute capability 12.x alone: sm_120a, not sm_120, has to be asked for.
#if defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ / 100 == 12 || defined(__CUDA_ARCH_FEAT_SM120_ALL)
// The scales of the blocks are 1, 0x38 as ue4m3, in all four bytes.
MMA(fp4e2m1_fp32_m16n8k64, 8, E2m1, float, 4, 2, 4,
    "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%11, %11}, {%10}, {%11, %11};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0x38383838), "h"((u16)0))
#endif

// --- floors ---------------------------------------------------------------------------------------

KERNEL empty() {}

// Keeps the stream busy for `ns`, so that what is queued behind it waits for the device and not for the host.
KERNEL spin(u64 ns) {
  u64 began, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
  do
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - began < ns);
}
