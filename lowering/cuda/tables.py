"""What each scalar op and type of the loop stage is in CUDA C++, and the device functions that the text relies on.

In an expression `{0}`, `{1}`, `{2}` are the operands, `{T}` is the C type of the result, `{U}` the unsigned type in
which it wraps around, `{S}` and `{V}` the same two for the first operand, and `{f}` the suffix of the single-precision
variant of a math function. f16 and bf16 are storage types: their values are bit patterns, which only conversions,
loads, stores and selections touch.
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
    arith.DivSIOp: "tn_divsi<{T}>({0}, {1})",
    arith.RemSIOp: "tn_remsi<{T}>({0}, {1})",
    arith.FloorDivSIOp: "tn_floordivsi<{T}>({0}, {1})",
    arith.CeilDivSIOp: "tn_ceildivsi<{T}>({0}, {1})",
    arith.DivUIOp: "({T})tn_divui<{W}>({0}, {1})",
    arith.RemUIOp: "({T})tn_remui<{W}>({0}, {1})",
    arith.CeilDivUIOp: "({T})tn_ceildivui<{W}>({0}, {1})",
    arith.AndIOp: "({T})({0} & {1})",
    arith.OrIOp: "({T})({0} | {1})",
    arith.XOrIOp: "({T})({0} ^ {1})",
    arith.ShLIOp: "({T})tn_shl<{W}>({0}, {1})",
    arith.ShRUIOp: "({T})tn_shr<{W}>({0}, {1})",
    arith.ShRSIOp: "tn_shrsi<{T}>({0}, {1})",
    arith.MaxSIOp: "({0} > {1} ? {0} : {1})",
    arith.MinSIOp: "({0} < {1} ? {0} : {1})",
    arith.MaxUIOp: "(({W}){0} > ({W}){1} ? {0} : {1})",
    arith.MinUIOp: "(({W}){0} < ({W}){1} ? {0} : {1})",
    math.AbsIOp: "({T})({0} < 0 ? ({U})0 - ({U}){0} : ({U}){0})",
    math.CtPopOp: "({T})__popcll(({W}){0})",
    math.CountLeadingZerosOp: "({T})(__clzll(({W}){0}) - (64 - {bits}))",
    math.CountTrailingZerosOp: "({T})({0} == 0 ? {bits} : __ffsll({0}) - 1)",
    math.IPowIOp: "tn_ipowi<{T}>({0}, {1})",
}

# On one bit addition is exclusive or, and the signed order puts true (-1) before false.
BIT_EXPRESSIONS: dict[type[Operation], str] = {
    arith.AddiOp: "({0} != {1})",
    arith.SubiOp: "({0} != {1})",
    arith.MuliOp: "({0} && {1})",
    arith.AndIOp: "({0} && {1})",
    arith.OrIOp: "({0} || {1})",
    arith.XOrIOp: "({0} != {1})",
    arith.DivSIOp: "({0} && {1})",
    arith.DivUIOp: "({0} && {1})",
    arith.RemSIOp: "false",
    arith.RemUIOp: "false",
    arith.MaxSIOp: "({0} && {1})",
    arith.MinSIOp: "({0} || {1})",
    arith.MaxUIOp: "({0} || {1})",
    arith.MinUIOp: "({0} && {1})",
    math.AbsIOp: "{0}",
}

FLOAT_EXPRESSIONS: dict[type[Operation], str] = {
    arith.AddfOp: "{0} + {1}",
    arith.SubfOp: "{0} - {1}",
    arith.MulfOp: "{0} * {1}",
    arith.DivfOp: "{0} / {1}",
    RemFOp: "fmod{f}({0}, {1})",
    arith.NegfOp: "-{0}",
    arith.MaximumfOp: "tn_maximum({0}, {1})",
    arith.MinimumfOp: "tn_minimum({0}, {1})",
    arith.MaxnumfOp: "fmax{f}({0}, {1})",
    arith.MinnumfOp: "fmin{f}({0}, {1})",
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
# The same on one bit, where true is -1 in the signed order.
BIT_COMPARISONS = (
    "{0} == {1}",
    "{0} != {1}",
    "{0} > {1}",
    "{0} >= {1}",
    "{0} < {1}",
    "{0} <= {1}",
    "{0} < {1}",
    "{0} <= {1}",
    "{0} > {1}",
    "{0} >= {1}",
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

# Low half, then high half (or carry), of ops with two results.
PAIR_EXPRESSIONS: dict[type[Operation], tuple[str, str]] = {
    arith.MulUIExtendedOp: ("({T})(({U}){0} * ({U}){1})", "({T})tn_mulhi_unsigned<{W}>({0}, {1})"),
    arith.MulSIExtendedOp: ("({T})(({U}){0} * ({U}){1})", "tn_mulhi_signed<{T}>({0}, {1})"),
    arith.AddUIExtendedOp: ("({T})(({U}){0} + ({U}){1})", "({W})(({U}){0} + ({U}){1}) < ({W}){0}"),
}

# (kind of source, kind of target) -> conversion to f32 and from f32; everything wider goes through a C cast.
TO_FLOAT: dict[type[Attribute], str] = {Float16Type: "tn_f16_to_f32({0})", BFloat16Type: "tn_bf16_to_f32({0})"}
FROM_FLOAT: dict[tuple[type[Attribute], type[Attribute]], str] = {
    (Float32Type, Float16Type): "tn_f32_to_f16({0})",
    (Float64Type, Float16Type): "tn_f64_to_f16({0})",
    (Float32Type, BFloat16Type): "tn_f32_to_bf16({0})",
    (Float64Type, BFloat16Type): "tn_f32_to_bf16(tn_round_to_odd({0}))",
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

#ifndef TENON_HOST_SHIM
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
__device__ __forceinline__ tn_f16 tn_f64_to_f16(double x) {
  tn_f16 result;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(result) : "d"(x));
  return result;
}
#endif

__device__ __forceinline__ float tn_bf16_to_f32(tn_bf16 x) { return __int_as_float((int)((unsigned int)x << 16)); }
__device__ __forceinline__ tn_bf16 tn_f32_to_bf16(float x) {  // to nearest, ties to even
  unsigned int bits = (unsigned int)__float_as_int(x);
  if (x != x) return (tn_bf16)(bits >> 16 | 64);
  return (tn_bf16)((bits + 32767 + (bits >> 16 & 1)) >> 16);
}

// To f32 or f64 so that rounding once more gives what rounding once would: what is lost is kept in the last bit.
__device__ __forceinline__ float tn_round_to_odd(double x) {
  float nearest = (float)x;
  if (x != x || (double)nearest == x) return nearest;
  int bits = __float_as_int(nearest) - (fabs((double)nearest) > fabs(x));
  return __int_as_float(bits | 1);
}
template <class T> __device__ __forceinline__ double tn_fitting_double(T x) {
  const T limit = (T)1 << 53;
  if (x < limit && (x > 0 || x + limit > 0)) return (double)x;
  return (double)((x >> 12 | ((x & 4095) != 0)) * 4096);
}

// NaN if either is NaN; -0 is less than +0.
__device__ __forceinline__ bool tn_is_negative(float x) { return __float_as_int(x) < 0; }
__device__ __forceinline__ bool tn_is_negative(double x) { return __double_as_longlong(x) < 0; }
template <class T> __device__ __forceinline__ T tn_maximum(T a, T b) {
  if (a == b) return tn_is_negative(a) ? b : a;
  return a != a || a > b ? a : b;
}
template <class T> __device__ __forceinline__ T tn_minimum(T a, T b) {
  if (a == b) return tn_is_negative(a) ? a : b;
  return a != a || a < b ? a : b;
}

// Division by zero is zero, and the smallest integer divided by -1 wraps around to itself.
template <class T> __device__ __forceinline__ T tn_negate(T a) { return (T)(0ull - (unsigned long long)a); }
template <class T> __device__ __forceinline__ T tn_divsi(T a, T b) {
  return b == 0 ? (T)0 : b == -1 ? tn_negate(a) : (T)(a / b);
}
template <class T> __device__ __forceinline__ T tn_remsi(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }
template <class T> __device__ __forceinline__ T tn_floordivsi(T a, T b) {
  return (T)(tn_divsi(a, b) - (tn_remsi(a, b) != 0 && (a < 0) != (b < 0)));
}
template <class T> __device__ __forceinline__ T tn_ceildivsi(T a, T b) {
  return (T)(tn_divsi(a, b) + (tn_remsi(a, b) != 0 && (a < 0) == (b < 0)));
}
template <class T> __device__ __forceinline__ T tn_divui(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }
template <class T> __device__ __forceinline__ T tn_remui(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }
template <class T> __device__ __forceinline__ T tn_ceildivui(T a, T b) {
  return (T)(tn_divui(a, b) + (tn_remui(a, b) != 0));
}

// A shift by the width or more moves every bit out.
template <class T> __device__ __forceinline__ T tn_shl(T a, T b) {
  return b < 8 * sizeof(T) ? (T)((unsigned long long)a << b) : (T)0;
}
template <class T> __device__ __forceinline__ T tn_shr(T a, T b) { return b < 8 * sizeof(T) ? (T)(a >> b) : (T)0; }
template <class T> __device__ __forceinline__ T tn_shrsi(T a, T b) {
  return b >= 0 && b < (int)(8 * sizeof(T)) ? (T)(a >> b) : (T)(a < 0 ? -1 : 0);
}

template <class T> __device__ __forceinline__ T tn_ipowi(T base, T exponent) {
  if (exponent < 0) return base == 1 ? (T)1 : base == -1 ? (T)(exponent & 1 ? -1 : 1) : (T)0;
  unsigned long long result = 1, square = (unsigned long long)base;
  for (unsigned long long rest = (unsigned long long)exponent; rest != 0; rest >>= 1, square *= square)
    if (rest & 1) result *= square;
  return (T)result;
}

template <class T> __device__ __forceinline__ T tn_mulhi_unsigned(T a, T b) {
  if (sizeof(T) == 8) return (T)__umul64hi(a, b);
  return (T)((unsigned long long)a * (unsigned long long)b >> (8 * sizeof(T) & 63));
}
template <class T> __device__ __forceinline__ T tn_mulhi_signed(T a, T b) {
  if (sizeof(T) == 8) return (T)__mul64hi(a, b);
  return (T)((long long)a * (long long)b >> (8 * sizeof(T) & 63));
}

// Rounds toward zero; saturates at `lowest` and `highest`, the ends of T; NaN becomes zero.
template <class T, class F> __device__ __forceinline__ T tn_to_integer(F x, T lowest, T highest) {
  return x != x ? (T)0 : x <= (F)lowest ? lowest : x >= (F)highest ? highest : (T)x;
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
