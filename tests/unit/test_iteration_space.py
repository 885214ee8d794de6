"""Iteration spaces: an op says of its loops what its meaning in `linalg` has; what indices and loops reach."""

from __future__ import annotations

from typing import Any

import pytest
from sample import Sample
from samples import samples_of
from xdsl.dialects import linalg
from xdsl.ir.affine import AffineExpr, AffineMap

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.value import InsertionPoint, inserting
from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexMapOp, ReductionOp
from tenon.dialects.families.iteration_space import ACROSS, IterationSpace, Subscript

FAMILIES = (ContractionOp, ElementwiseOp, IndexMapOp, ReductionOp)
SAMPLES = [
    sample
    for name, op in registry().items()
    if issubclass(op, FAMILIES)
    for sample in samples_of(name, 2)[:1]
    if all(0 not in array.shape for array in sample.arrays)
]


def spaces_of_meaning(op: Any) -> list[IterationSpace]:
    """Those of the generics that an op becomes."""
    before = set(op.parent.ops)
    with inserting(InsertionPoint(op.parent, op)):
        op.structured(op.grouped_operands())
    made = [new for new in op.parent.ops if new not in before]
    return [IterationSpace.of(new) for new in made if isinstance(new, linalg.ops.GenericOp)]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_fusion_is_told_the_loops_that_an_op_has(sample: Sample) -> None:
    module = tenon.jit(lambda *values: sample.apply(values)).trace(*sample.arrays).module
    for op in [op for op in module.walk() if isinstance(op, FAMILIES)]:
        told = op.iteration_space(op.operands)
        found = [
            space
            for space in spaces_of_meaning(op)
            if (space.extents, space.parallel) == (told.extents, told.parallel)
            and all(places in space.operands for places in told.operands)
        ]
        # An index map that linalg does not take is read element by element.
        assert found or isinstance(op, IndexMapOp), told


R, C = AffineExpr.dimension(0), AffineExpr.dimension(1)


@pytest.mark.parametrize(
    ("index", "factors", "constant", "least", "end"),
    [
        (R, {0: 1}, 0, 0, 4),
        (R * 2 + C + 1, {0: 2, 1: 1}, 1, 1, 10),
        (R * -1 + 3, {0: -1}, 3, 0, 4),
        ((R + C * 2) * 3, {0: 3, 1: 6}, 0, 0, 22),
        (AffineExpr.constant(5), {}, 5, 5, 6),
    ],
)
def test_what_an_index_reaches(index: Any, factors: dict[int, int], constant: int, least: int, end: int) -> None:
    subscript = Subscript.of(index)
    assert subscript == Subscript(factors, constant)
    extents = (4, 3)
    reached = [index.eval([i, j], ()) for i in range(extents[0]) for j in range(extents[1])]
    assert (min(reached), max(reached) + 1) == (least, end)
    assert (subscript.least(extents), subscript.end(extents)) == (least, end)


def test_what_is_no_sum_of_loops_is_named() -> None:
    with pytest.raises(ValueError, match=r"floordiv 2\) is no sum of loops times constants"):
        Subscript.of(R // 2)


@pytest.mark.parametrize(
    ("maps", "shapes", "message"),
    [
        ([AffineMap(2, 0, (R, C)), AffineMap(2, 0, (R,))], [(4, 3), (5,)], "loop d0 has extent 4 and 5"),
        ([AffineMap(2, 0, (R + C,)), AffineMap(2, 0, (R,))], [(4,), (4,)], "loop d1 is no index of any operand"),
    ],
)
def test_a_loop_has_one_extent(maps: list[AffineMap], shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IterationSpace.over(maps, (True, True), shapes, 1)


@pytest.mark.parametrize(
    ("indices", "shape", "axes"),
    [
        ((R, C), (4, 3), (0, 1)),
        ((C, R), (3, 4), (1, 0)),
        ((R, AffineExpr.constant(0)), (4, 1), (0, None)),
        ((R,), (5,), (ACROSS,)),  # the last element is not reached
        ((R, R), (4, 4), (0, ACROSS)),  # only the diagonal is
        ((R + C,), (6,), (ACROSS,)),
    ],
)
def test_which_loops_run_over_dimensions(
    indices: tuple[AffineExpr, ...], shape: tuple[int, ...], axes: tuple[int | None, ...]
) -> None:
    assert IterationSpace((4, 3), (True, True), (), ()).axes(AffineMap(2, 0, indices), shape) == axes


def test_a_space_inside_of_another() -> None:
    """A transpose, seen from the loops of an op that reads its result in windows."""
    inner = IterationSpace((3, 9), (True, True), (AffineMap(2, 0, (R, C)),), (AffineMap(2, 0, (C, R)),))
    windows = AffineMap(3, 0, (AffineExpr.dimension(0) * 2 + AffineExpr.dimension(1), AffineExpr.dimension(2)))
    around = IterationSpace((4, 3, 3), (True, False, True), (windows,), ())
    seen = inner.inside(inner.loops_at(0, windows), around)
    assert seen.extents == around.extents
    assert seen.results == (windows,)
    assert seen.operands == (AffineMap(3, 0, tuple(reversed(windows.results))),)
    assert not seen.tells_extents()
    assert inner.tells_extents()
    assert inner.without(0) == IterationSpace((3, 9), (True, True), (), inner.results)
    assert inner.without(1) == IterationSpace((3, 9), (True, True), inner.operands, ())
