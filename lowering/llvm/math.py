"""`math` to LLVM, on scalars and vectors.

What LLVM has instructions for becomes an intrinsic. The rest becomes calls of the C library's functions, lane by lane
for vectors; the pass `expand-math` replaces all but what is to be exact by inline arithmetic before it comes to that.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tenon.lowering.llvm.arith import fastmath_flags
from tenon.lowering.llvm.function import FunctionWriter, Handler
from tenon.lowering.llvm.tables import C_FUNCTIONS, FLAGS_OF_INTRINSICS, INTRINSICS
from tenon.lowering.llvm.types import I1, LlvmType

_C_ATTRIBUTES = "nounwind willreturn memory(none)"


def _intrinsic(writer: FunctionWriter, op: Operation) -> None:
    kind, name = writer.type_of(op.operands[0]), INTRINSICS[op.name]
    arguments = [(kind, value) for value in writer.operands(op)]
    if name in FLAGS_OF_INTRINSICS:
        arguments.append((I1, FLAGS_OF_INTRINSICS[name]))
    result = writer.call_intrinsic(f"{name}.{kind.suffix}", kind, arguments, fastmath_flags(op))
    writer.values[op.results[0]] = result


def _reciprocal_square_root(writer: FunctionWriter, op: Operation) -> None:
    kind, flags = writer.type_of(op.operands[0]), fastmath_flags(op)
    (value,) = writer.operands(op)
    root = writer.call_intrinsic(f"sqrt.{kind.suffix}", kind, [(kind, value)], flags)
    writer.define(op.results[0], f"fdiv {flags}{kind.text} {kind.constant(1.0)}, {root}")


def _call_c_library(writer: FunctionWriter, op: Operation) -> None:
    kind, values, result = writer.type_of(op.operands[0]), writer.operands(op), op.results[0]
    scalar = kind.scalar
    function = C_FUNCTIONS[op.name] + ("f" if scalar.bits == 32 else "")
    parameters = ", ".join(scalar.text for _ in values)
    writer.declare(f"declare {scalar.text} @{function}({parameters}) {_C_ATTRIBUTES}")
    if kind.lanes is None:
        writer.values[result] = _call(writer, function, scalar, values)
        return
    gathered = "poison"
    for lane in range(kind.lanes):
        elements = [writer.emit(f"extractelement {kind.text} {value}, i64 {lane}") for value in values]
        element = _call(writer, function, scalar, elements)
        gathered = writer.emit(f"insertelement {kind.text} {gathered}, {scalar.text} {element}, i64 {lane}")
    writer.values[result] = gathered


def _call(writer: FunctionWriter, function: str, scalar: LlvmType, values: list[str]) -> str:
    arguments = ", ".join(f"{scalar.text} {value}" for value in values)
    return writer.emit(f"call {scalar.text} @{function}({arguments})")


def _scale(writer: FunctionWriter, op: Operation) -> None:
    """AVX-512's instruction; for other processors the pass `expand-math` writes products."""
    value_type, arguments = writer.type_of(op.operands[0]), writer.operands(op)
    element, bits = value_type.scalar.element, value_type.scalar.bits
    vector = value_type if value_type.lanes else LlvmType(element, bits, 128 // bits)
    lanes = vector.lanes or 1
    width = bits * lanes
    mask = LlvmType(f"i{max(lanes, 8)}", max(lanes, 8))
    if value_type.lanes is None:
        arguments = [
            writer.emit(f"insertelement {vector.text} zeroinitializer, {element} {scalar}, i64 0")
            for scalar in arguments
        ]
    letter = "s" if bits == 32 else "d"
    name = f"x86.avx512.mask.scalef.{f'p{letter}.{width}' if value_type.lanes else f's{letter}'}"
    typed = [*((vector, argument) for argument in arguments), (vector, "zeroinitializer"), (mask, "-1")]
    if name.endswith(("512", "ss", "sd")):
        typed.append((LlvmType("i32", 32), "4"))  # rounding as it is set
    result = writer.call_intrinsic(name, vector, typed)
    if value_type.lanes is None:
        result = writer.emit(f"extractelement {vector.text} {result}, i64 0")
    writer.values[op.results[0]] = result


MATH_HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(INTRINSICS, _intrinsic),
    **dict.fromkeys(C_FUNCTIONS, _call_c_library),
    "math.rsqrt": _reciprocal_square_root,
    "scalar.scaleb": _scale,
}
