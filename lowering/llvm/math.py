"""`math`, and instructions by their names, to LLVM, on scalars and vectors.

What LLVM has instructions for becomes an intrinsic. The rest becomes calls of the C library's functions, lane by lane
for vectors; the pass `expand-math` replaces all but what is to be exact by inline arithmetic before it comes to that.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tenon.dialects.upstream.intrinsics import CallIntrinsicOp
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


def _call_intrinsic(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, CallIntrinsicOp)
    if op.op_bundle_operands or op.ress is None:
        raise ValueError(f"{op.intrin.data} has operand bundles or no result, neither is supported")
    arguments = [(writer.type_of(operand), writer.values[operand]) for operand in op.args]
    name = op.intrin.data.removeprefix("llvm.")
    writer.values[op.ress] = writer.call_intrinsic(name, writer.type_of(op.ress), arguments)


MATH_HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(INTRINSICS, _intrinsic),
    **dict.fromkeys(C_FUNCTIONS, _call_c_library),
    "math.rsqrt": _reciprocal_square_root,
    "llvm.call_intrinsic": _call_intrinsic,
}
