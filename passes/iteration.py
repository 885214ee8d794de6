"""The loops that a tensor op runs over, read off its family: what fusion reasons with."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.size import UndecidedSizeError, is_at_most
from tenon.dialects.types.types import shape_of

Access = tuple[int | None, ...]
"""For each dimension of a value the loop that is its index, `None` for a dimension of size 1."""
ACROSS = -1
"""In an access by windows: a dimension whose index is no loop by itself."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Loops by extent, whether each is parallel, and how they index operands and results.

    An operand of access `None` is read at other places than where the loops are. `windows` has an access for those of
    which windows read that no two iterations of a parallel loop share: all dimensions but those `ACROSS`.
    """

    extents: tuple[int, ...]
    parallel: tuple[bool, ...]
    operands: tuple[Access | None, ...]
    results: tuple[Access, ...]
    windows: tuple[Access | None, ...] = ()

    def access(self, index: int) -> Access | None:
        """How the loops index an operand, by windows perhaps."""
        plain = self.operands[index]
        return plain if plain is not None or not self.windows else self.windows[index]


def iteration_of(op: Operation) -> Iteration | None:
    """The iteration of ops whose loops can be shared with others, `None` for all other ops."""
    if isinstance(op, ElementwiseOp):
        return _elementwise(op)
    if isinstance(op, IndexMapOp):
        return _index_map(op)
    if isinstance(op, IndexingOp):
        return _parallel(op, tuple([None] * len(op.operands)))
    if isinstance(op, ReductionOp):
        return _reduction(op)
    if isinstance(op, ContractionOp):
        return _contraction(op)
    return None


def shape(op: Operation, type_: Attribute) -> tuple[int, ...]:
    """The shape of an operand or result of `op`, which must be known."""
    known = shape_of(type_)
    if known is None or -1 in known:
        raise PassFailedException(f"{op.name}: the shape of {type_} must be known before fusion; specialize first")
    return known


def _loops(sizes: tuple[int, ...]) -> Access:
    return tuple([None if size == 1 else i for i, size in enumerate(sizes)])


def _parallel(op: TensorOp, operands: tuple[Access | None, ...]) -> Iteration:
    extents = shape(op, op.results[0].type)
    return Iteration(extents, (True,) * len(extents), operands, (_loops(extents),) * len(op.results))


def _elementwise(op: ElementwiseOp) -> Iteration:
    rank = len(shape(op, op.results[0].type))
    accesses: list[Access] = []
    for operand in op.operands:
        sizes = shape(op, operand.type)
        offset = rank - len(sizes)
        accesses.append(tuple([None if size == 1 else offset + i for i, size in enumerate(sizes)]))
    return _parallel(op, tuple(accesses))


def _index_map(op: IndexMapOp) -> Iteration:
    source, result = shape(op, op.operands[0].type), shape(op, op.results[0].type)
    access: list[int | None] = []
    last = -1
    try:
        places = op.source_map(source, len(result), op.settings).results
    except UndecidedSizeError:
        return _parallel(op, (None,))
    for size, expr in zip(source, places, strict=True):
        match expr:
            case AffineConstantExpr() if size == 1:
                access.append(None)
            case AffineDimExpr(position=loop) if size == result[loop] and loop > last:
                access.append(None if size == 1 else loop)
                last = loop
            case _:
                return _parallel(op, (None,))
    return _parallel(op, (tuple(access),))


def _reduction(op: ReductionOp) -> Iteration:
    extents = shape(op, op.operands[0].type)
    settings = op.settings
    axis = settings["axis"]
    reduced = normalize_axes((axis,) if isinstance(axis, int) else axis, len(extents))
    kept = _loops(extents)
    if settings["keepdims"]:
        access = tuple([None if i in reduced else loop for i, loop in enumerate(kept)])
    else:
        access = tuple([loop for i, loop in enumerate(kept) if i not in reduced])
    parallel = tuple([i not in reduced for i in range(len(extents))])
    return Iteration(extents, parallel, (kept,), (access,) * len(op.results))


def _contraction(op: ContractionOp) -> Iteration | None:
    result = shape(op, op.results[0].type)
    try:
        structure = type(op).loops([shape(op, operand.type) for operand in op.operands], op.settings)
    except UndecidedSizeError:
        return None
    access = _plain_access(structure.result_map, result, structure.extents)
    if access is None:
        return None
    operands = tuple(
        [
            _plain_access(places, shape(op, operand.type), structure.extents)
            for operand, places in zip(op.operands, structure.operand_maps, strict=True)
        ]
    )
    parallel = tuple([not reduced for reduced in structure.reductions])
    moving = {loop for loop, extent in enumerate(structure.extents) if parallel[loop] and extent != 1}
    windows = tuple(
        [
            None if known is not None else _window_access(places, shape(op, operand.type), structure.extents, moving)
            for operand, places, known in zip(op.operands, structure.operand_maps, operands, strict=True)
        ]
    )
    return Iteration(structure.extents, parallel, operands, (access,), windows)


def _window_access(
    places: AffineMap, sizes: tuple[int, ...], extents: tuple[int, ...], moving: set[int]
) -> Access | None:
    """The loops that index some dimensions of a value, if all of the loops `moving` count for some dimension."""
    used = {expr.position for place in places.results for expr in place.dfs() if isinstance(expr, AffineDimExpr)}
    if not moving <= used:
        return None
    return _access(places, sizes, extents)


def _plain_access(places: AffineMap, sizes: tuple[int, ...], extents: tuple[int, ...]) -> Access | None:
    """The loops that index a value, if each dimension is a loop of its own that runs over all of it."""
    access = _access(places, sizes, extents)
    return None if ACROSS in access else access


def _access(places: AffineMap, sizes: tuple[int, ...], extents: tuple[int, ...]) -> Access:
    """The loops that run over all of a dimension each; what is indexed otherwise is `ACROSS`."""
    access: list[int | None] = []
    for size, place in zip(sizes, places.results, strict=True):
        if size == 1:
            access.append(None)
        elif isinstance(place, AffineDimExpr) and extents[place.position] == size and place.position not in access:
            access.append(place.position)
        else:
            access.append(ACROSS)
    return tuple(access)


def rearranges_results(op: Operation, iteration: Iteration) -> bool:
    """Whether `op` reads elements once, at other places, and nothing that uses its result could share its loops."""
    if not isinstance(op, IndexMapOp) or iteration.operands[0] is not None:
        return False
    if not is_at_most(prod(iteration.extents), prod(shape(op, op.operands[0].type))) or not is_indexed(op):
        return False
    return not any(isinstance(use.operation, ElementwiseOp | ReductionOp) for use in op.results[0].uses)


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
