"""`math` to LLVM, on scalars and vectors.

What LLVM has instructions for becomes an intrinsic. The rest becomes calls of the C library's functions, lane by lane
for vectors; the pass `expand-math` replaces all but what is to be exact by inline arithmetic before it comes to that.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tenon.lowering.llvm.arith import define_float, fastmath_flags, float_operands
from tenon.lowering.llvm.function import FunctionWriter, Handler
from tenon.lowering.llvm.types import I1, LlvmType

_FLOAT_INTRINSICS = {
    "absf": "fabs",
    "ceil": "ceil",
    "copysign": "copysign",
    "floor": "floor",
    "fma": "fma",
    "round": "round",
    "roundeven": "roundeven",
    "sqrt": "sqrt",
    "trunc": "trunc",
}

_C_FUNCTIONS = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "powf",
)

_C_ATTRIBUTES = "nounwind willreturn memory(none)"


def _float_intrinsic(writer: FunctionWriter, op: Operation) -> None:
    compute, values = float_operands(writer, op)
    name = f"{_FLOAT_INTRINSICS[op.name.removeprefix('math.')]}.{compute.suffix}"
    arguments = [(compute, value) for value in values]
    define_float(writer, op, writer.call_intrinsic(name, compute, arguments, fastmath_flags(op)))


def _reciprocal_square_root(writer: FunctionWriter, op: Operation) -> None:
    compute, values = float_operands(writer, op)
    flags = fastmath_flags(op)
    root = writer.call_intrinsic(f"sqrt.{compute.suffix}", compute, [(compute, values[0])], flags)
    define_float(writer, op, writer.emit(f"fdiv {flags}{compute.text} {compute.constant(1.0)}, {root}"))


def _call_c_library(writer: FunctionWriter, op: Operation) -> None:
    compute, values = float_operands(writer, op)
    scalar = compute.scalar
    function = op.name.removeprefix("math.").replace("powf", "pow") + ("f" if scalar.element == "float" else "")
    parameters = ", ".join(scalar.text for _ in values)
    writer.declare(f"declare {scalar.text} @{function}({parameters}) {_C_ATTRIBUTES}")
    if compute.lanes is None:
        define_float(writer, op, _call(writer, function, scalar, values))
        return
    result = "poison"
    for lane in range(compute.lanes):
        elements = [writer.emit(f"extractelement {compute.text} {value}, i64 {lane}") for value in values]
        element = _call(writer, function, scalar, elements)
        result = writer.emit(f"insertelement {compute.text} {result}, {scalar.text} {element}, i64 {lane}")
    define_float(writer, op, result)


def _call(writer: FunctionWriter, function: str, scalar: LlvmType, values: list[str]) -> str:
    arguments = ", ".join(f"{scalar.text} {value}" for value in values)
    return writer.emit(f"call {scalar.text} @{function}({arguments})")


def _integer_intrinsic(writer: FunctionWriter, op: Operation) -> None:
    value_type, (value,) = writer.type_of(op.operands[0]), writer.operands(op)
    name = {"absi": "abs", "ctlz": "ctlz", "cttz": "cttz", "ctpop": "ctpop"}[op.name.removeprefix("math.")]
    arguments = [(value_type, value)]
    if name != "ctpop":
        # false: the result is defined for every operand
        arguments.append((I1, "false"))
    writer.values[op.results[0]] = writer.call_intrinsic(f"{name}.{value_type.suffix}", value_type, arguments)


def _power_with_integer_exponent(writer: FunctionWriter, op: Operation) -> None:
    raise ValueError(f"emit_llvm: {op.name} in {writer.name} has no lowering to LLVM before the pass expand-math")


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
    **{f"math.{name}": _float_intrinsic for name in _FLOAT_INTRINSICS},
    **{f"math.{name}": _call_c_library for name in _C_FUNCTIONS},
    **{f"math.{name}": _integer_intrinsic for name in ("absi", "ctlz", "cttz", "ctpop")},
    **{f"math.{name}": _power_with_integer_exponent for name in ("fpowi", "ipowi")},
    "scalar.scaleb": _scale,
    "math.rsqrt": _reciprocal_square_root,
}
