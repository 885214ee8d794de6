"""What the integers in a body are where its loops keep to ranges, and where else to cut these ranges to know more."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, linalg
from xdsl.dialects.arith import CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.support.forking import cached_property
from tenon.dialects.types.size import Size, is_at_most

Range = tuple[int, int]
"""The iterations of a loop from the first number on and below the second, all of them where that is a `Size`."""
Cut = tuple[int, int]
"""A loop, and the iteration that begins a new range of it."""

_MOST = 1 << 31
"""Below this no sum or product of places wraps, in 32 bits or more."""


class KnownPlaces:
    """The integers of a parallel body within `ranges` of its loops: `places` are sums of loops times constants, and
    truth values 0 or 1; what is not known because one comparison changes on the way has an entry in `cuts`."""

    def __init__(self, body: Block, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self.places: dict[SSAValue, Subscript] = {}
        self.cuts: dict[Operation, Cut] = {}
        self._body = body
        for op in body.ops:
            known = self._found(op)
            if isinstance(known, Subscript):
                if self._fits(known, op.results[0].type):
                    self.places[op.results[0]] = known
            elif known is not None:
                self.cuts[op] = known

    def resolved(self, value: SSAValue) -> SSAValue:
        """`value`, or what it is chosen from where the choice is known or makes no difference."""
        return self._chosen.get(value, value)

    @cached_property
    def _chosen(self) -> dict[SSAValue, SSAValue]:
        """What the choices come to that are known or make no difference, each found behind those that it is between."""
        found: dict[SSAValue, SSAValue] = {}
        for op in self._body.ops:
            if isinstance(op, arith.SelectOp) and op.result not in self.places:
                lhs, rhs = found.get(op.lhs, op.lhs), found.get(op.rhs, op.rhs)
                if (condition := self.places.get(op.cond)) is not None:
                    found[op.result] = lhs if condition.constant else rhs
                elif lhs is rhs or _are_equal_constants(lhs.owner, rhs.owner):
                    found[op.result] = lhs
        return found

    @cached_property
    def needed(self) -> set[Operation]:
        """The ops of the body that the results come from, but for those whose results are places."""
        found: set[Operation] = set()
        assert self._body.last_op is not None
        pending = list(self._body.last_op.operands)
        while pending:
            value = self.resolved(pending.pop())
            op = value.owner
            if value not in self.places and isinstance(op, Operation) and op.parent is self._body and op not in found:
                found.add(op)
                pending += op.operands
        return found

    def next_cut(self) -> Cut | None:
        """Where to cut the outermost loop whose places the results need to be known."""
        return min((self.cuts[op] for op in self.needed if op in self.cuts), default=None)

    def _found(self, op: Operation) -> Subscript | Cut | None:
        """What the result of `op` is, or where to cut to know it."""
        places = [self.places.get(operand) for operand in op.operands]
        match op, places:
            case linalg.ops.IndexOp(), _:
                start, limit = self.ranges[op.dim.value.data]
                return Subscript({}, start) if limit - start == 1 else Subscript({op.dim.value.data: 1}, 0)
            case arith.ConstantOp(value=IntegerAttr(value=number, type=IndexType() | IntegerType() as kind)), _:
                return Subscript({}, number.data & 1 if kind == i1 else number.data)
            case arith.SelectOp(), [Subscript() as condition, lhs, rhs]:
                return lhs if condition.constant else rhs
            case _ if any(operand.type == i1 for operand in op.operands):
                return None  # by the op true is 1 or -1, and sums wrap
            case arith.IndexCastOp(), [Subscript() as place]:
                return place
            case arith.AddiOp(), [Subscript() as a, Subscript() as b]:
                return _sum(a, b, 1)
            case arith.SubiOp(), [Subscript() as a, Subscript() as b]:
                return _sum(a, b, -1)
            case arith.MuliOp(), [Subscript() as a, Subscript(constant=factor) as b] if not b.factors:
                return _sum(Subscript({}, 0), a, factor)
            case arith.RemUIOp(), [Subscript() as a, Subscript(constant=period) as b] if not b.factors:
                return self._remainder(a, period)
            case arith.MaxSIOp(), [Subscript() as a, Subscript() as b]:
                is_less = self._is_below(_sum(a, b, -1), 0)
                return (b if is_less else a) if isinstance(is_less, bool) else is_less
            case arith.MinSIOp(), [Subscript() as a, Subscript() as b]:
                is_at_most = self._is_below(_sum(a, b, -1), 1)
                return (a if is_at_most else b) if isinstance(is_at_most, bool) else is_at_most
            case arith.CmpiOp(), [Subscript() as a, Subscript() as b]:
                known = self._compared(CMPI_COMPARISON_OPERATIONS[op.predicate.value.data], a, b)
                return Subscript({}, int(known)) if isinstance(known, bool) else known
            case _:
                return None

    def _fits(self, place: Subscript, kind: Attribute) -> bool:
        """Whether no number of type `kind` that `place` may be wraps."""
        if any(isinstance(self.ranges[loop][1], Size) for loop in place.factors):
            return isinstance(kind, IndexType)
        return _is_wide(kind) and all(-_MOST <= end < _MOST for end in self._ends(place))

    def _ends(self, place: Subscript) -> tuple[int, int]:
        """The least and the largest value of `place`."""
        least = largest = place.constant
        for loop, factor in place.factors.items():
            first, last = factor * self.ranges[loop][0], factor * (self.ranges[loop][1] - 1)
            least, largest = (least + first, largest + last) if factor > 0 else (least + last, largest + first)
        return least, largest

    def _is_below(self, place: Subscript, limit: int) -> bool | Cut | None:
        """Whether `place` is less than `limit`; if only before or behind an iteration of its one loop, that cut."""
        least, largest = self._ends(place)
        for known, answer in ((is_at_most(largest, limit - 1), True), (is_at_most(limit, least), False)):
            if known:
                return answer
        if len(place.factors) != 1:
            return None
        ((loop, factor),) = place.factors.items()
        if isinstance(self.ranges[loop][1], Size):
            return None
        left = limit - place.constant
        return loop, -(-left // factor) if factor > 0 else left // factor + 1

    def _is_inside(self, place: Subscript, start: int, limit: int) -> bool | Cut | None:
        """Whether `place` is at least `start` and less than `limit`."""
        is_before = self._is_below(place, start)
        if isinstance(is_before, bool):
            return False if is_before else self._is_below(place, limit)
        return is_before

    def _compared(self, predicate: str, a: Subscript, b: Subscript) -> bool | Cut | None:
        difference = _sum(a, b, -1)
        match predicate:
            case "slt" | "sge":
                known = self._is_below(difference, 0)
            case "sle" | "sgt":
                known = self._is_below(difference, 1)
            case "eq" | "ne":
                known = self._is_inside(difference, 0, 1)
            case "ult" if not b.factors and b.constant >= 0:
                known = self._is_inside(a, 0, b.constant)
            case _:
                return None
        return known is not (predicate in ("sge", "sgt", "ne")) if isinstance(known, bool) else known

    def _remainder(self, place: Subscript, period: int) -> Subscript | Cut | None:
        least, _ = self._ends(place)
        if period <= 0 or not is_at_most(0, least):
            return None
        start = least // period * period
        is_below = self._is_below(place, start + period)
        return Subscript(place.factors, place.constant - start) if is_below is True else is_below or None


def _sum(a: Subscript, b: Subscript, factor: int) -> Subscript:
    """a + factor * b"""
    factors = dict(a.factors)
    for loop, other in b.factors.items():
        factors[loop] = factors.get(loop, 0) + factor * other
    return Subscript({loop: f for loop, f in factors.items() if f}, a.constant + factor * b.constant)


def _is_wide(kind: Attribute) -> bool:
    """Whether integers of this type are truth values, or do not wrap below `_MOST`."""
    return isinstance(kind, IndexType) or (isinstance(kind, IntegerType) and kind.width.data in (1, 32, 64))


def _are_equal_constants(a: object, b: object) -> bool:
    return isinstance(a, arith.ConstantOp) and isinstance(b, arith.ConstantOp) and a.value == b.value
