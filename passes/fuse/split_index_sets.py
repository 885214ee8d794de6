"""`split-index-sets`: loops are cut where what their bodies ask of an index changes.

Before: structured IR on tensors. After: the same values. In kernels, a generic that chooses by the places of its loops
(a concatenation, padding, whatever was fused behind it) is a generic for each range of these loops in which the choices
are known: none of them compares or limits an index any more, what they read at sums of loops has become an operand, and
the elementwise generics that compute it are part of them (`fuse_structured`). One after the other they write the parts
of one result, or go on to combine where the one before ended:

    generic (i < 6): select(i < 2, a[min(i, 1)], b[max(i - 2, 0)])
    -> generic (i < 2): a[i], into the result at i;  generic (i < 4): b[i], into the result at i + 2

Loops stay whole where there would be more than `MOST_PIECES`, where elements would be combined in another order, and
where half of the result would come in runs of fewer than `SHORTEST_RUN` elements, unless these are the columns of many
short rows, such as those of a few tensors stacked along a new last axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func, linalg, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from tenon.dialects.definition.scalar import convert, scalar_constant
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting
from tenon.dialects.families.index_map_gather_scatter import SHORTEST_RUN, are_columns
from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.families.linalg_builders import empty, generic, static_shape
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import i8
from tenon.passes.fuse.fuse_structured import fuse_generics
from tenon.passes.fuse.generics import erase, place_value
from tenon.passes.fuse.known_places import KnownPlaces, Range

MOST_PIECES = 32


@dataclass(frozen=True)
class SplitIndexSetsPass(ModulePass):
    """Cut loops at the places where choices of their bodies change, inside kernels."""

    name = "split-index-sets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp) and "kernel" in function.attributes and function.body.blocks:
                # Users first: what a piece reads is then fused into it, and cut with it.
                while any(map(_split, reversed(list(function.body.block.ops)))):
                    fuse_generics(function.body.block)


def _split(op: Operation) -> bool:
    """Replace `op` by its pieces, if it has any."""
    if not isinstance(op, linalg.ops.GenericOp) or not op.results:
        return False
    space, body = IterationSpace.of(op), op.body.block
    if any(inner.regions for inner in body.ops) or not any(isinstance(i, linalg.ops.IndexOp) for i in body.ops):
        return False
    if any(extent == 0 for extent in space.extents) or not _keeps_order(space):
        return False
    # What is cut may be a piece itself: short runs are weighed against the whole.
    size = max(_elements(space.extents), *[_elements(static_shape(result)) for result in op.results])
    pieces = _pieces(body, space, size)
    if pieces is None or (len(pieces) == 1 and not _drops_reads(op, pieces[0])):
        return False
    outputs: list[SSAValue] = list(op.outputs)
    assert op.parent is not None
    with inserting(InsertionPoint(op.parent, op)):
        for known in pieces:
            outputs = _piece(op, space, known, outputs)
    for old, new in zip(op.results, outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    erase(op)
    return True


def _keeps_order(space: IterationSpace) -> bool:
    """Whether what is combined meets in one element of one result, so that one range can go on where another ended."""
    loops = {loop for places in space.results for place in places.results for loop in Subscript.of(place).factors}
    return all(space.parallel) or (len(space.results) == 1 and all(space.parallel[loop] for loop in loops))


def _pieces(body: Block, space: IterationSpace, size: int) -> list[KnownPlaces] | None:
    """Ranges in which all choices are known, as far as cuts tell; `None` where they are not worth it, half of `size`
    iterations in short runs, or elements would be combined in another order."""
    inner = [*space.parallel, False].index(False) + 1
    late = [loop for loop, parallel in enumerate(space.parallel) if not parallel and loop >= inner]
    ranges = [(0, extent) for extent in space.extents]
    whole = KnownPlaces(body, ranges)
    found: list[KnownPlaces] = []
    short = 0

    def is_run_short(loop: int, parts: Sequence[Range]) -> bool:
        is_column = are_columns(_elements(space.extents[:loop]), _elements(space.extents[loop:]))
        return not is_column and _iterations(parts[loop:]) < SHORTEST_RUN

    pending = [(whole, False)]
    while pending:
        known, is_short = pending.pop()
        cut = known.next_cut()
        if cut is None:
            found.append(known)
            short += is_short * _iterations(known.ranges)
        else:
            loop, place = cut
            if loop in late:
                return None
            first, last = known.ranges[loop]
            for part in ((place, last), (first, place)):
                parts = [*known.ranges[:loop], part, *known.ranges[loop + 1 :]]
                pending.append((KnownPlaces(body, parts), is_short or is_run_short(loop, parts)))
        if len(found) + len(pending) > MOST_PIECES:
            return None
    return found if 2 * short <= size else None


def _iterations(ranges: Sequence[Range]) -> int:
    return _elements(limit - start for start, limit in ranges)


def _elements(sizes: Iterable[int]) -> int:
    return prod(map(estimate, sizes))


def _drops_reads(op: linalg.ops.GenericOp, known: KnownPlaces) -> bool:
    """Whether something is read at computed places that is read at known ones, or that nothing needs."""
    reads = [inner for inner in op.body.block.ops if isinstance(inner, tensor.ExtractOp)]
    return any(_reads(op, known)) or not known.needed.issuperset(reads)


def _reads(op: linalg.ops.GenericOp, known: KnownPlaces) -> Iterator[tensor.ExtractOp]:
    """What is read at known places."""
    for inner in op.body.block.ops:
        match inner:
            case tensor.ExtractOp() if inner in known.needed and all(place in known.places for place in inner.indices):
                yield inner
            case _:
                pass


def _piece(
    op: linalg.ops.GenericOp, space: IterationSpace, known: KnownPlaces, outputs: Sequence[SSAValue]
) -> list[SSAValue]:
    """The results of `op` within the ranges of `known`, as part of `outputs`."""
    body, count = op.body.block, len(space.operands)
    assert body.last_op is not None
    yielded = body.last_op.operands
    asked = [operand for inner in known.needed for operand in inner.operands]
    used = set(map(known.resolved, (*asked, *yielded)))
    reads = list(_reads(op, known))
    arguments = [argument for argument in body.args[:count] if argument in used]
    tensors = [*(op.operands[a.index] for a in arguments), *(read.tensor for read in reads), *outputs]
    maps = [*(space.operands[a.index] for a in arguments), *space.results]
    places = [tuple(map(Subscript.of, at.results)) for at in maps]
    places[len(arguments) : len(arguments)] = [tuple([known.places[i] for i in read.indices]) for read in reads]
    loops = _Loops(known.ranges)
    operands = loops.operands(tensors, places)
    scalars: list[SSAValue] = [*arguments, *(read.result for read in reads), *body.args[count:]]

    def build(values: list[Value], so_far: list[Value]) -> list[Value]:
        elements = [*values, *so_far][-len(scalars) :]  # behind those of what tells extents
        mapper = {scalar: element.ssa for scalar, element in zip(scalars, elements, strict=True)}

        def use(operand: SSAValue) -> SSAValue:
            operand = known.resolved(operand)
            if operand in known.places and operand not in mapper:
                mapper[operand] = loops.value(known.places[operand], operand.type)
            return mapper.get(operand, operand)

        for inner in body.ops:
            if inner in known.needed and inner not in reads:
                for operand in inner.operands:
                    mapper[operand] = use(operand)
                emit(inner.clone(mapper))
        return [Value(use(operand)) for operand in yielded]

    reductions = [not parallel for parallel in (*space.parallel, True)][: loops.count]
    pieces = generic(operands[: -len(outputs)], operands[-len(outputs) :], reductions, build)
    assert isinstance(pieces[0].owner, Operation)
    pieces[0].owner.location = op.location
    return pieces


class _Loops:
    """The loops over `ranges`, each counted from 0."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.starts = [start for start, _ in ranges]
        self.extents = [limit - start for start, limit in ranges]
        self.count = len(ranges)

    def operands(
        self, tensors: Sequence[SSAValue], places: Sequence[Sequence[Subscript]]
    ) -> list[tuple[SSAValue, AffineMap]]:
        """`tensors` read or written at `places`, behind others that tell the extents of the loops.

        A loop that is an index by itself runs over the whole dimension; one of a single iteration is added to those
        that do not.
        """
        single, whole = AffineExpr.dimension(len(self.extents)), set[int]()
        indices = [[self._index(place) for place in part] for part in places]
        for x, part in zip(tensors, indices, strict=True):
            for axis, (place, size) in enumerate(zip(part, static_shape(x), strict=True)):
                if isinstance(place, AffineDimExpr) and self.extents[place.position] == size:
                    whole.add(place.position)
                elif isinstance(place, AffineDimExpr):
                    part[axis] = place + single
                    self.count = len(self.extents) + 1
        extents = [*self.extents, 1][: self.count]
        told = [loop for loop in range(self.count) if loop not in whole]
        indices = [[AffineExpr.dimension(loop)] for loop in told] + indices
        tensors = [empty([extents[loop]], i8) for loop in told] + list(tensors)
        return [(x, AffineMap(self.count, 0, tuple(part))) for x, part in zip(tensors, indices, strict=True)]

    def _index(self, place: Subscript) -> AffineExpr:
        total = AffineExpr.constant(self._constant(place))
        for loop, factor in place.factors.items():
            total = AffineExpr.dimension(loop) * factor + total
        return total

    def _constant(self, place: Subscript) -> int:
        return place.constant + sum(factor * self.starts[loop] for loop, factor in place.factors.items())

    def value(self, place: Subscript, kind: Attribute) -> SSAValue:
        """`place` as a number of type `kind`."""
        if not place.factors:
            return scalar_constant(place.constant, kind).ssa
        return convert(place_value(Subscript(place.factors, self._constant(place))), kind).ssa
