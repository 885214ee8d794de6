"""Conversions between 16-bit floats, kept as `i16` bit patterns, and `float`.

bfloat16 goes through integer instructions on every host: results are the same everywhere (AVX-512's own conversion
flushes subnormals), and no call of `__truncsfbf2` can appear. IEEE half uses the hardware's conversions where
`native_f16` says that it has them, and integer instructions (after F. Giesen's float_to_half_fast3_rtne) elsewhere.
Truncation rounds to nearest even.
"""

from __future__ import annotations

from tenon.lowering.llvm.function import FunctionWriter
from tenon.lowering.llvm.types import LlvmType


def extend_to_float(writer: FunctionWriter, source: LlvmType, value: str) -> str:
    """The `float` that a 16-bit float stands for, exactly."""
    single, integer = source.float(), source.integer(32)
    if source.half == "f16" and writer.module.native_f16:
        half = _native_half(source)
        bits = writer.emit(f"bitcast {source.text} {value} to {half}")
        return writer.emit(f"fpext {half} {bits} to {single.text}")
    bits = writer.emit(f"zext {source.text} {value} to {integer.text}")
    if source.half == "bf16":
        bits = writer.emit(f"shl {integer.text} {bits}, {integer.constant(16)}")
        return writer.emit(f"bitcast {integer.text} {bits} to {single.text}")
    return _extend_half(writer, single, integer, bits)


def truncate_from_float(writer: FunctionWriter, target: LlvmType, value: str) -> str:
    """The 16-bit float nearest to a `float`, ties to even."""
    single, integer = target.float(), target.integer(32)
    if target.half == "f16" and writer.module.native_f16:
        half = _native_half(target)
        narrow = writer.emit(f"fptrunc {single.text} {value} to {half}")
        return writer.emit(f"bitcast {half} {narrow} to {target.text}")
    bits = writer.emit(f"bitcast {single.text} {value} to {integer.text}")
    truncate = _truncate_to_bfloat if target.half == "bf16" else _truncate_to_half
    wide = truncate(writer, single, integer, value, bits)
    return writer.emit(f"trunc {integer.text} {wide} to {target.text}")


def _native_half(half: LlvmType) -> str:
    return "half" if half.lanes is None else f"<{half.lanes} x half>"


def _extend_half(writer: FunctionWriter, single: LlvmType, integer: LlvmType, bits: str) -> str:
    magnitude = writer.emit(f"and {integer.text} {bits}, {integer.constant(0x7FFF)}")
    shifted = writer.emit(f"shl {integer.text} {magnitude}, {integer.constant(13)}")
    unscaled = writer.emit(f"bitcast {integer.text} {shifted} to {single.text}")
    scaled = writer.emit(f"fmul {single.text} {unscaled}, {single.constant(2.0**112)}")
    finite = writer.emit(f"bitcast {single.text} {scaled} to {integer.text}")
    special = writer.emit(f"icmp uge {integer.text} {magnitude}, {integer.constant(0x7C00)}")
    overflowed = writer.emit(f"or {integer.text} {finite}, {integer.constant(255 << 23)}")
    condition = single.integer(1)
    chosen = writer.emit(f"select {condition.text} {special}, {integer.text} {overflowed}, {integer.text} {finite}")
    sign = writer.emit(f"and {integer.text} {bits}, {integer.constant(0x8000)}")
    sign = writer.emit(f"shl {integer.text} {sign}, {integer.constant(16)}")
    signed = writer.emit(f"or {integer.text} {chosen}, {sign}")
    return writer.emit(f"bitcast {integer.text} {signed} to {single.text}")


def _round_mantissa(writer: FunctionWriter, integer: LlvmType, bits: str, dropped: int, bias: int) -> str:
    """`(bits + bias + half of the dropped place, ties to even) >> dropped`."""
    odd = writer.emit(f"lshr {integer.text} {bits}, {integer.constant(dropped)}")
    odd = writer.emit(f"and {integer.text} {odd}, {integer.constant(1)}")
    rounded = writer.emit(f"add {integer.text} {bits}, {integer.constant(bias + (1 << (dropped - 1)) - 1)}")
    rounded = writer.emit(f"add {integer.text} {rounded}, {odd}")
    return writer.emit(f"lshr {integer.text} {rounded}, {integer.constant(dropped)}")


def _truncate_to_bfloat(writer: FunctionWriter, single: LlvmType, integer: LlvmType, value: str, bits: str) -> str:
    condition = single.integer(1)
    rounded = _round_mantissa(writer, integer, bits, 16, 0)
    payload = writer.emit(f"lshr {integer.text} {bits}, {integer.constant(16)}")
    quiet = writer.emit(f"or {integer.text} {payload}, {integer.constant(0x40)}")
    is_nan = writer.emit(f"fcmp uno {single.text} {value}, {value}")
    return writer.emit(f"select {condition.text} {is_nan}, {integer.text} {quiet}, {integer.text} {rounded}")


def _truncate_to_half(writer: FunctionWriter, single: LlvmType, integer: LlvmType, value: str, bits: str) -> str:
    def select(condition: str, then: str, otherwise: str) -> str:
        boolean = single.integer(1)
        return writer.emit(f"select {boolean.text} {condition}, {integer.text} {then}, {integer.text} {otherwise}")

    magnitude = writer.emit(f"and {integer.text} {bits}, {integer.constant(0x7FFFFFFF)}")
    normal = _round_mantissa(writer, integer, magnitude, 13, (15 - 127) << 23)
    aligner = ((127 - 15) + (23 - 10) + 1) << 23
    as_float = writer.emit(f"bitcast {integer.text} {magnitude} to {single.text}")
    align = writer.emit(f"bitcast {integer.text} {integer.constant(aligner)} to {single.text}")
    aligned = writer.emit(f"fadd {single.text} {as_float}, {align}")
    aligned_bits = writer.emit(f"bitcast {single.text} {aligned} to {integer.text}")
    subnormal = writer.emit(f"sub {integer.text} {aligned_bits}, {integer.constant(aligner)}")
    is_nan = writer.emit(f"icmp ugt {integer.text} {magnitude}, {integer.constant(255 << 23)}")
    special = select(is_nan, integer.constant(0x7E00), integer.constant(0x7C00))
    is_small = writer.emit(f"icmp ult {integer.text} {magnitude}, {integer.constant(113 << 23)}")
    is_large = writer.emit(f"icmp uge {integer.text} {magnitude}, {integer.constant((127 + 16) << 23)}")
    chosen = select(is_large, special, select(is_small, subnormal, normal))
    sign = writer.emit(f"lshr {integer.text} {bits}, {integer.constant(16)}")
    sign = writer.emit(f"and {integer.text} {sign}, {integer.constant(0x8000)}")
    return writer.emit(f"or {integer.text} {chosen}, {sign}")
