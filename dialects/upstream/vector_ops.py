"""Ops on vectors that xDSL 0.74 lacks: `vector.contract` and `vector.gather`.

`vector.contract` is for sums of products of the groups that the lanes of vectors hold:

    %r = vector.contract {indexing_maps = [(d0, d1) -> (d0, d1), (d0, d1) -> (d0, d1), (d0, d1) -> (d0)],
                          iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>}
         %a, %b, %c : vector<16x2xf32>, vector<16x2xf32> into vector<16xf32>

is `r[i] = c[i] + a[i, 0] * b[i, 0] + a[i, 1] * b[i, 1]`. The op, its text and its meaning are upstream's; of its forms,
this one is known here. In which order floats are added up, and how often that rounds, is the target's.
Not for upstream: there the op needs all its forms, its mask, and the attribute for iterator types that xDSL lacks too.

`vector.gather` is for elements at places of their own:

    %v = vector.gather %x[%i, %j][%places], %mask, %others
         : memref<4x64xf32>, vector<16xindex>, vector<16xi1>, vector<16xf32> into vector<16xf32>

is, in each lane that `mask` holds on, the element of `x` so many elements behind `x[i, j]` along the last dimension as
`places` says, and that of `others` elsewhere. The op, its text and its meaning are upstream's, of memrefs and vectors
of one dimension.

`VectorOps` is the dialect to load in place of xDSL's `Vector` wherever loop-stage text is parsed.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    MemRefType,
    StringAttr,
    VectorType,
    i1,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag, Vector
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, Pure
from xdsl.utils.exceptions import VerifyException

_GROUPS, _LANES = AffineMap.from_callable(lambda d0, d1: (d0, d1)), AffineMap.from_callable(lambda d0, d1: (d0,))
_FORM: dict[str, Attribute] = {
    "indexing_maps": ArrayAttr([AffineMapAttr(_GROUPS), AffineMapAttr(_GROUPS), AffineMapAttr(_LANES)]),
    "iterator_types": ArrayAttr([StringAttr("parallel"), StringAttr("reduction")]),
    "kind": CombiningKindAttr(CombiningKindFlag.ADD),
}


@irdl_op_definition
class VectorContractOp(IRDLOperation):
    """`acc[i] + sum over j of lhs[i, j] * rhs[i, j]`: vectors `lhs` and `rhs` (n, d), `acc` and the result (n)."""

    name = "vector.contract"

    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    acc = operand_def(VectorType)
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    kind = prop_def(CombiningKindAttr)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, acc: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs, acc], properties=dict(_FORM), result_types=[acc.type])

    def verify_(self) -> None:
        lhs, rhs, acc = (operand.type for operand in self.operands)
        assert isinstance(lhs, VectorType)
        assert isinstance(acc, VectorType)
        if self.properties != _FORM:
            raise VerifyException(f"{self.name}: only sums of products of the form {DictionaryAttr(_FORM)} are known")
        if lhs != rhs or lhs.get_num_dims() != 2 or acc != self.result.type:
            raise VerifyException(f"{self.name}: {lhs} and {rhs} into {acc} are no groups of one shape and their sums")
        if lhs.get_shape()[:1] != acc.get_shape() or lhs.element_type != acc.element_type:
            raise VerifyException(f"{self.name}: {lhs} has groups for another vector than {acc}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attr_dict(self.properties)
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([self.lhs.type, self.rhs.type], printer.print_attribute)
        printer.print_string(" into ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties = parser.parse_optional_attr_dict()
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        lhs = parser.parse_type()
        parser.parse_punctuation(",")
        rhs = parser.parse_type()
        parser.parse_keyword("into")
        result = parser.parse_type()
        resolved = parser.resolve_operands(operands, [lhs, rhs, result], parser.pos)
        return cls.create(operands=resolved, result_types=[result], properties=properties, attributes=attributes)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`base[offsets + places[lane]]` where `mask[lane]` holds, `others[lane]` elsewhere."""

    name = "vector.gather"

    base = operand_def(MemRefType)
    offsets = var_operand_def(IndexType())
    places = operand_def(VectorType)
    mask = operand_def(VectorType)
    others = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        base, kind = self.base.type, self.result.type
        assert isinstance(base, MemRefType)
        assert isinstance(kind, VectorType)
        if base.get_num_dims() != len(self.offsets):
            raise VerifyException(f"{self.name}: {len(self.offsets)} indices for {base.get_num_dims()} dimensions")
        if self.others.type != kind or base.element_type != kind.element_type:
            raise VerifyException(f"{self.name}: {base} and {self.others.type} into {kind} are not of one kind")
        shapes = [value.type.get_shape() for value in (self.places, self.mask) if isinstance(value.type, VectorType)]
        if kind.get_num_dims() != 1 or any(shape != kind.get_shape() for shape in shapes):
            raise VerifyException(f"{self.name}: {self.places.type} and {self.mask.type} for the lanes of {kind}")
        assert isinstance(self.mask.type, VectorType)
        if self.mask.type.element_type != i1:
            raise VerifyException(f"{self.name}: the mask is {self.mask.type}, expected truth values")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        with printer.in_square_brackets():
            printer.print_list(self.offsets, printer.print_operand)
        with printer.in_square_brackets():
            printer.print_operand(self.places)
        printer.print_string(", ")
        printer.print_list((self.mask, self.others), printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        kinds = [value.type for value in (self.base, self.places, self.mask, self.others)]
        printer.print_list(kinds, printer.print_attribute)
        printer.print_string(" into ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        base = parser.parse_unresolved_operand()
        offsets = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        with parser.in_square_brackets():
            places = parser.parse_unresolved_operand()
        operands = [base, places]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_keyword("into")
        result = parser.parse_type()
        values: list[SSAValue] = list(parser.resolve_operands(operands, kinds, parser.pos))
        known = [parser.resolve_operand(offset, IndexType()) for offset in offsets]
        return cls.create(operands=(values[0], *known, *values[1:]), result_types=[result], attributes=attributes)


VectorOps = Dialect("vector", [*Vector.operations, VectorContractOp, GatherOp], list(Vector.attributes))
