"""What the families share: the base of those whose meaning is loops over elements, and how hooks are read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from xdsl.ir import SSAValue

from tenon.dialects.definition.signature import check_call, check_hook
from tenon.dialects.definition.tensor_op import TensorOp


class StructuredOp(TensorOp):
    """An op whose meaning is stated as loops over elements."""

    @abstractmethod
    def structured(self, operands: list[Any]) -> list[SSAValue]:
        """Build the op's meaning on grouped SSA `operands` of static shape; one tensor per result."""


# What hooks are given before the settings, and whether the operands follow it.
_GIVEN: dict[str, tuple[tuple[str, ...], bool]] = {
    "decompose": ((), True),
    "scalar": ((), True),
    "reference": ((), True),
    "source": (("index", "shape"), False),
    "element": (("index",), True),
    "target": (("index",), True),
    "combine": (("old", "new"), False),
    "extents": ((), False),
}
# Those of ops that combine elements know no settings.
_COMBINING: dict[str, tuple[str, ...]] = {"initial": ("element",), "scalar": ("accumulator", "x")}


def require_hooks(cls: type[TensorOp], *hooks: str) -> None:
    """Raise `TypeError` unless the class defines `hooks`, which its family leaves open, and they take what they get."""
    for hook in hooks:
        if getattr(getattr(cls, hook, None), "__isabstractmethod__", False):
            raise TypeError(f"{cls.__name__} ({cls.name}) must define `{hook}`")
        if "initial" in hooks and hook in _COMBINING:
            check_call(cls, hook, _COMBINING[hook], ())
        elif hook in _GIVEN:
            leading, takes_operands = _GIVEN[hook]
            check_hook(cls, cls.SIGNATURE, hook, leading, takes_operands=takes_operands)


def require_operands(cls: type[TensorOp], number: int | None = None) -> None:
    """Raise `TypeError` unless each operand that the class declares is one tensor, and they are `number`, if given."""
    declared = cls.SIGNATURE.operands
    where = f"{cls.__name__} ({cls.name})"
    if number is not None and len(declared) != number:
        names = ", ".join([operand.name for operand in declared]) or "none"
        raise TypeError(f"{where}: {len(declared)} operands are declared ({names}), and its family has {number}")
    for operand in declared:
        if operand.arity != "one":
            raise TypeError(f"{where}: operand {operand.name!r} is {operand.arity}, and its family needs one tensor")


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a hook that may return one or several."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)
