"""What types the results of control flow have, as far as they follow from operands and regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation

from tenon.dialects.definition.type_inference import InfersTypes
from tenon.dialects.families.control_flow import yielded
from tenon.dialects.types.shapes import join
from tenon.dialects.types.types import AnyTensor, element_of, shape_of, tensor_type


@dataclass(frozen=True)
class BranchTypes(InfersTypes):
    """What both regions give."""

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        first, second = ([value.type for value in yielded(region)] for region in op.regions)
        return [_joined(a, b, result.type) for a, b, result in zip(first, second, op.results, strict=True)]


@dataclass(frozen=True)
class LoopTypes(InfersTypes):
    """Carried values have the types of their initial values, which the body must keep."""

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        return [operand.type for operand in op.operands]

    def infer_argument_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        types = self.infer_return_types(op)
        return types, types

    def infer_yielded_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        return (tensor_type((), i1),), self.infer_return_types(op)


@dataclass(frozen=True)
class BodyTypes(InfersTypes):
    """What the one region gives, whose arguments are the operands."""

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        return [value.type for value in yielded(op.regions[0])]

    def infer_argument_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        return ([operand.type for operand in op.operands],)


def stacked_type(type_: Attribute, length: int) -> AnyTensor:
    """The type of `length` values of `type_` along a new first dimension."""
    return tensor_type((length, *(shape_of(type_) or ())), element_of(type_))


def _joined(left: Attribute, right: Attribute, declared: Attribute) -> Attribute:
    """What both branches have; where their ranks differ nothing is known, and what is declared stays."""
    shape = join(shape_of(left), shape_of(right))
    return declared if shape is None else tensor_type(shape, element_of(left))
