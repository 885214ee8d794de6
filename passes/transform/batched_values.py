"""What stands for the values of a function of one example while it becomes one of many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, LocationAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.definition.value import InsertionPoint, Value, inserting
from tenon.dialects.families.batching import stacked
from tenon.dialects.types.types import AnyTensor, element_of, shape_of, tensor_type


class BatchedValues(ABC):
    """What stands for each value, for `size` examples at once.

    `batched` has the values that differ among examples; those outside of what is batched are their own.
    """

    def __init__(self, size: int, location: LocationAttr | None = None) -> None:
        self.size = size
        self.batched: set[SSAValue] = set()
        self._values: dict[SSAValue, SSAValue] = {}
        self._outer = self._location = location

    def inserting(self, block: Block, anchor: Operation | None = None) -> Any:
        """Build ops in `block`, with the locations of those that they stand for."""
        return inserting(_ExamplesPoint(self, block, anchor))

    def set(self, values: Iterable[SSAValue], examples: Iterable[Value]) -> None:
        """State what stands for `values`."""
        for value, given in zip(values, examples, strict=True):
            self._values[value] = given.ssa

    def get(self, value: SSAValue) -> Value:
        """What stands for `value`: all examples where it differs among them."""
        return Value(self._values.get(value, value))

    def get_batched(self, value: SSAValue) -> Value:
        """What stands for `value`, for every example in any case."""
        return self.get(value) if value in self.batched else stacked(self.get(value), self.size)

    def get_as(self, value: SSAValue, target: SSAValue) -> Value:
        """What stands for `value` where it becomes `target`."""
        return self.get_batched(value) if target in self.batched else self.get(value)

    def type_of(self, value: SSAValue) -> AnyTensor:
        """The type of what stands for `value`."""
        type_: Any = value.type
        return stacked_type(type_, self.size) if value in self.batched else type_

    def build_for(self, op: Operation) -> None:
        """Let ops that are built from now on stand for `op`."""
        self._location = op.location if isinstance(op.location, FileLineColLoc) else self._outer

    def location_of(self, op: Operation) -> LocationAttr:
        """The location of a new `op`: that of the op that it stands for."""
        return op.location if self._location is None else self._location

    @abstractmethod
    def build(self, ops: Iterable[Operation]) -> None:
        """Build `ops` again at the insertion point; terminators are left out."""


class _ExamplesPoint(InsertionPoint):
    """Where batched ops go; they have the location of what they stand for."""

    __slots__ = ("_batching",)

    def __init__(self, batching: BatchedValues, block: Block, anchor: Operation | None) -> None:
        super().__init__(block, anchor)
        self._batching = batching

    def insert(self, op: Operation) -> None:
        super().insert(op)
        op.location = self._batching.location_of(op)


def stacked_type(type_: Attribute, size: int) -> AnyTensor:
    """The type of `size` values of `type_` along a new first dimension."""
    shape = shape_of(type_)
    return tensor_type(None if shape is None else (size, *shape), element_of(type_))
