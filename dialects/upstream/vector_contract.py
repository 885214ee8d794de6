"""`vector.contract`, which xDSL 0.74 lacks, for sums of products of the groups that the lanes of vectors hold.

    %r = vector.contract {indexing_maps = [(d0, d1) -> (d0, d1), (d0, d1) -> (d0, d1), (d0, d1) -> (d0)],
                          iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>}
         %a, %b, %c : vector<16x2xf32>, vector<16x2xf32> into vector<16xf32>

is `r[i] = c[i] + a[i, 0] * b[i, 0] + a[i, 1] * b[i, 1]`. The op, its text and its meaning are upstream's; of its forms,
this one is known here. In which order floats are added up, and how often that rounds, is the target's.
Not for upstream: there the op needs all its forms, its mask, and the attribute for iterator types that xDSL lacks too.

`ContractingVector` is the dialect to load in place of xDSL's `Vector` wherever loop-stage text is parsed.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DictionaryAttr, StringAttr, VectorType
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag, Vector
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
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


ContractingVector = Dialect("vector", [*Vector.operations, VectorContractOp], list(Vector.attributes))
