"""What each scalar op and type of the loop stage is in CUDA C++ after `legalize-arith`, and the device functions
that the text relies on.

In an expression `{0}`, `{1}`, `{2}` are the operands, `{T}` is the C type of the result, `{U}` the unsigned type in
which it wraps around, `{V}` the same for the first operand, `{W}` the unsigned type of the result's width, `{bits}`
that width, and `{f}` the suffix of the single-precision variant of a math function. f16 and bf16 are storage types:
their values are bit patterns, which only conversions, loads, stores and selections touch.
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from tenon.dialects.upstream.float_remainder import RemFOp

INTEGER_TYPES = {1: "bool", 8: "signed char", 16: "short", 32: "int", 64: "long long"}
FLOAT_TYPES: dict[type[Attribute], str] = {
    Float16Type: "tn_f16",
    BFloat16Type: "tn_bf16",
    Float32Type: "float",
    Float64Type: "double",
}


def scalar_type(element: Attribute) -> str | None:
    """The C type of a value, or None if there is none."""
    if isinstance(element, IntegerType):
        return INTEGER_TYPES.get(element.width.data)
    return "long long" if isinstance(element, IndexType) else FLOAT_TYPES.get(type(element))


def memory_type(element: Attribute) -> str | None:
    """The C type of an element in memory: an i1 takes a byte, 0 or 1."""
    return "unsigned char" if element == IntegerType(1) else scalar_type(element)


def unsigned_type(element: Attribute) -> str:
    """The unsigned type in which arithmetic wraps around. Narrow types widen, and the cast back narrows."""
    wide = isinstance(element, IndexType) or (isinstance(element, IntegerType) and element.width.data == 64)
    return "unsigned long long" if wide else "unsigned int"


def same_width_unsigned(element: Attribute) -> str:
    """The unsigned type with exactly the bits of an integer type."""
    name = scalar_type(element)
    if name == "bool":
        return "bool"
    return "unsigned char" if name == "signed char" else f"unsigned {name}"


INTEGER_EXPRESSIONS: dict[type[Operation], str] = {
    arith.AddiOp: "({T})(({U}){0} + ({U}){1})",
    arith.SubiOp: "({T})(({U}){0} - ({U}){1})",
    arith.MuliOp: "({T})(({U}){0} * ({U}){1})",
    arith.DivSIOp: "({T})({0} / {1})",
    arith.DivUIOp: "({T})(({W}){0} / ({W}){1})",
    arith.RemSIOp: "({T})({0} % {1})",
    arith.RemUIOp: "({T})(({W}){0} % ({W}){1})",
    arith.AndIOp: "({T})({0} & {1})",
    arith.OrIOp: "({T})({0} | {1})",
    arith.XOrIOp: "({T})({0} ^ {1})",
    arith.ShLIOp: "({T})(({U}){0} << {1})",
    arith.ShRUIOp: "({T})(({W}){0} >> {1})",
    arith.ShRSIOp: "({T})({0} >> {1})",
    arith.MaxSIOp: "({0} > {1} ? {0} : {1})",
    arith.MinSIOp: "({0} < {1} ? {0} : {1})",
    arith.MaxUIOp: "(({W}){0} > ({W}){1} ? {0} : {1})",
    arith.MinUIOp: "(({W}){0} < ({W}){1} ? {0} : {1})",
    math.AbsIOp: "({T})({0} < 0 ? ({U})0 - ({U}){0} : ({U}){0})",
    math.CtPopOp: "({T})__popcll(({W}){0})",
    math.CountLeadingZerosOp: "({T})(__clzll(({W}){0}) - (64 - {bits}))",
    math.CountTrailingZerosOp: "({T})({0} == 0 ? {bits} : __ffsll({0}) - 1)",
}

FLOAT_EXPRESSIONS: dict[type[Operation], str] = {
    arith.AddfOp: "{0} + {1}",
    arith.SubfOp: "{0} - {1}",
    arith.MulfOp: "{0} * {1}",
    arith.DivfOp: "{0} / {1}",
    RemFOp: "fmod{f}({0}, {1})",
    arith.NegfOp: "-{0}",
    math.AbsFOp: "fabs{f}({0})",
    math.AcosOp: "acos{f}({0})",
    math.AcoshOp: "acosh{f}({0})",
    math.AsinOp: "asin{f}({0})",
    math.AsinhOp: "asinh{f}({0})",
    math.AtanOp: "atan{f}({0})",
    math.Atan2Op: "atan2{f}({0}, {1})",
    math.AtanhOp: "atanh{f}({0})",
    math.CbrtOp: "cbrt{f}({0})",
    math.CeilOp: "ceil{f}({0})",
    math.CopySignOp: "copysign{f}({0}, {1})",
    math.CosOp: "cos{f}({0})",
    math.CoshOp: "cosh{f}({0})",
    math.ErfOp: "erf{f}({0})",
    math.ExpOp: "exp{f}({0})",
    math.Exp2Op: "exp2{f}({0})",
    math.ExpM1Op: "expm1{f}({0})",
    math.FloorOp: "floor{f}({0})",
    math.FmaOp: "fma{f}({0}, {1}, {2})",
    math.FPowIOp: "pow{f}({0}, ({T}){1})",
    math.LogOp: "log{f}({0})",
    math.Log10Op: "log10{f}({0})",
    math.Log1pOp: "log1p{f}({0})",
    math.Log2Op: "log2{f}({0})",
    math.PowFOp: "pow{f}({0}, {1})",
    math.RoundOp: "round{f}({0})",
    math.RoundEvenOp: "rint{f}({0})",
    math.RsqrtOp: "rsqrt{f}({0})",
    math.SinOp: "sin{f}({0})",
    math.SinhOp: "sinh{f}({0})",
    math.SqrtOp: "sqrt{f}({0})",
    math.TanOp: "tan{f}({0})",
    math.TanhOp: "tanh{f}({0})",
    math.TruncOp: "trunc{f}({0})",
}

# Of f32, where the op allows an approximation (afn). That of an exponential takes subnormal results for 0.
APPROXIMATIONS: dict[type[Operation], str] = {
    math.ExpOp: "tn_exp_approximate({0})",
    math.Exp2Op: "tn_exp2_approximate({0})",
    math.TanhOp: "tn_tanh_approximate({0})",
    math.SqrtOp: "tn_sqrt_approximate({0})",
    arith.DivfOp: "tn_divide_approximate({0}, {1})",
}
# Where it has the attribute `flush` besides: subnormal results are 0, and operands that have them need not be scaled.
FLUSHED: dict[type[Operation], str] = {math.Exp2Op: "tn_exp2_flushed({0})"}
# Where it allows a reciprocal besides (arcp): of a divisor that is neither large nor small.
BY_RECIPROCAL = "{0} * tn_reciprocal_approximate({1})"

# In the order of the predicates of arith.cmpi; unsigned ones compare in `{V}`, the unsigned type of the operands.
INTEGER_COMPARISONS = (
    "{0} == {1}",
    "{0} != {1}",
    "{0} < {1}",
    "{0} <= {1}",
    "{0} > {1}",
    "{0} >= {1}",
    "({V}){0} < ({V}){1}",
    "({V}){0} <= ({V}){1}",
    "({V}){0} > ({V}){1}",
    "({V}){0} >= ({V}){1}",
)
# In the order of the predicates of arith.cmpf: first the ordered ones, false on NaN, then the unordered, true on it.
FLOAT_COMPARISONS = (
    "false",
    "{0} == {1}",
    "{0} > {1}",
    "{0} >= {1}",
    "{0} < {1}",
    "{0} <= {1}",
    "({0} < {1} || {0} > {1})",
    "({0} == {0} && {1} == {1})",
    "!({0} < {1} || {0} > {1})",
    "!({0} <= {1})",
    "!({0} < {1})",
    "!({0} >= {1})",
    "!({0} > {1})",
    "{0} != {1}",
    "({0} != {0} || {1} != {1})",
    "true",
)

# Low half, then high half.
PAIR_EXPRESSIONS: dict[type[Operation], tuple[str, str]] = {
    arith.MulUIExtendedOp: ("({T})(({U}){0} * ({U}){1})", "({T})tn_mulhi_unsigned<{W}>({0}, {1})"),
    arith.MulSIExtendedOp: ("({T})(({U}){0} * ({U}){1})", "tn_mulhi_signed<{T}>({0}, {1})"),
}

# Conversions between f32 and the types that are stored as bits; all others are C casts.
TO_FLOAT: dict[type[Attribute], str] = {Float16Type: "tn_f16_to_f32({0})", BFloat16Type: "tn_bf16_to_f32({0})"}
FROM_FLOAT: dict[type[Attribute], str] = {Float16Type: "tn_f32_to_f16({0})", BFloat16Type: "tn_f32_to_bf16({0})"}
# Of an f32 that is rounded to one of them, and an f32 again.
ROUNDED: dict[type[Attribute], str] = {
    Float16Type: "tn_f32_rounded_to_f16({0})",
    BFloat16Type: "tn_f32_rounded_to_bf16({0})",
}
BITCASTS: dict[tuple[str, str], str] = {
    ("float", "int"): "__float_as_int({0})",
    ("int", "float"): "__int_as_float({0})",
    ("double", "long long"): "__double_as_longlong({0})",
    ("long long", "double"): "__longlong_as_double({0})",
    ("tn_f16", "short"): "(short){0}",
    ("tn_bf16", "short"): "(short){0}",
    ("short", "tn_f16"): "(tn_f16){0}",
    ("short", "tn_bf16"): "(tn_bf16){0}",
}

PRELUDE = r"""
typedef unsigned short tn_f16;
typedef unsigned short tn_bf16;

// What one instruction moves, up to 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) tn_vector {
  T elements[N];
  static __device__ __forceinline__ tn_vector all(T value) {
    tn_vector result;
#pragma unroll
    for (int i = 0; i < N; i++) result.elements[i] = value;
    return result;
  }
};

#ifndef TENON_HOST_SHIM
template <class V, class T> __device__ __forceinline__ V tn_load(const T *address) { return *(const V *)address; }
template <class V, class T> __device__ __forceinline__ void tn_store(T *address, V value) { *(V *)address = value; }
__device__ __forceinline__ float tn_f16_to_f32(tn_f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
  return result;
}
__device__ __forceinline__ tn_f16 tn_f32_to_f16(float x) {
  tn_f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ tn_bf16 tn_f32_to_bf16(float x) {
  tn_bf16 result;  // neighbours become one conversion of two
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
}
// A conversion of one number has an eighth of the rate of arithmetic, one of two has half of it: the other one is 0.
__device__ __forceinline__ float tn_f32_rounded_to_f16(float x) {
  unsigned int both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(x));
  return tn_f16_to_f32((tn_f16)both);
}
__device__ __forceinline__ float tn_f32_rounded_to_bf16(float x) {
  unsigned int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x), "f"(0.0f));
  return __int_as_float((int)both);
}
__device__ __forceinline__ float tn_exp2_flushed(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float tn_exp_approximate(float x) { return tn_exp2_flushed(x * 1.44269504f); }
__device__ __forceinline__ float tn_exp2_approximate(float x) {
  float result;
  asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float tn_sqrt_approximate(float x) {
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float tn_divide_approximate(float x, float y) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}
__device__ __forceinline__ float tn_reciprocal_approximate(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// 1 - 2 / (exp(2 |x|) + 1) where that does not cancel, and the first terms of the series below.
__device__ __forceinline__ float tn_tanh_approximate(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fabsf(x) * 2.88539008f));
  float square = x * x, large = fmaf(-2.0f, tn_reciprocal_approximate(power + 1.0f), 1.0f);
  float small = fmaf(x, square * fmaf(square, 0.133333333f, -0.333333333f), x);
  return copysignf(fabsf(x) < 0.15f ? small : large, x);  // the sum of -0 and 0 is 0
}
#else
__device__ __forceinline__ tn_bf16 tn_f32_to_bf16(float x) {  // to nearest, ties to even
  unsigned int bits = (unsigned int)__float_as_int(x);
  if (x != x) return (tn_bf16)(bits >> 16 | 64);
  return (tn_bf16)((bits + 32767 + (bits >> 16 & 1)) >> 16);
}
__device__ __forceinline__ float tn_f32_rounded_to_f16(float x) { return tn_f16_to_f32(tn_f32_to_f16(x)); }
__device__ __forceinline__ float tn_f32_rounded_to_bf16(float x) {
  return __int_as_float((int)((unsigned int)tn_f32_to_bf16(x) << 16));
}
__device__ __forceinline__ float tn_exp_approximate(float x) { return expf(x); }
__device__ __forceinline__ float tn_exp2_approximate(float x) { return exp2f(x); }
__device__ __forceinline__ float tn_exp2_flushed(float x) { return exp2f(x); }
__device__ __forceinline__ float tn_tanh_approximate(float x) { return tanhf(x); }
__device__ __forceinline__ float tn_sqrt_approximate(float x) { return sqrtf(x); }
__device__ __forceinline__ float tn_divide_approximate(float x, float y) { return x / y; }
__device__ __forceinline__ float tn_reciprocal_approximate(float x) { return 1.0f / x; }
#endif

__device__ __forceinline__ float tn_bf16_to_f32(tn_bf16 x) { return __int_as_float((int)((unsigned int)x << 16)); }

template <class T> __device__ __forceinline__ T tn_mulhi_unsigned(T a, T b) {
  if (sizeof(T) == 8) return (T)__umul64hi(a, b);
  return (T)((unsigned long long)a * (unsigned long long)b >> (8 * sizeof(T) & 63));
}
template <class T> __device__ __forceinline__ T tn_mulhi_signed(T a, T b) {
  if (sizeof(T) == 8) return (T)__mul64hi(a, b);
  return (T)((long long)a * (long long)b >> (8 * sizeof(T) & 63));
}

// Every thread of the block, whose size is a multiple of 32, gets the combination of all their values.
template <class T> __device__ __forceinline__ T tn_shuffle(T value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
template <> __device__ __forceinline__ bool tn_shuffle(bool value, int distance) {
  return __shfl_xor_sync(0xffffffffu, (int)value, distance) != 0;
}
template <> __device__ __forceinline__ signed char tn_shuffle(signed char value, int distance) {
  return (signed char)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
template <> __device__ __forceinline__ short tn_shuffle(short value, int distance) {
  return (short)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
template <> __device__ __forceinline__ unsigned short tn_shuffle(unsigned short value, int distance) {
  return (unsigned short)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
template <class T, class F> __device__ __forceinline__ T tn_all_reduce(T value, T *slots, F combine) {
  for (int distance = 16; distance > 0; distance /= 2) value = combine(value, tn_shuffle(value, distance));
  unsigned int warps = blockDim.x / 32;
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  value = slots[0];
  for (unsigned int warp = 1; warp < warps; warp++) value = combine(value, slots[warp]);
  __syncthreads();
  return value;
}
"""
