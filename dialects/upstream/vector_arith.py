"""The `arith` dialect on vectors.

xDSL 0.74 types comparisons, the condition of `arith.select` and casts for scalars only, where upstream takes scalars
and vectors. The ops below are the same ops (same names, same text as upstream) with the types widened to vectors. Each
is a subclass of its xDSL counterpart, so code that asks `isinstance(op, arith.CmpfOp)` sees both. For upstream, patches
10 to 12 widen the ops themselves, to tensors as well.

`VectorArith` is the dialect to load in place of xDSL's `Arith` wherever loop-stage text is parsed. It has `arith.remf`.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    irdl_to_attr_constraint,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.upstream.float_remainder import RemFOp

_INTEGER = base(IntegerType) | VectorType.constr(base(IntegerType))
_INTEGER_OR_INDEX = base(IntegerType) | base(IndexType) | VectorType.constr(base(IntegerType) | base(IndexType))
_FLOAT = AnyFloatConstr | VectorType.constr(AnyFloatConstr)
_BOOLEAN = irdl_to_attr_constraint(i1) | VectorType.constr(irdl_to_attr_constraint(i1))


def shape_of(value_type: Attribute) -> tuple[int, ...] | None:
    """The shape of a vector type, None for a scalar type."""
    return value_type.get_shape() if isinstance(value_type, VectorType) else None


def element_type_of(value_type: Attribute) -> Attribute:
    """The element type of a vector type, a scalar type itself."""
    return value_type.element_type if isinstance(value_type, VectorType) else value_type


def with_element_type(value_type: Attribute, element_type: Attribute) -> Attribute:
    """`value_type` with another element type: a vector type of the same shape, or the scalar type itself."""
    if isinstance(value_type, VectorType):
        return VectorType(element_type, value_type.shape, value_type.scalable_dims)
    return element_type


def _verify_same_shape(op: Operation, *types: Attribute) -> None:
    if len({shape_of(value_type) for value_type in types}) != 1:
        shapes = " and ".join(str(value_type) for value_type in types)
        raise VerifyException(f"{op.name}: {shapes} have different shapes")


class _Comparison(IRDLOperation, ABC):
    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, arg: int | str, *rest: Attribute) -> None:
        super().__init__(lhs, rhs, arg, *rest)  # pyright: ignore[reportCallIssue]
        result = self.results[0]
        result._type = with_element_type(self.operands[0].type, i1)  # pyright: ignore[reportPrivateUsage]

    def verify_(self) -> None:
        _verify_same_shape(self, self.operands[0].type, self.results[0].type)


@irdl_op_definition
class CmpiOp(_Comparison, arith.CmpiOp):
    """`arith.cmpi` on scalars and vectors."""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_INTEGER_OR_INDEX)
    rhs = operand_def(_INTEGER_OR_INDEX)
    result = result_def(_BOOLEAN)


@irdl_op_definition
class CmpfOp(_Comparison, arith.CmpfOp):
    """`arith.cmpf` on scalars and vectors."""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_FLOAT)
    rhs = operand_def(_FLOAT)
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=arith.FastMathFlagsAttr("none"))
    result = result_def(_BOOLEAN)


@irdl_op_definition
class SelectOp(arith.SelectOp):
    """`arith.select` whose condition is one i1 or a vector of them."""

    T: ClassVar = VarConstraint("T", AnyAttr())

    cond = operand_def(_BOOLEAN)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    assembly_format = None

    def verify_(self) -> None:
        if isinstance(self.cond.type, VectorType):
            _verify_same_shape(self, self.cond.type, self.result.type)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if isinstance(self.cond.type, VectorType):
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        if parser.parse_optional_punctuation(","):
            types.append(parser.parse_type())
        condition_type = types[0] if len(types) == 2 else i1
        condition, lhs, rhs = parser.resolve_operands(operands, [condition_type, types[-1], types[-1]], parser.pos)
        op = cls(condition, lhs, rhs)
        op.attributes |= attributes
        return op


class _Cast(IRDLOperation, ABC):
    """`$input attr-dict : type($input) to type($result)` between types of one shape."""

    WIDENS: ClassVar[bool | None] = None
    assembly_format = None

    def verify_(self) -> None:
        source, target = self.operands[0].type, self.results[0].type
        _verify_same_shape(self, source, target)
        if self.WIDENS is None:
            return
        source, target = element_type_of(source), element_type_of(target)
        assert isinstance(source, FixedBitwidthType)
        assert isinstance(target, FixedBitwidthType)
        narrow, wide = (source, target) if self.WIDENS else (target, source)
        if narrow.bitwidth >= wide.bitwidth:
            raise VerifyException(f"{self.name}: {source} to {target} does not {'widen' if self.WIDENS else 'narrow'}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operands[0].type)
        printer.print_string(" to ")
        printer.print_attribute(self.results[0].type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_keyword("to")
        target = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(operand, source)], result_types=[target], attributes=attributes
        )


@irdl_op_definition
class ExtSIOp(_Cast, arith.ExtSIOp):
    """`arith.extsi` on scalars and vectors. It is pure, which xDSL does not say (patch 17)."""

    traits = traits_def(Pure())
    WIDENS: ClassVar[bool | None] = True
    input = operand_def(_INTEGER)
    result = result_def(_INTEGER)


@irdl_op_definition
class ExtUIOp(_Cast, arith.ExtUIOp):
    """`arith.extui` on scalars and vectors."""

    WIDENS: ClassVar[bool | None] = True
    input = operand_def(_INTEGER)
    result = result_def(_INTEGER)


@irdl_op_definition
class TruncIOp(_Cast, arith.TruncIOp):
    """`arith.trunci` on scalars and vectors."""

    WIDENS: ClassVar[bool | None] = False
    input = operand_def(_INTEGER)
    result = result_def(_INTEGER)


@irdl_op_definition
class IndexCastOp(_Cast, arith.IndexCastOp):
    """`arith.index_cast` on scalars and vectors."""

    input = operand_def(_INTEGER_OR_INDEX)
    result = result_def(_INTEGER_OR_INDEX)


@irdl_op_definition
class FPToSIOp(_Cast, arith.FPToSIOp):
    """`arith.fptosi` on scalars and vectors."""

    input = operand_def(_FLOAT)
    result = result_def(_INTEGER)


@irdl_op_definition
class FPToUIOp(_Cast, arith.FPToUIOp):
    """`arith.fptoui` on scalars and vectors."""

    input = operand_def(_FLOAT)
    result = result_def(_INTEGER)


@irdl_op_definition
class SIToFPOp(_Cast, arith.SIToFPOp):
    """`arith.sitofp` on scalars and vectors."""

    input = operand_def(_INTEGER)
    result = result_def(_FLOAT)


@irdl_op_definition
class UIToFPOp(_Cast, arith.UIToFPOp):
    """`arith.uitofp` on scalars and vectors."""

    input = operand_def(_INTEGER)
    result = result_def(_FLOAT)


_WIDENED: dict[str, type[Operation]] = {
    op.name: op
    for op in (
        CmpiOp,
        CmpfOp,
        SelectOp,
        ExtSIOp,
        ExtUIOp,
        TruncIOp,
        IndexCastOp,
        FPToSIOp,
        FPToUIOp,
        SIToFPOp,
        UIToFPOp,
    )
}

# xDSL folds a comparison of equal operands to a scalar constant, whatever the type of the result
CmpiOp.traits = traits_def(Pure())

VectorArith = Dialect(
    "arith",
    [*(_WIDENED.get(op.name, op) for op in arith.Arith.operations if op is not RemFOp), RemFOp],
    list(arith.Arith.attributes),
    list(arith.Arith._interfaces),  # pyright: ignore[reportPrivateUsage]
)
