"""Monoids: ops that combine two numbers into one, in any grouping, and the number that changes nothing.

Reductions, running sums and windows name theirs by the elementwise op that combines elements (`COMBINE = "add"`), which
has a form in `arith` for each type of elements. What is known of these forms is in one table, which the interpreter
and lowering read as well: for them a monoid is the op by which a body combines an output with something.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tenon.dialects.definition.operands import checked_number
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.value import ops
from tenon.dialects.families.structured_op import StructuredOp
from tenon.dialects.types.types import is_unsigned

REASSOCIATE = arith.FastMathFlagsAttr([arith.FastMathFlag.REASSOC])


@dataclass(frozen=True)
class Monoid:
    """An associative and commutative op of `arith`, but for rounding, and what else is known of it."""

    op_type: type[Operation]
    kind: str
    """Its name in `vector.reduction`, which floats and integers share."""
    neutral: Callable[[int], float]
    """The number that changes nothing, from the width of an integer type; floats ignore it."""
    ufunc: np.ufunc | None
    """What reduces arrays, whose integers are signless; `i1` only where it works bit by bit."""

    def identity(self, element: Attribute) -> IntegerAttr | FloatAttr:
        """The number that changes nothing, as a constant of type `element`."""
        if isinstance(element, IntegerType):
            return IntegerAttr(int(self.neutral(element.width.data)), element)
        assert isinstance(element, AnyFloat)
        return FloatAttr(self.neutral(0), element)

    def combine(self, first: SSAValue, second: SSAValue, *, reordered: bool = False) -> Operation:
        """The op on two scalars or vectors; `reordered` where that is another order than the program's."""
        properties = self.flags() if reordered else {}
        return self.op_type.create(operands=(first, second), result_types=(first.type,), properties=properties)

    def flags(self) -> dict[str, Attribute]:
        """The flags of an op that combines in another order than the program: whether that rounds otherwise."""
        return {"fastmath": REASSOCIATE} if self.op_type in (arith.AddfOp, arith.MulfOp) else {}


def _all_ones(width: int) -> int:
    return 1 if width == 1 else -1


MONOIDS = {
    monoid.op_type.name: monoid
    for monoid in (
        # -0.0 + 0.0 is 0.0, while 0.0 would change -0.0.
        Monoid(arith.AddfOp, "add", lambda _: -0.0, np.add),
        Monoid(arith.MulfOp, "mul", lambda _: 1.0, np.multiply),
        Monoid(arith.MaximumfOp, "maximumf", lambda _: -inf, np.maximum),
        Monoid(arith.MinimumfOp, "minimumf", lambda _: inf, np.minimum),
        Monoid(arith.MaxnumfOp, "maxnumf", lambda _: -inf, np.fmax),
        Monoid(arith.MinnumfOp, "minnumf", lambda _: inf, np.fmin),
        Monoid(arith.AddiOp, "add", lambda _: 0, np.add),
        Monoid(arith.MuliOp, "mul", lambda _: 1, np.multiply),
        Monoid(arith.MaxSIOp, "maxsi", lambda width: -(1 << (width - 1)), np.maximum),
        Monoid(arith.MinSIOp, "minsi", lambda width: (1 << (width - 1)) - 1, np.minimum),
        Monoid(arith.MaxUIOp, "maxui", lambda _: 0, None),
        Monoid(arith.MinUIOp, "minui", _all_ones, None),
        Monoid(arith.AndIOp, "and", _all_ones, np.bitwise_and),
        Monoid(arith.OrIOp, "or", lambda _: 0, np.bitwise_or),
        Monoid(arith.XOrIOp, "xor", lambda _: 0, np.bitwise_xor),
    )
}
"""By the name of the op."""
ADD_FLOATS = MONOIDS[arith.AddfOp.name]


def combining_op(body: Block, accumulator: BlockArgument) -> Operation | None:
    """The op that makes the next value of `accumulator` in a body or loop, if that is the accumulator's only use."""
    assert body.last_op is not None
    first = body.args[len(body.args) - len(body.last_op.operands)]
    op = body.last_op.operands[accumulator.index - first.index].owner
    uses = list(accumulator.uses)
    if not isinstance(op, Operation) or op.parent is not body or len(uses) != 1 or uses[0].operation is not op:
        return None
    return op if op.results[0].has_one_use() else None


def combining_monoid(body: Block, accumulator: BlockArgument) -> Monoid | None:
    """The monoid by which `body` combines an accumulator, a scalar, with what does not depend on it; or None."""
    op = combining_op(body, accumulator)
    return MONOIDS.get(op.name) if op is not None and isinstance(accumulator.type, IntegerType | AnyFloat) else None


def of_nothing(name: str, element: Attribute) -> float:
    """What the elementwise op `name` makes of no elements of type `element`: the least number for `maximum`, say.

    Raises `TypeError` where no monoid stands for the op.
    """
    forms = getattr(registry().get(f"tenon.{name}"), "SCALAR", None)
    monoid = MONOIDS.get(getattr(forms and forms.builder(element), "name", ""))
    if monoid is None:
        raise TypeError(f"COMBINE is {name!r}, which is no associative op with an identity on {element}")
    width = element.width.data if isinstance(element, IntegerType) else 0
    number = monoid.neutral(width) + 0  # a sum of no floats is 0.0, as one of any that are -0.0
    return number % (1 << width) if is_unsigned(element) else number


class CombiningOp(StructuredOp):
    """What combines elements by `scalar(accumulator, x)`, starting from `initial`. Both follow from `COMBINE`, the name
    of an elementwise op that a `Monoid` stands for, where a class has that and not the hook itself."""

    COMBINE: ClassVar[str | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = vars(cls).get("COMBINE")
        if name is not None and "initial" not in vars(cls):
            cls.initial = staticmethod(lambda element: of_nothing(name, element))
        if name is not None and "scalar" not in vars(cls):
            cls.scalar = staticmethod(lambda accumulator, x: getattr(ops, name)(accumulator, x))

    def _checked_initial(self, element: Attribute) -> bool | int | float:
        """What `initial` says, which has to be a number; raises `TypeError`."""
        return checked_number(self.initial(element), f"{self.name}: the result of initial")

    @staticmethod
    @abstractmethod
    def initial(element: Attribute) -> float:
        """The accumulator, which has type `element`, before the first element."""

    @staticmethod
    @abstractmethod
    def scalar(accumulator: Any, x: Any) -> Any:
        """The accumulator after element `x`."""
