"""`llvm.call_intrinsic`: an instruction by LLVM's name for it, with upstream's text and meaning.

    %y = llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ss"(%x, %n, %x, %mask, %rounding)
        : (vector<4xf32>, vector<4xf32>, vector<4xf32>, i8, i32) -> vector<4xf32>

xDSL 0.74 has it, too, in a dialect that takes 30 ms to import. That is done when text of the dialect is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i32
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    opt_result_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

SCALE = "llvm.x86.avx512.mask.scalef."
"""Instructions that multiply floats by powers of two: `ss` and `sd` the first lane, `ps.512` and its like all of them.
Operands are x, exponents, what lanes are that the mask leaves out, the mask, and, of one lane or 512 bits, how to
round."""

_PURE = (SCALE,)
_ARITHMETIC = ("arith.", "math.", "vector.")
_NO_BUNDLES = DenseArrayBase.from_list(i32, ())


@irdl_op_definition
class CallIntrinsicOp(IRDLOperation):
    """The instruction that is called `intrin`."""

    name = "llvm.call_intrinsic"

    fastmathFlags = opt_prop_def()
    intrin = prop_def(StringAttr)
    op_bundle_sizes = prop_def(DenseArrayBase.constr(i32), default_value=_NO_BUNDLES)
    args = var_operand_def()
    op_bundle_operands = var_operand_def()
    ress = opt_result_def()

    assembly_format = (
        "$intrin `(` $args `)` (`[` $op_bundle_operands^ `:` type($op_bundle_operands) `]`)?"
        " attr-dict `:` functional-type($args, results)"
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    @classmethod
    def of(cls, intrinsic: str, arguments: Sequence[SSAValue], result: Attribute) -> CallIntrinsicOp:
        """The call of an instruction that has a result."""
        segments = DenseArrayBase.from_list(i32, (len(arguments), 0))
        properties = {
            "intrin": StringAttr(intrinsic),
            "op_bundle_sizes": _NO_BUNDLES,
            "operandSegmentSizes": segments,
        }
        return cls.create(operands=arguments, result_types=(result,), properties=properties)

    def verify_(self) -> None:
        if not self.intrin.data.startswith("llvm."):
            raise VerifyException(
                f"{self.name}: intrin is '{self.intrin.data}', expected a name that begins with llvm."
            )


def is_arithmetic(op: Operation) -> bool:
    """Whether an op is in the dialects of arithmetic and vectors, or calls an instruction that is nothing but that."""
    return op.name.startswith(_ARITHMETIC) or (isinstance(op, CallIntrinsicOp) and op.intrin.data.startswith(_PURE))


def load_llvm() -> Dialect:
    """xDSL's dialect with this op in the place of its own."""
    from xdsl.dialects.llvm import LLVM

    others = [op for op in LLVM.operations if op.name != CallIntrinsicOp.name]
    interfaces = list(LLVM._interfaces)  # pyright: ignore[reportPrivateUsage]
    return Dialect(LLVM.name, [*others, CallIntrinsicOp], list(LLVM.attributes), interfaces)
