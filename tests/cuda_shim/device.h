// What emitted CUDA text is compiled against on the host: the language's extensions, and the functions of `runtime.h`.
//
// The text is compiled with the instrumentation of g++ for threads (a call at each access to memory) and for bounds of
// arrays; `hooks.h` answers these calls. So plain `shared[i] = x` is seen, without any change to the text.
#pragma once
#define TENON_HOST_SHIM 1

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// Each text that is compiled together with others defines `__shared__` by this, for a section of its own.
#define TN_SHIM_SHARED(unit) static __attribute__((section("tn_shared_" #unit)))

struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };

// A vector type is copied as a whole, as the hardware does it, so that the access is seen as one.
#define TN_SHIM_VECTOR2(name, T)                                                                       \
  struct __align__(2 * sizeof(T)) name {                                                               \
    typedef T Raw __attribute__((vector_size(2 * sizeof(T)), may_alias));                              \
    union { struct { T x, y; }; Raw raw; };                                                            \
    name() {}                                                                                          \
    name(T x, T y) : x(x), y(y) {}                                                                     \
    name(const name &other) : raw(other.raw) {}                                                        \
    name &operator=(const name &other) { raw = other.raw; return *this; }                              \
  };                                                                                                   \
  static inline name make_##name(T x, T y) { return name(x, y); }
#define TN_SHIM_VECTOR4(name, T)                                                                       \
  struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name {                                     \
    typedef T Raw __attribute__((vector_size(4 * sizeof(T)), may_alias));                              \
    union { struct { T x, y, z, w; }; Raw raw; };                                                      \
    name() {}                                                                                          \
    name(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}                                               \
    name(const name &other) : raw(other.raw) {}                                                        \
    name &operator=(const name &other) { raw = other.raw; return *this; }                              \
  };                                                                                                   \
  static inline name make_##name(T x, T y, T z, T w) { return name(x, y, z, w); }
TN_SHIM_VECTOR2(char2, signed char)
TN_SHIM_VECTOR4(char4, signed char)
TN_SHIM_VECTOR2(uchar2, unsigned char)
TN_SHIM_VECTOR4(uchar4, unsigned char)
TN_SHIM_VECTOR2(short2, short)
TN_SHIM_VECTOR4(short4, short)
TN_SHIM_VECTOR2(ushort2, unsigned short)
TN_SHIM_VECTOR4(ushort4, unsigned short)
TN_SHIM_VECTOR2(int2, int)
TN_SHIM_VECTOR4(int4, int)
TN_SHIM_VECTOR2(uint2, unsigned int)
TN_SHIM_VECTOR4(uint4, unsigned int)
TN_SHIM_VECTOR2(float2, float)
TN_SHIM_VECTOR4(float4, float)
TN_SHIM_VECTOR2(double2, double)
TN_SHIM_VECTOR2(longlong2, long long)
TN_SHIM_VECTOR2(ulonglong2, unsigned long long)

#include "runtime.h"

// -------------------------------------------------------------------------------------------------------- the launch

namespace tn_shim {

// Calls a kernel with arguments that are given as in cuLaunchKernel: a pointer to each.
template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Indices<I...> Type; };

template <class... A> struct Call {
  void (*kernel)(A...);
  void **arguments;
  template <int... I> void apply(Indices<I...>) { kernel(*(A *)arguments[I]...); }
  static void run(void *self) { ((Call *)self)->apply(typename Count<sizeof...(A)>::Type()); }
};

template <class... A>
const char *launch_kernel(void (*kernel)(A...), char *shared_start, char *shared_stop, const unsigned int *grid,
                          const unsigned int *block, void **arguments, const Options *options) {
  Call<A...> call = {kernel, arguments};
  return launch({Call<A...>::run, &call, shared_start, shared_stop}, grid, block, *options);
}

template <class T> T exchange(T value, unsigned int source) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 64 bits");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = exchange_bits(bits, source);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

static inline unsigned int lane() { return current->number % 32; }

}  // namespace tn_shim

#define TN_SHIM_EXPORT(unit, kernel)                                                                                \
  extern "C" char __start_tn_shared_##unit[] __attribute__((weak, visibility("hidden")));                           \
  extern "C" char __stop_tn_shared_##unit[] __attribute__((weak, visibility("hidden")));                            \
  extern "C" const char *unit##_##kernel(const unsigned int *grid, const unsigned int *block, void **arguments,     \
                                         const tn_shim::Options *options) {                                         \
    return tn_shim::launch_kernel(&unit::kernel, __start_tn_shared_##unit, __stop_tn_shared_##unit, grid, block,    \
                                  arguments, options);                                                              \
  }

// ------------------------------------------------------------------------------------------- what device code can use

#define threadIdx (tn_shim::current->thread)
#define blockIdx (tn_shim::block_position)
#define blockDim (tn_shim::block_shape)
#define gridDim (tn_shim::grid_shape)
#define warpSize 32
#define TN_DYNAMIC_SHARED(name) unsigned char *name = tn_shim::dynamic_shared()

static inline void __syncthreads() { tn_shim::sync_threads(); }
static inline void __syncwarp(unsigned int mask = 0xffffffffu) { tn_shim::sync_warp(mask); }
static inline void __threadfence() { tn_shim::fence_device(); }
static inline void __threadfence_block() {}

template <class T> static inline T __shfl_sync(unsigned int, T value, int lane, int width = 32) {
  unsigned int own = tn_shim::lane();
  return tn_shim::exchange(value, own / width * width + (unsigned int)lane % width);
}
template <class T> static inline T __shfl_xor_sync(unsigned int, T value, int distance, int width = 32) {
  unsigned int own = tn_shim::lane(), other = own ^ (unsigned int)distance;
  return tn_shim::exchange(value, other / width > own / width ? own : other);
}
template <class T> static inline T __shfl_down_sync(unsigned int, T value, unsigned int distance, int width = 32) {
  unsigned int own = tn_shim::lane();
  return tn_shim::exchange(value, own % width + distance < (unsigned int)width ? own + distance : own);
}
template <class T> static inline T __shfl_up_sync(unsigned int, T value, unsigned int distance, int width = 32) {
  unsigned int own = tn_shim::lane();
  return tn_shim::exchange(value, own % width >= distance ? own - distance : own);
}
static inline unsigned int __ballot_sync(unsigned int mask, int predicate) { return tn_shim::ballot(mask, predicate != 0); }
static inline int __any_sync(unsigned int mask, int predicate) { return tn_shim::ballot(mask, predicate != 0) != 0; }
static inline int __all_sync(unsigned int mask, int predicate) { return tn_shim::ballot(mask, predicate == 0) == 0; }

// Fibers change places only where they wait, so an atomic is an access that is told to be one.
#define TN_SHIM_ATOMIC __attribute__((no_sanitize("thread"), noinline))
template <class T, class F> static TN_SHIM_ATOMIC T tn_shim_atomic(T *address, F next) {
  tn_shim::atomic_access(address, sizeof(T));
  T old = *address;
  *address = next(old);
  return old;
}
template <class T> static inline T atomicAdd(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return (T)(old + value); }); }
template <class T> static inline T atomicSub(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return (T)(old - value); }); }
template <class T> static inline T atomicMax(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return value > old ? value : old; }); }
template <class T> static inline T atomicMin(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return value < old ? value : old; }); }
template <class T> static inline T atomicAnd(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return (T)(old & value); }); }
template <class T> static inline T atomicOr(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return (T)(old | value); }); }
template <class T> static inline T atomicXor(T *address, T value) { return tn_shim_atomic(address, [=](T old) { return (T)(old ^ value); }); }
template <class T> static inline T atomicExch(T *address, T value) { return tn_shim_atomic(address, [=](T) { return value; }); }
template <class T> static inline T atomicCAS(T *address, T expected, T value) {
  return tn_shim_atomic(address, [=](T old) { return old == expected ? value : old; });
}

// One access of as many bytes as a vector has, as on a device, or several of 16.
template <size_t bytes> struct TnShimWord;
template <> struct TnShimWord<2> { typedef short __attribute__((may_alias)) type; };
template <> struct TnShimWord<4> { typedef int __attribute__((may_alias)) type; };
template <> struct TnShimWord<8> { typedef long long __attribute__((may_alias)) type; };
template <> struct TnShimWord<16> { typedef long long __attribute__((vector_size(16), may_alias)) type; };
template <class V, class T> static inline __attribute__((always_inline)) V tn_load(const T *address) {
  typedef typename TnShimWord<(sizeof(V) < 16 ? sizeof(V) : 16)>::type Word;
  V result;
  for (size_t i = 0; i < sizeof(V) / sizeof(Word); i++) ((Word *)&result)[i] = ((const Word *)address)[i];
  return result;
}
template <class V, class T> static inline __attribute__((always_inline)) void tn_store(T *address, V value) {
  typedef typename TnShimWord<(sizeof(V) < 16 ? sizeof(V) : 16)>::type Word;
  for (size_t i = 0; i < sizeof(V) / sizeof(Word); i++) ((Word *)address)[i] = ((const Word *)&value)[i];
}

template <class To, class From> static inline To tn_shim_bits(From value) {
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}
static inline float __int_as_float(int x) { return tn_shim_bits<float>(x); }
static inline int __float_as_int(float x) { return tn_shim_bits<int>(x); }
static inline float __uint_as_float(unsigned int x) { return tn_shim_bits<float>(x); }
static inline unsigned int __float_as_uint(float x) { return tn_shim_bits<unsigned int>(x); }
static inline double __longlong_as_double(long long x) { return tn_shim_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return tn_shim_bits<long long>(x); }
static inline float tn_f16_to_f32(unsigned short x) { return (float)tn_shim_bits<_Float16>(x); }
static inline unsigned short tn_f32_to_f16(float x) { return tn_shim_bits<unsigned short>((_Float16)x); }
static inline unsigned short tn_f64_to_f16(double x) { return tn_shim_bits<unsigned short>((_Float16)x); }

static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
static inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)((unsigned long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
template <class T> static inline T __ldg(const T *address) { return *address; }

#include "instructions.h"
