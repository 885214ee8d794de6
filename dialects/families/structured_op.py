"""What the families share: the base of those whose meaning is loops over elements, and how hooks are read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from xdsl.ir import SSAValue

from tenon.dialects.definition.tensor_op import TensorOp


class StructuredOp(TensorOp):
    """An op whose meaning is stated as loops over elements."""

    @abstractmethod
    def structured(self, operands: list[Any]) -> list[SSAValue]:
        """Build the op's meaning on grouped SSA `operands` of static shape; one tensor per result."""


def require_hooks(cls: type[TensorOp], *hooks: str) -> None:
    """Raise `TypeError` unless the class defines `hooks`, which its family leaves open."""
    for hook in hooks:
        if getattr(getattr(cls, hook, None), "__isabstractmethod__", False):
            raise TypeError(f"{cls.__name__} ({cls.name}) must define `{hook}`")


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a hook that may return one or several."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)
