"""Loop structures read off an `indexing` hook: maps, extents, and the rule that sizes of one loop must agree."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

from xdsl.ir.affine import (
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.types.shapes import InferenceError, Shape
from tenon.dialects.types.size import Size


@dataclass(frozen=True)
class LoopStructure(IterationSpace):
    """The space of an op with one result, which loops that do not index it reduce; unknown extents are -1."""

    names: tuple[str, ...]
    hidden: tuple[int, ...]
    """Loops that index no operand by themselves, in any operand."""

    @staticmethod
    def reducing(
        names: Sequence[str], extents: Sequence[int], operands: Sequence[AffineMap], result: AffineMap, hidden: set[int]
    ) -> LoopStructure:
        """The loops `names` over operands and a result of these maps."""
        parallel = tuple([not reduced for reduced in reduction_loops(result)])
        return LoopStructure(tuple(extents), parallel, tuple(operands), (result,), tuple(names), tuple(sorted(hidden)))

    @property
    def result_map(self) -> AffineMap:
        return self.results[0]

    @property
    def result_shape(self) -> tuple[int, ...]:
        return tuple([Subscript.of(e).end(self.extents) for e in self.result_map.results])


def reduction_loops(result_map: AffineMap) -> tuple[bool, ...]:
    """The loops that do not index the result as one plain dimension, so that it is read and updated.

    Several of them may meet in one element; a loop that indexes two dimensions leaves out what is off the diagonal.
    """
    plain = [e.position for e in result_map.results if isinstance(e, AffineDimExpr)]
    return tuple([plain.count(i) != 1 for i in range(result_map.num_dims)])


def behind_examples(index: AffineMap, is_batched: bool) -> AffineMap:
    """`index` with a loop over examples before its loops, which is the first index of what is batched."""
    count = index.num_dims + 1
    examples, *loops = [AffineExpr.dimension(i) for i in range(count)]
    results = [expr.replace_dims_and_symbols(loops, ()) for expr in index.results]
    return AffineMap(count, 0, (examples, *results) if is_batched else tuple(results))


def _loop_names(indexing: Callable[..., Any], batch: int, ranks: Mapping[str, int]) -> list[str]:
    names: list[str] = []
    trailing: list[str] = []
    for parameter in inspect.signature(indexing).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names = [f"{parameter.name}{i}" for i in range(batch)]
        elif parameter.name in ranks:
            trailing.extend([f"{parameter.name}{i}" for i in range(ranks[parameter.name])])
        elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            trailing.append(parameter.name)
    return [*trailing, *names]


def _indices(
    indexing: Callable[..., Any], count: int, ranks: Mapping[str, int], settings: dict[str, Any]
) -> list[tuple[AffineExpr, ...]]:
    """What `indexing` returns for `count` loops; a parameter in `ranks` gets that many of them as a tuple."""
    loops = iter([AffineExpr.dimension(i) for i in range(count)])
    arguments = [
        tuple(islice(loops, ranks[parameter.name])) if parameter.name in ranks else next(loops)
        for parameter in inspect.signature(indexing).parameters.values()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    try:
        indices = indexing(*arguments, *loops, **settings)
    except NotImplementedError as error:  # by xDSL's expressions
        raise InferenceError(f"an index of indexing is no sum of multiples of loops: {error}") from error
    if not isinstance(indices, tuple | list):
        raise TypeError(f"indexing returns a {type(indices).__name__} where a tuple of indices is needed")
    return [tuple(index) for index in indices]


def has_batch(indexing: Callable[..., Any]) -> bool:
    """Whether operands of `indexing` may have any number of leading dimensions."""
    return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in inspect.signature(indexing).parameters.values())


def loop_structure(
    indexing: Callable[..., Any],
    given: dict[str, int],
    operand_names: Sequence[str],
    shapes: Sequence[Shape],
    settings: dict[str, Any],
    ranks: Mapping[str, int] = MappingProxyType({}),
) -> LoopStructure:
    """The loops of `indexing` for operands of known rank. Raises `InferenceError` naming loop, sizes and operands.

    A parameter that `ranks` names stands for that many loops, `name0` to `nameN`.
    """
    batch = 0
    if has_batch(indexing):
        plain = _indices(indexing, len(_loop_names(indexing, 0, ranks)), ranks, settings)
        batch = max([0, *[len(shape or ()) - len(index) for shape, index in zip(shapes, plain, strict=False)]])
    names = _loop_names(indexing, batch, ranks)
    indices = _indices(indexing, len(names), ranks, settings)
    if len(indices) != len(operand_names) + 1:
        raise TypeError(
            f"indexing returns {len(indices)} indices where one for each operand ({', '.join(operand_names)}) "
            "and one for the result are needed"
        )
    extents = _Extents(names, len(names) - batch, given)
    maps: list[list[AffineExpr]] = []
    for operand, shape, index in zip(operand_names, shapes, indices, strict=False):
        assert shape is not None
        missing = len(index) - len(shape)
        if missing < 0 or missing > batch:
            needed = f"{len(index) - batch}" + (" or more" if has_batch(indexing) else "")
            raise InferenceError(f"rank of {operand} is {len(shape)} where {needed} is needed")
        maps.append(list(index[missing:]))
        extents.add(operand, maps[-1], shape)
    extents.settle()
    if untold := [name for name, extent in zip(names, extents.known, strict=True) if extent == UNTOLD]:
        raise InferenceError(f"no operand tells how far loop {untold[0]} of indexing runs; the hook extents can")
    visible = {e.position for own in maps for e in own if isinstance(e, AffineDimExpr)}
    count = len(names)
    return LoopStructure.reducing(
        names,
        [max(e, -1) for e in extents.known],
        [AffineMap(count, 0, tuple(own)) for own in maps],
        AffineMap(count, 0, indices[-1]),
        {i for i in range(count) if i not in visible and names[i] in given},
    )


UNTOLD = -2
"""The extent of a loop that no operand indexes; that of one whose operands are of unknown size is -1."""


class _Extents:
    """What the shapes of operands tell about loops, of which those from `first_batch` on broadcast."""

    def __init__(self, names: Sequence[str], first_batch: int, given: Mapping[str, int]) -> None:
        self.names, self.first_batch = names, first_batch
        self.known = [UNTOLD] * len(names)
        self.origin = [""] * len(names)
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"extents returns a {type(given).__name__} where a dict of extents by loop is needed")
        for name, extent in given.items():
            if name not in names:
                raise TypeError(f"extents names a loop {name!r} where those of indexing are {', '.join(names)}")
            if not isinstance(extent, Size) and (not hasattr(extent, "__index__") or extent < 0):
                raise InferenceError(f"extents is {extent} for loop {name} where an integer of at least 0 is needed")
            self.known[names.index(name)], self.origin[names.index(name)] = extent, "the settings"
        self.deferred: list[tuple[AffineExpr, int, str]] = []
        self.broadcast: list[tuple[list[AffineExpr], int, int]] = []

    def add(self, operand: str, indices: list[AffineExpr], shape: Sequence[int]) -> None:
        """Take what a plain index tells; `settle` takes the rest."""
        for position, (expr, size) in enumerate(zip(indices, shape, strict=True)):
            if not isinstance(expr, AffineDimExpr):
                self.deferred.append((expr, size, operand))
                continue
            loop = expr.position
            known, is_batch = self.known[loop], loop >= self.first_batch
            if is_batch and size == 1:
                self.broadcast.append((indices, position, loop))
            if known < 0 or (is_batch and known == 1):
                self.known[loop], self.origin[loop] = size, operand
            elif size >= 0 and size != known and not (is_batch and size == 1):
                message = f"dimension {self.names[loop]} is {known} in {self.origin[loop]} and {size} in {operand}"
                raise InferenceError(message, (known, size))

    def settle(self) -> None:
        """Solve the indices that are sums, and read what broadcasts at 0."""
        for expr, size, operand in self.deferred:
            _solve(expr, size, operand, self.names, self.known)
        for indices, position, loop in self.broadcast:
            if self.known[loop] != 1:
                indices[position] = AffineExpr.constant(0)


def _solve(expr: AffineExpr, size: int, operand: str, names: Sequence[str], extents: list[int]) -> None:
    """Find the extent of the one loop in `expr` that is not known yet, from the size that the expression spans."""
    index = Subscript.of(expr)
    terms, constant = index.factors, index.constant
    unknown = [loop for loop in terms if extents[loop] == UNTOLD]
    text = " + ".join(names[loop] if c == 1 else f"{names[loop]}*{c}" for loop, c in terms.items())
    if constant < 0 or any(c < 0 for c in terms.values()):
        raise InferenceError(
            f"the index {text} + {constant} of {operand} counts down or begins below 0, where a sum of multiples of "
            "loops is needed; flip or slice the operand instead"
        )
    if len(unknown) > 1:
        for loop in unknown:
            extents[loop] = -1
        return
    others = [loop for loop in terms if loop not in unknown]
    if size < 0 or any(extents[loop] < 0 for loop in others):
        for loop in unknown:
            extents[loop] = -1
        return
    if any(terms[loop] == 0 for loop in unknown):
        raise InferenceError(f"{operand} does not tell how far loop {names[unknown[0]]} runs, indexed by {text}")
    # A window without elements reaches over none, however far apart they would be.
    room = size - 1 - constant - sum(max(terms[loop] * (extents[loop] - 1), -1) for loop in others)
    if room < 0:
        raise InferenceError(f"{operand} has size {size} along {text}, where {size - room} or more is needed")
    for loop in unknown:
        extents[loop] = room // terms[loop] + 1
