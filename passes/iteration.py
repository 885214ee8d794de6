"""The loops that a tensor op runs over, read off its family: what fusion reasons with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp
from tenon.dialects.families.iteration_space import ACROSS, IterationSpace, Subscript
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.size import UndecidedSizeError
from tenon.dialects.types.types import shape_of

LARGEST_STEP = 4
"""How far apart the elements of a vector may be for neighbours to be loaded and the others left out."""

MOST_READS = 9
"""By which what is only moved is taken from where it comes from, as by a stencil of 3 x 3."""

Access = tuple[int | None, ...]
"""For each dimension of a value the loop that is its index, `None` for a dimension of size 1."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """A space, and the loops that run over the dimensions of operands and results.

    An operand of access `None` is read at other places than where the loops are. `windows` has an access for those of
    which windows read that no two iterations of a parallel loop share: all dimensions but those `ACROSS`.
    """

    space: IterationSpace
    operands: tuple[Access | None, ...]
    results: tuple[Access, ...]
    windows: tuple[Access | None, ...] = ()

    def access(self, index: int) -> Access | None:
        """How the loops index an operand, by windows perhaps."""
        plain = self.operands[index]
        return plain if plain is not None or not self.windows else self.windows[index]


_SHARING = (ElementwiseOp, IndexMapOp, IndexingOp, ReductionOp, ContractionOp)
_known: BoundedCache[tuple[Iteration | None, list[Attribute]]] = BoundedCache(4096)
"""Iterations by what tells ops apart, by identity, and the attributes that must live so that no others have that."""


def iteration_of(op: Operation) -> Iteration | None:
    """The iteration of ops whose loops can be shared with others, `None` for all other ops."""
    if not isinstance(op, _SHARING):
        return None
    types = [value.type for value in (*op.operands, *op.results)]
    key = (type(op), len(op.results), *map(id, types), *[(name, id(value)) for name, value in op.properties.items()])
    found = _known.get(key)
    if found is None:
        found = _known[key] = (_iteration_of(op), [*types, *op.properties.values()])
    return found[0]


def _iteration_of(op: ElementwiseOp | IndexMapOp | IndexingOp | ReductionOp | ContractionOp) -> Iteration | None:
    sizes = [shape(op, value.type) for value in (*op.operands, *op.results)]
    try:
        space = op.iteration_space(op.operands)
    except UndecidedSizeError:
        return None
    count = len(op.operands)
    operands = [_plain_access(space, *known) for known in zip(space.operands, sizes, strict=False)]
    if isinstance(op, IndexingOp):
        operands = [_access_in_step(space, *known) for known in zip(op.operand_places(), sizes, strict=False)]
    results = [_plain_access(space, *known) for known in zip(space.results, sizes[count:], strict=True)]
    known_results = tuple([access for access in results if access is not None])
    if len(known_results) != len(results):
        return None
    if isinstance(op, IndexMapOp) and space.operands and not _keeps_order(space.operands[0]):
        operands = [None]
    windows: tuple[Access | None, ...] = ()
    if isinstance(op, ContractionOp):
        moving = {loop for loop, extent in enumerate(space.extents) if space.parallel[loop] and extent != 1}
        windows = tuple(
            [
                space.axes(places, known) if access is None and moving <= _loops_in(places) else None
                for access, places, known in zip(operands, space.operands, sizes, strict=False)
            ]
        )
    elsewhere = [None] * (count - len(operands))
    return Iteration(space, (*operands, *elsewhere), known_results, windows)


def shape(op: Operation, type_: Attribute) -> tuple[int, ...]:
    """The shape of an operand or result of `op`, which must be known."""
    known = shape_of(type_)
    if known is None or -1 in known:
        raise PassFailedException(f"{op.name}: the shape of {type_} must be known before fusion; specialize first")
    return known


def _keeps_order(places: AffineMap) -> bool:
    """Whether loops index a value in their own order, so that rows of it are rows of what they index otherwise."""
    loops = [place.position for place in places.results if isinstance(place, AffineDimExpr)]
    is_plain = all(isinstance(place, AffineDimExpr | AffineConstantExpr) for place in places.results)
    return is_plain and all(a < b for a, b in pairwise(loops))


def _loops_in(places: AffineMap) -> set[int]:
    return {expr.position for place in places.results for expr in place.dfs() if isinstance(expr, AffineDimExpr)}


def _plain_access(space: IterationSpace, places: AffineMap, sizes: tuple[int, ...]) -> Access | None:
    """The loops that index a value, if each dimension is a loop of its own that runs over all of it."""
    access = space.axes(places, sizes)
    return None if ACROSS in access else access


def _access_in_step(space: IterationSpace, places: AffineMap | None, sizes: tuple[int, ...]) -> Access | None:
    """The loops that index an operand of which each element is read once, if any is: what rows are read at had better
    be computed for several of them."""
    return None if places is None or space.rereads(sizes) else _plain_access(space, places, sizes)


def rearranges_results(op: Operation, iteration: Iteration) -> bool:
    """Whether `op` reads elements once, at other places, and nothing that uses its result could share its loops."""
    if not isinstance(op, IndexMapOp) or iteration.operands[0] is not None:
        return False
    if iteration.space.rereads(shape(op, op.operands[0].type)) or not is_indexed(op):
        return False
    return not any(isinstance(use.operation, ElementwiseOp | ReductionOp) for use in op.results[0].uses)


def reduces_rows(space: IterationSpace) -> bool:
    """Whether a reduction combines along the innermost loop and leaves some loop to share."""
    loops = [p for extent, p in zip(space.extents, space.parallel, strict=True) if extent != 1]
    return bool(loops) and not loops[-1] and any(loops)


def moves_ranges(op: Operation, iteration: Iteration) -> bool:
    """Whether `op` reads each element once at most, range by range in their order or against it (a slice, a
    concatenation), so that what computes them can become part of it: by `split-index-sets`."""
    if isinstance(op, IndexingOp):
        return op.moves_ranges()
    if not isinstance(op, IndexMapOp) or iteration.operands[0] is not None or not iteration.space.operands:
        return False
    loops = [tuple(Subscript.of(place).factors) for place in iteration.space.operands[0].results]
    is_in_order = all(len(part) <= 1 for part in loops) and all(a < b for a, b in pairwise(filter(None, loops)))
    return is_in_order and not iteration.space.rereads(shape(op, op.operands[0].type))


def reader_of_padding(op: Operation) -> Operation | None:
    """The contraction whose windows alone read what `op` puts around a value, where they can as well read that value,
    and the padding outside: no two iterations of a parallel loop read the same windows, and those that follow each
    other along the last dimension of the result begin near each other."""
    if not isinstance(op, IndexingOp) or not op.surrounds() or not op.results[0].has_one_use():
        return None
    (use,) = op.results[0].uses
    user, index = use.operation, use.index
    iteration = iteration_of(user) if isinstance(user, ContractionOp) else None
    if iteration is None or iteration.operands[index] is not None or iteration.access(index) is None:
        return None
    (*_, last), (*_, along) = iteration.space.operands[index].results, iteration.results[0]
    is_near = along is not None and 0 < Subscript.of(last).factors.get(along, 0) <= LARGEST_STEP
    return user if is_near else None


def readers_of_moved(op: Operation) -> list[Operation]:
    """The few ops that read what `op` only takes from other places of its one operand, as padding does: they can as
    well read it there. Empty where it does more, or one or many read it."""
    users = [use.operation for result in op.results for use in result.uses]
    is_moved = isinstance(op, IndexingOp) and len(op.operands) == 1 and iteration_of(op) is not None
    return users if is_moved and 1 < len(users) <= MOST_READS else []


def is_indexed(op: Operation) -> bool:
    """Whether `op` reads its operands by indexing maps alone, so that what computes them can become part of it."""
    if not isinstance(op, IndexMapOp):
        return True
    source, result = shape(op, op.operands[0].type), shape(op, op.results[0].type)
    try:
        places = op.source_map(source, len(result), op.settings)
    except UndecidedSizeError:
        return False
    return op.is_indexing_map(places, source, result)


def axes_of(op: ReductionOp) -> tuple[int, ...]:
    """The axes that a reduction combines elements along."""
    axis = op.settings["axis"]
    return tuple(normalize_axes((axis,) if isinstance(axis, int) else axis, len(shape_of(op.operands[0].type) or ())))
